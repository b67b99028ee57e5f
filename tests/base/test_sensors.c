/* The sensors of made-up machines. */
#include "tests/support/everything.h"

#include "tests/support/prepared_files.h"

enum { CAPACITY = 16 };

static eitp_error error;

/* The sensors of a machine with these files; returns how many. */
static size_t read_sensors(const prepared *files, size_t capacity, eitp_sensor sensors[CAPACITY]) {
    size_t count = 99;
    faults f;
    faults_begin(&f);
    f.real.files = prepared_table(files);
    CHECK_THAT(eitp_sensors_read(&f.host, sensors, capacity, &count, &error) == EITP_OK, "%s", error.message);
    faults_end(&f);
    return count;
}

static int is_sensor(const eitp_sensor *sensor, eitp_sensor_kind kind, const char *name, double value, double range) {
    return sensor->kind == kind && !strcmp(sensor->name, name) && fabs(sensor->value - value) < 1e-9 * fabs(value) &&
           fabs(sensor->range - range) <= 1e-9 * range;
}

/* A laptop. Fans, limits, files without a number and values of no running machine are no sensors. */
static const prepared laptop[] = {
    {"/proc/loadavg", "3.70 3.02 2.33 5/110 676\n"},
    {"/proc/pressure/cpu", "some avg10=12.50 avg60=1.00 avg300=0.10 total=5\nfull avg10=0.00 avg60=0.00\n"},
    {"/proc/pressure/io", "some avg10=100.00 avg60=1.00 avg300=0.10 total=5\n"},
    {"/proc/pressure/memory", "full avg10=1.00 avg60=1.00\n"},
    {"/sys/class/hwmon/hwmon0/fan1_input", "2300\n"},
    {"/sys/class/hwmon/hwmon0/name", "coretemp\n"},
    {"/sys/class/hwmon/hwmon0/temp1_crit", "100000\n"},
    {"/sys/class/hwmon/hwmon0/temp1_input", "61500\n"},
    {"/sys/class/hwmon/hwmon0/temp1_label", "Package id 0\n"},
    {"/sys/class/hwmon/hwmon0/temp2_input", "-273000\n"},
    {"/sys/class/hwmon/hwmon0/temp3_input", "\n"},
    {"/sys/class/hwmon/hwmon0/temp_input", "50000\n"},
    {"/sys/class/hwmon/hwmon1/name", "amdgpu\n"},
    {"/sys/class/hwmon/hwmon1/power1_average", "35000000\n"},
    {"/sys/class/hwmon/hwmon1/power2_input", NULL},
    {"/sys/class/hwmon/hwmon1/temp1_input", "47000\n"},
    {"/sys/class/powercap/intel-rapl:0/energy_uj", "2500000\n"},
    {"/sys/class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850\n"},
    {"/sys/class/powercap/intel-rapl:0/name", "package-0\n"},
    {"/sys/class/powercap/intel-rapl:1/energy_uj", NULL},
    {"/sys/class/powercap/intel-rapl:1/name", "psys\n"},
    {"/sys/class/thermal/cooling_device0/cur_state", "1\n"},
    {"/sys/class/thermal/thermal_zone0/temp", "40000\n"},
    {"/sys/class/thermal/thermal_zone0/type", "acpitz\n"},
    {"/sys/class/thermal/thermal_zone1/temp", "nothing\n"},
    {NULL, NULL},
};

static void reads_every_kind(void) {
    eitp_sensor sensors[CAPACITY];
    const size_t count = read_sensors(laptop, CAPACITY, sensors);
    REQUIRE(count == 8);
    CHECK(is_sensor(&sensors[0], EITP_SENSOR_TEMPERATURE, "coretemp Package id 0", 61.5, 0));
    CHECK(is_sensor(&sensors[1], EITP_SENSOR_TEMPERATURE, "amdgpu", 47, 0));
    CHECK(is_sensor(&sensors[2], EITP_SENSOR_POWER, "amdgpu", 35, 0));
    CHECK(is_sensor(&sensors[3], EITP_SENSOR_TEMPERATURE, "acpitz", 40, 0));
    CHECK(is_sensor(&sensors[4], EITP_SENSOR_ENERGY, "package-0", 2.5, 262143.32885));
    CHECK(is_sensor(&sensors[5], EITP_SENSOR_PRESSURE, "cpu", 0.125, 0));
    CHECK(is_sensor(&sensors[6], EITP_SENSOR_PRESSURE, "io", 1, 0));
    CHECK(is_sensor(&sensors[7], EITP_SENSOR_LOAD, "", 3.7, 0));
}

static void reads_no_more_than_fit(void) {
    for (size_t capacity = 0; capacity < 8; capacity++) {
        eitp_sensor sensors[CAPACITY];
        memset(sensors, 0x5a, sizeof sensors);
        CHECK(read_sensors(laptop, capacity, sensors) == capacity);
        CHECK_THAT(sensors[capacity].name[0] == 0x5a, "%zu", capacity);
    }
}

static void a_machine_may_have_none(void) {
    static const prepared nothing[] = {{"/proc/version", "Linux\n"}, {NULL, NULL}};
    static const prepared broken[] = {{"/proc/loadavg", "\n"},
                                      {"/proc/pressure/cpu", "some avg10=120.00 avg60=0\n"},
                                      {"/proc/pressure/io", "some avg10=much avg60=0\n"},
                                      {NULL, NULL}};
    eitp_sensor sensors[CAPACITY];
    CHECK(read_sensors(nothing, CAPACITY, sensors) == 0);
    CHECK(read_sensors(broken, CAPACITY, sensors) == 0);
}

static void checks_its_arguments(void) {
    const eitp_host host = eitp_host_default();
    eitp_sensor sensors[CAPACITY];
    size_t count;
    CHECK(eitp_sensors_read(NULL, sensors, CAPACITY, &count, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_sensors_read(&host, NULL, CAPACITY, &count, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_sensors_read(&host, sensors, CAPACITY, NULL, &error) == EITP_ERROR_ARGUMENT);
}

/* Any allocation may fail: nothing is lost, and *count is as it was. */
static void survives_without_memory(void) {
    eitp_status status = EITP_ERROR_MEMORY;
    int failures = 0;
    for (int allocation = 1; status; allocation++) {
        eitp_sensor sensors[CAPACITY];
        size_t count = 99;
        faults f;
        faults_begin(&f);
        f.real.files = prepared_table(laptop);
        f.fail_allocation = allocation;
        status = eitp_sensors_read(&f.host, sensors, CAPACITY, &count, &error);
        CHECK_THAT(status ? status == EITP_ERROR_MEMORY && count == 99 : count == 8, "allocation %d", allocation);
        failures += status != EITP_OK;
        faults_end(&f);
    }
    CHECK(failures > 20);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(reads_every_kind),     TEST(reads_no_more_than_fit),  TEST(a_machine_may_have_none),
        TEST(checks_its_arguments), TEST(survives_without_memory),
    };
    return RUN_TESTS(tests, argc, argv);
}
