#include "data/labelled.h"

#include "data/examples.h"
#include "data/permissions.h"
#include "files.h"
#include "model/model.h"
#include "options/profile.h"
#include "output.h"
#include "process.h"

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

eitp_status labelled_open(const option_set *o, option_id id, const labelled_settings *settings, data_file *data,
                          eitp_error *error) {
    eitp_status status = EITP_OK;
    eitp_host host;
    if (!settings->tokenizer)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "the model has no tokenizer; name one with --tokenizer, as a directory with tokenizer.json "
                            "or vocab.txt");
    if (!data->path && !(status = data_create_temporary(data, error)))
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
