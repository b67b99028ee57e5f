/* Tokenizers with unusual contents of model files, compared with the library `tokenizers`. */
#include "tests/support/everything.h"

#include "tests/support/faults.h"
#include "tests/support/test.h"

#define GOLDEN "tests/golden/vocabularies/cases.json"

enum { MOST_IDS = 1024 };

static eitp_error error_;

typedef struct id_list {
    int32_t ids[MOST_IDS];
    size_t count;
} id_list;

static eitp_status id_list_add(void *user, const int32_t *ids, size_t count, eitp_error *error) {
    id_list *list = (id_list *)user;
    (void)error;
    CHECK(count > 0);
    if (list->count + count <= MOST_IDS)
        memcpy(list->ids + list->count, ids, count * sizeof *ids);
    list->count += count;
    return EITP_OK;
}

/* Encodes a string in parts of `part` bytes and compares the ids. */
static void check_text(const eitp_tokenizer *tokenizer, const char *name, const eitp_json *entry, size_t part) {
    const eitp_json *text = eitp_json_member(entry, "text"), *expected = eitp_json_member(entry, "ids");
    const eitp_json *id = expected->first_child;
    eitp_encoder *encoder;
    id_list list;
    int same;
    list.count = 0;
    REQUIRE_OK(eitp_encoder_create(tokenizer, id_list_add, &list, &encoder, &error_), error_);
    for (size_t i = 0; i < text->text_size; i += part) {
        const size_t size = part < text->text_size - i ? part : text->text_size - i;
        CHECK(!eitp_encoder_add(encoder, text->text + i, size, &error_));
    }
    CHECK(!eitp_encoder_finish(encoder, &error_));
    eitp_encoder_destroy(encoder);
    same = list.count == expected->count && list.count <= MOST_IDS;
    for (size_t i = 0; same && i < list.count; i++, id = id->next)
        same = id->integer == list.ids[i];
    CHECK_THAT(same, "%s: '%s' in parts of %zu bytes: %zu ids", name, text->text, part, list.count);
}

static eitp_tokenizer *parse(const eitp_json *content) {
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer = NULL;
    eitp__buffer json;
    eitp__buffer_init(&json, &host);
    eitp__json_write_value(&json, content);
    CHECK_THAT(!eitp__tokenizer_parse(&host, json.data, json.size, &tokenizer, &error_), "%s", error_.message);
    eitp__buffer_release(&json);
    return tokenizer;
}

/* Saves a tokenizer and loads it again. */
static eitp_tokenizer *save_and_load(const eitp_tokenizer *tokenizer) {
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *again = NULL;
    char directory[512];
    CHECK(scratch_make(directory));
    CHECK_THAT(!eitp_tokenizer_save(tokenizer, directory, &error_), "%s", error_.message);
    CHECK_THAT(!eitp_tokenizer_load(&host, directory, &again, &error_), "%s", error_.message);
    scratch_remove(directory);
    return again;
}

static eitp_json_document *open_cases(void) {
    const eitp_host host = eitp_host_default();
    eitp_json_document *document = NULL;
    CHECK_THAT(!eitp__json_read_strict_file(&host, GOLDEN, 1 << 20, &document, &error_), "%s", error_.message);
    return document;
}

static void check_case(const eitp_json *row, size_t *texts) {
    const char *name = eitp_json_member(row, "name")->text;
    eitp_tokenizer *tokenizer = parse(eitp_json_member(row, "tokenizer")), *again;
    REQUIRE(tokenizer);
    again = save_and_load(tokenizer);
    REQUIRE(again);
    CHECK_THAT(eitp_tokenizer_fingerprint(tokenizer) == eitp_tokenizer_fingerprint(again), "%s", name);
    for (const eitp_json *entry = eitp_json_member(row, "texts")->first_child; entry; entry = entry->next, ++*texts) {
        check_text(tokenizer, name, entry, 4096);
        check_text(tokenizer, name, entry, 1);
        check_text(again, name, entry, 5);
    }
    eitp_tokenizer_destroy(again);
    eitp_tokenizer_destroy(tokenizer);
}

static void ids_are_those_of_the_library(void) {
    eitp_json_document *document = open_cases();
    size_t texts = 0;
    REQUIRE(document);
    for (const eitp_json *row = eitp_json_member(eitp_json_root(document), "cases")->first_child; row; row = row->next)
        check_case(row, &texts);
    eitp_json_release(document);
    CHECK_THAT(texts == 232, "%zu", texts);
}

/* Each line of vocab.txt is an id, so a vocabulary with gaps is not written to vocab.txt. */
static void gaps_are_not_lines(void) {
    static const char *const names[] = {"vocab.txt", "tokenizer.json"};
    static const char form[] =
        "{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"type\":\"WordPiece\","
        "\"unk_token\":\"?\",\"continuing_subword_prefix\":\"##\",\"vocab\":{\"?\":0,\"a\":%d}}}";
    for (int gap = 0; gap < 2; gap++) {
        const eitp_host host = eitp_host_default();
        eitp_tokenizer *tokenizer = NULL;
        char json[256], directory[512], path[600];
        snprintf(json, sizeof json, form, 1 + gap);
        REQUIRE_OK(eitp__tokenizer_parse(&host, json, strlen(json), &tokenizer, &error_), error_);
        REQUIRE(scratch_make(directory));
        CHECK_THAT(!eitp_tokenizer_save(tokenizer, directory, &error_), "%s", error_.message);
        for (int i = 0; i < 2; i++) {
            eitp_path_info info;
            snprintf(path, sizeof path, "%s/%s", directory, names[i]);
            CHECK(!eitp__path_info(&host, path, &info, &error_));
            CHECK_THAT((info.kind == EITP_PATH_MISSING) == (gap && i == 0), "gap %d: %s", gap, names[i]);
        }
        eitp_tokenizer_destroy(tokenizer);
        scratch_remove(directory);
    }
}

/* ---- Characters ---- */

static void hash_byte(uint64_t *hash, unsigned char byte) {
    *hash = (*hash ^ byte) * 0x100000001B3u;
}

static void check_hash(uint64_t hash, const eitp_json *expected) {
    char text[32];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    CHECK_THAT(!strcmp(text, expected->text), "%s: %s, the library's is %s", expected->name, text, expected->text);
}

/* Hashes the output of a step for each character between a letter, and an accent and a letter. */
static uint64_t hash_form(unsigned char step) {
    const eitp_host host = eitp_host_default();
    uint64_t hash = 0xCBF29CE484222325u;
    eitp__normalization steps = EITP__ZERO;
    eitp__normalizer normalizer;
    eitp__buffer out;
    steps.step_count = 1;
    steps.steps[0] = step;
    eitp__buffer_init(&out, &host);
    eitp__normalizer_init(&normalizer, &host, &steps);
    for (uint32_t code_point = 0; code_point < 0x110000; code_point++) {
        unsigned char text[8] = {'a'};
        size_t size = 1;
        if (code_point >= 0xD800 && code_point < 0xE000)
            continue;
        size += eitp__utf8_encode(code_point, text + 1);
        memcpy(text + size, "\xCC\x81", 2);
        text[size + 2] = 'b';
        eitp__buffer_clear(&out);
        CHECK(!eitp__normalizer_add(&normalizer, text, size + 3, &out, &error_));
        CHECK(!eitp__normalizer_finish(&normalizer, &out, &error_));
        for (size_t i = 0; i < out.size; i++)
            hash_byte(&hash, (unsigned char)out.data[i]);
    }
    eitp__normalizer_release(&normalizer);
    eitp__buffer_release(&out);
    return hash;
}

static void forms_of_characters_are_those_of_the_library(void) {
    static const struct {
        const char *name;
        unsigned char step;
    } steps[] = {{"NFD", EITP__FORM_D},
                 {"NFKC", EITP__FORM_KC},
                 {"NFKD", EITP__FORM_KD},
                 {"Lowercase", EITP__NORMALIZE_LOWERCASE}};
    eitp_json_document *document = open_cases();
    REQUIRE(document);
    for (size_t i = 0; i < EITP__COUNT(steps); i++)
        check_hash(hash_form(steps[i].step),
                   eitp_json_member(eitp_json_member(eitp_json_root(document), "forms"), steps[i].name));
    eitp_json_release(document);
}

static void characters_of_words_are_those_of_the_library(void) {
    eitp_json_document *document = open_cases();
    uint64_t hash = 0xCBF29CE484222325u;
    REQUIRE(document);
    for (uint32_t code_point = 0; code_point < 0x110000; code_point++) {
        if (code_point < 0xD800 || code_point >= 0xE000)
            hash_byte(&hash, eitp__unicode_is_word(code_point) ? '1' : '0');
    }
    check_hash(hash, eitp_json_member(eitp_json_root(document), "words"));
    eitp_json_release(document);
}

/* ---- Bytes without a token ---- */

/* A model with the bytes of "a" and a space, and additional members. */
#define SOME_BYTES(model)                                                                                              \
    "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"model\":{\"type\":\"BPE\"," model        \
    "\"vocab\":{\"a\":0,\"\\u0120\":1,\"<u>\":2},\"merges\":[]}}"

static eitp_tokenizer *parse_text(const char *json) {
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer = NULL;
    error_.message[0] = 0;
    eitp__tokenizer_parse(&host, json, strlen(json), &tokenizer, &error_);
    return tokenizer;
}

static void unknown_bytes_are_counted(void) {
    static const char text[] = "ax aaxxa";
    eitp_tokenizer *tokenizer = parse_text(SOME_BYTES(""));
    const eitp_text sequence = {text, sizeof text - 1};
    eitp_sequence_report report;
    eitp_encoder *encoder;
    id_list list;
    REQUIRE(tokenizer);
    list.count = 0;
    REQUIRE_OK(eitp_encoder_create(tokenizer, id_list_add, &list, &encoder, &error_), error_);
    for (int i = 0; i < 3; i++) { /* pieces are cached but counted each time */
        CHECK(!eitp_encoder_add(encoder, text, sizeof text - 1, &error_) && !eitp_encoder_finish(encoder, &error_));
        CHECK(eitp_encoder_unknown_bytes(encoder) == (uint64_t)(3 * (i + 1)) && list.count == (size_t)(5 * (i + 1)));
    }
    eitp_encoder_destroy(encoder);
    CHECK(eitp_encoder_unknown_bytes(NULL) == 0);
    CHECK(!eitp_tokenizer_encode_sequence(tokenizer, &sequence, NULL, NULL, NULL, NULL, 0, &report, &error_));
    CHECK(report.unknown_bytes == 3 && report.count == 5);
    eitp_tokenizer_destroy(tokenizer);
}

/* With byte fallback, characters are counted: one character has a token for each of its two bytes, the other lacks
   the second. */
static void unknown_characters_are_counted(void) {
    static const char text[] = "a \xC3\xA9 \xC3\xA8x";
    static const char json[] =
        "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\\u2581\"},"
        "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,%s\"vocab\":{\"\\u2581\":0,\"a\":1,"
        "\"<0xC3>\":2,\"<0xA9>\":3,\"?\":4,\"\\u00e8x\":5},\"merges\":[]}}";
    static const struct {
        const char *model;
        size_t count, unknown;
    } cases[] = {{"", 5, 3}, {"\"unk_token\":\"?\",", 7, 3}};
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        const eitp_text sequence = {text, sizeof text - 1};
        eitp_sequence_report report;
        eitp_tokenizer *tokenizer;
        char file[512];
        snprintf(file, sizeof file, json, cases[i].model);
        tokenizer = parse_text(file);
        CHECK_THAT(tokenizer, "%s", error_.message);
        CHECK(!eitp_tokenizer_encode_sequence(tokenizer, &sequence, NULL, NULL, NULL, NULL, 0, &report, &error_));
        CHECK_THAT(report.count == cases[i].count && report.unknown_bytes == cases[i].unknown,
                   "case %zu: %zu ids, %llu", i, report.count, (unsigned long long)report.unknown_bytes);
        eitp_tokenizer_destroy(tokenizer);
    }
}

/* A piece longer than a batch of ids, with no known byte. */
static void long_unknown_pieces_have_no_ids(void) {
    eitp_tokenizer *tokenizer = parse_text(SOME_BYTES(""));
    char text[5000];
    size_t count = 1;
    REQUIRE(tokenizer);
    memset(text, 'x', sizeof text);
    CHECK(!eitp_tokenizer_encode(tokenizer, text, sizeof text, NULL, 0, &count, &error_) && count == 0);
    eitp_tokenizer_destroy(tokenizer);
}

static void impossible_unknowns_are_refused(void) {
    static const struct {
        const char *json, *message;
    } cases[] = {
        {SOME_BYTES("\"unk_token\":\"<none>\","), "lacks the token \"<none>\""},
        {SOME_BYTES("\"unk_token\":7,"), "unk_token of the model must be a string or null"},
        {SOME_BYTES("\"fuse_unk\":7,"), "fuse_unk"},
        {SOME_BYTES("\"byte_fallback\":true,"), "unsupported byte_fallback of byte-level BPE whose vocabulary lacks"},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        CHECK(!parse_text(cases[i].json));
        CHECK_THAT(strstr(error_.message, cases[i].message), "%s, not %s", error_.message, cases[i].message);
    }
}

typedef struct log_lines {
    int warnings;
    char last[512];
} log_lines;

static void keep_warnings(void *user, eitp_log_level level, const char *message) {
    log_lines *lines = (log_lines *)user;
    if (level != EITP_LOG_WARNING)
        return;
    lines->warnings++;
    snprintf(lines->last, sizeof lines->last, "%s", message);
}

static eitp_status read_example(void *user, eitp_example *example, int *is_end, eitp_error *error) {
    int *left = (int *)user;
    (void)error;
    *is_end = !*left;
    *left -= *left > 0;
    example->text.bytes = "axx a";
    example->text.size = 5;
    return EITP_OK;
}

/* Packing warns once, with the total of all documents. */
static void packing_warns_of_unknown_bytes(void) {
    eitp_host host = eitp_host_default();
    eitp_pack_config config = eitp_pack_config_default();
    eitp_labelled_pack_config labelled = eitp_labelled_pack_config_default();
    eitp_tokenizer *tokenizer = parse_text(SOME_BYTES(""));
    log_lines lines = EITP__ZERO;
    eitp_example_source source;
    char directory[512], text[600], output[600];
    const char *paths[2];
    int left = 3;
    REQUIRE(tokenizer && scratch_make(directory));
    snprintf(text, sizeof text, "%s/text.txt", directory);
    snprintf(output, sizeof output, "%s/packed", directory);
    REQUIRE_OK(eitp__write_file(&host, text, "axx a ax", 8, &error_), error_);
    host.log.write = keep_warnings;
    host.log.user = &lines;
    paths[0] = paths[1] = text;
    config.texts.paths = paths;
    config.texts.path_count = 2;
    CHECK_THAT(!eitp_pack(&host, tokenizer, &config, output, NULL, &error_), "%s", error_.message);
    CHECK_THAT(strstr(lines.last, "no end-of-text") && lines.warnings == 2, "%d: %s", lines.warnings, lines.last);
    config.texts.path_count = 1;
    CHECK_THAT(!eitp_pack(&host, tokenizer, &config, output, NULL, &error_), "%s", error_.message);
    CHECK_THAT(strstr(lines.last, "no token for 3 bytes") && lines.warnings == 3, "%d: %s", lines.warnings, lines.last);
    source.user = &left;
    source.read = read_example;
    CHECK_THAT(!eitp_labelled_pack(&host, tokenizer, &labelled, &source, output, NULL, &error_), "%s", error_.message);
    CHECK_THAT(strstr(lines.last, "no token for 6 bytes") && lines.warnings == 4, "%d: %s", lines.warnings, lines.last);
    eitp_tokenizer_destroy(tokenizer);
    scratch_remove(directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(ids_are_those_of_the_library),
        TEST(gaps_are_not_lines),
        TEST(forms_of_characters_are_those_of_the_library),
        TEST(characters_of_words_are_those_of_the_library),
        TEST(unknown_bytes_are_counted),
        TEST(unknown_characters_are_counted),
        TEST(long_unknown_pieces_have_no_ids),
        TEST(impossible_unknowns_are_refused),
        TEST(packing_warns_of_unknown_bytes),
    };
    return RUN_TESTS(tests, argc, argv);
}
