/* "truncation" and "padding" of tokenizer.json, and their settings in tokenizer_config.json. */
#include "text/loader.h"

/* Reads a word that must be one of `count` words, and stores its index. */
static eitp_status eitp__load_keyword(const eitp_json *object, const char *name, const char *const *words, int count,
                                      int *index, eitp_error *error) {
    const char *text = NULL;
    eitp_status status = eitp__json_get_text(object, name, &text, error);
    if (status != EITP_OK || !text)
        return status;
    for (int i = 0; i < count; i++) {
        if (!strcmp(text, words[i])) {
            *index = i;
            return EITP_OK;
        }
    }
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "line %zu: unsupported %s \"%.80s\"", object->line, name, text);
}

/* Reads a number of tokens. Files express "no limit" as a very large number. */
static eitp_status eitp__load_count(const eitp_json *object, const char *name, int32_t *value, eitp_error *error) {
    int64_t integer = *value;
    eitp_status status = eitp__json_get_integer(object, name, 0, INT64_MAX, &integer, error);
    *value = integer > INT32_MAX ? INT32_MAX : (int32_t)integer;
    return status;
}

static const char *const eitp__directions[] = {"Right", "Left"};

static eitp_status eitp__load_truncation(const eitp_json *part, eitp_sequence_defaults *out, eitp_error *error) {
    static const char *const strategies[] = {"LongestFirst", "OnlyFirst", "OnlySecond"};
    int strategy = EITP_TRUNCATE_LONGEST;
    eitp_status status = eitp__load_count(part, "max_length", &out->max_length, error);
    if (status == EITP_OK)
        status = eitp__load_keyword(part, "strategy", strategies, 3, &strategy, error);
    if (status == EITP_OK)
        status = eitp__load_keyword(part, "direction", eitp__directions, 2, &out->truncate_left, error);
    out->truncation = (eitp_truncation)strategy;
    return status;
}

/* Reads "padding". "strategy" is "BatchLongest" or {"Fixed": length}. */
static eitp_status eitp__load_padding(const eitp_json *part, eitp_sequence_defaults *out, eitp_error *error) {
    static const char *const strategies[] = {"BatchLongest"};
    const eitp_json *strategy = eitp_json_member(part, "strategy");
    int ignored = 0;
    out->has_padding = 1;
    eitp_status status = strategy && strategy->kind == EITP_JSON_OBJECT
                             ? eitp__load_count(strategy, "Fixed", &out->pad_length, error)
                             : eitp__load_keyword(part, "strategy", strategies, 1, &ignored, error);
    if (status == EITP_OK)
        status = eitp__load_keyword(part, "direction", eitp__directions, 2, &out->pad_left, error);
    if (status == EITP_OK)
        status = eitp__load_count(part, "pad_to_multiple_of", &out->pad_multiple, error);
    if (status == EITP_OK)
        status = eitp__load_count(part, "pad_id", &out->pad_id, error);
    return status == EITP_OK ? eitp__load_count(part, "pad_type_id", &out->pad_segment, error) : status;
}

static eitp_status eitp__load_sides(const eitp__special_files *files, eitp_sequence_defaults *out, eitp_error *error) {
    static const char *const sides[] = {"right", "left"};
    const eitp_json_document *document = files->documents[EITP__TOKENIZER_CONFIG];
    const eitp_json *config = document ? eitp_json_root(document) : NULL;
    const eitp_json *length = eitp__tokenizer_config_member(files, "model_max_length");
    eitp_status status = eitp__load_keyword(config, "truncation_side", sides, 2, &out->truncate_left, error);
    if (status == EITP_OK)
        status = eitp__load_keyword(config, "padding_side", sides, 2, &out->pad_left, error);
    if (length && length->kind == EITP_JSON_NUMBER && length->is_integer && length->integer > 0 &&
        length->integer <= INT32_MAX)
        out->model_max_length = (int32_t)length->integer;
    return status == EITP_OK ? status
                             : eitp__fail_prefix(error, status, "%s", eitp__special_file_name(EITP__TOKENIZER_CONFIG));
}

EITP__PRIVATE eitp_status eitp__load_defaults(eitp__loader *loader, const eitp_json *root, eitp_error *error) {
    eitp_status (*const read[])(const eitp_json *, eitp_sequence_defaults *, eitp_error *) = {eitp__load_truncation,
                                                                                              eitp__load_padding};
    for (int part = EITP__KEPT_TRUNCATION; part <= EITP__KEPT_PADDING; part++) {
        const eitp_json *value = eitp_json_member(root, eitp__preserved_part_name(part));
        eitp__buffer *kept = &loader->tokenizer->kept[part];
        if (eitp__is_absent(value))
            continue;
        eitp_status status = value->kind == EITP_JSON_OBJECT
                                 ? read[part](value, &loader->tokenizer->defaults, error)
                                 : eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: must be an object", value->line);
        if (status != EITP_OK)
            return eitp__fail_prefix(error, status, "%s", eitp__preserved_part_name(part));
        eitp__json_write_value(kept, value);
        if (kept->failed)
            return eitp__fail_memory(error, kept->size, "the tokenizer's settings");
    }
    if (loader->tokenizer->defaults.pad_id >= (int64_t)loader->tokenizer->vocabulary.count)
        return eitp__fail(error, EITP_ERROR_FORMAT, "padding: the vocabulary lacks token %ld (pad_id)",
                          (long)loader->tokenizer->defaults.pad_id);
    return eitp__load_sides(loader->files, &loader->tokenizer->defaults, error);
}
