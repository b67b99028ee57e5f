/* A language model trained on tokens from a file, from memory and from a callback gives the same bits and
   checkpoints. */
#include "tests/support/trainer_run.h"

typedef enum place { FROM_FILE, FROM_MEMORY, FROM_CALLBACK, PLACES } place;

static char directory[512];

/* A custom source: tokens read in pieces, and counts of the requests it receives. */
typedef struct pieces {
    int32_t *ids;
    uint64_t count;
    int reads, expected;
    int64_t fail_at; /* number of the read that fails; 0: none */
} pieces;

static eitp_status read_pieces(void *user, uint64_t first, uint64_t count, int32_t *ids, eitp_error *error) {
    pieces *p = (pieces *)user;
    if (++p->reads == p->fail_at)
        return eitp__fail(error, EITP_ERROR_IO, "tape %d is missing", 3);
    for (uint64_t i = 0; i < count; i++)
        ids[i] = p->ids[first + i];
    return EITP_OK;
}

static void expect_pieces(void *user, uint64_t first, uint64_t count) {
    pieces *p = (pieces *)user;
    p->expected += first + count <= p->count;
}

static eitp_token_source source_of(const run *r, place from, pieces *p, eitp_token_range range) {
    const eitp_token_source file = eitp_sample_file_token_source(r->file, range);
    eitp_token_source source = file;
    if (from == FROM_MEMORY)
        return eitp_token_memory_source(p->ids, p->count, range);
    if (from == FROM_FILE)
        return file;
    source.user = p;
    source.read = read_pieces;
    source.prefetch = expect_pieces;
    return source;
}

/* Creates a trainer on all tokens of the text from one kind of source. Release it with `end`. */
static int begin(run *r, pieces *p, place from, const char *precision) {
    const eitp_host host = eitp_host_default();
    variant v = default_variant();
    eitp_status status;
    v.precision = precision;
    memset(p, 0, sizeof *p);
    status = make_run(r, &host, &v, directory, &error_);
    if (!status) {
        eitp_trainer_destroy(r->trainer);
        r->trainer = NULL;
        eitp_task_release(&r->task);
        p->count = eitp_sample_file_get_info(r->file).token_count;
        p->ids = (int32_t *)malloc(p->count * sizeof *p->ids);
        status = eitp_sample_file_read_tokens(r->file, 0, p->count, p->ids, &error_);
    }
    r->language.training = source_of(r, from, p, r->training);
    r->language.validation = source_of(r, from, p, r->validation);
    if (!status)
        status = eitp_language_task(&r->language, &r->task, &error_);
    if (!status)
        status = eitp_trainer_create(&r->task, &r->config, &r->trainer, &error_);
    CHECK_THAT(!status, "%s", error_.message);
    return !status;
}

static void end(run *r, pieces *p) {
    end_run(r);
    free(p->ids);
}

/* ---- Tests ---- */

/* Each source starts a run that the next source resumes. */
static void check_places(const char *precision) {
    uint32_t halves[PLACES], wholes[PLACES];
    double losses[PLACES];
    eitp_evaluation evaluation;
    for (int from = 0; from < PLACES; from++) {
        run r;
        pieces p;
        REQUIRE(begin(&r, &p, (place)from, precision) && step_many(&r, 3, NULL));
        halves[from] = fingerprint(&r);
        eitp__remove_tree(&r.context->host, scratch_path(directory, "checkpoint-3"), NULL);
        REQUIRE_OK(eitp_trainer_save(r.trainer, directory, &error_), error_);
        end(&r, &p);
        REQUIRE(begin(&r, &p, (place)((from + 1) % PLACES), precision));
        REQUIRE_OK(eitp_trainer_resume(r.trainer, scratch_path(directory, "checkpoint-3"), &error_), error_);
        CHECK(fingerprint(&r) == halves[from] && step_many(&r, 3, &losses[from]));
        wholes[from] = fingerprint(&r);
        REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 5, &evaluation, &error_), error_);
        CHECK(!strcmp(evaluation.metrics[0].name, "loss") && evaluation.items == 5 * 32);
        CHECK((from + 1) % PLACES != FROM_CALLBACK || (p.reads == 2 * (3 * 4 + 5) && p.expected == 3 * 4));
        end(&r, &p);
        CHECK(halves[from] == halves[0] && wholes[from] == wholes[0] && halves[0] != wholes[0]);
        CHECK(losses[from] >= losses[0] && losses[from] <= losses[0]);
    }
}

static void tokens_from_anywhere_give_the_same_bits(void) {
    REQUIRE(scratch_make(directory) && write_text(directory));
    check_places("fp32");
    check_places("bf16");
    scratch_remove(directory);
}

static void other_tokens_are_refused(void) {
    const char *checkpoint;
    uint32_t before;
    run r;
    pieces p;
    REQUIRE(scratch_make(directory) && write_text(directory));
    REQUIRE(begin(&r, &p, FROM_FILE, "fp32") && step_many(&r, 1, NULL));
    REQUIRE_OK(eitp_trainer_save(r.trainer, directory, &error_), error_);
    end(&r, &p);
    REQUIRE(begin(&r, &p, FROM_MEMORY, "fp32"));
    checkpoint = scratch_path(directory, "checkpoint-1");
    p.ids[p.count - 1] ^= 1; /* although it is not trained on */
    eitp_task_release(&r.task);
    eitp_trainer_destroy(r.trainer);
    r.trainer = NULL;
    r.language.training = source_of(&r, FROM_MEMORY, &p, r.training);
    REQUIRE_OK(eitp_language_task(&r.language, &r.task, &error_), error_);
    REQUIRE_OK(eitp_trainer_create(&r.task, &r.config, &r.trainer, &error_), error_);
    before = fingerprint(&r);
    CHECK(eitp_trainer_resume(r.trainer, checkpoint, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "the training data differ from the data of") && strstr(error_.message, "content"),
               "%s", error_.message);
    CHECK(!eitp_trainer_is_inconsistent(r.trainer) && fingerprint(&r) == before &&
          eitp_trainer_steps_done(r.trainer) == 0);
    end(&r, &p);
    scratch_remove(directory);
}

static void other_ranges_are_refused(void) {
    run r;
    pieces p;
    REQUIRE(scratch_make(directory) && write_text(directory));
    REQUIRE(begin(&r, &p, FROM_CALLBACK, "fp32") && step_many(&r, 1, NULL));
    REQUIRE_OK(eitp_trainer_save(r.trainer, directory, &error_), error_);
    for (int i = 0; i < 2; i++) {
        const char *checkpoint = scratch_path(directory, "checkpoint-1");
        r.language.training.range.first = i ? r.training.first + 1 : r.training.first;
        r.language.training.range.count = i ? r.training.count : r.training.count - 1;
        eitp_task_release(&r.task);
        eitp_trainer_destroy(r.trainer);
        r.trainer = NULL;
        REQUIRE_OK(eitp_language_task(&r.language, &r.task, &error_), error_);
        REQUIRE_OK(eitp_trainer_create(&r.task, &r.config, &r.trainer, &error_), error_);
        CHECK(eitp_trainer_resume(r.trainer, checkpoint, &error_) == EITP_ERROR_ARGUMENT);
        CHECK_THAT(strstr(error_.message, i ? "started after 0 tokens" : "tokens, and this run has"), "%s",
                   error_.message);
    }
    end(&r, &p);
    scratch_remove(directory);
}

static void a_failing_callback_changes_nothing(void) {
    uint32_t before;
    eitp_step_report report;
    run r;
    pieces p;
    REQUIRE(scratch_make(directory) && write_text(directory));
    REQUIRE(begin(&r, &p, FROM_CALLBACK, "fp32") && step_many(&r, 1, NULL));
    before = fingerprint(&r);
    p.fail_at = p.reads + 3;
    CHECK(eitp_trainer_step(r.trainer, &report, &error_) == EITP_ERROR_IO);
    CHECK_THAT(strstr(error_.message, "nothing was changed: tape 3 is missing"), "%s", error_.message);
    CHECK(fingerprint(&r) == before && !eitp_trainer_is_inconsistent(r.trainer) && step_many(&r, 1, NULL));
    end(&r, &p);
    scratch_remove(directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(tokens_from_anywhere_give_the_same_bits),
        TEST(other_tokens_are_refused),
        TEST(other_ranges_are_refused),
        TEST(a_failing_callback_changes_nothing),
    };
    return RUN_TESTS(tests, argc, argv);
}
