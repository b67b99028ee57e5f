/* What the ops of every so many steps take, by kind, as records of performance. Such a step executes op by op, so it
   takes longer; its bits are the same. */
#include "run/records.h"

#include "train/trainer.h"

enum {
    EITP__TIMED_OPS = 128,  /* kinds of ops that are told apart */
    EITP__RECORDED_OPS = 20 /* those of which most is recorded, which take longest */
};

/* An op in a phase: the sums of all its executions. */
typedef struct eitp__op_time {
    const char *op;
    eitp_phase phase;
    double seconds, flops, bytes;
} eitp__op_time;

typedef struct eitp__op_times {
    eitp__op_time ops[EITP__TIMED_OPS];
    size_t count;
    int64_t executions;
    double seconds;        /* of all */
    int is_profiling;      /* the step in progress */
    eitp_profiler program; /* of the context before */
} eitp__op_times;

/* ---- A profiled step ---- */

/* The sums of an op; NULL if there are too many kinds. */
static eitp__op_time *eitp__op_times_find(eitp__op_times *times, const eitp_profile *profile) {
    eitp__op_time *added;
    for (size_t i = 0; i < times->count; i++) {
        if (times->ops[i].phase == profile->phase && !strcmp(times->ops[i].op, profile->op))
            return &times->ops[i];
    }
    if (times->count == EITP__TIMED_OPS)
        return NULL;
    added = &times->ops[times->count++];
    memset(added, 0, sizeof *added);
    added->op = profile->op;
    added->phase = profile->phase;
    return added;
}

static void eitp__op_times_add(void *user, const eitp_profile *profile) {
    eitp__op_times *times = (eitp__op_times *)user;
    eitp__op_time *of_kind = eitp__op_times_find(times, profile);
    times->executions++;
    times->seconds += profile->seconds;
    if (of_kind) {
        of_kind->seconds += profile->seconds;
        of_kind->flops += profile->flops;
        of_kind->bytes += profile->bytes_read + profile->bytes_written;
    }
    if (times->program.step)
        times->program.step(times->program.user, profile);
}

static eitp_context *eitp__op_times_context(const eitp_run *run) {
    return eitp__trainer_task(run->trainer)->context;
}

static void eitp__op_times_start(const eitp_run *run, eitp__op_times *times) {
    eitp_context *context = eitp__op_times_context(run);
    eitp_profiler profiler = EITP__ZERO;
    if (!times->is_profiling)
        times->program = context->profiler;
    times->is_profiling = 1;
    times->count = 0;
    times->executions = 0;
    times->seconds = 0;
    profiler.user = times;
    profiler.step = eitp__op_times_add;
    eitp_context_profile(context, &profiler);
}

static void eitp__op_times_stop(const eitp_run *run, eitp__op_times *times) {
    eitp_context_profile(eitp__op_times_context(run), &times->program);
    times->is_profiling = 0;
}

/* ---- Its record ---- */

/* Moves what takes longest to the front. */
static size_t eitp__op_times_select(eitp__op_times *times) {
    const size_t most = EITP__RECORDED_OPS, count = times->count < most ? times->count : most;
    for (size_t i = 0; i < count; i++) {
        const eitp__op_time first = times->ops[i];
        size_t longest = i;
        for (size_t k = i + 1; k < times->count; k++) {
            if (times->ops[k].seconds > times->ops[longest].seconds)
                longest = k;
        }
        times->ops[i] = times->ops[longest];
        times->ops[longest] = first;
    }
    return count;
}

static void eitp__op_times_add_share(eitp__values *list, const char *name, double seconds, double whole) {
    eitp__add_named(list, "profile/", name, "_s", seconds);
    eitp__add_named(list, "profile/", name, "_percent", whole > 0 ? 100 * seconds / whole : 0);
}

static void eitp__op_times_record(eitp_run *run, eitp__op_times *times) {
    static const char *const phases[] = {"forward", "backward", "update"};
    const size_t count = eitp__op_times_select(times);
    eitp__values *list = eitp__record_begin(run);
    double recorded = 0;
    eitp__add_number(list, "profile/step_time_s", run->seconds);
    eitp__add_integer(list, "profile/ops", times->executions);
    for (size_t i = 0; i < count; i++) {
        const eitp__op_time *op = &times->ops[i];
        char name[EITP__RECORD_NAME_SIZE - 32]; /* the rest is for what comes before and after it */
        snprintf(name, sizeof name, "%s/%s", phases[op->phase], op->op);
        eitp__op_times_add_share(list, name, op->seconds, run->seconds);
        if (op->flops > 0 && op->seconds > 0)
            eitp__add_named(list, "profile/", name, "_gflops", 1e-9 * op->flops / op->seconds);
        if (op->seconds > 0)
            eitp__add_named(list, "profile/", name, "_gb_per_s", 1e-9 * op->bytes / op->seconds);
        recorded += op->seconds;
    }
    eitp__op_times_add_share(list, "other_ops", times->seconds - recorded, run->seconds);
    eitp__op_times_add_share(list, "outside", run->seconds - times->seconds, run->seconds);
    eitp__record(run, EITP_RECORD_PERFORMANCE, run->report.step.step);
}

/* ---- The observer ---- */

/* A step that is dropped, and repeated, is measured anew. */
static eitp_status eitp__op_times_before_step(eitp_run *run, void *state, eitp_error *error) {
    const int64_t every = run->config.profile_every, step = eitp_trainer_steps_done(run->trainer) + 1;
    (void)error;
    if (every > 0 && step % every == 0 && run->config.monitor != EITP_MONITOR_OFF)
        eitp__op_times_start(run, (eitp__op_times *)state);
    return EITP_OK;
}

static void eitp__op_times_after_step(eitp_run *run, void *state, eitp__decision *decision) {
    eitp__op_times *times = (eitp__op_times *)state;
    (void)decision;
    if (!times->is_profiling)
        return;
    eitp__op_times_stop(run, times);
    eitp__op_times_record(run, times);
}

static void eitp__op_times_end(eitp_run *run, void *state) {
    eitp__op_times *times = (eitp__op_times *)state;
    if (times->is_profiling)
        eitp__op_times_stop(run, times);
}

EITP__PRIVATE void eitp__op_times_observer(eitp__observer *observer) {
    observer->state_size = sizeof(eitp__op_times);
    observer->part = EITP_RUN_PART_RECORDS;
    observer->before_step = eitp__op_times_before_step;
    observer->after_step = eitp__op_times_after_step;
    observer->end = eitp__op_times_end;
}
