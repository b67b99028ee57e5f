/* Tables: CSV, TSV, JSON Lines, plain lines, and directories of labels. */
#include "tests/support/everything.h"

#include "tests/support/faults.h"
#include "tests/support/test.h"

static char scratch[512];

static const char *at(const char *name) {
    return scratch_path(scratch, name);
}

static int put(const char *name, const char *text) {
    const eitp_host host = eitp_host_default();
    return eitp__write_file(&host, at(name), text, strlen(text), NULL) == EITP_OK;
}

static int put_directory(const char *name) {
    const eitp_host host = eitp_host_default();
    return eitp__make_directories(&host, at(name), NULL) == EITP_OK;
}

static uint64_t noise(uint64_t index) {
    return eitp__random_bits(7, 0, EITP__RNG_STREAM_SAMPLE, index);
}

static int has(const eitp_error *error, const char *text) {
    if (strstr(error->message, text))
        return 1;
    printf("    no \"%s\" in \"%s\"\n", text, error->message);
    return 0;
}

/* The log of a host: number of messages, number of warnings, and the last message. */
typedef struct log_seen {
    int lines, warnings;
    char last[600];
} log_seen;

static void see_log(void *user, eitp_log_level level, const char *message) {
    log_seen *seen = (log_seen *)user;
    seen->lines++;
    seen->warnings += level == EITP_LOG_WARNING;
    snprintf(seen->last, sizeof seen->last, "%s", message);
}

/* The contents of a table, one line for each row: text, "+pair", "*weight", "=label", "[list of labels]",
   "@line:column". */
typedef struct table_read {
    eitp_host host;
    eitp_table_config config;
    eitp_table_statistics statistics;
    eitp_error error;
    log_seen log;
    int is_silent; /* rows are not kept */
    char rows[2000];
} table_read;

static void add_text(char *rows, const char *before, eitp_text text) {
    strcat(rows, before);
    strncat(rows, text.bytes, text.size);
}

static void add_row(table_read *r, const eitp_example *example) {
    char place[64];
    REQUIRE(strlen(r->rows) + example->text.size + example->pair.size + 200 < sizeof r->rows);
    strcat(r->rows, example->is_skipped ? "(skipped)" : "");
    add_text(r->rows, "", example->text);
    if (example->pair.bytes)
        add_text(r->rows, "+", example->pair);
    if (example->weight.bytes)
        add_text(r->rows, "*", example->weight);
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
    r->config.texts.paths = &path;
    r->config.texts.path_count = 1;
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
        if (status == EITP_OK && !is_end && !r->is_silent)
            add_row(r, &example);
    }
    r->statistics = eitp_table_get_statistics(table);
    eitp_table_close(table);
    return status;
}

/* Checks the rows of a file with this content, read in pieces of every small size. */
static void check_rows(table_read *r, const char *name, const char *content, const char *rows) {
    CHECK(put(name, content));
    for (r->config.texts.read_size = 0; r->config.texts.read_size < 9; r->config.texts.read_size++) {
        const eitp_status status = read_table(r, name);
        CHECK_THAT(status == EITP_OK, "%s", r->error.message);
        CHECK_THAT(status != EITP_OK || !strcmp(r->rows, rows), "read_size %d: %s", (int)r->config.texts.read_size,
                   r->rows);
    }
    r->config.texts.read_size = 0;
    CHECK(r->statistics.bytes == strlen(content) && r->statistics.bytes_total == strlen(content));
}

/* Checks the error for a file with this content. Its message starts with "<path>: <what>". */
static void check_refused(table_read *r, const char *name, const char *content, eitp_status expected,
                          const char *what) {
    CHECK(put(name, content));
    for (r->config.texts.read_size = 0; r->config.texts.read_size < 3; r->config.texts.read_size++) {
        const eitp_status status = read_table(r, name);
        const size_t length = strlen(at(name));
        CHECK_THAT(status == expected, "%d: %s", (int)status, r->error.message);
        CHECK(status == EITP_OK || (!strncmp(r->error.message, at(name), length) && has(&r->error, what) &&
                                    !strncmp(r->error.message + length, ": ", 2) &&
                                    !strncmp(r->error.message + length + 2, what, strlen(what))));
    }
    r->config.texts.read_size = 0;
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

static void test_lines_and_folders(void) {
    table_read r = EITP__ZERO;
    REQUIRE(scratch_make(scratch));
    check_rows(&r, "a.txt", "one\r\n\n two\n\xEF\xBB\xBFthree", "one@1:1\n two@3:1\n\xEF\xBB\xBFthree@4:1\n");
    CHECK(put_directory("files") && put("files/pos.v1.txt", "a\n\nb") && put("files/neg", "c\n") &&
          put("files/.x", "d"));
    CHECK(read_table(&r, "files") == EITP_OK);
    CHECK_THAT(!strcmp(r.rows, "c=neg@1:1\na=pos.v1@1:1\nb=pos.v1@3:1\n"), "%s", r.rows);
    CHECK(put_directory("folders/pos/more") && put_directory("folders/neg") && put("folders/README", "e"));
    CHECK(put("folders/pos/2.txt", "a\nb\n") && put("folders/pos/1.txt", "c") && put("folders/pos/more/3", "d"));
    CHECK(put("folders/neg/1.txt", "") && put("folders/neg/0.txt", "f"));
    CHECK(read_table(&r, "folders") == EITP_OK && r.log.warnings == 2);
    CHECK_THAT(!strcmp(r.rows, "f=neg@1:1\nc=pos@1:1\na\nb\n=pos@1:1\nd=pos@1:1\n"), "%s", r.rows);
    CHECK(put_directory("tables") && put("tables/a.csv", "text\nx\n"));
    CHECK(read_table(&r, "tables") == EITP_ERROR_ARGUMENT &&
          has(&r.error, "a.csv: a table in a directory with a file"));
    r.config.texts.format = EITP_FORMAT_CSV;
    CHECK(read_table(&r, "tables") == EITP_OK && !strcmp(r.rows, "x@2:1\n"));
    r.config.texts.format = EITP_FORMAT_FOLDERS;
    CHECK(read_table(&r, "a.txt") == EITP_ERROR_ARGUMENT && has(&r.error, "a.txt: a file, but format is FOLDERS"));
    r.config.texts.format = (eitp_text_format)9;
    CHECK(read_table(&r, "a.txt") == EITP_ERROR_ARGUMENT && has(&r.error, "unknown text format 9"));
    r.config.texts.format = EITP_FORMAT_AUTO;
    CHECK(read_table(&r, "missing") == EITP_ERROR_ARGUMENT && has(&r.error, "missing: no such file or directory"));
    scratch_remove(scratch);
}

static void test_bad_rows_are_skipped(void) {
    table_read r = EITP__ZERO;
    REQUIRE(scratch_make(scratch));
    r.config.texts.skip_bad = 1;
    check_rows(&r, "a.csv", "text,n\na,1\nb\nc,\"d\"e\nf,2,3\ng,4\n\"h", "a@2:1\ng@6:1\n");
    CHECK(r.statistics.rows == 2 && r.statistics.skipped_rows == 4 && r.log.warnings == 5);
    CHECK(strstr(r.log.last, "skipped 4 bad rows of 6"));
    check_rows(&r, "a.jsonl", "{\"text\":1}\n{\"text\":\"a\"}\n{\n", "a@2:9\n");
    r.config.row_limit = 8;
    check_rows(&r, "a.txt", "1234567\n0123456789 0123456789\n1234567", "1234567@1:1\n1234567@3:1\n");
    check_rows(&r, "a.csv", "text\n\"123\n45678\n9\nabc\n", "9@4:1\nabc@5:1\n");
    r.config.row_limit = 0;
    CHECK(put("a.csv", "text,n\na\nb\n") && read_table(&r, "a.csv") == EITP_ERROR_FORMAT);
    CHECK(has(&r.error, "all 2 rows are bad"));
    char many[400] = "text,n\nx,1\n";
    for (int i = 0; i < 50; i++)
        strcat(many, "bad\n");
    CHECK(put("a.csv", many) && read_table(&r, "a.csv") == EITP_OK && r.statistics.skipped_rows == 50);
    CHECK_THAT(r.log.warnings == 12, "%d", r.log.warnings); /* 10 rows, a note that more are not reported, and the
                                                               total */
    scratch_remove(scratch);
}

/* Reads one example for each row, for a program that writes a line for each. */
static void test_every_row(void) {
    table_read r = EITP__ZERO;
    REQUIRE(scratch_make(scratch));
    r.config.every_row = 1;
    check_rows(&r, "a.txt", "one\r\n\r\n\nfour", "one@1:1\n@2:1\n@3:1\nfour@4:1\n");
    check_rows(&r, "a.txt", "\n", "@1:1\n");
    check_rows(&r, "a.csv", "text\n\na\n", "a@3:1\n");
    r.config.texts.skip_bad = 1;
    check_rows(&r, "a.csv", "text,n\na,1\nb\nc,2\n\"d", "a@2:1\n(skipped)@0:0\nc@4:1\n(skipped)@0:0\n");
    CHECK(r.statistics.rows == 2 && r.statistics.skipped_rows == 2);
    check_rows(&r, "a.jsonl", "{\n{\"text\":\"a\"}\n", "(skipped)@0:0\na@2:9\n");
    CHECK(put("a.csv", "text,n\na\nb\n") && read_table(&r, "a.csv") == EITP_ERROR_FORMAT);
    CHECK(!strcmp(r.rows, "(skipped)@0:0\n(skipped)@0:0\n") && has(&r.error, "all 2 rows are bad"));
    scratch_remove(scratch);
}

static void test_encodings_of_tables(void) {
    table_read r = EITP__ZERO;
    REQUIRE(scratch_make(scratch));
    CHECK(put("a.csv", "text,label\n\xC4\xE3\xBA\xC3,\xBA\xC3\n"));
    CHECK(read_table(&r, "a.csv") == EITP_ERROR_FORMAT && has(&r.error, "iconv -f GB18030 -t UTF-8 '"));
    r.config.texts.encoding = "GB18030";
    CHECK(read_table(&r, "a.csv") == EITP_OK);
    CHECK_THAT(!strcmp(r.rows, "\xE4\xBD\xA0\xE5\xA5\xBD=\xE5\xA5\xBD@2:1\n"), "%s", r.rows);
    r.config.texts.encoding = NULL;
    check_rows(&r, "b.csv", "text\na\xFF\n", "a\xEF\xBF\xBD@2:1\n");
    CHECK(r.statistics.invalid_bytes == 1 && r.log.warnings == 1);
    r.config.texts.strict_utf8 = r.config.texts.skip_bad = 1;
    check_refused(&r, "b.csv", "text\na\xFF\n", EITP_ERROR_FORMAT, "invalid UTF-8 at byte 6 (0xFF)");
    scratch_remove(scratch);
}

/* An input that returns its text in pieces, like a pipe. */
typedef struct pieces {
    const char *text;
    size_t size; /* size of a piece */
} pieces;

static eitp_status read_piece(void *user, const char **text, size_t *size, eitp_error *error) {
    pieces *p = (pieces *)user;
    (void)error;
    *text = p->text;
    *size = strlen(p->text) < p->size ? strlen(p->text) : p->size;
    p->text += *size;
    return EITP_OK;
}

static void test_input(void) {
    const eitp_host host = eitp_host_default();
    const char *path = "-";
    for (size_t size = 1; size < 200000; size = size * 3 + 1) {
        eitp_table_config config = eitp_table_config_default();
        eitp_table *table = NULL;
        eitp_example example = EITP__ZERO;
        eitp_error error;
        pieces p;
        static char text[150000];
        int is_end;
        memset(text, 'x', sizeof text - 1);
        memcpy(text, "text,label\n\"\",1\n", 16);
        text[sizeof text - 3] = ',';
        p.text = text;
        p.size = size;
        config.texts.paths = &path;
        config.texts.path_count = 1;
        CHECK(eitp_table_open(&host, &config, &table, &error) == EITP_ERROR_ARGUMENT && has(&error, "set input"));
        config.texts.input.user = &p;
        config.texts.input.read = read_piece;
        config.texts.format = EITP_FORMAT_CSV;
        REQUIRE_OK(eitp_table_open(&host, &config, &table, &error), error);
        const eitp_example_source source = eitp_table_source(table);
        REQUIRE_OK(source.read(source.user, &example, &is_end, &error), error);
        CHECK(!is_end && example.text.size == 0 && example.label_count == 1 && !strcmp(example.path, "-"));
        REQUIRE_OK(source.read(source.user, &example, &is_end, &error), error);
        CHECK(!is_end && example.text.size == sizeof text - 19 && example.labels->size == 1);
        REQUIRE_OK(source.read(source.user, &example, &is_end, &error), error);
        CHECK(is_end && eitp_table_get_statistics(table).bytes == sizeof text - 1);
        eitp_table_close(table);
    }
}

static void test_memory_is_bounded(void) {
    faults f[2];
    static char text[1 << 20];
    REQUIRE(scratch_make(scratch));
    for (int k = 0; k < 2; k++) {
        table_read *r = (table_read *)calloc(1, sizeof *r);
        const size_t size = k ? sizeof text - 1 : 1 << 17;
        memset(text, 0, sizeof text);
        for (size_t i = 0; i < size; i++)
            text[i] = "\",\n\"abc"[noise(i) % 7];
        memcpy(text, "text\n", 5);
        CHECK(put("a.csv", text));
        faults_begin(&f[k]);
        r->host = f[k].host;
        r->config.texts.skip_bad = 1;
        r->config.row_limit = 64;
        r->is_silent = 1;
        CHECK_THAT(read_table(r, "a.csv") == EITP_OK && r->statistics.skipped_rows > 100, "%s", r->error.message);
        faults_end(&f[k]);
        free(r);
    }
    CHECK_THAT(f[1].peak_bytes <= f[0].peak_bytes, "%zu and %zu bytes", f[0].peak_bytes, f[1].peak_bytes);
    scratch_remove(scratch);
}

/* The memory for a row of many small values must not be a large multiple of its size. */
static void test_values_of_a_row_are_bounded(void) {
    static char text[(5 << 20)];
    table_read r = EITP__ZERO;
    faults f;
    REQUIRE(scratch_make(scratch));
    memset(text, 0, sizeof text);
    strcpy(text, "{\"text\":\"a\",\"x\":[0");
    for (size_t i = strlen(text); i + 10 < sizeof text; i += 2)
        memcpy(text + i, ",0", 2);
    strcat(text, "]}\n");
    CHECK(put("a.jsonl", text));
    faults_begin(&f);
    r.host = f.host;
    CHECK(read_table(&r, "a.jsonl") == EITP_ERROR_FORMAT && has(&r.error, "line 1, column 2097") &&
          has(&r.error, "expected fewer values"));
    CHECK_THAT(f.peak_bytes < (size_t)160 << 20, "%zu bytes", f.peak_bytes);
    faults_end(&f);
    scratch_remove(scratch);
}

static int read_with_fault(const char *name, long n, int in_memory) {
    faults f;
    table_read r = EITP__ZERO;
    faults_begin(&f);
    *(in_memory ? &f.fail_allocation : &f.fail_file_call) = n;
    r.host = f.host;
    r.config.texts.text_column = "text";
    r.config.texts.encoding = "UTF-8";
    if (!strcmp(name, "chat.csv")) {
        r.config.texts.text_column = NULL;
        r.config.texts.format = EITP_FORMAT_CHAT;
        r.config.texts.encoding = "ISO-8859-1";
    }
    const eitp_status status = read_table(&r, name);
    CHECK_THAT(status == EITP_OK || status == (in_memory ? EITP_ERROR_MEMORY : EITP_ERROR_IO), "%s", r.error.message);
    CHECK(status == EITP_OK || (r.error.status == status && strlen(r.error.message) > 10));
    return faults_end(&f);
}

static void test_reading_survives_faults(void) {
    static const char *const names[] = {"a.csv", "a.jsonl", "folders", "chat.csv"};
    REQUIRE(scratch_make(scratch));
    CHECK(put("a.csv", "text,label\n\"a\nb\",x\n") && put("a.jsonl", "{\"text\":\"a\",\"label\":[1,\"b\"]}\n"));
    CHECK(put_directory("folders/pos") && put("folders/pos/a", "x") && put("chat.csv", "prompt;response\nq;a\n"));
    for (size_t i = 0; i < EITP__COUNT(names); i++) {
        long n;
        for (n = 1; read_with_fault(names[i], n, 1); n++)
            ;
        CHECK_THAT(n > 10, "%s: %ld allocations", names[i], n);
        for (n = 1; read_with_fault(names[i], n, 0); n++)
            ;
        CHECK_THAT(n > 5, "%s: %ld file calls", names[i], n);
    }
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
    check_refused(&r, "a.csv", "a,\"b\nc\"\n", EITP_ERROR_ARGUMENT, "line 1: no column named 'text' (columns: a, b c)");
    char wide[2000] = "";
    for (int i = 0; i < 300; i++)
        strcat(wide, i ? ",\xE4\xB8\xAD" : "a");
    CHECK(put("a.csv", wide) && read_table(&r, "a.csv") == EITP_ERROR_ARGUMENT &&
          has(&r.error, "\xE4\xB8\xAD...); set"));
    CHECK(eitp__utf8_valid_prefix((const unsigned char *)r.error.message, strlen(r.error.message)) ==
          strlen(r.error.message));
    check_refused(&r, "a.csv", "text,b,text\n", EITP_ERROR_FORMAT, "line 1: columns 1 and 3 are both named 'text'");
    r.config.label_column = "class";
    check_refused(&r, "a.csv", "text,label\nc,d\n", EITP_ERROR_ARGUMENT,
                  "line 1: no column named 'class' (columns: text, label); set label_column to one of these");
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
    r.config.texts.text_column = "first", r.config.pair_column = "second", r.config.label_column = "class";
    check_rows(&r, "a.csv", "class,second,first\nx,b,a\n,,\n", "a+b=x@2:5\n+@3:3\n");
    check_rows(&r, "a.jsonl", "{\"first\":\"a\",\"second\":\"b\",\"class\":1}\n{\"first\":\"c\",\"second\":null}\n",
               "a+b=1@1:10\nc@2:10\n");
    r.config.texts.text_column = "2", r.config.pair_column = NULL, r.config.label_column = "1";
    check_rows(&r, "a.csv", "x,a\ny,b\n", "a=x@1:3\nb=y@2:3\n");
    r.config.label_column = NULL;
    check_rows(&r, "a.csv", "label,a\ny,b\n", "a@1:7\nb@2:3\n");
    r.config.label_column = "class";
    check_rows(&r, "a.csv", "class,2\ny,b\n", "b=y@2:3\n");
    r.config.texts.text_column = "3", r.config.label_column = NULL;
    check_refused(&r, "a.csv", "x,a\n", EITP_ERROR_ARGUMENT, "line 1: no column '3' (columns: x, a)");
    r.config.texts.text_column = "text", r.config.label_column = "class";
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
    check_refused(&r, "a.json", "{\n\"text\":\"a\"}\n", EITP_ERROR_FORMAT, "invalid JSON at line 1");
    CHECK(has(&r.error, "a file must have a JSON object on each line, or be one list of objects"));
    check_refused(&r, "a.json", "1", EITP_ERROR_FORMAT,
                  "line 1, column 1: 'the line' must be an object (got a number)");
    scratch_remove(scratch);
}

static void test_json_lists(void) {
    table_read r = EITP__ZERO;
    REQUIRE(scratch_make(scratch));
    check_rows(&r, "a.json", "[{\"text\":\"a\"},\n{\"text\":\"b\",\"label\":1}]\n", "a@1:10\nb=1@2:9\n");
    check_rows(&r, "a.json",
               " \n [\n  {\n    \"label\": \"x\",\n    \"text\": \"\xC3\xA4 ]}\\\"{\"\n  }\n,{\"text\":\"\"} ]  \n\n",
               "\xC3\xA4 ]}\"{=x@5:13\n@7:10\n");
    check_rows(&r, "a.json", "[{\"text\":\"a\", \"more\": [{}, {\"a\": {}}]}]", "a@1:10\n");
    check_rows(&r, "a.JSON", "[{\"text\":\"a\"}]", "a@1:10\n");
    check_refused(&r, "a.json", "[1]", EITP_ERROR_FORMAT,
                  "line 1, column 2: expected an object or a closing bracket in a list of objects");
    check_refused(&r, "a.json", "[\"a\",\"b\"]", EITP_ERROR_FORMAT, "line 1, column 2: expected an object");
    check_refused(&r, "a.json", "[[{\"text\":\"a\"}]]", EITP_ERROR_FORMAT, "line 1, column 2: expected an object");
    check_refused(&r, "a.json", "[{\"text\":\"a\"}\n{\"text\":\"b\"}]", EITP_ERROR_FORMAT,
                  "line 2, column 1: expected a comma or a closing bracket");
    check_refused(&r, "a.json", "[{\"text\":\"a\"},]", EITP_ERROR_FORMAT, "line 1, column 15: expected an object");
    check_refused(&r, "a.json", "[{\"text\":\"a\"}] x", EITP_ERROR_FORMAT, "line 1, column 16: expected nothing more");
    check_refused(&r, "a.json", "[{\"text\":\"a\"}", EITP_ERROR_FORMAT, "line 1, column 1: expected a comma");
    check_refused(&r, "a.json", "[{\"text\":\"\xC3\xA4\",\n\"label\":{}}]", EITP_ERROR_FORMAT,
                  "line 2, column 9: 'label' must be a string");
    check_refused(&r, "a.json", "[{\"text\":\"\xC3\xA4\"},{\"text\":1}]", EITP_ERROR_FORMAT,
                  "line 1, column 23: 'text' must be a string (got a number)");
    check_refused(&r, "a.json", "[{\"text\":\"a\"},{\"text\":", EITP_ERROR_FORMAT,
                  "line 1, column 1: expected the end of an object");
    scratch_remove(scratch);
}

/* A column contains weights only if it is named. A column that looks like weights is reported. */
static void test_weights(void) {
    table_read r = EITP__ZERO;
    REQUIRE(scratch_make(scratch));
    check_rows(&r, "a.csv", "text,weight,label\na,2,x\n", "a=x@2:1\n");
    CHECK(r.statistics.has_weights);
    check_rows(&r, "a.jsonl", "{\"text\":\"a\",\"sample_weight\":2}\n", "a@1:9\n");
    CHECK(r.statistics.has_weights);
    check_rows(&r, "a.jsonl", "{\"text\":\"a\",\"weigh\":2}\n", "a@1:9\n");
    CHECK(!r.statistics.has_weights);
    r.config.weight_column = "w";
    check_rows(&r, "a.csv", "text,w,label,weight\na,2,x,7\nb,,y,8\n", "a*2=x@2:1\nb*=y@3:1\n");
    CHECK(!r.statistics.has_weights);
    check_rows(&r, "a.jsonl",
               "{\"text\":\"a\",\"w\":0.50}\n{\"text\":\"b\",\"w\":null}\n{\"text\":\"c\",\"w\":\"3\"}\n",
               "a*0.50@1:9\nb@2:9\nc*3@3:9\n");
    check_refused(&r, "a.jsonl", "{\"text\":\"a\",\"w\":[1]}\n", EITP_ERROR_FORMAT,
                  "line 1, column 17: 'w' must be a string (got a list)");
    check_refused(&r, "a.jsonl", "{\"text\":\"a\"}\n", EITP_ERROR_ARGUMENT, "no row has a member named 'w'");
    check_refused(&r, "a.csv", "text,label\na,x\n", EITP_ERROR_ARGUMENT, "line 1: no column named 'w'");
    check_refused(&r, "a.txt", "a\n", EITP_ERROR_ARGUMENT,
                  "not CSV, TSV or JSON Lines, so there is no weight column 'w'");
    scratch_remove(scratch);
}

/* Other JSON contents: columns instead of rows, nested objects, several strings on a line. */
static void test_json_of_other_forms(void) {
    table_read r = EITP__ZERO;
    REQUIRE(scratch_make(scratch));
    check_refused(&r, "a.json", "{\"text\":[\"a b\",\"c\"],\"label\":[\"x\",\"y\"]}", EITP_ERROR_ARGUMENT,
                  "one object with a list for each column; write an object for each row");
    check_rows(&r, "a.json", "{\"text\":[\"a b\",\"c\"]}\n{\"text\":[\"d\"]}\n", "a b c@1:9\nd@2:9\n");
    check_rows(&r, "a.jsonl", "{\"text\":[\"a b\",\"c\"]}\n", "a b c@1:9\n");
    check_rows(&r, "a.json", "{\"text\":[\"a\",\"c\"],\"label\":[\"x\",\"y\"]}", "a c[x,y]@1:9\n");
    check_refused(&r, "a.json", "{\"text\":{\"0\":\"a\"}}", EITP_ERROR_FORMAT,
                  "line 1, column 9: 'text' must be a string (got an object)");
    check_refused(&r, "a.json", "{\"data\":[{\"text\":\"a\"}],\"version\":1}", EITP_ERROR_FORMAT,
                  "line 1: no member named 'text' with text (members: data, version); set text_column to");
    check_refused(&r, "a.json", "{\"text\":\"a\"}{\"text\":\"b\"}", EITP_ERROR_FORMAT, "invalid JSON at line 1");
    check_refused(&r, "a.json", "null", EITP_ERROR_FORMAT, "line 1, column 1: 'the line' must be an object (got null)");
    check_refused(&r, "a.json", "\"a\"", EITP_ERROR_FORMAT,
                  "line 1, column 1: 'the line' must be an object (got a string)");
    check_rows(&r, "a.json", "\xEF\xBB\xBF[{\"text\":\"a\"}]", "a@1:10\n");
    check_rows(&r, "a.json", " \n", "");
    /* A table is not a text file with one label, in any format. */
    CHECK(put_directory("labels") && put("labels/a.json", "[{\"text\":\"a\"}]"));
    r.config.texts.format = EITP_FORMAT_AUTO;
    CHECK(read_table(&r, "labels") == EITP_ERROR_ARGUMENT && has(&r.error, "a table in a directory with a file"));
    scratch_remove(scratch);
}

/* ---- Detected columns ---- */

/* A table, its rows, and the end of the log message about it (NULL: no message). */
typedef struct found_case {
    const char *name, *content, *rows, *said;
} found_case;

static void check_found(const found_case *cases, size_t count) {
    REQUIRE(scratch_make(scratch));
    for (size_t i = 0; i < count; i++) {
        table_read r = EITP__ZERO;
        check_rows(&r, cases[i].name, cases[i].content, cases[i].rows);
        CHECK_THAT(cases[i].said ? strstr(r.log.last, cases[i].said) != NULL : !r.log.last[0], "%s: '%s'",
                   cases[i].name, r.log.last);
        CHECK_THAT(r.log.lines == (cases[i].said != NULL), "%s: %d lines", cases[i].name, r.log.lines);
    }
    scratch_remove(scratch);
}

static void test_separators_are_found(void) {
    static const found_case cases[] = {
        {"semicolons.csv", "text;label\none, two;x\n\"three;four\";y\n", "one, two=x@2:1\nthree;four=y@3:1\n",
         ": read with delimiter ';'"},
        {"tabs.csv", "label\ttext\nx\tone, two\n", "one, two=x@2:3\n", ": read with delimiter 'tab'"},
        {"commas.csv", "text,label\none;two,x\nthree;four,y\n", "one;two=x@2:1\nthree;four=y@3:1\n", NULL},
        {"one.csv", "text\na;b\nc\td\n", "a;b@2:1\nc\td@3:1\n", NULL},
        {"decimals.csv", "text;weight\nsun;1,5\nfog;2,5\n", "sun@2:1\nfog@3:1\n", ": read with delimiter ';'"},
        {"quoted.csv", "\"text\";\"a,b\";label\n\"1\n,2\";\"\";x\n", "1\n,2=x@2:1\n", ": read with delimiter ';'"},
    };
    check_found(cases, EITP__COUNT(cases));
}

static void test_line_ends_are_found(void) {
    static const found_case cases[] = {
        {"returns.csv", "text,label\rhello,a\rworld,b", "hello=a@2:1\nworld=b@3:1\n", NULL},
        {"returns.tsv", "text\tlabel\rhello\ta\r\rworld\tb\r", "hello=a@2:1\nworld=b@4:1\n", NULL},
        {"returns.txt", "one\rtwo\r", "one@1:1\ntwo@2:1\n", NULL},
        {"returns.jsonl", "{\"text\": \"a\"}\r{\"text\": \"b\"}\r", "a@1:10\nb@2:10\n", NULL},
        {"returns.conll", "a x\rb y\r\rc x\r", "a b[x,y]@1:1\nc[x]@4:1\n", NULL},
        {"within.csv", "text,label\n\"one\rtwo\",a\n", "one\rtwo=a@2:1\n", NULL},
    };
    check_found(cases, EITP__COUNT(cases));
}

static void test_columns_are_found(void) {
    static const found_case cases[] = {
        {"reviews.csv", "id,review,sentiment\n1,good,x\n", "good=x@2:3\n",
         ": read with text_column 'review', label_column 'sentiment'"},
        {"caps.csv", "Text;Label\ngood;x\n", "good=x@2:1\n",
         ": read with delimiter ';', text_column 'Text', label_column 'Label'"},
        {"chinese.csv", "\xE6\x96\x87\xE6\x9C\xAC,\xE6\xA0\x87\xE7\xAD\xBE\ngood,x\n", "good=x@2:1\n",
         ": read with text_column '\xE6\x96\x87\xE6\x9C\xAC', label_column '\xE6\xA0\x87\xE7\xAD\xBE'"},
        {"several.csv", "sentence,category,target\ngood,x,y\n", "good@2:1\n", ": read with text_column 'sentence'"},
        {"known.csv", "text,message,label,target\ngood,no,x,y\n", "good=x@2:1\n", NULL},
        {"reviews.jsonl", "{\"content\": \"a\", \"category\": 1}\n{\"category\": 2, \"content\": \"b\"}\n",
         "a=1@1:13\nb=2@2:28\n", ": read with text_column 'content', label_column 'category'"},
        {"known.jsonl", "{\"text\": \"a\", \"target\": 1}\n{\"text\": \"b\", \"target\": 1, \"label\": 2}\n",
         "a=1@1:10\nb=2@2:10\n", ": read with label_column 'target'"},
    };
    table_read r = EITP__ZERO;
    check_found(cases, EITP__COUNT(cases));
    REQUIRE(scratch_make(scratch));
    check_refused(&r, "unclear.csv", "review,message\na,b\n", EITP_ERROR_ARGUMENT,
                  "line 1: no column named 'text' (columns: review, message); set text_column to one of these");
    check_refused(&r, "unclear.jsonl", "{\"review\": \"a\", \"message\": \"b\"}\n", EITP_ERROR_FORMAT,
                  "line 1: no member named 'text' with text (members: review, message); set text_column to");
    scratch_remove(scratch);
}

static void test_separators_are_set(void) {
    static const struct {
        const char *setting, *content, *rows;
    } cases[] = {{"|", "text|label\na;b|x\n", "a;b=x@2:1\n"},
                 {"comma", "text,a;b,label\n1,2;3,x\n", "1=x@2:1\n"},
                 {"tab", "text\tlabel\na;b\tx\n", "a;b=x@2:1\n"},
                 {";", "text;label\na;x\n", "a=x@2:1\n"}};
    static const char *const wrong[] = {"", "ab", "\"", "\n", "\xC3\xA4"};
    table_read r = EITP__ZERO;
    REQUIRE(scratch_make(scratch));
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        r.config.texts.delimiter = cases[i].setting;
        check_rows(&r, i % 2 ? "a.tsv" : "a.csv", cases[i].content, cases[i].rows);
        CHECK_THAT(!r.log.lines, "%s", r.log.last);
    }
    check_refused(&r, "a.jsonl", "{}", EITP_ERROR_ARGUMENT, "delimiter is for the columns of CSV and TSV");
    for (size_t i = 0; i < EITP__COUNT(wrong); i++) {
        r.config.texts.delimiter = wrong[i];
        CHECK(read_table(&r, "a.csv") == EITP_ERROR_ARGUMENT && has(&r.error, "must be one ASCII character"));
    }
    scratch_remove(scratch);
}

static void test_documents_of_tables(void) {
    static const found_case cases[] = {
        {"fortunes", "a\nb\n%\nc\n%\n%\r\n%\nd", "a\nb\n@1:1\nc\n@4:1\nd@8:1\n", ": read with document_separator '%'"},
        {"two", "a\n%\nb\n%\n", "a\n%\nb\n%\n@1:1\n", NULL},
        {"comments.tex", "%\n%\n%\n% more\n", "%\n%\n%\n% more\n@1:1\n", NULL},
    };
    table_read r = EITP__ZERO;
    REQUIRE(scratch_make(scratch));
    r.config.texts.format = EITP_FORMAT_TEXT;
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        check_rows(&r, cases[i].name, cases[i].content, cases[i].rows);
        CHECK_THAT(cases[i].said ? strstr(r.log.last, cases[i].said) != NULL : !r.log.last[0], "%s", r.log.last);
    }
    r.config.texts.document_separator = "none";
    check_rows(&r, "fortunes", "%\n%\n%\n", "%\n%\n%\n@1:1\n");
    r.config.texts.document_separator = "---";
    check_rows(&r, "a", "a\n---\nb ---\n----\n---", "a\n@1:1\nb ---\n----\n@3:1\n");
    r.config.texts.format = EITP_FORMAT_AUTO;
    check_refused(&r, "a.csv", "text\n", EITP_ERROR_ARGUMENT, "document_separator is for files that are read as text");
    scratch_remove(scratch);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(test_csv),
        TEST(test_csv_errors),
        TEST(test_columns),
        TEST(test_jsonl),
        TEST(test_json_lists),
        TEST(test_json_of_other_forms),
        TEST(test_weights),
        TEST(test_separators_are_found),
        TEST(test_line_ends_are_found),
        TEST(test_columns_are_found),
        TEST(test_separators_are_set),
        TEST(test_documents_of_tables),
        TEST(test_lines_and_folders),
        TEST(test_bad_rows_are_skipped),
        TEST(test_every_row),
        TEST(test_encodings_of_tables),
        TEST(test_input),
        TEST(test_memory_is_bounded),
        TEST(test_values_of_a_row_are_bounded),
        TEST(test_reading_survives_faults),
    };
    return RUN_TESTS(tests, argc, argv);
}
