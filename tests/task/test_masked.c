/* Masked language modelling: the choice of tokens, windows of text, learning, and runs with the same bits. */
#include "tests/support/labelled.h"

/* ---- Chosen tokens ---- */

/* Counts over many samples. */
typedef struct choices {
    int tokens, chosen, masked, random, kept, wrong;
} choices;

/* Reads a sample like a pass and compares it with the source's tokens. */
static void count_choices(const encoder *e, eitp_split split, uint64_t number, uint64_t seed, uint64_t epoch,
                          choices *c, int32_t *tokens) {
    int32_t segments[LONGEST], targets[LONGEST], plain[LONGEST];
    void *values[3];
    eitp_sample sample;
    eitp_labelled_sample original;
    memset(&sample, 0, sizeof sample);
    memset(&original, 0, sizeof original);
    values[0] = tokens;
    values[1] = segments;
    values[2] = targets;
    sample.values = values;
    sample.rows = LONGEST;
    sample.seed = seed;
    sample.epoch = epoch;
    original.ids = plain;
    CHECK(!e->r.task.read(e->r.task.user, split, number, &sample, &error_));
    CHECK(!read_made_up((void *)(uintptr_t)&e->training, number, &original, &error_));
    CHECK(sample.rows == original.length);
    for (int64_t i = 0; i < sample.rows; i++) {
        c->tokens++;
        sample.items[0] -= targets[i] >= 0;
        if (targets[i] < 0) {
            c->wrong += targets[i] != -100 || tokens[i] != plain[i];
            continue;
        }
        c->chosen++;
        c->wrong += targets[i] != plain[i] || tokens[i] < 0 || tokens[i] >= VOCABULARY || plain[i] == 7;
        c->masked += tokens[i] == MASK_TOKEN;
        c->kept += tokens[i] == plain[i];
        c->random += tokens[i] != plain[i] && tokens[i] != MASK_TOKEN;
    }
    CHECK(!sample.items[0]);
}

static int is_near(int count, int of, double fraction) {
    return fabs((double)count / of - fraction) < 4 * sqrt(fraction * (1 - fraction) / of);
}

static void tokens_are_chosen_as_in_bert(void) {
    const variant v = default_variant();
    choices c = EITP__ZERO;
    int32_t first[LONGEST], second[LONGEST];
    int differs[3] = {0, 0, 0};
    encoder e;
    REQUIRE_OK(begin_model(&e, &v, "bert-base", EITP_HEAD_LANGUAGE), error_);
    e.masked.probability = eitp_masked_config_default().probability;
    e.masked.special.count = 1;
    e.masked.special.ids[0] = 7;
    REQUIRE_OK(make_encoder_task(&e, EITP_PROBLEM_UNKNOWN, &error_), error_);
    for (uint64_t number = 0; number < 4000; number++) {
        memset(first, 0, sizeof first);
        memset(second, 0, sizeof second);
        count_choices(&e, EITP_TRAINING, number, 1, 0, &c, first);
        for (int other = 0; other < 3; other++) {
            choices unused = EITP__ZERO;
            count_choices(&e, EITP_TRAINING, number, other == 1 ? 2 : 1, other == 2, &unused, second);
            differs[other] += memcmp(first, second, sizeof first) != 0;
        }
    }
    CHECK(!c.wrong && c.tokens > 15000);
    CHECK_THAT(is_near(c.chosen, c.tokens, 0.15 * 33 / 34), "%d of %d", c.chosen, c.tokens);
    CHECK_THAT(is_near(c.masked, c.chosen, 0.8 + 0.1 / VOCABULARY), "%d of %d", c.masked, c.chosen);
    CHECK_THAT(is_near(c.random, c.chosen, 0.1 * (VOCABULARY - 2) / VOCABULARY), "%d of %d", c.random, c.chosen);
    CHECK_THAT(is_near(c.kept, c.chosen, 0.1 + 0.1 / VOCABULARY), "%d of %d", c.kept, c.chosen);
    CHECK(!differs[0] && differs[1] > 1000 && differs[2] > 1000);
    end_run(&e.r);
}

enum { SPECIAL_TOKENS = 5, FIRST_CONTINUING = 20 };

/* A tokenizer with as many tokens as the model. Tokens from FIRST_CONTINUING on continue a word. */
static eitp_tokenizer *make_words(void) {
    static const char *const special[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer = NULL;
    char directory[512];
    FILE *file;
    if (!scratch_make(directory) || !(file = fopen(scratch_path(directory, "vocab.txt"), "wb")))
        return NULL;
    for (int id = 0; id < VOCABULARY; id++) {
        if (id < SPECIAL_TOKENS)
            fprintf(file, "%s\n", special[id]);
        else
            fprintf(file, "%s%c%c\n", id < FIRST_CONTINUING ? "" : "##", 'a' + id % 7, 'a' + id / 7);
    }
    CHECK(!fclose(file));
    CHECK(!eitp_tokenizer_load(&host, directory, &tokenizer, &error_));
    scratch_remove(directory);
    return tokenizer;
}

/* Counts words, chosen words, and tokens that are chosen although their word is not, or vice versa. */
static void count_words(const encoder *e, uint64_t number, int *words, int *chosen, int *split) {
    int32_t tokens[LONGEST], segments[LONGEST], targets[LONGEST], plain[LONGEST];
    void *values[3] = {tokens, segments, targets};
    eitp_sample sample = EITP__ZERO;
    eitp_labelled_sample original = EITP__ZERO;
    sample.values = values;
    original.ids = plain;
    CHECK(!e->r.task.read(e->r.task.user, EITP_TRAINING, number, &sample, &error_));
    CHECK(!read_made_up((void *)(uintptr_t)&e->training, number, &original, &error_));
    for (int64_t i = 0; i < sample.rows; i++) {
        const int is_special = plain[i] < SPECIAL_TOKENS;
        if (is_special || !i || plain[i - 1] < SPECIAL_TOKENS || plain[i] < FIRST_CONTINUING) {
            *words += !is_special;
            *chosen += targets[i] >= 0;
            *split += is_special && targets[i] >= 0;
        } else {
            *split += (targets[i] >= 0) != (targets[i - 1] >= 0);
        }
    }
}

static void whole_words_are_chosen(void) {
    const variant v = default_variant();
    for (int whole = 0; whole < 2; whole++) {
        int words = 0, chosen = 0, split = 0;
        encoder e;
        REQUIRE_OK(begin_model(&e, &v, "bert-base", EITP_HEAD_LANGUAGE), error_);
        eitp_tokenizer *tokenizer = make_words();
        e.masked.tokenizer = tokenizer;
        e.masked.probability = eitp_masked_config_default().probability;
        e.masked.whole_words = whole;
        REQUIRE_OK(make_encoder_task(&e, EITP_PROBLEM_UNKNOWN, &error_), error_);
        for (uint64_t number = 0; number < 4000; number++)
            count_words(&e, number, &words, &chosen, &split);
        CHECK(words > 8000);
        CHECK_THAT(is_near(chosen, words, 0.15), "%d of %d", chosen, words);
        CHECK_THAT(whole ? !split : split > 1000, "%d", split);
        end_run(&e.r);
        eitp_tokenizer_destroy(tokenizer);
    }
}

/* ---- Training ---- */

/* Each sample repeats one word, so a masked token can be inferred from the others. */
static eitp_status read_repeated(void *user, uint64_t number, eitp_labelled_sample *sample, eitp_error *error) {
    (void)user;
    (void)error;
    sample->length = LONGEST;
    for (int i = 0; i < LONGEST; i++) {
        sample->ids[i] = FIRST_WORD + (int32_t)(number % 8);
        if (sample->segments)
            sample->segments[i] = 0;
    }
    return EITP_OK;
}

static void masked_models_learn(void) {
    static const char *const architectures[] = {"bert-base", "roberta-base", "distilbert-base"};
    for (size_t a = 0; a < EITP__COUNT(architectures); a++) {
        variant v = default_variant();
        eitp_evaluation before, after, again;
        encoder e;
        v.batch_size = 10;
        v.grad_accum = 1;
        REQUIRE_OK(begin_model(&e, &v, architectures[a], EITP_HEAD_LANGUAGE), error_);
        CHECK(!eitp_model_set_dropout(e.r.model, 0, 0, 0, &error_));
        e.masked.training = e.masked.validation = made_up_source(&e.training, SAMPLES, EITP_PROBLEM_UNKNOWN);
        e.masked.training.read = e.masked.validation.read = read_repeated;
        REQUIRE_OK(eitp_masked_task(&e.masked, &e.r.task, &error_), error_);
        REQUIRE_OK(eitp_trainer_create(&e.r.task, &e.r.config, &e.r.trainer, &error_), error_);
        REQUIRE_OK(eitp_trainer_evaluate(e.r.trainer, 0, &before, &error_), error_);
        CHECK(step_many(&e.r, 80, NULL));
        REQUIRE_OK(eitp_trainer_evaluate(e.r.trainer, 0, &after, &error_), error_);
        REQUIRE_OK(eitp_evaluate(&e.r.task, EITP_VALIDATION, 7, 0, &again, &error_), error_);
        CHECK_THAT(after.loss < 1.5 && before.loss > 3, "%s: %g from %g", architectures[a], after.loss, before.loss);
        CHECK(after.items == before.items && after.items == again.items && fabs(after.loss - again.loss) < 1e-5);
        end_run(&e.r);
    }
}

/* A step without chosen tokens has no loss and no gradient, and is not an error. */
static void nothing_chosen_is_no_loss(void) {
    const variant v = default_variant();
    eitp_step_report report;
    eitp_evaluation evaluation;
    encoder e;
    REQUIRE_OK(begin_model(&e, &v, "bert-base", EITP_HEAD_LANGUAGE), error_);
    e.masked.probability = 0;
    REQUIRE_OK(make_encoder_task(&e, EITP_PROBLEM_UNKNOWN, &error_), error_);
    REQUIRE_OK(eitp_trainer_create(&e.r.task, &e.r.config, &e.r.trainer, &error_), error_);
    REQUIRE_OK(eitp_trainer_step(e.r.trainer, &report, &error_), error_);
    CHECK(report.loss <= 0 && report.loss >= 0 && !report.items && report.grad_norm <= 0);
    REQUIRE_OK(eitp_trainer_evaluate(e.r.trainer, 0, &evaluation, &error_), error_);
    CHECK(!evaluation.items && evaluation.loss <= 0);
    end_run(&e.r);
}

static eitp_status (*task_read)(void *user, eitp_split split, uint64_t number, eitp_sample *sample, eitp_error *error);
static int wrong_epochs, epochs_seen[2][3]; /* for each split */

static eitp_status watch_epochs(void *user, eitp_split split, uint64_t number, eitp_sample *sample, eitp_error *error) {
    wrong_epochs += sample->epoch > 2 || sample->seed != (split == EITP_TRAINING ? 11u : 0u);
    epochs_seen[split][sample->epoch < 3 ? sample->epoch : 0]++;
    return task_read(user, split, number, sample, error);
}

/* Samples receive the trainer's seed and their epoch. In evaluations both are 0. */
static void samples_know_their_epoch(void) {
    variant v = default_variant();
    eitp_evaluation evaluation;
    encoder e;
    v.grad_accum = 5;
    REQUIRE_OK(begin_model(&e, &v, "distilbert-base", EITP_HEAD_LANGUAGE), error_);
    e.r.config.seed = 11;
    REQUIRE_OK(make_encoder_task(&e, EITP_PROBLEM_UNKNOWN, &error_), error_);
    task_read = e.r.task.read;
    e.r.task.read = watch_epochs;
    REQUIRE_OK(eitp_trainer_create(&e.r.task, &e.r.config, &e.r.trainer, &error_), error_);
    CHECK(step_many(&e.r, 9, NULL)); /* 90 samples, with 40 in an epoch */
    REQUIRE_OK(eitp_trainer_evaluate(e.r.trainer, 0, &evaluation, &error_), error_);
    CHECK(!wrong_epochs && epochs_seen[0][0] == SAMPLES && epochs_seen[0][1] == SAMPLES && epochs_seen[0][2] == 10);
    CHECK(epochs_seen[1][0] == VALIDATION && !epochs_seen[1][1]);
    end_run(&e.r);
}

/* A resumed run reads the same masks, also with data workers. */
static void resumed_runs_have_the_same_masks(void) {
    variant v = default_variant();
    uint32_t straight;
    encoder e;
    char directory[512], checkpoint[600];
    REQUIRE(scratch_make(directory));
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-12", directory);
    v.grad_accum = 3; /* an epoch has less than seven steps */
    REQUIRE_OK(begin_problem(&e, &v, "roberta-base", EITP_PROBLEM_UNKNOWN), error_);
    CHECK(step_many(&e.r, 12, NULL));
    REQUIRE_OK(eitp_trainer_save(e.r.trainer, directory, &error_), error_);
    CHECK(step_many(&e.r, 4, NULL));
    straight = fingerprint(&e.r);
    end_run(&e.r);
    v.data_workers = 2;
    v.micro_batches_per_pass = 2;
    REQUIRE_OK(begin_problem(&e, &v, "roberta-base", EITP_PROBLEM_UNKNOWN), error_);
    REQUIRE_OK(eitp_trainer_resume(e.r.trainer, checkpoint, &error_), error_);
    CHECK(step_many(&e.r, 4, NULL));
    CHECK(fingerprint(&e.r) == straight);
    end_run(&e.r);
    scratch_remove(directory);
}

/* ---- Windows of text ---- */

static int write_vocabulary(const char *directory) {
    static const char *const lines[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##a"};
    FILE *file = fopen(scratch_path(directory, "vocab.txt"), "wb");
    for (size_t i = 0; file && i < EITP__COUNT(lines); i++)
        fprintf(file, "%s\n", lines[i]);
    return file && !fclose(file);
}

static void windows_have_the_tokens_of_the_template(void) {
    static const int32_t ids[] = {5, 6, 5, 5, 6, 6, 5};
    static const int32_t whole[] = {2, 6, 5, 5, 3}, last[] = {2, 6, 6, 3};
    const eitp_host host = eitp_host_default();
    const eitp_token_range range = {1, 5};
    eitp_token_source tokens = eitp_token_memory_source(ids, EITP__COUNT(ids), range);
    eitp_tokenizer *tokenizer = NULL;
    eitp_text_windows windows;
    eitp_labelled_source source;
    eitp_labelled_sample sample;
    int32_t read[8], segments[8];
    char directory[512];
    REQUIRE(scratch_make(directory) && write_vocabulary(directory));
    REQUIRE_OK(eitp_tokenizer_load(&host, directory, &tokenizer, &error_), error_);
    REQUIRE_OK(eitp_text_windows_init(&windows, &tokens, tokenizer, 5, &error_), error_);
    source = eitp_text_windows_source(&windows);
    CHECK(source.count == 2 && source.max_length == 5 && source.hash == tokens.hash && source.hash);
    memset(&sample, 0, sizeof sample);
    sample.ids = read;
    sample.segments = segments;
    REQUIRE_OK(source.read(source.user, 0, &sample, &error_), error_);
    CHECK(sample.length == 5 && !memcmp(read, whole, sizeof whole) && !segments[4]);
    REQUIRE_OK(source.read(source.user, 1, &sample, &error_), error_);
    CHECK(sample.length == 4 && !memcmp(read, last, sizeof last));
    CHECK(eitp_text_windows_init(&windows, &tokens, tokenizer, 2, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_text_windows_init(&windows, NULL, tokenizer, 2, &error_) == EITP_ERROR_ARGUMENT);
    tokens.range.count = 7;
    CHECK(eitp_text_windows_init(&windows, &tokens, NULL, 2, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(!eitp_text_windows_source(NULL).count);
    eitp_tokenizer_destroy(tokenizer);
    scratch_remove(directory);
}

/* ---- Refusals ---- */

static void what_does_not_fit_is_refused(void) {
    const variant v = default_variant();
    eitp_tokenizer *bytes = NULL;
    const eitp_host host = eitp_host_default();
    eitp_masked_config good, c;
    eitp_task task;
    encoder e;
    REQUIRE_OK(begin_problem(&e, &v, "bert-base", EITP_PROBLEM_UNKNOWN), error_);
    REQUIRE_OK(eitp_tokenizer_create_bytes(&host, &bytes, &error_), error_);
    good = c = e.masked;
    CHECK(eitp_masked_task(NULL, &task, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_masked_task(&c, NULL, &error_) == EITP_ERROR_ARGUMENT);
    c.probability = 2;
    CHECK(eitp_masked_task(&c, &task, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "(got 2)"));
    c = good, c.mask_token = VOCABULARY;
    CHECK(eitp_masked_task(&c, &task, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "mask token 37"));
    c = good, c.tokenizer = bytes;
    CHECK(eitp_masked_task(&c, &task, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "no mask token"));
    c = good, c.whole_words = 1;
    CHECK(eitp_masked_task(&c, &task, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "WordPiece"));
    c.tokenizer = bytes;
    CHECK(eitp_masked_task(&c, &task, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "WordPiece"));
    c = good, c.special.count = EITP_MAX_TOKEN_IDS + 1;
    CHECK(eitp_masked_task(&c, &task, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "at most 16"));
    c = good, c.training.max_length = 99;
    CHECK(eitp_masked_task(&c, &task, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "99 tokens"));
    c = good, c.training.count = c.validation.count = 0;
    CHECK(eitp_masked_task(&c, &task, &error_) == EITP_ERROR_ARGUMENT);
    end_run(&e.r);
    eitp_tokenizer_destroy(bytes);
    REQUIRE_OK(begin_model(&e, &v, "gpt2", EITP_HEAD_LANGUAGE), error_);
    CHECK(make_encoder_task(&e, EITP_PROBLEM_UNKNOWN, &error_) == EITP_ERROR_ARGUMENT &&
          strstr(error_.message, "bidirectional"));
    end_run(&e.r);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(tokens_are_chosen_as_in_bert),
        TEST(masked_models_learn),
        TEST(whole_words_are_chosen),
        TEST(nothing_chosen_is_no_loss),
        TEST(samples_know_their_epoch),
        TEST(resumed_runs_have_the_same_masks),
        TEST(windows_have_the_tokens_of_the_template),
        TEST(what_does_not_fit_is_refused),
    };
    return RUN_TESTS(tests, argc, argv);
}
