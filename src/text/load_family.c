/* Special tokens and template of a vocabulary without a tokenizer.json. */
#include "base/log.h"
#include "text/loader.h"

EITP__PRIVATE const char *eitp__special_text(const eitp__loader *loader, int family, eitp_special_token which,
                                             size_t *size) {
    int file;
    const eitp_json *value = eitp__special_token_value(loader->files, which, &file);
    const char *text = eitp__family_token(family, which);
    *size = text ? strlen(text) : 0;
    if (!value)
        return text;
    if (value->kind == EITP_JSON_OBJECT)
        value = eitp_json_member(value, "content");
    if (!value || value->kind != EITP_JSON_STRING)
        return NULL;
    *size = value->text_size;
    return value->text;
}

/* Uses the family's special tokens for those that no file names. */
static void eitp__mark_family(eitp__loader *loader, int family) {
    int file;
    for (int which = 0; which < EITP_SPECIAL_TOKEN_COUNT; which++) {
        const char *text = eitp__family_token(family, (eitp_special_token)which);
        if (!text || eitp__special_token_value(loader->files, (eitp_special_token)which, &file))
            continue; /* eitp__load_special_tokens finds tokens named in files */
        if (!eitp__load_mark_special(loader, text, strlen(text)) && family != EITP__FAMILY_GPT2)
            eitp__log_line(loader->host, EITP_LOG_WARNING, "the vocabulary lacks the %s \"%s\"",
                           eitp__special_token_name((eitp_special_token)which), text);
    }
}

/* Adds the post-processor that a tokenizer.json would have. */
static eitp_status eitp__make_post_processor(eitp_tokenizer *tokenizer, const int32_t ids[2], int add_prefix_space,
                                             eitp_error *error) {
    static const char *const names[] = {"cls", "sep"};
    eitp__buffer *kept = &tokenizer->kept[EITP__KEPT_POST_PROCESSOR];
    const int is_bert = tokenizer->family == EITP__FAMILY_BERT;
    eitp__buffer_format(kept, "{\"type\": \"%s\"", is_bert ? "BertProcessing" : "RobertaProcessing");
    for (size_t i = 0; i < 2; i++) {
        eitp__buffer_format(kept, ", \"%s\": [", names[i]);
        eitp__json_write_text(kept, (const char *)eitp__token_bytes(tokenizer, (size_t)ids[i]),
                              tokenizer->vocabulary.tokens[ids[i]].size);
        eitp__buffer_format(kept, ", %ld]", (long)ids[i]);
    }
    if (!is_bert)
        eitp__buffer_format(kept, ", \"trim_offsets\": true, \"add_prefix_space\": %s",
                            add_prefix_space ? "true" : "false");
    eitp__buffer_add_text(kept, "}");
    return kept->failed ? eitp__fail_memory(error, kept->size, "the tokenizer's post-processor") : EITP_OK;
}

EITP__PRIVATE eitp_status eitp__make_template(eitp_tokenizer *tokenizer, const int32_t ids[2], int add_prefix_space,
                                              eitp_error *error) {
    eitp__set_template(tokenizer, tokenizer->family, ids[0], ids[1]);
    return eitp__make_post_processor(tokenizer, ids, add_prefix_space, error);
}

EITP__PRIVATE eitp_status eitp__load_family(eitp__loader *loader, int family, eitp_error *error) {
    static const eitp_special_token around[] = {EITP_CLASSIFIER, EITP_SEPARATOR};
    int add_prefix_space = 0;
    int32_t ids[2];
    size_t size;
    loader->tokenizer->family = family;
    loader->tokenizer->is_from_vocabulary_files = 1;
    eitp__mark_family(loader, family);
    if (family == EITP__FAMILY_GPT2)
        return EITP_OK;
    for (size_t i = 0; i < 2; i++) {
        const char *text = eitp__special_text(loader, family, around[i], &size);
        ids[i] = text ? (int32_t)eitp__load_find(loader, text, size) : -1;
        if (ids[i] < 0)
            return eitp__fail(
                error, EITP_ERROR_FORMAT,
                "the vocabulary lacks the %s \"%.*s\", which each sequence needs; add it, or name another one "
                "in tokenizer_config.json",
                eitp__special_token_name(around[i]), text ? eitp__excerpt_size(size) : 4, text ? text : "null");
    }
    eitp_status status = eitp__tokenizer_config_boolean(loader->files, "add_prefix_space", &add_prefix_space, error);
    return status == EITP_OK ? eitp__make_template(loader->tokenizer, ids, add_prefix_space, error) : status;
}
