/* Checkpoints written by a thread during the next steps, and the queue of writes. */
#include "tests/support/trainer_run.h"

#include <errno.h>
#include <sched.h>

/* ---- Queues ---- */

enum { QUEUE_FILES = 2, QUEUE_BYTES = 3000000, QUEUE_PIECE = 70001 };

static unsigned char content_of(int file, size_t at) {
    return (unsigned char)((at * 2654435761u >> 13) + (size_t)file * 101);
}

/* Writes the pieces of two files alternately, the second one from its end. */
static eitp_status write_pieces(eitp__write_behind *queue, const char *const *paths, eitp_error *error) {
    static unsigned char piece[QUEUE_PIECE];
    eitp__behind_file *files[QUEUE_FILES];
    eitp_status status = EITP_OK;
    for (int i = 0; i < QUEUE_FILES && !status; i++)
        status = eitp__behind_open(queue, paths[i], &files[i], error);
    for (size_t at = 0; at < QUEUE_BYTES && !status; at += QUEUE_PIECE) {
        const size_t size = QUEUE_BYTES - at < QUEUE_PIECE ? QUEUE_BYTES - at : QUEUE_PIECE;
        for (int i = 0; i < QUEUE_FILES && !status; i++) {
            const size_t offset = i ? QUEUE_BYTES - at - size : at;
            for (size_t k = 0; k < size; k++)
                piece[k] = content_of(i, offset + k);
            status = eitp__behind_write(files[i], offset, piece, size, error);
        }
    }
    for (int i = 0; i < QUEUE_FILES && !status; i++)
        eitp__behind_end(files[i]);
    return status ? status : eitp__behind_finish(queue, error);
}

static void check_file(const char *path, int file) {
    const eitp_host host = eitp_host_default();
    eitp__buffer bytes;
    size_t different = 0;
    eitp__buffer_init(&bytes, &host);
    CHECK_THAT(!eitp__read_file(&host, path, (size_t)1 << 24, &bytes, &error_), "%s", error_.message);
    CHECK_THAT(bytes.size == QUEUE_BYTES, "%zu bytes", bytes.size);
    for (size_t i = 0; i < bytes.size; i++)
        different += (unsigned char)bytes.data[i] != content_of(file, i);
    CHECK_THAT(!different, "%s: %zu bytes differ", path, different);
    eitp__buffer_release(&bytes);
}

static int is_there(const char *path) {
    const eitp_host host = eitp_host_default();
    eitp_path_info info;
    return !eitp__path_info(&host, path, &info, NULL) && info.kind != EITP_PATH_MISSING;
}

/* The copies last until the queue is cleared. */
static void write_again(eitp__write_behind *queue, const char *const *paths) {
    for (int i = 0; i < QUEUE_FILES; i++)
        CHECK(!remove(paths[i]));
    CHECK_THAT(!eitp__behind_repeat(queue, &error_) && !eitp__behind_finish(queue, &error_), "%s", error_.message);
}

/* With a queue of no room, too little, enough, and enough for copies of everything. Each is tried twice, with a failure
   in between. */
static void queued_files_are_whole(void) {
    static const uint64_t rooms[] = {0, 1, (uint64_t)QUEUE_FILES * QUEUE_BYTES * 2, (uint64_t)100 << 18};
    char directory[512], names[QUEUE_FILES][600];
    const char *paths[QUEUE_FILES];
    REQUIRE(scratch_make(directory));
    for (int i = 0; i < QUEUE_FILES; i++) {
        snprintf(names[i], sizeof names[i], "%s/file-%d", directory, i);
        paths[i] = names[i];
    }
    for (size_t r = 0; r < EITP__COUNT(rooms); r++) {
        eitp__write_behind *queue = NULL;
        faults f;
        faults_begin(&f);
        REQUIRE_OK(eitp__write_behind_create(&f.host, rooms[r], QUEUE_FILES, &queue, &error_), error_);
        for (int round = 0; round < 3; round++) {
            eitp_status status;
            faults_fail_file_call(&f, round == 1 ? 6 : 0);
            f.all_file_calls = round == 1;
            f.code = ENOSPC;
            status = write_pieces(queue, paths, &error_);
            faults_fail_file_call(&f, 0);
            CHECK_THAT(status == (round == 1 ? EITP_ERROR_IO : EITP_OK), "%s", error_.message);
            if (!status && r == 3)
                write_again(queue, paths);
            CHECK(status || eitp__behind_can_repeat(queue) == (r == 3));
            eitp__write_behind_clear(queue);
            for (int i = 0; i < QUEUE_FILES; i++) {
                char temporary[620];
                snprintf(temporary, sizeof temporary, "%s.tmp", paths[i]);
                CHECK(!is_there(temporary));
                if (!status)
                    check_file(paths[i], i);
            }
        }
        eitp__write_behind_destroy(queue);
        faults_end(&f);
    }
    scratch_remove(directory);
}

/* ---- Runs ---- */

enum { STEPS = 6, EVERY = 2 };

/* A run whose thread is held at its first write until a step is done. */
typedef struct fixture {
    run trained;
    eitp_host real, host;
    char directory[512], output[600];
    eitp_run_config config;
    eitp_run_report report;
    eitp_run *run;
    int64_t opens_at, stop_at; /* in steps; opens_at 0: always open, stop_at 0: never */
    int is_open;               /* the thread may write */
    int code;                  /* error of the thread's failing writes; 0: none fails */
    int failures;              /* number of them */
    int64_t waits_at;          /* the step after which the run waits for the thread to write or fail; 0: none */
    int64_t releases_at;       /* the step after which memory runs short, before the copy is written; 0: never */
    int refuses, is_training;  /* the copy gets no memory */
    int saved_events, async_events, failed_events, lost_events;
    int64_t saved_steps[STEPS], seen_at[STEPS]; /* for each event: its saved step, and the step after which it came */
    char said[2048];
} fixture;

static fixture *now_;
static __thread int is_main_; /* thread */

static int held_write(void *user, void *file, uint64_t offset, const void *data, size_t size, size_t *done) {
    while (!is_main_ && !__atomic_load_n(&now_->is_open, __ATOMIC_ACQUIRE)) {
    }
    if (now_->failures && !is_main_) {
        now_->failures--;
        return now_->code;
    }
    return now_->real.files.write(user, file, offset, data, size, done);
}

/* A copy is a multiple of 256 KiB. */
static void *refusing_allocate(void *user, size_t size, size_t alignment) {
    const int is_copy = size >= (size_t)1 << 20 && size % ((size_t)1 << 18) == 0;
    return now_->refuses && now_->is_training && is_copy ? NULL : now_->real.allocator.allocate(user, size, alignment);
}

static void notice(void *user, const eitp_run_event *event) {
    fixture *f = (fixture *)user;
    if (event->kind == EITP_EVENT_STEP) {
        const int64_t step = event->report->step.step;
        /* Nothing is saved while the thread is held. */
        CHECK(!f->opens_at || f->is_open || event->report->saved_step < 0);
        if (step == f->opens_at)
            __atomic_store_n(&f->is_open, 1, __ATOMIC_RELEASE);
        while (step == f->waits_at && f->run->saves.save && !eitp__save_is_written(f->run->saves.save))
            sched_yield();
        if (step == f->stop_at)
            eitp_run_request_stop(f->run, 15);
        if (step == f->releases_at)
            eitp__async_save_release(f->run);
        return;
    }
    snprintf(f->said + strlen(f->said), sizeof f->said - strlen(f->said), "%s\n", event->message);
    f->failed_events += event->kind == EITP_EVENT_DISK;
    f->lost_events += event->kind == EITP_EVENT_NOT_KEPT;
    if (event->kind != EITP_EVENT_SAVED)
        return;
    f->async_events += strstr(event->message, "training paused") != NULL;
    if (f->saved_events < STEPS) {
        f->saved_steps[f->saved_events] = event->report->saved_step;
        f->seen_at[f->saved_events++] = event->report->step.step;
    }
}

static int begin(fixture *f) {
    memset(f, 0, sizeof *f);
    now_ = f;
    if (!scratch_make(f->directory) || !write_text(f->directory))
        return 0;
    snprintf(f->output, sizeof f->output, "%s/out", f->directory);
    f->real = f->host = eitp_host_default();
    f->host.allocator.allocate = refusing_allocate;
    f->host.files.write = held_write;
    f->host.files.link = NULL;
    f->is_open = 1;
    f->config = eitp_run_config_default();
    f->config.directory = f->output;
    f->config.steps = STEPS;
    f->config.eval_steps = 0;
    f->config.save_steps = EVERY;
    f->config.save_total_limit = 0;
    f->config.async_save_bytes = UINT64_MAX;
    f->config.report_to = NULL;
    f->config.memory_check_seconds = -1;
    f->config.listener.user = f;
    f->config.listener.notify = notice;
    return 1;
}

/* Holds the thread until the end of a step. Without threads the first save would wait for it forever. */
static void hold_until(fixture *f, int64_t step) {
    f->opens_at = EITP__WITH_WORKER ? step : 0;
    f->is_open = !f->opens_at;
}

static eitp_status train(fixture *f) {
    variant v = default_variant();
    eitp_status status;
    v.threads = 1;
    v.isa = "ref";
    status = make_run(&f->trained, &f->host, &v, f->directory, &error_);
    f->said[0] = 0;
    f->saved_events = f->async_events = f->failed_events = f->lost_events = 0;
    if (!status)
        status = eitp_run_open(&f->host, &f->config, &f->run, &error_);
    f->is_training = 1;
    if (!status)
        status = eitp_run_train(f->run, f->trained.trainer, &f->report, &error_);
    f->is_training = 0;
    eitp_run_close(f->run);
    end_run(&f->trained);
    return status;
}

/* The checksum of the weights and state of a checkpoint, which must be complete; 0 if there is none. */
static uint32_t bits_of(const fixture *f, int64_t step) {
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors"};
    char checkpoint[700];
    uint32_t crc = 0;
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-%d", f->output, (int)step);
    if (!is_there(checkpoint))
        return 0;
    CHECK_THAT(!eitp_checkpoint_verify(&f->real, checkpoint, &error_), "%s", error_.message);
    for (int i = 0; i < 2; i++) {
        eitp__buffer bytes;
        eitp__buffer_init(&bytes, &f->real);
        CHECK(!eitp__read_file(&f->real, scratch_path(checkpoint, files[i]), (size_t)1 << 30, &bytes, &error_));
        crc = eitp__crc32c(crc, bytes.data, bytes.size);
        eitp__buffer_release(&bytes);
    }
    return crc;
}

/* The checksums of a run that waits for its saves. */
static const uint32_t *expected_bits(void) {
    static uint32_t bits[STEPS + 1];
    fixture f;
    if (bits[STEPS] || !begin(&f))
        return bits;
    f.config.async_save_bytes = 0;
    f.config.save_steps = 1;
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(f.saved_events == STEPS && !f.async_events);
    for (int64_t step = 1; step <= STEPS; step++)
        bits[step] = bits_of(&f, step);
    scratch_remove(f.directory);
    return bits;
}

/* Checks that the output holds a checkpoint of each of these steps and nothing else but run.json. */
static void check_output(const fixture *f, const char *steps) {
    const uint32_t *bits = expected_bits();
    eitp__buffer names;
    char left[400] = "";
    size_t count = 0;
    now_ = (fixture *)f;
    eitp__buffer_init(&names, &f->real);
    CHECK(!eitp__list_directory(&f->real, f->output, &names, &count, &error_));
    for (size_t i = 0, at = 0; i < count; i++) {
        const char *name = names.data + at;
        const int64_t step = eitp__checkpoint_step(name);
        if (strcmp(name, "run.json") != 0)
            snprintf(left + strlen(left), sizeof left - strlen(left), "%s%s", *left ? " " : "",
                     step < 0 ? name : name + strlen("checkpoint-"));
        CHECK_THAT(step < 0 || bits_of(f, step) == bits[step], "the bits of step %d differ", (int)step);
        at += strlen(name) + 1;
    }
    eitp__buffer_release(&names);
    CHECK_THAT(!strcmp(left, steps), "left are %s, not %s", left, steps);
}

static void saves_are_written_beside_steps(void) {
    fixture f;
    expected_bits();
    REQUIRE(begin(&f));
    hold_until(&f, 3);
    REQUIRE_OK(train(&f), error_);
    CHECK_THAT(f.saved_events == 3 && f.async_events == 2, "%d saves, %d of them beside steps", f.saved_events,
               f.async_events);
    CHECK(f.saved_steps[0] == 2 && f.saved_steps[1] == 4 && f.saved_steps[2] == 6);
    CHECK(!EITP__WITH_WORKER || f.seen_at[0] > 2);
    CHECK(f.report.saved_step == STEPS);
    check_output(&f, "2 4 6");
    scratch_remove(f.directory);
}

/* A save that comes due during another waits for it. */
static void one_save_waits_for_another(void) {
    fixture f;
    REQUIRE(begin(&f));
    f.config.save_steps = 1;
    f.config.save_total_limit = 2;
    REQUIRE_OK(train(&f), error_);
    CHECK(f.saved_events == STEPS);
    for (int i = 0; i < f.saved_events; i++)
        CHECK(f.saved_steps[i] == i + 1);
    check_output(&f, "5 6");
    scratch_remove(f.directory);
}

/* The thread is held until step 3, and fails to write checkpoint-2 `failures` times. */
static int begin_failing(fixture *f, int code, int failures) {
    if (!EITP__WITH_WORKER) {
        printf("SKIPPED: a failure of the thread, since there are no threads\n");
        return 0;
    }
    if (!begin(f))
        return 0;
    hold_until(f, 3);
    f->code = code;
    f->failures = failures;
    return 1;
}

static void a_failed_copy_is_written_again(void) {
    static const int codes[] = {ENOSPC, EIO, EACCES};
    for (size_t i = 0; i < EITP__COUNT(codes); i++) {
        fixture f;
        /* A read or write that fails with EIO is retried internally. */
        if (!begin_failing(&f, codes[i], codes[i] == EIO ? 1 + EITP__FILE_RETRIES : 1))
            return;
        REQUIRE_OK(train(&f), error_);
        CHECK_THAT(f.failed_events == 1 && strstr(f.said, "checkpoint-2 could not be written in the background: "),
                   "%s", f.said);
        CHECK(f.saved_events == 3 && f.saved_steps[0] == 2 && f.saved_steps[1] == 4 && f.saved_steps[2] == 6);
        CHECK(!f.failures && f.report.saved_step == STEPS);
        check_output(&f, "2 4 6");
        scratch_remove(f.directory);
    }
}

/* The first two attempts fail with EACCES, which is not treated as momentary. */
static void a_copy_that_cannot_be_written_is_replaced_by_the_steps_done(void) {
    fixture f;
    if (!begin_failing(&f, EACCES, 2))
        return;
    REQUIRE_OK(train(&f), error_);
    CHECK_THAT(f.failed_events == 2 && strstr(f.said, "checkpoint-2 could not be written: "), "%s", f.said);
    /* It is noticed after step 3, or when step 4 is to be saved. */
    CHECK(f.saved_steps[0] == 3 || f.saved_steps[0] == 4);
    CHECK(!f.failures && !f.lost_events && f.report.saved_step == STEPS);
    check_output(&f, f.saved_steps[0] == 3 ? "3 4 6" : "4 6");
    scratch_remove(f.directory);
}

/* Checks that the evaluation of step 2 was reported as lost, and that the recorded best checkpoint exists. */
static void check_lost(const fixture *f, const char *why) {
    const eitp_host *host = &f->real;
    char name[64];
    eitp__buffer text;
    CHECK_THAT(f->lost_events == 1 && strstr(f->said, "checkpoint-2, the best so far, was not kept: ") &&
                   strstr(f->said, why),
               "%s", f->said);
    CHECK(!is_there(scratch_path(f->output, "checkpoint-2")));
    snprintf(name, sizeof name, "checkpoint-%d", (int)f->report.best_step);
    CHECK_THAT(f->report.best_step > 2 && is_there(scratch_path(f->output, name)), "%s", name);
    eitp__buffer_init(&text, host);
    CHECK(!eitp__read_file(host, scratch_path(f->output, "best.json"), 10000, &text, &error_));
    snprintf(name, sizeof name, "\"best\": {\"step\": %d, ", (int)f->report.best_step);
    CHECK_THAT(strstr(text.data, name) && strstr(text.data, ", \"lost\": true}"), "%s", text.data);
    eitp__buffer_release(&text);
}

static void a_best_checkpoint_that_is_not_kept_is_reported(void) {
    for (int is_short = 0; is_short < 2; is_short++) {
        fixture f;
        if (!begin_failing(&f, EACCES, is_short ? 1 : 2))
            return;
        f.config.eval_steps = 2;
        f.config.eval_samples = 2;
        f.config.keep_best = "loss";
        f.releases_at = is_short ? 3 : 0;
        f.waits_at = is_short ? 0 : 4; /* before its evaluation, which may be better */
        REQUIRE_OK(train(&f), error_);
        check_lost(&f, is_short ? "memory was short" : "could not be written");
        scratch_remove(f.directory);
    }
}

static void without_memory_for_a_copy_saves_wait(void) {
    fixture f;
    REQUIRE(begin(&f));
    f.refuses = 1;
    REQUIRE_OK(train(&f), error_);
    CHECK_THAT(f.saved_events == 3 && !f.async_events, "%s", f.said);
    check_output(&f, "2 4 6");
    scratch_remove(f.directory);
    REQUIRE(begin(&f));
    f.config.async_save_bytes = 1000;
    REQUIRE_OK(train(&f), error_);
    CHECK_THAT(f.saved_events == 3 && !f.async_events, "%s", f.said);
    scratch_remove(f.directory);
}

/* A checkpoint being written when a run is stopped is completed, and the steps done are saved. */
static void a_stop_finishes_the_copy(void) {
    fixture f;
    REQUIRE(begin(&f));
    hold_until(&f, 3);
    f.stop_at = 3;
    REQUIRE_OK(train(&f), error_);
    CHECK(f.report.end == EITP_RUN_STOPPED && f.report.saved_step == 3);
    check_output(&f, "2 3");
    f.config.resume = EITP_RESUME_NEWEST;
    f.stop_at = 0;
    REQUIRE_OK(train(&f), error_);
    check_output(&f, "2 3 4 6");
    scratch_remove(f.directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(queued_files_are_whole),
        TEST(saves_are_written_beside_steps),
        TEST(one_save_waits_for_another),
        TEST(a_failed_copy_is_written_again),
        TEST(a_copy_that_cannot_be_written_is_replaced_by_the_steps_done),
        TEST(a_best_checkpoint_that_is_not_kept_is_reported),
        TEST(without_memory_for_a_copy_saves_wait),
        TEST(a_stop_finishes_the_copy),
    };
    is_main_ = 1;
    return RUN_TESTS(tests, argc, argv);
}
