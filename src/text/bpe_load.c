/* Reading tokenizer.json, or vocab.json and merges.txt, and what the files beside them say of special tokens. */
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/unicode.h"
#include "text/special_tokens.h"
#include "text/tokenizer.h"

#define EITP__TOKENIZER_FILE_LIMIT ((size_t)67108864)

/* A tokenizer on its way in, with its tokens by their text. */
typedef struct eitp__loader {
    const eitp_host *host;
    const eitp__special_files *files;
    eitp_tokenizer *tokenizer;
    uint32_t *slots;      /* open addressing: id + 1, or 0 where the slot is free */
    size_t slot_count;    /* a power of two */
    eitp__buffer bytes;   /* of the token being looked at */
    eitp__buffer another; /* and of its neighbour */
} eitp__loader;

static void eitp__loader_init(eitp__loader *loader, const eitp_host *host, const eitp__special_files *files) {
    memset(loader, 0, sizeof *loader);
    loader->host = host;
    loader->files = files;
    eitp__buffer_init(&loader->bytes, host);
    eitp__buffer_init(&loader->another, host);
}

static void eitp__loader_release(eitp__loader *loader) {
    eitp_tokenizer_destroy(loader->tokenizer);
    eitp__release(loader->host, loader->slots, loader->slot_count * sizeof *loader->slots);
    eitp__buffer_release(&loader->bytes);
    eitp__buffer_release(&loader->another);
}

/* How much of a text from a file is put into a message. */
static int eitp__shown(size_t size) {
    return size < 80 ? (int)size : 80;
}

/* From the spelling in a file to bytes. Returns EITP__TOKEN_VERBATIM where a character is outside the alphabet of
   bytes: then the token is its own UTF-8. */
static unsigned eitp__token_spelling(eitp__buffer *bytes, const char *text, size_t size) {
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

/* The slot of a token with this text and kind (0 or EITP__TOKEN_VERBATIM), or the free slot where it belongs. */
static uint32_t *eitp__loader_slot(eitp__loader *loader, const void *bytes, size_t size, unsigned verbatim) {
    const unsigned char *text = (const unsigned char *)bytes;
    uint64_t hash = 0xCBF29CE484222325u + verbatim;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ text[i]) * 0x100000001B3u;
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

static eitp_status eitp__load_token(eitp__loader *loader, const eitp__json *entry, size_t count, eitp_error *error) {
    const int shown = eitp__shown(entry->name_size);
    if (entry->kind != EITP__JSON_NUMBER || !entry->is_integer || entry->integer < 0)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "line %zu: the id of the token \"%.*s\" is no whole number from 0 on", entry->line, shown,
                          entry->name);
    if ((uint64_t)entry->integer >= count)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "line %zu: the token \"%.*s\" has id %lld, but the %zu tokens of the vocabulary must have "
                          "the ids 0 to %zu, "
                          "each once",
                          entry->line, shown, entry->name, (long long)entry->integer, count, count - 1);
    const size_t id = (size_t)entry->integer;
    if (loader->tokenizer->vocabulary.tokens[id].flags)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "line %zu: the token \"%.*s\" has id %zu, which another one has too", entry->line, shown,
                          entry->name, id);
    unsigned verbatim = eitp__token_spelling(&loader->bytes, entry->name, entry->name_size);
    if (loader->bytes.failed)
        return eitp__fail_memory(error, entry->name_size, "the tokenizer's vocabulary");
    uint32_t *slot = eitp__loader_slot(loader, loader->bytes.data, loader->bytes.size, verbatim);
    *slot = (uint32_t)id + 1;
    return eitp__tokenizer_put(loader->tokenizer, id, loader->bytes.data, loader->bytes.size, verbatim, error);
}

/* Makes loader->tokenizer with the tokens of a vocabulary and room for `outside` more. */
static eitp_status eitp__load_vocabulary(eitp__loader *loader, const eitp__json *vocabulary, size_t outside,
                                         size_t merge_count, eitp_error *error) {
    if (!vocabulary || vocabulary->kind != EITP__JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT, "the vocabulary is missing or no object of tokens and ids");
    const size_t count = vocabulary->count;
    if (count + outside > EITP__VOCABULARY_LIMIT || merge_count > EITP__VOCABULARY_LIMIT)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "%zu tokens and %zu merges: at most %zu of each can be had",
                          count + outside, merge_count, EITP__VOCABULARY_LIMIT);
    if (count < 256)
        return eitp__fail(
            error, EITP_ERROR_UNSUPPORTED,
            "the vocabulary has %zu tokens, fewer than there are bytes; train it with an initial alphabet of "
            "all 256 bytes",
            count);
    loader->tokenizer = eitp__tokenizer_begin(loader->host, count + outside, merge_count, error);
    if (!loader->tokenizer)
        return EITP_ERROR_MEMORY;
    loader->slot_count = 1024;
    while (loader->slot_count < 2 * count)
        loader->slot_count *= 2;
    loader->slots = (uint32_t *)eitp__allocate(loader->host, loader->slot_count * sizeof *loader->slots);
    if (!loader->slots) {
        const size_t size = loader->slot_count * sizeof *loader->slots;
        loader->slot_count = 0;
        return eitp__fail_memory(error, size, "the tokenizer's vocabulary");
    }
    for (const eitp__json *entry = vocabulary->first_child; entry; entry = entry->next) {
        eitp_status status = eitp__load_token(loader, entry, count, error);
        if (status != EITP_OK)
            return status;
    }
    return EITP_OK;
}

static eitp_status eitp__load_merge(eitp__loader *loader, size_t rank, size_t line, const char *left, size_t left_size,
                                    const char *right, size_t right_size, eitp_error *error) {
    unsigned verbatim = eitp__token_spelling(&loader->bytes, left, left_size);
    verbatim |= eitp__token_spelling(&loader->another, right, right_size);
    if (loader->bytes.failed || loader->another.failed)
        return eitp__fail_memory(error, left_size + right_size, "the tokenizer's merges");
    if (verbatim || !left_size || !right_size)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "line %zu: merge %zu, \"%.*s\" and \"%.*s\", is not two texts in the alphabet of bytes", line,
                          rank, eitp__shown(left_size), left, eitp__shown(right_size), right);
    eitp__merge *merge = &loader->tokenizer->bpe.merges[rank];
    uint32_t slot = *eitp__loader_slot(loader, loader->bytes.data, loader->bytes.size, 0);
    merge->left = (int32_t)slot - 1;
    slot = *eitp__loader_slot(loader, loader->another.data, loader->another.size, 0);
    merge->right = (int32_t)slot - 1;
    eitp__buffer_add(&loader->bytes, loader->another.data, loader->another.size);
    if (loader->bytes.failed)
        return eitp__fail_memory(error, left_size + right_size, "the tokenizer's merges");
    slot = *eitp__loader_slot(loader, loader->bytes.data, loader->bytes.size, 0);
    merge->result = (int32_t)slot - 1;
    if (merge->left < 0 || merge->right < 0 || merge->result < 0)
        return eitp__fail(
            error, EITP_ERROR_FORMAT,
            "line %zu: merge %zu, \"%.*s\" and \"%.*s\": %s not in the vocabulary; vocabulary and merges must be "
            "those of one tokenizer",
            line, rank, eitp__shown(left_size), left, eitp__shown(right_size), right,
            merge->left < 0    ? "the first is"
            : merge->right < 0 ? "the second is"
                               : "what they make is");
    return EITP_OK;
}

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
                              "line %zu: merge %zu is neither \"left right\" nor [\"left\", \"right\"]", entry->line,
                              rank);
        eitp_status status = eitp__load_merge(loader, rank, entry->line, left, left_size, right, right_size, error);
        if (status != EITP_OK)
            return status;
    }
    return EITP_OK;
}

static int eitp__is_absent(const eitp__json *value) {
    return !value || value->kind == EITP__JSON_NULL;
}

/* A part of tokenizer.json that must be null or, where `type` is given, an object of this type. */
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
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "line %zu: the %s \"%.80s\" is not supported; it must be %s%s",
                      part->line, name, found, type ? "null or " : "null", type ? type : "");
}

/* A text of the model that must be null or empty. */
static eitp_status eitp__check_empty(const eitp__json *model, const char *name, eitp_error *error) {
    const eitp__json *value = eitp__json_member(model, name);
    if (eitp__is_absent(value) || (value->kind == EITP__JSON_STRING && !value->text_size))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "line %zu: the model's %s is not supported; it must be null",
                      value->line, name);
}

static eitp_status eitp__check_model(const eitp__json *model, eitp_error *error) {
    const char *type = "BPE";
    double dropout = 0;
    int ignore_merges = 0;
    if (!model || model->kind != EITP__JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_FORMAT, "there is no \"model\"; is it a tokenizer.json?");
    eitp_status status = eitp__json_get_text(model, "type", &type, error);
    if (status == EITP_OK && strcmp(type, "BPE"))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: the model \"%.80s\" is not supported; it must be BPE", model->line, type);
    if (status == EITP_OK)
        status = eitp__json_get_number(model, "dropout", 0, 1, &dropout, error);
    if (status == EITP_OK && dropout > 0)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "the model has a dropout of %g, which is not supported; it must be null", dropout);
    if (status == EITP_OK)
        status = eitp__json_get_boolean(model, "ignore_merges", &ignore_merges, error);
    if (status == EITP_OK && ignore_merges)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "the model's ignore_merges is not supported; it must be false");
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
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "there is no pre_tokenizer; it must be ByteLevel");
    eitp_status status = eitp__json_get_text(part, "type", &type, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "pre_tokenizer");
    if (strcmp(type, "ByteLevel"))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: the pre_tokenizer \"%.80s\" is not supported; it must be ByteLevel", part->line,
                          type);
    status = eitp__json_get_boolean(part, "use_regex", &use_regex, error);
    if (status == EITP_OK && !use_regex)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: the pre_tokenizer's use_regex is false, which is not supported; it must be true",
                          part->line);
    if (status == EITP_OK && eitp__is_absent(eitp__json_member(part, "add_prefix_space")))
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: the pre_tokenizer does not say add_prefix_space",
                          part->line);
    if (status == EITP_OK)
        status = eitp__json_get_boolean(part, "add_prefix_space", add_prefix_space, error);
    return status;
}

/* The name of what a template adds to a text, or NULL. */
static const char *eitp__template_addition(const eitp__json *pieces) {
    const eitp__json *piece = pieces && pieces->kind == EITP__JSON_ARRAY ? pieces->first_child : NULL;
    const char *id = NULL;
    for (; piece && !id; piece = piece->next)
        eitp__json_get_text(eitp__json_member(piece, "SpecialToken"), "id", &id, NULL);
    return id;
}

/* A template of nothing but the text: what transformers 5 writes for "no post-processor". */
static eitp_status eitp__check_template(const eitp__json *part, eitp_error *error) {
    const eitp__json *pieces = eitp__json_member(part, "single");
    const char *id = "", *added = eitp__template_addition(pieces);
    if (added)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: the post_processor adds \"%.80s\" to each text, which is not supported; remove it "
                          "(set post_processor to null)",
                          part->line, added);
    if (pieces && pieces->kind == EITP__JSON_ARRAY && pieces->count == 1)
        eitp__json_get_text(eitp__json_member(pieces->first_child, "Sequence"), "id", &id, NULL);
    if (strcmp(id, "A"))
        return eitp__fail(
            error, EITP_ERROR_UNSUPPORTED,
            "line %zu: the post_processor \"TemplateProcessing\" is not supported unless its single is the "
            "sequence A alone",
            part->line);
    return EITP_OK;
}

/* A post-processor that changes no ids: ByteLevel (which is about offsets), such a template, or several of these. */
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
                          "line %zu: the post_processor \"%.80s\" is not supported; it must be null, ByteLevel, or a "
                          "TemplateProcessing that adds nothing",
                          part->line, type);
    return EITP_OK;
}

/* What is not done to texts here. */
static void eitp__warn_of_ignored(const eitp_host *host, const eitp__json *root) {
    static const char *const names[] = {"truncation", "padding"};
    for (size_t i = 0; i < EITP__COUNT(names); i++) {
        if (!eitp__is_absent(eitp__json_member(root, names[i])))
            eitp__log(host, EITP_LOG_WARNING,
                      "the tokenizer's %s is ignored: texts are encoded whole, and it is not saved again", names[i]);
    }
}

/* The flags of an added token, and that it is one that can be had. */
static eitp_status eitp__check_added_token(const eitp__json *entry, unsigned *flags, eitp_error *error) {
    static const char *const refused[] = {"single_word", "lstrip", "rstrip"};
    const eitp__json *content = eitp__json_member(entry, "content");
    int normalized = 0, special = 0;
    if (!content || content->kind != EITP__JSON_STRING || !content->text_size)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: an added token without content", entry->line);
    if (content->text_size > EITP__ADDED_TOKEN_LIMIT)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: an added token of %zu bytes; at most %zu can be had", entry->line,
                          content->text_size, EITP__ADDED_TOKEN_LIMIT);
    for (size_t i = 0; i < EITP__COUNT(refused); i++) {
        int value = 0;
        eitp_status status = eitp__json_get_boolean(entry, refused[i], &value, error);
        if (status != EITP_OK)
            return status;
        if (value)
            return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                              "line %zu: %s of the added token \"%.*s\" is not supported; it must be false",
                              entry->line, refused[i], eitp__shown(content->text_size), content->text);
    }
    eitp_status status = eitp__json_get_boolean(entry, "normalized", &normalized, error);
    if (status == EITP_OK)
        status = eitp__json_get_boolean(entry, "special", &special, error);
    *flags = EITP__TOKEN_ADDED | (normalized ? (unsigned)EITP__TOKEN_NORMALIZED : 0u) |
             (special ? (unsigned)EITP__TOKEN_SPECIAL : 0u);
    return status;
}

/* `next` is the id of the next added token that is not in the model's vocabulary. */
static eitp_status eitp__load_added_token(eitp__loader *loader, const eitp__json *entry, size_t *next,
                                          eitp_error *error) {
    eitp__vocabulary *vocabulary = &loader->tokenizer->vocabulary;
    unsigned flags = 0;
    int64_t id = -1;
    eitp_status status = eitp__check_added_token(entry, &flags, error);
    if (status == EITP_OK)
        status = eitp__json_get_integer(entry, "id", 0, INT32_MAX, &id, error);
    if (status != EITP_OK)
        return status;
    const eitp__json *content = eitp__json_member(entry, "content");
    const int shown = eitp__shown(content->text_size);
    unsigned verbatim = eitp__token_spelling(&loader->bytes, content->text, content->text_size);
    if (loader->bytes.failed)
        return eitp__fail_memory(error, content->text_size, "the tokenizer's added tokens");
    uint32_t known = *eitp__loader_slot(loader, loader->bytes.data, loader->bytes.size, verbatim);
    /* As the library does it: what the vocabulary has keeps its id, everything else comes after it, in order. */
    const size_t expected = known ? known - 1 : *next;
    if ((uint64_t)id != expected)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "line %zu: the added token \"%.*s\" has id %lld where it must be %zu", entry->line, shown,
                          content->text, (long long)id, expected);
    if (!known) {
        ++*next;
        return eitp__tokenizer_put(loader->tokenizer, expected, content->text, content->text_size,
                                   flags | EITP__TOKEN_OUTSIDE, error);
    }
    if (loader->bytes.size != content->text_size || memcmp(loader->bytes.data, content->text, content->text_size))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: the added token \"%.*s\" is also the spelling of other bytes in the vocabulary",
                          entry->line, shown, content->text);
    if (vocabulary->tokens[expected].flags & EITP__TOKEN_ADDED)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: the added token \"%.*s\" is there twice", entry->line,
                          shown, content->text);
    vocabulary->tokens[expected].flags |= (unsigned char)flags;
    return EITP_OK;
}

/* Whether some text has both tokens at places that overlap. */
static int eitp__tokens_overlap(const unsigned char *a, size_t a_size, const unsigned char *b, size_t b_size) {
    for (size_t shift = 0; shift < a_size; shift++) {
        size_t common = a_size - shift < b_size ? a_size - shift : b_size;
        if (!memcmp(a + shift, b, common))
            return 1;
    }
    for (size_t shift = 1; shift < b_size; shift++) {
        size_t common = b_size - shift < a_size ? b_size - shift : a_size;
        if (!memcmp(b + shift, a, common))
            return 1;
    }
    return 0;
}

/* The library looks for the tokens that are not `normalized` first and for the others in what is left; one search finds
   the same as long as no two of different kinds can overlap. */
static eitp_status eitp__check_two_searches(const eitp_tokenizer *tokenizer, eitp_error *error) {
    const eitp__token *tokens = tokenizer->vocabulary.tokens;
    for (size_t i = 0; i < tokenizer->added_count; i++) {
        const eitp__added_token *one = &tokenizer->added[i];
        for (size_t k = i + 1; k < tokenizer->added_count; k++) {
            const eitp__added_token *other = &tokenizer->added[k];
            if (!((tokens[one->id].flags ^ tokens[other->id].flags) & EITP__TOKEN_NORMALIZED))
                continue;
            if (tokenizer->added_count > 4096 || eitp__tokens_overlap(one->bytes, one->size, other->bytes, other->size))
                return eitp__fail(
                    error, EITP_ERROR_UNSUPPORTED,
                    "the added tokens \"%.*s\" and \"%.*s\" may overlap in a text, and only one of them is "
                    "\"normalized\"; make that the same",
                    eitp__shown(one->size), (const char *)one->bytes, eitp__shown(other->size),
                    (const char *)other->bytes);
        }
    }
    return EITP_OK;
}

static eitp_status eitp__load_added_tokens(eitp__loader *loader, const eitp__json *added, size_t next,
                                           eitp_error *error) {
    for (const eitp__json *entry = added ? added->first_child : NULL; entry; entry = entry->next) {
        eitp_status status = eitp__load_added_token(loader, entry, &next, error);
        if (status != EITP_OK)
            return status;
    }
    return EITP_OK;
}

/* Added tokens whose ids are beyond the model's vocabulary of `count` tokens. */
static size_t eitp__count_outside(const eitp__json *added, size_t count) {
    size_t outside = 0;
    for (const eitp__json *entry = added ? added->first_child : NULL; entry; entry = entry->next) {
        const eitp__json *id = eitp__json_member(entry, "id");
        outside += id && id->kind == EITP__JSON_NUMBER && id->integer > 0 && (uint64_t)id->integer >= count;
    }
    return outside;
}

/* ---- Special tokens ---- */

static int eitp__is_added_token(const eitp_tokenizer *tokenizer, size_t id, const eitp__json *content) {
    const eitp__token *token = &tokenizer->vocabulary.tokens[id];
    return (token->flags & EITP__TOKEN_ADDED) && token->size == content->text_size &&
           !memcmp(eitp__token_bytes(tokenizer, id), content->text, token->size);
}

/* Makes a token of the model's vocabulary an added one, as transformers does with what its files name. *id is -1 where
   the vocabulary has no such token. */
static eitp_status eitp__mark_added_token(eitp__loader *loader, const eitp__json *content, unsigned flags, int64_t *id,
                                          eitp_error *error) {
    unsigned verbatim = eitp__token_spelling(&loader->bytes, content->text, content->text_size);
    if (loader->bytes.failed)
        return eitp__fail_memory(error, content->text_size, "the tokenizer's added tokens");
    uint32_t known = *eitp__loader_slot(loader, loader->bytes.data, loader->bytes.size, verbatim);
    *id = -1;
    /* A token that files spell otherwise than its bytes is another text. */
    if (!known || loader->bytes.size != content->text_size ||
        memcmp(loader->bytes.data, content->text, content->text_size))
        return EITP_OK;
    loader->tokenizer->vocabulary.tokens[known - 1].flags |= (unsigned char)flags;
    *id = (int64_t)known - 1;
    return EITP_OK;
}

/* The id of a token that a file names by a string or an object; -1: the tokenizer does not have it. */
static eitp_status eitp__load_named_token(eitp__loader *loader, const eitp__json *value, int64_t *id,
                                          eitp_error *error) {
    const eitp__json *content = value->kind == EITP__JSON_OBJECT ? eitp__json_member(value, "content") : value;
    const eitp__vocabulary *vocabulary = &loader->tokenizer->vocabulary;
    unsigned flags = EITP__TOKEN_ADDED;
    if (!content || content->kind != EITP__JSON_STRING || !content->text_size)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: %s must be a text, an object with content, or null",
                          value->line, value->name);
    for (size_t i = 0; i < vocabulary->count; i++) {
        if (eitp__is_added_token(loader->tokenizer, i, content)) {
            *id = (int64_t)i;
            return EITP_OK;
        }
    }
    eitp_status status = content == value ? EITP_OK : eitp__check_added_token(value, &flags, error);
    return status == EITP_OK ? eitp__mark_added_token(loader, content, flags | EITP__TOKEN_SPECIAL, id, error) : status;
}

/* One of end-of-text, ...: *id is -2 where no file says which it is, and -1 where there is none. */
static eitp_status eitp__load_special_token(eitp__loader *loader, eitp_special_token which, int64_t *id,
                                            eitp_error *error) {
    int file;
    const eitp__json *value = eitp__special_token_value(loader->files, which, &file);
    *id = value ? -1 : -2;
    if (eitp__is_absent(value))
        return EITP_OK;
    eitp_status status = eitp__load_named_token(loader, value, id, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "%s", eitp__special_file_name(file));
    if (*id >= 0)
        return EITP_OK;
    const eitp__json *content = value->kind == EITP__JSON_OBJECT ? eitp__json_member(value, "content") : value;
    const int shown = eitp__shown(content->text_size);
    if (which == EITP_END_OF_TEXT)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "%s: line %zu: the tokenizer does not have the eos_token \"%.*s\"; save both files together, "
                          "with save_pretrained of transformers",
                          eitp__special_file_name(file), value->line, shown, content->text);
    eitp__log(loader->host, EITP_LOG_WARNING, "%s: line %zu: the tokenizer does not have the %s \"%.*s\"; ignored",
              eitp__special_file_name(file), value->line, value->name, shown, content->text);
    *id = -2;
    return EITP_OK;
}

/* An entry of added_tokens_decoder, "id": {"content": ...}: transformers would add it where the tokenizer lacks it. */
static eitp_status eitp__check_listed_token(eitp__loader *loader, const eitp__json *entry, eitp_error *error) {
    const eitp__vocabulary *vocabulary = &loader->tokenizer->vocabulary;
    const eitp__json *content = eitp__json_member(entry, "content");
    const size_t digits = strspn(entry->name, "0123456789");
    const uint64_t id = digits == entry->name_size && digits < 10 ? strtoull(entry->name, NULL, 10) : UINT64_MAX;
    unsigned flags = 0;
    int64_t found = -1;
    eitp_status status = eitp__check_added_token(entry, &flags, error);
    if (status != EITP_OK || (id < vocabulary->count && eitp__is_added_token(loader->tokenizer, (size_t)id, content)))
        return status;
    if (id < vocabulary->count)
        status = eitp__mark_added_token(loader, content, flags, &found, error);
    if (status == EITP_OK && (found < 0 || (uint64_t)found != id))
        return eitp__fail(
            error, EITP_ERROR_FORMAT,
            "line %zu: the tokenizer does not have the added token \"%.*s\" with id %.40s; save both files "
            "together, with save_pretrained of transformers",
            entry->line, eitp__shown(content->text_size), content->text, entry->name);
    return status;
}

static eitp_status eitp__check_listed_tokens(eitp__loader *loader, eitp_error *error) {
    const eitp__json *listed = eitp__special_added_tokens(loader->files);
    eitp_status status = EITP_OK;
    if (eitp__is_absent(listed))
        return EITP_OK;
    if (listed->kind != EITP__JSON_OBJECT)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: added_tokens_decoder must be an object", listed->line);
    for (const eitp__json *entry = listed->first_child; entry && status == EITP_OK; entry = entry->next)
        status = eitp__check_listed_token(loader, entry, error);
    return status == EITP_OK ? status
                             : eitp__fail_prefix(error, status, "%s", eitp__special_file_name(EITP__TOKENIZER_CONFIG));
}

/* What tokenizer_config.json says goes before tokenizer.json, as in transformers. */
static eitp_status eitp__load_prefix_space(eitp__loader *loader, eitp_error *error) {
    eitp_tokenizer *tokenizer = loader->tokenizer;
    int add_prefix_space = tokenizer->add_prefix_space;
    eitp_status status = eitp__tokenizer_config_boolean(loader->files, "add_prefix_space", &add_prefix_space, error);
    if (status == EITP_OK && add_prefix_space != tokenizer->add_prefix_space)
        eitp__log(loader->host, EITP_LOG_WARNING, "add_prefix_space is %s, as tokenizer_config.json has it",
                  add_prefix_space ? "true" : "false");
    tokenizer->add_prefix_space = add_prefix_space;
    return status;
}

/* Completes the tokenizer once its own files are read. */
static eitp_status eitp__load_special_tokens(eitp__loader *loader, eitp_error *error) {
    eitp_tokenizer *tokenizer = loader->tokenizer;
    int64_t ids[EITP_SPECIAL_TOKEN_COUNT];
    eitp_status status = eitp__load_prefix_space(loader, error);
    if (status == EITP_OK)
        status = eitp__check_listed_tokens(loader, error);
    for (int which = 0; which < EITP_SPECIAL_TOKEN_COUNT && status == EITP_OK; which++)
        status = eitp__load_special_token(loader, (eitp_special_token)which, &ids[which], error);
    if (status == EITP_OK)
        status = eitp__tokenizer_complete(tokenizer, error);
    if (status != EITP_OK)
        return status;
    for (int which = 0; which < EITP_SPECIAL_TOKEN_COUNT; which++) {
        const int64_t id = eitp__special_token_id(loader->files, (eitp_special_token)which);
        if (ids[which] > -2)
            tokenizer->special[which] = (int32_t)ids[which];
        else if (id >= 0 && (uint64_t)id < tokenizer->vocabulary.count &&
                 (tokenizer->vocabulary.tokens[id].flags & EITP__TOKEN_SPECIAL))
            tokenizer->special[which] = (int32_t)id;
    }
    eitp__special_files_keep(loader->files, &tokenizer->config);
    return tokenizer->config.failed ? eitp__fail_memory(error, tokenizer->config.size, "the tokenizer's configuration")
                                    : EITP_OK;
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
        return eitp__fail(error, EITP_ERROR_FORMAT, "the model's merges are missing or no array");
    if (!eitp__is_absent(added) && added->kind != EITP__JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: added_tokens is no array", added->line);
    const size_t count = vocabulary ? vocabulary->count : 0;
    status = eitp__load_vocabulary(loader, vocabulary, eitp__count_outside(added, count), merges->count, error);
    if (status == EITP_OK)
        status = eitp__load_json_merges(loader, merges, error);
    if (status == EITP_OK)
        status = eitp__load_added_tokens(loader, added, count, error);
    if (status != EITP_OK)
        return status;
    loader->tokenizer->add_prefix_space = add_prefix_space;
    eitp__warn_of_ignored(loader->host, root);
    status = eitp__load_special_tokens(loader, error);
    if (status == EITP_OK)
        status = eitp__check_two_searches(loader->tokenizer, error);
    return status;
}

/* Hands the tokenizer over where status is EITP_OK, and releases all else. */
static eitp_status eitp__loader_finish(eitp__loader *loader, eitp_status status, eitp_tokenizer **out) {
    if (status == EITP_OK) {
        *out = loader->tokenizer;
        loader->tokenizer = NULL;
    }
    eitp__loader_release(loader);
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

static eitp_status eitp__load_tokenizer_json(const eitp_host *host, const char *path, const eitp__special_files *files,
                                             eitp_tokenizer **out, eitp_error *error) {
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

/* The next line of merges.txt that is a merge. Returns 0 at the end. */
typedef struct eitp__merge_lines {
    const char *text;
    size_t size, at, line;
} eitp__merge_lines;

static int eitp__next_merge_line(eitp__merge_lines *lines, const char **text, size_t *size) {
    while (lines->at < lines->size) {
        const char *begin = lines->text + lines->at;
        const char *end = (const char *)memchr(begin, '\n', lines->size - lines->at);
        size_t length = end ? (size_t)(end - begin) : lines->size - lines->at;
        lines->at += length + (end != NULL);
        lines->line++;
        if (length && begin[length - 1] == '\r')
            length--;
        if (!length || (lines->line == 1 && length >= 8 && !memcmp(begin, "#version", 8)))
            continue;
        *text = begin;
        *size = length;
        return 1;
    }
    return 0;
}

static eitp_status eitp__load_text_merges(eitp__loader *loader, eitp__merge_lines lines, eitp_error *error) {
    const char *text;
    size_t size, rank = 0;
    while (eitp__next_merge_line(&lines, &text, &size)) {
        const char *space = (const char *)memchr(text, ' ', size);
        if (!space)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "line %zu: \"%.*s\" is not two tokens with a space between them", lines.line,
                              eitp__shown(size), text);
        size_t left = (size_t)(space - text);
        eitp_status status =
            eitp__load_merge(loader, rank++, lines.line, text, left, space + 1, size - left - 1, error);
        if (status != EITP_OK)
            return status;
    }
    return EITP_OK;
}

/* In this pair of files <|endoftext|> has no mark that it is special. */
static void eitp__mark_end_of_text(eitp__loader *loader) {
    uint32_t slot = *eitp__loader_slot(loader, EITP__END_OF_TEXT, strlen(EITP__END_OF_TEXT), 0);
    if (slot)
        loader->tokenizer->vocabulary.tokens[slot - 1].flags |= EITP__TOKEN_ADDED | EITP__TOKEN_SPECIAL;
}

/* Where there is no tokenizer.json, transformers makes a post-processor that adds a token. */
static eitp_status eitp__check_added_bos(const eitp__loader *loader, eitp_error *error) {
    int adds = 0;
    eitp_status status = eitp__tokenizer_config_boolean(loader->files, "add_bos_token", &adds, error);
    if (status != EITP_OK || !adds)
        return status;
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "%s: add_bos_token adds the bos_token to each text, which is not supported; it must be false",
                      eitp__special_file_name(EITP__TOKENIZER_CONFIG));
}

static eitp_status eitp__load_pair_content(eitp__loader *loader, const eitp__json *vocabulary,
                                           const eitp__buffer *merges, const char *vocabulary_path,
                                           const char *merges_path, eitp_error *error) {
    eitp__merge_lines lines = EITP__ZERO;
    const char *text;
    size_t size, merge_count = 0;
    lines.text = merges->data;
    lines.size = merges->size;
    eitp__merge_lines counted = lines;
    while (eitp__next_merge_line(&counted, &text, &size))
        merge_count++;
    eitp_status status = eitp__load_vocabulary(loader, vocabulary, 0, merge_count, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "%s", vocabulary_path);
    status = eitp__load_text_merges(loader, lines, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "%s", merges_path);
    eitp__mark_end_of_text(loader);
    status = eitp__check_added_bos(loader, error);
    if (status == EITP_OK)
        status = eitp__load_special_tokens(loader, error);
    return status == EITP_OK ? status : eitp__fail_prefix(error, status, "%s, %s", vocabulary_path, merges_path);
}

static eitp_status eitp__load_pair(const eitp_host *host, const char *vocabulary_path, const char *merges_path,
                                   const eitp__special_files *files, eitp_tokenizer **out, eitp_error *error) {
    eitp__json_document *document;
    eitp__loader loader;
    eitp__buffer merges;
    eitp_status status = eitp__json_read_file(host, vocabulary_path, EITP__TOKENIZER_FILE_LIMIT, &document, error);
    if (status != EITP_OK)
        return status;
    eitp__buffer_init(&merges, host);
    eitp__loader_init(&loader, host, files);
    status = eitp__read_file(host, merges_path, EITP__TOKENIZER_FILE_LIMIT, &merges, error);
    if (status == EITP_OK)
        status =
            eitp__load_pair_content(&loader, eitp__json_root(document), &merges, vocabulary_path, merges_path, error);
    status = eitp__loader_finish(&loader, status, out);
    eitp__buffer_release(&merges);
    eitp__json_release(document);
    return status;
}

/* The files that a tokenizer may have in a directory. */
enum { EITP__TOKENIZER_JSON, EITP__VOCAB_JSON, EITP__MERGES_TXT, EITP__ADDED_JSON, EITP__TOKENIZER_FILES };

static eitp_status eitp__load_from_directory(const eitp_host *host, const char *directory, char *const *paths,
                                             const eitp__special_files *files, eitp_tokenizer **out,
                                             eitp_error *error) {
    eitp_path_info info[EITP__TOKENIZER_FILES];
    for (size_t i = 0; i < EITP__TOKENIZER_FILES; i++) {
        eitp_status status = eitp__path_info(host, paths[i], &info[i], error);
        if (status != EITP_OK)
            return status;
    }
    if (info[EITP__TOKENIZER_JSON].kind != EITP_PATH_MISSING)
        return eitp__load_tokenizer_json(host, paths[EITP__TOKENIZER_JSON], files, out, error);
    if (info[EITP__VOCAB_JSON].kind == EITP_PATH_MISSING || info[EITP__MERGES_TXT].kind == EITP_PATH_MISSING)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s: no tokenizer here; there must be tokenizer.json, or vocab.json and merges.txt",
                          directory);
    if (info[EITP__ADDED_JSON].kind != EITP_PATH_MISSING)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "%s: added tokens are read from a tokenizer.json only; save the tokenizer in that form",
                          paths[EITP__ADDED_JSON]);
    return eitp__load_pair(host, paths[EITP__VOCAB_JSON], paths[EITP__MERGES_TXT], files, out, error);
}

static eitp_status eitp__load_directory(const eitp_host *host, const char *directory, eitp_tokenizer **out,
                                        eitp_error *error) {
    static const char *const names[] = {"tokenizer.json", "vocab.json", "merges.txt", "added_tokens.json"};
    eitp__special_files files = EITP__ZERO;
    char *paths[EITP__TOKENIZER_FILES];
    int complete = 1;
    for (size_t i = 0; i < EITP__TOKENIZER_FILES; i++) {
        paths[i] = eitp__join_path(host, directory, names[i]);
        complete = complete && paths[i];
    }
    eitp_status status = complete ? eitp__special_files_read(host, directory, &files, error)
                                  : eitp__fail_memory(error, strlen(directory), "a path");
    if (status == EITP_OK)
        status = eitp__load_from_directory(host, directory, paths, &files, out, error);
    eitp__special_files_release(&files);
    for (size_t i = 0; i < EITP__TOKENIZER_FILES; i++)
        eitp__release_text(host, paths[i]);
    return status;
}

/* A tokenizer.json of any name; under its own name it has the files beside it. */
static eitp_status eitp__load_file(const eitp_host *host, const char *path, eitp_tokenizer **out, eitp_error *error) {
    static const char name[] = "tokenizer.json";
    const char *slash = strrchr(path, '/');
    eitp__special_files files = EITP__ZERO;
    eitp_status status = EITP_OK;
    if (!strcmp(slash ? slash + 1 : path, name)) {
        char *directory = slash ? eitp__copy_bytes(host, path, (size_t)(slash - path) + 1) : eitp__copy_text(host, ".");
        status = directory ? eitp__special_files_read(host, directory, &files, error)
                           : eitp__fail_memory(error, strlen(path), "a path");
        eitp__release_text(host, directory);
    }
    if (status == EITP_OK)
        status = eitp__load_tokenizer_json(host, path, &files, out, error);
    eitp__special_files_release(&files);
    return status;
}

eitp_status eitp_tokenizer_load(const eitp_host *host, const char *path, eitp_tokenizer **out, eitp_error *error) {
    eitp_path_info info;
    if (!host || !path || !out)
        return eitp__fail_null(error, "eitp_tokenizer_load", "host, path and out");
    *out = NULL;
    eitp_status status = eitp__path_info(host, path, &info, error);
    if (status != EITP_OK)
        return status;
    return info.kind == EITP_PATH_DIRECTORY ? eitp__load_directory(host, path, out, error)
                                            : eitp__load_file(host, path, out, error);
}
