/* The sensors of simulated machines. */
#include "tests/support/everything.h"

#include "tests/support/prepared_files.h"

enum { CAPACITY = 16 };

static eitp_error error;

/* Reads the sensors of a machine with these files. Returns their number. */
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

/* A laptop. Fans, limits, files without a number and values that a running machine cannot have are not sensors. */
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

/* The critical point is in the sensor's own file, or it is the lowest trip point of that type. */
static void reads_critical_points(void) {
    static const prepared files[] = {
        {"/sys/class/hwmon/hwmon0/name", "nvme\n"},
        {"/sys/class/hwmon/hwmon0/temp1_crit", "84850\n"},
        {"/sys/class/hwmon/hwmon0/temp1_input", "40000\n"},
        {"/sys/class/hwmon/hwmon0/temp2_crit", "65261850\n"},
        {"/sys/class/hwmon/hwmon0/temp2_input", "41000\n"},
        {"/sys/class/thermal/thermal_zone0/temp", "42000\n"},
        {"/sys/class/thermal/thermal_zone0/trip_point_0_temp", "90000\n"},
        {"/sys/class/thermal/thermal_zone0/trip_point_0_type", "passive\n"},
        {"/sys/class/thermal/thermal_zone0/trip_point_1_temp", "105000\n"},
        {"/sys/class/thermal/thermal_zone0/trip_point_1_type", "critical\n"},
        {"/sys/class/thermal/thermal_zone0/trip_point_2_temp", "119000\n"},
        {"/sys/class/thermal/thermal_zone0/trip_point_2_type", "critical\n"},
        {"/sys/class/thermal/thermal_zone0/trip_point_3_temp", "-274000\n"},
        {"/sys/class/thermal/thermal_zone0/trip_point_3_type", "critical\n"},
        {"/sys/class/thermal/thermal_zone0/trip_point_5_temp", "50000\n"},
        {"/sys/class/thermal/thermal_zone0/trip_point_5_type", "critical\n"},
        {"/sys/class/thermal/thermal_zone0/type", "acpitz\n"},
        {NULL, NULL},
    };
    eitp_sensor sensors[CAPACITY];
    REQUIRE(read_sensors(files, CAPACITY, sensors) == 3);
    CHECK(fabs(sensors[0].limit - 84.85) < 1e-9 && fabs(sensors[1].limit) < 1e-9);
    CHECK(fabs(sensors[2].limit - 105) < 1e-9);
    REQUIRE(read_sensors(laptop, CAPACITY, sensors) == 8);
    CHECK(fabs(sensors[0].limit - 100) < 1e-9 && fabs(sensors[1].limit) < 1e-9);
}

/* A machine whose files take precedence over the laptop's. */
#define ROOT "/made/up"
static const prepared rooted[] = {
    {"/made/up/proc/loadavg", "9.00 0 0\n"},
    {"/made/up/proc/pressure/io", NULL},
    {"/made/up/sys/class/hwmon/hwmon0/temp1_input", "99000\n"},
    {"/proc/loadavg", "3.70 3.02 2.33 5/110 676\n"},
    {"/proc/pressure/cpu", "some avg10=12.50 avg60=1.00 avg300=0.10 total=5\n"},
    {"/proc/pressure/io", "some avg10=100.00 avg60=1.00 avg300=0.10 total=5\n"},
    {"/sys/class/hwmon/hwmon0/name", "coretemp\n"},
    {"/sys/class/hwmon/hwmon0/temp1_crit", "100000\n"},
    {"/sys/class/hwmon/hwmon0/temp1_input", "61500\n"},
    {"/sys/class/hwmon/hwmon1/name", "nvme\n"},
    {"/sys/class/hwmon/hwmon1/temp1_input", "47000\n"},
    {"/sys/class/thermal/thermal_zone0/temp", "40000\n"},
    {"/sys/class/thermal/thermal_zone0/type", "acpitz\n"},
    {NULL, NULL},
};

/* A file below the root replaces the machine's file, even if it cannot be read. A directory below the root replaces
   all of the machine's devices of that class. The machine's own files are used for everything else. */
static void a_root_stands_for_the_machine(void) {
    static const char *const roots[] = {ROOT, ROOT "/"};
    for (size_t i = 0; i < EITP__COUNT(roots); i++) {
        eitp_sensor sensors[CAPACITY];
        size_t count = 0;
        eitp_host host = eitp_host_default();
        CHECK(host.system_root == NULL);
        host.files = prepared_table(rooted);
        host.system_root = roots[i];
        CHECK_THAT(!eitp_sensors_read(&host, sensors, CAPACITY, &count, &error), "%s", error.message);
        REQUIRE(count == 4);
        CHECK(is_sensor(&sensors[0], EITP_SENSOR_TEMPERATURE, "", 99, 0) && fabs(sensors[0].limit) < 1e-9);
        CHECK(is_sensor(&sensors[1], EITP_SENSOR_TEMPERATURE, "acpitz", 40, 0));
        CHECK(is_sensor(&sensors[2], EITP_SENSOR_PRESSURE, "cpu", 0.125, 0));
        CHECK(is_sensor(&sensors[3], EITP_SENSOR_LOAD, "", 9, 0));
        host.system_root = "";
        CHECK(!eitp_sensors_read(&host, sensors, CAPACITY, &count, &error) && count == 6);
        CHECK(is_sensor(&sensors[0], EITP_SENSOR_TEMPERATURE, "coretemp", 61.5, 0));
    }
}

/* A thermometer is read again from the file in which it was found. */
static void thermometers_are_read_again(void) {
    static prepared files[EITP__COUNT(rooted)];
    eitp__thermometer thermometers[CAPACITY];
    size_t count = 99;
    faults f;
    memcpy(files, rooted, sizeof files);
    faults_begin(&f);
    f.real.files = prepared_table(files);
    f.host.system_root = ROOT;
    CHECK(!eitp__thermometers_list(&f.host, thermometers, CAPACITY, &count, &error));
    REQUIRE(count == 2);
    CHECK(!strcmp(thermometers[0].path, ROOT "/sys/class/hwmon/hwmon0/temp1_input"));
    CHECK(!strcmp(thermometers[1].path, "/sys/class/thermal/thermal_zone0/temp"));
    files[2].text = "97500\n";
    CHECK(fabs(eitp__thermometer_read(&f.host, &thermometers[0]) - 97.5) < 1e-9);
    files[2].text = "broken\n";
    CHECK(!(eitp__thermometer_read(&f.host, &thermometers[0]) > 0));
    files[2].text = NULL;
    CHECK(!(eitp__thermometer_read(&f.host, &thermometers[0]) > 0));
    for (size_t i = 0; i < count; i++)
        eitp__thermometer_release(&f.host, &thermometers[i]);
    faults_end(&f);
}

/* Any allocation of a list of thermometers may fail, also with a root. */
static void thermometers_survive_without_memory(void) {
    eitp_status status = EITP_ERROR_MEMORY;
    int failures = 0;
    for (int allocation = 1; status; allocation++) {
        eitp__thermometer thermometers[CAPACITY];
        size_t count = 99;
        faults f;
        faults_begin(&f);
        f.real.files = prepared_table(rooted);
        f.host.system_root = ROOT;
        f.fail_allocation = allocation;
        status = eitp__thermometers_list(&f.host, thermometers, CAPACITY, &count, &error);
        CHECK_THAT(status ? status == EITP_ERROR_MEMORY && count == 0 : count == 2, "allocation %d", allocation);
        failures += status != EITP_OK;
        for (size_t i = 0; i < count; i++)
            eitp__thermometer_release(&f.host, &thermometers[i]);
        faults_end(&f);
    }
    CHECK(failures > 20);
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

/* Any allocation may fail: nothing leaks, and *count is unchanged. */
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
        TEST(reads_every_kind),
        TEST(reads_critical_points),
        TEST(a_root_stands_for_the_machine),
        TEST(thermometers_are_read_again),
        TEST(thermometers_survive_without_memory),
        TEST(reads_no_more_than_fit),
        TEST(a_machine_may_have_none),
        TEST(checks_its_arguments),
        TEST(survives_without_memory),
    };
    return RUN_TESTS(tests, argc, argv);
}
