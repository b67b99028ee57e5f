/* The text of a conversation by its chat template, and the template's output around an answer. */
#include "base/clock.h"
#include "text/chat_work.h"
#include "text/message_contents.h"
#include "text/special_tokens.h"

EITP__PRIVATE void eitp__chat_output_init(eitp__chat_output *output, const eitp_host *host) {
    memset(output, 0, sizeof *output);
    eitp__buffer_init(&output->text, host);
}

EITP__PRIVATE void eitp__chat_output_release(eitp__chat_output *output) {
    eitp__chat_spans_release(output->text.host, &output->spans);
    eitp__buffer_release(&output->text);
}

EITP__PRIVATE void eitp__chat_encoding_init(eitp__chat_encoding *work, const eitp_chat *chat,
                                            const eitp_chat_config *config) {
    memset(work, 0, sizeof *work);
    work->chat = chat;
    work->config = config;
    work->host = &chat->tokenizer->host;
    eitp__chat_output_init(&work->rendered, work->host);
    eitp__buffer_init(&work->prompt, work->host);
}

EITP__PRIVATE void eitp__chat_encoding_release(eitp__chat_encoding *work) {
    eitp__conversation_release(&work->conversation);
    eitp__chat_output_release(&work->rendered);
    eitp__buffer_release(&work->prompt);
    eitp__release(work->host, work->answers, work->answer_capacity * sizeof *work->answers);
    eitp__release(work->host, work->ids, work->id_capacity * sizeof *work->ids);
    eitp__release(work->host, work->offsets, work->offset_capacity * sizeof *work->offsets);
    eitp__release(work->host, work->trained, work->trained_capacity);
    eitp__release(work->host, work->weights, work->weight_capacity * sizeof *work->weights);
}

/* ---- Text ---- */

/* Variables that transformers passes to templates: messages, tools and documents, add_generation_prompt, and the
   tokenizer's special tokens. */
enum { EITP__CHAT_VARIABLES = 4 + EITP_SPECIAL_TOKEN_COUNT };

static eitp__chat_variable eitp__json_variable(const char *name, const eitp_json *json) {
    eitp__chat_variable variable = EITP__ZERO;
    variable.name = name;
    variable.kind = json ? EITP__CHAT_JSON : EITP__CHAT_NONE;
    variable.json = json;
    return variable;
}

/* Adds the special tokens, and stores their text in `texts`. */
static size_t eitp__add_special_variables(const eitp_tokenizer *tokenizer, eitp__buffer *texts,
                                          eitp__chat_variable *variables) {
    size_t count = 0, places[EITP_SPECIAL_TOKEN_COUNT];
    for (int which = 0; which < EITP_SPECIAL_TOKEN_COUNT; which++) {
        const int32_t id = tokenizer->special[which];
        if (id < 0)
            continue;
        memset(&variables[count], 0, sizeof *variables);
        variables[count].name = eitp__special_token_name((eitp_special_token)which);
        variables[count].kind = EITP__CHAT_TEXT;
        places[count++] = texts->size;
        eitp__buffer_add(texts, eitp__token_bytes(tokenizer, (size_t)id), tokenizer->vocabulary.tokens[id].size);
        eitp__buffer_add(texts, "", 1);
    }
    for (size_t i = 0; i < count && !texts->failed; i++)
        variables[i].text = texts->data + places[i];
    return count;
}

/* Reads the additional values of the configuration. *document is NULL without any. */
static eitp_status eitp__read_chat_values(const eitp__chat_encoding *work, eitp_json_document **document,
                                          eitp_error *error) {
    const char *text = work->config->values;
    eitp_status status;
    *document = NULL;
    if (!text)
        return EITP_OK;
    status = eitp_json_parse(work->host, text, strlen(text), document, error);
    if (!status && eitp_json_root(*document)->kind != EITP_JSON_OBJECT)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "must be a JSON object");
    return status ? eitp__fail_member(error, status, "values for the chat template") : EITP_OK;
}

EITP__PRIVATE eitp_status eitp__chat_render(const eitp__chat_encoding *work, const eitp_json *messages, int adds_prompt,
                                            eitp__chat_output *output, eitp_error *error) {
    eitp__chat_variable variables[EITP__CHAT_VARIABLES];
    eitp__chat_context context = EITP__ZERO;
    eitp_json_document *values;
    eitp__buffer texts;
    eitp_status status = eitp__read_chat_values(work, &values, error);
    eitp__buffer_init(&texts, work->host);
    variables[0] = eitp__json_variable("messages", messages);
    variables[1] = eitp__json_variable("tools", work->conversation.tools);
    variables[2] = eitp__json_variable("documents", NULL);
    variables[3] = eitp__json_variable("add_generation_prompt", NULL);
    variables[3].kind = EITP__CHAT_BOOLEAN;
    variables[3].boolean = adds_prompt != 0;
    context.object = eitp_json_root(values);
    context.variables = variables;
    context.variable_count = 4 + eitp__add_special_variables(work->chat->tokenizer, &texts, variables + 4);
    context.now = work->config->now ? work->config->now : (int64_t)eitp__time_of_day();
    if (!status && texts.failed)
        status = eitp__fail_memory(error, texts.size, "the special tokens of a chat template");
    if (!status)
        status = eitp__chat_template_render(work->chat->text, &context, &output->text, &output->spans, error);
    eitp__buffer_release(&texts);
    eitp_json_release(values);
    return status;
}

static int eitp__has_null_content(const eitp_json *messages) {
    for (const eitp_json *message = messages->first_child; message; message = message->next) {
        const eitp_json *content = eitp_json_member(message, "content");
        if (content && content->kind == EITP_JSON_NULL)
            return 1;
    }
    return 0;
}

static eitp_status eitp__render_messages(eitp__chat_encoding *work, const eitp__plain_contents *how,
                                         eitp_error *error) {
    const eitp_status status = eitp__make_plain(work->host, &work->conversation, how, error);
    return status ? status
                  : eitp__chat_render(work, work->conversation.messages, work->config->add_generation_prompt,
                                      &work->rendered, error);
}

EITP__PRIVATE eitp_status eitp__chat_prepare(eitp__chat_encoding *work, const char *conversation, size_t size,
                                             eitp_error *error) {
    eitp__plain_contents how = EITP__ZERO;
    eitp_status status = eitp__conversation_parse(work->host, conversation, size, &work->conversation, error);
    how.joins_parts = !work->chat->reads_parts;
    if (status)
        return status;
    status = eitp__render_messages(work, &how, error);
    if (status != EITP_ERROR_ARGUMENT || !eitp__has_null_content(work->conversation.messages))
        return status;
    /* Few templates accept null, the content of a message with tool calls. */
    how.fills_nulls = 1;
    eitp__chat_output_release(&work->rendered);
    eitp__chat_output_init(&work->rendered, work->host);
    return eitp__render_messages(work, &how, error);
}

/* ---- The generation prompt, and the end of a turn ---- */

/* A question and its answer, used to find the template's output around them. */
static const char eitp__chat_probe[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"probe\"},"
                                       "{\"role\":\"assistant\",\"content\":\"probe\"}]}";

/* Renders the first `count` messages of the probe. If the template refuses them, the text stays empty. */
static eitp_status eitp__render_probe(const eitp__chat_encoding *work, const eitp_json *messages, size_t count,
                                      int adds_prompt, eitp__chat_output *output, eitp_error *error) {
    eitp_json shown = *messages, first = *messages->first_child;
    eitp_status status;
    if (count == 1) {
        first.next = NULL;
        shown.first_child = &first;
        shown.count = 1;
    }
    status = eitp__chat_render(work, &shown, adds_prompt, output, error);
    return status == EITP_ERROR_ARGUMENT ? EITP_OK : status;
}

/* Returns the start of the added token that contains a position in the text, or else the position. */
static size_t eitp__before_token(const eitp_tokenizer *tokenizer, const eitp__buffer *text, size_t place) {
    const eitp__added_tokens *added = &tokenizer->added[EITP__ADDED_RAW];
    for (size_t i = 0; i < added->count; i++) {
        const eitp__added_token *token = &added->tokens[i];
        for (size_t back = 1; back < token->size && back <= place; back++) {
            if (text->size - (place - back) >= token->size &&
                !memcmp(text->data + (place - back), token->bytes, token->size))
                return place - back;
        }
    }
    return place;
}

/* Returns the end of the text of the last message, or 0 if the template does not write messages in a loop. */
static size_t eitp__messages_end(const eitp__chat_output *output) {
    size_t end = 0;
    for (size_t i = 0; i < output->spans.count; i++) {
        if (output->spans.spans[i].kind == EITP__CHAT_SPAN_MESSAGE && output->spans.spans[i].end > end)
            end = output->spans.spans[i].end;
    }
    return end;
}

/* Returns the start of the generation prompt in the text of a question that ends with it: the end of the question, or
   the first difference from the text without it if that comes earlier. */
static size_t eitp__prompt_start(const eitp_tokenizer *tokenizer, const eitp__chat_output *with,
                                 const eitp__chat_output *without) {
    const size_t place = eitp__messages_end(without);
    size_t same = 0;
    while (same < with->text.size && same < without->text.size && with->text.data[same] == without->text.data[same])
        same++;
    return place && place <= same ? place : eitp__before_token(tokenizer, &with->text, same);
}

EITP__PRIVATE eitp_status eitp__chat_find_prompt(eitp__chat_encoding *work, eitp_error *error) {
    const eitp_json *messages = work->conversation.messages;
    eitp__chat_output without, with;
    eitp_status status;
    eitp__chat_output_init(&without, work->host);
    eitp__chat_output_init(&with, work->host);
    status = eitp__render_probe(work, messages, 1, 0, &without, error);
    if (!status)
        status = eitp__render_probe(work, messages, 1, 1, &with, error);
    if (!status && with.text.size) {
        const size_t place = eitp__prompt_start(work->chat->tokenizer, &with, &without);
        eitp__buffer_add(&work->prompt, with.text.data + place, with.text.size - place);
    }
    if (!status && work->prompt.failed)
        status = eitp__fail_memory(error, with.text.size, "the generation prompt of a chat template");
    eitp__chat_output_release(&without);
    eitp__chat_output_release(&with);
    return status;
}

EITP__PRIVATE int eitp__chat_is_blank(const char *text, size_t size) {
    size_t i = 0;
    while (i < size && strchr(" \t\r\n", text[i]) && text[i])
        i++;
    return i == size;
}

EITP__PRIVATE int eitp__chat_is_special(const eitp_tokenizer *tokenizer, int32_t id) {
    return (tokenizer->vocabulary.tokens[id].flags & (EITP__TOKEN_ADDED | EITP__TOKEN_SPECIAL)) != 0;
}

/* Finds the first special token in the text after an answer, or -1. *is_plain is 1 if the token is within the first
   `own` bytes, and the rest of these is white space. */
static eitp_status eitp__read_end(const eitp_tokenizer *tokenizer, const char *text, size_t size, size_t own,
                                  int32_t *id, int *is_plain, eitp_error *error) {
    int32_t ids[64];
    size_t count = 0, end = 0;
    const eitp_status status = eitp_tokenizer_encode(tokenizer, text, size, ids, EITP__COUNT(ids), &count, error);
    *id = -1;
    *is_plain = 1;
    for (size_t i = 0; i < count && i < EITP__COUNT(ids); i++) {
        const char *bytes = (const char *)eitp__token_bytes(tokenizer, (size_t)ids[i]);
        const size_t length = tokenizer->vocabulary.tokens[ids[i]].size;
        end += length;
        if (*id < 0 && eitp__chat_is_special(tokenizer, ids[i])) {
            *id = ids[i];
            *is_plain &= end <= own;
        } else if (end <= own) {
            *is_plain &= eitp__chat_is_blank(bytes, length);
        }
    }
    return status;
}

/* Reads the template's output after the answer of the probe. */
static eitp_status eitp__find_end_after(const eitp__chat_encoding *work, eitp_chat *chat, eitp_error *error) {
    static const char answer[] = "probe";
    eitp__chat_output output;
    size_t end = 0, own;
    eitp_status status;
    eitp__chat_output_init(&output, work->host);
    status = eitp__render_probe(work, work->conversation.messages, 2, 0, &output, error);
    for (size_t i = 0; !status && i + sizeof answer - 1 <= output.text.size; i++) {
        if (!memcmp(output.text.data + i, answer, sizeof answer - 1))
            end = i + sizeof answer - 1;
    }
    own = eitp__messages_end(&output);
    if (!status && end)
        status = eitp__read_end(chat->tokenizer, output.text.data + end, output.text.size - end,
                                own > end ? own - end : 0, &chat->end_of_turn, &chat->has_plain_end, error);
    eitp__chat_output_release(&output);
    return status;
}

EITP__PRIVATE eitp_status eitp__chat_find_end_of_turn(eitp_chat *chat, eitp_error *error) {
    const eitp_chat_config config = EITP__ZERO;
    eitp__chat_encoding work;
    eitp_status status;
    chat->end_of_turn = -1;
    chat->has_plain_end = 1;
    eitp__chat_encoding_init(&work, chat, &config);
    status =
        eitp__conversation_parse(work.host, eitp__chat_probe, sizeof eitp__chat_probe - 1, &work.conversation, error);
    if (!status)
        status = eitp__find_end_after(&work, chat, error);
    eitp__chat_encoding_release(&work);
    return status;
}

/* ---- Parts of contents ---- */

EITP__PRIVATE eitp_status eitp__chat_find_parts(eitp_chat *chat, eitp_error *error) {
    static const char probes[2][160] = {
        "{\"messages\":[{\"role\":\"user\",\"content\":\"probe\"}]}",
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"probe\"}]}]}"};
    const eitp_chat_config config = EITP__ZERO;
    eitp__chat_output outputs[2];
    eitp_status status = EITP_OK;
    for (int i = 0; i < 2; i++) {
        eitp__chat_encoding work;
        eitp__chat_encoding_init(&work, chat, &config);
        eitp__chat_output_init(&outputs[i], work.host);
        if (!status)
            status = eitp__conversation_parse(work.host, probes[i], strlen(probes[i]), &work.conversation, error);
        if (!status)
            status = eitp__render_probe(&work, work.conversation.messages, 1, 0, &outputs[i], error);
        eitp__chat_encoding_release(&work);
    }
    const size_t size = outputs[0].text.size;
    chat->reads_parts =
        !status && size && size == outputs[1].text.size && !memcmp(outputs[0].text.data, outputs[1].text.data, size);
    for (int i = 0; i < 2; i++)
        eitp__chat_output_release(&outputs[i]);
    return status;
}
