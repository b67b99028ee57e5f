/* The JSON parser, typed access to members, and the writer. */
#include "tests/support/everything.h"

#include "base/json.h"
#include "base/random.h"

#include "tests/support/faults.h"

#include <float.h>
#include <locale.h>

static eitp_json_document *parse_bytes(const char *text, size_t size, eitp_error *error) {
    const eitp_host host = eitp_host_default();
    eitp_json_document *document = NULL;
    /* An exact copy, so that sanitizers detect reads past the end. */
    char *exact = size ? (char *)malloc(size) : NULL;
    if (size)
        memcpy(exact, text, size);
    eitp_status status = eitp_json_parse(&host, exact, size, &document, error);
    free(exact);
    CHECK((status == EITP_OK) == (document != NULL));
    return document;
}

static eitp_json_document *parse(const char *text, eitp_error *error) {
    return parse_bytes(text, strlen(text), error);
}

static void reads_every_kind_of_value(void) {
    eitp_error error;
    eitp_json_document *document = parse("\r\n\t {\"null\": null,\n \"yes\" : true, \"no\":false, \"n\": -12,\n"
                                         "\"x\": 2.5e1, \"s\": \"text\", \"a\": [1, [ ], {}], \"\": {\"b\": \"c\"}} \n",
                                         &error);
    REQUIRE(document);
    const eitp_json *root = eitp_json_root(document), *value;
    CHECK(root->kind == EITP_JSON_OBJECT && root->count == 8 && root->line == 2 && !root->name && !root->next);
    CHECK(eitp_json_member(root, "null")->kind == EITP_JSON_NULL);
    value = eitp_json_member(root, "yes");
    CHECK(value->kind == EITP_JSON_BOOLEAN && value->boolean == 1 && value->line == 3);
    value = eitp_json_member(root, "no");
    CHECK(value->kind == EITP_JSON_BOOLEAN && value->boolean == 0);
    value = eitp_json_member(root, "n");
    CHECK(value->kind == EITP_JSON_NUMBER && value->is_integer && value->integer == -12 && value->number == -12);
    value = eitp_json_member(root, "x");
    CHECK(value->kind == EITP_JSON_NUMBER && !value->is_integer && value->number == 25 && value->line == 4);
    value = eitp_json_member(root, "s");
    CHECK(value->kind == EITP_JSON_STRING && value->text_size == 4 && !strcmp(value->text, "text"));
    value = eitp_json_member(root, "a");
    CHECK(value->kind == EITP_JSON_ARRAY && value->count == 3 && value->name_size == 1);
    value = value->first_child->next;
    CHECK(value->kind == EITP_JSON_ARRAY && !value->count && !value->first_child && !value->name);
    CHECK(value->next->kind == EITP_JSON_OBJECT && !value->next->count && !value->next->next);
    value = eitp_json_member(eitp_json_member(root, ""), "b");
    CHECK(value && !strcmp(value->text, "c"));
    CHECK(!eitp_json_member(root, "none") && !eitp_json_member(NULL, "none") && !eitp_json_member(value, "b"));
    eitp_json_release(document);
    eitp_json_release(NULL);
}

static void resolves_escapes(void) {
    static const struct {
        const char *text;
        const char *value;
        size_t size;
    } cases[] = {
        {"\"\"", "", 0},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8},
        {"\"\\u0041\\u00e9\\u20AC\"", "A\xc3\xa9\xe2\x82\xac", 6},
        {"\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80", 4},
        {"\"\\uDBFF\\uDFFF\"", "\xf4\x8f\xbf\xbf", 4},
        {"\"a\\u0000b\"", "a\0b", 3},
        {"\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f\"", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f", 10},
    };
    eitp_error error;
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp_json_document *document = parse(cases[i].text, &error);
        REQUIRE(document);
        const eitp_json *root = eitp_json_root(document);
        CHECK(root->text_size == cases[i].size && !memcmp(root->text, cases[i].value, cases[i].size + 1));
        eitp_json_release(document);
    }
}

static void refuses_invalid_json(void) {
    static const struct {
        const char *text;
        const char *message; /* a part of the message */
    } cases[] = {
        {"", "line 1, column 1: expected a value, found the end of the text"},
        {" \n ", "line 2, column 2: expected a value"},
        {"{", "line 1, column 2: expected a name in quotes, found the end of the text"},
        {"[1,\n 2", "line 2, column 3: expected ',' or ']', found the end of the text"},
        {"[1 2]", "line 1, column 4: expected ',' or ']', found '2'"},
        {"[1,]", "line 1, column 4: expected a value (NaN"},
        {"[,1]", "line 1, column 2: expected a value"},
        {"{\"a\" 1}", "line 1, column 6: expected ':'"},
        {"{\"a\":1,}", "line 1, column 8: expected a name in quotes"},
        {"{a:1}", "line 1, column 2: expected a name in quotes, found 'a'"},
        {"{\"a\":1]", "line 1, column 7: expected ',' or '}', found ']'"},
        {"1 2", "line 1, column 3: expected nothing after the value"},
        {"nul", "column 1: expected a value"},
        {"True", "column 1: expected a value"},
        {"NaN", "NaN, Infinity and comments are not JSON"},
        {"-Infinity", "column 2: expected a digit, found 'I'"},
        {"01", "column 2: expected a number without a leading zero"},
        {"-01", "column 3: expected a number without a leading zero"},
        {"+1", "column 1: expected a value"},
        {".5", "column 1: expected a value"},
        {"1.", "column 3: expected a digit after the decimal point"},
        {"1.e3", "column 3: expected a digit after the decimal point"},
        {"1e", "column 3: expected a digit in the exponent"},
        {"1e+", "column 4: expected a digit in the exponent"},
        {"1e400", "column 1: expected a number in the range of a double"},
        {"-1e400", "expected a number in the range of a double"},
        {"- 1", "column 2: expected a digit, found byte 0x20"},
        {"0x10", "column 2: expected nothing after the value"},
        {"\"abc", "column 5: expected '\"' at the end of a string"},
        {"\"a\nb\"", "column 3: expected an escape for a control character in a string, found byte 0x0a"},
        {"\"\\x\"", "column 3: expected one of"},
        {"\"\\", "column 3: expected one of"},
        {"\"\\u12g4\"", "column 6: expected four hexadecimal digits after \\u, found 'g'"},
        {"\"\\u12", "column 6: expected four hexadecimal digits after \\u, found the end of the text"},
        {"\"\\ud800\"", "column 8: expected a low surrogate after"},
        {"\"\\ud800\\n\"", "expected a low surrogate after"},
        {"\"\\ud800\\ud800\"", "column 8: expected a low surrogate after"},
        {"\"\\ud800\\u0041\"", "column 8: expected a low surrogate after"},
        {"\"\\udc00\"", "column 2: expected a high surrogate before"},
        {"\"a\x80\"", "column 3: expected valid UTF-8 in a string, found byte 0x80"},
        {"\"\xc0\xaf\"", "valid UTF-8"},
        {"\"\xed\xa0\x80\"", "valid UTF-8"},
        {"\"\xf4\x90\x80\x80\"", "valid UTF-8"},
        {"\"\xe2\x82\"", "valid UTF-8"},
        {"\"\xe2\x82", "valid UTF-8"},
        {"\xef\xbb\xbf{}", "UTF-8 without a byte order mark"},
        {"[1] // comment", "expected nothing after"},
        {"{\"a\":1,\n\"b\":2,\n\"\\u0061\":3}", "duplicate name 'a' at line 1 and line 3"},
        {"{\"a\":1, \"a\":2}", "duplicate name 'a' at line 1; remove"},
    };
    eitp_error error;
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp_json_document *document = parse(cases[i].text, &error);
        CHECK_THAT(!document, "accepted: %s", cases[i].text);
        if (document) {
            eitp_json_release(document);
            continue;
        }
        CHECK(error.status == EITP_ERROR_FORMAT);
        CHECK_THAT(strstr(error.message, cases[i].message), "%s: %s", cases[i].text, error.message);
    }
    CHECK(!parse_bytes("1\0", 2, &error));
    CHECK(!parse_bytes("\"a\0b\"", 5, &error));
    CHECK(!parse("[", NULL));
}

/* Every proper prefix of a document is an error and is never read past its end. */
static void refuses_every_prefix(void) {
    static const char text[] =
        "{\"a\\u00e9\": [1.5e-3, -0, true, null], \"\xf0\x9f\x98\x80\": {\"\\ud83d\\ude00\": false}}";
    eitp_error error;
    for (size_t size = 0; size < sizeof text - 1; size++)
        CHECK(!parse_bytes(text, size, &error));
    eitp_json_document *document = parse(text, &error);
    CHECK(document);
    eitp_json_release(document);
}

static void nesting_is_bounded(void) {
    eitp_error error;
    static char text[300000];
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    eitp_json_document *document = parse_bytes(text, 128, &error);
    CHECK(document);
    eitp_json_release(document);
    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    CHECK(!parse_bytes(text, 130, &error));
    CHECK_THAT(strstr(error.message, "column 65: expected at most 64 levels of nesting"), "%s", error.message);
    memset(text, '[', sizeof text);
    CHECK(!parse_bytes(text, sizeof text, &error));
    for (size_t i = 0; i + 5 <= sizeof text; i += 5)
        memcpy(text + i, "{\"\":[", 5);
    CHECK(!parse_bytes(text, sizeof text, &error));
}

static void integers_are_exact(void) {
    static const struct {
        const char *text;
        int is_integer;
        int64_t integer;
        double number;
    } cases[] = {
        {"0", 1, 0, 0},
        {"9223372036854775807", 1, INT64_MAX, 9223372036854775807.0},
        {"9223372036854775808", 0, 0, 9223372036854775808.0},
        {"-9223372036854775808", 1, INT64_MIN, -9223372036854775808.0},
        {"-9223372036854775809", 0, 0, -9223372036854775808.0},
        {"9007199254740993", 1, 9007199254740993, 9007199254740992.0},
        {"100000000000000000000", 0, 0, 1e20},
        {"1.0", 0, 0, 1},
        {"1e2", 0, 0, 100},
    };
    eitp_error error;
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp_json_document *document = parse(cases[i].text, &error);
        REQUIRE(document);
        const eitp_json *root = eitp_json_root(document);
        CHECK_THAT(root->is_integer == cases[i].is_integer && root->integer == cases[i].integer, "%s", cases[i].text);
        CHECK_THAT(root->number == cases[i].number, "%s: %.17g", cases[i].text, root->number);
        eitp_json_release(document);
    }
}

static double number_of(const char *text) {
    eitp_error error;
    eitp_json_document *document = parse(text, &error);
    double number;
    CHECK_THAT(document, "%s: %s", text, error.message);
    if (!document)
        return 0;
    number = eitp_json_root(document)->number;
    eitp_json_release(document);
    return number;
}

/* Compares with strtod of the C library. */
static void numbers_are_the_nearest_doubles(void) {
    static const char *const cases[] = {
        "0.1",
        "-0.3",
        "2.2250738585072011e-308",
        "2.2250738585072014e-308",
        "4.9406564584124654e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "1.7976931348623157e308",
        "1e-400",
        "0e999999999999999999999",
        "0.000000000000000000000000000000000001e36",
        "123456789012345678901234567890",
        "8.5e-7",
        "1E+5",
        "9007199254740993.0",
        "9007199254740992.99999999999999999999999999999999999999999999999999999999999999999999",
    };
    char text[64];
    for (size_t i = 0; i < EITP__COUNT(cases); i++)
        CHECK_THAT(number_of(cases[i]) == strtod(cases[i], NULL), "%s", cases[i]);
    CHECK(signbit(number_of("-0")) && signbit(number_of("-0.0")) && !signbit(number_of("0")));
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t bits = eitp__random_bits(5, 0, 9, i);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        snprintf(text, sizeof text, "%.*g", 1 + (int)(i % 20), value);
        if (isfinite(strtod(text, NULL)))
            CHECK_THAT(number_of(text) == strtod(text, NULL), "%s", text);
        /* Few digits with small exponents, as records have. */
        snprintf(text, sizeof text, "%lluE%d", (unsigned long long)(bits >> (64 - 1 - i % 60)), (int)(i % 61) - 30);
        CHECK_THAT(number_of(text) == strtod(text, NULL), "%s", text);
    }
}

/* 1 + 2^-53 is halfway between two doubles. A digit thousands of places later decides the rounding. */
static void distant_digits_decide(void) {
    static const char halfway[] = "1.00000000000000011102230246251565404236316680908203125";
    static char text[5000];
    size_t length = strlen(halfway);
    CHECK(number_of(halfway) == 1.0);
    memcpy(text, halfway, length);
    memset(text + length, '0', 4000);
    text[length + 4000] = 0;
    CHECK(number_of(text) == 1.0);
    text[length + 3999] = '1';
    CHECK(number_of(text) == 1.0 + DBL_EPSILON);
    /* The same with digits before the decimal point and a negative exponent. */
    memset(text, 0, sizeof text);
    snprintf(text, sizeof text, "1%s", halfway + 2);
    length = strlen(text);
    memset(text + length, '0', 3000);
    snprintf(text + length + 3000, 50, "1e-%d", (int)length + 3000);
    CHECK(number_of(text) == 1.0 + DBL_EPSILON);
    memset(text, '0', 3000);
    memcpy(text, "0.", 2);
    snprintf(text + 3000, 50, "25e2999");
    CHECK_THAT(number_of(text) == 2.5, "%g", number_of(text));
}

static void the_locale_does_not_matter(void) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "fr_FR"};
    const eitp_host host = eitp_host_default();
    eitp__buffer buffer;
    const char *found = NULL;
    for (size_t i = 0; i < EITP__COUNT(names) && !found; i++)
        found = setlocale(LC_NUMERIC, names[i]);
    if (!found || strcmp(localeconv()->decimal_point, ",")) { /* musl has every locale, but no decimal commas */
        setlocale(LC_NUMERIC, "C");
        printf("SKIPPED the_locale_does_not_matter: no locale with a decimal comma\n");
        return;
    }
    eitp__buffer_init(&buffer, &host);
    CHECK(number_of("1234.5e-1") == 123.45);
    eitp__json_write_number(&buffer, 0.1);
    setlocale(LC_NUMERIC, "C");
    CHECK_THAT(!strcmp(buffer.data, "0.1"), "%s", buffer.data);
    eitp__buffer_release(&buffer);
}

/* Writes {"0": 0, "1": 0, ...}. The name `again` is repeated at the end unless it is negative. */
static void write_names(eitp__buffer *buffer, int count, int again) {
    eitp__buffer_clear(buffer);
    for (int i = 0; i < count; i++)
        eitp__buffer_format(buffer, i ? ",\"%d\":0" : "{\"%d\":0", i);
    if (again >= 0)
        eitp__buffer_format(buffer, ",\"%d\":1", again);
    eitp__buffer_add_text(buffer, "}");
}

static void duplicate_names_are_refused(void) {
    static const int counts[] = {2, 8, 9, 100, 200000}; /* comparing all pairs of the last one would take too long */
    const eitp_host host = eitp_host_default();
    eitp__buffer buffer;
    eitp_error error;
    eitp__buffer_init(&buffer, &host);
    for (size_t i = 0; i < EITP__COUNT(counts); i++) {
        int count = counts[i];
        char expected[64];
        write_names(&buffer, count, -1);
        eitp_json_document *document = parse_bytes(buffer.data, buffer.size, &error);
        REQUIRE(document);
        CHECK(eitp_json_root(document)->count == (size_t)count);
        eitp_json_release(document);
        for (int again = 0; again < count; again += 1 + (count - 2)) {
            write_names(&buffer, count, again);
            CHECK(!parse_bytes(buffer.data, buffer.size, &error));
            snprintf(expected, sizeof expected, "duplicate name '%d' at", again);
            CHECK_THAT(strstr(error.message, expected), "%s", error.message);
        }
    }
    CHECK(!parse("{\"a\\u0000\":1,\"a\\u0000\":2}", &error));
    eitp_json_document *document = parse("{\"a\":1,\"a\\u0000\":2,\"\":3}", &error);
    CHECK(document);
    eitp_json_release(document);
    eitp__buffer_release(&buffer);
}

static void memory_is_bounded_by_the_text(void) {
    static char text[200001];
    faults f;
    eitp_json_document *document = NULL;
    text[0] = '[';
    for (size_t i = 1; i < sizeof text; i += 2) {
        text[i] = '0';
        text[i + 1] = ',';
    }
    text[sizeof text - 1] = ']';
    faults_begin(&f);
    CHECK(eitp_json_parse(&f.host, text, sizeof text, &document, NULL) == EITP_OK);
    CHECK_THAT(f.peak_bytes < 56 * sizeof text, "%llu", (unsigned long long)f.peak_bytes);
    CHECK(f.allocations < 1000);
    eitp_json_release(document);
    faults_end(&f);
    faults_begin(&f);
    CHECK(eitp_json_parse(&f.host, "{\"a\":1}", 7, &document, NULL) == EITP_OK);
    CHECK_THAT(f.peak_bytes < 1024, "%llu", (unsigned long long)f.peak_bytes);
    eitp_json_release(document);
    faults_end(&f);
}

static void every_allocation_may_fail(void) {
    static const char text[] = "{\"a\":[1,2,3,4,5,6,7,8,9,10],\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,"
                               "\"i\":\"text\",\"j\":{\"k\":[[[]]]}}";
    faults f;
    eitp_error error;
    int more = 1, failures = 0;
    for (long n = 1; more; n++) {
        eitp_json_document *document = NULL;
        eitp_status status;
        faults_begin(&f);
        f.fail_allocation = n;
        status = eitp_json_parse(&f.host, text, sizeof text - 1, &document, &error);
        CHECK(status == EITP_OK || (status == EITP_ERROR_MEMORY && !document && error.status == status));
        failures += status != EITP_OK;
        eitp_json_release(document);
        more = faults_end(&f);
    }
    CHECK_THAT(failures >= 5, "%d", failures);
}

static void members_are_read_with_their_types(void) {
    eitp_error error;
    eitp_json_document *document =
        parse("{\"i\": 12, \"x\": 0.5, \"t\": true,\n \"s\": \"text\", \"z\": \"a\\u0000b\", \"n\": null}", &error);
    REQUIRE(document);
    const eitp_json *root = eitp_json_root(document);
    int64_t integer = 7;
    double number = 7;
    int boolean = 7;
    const char *text = "seven";
    CHECK(!eitp__json_get_integer(root, "i", 0, 12, &integer, &error) && integer == 12);
    CHECK(!eitp__json_get_number(root, "x", 0.5, 1, &number, &error) && number == 0.5);
    CHECK(!eitp__json_get_number(root, "i", 0, 100, &number, &error) && number == 12);
    CHECK(!eitp__json_get_boolean(root, "t", &boolean, &error) && boolean == 1);
    CHECK(!eitp__json_get_text(root, "s", &text, &error) && !strcmp(text, "text"));
    /* A missing or null member changes nothing. */
    CHECK(!eitp__json_get_integer(root, "n", 0, 1, &integer, &error) && integer == 12);
    CHECK(!eitp__json_get_number(root, "none", 0, 1, &number, &error) && number == 12);
    CHECK(!eitp__json_get_boolean(NULL, "t", &boolean, &error) && boolean == 1);
    CHECK(!eitp__json_get_text(root, "n", &text, &error) && !strcmp(text, "text"));
    /* Nor does an invalid one. */
    CHECK(eitp__json_get_integer(root, "i", 13, 20, &integer, &error) == EITP_ERROR_FORMAT);
    CHECK_THAT(!strcmp(error.message, "line 1: 'i' is 12; it must be an integer from 13 to 20"), "%s", error.message);
    CHECK(eitp__json_get_integer(root, "i", 0, 11, &integer, &error) == EITP_ERROR_FORMAT);
    CHECK(eitp__json_get_integer(root, "x", 0, 11, &integer, &error) == EITP_ERROR_FORMAT);
    CHECK(eitp__json_get_integer(root, "s", 0, 11, &integer, &error) == EITP_ERROR_FORMAT);
    CHECK_THAT(!strcmp(error.message, "line 2: 's' must be an integer from 0 to 11, not a string"), "%s",
               error.message);
    CHECK(eitp__json_get_number(root, "s", 0, 1, &number, &error) == EITP_ERROR_FORMAT);
    CHECK(eitp__json_get_number(root, "x", 0, 0.4, &number, &error) == EITP_ERROR_FORMAT);
    CHECK(eitp__json_get_number(root, "x", 0.6, 1, &number, &error) == EITP_ERROR_FORMAT);
    CHECK(eitp__json_get_boolean(root, "i", &boolean, &error) == EITP_ERROR_FORMAT);
    CHECK(eitp__json_get_text(root, "t", &text, &error) == EITP_ERROR_FORMAT);
    CHECK(eitp__json_get_text(root, "z", &text, &error) == EITP_ERROR_FORMAT);
    CHECK(integer == 12 && number == 12 && boolean == 1 && !strcmp(text, "text"));
    eitp_json_release(document);
}

static void files_are_read_with_their_path_in_messages(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    eitp_error error;
    eitp_json_document *document = NULL;
    REQUIRE(scratch_make(directory));
    CHECK(!eitp__write_file(&host, scratch_path(directory, "good"), "{\"a\": [1]}", 10, &error));
    CHECK(!eitp__write_file(&host, scratch_path(directory, "bad"), "{\"a\": [1}", 9, &error));
    CHECK(!eitp__json_read_strict_file(&host, scratch_path(directory, "good"), 10, &document, &error));
    CHECK(document && eitp_json_member(eitp_json_root(document), "a"));
    eitp_json_release(document);
    document = NULL;
    CHECK(eitp__json_read_strict_file(&host, scratch_path(directory, "good"), 9, &document, &error) ==
          EITP_ERROR_FORMAT);
    CHECK(eitp__json_read_strict_file(&host, scratch_path(directory, "none"), 9, &document, &error) ==
          EITP_ERROR_ARGUMENT);
    CHECK(eitp__json_read_strict_file(&host, scratch_path(directory, "bad"), 99, &document, &error) ==
          EITP_ERROR_FORMAT);
    CHECK_THAT(strstr(error.message, "bad: invalid JSON at line 1, column 9"), "%s", error.message);
    CHECK(!strncmp(error.message, directory, strlen(directory)) && !document);
    scratch_remove(directory);
}

static void writes_text_that_reads_back(void) {
    static const struct {
        const char *text;
        size_t size;
        const char *json;
    } cases[] = {
        {"", 0, "\"\""},
        {"plain", 5, "\"plain\""},
        {"a\"b\\c/d", 7, "\"a\\\"b\\\\c/d\""},
        {"\b\f\n\r\t\x01\x1f\x7f", 8, "\"\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\""},
        {"\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0", 8, "\"\\u0080\\u009b\\u009f\xc2\xa0\""},
        {"a\0b", 3, "\"a\\u0000b\""},
        {"\xc3\xa9\xf0\x9f\x98\x80", 6, "\"\xc3\xa9\xf0\x9f\x98\x80\""},
        /* Invalid UTF-8 becomes U+FFFD. */
        {"a\xff\xe2\x82z", 5, "\"a\xef\xbf\xbd\xef\xbf\xbdz\""},
    };
    const eitp_host host = eitp_host_default();
    eitp__buffer buffer;
    eitp_error error;
    eitp__buffer_init(&buffer, &host);
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp__buffer_clear(&buffer);
        eitp__json_write_text(&buffer, cases[i].text, cases[i].size);
        CHECK_THAT(!strcmp(buffer.data, cases[i].json), "%s", buffer.data);
        eitp_json_document *document = parse_bytes(buffer.data, buffer.size, &error);
        REQUIRE(document);
        if (i < 6)
            CHECK(eitp_json_root(document)->text_size == cases[i].size &&
                  !memcmp(eitp_json_root(document)->text, cases[i].text, cases[i].size));
        eitp_json_release(document);
    }
    eitp__buffer_release(&buffer);
}

static void writes_numbers_that_read_back(void) {
    static const struct {
        double number;
        const char *json;
    } cases[] = {{0, "0"},
                 {-0.0, "-0"},
                 {0.1, "0.1"},
                 {100, "100"},
                 {1e300, "1e+300"},
                 {INFINITY, "null"},
                 {-INFINITY, "null"},
                 {NAN, "null"},
                 {0.30000000000000004, "0.30000000000000004"},
                 {5e-324, "4.94065645841247e-324"},
                 {DBL_MAX, "1.7976931348623157e+308"}};
    const eitp_host host = eitp_host_default();
    eitp__buffer buffer;
    eitp__buffer_init(&buffer, &host);
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp__buffer_clear(&buffer);
        eitp__json_write_number(&buffer, cases[i].number);
        CHECK_THAT(!strcmp(buffer.data, cases[i].json), "%s", buffer.data);
    }
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t bits = eitp__random_bits(6, 0, 9, i);
        double value, back;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        eitp__buffer_clear(&buffer);
        eitp__json_write_number(&buffer, value);
        back = number_of(buffer.data);
        CHECK_THAT(!memcmp(&value, &back, sizeof value), "%s", buffer.data);
    }
    eitp__buffer_release(&buffer);
}

/* Whole numbers are written with all digits. */
static void writes_values_that_read_back(void) {
    static const char text[] =
        "{\"a\": [1, -2.5, true, false, null, []], \"b \\\"\": {\"c\": \"\xc3\xa9\\n\", \"d\": {}}, "
        "\"e\": 1000000000000000019884624838656, \"f\": -9223372036854775808, \"g\": 1e+300}";
    const eitp_host host = eitp_host_default();
    eitp_json_document *document;
    eitp__buffer buffer;
    eitp_error error;
    eitp__buffer_init(&buffer, &host);
    document = parse_bytes(text, sizeof text - 1, &error);
    REQUIRE(document);
    eitp__json_write_value(&buffer, eitp_json_root(document));
    CHECK_THAT(!strcmp(buffer.data, text), "%s", buffer.data);
    eitp_json_release(document);
    eitp__buffer_release(&buffer);
}

/* Parses a string that is a number and nothing else. */
static void reads_one_number(void) {
    static const struct {
        const char *text;
        size_t size;
        int is_number;
        double number;
    } cases[] = {
        {"0", 1, 1, 0},   {"-12.5e1x", 7, 1, -125}, {"-12.5e1x", 8, 0, 0},
        {"", 0, 0, 0},    {"-", 1, 0, 0},           {"1.", 2, 0, 0},
        {".5", 2, 0, 0},  {"+1", 2, 0, 0},          {"01", 2, 0, 0},
        {" 1", 2, 0, 0},  {"1e999", 5, 0, 0},       {"nan", 3, 0, 0},
        {"1\0", 2, 0, 0}, {"1,5", 3, 0, 0},         {"9007199254740993", 16, 1, 9007199254740992.0},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        double number = 0;
        CHECK_THAT(eitp__json_read_number(cases[i].text, cases[i].size, &number) == cases[i].is_number, "case %zu", i);
        CHECK_THAT(!(number < cases[i].number) && !(number > cases[i].number), "case %zu: %g", i, number);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(reads_every_kind_of_value),
        TEST(resolves_escapes),
        TEST(refuses_invalid_json),
        TEST(refuses_every_prefix),
        TEST(nesting_is_bounded),
        TEST(integers_are_exact),
        TEST(numbers_are_the_nearest_doubles),
        TEST(distant_digits_decide),
        TEST(the_locale_does_not_matter),
        TEST(duplicate_names_are_refused),
        TEST(memory_is_bounded_by_the_text),
        TEST(every_allocation_may_fail),
        TEST(members_are_read_with_their_types),
        TEST(files_are_read_with_their_path_in_messages),
        TEST(writes_text_that_reads_back),
        TEST(writes_numbers_that_read_back),
        TEST(writes_values_that_read_back),
        TEST(reads_one_number),
    };
    return RUN_TESTS(tests, argc, argv);
}
