/* Byte-level BPE, as used by SmolLM, Qwen2 and Llama 3, and Normalization Form C, compared with the library
   `tokenizers`. */
#include "tests/support/everything.h"

#include "tests/support/faults.h"
#include "tests/support/test.h"

#define GOLDEN "tests/golden/splits"

static const char *const names[] = {"smollm", "qwen2", "llama3"};

enum { NAMES = 3, MOST_IDS = 1024, MOST_BYTES = 1024 };

static eitp_error error_;

static eitp_tokenizer *load(const char *path) {
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer = NULL;
    CHECK_THAT(eitp_tokenizer_load(&host, path, &tokenizer, &error_) == EITP_OK, "%s: %s", path, error_.message);
    return tokenizer;
}

static eitp_json_document *open_cases(void) {
    const eitp_host host = eitp_host_default();
    eitp_json_document *document = NULL;
    CHECK_THAT(!eitp__json_read_strict_file(&host, GOLDEN "/cases.json", 1 << 20, &document, &error_), "%s",
               error_.message);
    return document;
}

/* Reads the bytes of a member in hexadecimal. */
static size_t bytes_of(const eitp_json *entry, const char *name, char *bytes) {
    const eitp_json *hex = eitp_json_member(entry, name);
    const size_t size = hex->text_size / 2;
    CHECK(size <= MOST_BYTES);
    for (size_t i = 0; i < size && i < MOST_BYTES; i++) {
        unsigned byte = 0;
        sscanf(hex->text + 2 * i, "%2x", &byte);
        bytes[i] = (char)byte;
    }
    return size;
}

typedef struct id_list {
    int32_t ids[MOST_IDS];
    size_t count;
} id_list;

static eitp_status id_list_add(void *user, const int32_t *ids, size_t count, eitp_error *error) {
    id_list *list = (id_list *)user;
    (void)error;
    if (list->count + count <= MOST_IDS)
        memcpy(list->ids + list->count, ids, count * sizeof *ids);
    list->count += count;
    return EITP_OK;
}

/* Encodes a string in parts of `part` bytes and compares the ids. */
static void check_text(const eitp_tokenizer *tokenizer, const char *name, const eitp_json *entry, const char *text,
                       size_t size, size_t part) {
    const eitp_json *expected = eitp_json_member(entry, name), *id = expected->first_child;
    eitp_encoder *encoder;
    id_list list;
    int same;
    list.count = 0;
    REQUIRE_OK(eitp_encoder_create(tokenizer, id_list_add, &list, &encoder, &error_), error_);
    for (size_t i = 0; i < size; i += part)
        CHECK(!eitp_encoder_add(encoder, text + i, part < size - i ? part : size - i, &error_));
    CHECK(!eitp_encoder_finish(encoder, &error_));
    eitp_encoder_destroy(encoder);
    same = list.count == expected->count && list.count <= MOST_IDS;
    for (size_t i = 0; same && i < list.count; i++, id = id->next)
        same = id->integer == list.ids[i];
    CHECK_THAT(same, "%s: line %zu in parts of %zu bytes", name, entry->line, part);
}

static void check_tokenizer(const char *path, const char *name, const eitp_json *texts) {
    eitp_tokenizer *tokenizer = load(path);
    REQUIRE(tokenizer);
    for (const eitp_json *entry = texts->first_child; entry; entry = entry->next) {
        char text[MOST_BYTES];
        const size_t size = bytes_of(entry, "hex", text);
        check_text(tokenizer, name, entry, text, size, MOST_BYTES);
        check_text(tokenizer, name, entry, text, size, 1);
        check_text(tokenizer, name, entry, text, size, 5);
    }
    eitp_tokenizer_destroy(tokenizer);
}

static void ids_are_those_of_the_library(void) {
    eitp_json_document *document = open_cases();
    REQUIRE(document);
    const eitp_json *texts = eitp_json_member(eitp_json_root(document), "texts");
    CHECK(texts->count == 252);
    for (size_t i = 0; i < NAMES; i++) {
        char path[128];
        snprintf(path, sizeof path, GOLDEN "/%s.json", names[i]);
        check_tokenizer(path, names[i], texts);
    }
    eitp_json_release(document);
}

static eitp_status next_piece(void *user, const unsigned char *bytes, size_t size, int32_t id, eitp_error *error) {
    const eitp_json **expected = (const eitp_json **)user;
    (void)bytes;
    (void)id;
    if (!*expected || (size_t)(*expected)->integer != size)
        return eitp__fail(error, EITP_ERROR_FORMAT, "a piece of %zu bytes, not %lld", size,
                          *expected ? (long long)(*expected)->integer : -1LL);
    *expected = (*expected)->next;
    return EITP_OK;
}

/* Splits a string, passed in parts of `part` bytes, and compares the pieces. */
static void check_pieces(eitp__split split, const eitp_json *entry, const char *text, size_t size, size_t part) {
    const eitp_json *expected =
        eitp_json_member(eitp_json_member(entry, "pieces"), names[split - EITP__SPLIT_DIGITS])->first_child;
    const eitp_host host = eitp_host_default();
    const eitp__added_tokens none = EITP__ZERO;
    eitp__splitter splitter;
    eitp_status status = EITP_OK;
    eitp__splitter_init(&splitter, &host, &none, eitp__split_rule(split), next_piece, &expected);
    splitter.min_full = splitter.full = 16;
    for (size_t i = 0; i < size && !status; i += part)
        status =
            eitp__splitter_add(&splitter, (const unsigned char *)text + i, part < size - i ? part : size - i, &error_);
    if (!status)
        status = eitp__splitter_finish(&splitter, &error_);
    CHECK_THAT(!status && !expected, "%s, line %zu in parts of %zu: %s", names[split - EITP__SPLIT_DIGITS], entry->line,
               part, status ? error_.message : "too few pieces");
    eitp__splitter_release(&splitter);
}

static void pieces_are_those_of_the_library(void) {
    eitp_json_document *document = open_cases();
    REQUIRE(document);
    for (const eitp_json *entry = eitp_json_member(eitp_json_root(document), "texts")->first_child; entry;
         entry = entry->next) {
        char text[MOST_BYTES];
        const size_t size = bytes_of(entry, "hex", text);
        for (int split = EITP__SPLIT_DIGITS; split < EITP__SPLITS; split++) {
            check_pieces((eitp__split)split, entry, text, size, MOST_BYTES);
            check_pieces((eitp__split)split, entry, text, size, 1);
            check_pieces((eitp__split)split, entry, text, size, 7);
        }
    }
    eitp_json_release(document);
}

/* A saved tokenizer gives the same ids. */
static void saved_tokenizers_are_the_same(void) {
    eitp_json_document *document = open_cases();
    REQUIRE(document);
    for (size_t i = 0; i < NAMES; i++) {
        char path[600], directory[512];
        eitp_tokenizer *tokenizer, *again;
        eitp_path_info info;
        REQUIRE(scratch_make(directory));
        snprintf(path, sizeof path, GOLDEN "/%s.json", names[i]);
        tokenizer = load(path);
        REQUIRE(tokenizer);
        REQUIRE_OK(eitp_tokenizer_save(tokenizer, directory, &error_), error_);
        again = load(directory);
        REQUIRE(again);
        CHECK_THAT(eitp_tokenizer_fingerprint(tokenizer) == eitp_tokenizer_fingerprint(again), "%s", names[i]);
        snprintf(path, sizeof path, "%s/vocab.json", directory); /* would be split with GPT-2's pattern */
        CHECK(!eitp__path_info(&tokenizer->host, path, &info, &error_) && info.kind == EITP_PATH_MISSING);
        snprintf(path, sizeof path, "%s/tokenizer.json", directory);
        check_tokenizer(path, names[i], eitp_json_member(eitp_json_root(document), "texts"));
        eitp_tokenizer_destroy(tokenizer);
        eitp_tokenizer_destroy(again);
        scratch_remove(directory);
    }
    eitp_json_release(document);
}

static void compose(const char *text, size_t size, size_t part, eitp__buffer *out) {
    const eitp_host host = eitp_host_default();
    const unsigned char *bytes = (const unsigned char *)text;
    eitp__composer composer;
    eitp__composer_init(&composer, &host, EITP__FORM_C);
    eitp__buffer_clear(out);
    for (size_t i = 0, end; i < size; i = end) {
        end = part < size - i ? i + part : size;
        while (end < size && (bytes[end] & 0xC0) == 0x80)
            end++;
        CHECK(!eitp__composer_add(&composer, bytes + i, end - i, out, &error_));
    }
    eitp__composer_finish(&composer, out);
    eitp__composer_release(&composer);
}

static void characters_are_composed_as_by_the_library(void) {
    const eitp_host host = eitp_host_default();
    eitp_json_document *document = open_cases();
    uint64_t hash = 0xCBF29CE484222325u;
    eitp__buffer out;
    char text[MOST_BYTES], expected[MOST_BYTES];
    REQUIRE(document);
    eitp__buffer_init(&out, &host);
    for (uint32_t code_point = 0; code_point < 0x110000; code_point++) {
        size_t size = 1;
        if (code_point >= 0xD800 && code_point < 0xE000)
            continue;
        text[0] = 'a';
        size += eitp__utf8_encode(code_point, (unsigned char *)text + 1);
        memcpy(text + size,
               "\xCC\x81"
               "b",
               3);
        compose(text, size + 3, MOST_BYTES, &out);
        for (size_t i = 0; i < out.size; i++)
            hash = (hash ^ (unsigned char)out.data[i]) * 0x100000001B3u;
    }
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    CHECK_THAT(!strcmp(text, eitp_json_member(eitp_json_root(document), "composed")->text), "%s", text);
    for (const eitp_json *entry = eitp_json_member(eitp_json_root(document), "texts")->first_child; entry;
         entry = entry->next) {
        const size_t size = bytes_of(entry, "hex", text), composed = bytes_of(entry, "composed", expected);
        for (size_t part = 1; part <= MOST_BYTES; part *= 2) {
            compose(text, size, part, &out);
            CHECK_THAT(out.size == composed && (!composed || !memcmp(out.data, expected, composed)), "line %zu",
                       entry->line);
        }
    }
    eitp__buffer_release(&out);
    eitp_json_release(document);
}

/* Parses a tokenizer.json of 256 bytes with these parts. */
static eitp_status parse_with(const char *normalizer, const char *pre_tokenizer) {
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer = NULL;
    eitp__buffer text;
    eitp_status status;
    eitp__buffer_init(&text, &host);
    eitp__buffer_format(&text,
                        "{\"normalizer\": %s, \"pre_tokenizer\": %s, \"model\": {\"type\": \"BPE\", \"vocab\": {",
                        normalizer, pre_tokenizer);
    for (unsigned byte = 0; byte < 256; byte++) {
        unsigned char character[4];
        const size_t size = eitp__utf8_encode(eitp__byte_to_character((unsigned char)byte), character);
        eitp__buffer_add_text(&text, byte ? ", " : "");
        eitp__json_write_text(&text, (const char *)character, size);
        eitp__buffer_format(&text, ": %u", byte);
    }
    eitp__buffer_add_text(&text, "}, \"merges\": []}}");
    status = eitp__tokenizer_parse(&host, text.data, text.size, &tokenizer, &error_);
    eitp_tokenizer_destroy(tokenizer);
    eitp__buffer_release(&text);
    return status;
}

#define LEVEL(regex) "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": " regex "}"
#define SEQUENCE(first, second) "{\"type\": \"Sequence\", \"pretokenizers\": [" first ", " second "]}"
#define DIGITS(individual) "{\"type\": \"Digits\", \"individual_digits\": " individual "}"

#define FORM "{\"type\": \"NFD\"}"

static void other_parts_are_refused(void) {
    static const struct {
        const char *normalizer, *pre_tokenizer, *message;
    } cases[] = {
        {"{\"type\": \"Nmt\"}", LEVEL("true"), "unsupported normalizer \"Nmt\" of byte-level BPE"},
        {"{\"type\": \"BertNormalizer\"}", LEVEL("true"), "unsupported normalizer \"BertNormalizer\" of byte-level"},
        {"{\"type\": \"Prepend\"}", LEVEL("true"), "unsupported normalizer \"Prepend\" of byte-level BPE"},
        {"{\"type\": \"Sequence\", \"normalizers\": [" FORM "," FORM "," FORM "," FORM "," FORM "," FORM "," FORM
         "," FORM "," FORM "]}",
         LEVEL("true"), "unsupported normalizer of more than 8"},
        {"null", LEVEL("false"), "unsupported use_regex false"},
        {"null", SEQUENCE(DIGITS("true"), LEVEL("false")), "unsupported use_regex false"},
        {"null", SEQUENCE(DIGITS("false"), LEVEL("true")), "unsupported individual_digits false"},
        {"null", SEQUENCE("{\"type\": \"Whitespace\"}", LEVEL("true")), "unsupported pre_tokenizer \"Whitespace\""},
        {"null", "{\"type\": \"Sequence\", \"pretokenizers\": [" LEVEL("true") "]}", "unsupported Sequence"},
        {"null",
         SEQUENCE(
             "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a+\"}, \"behavior\": \"Isolated\", \"invert\": false}",
             LEVEL("false")),
         "unsupported pattern of the pre_tokenizer"},
        {"null",
         SEQUENCE(
             "{\"type\": \"Split\", \"pattern\": {\"String\": \" \"}, \"behavior\": \"Isolated\", \"invert\": false}",
             LEVEL("false")),
         "unsupported pattern of the pre_tokenizer"},
    };
    CHECK_THAT(!parse_with("null", LEVEL("true")), "%s", error_.message);
    CHECK_THAT(!parse_with("{\"type\": \"NFC\"}", SEQUENCE(DIGITS("true"), LEVEL("true"))), "%s", error_.message);
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        CHECK(parse_with(cases[i].normalizer, cases[i].pre_tokenizer) == EITP_ERROR_UNSUPPORTED);
        CHECK_THAT(strstr(error_.message, cases[i].message), "%s, not %s", error_.message, cases[i].message);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(pieces_are_those_of_the_library), TEST(ids_are_those_of_the_library),
        TEST(saved_tokenizers_are_the_same),   TEST(characters_are_composed_as_by_the_library),
        TEST(other_parts_are_refused),
    };
    return RUN_TESTS(tests, argc, argv);
}
