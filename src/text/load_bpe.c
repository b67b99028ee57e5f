/* Parts common to all BPE in a tokenizer.json: merges, and members that must be absent. */
#include "text/loader.h"

/* Reads merges. Each one is "left right" or ["left", "right"]. */
EITP__PRIVATE eitp_status eitp__load_json_merges(eitp__loader *loader, const eitp_json *merges, eitp_error *error) {
    size_t rank = 0;
    for (const eitp_json *entry = merges->first_child; entry; entry = entry->next, rank++) {
        const char *left = NULL, *right = NULL;
        size_t left_size = 0, right_size = 0;
        const eitp_json *first = entry->first_child;
        if (entry->kind == EITP_JSON_STRING) {
            const char *space = (const char *)memchr(entry->text, ' ', entry->text_size);
            if (space) {
                left = entry->text;
                left_size = (size_t)(space - left);
                right = space + 1;
                right_size = entry->text_size - left_size - 1;
            }
        } else if (entry->kind == EITP_JSON_ARRAY && entry->count == 2 && first->kind == EITP_JSON_STRING &&
                   first->next->kind == EITP_JSON_STRING) {
            left = first->text;
            left_size = first->text_size;
            right = first->next->text;
            right_size = first->next->text_size;
        }
        if (!left)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "line %zu: merge %zu must be \"left right\" or [\"left\", \"right\"]", entry->line, rank);
        eitp_status status = eitp__load_merge(loader, rank, entry->line, left, left_size, right, right_size, error);
        if (status != EITP_OK)
            return status;
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__part_type(const eitp_json *root, const char *name, const char *type, const char **found,
                                          eitp_error *error) {
    const eitp_json *part = eitp_json_member(root, name);
    *found = NULL;
    if (eitp__is_absent(part))
        return EITP_OK;
    eitp_status status = eitp__json_get_text(part, "type", found, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "%s", name);
    if (*found && type && !strcmp(*found, type))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "line %zu: unsupported %s \"%.80s\"; it must be %s%s", part->line,
                      name, *found ? *found : "?", type ? "null or " : "null", type ? type : "");
}

EITP__PRIVATE eitp_status eitp__load_unknown_symbol(eitp__loader *loader, const eitp_json *model, int is_needed,
                                                    eitp_error *error) {
    const eitp_json *unknown = eitp_json_member(model, "unk_token");
    eitp_status status = eitp__json_get_boolean(model, "fuse_unk", &loader->tokenizer->bpe.fuses_unknown, error);
    if (status != EITP_OK || eitp__is_absent(unknown))
        return status;
    if (unknown->kind != EITP_JSON_STRING)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: unk_token of the model must be a string or null",
                          unknown->line);
    if (!is_needed && eitp__load_find(loader, unknown->text, unknown->text_size) < 0)
        return EITP_OK;
    return eitp__load_unknown(loader, unknown->text, unknown->text_size, error);
}

/* Checks a string of the model that must be null or empty. */
static eitp_status eitp__check_empty(const eitp_json *model, const char *name, eitp_error *error) {
    const eitp_json *value = eitp_json_member(model, name);
    if (eitp__is_absent(value) || (value->kind == EITP_JSON_STRING && !value->text_size))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "line %zu: unsupported %s of the model; it must be null",
                      value->line, name);
}

EITP__PRIVATE eitp_status eitp__check_bpe(const eitp_json *model, int *ignores_merges, eitp_error *error) {
    double dropout = 0;
    eitp_status status = eitp__json_get_number(model, "dropout", 0, 1, &dropout, error);
    if (status == EITP_OK && dropout > 0)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "unsupported dropout %g of the model; it must be null",
                          dropout);
    if (status == EITP_OK)
        status = eitp__json_get_boolean(model, "ignore_merges", ignores_merges, error);
    if (status == EITP_OK)
        status = eitp__check_empty(model, "continuing_subword_prefix", error);
    if (status == EITP_OK)
        status = eitp__check_empty(model, "end_of_word_suffix", error);
    return status;
}
