/* Chat templates in files: chat_template.jinja, and "chat_template" in tokenizer_config.json. */
#include "text/template_file.h"

#include "base/files.h"
#include "template/chat_template.h"
#include "text/chat.h"
#include "text/tokenizer.h"

#define EITP__CHAT_TEMPLATE_FILE "chat_template.jinja"

EITP__PRIVATE const char *eitp__chat_template_named(const char *name) {
    static const struct {
        const char *name, *text;
    } templates[] = {{"chatml", "{% for message in messages %}"
                                "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
                                "{% endfor %}"
                                "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"}};
    for (size_t i = 0; i < EITP__COUNT(templates) && name; i++) {
        if (!strcmp(name, templates[i].name))
            return templates[i].text;
    }
    return NULL;
}

const char *eitp_tokenizer_chat_template(const eitp_tokenizer *tokenizer, size_t *size) {
    const int has_one = tokenizer && tokenizer->chat_template.size;
    if (size)
        *size = has_one ? tokenizer->chat_template.size : 0;
    return has_one ? tokenizer->chat_template.data : NULL;
}

static eitp_status eitp__set_chat_template(eitp_tokenizer *tokenizer, const char *text, size_t size, int has_file,
                                           eitp_error *error) {
    if (!size || size > EITP__CHAT_TEMPLATE_LIMIT)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "a chat template must have 1 to %zu bytes (got %zu)",
                          EITP__CHAT_TEMPLATE_LIMIT, size);
    eitp__buffer_clear(&tokenizer->chat_template);
    eitp__buffer_add(&tokenizer->chat_template, text, size);
    tokenizer->has_template_file = has_file;
    return tokenizer->chat_template.failed ? eitp__fail_memory(error, size, "a chat template") : EITP_OK;
}

eitp_status eitp_tokenizer_set_chat_template(eitp_tokenizer *tokenizer, const char *text, size_t size,
                                             eitp_error *error) {
    if (!tokenizer || !text)
        return eitp__fail_null(error, "eitp_tokenizer_set_chat_template", "tokenizer and text");
    return eitp__set_chat_template(tokenizer, text, size, 1, error);
}

/* ---- Loading ---- */

/* Returns the template in tokenizer_config.json: a string, or the list entry named "default". NULL if missing. */
static const eitp_json *eitp__configured_template(const eitp__special_files *files) {
    const eitp_json *value = eitp__tokenizer_config_member(files, "chat_template");
    const eitp_json *named = value && value->kind == EITP_JSON_ARRAY ? value->first_child : NULL;
    for (; named; named = named->next) {
        const eitp_json *name = eitp_json_member(named, "name");
        if (name && name->kind == EITP_JSON_STRING && !strcmp(name->text, "default"))
            value = eitp_json_member(named, "template");
    }
    return value && value->kind == EITP_JSON_STRING ? value : NULL;
}

static eitp_status eitp__read_template_file(const char *path, eitp_tokenizer *tokenizer, eitp_error *error) {
    eitp__buffer text;
    eitp_status status;
    eitp__buffer_init(&text, &tokenizer->host);
    status = eitp__read_file(&tokenizer->host, path, EITP__CHAT_TEMPLATE_LIMIT, &text, error);
    if (!status && text.size) {
        status = eitp__set_chat_template(tokenizer, text.data, text.size, 1, error);
        if (status)
            status = eitp__fail_prefix(error, status, "%s", path);
    }
    eitp__buffer_release(&text);
    return status;
}

EITP__PRIVATE eitp_status eitp__load_chat_template(const char *directory, const eitp__special_files *files,
                                                   eitp_tokenizer *tokenizer, eitp_error *error) {
    const eitp_json *configured = eitp__configured_template(files);
    char *path = eitp__join_path(&tokenizer->host, directory, EITP__CHAT_TEMPLATE_FILE);
    eitp_path_info info = EITP__ZERO;
    eitp_status status = path ? eitp__path_info(&tokenizer->host, path, &info, error)
                              : eitp__fail_memory(error, strlen(directory), "a path");
    if (!status && info.kind == EITP_PATH_FILE)
        status = eitp__read_template_file(path, tokenizer, error);
    else if (!status && configured && configured->text_size)
        status = eitp__set_chat_template(tokenizer, configured->text, configured->text_size, 0, error);
    eitp__release_text(&tokenizer->host, path);
    return status;
}

/* ---- Saving ---- */

EITP__PRIVATE eitp_status eitp__save_chat_template(const eitp_tokenizer *tokenizer, const char *directory,
                                                   eitp_error *error) {
    const eitp_host *host = &tokenizer->host;
    char *path;
    eitp_status status;
    if (!tokenizer->has_template_file)
        return EITP_OK;
    path = eitp__join_path(host, directory, EITP__CHAT_TEMPLATE_FILE);
    if (!path)
        return eitp__fail_memory(error, strlen(directory), "a path");
    status = eitp__replace_file(host, path, tokenizer->chat_template.data, tokenizer->chat_template.size, error);
    eitp__release_text(host, path);
    return status;
}
