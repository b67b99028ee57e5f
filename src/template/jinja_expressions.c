#include "template/jinja_expressions.h"

#include "base/unicode.h"
#include "template/jinja_arithmetic.h"
#include "template/jinja_filters.h"
#include "template/jinja_tests.h"

static eitp__jinja_node *eitp__jinja_parse_level(eitp__jinja_parser *parser, int level);
static eitp__jinja_node *eitp__jinja_parse_primary(eitp__jinja_parser *parser);

/* ---- tokens ---- */

EITP__PRIVATE void eitp__jinja_parse_fail(eitp__jinja_parser *parser, eitp_status status, const char *before,
                                          const char *text, size_t size, const char *after) {
    if (parser->status == EITP_OK)
        parser->status = eitp__jinja_fail_at(parser->error, status, parser->lexer.text, parser->token.offset,
                                             "%s'%.*s'%s", before, size < 100 ? (int)size : 100, text, after);
}

EITP__PRIVATE void eitp__jinja_unexpected(eitp__jinja_parser *parser, const char *expected) {
    if (parser->status != EITP_OK)
        return;
    if (parser->token.kind == EITP__JINJA_END || parser->token.kind == EITP__JINJA_DATA)
        parser->status = eitp__jinja_fail_at(parser->error, EITP_ERROR_FORMAT, parser->lexer.text, parser->token.offset,
                                             "unexpected end, expected %s", expected);
    else
        parser->status =
            eitp__jinja_fail_at(parser->error, EITP_ERROR_FORMAT, parser->lexer.text, parser->token.offset,
                                "unexpected '%.*s', expected %s",
                                parser->token.size < 100 ? (int)parser->token.size : 100, parser->token.text, expected);
}

EITP__PRIVATE void eitp__jinja_advance(eitp__jinja_parser *parser) {
    if (parser->status == EITP_OK)
        parser->status = eitp__jinja_lexer_next(&parser->lexer, &parser->token, parser->error);
}

EITP__PRIVATE int eitp__jinja_at_operator(const eitp__jinja_parser *parser, const char *text) {
    return parser->status == EITP_OK && eitp__jinja_is(&parser->token, EITP__JINJA_OPERATOR, text);
}

EITP__PRIVATE int eitp__jinja_at_word(const eitp__jinja_parser *parser, const char *text) {
    return parser->status == EITP_OK && eitp__jinja_is(&parser->token, EITP__JINJA_NAME, text);
}

EITP__PRIVATE int eitp__jinja_accept(eitp__jinja_parser *parser, const char *text) {
    if (!eitp__jinja_at_operator(parser, text) && !eitp__jinja_at_word(parser, text))
        return 0;
    eitp__jinja_advance(parser);
    return parser->status == EITP_OK;
}

EITP__PRIVATE void eitp__jinja_expect(eitp__jinja_parser *parser, const char *text) {
    char expected[32];
    if (eitp__jinja_accept(parser, text))
        return;
    snprintf(expected, sizeof expected, "'%s'", text);
    eitp__jinja_unexpected(parser, expected);
}

EITP__PRIVATE eitp__jinja_token eitp__jinja_peek(const eitp__jinja_parser *parser) {
    eitp__jinja_lexer lexer = parser->lexer;
    eitp__jinja_token token;
    memset(&token, 0, sizeof token);
    if (parser->status == EITP_OK)
        eitp__jinja_lexer_next(&lexer, &token, NULL);
    return token;
}

/* ---- nodes ---- */

EITP__PRIVATE eitp__jinja_node *eitp__jinja_new_node(eitp__jinja_parser *parser, int kind) {
    eitp__jinja_node *node = parser->status == EITP_OK
                                 ? (eitp__jinja_node *)eitp__jinja_memory_allocate(parser->memory, sizeof *node)
                                 : NULL;
    if (node) {
        node->kind = kind;
        node->offset = parser->token.offset;
    } else if (parser->status == EITP_OK) {
        parser->status = eitp__jinja_fail_at(parser->error, EITP_ERROR_MEMORY, parser->lexer.text, parser->token.offset,
                                             "cannot allocate memory for the template");
    }
    return node;
}

EITP__PRIVATE eitp__jinja_node *eitp__jinja_wrap(eitp__jinja_parser *parser, int kind, eitp__jinja_node *first) {
    eitp__jinja_node *node = first ? eitp__jinja_new_node(parser, kind) : NULL;
    if (node)
        node->first = first;
    return node;
}

EITP__PRIVATE void eitp__jinja_append(eitp__jinja_nodes *nodes, eitp__jinja_node *node) {
    if (!node)
        return;
    if (nodes->last)
        nodes->last->next = node;
    else
        nodes->first = node;
    nodes->last = node;
}

EITP__PRIVATE int eitp__jinja_enter(eitp__jinja_parser *parser) {
    if (parser->status == EITP_OK && parser->depth >= EITP__JINJA_PARSE_DEPTH)
        parser->status =
            eitp__jinja_fail_at(parser->error, EITP_ERROR_UNSUPPORTED, parser->lexer.text, parser->token.offset,
                                "statements or expressions are nested deeper than %d", EITP__JINJA_PARSE_DEPTH);
    if (parser->status != EITP_OK)
        return 0;
    parser->depth++;
    return 1;
}

EITP__PRIVATE void eitp__jinja_read_name(eitp__jinja_parser *parser, eitp__jinja_node *node) {
    if (!node)
        return;
    if (parser->token.kind != EITP__JINJA_NAME) {
        eitp__jinja_unexpected(parser, "a name");
        return;
    }
    node->text = parser->token.text;
    node->size = parser->token.size;
    eitp__jinja_advance(parser);
}

/* ---- literals ---- */

/* Reads `digits` hexadecimal or octal digits after a backslash. */
static int eitp__jinja_read_code(const char *text, size_t size, size_t digits, unsigned base, uint32_t *code) {
    *code = 0;
    if (digits > size)
        return 0;
    for (size_t i = 0; i < digits; i++) {
        const char c = text[i], lower = (char)(c | 0x20);
        const unsigned digit = c >= '0' && c <= '9'           ? (unsigned)(c - '0')
                               : lower >= 'a' && lower <= 'f' ? (unsigned)(lower - 'a') + 10
                                                              : 99;
        if (digit >= base || *code > 0x0FFFFFFF)
            return 0;
        *code = *code * base + digit;
    }
    return 1;
}

/* Decodes the escape after a backslash. Returns its length in the source, or 0 if it is not a valid escape. */
static size_t eitp__jinja_read_escape(const char *text, size_t size, char *out, size_t *written) {
    static const char letters[] = "abfnrtv\\'\"", values[] = "\a\b\f\n\r\t\v\\'\"";
    static const struct {
        char letter;
        size_t digits;
    } codes[] = {{'x', 2}, {'u', 4}, {'U', 8}};
    const char *found = size && text[0] ? strchr(letters, text[0]) : NULL;
    uint32_t code;
    if (found) {
        out[(*written)++] = values[found - letters];
        return 1;
    }
    if (size && text[0] == '\n')
        return 1;
    for (size_t i = 0; size && i < EITP__COUNT(codes); i++) {
        if (text[0] != codes[i].letter || !eitp__jinja_read_code(text + 1, size - 1, codes[i].digits, 16, &code) ||
            code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
            continue;
        *written += eitp__utf8_encode(code, (unsigned char *)out + *written);
        return 1 + codes[i].digits;
    }
    for (size_t digits = 3; digits > 0; digits--) {
        if (eitp__jinja_read_code(text, size, digits, 8, &code)) {
            *written += eitp__utf8_encode(code, (unsigned char *)out + *written);
            return digits;
        }
    }
    return 0;
}

/* Decodes the content of a string literal. Escapes unknown to Python are left unchanged. */
static void eitp__jinja_read_string(eitp__jinja_parser *parser, const eitp__jinja_token *token,
                                    eitp__jinja_node *node) {
    const char *text = token->text;
    char *out = (char *)eitp__jinja_memory_allocate(parser->memory, node->value.size + token->size * 2 + 4);
    size_t written = node->value.size;
    if (!out) {
        parser->status = eitp__jinja_fail_at(parser->error, EITP_ERROR_MEMORY, parser->lexer.text, token->offset,
                                             "cannot allocate memory for the template");
        return;
    }
    if (written)
        memcpy(out, node->value.as.text, written);
    for (size_t at = 0; at < token->size;) {
        size_t escape = 0;
        if (text[at] == '\\') {
            escape = eitp__jinja_read_escape(text + at + 1, token->size - at - 1, out, &written);
            if (!escape && at + 1 < token->size && strchr("xuUN", text[at + 1]) && text[at + 1]) {
                eitp__jinja_parse_fail(parser, EITP_ERROR_UNSUPPORTED, "unsupported escape ", text + at, 2, "");
                return;
            }
        }
        if (escape) {
            at += 1 + escape;
        } else {
            out[written++] = text[at++];
        }
    }
    node->value = eitp__jinja_string(out, written);
}

/* Parses string literals. Adjacent literals are concatenated. */
static eitp__jinja_node *eitp__jinja_parse_text(eitp__jinja_parser *parser) {
    eitp__jinja_node *node = eitp__jinja_new_node(parser, EITP__JINJA_NODE_CONSTANT);
    if (node)
        node->value = eitp__jinja_string("", 0);
    while (node && parser->status == EITP_OK && parser->token.kind == EITP__JINJA_TEXT) {
        eitp__jinja_read_string(parser, &parser->token, node);
        eitp__jinja_advance(parser);
    }
    return node;
}

static int eitp__jinja_read_whole_number(const char *digits, int64_t *integer) {
    unsigned base = 10;
    if (digits[0] == '0' && digits[1]) {
        const char letter = (char)(digits[1] | 0x20);
        base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
        digits += base == 10 ? 0 : 2;
    }
    *integer = 0;
    do {
        const char lower = (char)(*digits | 0x20);
        const unsigned digit = *digits >= '0' && *digits <= '9' ? (unsigned)(*digits - '0')
                               : lower >= 'a' && lower <= 'f'   ? (unsigned)(lower - 'a') + 10
                                                                : 99;
        if (digit >= base || *integer > (INT64_MAX - (int64_t)digit) / (int64_t)base)
            return 0;
        *integer = *integer * (int64_t)base + (int64_t)digit;
    } while (*++digits);
    return 1;
}

static eitp__jinja_node *eitp__jinja_parse_number(eitp__jinja_parser *parser) {
    const eitp__jinja_token token = parser->token;
    eitp__jinja_node *node = eitp__jinja_new_node(parser, EITP__JINJA_NODE_CONSTANT);
    char digits[64];
    size_t size = 0;
    int64_t integer;
    double number;
    for (size_t i = 0; i < token.size && size + 1 < sizeof digits; i++)
        if (token.text[i] != '_')
            digits[size++] = token.text[i];
    digits[size] = 0;
    if (!node)
        return NULL;
    if (strpbrk(digits, ".eE") && (digits[1] | 0x20) != 'x' && eitp__json_read_number(digits, size, &number)) {
        node->value = eitp__jinja_float(number);
    } else if (eitp__jinja_read_whole_number(digits, &integer)) {
        node->value = eitp__jinja_integer(integer);
    } else {
        eitp__jinja_parse_fail(parser, EITP_ERROR_UNSUPPORTED, "unsupported number ", token.text, token.size, "");
        return NULL;
    }
    eitp__jinja_advance(parser);
    return node;
}

/* ---- lists ---- */

/* Parses expressions up to and including `end`. */
static eitp__jinja_node *eitp__jinja_parse_elements(eitp__jinja_parser *parser, int kind, const char *end) {
    eitp__jinja_node *node = eitp__jinja_new_node(parser, kind);
    eitp__jinja_nodes elements = {NULL, NULL};
    eitp__jinja_advance(parser);
    while (parser->status == EITP_OK && !eitp__jinja_at_operator(parser, end)) {
        if (elements.first) {
            eitp__jinja_expect(parser, ",");
            if (eitp__jinja_at_operator(parser, end))
                break;
        }
        eitp__jinja_append(&elements, eitp__jinja_parse_expression(parser));
        if (kind != EITP__JINJA_NODE_DICT)
            continue;
        eitp__jinja_expect(parser, ":");
        eitp__jinja_append(&elements, eitp__jinja_parse_expression(parser));
    }
    eitp__jinja_expect(parser, end);
    if (node)
        node->first = elements.first;
    return node;
}

EITP__PRIVATE int eitp__jinja_tuple_ends(const eitp__jinja_parser *parser) {
    return parser->status != EITP_OK || parser->token.kind == EITP__JINJA_BLOCK_END ||
           parser->token.kind == EITP__JINJA_OUTPUT_END || eitp__jinja_at_operator(parser, ")") ||
           eitp__jinja_at_operator(parser, "]") || eitp__jinja_at_operator(parser, "=") ||
           eitp__jinja_at_word(parser, "in") || eitp__jinja_at_word(parser, "if") ||
           eitp__jinja_at_word(parser, "recursive");
}

EITP__PRIVATE eitp__jinja_node *eitp__jinja_parse_tuple(eitp__jinja_parser *parser, int level) {
    eitp__jinja_node *node,
        *first = level ? eitp__jinja_parse_level(parser, level) : eitp__jinja_parse_expression(parser);
    eitp__jinja_nodes elements = {first, first};
    if (!first || !eitp__jinja_at_operator(parser, ","))
        return first;
    while (eitp__jinja_accept(parser, ",") && !eitp__jinja_tuple_ends(parser))
        eitp__jinja_append(&elements,
                           level ? eitp__jinja_parse_level(parser, level) : eitp__jinja_parse_expression(parser));
    node = eitp__jinja_wrap(parser, EITP__JINJA_NODE_TUPLE, first);
    return node;
}

static eitp__jinja_node *eitp__jinja_parse_brackets(eitp__jinja_parser *parser) {
    eitp__jinja_node *node;
    eitp__jinja_expect(parser, "(");
    node = eitp__jinja_at_operator(parser, ")") ? eitp__jinja_new_node(parser, EITP__JINJA_NODE_TUPLE)
                                                : eitp__jinja_parse_tuple(parser, 0);
    eitp__jinja_expect(parser, ")");
    return node;
}

/* Parses the "(...)" of a call: positional arguments, then KEYWORDs. */
static eitp__jinja_node *eitp__jinja_parse_arguments(eitp__jinja_parser *parser) {
    eitp__jinja_nodes arguments = {NULL, NULL};
    eitp__jinja_expect(parser, "(");
    while (parser->status == EITP_OK && !eitp__jinja_at_operator(parser, ")")) {
        eitp__jinja_node *keyword = NULL, *value;
        eitp__jinja_token after;
        if (arguments.first) {
            eitp__jinja_expect(parser, ",");
            if (eitp__jinja_at_operator(parser, ")"))
                break;
        }
        after = eitp__jinja_peek(parser);
        if (eitp__jinja_at_operator(parser, "*") || eitp__jinja_at_operator(parser, "**")) {
            keyword = eitp__jinja_new_node(parser, EITP__JINJA_NODE_SPREAD);
            if (keyword)
                keyword->operation = parser->token.size == 2;
            eitp__jinja_advance(parser);
        } else if (parser->token.kind == EITP__JINJA_NAME && eitp__jinja_is(&after, EITP__JINJA_OPERATOR, "=")) {
            keyword = eitp__jinja_new_node(parser, EITP__JINJA_NODE_KEYWORD);
            eitp__jinja_read_name(parser, keyword);
            eitp__jinja_expect(parser, "=");
        } else if (arguments.last && arguments.last->kind == EITP__JINJA_NODE_KEYWORD) {
            eitp__jinja_unexpected(parser, "an argument with a name");
        }
        value = eitp__jinja_parse_expression(parser);
        if (keyword)
            keyword->first = value;
        eitp__jinja_append(&arguments, keyword ? keyword : value);
    }
    eitp__jinja_expect(parser, ")");
    return arguments.first;
}

/* ---- operands ---- */

/* Parses "[...]" after a value: an element or a slice. */
static eitp__jinja_node *eitp__jinja_parse_subscript(eitp__jinja_parser *parser, eitp__jinja_node *value) {
    eitp__jinja_node *node = eitp__jinja_wrap(parser, EITP__JINJA_NODE_ELEMENT, value);
    eitp__jinja_nodes bounds = {NULL, NULL};
    int count = 0, colons = 0;
    eitp__jinja_expect(parser, "[");
    while (node && parser->status == EITP_OK && count < 3) {
        const int is_absent = eitp__jinja_at_operator(parser, ":") || (colons && eitp__jinja_at_operator(parser, "]"));
        eitp__jinja_append(&bounds, is_absent ? eitp__jinja_new_node(parser, EITP__JINJA_NODE_ABSENT)
                                              : eitp__jinja_parse_tuple(parser, 0));
        count++;
        if (count == 3 || !eitp__jinja_accept(parser, ":"))
            break;
        colons++;
    }
    eitp__jinja_expect(parser, "]");
    if (!node)
        return NULL;
    node->second = bounds.first;
    if (!colons)
        return node;
    node->kind = EITP__JINJA_NODE_SLICE;
    for (; count < 3; count++)
        eitp__jinja_append(&bounds, eitp__jinja_new_node(parser, EITP__JINJA_NODE_ABSENT));
    return parser->status == EITP_OK ? node : NULL;
}

/* Parses ".name" or ".0" after a value. */
static eitp__jinja_node *eitp__jinja_parse_attribute(eitp__jinja_parser *parser, eitp__jinja_node *value) {
    eitp__jinja_node *node;
    eitp__jinja_expect(parser, ".");
    node = eitp__jinja_wrap(parser, EITP__JINJA_NODE_ATTRIBUTE, value);
    if (node && parser->token.kind == EITP__JINJA_NUMBER) {
        node->kind = EITP__JINJA_NODE_ELEMENT;
        node->second = eitp__jinja_parse_number(parser);
    } else {
        eitp__jinja_read_name(parser, node);
    }
    return node;
}

/* Parses attributes, elements and calls after a value. */
static eitp__jinja_node *eitp__jinja_parse_postfix(eitp__jinja_parser *parser, eitp__jinja_node *node) {
    const int depth = parser->depth;
    while (node && parser->status == EITP_OK) {
        if (eitp__jinja_at_operator(parser, ".")) {
            node = eitp__jinja_parse_attribute(parser, node);
        } else if (eitp__jinja_at_operator(parser, "[")) {
            node = eitp__jinja_parse_subscript(parser, node);
        } else if (eitp__jinja_at_operator(parser, "(")) {
            node = eitp__jinja_wrap(parser, EITP__JINJA_NODE_CALL, node);
            if (node)
                node->second = eitp__jinja_parse_arguments(parser);
        } else {
            break;
        }
        eitp__jinja_enter(parser); /* the tree gets deeper */
    }
    parser->depth = depth;
    return node;
}

/* Parses the name of a filter or test, which may contain dots, and finds it. */
static void eitp__jinja_parse_function(eitp__jinja_parser *parser, eitp__jinja_node *node, int is_filter) {
    const eitp__jinja_token name = parser->token;
    if (!node || parser->status != EITP_OK)
        return;
    if (name.kind != EITP__JINJA_NAME) {
        eitp__jinja_unexpected(parser, is_filter ? "the name of a filter" : "the name of a test");
        return;
    }
    node->function =
        is_filter ? eitp__jinja_find_filter(name.text, name.size) : eitp__jinja_find_test(name.text, name.size);
    if (!node->function)
        eitp__jinja_parse_fail(parser, EITP_ERROR_UNSUPPORTED, is_filter ? "unsupported filter " : "unsupported test ",
                               name.text, name.size, "");
    eitp__jinja_advance(parser);
}

EITP__PRIVATE eitp__jinja_node *eitp__jinja_parse_filter(eitp__jinja_parser *parser, eitp__jinja_node *value) {
    eitp__jinja_node *node = eitp__jinja_wrap(parser, EITP__JINJA_NODE_FILTER, value);
    eitp__jinja_parse_function(parser, node, 1);
    if (node && eitp__jinja_at_operator(parser, "("))
        node->second = eitp__jinja_parse_arguments(parser);
    return node;
}

/* Parses a test after `is`. Parentheses around its argument are optional. */
static eitp__jinja_node *eitp__jinja_parse_test(eitp__jinja_parser *parser, eitp__jinja_node *value) {
    const int is_negated = eitp__jinja_accept(parser, "not");
    eitp__jinja_node *node = eitp__jinja_wrap(parser, EITP__JINJA_NODE_TEST, value);
    eitp__jinja_parse_function(parser, node, 0);
    if (!node || parser->status != EITP_OK)
        return NULL;
    if (eitp__jinja_at_operator(parser, "("))
        node->second = eitp__jinja_parse_arguments(parser);
    else if ((parser->token.kind == EITP__JINJA_NAME && !eitp__jinja_at_word(parser, "else") &&
              !eitp__jinja_at_word(parser, "or") && !eitp__jinja_at_word(parser, "and")) ||
             parser->token.kind == EITP__JINJA_TEXT || parser->token.kind == EITP__JINJA_NUMBER ||
             eitp__jinja_at_operator(parser, "[") || eitp__jinja_at_operator(parser, "{"))
        node->second = eitp__jinja_parse_postfix(parser, eitp__jinja_parse_primary(parser));
    return is_negated ? eitp__jinja_wrap(parser, EITP__JINJA_NODE_NOT, node) : node;
}

static eitp__jinja_node *eitp__jinja_parse_name(eitp__jinja_parser *parser) {
    static const char *const reserved[] = {"and", "or", "not", "if", "else", "elif", "in", "is"};
    static const char *const unsupported[] = {"varargs", "kwargs", "self", "super"};
    eitp__jinja_node *node;
    for (size_t i = 0; i < EITP__COUNT(reserved); i++) {
        if (eitp__jinja_at_word(parser, reserved[i])) {
            eitp__jinja_unexpected(parser, "a value");
            return NULL;
        }
    }
    for (size_t i = 0; i < EITP__COUNT(unsupported); i++)
        if (eitp__jinja_at_word(parser, unsupported[i]))
            eitp__jinja_parse_fail(parser, EITP_ERROR_UNSUPPORTED, "unsupported variable ", unsupported[i],
                                   strlen(unsupported[i]), "");
    parser->uses_caller |= eitp__jinja_at_word(parser, "caller");
    node = eitp__jinja_new_node(parser, EITP__JINJA_NODE_CONSTANT);
    if (!node)
        return NULL;
    if (eitp__jinja_at_word(parser, "true") || eitp__jinja_at_word(parser, "True")) {
        node->value = eitp__jinja_boolean(1);
    } else if (eitp__jinja_at_word(parser, "false") || eitp__jinja_at_word(parser, "False")) {
        node->value = eitp__jinja_boolean(0);
    } else if (eitp__jinja_at_word(parser, "none") || eitp__jinja_at_word(parser, "None")) {
        node->value = eitp__jinja_none();
    } else {
        node->kind = EITP__JINJA_NODE_NAME;
        node->text = parser->token.text;
        node->size = parser->token.size;
    }
    eitp__jinja_advance(parser);
    return node;
}

static eitp__jinja_node *eitp__jinja_parse_primary(eitp__jinja_parser *parser) {
    if (parser->status != EITP_OK)
        return NULL;
    if (parser->token.kind == EITP__JINJA_NAME)
        return eitp__jinja_parse_name(parser);
    if (parser->token.kind == EITP__JINJA_TEXT)
        return eitp__jinja_parse_text(parser);
    if (parser->token.kind == EITP__JINJA_NUMBER)
        return eitp__jinja_parse_number(parser);
    if (eitp__jinja_at_operator(parser, "("))
        return eitp__jinja_parse_brackets(parser);
    if (eitp__jinja_at_operator(parser, "["))
        return eitp__jinja_parse_elements(parser, EITP__JINJA_NODE_LIST, "]");
    if (eitp__jinja_at_operator(parser, "{"))
        return eitp__jinja_parse_elements(parser, EITP__JINJA_NODE_DICT, "}");
    eitp__jinja_unexpected(parser, "a value");
    return NULL;
}

/* Parses an operand with its signs. Filters and tests apply to the signed operand, so none are parsed after a sign. */
static eitp__jinja_node *eitp__jinja_parse_unary(eitp__jinja_parser *parser, int with_filters) {
    eitp__jinja_node *node;
    const int is_negative = eitp__jinja_at_operator(parser, "-"), depth = parser->depth;
    if (!eitp__jinja_enter(parser))
        return NULL;
    if (is_negative || eitp__jinja_at_operator(parser, "+")) {
        eitp__jinja_advance(parser);
        node = eitp__jinja_wrap(parser, is_negative ? EITP__JINJA_NODE_NEGATE : EITP__JINJA_NODE_PLUS,
                                eitp__jinja_parse_unary(parser, 0));
    } else {
        node = eitp__jinja_parse_postfix(parser, eitp__jinja_parse_primary(parser));
    }
    while (with_filters && node && parser->status == EITP_OK) {
        if (eitp__jinja_accept(parser, "|"))
            node = eitp__jinja_parse_filter(parser, node);
        else if (eitp__jinja_accept(parser, "is"))
            node = eitp__jinja_parse_test(parser, node);
        else
            break;
        eitp__jinja_enter(parser);
    }
    parser->depth = depth;
    return node;
}

/* ---- operators ---- */

typedef struct eitp__jinja_operator {
    const char *text;
    int level;
    int kind; /* kind of the resulting node */
    int operation;
} eitp__jinja_operator;

static const eitp__jinja_operator eitp__jinja_operators[] = {
    {"or", EITP__JINJA_LEVEL_OR, EITP__JINJA_NODE_OR, 0},
    {"and", EITP__JINJA_LEVEL_AND, EITP__JINJA_NODE_AND, 0},
    {"==", EITP__JINJA_LEVEL_COMPARE, EITP__JINJA_NODE_COMPARE, EITP__JINJA_EQ},
    {"!=", EITP__JINJA_LEVEL_COMPARE, EITP__JINJA_NODE_COMPARE, EITP__JINJA_NE},
    {"<", EITP__JINJA_LEVEL_COMPARE, EITP__JINJA_NODE_COMPARE, EITP__JINJA_LT},
    {"<=", EITP__JINJA_LEVEL_COMPARE, EITP__JINJA_NODE_COMPARE, EITP__JINJA_LE},
    {">", EITP__JINJA_LEVEL_COMPARE, EITP__JINJA_NODE_COMPARE, EITP__JINJA_GT},
    {">=", EITP__JINJA_LEVEL_COMPARE, EITP__JINJA_NODE_COMPARE, EITP__JINJA_GE},
    {"in", EITP__JINJA_LEVEL_COMPARE, EITP__JINJA_NODE_COMPARE, EITP__JINJA_IN},
    {"not", EITP__JINJA_LEVEL_COMPARE, EITP__JINJA_NODE_COMPARE, EITP__JINJA_NOT_IN},
    {"+", EITP__JINJA_LEVEL_ADD, EITP__JINJA_NODE_CHAIN, EITP__JINJA_ADD},
    {"-", EITP__JINJA_LEVEL_ADD, EITP__JINJA_NODE_CHAIN, EITP__JINJA_SUBTRACT},
    {"~", EITP__JINJA_LEVEL_CONCAT, EITP__JINJA_NODE_CONCAT, 0},
    {"*", EITP__JINJA_LEVEL_MULTIPLY, EITP__JINJA_NODE_CHAIN, EITP__JINJA_MULTIPLY},
    {"/", EITP__JINJA_LEVEL_MULTIPLY, EITP__JINJA_NODE_CHAIN, EITP__JINJA_DIVIDE},
    {"//", EITP__JINJA_LEVEL_MULTIPLY, EITP__JINJA_NODE_CHAIN, EITP__JINJA_FLOOR_DIVIDE},
    {"%", EITP__JINJA_LEVEL_MULTIPLY, EITP__JINJA_NODE_CHAIN, EITP__JINJA_MODULO},
    {"**", EITP__JINJA_LEVEL_POWER, EITP__JINJA_NODE_CHAIN, EITP__JINJA_POWER},
};

/* Returns the next operator if it binds at least as tightly as `level`. */
static const eitp__jinja_operator *eitp__jinja_next_operator(const eitp__jinja_parser *parser, int level) {
    for (size_t i = 0; i < EITP__COUNT(eitp__jinja_operators); i++) {
        const eitp__jinja_operator *entry = &eitp__jinja_operators[i];
        eitp__jinja_token after;
        if (!eitp__jinja_at_operator(parser, entry->text) && !eitp__jinja_at_word(parser, entry->text))
            continue;
        if (entry->operation == EITP__JINJA_NOT_IN) {
            after = eitp__jinja_peek(parser);
            if (!eitp__jinja_is(&after, EITP__JINJA_NAME, "in"))
                return NULL;
        }
        return entry->level >= level ? entry : NULL;
    }
    return NULL;
}

/* Parses operators of one level and their right operands into one node, so that a chain does not deepen the tree. */
static eitp__jinja_node *eitp__jinja_parse_chain(eitp__jinja_parser *parser, eitp__jinja_node *first,
                                                 const eitp__jinja_operator *entry) {
    const int level = entry->level, kind = entry->kind;
    const int has_links = kind == EITP__JINJA_NODE_CHAIN || kind == EITP__JINJA_NODE_COMPARE;
    eitp__jinja_node *node = eitp__jinja_wrap(parser, kind, first);
    eitp__jinja_nodes operands = {first, first}, links = {NULL, NULL};
    while (node && entry && entry->level == level && parser->status == EITP_OK) {
        eitp__jinja_node *link = has_links ? eitp__jinja_new_node(parser, EITP__JINJA_NODE_LINK) : NULL;
        eitp__jinja_node *operand;
        eitp__jinja_advance(parser);
        if (entry->operation == EITP__JINJA_NOT_IN)
            eitp__jinja_advance(parser);
        operand = eitp__jinja_parse_level(parser, level + 1);
        if (link) {
            link->operation = entry->operation;
            link->first = operand;
            eitp__jinja_append(&links, link);
        } else {
            eitp__jinja_append(&operands, operand);
        }
        entry = eitp__jinja_next_operator(parser, level);
    }
    if (node)
        node->second = links.first;
    return parser->status == EITP_OK ? node : NULL;
}

/* Parses an expression whose operators bind at least as tightly as `level`. */
static eitp__jinja_node *eitp__jinja_parse_level(eitp__jinja_parser *parser, int level) {
    const eitp__jinja_operator *entry;
    const int depth = parser->depth;
    eitp__jinja_node *node;
    if (!eitp__jinja_enter(parser))
        return NULL;
    if (level <= EITP__JINJA_LEVEL_NOT && eitp__jinja_at_word(parser, "not")) {
        eitp__jinja_advance(parser);
        node = eitp__jinja_wrap(parser, EITP__JINJA_NODE_NOT, eitp__jinja_parse_level(parser, EITP__JINJA_LEVEL_NOT));
    } else {
        node = eitp__jinja_parse_unary(parser, 1);
    }
    while (node && (entry = eitp__jinja_next_operator(parser, level)) != NULL)
        node = eitp__jinja_parse_chain(parser, node, entry);
    parser->depth = depth;
    return node;
}

EITP__PRIVATE eitp__jinja_node *eitp__jinja_parse_expression(eitp__jinja_parser *parser) {
    const int depth = parser->depth;
    eitp__jinja_node *node = eitp__jinja_parse_level(parser, EITP__JINJA_LEVEL_OR);
    while (node && eitp__jinja_accept(parser, "if")) {
        eitp__jinja_node *condition = eitp__jinja_wrap(parser, EITP__JINJA_NODE_CONDITION, node);
        if (!condition || !eitp__jinja_enter(parser))
            return NULL;
        condition->second = eitp__jinja_parse_level(parser, EITP__JINJA_LEVEL_OR);
        if (eitp__jinja_accept(parser, "else"))
            condition->third = eitp__jinja_parse_expression(parser);
        node = condition;
    }
    parser->depth = depth;
    return parser->status == EITP_OK ? node : NULL;
}
