#include "run/resume_data.h"

#include "output.h"

static int is_token_file(const option_set *o, option_id id) {
    int found = 0;
    eitp_error ignored;
    return !data_is_token_file(o, id, &found, &ignored) && found;
}

void resume_use_packed(const training_run *r, option_id id, const char *directory, const char *expected,
                       packed_test has_data, data_file *data) {
    const packed_owner owner = {&r->options, r->resumed.data.hash, r->tokenizer, r->training.path};
    char *path;
    if (!r->checkpoint || !owner.hash || options_is_explicit(&r->options, id) || is_token_file(&r->options, id))
        return;
    data->verified = has_data(&owner, id, expected, 1);
    if (data->verified) {
        output_info("reusing packed data: %s", expected);
        data->path = command_copy(expected);
        return;
    }
    path = packed_find(&owner, id, directory, has_data);
    if (!path)
        return;
    output_warning("the text of --%s %s since '%s' was written; the run continues with what it was packed into, '%s'; "
                   "to train on other text, start a new run from the weights: --model %s --data TEXT --output-dir NEW",
                   options_name(id), packed_lacks_text(&r->options, id) ? "has gone missing" : "has changed or moved",
                   r->checkpoint, path, r->checkpoint);
    data->path = path;
    data->verified = 1;
}

/* ---- Token files that have grown ---- */

eitp_status resume_keep_tokens(training_run *r, eitp_error *error) {
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
