/* The rule for short memory, on made-up samples. */
#include "tests/support/everything.h"
#include "tests/support/test.h"

#define MB 1e6

/* A machine with a neighbour, and a run with an arena. All in bytes and seconds. */
typedef struct machine {
    eitp__pressure pressure;
    eitp__memory_state state;
    eitp__arena_use arena;
    double left, own, now;
} machine;

static void begin_machine(machine *m, double left, double own, double arena) {
    memset(m, 0, sizeof *m);
    m->left = left;
    m->own = own;
    m->now = 1000;
    m->arena.needed = m->arena.reserved = (size_t)arena;
    eitp__pressure_init(&m->pressure, (uint64_t)(100 * MB)); /* 0.7 s to save */
}

/* Takes a sample after `seconds` in which others took `taken` bytes and the run grew by `grown` bytes. */
static eitp__shortage look(machine *m, double seconds, double taken, double grown) {
    m->now += seconds;
    m->left -= taken + grown;
    m->own += grown;
    m->state.left_physical = m->left > 0 ? (uint64_t)m->left : 0;
    m->state.left_of_limits = UINT64_MAX;
    m->state.anonymous = (uint64_t)m->own;
    m->state.info.left = m->state.left_physical;
    m->state.info.usable = (uint64_t)(1000 * MB); /* the floor is half of 64 MiB */
    eitp__pressure_add(&m->pressure, &m->state, m->now, seconds);
    return eitp__pressure_assess(&m->pressure, &m->state, &m->arena);
}

static double floor_of(const machine *m) {
    return (double)eitp__memory_floor(&m->state.info);
}

static void memory_that_stays_is_ample(void) {
    machine m;
    begin_machine(&m, 34 * MB, 400 * MB, 100 * MB);
    for (int i = 0; i < 100; i++)
        CHECK(look(&m, 0.05, 0, 0) == EITP__MEMORY_AMPLE);
    CHECK(look(&m, 0.05, 1 * MB, 0) == EITP__MEMORY_LOW);
}

/* In its first step the run touches its arena, at gigabytes per second. */
static void the_run_itself_takes_nothing_from_others(void) {
    machine m;
    begin_machine(&m, 300 * MB, 100 * MB, 250 * MB);
    for (int i = 0; i < 5; i++)
        CHECK(look(&m, 0.05, 0, 50 * MB) == EITP__MEMORY_AMPLE);
    CHECK(look(&m, 0.05, 0, 20 * MB) == EITP__MEMORY_LOW);
}

/*
 * Regardless of how fast a neighbour grows, the run reacts before memory is low and while there is time: with the arena
 * released, a save and a shrink end above the floor.
 */
static void losses_are_seen_in_time(void) {
    static const double rates[] = {5 * MB, 25 * MB, 200 * MB};
    for (size_t r = 0; r < EITP__COUNT(rates); r++) {
        machine m;
        eitp__shortage found = EITP__MEMORY_AMPLE;
        double relieved;
        int looks = 0;
        begin_machine(&m, 400 * MB, 500 * MB, 150 * MB);
        for (int i = 0; i < 20; i++)
            CHECK(look(&m, 0.05, 0, 0) == EITP__MEMORY_AMPLE);
        for (; !found && looks < 2000; looks++)
            found = look(&m, 0.05, 0.05 * rates[r], 0);
        relieved = m.left + 150 * MB - floor_of(&m);
        CHECK_THAT(found == EITP__MEMORY_RUNS_OUT, "rate %.0f MB/s: %d after %d looks", rates[r] / MB, (int)found,
                   looks);
        CHECK_THAT(m.left - floor_of(&m) > 0.05 * rates[r] &&
                       relieved > rates[r] * (m.pressure.save + m.pressure.shrink),
                   "rate %.0f MB/s: %.1f MB left", rates[r] / MB, m.left / MB);
        /* At a slow rate, it does not react before half of the memory is gone. */
        CHECK_THAT(rates[r] > 100 * MB || m.left < 200 * MB, "rate %.0f MB/s: %.1f MB left", rates[r] / MB,
                   m.left / MB);
    }
}

static void a_burst_is_seen_at_once_and_forgotten(void) {
    machine m;
    int looks = 1;
    begin_machine(&m, 250 * MB, 500 * MB, 100 * MB);
    look(&m, 0.05, 0, 0);
    while (look(&m, 0.05, 20 * MB, 0) == EITP__MEMORY_AMPLE && looks < 100)
        looks++;
    CHECK_THAT(looks <= 4, "%d looks", looks);
    CHECK(m.pressure.loss > 100 * MB && m.pressure.loss < 400 * MB);
    for (looks = 0; look(&m, 0.05, 0, 0) != EITP__MEMORY_AMPLE && looks < 100; looks++) {
    }
    CHECK_THAT(looks < 40, "%d looks", looks);
    /* Memory that comes back does not count as a loss. */
    look(&m, 0.05, -200 * MB, 0);
    CHECK(m.pressure.loss < 0);
    CHECK(look(&m, 0.05, 0, 0) == EITP__MEMORY_AMPLE);
}

/* A late sample counts like several. */
static void the_estimate_does_not_depend_on_the_interval(void) {
    machine often, rarely;
    begin_machine(&often, 4000 * MB, 500 * MB, 100 * MB);
    begin_machine(&rarely, 4000 * MB, 500 * MB, 100 * MB);
    look(&often, 0.05, 0, 0);
    look(&rarely, 0.05, 0, 0);
    for (int i = 0; i < 10; i++)
        look(&often, 0.05, 5 * MB, 0);
    look(&rarely, 0.5, 50 * MB, 0);
    CHECK(fabs(often.pressure.loss - rarely.pressure.loss) < 0.1 * MB);
}

/* Memory that the run released and will take again is not counted as available. */
static void a_released_arena_is_not_left(void) {
    machine m;
    uint64_t left;
    begin_machine(&m, 50 * MB, 500 * MB, 100 * MB);
    look(&m, 0.05, 0, 0);
    left = eitp__pressure_left(&m.pressure, &m.state, &m.arena);
    m.arena.reserved = 0;
    look(&m, 0.05, 0, -100 * MB);
    eitp__pressure_released(&m.pressure, &m.state, &m.arena);
    CHECK(eitp__pressure_left(&m.pressure, &m.state, &m.arena) == left && m.state.info.left == left + 100000000);
    CHECK(look(&m, 0.05, 20 * MB, 0) == EITP__MEMORY_LOW);
    /* Shrunk to half, it takes the rest again. */
    m.arena.needed = m.arena.reserved = (size_t)(50 * MB);
    eitp__pressure_released(&m.pressure, &m.state, &m.arena);
    CHECK(eitp__pressure_left(&m.pressure, &m.state, &m.arena) == left + 30000000);
    look(&m, 0.05, 0, 30 * MB);
    CHECK(eitp__pressure_left(&m.pressure, &m.state, &m.arena) == left + 30000000);
    /* After a step it holds all its memory. */
    eitp__pressure_step_done(&m.pressure);
    CHECK(eitp__pressure_left(&m.pressure, &m.state, &m.arena) == m.state.info.left);
}

/* Process limits count addresses: a released arena has none, a reserved one has all of them. */
static void limits_of_the_process_count_addresses(void) {
    machine m;
    begin_machine(&m, 500 * MB, 500 * MB, 100 * MB);
    look(&m, 0.05, 0, 0);
    m.state.left_of_limits = 30000000;
    CHECK(eitp__pressure_assess(&m.pressure, &m.state, &m.arena) == EITP__MEMORY_LOW);
    m.arena.reserved = 0;
    m.state.left_of_limits = 130000000;
    CHECK(eitp__pressure_left(&m.pressure, &m.state, &m.arena) == 30000000);
    CHECK(eitp__pressure_assess(&m.pressure, &m.state, &m.arena) == EITP__MEMORY_LOW);
}

/* The slower a save, and the longer a step that cannot be interrupted, the earlier the run reacts. */
static double left_at_reaction(double save, double blind) {
    machine m;
    begin_machine(&m, 1000 * MB, 500 * MB, 20 * MB);
    eitp__pressure_saved(&m.pressure, save);
    look(&m, 0.05, 0, 0);
    eitp__pressure_add(&m.pressure, &m.state, m.now, blind);
    while (look(&m, 0.05, 2.5 * MB, 0) == EITP__MEMORY_AMPLE) {
    }
    return m.left;
}

static void the_margin_follows_what_a_reaction_takes(void) {
    CHECK(left_at_reaction(0.1, 0) < left_at_reaction(1, 0));
    CHECK(left_at_reaction(1, 0) < left_at_reaction(4, 0));
    CHECK(left_at_reaction(0.1, 0) < left_at_reaction(0.1, 2));
}

/* A single long step is forgotten after some more steps. */
static void the_longest_time_without_a_look_is_forgotten(void) {
    machine m;
    begin_machine(&m, 1000 * MB, 500 * MB, 20 * MB);
    look(&m, 0.05, 0, 0);
    look(&m, 3, 0, 0);
    CHECK(m.pressure.blind > 2.9);
    for (int step = 0; step < 20; step++) {
        look(&m, 0.05, 0, 0);
        eitp__pressure_step_done(&m.pressure);
    }
    CHECK(m.pressure.blind < 0.1);
}

static void unknown_memory_is_ample(void) {
    machine m;
    begin_machine(&m, 0, 500 * MB, 20 * MB);
    m.state.left_physical = m.state.left_of_limits = UINT64_MAX;
    for (int i = 1; i < 10; i++) {
        eitp__pressure_add(&m.pressure, &m.state, i, 1);
        CHECK(eitp__pressure_assess(&m.pressure, &m.state, &m.arena) == EITP__MEMORY_AMPLE);
    }
    CHECK(m.pressure.loss == 0);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(memory_that_stays_is_ample),
        TEST(the_run_itself_takes_nothing_from_others),
        TEST(losses_are_seen_in_time),
        TEST(a_burst_is_seen_at_once_and_forgotten),
        TEST(the_estimate_does_not_depend_on_the_interval),
        TEST(a_released_arena_is_not_left),
        TEST(limits_of_the_process_count_addresses),
        TEST(the_margin_follows_what_a_reaction_takes),
        TEST(the_longest_time_without_a_look_is_forgotten),
        TEST(unknown_memory_is_ample),
    };
    return RUN_TESTS(tests, argc, argv);
}
