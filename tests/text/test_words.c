/* WordPiece and RoBERTa's byte-level BPE compared with the library `tokenizers`: in chunks, as sequences, saved and
   loaded in every format, refused, and with failing calls. */
#include "tests/support/everything.h"

#include "tests/support/faults.h"
#include "tests/support/test.h"

#define GOLDEN "tests/golden/words"

static const char *const names[] = {"uncased", "accents", "cased", "roberta"};

enum { NAMES = 4, MOST_IDS = 8192 };

static const eitp_host *system_host(void) {
    static eitp_host host;
    host = eitp_host_default();
    return &host;
}

static eitp_tokenizer *load(const char *path) {
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer = NULL;
    eitp_error error;
    CHECK_THAT(eitp_tokenizer_load(&host, path, &tokenizer, &error) == EITP_OK, "%s", error.message);
    return tokenizer;
}

static eitp_tokenizer *load_named(const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s.json", GOLDEN, name);
    return load(path);
}

static eitp_json_document *golden_open(void) {
    const eitp_host host = eitp_host_default();
    eitp_json_document *document = NULL;
    eitp_error error;
    CHECK_THAT(!eitp__json_read_strict_file(&host, GOLDEN "/cases.json", 1 << 20, &document, &error), "%s",
               error.message);
    return document;
}

/* Reads the bytes of a member in hexadecimal. */
static size_t bytes_of(const eitp_json *entry, const char *name, char *bytes, size_t capacity) {
    const eitp_json *hex = eitp_json_member(entry, name);
    const size_t size = hex->text_size / 2;
    for (size_t i = 0; i < size && i < capacity; i++) {
        unsigned byte = 0;
        sscanf(hex->text + 2 * i, "%2x", &byte);
        bytes[i] = (char)byte;
    }
    CHECK(size <= capacity);
    return size;
}

static int same_ids(const eitp_json *expected, const int32_t *ids, size_t count) {
    const eitp_json *entry = expected->first_child;
    if (expected->count != count)
        return 0;
    for (size_t i = 0; i < count; i++, entry = entry->next) {
        if (entry->integer != ids[i])
            return 0;
    }
    return 1;
}

/* Checks the normalizer's output for every code point, with all settings of the golden values. */
static void test_normalized_characters(void) {
    const eitp_host host = eitp_host_default();
    eitp_json_document *document = golden_open();
    REQUIRE(document);
    const eitp_json *expected = eitp_json_member(eitp_json_root(document), "normalized");
    CHECK(expected->count == 6);
    for (expected = expected->first_child; expected; expected = expected->next) {
        uint64_t hash = 0xCBF29CE484222325u;
        eitp__normalization steps = EITP__ZERO;
        steps.is_bert = 1;
        eitp__normalizer normalizer;
        eitp__buffer out;
        char text[32];
        CHECK(sscanf(expected->name, "%d %d %d %d", &steps.clean_text, &steps.handle_chinese_chars,
                     &steps.strip_accents, &steps.lowercase) == 4);
        eitp__buffer_init(&out, &host);
        eitp__normalizer_init(&normalizer, &host, &steps);
        for (uint32_t code_point = 0; code_point < 0x110000; code_point++) {
            unsigned char bytes[8] = {'a'};
            if (code_point >= 0xD800 && code_point < 0xE000)
                continue;
            size_t size = 1 + eitp__utf8_encode(code_point, bytes + 1);
            bytes[size++] = 'b';
            eitp__buffer_clear(&out);
            CHECK(!eitp__normalizer_add(&normalizer, bytes, size, &out, NULL));
            CHECK(!eitp__normalizer_finish(&normalizer, &out, NULL));
            for (size_t i = 0; i < out.size; i++)
                hash = (hash ^ (unsigned char)out.data[i]) * 0x100000001B3u;
        }
        snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
        CHECK_THAT(!strcmp(text, expected->text), "%s: %s, the library's is %s", expected->name, text, expected->text);
        eitp__normalizer_release(&normalizer);
        eitp__buffer_release(&out);
    }
    eitp_json_release(document);
}

/* Puts marks in canonical order, whole and character by character. */
static void test_order_of_marks(void) {
    eitp__normalization steps = EITP__ZERO;
    eitp_json_document *document = golden_open();
    eitp__normalizer normalizer;
    eitp__buffer out;
    REQUIRE(document);
    const eitp_json *entries = eitp_json_member(eitp_json_root(document), "marks");
    CHECK(entries->count == 80);
    steps.is_bert = steps.strip_accents = 1;
    eitp__buffer_init(&out, system_host());
    eitp__normalizer_init(&normalizer, system_host(), &steps);
    for (const eitp_json *entry = entries->first_child; entry; entry = entry->next) {
        char text[128], expected[128];
        const unsigned char *bytes = (const unsigned char *)text;
        const size_t size = bytes_of(entry, "hex", text, sizeof text);
        const size_t expected_size = bytes_of(entry, "stripped", expected, sizeof expected);
        for (int by_character = 0; by_character < 2; by_character++) {
            eitp__buffer_clear(&out);
            for (size_t i = 0, part; i < size; i += part) {
                for (part = 1; by_character && i + part < size && (bytes[i + part] & 0xC0) == 0x80;)
                    part++;
                part = by_character ? part : size;
                CHECK(!eitp__normalizer_add(&normalizer, bytes + i, part, &out, NULL));
            }
            CHECK(!eitp__normalizer_finish(&normalizer, &out, NULL));
            CHECK_THAT(out.size == expected_size && (!out.size || !memcmp(out.data, expected, out.size)), "line %zu",
                       entry->line);
        }
    }
    eitp__normalizer_release(&normalizer);
    eitp__buffer_release(&out);
    eitp_json_release(document);
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

static void check_chunks(const eitp_tokenizer *tokenizer, const char *text, size_t size, const eitp_json *expected) {
    static id_list list;
    eitp_encoder *encoder;
    CHECK(!eitp__encoder_allocate(tokenizer, 64, id_list_add, &list, &encoder, NULL));
    for (size_t chunk = 1; chunk <= 13; chunk += 3) {
        list.count = 0;
        for (size_t i = 0; i < size; i += chunk)
            CHECK(!eitp_encoder_add(encoder, text + i, chunk < size - i ? chunk : size - i, NULL));
        CHECK(!eitp_encoder_finish(encoder, NULL));
        CHECK_THAT(same_ids(expected, list.ids, list.count), "line %zu, chunks of %zu", expected->line, chunk);
    }
    eitp_encoder_destroy(encoder);
}

static void check_text(const eitp_tokenizer *tokenizer, const char *name, const eitp_json *entry) {
    static char text[8192], decoded[8192], found[8192];
    static int32_t ids[MOST_IDS];
    const eitp_json *expected = eitp_json_member(entry, name), *expected_ids = eitp_json_member(expected, "ids");
    const size_t size = bytes_of(entry, "hex", text, sizeof text);
    const size_t decoded_size = bytes_of(expected, "decoded", decoded, sizeof decoded);
    size_t count, found_size;
    CHECK(!eitp_tokenizer_encode(tokenizer, text, size, ids, MOST_IDS, &count, NULL));
    CHECK_THAT(same_ids(expected_ids, ids, count), "%s, line %zu", name, entry->line);
    CHECK(!eitp_tokenizer_decode(tokenizer, ids, count, found, sizeof found, &found_size, NULL));
    CHECK_THAT(found_size == decoded_size && !memcmp(found, decoded, found_size), "%s, line %zu: decoded \"%.*s\"",
               name, entry->line, (int)found_size, found);
    check_chunks(tokenizer, text, size, expected_ids);
}

static void check_all(const eitp_tokenizer *tokenizer, const char *name) {
    eitp_json_document *document = golden_open();
    REQUIRE(document && tokenizer);
    const eitp_json *entries = eitp_json_member(eitp_json_root(document), "texts");
    CHECK(entries->count > 150);
    for (const eitp_json *entry = entries->first_child; entry; entry = entry->next)
        check_text(tokenizer, name, entry);
    eitp_json_release(document);
}

static void test_golden_texts(void) {
    for (size_t i = 0; i < NAMES; i++) {
        eitp_tokenizer *tokenizer = load_named(names[i]);
        check_all(tokenizer, names[i]);
        eitp_tokenizer_destroy(tokenizer);
    }
}

/* Checks a golden sequence, also with a buffer that is too short. */
static void check_sequence(const eitp_tokenizer *tokenizer, const char *name, const eitp_json *texts,
                           const eitp_json *entry) {
    static char bytes[2][8192];
    static int32_t ids[MOST_IDS], segments[MOST_IDS];
    const eitp_json *expected = eitp_json_member(entry, name), *number = eitp_json_member(entry, "texts")->first_child;
    eitp_sequence_config config = eitp_sequence_config_default();
    eitp_sequence_report report;
    eitp_text pair[2];
    eitp_error error;
    size_t count = 0;
    for (; number; number = number->next) {
        const eitp_json *text = texts->first_child;
        for (int64_t i = 0; i < number->integer; i++)
            text = text->next;
        pair[count].bytes = bytes[count];
        pair[count].size = bytes_of(text, "hex", bytes[count], sizeof bytes[count]);
        count++;
    }
    config.max_length = (int32_t)eitp_json_member(entry, "max_length")->integer;
    config.truncation = (eitp_truncation)eitp_json_member(entry, "truncation")->integer;
    config.truncate_left = (int)eitp_json_member(entry, "left")->integer;
    eitp_status status = eitp_tokenizer_encode_sequence(tokenizer, &pair[0], count > 1 ? &pair[1] : NULL, &config, ids,
                                                        segments, MOST_IDS, &report, &error);
    if (expected->kind == EITP_JSON_NULL) {
        CHECK_THAT(status == EITP_ERROR_ARGUMENT && !report.count, "%s, line %zu: %zu ids", name, entry->line,
                   report.count);
        return;
    }
    REQUIRE_OK(status, error);
    CHECK_THAT(same_ids(eitp_json_member(expected, "ids"), ids, report.count), "%s, line %zu", name, entry->line);
    CHECK_THAT(same_ids(eitp_json_member(expected, "segments"), segments, report.count), "%s, line %zu: segments", name,
               entry->line);
    memset(ids, 0xFF, sizeof ids);
    CHECK(!eitp_tokenizer_encode_sequence(tokenizer, &pair[0], count > 1 ? &pair[1] : NULL, &config, ids, NULL, 1,
                                          &report, NULL));
    CHECK(report.count == eitp_json_member(expected, "ids")->count && ids[1] == -1);
    config.truncation = EITP_TRUNCATE_NONE;
    const int cut = report.cut_first + report.cut_second > 0;
    status = eitp_tokenizer_encode_sequence(tokenizer, &pair[0], count > 1 ? &pair[1] : NULL, &config, NULL, NULL, 0,
                                            &report, NULL);
    CHECK(status == (cut ? EITP_ERROR_ARGUMENT : EITP_OK));
}

static void test_golden_sequences(void) {
    eitp_json_document *document = golden_open();
    REQUIRE(document);
    const eitp_json *texts = eitp_json_member(eitp_json_root(document), "texts");
    const eitp_json *entries = eitp_json_member(eitp_json_root(document), "sequences");
    CHECK(entries->count > 50);
    for (size_t i = 0; i < NAMES; i++) {
        eitp_tokenizer *tokenizer = load_named(names[i]);
        REQUIRE(tokenizer);
        for (const eitp_json *entry = entries->first_child; entry; entry = entry->next)
            check_sequence(tokenizer, names[i], texts, entry);
        eitp_tokenizer_destroy(tokenizer);
    }
    eitp_json_release(document);
}

/* Checks golden strings as the words of one sequence, also with a buffer that is too short. */
static void check_words(const eitp_tokenizer *tokenizer, const char *name, const eitp_json *texts,
                        const eitp_json *entry) {
    static char bytes[9][8192];
    static int32_t ids[MOST_IDS], word_of[MOST_IDS];
    const eitp_json *expected = eitp_json_member(entry, name);
    eitp_sequence_config config = eitp_sequence_config_default();
    eitp_sequence_report report;
    eitp_text words[9];
    eitp_error error;
    size_t count = 0, lost = 0;
    for (const eitp_json *number = eitp_json_member(entry, "texts")->first_child; number; number = number->next) {
        const eitp_json *text = texts->first_child;
        for (int64_t i = 0; i < number->integer; i++)
            text = text->next;
        words[count].bytes = bytes[count];
        words[count].size = bytes_of(text, "hex", bytes[count], sizeof bytes[count]);
        count++;
    }
    REQUIRE_OK(
        eitp_tokenizer_encode_words(tokenizer, words, count, NULL, ids, NULL, word_of, MOST_IDS, &report, &error),
        error);
    CHECK(!report.cut_words && !report.cut_first);
    for (size_t i = 0; i < report.count; i++)
        lost += word_of[i] >= 0 && (!i || word_of[i] != word_of[i - 1]);
    config.max_length = (int32_t)eitp_json_member(entry, "max_length")->integer;
    config.truncate_left = (int)eitp_json_member(entry, "left")->integer;
    REQUIRE_OK(
        eitp_tokenizer_encode_words(tokenizer, words, count, &config, ids, NULL, word_of, MOST_IDS, &report, &error),
        error);
    CHECK_THAT(same_ids(eitp_json_member(expected, "ids"), ids, report.count), "%s, line %zu", name, entry->line);
    CHECK_THAT(same_ids(eitp_json_member(expected, "words"), word_of, report.count), "%s, line %zu: words", name,
               entry->line);
    for (size_t i = 0; i < report.count; i++)
        lost -= word_of[i] >= 0 && (!i || word_of[i] != word_of[i - 1]);
    CHECK_THAT(report.cut_words == lost, "%s, line %zu: %zu words cut, not %zu", name, entry->line, report.cut_words,
               lost);
    ids[1] = -1;
    CHECK(!eitp_tokenizer_encode_words(tokenizer, words, count, &config, ids, NULL, NULL, 1, &report, NULL));
    CHECK(report.count == eitp_json_member(expected, "ids")->count && ids[1] == -1);
}

static void test_golden_words(void) {
    eitp_json_document *document = golden_open();
    eitp_sequence_report report;
    const eitp_text missing = {NULL, 3};
    REQUIRE(document);
    const eitp_json *texts = eitp_json_member(eitp_json_root(document), "texts");
    const eitp_json *entries = eitp_json_member(eitp_json_root(document), "words");
    CHECK(entries->count > 50);
    for (size_t i = 0; i < NAMES; i++) {
        eitp_tokenizer *tokenizer = load_named(names[i]);
        REQUIRE(tokenizer);
        for (const eitp_json *entry = entries->first_child; entry; entry = entry->next)
            check_words(tokenizer, names[i], texts, entry);
        CHECK(eitp_tokenizer_encode_words(tokenizer, NULL, 1, NULL, NULL, NULL, NULL, 0, &report, NULL) ==
              EITP_ERROR_ARGUMENT);
        CHECK(eitp_tokenizer_encode_words(tokenizer, &missing, 1, NULL, NULL, NULL, NULL, 0, &report, NULL) ==
              EITP_ERROR_ARGUMENT);
        CHECK(!eitp_tokenizer_encode_words(tokenizer, NULL, 0, NULL, NULL, NULL, NULL, 0, &report, NULL) &&
              report.count == (size_t)eitp_tokenizer_added_count(tokenizer, 0));
        eitp_tokenizer_destroy(tokenizer);
    }
    eitp_json_release(document);
}

/* The longest text is shortened first. Compares every pair of lengths and room with the library's individual steps. */
static void test_shared_room(void) {
    for (size_t first = 0; first < 12; first++) {
        for (size_t second = 0; second < 12; second++) {
            for (size_t room = 0; room < first + second; room++) {
                size_t kept[2] = {first, second}, low = first < second ? first : second;
                size_t high = low > room ? low : low > room - low ? low : room - low;
                if (low + high > room) {
                    low = room / 2;
                    high = low + room % 2;
                }
                eitp__truncate_pair(room, &kept[0], &kept[1]);
                CHECK_THAT(kept[0] == (first > second ? high : low) && kept[1] == (first > second ? low : high),
                           "%zu and %zu in %zu: %zu and %zu", first, second, room, kept[0], kept[1]);
            }
        }
    }
}

static void test_counts_what_was_cut(void) {
    eitp_tokenizer *tokenizer = load_named("uncased");
    eitp_sequence_config config = eitp_sequence_config_default();
    eitp_sequence_report report;
    eitp_text first = {"the the the the the the", 23}, second = {"of of of", 8};
    int32_t ids[16], segments[16];
    REQUIRE(tokenizer);
    CHECK(eitp_tokenizer_added_count(tokenizer, 0) == 2 && eitp_tokenizer_added_count(tokenizer, 1) == 3);
    CHECK(!eitp_tokenizer_encode_sequence(tokenizer, &first, &second, NULL, ids, segments, 16, &report, NULL));
    CHECK(report.count == 12 && !report.cut_first && !report.cut_second);
    CHECK(ids[0] == 2 && ids[7] == 3 && ids[11] == 3 && !segments[7] && segments[8] == 1 && segments[11] == 1);
    config.max_length = 10;
    CHECK(!eitp_tokenizer_encode_sequence(tokenizer, &first, &second, &config, ids, NULL, 16, &report, NULL));
    CHECK(report.count == 10 && report.cut_first == 2 && report.cut_second == 0);
    config.truncation = EITP_TRUNCATE_SECOND;
    CHECK(!eitp_tokenizer_encode_sequence(tokenizer, &first, &second, &config, ids, NULL, 16, &report, NULL));
    CHECK(report.count == 10 && report.cut_first == 0 && report.cut_second == 2);
    config.omit_special_tokens = 1;
    CHECK(!eitp_tokenizer_encode_sequence(tokenizer, &first, &second, &config, ids, segments, 16, &report, NULL));
    CHECK(report.count == 9 && !report.cut_second && ids[0] == ids[5] && ids[5] != ids[6] && segments[6] == 1);
    eitp_tokenizer_destroy(tokenizer);
}

static void test_sequence_misuse(void) {
    eitp_tokenizer *tokenizer = load_named("uncased");
    const eitp_text text = {"the", 3}, missing = {NULL, 3};
    eitp_sequence_config config = eitp_sequence_config_default();
    eitp_sequence_report report;
    eitp_error error;
    REQUIRE(tokenizer);
    CHECK(eitp_tokenizer_encode_sequence(NULL, &text, NULL, NULL, NULL, NULL, 0, &report, NULL) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_tokenizer_encode_sequence(tokenizer, NULL, NULL, NULL, NULL, NULL, 0, &report, NULL) ==
          EITP_ERROR_ARGUMENT);
    CHECK(eitp_tokenizer_encode_sequence(tokenizer, &text, NULL, NULL, NULL, NULL, 0, NULL, NULL) ==
          EITP_ERROR_ARGUMENT);
    CHECK(eitp_tokenizer_encode_sequence(tokenizer, &missing, NULL, NULL, NULL, NULL, 0, &report, NULL) ==
          EITP_ERROR_ARGUMENT);
    CHECK(eitp_tokenizer_encode_sequence(tokenizer, &text, &missing, NULL, NULL, NULL, 0, &report, NULL) ==
          EITP_ERROR_ARGUMENT);
    config.max_length = -1;
    CHECK(eitp_tokenizer_encode_sequence(tokenizer, &text, NULL, &config, NULL, NULL, 0, &report, NULL) ==
          EITP_ERROR_ARGUMENT);
    config.max_length = 1;
    CHECK(eitp_tokenizer_encode_sequence(tokenizer, &text, NULL, &config, NULL, NULL, 0, &report, &error) ==
          EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error.message, "no room for the 2 special tokens") != NULL, "%s", error.message);
    config.max_length = 2;
    CHECK(!eitp_tokenizer_encode_sequence(tokenizer, &text, NULL, &config, NULL, NULL, 0, &report, &error));
    CHECK(report.count == 2 && report.cut_first == 1);
    CHECK(!eitp_tokenizer_added_count(NULL, 1) && !eitp_tokenizer_sequence_defaults(NULL).max_length);
    eitp_tokenizer_destroy(tokenizer);
}

/* Checks the roles, and the lengths in the files. */
static void test_roles(void) {
    static const int32_t roles[NAMES][EITP_SPECIAL_TOKEN_COUNT] = {
        {-1, -1, 0, 1, 2, 3, 4}, {-1, -1, 0, 1, 2, 3, 4}, {-1, -1, 0, 1, 2, 3, 4}, {-1, -1, -1, -1, -1, -1, -1}};
    for (size_t i = 0; i < NAMES; i++) {
        eitp_tokenizer *tokenizer = load_named(names[i]);
        REQUIRE(tokenizer);
        for (int which = 0; which < EITP_SPECIAL_TOKEN_COUNT; which++)
            CHECK_THAT(eitp_tokenizer_special(tokenizer, (eitp_special_token)which) == roles[i][which], "%s, %d: %d",
                       names[i], which, (int)eitp_tokenizer_special(tokenizer, (eitp_special_token)which));
        const eitp_sequence_defaults defaults = eitp_tokenizer_sequence_defaults(tokenizer);
        CHECK(defaults.max_length == (i ? 0 : 128) && defaults.has_padding == !i);
        CHECK(defaults.pad_length == (i ? 0 : 128) && defaults.pad_multiple == (i ? 0 : 8));
        eitp_tokenizer_destroy(tokenizer);
    }
}

static void put(const char *directory, const char *name, const char *text) {
    eitp_error error;
    CHECK_THAT(!eitp__write_file(system_host(), scratch_path(directory, name), text, strlen(text), &error), "%s",
               error.message);
}

static void drop(const char *directory, const char *name) {
    const eitp_host *host = system_host();
    host->files.remove(host->files.user, scratch_path(directory, name));
}

/* A tokenizer is the same after saving and loading, also from only vocab.txt, or vocab.json and merges.txt, if these
   are sufficient. */
static void test_round_trip(void) {
    static const char *const configs[NAMES] = {"{}", NULL, "{\"do_lower_case\": false}",
                                               "{\"tokenizer_class\": \"RobertaTokenizer\", \"mask_token\": "
                                               "{\"content\": \"<mask>\", \"lstrip\": true}}"};
    char directory[512];
    eitp_error error;
    REQUIRE(scratch_make(directory));
    for (size_t i = 0; i < NAMES; i++) {
        eitp_tokenizer *tokenizer = load_named(names[i]);
        REQUIRE(tokenizer);
        REQUIRE_OK(eitp_tokenizer_save(tokenizer, directory, &error), error);
        eitp_tokenizer *again = load(directory);
        REQUIRE(again);
        CHECK_THAT(eitp_tokenizer_fingerprint(again) == eitp_tokenizer_fingerprint(tokenizer), "%s", names[i]);
        CHECK(eitp_tokenizer_added_count(again, 1) == eitp_tokenizer_added_count(tokenizer, 1));
        CHECK(eitp_tokenizer_sequence_defaults(again).max_length ==
              eitp_tokenizer_sequence_defaults(tokenizer).max_length);
        check_all(again, names[i]);
        eitp_tokenizer_destroy(again);
        drop(directory, "tokenizer.json");
        if (configs[i] && strcmp(names[i], "roberta")) { /* RoBERTa's <mask> is not in vocab.json */
            put(directory, "tokenizer_config.json", configs[i]);
            again = load(directory);
            check_all(again, names[i]);
            eitp_tokenizer_destroy(again);
        }
        drop(directory, "vocab.txt");
        eitp_tokenizer_destroy(tokenizer);
    }
    scratch_remove(directory);
}

/* ---- vocab.txt ---- */

#define VOCABULARY "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n"

/* A directory with these files (NULL: no file). */
typedef struct directory_case {
    const char *vocabulary, *config, *model;
    eitp_status status;
    const char *words;
} directory_case;

static eitp_status load_case(const char *directory, const directory_case *c, eitp_tokenizer **tokenizer,
                             eitp_error *error) {
    static const char *const files[] = {"vocab.txt", "tokenizer_config.json", "config.json"};
    const char *const texts[] = {c->vocabulary, c->config, c->model};
    for (size_t i = 0; i < 3; i++) {
        drop(directory, files[i]);
        if (texts[i])
            put(directory, files[i], texts[i]);
    }
    error->message[0] = 0;
    return eitp_tokenizer_load(system_host(), directory, tokenizer, error);
}

static void test_vocab_txt_refused(void) {
    static const directory_case cases[] = {
        {VOCABULARY, NULL, NULL, EITP_OK, ""},
        {VOCABULARY, "{\"tokenizer_class\":\"DistilBertTokenizerFast\"}", NULL, EITP_OK, ""},
        {VOCABULARY, NULL, "{\"model_type\":\"electra\"}", EITP_OK, ""},
        {VOCABULARY, "{\"tokenizer_class\":\"BertJapaneseTokenizer\"}", NULL, EITP_ERROR_UNSUPPORTED,
         "\"BertJapaneseTokenizer\""},
        {VOCABULARY, NULL, "{\"model_type\":\"mpnet\"}", EITP_ERROR_UNSUPPORTED, "\"mpnet\""},
        {NULL, NULL, NULL, EITP_ERROR_ARGUMENT, "vocab.txt"},
        {"", NULL, NULL, EITP_ERROR_FORMAT, "no tokens"},
        {"[CLS]\n[SEP]\na\n", NULL, NULL, EITP_ERROR_FORMAT, "lacks the token \"[UNK]\""},
        {"[UNK]\n[SEP]\na\n", NULL, NULL, EITP_ERROR_FORMAT, "lacks the cls_token \"[CLS]\""},
        {"[UNK]\n[CLS]\na\n", NULL, NULL, EITP_ERROR_FORMAT, "lacks the sep_token \"[SEP]\""},
        {"[UNK]\n[CLS]\n[SEP]\n", NULL, NULL, EITP_OK, ""},
        {"[UNK]\n[CLS]\n[SEP]\n", "{\"unk_token\":\"?\"}", NULL, EITP_ERROR_FORMAT, "lacks the token \"?\""},
        {"[UNK]\n[CLS]\n[SEP]\n", "{\"cls_token\":null}", NULL, EITP_ERROR_FORMAT, "lacks the cls_token \"null\""},
        {"?\n<c>\n</c>\n", "{\"unk_token\":\"?\",\"cls_token\":\"<c>\",\"sep_token\":{\"content\":\"</c>\"}}", NULL,
         EITP_OK, ""},
        {VOCABULARY "a\n", NULL, NULL, EITP_ERROR_FORMAT, "line 8: token \"a\" is also token 5"},
        {VOCABULARY "a\r\n", NULL, NULL, EITP_ERROR_FORMAT, "line 8: token \"a\""},
        {VOCABULARY "c\xFF\n", NULL, NULL, EITP_ERROR_FORMAT, "line 8: invalid UTF-8"},
        {VOCABULARY, "{\"do_lower_case\":7}", NULL, EITP_ERROR_FORMAT, "do_lower_case"},
        {VOCABULARY, "{\"do_basic_tokenize\":false}", NULL, EITP_ERROR_UNSUPPORTED, "do_basic_tokenize"},
        {VOCABULARY, "{\"never_split\":[\"[CLS]\"],\"do_basic_tokenize\":true}", NULL, EITP_OK, ""},
        {VOCABULARY, "{\"never_split\":[\"a\"]}", NULL, EITP_ERROR_UNSUPPORTED, "never_split of \"a\""},
        {VOCABULARY, "{\"never_split\":[7]}", NULL, EITP_ERROR_UNSUPPORTED, "never_split"},
        {VOCABULARY, "{\"truncation_side\":\"up\"}", NULL, EITP_ERROR_UNSUPPORTED, "truncation_side \"up\""},
    };
    char directory[512];
    REQUIRE(scratch_make(directory));
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp_tokenizer *tokenizer = NULL;
        eitp_error error;
        eitp_status status = load_case(directory, &cases[i], &tokenizer, &error);
        CHECK_THAT(status == cases[i].status && strstr(error.message, cases[i].words) != NULL, "case %zu: %d, %s", i,
                   (int)status, error.message);
        CHECK((status == EITP_OK) == (tokenizer != NULL));
        eitp_tokenizer_destroy(tokenizer);
    }
    scratch_remove(directory);
}

/* Settings in tokenizer_config.json, and white space at line ends, are treated as in the library. */
static void test_vocab_txt(void) {
    static const directory_case given = {"[UNK]\n[CLS]\n[SEP]\n\xE2\x80\xA8\na \r\n##b\xE3\x80\x80\nA",
                                         "{\"do_lower_case\":false,\"strip_accents\":true,\"model_max_length\":512,"
                                         "\"truncation_side\":\"left\",\"padding_side\":\"left\"}",
                                         NULL, EITP_OK, ""};
    static const char text[] = "ab A\xCC\x81 aB [SEP]";
    static const int32_t expected[] = {4, 5, 6, 0, 2};
    char directory[512];
    eitp_tokenizer *tokenizer;
    eitp_error error;
    int32_t ids[32];
    size_t count;
    REQUIRE(scratch_make(directory));
    REQUIRE_OK(load_case(directory, &given, &tokenizer, &error), error);
    CHECK(eitp_tokenizer_size(tokenizer) == 7);
    CHECK(!eitp_tokenizer_encode(tokenizer, text, sizeof text - 1, ids, 32, &count, NULL));
    CHECK(count == 5 && !memcmp(ids, expected, sizeof expected));
    const eitp_sequence_defaults defaults = eitp_tokenizer_sequence_defaults(tokenizer);
    CHECK(defaults.model_max_length == 512 && defaults.truncate_left && defaults.pad_left && !defaults.max_length);
    CHECK(eitp_tokenizer_special(tokenizer, EITP_MASK) == -1 && eitp_tokenizer_special(tokenizer, EITP_SEPARATOR) == 2);
    eitp_tokenizer_destroy(tokenizer);
    scratch_remove(directory);
}

/* RoBERTa without a tokenizer.json: the special tokens follow from its class or the model type. */
static void test_roberta_lists(void) {
    static const int32_t roles[] = {2, 0, 1, 3, 0, 2, -1};
    char directory[512];
    eitp_error error;
    int32_t ids[16], segments[16];
    eitp_sequence_report report;
    const eitp_text text = {"a</s>", 5};
    REQUIRE(scratch_make(directory));
    eitp_tokenizer *tokenizer = load_named("roberta");
    REQUIRE(tokenizer);
    REQUIRE_OK(eitp_tokenizer_save(tokenizer, directory, &error), error);
    eitp_tokenizer_destroy(tokenizer);
    drop(directory, "tokenizer.json");
    drop(directory, "tokenizer_config.json");
    put(directory, "config.json", "{\"model_type\":\"roberta\"}");
    put(directory, "vocab.txt", VOCABULARY); /* belongs to another model */
    tokenizer = load(directory);
    REQUIRE(tokenizer);
    for (int which = 0; which < EITP_SPECIAL_TOKEN_COUNT; which++)
        CHECK(eitp_tokenizer_special(tokenizer, (eitp_special_token)which) == roles[which]);
    CHECK(!eitp_tokenizer_encode_sequence(tokenizer, &text, &text, NULL, ids, segments, 16, &report, NULL));
    CHECK(report.count == 8 && !ids[0] && ids[2] == 2 && ids[3] == 2 && ids[4] == 2 && ids[7] == 2 && !segments[7]);
    REQUIRE_OK(eitp_tokenizer_save(tokenizer, directory, &error), error);
    eitp_tokenizer *again = load(directory);
    REQUIRE(again);
    CHECK(eitp_tokenizer_fingerprint(again) == eitp_tokenizer_fingerprint(tokenizer));
    CHECK(eitp_tokenizer_added_count(again, 1) == 4 && eitp_tokenizer_special(again, EITP_CLASSIFIER) == 0);
    eitp_tokenizer_destroy(again);
    eitp_tokenizer_destroy(tokenizer);
    scratch_remove(directory);
}

/* ---- tokenizer.json ---- */

#define NORMALIZER                                                                                                     \
    "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_accents\":null,"           \
    "\"lowercase\":true}"
#define MODEL                                                                                                          \
    "{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","                            \
    "\"max_input_chars_per_word\":100,\"vocab\":{\"[UNK]\":0,\"a\":1,\"##b\":2}}"

static void test_parts_refused(void) {
    static const struct {
        const char *normalizer, *splitter, *decoder, *model;
        eitp_status status;
        const char *words;
    } cases[] = {
        {NORMALIZER, "{\"type\":\"BertPreTokenizer\"}", "null", MODEL, EITP_OK, ""},
        {"null", "{\"type\":\"BertPreTokenizer\"}", "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}",
         MODEL, EITP_OK, ""},
        {"{\"type\":\"Lowercase\"}", "{\"type\":\"BertPreTokenizer\"}", "null", MODEL, EITP_OK, ""},
        {"{\"type\":\"StripAccents\"}", "{\"type\":\"BertPreTokenizer\"}", "null", MODEL, EITP_ERROR_UNSUPPORTED,
         "normalizer \"StripAccents\""},
        {"{\"type\":\"Sequence\",\"normalizers\":[" NORMALIZER ",{\"type\":\"NFC\"}]}",
         "{\"type\":\"BertPreTokenizer\"}", "null", MODEL, EITP_ERROR_UNSUPPORTED,
         "normalizer \"NFC\" after the last step"},
        {"{\"type\":\"BertNormalizer\"}", "{\"type\":\"BertPreTokenizer\"}", "null", MODEL, EITP_ERROR_FORMAT,
         "clean_text is missing"},
        {NORMALIZER, "{\"type\":\"Whitespace\"}", "null", MODEL, EITP_ERROR_UNSUPPORTED, "\"Whitespace\""},
        {NORMALIZER, "null", "null", MODEL, EITP_ERROR_UNSUPPORTED, "pre_tokenizer is missing"},
        {NORMALIZER, "{\"type\":\"BertPreTokenizer\"}", "{\"type\":\"Fuse\"}", MODEL, EITP_ERROR_UNSUPPORTED,
         "decoder"},
        {NORMALIZER, "{\"type\":\"BertPreTokenizer\"}", "{\"type\":\"WordPiece\",\"prefix\":\"@\",\"cleanup\":true}",
         MODEL, EITP_ERROR_UNSUPPORTED, "prefix differs"},
        {NORMALIZER, "{\"type\":\"BertPreTokenizer\"}", "null",
         "{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"continuing_subword_prefix\":\"##\",\"vocab\":{\"a\":0}}",
         EITP_ERROR_FORMAT, "lacks the token \"?\""},
        {NORMALIZER, "{\"type\":\"BertPreTokenizer\"}", "null",
         "{\"type\":\"WordPiece\",\"unk_token\":\"a\",\"vocab\":{\"a\":0}}", EITP_ERROR_FORMAT,
         "continuing_subword_prefix"},
        {NORMALIZER, "{\"type\":\"BertPreTokenizer\"}", "null",
         "{\"type\":\"WordPiece\",\"unk_token\":\"a\",\"continuing_subword_prefix\":\"\",\"max_input_chars_per_word\":-"
         "1,"
         "\"vocab\":{\"a\":0}}",
         EITP_ERROR_FORMAT, "max_input_chars_per_word"},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp_tokenizer *tokenizer;
        eitp_error error;
        eitp__buffer json;
        eitp__buffer_init(&json, system_host());
        eitp__buffer_format(&json, "{\"normalizer\":%s,\"pre_tokenizer\":%s,\"decoder\":%s,\"model\":%s}",
                            cases[i].normalizer, cases[i].splitter, cases[i].decoder, cases[i].model);
        error.message[0] = 0;
        eitp_status status = eitp__tokenizer_parse(system_host(), json.data, json.size, &tokenizer, &error);
        CHECK_THAT(status == cases[i].status && strstr(error.message, cases[i].words) != NULL, "case %zu: %d, %s", i,
                   (int)status, error.message);
        CHECK((status == EITP_OK) == (tokenizer != NULL));
        eitp_tokenizer_destroy(tokenizer);
        eitp__buffer_release(&json);
    }
}

/* An empty or overlong prefix, a character limit, and a missing decoder. */
static void test_unusual_model(void) {
    static const char json[] =
        "{\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"decoder\":null,\"model\":{\"type\":"
        "\"WordPiece\",\"unk_token\":\"?\",\"continuing_subword_prefix\":\"\",\"max_input_chars_per_word\":3,"
        "\"vocab\":{\"?\":0,\"a\":1,\"ab\":2,\"\":3,\"\xC3\xA9\":4}}}";
    static const char text[] = "aab abab \xC3\xA9\xC3\xA9\xC3\xA9 b aba";
    static const int32_t expected[] = {1, 2, 0, 4, 4, 4, 0, 2, 1};
    eitp_tokenizer *tokenizer;
    eitp_error error;
    int32_t ids[32];
    char decoded[64];
    size_t count, size;
    REQUIRE_OK(eitp__tokenizer_parse(system_host(), json, sizeof json - 1, &tokenizer, &error), error);
    CHECK(!eitp_tokenizer_encode(tokenizer, text, sizeof text - 1, ids, 32, &count, NULL));
    CHECK(count == 9 && !memcmp(ids, expected, sizeof expected));
    CHECK(!eitp_tokenizer_decode(tokenizer, ids, 3, decoded, sizeof decoded, &size, NULL));
    CHECK(size == 6 && !memcmp(decoded, "a ab ?", 6));
    eitp_tokenizer_destroy(tokenizer);
}

/* Long input as one word and as many words takes time proportional to its size. Chunks give the same result. */
static void test_long_words(void) {
    eitp_tokenizer *tokenizer = load_named("uncased");
    const size_t size = 3000000;
    char *text = (char *)malloc(size);
    static id_list list;
    eitp_encoder *encoder;
    REQUIRE(tokenizer && text);
    memset(text, 'a', size);
    CHECK(!eitp_encoder_create(tokenizer, id_list_add, &list, &encoder, NULL));
    list.count = 0;
    for (size_t i = 0; i < size; i += 1000)
        CHECK(!eitp_encoder_add(encoder, text + i, 1000, NULL));
    CHECK(!eitp_encoder_finish(encoder, NULL));
    CHECK(list.count == 3 && list.ids[0] == 1 && list.ids[2] == 1); /* split at 1 MiB */
    eitp_encoder_destroy(encoder);
    for (size_t i = 0; i + 3 <= size; i += 3)
        memcpy(text + i, "\xE3\x80\xAE", 3); /* marks that must be sorted */
    CHECK(!eitp_encoder_create(tokenizer, id_list_add, &list, &encoder, NULL));
    list.count = 0;
    CHECK(!eitp_encoder_add(encoder, text, size, NULL));
    CHECK(!eitp_encoder_finish(encoder, NULL));
    CHECK(list.count == 3);
    eitp_encoder_destroy(encoder);
    free(text);
    eitp_tokenizer_destroy(tokenizer);
}

/* ---- Warnings ---- */

static void keep_warnings(void *user, eitp_log_level level, const char *message) {
    char *last = (char *)user;
    if (level == EITP_LOG_WARNING)
        snprintf(last, 512, "%s", message);
}

/* Settings in files that are not applied, or that another file overrides, are reported. */
static void test_warnings(void) {
    static const directory_case given = {"[UNK]\n[CLS]\n[SEP]\n[PAD]\na\n", NULL, NULL, EITP_OK, ""};
    eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer;
    eitp_pack_config config = eitp_pack_config_default();
    eitp_error error;
    char directory[512], last[512] = "", text[600], packed[600];
    const char *path = text;
    REQUIRE(scratch_make(directory));
    host.log.user = last;
    host.log.write = keep_warnings;
    REQUIRE_OK(load_case(directory, &given, &tokenizer, &error), error);
    eitp_tokenizer_destroy(tokenizer);
    REQUIRE_OK(eitp_tokenizer_load(&host, directory, &tokenizer, &error), error);
    CHECK_THAT(strstr(last, "lacks the mask_token \"[MASK]\"") != NULL, "%s", last);
    REQUIRE_OK(eitp_tokenizer_save(tokenizer, directory, &error), error);
    eitp_tokenizer_destroy(tokenizer);
    last[0] = 0;
    REQUIRE_OK(eitp_tokenizer_load(&host, directory, &tokenizer, &error), error);
    CHECK_THAT(!*last, "%s", last);
    eitp_tokenizer_destroy(tokenizer);
    put(directory, "tokenizer_config.json", "{\"do_lower_case\": false}");
    REQUIRE_OK(eitp_tokenizer_load(&host, directory, &tokenizer, &error), error);
    CHECK_THAT(strstr(last, "do_lower_case is false") != NULL, "%s", last);
    eitp_tokenizer_destroy(tokenizer);
    tokenizer = load_named("uncased");
    put(directory, "text", "the of");
    snprintf(text, sizeof text, "%s", scratch_path(directory, "text"));
    snprintf(packed, sizeof packed, "%s", scratch_path(directory, "text.tok"));
    config.texts.paths = &path;
    config.texts.path_count = 1;
    REQUIRE_OK(eitp_pack(&host, tokenizer, &config, packed, NULL, &error), error);
    CHECK_THAT(strstr(last, "truncation at 128 tokens is not applied") != NULL, "%s", last);
    eitp_tokenizer_destroy(tokenizer);
    scratch_remove(directory);
}

/* ---- Failing calls ---- */

static eitp_status use_everything(const eitp_host *host, const char *path, const char *directory, eitp_error *error) {
    static const char text[] = "na\xC3\xAFve \xE3\x80\xAE\xF0\x9D\x85\xA5 [SEP] foo bar <mask>";
    const eitp_text first = {text, sizeof text - 1};
    eitp_tokenizer *tokenizer = NULL, *again = NULL;
    eitp_sequence_report report;
    int32_t ids[64];
    char decoded[256];
    size_t size;
    eitp_status status = eitp_tokenizer_load(host, path, &tokenizer, error);
    CHECK((status == EITP_OK) == (tokenizer != NULL));
    if (status == EITP_OK)
        status = eitp_tokenizer_save(tokenizer, directory, error);
    if (status == EITP_OK)
        status = eitp_tokenizer_load(host, directory, &again, error);
    if (status == EITP_OK)
        status = eitp_tokenizer_encode_sequence(again, &first, &first, NULL, ids, NULL, 64, &report, error);
    if (status == EITP_OK)
        status = eitp_tokenizer_encode_words(again, &first, 1, NULL, ids, NULL, NULL, 64, &report, error);
    if (status == EITP_OK)
        status = eitp_tokenizer_decode(again, ids, report.count < 64 ? report.count : 64, decoded, sizeof decoded,
                                       &size, error);
    eitp_tokenizer_destroy(tokenizer);
    eitp_tokenizer_destroy(again);
    return status;
}

static void test_failing_calls(void) {
    static const char *const paths[] = {GOLDEN "/accents.json", GOLDEN "/roberta.json", NULL};
    char directory[512], words[512];
    eitp_error error;
    faults f;
    REQUIRE(scratch_make(directory) && scratch_make(words));
    put(words, "vocab.txt", VOCABULARY);
    for (size_t i = 0; i < 3; i++) {
        long n = 0;
        do {
            faults_begin(&f);
            f.fail_allocation = ++n;
            eitp_status status = use_everything(&f.host, paths[i] ? paths[i] : words, directory, &error);
            CHECK_THAT(status == (f.allocations >= n ? EITP_ERROR_MEMORY : EITP_OK), "allocation %ld: %d, %s", n,
                       (int)status, error.message);
        } while (faults_end(&f));
        CHECK_THAT(n > 40, "only %ld allocations", n);
        n = 0;
        do {
            faults_begin(&f);
            f.fail_file_call = ++n;
            eitp_status status = use_everything(&f.host, paths[i] ? paths[i] : words, directory, &error);
            CHECK_THAT(status == EITP_OK || status == EITP_ERROR_IO, "file call %ld: %d, %s", n, (int)status,
                       error.message);
        } while (faults_end(&f));
        CHECK_THAT(n > 20, "only %ld calls", n);
    }
    scratch_remove(directory);
    scratch_remove(words);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(test_normalized_characters),
        TEST(test_order_of_marks),
        TEST(test_golden_texts),
        TEST(test_golden_sequences),
        TEST(test_golden_words),
        TEST(test_shared_room),
        TEST(test_counts_what_was_cut),
        TEST(test_sequence_misuse),
        TEST(test_roles),
        TEST(test_round_trip),
        TEST(test_vocab_txt_refused),
        TEST(test_vocab_txt),
        TEST(test_roberta_lists),
        TEST(test_parts_refused),
        TEST(test_unusual_model),
        TEST(test_long_words),
        TEST(test_warnings),
        TEST(test_failing_calls),
    };
    return RUN_TESTS(tests, argc, argv);
}
