#include "base/json.h"
#include "base/files.h"
#include "base/sort.h"
#include "base/unicode.h"

#include <float.h>

#define EITP__JSON_DEPTH 64
#define EITP__JSON_LARGEST_BLOCK ((size_t)1024)

/* Values are allocated in blocks: few allocations, and pointers stay valid. */
typedef struct eitp__json_block {
    struct eitp__json_block *next;
    size_t capacity;
    size_t used;
} eitp__json_block;

struct eitp_json_document {
    eitp_host host;
    eitp_json *root;
    eitp__json_block *blocks; /* the newest first */
    char *text;               /* all strings, names and numbers, each with its zero byte: never larger than the input */
    size_t text_capacity;
};

/* Sort key for finding duplicate names. */
typedef struct eitp__json_key {
    uint64_t hash;
    const eitp_json *member;
} eitp__json_key;

typedef struct eitp__json_parser {
    eitp_json_document *document;
    const char *start;
    const char *at;
    const char *end;
    const char *line_start;
    size_t line;
    size_t text_used;
    int depth;
    int has_names; /* lone surrogates are bytes */
    eitp__json_key *keys;
    size_t key_capacity;
    size_t values_left; /* values that may still be parsed */
    eitp_error *error;
} eitp__json_parser;

static eitp_status eitp__json_parse_value(eitp__json_parser *parser, eitp_json *value);

/* Fails at `at`, which is on the current line. */
static eitp_status eitp__json_fail(eitp__json_parser *parser, const char *at, const char *what) {
    size_t column = eitp__utf8_count(parser->line_start, (size_t)(at - parser->line_start)) + 1;
    char found[32] = "found the end of the text";
    if (at < parser->end) {
        unsigned char byte = (unsigned char)*at;
        snprintf(found, sizeof found, byte > 0x20 && byte < 0x7f ? "found '%c'" : "found byte 0x%02x", byte);
    }
    return eitp__fail(parser->error, EITP_ERROR_FORMAT, "invalid JSON at line %llu, column %llu: %s, %s",
                      (unsigned long long)parser->line, (unsigned long long)column, what, found);
}

static void eitp__json_skip_space(eitp__json_parser *parser) {
    for (; parser->at < parser->end; parser->at++) {
        char c = *parser->at;
        if (c == '\n') {
            parser->line++;
            parser->line_start = parser->at + 1;
        } else if (c != ' ' && c != '\t' && c != '\r') {
            return;
        }
    }
}

static int eitp__json_next_is(const eitp__json_parser *parser, char c) {
    return parser->at < parser->end && *parser->at == c;
}

/* Allocates a zeroed value; NULL if out of memory. */
static eitp_json *eitp__json_new_value(eitp_json_document *document, size_t input_size) {
    eitp__json_block *block = document->blocks;
    eitp_json *value;
    if (!block || block->used == block->capacity) {
        size_t capacity = block ? block->capacity * 2 : input_size / 16 + 4;
        if (capacity > EITP__JSON_LARGEST_BLOCK)
            capacity = EITP__JSON_LARGEST_BLOCK;
        block =
            (eitp__json_block *)eitp__allocate_uninitialized(&document->host, sizeof *block + capacity * sizeof *value);
        if (!block)
            return NULL;
        block->next = document->blocks;
        block->capacity = capacity;
        block->used = 0;
        document->blocks = block;
    }
    value = (eitp_json *)(void *)(block + 1) + block->used++;
    memset(value, 0, sizeof *value);
    return value;
}

/* Parses the four hexadecimal digits of an escape. */
static eitp_status eitp__json_parse_unit(eitp__json_parser *parser, uint32_t *unit) {
    uint32_t value = 0;
    for (int i = 0; i < 4; i++, parser->at++) {
        char c = parser->at < parser->end ? *parser->at : 0;
        if (c >= '0' && c <= '9')
            value = value * 16 + (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value * 16 + (uint32_t)(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F')
            value = value * 16 + (uint32_t)(c - 'A' + 10);
        else
            return eitp__json_fail(parser, parser->at, "expected four hexadecimal digits after \\u");
    }
    *unit = value;
    return EITP_OK;
}

/* Parses what follows "\u": a code point, of two units if the first is a surrogate. */
static eitp_status eitp__json_parse_code_point(eitp__json_parser *parser, char **out) {
    const char *start = parser->at - 2;
    unsigned char bytes[4];
    uint32_t code, low;
    size_t taken;
    eitp_status status = eitp__json_parse_unit(parser, &code);
    if (status)
        return status;
    if (parser->has_names && code >= 0xdc80 && code <= 0xdcff) {
        *(*out)++ = (char)(unsigned char)(code & 0xff);
        return EITP_OK;
    }
    if (code >= 0xdc00 && code <= 0xdfff)
        return eitp__json_fail(parser, start, "expected a high surrogate before a low one");
    if (code >= 0xd800 && code <= 0xdbff) {
        if (parser->end - parser->at < 2 || parser->at[0] != '\\' || parser->at[1] != 'u')
            return eitp__json_fail(parser, parser->at, "expected a low surrogate after a high one");
        parser->at += 2;
        status = eitp__json_parse_unit(parser, &low);
        if (status)
            return status;
        if (low < 0xdc00 || low > 0xdfff)
            return eitp__json_fail(parser, parser->at - 6, "expected a low surrogate after a high one");
        code = 0x10000 + ((code & 0x3ff) << 10) + (low & 0x3ff);
    }
    taken = eitp__utf8_encode(code, bytes);
    memcpy(*out, bytes, taken);
    *out += taken;
    return EITP_OK;
}

/* Parses an escape, from its backslash on. */
static eitp_status eitp__json_parse_escape(eitp__json_parser *parser, char **out) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *found;
    char c = parser->end - parser->at > 1 ? parser->at[1] : 0;
    if (c == 'u') {
        parser->at += 2;
        return eitp__json_parse_code_point(parser, out);
    }
    found = c ? strchr(names, c) : NULL;
    if (!found)
        return eitp__json_fail(parser, parser->at + 1, "expected one of \" \\ / b f n r t u after a backslash");
    *(*out)++ = values[found - names];
    parser->at += 2;
    return EITP_OK;
}

/* Copies characters up to a quote, a backslash or a control character. */
static eitp_status eitp__json_copy_plain(eitp__json_parser *parser, char **out) {
    const char *start = parser->at;
    size_t size, valid;
    for (; parser->at < parser->end; parser->at++) {
        unsigned char c = (unsigned char)*parser->at;
        if (c == '"' || c == '\\' || c < 0x20)
            break;
    }
    size = (size_t)(parser->at - start);
    valid = eitp__utf8_valid_prefix((const unsigned char *)start, size);
    if (valid < size)
        return eitp__json_fail(parser, start + valid, "expected valid UTF-8 in a string");
    memcpy(*out, start, size);
    *out += size;
    return EITP_OK;
}

/* Parses a string, from its opening quote on, into the document's text. */
static eitp_status eitp__json_parse_string(eitp__json_parser *parser, const char **text, size_t *size) {
    char *start = parser->document->text + parser->text_used, *out = start;
    parser->at++;
    for (;;) {
        eitp_status status = eitp__json_copy_plain(parser, &out);
        if (status)
            return status;
        if (parser->at == parser->end)
            return eitp__json_fail(parser, parser->at, "expected '\"' at the end of a string");
        if (*parser->at == '"')
            break;
        if (*parser->at != '\\')
            return eitp__json_fail(parser, parser->at, "expected an escape for a control character in a string");
        status = eitp__json_parse_escape(parser, &out);
        if (status)
            return status;
    }
    parser->at++;
    *out = 0;
    *text = start;
    *size = (size_t)(out - start);
    parser->text_used += *size + 1;
    return EITP_OK;
}

static int eitp__json_is_digit(const eitp__json_parser *parser, const char *at) {
    return at < parser->end && *at >= '0' && *at <= '9';
}

/* Finds the end of a number. *is_integer is 0 if it has a fraction or an exponent. */
static eitp_status eitp__json_scan_number(eitp__json_parser *parser, int *is_integer) {
    const char *at = parser->at;
    *is_integer = 1;
    if (*at == '-')
        at++;
    if (!eitp__json_is_digit(parser, at))
        return eitp__json_fail(parser, at, "expected a digit");
    if (*at == '0' && eitp__json_is_digit(parser, at + 1))
        return eitp__json_fail(parser, at + 1, "expected a number without a leading zero");
    while (eitp__json_is_digit(parser, at))
        at++;
    if (at < parser->end && *at == '.') {
        *is_integer = 0;
        at++;
        if (!eitp__json_is_digit(parser, at))
            return eitp__json_fail(parser, at, "expected a digit after the decimal point");
        while (eitp__json_is_digit(parser, at))
            at++;
    }
    if (at < parser->end && (*at == 'e' || *at == 'E')) {
        *is_integer = 0;
        at++;
        if (at < parser->end && (*at == '+' || *at == '-'))
            at++;
        if (!eitp__json_is_digit(parser, at))
            return eitp__json_fail(parser, at, "expected a digit in the exponent");
        while (eitp__json_is_digit(parser, at))
            at++;
    }
    parser->at = at;
    return EITP_OK;
}

/* Returns the exponent at [at, end), clamped to a range that no number of digits in memory can compensate. */
static int64_t eitp__decimal_exponent(const char *at, const char *end) {
    int64_t exponent = 0;
    int negative = at < end && *at == '-';
    for (; at < end; at++) {
        if (*at >= '0' && *at <= '9' && exponent < INT64_MAX / 100)
            exponent = exponent * 10 + (*at - '0');
    }
    return negative ? -exponent : exponent;
}

/* At most 767 significant digits decide whether a number is halfway between two doubles; of the remaining digits, it
   only matters if any is nonzero. */
#define EITP__DECIMAL_DIGITS 800

/* A decimal number as digits * 10^exponent, without a decimal point, since strtod expects the locale's. */
typedef struct eitp__decimal {
    char digits[EITP__DECIMAL_DIGITS + 32]; /* with room for "e<exponent>" */
    size_t count;
    int64_t exponent;
} eitp__decimal;

static void eitp__decimal_read(eitp__decimal *decimal, const char *at, const char *end) {
    int fraction = 0, dropped = 0;
    decimal->count = 0;
    decimal->exponent = 0;
    for (; at < end && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.') {
            fraction = 1;
            continue;
        }
        decimal->exponent -= fraction;
        if (*at == '0' && !decimal->count)
            continue;
        if (decimal->count < EITP__DECIMAL_DIGITS) {
            decimal->digits[decimal->count++] = *at;
        } else {
            dropped |= *at != '0';
            decimal->exponent++;
        }
    }
    if (dropped) {
        decimal->digits[decimal->count++] = '1';
        decimal->exponent--;
    }
    if (at < end)
        decimal->exponent += eitp__decimal_exponent(at + 1, end);
}

/* Stores the value of a short number and returns 1. Up to 15 digits and powers of ten up to 10^22 are exact as doubles,
   so their product or quotient is rounded once (Clinger, "How to Read Floating Point Numbers Accurately", 1990). */
static int eitp__decimal_short(const eitp__decimal *decimal, double *value) {
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD == 0
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    int64_t digits = 0;
    if (decimal->count > 15 || decimal->exponent < -22 || decimal->exponent > 22)
        return 0;
    for (size_t i = 0; i < decimal->count; i++)
        digits = digits * 10 + (decimal->digits[i] - '0');
    *value = decimal->exponent < 0 ? (double)digits / powers[-decimal->exponent]
                                   : (double)digits * powers[decimal->exponent];
    return 1;
#else
    (void)decimal;
    (void)value;
    return 0;
#endif
}

/* Returns the double nearest to the well-formed, unsigned number at [at, end). */
static double eitp__decimal_value(const char *at, const char *end) {
    eitp__decimal decimal;
    long exponent;
    double value;
    eitp__decimal_read(&decimal, at, end);
    if (!decimal.count)
        return 0.0;
    if (eitp__decimal_short(&decimal, &value))
        return value;
    if (decimal.exponent > 100000)
        exponent = 100000;
    else if (decimal.exponent < -100000)
        exponent = -100000;
    else
        exponent = (long)decimal.exponent;
    snprintf(decimal.digits + decimal.count, sizeof decimal.digits - decimal.count, "e%ld", exponent);
    return strtod(decimal.digits, NULL);
}

/* Stores the integer at [at, end) and returns 1; returns 0 if it does not fit. */
static int eitp__json_integer(const char *at, const char *end, int64_t *integer) {
    int negative = *at == '-';
    uint64_t limit = (uint64_t)INT64_MAX + (uint64_t)negative, value = 0;
    for (at += negative; at < end; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (value > (limit - digit) / 10)
            return 0;
        value = value * 10 + digit;
    }
    *integer = negative ? (int64_t)(0 - value) : (int64_t)value;
    return 1;
}

/* Copies `size` bytes of the input to the document's text. The separators between values leave room for the zero
   byte. */
static const char *eitp__json_keep(eitp__json_parser *parser, const char *start, size_t size) {
    char *kept = parser->document->text + parser->text_used;
    memcpy(kept, start, size);
    kept[size] = 0;
    parser->text_used += size + 1;
    return kept;
}

static eitp_status eitp__json_parse_number(eitp__json_parser *parser, eitp_json *value) {
    const char *start = parser->at;
    int negative = *start == '-';
    eitp_status status = eitp__json_scan_number(parser, &value->is_integer);
    if (status)
        return status;
    value->kind = EITP_JSON_NUMBER;
    value->text_size = (size_t)(parser->at - start);
    value->text = eitp__json_keep(parser, start, value->text_size);
    if (value->is_integer)
        value->is_integer = eitp__json_integer(start, parser->at, &value->integer);
    if (value->is_integer && value->integer)
        value->number = (double)value->integer;
    else
        value->number = eitp__decimal_value(start + negative, parser->at) * (negative ? -1.0 : 1.0);
    if (value->number > DBL_MAX || value->number < -DBL_MAX)
        return eitp__json_fail(parser, start, "expected a number in the range of a double");
    return EITP_OK;
}

static eitp_status eitp__json_parse_word(eitp__json_parser *parser, eitp_json *value) {
    size_t left = (size_t)(parser->end - parser->at);
    if (left >= 4 && !memcmp(parser->at, "null", 4)) {
        value->kind = EITP_JSON_NULL;
        parser->at += 4;
    } else if (left >= 4 && !memcmp(parser->at, "true", 4)) {
        value->kind = EITP_JSON_BOOLEAN;
        value->boolean = 1;
        parser->at += 4;
    } else if (left >= 5 && !memcmp(parser->at, "false", 5)) {
        value->kind = EITP_JSON_BOOLEAN;
        parser->at += 5;
    } else {
        return eitp__json_fail(parser, parser->at, "expected a value (NaN, Infinity and comments are not JSON)");
    }
    return EITP_OK;
}

/* FNV-1a. Keys are sorted instead of chained, so colliding keys from an attacker only cost comparisons. */
static uint64_t eitp__json_hash(const char *text, size_t size) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash;
}

static int eitp__json_compare_names(const eitp_json *a, const eitp_json *b) {
    size_t shorter = a->name_size < b->name_size ? a->name_size : b->name_size;
    int order = memcmp(a->name, b->name, shorter);
    if (order)
        return order;
    return a->name_size < b->name_size ? -1 : a->name_size > b->name_size;
}

static int eitp__json_compare_keys(const void *left, const void *right) {
    const eitp__json_key *a = (const eitp__json_key *)left, *b = (const eitp__json_key *)right;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return eitp__json_compare_names(a->member, b->member);
}

static eitp_status eitp__json_fail_duplicate(eitp__json_parser *parser, const eitp_json *a, const eitp_json *b) {
    size_t first = a->line < b->line ? a->line : b->line, second = a->line < b->line ? b->line : a->line;
    if (first == second)
        return eitp__fail(parser->error, EITP_ERROR_FORMAT,
                          "invalid JSON: duplicate name '%.100s' at line %llu; remove one of them", a->name,
                          (unsigned long long)first);
    return eitp__fail(
        parser->error, EITP_ERROR_FORMAT,
        "invalid JSON: duplicate name '%.100s' at line %llu and line %llu of one object; remove one of them", a->name,
        (unsigned long long)first, (unsigned long long)second);
}

/* Fails if an object has a name twice. */
static eitp_status eitp__json_check_names(eitp__json_parser *parser, const eitp_json *object) {
    size_t count = 0;
    void *keys = parser->keys;
    if (object->count < 2)
        return EITP_OK;
    if (object->count <= 8) {
        for (const eitp_json *a = object->first_child; a; a = a->next) {
            for (const eitp_json *b = a->next; b; b = b->next) {
                if (!eitp__json_compare_names(a, b))
                    return eitp__json_fail_duplicate(parser, a, b);
            }
        }
        return EITP_OK;
    }
    if (!eitp__reserve(&parser->document->host, &keys, &parser->key_capacity, object->count, sizeof *parser->keys))
        return eitp__fail_memory(parser->error, object->count * sizeof *parser->keys, "the names of a JSON object");
    parser->keys = (eitp__json_key *)keys;
    for (const eitp_json *member = object->first_child; member; member = member->next) {
        parser->keys[count].hash = eitp__json_hash(member->name, member->name_size);
        parser->keys[count++].member = member;
    }
    eitp__sort(parser->keys, count, sizeof *parser->keys, eitp__json_compare_keys);
    for (size_t i = 1; i < count; i++) {
        if (!eitp__json_compare_keys(&parser->keys[i - 1], &parser->keys[i]))
            return eitp__json_fail_duplicate(parser, parser->keys[i - 1].member, parser->keys[i].member);
    }
    return EITP_OK;
}

/* Parses the name and the colon before a member's value. */
static eitp_status eitp__json_parse_name(eitp__json_parser *parser, eitp_json *member) {
    eitp_status status;
    if (!eitp__json_next_is(parser, '"'))
        return eitp__json_fail(parser, parser->at, "expected a name in quotes");
    status = eitp__json_parse_string(parser, &member->name, &member->name_size);
    if (status)
        return status;
    eitp__json_skip_space(parser);
    if (!eitp__json_next_is(parser, ':'))
        return eitp__json_fail(parser, parser->at, "expected ':' after a name");
    parser->at++;
    eitp__json_skip_space(parser);
    return EITP_OK;
}

/* Parses the children of an array or object and the closing bracket. */
static eitp_status eitp__json_parse_children(eitp__json_parser *parser, eitp_json *parent, char closing) {
    eitp_json **link = &parent->first_child;
    eitp_status status = EITP_OK;
    for (;;) {
        eitp_json *child = eitp__json_new_value(parser->document, (size_t)(parser->end - parser->start));
        if (!child)
            return eitp__fail_memory(parser->error, sizeof *child * EITP__JSON_LARGEST_BLOCK, "a JSON text");
        if (!parser->values_left--)
            return eitp__json_fail(parser, parser->at, "expected fewer values");
        if (parent->kind == EITP_JSON_OBJECT)
            status = eitp__json_parse_name(parser, child);
        if (!status)
            status = eitp__json_parse_value(parser, child);
        if (status)
            return status;
        *link = child;
        link = &child->next;
        parent->count++;
        eitp__json_skip_space(parser);
        if (eitp__json_next_is(parser, closing))
            break;
        if (!eitp__json_next_is(parser, ','))
            return eitp__json_fail(parser, parser->at, closing == ']' ? "expected ',' or ']'" : "expected ',' or '}'");
        parser->at++;
        eitp__json_skip_space(parser);
    }
    parser->at++;
    return EITP_OK;
}

static eitp_status eitp__json_parse_container(eitp__json_parser *parser, eitp_json *value) {
    char closing = *parser->at == '[' ? ']' : '}';
    eitp_status status;
    if (parser->depth == EITP__JSON_DEPTH)
        return eitp__json_fail(parser, parser->at, "expected at most 64 levels of nesting");
    value->kind = closing == ']' ? EITP_JSON_ARRAY : EITP_JSON_OBJECT;
    parser->at++;
    eitp__json_skip_space(parser);
    if (eitp__json_next_is(parser, closing)) {
        parser->at++;
        return EITP_OK;
    }
    parser->depth++;
    status = eitp__json_parse_children(parser, value, closing);
    parser->depth--;
    if (!status && value->kind == EITP_JSON_OBJECT)
        status = eitp__json_check_names(parser, value);
    return status;
}

static eitp_status eitp__json_parse_value(eitp__json_parser *parser, eitp_json *value) {
    value->line = parser->line;
    value->begin = (size_t)(parser->at - parser->start);
    if (parser->at == parser->end)
        return eitp__json_fail(parser, parser->at, "expected a value");
    switch (*parser->at) {
    case '{':
    case '[':
        return eitp__json_parse_container(parser, value);
    case '"':
        value->kind = EITP_JSON_STRING;
        return eitp__json_parse_string(parser, &value->text, &value->text_size);
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
        return eitp__json_parse_number(parser, value);
    default:
        return eitp__json_parse_word(parser, value);
    }
}

static eitp_status eitp__json_parse_document(eitp__json_parser *parser) {
    size_t size = (size_t)(parser->end - parser->start);
    eitp_json_document *document = parser->document;
    eitp_status status;
    if (size >= 3 && !memcmp(parser->start, "\xef\xbb\xbf", 3))
        return eitp__json_fail(parser, parser->at, "expected UTF-8 without a byte order mark");
    document->text_capacity = size + 1;
    document->text = (char *)eitp__allocate_uninitialized(&document->host, size + 1);
    document->root = eitp__json_new_value(document, size);
    if (!document->text || !document->root)
        return eitp__fail_memory(parser->error, size + 1, "a JSON text");
    eitp__json_skip_space(parser);
    status = eitp__json_parse_value(parser, document->root);
    if (status)
        return status;
    eitp__json_skip_space(parser);
    if (parser->at < parser->end)
        return eitp__json_fail(parser, parser->at, "expected nothing after the value");
    return EITP_OK;
}

static eitp_status eitp__json_parse_with(const eitp_host *host, const char *data, size_t size, size_t line,
                                         size_t most_values, int has_names, eitp_json_document **document,
                                         eitp_error *error) {
    eitp__json_parser parser;
    eitp_status status;
    memset(&parser, 0, sizeof parser);
    if (size > SIZE_MAX / 2)
        return eitp__fail_memory(error, size, "a JSON text");
    parser.document = (eitp_json_document *)eitp__allocate(host, sizeof *parser.document);
    if (!parser.document)
        return eitp__fail_memory(error, sizeof *parser.document, "a JSON text");
    parser.document->host = *host;
    parser.start = parser.at = parser.line_start = data;
    parser.end = size ? data + size : data;
    parser.line = line;
    parser.values_left = most_values;
    parser.has_names = has_names;
    parser.error = error;
    status = eitp__json_parse_document(&parser);
    eitp__release(host, parser.keys, parser.key_capacity * sizeof *parser.keys);
    if (status)
        eitp_json_release(parser.document);
    else
        *document = parser.document;
    return status;
}

EITP__PRIVATE int eitp__json_read_number(const char *text, size_t size, double *number) {
    const int is_negative = size && *text == '-';
    eitp__json_parser parser;
    int is_integer;
    double value;
    memset(&parser, 0, sizeof parser);
    if (!size)
        return 0;
    parser.start = parser.at = parser.line_start = text;
    parser.end = text + size;
    if (eitp__json_scan_number(&parser, &is_integer) || parser.at != parser.end)
        return 0;
    value = eitp__decimal_value(text + is_negative, parser.end) * (is_negative ? -1.0 : 1.0);
    if (value > DBL_MAX || value < -DBL_MAX)
        return 0;
    *number = value;
    return 1;
}

eitp_status eitp_json_parse(const eitp_host *host, const char *data, size_t size, eitp_json_document **document,
                            eitp_error *error) {
    if (!host || (!data && size) || !document)
        return eitp__fail_null(error, "eitp_json_parse", "host, data and document");
    return eitp__json_parse_with(host, data, size, 1, SIZE_MAX, 0, document, error);
}

EITP__PRIVATE eitp_status eitp__json_parse_line(const eitp_host *host, const char *data, size_t size, size_t line,
                                                eitp_json_document **document, eitp_error *error) {
    return eitp__json_parse_with(host, data, size, line, EITP__JSON_LINE_VALUES, 0, document, error);
}

void eitp_json_release(eitp_json_document *document) {
    eitp_host host;
    if (!document)
        return;
    host = document->host;
    while (document->blocks) {
        eitp__json_block *block = document->blocks;
        document->blocks = block->next;
        eitp__release(&host, block, sizeof *block + block->capacity * sizeof(eitp_json));
    }
    eitp__release(&host, document->text, document->text_capacity);
    eitp__release(&host, document, sizeof *document);
}

const eitp_json *eitp_json_root(const eitp_json_document *document) {
    return document ? document->root : NULL;
}

static eitp_status eitp__json_read_file_as(const eitp_host *host, const char *path, size_t limit, int has_names,
                                           eitp_json_document **document, eitp_error *error) {
    eitp__buffer text;
    eitp_status status;
    eitp__buffer_init(&text, host);
    status = eitp__read_file(host, path, limit, &text, error);
    if (!status) {
        status = eitp__json_parse_with(host, text.data, text.size, 1, SIZE_MAX, has_names, document, error);
        if (status)
            eitp__fail_prefix(error, status, "%s", path);
    }
    eitp__buffer_release(&text);
    return status;
}

EITP__PRIVATE eitp_status eitp__json_check(const eitp_host *host, const char *text, eitp_error *error) {
    eitp_json_document *document = NULL;
    const eitp_status status = eitp__json_parse_with(host, text, strlen(text), 1, SIZE_MAX, 1, &document, error);
    eitp_json_release(document);
    return status;
}

EITP__PRIVATE eitp_status eitp__json_read_strict_file(const eitp_host *host, const char *path, size_t limit,
                                                      eitp_json_document **document, eitp_error *error) {
    return eitp__json_read_file_as(host, path, limit, 0, document, error);
}

EITP__PRIVATE eitp_status eitp__json_read_in(const eitp_host *host, const char *directory, const char *name,
                                             size_t limit, eitp_json_document **document, eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    char *path;
    eitp_status status = eitp__path_in(host, directory, name, &path, error);
    *document = NULL;
    if (!status)
        status = eitp__path_info(host, path, &info, error);
    if (!status && info.kind != EITP_PATH_MISSING)
        status = eitp__json_read_strict_file(host, path, limit, document, error);
    eitp__release_text(host, path);
    return status;
}

eitp_status eitp_json_read_file(const eitp_host *host, const char *path, size_t limit, eitp_json_document **document,
                                eitp_error *error) {
    if (!host || !path || !document)
        return eitp__fail_null(error, "eitp_json_read_file", "host, path and document");
    return eitp__json_read_file_as(host, path, limit, 1, document, error);
}
