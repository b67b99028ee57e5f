#include "template/chat_template.h"

#include "base/status.h"
#include "base/unicode.h"
#include "template/jinja_evaluate.h"

/* Memory limit for values: a multiple of the output limit, and the minimum. */
#define EITP__JINJA_VALUE_BYTES ((size_t)8)
#define EITP__JINJA_MIN_VALUES ((size_t)1 << 20)

struct eitp__chat_template {
    const eitp_host *host; /* points to host_copy */
    eitp_host host_copy;
    eitp__jinja_memory memory;
    const char *text; /* with newlines as "\n", and without a final newline */
    eitp__jinja_node *statements;
};

EITP__PRIVATE void eitp__chat_template_release(eitp__chat_template *chat_template) {
    if (!chat_template)
        return;
    const eitp_host host = chat_template->host_copy;
    eitp__jinja_memory_release(&chat_template->memory);
    eitp__release(&host, chat_template, sizeof *chat_template);
}

/* Copies the text, replacing "\r\n" and "\r" with "\n" and dropping the final newline. Returns the size of the copy. */
static size_t eitp__chat_copy_text(const char *text, size_t size, char *copy) {
    size_t written = 0;
    for (size_t at = 0; at < size; at++) {
        copy[written++] = text[at] == '\r' ? '\n' : text[at];
        if (text[at] == '\r' && at + 1 < size && text[at + 1] == '\n')
            at++;
    }
    if (written && copy[written - 1] == '\n')
        written--;
    copy[written] = 0;
    return written;
}

static eitp_status eitp__chat_parse_copy(eitp__chat_template *made, const char *text, size_t size, eitp_error *error) {
    char *copy = (char *)eitp__jinja_memory_allocate(&made->memory, size + 1);
    const size_t valid = eitp__utf8_valid_prefix((const unsigned char *)text, size);
    if (!copy)
        return eitp__fail_memory(error, size, "a chat template");
    made->text = copy;
    size = eitp__chat_copy_text(text, size, copy);
    if (valid < size)
        return eitp__fail(error, EITP_ERROR_FORMAT, "chat template: invalid UTF-8 at byte %zu", valid);
    return eitp__jinja_parse(&made->memory, copy, size, &made->statements, error);
}

EITP__PRIVATE eitp_status eitp__chat_template_parse(const eitp_host *host, const char *text, size_t size,
                                                    eitp__chat_template **chat_template, eitp_error *error) {
    eitp__chat_template *made;
    eitp_status status;
    *chat_template = NULL;
    if (size > EITP__CHAT_TEMPLATE_LIMIT)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "chat template: %zu bytes exceed the limit of %zu", size,
                          EITP__CHAT_TEMPLATE_LIMIT);
    made = (eitp__chat_template *)eitp__allocate(host, sizeof *made);
    if (!made)
        return eitp__fail_memory(error, sizeof *made, "a chat template");
    made->host_copy = *host;
    made->host = &made->host_copy;
    /* A node needs about 200 bytes, and a token has at least one byte. */
    eitp__jinja_memory_init(&made->memory, made->host, (size + 256) * 512);
    status = eitp__chat_parse_copy(made, text, size, error);
    if (status != EITP_OK) {
        eitp__chat_template_release(made);
        return status;
    }
    *chat_template = made;
    return EITP_OK;
}

/* ---- rendering ---- */

/* Marks the elements of `messages`. */
static void eitp__chat_mark_messages(const eitp__jinja_value *messages) {
    for (size_t i = 0; messages->kind == EITP__JINJA_LIST && i < messages->as.list->count; i++)
        if (messages->as.list->items[i].kind == EITP__JINJA_DICT)
            messages->as.list->items[i].as.dict->message = i + 1;
}

static void eitp__chat_set(eitp__jinja_evaluator *evaluator, const char *name, size_t size,
                           const eitp__jinja_value *value) {
    if (evaluator->jinja->status == EITP_OK && size == 8 && !memcmp(name, "messages", 8))
        eitp__chat_mark_messages(value);
    eitp__jinja_assign(evaluator, name, size, value);
}

static eitp__jinja_value eitp__chat_value(eitp__jinja *jinja, const eitp__chat_variable *variable) {
    switch (variable->kind) {
    case EITP__CHAT_BOOLEAN:
        return eitp__jinja_boolean(variable->boolean);
    case EITP__CHAT_TEXT:
        return eitp__jinja_string(variable->text, strlen(variable->text));
    case EITP__CHAT_JSON:
        return eitp__jinja_from_json(jinja, variable->json);
    default:
        return eitp__jinja_none();
    }
}

/* Sets the variables of a context, in a scope around the template's. */
static void eitp__chat_set_context(eitp__jinja_evaluator *evaluator, const eitp__chat_context *context) {
    eitp__jinja *jinja = evaluator->jinja;
    const eitp_json *member = context->object ? context->object->first_child : NULL;
    for (; member && jinja->status == EITP_OK; member = member->next) {
        const eitp__jinja_value value = eitp__jinja_from_json(jinja, member);
        eitp__chat_set(evaluator, member->name, member->name_size, &value);
    }
    for (size_t i = 0; i < context->variable_count && jinja->status == EITP_OK; i++) {
        const eitp__chat_variable *variable = &context->variables[i];
        const eitp__jinja_value value = eitp__chat_value(jinja, variable);
        eitp__chat_set(evaluator, variable->name, strlen(variable->name), &value);
    }
}

EITP__PRIVATE eitp_status eitp__chat_template_render(const eitp__chat_template *chat_template,
                                                     const eitp__chat_context *context, eitp__buffer *buffer,
                                                     eitp__chat_spans *spans, eitp_error *error) {
    const size_t span_count = spans ? spans->count : 0, hidden = spans ? spans->hidden : 0;
    eitp__jinja jinja;
    eitp__jinja_evaluator evaluator;
    eitp__jinja_scope scope;
    size_t values;
    memset(&jinja, 0, sizeof jinja);
    memset(&evaluator, 0, sizeof evaluator);
    memset(&scope, 0, sizeof scope);
    evaluator.jinja = &jinja;
    evaluator.scope = &scope;
    evaluator.output = buffer;
    evaluator.output_begin = buffer->size;
    evaluator.output_limit = context->output_limit ? context->output_limit : EITP__CHAT_OUTPUT_LIMIT;
    evaluator.message = SIZE_MAX;
    evaluator.spans = spans;
    jinja.error = error;
    jinja.source = chat_template->text;
    jinja.now = context->now;
    jinja.text_limit = evaluator.output_limit;
    eitp__buffer_init(&jinja.text, chat_template->host);
    if (!eitp__multiply_size(evaluator.output_limit, EITP__JINJA_VALUE_BYTES, &values))
        values = SIZE_MAX;
    eitp__jinja_memory_init(&jinja.memory, chat_template->host,
                            values > EITP__JINJA_MIN_VALUES ? values : EITP__JINJA_MIN_VALUES);
    eitp__chat_set_context(&evaluator, context);
    eitp__jinja_run(&evaluator, chat_template->statements);
    eitp__buffer_release(&jinja.text);
    eitp__jinja_memory_release(&jinja.memory);
    if (jinja.status != EITP_OK) {
        buffer->size = evaluator.output_begin;
        if (buffer->data)
            buffer->data[buffer->size] = 0;
        if (spans) {
            spans->count = span_count;
            spans->hidden = hidden;
        }
    }
    return jinja.status;
}

EITP__PRIVATE void eitp__chat_spans_release(const eitp_host *host, eitp__chat_spans *spans) {
    eitp__release(host, spans->spans, spans->capacity * sizeof *spans->spans);
    memset(spans, 0, sizeof *spans);
}
