/* Runs whose memory runs short, with a simulated /proc: what is saved, dropped, repeated and shrunk, and when they
   stop. */
#include "tests/support/trainer_run.h"

/* Available kilobytes. The floor is the one for a process of some ten megabytes. */
enum { AMPLE = 2000000, SHORT = 1000 };

/* Available kilobytes when others use 87 or 93 percent of the 8 GB; both are enough. */
enum { HIGH = 1000000, FULL = 600000 };

enum { NEVER = -1, ORDERED = 32 };

/* A run next to programs that take memory at the read of a sample, and release it at an event. */
typedef struct fixture {
    run trained;
    char directory[512], output[600], text[1 << 16]; /* `text`: the content of a file */
    eitp_host host;
    eitp_run_config config;
    int saves, failing_save; /* attempts to save so far, and the one that fails, from 1; 0: none */
    eitp_run *made;
    eitp_run_report report;
    eitp_task task;               /* the real one */
    int64_t training, validation; /* the read of a sample at which memory becomes short, from 0 */
    int64_t reads[2];
    int given_back;                        /* the event at which it comes back */
    int after[ORDERED];                    /* available kilobytes after each step; 0: unchanged */
    int events[24], order[ORDERED], count; /* `order` leaves out starts and steps */
    int64_t steps[ORDERED];                /* done at each event */
    int waning, looks;                     /* each sample of memory finds half as much */
    int hovering;                          /* available kilobytes after a first shortage, from then on; 0: unchanged */
    int warnings, contradictions;          /* with the available and needed memory; and those with plausible figures */
    int stands_still;                      /* the learning rate is 0 */
    int waits, given_back_at;              /* calls of wait, and the one at which memory comes back, from 1; 0: none */
} fixture;

/* Writes a file in place of one of /proc. */
static int write_fake(const fixture *f, const char *name, const char *text) {
    FILE *file = fopen(scratch_path(f->directory, name), "wb");
    if (!file)
        return 0;
    fputs(text, file);
    return !fclose(file);
}

static int set_available(const fixture *f, int kilobytes) {
    char text[80];
    snprintf(text, sizeof text, "MemTotal: 8000000 kB\nMemAvailable: %d kB\n", kilobytes);
    return write_fake(f, "meminfo", text);
}

/* The system's files, except what /proc reports about the machine and the process. */
static int open_fake(void *user, const char *path, eitp_file_mode mode, void **file) {
    fixture *f = (fixture *)user;
    const eitp_host host = eitp_host_default();
    if (!strcmp(path, "/proc/self/cgroup"))
        return ENOENT;
    if (!strcmp(path, "/proc/self/status"))
        path = scratch_path(f->directory, "status");
    if (!strcmp(path, "/proc/meminfo")) {
        const int left = AMPLE >> f->looks;
        path = scratch_path(f->directory, "meminfo");
        if (f->waning && !set_available(f, left ? left : 1))
            return EIO;
        f->looks += f->looks < 20;
    }
    return host.files.open(NULL, path, mode, file);
}

static void count_wait(void *user, double seconds) {
    fixture *f = (fixture *)user;
    const eitp_host host = eitp_host_default();
    host.files.wait(host.files.user, seconds);
    if (++f->waits == f->given_back_at)
        CHECK(set_available(f, AMPLE));
}

static eitp_status take_and_read(void *user, eitp_split split, uint64_t number, eitp_sample *sample,
                                 eitp_error *error) {
    fixture *f = (fixture *)user;
    const int64_t read = f->reads[split == EITP_VALIDATION]++;
    const int64_t begins = split == EITP_VALIDATION ? f->validation : f->training;
    if (read == begins)
        CHECK(set_available(f, SHORT));
    /* The next poll samples memory. */
    if (begins != NEVER && read >= begins)
        ((eitp__guard *)f->made->states[EITP__OBSERVER_GUARD])->look_at = 0;
    return f->task.read(f->task.user, split, number, sample, error);
}

static eitp_status build(void *user, eitp_pass *pass, eitp_error *error) {
    const eitp_task *task = &((const fixture *)user)->task;
    return task->build(task->user, pass, error);
}

/* Parses "17.2 MB" into bytes. Returns -1 if there is no such figure. */
static double read_bytes(const char *text, const char *before) {
    static const char *const units[] = {"B", "kB", "MB", "GB"};
    const char *at = strstr(text, before);
    double bytes = 0;
    char unit[4] = "";
    if (!at || sscanf(at + strlen(before), "%lf %2[a-zA-Z]", &bytes, unit) != 2)
        return -1;
    for (size_t i = 0; i < EITP__COUNT(units) && strcmp(unit, units[i]); i++)
        bytes *= 1000;
    return bytes;
}

/* Checks that a warning about short memory reports less available than needed. */
static void check_figures(fixture *f, const char *message) {
    const double left = read_bytes(message, "memory is short: "), needed = read_bytes(message, "at least ");
    if (needed < 0)
        return;
    f->warnings++;
    f->contradictions += left >= needed;
    CHECK_THAT(left >= 0 && left < needed, "%s", message);
}

/* Other programs take memory over a long time. */
static void take_slowly(const fixture *f, int kilobytes) {
    eitp__guard *guard = (eitp__guard *)f->made->states[EITP__OBSERVER_GUARD];
    CHECK(set_available(f, kilobytes));
    guard->pressure.has_looked = 0;
    guard->look_at = 0;
}

static void notice(void *user, const eitp_run_event *event) {
    fixture *f = (fixture *)user;
    const int64_t done = eitp_trainer_steps_done(f->trained.trainer);
    f->events[event->kind]++;
    if (event->kind == EITP_EVENT_STEP && done < ORDERED && f->after[done])
        take_slowly(f, f->after[done]);
    if (event->kind == EITP_EVENT_MEMORY_SHORT) {
        check_figures(f, event->message);
        CHECK(!f->hovering || set_available(f, f->hovering));
    }
    if ((int)event->kind == f->given_back)
        CHECK(set_available(f, AMPLE));
    if (event->kind == EITP_EVENT_STARTED || event->kind == EITP_EVENT_STEP || f->count == ORDERED)
        return;
    f->steps[f->count] = eitp_trainer_steps_done(f->trained.trainer);
    f->order[f->count++] = (int)event->kind;
}

static eitp_status count_save(void *user, const char *directory, eitp_error *error) {
    fixture *f = (fixture *)user;
    (void)directory;
    return ++f->saves == f->failing_save ? eitp__fail(error, EITP_ERROR_IO, "no room for notes") : EITP_OK;
}

static int begin_fixture(fixture *f) {
    memset(f, 0, sizeof *f);
    if (!scratch_make(f->directory) || !write_text(f->directory) || !set_available(f, AMPLE) ||
        !write_fake(f, "status", "VmRSS: 50000 kB\nRssAnon: 40000 kB\n"))
        return 0;
    snprintf(f->output, sizeof f->output, "%s/out", f->directory);
    f->training = f->validation = f->given_back = NEVER;
    f->host = eitp_host_default();
    f->host.files.user = f;
    f->host.files.open = open_fake;
    f->host.files.wait = count_wait;
    f->config = eitp_run_config_default();
    f->config.directory = f->output;
    f->config.steps = 4;
    f->config.eval_steps = f->config.save_steps = 0;
    f->config.eval_samples = 4;
    f->config.save_total_limit = 0;
    f->config.memory_check_seconds = 1e-9;
    f->config.listener.user = f;
    f->config.listener.notify = notice;
    return 1;
}

/* Trains with a task that reads through take_and_read. */
static eitp_status train(fixture *f) {
    variant v = default_variant();
    run *r = &f->trained;
    eitp_status status;
    v.threads = 1; /* other threads may be ahead, and have started reads that are not dropped */
    v.batch_size = 4;
    v.grad_accum = 1;
    status = make_run(r, &f->host, &v, f->directory, &error_);
    if (status)
        return status;
    eitp_trainer_destroy(r->trainer);
    r->trainer = NULL;
    f->task = r->task;
    f->reads[0] = f->reads[1] = 0;
    r->task.user = f;
    r->task.read = take_and_read;
    r->task.build = build;
    r->task.prefetch = NULL;
    r->task.identify = NULL;
    r->task.save = NULL;
    r->task.release = NULL;
    if (f->stands_still)
        r->config.schedule.peak = 0;
    status = eitp_trainer_create(&r->task, &r->config, &r->trainer, &error_);
    if (!status)
        status = eitp_run_open(&f->host, &f->config, &f->made, &error_);
    if (!status)
        status = eitp_run_train(f->made, r->trainer, &f->report, &error_);
    eitp_run_close(f->made);
    f->made = NULL;
    eitp_trainer_destroy(r->trainer);
    r->trainer = NULL;
    r->task = f->task;
    end_run(r);
    return status;
}

static int has_checkpoint(const fixture *f, int64_t step) {
    eitp_path_info info;
    char path[700];
    snprintf(path, sizeof path, "%s/checkpoint-%lld", f->output, (long long)step);
    return !eitp__path_info(&f->host, path, &info, NULL) && info.kind == EITP_PATH_DIRECTORY;
}

/* The content of a file in the output directory; empty if it cannot be read. */
static const char *text_of(fixture *f, const char *name) {
    eitp__buffer content;
    char path[700];
    snprintf(path, sizeof path, "%s/%s", f->output, name);
    eitp__buffer_init(&content, &f->host);
    f->text[0] = 0;
    if (!eitp__read_file(&f->host, path, sizeof f->text - 1, &content, &error_))
        snprintf(f->text, sizeof f->text, "%s", content.data);
    eitp__buffer_release(&content);
    return f->text;
}

static int records_have(fixture *f, const char *words) {
    return strstr(text_of(f, "metrics.jsonl"), words) != NULL;
}

/* The checksum of a checkpoint's weights and optimizer state. */
static uint32_t checksum_of(const fixture *f, int64_t step) {
    static const char *const names[] = {"model.safetensors", "optimizer.safetensors"};
    uint32_t sum = 0;
    for (size_t i = 0; i < EITP__COUNT(names); i++) {
        char path[700];
        eitp__buffer content;
        snprintf(path, sizeof path, "%s/checkpoint-%lld/%s", f->output, (long long)step, names[i]);
        eitp__buffer_init(&content, &f->host);
        CHECK_THAT(!eitp__read_file(&f->host, path, (size_t)1 << 30, &content, &error_), "%s", error_.message);
        sum = eitp__crc32c(sum, content.data, content.size);
        eitp__buffer_release(&content);
    }
    return sum;
}

/* The checksum of a run without neighbours. */
static uint32_t straight_checksum(void) {
    uint32_t sum = 0;
    fixture f;
    CHECK(begin_fixture(&f));
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(f.reads[0] == 16 && f.events[EITP_EVENT_MEMORY_SHORT] == 0);
    sum = checksum_of(&f, 4);
    scratch_remove(f.directory);
    return sum;
}

/* Memory runs short within step 3: the step is dropped, step 2 is saved, the run shrinks, and step 3 is repeated. */
static void a_checkpoint_comes_before_the_shrink(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.auto_shrink = 1;
    f.training = 8; /* first read of step 3 */
    f.given_back = EITP_EVENT_NOT_SHRUNK;
    CHECK_THAT(!train(&f) && f.report.end == EITP_RUN_FINISHED, "%s", error_.message);
    CHECK_THAT(f.reads[0] == 20, "%d samples were read", (int)f.reads[0]);
    CHECK(f.order[0] == EITP_EVENT_MEMORY_SHORT && f.steps[0] == 2);
    CHECK(f.order[1] == EITP_EVENT_SAVED && f.steps[1] == 2);
    CHECK(has_checkpoint(&f, 2) && has_checkpoint(&f, 4));
    CHECK(records_have(&f, "{\"step\": 2, \"event\": \"memory_pressure\"") && records_have(&f, "\"shrunk\": true, "));
    CHECK(checksum_of(&f, 4) == straight_checksum());
    scratch_remove(f.directory);
}

/* After the arena was released there would be enough memory, but the run will take the arena again. */
static void warnings_compare_what_the_run_takes_again(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.auto_shrink = 1;
    f.training = 8;
    f.hovering = 16700; /* slightly above the floor */
    f.given_back = EITP_EVENT_NOT_SHRUNK;
    CHECK_THAT(!train(&f) && f.report.end == EITP_RUN_FINISHED, "%s", error_.message);
    CHECK_THAT(f.warnings >= 2 && !f.contradictions, "%d warnings", f.warnings);
    CHECK(f.events[EITP_EVENT_NOT_SHRUNK] == 1 && checksum_of(&f, 4) == straight_checksum());
    scratch_remove(f.directory);
}

/* On a device with its own memory nothing is shrunk, since that frees no host memory: the run saves and waits. */
static void shrinking_is_for_the_memory_of_the_host(void) {
    const char *device = getenv("EITP_BACKEND");
    const int is_host = !device || !*device || !strcmp(device, "cpu");
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.auto_shrink = 1;
    f.training = 8;
    CHECK(train(&f) == EITP_ERROR_PRESSURE && f.report.end == EITP_RUN_MEMORY_PRESSURE);
    CHECK_THAT(f.events[EITP_EVENT_SAVED] == 1 && f.report.saved_step == f.report.steps_done, "saved at step %d of %d",
               (int)f.report.saved_step, (int)f.report.steps_done);
    CHECK_THAT((f.events[EITP_EVENT_NOT_SHRUNK] > 0 || records_have(&f, "\"shrunk\": true, ")) == is_host, "%d",
               f.events[EITP_EVENT_NOT_SHRUNK]);
    scratch_remove(f.directory);
}

/* If memory comes back while the checkpoint is written, nothing is shrunk. */
static void memory_that_comes_back_needs_no_shrink(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.auto_shrink = 1;
    f.training = 8;
    f.given_back = EITP_EVENT_SAVED;
    CHECK_THAT(!train(&f) && f.report.end == EITP_RUN_FINISHED, "%s", error_.message);
    CHECK(f.reads[0] == 20 && f.events[EITP_EVENT_SAVED] == 2 && f.events[EITP_EVENT_NOT_SHRUNK] == 0);
    CHECK(!records_have(&f, "\"shrunk\": true, ") && records_have(&f, "\"shrunk\": false, "));
    CHECK(checksum_of(&f, 4) == straight_checksum());
    scratch_remove(f.directory);
}

/* Without auto_shrink a checkpoint is written once, and the run continues. */
static void short_memory_is_saved_once_without_auto_shrink(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.training = 8;
    CHECK_THAT(!train(&f) && f.report.end == EITP_RUN_FINISHED, "%s", error_.message);
    CHECK(f.reads[0] == 20 && f.events[EITP_EVENT_MEMORY_SHORT] == 1 && f.events[EITP_EVENT_SAVED] == 2);
    CHECK(has_checkpoint(&f, 2) && checksum_of(&f, 4) == straight_checksum());
    scratch_remove(f.directory);
}

/* A run that cannot shrink enough stops with the previous step, and a resume continues with the same bits. */
static void a_dropped_step_is_repeated_after_a_resume(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.auto_shrink = 1;
    f.training = 8;
    CHECK(train(&f) == EITP_ERROR_PRESSURE && f.report.end == EITP_RUN_MEMORY_PRESSURE);
    CHECK_THAT(f.report.steps_done == 2 && f.report.saved_step == 2 && f.events[EITP_EVENT_SAVED] == 1, "%s",
               error_.message);
    CHECK(set_available(&f, AMPLE));
    f.config.resume = EITP_RESUME_NEWEST;
    f.training = NEVER;
    CHECK_THAT(!train(&f) && f.report.start_step == 2, "%s", error_.message);
    CHECK(checksum_of(&f, 4) == straight_checksum());
    scratch_remove(f.directory);
}

/* A run that cannot shrink any more waits between samples for memory to come back, regardless of their interval. */
static void a_run_waits_before_it_gives_up(void) {
    static const double intervals[] = {0, 1e-9};
    for (size_t i = 0; i < EITP__COUNT(intervals); i++) {
        fixture f;
        REQUIRE(begin_fixture(&f));
        f.config.memory_check_seconds = intervals[i];
        f.config.auto_shrink = 1;
        f.training = 8;
        f.given_back_at = 5;
        CHECK_THAT(!train(&f) && f.report.end == EITP_RUN_FINISHED, "%s", error_.message);
        CHECK_THAT(f.waits == 5, "%d waits", f.waits);
        CHECK(checksum_of(&f, 4) == straight_checksum());
        scratch_remove(f.directory);
    }
}

/* A resume is not dropped, since it has nothing to save. */
static void short_memory_does_not_interrupt_a_resume(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.steps = 2;
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(set_available(&f, SHORT));
    f.config.resume = EITP_RESUME_NEWEST;
    f.config.steps = 4;
    CHECK_THAT(!train(&f) && f.report.start_step == 2, "%s", error_.message);
    CHECK(checksum_of(&f, 4) == straight_checksum());
    scratch_remove(f.directory);
}

/* An evaluation is dropped and repeated, too. */
static void short_memory_interrupts_an_evaluation(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.eval_steps = 2;
    f.config.auto_shrink = 1;
    f.validation = 4; /* first read of the evaluation after step 2 */
    f.given_back = EITP_EVENT_SAVED;
    CHECK_THAT(!train(&f) && f.report.evaluations == 3, "%s", error_.message);
    CHECK_THAT(f.reads[1] > 12, "%d samples were read", (int)f.reads[1]);
    CHECK(f.order[0] == EITP_EVENT_EVALUATION && f.steps[0] == 0);
    CHECK(f.order[1] == EITP_EVENT_MEMORY_SHORT && f.steps[1] == 2);
    CHECK(f.order[2] == EITP_EVENT_SAVED && f.steps[2] == 2);
    CHECK(f.order[3] == EITP_EVENT_EVALUATION && f.steps[3] == 2);
    scratch_remove(f.directory);
}

/* A checkpoint saved before the evaluation of its step is saved again with it, and counts if it was due. The evaluation
   must not be the best, because the best checkpoint is always due. */
static void an_early_checkpoint_gets_its_evaluation(void) {
    for (int scheduled = 0; scheduled < 2; scheduled++) {
        fixture f;
        REQUIRE(begin_fixture(&f));
        f.stands_still = 1;
        f.config.eval_steps = 1;
        f.config.save_steps = scheduled ? 2 : 0;
        f.config.patience = 100;
        f.validation = 8; /* first read of the evaluation after step 2 */
        f.given_back = EITP_EVENT_SAVED;
        CHECK_THAT(!train(&f), "%s", error_.message);
        CHECK_THAT(f.events[EITP_EVENT_SAVED] == 4, "%d", f.events[EITP_EVENT_SAVED]);
        CHECK(strstr(text_of(&f, "checkpoint-2/run_state.json"), "{\"step\": 2,"));
        CHECK((strstr(text_of(&f, "checkpoint-2/manifest.json"), "\"counted\": false") == NULL) == scheduled);
        CHECK(strstr(f.text, "eitp manifest"));
        scratch_remove(f.directory);
    }
}

/* If the run ended between the record of the evaluation and the second save, the resumed run adds the evaluation to the
   checkpoint. The record is not repeated. */
static void a_resume_repeats_the_evaluation_that_an_early_checkpoint_lacks(void) {
    for (int64_t last = 2; last <= 4; last += 2) {
        fixture f;
        const char *record;
        REQUIRE(begin_fixture(&f));
        f.config.eval_steps = 2;
        f.config.patience = 100;
        f.config.steps = last;
        f.config.save = count_save;
        f.config.save_user = &f;
        f.validation = 4; /* first read of the evaluation after step 2 */
        f.given_back = EITP_EVENT_SAVED;
        f.failing_save = 2;
        CHECK(train(&f) == EITP_ERROR_IO && f.report.saved_step == 2 && f.report.evaluated_step == 2);
        CHECK(!strstr(text_of(&f, "checkpoint-2/run_state.json"), "{\"step\": 2,"));
        f.config.resume = EITP_RESUME_NEWEST;
        f.validation = NEVER;
        CHECK_THAT(!train(&f) && f.report.start_step == 2, "%s", error_.message);
        CHECK(f.report.evaluations == last / 2);
        CHECK(strstr(text_of(&f, "checkpoint-2/run_state.json"), "{\"step\": 2,"));
        record = strstr(text_of(&f, "metrics.jsonl"), "{\"step\": 2, \"val_loss\"");
        CHECK(record && !strstr(record + 1, "{\"step\": 2, \"val_loss\""));
        /* Another resume finds it there. */
        CHECK(!train(&f) && f.report.evaluations == 0);
        scratch_remove(f.directory);
    }
}

/* Before step 1 there is nothing to save: if others use up the memory, the run ends like one that does not fit. */
static void memory_used_up_before_step_1_is_an_error(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.waning = 1;
    f.looks = 8; /* 8 MB */
    f.config.memory_check_seconds = 0;
    f.config.auto_shrink = 1;
    CHECK_THAT(train(&f) == EITP_ERROR_MEMORY && strstr(error_.message, "before step 1"), "%s", error_.message);
    CHECK(f.report.steps_done == 0 && f.report.saved_step == -1 && f.report.end == EITP_RUN_FAILED);
    scratch_remove(f.directory);
}

/* At cpu_mem_warn there is an event, at cpu_mem_max an extra checkpoint; the bits are the same. */
static void others_that_fill_the_memory_are_told(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.after[1] = HIGH;
    f.after[2] = FULL;
    f.after[3] = AMPLE;
    CHECK_THAT(!train(&f) && f.report.end == EITP_RUN_FINISHED, "%s", error_.message);
    CHECK(f.reads[0] == 16 && f.events[EITP_EVENT_MEMORY_SHORT] == 0);
    CHECK_THAT(f.events[EITP_EVENT_MEMORY_HIGH] == 2, "%d", f.events[EITP_EVENT_MEMORY_HIGH]);
    CHECK(f.order[0] == EITP_EVENT_MEMORY_HIGH && f.steps[0] == 1);
    CHECK(f.order[1] == EITP_EVENT_MEMORY_HIGH && f.order[2] == EITP_EVENT_SAVED && f.steps[2] == 2);
    CHECK(f.events[EITP_EVENT_SAVED] == 2 && strstr(text_of(&f, "checkpoint-2/manifest.json"), "\"counted\": false"));
    CHECK(records_have(&f, "{\"step\": 1, \"event\": \"memory_high\", "));
    CHECK(records_have(&f, "\"percent\": 87.4") && records_have(&f, "\"own_bytes\": 40960000, "));
    CHECK(checksum_of(&f, 4) == straight_checksum());
    scratch_remove(f.directory);
}

/* A lasting shortage is reported once, and saved for once. */
static void the_same_percentage_is_saved_for_once(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.after[1] = f.after[2] = f.after[3] = FULL;
    CHECK_THAT(!train(&f), "%s", error_.message);
    CHECK(f.events[EITP_EVENT_MEMORY_HIGH] == 1 && f.events[EITP_EVENT_SAVED] == 2 && has_checkpoint(&f, 1));
    CHECK(checksum_of(&f, 4) == straight_checksum());
    scratch_remove(f.directory);
}

/* On a machine that is full before the first step there is an event, but nothing to save. */
static void a_full_machine_changes_nothing(void) {
    for (int shrinks = 0; shrinks < 2; shrinks++) {
        fixture f;
        REQUIRE(begin_fixture(&f));
        CHECK(set_available(&f, FULL));
        f.config.auto_shrink = shrinks;
        CHECK_THAT(!train(&f), "%s", error_.message);
        CHECK(f.events[EITP_EVENT_MEMORY_HIGH] == 1 && f.events[EITP_EVENT_SAVED] == 1 && f.reads[0] == 16);
        CHECK(f.events[EITP_EVENT_MEMORY_SHORT] == 0 && f.events[EITP_EVENT_NOT_SHRUNK] == 0);
        CHECK(checksum_of(&f, 4) == straight_checksum());
        scratch_remove(f.directory);
    }
}

static void percentages_can_be_off(void) {
    static const double off[] = {0, 100};
    for (size_t i = 0; i < EITP__COUNT(off); i++) {
        fixture f;
        REQUIRE(begin_fixture(&f));
        f.config.cpu_mem_warn = f.config.cpu_mem_max = off[i];
        f.after[2] = FULL;
        CHECK_THAT(!train(&f), "%s", error_.message);
        CHECK(f.events[EITP_EVENT_MEMORY_HIGH] == 0 && f.events[EITP_EVENT_SAVED] == 1);
        CHECK(checksum_of(&f, 4) == straight_checksum());
        scratch_remove(f.directory);
    }
}

/* If the run acts on it, cpu_mem_max is a shortage like others: the run saves, and shrinks with auto_shrink. */
static void a_percentage_can_be_a_shortage(void) {
    for (int shrinks = 0; shrinks < 2; shrinks++) {
        fixture f;
        REQUIRE(begin_fixture(&f));
        f.config.cpu_mem_acts = 1;
        f.config.auto_shrink = shrinks;
        f.after[2] = FULL;
        f.given_back = EITP_EVENT_NOT_SHRUNK;
        CHECK_THAT(!train(&f) && f.report.end == EITP_RUN_FINISHED, "%s", error_.message);
        CHECK(f.order[0] == EITP_EVENT_MEMORY_SHORT && f.events[EITP_EVENT_MEMORY_HIGH] == 0);
        CHECK(has_checkpoint(&f, 2) && f.events[EITP_EVENT_NOT_SHRUNK] == shrinks);
        CHECK(records_have(&f, "\"shrunk\": true, \"time\"") == shrinks);
        CHECK(checksum_of(&f, 4) == straight_checksum());
        scratch_remove(f.directory);
    }
}

/* Without sampling nothing is read, and nothing happens. */
static void looks_can_be_turned_off(void) {
    fixture f;
    REQUIRE(begin_fixture(&f));
    f.config.memory_check_seconds = -1;
    f.config.auto_shrink = 1;
    f.training = 8;
    CHECK_THAT(!train(&f) && f.events[EITP_EVENT_MEMORY_SHORT] == 0 && f.reads[0] == 16, "%s", error_.message);
    scratch_remove(f.directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(a_checkpoint_comes_before_the_shrink),
        TEST(warnings_compare_what_the_run_takes_again),
        TEST(shrinking_is_for_the_memory_of_the_host),
        TEST(memory_that_comes_back_needs_no_shrink),
        TEST(short_memory_is_saved_once_without_auto_shrink),
        TEST(a_dropped_step_is_repeated_after_a_resume),
        TEST(a_run_waits_before_it_gives_up),
        TEST(short_memory_does_not_interrupt_a_resume),
        TEST(short_memory_interrupts_an_evaluation),
        TEST(an_early_checkpoint_gets_its_evaluation),
        TEST(a_resume_repeats_the_evaluation_that_an_early_checkpoint_lacks),
        TEST(memory_used_up_before_step_1_is_an_error),
        TEST(others_that_fill_the_memory_are_told),
        TEST(the_same_percentage_is_saved_for_once),
        TEST(a_full_machine_changes_nothing),
        TEST(percentages_can_be_off),
        TEST(a_percentage_can_be_a_shortage),
        TEST(looks_can_be_turned_off),
    };
    return RUN_TESTS(tests, argc, argv);
}
