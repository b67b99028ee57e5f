#include "text/message_contents.h"

#include "base/unicode.h"

/* Roles that chat templates know. Contents of other roles, such as tool results, may be anything. */
static const struct {
    const char *name;
    int has_text;
} eitp__message_roles[] = {{"system", 1}, {"user", 1}, {"assistant", 1}, {"developer", 1}, {"tool", 0}};

/* Returns the number of a role, ignoring case, or -1 if it is unknown. */
static int eitp__find_role(const eitp_json *role) {
    for (size_t i = 0; role && role->kind == EITP_JSON_STRING && i < EITP__COUNT(eitp__message_roles); i++) {
        if (eitp__equals_ignoring_case(role->text, role->text_size, eitp__message_roles[i].name))
            return (int)i;
    }
    return -1;
}

/* ---- Parts ---- */

/* Returns the text of a part of a content, or NULL if it is something else. */
static const eitp_json *eitp__part_text(const eitp_json *part) {
    const eitp_json *type = eitp_json_member(part, "type"), *text = eitp_json_member(part, "text");
    if (part->kind == EITP_JSON_STRING)
        return part;
    if (type && (type->kind != EITP_JSON_STRING || strcmp(type->text, "text") != 0))
        return NULL;
    return text && text->kind == EITP_JSON_STRING ? text : NULL;
}

static eitp_status eitp__check_part(const eitp_json *part, size_t number, eitp_error *error) {
    const eitp_json *type = eitp_json_member(part, "type");
    if (eitp__part_text(part))
        return EITP_OK;
    if (type && type->kind == EITP_JSON_STRING && strcmp(type->text, "text") != 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "message %zu: its content has a part of type '%.40s', and eitp trains only on text", number,
                          type->text);
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "message %zu: a part of its content has no 'text'; a part is {\"type\": \"text\", \"text\": ...}",
                      number);
}

static int eitp__has_calls(const eitp_json *message) {
    return eitp_json_member(message, "tool_calls") || eitp_json_member(message, "function_call");
}

static eitp_status eitp__check_content(const eitp_json *message, size_t number, eitp_error *error) {
    static const char *const kinds[] = {"null", "a boolean", "a number", "a string", "a list", "an object"};
    const eitp_json *content = eitp_json_member(message, "content");
    eitp_status status = EITP_OK;
    if (!content || content->kind == EITP_JSON_STRING || (content->kind == EITP_JSON_NULL && eitp__has_calls(message)))
        return EITP_OK;
    if (content->kind != EITP_JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "message %zu: its content must be a string or a list of parts (got %s)", number,
                          kinds[content->kind]);
    for (const eitp_json *part = content->first_child; part && !status; part = part->next)
        status = eitp__check_part(part, number, error);
    return status;
}

EITP__PRIVATE eitp_status eitp__check_contents(const eitp_json *messages, eitp_error *error) {
    size_t number = 1;
    eitp_status status = EITP_OK;
    for (const eitp_json *message = messages->first_child; message && !status; message = message->next, number++) {
        const int role = eitp__find_role(eitp_json_member(message, "role"));
        if (role >= 0 && eitp__message_roles[role].has_text)
            status = eitp__check_content(message, number, error);
    }
    return status;
}

/* ---- Plain messages ---- */

/* True for a list of text parts that `how` joins. */
static int eitp__is_joined(const eitp_json *content, const eitp__plain_contents *how) {
    int is_text = content->kind == EITP_JSON_ARRAY && how->joins_parts;
    for (const eitp_json *part = content->first_child; part && is_text; part = part->next)
        is_text = eitp__part_text(part) != NULL;
    return is_text;
}

static void eitp__write_joined(eitp__buffer *out, const eitp_json *content) {
    eitp__buffer text;
    eitp__buffer_init(&text, out->host);
    for (const eitp_json *part = content->first_child; part; part = part->next)
        eitp__buffer_add(&text, eitp__part_text(part)->text, eitp__part_text(part)->text_size);
    eitp__json_write_text(out, text.size ? text.data : "", text.size);
    out->failed |= text.failed;
    eitp__buffer_release(&text);
}

/* Writes the value of a member. Returns 1 if it differs from the original. */
static int eitp__write_plain_member(eitp__buffer *out, const eitp_json *member, const eitp__plain_contents *how) {
    const int role = strcmp(member->name, "role") ? -1 : eitp__find_role(member);
    const int is_content = !strcmp(member->name, "content");
    if (role >= 0 && strcmp(member->text, eitp__message_roles[role].name) != 0)
        eitp__json_write_text(out, eitp__message_roles[role].name, strlen(eitp__message_roles[role].name));
    else if (is_content && eitp__is_joined(member, how))
        eitp__write_joined(out, member);
    else if (is_content && member->kind == EITP_JSON_NULL && how->fills_nulls)
        eitp__buffer_add_text(out, "\"\"");
    else {
        eitp__json_write_value(out, member);
        return 0;
    }
    return 1;
}

static int eitp__write_plain_message(eitp__buffer *out, const eitp_json *message, const eitp__plain_contents *how) {
    int has_changed = 0;
    eitp__buffer_add_text(out, "{");
    for (const eitp_json *member = message->first_child; member; member = member->next) {
        eitp__json_write_text(out, member->name, member->name_size);
        eitp__buffer_add_text(out, ":");
        has_changed |= eitp__write_plain_member(out, member, how);
        eitp__buffer_add_text(out, member->next ? "," : "");
    }
    eitp__buffer_add_text(out, "}");
    return has_changed;
}

EITP__PRIVATE eitp_status eitp__make_plain(const eitp_host *host, eitp__conversation *conversation,
                                           const eitp__plain_contents *how, eitp_error *error) {
    eitp_json_document *plain = NULL;
    eitp_status status = EITP_OK;
    int has_changed = 0;
    eitp__buffer out;
    eitp__buffer_init(&out, host);
    eitp__buffer_add_text(&out, "[");
    for (const eitp_json *message = conversation->messages->first_child; message; message = message->next) {
        has_changed |= eitp__write_plain_message(&out, message, how);
        eitp__buffer_add_text(&out, message->next ? "," : "]");
    }
    if (out.failed)
        status = eitp__fail_memory(error, out.size, "the messages of a conversation");
    else if (has_changed)
        status = eitp_json_parse(host, out.data, out.size, &plain, error);
    eitp__buffer_release(&out);
    if (status || !has_changed)
        return status;
    eitp_json_release(conversation->plain);
    conversation->plain = plain;
    conversation->messages = eitp_json_root(plain);
    return EITP_OK;
}
