/* Performance of steps, as records: times by phase, utilization, use of the machine, and ops. */
#include "base/clock.h"
#include "base/machine.h"
#include "base/statistics.h"
#include "base/system_use.h"
#include "run/internal.h"
#include "train/trainer.h"

/* Number of step times from which a median is computed: the last ones of a longer interval. */
enum { EITP__TIMED_STEPS = 128 };

/* Sums over the steps of an interval, in seconds. */
typedef struct eitp__step_sums {
    eitp_step_times times;
    int64_t steps, items;
    int64_t clipped, skipped; /* number of clipped and of skipped steps */
    double flops;
    double saves, evaluations; /* time for which training waited */
    double resident;           /* sum of the resident set sizes after the steps, in bytes */
} eitp__step_sums;

typedef struct eitp__performance {
    eitp__step_sums interval, epoch;
    double interval_began;    /* on the clock */
    eitp__rolling step_times; /* of the interval */
    eitp__system_use use;     /* when the interval started */
    int has_use, has_energy, has_explained;
    int is_begun;      /* an interval, and an epoch or a part of one, has started */
    uint64_t peak;     /* of the process when the interval started: VmHWM */
    double largest;    /* largest resident set size after a step of the interval */
    double peak_flops; /* of matrix products, per second; 0: unknown */
} eitp__performance;

/* ---- Sums ---- */

static void eitp__add_step(eitp__step_sums *sums, const eitp_step_report *step, double resident) {
    const eitp_step_times *times = &step->times;
    sums->times.total += times->total;
    sums->times.data += times->data;
    sums->times.forward += times->forward;
    sums->times.backward += times->backward;
    sums->times.update += times->update;
    sums->times.transfer += times->transfer;
    sums->times.other += times->other;
    sums->items += step->items;
    sums->clipped += step->clipped;
    sums->skipped += !step->applied;
    sums->flops += step->flops;
    sums->resident += resident;
    sums->steps++;
}

static double eitp__share(double part, double whole) {
    return whole > 0 ? part / whole : 0;
}

/* ---- Values ---- */

static void eitp__add_phases(eitp__values *list, const char *prefix, const eitp__step_sums *sums) {
    const eitp_step_times *times = &sums->times;
    const double computing = times->forward + times->backward + times->update;
    eitp__add_seconds(list, prefix, "forward_time", times->forward);
    eitp__add_seconds(list, prefix, "backward_time", times->backward);
    eitp__add_seconds(list, prefix, "optimizer_time", times->update);
    eitp__add_seconds(list, prefix, "data_loading_time", times->data);
    eitp__add_seconds(list, prefix, "transfer_time", times->transfer);
    eitp__add_seconds(list, prefix, "other_time", times->other);
    eitp__add_seconds(list, prefix, "checkpoint_time", sums->saves);
    eitp__add_seconds(list, prefix, "evaluation_time", sums->evaluations);
    eitp__add_named(list, prefix, "data_loading_ratio", "", 100 * eitp__share(times->data, times->total));
    eitp__add_named(list, prefix, "compute_ratio", "", 100 * eitp__share(computing, times->total));
    eitp__add_named(list, prefix, "other_ratio", "",
                    100 * eitp__share(times->total - times->data - computing, times->total));
}

static void eitp__add_rates(const eitp_run *run, const eitp__performance *state, eitp__values *list) {
    const eitp__step_sums *sums = &state->interval;
    const double seconds = sums->times.total, wall = eitp__clock() - state->interval_began;
    const double run_seconds = run->report.seconds;
    eitp__add_integer(list, "perf/steps", sums->steps);
    eitp__add_number(list, "perf/clipped_percent", 100 * eitp__share((double)sums->clipped, (double)sums->steps));
    eitp__add_number(list, "perf/skipped_percent", 100 * eitp__share((double)sums->skipped, (double)sums->steps));
    eitp__add_seconds(list, "perf/", "wall_time", wall);
    eitp__add_seconds(list, "perf/", "step_time", eitp__share(seconds, (double)sums->steps));
    eitp__add_seconds(list, "perf/", "step_time_median",
                      eitp__median(state->step_times.values, state->step_times.count));
    eitp__add_named(list, "perf/", eitp__run_unit(run), "_per_s", eitp__share((double)sums->items, seconds));
    eitp__add_named(list, "perf/", eitp__run_unit(run), "_per_s_mean",
                    eitp__share((double)run->report.items, run_seconds));
    eitp__add_number(list, "perf/tflops", 1e-12 * eitp__share(sums->flops, seconds));
    if (state->peak_flops > 0)
        eitp__add_number(list, "perf/mfu", 100 * eitp__share(sums->flops, seconds) / state->peak_flops);
}

/* ---- The machine ---- */

static void eitp__add_difference(eitp__values *list, const char *name, double before, double after) {
    if (!isnan(before) && !isnan(after))
        eitp__add_number(list, name, after - before);
}

static void eitp__add_energy(eitp__performance *state, eitp__values *list, const eitp__system_use *before,
                             const eitp__system_use *now) {
    double energy = now->energy_j - before->energy_j;
    if (isnan(energy)) {
        if (!state->has_explained)
            eitp__add_text(
                list, "sys/energy_unavailable",
                "cannot read a package counter in /sys/class/powercap: the machine hides it, or allows only root "
                "alone");
        state->has_explained = 1;
        return;
    }
    eitp__add_number(list, "sys/energy_j", energy < 0 ? energy + now->energy_range : energy);
}

/* Adds the resources that the process has used since the interval started. */
static void eitp__add_use(eitp__performance *state, eitp__values *list, const eitp__system_use *now) {
    const eitp__system_use *before = &state->use;
    eitp__add_difference(list, "sys/processor_s", before->processor_s, now->processor_s);
    eitp__add_difference(list, "sys/voluntary_switches", before->voluntary_switches, now->voluntary_switches);
    eitp__add_difference(list, "sys/involuntary_switches", before->involuntary_switches, now->involuntary_switches);
    eitp__add_difference(list, "sys/major_faults", before->major_faults, now->major_faults);
    eitp__add_difference(list, "sys/read_bytes", before->read_bytes, now->read_bytes);
    eitp__add_difference(list, "sys/written_bytes", before->written_bytes, now->written_bytes);
    if (now->machine_s > before->machine_s)
        eitp__add_number(list, "sys/steal",
                         100 * (now->stolen_s - before->stolen_s) / (now->machine_s - before->machine_s));
    if (!isnan(now->frequency))
        eitp__add_number(list, "sys/frequency_mhz", 1e-6 * now->frequency);
    eitp__add_energy(state, list, before, now);
}

/* Adds the peak memory of the interval. It is exact if the process has exceeded its earlier peak; otherwise it is the
   largest resident set size after a step. */
static void eitp__add_memory(const eitp_run *run, eitp__performance *state, eitp__values *list) {
    const eitp_context *context = eitp__trainer_task(run->trainer)->context;
    eitp_memory_info memory;
    if (eitp_memory_info_read(&run->host, &memory, NULL))
        return;
    eitp__add_integer(list, "mem/rss_bytes", (int64_t)memory.resident);
    eitp__add_integer(list, "mem/interval_peak_bytes",
                      memory.peak > state->peak ? (int64_t)memory.peak : (int64_t)state->largest);
    eitp__add_integer(list, "mem/peak_bytes", (int64_t)memory.peak);
    eitp__add_integer(list, "mem/arena_bytes", (int64_t)eitp_context_arena_bytes(context));
    eitp__add_integer(list, "mem/left_bytes", (int64_t)memory.left);
    state->peak = memory.peak;
}

/* ---- Intervals and epochs ---- */

static void eitp__interval_begin(eitp_run *run, eitp__performance *state, const eitp__system_use *use) {
    state->has_use = use || !eitp__system_use_read(&run->host, state->has_energy, &state->use, NULL);
    if (use)
        state->use = *use;
    memset(&state->interval, 0, sizeof state->interval);
    state->step_times.count = 0;
    state->largest = 0;
    state->interval_began = eitp__clock();
}

/* Measures the peak rate of products once the run has trained so long that the measurement is a small part of the
   time. */
static void eitp__measure_peak(const eitp_run *run, eitp__performance *state) {
    const eitp_context *context = eitp__trainer_task(run->trainer)->context;
    const eitp__backend *backend = context->backend;
    const double least = 10; /* seconds */
    if (!(state->peak_flops > 0) && run->report.seconds >= least && backend->interface->peak)
        state->peak_flops = backend->interface->peak(backend, eitp_context_precision(context));
}

static void eitp__record_interval(eitp_run *run, eitp__performance *state) {
    eitp__values *list = eitp__record_begin(run);
    eitp__system_use now;
    const int is_known = state->has_use && !eitp__system_use_read(&run->host, state->has_energy, &now, NULL);
    eitp__measure_peak(run, state);
    eitp__add_rates(run, state, list);
    eitp__add_phases(list, "perf/", &state->interval);
    eitp__add_memory(run, state, list);
    if (is_known)
        eitp__add_use(state, list, &now);
    eitp__record(run, EITP_RECORD_PERFORMANCE, run->report.step.step);
    eitp__interval_begin(run, state, is_known ? &now : NULL);
}

/* Returns the number of epochs that are complete after a step. */
static int64_t eitp__epochs_done(const eitp_run *run, int64_t step) {
    return (int64_t)(eitp__trainer_samples(run->trainer, step) /
                     eitp__trainer_task(run->trainer)->samples[EITP_TRAINING]);
}

static void eitp__record_epoch(eitp_run *run, eitp__performance *state, int64_t epoch) {
    const double bytes = eitp__share(state->epoch.resident, (double)state->epoch.steps);
    eitp__values *list = eitp__record_begin(run);
    eitp__add_integer(list, "perf/epoch", epoch);
    eitp__add_integer(list, "perf/epoch_steps", state->epoch.steps);
    eitp__add_phases(list, "perf/epoch_", &state->epoch);
    eitp__add_number(list, "perf/epoch_avg_memory_gb", 1e-9 * bytes);
    eitp__record(run, EITP_RECORD_PERFORMANCE, run->report.step.step);
    memset(&state->epoch, 0, sizeof state->epoch);
}

/* ---- The observer ---- */

static int eitp__performance_is_recorded(const eitp_run *run) {
    return run->config.monitor != EITP_MONITOR_OFF;
}

static eitp_status eitp__performance_begin(eitp_run *run, void *user, eitp_error *error) {
    eitp__performance *state = (eitp__performance *)user;
    (void)error;
    state->is_begun = eitp__performance_is_recorded(run);
    if (!state->is_begun)
        return EITP_OK;
    state->has_energy = 1;
    eitp__interval_begin(run, state, NULL);
    state->has_energy = !isnan(state->use.energy_j);
    if (!(state->peak_flops > 0))
        state->peak_flops = 1e12 * run->config.peak_tflops;
    return EITP_OK;
}

/* False without records. The level may change during training: then the next step starts an interval. */
static int eitp__performance_continues(eitp_run *run, eitp__performance *state) {
    const int was_begun = state->is_begun;
    eitp_error ignored;
    if (eitp__performance_is_recorded(run) && was_begun)
        return 1;
    memset(&state->epoch, 0, sizeof state->epoch);
    eitp__performance_begin(run, state, &ignored);
    return 0;
}

static void eitp__performance_after_step(eitp_run *run, void *user, eitp__decision *decision) {
    eitp__performance *state = (eitp__performance *)user;
    const eitp_step_report *step = &run->report.step;
    const int64_t every = run->config.perf_every, epoch = eitp__epochs_done(run, step->step);
    double resident;
    (void)decision;
    if (!eitp__performance_continues(run, state))
        return;
    resident = (double)eitp__resident_read(&run->host, NULL);
    state->largest = resident > state->largest ? resident : state->largest;
    eitp__rolling_add(&state->step_times, EITP__TIMED_STEPS, step->times.total);
    eitp__add_step(&state->interval, step, resident);
    eitp__add_step(&state->epoch, step, resident);
    if (every > 0 && step->step % every == 0)
        eitp__record_interval(run, state);
    if (epoch > eitp__epochs_done(run, step->step - 1))
        eitp__record_epoch(run, state, epoch);
}

static void eitp__performance_add_evaluation(const eitp_run *run, void *user) {
    eitp__performance *state = (eitp__performance *)user;
    state->interval.evaluations += run->seconds;
    state->epoch.evaluations += run->seconds;
}

static void eitp__performance_after_evaluation(eitp_run *run, void *user, eitp__decision *decision) {
    (void)decision;
    eitp__performance_add_evaluation(run, user);
}

static void eitp__performance_after_spot(eitp_run *run, void *user, const eitp_evaluation *evaluation) {
    (void)evaluation;
    eitp__performance_add_evaluation(run, user);
}

static void eitp__performance_saved(eitp_run *run, void *user, int is_counted, double waited) {
    eitp__performance *state = (eitp__performance *)user;
    (void)run, (void)is_counted;
    state->interval.saves += waited;
    state->epoch.saves += waited;
}

/* Records the last steps if they are fewer than an interval. */
static void eitp__performance_end(eitp_run *run, void *user) {
    eitp__performance *state = (eitp__performance *)user;
    if (eitp__performance_is_recorded(run) && state->is_begun && run->config.perf_every > 0 &&
        state->interval.steps > 0)
        eitp__record_interval(run, state);
}

EITP__PRIVATE void eitp__performance_observer(eitp__observer *observer) {
    observer->state_size = sizeof(eitp__performance);
    observer->cost = EITP_RUN_COST_RECORDS;
    observer->begin = eitp__performance_begin;
    observer->after_step = eitp__performance_after_step;
    observer->after_evaluation = eitp__performance_after_evaluation;
    observer->after_spot = eitp__performance_after_spot;
    observer->saved = eitp__performance_saved;
    observer->end = eitp__performance_end;
}

/* ---- Times of ops ---- */

enum {
    EITP__TIMED_OPS = 128,  /* number of distinct kinds of ops */
    EITP__RECORDED_OPS = 20 /* maximum number of recorded ones, the slowest */
};

/* An op in a phase, with the sums of all its executions. */
typedef struct eitp__op_time {
    const char *op;
    eitp_phase phase;
    double seconds, flops, bytes;
} eitp__op_time;

typedef struct eitp__op_times {
    eitp__op_time ops[EITP__TIMED_OPS];
    size_t count;
    int64_t executions;
    double seconds;        /* of all ops */
    int is_profiling;      /* the step in progress is profiled */
    eitp_profiler program; /* profiler of the context before */
} eitp__op_times;

/* ---- A profiled step ---- */

/* Returns the sums of an op, or NULL if there are too many kinds. */
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

/* Moves the slowest ops to the front. */
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
        char name[EITP__RECORD_NAME_SIZE - 32]; /* the rest is for the prefix and the suffix */
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

/* Restarts the measurement if a dropped step is repeated. */
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
    observer->cost = EITP_RUN_COST_RECORDS;
    observer->before_step = eitp__op_times_before_step;
    observer->after_step = eitp__op_times_after_step;
    observer->end = eitp__op_times_end;
}
