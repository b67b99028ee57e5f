#include "run/resume_options.h"

#include "files.h"
#include "model/hub.h"
#include "options/table.h"
#include "run/directory.h"

/* ---- Comparing values ---- */

static int same_texts(const option_value *a, const option_value *b) {
    int same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = !strcmp(a->texts[i], b->texts[i]);
    return same;
}

static int same_name(const char *a, const char *b) {
    const char *first = strrchr(a, '/'), *second = strrchr(b, '/');
    return !strcmp(first ? first + 1 : a, second ? second + 1 : b);
}

static int exists(const char *path) {
    return files_info(path).kind != EITP_PATH_MISSING;
}

/* True unless the paths are known to differ: a directory may have been moved since it was recorded, or be in the hub's
   cache. */
static int same_path(const option_value *given, const option_value *recorded) {
    const char *is, *was;
    char *cached;
    int same;
    if (!given->count || !recorded->count)
        return given->count == recorded->count;
    is = given->texts[0];
    was = recorded->texts[0];
    if (exists(is) && exists(was))
        return directory_is_same(is, was);
    cached = exists(is) ? NULL : hub_find(is);
    same = same_name(is, was) || (cached && directory_is_same(cached, was));
    free(cached);
    return same;
}

static int same_value(option_id id, const option_value *a, const option_value *b) {
    const option_kind kind = option_of(id)->kind;
    if (!a->count || !b->count || kind == KIND_TEXT || kind == KIND_LIST)
        return same_texts(a, b);
    if (kind == KIND_CHOICE)
        return !strcmp(a->choice, b->choice);
    return a->integer == b->integer && !(fabs(a->number - b->number) > 0);
}

/* ---- Options that are kept ---- */

typedef struct kept_option {
    option_id id;
    int is_path;
} kept_option;

/* The library compares the others. */
static const kept_option kept[] = {{OPTION_INIT, 0}, {OPTION_MODEL, 1}, {OPTION_ENCODER, 1}, {OPTION_TASK, 0}};

/* The library compares the base weights of adapters with those they were trained on. --task auto means the task of the
   run. */
static int is_compared_later(const training_run *r, const option_set *recorded, option_id id) {
    if (id == OPTION_MODEL)
        return r->resumed.lora.rank > 0;
    return id == OPTION_TASK && (!options_choice(recorded, id) || !options_choice(&r->options, id));
}

static eitp_status refuse_change(const training_run *r, const option_set *recorded, option_id id, eitp_error *error) {
    const char *was = options_text(recorded, id), *name = options_name(id);
    if (!was)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "'%s' was started without --%s; leave it out to resume it, or choose another --output-dir",
                            r->checkpoint, name);
    return command_fail(error, EITP_ERROR_ARGUMENT,
                        "'%s' was started with --%s %s, not %s; leave --%s out to resume it, or choose another "
                        "--output-dir",
                        r->checkpoint, name, was, options_text(&r->options, id), name);
}

static eitp_status check_kept(const training_run *r, const option_set *recorded, eitp_error *error) {
    for (size_t i = 0; i < COMMAND_COUNT(kept); i++) {
        const option_id id = kept[i].id;
        const option_value *given = &r->options.values[id], *was = &recorded->values[id];
        if (!options_is_explicit(&r->options, id) || is_compared_later(r, recorded, id))
            continue;
        if (kept[i].is_path ? !same_path(given, was) : !same_value(id, given, was))
            return refuse_change(r, recorded, id, error);
    }
    return EITP_OK;
}

/* ---- Options that determine how data is read ---- */

/* Returns the length at which text is cut: at most the model's positions. */
static int64_t text_length(int64_t block_size, int64_t positions) {
    return block_size && block_size < positions ? block_size : positions;
}

static int same_length(const training_run *r, const option_value *given, const option_value *recorded) {
    const eitp_host host = command_host();
    eitp_transformer_config shape;
    int64_t positions;
    eitp_error ignored;
    if (!recorded->count || eitp_model_config_read(&host, r->checkpoint, &shape, &ignored))
        return 0;
    positions = eitp_transformer_config_positions(&shape);
    return text_length(given->integer, positions) == text_length(recorded->integer, positions);
}

static int reads_alike(const training_run *r, const option_set *recorded, option_id id) {
    const option_value *given = &r->options.values[id], *was = &recorded->values[id];
    return id == OPTION_BLOCK_SIZE ? same_length(r, given, was) : same_value(id, given, was);
}

/* Fails if data that must be read again is gone. */
static eitp_status check_data(const training_run *r, option_id id, eitp_error *error) {
    const option_value *data = &r->options.values[id];
    for (size_t i = 0; i < data->count; i++) {
        const int is_input = !strcmp(data->texts[i], "-");
        if (is_input && !options_is_explicit(&r->options, id))
            return command_fail(error, EITP_ERROR_ARGUMENT,
                                "%s: the data of the run came from standard input, which cannot be read again; leave "
                                "it out to continue with the packed data",
                                r->rereads);
        if (!is_input && files_info(data->texts[i]).kind == EITP_PATH_MISSING)
            return command_fail(error, EITP_ERROR_ARGUMENT,
                                "%s: the data must be read again, but '%s' is gone; leave the option out to continue "
                                "with the packed data, or name the data with --%s",
                                r->rereads, data->texts[i], options_name(id));
    }
    return EITP_OK;
}

eitp_status resume_compare_options(training_run *r, const option_set *recorded, eitp_error *error) {
    r->rereads[0] = 0;
    for (size_t i = 0; i < option_count(); i++) {
        const option_id id = (option_id)i;
        const size_t used = strlen(r->rereads);
        if (option_of(id)->setting->difference == EITP_DIFFERENCE_REREAD && options_is_explicit(&r->options, id) &&
            !reads_alike(r, recorded, id))
            snprintf(r->rereads + used, sizeof r->rereads - used, "%s--%s", used ? ", " : "", options_name(id));
    }
    /* If options are only printed, nothing is resumed. */
    return options_integer(&r->options, OPTION_PRINT_CONFIG) ? EITP_OK : check_kept(r, recorded, error);
}

eitp_status resume_check_data(const training_run *r, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (!r->rereads[0])
        return EITP_OK;
    status = check_data(r, OPTION_DATA, error);
    return status ? status : check_data(r, OPTION_VAL_DATA, error);
}

eitp_status resume_name_rereads(const training_run *r, eitp_status status, eitp_error *error) {
    char *message;
    if (!r->rereads[0] || (status != EITP_ERROR_ARGUMENT && status != EITP_ERROR_FORMAT))
        return status;
    message = command_copy(error->message);
    snprintf(error->message, sizeof error->message, "the data was read again with %s: %s", r->rereads, message);
    free(message);
    return status;
}
