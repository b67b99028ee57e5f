/* Added tokens of a tokenizer.json, and special tokens named in the files next to it. */
#include "text/loader.h"

#include "base/log.h"

/* Stores the flags of an added token and checks that it is supported. */
static eitp_status eitp__check_added_token(const eitp_json *entry, unsigned *flags, eitp_error *error) {
    static const struct {
        const char *name;
        unsigned flag;
    } members[] = {
        {"single_word", EITP__TOKEN_WORD},      {"lstrip", EITP__TOKEN_TAKES_LEFT}, {"rstrip", EITP__TOKEN_TAKES_RIGHT},
        {"normalized", EITP__TOKEN_NORMALIZED}, {"special", EITP__TOKEN_SPECIAL},
    };
    const eitp_json *content = eitp_json_member(entry, "content");
    *flags = EITP__TOKEN_ADDED;
    if (!content || content->kind != EITP_JSON_STRING || !content->text_size)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: an added token must have a non-empty content",
                          entry->line);
    if (content->text_size > EITP__ADDED_TOKEN_LIMIT)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: an added token of %zu bytes exceeds the limit of %zu", entry->line,
                          content->text_size, EITP__ADDED_TOKEN_LIMIT);
    for (size_t i = 0; i < EITP__COUNT(members); i++) {
        int value = 0;
        eitp_status status = eitp__json_get_boolean(entry, members[i].name, &value, error);
        if (status != EITP_OK)
            return status;
        *flags |= value ? members[i].flag : 0;
    }
    /* If another token has taken that white space, the library finds half a token. */
    if ((*flags & EITP__TOKEN_TAKES_LEFT) &&
        !eitp__size_without_space((const unsigned char *)content->text, content->text_size))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "line %zu: unsupported lstrip of an added token that is white space; it must be false",
                          entry->line);
    return EITP_OK;
}

static eitp_status eitp__load_added_token(eitp__loader *loader, const eitp_json *entry, size_t *next,
                                          eitp_error *error) {
    eitp__vocabulary *vocabulary = &loader->tokenizer->vocabulary;
    unsigned flags = 0;
    int64_t id = -1;
    eitp_status status = eitp__check_added_token(entry, &flags, error);
    if (status == EITP_OK)
        status = eitp__json_get_integer(entry, "id", 0, INT32_MAX, &id, error);
    if (status != EITP_OK)
        return status;
    const eitp_json *content = eitp_json_member(entry, "content");
    const int shown = eitp__excerpt_size(content->text_size);
    unsigned verbatim = eitp__load_spelling(loader, content->text, content->text_size);
    if (loader->bytes.failed)
        return eitp__fail_memory(error, content->text_size, "the tokenizer's added tokens");
    uint32_t known = *eitp__loader_slot(loader, loader->bytes.data, loader->bytes.size, verbatim);
    /* As in the library `tokenizers`, tokens in the vocabulary keep their ids, and the others follow it in order. */
    const size_t expected = known ? known - 1 : *next;
    if ((uint64_t)id != expected || (!known && vocabulary->tokens[expected].flags))
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: the added token \"%.*s\" has id %lld, expected %zu%s",
                          entry->line, shown, content->text, (long long)id, expected,
                          (uint64_t)id == expected ? ", which is used by another token" : "");
    if (!known) {
        ++*next;
        return eitp__tokenizer_set_token(loader->tokenizer, expected, content->text, content->text_size,
                                         flags | EITP__TOKEN_NOT_IN_MODEL, error);
    }
    if (loader->bytes.size != content->text_size || memcmp(loader->bytes.data, content->text, content->text_size))
        return eitp__fail(
            error, EITP_ERROR_UNSUPPORTED,
            "line %zu: unsupported added token \"%.*s\", which the vocabulary uses as the spelling of other bytes",
            entry->line, shown, content->text);
    if (vocabulary->tokens[expected].flags & EITP__TOKEN_ADDED)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: duplicate added token \"%.*s\"; remove one of them",
                          entry->line, shown, content->text);
    vocabulary->tokens[expected].flags |= (uint16_t)flags;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__load_added_tokens(eitp__loader *loader, const eitp_json *added, size_t next,
                                                  eitp_error *error) {
    for (const eitp_json *entry = added ? added->first_child : NULL; entry; entry = entry->next) {
        eitp_status status = eitp__load_added_token(loader, entry, &next, error);
        if (status != EITP_OK)
            return status;
    }
    return EITP_OK;
}

EITP__PRIVATE size_t eitp__count_added_ids(const eitp_json *added) {
    size_t count = 0;
    for (const eitp_json *entry = added ? added->first_child : NULL; entry; entry = entry->next) {
        const eitp_json *id = eitp_json_member(entry, "id");
        if (id && id->kind == EITP_JSON_NUMBER && id->is_integer && id->integer >= (int64_t)count &&
            id->integer <= INT32_MAX)
            count = (size_t)id->integer + 1;
    }
    return count;
}

static int eitp__is_added_token(const eitp_tokenizer *tokenizer, size_t id, const eitp_json *content) {
    const eitp__token *token = &tokenizer->vocabulary.tokens[id];
    return (token->flags & EITP__TOKEN_ADDED) && token->size == content->text_size &&
           !memcmp(eitp__token_bytes(tokenizer, id), content->text, token->size);
}

/* Makes a token of the model's vocabulary an added token, as transformers does with tokens named in its files. *id is
   -1 if the vocabulary lacks the token. */
static eitp_status eitp__mark_added_token(eitp__loader *loader, const eitp_json *content, unsigned flags, int64_t *id,
                                          eitp_error *error) {
    unsigned verbatim = eitp__load_spelling(loader, content->text, content->text_size);
    if (loader->bytes.failed)
        return eitp__fail_memory(error, content->text_size, "the tokenizer's added tokens");
    uint32_t known = *eitp__loader_slot(loader, loader->bytes.data, loader->bytes.size, verbatim);
    *id = -1;
    /* A token whose bytes differ from `content` is spelled in the byte alphabet: it is another string. */
    if (!known || loader->bytes.size != content->text_size ||
        memcmp(loader->bytes.data, content->text, content->text_size))
        return EITP_OK;
    loader->tokenizer->vocabulary.tokens[known - 1].flags |= (uint16_t)flags;
    *id = (int64_t)known - 1;
    return EITP_OK;
}

/* Finds the id of a token that a file names by a string or an object. -1 if the tokenizer lacks it. */
static eitp_status eitp__load_named_token(eitp__loader *loader, const eitp_json *value, int64_t *id,
                                          eitp_error *error) {
    const eitp_json *content = value->kind == EITP_JSON_OBJECT ? eitp_json_member(value, "content") : value;
    const eitp__vocabulary *vocabulary = &loader->tokenizer->vocabulary;
    unsigned flags = EITP__TOKEN_ADDED;
    if (!content || content->kind != EITP_JSON_STRING || !content->text_size)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: %s must be a string, an object with content, or null",
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

/* Finds a special token by its role. *id is -2 if no file names it, and -1 if a file has null. */
static eitp_status eitp__load_special_token(eitp__loader *loader, eitp_special_token which, int64_t *id,
                                            eitp_error *error) {
    int file;
    const eitp_json *value = eitp__special_token_value(loader->files, which, &file);
    *id = value ? -1 : -2;
    if (eitp__is_absent(value))
        return EITP_OK;
    eitp_status status = eitp__load_named_token(loader, value, id, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "%s", eitp__special_file_name(file));
    if (*id >= 0)
        return EITP_OK;
    const eitp_json *content = value->kind == EITP_JSON_OBJECT ? eitp_json_member(value, "content") : value;
    const int shown = eitp__excerpt_size(content->text_size);
    if (which == EITP_END_OF_TEXT)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "%s: line %zu: the tokenizer lacks the eos_token \"%.*s\"; save both files together with "
                          "save_pretrained of transformers",
                          eitp__special_file_name(file), value->line, shown, content->text);
    eitp__log_line(loader->host, EITP_LOG_WARNING,
                   "%s: line %zu: the tokenizer lacks the %s \"%.*s\", which is ignored", eitp__special_file_name(file),
                   value->line, value->name, shown, content->text);
    *id = -2;
    return EITP_OK;
}

/* Checks that the tokenizer has an entry of added_tokens_decoder, "id": {"content": ...}; transformers would add it. */
static eitp_status eitp__check_decoder_token(eitp__loader *loader, const eitp_json *entry, eitp_error *error) {
    const eitp__vocabulary *vocabulary = &loader->tokenizer->vocabulary;
    const eitp_json *content = eitp_json_member(entry, "content");
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
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "line %zu: the tokenizer lacks the added token \"%.*s\" with id %.40s; save both files "
                          "together with save_pretrained of transformers",
                          entry->line, eitp__excerpt_size(content->text_size), content->text, entry->name);
    return status;
}

static eitp_status eitp__check_decoder_tokens(eitp__loader *loader, eitp_error *error) {
    const eitp_json *listed = eitp__special_added_tokens(loader->files);
    eitp_status status = EITP_OK;
    if (eitp__is_absent(listed))
        return EITP_OK;
    if (listed->kind != EITP_JSON_OBJECT)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: added_tokens_decoder must be an object", listed->line);
    for (const eitp_json *entry = listed->first_child; entry && status == EITP_OK; entry = entry->next)
        status = eitp__check_decoder_token(loader, entry, error);
    return status == EITP_OK ? status
                             : eitp__fail_prefix(error, status, "%s", eitp__special_file_name(EITP__TOKENIZER_CONFIG));
}

/* Applies add_prefix_space of tokenizer_config.json, which overrides tokenizer.json, as in transformers. */
static eitp_status eitp__load_prefix_space(eitp__loader *loader, eitp_error *error) {
    eitp_tokenizer *tokenizer = loader->tokenizer;
    int add_prefix_space = tokenizer->add_prefix_space;
    if (tokenizer->model != EITP__MODEL_BPE)
        return EITP_OK;
    eitp_status status = eitp__tokenizer_config_boolean(loader->files, "add_prefix_space", &add_prefix_space, error);
    if (status == EITP_OK && add_prefix_space != tokenizer->add_prefix_space)
        eitp__log_line(loader->host, EITP_LOG_WARNING, "tokenizer_config.json overrides add_prefix_space: it is %s",
                       add_prefix_space ? "true" : "false");
    tokenizer->add_prefix_space = add_prefix_space;
    return status;
}

EITP__PRIVATE eitp_status eitp__load_special_tokens(eitp__loader *loader, eitp_error *error) {
    eitp_tokenizer *tokenizer = loader->tokenizer;
    int64_t ids[EITP_SPECIAL_TOKEN_COUNT];
    eitp_status status = eitp__load_prefix_space(loader, error);
    if (status == EITP_OK)
        status = eitp__check_decoder_tokens(loader, error);
    for (int which = 0; which < EITP_SPECIAL_TOKEN_COUNT && status == EITP_OK; which++)
        status = eitp__load_special_token(loader, (eitp_special_token)which, &ids[which], error);
    if (status == EITP_OK)
        status = eitp__load_normalization(loader, error);
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
    eitp__special_files_keep(loader->files, tokenizer->model, &tokenizer->config);
    return tokenizer->config.failed ? eitp__fail_memory(error, tokenizer->config.size, "the tokenizer's configuration")
                                    : EITP_OK;
}
