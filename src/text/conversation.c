/* Conversations: the forms used by files, and the messages that each form stands for. */
#include "text/conversation.h"

#include "base/settings.h"
#include "base/unicode.h"
#include "text/message_contents.h"

#include <float.h>

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

/* Adds a message with this text, or nothing if it is NULL or empty. */
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

EITP__PRIVATE eitp_status eitp__read_weight(const eitp_json *object, double *weight, eitp_error *error) {
    const eitp_json *member = eitp_json_member(object, "weight");
    *weight = 1;
    if (!member || member->kind == EITP_JSON_NULL || (member->kind == EITP_JSON_STRING && !member->text_size))
        return EITP_OK;
    if (member->kind != EITP_JSON_NUMBER)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "'weight' must be a number of at least 0");
    if (!(member->number >= 0 && member->number <= FLT_MAX))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "'weight' must be a number of at least 0 (got %.20s)",
                          member->text);
    *weight = member->number > 0 ? member->number : 0; /* avoids negative zero */
    return EITP_OK;
}

static eitp_status eitp__expect_text(const eitp_json *value, const char *name, eitp_error *error) {
    return eitp__json_is(value, EITP_JSON_STRING)
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_ARGUMENT, "'%s' must be a string", name);
}

/* ---- Forms ---- */

/* A form of rows. */
typedef struct eitp__conversation_form {
    const char *members[2]; /* required members; the second may be NULL */
    int has_context;        /* may have one of eitp__context_names */
    /* Writes the messages; NULL: the first member has them. */
    eitp_status (*write)(const struct eitp__conversation_form *form, const eitp_json *row, eitp__buffer *out,
                         eitp_error *error);
} eitp__conversation_form;

/* Members with text that follows the question after an empty line. */
static const char *const eitp__context_names[] = {"input", "context"};

/* Returns the member of this name, or else one that differs only in case. */
static const eitp_json *eitp__form_member(const eitp_json *object, const char *name) {
    const eitp_json *found = eitp_json_member(object, name);
    for (const eitp_json *member = object->first_child; member && !found && object->kind == EITP_JSON_OBJECT;
         member = member->next) {
        if (eitp__equals_ignoring_case(member->name, member->name_size, name))
            found = member;
    }
    return found;
}

/* Returns the role for a name in ShareGPT's "from", or NULL if it is unknown. */
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

/* Writes {"conversations": [{"from": ..., "value": ...}]}. */
static eitp_status eitp__write_turns(const eitp__conversation_form *form, const eitp_json *row, eitp__buffer *out,
                                     eitp_error *error) {
    const eitp_json *turns = eitp__form_member(row, form->members[0]), *turn;
    size_t number = 0;
    if (turns->kind != EITP_JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "'conversations' must be a list of messages");
    eitp__write_message(out, "system", eitp__form_member(row, "system"));
    for (turn = turns->first_child; turn; turn = turn->next) {
        const eitp_json *from = eitp_json_member(turn, "from"), *value = eitp_json_member(turn, "value");
        const eitp_json *weight = eitp_json_member(turn, "weight");
        const char *role = eitp__message_role_of(from);
        number++;
        if (!eitp__json_is(from, EITP_JSON_STRING) || !eitp__json_is(value, EITP_JSON_STRING))
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "message %zu of 'conversations' must have the strings 'from' and 'value', or 'role' and "
                              "'content'",
                              number);
        if (!role)
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "message %zu of 'conversations' is from '%.40s' (expected human, gpt, system or tool)",
                              number, from->text);
        eitp__write_role(out, role);
        eitp__json_write_text(out, value->text, value->text_size);
        if (weight)
            eitp__buffer_add_text(out, ",\"weight\":");
        if (weight)
            eitp__json_write_value(out, weight);
        eitp__buffer_add_text(out, "}");
    }
    return EITP_OK;
}

/* Writes one side of a prompt and completion pair: a string, or messages. */
static eitp_status eitp__write_side(const eitp_json *row, const char *name, const char *role, eitp__buffer *out,
                                    eitp_error *error) {
    const eitp_json *side = eitp__form_member(row, name);
    if (side->kind == EITP_JSON_STRING) {
        eitp__write_role(out, role);
        eitp__json_write_text(out, side->text, side->text_size);
        eitp__buffer_add_text(out, "}");
        return EITP_OK;
    }
    if (side->kind != EITP_JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "'%s' must be a string or a list of messages", name);
    for (const eitp_json *message = side->first_child; message; message = message->next) {
        eitp__buffer_add_text(out, out->size > 1 ? "," : "");
        eitp__json_write_value(out, message);
    }
    return EITP_OK;
}

static eitp_status eitp__write_pair(const eitp__conversation_form *form, const eitp_json *row, eitp__buffer *out,
                                    eitp_error *error) {
    eitp_status status;
    eitp__write_message(out, "system", eitp__form_member(row, "system"));
    status = eitp__write_side(row, form->members[0], "user", out, error);
    return status ? status : eitp__write_side(row, form->members[1], "assistant", out, error);
}

/* Finds the context of a question. NULL if it has none. */
static eitp_status eitp__find_context(const eitp__conversation_form *form, const eitp_json *row,
                                      const eitp_json **context, eitp_error *error) {
    *context = NULL;
    for (size_t i = 0; form->has_context && i < EITP__COUNT(eitp__context_names) && !*context; i++) {
        const eitp_json *member = eitp__form_member(row, eitp__context_names[i]);
        if (!member || member->kind == EITP_JSON_NULL)
            continue;
        if (member->kind != EITP_JSON_STRING)
            return eitp__expect_text(member, eitp__context_names[i], error);
        *context = member->text_size ? member : NULL;
    }
    return EITP_OK;
}

/* Writes a question, optionally with context, and its answer, each a string: Alpaca's instruction, input and output. */
static eitp_status eitp__write_question(const eitp__conversation_form *form, const eitp_json *row, eitp__buffer *out,
                                        eitp_error *error) {
    const eitp_json *question = eitp__form_member(row, form->members[0]);
    const eitp_json *answer = eitp__form_member(row, form->members[1]), *context;
    eitp_status status = eitp__expect_text(question, form->members[0], error);
    eitp__buffer text;
    if (!status)
        status = eitp__expect_text(answer, form->members[1], error);
    if (!status)
        status = eitp__find_context(form, row, &context, error);
    if (status)
        return status;
    eitp__buffer_init(&text, out->host);
    eitp__buffer_add(&text, question->text, question->text_size);
    if (context) {
        eitp__buffer_add_text(&text, question->text_size ? "\n\n" : "");
        eitp__buffer_add(&text, context->text, context->text_size);
    }
    eitp__write_message(out, "system", eitp__form_member(row, "system"));
    eitp__write_role(out, "user");
    eitp__json_write_text(out, text.size ? text.data : "", text.size);
    eitp__buffer_add_text(out, "}");
    eitp__write_role(out, "assistant");
    eitp__json_write_text(out, answer->text, answer->text_size);
    eitp__buffer_add_text(out, "}");
    out->failed |= text.failed;
    eitp__buffer_release(&text);
    return EITP_OK;
}

/* The first form whose members an object has is used. */
static const eitp__conversation_form eitp__conversation_forms[] = {
    {{"messages", NULL}, 0, NULL},
    {{"conversations", NULL}, 0, eitp__write_turns},
    {{"prompt", "completion"}, 0, eitp__write_pair},
    {{"prompt", "response"}, 0, eitp__write_pair},
    {{"instruction", "output"}, 1, eitp__write_question},
    {{"instruction", "response"}, 1, eitp__write_question},
    {{"question", "answer"}, 1, eitp__write_question},
    {{"input", "output"}, 0, eitp__write_question},
};

/* Returns the form of an object, or NULL if it has none. */
static const eitp__conversation_form *eitp__find_form(const eitp_json *object) {
    for (size_t i = 0; i < EITP__COUNT(eitp__conversation_forms); i++) {
        const char *const *members = eitp__conversation_forms[i].members;
        if (eitp__form_member(object, members[0]) && (!members[1] || eitp__form_member(object, members[1])))
            return &eitp__conversation_forms[i];
    }
    return NULL;
}

EITP__PRIVATE int eitp__has_conversation(const eitp_json *object) {
    return eitp__find_form(object) != NULL;
}

/* ---- Rows for other kinds of training ---- */

/* True for a rating: true or false, or one of these as a string (in tables). */
static int eitp__is_rating(const eitp_json *value) {
    return eitp__json_is(value, EITP_JSON_BOOLEAN) ||
           (eitp__json_is(value, EITP_JSON_STRING) &&
            (eitp__equals_ignoring_case(value->text, value->text_size, "true") ||
             eitp__equals_ignoring_case(value->text, value->text_size, "false")));
}

/* True if a member is not null, an empty string or an empty list. */
static int eitp__is_given(const eitp_json *value) {
    return value && value->kind != EITP_JSON_NULL && (value->kind != EITP_JSON_STRING || value->text_size) &&
           (value->kind != EITP_JSON_ARRAY || value->count);
}

EITP__PRIVATE eitp_status eitp__refuse_other_training(const eitp_json *row, eitp_error *error) {
    static const struct {
        const char *members[3];
        int (*is_one)(const eitp_json *value); /* checks the last member */
        const char *rows, *training;
    } others[] = {
        {{"chosen", "rejected", NULL}, eitp__is_given, "chosen and rejected", "preference training (DPO)"},
        {{"prompt", "completion", "label"},
         eitp__is_rating,
         "completion and a label true or false",
         "training on rated answers (KTO)"},
        {{"prompt", "completions", "labels"},
         eitp__is_given,
         "completions and labels",
         "training reward models on steps"},
        {{"image", NULL, NULL}, eitp__is_given, "image", "training on images"},
        {{"images", NULL, NULL}, eitp__is_given, "images", "training on images"},
        {{"audio", NULL, NULL}, eitp__is_given, "audio", "training on sound"},
        {{"audios", NULL, NULL}, eitp__is_given, "audios", "training on sound"},
        {{"video", NULL, NULL}, eitp__is_given, "video", "training on videos"},
        {{"videos", NULL, NULL}, eitp__is_given, "videos", "training on videos"},
    };
    for (size_t i = 0; i < EITP__COUNT(others); i++) {
        const eitp_json *last = NULL;
        size_t count = 0, found = 0;
        for (; count < EITP__COUNT(others[i].members) && others[i].members[count]; count++) {
            last = eitp__form_member(row, others[i].members[count]);
            found += last != NULL;
        }
        if (found == count && others[i].is_one(last))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "rows with %s are for %s, which eitp does not support",
                              others[i].rows, others[i].training);
    }
    return EITP_OK;
}

/* ---- Rows that have none of the forms ---- */

/* Appends the members of a form, such as "prompt and completion". */
static void eitp__name_form(eitp__buffer *text, const eitp__conversation_form *form) {
    eitp__buffer_add_text(text, form->members[0]);
    if (form->members[1])
        eitp__buffer_format(text, " and %s", form->members[1]);
}

/* Returns the distance, in letters, of an object from having a member. Sets *is_near to 1 if it has one of a similar
   name. */
static size_t eitp__member_distance(const eitp_json *object, const char *name, int *is_near) {
    eitp_suggestion nearest = EITP__ZERO;
    if (eitp__form_member(object, name)) {
        *is_near = 1;
        return 0;
    }
    for (const eitp_json *member = object->first_child; member; member = member->next)
        eitp_suggest_name(name, member->name, member->name_size, &nearest);
    *is_near |= nearest.name != NULL;
    return nearest.name ? nearest.distance : strlen(name);
}

/* Returns the form with the smallest distance, or NULL if no member resembles one of any form. */
static const eitp__conversation_form *eitp__nearest_form(const eitp_json *object) {
    const eitp__conversation_form *nearest = NULL;
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < EITP__COUNT(eitp__conversation_forms); i++) {
        const eitp__conversation_form *form = &eitp__conversation_forms[i];
        int is_near = 0;
        size_t distance = eitp__member_distance(object, form->members[0], &is_near);
        distance += form->members[1] ? eitp__member_distance(object, form->members[1], &is_near) : 0;
        if (!is_near || distance >= best)
            continue;
        nearest = form;
        best = distance;
    }
    return nearest;
}

EITP__PRIVATE eitp_status eitp__fail_form(const eitp_host *host, const eitp_json *row, const char *other,
                                          eitp_error *error) {
    const eitp__conversation_form *nearest = eitp__nearest_form(row);
    char members[160];
    eitp__buffer text;
    eitp_status status;
    eitp__buffer_init(&text, host);
    for (size_t i = 0; i < EITP__COUNT(eitp__conversation_forms); i++) {
        eitp__buffer_add_text(&text, i ? ", or " : "");
        eitp__name_form(&text, &eitp__conversation_forms[i]);
    }
    if (other)
        eitp__buffer_format(&text, ", or %s", other);
    if (nearest)
        eitp__buffer_add_text(&text, "; the nearest is ");
    if (nearest)
        eitp__name_form(&text, nearest);
    eitp__buffer_add(&text, "", 1);
    status = text.failed ? eitp__fail_memory(error, text.size, "a message")
                         : eitp__fail(error, EITP_ERROR_ARGUMENT, "the row has the members %s; it must have %s",
                                      eitp__json_list_members(row, members, sizeof members), text.data);
    eitp__buffer_release(&text);
    return status;
}

/* ---- Conversations ---- */

static eitp_status eitp__check_messages(const eitp_json *messages, eitp_error *error) {
    double weight;
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
        if (eitp__read_weight(message, &weight, error))
            return eitp__fail_prefix(error, EITP_ERROR_ARGUMENT, "message %zu", number);
    }
    return EITP_OK;
}

/* Sets *list to a member that is a list, or the JSON text of one, which is common in datasets. NULL if it is empty. */
static eitp_status eitp__find_list(const eitp_host *host, const eitp_json *member, const char *name,
                                   eitp_json_document **document, const eitp_json **list, eitp_error *error) {
    *list = NULL;
    if (!eitp__is_given(member))
        return EITP_OK;
    if (member->kind == EITP_JSON_STRING) {
        const eitp_status status = eitp_json_parse(host, member->text, member->text_size, document, error);
        if (status)
            return eitp__fail_member(error, status, name);
        member = eitp_json_root(*document);
    }
    if (member->kind != EITP_JSON_ARRAY)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s must be a list, or its JSON text", name);
    *list = member->count ? member : NULL;
    return EITP_OK;
}

/* Converts a row to messages if it is in another format. */
static eitp_status eitp__find_messages(const eitp_host *host, eitp__conversation *conversation, eitp_error *error) {
    const eitp_json *row = eitp_json_root(conversation->row), *turns = eitp__form_member(row, "conversations");
    const eitp__conversation_form *form = eitp__find_form(row);
    eitp_status status = eitp__refuse_other_training(row, error);
    eitp__buffer out;
    if (!status && !form)
        status = eitp__fail_form(host, row, NULL, error);
    if (!status && form && !form->write)
        status = eitp__find_list(host, eitp__form_member(row, "messages"), "'messages'", &conversation->made,
                                 &conversation->messages, error);
    if (status || !form->write)
        return status;
    if (eitp__json_is(turns, EITP_JSON_ARRAY) && turns->count && eitp_json_member(turns->first_child, "role"))
        conversation->messages = turns;
    if (conversation->messages)
        return EITP_OK;
    eitp__buffer_init(&out, host);
    eitp__buffer_add_text(&out, "[");
    status = form->write(form, row, &out, error);
    eitp__buffer_add_text(&out, "]");
    if (!status && out.failed)
        status = eitp__fail_memory(error, out.size, "the messages of a conversation");
    if (!status)
        status = eitp_json_parse(host, out.data, out.size, &conversation->made, error);
    eitp__buffer_release(&out);
    conversation->messages = eitp_json_root(conversation->made);
    return status;
}

static eitp_status eitp__find_tools(const eitp_host *host, eitp__conversation *conversation, eitp_error *error) {
    const eitp_json *tools = eitp_json_member(eitp_json_root(conversation->row), "tools");
    return eitp__find_list(host, tools, "'tools'", &conversation->made_tools, &conversation->tools, error);
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
    if (!status)
        status = eitp__check_contents(conversation->messages, error);
    if (!status)
        status = eitp__read_weight(eitp_json_root(conversation->row), &conversation->weight, error);
    return status ? status : eitp__find_tools(host, conversation, error);
}

EITP__PRIVATE void eitp__conversation_release(eitp__conversation *conversation) {
    eitp_json_release(conversation->row);
    eitp_json_release(conversation->made);
    eitp_json_release(conversation->made_tools);
    eitp_json_release(conversation->plain);
    memset(conversation, 0, sizeof *conversation);
}
