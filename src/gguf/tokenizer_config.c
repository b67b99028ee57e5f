/* tokenizer_config.json of a GGUF file: special tokens, the chat templates, the longest text. */
#include "base/json.h"
#include "base/unicode.h"
#include "gguf/tokenizer_text.h"

#define EITP__GGUF_TEMPLATE_KEY "tokenizer.chat_template"

/* ---- Special tokens ---- */

/* True for an encoder's bos_token or eos_token that only repeats [CLS] or [SEP]: the converter adds it. */
static int eitp__gguf_is_repeated(const eitp__gguf_tokenizer *tokenizer, eitp__gguf_role role) {
    const int is_bert = tokenizer->kind == EITP__GGUF_WORDPIECE || tokenizer->pre.encoder == EITP__GGUF_BERT;
    const int64_t id = tokenizer->ids[role], *ids = tokenizer->ids;
    return is_bert && ((role == EITP__GGUF_BEGIN && id == ids[EITP__GGUF_CLASSIFIER]) ||
                       (role == EITP__GGUF_END && id == ids[EITP__GGUF_SEPARATOR]));
}

static void eitp__gguf_write_roles(const eitp__gguf_tokenizer *tokenizer, eitp__buffer *text) {
    for (int number = 0; number < EITP__GGUF_ROLES; number++) {
        const eitp__gguf_role role = (eitp__gguf_role)number;
        if (tokenizer->ids[role] < 0 || eitp__gguf_is_repeated(tokenizer, role))
            continue;
        const eitp__gguf_text token = eitp__gguf_role_text(tokenizer, role);
        eitp__buffer_format(text, ",\n\"%s\": ", eitp__gguf_role_name(role));
        eitp__json_write_text(text, token.data, token.size);
    }
}

/* ---- Chat templates ---- */

/* True if a key is a chat template: the default one, or one with a name after a dot. */
static int eitp__gguf_is_template(eitp__gguf_text key, eitp__gguf_text *name) {
    const size_t prefix = sizeof EITP__GGUF_TEMPLATE_KEY - 1;
    if (key.size < prefix || memcmp(key.data, EITP__GGUF_TEMPLATE_KEY, prefix))
        return 0;
    name->data = key.size == prefix ? "default" : key.data + prefix + 1;
    name->size = key.size == prefix ? strlen("default") : key.size - prefix - 1;
    return key.size == prefix || key.data[prefix] == '.';
}

static eitp_status eitp__gguf_write_template_text(const eitp__gguf_value *value, eitp__buffer *text,
                                                  eitp_error *error) {
    const int shown = eitp__gguf_shown(value->key);
    const unsigned char *at = value->at;
    eitp__gguf_text content;
    if (value->is_array || value->kind != EITP__GGUF_STRING)
        return eitp__fail(error, EITP_ERROR_FORMAT, "key '%.*s' must be a string", shown, value->key.data);
    content = eitp__gguf_next_text(&at);
    if (eitp__utf8_valid_prefix((const unsigned char *)content.data, content.size) != content.size)
        return eitp__fail(error, EITP_ERROR_FORMAT, "key '%.*s' is not UTF-8", shown, value->key.data);
    eitp__json_write_text(text, content.data, content.size);
    return EITP_OK;
}

/* Adds a list of templates with names. */
static eitp_status eitp__gguf_write_template_list(const eitp__gguf *gguf, eitp__buffer *text, eitp_error *error) {
    eitp_status status = EITP_OK;
    const char *separator = "";
    eitp__buffer_add_text(text, "[");
    for (size_t i = 0; i < gguf->value_count && !status; i++) {
        eitp__gguf_text name;
        if (!eitp__gguf_is_template(gguf->values[i].key, &name))
            continue;
        eitp__buffer_format(text, "%s{\"name\": ", separator);
        eitp__json_write_text(text, name.data, name.size);
        eitp__buffer_add_text(text, ", \"template\": ");
        status = eitp__gguf_write_template_text(&gguf->values[i], text, error);
        eitp__buffer_add_text(text, "}");
        separator = ",\n";
    }
    eitp__buffer_add_text(text, "]");
    return status;
}

static eitp_status eitp__gguf_write_templates(const eitp__gguf *gguf, eitp__buffer *text, eitp_error *error) {
    const eitp__gguf_value *usual = eitp__gguf_find(gguf, EITP__GGUF_TEMPLATE_KEY);
    eitp__gguf_text name;
    size_t count = 0;
    for (size_t i = 0; i < gguf->value_count; i++)
        count += (size_t)eitp__gguf_is_template(gguf->values[i].key, &name);
    if (!count)
        return EITP_OK;
    eitp__buffer_add_text(text, ",\n\"chat_template\": ");
    return usual && count == 1 ? eitp__gguf_write_template_text(usual, text, error)
                               : eitp__gguf_write_template_list(gguf, text, error);
}

/* ---- The file ---- */

/* Adds the longest text that the model can read. */
static eitp_status eitp__gguf_write_length(const eitp__gguf *gguf, eitp__buffer *text, eitp_error *error) {
    eitp__gguf_text architecture = {"", 0};
    int64_t length = 0;
    char key[128];
    eitp_status status = eitp__gguf_get_text(gguf, "general.architecture", &architecture, error);
    if (status || !architecture.size || architecture.size > 64)
        return status;
    snprintf(key, sizeof key, "%.*s.context_length", (int)architecture.size, architecture.data);
    status = eitp__gguf_get_integer(gguf, key, 1, INT32_MAX, &length, error);
    if (!status && length)
        eitp__buffer_format(text, ",\n\"model_max_length\": %lld", (long long)length);
    return status;
}

static eitp_status eitp__gguf_write_config(const eitp__gguf_tokenizer *tokenizer, eitp__buffer *text,
                                           eitp_error *error) {
    const int is_wordpiece = tokenizer->kind == EITP__GGUF_WORDPIECE;
    eitp_status status;
    eitp__buffer_format(text, "{\"tokenizer_class\": \"%s\",\n\"clean_up_tokenization_spaces\": %s",
                        is_wordpiece                                   ? "BertTokenizer"
                        : tokenizer->pre.encoder == EITP__GGUF_ROBERTA ? "RobertaTokenizer"
                                                                       : "PreTrainedTokenizerFast",
                        is_wordpiece ? "true" : "false");
    if (is_wordpiece) /* transformers would lower-case without it */
        eitp__buffer_format(text, ",\n\"do_lower_case\": %s,\n\"strip_accents\": %s,\n\"tokenize_chinese_chars\": true",
                            tokenizer->lowercases ? "true" : "false", tokenizer->strips_accents ? "true" : "false");
    if (tokenizer->kind == EITP__GGUF_BYTE_LEVEL)
        eitp__buffer_format(text, ",\n\"add_prefix_space\": %s", tokenizer->adds_space ? "true" : "false");
    eitp__gguf_write_roles(tokenizer, text);
    status = eitp__gguf_write_length(tokenizer->gguf, text, error);
    if (!status)
        status = eitp__gguf_write_templates(tokenizer->gguf, text, error);
    eitp__buffer_add_text(text, "}\n");
    return status;
}

EITP__PRIVATE eitp_status eitp__gguf_write_tokenizer_config(const eitp__gguf *gguf, eitp__buffer *text,
                                                            eitp_error *error) {
    eitp__gguf_tokenizer tokenizer;
    eitp_status status = eitp__gguf_tokenizer_read(gguf, &tokenizer, error);
    if (!status)
        status = eitp__gguf_write_config(&tokenizer, text, error);
    if (!status && text->failed)
        status = eitp__fail_memory(error, text->size, "the tokenizer of a GGUF file");
    eitp__gguf_tokenizer_release(&tokenizer);
    return status;
}
