#include "template/jinja_evaluate.h"

#include "template/jinja_arithmetic.h"
#include "template/jinja_methods.h"
#include "template/jinja_print.h"
#include "template/jinja_strings.h"

/* A macro value. */
typedef struct eitp__jinja_macro {
    const eitp__jinja_node *node;
    eitp__jinja_scope *scope; /* scope of the definition */
} eitp__jinja_macro;

/* Results of executing statements. */
enum { EITP__JINJA_DONE, EITP__JINJA_BROKEN, EITP__JINJA_CONTINUED };

static eitp__jinja_value eitp__jinja_evaluate(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node);
static int eitp__jinja_execute(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *statements);

/* ---- scopes ---- */

static eitp__jinja_named *eitp__jinja_find_variable(eitp__jinja_evaluator *evaluator, eitp__jinja_scope *scope,
                                                    const char *name, size_t size) {
    if (!eitp__jinja_count_steps(evaluator->jinja, scope->count / 8))
        return NULL;
    for (size_t i = 0; i < scope->count; i++)
        if (scope->variables[i].size == size && !memcmp(scope->variables[i].name, name, size))
            return &scope->variables[i];
    return NULL;
}

EITP__PRIVATE void eitp__jinja_assign(eitp__jinja_evaluator *evaluator, const char *name, size_t size,
                                      const eitp__jinja_value *value) {
    eitp__jinja_scope *scope = evaluator->scope;
    eitp__jinja_named *variable = eitp__jinja_find_variable(evaluator, scope, name, size);
    if (!variable) {
        if (scope->count == scope->capacity) {
            const size_t capacity = scope->capacity ? scope->capacity * 2 : 4;
            eitp__jinja_named *grown =
                (eitp__jinja_named *)eitp__jinja_allocate(evaluator->jinja, capacity * sizeof *grown);
            if (!grown)
                return;
            if (scope->count)
                memcpy(grown, scope->variables, scope->count * sizeof *grown);
            scope->variables = grown;
            scope->capacity = capacity;
        }
        variable = &scope->variables[scope->count++];
        variable->name = name;
        variable->size = size;
    }
    variable->value = *value;
}

/* Enters a scope within `parent`. Returns the scope to restore, or NULL after a failure. */
static eitp__jinja_scope *eitp__jinja_enter_scope(eitp__jinja_evaluator *evaluator, eitp__jinja_scope *parent) {
    eitp__jinja_scope *scope = (eitp__jinja_scope *)eitp__jinja_allocate(evaluator->jinja, sizeof *scope);
    eitp__jinja_scope *outer = evaluator->scope;
    if (!scope)
        return NULL;
    scope->parent = parent;
    evaluator->scope = scope;
    return outer;
}

/* ---- output ---- */

static void eitp__jinja_write(eitp__jinja_evaluator *evaluator, const char *text, size_t size) {
    eitp__jinja *jinja = evaluator->jinja;
    if (evaluator->captures) {
        eitp__jinja_add(jinja, text, size);
        return;
    }
    if (!eitp__jinja_count_steps(jinja, size / 64))
        return;
    if (size > evaluator->output_limit - (evaluator->output->size - evaluator->output_begin)) {
        eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "the output exceeds the limit of %zu bytes",
                         evaluator->output_limit);
        return;
    }
    eitp__buffer_add(evaluator->output, text, size);
    if (evaluator->output->failed)
        eitp__jinja_fail(jinja, EITP_ERROR_MEMORY, "cannot allocate memory for the output");
}

static size_t eitp__jinja_written(const eitp__jinja_evaluator *evaluator) {
    return evaluator->output->size - evaluator->output_begin;
}

static void eitp__jinja_add_span(eitp__jinja_evaluator *evaluator, int kind, size_t message, size_t begin) {
    eitp__chat_spans *spans = evaluator->spans;
    eitp__chat_span *span;
    if (!spans || evaluator->jinja->status != EITP_OK)
        return;
    if (!eitp__reserve(evaluator->output->host, (void **)&spans->spans, &spans->capacity, spans->count + 1,
                       sizeof *spans->spans)) {
        eitp__jinja_fail(evaluator->jinja, EITP_ERROR_MEMORY, "cannot allocate memory for spans");
        return;
    }
    span = &spans->spans[spans->count++];
    span->kind = kind;
    span->message = message;
    span->begin = begin;
    span->end = eitp__jinja_written(evaluator);
}

/* Assigns the output from here on to `message`. */
static void eitp__jinja_switch_message(eitp__jinja_evaluator *evaluator, size_t message) {
    if (evaluator->captures || evaluator->message == message)
        return;
    if (evaluator->message != SIZE_MAX && eitp__jinja_written(evaluator) > evaluator->message_begin)
        eitp__jinja_add_span(evaluator, EITP__CHAT_SPAN_MESSAGE, evaluator->message, evaluator->message_begin);
    evaluator->message = message;
    evaluator->message_begin = eitp__jinja_written(evaluator);
}

/* Returns the message that a loop element is or contains, or SIZE_MAX. */
static size_t eitp__jinja_message_of(const eitp__jinja_value *value) {
    if (value->kind == EITP__JINJA_DICT && value->as.dict->message)
        return value->as.dict->message - 1;
    if (value->kind == EITP__JINJA_TUPLE || value->kind == EITP__JINJA_LIST)
        for (size_t i = 0; i < value->as.list->count && i < 4; i++)
            if (value->as.list->items[i].kind == EITP__JINJA_DICT && value->as.list->items[i].as.dict->message)
                return value->as.list->items[i].as.dict->message - 1;
    return SIZE_MAX;
}

/* Executes statements in a new scope, and returns their output. */
static eitp__jinja_value eitp__jinja_capture(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *body,
                                             eitp__jinja_scope *parent) {
    const size_t mark = evaluator->jinja->text.size;
    eitp__jinja_scope *outer = eitp__jinja_enter_scope(evaluator, parent);
    if (!outer)
        return eitp__jinja_none();
    evaluator->captures++;
    eitp__jinja_execute(evaluator, body);
    evaluator->captures--;
    evaluator->scope = outer;
    return eitp__jinja_finish_text(evaluator->jinja, mark);
}

/* ---- functions of all templates ---- */

static eitp__jinja_value eitp__jinja_global_range(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const int has_start = call->slots[1].kind != EITP__JINJA_MISSING;
    const int64_t first = eitp__jinja_integer_argument(jinja, &call->slots[0], 0);
    const int64_t stop = has_start ? eitp__jinja_integer_argument(jinja, &call->slots[1], 0) : first;
    const int64_t step = eitp__jinja_integer_argument(jinja, &call->slots[2], 1), start = has_start ? first : 0;
    const double count = step ? ceil(((double)stop - (double)start) / (double)step) : 0;
    eitp__jinja_list *list;
    if (step == 0)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "range: the step must not be 0");
    if (count > (double)EITP__JINJA_RANGE)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "range: more than %d values", EITP__JINJA_RANGE);
    list = eitp__jinja_new_list(jinja, count > 0 ? (size_t)count : 0);
    for (int64_t i = 0; i < (int64_t)count && jinja->status == EITP_OK; i++) {
        const eitp__jinja_value value = eitp__jinja_integer(start + i * step);
        eitp__jinja_push(jinja, list, &value);
    }
    return eitp__jinja_list_value(EITP__JINJA_RANGE_VALUE, list);
}

/* Adds the entries of a dict, or pairs of a list. */
static void eitp__jinja_put_all(eitp__jinja *jinja, eitp__jinja_dict *dict, const eitp__jinja_value *from) {
    const int is_dict = from->kind == EITP__JINJA_DICT || from->kind == EITP__JINJA_NAMESPACE;
    const eitp__jinja_list *pairs =
        is_dict ? eitp__jinja_items(jinja, from->as.dict) : eitp__jinja_iterate(jinja, from);
    for (size_t i = 0; pairs && i < pairs->count && jinja->status == EITP_OK; i++) {
        const eitp__jinja_list *pair = eitp__jinja_iterate(jinja, &pairs->items[i]);
        if (pair && pair->count != 2)
            eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "dict: an element is not a pair");
        else if (pair)
            eitp__jinja_put(jinja, dict, &pair->items[0], &pair->items[1]);
    }
}

static eitp__jinja_value eitp__jinja_make_dict(eitp__jinja *jinja, const eitp__jinja_arguments *arguments, int kind) {
    eitp__jinja_value made = eitp__jinja_none();
    eitp__jinja_dict *dict = eitp__jinja_new_dict(jinja, 0);
    if (arguments->count > 1)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "dict and namespace take at most 1 positional argument");
    for (size_t i = 0; dict && i < arguments->count; i++)
        eitp__jinja_put_all(jinja, dict, &arguments->values[i]);
    for (size_t i = 0; dict && i < arguments->named_count; i++) {
        const eitp__jinja_value key = eitp__jinja_string(arguments->named[i].name, arguments->named[i].size);
        eitp__jinja_put(jinja, dict, &key, &arguments->named[i].value);
    }
    for (size_t i = 0; kind == EITP__JINJA_NAMESPACE && dict && i < dict->count; i++)
        if (dict->entries[i].key.size && dict->entries[i].key.as.text[0] == '_')
            return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "names in a namespace must not start with '_'");
    if (!dict)
        return made;
    made.kind = kind;
    made.as.dict = dict;
    return made;
}

static eitp__jinja_value eitp__jinja_global_dict(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_make_dict(jinja, call->arguments, EITP__JINJA_DICT);
}

static eitp__jinja_value eitp__jinja_global_namespace(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_make_dict(jinja, call->arguments, EITP__JINJA_NAMESPACE);
}

static eitp__jinja_value eitp__jinja_global_raise(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_value message = eitp__jinja_to_string(jinja, &call->slots[0]);
    return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "%.*s", message.size < 400 ? (int)message.size : 400,
                            message.as.text);
}

static eitp__jinja_value eitp__jinja_global_strftime(eitp__jinja *jinja, const eitp__jinja_call *call) {
    if (call->slots[0].kind != EITP__JINJA_STRING)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "strftime_now requires a string");
    return eitp__jinja_format_time(jinja, &call->slots[0], jinja->now);
}

static const eitp__jinja_function eitp__jinja_globals[] = {
    {"range", "start stop step", 1, eitp__jinja_global_range},
    {"dict", NULL, 0, eitp__jinja_global_dict},
    {"namespace", NULL, 0, eitp__jinja_global_namespace},
    {"raise_exception", "message", 1, eitp__jinja_global_raise},
    {"strftime_now", "format", 1, eitp__jinja_global_strftime},
    {"cycler", NULL, 0, NULL},
    {"joiner", NULL, 0, NULL},
    {"lipsum", NULL, 0, NULL},
};

static eitp__jinja_value eitp__jinja_evaluate_name(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    eitp__jinja_value value;
    const eitp__jinja_function *function;
    for (eitp__jinja_scope *scope = evaluator->scope; scope; scope = scope->parent) {
        const eitp__jinja_named *found = eitp__jinja_find_variable(evaluator, scope, node->text, node->size);
        if (found)
            return found->value;
    }
    value = eitp__jinja_undefined(EITP__JINJA_VARIABLE, node->text, node->size);
    function = eitp__jinja_find_function(eitp__jinja_globals, EITP__COUNT(eitp__jinja_globals), node->text, node->size);
    if (function) {
        value.kind = EITP__JINJA_FUNCTION;
        value.as.function = function;
    }
    return value;
}

/* ---- calls ---- */

/* Grows an array of the rendering for `more` elements. Returns 0 after a failure. */
static int eitp__jinja_make_room(eitp__jinja *jinja, void **array, size_t count, size_t more, size_t size) {
    void *larger = eitp__jinja_allocate(jinja, (count + more + 1) * size);
    if (larger && count)
        memcpy(larger, *array, count * size);
    if (larger)
        *array = larger;
    return larger != NULL;
}

/* Adds the elements of a list (*list) or dict (**dict) to arguments. */
static void eitp__jinja_unpack(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node,
                               eitp__jinja_arguments *arguments, size_t coming) {
    eitp__jinja *jinja = evaluator->jinja;
    const eitp__jinja_value value = eitp__jinja_evaluate(evaluator, node->first);
    const eitp__jinja_dict *dict = value.kind == EITP__JINJA_DICT ? value.as.dict : NULL;
    const eitp__jinja_list *list = node->operation ? NULL : eitp__jinja_iterate(jinja, &value);
    jinja->offset = node->offset;
    if (node->operation && !dict)
        eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "'**' requires a dict");
    if (list && eitp__jinja_make_room(jinja, (void **)&arguments->values, arguments->count, list->count + coming,
                                      sizeof *arguments->values))
        for (size_t i = 0; i < list->count; i++)
            arguments->values[arguments->count++] = list->items[i];
    if (!node->operation || !dict ||
        !eitp__jinja_make_room(jinja, (void **)&arguments->named, arguments->named_count, dict->count + coming,
                               sizeof *arguments->named))
        return;
    for (size_t i = 0; i < dict->count; i++) {
        eitp__jinja_named *entry = &arguments->named[arguments->named_count];
        if (dict->entries[i].key.kind != EITP__JINJA_STRING) {
            eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "the keys of '**' must be strings");
            return;
        }
        entry->name = dict->entries[i].key.as.text;
        entry->size = dict->entries[i].key.size;
        entry->value = dict->entries[i].value;
        arguments->named_count++;
    }
}

/* Evaluates arguments. Returns 0 after a failure. */
static int eitp__jinja_evaluate_arguments(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *first,
                                          eitp__jinja_arguments *arguments) {
    size_t count = 0, named = 0;
    memset(arguments, 0, sizeof *arguments);
    for (const eitp__jinja_node *node = first; node; node = node->next) {
        count += node->kind != EITP__JINJA_NODE_KEYWORD; /* an upper bound, as it includes SPREADs */
        named += node->kind == EITP__JINJA_NODE_KEYWORD;
    }
    if (count)
        arguments->values =
            (eitp__jinja_value *)eitp__jinja_allocate(evaluator->jinja, count * sizeof *arguments->values);
    if (named)
        arguments->named =
            (eitp__jinja_named *)eitp__jinja_allocate(evaluator->jinja, named * sizeof *arguments->named);
    for (const eitp__jinja_node *node = first; node && evaluator->jinja->status == EITP_OK; node = node->next) {
        if (node->kind == EITP__JINJA_NODE_KEYWORD) {
            eitp__jinja_named *entry = &arguments->named[arguments->named_count++];
            entry->name = node->text;
            entry->size = node->size;
            entry->value = eitp__jinja_evaluate(evaluator, node->first);
        } else if (node->kind == EITP__JINJA_NODE_SPREAD) {
            eitp__jinja_unpack(evaluator, node, arguments, count + named);
        } else {
            arguments->values[arguments->count++] = eitp__jinja_evaluate(evaluator, node);
        }
    }
    return evaluator->jinja->status == EITP_OK;
}

/* Returns the argument of a parameter, or NULL if it was not passed. */
static const eitp__jinja_value *eitp__jinja_macro_argument(const eitp__jinja_arguments *arguments, size_t index,
                                                           const eitp__jinja_node *parameter) {
    if (index < arguments->count)
        return &arguments->values[index];
    for (size_t i = 0; i < arguments->named_count; i++)
        if (arguments->named[i].size == parameter->size &&
            !memcmp(arguments->named[i].name, parameter->text, parameter->size))
            return &arguments->named[i].value;
    return NULL;
}

/* Sets the parameters of a macro in the innermost scope. */
static void eitp__jinja_bind_macro(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *macro,
                                   const eitp__jinja_arguments *arguments) {
    size_t index = 0, named = 0;
    for (const eitp__jinja_node *parameter = macro->first; parameter; parameter = parameter->next, index++) {
        const eitp__jinja_value *argument = eitp__jinja_macro_argument(arguments, index, parameter);
        const eitp__jinja_value value =
            argument           ? *argument
            : parameter->first ? eitp__jinja_evaluate(evaluator, parameter->first)
                               : eitp__jinja_undefined(EITP__JINJA_VARIABLE, parameter->text, parameter->size);
        named += argument && index >= arguments->count;
        eitp__jinja_assign(evaluator, parameter->text, parameter->size, &value);
    }
    if (arguments->count > index || arguments->named_count > named)
        eitp__jinja_fail(evaluator->jinja, EITP_ERROR_ARGUMENT, "macro '%.*s' does not take these arguments",
                         macro->size < 100 ? (int)macro->size : 100, macro->text);
}

/* Calls a macro, which prints. `caller` is the macro that a call block passes, or NULL. */
static void eitp__jinja_call_macro(eitp__jinja_evaluator *evaluator, const eitp__jinja_macro *macro,
                                   const eitp__jinja_arguments *arguments, const eitp__jinja_value *caller) {
    const eitp__jinja_value missing = eitp__jinja_undefined(EITP__JINJA_VARIABLE, "caller", 6);
    eitp__jinja_scope *outer = eitp__jinja_enter_scope(evaluator, macro->scope);
    if (!outer)
        return;
    eitp__jinja_bind_macro(evaluator, macro->node, arguments);
    if (macro->node->kind == EITP__JINJA_NODE_MACRO && macro->node->operation)
        eitp__jinja_assign(evaluator, "caller", 6, caller ? caller : &missing);
    else if (caller)
        eitp__jinja_fail(evaluator->jinja, EITP_ERROR_ARGUMENT, "the macro of a call block does not use 'caller'");
    evaluator->depth++;
    eitp__jinja_execute(evaluator, macro->node->body);
    evaluator->depth--;
    evaluator->scope = outer;
}

static eitp__jinja_value eitp__jinja_evaluate_call(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    eitp__jinja *jinja = evaluator->jinja;
    const eitp__jinja_value callee = eitp__jinja_evaluate(evaluator, node->first);
    const size_t mark = jinja->text.size;
    eitp__jinja_arguments arguments;
    if (!eitp__jinja_evaluate_arguments(evaluator, node->second, &arguments))
        return eitp__jinja_none();
    jinja->offset = node->offset;
    switch (callee.kind) {
    case EITP__JINJA_FUNCTION:
        return eitp__jinja_invoke(jinja, callee.as.function, &callee, &arguments);
    case EITP__JINJA_METHOD:
        return eitp__jinja_invoke(jinja, callee.as.method->function, &callee.as.method->self, &arguments);
    case EITP__JINJA_MACRO:
        evaluator->captures++;
        eitp__jinja_call_macro(evaluator, (const eitp__jinja_macro *)callee.as.macro, &arguments, NULL);
        evaluator->captures--;
        return eitp__jinja_finish_text(jinja, mark);
    case EITP__JINJA_UNDEFINED:
        return eitp__jinja_fail_undefined(jinja, &callee);
    default:
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "a value of type %s cannot be called",
                                eitp__jinja_type_name(&callee));
    }
}

/* Evaluates filters and tests. */
static eitp__jinja_value eitp__jinja_evaluate_function(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    const eitp__jinja_value value = eitp__jinja_evaluate(evaluator, node->first);
    eitp__jinja_arguments arguments;
    if (!eitp__jinja_evaluate_arguments(evaluator, node->second, &arguments))
        return value;
    evaluator->jinja->offset = node->offset;
    return eitp__jinja_invoke(evaluator->jinja, node->function, &value, &arguments);
}

/* ---- expressions ---- */

static eitp__jinja_value eitp__jinja_evaluate_constant(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    (void)evaluator;
    return node->value;
}

static eitp__jinja_value eitp__jinja_evaluate_captured(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    (void)node;
    return evaluator->captured;
}

static eitp__jinja_value eitp__jinja_evaluate_list(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    eitp__jinja_list *list = eitp__jinja_new_list(evaluator->jinja, 0);
    for (const eitp__jinja_node *item = node->first; item && evaluator->jinja->status == EITP_OK; item = item->next) {
        const eitp__jinja_value value = eitp__jinja_evaluate(evaluator, item);
        eitp__jinja_push(evaluator->jinja, list, &value);
    }
    return eitp__jinja_list_value(node->kind == EITP__JINJA_NODE_LIST ? EITP__JINJA_LIST : EITP__JINJA_TUPLE, list);
}

static eitp__jinja_value eitp__jinja_evaluate_dict(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    eitp__jinja_value made = eitp__jinja_none();
    eitp__jinja_dict *dict = eitp__jinja_new_dict(evaluator->jinja, 0);
    for (const eitp__jinja_node *item = node->first; item && evaluator->jinja->status == EITP_OK;
         item = item->next->next) {
        const eitp__jinja_value key = eitp__jinja_evaluate(evaluator, item);
        const eitp__jinja_value value = eitp__jinja_evaluate(evaluator, item->next);
        eitp__jinja_put(evaluator->jinja, dict, &key, &value);
    }
    if (dict) {
        made.kind = EITP__JINJA_DICT;
        made.as.dict = dict;
    }
    return made;
}

static eitp__jinja_value eitp__jinja_evaluate_chain(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    eitp__jinja_value value = eitp__jinja_evaluate(evaluator, node->first);
    for (const eitp__jinja_node *link = node->second; link && evaluator->jinja->status == EITP_OK; link = link->next) {
        const eitp__jinja_value right = eitp__jinja_evaluate(evaluator, link->first);
        evaluator->jinja->offset = link->offset;
        value = eitp__jinja_calculate(evaluator->jinja, link->operation, &value, &right);
    }
    return value;
}

static eitp__jinja_value eitp__jinja_evaluate_concat(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    const size_t mark = evaluator->jinja->text.size;
    for (const eitp__jinja_node *part = node->first; part && evaluator->jinja->status == EITP_OK; part = part->next) {
        const eitp__jinja_value value = eitp__jinja_evaluate(evaluator, part);
        eitp__jinja_print(evaluator->jinja, &value);
    }
    return eitp__jinja_finish_text(evaluator->jinja, mark);
}

static int eitp__jinja_compare(eitp__jinja *jinja, int operation, const eitp__jinja_value *a,
                               const eitp__jinja_value *b) {
    int order;
    switch (operation) {
    case EITP__JINJA_EQ:
        return eitp__jinja_equal(jinja, a, b);
    case EITP__JINJA_NE:
        return !eitp__jinja_equal(jinja, a, b);
    case EITP__JINJA_IN:
        return eitp__jinja_contains(jinja, b, a);
    case EITP__JINJA_NOT_IN:
        return !eitp__jinja_contains(jinja, b, a);
    default:
        break;
    }
    if ((a->kind == EITP__JINJA_FLOAT && isnan(a->as.number)) || (b->kind == EITP__JINJA_FLOAT && isnan(b->as.number)))
        return 0;
    order = eitp__jinja_order(jinja, a, b);
    return operation == EITP__JINJA_LT   ? order < 0
           : operation == EITP__JINJA_LE ? order <= 0
           : operation == EITP__JINJA_GT ? order > 0
                                         : order >= 0;
}

/* Evaluates a < b < c as a < b and b < c. */
static eitp__jinja_value eitp__jinja_evaluate_compare(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    eitp__jinja_value left = eitp__jinja_evaluate(evaluator, node->first);
    for (const eitp__jinja_node *link = node->second; link && evaluator->jinja->status == EITP_OK; link = link->next) {
        const eitp__jinja_value right = eitp__jinja_evaluate(evaluator, link->first);
        evaluator->jinja->offset = link->offset;
        if (!eitp__jinja_compare(evaluator->jinja, link->operation, &left, &right))
            return eitp__jinja_boolean(0);
        left = right;
    }
    return eitp__jinja_boolean(1);
}

/* Returns the first operand that decides, or the last one. */
static eitp__jinja_value eitp__jinja_evaluate_logic(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    const int decides = node->kind == EITP__JINJA_NODE_OR;
    eitp__jinja_value value = eitp__jinja_none();
    for (const eitp__jinja_node *operand = node->first; operand; operand = operand->next) {
        value = eitp__jinja_evaluate(evaluator, operand);
        if (evaluator->jinja->status != EITP_OK || eitp__jinja_is_true(&value) == decides)
            break;
    }
    return value;
}

static eitp__jinja_value eitp__jinja_evaluate_sign(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    const eitp__jinja_value value = eitp__jinja_evaluate(evaluator, node->first);
    const eitp__jinja_value zero = eitp__jinja_integer(0);
    evaluator->jinja->offset = node->offset;
    if (node->kind == EITP__JINJA_NODE_NOT)
        return eitp__jinja_boolean(!eitp__jinja_is_true(&value));
    if (node->kind == EITP__JINJA_NODE_NEGATE)
        return eitp__jinja_negate(evaluator->jinja, &value);
    return value.kind == EITP__JINJA_FLOAT ? value
                                           : eitp__jinja_calculate(evaluator->jinja, EITP__JINJA_ADD, &zero, &value);
}

static eitp__jinja_value eitp__jinja_evaluate_condition(eitp__jinja_evaluator *evaluator,
                                                        const eitp__jinja_node *node) {
    static const char message[] = "the condition is false, and there is no 'else'";
    const eitp__jinja_value condition = eitp__jinja_evaluate(evaluator, node->second);
    const eitp__jinja_node *chosen = eitp__jinja_is_true(&condition) ? node->first : node->third;
    if (!chosen)
        return eitp__jinja_undefined(EITP__JINJA_MESSAGE, message, sizeof message - 1);
    return eitp__jinja_evaluate(evaluator, chosen);
}

static eitp__jinja_value eitp__jinja_evaluate_attribute(eitp__jinja_evaluator *evaluator,
                                                        const eitp__jinja_node *node) {
    const eitp__jinja_value value = eitp__jinja_evaluate(evaluator, node->first);
    evaluator->jinja->offset = node->offset;
    return eitp__jinja_attribute(evaluator->jinja, &value, node->text, node->size);
}

static eitp__jinja_value eitp__jinja_evaluate_element(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    const eitp__jinja_value value = eitp__jinja_evaluate(evaluator, node->first);
    const eitp__jinja_value key = eitp__jinja_evaluate(evaluator, node->second);
    evaluator->jinja->offset = node->offset;
    return evaluator->jinja->status == EITP_OK ? eitp__jinja_element(evaluator->jinja, &value, &key) : value;
}

static eitp__jinja_value eitp__jinja_evaluate_slice(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    const eitp__jinja_value value = eitp__jinja_evaluate(evaluator, node->first);
    const eitp__jinja_node *bound = node->second;
    eitp__jinja_value bounds[3];
    memset(bounds, 0, sizeof bounds);
    for (int i = 0; i < 3; i++, bound = bound->next)
        if (bound->kind != EITP__JINJA_NODE_ABSENT)
            bounds[i] = eitp__jinja_evaluate(evaluator, bound);
    evaluator->jinja->offset = node->offset;
    return evaluator->jinja->status == EITP_OK ? eitp__jinja_slice(evaluator->jinja, &value, bounds) : value;
}

static eitp__jinja_value eitp__jinja_evaluate(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    static eitp__jinja_value (*const evaluate[EITP__JINJA_EXPRESSIONS])(eitp__jinja_evaluator *,
                                                                        const eitp__jinja_node *) = {
        eitp__jinja_evaluate_constant,  eitp__jinja_evaluate_name,     eitp__jinja_evaluate_captured,
        eitp__jinja_evaluate_list,      eitp__jinja_evaluate_list,     eitp__jinja_evaluate_dict,
        eitp__jinja_evaluate_chain,     eitp__jinja_evaluate_concat,   eitp__jinja_evaluate_compare,
        eitp__jinja_evaluate_logic,     eitp__jinja_evaluate_logic,    eitp__jinja_evaluate_sign,
        eitp__jinja_evaluate_sign,      eitp__jinja_evaluate_sign,     eitp__jinja_evaluate_condition,
        eitp__jinja_evaluate_attribute, eitp__jinja_evaluate_element,  eitp__jinja_evaluate_slice,
        eitp__jinja_evaluate_call,      eitp__jinja_evaluate_function, eitp__jinja_evaluate_function};
    eitp__jinja_value value;
    evaluator->jinja->offset = node->offset;
    if (!eitp__jinja_count_steps(evaluator->jinja, 1))
        return eitp__jinja_none();
    if (evaluator->depth >= EITP__JINJA_EVALUATE_DEPTH)
        return eitp__jinja_fail(evaluator->jinja, EITP_ERROR_ARGUMENT,
                                "the template nests calls and blocks deeper than %d", EITP__JINJA_EVALUATE_DEPTH);
    evaluator->depth++;
    value = evaluate[node->kind](evaluator, node);
    evaluator->depth--;
    return value;
}

/* ---- statements ---- */

static int eitp__jinja_execute_data(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    eitp__jinja_write(evaluator, node->text, node->size);
    return EITP__JINJA_DONE;
}

/* Prints a value. A macro call prints directly, so that the position of its output is known. */
static int eitp__jinja_execute_output(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    eitp__jinja *jinja = evaluator->jinja;
    const size_t mark = jinja->text.size;
    const eitp__jinja_node *called = node->first->kind == EITP__JINJA_NODE_CALL ? node->first->first : NULL;
    eitp__jinja_value value;
    if (called && called->kind == EITP__JINJA_NODE_NAME) {
        eitp__jinja_arguments arguments;
        value = eitp__jinja_evaluate(evaluator, called);
        if (value.kind == EITP__JINJA_MACRO) {
            if (eitp__jinja_evaluate_arguments(evaluator, node->first->second, &arguments)) {
                jinja->offset = node->offset;
                eitp__jinja_call_macro(evaluator, (const eitp__jinja_macro *)value.as.macro, &arguments, NULL);
            }
            return EITP__JINJA_DONE;
        }
    }
    value = eitp__jinja_evaluate(evaluator, node->first);
    if (jinja->status != EITP_OK)
        return EITP__JINJA_DONE;
    jinja->offset = node->offset;
    if (value.kind == EITP__JINJA_STRING) {
        eitp__jinja_write(evaluator, value.as.text, value.size);
        return EITP__JINJA_DONE;
    }
    eitp__jinja_print(jinja, &value);
    if (!evaluator->captures && jinja->status == EITP_OK) {
        eitp__jinja_write(evaluator, jinja->text.data ? jinja->text.data + mark : "", jinja->text.size - mark);
        jinja->text.size = mark;
    }
    return EITP__JINJA_DONE;
}

static int eitp__jinja_execute_if(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    for (; node && evaluator->jinja->status == EITP_OK; node = node->third) {
        const eitp__jinja_value condition =
            node->first ? eitp__jinja_evaluate(evaluator, node->first) : eitp__jinja_boolean(1);
        if (evaluator->jinja->status == EITP_OK && eitp__jinja_is_true(&condition))
            return eitp__jinja_execute(evaluator, node->second);
    }
    return EITP__JINJA_DONE;
}

/* Assigns a value to a name, or its elements to several names. */
static void eitp__jinja_assign_target(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *target,
                                      const eitp__jinja_value *value) {
    const eitp__jinja_list *list;
    size_t index = 0;
    if (target->kind == EITP__JINJA_NODE_NAME) {
        eitp__jinja_assign(evaluator, target->text, target->size, value);
        return;
    }
    list = eitp__jinja_iterate(evaluator->jinja, value);
    for (const eitp__jinja_node *name = target->first; list && name; name = name->next, index++)
        if (index < list->count)
            eitp__jinja_assign_target(evaluator, name, &list->items[index]);
    if (list && index != list->count)
        eitp__jinja_fail(evaluator->jinja, EITP_ERROR_ARGUMENT, "cannot assign %zu values to %zu names", list->count,
                         index);
}

static eitp__jinja_value eitp__jinja_loop_variable(eitp__jinja_loop *loop) {
    eitp__jinja_value value = eitp__jinja_none();
    value.kind = EITP__JINJA_LOOP;
    value.as.loop = loop;
    return value;
}

/* Returns the elements for which the condition of a loop is true. */
static const eitp__jinja_list *eitp__jinja_loop_elements(eitp__jinja_evaluator *evaluator,
                                                         const eitp__jinja_node *node) {
    const eitp__jinja_value iterable = eitp__jinja_evaluate(evaluator, node->second);
    const eitp__jinja_list *list;
    eitp__jinja_list *chosen;
    evaluator->jinja->offset = node->second->offset;
    list = eitp__jinja_iterate(evaluator->jinja, &iterable);
    if (!list || !node->third)
        return list;
    chosen = eitp__jinja_new_list(evaluator->jinja, 0);
    for (size_t i = 0; chosen && i < list->count && evaluator->jinja->status == EITP_OK; i++) {
        eitp__jinja_scope *outer = eitp__jinja_enter_scope(evaluator, evaluator->scope);
        eitp__jinja_value condition;
        if (!outer)
            break;
        eitp__jinja_assign_target(evaluator, node->first, &list->items[i]);
        condition = eitp__jinja_evaluate(evaluator, node->third);
        evaluator->scope = outer;
        if (eitp__jinja_is_true(&condition))
            eitp__jinja_push(evaluator->jinja, chosen, &list->items[i]);
    }
    return chosen;
}

/* Executes the body of a loop for one element, in its scope. */
static int eitp__jinja_iterate_body(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node,
                                    eitp__jinja_loop *loop) {
    const eitp__jinja_value *item = &loop->list->items[loop->index];
    const eitp__jinja_value variable = eitp__jinja_loop_variable(loop);
    const size_t message = eitp__jinja_message_of(item), outer = evaluator->message;
    const size_t mark = evaluator->jinja->text.size;
    int end;
    evaluator->scope->count = 0;
    eitp__jinja_assign(evaluator, "loop", 4, &variable);
    eitp__jinja_assign_target(evaluator, node->first, item);
    if (message != SIZE_MAX)
        eitp__jinja_switch_message(evaluator, message);
    end = eitp__jinja_execute(evaluator, node->body);
    eitp__jinja_switch_message(evaluator, outer);
    if (message != SIZE_MAX && evaluator->captures && evaluator->spans && evaluator->jinja->text.size > mark)
        evaluator->spans->hidden++;
    return end;
}

static int eitp__jinja_execute_for(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    const eitp__jinja_list *list = eitp__jinja_loop_elements(evaluator, node);
    eitp__jinja_loop *loop = list ? (eitp__jinja_loop *)eitp__jinja_allocate(evaluator->jinja, sizeof *loop) : NULL;
    eitp__jinja_scope *outer = loop ? eitp__jinja_enter_scope(evaluator, evaluator->scope) : NULL;
    int is_done = 0, end = EITP__JINJA_DONE;
    if (!outer)
        return EITP__JINJA_DONE;
    loop->list = list;
    loop->depth = 1;
    for (; loop->index < list->count && eitp__jinja_count_steps(evaluator->jinja, 1); loop->index++) {
        end = eitp__jinja_iterate_body(evaluator, node, loop);
        if (end == EITP__JINJA_BROKEN)
            break;
        is_done |= end == EITP__JINJA_DONE;
    }
    evaluator->scope = outer;
    /* As in jinja2, `else` runs if no iteration reached the end of the body. */
    if (node->other && !is_done && evaluator->jinja->status == EITP_OK) {
        outer = eitp__jinja_enter_scope(evaluator, evaluator->scope);
        if (!outer)
            return EITP__JINJA_DONE;
        end = eitp__jinja_execute(evaluator, node->other);
        evaluator->scope = outer;
        return end;
    }
    return EITP__JINJA_DONE;
}

static void eitp__jinja_assign_member(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *member,
                                      const eitp__jinja_value *value) {
    const eitp__jinja_value holder = eitp__jinja_evaluate_name(evaluator, member);
    const eitp__jinja_value key = eitp__jinja_string(member->second->text, member->second->size);
    evaluator->jinja->offset = member->offset;
    if (holder.kind != EITP__JINJA_NAMESPACE)
        eitp__jinja_fail(evaluator->jinja, EITP_ERROR_ARGUMENT,
                         "cannot assign an attribute of a value of type %s: it must be a namespace",
                         eitp__jinja_type_name(&holder));
    else if (key.as.text[0] == '_')
        eitp__jinja_fail(evaluator->jinja, EITP_ERROR_ARGUMENT, "names in a namespace must not start with '_'");
    else
        eitp__jinja_put(evaluator->jinja, holder.as.dict, &key, value);
}

static void eitp__jinja_set(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *target,
                            const eitp__jinja_value *value) {
    if (evaluator->jinja->status != EITP_OK)
        return;
    if (target->kind == EITP__JINJA_NODE_MEMBER)
        eitp__jinja_assign_member(evaluator, target, value);
    else
        eitp__jinja_assign_target(evaluator, target, value);
}

static int eitp__jinja_execute_set(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    const eitp__jinja_value value = eitp__jinja_evaluate(evaluator, node->second);
    evaluator->jinja->offset = node->offset;
    eitp__jinja_set(evaluator, node->first, &value);
    return EITP__JINJA_DONE;
}

/* Captures the output of a block, and applies its filters. */
static eitp__jinja_value eitp__jinja_filtered(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    evaluator->captured = eitp__jinja_capture(evaluator, node->body, evaluator->scope);
    return eitp__jinja_evaluate(evaluator, node->second);
}

static int eitp__jinja_execute_set_block(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    const eitp__jinja_value value = eitp__jinja_filtered(evaluator, node);
    eitp__jinja_set(evaluator, node->first, &value);
    return EITP__JINJA_DONE;
}

static int eitp__jinja_execute_filtered(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    const eitp__jinja_value value = eitp__jinja_filtered(evaluator, node);
    const eitp__jinja_value text = eitp__jinja_to_string(evaluator->jinja, &value);
    eitp__jinja_write(evaluator, text.as.text, text.size);
    return EITP__JINJA_DONE;
}

static int eitp__jinja_execute_with(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    eitp__jinja_scope *outer = evaluator->scope, *inner;
    int end;
    if (!eitp__jinja_enter_scope(evaluator, outer))
        return EITP__JINJA_DONE;
    inner = evaluator->scope;
    for (const eitp__jinja_node *set = node->first; set && evaluator->jinja->status == EITP_OK; set = set->next) {
        eitp__jinja_value value;
        evaluator->scope = outer; /* values cannot refer to the new names */
        value = eitp__jinja_evaluate(evaluator, set->second);
        evaluator->scope = inner;
        eitp__jinja_assign_target(evaluator, set->first, &value);
    }
    end = eitp__jinja_execute(evaluator, node->body);
    evaluator->scope = outer;
    return end;
}

/* Creates a macro that can access this scope. */
static eitp__jinja_value eitp__jinja_make_macro(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    eitp__jinja_macro *macro = (eitp__jinja_macro *)eitp__jinja_allocate(evaluator->jinja, sizeof *macro);
    eitp__jinja_value value = eitp__jinja_none();
    if (!macro)
        return value;
    macro->node = node;
    macro->scope = evaluator->scope;
    value.kind = EITP__JINJA_MACRO;
    value.as.macro = macro;
    return value;
}

static int eitp__jinja_execute_macro(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    const eitp__jinja_value macro = eitp__jinja_make_macro(evaluator, node);
    eitp__jinja_assign(evaluator, node->text, node->size, &macro);
    return EITP__JINJA_DONE;
}

static int eitp__jinja_execute_call_block(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    const eitp__jinja_value caller = eitp__jinja_make_macro(evaluator, node);
    const eitp__jinja_value callee = eitp__jinja_evaluate(evaluator, node->second->first);
    eitp__jinja_arguments arguments;
    if (!eitp__jinja_evaluate_arguments(evaluator, node->second->second, &arguments))
        return EITP__JINJA_DONE;
    evaluator->jinja->offset = node->offset;
    if (callee.kind == EITP__JINJA_MACRO)
        eitp__jinja_call_macro(evaluator, (const eitp__jinja_macro *)callee.as.macro, &arguments, &caller);
    else if (callee.kind == EITP__JINJA_UNDEFINED)
        eitp__jinja_fail_undefined(evaluator->jinja, &callee);
    else
        eitp__jinja_fail(evaluator->jinja, EITP_ERROR_UNSUPPORTED, "unsupported call block: it does not call a macro");
    return EITP__JINJA_DONE;
}

static int eitp__jinja_execute_generation(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    const size_t begin = eitp__jinja_written(evaluator);
    eitp__jinja_scope *outer = eitp__jinja_enter_scope(evaluator, evaluator->scope);
    if (!outer)
        return EITP__JINJA_DONE;
    eitp__jinja_execute(evaluator, node->body);
    evaluator->scope = outer;
    if (!evaluator->captures)
        eitp__jinja_add_span(evaluator, EITP__CHAT_SPAN_GENERATION, evaluator->message, begin);
    else if (evaluator->spans)
        evaluator->spans->hidden++;
    return EITP__JINJA_DONE;
}

static int eitp__jinja_execute_jump(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *node) {
    (void)evaluator;
    return node->kind == EITP__JINJA_NODE_BREAK ? EITP__JINJA_BROKEN : EITP__JINJA_CONTINUED;
}

/* Executes statements until one of them leaves the iteration. */
static int eitp__jinja_execute(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *statements) {
    static int (*const execute[])(eitp__jinja_evaluator *, const eitp__jinja_node *) = {
        eitp__jinja_execute_data,       eitp__jinja_execute_output,     eitp__jinja_execute_if,
        eitp__jinja_execute_for,        eitp__jinja_execute_set,        eitp__jinja_execute_set_block,
        eitp__jinja_execute_filtered,   eitp__jinja_execute_with,       eitp__jinja_execute_macro,
        eitp__jinja_execute_call_block, eitp__jinja_execute_generation, eitp__jinja_execute_jump,
        eitp__jinja_execute_jump};
    int end = EITP__JINJA_DONE;
    if (evaluator->depth >= EITP__JINJA_EVALUATE_DEPTH) {
        eitp__jinja_fail(evaluator->jinja, EITP_ERROR_ARGUMENT, "the template nests calls and blocks deeper than %d",
                         EITP__JINJA_EVALUATE_DEPTH);
        return end;
    }
    evaluator->depth++;
    for (; statements && end == EITP__JINJA_DONE; statements = statements->next) {
        evaluator->jinja->offset = statements->offset;
        if (!eitp__jinja_count_steps(evaluator->jinja, 1))
            break;
        end = execute[statements->kind - EITP__JINJA_NODE_DATA](evaluator, statements);
    }
    evaluator->depth--;
    return end;
}

EITP__PRIVATE void eitp__jinja_run(eitp__jinja_evaluator *evaluator, const eitp__jinja_node *statements) {
    eitp__jinja_execute(evaluator, statements);
    eitp__jinja_switch_message(evaluator, SIZE_MAX);
}
