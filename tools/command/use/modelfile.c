#include "use/modelfile.h"

#include "files.h"
#include "result_file.h"

#include <stdlib.h>

/* Messages of the conversations that are rendered; the rest is the template's. */
#define SYSTEM_TEXT "Kq7system"
#define USER_TEXT "Kq7user"
#define ANSWER_TEXT "Kq7answer"

#define MESSAGE(role, text) "{\"role\": \"" role "\", \"content\": \"" text "\"}"

/* ---- The chat template ---- */

static eitp_status render(const eitp_chat *chat, const char *messages, int starts_answer, text_buffer *t,
                          eitp_error *error) {
    eitp_chat_config config = eitp_chat_config_default();
    char conversation[300], *text;
    size_t length = 0;
    eitp_status status;
    config.add_generation_prompt = starts_answer;
    snprintf(conversation, sizeof conversation, "{\"messages\": [%s]}", messages);
    status = eitp_chat_render(chat, conversation, strlen(conversation), &config, NULL, 0, &length, error);
    if (status)
        return status;
    text = (char *)command_allocate(length + 1);
    status = eitp_chat_render(chat, conversation, strlen(conversation), &config, text, length, &length, error);
    if (!status)
        text_add(t, text, length);
    free(text);
    return status;
}

/* Fails for a text that Ollama would interpret. */
static eitp_status check_plain(const char *text, eitp_error *error) {
    return strstr(text, "{{") || strstr(text, "\"\"\"")
               ? command_fail(error, EITP_ERROR_UNSUPPORTED,
                              "the chat template writes {{ or \"\"\", which a Modelfile cannot have; write it by hand")
               : EITP_OK;
}

/* Splits a rendered text at the first occurrence of a message: ends `text` before it, and returns the rest. NULL if it
   does not occur. */
static char *split_at(char *text, const char *message) {
    char *found = text ? strstr(text, message) : NULL;
    if (!found)
        return NULL;
    *found = 0;
    return found + strlen(message);
}

/* Drops bos_token, which Ollama adds itself. */
static const char *without_begin(const eitp_tokenizer *tokenizer, const char *text) {
    const char *bytes = NULL;
    size_t size = 0;
    const int32_t id = eitp_tokenizer_special(tokenizer, EITP_BEGIN_OF_TEXT);
    if (!eitp_tokenizer_added_count(tokenizer, 0) || id < 0 ||
        eitp_tokenizer_token(tokenizer, id, &bytes, &size, NULL) || strncmp(text, bytes, size))
        return text;
    return text + size;
}

/* ---- The file ---- */

/* Adds the template: with a system message the text before it and up to the question, else the text before the
   question, which may have a default system message. */
static eitp_status add_template(const eitp_chat *chat, const eitp_tokenizer *tokenizer, text_buffer *t,
                                eitp_error *error) {
    text_buffer plain = {NULL, 0, 0}, guided = {NULL, 0, 0}, answered = {NULL, 0, 0};
    eitp_error ignored;
    char *after, *between = NULL, *end = NULL;
    eitp_status status = render(chat, MESSAGE("user", USER_TEXT), 1, &plain, error);
    if (!status)
        status = render(chat, MESSAGE("user", USER_TEXT) ", " MESSAGE("assistant", ANSWER_TEXT), 0, &answered, error);
    if (!status && !render(chat, MESSAGE("system", SYSTEM_TEXT) ", " MESSAGE("user", USER_TEXT), 1, &guided, &ignored))
        between = split_at(guided.data, SYSTEM_TEXT);
    after = split_at(plain.data, USER_TEXT);
    end = split_at(answered.data, ANSWER_TEXT);
    if (between && !split_at(between, USER_TEXT))
        between = NULL;
    if (!status && (!after || !end))
        status = command_fail(error, EITP_ERROR_UNSUPPORTED, "the chat template changes messages; write it by hand");
    for (int i = 0; i < 4 && !status; i++) {
        const char *const texts[] = {plain.data, after, end, between ? guided.data : ""};
        status = check_plain(texts[i], error);
    }
    if (!status && between)
        status = check_plain(between, error);
    if (!status) {
        text_format(t, "TEMPLATE \"\"\"");
        if (between)
            text_format(t, "{{ if .System }}%s{{ .System }}%s{{ else }}", without_begin(tokenizer, guided.data),
                        between);
        text_format(t, "%s%s{{ .Prompt }}%s{{ .Response }}%s\"\"\"\n", without_begin(tokenizer, plain.data),
                    between ? "{{ end }}" : "", after, end);
    }
    text_release(&plain);
    text_release(&guided);
    text_release(&answered);
    return status;
}

/* Adds the text of a token that ends an answer. */
static void add_stop(const eitp_tokenizer *tokenizer, int32_t id, text_buffer *t) {
    const char *bytes;
    size_t size;
    if (id < 0 || eitp_tokenizer_token(tokenizer, id, &bytes, &size, NULL) || !size)
        return;
    text_format(t, "PARAMETER stop ");
    text_json_string(t, bytes, size);
    text_format(t, "\n");
}

static eitp_status add_chat(const eitp_tokenizer *tokenizer, text_buffer *t, eitp_error *error) {
    eitp_chat *chat = NULL;
    eitp_status status = eitp_chat_create(tokenizer, &chat, error);
    if (!status)
        status = add_template(chat, tokenizer, t, error);
    if (!status) {
        const int32_t turn = eitp_chat_end_of_turn(chat), end = eitp_tokenizer_end_of_text(tokenizer);
        add_stop(tokenizer, turn, t);
        if (end != turn)
            add_stop(tokenizer, end, t);
    }
    eitp_chat_destroy(chat);
    return status;
}

eitp_status modelfile_write(const eitp_tokenizer *tokenizer, const char *file, eitp_error *error) {
    const char *slash = strrchr(file, '/');
    char *directory = files_parent(file), *path = files_join(directory, "Modelfile");
    text_buffer t = {NULL, 0, 0};
    eitp_status status = EITP_OK;
    text_format(&t, "FROM ./%s\n", slash ? slash + 1 : file);
    if (eitp_tokenizer_chat_template(tokenizer, NULL))
        status = add_chat(tokenizer, &t, error);
    else
        text_format(&t, "TEMPLATE \"\"\"{{ .Prompt }}\"\"\"\n");
    if (!status)
        status = result_file_write(path, t.data, t.size, NULL, error);
    text_release(&t);
    free(path);
    free(directory);
    return status;
}
