/* Labelled files of a recipe, packed from rows, and their parts. */
#include "base/checksum.h"
#include "base/clock.h"
#include "data/labelled_part.h"
#include "data/row_reader.h"
#include "data/sample_bytes.h"
#include "recipe/training.h"

EITP__PRIVATE int64_t eitp__training_max_length(const eitp_training *training) {
    const int64_t positions = eitp_transformer_config_positions(&training->shape);
    const int64_t cut = eitp_tokenizer_sequence_defaults(training->tokenizer).max_length;
    const int64_t size = training->recipe.task.block_size;
    const int64_t wanted = size < 0 ? cut ? cut : eitp__usual_positions(training) : size ? size : positions;
    return wanted < positions ? wanted : positions;
}

EITP__PRIVATE void eitp__settle_block_size(eitp_training *training) {
    const int64_t given = training->recipe.task.block_size, used = eitp__training_max_length(training);
    if (given > used)
        eitp__log_line(&training->host, EITP_LOG_WARNING,
                       "block_size is above the model's %lld positions (got %lld): samples are cut to %lld tokens",
                       (long long)used, (long long)given, (long long)used);
    training->recipe.task.block_size = used;
}

/* ---- Labels in the data ---- */

/* Sets *is_plain to 1 for a directory without subdirectories, whose files are just text. */
static eitp_status eitp__is_plain_directory(const eitp_host *host, const char *path, int *is_plain, eitp_error *error) {
    eitp_path_kind kind;
    eitp__buffer names;
    size_t count = 0, at = 0;
    eitp_status status = eitp__recipe_path_kind(host, path, NULL, &kind, error);
    *is_plain = !status && kind == EITP_PATH_DIRECTORY;
    if (!*is_plain)
        return status;
    eitp__buffer_init(&names, host);
    status = eitp__list_directory(host, path, &names, &count, error);
    for (size_t i = 0; i < count && !status && *is_plain; i++, at += strlen(names.data + at) + 1) {
        status = eitp__recipe_path_kind(host, path, names.data + at, &kind, error);
        *is_plain = kind != EITP_PATH_DIRECTORY;
    }
    eitp__buffer_release(&names);
    return status;
}

/* Sets *is_text to 1 if the data are not searched for labels: they are not a table, or cannot be read twice. */
static eitp_status eitp__is_only_text(const eitp_training *training, int *is_text, eitp_error *error) {
    const eitp_table_config config = eitp__part_table(training, EITP_TRAINING);
    eitp_status status = EITP_OK;
    *is_text = 0;
    for (size_t i = 0; i < config.texts.path_count && !status && !*is_text; i++) {
        *is_text = !strcmp(config.texts.paths[i], "-");
        if (!*is_text && !config.label_column)
            status = eitp__is_plain_directory(&training->host, config.texts.paths[i], is_text, error);
    }
    return status;
}

/* True if the failure concerns the machine rather than the data, so that the run must not depend on it. */
static int eitp__is_of_machine(eitp_status status) {
    return status == EITP_ERROR_IO || status == EITP_ERROR_MEMORY || status == EITP_ERROR_INTERRUPTED;
}

EITP__PRIVATE eitp_status eitp__find_labels(const eitp_training *training, eitp__labels_found *found,
                                            eitp_error *error) {
    const eitp_table_config config = eitp__part_table(training, EITP_TRAINING);
    eitp_example_source source;
    eitp_example example;
    eitp_table *table = NULL;
    int is_text, is_end = 0, is_missing = 0;
    eitp_status status = eitp__is_only_text(training, &is_text, error);
    *found = config.label_column || config.weight_column ? EITP__LABELS_OF_TEXTS : EITP__LABELS_NONE;
    if (status || is_text)
        return status;
    for (size_t i = 0; i < config.texts.path_count; i++) {
        eitp_path_info info = EITP__ZERO;
        is_missing |=
            !eitp__path_info(&training->host, config.texts.paths[i], &info, NULL) && info.kind == EITP_PATH_MISSING;
    }
    status = eitp_table_open(&training->host, &config, &table, error);
    if (!status) {
        source = eitp_table_source(table);
        status = source.read(source.user, &example, &is_end, error);
    }
    if (!status && !is_end && example.label_count)
        *found = example.words && example.labels_are_list ? EITP__LABELS_OF_WORDS : EITP__LABELS_OF_TEXTS;
    eitp_table_close(table);
    return is_missing || eitp__is_of_machine(status) ? status : EITP_OK;
}

/* ---- Packing ---- */

static eitp_status eitp__read_without_labels(void *user, eitp_example *example, int *is_end, eitp_error *error) {
    const eitp_example_source *rows = (const eitp_example_source *)user;
    const eitp_status status = rows->read(rows->user, example, is_end, error);
    example->label_count = 0;
    example->labels_are_list = 0;
    return status;
}

typedef struct eitp__sample_packing {
    const eitp_training *training;
    eitp_table *table;
} eitp__sample_packing;

static int eitp__samples_progress(void *user, const eitp_labelled_progress *progress) {
    const eitp__sample_packing *packing = (const eitp__sample_packing *)user;
    const eitp_recipe *recipe = &packing->training->recipe;
    const eitp_table_statistics read = eitp_table_get_statistics(packing->table);
    eitp_training_progress now = EITP__ZERO;
    now.stage = "packing";
    now.bytes = read.bytes;
    now.all_bytes = read.bytes_total;
    now.count = progress->examples;
    now.unit = "texts";
    return recipe->progress && recipe->progress(recipe->progress_user, &now);
}

static eitp_status eitp__pack_samples(eitp_training *training, eitp_split split, const eitp__sample_config *samples,
                                      eitp_error *error) {
    const eitp_table_config rows = eitp__part_table(training, split);
    eitp__data_part *part = &training->parts[split];
    eitp_labelled_pack_config config = EITP__ZERO;
    eitp_example_source source, labelled;
    eitp_sample_file_info info;
    eitp__sample_packing packing = {training, NULL};
    const double started = eitp__clock();
    eitp_status status = eitp__make_packed_directory(training, error);
    if (!status)
        status = eitp_table_open(&training->host, &rows, &packing.table, error);
    if (status)
        return status;
    source = labelled = eitp_table_source(packing.table);
    if (samples->drops_labels) {
        source.user = &labelled;
        source.read = eitp__read_without_labels;
    }
    config.sequence.max_length = (int32_t)samples->max_length;
    config.sequence.omit_special_tokens = samples->is_bare;
    if (samples->second_max_length) {
        config.second = training->encoder_tokenizer;
        config.second_sequence.max_length = (int32_t)samples->second_max_length;
    }
#if !EITP_WITHOUT_TEMPLATES
    if (samples->chat) {
        config.chat = samples->chat;
        config.chat_config = eitp__training_chat_config(training);
    }
#endif
    config.problem = samples->problem;
    config.labels = samples->labels;
    config.label_count = samples->label_count;
    config.skip_bad = rows.texts.skip_bad;
    config.dedup = training->recipe.data.dedup;
    config.progress = eitp__samples_progress;
    config.user = &packing;
    part->is_made = 1;
    status = eitp_labelled_pack(&training->host, training->tokenizer, &config, &source, part->path, &info, error);
    if (!status)
        eitp__log_line(&training->host, EITP_LOG_INFO,
                       "packed %llu samples into %llu tokens, at most %lld each, in %.1f s: %s",
                       (unsigned long long)info.sample_count, (unsigned long long)info.token_count,
                       (long long)info.max_length, eitp__clock() - started, part->path);
    if (!status && eitp_table_get_statistics(packing.table).has_weights && eitp_head_has_labels(training->kind->head))
        eitp__log_line(&training->host, EITP_LOG_WARNING,
                       "'%s' has a column that may contain weights, which is ignored; name it as "
                       "weight_column if it contains the weight of each row in the loss",
                       rows.texts.paths[0]);
    eitp_table_close(packing.table);
    return status;
}

/* Returns a hash of everything that determines the samples, except the files. */
static uint64_t eitp__sample_fingerprint(const eitp_training *training, eitp_split split,
                                         const eitp__sample_config *config) {
    const eitp_data_recipe *data = &training->recipe.data;
    const uint64_t second = config->second_max_length ? eitp_tokenizer_fingerprint(training->encoder_tokenizer) : 0;
    const int64_t numbers[] = {config->max_length, config->problem, config->label_count, config->drops_labels,
                               data->dedup};
    const int64_t more[] = {config->is_bare, config->second_max_length, (int64_t)(second >> 1)};
    const char *const texts[] = {data->pair_column, data->label_column, data->weight_column};
    uint64_t hash = eitp__part_fingerprint(training, split);
    hash = eitp__fnv1a(hash, numbers, sizeof numbers);
    if (config->is_bare)
        hash = eitp__fnv1a(hash, more, sizeof more);
    for (size_t i = 0; i < EITP__COUNT(texts); i++) {
        if (texts[i])
            hash = eitp__fnv1a(eitp__fnv1a(hash, &i, sizeof i), texts[i], strlen(texts[i]) + 1);
    }
    if (config->chat)
        hash = eitp__chat_fingerprint(training, hash);
    for (int64_t i = 0; config->labels && i < config->label_count; i++)
        hash = eitp__fnv1a(hash, config->labels[i], strlen(config->labels[i]) + 1);
    return hash;
}

/* Warns of samples that were cut, left out or repeated. */
static void eitp__report_samples(const eitp_training *training, const eitp_sample_file_info *info) {
    const eitp_host *host = &training->host;
    const char *left_out = info->dedup ? "left them out" : "leaves them out";
    if (info->cut_samples)
        eitp__log_line(
            host, EITP_LOG_WARNING,
            "%llu of %llu samples exceed %lld tokens and lost %llu tokens in all; block_size sets the length",
            (unsigned long long)info->cut_samples, (unsigned long long)info->sample_count,
            (long long)info->sequence.max_length, (unsigned long long)info->cut_ids);
    if (info->cut_samples && info->second_vocabulary)
        eitp__log_line(host, EITP_LOG_WARNING,
                       "the encoder reads at most %lld tokens of a sample; tokens that it does not read are included",
                       (long long)info->second_sequence.max_length);
    if (info->cut_words)
        eitp__log_line(host, EITP_LOG_WARNING, "the cut removed %llu words and their labels",
                       (unsigned long long)info->cut_words);
    if (info->skipped)
        eitp__log_line(host, EITP_LOG_WARNING, "%llu bad rows were skipped", (unsigned long long)info->skipped);
    if (info->repeated)
        eitp__log_line(host, EITP_LOG_WARNING, "%llu rows repeat an earlier one; dedup %s",
                       (unsigned long long)info->repeated, left_out);
    if (info->ambiguous)
        eitp__log_line(host, EITP_LOG_WARNING, "%llu rows have text that occurs with different labels; dedup %s",
                       (unsigned long long)info->ambiguous, left_out);
}

/* Returns the path to pack to. A resumed run has packed its training data when their labels were not known yet. */
static char *eitp__first_path(const eitp_training *training, eitp_split split, const eitp__sample_config *config) {
    eitp__sample_config first = *config;
    char *path;
    if (training->is_resumed && split == EITP_TRAINING && eitp_head_has_labels(training->kind->head)) {
        first.problem =
            training->kind->kind == EITP_TASK_CLASSIFICATION ? training->recipe.task.problem : training->kind->problem;
        first.labels = NULL;
        first.label_count = 0;
        path = eitp__packed_path(training, eitp__sample_fingerprint(training, split, &first), "labelled");
        if (!path || eitp__recipe_is_file(&training->host, path))
            return path;
        eitp__release_text(&training->host, path);
    }
    return eitp__packed_path(training, eitp__sample_fingerprint(training, split, config), "labelled");
}

EITP__PRIVATE eitp_status eitp__part_open_samples(eitp_training *training, eitp_split split,
                                                  const eitp__sample_config *config, eitp_error *error) {
    eitp__data_part *part = &training->parts[split];
    char *path = eitp__first_path(training, split, config);
    eitp_sample_file_info info;
    eitp_status status = path ? eitp__part_find_packed(training, split, 1, path, error)
                              : eitp__fail_memory(error, 100, "the path of packed data");
    if (!status && !part->path) {
        part->path = path;
        path = NULL;
        part->is_verified = !eitp__part_has_input(training, split) && eitp__part_is_packed(training, part);
        if (!part->is_verified)
            status = eitp__pack_samples(training, split, config, error);
    }
    eitp__release_text(&training->host, path);
    if (!status)
        status =
            eitp_sample_file_open(&training->host, part->path, (int32_t)training->shape.vocabulary, &part->file, error);
    if (status)
        return status;
    part->is_labelled = 1;
    eitp__sample_file_set_poll(part->file, eitp__training_is_stopped, training);
    info = eitp_sample_file_get_info(part->file);
    eitp__report_samples(training, &info);
    return EITP_OK;
}

/* ---- Parts ---- */

/* Warns of samples that are in both parts, which make validation results too optimistic. */
EITP__PRIVATE eitp_status eitp__report_overlap(eitp_training *training, eitp_error *error) {
    const eitp_labelled_part *held = training->parts[EITP_VALIDATION].samples;
    uint64_t count = 0;
    eitp_status status = EITP_OK;
    if (training->validates && held)
        status = eitp__labelled_overlap(training->parts[EITP_TRAINING].samples, held, &count, error);
    if (!status && count)
        eitp__log_line(&training->host, EITP_LOG_WARNING,
                       "%llu of %llu validation samples %s also in the training data, so validation is too optimistic; "
                       "dedup removes repeats within the data",
                       (unsigned long long)count, (unsigned long long)eitp_labelled_part_source(held).count,
                       count == 1 ? "is" : "are");
    return status;
}

EITP__PRIVATE eitp_status eitp__training_split_samples(eitp_training *training, eitp_error *error) {
    eitp__data_part *kept = &training->parts[EITP_TRAINING], *held = &training->parts[EITP_VALIDATION];
    const double fraction = held->file ? 0 : training->recipe.data.validation_fraction;
    eitp_labelled_part *nothing = NULL;
    eitp_labelled_source training_samples, validation_samples;
    eitp_status status;
    eitp_labelled_part_destroy(kept->samples);
    eitp_labelled_part_destroy(held->samples);
    kept->samples = held->samples = NULL;
    status = eitp_labelled_split(kept->file, fraction, training->recipe.trainer.seed, &kept->samples,
                                 held->file ? &nothing : &held->samples, error);
    eitp_labelled_part_destroy(nothing);
    if (!status && held->file)
        status = eitp_labelled_part_create(held->file, NULL, 0, &held->samples, error);
    training_samples = eitp__part_samples(training, EITP_TRAINING);
    validation_samples = eitp__part_samples(training, EITP_VALIDATION);
    training->validates = !status && validation_samples.count > 0 && !training->recipe.data.holds_out_only;
    training->rows = training_samples.max_length > validation_samples.max_length ? training_samples.max_length
                                                                                 : validation_samples.max_length;
    return status;
}

EITP__PRIVATE eitp_labelled_source eitp__part_samples(const eitp_training *training, eitp_split split) {
    eitp_labelled_source source = training->is_plan ? eitp__random_samples(training, split)
                                                    : eitp_labelled_part_source(training->parts[split].samples);
    if (training->planned_length && source.max_length > training->planned_length)
        source.max_length = training->planned_length;
    return source;
}
