/* Chat templates compared with jinja2 as configured by transformers; their spans, errors and bounds. */
#include "tests/support/everything.h"

#include "tests/support/faults.h"
#include "tests/support/test.h"

#include <pthread.h>

#define GOLDEN "tests/golden/chat_templates/cases.json"

static eitp_error error_;
static eitp_host host_; /* buffers keep its address */

/* The result of a rendering. */
typedef struct rendering {
    eitp_status status;
    eitp__buffer text;
    eitp__chat_spans spans;
} rendering;

static void render_with(const eitp_host *host, const char *text, size_t size, const eitp__chat_context *context,
                        rendering *result) {
    eitp__chat_template *chat_template = NULL;
    memset(result, 0, sizeof *result);
    eitp__buffer_init(&result->text, host);
    result->status = eitp__chat_template_parse(host, text, size, &chat_template, &error_);
    CHECK((result->status == EITP_OK) == (chat_template != NULL));
    if (result->status == EITP_OK)
        result->status = eitp__chat_template_render(chat_template, context, &result->text, &result->spans, &error_);
    eitp__chat_template_release(chat_template);
}

static void release(const eitp_host *host, rendering *result) {
    eitp__buffer_release(&result->text);
    eitp__chat_spans_release(host, &result->spans);
}

/* True if the rendering printed exactly this text. */
static int has_text(const rendering *result, const char *text, size_t size) {
    return result->status == EITP_OK && result->text.size == size && (!size || !memcmp(result->text.data, text, size));
}

static void agrees_with_jinja2(void) {
    eitp_json_document *document;
    eitp__chat_context context = EITP__ZERO;
    const eitp_json *cases;
    size_t count = 0;
    REQUIRE_OK(eitp__json_read_strict_file(&host_, GOLDEN, 1 << 20, &document, &error_), error_);
    context.object = eitp_json_member(eitp_json_root(document), "context");
    context.now = eitp_json_member(eitp_json_root(document), "now")->integer;
    cases = eitp_json_member(eitp_json_root(document), "cases");
    for (const eitp_json *entry = cases->first_child; entry; entry = entry->next, count++) {
        const eitp_json *source = entry->first_child, *expected = source->next;
        rendering result;
        render_with(&host_, source->text, source->text_size, &context, &result);
        if (expected)
            CHECK_THAT(has_text(&result, expected->text, expected->text_size), "%s: expected %s, got %s", source->text,
                       expected->text, result.status ? error_.message : result.text.data);
        else
            CHECK_THAT(result.status == EITP_ERROR_ARGUMENT || result.status == EITP_ERROR_FORMAT ||
                           result.status == EITP_ERROR_UNSUPPORTED,
                       "%s: expected a failure, got %s", source->text, result.text.data);
        release(&host_, &result);
    }
    CHECK(count > 1500);
    eitp_json_release(document);
}

/* Renders a template with a JSON context. */
static rendering render(const char *text, const char *json) {
    eitp_json_document *document = NULL;
    eitp__chat_context context = EITP__ZERO;
    rendering result;
    CHECK_THAT(!eitp_json_parse(&host_, json, strlen(json), &document, &error_), "%s", error_.message);
    context.object = eitp_json_root(document);
    render_with(&host_, text, strlen(text), &context, &result);
    eitp_json_release(document);
    return result;
}

static void check_failure(const char *text, const char *json, eitp_status status, const char *message) {
    rendering result = render(text, json);
    CHECK_THAT(result.status == status && error_.status == status && strstr(error_.message, message),
               "%.80s: expected status %d and '%s', got %d and '%s'", text, (int)status, message, (int)result.status,
               result.status      ? error_.message
               : result.text.data ? result.text.data
                                  : "");
    CHECK(result.text.size == 0 && result.spans.count == 0);
    release(&host_, &result);
}

static void errors_have_positions(void) {
    static const struct {
        const char *text;
        eitp_status status;
        const char *message;
    } cases[] = {
        {"a\n  {{ x|batch(3) }}", EITP_ERROR_UNSUPPORTED,
         "chat template, line 2, column 8: unsupported filter 'batch'"},
        {"{{ x is nope }}", EITP_ERROR_UNSUPPORTED, "line 1, column 9: unsupported test 'nope'"},
        {"\xc3\xa9{% include 'x' %}", EITP_ERROR_UNSUPPORTED, "line 1, column 5: unsupported statement 'include'"},
        {"{% for x in y recursive %}{% endfor %}", EITP_ERROR_UNSUPPORTED, "'recursive'"},
        {"{{ varargs }}", EITP_ERROR_UNSUPPORTED, "unsupported variable 'varargs'"},
        {"{{ 99999999999999999999 }}", EITP_ERROR_UNSUPPORTED, "unsupported number '99999999999999999999'"},
        {"{{ '\\N{BULLET}' }}", EITP_ERROR_UNSUPPORTED, "unsupported escape '\\N'"},
        {"{% if a %}\n\n", EITP_ERROR_FORMAT, "'endif' is missing"},
        {"{{ a b }}", EITP_ERROR_FORMAT, "line 1, column 6: unexpected 'b', expected '}}'"},
        {"{% endfor %}", EITP_ERROR_FORMAT, "line 1, column 4: unexpected 'endfor'"},
        {"\n\n{{ 'a }}", EITP_ERROR_FORMAT, "line 3, column 4: unclosed string"},
        {"{# a", EITP_ERROR_FORMAT, "unclosed comment"},
        {"{{ (1] }}", EITP_ERROR_FORMAT, "unexpected ']'"},
        {"{{ a", EITP_ERROR_FORMAT, "unclosed tag"},
        {"{% break %}", EITP_ERROR_FORMAT, "'break' outside a loop"},
        {"a\xff", EITP_ERROR_FORMAT, "invalid UTF-8 at byte 1"},
        {"a\n{{ raise_exception('Roles must\nalternate') }}", EITP_ERROR_ARGUMENT,
         "chat template, line 2, column 19: Roles must alternate"},
        {"\n{{ x.y.z }}", EITP_ERROR_ARGUMENT, "line 2, column 6: 'x' is undefined"},
        {"{{ d.q.z }}", EITP_ERROR_ARGUMENT, "a value of type dict has no attribute 'q'"},
        {"{{ 'a' + 1 }}", EITP_ERROR_ARGUMENT, "line 1, column 8: unsupported operands of '+': str and int"},
        {"{{ f() }}", EITP_ERROR_ARGUMENT, "'f' is undefined"},
        {"{{ [].append(1) }}", EITP_ERROR_ARGUMENT, "access to attribute 'append' is unsafe"},
        {"{{ d.items }}", EITP_ERROR_UNSUPPORTED, "a value of type method cannot be printed"},
        {"{{ cycler(1) }}", EITP_ERROR_UNSUPPORTED, "'cycler'"},
        {"{{ 9223372036854775807 + 1 }}", EITP_ERROR_UNSUPPORTED, "integer beyond 64 bits"},
        {"{{ '\xc3\x9f'|upper }}", EITP_ERROR_UNSUPPORTED, "U+00DF"},
        {"{{ '%1001d' % 5 }}", EITP_ERROR_UNSUPPORTED, "unsupported conversion"},
        {"{{ strftime_now('%Q') }}", EITP_ERROR_UNSUPPORTED, "'%Q'"},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++)
        check_failure(cases[i].text, "{\"d\":{}}", cases[i].status, cases[i].message);
}

/* ---- spans ---- */

#define CONVERSATION                                                                                                   \
    "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"U\xc3\xa9\"},"            \
    "{\"role\":\"assistant\",\"content\":\"A\",\"parts\":[\"p\",\"q\"]},{\"role\":\"user\",\"content\":\"V\"}]}"

/* Compares the spans, formatted as in "m1:0-2 g1:1-2". */
static void check_spans(const char *text, const char *output, const char *expected, size_t hidden) {
    rendering result = render(text, CONVERSATION);
    char found[512] = "";
    size_t length = 0;
    for (size_t i = 0; i < result.spans.count; i++) {
        const eitp__chat_span *span = &result.spans.spans[i];
        length += (size_t)snprintf(found + length, sizeof found - length, "%s%c%d:%zu-%zu", i ? " " : "",
                                   span->kind == EITP__CHAT_SPAN_MESSAGE ? 'm' : 'g', (int)span->message, span->begin,
                                   span->end);
    }
    CHECK_THAT(has_text(&result, output, strlen(output)), "%s: got %s", text,
               result.status ? error_.message : result.text.data);
    CHECK_THAT(!strcmp(found, expected), "%s: expected %s, got %s", text, expected, found);
    CHECK_THAT(result.spans.hidden == hidden, "%s: %zu hidden", text, result.spans.hidden);
    release(&host_, &result);
}

static void spans_follow_messages(void) {
    /* Every message has a span. Text around messages has none. */
    check_spans("<{% for m in messages %}{{ m.content }};{% endfor %}>", "<S;U\xc3\xa9;A;V;>",
                "m0:1-3 m1:3-7 m2:7-9 m3:9-11", 0);
    /* Lists derived from the conversation contain the same messages. */
    check_spans("{% set l = messages[1:] %}{% for m in l %}{{ m.role[0] }}{% endfor %}", "uau", "m1:0-1 m2:1-2 m3:2-3",
                0);
    check_spans("{% for m in messages|list %}{{ m.role[0] }}{% endfor %}", "suau", "m0:0-1 m1:1-2 m2:2-3 m3:3-4", 0);
    check_spans("{% for m in messages[::-1] %}{{ m.role[0] }}{% endfor %}", "uaus", "m3:0-1 m2:1-2 m1:2-3 m0:3-4", 0);
    check_spans("{% for m in messages|selectattr('role', 'equalto', 'user') %}{{ m.content }}{% endfor %}",
                "U\xc3\xa9V", "m1:0-3 m3:3-4", 0);
    check_spans("{% for m in messages if m.role == 'assistant' %}{{ m.content }}{% endfor %}", "A", "m2:0-1", 0);
    check_spans("{% for m in messages|sort(attribute='content') %}{{ m.content }}{% endfor %}", "ASU\xc3\xa9V",
                "m2:0-1 m0:1-2 m1:2-5 m3:5-6", 0);
    check_spans("{% for i, m in [[7, messages[2]]] %}{{ i }}{% endfor %}", "7", "m2:0-1", 0);
    check_spans("{% set ns = namespace(l=[messages[3], messages[1]]) %}{% for m in ns.l %}x{% endfor %}", "xx",
                "m3:0-1 m1:1-2", 0);
    /* A copy is a different dict, even if it is equal. */
    check_spans("{% for m in [dict(messages[0], role='x')] %}{{ m.role }}{% endfor %}", "x", "", 0);
    /* Some messages print nothing, and one is printed in pieces. */
    check_spans("{% for m in messages %}{% if loop.index0 == 2 %}{{ m.content }}{% endif %}{% endfor %}"
                "-{% for m in messages[2:3] %}{{ m.role }}{% endfor %}",
                "A-assistant", "m2:0-1 m2:2-11", 0);
    /* Loops over parts belong to the enclosing message. Loops over messages have their own spans. */
    check_spans("{% for m in messages %}{% for p in m.parts %}{{ p }}{% endfor %}{% endfor %}", "pq", "m2:0-2", 0);
    check_spans("{% for m in messages[:1] %}a{% for n in messages[2:] %}b{% endfor %}c{% endfor %}", "abbc",
                "m0:0-1 m2:1-2 m3:2-3 m0:3-4", 0);
    check_spans("{% for m in messages[:1] %}a{% for n in messages[:1] %}b{% endfor %}c{% endfor %}", "abc", "m0:0-3",
                0);
    check_spans("{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% break %}{% endif %}{% endfor %}x",
                "U\xc3\xa9x", "m1:0-3", 0);
}

static void spans_in_macros_and_blocks(void) {
    /* A macro's output has a position if it is printed unchanged. */
    check_spans("{% macro f(l) %}{% for m in l %}{{ m.content }}{% endfor %}{% endmacro %}<{{ f(messages[:2]) }}>",
                "<SU\xc3\xa9>", "m0:1-2 m1:2-5", 0);
    check_spans("{% macro f(l) %}{% for m in l %}{{ m.role[0] }}{% endfor %}{% endmacro %}{{ f(messages)|upper }}",
                "SUAU", "", 4);
    check_spans("{% set x %}{% for m in messages %}{{ m.role[0] }}{% endfor %}{% endset %}{{ x }}", "suau", "", 4);
    check_spans("{% macro f(m) %}[{{ m.role }}]{% endmacro %}{% for m in messages[:2] %}{{ f(m) ~ '!' }}{% endfor %}",
                "[system]![user]!", "m0:0-9 m1:9-16", 0);
}

static void spans_of_generation(void) {
    check_spans("{% for m in messages %}{{ m.role[0] }}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}."
                "{% endgeneration %}{% endif %}{% endfor %}",
                "suaA.u", "m0:0-1 m1:1-2 g2:3-5 m2:2-5 m3:5-6", 0);
    check_spans("{% generation %}{% endgeneration %}a{% generation %}b{% endgeneration %}", "ab", "g-1:0-0 g-1:1-2", 0);
    check_spans("{% set x %}{% generation %}b{% endgeneration %}{% endset %}{{ x }}", "b", "", 1);
}

static void spans_begin_at_what_is_appended(void) {
    eitp_json_document *document = NULL;
    eitp__chat_template *chat_template = NULL;
    eitp__chat_context context = EITP__ZERO;
    eitp__chat_spans spans = EITP__ZERO;
    eitp__buffer text;
    const char *source = "{{ n }}{% for m in messages %}{{ m }}{{ x }}{% endfor %}{{ 'a' + y }}";
    const eitp__chat_variable variables[] = {{"messages", EITP__CHAT_NONE, 0, NULL, NULL},
                                             {"x", EITP__CHAT_TEXT, 0, "!", NULL},
                                             {"y", EITP__CHAT_BOOLEAN, 1, NULL, NULL},
                                             {"n", EITP__CHAT_NONE, 0, NULL, NULL}};
    eitp__chat_variable used[4];
    memcpy(used, variables, sizeof used);
    REQUIRE_OK(eitp_json_parse(&host_, "[{\"a\":1}]", 9, &document, &error_), error_);
    REQUIRE_OK(eitp__chat_template_parse(&host_, source, strlen(source), &chat_template, &error_), error_);
    eitp__buffer_init(&text, &host_);
    eitp__buffer_add_text(&text, "before");
    used[0].kind = EITP__CHAT_JSON;
    used[0].json = eitp_json_root(document);
    context.variables = used;
    context.variable_count = 4;
    /* A boolean cannot be added to a string. Text that was already printed is removed. */
    CHECK(eitp__chat_template_render(chat_template, &context, &text, &spans, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(!strcmp(text.data, "before") && text.size == 6 && spans.count == 0);
    used[2].kind = EITP__CHAT_TEXT;
    used[2].text = "b";
    for (int i = 0; i < 2; i++) {
        CHECK(eitp__chat_template_render(chat_template, &context, &text, &spans, &error_) == EITP_OK);
        CHECK(spans.count == (size_t)i + 1 && spans.spans[i].begin == 4 && spans.spans[i].end == 13);
    }
    CHECK_THAT(!strcmp(text.data, "beforeNone{'a': 1}!abNone{'a': 1}!ab"), "%s", text.data);
    CHECK(eitp__chat_template_render(chat_template, &context, &text, NULL, &error_) == EITP_OK);
    eitp__chat_spans_release(&host_, &spans);
    eitp__buffer_release(&text);
    eitp__chat_template_release(chat_template);
    eitp_json_release(document);
}

/* ---- bounds ---- */

static void what_a_template_takes_is_bounded(void) {
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"{% set l = range(99999) %}{% for a in l %}{% for b in l %}{% endfor %}{% endfor %}",
         "more than 10000000 steps"},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "deeper than 100"},
        {"{% macro f() %}{{ f() ~ f() }}{% endmacro %}{{ f() }}", "deeper than 100"},
        {"{% macro f(x) %}{% for i in [1] %}{% if x %}{{ f(x) }}{% endif %}{% endfor %}{% endmacro %}{{ f([1]) }}",
         "deeper than 100"},
        {"{{ 'ab' * 999999999999 }}", "exceeds the limit of 16777216 bytes"},
        {"{{ [1, 2] * 999999999999 }}", "more than"},
        {"{{ 'a'.ljust(999999999999) }}", "more than 10000000 steps"},
        {"{{ 'a'|indent(999999999999, true) }}", "more than 10000000 steps"},
        {"{{ range(999999999999)|length }}", "range: more than 100000 values"},
        {"{% set ns = namespace(s='abcdefgh') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
         "exceeds the limit of 16777216 bytes"},
        {"{% set ns = namespace(s='x' * 1000000) %}{% for i in range(999) %}{% set ns.s = ns.s + 'x' %}{% endfor %}",
         "values need more than 134.2 MB"},
        {"{% set ns = namespace(l=[]) %}{% for i in range(99) %}{% set ns.l = [ns.l] %}{% endfor %}",
         "nested deeper than 72"},
        {"{% set ns = namespace(l={}) %}{% for i in range(99) %}{% set ns.l = {'a': ns.l} %}{% endfor %}",
         "nested deeper than 72"},
        {"{% set s = 'x' * 10000 %}{% for i in range(9999) %}{{ s }}{% endfor %}",
         "the output exceeds the limit of 16777216"},
        {"{% set s = 'x' * 10000 %}{% set x %}{% for i in range(9999) %}{{ s }}{% endfor %}{% endset %}",
         "exceeds the limit"},
        {"{% set s = 'a' * 1000000 %}{% for i in range(99999) %}{% if 'b' in s %}{% endif %}{% endfor %}", "steps"},
        {"{% set s = 'a' * 1000000 %}{% for i in range(99999) %}{% if s|length == 0 %}{% endif %}{% endfor %}",
         "steps"},
        {"{% set s = 'a' * 1000000 %}{% for i in range(99999) %}{% set t = s[999998] %}{% endfor %}", "steps"},
        {"{% set s = 'ab' * 500000 %}{% for i in range(99999) %}{% set t = s.split('b') %}{% endfor %}", "more than"},
        {"{{ 1 if 'a' * 10000000 in ['a' * 10000000] * 9999 }}", "steps"},
        {"{{ (range(99999)|list * 9)|unique|list|length }}", "steps"},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i += (size_t)test_stride(1, 3))
        check_failure(cases[i].text, "{}", EITP_ERROR_ARGUMENT, cases[i].message);
}

/* Builds a template of `count` times `open`, then `middle`, then `count` times `close`. */
static char *nest(const char *open, const char *middle, const char *close, size_t count) {
    const size_t begin = strlen(open), end = strlen(close), length = strlen(middle);
    char *text = (char *)malloc(count * (begin + end) + length + 1), *at = text;
    for (size_t i = 0; i < count; i++, at += begin)
        memcpy(at, open, begin);
    memcpy(at, middle, length);
    at += length;
    for (size_t i = 0; i < count; i++, at += end)
        memcpy(at, close, end);
    *at = 0;
    return text;
}

static void nesting_is_bounded(void) {
    static const struct {
        const char *before, *open, *middle, *close, *after;
        size_t passes;
    } cases[] = {
        {"{{ ", "(", "1", ")", " }}", 40},
        {"{{ ", "[", "1", "]", "|length }}", 40},
        {"{{ ", "not ", "1", "", " }}", 80},
        {"{{ ", "-", "1", "", " }}", 80},
        {"{{ ", "1 if 0 else ", "1", "", " }}", 40},
        {"{{ '", "", "a'", "|trim", " }}", 80},
        {"{{ 'a'", "", "", "[0]", " }}", 80},
        {"{{ 'a'", "", "", ".strip()", " }}", 40},
        {"{{ ", "{'a': ", "1", "}", "|length }}", 40},
        {"{{ ", "1 + (", "1", ")", " }}", 20},
        {"", "{% if 1 %}", "x", "{% endif %}", "", 80},
        {"", "{% for i in [1] %}", "x", "{% endfor %}", "", 80},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        for (int is_deep = 0; is_deep < 2; is_deep++) {
            char *inner = nest(cases[i].open, cases[i].middle, cases[i].close, is_deep ? 20000 : cases[i].passes);
            char *text = (char *)malloc(strlen(inner) + 64);
            rendering result;
            sprintf(text, "%s%s%s", cases[i].before, inner, cases[i].after);
            result = render(text, "{}");
            CHECK_THAT(result.status == (is_deep ? EITP_ERROR_UNSUPPORTED : EITP_OK), "%.60s: %s", text,
                       result.status ? error_.message : "accepted");
            CHECK(!is_deep || strstr(error_.message, "nested deeper than 96") || strstr(error_.message, "brackets"));
            release(&host_, &result);
            free(text);
            free(inner);
        }
    }
}

/* Chains do not nest, so they are not bounded. */
static void chains_are_not_bounded(void) {
    static const struct {
        const char *link, *before, *after, *output;
    } cases[] = {
        {" + 1", "{{ 1", " }}", "5001"}, {" ~ ''", "{{ 'x'", " }}", "x"},
        {" and 1", "{{ 1", " }}", "1"},  {"{% elif x %}a", "{% if x %}", "{% else %}y{% endif %}", "y"},
        {"{{ '' }}", "a", "b", "ab"},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        char *links = nest(cases[i].link, "", "", 5000);
        char *text = (char *)malloc(strlen(links) + 64);
        rendering result;
        sprintf(text, "%s%s%s", cases[i].before, links, cases[i].after);
        result = render(text, "{}");
        CHECK_THAT(has_text(&result, cases[i].output, strlen(cases[i].output)), "%s: %s", cases[i].link,
                   error_.message);
        release(&host_, &result);
        free(text);
        free(links);
    }
}

/* Renders the templates that need the deepest stack, with the stack size allowed for programs. */
static void *use_stack(void *unused) {
    static const char *const texts[] = {
        "{% macro f(x) %}{{ f(x) ~ 1 }}{% endmacro %}{{ f(1) }}",
        "{% macro f(x) %}{% for i in [1] %}{{ f(x)|trim }}{% endfor %}{% endmacro %}{{ f(1) }}",
        "{% macro f(x, d) %}{% if d %}{{ f(x, d - 1) }}{% else %}{{ x|tojson(indent=2) }}{{ x }}{% endif %}{% endmacro "
        "%}"
        "{% set ns = namespace(l=[]) %}{% for i in range(70) %}{% set ns.l = [{'a': ns.l}][0]['a'], %}{% endfor %}"
        "{{ f(ns.l, 20) }}",
        "{% macro f(x) %}{% call f(x) %}{{ f(x)[1:2] }}{% endcall %}{{ caller() }}{% endmacro %}{{ f(1) }}",
        "{% macro f(x) %}{% with a = [{'b': f(x)}] %}{{ a }}{% endwith %}{% endmacro %}{{ f(1) }}",
    };
    for (size_t i = 0; i < EITP__COUNT(texts); i++) {
        rendering result = render(texts[i], "{}");
        CHECK_THAT(i == 2 ? result.status == EITP_OK : result.status == EITP_ERROR_ARGUMENT, "%zu: %s", i,
                   error_.message);
        release(&host_, &result);
    }
    nesting_is_bounded();
    return unused;
}

static void fits_a_small_stack(void) {
#if defined(__SANITIZE_ADDRESS__)
    use_stack(NULL); /* sanitizers need a larger stack */
#else
    pthread_attr_t attributes;
    pthread_t thread;
    REQUIRE(!pthread_attr_init(&attributes));
    REQUIRE(!pthread_attr_setstacksize(&attributes, (size_t)64 << 10));
    REQUIRE(!pthread_create(&thread, &attributes, use_stack, NULL));
    REQUIRE(!pthread_join(thread, NULL));
    pthread_attr_destroy(&attributes);
#endif
}

static void limits_can_be_set(void) {
    const char *source = "{% for i in range(100) %}0123456789{% endfor %}";
    eitp__chat_context context = EITP__ZERO;
    rendering result;
    context.output_limit = 999;
    render_with(&host_, source, strlen(source), &context, &result);
    CHECK(result.status == EITP_ERROR_ARGUMENT && strstr(error_.message, "the output exceeds the limit of 999 bytes"));
    release(&host_, &result);
    context.output_limit = 1000;
    render_with(&host_, source, strlen(source), &context, &result);
    CHECK(result.status == EITP_OK && result.text.size == 1000);
    release(&host_, &result);
    {
        char *text = nest("", "", "a", ((size_t)1 << 20) + 1);
        eitp__chat_template *chat_template;
        CHECK(eitp__chat_template_parse(&host_, text, strlen(text), &chat_template, &error_) == EITP_ERROR_UNSUPPORTED);
        CHECK(eitp__chat_template_parse(&host_, text, strlen(text) - 1, &chat_template, &error_) == EITP_OK);
        eitp__chat_template_release(chat_template);
        free(text);
    }
}

static void every_allocation_may_fail(void) {
    static const char source[] =
        "{% macro f(a, b=[1]) %}{{ a|tojson }}{{ b }}{% endmacro %}{% set ns = namespace(x={'a': 1}) %}"
        "{% for m in messages|selectattr('role')|list %}{{ f(m.content, b=range(3)|list) }}{{ m.role.split('e')|join }}"
        "{% generation %}{{ 'x' * 20000 }}{% endgeneration %}{% set ns.x = dict(ns.x, y=m) %}{% endfor %}"
        "{% set t %}{{ 'y' * 9000 }}{% endset %}{{ t|length }}{{ messages|map(attribute='role')|sort }}";
    eitp_json_document *document = NULL;
    eitp__chat_context context = EITP__ZERO;
    REQUIRE_OK(eitp_json_parse(&host_, CONVERSATION, strlen(CONVERSATION), &document, &error_), error_);
    context.object = eitp_json_root(document);
    for (long n = 1;; n++) {
        faults f;
        rendering result;
        faults_begin(&f);
        f.fail_allocation = n;
        render_with(&f.host, source, sizeof source - 1, &context, &result);
        CHECK_THAT(result.status == (f.failures ? EITP_ERROR_MEMORY : EITP_OK), "allocation %ld: %s", n,
                   error_.message);
        CHECK(!f.failures || (result.text.size == 0 && result.spans.count == 0));
        CHECK(f.failures || (result.text.size > 80000 && result.spans.count == 8));
        release(&f.host, &result);
        if (!faults_end(&f))
            break;
    }
    eitp_json_release(document);
}

static const test_case tests[] = {
    TEST(agrees_with_jinja2),
    TEST(errors_have_positions),
    TEST(spans_follow_messages),
    TEST(spans_in_macros_and_blocks),
    TEST(spans_of_generation),
    TEST(spans_begin_at_what_is_appended),
    TEST(what_a_template_takes_is_bounded),
    TEST(nesting_is_bounded),
    TEST(chains_are_not_bounded),
    TEST(fits_a_small_stack),
    TEST(limits_can_be_set),
    TEST(every_allocation_may_fail),
};

int main(int argc, char **argv) {
    host_ = eitp_host_default();
    return RUN_TESTS(tests, argc, argv);
}
