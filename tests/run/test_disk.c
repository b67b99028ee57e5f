/* Runs on disks that are full, small or failing: the checks before the first step, and saves. */
#include "tests/support/trainer_run.h"

#include <errno.h>

/* A disk of `capacity` bytes below a test's directory; it holds the newest files of the run. */
typedef struct disk {
    eitp_host real;
    char directory[600]; /* its content counts towards the capacity */
    uint64_t capacity, largest_file;
    double waited, frees_after; /* after this many seconds of waiting `freed` bytes are added; 0: never */
    uint64_t freed;
    double stops_after; /* requests a stop after this many seconds; 0: never */
    eitp_run *run;
    int files, most_files; /* open now; the limit (0: none) */
    int failing_syncs;     /* number of calls that fail with EIO */
    int syncs_before;      /* number that succeed before them */
    int failing_reads;     /* number of reads of the token file that fail with EIO; -1: all */
    void *tokens;          /* the token file */
    int truncates;         /* reads of the token file return nothing */
    int garbles;           /* reads of the token file return ids outside the vocabulary */
    int stops_reading;     /* the first long read of the token file after a step requests a stop */
    int reads_after_stop;  /* of the token file */
} disk;

static disk d;

static uint64_t disk_free(void) {
    const uint64_t used = eitp__tree_bytes(&d.real, d.directory);
    return used < d.capacity ? d.capacity - used : 0;
}

static int disk_open(void *user, const char *path, eitp_file_mode mode, void **file) {
    int code = d.most_files && d.files >= d.most_files ? EMFILE : d.real.files.open(user, path, mode, file);
    if (!code)
        d.files++;
    if (!code && strstr(path, ".tokens"))
        d.tokens = *file;
    return code;
}

static int disk_close(void *user, void *file) {
    d.files--;
    if (file == d.tokens)
        d.tokens = NULL;
    return d.real.files.close(user, file);
}

/* Writes as much as fits, as a file system does. */
static int disk_write(void *user, void *file, uint64_t offset, const void *data, size_t size, size_t *done) {
    uint64_t left = disk_free(), old = 0;
    d.real.files.size(user, file, &old);
    left += old > offset ? old - offset : 0;
    if (d.largest_file && offset + size > d.largest_file) {
        if (offset >= d.largest_file)
            return EFBIG;
        size = (size_t)(d.largest_file - offset);
    }
    if (size > left)
        size = (size_t)left;
    return size ? d.real.files.write(user, file, offset, data, size, done) : ENOSPC;
}

static int is_stopped(void *user) {
    (void)user;
    return d.run && d.run->stop;
}

static int disk_read(void *user, void *file, uint64_t offset, void *data, size_t size, size_t *done) {
    if (file == d.tokens && d.truncates) {
        *done = 0;
        return 0;
    }
    if (file == d.tokens && d.garbles) {
        memset(data, 255, size);
        *done = size;
        return 0;
    }
    if (file == d.tokens && d.stops_reading && d.run) {
        d.reads_after_stop += is_stopped(NULL);
        if (size > 1000)
            eitp_run_request_stop(d.run, 15);
    }
    if (file == d.tokens && d.failing_reads) {
        d.failing_reads -= d.failing_reads > 0;
        return EIO;
    }
    return d.real.files.read(user, file, offset, data, size, done);
}

static int disk_sync(void *user, void *file) {
    if (d.failing_syncs && !d.syncs_before) {
        d.failing_syncs--;
        return EIO;
    }
    d.syncs_before -= d.syncs_before > 0;
    return d.real.files.sync(user, file);
}

static int disk_space(void *user, const char *path, uint64_t *free_bytes, uint64_t *largest_file) {
    (void)user, (void)path;
    *free_bytes = disk_free();
    *largest_file = d.largest_file ? d.largest_file : UINT64_MAX;
    return 0;
}

static void disk_wait(void *user, double seconds) {
    (void)user;
    d.waited += seconds;
    if (d.frees_after > 0 && d.waited >= d.frees_after) {
        d.capacity += d.freed;
        d.frees_after = 0;
    }
    if (d.stops_after > 0 && d.waited >= d.stops_after)
        eitp_run_request_stop(d.run, 15);
}

/* A run in a scratch directory. */
typedef struct fixture {
    run trained;
    char directory[512], output[600];
    eitp_run_config config;
    eitp_run_report report;
    eitp_host host;
    int64_t stop_after, fills_after, fails_after; /* steps; 0: never. Then the disk is full, or the data fail. */
    int stays_full;                               /* others use the space freed by removing checkpoints */
    int64_t workers;                              /* that read the data */
    int prefers_higher;                           /* of losses */
    int failure; /* 0: an error, 1: the end of the file, 2: other content, 3 and above: a change of the file */
    int events[EITP_EVENT_COUNT];
    char said[8192]; /* messages of all events except steps, each with a newline */
    uint64_t size;   /* of a checkpoint */
} fixture;

/* Changes made to the token file by another program. */
enum { OVERWRITTEN = 3, OVERWRITTEN_IN_VALIDATION, TOUCHED, REPLACED, REMOVED };

/* Changes the token file. Sets its time explicitly, because the file is new and timestamps are coarse. */
static void change_tokens(const fixture *f) {
    const char *path = scratch_path(f->directory, "text.tokens");
    eitp__file file;
    if (f->failure == REMOVED) {
        CHECK(!unlink(path));
        return;
    }
    if (f->failure == REPLACED)
        CHECK(!unlink(path));
    if (f->failure != TOUCHED) {
        uint64_t size = 0;
        unsigned char id[2] = {1, 0};
        CHECK(!eitp__file_open(&file, &d.real, path, EITP_FILE_UPDATE, NULL));
        CHECK(!eitp__file_size(&file, &size, NULL));
        /* The validation part is the end of the file. */
        CHECK(!eitp__file_write(&file, f->failure == OVERWRITTEN_IN_VALIDATION ? size - 2 : 256, id, 2, NULL));
        CHECK(!eitp__file_close(&file, NULL));
    }
    CHECK(!faults_set_time(path, 1000));
}

static void notice(void *user, const eitp_run_event *event) {
    fixture *f = (fixture *)user;
    f->events[event->kind]++;
    CHECK(f->events[EITP_EVENT_STARTED] == 1 || event->kind != EITP_EVENT_STEP);
    if (event->kind != EITP_EVENT_STEP && strlen(f->said) + strlen(event->message) + 2 < sizeof f->said)
        strcat(strcat(f->said, event->message), "\n");
    if (event->kind != EITP_EVENT_STEP)
        return;
    if (event->report->step.step == f->stop_after)
        eitp_run_request_stop(d.run, 15);
    if (event->report->step.step == f->fills_after)
        d.capacity -= disk_free() - (f->stays_full ? 5000 : 1000); /* a checkpoint is a few bytes larger than the
                                                                      previous one, and there are records to store */
    if (f->stays_full && event->report->step.step > f->fills_after)
        d.capacity -= disk_free();
    if (event->report->step.step == f->fails_after) {
        d.truncates = f->failure == 1;
        d.garbles = f->failure == 2;
        d.failing_reads = f->failure == 0 ? -1 : 0;
        if (f->failure >= OVERWRITTEN)
            change_tokens(f);
    }
}

static int begin(fixture *f) {
    memset(f, 0, sizeof *f);
    memset(&d, 0, sizeof d);
    if (!scratch_make(f->directory) || !write_text(f->directory))
        return 0;
    snprintf(f->output, sizeof f->output, "%s/out", f->directory);
    snprintf(d.directory, sizeof d.directory, "%s", f->output);
    d.real = f->host = eitp_host_default();
    d.capacity = UINT64_MAX;
    f->host.files.open = disk_open;
    f->host.files.close = disk_close;
    f->host.files.write = disk_write;
    f->host.files.read = disk_read;
    f->host.files.sync = disk_sync;
    f->host.files.space = disk_space;
    f->host.files.wait = disk_wait;
    f->host.files.link = NULL; /* links would count twice */
    f->config = eitp_run_config_default();
    f->config.directory = f->output;
    f->config.steps = 6;
    f->config.eval_steps = 0;
    f->config.save_steps = 1;
    f->config.eval_samples = 4;
    f->config.memory_check_seconds = -1;
    f->config.listener.user = f;
    f->config.listener.notify = notice;
    return 1;
}

static void end(fixture *f) {
    CHECK_THAT(!d.files, "%d files are open", d.files);
    scratch_remove(f->directory);
}

static eitp_status make_trainer(fixture *f) {
    variant v = default_variant();
    eitp_status status;
    uint64_t largest;
    v.threads = 1;
    v.isa = "ref";
    v.data_workers = f->workers;
    status = make_run(&f->trained, &f->host, &v, f->directory, &error_);
    if (!status && f->prefers_higher)
        f->trained.trainer->plans.evaluator.pass.scalars[0].direction = EITP_HIGHER_IS_BETTER;
    if (!status)
        eitp__trainer_checkpoint_size(f->trained.trainer, &f->size, &largest);
    return status;
}

/* Creates trainer and run, trains, and destroys both. `checkpoints` is the capacity of the disk; 0: unchanged; -1: the
   space in use. */
static eitp_status train(fixture *f, double checkpoints) {
    eitp_status status = make_trainer(f);
    if (checkpoints > 0)
        d.capacity = (uint64_t)(checkpoints * (double)f->size);
    else if (checkpoints < 0)
        d.capacity = eitp__tree_bytes(&d.real, f->output);
    memset(f->events, 0, sizeof f->events);
    f->said[0] = 0;
    if (!status)
        status = eitp_run_open(&f->host, &f->config, &d.run, &error_);
    if (!status)
        status = eitp_run_train(d.run, f->trained.trainer, &f->report, &error_);
    eitp_run_close(d.run);
    d.run = NULL;
    end_run(&f->trained);
    return status;
}

static int has(const fixture *f, const char *name) {
    eitp_path_info info;
    return !eitp__path_info(&d.real, scratch_path(f->output, name), &info, NULL) && info.kind != EITP_PATH_MISSING;
}

/* The names in the output directory, separated by spaces. */
static const char *content(const fixture *f) {
    static char text[1000];
    eitp__buffer names;
    size_t count = 0;
    eitp__buffer_init(&names, &d.real);
    text[0] = 0;
    if (!eitp__list_directory(&d.real, f->output, &names, &count, NULL)) {
        const char *name = names.data;
        for (size_t i = 0; i < count; i++, name += strlen(name) + 1)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", name);
    }
    eitp__buffer_release(&names);
    return text;
}

static int count_of(const char *text, const char *word) {
    int count = 0;
    while ((text = strstr(text, word)) != NULL) {
        count++;
        text += strlen(word);
    }
    return count;
}

/* The checksum of the weights and of the state of a checkpoint. */
static uint32_t bits_of(const fixture *f, int64_t step) {
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors"};
    uint32_t crc = 0;
    for (int i = 0; i < 2; i++) {
        char name[80];
        eitp__buffer bytes;
        snprintf(name, sizeof name, "checkpoint-%d/%s", (int)step, files[i]);
        eitp__buffer_init(&bytes, &d.real);
        CHECK_THAT(!eitp__read_file(&d.real, scratch_path(f->output, name), (size_t)1 << 30, &bytes, &error_), "%s",
                   error_.message);
        crc = eitp__crc32c(crc, bytes.data, bytes.size);
        eitp__buffer_release(&bytes);
    }
    return crc;
}

static uint32_t last_bits(const fixture *f) {
    return bits_of(f, 6);
}

/* The checksum of an undisturbed run. */
static uint32_t expected_bits(void) {
    static uint32_t bits;
    fixture f;
    if (bits || !begin(&f))
        return bits;
    CHECK_THAT(!train(&f, 0), "%s", error_.message);
    bits = last_bits(&f);
    end(&f);
    return bits;
}

/* Resumes on a disk with room, and compares the result with an undisturbed run. */
static void resumes_with_the_same_bits(fixture *f) {
    const uint32_t bits = last_bits(f);
    CHECK_THAT(bits == expected_bits(), "the bits differ");
}

static void resume(fixture *f) {
    const int64_t saved = f->report.saved_step;
    d.capacity = UINT64_MAX;
    d.largest_file = 0;
    d.failing_reads = d.truncates = d.garbles = 0;
    f->fills_after = f->fails_after = f->stop_after = f->stays_full = 0;
    f->config.resume = EITP_RESUME_NEWEST;
    CHECK_THAT(!train(f, 0) && f->report.start_step == (saved < 0 ? 0 : saved), "%s", error_.message);
}

/* Ends a test whose run ended before step 6. */
static void end_resumed(fixture *f) {
    uint32_t bits;
    resume(f);
    bits = last_bits(f);
    end(f);
    CHECK_THAT(bits == expected_bits(), "the resumed run has other bits");
}

/* ---- Before the first step ---- */

static void too_little_room_is_refused(void) {
    eitp_run *made = NULL;
    fixture f;
    REQUIRE(begin(&f));
    CHECK(train(&f, 0.9) == EITP_ERROR_IO && !f.events[EITP_EVENT_STEP] && f.report.steps_done == 0);
    CHECK_THAT(strstr(error_.message, "a checkpoint needs ") && strstr(error_.message, "has space for ") &&
                   strstr(error_.message, "free some space"),
               "%s", error_.message);
    CHECK_THAT(!*content(&f), "left behind: %s", content(&f));
    /* The same run trains once there is room. */
    REQUIRE(!make_trainer(&f));
    REQUIRE_OK(eitp_run_open(&f.host, &f.config, &made, &error_), error_);
    CHECK(eitp_run_train(made, f.trained.trainer, &f.report, &error_) == EITP_ERROR_IO);
    d.capacity = UINT64_MAX;
    CHECK_THAT(!eitp_run_train(made, f.trained.trainer, &f.report, &error_), "%s", error_.message);
    CHECK(eitp_run_train(made, f.trained.trainer, &f.report, &error_) == EITP_ERROR_ARGUMENT);
    eitp_run_close(made);
    end_run(&f.trained);
    end(&f);
}

/* The estimate is close to the size of what is written. */
static void the_size_of_a_checkpoint_is_known(void) {
    static const struct {
        const char *precision;
        eitp_optimizer optimizer;
        int64_t rank;
        eitp_save_dtype dtype;
    } cases[] = {{"fp32", EITP_ADAMW, 0, EITP_SAVE_F32},    {"bf16", EITP_ADAMW8, 0, EITP_SAVE_F16},
                 {"bf16", EITP_FACTORED, 0, EITP_SAVE_F32}, {"fp32", EITP_SGD, 4, EITP_SAVE_AS_LOADED},
                 {"fp32", EITP_ADAMW, 0, EITP_SAVE_F16},    {"bf16", EITP_ADAMW8_SR, 0, EITP_SAVE_BF16},
                 {"fp32", EITP_SGD, 0, EITP_SAVE_BF16}};
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        variant v = default_variant();
        uint64_t size = 0, largest = 0, written;
        fixture f;
        REQUIRE(begin(&f));
        v.isa = "ref";
        v.precision = cases[i].precision;
        v.optimizer = cases[i].optimizer;
        v.lora_rank = cases[i].rank;
        v.save_dtype = cases[i].dtype;
        REQUIRE_OK(make_run(&f.trained, &f.host, &v, f.directory, &error_), error_);
        CHECK(step_many(&f.trained, 1, NULL));
        eitp__trainer_checkpoint_size(f.trained.trainer, &size, &largest);
        REQUIRE_OK(eitp_trainer_save(f.trained.trainer, f.output, &error_), error_);
        written = eitp__tree_bytes(&d.real, f.output);
        CHECK_THAT(size >= written && size < written + 120000 && largest < size, "%d: %d estimated, %d written", (int)i,
                   (int)size, (int)written);
        end_run(&f.trained);
        end(&f);
    }
}

static void little_room_is_warned_about(void) {
    fixture f;
    REQUIRE(begin(&f));
    CHECK_THAT(!train(&f, 100) && !f.events[EITP_EVENT_DISK], "%s", f.said);
    end(&f);
    /* Two kept checkpoints, one being written, and one saved when the run is stopped. */
    REQUIRE(begin(&f));
    CHECK_THAT(!train(&f, 3.9), "%s", error_.message);
    CHECK_THAT(count_of(f.said, "the disk of '") == 1 && strstr(f.said, "up to 4 of ") &&
                   strstr(f.said, " each, of which 0 exist"),
               "%s", f.said);
    resumes_with_the_same_bits(&f);
    end(&f);
}

static void a_limit_of_file_sizes_is_refused(void) {
    fixture f;
    REQUIRE(begin(&f));
    REQUIRE(!make_trainer(&f));
    end_run(&f.trained);
    /* The optimizer's file is about two thirds of a checkpoint, and the weights are one third. */
    d.largest_file = f.size / 2;
    CHECK(train(&f, 0) == EITP_ERROR_IO && !f.events[EITP_EVENT_STEP]);
    CHECK_THAT(strstr(error_.message, "a file of ") && strstr(error_.message, "(ulimit -f)"), "%s", error_.message);
    CHECK_THAT(!*content(&f), "left behind: %s", content(&f));
    d.largest_file = f.size;
    CHECK_THAT(!train(&f, 0), "%s", error_.message);
    end(&f);
}

/* Two files of the run are open while it trains: the tokens and the records. A save needs four more. */
static void too_few_open_files_are_refused(void) {
    for (int most = 1; most <= 6; most++) {
        fixture f;
        eitp_status status;
        REQUIRE(begin(&f));
        d.most_files = most;
        status = train(&f, 0);
        CHECK_THAT(status == (most < 6 ? EITP_ERROR_IO : EITP_OK), "%d files: %s", most, error_.message);
        CHECK_THAT(!status || strstr(error_.message, "ulimit -n"), "%s", error_.message);
        CHECK(!f.events[EITP_EVENT_STEP] == (status != EITP_OK));
        CHECK_THAT(!status || !*content(&f), "left behind: %s", content(&f));
        end(&f);
    }
}

/* When a run is resumed, checkpoints to be pruned count as free space. */
static void checkpoints_to_be_pruned_are_room(void) {
    for (int limit = 1; limit <= 2; limit++) {
        fixture f;
        eitp_status status;
        REQUIRE(begin(&f));
        f.stop_after = f.config.save_total_limit = 3;
        CHECK_THAT(!train(&f, 0) && f.report.saved_step == 3, "%s", error_.message);
        f.stop_after = 0;
        f.config.resume = EITP_RESUME_NEWEST;
        f.config.save_total_limit = limit;
        scratch_remove(scratch_path(f.output, limit == 1 ? "checkpoint-1" : "none"));
        scratch_remove(scratch_path(f.output, limit == 1 ? "checkpoint-2" : "none"));
        status = train(&f, -1);
        CHECK_THAT(status == (limit == 1 ? EITP_ERROR_IO : EITP_OK), "%s", error_.message);
        CHECK((f.events[EITP_EVENT_STEP] == 0) == (limit == 1) &&
              has(&f, limit == 1 ? "checkpoint-3" : "checkpoint-6"));
        if (limit == 1)
            end_resumed(&f);
        else
            end(&f);
    }
}

/* The file of offloaded variables is checked when the trainer is created, and its space is reserved at once. */
static void an_offload_file_needs_room(void) {
    for (int limited = 0; limited < 2; limited++) {
        variant v = default_variant();
        uint64_t before;
        fixture f;
        REQUIRE(begin(&f));
        snprintf(d.directory, sizeof d.directory, "%s", f.directory);
        v.offload = EITP_OFFLOAD_ALL;
        v.is_wide = 1; /* small variables are not offloaded */
        d.capacity = limited ? UINT64_MAX : eitp__tree_bytes(&d.real, f.directory) + 200000;
        d.largest_file = limited ? 200000 : 0;
        CHECK_THAT(make_run(&f.trained, &f.host, &v, f.directory, &error_) == EITP_ERROR_IO, "%s", error_.message);
        CHECK_THAT(strstr(error_.message, "offloaded variables need ") &&
                       strstr(error_.message, limited ? "files of up to 200.0 kB" : " free; free some space"),
                   "%s", error_.message);
        before = eitp__tree_bytes(&d.real, f.directory);
        end_run(&f.trained);
        CHECK(before < 400000);
        end(&f);
    }
}

/* ---- Saves that fail ---- */

/* Two checkpoints fit: the older one is removed before the next is written. */
static void a_full_disk_is_pruned_first(void) {
    fixture f;
    REQUIRE(begin(&f));
    CHECK_THAT(!train(&f, 2.4) && f.report.saved_step == 6, "%s", error_.message);
    CHECK_THAT(count_of(f.said, "removed the oldest 1 of 2 checkpoints (") == 4 && d.waited <= 0, "%s", f.said);
    CHECK_THAT(!strcmp(content(&f), "checkpoint-5 checkpoint-6 metrics.jsonl run.json summary.jsonl"), "%s",
               content(&f));
    resumes_with_the_same_bits(&f);
    end(&f);
}

/* The disk fills after step 4: nothing helps. */
static void a_disk_that_stays_full_ends_the_run(void) {
    for (int limit = 0; limit <= 3; limit++) {
        fixture f;
        REQUIRE(begin(&f));
        f.config.save_total_limit = limit;
        f.fills_after = 4;
        f.stays_full = 1;
        CHECK_THAT(train(&f, 0) == EITP_ERROR_IO, "limit %d, saved %d: %s", limit, (int)f.report.saved_step, f.said);
        /* With a limit of 3 the pruned checkpoints make room: one is removed, and step 4 replaces it. */
        if (limit >= 2) {
            CHECK_THAT(f.report.saved_step >= 4, "%d", (int)f.report.saved_step);
            end_resumed(&f);
            continue;
        }
        CHECK_THAT(d.waited > 59 && d.waited < 62, "%g", d.waited);
        CHECK_THAT(count_of(f.said, "saving failed, retrying in ") == 6, "%s", f.said);
        CHECK(f.report.end == EITP_RUN_FAILED && f.report.saved_step == 3 && f.report.steps_done == 4);
        CHECK_THAT(strstr(error_.message, "no space left") &&
                       strstr(error_.message, " are missing: a checkpoint needs ") &&
                       strstr(error_.message, "resume from '") && strstr(error_.message, "/out/checkpoint-3'"),
                   "%s", error_.message);
        CHECK_THAT(
            !strcmp(content(&f), limit ? "checkpoint-3 metrics.jsonl run.json summary.jsonl"
                                       : "checkpoint-1 checkpoint-2 checkpoint-3 metrics.jsonl run.json summary.jsonl"),
            "%s", content(&f));
        end_resumed(&f);
    }
}

static void the_first_save_may_fail(void) {
    fixture f;
    REQUIRE(begin(&f));
    f.fills_after = 1;
    CHECK(train(&f, 0) == EITP_ERROR_IO && f.report.saved_step == -1);
    CHECK_THAT(strstr(error_.message, "there is no checkpoint to resume from"), "%s", error_.message);
    CHECK_THAT(!strcmp(content(&f), "metrics.jsonl run.json summary.jsonl"), "%s", content(&f));
    end_resumed(&f);
}

static void room_that_appears_is_used(void) {
    fixture f;
    REQUIRE(begin(&f));
    f.config.save_total_limit = 1;
    f.fills_after = 4;
    d.frees_after = 10;
    d.freed = 1000000000;
    CHECK_THAT(!train(&f, 0) && f.report.saved_step == 6, "%s", error_.message);
    CHECK_THAT(d.waited > 14.9 && d.waited < 15.3, "%g", d.waited);
    resumes_with_the_same_bits(&f);
    end(&f);
}

static void a_request_to_stop_ends_the_waiting(void) {
    fixture f;
    REQUIRE(begin(&f));
    f.config.save_total_limit = 1;
    f.fills_after = 4;
    d.stops_after = 1.55;
    CHECK(train(&f, 0) == EITP_ERROR_IO && f.report.saved_step == 3);
    CHECK_THAT(d.waited >= 1.5 && d.waited < 1.8, "%g", d.waited);
    end_resumed(&f);
    /* A run that is stopped does not start waiting. */
    REQUIRE(begin(&f));
    f.config.save_steps = 0;
    f.fills_after = f.stop_after = 4;
    CHECK(train(&f, 0) == EITP_ERROR_IO && f.report.saved_step == -1 && d.waited <= 0);
    end_resumed(&f);
}

/* The best checkpoint is not removed to make room. */
static void the_best_is_not_removed(void) {
    fixture f;
    REQUIRE(begin(&f));
    f.config.keep_best = "loss";
    f.prefers_higher = 1; /* with a falling loss, the first evaluation (step 1) is the best when higher is better */
    f.config.eval_steps = 1;
    f.config.save_total_limit = 2;
    CHECK_THAT(!train(&f, 3.4) && f.report.best_step == 1, "%s: best %d", error_.message, (int)f.report.best_step);
    CHECK_THAT(!strncmp(content(&f), "best.json checkpoint-1 checkpoint-5 checkpoint-6 ", 49), "%s", content(&f));
    CHECK_THAT(strstr(f.said, "removed the oldest 1 of 3 checkpoints"), "%s", f.said);
    end(&f);
}

/* After a failed sync the files written so far are not trusted. The whole checkpoint is written again. */
static void a_failed_sync_repeats_the_checkpoint(void) {
    fixture f;
    for (int times = 1; times <= 4; times += 3) {
        REQUIRE(begin(&f));
        f.config.save_steps = 3;
        d.syncs_before = 4; /* the first sync is the one of run.json */
        d.failing_syncs = times;
        CHECK_THAT(train(&f, 0) == (times == 1 ? EITP_OK : EITP_ERROR_IO), "%s", error_.message);
        CHECK_THAT(count_of(f.said, "saving failed, retrying in ") == (times == 1 ? 1 : 3), "%s", f.said);
        CHECK_THAT(times == 1 ? d.waited > 0.9 && d.waited < 1.2 : d.waited > 6.9, "%g", d.waited);
        if (times > 1) {
            end_resumed(&f);
            continue;
        }
        CHECK_THAT(!strcmp(content(&f), "checkpoint-3 checkpoint-6 metrics.jsonl run.json summary.jsonl"), "%s",
                   content(&f));
        resumes_with_the_same_bits(&f);
        end(&f);
    }
}

/* Neither pruning nor waiting makes a file smaller. */
static void a_file_that_is_too_large_is_not_tried_again(void) {
    fixture f;
    REQUIRE(begin(&f));
    REQUIRE(!make_trainer(&f));
    end_run(&f.trained);
    f.host.files.space = NULL; /* keeps it from being refused at the start */
    d.largest_file = f.size / 2;
    CHECK(train(&f, 0) == EITP_ERROR_IO && f.report.steps_done == 1 && d.waited <= 0);
    CHECK_THAT(strstr(error_.message, "optimizer.safetensors") && strstr(error_.message, "ulimit -f"), "%s",
               error_.message);
    CHECK_THAT(!strcmp(content(&f), "metrics.jsonl run.json summary.jsonl"), "%s", content(&f));
    end_resumed(&f);
}

/* ---- Any call ---- */

/* Creates trainer and run on a host with faults. */
static int begin_with_faults(fixture *f, faults *injected) {
    variant v = default_variant();
    v.threads = 1;
    v.isa = "ref";
    faults_begin(injected);
    f->host = d.real;
    f->config.steps = 2;
    f->config.save_total_limit = 1;
    return !make_run(&f->trained, &injected->host, &v, f->directory, &error_) &&
           !eitp_run_open(&injected->host, &f->config, &d.run, &error_);
}

/* Trains two steps on a host whose n-th file call after the start of training fails, once or with all that follow. Then
   resumes on a working host. Returns 0 if there was no such call, or if n is 0, which means no failure. */
static int train_with_failure(fixture *f, long n, int code, int stays, uint32_t *bits) {
    eitp_status status;
    faults injected;
    int more, has_begun = begin_with_faults(f, &injected);
    CHECK_THAT(has_begun, "%s", error_.message);
    if (!has_begun)
        return 0;
    injected.fail_file_call = n ? injected.file_calls + n : 0;
    injected.code = code;
    injected.tear = 1;
    injected.all_file_calls = stays;
    status = eitp_run_train(d.run, f->trained.trainer, &f->report, &error_);
    CHECK_THAT(!status || status == EITP_ERROR_IO, "%s", error_.message);
    CHECK_THAT(injected.waited < 70, "waited %g s", injected.waited);
    eitp_run_close(d.run);
    d.run = NULL;
    end_run(&f->trained);
    more = faults_end(&injected);
    CHECK_THAT(status || f->report.saved_step == 2, "saved %d", (int)f->report.saved_step);
    f->config.resume = EITP_RESUME_NEWEST;
    if (status)
        CHECK_THAT(!train(f, 0), "call %ld (%s): %s", n, injected.failed_call, error_.message);
    *bits = bits_of(f, 2);
    return more;
}

/* Full disks and errors at any file call of a run: it reports an error, or ends as if nothing had failed. */
static void a_failing_call_loses_nothing(void) {
    static const int codes[] = {ENOSPC, EIO, EDQUOT, EMFILE};
    const long stride = test_stride(29, 87);
    uint32_t expected = 0, bits = 0;
    int count = 0;
    for (int i = 0; i < 8; i++) {
        int more = 1;
        for (long n = i ? 1 + i % stride : 0; more; n += stride) {
            fixture f;
            REQUIRE(begin(&f));
            more = train_with_failure(&f, n, codes[i / 2], i % 2, &bits) || !n;
            expected = n ? expected : bits;
            count += more && n;
            CHECK_THAT(bits == expected, "other bits after call %ld failed with %d", n, codes[i / 2]);
            scratch_remove(f.directory);
        }
    }
    printf("    %d failures\n", count);
    CHECK(count > 1740 / stride);
}

/* ---- Data ---- */

/* If the data cannot be read, end early or change after some steps, the steps done are saved. */
static void data_that_fail_end_the_run(void) {
    static const char *const words[] = {"input/output error", "text.tokens' changed while it was read", "has id 65535"};
    for (int failure = 0; failure < 3; failure++) {
        fixture f;
        REQUIRE(begin(&f));
        f.config.save_steps = 0;
        f.fails_after = 3;
        f.failure = failure;
        CHECK_THAT(train(&f, 0) == EITP_ERROR_IO && f.report.saved_step == 3, "%s", error_.message);
        CHECK_THAT(strstr(error_.message, words[failure]), "%s", error_.message);
        CHECK_THAT(failure || (d.waited > 0.3 && d.waited < 0.32), "%g", d.waited);
        end_resumed(&f);
    }
}

/* A file is overwritten with valid tokens: no step is trained on them, and the steps before are saved. Once the old
   content is restored, the run resumes. */
static void overwritten_data_end_the_run(void) {
    for (int failure = OVERWRITTEN; failure <= OVERWRITTEN_IN_VALIDATION; failure++) {
        for (int workers = 0; workers < 3; workers++) {
            fixture f;
            REQUIRE(begin(&f));
            f.workers = workers;
            f.config.save_steps = 0;
            f.fails_after = 3;
            f.failure = failure;
            CHECK(train(&f, 0) == EITP_ERROR_IO);
            /* Steps that were read ahead have the right tokens. */
            CHECK_THAT(workers ? f.report.saved_step >= 3 : f.report.saved_step == 3, "saved %d",
                       (int)f.report.saved_step);
            CHECK_THAT(strstr(error_.message, "text.tokens' changed while it was read: the hash of its tokens is "),
                       "%s", error_.message);
            CHECK(workers || strstr(error_.message, "step 4 failed, and nothing was changed"));
            end_resumed(&f);
        }
    }
}

/* A file that is touched, or replaced or removed by name, does not affect the run, which reads the open file. */
static void touched_and_replaced_data_are_read(void) {
    for (int failure = TOUCHED; failure <= REMOVED; failure++) {
        fixture f;
        REQUIRE(begin(&f));
        f.fails_after = 3;
        f.failure = failure;
        CHECK_THAT(!train(&f, 0) && f.report.saved_step == 6, "%s", error_.message);
        resumes_with_the_same_bits(&f);
        end(&f);
    }
}

/* A request to stop does not wait for the comparison of a touched file. The steps done are saved. */
static void a_stop_ends_a_comparison(void) {
    for (int workers = 0; workers < 2; workers++) {
        fixture f;
        REQUIRE(begin(&f));
        f.workers = workers;
        f.config.save_steps = 0;
        f.fails_after = 3;
        f.failure = TOUCHED;
        REQUIRE(!make_trainer(&f));
        eitp__sample_file_set_poll(f.trained.file, is_stopped, NULL);
        REQUIRE_OK(eitp_run_open(&f.host, &f.config, &d.run, &error_), error_);
        d.stops_reading = 1;
        CHECK_THAT(!eitp_run_train(d.run, f.trained.trainer, &f.report, &error_) && f.report.end == EITP_RUN_STOPPED,
                   "%s", error_.message);
        CHECK_THAT(f.report.saved_step >= 3 && f.report.saved_step < 6, "saved %d", (int)f.report.saved_step);
        CHECK_THAT(d.reads_after_stop <= 2, "%d reads after the request", d.reads_after_stop);
        d.stops_reading = 0;
        eitp_run_close(d.run);
        d.run = NULL;
        end_run(&f.trained);
        end_resumed(&f);
    }
}

static void data_that_fail_for_a_moment_are_read(void) {
    fixture f;
    REQUIRE(begin(&f));
    REQUIRE(!make_trainer(&f));
    REQUIRE_OK(eitp_run_open(&f.host, &f.config, &d.run, &error_), error_);
    d.failing_reads = EITP__FILE_RETRIES;
    CHECK_THAT(!eitp_run_train(d.run, f.trained.trainer, &f.report, &error_), "%s", error_.message);
    CHECK(!d.failing_reads);
    eitp_run_close(d.run);
    end_run(&f.trained);
    resumes_with_the_same_bits(&f);
    end(&f);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(too_little_room_is_refused),
        TEST(the_size_of_a_checkpoint_is_known),
        TEST(little_room_is_warned_about),
        TEST(a_limit_of_file_sizes_is_refused),
        TEST(too_few_open_files_are_refused),
        TEST(checkpoints_to_be_pruned_are_room),
        TEST(an_offload_file_needs_room),
        TEST(a_full_disk_is_pruned_first),
        TEST(a_disk_that_stays_full_ends_the_run),
        TEST(the_first_save_may_fail),
        TEST(room_that_appears_is_used),
        TEST(a_request_to_stop_ends_the_waiting),
        TEST(the_best_is_not_removed),
        TEST(a_failed_sync_repeats_the_checkpoint),
        TEST(a_file_that_is_too_large_is_not_tried_again),
        TEST(a_failing_call_loses_nothing),
        TEST(data_that_fail_end_the_run),
        TEST(overwritten_data_end_the_run),
        TEST(touched_and_replaced_data_are_read),
        TEST(a_stop_ends_a_comparison),
        TEST(data_that_fail_for_a_moment_are_read),
    };
    return RUN_TESTS(tests, argc, argv);
}
