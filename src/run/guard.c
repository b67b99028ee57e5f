#include "run/guard.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/machine.h"
#include "base/status.h"
#include "run/internal.h"
#include "run/save.h"
#include "tensor/context.h"
#include "train/trainer.h"

/* ---- Shortage ---- */

/* Time constants in seconds. The estimate follows a rise, and the end of a loss, within about three readings. It
   follows a fall more slowly, because other programs allocate memory in bursts. */
#define EITP__LOSS_RISES 0.15
#define EITP__LOSS_FALLS 0.5

/* Safety factor: losses and durations may double. */
#define EITP__PRESSURE_SAFETY 2

EITP__PRIVATE void eitp__pressure_init(eitp__pressure *pressure, uint64_t bytes) {
    const double written = 200e6, begin = 0.2; /* conservative write rate in bytes per second, and seconds to start */
    memset(pressure, 0, sizeof *pressure);
    pressure->save = begin + (double)bytes / written;
    pressure->shrink = 0.3;
}

/* Returns the sum of the memory left by the machine and the control groups, and the run's own part of it. */
static double eitp__pressure_total(const eitp__memory_state *state) {
    return state->left_physical == UINT64_MAX ? 0 : (double)state->left_physical + (double)state->anonymous;
}

EITP__PRIVATE void eitp__pressure_add(eitp__pressure *pressure, const eitp__memory_state *state, double now,
                                      double busy) {
    const double total = eitp__pressure_total(state), passed = now - pressure->checked_at;
    if (pressure->has_looked && passed > 0) {
        const double loss = (pressure->total - total) / passed;
        const int has_ended = loss < pressure->loss / 10;
        const double follows = has_ended || loss > pressure->loss ? EITP__LOSS_RISES : EITP__LOSS_FALLS;
        pressure->loss += (loss - pressure->loss) * (1 - exp(-passed / follows));
    }
    if (busy > pressure->blind_now)
        pressure->blind_now = busy;
    if (pressure->blind_now > pressure->blind)
        pressure->blind = pressure->blind_now;
    pressure->has_looked = 1;
    pressure->checked_at = now;
    pressure->total = total;
}

static uint64_t eitp__bytes_without(uint64_t bytes, uint64_t taken) {
    return bytes > taken ? bytes - taken : 0;
}

/* Returns the bytes of the arena that the run will touch but has not touched yet. */
static uint64_t eitp__untouched(const eitp__pressure *pressure, const eitp__memory_state *state,
                                const eitp__arena_use *arena) {
    const double bytes = pressure->expected - (double)state->anonymous;
    if (bytes <= 0)
        return 0;
    return bytes < (double)arena->needed ? (uint64_t)bytes : arena->needed;
}

/* Like eitp__pressure_left, for memory alone, without the limits of the process, which count addresses. */
static uint64_t eitp__physical_left(const eitp__pressure *pressure, const eitp__memory_state *state,
                                    const eitp__arena_use *arena) {
    return state->left_physical == UINT64_MAX
               ? UINT64_MAX
               : eitp__bytes_without(state->left_physical, eitp__untouched(pressure, state, arena));
}

EITP__PRIVATE uint64_t eitp__pressure_left(const eitp__pressure *pressure, const eitp__memory_state *state,
                                           const eitp__arena_use *arena) {
    const uint64_t physical = eitp__physical_left(pressure, state, arena);
    uint64_t addresses = state->left_of_limits;
    if (addresses != UINT64_MAX)
        addresses = eitp__bytes_without(addresses, eitp__bytes_without(arena->needed, arena->reserved));
    return physical < addresses ? physical : addresses;
}

/*
 * Memory runs out if it could fall to the floor before the next check that can react; or, since the arena is released
 * first, before a save and a shrink that start now are done.
 */
EITP__PRIVATE eitp__shortage eitp__pressure_assess(const eitp__pressure *pressure, const eitp__memory_state *state,
                                                   const eitp__arena_use *arena) {
    const uint64_t floor_bytes = eitp__memory_floor(&state->info);
    const uint64_t left = eitp__physical_left(pressure, state, arena);
    const double loss = EITP__PRESSURE_SAFETY * pressure->loss;
    double room, relieved;
    if (!state->info.usable)
        return EITP__MEMORY_AMPLE;
    if (eitp__pressure_left(pressure, state, arena) < floor_bytes)
        return EITP__MEMORY_LOW;
    if (left == UINT64_MAX || loss <= 0)
        return EITP__MEMORY_AMPLE;
    room = (double)left - (double)floor_bytes;
    relieved = room + (double)arena->needed;
    return room < loss * pressure->blind || relieved < loss * (pressure->blind + pressure->save + pressure->shrink)
               ? EITP__MEMORY_RUNS_OUT
               : EITP__MEMORY_AMPLE;
}

/* Returns the seconds until all available memory, including the untouched part of the arena, is lost at this rate. */
static double eitp__pressure_seconds(const eitp__pressure *pressure, const eitp__memory_state *state) {
    return pressure->loss <= 0 || state->left_physical == UINT64_MAX ? HUGE_VAL
                                                                     : (double)state->left_physical / pressure->loss;
}

EITP__PRIVATE void eitp__pressure_step_done(eitp__pressure *pressure) {
    /* Recent steps count more: a step that was slow because the machine was busy is forgotten. */
    const double kept = 0.8 * pressure->blind;
    pressure->blind = pressure->blind_now > kept ? pressure->blind_now : kept;
    pressure->blind_now = 0;
    pressure->expected = 0;
}

EITP__PRIVATE void eitp__pressure_released(eitp__pressure *pressure, const eitp__memory_state *state,
                                           const eitp__arena_use *arena) {
    pressure->expected = (double)state->anonymous + (double)arena->needed;
}

EITP__PRIVATE void eitp__pressure_saved(eitp__pressure *pressure, double seconds) {
    pressure->save = seconds;
    /* On so busy a machine, a first shrink may take as long. */
    if (!pressure->has_shrunk && seconds > pressure->shrink)
        pressure->shrink = seconds;
}

static void eitp__pressure_shrunk(eitp__pressure *pressure, double seconds) {
    pressure->shrink = seconds;
    pressure->has_shrunk = 1;
}

/* ---- Memory used by other programs ---- */

/* In percent of all memory: others used a little less when the run started, even on an idle machine. */
#define EITP__OCCUPANCY_NOISE 1

/* Returns the bytes that others use, without cached files. */
static uint64_t eitp__occupancy_of_others(const eitp__memory_state *state) {
    const uint64_t used = state->fullest_used;
    return used > state->anonymous ? used - state->anonymous : 0;
}

static double eitp__percent_of(uint64_t bytes, uint64_t all) {
    return all ? 100 * (double)bytes / (double)all : 0;
}

static void eitp__occupancy_compare(eitp__occupancy_level *level, double percent, int may_count, double limit) {
    if (limit <= 0 || limit >= 100)
        return;
    if (!level->is_reached && may_count && percent >= limit)
        level->is_reached = level->should_warn = 1;
    else if (percent < limit - EITP__OCCUPANCY_FALLS)
        level->is_reached = level->should_warn = 0;
}

EITP__PRIVATE void eitp__occupancy_add(eitp__occupancy *occupancy, const eitp__memory_state *state, double high,
                                       double full) {
    const uint64_t limit = state->fullest_limit, others = eitp__occupancy_of_others(state);
    const double of_all = eitp__percent_of(others, limit);
    int have_grown;
    if (limit != occupancy->limit)
        occupancy->began = others;
    occupancy->limit = limit;
    have_grown = of_all > eitp__percent_of(occupancy->began, limit) + EITP__OCCUPANCY_NOISE;
    occupancy->percent = limit > state->anonymous ? eitp__percent_of(others, limit - state->anonymous) : 0;
    eitp__occupancy_compare(&occupancy->high, occupancy->percent, have_grown || of_all >= high, high);
    eitp__occupancy_compare(&occupancy->full, occupancy->percent, have_grown || of_all >= full, full);
    occupancy->exceeds = full > 0 && full < 100 && occupancy->percent >= full && (have_grown || of_all >= full);
}

EITP__PRIVATE void eitp__occupancy_told(eitp__occupancy *occupancy) {
    occupancy->high.should_warn = occupancy->full.should_warn = 0;
}

static eitp__guard *eitp__guard_of(const eitp_run *run) {
    return (eitp__guard *)run->states[EITP__OBSERVER_GUARD];
}

/* ---- Checking ---- */

/* Minimum interval between checks within a step, in seconds, and as a multiple of their cost. */
#define EITP__CHECK_INTERVAL 0.05
#define EITP__LOOK_COST 200

/* Maximum rate in bytes per second at which other programs use memory. With much memory left, checks are less
   frequent, but at least once a second. */
#define EITP__FASTEST_LOSS 8e9

/* Polls per reading of the clock. */
#define EITP__POLLS_PER_CLOCK 16

/* Returns zeros on a device with its own memory: the guard watches host memory. */
static eitp__arena_use eitp__run_arena(const eitp_run *run) {
    const eitp_context *context = eitp__trainer_task(run->trainer)->context;
    eitp__arena_use use = {0, 0};
    if (eitp__context_has_device_memory(context))
        return use;
    use.needed = eitp__arena_needed(context);
    use.reserved = eitp_context_arena_bytes(context);
    return use;
}

static eitp__shortage eitp__guard_assess(const eitp_run *run) {
    const eitp__guard *guard = eitp__guard_of(run);
    const eitp__arena_use arena = eitp__run_arena(run);
    const eitp__shortage found = eitp__pressure_assess(&guard->pressure, &guard->memory, &arena);
    return !found && run->config.cpu_mem_acts && guard->occupancy.exceeds ? EITP__MEMORY_FULL : found;
}

/* Returns the seconds during which the same shortage is reacted to only once, so that saves take at most a twentieth of
   the time. */
static double eitp__guard_quiet_seconds(const eitp_run *run) {
    const eitp__guard *guard = eitp__guard_of(run);
    const double least = 10, saves = 20 * guard->pressure.save;
    return saves > least ? saves : least;
}

/* True if the run should react: it has not reacted to this shortage yet, or the reaction was not enough. */
static int eitp__guard_should_react(eitp_run *run, eitp__shortage found, double now) {
    eitp__guard *guard = eitp__guard_of(run);
    const eitp_memory_info *memory = &guard->memory.info;
    if (!found || guard->ignores)
        return 0;
    if (now >= guard->quiet_until)
        return 1;
    if (!run->config.auto_shrink) {
        guard->quiet_until = now + eitp__guard_quiet_seconds(run);
        return 0;
    }
    if (found == EITP__MEMORY_FULL)
        return !guard->is_smallest;
    return found == EITP__MEMORY_LOW && (!guard->is_smallest || memory->left < eitp__memory_floor(memory) / 2);
}

static double eitp__look_interval(const eitp_run *run) {
    const eitp__guard *guard = eitp__guard_of(run);
    const eitp_memory_info *memory = &guard->memory.info;
    const uint64_t least = eitp__memory_floor(memory), room = memory->left > least ? memory->left - least : 0;
    double interval = (double)room / EITP__FASTEST_LOSS;
    interval = interval < 1 ? interval : 1;
    interval = interval > EITP__CHECK_INTERVAL ? interval : EITP__CHECK_INTERVAL;
    interval = interval > EITP__LOOK_COST * guard->check_cost ? interval : EITP__LOOK_COST * guard->check_cost;
    return interval > run->config.memory_check_seconds ? interval : run->config.memory_check_seconds;
}

/* Reads the available memory. `busy` is the number of seconds before it in which a step could not check. If reading
   fails for lack of memory, the last reading is kept. */
static void eitp__guard_check(eitp_run *run, double busy) {
    eitp__guard *guard = eitp__guard_of(run);
    const double now = eitp__clock();
    double after;
    if (!eitp__memory_read(&run->host, &guard->memory, NULL)) {
        eitp__pressure_add(&guard->pressure, &guard->memory, now, busy);
        eitp__occupancy_add(&guard->occupancy, &guard->memory, run->config.cpu_mem_warn, run->config.cpu_mem_max);
    }
    after = eitp__clock();
    /* The minimum over all readings: on a busy machine one may take long. */
    if (guard->check_cost <= 0 || after - now < guard->check_cost)
        guard->check_cost = after - now;
    guard->busy_from = after;
    guard->look_at = after + eitp__look_interval(run);
}

static void eitp__guard_watch(eitp_run *run, double now, double busy) {
    eitp__guard *guard = eitp__guard_of(run);
    eitp__shortage found;
    eitp__guard_check(run, busy);
    found = eitp__guard_assess(run);
    if (eitp__guard_should_react(run, found, now))
        guard->alarm = found;
}

EITP__PRIVATE int eitp__guard_check_is_due(const eitp_run *run, double now) {
    return now >= eitp__guard_of(run)->look_at;
}

/* Usually costs a few instructions. */
static int eitp__guard_poll(eitp_run *run, void *state) {
    eitp__guard *guard = (eitp__guard *)state;
    double now;
    if (guard->alarm)
        return 1;
    if (!guard->watches || run->config.memory_check_seconds < 0 || ++guard->polls % EITP__POLLS_PER_CLOCK)
        return 0;
    now = eitp__clock();
    if (now >= guard->look_at)
        eitp__guard_watch(run, now, now - guard->busy_from);
    return guard->alarm != EITP__MEMORY_AMPLE;
}

static void eitp__guard_after_step(eitp_run *run, void *state, eitp__decision *decision) {
    eitp__guard *guard = (eitp__guard *)state;
    const double now = eitp__clock();
    (void)decision;
    guard->ignores = 0;
    if (run->config.memory_check_seconds >= 0 && now >= guard->look_at)
        eitp__guard_watch(run, now, now - guard->busy_from);
    eitp__pressure_step_done(&guard->pressure);
}

static eitp_status eitp__guard_begin(eitp_run *run, void *state, eitp_error *error) {
    eitp__guard *guard = (eitp__guard *)state;
    const eitp_context *context = eitp__trainer_task(run->trainer)->context;
    (void)error;
    eitp__pressure_init(&guard->pressure, eitp_context_variable_bytes(context, EITP_PARAMETER) +
                                              eitp_context_variable_bytes(context, EITP_OPTIMIZER));
    guard->is_smallest = eitp__context_has_device_memory(context); /* shrinking it frees no memory of the host */
    guard->watches = 1;
    guard->busy_from = eitp__clock();
    return EITP_OK;
}

/* ---- Reacting ---- */

/* Formats the reason for the shortage, such as "18.9 MB left (cgroup)". If enough is left now, subtracts the memory
   that the run itself will use. */
static void eitp__guard_describe(const eitp_run *run, char *text, size_t size) {
    const eitp__guard *guard = eitp__guard_of(run);
    const eitp_memory_info *memory = &guard->memory.info;
    const eitp__arena_use arena = eitp__run_arena(run);
    const uint64_t left = eitp__pressure_left(&guard->pressure, &guard->memory, &arena);
    const int is_to_come = memory->left >= eitp__memory_floor(memory) && left < memory->left;
    char bytes[32];
    snprintf(text, size, "%s left (%s)%s", eitp_format_bytes(is_to_come ? left : memory->left, bytes, sizeof bytes),
             memory->source, is_to_come ? " after the run's own needs" : "");
}

/* Warns that other programs use the memory, with figures. */
static void eitp__guard_warn_full(eitp_run *run, eitp_run_event_kind kind, const char *action) {
    const eitp__guard *guard = eitp__guard_of(run);
    const uint64_t own = guard->memory.anonymous, others = eitp__occupancy_of_others(&guard->memory);
    eitp_value values[4];
    char message[400], has[32], have[32], left[32];
    values[0] = eitp__number_value("percent", guard->occupancy.percent);
    values[1] = eitp__integer_value("own_bytes", (int64_t)own);
    values[2] = eitp__integer_value("other_bytes", (int64_t)others);
    values[3] = eitp__integer_value("left_bytes", (int64_t)guard->memory.info.left);
    snprintf(message, sizeof message,
             "memory is filling up: other programs use %.0f %% of what this run leaves of the %s; they use %s, the run "
             "uses %s, and %s are available; %s",
             guard->occupancy.percent, guard->memory.fullest_source, eitp_format_bytes(others, have, sizeof have),
             eitp_format_bytes(own, has, sizeof has), eitp_format_bytes(guard->memory.info.left, left, sizeof left),
             action);
    if (kind == EITP_EVENT_MEMORY_SHORT)
        run->report.memory = guard->memory.info;
    eitp__run_notify_values(run, kind, EITP_LOG_WARNING, 0, message, values, EITP__COUNT(values));
}

static void eitp__guard_warn(eitp_run *run, eitp__shortage found, const char *action) {
    const eitp__guard *guard = eitp__guard_of(run);
    const eitp_memory_info *memory = &guard->memory.info;
    const double amount = found == EITP__MEMORY_RUNS_OUT ? guard->pressure.loss : (double)eitp__memory_floor(memory);
    char left[120], other[32];
    if (found == EITP__MEMORY_FULL) {
        eitp__guard_warn_full(run, EITP_EVENT_MEMORY_SHORT, action);
        return;
    }
    run->report.memory = *memory;
    eitp__guard_describe(run, left, sizeof left);
    eitp__run_notify(run, EITP_EVENT_MEMORY_SHORT, EITP_LOG_WARNING, 0,
                     found == EITP__MEMORY_RUNS_OUT
                         ? "memory is short: %s, and other programs use %s more per second; %s"
                         : "memory is short: %s, at least %s needed; %s",
                     left, eitp_format_bytes((uint64_t)amount, other, sizeof other), action);
}

/* Returns the arena to the system, which is immediate and needs no memory. The step in progress was dropped. */
static void eitp__guard_release_arena(eitp_run *run) {
    eitp__guard *guard = eitp__guard_of(run);
    eitp_context *context = eitp__trainer_task(run->trainer)->context;
    eitp__arena_use arena;
    if (eitp__context_has_device_memory(context))
        return;
    eitp__arena_release(context);
    arena = eitp__run_arena(run);
    eitp__guard_check(run, 0);
    eitp__pressure_released(&guard->pressure, &guard->memory, &arena);
}

/* True if the newest checkpoint lacks steps. */
static int eitp__guard_can_save(const eitp_run *run) {
    const int64_t done = eitp_trainer_steps_done(run->trainer);
    return run->save_early && done > 0 && !eitp__run_has_saved(run, done);
}

/* Reads memory again after a slow operation; true if it is still short. */
static int eitp__guard_is_short(eitp_run *run) {
    eitp__guard_check(run, 0);
    return eitp__guard_assess(run) != EITP__MEMORY_AMPLE;
}

/* Records memory pressure. */
static void eitp__record_memory(eitp_run *run, int shrunk) {
    const eitp_step_shape shape = eitp_trainer_shape(run->trainer);
    eitp__values *list = eitp__record_begin(run);
    eitp__add_text(list, "event", "memory_pressure");
    eitp__add_integer(list, "left_bytes", (int64_t)run->report.memory.left);
    eitp__add_integer(list, "arena_bytes",
                      (int64_t)eitp_context_arena_bytes(eitp__trainer_task(run->trainer)->context));
    eitp__add_integer(list, "batch_size", shape.batch_size);
    eitp__add_integer(list, "grad_accum", shape.grad_accum);
    eitp__add_integer(list, "micro_batches_per_pass", shape.micro_batches_per_pass);
    eitp__add_boolean(list, "shrunk", shrunk);
    eitp__record(run, EITP_RECORD_EVENT, eitp_trainer_steps_done(run->trainer));
}

/* Shrinks the run; *shrunk is 0 if that fails or is not possible. */
static void eitp__guard_shrink(eitp_run *run, int *shrunk) {
    eitp__guard *guard = eitp__guard_of(run);
    const double began = eitp__clock();
    eitp_shrink_report report;
    eitp_error second;
    eitp_status status = eitp_trainer_shrink(run->trainer, &report, &second);
    *shrunk = !status && report.shrunk;
    eitp__pressure_shrunk(&guard->pressure, eitp__clock() - began);
    if (*shrunk) {
        const eitp__arena_use arena = eitp__run_arena(run);
        eitp__guard_check(run, 0);
        eitp__pressure_released(&guard->pressure, &guard->memory, &arena);
        guard->quiet_until = 0; /* the next shortage needs another checkpoint */
    } else if (status) {
        eitp__run_notify(run, EITP_EVENT_NOT_SHRUNK, EITP_LOG_WARNING, 0,
                         "cannot shrink the run, which continues unchanged: %s", second.message);
    } else {
        eitp__run_notify(run, EITP_EVENT_NOT_SHRUNK, EITP_LOG_WARNING, 0,
                         "no configuration uses less memory; the run stops with a checkpoint if memory stays short");
        guard->is_smallest = 1;
    }
    eitp__record_memory(run, *shrunk);
}

/* True if memory would run out while the run shrinks. */
static int eitp__guard_has_no_time(const eitp_run *run) {
    const eitp__guard *guard = eitp__guard_of(run);
    return eitp__pressure_seconds(&guard->pressure, &guard->memory) < 3 * guard->pressure.shrink;
}

/*
 * Waits, when there is nothing to lose, until memory is no longer short or, if the run `can_shrink`, others stop using
 * more. Returns 1 if that does not happen within seconds, or memory is being used up.
 */
static int eitp__guard_wait(eitp_run *run, int can_shrink) {
    const double patience = 2, alert = 0.4; /* seconds */
    const eitp__guard *guard = eitp__guard_of(run);
    for (double waited = 0; !run->stop; waited += EITP__CHECK_INTERVAL) {
        const uint64_t left = guard->memory.left_physical;
        eitp__wait(&run->host, EITP__CHECK_INTERVAL);
        if (!eitp__guard_is_short(run) || (can_shrink && !eitp__guard_has_no_time(run)))
            return 0;
        if (waited > patience)
            return 1;
        if (guard->memory.left_physical < left && eitp__pressure_seconds(&guard->pressure, &guard->memory) < alert)
            return 1;
    }
    return 0;
}

static eitp_status eitp__guard_fail(eitp_run *run, eitp_error *error) {
    eitp__guard *guard = eitp__guard_of(run);
    const eitp_memory_info *memory = &guard->memory.info;
    const int64_t done = eitp_trainer_steps_done(run->trainer);
    const double soon = 5; /* seconds */
    char left[120];
    run->report.memory = *memory;
    eitp__guard_describe(run, left, sizeof left);
    if (done > 0)
        return eitp__fail(error, EITP_ERROR_PRESSURE,
                          guard->is_smallest
                              ? "memory stays short: %s, and no configuration uses less; stopped after step "
                                "%lld"
                              : "memory stays short: %s, and other programs use more; stopped after step "
                                "%lld",
                          left, (long long)done);
    /* Before step 1 there is nothing to lose, unless others continue to use more memory. */
    guard->ignores = 1;
    return eitp__pressure_seconds(&guard->pressure, &guard->memory) > soon
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_MEMORY,
                            "other programs use up the memory before step 1: %s; nothing was trained", left);
}

static const char *eitp__guard_action(const eitp_run *run) {
    const eitp__guard *guard = eitp__guard_of(run);
    if (!run->config.auto_shrink)
        return eitp__guard_can_save(run) ? "saving; then the run continues unchanged" : "the run continues unchanged";
    if (guard->is_smallest)
        return eitp__guard_can_save(run) ? "saving" : "waiting";
    return eitp__guard_can_save(run) ? "saving; then looking for a configuration that uses less"
                                     : "looking for a configuration that uses less";
}

/* The first reaction: releases the arena, and saves the steps that the run would lose if it were killed now. */
static eitp_status eitp__guard_secure(eitp_run *run, eitp_error *error) {
    const eitp__guard *guard = eitp__guard_of(run);
    eitp__async_save_release(run);
    eitp__guard_warn(run, guard->alarm, eitp__guard_action(run));
    eitp__guard_release_arena(run);
    return eitp__guard_can_save(run) ? run->save_early(run, error) : EITP_OK;
}

/* Shrinks until memory is no longer short. Fails if it stays short and no configuration uses less. */
static eitp_status eitp__guard_reduce(eitp_run *run, eitp_error *error) {
    const eitp__guard *guard = eitp__guard_of(run);
    int can_shrink = !guard->is_smallest, shrinks = 0;
    for (;;) {
        if (!can_shrink || eitp__guard_has_no_time(run)) {
            if (eitp__guard_wait(run, can_shrink)) {
                if (can_shrink)
                    eitp__record_memory(run, 0);
                return eitp__guard_fail(run, error);
            }
        } else {
            if (shrinks++)
                eitp__guard_warn(run, eitp__guard_assess(run), "looking for a configuration that uses still less");
            eitp__guard_shrink(run, &can_shrink);
        }
        if (!eitp__guard_is_short(run) || run->stop)
            return EITP_OK;
    }
}

static eitp_status eitp__guard_react(eitp_run *run, eitp_error *error) {
    eitp__guard *guard = eitp__guard_of(run);
    const int again = eitp__clock() < guard->quiet_until && !guard->is_smallest;
    eitp_status status = eitp__guard_secure(run, error);
    guard->alarm = EITP__MEMORY_AMPLE;
    guard->quiet_until = eitp__clock() + eitp__guard_quiet_seconds(run);
    if (status)
        return status;
    if (run->config.auto_shrink && (eitp__guard_is_short(run) || again))
        return eitp__guard_reduce(run, error);
    eitp__record_memory(run, 0);
    return EITP_OK;
}

/* Reports that other programs fill the memory. At the higher level, saves the steps that the run could lose. */
static eitp_status eitp__guard_tell_occupancy(eitp_run *run, eitp_error *error) {
    eitp__guard *guard = eitp__guard_of(run);
    const int saves = guard->occupancy.full.should_warn && eitp__guard_can_save(run);
    const int should_warn = guard->occupancy.high.should_warn || saves;
    eitp__occupancy_told(&guard->occupancy);
    if (should_warn)
        eitp__guard_warn_full(run, EITP_EVENT_MEMORY_HIGH,
                              saves ? "saving; then the run continues unchanged" : "the run continues unchanged");
    return saves ? run->save_early(run, error) : EITP_OK;
}

/* Checks first, if it is time to. EITP_ERROR_PRESSURE if memory stays short and no configuration uses less;
   EITP_ERROR_MEMORY if that happens before there are steps to save. */
static eitp_status eitp__guard_before_step(eitp_run *run, void *state, eitp_error *error) {
    eitp__guard *guard = (eitp__guard *)state;
    const double now = eitp__clock(), interval = run->config.memory_check_seconds;
    eitp_status status = EITP_OK;
    if (interval < 0)
        return EITP_OK;
    if (!guard->alarm && (interval == 0 || now >= guard->look_at))
        eitp__guard_watch(run, now, 0);
    if (guard->alarm) {
        status = eitp__guard_react(run, error);
        eitp__occupancy_told(&guard->occupancy); /* the reaction has reported it */
    } else {
        status = eitp__guard_tell_occupancy(run, error);
    }
    guard->busy_from = eitp__clock();
    return status;
}

static void eitp__guard_saved(eitp_run *run, void *state, int is_counted, double waited) {
    (void)run, (void)is_counted;
    if (waited > 0)
        eitp__pressure_saved(&((eitp__guard *)state)->pressure, waited);
}

EITP__PRIVATE void eitp__guard_observer(eitp__observer *observer) {
    observer->state_size = sizeof(eitp__guard);
    observer->cost = EITP_RUN_COST_GUARD;
    observer->begin = eitp__guard_begin;
    observer->poll = eitp__guard_poll;
    observer->before_step = eitp__guard_before_step;
    observer->after_step = eitp__guard_after_step;
    observer->saved = eitp__guard_saved;
}
