#include "command_labelled.h"

#include "command_examples.h"
#include "command_files.h"
#include "command_model.h"
#include "command_output.h"
#include "command_process.h"

/* ---- Names of labels ---- */

int label_is_number(const char *name, int64_t label) {
    char expected[32];
    snprintf(expected, sizeof expected, "LABEL_%lld", (long long)label);
    return !strcmp(name, expected);
}

/* True if no label has a name of its own. */
static int are_numbers(const eitp_model *model, int64_t count) {
    int64_t i = 0;
    while (i < count && label_is_number(eitp_model_label(model, i), i))
        i++;
    return i == count;
}

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
    if (status || are_numbers(names->model, names->count))
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

static eitp_status pack(const option_set *o, option_id id, const labelled_settings *settings, const char *path,
                        eitp_error *error) {
    const eitp_host host = command_host();
    const eitp_table_config table = examples_config(o, id);
    eitp_example_source rows, source;
    eitp_labelled_pack_config config;
    eitp_labelled_info info;
    packing state;
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
    status = eitp_labelled_pack(&host, settings->tokenizer, &config, &source, path, &info, error);
    if (!status)
        output_info("packed %llu samples into %llu tokens, at most %lld each, in %.1f s: %s",
                    (unsigned long long)info.sample_count, (unsigned long long)info.id_count,
                    (long long)info.max_length, process_time() - state.started, path);
    eitp_table_close(state.table);
    return status;
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
    data->path = command_format("%s/%016llx.labelled", directory, (unsigned long long)fingerprint(o, id, settings));
    data->verified = data_is_reusable(o, id) && is_packed(data->path, error);
    if (data->verified)
        return EITP_OK;
    if (process_stop_signal())
        return command_fail(error, EITP_ERROR_INTERRUPTED, "packing was stopped");
    status = files_create_directories(directory, &made, error);
    if (status)
        return status;
    data->packed = 1;
    return pack(o, id, settings, data->path, error);
}

eitp_status labelled_open(const option_set *o, option_id id, const labelled_settings *settings, const char *directory,
                          data_file *data, eitp_error *error) {
    const eitp_host host = command_host();
    eitp_status status = EITP_OK;
    if (!settings->tokenizer)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "the model has no tokenizer; name one with --tokenizer, as a directory with tokenizer.json "
                            "or vocab.txt");
    if (directory)
        status = pack_in_directory(o, id, settings, directory, data, error);
    else if (!(status = data_create_temporary(data, error)))
        status = pack(o, id, settings, data->path, error);
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
