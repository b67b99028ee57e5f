/* Reading tokenizer.json, and refusing settings beyond GPT-2's byte-level BPE. */
#include "text/bpe_loader.h"

#include "base/log.h"

/* Each merge is "left right" or ["left", "right"]. */
static eitp_status eitp__load_json_merges(eitp__loader *loader, const eitp__json *merges, eitp_error *error) {
    size_t rank = 0;
    for (const eitp__json *entry = merges->first_child; entry; entry = entry->next, rank++) {
        const char *left = NULL, *right = NULL;
        size_t left_size = 0, right_size = 0;
        const eitp__json *first = entry->first_child;
        if (entry->kind == EITP__JSON_STRING) {
            const char *space = (const char *)memchr(entry->text, ' ', entry->text_size);
            if (space) {
                left = entry->text;
                left_size = (size_t)(space - left);
                right = space + 1;
                right_size = entry->text_size - left_size - 1;
            }
        } else if (entry->kind == EITP__JSON_ARRAY && entry->count == 2 && first->kind == EITP__JSON_STRING &&
                   first->next->kind == EITP__JSON_STRING) {
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

/* Checks a part of tokenizer.json that must be null or, unless `type` is NULL, an object of this type. */
static eitp_status eitp__check_part(const eitp__json *root, const char *name, const char *type, eitp_error *error) {
    const eitp__json *part = eitp__json_member(root, name);
    const char *found = "?";
    if (eitp__is_absent(part))
        return EITP_OK;
    eitp_status status = eitp__json_get_text(part, "type", &found, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "%s", name);
    if (type && !strcmp(found, type))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "line %zu: unsupported %s \"%.80s\"; it must be %s%s", part->line,
                      name, found, type ? "null or " : "null", type ? type : "");
}

/* Checks a string of the model that must be null or empty. */
static eitp_status eitp__check_empty(const eitp__json *model, const char *name, eitp_error *error) {
    const eitp__json *value = eitp__json_member(model, name);
    if (eitp__is_absent(value) || (value->kind == EITP__JSON_STRING && !value->text_size))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "line %zu: unsupported %s of the model; it must be null",
                      value->line, name);
}

static eitp_status eitp__check_model(const eitp__json *model, eitp_error *error) {
    const char *type = "BPE";
    double dropout = 0;
    int ignore_merges = 0;
    if (!model || model->kind != EITP__JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "\"model\" must be an object; check that the file is a tokenizer.json");
    eitp_status status = eitp__json_get_text(model, "type", &type, error);
    if (status == EITP_OK && strcmp(type, "BPE"))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "line %zu: unsupported model \"%.80s\"; it must be BPE",
                          model->line, type);
    if (status == EITP_OK)
        status = eitp__json_get_number(model, "dropout", 0, 1, &dropout, error);
    if (status == EITP_OK && dropout > 0)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "unsupported dropout %g of the model; it must be null",
                          dropout);
    if (status == EITP_OK)
        status = eitp__json_get_boolean(model, "ignore_merges", &ignore_merges, error);
    if (status == EITP_OK && ignore_merges)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "unsupported ignore_merges of the model; it must be false");
    if (status == EITP_OK)
        status = eitp__check_empty(model, "continuing_subword_prefix", error);
    if (status == EITP_OK)
        status = eitp__check_empty(model, "end_of_word_suffix", error);
    return status;
}

static eitp_status eitp__check_pre_tokenizer(const eitp__json *root, int *add_prefix_space, eitp_error *error) {
    const eitp__json *part = eitp__json_member(root, "pre_tokenizer");
    const char *type = "?";
    int use_regex = 1;
    if (eitp__is_absent(part))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "pre_tokenizer is missing; it must be ByteLevel");
    eitp_status status = eitp__json_get_text(part, "type", &type, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "pre_tokenizer");
    if (strcmp(type, "ByteLevel"))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: unsupported pre_tokenizer \"%.80s\"; it must be ByteLevel", part->line, type);
    status = eitp__json_get_boolean(part, "use_regex", &use_regex, error);
    if (status == EITP_OK && !use_regex)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: unsupported use_regex false of the pre_tokenizer; it must be true", part->line);
    if (status == EITP_OK && eitp__is_absent(eitp__json_member(part, "add_prefix_space")))
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: add_prefix_space of the pre_tokenizer is missing",
                          part->line);
    if (status == EITP_OK)
        status = eitp__json_get_boolean(part, "add_prefix_space", add_prefix_space, error);
    return status;
}

/* The id of a token that a template adds to each text, or NULL. */
static const char *eitp__template_addition(const eitp__json *pieces) {
    const eitp__json *piece = pieces && pieces->kind == EITP__JSON_ARRAY ? pieces->first_child : NULL;
    const char *id = NULL;
    for (; piece && !id; piece = piece->next)
        eitp__json_get_text(eitp__json_member(piece, "SpecialToken"), "id", &id, NULL);
    return id;
}

/* Checks that a template consists of the text alone, as transformers 5 writes it for no post-processor. */
static eitp_status eitp__check_template(const eitp__json *part, eitp_error *error) {
    const eitp__json *pieces = eitp__json_member(part, "single");
    const char *id = "", *added = eitp__template_addition(pieces);
    if (added)
        return eitp__fail(
            error, EITP_ERROR_UNSUPPORTED,
            "line %zu: unsupported post_processor, which adds \"%.80s\" to each text; set post_processor to null",
            part->line, added);
    if (pieces && pieces->kind == EITP__JSON_ARRAY && pieces->count == 1)
        eitp__json_get_text(eitp__json_member(pieces->first_child, "Sequence"), "id", &id, NULL);
    if (strcmp(id, "A"))
        return eitp__fail(
            error, EITP_ERROR_UNSUPPORTED,
            "line %zu: unsupported post_processor \"TemplateProcessing\"; its \"single\" must be the sequence A alone",
            part->line);
    return EITP_OK;
}

/* Checks that a post-processor changes no ids: ByteLevel, which changes offsets only, such a template, or a
   sequence. */
static eitp_status eitp__check_post_processor(const eitp__json *part, eitp_error *error) {
    const eitp__json *inner = eitp__json_member(part, "processors");
    const char *type = "?";
    if (eitp__is_absent(part))
        return EITP_OK;
    eitp_status status = eitp__json_get_text(part, "type", &type, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "post_processor");
    if (!strcmp(type, "TemplateProcessing"))
        return eitp__check_template(part, error);
    if (!strcmp(type, "Sequence") && inner && inner->kind == EITP__JSON_ARRAY) {
        for (inner = inner->first_child; inner && status == EITP_OK; inner = inner->next)
            status = eitp__check_post_processor(inner, error);
        return status;
    }
    if (strcmp(type, "ByteLevel"))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: unsupported post_processor \"%.80s\"; it must be null, ByteLevel, or a "
                          "TemplateProcessing that adds nothing",
                          part->line, type);
    return EITP_OK;
}

static void eitp__warn_about_ignored(const eitp_host *host, const eitp__json *root) {
    static const char *const names[] = {"truncation", "padding"};
    for (size_t i = 0; i < EITP__COUNT(names); i++) {
        if (!eitp__is_absent(eitp__json_member(root, names[i])))
            eitp__log(host, EITP_LOG_WARNING,
                      "%s of the tokenizer is ignored and will not be saved; texts are encoded whole", names[i]);
    }
}

static eitp_status eitp__load_document(eitp__loader *loader, const eitp__json *root, eitp_error *error) {
    const eitp__json *model = eitp__json_member(root, "model"), *merges = eitp__json_member(model, "merges");
    const eitp__json *vocabulary = eitp__json_member(model, "vocab"), *added = eitp__json_member(root, "added_tokens");
    int add_prefix_space = 0;
    eitp_status status = eitp__check_model(model, error);
    if (status == EITP_OK)
        status = eitp__check_part(root, "normalizer", NULL, error);
    if (status == EITP_OK)
        status = eitp__check_pre_tokenizer(root, &add_prefix_space, error);
    if (status == EITP_OK)
        status = eitp__check_post_processor(eitp__json_member(root, "post_processor"), error);
    if (status == EITP_OK)
        status = eitp__check_part(root, "decoder", "ByteLevel", error);
    if (status != EITP_OK)
        return status;
    if (!merges || merges->kind != EITP__JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_FORMAT, "\"merges\" of the model must be an array");
    if (!eitp__is_absent(added) && added->kind != EITP__JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: added_tokens must be an array", added->line);
    const size_t count = vocabulary ? vocabulary->count : 0;
    status = eitp__load_vocabulary(loader, vocabulary, eitp__count_added_outside(added, count), merges->count, error);
    if (status == EITP_OK)
        status = eitp__load_json_merges(loader, merges, error);
    if (status == EITP_OK)
        status = eitp__load_added_tokens(loader, added, count, error);
    if (status != EITP_OK)
        return status;
    loader->tokenizer->add_prefix_space = add_prefix_space;
    eitp__warn_about_ignored(loader->host, root);
    status = eitp__load_special_tokens(loader, error);
    if (status == EITP_OK)
        status = eitp__check_added_overlaps(loader->tokenizer, error);
    return status;
}

static eitp_status eitp__tokenizer_from_document(const eitp_host *host, const eitp__json_document *document,
                                                 const eitp__special_files *files, eitp_tokenizer **out,
                                                 eitp_error *error) {
    eitp__loader loader;
    eitp__loader_init(&loader, host, files);
    return eitp__loader_finish(&loader, eitp__load_document(&loader, eitp__json_root(document), error), out);
}

EITP__PRIVATE eitp_status eitp__tokenizer_parse(const eitp_host *host, const char *json, size_t size,
                                                eitp_tokenizer **out, eitp_error *error) {
    const eitp__special_files none = EITP__ZERO;
    eitp__json_document *document;
    *out = NULL;
    eitp_status status = eitp__json_parse(host, json, size, &document, error);
    if (status != EITP_OK)
        return status;
    status = eitp__tokenizer_from_document(host, document, &none, out, error);
    eitp__json_release(document);
    return status;
}

EITP__PRIVATE eitp_status eitp__load_tokenizer_json(const eitp_host *host, const char *path,
                                                    const eitp__special_files *files, eitp_tokenizer **out,
                                                    eitp_error *error) {
    eitp__json_document *document;
    eitp_status status = eitp__json_read_file(host, path, EITP__TOKENIZER_FILE_LIMIT, &document, error);
    if (status != EITP_OK)
        return status;
    status = eitp__tokenizer_from_document(host, document, files, out, error);
    if (status != EITP_OK)
        status = eitp__fail_prefix(error, status, "%s", path);
    eitp__json_release(document);
    return status;
}
