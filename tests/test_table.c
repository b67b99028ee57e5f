/* Tables: CSV, TSV, JSON Lines, lines, directories of labels. */
#include "tests/everything.h"

#include "tests/faults.h"
#include "tests/test.h"

static char scratch[512];

static const char *at(const char *name) {
    return scratch_path(scratch, name);
}

static int put(const char *name, const char *text) {
    const eitp_host host = eitp_host_default();
    return eitp__write_file(&host, at(name), text, strlen(text), NULL) == EITP_OK;
}

static int has(const eitp_error *error, const char *text) {
    if (strstr(error->message, text))
        return 1;
    printf("    no \"%s\" in \"%s\"\n", text, error->message);
    return 0;
}

/* The log of a host: warnings, and the last of them. */
typedef struct log_seen {
    int warnings;
    char last[600];
} log_seen;

static void see_log(void *user, eitp_log_level level, const char *message) {
    log_seen *seen = (log_seen *)user;
    seen->warnings += level == EITP_LOG_WARNING;
    snprintf(seen->last, sizeof seen->last, "%s", message);
}

/* What a table has, a line for each row: text, "+pair", "=label", "[list of labels]", "@line:column". */
typedef struct table_read {
    eitp_host host;
    eitp_table_config config;
    eitp_table_statistics statistics;
    eitp_error error;
    log_seen log;
    char rows[2000];
} table_read;

static void add_text(char *rows, const char *before, eitp_text text) {
    strcat(rows, before);
    strncat(rows, text.bytes, text.size);
}

static void add_row(table_read *r, const eitp_example *example) {
    char place[64];
    REQUIRE(strlen(r->rows) + example->text.size + example->pair.size + 200 < sizeof r->rows);
    add_text(r->rows, "", example->text);
    if (example->pair.bytes)
        add_text(r->rows, "+", example->pair);
    strcat(r->rows, example->labels_are_list ? "[" : "");
    for (size_t i = 0; i < example->label_count; i++)
        add_text(r->rows, example->labels_are_list ? (i ? "," : "") : "=", example->labels[i]);
    snprintf(place, sizeof place, "%s@%d:%d\n", example->labels_are_list ? "]" : "", (int)example->line,
             (int)example->column);
    strcat(r->rows, place);
    CHECK(example->path && strstr(example->path, scratch) == example->path);
}

static eitp_status read_table(table_read *r, const char *name) {
    eitp_table *table = NULL;
    const char *path = at(name);
    r->rows[0] = 0;
    r->config.paths = &path;
    r->config.path_count = 1;
    if (!r->host.allocator.allocate)
        r->host = eitp_host_default();
    memset(&r->log, 0, sizeof r->log);
    r->host.log.user = &r->log;
    r->host.log.write = see_log;
    eitp_status status = eitp_table_open(&r->host, &r->config, &table, &r->error);
    const eitp_example_source source = eitp_table_source(table);
    int is_end = status != EITP_OK;
    while (!is_end && status == EITP_OK) {
        eitp_example example;
        status = source.read(source.user, &example, &is_end, &r->error);
        if (status == EITP_OK && !is_end)
            add_row(r, &example);
    }
    r->statistics = eitp_table_get_statistics(table);
    eitp_table_close(table);
    return status;
}

/* Checks the rows of a file with this content, read in pieces of every small size. */
static void check_rows(table_read *r, const char *name, const char *content, const char *rows) {
    CHECK(put(name, content));
    for (r->config.read_size = 0; r->config.read_size < 9; r->config.read_size++) {
        const eitp_status status = read_table(r, name);
        CHECK_THAT(status == EITP_OK, "%s", r->error.message);
        CHECK_THAT(status != EITP_OK || !strcmp(r->rows, rows), "read_size %d: %s", (int)r->config.read_size, r->rows);
    }
    r->config.read_size = 0;
    CHECK(r->statistics.bytes == strlen(content) && r->statistics.bytes_total == strlen(content));
}

/* Checks the failure of a file with this content: its message begins with "<path>: <what>". */
static void check_refused(table_read *r, const char *name, const char *content, eitp_status expected,
                          const char *what) {
    CHECK(put(name, content));
    for (r->config.read_size = 0; r->config.read_size < 3; r->config.read_size++) {
        const eitp_status status = read_table(r, name);
        const size_t length = strlen(at(name));
        CHECK_THAT(status == expected, "%d: %s", (int)status, r->error.message);
        CHECK(status == EITP_OK || (!strncmp(r->error.message, at(name), length) && has(&r->error, what) &&
                                    !strncmp(r->error.message + length, ": ", 2) &&
                                    !strncmp(r->error.message + length + 2, what, strlen(what))));
    }
    r->config.read_size = 0;
}

static void test_csv(void) {
    table_read r = EITP__ZERO;
    REQUIRE(scratch_make(scratch));
    check_rows(&r, "a.csv", "text,label\ngood,pos\nbad,neg\n", "good=pos@2:1\nbad=neg@3:1\n");
    check_rows(&r, "a.CSV", "label,text\r\npos,good\r\nneg,bad", "good=pos@2:5\nbad=neg@3:5\n");
    check_rows(&r, "a.csv", "\xEF\xBB\xBFtext,label\n\n\na,\n\r\n,x\n", "a@4:1\n=x@6:1\n");
    check_rows(&r, "a.csv", "text\n\"a \"\"b\"\", c\nd\"\n\"\"\n\"e\"\n", "a \"b\", c\nd@2:1\n@4:1\ne@5:1\n");
    check_rows(&r, "a.csv", "\"la\"\"bel\",\"text\"\n\"1\n\n2\",x\n", "x@4:4\n");
    check_rows(&r, "a.csv", "text,n\n5\" disk,1\na\rb,2\n", "5\" disk@2:1\na\rb@3:1\n");
    check_rows(&r, "a.csv", "n,text\n\xC3\xA4\xE4\xB8\xAD,x\n", "x@2:4\n");
    check_rows(&r, "a.csv", "text,label", "");
    check_rows(&r, "a.tsv", "text\tlabel\na,\"b\"\tx\n\"c\td\"\ty", "a,\"b\"=x@2:1\nc\td=y@3:1\n");
    check_rows(&r, "a.tab", "text\tlabel\na\tx\n", "a=x@2:1\n");
    CHECK(r.statistics.rows == 1 && r.statistics.skipped_rows == 0 && !r.log.warnings);
    check_rows(&r, "a.csv", "", "");
    CHECK(r.log.warnings == 1 && strstr(r.log.last, "empty"));
    scratch_remove(scratch);
}

static void test_csv_errors(void) {
    table_read r = EITP__ZERO;
    REQUIRE(scratch_make(scratch));
    check_refused(&r, "a.csv", "text,label\na,b,c\n", EITP_ERROR_FORMAT,
                  "line 2, column 5: the row has 3 fields, expected 2 as in line 1");
    check_refused(&r, "a.csv", "\ntext,label\n\"\n\"\n", EITP_ERROR_FORMAT,
                  "line 3, column 1: the row has 1 field, expected 2 as in line 2");
    check_refused(&r, "a.csv", "text,label\na,b\nc,\"d\ne\n", EITP_ERROR_FORMAT,
                  "line 3, column 3: this quote is not closed");
    check_refused(&r, "a.csv", "text,label\n\"a\n\xC3\xA4\" b,c\n", EITP_ERROR_FORMAT,
                  "line 3, column 3: text after a closing quote");
    check_refused(&r, "a.csv", "a,b\nc,d\n", EITP_ERROR_ARGUMENT, "line 1: no column named 'text' (columns: a, b)");
    check_refused(&r, "a.csv", "text,b,text\n", EITP_ERROR_FORMAT, "line 1: columns 1 and 3 are both named 'text'");
    r.config.label_column = "class";
    check_refused(&r, "a.csv", "text,label\nc,d\n", EITP_ERROR_ARGUMENT,
                  "line 1: no column named 'class' (columns: text, label)");
    r.config.label_column = NULL;
    r.config.row_limit = 16;
    check_refused(&r, "a.csv", "text\n0123456789abcde\n0123456789abcdef\n", EITP_ERROR_FORMAT,
                  "line 3: the row has more than 16 bytes");
    check_refused(&r, "a.csv", "text\n\"01234567\n89abcdef\n\"", EITP_ERROR_FORMAT,
                  "line 3: the row has more than 16 bytes");
    scratch_remove(scratch);
}

static void test_columns(void) {
    table_read r = EITP__ZERO;
    REQUIRE(scratch_make(scratch));
    r.config.text_column = "first", r.config.pair_column = "second", r.config.label_column = "class";
    check_rows(&r, "a.csv", "class,second,first\nx,b,a\n,,\n", "a+b=x@2:5\n+@3:3\n");
    check_rows(&r, "a.jsonl", "{\"first\":\"a\",\"second\":\"b\",\"class\":1}\n{\"first\":\"c\",\"second\":null}\n",
               "a+b=1@1:10\nc@2:10\n");
    r.config.text_column = "2", r.config.pair_column = NULL, r.config.label_column = "1";
    check_rows(&r, "a.csv", "x,a\ny,b\n", "a=x@1:3\nb=y@2:3\n");
    r.config.label_column = NULL;
    check_rows(&r, "a.csv", "label,a\ny,b\n", "a@1:7\nb@2:3\n");
    r.config.label_column = "class";
    check_rows(&r, "a.csv", "class,2\ny,b\n", "b=y@2:3\n");
    r.config.text_column = "3", r.config.label_column = NULL;
    check_refused(&r, "a.csv", "x,a\n", EITP_ERROR_ARGUMENT, "line 1: no column '3' (columns: x, a)");
    r.config.text_column = "text", r.config.label_column = "class";
    check_refused(&r, "a.jsonl", "{\"text\":\"a\"}\n", EITP_ERROR_ARGUMENT, "no row has a member named 'class'");
    scratch_remove(scratch);
}

static void test_jsonl(void) {
    table_read r = EITP__ZERO;
    REQUIRE(scratch_make(scratch));
    check_rows(&r, "a.jsonl", "{\"text\": \"a\\nb\", \"label\": \"x\"}\r\n\n  \n{\"label\": 1.50, \"text\": \"\"}",
               "a\nb=x@1:10\n=1.50@4:25\n");
    check_rows(&r, "a.ndjson", "{\"text\":\"a\",\"label\":true}\n{\"text\":\"b\",\"label\":null}\n{\"text\":\"c\"}\n",
               "a=true@1:9\nb@2:9\nc@3:9\n");
    check_rows(&r, "a.json", "{\"text\":\"a\",\"label\":[\"x\",-2e3,false]}\n{\"text\":\"b\",\"label\":[]}\n",
               "a[x,-2e3,false]@1:9\nb[]@2:9\n");
    check_rows(&r, "a.jsonl", "\xEF\xBB\xBF{\"\xC3\xA4\":{\"b\":[1]},\"text\":\"a\"}", "a@1:23\n");
    check_refused(&r, "a.jsonl", "{\"text\":\"a\"}\n{\"text\":5}\n", EITP_ERROR_FORMAT,
                  "line 2, column 9: 'text' must be a string (got a number)");
    check_refused(
        &r, "a.jsonl", "{\"text\":\"a\",\"label\":{}}", EITP_ERROR_FORMAT,
        "line 1, column 21: 'label' must be a string, a number, a boolean or a list of these (got an object)");
    check_refused(&r, "a.jsonl", "{\"text\":\"a\",\"label\":[1,[2]]}", EITP_ERROR_FORMAT,
                  "line 1, column 24: 'label' must be a string, a number, a boolean or a list of these (got a list)");
    check_refused(&r, "a.jsonl", "{\"text\":\"a\"}\n{\"t\":\"a\"}\n", EITP_ERROR_FORMAT,
                  "line 2: no member named 'text'");
    check_refused(&r, "a.jsonl", "{\"text\":\"a\"}\n\n{\"\xC3\xA4\":\"a\",}\n", EITP_ERROR_FORMAT,
                  "invalid JSON at line 3, column 10: expected a name in quotes");
    check_refused(&r, "a.json", "[{\"text\":\"a\"},\n{\"text\":\"b\"}]\n", EITP_ERROR_FORMAT, "invalid JSON at line 1");
    CHECK(has(&r.error, "jq -c '.[]' FILE > NEW"));
    check_refused(&r, "a.json", "[1]", EITP_ERROR_FORMAT,
                  "line 1, column 1: 'the line' must be an object (got a list); each line must be a JSON object");
    scratch_remove(scratch);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {TEST(test_csv), TEST(test_csv_errors), TEST(test_columns), TEST(test_jsonl)};
    return RUN_TESTS(tests, argc, argv);
}
