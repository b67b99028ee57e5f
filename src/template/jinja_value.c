#include "template/jinja_value.h"

#include "base/status.h"
#include "base/unicode.h"
#include "template/jinja_lexer.h"

EITP__PRIVATE eitp__jinja_value eitp__jinja_fail(eitp__jinja *jinja, eitp_status status, const char *format, ...) {
    if (jinja->status == EITP_OK) {
        char message[512];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(message, sizeof message, format, arguments);
        va_end(arguments);
        jinja->status = eitp__jinja_fail_at(jinja->error, status, jinja->source, jinja->offset, "%s", message);
    }
    return eitp__jinja_undefined(EITP__JINJA_VARIABLE, "", 0);
}

EITP__PRIVATE int eitp__jinja_count_steps(eitp__jinja *jinja, size_t steps) {
    if ((uint64_t)steps > (uint64_t)EITP__JINJA_STEPS)
        steps = EITP__JINJA_STEPS;
    jinja->steps += (int64_t)steps;
    if (jinja->steps > EITP__JINJA_STEPS)
        eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "the template takes more than %d steps", EITP__JINJA_STEPS);
    return jinja->status == EITP_OK;
}

EITP__PRIVATE void *eitp__jinja_allocate(eitp__jinja *jinja, size_t size) {
    char limit[32];
    void *memory = jinja->status == EITP_OK ? eitp__jinja_memory_allocate(&jinja->memory, size) : NULL;
    if (memory || jinja->status != EITP_OK)
        return memory;
    if (!jinja->memory.is_exceeded)
        eitp__jinja_fail(jinja, EITP_ERROR_MEMORY, "cannot allocate memory for values");
    else
        eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "values need more than %s of memory",
                         eitp_format_bytes(jinja->memory.limit, limit, sizeof limit));
    return NULL;
}

EITP__PRIVATE void eitp__jinja_add(eitp__jinja *jinja, const char *text, size_t size) {
    if (!eitp__jinja_count_steps(jinja, size / 64))
        return;
    if (size > jinja->text_limit - jinja->text.size) {
        eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "a string exceeds the limit of %zu bytes", jinja->text_limit);
        return;
    }
    eitp__buffer_add(&jinja->text, text, size);
    if (jinja->text.failed)
        eitp__jinja_fail(jinja, EITP_ERROR_MEMORY, "cannot allocate memory for a string");
}

EITP__PRIVATE void eitp__jinja_add_text(eitp__jinja *jinja, const char *text) {
    eitp__jinja_add(jinja, text, strlen(text));
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_finish_text(eitp__jinja *jinja, size_t mark) {
    const size_t size = jinja->status == EITP_OK ? jinja->text.size - mark : 0;
    char *copy = size ? (char *)eitp__jinja_allocate(jinja, size) : NULL;
    if (!copy)
        return eitp__jinja_string("", 0);
    memcpy(copy, jinja->text.data + mark, size);
    jinja->text.size = mark;
    return eitp__jinja_string(copy, size);
}

/* ---- making values ---- */

static eitp__jinja_value eitp__jinja_of_kind(int kind) {
    eitp__jinja_value value;
    memset(&value, 0, sizeof value);
    value.kind = kind;
    return value;
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_none(void) {
    return eitp__jinja_of_kind(EITP__JINJA_NONE);
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_boolean(int value) {
    eitp__jinja_value made = eitp__jinja_of_kind(EITP__JINJA_BOOLEAN);
    made.as.integer = value != 0;
    return made;
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_integer(int64_t value) {
    eitp__jinja_value made = eitp__jinja_of_kind(EITP__JINJA_INTEGER);
    made.as.integer = value;
    return made;
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_float(double value) {
    eitp__jinja_value made = eitp__jinja_of_kind(EITP__JINJA_FLOAT);
    made.as.number = value;
    return made;
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_string(const char *text, size_t size) {
    eitp__jinja_value made = eitp__jinja_of_kind(EITP__JINJA_STRING);
    made.as.text = text;
    made.size = size;
    return made;
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_list_value(int kind, eitp__jinja_list *list) {
    eitp__jinja_value made = eitp__jinja_of_kind(list ? kind : EITP__JINJA_UNDEFINED);
    if (list)
        made.as.list = list;
    else
        made.as.text = "";
    return made;
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_undefined(int detail, const char *text, size_t size) {
    eitp__jinja_value made = eitp__jinja_of_kind(EITP__JINJA_UNDEFINED);
    made.detail = detail;
    made.as.text = text;
    made.size = size;
    return made;
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_fail_undefined(eitp__jinja *jinja, const eitp__jinja_value *value) {
    const int size = value->size < 200 ? (int)value->size : 200;
    eitp__jinja_value parent;
    if (value->detail == EITP__JINJA_VARIABLE)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "'%.*s' is undefined", size, value->as.text);
    if (value->detail == EITP__JINJA_MESSAGE)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "%.*s", size, value->as.text);
    if (value->detail == EITP__JINJA_UNSAFE)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "access to attribute '%.*s' is unsafe", size,
                                value->as.text);
    parent = eitp__jinja_of_kind(value->detail - EITP__JINJA_OF);
    return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "a value of type %s has no attribute '%.*s'",
                            eitp__jinja_type_name(&parent), size, value->as.text);
}

EITP__PRIVATE eitp__jinja_list *eitp__jinja_new_list(eitp__jinja *jinja, size_t capacity) {
    eitp__jinja_list *list = (eitp__jinja_list *)eitp__jinja_allocate(jinja, sizeof *list);
    size_t bytes;
    if (list)
        list->depth = 1;
    if (!list || !capacity)
        return list;
    if (!eitp__multiply_size(capacity, sizeof *list->items, &bytes))
        bytes = SIZE_MAX / 2;
    list->items = (eitp__jinja_value *)eitp__jinja_allocate(jinja, bytes);
    list->capacity = capacity;
    return list->items ? list : NULL;
}

EITP__PRIVATE eitp__jinja_dict *eitp__jinja_new_dict(eitp__jinja *jinja, size_t capacity) {
    eitp__jinja_dict *dict = (eitp__jinja_dict *)eitp__jinja_allocate(jinja, sizeof *dict);
    if (dict)
        dict->depth = 1;
    if (!dict || !capacity)
        return dict;
    dict->entries = (eitp__jinja_entry *)eitp__jinja_allocate(jinja, capacity * sizeof *dict->entries);
    dict->capacity = capacity;
    return dict->entries ? dict : NULL;
}

/* Updates the depth of a container that gets this value. */
static void eitp__jinja_deepen(eitp__jinja *jinja, int *depth, const eitp__jinja_value *value) {
    int inner = 0;
    if (eitp__jinja_is_sequence(value->kind))
        inner = value->as.list->depth;
    else if (value->kind == EITP__JINJA_DICT)
        inner = value->as.dict->depth;
    if (*depth <= inner)
        *depth = inner + 1;
    if (*depth > EITP__JINJA_VALUE_DEPTH)
        eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "values are nested deeper than %d", EITP__JINJA_VALUE_DEPTH);
}

/* Returns a larger copy of an array of the rendering, or NULL after a failure. */
static void *eitp__jinja_grow(eitp__jinja *jinja, const void *items, size_t count, size_t *capacity, size_t size) {
    const size_t grown = *capacity < 4 ? 4 : *capacity * 2;
    void *memory = eitp__jinja_allocate(jinja, grown * size);
    if (!memory)
        return NULL;
    if (count)
        memcpy(memory, items, count * size);
    *capacity = grown;
    return memory;
}

EITP__PRIVATE void eitp__jinja_push(eitp__jinja *jinja, eitp__jinja_list *list, const eitp__jinja_value *value) {
    if (!list || !eitp__jinja_count_steps(jinja, 1))
        return;
    if (list->count == list->capacity) {
        void *grown = eitp__jinja_grow(jinja, list->items, list->count, &list->capacity, sizeof *list->items);
        if (!grown)
            return;
        list->items = (eitp__jinja_value *)grown;
    }
    list->items[list->count++] = *value;
    eitp__jinja_deepen(jinja, &list->depth, value);
}

/* Appends an entry. The key must be new. */
static void eitp__jinja_append_entry(eitp__jinja *jinja, eitp__jinja_dict *dict, const eitp__jinja_value *key,
                                     const eitp__jinja_value *value) {
    if (dict->count == dict->capacity) {
        void *grown = eitp__jinja_grow(jinja, dict->entries, dict->count, &dict->capacity, sizeof *dict->entries);
        if (!grown)
            return;
        dict->entries = (eitp__jinja_entry *)grown;
    }
    dict->entries[dict->count].key = *key;
    dict->entries[dict->count++].value = *value;
    eitp__jinja_deepen(jinja, &dict->depth, value);
}

EITP__PRIVATE void eitp__jinja_put(eitp__jinja *jinja, eitp__jinja_dict *dict, const eitp__jinja_value *key,
                                   const eitp__jinja_value *value) {
    const eitp__jinja_value *found = dict ? eitp__jinja_find(jinja, dict, key) : NULL;
    if (!dict || jinja->status != EITP_OK)
        return;
    if (!found) {
        eitp__jinja_append_entry(jinja, dict, key, value);
        return;
    }
    for (size_t i = 0; i < dict->count; i++)
        if (&dict->entries[i].value == found)
            dict->entries[i].value = *value;
    eitp__jinja_deepen(jinja, &dict->depth, value);
}

static eitp__jinja_value eitp__jinja_number_from_json(const eitp_json *json) {
    eitp__jinja_value value;
    if (json->is_integer)
        return eitp__jinja_integer(json->integer);
    if (json->text && !memchr(json->text, '.', json->text_size) && !memchr(json->text, 'e', json->text_size) &&
        !memchr(json->text, 'E', json->text_size)) {
        value = eitp__jinja_string(json->text, json->text_size);
        value.kind = EITP__JINJA_BIG;
        return value;
    }
    return eitp__jinja_float(json->number);
}

static eitp__jinja_value eitp__jinja_container_from_json(eitp__jinja *jinja, const eitp_json *json) {
    const int is_array = json->kind == EITP_JSON_ARRAY;
    eitp__jinja_list *list = is_array ? eitp__jinja_new_list(jinja, json->count) : NULL;
    eitp__jinja_dict *dict = is_array ? NULL : eitp__jinja_new_dict(jinja, json->count);
    eitp__jinja_value value;
    for (const eitp_json *child = json->first_child; child && jinja->status == EITP_OK; child = child->next) {
        value = eitp__jinja_from_json(jinja, child);
        if (list) {
            eitp__jinja_push(jinja, list, &value);
        } else if (dict) {
            const eitp__jinja_value key = eitp__jinja_string(child->name, child->name_size);
            eitp__jinja_append_entry(jinja, dict, &key, &value); /* the names in an object are distinct */
        }
    }
    if (is_array)
        return eitp__jinja_list_value(EITP__JINJA_LIST, list);
    if (!dict)
        return eitp__jinja_undefined(EITP__JINJA_VARIABLE, "", 0);
    value = eitp__jinja_of_kind(EITP__JINJA_DICT);
    value.as.dict = dict;
    return value;
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_from_json(eitp__jinja *jinja, const eitp_json *json) {
    switch (json->kind) {
    case EITP_JSON_BOOLEAN:
        return eitp__jinja_boolean(json->boolean);
    case EITP_JSON_NUMBER:
        return eitp__jinja_number_from_json(json);
    case EITP_JSON_STRING:
        return eitp__jinja_string(json->text, json->text_size);
    case EITP_JSON_ARRAY:
    case EITP_JSON_OBJECT:
        return eitp__jinja_container_from_json(jinja, json);
    case EITP_JSON_NULL:
    default:
        return eitp__jinja_none();
    }
}

/* ---- reading values ---- */

EITP__PRIVATE const char *eitp__jinja_type_name(const eitp__jinja_value *value) {
    static const char *const names[EITP__JINJA_KINDS] = {
        "undefined", "undefined", "None",      "bool", "int",       "int",   "float",    "str",    "list", "tuple",
        "range",     "dict view", "generator", "dict", "namespace", "macro", "function", "method", "loop"};
    return names[value->kind];
}

EITP__PRIVATE int eitp__jinja_is_sequence(int kind) {
    return kind >= EITP__JINJA_LIST && kind <= EITP__JINJA_GENERATOR;
}

EITP__PRIVATE int eitp__jinja_is_true(const eitp__jinja_value *value) {
    switch (value->kind) {
    case EITP__JINJA_MISSING:
    case EITP__JINJA_UNDEFINED:
    case EITP__JINJA_NONE:
        return 0;
    case EITP__JINJA_BOOLEAN:
    case EITP__JINJA_INTEGER:
        return value->as.integer != 0;
    case EITP__JINJA_FLOAT:
        return value->as.number != 0 || isnan(value->as.number);
    case EITP__JINJA_STRING:
        return value->size != 0;
    case EITP__JINJA_LIST:
    case EITP__JINJA_TUPLE:
    case EITP__JINJA_RANGE_VALUE:
    case EITP__JINJA_VIEW:
        return value->as.list->count != 0;
    case EITP__JINJA_DICT:
        return value->as.dict->count != 0;
    default:
        return 1;
    }
}

EITP__PRIVATE int eitp__jinja_to_integer(const eitp__jinja_value *value, int64_t *integer) {
    if (value->kind != EITP__JINJA_INTEGER && value->kind != EITP__JINJA_BOOLEAN)
        return 0;
    *integer = value->as.integer;
    return 1;
}

EITP__PRIVATE int eitp__jinja_to_number(const eitp__jinja_value *value, double *number) {
    int64_t integer;
    if (eitp__jinja_to_integer(value, &integer))
        *number = (double)integer;
    else if (value->kind == EITP__JINJA_FLOAT)
        *number = value->as.number;
    else
        return 0;
    return 1;
}

static int eitp__jinja_equal_text(eitp__jinja *jinja, const eitp__jinja_value *a, const eitp__jinja_value *b) {
    return a->size == b->size && eitp__jinja_count_steps(jinja, a->size / 64) &&
           (a->as.text == b->as.text || !memcmp(a->as.text, b->as.text, a->size));
}

static int eitp__jinja_equal_lists(eitp__jinja *jinja, const eitp__jinja_list *a, const eitp__jinja_list *b) {
    if (a == b)
        return 1;
    if (a->count != b->count)
        return 0;
    for (size_t i = 0; i < a->count; i++)
        if (!eitp__jinja_count_steps(jinja, 1) || !eitp__jinja_equal(jinja, &a->items[i], &b->items[i]))
            return 0;
    return 1;
}

static int eitp__jinja_equal_dicts(eitp__jinja *jinja, const eitp__jinja_dict *a, const eitp__jinja_dict *b) {
    if (a == b)
        return 1;
    if (a->count != b->count)
        return 0;
    for (size_t i = 0; i < a->count; i++) {
        const eitp__jinja_value *other = eitp__jinja_find(jinja, b, &a->entries[i].key);
        if (!other || !eitp__jinja_equal(jinja, &a->entries[i].value, other))
            return 0;
    }
    return 1;
}

EITP__PRIVATE int eitp__jinja_equal(eitp__jinja *jinja, const eitp__jinja_value *a, const eitp__jinja_value *b) {
    double left, right;
    int64_t first, second;
    if (eitp__jinja_to_integer(a, &first) && eitp__jinja_to_integer(b, &second))
        return first == second;
    if (eitp__jinja_to_number(a, &left) && eitp__jinja_to_number(b, &right))
        return left == right;
    if (a->kind != b->kind)
        return 0;
    switch (a->kind) {
    case EITP__JINJA_UNDEFINED:
    case EITP__JINJA_NONE:
        return 1;
    case EITP__JINJA_STRING:
    case EITP__JINJA_BIG:
        return eitp__jinja_equal_text(jinja, a, b);
    case EITP__JINJA_LIST:
    case EITP__JINJA_TUPLE:
    case EITP__JINJA_RANGE_VALUE:
        return eitp__jinja_equal_lists(jinja, a->as.list, b->as.list);
    case EITP__JINJA_DICT:
        return eitp__jinja_equal_dicts(jinja, a->as.dict, b->as.dict);
    default:
        return a->as.macro == b->as.macro;
    }
}

static int eitp__jinja_order_text(eitp__jinja *jinja, const eitp__jinja_value *a, const eitp__jinja_value *b) {
    const size_t size = a->size < b->size ? a->size : b->size;
    /* UTF-8 sorts in the order of code points. */
    int order = size && eitp__jinja_count_steps(jinja, size / 64) ? memcmp(a->as.text, b->as.text, size) : 0;
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

static int eitp__jinja_order_lists(eitp__jinja *jinja, const eitp__jinja_list *a, const eitp__jinja_list *b) {
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        if (!eitp__jinja_count_steps(jinja, 1))
            return 0;
        if (!eitp__jinja_equal(jinja, &a->items[i], &b->items[i]))
            return eitp__jinja_order(jinja, &a->items[i], &b->items[i]);
    }
    return (a->count > b->count) - (a->count < b->count);
}

EITP__PRIVATE int eitp__jinja_order(eitp__jinja *jinja, const eitp__jinja_value *a, const eitp__jinja_value *b) {
    double left, right;
    int64_t first, second;
    if (eitp__jinja_to_integer(a, &first) && eitp__jinja_to_integer(b, &second))
        return (first > second) - (first < second);
    if (eitp__jinja_to_number(a, &left) && eitp__jinja_to_number(b, &right))
        return (left > right) - (left < right);
    if (a->kind == EITP__JINJA_UNDEFINED)
        eitp__jinja_fail_undefined(jinja, a);
    else if (b->kind == EITP__JINJA_UNDEFINED)
        eitp__jinja_fail_undefined(jinja, b);
    else if (a->kind == b->kind && a->kind == EITP__JINJA_STRING)
        return eitp__jinja_order_text(jinja, a, b);
    else if (a->kind == b->kind && (a->kind == EITP__JINJA_LIST || a->kind == EITP__JINJA_TUPLE))
        return eitp__jinja_order_lists(jinja, a->as.list, b->as.list);
    else
        eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "values of types %s and %s cannot be ordered",
                         eitp__jinja_type_name(a), eitp__jinja_type_name(b));
    return 0;
}

EITP__PRIVATE const eitp__jinja_value *eitp__jinja_find(eitp__jinja *jinja, const eitp__jinja_dict *dict,
                                                        const eitp__jinja_value *key) {
    if (key->kind == EITP__JINJA_LIST || key->kind == EITP__JINJA_DICT) {
        eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "a value of type %s cannot be a key", eitp__jinja_type_name(key));
        return NULL;
    }
    for (size_t i = 0; i < dict->count; i++) {
        if (i % 8 == 7 && !eitp__jinja_count_steps(jinja, 1))
            return NULL;
        if (eitp__jinja_equal(jinja, &dict->entries[i].key, key))
            return &dict->entries[i].value;
    }
    return NULL;
}

static const eitp__jinja_list *eitp__jinja_characters(eitp__jinja *jinja, const eitp__jinja_value *text) {
    eitp__jinja_list *list = eitp__jinja_new_list(jinja, eitp__utf8_count(text->as.text, text->size));
    for (size_t at = 0; at < text->size && jinja->status == EITP_OK;) {
        uint32_t code_point;
        int valid;
        const size_t size =
            eitp__utf8_next((const unsigned char *)text->as.text + at, text->size - at, &code_point, &valid);
        const eitp__jinja_value character = eitp__jinja_string(text->as.text + at, size);
        eitp__jinja_push(jinja, list, &character);
        at += size;
    }
    return list;
}

static const eitp__jinja_list *eitp__jinja_keys(eitp__jinja *jinja, const eitp__jinja_dict *dict) {
    eitp__jinja_list *list = eitp__jinja_new_list(jinja, dict->count);
    for (size_t i = 0; i < dict->count; i++)
        eitp__jinja_push(jinja, list, &dict->entries[i].key);
    return list;
}

EITP__PRIVATE const eitp__jinja_list *eitp__jinja_iterate(eitp__jinja *jinja, const eitp__jinja_value *value) {
    if (jinja->status != EITP_OK)
        return NULL;
    if (value->kind == EITP__JINJA_GENERATOR) {
        if (value->as.list->is_read)
            return eitp__jinja_new_list(jinja, 0);
        value->as.list->is_read = 1;
    }
    if (eitp__jinja_is_sequence(value->kind))
        return value->as.list;
    if (value->kind == EITP__JINJA_STRING)
        return eitp__jinja_characters(jinja, value);
    if (value->kind == EITP__JINJA_DICT)
        return eitp__jinja_keys(jinja, value->as.dict);
    if (value->kind == EITP__JINJA_UNDEFINED)
        return eitp__jinja_new_list(jinja, 0);
    eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "a value of type %s cannot be iterated over",
                     eitp__jinja_type_name(value));
    return NULL;
}

static int eitp__jinja_contains_text(eitp__jinja *jinja, const eitp__jinja_value *text, const eitp__jinja_value *part) {
    if (!eitp__jinja_count_steps(jinja, text->size / 64))
        return 0;
    for (size_t at = 0; at + part->size <= text->size; at++)
        if (!part->size || (text->as.text[at] == part->as.text[0] && eitp__jinja_count_steps(jinja, part->size / 64) &&
                            !memcmp(text->as.text + at, part->as.text, part->size)))
            return 1;
    return 0;
}

EITP__PRIVATE int eitp__jinja_contains(eitp__jinja *jinja, const eitp__jinja_value *container,
                                       const eitp__jinja_value *value) {
    const eitp__jinja_list *list;
    if (container->kind == EITP__JINJA_DICT)
        return eitp__jinja_find(jinja, container->as.dict, value) != NULL;
    if (container->kind == EITP__JINJA_STRING) {
        if (value->kind == EITP__JINJA_STRING)
            return eitp__jinja_contains_text(jinja, container, value);
        eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "'in' of a string requires a string, not a value of type %s",
                         eitp__jinja_type_name(value));
        return 0;
    }
    list = eitp__jinja_iterate(jinja, container);
    for (size_t i = 0; list && i < list->count && eitp__jinja_count_steps(jinja, 1); i++)
        if (eitp__jinja_equal(jinja, &list->items[i], value))
            return 1;
    return 0;
}

/* ---- functions ---- */

EITP__PRIVATE const eitp__jinja_function *eitp__jinja_find_function(const eitp__jinja_function *functions, size_t count,
                                                                    const char *name, size_t size) {
    for (size_t i = 0; i < count; i++)
        if (strlen(functions[i].name) == size && !memcmp(functions[i].name, name, size))
            return &functions[i];
    return NULL;
}

/* Returns the index of a parameter, or -1 if not found. */
static int eitp__jinja_parameter(const char *parameters, const char *name, size_t size) {
    int index = 0;
    while (*parameters) {
        const size_t length = strcspn(parameters, " ");
        if (length == size && !memcmp(parameters, name, size))
            return index;
        parameters += length + (parameters[length] ? 1 : 0);
        index++;
    }
    return -1;
}

static size_t eitp__jinja_parameter_count(const char *parameters) {
    size_t count = *parameters ? 1 : 0;
    for (; *parameters; parameters++)
        count += *parameters == ' ';
    return count;
}

/* Assigns arguments to parameters. Returns 0 after a failure. */
static int eitp__jinja_bind(eitp__jinja *jinja, const eitp__jinja_function *function,
                            const eitp__jinja_arguments *arguments, eitp__jinja_value *slots) {
    const size_t most = eitp__jinja_parameter_count(function->parameters);
    if (arguments->count > most) {
        eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "'%s' takes at most %zu arguments, got %zu", function->name, most,
                         arguments->count);
        return 0;
    }
    for (size_t i = 0; i < arguments->count; i++)
        slots[i] = arguments->values[i];
    for (size_t i = 0; i < arguments->named_count; i++) {
        const eitp__jinja_named *named = &arguments->named[i];
        const int index = eitp__jinja_parameter(function->parameters, named->name, named->size);
        if (index < 0 || slots[index].kind != EITP__JINJA_MISSING) {
            eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "'%s' cannot take the argument '%.*s'", function->name,
                             named->size < 100 ? (int)named->size : 100, named->name);
            return 0;
        }
        slots[index] = named->value;
    }
    for (int i = 0; i < function->required; i++) {
        if (slots[i].kind == EITP__JINJA_MISSING) {
            eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "'%s' requires %d arguments", function->name,
                             function->required);
            return 0;
        }
    }
    return 1;
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_invoke(eitp__jinja *jinja, const eitp__jinja_function *function,
                                                   const eitp__jinja_value *self,
                                                   const eitp__jinja_arguments *arguments) {
    eitp__jinja_call call;
    eitp__jinja_value result = eitp__jinja_none();
    memset(&call, 0, sizeof call);
    call.self = *self;
    call.arguments = arguments;
    if (!eitp__jinja_count_steps(jinja, 1))
        return result;
    if (!function->call)
        return eitp__jinja_fail(jinja, EITP_ERROR_UNSUPPORTED, "unsupported method or function '%s'", function->name);
    if (!function->parameters || eitp__jinja_bind(jinja, function, arguments, call.slots))
        result = function->call(jinja, &call);
    /* cppcheck-suppress returnDanglingLifetime ; no function returns its call */
    return result;
}

EITP__PRIVATE int64_t eitp__jinja_integer_argument(eitp__jinja *jinja, const eitp__jinja_value *slot, int64_t missing) {
    int64_t value = missing;
    if (slot->kind != EITP__JINJA_MISSING && !eitp__jinja_to_integer(slot, &value))
        eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "expected an integer, got a value of type %s",
                         eitp__jinja_type_name(slot));
    return value;
}

EITP__PRIVATE int eitp__jinja_true_argument(const eitp__jinja_value *slot, int missing) {
    return slot->kind == EITP__JINJA_MISSING ? missing : eitp__jinja_is_true(slot);
}
