/* Requests to stop: what is dropped and saved, and that a resumed run ends like one that was never stopped. */
#include "tests/support/trainer_run.h"

#include <limits.h>
#include <sched.h>

/* ---- Steps and evaluations of a trainer ---- */

typedef struct stopper {
    long asked, stop_at; /* numbers of calls; stop_at 0: never */
} stopper;

static int ask_stopper(void *user) {
    stopper *s = (stopper *)user;
    return s->stop_at && ++s->asked >= s->stop_at;
}

typedef struct stop_case {
    variant v;
    long stride; /* calls between those at which a step is stopped */
} stop_case;

/* Takes a step, which is stopped at call `stop_at` of the poll, and repeats it. Sets *asked to the number of calls. */
static int step_stopped(run *r, long stop_at, long *asked) {
    const uint32_t before = fingerprint(r);
    const int64_t done = eitp_trainer_steps_done(r->trainer);
    eitp_step_report report;
    stopper s = {0, stop_at};
    eitp_status status;
    eitp_context_set_poll(r->context, ask_stopper, &s);
    status = eitp_trainer_step(r->trainer, &report, &error_);
    eitp_context_set_poll(r->context, NULL, NULL);
    *asked = s.asked;
    CHECK_THAT(!status || status == EITP_ERROR_INTERRUPTED, "%s", error_.message);
    CHECK(!eitp_trainer_is_inconsistent(r->trainer));
    if (!status) {
        CHECK(eitp_trainer_steps_done(r->trainer) == done + 1);
        return 0;
    }
    CHECK_THAT(s.asked == s.stop_at, "asked %ld times after the stop", s.asked - s.stop_at);
    CHECK(eitp_trainer_steps_done(r->trainer) == done && fingerprint(r) == before);
    CHECK_THAT(!eitp_trainer_step(r->trainer, &report, &error_), "%s", error_.message);
    return 1;
}

/* Stops the third step at every call of the poll, one after the other. The result must be `expected`. Returns the
   number of stops. */
static int stop_everywhere(const stop_case *c, const char *directory, uint32_t expected) {
    const eitp_host host = eitp_host_default();
    long asked = LONG_MAX;
    int stops = 0;
    const long stride = c->stride * test_stride(1, 2);
    for (long at = 1; at <= asked; at += stride) {
        run r;
        CHECK_THAT(!make_run(&r, &host, &c->v, directory, &error_), "%s", error_.message);
        CHECK(r.trainer && step_many(&r, 2, NULL));
        const int stopped = r.trainer && step_stopped(&r, at, &asked);
        stops += stopped;
        CHECK(r.trainer && step_many(&r, 1, NULL));
        CHECK_THAT(fingerprint(&r) == expected, "other bits after a stop at question %ld", at);
        end_run(&r);
        if (!stopped)
            break; /* from here on the step is completed */
        asked = LONG_MAX;
    }
    return stops;
}

static void check_stops(stop_case c, int least) {
    char directory[512];
    uint32_t expected;
    int stops;
    REQUIRE(scratch_make(directory) && write_text(directory));
    c.v.threads = 1;
    c.v.isa = "ref";
    expected = train_variant(&c.v, directory, 4);
    stops = stop_everywhere(&c, directory, expected);
    least /= (int)test_stride(1, 2);
    CHECK_THAT(expected && stops >= least, "%d stops, expected at least %d", stops, least);
    scratch_remove(directory);
}

static stop_case plain_case(void) {
    stop_case c;
    memset(&c, 0, sizeof c);
    c.v = default_variant();
    c.stride = 37;
    return c;
}

/* The update is the last part of a step with clipping, so nearly all of the step can be dropped. */
static void a_step_in_one_pass_is_dropped(void) {
    stop_case c = plain_case();
    c.v.micro_batches_per_pass = 2;
    check_stops(c, 4);
}

/* Gradients accumulated in variables are not part of the state: the repeated step starts with none. */
static void a_step_of_several_passes_is_dropped(void) {
    stop_case c = plain_case();
    c.v.grad_accum = 3;
    c.v.micro_batches_per_pass = 1;
    check_stops(c, 8);
}

/* Without clipping, parameters are updated during the backward pass. From then on the step is completed. */
static void a_step_that_updates_as_it_goes_is_completed(void) {
    stop_case c = plain_case();
    c.v.unclipped = 1;
    c.v.micro_batches_per_pass = 2;
    c.stride = 11;
    check_stops(c, 1);
}

static void a_step_with_offloaded_variables_is_dropped(void) {
    stop_case c = plain_case();
    c.v.offload = EITP_OFFLOAD_ALL;
    c.v.micro_batches_per_pass = 1;
    check_stops(c, 4);
}

static void a_step_with_data_workers_is_dropped(void) {
    stop_case c = plain_case();
    c.v.data_workers = 2;
    c.v.prefetch = 2;
    check_stops(c, 4);
}

static void other_optimizers_and_forms_are_dropped(void) {
    stop_case c = plain_case();
    c.stride = 101;
    c.v.optimizer = EITP_ADAMW8;
    c.v.precision = "bf16";
    check_stops(c, 1);
    c.v.optimizer = EITP_SGD;
    c.v.precision = "fp16";
    c.v.keep_gradients = 1;
    check_stops(c, 1);
    c.v = default_variant();
    c.v.lora_rank = 2;
    check_stops(c, 1);
}

/* A dropped evaluation changes nothing, and its repetition gives the same numbers. */
static void an_evaluation_is_dropped(void) {
    const eitp_host host = eitp_host_default();
    const variant v = default_variant();
    eitp_evaluation straight, repeated;
    char directory[512];
    long stops = 0;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    CHECK_THAT(!make_run(&r, &host, &v, directory, &error_), "%s", error_.message);
    REQUIRE(r.trainer && step_many(&r, 1, NULL));
    CHECK(!eitp_trainer_evaluate(r.trainer, 6, &straight, &error_));
    for (long at = 1;; at += 11) {
        stopper s = {0, at};
        eitp_status status;
        memset(&repeated, 7, sizeof repeated);
        eitp_context_set_poll(r.context, ask_stopper, &s);
        status = eitp_trainer_evaluate(r.trainer, 6, &repeated, &error_);
        eitp_context_set_poll(r.context, NULL, NULL);
        if (!status)
            break;
        CHECK_THAT(status == EITP_ERROR_INTERRUPTED && s.asked == at, "%s", error_.message);
        CHECK(repeated.term_count == 0x07070707);
        stops++;
        CHECK(!eitp_trainer_evaluate(r.trainer, 6, &repeated, &error_));
        CHECK(!memcmp(&straight, &repeated, sizeof straight));
    }
    CHECK_THAT(stops > 5, "%ld stops", stops);
    end_run(&r);
    scratch_remove(directory);
}

/* For a large model, initializing values and loading a checkpoint's weights take long. */
static void filling_and_loading_are_interrupted(void) {
    const eitp_host host = eitp_host_default();
    const variant v = default_variant();
    char directory[512];
    stopper s = {0, 5};
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    CHECK_THAT(!make_run(&r, &host, &v, directory, &error_), "%s", error_.message);
    REQUIRE(r.trainer && step_many(&r, 1, NULL));
    CHECK(!eitp_trainer_save(r.trainer, directory, &error_));
    eitp_context_set_poll(r.context, ask_stopper, &s);
    CHECK(eitp_model_initialize(r.model, 3, &error_) == EITP_ERROR_INTERRUPTED && s.asked == 5);
    s.asked = 0;
    CHECK(eitp_trainer_resume(r.trainer, scratch_path(directory, "checkpoint-1"), &error_) == EITP_ERROR_INTERRUPTED &&
          s.asked == 5);
    /* Saving is never interrupted. */
    s.stop_at = 1;
    eitp_context_set_poll(r.context, NULL, NULL);
    CHECK(!eitp_trainer_resume(r.trainer, scratch_path(directory, "checkpoint-1"), &error_));
    eitp_context_set_poll(r.context, ask_stopper, &s);
    CHECK_THAT(!eitp_trainer_save(r.trainer, directory, &error_), "%s", error_.message);
    end_run(&r);
    scratch_remove(directory);
}

/* ---- Reading ---- */

/* A task that requests a stop while it reads a sample. Each later read lasts until reading ahead is cancelled. */
typedef struct reading {
    eitp_task inner;
    const eitp_trainer *trainer;
    int calls, stop_at; /* numbers of reads; stop_at 0: never */
    int stopping;
    int later; /* reads after the request */
} reading;

static int asks_reading(void *user) {
    return __atomic_load_n(&((reading *)user)->stopping, __ATOMIC_SEQ_CST);
}

static eitp_status read_and_stop(void *user, eitp_split split, uint64_t number, eitp_sample *sample,
                                 eitp_error *error) {
    reading *r = (reading *)user;
    if (asks_reading(r)) {
        __atomic_add_fetch(&r->later, 1, __ATOMIC_SEQ_CST);
        while (!__atomic_load_n(&r->trainer->plans.ahead.cancelled, __ATOMIC_SEQ_CST) && asks_reading(r))
            sched_yield();
    }
    if (__atomic_add_fetch(&r->calls, 1, __ATOMIC_SEQ_CST) == r->stop_at)
        __atomic_store_n(&r->stopping, 1, __ATOMIC_SEQ_CST);
    return r->inner.read(r->inner.user, split, number, sample, error);
}

static eitp_status build_reading(void *user, eitp_pass *pass, eitp_error *error) {
    const reading *r = (const reading *)user;
    return r->inner.build(r->inner.user, pass, error);
}

static eitp_status identify_reading(void *user, eitp_task_identity *identity, eitp_error *error) {
    const reading *r = (const reading *)user;
    return r->inner.identify(r->inner.user, identity, error);
}

static eitp_status save_reading(void *user, const char *directory, eitp_error *error) {
    const reading *r = (const reading *)user;
    return r->inner.save(r->inner.user, directory, error);
}

/* Replaces the run's trainer by one that stops at a read. `reads` must live until the run ends. */
static eitp_status observe_reading(run *r, reading *reads, int stop_at) {
    eitp_task task = r->task;
    eitp_status status;
    memset(reads, 0, sizeof *reads);
    reads->inner = r->task;
    reads->stop_at = stop_at;
    task.user = reads;
    task.build = build_reading;
    task.read = read_and_stop;
    task.identify = identify_reading;
    task.save = save_reading;
    task.prefetch = NULL;
    eitp_trainer_destroy(r->trainer);
    r->trainer = NULL;
    status = eitp_trainer_create(&task, &r->config, &r->trainer, &error_);
    reads->trainer = r->trainer;
    eitp_context_set_poll(r->context, asks_reading, reads);
    return status;
}

/* The fingerprint after 4 steps. One step is dropped while its samples are read, at read `stop_at`. */
static uint32_t train_and_stop_reading(const char *directory, int64_t workers, int stop_at, int saves) {
    const eitp_host host = eitp_host_default();
    variant v = default_variant();
    eitp_step_report report;
    reading reads;
    uint32_t crc;
    run r;
    v.data_workers = workers;
    v.threads = 1;
    v.isa = "ref";
    CHECK_THAT(!make_run(&r, &host, &v, directory, &error_), "%s", error_.message);
    CHECK_THAT(!observe_reading(&r, &reads, stop_at), "%s", error_.message);
    while (eitp_trainer_steps_done(r.trainer) < 4) {
        const eitp_status status = eitp_trainer_step(r.trainer, &report, &error_);
        if (!status)
            continue;
        CHECK_THAT(status == EITP_ERROR_INTERRUPTED && asks_reading(&reads), "%s", error_.message);
        CHECK(!eitp_trainer_is_inconsistent(r.trainer));
        if (saves) /* waits only for the samples being read */
            CHECK_THAT(!eitp_trainer_save(r.trainer, directory, &error_), "%s", error_.message);
        if (saves)
            CHECK_THAT(reads.later <= workers, "%d samples were read after the stop", reads.later);
        __atomic_store_n(&reads.stopping, 0, __ATOMIC_SEQ_CST);
    }
    eitp_context_set_poll(r.context, NULL, NULL);
    crc = fingerprint(&r);
    end_run(&r);
    return crc;
}

static void reading_stops_after_a_sample(void) {
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    const uint32_t expected = train_and_stop_reading(directory, 0, 0, 0);
    for (int at = 1; at < 12; at += (int)test_stride(3, 6)) {
        for (int workers = 0; workers < 4; workers++) {
            CHECK(train_and_stop_reading(directory, workers, at, 0) == expected);
            CHECK(train_and_stop_reading(directory, workers, at, 1) == expected);
        }
    }
    scratch_remove(directory);
}

/* A destroyed trainer waits only for the samples being read. */
static void destroying_reads_no_further_sample(void) {
    const eitp_host host = eitp_host_default();
    variant v = default_variant();
    eitp_step_report report;
    char directory[512];
    reading reads;
    run r;
    v.data_workers = 2;
    REQUIRE(scratch_make(directory) && write_text(directory));
    REQUIRE(!make_run(&r, &host, &v, directory, &error_) && !observe_reading(&r, &reads, 6));
    while (!eitp_trainer_step(r.trainer, &report, &error_))
        continue;
    end_run(&r);
    CHECK_THAT(reads.later <= 2, "%d samples were read after the stop", reads.later);
    scratch_remove(directory);
}

/* ---- Runs ---- */

typedef struct stopped_run {
    run trained;
    eitp_host host;
    char directory[512], output[600];
    eitp_run_config config;
    eitp_run_report report;
    eitp_run *run;
    int accumulates;
    long kernels, stop_at; /* numbers of kernel calls; 0: never stop */
    long later;            /* calls after the request */
    int64_t done;          /* steps done at the request */
    unsigned checkpoints;  /* bit n: checkpoint-n existed */
} stopped_run;

static unsigned checkpoints_of(const stopped_run *s) {
    unsigned found = 0;
    for (int64_t n = 0; n < 32; n++) {
        eitp_path_info info;
        char name[40];
        snprintf(name, sizeof name, "checkpoint-%lld", (long long)n);
        if (!eitp__path_info(&s->host, scratch_path(s->output, name), &info, NULL) && info.kind != EITP_PATH_MISSING)
            found |= 1u << n;
    }
    return found;
}

static void count_kernel(void *user, const eitp_profile *profile) {
    stopped_run *s = (stopped_run *)user;
    (void)profile;
    s->kernels++;
    s->later += s->stop_at && s->kernels > s->stop_at;
    if (s->kernels != s->stop_at)
        return;
    s->done = eitp_trainer_steps_done(s->trained.trainer);
    s->checkpoints = checkpoints_of(s);
    eitp_run_request_stop(s->run, 15);
}

static void ignore_event(void *user, const eitp_run_event *event) {
    (void)user;
    (void)event;
}

static int begin_stopped(stopped_run *s) {
    memset(s, 0, sizeof *s);
    if (!scratch_make(s->directory) || !write_text(s->directory))
        return 0;
    snprintf(s->output, sizeof s->output, "%s/a/out", s->directory);
    s->host = eitp_host_default();
    s->config = eitp_run_config_default();
    s->config.directory = s->output;
    s->config.steps = 8; /* evaluates after steps 3 and 6, and at the end */
    s->config.eval_steps = 3;
    s->config.eval_samples = 6;
    s->config.save_steps = 3;
    s->config.keep_best = "loss";
    s->config.patience = 2;
    s->config.memory_check_seconds = -1;
    s->config.listener.notify = ignore_event;
    return 1;
}

static eitp_status train_stopped(stopped_run *s) {
    variant v = default_variant();
    eitp_profiler profiler;
    eitp_status status;
    v.threads = 1;
    v.isa = "ref";
    v.micro_batches_per_pass = s->accumulates ? 1 : 2;
    profiler.user = s;
    profiler.step = count_kernel;
    s->kernels = s->later = 0;
    status = make_run(&s->trained, &s->host, &v, s->directory, &error_);
    if (!status)
        status = eitp_run_open(&s->host, &s->config, &s->run, &error_);
    eitp_context_profile(s->trained.context, &profiler);
    if (!status)
        status = eitp_run_train(s->run, s->trained.trainer, &s->report, &error_);
    eitp_run_close(s->run);
    s->run = NULL;
    end_run(&s->trained);
    return status;
}

static char *read_whole(const stopped_run *s, const char *name) {
    static const size_t most = 1 << 20;
    FILE *file = fopen(scratch_path(s->output, name), "rb");
    char *text = (char *)calloc(1, most + 1);
    if (file) {
        CHECK(fread(text, 1, most, file) < most);
        fclose(file);
    }
    return text;
}

static int same_file(const stopped_run *a, const stopped_run *b, const char *name) {
    char *left = read_whole(a, name), *right = read_whole(b, name);
    const int same = !memcmp(left, right, (1 << 20) + 1) && left[0];
    free(left);
    free(right);
    return same;
}

/* Removes the values of each record that depend on time and memory: all from the loss scale or the perplexity on. */
static void cut_records(char *text) {
    char *to = text;
    for (char *line = text; *line;) {
        char *end = strchr(line, '\n'), *cut;
        *end = 0;
        cut = strstr(line, ", \"loss_scale\"");
        if (!cut)
            cut = strstr(line, ", \"val_perplexity\"");
        CHECK_THAT(cut, "%s", line);
        memmove(to, line, (size_t)(cut - line));
        to += cut - line;
        *to++ = '\n';
        line = end + 1;
    }
    *to = 0;
}

static int same_records(const stopped_run *a, const stopped_run *b) {
    char *left = read_whole(a, "metrics.jsonl"), *right = read_whole(b, "metrics.jsonl");
    drop_events(left);
    drop_events(right);
    cut_records(left);
    cut_records(right);
    const int same = !strcmp(left, right) && left[0];
    if (!same)
        printf("    expected\n%s    found\n%s", left, right);
    free(left);
    free(right);
    return same;
}

static int same_checkpoint(const stopped_run *a, const stopped_run *b, int64_t step) {
    char model[80], optimizer[80];
    snprintf(model, sizeof model, "checkpoint-%lld/model.safetensors", (long long)step);
    snprintf(optimizer, sizeof optimizer, "checkpoint-%lld/optimizer.safetensors", (long long)step);
    return same_file(a, b, model) && same_file(a, b, optimizer);
}

/* Checks the result of a stopped run: a checkpoint of its last step, and all earlier ones. */
static void check_stopped(const stopped_run *s) {
    const eitp_run_report *report = &s->report;
    const unsigned found = checkpoints_of(s);
    eitp_path_info info;
    CHECK(report->end == EITP_RUN_STOPPED && report->stop_reason == 15);
    CHECK_THAT((found & s->checkpoints) == s->checkpoints, "pruned at kernel %ld: %x, %x", s->stop_at, s->checkpoints,
               found);
    CHECK_THAT(s->later == 0 || report->steps_done == s->done + 1, "%ld kernels after the stop", s->later);
    if (report->steps_done)
        CHECK(report->saved_step == report->steps_done && (found >> report->steps_done & 1));
    else /* nothing is saved before step 1, and everything created is removed */
        CHECK(report->saved_step == -1 && !found &&
              !eitp__path_info(&s->host, scratch_path(s->directory, "a"), &info, NULL) &&
              info.kind == EITP_PATH_MISSING);
}

static void stop_everywhere_and_resume(int accumulates, long stride) {
    stopped_run straight;
    long kernels;
    int dropped = 0, completed = 0, before = 0;
    REQUIRE(begin_stopped(&straight));
    straight.accumulates = accumulates;
    CHECK_THAT(!train_stopped(&straight), "%s", error_.message);
    kernels = straight.kernels;
    CHECK_THAT(kernels > 1000, "%ld kernels", kernels);
    for (long at = 1; at <= kernels; at += stride) {
        stopped_run s;
        REQUIRE(begin_stopped(&s));
        s.accumulates = accumulates;
        s.stop_at = at;
        CHECK_THAT(!train_stopped(&s), "%s", error_.message);
        check_stopped(&s);
        before += !s.report.steps_done;
        completed += s.report.steps_done > s.done;
        dropped += s.report.steps_done == s.done;
        s.stop_at = 0;
        s.config.resume = EITP_RESUME_NEWEST;
        CHECK_THAT(!train_stopped(&s), "%s", error_.message);
        CHECK(s.report.end == straight.report.end && s.report.steps_done == straight.report.steps_done);
        CHECK_THAT(s.report.best_step == straight.report.best_step, "best step %d, expected %d",
                   (int)s.report.best_step, (int)straight.report.best_step);
        CHECK_THAT(same_records(&straight, &s), "other records after a stop at kernel %ld", at);
        CHECK_THAT(same_file(&straight, &s, "best.json"), "another best.json after a stop at kernel %ld", at);
        CHECK_THAT(same_checkpoint(&straight, &s, straight.report.steps_done), "other bits, stop at kernel %ld", at);
        scratch_remove(s.directory);
    }
    CHECK_THAT(before > 0 && dropped > 5 && completed > 0, "%d before step 1, %d dropped, %d completed", before,
               dropped, completed);
    scratch_remove(straight.directory);
}

static void runs_stop_everywhere_and_resume(void) {
    stop_everywhere_and_resume(0, test_stride(47, 188));
}

static void runs_that_accumulate_stop_everywhere_and_resume(void) {
    stop_everywhere_and_resume(1, test_stride(97, 388));
}

static const test_case tests[] = {
    TEST(a_step_in_one_pass_is_dropped),
    TEST(a_step_of_several_passes_is_dropped),
    TEST(a_step_that_updates_as_it_goes_is_completed),
    TEST(a_step_with_offloaded_variables_is_dropped),
    TEST(a_step_with_data_workers_is_dropped),
    TEST(other_optimizers_and_forms_are_dropped),
    TEST(an_evaluation_is_dropped),
    TEST(filling_and_loading_are_interrupted),
    TEST(reading_stops_after_a_sample),
    TEST(destroying_reads_no_further_sample),
    TEST(runs_stop_everywhere_and_resume),
    TEST(runs_that_accumulate_stop_everywhere_and_resume),
};

int main(int argc, char **argv) {
    return RUN_TESTS(tests, argc, argv);
}
