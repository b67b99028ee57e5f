#include "run/pressure.h"

/* The estimate follows a rise, and the end of a loss, within about three looks. It follows a fall more slowly: others
   take memory in bursts. In seconds. */
#define EITP__LOSS_RISES 0.15
#define EITP__LOSS_FALLS 0.5

/* Losses and durations may double. */
#define EITP__PRESSURE_SAFETY 2

EITP__PRIVATE void eitp__pressure_init(eitp__pressure *pressure, uint64_t bytes) {
    const double written = 200e6, begin = 0.2; /* bytes per second, cautiously; and seconds */
    memset(pressure, 0, sizeof *pressure);
    pressure->save = begin + (double)bytes / written;
    pressure->shrink = 0.3;
}

/* What the machine and the control groups leave, and what the run has of it. */
static double eitp__pressure_total(const eitp__memory_state *state) {
    return state->left_physical == UINT64_MAX ? 0 : (double)state->left_physical + (double)state->anonymous;
}

EITP__PRIVATE void eitp__pressure_add(eitp__pressure *pressure, const eitp__memory_state *state, double now,
                                      double busy) {
    const double total = eitp__pressure_total(state), passed = now - pressure->looked_at;
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
    pressure->looked_at = now;
    pressure->total = total;
}

static uint64_t eitp__bytes_without(uint64_t bytes, uint64_t taken) {
    return bytes > taken ? bytes - taken : 0;
}

/* Bytes of the arena that the run will touch, but has not touched. */
static uint64_t eitp__untouched(const eitp__pressure *pressure, const eitp__memory_state *state,
                                const eitp__arena_use *arena) {
    const double bytes = pressure->expected - (double)state->anonymous;
    if (bytes <= 0)
        return 0;
    return bytes < (double)arena->needed ? (uint64_t)bytes : arena->needed;
}

/* The same for memory alone, without the limits of the process, which count addresses. */
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
 * Memory runs out if it could fall to the floor before the next look that can react; or, since the arena is released
 * first, before a save and a shrink that begin now are done.
 */
EITP__PRIVATE eitp__shortage eitp__pressure_judge(const eitp__pressure *pressure, const eitp__memory_state *state,
                                                  const eitp__arena_use *arena) {
    const uint64_t floor_bytes = eitp_memory_floor(&state->info);
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

EITP__PRIVATE double eitp__pressure_seconds(const eitp__pressure *pressure, const eitp__memory_state *state) {
    return pressure->loss <= 0 || state->left_physical == UINT64_MAX ? HUGE_VAL
                                                                     : (double)state->left_physical / pressure->loss;
}

EITP__PRIVATE void eitp__pressure_step_done(eitp__pressure *pressure) {
    /* Recent steps count more: one that took long because the machine was busy is forgotten. */
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
    /* On a machine so busy, a first shrink may take as long. */
    if (!pressure->has_shrunk && seconds > pressure->shrink)
        pressure->shrink = seconds;
}

EITP__PRIVATE void eitp__pressure_shrunk(eitp__pressure *pressure, double seconds) {
    pressure->shrink = seconds;
    pressure->has_shrunk = 1;
}
