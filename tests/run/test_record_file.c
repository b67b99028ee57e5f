/* Record files: the queue, its thread, a disk that fails, and one that stalls. */
#include "tests/support/faults.h"
#include "tests/support/own_task.h"

#include <sys/stat.h>
#include <unistd.h>

#if EITP__WITH_WORKER
#include <pthread.h>
#endif

static eitp_error error_;

/* ---- A disk in memory that can fail and stall ---- */

enum { SLOW_SIZE = 1 << 22 };

/* Files of one path. Functions that are not replaced come from the fault host. */
typedef struct slow {
    faults f;
    eitp_host host; /* the fault host, with the calls of this disk */
    unsigned char *content;
    uint64_t size;
    int discards;      /* only counts the content */
    uint64_t newlines; /* in the content */
    int refused;       /* number of writes that fail after half of the data */
    int writes, resizes, syncs;
    int own_calls; /* calls on the thread that created this struct */
#if EITP__WITH_WORKER
    pthread_t owner;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int stalls, in_call; /* calls wait; number of calls that do */
#endif
} slow;

static void slow_enter(slow *s) {
#if EITP__WITH_WORKER
    if (pthread_equal(pthread_self(), s->owner))
        s->own_calls++;
    pthread_mutex_lock(&s->mutex);
    s->in_call++;
    pthread_cond_broadcast(&s->changed);
    while (s->stalls)
        pthread_cond_wait(&s->changed, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
#else
    s->own_calls++;
#endif
}

static void slow_leave(slow *s) {
#if EITP__WITH_WORKER
    pthread_mutex_lock(&s->mutex);
    s->in_call--;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
#else
    (void)s;
#endif
}

/* Writes half of the data of a refused write. */
static int slow_put(slow *s, uint64_t offset, const void *data, size_t size, size_t *done) {
    const int refuses = __atomic_load_n(&s->refused, __ATOMIC_RELAXED) > 0;
    const size_t put = refuses ? size / 2 : size;
    for (size_t i = 0; i < put && s->discards; i++)
        s->newlines += ((const char *)data)[i] == '\n';
    if (!s->discards && offset + put > SLOW_SIZE)
        return EFBIG;
    if (!s->discards)
        memcpy(s->content + offset, data, put);
    s->size = offset + put > s->size ? offset + put : s->size;
    s->writes++;
    *done = put;
    if (refuses)
        __atomic_fetch_sub(&s->refused, 1, __ATOMIC_RELAXED);
    return refuses ? ENOSPC : 0;
}

static int slow_write(void *user, void *file, uint64_t offset, const void *data, size_t size, size_t *done) {
    slow *s = (slow *)user;
    int code;
    (void)file;
    slow_enter(s);
    code = slow_put(s, offset, data, size, done);
    slow_leave(s);
    return code;
}

static int slow_resize(void *user, void *file, uint64_t size) {
    slow *s = (slow *)user;
    (void)file;
    slow_enter(s);
    s->resizes++;
    s->size = size;
    slow_leave(s);
    return 0;
}

static int slow_sync(void *user, void *file) {
    slow *s = (slow *)user;
    (void)file;
    slow_enter(s);
    s->syncs++;
    slow_leave(s);
    return 0;
}

static int slow_open(void *user, const char *path, eitp_file_mode mode, void **file) {
    slow *s = (slow *)user;
    (void)path;
    CHECK(mode == EITP_FILE_UPDATE);
    *file = s;
    __atomic_add_fetch(&s->f.open_files, 1, __ATOMIC_RELAXED);
    return 0;
}

static int slow_close(void *user, void *file) {
    slow *s = (slow *)user;
    CHECK(file == s);
    __atomic_sub_fetch(&s->f.open_files, 1, __ATOMIC_RELAXED);
    return 0;
}

static int slow_get_size(void *user, void *file, uint64_t *size) {
    (void)file;
    *size = ((slow *)user)->size;
    return 0;
}

static int slow_read(void *user, void *file, uint64_t offset, void *data, size_t size, size_t *done) {
    slow *s = (slow *)user;
    const uint64_t left = offset < s->size ? s->size - offset : 0;
    (void)file;
    *done = size < left ? size : (size_t)left;
    memcpy(data, s->content + offset, *done);
    return 0;
}

static void slow_wait(void *user, double seconds) {
    (void)user, (void)seconds;
}

static int slow_begin(slow *s) {
    memset(s, 0, sizeof *s);
    faults_begin(&s->f);
    s->content = (unsigned char *)calloc(SLOW_SIZE, 1);
    s->host = s->f.host;
    s->host.files.user = s;
    s->host.files.open = slow_open;
    s->host.files.close = slow_close;
    s->host.files.size = slow_get_size;
    s->host.files.read = slow_read;
    s->host.files.write = slow_write;
    s->host.files.resize = slow_resize;
    s->host.files.sync = slow_sync;
    s->host.files.wait = slow_wait;
#if EITP__WITH_WORKER
    s->owner = pthread_self();
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
#endif
    return s->content != NULL;
}

static void slow_end(slow *s) {
    free(s->content);
    faults_end(&s->f);
}

static int text_is(const slow *s, const char *text) {
    return s->size == strlen(text) && !memcmp(s->content, text, strlen(text));
}

/* ---- The queue ---- */

static eitp__queued_file *open_file(slow *s) {
    eitp__queued_file *file = NULL;
    CHECK_THAT(!eitp__queued_file_open(&s->host, "r", &file, &error_), "%s", error_.message);
    return file;
}

static eitp_status append(eitp__queued_file *file, const char *text) {
    return eitp__queued_file_append(file, text, strlen(text), &error_);
}

static void records_are_appended(void) {
    slow s;
    eitp__queued_file *file;
    char text[8] = "";
    size_t done = 0;
    REQUIRE(slow_begin(&s));
    memcpy(s.content, "old\ntorn", 8);
    s.size = 8;
    REQUIRE((file = open_file(&s)) != NULL);
    CHECK(!eitp__queued_file_pause(file, &error_));
    CHECK(!eitp__queued_file_read(file, 1, text, 3, &done, &error_) && done == 3 && !memcmp(text, "ld\n", 3));
    CHECK(!eitp__queued_file_cut(file, 4, &error_));
    CHECK(!append(file, "a\n") && !append(file, "bc\n"));
    CHECK(!eitp__queued_file_sync(file, &error_) && s.syncs == 1 && text_is(&s, "old\na\nbc\n"));
    CHECK(!append(file, "d\n"));
    eitp__queued_file_close(file);
    CHECK(text_is(&s, "old\na\nbc\nd\n") && s.syncs == 1);
    eitp__queued_file_close(NULL);
    slow_end(&s);
}

/* Records of all sizes, across the end of the ring, with writes that transfer less than requested. */
static void every_size_is_written_whole(void) {
    const size_t limit = (size_t)3 << 20;
    slow s;
    eitp__queued_file *file;
    unsigned char *expected = (unsigned char *)malloc(SLOW_SIZE);
    size_t size = 0;
    uint32_t state = 7;
    REQUIRE(expected && slow_begin(&s) && (file = open_file(&s)) != NULL);
    for (int i = 0; size < limit; i++) {
        size_t length;
        state = state * 1664525u + 1013904223u;
        length = 1 + (state >> 8) % (i % 50 == 0 ? 60000 : 400);
        for (size_t k = 0; k < length; k++)
            expected[size + k] = (unsigned char)(i + (int)(k % 251)); /* differs from piece to piece */
        CHECK_THAT(!eitp__queued_file_append(file, expected + size, length, &error_), "%s", error_.message);
        size += length;
        if (i % 64 == 63)
            CHECK_THAT(!eitp__queued_file_sync(file, &error_), "%s", error_.message);
    }
    CHECK(!eitp__queued_file_sync(file, &error_) && !eitp__queued_file_lost(file));
    CHECK(s.size == size && !memcmp(s.content, expected, size));
    eitp__queued_file_close(file);
    free(expected);
    slow_end(&s);
}

static void a_record_larger_than_the_queue_is_dropped(void) {
    slow s;
    eitp__queued_file *file;
    char *large = (char *)calloc(EITP__QUEUE_BYTES + 1, 1);
    REQUIRE(large && slow_begin(&s) && (file = open_file(&s)) != NULL);
    CHECK(eitp__queued_file_append(file, large, EITP__QUEUE_BYTES + 1, &error_) == EITP_ERROR_IO);
    CHECK(eitp__queued_file_append(file, large, EITP__QUEUE_BYTES - 3, &error_) == EITP_ERROR_IO);
    CHECK(eitp__queued_file_lost(file) == 2 && !append(file, "a\n") && !eitp__queued_file_sync(file, &error_));
    CHECK(text_is(&s, "a\n"));
    eitp__queued_file_close(file);
    free(large);
    slow_end(&s);
}

/* A million records: no allocation and no file call on the thread that makes them, and one copy of each. */
static void a_million_records_allocate_nothing(void) {
    const int64_t count = test_stride(1000000, 100000);
    const eitp_value values[] = {{"loss", EITP_VALUE_NUMBER, 0.125, 0, NULL}, {"lr", EITP_VALUE_NUMBER, 1, 0, NULL}};
    eitp_record record = {EITP_RECORD_STEP, 0, 1.5, 2.5, values, 2};
    eitp_record_file *jsonl = NULL;
    eitp_record_sink sink;
    slow s;
    long allocations;
    size_t bytes;
    int own_calls;
    REQUIRE(slow_begin(&s));
    s.discards = 1;
    REQUIRE_OK(eitp_jsonl_open(&s.host, "r", &jsonl, &error_), error_);
    sink = eitp_record_file_sink(jsonl);
    allocations = s.f.allocations;
    bytes = s.f.live_bytes;
    own_calls = s.own_calls;
    CHECK_THAT(bytes < (size_t)1200000, "%d bytes", (int)bytes);
    for (record.step = 1; record.step <= count; record.step++) {
        CHECK_THAT(!sink.record(sink.user, &record, &error_), "%s", error_.message);
        if (record.step % 4000 == 0)
            CHECK(!sink.sync(sink.user, &error_));
    }
    CHECK(!sink.sync(sink.user, &error_) && !sink.lost(sink.user));
    CHECK_THAT(s.newlines == (uint64_t)count, "%llu lines", (unsigned long long)s.newlines);
    CHECK(s.f.allocations == allocations && s.f.live_bytes == bytes && s.f.peak_bytes == bytes);
#if EITP__WITH_WORKER
    CHECK_THAT(s.own_calls == own_calls, "%d calls", s.own_calls - own_calls);
    /* Every write has many records. */
    CHECK_THAT(s.writes < count / 20, "%d writes", s.writes);
#endif
    (void)own_calls;
    eitp_record_file_close(jsonl);
    slow_end(&s);
}

/* ---- A disk that fails ---- */

static void what_fails_is_kept_and_written_later(void) {
    slow s;
    eitp__queued_file *file;
    int has_failed = 0;
    REQUIRE(slow_begin(&s) && (file = open_file(&s)) != NULL);
    CHECK(!append(file, "first\n") && !eitp__queued_file_sync(file, &error_));
    s.refused = 1000000;
    for (int i = 0; i < 3; i++) {
        append(file, i ? "lost?\n" : "kept\n");
        CHECK(eitp__queued_file_sync(file, &error_) == EITP_ERROR_IO);
        CHECK_THAT(strstr(error_.message, "'r'") && strstr(error_.message, "no space left"), "%s", error_.message);
        CHECK(text_is(&s, "first\n") && eitp__queued_file_lost(file) == 1 + i);
        has_failed |= s.resizes > 0;
    }
    CHECK(has_failed && append(file, "reported\n") == EITP_ERROR_IO && eitp__queued_file_lost(file) == 4);
    __atomic_store_n(&s.refused, 0, __ATOMIC_RELAXED);
    CHECK(!eitp__queued_file_sync(file, &error_) && !eitp__queued_file_lost(file));
    CHECK(!append(file, "last\n") && !eitp__queued_file_sync(file, &error_));
    CHECK(text_is(&s, "first\nkept\nlost?\nlost?\nreported\nlast\n"));
    eitp__queued_file_close(file);
    slow_end(&s);
}

static void a_full_queue_drops_records(void) {
    const int64_t all = 200000; /* records of 6 and 4 bytes: more than the queue holds */
    slow s;
    eitp__queued_file *file;
    int64_t lost;
    REQUIRE(slow_begin(&s) && (file = open_file(&s)) != NULL);
    s.refused = 1000000;
    for (int64_t i = 0; i < all; i++)
        append(file, "12345\n");
    CHECK(eitp__queued_file_sync(file, &error_) == EITP_ERROR_IO && eitp__queued_file_lost(file) == all);
    __atomic_store_n(&s.refused, 0, __ATOMIC_RELAXED);
    CHECK(!eitp__queued_file_sync(file, &error_));
    lost = eitp__queued_file_lost(file);
    CHECK_THAT(lost == all - (int64_t)(EITP__QUEUE_BYTES / 10) && s.size == (uint64_t)(all - lost) * 6,
               "%d lost, %d bytes", (int)lost, (int)s.size);
    eitp__queued_file_close(file);
    slow_end(&s);
}

static eitp_status use_file(const eitp_host *host, const char *path) {
    eitp__queued_file *file;
    char text[8];
    size_t done;
    eitp_status status = eitp__queued_file_open(host, path, &file, &error_);
    if (status)
        return status;
    status = eitp__queued_file_append(file, "a\n", 2, &error_);
    if (!status)
        status = eitp__queued_file_sync(file, &error_);
    if (!status)
        status = eitp__queued_file_pause(file, &error_);
    if (!status)
        status = eitp__queued_file_read(file, 0, text, 2, &done, &error_);
    if (!status)
        status = eitp__queued_file_cut(file, 0, &error_);
    if (!status)
        status = eitp__queued_file_append(file, "b\n", 2, &error_);
    eitp__queued_file_close(file);
    return status;
}

static void every_call_may_fail(void) {
    char directory[512];
    faults f;
    int happened = 1;
    REQUIRE(scratch_make(directory));
    for (int of_calls = 0; of_calls < 2; of_calls++) {
        for (long n = 1; happened; n++) {
            faults_begin(&f);
            if (of_calls)
                faults_fail_file_call(&f, n);
            else
                f.fail_allocation = n;
            use_file(&f.host, scratch_path(directory, "r"));
            happened = faults_end(&f);
        }
        happened = 1;
    }
    scratch_remove(directory);
}

/* ---- A disk that stalls ---- */

#if EITP__WITH_WORKER

static void set_stalls(slow *s, int stalls) {
    pthread_mutex_lock(&s->mutex);
    s->stalls = stalls;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

/* Waits until a call of the file's thread stalls, or until none does. */
static void await_calls(slow *s, int in_call) {
    pthread_mutex_lock(&s->mutex);
    while (s->in_call != in_call)
        pthread_cond_wait(&s->changed, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
}

/* Ends the stall, and waits until the file's thread has noticed. */
static void end_stall(slow *s, eitp__queued_file *file) {
    eitp__queued_file_set_times(file, 0, 600);
    set_stalls(s, 0);
    while (eitp__queued_file_sync(file, &error_))
        CHECK_THAT(strstr(error_.message, "has not been written"), "%s", error_.message);
}

static void a_stalled_disk_is_reported_and_recovers(void) {
    slow s;
    eitp__queued_file *file;
    REQUIRE(slow_begin(&s) && (file = open_file(&s)) != NULL);
    eitp__queued_file_set_times(file, 0, 0.01);
    set_stalls(&s, 1);
    append(file, "a\n");
    await_calls(&s, 1);
    for (int i = 0; i < 2; i++) {
        CHECK(eitp__queued_file_sync(file, &error_) == EITP_ERROR_IO);
        CHECK_THAT(strstr(error_.message, "'r' has not been written for 0 s"), "%s", error_.message);
    }
    CHECK(append(file, "b\n") == EITP_ERROR_IO && eitp__queued_file_lost(file) == 2);
    CHECK(eitp__queued_file_pause(file, &error_) == EITP_ERROR_IO);
    for (int i = 0; i < 200000; i++)
        append(file, "12345\n");
    CHECK(eitp__queued_file_lost(file) == 200002);
    end_stall(&s, file);
    CHECK(eitp__queued_file_lost(file) > 90000 && !append(file, "c\n") && !eitp__queued_file_sync(file, &error_));
    CHECK(!memcmp(s.content, "a\nb\n12345\n", 10) && !memcmp(s.content + s.size - 8, "12345\nc\n", 8));
    eitp__queued_file_close(file);
    slow_end(&s);
}

/* The first wait is bounded. After it nothing waits until the call returns; otherwise this test would hang. */
static void a_stall_is_waited_for_once(void) {
    slow s;
    eitp__queued_file *file;
    REQUIRE(slow_begin(&s) && (file = open_file(&s)) != NULL);
    eitp__queued_file_set_times(file, 0, 0.01);
    set_stalls(&s, 1);
    append(file, "a\n");
    await_calls(&s, 1);
    CHECK(eitp__queued_file_sync(file, &error_) == EITP_ERROR_IO);
    eitp__queued_file_set_times(file, 0, 1e9);
    CHECK(eitp__queued_file_sync(file, &error_) == EITP_ERROR_IO);
    set_stalls(&s, 0);
    eitp__queued_file_close(file);
    CHECK(s.f.open_files == 0 || s.f.open_files == 1); /* depends on whether the call has returned */
    s.f.open_files = 0;
    await_calls(&s, 0);
    slow_end(&s);
}

/* The file's former memory is filled with other bytes before the call returns. */
static void a_file_closed_in_a_stall_is_abandoned(void) {
    static slow s; /* outlives the thread */
    eitp__queued_file *file;
    int calls;
    REQUIRE(slow_begin(&s) && (file = open_file(&s)) != NULL);
    eitp__queued_file_set_times(file, 0, 0.01);
    set_stalls(&s, 1);
    append(file, "from the stack\n");
    await_calls(&s, 1);
    append(file, "never written\n");
    eitp__queued_file_close(file);
    CHECK_THAT(s.f.live_blocks == 0 && s.f.open_files == 1, "%ld blocks, %ld files", s.f.live_blocks, s.f.open_files);
    calls = s.writes + s.resizes + s.syncs;
    set_stalls(&s, 0);
    await_calls(&s, 0);
    for (int i = 0; i < 50; i++)
        eitp__system_files().wait(NULL, 0.001); /* the thread ends in the meantime */
    pthread_mutex_lock(&s.mutex);
    CHECK_THAT(s.writes + s.resizes + s.syncs <= calls + 1, "%d calls", s.writes + s.resizes + s.syncs);
    CHECK(text_is(&s, "from the stack\n"));
    pthread_mutex_unlock(&s.mutex);
    s.f.open_files = 0;
    slow_end(&s);
}

/* ---- Runs ---- */

typedef struct said {
    char text[8192];
    slow *s;
    eitp__queued_file *file;
    int64_t release_after; /* the stall ends after this step; 0: not before the run ends */
    int steps, saved;
} said;

static void hear(void *user, const eitp_run_event *event) {
    said *heard = (said *)user;
    if (event->kind == EITP_EVENT_STEP && event->report->step.step == heard->release_after)
        end_stall(heard->s, heard->file);
    heard->steps += event->kind == EITP_EVENT_STEP;
    heard->saved += event->kind == EITP_EVENT_SAVED;
    if (event->kind != EITP_EVENT_STEP && strlen(heard->text) + strlen(event->message) + 2 < sizeof heard->text)
        strcat(strcat(heard->text, event->message), "\n");
}

static void train_on_a_stalled_disk(int64_t release_after) {
    enum { STEPS = 8 };
    static slow s;
    own o;
    said heard;
    char directory[512], output[600];
    eitp_run_config config = eitp_run_config_default();
    eitp_host host = eitp_host_default();
    eitp_run_report report;
    eitp_run *trained = NULL;
    eitp_record_file *jsonl = NULL;
    eitp_record_sink sink;
    eitp_checkpoint_info info;
    memset(&heard, 0, sizeof heard);
    REQUIRE(slow_begin(&s) && scratch_make(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    REQUIRE_OK(own_begin(&o, &host, "fp32", OWN_ROW, &error_), error_);
    REQUIRE_OK(own_train(&o, &error_), error_);
    REQUIRE_OK(eitp_jsonl_open(&s.host, "r", &jsonl, &error_), error_);
    heard.file = jsonl->queue;
    eitp__queued_file_set_times(heard.file, 0, 0.01);
    sink = eitp_record_file_sink(jsonl);
    sink.resume = NULL; /* before the run, it would wait for the disk */
    set_stalls(&s, 1);
    heard.s = &s;
    heard.release_after = release_after;
    config.directory = output;
    config.steps = STEPS;
    config.eval_steps = 0;
    config.save_steps = 2;
    config.memory_check_seconds = -1;
    config.report_to = NULL;
    config.sinks = &sink;
    config.sink_count = 1;
    config.listener.user = &heard;
    config.listener.notify = hear;
    REQUIRE_OK(eitp_run_open(&host, &config, &trained, &error_), error_);
    CHECK_THAT(!eitp_run_train(trained, o.trainer, &report, &error_), "%s", error_.message);
    CHECK(report.end == EITP_RUN_FINISHED && heard.steps == STEPS && heard.saved == STEPS / 2);
    CHECK(!eitp_checkpoint_read_info(&host, scratch_path(output, "checkpoint-8"), &info, &error_));
    CHECK_THAT(strstr(heard.text, "cannot store records: 'r' has not been "
                                  "written for 0 s"),
               "%s", heard.text);
    if (release_after) {
        CHECK_THAT(report.lost_records == 0 && strstr(heard.text, "records are stored again (lost so far: 0)"), "%s",
                   heard.text);
    } else {
        CHECK_THAT(report.lost_records >= STEPS && strstr(heard.text, "records could not be stored"), "%d: %s",
                   (int)report.lost_records, heard.text);
        CHECK(!strstr(heard.text, "stored again"));
        end_stall(&s, heard.file);
    }
    eitp_run_close(trained);
    eitp_record_file_close(jsonl);
    own_end(&o);
    scratch_remove(directory);
    slow_end(&s);
}

static void steps_and_checkpoints_do_not_wait_for_a_stalled_disk(void) {
    train_on_a_stalled_disk(0);
}

static void a_run_recovers_from_a_stall(void) {
    train_on_a_stalled_disk(5);
}

#endif

/* ---- Other programs ---- */

static void count_warning(void *user, eitp_log_level level, const char *message) {
    *(int *)user += level == EITP_LOG_WARNING && strstr(message, "was removed or truncated") != NULL;
}

static int file_has(const char *path, const char *text) {
    char content[100];
    FILE *file = fopen(path, "rb");
    const size_t size = file ? fread(content, 1, sizeof content, file) : 0;
    if (file)
        fclose(file);
    return file && size == strlen(text) && !memcmp(content, text, size);
}

static void append_and_sync(eitp__queued_file *file, const char *text) {
    CHECK_THAT(!append(file, text) && !eitp__queued_file_sync(file, &error_), "%s", error_.message);
}

/* As logrotate does: the file is moved, truncated in place, or replaced. */
static void a_file_that_others_change_is_followed(void) {
    eitp_host host = eitp_host_default();
    char directory[512], path[600], moved[600];
    eitp__queued_file *file = NULL;
    int warnings = 0;
    REQUIRE(scratch_make(directory));
    snprintf(path, sizeof path, "%s", scratch_path(directory, "r"));
    snprintf(moved, sizeof moved, "%s", scratch_path(directory, "r.1"));
    host.log.user = &warnings;
    host.log.write = count_warning;
    REQUIRE_OK(eitp__queued_file_open(&host, path, &file, &error_), error_);
    eitp__queued_file_set_lead(file, "names\n", 6);
    append_and_sync(file, "a\n");
    CHECK(file_has(path, "a\n") && !warnings);
    CHECK(!rename(path, moved));
    append_and_sync(file, "b\n");
    CHECK(file_has(path, "names\nb\n") && file_has(moved, "a\n"));
    CHECK(!truncate(path, 0));
    append_and_sync(file, "c\n");
    CHECK(file_has(path, "names\nc\n"));
    CHECK(!rename(path, moved) && !eitp__write_file(&host, path, "x\n", 2, &error_));
    append_and_sync(file, "d\n");
    CHECK(file_has(path, "x\nd\n"));
    CHECK(!unlink(path) && !append(file, "e\n"));
    eitp__queued_file_close(file);
    CHECK(file_has(path, "names\ne\n"));
    CHECK_THAT(warnings == 1, "%d warnings", warnings);
    scratch_remove(directory);
}

static void a_link_is_refused(void) {
    const eitp_host host = eitp_host_default();
    char directory[512], path[600], target[600];
    eitp__queued_file *file = NULL;
    void *handle = NULL;
    REQUIRE(scratch_make(directory));
    snprintf(path, sizeof path, "%s", scratch_path(directory, "r"));
    snprintf(target, sizeof target, "%s", scratch_path(directory, "target"));
    CHECK(!eitp__write_file(&host, target, "x\n", 2, &error_) && !symlink("target", path));
    CHECK(eitp__queued_file_open(&host, path, &file, &error_) == EITP_ERROR_ARGUMENT && !file);
    CHECK_THAT(strstr(error_.message, "is a symbolic link") != NULL, "%s", error_.message);
    CHECK(host.files.open(host.files.user, path, EITP_FILE_UPDATE, &handle) == ELOOP);
    CHECK(file_has(target, "x\n"));
    CHECK(!unlink(path) && !mkfifo(path, 0600));
    CHECK(eitp__queued_file_open(&host, path, &file, &error_) == EITP_ERROR_ARGUMENT && !file);
    scratch_remove(directory);
}

static const test_case tests[] = {
    TEST(records_are_appended),
    TEST(every_size_is_written_whole),
    TEST(a_record_larger_than_the_queue_is_dropped),
    TEST(a_million_records_allocate_nothing),
    TEST(what_fails_is_kept_and_written_later),
    TEST(a_full_queue_drops_records),
    TEST(every_call_may_fail),
    TEST(a_file_that_others_change_is_followed),
    TEST(a_link_is_refused),
#if EITP__WITH_WORKER
    TEST(a_stalled_disk_is_reported_and_recovers),
    TEST(a_stall_is_waited_for_once),
    TEST(a_file_closed_in_a_stall_is_abandoned),
    TEST(steps_and_checkpoints_do_not_wait_for_a_stalled_disk),
    TEST(a_run_recovers_from_a_stall),
#endif
};

int main(int argc, char **argv) {
    return RUN_TESTS(tests, argc, argv);
}
