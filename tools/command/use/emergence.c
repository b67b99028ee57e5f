#include "use/emergence.h"

#include "files.h"
#include "output.h"
#include "result_file.h"

#include <time.h>

typedef struct measuring {
    const trained_model *trained;
    trained_model reference; /* of --reference-model */
    eitp_emergence_config config;
    eitp_emergence_report report;
} measuring;

eitp_status emergence_check(const option_set *o, eitp_error *error) {
    static const option_id of_emergence[] = {OPTION_SEED, OPTION_OUTPUT, OPTION_REFERENCE_MODEL};
    const char *path = options_text(o, OPTION_OUTPUT);
    char *parent;
    int exists;
    /* A file of options may be for several commands. */
    for (size_t i = 0; i < COMMAND_COUNT(of_emergence); i++) {
        if (o->values[of_emergence[i]].source == SOURCE_COMMAND_LINE && !options_integer(o, OPTION_EMERGENCE))
            return command_fail(error, EITP_ERROR_ARGUMENT, "--%s requires --emergence", options_name(of_emergence[i]));
    }
    if (!path)
        return EITP_OK;
    parent = files_parent(path);
    exists = files_info(parent).kind == EITP_PATH_DIRECTORY;
    free(parent);
    return exists ? EITP_OK
                  : command_fail(error, EITP_ERROR_ARGUMENT, "--output: the directory of '%s' does not exist", path);
}

/* ---- JSON ---- */

static void add_number_json(const eitp_emergence_number *number, text_buffer *t) {
    char name[EITP_EMERGENCE_NAME_SIZE + 8];
    text_json_member_number(t, number->name, number->value);
    snprintf(name, sizeof name, "%s_n", number->name);
    text_json_member_integer(t, name, number->count);
    snprintf(name, sizeof name, "%s_error", number->name);
    text_json_member_number(t, name, number->error);
}

static void add_json(const measuring *m, text_buffer *t) {
    char hash[24];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)m->report.config_hash);
    text_format(t, "{");
    text_json_member_string(t, "model", m->trained->directory);
    if (m->trained->adapter)
        text_json_member_string(t, "adapter", m->trained->adapter);
    if (m->reference.directory)
        text_json_member_string(t, "reference", m->reference.directory);
    text_json_member_string(t, "version", eitp_version());
    text_json_member_integer(t, "time", (int64_t)time(NULL));
    text_json_member_integer(t, "seed", (int64_t)m->config.seed);
    text_json_member_string(t, "config_hash", hash);
    text_json_member_integer(t, "sequences", m->report.sequences);
    text_json_member_integer(t, "block_size", eitp_training_get_recipe(m->trained->training)->task.block_size);
    for (size_t i = 0; i < m->report.number_count; i++)
        add_number_json(&m->report.numbers[i], t);
    text_json_name(t, "left_out");
    text_format(t, "{");
    for (size_t i = 0; i < m->report.omission_count; i++)
        text_json_member_string(t, m->report.omissions[i].name, m->report.omissions[i].reason);
    text_format(t, "}}\n");
}

/* ---- A table ---- */

static void add_table(const measuring *m, text_buffer *t) {
    const char *group = "";
    for (size_t i = 0; i < m->report.number_count; i++) {
        const eitp_emergence_number *number = &m->report.numbers[i];
        if (strcmp(group, number->group) != 0)
            text_format(t, "%s%-32s %14s %14s %10s\n", i ? "\n" : "", number->group, "value", "standard error", "n");
        group = number->group;
        text_format(t, "  %-30s %14.6g", number->name, number->value);
        if (number->error > 0)
            text_format(t, " %14.3g", number->error);
        else
            text_format(t, " %14s", "-");
        text_format(t, " %10lld\n", (long long)number->count);
    }
    text_format(t, "\nleft out\n");
    for (size_t i = 0; i < m->report.omission_count; i++)
        text_format(t, "  %-30s %s\n", m->report.omissions[i].name, m->report.omissions[i].reason);
}

/* ---- Both ---- */

/* Fails if the loss is not finite, as eitp eval does without --emergence. */
static eitp_status check_finite(const measuring *m, eitp_error *error) {
    if (eitp_training_get_shape(m->trained->training)->head != EITP_HEAD_LANGUAGE)
        return EITP_OK;
    for (size_t i = 0; i < m->report.number_count; i++) {
        if (!strcmp(m->report.numbers[i].name, "loss"))
            return EITP_OK;
    }
    return command_fail(error, EITP_ERROR_NOT_FINITE,
                        "the loss of '%s' on this data is not finite; evaluate an earlier checkpoint",
                        m->trained->directory);
}

static eitp_status print_report(const measuring *m, const option_set *o, eitp_error *error) {
    const char *path = options_text(o, OPTION_OUTPUT);
    text_buffer json = {NULL, 0, 0}, table = {NULL, 0, 0};
    eitp_status status = EITP_OK;
    add_json(m, &json);
    add_table(m, &table);
    if (path)
        status = result_file_write(path, json.data, json.size, NULL, error);
    if (!status) {
        const text_buffer *printed = options_integer(o, OPTION_JSON) ? &json : &table;
        output_start();
        output_result(printed->data, printed->size);
    }
    text_release(&json);
    text_release(&table);
    return status;
}

/* Opens the model that scores generated text. */
static eitp_status open_reference(measuring *m, const option_set *o, eitp_error *error) {
    const char *path = options_text(o, OPTION_REFERENCE_MODEL);
    eitp_status status;
    if (!path)
        return EITP_OK;
    status = trained_model_read_other(o, path, &m->reference, error);
    if (!status)
        status = trained_model_check_language(&m->reference, error);
    if (!status && !m->reference.tokenizer)
        status = command_fail(error, EITP_ERROR_ARGUMENT, "--reference-model: '%s' has no tokenizer",
                              m->reference.directory);
    m->config.reference = m->reference.model;
    m->config.reference_tokenizer = m->reference.tokenizer;
    return status;
}

eitp_status emergence_print(const trained_model *m, const option_set *o, int64_t samples, eitp_error *error) {
    measuring measured;
    eitp_status status;
    memset(&measured, 0, sizeof measured);
    measured.trained = m;
    measured.config = eitp_emergence_config_default();
    measured.config.seed = (uint64_t)options_integer(o, OPTION_SEED);
    measured.config.tokenizer = m->tokenizer;
    if (samples > 0)
        measured.config.sequences = samples < 1 << 20 ? samples : 1 << 20;
    status = open_reference(&measured, o, error);
    if (!status)
        status = eitp_emergence_measure(eitp_training_get_task(m->training), EITP_TRAINING, &measured.config,
                                        &measured.report, error);
    if (!status)
        status = check_finite(&measured, error);
    if (!status)
        status = print_report(&measured, o, error);
    eitp_emergence_release(&measured.report);
    trained_model_close(&measured.reference);
    return status;
}
