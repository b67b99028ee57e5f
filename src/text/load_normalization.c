/* WordPiece's normalization settings in tokenizer_config.json. */
#include "base/log.h"
#include "text/loader.h"

/* Applies the members of tokenizer_config.json that set the normalization of text. */
static eitp_status eitp__override_normalization(eitp__loader *loader, eitp__normalization *steps, eitp_error *error) {
    const eitp_json_document *document = loader->files->documents[EITP__TOKENIZER_CONFIG];
    const eitp_json *accents = document ? eitp_json_member(eitp_json_root(document), "strip_accents") : NULL;
    eitp_status status = eitp__tokenizer_config_boolean(loader->files, "do_lower_case", &steps->lowercase, error);
    if (accents && accents->kind == EITP_JSON_NULL)
        steps->strip_accents = -1;
    if (status == EITP_OK)
        status = eitp__tokenizer_config_boolean(loader->files, "strip_accents", &steps->strip_accents, error);
    if (status == EITP_OK)
        status = eitp__tokenizer_config_boolean(loader->files, "tokenize_chinese_chars", &steps->handle_chinese_chars,
                                                error);
    return status;
}

/* Checks that words which must not be split are added tokens, which are never split. */
static eitp_status eitp__check_never_split(eitp__loader *loader, eitp_error *error) {
    const eitp_json *words = eitp__tokenizer_config_member(loader->files, "never_split");
    int basic = 1;
    eitp_status status = eitp__tokenizer_config_boolean(loader->files, "do_basic_tokenize", &basic, error);
    if (status == EITP_OK && !basic)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "tokenizer_config.json: unsupported do_basic_tokenize false; it must be true");
    for (const eitp_json *word = words ? words->first_child : NULL; word && status == EITP_OK; word = word->next) {
        const int is_text = word->kind == EITP_JSON_STRING;
        const int64_t id = is_text ? eitp__load_find(loader, word->text, word->text_size) : -1;
        if (id < 0 || !(loader->tokenizer->vocabulary.tokens[id].flags & EITP__TOKEN_ADDED))
            status =
                eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                           "tokenizer_config.json: line %zu: unsupported never_split of \"%.*s\"; add it as a token",
                           word->line, is_text ? eitp__excerpt_size(word->text_size) : 0, is_text ? word->text : "");
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__load_normalization(eitp__loader *loader, eitp_error *error) {
    eitp_tokenizer *tokenizer = loader->tokenizer;
    const eitp__normalization before = tokenizer->normalization;
    if (tokenizer->model != EITP__MODEL_WORDPIECE)
        return EITP_OK;
    eitp_status status = eitp__check_never_split(loader, error);
    if (status == EITP_OK && tokenizer->normalization.is_bert && !tokenizer->normalization.step_count)
        status = eitp__override_normalization(loader, &tokenizer->normalization, error);
    if (status == EITP_OK && memcmp(&before, &tokenizer->normalization, sizeof before))
        eitp__log_line(loader->host, EITP_LOG_WARNING,
                       "tokenizer_config.json overrides the normalizer: do_lower_case is %s, strip_accents %s, "
                       "tokenize_chinese_chars %s",
                       tokenizer->normalization.lowercase ? "true" : "false",
                       tokenizer->normalization.strip_accents < 0   ? "null"
                       : tokenizer->normalization.strip_accents > 0 ? "true"
                                                                    : "false",
                       tokenizer->normalization.handle_chinese_chars ? "true" : "false");
    return status;
}
