/* Reading ahead: data workers change nothing except which thread reads. */
#include "tests/support/language_fit.h"
#include "tests/support/trainer_run.h"

#include <pthread.h>
#include <unistd.h>

/* A task that wraps another one, and counts, waits and fails as configured. */
typedef struct observed {
    eitp_task inner;
    useconds_t delay;     /* of each read, to make calls overlap if they can */
    int64_t fails_at;     /* the sample that cannot be read; -1: none */
    long calls, overlaps; /* calls of its functions; those that started before another had returned */
    long reads_elsewhere; /* reads in threads other than `home` */
    int inside;
    pthread_t home;
} observed;

static void observed_enter(observed *o) {
    __atomic_add_fetch(&o->calls, 1, __ATOMIC_SEQ_CST);
    if (__atomic_add_fetch(&o->inside, 1, __ATOMIC_SEQ_CST) > 1)
        __atomic_add_fetch(&o->overlaps, 1, __ATOMIC_SEQ_CST);
}

static void observed_leave(observed *o) {
    __atomic_sub_fetch(&o->inside, 1, __ATOMIC_SEQ_CST);
}

static eitp_status observed_build(void *user, eitp_pass *pass, eitp_error *error) {
    observed *o = (observed *)user;
    eitp_status status;
    observed_enter(o);
    status = o->inner.build(o->inner.user, pass, error);
    observed_leave(o);
    return status;
}

static eitp_status observed_read(void *user, eitp_split split, uint64_t number, eitp_sample *sample,
                                 eitp_error *error) {
    observed *o = (observed *)user;
    eitp_status status;
    observed_enter(o);
    if (!pthread_equal(pthread_self(), o->home))
        __atomic_add_fetch(&o->reads_elsewhere, 1, __ATOMIC_SEQ_CST);
    if (o->delay)
        usleep(o->delay);
    if (split == EITP_TRAINING && (int64_t)number == __atomic_load_n(&o->fails_at, __ATOMIC_SEQ_CST))
        status = eitp__fail(error, EITP_ERROR_IO, "sample %llu is on a disk that is gone", (unsigned long long)number);
    else
        status = o->inner.read(o->inner.user, split, number, sample, error);
    observed_leave(o);
    return status;
}

static eitp_status observed_identify(void *user, eitp_task_identity *identity, eitp_error *error) {
    observed *o = (observed *)user;
    eitp_status status;
    observed_enter(o);
    status = o->inner.identify(o->inner.user, identity, error);
    observed_leave(o);
    return status;
}

static eitp_status observed_save(void *user, const char *directory, eitp_error *error) {
    observed *o = (observed *)user;
    eitp_status status;
    observed_enter(o);
    status = o->inner.save(o->inner.user, directory, error);
    observed_leave(o);
    return status;
}

/* Replaces the run's trainer by one of the observed task, which must live until the run ends. */
static eitp_status observe(run *r, observed *o, eitp_error *error) {
    eitp_task task = r->task;
    memset(o, 0, sizeof *o);
    o->inner = r->task;
    o->fails_at = -1;
    o->home = pthread_self();
    task.user = o;
    task.build = observed_build;
    task.read = observed_read;
    task.identify = observed_identify;
    task.save = observed_save;
    task.prefetch = NULL;
    eitp_trainer_destroy(r->trainer);
    r->trainer = NULL;
    return eitp_trainer_create(&task, &r->config, &r->trainer, error);
}

/* Numbers of workers, and the steps that each reads ahead. The first row uses the training thread alone. */
static const struct { int64_t workers, prefetch; } ways_[] = {{0, 0}, {1, 1}, {1, 2}, {3, 1}, {3, 2}, {2, 70}};

/* The result of a whole run: a checksum of weights and state, and one of all reports. */
typedef struct result {
    uint32_t state, reports;
    int64_t steps;
} result;

static void add_report(result *to, const eitp_step_report *report) {
    const double values[] = {report->loss, report->learning_rate, report->grad_norm, (double)report->items,
                             report->update_norm};
    to->reports = eitp__crc32c(to->reports, values, sizeof values);
    to->steps = report->step;
}

/* Steps until the end of the data, or `most` times. */
static int step_to_end(run *r, int64_t most, result *to) {
    eitp_step_report report = EITP__ZERO;
    for (int64_t i = 0; i < most; i++) {
        const eitp_status status = eitp_trainer_step(r->trainer, &report, &error_);
        if (status == EITP_END_OF_DATA)
            break;
        CHECK_THAT(!status, "%s", error_.message);
        if (status)
            return 0;
        add_report(to, &report);
    }
    to->state = fingerprint(r);
    return 1;
}

static void check_same(const result *a, const result *b, size_t way) {
    CHECK_THAT(a->state == b->state && a->reports == b->reports && a->steps == b->steps,
               "%d workers, prefetch %d: other bits after %d and %d steps", (int)ways_[way].workers,
               (int)ways_[way].prefetch, (int)a->steps, (int)b->steps);
}

/* A run to the end of its data, in the middle of a step, with and without shuffling. */
static void workers_change_no_bit(void) {
    static const struct {
        eitp_shuffle shuffle;
        int64_t micro_batches_per_pass;
        uint64_t last_sample;
    } runs[] = {{EITP_SHUFFLE_WINDOWS, 2, 42}, {EITP_SHUFFLE_NONE, 1, 31}, {EITP_SHUFFLE_WINDOWS, 1, 0}};
    const eitp_host host = eitp_host_default();
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t i = 0; i < EITP__COUNT(runs); i++) {
        result results[EITP__COUNT(ways_)];
        for (size_t way = 0; way < EITP__COUNT(ways_); way++) {
            variant v = default_variant();
            observed o;
            run r;
            v.data_workers = ways_[way].workers;
            v.prefetch = ways_[way].prefetch;
            v.micro_batches_per_pass = runs[i].micro_batches_per_pass;
            v.last_sample = runs[i].last_sample;
            memset(&results[way], 0, sizeof results[way]);
            REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
            r.config.shuffle = runs[i].shuffle;
            REQUIRE_OK(observe(&r, &o, &error_), error_);
            REQUIRE(step_to_end(&r, 12, &results[way]));
            CHECK(results[way].steps > 6);
            CHECK((__atomic_load_n(&o.reads_elsewhere, __ATOMIC_SEQ_CST) > 0) ==
                  (EITP__WITH_WORKER && v.data_workers > 0));
            check_same(&results[0], &results[way], way);
            end_run(&r);
        }
    }
    scratch_remove(directory);
}

/* Saving, evaluating, shrinking and returning to a checkpoint at any moment. */
static void a_run_that_shrinks_and_resumes_has_the_same_bits(void) {
    const eitp_host host = eitp_host_default();
    char directory[512], output[600], checkpoint[700];
    result results[EITP__COUNT(ways_)];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t way = 0; way < EITP__COUNT(ways_); way++) {
        variant v = default_variant();
        eitp_evaluation evaluation;
        eitp_shrink_report shrunk;
        run r;
        v.data_workers = ways_[way].workers;
        v.prefetch = ways_[way].prefetch;
        v.batch_size = 4;
        v.plan.recompute = EITP_RECOMPUTE_NONE;
        memset(&results[way], 0, sizeof results[way]);
        snprintf(output, sizeof output, "%s/out-%d", directory, (int)way);
        snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-3", output);
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        REQUIRE(step_to_end(&r, 3, &results[way]));
        REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
        REQUIRE(step_to_end(&r, 2, &results[way]));
        REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 0, &evaluation, &error_), error_);
        REQUIRE_OK(eitp_trainer_shrink(r.trainer, &shrunk, &error_), error_);
        CHECK(shrunk.shrunk);
        REQUIRE(step_to_end(&r, 2, &results[way]));
        end_run(&r);
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        REQUIRE(step_to_end(&r, 1, &results[way]));
        REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
        REQUIRE(step_to_end(&r, 2, &results[way]));
        REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
        REQUIRE(step_to_end(&r, 4, &results[way]));
        CHECK(results[way].steps == 7);
        check_same(&results[0], &results[way], way);
        end_run(&r);
    }
    scratch_remove(directory);
}

/* A checkpoint records how its run read, and a resume accepts any other way. */
static void a_resume_accepts_other_workers(void) {
    const eitp_host host = eitp_host_default();
    char directory[512], output[600], checkpoint[700];
    eitp_checkpoint_info info;
    variant v = default_variant();
    uint32_t straight;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-2", output);
    straight = train_variant(&v, directory, 4);
    v.data_workers = 2;
    v.prefetch = 3;
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    REQUIRE(step_many(&r, 2, NULL));
    REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
    end_run(&r);
    REQUIRE_OK(eitp_checkpoint_read_info(&host, checkpoint, &info, &error_), error_);
    CHECK(info.config.data_workers == 2 && info.config.prefetch == 3);
    v.data_workers = 0;
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
    REQUIRE(step_many(&r, 2, NULL));
    CHECK(fingerprint(&r) == straight);
    end_run(&r);
    scratch_remove(directory);
}

/* Steps before the one whose sample cannot be read succeed. That step reports the reason, and can be repeated later. */
static void a_failed_read_is_reported_by_its_step(void) {
    enum { FAILING = 5 };
    const eitp_host host = eitp_host_default();
    char directory[512], first_message[600] = "";
    result results[EITP__COUNT(ways_)];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t way = 0; way < EITP__COUNT(ways_); way++) {
        variant v = default_variant();
        eitp_step_report report = EITP__ZERO;
        observed o;
        run r;
        v.data_workers = ways_[way].workers;
        v.prefetch = ways_[way].prefetch;
        memset(&results[way], 0, sizeof results[way]);
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        REQUIRE_OK(observe(&r, &o, &error_), error_);
        o.fails_at = (int64_t)eitp__sample_of(&r.config, &r.task, (FAILING - 1) * 4 + 1);
        REQUIRE(step_to_end(&r, FAILING - 1, &results[way]));
        for (int i = 0; i < 2; i++) {
            CHECK(eitp_trainer_step(r.trainer, &report, &error_) == EITP_ERROR_IO);
            CHECK_THAT(strstr(error_.message, "step 5 failed") && strstr(error_.message, "a disk that is gone"), "%s",
                       error_.message);
            CHECK(report.step == 0 && eitp_trainer_steps_done(r.trainer) == FAILING - 1);
        }
        if (!way)
            snprintf(first_message, sizeof first_message, "%s", error_.message);
        CHECK_THAT(!strcmp(first_message, error_.message), "%s", error_.message);
        CHECK(fingerprint(&r) == results[way].state);
        __atomic_store_n(&o.fails_at, -1, __ATOMIC_SEQ_CST);
        REQUIRE(step_to_end(&r, 3, &results[way]));
        CHECK(results[way].steps == FAILING + 2);
        check_same(&results[0], &results[way], way);
        end_run(&r);
    }
    scratch_remove(directory);
}

/* With one worker no two calls of a task's functions overlap, regardless of other calls of the trainer. */
static void one_worker_makes_one_call_at_a_time(void) {
    const eitp_host host = eitp_host_default();
    char directory[512], output[600], checkpoint[700];
    eitp_evaluation evaluation;
    eitp_shrink_report shrunk;
    variant v = default_variant();
    observed o;
    run r;
    v.data_workers = 1;
    v.prefetch = 3;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-1", output);
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    REQUIRE_OK(observe(&r, &o, &error_), error_);
    o.delay = 3000;
    REQUIRE(step_many(&r, 1, NULL));
    REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
    REQUIRE(step_many(&r, 1, NULL));
    REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 2, &evaluation, &error_), error_);
    REQUIRE(step_many(&r, 1, NULL));
    REQUIRE_OK(eitp_trainer_shrink(r.trainer, &shrunk, &error_), error_);
    REQUIRE(step_many(&r, 1, NULL));
    REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
    REQUIRE(step_many(&r, 1, NULL));
    eitp_trainer_destroy(r.trainer);
    r.trainer = NULL;
    CHECK_THAT(o.calls > 20 && o.overlaps == 0 && o.inside == 0, "%ld of %ld calls overlap", o.overlaps, o.calls);
    end_run(&r);
    scratch_remove(directory);
}

/* A trainer is destroyed while its workers read, after each of the first steps. */
static void destroying_waits_for_the_workers(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (int64_t steps = 0; steps < 4; steps++) {
        variant v = default_variant();
        long calls;
        observed o;
        run r;
        v.data_workers = 3;
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        REQUIRE_OK(observe(&r, &o, &error_), error_);
        o.delay = 1000;
        REQUIRE(step_many(&r, steps, NULL));
        eitp_trainer_destroy(r.trainer);
        r.trainer = NULL;
        calls = o.calls;
        usleep(3000);
        CHECK(o.calls == calls && o.inside == 0);
        end_run(&r);
    }
    scratch_remove(directory);
}

/* The buffers are allocated when the trainer is created, not in a step. Each allocation may fail. */
static void buffers_are_allocated_once(void) {
    char directory[512];
    variant v = default_variant();
    faults f;
    int more = 1;
    REQUIRE(scratch_make(directory) && write_text(directory));
    v.data_workers = 3;
    for (long n = 0; more && !test_failures_; n++) {
        eitp_host host = eitp_host_default();
        long allocations;
        run r;
        eitp_status status;
        faults_begin(&f);
        host.allocator = f.host.allocator;
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        eitp_trainer_destroy(r.trainer);
        r.trainer = NULL;
        f.allocations = 0;
        f.fail_allocation = n;
        status = eitp_trainer_create(&r.task, &r.config, &r.trainer, &error_);
        allocations = f.allocations;
        more = !n || allocations >= n;
        CHECK_THAT(!status || (status == EITP_ERROR_MEMORY && !r.trainer), "allocation %ld: %s", n, error_.message);
        f.fail_allocation = 0;
        if (!status && !test_failures_) {
            REQUIRE(step_many(&r, 5, NULL));
            CHECK_THAT(f.allocations == allocations, "%ld allocations in steps", f.allocations - allocations);
        }
        end_run(&r);
        faults_end(&f);
        n += n < 10 || allocations - n < 80 ? test_stride(0, 4) : 20;
    }
    scratch_remove(directory);
}

/* The planner counts the buffers and threads used for reading ahead. */
static void the_planner_counts_what_is_read_ahead(void) {
    language_fit l;
    eitp_fit fit = eitp_fit_default();
    eitp_fit_candidate candidates[2] = {EITP__ZERO, EITP__ZERO};
    const int64_t workers = 4, prefetch = 8;
    size_t buffers, more;
    l.model = small_model(0);
    l.block_size = 32;
    fit.context = eitp_context_config_default();
    fit.context.host = eitp_host_default();
    fit.create_task = make_language_task;
    fit.user = &l;
    fit.trainer = eitp_trainer_config_default();
    fit.trainer.batch_size = 8;
    fit.trainer.prefetch = prefetch;
    fit.process = 1 << 20;
    for (int i = 0; i < 2; i++) {
        fit.trainer.data_workers = i * workers;
        REQUIRE_OK(eitp_fit_measure(&fit, &candidates[i], &error_), error_);
    }
    /* Ids, targets and positions of each row. */
    buffers = (size_t)(workers * prefetch * fit.trainer.batch_size * fit.trainer.grad_accum * l.block_size) * 3 * 4;
    more = candidates[1].total - candidates[0].total;
    CHECK_THAT(more > buffers + (size_t)workers * 10000 && more < 2 * buffers + (size_t)workers * 100000,
               "%ld bytes, and the buffers have %ld", (long)more, (long)buffers);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(workers_change_no_bit),
        TEST(a_run_that_shrinks_and_resumes_has_the_same_bits),
        TEST(a_resume_accepts_other_workers),
        TEST(a_failed_read_is_reported_by_its_step),
        TEST(one_worker_makes_one_call_at_a_time),
        TEST(destroying_waits_for_the_workers),
        TEST(buffers_are_allocated_once),
        TEST(the_planner_counts_what_is_read_ahead),
    };
    return RUN_TESTS(tests, argc, argv);
}
