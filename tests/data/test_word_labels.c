/* Word labels: read from CoNLL columns and JSON lists, packed, and read back. */
#include "tests/support/everything.h"

#include "tests/support/faults.h"
#include "tests/support/test.h"

#define GOLDEN "tests/golden/words"

enum { MOST_TOKENS = 64 };

static char scratch[512];
static eitp_tokenizer *wordpiece, *roberta;

static const char *at(const char *name) {
    return scratch_path(scratch, name);
}

static int put(const char *name, const char *text) {
    const eitp_host host = eitp_host_default();
    return eitp__write_file(&host, at(name), text, strlen(text), NULL) == EITP_OK;
}

static int has(const eitp_error *error, const char *text) {
    if (strstr(error->message, text))
        return 1;
    printf("    no \"%s\" in \"%s\"\n", text, error->message);
    return 0;
}

/* ---- Reading ---- */

/* Formats "word/label word/label @line:column", or "word word" without labels, with one line for each row. */
static void add_row(char *rows, size_t size, const eitp_example *example) {
    size_t used = strlen(rows);
    char joined[400] = "";
    for (size_t i = 0; i < example->word_count; i++) {
        const eitp_text *word = &example->words[i];
        const eitp_text none = {"", 0}, *label = i < example->label_count ? &example->labels[i] : &none;
        used += (size_t)snprintf(rows + used, size - used, "%.*s%s%.*s ", (int)word->size, word->bytes,
                                 example->label_count ? "/" : "", (int)label->size, label->bytes);
        strncat(joined, word->bytes, word->size);
        strcat(joined, i + 1 < example->word_count ? " " : "");
    }
    snprintf(rows + used, size - used, "@%d:%d\n", (int)example->line, (int)example->column);
    CHECK(!example->words ||
          (strlen(joined) == example->text.size && !memcmp(joined, example->text.bytes, example->text.size)));
    CHECK(!example->words || example->labels_are_list == (example->label_count > 0));
}

static eitp_status read_rows(eitp_table_config config, const char *name, char *rows, size_t size,
                             eitp_table_statistics *statistics, eitp_error *error) {
    const eitp_host host = eitp_host_default();
    const char *path = at(name);
    eitp_table *table = NULL;
    eitp_example example = EITP__ZERO;
    int is_end = 0;
    rows[0] = 0;
    config.texts.paths = &path;
    config.texts.path_count = 1;
    eitp_status status = eitp_table_open(&host, &config, &table, error);
    const eitp_example_source source = eitp_table_source(table);
    while (status == EITP_OK && !is_end) {
        status = source.read(source.user, &example, &is_end, error);
        if (status == EITP_OK && !is_end)
            add_row(rows, size, &example);
    }
    *statistics = eitp_table_get_statistics(table);
    eitp_table_close(table);
    return status;
}

/* A file, how it is read, and its rows; or, with `status`, words of the error message. */
typedef struct reading {
    const char *name, *content, *text_column, *label_column;
    int skip_bad;
    eitp_status status;
    const char *expected;
    int skipped;
} reading;

static void check_reading(const reading *r) {
    char rows[1000];
    eitp_table_config config = eitp_table_config_default();
    eitp_table_statistics statistics;
    eitp_error error = EITP__ZERO;
    config.texts.text_column = r->text_column;
    config.label_column = r->label_column;
    config.texts.skip_bad = r->skip_bad;
    config.row_limit = 60;
    CHECK(put(r->name, r->content));
    for (config.texts.read_size = 1; config.texts.read_size < 9; config.texts.read_size++) {
        const eitp_status status = read_rows(config, r->name, rows, sizeof rows, &statistics, &error);
        CHECK_THAT(status == r->status, "%s: %s", r->content, error.message);
        CHECK_THAT(r->status ? has(&error, r->expected) : !strcmp(rows, r->expected), "%s", rows);
        CHECK((int)statistics.skipped_rows == r->skipped);
    }
}

static void test_conll(void) {
    static const reading readings[] = {
        {"a.conll", "EU B-ORG\nrejects O\n\nGerman\tB-MISC\n", NULL, NULL, 0, EITP_OK,
         "EU/B-ORG rejects/O @1:1\nGerman/B-MISC @4:1\n", 0},
        {"a.bio", "\r\n \t\n-DOCSTART- -X- O\r\n\r\na  NN  B\r\nb NN O \r\n-DOCSTART-\nc NN O", NULL, NULL, 0, EITP_OK,
         "a/B b/O @5:1\nc/O @8:1\n", 0},
        {"a.iob", "1\tEU\tNNP\tB\n2\tx\tNN\tO\n", "2", "3", 0, EITP_OK, "EU/NNP x/NN @1:1\n", 0},
        {"a.conll", "only\nwords\n\nhere", NULL, NULL, 0, EITP_OK, "only words @1:1\nhere @4:1\n", 0},
        {"a.conll", "\n\n", NULL, NULL, 0, EITP_OK, "", 0},
        {"a.conll", "a B\n\xE4\xBD\xA0 N N\n", NULL, NULL, 0, EITP_ERROR_FORMAT,
         "a.conll: line 2, column 6: the line has 3 columns, expected 2 as in line 1", 0},
        {"a.conll", "a B\nb\nc O\n\nd O\n", NULL, NULL, 1, EITP_OK, "d/O @5:1\n", 1},
        {"a.conll", "a B\n\nb O\nc\n", NULL, NULL, 1, EITP_OK, "a/B @1:1\n", 1},
        {"a.conll", "a B\n\nb\n\nc\n\nd O", NULL, NULL, 1, EITP_OK, "a/B @1:1\nd/O @7:1\n", 2},
        {"a.conll", "a B\nb O\n", NULL, "3", 0, EITP_ERROR_ARGUMENT, "line 1: no column 3 (the line has 2)", 0},
        {"a.conll", "a B\n", "token", NULL, 0, EITP_ERROR_ARGUMENT, "no column named 'token'", 0},
        {"a.conll", "a B-LONGLABEL\nb B-LONGLABEL\nc B-LONGLABEL\nd B-LONGLABEL\nd B-LONGLABEL\n\ne O\n", NULL, NULL, 0,
         EITP_ERROR_FORMAT, "line 1, column 1: the sentence exceeds the limit of 60 bytes", 0},
        {"a.conll", "a B-LONGLABEL\nb B-LONGLABEL\nc B-LONGLABEL\nd B-LONGLABEL\nd B-LONGLABEL\n\ne O\n", NULL, NULL, 1,
         EITP_OK, "e/O @7:1\n", 1},
        {"a.conll", "a O\nbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb O\nc O\n\nd O\n",
         NULL, NULL, 1, EITP_OK, "d/O @5:1\n", 1},
    };
    REQUIRE(scratch_make(scratch));
    for (size_t i = 0; i < EITP__COUNT(readings); i++)
        check_reading(&readings[i]);
    scratch_remove(scratch);
}

static void test_json_lists(void) {
    static const reading readings[] = {
        {"a.jsonl", "{\"tokens\":[\"EU\",\"a b\",\"\"],\"ner\":[3,0,\"O\"]}\n", "tokens", "ner", 0, EITP_OK,
         "EU/3 a b/0 /O @1:11\n", 0},
        {"a.jsonl", "{\"text\":[\"x\"]}\n{\"text\":\"y\"}\n", NULL, NULL, 0, EITP_OK, "x @1:9\n@2:9\n", 0},
        {"a.jsonl", "{\"text\":[]}\n", NULL, NULL, 0, EITP_ERROR_FORMAT,
         "line 1, column 9: 'text' is an empty list of words", 0},
        {"a.jsonl", "{\"text\":[\"x\",4]}\n", NULL, NULL, 0, EITP_ERROR_FORMAT,
         "line 1, column 14: 'text' must be a string or a list of words (got a number)", 0},
        {"a.jsonl", "{\"text\":[]}\n{\"text\":[\"z\"],\"label\":[\"O\"]}\n", NULL, NULL, 1, EITP_OK, "z/O @2:9\n", 1},
    };
    REQUIRE(scratch_make(scratch));
    for (size_t i = 0; i < EITP__COUNT(readings); i++)
        check_reading(&readings[i]);
    scratch_remove(scratch);
}

/* Language models read the words as text. */
static void test_words_are_texts(void) {
    const eitp_host host = eitp_host_default();
    const char *path;
    eitp_text_files_config config = eitp_text_files_config_default();
    eitp_text_files *files;
    eitp_text_source source;
    eitp_error error;
    const char *text;
    size_t size;
    REQUIRE(scratch_make(scratch) && put("a.conll", "EU B\nrejects O\n\nGerman B\n"));
    path = at("a.conll");
    config.paths = &path;
    config.path_count = 1;
    REQUIRE_OK(eitp_text_files_open(&host, &config, &files, &error), error);
    source = eitp_text_files_source(files);
    REQUIRE_OK(source.read(source.user, &text, &size, &error), error);
    CHECK(size == 10 && !memcmp(text, "EU rejects", size));
    eitp_text_files_close(files);
    scratch_remove(scratch);
}

/* ---- Packing ---- */

static eitp_status pack(const eitp_host *host, const eitp_tokenizer *tokenizer, const eitp_labelled_pack_config *config,
                        const char *name, eitp_sample_file_info *info, eitp_error *error) {
    const char *path = at(name);
    eitp_table_config table_config = eitp_table_config_default();
    eitp_example_source source;
    eitp_table *table;
    table_config.texts.paths = &path;
    table_config.texts.path_count = 1;
    table_config.texts.skip_bad = config->skip_bad;
    eitp_status status = eitp_table_open(host, &table_config, &table, error);
    if (status != EITP_OK)
        return status;
    source = eitp_table_source(table);
    status = eitp_labelled_pack(host, tokenizer, config, &source, at("a.lab"), info, error);
    eitp_table_close(table);
    return status;
}

/* Formats "token:label token", with a dot for tokens without a label. */
static void describe(const eitp_labelled_source *source, uint64_t number, const eitp_tokenizer *tokenizer, char *text,
                     size_t size) {
    int32_t ids[MOST_TOKENS], labels[MOST_TOKENS];
    eitp_labelled_sample sample = EITP__ZERO;
    eitp_error error;
    size_t used = 0;
    sample.ids = ids;
    sample.token_labels = labels;
    text[0] = 0;
    REQUIRE(source->max_length <= MOST_TOKENS);
    REQUIRE_OK(source->read(source->user, number, &sample, &error), error);
    CHECK(sample.label == -1);
    for (int64_t i = 0; i < sample.length; i++) {
        const char *bytes;
        size_t length;
        REQUIRE_OK(eitp_tokenizer_token(tokenizer, ids[i], &bytes, &length, &error), error);
        used += (size_t)snprintf(text + used, size - used, "%s%.*s:%s", i ? " " : "", (int)length, bytes,
                                 labels[i] < 0 ? "." : source->labels[labels[i]]);
    }
}

static void check_sample(const eitp_tokenizer *tokenizer, uint64_t number, const char *expected) {
    const eitp_host host = eitp_host_default();
    eitp_sample_file *file;
    eitp_labelled_source source;
    char text[600];
    eitp_error error;
    REQUIRE_OK(eitp_sample_file_open(&host, at("a.lab"), 0, &file, &error), error);
    REQUIRE_OK(eitp_sample_file_verify(file, &error), error);
    source = eitp_sample_file_labelled_source(file);
    CHECK(source.problem == EITP_PROBLEM_TOKENS);
    describe(&source, number, tokenizer, text, sizeof text);
    CHECK_THAT(!strcmp(text, expected), "%s", text);
    eitp_sample_file_close(file);
}

static const char sentence[] = "unaffable B-X\nwater O\ndon't I-X\n\nthe O\n";

/* The first piece of a word has the word's label. */
static void test_first_pieces_have_labels(void) {
    const eitp_host host = eitp_host_default();
    eitp_labelled_pack_config config = eitp_labelled_pack_config_default();
    eitp_sample_file_info info;
    eitp_error error;
    REQUIRE(scratch_make(scratch) && put("a.conll", sentence));
    REQUIRE_OK(pack(&host, wordpiece, &config, "a.conll", &info, &error), error);
    CHECK(info.problem == EITP_PROBLEM_TOKENS && info.label_count == 3 && info.sample_count == 2 && !info.cut_words);
    check_sample(wordpiece, 0, "[CLS]:. unaff:B-X ##able:. water:O don:I-X ':. t:. [SEP]:.");
    check_sample(wordpiece, 1, "[CLS]:. the:O [SEP]:.");
    REQUIRE_OK(pack(&host, roberta, &config, "a.conll", &info, &error), error);
    check_sample(roberta, 1, "<s>:.  the:O </s>:.");
    config.sequence.max_length = 5;
    REQUIRE_OK(pack(&host, wordpiece, &config, "a.conll", &info, &error), error);
    CHECK(info.cut_samples == 1 && info.cut_ids == 3 && info.cut_words == 1 && info.max_length == 5);
    check_sample(wordpiece, 0, "[CLS]:. unaff:B-X ##able:. water:O [SEP]:.");
    config.sequence.truncate_left = 1;
    config.sequence.max_length = 7;
    REQUIRE_OK(pack(&host, wordpiece, &config, "a.conll", &info, &error), error);
    CHECK(info.cut_ids == 1 && info.cut_words == 0);
    check_sample(wordpiece, 0, "[CLS]:. ##able:B-X water:O don:I-X ':. t:. [SEP]:.");
    scratch_remove(scratch);
}

/* Integers are names, in their own order. A model's names determine the numbers. */
static void test_numbers_of_labels(void) {
    static const char *const names[] = {"10", "9"};
    const eitp_host host = eitp_host_default();
    eitp_labelled_pack_config config = eitp_labelled_pack_config_default();
    eitp_sample_file *file;
    eitp_labelled_source source;
    uint64_t counts[2];
    eitp_error error;
    REQUIRE(scratch_make(scratch) &&
            put("a.jsonl", "{\"text\":[\"the\",\"water\",\"of\"],\"label\":[10,9,10]}\n"
                           "{\"text\":[\"the\"],\"label\":[9]}\n{\"text\":[\"of\"],\"label\":[10]}\n"));
    for (int i = 0; i < 2; i++) {
        config.labels = i ? names : NULL;
        config.label_count = i ? 2 : 0;
        config.problem = i ? EITP_PROBLEM_TOKENS : EITP_PROBLEM_UNKNOWN;
        REQUIRE_OK(pack(&host, wordpiece, &config, "a.jsonl", NULL, &error), error);
        check_sample(wordpiece, 0, "[CLS]:. the:10 water:9 of:10 [SEP]:.");
        REQUIRE_OK(eitp_sample_file_open(&host, at("a.lab"), 0, &file, &error), error);
        source = eitp_sample_file_labelled_source(file);
        CHECK(!strcmp(source.labels[0], i ? "10" : "9"));
        REQUIRE_OK(eitp__labelled_class_counts(&host, &source, counts, &error), error);
        CHECK(counts[i ? 0 : 1] == 3 && counts[i ? 1 : 0] == 2);
        eitp_sample_file_close(file);
    }
    scratch_remove(scratch);
}

static void test_bad_examples(void) {
    static const struct {
        const char *name, *content;
        eitp_problem problem;
        const char *words;
    } cases[] = {
        {"a.jsonl", "{\"text\":[\"the\",\"of\"],\"label\":[\"O\"]}\n", EITP_PROBLEM_UNKNOWN,
         "a.jsonl: line 1, column 9: 1 labels for 2 words; each word needs one"},
        {"a.jsonl", "{\"text\":[\"the\"],\"label\":[\"O\"]}\n{\"text\":[\"the\"]}\n", EITP_PROBLEM_UNKNOWN,
         "line 2, column 9: the labels are missing; each word needs one"},
        {"a.jsonl", "{\"text\":[\"the\"],\"label\":[\"O\"]}\n{\"text\":\"the\",\"label\":\"O\"}\n",
         EITP_PROBLEM_UNKNOWN, "line 2, column 9: the example is not a list of words"},
        {"a.jsonl", "{\"text\":[\"the\"],\"label\":[\"\"]}\n", EITP_PROBLEM_UNKNOWN, "the label is empty"},
        {"a.jsonl", "{\"text\":[\"\"],\"label\":[\"O\"]}\n", EITP_PROBLEM_UNKNOWN,
         "the text is empty: it has no tokens"},
        {"a.conll", "the\nof\n", EITP_PROBLEM_TOKENS, "line 1, column 1: the labels are missing"},
    };
    const eitp_host host = eitp_host_default();
    REQUIRE(scratch_make(scratch));
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp_labelled_pack_config config = eitp_labelled_pack_config_default();
        eitp_error error;
        config.problem = cases[i].problem;
        REQUIRE(put(cases[i].name, cases[i].content));
        CHECK_THAT(pack(&host, wordpiece, &config, cases[i].name, NULL, &error) == EITP_ERROR_FORMAT &&
                       has(&error, cases[i].words),
                   "case %zu", i);
    }
    scratch_remove(scratch);
}

/* Two tokenizers have no common tokens that could be labelled. Words without labels are text. */
static void test_two_tokenizers(void) {
    const eitp_host host = eitp_host_default();
    eitp_labelled_pack_config config = eitp_labelled_pack_config_default();
    eitp_sample_file_info info;
    eitp_error error;
    REQUIRE(scratch_make(scratch) && put("a.jsonl", "{\"text\":[\"the\",\"of\"],\"label\":[\"A\",\"O\"]}\n"
                                                    "{\"text\":[\"the\",\"water\"],\"label\":\"x\"}\n"
                                                    "{\"text\":\"of\",\"label\":\"y\"}\n"));
    config.second = roberta;
    CHECK(pack(&host, wordpiece, &config, "a.jsonl", NULL, &error) == EITP_ERROR_FORMAT);
    CHECK(has(&error, "line 1, column 9: the words have labels, which a file of two tokenizers cannot have"));
    config.skip_bad = 1;
    REQUIRE_OK(pack(&host, wordpiece, &config, "a.jsonl", &info, &error), error);
    CHECK(info.skipped == 1 && info.sample_count == 2 && info.problem == EITP_PROBLEM_SINGLE_LABEL);
    CHECK(info.max_first == 4 && info.max_second > 2);
    config.problem = EITP_PROBLEM_MULTI_LABEL;
    REQUIRE_OK(pack(&host, wordpiece, &config, "a.jsonl", &info, &error), error);
    CHECK(!info.skipped && info.problem == EITP_PROBLEM_MULTI_LABEL && info.label_count == 4);
    scratch_remove(scratch);
}

/* Bad examples are skipped, duplicates dropped, and a whole text may have one label. */
static void test_skipped_and_repeated(void) {
    const eitp_host host = eitp_host_default();
    eitp_labelled_pack_config config = eitp_labelled_pack_config_default();
    eitp_sample_file_info info;
    eitp_error error;
    REQUIRE(scratch_make(scratch) &&
            put("a.jsonl",
                "{\"text\":[\"the\",\"of\"],\"label\":[\"A\",\"O\"]}\n{\"text\":[\"x\"],\"label\":[\"A\",\"O\"]}\n"
                "{\"text\":[\"the\",\"of\"],\"label\":[\"A\",\"O\"]}\n"
                "{\"text\":[\"of\"],\"label\":[\"A\"]}\n{\"text\":[\"of\"],\"label\":[\"O\"]}\n") &&
            put("b.jsonl", "{\"text\":[\"the\",\"of\"],\"label\":\"A\"}\n{\"text\":\"water\",\"label\":\"O\"}\n"));
    config.skip_bad = config.dedup = 1;
    REQUIRE_OK(pack(&host, wordpiece, &config, "a.jsonl", &info, &error), error);
    CHECK(info.skipped == 1 && info.repeated == 1 && info.ambiguous == 2 && info.sample_count == 1);
    check_sample(wordpiece, 0, "[CLS]:. the:A of:O [SEP]:.");
    REQUIRE_OK(pack(&host, wordpiece, &config, "b.jsonl", &info, &error), error);
    CHECK(info.problem == EITP_PROBLEM_SINGLE_LABEL && info.sample_count == 2 && info.max_length == 4);
    scratch_remove(scratch);
}

/* ---- Files ---- */

/* Files whose labels are trimmed have version 4. Earlier versions can be read. Among those, only files with token
   labels have version 2. */
static void test_versions(void) {
    const eitp_host host = eitp_host_default();
    eitp_labelled_pack_config config = eitp_labelled_pack_config_default();
    eitp_sample_file *file;
    eitp_sample_file_info info;
    eitp_error error;
    REQUIRE(scratch_make(scratch) && put("a.conll", sentence) && put("b.csv", "text,label\nthe,x\nof,y\n"));
    for (int i = 0; i < 2; i++) {
        eitp__buffer content;
        unsigned char *bytes;
        REQUIRE_OK(pack(&host, wordpiece, &config, i ? "b.csv" : "a.conll", &info, &error), error);
        CHECK(info.row_rules);
        eitp__buffer_init(&content, &host);
        REQUIRE_OK(eitp__read_file(&host, at("a.lab"), 1 << 20, &content, &error), error);
        bytes = (unsigned char *)content.data;
        CHECK(bytes[8] == 4 && bytes[148] == 1);
        bytes[8] = i ? 1 : 2;
        bytes[148] = 0;
        eitp__put_number(bytes + 252, 4, eitp__crc32c(0, bytes, 252));
        CHECK(eitp__fnv1a(EITP__FNV_START, bytes, content.size) == (i ? 0x8485d0a8616b56b3u : 0xcf9518547a5e18cdu));
        REQUIRE_OK(eitp__write_file(&host, at("b.lab"), content.data, content.size, &error), error);
        REQUIRE_OK(eitp_sample_file_open(&host, at("b.lab"), 0, &file, &error), error);
        CHECK(!eitp_sample_file_get_info(file).row_rules && eitp_sample_file_verify(file, &error) == EITP_OK);
        CHECK(eitp_sample_file_get_info(file).content_hash == info.content_hash);
        eitp_sample_file_close(file);
        bytes[8] = i ? 5 : 1;
        eitp__put_number(bytes + 252, 4, eitp__crc32c(0, bytes, 252));
        REQUIRE_OK(eitp__write_file(&host, at("b.lab"), content.data, content.size, &error), error);
        CHECK(eitp_sample_file_open(&host, at("b.lab"), 0, &file, &error) ==
                  (i ? EITP_ERROR_UNSUPPORTED : EITP_ERROR_FORMAT) &&
              has(&error, i ? "unsupported labelled file version 5 (supported: 1 to 4)" : "an impossible problem"));
        eitp__buffer_release(&content);
    }
    scratch_remove(scratch);
}

/* Each changed byte is refused unless it is padding. */
static void test_damage_is_found(void) {
    const eitp_host host = eitp_host_default();
    eitp_labelled_pack_config config = eitp_labelled_pack_config_default();
    eitp__buffer content;
    size_t harmless = 0;
    eitp_error error;
    REQUIRE(scratch_make(scratch) && put("a.conll", sentence));
    REQUIRE_OK(pack(&host, wordpiece, &config, "a.conll", NULL, &error), error);
    eitp__buffer_init(&content, &host);
    REQUIRE_OK(eitp__read_file(&host, at("a.lab"), 1 << 20, &content, &error), error);
    for (size_t i = 0; i < content.size; i++) {
        eitp_sample_file *file;
        content.data[i] ^= 1;
        REQUIRE_OK(eitp__write_file(&host, at("b.lab"), content.data, content.size, &error), error);
        eitp_status status = eitp_sample_file_open(&host, at("b.lab"), 0, &file, &error);
        if (status == EITP_OK)
            status = eitp_sample_file_verify(file, &error);
        harmless += status == EITP_OK;
        eitp_sample_file_close(file);
        content.data[i] ^= 1;
    }
    CHECK_THAT(harmless < 8, "%zu", harmless);
    eitp__buffer_release(&content);
    scratch_remove(scratch);
}

static void test_every_call_fails(void) {
    eitp_labelled_pack_config config = eitp_labelled_pack_config_default();
    eitp_error error;
    faults f;
    REQUIRE(scratch_make(scratch) && put("a.conll", sentence) &&
            put("a.jsonl", "{\"text\":[\"the\",\"of\"],\"label\":[\"A\",\"O\"]}\n"));
    for (int kind = 0; kind < 4; kind++) {
        for (long n = 1;; n++) {
            faults_begin(&f);
            f.fail_allocation = kind & 1 ? n : 0;
            f.fail_file_call = kind & 1 ? 0 : n;
            const eitp_status status =
                pack(&f.host, wordpiece, &config, kind & 2 ? "a.jsonl" : "a.conll", NULL, &error);
            CHECK(status == EITP_OK || strlen(error.message) > 10);
            if (!faults_end(&f))
                break;
            CHECK_THAT(status != EITP_OK || !(kind & 1), "allocation %ld", n);
        }
    }
    scratch_remove(scratch);
}

static void test_memory_source(void) {
    static const uint64_t starts[] = {0, 2, 5};
    static const int32_t ids[] = {1, 2, 3, 4, 5}, labels[] = {-1, 1, 0, -1, 1}, wrong[] = {-1, 1, 0, 2, 1};
    eitp_labelled_arrays arrays = EITP__ZERO;
    eitp_labelled_sample sample = EITP__ZERO;
    eitp_labelled_source source;
    int32_t read[3];
    eitp_error error;
    arrays.count = 2;
    arrays.starts = starts;
    arrays.ids = ids;
    arrays.problem = EITP_PROBLEM_TOKENS;
    arrays.label_count = 2;
    CHECK(eitp_labelled_memory_source(&arrays, &source, &error) == EITP_ERROR_ARGUMENT && has(&error, "token_labels"));
    arrays.token_labels = labels;
    REQUIRE_OK(eitp_labelled_memory_source(&arrays, &source, &error), error);
    sample.token_labels = read;
    CHECK(source.read(source.user, 1, &sample, &error) == EITP_OK && sample.length == 3 && sample.label == -1);
    CHECK(read[0] == 0 && read[1] == -1 && read[2] == 1);
    const uint64_t hash = source.hash;
    arrays.token_labels = wrong;
    CHECK(eitp_labelled_memory_source(&arrays, &source, &error) == EITP_ERROR_ARGUMENT &&
          has(&error, "sample 1 has label 2, but there are 2"));
    arrays.label_count = 3;
    REQUIRE_OK(eitp_labelled_memory_source(&arrays, &source, &error), error);
    CHECK(source.hash != hash);
}

static const test_case tests[] = {
    TEST(test_conll),
    TEST(test_json_lists),
    TEST(test_words_are_texts),
    TEST(test_first_pieces_have_labels),
    TEST(test_numbers_of_labels),
    TEST(test_bad_examples),
    TEST(test_two_tokenizers),
    TEST(test_skipped_and_repeated),
    TEST(test_versions),
    TEST(test_damage_is_found),
    TEST(test_every_call_fails),
    TEST(test_memory_source),
};

int main(int argc, char **argv) {
    const eitp_host host = eitp_host_default();
    eitp_error error;
    int failed = 1;
    if (eitp_tokenizer_load(&host, GOLDEN "/uncased.json", &wordpiece, &error) == EITP_OK &&
        eitp_tokenizer_load(&host, GOLDEN "/roberta.json", &roberta, &error) == EITP_OK)
        failed = RUN_TESTS(tests, argc, argv);
    eitp_tokenizer_destroy(wordpiece);
    eitp_tokenizer_destroy(roberta);
    return failed;
}
