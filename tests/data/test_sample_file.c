/* Files of samples: one function opens every kind, and tokens and samples are available as sources. */
#include "tests/support/everything.h"

#include "tests/support/faults.h"
#include "tests/support/test.h"

enum { SAMPLES = 40, MOST_IDS = 4096 };

static char scratch[512];
static const eitp_host *host;
static eitp_tokenizer *tokenizer;
static eitp_error error;

static const char *at(const char *name) {
    return scratch_path(scratch, name);
}

static int has(const char *text) {
    if (strstr(error.message, text))
        return 1;
    printf("    no \"%s\" in \"%s\"\n", text, error.message);
    return 0;
}

/* ---- A file of each kind ---- */

static void write_tokens(const char *name) {
    eitp_pack_config config = eitp_pack_config_default();
    char text[600];
    const char *path = text;
    snprintf(text, sizeof text, "%s", at("text.txt"));
    REQUIRE_OK(eitp__write_file(host, text, "Once upon a time.", 17, &error), error);
    config.texts.paths = &path;
    config.texts.path_count = 1;
    REQUIRE_OK(eitp_pack(host, tokenizer, &config, at(name), NULL, &error), error);
}

static void write_llmc(const char *name) {
    unsigned char bytes[1024 + 6] = EITP__ZERO;
    eitp__put_number(bytes, 4, 20240520);
    eitp__put_number(bytes + 4, 4, 1);
    eitp__put_number(bytes + 8, 4, 3);
    for (size_t i = 0; i < 3; i++)
        eitp__put_number(bytes + 1024 + 2 * i, 2, 7 + i);
    REQUIRE_OK(eitp__write_file(host, at(name), bytes, sizeof bytes, &error), error);
}

/* The examples "0", "11", "222", ..., up to nine digits, with alternating labels. */
static eitp_status read_digits(void *user, eitp_example *example, int *is_end, eitp_error *failure) {
    static char digits[10];
    static eitp_text label;
    int *next = (int *)user;
    (void)failure;
    *is_end = *next == SAMPLES;
    if (*is_end)
        return EITP_OK;
    memset(example, 0, sizeof *example);
    memset(digits, '0' + *next % 10, sizeof digits);
    label.bytes = *next & 1 ? "odd" : "even";
    label.size = strlen(label.bytes);
    example->text.bytes = digits;
    example->text.size = (size_t)(*next % 9 + 1);
    example->labels = &label;
    example->label_count = 1;
    ++*next;
    return EITP_OK;
}

static void write_labelled(const char *name) {
    const eitp_labelled_pack_config config = eitp_labelled_pack_config_default();
    eitp_example_source source;
    int next = 0;
    source.user = &next;
    source.read = read_digits;
    REQUIRE_OK(eitp_labelled_pack(host, tokenizer, &config, &source, at(name), NULL, &error), error);
}

typedef struct kind_case {
    const char *name;
    void (*write)(const char *name);
    eitp_sample_file_kind kind;
    uint64_t token_count, sample_count, document_count, header_size;
    const char *remedy; /* expected advice for a truncated file */
} kind_case;

static const kind_case kinds[] = {
    {"a.tok", write_tokens, EITP_SAMPLE_FILE_TOKENS, 18, 0, 1, 256, "copy the file or pack the text again"},
    {"a.bin", write_llmc, EITP_SAMPLE_FILE_LLMC, 3, 0, 0, 1024, "copy it again"},
    {"a.lab", write_labelled, EITP_SAMPLE_FILE_LABELLED, 190, SAMPLES, 0, 256, "or pack the examples again"},
};

static eitp_sample_file *opened(const kind_case *c) {
    eitp_sample_file *file = NULL;
    c->write(c->name);
    CHECK_THAT(eitp_sample_file_open(host, at(c->name), 0, &file, &error) == EITP_OK, "%s", error.message);
    return file;
}

/* ---- Opening ---- */

static void every_kind_is_opened(void) {
    for (size_t i = 0; i < EITP__COUNT(kinds); i++) {
        const kind_case *c = &kinds[i];
        eitp_sample_file *file = opened(c);
        const eitp_sample_file_info info = eitp_sample_file_get_info(file);
        int32_t ids[4];
        REQUIRE(file != NULL);
        CHECK(info.kind == c->kind && info.element_size == 2 && info.document_count == c->document_count);
        CHECK(info.token_count == c->token_count && info.sample_count == c->sample_count);
        CHECK(!info.vocabulary_size == (c->kind == EITP_SAMPLE_FILE_LLMC));
        CHECK((info.end_of_text >= 0) == (c->kind == EITP_SAMPLE_FILE_TOKENS));
        CHECK(!info.max_length == !c->sample_count && !info.label_count == !c->sample_count);
        CHECK((info.unigram_entropy > 0) == (c->kind == EITP_SAMPLE_FILE_TOKENS) && !info.dedup);
        eitp__sample_file_prefetch(file, 0, info.token_count);
        CHECK(!eitp_sample_file_verify(file, &error) && eitp_sample_file_get_info(file).content_hash);
        CHECK(!eitp_sample_file_read_tokens(file, info.token_count - 1, 1, ids, &error));
        CHECK(eitp_sample_file_read_tokens(file, info.token_count, 1, ids, &error) == EITP_ERROR_ARGUMENT);
        eitp_sample_file_close(file);
    }
}

/* Each kind of file, truncated or with an extra byte, is refused with its path and advice. */
static void truncated_files_are_refused(void) {
    for (size_t i = 0; i < EITP__COUNT(kinds); i++) {
        const kind_case *c = &kinds[i];
        eitp_sample_file *file = NULL;
        eitp__buffer content;
        c->write(c->name);
        eitp__buffer_init(&content, host);
        REQUIRE_OK(eitp__read_file(host, at(c->name), 1 << 20, &content, &error), error);
        const size_t all = content.size; /* a zero byte follows */
        const size_t sizes[] = {0, 3, 7, 8, 11, 12, 255, 256, 257, all / 2, all - 2, all - 1, all + 1};
        for (size_t k = 0; k < EITP__COUNT(sizes); k++) {
            REQUIRE_OK(eitp__write_file(host, at("cut"), content.data, sizes[k], &error), error);
            CHECK_THAT(eitp_sample_file_open(host, at("cut"), 0, &file, &error) == EITP_ERROR_FORMAT && !file,
                       "%s cut to %zu", c->name, sizes[k]);
            CHECK(has(at("cut")) && has(sizes[k] < 4 || (i != 1 && sizes[k] < 8) ? "not a token" : "truncated"));
            CHECK(sizes[k] != 8 || has(c->remedy));
        }
        eitp__buffer_release(&content);
    }
}

static void foreign_files_are_refused(void) {
    static const char *const texts[] = {"", "EITP", "EITPTOX and so on, far enough for a header", "EITPLAx",
                                        "Once upon"};
    eitp_sample_file *file = NULL;
    for (size_t i = 0; i < EITP__COUNT(texts); i++) {
        REQUIRE_OK(eitp__write_file(host, at("text"), texts[i], strlen(texts[i]), &error), error);
        CHECK(eitp_sample_file_open(host, at("text"), 0, &file, &error) == EITP_ERROR_FORMAT && !file);
        CHECK(has(at("text")) && has("not a token or labelled file") && has("eitp_pack or eitp_labelled_pack"));
    }
    CHECK(eitp_sample_file_open(host, NULL, 0, &file, &error) == EITP_ERROR_ARGUMENT && has("path"));
}

/* Checkpoints compare hashes of these bytes, and other versions read them. */
static void files_keep_their_bytes(void) {
    static const struct {
        const kind_case *kind;
        uint64_t hash;
    } cases[] = {{&kinds[0], UINT64_C(0x2f209330104547bf)}, {&kinds[2], UINT64_C(0x985fe34738001216)}};
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        const char *name = cases[i].kind->name;
        eitp__buffer content;
        cases[i].kind->write(name);
        eitp__buffer_init(&content, host);
        REQUIRE_OK(eitp__read_file(host, at(name), 1 << 20, &content, &error), error);
        const uint64_t hash = eitp__fnv1a(EITP__FNV_START, content.data, content.size);
        CHECK_THAT(hash == cases[i].hash, "%s: 0x%016llx", name, (unsigned long long)hash);
        eitp__buffer_release(&content);
    }
}

/* ---- Sources ---- */

/* Reads the ids of all samples in succession. Returns their number. */
static size_t read_all_samples(const eitp_sample_file *file, int32_t *ids) {
    const eitp_labelled_source source = eitp_sample_file_labelled_source(file);
    size_t count = 0;
    for (uint64_t i = 0; i < source.count; i++) {
        eitp_labelled_sample sample = EITP__ZERO;
        sample.ids = ids + count;
        CHECK(!source.read(source.user, i, &sample, &error) && sample.label == (int32_t)(i & 1));
        count += (size_t)sample.length;
    }
    return count;
}

static void samples_are_read_as_windows(void) {
    static int32_t ids[MOST_IDS], tokens[16], targets[16];
    eitp_sample_file *file = opened(&kinds[2]);
    const eitp_token_range range = {7, 150}, all = {0, 190};
    eitp__windows windows;
    uint64_t prefix = 0;
    REQUIRE(file != NULL);
    const eitp_token_source source = eitp_sample_file_token_source(file, range);
    CHECK(read_all_samples(file, ids) == 190);
    CHECK(source.count == 190 && source.hash == eitp_sample_file_get_info(file).content_hash && source.hash);
    CHECK(source.end_of_text == -1 && source.prefetch);
    REQUIRE_OK(eitp__windows_init(&windows, &source, 16, &error), error);
    CHECK(windows.count == 9);
    for (uint64_t i = 0; i < windows.count; i++) {
        REQUIRE_OK(eitp__windows_read(&windows, i, tokens, targets, &error), error);
        CHECK(!memcmp(tokens, ids + 7 + 16 * i, sizeof tokens) && !memcmp(targets, ids + 8 + 16 * i, sizeof targets));
    }
    REQUIRE_OK(eitp__sample_file_find_prefix(file, eitp_token_memory_source(ids, 50, all).hash, &prefix, &error),
               error);
    CHECK(prefix == 50);
    REQUIRE_OK(eitp__sample_file_find_prefix(file, 1, &prefix, &error), error);
    CHECK(prefix == 0);
    eitp_sample_file_close(file);
}

static void files_of_tokens_have_no_samples(void) {
    for (size_t i = 0; i < 2; i++) {
        eitp_sample_file *file = opened(&kinds[i]);
        const eitp_labelled_source source = eitp_sample_file_labelled_source(file);
        eitp_labelled_part *part = NULL, *rest = NULL;
        eitp_labelled_sample sample = EITP__ZERO;
        CHECK(!source.count && !source.read && !source.hash);
        CHECK(eitp_sample_file_read_sample(file, 0, &sample, &error) == EITP_ERROR_ARGUMENT && has("the 0 samples"));
        CHECK(eitp_labelled_part_create(file, NULL, 0, &part, &error) == EITP_ERROR_ARGUMENT && !part);
        CHECK(has(kinds[i].name) && has("no samples; create one with eitp_labelled_pack"));
        CHECK(eitp_labelled_split(file, 0, 1, &part, &rest, &error) == EITP_ERROR_ARGUMENT && !part && !rest);
        CHECK(has("no samples"));
        eitp_sample_file_close(file);
    }
}

/* ---- Contents ---- */

static int stop(void *user) {
    ++*(int *)user;
    return 1;
}

/* A changed id is detected by verifying and by reading an open file. Both can be stopped. */
static void changes_are_found(void) {
    for (size_t i = 0; i < EITP__COUNT(kinds); i++) {
        const kind_case *c = &kinds[i];
        eitp_sample_file *file = opened(c);
        eitp__file changed;
        unsigned char byte;
        int32_t id;
        int asked = 0;
        REQUIRE(file != NULL);
        CHECK(!eitp_sample_file_verify(file, &error));
        REQUIRE_OK(eitp__file_open(&changed, host, at(c->name), EITP_FILE_UPDATE, &error), error);
        REQUIRE_OK(eitp__file_read(&changed, c->header_size, &byte, 1, &error), error);
        byte ^= 1;
        REQUIRE_OK(eitp__file_write(&changed, c->header_size, &byte, 1, &error), error);
        REQUIRE_OK(eitp__file_close(&changed, &error), error);
        CHECK(!faults_set_time(at(c->name), 1000));
        eitp__sample_file_set_poll(file, stop, &asked);
        CHECK(eitp_sample_file_read_tokens(file, 2, 1, &id, &error) == EITP_ERROR_INTERRUPTED && asked == 1);
        CHECK(eitp_sample_file_verify(file, &error) == EITP_ERROR_INTERRUPTED && asked == 2);
        eitp__sample_file_set_poll(file, NULL, NULL);
        CHECK(eitp_sample_file_read_tokens(file, 2, 1, &id, &error) == EITP_ERROR_IO);
        CHECK(has(c->name) && has("changed while it was read"));
        if (c->kind == EITP_SAMPLE_FILE_LLMC)
            CHECK(!eitp_sample_file_verify(file, &error));
        else
            CHECK(eitp_sample_file_verify(file, &error) == EITP_ERROR_FORMAT && has("damaged"));
        eitp_sample_file_close(file);
    }
}

/* Without a file there is nothing to read. */
static void null_is_harmless(void) {
    const eitp_token_range all = {0, 1};
    uint64_t count;
    int32_t id;
    CHECK(!eitp_sample_file_token_source(NULL, all).count && !eitp_sample_file_labelled_source(NULL).read);
    CHECK(!eitp_sample_file_get_info(NULL).token_count && !eitp_sample_file_get_info(NULL).sample_count);
    CHECK(eitp_sample_file_verify(NULL, &error) == EITP_ERROR_ARGUMENT && has("file"));
    CHECK(eitp__sample_file_find_prefix(NULL, 1, &count, &error) == EITP_ERROR_ARGUMENT && has("file and count"));
    CHECK(eitp_sample_file_read_tokens(NULL, 0, 1, &id, &error) == EITP_ERROR_ARGUMENT && has("file and ids"));
    CHECK(eitp_sample_file_read_sample(NULL, 0, NULL, &error) == EITP_ERROR_ARGUMENT && has("file and sample"));
    eitp__sample_file_prefetch(NULL, 0, 1);
    eitp__sample_file_set_poll(NULL, NULL, NULL);
    eitp_sample_file_close(NULL);
}

static const test_case tests[] = {
    TEST(every_kind_is_opened),        TEST(truncated_files_are_refused),
    TEST(foreign_files_are_refused),   TEST(files_keep_their_bytes),
    TEST(samples_are_read_as_windows), TEST(files_of_tokens_have_no_samples),
    TEST(changes_are_found),           TEST(null_is_harmless),
};

int main(int argc, char **argv) {
    const eitp_host system = eitp_host_default();
    int failed = 1;
    host = &system;
    if (scratch_make(scratch) && eitp_tokenizer_create_bytes(host, &tokenizer, &error) == EITP_OK)
        failed = RUN_TESTS(tests, argc, argv);
    eitp_tokenizer_destroy(tokenizer);
    scratch_remove(scratch);
    return failed;
}
