/* Text encodings, and files that are refused because they are not text in the encoding. */
#include "tests/support/everything.h"

#include "tests/support/faults.h"
#include "tests/support/test.h"

static char scratch[512];

static int put_bytes(const char *name, const char *bytes, size_t size) {
    const eitp_host host = eitp_host_default();
    return eitp__write_file(&host, scratch_path(scratch, name), bytes, size, NULL) == EITP_OK;
}

#define PUT(name, bytes) put_bytes(name, bytes, sizeof(bytes) - 1)

static int has(const eitp_error *error, const char *text) {
    if (strstr(error->message, text))
        return 1;
    printf("    no \"%s\" in \"%s\"\n", text, error->message);
    return 0;
}

/* The text read from a file of the scratch directory, with the error and warnings. */
typedef struct text_read {
    eitp_text_files_config config;
    eitp_error error;
    char text[4000];
    char log[600];
} text_read;

static void see_log(void *user, eitp_log_level level, const char *message) {
    if (level == EITP_LOG_WARNING)
        snprintf(((text_read *)user)->log, sizeof((text_read *)user)->log, "%s", message);
}

static eitp_status read_text(text_read *r, const char *name) {
    eitp_host host = eitp_host_default();
    eitp_text_files *files = NULL;
    const char *path = scratch_path(scratch, name), *piece = "";
    size_t size = 0;
    host.log.user = r;
    host.log.write = see_log;
    r->config.paths = &path;
    r->config.path_count = 1;
    r->text[0] = r->log[0] = 0;
    eitp_status status = eitp_text_files_open(&host, &r->config, &files, &r->error);
    const eitp_text_source source = eitp_text_files_source(files);
    while (status == EITP_OK && piece) {
        status = source.read(source.user, &piece, &size, &r->error);
        if (status == EITP_OK && piece && strlen(r->text) + size < sizeof r->text)
            strncat(r->text, piece, size);
    }
    eitp_text_files_close(files);
    return status;
}

/* Checks the decoded text, reading in pieces of every small size. */
static void check_decoded(const char *encoding, const char *bytes, size_t size, const char *expected) {
    text_read r = EITP__ZERO;
    CHECK(put_bytes("a", bytes, size));
    r.config.encoding = encoding;
    for (r.config.read_size = 0; r.config.read_size < 9; r.config.read_size++) {
        const eitp_status status = read_text(&r, "a");
        CHECK_THAT(status == EITP_OK, "%s: %s", encoding, r.error.message);
        CHECK_THAT(!strcmp(r.text, expected), "%s: %s", encoding, r.text);
    }
}

#define DECODED(encoding, bytes, expected) check_decoded(encoding, bytes, sizeof(bytes) - 1, expected)

/* "ä中😀" */
#define MIXED "\xC3\xA4\xE4\xB8\xAD\xF0\x9F\x98\x80"

static void test_encodings(void) {
    REQUIRE(scratch_make(scratch));
    DECODED(NULL, MIXED, MIXED);
    DECODED("utf-8", "\xEF\xBB\xBF" MIXED, MIXED);
    DECODED("UTF8", MIXED "\xEF\xBB\xBF", MIXED "\xEF\xBB\xBF");
    DECODED("GB18030", "\x81\x30\x8A\x31\xD6\xD0\x94\x39\xFC\x36", MIXED);
    DECODED("GBK", "\xC4\xE3\xBA\xC3\n", "\xE4\xBD\xA0\xE5\xA5\xBD\n");
    DECODED("UTF-16LE", "\xE4\0\x2D\x4E\x3D\xD8\0\xDE", MIXED);
    DECODED("UTF-16", "\xFE\xFF\0\xE4\x4E\x2D\xD8\x3D\xDE\0", MIXED);
    DECODED("UTF-16", "\xFF\xFE\xE4\0\x2D\x4E\x3D\xD8\0\xDE", MIXED);
    DECODED("UTF-16LE", "\xFF\xFE\xE4\0", "\xC3\xA4");
    DECODED("UTF-16LE",
            "\xFF\xFE\xFF\xFE"
            "a\0",
            "\xEF\xBB\xBF"
            "a");
    DECODED("UTF-32BE", "\0\0\0\xE4\0\0\x4E\x2D", "\xC3\xA4\xE4\xB8\xAD");
    DECODED("ISO-8859-1", "caf\xE9", "caf\xC3\xA9");
    DECODED("UTF-16", "", "");
    scratch_remove(scratch);
}

static void test_invalid_in_encodings(void) {
    text_read r = EITP__ZERO;
    REQUIRE(scratch_make(scratch));
    DECODED("GBK",
            "a\xFF"
            "b\xC4",
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
    DECODED("UTF-16LE",
            "a\0\x3D\xD8"
            "b\0c",
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
    CHECK(PUT("a", "ab\xC4\xE3\xFFz"));
    r.config.encoding = "GBK";
    CHECK(read_text(&r, "a") == EITP_OK && strstr(r.log, "replaced 1 bytes of invalid GBK") &&
          strstr(r.log, "byte 4 (0xFF)"));
    r.config.strict_utf8 = 1;
    for (r.config.read_size = 1; r.config.read_size < 9; r.config.read_size++)
        CHECK(read_text(&r, "a") == EITP_ERROR_FORMAT && has(&r.error, "invalid GBK at byte 4 (0xFF)"));
    r.config.encoding = NULL;
    CHECK(PUT("a", "\xEF\xBB\xBF"
                   "abc\xFFz"));
    CHECK(read_text(&r, "a") == EITP_ERROR_FORMAT && has(&r.error, "invalid UTF-8 at byte 6 (0xFF)"));
    r.config.encoding = "GBK";
    CHECK(PUT("a", "\xFF\xFF\xFF\xFFz") && read_text(&r, "a") == EITP_ERROR_FORMAT);
    CHECK(has(&r.error, "is not GBK: 4 of its first 5 bytes are invalid"));
    r.config.encoding = "nonsense";
    CHECK(read_text(&r, "a") == EITP_ERROR_ARGUMENT && has(&r.error, "unknown encoding 'nonsense'"));
    r.config.encoding = "GBK//IGNORE";
    CHECK(read_text(&r, "a") == EITP_ERROR_ARGUMENT && has(&r.error, "unknown encoding"));
    scratch_remove(scratch);
}

/* Checks that reading text, packing and opening a table refuse a file with the same message. */
static void check_refused(const char *name, const char *what, const char *command) {
    text_read r = EITP__ZERO;
    const eitp_host host = eitp_host_default();
    const char *path = scratch_path(scratch, name);
    eitp_tokenizer *tokenizer = NULL;
    eitp_pack_config pack = eitp_pack_config_default();
    eitp_table_config config = eitp_table_config_default();
    eitp_table *table = NULL;
    eitp_example example;
    int is_end;
    CHECK(read_text(&r, name) == EITP_ERROR_FORMAT && has(&r.error, path) && has(&r.error, what) &&
          has(&r.error, command));
    pack.texts.paths = config.texts.paths = &path;
    pack.texts.path_count = config.texts.path_count = 1;
    REQUIRE_OK(eitp_tokenizer_create_bytes(&host, &tokenizer, &r.error), r.error);
    CHECK(eitp_pack(&host, tokenizer, &pack, scratch_path(scratch, "out"), NULL, &r.error) == EITP_ERROR_FORMAT);
    CHECK(has(&r.error, what) && has(&r.error, command));
    eitp_tokenizer_destroy(tokenizer);
    REQUIRE_OK(eitp_table_open(&host, &config, &table, &r.error), r.error);
    const eitp_example_source source = eitp_table_source(table);
    CHECK(source.read(source.user, &example, &is_end, &r.error) == EITP_ERROR_FORMAT);
    CHECK(has(&r.error, what) && has(&r.error, command));
    eitp_table_close(table);
}

static void test_refused_formats(void) {
    REQUIRE(scratch_make(scratch));
    CHECK(PUT("a", "\x1F\x8B\x08text"));
    check_refused("a", "is a gzip file", "gunzip -c '");
    CHECK(PUT("a", "PK\3\4text"));
    check_refused("a", "is a zip (as are .docx, .xlsx and .npz) file", "unzip -p '");
    CHECK(PUT("a", "\x28\xB5\x2F\xFDtext"));
    check_refused("a", "is a zstd file", "zstd -dc '");
    CHECK(PUT("a", "\xFD"
                   "7zXZ\0text"));
    check_refused("a", "is a xz file", "xz -dc '");
    CHECK(PUT("a", "BZh91AY&SYtext"));
    check_refused("a", "is a bzip2 file", "bzip2 -dc '");
    CHECK(PUT("a", "PAR1\x15\4"));
    check_refused("a", "is a Parquet file", "pandas.read_parquet('");
    CHECK(PUT("a", "%PDF-1.4\n"));
    check_refused("a", "is a PDF file", "pdftotext '");
    CHECK(PUT("a", "\x89PNG\r\n\x1A\n"));
    check_refused("a", "is a PNG file, not text", "give text files");
    CHECK(PUT("a", "\1\2\3\4\5\6\7some bytes"));
    check_refused("a", "is a binary file, not text: 7 of its first 17 bytes", "give text files");
    scratch_remove(scratch);
}

static void test_refused_encodings(void) {
    static char many[100000];
    REQUIRE(scratch_make(scratch));
    CHECK(PUT("a", "\xFF\xFE"
                   "a\0b\0"));
    check_refused("a", "is UTF-16, not UTF-8; set encoding to UTF-16", "iconv -f UTF-16 -t UTF-8 '");
    CHECK(PUT("a", "\xFE\xFF\x4E\x2D"));
    check_refused("a", "is UTF-16, not UTF-8", "iconv -f UTF-16 -t UTF-8 '");
    CHECK(PUT("a", "a\0b\0\x2D\x4E"));
    check_refused("a", "is UTF-16LE, not UTF-8", "iconv -f UTF-16LE -t UTF-8 '");
    CHECK(PUT("a", "\0a\0b\x4E\x2D"));
    check_refused("a", "is UTF-16BE, not UTF-8", "iconv -f UTF-16BE -t UTF-8 '");
    CHECK(PUT("a", "\0\0\xFE\xFF\0\0\0a"));
    check_refused("a", "is UTF-32, not UTF-8", "iconv -f UTF-32 -t UTF-8 '");
    /* "你好,世界" and "déjà vu, élève, été" */
    CHECK(PUT("a", "\xC4\xE3\xBA\xC3,\xCA\xC0\xBD\xE7\n"));
    check_refused("a", "is not UTF-8: ", "iconv -f GB18030 -t UTF-8 '");
    CHECK(PUT("a", "d\xE9j\xE0 vu, \xE9l\xE8ve, \xE9t\xE9\n"));
    check_refused("a", "is not UTF-8: 6 of its first 20 bytes are invalid", "iconv -f WINDOWS-1252 -t UTF-8 '");
    memset(many, 'x', sizeof many);
    for (size_t i = 0; i < 700; i++)
        many[i * 90] = '\xE9';
    CHECK(put_bytes("a", many, sizeof many));
    check_refused("a", "is not UTF-8: 700 of its first 65536 bytes are invalid", "WINDOWS-1252");
    scratch_remove(scratch);
}

/* A few invalid bytes are replaced. More are tolerated in a file that is mostly UTF-8. */
static void test_what_is_not_refused(void) {
    text_read r = EITP__ZERO;
    REQUIRE(scratch_make(scratch));
    CHECK(PUT("a", "caf\xE9, \xE9t\xE9") && read_text(&r, "a") == EITP_OK);
    CHECK(strstr(r.log, "replaced 3 bytes"));
    CHECK(PUT("a", MIXED "\xFF\xFF\xFF\xFF\xFF") && read_text(&r, "a") == EITP_OK);
    CHECK(PUT("a", "a\0b, a zero byte") && read_text(&r, "a") == EITP_OK && !r.log[0]);
    CHECK(PUT("a", "\33[1mbold\33[0m\b\b\f\n") && read_text(&r, "a") == EITP_OK && !r.log[0]);
    CHECK(PUT("a", "PK is not an archive, BZh neither") && read_text(&r, "a") == EITP_OK);
    static char text[65536 + 10];
    memset(text, 'x', sizeof text);
    memcpy(text + 65534, MIXED, 9); /* a character across the end of the inspected bytes */
    CHECK(put_bytes("a", text, sizeof text) && read_text(&r, "a") == EITP_OK && !r.log[0]);
    scratch_remove(scratch);
}

/* The rows of a table are documents. Their text is in one column. */
static void test_text_of_tables(void) {
    text_read r = EITP__ZERO;
    REQUIRE(scratch_make(scratch));
    CHECK(PUT("a.csv", "id,text\n1,\"one, two\"\n2,\n3,three\n") && read_text(&r, "a.csv") == EITP_OK);
    CHECK_THAT(!strcmp(r.text, "one, twothree"), "%s", r.text);
    CHECK(PUT("a.jsonl", "{\"text\":\"one\"}\n{\"text\":\"two\"}\n") && read_text(&r, "a.jsonl") == EITP_OK);
    CHECK(!strcmp(r.text, "onetwo"));
    r.config.text_column = "id";
    CHECK(read_text(&r, "a.csv") == EITP_OK && !strcmp(r.text, "123"));
    r.config.text_column = "body";
    CHECK(read_text(&r, "a.csv") == EITP_ERROR_ARGUMENT && has(&r.error, "no column named 'body' (columns: id, text)"));
    r.config.format = EITP_FORMAT_TEXT;
    CHECK(read_text(&r, "a.csv") == EITP_OK && !strncmp(r.text, "id,text\n1,", 10));
    r.config.format = EITP_FORMAT_LINES;
    CHECK(read_text(&r, "a.csv") == EITP_OK && !strncmp(r.text, "id,text1,", 9));
    r.config.format = EITP_FORMAT_AUTO;
    r.config.text_column = NULL;
    CHECK(PUT("a.json", "{\"text\":\"one\"}\n") && read_text(&r, "a.json") == EITP_OK && !strcmp(r.text, "one"));
    CHECK(PUT("a.jsonl", "{\"text\":\"one\"}\n{\n{\"text\":\"two\"}\n"));
    CHECK(read_text(&r, "a.jsonl") == EITP_ERROR_FORMAT && has(&r.error, "invalid JSON at line 2"));
    r.config.skip_bad = 1;
    CHECK(read_text(&r, "a.jsonl") == EITP_OK && !strcmp(r.text, "onetwo") && strstr(r.log, "skipped 1 bad rows of 3"));
    CHECK(PUT("a.jsonl", "{\n[]\n") && read_text(&r, "a.jsonl") == EITP_ERROR_FORMAT &&
          has(&r.error, "all 2 rows are bad"));
    r.config.encoding = "UTF-16LE";
    CHECK(PUT("a.tsv", "t\0e\0x\0t\0\n\0\x2D\x4E\n\0") && read_text(&r, "a.tsv") == EITP_OK);
    CHECK(!strcmp(r.text, "\xE4\xB8\xAD"));
    scratch_remove(scratch);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(test_encodings),         TEST(test_invalid_in_encodings), TEST(test_refused_formats),
        TEST(test_refused_encodings), TEST(test_what_is_not_refused),  TEST(test_text_of_tables),
    };
    return RUN_TESTS(tests, argc, argv);
}
