/* Failures of memory and files, in every call of a step, a save and a resume. */
#include "tests/support/resident.h"
#include "tests/support/trainer_run.h"

#include <unistd.h>

/* Each allocation fails once: nothing is left half created, and nothing leaks. */
static void every_failed_allocation_is_an_error(void) {
    char directory[512];
    variant v = default_variant();
    faults f;
    int more = 1;
    REQUIRE(scratch_make(directory) && write_text(directory));
    v.save_dtype = EITP_SAVE_F16;
    for (long n = 1; more && !test_failures_; n += n < 120 ? 1 : 23) {
        run r;
        eitp_status status;
        faults_begin(&f);
        f.fail_allocation = n;
        status = make_run(&r, &f.host, &v, directory, &error_);
        CHECK_THAT(!status || status == EITP_ERROR_MEMORY, "allocation %ld: %s", n, error_.message);
        if (!status) {
            status = eitp_trainer_save(r.trainer, scratch_path(directory, "out"), &error_);
            CHECK_THAT(!status || status == EITP_ERROR_MEMORY, "allocation %ld: %s", n, error_.message);
        }
        end_run(&r);
        more = faults_end(&f);
    }
    scratch_remove(directory);
}

/* A run of one step, saved as out/checkpoint-1 in a new directory. Its files fail as specified by `f`. */
typedef struct saved_run {
    char directory[512], output[600], checkpoint[700];
    faults f;
    run r;
    uint32_t saved; /* fingerprint */
} saved_run;

static int begin_saved_run(saved_run *s) {
    variant v = default_variant();
    v.save_dtype = EITP_SAVE_BF16;
    if (!scratch_make(s->directory) || !write_text(s->directory))
        return 0;
    snprintf(s->output, sizeof s->output, "%s/out", s->directory);
    snprintf(s->checkpoint, sizeof s->checkpoint, "%s/checkpoint-1", s->output);
    faults_begin(&s->f);
    if (make_run(&s->r, &s->f.host, &v, s->directory, &error_) || !step_many(&s->r, 1, NULL))
        return 0;
    s->saved = fingerprint(&s->r);
    return !eitp_trainer_save(s->r.trainer, s->output, &error_);
}

static void end_saved_run(saved_run *s) {
    end_run(&s->r);
    faults_end(&s->f);
    scratch_remove(s->directory);
}

/* Each file call of a save fails, alone or with all that follow. The previous checkpoint can still be resumed. */
static void every_failed_file_call_leaves_the_last_checkpoint(void) {
    saved_run s;
    int sweeps = 0;
    REQUIRE(begin_saved_run(&s));
    REQUIRE(step_many(&s.r, 1, NULL));
    for (int persistent = 0; persistent < 2; persistent++) {
        int failed = 1;
        for (long n = 1; failed && !test_failures_; n += test_stride(1, 3)) {
            int64_t newest = -1;
            eitp_status status;
            faults_fail_file_call(&s.f, n);
            s.f.all_file_calls = persistent;
            s.f.code = ENOSPC;
            s.f.tear = 1;
            status = eitp_trainer_save(s.r.trainer, s.output, &error_);
            failed = s.f.file_calls >= n;
            s.f.fail_file_call = 0;
            CHECK_THAT(!failed || status == EITP_ERROR_IO || status == EITP_OK, "call %ld (%s): %s", n, s.f.failed_call,
                       error_.message);
            CHECK(!eitp_checkpoint_newest(&s.f.host, s.output, &newest, &error_));
            CHECK_THAT(newest == 2 || (status && newest == 1), "call %ld (%s): newest is %d", n, s.f.failed_call,
                       (int)newest);
            if (newest == 2)
                CHECK(!eitp__remove_tree(&s.f.host, scratch_path(s.output, "checkpoint-2"), &error_));
            CHECK_THAT(!eitp_checkpoint_prune(&s.f.host, s.output, 2, &error_), "%s", error_.message);
            sweeps++;
        }
    }
    CHECK_THAT(sweeps > 60 / test_stride(1, 3), "%d", sweeps);
    REQUIRE_OK(eitp_trainer_resume(s.r.trainer, s.checkpoint, &error_), error_);
    CHECK(fingerprint(&s.r) == s.saved);
    end_saved_run(&s);
}

/* A model in 16 bits is read from a checkpoint with its exact weights, regardless of which call fails, or not at all.
   */
static void a_checkpoint_is_read_exactly_or_not_at_all(void) {
    saved_run s;
    uint32_t exact;
    int refused = 0;
    REQUIRE(begin_saved_run(&s));
    exact = weights_of(s.r.context);
    for (int of_files = 0; of_files < 2; of_files++) {
        int more = 1;
        for (long n = 1; more && !test_failures_; n += n < 60 ? test_stride(1, 3) : 17) {
            uint32_t read = 0;
            faults f;
            eitp_status status;
            faults_begin(&f);
            f.fail_allocation = of_files ? 0 : n;
            f.code = EACCES;
            if (of_files)
                faults_fail_file_call(&f, n);
            status = read_checkpoint_weights(&f.host, s.checkpoint, &read);
            CHECK_THAT(status || read == exact, "call %ld (%s): other weights", n, of_files ? f.failed_call : "memory");
            refused += status != EITP_OK;
            more = faults_end(&f);
        }
    }
    CHECK_THAT(refused > 20, "%d", refused);
    end_saved_run(&s);
}

/* Saving a step again, interrupted at any call, leaves one of the two checkpoints under its name. */
static void replacing_a_checkpoint_never_loses_it(void) {
    saved_run s;
    int failed = 1;
    REQUIRE(begin_saved_run(&s));
    for (long n = 1; failed && !test_failures_; n += test_stride(1, 3)) {
        int64_t newest = -1;
        faults_fail_file_call(&s.f, n);
        s.f.all_file_calls = 1;
        eitp_trainer_save(s.r.trainer, s.output, &error_);
        failed = s.f.file_calls >= n;
        s.f.fail_file_call = 0;
        CHECK_THAT(!eitp_checkpoint_recover(&s.f.host, s.output, &newest, &error_) && newest == 1, "call %ld (%s): %d",
                   n, s.f.failed_call, (int)newest);
        CHECK_THAT(!eitp_trainer_resume(s.r.trainer, s.checkpoint, &error_), "call %ld: %s", n, error_.message);
        CHECK(fingerprint(&s.r) == s.saved);
    }
    end_saved_run(&s);
}

static uint32_t file_checksum(const char *directory, const char *name) {
    FILE *file = fopen(scratch_path(directory, name), "rb");
    unsigned char bytes[4096];
    uint32_t crc = 0;
    size_t size;
    while (file && (size = fread(bytes, 1, sizeof bytes, file)) > 0)
        crc = eitp__crc32c(crc, bytes, size);
    CHECK_THAT(file != NULL, "%s is missing in %s", name, directory);
    if (file)
        fclose(file);
    return crc;
}

static uint32_t checkpoint_checksum(const char *checkpoint) {
    return file_checksum(checkpoint, "model.safetensors") ^ (file_checksum(checkpoint, "optimizer.safetensors") << 1);
}

static void check_torn(eitp_status status, const char *what) {
    CHECK_THAT(status == EITP_ERROR_INCONSISTENT && strstr(error_.message, "resume"), "%s: %s", what, error_.message);
}

/* Checks that a trainer with an inconsistent state refuses everything but a resume. */
static void check_refuses_all(run *r, const char *output) {
    eitp_step_report step;
    eitp_evaluation evaluation;
    eitp_shrink_report shrunk;
    check_torn(eitp_trainer_step(r->trainer, &step, &error_), "step");
    check_torn(eitp_trainer_evaluate(r->trainer, 0, &evaluation, &error_), "evaluate");
    check_torn(eitp_trainer_shrink(r->trainer, &shrunk, &error_), "shrink");
    check_torn(eitp_trainer_save(r->trainer, output, &error_), "save");
    CHECK(access(output, F_OK) != 0);
}

/* Steps with the update in the pass, and with a separate update after several passes. */
static const struct {
    const char *precision;
    eitp_optimizer optimizer;
    int64_t micro_batches_per_pass;
} half_done_[] = {{"fp32", EITP_ADAMW, 2}, {"fp32", EITP_ADAMW, 1}, {"bf16", EITP_ADAMW8_SR, 2}};

/*
 * Each file call of a step with offloaded variables fails. Either nothing was changed, and the state before the step
 * can be saved, or the trainer's state is inconsistent: it then refuses everything but a resume, after which it has the
 * bits of an undisturbed run.
 */
static void a_step_that_fails_is_whole_or_torn(void) {
    char directory[512], output[600], checkpoint[700], other[600];
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-2", output);
    snprintf(other, sizeof other, "%s/other", directory);
    for (size_t way = 0; way < EITP__COUNT(half_done_); way++) {
        const eitp_step_report untouched = EITP__ZERO;
        variant v = default_variant();
        uint32_t before, after, saved;
        int whole = 0, inconsistent = 0, unharmed = 0;
        faults f;
        run r;
        v.threads = 1;
        v.is_wide = 1;
        v.piece_bytes = 65536;
        v.offload = EITP_OFFLOAD_ALL;
        v.precision = half_done_[way].precision;
        v.optimizer = half_done_[way].optimizer;
        v.micro_batches_per_pass = half_done_[way].micro_batches_per_pass;
        faults_begin(&f);
        f.tear = 1;
        REQUIRE_OK(make_run(&r, &f.host, &v, directory, &error_), error_);
        REQUIRE(step_many(&r, 2, NULL));
        before = fingerprint(&r);
        REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
        saved = checkpoint_checksum(checkpoint);
        REQUIRE(step_many(&r, 1, NULL));
        after = fingerprint(&r);
        CHECK(after != before);
        for (long n = 1; !test_failures_; n += test_stride(SHADOW_MEMORY ? 2 : 1, 3)) {
            eitp_step_report report = EITP__ZERO;
            eitp_status status;
            REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
            faults_fail_file_call(&f, n);
            status = eitp_trainer_step(r.trainer, &report, &error_);
            if (f.file_calls < n)
                break;
            f.fail_file_call = 0;
            if (!status) { /* the data may have changed: the content was compared, and is the same */
                CHECK_THAT(fingerprint(&r) == after, "way %d, call %ld: other bits", (int)way, n);
                unharmed++;
                continue;
            }
            CHECK_THAT(status == EITP_ERROR_IO && strstr(error_.message, "step 3"), "call %ld: %s", n, error_.message);
            CHECK(eitp_trainer_steps_done(r.trainer) == 2 && !memcmp(&report, &untouched, sizeof report));
            if (eitp_trainer_is_inconsistent(r.trainer)) {
                inconsistent++;
                CHECK_THAT(strstr(error_.message, "resume from the last checkpoint") != NULL, "%s", error_.message);
                check_refuses_all(&r, other);
                REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
            } else {
                whole++;
                CHECK_THAT(strstr(error_.message, "nothing was changed") != NULL, "%s", error_.message);
                REQUIRE_OK(eitp_trainer_save(r.trainer, other, &error_), error_);
                CHECK(checkpoint_checksum(scratch_path(other, "checkpoint-2")) == saved);
                scratch_remove(other);
            }
            CHECK_THAT(!eitp_trainer_is_inconsistent(r.trainer) && fingerprint(&r) == before, "way %d, call %ld",
                       (int)way, n);
            REQUIRE(step_many(&r, 1, NULL));
            CHECK_THAT(fingerprint(&r) == after, "way %d, call %ld: other bits", (int)way, n);
        }
        CHECK_THAT(whole > 4 && inconsistent > 8 && unharmed < whole, "way %d: %d whole, %d inconsistent, %d unharmed",
                   (int)way, whole, inconsistent, unharmed);
        f.fail_file_call = 0;
        end_run(&r);
        faults_end(&f);
    }
    scratch_remove(directory);
}

/*
 * Each file call and each allocation of a resume fails. The trainer is unchanged, or inconsistent until a resume
 * succeeds, or the failure had no effect.
 */
static void a_resume_that_fails_is_whole_or_torn(void) {
    static const struct {
        eitp_offload offload;
        eitp_optimizer optimizer; /* the checkpoint's, or another */
    } ways[] = {{EITP_OFFLOAD_NONE, EITP_ADAMW}, {EITP_OFFLOAD_ALL, EITP_ADAMW}, {EITP_OFFLOAD_ALL, EITP_FACTORED}};
    char directory[512], output[600], checkpoint[700], other[600];
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-2", output);
    snprintf(other, sizeof other, "%s/other", directory);
    for (size_t way = 0; way < 2 * EITP__COUNT(ways); way++) {
        const int of_memory = way % 2;
        variant v = default_variant();
        uint32_t resumed, after;
        int whole = 0, inconsistent = 0, more = 1;
        faults f;
        run r;
        v.threads = 1;
        faults_begin(&f);
        REQUIRE_OK(make_run(&r, &f.host, &v, directory, &error_), error_);
        REQUIRE(step_many(&r, 2, NULL));
        REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
        end_run(&r);
        v.offload = ways[way / 2].offload;
        v.optimizer = ways[way / 2].optimizer;
        REQUIRE_OK(make_run(&r, &f.host, &v, directory, &error_), error_);
        REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
        resumed = fingerprint(&r);
        REQUIRE(step_many(&r, 1, NULL));
        after = fingerprint(&r);
        for (long n = 1; more && !test_failures_; n += test_stride(SHADOW_MEMORY ? 5 : 1, 7)) {
            eitp_status status;
            faults_fail_file_call(&f, of_memory ? 0 : n);
            f.allocations = 0;
            f.fail_allocation = of_memory ? n : 0;
            status = eitp_trainer_resume(r.trainer, checkpoint, &error_);
            more = (of_memory ? f.allocations : f.file_calls) >= n;
            f.fail_file_call = f.fail_allocation = 0;
            CHECK_THAT(!status || status == (of_memory ? EITP_ERROR_MEMORY : EITP_ERROR_IO), "call %ld: %s", n,
                       error_.message);
            if (status && !eitp_trainer_is_inconsistent(r.trainer)) {
                whole++;
                CHECK_THAT(fingerprint(&r) == after && eitp_trainer_steps_done(r.trainer) == 3,
                           "way %d, call %ld: changed by a refused resume: %s", (int)way, n, error_.message);
                continue;
            }
            if (status) {
                inconsistent++;
                CHECK_THAT(strstr(error_.message, "half-way; resume again") != NULL, "%s", error_.message);
                check_refuses_all(&r, other);
                REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
            }
            CHECK_THAT(!eitp_trainer_is_inconsistent(r.trainer) && fingerprint(&r) == resumed, "way %d, call %ld",
                       (int)way, n);
            REQUIRE(step_many(&r, 1, NULL));
            CHECK_THAT(fingerprint(&r) == after, "way %d, call %ld: other bits", (int)way, n);
        }
        CHECK_THAT(whole > 4 && inconsistent > 8, "way %d: %d whole and %d inconsistent", (int)way, whole,
                   inconsistent);
        end_run(&r);
        faults_end(&f);
    }
    scratch_remove(directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(every_failed_allocation_is_an_error),        TEST(every_failed_file_call_leaves_the_last_checkpoint),
        TEST(a_checkpoint_is_read_exactly_or_not_at_all), TEST(replacing_a_checkpoint_never_loses_it),
        TEST(a_step_that_fails_is_whole_or_torn),         TEST(a_resume_that_fails_is_whole_or_torn),
    };
    return RUN_TESTS(tests, argc, argv);
}
