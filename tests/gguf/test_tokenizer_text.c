/* Hugging Face's files of the tokenizer in a GGUF file, compared with the original tokenizers. */
#include "tests/support/everything.h"

#include "tests/support/faults.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/test.h"

#define GOLDEN "tests/golden/gguf_tokenizers/cases.json"

enum { MOST_IDS = 1024, MOST_BYTES = 4096 };

static eitp_error error_;

/* A host that outlives buffers. */
static const eitp_host *test_host(void) {
    static eitp_host host;
    host = eitp_host_default();
    return &host;
}

/* ---- The original's ids ---- */

typedef eitp_status (*text_function)(const eitp__gguf *gguf, eitp__buffer *text, eitp_error *error);

/* Writes one of Hugging Face's files of a GGUF file. */
static eitp_status write_text(const char *path, text_function write, eitp__buffer *text) {
    eitp__gguf gguf;
    eitp_status status;
    eitp__buffer_init(text, test_host());
    status = eitp__gguf_open(test_host(), path, &gguf, &error_);
    CHECK_THAT(!status, "%s", error_.message);
    if (!status)
        status = write(&gguf, text, &error_);
    eitp__gguf_close(&gguf);
    return status;
}

/* Writes both files of a GGUF file into a directory. */
static void write_files(const char *gguf, const char *directory) {
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json"};
    static const text_function functions[] = {eitp__gguf_write_tokenizer, eitp__gguf_write_tokenizer_config};
    for (int i = 0; i < 2; i++) {
        eitp__buffer text;
        CHECK_THAT(!write_text(gguf, functions[i], &text), "%s", error_.message);
        CHECK(!eitp__write_file(test_host(), scratch_path(directory, names[i]), text.data, text.size, &error_));
        eitp__buffer_release(&text);
    }
}

/* Loads a tokenizer with keys from a GGUF file, by way of Hugging Face's files. */
static eitp_tokenizer *load_keys(const eitp_json *keys) {
    eitp_tokenizer *tokenizer = NULL;
    char directory[512];
    gguf_writer writer;
    gguf_start(&writer);
    for (const eitp_json *value = keys->first_child; value; value = value->next)
        gguf_add_json(&writer, value);
    CHECK(scratch_make(directory));
    CHECK(gguf_finish(&writer, scratch_path(directory, "model.gguf")));
    write_files(scratch_path(directory, "model.gguf"), directory);
    CHECK_THAT(!eitp_tokenizer_load(test_host(), directory, &tokenizer, &error_), "%s", error_.message);
    scratch_remove(directory);
    return tokenizer;
}

static int same_numbers(const eitp_json *expected, const int32_t *numbers, size_t count) {
    const eitp_json *entry = expected ? expected->first_child : NULL;
    if (expected && expected->count != count)
        return 0;
    for (size_t i = 0; i < count && i < MOST_IDS; i++, entry = entry ? entry->next : NULL) {
        if (numbers[i] != (entry ? entry->integer : 0))
            return 0;
    }
    return 1;
}

static void check_text(const eitp_tokenizer *tokenizer, const char *name, const eitp_json *row) {
    const eitp_json *first = eitp_json_member(row, "text"), *second = eitp_json_member(row, "pair");
    const eitp_json *decoded = eitp_json_member(row, "decoded");
    static int32_t ids[MOST_IDS], segments[MOST_IDS];
    static char bytes[MOST_BYTES];
    eitp_sequence_report report = EITP__ZERO;
    eitp_text texts[2] = EITP__ZERO;
    size_t size;
    texts[0].bytes = first->text;
    texts[0].size = first->text_size;
    texts[1].bytes = second ? second->text : NULL;
    texts[1].size = second ? second->text_size : 0;
    REQUIRE_OK(eitp_tokenizer_encode_sequence(tokenizer, &texts[0], second ? &texts[1] : NULL, NULL, ids, segments,
                                              MOST_IDS, &report, &error_),
               error_);
    CHECK_THAT(same_numbers(eitp_json_member(row, "ids"), ids, report.count), "%s: '%s'", name, first->text);
    CHECK_THAT(same_numbers(eitp_json_member(row, "segments"), segments, report.count), "%s: '%s'", name, first->text);
    if (!decoded)
        return;
    REQUIRE_OK(eitp_tokenizer_decode(tokenizer, ids, report.count, bytes, MOST_BYTES, &size, &error_), error_);
    CHECK_THAT(size == decoded->text_size && !memcmp(bytes, decoded->text, size), "%s: '%s' becomes '%.*s', not '%s'",
               name, first->text, (int)size, bytes, decoded->text);
}

/* Compares special tokens with the keys. WordPiece has neither bos_token nor eos_token. */
static void check_special_tokens(const eitp_tokenizer *tokenizer, const eitp_json *keys) {
    static const struct {
        const char *key;
        eitp_special_token which;
    } roles[] = {
        {"tokenizer.ggml.bos_token_id", EITP_BEGIN_OF_TEXT},  {"tokenizer.ggml.eos_token_id", EITP_END_OF_TEXT},
        {"tokenizer.ggml.padding_token_id", EITP_PADDING},    {"tokenizer.ggml.unknown_token_id", EITP_UNKNOWN},
        {"tokenizer.ggml.cls_token_id", EITP_CLASSIFIER},     {"tokenizer.ggml.mask_token_id", EITP_MASK},
        {"tokenizer.ggml.seperator_token_id", EITP_SEPARATOR}};
    const int is_bert = strstr(eitp_json_member(keys, "general.architecture")->text, "bert") &&
                        strcmp(eitp_json_member(keys, "tokenizer.ggml.pre")->text, "roberta-bpe") != 0;
    for (size_t i = 0; i < EITP__COUNT(roles); i++) {
        const eitp_json *id = eitp_json_member(keys, roles[i].key);
        const int32_t found = eitp_tokenizer_special(tokenizer, roles[i].which);
        if (id && (i > 1 || !is_bert))
            CHECK_THAT(found == id->integer, "%s: %ld", roles[i].key, (long)found);
        if (i < 2 && is_bert)
            CHECK_THAT(found < 0, "%s: %ld", roles[i].key, (long)found);
    }
}

static eitp_json_document *open_golden(void) {
    eitp_json_document *document = NULL;
    CHECK_THAT(!eitp__json_read_strict_file(test_host(), GOLDEN, 1 << 20, &document, &error_), "%s", error_.message);
    return document;
}

static void ids_are_those_of_the_original(void) {
    eitp_json_document *document = open_golden();
    size_t texts = 0;
    REQUIRE(document);
    for (const eitp_json *row = eitp_json_member(eitp_json_root(document), "cases")->first_child; row;
         row = row->next) {
        eitp_tokenizer *tokenizer = load_keys(eitp_json_member(row, "keys"));
        const eitp_json *text = eitp_json_member(row, "texts")->first_child;
        if (tokenizer)
            check_special_tokens(tokenizer, eitp_json_member(row, "keys"));
        for (; text && tokenizer; text = text->next, texts++)
            check_text(tokenizer, eitp_json_member(row, "name")->text, text);
        eitp_tokenizer_destroy(tokenizer);
    }
    eitp_json_release(document);
    CHECK_THAT(texts == 15 * 36, "%zu", texts);
}

/* Merges of SentencePiece are derived from the scores, in the order of transformers. */
static void merges_are_those_of_the_library(void) {
    eitp_json_document *document = open_golden();
    char directory[512];
    size_t checked = 0;
    REQUIRE(document && scratch_make(directory));
    for (const eitp_json *row = eitp_json_member(eitp_json_root(document), "cases")->first_child; row;
         row = row->next) {
        const eitp_json *expected = eitp_json_member(row, "merges"), *merge;
        eitp_json_document *written = NULL;
        eitp__buffer text;
        gguf_writer writer;
        if (!expected)
            continue;
        gguf_start(&writer);
        for (const eitp_json *value = eitp_json_member(row, "keys")->first_child; value; value = value->next)
            gguf_add_json(&writer, value);
        CHECK(gguf_finish(&writer, scratch_path(directory, "model.gguf")));
        CHECK(!write_text(scratch_path(directory, "model.gguf"), eitp__gguf_write_tokenizer, &text));
        CHECK_THAT(!eitp_json_parse(test_host(), text.data, text.size, &written, &error_), "%s", error_.message);
        REQUIRE(written);
        merge = eitp_json_member(eitp_json_member(eitp_json_root(written), "model"), "merges");
        CHECK_THAT(merge->count == expected->count, "%s: %zu", eitp_json_member(row, "name")->text, merge->count);
        merge = merge->first_child;
        for (const eitp_json *entry = expected->first_child; entry && merge; entry = entry->next, merge = merge->next)
            CHECK_THAT(!strcmp(entry->text, merge->text), "%s, not %s", merge->text, entry->text);
        eitp_json_release(written);
        eitp__buffer_release(&text);
        checked++;
    }
    scratch_remove(directory);
    eitp_json_release(document);
    CHECK(checked == 4);
}

/* ---- Small files ---- */

typedef enum key_kind { MISSING, TEXT, TEXTS, INTEGER, INTEGERS, REALS, FLAG } key_kind;

/* A key; the entries of an array have | between them. */
typedef struct small_key {
    const char *name;
    key_kind kind;
    const char *value;
} small_key;

static const small_key byte_level[] = {
    {"general.architecture", TEXT, "llama"},
    {"llama.context_length", INTEGER, "64"},
    {"tokenizer.ggml.model", TEXT, "gpt2"},
    {"tokenizer.ggml.pre", TEXT, "llama-bpe"},
    {"tokenizer.ggml.tokens", TEXTS, "a|b|ab|<x>|<y>"},
    {"tokenizer.ggml.token_type", INTEGERS, "1|1|1|3|4"},
    {"tokenizer.ggml.merges", TEXTS, "a b"},
    {"tokenizer.ggml.bos_token_id", INTEGER, "3"},
};

static const small_key sentencepiece[] = {
    {"general.architecture", TEXT, "llama"},
    {"tokenizer.ggml.model", TEXT, "llama"},
    {"tokenizer.ggml.tokens", TEXTS, "<unk>|<s>|</s>|a|b|ab"},
    {"tokenizer.ggml.token_type", INTEGERS, "2|3|3|1|1|1"},
    {"tokenizer.ggml.scores", REALS, "0|0|0|-2|-3|-1"},
};

static const small_key wordpiece[] = {
    {"general.architecture", TEXT, "bert"},
    {"tokenizer.ggml.model", TEXT, "bert"},
    {"tokenizer.ggml.tokens", TEXTS,
     "[UNK]|[CLS]|[SEP]|\xE2\x96\x81"
     "a|b|\xE2\x96\x81|"},
    {"tokenizer.ggml.token_type", INTEGERS, "3|3|3|1|1|1|1"},
    {"tokenizer.ggml.unknown_token_id", INTEGER, "0"},
    {"tokenizer.ggml.cls_token_id", INTEGER, "1"},
    {"tokenizer.ggml.seperator_token_id", INTEGER, "2"},
    {"tokenizer.ggml.bos_token_id", INTEGER, "1"},
    {"tokenizer.ggml.eos_token_id", INTEGER, "2"},
};

static const struct {
    const small_key *keys;
    size_t count;
} smalls[] = {{byte_level, EITP__COUNT(byte_level)},
              {sentencepiece, EITP__COUNT(sentencepiece)},
              {wordpiece, EITP__COUNT(wordpiece)}};

/* Adds the entries of an array. */
static void add_entries(gguf_writer *writer, const small_key *key) {
    const eitp__gguf_kind kind = key->kind == TEXTS   ? EITP__GGUF_STRING
                                 : key->kind == REALS ? EITP__GGUF_F32
                                                      : EITP__GGUF_I32;
    uint64_t count = key->value != NULL;
    for (const char *at = key->value; at && *at; at++)
        count += *at == '|';
    gguf_add_array(writer, key->name, kind, count);
    for (const char *at = key->value; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
        if (key->kind == TEXTS)
            gguf_put_text(&writer->keys, at, strcspn(at, "|"));
        else
            gguf_put_number(writer, kind, strtol(at, NULL, 10), strtod(at, NULL));
    }
}

static void add_small(gguf_writer *writer, const small_key *key) {
    if (key->kind == TEXT)
        gguf_add_text(writer, key->name, key->value);
    else if (key->kind == INTEGER)
        gguf_add_integer(writer, key->name, EITP__GGUF_U32, strtol(key->value, NULL, 10));
    else if (key->kind == FLAG)
        gguf_add_flag(writer, key->name, *key->value == '1');
    else if (key->kind != MISSING)
        add_entries(writer, key);
}

/* Writes a small tokenizer with some keys replaced or added, up to one without a name. */
static void write_small(const char *path, int small, const small_key *changes) {
    gguf_writer writer;
    gguf_start(&writer);
    for (size_t i = 0; i < smalls[small].count; i++) {
        const small_key *change = changes;
        while (change->name && strcmp(change->name, smalls[small].keys[i].name) != 0)
            change++;
        if (!change->name)
            add_small(&writer, &smalls[small].keys[i]);
    }
    for (; changes->name; changes++)
        add_small(&writer, changes);
    CHECK(gguf_finish(&writer, path));
}

#define LONG_TEXT "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct {
    int small; /* 0: byte-level BPE, 1: SentencePiece, 2: WordPiece */
    small_key change;
    eitp_status status;
    const char *message;
} broken[] = {
    {0, {"tokenizer.ggml.model", TEXT, "t5"}, EITP_ERROR_UNSUPPORTED, "unsupported tokenizer 't5'"},
    {0, {"tokenizer.ggml.model", TEXT, "rwkv"}, EITP_ERROR_UNSUPPORTED, "unsupported tokenizer 'rwkv'"},
    {0, {"tokenizer.ggml.model", TEXT, "gemma4"}, EITP_ERROR_UNSUPPORTED, "unsupported tokenizer 'gemma4'"},
    {0, {"tokenizer.ggml.model", TEXT, "none"}, EITP_ERROR_UNSUPPORTED, "the file has no tokenizer"},
    {0, {"tokenizer.ggml.model", MISSING, NULL}, EITP_ERROR_UNSUPPORTED, "key 'tokenizer.ggml.model' is missing"},
    {0, {"tokenizer.ggml.model", INTEGER, "1"}, EITP_ERROR_FORMAT, "key 'tokenizer.ggml.model' must be a string"},
    {0, {"tokenizer.ggml.pre", TEXT, "tekken"}, EITP_ERROR_UNSUPPORTED, "unsupported 'tekken'"},
    {0, {"tokenizer.ggml.pre", TEXT, LONG_TEXT}, EITP_ERROR_UNSUPPORTED, "unsupported '0123"},
    {0, {"tokenizer.ggml.pre", TEXT, "default"}, EITP_ERROR_UNSUPPORTED, "'tokenizer.ggml.pre' does not state"},
    {0, {"tokenizer.ggml.pre", MISSING, NULL}, EITP_ERROR_UNSUPPORTED, "'tokenizer.ggml.pre' does not state"},
    {0, {"tokenizer.ggml.pre", FLAG, "1"}, EITP_ERROR_FORMAT, "key 'tokenizer.ggml.pre' must be a string"},
    {0, {"tokenizer.ggml.tokens", MISSING, NULL}, EITP_ERROR_FORMAT, "key 'tokenizer.ggml.tokens' is missing"},
    {0, {"tokenizer.ggml.tokens", TEXTS, NULL}, EITP_ERROR_FORMAT, "key 'tokenizer.ggml.tokens' is empty"},
    {0, {"tokenizer.ggml.tokens", TEXT, "a"}, EITP_ERROR_FORMAT, "'tokenizer.ggml.tokens' must be an array of strings"},
    {0, {"tokenizer.ggml.tokens", INTEGERS, "1|2"}, EITP_ERROR_FORMAT, "must be an array of strings"},
    {0, {"tokenizer.ggml.tokens", TEXTS, "a|b|ab|a|y"}, EITP_ERROR_FORMAT, "tokens 0 and 3 are both \"a\""},
    {0, {"tokenizer.ggml.tokens", TEXTS, "a|b|ab||y"}, EITP_ERROR_FORMAT, "token 3 is empty"},
    {0, {"tokenizer.ggml.tokens", TEXTS, "a|b|ab|x|\xC3y"}, EITP_ERROR_FORMAT, "token 4 is not UTF-8"},
    {0,
     {"tokenizer.ggml.tokens", TEXTS, "a|b|ab|x"},
     EITP_ERROR_FORMAT,
     "'tokenizer.ggml.token_type' has 5 entries for 4"},
    {0, {"tokenizer.ggml.token_type", INTEGERS, "1|1|1|3|7"}, EITP_ERROR_FORMAT, "token 4 has type 7"},
    {0, {"tokenizer.ggml.token_type", INTEGERS, "1|1|1|3|-1"}, EITP_ERROR_FORMAT, "token 4 has type -1"},
    {0, {"tokenizer.ggml.token_type", REALS, "1|1|1|3|1"}, EITP_ERROR_FORMAT, "must be an array of integers"},
    {0, {"tokenizer.ggml.token_type", TEXTS, "1|1|1|3|1"}, EITP_ERROR_FORMAT, "must be an array of numbers"},
    {0, {"tokenizer.ggml.merges", MISSING, NULL}, EITP_ERROR_FORMAT, "key 'tokenizer.ggml.merges' is missing"},
    {0, {"tokenizer.ggml.merges", INTEGERS, "1"}, EITP_ERROR_FORMAT, "'tokenizer.ggml.merges' must be an array of"},
    {0, {"tokenizer.ggml.merges", TEXTS, "a b|ab"}, EITP_ERROR_FORMAT, "merge 1, \"ab\", is not two tokens"},
    {0, {"tokenizer.ggml.merges", TEXTS, "a "}, EITP_ERROR_FORMAT, "merge 0, \"a \", is not two tokens"},
    {0, {"tokenizer.ggml.merges", TEXTS, ""}, EITP_ERROR_FORMAT, "merge 0, \"\", is not two tokens"},
    {0, {"tokenizer.ggml.merges", TEXTS, "a b|b a"}, EITP_ERROR_FORMAT, "merge 1, \"b a\", has a part or result"},
    {0, {"tokenizer.ggml.merges", TEXTS, "a c"}, EITP_ERROR_FORMAT, "merge 0, \"a c\", has a part or result"},
    {0, {"tokenizer.ggml.bos_token_id", INTEGER, "5"}, EITP_ERROR_FORMAT, "'tokenizer.ggml.bos_token_id' is 5"},
    {0, {"tokenizer.ggml.bos_token_id", TEXT, "a"}, EITP_ERROR_FORMAT, "'tokenizer.ggml.bos_token_id' must be"},
    {0, {"tokenizer.ggml.bos_token_id", MISSING, NULL}, EITP_ERROR_FORMAT, "'tokenizer.ggml.bos_token_id' is missing"},
    {0, {"tokenizer.ggml.add_eos_token", FLAG, "1"}, EITP_ERROR_FORMAT, "'tokenizer.ggml.eos_token_id' is missing"},
    {0,
     {"tokenizer.ggml.add_bos_token", INTEGER, "1"},
     EITP_ERROR_FORMAT,
     "'tokenizer.ggml.add_bos_token' must be true"},
    {0,
     {"tokenizer.ggml.mask_token_id", INTEGER, "4294967295"},
     EITP_ERROR_FORMAT,
     "'tokenizer.ggml.mask_token_id' is"},
    {0,
     {"tokenizer.ggml.add_space_prefix", FLAG, "1"},
     EITP_ERROR_UNSUPPORTED,
     "'tokenizer.ggml.add_space_prefix': unsup"},
    {0,
     {"tokenizer.ggml.normalizer.strip_accents", FLAG, "1"},
     EITP_ERROR_UNSUPPORTED,
     "strip_accents': unsupported true"},
    {0,
     {"tokenizer.ggml.remove_extra_whitespaces", FLAG, "1"},
     EITP_ERROR_UNSUPPORTED,
     "whitespaces': unsupported true"},
    {0, {"tokenizer.ggml.precompiled_charsmap", INTEGERS, "1"}, EITP_ERROR_UNSUPPORTED, "precompiled_charsmap': unsup"},
    {1, {"tokenizer.ggml.scores", MISSING, NULL}, EITP_ERROR_FORMAT, "key 'tokenizer.ggml.scores' is missing"},
    {1, {"tokenizer.ggml.scores", REALS, "0|0|0|-2|-3"}, EITP_ERROR_FORMAT, "must be an array of 6 numbers"},
    {1, {"tokenizer.ggml.scores", REALS, "0|0|0|-2|-3|nan"}, EITP_ERROR_FORMAT, "score of token 5 is not a finite"},
    {1, {"tokenizer.ggml.scores", REALS, "0|inf|0|-2|-3|1"}, EITP_ERROR_FORMAT, "score of token 1 is not a finite"},
    {1,
     {"tokenizer.ggml.scores", TEXTS, "0"},
     EITP_ERROR_FORMAT,
     "'tokenizer.ggml.scores' must be an array of numbers"},
    {1, {"general.architecture", INTEGER, "1"}, EITP_ERROR_FORMAT, "'general.architecture' must be a string"},
    {0, {"tokenizer.ggml.add_sep_token", FLAG, "1"}, EITP_ERROR_FORMAT, "'tokenizer.ggml.seperator_token_id' is miss"},
    {0, {"llama.context_length", TEXT, "64"}, EITP_ERROR_FORMAT, "'llama.context_length' must be an integer"},
    {0, {"llama.context_length", INTEGER, "0"}, EITP_ERROR_FORMAT, "'llama.context_length' is 0"},
    {0, {"tokenizer.chat_template", INTEGER, "0"}, EITP_ERROR_FORMAT, "'tokenizer.chat_template' must be a string"},
    {0, {"tokenizer.chat_template", TEXT, "x\xFF"}, EITP_ERROR_FORMAT, "'tokenizer.chat_template' is not UTF-8"},
    {0, {"tokenizer.chat_template.rag", TEXTS, "x"}, EITP_ERROR_FORMAT, "'tokenizer.chat_template.rag' must be a str"},
    {2, {"tokenizer.ggml.token_type", MISSING, NULL}, EITP_ERROR_FORMAT, "'tokenizer.ggml.token_type' is missing"},
    {2,
     {"tokenizer.ggml.unknown_token_id", MISSING, NULL},
     EITP_ERROR_FORMAT,
     "'tokenizer.ggml.unknown_token_id' is miss"},
    {2,
     {"tokenizer.ggml.seperator_token_id", MISSING, NULL},
     EITP_ERROR_FORMAT,
     "'tokenizer.ggml.seperator_token_id' is"},
    {2, {"tokenizer.ggml.add_bos_token", FLAG, "0"}, EITP_ERROR_UNSUPPORTED, "add_bos_token': unsupported false"},
    {2, {"tokenizer.ggml.add_space_prefix", FLAG, "1"}, EITP_ERROR_UNSUPPORTED, "add_space_prefix': unsupported true"},
};

static void broken_keys_are_named(void) {
    char directory[512];
    REQUIRE(scratch_make(directory));
    for (size_t i = 0; i < EITP__COUNT(broken); i++) {
        const char *path = scratch_path(directory, "model.gguf");
        small_key changes[2] = EITP__ZERO;
        eitp__buffer text;
        eitp_status status;
        changes[0] = broken[i].change;
        write_small(path, broken[i].small, changes);
        error_.message[0] = 0;
        status = write_text(path, eitp__gguf_write_tokenizer, &text);
        eitp__buffer_release(&text);
        if (!status)
            status = write_text(path, eitp__gguf_write_tokenizer_config, &text);
        CHECK_THAT(status == broken[i].status && strstr(error_.message, broken[i].message), "%zu: %d, %s", i, status,
                   error_.message);
        eitp__buffer_release(&text);
    }
    scratch_remove(directory);
}

static void count_lines(void *user, eitp_log_level level, const char *message) {
    CHECK_THAT(level == EITP_LOG_WARNING && strstr(message, "model.gguf: "), "%s", message);
    ++*(size_t *)user;
}

/* Returns the number of warnings about a small tokenizer. */
static size_t count_warnings(int small, const small_key *changes) {
    static const text_function functions[] = {eitp__gguf_write_tokenizer, eitp__gguf_write_tokenizer_config};
    char directory[512];
    eitp_host host = eitp_host_default();
    size_t lines = 0;
    eitp__gguf gguf;
    eitp__buffer text;
    host.log.user = &lines;
    host.log.write = count_lines;
    CHECK(scratch_make(directory));
    write_small(scratch_path(directory, "model.gguf"), small, changes);
    CHECK(!eitp__gguf_open(&host, scratch_path(directory, "model.gguf"), &gguf, &error_));
    eitp__buffer_init(&text, &host);
    for (int i = 0; i < 2; i++)
        CHECK_THAT(!functions[i](&gguf, &text, &error_), "%s", error_.message);
    eitp__buffer_release(&text);
    eitp__gguf_close(&gguf);
    scratch_remove(directory);
    return lines;
}

static void guesses_are_logged(void) {
    static const small_key none[] = {{NULL, MISSING, NULL}};
    static const small_key gpt2[] = {
        {"general.architecture", TEXT, "gpt2"}, {"tokenizer.ggml.pre", TEXT, "default"}, {NULL, MISSING, NULL}};
    static const small_key cased[] = {{"tokenizer.ggml.tokens", TEXTS, "[UNK]|[CLS]|[SEP]|a|b|C|d"},
                                      {NULL, MISSING, NULL}};
    static const small_key known[] = {{"tokenizer.ggml.tokens", TEXTS, "[UNK]|[CLS]|[SEP]|a|b|C|d"},
                                      {"tokenizer.ggml.normalizer.lowercase", FLAG, "0"},
                                      {NULL, MISSING, NULL}};
    for (int small = 0; small < 3; small++)
        CHECK(!count_warnings(small, none));
    CHECK(count_warnings(0, gpt2) == 1);
    CHECK(count_warnings(2, cased) == 1);
    CHECK(!count_warnings(2, known));
}

/* A small file whose tokens can be merged in very many ways. */
static void merges_are_limited(void) {
    static const struct {
        size_t tokens;
        const char *message;
    } cases[] = {{700, "merges have more than 67108864 bytes"}, {2100, "tokens have more than 2097152 merges"}};
    static char run[4096];
    char directory[512];
    memset(run, 'a', sizeof run);
    REQUIRE(scratch_make(directory));
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        const char *path = scratch_path(directory, "model.gguf");
        gguf_writer writer;
        eitp__buffer text;
        gguf_start(&writer);
        gguf_add_text(&writer, "tokenizer.ggml.model", "llama");
        gguf_add_array(&writer, "tokenizer.ggml.tokens", EITP__GGUF_STRING, cases[i].tokens);
        for (size_t size = 1; size <= cases[i].tokens; size++)
            gguf_put_text(&writer.keys, run, size);
        gguf_add_array(&writer, "tokenizer.ggml.scores", EITP__GGUF_I32, cases[i].tokens);
        for (size_t size = 1; size <= cases[i].tokens; size++)
            gguf_put_number(&writer, EITP__GGUF_I32, (int64_t)size, 0);
        CHECK(gguf_finish(&writer, path));
        CHECK(write_text(path, eitp__gguf_write_tokenizer, &text) == EITP_ERROR_UNSUPPORTED);
        CHECK_THAT(strstr(error_.message, cases[i].message), "%s", error_.message);
        eitp__buffer_release(&text);
    }
    scratch_remove(directory);
}

/* Returns the text of a small tokenizer's file; release it. */
static eitp__buffer small_text(int small, const small_key *changes, text_function write) {
    char directory[512];
    eitp__buffer text;
    CHECK(scratch_make(directory));
    write_small(scratch_path(directory, "model.gguf"), small, changes);
    CHECK_THAT(!write_text(scratch_path(directory, "model.gguf"), write, &text), "%s", error_.message);
    scratch_remove(directory);
    return text;
}

static void check_part(int small, const small_key *changes, text_function write, const char *part, int is_present) {
    eitp__buffer text = small_text(small, changes, write);
    CHECK_THAT(text.data && (strstr(text.data, part) != NULL) == is_present, "%s: %s", part, text.data);
    eitp__buffer_release(&text);
}

/* Other parts equal the original files' parts. */
static void parts_are_those_of_the_original(void) {
    static const small_key none[] = {{NULL, MISSING, NULL}};
    static const small_key adds_none[] = {{"tokenizer.ggml.add_bos_token", FLAG, "0"}, {NULL, MISSING, NULL}};
    static const small_key smollm[] = {{"tokenizer.ggml.pre", TEXT, "smollm"}, {NULL, MISSING, NULL}};
    static const small_key lowers[] = {{"tokenizer.ggml.normalizer.lowercase", FLAG, "1"}, {NULL, MISSING, NULL}};
    static const small_key adds_no_space[] = {{"tokenizer.ggml.add_space_prefix", FLAG, "0"}, {NULL, MISSING, NULL}};
    static const small_key separated[] = {{"tokenizer.ggml.pre", TEXT, "roberta-bpe"},
                                          {"tokenizer.ggml.eos_token_id", INTEGER, "4"},
                                          {"tokenizer.ggml.add_eos_token", FLAG, "1"},
                                          {NULL, MISSING, NULL}};
    static const small_key begun[] = {{"tokenizer.ggml.cls_token_id", MISSING, NULL}, {NULL, MISSING, NULL}};
    static const char llama3[] =
        "\"post_processor\": {\"type\": \"Sequence\", \"processors\": [{\"type\": \"ByteLevel\", \"add_prefix_space\": "
        "true, \"trim_offsets\": false, \"use_regex\": true}, {\"type\": \"TemplateProcessing\", \"single\": "
        "[{\"SpecialToken\": {\"id\": \"<x>\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], "
        "\"pair\": [{\"SpecialToken\": {\"id\": \"<x>\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": "
        "0}}, {\"SpecialToken\": {\"id\": \"<x>\", \"type_id\": 1}}, {\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}], "
        "\"special_tokens\": {\"<x>\": {\"id\": \"<x>\", \"ids\": [3], \"tokens\": [\"<x>\"]}}}]},\n";
    check_part(0, none, eitp__gguf_write_tokenizer, llama3, 1);
    check_part(0, smollm, eitp__gguf_write_tokenizer, "{\"type\": \"Digits\", \"individual_digits\": true}", 1);
    check_part(0, lowers, eitp__gguf_write_tokenizer, "\"normalizer\": {\"type\": \"Lowercase\"},", 1);
    check_part(0, none, eitp__gguf_write_tokenizer, "{\"id\": 3, \"content\": \"<x>\"", 1);
    check_part(0, none, eitp__gguf_write_tokenizer, "\"normalized\": false, \"special\": true},\n{\"id\": 4", 1);
    check_part(0, none, eitp__gguf_write_tokenizer, "\"normalized\": false, \"special\": false}],", 1);
    check_part(
        0, separated, eitp__gguf_write_tokenizer,
        "{\"SpecialToken\": {\"id\": \"<y>\", \"type_id\": 0}}, {\"SpecialToken\": {\"id\": \"<y>\", \"type_id\": "
        "0}}, {\"Sequence\": {\"id\": \"B\"",
        1);
    check_part(2, begun, eitp__gguf_write_tokenizer, "\"single\": [{\"SpecialToken\": {\"id\": \"[CLS]\"", 1);
    check_part(1, none, eitp__gguf_write_tokenizer, "{\"id\": 0, \"content\": \"<unk>\"", 1);
    check_part(1, none, eitp__gguf_write_tokenizer, "\"fuse_unk\": true, \"byte_fallback\": true", 1);
    check_part(1, none, eitp__gguf_write_tokenizer, "\"Strip\"", 1);
    check_part(1, adds_no_space, eitp__gguf_write_tokenizer, "\"Strip\"", 0);
    check_part(0, adds_none, eitp__gguf_write_tokenizer, "TemplateProcessing", 0);
    check_part(0, none, eitp__gguf_write_tokenizer, "\"ignore_merges\": true", 1);
    check_part(1, none, eitp__gguf_write_tokenizer, "\"ignore_merges\": false", 1);
    check_part(1, adds_none, eitp__gguf_write_tokenizer, "\"post_processor\": null", 1);
    check_part(2, none, eitp__gguf_write_tokenizer, "\n\"a\": 3,\n\"##b\": 4,\n\"##\xE2\x96\x81\": 5,\n\"##\": 6}", 1);
}

static void config_names_special_tokens(void) {
    static const small_key none[] = {{NULL, MISSING, NULL}};
    static const small_key one[] = {{"tokenizer.chat_template", TEXT, "{{ \"x\" }}"}, {NULL, MISSING, NULL}};
    static const small_key two[] = {{"tokenizer.chat_template", TEXT, "x"},
                                    {"tokenizer.chat_template.tool_use", TEXT, "y"},
                                    {"tokenizer.chat_templates", TEXTS, "tool_use"},
                                    {NULL, MISSING, NULL}};
    static const small_key roberta[] = {{"tokenizer.ggml.pre", TEXT, "roberta-bpe"},
                                        {"tokenizer.ggml.cls_token_id", INTEGER, "3"},
                                        {"tokenizer.ggml.eos_token_id", INTEGER, "4"},
                                        {NULL, MISSING, NULL}};
    const text_function config = eitp__gguf_write_tokenizer_config;
    check_part(0, roberta, config, "\"tokenizer_class\": \"RobertaTokenizer\"", 1);
    check_part(0, roberta, config, "\"bos_token\": \"<x>\",\n\"eos_token\": \"<y>\",\n\"cls_token\": \"<x>\"", 1);
    check_part(0, none, config, "\"tokenizer_class\": \"PreTrainedTokenizerFast\"", 1);
    check_part(0, none, config, "\"bos_token\": \"<x>\"", 1);
    check_part(0, none, config, "eos_token", 0);
    check_part(0, none, config, "\"model_max_length\": 64", 1);
    check_part(0, none, config, "chat_template", 0);
    check_part(0, one, config, "\"chat_template\": \"{{ \\\"x\\\" }}\"", 1);
    check_part(0, two, config,
               "\"chat_template\": [{\"name\": \"default\", \"template\": \"x\"},\n"
               "{\"name\": \"tool_use\", \"template\": \"y\"}]",
               1);
    check_part(1, none, config, "\"bos_token\": \"<s>\",\n\"unk_token\"", 0);
    check_part(1, none, config, "\"bos_token\": \"<s>\",\n\"eos_token\": \"</s>\",\n\"unk_token\": \"<unk>\"}", 1);
    check_part(2, none, config, "bos_token", 0); /* only repeats cls_token */
    check_part(2, none, config, "\"unk_token\": \"[UNK]\",\n\"pad_token\": \"[UNK]\",\n\"sep_token\": \"[SEP]\"", 1);
    check_part(2, none, config, "\"do_lower_case\": true,\n\"strip_accents\": true", 1);
}

static void presence_is_found(void) {
    static const struct {
        const char *model;
        int is_present;
    } cases[] = {{"gpt2", 1}, {"t5", 1}, {"none", 0}, {"no_vocab", 0}, {NULL, 0}};
    char directory[512];
    REQUIRE(scratch_make(directory));
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        const char *path = scratch_path(directory, "model.gguf");
        small_key changes[2] = {{"tokenizer.ggml.model", MISSING, NULL}, {NULL, MISSING, NULL}};
        eitp__gguf gguf;
        changes[0].kind = cases[i].model ? TEXT : MISSING;
        changes[0].value = cases[i].model;
        write_small(path, 0, changes);
        REQUIRE_OK(eitp__gguf_open(test_host(), path, &gguf, &error_), error_);
        CHECK_THAT(eitp__gguf_has_tokenizer(&gguf) == cases[i].is_present, "%zu", i);
        eitp__gguf_close(&gguf);
    }
    scratch_remove(directory);
}

/* Every allocation fails once. */
static void memory_may_run_out(void) {
    static const small_key none[] = {{NULL, MISSING, NULL}};
    static const text_function functions[] = {eitp__gguf_write_tokenizer, eitp__gguf_write_tokenizer_config};
    char directory[512];
    REQUIRE(scratch_make(directory));
    for (int i = 0; i < 6; i++) {
        const char *path = scratch_path(directory, "model.gguf");
        long n = 0;
        faults f;
        write_small(path, i / 2, none);
        do {
            eitp__gguf gguf;
            eitp__buffer text;
            eitp_status status;
            faults_begin(&f);
            f.fail_allocation = ++n;
            eitp__buffer_init(&text, &f.host);
            status = eitp__gguf_open(&f.host, path, &gguf, &error_);
            if (!status)
                status = functions[i % 2](&gguf, &text, &error_);
            CHECK_THAT(status == (f.failures ? EITP_ERROR_MEMORY : EITP_OK), "%d: %s", i, error_.message);
            eitp__buffer_release(&text);
            eitp__gguf_close(&gguf);
        } while (faults_end(&f));
        CHECK(n > 5);
    }
    scratch_remove(directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(ids_are_those_of_the_original),
        TEST(merges_are_those_of_the_library),
        TEST(broken_keys_are_named),
        TEST(merges_are_limited),
        TEST(guesses_are_logged),
        TEST(parts_are_those_of_the_original),
        TEST(config_names_special_tokens),
        TEST(presence_is_found),
        TEST(memory_may_run_out),
    };
    return RUN_TESTS(tests, argc, argv);
}
