#include "data/labelled.h"

#include "data/examples.h"
#include "data/permissions.h"
#include "files.h"
#include "model/model.h"
#include "options/profile.h"
#include "output.h"
#include "process.h"

/* ---- Names of labels ---- */

eitp_status label_names_read(const eitp_transformer_config *shape, const char *directory, label_names *names,
                             eitp_error *error) {
    eitp_context_config config = eitp_context_config_default();
    eitp_status status;
    config.host = command_host();
    config.host.log.write = NULL;
    config.plans_only = 1;
    names->count = shape->labels;
    status = eitp_context_create(&config, &names->context, error);
    if (!status)
        status = eitp_model_create(names->context, shape, &names->model, error);
    if (!status)
        status = eitp_model_read_labels(names->model, directory, error);
    if (status || eitp_model_labels_are_numbers(names->model))
        return status;
    names->names = (const char **)command_allocate((size_t)names->count * sizeof *names->names);
    for (int64_t i = 0; i < names->count; i++)
        names->names[i] = eitp_model_label(names->model, i);
    return EITP_OK;
}

void label_names_release(label_names *names) {
    free(names->names);
    eitp_model_destroy(names->model);
    eitp_context_destroy(names->context);
    memset(names, 0, sizeof *names);
}

/* "a, b and 3 others" */
static const char *list_labels(const char *const *names, int64_t count, char *text, size_t size) {
    enum { SHOWN = 6 };
    size_t used = 0;
    for (int64_t i = 0; i < count && i < SHOWN && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%.20s", i ? ", " : "", names[i]);
    if (count > SHOWN && used < size)
        snprintf(text + used, size - used, " and %lld other%s", (long long)(count - SHOWN),
                 count == SHOWN + 1 ? "" : "s");
    return text;
}

eitp_status labelled_match(const eitp_model *model, const data_file *data, const char *path, int32_t *numbers,
                           eitp_label_match *match, eitp_error *error) {
    const eitp_labelled_source source = eitp_labelled_file_source(data->labelled);
    const int64_t labels = eitp_model_config(model).labels;
    const char **names;
    char theirs[200], own[200];
    if (!eitp_model_match_labels(model, &source, numbers, match, error))
        return EITP_OK;
    if (error->status != EITP_ERROR_ARGUMENT)
        return error->status;
    if (!source.labels)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "'%s' has %lld numbers for each text, but the model predicts %lld; use data with as many, "
                            "or the model without its classifier",
                            path, (long long)source.label_count, (long long)labels);
    names = (const char **)command_allocate((size_t)labels * sizeof *names);
    for (int64_t i = 0; i < labels; i++)
        names[i] = eitp_model_label(model, i);
    command_fail(
        error, EITP_ERROR_ARGUMENT,
        "'%s' has %lld label%s (%s) that do not fit the %lld of the model's classifier (%s); use data with its "
        "labels, name them in id2label of its config.json, or use the model without its classifier",
        path, (long long)source.label_count, source.label_count == 1 ? "" : "s",
        list_labels(source.labels, source.label_count, theirs, sizeof theirs), (long long)labels,
        list_labels(names, labels, own, sizeof own));
    free(names);
    return EITP_ERROR_ARGUMENT;
}

/* ---- Examples ---- */

/* A source whose examples have no labels. */
static eitp_status read_without_labels(void *user, eitp_example *example, int *is_end, eitp_error *error) {
    const eitp_example_source *source = (const eitp_example_source *)user;
    eitp_status status = source->read(source->user, example, is_end, error);
    example->label_count = 0;
    example->labels_are_list = 0;
    return status;
}

eitp_status labelled_find_labels(const option_set *o, option_id id, labels_found *found, eitp_error *error) {
    const eitp_host host = command_host();
    const eitp_table_config config = examples_config(o, id);
    eitp_example_source source;
    eitp_example example;
    eitp_table *table;
    int is_end = 0;
    eitp_status status = eitp_table_open(&host, &config, &table, error);
    *found = LABELS_NONE;
    if (status)
        return status;
    source = eitp_table_source(table);
    status = source.read(source.user, &example, &is_end, error);
    if (!status && !is_end && example.label_count > 0)
        *found = example.words && example.labels_are_list ? LABELS_OF_WORDS : LABELS_OF_TEXTS;
    eitp_table_close(table);
    return status;
}

int64_t labelled_max_length(option_set *o, const eitp_tokenizer *tokenizer, const eitp_transformer_config *shape) {
    const int64_t positions = eitp_transformer_config_positions(shape);
    const int64_t length = eitp_tokenizer_sequence_defaults(tokenizer).max_length;
    if (!options_has(o, OPTION_BLOCK_SIZE))
        options_set_integer(o, OPTION_BLOCK_SIZE, length && length < positions ? length : positions, SOURCE_DEFAULT);
    profile_lower_block_size(o, positions);
    return model_block_size(o, NULL, positions);
}

/* ---- Packing ---- */

typedef struct packing {
    eitp_table *table;
    double started, shown;
} packing;

static int pack_progress(void *user, const eitp_labelled_progress *progress) {
    packing *state = (packing *)user;
    const eitp_table_statistics read = eitp_table_get_statistics(state->table);
    const double now = process_time();
    char line[200];
    if (now - state->shown < 0.2)
        return process_stop_signal();
    state->shown = now;
    if (now - state->started > 2)
        output_start();
    snprintf(line, sizeof line, "packing: %s of %s, %llu texts", output_bytes((double)read.bytes),
             output_bytes((double)read.bytes_total), (unsigned long long)progress->examples);
    output_progress(line);
    return process_stop_signal();
}

static eitp_status pack(const option_set *o, option_id id, const labelled_settings *settings, const data_file *data,
                        eitp_error *error) {
    const eitp_host host = data_host(data);
    const eitp_table_config table = examples_config(o, id);
    eitp_example_source rows, source;
    eitp_labelled_pack_config config;
    eitp_labelled_info info;
    packing state;
    mode_t before;
    eitp_status status = eitp_table_open(&host, &table, &state.table, error);
    if (status)
        return status;
    memset(&config, 0, sizeof config);
    state.started = state.shown = process_time();
    rows = source = eitp_table_source(state.table);
    if (settings->drops_labels) {
        source.user = &rows;
        source.read = read_without_labels;
    }
    config.sequence.max_length = (int32_t)settings->max_length;
    config.problem = settings->problem;
    config.labels = settings->labels;
    config.label_count = settings->label_count;
    config.skip_bad = table.skip_bad;
    config.dedup = (int)options_integer(o, OPTION_DEDUP);
    config.progress = pack_progress;
    config.user = &state;
    before = permissions_lower(o, id, data->path);
    status = eitp_labelled_pack(&host, settings->tokenizer, &config, &source, data->path, &info, error);
    permissions_restore(before);
    if (!status)
        output_info("packed %llu samples into %llu tokens, at most %lld each, in %.1f s: %s",
                    (unsigned long long)info.sample_count, (unsigned long long)info.id_count,
                    (long long)info.max_length, process_time() - state.started, data->path);
    eitp_table_close(state.table);
    return data_explain(status, error);
}

/* What decides the samples, besides the files. */
static uint64_t fingerprint(const option_set *o, option_id id, const labelled_settings *s) {
    static const option_id ids[] = {OPTION_PAIR_COLUMN, OPTION_LABEL_COLUMN};
    uint64_t hash = data_fingerprint(o, id, s->tokenizer);
    const int64_t numbers[] = {s->max_length, s->problem, s->label_count, s->drops_labels,
                               options_integer(o, OPTION_DEDUP)};
    hash = data_hash(hash, numbers, sizeof numbers);
    for (size_t i = 0; i < COMMAND_COUNT(ids); i++) {
        const char *text = options_text(o, ids[i]);
        hash = text ? data_hash(data_hash(hash, &i, sizeof i), text, strlen(text) + 1) : hash;
    }
    for (int64_t i = 0; s->labels && i < s->label_count; i++)
        hash = data_hash(hash, s->labels[i], strlen(s->labels[i]) + 1);
    return hash;
}

char *labelled_packed_path(const option_set *o, option_id id, const labelled_settings *settings,
                           const char *directory) {
    return command_format("%s/%016llx.labelled", directory, (unsigned long long)fingerprint(o, id, settings));
}

/* 1 if `path` is a whole labelled file. A damaged one is packed again. */
static int is_packed(const char *path, eitp_error *error) {
    const eitp_host host = command_host();
    eitp_labelled_file *file;
    eitp_status status;
    if (files_info(path).kind != EITP_PATH_FILE)
        return 0;
    status = eitp_labelled_file_open(&host, path, 0, &file, error);
    if (!status)
        status = eitp_labelled_file_verify(file, error);
    eitp_labelled_file_close(file);
    if (!status)
        output_info("reusing packed data: %s", path);
    else if (!process_stop_signal())
        output_warning("%s; packing the texts again", error->message);
    return !status;
}

static eitp_status pack_in_directory(const option_set *o, option_id id, const labelled_settings *settings,
                                     const char *directory, data_file *data, eitp_error *error) {
    int made = 0;
    eitp_status status;
    data->path = labelled_packed_path(o, id, settings, directory);
    data->verified = data_is_reusable(o, id) && is_packed(data->path, error);
    if (data->verified)
        return EITP_OK;
    if (process_stop_signal())
        return command_fail(error, EITP_ERROR_INTERRUPTED, "packing was stopped");
    status = files_create_directories(directory, &made, error);
    if (status)
        return status;
    data->packed = 1;
    return pack(o, id, settings, data, error);
}

eitp_status labelled_open(const option_set *o, option_id id, const labelled_settings *settings, const char *directory,
                          data_file *data, eitp_error *error) {
    eitp_status status = EITP_OK;
    eitp_host host;
    if (!settings->tokenizer)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "the model has no tokenizer; name one with --tokenizer, as a directory with tokenizer.json "
                            "or vocab.txt");
    if (!data->path && directory)
        status = pack_in_directory(o, id, settings, directory, data, error);
    else if (!data->path && !(status = data_create_temporary(data, error)))
        status = pack(o, id, settings, data, error);
    host = data_host(data);
    return status ? status
                  : eitp_labelled_file_open(&host, data->path, (int32_t)settings->vocabulary, &data->labelled, error);
}

void labelled_report(const data_file *data) {
    const eitp_labelled_info info = eitp_labelled_file_get_info(data->labelled);
    if (info.cut_samples)
        output_warning(
            "%llu of %llu texts are longer than %lld tokens and lost %llu tokens; --block-size sets the length",
            (unsigned long long)info.cut_samples, (unsigned long long)info.sample_count,
            (long long)info.sequence.max_length, (unsigned long long)info.cut_ids);
    if (info.cut_words)
        output_warning("%llu words are among what they lost: they and their labels are left out",
                       (unsigned long long)info.cut_words);
    if (info.skipped)
        output_warning("%llu bad rows were skipped", (unsigned long long)info.skipped);
    if (info.repeated || info.ambiguous)
        output_warning("%llu rows repeat an earlier one, and %llu have texts that occur with different labels%s",
                       (unsigned long long)info.repeated, (unsigned long long)info.ambiguous,
                       info.dedup ? "; --dedup left them out" : "; --dedup leaves them out");
}

/* Labels that occur once, as of a header that was read as a row. */
static void warn_single(const eitp_labelled_source *source, const uint64_t *counts, const char *path) {
    const char **names = (const char **)command_allocate((size_t)source->label_count * sizeof *names);
    int64_t count = 0;
    char text[200];
    for (int64_t i = 0; i < source->label_count; i++) {
        if (counts[i] == 1)
            names[count++] = source->labels[i];
    }
    if (count == source->label_count && count > 1)
        output_warning("each of the %lld labels of '%s' occurs once (%s); is --label-column the column of the labels?",
                       (long long)count, path, list_labels(names, count, text, sizeof text));
    else if (count)
        output_warning("%lld of the %lld labels of '%s' occur%s once (%s), which is too little to learn; is the header "
                       "of a table among the rows?",
                       (long long)count, (long long)source->label_count, path, count == 1 ? "s" : "",
                       list_labels(names, count, text, sizeof text));
    free(names);
}

void labelled_report_labels(const data_file *data, const char *path) {
    const eitp_host host = command_host();
    const eitp_labelled_source source = eitp_labelled_file_source(data->labelled);
    uint64_t *counts = (uint64_t *)command_allocate((size_t)(source.label_count + 1) * sizeof *counts);
    int64_t used = 0, last = 0;
    eitp_error ignored;
    if (source.labels && source.problem != EITP_PROBLEM_REGRESSION &&
        !eitp_labelled_class_counts(&host, &source, counts, &ignored)) {
        for (int64_t i = 0; i < source.label_count; i++) {
            used += counts[i] > 0;
            last = counts[i] ? i : last;
        }
        if (used == 1 && source.problem != EITP_PROBLEM_MULTI_LABEL)
            output_warning("all rows of '%s' have the label %.60s: there is nothing to tell apart; is --label-column "
                           "the column of the labels?",
                           path, source.labels[last]);
        else
            warn_single(&source, counts, path);
    }
    free(counts);
}
