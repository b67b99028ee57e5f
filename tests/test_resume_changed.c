/* Resuming with something changed: the split of a step, the precision, the kernels. What changes is logged. */
#include "tests/trainer_run.h"

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

/* Trains a variant for some steps, and saves. */
static int train_and_save(const variant *v, const char *directory, int64_t steps, const char *output) {
    const eitp_host host = eitp_host_default();
    run r;
    int ok = !make_run(&r, &host, v, directory, &error_) && step_many(&r, steps, NULL) &&
             !eitp_trainer_save(r.trainer, output, &error_);
    end_run(&r);
    return ok;
}

/* Resumes a variant from a checkpoint; the lines go to `line`. End the run in any case. */
static eitp_status resume(run *r, const variant *v, const char *directory, const char *checkpoint, last_line *line) {
    eitp_host host = eitp_host_default();
    eitp_status status;
    host.log.user = line;
    host.log.write = remember;
    status = make_run(r, &host, v, directory, &error_);
    memset(line, 0, sizeof *line);
    return status ? status : eitp_trainer_resume(r->trainer, checkpoint, &error_);
}

/* The same samples in micro-batches of another size: the bits of the run that was not changed. */
static void another_split_keeps_the_bits(void) {
    static const int64_t splits[][2] = {{1, 4}, {4, 1}};
    char directory[512], output[600], checkpoint[700];
    variant v = default_variant();
    size_t set = 0;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-3", output);
    while (next_set(&set, &v)) {
        const uint32_t straight = train_variant(&v, directory, 6);
        REQUIRE(train_and_save(&v, directory, 3, output));
        for (size_t i = 0; i < 2; i++) {
            variant other = v;
            last_line line;
            eitp_step_shape shape;
            run r;
            other.batch_size = splits[i][0];
            other.grad_accum = splits[i][1];
            REQUIRE_OK(resume(&r, &other, directory, checkpoint, &line), error_);
            CHECK_THAT(strstr(line.text, "batch_size and grad_accum were 2 and 2 in ") &&
                           strstr(line.text, "from here on: the same samples per step") && line.level == EITP_LOG_INFO,
                       "%s", line.text);
            shape = eitp_trainer_shape(r.trainer);
            CHECK(shape.batch_size == splits[i][0] && shape.grad_accum == splits[i][1]);
            REQUIRE(step_many(&r, 3, NULL));
            CHECK_THAT(fingerprint(&r) == straight, "%s %s, %d x %d", v.isa, v.precision, (int)other.batch_size,
                       (int)other.grad_accum);
            end_run(&r);
        }
    }
    scratch_remove(directory);
}

/* The checkpoint of a changed run has its own split, and was not shrunk. */
static void another_split_is_saved(void) {
    char directory[512], output[600], checkpoint[700];
    variant v = default_variant();
    eitp_host host = eitp_host_default();
    eitp_checkpoint_info info;
    last_line line;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-1", output);
    REQUIRE(train_and_save(&v, directory, 1, output));
    v.batch_size = 1;
    v.grad_accum = 4;
    REQUIRE_OK(resume(&r, &v, directory, checkpoint, &line), error_);
    REQUIRE(step_many(&r, 1, NULL));
    REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
    end_run(&r);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-2", output);
    REQUIRE_OK(eitp_checkpoint_read_info(&host, checkpoint, &info, &error_), error_);
    CHECK(info.config.batch_size == 1 && info.config.grad_accum == 4);
    CHECK(info.initial_shape.batch_size == 1 && info.initial_shape.grad_accum == 4);
    REQUIRE_OK(resume(&r, &v, directory, checkpoint, &line), error_);
    CHECK_THAT(!line.text[0], "%s", line.text);
    end_run(&r);
    scratch_remove(directory);
}

/* Where sums are split within a group the last bits differ, which is a warning. */
static void a_split_that_changes_bits_is_a_warning(void) {
    char directory[512], output[600], checkpoint[700];
    variant v = default_variant();
    last_line line;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-1", output);
    v.isa = "ref";
    v.precision = "bf16";
    v.sums_of_32 = 1;
    v.block_size = 20;
    REQUIRE(train_and_save(&v, directory, 1, output));
    v.batch_size = 1;
    v.grad_accum = 4;
    REQUIRE_OK(resume(&r, &v, directory, checkpoint, &line), error_);
    CHECK_THAT(line.level == EITP_LOG_WARNING && strstr(line.text, "but the last bits of results differ"), "%s",
               line.text);
    REQUIRE(step_many(&r, 1, NULL));
    end_run(&r);
    scratch_remove(directory);
}

/* Another number of samples per step is another run. */
static void other_steps_are_refused(void) {
    char directory[512], output[600], checkpoint[700];
    variant v = default_variant();
    last_line line;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-1", output);
    REQUIRE(train_and_save(&v, directory, 1, output));
    v.batch_size = 3;
    CHECK(resume(&r, &v, directory, checkpoint, &line) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "4 samples per step (batch_size 2, grad_accum 2), and this run has 6 (3, 2)"),
               "%s", error_.message);
    CHECK(eitp_trainer_steps_done(r.trainer) == 0);
    end_run(&r);
    scratch_remove(directory);
}

/* Weights and moments are stored as f32: any precision resumes from any other, and back. */
static void another_precision_continues(void) {
    static const char *const precisions[] = {"fp32", "bf16", "fp16", "bf16", "fp32"};
    char directory[512], output[600], checkpoint[700];
    variant v = default_variant();
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    v.isa = "ref";
    v.precision = "fp32";
    REQUIRE(train_and_save(&v, directory, 4, output));
    for (int i = 1; i < 5; i++) {
        double before = 0, after = 0;
        char expected[100];
        last_line line;
        run r;
        snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-%d", output, 4 * i);
        v.precision = precisions[i];
        REQUIRE_OK(resume(&r, &v, directory, checkpoint, &line), error_);
        snprintf(expected, sizeof expected, "the precision was %s in ", precisions[i - 1]);
        CHECK_THAT(strstr(line.text, expected) && line.level == EITP_LOG_WARNING, "%s", line.text);
        CHECK_THAT((r.trainer->loss_scale > 1) == !strcmp(v.precision, "fp16"), "loss scale %g in %s",
                   r.trainer->loss_scale, v.precision);
        REQUIRE(step_many(&r, 1, &before) && step_many(&r, 3, &after));
        CHECK_THAT(after < before && before < 5.5, "%g to %g in %s", before, after, v.precision);
        REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
        end_run(&r);
    }
    scratch_remove(directory);
}

/* A machine without the kernels of the checkpoint continues with its own. */
static void other_kernels_continue(void) {
    char directory[512], output[600], checkpoint[700];
    variant v = default_variant();
    last_line line;
    size_t set = 0;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-2", output);
    while (next_set(&set, &v) && (!strcmp(v.isa, "ref") || strcmp(v.precision, "fp32") || v.optimizer != EITP_ADAMW))
        ;
    if (!strcmp(v.isa, "ref")) {
        printf("    SKIPPED other kernels: this machine has the reference kernels alone\n");
        scratch_remove(directory);
        return;
    }
    REQUIRE(train_and_save(&v, directory, 2, output));
    v.isa = "ref";
    REQUIRE_OK(resume(&r, &v, directory, checkpoint, &line), error_);
    CHECK_THAT(strstr(line.text, "the kernels were cpu-") && strstr(line.text, " and are cpu-ref-") &&
                   line.level == EITP_LOG_WARNING,
               "%s", line.text);
    CHECK(eitp_trainer_steps_done(r.trainer) == 2);
    REQUIRE(step_many(&r, 1, NULL));
    end_run(&r);
    scratch_remove(directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(another_split_keeps_the_bits),
        TEST(another_split_is_saved),
        TEST(a_split_that_changes_bits_is_a_warning),
        TEST(other_steps_are_refused),
        TEST(another_precision_continues),
        TEST(other_kernels_continue),
    };
    return RUN_TESTS(tests, argc, argv);
}
