/* The rules of a run's guard for heat, for memory in percent and for other programs' load, on made-up samples. */
#include "tests/support/everything.h"
#include "tests/support/test.h"

/* ---- Heat ---- */

enum { MOST = 8 };

/* Thermometers with their critical points, 0: unknown; ends with a NULL name. */
typedef struct named {
    const char *name;
    double critical;
} named;

static size_t choose(eitp__heat_probes *probes, const named *all, double most) {
    eitp__thermometer found[MOST];
    size_t count = 0;
    memset(found, 0, sizeof found);
    for (; all[count].name; count++) {
        snprintf(found[count].sensor.name, sizeof found[count].sensor.name, "%s", all[count].name);
        found[count].sensor.limit = all[count].critical;
    }
    eitp__heat_choose(probes, found, count, most);
    return probes->count;
}

/* The limit of a probe; -1 if it does not count. */
static double limit_of(const eitp__heat_probes *probes, const char *name) {
    for (size_t i = 0; i < probes->count; i++) {
        if (!strcmp(probes->all[i].thermometer.sensor.name, name))
            return probes->all[i].limit;
    }
    return -1;
}

#define LIMIT(probes, name, expected)                                                                                  \
    CHECK_THAT(fabs(limit_of(probes, name) - (expected)) < 1e-9, "%s: %g", name, limit_of(probes, name))

static void processors_stop_below_their_critical_point(void) {
    static const named laptop[] = {
        {"coretemp Package id 0", 100}, {"coretemp Core 0", 100}, {"acpitz", 0}, {"x86_pkg_temp", 0},
        {"nvme Composite", 84.85},      {"iwlwifi_1", 0},         {"BAT0", 0},   {NULL, 0}};
    eitp__heat_probes probes;
    CHECK(choose(&probes, laptop, 0) == 4);
    CHECK(probes.processors == 3);
    LIMIT(&probes, "coretemp Package id 0", 95);
    LIMIT(&probes, "coretemp Core 0", -1); /* its package reports the hottest of them */
    LIMIT(&probes, "acpitz", 95);
    LIMIT(&probes, "nvme Composite", 84.85);
    LIMIT(&probes, "iwlwifi_1", -1);
    CHECK(choose(&probes, laptop, 80) == 4);
    LIMIT(&probes, "coretemp Package id 0", 80);
    LIMIT(&probes, "acpitz", 80);
    LIMIT(&probes, "nvme Composite", 84.85);
}

static void limits_without_critical_points(void) {
    static const named none[] = {{"k10temp Tctl", 0}, {"coretemp Core 0", 0}, {"acpitz", 20.8}, {NULL, 0}};
    static const named lowest[] = {{"k10temp Tctl", 0}, {"cpu-thermal", 105}, {"acpitz", 90}, {"nvme", 70}, {NULL, 0}};
    eitp__heat_probes probes;
    CHECK(choose(&probes, none, 0) == 3);
    LIMIT(&probes, "k10temp Tctl", 95);
    LIMIT(&probes, "coretemp Core 0", 95);
    LIMIT(&probes, "acpitz", 95); /* its critical point is wrong */
    CHECK(choose(&probes, lowest, 0) == 4);
    LIMIT(&probes, "k10temp Tctl", 85);
    LIMIT(&probes, "cpu-thermal", 100);
    LIMIT(&probes, "acpitz", 85);
}

static void no_more_probes_than_fit(void) {
    eitp__thermometer found[EITP__HEAT_PROBES + 3];
    eitp__heat_probes probes;
    memset(found, 0, sizeof found);
    for (size_t i = 0; i < EITP__COUNT(found); i++)
        snprintf(found[i].sensor.name, sizeof found[i].sensor.name, "cpu%d-thermal", (int)i);
    eitp__heat_choose(&probes, found, EITP__COUNT(found), 0);
    CHECK(probes.count == EITP__HEAT_PROBES);
}

/* It is too hot above the limit, until it is 10 degrees cooler. */
static void heat_has_a_hysteresis(void) {
    static const named one[] = {{"k10temp Tctl", 0}, {NULL, 0}};
    eitp__heat_probes probes;
    REQUIRE(choose(&probes, one, 90) == 1);
    CHECK(!eitp__heat_is_too_high(&probes, 0) && !eitp__heat_hottest(&probes)); /* no reading yet */
    eitp__heat_show(&probes.all[0], 90, 0);
    CHECK(!eitp__heat_is_too_high(&probes, 0) && eitp__heat_is_too_high(&probes, 1));
    eitp__heat_show(&probes.all[0], 90.1, 0);
    CHECK(eitp__heat_is_too_high(&probes, 0));
    eitp__heat_show(&probes.all[0], 80.1, 1);
    CHECK(eitp__heat_is_too_high(&probes, 1));
    eitp__heat_show(&probes.all[0], 80, 1);
    CHECK(!eitp__heat_is_too_high(&probes, 1));
}

/* Impossible readings do not stop a run: none, cold, an unconnected diode, far above the critical point. */
static void broken_thermometers_do_not_count(void) {
    static const double broken[] = {0, -1, -273, 127, 127.5, 128, 255, 1e9, (double)NAN, (double)INFINITY};
    static const named two[] = {{"k10temp Tctl", 0}, {"coretemp Package id 0", 90}, {NULL, 0}};
    eitp__heat_probes probes;
    REQUIRE(choose(&probes, two, 0) == 2);
    for (size_t i = 0; i < EITP__COUNT(broken); i++) {
        eitp__heat_show(&probes.all[0], 120, 0);
        CHECK(eitp__heat_is_too_high(&probes, 0));
        eitp__heat_show(&probes.all[0], broken[i], 0);
        CHECK_THAT(!eitp__heat_is_too_high(&probes, 0), "%g", broken[i]);
    }
    probes.all[1].thermometer.sensor.limit = 120;
    eitp__heat_show(&probes.all[1], 127.5, 0);
    CHECK(!eitp__heat_is_too_high(&probes, 0));
    probes.all[1].thermometer.sensor.limit = 90;
    eitp__heat_show(&probes.all[1], 109, 0);
    CHECK(eitp__heat_is_too_high(&probes, 0) && eitp__heat_hottest(&probes) == &probes.all[1]);
    eitp__heat_show(&probes.all[1], 111, 0);
    CHECK(!eitp__heat_is_too_high(&probes, 0));
}

/* An idle machine gets cooler, so a reading that never changes is not a temperature. */
static void a_stuck_thermometer_is_ignored(void) {
    static const named one[] = {{"acpitz", 0}, {NULL, 0}};
    eitp__heat_probes probes;
    int told = 0, looks = 0;
    REQUIRE(choose(&probes, one, 0) == 1);
    for (int i = 0; i < 2 * EITP__HEAT_STUCK; i++)
        CHECK(!eitp__heat_show(&probes.all[0], 110, 0)); /* while training */
    while (!told && looks++ < 2 * EITP__HEAT_STUCK) {
        CHECK(eitp__heat_is_too_high(&probes, 1));
        told = eitp__heat_show(&probes.all[0], 110, 1);
    }
    CHECK_THAT(told && looks == EITP__HEAT_STUCK, "%d", looks);
    CHECK(!eitp__heat_is_too_high(&probes, 1) && !eitp__heat_hottest(&probes));
    REQUIRE(choose(&probes, one, 0) == 1);
    for (int i = 0; i < 3 * EITP__HEAT_STUCK; i++)
        CHECK(!eitp__heat_show(&probes.all[0], i % EITP__HEAT_STUCK ? 110 : 109.5, 1)); /* hot, but alive */
}

/* ---- Memory in percent ---- */

#define GB 1e9

/* A sample of a machine of 100 GB. */
static void add_look(eitp__occupancy *occupancy, double others, double own) {
    eitp__memory_state state;
    memset(&state, 0, sizeof state);
    state.fullest_limit = (uint64_t)(100 * GB);
    state.fullest_used = (uint64_t)((others + own) * GB);
    state.anonymous = (uint64_t)(own * GB);
    eitp__occupancy_add(occupancy, &state, 85, 90);
}

static void a_share_is_told_once_per_shortage(void) {
    eitp__occupancy o = EITP__ZERO;
    add_look(&o, 50, 1);
    CHECK(!o.high.is_reached && !o.full.is_reached && fabs(o.percent - 100 * 50 / 99.0) < 1e-6);
    add_look(&o, 86, 1);
    CHECK(o.high.should_warn && !o.full.is_reached && !o.exceeds);
    eitp__occupancy_told(&o);
    add_look(&o, 87, 1);
    CHECK(!o.high.should_warn && o.high.is_reached);
    add_look(&o, 91, 1);
    CHECK(!o.high.should_warn && o.full.should_warn && o.exceeds);
    eitp__occupancy_told(&o);
    add_look(&o, 86, 1); /* it has not fallen by 5 */
    add_look(&o, 91, 1);
    CHECK(!o.full.should_warn && !o.high.should_warn);
    add_look(&o, 83, 1);
    CHECK(!o.full.is_reached && o.high.is_reached && !o.exceeds);
    add_look(&o, 91, 1);
    CHECK(o.full.should_warn && !o.high.should_warn);
    add_look(&o, 50, 1);
    CHECK(!o.full.should_warn && !o.high.is_reached);
}

/* A run that uses the memory others leave free is not reported, nor is one that uses most of the machine. */
static void a_plan_is_no_reason(void) {
    eitp__occupancy o = EITP__ZERO, most = EITP__ZERO;
    add_look(&o, 50, 1);
    add_look(&o, 50, 48); /* 98 % of the machine is in use */
    add_look(&o, 50.9, 48);
    CHECK(o.percent > 90 && !o.high.is_reached && !o.full.is_reached && !o.exceeds);
    add_look(&o, 51.5, 48); /* others grow */
    CHECK(o.high.should_warn && o.full.should_warn && o.exceeds);
    add_look(&most, 10, 80);
    add_look(&most, 15, 80);
    CHECK(!most.high.is_reached && fabs(most.percent - 75) < 1e-6);
    add_look(&most, 17.5, 80);
    CHECK(most.high.should_warn && !most.full.is_reached);
}

/* A desktop that stays at 92 % is reported once. */
static void a_full_machine_is_told_once(void) {
    eitp__occupancy o = EITP__ZERO;
    add_look(&o, 92, 1);
    CHECK(o.high.should_warn && o.full.should_warn && o.exceeds);
    eitp__occupancy_told(&o);
    for (int i = 0; i < 5; i++) {
        add_look(&o, 92, 5);
        CHECK(!o.high.should_warn && !o.full.should_warn);
    }
}

static void levels_can_be_off(void) {
    static const double off[] = {0, 100};
    for (size_t i = 0; i < EITP__COUNT(off); i++) {
        eitp__occupancy o = EITP__ZERO;
        eitp__memory_state state;
        memset(&state, 0, sizeof state);
        eitp__occupancy_add(&o, &state, off[i], off[i]);
        state.fullest_limit = 1000;
        state.fullest_used = 1000;
        eitp__occupancy_add(&o, &state, off[i], off[i]);
        CHECK(!o.high.is_reached && !o.full.is_reached && !o.exceeds);
    }
}

/* ---- Conditions that last ---- */

static void a_condition_is_told_when_it_has_lasted(void) {
    eitp__sustained_condition l = EITP__ZERO;
    CHECK(!eitp__sustained_condition_add(&l, 9, 10, 5, 20, 100));
    CHECK(!eitp__sustained_condition_add(&l, 10, 10, 5, 20, 110));
    CHECK(!eitp__sustained_condition_add(&l, 6, 10, 5, 20, 120)); /* in between it stays */
    CHECK(eitp__sustained_condition_add(&l, 12, 10, 5, 20, 130));
    CHECK(!eitp__sustained_condition_add(&l, 12, 10, 5, 20, 500)); /* once */
    CHECK(!eitp__sustained_condition_add(&l, 4, 10, 5, 20, 510));
    CHECK(!eitp__sustained_condition_add(&l, 6, 10, 5, 20, 520)); /* it does not start in between */
    CHECK(!eitp__sustained_condition_add(&l, 11, 10, 5, 20, 530));
    CHECK(!eitp__sustained_condition_add(&l, 4, 10, 5, 20, 540)); /* it did not last */
    CHECK(!eitp__sustained_condition_add(&l, 11, 10, 5, 20, 545));
    CHECK(!eitp__sustained_condition_add(&l, 11, 10, 5, 20, 564));
    CHECK(eitp__sustained_condition_add(&l, 11, 10, 5, 20, 565));
    CHECK(!eitp__sustained_condition_add(&l, -1, 10, 5, 20, 600)); /* unknown */
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(processors_stop_below_their_critical_point),
        TEST(limits_without_critical_points),
        TEST(no_more_probes_than_fit),
        TEST(heat_has_a_hysteresis),
        TEST(broken_thermometers_do_not_count),
        TEST(a_stuck_thermometer_is_ignored),
        TEST(a_share_is_told_once_per_shortage),
        TEST(a_plan_is_no_reason),
        TEST(a_full_machine_is_told_once),
        TEST(levels_can_be_off),
        TEST(a_condition_is_told_when_it_has_lasted),
    };
    return RUN_TESTS(tests, argc, argv);
}
