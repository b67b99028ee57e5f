/* The position in the data: a run that is extended reads each sample of each epoch once. */
#include "tests/support/checkpoints.h"
#include "tests/support/trainer_run.h"

/* Samples per epoch, and epochs of the longest run. */
enum { SAMPLES = 10, EPOCHS = 5 };

/* A task with few samples that counts how often each is read in each epoch, by any thread. */
typedef struct counted {
    eitp_task inner;
    int reads[EPOCHS][SAMPLES];
    int beyond; /* reads beyond these epochs */
} counted;

static eitp_status counted_build(void *user, eitp_pass *pass, eitp_error *error) {
    counted *c = (counted *)user;
    return c->inner.build(c->inner.user, pass, error);
}

static eitp_status counted_read(void *user, eitp_split split, uint64_t number, eitp_sample *sample, eitp_error *error) {
    counted *c = (counted *)user;
    if (split == EITP_TRAINING && sample->epoch < EPOCHS)
        __atomic_add_fetch(&c->reads[sample->epoch][number], 1, __ATOMIC_SEQ_CST);
    else if (split == EITP_TRAINING)
        __atomic_add_fetch(&c->beyond, 1, __ATOMIC_SEQ_CST);
    return c->inner.read(c->inner.user, split, number, sample, error);
}

static eitp_status counted_identify(void *user, eitp_task_identity *identity, eitp_error *error) {
    counted *c = (counted *)user;
    return c->inner.identify(c->inner.user, identity, error);
}

/* Creates a run of the counted task with a constant rate that ends after `last_sample` samples. End it in any case. */
static eitp_status make_counted(run *r, counted *c, const variant *v, uint64_t last_sample, const char *directory) {
    const eitp_host host = eitp_host_default();
    eitp_status status = make_run(r, &host, v, directory, &error_);
    eitp_task task = r->task;
    if (status)
        return status;
    c->inner = r->task;
    task.user = c;
    task.build = counted_build;
    task.read = counted_read;
    task.identify = counted_identify;
    task.save = NULL;
    task.prefetch = NULL;
    task.samples[EITP_TRAINING] = SAMPLES;
    r->config.schedule.kind = EITP_SCHEDULE_CONSTANT;
    r->config.last_sample = last_sample;
    eitp_trainer_destroy(r->trainer);
    r->trainer = NULL;
    return eitp_trainer_create(&task, &r->config, &r->trainer, &error_);
}

/* Steps to the end of the data and returns the number of steps, or -1 after a failure. */
static int64_t step_to_end(run *r) {
    eitp_step_report report;
    eitp_status status = EITP_OK;
    while (!status)
        status = eitp_trainer_step(r->trainer, &report, &error_);
    CHECK_THAT(status == EITP_END_OF_DATA, "%s", error_.message);
    return status == EITP_END_OF_DATA ? eitp_trainer_steps_done(r->trainer) : -1;
}

/* Checks that the first `count` reads of the run were each made once, and no others. */
static void check_reads(const counted *c, uint64_t count, const char *what) {
    uint64_t made = 0;
    for (int e = 0; e < EPOCHS; e++) {
        const uint64_t before = (uint64_t)e * SAMPLES, here = count > before ? count - before : 0;
        for (int s = 0; s < SAMPLES; s++) {
            const int least = here >= SAMPLES, most = here > 0;
            CHECK_THAT(c->reads[e][s] >= least && c->reads[e][s] <= most, "%s: sample %d of epoch %d was read %d times",
                       what, s, e, c->reads[e][s]);
            made += (uint64_t)c->reads[e][s];
        }
    }
    CHECK_THAT(made == count && !c->beyond, "%s: %d samples were read instead of %d, and %d of later epochs", what,
               (int)made, (int)count, c->beyond);
}

/* Ends of the parts of a run, in samples. A step has 4. */
typedef struct run_parts {
    const char *name;
    uint64_t ends[4]; /* 0: no more parts */
    int64_t steps;
} run_parts;

static const run_parts run_parts_list[] = {
    {"longer", {10, 40}, 3 + 8},
    {"longer and longer", {10, 20, 30, 50}, 3 + 3 + 3 + 5},
    {"less than a step more", {10, 11, 12, 40}, 3 + 1 + 1 + 7},
    {"no longer, and shorter", {30, 30, 10, 40}, 8 + 3},
};

/* Trains the parts of a run one after another. Each resumes from the end of the previous one. */
static void train_parts(const run_parts *way, const variant *v, const char *directory) {
    counted c = EITP__ZERO;
    char output[600], checkpoint[700];
    int64_t steps = 0;
    uint64_t most = 0;
    snprintf(output, sizeof output, "%s/out", directory);
    for (size_t i = 0; i < EITP__COUNT(way->ends) && way->ends[i]; i++) {
        run r;
        REQUIRE_OK(make_counted(&r, &c, v, way->ends[i], directory), error_);
        snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-%d", output, (int)steps);
        if (i)
            REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
        steps = step_to_end(&r);
        REQUIRE(steps > 0);
        REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
        end_run(&r);
        most = way->ends[i] > most ? way->ends[i] : most;
        check_reads(&c, most, way->name);
    }
    CHECK_THAT(steps == way->steps, "%s: %d steps instead of %d", way->name, (int)steps, (int)way->steps);
}

static void each_sample_is_read_once_per_epoch(void) {
    static const int64_t workers[] = {0, 2};
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t w = 0; w < EITP__COUNT(workers); w++) {
        for (size_t i = 0; i < EITP__COUNT(run_parts_list); i++) {
            variant v = default_variant();
            v.data_workers = workers[w];
            train_parts(&run_parts_list[i], &v, directory);
        }
    }
    scratch_remove(directory);
}

/* Trains one part of a run, starting from a checkpoint unless it is 0, and saves at its end. */
static uint32_t train_part(const variant *v, const char *directory, int64_t checkpoint, uint64_t last_sample,
                           int64_t steps) {
    counted c = EITP__ZERO;
    char output[600], path[700];
    uint32_t state = 0;
    run r;
    eitp_status status = make_counted(&r, &c, v, last_sample, directory);
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(path, sizeof path, "%s/checkpoint-%d", output, (int)checkpoint);
    if (!status && checkpoint)
        status = eitp_trainer_resume(r.trainer, path, &error_);
    CHECK_THAT(!status, "%s", error_.message);
    if (!status && (steps ? step_many(&r, steps, NULL) : step_to_end(&r) > 0)) {
        CHECK_THAT(!eitp_trainer_save(r.trainer, output, &error_), "%s", error_.message);
        state = fingerprint(&r);
    }
    end_run(&r);
    return state;
}

/* If the first part ends with a full step, the extended run has the same bits as a run planned that long, however a
   step is split. */
static void after_a_whole_step_a_longer_run_has_the_same_bits(void) {
    char directory[512];
    variant v = default_variant(), other;
    uint32_t straight;
    REQUIRE(scratch_make(directory) && write_text(directory));
    straight = train_part(&v, directory, 0, 4 * SAMPLES, 0);
    REQUIRE(straight && train_part(&v, directory, 0, 2 * SAMPLES, 0));
    other = v;
    other.batch_size = 1;
    other.grad_accum = 4;
    CHECK(train_part(&v, directory, 5, 4 * SAMPLES, 0) == straight);
    CHECK(train_part(&other, directory, 5, 4 * SAMPLES, 0) == straight);
    scratch_remove(directory);
}

/* If the first part ends with a partial step, interrupting the extended run changes no bit. */
static void an_interrupted_longer_run_has_the_same_bits(void) {
    static const int64_t cuts[] = {4, 6, 10};
    char directory[512];
    const variant v = default_variant();
    uint32_t straight;
    REQUIRE(scratch_make(directory) && write_text(directory));
    REQUIRE(train_part(&v, directory, 0, SAMPLES, 0));
    straight = train_part(&v, directory, 3, 4 * SAMPLES, 0);
    REQUIRE(straight);
    for (size_t i = 0; i < EITP__COUNT(cuts); i++) {
        REQUIRE(train_part(&v, directory, 3, 4 * SAMPLES, cuts[i] - 3));
        CHECK_THAT(train_part(&v, directory, cuts[i], 4 * SAMPLES, 0) == straight, "cut at %d", (int)cuts[i]);
    }
    scratch_remove(directory);
}

/* The samples recorded in a checkpoint; -1 if it cannot be read. */
static int64_t recorded_samples(const char *directory, int64_t step) {
    const eitp_host host = eitp_host_default();
    eitp_checkpoint_info info;
    char path[700];
    snprintf(path, sizeof path, "%s/out/checkpoint-%d", directory, (int)step);
    return eitp_checkpoint_read_info(&host, path, &info, &error_) ? -1 : info.samples;
}

/* Changes a line of a checkpoint's state, or removes it if `to` is NULL. */
static int change_state(const char *directory, int64_t step, const char *name, const char *to) {
    char checkpoint[700], path[800], text[8192] = "", *line, *next;
    FILE *file;
    snprintf(checkpoint, sizeof checkpoint, "%s/out/checkpoint-%d", directory, (int)step);
    snprintf(path, sizeof path, "%s/trainer_state.json", checkpoint);
    file = fopen(path, "rb");
    if (!file || !fread(text, 1, sizeof text - 1, file) || fclose(file))
        return 0;
    line = strstr(text, name);
    next = line ? strchr(line, '\n') : NULL;
    file = next ? fopen(path, "wb") : NULL;
    if (!file)
        return 0;
    fprintf(file, "%.*s%s%s", (int)(line - text), text, to ? to : "", to ? next : next + 1);
    return !fclose(file) && renew_manifest(checkpoint);
}

/* An earlier checkpoint has no position. Its steps were full, except for a last one that ended the run. */
static void an_earlier_checkpoint_resumes_where_it_was(void) {
    char directory[512];
    const variant v = default_variant();
    uint32_t longer;
    REQUIRE(scratch_make(directory) && write_text(directory));
    REQUIRE(train_part(&v, directory, 0, SAMPLES, 2));
    REQUIRE(train_part(&v, directory, 2, SAMPLES, 0));
    CHECK(recorded_samples(directory, 2) == 8 && recorded_samples(directory, 3) == SAMPLES);
    longer = train_part(&v, directory, 3, 4 * SAMPLES, 0);
    for (int64_t step = 2; step <= 3; step++)
        REQUIRE(change_state(directory, step, "  \"samples\": ", NULL));
    CHECK(recorded_samples(directory, 2) == 8 && recorded_samples(directory, 3) == SAMPLES);
    CHECK(train_part(&v, directory, 3, 4 * SAMPLES, 0) == longer);
    scratch_remove(directory);
}

static void a_damaged_position_is_refused(void) {
    char directory[512];
    const variant v = default_variant();
    REQUIRE(scratch_make(directory) && write_text(directory));
    REQUIRE(train_part(&v, directory, 0, SAMPLES, 2));
    REQUIRE(change_state(directory, 2, "  \"samples\": ", "  \"samples\": -1,"));
    CHECK(recorded_samples(directory, 2) == -1);
    CHECK_THAT(strstr(error_.message, "'samples'") != NULL, "%s", error_.message);
    scratch_remove(directory);
}

/* With another number of samples per step, a run continues with the first unread sample. */
static void other_steps_continue_with_the_next_sample(void) {
    const eitp_host host = eitp_host_default();
    char directory[512], checkpoint[700];
    eitp_setting_change changes[2] = EITP__ZERO;
    variant v = default_variant();
    counted c = EITP__ZERO;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(checkpoint, sizeof checkpoint, "%s/out/checkpoint-2", directory);
    REQUIRE(train_part(&v, directory, 0, 2 * SAMPLES, 2));
    changes[0].name = "micro_batches_per_pass";
    changes[1].name = "grad_accum";
    changes[0].value = changes[1].value = "1";
    REQUIRE_OK(eitp_checkpoint_set(&host, checkpoint, changes, 2, &error_), error_);
    v.grad_accum = 1;
    REQUIRE_OK(make_counted(&r, &c, &v, 2 * SAMPLES, directory), error_);
    REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
    CHECK(step_to_end(&r) == 2 + 6);
    for (int s = 0, first = 0; s < SAMPLES; s++) {
        first += c.reads[0][s];
        CHECK_THAT(c.reads[0][s] <= 1 && c.reads[1][s] == 1 && (s < SAMPLES - 1 || first == 2), "sample %d", s);
    }
    end_run(&r);
    scratch_remove(directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(each_sample_is_read_once_per_epoch),
        TEST(after_a_whole_step_a_longer_run_has_the_same_bits),
        TEST(an_interrupted_longer_run_has_the_same_bits),
        TEST(an_earlier_checkpoint_resumes_where_it_was),
        TEST(a_damaged_position_is_refused),
        TEST(other_steps_continue_with_the_next_sample),
    };
    return RUN_TESTS(tests, argc, argv);
}
