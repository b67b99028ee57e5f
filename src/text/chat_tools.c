/* Tools and tool calls. To find out if a chat template reads them, the conversation is rendered again without them. */
#include "text/chat_work.h"

/* Members of a message that hold calls: OpenAI's, and its earlier form. */
static const char *const eitp__call_members[] = {"tool_calls", "function_call"};

static int eitp__is_empty(const eitp_json *value) {
    return !value || value->kind == EITP_JSON_NULL || (value->kind == EITP_JSON_STRING && !value->text_size) ||
           (value->kind == EITP_JSON_ARRAY && !value->count) || (value->kind == EITP_JSON_OBJECT && !value->count);
}

static int eitp__is_call_member(const eitp_json *member) {
    for (size_t i = 0; i < EITP__COUNT(eitp__call_members); i++) {
        if (!strcmp(member->name, eitp__call_members[i]))
            return 1;
    }
    return 0;
}

/* Returns the calls of a message, or NULL if it has none. */
static const eitp_json *eitp__calls_of(const eitp_json *message) {
    for (const eitp_json *member = message->first_child; member; member = member->next) {
        if (eitp__is_call_member(member) && !eitp__is_empty(member))
            return member;
    }
    return NULL;
}

/* True if a turn of ShareGPT is a call, which is written as text. */
static int eitp__has_call_turn(const eitp_json *row) {
    const eitp_json *turns = eitp_json_member(row, "conversations");
    for (const eitp_json *turn = turns ? turns->first_child : NULL; turn; turn = turn->next) {
        const eitp_json *from = eitp_json_member(turn, "from");
        if (from && from->kind == EITP_JSON_STRING && !strcmp(from->text, "function_call"))
            return 1;
    }
    return 0;
}

/* Writes the messages without their calls. */
static void eitp__write_without_calls(eitp__buffer *out, const eitp_json *messages) {
    eitp__buffer_add_text(out, "[");
    for (const eitp_json *message = messages->first_child; message; message = message->next) {
        const char *separator = "";
        eitp__buffer_add_text(out, message == messages->first_child ? "{" : ",{");
        for (const eitp_json *member = message->first_child; member; member = member->next) {
            if (eitp__is_call_member(member))
                continue;
            eitp__buffer_add_text(out, separator);
            eitp__json_write_text(out, member->name, member->name_size);
            eitp__buffer_add_text(out, ":");
            eitp__json_write_value(out, member);
            separator = ",";
        }
        eitp__buffer_add_text(out, "}");
    }
    eitp__buffer_add_text(out, "]");
}

/* Sets *is_same to 1 if messages with these tools are rendered identically to the conversation. */
static eitp_status eitp__writes_the_same(const eitp__chat_encoding *work, const eitp_json *messages,
                                         const eitp_json *tools, int *is_same, eitp_error *error) {
    eitp__chat_encoding other = *work;
    eitp__chat_output output;
    eitp_status status;
    other.conversation.tools = tools;
    eitp__chat_output_init(&output, work->host);
    status = eitp__chat_render(&other, messages, work->config->add_generation_prompt, &output, error);
    *is_same = !status && output.text.size == work->rendered.text.size &&
               (!output.text.size || !memcmp(output.text.data, work->rendered.text.data, output.text.size));
    eitp__chat_output_release(&output);
    return status == EITP_ERROR_ARGUMENT ? EITP_OK : status; /* a template that refuses them reads them */
}

/* Refuses calls that do not affect the text. *has_calls is 1 if there are any. */
static eitp_status eitp__check_calls(const eitp__chat_encoding *work, int *has_calls, eitp_error *error) {
    const eitp_json *calls = NULL;
    eitp_json_document *without = NULL;
    size_t number = 0;
    int is_same = 0;
    eitp__buffer text;
    eitp_status status;
    for (const eitp_json *m = work->conversation.messages->first_child; m && !calls; m = m->next, number++)
        calls = eitp__calls_of(m);
    *has_calls = calls != NULL;
    if (!calls)
        return EITP_OK;
    eitp__buffer_init(&text, work->host);
    eitp__write_without_calls(&text, work->conversation.messages);
    status = text.failed ? eitp__fail_memory(error, text.size, "the messages of a conversation")
                         : eitp_json_parse(work->host, text.data, text.size, &without, error);
    if (!status)
        status = eitp__writes_the_same(work, eitp_json_root(without), work->conversation.tools, &is_same, error);
    if (!status && is_same)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "message %zu has '%s', which the chat template never reads; use a template that writes "
                            "calls of tools",
                            number, calls->name);
    eitp_json_release(without);
    eitp__buffer_release(&text);
    return status;
}

EITP__PRIVATE eitp_status eitp__chat_check_tools(const eitp__chat_encoding *work, int *unread, eitp_error *error) {
    const eitp_json *row = eitp_json_root(work->conversation.row);
    const int has_functions = !eitp__is_empty(eitp_json_member(row, "functions"));
    int has_calls = 0;
    eitp_status status = eitp__check_calls(work, &has_calls, error);
    *unread = has_functions;
    if (!status && !has_functions && work->conversation.tools)
        status = eitp__writes_the_same(work, work->conversation.messages, NULL, unread, error);
    if (status || !*unread || (!has_calls && !eitp__has_call_turn(row)))
        return status;
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "the conversation calls its '%s', which the chat template never reads; use a template that "
                      "writes tools",
                      has_functions ? "functions" : "tools");
}
