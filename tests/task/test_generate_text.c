/* Text generation compared with a loop of feeding and sampling. */
#include "tests/support/faults.h"
#include "tests/support/trainer_run.h"

enum { MOST = 4096 };

/* Pieces of text that a program has received. */
typedef struct received {
    char text[4 * MOST];
    size_t size;
    int pieces, stop_after, invalid;
} received;

typedef struct setting {
    eitp_context *context;
    eitp_model *model;
    eitp_tokenizer *tokenizer;
    eitp_generator *generator;
} setting;

static int receive(void *user, const char *text, size_t size) {
    received *r = (received *)user;
    r->invalid += !size || eitp__utf8_valid_prefix((const unsigned char *)text, size) != size;
    if (r->size + size <= sizeof r->text)
        memcpy(r->text + r->size, text, size);
    r->size += size;
    return ++r->pieces == r->stop_after;
}

/* A small model with random weights over the tokens of the tokenizer, which the setting owns, and 5 more tokens. */
static eitp_status setting_begin_on(const eitp_host *host, eitp_tokenizer *tokenizer, int64_t capacity, setting *s) {
    eitp_context_config config = eitp_context_config_default();
    eitp_transformer_config shape = small_model(0);
    eitp_status status;
    memset(s, 0, sizeof *s);
    s->tokenizer = tokenizer;
    config.host = *host;
    config.threads = 1;
    shape.vocabulary = eitp_tokenizer_size(tokenizer) + 5;
    shape.positions = 64;
    shape.initializer_range = 0.2; /* makes tokens depend on the preceding ones */
    status = eitp_context_create(&config, &s->context, &error_);
    if (!status)
        status = eitp_model_create(s->context, &shape, &s->model, &error_);
    if (!status)
        status = eitp_model_initialize(s->model, 1, &error_);
    return status ? status : eitp_generator_create(s->model, capacity, &s->generator, &error_);
}

static eitp_status setting_begin(const eitp_host *host, int64_t capacity, setting *s) {
    eitp_tokenizer *tokenizer = NULL;
    eitp_status status = eitp_tokenizer_create_bytes(host, &tokenizer, &error_);
    memset(s, 0, sizeof *s);
    return status ? status : setting_begin_on(host, tokenizer, capacity, s);
}

static void setting_end(setting *s) {
    eitp_generator_destroy(s->generator);
    eitp_model_destroy(s->model);
    eitp_context_destroy(s->context);
    eitp_tokenizer_destroy(s->tokenizer);
}

static eitp_generate_config config_of(received *r, uint64_t seed, int64_t max_tokens) {
    eitp_generate_config config = eitp_generate_config_default();
    memset(r, 0, sizeof *r);
    config.sampling.seed = seed;
    config.max_tokens = max_tokens;
    config.piece = receive;
    config.user = r;
    return config;
}

/* Draws the tokens that follow a prompt by feeding and sampling. Returns their number. All tokens must fit in the
   cache. */
static int draw(setting *s, const int32_t *ids, size_t count, const eitp_generate_config *config, int32_t *tokens) {
    eitp_sampling sampling = config->sampling;
    int drawn = 0;
    sampling.vocabulary = eitp_tokenizer_size(s->tokenizer);
    eitp_generator_reset(s->generator);
    CHECK(!eitp_generator_feed(s->generator, ids, (int64_t)count, &error_));
    while (drawn < config->max_tokens) {
        const int32_t token = eitp_generator_sample(s->generator, &sampling);
        if (token == eitp_tokenizer_end_of_text(s->tokenizer))
            break;
        tokens[drawn++] = token;
        if (drawn < config->max_tokens)
            CHECK(!eitp_generator_feed(s->generator, &token, 1, &error_));
    }
    return drawn;
}

/* The text of byte tokens, with U+FFFD for invalid bytes. */
static eitp_status append(void *user, const char *text, size_t size, eitp_error *error) {
    (void)error;
    receive(user, text, size);
    return EITP_OK;
}

static void repair(const int32_t *tokens, int count, const eitp_tokenizer *tokenizer, received *r) {
    eitp__utf8_repair repair;
    memset(r, 0, sizeof *r);
    eitp__utf8_repair_init(&repair, append, r);
    for (int i = 0; i < count; i++) {
        const char *bytes;
        size_t size;
        CHECK(!eitp_tokenizer_token(tokenizer, tokens[i], &bytes, &size, &error_));
        CHECK(!eitp__utf8_repair_add(&repair, bytes, size, &error_));
    }
    CHECK(!eitp__utf8_repair_finish(&repair, &error_));
}

static int is_same(const received *a, const received *b) {
    return a->size == b->size && !memcmp(a->text, b->text, a->size);
}

/* The generated text consists of the tokens drawn in a loop, in whole characters, regardless of the bytes that the
   model draws. */
static void text_is_that_of_the_tokens(void) {
    static received got, wanted;
    const eitp_host host = eitp_host_default();
    int replaced = 0;
    setting s;
    REQUIRE_OK(setting_begin(&host, 0, &s), error_);
    for (uint64_t seed = 0; seed < 20; seed++) {
        const eitp_generate_config config = config_of(&got, seed, 50);
        const char prompt[] = "ab";
        int32_t tokens[50], start[8];
        size_t start_count = 0;
        eitp_generate_report report;
        int count;
        CHECK(!eitp_tokenizer_encode(s.tokenizer, prompt, 2, start, 8, &start_count, &error_) && start_count == 2);
        count = draw(&s, start, start_count, &config, tokens);
        repair(tokens, count, s.tokenizer, &wanted);
        CHECK(!eitp_generate_text(s.generator, s.tokenizer, prompt, 2, &config, &report, &error_));
        CHECK_THAT(is_same(&got, &wanted), "seed %d: %zu bytes, not %zu", (int)seed, got.size, wanted.size);
        CHECK(!got.invalid && report.tokens == count && report.prompt_tokens == 2);
        CHECK(!report.prompt_cut && !report.lost_beginning);
        CHECK(report.end == (count < 50 ? EITP_GENERATED_END_OF_TEXT : EITP_GENERATED_MAX_TOKENS));
        for (size_t i = 0; i + 2 < got.size; i++)
            replaced += !memcmp(got.text + i, "\xEF\xBF\xBD", 3);
    }
    CHECK_THAT(replaced > 100, "%d", replaced);
    setting_end(&s);
}

/* Appends a byte for each byte token, a space for U+2581, and U+FFFD for invalid bytes. */
static void repair_fallback(const int32_t *tokens, int count, received *r) {
    static const char *const texts[] = {" ", "a", "\xE6", "\xBC", "\xA2"};
    eitp__utf8_repair repair;
    memset(r, 0, sizeof *r);
    eitp__utf8_repair_init(&repair, append, r);
    for (int i = 0; i < count; i++)
        CHECK(!eitp__utf8_repair_add(&repair, texts[tokens[i]], strlen(texts[tokens[i]]), &error_));
    CHECK(!eitp__utf8_repair_finish(&repair, &error_));
}

/* Byte tokens are drawn one by one and become a character when it is complete. */
static void bytes_become_characters(void) {
    static const char json[] =
        "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" "
        "\"},\"content\":\"\xE2\x96\x81\"},\"decoder\":{"
        "\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xE2\x96\x81\"},"
        "\"content\":"
        "\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" "
        "\",\"start\":1,\"stop\":0}]"
        "},\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"merges\":[],\"vocab\":{\"\xE2\x96\x81\":0,\"a\":1,"
        "\"<0xE6>\":2,\"<0xBC>\":3,\"<0xA2>\":4}}}";
    static received got, wanted;
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer = NULL;
    int joined = 0;
    setting s;
    REQUIRE_OK(eitp__tokenizer_parse(&host, json, sizeof json - 1, &tokenizer, &error_), error_);
    REQUIRE_OK(setting_begin_on(&host, tokenizer, 0, &s), error_);
    for (uint64_t seed = 0; seed < 40; seed++) {
        eitp_generate_config config = config_of(&got, seed, 50);
        const int32_t start = 1;
        int32_t tokens[50];
        config.sampling.temperature = 10;
        repair_fallback(tokens, draw(&s, &start, 1, &config, tokens), &wanted);
        CHECK(!eitp_generate_text(s.generator, s.tokenizer, "a", 1, &config, NULL, &error_));
        CHECK_THAT(is_same(&got, &wanted) && !got.invalid, "seed %d: %zu bytes, not %zu", (int)seed, got.size,
                   wanted.size);
        for (size_t i = 0; i + 2 < got.size; i++)
            joined += !memcmp(got.text + i, "\xE6\xBC\xA2", 3);
    }
    CHECK_THAT(joined > 3, "%d", joined);
    setting_end(&s);
}

/* End-of-text ends the output and is not part of it. Without limits on probabilities it is drawn eventually. */
static void end_of_text_ends_it(void) {
    static received got;
    const eitp_host host = eitp_host_default();
    eitp_generate_config config = config_of(&got, 3, MOST);
    eitp_generate_report report;
    setting s;
    REQUIRE_OK(setting_begin(&host, 16, &s), error_);
    config.sampling.temperature = 1000;
    REQUIRE_OK(eitp_generate_text(s.generator, s.tokenizer, "x", 1, &config, &report, &error_), error_);
    CHECK_THAT(report.end == EITP_GENERATED_END_OF_TEXT && report.tokens > 16 && report.tokens < MOST, "%d",
               (int)report.tokens);
    CHECK(report.lost_beginning && !got.invalid);
    config.max_tokens = 0;
    config_of(&got, 3, 0);
    REQUIRE_OK(eitp_generate_text(s.generator, s.tokenizer, "x", 1, &config, &report, &error_), error_);
    CHECK(report.end == EITP_GENERATED_MAX_TOKENS && !report.tokens && !got.size);
    setting_end(&s);
}

/* A full cache is refilled with the last half of its tokens, and sampling continues with another seed. */
static void a_full_cache_begins_again(void) {
    static received got, wanted;
    const eitp_host host = eitp_host_default();
    enum { CAPACITY = 12, ALL = 40 };
    const int64_t capacities[] = {CAPACITY, 1, 2, 3};
    for (size_t c = 0; c < EITP__COUNT(capacities); c++) {
        const int64_t capacity = capacities[c], half = capacity / 2 > 1 ? capacity / 2 : 1;
        eitp_generate_config config = config_of(&got, 8, ALL);
        eitp_generate_report report;
        eitp_sampling sampling;
        int32_t ids[ALL + 1] = {5};
        setting s;
        config.sampling.vocabulary = 256; /* excludes end-of-text */
        sampling = config.sampling;
        REQUIRE_OK(setting_begin(&host, capacity, &s), error_);
        REQUIRE_OK(eitp_generator_feed(s.generator, ids, 1, &error_), error_);
        for (int i = 1; i <= ALL; i++) {
            ids[i] = eitp_generator_sample(s.generator, &sampling);
            if (eitp_generator_remaining(s.generator)) {
                CHECK(!eitp_generator_feed(s.generator, &ids[i], 1, &error_));
                continue;
            }
            eitp_generator_reset(s.generator);
            sampling.seed += (uint64_t)1 << 32;
            CHECK(!eitp_generator_feed(s.generator, ids + i + 1 - half, half, &error_));
        }
        repair(ids + 1, ALL, s.tokenizer, &wanted);
        REQUIRE_OK(eitp_generate(s.generator, s.tokenizer, ids, 1, &config, &report, &error_), error_);
        CHECK_THAT(is_same(&got, &wanted), "capacity %d", (int)capacity);
        CHECK(report.lost_beginning && report.tokens == ALL);
        setting_end(&s);
    }
}

/* If a prompt is longer than the cache, the model sees only its end, as if it were the whole prompt. */
static void a_long_prompt_is_cut(void) {
    static received whole, end;
    const eitp_host host = eitp_host_default();
    char prompt[300];
    eitp_generate_report report;
    setting s;
    REQUIRE_OK(setting_begin(&host, 0, &s), error_);
    for (size_t i = 0; i < sizeof prompt; i++)
        prompt[i] = (char)('a' + i * i % 23);
    eitp_generate_config config = config_of(&whole, 1, 30);
    REQUIRE_OK(eitp_generate_text(s.generator, s.tokenizer, prompt, 300, &config, &report, &error_), error_);
    CHECK(report.prompt_tokens == 300 && report.prompt_cut == 300 - 63 && report.lost_beginning);
    config = config_of(&end, 1, 30);
    REQUIRE_OK(eitp_generate_text(s.generator, s.tokenizer, prompt + 237, 63, &config, &report, &error_), error_);
    CHECK(is_same(&whole, &end) && report.prompt_tokens == 63 && !report.prompt_cut);
    setting_end(&s);
}

/* An empty prompt is end-of-text. A program stops generation with the result of `piece`. */
static void empty_prompts_and_stopping(void) {
    static received got, of_end;
    const eitp_host host = eitp_host_default();
    const int32_t end = 256;
    eitp_generate_report report;
    eitp_generate_config config = config_of(&got, 6, 30);
    setting s;
    REQUIRE_OK(setting_begin(&host, 0, &s), error_);
    REQUIRE_OK(eitp_generate_text(s.generator, s.tokenizer, NULL, 0, &config, &report, &error_), error_);
    CHECK(report.prompt_tokens == 1);
    config = config_of(&of_end, 6, 30);
    REQUIRE_OK(eitp_generate(s.generator, s.tokenizer, &end, 1, &config, NULL, &error_), error_);
    CHECK(got.size && is_same(&got, &of_end));
    config = config_of(&of_end, 6, 30);
    of_end.stop_after = 3;
    REQUIRE_OK(eitp_generate(s.generator, s.tokenizer, NULL, 0, &config, &report, &error_), error_);
    CHECK(report.end == EITP_GENERATED_STOPPED && of_end.pieces == 3 && report.tokens < 30);
    CHECK(of_end.size < got.size && !memcmp(of_end.text, got.text, of_end.size));
    setting_end(&s);
}

/* WordPiece: spaces between words, but not before continuations, also directly after the prompt. */
static void words_have_spaces(void) {
    static received got;
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer = NULL;
    char directory[512], text[2000];
    FILE *file;
    int spaces = 0;
    setting s;
    REQUIRE(scratch_make(directory));
    REQUIRE((file = fopen(scratch_path(directory, "vocab.txt"), "wb")));
    fputs("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nred\ngreen\n##ish\n##er\n", file);
    CHECK(!fclose(file));
    REQUIRE_OK(eitp_tokenizer_load(&host, directory, &tokenizer, &error_), error_);
    REQUIRE_OK(setting_begin_on(&host, tokenizer, 0, &s), error_);
    for (uint64_t seed = 0; seed < 5; seed++) {
        eitp_generate_config config = config_of(&got, seed, 20);
        int32_t ids[40];
        size_t prompt, size;
        int count;
        REQUIRE_OK(eitp_tokenizer_encode(tokenizer, "red greenish", 12, ids, 10, &prompt, &error_), error_);
        count = draw(&s, ids, prompt, &config, ids + prompt);
        REQUIRE_OK(eitp_tokenizer_decode(tokenizer, ids, prompt + (size_t)count, text, sizeof text, &size, &error_),
                   error_);
        REQUIRE_OK(eitp_generate_text(s.generator, tokenizer, "red greenish", 12, &config, NULL, &error_), error_);
        CHECK_THAT(got.size + 12 == size && !memcmp(got.text, text + 12, got.size), "%.*s: %.*s", (int)size, text,
                   (int)got.size, got.text);
        for (size_t i = 0; i < got.size; i++)
            spaces += got.text[i] == ' ';
    }
    CHECK(spaces > 10 && spaces < 100);
    eitp_generate_config config = config_of(&got, 0, 5);
    CHECK(eitp_generate_text(s.generator, tokenizer, "", 0, &config, NULL, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "no end-of-text"), "%s", error_.message);
    setting_end(&s);
    scratch_remove(directory);
}

static int interrupt(void *user) {
    (void)user;
    return 1;
}

static void invalid_input_is_refused(void) {
    static received got;
    const eitp_host host = eitp_host_default();
    const int32_t beyond = 5000;
    eitp_generate_config config = config_of(&got, 0, -1);
    eitp_generate_report report;
    setting s;
    REQUIRE_OK(setting_begin(&host, 0, &s), error_);
    CHECK(eitp_generate_text(s.generator, s.tokenizer, "x", 1, &config, &report, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "max_tokens must be at least 0 (got -1)"), "%s", error_.message);
    config.max_tokens = 5;
    CHECK(eitp_generate_text(NULL, s.tokenizer, "x", 1, &config, &report, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_generate_text(s.generator, NULL, "x", 1, &config, &report, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_generate_text(s.generator, s.tokenizer, NULL, 1, &config, &report, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_generate_text(s.generator, s.tokenizer, "x", 1, NULL, &report, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_generate(s.generator, s.tokenizer, NULL, 1, &config, &report, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_generate(s.generator, s.tokenizer, &beyond, 1, &config, &report, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "5000"), "%s", error_.message);
    config.piece = NULL;
    CHECK(eitp_generate(s.generator, s.tokenizer, NULL, 0, &config, &report, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "piece"), "%s", error_.message);
    config.piece = receive;
    eitp_context_set_poll(s.context, interrupt, NULL);
    CHECK(eitp_generate_text(s.generator, s.tokenizer, "x", 1, &config, &report, &error_) == EITP_ERROR_INTERRUPTED);
    eitp_context_set_poll(s.context, NULL, NULL);
    CHECK(report.prompt_tokens == 1 && !report.tokens && !got.pieces);
    CHECK(!eitp_generate_text(s.generator, s.tokenizer, "x", 1, &config, &report, &error_) && got.pieces);
    setting_end(&s);
}

/* Every allocation fails once. */
static void allocations_fail(void) {
    static received got;
    for (long n = 1;; n++) {
        const eitp_generate_config config = config_of(&got, 2, 10);
        eitp_status status;
        setting s;
        faults f;
        faults_begin(&f);
        REQUIRE_OK(setting_begin(&f.host, 0, &s), error_);
        f.fail_allocation = f.allocations + n;
        status = eitp_generate_text(s.generator, s.tokenizer, "a prompt", 8, &config, NULL, &error_);
        CHECK_THAT(status == EITP_OK || status == EITP_ERROR_MEMORY, "allocation %ld: %s", n, error_.message);
        setting_end(&s);
        if (!faults_end(&f)) {
            CHECK(!status && n > 3);
            break;
        }
        CHECK(status == EITP_ERROR_MEMORY);
    }
}

/* Generation ends with any of the end tokens: the model's configured ones, and those named by the caller. */
static void texts_end_with_further_tokens(void) {
    static received got;
    const eitp_host host = eitp_host_default();
    const int32_t prompt[3] = {72, 105, 33};
    eitp_generate_config config;
    eitp_generate_report report;
    int32_t tokens[32];
    int count, end = 8;
    setting s;
    REQUIRE_OK(setting_begin(&host, 0, &s), error_);
    config = config_of(&got, 4, 32);
    count = draw(&s, prompt, 3, &config, tokens);
    REQUIRE(count > end);
    for (int i = 0; i < end; i++)
        end = tokens[i] == tokens[end] ? i : end;
    config.ends.count = 2;
    config.ends.ids[0] = 300;
    config.ends.ids[1] = tokens[end];
    REQUIRE_OK(eitp_generate(s.generator, s.tokenizer, prompt, 3, &config, &report, &error_), error_);
    CHECK(report.end == EITP_GENERATED_END_OF_TEXT && report.tokens == end);
    config.ends.count = 0;
    REQUIRE_OK(eitp_generate(s.generator, s.tokenizer, prompt, 3, &config, &report, &error_), error_);
    CHECK(report.tokens == count);
    eitp__model_add_end(s.model, tokens[end]);
    eitp__model_add_end(s.model, tokens[end]);
    CHECK(eitp_model_config(s.model).end.ids[eitp_model_config(s.model).end.count - 1] == tokens[end]);
    REQUIRE_OK(eitp_generate(s.generator, s.tokenizer, prompt, 3, &config, &report, &error_), error_);
    CHECK(report.end == EITP_GENERATED_END_OF_TEXT && report.tokens == end);
    setting_end(&s);
}

/* A prompt that starts with the contents of the cache gives the same text as without a cache. */
static void a_cache_may_be_kept(void) {
    static received kept, anew;
    const eitp_host host = eitp_host_default();
    int32_t prompt[24];
    eitp_generate_config config;
    eitp_generate_report report;
    setting s;
    REQUIRE_OK(setting_begin(&host, 0, &s), error_);
    for (int i = 0; i < 24; i++)
        prompt[i] = 60 + i;
    config = config_of(&kept, 5, 6);
    config.keeps_cache = 1;
    REQUIRE_OK(eitp_generate(s.generator, s.tokenizer, prompt, 10, &config, &report, &error_), error_);
    CHECK(report.prompt_fed == 10);
    config = config_of(&kept, 6, 12);
    config.keeps_cache = 1;
    REQUIRE_OK(eitp_generate(s.generator, s.tokenizer, prompt, 24, &config, &report, &error_), error_);
    CHECK_THAT(report.prompt_tokens == 24 && report.prompt_fed == 14, "%lld", (long long)report.prompt_fed);
    config = config_of(&anew, 6, 12);
    REQUIRE_OK(eitp_generate(s.generator, s.tokenizer, prompt, 24, &config, &report, &error_), error_);
    CHECK(report.prompt_fed == 24 && is_same(&kept, &anew) && kept.size);
    config = config_of(&kept, 6, 12);
    config.keeps_cache = 1;
    REQUIRE_OK(eitp_generate(s.generator, s.tokenizer, prompt, 24, &config, &report, &error_), error_);
    CHECK(report.prompt_fed == 1 && is_same(&kept, &anew));
    setting_end(&s);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(texts_end_with_further_tokens), TEST(a_cache_may_be_kept),        TEST(text_is_that_of_the_tokens),
        TEST(bytes_become_characters),       TEST(end_of_text_ends_it),        TEST(a_full_cache_begins_again),
        TEST(a_long_prompt_is_cut),          TEST(empty_prompts_and_stopping), TEST(words_have_spaces),
        TEST(invalid_input_is_refused),      TEST(allocations_fail),
    };
    return RUN_TESTS(tests, argc, argv);
}
