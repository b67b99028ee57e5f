/* Statements: the content of {% %}, and the text around them. */
#include "template/jinja_expressions.h"

static eitp__jinja_node *eitp__jinja_parse_body(eitp__jinja_parser *parser, const char *first_end,
                                                const char *second_end, const char *third_end);

static void eitp__jinja_end_block(eitp__jinja_parser *parser) {
    if (parser->status == EITP_OK && parser->token.kind != EITP__JINJA_BLOCK_END)
        eitp__jinja_unexpected(parser, "the end of the block");
    eitp__jinja_advance(parser);
}

/* Parses the statements of a block, up to and including its end. */
static eitp__jinja_node *eitp__jinja_parse_block(eitp__jinja_parser *parser, const char *end) {
    eitp__jinja_node *body;
    eitp__jinja_end_block(parser);
    body = eitp__jinja_parse_body(parser, end, NULL, NULL);
    eitp__jinja_advance(parser);
    eitp__jinja_end_block(parser);
    return body;
}

static eitp__jinja_node *eitp__jinja_parse_if(eitp__jinja_parser *parser, eitp__jinja_node *node) {
    eitp__jinja_node *branch = node;
    node->first = eitp__jinja_parse_tuple(parser, EITP__JINJA_LEVEL_OR);
    eitp__jinja_end_block(parser);
    node->second = eitp__jinja_parse_body(parser, "elif", "else", "endif");
    while (branch && parser->status == EITP_OK && !eitp__jinja_accept(parser, "endif")) {
        const int is_else = eitp__jinja_at_word(parser, "else");
        branch->third = eitp__jinja_new_node(parser, EITP__JINJA_NODE_IF);
        branch = branch->third;
        eitp__jinja_advance(parser);
        if (branch && !is_else)
            branch->first = eitp__jinja_parse_tuple(parser, EITP__JINJA_LEVEL_OR);
        eitp__jinja_end_block(parser);
        if (branch)
            branch->second = is_else ? eitp__jinja_parse_body(parser, "endif", NULL, NULL)
                                     : eitp__jinja_parse_body(parser, "elif", "else", "endif");
    }
    eitp__jinja_end_block(parser);
    return node;
}

/* Reads a name to which a value is assigned. */
static void eitp__jinja_read_target(eitp__jinja_parser *parser, eitp__jinja_node *node) {
    static const char *const constants[] = {"true", "false", "none", "True", "False", "None"};
    for (size_t i = 0; i < EITP__COUNT(constants); i++)
        if (eitp__jinja_at_word(parser, constants[i]))
            eitp__jinja_unexpected(parser, "the name of a variable");
    eitp__jinja_read_name(parser, node);
}

/* Parses the target of an assignment: a name, or names in a tuple. */
static eitp__jinja_node *eitp__jinja_parse_target(eitp__jinja_parser *parser) {
    const int in_brackets = eitp__jinja_accept(parser, "(");
    eitp__jinja_nodes names = {NULL, NULL};
    eitp__jinja_node *node;
    int is_tuple = 0;
    do {
        if (names.first && eitp__jinja_tuple_ends(parser))
            break;
        node = eitp__jinja_at_operator(parser, "(") && eitp__jinja_enter(parser)
                   ? eitp__jinja_parse_target(parser)
                   : eitp__jinja_new_node(parser, EITP__JINJA_NODE_NAME);
        if (node && node->kind == EITP__JINJA_NODE_NAME && !node->text)
            eitp__jinja_read_target(parser, node);
        eitp__jinja_append(&names, node);
        is_tuple |= eitp__jinja_at_operator(parser, ",");
    } while (eitp__jinja_accept(parser, ","));
    if (in_brackets)
        eitp__jinja_expect(parser, ")");
    return is_tuple ? eitp__jinja_wrap(parser, EITP__JINJA_NODE_TUPLE, names.first) : names.first;
}

static eitp__jinja_node *eitp__jinja_parse_for(eitp__jinja_parser *parser, eitp__jinja_node *node) {
    node->first = eitp__jinja_parse_target(parser);
    eitp__jinja_expect(parser, "in");
    node->second = eitp__jinja_parse_tuple(parser, EITP__JINJA_LEVEL_OR);
    if (eitp__jinja_accept(parser, "if"))
        node->third = eitp__jinja_parse_expression(parser);
    if (eitp__jinja_at_word(parser, "recursive"))
        eitp__jinja_parse_fail(parser, EITP_ERROR_UNSUPPORTED, "unsupported ", "recursive", 9, " loop");
    eitp__jinja_end_block(parser);
    parser->loops++;
    node->body = eitp__jinja_parse_body(parser, "else", "endfor", NULL);
    parser->loops--;
    if (eitp__jinja_accept(parser, "else")) {
        eitp__jinja_end_block(parser);
        node->other = eitp__jinja_parse_body(parser, "endfor", NULL, NULL);
    }
    eitp__jinja_expect(parser, "endfor");
    eitp__jinja_end_block(parser);
    return node;
}

/* Parses the filters of a block's output: "| name | name". */
static eitp__jinja_node *eitp__jinja_parse_filters(eitp__jinja_parser *parser, int has_bar) {
    const int depth = parser->depth;
    eitp__jinja_node *node = eitp__jinja_new_node(parser, EITP__JINJA_NODE_CAPTURED);
    while (node && (!has_bar || eitp__jinja_accept(parser, "|")) && eitp__jinja_enter(parser)) {
        node = eitp__jinja_parse_filter(parser, node);
        has_bar = 1;
    }
    parser->depth = depth;
    return node;
}

static eitp__jinja_node *eitp__jinja_parse_set(eitp__jinja_parser *parser, eitp__jinja_node *node) {
    const eitp__jinja_token after = eitp__jinja_peek(parser);
    if (eitp__jinja_is(&after, EITP__JINJA_OPERATOR, ".")) {
        node->first = eitp__jinja_new_node(parser, EITP__JINJA_NODE_MEMBER);
        eitp__jinja_read_name(parser, node->first);
        eitp__jinja_expect(parser, ".");
        if (node->first) {
            node->first->second = eitp__jinja_new_node(parser, EITP__JINJA_NODE_NAME);
            eitp__jinja_read_name(parser, node->first->second);
        }
    } else {
        node->first = eitp__jinja_parse_target(parser);
    }
    if (eitp__jinja_accept(parser, "=")) {
        node->second = eitp__jinja_parse_tuple(parser, 0);
        eitp__jinja_end_block(parser);
        return node;
    }
    node->kind = EITP__JINJA_NODE_SET_BLOCK;
    node->second = eitp__jinja_parse_filters(parser, 1);
    node->body = eitp__jinja_parse_block(parser, "endset");
    return node;
}

static eitp__jinja_node *eitp__jinja_parse_filtered(eitp__jinja_parser *parser, eitp__jinja_node *node) {
    node->second = eitp__jinja_parse_filters(parser, 0);
    node->body = eitp__jinja_parse_block(parser, "endfilter");
    return node;
}

static eitp__jinja_node *eitp__jinja_parse_with(eitp__jinja_parser *parser, eitp__jinja_node *node) {
    eitp__jinja_nodes sets = {NULL, NULL};
    while (parser->status == EITP_OK && parser->token.kind != EITP__JINJA_BLOCK_END) {
        eitp__jinja_node *set = eitp__jinja_new_node(parser, EITP__JINJA_NODE_SET);
        if (sets.first)
            eitp__jinja_expect(parser, ",");
        if (!set)
            break;
        set->first = eitp__jinja_new_node(parser, EITP__JINJA_NODE_NAME);
        eitp__jinja_read_name(parser, set->first);
        eitp__jinja_expect(parser, "=");
        set->second = eitp__jinja_parse_expression(parser);
        eitp__jinja_append(&sets, set);
    }
    node->first = sets.first;
    node->body = eitp__jinja_parse_block(parser, "endwith");
    return node;
}

/* Parses "(name, name=default)". */
static eitp__jinja_node *eitp__jinja_parse_parameters(eitp__jinja_parser *parser) {
    eitp__jinja_nodes parameters = {NULL, NULL};
    eitp__jinja_expect(parser, "(");
    while (parser->status == EITP_OK && !eitp__jinja_at_operator(parser, ")")) {
        eitp__jinja_node *parameter;
        if (parameters.first)
            eitp__jinja_expect(parser, ",");
        parameter = eitp__jinja_new_node(parser, EITP__JINJA_NODE_NAME);
        eitp__jinja_read_name(parser, parameter);
        if (parameter && eitp__jinja_accept(parser, "="))
            parameter->first = eitp__jinja_parse_expression(parser);
        else if (parameters.last && parameters.last->first)
            eitp__jinja_unexpected(parser, "a default, because the parameter before it has one");
        eitp__jinja_append(&parameters, parameter);
    }
    eitp__jinja_expect(parser, ")");
    return parameters.first;
}

static eitp__jinja_node *eitp__jinja_parse_macro(eitp__jinja_parser *parser, eitp__jinja_node *node) {
    const int loops = parser->loops, uses_caller = parser->uses_caller;
    eitp__jinja_read_name(parser, node);
    node->first = eitp__jinja_parse_parameters(parser);
    parser->loops = parser->uses_caller = 0;
    node->body = eitp__jinja_parse_block(parser, "endmacro");
    node->operation = parser->uses_caller;
    parser->loops = loops;
    parser->uses_caller = uses_caller;
    return node;
}

static eitp__jinja_node *eitp__jinja_parse_call_block(eitp__jinja_parser *parser, eitp__jinja_node *node) {
    const int loops = parser->loops;
    if (eitp__jinja_at_operator(parser, "("))
        node->first = eitp__jinja_parse_parameters(parser);
    node->text = "caller";
    node->size = strlen(node->text);
    node->second = eitp__jinja_parse_expression(parser);
    if (node->second && node->second->kind != EITP__JINJA_NODE_CALL)
        eitp__jinja_unexpected(parser, "a call before it");
    parser->loops = 0;
    node->body = eitp__jinja_parse_block(parser, "endcall");
    parser->loops = loops;
    return node;
}

static eitp__jinja_node *eitp__jinja_parse_generation(eitp__jinja_parser *parser, eitp__jinja_node *node) {
    const int loops = parser->loops;
    parser->loops = 0;
    node->body = eitp__jinja_parse_block(parser, "endgeneration");
    parser->loops = loops;
    return node;
}

/* Parses break and continue. */
static eitp__jinja_node *eitp__jinja_parse_jump(eitp__jinja_parser *parser, eitp__jinja_node *node) {
    if (!parser->loops && parser->status == EITP_OK)
        parser->status =
            eitp__jinja_fail_at(parser->error, EITP_ERROR_FORMAT, parser->lexer.text, node->offset,
                                "'%s' outside a loop", node->kind == EITP__JINJA_NODE_BREAK ? "break" : "continue");
    eitp__jinja_end_block(parser);
    return node;
}

/* Parses the statement whose name is next. */
static eitp__jinja_node *eitp__jinja_parse_statement(eitp__jinja_parser *parser) {
    static const struct {
        const char *name;
        int kind;
        eitp__jinja_node *(*parse)(eitp__jinja_parser *parser, eitp__jinja_node *node);
    } statements[] = {
        {"if", EITP__JINJA_NODE_IF, eitp__jinja_parse_if},
        {"for", EITP__JINJA_NODE_FOR, eitp__jinja_parse_for},
        {"set", EITP__JINJA_NODE_SET, eitp__jinja_parse_set},
        {"filter", EITP__JINJA_NODE_FILTERED, eitp__jinja_parse_filtered},
        {"with", EITP__JINJA_NODE_WITH, eitp__jinja_parse_with},
        {"macro", EITP__JINJA_NODE_MACRO, eitp__jinja_parse_macro},
        {"call", EITP__JINJA_NODE_CALL_BLOCK, eitp__jinja_parse_call_block},
        {"generation", EITP__JINJA_NODE_GENERATION, eitp__jinja_parse_generation},
        {"break", EITP__JINJA_NODE_BREAK, eitp__jinja_parse_jump},
        {"continue", EITP__JINJA_NODE_CONTINUE, eitp__jinja_parse_jump},
    };
    const int is_end =
        parser->token.size > 3 && (!memcmp(parser->token.text, "end", 3) || !memcmp(parser->token.text, "else", 4) ||
                                   !memcmp(parser->token.text, "elif", 4));
    const int depth = parser->depth;
    if (parser->token.kind != EITP__JINJA_NAME) {
        eitp__jinja_unexpected(parser, "the name of a statement");
        return NULL;
    }
    for (size_t i = 0; i < EITP__COUNT(statements); i++) {
        eitp__jinja_node *node;
        if (!eitp__jinja_at_word(parser, statements[i].name))
            continue;
        node = eitp__jinja_new_node(parser, statements[i].kind);
        eitp__jinja_advance(parser);
        if (node && eitp__jinja_enter(parser))
            node = statements[i].parse(parser, node);
        parser->depth = depth;
        return parser->status == EITP_OK ? node : NULL;
    }
    eitp__jinja_parse_fail(parser, is_end ? EITP_ERROR_FORMAT : EITP_ERROR_UNSUPPORTED,
                           is_end ? "unexpected " : "unsupported statement ", parser->token.text, parser->token.size,
                           "");
    return NULL;
}

/* Parses statements up to the block that starts with one of these words, which is then the next token. Without words,
   parses up to the end of the template. */
static eitp__jinja_node *eitp__jinja_parse_body(eitp__jinja_parser *parser, const char *first_end,
                                                const char *second_end, const char *third_end) {
    eitp__jinja_nodes body = {NULL, NULL};
    while (parser->status == EITP_OK) {
        eitp__jinja_node *node = NULL;
        if (parser->token.kind == EITP__JINJA_END) {
            if (first_end)
                eitp__jinja_parse_fail(parser, EITP_ERROR_FORMAT, "",
                                       third_end    ? third_end
                                       : second_end ? second_end
                                                    : first_end,
                                       strlen(third_end    ? third_end
                                              : second_end ? second_end
                                                           : first_end),
                                       " is missing");
            break;
        }
        if (parser->token.kind == EITP__JINJA_DATA) {
            node = eitp__jinja_new_node(parser, EITP__JINJA_NODE_DATA);
            if (node) {
                node->text = parser->token.text;
                node->size = parser->token.size;
            }
            eitp__jinja_advance(parser);
        } else if (parser->token.kind == EITP__JINJA_OUTPUT_BEGIN) {
            eitp__jinja_advance(parser);
            node = eitp__jinja_wrap(parser, EITP__JINJA_NODE_OUTPUT, eitp__jinja_parse_tuple(parser, 0));
            if (parser->status == EITP_OK && parser->token.kind != EITP__JINJA_OUTPUT_END)
                eitp__jinja_unexpected(parser, "'}}'");
            eitp__jinja_advance(parser);
        } else {
            eitp__jinja_advance(parser);
            if ((first_end && eitp__jinja_at_word(parser, first_end)) ||
                (second_end && eitp__jinja_at_word(parser, second_end)) ||
                (third_end && eitp__jinja_at_word(parser, third_end)))
                break;
            if (parser->status == EITP_OK)
                node = eitp__jinja_parse_statement(parser);
        }
        eitp__jinja_append(&body, node);
    }
    return body.first;
}

EITP__PRIVATE eitp_status eitp__jinja_parse(eitp__jinja_memory *memory, const char *text, size_t size,
                                            eitp__jinja_node **statements, eitp_error *error) {
    eitp__jinja_parser parser;
    memset(&parser, 0, sizeof parser);
    parser.memory = memory;
    parser.error = error;
    eitp__jinja_lexer_init(&parser.lexer, text, size);
    eitp__jinja_advance(&parser);
    *statements = eitp__jinja_parse_body(&parser, NULL, NULL, NULL);
    return parser.status;
}
