#include "text/loader.h"

#include "base/checksum.h"
#include "base/unicode.h"

EITP__PRIVATE void eitp__loader_init(eitp__loader *loader, const eitp_host *host, const eitp__special_files *files) {
    memset(loader, 0, sizeof *loader);
    loader->host = host;
    loader->files = files;
    eitp__buffer_init(&loader->bytes, host);
    eitp__buffer_init(&loader->right_bytes, host);
}

static void eitp__loader_release(eitp__loader *loader) {
    eitp_tokenizer_destroy(loader->tokenizer);
    eitp__release(loader->host, loader->slots, loader->slot_count * sizeof *loader->slots);
    eitp__buffer_release(&loader->bytes);
    eitp__buffer_release(&loader->right_bytes);
}

EITP__PRIVATE eitp_status eitp__loader_finish(eitp__loader *loader, eitp_status status, eitp_tokenizer **out) {
    if (status == EITP_OK) {
        *out = loader->tokenizer;
        loader->tokenizer = NULL;
    }
    eitp__loader_release(loader);
    return status;
}

EITP__PRIVATE int eitp__excerpt_size(size_t size) {
    return size < 80 ? (int)size : 80;
}

EITP__PRIVATE int eitp__is_absent(const eitp_json *value) {
    return !value || value->kind == EITP_JSON_NULL;
}

EITP__PRIVATE int eitp__text_equals(const eitp_json *value, const char *text) {
    return value && value->kind == EITP_JSON_STRING && value->text_size == strlen(text) && !strcmp(value->text, text);
}

EITP__PRIVATE eitp_status eitp__element_type(const eitp_json *part, const char *name, const char **type,
                                             eitp_error *error) {
    *type = NULL;
    eitp_status status = eitp__json_get_text(part, "type", type, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "%s", name);
    return *type ? EITP_OK
                 : eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: type of the %s is missing", part->line, name);
}

EITP__PRIVATE eitp_status eitp__check_replace(const eitp_json *part, const char *name, const char *from, const char *to,
                                              eitp_error *error) {
    if (eitp__text_equals(eitp_json_member(eitp_json_member(part, "pattern"), "String"), from) &&
        eitp__text_equals(eitp_json_member(part, "content"), to))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "line %zu: unsupported Replace of the %s; it must replace the string \"%s\" with \"%s\"",
                      part->line, name, from, to);
}

EITP__PRIVATE eitp_status eitp__load_flag(const eitp_json *part, const char *name, int required, int *value,
                                          eitp_error *error) {
    eitp_status status = eitp__json_get_boolean(part, name, value, error);
    if (status == EITP_OK && required && eitp__is_absent(eitp_json_member(part, name)))
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: %s is missing", part->line, name);
    return status;
}

EITP__PRIVATE const char *eitp__model_name(int model) {
    static const char *const names[] = {"byte-level BPE", "WordPiece", "BPE with byte fallback"};
    return names[model];
}

EITP__PRIVATE unsigned eitp__decode_spelling(eitp__buffer *bytes, const char *text, size_t size) {
    eitp__buffer_clear(bytes);
    for (size_t i = 0; i < size;) {
        uint32_t code_point;
        int valid;
        i += eitp__utf8_next((const unsigned char *)text + i, size - i, &code_point, &valid);
        int byte = valid ? eitp__character_to_byte(code_point) : -1;
        if (byte < 0) {
            eitp__buffer_clear(bytes);
            eitp__buffer_add(bytes, text, size);
            return EITP__TOKEN_VERBATIM;
        }
        const unsigned char value = (unsigned char)byte;
        eitp__buffer_add(bytes, &value, 1);
    }
    return 0;
}

static unsigned eitp__spelling_of(const eitp__loader *loader, eitp__buffer *bytes, const char *text, size_t size) {
    if (loader->model == EITP__MODEL_BPE)
        return eitp__decode_spelling(bytes, text, size);
    eitp__buffer_clear(bytes);
    eitp__buffer_add(bytes, text, size);
    return EITP__TOKEN_VERBATIM;
}

EITP__PRIVATE unsigned eitp__load_spelling(eitp__loader *loader, const char *text, size_t size) {
    return eitp__spelling_of(loader, &loader->bytes, text, size);
}

EITP__PRIVATE uint32_t *eitp__loader_slot(eitp__loader *loader, const void *bytes, size_t size, unsigned verbatim) {
    uint64_t hash = eitp__fnv1a(EITP__FNV_START + verbatim, bytes, size);
    hash ^= hash >> 32;
    for (size_t i = (size_t)hash & (loader->slot_count - 1);; i = (i + 1) & (loader->slot_count - 1)) {
        uint32_t *slot = &loader->slots[i];
        if (!*slot)
            return slot;
        const eitp__token *token = &loader->tokenizer->vocabulary.tokens[*slot - 1];
        if (token->size == size && (token->flags & EITP__TOKEN_VERBATIM) == verbatim &&
            (!size || !memcmp(eitp__token_bytes(loader->tokenizer, *slot - 1), bytes, size)))
            return slot;
    }
}

EITP__PRIVATE int64_t eitp__load_find(eitp__loader *loader, const char *text, size_t size) {
    unsigned verbatim = eitp__load_spelling(loader, text, size);
    if (loader->bytes.failed)
        return -1;
    return (int64_t)*eitp__loader_slot(loader, loader->bytes.data, loader->bytes.size, verbatim) - 1;
}

EITP__PRIVATE int eitp__load_mark_special(eitp__loader *loader, const char *text, size_t size) {
    const int64_t id = eitp__load_find(loader, text, size);
    if (id >= 0)
        loader->tokenizer->vocabulary.tokens[id].flags |= EITP__TOKEN_ADDED | EITP__TOKEN_SPECIAL;
    return id >= 0;
}

EITP__PRIVATE eitp_status eitp__load_token(eitp__loader *loader, const char *text, size_t size, size_t id, size_t line,
                                           eitp_error *error) {
    unsigned verbatim = eitp__load_spelling(loader, text, size);
    if (loader->bytes.failed)
        return eitp__fail_memory(error, size, "the tokenizer's vocabulary");
    uint32_t *slot = eitp__loader_slot(loader, loader->bytes.data, loader->bytes.size, verbatim);
    if (*slot)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: token \"%.*s\" is also token %lu; remove one of them",
                          line, eitp__excerpt_size(size), text, (unsigned long)*slot - 1);
    *slot = (uint32_t)id + 1;
    return eitp__tokenizer_set_token(loader->tokenizer, id, loader->bytes.data, loader->bytes.size, verbatim, error);
}

/* Finds the number of ids up to the largest one of a vocabulary. */
static eitp_status eitp__count_ids(const eitp_json *vocabulary, size_t *count, eitp_error *error) {
    *count = 0;
    for (const eitp_json *entry = vocabulary->first_child; entry; entry = entry->next) {
        if (entry->kind != EITP_JSON_NUMBER || !entry->is_integer || entry->integer < 0 || entry->integer > INT32_MAX)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "line %zu: the id of token \"%.*s\" must be an integer from 0 to %ld", entry->line,
                              eitp__excerpt_size(entry->name_size), entry->name, (long)INT32_MAX);
        *count = (size_t)entry->integer >= *count ? (size_t)entry->integer + 1 : *count;
    }
    return EITP_OK;
}

static eitp_status eitp__load_json_token(eitp__loader *loader, const eitp_json *entry, eitp_error *error) {
    const int shown = eitp__excerpt_size(entry->name_size);
    const size_t id = (size_t)entry->integer;
    if (loader->tokenizer->vocabulary.tokens[id].flags)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "line %zu: token \"%.*s\" has id %zu, which is used by another token; ids must be unique",
                          entry->line, shown, entry->name, id);
    return eitp__load_token(loader, entry->name, entry->name_size, id, entry->line, error);
}

EITP__PRIVATE eitp_status eitp__load_begin(eitp__loader *loader, size_t count, size_t id_count, size_t merge_count,
                                           eitp_error *error) {
    if (id_count > EITP__VOCABULARY_LIMIT || merge_count > EITP__VOCABULARY_LIMIT)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "%zu token ids and %zu merges exceed the limit of %zu each",
                          id_count, merge_count, EITP__VOCABULARY_LIMIT);
    if (!count)
        return eitp__fail(error, EITP_ERROR_FORMAT, "the vocabulary has no tokens");
    loader->tokenizer = eitp__tokenizer_allocate(loader->host, id_count, merge_count, error);
    if (!loader->tokenizer)
        return EITP_ERROR_MEMORY;
    loader->tokenizer->model = loader->model;
    loader->slot_count = 1024;
    while (loader->slot_count < 2 * count)
        loader->slot_count *= 2;
    loader->slots = (uint32_t *)eitp__allocate(loader->host, loader->slot_count * sizeof *loader->slots);
    if (!loader->slots) {
        const size_t size = loader->slot_count * sizeof *loader->slots;
        loader->slot_count = 0;
        return eitp__fail_memory(error, size, "the tokenizer's vocabulary");
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__load_vocabulary(eitp__loader *loader, const eitp_json *vocabulary, size_t added_ids,
                                                size_t merge_count, eitp_error *error) {
    size_t id_count;
    if (!vocabulary || vocabulary->kind != EITP_JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT, "the vocabulary must be an object of tokens and ids");
    eitp_status status = eitp__count_ids(vocabulary, &id_count, error);
    if (status == EITP_OK)
        status = eitp__load_begin(loader, vocabulary->count, id_count > added_ids ? id_count : added_ids, merge_count,
                                  error);
    const eitp_json *entry = vocabulary->first_child;
    for (; entry && status == EITP_OK; entry = entry->next)
        status = eitp__load_json_token(loader, entry, error);
    return status;
}

EITP__PRIVATE eitp_status eitp__load_merge(eitp__loader *loader, size_t rank, size_t line, const char *left,
                                           size_t left_size, const char *right, size_t right_size, eitp_error *error) {
    const unsigned kind = loader->model == EITP__MODEL_BPE ? 0 : (unsigned)EITP__TOKEN_VERBATIM;
    unsigned verbatim = eitp__spelling_of(loader, &loader->bytes, left, left_size);
    verbatim |= eitp__spelling_of(loader, &loader->right_bytes, right, right_size);
    if (loader->bytes.failed || loader->right_bytes.failed)
        return eitp__fail_memory(error, left_size + right_size, "the tokenizer's merges");
    if (verbatim != kind || !left_size || !right_size)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "line %zu: merge %zu, \"%.*s\" and \"%.*s\": both must be non-empty%s", line, rank,
                          eitp__excerpt_size(left_size), left, eitp__excerpt_size(right_size), right,
                          kind ? "" : " and spelled in GPT-2's byte alphabet");
    eitp__merge *merge = &loader->tokenizer->bpe.merges[rank];
    uint32_t slot = *eitp__loader_slot(loader, loader->bytes.data, loader->bytes.size, kind);
    merge->left = (int32_t)slot - 1;
    slot = *eitp__loader_slot(loader, loader->right_bytes.data, loader->right_bytes.size, kind);
    merge->right = (int32_t)slot - 1;
    eitp__buffer_add(&loader->bytes, loader->right_bytes.data, loader->right_bytes.size);
    if (loader->bytes.failed)
        return eitp__fail_memory(error, left_size + right_size, "the tokenizer's merges");
    slot = *eitp__loader_slot(loader, loader->bytes.data, loader->bytes.size, kind);
    merge->result = (int32_t)slot - 1;
    if (merge->left < 0 || merge->right < 0 || merge->result < 0)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "line %zu: merge %zu, \"%.*s\" and \"%.*s\": the %s token is not in the vocabulary; use the "
                          "vocabulary and the merges of one tokenizer",
                          line, rank, eitp__excerpt_size(left_size), left, eitp__excerpt_size(right_size), right,
                          merge->left < 0    ? "left"
                          : merge->right < 0 ? "right"
                                             : "merged");
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__load_unknown(eitp__loader *loader, const char *text, size_t size, eitp_error *error) {
    const int64_t id = eitp__load_find(loader, text, size);
    if (id < 0)
        return eitp__fail(
            error, EITP_ERROR_FORMAT,
            "the vocabulary lacks the token \"%.*s\" for unknown words (unk_token); add it, or name another "
            "one",
            eitp__excerpt_size(size), text);
    if (loader->model == EITP__MODEL_WORDPIECE)
        loader->tokenizer->wordpiece.unknown = (int32_t)id;
    else
        loader->tokenizer->bpe.unknown = (int32_t)id;
    return EITP_OK;
}
