/* BPE with byte fallback, as used by Gemma, Llama 2 and Mistral, compared with the library `tokenizers`. */
#include "tests/support/everything.h"

#include "tests/support/faults.h"
#include "tests/support/test.h"

#define GOLDEN "tests/golden/byte_fallback"

static const char *const names[] = {"gemma", "llama2", "mistral", "split", "crossing"};

enum { NAMES = 5, MOST_IDS = 1024, MOST_BYTES = 2048, MOST_WORDS = 8 };

static eitp_error error_;

static eitp_tokenizer *load(const char *path) {
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer = NULL;
    CHECK_THAT(eitp_tokenizer_load(&host, path, &tokenizer, &error_) == EITP_OK, "%s: %s", path, error_.message);
    return tokenizer;
}

static eitp_tokenizer *load_golden(const char *name) {
    char path[128];
    snprintf(path, sizeof path, GOLDEN "/%s.json", name);
    return load(path);
}

static eitp_json_document *open_cases(void) {
    const eitp_host host = eitp_host_default();
    eitp_json_document *document = NULL;
    CHECK_THAT(!eitp__json_read_strict_file(&host, GOLDEN "/cases.json", 1 << 20, &document, &error_), "%s",
               error_.message);
    return document;
}

static const eitp_json *cases_of(const eitp_json_document *document, const char *name) {
    return eitp_json_member(eitp_json_root(document), name)->first_child;
}

/* Reads the bytes of a string in hexadecimal. */
static size_t bytes_of(const eitp_json *hex, char *bytes) {
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

static int same_ids(const eitp_json *expected, const int32_t *ids, size_t count) {
    const eitp_json *id = expected->first_child;
    if (count != expected->count || count > MOST_IDS)
        return 0;
    for (size_t i = 0; i < count; i++, id = id->next) {
        if (id->integer != ids[i])
            return 0;
    }
    return 1;
}

/* Encodes a string in parts of `part` bytes and compares the ids. */
static void check_ids(const eitp_tokenizer *tokenizer, const char *name, const eitp_json *expected, const char *text,
                      size_t size, size_t part) {
    eitp_encoder *encoder;
    id_list list;
    REQUIRE_OK(eitp_encoder_create(tokenizer, id_list_add, &list, &encoder, &error_), error_);
    for (int again = 0; again < 2; again++) { /* an encoder can be reused after a document */
        list.count = 0;
        for (size_t i = 0; i < size; i += part)
            CHECK(!eitp_encoder_add(encoder, text + i, part < size - i ? part : size - i, &error_));
        CHECK(!eitp_encoder_finish(encoder, &error_));
        CHECK_THAT(same_ids(expected, list.ids, list.count), "%s: line %zu in parts of %zu bytes", name, expected->line,
                   part);
    }
    eitp_encoder_destroy(encoder);
}

static void check_decoded(const eitp_tokenizer *tokenizer, const char *name, const eitp_json *ids, const char *text,
                          size_t size) {
    int32_t list[MOST_IDS];
    char decoded[MOST_BYTES];
    size_t count = 0, found = 0;
    for (const eitp_json *id = ids->first_child; id && count < MOST_IDS; id = id->next)
        list[count++] = (int32_t)id->integer;
    REQUIRE_OK(eitp_tokenizer_decode(tokenizer, list, count, decoded, sizeof decoded, &found, &error_), error_);
    CHECK_THAT(found == size && (!size || !memcmp(decoded, text, size)), "%s: line %zu is decoded as \"%.*s\"", name,
               ids->line, (int)(found < MOST_BYTES ? found : MOST_BYTES), decoded);
}

static void check_tokenizer(const eitp_tokenizer *tokenizer, const char *name, const eitp_json_document *document) {
    REQUIRE(tokenizer);
    for (const eitp_json *entry = cases_of(document, "texts"); entry; entry = entry->next) {
        const eitp_json *ids = eitp_json_member(entry, name)->first_child;
        char text[MOST_BYTES], decoded[MOST_BYTES];
        const size_t size = bytes_of(eitp_json_member(entry, "hex"), text);
        check_ids(tokenizer, name, ids, text, size, MOST_BYTES);
        check_ids(tokenizer, name, ids, text, size, 1);
        check_ids(tokenizer, name, ids, text, size, 5);
        if (ids->next)
            check_decoded(tokenizer, name, ids, decoded, bytes_of(ids->next, decoded));
        else
            check_decoded(tokenizer, name, ids, text, size);
    }
}

static void texts_are_those_of_the_library(void) {
    eitp_json_document *document = open_cases();
    REQUIRE(document);
    for (size_t i = 0; i < NAMES; i++) {
        eitp_tokenizer *tokenizer = load_golden(names[i]);
        check_tokenizer(tokenizer, names[i], document);
        eitp_tokenizer_destroy(tokenizer);
    }
    eitp_json_release(document);
}

/* Decodes arbitrary ids, including bytes of incomplete characters. */
static void sequences_are_decoded_as_by_the_library(void) {
    eitp_json_document *document = open_cases();
    REQUIRE(document);
    for (size_t i = 0; i < NAMES; i++) {
        eitp_tokenizer *tokenizer = load_golden(names[i]);
        REQUIRE(tokenizer);
        for (const eitp_json *entry = cases_of(document, "sequences"); entry; entry = entry->next) {
            const eitp_json *ids = eitp_json_member(entry, names[i])->first_child;
            char text[MOST_BYTES];
            check_decoded(tokenizer, names[i], ids, text, bytes_of(ids->next, text));
        }
        eitp_tokenizer_destroy(tokenizer);
    }
    eitp_json_release(document);
}

static void words_are_those_of_the_library(void) {
    eitp_json_document *document = open_cases();
    REQUIRE(document);
    for (size_t i = 0; i < NAMES; i++) {
        eitp_tokenizer *tokenizer = load_golden(names[i]);
        REQUIRE(tokenizer);
        for (const eitp_json *entry = cases_of(document, "words"); entry; entry = entry->next) {
            char texts[MOST_WORDS][MOST_BYTES];
            eitp_text words[MOST_WORDS];
            eitp_sequence_report report;
            int32_t ids[MOST_IDS];
            size_t count = 0;
            for (const eitp_json *word = eitp_json_member(entry, "words")->first_child; word; word = word->next) {
                words[count].size = bytes_of(word, texts[count]);
                words[count].bytes = texts[count];
                count++;
            }
            CHECK(!eitp_tokenizer_encode_words(tokenizer, words, count, NULL, ids, NULL, NULL, MOST_IDS, &report,
                                               &error_));
            CHECK_THAT(same_ids(eitp_json_member(entry, names[i]), ids, report.count), "%s: line %zu", names[i],
                       entry->line);
        }
        eitp_tokenizer_destroy(tokenizer);
    }
    eitp_json_release(document);
}

/* A saved tokenizer is the same after loading. No vocab.json is written, since it would be read as a different
   tokenizer. */
static void saved_tokenizers_are_the_same(void) {
    const eitp_host host = eitp_host_default();
    eitp_json_document *document = open_cases();
    REQUIRE(document);
    for (size_t i = 0; i < NAMES; i++) {
        char path[600], directory[512];
        eitp_path_info info;
        eitp_tokenizer *tokenizer = load_golden(names[i]), *again;
        REQUIRE(tokenizer && scratch_make(directory));
        REQUIRE_OK(eitp_tokenizer_save(tokenizer, directory, &error_), error_);
        again = load(directory);
        CHECK_THAT(eitp_tokenizer_fingerprint(tokenizer) == eitp_tokenizer_fingerprint(again), "%s", names[i]);
        CHECK(eitp_tokenizer_special(tokenizer, EITP_END_OF_TEXT) == eitp_tokenizer_special(again, EITP_END_OF_TEXT));
        check_tokenizer(again, names[i], document);
        snprintf(path, sizeof path, "%s/vocab.json", directory);
        CHECK(!eitp__path_info(&host, path, &info, &error_) && info.kind == EITP_PATH_MISSING);
        eitp_tokenizer_destroy(tokenizer);
        eitp_tokenizer_destroy(again);
        scratch_remove(directory);
    }
    eitp_json_release(document);
}

/* Changes that affect encoding or decoding change the fingerprint. */
static void fingerprints_differ(void) {
    const eitp_host host = eitp_host_default();
    static const struct {
        const char *found, *put;
    } changes[] = {
        {"\"fuse_unk\":true", "\"fuse_unk\":false"},
        {"\"ignore_merges\":false", "\"ignore_merges\":true"},
        {"\"prepend_scheme\":\"first\"", "\"prepend_scheme\":\"always\""},
        {"\"split\":false", "\"split\":true"},
        {"\"unk_token\":\"<unk>\"", "\"unk_token\":\"</s>\""},
        {",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}", ""},
        {"\"normalizer\":null",
         "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xE2\x96\x81\"}"},
    };
    eitp_tokenizer *original = load_golden("mistral");
    eitp__buffer file, changed;
    eitp__buffer_init(&file, &host);
    eitp__buffer_init(&changed, &host);
    REQUIRE(original && !eitp__read_file(&host, GOLDEN "/mistral.json", 1 << 20, &file, &error_));
    eitp__buffer_add(&file, "", 1);
    for (size_t i = 0; i < EITP__COUNT(changes); i++) {
        const char *at = strstr(file.data, changes[i].found);
        eitp_tokenizer *tokenizer = NULL;
        REQUIRE(at);
        eitp__buffer_clear(&changed);
        eitp__buffer_add(&changed, file.data, (size_t)(at - file.data));
        eitp__buffer_add_text(&changed, changes[i].put);
        eitp__buffer_add_text(&changed, at + strlen(changes[i].found));
        CHECK_THAT(!eitp__tokenizer_parse(&host, changed.data, changed.size, &tokenizer, &error_), "%s",
                   error_.message);
        CHECK_THAT(eitp_tokenizer_fingerprint(tokenizer) != eitp_tokenizer_fingerprint(original), "%s", changes[i].put);
        eitp_tokenizer_destroy(tokenizer);
    }
    eitp_tokenizer_destroy(original);
    eitp__buffer_release(&file);
    eitp__buffer_release(&changed);
}

static void special_tokens_are_found(void) {
    static const struct {
        const char *name;
        int32_t end, begin, unknown, added;
    } expected[] = {
        {"gemma", 1, 2, 3, 1}, {"llama2", 2, 1, 0, 1}, {"split", -1, -1, -1, 0}, {"crossing", -1, -1, -1, 0}};
    for (size_t i = 0; i < EITP__COUNT(expected); i++) {
        eitp_tokenizer *tokenizer = load_golden(expected[i].name);
        const char *bytes = NULL;
        size_t size = 0;
        REQUIRE(tokenizer);
        CHECK(eitp_tokenizer_end_of_text(tokenizer) == expected[i].end);
        CHECK(eitp_tokenizer_special(tokenizer, EITP_BEGIN_OF_TEXT) == expected[i].begin);
        CHECK(eitp_tokenizer_special(tokenizer, EITP_UNKNOWN) == expected[i].unknown);
        CHECK(eitp_tokenizer_added_count(tokenizer, 0) == expected[i].added);
        CHECK(!eitp_tokenizer_token(tokenizer, 0, &bytes, &size, &error_) && size == 5);
        eitp_tokenizer_destroy(tokenizer);
    }
}

/* Counts ids and checks that they repeat. */
typedef struct repeated {
    int32_t ids[64];
    size_t period, count, wrong;
} repeated;

static eitp_status repeated_add(void *user, const int32_t *ids, size_t count, eitp_error *error) {
    repeated *r = (repeated *)user;
    (void)error;
    for (size_t i = 0; i < count; i++)
        r->wrong += ids[i] != r->ids[r->count++ % r->period];
    return EITP_OK;
}

/* A string longer than the largest piece, without spaces, is divided where no merge is possible and needs little
   memory. */
static void long_texts_are_cut(void) {
    static const char unit[] = "\xE6\xBC\xA2\xE5\xAD\x97\xE1\x83\x90";
    enum { SIZE = sizeof unit - 1, TIMES = 150000 };
    eitp_tokenizer *tokenizer = NULL;
    eitp_encoder *encoder;
    repeated r = EITP__ZERO;
    faults f;
    faults_begin(&f);
    REQUIRE_OK(eitp_tokenizer_load(&f.host, GOLDEN "/gemma.json", &tokenizer, &error_), error_);
    REQUIRE_OK(eitp_tokenizer_encode(tokenizer, unit, SIZE, r.ids, 64, &r.period, &error_), error_);
    CHECK(r.period == 4);
    REQUIRE_OK(eitp_encoder_create(tokenizer, repeated_add, &r, &encoder, &error_), error_);
    for (int i = 0; i < TIMES; i++)
        CHECK(!eitp_encoder_add(encoder, unit, SIZE, &error_));
    CHECK(!eitp_encoder_finish(encoder, &error_));
    CHECK_THAT(r.count == r.period * TIMES && !r.wrong, "%zu ids, %zu wrong", r.count, r.wrong);
    eitp_encoder_destroy(encoder);
    eitp_tokenizer_destroy(tokenizer);
    CHECK_THAT(f.peak_bytes < 8 << 20, "%zu bytes", f.peak_bytes);
    faults_end(&f);
}

/* Merges a piece with many tokens. If merges are possible across every position, the whole string is one piece. */
static void whole_pieces_are_merged(void) {
    eitp_tokenizer *tokenizer = load_golden("crossing");
    enum { TIMES = 20000 };
    char *text = (char *)malloc(3 * TIMES);
    int32_t *ids = (int32_t *)malloc(sizeof *ids * 3 * TIMES);
    size_t count = 0, wrong = 0;
    REQUIRE(tokenizer && text && ids);
    for (size_t i = 0; i < TIMES; i++)
        memcpy(text + 3 * i, "t 1", 3);
    CHECK(!eitp_tokenizer_encode(tokenizer, text, 3 * TIMES, ids, 3 * TIMES, &count, &error_));
    CHECK_THAT(count == 2 * TIMES, "%zu ids", count);
    for (size_t i = 2; i < count; i++)
        wrong += ids[i] != ids[i - 2];
    CHECK(!wrong);
    free(text);
    free(ids);
    eitp_tokenizer_destroy(tokenizer);
}

/* ---- Refusals ---- */

#define TOKENS                                                                                                         \
    "\"<unk>\": 0, \"\xE2\x96\x81\": 1, \"a\": 2, \"\xE2\x96\x81"                                                      \
    "a\": 3"
#define REPLACE "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"\xE2\x96\x81\"}"
#define PREPEND "{\"type\": \"Prepend\", \"prepend\": \"\xE2\x96\x81\"}"
#define META "{\"type\": \"Metaspace\", \"replacement\": \"\xE2\x96\x81\""
#define STRIP(start) "{\"type\": \"Strip\", \"content\": \" \", \"start\": " start ", \"stop\": 0}"
#define FUSE "{\"type\": \"Fuse\"}"

/* Parses a tokenizer.json with these parts and this vocabulary. */
static eitp_status parse_with(const char *normalizer, const char *pre_tokenizer, const char *decoder, const char *model,
                              const char *tokens) {
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer = NULL;
    eitp__buffer text;
    eitp_status status;
    eitp__buffer_init(&text, &host);
    eitp__buffer_format(&text,
                        "{\"normalizer\": %s, \"pre_tokenizer\": %s, \"decoder\": %s, \"model\": {\"type\": \"BPE\", "
                        "\"byte_fallback\": true, %s, \"vocab\": {%s}}}",
                        normalizer, pre_tokenizer, decoder, model, tokens);
    status = eitp__tokenizer_parse(&host, text.data, text.size, &tokenizer, &error_);
    eitp_tokenizer_destroy(tokenizer);
    eitp__buffer_release(&text);
    return status;
}

static void other_parts_are_refused(void) {
    static const struct {
        const char *normalizer, *pre_tokenizer, *decoder, *message;
    } cases[] = {
        {"null", "null", "null", "neither normalizer nor pre_tokenizer replaces spaces"},
        {"{\"type\": \"NFKC\"}", "null", "null", "neither normalizer nor pre_tokenizer replaces spaces"},
        {"{\"type\": \"Precompiled\"}", "null", "null", "unsupported normalizer \"Precompiled\""},
        {PREPEND, "null", "null", "without a Replace of spaces"},
        {"{\"type\": \"Sequence\", \"normalizers\": [" PREPEND ", " PREPEND "]}", "null", "null", "U+2581, once"},
        {"{\"type\": \"Sequence\", \"normalizers\": [" PREPEND "]}", "null", "null", "without a Replace of spaces"},
        {"{\"type\": \"Sequence\", \"normalizers\": [" REPLACE ", " PREPEND "]}", "null", "null", "\"Prepend\""},
        {"{\"type\": \"Replace\", \"pattern\": {\"String\": \"b\"}, \"content\": \"c\"}", "null", "null",
         "unsupported Replace of the normalizer"},
        {"null", "{\"type\": \"Whitespace\"}", "null", "unsupported pre_tokenizer \"Whitespace\""},
        {"null", "{\"type\": \"Split\", \"pattern\": {\"String\": \" \"}, \"behavior\": \"MergedWithPrevious\"}",
         "null", "unsupported pre_tokenizer \"Split\""},
        {"null", META ", \"prepend_scheme\": \"last\"}", "null", "prepend_scheme \"last\""},
        {"null", META ", \"add_prefix_space\": false}", "null", "never without add_prefix_space"},
        {"null", "{\"type\": \"Metaspace\", \"replacement\": \"_\"}", "null", "it must be U+2581"},
        {REPLACE, "null", "{\"type\": \"ByteLevel\"}", "unsupported decoder \"ByteLevel\""},
        {REPLACE, "null", STRIP("1"), "unsupported decoder \"Strip\""},
        {REPLACE, "null", "{\"type\": \"Sequence\", \"decoders\": [" FUSE ", " STRIP("2") "]}", "unsupported Strip"},
        {REPLACE, "null", "{\"type\": \"Sequence\", \"decoders\": [" FUSE ", {\"type\": \"ByteFallback\"}]}",
         "unsupported decoder \"ByteFallback\""},
        {REPLACE, "null", "{\"type\": \"Sequence\"}", "decoders of the decoder must be an array"},
        {REPLACE, "null", "{}", "type of the decoder is missing"},
    };
    const char *model = "\"unk_token\": \"<unk>\", \"merges\": [\"\xE2\x96\x81 a\"]";
    CHECK_THAT(!parse_with(REPLACE, "null", "null", model, TOKENS), "%s", error_.message);
    CHECK_THAT(!parse_with("null", META "}", "{\"type\": \"Sequence\", \"decoders\": []}", model, TOKENS), "%s",
               error_.message);
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        CHECK(parse_with(cases[i].normalizer, cases[i].pre_tokenizer, cases[i].decoder, model, TOKENS) != EITP_OK);
        CHECK_THAT(strstr(error_.message, cases[i].message), "%s, not %s", error_.message, cases[i].message);
    }
}

static void other_models_are_refused(void) {
    static const struct {
        const char *model, *tokens, *message;
    } cases[] = {
        {"\"merges\": []", "\"a\": 0", "lacks the token U+2581"},
        {"\"merges\": []", "", "has no tokens"},
        {"\"merges\": {}", TOKENS, "\"merges\" of the model must be an array"},
        {"\"merges\": [\"a b\"]", TOKENS, "the right token is not in the vocabulary"},
        {"\"merges\": [\" a\"]", TOKENS, "both must be non-empty"},
        {"\"merges\": [], \"unk_token\": \"<none>\"", TOKENS, "lacks the token \"<none>\""},
        {"\"merges\": [], \"unk_token\": 7", TOKENS, "unk_token of the model must be a string or null"},
        {"\"merges\": [], \"fuse_unk\": 7", TOKENS, "fuse_unk"},
        {"\"merges\": [], \"dropout\": 0.1", TOKENS, "unsupported dropout"},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        CHECK(parse_with(REPLACE, "null", "null", cases[i].model, cases[i].tokens) != EITP_OK);
        CHECK_THAT(strstr(error_.message, cases[i].message), "%s, not %s", error_.message, cases[i].message);
    }
}

/* A directory that contains only a SentencePiece model is refused. */
static void a_directory_without_json_is_refused(void) {
    const eitp_host host = eitp_host_default();
    char directory[512], path[600];
    eitp_tokenizer *tokenizer = NULL;
    REQUIRE(scratch_make(directory));
    snprintf(path, sizeof path, "%s/tokenizer.model", directory);
    REQUIRE_OK(eitp__replace_file(&host, path, "\n\x0f", 2, &error_), error_);
    CHECK(eitp_tokenizer_load(&host, directory, &tokenizer, &error_) == EITP_ERROR_UNSUPPORTED && !tokenizer);
    CHECK_THAT(strstr(error_.message, "AutoTokenizer.from_pretrained(DIRECTORY).save_pretrained(DIRECTORY)"), "%s",
               error_.message);
    scratch_remove(directory);
}

/* Members of tokenizer_config.json that do not override tokenizer.json are kept. */
static void the_configuration_is_kept(void) {
    static const char config[] = "{\"tokenizer_class\": \"LlamaTokenizer\", \"add_prefix_space\": true, \"legacy\": "
                                 "false, \"eos_token\": \"<unk>\", \"pad_token\": \"</s>\"}";
    const eitp_host host = eitp_host_default();
    char directory[512], path[600];
    eitp_tokenizer *tokenizer = load_golden("llama2"), *again;
    eitp__buffer file;
    eitp__buffer_init(&file, &host);
    REQUIRE(tokenizer && scratch_make(directory));
    REQUIRE_OK(eitp_tokenizer_save(tokenizer, directory, &error_), error_);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", directory);
    REQUIRE_OK(eitp__replace_file(&host, path, config, sizeof config - 1, &error_), error_);
    again = load(directory);
    REQUIRE(again);
    CHECK(eitp_tokenizer_end_of_text(again) == 0 && eitp_tokenizer_special(again, EITP_PADDING) == 2);
    REQUIRE_OK(eitp_tokenizer_save(again, directory, &error_), error_);
    REQUIRE(!eitp__read_file(&host, path, 1 << 16, &file, &error_));
    eitp__buffer_add(&file, "", 1);
    CHECK_THAT(strstr(file.data, "\"add_prefix_space\": true") && strstr(file.data, "\"LlamaTokenizer\"") &&
                   strstr(file.data, "\"legacy\": false"),
               "%s", file.data);
    eitp__buffer_release(&file);
    eitp_tokenizer_destroy(tokenizer);
    eitp_tokenizer_destroy(again);
    scratch_remove(directory);
}

/* ---- Failing calls ---- */

static eitp_status use_everything(const eitp_host *host, const char *path, const char *directory, eitp_error *error) {
    static const char text[] = "the  cat\n\n<mask> two words \xE6\xBC\xA2\xE1\x83\x90 q zzz";
    eitp_tokenizer *tokenizer = NULL, *again = NULL;
    int32_t ids[256];
    char decoded[256];
    size_t count = 0, size;
    eitp_status status = eitp_tokenizer_load(host, path, &tokenizer, error);
    CHECK((status == EITP_OK) == (tokenizer != NULL));
    if (status == EITP_OK)
        status = eitp_tokenizer_save(tokenizer, directory, error);
    if (status == EITP_OK)
        status = eitp_tokenizer_load(host, directory, &again, error);
    if (status == EITP_OK)
        status = eitp_tokenizer_encode(again, text, sizeof text - 1, ids, 256, &count, error);
    if (status == EITP_OK)
        status = eitp_tokenizer_decode(again, ids, count, decoded, sizeof decoded, &size, error);
    eitp_tokenizer_destroy(tokenizer);
    eitp_tokenizer_destroy(again);
    return status;
}

static void failing_calls_release_everything(void) {
    char directory[512];
    eitp_error error;
    faults f;
    REQUIRE(scratch_make(directory));
    for (size_t i = 0; i < NAMES; i++) {
        char path[128];
        long n = 0;
        snprintf(path, sizeof path, GOLDEN "/%s.json", names[i]);
        do {
            faults_begin(&f);
            f.fail_allocation = ++n;
            const eitp_status status = use_everything(&f.host, path, directory, &error);
            CHECK_THAT(status == (f.allocations >= n ? EITP_ERROR_MEMORY : EITP_OK), "allocation %ld: %d, %s", n,
                       (int)status, error.message);
        } while (faults_end(&f));
        CHECK_THAT(n > 40, "only %ld allocations", n);
    }
    scratch_remove(directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(texts_are_those_of_the_library),
        TEST(sequences_are_decoded_as_by_the_library),
        TEST(words_are_those_of_the_library),
        TEST(saved_tokenizers_are_the_same),
        TEST(fingerprints_differ),
        TEST(special_tokens_are_found),
        TEST(long_texts_are_cut),
        TEST(whole_pieces_are_merged),
        TEST(other_parts_are_refused),
        TEST(other_models_are_refused),
        TEST(a_directory_without_json_is_refused),
        TEST(the_configuration_is_kept),
        TEST(failing_calls_release_everything),
    };
    return RUN_TESTS(tests, argc, argv);
}
