/*
 * A whole run, small enough to be repeated thousands of times: evaluation, best checkpoint, saving, pruning, records,
 * offloaded variables, shrinking, and a resume. For tests that disturb it and compare the result.
 */
#ifndef EITP_TEST_WHOLE_RUN_H
#define EITP_TEST_WHOLE_RUN_H

#include "tests/support/everything.h"
#include "tests/support/faults.h"
#include "tests/support/simulated_disk.h"
#include "tests/support/test.h"

#include <stdlib.h>

#define WHOLE_UNUSED __attribute__((unused))

/* The run's directory, inside the data directory. It and its parent are created. */
#define WHOLE_OUT "runs/out"

/* Steps of both parts, steps between evaluations, samples per step, and number of newest checkpoints kept. */
enum { WHOLE_STEPS = 5, WHOLE_EVAL_STEPS = 2, WHOLE_BATCH = 4, WHOLE_LIMIT = 2 };

/* When a run saves, and how it is interrupted. save_total_limit does not count a checkpoint that is written because the
   run is stopped, or memory is short, after a step without a scheduled save. */
typedef struct whole_variant {
    const char *name;
    int64_t save_steps;
    int64_t first;       /* steps of the first part */
    int is_stopped;      /* stopped after them; otherwise the part ends there, and its checkpoint is written twice */
    int64_t short_after; /* the step of the second part after which memory runs short */
    int uncounted;       /* checkpoints that save_total_limit does not count */
    int saves_beside;    /* saves copies in the background */
    int exchanges;       /* the system can exchange two names atomically */
    int spacing;         /* calls are disturbed this many times more rarely, unless EITP_TEST_STRIDE is set */
    /* The metric that selects the best checkpoint, after each step; lower is better. */
    double values[WHOLE_STEPS + 1];
} whole_variant;

static const whole_variant whole_variants_[] = {
    {"saves each step", 1, 3, 0, 4, 0, 0, 1, 1, {9, 9, 5, 6, 3, 4}},
    {"saves every second step", 2, 1, 1, 3, 2, 0, 1, 4, {9, 9, 3, 9, 5, 4}},
    {"saves beside the steps", 1, 3, 0, 4, 0, 1, 0, 3, {9, 9, 3, 6, 5, 4}},
};

enum { WHOLE_VARIANTS = sizeof whole_variants_ / sizeof *whole_variants_ };

/* True if every run evaluates after a step. Extra evaluations occur at the end of a run or of its first part. */
static WHOLE_UNUSED int whole_evaluates(int64_t step) {
    return step % WHOLE_EVAL_STEPS == 0 || step == WHOLE_STEPS;
}

/* Calls `test` with each variant, or with the one whose index is in EITP_TEST_VARIANT. */
static void whole_each_variant(void (*test)(const whole_variant *variant)) {
    const char *only = getenv("EITP_TEST_VARIANT");
    for (size_t i = 0; i < WHOLE_VARIANTS; i++) {
        if (!only || (size_t)atoi(only) == i)
            test(&whole_variants_[i]);
    }
}

/* The weights and optimizer state of each step, and at the end of the run the evaluations in its last checkpoint and
   the names in its directory. */
typedef struct whole_bits {
    uint32_t model[WHOLE_STEPS + 1], optimizer[WHOLE_STEPS + 1];
    char evaluated[80];
    char names[1024];
} whole_bits;

/* Objects that a run reported it could not keep. They may be missing or outdated. */
typedef struct whole_said {
    int best;           /* the checkpoint of a best evaluation */
    int best_json;      /* best.json */
    int links, pruning; /* the links; removal of old checkpoints */
} whole_said;

/* A run's directory, progress and reports. */
typedef struct whole {
    const whole_variant *variant;
    eitp_host host;
    eitp_run *run;
    const char *directory;           /* of the data; the run's directory is WHOLE_OUT in it */
    int64_t committed;               /* newest step reported as saved; -1: none. Not reset. */
    int64_t *shared;                 /* the same, shared with another process; NULL: none */
    whole_bits *bits;                /* filled in unless NULL */
    int64_t resumed;                 /* step that the run resumed from; -1: none */
    int64_t stop_after;              /* a stop is requested after this step; 0: never */
    int shrinks;                     /* memory runs short once */
    int64_t lost_records;            /* number of records that could not be stored, as the runs reported. Not reset. */
    whole_said said;                 /* objects not kept although the run continued. Not reset. */
    int uncounted;                   /* checkpoints that save_total_limit did not count */
    int was_short, shrunk, offloads; /* memory ran short; a part ended with a smaller pass; a file is used */
    void (*set_memory)(void *user, int is_short);
    void *user;
    eitp_run_report report;
    char message[sizeof(((eitp_error *)0)->message)];
} whole;

static const char whole_text_[] =
    "The quick brown fox jumps over the lazy dog, and the dog looks at the fox. Then both "
    "of them sleep in the shadow of the tree, while the leaves of it fall on the grass.\n";

/* The kernel files that report the available memory. It is only slightly too low, so that it does not seem to run out
   before the run has shrunk, however long that takes. */
static const char whole_status_[] = "VmRSS: 400000000 kB\n";
static const char whole_plenty_[] = "MemTotal: 800000000 kB\nMemAvailable: 10300000 kB\n";
static const char whole_short_[] = "MemTotal: 800000000 kB\nMemAvailable: 10200000 kB\n";

static WHOLE_UNUSED const char *whole_path(const whole *w, const char *name) {
    return scratch_path(w->directory, name);
}

/* Checksum of a file; 0 if it cannot be read. */
static WHOLE_UNUSED uint32_t whole_checksum(const whole *w, const char *name) {
    eitp__buffer text;
    uint32_t crc = 0;
    eitp__buffer_init(&text, &w->host);
    if (!eitp__read_file(&w->host, whole_path(w, name), (size_t)1 << 30, &text, NULL))
        crc = eitp__crc32c(0, text.data, text.size) | 1;
    eitp__buffer_release(&text);
    return crc;
}

static WHOLE_UNUSED void whole_read_step(const whole *w, int64_t step, uint32_t *model, uint32_t *optimizer) {
    char name[80];
    snprintf(name, sizeof name, WHOLE_OUT "/checkpoint-%d/model.safetensors", (int)step);
    *model = whole_checksum(w, name);
    snprintf(name, sizeof name, WHOLE_OUT "/checkpoint-%d/optimizer.safetensors", (int)step);
    *optimizer = whole_checksum(w, name);
}

/* Reads the steps of the best evaluation and of those made by every run, without an extra one at the end of the first
   part. */
static WHOLE_UNUSED void whole_read_evaluated(const whole *w, char *steps, size_t size) {
    static const char member[] = "{\"step\": ";
    char name[80];
    eitp__buffer text;
    eitp__buffer_init(&text, &w->host);
    *steps = 0;
    snprintf(name, sizeof name, WHOLE_OUT "/checkpoint-%d/run_state.json", WHOLE_STEPS);
    if (!eitp__read_file(&w->host, whole_path(w, name), (size_t)1 << 20, &text, NULL)) {
        for (const char *at = text.data; (at = strstr(at, member)) != NULL; at++) {
            const int step = atoi(at + strlen(member));
            if (whole_evaluates(step))
                snprintf(steps + strlen(steps), size - strlen(steps), "%d ", step);
        }
    }
    eitp__buffer_release(&text);
}

/* ---- The run ---- */

static WHOLE_UNUSED void whole_notice_saved(whole *w, int64_t step) {
    char name[60];
    eitp__checkpoint_head head;
    if (step > w->committed)
        w->committed = step;
    if (w->shared)
        *w->shared = w->committed;
    if (!w->bits)
        return;
    whole_read_step(w, step, &w->bits->model[step], &w->bits->optimizer[step]);
    snprintf(name, sizeof name, WHOLE_OUT "/checkpoint-%d", (int)step);
    w->uncounted += !eitp__checkpoint_read_head(&w->host, whole_path(w, name), &head, NULL) && !head.is_counted;
}

/* The step after which the run evaluates. */
static __thread int64_t whole_step_;

static WHOLE_UNUSED void whole_notice_warning(whole_said *said, const eitp_run_event *event) {
    said->best |= event->kind == EITP_EVENT_NOT_KEPT;
    said->best_json |= strstr(event->message, "best.json") != NULL;
    said->links |= strstr(event->message, "the links ") != NULL;
    said->pruning |= strstr(event->message, "old checkpoints stay") != NULL;
}

static WHOLE_UNUSED void whole_notice(void *user, const eitp_run_event *event) {
    whole *w = (whole *)user;
    const int64_t step = event->kind == EITP_EVENT_STEP ? event->report->step.step : -1;
    whole_step_ = event->report->steps_done;
    whole_notice_warning(&w->said, event);
    if (event->kind == EITP_EVENT_SAVED)
        whole_notice_saved(w, event->report->saved_step);
    if (step == w->stop_after)
        eitp_run_request_stop(w->run, 1);
    if (step == w->variant->short_after && w->shrinks)
        w->set_memory(w->user, 1);
    if (event->kind == EITP_EVENT_MEMORY_SHORT)
        w->was_short++;
}

/* Memory stays short until the run has shrunk. Memory released before that does not suffice. */
static WHOLE_UNUSED eitp_status whole_record(void *user, const eitp_record *record, eitp_error *error) {
    whole *w = (whole *)user;
    (void)error;
    for (size_t i = 0; i < record->count; i++) {
        if (!strcmp(record->values[i].name, "shrunk") && record->values[i].integer)
            w->set_memory(w->user, 0);
    }
    return EITP_OK;
}

typedef struct whole_parts {
    eitp_context *context;
    eitp_model *model;
    eitp_tokenizer *tokenizer;
    eitp_sample_file *file;
    eitp_task task;
    eitp_trainer *trainer;
} whole_parts;

/* Embeddings of a vocabulary of 1100 are large enough to be offloaded. */
static WHOLE_UNUSED eitp_status whole_make_model(whole_parts *p, eitp_error *error) {
    eitp_transformer_config shape;
    eitp_status status = eitp_transformer_config_named("tiny", &shape, error);
    shape.vocabulary = 1100;
    shape.positions = 8;
    shape.width = 8;
    shape.heads = 1;
    shape.layers = 1;
    shape.inner = 8;
    if (!status)
        status = eitp_model_create(p->context, &shape, &p->model, error);
    return status ? status : eitp_model_initialize(p->model, 3, error);
}

/* Set per training thread: a simulated power loss resumes runs on the thread that was writing. */
static __thread const whole_variant *whole_variant_;
static const eitp_task_metric whole_metric_ = {"wave", EITP_LOWER_IS_BETTER};

static WHOLE_UNUSED void whole_observe(void *user, void *memory, const eitp_observation *observation) {
    (void)user, (void)memory, (void)observation;
}

static WHOLE_UNUSED void whole_judge(void *user, void *memory, eitp_metric *results) {
    (void)user, (void)memory;
    results->mean = whole_variant_->values[whole_step_];
    results->error = 0;
}

static WHOLE_UNUSED size_t whole_observation_bytes(void *user, uint64_t samples) {
    (void)user, (void)samples;
    return 1;
}

/* Adds a metric to follow, since losses only fall. */
static WHOLE_UNUSED void whole_add_metric(eitp_task *task) {
    task->metrics = &whole_metric_;
    task->metric_count = 1;
    task->observation_bytes = whole_observation_bytes;
    task->observe = whole_observe;
    task->compute_metrics = whole_judge;
}

static WHOLE_UNUSED eitp_status whole_make_task(const whole *w, whole_parts *p, eitp_error *error) {
    eitp_language_config language = eitp_language_config_default();
    eitp_token_range training, validation;
    eitp_status status = eitp_sample_file_open(&w->host, whole_path(w, "text.tokens"), 0, &p->file, error);
    if (!status)
        status =
            eitp_split_tokens(eitp_sample_file_get_info(p->file).token_count, 0.2, 8, &training, &validation, error);
    if (status)
        return status;
    language.model = p->model;
    language.block_size = 8;
    language.tokenizer = p->tokenizer;
    language.training = eitp_sample_file_token_source(p->file, training);
    language.validation = eitp_sample_file_token_source(p->file, validation);
    status = eitp_language_task(&language, &p->task, error);
    whole_add_metric(&p->task);
    return status;
}

static WHOLE_UNUSED eitp_status whole_make(const whole *w, whole_parts *p, eitp_error *error) {
    eitp_context_config context = eitp_context_config_default();
    eitp_trainer_config config = eitp_trainer_config_default();
    eitp_status status;
    char offload[600];
    memset(p, 0, sizeof *p);
    snprintf(offload, sizeof offload, "%s", whole_path(w, "offload"));
    context.host = w->host;
    context.device = "cpu";
    context.threads = 1;
    context.isa = "ref";
    context.products = "own";
    context.offload = EITP_OFFLOAD_STATES;
    context.offload_path = offload;
    config.batch_size = WHOLE_BATCH;
    config.grad_accum = 1;
    config.seed = 11;
    config.schedule.peak = 0.01;
    config.save_dtype = EITP_SAVE_BF16;
    status = eitp_context_create(&context, &p->context, error);
    if (!status)
        status = eitp_tokenizer_create_bytes(&w->host, &p->tokenizer, error);
    if (!status)
        status = whole_make_model(p, error);
    if (!status)
        status = whole_make_task(w, p, error);
    return status ? status : eitp_trainer_create(&p->task, &config, &p->trainer, error);
}

static WHOLE_UNUSED void whole_release(whole_parts *p) {
    eitp_trainer_destroy(p->trainer);
    eitp_task_release(&p->task);
    eitp_model_destroy(p->model);
    eitp_sample_file_close(p->file);
    eitp_tokenizer_destroy(p->tokenizer);
    eitp_context_destroy(p->context);
}

/* True if the optimizer's state is in a file. */
static WHOLE_UNUSED int whole_offloads(const whole_parts *p) {
    for (size_t i = 0; i < eitp_variable_count(p->context); i++) {
        if (eitp_variable_at(p->context, i).offloaded)
            return 1;
    }
    return 0;
}

/* Starts the run, or resumes it from its newest checkpoint, and trains until the first part or all is done. */
static WHOLE_UNUSED eitp_status whole_train(whole *w, int is_first) {
    const int is_stopped = is_first && w->variant->is_stopped, is_short = is_first && !is_stopped;
    eitp_run_config config = eitp_run_config_default();
    eitp_record_sink sink;
    eitp_error error = EITP__ZERO;
    whole_parts parts;
    char out[600];
    eitp_status status;
    memset(&sink, 0, sizeof sink);
    sink.user = w;
    sink.record = whole_record;
    memset(&parts, 0, sizeof parts);
    memset(&w->report, 0, sizeof w->report);
    snprintf(out, sizeof out, "%s", whole_path(w, WHOLE_OUT));
    config.directory = out;
    config.resume = EITP_RESUME_NEWEST;
    config.steps = is_short ? w->variant->first : WHOLE_STEPS;
    config.eval_steps = WHOLE_EVAL_STEPS;
    config.log_full_every = 1; /* a spot evaluation between evaluations */
    config.spot_samples = 2;
    config.save_steps = w->variant->save_steps;
    config.save_total_limit = WHOLE_LIMIT;
    config.async_save_bytes = w->variant->saves_beside ? UINT64_MAX : 0;
    config.keep_best = whole_metric_.name;
    config.auto_shrink = 1;
    config.memory_check_seconds = 0;
    config.log_wait_seconds = 1e6; /* a simulated power loss takes long */
    config.listener.user = w;
    config.listener.notify = whole_notice;
    config.sinks = &sink;
    config.sink_count = 1;
    w->run = NULL;
    w->stop_after = is_stopped ? w->variant->first : 0;
    w->resumed = -1;
    whole_variant_ = w->variant;
    status = eitp_run_open(&w->host, &config, &w->run, &error);
    if (!status && eitp_run_checkpoint(w->run))
        w->resumed = strtoll(strrchr(eitp_run_checkpoint(w->run), '-') + 1, NULL, 10);
    whole_step_ = w->resumed > 0 ? w->resumed : 0;
    if (!status)
        status = whole_make(w, &parts, &error);
    if (!status) {
        w->offloads = whole_offloads(&parts);
        status = eitp_run_train(w->run, parts.trainer, &w->report, &error);
    }
    /* Replaces a checkpoint by another one of the same step. */
    if (!status && is_short)
        status = eitp__run_save(w->run, &error);
    if (parts.trainer)
        w->shrunk +=
            eitp_trainer_shape(parts.trainer).batch_size * eitp_trainer_shape(parts.trainer).micro_batches_per_pass <
            WHOLE_BATCH;
    whole_release(&parts);
    eitp_run_close(w->run);
    w->run = NULL;
    w->lost_records += w->report.lost_records;
    snprintf(w->message, sizeof w->message, "%s", status ? error.message : "");
    return status;
}

/* Both parts of the run: the first few steps, and a resume that shrinks. */
static WHOLE_UNUSED eitp_status whole_train_both(whole *w) {
    eitp_status status;
    w->shrinks = 0;
    status = whole_train(w, 1);
    w->shrinks = 1;
    return status ? status : whole_train(w, 0);
}

/* A number from the environment. */
static WHOLE_UNUSED long whole_setting(const char *name, long usual) {
    const char *text = getenv(name);
    return text && atol(text) > 0 ? atol(text) : usual;
}

/* Returns the distance between disturbed calls: for the first variant `usual`, or `quick` with fewer cases. */
static WHOLE_UNUSED long whole_stride(const whole_variant *variant, long usual, long quick) {
    return whole_setting("EITP_TEST_STRIDE", (test_is_quick() ? quick : usual) * variant->spacing);
}

/* ---- The result ---- */

/* Appends the sorted names in a directory, with a space after each. Damaged checkpoints are skipped, because they are
   kept on purpose. */
static WHOLE_UNUSED void whole_list(const whole *w, const char *directory, char *text, size_t size) {
    eitp__buffer names;
    size_t count = 0, at = 0, used = strlen(text);
    eitp__buffer_init(&names, &w->host);
    if (eitp__list_directory(&w->host, directory, &names, &count, NULL))
        count = 0;
    for (size_t i = 0; i < count && used < size; i++) {
        if (!strstr(names.data + at, ".damaged"))
            used += (size_t)snprintf(text + used, size - used, "%s ", names.data + at);
        at += strlen(names.data + at) + 1;
    }
    eitp__buffer_release(&names);
}

/* Lists the data directory and the run's directory. */
static WHOLE_UNUSED void whole_list_both(const whole *w, char *text, size_t size) {
    text[0] = 0;
    whole_list(w, w->directory, text, size);
    whole_list(w, whole_path(w, WHOLE_OUT), text, size);
}

/* The content of metrics.jsonl: the number of records of each step, evaluation and spot evaluation. */
typedef struct whole_records {
    int steps[WHOLE_STEPS + 1], evaluations[WHOLE_STEPS + 1], spots[WHOLE_STEPS + 1];
    int are_whole; /* all lines are complete records */
} whole_records;

static WHOLE_UNUSED void whole_count_record(whole_records *records, const char *line, const char *end) {
    static const char member[] = "{\"step\": ";
    const char *next = strstr(line + 1, member);
    const long step = atol(line + strlen(member));
    records->are_whole &= !strncmp(line, member, strlen(member)) && end[-1] == '}' && step >= 0 &&
                          step <= WHOLE_STEPS && (end[1] ? next == end + 1 : !next);
    if (records->are_whole) {
        const char *name = strchr(line, ',');
        records->steps[step] += !strncmp(name, ", \"loss\"", 8);
        records->evaluations[step] += !strncmp(name, ", \"val_loss\"", 12);
        records->spots[step] += !strncmp(name, ", \"spot/loss\"", 13);
    }
}

static WHOLE_UNUSED void whole_read_records(const whole *w, whole_records *records) {
    eitp__buffer text;
    memset(records, 0, sizeof *records);
    records->are_whole = 1;
    eitp__buffer_init(&text, &w->host);
    if (!eitp__read_file(&w->host, whole_path(w, WHOLE_OUT "/metrics.jsonl"), (size_t)1 << 20, &text, NULL) &&
        text.data) {
        const char *end;
        for (const char *line = text.data; *line && records->are_whole; line = end + 1) {
            end = strchr(line, '\n');
            records->are_whole = end && end > line;
            if (records->are_whole)
                whole_count_record(records, line, end);
        }
    }
    eitp__buffer_release(&text);
}

/* Checks that metrics.jsonl has complete lines, has each step, evaluation and spot evaluation once, and lacks no more
   than was reported. */
static WHOLE_UNUSED void whole_check_records(const whole *w, const char *what) {
    whole_records records;
    int64_t missing = 0;
    whole_read_records(w, &records);
    CHECK_THAT(records.are_whole, "%s: records are not whole lines", what);
    for (int64_t step = 0; step <= WHOLE_STEPS; step++) {
        CHECK_THAT(records.steps[step] <= 1 && records.evaluations[step] <= 1 && records.spots[step] <= 1,
                   "%s: step %d is recorded %d times, its evaluation %d times, its spot evaluation %d times", what,
                   (int)step, records.steps[step], records.evaluations[step], records.spots[step]);
        missing += (step > 0 && !records.steps[step]) + (whole_evaluates(step) && !records.evaluations[step]);
        missing += step > 0 && !whole_evaluates(step) && !records.spots[step];
    }
    CHECK_THAT(missing <= w->lost_records, "%s: %d steps and evaluations are not recorded, %d were reported", what,
               (int)missing, (int)w->lost_records);
}

/* Checks that every directory with the name of a checkpoint is a complete one, with the bits of its step. */
static WHOLE_UNUSED void whole_check_checkpoints(const whole *w, const whole_bits *bits, const char *what) {
    for (int64_t step = 0; step <= WHOLE_STEPS; step++) {
        char name[60];
        eitp_path_info info;
        eitp_error error;
        uint32_t model, optimizer;
        snprintf(name, sizeof name, WHOLE_OUT "/checkpoint-%d", (int)step);
        if (eitp__path_info(&w->host, whole_path(w, name), &info, NULL) || info.kind == EITP_PATH_MISSING)
            continue;
        whole_read_step(w, step, &model, &optimizer);
        CHECK_THAT(step > 0 && model == bits->model[step] && optimizer == bits->optimizer[step], "%s: %s is not whole",
                   what, name);
        CHECK_THAT(!eitp_checkpoint_verify(&w->host, whole_path(w, name), &error), "%s: %s", what, error.message);
    }
}

/* ---- Guarantees of a run at any instant ---- */

/* The checkpoints in the directory of a run. */
typedef struct whole_present {
    int is_there[WHOLE_STEPS + 1];
    int counted, uncounted;
    int64_t newest; /* -1: none */
} whole_present;

static WHOLE_UNUSED int whole_kind(const whole *w, const char *name, eitp_path_kind kind) {
    eitp_path_info info;
    return !eitp__path_info(&w->host, whole_path(w, name), &info, NULL) && info.kind == kind;
}

static WHOLE_UNUSED void whole_find_checkpoints(const whole *w, whole_present *present) {
    memset(present, 0, sizeof *present);
    present->newest = -1;
    for (int64_t step = 0; step <= WHOLE_STEPS; step++) {
        char name[60];
        eitp__checkpoint_head head;
        snprintf(name, sizeof name, WHOLE_OUT "/checkpoint-%d", (int)step);
        if (!whole_kind(w, name, EITP_PATH_DIRECTORY) ||
            eitp__checkpoint_read_head(&w->host, whole_path(w, name), &head, NULL))
            continue;
        present->is_there[step] = 1;
        present->newest = step;
        present->counted += head.is_counted;
        present->uncounted += !head.is_counted;
    }
}

/* Returns the number after `member` in a file, or -1 if there is none. */
static WHOLE_UNUSED int64_t whole_read_number(const whole *w, const char *name, const char *member) {
    int64_t number = -1;
    const char *at;
    eitp__buffer text;
    eitp__buffer_init(&text, &w->host);
    if (!eitp__read_file(&w->host, whole_path(w, name), (size_t)1 << 20, &text, NULL) && text.data) {
        at = strstr(text.data, member);
        number = at ? atol(at + strlen(member)) : -1;
    }
    eitp__buffer_release(&text);
    return number;
}

/* Returns the step of the best checkpoint according to the newest one. */
static WHOLE_UNUSED int64_t whole_best_of_newest(const whole *w, const whole_present *present) {
    char name[80];
    snprintf(name, sizeof name, WHOLE_OUT "/checkpoint-%d/run_state.json", (int)present->newest);
    return whole_read_number(w, name, "\"best\": {\"step\": ");
}

/* Checks that a link points to a checkpoint, at the end to the one of `step`, or that there is none if `step` is -1. */
static WHOLE_UNUSED void whole_check_link(const whole *w, const char *link, int64_t step, int is_end,
                                          const char *what) {
    char names[1024] = " ", name[80], manifest[100];
    int64_t target;
    snprintf(name, sizeof name, " %s ", link);
    whole_list(w, whole_path(w, WHOLE_OUT), names, sizeof names);
    if (!strstr(names, name)) {
        CHECK_THAT(!is_end || step < 0 || w->said.links, "%s: %s is missing, the checkpoint of step %d is there", what,
                   link, (int)step);
        return;
    }
    /* Without an exchange, the name of a checkpoint being replaced comes back when the run is created again. */
    if (!is_end && !w->variant->exchanges && strstr(names, ".replaced "))
        return;
    snprintf(name, sizeof name, WHOLE_OUT "/%s", link);
    CHECK_THAT(whole_kind(w, name, EITP_PATH_DIRECTORY), "%s: %s leads to nothing", what, link);
    snprintf(manifest, sizeof manifest, "%s/manifest.json", name);
    target = whole_read_number(w, manifest, "\"step\": ");
    CHECK_THAT(!is_end || target == step || w->said.links, "%s: %s leads to step %d, not %d", what, link, (int)target,
               (int)step);
}

/*
 * Checks that the best checkpoint exists wherever it is named, that links point to checkpoints, and that there is at
 * most one checkpoint in progress above the limit. At the end of a run, checks that all of them agree.
 */
static WHOLE_UNUSED void whole_check_promises(const whole *w, int is_end, const char *what) {
    const int more = !is_end && !w->said.pruning;
    whole_present present;
    int64_t named, best;
    whole_find_checkpoints(w, &present);
    named = whole_read_number(w, WHOLE_OUT "/best.json", "\"best\": {\"step\": ");
    best = whole_best_of_newest(w, &present);
    CHECK_THAT(named <= WHOLE_STEPS && best <= WHOLE_STEPS, "%s: the best is step %d, %d", what, (int)named, (int)best);
    CHECK_THAT(!w->variant->exchanges || present.newest >= w->committed,
               "%s: step %d was saved, and the newest checkpoint is that of step %d", what, (int)w->committed,
               (int)present.newest);
    CHECK_THAT(named < 0 || present.is_there[named] || w->said.best_json,
               "%s: best.json names step %d, which has no checkpoint", what, (int)named);
    CHECK_THAT(best < 0 || present.is_there[best], "%s: checkpoint-%d has step %d as the best, which has no checkpoint",
               what, (int)present.newest, (int)best);
    CHECK_THAT(!is_end || named == best, "%s: best.json names step %d, checkpoint-%d has %d", what, (int)named,
               (int)present.newest, (int)best);
    CHECK_THAT(w->said.pruning || present.counted <= WHOLE_LIMIT + 1 + more, "%s: %d checkpoints count", what,
               present.counted);
    CHECK_THAT(w->said.pruning || present.uncounted <= 1 + more, "%s: %d checkpoints do not count", what,
               present.uncounted);
    whole_check_link(w, "latest_model", present.newest, is_end, what);
    whole_check_link(w, "best_model", best, is_end, what);
}

/* Runs undisturbed on a host, and records the checkpoint of each step and the final state. */
static WHOLE_UNUSED int whole_reference(whole *w, whole_bits *bits) {
    memset(bits, 0, sizeof *bits);
    w->bits = bits;
    CHECK_THAT(!whole_train_both(w), "%s", w->message);
    CHECK_THAT(w->was_short == 1 && w->shrunk == 1 && w->committed == WHOLE_STEPS,
               "memory was short %d times, committed %d", w->was_short, (int)w->committed);
    CHECK(w->offloads && w->resumed == w->variant->first && w->uncounted == w->variant->uncounted);
    whole_list_both(w, bits->names, sizeof bits->names);
    whole_read_evaluated(w, bits->evaluated, sizeof bits->evaluated);
    CHECK(strlen(bits->evaluated) > 0);
    whole_check_records(w, "undisturbed");
    whole_check_promises(w, 1, "undisturbed");
    for (int64_t step = 1; step <= WHOLE_STEPS; step++)
        CHECK(bits->model[step] && bits->optimizer[step]);
    return bits->model[WHOLE_STEPS] != 0;
}

/*
 * Resumes a disturbed run without further faults, and checks that nothing committed is lost, that it ends with the bits
 * of the undisturbed run, and that nothing is left over. Returns 1 if so; otherwise prints the reason after `what`.
 */
static WHOLE_UNUSED int whole_recovers(whole *w, const whole_bits *bits, const char *what) {
    const int64_t committed = w->committed;
    const int failures = test_failures_;
    char names[1024], evaluated[80];
    eitp_status status;
    w->shrinks = 0;
    w->set_memory(w->user, 0);
    status = whole_train(w, 0);
    CHECK_THAT(!status, "%s: %s", what, w->message);
    CHECK_THAT(status || w->resumed >= committed, "%s: resumed from step %d, but step %d was saved", what,
               (int)w->resumed, (int)committed);
    if (status)
        return 0;
    CHECK_THAT(w->committed == WHOLE_STEPS || w->resumed == WHOLE_STEPS, "%s: step %d was not saved", what,
               WHOLE_STEPS);
    whole_check_checkpoints(w, bits, what);
    whole_list_both(w, names, sizeof names);
    CHECK_THAT(w->said.best || !strcmp(names, bits->names), "%s: resumed from %d: left are %s, not %s", what,
               (int)w->resumed, names, bits->names);
    whole_read_evaluated(w, evaluated, sizeof evaluated);
    CHECK_THAT(w->said.best || !strcmp(evaluated, bits->evaluated), "%s: resumed from %d: evaluations %s, not %s", what,
               (int)w->resumed, evaluated, bits->evaluated);
    whole_check_records(w, what);
    whole_check_promises(w, 1, what);
    return test_failures_ == failures;
}

/* ---- On a simulated disk ---- */

static WHOLE_UNUSED void whole_set_disk_memory(void *user, int is_short) {
    const char *text = is_short ? whole_short_ : whole_plenty_;
    disk_set_content((disk *)user, "/proc/meminfo", text, strlen(text));
}

/* Prepares a whole run on a disk, without faults if `host` is NULL, otherwise through that host's functions. */
static WHOLE_UNUSED void whole_begin(whole *w, const whole_variant *variant, disk *d, const eitp_host *host) {
    memset(w, 0, sizeof *w);
    w->variant = variant;
    w->host = host ? *host : eitp_host_default();
    if (!host)
        w->host.files = disk_files(d);
    if (!variant->exchanges)
        w->host.files.exchange = NULL;
    w->directory = "/disk";
    w->committed = w->resumed = -1;
    w->set_memory = whole_set_disk_memory;
    w->user = d;
}

/* Creates a disk with the data of the run and the kernel's memory files. */
static WHOLE_UNUSED int whole_begin_disk(disk *d) {
    const char *path = "/disk/text.txt";
    eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer = NULL;
    eitp_pack_config pack = eitp_pack_config_default();
    eitp_error error;
    eitp_status status;
    disk_begin(d);
    host.files = disk_files(d);
    disk_install(d, "/proc/meminfo", whole_plenty_, sizeof whole_plenty_ - 1);
    disk_install(d, "/proc/self/status", whole_status_, sizeof whole_status_ - 1);
    disk_install(d, path, whole_text_, sizeof whole_text_ - 1);
    pack.texts.paths = &path;
    pack.texts.path_count = 1;
    status = eitp_tokenizer_create_bytes(&host, &tokenizer, &error);
    if (!status)
        status = eitp_pack(&host, tokenizer, &pack, "/disk/text.tokens", NULL, &error);
    eitp_tokenizer_destroy(tokenizer);
    CHECK_THAT(!status, "%s", error.message);
    disk_install(d, path, whole_text_, sizeof whole_text_ - 1); /* makes all of it durable */
    return !status;
}

#endif
