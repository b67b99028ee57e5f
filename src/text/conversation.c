/* Conversations: the forms that files have them in, and the messages that each of them stands for. */
#include "text/conversation.h"

/* ---- Parts of a row ---- */

static int eitp__json_is(const eitp_json *value, eitp_json_kind kind) {
    return value && value->kind == kind;
}

static int eitp__json_text_is(const eitp_json *value, const char *text) {
    return eitp__json_is(value, EITP_JSON_STRING) && value->text_size == strlen(text) &&
           !memcmp(value->text, text, value->text_size);
}

EITP__PRIVATE int eitp__message_is_answer(const eitp_json *message) {
    return eitp__json_text_is(eitp_json_member(message, "role"), "assistant");
}

static void eitp__write_role(eitp__buffer *out, const char *role) {
    eitp__buffer_format(out, "%s{\"role\":\"%s\",\"content\":", out->size > 1 ? "," : "", role);
}

/* Adds a message of one text, or nothing if there is none. */
static void eitp__write_message(eitp__buffer *out, const char *role, const eitp_json *text) {
    if (!eitp__json_is(text, EITP_JSON_STRING) || !text->text_size)
        return;
    eitp__write_role(out, role);
    eitp__json_write_text(out, text->text, text->text_size);
    eitp__buffer_add_text(out, "}");
}

EITP__PRIVATE eitp_status eitp__fail_member(eitp_error *error, eitp_status status, const char *what) {
    eitp__fail_prefix(error, status, "%s", what);
    if (status == EITP_ERROR_FORMAT && error)
        error->status = EITP_ERROR_ARGUMENT;
    return status == EITP_ERROR_FORMAT ? EITP_ERROR_ARGUMENT : status;
}

static eitp_status eitp__expect_text(const eitp_json *value, const char *name, eitp_error *error) {
    return eitp__json_is(value, EITP_JSON_STRING) ? EITP_OK
                                                  : eitp__fail(error, EITP_ERROR_ARGUMENT, "'%s' must be a text", name);
}

/* ---- Forms ---- */

/* The role that a name in ShareGPT's "from" stands for; NULL: unknown. */
static const char *eitp__message_role_of(const eitp_json *from) {
    static const struct {
        const char *name, *role;
    } roles[] = {{"human", "user"},
                 {"user", "user"},
                 {"gpt", "assistant"},
                 {"assistant", "assistant"},
                 {"chatgpt", "assistant"},
                 {"bing", "assistant"},
                 {"bard", "assistant"},
                 {"bot", "assistant"},
                 {"model", "assistant"},
                 {"function_call", "assistant"},
                 {"system", "system"},
                 {"tool", "tool"},
                 {"function_response", "tool"},
                 {"observation", "tool"}};
    for (size_t i = 0; i < EITP__COUNT(roles); i++) {
        if (eitp__json_text_is(from, roles[i].name))
            return roles[i].role;
    }
    return NULL;
}

/* {"conversations": [{"from": ..., "value": ...}]} */
static eitp_status eitp__write_turns(const eitp_json *row, eitp__buffer *out, eitp_error *error) {
    const eitp_json *turns = eitp_json_member(row, "conversations"), *turn;
    size_t number = 0;
    if (turns->kind != EITP_JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "'conversations' must be a list of messages");
    eitp__write_message(out, "system", eitp_json_member(row, "system"));
    for (turn = turns->first_child; turn; turn = turn->next) {
        const eitp_json *from = eitp_json_member(turn, "from"), *value = eitp_json_member(turn, "value");
        const char *role = eitp__message_role_of(from);
        number++;
        if (!eitp__json_is(from, EITP_JSON_STRING) || !eitp__json_is(value, EITP_JSON_STRING))
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "message %zu of 'conversations' must have the texts 'from' and 'value', or 'role' and "
                              "'content'",
                              number);
        if (!role)
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "message %zu of 'conversations' is from '%.40s' (expected human, gpt, system or tool)",
                              number, from->text);
        eitp__write_role(out, role);
        eitp__json_write_text(out, value->text, value->text_size);
        eitp__buffer_add_text(out, "}");
    }
    return EITP_OK;
}

/* A side of a pair of prompt and completion: a text, or messages. */
static eitp_status eitp__write_side(const eitp_json *row, const char *name, const char *role, eitp__buffer *out,
                                    eitp_error *error) {
    const eitp_json *side = eitp_json_member(row, name);
    if (side->kind == EITP_JSON_STRING) {
        eitp__write_role(out, role);
        eitp__json_write_text(out, side->text, side->text_size);
        eitp__buffer_add_text(out, "}");
        return EITP_OK;
    }
    if (side->kind != EITP_JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "'%s' must be a text, or a list of messages", name);
    for (const eitp_json *message = side->first_child; message; message = message->next) {
        eitp__buffer_add_text(out, out->size > 1 ? "," : "");
        eitp__json_write_value(out, message);
    }
    return EITP_OK;
}

static eitp_status eitp__write_pair(const eitp_json *row, eitp__buffer *out, eitp_error *error) {
    eitp_status status;
    eitp__write_message(out, "system", eitp_json_member(row, "system"));
    status = eitp__write_side(row, "prompt", "user", out, error);
    return status ? status : eitp__write_side(row, "completion", "assistant", out, error);
}

/* Alpaca's instruction with its input. */
static eitp_status eitp__write_instruction(const eitp_json *row, eitp__buffer *out, eitp_error *error) {
    const eitp_json *instruction = eitp_json_member(row, "instruction"), *output = eitp_json_member(row, "output");
    const eitp_json *input = eitp_json_member(row, "input");
    eitp_status status = eitp__expect_text(instruction, "instruction", error);
    eitp__buffer text;
    if (!status)
        status = eitp__expect_text(output, "output", error);
    if (!status && input && input->kind != EITP_JSON_NULL)
        status = eitp__expect_text(input, "input", error);
    if (status)
        return status;
    eitp__buffer_init(&text, out->host);
    eitp__buffer_add(&text, instruction->text, instruction->text_size);
    if (eitp__json_is(input, EITP_JSON_STRING) && input->text_size) {
        eitp__buffer_add_text(&text, instruction->text_size ? "\n\n" : "");
        eitp__buffer_add(&text, input->text, input->text_size);
    }
    eitp__write_message(out, "system", eitp_json_member(row, "system"));
    eitp__write_role(out, "user");
    eitp__json_write_text(out, text.size ? text.data : "", text.size);
    eitp__buffer_add_text(out, "}");
    eitp__write_role(out, "assistant");
    eitp__json_write_text(out, output->text, output->text_size);
    eitp__buffer_add_text(out, "}");
    out->failed |= text.failed;
    eitp__buffer_release(&text);
    return EITP_OK;
}

/* The forms, by the members that an object must have. */
static const struct {
    const char *members[2];                                                           /* the second may be NULL */
    eitp_status (*write)(const eitp_json *row, eitp__buffer *out, eitp_error *error); /* NULL: they are messages */
} eitp__conversation_forms[] = {{{"messages", NULL}, NULL},
                                {{"conversations", NULL}, eitp__write_turns},
                                {{"prompt", "completion"}, eitp__write_pair},
                                {{"instruction", "output"}, eitp__write_instruction}};

/* The number of the form of an object; EITP__COUNT(eitp__conversation_forms): none. */
static size_t eitp__conversation_form(const eitp_json *object) {
    size_t form = 0;
    for (; form < EITP__COUNT(eitp__conversation_forms); form++) {
        const char *const *members = eitp__conversation_forms[form].members;
        if (eitp_json_member(object, members[0]) && (!members[1] || eitp_json_member(object, members[1])))
            break;
    }
    return form;
}

EITP__PRIVATE int eitp__has_conversation(const eitp_json *object) {
    return eitp__conversation_form(object) < EITP__COUNT(eitp__conversation_forms);
}

/* ---- Conversations ---- */

static eitp_status eitp__check_messages(const eitp_json *messages, eitp_error *error) {
    size_t number = 0;
    if (!eitp__json_is(messages, EITP_JSON_ARRAY) || !messages->count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "'messages' must be a list of at least one message");
    for (const eitp_json *message = messages->first_child; message; message = message->next) {
        number++;
        if (!eitp__json_is(eitp_json_member(message, "role"), EITP_JSON_STRING))
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "message %zu has no 'role', such as user or assistant; a message is {\"role\": ..., "
                              "\"content\": ...}",
                              number);
        if (!eitp_json_member(message, "content") && !eitp_json_member(message, "tool_calls"))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "message %zu has no 'content'", number);
    }
    return EITP_OK;
}

/* Writes the messages of a row anew where it does not have them as such. */
static eitp_status eitp__find_messages(const eitp_host *host, eitp__conversation *conversation, eitp_error *error) {
    const eitp_json *row = eitp_json_root(conversation->row), *turns = eitp_json_member(row, "conversations");
    const size_t form = eitp__conversation_form(row);
    eitp_status status;
    eitp__buffer out;
    if (form == EITP__COUNT(eitp__conversation_forms))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the row is no conversation; it needs 'messages', 'conversations', 'prompt' and "
                          "'completion', or 'instruction' and 'output'");
    conversation->messages = eitp_json_member(row, "messages");
    if (!conversation->messages && eitp__json_is(turns, EITP_JSON_ARRAY) &&
        eitp_json_member(turns->first_child, "role"))
        conversation->messages = turns;
    if (conversation->messages)
        return EITP_OK;
    eitp__buffer_init(&out, host);
    eitp__buffer_add_text(&out, "[");
    status = eitp__conversation_forms[form].write(row, &out, error);
    eitp__buffer_add_text(&out, "]");
    if (!status && out.failed)
        status = eitp__fail_memory(error, out.size, "the messages of a conversation");
    if (!status)
        status = eitp_json_parse(host, out.data, out.size, &conversation->made, error);
    eitp__buffer_release(&out);
    conversation->messages = eitp_json_root(conversation->made);
    return status;
}

/* Datasets often have tools as the text of a JSON list. */
static eitp_status eitp__find_tools(const eitp_host *host, eitp__conversation *conversation, eitp_error *error) {
    const eitp_json *tools = eitp_json_member(eitp_json_root(conversation->row), "tools");
    if (!tools || tools->kind == EITP_JSON_NULL || (tools->kind == EITP_JSON_STRING && !tools->text_size))
        return EITP_OK;
    if (tools->kind == EITP_JSON_STRING) {
        const eitp_status status =
            eitp_json_parse(host, tools->text, tools->text_size, &conversation->made_tools, error);
        if (status)
            return eitp__fail_member(error, status, "'tools'");
        tools = eitp_json_root(conversation->made_tools);
    }
    if (tools->kind != EITP_JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "'tools' must be a list, or its JSON text");
    conversation->tools = tools->count ? tools : NULL;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__conversation_parse(const eitp_host *host, const char *text, size_t size,
                                                   eitp__conversation *conversation, eitp_error *error) {
    eitp_status status;
    memset(conversation, 0, sizeof *conversation);
    status = eitp__json_parse_line(host, text, size, 1, &conversation->row, error);
    if (!status && eitp_json_root(conversation->row)->kind != EITP_JSON_OBJECT)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "a conversation must be a JSON object");
    if (!status)
        status = eitp__find_messages(host, conversation, error);
    if (!status)
        status = eitp__check_messages(conversation->messages, error);
    return status ? status : eitp__find_tools(host, conversation, error);
}

EITP__PRIVATE void eitp__conversation_release(eitp__conversation *conversation) {
    eitp_json_release(conversation->row);
    eitp_json_release(conversation->made);
    eitp_json_release(conversation->made_tools);
    memset(conversation, 0, sizeof *conversation);
}
