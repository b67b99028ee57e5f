/*
 * Fuzzes tables. The first byte selects the format and, in its high bits, whether bad rows are skipped, a small limit
 * on rows, and an encoding. The rest is the file. All text read must be valid UTF-8 with a position, and the same for
 * pieces of any size.
 */
#include "tests/support/everything.h"
#include "tests/support/one_file.h"

#include "base/unicode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition, const char *what) {
    if (!condition) {
        fprintf(stderr, "fuzz_table: %s\n", what);
        abort();
    }
}

/* A hash of everything that was read. */
typedef struct table_digest {
    eitp_status status;
    eitp_table_statistics statistics;
    uint64_t hash;
    char message[600];
} table_digest;

static void digest_bytes(table_digest *digest, const void *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        digest->hash = (digest->hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    digest->hash = (digest->hash ^ size) * 0x100000001b3u;
}

static void digest_text(table_digest *digest, const eitp_text *text) {
    require(eitp__utf8_valid_prefix((const unsigned char *)text->bytes, text->size) == text->size, "invalid UTF-8");
    digest_bytes(digest, text->bytes, text->size);
}

static void digest_example(table_digest *digest, const eitp_example *example) {
    require(example->line > 0 && example->column > 0 && example->path, "an example without a place");
    require(example->labels_are_list || example->label_count <= 1, "several labels that are not a list");
    require(!example->words == !example->word_count, "words that are not counted");
    digest_text(digest, &example->text);
    for (size_t i = 0; i < example->word_count; i++)
        digest_text(digest, &example->words[i]);
    if (example->pair.bytes)
        digest_text(digest, &example->pair);
    for (size_t i = 0; i < example->label_count; i++)
        digest_text(digest, &example->labels[i]);
    digest_bytes(digest, &example->line, sizeof example->line);
    digest_bytes(digest, &example->column, sizeof example->column);
}

static void read_table(const eitp_host *host, const eitp_table_config *config, table_digest *digest) {
    eitp_table *table = NULL;
    eitp_error error = EITP__ZERO;
    int is_end = 0;
    memset(digest, 0, sizeof *digest);
    require(eitp_table_open(host, config, &table, &error) == EITP_OK, "a table cannot be opened");
    const eitp_example_source source = eitp_table_source(table);
    while (digest->status == EITP_OK && !is_end) {
        eitp_example example = EITP__ZERO;
        digest->status = source.read(source.user, &example, &is_end, &error);
        if (digest->status == EITP_OK && !is_end)
            digest_example(digest, &example);
    }
    require(digest->status == EITP_OK || digest->status == EITP_ERROR_FORMAT || digest->status == EITP_ERROR_ARGUMENT,
            "an unexpected status");
    require(digest->status == EITP_OK || (error.status == digest->status && strlen(error.message) > 10), "no message");
    if (digest->status != EITP_OK)
        memcpy(digest->message, error.message, sizeof digest->message);
    digest->statistics = eitp_table_get_statistics(table);
    eitp_table_close(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const eitp_text_format formats[] = {EITP_FORMAT_CSV, EITP_FORMAT_TSV, EITP_FORMAT_JSONL, EITP_FORMAT_LINES};
    static const char *const encodings[] = {NULL, "GB18030", "UTF-16", "ISO-2022-JP"};
    const char *path = "table.json";
    eitp_table_config config = eitp_table_config_default();
    table_digest whole, pieces;
    one_file file;
    if (!size)
        return 0;
    file.data = data + 1;
    file.size = size - 1;
    const eitp_host host = one_file_host(&file);
    config.texts.paths = &path;
    config.texts.path_count = 1;
    /* Lines have no columns, so a pair of them selects CoNLL. */
    const int is_conll = (data[0] & 7) == 7;
    config.texts.format = is_conll ? EITP_FORMAT_CONLL : formats[data[0] & 3];
    config.pair_column = !is_conll && data[0] & 4 ? "pair" : NULL;
    config.texts.skip_bad = data[0] >> 3 & 1;
    config.row_limit = data[0] & 16 ? 64 : 0;
    config.texts.encoding = encodings[data[0] >> 5 & 3];
    config.texts.strict_utf8 = data[0] >> 7;
    read_table(&host, &config, &whole);
    config.texts.read_size = 1 + size % 7;
    read_table(&host, &config, &pieces);
    if (config.texts.strict_utf8) /* ends where the piece has an invalid byte */
        return 0;
    require(whole.status == pieces.status && whole.hash == pieces.hash, "pieces change what is read");
    require(!strcmp(whole.message, pieces.message), "pieces change the message");
    require(whole.status != EITP_OK || (whole.statistics.rows == pieces.statistics.rows &&
                                        whole.statistics.skipped_rows == pieces.statistics.skipped_rows &&
                                        whole.statistics.invalid_bytes == pieces.statistics.invalid_bytes),
            "pieces change the statistics");
    return 0;
}
