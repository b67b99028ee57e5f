/* Labelled files: packing, reading, splitting, interpretation of labels, duplicates, bad examples, two tokenizers,
   damage and failing calls. */
#include "tests/support/everything.h"

#include "tests/support/faults.h"
#include "tests/support/one_file.h"
#include "tests/support/test.h"

#include <sys/stat.h>

#define GOLDEN "tests/golden/words"

/* An example as written in tests. labels[0] is NULL for an unlabelled example. */
typedef struct row {
    const char *text, *pair;
    const char *labels[4];
    int is_list;
} row;

typedef struct rows {
    const row *items;
    size_t count, next;
    eitp_text labels[4];
    eitp_status fails; /* returned after the last row */
} rows;

static eitp_text text_of(const char *text) {
    eitp_text result;
    result.bytes = text;
    result.size = text ? strlen(text) : 0;
    return result;
}

static const char *const *row_weights; /* weights of the rows that are read; NULL: no weights */

static eitp_status read_row(void *user, eitp_example *example, int *is_end, eitp_error *error) {
    rows *r = (rows *)user;
    const row *item = &r->items[r->next];
    if (r->next == r->count) {
        *is_end = 1;
        return r->fails ? eitp__fail(error, r->fails, "the source failed") : EITP_OK;
    }
    memset(example, 0, sizeof *example);
    example->text = text_of(item->text);
    example->pair = text_of(item->pair);
    while (example->label_count < 4 && item->labels[example->label_count]) {
        r->labels[example->label_count] = text_of(item->labels[example->label_count]);
        example->label_count++;
    }
    example->labels = r->labels;
    example->labels_are_list = item->is_list;
    example->weight = text_of(row_weights ? row_weights[r->next] : NULL);
    example->path = "rows.csv";
    example->line = ++r->next + 1;
    example->column = 7;
    return EITP_OK;
}

static eitp_example_source source_of(rows *r, const row *items, size_t count) {
    eitp_example_source source;
    memset(r, 0, sizeof *r);
    r->items = items;
    r->count = count;
    source.user = r;
    source.read = read_row;
    return source;
}

static char scratch[512];
static const eitp_host *host;
static eitp_tokenizer *wordpiece, *roberta, *bytes_tokenizer;

static uint64_t noise(uint64_t index) {
    return eitp__random_bits(99, 0, EITP__RNG_STREAM_SAMPLE, index);
}

static const char *at(const char *name) {
    return scratch_path(scratch, name);
}

static int has(const eitp_error *error, const char *text) {
    if (strstr(error->message, text))
        return 1;
    printf("    no \"%s\" in \"%s\"\n", text, error->message);
    return 0;
}

static eitp_status pack_on(const eitp_host *on, const eitp_tokenizer *tokenizer, eitp_labelled_pack_config config,
                           const row *items, size_t count, const char *name, eitp_sample_file_info *info,
                           eitp_error *error) {
    rows r;
    const eitp_example_source source = source_of(&r, items, count);
    return eitp_labelled_pack(on, tokenizer, &config, &source, at(name), info, error);
}

static eitp_labelled_pack_config plain(void) {
    eitp_labelled_pack_config config = eitp_labelled_pack_config_default();
    config.sequence.max_length = 64;
    return config;
}

/* Packs and opens a file. Reports a failure and returns NULL. */
static eitp_sample_file *packed(eitp_labelled_pack_config config, const row *items, size_t count) {
    eitp_sample_file *file = NULL;
    eitp_error error;
    eitp_status status = pack_on(host, wordpiece, config, items, count, "a.lab", NULL, &error);
    if (status == EITP_OK)
        status = eitp_sample_file_open(host, at("a.lab"), 0, &file, &error);
    CHECK_THAT(status == EITP_OK, "%s", error.message);
    return file;
}

static int is_there(const char *name) {
    struct stat found;
    return lstat(at(name), &found) == 0;
}

/* Returns the label names as "a,b,c". */
static const char *names_of(const eitp_sample_file *file) {
    static char text[256];
    const eitp_labelled_source source = eitp_sample_file_labelled_source(file);
    size_t used = 0;
    text[0] = 0;
    for (int64_t i = 0; i < source.label_count && source.labels && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? "," : "", source.labels[i]);
    return text;
}

/* Returns the label of a sample, or its targets as "0 1 0". */
static const char *labels_of(const eitp_sample_file *file, uint64_t number) {
    static char text[256];
    const eitp_sample_file_info info = eitp_sample_file_get_info(file);
    eitp_labelled_sample sample = EITP__ZERO;
    float targets[16];
    size_t used = 0;
    sample.targets = targets;
    text[0] = 0;
    if (eitp_sample_file_read_sample(file, number, &sample, NULL) != EITP_OK)
        return "failed";
    if (info.problem == EITP_PROBLEM_SINGLE_LABEL)
        snprintf(text, sizeof text, "%ld", (long)sample.label);
    for (int64_t i = 0; i < info.label_count && info.problem != EITP_PROBLEM_SINGLE_LABEL; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%g", i ? " " : "", (double)targets[i]);
    return text;
}

static int same_text(const char *a, const char *b) {
    if (!strcmp(a, b))
        return 1;
    printf("    \"%s\", expected \"%s\"\n", a, b);
    return 0;
}

/* ---- Round trip ---- */

static const row sentences[] = {
    {"The film is good, really good!", NULL, {"pos"}, 0},
    {"It was the worst of all films", NULL, {"neg"}, 0},
    {"\xE4\xBD\xA0\xE5\xA5\xBD, world", NULL, {"neutral"}, 0},
    {"Nothing.", "And all of it twice, at some length, to be cut somewhere", {"neg"}, 0},
    {"Again and again and again and again and again and again and again and again", "short", {"pos"}, 0},
};

/* Every sample of a file equals the tokenizer's output for its row. */
static void check_ids(const eitp_tokenizer *tokenizer, const eitp_sample_file *file, const row *items, size_t count) {
    const eitp_sample_file_info info = eitp_sample_file_get_info(file);
    const eitp_labelled_source source = eitp_sample_file_labelled_source(file);
    int32_t ids[2][256], segments[2][256];
    uint64_t all = 0, cut = 0;
    REQUIRE(info.sample_count == count && source.count == count && source.max_length <= 256);
    for (size_t i = 0; i < count; i++) {
        const eitp_text text = text_of(items[i].text), pair = text_of(items[i].pair);
        eitp_labelled_sample sample = EITP__ZERO;
        eitp_sequence_report report;
        eitp_error error;
        sample.ids = ids[1];
        sample.segments = segments[1];
        REQUIRE_OK(eitp_tokenizer_encode_sequence(tokenizer, &text, items[i].pair ? &pair : NULL, &info.sequence,
                                                  ids[0], segments[0], 256, &report, &error),
                   error);
        REQUIRE_OK(source.read(source.user, i, &sample, &error), error);
        REQUIRE((size_t)sample.length == report.count && sample.length <= source.max_length);
        CHECK(!memcmp(ids[0], ids[1], report.count * sizeof ids[0][0]));
        CHECK(!memcmp(segments[0], segments[1], report.count * sizeof ids[0][0]));
        all += report.count;
        cut += report.cut_first + report.cut_second;
    }
    CHECK(info.token_count == all && info.cut_ids == cut && (cut > 0) == (info.cut_samples > 0));
    CHECK(info.tokenizer_fingerprint == eitp_tokenizer_fingerprint(tokenizer));
    CHECK(info.vocabulary_size == eitp_tokenizer_size(tokenizer) && info.pair_count == 2);
}

static void test_ids_are_those_of_the_tokenizer(void) {
    const eitp_tokenizer *tokenizers[] = {wordpiece, roberta, bytes_tokenizer};
    static const int32_t lengths[] = {0, 12, 40};
    for (size_t t = 0; t < 3; t++) {
        for (size_t l = 0; l < 3; l++) {
            eitp_labelled_pack_config config = eitp_labelled_pack_config_default();
            eitp_sample_file_info info;
            eitp_sample_file *file;
            eitp_error error;
            config.sequence.max_length = lengths[l];
            config.sequence.truncate_left = l == 1;
            REQUIRE_OK(pack_on(host, tokenizers[t], config, sentences, 5, "a.lab", &info, &error), error);
            REQUIRE_OK(eitp_sample_file_open(host, at("a.lab"), 0, &file, &error), error);
            const eitp_sample_file_info again = eitp_sample_file_get_info(file);
            CHECK(!memcmp(&info, &again, sizeof info) && !info.skipped && !info.repeated && !info.ambiguous);
            CHECK(same_text(names_of(file), "neg,neutral,pos") && same_text(labels_of(file, 0), "2"));
            CHECK(same_text(labels_of(file, 2), "1") && info.problem == EITP_PROBLEM_SINGLE_LABEL);
            CHECK(eitp_sample_file_verify(file, &error) == EITP_OK);
            check_ids(tokenizers[t], file, sentences, 5);
            eitp_sample_file_close(file);
        }
    }
}

/* Ids above 65535 take four bytes. */
static void test_wide_ids(void) {
    static const int32_t ids[] = {0, 65536, 69999, 258};
    eitp__sample_writer writer;
    eitp__labelled_index index;
    eitp__labelled_entry entry = EITP__ZERO;
    eitp_labelled_sample sample = EITP__ZERO;
    eitp_sample_file *file = NULL;
    eitp__buffer names;
    int32_t found[4];
    eitp_error error;
    eitp__buffer_init(&names, host);
    eitp__labelled_index_init(&index, host);
    REQUIRE_OK(eitp__sample_writer_open(&writer, host, at("a.lab"), EITP_SAMPLE_FILE_LABELLED, 70000, 0, &error),
               error);
    REQUIRE_OK(eitp__sample_writer_add(&writer, 0, ids, 4, &entry.record.crc, &error), error);
    REQUIRE_OK(eitp__labelled_index_reserve(&index, 0, &error), error);
    entry.record.length = entry.record.boundary = 4;
    eitp__labelled_index_add(&index, entry, NULL, 0);
    eitp__labelled_index_count(&index, &writer.layout.info);
    REQUIRE_OK(eitp__labelled_writer_finish(&writer, &index, &names, &error), error);
    eitp__sample_writer_release(&writer);
    eitp__labelled_index_release(&index);
    REQUIRE_OK(eitp_sample_file_open(host, at("a.lab"), 0, &file, &error), error);
    sample.ids = found;
    CHECK(eitp_sample_file_read_sample(file, 0, &sample, &error) == EITP_OK && !memcmp(found, ids, sizeof ids));
    CHECK(sample.label == -1 && sample.length == 4 && eitp_sample_file_get_info(file).element_size == 4);
    CHECK(eitp_sample_file_read_sample(file, 1, &sample, &error) == EITP_ERROR_ARGUMENT &&
          has(&error, "outside the 1"));
    eitp_sample_file_close(file);
    REQUIRE_OK(eitp_sample_file_open(host, at("a.lab"), 69999, &file, &error), error);
    CHECK(eitp_sample_file_read_sample(file, 0, &sample, &error) == EITP_ERROR_FORMAT && has(&error, "id 69999"));
    CHECK(eitp_sample_file_verify(file, &error) == EITP_ERROR_FORMAT);
    eitp_sample_file_close(file);
}

/* Loads the tokenizer of uncased.json with another "truncation" and with a tokenizer_config.json. */
static eitp_status load_truncating(const char *truncation, const char *config, eitp_tokenizer **tokenizer,
                                   eitp_error *error) {
    eitp__buffer golden, changed;
    eitp__buffer_init(&golden, host);
    eitp__buffer_init(&changed, host);
    eitp_status status = eitp__read_file(host, GOLDEN "/uncased.json", 1 << 20, &golden, error);
    if (status == EITP_OK) {
        const char *begin = strstr(golden.data, "\"truncation\":{"), *end = begin ? strchr(begin, '}') + 1 : NULL;
        CHECK(begin != NULL);
        eitp__buffer_format(&changed, "%.*s\"truncation\":%s%s", begin ? (int)(begin - golden.data) : 0, golden.data,
                            truncation, end ? end : "");
        status = eitp__make_directories(host, at("words"), error);
    }
    if (status == EITP_OK)
        status = eitp__write_file(host, at("words/tokenizer.json"), changed.data, changed.size, error);
    if (status == EITP_OK)
        status = eitp__write_file(host, at("words/tokenizer_config.json"), config, strlen(config), error);
    eitp__buffer_release(&golden);
    eitp__buffer_release(&changed);
    return status == EITP_OK ? eitp_tokenizer_load(host, at("words"), tokenizer, error) : status;
}

/* A template with segments that a labelled file cannot store. */
static void test_other_segments(void) {
    eitp_tokenizer *tokenizer = NULL;
    eitp__buffer golden;
    eitp_error error;
    eitp__buffer_init(&golden, host);
    REQUIRE_OK(eitp__read_file(host, GOLDEN "/uncased.json", 1 << 20, &golden, &error), error);
    for (char *found = strstr(golden.data, "\"type_id\":1"); found; found = strstr(found, "\"type_id\":1"))
        found[10] = '2';
    REQUIRE_OK(eitp__write_file(host, at("other.json"), golden.data, golden.size, &error), error);
    REQUIRE_OK(eitp_tokenizer_load(host, at("other.json"), &tokenizer, &error), error);
    CHECK(pack_on(host, tokenizer, plain(), sentences, 3, "a.lab", NULL, &error) == EITP_OK);
    CHECK(pack_on(host, tokenizer, plain(), sentences, 5, "a.lab", NULL, &error) == EITP_ERROR_UNSUPPORTED);
    CHECK(has(&error, "rows.csv: line 5, column 7: ") && has(&error, "has segments 0 and then 1"));
    eitp_tokenizer_destroy(tokenizer);
    eitp__buffer_release(&golden);
}

#define FIRST_LEFT "{\"max_length\":5,\"strategy\":\"OnlyFirst\",\"direction\":\"Left\",\"stride\":0}"

/* Without max_length, the sequence length comes from the tokenizer's files. */
static void test_length_of_the_tokenizer(void) {
    static const struct {
        const char *truncation, *config;
        int32_t asked, length;
        eitp_truncation strategy;
        int left;
    } cases[] = {
        {FIRST_LEFT, "{}", 0, 5, EITP_TRUNCATE_FIRST, 1},
        {FIRST_LEFT, "{}", 7, 7, EITP_TRUNCATE_LONGEST, 0},
        {"null", "{\"model_max_length\":6}", 0, 6, EITP_TRUNCATE_LONGEST, 0},
        {"null", "{}", 0, 0, EITP_TRUNCATE_LONGEST, 0},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp_labelled_pack_config config = eitp_labelled_pack_config_default(), twice = config;
        eitp_tokenizer *tokenizer = NULL;
        eitp_sample_file_info info;
        eitp_error error;
        REQUIRE_OK(load_truncating(cases[i].truncation, cases[i].config, &tokenizer, &error), error);
        config.sequence.max_length = cases[i].asked;
        REQUIRE_OK(pack_on(host, tokenizer, config, sentences, 3, "a.lab", &info, &error), error);
        CHECK(info.sequence.max_length == cases[i].length && info.sequence.truncation == cases[i].strategy);
        CHECK(info.sequence.truncate_left == cases[i].left);
        CHECK_THAT(info.max_length == (cases[i].length ? cases[i].length : 20), "%d", (int)info.max_length);
        CHECK(info.max_first == info.max_length && !info.max_second && !info.second_sequence.max_length);
        twice.second = tokenizer; /* its files determine the length of second sequences only */
        twice.second_sequence.max_length = cases[i].asked;
        REQUIRE_OK(pack_on(host, bytes_tokenizer, twice, sentences, 3, "a.lab", &info, &error), error);
        CHECK(!info.sequence.max_length && info.second_sequence.max_length == cases[i].length);
        CHECK(info.second_sequence.truncation == cases[i].strategy &&
              info.second_sequence.truncate_left == cases[i].left);
        CHECK_THAT(info.max_second == (cases[i].length ? cases[i].length : 20), "%d", (int)info.max_second);
        eitp_tokenizer_destroy(tokenizer);
    }
}

/* ---- Interpretation of labels ---- */

typedef struct label_case {
    eitp_problem asked;
    const char *names[3]; /* names in the model; NULL: none */
    row items[3];         /* without text; the last item's labels are read back */
    eitp_problem problem;
    const char *labels, *last; /* all names, and the last item's labels; if names are NULL the example is bad, and
                                  `last` is in the message */
} label_case;

enum {
    UNKNOWN = EITP_PROBLEM_UNKNOWN,
    SINGLE = EITP_PROBLEM_SINGLE_LABEL,
    MULTI = EITP_PROBLEM_MULTI_LABEL,
    REGRESSION = EITP_PROBLEM_REGRESSION
};

#define PROBLEM(name) ((eitp_problem)(name))
#define ROW(...)                                                                                                       \
    { NULL, NULL, {__VA_ARGS__}, 0 }
#define LIST(...)                                                                                                      \
    { NULL, NULL, {__VA_ARGS__}, 1 }
#define NONE                                                                                                           \
    { NULL, NULL, {NULL}, 0 }

static const label_case label_cases[] = {
    {PROBLEM(UNKNOWN), {NULL}, {ROW("b"), ROW("a"), ROW("b")}, PROBLEM(SINGLE), "a,b", "1"},
    {PROBLEM(UNKNOWN), {NULL}, {ROW("10"), ROW("9"), ROW("10")}, PROBLEM(SINGLE), "9,10", "1"},
    {PROBLEM(UNKNOWN), {NULL}, {ROW("10"), ROW("-9"), ROW("1.0")}, PROBLEM(SINGLE), "-9,1.0,10", "1"},
    {PROBLEM(UNKNOWN), {NULL}, {ROW("10"), ROW("9a"), ROW("9a")}, PROBLEM(SINGLE), "9a,10", "0"},
    {PROBLEM(UNKNOWN),
     {NULL},
     {ROW("LABEL_10"), ROW("LABEL_2"), ROW("LABEL_10")},
     PROBLEM(SINGLE),
     "LABEL_2,LABEL_10",
     "1"},
    {PROBLEM(UNKNOWN), {NULL}, {ROW("a007"), ROW("a7"), ROW("a07b")}, PROBLEM(SINGLE), "a007,a7,a07b", "2"},
    {PROBLEM(UNKNOWN), {NULL}, {ROW("x2y10"), ROW("x10y1"), ROW("x2y9")}, PROBLEM(SINGLE), "x2y9,x2y10,x10y1", "0"},
    {PROBLEM(UNKNOWN), {NULL}, {ROW("label"), ROW("10"), ROW("9")}, PROBLEM(SINGLE), "9,10,label", "0"},
    {PROBLEM(UNKNOWN), {NULL}, {ROW("007"), ROW("10"), ROW("9")}, PROBLEM(SINGLE), "007,9,10", "1"},
    {PROBLEM(UNKNOWN), {NULL}, {ROW("1"), ROW("2.5"), ROW("-3e-1")}, PROBLEM(REGRESSION), "", "-0.3"},
    {PROBLEM(UNKNOWN), {NULL}, {ROW("1"), ROW(" 2.5\t"), ROW("-3e-1 ")}, PROBLEM(REGRESSION), "", "-0.3"},
    /* White space around labels: spaces, U+00A0, U+3000. */
    {PROBLEM(UNKNOWN), {NULL}, {ROW("b"), ROW(" a\r"), ROW("b ")}, PROBLEM(SINGLE), "a,b", "1"},
    {PROBLEM(UNKNOWN),
     {NULL},
     {ROW("b c"),
      ROW("\xC2\xA0"
          "a"),
      ROW("\xE3\x80\x80"
          "b c\xC2\xA0 ")},
     PROBLEM(SINGLE),
     "a,b c",
     "1"},
    {PROBLEM(UNKNOWN),
     {NULL},
     {ROW("b"), ROW("\xE4\xB8\xAD\xE3\x80\x80"), ROW("\xE4\xB8\xAD")},
     PROBLEM(SINGLE),
     "b,\xE4\xB8\xAD",
     "1"},
    {PROBLEM(UNKNOWN),
     {NULL},
     {ROW("c"),
      ROW("a\xC2\xA0|\xE3\x80\x80"
          "b"),
      ROW("b")},
     PROBLEM(MULTI),
     "a,b,c",
     "0 1 0"},
    {PROBLEM(UNKNOWN), {NULL}, {LIST("c"), LIST("a ", " b"), LIST("b")}, PROBLEM(MULTI), "a,b,c", "0 1 0"},
    {PROBLEM(MULTI), {NULL}, {ROW("c"), ROW("b"), ROW(" \xC2\xA0")}, PROBLEM(MULTI), "b,c", "0 0"},
    {PROBLEM(UNKNOWN), {NULL}, {ROW("a"), ROW("b"), ROW(" ")}, PROBLEM(SINGLE), NULL, "the label is empty"},
    /* Known labels are matched exactly first, then without surrounding white space. */
    {PROBLEM(UNKNOWN), {"a", "b ", "b"}, {ROW("b"), ROW(" a"), ROW("b ")}, PROBLEM(SINGLE), "a,b ,b", "1"},
    {PROBLEM(UNKNOWN), {"a", "b "}, {ROW("b "), ROW("a"), ROW("b")}, PROBLEM(SINGLE), NULL, "no label named 'b'"},
    {PROBLEM(SINGLE), {NULL}, {ROW("1"), ROW("2.5"), ROW("3")}, PROBLEM(SINGLE), "1,2.5,3", "2"},
    {PROBLEM(UNKNOWN), {"1", "2.5"}, {ROW("1"), ROW("2.5"), ROW("2.5")}, PROBLEM(SINGLE), "1,2.5", "1"},
    {PROBLEM(UNKNOWN), {"z", "y", "x"}, {ROW("x"), ROW("x"), ROW("y")}, PROBLEM(SINGLE), "z,y,x", "1"},
    {PROBLEM(UNKNOWN), {NULL}, {ROW("c"), ROW("a| b"), ROW("b")}, PROBLEM(MULTI), "a,b,c", "0 1 0"},
    {PROBLEM(UNKNOWN), {NULL}, {LIST("c"), LIST("a", "b"), LIST(NULL)}, PROBLEM(MULTI), "a,b,c", "0 0 0"},
    {PROBLEM(UNKNOWN), {NULL}, {ROW("c"), ROW("a", "b"), ROW("c")}, PROBLEM(MULTI), "a,b,c", "0 0 1"},
    {PROBLEM(MULTI), {NULL}, {ROW("c"), ROW("b"), ROW("")}, PROBLEM(MULTI), "b,c", "0 0"},
    {PROBLEM(MULTI), {"x", "y"}, {ROW("y"), NONE, NONE}, PROBLEM(MULTI), "x,y", "0 0"},
    {PROBLEM(MULTI), {NULL}, {NONE, ROW("y"), ROW("y")}, PROBLEM(MULTI), "y", "1"},
    {PROBLEM(MULTI), {"x", "y"}, {NONE, LIST(NULL), ROW("")}, PROBLEM(UNKNOWN), "", ""},
    {PROBLEM(UNKNOWN), {NULL}, {LIST(NULL), LIST(NULL), LIST(NULL)}, PROBLEM(UNKNOWN), "", ""},
    {PROBLEM(SINGLE), {NULL}, {ROW("a|b"), ROW("a"), ROW("a|b")}, PROBLEM(SINGLE), "a,a|b", "1"},
    {PROBLEM(UNKNOWN), {"a", "a|b"}, {ROW("a|b"), ROW("a"), ROW("a|b")}, PROBLEM(SINGLE), "a,a|b", "1"},
    {PROBLEM(UNKNOWN), {NULL}, {LIST("a|b"), LIST("a"), LIST("a|b")}, PROBLEM(MULTI), "a,a|b", "0 1"},
    {PROBLEM(REGRESSION), {NULL}, {ROW("1"), ROW("2"), ROW("3")}, PROBLEM(REGRESSION), "", "3"},
    {PROBLEM(REGRESSION), {"u", "v"}, {LIST("1", "1"), ROW("2|0.5"), ROW("3|-4")}, PROBLEM(REGRESSION), "u,v", "3 -4"},
    {PROBLEM(UNKNOWN), {NULL}, {NONE, NONE, NONE}, PROBLEM(UNKNOWN), "", ""},
    {PROBLEM(SINGLE),
     {NULL},
     {ROW("a"), ROW("b"), NONE},
     PROBLEM(SINGLE),
     NULL,
     "rows.csv: line 4, column 7: the label is missing"},
    {PROBLEM(UNKNOWN), {NULL}, {ROW("a"), ROW("b"), NONE}, PROBLEM(SINGLE), NULL, "the label is missing"},
    {PROBLEM(UNKNOWN),
     {"a"},
     {NONE, NONE, NONE},
     PROBLEM(SINGLE),
     NULL,
     "rows.csv: line 2, column 7: the label is missing"},
    {PROBLEM(UNKNOWN), {NULL}, {NONE, NONE, ROW("a")}, PROBLEM(SINGLE), NULL, "but the 2 before it have none"},
    {PROBLEM(UNKNOWN),
     {"a", "b"},
     {ROW("a"), ROW("c"), NONE},
     PROBLEM(SINGLE),
     NULL,
     "rows.csv: line 3, column 7: no label named 'c' (labels: a, b)"},
    {PROBLEM(SINGLE), {NULL}, {ROW("a"), LIST("c", "d"), NONE}, PROBLEM(SINGLE), NULL, "2 labels, but problem is"},
    {PROBLEM(UNKNOWN), {NULL}, {ROW("a"), ROW(""), NONE}, PROBLEM(SINGLE), NULL, "the label is empty"},
    {PROBLEM(UNKNOWN), {NULL}, {ROW("a"), ROW("\xFF"), NONE}, PROBLEM(SINGLE), NULL, "must be UTF-8"},
    {PROBLEM(UNKNOWN), {NULL}, {LIST("0", "1", "0"), NONE, NONE}, PROBLEM(SINGLE), NULL, "label '0' occurs twice"},
    {PROBLEM(REGRESSION), {NULL}, {ROW("1"), ROW("x"), NONE}, PROBLEM(SINGLE), NULL, "'x' is not a number"},
    {PROBLEM(REGRESSION), {NULL}, {ROW("1"), ROW("1e39"), NONE}, PROBLEM(SINGLE), NULL, "'1e39' is not a number"},
    {PROBLEM(REGRESSION),
     {NULL},
     {ROW("1"), ROW("1|2"), NONE},
     PROBLEM(SINGLE),
     NULL,
     "2 numbers to predict, expected 1"},
    {PROBLEM(UNKNOWN), {"a", "a"}, {ROW("a"), NONE, NONE}, PROBLEM(SINGLE), NULL, "two labels are named 'a'"},
    {PROBLEM(7), {NULL}, {ROW("a"), NONE, NONE}, PROBLEM(SINGLE), NULL, "unknown problem 7"},
};

static void test_what_labels_mean(void) {
    static const char *const texts[] = {"good", "bad", "other"};
    for (size_t i = 0; i < EITP__COUNT(label_cases); i++) {
        const label_case *c = &label_cases[i];
        eitp_labelled_pack_config config = plain();
        eitp_sample_file *file = NULL;
        eitp_sample_file_info info;
        eitp_error error;
        row items[3];
        memcpy(items, c->items, sizeof items);
        for (size_t k = 0; k < 3; k++)
            items[k].text = texts[k];
        config.problem = c->asked;
        config.labels = c->names[0] ? c->names : NULL;
        while (config.label_count < 3 && c->names[config.label_count])
            config.label_count++;
        remove(at("a.lab"));
        const eitp_status status = pack_on(host, wordpiece, config, items, 3, "a.lab", &info, &error);
        if (!c->labels) {
            const int is_bad = strstr(error.message, "rows.csv: line ") != NULL;
            CHECK_THAT(status == (is_bad ? EITP_ERROR_FORMAT : EITP_ERROR_ARGUMENT) && error.status == status &&
                           has(&error, c->last),
                       "case %zu", i);
            CHECK(!is_there("a.lab") && !is_there("a.lab.partial"));
            continue;
        }
        REQUIRE_OK(status, error);
        REQUIRE_OK(eitp_sample_file_open(host, at("a.lab"), 0, &file, &error), error);
        CHECK_THAT(info.problem == c->problem && same_text(names_of(file), c->labels) &&
                       same_text(labels_of(file, 2), c->last),
                   "case %zu: problem %d", i, (int)info.problem);
        eitp_sample_file_close(file);
    }
}

/* Label numbers do not depend on the order of the rows. */
static void test_order_does_not_matter(void) {
    static const char *const labels[] = {"x", "c", "10", "b|a", "c|x", "9"};
    char expected[128] = "";
    for (size_t turn = 0; turn < 6; turn++) {
        row items[6] = EITP__ZERO;
        for (size_t i = 0; i < 6; i++) {
            items[i].text = "words";
            items[i].labels[0] = labels[(i * 5 + turn) % 6];
        }
        eitp_sample_file *file = packed(plain(), items, 6);
        REQUIRE(file != NULL);
        if (!turn)
            snprintf(expected, sizeof expected, "%s", names_of(file));
        CHECK(same_text(names_of(file), expected) &&
              eitp_sample_file_get_info(file).problem == EITP_PROBLEM_MULTI_LABEL);
        eitp_sample_file_close(file);
    }
    CHECK(same_text(expected, "9,10,a,b,c,x"));
}

/* The targets of a sample are in ascending order, so files of the same examples are identical. */
static void test_values_are_ascending(void) {
    static const row items[] = {
        {"one", NULL, {"c"}, 0}, {"two", NULL, {"a|c|b"}, 0}, {"three", NULL, {"b", "c", "a"}, 1}};
    static const uint32_t expected[] = {2, 0, 1, 2, 0, 1, 2};
    eitp_sample_file *file = packed(plain(), items, 3);
    uint32_t values[7];
    REQUIRE(file != NULL && file->layout.value_count == 7);
    CHECK(eitp__sample_read_values(file, 0, 7, values, NULL) == EITP_OK && !memcmp(values, expected, sizeof values));
    eitp_sample_file_close(file);
}

static void test_many_labels(void) {
    enum { MANY = 3000 };
    row *items = (row *)calloc(MANY, sizeof *items);
    char(*names)[12] = (char(*)[12])calloc(MANY, sizeof *names);
    eitp_sample_file *file;
    REQUIRE(items && names);
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        items[(i * 7) % MANY].text = "text";
        items[(i * 7) % MANY].labels[0] = names[i];
    }
    file = packed(plain(), items, MANY);
    REQUIRE(file != NULL);
    CHECK(eitp_sample_file_get_info(file).label_count == MANY);
    for (int i = 0; i < MANY; i++)
        CHECK(same_text(labels_of(file, (uint64_t)(i * 7) % MANY), names[i]));
    eitp_sample_file_close(file);
    free(items);
    free(names);
}

/* ---- Bad examples ---- */

typedef struct log_lines {
    int warnings;
    char last[600];
} log_lines;

static void keep_log(void *user, eitp_log_level level, const char *message) {
    log_lines *lines = (log_lines *)user;
    lines->warnings += level == EITP_LOG_WARNING;
    snprintf(lines->last, sizeof lines->last, "%s", message);
}

static void test_bad_examples_are_skipped(void) {
    enum { GOOD = 4, BAD = 16 };
    row items[GOOD + BAD] = EITP__ZERO;
    eitp_labelled_pack_config config = plain();
    eitp_host logging = *host;
    eitp_sample_file_info info;
    log_lines lines = EITP__ZERO;
    eitp_error error;
    for (int i = 0; i < GOOD + BAD; i++) {
        items[i].text = i < 8 ? " " : "text";
        items[i].labels[0] = i < 8 ? "unseen|other" : i < BAD ? "unseen|b|b" : i & 1 ? "a" : "b";
    }
    logging.log.user = &lines;
    logging.log.write = keep_log;
    CHECK(pack_on(&logging, wordpiece, config, items, GOOD + BAD, "a.lab", NULL, &error) == EITP_ERROR_FORMAT);
    CHECK(has(&error, "rows.csv: line 2, column 7: the text is empty: it has no tokens"));
    config.skip_bad = 1;
    lines.warnings = 0;
    REQUIRE_OK(pack_on(&logging, wordpiece, config, items, GOOD + BAD, "a.lab", &info, &error), error);
    CHECK(info.skipped == BAD && info.sample_count == GOOD && info.label_count == 2);
    /* One warning is about the tokenizer's own truncation. */
    CHECK(lines.warnings == 12 && same_text(lines.last, "skipped 16 of 20 examples, the first 10 of them above"));
    CHECK(pack_on(&logging, wordpiece, config, items, BAD, "a.lab", &info, &error) == EITP_ERROR_ARGUMENT);
    CHECK(has(&error, "all 16 examples are bad"));
    CHECK(pack_on(&logging, wordpiece, config, items, 0, "a.lab", &info, &error) == EITP_ERROR_ARGUMENT);
    CHECK(has(&error, "no examples found"));
    config.sequence.truncation = EITP_TRUNCATE_NONE;
    config.sequence.max_length = 3;
    items[0].text = "one two";
    items[1].text = "one";
    REQUIRE_OK(pack_on(&logging, wordpiece, config, items, 2, "a.lab", &info, &error), error);
    CHECK(info.skipped == 1 && info.sample_count == 1 && info.problem == EITP_PROBLEM_MULTI_LABEL);
}

/* Labels that are spelled differently but may be the same. */
static void test_similar_labels(void) {
    static const struct {
        const char *labels[3];
        const char *warning; /* NULL: no warning */
    } cases[] = {
        {{"good", "Good", "bad"},
         "the labels Good, good differ only in upper and lower case, and are learned as 2 labels; spell them the same "
         "if they are meant as one"},
        {{"\xC3\xA4", "\xC3\x84", "b"}, "the labels \xC3\x84, \xC3\xA4 differ only in upper and lower case"},
        {{"0", "1", "1.0"}, "the labels 1, 1.0 are the same number, and are learned as 2 labels"},
        {{"01", "1", "+1"}, "the labels +1, 01, 1 are the same number, and are learned as 3 labels"},
        {{"1e1", "10", "a"}, "the labels 1e1, 10 are the same number"},
        {{"true", "True", "false"}, "the labels True, true differ only in upper and lower case"},
        {{"1", "true", "0"}, "the labels 1, true are the same Boolean"},
        {{"no", "0", "False"}, "the labels 0, False, no are the same Boolean"},
        {{"a", "b", "ab"}, NULL},
        {{"1", "10", "-1"}, NULL},
        {{"1", "1a", "1 a"}, NULL},
        {{"9007199254740992", "9007199254740993", "1"}, NULL},
        {{"12.5.1", "12.5.10", "."}, NULL},
    };
    eitp_labelled_pack_config config = plain();
    eitp_host logging = *host;
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        row items[3] = EITP__ZERO;
        log_lines lines = EITP__ZERO;
        eitp_error error;
        logging.log.user = &lines;
        logging.log.write = keep_log;
        for (size_t k = 0; k < 3; k++) {
            items[k].text = "text";
            items[k].labels[0] = cases[i].labels[k];
        }
        REQUIRE_OK(pack_on(&logging, wordpiece, config, items, 3, "a.lab", NULL, &error), error);
        /* One warning is about the tokenizer's own truncation. */
        CHECK_THAT(lines.warnings == 1 + (cases[i].warning != NULL), "case %zu: %s", i, lines.last);
        CHECK_THAT(!cases[i].warning || strstr(lines.last, cases[i].warning), "%s, not %s", lines.last,
                   cases[i].warning);
    }
}

/* ---- Weights ---- */

/* Returns the weights of the samples as "1 0.5". */
static const char *weights_of(const eitp_labelled_source *source) {
    static char text[256];
    size_t used = 0;
    text[0] = 0;
    for (uint64_t i = 0; i < source->count; i++) {
        eitp_labelled_sample sample = EITP__ZERO;
        if (source->read(source->user, i, &sample, NULL))
            return "failed";
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%g", i ? " " : "", (double)sample.weight);
    }
    return text;
}

/* Weights stay with their samples. If no example has a weight, the file is the same as without weights. */
static void test_weights_of_samples(void) {
    static const row items[] = {{"one", NULL, {"a"}, 0}, {"two", NULL, {"b"}, 0}, {"one", NULL, {"a"}, 0},
                                {"c", NULL, {"b"}, 0},   {"d e", NULL, {"a"}, 0}, {"f", NULL, {"b"}, 0}};
    static const char *const weights[] = {NULL, " 0.5 ", "9", "", "0", "-0"};
    static const char *const wrong[] = {"-1", "much", "1e39", "nan", "1 2"};
    static const uint64_t picked[] = {3, 1};
    const char *ones[2] = {NULL, NULL};
    eitp_labelled_pack_config config = plain();
    eitp_labelled_part *part;
    eitp_labelled_source source;
    eitp_sample_file *file;
    eitp_sample_file_info info[2];
    eitp_error error;
    config.dedup = 1;
    row_weights = weights;
    file = packed(config, items, EITP__COUNT(items));
    source = eitp_sample_file_labelled_source(file);
    CHECK(source.has_weights && same_text(weights_of(&source), "1 0.5 1 0 0") && same_text(names_of(file), "a,b"));
    CHECK(eitp_sample_file_get_info(file).has_weights && !eitp_sample_file_verify(file, &error));
    REQUIRE_OK(eitp_labelled_part_create(file, picked, 2, &part, &error), error);
    source = eitp_labelled_part_source(part);
    CHECK(source.has_weights && same_text(weights_of(&source), "0 0.5"));
    eitp_labelled_part_destroy(part);
    eitp_sample_file_close(file);
    row_weights = ones;
    for (int i = 0; i < 2; i++) {
        ones[0] = ones[1] = i ? "1.0" : NULL;
        REQUIRE_OK(pack_on(host, wordpiece, config, items, 2, "a.lab", &info[i], &error), error);
        CHECK(!info[i].has_weights);
    }
    CHECK(info[0].content_hash == info[1].content_hash);
    for (size_t i = 0; i < EITP__COUNT(wrong); i++) {
        ones[1] = wrong[i];
        CHECK(pack_on(host, wordpiece, config, items, 2, "a.lab", NULL, &error) == EITP_ERROR_FORMAT &&
              has(&error, "rows.csv: line 3, column 7: the weight must be a number of at least 0 (got '"));
    }
    row_weights = NULL;
}

static void test_refused_settings(void) {
    eitp_labelled_pack_config config = plain();
    eitp_example_source source;
    eitp_error error;
    rows r;
    config.sequence.max_length = 2;
    CHECK(pack_on(host, wordpiece, config, sentences, 5, "a.lab", NULL, &error) == EITP_ERROR_ARGUMENT);
    CHECK(has(&error, "must be more than the 2 special tokens of a sequence (got 2)"));
    config.sequence.max_length = 3; /* no room for a pair */
    CHECK(pack_on(host, wordpiece, config, sentences, 5, "a.lab", NULL, &error) == EITP_ERROR_FORMAT);
    CHECK(has(&error, "rows.csv: line 5, column 7: "));
    config = plain();
    config.sequence.truncation = (eitp_truncation)9;
    CHECK(pack_on(host, wordpiece, config, sentences, 5, "a.lab", NULL, &error) == EITP_ERROR_ARGUMENT);
    CHECK(has(&error, "truncation 9"));
    config = plain();
    config.label_count = 2;
    CHECK(pack_on(host, wordpiece, config, sentences, 5, "a.lab", NULL, &error) == EITP_ERROR_ARGUMENT);
    CHECK(has(&error, "label_count"));
    config = plain();
    source = source_of(&r, sentences, 5);
    CHECK(eitp_labelled_pack(host, wordpiece, &config, &source, scratch, NULL, &error) == EITP_ERROR_ARGUMENT);
    CHECK(has(&error, "choose another name for the labelled file"));
    CHECK(eitp_labelled_pack(host, NULL, &config, &source, at("a.lab"), NULL, &error) == EITP_ERROR_ARGUMENT);
    r.fails = EITP_ERROR_IO;
    CHECK(eitp_labelled_pack(host, wordpiece, &config, &source, at("a.lab"), NULL, &error) == EITP_ERROR_IO);
    CHECK(same_text(error.message, "the source failed"));
}

static int stop_at_three(void *user, const eitp_labelled_progress *progress) {
    CHECK(progress->examples == ++*(uint64_t *)user && progress->ids > 0 && progress->line == progress->examples + 1);
    return progress->examples == 3;
}

static void test_progress_interrupts(void) {
    eitp_labelled_pack_config config = plain();
    uint64_t calls = 0;
    eitp_error error;
    config.progress = stop_at_three;
    config.user = &calls;
    REQUIRE_OK(eitp__write_file(host, at("a.lab"), "old", 3, &error), error);
    CHECK(pack_on(host, wordpiece, config, sentences, 5, "a.lab", NULL, &error) == EITP_ERROR_INTERRUPTED);
    CHECK(calls == 3 && has(&error, "stopped after 3 examples") && is_there("a.lab") && !is_there("a.lab.partial"));
}

/* ---- Duplicates ---- */

static const row repeats[] = {
    {"one", NULL, {"a"}, 0},   {"two", NULL, {"b"}, 0},   {"one", NULL, {"a"}, 0},
    {"three", NULL, {"a"}, 0}, {"three", NULL, {"b"}, 0}, {"one", NULL, {"a"}, 0},
    {"one", "two", {"b"}, 0},  {"onetw", "o", {"a"}, 0},  {"four words in it", NULL, {"b"}, 0},
    {"three", NULL, {"a"}, 0}, {"one", "", {"b"}, 0},
};

static void test_repeats(void) {
    eitp_labelled_pack_config config = plain();
    const size_t count = EITP__COUNT(repeats);
    eitp_sample_file_info info;
    eitp_sample_file *file = packed(config, repeats, count);
    REQUIRE(file != NULL);
    info = eitp_sample_file_get_info(file);
    CHECK(info.sample_count == count && info.repeated == 2 && info.ambiguous == 3 && !info.dedup);
    eitp_sample_file_close(file);
    config.dedup = 1;
    file = packed(config, repeats, count);
    REQUIRE(file != NULL);
    info = eitp_sample_file_get_info(file);
    CHECK(info.sample_count == 6 && info.repeated == 2 && info.ambiguous == 3 && info.dedup && info.label_count == 2);
    static const row kept[] = {{"one", NULL, {"a"}, 0},
                               {"two", NULL, {"b"}, 0},
                               {"one", "two", {"b"}, 0},
                               {"onetw", "o", {"a"}, 0},
                               {"four words in it", NULL, {"b"}, 0},
                               {"one", "", {"b"}, 0}};
    for (size_t i = 0; i < 6; i++)
        CHECK(same_text(labels_of(file, i), kept[i].labels[0][0] == 'a' ? "0" : "1"));
    CHECK(eitp_sample_file_verify(file, NULL) == EITP_OK);
    const uint64_t hash = info.content_hash;
    eitp_sample_file_close(file);
    /* The file equals a file of only the kept examples. */
    file = packed(config, kept, 6);
    REQUIRE(file != NULL);
    CHECK(eitp_sample_file_get_info(file).content_hash == hash);
    eitp_sample_file_close(file);
    eitp_error error;
    CHECK(pack_on(host, wordpiece, config, repeats + 3, 2, "a.lab", NULL, &error) == EITP_ERROR_ARGUMENT);
    CHECK(has(&error, "no sample is left"));
}

/* Samples larger than several buffers, between duplicates that are not kept. */
static void test_long_samples(void) {
    enum { LONG = 100000 };
    char *text = (char *)malloc(LONG + 1);
    int32_t *ids = (int32_t *)calloc(LONG, sizeof *ids);
    eitp_labelled_pack_config config = eitp_labelled_pack_config_default();
    eitp_labelled_sample sample = EITP__ZERO;
    eitp_sample_file *file = NULL;
    eitp_sample_file_info info;
    eitp_error error;
    row items[5] = EITP__ZERO;
    REQUIRE(text && ids);
    for (int i = 0; i < LONG; i++)
        text[i] = (char)('a' + noise((uint64_t)i) % 26);
    text[LONG] = 0;
    for (int i = 0; i < 5; i++) {
        items[i].text = i == 2 ? text + LONG / 2 : text;
        items[i].labels[0] = i & 1 ? "a" : "b";
    }
    config.dedup = 1;
    REQUIRE_OK(pack_on(host, bytes_tokenizer, config, items, 5, "a.lab", &info, &error), error);
    CHECK(info.sample_count == 1 && info.ambiguous == 4 && info.token_count == LONG / 2);
    REQUIRE_OK(eitp_sample_file_open(host, at("a.lab"), 0, &file, &error), error);
    sample.ids = ids;
    REQUIRE_OK(eitp_sample_file_read_sample(file, 0, &sample, &error), error);
    for (int i = 0; i < LONG / 2; i += 999) {
        const char *byte = NULL;
        size_t size = 0;
        CHECK(eitp_tokenizer_token(bytes_tokenizer, ids[i], &byte, &size, &error) == EITP_OK && size == 1 &&
              *byte == text[LONG / 2 + i]);
    }
    CHECK(eitp_sample_file_verify(file, &error) == EITP_OK);
    eitp_sample_file_close(file);
    free(text);
    free(ids);
}

/* Labels are compared as sets. */
static void test_repeats_with_several_labels(void) {
    static const row items[] = {{"one", NULL, {"a"}, 0},
                                {"one", NULL, {"a|b"}, 0},
                                {"two", NULL, {"a|b"}, 0},
                                {"two", NULL, {"b|a"}, 0},
                                {"three", NULL, {"c"}, 0}};
    eitp_labelled_pack_config config = plain();
    eitp_sample_file *file;
    config.dedup = 1;
    file = packed(config, items, 5);
    REQUIRE(file != NULL);
    const eitp_sample_file_info info = eitp_sample_file_get_info(file);
    CHECK(info.ambiguous == 2 && info.repeated == 1 && info.sample_count == 2);
    CHECK(same_text(labels_of(file, 0), "1 1 0") && same_text(labels_of(file, 1), "0 0 1"));
    eitp_sample_file_close(file);
}

/* Many samples, most of them dropped, so ids move across several buffers. */
static void test_many_repeats(void) {
    enum { MANY = 6000 };
    row *items = (row *)calloc(MANY, sizeof *items);
    char(*texts)[48] = (char(*)[48])calloc(MANY, sizeof *texts);
    eitp_labelled_pack_config config = plain();
    eitp_sample_file *file;
    REQUIRE(items && texts);
    for (int i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof texts[i], "number %d of the texts", i % 4000);
        items[i].text = texts[i];
        items[i].labels[0] = i % 4000 < 1500 && i >= 4000 ? "b" : "a";
    }
    config.dedup = 1;
    file = packed(config, items, MANY);
    REQUIRE(file != NULL);
    const eitp_sample_file_info info = eitp_sample_file_get_info(file);
    CHECK(info.sample_count == 2500 && info.ambiguous == 3000 && info.repeated == 500);
    CHECK(eitp_sample_file_verify(file, NULL) == EITP_OK);
    for (uint64_t i = 0; i < 2500; i += 7) {
        int32_t ids[2][64];
        const eitp_text text = text_of(texts[1500 + i]);
        eitp_labelled_sample sample = EITP__ZERO;
        eitp_sequence_report report;
        sample.ids = ids[0];
        CHECK(eitp_sample_file_read_sample(file, i, &sample, NULL) == EITP_OK &&
              eitp_tokenizer_encode_sequence(wordpiece, &text, NULL, NULL, ids[1], NULL, 64, &report, NULL) == EITP_OK);
        CHECK(report.count == (size_t)sample.length && !memcmp(ids[0], ids[1], report.count * sizeof ids[0][0]));
    }
    eitp_sample_file_close(file);
    free(items);
    free(texts);
}

/* ---- Splits ---- */

/* Packs `count` rows. `label` returns the label of each. */
static eitp_sample_file *packed_classes(int count, const char *(*label)(int)) {
    row *items = (row *)calloc((size_t)count, sizeof *items);
    char(*texts)[32] = (char(*)[32])calloc((size_t)count, sizeof *texts);
    eitp_sample_file *file = NULL;
    if (items && texts) {
        for (int i = 0; i < count; i++) {
            snprintf(texts[i], sizeof texts[i], "text %d", i);
            items[i].text = texts[i];
            items[i].labels[0] = label(i);
        }
        file = packed(plain(), items, (size_t)count);
    }
    free(items);
    free(texts);
    return file;
}

/* 1000 samples: 800 of "a", 191 of "b", 5 of "c", 3 of "d", 1 of "e". */
static const char *uneven(int i) {
    return i % 5 ? "a" : i < 25 ? "c" : i < 40 ? "d" : i < 45 ? "e" : "b";
}

static const char *no_label(int i) {
    (void)i;
    return NULL;
}

static void counts_of(const eitp_labelled_part *part, uint64_t counts[5]) {
    const eitp_labelled_source source = eitp_labelled_part_source(part);
    eitp_error error;
    REQUIRE_OK(eitp__labelled_class_counts(host, &source, counts, &error), error);
}

/* Every sample is in exactly one of the parts. */
static void check_partition(const eitp_labelled_part *a, const eitp_labelled_part *b, uint64_t all) {
    unsigned char *seen = (unsigned char *)calloc((size_t)all, 1);
    const eitp_labelled_part *parts[] = {a, b};
    uint64_t found = 0;
    REQUIRE(seen != NULL);
    for (size_t k = 0; k < 2; k++) {
        for (uint64_t i = 0; i < parts[k]->count; i++) {
            const uint64_t sample = parts[k]->samples[i];
            CHECK(sample < all && !seen[sample] && (!i || sample > parts[k]->samples[i - 1]));
            seen[sample] = 1;
            found++;
        }
    }
    CHECK(found == all);
    free(seen);
}

static void test_split_is_stratified(void) {
    static const double fractions[] = {1e-9, 0.001, 0.002, 0.004, 0.01, 0.1, 0.2, 0.5, 0.9, 0.999, 0.99999};
    static const uint64_t all[] = {800, 191, 5, 3, 1};
    eitp_sample_file *file = packed_classes(1000, uneven);
    REQUIRE(file != NULL);
    for (size_t k = 0; k < EITP__COUNT(fractions); k++) {
        eitp_labelled_part *training, *validation;
        uint64_t counts[2][5];
        eitp_error error;
        REQUIRE_OK(eitp_labelled_split(file, fractions[k], 7, &training, &validation, &error), error);
        check_partition(training, validation, 1000);
        counts_of(training, counts[0]);
        counts_of(validation, counts[1]);
        const uint64_t nearest = (uint64_t)llround(1000 * fractions[k]);
        CHECK(validation->count == (nearest < 1 ? 1 : nearest > 999 ? 999 : nearest));
        for (size_t label = 0; label < 5; label++) {
            const double share = fractions[k] * (double)all[label];
            CHECK(counts[0][label] + counts[1][label] == all[label]);
            if (all[label] > 1 && validation->count >= 4 && training->count >= 5)
                CHECK(counts[0][label] && counts[1][label]);
            if (training->count >= 5)
                CHECK_THAT(fabs((double)counts[1][label] - share) < 2.5, "%g: label %zu has %llu", fractions[k], label,
                           (unsigned long long)counts[1][label]);
        }
        CHECK(validation->count > 4 || (counts[1][0] && !counts[1][4]));
        eitp_labelled_part_destroy(training);
        eitp_labelled_part_destroy(validation);
    }
    eitp_sample_file_close(file);
}

/* Values computed by an independent program from docs/sample-file.md. Resumed runs depend on them. */
static void test_split_keeps_its_values(void) {
    eitp_labelled_part *parts[3][2];
    eitp_sample_file *file = packed_classes(1000, uneven);
    eitp_error error;
    uint64_t shared = 0;
    REQUIRE(file != NULL);
    for (uint64_t k = 0; k < 3; k++)
        REQUIRE_OK(eitp_labelled_split(file, 0.2, k < 2 ? 1 : 2, &parts[k][0], &parts[k][1], &error), error);
    CHECK(!memcmp(parts[0][1]->samples, parts[1][1]->samples, 200 * sizeof(uint64_t)));
    CHECK(parts[0][1]->hash == parts[1][1]->hash && parts[0][1]->hash != parts[2][1]->hash);
    CHECK(parts[0][0]->hash != parts[0][1]->hash);
    for (uint64_t i = 0; i < 200; i++)
        for (uint64_t j = 0; j < 200; j++)
            shared += parts[0][1]->samples[i] == parts[2][1]->samples[j];
    CHECK_THAT(shared > 20 && shared < 70, "%llu samples are shared", (unsigned long long)shared);
    static const uint64_t expected[] = {5, 18, 25, 26, 34, 46, 48, 49, 50, 55};
    for (size_t i = 0; i < EITP__COUNT(expected); i++)
        CHECK_THAT(parts[0][1]->samples[i] == expected[i], "%llu", (unsigned long long)parts[0][1]->samples[i]);
    shared = 0;
    for (size_t i = 0; i < 200; i++)
        shared += parts[0][1]->samples[i] * parts[0][1]->samples[i];
    CHECK(shared == 62273138);
    for (size_t k = 0; k < 6; k++)
        eitp_labelled_part_destroy(parts[k / 2][k % 2]);
    eitp_sample_file_close(file);
}

static void test_split_without_labels(void) {
    eitp_labelled_part *training, *validation;
    eitp_sample_file *file = packed_classes(100, no_label);
    eitp_error error;
    REQUIRE(file != NULL);
    REQUIRE_OK(eitp_labelled_split(file, 0.25, 3, &training, &validation, &error), error);
    CHECK(validation->count == 25);
    check_partition(training, validation, 100);
    eitp_labelled_part_destroy(training);
    eitp_labelled_part_destroy(validation);
    REQUIRE_OK(eitp_labelled_split(file, 0, 3, &training, &validation, &error), error);
    CHECK(!validation->count && training->count == 100 && eitp_labelled_part_source(validation).count == 0);
    uint64_t overlap = 9;
    CHECK(eitp__labelled_overlap(validation, training, &overlap, &error) == EITP_OK && !overlap);
    eitp_labelled_part_destroy(training);
    eitp_labelled_part_destroy(validation);
    CHECK(eitp_labelled_split(file, 1, 3, &training, &validation, &error) == EITP_ERROR_ARGUMENT);
    CHECK(has(&error, "below 1 (got 1)") && !training && !validation);
    CHECK(eitp_labelled_split(file, NAN, 3, &training, &validation, &error) == EITP_ERROR_ARGUMENT);
    eitp_sample_file_close(file);
    file = packed_classes(1, no_label);
    CHECK(eitp_labelled_split(file, 0.5, 3, &training, &validation, &error) == EITP_ERROR_ARGUMENT);
    CHECK(has(&error, "one sample cannot be split"));
    eitp_sample_file_close(file);
}

static void test_parts_and_overlap(void) {
    static const uint64_t some[] = {10, 2, 2, 0}, outside[] = {0, 11};
    eitp_sample_file *a = packed(plain(), repeats, EITP__COUNT(repeats)), *b = NULL;
    eitp_labelled_part *all, *part, *other;
    eitp_labelled_sample sample = EITP__ZERO;
    uint64_t count = 0;
    eitp_error error;
    REQUIRE(a != NULL);
    REQUIRE_OK(pack_on(host, roberta, plain(), repeats + 1, 3, "b.lab", NULL, &error), error);
    REQUIRE_OK(eitp_sample_file_open(host, at("b.lab"), 0, &b, &error), error);
    REQUIRE_OK(eitp_labelled_part_create(a, NULL, 0, &all, &error), error);
    REQUIRE_OK(eitp_labelled_part_create(a, some, 4, &part, &error), error);
    REQUIRE_OK(eitp_labelled_part_create(b, NULL, 0, &other, &error), error);
    CHECK(eitp_labelled_part_source(all).count == 11 && eitp_labelled_part_source(part).count == 4);
    CHECK(eitp_labelled_part_source(all).max_length == eitp_sample_file_get_info(a).max_length);
    CHECK(eitp_labelled_part_source(part).max_length == 4); /* [CLS] one [SEP] [SEP] */
    const eitp_labelled_source source = eitp_labelled_part_source(part);
    CHECK(source.read(source.user, 3, &sample, &error) == EITP_OK && sample.label == 0 && sample.length == 3);
    CHECK(source.read(source.user, 4, &sample, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp__labelled_overlap(all, all, &count, &error) == EITP_OK && count == 11);
    CHECK(eitp__labelled_overlap(part, all, &count, &error) == EITP_OK && count == 4);
    CHECK(eitp__labelled_overlap(all, part, &count, &error) == EITP_OK && count == 4);
    CHECK(eitp__labelled_overlap(other, all, &count, &error) == EITP_OK && count == 7);
    CHECK(eitp__labelled_overlap(all, other, &count, &error) == EITP_OK && count == 3);
    CHECK(eitp__labelled_overlap(part, other, &count, &error) == EITP_OK && count == 1);
    eitp_labelled_part *none = NULL;
    CHECK(eitp_labelled_part_create(a, outside, 2, &none, &error) == EITP_ERROR_ARGUMENT && !none);
    CHECK(has(&error, "sample 11 is outside the 11 samples"));
    CHECK(eitp_labelled_part_create(a, NULL, 2, &none, &error) == EITP_ERROR_ARGUMENT);
    CHECK(!eitp_labelled_part_source(NULL).read && !eitp_sample_file_labelled_source(NULL).read);
    eitp_labelled_part_destroy(all);
    eitp_labelled_part_destroy(part);
    eitp_labelled_part_destroy(other);
    eitp_sample_file_close(a);
    eitp_sample_file_close(b);
}

/* ---- Memory, counts, weights ---- */

static eitp_labelled_arrays three_samples(void) {
    static const uint64_t starts[] = {0, 2, 3, 6};
    static const int32_t ids[] = {5, 6, 7, 8, 9, 1}, segments[] = {0, 1, 0, 0, 2, 1}, labels[] = {1, -1, 0};
    static const float targets[] = {0, 1, 0, 1, 1, 0};
    eitp_labelled_arrays arrays = EITP__ZERO;
    arrays.count = 3;
    arrays.starts = starts;
    arrays.ids = ids;
    arrays.segments = segments;
    arrays.problem = EITP_PROBLEM_SINGLE_LABEL;
    arrays.label_count = 2;
    arrays.labels = labels;
    arrays.targets = targets;
    return arrays;
}

static void test_memory_source(void) {
    eitp_labelled_arrays arrays = three_samples();
    eitp_labelled_sample sample = EITP__ZERO;
    eitp_labelled_source source;
    int32_t ids[3], segments[3];
    float targets[2];
    uint64_t counts[2];
    eitp_error error;
    REQUIRE_OK(eitp_labelled_memory_source(&arrays, &source, &error), error);
    sample.ids = ids;
    sample.segments = segments;
    sample.targets = targets;
    CHECK(source.count == 3 && source.max_length == 3 && source.hash);
    CHECK(source.read(source.user, 2, &sample, &error) == EITP_OK && sample.length == 3 && sample.label == 0);
    CHECK(ids[0] == 8 && ids[2] == 1 && segments[1] == 2);
    CHECK(source.read(source.user, 3, &sample, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp__labelled_class_counts(host, &source, counts, &error) == EITP_OK && counts[0] == 1 && counts[1] == 1);
    const uint64_t hash = source.hash;
    arrays.problem = EITP_PROBLEM_MULTI_LABEL;
    REQUIRE_OK(eitp_labelled_memory_source(&arrays, &source, &error), error);
    CHECK(source.read(source.user, 2, &sample, &error) == EITP_OK && targets[0] > 0 && targets[1] < 1);
    CHECK(eitp__labelled_class_counts(host, &source, counts, &error) == EITP_OK && counts[0] == 1 && counts[1] == 2);
    CHECK(source.hash != hash && sample.label == -1);
    const uint64_t labels_hash = source.hash;
    static const float others[] = {0, 1, 0, 1, 0, 1};
    arrays.targets = others;
    REQUIRE_OK(eitp_labelled_memory_source(&arrays, &source, &error), error);
    CHECK(source.hash != labels_hash);
    arrays.problem = EITP_PROBLEM_REGRESSION;
    REQUIRE_OK(eitp_labelled_memory_source(&arrays, &source, &error), error);
    CHECK(eitp__labelled_class_counts(host, &source, counts, &error) == EITP_ERROR_ARGUMENT &&
          has(&error, "regression"));
}

static void test_memory_source_refuses(void) {
    static const uint64_t empty[] = {0, 2, 2, 6};
    static const int32_t far_label[] = {1, 2, 0}, negative[] = {5, 6, -7, 8, 9, 1};
    static const float odd[] = {0, 1, 0, 1, 1, 0.5F}, infinite[] = {0, 1, 0, INFINITY, 1, 0};
    eitp_labelled_source source;
    eitp_error error;
    for (int i = 0; i < 7; i++) {
        static const char *const words[] = {"sample 1 starts at id 2",
                                            "label 2, but there are 2",
                                            "negative id",
                                            "must be 0 or 1 (got 0.5)",
                                            "must be finite",
                                            "label_count",
                                            "labels"};
        eitp_labelled_arrays arrays = three_samples();
        arrays.starts = i == 0 ? empty : arrays.starts;
        arrays.labels = i == 1 ? far_label : i == 6 ? NULL : arrays.labels;
        arrays.ids = i == 2 ? negative : arrays.ids;
        arrays.targets = i == 3 ? odd : i == 4 ? infinite : arrays.targets;
        arrays.problem = i == 3 ? EITP_PROBLEM_MULTI_LABEL : i == 4 ? EITP_PROBLEM_REGRESSION : arrays.problem;
        arrays.label_count = i == 5 ? 0 : 2;
        CHECK(eitp_labelled_memory_source(&arrays, &source, &error) == EITP_ERROR_ARGUMENT && has(&error, words[i]));
        CHECK(!source.read && !source.count);
    }
}

/* Values of sklearn.utils.class_weight.compute_class_weight("balanced", ...) for these counts. */
static void test_balanced_weights(void) {
    static const uint64_t counts[] = {6, 3, 0, 1};
    static const float expected[] = {10.0F / 18, 10.0F / 9, 1, 10.0F / 3};
    float weights[4];
    eitp__labelled_balanced_weights(counts, 4, weights);
    for (int i = 0; i < 4; i++)
        CHECK_THAT(fabsf(weights[i] - expected[i]) < 1e-6F, "%d: %g", i, (double)weights[i]);
    eitp__labelled_balanced_weights(NULL, 4, weights);
}

/* Uses a file like a task. */
static eitp_status use_file(const eitp_host *on, const char *path, eitp_error *error) {
    eitp_labelled_part *training = NULL, *validation = NULL;
    eitp_sample_file *file = NULL;
    uint64_t count = 0;
    eitp_status status = eitp_sample_file_open(on, path, 0, &file, error);
    if (status == EITP_OK)
        status = eitp_sample_file_verify(file, error);
    if (status == EITP_OK)
        status = eitp_labelled_split(file, 0.4, 1, &training, &validation, error);
    if (status == EITP_OK)
        status = eitp__labelled_overlap(training, validation, &count, error);
    if (status == EITP_OK) {
        const eitp_labelled_source source = eitp_labelled_part_source(validation);
        uint64_t counts[16] = EITP__ZERO;
        if (source.label_count && source.label_count <= 16 && source.problem != EITP_PROBLEM_REGRESSION)
            status = eitp__labelled_class_counts(on, &source, counts, error);
    }
    eitp_labelled_part_destroy(training);
    eitp_labelled_part_destroy(validation);
    eitp_sample_file_close(file);
    return status;
}

static const row several[] = {
    {"The film is good", NULL, {"pos|film"}, 0},
    {"It was the worst", "of all", {"neg"}, 0},
    {"\xE4\xBD\xA0\xE5\xA5\xBD", NULL, {"neutral"}, 0},
    {"The film is good", NULL, {"pos|film"}, 0},
};

/* ---- Two tokenizers ---- */

static const row alone[] = {
    {"The film is good, really good!", NULL, {"pos"}, 0},
    {"It was the worst of all films", NULL, {"neg"}, 0},
    {"\xE4\xBD\xA0\xE5\xA5\xBD, world", NULL, {"neutral"}, 0},
    {"Again and again and again and again and again and again and again and again", NULL, {"pos"}, 0},
};

/* Every sample of a file equals the tokenizers' output for its row, one tokenizer after the other. */
static void check_both(const eitp_tokenizer *const tokenizers[2], const eitp_sample_file *file, const row *items,
                       size_t count) {
    const eitp_sample_file_info info = eitp_sample_file_get_info(file);
    int32_t ids[512], found[512], segments[512];
    int64_t longest[3] = EITP__ZERO;
    uint64_t cut = 0, cut_samples = 0;
    eitp_error error;
    REQUIRE(info.sample_count == count && info.max_length <= 512);
    for (size_t i = 0; i < count; i++) {
        const eitp_text text = text_of(items[i].text);
        eitp_labelled_sample sample = EITP__ZERO;
        int64_t first = 0;
        int is_cut = 0;
        sample.ids = found;
        sample.segments = segments;
        REQUIRE_OK(eitp_sample_file_read_sample(file, i, &sample, &error), error);
        for (int t = 0; t < 2; t++) {
            eitp_sequence_report report;
            REQUIRE_OK(eitp_tokenizer_encode_sequence(tokenizers[t], &text, NULL,
                                                      t ? &info.second_sequence : &info.sequence, ids, NULL, 512,
                                                      &report, &error),
                       error);
            const int64_t length = (int64_t)report.count;
            REQUIRE(first + length <= sample.length);
            CHECK(!memcmp(found + first, ids, report.count * sizeof ids[0]));
            for (int64_t k = first; k < first + length; k++)
                CHECK(segments[k] == t);
            first += length;
            longest[t] = length > longest[t] ? length : longest[t];
            cut += report.cut_first;
            is_cut |= report.cut_first > 0;
        }
        CHECK(first == sample.length);
        longest[2] = first > longest[2] ? first : longest[2];
        cut_samples += (uint64_t)is_cut;
    }
    CHECK(info.max_first == longest[0] && info.max_second == longest[1] && info.max_length == longest[2]);
    CHECK(info.cut_ids == cut && info.cut_samples == cut_samples && !info.pair_count);
    CHECK(info.tokenizer_fingerprint == eitp_tokenizer_fingerprint(tokenizers[0]));
    CHECK(info.second_fingerprint == eitp_tokenizer_fingerprint(tokenizers[1]));
    CHECK(info.vocabulary_size == eitp_tokenizer_size(tokenizers[0]));
    CHECK(info.second_vocabulary == eitp_tokenizer_size(tokenizers[1]));
}

static void test_two_tokenizers(void) {
    const eitp_tokenizer *const pairs[][2] = {
        {bytes_tokenizer, wordpiece}, {wordpiece, roberta}, {roberta, bytes_tokenizer}, {wordpiece, wordpiece}};
    static const int32_t lengths[][2] = {{0, 0}, {12, 40}, {40, 7}};
    for (size_t i = 0; i < EITP__COUNT(pairs) * EITP__COUNT(lengths); i++) {
        const eitp_tokenizer *const *tokenizers = pairs[i / EITP__COUNT(lengths)];
        const int32_t *length = lengths[i % EITP__COUNT(lengths)];
        eitp_labelled_pack_config config = eitp_labelled_pack_config_default();
        eitp_sample_file_info info;
        eitp_sample_file *file;
        eitp_error error;
        config.sequence.max_length = length[0];
        config.second = tokenizers[1];
        config.second_sequence.max_length = length[1];
        config.second_sequence.truncate_left = length[1] == 7 ? 4 : 0;
        config.second_sequence.omit_special_tokens = length[1] == 40 ? 2 : 0;
        REQUIRE_OK(pack_on(host, tokenizers[0], config, alone, 4, "a.lab", &info, &error), error);
        REQUIRE_OK(eitp_sample_file_open(host, at("a.lab"), 0, &file, &error), error);
        const eitp_sample_file_info again = eitp_sample_file_get_info(file);
        CHECK(!memcmp(&info, &again, sizeof info) && !info.skipped);
        CHECK(info.second_sequence.truncate_left == (length[1] == 7) &&
              info.second_sequence.omit_special_tokens == (length[1] == 40) && !info.sequence.truncate_left);
        CHECK(same_text(names_of(file), "neg,neutral,pos") && same_text(labels_of(file, 2), "1"));
        CHECK(eitp_sample_file_verify(file, &error) == EITP_OK);
        check_both(tokenizers, file, alone, 4);
        eitp_sample_file_close(file);
    }
}

/* Writes a sample of ids below 300 followed by ids below 70000, which take four bytes. */
static eitp_status write_two(const int32_t *first, const int32_t *second, eitp_error *error) {
    eitp__sample_writer writer;
    eitp__labelled_index index;
    eitp__labelled_entry entry = EITP__ZERO;
    eitp__buffer names;
    eitp__buffer_init(&names, host);
    eitp__labelled_index_init(&index, host);
    eitp_status status =
        eitp__sample_writer_open(&writer, host, at("a.lab"), EITP_SAMPLE_FILE_LABELLED, 300, 70000, error);
    if (status == EITP_OK)
        status = eitp__sample_writer_add(&writer, 0, first, 2, &entry.record.crc, error);
    if (status == EITP_OK)
        status = eitp__sample_writer_add(&writer, 1, second, 3, &entry.record.crc, error);
    if (status == EITP_OK)
        status = eitp__labelled_index_reserve(&index, 0, error);
    if (status == EITP_OK) {
        entry.record.boundary = 2;
        entry.record.length = 5;
        writer.layout.info.second_fingerprint = 1;
        eitp__labelled_index_add(&index, entry, NULL, 0);
        eitp__labelled_index_count(&index, &writer.layout.info);
        status = eitp__labelled_writer_finish(&writer, &index, &names, error);
    }
    eitp__sample_writer_release(&writer);
    eitp__labelled_index_release(&index);
    return status;
}

/* Ids are checked against the vocabulary of their segment. The caller's size applies to segment 0. */
static void test_two_vocabularies(void) {
    static const int32_t first[] = {299, 0}, second[] = {69999, 0, 300}, far[] = {0, 0, 70000};
    static const int32_t both[] = {299, 0, 69999, 0, 300};
    eitp_labelled_sample sample = EITP__ZERO;
    eitp_sample_file *file = NULL;
    eitp__buffer content;
    int32_t found[5];
    eitp_error error;
    CHECK(write_two(second, second, &error) == EITP_ERROR_INTERNAL && has(&error, "outside its vocabulary of 300"));
    CHECK(write_two(first, far, &error) == EITP_ERROR_INTERNAL && has(&error, "outside its vocabulary of 70000"));
    REQUIRE_OK(write_two(first, second, &error), error);
    eitp__buffer_init(&content, host);
    CHECK(eitp__read_file(host, at("a.lab"), 1 << 20, &content, &error) == EITP_OK && content.data[8] == 3);
    eitp__buffer_release(&content);
    sample.ids = found;
    for (int32_t limit = 0; limit <= 300; limit += 300) {
        REQUIRE_OK(eitp_sample_file_open(host, at("a.lab"), limit, &file, &error), error);
        CHECK(eitp_sample_file_get_info(file).element_size == 4);
        CHECK(!eitp_sample_file_read_sample(file, 0, &sample, &error) && !memcmp(found, both, sizeof both));
        CHECK(!eitp_sample_file_verify(file, &error));
        CHECK(eitp_sample_file_read_tokens(file, 0, 5, found, &error) == (limit ? EITP_ERROR_FORMAT : EITP_OK));
        CHECK(!memcmp(found, both, 2 * sizeof both[0]) && (!limit || has(&error, "token 2 has id 69999")));
        eitp_sample_file_close(file);
    }
    REQUIRE_OK(eitp_sample_file_open(host, at("a.lab"), 299, &file, &error), error);
    CHECK(eitp_sample_file_read_sample(file, 0, &sample, &error) == EITP_ERROR_FORMAT && has(&error, "id 299"));
    eitp_sample_file_close(file);
}

/* Duplicates, parts and overlaps are determined from the text, which a sample has once. */
static void test_texts_of_two_tokenizers(void) {
    eitp_labelled_pack_config config = plain();
    eitp_labelled_part *once = NULL, *twice = NULL;
    const uint64_t numbers[] = {3, 0};
    eitp_sample_file *files[2] = {NULL, NULL};
    eitp_labelled_sample sample = EITP__ZERO;
    eitp_error error;
    uint64_t count = 0;
    row items[6];
    memcpy(items, alone, sizeof alone);
    items[4] = alone[1];
    items[5] = alone[2];
    items[5].labels[0] = "pos";
    files[0] = packed(config, items, 6);
    REQUIRE(files[0] != NULL);
    config.dedup = 1;
    config.second = bytes_tokenizer;
    REQUIRE_OK(pack_on(host, wordpiece, config, items, 6, "b.lab", NULL, &error), error);
    REQUIRE_OK(eitp_sample_file_open(host, at("b.lab"), 0, &files[1], &error), error);
    const eitp_sample_file_info info = eitp_sample_file_get_info(files[1]);
    CHECK(info.repeated == 1 && info.ambiguous == 2 && info.sample_count == 3 &&
          !eitp_sample_file_verify(files[1], NULL));
    REQUIRE_OK(eitp_labelled_part_create(files[0], NULL, 0, &once, &error), error);
    REQUIRE_OK(eitp_labelled_part_create(files[1], numbers + 1, 1, &twice, &error), error);
    CHECK(!eitp__labelled_overlap(once, twice, &count, &error) && count == 1);
    const eitp_labelled_source source = eitp_labelled_part_source(twice);
    CHECK(!source.read(source.user, 0, &sample, &error) && sample.length == source.max_length);
    CHECK(source.max_length < info.max_length);
    CHECK(!use_file(host, at("b.lab"), &error));
    eitp_labelled_part_destroy(once);
    eitp_labelled_part_destroy(twice);
    eitp_sample_file_close(files[0]);
    eitp_sample_file_close(files[1]);
}

/* Pairs, and text that has no tokens or too many in one of the tokenizers, are bad examples. */
static void test_bad_for_two_tokenizers(void) {
    static const struct {
        const char *text, *pair;
        int wordpiece_first;
        const char *words;
    } cases[] = {
        {"one", "two", 0, "rows.csv: line 3, column 7: the example is a pair, but with two tokenizers"},
        {"one", "", 0, "line 3, column 7: the example is a pair"},
        {" ", NULL, 0, "line 3, column 7: second tokenizer: the text is empty: it has no tokens"},
        {" ", NULL, 1, "line 3, column 7: the text is empty: it has no tokens"},
        {"one two three four five six", NULL, 0, "line 3, column 7: second tokenizer: the sequence has "},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        row items[3] = {{"the", NULL, {"a"}, 0}, {NULL, NULL, {"unseen"}, 0}, {"good", NULL, {"b"}, 0}};
        eitp_labelled_pack_config config = eitp_labelled_pack_config_default();
        const eitp_tokenizer *first = cases[i].wordpiece_first ? wordpiece : bytes_tokenizer;
        eitp_sample_file_info info;
        eitp_error error;
        items[1].text = cases[i].text;
        items[1].pair = cases[i].pair;
        config.second = cases[i].wordpiece_first ? bytes_tokenizer : wordpiece;
        config.second_sequence.max_length = cases[i].wordpiece_first ? 0 : 5;
        config.second_sequence.truncation = EITP_TRUNCATE_NONE;
        CHECK_THAT(pack_on(host, first, config, items, 3, "a.lab", NULL, &error) == EITP_ERROR_FORMAT &&
                       has(&error, cases[i].words),
                   "case %zu", i);
        config.skip_bad = 1;
        REQUIRE_OK(pack_on(host, first, config, items, 3, "a.lab", &info, &error), error);
        CHECK(info.skipped == 1 && info.sample_count == 2 && info.label_count == 2);
        CHECK(!use_file(host, at("a.lab"), &error));
    }
}

static void test_refused_for_two_tokenizers(void) {
    eitp_labelled_pack_config config = plain();
    eitp_error error;
    config.second = wordpiece;
    config.second_sequence.max_length = 2;
    CHECK(pack_on(host, bytes_tokenizer, config, alone, 4, "a.lab", NULL, &error) == EITP_ERROR_ARGUMENT);
    CHECK(has(&error, "second_sequence.max_length must be more than the 2 special tokens of a sequence (got 2)"));
    config.second_sequence.truncation = (eitp_truncation)9;
    CHECK(pack_on(host, bytes_tokenizer, config, alone, 4, "a.lab", NULL, &error) == EITP_ERROR_ARGUMENT);
    CHECK(has(&error, "unknown second_sequence.truncation 9"));
    config.second_sequence = plain().sequence;
    config.problem = EITP_PROBLEM_TOKENS;
    CHECK(pack_on(host, bytes_tokenizer, config, alone, 4, "a.lab", NULL, &error) == EITP_ERROR_ARGUMENT);
    CHECK(has(&error, "problem is EITP_PROBLEM_TOKENS, but a file of two tokenizers"));
}

/* The segment of a token is its tokenizer. Templates must not set other segments. */
static void test_segments_of_two_tokenizers(void) {
    eitp_labelled_pack_config config = plain();
    eitp_tokenizer *tokenizer = NULL;
    eitp__buffer golden;
    eitp_error error;
    char *last;
    eitp__buffer_init(&golden, host);
    REQUIRE_OK(eitp__read_file(host, GOLDEN "/uncased.json", 1 << 20, &golden, &error), error);
    last = strstr(strstr(golden.data, "\"single\""), "\"[SEP]\",\"type_id\":0");
    REQUIRE(last != NULL);
    last[strlen("\"[SEP]\",\"type_id\":")] = '1';
    REQUIRE_OK(eitp__write_file(host, at("other.json"), golden.data, golden.size, &error), error);
    REQUIRE_OK(eitp_tokenizer_load(host, at("other.json"), &tokenizer, &error), error);
    CHECK(pack_on(host, tokenizer, config, alone, 4, "a.lab", NULL, &error) == EITP_OK);
    config.second = tokenizer;
    CHECK(pack_on(host, wordpiece, config, alone + 1, 1, "a.lab", NULL, &error) == EITP_ERROR_UNSUPPORTED);
    CHECK(has(&error, "rows.csv: line 2, column 7: second tokenizer: the tokenizer's template gives token "));
    config.second = wordpiece;
    CHECK(pack_on(host, tokenizer, config, alone + 1, 1, "a.lab", NULL, &error) == EITP_ERROR_UNSUPPORTED);
    CHECK(has(&error, "rows.csv: line 2, column 7: the tokenizer's template gives token "));
    eitp_tokenizer_destroy(tokenizer);
    eitp__buffer_release(&golden);
}

/* ---- Damage ---- */

/* Like use_file, with the contents of a file in memory. */
static eitp_status use_bytes(const char *data, size_t size, eitp_error *error) {
    one_file one;
    one.data = data;
    one.size = size;
    const eitp_host in_memory = one_file_host(&one);
    return use_file(&in_memory, "b.lab", error);
}

/* Changes each byte of "a.lab" in turn. A change is refused on opening, reading or verifying, unless the byte is
   padding. */
static void check_damage(void) {
    eitp__buffer content;
    eitp_error error;
    size_t harmless = 0;
    eitp__buffer_init(&content, host);
    REQUIRE_OK(eitp__read_file(host, at("a.lab"), 1 << 20, &content, &error), error);
    REQUIRE_OK(use_bytes(content.data, content.size, &error), error);
    for (size_t i = 0; i < content.size; i++) {
        for (int change = 1; change < 256; change *= 16) {
            content.data[i] = (char)(content.data[i] ^ change);
            const eitp_status status = use_bytes(content.data, content.size, &error);
            CHECK_THAT(status == EITP_OK || status == EITP_ERROR_FORMAT || status == EITP_ERROR_UNSUPPORTED,
                       "byte %zu: %s", i, error.message);
            harmless += status == EITP_OK;
            content.data[i] = (char)(content.data[i] ^ change);
        }
    }
    CHECK_THAT(harmless < 2 * 8, "%zu changes are not detected", harmless);
    for (size_t size = 0; size < content.size; size++)
        CHECK(use_bytes(content.data, size, &error) == EITP_ERROR_FORMAT);
    eitp__buffer_release(&content);
}

static void test_damage_is_found(void) {
    eitp_labelled_pack_config config = plain();
    eitp_error error;
    REQUIRE_OK(pack_on(host, wordpiece, config, several, 4, "a.lab", NULL, &error), error);
    check_damage();
    config.second = wordpiece;
    REQUIRE_OK(pack_on(host, bytes_tokenizer, config, alone, 3, "a.lab", NULL, &error), error);
    check_damage();
}

/* A number in the file to change: in the header, in the record of sample 1, or the first value, weight or name. */
typedef struct lie {
    const char *of; /* "header", "record", "value", "weight" or "name" */
    size_t at, size;
    uint64_t value;
    const char *words;
} lie;

static const lie lies[] = {
    {"header", 12, 4, 3, "an impossible size of an id"},
    {"header", 16, 8, 0, "an impossible number of samples"},
    {"header", 16, 8, UINT64_MAX, "an impossible number of samples"},
    {"header", 16, 8, 3, "3 samples, 8 values"},
    {"header", 24, 8, UINT64_MAX / 2 + 5, "but the file has"},
    {"header", 32, 8, UINT64_MAX / 4 + 2, "but the file has"},
    {"header", 40, 8, UINT64_MAX, "but the file has"},
    {"header", 31, 1, 0x80, "but the file has"}, /* bytes of ids are the same modulo 2^64 */
    {"header", 39, 1, 0x40, "but the file has"}, /* bytes of values are the same modulo 2^64 */
    {"header", 64, 4, 65537, "an impossible vocabulary"},
    {"header", 68, 4, 4, "index of sample 0 is damaged"},
    {"header", 148, 4, 2, "an impossible set of row rules"},
    {"header", 200, 8, 3, "an impossible number of weights"},
    {"header", 200, 8, 4, "but the file has"},
    {"header", 200, 8, UINT64_MAX, "an impossible number of weights"},
    {"header", 160, 8, 1, "an impossible second vocabulary"},
    {"header", 176, 4, 1, "an impossible second vocabulary"},
    {"header", 68, 4, 0, "an impossible number of labels"},
    {"header", 68, 4, 2, "label or number 0 is damaged"},
    {"header", 72, 4, 0, "an impossible number of labels"},
    {"header", 72, 4, 1, "index of sample 0 is damaged"},
    {"header", 76, 4, 0, "an impossible length of a sample"},
    {"header", 76, 4, 400, "index after sample 3 is damaged"},
    {"header", 132, 4, 4, "an impossible truncation"},
    {"record", 0, 8, 1, "index of sample 1 is damaged"},
    {"record", 0, 8, UINT64_MAX, "index of sample 1 is damaged"},
    {"record", 8, 8, 3, "index of sample 1 is damaged"},
    {"record", 8, 8, UINT64_MAX, "index of sample 1 is damaged"},
    {"record", 24, 4, 0, "index of sample 1 is damaged"},
    {"record", 24, 4, UINT32_MAX, "index of sample 1 is damaged"},
    {"record", 28, 4, 60, "index of sample 1 is damaged"},
    {"record", 32, 4, 1, "index of sample 1 is damaged"},
    {"value", 0, 4, 0x7F800000u, "label or number 0 is damaged"},
    {"name", 0, 1, 0, "name of label 1 is damaged"},
    {"name", 1, 1, 'x', "name of label 1 is damaged"},
};

/* Changes a number in a file and updates its checksums. */
static void tell_lie(const lie *l, char *data, size_t size) {
    eitp__sample_layout layout = EITP__ZERO;
    unsigned char *bytes = (unsigned char *)data;
    REQUIRE(eitp__sample_header_read(bytes, 256, size, &layout, NULL) == EITP_OK);
    const uint64_t place = !strcmp(l->of, "header")   ? 0
                           : !strcmp(l->of, "record") ? layout.records + EITP__SAMPLE_RECORD_SIZE
                           : !strcmp(l->of, "value")  ? layout.values
                           : !strcmp(l->of, "weight") ? layout.weights
                                                      : layout.names;
    eitp__put_number(bytes + place + l->at, l->size, l->value);
    const uint64_t hash = eitp__fnv1a(EITP__FNV_START, bytes + layout.records, size - (size_t)layout.records);
    eitp__put_number(bytes + 56, 8, hash);
    eitp__put_number(bytes + 252, 4, eitp__crc32c(0, bytes, 252));
}

/* Each lie about "a.lab" is detected. */
static void check_lies(const lie *told, size_t count) {
    eitp__buffer content;
    eitp_error error;
    REQUIRE_OK(use_file(host, at("a.lab"), &error), error);
    for (size_t i = 0; i < count; i++) {
        eitp__buffer_init(&content, host);
        REQUIRE_OK(eitp__read_file(host, at("a.lab"), 1 << 20, &content, &error), error);
        tell_lie(&told[i], content.data, content.size);
        CHECK_THAT(use_bytes(content.data, content.size, &error) == EITP_ERROR_FORMAT && has(&error, told[i].words),
                   "case %zu", i);
        eitp__buffer_release(&content);
    }
}

/* Negative or non-finite weights are damage. */
static void test_damaged_weights(void) {
    static const row items[] = {{"one", NULL, {"a"}, 0}, {"two", NULL, {"b"}, 0}};
    static const char *const weights[] = {"3", "0.5"};
    static const lie told[] = {{"weight", 0, 4, 0x80000000u, "the weight 0 is damaged"},
                               {"weight", 4, 4, 0x7F800000u, "the weight 1 is damaged"},
                               {"weight", 4, 4, 0xBF800000u, "the weight 1 is damaged"},
                               {"header", 200, 8, 1, "an impossible number of weights"},
                               {"header", 200, 8, 0, "but the file has"}};
    eitp_error error;
    row_weights = weights;
    REQUIRE_OK(pack_on(host, wordpiece, plain(), items, 2, "a.lab", NULL, &error), error);
    row_weights = NULL;
    check_lies(told, EITP__COUNT(told));
}

/* Impossible numbers with correct checksums. */
static void test_lies_are_found(void) {
    static const row items[] = {{"one", NULL, {"1", "2"}, 1},
                                {"two", NULL, {"3", "4"}, 1},
                                {"a b", NULL, {"5", "6"}, 1},
                                {"c", NULL, {"7", "8"}, 1}};
    static const char *const names[] = {"u", "v"};
    eitp_labelled_pack_config config = plain();
    eitp_error error;
    config.problem = EITP_PROBLEM_REGRESSION;
    config.labels = names;
    config.label_count = 2;
    REQUIRE_OK(pack_on(host, wordpiece, config, items, 4, "a.lab", NULL, &error), error);
    check_lies(lies, EITP__COUNT(lies));
}

/* In "a.lab", with the byte tokenizer first: three samples, the first of which has the longest sequences. */
static const lie lies_about_two[] = {
    {"header", 12, 4, 3, "an impossible size of an id"},
    {"header", 64, 4, 65537, "an impossible vocabulary"},
    {"header", 64, 4, 100, "but the vocabulary has 100"},
    {"header", 68, 4, 4, "an impossible problem"},
    {"header", 80, 8, 1, "an impossible number of pairs"},
    {"header", 160, 8, 0, "an impossible fingerprint of the second tokenizer"},
    {"header", 168, 4, 0, "an impossible second vocabulary"},
    {"header", 168, 4, 1u << 31, "an impossible second vocabulary"},
    {"header", 168, 4, 65537, "an impossible second vocabulary"},
    {"header", 168, 4, 5, "but the vocabulary has 5"},
    {"header", 172, 4, 0, "an impossible length of a first sequence"},
    {"header", 172, 4, 2, "index of sample 0 is damaged"},
    {"header", 172, 4, 1000, "index after sample 2 is damaged"},
    {"header", 176, 4, 0, "an impossible length of a second sequence"},
    {"header", 176, 4, 2, "index of sample 0 is damaged"},
    {"header", 176, 4, 1000, "index after sample 2 is damaged"},
    {"header", 180, 4, 1u << 31, "an impossible longest second sequence"},
    {"header", 184, 4, 4, "an impossible second truncation"},
    {"record", 28, 4, 0, "index of sample 1 is damaged"},
    {"record", 28, 4, 6, "index of sample 1 is damaged"}, /* the sample's length */
    {"record", 28, 4, UINT32_MAX, "index of sample 1 is damaged"},
};

static void test_lies_about_two_tokenizers(void) {
    static const row items[] = {{"good films", NULL, {"b"}, 0}, {"all", NULL, {"a"}, 0}, {"the film", NULL, {"b"}, 0}};
    eitp_labelled_pack_config config = plain();
    eitp_error error;
    config.second = wordpiece;
    REQUIRE_OK(pack_on(host, bytes_tokenizer, config, items, 3, "a.lab", NULL, &error), error);
    check_lies(lies_about_two, EITP__COUNT(lies_about_two));
}

/* The header claims more labels than its names can hold. */
static void test_too_many_labels(void) {
    static const lie too_many = {"header", 72, 4, INT32_MAX, ""};
    eitp__buffer content;
    eitp_error error;
    faults f;
    REQUIRE_OK(pack_on(host, wordpiece, plain(), sentences, 5, "a.lab", NULL, &error), error);
    eitp__buffer_init(&content, host);
    REQUIRE_OK(eitp__read_file(host, at("a.lab"), 1 << 20, &content, &error), error);
    tell_lie(&too_many, content.data, content.size);
    REQUIRE_OK(eitp__write_file(host, at("b.lab"), content.data, content.size, &error), error);
    faults_begin(&f);
    CHECK(use_file(&f.host, at("b.lab"), &error) == EITP_ERROR_FORMAT && has(&error, "label 2147483646 is damaged"));
    CHECK_THAT(f.peak_bytes < 10000, "%zu bytes", f.peak_bytes);
    faults_end(&f);
    eitp__buffer_release(&content);
}

/* A record that becomes longer than the longest sample after opening. */
static void test_record_that_changes(void) {
    eitp_sample_file *file = packed(plain(), several, 4);
    eitp_labelled_sample sample = EITP__ZERO;
    unsigned char bytes[4];
    eitp_error error;
    eitp__file changed;
    int32_t *ids;
    REQUIRE(file != NULL);
    ids = (int32_t *)malloc((size_t)file->layout.info.max_length * sizeof *ids);
    sample.ids = ids;
    eitp__put_number(bytes, 4, (uint64_t)file->layout.info.max_length + 1);
    REQUIRE_OK(eitp__file_open(&changed, host, at("a.lab"), EITP_FILE_UPDATE, &error), error);
    REQUIRE_OK(eitp__file_write(&changed, file->layout.records + 24, bytes, 4, &error), error);
    REQUIRE_OK(eitp__file_close(&changed, &error), error);
    CHECK(eitp_sample_file_read_sample(file, 0, &sample, &error) == EITP_ERROR_FORMAT);
    CHECK(has(&error, "the index of sample 0 is damaged"));
    eitp_sample_file_close(file);
    free(ids);
}

/* A file that shrinks after opening. */
static void test_file_that_changes(void) {
    eitp_sample_file *file = packed(plain(), several, 4);
    eitp_labelled_sample sample = EITP__ZERO;
    eitp_error error;
    int32_t ids[64];
    REQUIRE(file != NULL);
    sample.ids = ids;
    CHECK(truncate(at("a.lab"), 300) == 0);
    CHECK(eitp_sample_file_read_sample(file, 0, &sample, &error) == EITP_ERROR_IO &&
          has(&error, "changed while it was read"));
    eitp_sample_file_close(file);
}

/* A changed id, label or name is detected while the file is open. A changed time alone is not an error. */
static void test_changes_are_found(void) {
    eitp_sample_file *file = packed(plain(), several, 4);
    eitp_labelled_part *part = NULL, *rest = NULL;
    eitp_labelled_source sources[2];
    eitp_labelled_sample sample = EITP__ZERO;
    eitp_error error;
    eitp__file changed;
    REQUIRE(file != NULL);
    REQUIRE_OK(eitp_labelled_split(file, 0.5, 1, &part, &rest, &error), error);
    const uint64_t places[] = {256, file->layout.records + 4, file->layout.values, file->layout.names};
    sources[0] = eitp_sample_file_labelled_source(file);
    sources[1] = eitp_labelled_part_source(rest);
    CHECK(!sources[0].read(sources[0].user, 1, &sample, &error) && !faults_set_time(at("a.lab"), 1000));
    CHECK(!sources[0].read(sources[0].user, 1, &sample, &error) &&
          !sources[1].read(sources[1].user, 1, &sample, &error));
    for (size_t i = 0; i < EITP__COUNT(places); i++) {
        unsigned char byte = 0, other;
        REQUIRE_OK(eitp__file_open(&changed, host, at("a.lab"), EITP_FILE_UPDATE, &error), error);
        REQUIRE_OK(eitp__file_read(&changed, places[i], &byte, 1, &error), error);
        other = byte ^ 1;
        REQUIRE_OK(eitp__file_write(&changed, places[i], &other, 1, &error), error);
        CHECK(!faults_set_time(at("a.lab"), 2000 + 2 * (int)i));
        for (int j = 0; j < 2; j++)
            CHECK_THAT(sources[j].read(sources[j].user, 1, &sample, &error) == EITP_ERROR_IO &&
                           error.status == EITP_ERROR_IO && has(&error, "changed while it was read"),
                       "%d: %s", (int)i, error.message);
        REQUIRE_OK(eitp__file_write(&changed, places[i], &byte, 1, &error), error);
        REQUIRE_OK(eitp__file_close(&changed, &error), error);
        CHECK(!faults_set_time(at("a.lab"), 2001 + 2 * (int)i));
        CHECK_THAT(!sources[0].read(sources[0].user, 1, &sample, &error), "%s", error.message);
    }
    eitp_labelled_part_destroy(part);
    eitp_labelled_part_destroy(rest);
    eitp_sample_file_close(file);
}

/* The system may set a file's time before it copies the written data, so reads in between return the old contents. */
static void test_change_after_its_time_is_found(void) {
    eitp_sample_file *file = packed(plain(), several, 4);
    eitp_labelled_sample sample = EITP__ZERO;
    eitp_error error;
    eitp__file changed;
    unsigned char byte = 0, other;
    REQUIRE(file != NULL);
    CHECK(!faults_set_time(at("a.lab"), 1000) && !eitp_sample_file_read_sample(file, 1, &sample, &error));
    REQUIRE_OK(eitp__file_open(&changed, host, at("a.lab"), EITP_FILE_UPDATE, &error), error);
    REQUIRE_OK(eitp__file_read(&changed, file->layout.values, &byte, 1, &error), error);
    other = byte ^ 1;
    REQUIRE_OK(eitp__file_write(&changed, file->layout.values, &other, 1, &error), error);
    CHECK(!faults_set_time(at("a.lab"), 1000));
    CHECK(file->stamp.recheck_at > 1);
    file->stamp.recheck_at = 1; /* the time to check again has passed */
    CHECK(eitp_sample_file_read_sample(file, 1, &sample, &error) == EITP_ERROR_IO &&
          has(&error, "changed while it was read"));
    REQUIRE_OK(eitp__file_write(&changed, file->layout.values, &byte, 1, &error), error);
    REQUIRE_OK(eitp__file_close(&changed, &error), error);
    CHECK(!faults_set_time(at("a.lab"), 1000) && !eitp_sample_file_read_sample(file, 1, &sample, &error));
    CHECK(!file->stamp.recheck_at && !eitp_sample_file_read_sample(file, 1, &sample, &error));
    eitp_sample_file_close(file);
}

/* Counts polls down and stops when *user reaches 0. */
static int count_down(void *user) {
    return --*(int *)user == 0;
}

/* Comparing a touched file can be stopped at each poll, and starts over. */
static void test_a_comparison_can_be_stopped(void) {
    eitp_sample_file *file = packed(plain(), several, 4);
    eitp_labelled_sample sample = EITP__ZERO;
    eitp_error error;
    REQUIRE(file != NULL);
    CHECK(!faults_set_time(at("a.lab"), 1000));
    eitp__sample_file_set_poll(NULL, count_down, NULL);
    for (int i = 1; i <= 3; i++) { /* polls while comparing index and ids, labels, and names */
        int left = i;
        eitp__sample_file_set_poll(file, count_down, &left);
        CHECK(eitp_sample_file_read_sample(file, 1, &sample, &error) == EITP_ERROR_INTERRUPTED && !left);
    }
    eitp__sample_file_set_poll(file, NULL, NULL);
    CHECK(!eitp_sample_file_read_sample(file, 1, &sample, &error));
    eitp_sample_file_close(file);
}

static void test_unfinished_file(void) {
    unsigned char header[256];
    eitp_sample_file *file;
    eitp_error error;
    eitp__sample_header_unfinished(header, EITP_SAMPLE_FILE_LABELLED);
    REQUIRE_OK(eitp__write_file(host, at("a.lab"), header, sizeof header, &error), error);
    CHECK(eitp_sample_file_open(host, at("a.lab"), 0, &file, &error) == EITP_ERROR_FORMAT && !file);
    CHECK(has(&error, "packing was interrupted"));
    CHECK(eitp_sample_file_open(host, at("a.lab"), -1, &file, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_sample_file_open(host, at("missing"), 0, &file, &error) == EITP_ERROR_ARGUMENT);
}

/* Packs examples with duplicates, then opens and uses the file. */
static eitp_status work(faults *f, const eitp_tokenizer *second, eitp_error *error) {
    eitp_labelled_pack_config config = plain();
    config.second = second;
    config.dedup = 1;
    config.skip_bad = 1;
    eitp_status status =
        pack_on(&f->host, bytes_tokenizer, config, repeats, EITP__COUNT(repeats), "f.lab", NULL, error);
    return status == EITP_OK ? use_file(&f->host, at("f.lab"), error) : status;
}

static void check_allocations(const eitp_tokenizer *second) {
    for (long n = 1;; n++) {
        faults f;
        eitp_error error;
        faults_begin(&f);
        f.fail_allocation = n;
        const eitp_status status = work(&f, second, &error);
        const int failed = faults_end(&f);
        CHECK_THAT(status == (failed ? EITP_ERROR_MEMORY : EITP_OK), "allocation %ld: %s", n, error.message);
        CHECK(!is_there("f.lab.partial"));
        if (!failed)
            break;
    }
}

static void test_every_allocation_fails(void) {
    check_allocations(NULL);
    check_allocations(roberta);
}

static void test_every_file_call_fails(void) {
    for (int variant = 0; variant < 3; variant++) {
        for (long n = 1;; n++) {
            faults f;
            eitp_error error;
            faults_begin(&f);
            f.fail_file_call = n;
            f.code = variant == 1 ? ENOSPC : 0;
            f.shorten = variant == 2 ? FAULTS_HALF : FAULTS_WHOLE;
            remove(at("f.lab"));
            const eitp_status status = work(&f, NULL, &error);
            const int failed = faults_end(&f);
            const int harmless = variant == 2 || !f.failed_call || !strcmp(f.failed_call, "close") ||
                                 !strcmp(f.failed_call, "file_info") || !strcmp(f.failed_call, "lock");
            CHECK_THAT(harmless || status == EITP_ERROR_IO, "call %ld (%s): %d", n, f.failed_call, (int)status);
            CHECK_THAT(variant != 2 || status == EITP_OK, "call %ld: %s", n, error.message);
            CHECK(!is_there("f.lab.partial"));
            if (!failed)
                break;
        }
    }
}

static void test_null(void) {
    eitp_labelled_source source = EITP__ZERO;
    eitp_labelled_part *part;
    eitp_error error;
    uint64_t count;
    CHECK(eitp_sample_file_open(NULL, "a", 0, NULL, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_sample_file_read_sample(NULL, 0, NULL, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_sample_file_verify(NULL, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_labelled_part_create(NULL, NULL, 0, &part, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_labelled_split(NULL, 0.1, 1, &part, &part, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp__labelled_overlap(NULL, NULL, &count, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_labelled_memory_source(NULL, &source, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp__labelled_class_counts(host, &source, &count, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_sample_file_get_info(NULL).sample_count == 0);
    eitp_sample_file_close(NULL);
    eitp_labelled_part_destroy(NULL);
}

static const test_case tests[] = {
    TEST(test_ids_are_those_of_the_tokenizer),
    TEST(test_wide_ids),
    TEST(test_other_segments),
    TEST(test_length_of_the_tokenizer),
    TEST(test_what_labels_mean),
    TEST(test_order_does_not_matter),
    TEST(test_values_are_ascending),
    TEST(test_many_labels),
    TEST(test_bad_examples_are_skipped),
    TEST(test_similar_labels),
    TEST(test_weights_of_samples),
    TEST(test_damaged_weights),
    TEST(test_refused_settings),
    TEST(test_progress_interrupts),
    TEST(test_repeats),
    TEST(test_long_samples),
    TEST(test_repeats_with_several_labels),
    TEST(test_many_repeats),
    TEST(test_split_is_stratified),
    TEST(test_split_keeps_its_values),
    TEST(test_split_without_labels),
    TEST(test_parts_and_overlap),
    TEST(test_memory_source),
    TEST(test_memory_source_refuses),
    TEST(test_balanced_weights),
    TEST(test_two_tokenizers),
    TEST(test_two_vocabularies),
    TEST(test_texts_of_two_tokenizers),
    TEST(test_bad_for_two_tokenizers),
    TEST(test_refused_for_two_tokenizers),
    TEST(test_segments_of_two_tokenizers),
    TEST(test_damage_is_found),
    TEST(test_lies_are_found),
    TEST(test_lies_about_two_tokenizers),
    TEST(test_too_many_labels),
    TEST(test_record_that_changes),
    TEST(test_file_that_changes),
    TEST(test_changes_are_found),
    TEST(test_change_after_its_time_is_found),
    TEST(test_a_comparison_can_be_stopped),
    TEST(test_unfinished_file),
    TEST(test_every_allocation_fails),
    TEST(test_every_file_call_fails),
    TEST(test_null),
};

int main(int argc, char **argv) {
    const eitp_host system = eitp_host_default();
    eitp_error error;
    int failed = 1;
    host = &system;
    if (scratch_make(scratch) && eitp_tokenizer_load(host, GOLDEN "/uncased.json", &wordpiece, &error) == EITP_OK &&
        eitp_tokenizer_load(host, GOLDEN "/roberta.json", &roberta, &error) == EITP_OK &&
        eitp_tokenizer_create_bytes(host, &bytes_tokenizer, &error) == EITP_OK)
        failed = RUN_TESTS(tests, argc, argv);
    eitp_tokenizer_destroy(wordpiece);
    eitp_tokenizer_destroy(roberta);
    eitp_tokenizer_destroy(bytes_tokenizer);
    scratch_remove(scratch);
    return failed;
}
