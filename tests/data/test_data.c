/* Packing text files, token files, splits, permutations, windows. */
#include "tests/support/everything.h"

#include "tests/support/faults.h"
#include "tests/support/test.h"

#include <sys/stat.h>

/* A host that counts memory and open files, injects faults, and keeps the log. Its reads and writes are short, which
   the interface allows. */
typedef struct meter {
    faults faulty;
    int warnings;
    char log[600]; /* the last message */
} meter;

static void meter_log(void *user, eitp_log_level level, const char *message) {
    meter *m = (meter *)user;
    m->warnings += level == EITP_LOG_WARNING;
    snprintf(m->log, sizeof m->log, "%s", message);
}

static eitp_host meter_host(meter *m) {
    memset(m, 0, sizeof *m);
    faults_begin(&m->faulty);
    m->faulty.largest_transfer = 1000;
    m->faulty.host.log.user = m;
    m->faulty.host.log.write = meter_log;
    return m->faulty.host;
}

/* True if all memory is released and all files are closed. */
static int settled(const meter *m) {
    return m->faulty.live_blocks == 0 && m->faulty.open_files == 0;
}

static char scratch[512]; /* directory for a test's files */

static const char *at(const char *name) {
    return scratch_path(scratch, name);
}

static int put_file(const char *name, const void *data, size_t size) {
    eitp_host host = eitp_host_default();
    return eitp__write_file(&host, at(name), data, size, NULL) == EITP_OK;
}

static int put_text(const char *name, const char *text) {
    return put_file(name, text, strlen(text));
}

static int put_directory(const char *name) {
    eitp_host host = eitp_host_default();
    return eitp__make_directories(&host, at(name), NULL) == EITP_OK;
}

static int get_file(const char *name, eitp__buffer *content) {
    static eitp_host host;
    host = eitp_host_default();
    eitp__buffer_init(content, &host);
    return eitp__read_file(&host, at(name), 64 << 20, content, NULL) == EITP_OK;
}

static int is_there(const char *name) {
    struct stat found;
    return lstat(at(name), &found) == 0;
}

static int has(const eitp_error *error, const char *text) {
    if (strstr(error->message, text))
        return 1;
    printf("    no \"%s\" in \"%s\"\n", text, error->message);
    return 0;
}

static uint64_t noise(uint64_t index) {
    return eitp__random_bits(99, 0, EITP__RNG_STREAM_SAMPLE, index);
}

/* Packs one path in the scratch directory with the byte tokenizer. */
static eitp_status pack_with(const eitp_host *host, const eitp_tokenizer *tokenizer, const char *input,
                             const char *output, eitp_pack_config config, eitp_sample_file_info *info,
                             eitp_error *error) {
    char path[1200];
    const char *paths[1];
    snprintf(path, sizeof path, "%s", at(input));
    paths[0] = path;
    config.texts.paths = paths;
    config.texts.path_count = 1;
    return eitp_pack(host, tokenizer, &config, at(output), info, error);
}

static eitp_status pack_one(const eitp_host *host, const char *input, const char *output, eitp_pack_config config,
                            eitp_sample_file_info *info, eitp_error *error) {
    eitp_tokenizer *tokenizer = NULL;
    eitp_status status = eitp_tokenizer_create_bytes(host, &tokenizer, error);
    if (status == EITP_OK)
        status = pack_with(host, tokenizer, input, output, config, info, error);
    eitp_tokenizer_destroy(tokenizer);
    return status;
}

/* Decodes all tokens of a file, with <|endoftext|> as text. Returns "" after a failure. */
static char *unpack(const char *name, char *text, size_t capacity) {
    eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer = NULL;
    eitp_sample_file *file = NULL;
    static int32_t ids[65536];
    size_t size = 0;
    text[0] = 0;
    if (eitp_sample_file_open(&host, at(name), 0, &file, NULL) == EITP_OK &&
        eitp_tokenizer_create_bytes(&host, &tokenizer, NULL) == EITP_OK) {
        size_t count = (size_t)eitp_sample_file_get_info(file).token_count;
        if (count <= EITP__COUNT(ids) && eitp_sample_file_read_tokens(file, 0, count, ids, NULL) == EITP_OK &&
            eitp_tokenizer_decode(tokenizer, ids, count, text, capacity - 1, &size, NULL) == EITP_OK)
            text[size < capacity ? size : capacity - 1] = 0;
    }
    eitp_tokenizer_destroy(tokenizer);
    eitp_sample_file_close(file);
    return text;
}

/* Writes a token file with `count` ids. */
static eitp_status write_ids(const char *name, int32_t vocabulary_size, const int32_t *ids, size_t count,
                             eitp_error *error) {
    eitp_host host = eitp_host_default();
    eitp__token_writer writer;
    eitp_status status = eitp__token_writer_open(&writer, &host, at(name), vocabulary_size, error);
    if (status == EITP_OK)
        status = eitp__token_writer_add(&writer, ids, count, error);
    if (status == EITP_OK)
        status = eitp__token_writer_finish(&writer, error);
    eitp__token_writer_release(&writer);
    return status;
}

/* Permutation */

static void check_bijection(uint64_t size) {
    unsigned char *seen = (unsigned char *)calloc((size_t)size, 1);
    uint64_t found = 0;
    REQUIRE(seen != NULL);
    for (uint64_t i = 0; i < size; i++) {
        uint64_t to = eitp__shuffled_position(7, size % 5, size, i);
        if (to < size && !seen[to]) {
            seen[to] = 1;
            found++;
        }
    }
    CHECK_THAT(found == size, "size %llu reaches %llu", (unsigned long long)size, (unsigned long long)found);
    free(seen);
}

static void test_permutation_is_a_bijection(void) {
    for (uint64_t size = 1; size <= 70; size++)
        check_bijection(size);
    for (uint64_t power = 128; power <= 16384; power *= 2) {
        check_bijection(power - 1);
        check_bijection(power);
        check_bijection(power + 1);
    }
    check_bijection(1000);
}

/* Values computed by an independent program from docs/sample-file.md. Resumed runs depend on these orders. */
static void test_permutation_keeps_its_values(void) {
    static const uint64_t expected[3][10] = {
        {0, 5, 2, 4, 6, 7, 1, 8, 3, 9}, {6, 9, 0, 3, 4, 5, 2, 8, 7, 1}, {8, 1, 2, 9, 4, 3, 0, 7, 6, 5}};
    static const uint64_t seeds[3] = {1, 1, 2}, epochs[3] = {0, 1, 0};
    for (size_t k = 0; k < 3; k++)
        for (uint64_t i = 0; i < 10; i++)
            CHECK(eitp__shuffled_position(seeds[k], epochs[k], 10, i) == expected[k][i]);
    const uint64_t size = ((uint64_t)1 << 45) + 1, seed = ((uint64_t)1 << 40) + 7;
    CHECK(eitp__shuffled_position(seed, 3, size, 0) == 24510141942399u);
    CHECK(eitp__shuffled_position(seed, 3, size, 1) == 21375730416393u);
    CHECK(eitp__shuffled_position(seed, 3, size, (uint64_t)1 << 44) == 365377447648u);
    CHECK(eitp__shuffled_position(1, 1, UINT64_MAX, UINT64_MAX - 1) < UINT64_MAX);
}

/* Number of positions at which two permutations of 1000 agree: about one. */
static int shared_places(uint64_t seed_a, uint64_t epoch_a, uint64_t seed_b, uint64_t epoch_b) {
    int shared = 0;
    for (uint64_t i = 0; i < 1000; i++)
        shared +=
            eitp__shuffled_position(seed_a, epoch_a, 1000, i) == eitp__shuffled_position(seed_b, epoch_b, 1000, i);
    return shared;
}

static void test_permutation_differs_by_epoch_and_seed(void) {
    const uint64_t high = (uint64_t)1 << 32;
    CHECK(shared_places(1, 0, 1, 1) < 10);
    CHECK(shared_places(1, 0, 2, 0) < 10);
    CHECK(shared_places(1, 0, 1 + high, 0) < 10);
    CHECK(shared_places(1, 0, 1, high) < 10);
    int fixed = 0, followed = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        fixed += eitp__shuffled_position(1, 0, 1000, i) == i;
        followed += eitp__shuffled_position(1, 0, 1000, (i + 1) % 1000) == eitp__shuffled_position(1, 0, 1000, i) + 1;
    }
    CHECK_THAT(fixed < 10 && followed < 10, "%d stay, %d follow their neighbour", fixed, followed);
}

/* Over many epochs every index is equally frequent at every position: chi-squared with (size - 1)^2 degrees of
   freedom, far from its tail. */
static void test_permutation_is_uniform(void) {
    const int epochs = 4000;
    for (uint64_t size = 2; size <= 9; size++) {
        int counts[9][9] = EITP__ZERO;
        double expected = (double)epochs / (double)size, sum = 0, freedom = (double)((size - 1) * (size - 1));
        for (int epoch = 0; epoch < epochs; epoch++)
            for (uint64_t i = 0; i < size; i++)
                counts[i][eitp__shuffled_position(5, (uint64_t)epoch, size, i)]++;
        for (uint64_t i = 0; i < size; i++)
            for (uint64_t j = 0; j < size; j++)
                sum += (counts[i][j] - expected) * (counts[i][j] - expected) / expected;
        sum *= (double)(size - 1) / (double)size;
        CHECK_THAT(sum < freedom + 4 * sqrt(2 * freedom) + 4, "size %d: %g for %g", (int)size, sum, freedom);
    }
}

/* Repair of UTF-8. The expected outputs are Python's: bytes.decode("utf-8", "replace").encode(). */

typedef struct repair_case {
    const char *input;
    int input_size;
    const char *output;
    int output_size;
    int invalid_bytes, first_invalid;
} repair_case;

static const repair_case repair_cases[] = {
    {"\160\154\141\151\156", 5, "\160\154\141\151\156", 5, 0, 0},
    {"\303\251\342\202\254\360\237\230\200", 9, "\303\251\342\202\254\360\237\230\200", 9, 0, 0},
    {"\141\200\142", 3, "\141\357\277\275\142", 5, 1, 1},
    {"\300\257", 2, "\357\277\275\357\277\275", 6, 2, 0},
    {"\340\200\257", 3, "\357\277\275\357\277\275\357\277\275", 9, 3, 0},
    {"\360\200\200\257", 4, "\357\277\275\357\277\275\357\277\275\357\277\275", 12, 4, 0},
    {"\355\240\200\355\277\277", 6, "\357\277\275\357\277\275\357\277\275\357\277\275\357\277\275\357\277\275", 18, 6,
     0},
    {"\364\221\222\223\377\101\200\277\102", 9,
     "\357\277\275\357\277\275\357\277\275\357\277\275\357\277\275\101\357\277\275\357\277\275\102", 23, 7, 0},
    {"\341\200\342\360\221\222\361\277\101", 9, "\357\277\275\357\277\275\357\277\275\357\277\275\101", 13, 8, 0},
    {"\342\202", 2, "\357\277\275", 3, 2, 0},
    {"\360\237\230", 3, "\357\277\275", 3, 3, 0},
    {"\302", 1, "\357\277\275", 3, 1, 0},
    {"\170\360\237\230\200\360\237\230", 8, "\170\360\237\230\200\357\277\275", 8, 3, 5},
    {"\377\376", 2, "\357\277\275\357\277\275", 6, 2, 0},
    {"\357\273\277\142\157\155", 6, "\357\273\277\142\157\155", 6, 0, 0},
    {"\357\277\275", 3, "\357\277\275", 3, 0, 0},
    {"\364\217\277\277", 4, "\364\217\277\277", 4, 0, 0},
    {"\364\220\200\200", 4, "\357\277\275\357\277\275\357\277\275\357\277\275", 12, 4, 0},
    {"\355\237\277\356\200\200", 6, "\355\237\277\356\200\200", 6, 0, 0},
    {"\342\202\342\202\254", 5, "\357\277\275\342\202\254", 6, 2, 0},
    {"\363\365\365\365\357", 5, "\357\277\275\357\277\275\357\277\275\357\277\275\357\277\275", 15, 5, 0},
    {"\177\237\237\240", 4, "\177\357\277\275\357\277\275\357\277\275", 10, 3, 1},
    {"\357\277\364\340\360", 5, "\357\277\275\357\277\275\357\277\275\357\277\275", 12, 5, 0},
    {"\361\200\000\337\000\357\220\177", 8, "\357\277\275\000\357\277\275\000\357\277\275\177", 12, 5, 0},
    {"\377\354\217\237\356\220\277", 7, "\357\277\275\354\217\237\356\220\277", 9, 1, 0},
    {"\337\340\361\240\237", 5, "\357\277\275\357\277\275\357\277\275", 9, 5, 0},
    {"\365\302\237\200\200", 5, "\357\277\275\302\237\357\277\275\357\277\275", 11, 3, 0},
    {"\301\356\364\364", 4, "\357\277\275\357\277\275\357\277\275\357\277\275", 12, 4, 0},
    {"\177\340\364\300\357", 5, "\177\357\277\275\357\277\275\357\277\275\357\277\275", 13, 4, 1},
    {"\177\302\237\361\364", 5, "\177\302\237\357\277\275\357\277\275", 9, 2, 3},
    {"\300\360\000\354\365\341", 6, "\357\277\275\357\277\275\000\357\277\275\357\277\275\357\277\275", 16, 5, 0},
    {"\300\000\301\364", 4, "\357\277\275\000\357\277\275\357\277\275", 10, 3, 0},
    {"\357\360\365\357\356\377\277", 7,
     "\357\277\275\357\277\275\357\277\275\357\277\275\357\277\275\357\277\275\357\277\275", 21, 7, 0},
    {"\361\360\377\355\363\355", 6, "\357\277\275\357\277\275\357\277\275\357\277\275\357\277\275\357\277\275", 18, 6,
     0},
    {"\237\237\200\300", 4, "\357\277\275\357\277\275\357\277\275\357\277\275", 12, 4, 0},
    {"\217\240\302\377\364\365", 6, "\357\277\275\357\277\275\357\277\275\357\277\275\357\277\275\357\277\275", 18, 6,
     0},
    {"\377\200\355\000\365\360", 6, "\357\277\275\357\277\275\357\277\275\000\357\277\275\357\277\275", 16, 5, 0},
    {"\354\341\217", 3, "\357\277\275\357\277\275", 6, 3, 0},
    {"\355\355\300\177\365\364", 6, "\357\277\275\357\277\275\357\277\275\177\357\277\275\357\277\275", 16, 5, 0},
    {"\377\361\337\361\301\217", 6, "\357\277\275\357\277\275\357\277\275\357\277\275\357\277\275\357\277\275", 18, 6,
     0},
    {"\000\240\341\365\360\341\365", 7, "\000\357\277\275\357\277\275\357\277\275\357\277\275\357\277\275\357\277\275",
     19, 6, 1},
    {"\217\361\177\355\363\340\200\360", 8,
     "\357\277\275\357\277\275\177\357\277\275\357\277\275\357\277\275\357\277\275\357\277\275", 22, 7, 0},
    {"\177\277\217", 3, "\177\357\277\275\357\277\275", 7, 2, 1},
    {"\356\340\300\101\101\357\301", 7, "\357\277\275\357\277\275\357\277\275\101\101\357\277\275\357\277\275", 17, 5,
     0},
    {"\360\355\237", 3, "\357\277\275\357\277\275", 6, 3, 0},
    {"\240\101\363\337\277\361", 6, "\357\277\275\101\357\277\275\337\277\357\277\275", 12, 3, 0},
    {"\200\200\365\302", 4, "\357\277\275\357\277\275\357\277\275\357\277\275", 12, 4, 0},
    {"\220\361\000\354\000\340\356", 7, "\357\277\275\357\277\275\000\357\277\275\000\357\277\275\357\277\275", 17, 5,
     0},
    {"\365\277\355", 3, "\357\277\275\357\277\275\357\277\275", 9, 3, 0},
    {"\360\000\354", 3, "\357\277\275\000\357\277\275", 7, 2, 0},
    {"\217\363\337\302", 4, "\357\277\275\357\277\275\357\277\275\357\277\275", 12, 4, 0},
    {"\341\177\355\301\337\365\363\341", 8,
     "\357\277\275\177\357\277\275\357\277\275\357\277\275\357\277\275\357\277\275\357\277\275", 22, 7, 0},
    {"\000\363\237", 3, "\000\357\277\275", 4, 2, 1},
    {"\000\357\363\200\177", 5, "\000\357\277\275\357\277\275\177", 8, 3, 1},
    {"\361\101\200\337\177\357\177\355", 8, "\357\277\275\101\357\277\275\357\277\275\177\357\277\275\177\357\277\275",
     18, 5, 0},
    {"\240\177\360\377\360", 5, "\357\277\275\177\357\277\275\357\277\275\357\277\275", 13, 4, 0},
    {"\101\301\302\240\277\237\340", 7, "\101\357\277\275\302\240\357\277\275\357\277\275\357\277\275", 15, 4, 1},
    {"\340\354\301\340\000\361", 6, "\357\277\275\357\277\275\357\277\275\357\277\275\000\357\277\275", 16, 5, 0},
    {"\337\240\354\365", 4, "\337\240\357\277\275\357\277\275", 8, 2, 2},
    {"\240\354\355\217\277\364\361\377", 8, "\357\277\275\357\277\275\355\217\277\357\277\275\357\277\275\357\277\275",
     18, 5, 0},
    {"\302\363\337\357\357", 5, "\357\277\275\357\277\275\357\277\275\357\277\275\357\277\275", 15, 5, 0},
    {"\237\364\277\200\000\277", 6, "\357\277\275\357\277\275\357\277\275\357\277\275\000\357\277\275", 16, 5, 0},
    {"\361\217\354", 3, "\357\277\275\357\277\275", 6, 3, 0},
    {"\337\301\360\240\365\337\220\357", 8, "\357\277\275\357\277\275\357\277\275\357\277\275\337\220\357\277\275", 17,
     6, 0},
};

typedef struct repaired {
    char text[256];
    size_t size;
    int cut; /* a piece was not valid UTF-8 by itself */
} repaired;

static eitp_status collect_repaired(void *user, const char *text, size_t size, eitp_error *error) {
    repaired *r = (repaired *)user;
    (void)error;
    r->cut |= eitp__utf8_valid_prefix((const unsigned char *)text, size) != size || !size;
    if (r->size + size <= sizeof r->text)
        memcpy(r->text + r->size, text, size);
    r->size += size;
    return EITP_OK;
}

/* Repairs a string in three pieces: [0, a), [a, b), [b, end). Returns true if the result is Python's. */
static int repairs_as_python(const repair_case *c, size_t a, size_t b) {
    eitp__utf8_repair repair;
    repaired result;
    const size_t size = (size_t)c->input_size;
    memset(&result, 0, sizeof result);
    eitp__utf8_repair_init(&repair, collect_repaired, &result);
    eitp__utf8_repair_add(&repair, c->input, a, NULL);
    eitp__utf8_repair_add(&repair, c->input + a, b - a, NULL);
    eitp__utf8_repair_add(&repair, c->input + b, size - b, NULL);
    eitp__utf8_repair_finish(&repair, NULL);
    return !result.cut && result.size == (size_t)c->output_size && !memcmp(result.text, c->output, result.size) &&
           repair.invalid_bytes == (uint64_t)c->invalid_bytes && repair.first_invalid == (uint64_t)c->first_invalid &&
           (!c->invalid_bytes || repair.invalid_byte == (unsigned char)c->input[c->first_invalid]);
}

static int repairs_byte_by_byte(const repair_case *c) {
    eitp__utf8_repair repair;
    repaired result;
    memset(&result, 0, sizeof result);
    eitp__utf8_repair_init(&repair, collect_repaired, &result);
    for (int i = 0; i < c->input_size; i++)
        eitp__utf8_repair_add(&repair, c->input + i, 1, NULL);
    eitp__utf8_repair_finish(&repair, NULL);
    return !result.cut && result.size == (size_t)c->output_size && !memcmp(result.text, c->output, result.size) &&
           repair.invalid_bytes == (uint64_t)c->invalid_bytes && repair.first_invalid == (uint64_t)c->first_invalid;
}

static void test_repair_matches_python(void) {
    for (size_t i = 0; i < EITP__COUNT(repair_cases); i++) {
        const repair_case *c = &repair_cases[i];
        for (size_t a = 0; a <= (size_t)c->input_size; a++)
            for (size_t b = a; b <= (size_t)c->input_size; b++)
                CHECK_THAT(repairs_as_python(c, a, b), "case %d cut at %d and %d", (int)i, (int)a, (int)b);
        CHECK_THAT(repairs_byte_by_byte(c), "case %d byte by byte", (int)i);
    }
}

static eitp_status refuse_text(void *user, const char *text, size_t size, eitp_error *error) {
    (void)user;
    (void)text;
    (void)size;
    return eitp__fail(error, EITP_ERROR_IO, "refused");
}

static void test_repair_returns_failures_of_the_sink(void) {
    static const char *const texts[] = {"a", "\xC3\xA9", "\xFF", "\xC3"};
    for (size_t i = 0; i < EITP__COUNT(texts); i++) {
        eitp__utf8_repair repair;
        eitp__utf8_repair_init(&repair, refuse_text, NULL);
        eitp_status status = EITP_OK;
        for (const char *byte = texts[i]; *byte && status == EITP_OK; byte++)
            status = eitp__utf8_repair_add(&repair, byte, 1, NULL);
        if (status == EITP_OK)
            status = eitp__utf8_repair_finish(&repair, NULL);
        CHECK_THAT(status == EITP_ERROR_IO, "text %d", (int)i);
    }
}

/* Packing */

static void test_pack_round_trip(void) {
    meter m;
    eitp_host host = meter_host(&m);
    eitp_error error = EITP__ZERO;
    eitp_pack_config config = eitp_pack_config_default();
    eitp_sample_file_info info = EITP__ZERO, read;
    eitp_sample_file *file = NULL;
    char text[256];
    REQUIRE(scratch_make(scratch));
    CHECK(put_text("a.txt", "one caf\xC3\xA9\n"));
    REQUIRE_OK(pack_one(&host, "a.txt", "a.tok", config, &info, &error), error);
    CHECK(!strcmp(unpack("a.tok", text, sizeof text), "one caf\xC3\xA9\n<|endoftext|>"));
    CHECK(!is_there("a.tok.partial"));
    REQUIRE_OK(eitp_sample_file_open(&host, at("a.tok"), 0, &file, &error), error);
    read = eitp_sample_file_get_info(file);
    CHECK(info.kind == EITP_SAMPLE_FILE_TOKENS && info.element_size == 2 && info.document_count == 1);
    CHECK(info.text_bytes == 10 && info.invalid_bytes == 0 && info.token_count == 11);
    CHECK(info.vocabulary_size == 257 && info.end_of_text == 256 && info.tokenizer_fingerprint != 0);
    CHECK(read.kind == info.kind && read.element_size == info.element_size &&
          read.vocabulary_size == info.vocabulary_size);
    CHECK(read.end_of_text == info.end_of_text && read.token_count == info.token_count);
    CHECK(read.document_count == info.document_count && read.tokenizer_fingerprint == info.tokenizer_fingerprint);
    CHECK(read.content_hash == info.content_hash && read.text_bytes == info.text_bytes);
    CHECK(read.invalid_bytes == info.invalid_bytes && read.unigram_entropy == info.unigram_entropy);
    CHECK(eitp_sample_file_verify(file, &error) == EITP_OK);
    eitp_sample_file_close(file);
    CHECK(settled(&m) && m.warnings == 0);
    scratch_remove(scratch);
}

/* 7 tokens: a four times, b twice, end of text once. */
static void test_pack_counts_entropy(void) {
    eitp_host host = eitp_host_default();
    eitp_error error = EITP__ZERO;
    eitp_pack_config config = eitp_pack_config_default();
    eitp_sample_file_info info = EITP__ZERO;
    REQUIRE(scratch_make(scratch));
    CHECK(put_text("a.txt", "aabbaa"));
    REQUIRE_OK(pack_one(&host, "a.txt", "a.tok", config, &info, &error), error);
    double expected = -(4.0 / 7 * log(4.0 / 7) + 2.0 / 7 * log(2.0 / 7) + 1.0 / 7 * log(1.0 / 7));
    CHECK_THAT(fabs(info.unigram_entropy - expected) < 1e-12, "%.17g for %.17g", info.unigram_entropy, expected);
    scratch_remove(scratch);
}

static void test_pack_reads_directories_in_order(void) {
    meter m;
    eitp_host host = meter_host(&m);
    eitp_error error = EITP__ZERO;
    eitp_pack_config config = eitp_pack_config_default();
    eitp_sample_file_info info = EITP__ZERO;
    char text[256];
    REQUIRE(scratch_make(scratch));
    CHECK(put_directory("d/b/c") && put_directory("d/empty"));
    CHECK(put_text("d/z", "6") && put_text("d/Z", "1") && put_text("d/a", "2") && put_text("d/b.", "5"));
    CHECK(put_text("d/b/x", "4") && put_text("d/b/c/y", "3") && put_text("d/b/nothing", ""));
    CHECK(!symlink("nowhere", at("d/dangling")) && !mkfifo(at("d/pipe"), 0600));
    REQUIRE_OK(pack_one(&host, "d", "d/out", config, &info, &error), error);
    CHECK(!strcmp(unpack("d/out", text, sizeof text),
                  "1<|endoftext|>2<|endoftext|>3<|endoftext|>4<|endoftext|>5<|endoftext|>6<|endoftext|>"));
    CHECK(info.document_count == 6 && m.warnings == 1 && settled(&m));
    /* Pack again, with the first output in the input directory. */
    REQUIRE_OK(pack_one(&host, "d", "d/out", config, &info, &error), error);
    CHECK(info.document_count == 6 && info.token_count == 12);
    scratch_remove(scratch);
}

/* Loads the byte tokenizer with another tokenizer_config.json. */
static eitp_status load_with_config(const eitp_host *host, const char *config, eitp_tokenizer **tokenizer,
                                    eitp_error *error) {
    eitp_status status = eitp_tokenizer_create_bytes(host, tokenizer, error);
    if (status == EITP_OK)
        status = eitp_tokenizer_save(*tokenizer, at("tokenizer"), error);
    eitp_tokenizer_destroy(*tokenizer);
    *tokenizer = NULL;
    if (status == EITP_OK && !put_text("tokenizer/tokenizer_config.json", config))
        status = EITP_ERROR_IO;
    return status == EITP_OK ? eitp_tokenizer_load(host, at("tokenizer"), tokenizer, error) : status;
}

/* The tokenizer's end-of-text token, regardless of its name, separates documents, and its id is stored in the file.
   Without such a token documents are not separated, and a warning is logged. */
static void test_pack_separates_documents(void) {
    static const struct {
        const char *config;
        int32_t end_of_text;
        int32_t ids[6];
        size_t count;
        int warnings; /* number of warnings with two documents */
    } cases[] = {
        {"{\"eos_token\": \"<|endoftext|>\"}", 256, {'o', 256, 't', 256}, 4, 0},
        {"{\"eos_token\": \"~\"}", '~', {'o', '~', 't', '~'}, 4, 0},
        {"{\"eos_token\": null}", -1, {'o', 't'}, 2, 1},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        meter m;
        eitp_host host = meter_host(&m);
        eitp_error error = EITP__ZERO;
        eitp_pack_config config = eitp_pack_config_default();
        eitp_sample_file_info info = EITP__ZERO;
        eitp_tokenizer *tokenizer = NULL;
        eitp_sample_file *file = NULL;
        int32_t ids[6] = {0};
        REQUIRE(scratch_make(scratch));
        CHECK(put_directory("d") && put_text("d/a", "o") && put_text("d/b", "t"));
        REQUIRE_OK(load_with_config(&host, cases[i].config, &tokenizer, &error), error);
        REQUIRE_OK(pack_with(&host, tokenizer, "d/a", "a.tok", config, &info, &error), error);
        CHECK(m.warnings == 0 && info.end_of_text == cases[i].end_of_text);
        REQUIRE_OK(pack_with(&host, tokenizer, "d", "d.tok", config, NULL, &error), error);
        CHECK_THAT(m.warnings == cases[i].warnings && (!m.warnings || strstr(m.log, "eos_token")), "case %zu: %s", i,
                   m.log);
        REQUIRE_OK(eitp_sample_file_open(&host, at("d.tok"), 0, &file, &error), error);
        info = eitp_sample_file_get_info(file);
        CHECK_THAT(info.end_of_text == cases[i].end_of_text && info.document_count == 2 &&
                       info.token_count == cases[i].count,
                   "case %zu: end-of-text %d, %d tokens", i, (int)info.end_of_text, (int)info.token_count);
        CHECK(info.token_count <= 6 && !eitp_sample_file_read_tokens(file, 0, info.token_count, ids, &error));
        CHECK_THAT(!memcmp(ids, cases[i].ids, sizeof ids), "case %zu", i);
        eitp_sample_file_close(file);
        eitp_tokenizer_destroy(tokenizer);
        CHECK(settled(&m));
        scratch_remove(scratch);
    }
}

/* Packs a file with this content, read in pieces of every small size. Returns its text with document separators. */
static const char *pack_content(const char *name, const char *content, const char *separator, meter *m) {
    static char text[200], first[200];
    eitp_host host = meter_host(m);
    eitp_error error = EITP__ZERO;
    eitp_pack_config config = eitp_pack_config_default();
    eitp_sample_file_info info = EITP__ZERO;
    CHECK(put_text(name, content));
    config.texts.document_separator = separator;
    for (config.texts.read_size = 0; config.texts.read_size < 9; config.texts.read_size++) {
        const eitp_status status = pack_one(&host, name, "packed", config, &info, &error);
        CHECK_THAT(status == EITP_OK, "%s", error.message);
        unpack("packed", config.texts.read_size ? text : first, sizeof text);
        CHECK_THAT(!config.texts.read_size || !strcmp(text, first), "read_size %d: %s", (int)config.texts.read_size,
                   text);
    }
    CHECK(settled(m));
    return first;
}

static void check_documents(const char *content, const char *separator, const char *expected) {
    meter m;
    const char *text = pack_content("a.txt", content, separator, &m);
    CHECK_THAT(!strcmp(text, expected), "'%s': '%s'", content, text);
}

#define ENDS "<|endoftext|>"

static void test_pack_divides_texts(void) {
    meter m;
    REQUIRE(scratch_make(scratch));
    check_documents("a\nb\n%\nc\n%\n%\r\n%%\n%\nd", NULL, "a\nb\n%\nc\n%\n%\r\n%%\n%\nd" ENDS);
    check_documents("a\nb\n%\nc\n%\n%\r\n100%\n%\nd", NULL, "a\nb\n" ENDS "c\n" ENDS "100%\n" ENDS "d" ENDS);
    check_documents("%\na\n%\nb\n%", "auto", "a\n" ENDS "b\n" ENDS);
    check_documents("%\na\n%\nb\n", NULL, "%\na\n%\nb\n" ENDS);
    check_documents("%\na\n%\nb\n%\n", "none", "%\na\n%\nb\n%\n" ENDS);
    check_documents("%\na\n%\nb\n%\n", "off", "%\na\n%\nb\n%\n" ENDS);
    check_documents("-----\na-----\n-----\n-----b\n------\n-----", "-----", "a-----\n" ENDS "-----b\n------\n" ENDS);
    pack_content("a.txt", "%\na\n%\nb\n%\n", NULL, &m);
    CHECK_THAT(strstr(m.log, "a.txt: read with document_separator '%'") != NULL, "%s", m.log);
    scratch_remove(scratch);
}

static void test_pack_refuses_loops(void) {
    meter m;
    eitp_host host = meter_host(&m);
    eitp_error error = EITP__ZERO;
    eitp_pack_config config = eitp_pack_config_default();
    REQUIRE(scratch_make(scratch));
    CHECK(put_directory("d") && put_text("d/a", "text"));
    CHECK(!symlink(".", at("d/loop")) && !symlink("..", at("d/up")));
    CHECK(pack_one(&host, "d", "out", config, NULL, &error) == EITP_ERROR_ARGUMENT && has(&error, "symbolic link"));
    CHECK(settled(&m) && !is_there("out") && !is_there("out.partial"));
    scratch_remove(scratch);
}

static void test_pack_does_not_depend_on_read_size(void) {
    static const size_t sizes[] = {1, 8, 9, 13, 64, 1000, 65536};
    eitp_host host = eitp_host_default();
    eitp_error error = EITP__ZERO;
    eitp_pack_config config = eitp_pack_config_default();
    static char text[5000];
    eitp__buffer expected, packed;
    REQUIRE(scratch_make(scratch));
    for (size_t i = 0; i < sizeof text; i++) /* ASCII, a two-byte character every 16 bytes, and a few invalid bytes */
        text[i] = (char)(i % 128 == 0   ? 0x80 | noise(i)
                         : i % 16 == 14 ? 0xC3
                         : i % 16 == 15 ? 0xA9
                                        : ' ' + noise(i) % 95);
    CHECK(put_file("a", text, sizeof text));
    REQUIRE_OK(pack_one(&host, "a", "expected", config, NULL, &error), error);
    REQUIRE(get_file("expected", &expected));
    for (size_t i = 0; i < EITP__COUNT(sizes); i++) {
        config.texts.read_size = sizes[i];
        REQUIRE_OK(pack_one(&host, "a", "packed", config, NULL, &error), error);
        REQUIRE(get_file("packed", &packed));
        CHECK_THAT(packed.size == expected.size && !memcmp(packed.data, expected.data, packed.size), "read_size %d",
                   (int)sizes[i]);
        eitp__buffer_release(&packed);
    }
    eitp__buffer_release(&expected);
    scratch_remove(scratch);
}

static void test_pack_replaces_or_refuses_invalid_bytes(void) {
    meter m;
    eitp_host host = meter_host(&m);
    eitp_error error = EITP__ZERO;
    eitp_pack_config config = eitp_pack_config_default();
    eitp_sample_file_info info = EITP__ZERO;
    char text[256];
    REQUIRE(scratch_make(scratch));
    CHECK(put_text("bad.txt", "0123456789\xE2\x82 \xFF."));
    REQUIRE_OK(pack_one(&host, "bad.txt", "out", config, &info, &error), error);
    CHECK(!strcmp(unpack("out", text, sizeof text), "0123456789\xEF\xBF\xBD \xEF\xBF\xBD.<|endoftext|>"));
    CHECK(info.invalid_bytes == 3 && info.text_bytes == 15 && m.warnings == 1);
    CHECK(strstr(m.log, "bad.txt: replaced 3 bytes") && strstr(m.log, "byte 10 (0xE2)"));
    config.texts.strict_utf8 = 1;
    for (config.texts.read_size = 8; config.texts.read_size < 20; config.texts.read_size++) {
        CHECK(pack_one(&host, "bad.txt", "strict", config, &info, &error) == EITP_ERROR_FORMAT);
        CHECK(has(&error, "bad.txt") && has(&error, "byte 10 (0xE2)"));
    }
    CHECK(!is_there("strict") && !is_there("strict.partial"));
    CHECK(put_text("bad.txt", "cut \xF0\x9F\x98"));
    CHECK(pack_one(&host, "bad.txt", "strict", config, NULL, &error) == EITP_ERROR_FORMAT && has(&error, "byte 4 "));
    CHECK(put_text("good.txt", "gr\xC3\xBC\xC3\x9F"));
    CHECK(pack_one(&host, "good.txt", "strict", config, NULL, &error) == EITP_OK && settled(&m));
    scratch_remove(scratch);
}

static void test_pack_errors(void) {
    meter m;
    eitp_host host = meter_host(&m);
    eitp_error error = EITP__ZERO;
    eitp_pack_config config = eitp_pack_config_default();
    char text[64];
    REQUIRE(scratch_make(scratch));
    CHECK(put_text("a", "text") && put_text("empty", "") && put_directory("d") && put_text("keep", "old"));
    CHECK(pack_one(&host, "missing", "keep", config, NULL, &error) == EITP_ERROR_ARGUMENT);
    CHECK(has(&error, "missing") && has(&error, "no such file"));
    CHECK(pack_one(&host, "empty", "keep", config, NULL, &error) == EITP_ERROR_ARGUMENT &&
          has(&error, "no text found"));
    CHECK(pack_one(&host, "d", "keep", config, NULL, &error) == EITP_ERROR_ARGUMENT && has(&error, "no text found"));
    CHECK(pack_one(&host, "a", "d", config, NULL, &error) == EITP_ERROR_ARGUMENT && has(&error, "is not a file"));
    CHECK(pack_one(&host, "a", "nowhere/out", config, NULL, &error) == EITP_ERROR_ARGUMENT && has(&error, "nowhere"));
    CHECK(!is_there("keep.partial"));
    eitp__buffer kept;
    REQUIRE(get_file("keep", &kept));
    CHECK(!strcmp(kept.data, "old"));
    eitp__buffer_release(&kept);
    CHECK(pack_one(&host, "a", "tok", config, NULL, &error) == EITP_OK);
    CHECK(pack_one(&host, "tok", "tok", config, NULL, &error) == EITP_ERROR_ARGUMENT &&
          has(&error, "a token file, not text"));
    CHECK(!strcmp(unpack("tok", text, sizeof text), "text<|endoftext|>"));
    eitp_tokenizer *tokenizer = NULL;
    REQUIRE_OK(eitp_tokenizer_create_bytes(&host, &tokenizer, &error), error);
    CHECK(eitp_pack(&host, tokenizer, &config, at("out"), NULL, &error) == EITP_ERROR_ARGUMENT &&
          has(&error, "no text files given"));
    eitp_tokenizer_destroy(tokenizer);
    CHECK(settled(&m));
    scratch_remove(scratch);
}

static int refuse_sync(void *user, const char *path) {
    (void)user, (void)path;
    return EACCES;
}

/* A directory that may be written but not read cannot be synced. */
static void test_pack_into_a_directory_that_cannot_be_read(void) {
    eitp_host host = eitp_host_default();
    char text[64];
    eitp_pack_config config = eitp_pack_config_default();
    eitp_error error;
    host.files.sync_directory = refuse_sync;
    REQUIRE(scratch_make(scratch));
    CHECK(put_text("a", "text"));
    REQUIRE_OK(pack_one(&host, "a", "tok", config, NULL, &error), error);
    CHECK(!strcmp(unpack("tok", text, sizeof text), "text<|endoftext|>") && !is_there("tok.partial"));
    scratch_remove(scratch);
}

typedef struct progress_seen {
    int calls, stop_at;
    uint64_t bytes, total, documents, tokens;
    int backwards;
} progress_seen;

static int see_progress(void *user, const eitp_pack_progress *progress) {
    progress_seen *seen = (progress_seen *)user;
    seen->backwards |= progress->text_bytes <= seen->bytes || progress->tokens < seen->tokens || !progress->path;
    seen->bytes = progress->text_bytes;
    seen->total = progress->text_bytes_total;
    seen->documents = progress->documents;
    seen->tokens = progress->tokens;
    return ++seen->calls == seen->stop_at;
}

static void test_pack_reports_progress_and_stops(void) {
    meter m;
    eitp_host host = meter_host(&m);
    eitp_error error = EITP__ZERO;
    eitp_pack_config config = eitp_pack_config_default();
    progress_seen seen = EITP__ZERO;
    REQUIRE(scratch_make(scratch));
    CHECK(put_directory("d") && put_text("d/a", "0123456789") && put_text("d/b", "01234567890123456789"));
    config.progress = see_progress;
    config.user = &seen;
    config.texts.read_size = 8;
    REQUIRE_OK(pack_one(&host, "d", "out", config, NULL, &error), error);
    CHECK(seen.calls == 5 && seen.bytes == 30 && seen.total == 30 && seen.documents == 2 && !seen.backwards);
    memset(&seen, 0, sizeof seen);
    seen.stop_at = 3;
    CHECK(pack_one(&host, "d", "stopped", config, NULL, &error) == EITP_ERROR_INTERRUPTED);
    CHECK(!is_there("stopped") && !is_there("stopped.partial") && seen.calls == 3 && settled(&m));
    scratch_remove(scratch);
}

static void test_pack_memory_is_bounded(void) {
    static char chunk[1 << 20];
    size_t peaks[2];
    eitp_error error = EITP__ZERO;
    eitp_pack_config config = eitp_pack_config_default();
    eitp__buffer text;
    eitp_host plain = eitp_host_default();
    REQUIRE(scratch_make(scratch));
    for (size_t i = 0; i < sizeof chunk; i++)
        chunk[i] = i % 7 ? (char)('a' + noise(i) % 26) : ' ';
    eitp__buffer_init(&text, &plain);
    for (int k = 0; k < 2; k++) {
        meter m;
        eitp_host host = meter_host(&m);
        for (int i = 0; i < (k ? 7 : 1); i++)
            eitp__buffer_add(&text, chunk, sizeof chunk);
        CHECK(put_file("a", text.data, text.size));
        REQUIRE_OK(pack_one(&host, "a", "b", config, NULL, &error), error);
        peaks[k] = m.faulty.peak_bytes;
        CHECK(settled(&m));
    }
    eitp__buffer_release(&text);
    CHECK_THAT(peaks[1] <= peaks[0] + 4096, "1 MiB takes %zu bytes, 8 MiB take %zu", peaks[0], peaks[1]);
    scratch_remove(scratch);
}

static void test_text_files_are_a_source(void) {
    meter m;
    eitp_host host = meter_host(&m);
    eitp_error error = EITP__ZERO;
    eitp_text_files *files = NULL;
    char seen[128] = "";
    REQUIRE(scratch_make(scratch));
    CHECK(put_directory("d") && put_text("d/a", "0123456789") && put_text("d/b", "") && put_text("d/c", "x"));
    const char *path = at("d");
    eitp_text_files_config config = eitp_text_files_config_default();
    config.paths = &path;
    config.path_count = 1;
    config.read_size = 8;
    config.format = EITP_FORMAT_FOLDERS;
    CHECK(eitp_text_files_open(&host, &config, &files, &error) == EITP_ERROR_ARGUMENT && has(&error, "eitp_table"));
    config.format = EITP_FORMAT_AUTO;
    REQUIRE_OK(eitp_text_files_open(&host, &config, &files, &error), error);
    CHECK(eitp_text_files_bytes(files) == 11);
    eitp_text_source source = eitp_text_files_source(files);
    for (int i = 0; i < 20; i++) {
        const char *text = NULL;
        size_t size = 99;
        REQUIRE_OK(source.read(source.user, &text, &size, &error), error);
        if (!text)
            break;
        strncat(seen, text, size);
        strcat(seen, size ? "," : "|");
    }
    CHECK_THAT(!strcmp(seen, "01234567,89,|x,"), "%s", seen);
    eitp_text_files_close(files);
    eitp_text_files_close(NULL);
    CHECK(settled(&m));
    scratch_remove(scratch);
}

/* Reading token files */

/* A shorter file's tokens are found at the start of a longer file, wherever they end. */
static void test_prefix_is_found(void) {
    eitp_host host = eitp_host_default();
    eitp_error error = EITP__ZERO;
    eitp_sample_file *file = NULL;
    static int32_t ids[20000];
    static const size_t sizes[] = {1, 8191, 8192, 8193, 19999, 20000};
    uint64_t count;
    REQUIRE(scratch_make(scratch));
    for (size_t i = 0; i < EITP__COUNT(ids); i++)
        ids[i] = (int32_t)(noise(i) % 70000);
    REQUIRE_OK(write_ids("long", 70000, ids, EITP__COUNT(ids), &error), error);
    REQUIRE_OK(eitp_sample_file_open(&host, at("long"), 0, &file, &error), error);
    for (size_t i = 0; i < EITP__COUNT(sizes); i++) {
        const eitp_token_range all = {0, sizes[i]};
        const uint64_t hash = eitp_token_memory_source(ids, sizes[i], all).hash;
        REQUIRE_OK(eitp__sample_file_find_prefix(file, hash, &count, &error), error);
        CHECK_THAT(count == sizes[i], "%llu", (unsigned long long)count);
        REQUIRE_OK(eitp__sample_file_find_prefix(file, hash ^ 1, &count, &error), error);
        CHECK(count == 0);
    }
    CHECK(eitp__sample_file_find_prefix(NULL, 1, &count, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp__sample_file_find_prefix(file, 1, NULL, &error) == EITP_ERROR_ARGUMENT);
    eitp_sample_file_close(file);
    scratch_remove(scratch);
}

static void test_wide_ids(void) {
    eitp_host host = eitp_host_default();
    eitp_error error = EITP__ZERO;
    eitp_sample_file *file = NULL;
    static int32_t ids[40000], read[40000];
    REQUIRE(scratch_make(scratch));
    for (size_t i = 0; i < EITP__COUNT(ids); i++)
        ids[i] = (int32_t)(noise(i) % 70000);
    ids[0] = 65536;
    REQUIRE_OK(write_ids("wide", 70000, ids, EITP__COUNT(ids), &error), error);
    REQUIRE_OK(eitp_sample_file_open(&host, at("wide"), 0, &file, &error), error);
    CHECK(eitp_sample_file_get_info(file).element_size == 4);
    REQUIRE_OK(eitp_sample_file_read_tokens(file, 0, EITP__COUNT(ids), read, &error), error);
    CHECK(!memcmp(ids, read, sizeof ids));
    REQUIRE_OK(eitp_sample_file_read_tokens(file, 12345, 5, read, &error), error);
    CHECK(!memcmp(ids + 12345, read, 5 * sizeof *ids));
    CHECK(eitp_sample_file_verify(file, &error) == EITP_OK);
    eitp_sample_file_close(file);
    ids[3] = 65535;
    REQUIRE_OK(write_ids("narrow", 65536, ids + 3, 1, &error), error);
    REQUIRE_OK(eitp_sample_file_open(&host, at("narrow"), 0, &file, &error), error);
    CHECK(eitp_sample_file_get_info(file).element_size == 2);
    CHECK(eitp_sample_file_read_tokens(file, 0, 1, read, &error) == EITP_OK && read[0] == 65535);
    eitp_sample_file_close(file);
    REQUIRE_OK(write_ids("wide", 65537, ids + 3, 1, &error), error);
    REQUIRE_OK(eitp_sample_file_open(&host, at("wide"), 0, &file, &error), error);
    CHECK(eitp_sample_file_get_info(file).element_size == 4);
    eitp_sample_file_close(file);
    CHECK(write_ids("beyond", 65535, ids + 3, 1, &error) == EITP_ERROR_INTERNAL && has(&error, "65535"));
    CHECK(!is_there("beyond") && !is_there("beyond.partial"));
    scratch_remove(scratch);
}

static void test_reading_is_bounded(void) {
    static const int32_t ids[] = {5, 6, 7};
    eitp_host host = eitp_host_default();
    eitp_error error = EITP__ZERO;
    eitp_sample_file *file = NULL;
    int32_t read[4] = {-1, -1, -1, -1};
    REQUIRE(scratch_make(scratch));
    REQUIRE_OK(write_ids("three", 8, ids, 3, &error), error);
    REQUIRE_OK(eitp_sample_file_open(&host, at("three"), 0, &file, &error), error);
    CHECK(eitp_sample_file_read_tokens(file, 0, 4, read, &error) == EITP_ERROR_ARGUMENT && has(&error, "three"));
    CHECK(eitp_sample_file_read_tokens(file, 4, 0, read, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_sample_file_read_tokens(file, 2, UINT64_MAX, read, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_sample_file_read_tokens(file, UINT64_MAX, 2, read, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_sample_file_read_tokens(file, 3, 0, read, &error) == EITP_OK && read[0] == -1);
    CHECK(eitp_sample_file_read_tokens(file, 0, 1, NULL, &error) == EITP_ERROR_ARGUMENT &&
          has(&error, "ids must not be NULL"));
    CHECK(eitp_sample_file_read_tokens(file, 0, 0, NULL, &error) == EITP_OK);
    CHECK(eitp_sample_file_read_tokens(file, 2, 1, read, &error) == EITP_OK && read[0] == 7 && read[1] == -1);
    eitp_sample_file_close(file);
    eitp_sample_file_close(NULL);
    CHECK(eitp_sample_file_open(&host, at("three"), -1, &file, &error) == EITP_ERROR_ARGUMENT && !file);
    CHECK(eitp_sample_file_open(&host, at("four"), 0, &file, &error) == EITP_ERROR_ARGUMENT && !file);
    /* The caller's vocabulary_size is smaller than the file's. */
    REQUIRE_OK(eitp_sample_file_open(&host, at("three"), 7, &file, &error), error);
    CHECK(eitp_sample_file_read_tokens(file, 0, 2, read, &error) == EITP_OK);
    CHECK(eitp_sample_file_read_tokens(file, 1, 2, read, &error) == EITP_ERROR_FORMAT);
    CHECK(has(&error, "three") && has(&error, "token 2 has id 7") && has(&error, "vocabulary has 7"));
    eitp_sample_file_close(file);
    scratch_remove(scratch);
}

/* Writes an llm.c file: 256 32-bit numbers (magic, version, number of tokens), then 16-bit ids. */
static int put_llmc(const char *name, uint32_t version, uint32_t promised, const uint16_t *ids, size_t count) {
    unsigned char bytes[1024 + 64] = EITP__ZERO;
    const uint32_t header[3] = {20240520, version, promised};
    for (size_t i = 0; i < 12; i++)
        bytes[i] = (unsigned char)(header[i / 4] >> 8 * (i % 4));
    for (size_t i = 0; i < 2 * count; i++)
        bytes[1024 + i] = (unsigned char)(ids[i / 2] >> 8 * (i % 2));
    return put_file(name, bytes, 1024 + 2 * count);
}

static void test_llmc_files(void) {
    static const uint16_t ids[] = {50256, 1, 65535, 258};
    eitp_host host = eitp_host_default();
    eitp_error error = EITP__ZERO;
    eitp_sample_file *file = NULL;
    int32_t read[4];
    REQUIRE(scratch_make(scratch));
    CHECK(put_llmc("gpt2.bin", 1, 4, ids, 4));
    REQUIRE_OK(eitp_sample_file_open(&host, at("gpt2.bin"), 0, &file, &error), error);
    eitp_sample_file_info info = eitp_sample_file_get_info(file);
    CHECK(info.kind == EITP_SAMPLE_FILE_LLMC && info.token_count == 4 && info.vocabulary_size == 0 &&
          info.end_of_text == -1);
    REQUIRE_OK(eitp_sample_file_read_tokens(file, 0, 4, read, &error), error);
    CHECK(read[0] == 50256 && read[1] == 1 && read[2] == 65535 && read[3] == 258);
    CHECK(eitp_sample_file_verify(file, &error) == EITP_OK);
    eitp_sample_file_close(file);
    REQUIRE_OK(eitp_sample_file_open(&host, at("gpt2.bin"), 50257, &file, &error), error);
    CHECK(eitp_sample_file_read_tokens(file, 0, 2, read, &error) == EITP_OK);
    CHECK(eitp_sample_file_read_tokens(file, 0, 4, read, &error) == EITP_ERROR_FORMAT &&
          has(&error, "gpt2.bin: token 2 has id 65535"));
    CHECK(eitp_sample_file_verify(file, &error) == EITP_ERROR_FORMAT);
    eitp_sample_file_close(file);
    CHECK(put_llmc("bad.bin", 1, 5, ids, 4) &&
          eitp_sample_file_open(&host, at("bad.bin"), 0, &file, &error) == EITP_ERROR_FORMAT &&
          has(&error, "bad.bin: the header has 5"));
    CHECK(put_llmc("bad.bin", 1, 3, ids, 4) &&
          eitp_sample_file_open(&host, at("bad.bin"), 0, &file, &error) == EITP_ERROR_FORMAT);
    CHECK(put_llmc("bad.bin", 1, 0xFFFFFFFFu, ids, 4) &&
          eitp_sample_file_open(&host, at("bad.bin"), 0, &file, &error) == EITP_ERROR_FORMAT &&
          has(&error, "negative"));
    CHECK(put_llmc("bad.bin", 2, 4, ids, 4) &&
          eitp_sample_file_open(&host, at("bad.bin"), 0, &file, &error) == EITP_ERROR_UNSUPPORTED &&
          has(&error, "version 2"));
    CHECK(put_llmc("bad.bin", 1, 0, ids, 0) &&
          eitp_sample_file_open(&host, at("bad.bin"), 0, &file, &error) == EITP_ERROR_FORMAT &&
          has(&error, "no tokens"));
    CHECK(file == NULL);
    scratch_remove(scratch);
}

/* Opens `size` bytes as a file. */
static eitp_status open_bytes(const void *bytes, size_t size, eitp_error *error) {
    meter m;
    eitp_host host = meter_host(&m);
    eitp_sample_file *file = NULL;
    CHECK(put_file("bytes", bytes, size));
    eitp_status status = eitp_sample_file_open(&host, at("bytes"), 0, &file, error);
    CHECK((status == EITP_OK) == (file != NULL));
    eitp_sample_file_close(file);
    CHECK(settled(&m));
    return status;
}

static void test_damaged_headers(void) {
    static const int32_t ids[] = {5, 6, 7};
    static const char text[] = "Once upon a time, there was no token in this file.";
    eitp_error error = EITP__ZERO;
    eitp__buffer file;
    REQUIRE(scratch_make(scratch));
    REQUIRE_OK(write_ids("three", 8, ids, 3, &error), error);
    REQUIRE(get_file("three", &file));
    unsigned char *bytes = (unsigned char *)file.data;
    REQUIRE(file.size == 262);
    CHECK(open_bytes(bytes, 262, &error) == EITP_OK);
    for (size_t size = 0; size < 262; size++)
        CHECK_THAT(open_bytes(bytes, size, &error) == EITP_ERROR_FORMAT, "cut to %d", (int)size);
    CHECK(has(&error, "has 3 tokens") && has(&error, "261 bytes"));
    for (size_t i = 0; i < 256; i++) {
        bytes[i] ^= 0x10;
        CHECK_THAT(open_bytes(bytes, 262, &error) != EITP_OK, "byte %d", (int)i);
        bytes[i] ^= 0x10;
    }
    CHECK(open_bytes(bytes, 263, &error) == EITP_ERROR_FORMAT); /* includes the zero byte that follows the data */
    CHECK(open_bytes(text, sizeof text, &error) == EITP_ERROR_FORMAT &&
          has(&error, "bytes: not a token or labelled file"));
    memset(bytes + 8, 0, 248);
    CHECK(open_bytes(bytes, 262, &error) == EITP_ERROR_FORMAT && has(&error, "packing was interrupted"));
    eitp__buffer_release(&file);
    scratch_remove(scratch);
}

/* Headers with a valid checksum and invalid contents. */
static void test_invalid_headers(void) {
    static const struct {
        size_t offset, size;
        uint64_t value;
        eitp_status status;
        const char *message;
    } cases[] = {
        {8, 4, 2, EITP_ERROR_UNSUPPORTED, "version 2"},
        {12, 4, 3, EITP_ERROR_FORMAT, "size of an id (3)"},
        {12, 4, 0, EITP_ERROR_FORMAT, "size of an id (0)"},
        {12, 4, 4, EITP_ERROR_FORMAT, "the header has"},
        {16, 8, 4, EITP_ERROR_FORMAT, "the header has 4"},
        {16, 8, 0, EITP_ERROR_FORMAT, "the header has 0"},
        {16, 8, 0x8000000000000003u, EITP_ERROR_FORMAT, "the header has"},
        {16, 8, UINT64_MAX, EITP_ERROR_FORMAT, "the header has"},
        {32, 4, 0, EITP_ERROR_FORMAT, "vocabulary (0)"},
        {32, 4, 65537, EITP_ERROR_FORMAT, "vocabulary (65537)"},
        {32, 4, 0xFFFFFFFFu, EITP_ERROR_FORMAT, "vocabulary"},
        {36, 4, 8, EITP_ERROR_FORMAT, "end-of-text id (8)"},
        {72, 8, 0x7FF8000000000000u, EITP_ERROR_FORMAT, "entropy"},
        {72, 8, 0x7FF0000000000000u, EITP_ERROR_FORMAT, "entropy"},
        {72, 8, 0xBFF0000000000000u, EITP_ERROR_FORMAT, "entropy"},
    };
    static const int32_t ids[] = {5, 6, 7};
    eitp_error error = EITP__ZERO;
    eitp__buffer file;
    REQUIRE(scratch_make(scratch));
    REQUIRE_OK(write_ids("three", 8, ids, 3, &error), error);
    REQUIRE(get_file("three", &file));
    for (size_t k = 0; k < EITP__COUNT(cases); k++) {
        unsigned char bytes[262];
        memcpy(bytes, file.data, sizeof bytes);
        for (size_t i = 0; i < cases[k].size; i++)
            bytes[cases[k].offset + i] = (unsigned char)(cases[k].value >> 8 * i);
        uint32_t crc = eitp__crc32c(0, bytes, 252);
        for (size_t i = 0; i < 4; i++)
            bytes[252 + i] = (unsigned char)(crc >> 8 * i);
        CHECK_THAT(open_bytes(bytes, sizeof bytes, &error) == cases[k].status, "case %d: %s", (int)k, error.message);
        CHECK(has(&error, cases[k].message));
    }
    eitp__buffer_release(&file);
    scratch_remove(scratch);
}

static void test_verify_finds_changes(void) {
    static const int32_t ids[] = {5, 6, 7};
    eitp_host host = eitp_host_default();
    eitp_error error = EITP__ZERO;
    eitp__buffer content;
    eitp_sample_file *file = NULL;
    REQUIRE(scratch_make(scratch));
    REQUIRE_OK(write_ids("three", 8, ids, 3, &error), error);
    REQUIRE(get_file("three", &content));
    content.data[258] = 4;
    CHECK(put_file("three", content.data, content.size));
    REQUIRE_OK(eitp_sample_file_open(&host, at("three"), 0, &file, &error), error);
    CHECK(eitp_sample_file_verify(file, &error) == EITP_ERROR_FORMAT && has(&error, "three") && has(&error, "hash"));
    eitp_sample_file_close(file);
    eitp__buffer_release(&content);
    scratch_remove(scratch);
}

/* Changes of an open file */

enum { CHANGING_IDS = 5000, CHANGING_ID = 256 + 2 * 4000 };

/* Writes an id into the file `name` at this byte. */
static int put_id(const char *name, uint64_t offset, int id) {
    eitp_host host = eitp_host_default();
    const unsigned char bytes[2] = {(unsigned char)(id & 255), (unsigned char)(id >> 8)};
    eitp__file file;
    const int is_put = !eitp__file_open(&file, &host, at(name), EITP_FILE_UPDATE, NULL) &&
                       !eitp__file_write(&file, offset, bytes, 2, NULL);
    return !eitp__file_close(&file, NULL) && is_put;
}

/* Reads an id and returns the number of file calls. */
static long calls_of_read(meter *m, eitp_sample_file *file, eitp_status expected, eitp_error *error) {
    const long before = m->faulty.file_calls;
    int32_t id;
    const eitp_status status = eitp_sample_file_read_tokens(file, 7, 1, &id, error);
    CHECK_THAT(status == expected && (!status || error->status == status), "%s", status ? error->message : "unchanged");
    return m->faulty.file_calls - before;
}

/* The file's time comes from the open file or from its path. The file is compared only after its time has changed. */
static void test_changed_tokens_are_found(void) {
    for (int by_path = 0; by_path < 2; by_path++) {
        meter m;
        eitp_host host = meter_host(&m);
        eitp_error error = EITP__ZERO;
        eitp_sample_file *file = NULL;
        static int32_t ids[CHANGING_IDS];
        REQUIRE(scratch_make(scratch));
        for (int i = 0; i < CHANGING_IDS; i++)
            ids[i] = i;
        if (by_path)
            host.files.file_info = NULL;
        REQUIRE_OK(write_ids("ids", CHANGING_IDS, ids, CHANGING_IDS, &error), error);
        REQUIRE_OK(eitp_sample_file_open(&host, at("ids"), 0, &file, &error), error);
        CHECK(calls_of_read(&m, file, EITP_OK, &error) == 2);
        CHECK(!faults_set_time(at("ids"), 1000));
        CHECK(calls_of_read(&m, file, EITP_OK, &error) > 5);
        CHECK(calls_of_read(&m, file, EITP_OK, &error) == 2);
        CHECK(put_id("ids", CHANGING_ID, 1) && !faults_set_time(at("ids"), 2000));
        for (int i = 0; i < 2; i++) /* the error persists */
            CHECK(calls_of_read(&m, file, EITP_ERROR_IO, &error) > 5 && has(&error, "ids' changed while it was read") &&
                  has(&error, "restore it"));
        CHECK(put_id("ids", CHANGING_ID, 65535) && !faults_set_time(at("ids"), 3000));
        CHECK(calls_of_read(&m, file, EITP_ERROR_IO, &error) > 0 && has(&error, "changed while it was read") &&
              has(&error, "has id 65535"));
        CHECK(put_id("ids", CHANGING_ID, 4000) && !faults_set_time(at("ids"), 4000));
        CHECK(calls_of_read(&m, file, EITP_OK, &error) > 5);
        CHECK(truncate(at("ids"), CHANGING_ID) == 0);
        CHECK(calls_of_read(&m, file, EITP_ERROR_IO, &error) > 0 && has(&error, "it ends before byte"));
        eitp_sample_file_close(file);
        CHECK(settled(&m));
        scratch_remove(scratch);
    }
}

/* Stops at a given poll. */
typedef struct stopper {
    int asked, stops_at; /* number of polls; the poll that stops, 0: never */
} stopper;

static int ask_stopper(void *user) {
    stopper *s = (stopper *)user;
    return ++s->asked == s->stops_at;
}

/* Comparing a touched file can be stopped, and starts over. */
static void test_a_comparison_can_be_stopped(void) {
    static int32_t ids[3 * CHANGING_IDS];
    stopper s = {0, 2};
    meter m;
    eitp_host host = meter_host(&m);
    eitp_error error = EITP__ZERO;
    eitp_sample_file *file = NULL;
    long stopped, whole;
    REQUIRE(scratch_make(scratch));
    REQUIRE_OK(write_ids("ids", CHANGING_IDS, ids, EITP__COUNT(ids), &error), error);
    REQUIRE_OK(eitp_sample_file_open(&host, at("ids"), 0, &file, &error), error);
    eitp__sample_file_set_poll(NULL, ask_stopper, &s);
    eitp__sample_file_set_poll(file, ask_stopper, &s);
    CHECK(calls_of_read(&m, file, EITP_OK, &error) == 2 && !s.asked);
    CHECK(!faults_set_time(at("ids"), 1000));
    stopped = calls_of_read(&m, file, EITP_ERROR_INTERRUPTED, &error);
    CHECK(s.asked == 2);
    whole = calls_of_read(&m, file, EITP_OK, &error);
    CHECK_THAT(whole > stopped && calls_of_read(&m, file, EITP_OK, &error) == 2, "%ld calls, %ld", stopped, whole);
    s.asked = 0;
    CHECK(eitp_sample_file_verify(file, &error) == EITP_ERROR_INTERRUPTED && s.asked == 2);
    eitp__sample_file_set_poll(file, NULL, NULL);
    CHECK(eitp_sample_file_verify(file, &error) == EITP_OK && s.asked == 2);
    eitp_sample_file_close(file);
    CHECK(settled(&m));
    scratch_remove(scratch);
}

/* Reads continue from the file that was opened, even if another file now has its name. */
static void test_replaced_tokens_are_unchanged(void) {
    for (int by_path = 0; by_path < 2; by_path++) {
        static const int32_t ids[] = {5, 6, 7}, others[] = {7, 6, 5};
        int32_t id = 0;
        eitp_host host = eitp_host_default();
        eitp_error error = EITP__ZERO;
        eitp_sample_file *file = NULL;
        REQUIRE(scratch_make(scratch));
        if (by_path)
            host.files.file_info = NULL;
        REQUIRE_OK(write_ids("ids", 8, ids, 3, &error), error);
        REQUIRE_OK(eitp_sample_file_open(&host, at("ids"), 0, &file, &error), error);
        REQUIRE_OK(write_ids("ids", 8, others, 3, &error), error);
        CHECK_THAT(!eitp_sample_file_read_tokens(file, 0, 1, &id, &error) && id == 5, "%s", error.message);
        CHECK(unlink(at("ids")) == 0);
        CHECK_THAT(!eitp_sample_file_read_tokens(file, 0, 1, &id, &error) && id == 5, "%s", error.message);
        eitp_sample_file_close(file);
        scratch_remove(scratch);
    }
}

/* The header of an llm.c file has no hash. */
static void test_changed_llmc_tokens_are_found(void) {
    static const uint16_t ids[] = {1, 2, 3, 4};
    static const int32_t same[] = {1, 2, 3, 4};
    const eitp_token_range all = {0, 4};
    const uint64_t hash = eitp_token_memory_source(same, 4, all).hash;
    for (int is_verified = 0; is_verified < 2; is_verified++) {
        eitp_host host = eitp_host_default();
        eitp_error error = EITP__ZERO;
        eitp_sample_file *file = NULL;
        int32_t id;
        REQUIRE(scratch_make(scratch));
        CHECK(put_llmc("ids.bin", 1, 4, ids, 4));
        REQUIRE_OK(eitp_sample_file_open(&host, at("ids.bin"), 0, &file, &error), error);
        CHECK(!is_verified || !eitp_sample_file_verify(file, &error));
        CHECK(eitp_sample_file_get_info(file).content_hash == (is_verified ? hash : 0));
        CHECK(eitp_sample_file_token_source(file, all).hash == (is_verified ? hash : 0));
        CHECK(!eitp_sample_file_read_tokens(file, 1, 1, &id, &error) && !faults_set_time(at("ids.bin"), 1000));
        CHECK(eitp_sample_file_read_tokens(file, 1, 1, &id, &error) == (is_verified ? EITP_OK : EITP_ERROR_IO));
        CHECK(is_verified || has(&error, "was written to while it was read"));
        CHECK(put_id("ids.bin", 1024, 9) && !faults_set_time(at("ids.bin"), 2000));
        CHECK(eitp_sample_file_read_tokens(file, 1, 1, &id, &error) == EITP_ERROR_IO);
        CHECK(!is_verified || has(&error, "changed while it was read"));
        eitp_sample_file_close(file);
        scratch_remove(scratch);
    }
}

/* Split and windows */

static void test_split(void) {
    eitp_error error = EITP__ZERO;
    eitp_token_range training = EITP__ZERO, validation = EITP__ZERO;
    REQUIRE_OK(eitp_split_tokens(1000, 0.1, 10, &training, &validation, &error), error);
    CHECK(training.first == 0 && training.count == 891 && validation.first == 891 && validation.count == 109);
    REQUIRE_OK(eitp_split_tokens(1000, 0, 10, &training, &validation, &error), error);
    CHECK(training.first == 0 && training.count == 1000 && validation.first == 1000 && validation.count == 0);
    REQUIRE_OK(eitp_split_tokens(22, 0.5, 10, &training, &validation, &error), error);
    CHECK(training.count == 11 && validation.first == 11 && validation.count == 11);
    REQUIRE_OK(eitp_split_tokens((uint64_t)1 << 45, 0.001, 1024, &training, &validation, &error), error);
    CHECK(training.count % 1024 == 1 && training.count + validation.count == (uint64_t)1 << 45);
}

static void test_split_refusals(void) {
    static const double bad[] = {-0.1, 1, 2, NAN, INFINITY};
    eitp_error error = EITP__ZERO;
    eitp_token_range training = {1, 2}, validation = {3, 4};
    for (size_t i = 0; i < EITP__COUNT(bad); i++)
        CHECK(eitp_split_tokens(1000, bad[i], 10, &training, &validation, &error) == EITP_ERROR_ARGUMENT &&
              has(&error, "fraction"));
    CHECK(eitp_split_tokens(1000, 0.1, 0, &training, &validation, &error) == EITP_ERROR_ARGUMENT &&
          has(&error, "block_size must be 1 to 2147483646 (got 0)"));
    CHECK(eitp_split_tokens(1000, 0.1, INT64_MAX, &training, &validation, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_split_tokens(21, 0.5, 10, &training, &validation, &error) == EITP_ERROR_ARGUMENT &&
          has(&error, "11 tokens"));
    CHECK(eitp_split_tokens(10, 0, 10, &training, &validation, &error) == EITP_ERROR_ARGUMENT &&
          has(&error, "at least 11 tokens"));
    CHECK(eitp_split_tokens(0, 0.5, 10, &training, &validation, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_split_tokens(1000, 1e-300, 10, &training, &validation, &error) == EITP_ERROR_ARGUMENT);
    CHECK(training.first == 1 && training.count == 2 && validation.first == 3 && validation.count == 4);
}

/* Every refusal names a sufficient count. Every split has a window in each part and loses no token. */
static void test_split_says_how_many_are_needed(void) {
    eitp_error error = EITP__ZERO;
    eitp_token_range training, validation;
    for (uint64_t i = 0; i < 3000; i++) {
        int64_t block = 1 + (int64_t)(noise(4 * i) % 50);
        uint64_t count = noise(4 * i + 1) % 400;
        double fraction = (double)(1 + noise(4 * i + 2) % 98) / 99;
        if (eitp_split_tokens(count, fraction, block, &training, &validation, &error) != EITP_OK) {
            const char *needed = strstr(error.message, "at least ");
            REQUIRE(needed != NULL);
            count = strtoull(needed + strlen("at least "), NULL, 10);
            REQUIRE_OK(eitp_split_tokens(count, fraction, block, &training, &validation, &error), error);
        }
        CHECK(training.first == 0 && validation.first == training.count);
        CHECK(training.count + validation.count == count);
        CHECK(training.count > (uint64_t)block && validation.count > (uint64_t)block);
        CHECK((training.count - 1) % (uint64_t)block == 0);
        CHECK((double)validation.count >= floor((double)count * fraction));
    }
}

/* Writes and opens a file of the tokens 0, 1, 2, ... */
static eitp_sample_file *count_up(int32_t count) {
    static int32_t ids[4096];
    eitp_host host = eitp_host_default();
    eitp_sample_file *file = NULL;
    for (int32_t i = 0; i < count; i++)
        ids[i] = i;
    if (write_ids("ids", 4096, ids, (size_t)count, NULL) == EITP_OK)
        eitp_sample_file_open(&host, at("ids"), 0, &file, NULL);
    return file;
}

static eitp_status windows_of(eitp__windows *windows, const eitp_sample_file *file, eitp_token_range range,
                              int64_t block_size, eitp_error *error) {
    const eitp_token_source source = eitp_sample_file_token_source(file, range);
    return eitp__windows_init(windows, &source, block_size, error);
}

static void test_windows_in_sequence(void) {
    eitp_error error = EITP__ZERO;
    eitp__windows windows;
    eitp_token_range range = {5, 32};
    int32_t tokens[10], targets[10];
    REQUIRE(scratch_make(scratch));
    eitp_sample_file *file = count_up(100);
    REQUIRE(file != NULL);
    REQUIRE_OK(windows_of(&windows, file, range, 10, &error), error);
    CHECK(windows.count == 3);
    for (int row = 0; row < 3; row++) {
        REQUIRE_OK(eitp__windows_read(&windows, (uint64_t)row, tokens, targets, &error), error);
        for (int i = 0; i < 10; i++) {
            CHECK(tokens[i] == 5 + row * 10 + i);
            CHECK(targets[i] == tokens[i] + 1);
        }
    }
    CHECK(eitp__windows_read(&windows, 3, tokens, targets, &error) == EITP_ERROR_ARGUMENT &&
          has(&error, "(3 windows)"));
    range.count = 31; /* exactly three windows and the last target */
    REQUIRE_OK(windows_of(&windows, file, range, 10, &error), error);
    CHECK(windows.count == 3);
    range.count = 30;
    REQUIRE_OK(windows_of(&windows, file, range, 10, &error), error);
    CHECK(windows.count == 2);
    REQUIRE_OK(windows_of(&windows, file, range, 1, &error), error);
    REQUIRE_OK(eitp__windows_read(&windows, 28, tokens, targets, &error), error);
    CHECK(windows.count == 29 && tokens[0] == 33 && targets[0] == 34);
    eitp_sample_file_close(file);
    scratch_remove(scratch);
}

static void test_shuffled_samples(void) {
    int changed = 0;
    CHECK(eitp__sample_index(EITP_SHUFFLE_NONE, 1, 3, 2) == 2 && eitp__sample_index(EITP_SHUFFLE_NONE, 1, 3, 3) == 0 &&
          eitp__sample_index(EITP_SHUFFLE_NONE, 1, 3, 3000000000001u) == 1);
    CHECK(eitp__sample_index(EITP_SHUFFLE_WINDOWS, 1, 0, 5) == 0);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        char seen[399] = EITP__ZERO;
        for (uint64_t i = 0; i < 399; i++) {
            uint64_t index = eitp__sample_index(EITP_SHUFFLE_WINDOWS, 1, 399, epoch * 399 + i);
            CHECK(index == eitp__shuffled_position(1, epoch, 399, i) && !seen[index]);
            seen[index] = 1;
            changed += index != i;
        }
    }
    CHECK(changed > 1000);
}

static void test_windows_refusals(void) {
    eitp_error error = EITP__ZERO;
    eitp__windows windows;
    eitp_token_range all = {0, 100}, small = {90, 10}, past = {1, 100}, wild = {50, UINT64_MAX};
    REQUIRE(scratch_make(scratch));
    eitp_sample_file *file = count_up(100);
    REQUIRE(file != NULL);
    CHECK(windows_of(&windows, file, all, 0, &error) == EITP_ERROR_ARGUMENT && has(&error, "block_size"));
    CHECK(windows_of(&windows, file, all, INT64_MAX, &error) == EITP_ERROR_ARGUMENT);
    CHECK(windows_of(&windows, file, all, 100, &error) == EITP_ERROR_ARGUMENT && has(&error, "at least 101"));
    CHECK(windows_of(&windows, file, small, 10, &error) == EITP_ERROR_ARGUMENT);
    CHECK(windows_of(&windows, file, past, 10, &error) == EITP_ERROR_ARGUMENT && has(&error, "exceed the 100 tokens"));
    CHECK(windows_of(&windows, file, wild, 10, &error) == EITP_ERROR_ARGUMENT);
    CHECK(windows_of(&windows, file, all, 99, &error) == EITP_OK && windows.count == 1);
    eitp_sample_file_close(file);
    scratch_remove(scratch);
}

/* A token file and an array of the same tokens are equivalent sources. */
static void test_token_sources(void) {
    eitp_error error = EITP__ZERO;
    eitp_token_range range = {7, 50};
    int32_t ids[100], from_file[20], from_memory[20];
    REQUIRE(scratch_make(scratch));
    eitp_sample_file *file = count_up(100);
    REQUIRE(file != NULL);
    for (int i = 0; i < 100; i++)
        ids[i] = i;
    const eitp_token_source a = eitp_sample_file_token_source(file, range);
    const eitp_token_source b = eitp_token_memory_source(ids, 100, range);
    CHECK(a.count == b.count && a.range.first == b.range.first && a.hash == b.hash && a.hash);
    CHECK(!a.read(a.user, 30, 20, from_file, &error) && !b.read(b.user, 30, 20, from_memory, &error));
    CHECK(!memcmp(from_file, from_memory, sizeof from_file) && from_file[0] == 30);
    eitp_sample_file_close(file);
    scratch_remove(scratch);
}

/* Faults: every allocation and every file call fails once. */

/* A file that is being written is locked. A partial file left by a killed process is not. */
static void test_one_writer_at_a_time(void) {
    static const int32_t ids[] = {1, 2, 3};
    const eitp_host host = eitp_host_default();
    eitp_pack_config config = eitp_pack_config_default();
    eitp_error error = EITP__ZERO;
    eitp__token_writer writer;
    char text[128];
    REQUIRE(scratch_make(scratch) && put_text("a", "first") && put_text("out.partial", "left"));
    REQUIRE_OK(eitp__token_writer_open(&writer, &host, at("out"), 257, &error), error);
    for (int i = 0; i < 2; i++) {
        CHECK(pack_one(&host, "a", "out", config, NULL, &error) == EITP_ERROR_ARGUMENT);
        CHECK_THAT(has(&error, "another process is writing to '") && has(&error, "/out'; wait for it"), "%s",
                   error.message);
        CHECK(is_there("out.partial") && !is_there("out"));
    }
    CHECK(!eitp__token_writer_add(&writer, ids, 3, &error));
    CHECK_THAT(!eitp__token_writer_finish(&writer, &error), "%s", error.message);
    eitp__token_writer_release(&writer);
    CHECK(is_there("out") && !is_there("out.partial"));
    CHECK_THAT(!pack_one(&host, "a", "out", config, NULL, &error), "%s", error.message);
    CHECK(unpack("out", text, sizeof text) && !strcmp(text, "first<|endoftext|>"));
    scratch_remove(scratch);
}

/* A partial file that another process has replaced, ignoring the lock, is neither renamed nor removed. */
static void test_a_part_of_another_process_is_left(void) {
    static const int32_t ids[] = {1, 2, 3};
    const eitp_host host = eitp_host_default();
    eitp_error error = EITP__ZERO;
    eitp__token_writer writer;
    REQUIRE(scratch_make(scratch));
    REQUIRE_OK(eitp__token_writer_open(&writer, &host, at("out"), 257, &error), error);
    CHECK(!unlink(at("out.partial")) && put_text("out.partial", "of another"));
    CHECK(!eitp__token_writer_add(&writer, ids, 3, &error));
    CHECK(eitp__token_writer_finish(&writer, &error) == EITP_ERROR_ARGUMENT);
    eitp__token_writer_release(&writer);
    CHECK(is_there("out.partial") && !is_there("out"));
    scratch_remove(scratch);
}

/* After a failure, either the old or the new file exists, complete, and nothing else. */
static void check_after_fault(const meter *m, eitp_status status, int64_t n) {
    char text[128];
    CHECK_THAT(settled(m), "fault %d leaves memory or files", (int)n);
    CHECK_THAT(!is_there("out.partial"), "fault %d leaves a partial file", (int)n);
    unpack("out", text, sizeof text);
    if (status == EITP_OK)
        CHECK_THAT(!strcmp(text, "new \xEF\xBF\xBD<|endoftext|>news<|endoftext|>"), "%s", text);
    else
        CHECK_THAT(!strcmp(text, "old<|endoftext|>") || !strcmp(text, "new \xEF\xBF\xBD<|endoftext|>news<|endoftext|>"),
                   "fault %d: %s", (int)n, text);
}

/* Packs "d" over the token file of "old" with fault number n. Returns 0 if fewer calls were made. */
static int pack_with_fault(int64_t n, int in_memory) {
    meter m;
    eitp_host plain = eitp_host_default(), host = meter_host(&m);
    eitp_error error = EITP__ZERO;
    eitp_pack_config config = eitp_pack_config_default();
    config.texts.document_separator = "%";
    CHECK(pack_one(&plain, "old", "out", config, NULL, &error) == EITP_OK);
    *(in_memory ? &m.faulty.fail_allocation : &m.faulty.fail_file_call) = (long)n;
    eitp_status status = pack_one(&host, "d", "out", config, NULL, &error);
    check_after_fault(&m, status, n);
    if ((in_memory ? m.faulty.allocations : m.faulty.file_calls) < n) {
        CHECK(status == EITP_OK);
        return 0;
    }
    if (in_memory)
        CHECK_THAT(status == EITP_ERROR_MEMORY, "allocation %d: %d", (int)n, (int)status);
    else /* closing a file that was only read may fail */
        CHECK_THAT(status == EITP_ERROR_IO || status == EITP_OK, "call %d: %d", (int)n, (int)status);
    CHECK(status == EITP_OK || (error.status == status && strlen(error.message) > 10));
    return 1;
}

static void test_pack_survives_faults(void) {
    int64_t n;
    REQUIRE(scratch_make(scratch));
    CHECK(put_directory("d/e") && put_text("d/a", "new \xFF") && put_text("d/e/b", "news") && put_text("old", "old"));
    for (n = 1; pack_with_fault(n, 1); n++)
        ;
    CHECK(n > 15);
    for (n = 1; pack_with_fault(n, 0); n++)
        ;
    CHECK(n > 25);
    scratch_remove(scratch);
}

static int read_with_fault(int64_t n, int in_memory) {
    meter m;
    eitp_host host = meter_host(&m);
    eitp_error error = EITP__ZERO;
    eitp_sample_file *file = NULL;
    eitp__windows windows;
    eitp_token_range range = {0, 100};
    int32_t tokens[10], targets[10];
    *(in_memory ? &m.faulty.fail_allocation : &m.faulty.fail_file_call) = (long)n;
    eitp_status status = eitp_sample_file_open(&host, at("ids"), 0, &file, &error);
    CHECK((status == EITP_OK) == (file != NULL));
    if (status == EITP_OK)
        status = windows_of(&windows, file, range, 10, &error);
    if (status == EITP_OK)
        status = eitp__windows_read(&windows, 0, tokens, targets, &error);
    const int64_t calls =
        in_memory ? m.faulty.allocations : m.faulty.file_calls; /* closing a file that was only read may fail */
    eitp_sample_file_close(file);
    CHECK(settled(&m));
    /* If its time is unknown, the contents of the file are compared. */
    const int is_harmless = calls < n || (m.faulty.failed_call && !strcmp(m.faulty.failed_call, "file_info"));
    CHECK_THAT(status == (is_harmless ? EITP_OK
                          : in_memory ? EITP_ERROR_MEMORY
                                      : EITP_ERROR_IO),
               "fault %d: %d", (int)n, (int)status);
    return calls >= n;
}

static void test_reading_survives_faults(void) {
    int64_t n;
    REQUIRE(scratch_make(scratch));
    eitp_sample_file_close(count_up(100));
    for (n = 1; read_with_fault(n, 1); n++)
        ;
    CHECK(n > 2);
    for (n = 1; read_with_fault(n, 0); n++)
        ;
    CHECK(n > 5);
    scratch_remove(scratch);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(test_permutation_is_a_bijection),
        TEST(test_permutation_keeps_its_values),
        TEST(test_permutation_differs_by_epoch_and_seed),
        TEST(test_permutation_is_uniform),
        TEST(test_repair_matches_python),
        TEST(test_repair_returns_failures_of_the_sink),
        TEST(test_pack_round_trip),
        TEST(test_pack_counts_entropy),
        TEST(test_pack_reads_directories_in_order),
        TEST(test_pack_separates_documents),
        TEST(test_pack_divides_texts),
        TEST(test_pack_refuses_loops),
        TEST(test_pack_does_not_depend_on_read_size),
        TEST(test_pack_replaces_or_refuses_invalid_bytes),
        TEST(test_pack_errors),
        TEST(test_pack_reports_progress_and_stops),
        TEST(test_pack_memory_is_bounded),
        TEST(test_text_files_are_a_source),
        TEST(test_prefix_is_found),
        TEST(test_wide_ids),
        TEST(test_reading_is_bounded),
        TEST(test_llmc_files),
        TEST(test_damaged_headers),
        TEST(test_invalid_headers),
        TEST(test_verify_finds_changes),
        TEST(test_changed_tokens_are_found),
        TEST(test_a_comparison_can_be_stopped),
        TEST(test_replaced_tokens_are_unchanged),
        TEST(test_changed_llmc_tokens_are_found),
        TEST(test_split),
        TEST(test_split_refusals),
        TEST(test_split_says_how_many_are_needed),
        TEST(test_windows_in_sequence),
        TEST(test_shuffled_samples),
        TEST(test_token_sources),
        TEST(test_windows_refusals),
        TEST(test_one_writer_at_a_time),
        TEST(test_a_part_of_another_process_is_left),
        TEST(test_pack_into_a_directory_that_cannot_be_read),
        TEST(test_pack_survives_faults),
        TEST(test_reading_survives_faults),
    };
    return RUN_TESTS(tests, argc, argv);
}
