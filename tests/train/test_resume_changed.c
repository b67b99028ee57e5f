/* Resuming with a change: the split of a step, the precision, the kernels. Changes are logged. */
#include "tests/support/trainer_run.h"

/* The last line of the log, and its level. */
typedef struct last_line {
    eitp_log_level level;
    char text[700];
} last_line;

static void remember(void *user, eitp_log_level level, const char *message) {
    last_line *line = (last_line *)user;
    line->level = level;
    snprintf(line->text, sizeof line->text, "%s", message);
}

/* A run that is saved and resumed. */
typedef struct fixture {
    char directory[512], output[600], checkpoint[700]; /* of the text file; of the checkpoints; the last checkpoint */
    variant v;
    last_line line; /* logged by the resume */
    run r;
} fixture;

static int begin_fixture(fixture *f) {
    memset(f, 0, sizeof *f);
    f->v = default_variant();
    if (!scratch_make(f->directory) || !write_text(f->directory))
        return 0;
    snprintf(f->output, sizeof f->output, "%s/out", f->directory);
    return 1;
}

static int save(fixture *f) {
    snprintf(f->checkpoint, sizeof f->checkpoint, "%s/checkpoint-%d", f->output,
             (int)eitp_trainer_steps_done(f->r.trainer));
    return !eitp_trainer_save(f->r.trainer, f->output, &error_);
}

/* Trains for some steps, and saves. */
static int train_and_save(fixture *f, int64_t steps) {
    const eitp_host host = eitp_host_default();
    int ok = !make_run(&f->r, &host, &f->v, f->directory, &error_) && step_many(&f->r, steps, NULL) && save(f);
    end_run(&f->r);
    return ok;
}

/* Resumes from the last checkpoint. End the run in any case. */
static eitp_status resume(fixture *f) {
    eitp_host host = eitp_host_default();
    eitp_status status;
    host.log.user = &f->line;
    host.log.write = remember;
    status = make_run(&f->r, &host, &f->v, f->directory, &error_);
    memset(&f->line, 0, sizeof f->line);
    return status ? status : eitp_trainer_resume(f->r.trainer, f->checkpoint, &error_);
}

/* The same samples in micro-batches of another size give the bits of the unchanged run. */
static void another_split_keeps_the_bits(void) {
    static const int64_t splits[][2] = {{1, 4}, {4, 1}};
    fixture f;
    size_t set = 0;
    REQUIRE(begin_fixture(&f));
    while (next_set(&set, &f.v)) {
        const variant v = f.v;
        const uint32_t straight = train_variant(&v, f.directory, 6);
        REQUIRE(train_and_save(&f, 3));
        for (size_t i = 0; i < 2; i++) {
            eitp_step_shape shape;
            f.v.batch_size = splits[i][0];
            f.v.grad_accum = splits[i][1];
            REQUIRE_OK(resume(&f), error_);
            CHECK_THAT(strstr(f.line.text, "batch_size and grad_accum changed from 2 and 2 to ") &&
                           strstr(f.line.text, "': the same samples per step") && f.line.level == EITP_LOG_INFO,
                       "%s", f.line.text);
            shape = eitp_trainer_shape(f.r.trainer);
            CHECK(shape.batch_size == splits[i][0] && shape.grad_accum == splits[i][1]);
            REQUIRE(step_many(&f.r, 3, NULL));
            CHECK_THAT(fingerprint(&f.r) == straight, "%s %s, %d x %d", v.isa, v.precision, (int)f.v.batch_size,
                       (int)f.v.grad_accum);
            end_run(&f.r);
        }
        f.v = v;
    }
    scratch_remove(f.directory);
}

/* The checkpoint of a changed run records its own split, and is not marked as shrunk. */
static void another_split_is_saved(void) {
    const eitp_host host = eitp_host_default();
    eitp_checkpoint_info info;
    fixture f;
    REQUIRE(begin_fixture(&f) && train_and_save(&f, 1));
    f.v.batch_size = 1;
    f.v.grad_accum = 4;
    REQUIRE_OK(resume(&f), error_);
    REQUIRE(step_many(&f.r, 1, NULL) && save(&f));
    end_run(&f.r);
    REQUIRE_OK(eitp_checkpoint_read_info(&host, f.checkpoint, &info, &error_), error_);
    CHECK(info.config.batch_size == 1 && info.config.grad_accum == 4);
    CHECK(info.initial_shape.batch_size == 1 && info.initial_shape.grad_accum == 4);
    REQUIRE_OK(resume(&f), error_);
    CHECK_THAT(!f.line.text[0], "%s", f.line.text);
    end_run(&f.r);
    scratch_remove(f.directory);
}

/* If sums are split within a group the last bits differ, which gives a warning. */
static void a_split_that_changes_bits_is_a_warning(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.v.isa = "ref";
    f.v.precision = "bf16";
    f.v.sums_of_32 = 1;
    f.v.block_size = 20;
    REQUIRE(train_and_save(&f, 1));
    f.v.batch_size = 1;
    f.v.grad_accum = 4;
    REQUIRE_OK(resume(&f), error_);
    CHECK_THAT(f.line.level == EITP_LOG_WARNING && strstr(f.line.text, "but the last bits of results differ"), "%s",
               f.line.text);
    REQUIRE(step_many(&f.r, 1, NULL));
    end_run(&f.r);
    scratch_remove(f.directory);
}

/* Another number of samples per step makes a different run. */
static void other_steps_are_refused(void) {
    fixture f;
    REQUIRE(begin_fixture(&f) && train_and_save(&f, 1));
    f.v.batch_size = 3;
    CHECK(resume(&f) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "4 samples per step (batch_size 2, grad_accum 2), and this run has 6 (3, 2)"),
               "%s", error_.message);
    CHECK(eitp_trainer_steps_done(f.r.trainer) == 0);
    end_run(&f.r);
    scratch_remove(f.directory);
}

/* Resumes with a trainer that accepts other data. End the run in any case. */
static eitp_status resume_accepting(fixture *f) {
    eitp_host host = eitp_host_default();
    eitp_status status;
    host.log.user = &f->line;
    host.log.write = remember;
    status = make_run(&f->r, &host, &f->v, f->directory, &error_);
    if (status)
        return status;
    eitp_trainer_destroy(f->r.trainer);
    f->r.trainer = NULL;
    f->r.config.accepts_other_data = 1;
    status = eitp_trainer_create(&f->r.task, &f->r.config, &f->r.trainer, &error_);
    memset(&f->line, 0, sizeof f->line);
    return status ? status : eitp_trainer_resume(f->r.trainer, f->checkpoint, &error_);
}

/* Other data of the same size is refused, or accepted with a warning. Windows of another length are always refused. */
static void other_data_is_accepted_on_request(void) {
    fixture f;
    FILE *text;
    REQUIRE(begin_fixture(&f) && train_and_save(&f, 1));
    text = fopen(scratch_path(f.directory, "text.txt"), "r+b");
    REQUIRE(text && fputs("A", text) >= 0 && !fclose(text));
    CHECK(resume(&f) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "the same number of tokens, but different content"), "%s", error_.message);
    end_run(&f.r);
    CHECK_THAT(!resume_accepting(&f), "%s", error_.message);
    CHECK_THAT(f.line.level == EITP_LOG_WARNING && strstr(f.line.text, "the training data differ from the data of '"),
               "%s", f.line.text);
    CHECK(step_many(&f.r, 1, NULL) && save(&f));
    end_run(&f.r);
    REQUIRE_OK(resume(&f), error_);
    CHECK_THAT(!f.line.text[0], "%s", f.line.text);
    end_run(&f.r);
    f.v.block_size = 31;
    CHECK(resume_accepting(&f) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "block_size 32") != NULL, "%s", error_.message);
    end_run(&f.r);
    scratch_remove(f.directory);
}

/* Weights and moments are stored as f32, so any precision can resume from any other, and back. */
static void another_precision_continues(void) {
    static const char *const precisions[] = {"fp32", "bf16", "fp16", "bf16", "fp32"};
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.v.isa = "ref";
    f.v.precision = "fp32";
    REQUIRE(train_and_save(&f, 4));
    for (int i = 1; i < 5; i++) {
        double before = 0, after = 0;
        char expected[100];
        f.v.precision = precisions[i];
        REQUIRE_OK(resume(&f), error_);
        CHECK(eitp_trainer_steps_done(f.r.trainer) == 4 * i);
        snprintf(expected, sizeof expected, "the precision changed from %s to ", precisions[i - 1]);
        CHECK_THAT(strstr(f.line.text, expected) && f.line.level == EITP_LOG_WARNING, "%s", f.line.text);
        CHECK_THAT((f.r.trainer->loss_scale > 1) == !strcmp(f.v.precision, "fp16"), "loss scale %g in %s",
                   f.r.trainer->loss_scale, f.v.precision);
        REQUIRE(step_many(&f.r, 1, &before) && step_many(&f.r, 3, &after));
        CHECK_THAT(after < before && before < 5.5, "%g to %g in %s", before, after, f.v.precision);
        REQUIRE(save(&f));
        end_run(&f.r);
    }
    scratch_remove(f.directory);
}

/* A machine without the kernels of the checkpoint continues with its own. */
static void other_kernels_continue(void) {
    fixture f;
    size_t set = 0;
    REQUIRE(begin_fixture(&f));
    while (next_set(&set, &f.v) &&
           (!strcmp(f.v.isa, "ref") || strcmp(f.v.precision, "fp32") || f.v.optimizer != EITP_ADAMW))
        ;
    if (!strcmp(f.v.isa, "ref")) {
        printf("    SKIPPED other kernels: this machine has the reference kernels alone\n");
        scratch_remove(f.directory);
        return;
    }
    REQUIRE(train_and_save(&f, 2));
    f.v.isa = "ref";
    REQUIRE_OK(resume(&f), error_);
    CHECK_THAT(strstr(f.line.text, "the kernels changed from cpu-") && strstr(f.line.text, " to cpu-ref-") &&
                   f.line.level == EITP_LOG_WARNING,
               "%s", f.line.text);
    CHECK(eitp_trainer_steps_done(f.r.trainer) == 2);
    REQUIRE(step_many(&f.r, 1, NULL));
    end_run(&f.r);
    scratch_remove(f.directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(another_split_keeps_the_bits),
        TEST(another_split_is_saved),
        TEST(a_split_that_changes_bits_is_a_warning),
        TEST(other_steps_are_refused),
        TEST(other_data_is_accepted_on_request),
        TEST(another_precision_continues),
        TEST(other_kernels_continue),
    };
    return RUN_TESTS(tests, argc, argv);
}
