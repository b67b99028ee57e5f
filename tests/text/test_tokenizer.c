/* Byte-level BPE compared with the library `tokenizers`: in chunks, trained, saved, loaded, refused, and with
   failing calls. */
#include "tests/support/everything.h"

#include "tests/support/faults.h"
#include "tests/support/test.h"

#define GOLDEN "tests/golden/tokenizer"

/* A growing list of ids. */
typedef struct id_list {
    int32_t *ids;
    size_t count, capacity;
    size_t calls;
    size_t fail_call; /* number of the sink call that fails, from 1; 0: none */
} id_list;

static eitp_status id_list_add(void *user, const int32_t *ids, size_t count, eitp_error *error) {
    id_list *list = (id_list *)user;
    if (++list->calls == list->fail_call)
        return eitp__fail(error, EITP_ERROR_IO, "the sink is full");
    if (list->count + count > list->capacity) {
        list->capacity = 2 * (list->count + count);
        list->ids = (int32_t *)realloc(list->ids, list->capacity * sizeof *list->ids);
    }
    memcpy(list->ids + list->count, ids, count * sizeof *ids);
    list->count += count;
    return EITP_OK;
}

static void id_list_release(id_list *list) {
    free(list->ids);
    memset(list, 0, sizeof *list);
}

static int id_list_equal(const id_list *a, const id_list *b) {
    return a->count == b->count && (!a->count || !memcmp(a->ids, b->ids, a->count * sizeof *a->ids));
}

/* Encodes a string in chunks of `chunk` bytes. */
static eitp_status encode_chunks(const eitp_tokenizer *tokenizer, const char *text, size_t size, size_t chunk,
                                 id_list *list) {
    eitp_encoder *encoder;
    eitp_status status = eitp_encoder_create(tokenizer, id_list_add, list, &encoder, NULL);
    list->count = 0;
    for (size_t i = 0; i < size && status == EITP_OK; i += chunk)
        status = eitp_encoder_add(encoder, text + i, chunk < size - i ? chunk : size - i, NULL);
    if (status == EITP_OK)
        status = eitp_encoder_finish(encoder, NULL);
    eitp_encoder_destroy(encoder);
    return status;
}

static eitp_status encode_whole(const eitp_tokenizer *tokenizer, const char *text, size_t size, id_list *list) {
    size_t count;
    list->count = 0;
    if (list->capacity < 4 * size) {
        list->capacity = 4 * size;
        list->ids = (int32_t *)realloc(list->ids, list->capacity * sizeof *list->ids);
    }
    eitp_status status = eitp_tokenizer_encode(tokenizer, text, size, list->ids, list->capacity, &count, NULL);
    CHECK(count <= 4 * size);
    list->count = count;
    return status;
}

static eitp_tokenizer *load_golden(void) {
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer = NULL;
    eitp_error error;
    CHECK_THAT(eitp_tokenizer_load(&host, GOLDEN, &tokenizer, &error) == EITP_OK, "%s", error.message);
    return tokenizer;
}

/* Pseudorandom numbers, the same on every machine. */
static uint32_t next_number(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* UTF-8 */

static void test_utf8_code_points(void) {
    int wrong = 0;
    for (uint32_t code_point = 0; code_point < 0x110000; code_point++) {
        unsigned char bytes[4];
        uint32_t read;
        int valid;
        if (code_point >= 0xD800 && code_point < 0xE000)
            continue;
        size_t size = eitp__utf8_encode(code_point, bytes);
        wrong += eitp__utf8_next(bytes, size, &read, &valid) != size || read != code_point || !valid;
        wrong += eitp__utf8_valid_prefix(bytes, size) != size || eitp__utf8_incomplete(bytes, size);
        for (size_t part = 1; part < size; part++) {
            wrong += eitp__utf8_next(bytes, part, &read, &valid) != part || read != 0xFFFD || valid;
            wrong += eitp__utf8_incomplete(bytes, part) != part || eitp__utf8_valid_prefix(bytes, part);
        }
    }
    CHECK_THAT(!wrong, "%d wrong answers", wrong);
}

/* All pairs of bytes: valid characters, one U+FFFD for each maximal subpart, or one for each byte. */
static void test_utf8_pairs(void) {
    for (unsigned pair = 0; pair < 65536; pair++) {
        const unsigned char bytes[2] = {(unsigned char)(pair >> 8), (unsigned char)pair};
        const unsigned lead = bytes[0], second = bytes[1];
        const int continues = (lead >= 0xC2 && lead <= 0xDF && second >= 0x80 && second <= 0xBF) ||
                              (lead >= 0xE0 && lead <= 0xEF && second >= (lead == 0xE0 ? 0xA0u : 0x80u) &&
                               second <= (lead == 0xED ? 0x9Fu : 0xBFu)) ||
                              (lead >= 0xF0 && lead <= 0xF4 && second >= (lead == 0xF0 ? 0x90u : 0x80u) &&
                               second <= (lead == 0xF4 ? 0x8Fu : 0xBFu));
        uint32_t code_point;
        int valid;
        size_t taken = eitp__utf8_next(bytes, 2, &code_point, &valid);
        if (taken != (continues ? 2u : 1u) || valid != (lead < 0x80 || (continues && lead < 0xE0))) {
            CHECK_THAT(0, "bytes %02X %02X: took %zu, valid %d", lead, second, taken, valid);
            return;
        }
        const size_t incomplete = continues && lead >= 0xE0 ? 2 : second >= 0xC2 && second <= 0xF4 ? 1 : 0;
        if (eitp__utf8_incomplete(bytes, 2) != incomplete) {
            CHECK_THAT(0, "bytes %02X %02X: %zu incomplete", lead, second, eitp__utf8_incomplete(bytes, 2));
            return;
        }
    }
}

/* Golden values */

typedef struct golden_cases {
    eitp_host host;
    eitp_json_document *document;
    const eitp_json *first;
    const char *classes;
} golden_cases;

static int golden_open(golden_cases *golden) {
    eitp_error error;
    golden->host = eitp_host_default();
    golden->classes = "";
    golden->first = NULL;
    if (eitp__json_read_strict_file(&golden->host, GOLDEN "/cases.json", 1 << 20, &golden->document, &error) !=
        EITP_OK) {
        CHECK_THAT(0, "%s", error.message);
        return 0;
    }
    const eitp_json *root = eitp_json_root(golden->document), *cases = eitp_json_member(root, "cases");
    CHECK(eitp__json_get_text(root, "classes", &golden->classes, &error) == EITP_OK);
    CHECK(cases && cases->count > 100);
    golden->first = cases ? cases->first_child : NULL;
    return 1;
}

static size_t golden_text(const eitp_json *entry, char *text, size_t capacity) {
    const eitp_json *hex = eitp_json_member(entry, "hex");
    size_t size = hex->text_size / 2;
    for (size_t i = 0; i < size && i < capacity; i++) {
        unsigned byte = 0;
        sscanf(hex->text + 2 * i, "%2x", &byte);
        text[i] = (char)byte;
    }
    return size;
}

static int golden_equal(const id_list *list, const eitp_json *array) {
    const eitp_json *entry = array->first_child;
    if (list->count != array->count)
        return 0;
    for (size_t i = 0; i < list->count; i++, entry = entry->next) {
        if (entry->integer != list->ids[i])
            return 0;
    }
    return 1;
}

static void test_golden_classes(void) {
    golden_cases golden;
    char text[32];
    uint64_t hash = 0xCBF29CE484222325u;
    REQUIRE(golden_open(&golden));
    for (uint32_t code_point = 0; code_point < 0x110000; code_point++) {
        if (code_point < 0xD800 || code_point >= 0xE000)
            hash = (hash ^ (uint64_t)eitp__unicode_class(code_point)) * 0x100000001B3u;
    }
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    CHECK_THAT(!strcmp(text, golden.classes), "%s, the library's is %s", text, golden.classes);
    CHECK(eitp__unicode_class(0x110000) == EITP__UNICODE_OTHER);
    eitp_json_release(golden.document);
}

static void test_golden_ids(void) {
    golden_cases golden;
    id_list list = EITP__ZERO;
    char text[4096];
    eitp_tokenizer *tokenizer = load_golden();
    REQUIRE(tokenizer && golden_open(&golden));
    CHECK(eitp_tokenizer_size(tokenizer) == 904 && eitp_tokenizer_end_of_text(tokenizer) == 0);
    for (int prefix = 0; prefix < 2; prefix++) {
        tokenizer->add_prefix_space = prefix;
        for (const eitp_json *entry = golden.first; entry; entry = entry->next) {
            const eitp_json *ids = eitp_json_member(entry, prefix ? "prefixed" : "ids");
            size_t size = golden_text(entry, text, sizeof text);
            REQUIRE(size <= sizeof text);
            CHECK(encode_whole(tokenizer, text, size, &list) == EITP_OK);
            CHECK_THAT(golden_equal(&list, ids), "line %zu, prefix %d", entry->line, prefix);
            for (size_t chunk = 1; chunk <= 9; chunk += (size_t)test_stride(1, 4)) {
                CHECK(encode_chunks(tokenizer, text, size, chunk, &list) == EITP_OK);
                CHECK_THAT(golden_equal(&list, ids), "line %zu, prefix %d, chunks of %zu", entry->line, prefix, chunk);
            }
        }
    }
    eitp_tokenizer_destroy(tokenizer);
    eitp_json_release(golden.document);
    id_list_release(&list);
}

/* Valid text is restored. Invalid bytes become U+FFFD. */
static void test_golden_decode(void) {
    golden_cases golden;
    id_list list = EITP__ZERO;
    char text[4096], decoded[16384];
    eitp_tokenizer *tokenizer = load_golden();
    int broken = 0;
    REQUIRE(tokenizer && golden_open(&golden));
    for (const eitp_json *entry = golden.first; entry; entry = entry->next) {
        size_t size = golden_text(entry, text, sizeof text), decoded_size;
        CHECK(encode_whole(tokenizer, text, size, &list) == EITP_OK);
        CHECK(eitp_tokenizer_decode(tokenizer, list.ids, list.count, decoded, sizeof decoded, &decoded_size, NULL) ==
              EITP_OK);
        REQUIRE(decoded_size <= sizeof decoded);
        CHECK(eitp__utf8_valid_prefix((unsigned char *)decoded, decoded_size) == decoded_size);
        if (eitp__utf8_valid_prefix((unsigned char *)text, size) == size)
            CHECK_THAT(decoded_size == size && !memcmp(text, decoded, size), "line %zu", entry->line);
        else
            broken++;
    }
    CHECK(broken > 20);
    eitp_tokenizer_destroy(tokenizer);
    eitp_json_release(golden.document);
    id_list_release(&list);
}

/* Encoding */

static void test_bytes(void) {
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer;
    eitp_error error;
    static const char text[] = "a\0\xC3\xA9<|endoftext|> ";
    static const int32_t expected[] = {'a', 0, 0xC3, 0xA9, 256, ' '};
    int32_t ids[16], guard = -7;
    size_t count, size;
    const char *bytes = NULL;
    char decoded[32];
    REQUIRE_OK(eitp_tokenizer_create_bytes(&host, &tokenizer, &error), error);
    CHECK(eitp_tokenizer_size(tokenizer) == 257 && eitp_tokenizer_end_of_text(tokenizer) == 256);
    REQUIRE_OK(eitp_tokenizer_encode(tokenizer, text, sizeof text - 1, ids, 16, &count, &error), error);
    CHECK(count == 6 && !memcmp(ids, expected, sizeof expected));
    ids[3] = guard;
    REQUIRE_OK(eitp_tokenizer_encode(tokenizer, text, sizeof text - 1, ids, 3, &count, &error), error);
    CHECK(count == 6 && ids[2] == 0xC3 && ids[3] == guard);
    REQUIRE_OK(eitp_tokenizer_encode(tokenizer, text, sizeof text - 1, NULL, 0, &count, &error), error);
    CHECK(count == 6);
    REQUIRE_OK(eitp_tokenizer_encode(tokenizer, NULL, 0, NULL, 0, &count, &error), error);
    CHECK(count == 0);
    for (int32_t id = 0; id < 256; id++) {
        REQUIRE_OK(eitp_tokenizer_token(tokenizer, id, &bytes, &size, &error), error);
        CHECK(size == 1 && (unsigned char)bytes[0] == (unsigned)id);
    }
    memset(decoded, 'x', sizeof decoded);
    REQUIRE_OK(eitp_tokenizer_decode(tokenizer, expected, 6, decoded, 6, &size, &error), error);
    CHECK(size == sizeof text - 1 && !memcmp(decoded, text, 6) && decoded[6] == 'x');
    eitp_tokenizer_destroy(tokenizer);
    eitp_tokenizer_destroy(NULL);
}

/* A repeated piece gives the same ids whether or not it is short enough for the cache. */
static void test_repeated_pieces(void) {
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer;
    eitp_error error;
    char text[4096];
    int32_t ids[4096];
    size_t size = 0, count;
    REQUIRE_OK(eitp_tokenizer_create_bytes(&host, &tokenizer, &error), error);
    for (size_t length = 1; length < 60; length++) {
        for (size_t i = 0; i < 2 * length; i++)
            text[size++] = i % length ? (char)('a' + i % length % 26) : ' ';
    }
    REQUIRE_OK(eitp_tokenizer_encode(tokenizer, text, size, ids, 4096, &count, &error), error);
    REQUIRE(count == size);
    for (size_t i = 0; i < size; i++)
        CHECK_THAT(ids[i] == text[i], "byte %zu", i);
    eitp_tokenizer_destroy(tokenizer);
}

static void test_ids_outside(void) {
    eitp_tokenizer *tokenizer = load_golden();
    static const int32_t outside[] = {-1, 904, INT32_MAX, INT32_MIN};
    REQUIRE(tokenizer);
    for (size_t i = 0; i < 4; i++) {
        const int32_t ids[3] = {5, 6, outside[i]};
        const char *bytes = "untouched";
        char text[8];
        size_t size = 99;
        eitp_error error;
        CHECK(eitp_tokenizer_token(tokenizer, outside[i], &bytes, &size, &error) == EITP_ERROR_ARGUMENT);
        CHECK(!strcmp(bytes, "untouched") && size == 99);
        CHECK(eitp_tokenizer_decode(tokenizer, ids, 3, text, sizeof text, &size, &error) == EITP_ERROR_ARGUMENT);
        CHECK(size == 0);
        CHECK_THAT(strstr(error.message, "token 2 ") && strstr(error.message, "0 to 903"), "%s", error.message);
    }
    eitp_tokenizer_destroy(tokenizer);
}

/* Appends pieces to one buffer: the bytes of each, followed by its id. */
static eitp_status piece_list_add(void *user, const unsigned char *bytes, size_t size, int32_t id, eitp_error *error) {
    (void)error;
    eitp__buffer_add((eitp__buffer *)user, bytes, size);
    eitp__buffer_format((eitp__buffer *)user, "{%ld}", (long)id);
    return EITP_OK;
}

/* Text with all kinds of pieces, in random chunks, with a window that is divided if longer than 16 bytes. */
static void test_random_chunks(void) {
    static const char *const atoms[] = {" ",
                                        "  ",
                                        "\n",
                                        "\t",
                                        "\xC2\x85",
                                        "\xC2\xA0",
                                        "\xE3\x80\x80",
                                        "a",
                                        "the",
                                        " of",
                                        "'",
                                        "'s",
                                        "'ll",
                                        "'l",
                                        "7",
                                        "2024",
                                        "!",
                                        "==",
                                        "\xE6\x97\xA5",
                                        "\xF0\x9F\x98\x80",
                                        "\xC3\xA9t\xC3\xA9",
                                        "<|endoftext|>",
                                        "<|endoftext|>x",
                                        "<|endof",
                                        "<|pad|>",
                                        "<|",
                                        "two  words",
                                        "two ",
                                        "\xFF",
                                        "\xE6\x97",
                                        "\xF0\x9F",
                                        "\xC3",
                                        "\x80"};
    eitp_tokenizer *tokenizer = load_golden();
    eitp__buffer whole, pieces;
    uint32_t state = 1;
    REQUIRE(tokenizer);
    eitp__buffer_init(&whole, &tokenizer->host);
    eitp__buffer_init(&pieces, &tokenizer->host);
    for (int round = 0; round < 400; round++) {
        eitp__splitter splitter;
        unsigned char text[2048];
        size_t size = 0, begin = 0;
        while (size < 1500) {
            const char *atom = atoms[next_number(&state) % EITP__COUNT(atoms)];
            memcpy(text + size, atom, strlen(atom));
            size += strlen(atom);
        }
        eitp__buffer_clear(&whole);
        eitp__splitter_init(&splitter, &tokenizer->host, &tokenizer->added[round / 2 & 1],
                            eitp__split_rule((eitp__split)(round / 4 % EITP__SPLITS)), piece_list_add, &whole);
        splitter.add_prefix_space = round & 1;
        CHECK(eitp__splitter_add(&splitter, text, size, NULL) == EITP_OK);
        CHECK(eitp__splitter_finish(&splitter, NULL) == EITP_OK);
        eitp__splitter_release(&splitter);
        eitp__buffer_clear(&pieces);
        eitp__splitter_init(&splitter, &tokenizer->host, &tokenizer->added[round / 2 & 1],
                            eitp__split_rule((eitp__split)(round / 4 % EITP__SPLITS)), piece_list_add, &pieces);
        splitter.add_prefix_space = round & 1;
        splitter.min_full = splitter.full = 16;
        while (begin < size) {
            size_t part = next_number(&state) % 12;
            part = part < size - begin ? part : size - begin;
            CHECK(eitp__splitter_add(&splitter, text + begin, part, NULL) == EITP_OK);
            begin += part;
        }
        CHECK(eitp__splitter_finish(&splitter, NULL) == EITP_OK);
        eitp__splitter_release(&splitter);
        CHECK_THAT(whole.size > size && whole.size == pieces.size && !memcmp(whole.data, pieces.data, whole.size),
                   "round %d", round);
    }
    eitp__buffer_release(&whole);
    eitp__buffer_release(&pieces);
    eitp_tokenizer_destroy(tokenizer);
}

static void append_ids(const eitp_tokenizer *tokenizer, const char *text, size_t size, id_list *all) {
    id_list part = EITP__ZERO;
    CHECK(encode_whole(tokenizer, text, size, &part) == EITP_OK);
    if (part.count)
        id_list_add(all, part.ids, part.count, NULL);
    id_list_release(&part);
}

/* A match is divided after the last character within its first 1,048,576 bytes, whether passed whole or in chunks. */
static void test_long_matches(void) {
    static const struct {
        const char *unit, *after;
        size_t first; /* size of the first piece in bytes */
    } runs[] = {
        {"a", " b", 1048576},           {" ", "b", 1048576}, {"=", "", 1048576}, {"\xE6\x97\xA5", "!", 1048575},
        {"\xE3\x80\x80", "x", 1048575}, {"7", "", 1048576},
    };
    eitp_tokenizer *tokenizer = load_golden();
    const size_t limit = EITP__PIECE_LIMIT;
    char *text = (char *)malloc(2 * limit);
    REQUIRE(tokenizer && text);
    for (size_t i = 0; i < EITP__COUNT(runs); i++) {
        const size_t unit = strlen(runs[i].unit), after = strlen(runs[i].after);
        id_list whole = EITP__ZERO, chunks = EITP__ZERO, expected = EITP__ZERO;
        size_t size = 0;
        while (size < limit + 100 * unit) {
            memcpy(text + size, runs[i].unit, unit);
            size += unit;
        }
        memcpy(text + size, runs[i].after, after);
        size += after;
        append_ids(tokenizer, text, runs[i].first, &expected);
        append_ids(tokenizer, text + runs[i].first, size - runs[i].first, &expected);
        CHECK(encode_whole(tokenizer, text, size, &whole) == EITP_OK);
        CHECK(encode_chunks(tokenizer, text, size, 10007, &chunks) == EITP_OK);
        CHECK_THAT(id_list_equal(&whole, &expected), "run %zu, whole", i);
        CHECK_THAT(id_list_equal(&chunks, &expected), "run %zu, in chunks", i);
        id_list_release(&whole);
        id_list_release(&chunks);
        id_list_release(&expected);
    }
    free(text);
    eitp_tokenizer_destroy(tokenizer);
}

/* Merges by definition: the first adjacent pair of the lowest rank, as long as there is one. */
static size_t merge_by_definition(const eitp__bpe *bpe, const unsigned char *text, size_t size, int32_t *ids) {
    for (size_t i = 0; i < size; i++)
        ids[i] = bpe->byte_ids[text[i]];
    for (;;) {
        const eitp__merge_slot *best = NULL;
        size_t place = 0;
        for (size_t i = 0; i + 1 < size; i++) {
            const eitp__merge_slot *slot = eitp__bpe_find(bpe, ids[i], ids[i + 1]);
            if (slot && (!best || slot->rank < best->rank)) {
                best = slot;
                place = i;
            }
        }
        if (!best)
            return size;
        ids[place] = best->result;
        memmove(ids + place + 1, ids + place + 2, (size - place - 2) * sizeof *ids);
        size--;
    }
}

/* Short and long pieces are merged with different algorithms. */
static void test_merges(void) {
    eitp_tokenizer *tokenizer = load_golden();
    eitp__bpe_workspace space = EITP__ZERO;
    uint32_t state = 9;
    REQUIRE(tokenizer);
    for (int round = 0; round < 1500; round++) {
        unsigned char text[150];
        int32_t one[150], other[150];
        size_t size = 1 + next_number(&state) % 150, count = 0;
        for (size_t i = 0; i < size; i++)
            text[i] = (unsigned char)"etaonrish ="[next_number(&state) % 11];
        CHECK(eitp__bpe_encode(&tokenizer->bpe, &tokenizer->host, &space, text, size, one, &count, NULL) == EITP_OK);
        CHECK_THAT(merge_by_definition(&tokenizer->bpe, text, size, other) == count &&
                       !memcmp(one, other, count * sizeof *one),
                   "%zu bytes", size);
    }
    eitp__bpe_workspace_release(&space, &tokenizer->host);
    eitp_tokenizer_destroy(tokenizer);
}

static void test_sink_failure(void) {
    eitp_tokenizer *tokenizer = load_golden();
    id_list list = EITP__ZERO;
    eitp_encoder *encoder;
    eitp_error error;
    char text[70000];
    REQUIRE(tokenizer);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "the \n"[i % 5];
    REQUIRE_OK(eitp_encoder_create(tokenizer, id_list_add, &list, &encoder, &error), error);
    list.fail_call = 2;
    CHECK(eitp_encoder_add(encoder, text, sizeof text, &error) == EITP_ERROR_IO);
    CHECK(!strcmp(error.message, "the sink is full"));
    eitp_encoder_reset(encoder);
    REQUIRE_OK(eitp_encoder_add(encoder, text, sizeof text, &error), error); /* abandoned */
    eitp_encoder_reset(encoder);
    list.count = 0;
    REQUIRE_OK(eitp_encoder_add(encoder, "the", 3, &error), error);
    REQUIRE_OK(eitp_encoder_finish(encoder, &error), error);
    id_list expected = EITP__ZERO;
    append_ids(tokenizer, "the", 3, &expected);
    CHECK(id_list_equal(&list, &expected));
    eitp_encoder_destroy(encoder);
    eitp_encoder_destroy(NULL);
    id_list_release(&list);
    id_list_release(&expected);
    eitp_tokenizer_destroy(tokenizer);
}

/* Training */

typedef struct memory_source {
    const char *text;
    size_t size, at;
    size_t piece; /* bytes per read */
    size_t fail_after;
} memory_source;

static eitp_status memory_source_read(void *user, const char **text, size_t *size, eitp_error *error) {
    memory_source *source = (memory_source *)user;
    if (source->fail_after && source->at >= source->fail_after)
        return eitp__fail(error, EITP_ERROR_IO, "the source is gone");
    *size = source->piece < source->size - source->at ? source->piece : source->size - source->at;
    *text = *size ? source->text + source->at : NULL;
    source->at += *size;
    return EITP_OK;
}

static eitp_status train_on(const eitp_host *host, const char *text, size_t size, size_t piece,
                            const eitp_tokenizer_train_config *config, eitp_tokenizer **out, eitp_error *error) {
    memory_source memory = EITP__ZERO;
    eitp_text_source source;
    memory.text = text;
    memory.size = size;
    memory.piece = piece;
    source.user = &memory;
    source.read = memory_source_read;
    return eitp_tokenizer_train(host, config, &source, out, error);
}

static int read_training_text(const eitp_host *host, eitp__buffer *text) {
    eitp_error error;
    eitp__buffer_init(text, host);
    return eitp__read_file(host, GOLDEN "/train.txt", 1 << 20, text, &error) == EITP_OK;
}

static int same_token(const eitp_tokenizer *a, int32_t a_id, const eitp_tokenizer *b, int32_t b_id) {
    const char *one = NULL, *other = NULL;
    size_t one_size = 0, other_size = 0;
    return eitp_tokenizer_token(a, a_id, &one, &one_size, NULL) == EITP_OK &&
           eitp_tokenizer_token(b, b_id, &other, &other_size, NULL) == EITP_OK && one_size == other_size &&
           !memcmp(one, other, one_size);
}

/* The library `tokenizers` learns the same merges from the same text. Its <|endoftext|> is first, eitp's is last. */
static void test_train_matches_library(void) {
    const eitp_host host = eitp_host_default();
    eitp_tokenizer_train_config config = eitp_tokenizer_train_config_default();
    eitp_tokenizer *tokenizer, *library = load_golden();
    eitp__buffer text;
    eitp_error error;
    config.vocabulary_size = 900;
    REQUIRE(library && read_training_text(&host, &text));
    REQUIRE_OK(train_on(&host, text.data, text.size, 1000, &config, &tokenizer, &error), error);
    CHECK(eitp_tokenizer_size(tokenizer) == 900 && eitp_tokenizer_end_of_text(tokenizer) == 899);
    CHECK(tokenizer->bpe.merge_count == library->bpe.merge_count && tokenizer->bpe.merge_count >= 643);
    for (size_t rank = 0; rank < tokenizer->bpe.merge_count; rank++) {
        const eitp__merge *ours = &tokenizer->bpe.merges[rank], *theirs = &library->bpe.merges[rank];
        REQUIRE(ours->left + 1 == theirs->left && ours->right + 1 == theirs->right &&
                ours->result + 1 == theirs->result);
    }
    for (int32_t id = 0; id < 899; id++)
        CHECK(same_token(tokenizer, id, library, id + 1));
    CHECK(same_token(tokenizer, 899, library, 0));
    eitp_tokenizer_destroy(tokenizer);
    eitp_tokenizer_destroy(library);
    eitp__buffer_release(&text);
}

static void test_train_same_in_pieces(void) {
    const eitp_host host = eitp_host_default();
    eitp_tokenizer_train_config config = eitp_tokenizer_train_config_default();
    eitp__buffer text;
    uint64_t fingerprint = 0;
    config.vocabulary_size = 600;
    REQUIRE(read_training_text(&host, &text));
    for (size_t piece = 1; piece < 100000; piece = piece * 7 + 1) {
        eitp_tokenizer *tokenizer;
        eitp_error error;
        REQUIRE_OK(train_on(&host, text.data, text.size, piece, &config, &tokenizer, &error), error);
        CHECK(!fingerprint || fingerprint == eitp_tokenizer_fingerprint(tokenizer));
        fingerprint = eitp_tokenizer_fingerprint(tokenizer);
        eitp_tokenizer_destroy(tokenizer);
    }
    eitp__buffer_release(&text);
}

/* Another family learns the same merges. Its special tokens come first and are added around sequences. */
static void test_train_roberta(void) {
    static const char *const names[] = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};
    static const eitp_special_token roles[] = {EITP_CLASSIFIER, EITP_PADDING, EITP_SEPARATOR, EITP_UNKNOWN, EITP_MASK};
    const char *sentence = "the <mask>";
    const eitp_host host = eitp_host_default();
    const eitp_text text_of = {sentence, strlen(sentence)};
    eitp_tokenizer_train_config config = eitp_tokenizer_train_config_default();
    eitp_tokenizer *plain, *tokenizer, *again;
    eitp_sequence_report report;
    int32_t ids[16], plain_ids[16];
    char directory[512];
    eitp__buffer text;
    eitp_error error;
    size_t count = 0;
    REQUIRE(read_training_text(&host, &text) && scratch_make(directory));
    config.vocabulary_size = 601;
    REQUIRE_OK(train_on(&host, text.data, text.size, 1000, &config, &plain, &error), error);
    config.vocabulary_size = 605;
    config.family = EITP_TOKENIZER_ROBERTA;
    REQUIRE_OK(train_on(&host, text.data, text.size, 1000, &config, &tokenizer, &error), error);
    CHECK(eitp_tokenizer_size(tokenizer) == 605 && eitp_tokenizer_end_of_text(tokenizer) == 2);
    for (int32_t id = 0; id < 600; id++)
        CHECK(same_token(plain, id, tokenizer, id + 5));
    for (int32_t i = 0; i < 5; i++) {
        const char *bytes = NULL;
        size_t size = 0;
        CHECK(eitp_tokenizer_token(tokenizer, i, &bytes, &size, NULL) == EITP_OK && size == strlen(names[i]) &&
              !memcmp(bytes, names[i], size) && eitp_tokenizer_special(tokenizer, roles[i]) == i);
    }
    REQUIRE_OK(eitp_tokenizer_encode_sequence(tokenizer, &text_of, &text_of, NULL, ids, NULL, 16, &report, &error),
               error);
    REQUIRE_OK(eitp_tokenizer_encode(plain, "the", 3, plain_ids, 16, &count, &error), error);
    REQUIRE(count == 1 && report.count == 8);
    CHECK(ids[0] == 0 && ids[1] == plain_ids[0] + 5 && ids[2] == 4 && ids[3] == 2 && ids[4] == 2 && ids[5] == ids[1] &&
          ids[6] == 4 && ids[7] == 2);
    REQUIRE_OK(eitp_tokenizer_save(tokenizer, directory, &error), error);
    REQUIRE_OK(eitp_tokenizer_load(&host, directory, &again, &error), error);
    CHECK(eitp_tokenizer_fingerprint(again) == eitp_tokenizer_fingerprint(tokenizer));
    eitp_tokenizer_destroy(again);
    CHECK(host.files.remove(host.files.user, scratch_path(directory, "tokenizer.json")) == 0);
    REQUIRE_OK(eitp_tokenizer_load(&host, directory, &again, &error), error);
    CHECK(eitp_tokenizer_added_count(again, 1) == 4 && eitp_tokenizer_special(again, EITP_MASK) == 4);
    eitp_tokenizer_destroy(again);
    eitp_tokenizer_destroy(plain);
    eitp_tokenizer_destroy(tokenizer);
    config.vocabulary_size = 260;
    CHECK(train_on(&host, text.data, text.size, 1000, &config, &again, &error) == EITP_ERROR_ARGUMENT &&
          strstr(error.message, "must be 261"));
    config.family = (eitp_tokenizer_family)2;
    CHECK(train_on(&host, text.data, text.size, 1000, &config, &again, &error) == EITP_ERROR_ARGUMENT &&
          strstr(error.message, "unknown tokenizer family 2"));
    eitp__buffer_release(&text);
    scratch_remove(directory);
}

/* Small cases worked out by hand: ties, overlaps, a minimum frequency, documents, and <|endoftext|> in the text. */
static void test_train_small(void) {
    static const struct {
        const char *text;
        int64_t minimum;
        const char *trained; /* tokens, separated by a bar */
    } cases[] = {
        {"", 0, ""},
        {"a b c", 0, " b| c"},
        {"ab ab ab cd cd", 3, "ab"},
        {"ab ab", 3, ""},
        {"aaa", 0, "aa|aaa"},
        {"aaaa", 0, "aa|aaaa"},
        {"ba\nab", 0, "ab|ba"},
        {"zz<|endoftext|>zz", 0, "zz"},
        {"xyxyxy", 0, "xy|xyxy|xyxyxy"},
    };
    const eitp_host host = eitp_host_default();
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp_tokenizer_train_config config = eitp_tokenizer_train_config_default();
        eitp_tokenizer *tokenizer;
        eitp_error error;
        char trained[200] = "";
        config.vocabulary_size = 1000;
        config.minimum_frequency = cases[i].minimum;
        REQUIRE_OK(train_on(&host, cases[i].text, strlen(cases[i].text), 3, &config, &tokenizer, &error), error);
        const int32_t end = eitp_tokenizer_end_of_text(tokenizer);
        CHECK(end == eitp_tokenizer_size(tokenizer) - 1);
        for (int32_t id = 256; id < end; id++) {
            const char *bytes = NULL;
            size_t size = 0;
            CHECK(eitp_tokenizer_token(tokenizer, id, &bytes, &size, NULL) == EITP_OK);
            snprintf(trained + strlen(trained), sizeof trained - strlen(trained), "%s%.*s", id > 256 ? "|" : "",
                     (int)size, bytes);
        }
        CHECK_THAT(!strcmp(trained, cases[i].trained), "\"%s\": \"%s\"", cases[i].text, trained);
        eitp_tokenizer_destroy(tokenizer);
    }
}

/* The size grows by a token for every 64 bytes, up to the limit. */
static void test_train_size(void) {
    CHECK(eitp_tokenizer_train_size(EITP_TOKENIZER_GPT2, 0) == 257);
    CHECK(eitp_tokenizer_train_size(EITP_TOKENIZER_GPT2, 63) == 257);
    CHECK(eitp_tokenizer_train_size(EITP_TOKENIZER_GPT2, 64000) == 1257);
    CHECK(eitp_tokenizer_train_size(EITP_TOKENIZER_ROBERTA, 64000) == 1261);
    CHECK(eitp_tokenizer_train_size(EITP_TOKENIZER_GPT2, (8192 - 257) * 64 - 1) == 8191);
    CHECK(eitp_tokenizer_train_size(EITP_TOKENIZER_ROBERTA, UINT64_MAX) == 8192);
}

static void test_train_refuses(void) {
    static const struct {
        int32_t size;
        int64_t minimum;
        uint64_t memory;
        const char *words;
    } cases[] = {
        {0, 0, 0, "(got 0)"},
        {256, 0, 0, "must be 257"},
        {INT32_MAX, 0, 0, "to 16777216"},
        {300, -1, 0, "minimum_frequency must be at least 0 (got -1)"},
        {300, 0, 1000, "(got 1000)"},
    };
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer;
    eitp_error error;
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp_tokenizer_train_config config = eitp_tokenizer_train_config_default();
        config.vocabulary_size = cases[i].size;
        config.minimum_frequency = cases[i].minimum;
        config.memory_limit = cases[i].memory;
        CHECK(train_on(&host, "a", 1, 1, &config, &tokenizer, &error) == EITP_ERROR_ARGUMENT && !tokenizer);
        CHECK_THAT(strstr(error.message, cases[i].words) != NULL, "%s", error.message);
    }
    eitp_tokenizer_train_config config = eitp_tokenizer_train_config_default();
    memory_source memory = EITP__ZERO;
    eitp_text_source source;
    config.vocabulary_size = 300;
    memory.text = "some text";
    memory.size = 9;
    memory.piece = 2;
    memory.fail_after = 4;
    source.user = &memory;
    source.read = memory_source_read;
    CHECK(eitp_tokenizer_train(&host, &config, &source, &tokenizer, &error) == EITP_ERROR_IO && !tokenizer);
    CHECK(!strcmp(error.message, "the source is gone"));
}

static void count_warnings(void *user, eitp_log_level level, const char *message) {
    if (level == EITP_LOG_WARNING && strstr(message, "dropped"))
        ++*(int *)user;
}

/* Many distinct pieces with little memory: frequent pieces are used for training even if they appear early. */
static void test_train_bounded(void) {
    eitp_tokenizer_train_config config = eitp_tokenizer_train_config_default();
    eitp_tokenizer *tokenizer;
    eitp_error error;
    faults f;
    int warnings = 0;
    uint32_t state = 5;
    const size_t capacity = 1 << 20;
    char *text = (char *)malloc(capacity);
    size_t size = 0;
    REQUIRE(text);
    for (int i = 0; i < 500; i++, size += 7)
        memcpy(text + size, " common", 7);
    while (size + 13 <= capacity) {
        text[size++] = ' ';
        for (int i = 0; i < 12; i++)
            text[size++] = (char)('a' + next_number(&state) % 26);
    }
    faults_begin(&f);
    f.host.log.user = &warnings;
    f.host.log.write = count_warnings;
    config.vocabulary_size = 262;
    config.memory_limit = 1 << 20;
    REQUIRE_OK(train_on(&f.host, text, size, 5000, &config, &tokenizer, &error), error);
    CHECK(warnings == 1);
    CHECK_THAT(f.peak_bytes < 3 << 20, "%zu bytes", f.peak_bytes);
    int32_t ids[8];
    size_t count;
    REQUIRE_OK(eitp_tokenizer_encode(tokenizer, " common", 7, ids, 8, &count, &error), error);
    CHECK_THAT(count == 2, "%zu tokens", count);
    eitp_tokenizer_destroy(tokenizer);
    faults_end(&f);
    free(text);
}

/* Files */

static void test_save_and_load(void) {
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *golden = load_golden(), *again;
    eitp_error error;
    char directory[512];
    REQUIRE(golden && scratch_make(directory));
    const char *deep = scratch_path(directory, "a/b");
    for (int prefix = 0; prefix < 2; prefix++) {
        golden->add_prefix_space = prefix;
        REQUIRE_OK(eitp_tokenizer_save(golden, deep, &error), error);
        REQUIRE_OK(eitp_tokenizer_load(&host, deep, &again, &error), error);
        CHECK((eitp_tokenizer_fingerprint(again) == eitp_tokenizer_fingerprint(golden)) == !prefix);
        CHECK(again->add_prefix_space == prefix && eitp_tokenizer_size(again) == 904);
        for (size_t id = 0; id < 904; id++)
            CHECK(again->vocabulary.tokens[id].flags == golden->vocabulary.tokens[id].flags);
        eitp_tokenizer_destroy(again);
    }
    golden->add_prefix_space = 0;
    REQUIRE_OK(eitp_tokenizer_save(golden, deep, &error), error);
    REQUIRE_OK(eitp_tokenizer_load(&host, scratch_path(directory, "a/b/tokenizer.json"), &again, &error), error);
    CHECK(eitp_tokenizer_fingerprint(again) == eitp_tokenizer_fingerprint(golden));
    eitp_tokenizer_destroy(again);
    eitp_tokenizer_destroy(golden);
    scratch_remove(directory);
}

/* vocab.json and merges.txt give the same tokenizer as tokenizer.json if only <|endoftext|> is added. */
static void test_load_vocab_and_merges(void) {
    const eitp_host host = eitp_host_default();
    eitp_tokenizer_train_config config = eitp_tokenizer_train_config_default();
    eitp_tokenizer *tokenizer, *again;
    eitp_error error;
    eitp__buffer text;
    char directory[512];
    config.vocabulary_size = 700;
    REQUIRE(read_training_text(&host, &text) && scratch_make(directory));
    REQUIRE_OK(train_on(&host, text.data, text.size, 4096, &config, &tokenizer, &error), error);
    REQUIRE_OK(eitp_tokenizer_save(tokenizer, directory, &error), error);
    CHECK(host.files.remove(host.files.user, scratch_path(directory, "tokenizer.json")) == 0);
    REQUIRE_OK(eitp_tokenizer_load(&host, directory, &again, &error), error);
    CHECK(eitp_tokenizer_fingerprint(again) == eitp_tokenizer_fingerprint(tokenizer));
    CHECK(eitp_tokenizer_end_of_text(again) == 699);
    eitp_tokenizer_destroy(again);

    REQUIRE_OK(eitp__write_file(&host, scratch_path(directory, "added_tokens.json"), "{}", 2, &error), error);
    CHECK(eitp_tokenizer_load(&host, directory, &again, &error) == EITP_ERROR_UNSUPPORTED && !again);
    CHECK(host.files.remove(host.files.user, scratch_path(directory, "added_tokens.json")) == 0);
    static const struct {
        const char *merges, *words;
        eitp_status status;
    } cases[] = {
        {"#version: 0.2\r\na b\r\n\r\n", "", EITP_OK},
        {"a b", "", EITP_OK},
        {"ab\n", "line 1: \"ab\" must be two tokens", EITP_ERROR_FORMAT},
        {"#version\na b\na b\n", "", EITP_OK},
        {"a b c\n", "byte alphabet", EITP_ERROR_FORMAT},
        {" b\n", "byte alphabet", EITP_ERROR_FORMAT},
        {"q \xC4\x80\n", "the merged token is not in the vocabulary", EITP_ERROR_FORMAT},
        {"qqqq a\n", "the left token is not in the vocabulary", EITP_ERROR_FORMAT},
        {"a qqqq\n", "the right token is not in the vocabulary", EITP_ERROR_FORMAT},
        {"\xFF a\n", "byte alphabet", EITP_ERROR_FORMAT},
    };
    REQUIRE_OK(train_on(&host, "ab", 2, 2, &config, &again, &error), error);
    REQUIRE_OK(eitp_tokenizer_save(again, directory, &error), error);
    eitp_tokenizer_destroy(again);
    CHECK(host.files.remove(host.files.user, scratch_path(directory, "tokenizer.json")) == 0);
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        error.message[0] = 0;
        REQUIRE_OK(eitp__write_file(&host, scratch_path(directory, "merges.txt"), cases[i].merges,
                                    strlen(cases[i].merges), &error),
                   error);
        eitp_status status = eitp_tokenizer_load(&host, directory, &again, &error);
        CHECK_THAT(status == cases[i].status && strstr(error.message, cases[i].words), "case %zu: %s", i,
                   error.message);
        CHECK(status == EITP_OK || strstr(error.message, "merges.txt") != NULL);
        CHECK((status == EITP_OK) == (again != NULL));
        eitp_tokenizer_destroy(again);
    }
    CHECK(host.files.remove(host.files.user, scratch_path(directory, "merges.txt")) == 0);
    CHECK(eitp_tokenizer_load(&host, directory, &again, &error) == EITP_ERROR_ARGUMENT && !again);
    CHECK_THAT(strstr(error.message, "vocab.json and merges.txt") != NULL, "%s", error.message);
    CHECK(eitp_tokenizer_load(&host, scratch_path(directory, "nothing"), &again, &error) == EITP_ERROR_ARGUMENT &&
          !again);
    eitp_tokenizer_destroy(tokenizer);
    eitp__buffer_release(&text);
    scratch_remove(directory);
}

/* vocab.json and merges.txt do not specify how text is split, so only classes that split it like GPT-2 are read. */
static void test_classes_of_vocab_and_merges(void) {
    static const struct {
        const char *config, *model, *words;
    } cases[] = {
        {"{}", "{}", ""},
        {"{}", "{\"model_type\":\"gpt2\"}", ""},
        {"{\"tokenizer_class\":\"GPT2TokenizerFast\"}", "{\"model_type\":\"qwen2\"}", ""},
        {"{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}", "{}", ""},
        {"{\"tokenizer_class\":\"Qwen2Tokenizer\"}", "{\"model_type\":\"gpt2\"}",
         "unsupported tokenizer \"Qwen2Tokenizer\""},
        {"{\"tokenizer_class\":\"BertTokenizer\"}", "{}", "unsupported tokenizer \"BertTokenizer\""},
        {"{}", "{\"model_type\":\"qwen3\"}", "unsupported tokenizer \"qwen3\" with vocab.json and merges.txt"},
    };
    const eitp_host host = eitp_host_default();
    const eitp_tokenizer_train_config config = eitp_tokenizer_train_config_default();
    eitp_tokenizer *tokenizer;
    eitp_error error;
    char directory[512];
    REQUIRE(scratch_make(directory));
    REQUIRE_OK(train_on(&host, "ab", 2, 2, &config, &tokenizer, &error), error);
    REQUIRE_OK(eitp_tokenizer_save(tokenizer, directory, &error), error);
    eitp_tokenizer_destroy(tokenizer);
    CHECK(host.files.remove(host.files.user, scratch_path(directory, "tokenizer.json")) == 0);
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        const char *const texts[] = {cases[i].config, cases[i].model};
        static const char *const names[] = {"tokenizer_config.json", "config.json"};
        for (size_t f = 0; f < 2; f++)
            REQUIRE_OK(eitp__write_file(&host, scratch_path(directory, names[f]), texts[f], strlen(texts[f]), &error),
                       error);
        error.message[0] = 0;
        const eitp_status status = eitp_tokenizer_load(&host, directory, &tokenizer, &error);
        CHECK_THAT(status == (cases[i].words[0] ? EITP_ERROR_UNSUPPORTED : EITP_OK) &&
                       strstr(error.message, cases[i].words) != NULL,
                   "case %zu: %d, %s", i, (int)status, error.message);
        eitp_tokenizer_destroy(tokenizer);
    }
    scratch_remove(directory);
}

/* Parts of a tokenizer.json with the bytes and "ab" (id 256). Each case replaces one part. */
typedef struct json_parts {
    const char *top;      /* before the model */
    const char *splitter; /* the pre_tokenizer */
    const char *model;    /* members before the vocabulary */
    const char *tokens;   /* after the bytes */
    const char *merges;
    const char *added;
} json_parts;

static const json_parts usual_parts = {
    "\"normalizer\":null,",
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}",
    "\"type\":\"BPE\",",
    ",\"ab\":256",
    "\"a b\"",
    "",
};

static void write_json(eitp__buffer *out, const json_parts *parts) {
    eitp__buffer_format(out, "{%s\"pre_tokenizer\":%s,\"added_tokens\":[%s],\"model\":{%s\"vocab\":{", parts->top,
                        parts->splitter, parts->added, parts->model);
    for (int byte = 0, id = 0; byte < 256; byte++) {
        unsigned char character[8];
        size_t size = eitp__utf8_encode(eitp__byte_to_character((unsigned char)byte), character);
        eitp__buffer_add_text(out, id ? "," : "");
        eitp__json_write_text(out, (const char *)character, size);
        eitp__buffer_format(out, ":%d", id++);
    }
    eitp__buffer_format(out, "%s},\"merges\":[%s]}}", parts->tokens, parts->merges);
}

static eitp_status load_parts(const json_parts *parts, eitp_tokenizer **out, eitp_error *error) {
    const eitp_host host = eitp_host_default();
    eitp__buffer json;
    eitp__buffer_init(&json, &host);
    write_json(&json, parts);
    error->message[0] = 0;
    eitp_status status = eitp__tokenizer_parse(&host, json.data, json.size, out, error);
    eitp__buffer_release(&json);
    return status;
}

/* A post_processor with a template of these pieces. */
#define TEMPLATE(pieces)                                                                                               \
    "{\"type\":\"TemplateProcessing\",\"single\":[" pieces "],\"pair\":[" SEQUENCE("A") "," SEQUENCE(                  \
        "B") "],\"special_tokens\":{\"ab\":{\"id\":\"ab\",\"ids\":[256],\"tokens\":[\"ab\"]},"                         \
             "\"<s>\":{\"id\":\"<s>\",\"ids\":[256],\"tokens\":[\"<s>\"]}}}"
#define SEQUENCE(id) "{\"Sequence\":{\"id\":\"" id "\",\"type_id\":0}}"
#define SPECIAL(id) "{\"SpecialToken\":{\"id\":\"" id "\",\"type_id\":0}}"

#define TOKEN(id, content, flags) "{\"id\":" #id ",\"content\":\"" content "\"" flags "}"

static void test_load_parts(void) {
    enum { TOP, SPLITTER, MODEL, TOKENS, MERGES, ADDED };
    static const struct {
        int part;
        const char *text;
        eitp_status status;
        const char *words;
    } cases[] = {
        {TOP, "", EITP_OK, ""},
        {TOP, "\"truncation\":{\"max_length\":5},\"decoder\":{\"type\":\"ByteLevel\"},", EITP_OK, ""},
        {TOP, "\"normalizer\":{\"type\":\"Strip\"},", EITP_ERROR_UNSUPPORTED, "normalizer \"Strip\""},
        {TOP, "\"normalizer\":7,", EITP_ERROR_FORMAT, "normalizer"},
        {TOP, "\"post_processor\":null,\"decoder\":null,\"truncation\":null,\"padding\":null,", EITP_OK, ""},
        {TOP, "\"post_processor\":{\"type\":\"ByteLevel\"},", EITP_OK, ""},
        {TOP, "\"post_processor\":" TEMPLATE(SEQUENCE("A")) ",", EITP_OK, ""},
        {TOP,
         "\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"}," TEMPLATE(
             SEQUENCE("A")) "]},",
         EITP_OK, ""},
        {TOP, "\"post_processor\":" TEMPLATE(SPECIAL("ab") "," SEQUENCE("A")) ",", EITP_OK, ""},
        {TOP, "\"post_processor\":" TEMPLATE(SPECIAL("<s>") "," SEQUENCE("A")) ",", EITP_ERROR_FORMAT,
         "lacks the token \"<s>\" with id 256"},
        {TOP, "\"post_processor\":" TEMPLATE(SEQUENCE("A") "," SPECIAL("</s>")) ",", EITP_ERROR_FORMAT,
         "special_tokens lacks \"</s>\""},
        {TOP, "\"post_processor\":" TEMPLATE(SEQUENCE("C")) ",", EITP_ERROR_FORMAT, "a piece must be"},
        {TOP, "\"post_processor\":" TEMPLATE("7") ",", EITP_ERROR_FORMAT, "a piece must be"},
        {TOP, "\"post_processor\":" TEMPLATE(SEQUENCE("B")) ",", EITP_ERROR_UNSUPPORTED, "\"single\""},
        {TOP, "\"post_processor\":" TEMPLATE(SEQUENCE("A") "," SEQUENCE("A")) ",", EITP_ERROR_UNSUPPORTED,
         "\"single\""},
        {TOP, "\"post_processor\":" TEMPLATE("") ",", EITP_ERROR_UNSUPPORTED, "\"single\""},
        {TOP, "\"post_processor\":{\"type\":\"TemplateProcessing\"},", EITP_ERROR_FORMAT, "\"single\" must be"},
        {TOP,
         "\"post_processor\":{\"type\":\"Sequence\",\"processors\":[" TEMPLATE(SEQUENCE("A")) "," TEMPLATE(
             SEQUENCE("A")) "]},",
         EITP_ERROR_UNSUPPORTED, "after another one"},
        {TOP, "\"post_processor\":{\"type\":\"Sequence\"},", EITP_ERROR_FORMAT, "\"processors\""},
        {TOP, "\"post_processor\":{\"type\":\"Other\"},", EITP_ERROR_UNSUPPORTED, "\"Other\""},
        {TOP, "\"post_processor\":{\"type\":\"BertProcessing\"},", EITP_ERROR_FORMAT, "\"cls\" must be"},
        {TOP, "\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"ab\",256],\"sep\":[\"ab\",255]},",
         EITP_ERROR_FORMAT, "lacks the token \"ab\" with id 255"},
        {TOP, "\"post_processor\":{\"type\":\"RobertaProcessing\",\"cls\":[\"ab\",256],\"sep\":[\"ab\",256]},", EITP_OK,
         ""},
        {TOP, "\"truncation\":7,", EITP_ERROR_FORMAT, "truncation"},
        {TOP, "\"truncation\":{\"max_length\":-1},", EITP_ERROR_FORMAT, "max_length"},
        {TOP, "\"truncation\":{\"strategy\":\"Other\"},", EITP_ERROR_UNSUPPORTED, "strategy \"Other\""},
        {TOP, "\"padding\":{\"direction\":\"Up\"},", EITP_ERROR_UNSUPPORTED, "direction \"Up\""},
        {TOP, "\"padding\":{\"strategy\":{\"Fixed\":\"x\"}},", EITP_ERROR_FORMAT, "Fixed"},
        {TOP, "\"padding\":{\"strategy\":\"BatchLongest\",\"pad_id\":256},", EITP_OK, ""},
        {TOP, "\"padding\":{\"strategy\":\"BatchLongest\",\"pad_id\":257},", EITP_ERROR_FORMAT, "lacks token 257"},
        {TOP, "\"truncation\":{\"max_length\":9223372036854775807},", EITP_OK, ""},
        {TOP, "\"decoder\":{\"type\":\"WordPiece\"},", EITP_ERROR_UNSUPPORTED, "decoder \"WordPiece\""},
        {SPLITTER, "null", EITP_ERROR_UNSUPPORTED, "pre_tokenizer is missing"},
        {SPLITTER, "{\"type\":\"Split\"}", EITP_ERROR_UNSUPPORTED, "it must be ByteLevel"},
        {SPLITTER, "{\"type\":\"ByteLevel\"}", EITP_ERROR_FORMAT, "add_prefix_space"},
        {SPLITTER, "{\"type\":\"ByteLevel\",\"add_prefix_space\":1}", EITP_ERROR_FORMAT, "add_prefix_space"},
        {SPLITTER, "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":false}", EITP_ERROR_UNSUPPORTED,
         "use_regex"},
        {MODEL, "", EITP_OK, ""},
        {MODEL, "\"dropout\":0.0,\"unk_token\":\"x\",\"continuing_subword_prefix\":\"\",", EITP_OK, ""},
        {MODEL, "\"type\":\"WordPiece\",", EITP_ERROR_FORMAT, "unk_token"},
        {MODEL, "\"type\":\"Unigram\",", EITP_ERROR_UNSUPPORTED, "model \"Unigram\""},
        {MODEL, "\"dropout\":0.1,", EITP_ERROR_UNSUPPORTED, "dropout 0.1"},
        {MODEL, "\"dropout\":2,", EITP_ERROR_FORMAT, "dropout"},
        {MODEL, "\"ignore_merges\":1,", EITP_ERROR_FORMAT, "ignore_merges"},
        {MODEL, "\"continuing_subword_prefix\":\"##\",", EITP_ERROR_UNSUPPORTED, "continuing_subword_prefix"},
        {MODEL, "\"end_of_word_suffix\":\"</w>\",", EITP_ERROR_UNSUPPORTED, "end_of_word_suffix"},
        {TOKENS, ",\"ab\":257", EITP_OK, ""},
        {TOKENS, ",\"ab\":3000000000", EITP_ERROR_FORMAT, "must be an integer from 0 to"},
        {TOKENS, ",\"ab\":16777216", EITP_ERROR_UNSUPPORTED, "16777217 token ids"},
        {TOKENS, ",\"ab\":-1", EITP_ERROR_FORMAT, "must be an integer"},
        {TOKENS, ",\"ab\":1.5", EITP_ERROR_FORMAT, "must be an integer"},
        {TOKENS, ",\"ab\":\"1\"", EITP_ERROR_FORMAT, "must be an integer"},
        {TOKENS, ",\"ab\":255", EITP_ERROR_FORMAT, "ids must be unique"},
        {TOKENS, "", EITP_ERROR_FORMAT, "the merged token is not in the vocabulary"},
        {TOKENS, ",\"ab\":256,\"\xE6\x97\xA5\":257", EITP_OK, ""},
        {MERGES, "[\"a\",\"b\"]", EITP_OK, ""},
        {MERGES, "", EITP_OK, ""},
        {MERGES, "\"ab\"", EITP_ERROR_FORMAT, "merge 0 must be"},
        {MERGES, "\"a b\",[\"a\"]", EITP_ERROR_FORMAT, "merge 1 must be"},
        {MERGES, "[\"a\",1]", EITP_ERROR_FORMAT, "merge 0 must be"},
        {MERGES, "[\"a\",\"b\",\"c\"]", EITP_ERROR_FORMAT, "merge 0 must be"},
        {MERGES, "\"a b\",\"a b\"", EITP_OK, ""},
        {MERGES, "\"a \xE6\x97\xA5\"", EITP_ERROR_FORMAT, "byte alphabet"},
        {MERGES, "[\"\",\"ab\"]", EITP_ERROR_FORMAT, "byte alphabet"},
        {ADDED, TOKEN(256, "ab", ",\"special\":true"), EITP_OK, ""},
        {ADDED, TOKEN(257, "x y", "") "," TOKEN(258, "\xE6\x97\xA5", ""), EITP_OK, ""},
        {ADDED, TOKEN(258, "x y", ""), EITP_ERROR_FORMAT, "expected 257"},
        {ADDED, TOKEN(2, "ab", ""), EITP_ERROR_FORMAT, "expected 256"},
        {ADDED, TOKEN(257, "x", ""), EITP_ERROR_FORMAT, "expected 120"},
        {ADDED, TOKEN(257, "", ""), EITP_ERROR_FORMAT, "must have a non-empty content"},
        {ADDED, "{\"id\":257}", EITP_ERROR_FORMAT, "must have a non-empty content"},
        {ADDED, "7", EITP_ERROR_FORMAT, "must have a non-empty content"},
        {ADDED, TOKEN(-1, "x y", ""), EITP_ERROR_FORMAT, "id"},
        {ADDED, TOKEN(257, "x y", "") "," TOKEN(258, "x y", ""), EITP_ERROR_FORMAT, "same text"},
        {ADDED, TOKEN(256, "ab", "") "," TOKEN(256, "ab", ""), EITP_ERROR_FORMAT, "duplicate added token"},
        {ADDED, TOKEN(233, "\xC3\xA9", ""), EITP_ERROR_UNSUPPORTED, "spelling of other bytes"},
        {ADDED, TOKEN(257, "x y", ",\"lstrip\":true"), EITP_OK, ""},
        {ADDED, TOKEN(257, "x y", ",\"rstrip\":true"), EITP_OK, ""},
        {ADDED, TOKEN(257, "  ", ",\"rstrip\":true"), EITP_OK, ""},
        {ADDED, TOKEN(257, "  ", ",\"lstrip\":true"), EITP_ERROR_UNSUPPORTED, "that is white space"},
        {ADDED, TOKEN(257, "x y", ",\"single_word\":true"), EITP_OK, ""},
        {ADDED, TOKEN(257, "x y", ",\"single_word\":1"), EITP_ERROR_FORMAT, "single_word"},
        {ADDED, TOKEN(257, "x y", ",\"lstrip\":\"no\""), EITP_ERROR_FORMAT, "lstrip"},
        {ADDED, TOKEN(257, "x y", "") "," TOKEN(258, "p q", ",\"normalized\":true"), EITP_OK, ""},
        {ADDED, TOKEN(257, "x y", "") "," TOKEN(258, "y q", ",\"normalized\":true"), EITP_OK, ""},
        {ADDED, TOKEN(257, "x y", "") "," TOKEN(258, "y q", ""), EITP_OK, ""},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        json_parts parts = usual_parts;
        const char **part[] = {&parts.top, &parts.splitter, &parts.model, &parts.tokens, &parts.merges, &parts.added};
        eitp_tokenizer *tokenizer;
        eitp_error error;
        *part[cases[i].part] = cases[i].text;
        eitp_status status = load_parts(&parts, &tokenizer, &error);
        CHECK_THAT(status == cases[i].status && strstr(error.message, cases[i].words), "case %zu, %s: %s", i,
                   cases[i].text, error.message);
        CHECK((status == EITP_OK) == (tokenizer != NULL));
        eitp_tokenizer_destroy(tokenizer);
    }
}

/* Changes that affect ids change the fingerprint. */
static void test_fingerprint(void) {
    json_parts parts[6];
    uint64_t fingerprints[6];
    for (size_t i = 0; i < EITP__COUNT(parts); i++)
        parts[i] = usual_parts;
    parts[1].merges = "";
    parts[2].splitter = "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}";
    parts[3].added = TOKEN(256, "ab", "");
    parts[4].added = TOKEN(256, "ab", ",\"special\":true");
    parts[5].tokens = ",\"ab\":256,\"ac\":257";
    for (size_t i = 0; i < EITP__COUNT(parts); i++) {
        eitp_tokenizer *tokenizer;
        eitp_error error;
        REQUIRE_OK(load_parts(&parts[i], &tokenizer, &error), error);
        fingerprints[i] = eitp_tokenizer_fingerprint(tokenizer);
        for (size_t k = 0; k < i; k++)
            CHECK_THAT(fingerprints[i] != fingerprints[k], "%zu and %zu", k, i);
        eitp_tokenizer_destroy(tokenizer);
    }
}

static void test_load_not_a_tokenizer(void) {
    static const char no_vocabulary[] =
        "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true},\"model\":{\"vocab\":[],\"merges\":[]}}";
    static const char *const texts[] = {
        "", "{}", "[]", "nonsense", "{\"model\":[]}", "{\"model\":{\"vocab\":{}}}", no_vocabulary};
    const eitp_host host = eitp_host_default();
    for (size_t i = 0; i < EITP__COUNT(texts); i++) {
        eitp_tokenizer *tokenizer;
        eitp_error error;
        eitp_status status = eitp__tokenizer_parse(&host, texts[i], strlen(texts[i]), &tokenizer, &error);
        CHECK_THAT((status == EITP_ERROR_FORMAT || status == EITP_ERROR_UNSUPPORTED) && !tokenizer, "%s", texts[i]);
        CHECK(strlen(error.message) > 10);
    }
}

/* Merges in an order that no text produces: many heap entries are outdated when they reach the top. */
static void test_random_merges(void) {
    uint32_t state = 3;
    eitp__bpe_workspace space = EITP__ZERO;
    const eitp_host host = eitp_host_default();
    for (int round = 0; round < 40; round++) {
        static const char *const letters[] = {"a", "b", "c"};
        char known[43][64];
        eitp__buffer tokens, merges;
        json_parts parts = usual_parts;
        eitp_tokenizer *tokenizer;
        eitp_error error;
        size_t count = 3;
        eitp__buffer_init(&tokens, &host);
        eitp__buffer_init(&merges, &host);
        for (size_t i = 0; i < 3; i++)
            strcpy(known[i], letters[i]);
        while (count < EITP__COUNT(known)) {
            char left[64], right[64], both[64];
            strcpy(left, known[next_number(&state) % count]);
            strcpy(right, known[next_number(&state) % count]);
            if (strlen(left) + strlen(right) > 30)
                continue;
            strcpy(both, left);
            strcat(both, right);
            int is_known = 0;
            for (size_t i = 0; i < count; i++)
                is_known |= !strcmp(known[i], both);
            if (is_known)
                continue;
            eitp__buffer_format(&tokens, ",\"%s\":%zu", both, 253 + count);
            eitp__buffer_format(&merges, "%s\"%s %s\"", merges.size ? "," : "", left, right);
            strcpy(known[count++], both);
        }
        parts.tokens = tokens.data;
        parts.merges = merges.data;
        REQUIRE_OK(load_parts(&parts, &tokenizer, &error), error);
        for (size_t size = 1; size <= 400; size += 7) {
            unsigned char text[400];
            int32_t one[400], other[400];
            size_t found = 0;
            for (size_t i = 0; i < size; i++)
                text[i] = (unsigned char)('a' + next_number(&state) % 3);
            CHECK(eitp__bpe_encode(&tokenizer->bpe, &host, &space, text, size, one, &found, NULL) == EITP_OK);
            CHECK_THAT(merge_by_definition(&tokenizer->bpe, text, size, other) == found &&
                           !memcmp(one, other, found * sizeof *one),
                       "round %d, %zu bytes", round, size);
        }
        eitp_tokenizer_destroy(tokenizer);
        eitp__buffer_release(&tokens);
        eitp__buffer_release(&merges);
    }
    eitp__bpe_workspace_release(&space, &host);
}

/* The longest added token wins. A shorter one is found if the longer one does not match. */
static void test_added_tokens(void) {
    json_parts parts = usual_parts;
    eitp_tokenizer *tokenizer;
    eitp_error error;
    static const char text[] = "<<a><a>b<a>bcd<a>b";
    static const int32_t expected[] = {'<', 257, 258, 259, 'd', 258};
    id_list list = EITP__ZERO;
    parts.added = TOKEN(257, "<a>", "") "," TOKEN(258, "<a>b", "") "," TOKEN(259, "<a>bc", "");
    REQUIRE_OK(load_parts(&parts, &tokenizer, &error), error);
    for (size_t chunk = 1; chunk <= sizeof text; chunk++) {
        CHECK(encode_chunks(tokenizer, text, sizeof text - 1, chunk, &list) == EITP_OK);
        CHECK_THAT(list.count == 6 && !memcmp(list.ids, expected, sizeof expected), "chunks of %zu", chunk);
    }
    eitp_tokenizer_destroy(tokenizer);
    id_list_release(&list);
}

/* Special tokens */

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

/* Truncation and padding in tokenizer.json are not applied, but reported. */
static void test_truncation_and_padding(void) {
    json_parts parts = usual_parts;
    eitp_tokenizer *tokenizer;
    eitp_error error;
    eitp_sequence_defaults found;
    REQUIRE_OK(load_parts(&parts, &tokenizer, &error), error);
    found = eitp_tokenizer_sequence_defaults(tokenizer);
    CHECK(!found.max_length && !found.has_padding && !found.truncation && !found.pad_length);
    eitp_tokenizer_destroy(tokenizer);
    parts.top = "\"truncation\":{\"direction\":\"Left\",\"max_length\":4,\"strategy\":\"OnlySecond\",\"stride\":0},"
                "\"padding\":{\"strategy\":{\"Fixed\":8},\"direction\":\"Left\",\"pad_to_multiple_of\":16,\"pad_id\":3,"
                "\"pad_type_id\":1,\"pad_token\":\"<pad>\"},";
    REQUIRE_OK(load_parts(&parts, &tokenizer, &error), error);
    found = eitp_tokenizer_sequence_defaults(tokenizer);
    CHECK(found.max_length == 4 && found.truncation == EITP_TRUNCATE_SECOND && found.truncate_left);
    CHECK(found.has_padding && found.pad_left && found.pad_length == 8 && found.pad_multiple == 16);
    CHECK(found.pad_id == 3 && found.pad_segment == 1 && !found.model_max_length);
    eitp_tokenizer_destroy(tokenizer);
    parts.top = "\"padding\":{\"strategy\":\"BatchLongest\",\"direction\":\"Right\",\"pad_to_multiple_of\":null},";
    REQUIRE_OK(load_parts(&parts, &tokenizer, &error), error);
    found = eitp_tokenizer_sequence_defaults(tokenizer);
    CHECK(found.has_padding && !found.pad_left && !found.pad_length && !found.pad_multiple);
    eitp_tokenizer_destroy(tokenizer);
}

/* A directory with "ab" 256, the special tokens "<s>" 257, "</s>" 258 and "<pad>" 259, and these files (NULL: no
   file). */
typedef struct special_case {
    const char *config, *map, *generation, *model;
    int32_t ids[4]; /* end, begin, padding, unknown */
    const char *words;
} special_case;

static const char *const special_names[] = {"tokenizer_config.json", "special_tokens_map.json",
                                            "generation_config.json", "config.json"};

static const char special_added[] = TOKEN(257, "<s>", ",\"special\":true") "," TOKEN(
    258, "</s>", ",\"special\":true") "," TOKEN(259, "<pad>", ",\"special\":true");

static void write_text(const char *directory, const char *name, const char *text) {
    const eitp_host host = eitp_host_default();
    const char *path = scratch_path(directory, name);
    eitp_error error;
    if (text)
        CHECK(eitp__write_file(&host, path, text, strlen(text), &error) == EITP_OK);
    else
        host.files.remove(host.files.user, path);
}

static void write_special_case(const char *directory, const special_case *c, const char *added) {
    const char *const texts[] = {c->config, c->map, c->generation, c->model};
    const eitp_host host = eitp_host_default();
    json_parts parts = usual_parts;
    eitp__buffer json;
    eitp__buffer_init(&json, &host);
    parts.added = added;
    write_json(&json, &parts);
    write_text(directory, "tokenizer.json", json.data);
    eitp__buffer_release(&json);
    for (size_t i = 0; i < EITP__COUNT(texts); i++)
        write_text(directory, special_names[i], texts[i]);
}

static int has_special_ids(const eitp_tokenizer *tokenizer, const int32_t ids[4]) {
    int same = 1;
    for (int which = 0; which < 4; which++)
        same = same && eitp_tokenizer_special(tokenizer, (eitp_special_token)which) == ids[which];
    return same && eitp_tokenizer_end_of_text(tokenizer) == ids[0];
}

/* As in transformers 4 and 5, special_tokens_map.json overrides tokenizer_config.json if the latter has no
   added_tokens_decoder. */
static void test_special_tokens(void) {
    static const special_case cases[] = {
        {NULL, NULL, NULL, NULL, {-1, -1, -1, -1}, NULL},
        {"{\"eos_token\":\"</s>\",\"bos_token\":\"<s>\",\"pad_token\":\"<pad>\",\"unk_token\":\"<s>\"}",
         NULL,
         NULL,
         NULL,
         {258, 257, 259, 257},
         NULL},
        {"{\"eos_token\":{\"__type\":\"AddedToken\",\"content\":\"</s>\",\"lstrip\":false},\"bos_token\":null}",
         NULL,
         NULL,
         NULL,
         {258, -1, -1, -1},
         NULL},
        {"{\"eos_token\":\"<s>\"}",
         "{\"eos_token\":{\"content\":\"</s>\"},\"pad_token\":\"<pad>\"}",
         NULL,
         NULL,
         {258, -1, 259, -1},
         NULL},
        {"{\"eos_token\":\"<s>\",\"added_tokens_decoder\":{\"258\":{\"content\":\"</s>\"}}}",
         "{\"eos_token\":\"</s>\"}",
         NULL,
         NULL,
         {257, -1, -1, -1},
         NULL},
        {NULL, "{\"eos_token\":\"</s>\"}", NULL, NULL, {258, -1, -1, -1}, NULL},
        {NULL, NULL, NULL, "{\"eos_token_id\":258,\"bos_token_id\":257}", {258, 257, -1, -1}, NULL},
        {NULL, NULL, "{\"eos_token_id\":[258,257]}", "{\"eos_token_id\":257}", {258, -1, -1, -1}, NULL},
        /* An id that does not belong to a special token is ignored. */
        {NULL, NULL, NULL, "{\"eos_token_id\":50256,\"bos_token_id\":3,\"pad_token_id\":-1}", {-1, -1, -1, -1}, NULL},
        {NULL, NULL, NULL, "{\"eos_token_id\":\"</s>\",\"bos_token_id\":[]}", {-1, -1, -1, -1}, NULL},
        {"{\"eos_token\":null}", NULL, NULL, "{\"eos_token_id\":258}", {-1, -1, -1, -1}, NULL},
        {"{\"eos_token\":\"</s>\"}", NULL, NULL, "{\"eos_token_id\":257}", {258, -1, -1, -1}, NULL},
        /* A token of the vocabulary becomes an added token. */
        {"{\"eos_token\":\"ab\"}", NULL, NULL, NULL, {256, -1, -1, -1}, NULL},
        {"{\"eos_token\":\"<end>\"}", NULL, NULL, NULL, {-1, -1, -1, -1}, "eos_token \"<end>\""},
        {"{\"eos_token\":{\"content\":\"ab\",\"lstrip\":true}}", NULL, NULL, NULL, {256, -1, -1, -1}, NULL},
        {"{\"eos_token\":{\"content\":\"ab\",\"single_word\":true}}", NULL, NULL, NULL, {256, -1, -1, -1}, NULL},
        {"{\"eos_token\":7}", NULL, NULL, NULL, {-1, -1, -1, -1}, "eos_token must be"},
        {"{\"eos_token\":{\"text\":\"x\"}}", NULL, NULL, NULL, {-1, -1, -1, -1}, "eos_token must be"},
        {"{\"added_tokens_decoder\":{\"260\":{\"content\":\"<x>\"}}}", NULL, NULL, NULL, {-1, -1, -1, -1}, "\"<x>\""},
        {"{\"added_tokens_decoder\":{\"257\":{\"content\":\"</s>\"}}}", NULL, NULL, NULL, {-1, -1, -1, -1}, "\"</s>\""},
        {"{\"added_tokens_decoder\":[]}", NULL, NULL, NULL, {-1, -1, -1, -1}, "added_tokens_decoder"},
        {"[]", NULL, NULL, NULL, {-1, -1, -1, -1}, "tokenizer_config.json"},
        {"{\"eos_token\":", NULL, NULL, NULL, {-1, -1, -1, -1}, "tokenizer_config.json"},
    };
    const eitp_host host = eitp_host_default();
    char directory[512];
    REQUIRE(scratch_make(directory));
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        const special_case *c = &cases[i];
        eitp_tokenizer *tokenizer;
        eitp_error error;
        write_special_case(directory, c, special_added);
        error.message[0] = 0;
        eitp_status status = eitp_tokenizer_load(&host, directory, &tokenizer, &error);
        CHECK_THAT((status != EITP_OK) == (c->words != NULL), "case %zu: status %d, %s", i, (int)status, error.message);
        if (status != EITP_OK) {
            CHECK_THAT(c->words && strstr(error.message, c->words) != NULL && !tokenizer, "case %zu: %s", i,
                       error.message);
            continue;
        }
        CHECK_THAT(has_special_ids(tokenizer, c->ids), "case %zu: end-of-text %d", i,
                   (int)eitp_tokenizer_end_of_text(tokenizer));
        eitp_tokenizer_destroy(tokenizer);
    }
    scratch_remove(directory);
}

/* GPT-2's defaults apply unless a file names a token. A named token that the tokenizer lacks gives a warning. */
static void test_special_tokens_by_default(void) {
    static const char added[] =
        TOKEN(257, "<|endoftext|>", ",\"special\":true") "," TOKEN(258, "</s>", ",\"special\":true");
    static const special_case cases[] = {
        {NULL, NULL, NULL, NULL, {257, 257, -1, 257}, NULL},
        {"{\"model_max_length\":1024}", NULL, NULL, NULL, {257, 257, -1, 257}, NULL},
        {"{\"eos_token\":\"</s>\"}", NULL, NULL, NULL, {258, 257, -1, 257}, NULL},
        {NULL, NULL, NULL, "{\"eos_token_id\":258}", {258, 257, -1, 257}, NULL},
        {"{\"eos_token\":null,\"bos_token\":null,\"unk_token\":null}", NULL, NULL, NULL, {-1, -1, -1, -1}, NULL},
        {"{\"pad_token\":\"<pad>\"}", NULL, NULL, NULL, {257, 257, -1, 257}, "pad_token \"<pad>\""},
    };
    eitp_host host = eitp_host_default();
    char directory[512];
    REQUIRE(scratch_make(directory));
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp_tokenizer *tokenizer;
        eitp_error error;
        log_lines lines;
        memset(&lines, 0, sizeof lines);
        host.log.user = &lines;
        host.log.write = keep_warnings;
        write_special_case(directory, &cases[i], added);
        REQUIRE_OK(eitp_tokenizer_load(&host, scratch_path(directory, "tokenizer.json"), &tokenizer, &error), error);
        CHECK_THAT(has_special_ids(tokenizer, cases[i].ids), "case %zu", i);
        CHECK_THAT(lines.warnings == (cases[i].words != NULL) &&
                       (!cases[i].words || strstr(lines.last, cases[i].words) != NULL),
                   "case %zu: %d warnings, %s", i, lines.warnings, lines.last);
        eitp_tokenizer_destroy(tokenizer);
    }
    scratch_remove(directory);
}

/* As in transformers, tokenizer_config.json overrides add_prefix_space and, without tokenizer.json, add_bos_token. */
static void test_tokenizer_config(void) {
    static const struct {
        const char *config;
        int pair, add_prefix_space, warnings;
        const char *words;
    } cases[] = {
        {"{}", 0, 0, 0, NULL},
        {"{\"add_prefix_space\":false}", 0, 0, 0, NULL},
        {"{\"add_prefix_space\":true}", 0, 1, 1, NULL},
        {"{\"add_prefix_space\":true}", 1, 1, 1, NULL},
        {"{\"add_prefix_space\":1}", 0, 0, 0, "add_prefix_space"},
        {"{\"add_bos_token\":true}", 0, 0, 0, NULL}, /* tokenizer.json has its own post-processor */
        {"{\"add_bos_token\":true}", 1, 0, 0, "add_bos_token"},
        {"{\"add_bos_token\":false}", 1, 0, 0, NULL},
    };
    char directory[512];
    REQUIRE(scratch_make(directory));
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp_host host = eitp_host_default();
        eitp_tokenizer *tokenizer;
        eitp_error error;
        log_lines lines;
        REQUIRE_OK(eitp_tokenizer_create_bytes(&host, &tokenizer, &error), error);
        REQUIRE_OK(eitp_tokenizer_save(tokenizer, directory, &error), error);
        eitp_tokenizer_destroy(tokenizer);
        write_text(directory, "tokenizer_config.json", cases[i].config);
        if (cases[i].pair)
            write_text(directory, "tokenizer.json", NULL);
        memset(&lines, 0, sizeof lines);
        host.log.user = &lines;
        host.log.write = keep_warnings;
        error.message[0] = 0;
        eitp_status status = eitp_tokenizer_load(&host, directory, &tokenizer, &error);
        CHECK_THAT((status != EITP_OK) == (cases[i].words != NULL) &&
                       (status == EITP_OK || strstr(error.message, cases[i].words) != NULL),
                   "case %zu: %s", i, error.message);
        CHECK_THAT(status != EITP_OK || (tokenizer->add_prefix_space == cases[i].add_prefix_space &&
                                         lines.warnings == cases[i].warnings),
                   "case %zu: %d warnings", i, lines.warnings);
        eitp_tokenizer_destroy(tokenizer);
    }
    scratch_remove(directory);
}

/* Members of tokenizer_config.json survive loading and saving. */
static void test_special_tokens_round_trip(void) {
    static const special_case from = {
        "{\"eos_token\":{\"content\":\"<s>\"},\"bos_token\":\"<s>\",\"pad_token\":null,\"model_max_length\":"
        "1000000000000000019884624838656,\"chat_template\":\"{{ x }}\\n\",\"tokenizer_class\":\"GPT2TokenizerFast\","
        "\"scale\":0.5}",
        "{\"eos_token\":\"</s>\"}",
        NULL,
        NULL,
        {258, 257, -1, -1},
        NULL};
    const eitp_host host = eitp_host_default();
    char directory[512];
    eitp_tokenizer *tokenizer;
    eitp_error error;
    eitp__buffer text;
    REQUIRE(scratch_make(directory));
    write_special_case(directory, &from, special_added);
    for (int time = 0; time < 2; time++) {
        char saved[40];
        snprintf(saved, sizeof saved, "saved%d", time);
        REQUIRE_OK(eitp_tokenizer_load(&host, time ? scratch_path(directory, "saved0") : directory, &tokenizer, &error),
                   error);
        CHECK(has_special_ids(tokenizer, from.ids));
        REQUIRE_OK(eitp_tokenizer_save(tokenizer, scratch_path(directory, saved), &error), error);
        eitp_tokenizer_destroy(tokenizer);
    }
    eitp__buffer_init(&text, &host);
    REQUIRE_OK(eitp__read_file(&host, scratch_path(directory, "saved1/tokenizer_config.json"), 1 << 16, &text, &error),
               error);
    CHECK_THAT(!strcmp(text.data, "{\n\"eos_token\": \"</s>\",\n\"bos_token\": \"<s>\",\n\"pad_token\": null,\n"
                                  "\"unk_token\": null,\n\"add_prefix_space\": false,\n"
                                  "\"model_max_length\": 1000000000000000019884624838656,\n"
                                  "\"chat_template\": \"{{ x }}\\n\",\n\"tokenizer_class\": \"GPT2TokenizerFast\",\n"
                                  "\"scale\": 0.5\n}\n"),
               "%s", text.data);
    eitp__buffer_release(&text);
    scratch_remove(directory);
}

/* If no tokenizer_config.json was loaded, one is written that fits any model, with the inputs for transformers 4. */
static void test_new_tokenizer_config(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    eitp_tokenizer *tokenizer;
    eitp_error error;
    eitp__buffer text;
    REQUIRE(scratch_make(directory));
    REQUIRE_OK(eitp_tokenizer_create_bytes(&host, &tokenizer, &error), error);
    REQUIRE_OK(eitp_tokenizer_save(tokenizer, directory, &error), error);
    eitp_tokenizer_destroy(tokenizer);
    eitp__buffer_init(&text, &host);
    REQUIRE_OK(eitp__read_file(&host, scratch_path(directory, "tokenizer_config.json"), 1 << 16, &text, &error), error);
    CHECK_THAT(!strcmp(text.data, "{\n\"eos_token\": \"<|endoftext|>\",\n\"bos_token\": \"<|endoftext|>\",\n"
                                  "\"pad_token\": null,\n\"unk_token\": \"<|endoftext|>\",\n"
                                  "\"add_prefix_space\": false,\n\"clean_up_tokenization_spaces\": false,\n"
                                  "\"model_input_names\": [\"input_ids\", \"attention_mask\"],\n"
                                  "\"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n"),
               "%s", text.data);
    eitp__buffer_release(&text);
    scratch_remove(directory);
}

/* Memory and file failures */

static eitp_status use_everything(const eitp_host *host, const char *directory, eitp_error *error) {
    static const char text[] = "the cat's hat  the cat <|endoftext|> the the 12 12\n";
    eitp_tokenizer_train_config config = eitp_tokenizer_train_config_default();
    eitp_tokenizer *tokenizer = NULL, *again = NULL;
    id_list list = EITP__ZERO;
    eitp_encoder *encoder = NULL;
    char run[2000];
    config.vocabulary_size = 290;
    memset(run, 'z', sizeof run);
    eitp_status status = train_on(host, text, sizeof text - 1, 7, &config, &tokenizer, error);
    CHECK((status == EITP_OK) == (tokenizer != NULL));
    if (status == EITP_OK)
        status = eitp_tokenizer_save(tokenizer, directory, error);
    if (status == EITP_OK) {
        status = eitp_tokenizer_load(host, directory, &again, error);
        CHECK((status == EITP_OK) == (again != NULL));
    }
    if (status == EITP_OK) {
        CHECK(eitp_tokenizer_fingerprint(again) == eitp_tokenizer_fingerprint(tokenizer));
        status = eitp_encoder_create(again, id_list_add, &list, &encoder, error);
        CHECK((status == EITP_OK) == (encoder != NULL));
    }
    if (status == EITP_OK)
        status = eitp_encoder_add(encoder, run, sizeof run, error);
    if (status == EITP_OK)
        status = eitp_encoder_finish(encoder, error);
    CHECK(status != EITP_OK || list.count == 2000);
    eitp_encoder_destroy(encoder);
    eitp_tokenizer_destroy(tokenizer);
    eitp_tokenizer_destroy(again);
    id_list_release(&list);
    return status;
}

static void test_failing_memory(void) {
    faults f;
    eitp_error error;
    char directory[512];
    long n = 0;
    REQUIRE(scratch_make(directory));
    do {
        faults_begin(&f);
        f.fail_allocation = ++n;
        eitp_status status = use_everything(&f.host, directory, &error);
        int came = f.allocations >= n;
        CHECK_THAT(status == (came ? EITP_ERROR_MEMORY : EITP_OK), "allocation %ld: status %d, %s", n, (int)status,
                   error.message);
    } while (faults_end(&f));
    CHECK_THAT(n > 40, "only %ld allocations", n);
    scratch_remove(directory);
}

static void test_failing_files(void) {
    faults f;
    eitp_error error;
    char directory[512];
    long n = 0;
    REQUIRE(scratch_make(directory));
    do {
        faults_begin(&f);
        f.fail_file_call = ++n;
        error.message[0] = 0;
        eitp_status status = use_everything(&f.host, directory, &error);
        CHECK_THAT(status == EITP_OK || (status == EITP_ERROR_IO && strlen(error.message) > 10),
                   "file call %ld (%s): status %d, %s", n, f.failed_call ? f.failed_call : "none", (int)status,
                   error.message);
    } while (faults_end(&f));
    CHECK_THAT(n > 20, "only %ld calls", n);
    scratch_remove(directory);
}

/* If only some files were written to the directory, the tokenizer loads completely or not at all. */
static void test_interrupted_save(void) {
    static const char text[] = "the cat's hat  the cat the the 12 12\n";
    const eitp_host host = eitp_host_default();
    eitp_tokenizer_train_config config = eitp_tokenizer_train_config_default();
    eitp_tokenizer *tokenizer = NULL, *again = NULL;
    eitp_error error;
    int is_last = 0, loaded = 0;
    config.vocabulary_size = 280;
    config.family = EITP_TOKENIZER_ROBERTA;
    REQUIRE_OK(train_on(&host, text, sizeof text - 1, 7, &config, &tokenizer, &error), error);
    for (long n = 1; !is_last; n++) {
        faults f;
        char directory[512];
        REQUIRE(scratch_make(directory));
        faults_begin(&f);
        f.fail_file_call = n;
        f.all_file_calls = 1;
        tokenizer->host = f.host;
        eitp_tokenizer_save(tokenizer, directory, &error);
        tokenizer->host = host;
        is_last = !faults_end(&f);
        if (!eitp_tokenizer_load(&host, directory, &again, &error)) {
            loaded++;
            CHECK_THAT(eitp_tokenizer_fingerprint(again) == eitp_tokenizer_fingerprint(tokenizer), "call %ld", n);
            for (int which = 0; which < EITP_SPECIAL_TOKEN_COUNT; which++)
                CHECK_THAT(eitp_tokenizer_special(again, (eitp_special_token)which) ==
                               eitp_tokenizer_special(tokenizer, (eitp_special_token)which),
                           "call %ld, special token %d", n, which);
            CHECK(eitp_tokenizer_added_count(again, 0) == eitp_tokenizer_added_count(tokenizer, 0));
            eitp_tokenizer_destroy(again);
        }
        scratch_remove(directory);
    }
    CHECK(loaded > 1);
    eitp_tokenizer_destroy(tokenizer);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(test_utf8_code_points),
        TEST(test_utf8_pairs),
        TEST(test_golden_classes),
        TEST(test_golden_ids),
        TEST(test_golden_decode),
        TEST(test_bytes),
        TEST(test_repeated_pieces),
        TEST(test_ids_outside),
        TEST(test_random_chunks),
        TEST(test_long_matches),
        TEST(test_merges),
        TEST(test_sink_failure),
        TEST(test_train_matches_library),
        TEST(test_train_same_in_pieces),
        TEST(test_train_small),
        TEST(test_train_roberta),
        TEST(test_train_size),
        TEST(test_train_refuses),
        TEST(test_train_bounded),
        TEST(test_save_and_load),
        TEST(test_classes_of_vocab_and_merges),
        TEST(test_load_vocab_and_merges),
        TEST(test_load_parts),
        TEST(test_fingerprint),
        TEST(test_load_not_a_tokenizer),
        TEST(test_random_merges),
        TEST(test_added_tokens),
        TEST(test_truncation_and_padding),
        TEST(test_special_tokens),
        TEST(test_special_tokens_by_default),
        TEST(test_tokenizer_config),
        TEST(test_special_tokens_round_trip),
        TEST(test_new_tokenizer_config),
        TEST(test_failing_memory),
        TEST(test_failing_files),
        TEST(test_interrupted_save),
    };
    return RUN_TESTS(tests, argc, argv);
}
