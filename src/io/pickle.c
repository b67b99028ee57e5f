#include "io/pickle.h"
#include "base/little_endian.h"
#include "base/unicode.h"

/*
 * A pickle (PEP 307, Python's pickletools) is a program for a stack machine. A state dict is
 *   OrderedDict(), {name: _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks), ...} set into it.
 * A storage is the persistent id ('storage', type, key, location, count). Objects are memoized on creation, with
 * ascending numbers, and fetched from the memo when they recur.
 */
#define EITP__PICKLE_MAX_DEPTH 65536 /* values on the stack; Python sets 1000 items of a dictionary at once */

/* Kinds of values. The letters make up the signatures of tuples. */
enum {
    EITP__PICKLE_MARK = '(',
    EITP__PICKLE_INTEGER = 'i',
    EITP__PICKLE_BOOLEAN = 'b',
    EITP__PICKLE_TEXT = 'x',
    EITP__PICKLE_GLOBAL = 'g',
    EITP__PICKLE_TUPLE = 't',
    EITP__PICKLE_DICTIONARY = 'd',
    EITP__PICKLE_STORAGE = 's',
    EITP__PICKLE_TENSOR = 'v'
};

/* A storage and a tensor are represented by their arguments: tuples whose items were checked. */
typedef struct eitp__pickle_value {
    int kind;
    int size;       /* bytes of a string; items of a tuple, or of the tuple of a storage's or tensor's arguments */
    int64_t number; /* an integer; the offset of a string; the index of a global or of a tuple's first item; 1: the
                       first dictionary of the pickle */
} eitp__pickle_value;

typedef struct eitp__pickle_values {
    eitp__pickle_value *at;
    size_t count, capacity;
} eitp__pickle_values;

typedef struct eitp__pickle {
    const eitp_host *host;
    char *bytes;
    size_t size;
    size_t next;           /* offset of the next byte to read */
    size_t texts, tensors; /* read so far */
    int has_dictionary, is_finished;
    eitp__pickle_values stack, memo, items; /* items: of all tuples */
    eitp__pickle_visitor visit;
    void *user;
} eitp__pickle;

/* The classes and functions that a pickle may name. */
static const struct {
    const char *module, *name;
    const char *type; /* of a storage's elements */
} eitp__pickle_globals[] = {
    {"collections", "OrderedDict", NULL},
    {"torch._utils", "_rebuild_tensor_v2", NULL},
    {"torch._utils", "_rebuild_parameter", NULL},
    {"torch", "FloatStorage", "F32"},
    {"torch", "HalfStorage", "F16"},
    {"torch", "BFloat16Storage", "BF16"},
    {"torch", "DoubleStorage", "F64"},
    {"torch", "LongStorage", "I64"},
    {"torch", "IntStorage", "I32"},
    {"torch", "ShortStorage", "I16"},
    {"torch", "CharStorage", "I8"},
    {"torch", "ByteStorage", "U8"},
    {"torch", "BoolStorage", "BOOL"},
};

/* Indices of the first globals. */
enum { EITP__PICKLE_ORDERED_DICT, EITP__PICKLE_REBUILD_TENSOR, EITP__PICKLE_REBUILD_PARAMETER };

/* ---- Values ---- */

static eitp_status eitp__pickle_fail(eitp_error *error, const char *what) {
    return eitp__fail(error, EITP_ERROR_FORMAT, "%s; this is not a pickle of torch.save", what);
}

static eitp_status eitp__pickle_append(const eitp__pickle *pickle, eitp__pickle_values *values,
                                       eitp__pickle_value value, eitp_error *error) {
    void *memory = values->at;
    if (!eitp__reserve(pickle->host, &memory, &values->capacity, values->count + 1, sizeof value))
        return eitp__fail_memory(error, (values->count + 1) * sizeof value, "the objects of a pickle");
    values->at = (eitp__pickle_value *)memory;
    values->at[values->count++] = value;
    return EITP_OK;
}

static eitp_status eitp__pickle_push(eitp__pickle *pickle, int kind, int size, int64_t number, eitp_error *error) {
    eitp__pickle_value value = EITP__ZERO;
    value.kind = kind;
    value.size = size;
    value.number = number;
    if (pickle->stack.count == EITP__PICKLE_MAX_DEPTH)
        return eitp__fail(error, EITP_ERROR_FORMAT, "more than %d values are on the stack", EITP__PICKLE_MAX_DEPTH);
    return eitp__pickle_append(pickle, &pickle->stack, value, error);
}

/* Pops the top value, which must not be a mark. */
static eitp_status eitp__pickle_pop(eitp__pickle *pickle, eitp__pickle_value *value, eitp_error *error) {
    const eitp__pickle_values *stack = &pickle->stack;
    if (!stack->count || stack->at[stack->count - 1].kind == EITP__PICKLE_MARK)
        return eitp__pickle_fail(error, "a value is missing on the stack");
    *value = stack->at[--pickle->stack.count];
    return EITP_OK;
}

/* Checks that the top value is a dictionary. */
static eitp_status eitp__pickle_check_dictionary(const eitp__pickle *pickle, eitp_error *error) {
    const eitp__pickle_values *stack = &pickle->stack;
    return stack->count && stack->at[stack->count - 1].kind == EITP__PICKLE_DICTIONARY
               ? EITP_OK
               : eitp__pickle_fail(error, "items or attributes of something that is not a dictionary");
}

/* Pops the top mark and the values above it, which stay in memory at stack.at[*first, *end). */
static eitp_status eitp__pickle_pop_mark(eitp__pickle *pickle, size_t *first, size_t *end, eitp_error *error) {
    const eitp__pickle_values *stack = &pickle->stack;
    size_t mark = *end = stack->count;
    while (mark && stack->at[mark - 1].kind != EITP__PICKLE_MARK)
        mark--;
    if (!mark)
        return eitp__pickle_fail(error, "a mark is missing on the stack");
    *first = mark;
    pickle->stack.count = mark - 1;
    return EITP_OK;
}

/* Pushes a tuple of stack.at[first, end), which were popped from the stack. */
static eitp_status eitp__pickle_push_tuple(eitp__pickle *pickle, size_t first, size_t end, eitp_error *error) {
    const size_t begin = pickle->items.count;
    eitp_status status = EITP_OK;
    for (size_t i = first; i < end && !status; i++)
        status = eitp__pickle_append(pickle, &pickle->items, pickle->stack.at[i], error);
    return status ? status : eitp__pickle_push(pickle, EITP__PICKLE_TUPLE, (int)(end - first), (int64_t)begin, error);
}

/* Returns the items of a tuple, or of the tuple of a storage's or tensor's arguments. */
static const eitp__pickle_value *eitp__pickle_items(const eitp__pickle *pickle, const eitp__pickle_value *tuple) {
    return tuple->size ? pickle->items.at + tuple->number : NULL;
}

/* True if the value is a tuple of items of these kinds. */
static int eitp__pickle_has_items(const eitp__pickle *pickle, const eitp__pickle_value *value, const char *kinds) {
    const eitp__pickle_value *items;
    if (value->kind != EITP__PICKLE_TUPLE || (size_t)value->size != strlen(kinds))
        return 0;
    items = eitp__pickle_items(pickle, value);
    for (int i = 0; i < value->size; i++) {
        if (items[i].kind != kinds[i])
            return 0;
    }
    return 1;
}

static const char *eitp__pickle_text(const eitp__pickle *pickle, const eitp__pickle_value *text) {
    return pickle->bytes + text->number;
}

/* ---- Tensors ---- */

/* Reads a tuple of non-negative numbers. */
static eitp_status eitp__pickle_read_sizes(const eitp__pickle *pickle, const eitp__pickle_value *tuple, int64_t *sizes,
                                           eitp_error *error) {
    const eitp__pickle_value *items = eitp__pickle_items(pickle, tuple);
    if (tuple->size > EITP_MAX_RANK)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "%d dimensions exceed the limit of %d", tuple->size,
                          EITP_MAX_RANK);
    for (int i = 0; i < tuple->size; i++) {
        if (items[i].kind != EITP__PICKLE_INTEGER || items[i].number < 0)
            return eitp__pickle_fail(error, "a tensor whose shape and stride are not numbers of 0 or more");
        sizes[i] = items[i].number;
    }
    return EITP_OK;
}

/* Describes the tensor given by arguments of _rebuild_tensor_v2. */
static eitp_status eitp__pickle_describe(const eitp__pickle *pickle, const eitp__pickle_value *arguments,
                                         eitp__pickle_tensor *tensor, eitp_error *error) {
    const eitp__pickle_value *items = eitp__pickle_items(pickle, arguments), *id;
    eitp_status status;
    memset(tensor, 0, sizeof *tensor);
    id = eitp__pickle_items(pickle, &items[0]);
    tensor->type = eitp__pickle_globals[id[1].number].type;
    tensor->key = eitp__pickle_text(pickle, &id[2]);
    tensor->storage_count = id[4].number;
    tensor->offset = items[1].number;
    tensor->rank = items[2].size;
    if (tensor->offset < 0 || items[3].size != items[2].size)
        return eitp__pickle_fail(error, "a tensor whose offset is negative, or whose shape and stride differ in rank");
    status = eitp__pickle_read_sizes(pickle, &items[2], tensor->shape, error);
    return status ? status : eitp__pickle_read_sizes(pickle, &items[3], tensor->stride, error);
}

/* Passes a dictionary's item to the visitor if the dictionary is the first one, the state dict. */
static eitp_status eitp__pickle_set_item(eitp__pickle *pickle, const eitp__pickle_value *dictionary,
                                         const eitp__pickle_value *key, const eitp__pickle_value *value,
                                         eitp_error *error) {
    eitp__pickle_tensor tensor;
    const char *name;
    eitp_status status;
    if (!dictionary->number)
        return EITP_OK;
    if (key->kind != EITP__PICKLE_TEXT)
        return eitp__pickle_fail(error, "a tensor whose name is not a string");
    name = eitp__pickle_text(pickle, key);
    if (strlen(name) != (size_t)key->size ||
        eitp__utf8_valid_prefix((const unsigned char *)name, (size_t)key->size) != (size_t)key->size)
        return eitp__fail(error, EITP_ERROR_FORMAT, "a tensor's name is not valid UTF-8, or contains U+0000");
    if (++pickle->tensors > pickle->texts) /* before memory is needed for all of them */
        return eitp__fail(error, EITP_ERROR_FORMAT, "a tensor's name occurs twice");
    if (value->kind != EITP__PICKLE_TENSOR)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "'%.100s' is not a tensor; save the model's state dict: torch.save(model.state_dict(), ...)",
                          name);
    status = eitp__pickle_describe(pickle, value, &tensor, error);
    return status ? status : pickle->visit(pickle->user, name, &tensor, error);
}

/* ---- Instructions ---- */

/* `argument` is the number after the instruction's code, `operand` the table's. */
typedef struct eitp__pickle_step {
    uint64_t argument;
    int operand;
} eitp__pickle_step;

static eitp_status eitp__pickle_do_protocol(eitp__pickle *pickle, const eitp__pickle_step *step, eitp_error *error) {
    if (pickle->next != 2)
        return eitp__pickle_fail(error, "a protocol within the pickle");
    if (step->argument != 2)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "pickle protocol %d (expected 2, torch.save's default)",
                          (int)step->argument);
    return EITP_OK;
}

static eitp_status eitp__pickle_do_mark(eitp__pickle *pickle, const eitp__pickle_step *step, eitp_error *error) {
    (void)step;
    return eitp__pickle_push(pickle, EITP__PICKLE_MARK, 0, 0, error);
}

/* Pushes an integer: signed with `operand` bits, or unsigned if `operand` is 0. */
static eitp_status eitp__pickle_do_integer(eitp__pickle *pickle, const eitp__pickle_step *step, eitp_error *error) {
    const int64_t number = step->operand ? (int64_t)(int32_t)(uint32_t)step->argument : (int64_t)step->argument;
    return eitp__pickle_push(pickle, EITP__PICKLE_INTEGER, 0, number, error);
}

/* Consumes the next bytes of the pickle. */
static eitp_status eitp__pickle_take(eitp__pickle *pickle, uint64_t size, char **bytes, eitp_error *error) {
    if (size > pickle->size - pickle->next)
        return eitp__pickle_fail(error, "the pickle ends within an instruction");
    *bytes = pickle->bytes + pickle->next;
    pickle->next += (size_t)size;
    return EITP_OK;
}

static eitp_status eitp__pickle_do_long(eitp__pickle *pickle, const eitp__pickle_step *step, eitp_error *error) {
    char *bytes = NULL;
    uint64_t number = 0;
    eitp_status status = eitp__pickle_take(pickle, step->argument, &bytes, error);
    if (status)
        return status;
    if (step->argument > 8)
        return eitp__pickle_fail(error, "a number of more than 64 bits");
    number = eitp__get_number((const unsigned char *)bytes, (size_t)step->argument);
    if (step->argument && step->argument < 8 && number >> (8 * step->argument - 1))
        number |= UINT64_MAX << 8 * step->argument;
    return eitp__pickle_push(pickle, EITP__PICKLE_INTEGER, 0, (int64_t)number, error);
}

static eitp_status eitp__pickle_do_boolean(eitp__pickle *pickle, const eitp__pickle_step *step, eitp_error *error) {
    return eitp__pickle_push(pickle, EITP__PICKLE_BOOLEAN, 0, step->operand, error);
}

static eitp_status eitp__pickle_do_text(eitp__pickle *pickle, const eitp__pickle_step *step, eitp_error *error) {
    char *bytes = NULL, *text;
    eitp_status status = eitp__pickle_take(pickle, step->argument, &bytes, error);
    if (status)
        return status;
    /* The string moves over the last byte of its length, which has been read, to make room for its zero byte. */
    text = bytes - 1;
    memmove(text, bytes, (size_t)step->argument);
    text[step->argument] = 0;
    pickle->texts++;
    return eitp__pickle_push(pickle, EITP__PICKLE_TEXT, (int)step->argument, text - pickle->bytes, error);
}

/* Consumes a line and ends it with a zero byte. */
static eitp_status eitp__pickle_take_line(eitp__pickle *pickle, char **line, eitp_error *error) {
    char *end = (char *)memchr(pickle->bytes + pickle->next, '\n', pickle->size - pickle->next);
    if (!end)
        return eitp__pickle_fail(error, "the pickle ends within an instruction");
    *line = pickle->bytes + pickle->next;
    *end = 0;
    pickle->next = (size_t)(end - pickle->bytes) + 1;
    return EITP_OK;
}

static eitp_status eitp__pickle_do_global(eitp__pickle *pickle, const eitp__pickle_step *step, eitp_error *error) {
    char *module = NULL, *name = NULL;
    eitp_status status = eitp__pickle_take_line(pickle, &module, error);
    (void)step;
    if (!status)
        status = eitp__pickle_take_line(pickle, &name, error);
    if (status)
        return status;
    for (size_t i = 0; i < EITP__COUNT(eitp__pickle_globals); i++) {
        if (!strcmp(eitp__pickle_globals[i].module, module) && !strcmp(eitp__pickle_globals[i].name, name))
            return eitp__pickle_push(pickle, EITP__PICKLE_GLOBAL, 0, (int64_t)i, error);
    }
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "refers to '%.100s.%.100s'; only a dict of plain tensors is read, because other objects can run "
                      "code: save it with torch.save(model.state_dict(), ...)",
                      module, name);
}

static eitp_status eitp__pickle_do_dictionary(eitp__pickle *pickle, const eitp__pickle_step *step, eitp_error *error) {
    const int is_first = !pickle->has_dictionary;
    (void)step;
    pickle->has_dictionary = 1;
    return eitp__pickle_push(pickle, EITP__PICKLE_DICTIONARY, 0, is_first, error);
}

/* Makes a tuple of the top `operand` values. */
static eitp_status eitp__pickle_do_tuple(eitp__pickle *pickle, const eitp__pickle_step *step, eitp_error *error) {
    const size_t count = (size_t)step->operand, end = pickle->stack.count;
    eitp__pickle_value ignored;
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = eitp__pickle_pop(pickle, &ignored, error);
    return status ? status : eitp__pickle_push_tuple(pickle, end - count, end, error);
}

static eitp_status eitp__pickle_do_tuple_of_marked(eitp__pickle *pickle, const eitp__pickle_step *step,
                                                   eitp_error *error) {
    size_t first, end;
    eitp_status status = eitp__pickle_pop_mark(pickle, &first, &end, error);
    (void)step;
    return status ? status : eitp__pickle_push_tuple(pickle, first, end, error);
}

static eitp_status eitp__pickle_do_put(eitp__pickle *pickle, const eitp__pickle_step *step, eitp_error *error) {
    eitp__pickle_value value = EITP__ZERO;
    eitp_status status = eitp__pickle_pop(pickle, &value, error);
    if (status)
        return status;
    pickle->stack.count++;
    if (step->argument > pickle->memo.count)
        return eitp__fail(error, EITP_ERROR_FORMAT, "memo %llu follows memo %zu; this is not a pickle of torch.save",
                          (unsigned long long)step->argument, pickle->memo.count);
    if (step->argument == pickle->memo.count)
        return eitp__pickle_append(pickle, &pickle->memo, value, error);
    pickle->memo.at[step->argument] = value;
    return EITP_OK;
}

static eitp_status eitp__pickle_do_get(eitp__pickle *pickle, const eitp__pickle_step *step, eitp_error *error) {
    eitp__pickle_value value;
    if (step->argument >= pickle->memo.count)
        return eitp__pickle_fail(error, "a memo that was not set");
    value = pickle->memo.at[step->argument];
    return eitp__pickle_push(pickle, value.kind, value.size, value.number, error);
}

static eitp_status eitp__pickle_do_storage(eitp__pickle *pickle, const eitp__pickle_step *step, eitp_error *error) {
    const eitp__pickle_value *items;
    eitp__pickle_value id = EITP__ZERO;
    eitp_status status = eitp__pickle_pop(pickle, &id, error);
    (void)step;
    if (status)
        return status;
    items = eitp__pickle_has_items(pickle, &id, "xgxxi") ? eitp__pickle_items(pickle, &id) : NULL;
    if (!items || strcmp(eitp__pickle_text(pickle, &items[0]), "storage") ||
        !eitp__pickle_globals[items[1].number].type || items[4].number < 0)
        return eitp__pickle_fail(error, "a persistent id that is not ('storage', type, key, location, count)");
    return eitp__pickle_push(pickle, EITP__PICKLE_STORAGE, id.size, id.number, error);
}

/* Calls a global with a tuple of arguments. */
static eitp_status eitp__pickle_do_call(eitp__pickle *pickle, const eitp__pickle_step *step, eitp_error *error) {
    eitp__pickle_value arguments = EITP__ZERO, callee = EITP__ZERO;
    eitp__pickle_tensor tensor;
    eitp_status status = eitp__pickle_pop(pickle, &arguments, error);
    if (!status)
        status = eitp__pickle_pop(pickle, &callee, error);
    if (status)
        return status;
    if (callee.kind == EITP__PICKLE_GLOBAL && callee.number == EITP__PICKLE_ORDERED_DICT &&
        eitp__pickle_has_items(pickle, &arguments, ""))
        return eitp__pickle_do_dictionary(pickle, step, error);
    if (callee.kind == EITP__PICKLE_GLOBAL && callee.number == EITP__PICKLE_REBUILD_TENSOR &&
        eitp__pickle_has_items(pickle, &arguments, "sittbd")) {
        status = eitp__pickle_describe(pickle, &arguments, &tensor, error);
        return status ? status
                      : eitp__pickle_push(pickle, EITP__PICKLE_TENSOR, arguments.size, arguments.number, error);
    }
    if (callee.kind == EITP__PICKLE_GLOBAL && callee.number == EITP__PICKLE_REBUILD_PARAMETER &&
        eitp__pickle_has_items(pickle, &arguments, "vbd")) {
        const eitp__pickle_value *data = eitp__pickle_items(pickle, &arguments);
        return eitp__pickle_push(pickle, data->kind, data->size, data->number, error);
    }
    return eitp__pickle_fail(error, "a call that does not make a plain tensor, a parameter or an empty OrderedDict");
}

static eitp_status eitp__pickle_do_set_item(eitp__pickle *pickle, const eitp__pickle_step *step, eitp_error *error) {
    eitp__pickle_value key = EITP__ZERO, value = EITP__ZERO;
    eitp_status status = eitp__pickle_pop(pickle, &value, error);
    (void)step;
    if (!status)
        status = eitp__pickle_pop(pickle, &key, error);
    if (!status)
        status = eitp__pickle_check_dictionary(pickle, error);
    return status ? status
                  : eitp__pickle_set_item(pickle, &pickle->stack.at[pickle->stack.count - 1], &key, &value, error);
}

static eitp_status eitp__pickle_do_set_items(eitp__pickle *pickle, const eitp__pickle_step *step, eitp_error *error) {
    const eitp__pickle_value *values;
    size_t first, end;
    eitp_status status = eitp__pickle_pop_mark(pickle, &first, &end, error);
    (void)step;
    if (!status)
        status = eitp__pickle_check_dictionary(pickle, error);
    if (!status && (end - first) % 2)
        status = eitp__pickle_fail(error, "a name without a value");
    values = pickle->stack.at;
    for (size_t i = first; i < end && !status; i += 2)
        status = eitp__pickle_set_item(pickle, &values[pickle->stack.count - 1], &values[i], &values[i + 1], error);
    return status;
}

/* Checks attributes of a dictionary, in which state dicts have the versions of modules. */
static eitp_status eitp__pickle_do_build(eitp__pickle *pickle, const eitp__pickle_step *step, eitp_error *error) {
    eitp__pickle_value attributes = EITP__ZERO;
    eitp_status status = eitp__pickle_pop(pickle, &attributes, error);
    (void)step;
    if (!status && attributes.kind != EITP__PICKLE_DICTIONARY)
        status = eitp__pickle_fail(error, "attributes that are not a dictionary");
    return status ? status : eitp__pickle_check_dictionary(pickle, error);
}

static eitp_status eitp__pickle_do_stop(eitp__pickle *pickle, const eitp__pickle_step *step, eitp_error *error) {
    const eitp__pickle_values *stack = &pickle->stack;
    (void)step;
    if (stack->count != 1 || stack->at[0].kind != EITP__PICKLE_DICTIONARY || !stack->at[0].number)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "the pickle is not a dict of tensors; save it with torch.save(model.state_dict(), ...)");
    if (pickle->next != pickle->size)
        return eitp__pickle_fail(error, "bytes follow the end of the pickle");
    pickle->is_finished = 1;
    return EITP_OK;
}

static const struct {
    unsigned char code;
    unsigned char argument; /* bytes of the number after it */
    int operand;
    eitp_status (*apply)(eitp__pickle *pickle, const eitp__pickle_step *step, eitp_error *error);
} eitp__pickle_instructions[] = {
    {0x80, 1, 0, eitp__pickle_do_protocol},  {'(', 0, 0, eitp__pickle_do_mark},
    {'K', 1, 0, eitp__pickle_do_integer},    {'M', 2, 0, eitp__pickle_do_integer},
    {'J', 4, 32, eitp__pickle_do_integer},   {0x8a, 1, 0, eitp__pickle_do_long},
    {0x88, 0, 1, eitp__pickle_do_boolean},   {0x89, 0, 0, eitp__pickle_do_boolean},
    {'X', 4, 0, eitp__pickle_do_text},       {'c', 0, 0, eitp__pickle_do_global},
    {'}', 0, 0, eitp__pickle_do_dictionary}, {')', 0, 0, eitp__pickle_do_tuple},
    {0x85, 0, 1, eitp__pickle_do_tuple},     {0x86, 0, 2, eitp__pickle_do_tuple},
    {0x87, 0, 3, eitp__pickle_do_tuple},     {'t', 0, 0, eitp__pickle_do_tuple_of_marked},
    {'q', 1, 0, eitp__pickle_do_put},        {'r', 4, 0, eitp__pickle_do_put},
    {'h', 1, 0, eitp__pickle_do_get},        {'j', 4, 0, eitp__pickle_do_get},
    {'Q', 0, 0, eitp__pickle_do_storage},    {'R', 0, 0, eitp__pickle_do_call},
    {'s', 0, 0, eitp__pickle_do_set_item},   {'u', 0, 0, eitp__pickle_do_set_items},
    {'b', 0, 0, eitp__pickle_do_build},      {'.', 0, 0, eitp__pickle_do_stop},
};

static eitp_status eitp__pickle_execute(eitp__pickle *pickle, eitp_error *error) {
    const unsigned char code = (unsigned char)pickle->bytes[pickle->next++];
    eitp__pickle_step step = EITP__ZERO;
    char *bytes = NULL;
    for (size_t i = 0; i < EITP__COUNT(eitp__pickle_instructions); i++) {
        eitp_status status;
        if (eitp__pickle_instructions[i].code != code)
            continue;
        status = eitp__pickle_take(pickle, eitp__pickle_instructions[i].argument, &bytes, error);
        if (status)
            return status;
        step.argument = eitp__get_number((const unsigned char *)bytes, eitp__pickle_instructions[i].argument);
        step.operand = eitp__pickle_instructions[i].operand;
        return eitp__pickle_instructions[i].apply(pickle, &step, error);
    }
    return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                      "instruction 0x%02x does not occur in a pickle of tensors; only a dict of plain tensors is read: "
                      "save it with torch.save(model.state_dict(), ...)",
                      code);
}

EITP__PRIVATE eitp_status eitp__pickle_read(const eitp_host *host, char *pickle, size_t size, uint64_t origin,
                                            eitp__pickle_visitor visit, void *user, eitp_error *error) {
    eitp__pickle machine = EITP__ZERO;
    eitp_status status = EITP_OK;
    size_t at = 0;
    machine.host = host;
    machine.bytes = pickle;
    machine.size = size;
    machine.visit = visit;
    machine.user = user;
    while (!machine.is_finished && !status) {
        at = machine.next;
        status = at < size ? eitp__pickle_execute(&machine, error)
                           : eitp__pickle_fail(error, "the pickle ends without its last instruction");
    }
    eitp__release(host, machine.stack.at, machine.stack.capacity * sizeof *machine.stack.at);
    eitp__release(host, machine.memo.at, machine.memo.capacity * sizeof *machine.memo.at);
    eitp__release(host, machine.items.at, machine.items.capacity * sizeof *machine.items.at);
    return status ? eitp__fail_prefix(error, status, "byte %llu", (unsigned long long)(origin + at)) : EITP_OK;
}
