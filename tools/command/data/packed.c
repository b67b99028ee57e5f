#include "data/packed.h"

#include "files.h"

/* ---- Which packed file is it? ---- */

static int has_its_tokenizer(const packed_owner *owner, uint64_t fingerprint) {
    return !owner->tokenizer || eitp_tokenizer_fingerprint(owner->tokenizer) == fingerprint;
}

int packed_has_tokens(const packed_owner *owner, option_id id, const char *path, int reads_all) {
    const eitp_host host = command_host();
    eitp_token_file *file;
    eitp_token_file_info info;
    eitp_error ignored;
    int is_it;
    if (eitp_token_file_open(&host, path, 0, &file, &ignored))
        return 0;
    info = eitp_token_file_get_info(file);
    is_it = id == OPTION_DATA ? info.content_hash == owner->hash : has_its_tokenizer(owner, info.tokenizer_fingerprint);
    is_it = is_it && !(reads_all && eitp_token_file_verify(file, &ignored));
    eitp_token_file_close(file);
    return is_it;
}

double packed_held_fraction(const option_set *o) {
    return options_has(o, OPTION_VAL_DATA) ? 0 : options_number(o, OPTION_VAL_FRACTION);
}

/* The checkpoint has the hash of the training part. */
static int has_training_part(const packed_owner *owner, const eitp_labelled_file *file) {
    const uint64_t seed = (uint64_t)options_integer(owner->options, OPTION_SEED);
    eitp_labelled_part *training = NULL, *validation = NULL;
    eitp_error ignored;
    const int is_it =
        !eitp_labelled_split(file, packed_held_fraction(owner->options), seed, &training, &validation, &ignored) &&
        eitp_labelled_part_source(training).hash == owner->hash;
    eitp_labelled_part_destroy(training);
    eitp_labelled_part_destroy(validation);
    return is_it;
}

int packed_has_samples(const packed_owner *owner, option_id id, const char *path, int reads_all) {
    const eitp_host host = command_host();
    eitp_labelled_file *file;
    eitp_error ignored;
    int is_it;
    if (eitp_labelled_file_open(&host, path, 0, &file, &ignored))
        return 0;
    is_it = id == OPTION_DATA ? has_training_part(owner, file)
                              : has_its_tokenizer(owner, eitp_labelled_file_get_info(file).tokenizer_fingerprint);
    is_it = is_it && !(reads_all && eitp_labelled_file_verify(file, &ignored));
    eitp_labelled_file_close(file);
    return is_it;
}

/* ---- Searching ---- */

typedef struct packed_search {
    const packed_owner *owner;
    option_id id;
    const char *directory;
    packed_test has_data;
    char *path; /* found */
} packed_search;

static int try_packed(void *user, const char *name) {
    packed_search *search = (packed_search *)user;
    const packed_owner *owner = search->owner;
    char *path = files_join(search->directory, name);
    const int is_training = search->id != OPTION_DATA && owner->training && !strcmp(owner->training, path);
    if (is_training || !search->has_data(owner, search->id, path, 1)) {
        free(path);
        return 0;
    }
    search->path = path;
    return 1;
}

char *packed_find(const packed_owner *owner, option_id id, const char *directory, packed_test has_data) {
    const eitp_host host = command_host();
    packed_search search = {owner, id, directory, has_data, NULL};
    host.files.list(host.files.user, directory, try_packed, &search);
    return search.path;
}

int packed_lacks_text(const option_set *o, option_id id) {
    int found = 0;
    for (size_t i = 0; i < o->values[id].count; i++)
        found |= files_info(o->values[id].texts[i]).kind == EITP_PATH_MISSING;
    return found;
}
