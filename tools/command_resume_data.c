#include "command_resume_data.h"

#include "command_files.h"
#include "command_output.h"
#include "command_task.h"

/* ---- Which packed file is it? ---- */

static int has_its_tokenizer(const run *r, uint64_t fingerprint) {
    return !r->tokenizer || eitp_tokenizer_fingerprint(r->tokenizer) == fingerprint;
}

int packed_has_tokens(const run *r, option_id id, const char *path, int reads_all) {
    const eitp_host host = command_host();
    eitp_token_file *file;
    eitp_token_file_info info;
    eitp_error ignored;
    int is_it;
    if (eitp_token_file_open(&host, path, 0, &file, &ignored))
        return 0;
    info = eitp_token_file_get_info(file);
    is_it = id == OPTION_DATA ? info.content_hash == r->resumed.data.hash
                              : has_its_tokenizer(r, info.tokenizer_fingerprint);
    is_it = is_it && !(reads_all && eitp_token_file_verify(file, &ignored));
    eitp_token_file_close(file);
    return is_it;
}

/* The checkpoint has the hash of the training part. */
static int has_training_part(const run *r, const eitp_labelled_file *file) {
    const uint64_t seed = (uint64_t)options_integer(&r->options, OPTION_SEED);
    eitp_labelled_part *training = NULL, *validation = NULL;
    eitp_error ignored;
    const int is_it = !eitp_labelled_split(file, task_held_fraction(r), seed, &training, &validation, &ignored) &&
                      eitp_labelled_part_source(training).hash == r->resumed.data.hash;
    eitp_labelled_part_destroy(training);
    eitp_labelled_part_destroy(validation);
    return is_it;
}

int packed_has_samples(const run *r, option_id id, const char *path, int reads_all) {
    const eitp_host host = command_host();
    eitp_labelled_file *file;
    eitp_error ignored;
    int is_it;
    if (eitp_labelled_file_open(&host, path, 0, &file, &ignored))
        return 0;
    is_it = id == OPTION_DATA ? has_training_part(r, file)
                              : has_its_tokenizer(r, eitp_labelled_file_get_info(file).tokenizer_fingerprint);
    is_it = is_it && !(reads_all && eitp_labelled_file_verify(file, &ignored));
    eitp_labelled_file_close(file);
    return is_it;
}

/* ---- Searching ---- */

typedef struct packed_search {
    const run *r;
    option_id id;
    const char *directory;
    packed_test has_data;
    char *path; /* found */
} packed_search;

static int try_packed(void *user, const char *name) {
    packed_search *search = (packed_search *)user;
    char *path = files_join(search->directory, name);
    const int is_training =
        search->id != OPTION_DATA && search->r->training.path && !strcmp(search->r->training.path, path);
    if (is_training || !search->has_data(search->r, search->id, path, 1)) {
        free(path);
        return 0;
    }
    search->path = path;
    return 1;
}

static int is_token_file(const option_set *o, option_id id) {
    int found = 0;
    eitp_error ignored;
    return !data_is_token_file(o, id, &found, &ignored) && found;
}

static int is_missing(const option_set *o, option_id id) {
    int found = 0;
    for (size_t i = 0; i < o->values[id].count; i++)
        found |= files_info(o->values[id].texts[i]).kind == EITP_PATH_MISSING;
    return found;
}

void resume_use_packed(const run *r, option_id id, const char *directory, const char *expected, packed_test has_data,
                       data_file *data) {
    const eitp_host host = command_host();
    packed_search search = {r, id, directory, has_data, NULL};
    if (!r->checkpoint || !r->resumed.data.hash || options_is_explicit(&r->options, id) ||
        is_token_file(&r->options, id))
        return;
    data->verified = has_data(r, id, expected, 1);
    if (data->verified) {
        output_info("reusing packed data: %s", expected);
        data->path = command_copy(expected);
        return;
    }
    host.files.list(host.files.user, directory, try_packed, &search);
    if (!search.path)
        return;
    output_warning("the text of --%s %s since '%s' was written; the run continues with what it was packed into, '%s'; "
                   "to train on other text, start a new run from the weights: --model %s --data TEXT --output-dir NEW",
                   options_name(id), is_missing(&r->options, id) ? "has gone missing" : "has changed or moved",
                   r->checkpoint, search.path, r->checkpoint);
    data->path = search.path;
    data->verified = 1;
}

/* ---- Token files that have grown ---- */

eitp_status resume_keep_tokens(run *r, eitp_error *error) {
    const eitp_token_file_info info = eitp_token_file_get_info(r->training.file);
    const uint64_t hash = r->resumed.data.hash;
    eitp_status status;
    if (!r->checkpoint || !hash || info.content_hash == hash)
        return EITP_OK;
    status = eitp_token_file_find_prefix(r->training.file, hash, &r->kept_tokens, error);
    if (!status && r->kept_tokens)
        output_warning("the data has grown from %llu to %llu tokens since '%s' was written; the run continues with the "
                       "first %llu; to train on all of them start a new run from the weights with --model",
                       (unsigned long long)r->kept_tokens, (unsigned long long)info.token_count, r->checkpoint,
                       (unsigned long long)r->kept_tokens);
    return status;
}
