/* Token files of a recipe, packed from its text. */
#include "base/checksum.h"
#include "base/clock.h"
#include "data/path_walk.h"
#include "data/row_reader.h"
#include "data/sample_bytes.h"
#include "recipe/training.h"

/* ---- Fingerprints ---- */

/* Returns a hash of the name, size and time of each file of a path, regardless of their order. */
static uint64_t eitp__path_fingerprint(const eitp_host *host, const char *path) {
    char *absolute = eitp__absolute_path(host, path);
    const char *const paths[1] = {absolute ? absolute : path};
    eitp__path_walk walk;
    uint64_t sum = 0;
    eitp__path_walk_init(&walk, host, paths, 1);
    while (!eitp__path_walk_next(&walk, NULL) && walk.path) {
        eitp_path_info info = EITP__ZERO;
        uint64_t hash = eitp__fnv1a(EITP__FNV_START, walk.path, strlen(walk.path));
        eitp__path_info(host, walk.path, &info, NULL);
        hash = eitp__fnv1a(hash, &info.size, sizeof info.size);
        sum += eitp__fnv1a(hash, &info.modified, sizeof info.modified);
    }
    eitp__path_walk_release(&walk);
    eitp__release_text(host, absolute);
    return sum;
}

/* Adds a string setting to a hash, unless it is NULL; `index` distinguishes it from others. */
static uint64_t eitp__add_setting(uint64_t hash, size_t index, const char *text) {
    return text ? eitp__fnv1a(eitp__fnv1a(hash, &index, sizeof index), text, strlen(text) + 1) : hash;
}

EITP__PRIVATE uint64_t eitp__part_fingerprint(const eitp_training *training, eitp_split split) {
    static const char *const formats[] = {"auto", "text", "lines", "csv", "tsv", "jsonl", "conll", "chat"};
    const eitp_data_recipe *data = &training->recipe.data;
    const eitp_text_list *paths = training->parts[split].paths;
    const uint64_t tokenizer = eitp_tokenizer_fingerprint(training->tokenizer);
    const int64_t numbers[] = {eitp_tokenizer_end_of_text(training->tokenizer), data->strict_utf8};
    const char *const texts[] = {data->encoding, data->text_column, formats[data->format],
                                 data->skip_bad ? "skip" : "stop"};
    uint64_t hash = eitp__fnv1a(EITP__FNV_START, &tokenizer, sizeof tokenizer);
    hash = eitp__fnv1a(hash, numbers, sizeof numbers);
    for (size_t i = 0; i < EITP__COUNT(texts); i++)
        hash = eitp__add_setting(hash, i, texts[i]);
    hash = eitp__add_setting(hash, 5, data->delimiter); /* 4: eitp__tokens_fingerprint */
    hash = eitp__add_setting(hash, 6, data->document_separator);
    for (size_t i = 0; i < paths->count; i++) {
        const uint64_t sum = eitp__path_fingerprint(&training->host, paths->texts[i]);
        hash = eitp__fnv1a(hash, &sum, sizeof sum);
    }
    return hash;
}

/* True if a file of a path is JSON that is read as rows. */
static int eitp__has_json_rows(const eitp_text_files_config *texts, const eitp_host *host) {
    eitp__path_walk walk;
    int has_one = 0;
    eitp__path_walk_init(&walk, host, texts->paths, texts->path_count);
    while (!has_one && texts->format == EITP_FORMAT_AUTO && !eitp__path_walk_next(&walk, NULL) && walk.path)
        has_one = (walk.is_listed || texts->json_rows) && eitp__is_json_name(walk.path);
    eitp__path_walk_release(&walk);
    return has_one;
}

/* Returns the fingerprint for a token file. It marks .json files that are read as rows, because earlier versions packed
   them as plain text. */
static uint64_t eitp__tokens_fingerprint(const eitp_training *training, eitp_split split) {
    const eitp_text_files_config texts = eitp__part_texts(training, split);
    const uint64_t hash = eitp__part_fingerprint(training, split);
    return eitp__has_json_rows(&texts, &training->host) ? eitp__add_setting(hash, 4, "rows") : hash;
}

/* ---- Token files ---- */

static int eitp__tokens_progress(void *user, const eitp_pack_progress *progress) {
    const eitp_recipe *recipe = &((const eitp_training *)user)->recipe;
    eitp_training_progress now = EITP__ZERO;
    now.stage = "packing";
    now.bytes = progress->text_bytes;
    now.all_bytes = progress->text_bytes_total;
    now.count = progress->tokens;
    now.unit = "tokens";
    return recipe->progress && recipe->progress(recipe->progress_user, &now);
}

static void eitp__log_packed(const eitp_training *training, const eitp_sample_file_info *info, double seconds,
                             const char *path) {
    char size[16];
    eitp__log_line(&training->host, EITP_LOG_INFO,
                   "packed %llu document%s (%s of text) into %llu tokens of %.2f bytes in %.1f s: %s",
                   (unsigned long long)info->document_count, info->document_count == 1 ? "" : "s",
                   eitp_format_bytes(info->text_bytes, size, sizeof size), (unsigned long long)info->token_count,
                   (double)info->text_bytes / (double)info->token_count, seconds, path);
}

static eitp_status eitp__pack_tokens(eitp_training *training, eitp_split split, eitp_error *error) {
    eitp__data_part *part = &training->parts[split];
    eitp_pack_config config = EITP__ZERO;
    eitp_sample_file_info info;
    const double started = eitp__clock();
    eitp_status status = eitp__make_packed_directory(training, error);
    config.texts = eitp__part_texts(training, split);
    config.progress = eitp__tokens_progress;
    config.user = training;
    part->is_made = 1;
    if (!status)
        status = eitp_pack(&training->host, training->tokenizer, &config, part->path, &info, error);
    if (!status)
        eitp__log_packed(training, &info, eitp__clock() - started, part->path);
    return status;
}

/* Finds or creates the packed file. */
static eitp_status eitp__find_packed_tokens(eitp_training *training, eitp_split split, eitp_error *error) {
    eitp__data_part *part = &training->parts[split];
    char *path = eitp__packed_path(training, eitp__tokens_fingerprint(training, split), "tokens");
    eitp_status status = path ? eitp__part_find_packed(training, split, 0, path, error)
                              : eitp__fail_memory(error, 100, "the path of packed data");
    if (status || part->path) {
        eitp__release_text(&training->host, path);
        return status;
    }
    part->path = path;
    part->is_verified = !eitp__part_has_input(training, split) && eitp__part_is_packed(training, part);
    return part->is_verified ? EITP_OK : eitp__pack_tokens(training, split, error);
}

/* Gives random weights the vocabulary of a token file that has no tokenizer. */
EITP__PRIVATE eitp_status eitp__take_file_vocabulary(eitp_training *training, const char *path, eitp_error *error) {
    eitp_sample_file *file;
    const eitp_status status = eitp_sample_file_open(&training->host, path, 0, &file, error);
    if (!status)
        eitp__training_set_vocabulary(training, eitp_sample_file_get_info(file).vocabulary_size, "token file");
    eitp_sample_file_close(file);
    return status;
}

EITP__PRIVATE eitp_status eitp__part_open_tokens(eitp_training *training, eitp_split split, eitp_error *error) {
    eitp__data_part *part = &training->parts[split];
    int is_token_file;
    eitp_status status = eitp__part_is_token_file(training, split, &is_token_file, error);
    if (!status && is_token_file)
        part->path = eitp__copy_text(&training->host, part->paths->texts[0]);
    if (!status && is_token_file && !part->path)
        status = eitp__fail_memory(error, strlen(part->paths->texts[0]), "the path of a token file");
    if (!status && !is_token_file && !training->tokenizer)
        status = split == EITP_TRAINING ? eitp__training_make_tokenizer(training, 0, error)
                                        : eitp__training_use_bytes(training, "", error);
    if (!status && training->tokenizer)
        eitp__training_follow_tokenizer(training);
    else if (!status)
        status = eitp__take_file_vocabulary(training, part->path, error);
    if (!status && training->tokenizer)
        status = eitp__training_check_tokenizer(training, NULL, error);
    if (!status && !is_token_file)
        status = eitp__find_packed_tokens(training, split, error);
    if (!status)
        status =
            eitp_sample_file_open(&training->host, part->path, (int32_t)training->shape.vocabulary, &part->file, error);
    eitp__sample_file_set_poll(part->file, eitp__training_is_stopped, training);
    /* The whole file is read now, so that damage does not end the run halfway. */
    if (!status && !part->is_made && !part->is_verified)
        status = eitp_sample_file_verify(part->file, error);
    return status;
}

EITP__PRIVATE eitp_token_source eitp__part_tokens(const eitp_training *training, eitp_split split) {
    const eitp__data_part *part = &training->parts[split];
    const eitp__data_part *owner = part->file ? part : &training->parts[EITP_TRAINING];
    eitp_token_source source;
    if (training->is_plan)
        return eitp__random_tokens(training, split);
    source = eitp_sample_file_token_source(owner->file, part->range);
    if (split == EITP_TRAINING && training->kept_tokens)
        source.hash = training->resumed.data.hash;
    return source;
}

EITP__PRIVATE void eitp__part_close(const eitp_host *host, eitp__data_part *part) {
    eitp_labelled_part_destroy(part->samples);
    eitp_sample_file_close(part->file);
    eitp__release_text(host, part->path);
}
