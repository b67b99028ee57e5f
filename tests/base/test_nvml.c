/*
 * GPU figures as read from the driver's management library. The library is emulated: the tests choose its figures and
 * make each of its calls fail once. Run with LD_LIBRARY_PATH set (tests/cuda/on_emulated.sh). Without it, only the
 * tests that need no library run.
 */
#include "tests/support/everything.h"

#include <dlfcn.h>
#include <unistd.h>

#include "tests/cuda/emulated_hooks.h"
#include "tests/support/faults.h"

enum { CAPACITY = 4 };

/* The emulated library, or NULL, and the emulated driver. */
static struct {
    int (*live)(void);
    unsigned long (*calls)(void);
    void (*restart)(void), (*restart_driver)(void);
} emulated;

static char folder[512];

static void find_hook(void *library, const char *name, void *hook) {
    void *address = library ? dlsym(library, name) : NULL;
    memcpy(hook, &address, sizeof address);
}

static void find_emulated(void) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW), *driver = dlopen("libcuda.so.1", RTLD_NOW);
    find_hook(library, "emulated_nvml_live", &emulated.live);
    find_hook(library, "emulated_nvml_calls", &emulated.calls);
    find_hook(library, "emulated_nvml_restart", &emulated.restart);
    find_hook(driver, "emulated_cuda_restart", &emulated.restart_driver);
}

/* Sets the figures of the devices. Each line is "name value". */
static int set_figures(const char *lines) {
    char path[600];
    FILE *file;
    snprintf(path, sizeof path, "%s/figures", folder);
    setenv("EITP_EMULATED_NVML", path, 1);
    file = fopen(path, "wb");
    return file && fputs(lines, file) >= 0 && !fclose(file);
}

/* Restarts the library with these figures. */
static int begin_devices(const char *lines) {
    emulated.restart();
    return set_figures(lines);
}

/* Reads all GPUs with one environment variable set. */
static void read_with(const char *name, const char *value, eitp_gpu *gpus, size_t *count) {
    setenv(name, value, 1);
    emulated.restart();
    CHECK(eitp_gpus_read(0, gpus, CAPACITY, count, NULL) == EITP_OK);
    unsetenv(name);
    emulated.restart();
}

/* is: the value is known. may_be: it may also be unknown. */
static int is(double value, double expected) {
    return fabs(value - expected) <= 1e-9 * fabs(expected);
}

static int may_be(double value, double expected) {
    return isnan(value) || is(value, expected);
}

static const double usual_total = 2147483648.0, usual_used = 805306368, usual_process = 730144440;

/* ---- Without a library ---- */

static void nothing_is_known_of_no_gpu(void) {
    eitp__gpu_meter meter;
    eitp__heat_probes probes;
    eitp_gpu gpus[CAPACITY], gpu;
    eitp_error error;
    size_t count = 99;
    CHECK(eitp_gpus_read(0, NULL, CAPACITY, &count, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_gpus_read(0, gpus, CAPACITY, NULL, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_gpus_read(0, gpus, 0, &count, &error) == EITP_OK && count == 0);
    CHECK(eitp_gpus_read(0, gpus, CAPACITY, &count, &error) == EITP_OK && count <= CAPACITY);
    CHECK(!eitp__gpu_meter_open(&meter, "cpu, AVX2, 2 threads") && isnan(eitp__gpu_meter_temperature(&meter)));
    eitp__gpu_meter_read(&meter, 0, &gpu);
    CHECK(isnan(gpu.memory_total) && isnan(gpu.memory_used) && isnan(gpu.memory_free) && isnan(gpu.process_memory) &&
          isnan(gpu.utilization) && isnan(gpu.memory_utilization) && isnan(gpu.temperature) &&
          isnan(gpu.slowdown_temperature) && isnan(gpu.power) && isnan(gpu.energy) && isnan(gpu.clock));
    CHECK(!gpu.slowed_by && !*gpu.name && !*gpu.address && !*gpu.driver);
    memset(&probes, 0, sizeof probes);
    eitp__heat_add_gpu(&probes, &meter, 80);
    CHECK(!probes.count && !probes.processors);
    eitp__gpu_meter_close(&meter);
    eitp__gpu_meter_close(&meter);
}

static void a_description_names_one_gpu(void) {
    static const char description[] = "cuda:0, NVIDIA H200 at 0000:17:00.0, sm_90, 132 multiprocessors";
    CHECK(eitp_gpu_is_device("0000:17:00.0", description));
    CHECK(eitp_gpu_is_device("0000:17:00.0", "0000:17:00.0"));
    CHECK(!eitp_gpu_is_device("0000:17:00.0", "cuda:0, GPU at 10000:17:00.0, sm_90"));
    CHECK(!eitp_gpu_is_device("0000:17:00.0", "cuda:0, GPU at 0000:17:00.01"));
    CHECK(!eitp_gpu_is_device("0000:18:00.0", description) && !eitp_gpu_is_device("", description));
    CHECK(!eitp_gpu_is_device(NULL, description) && !eitp_gpu_is_device("0000:17:00.0", NULL));
}

/* ---- Figures ---- */

static void every_figure_is_read(void) {
    eitp_gpu gpus[CAPACITY];
    const eitp_gpu *gpu = &gpus[0];
    size_t count = 0;
    REQUIRE(begin_devices(""));
    CHECK(eitp_gpus_read(0, gpus, CAPACITY, &count, NULL) == EITP_OK);
    REQUIRE(count == 1);
    CHECK(!strcmp(gpu->name, "Emulated GPU 0") && !strcmp(gpu->address, "0000:0a:00.0") &&
          !strcmp(gpu->driver, "580.65"));
    CHECK(is(gpu->memory_total, usual_total) && is(gpu->memory_used, usual_used) &&
          is(gpu->memory_free, usual_total - usual_used) && is(gpu->process_memory, usual_process));
    CHECK(is(gpu->utilization, 87) && is(gpu->memory_utilization, 31));
    CHECK(is(gpu->temperature, 63) && is(gpu->slowdown_temperature, 90));
    CHECK(is(gpu->power, 214.3) && is(gpu->energy, 1000) && is(gpu->clock, 1410e6));
    CHECK(gpu->slowed_by && !*gpu->slowed_by);
    CHECK(eitp_gpus_read(0, gpus, CAPACITY, &count, NULL) == EITP_OK && is(gpu->energy, 1001.5));
    CHECK(emulated.live() == 0);
}

/* Figures that a device does not support are unknown. All others are known. */
static void what_is_not_supported_is_unknown(void) {
    static const struct {
        const char *figure;
        size_t members[3]; /* members of eitp_gpu that are then unknown; 0: none */
    } cases[] = {
        {"used", {offsetof(eitp_gpu, memory_total), offsetof(eitp_gpu, memory_used), offsetof(eitp_gpu, memory_free)}},
        {"process", {offsetof(eitp_gpu, process_memory), 0, 0}},
        {"process_used", {offsetof(eitp_gpu, process_memory), 0, 0}},
        {"gpu", {offsetof(eitp_gpu, utilization), offsetof(eitp_gpu, memory_utilization), 0}},
        {"temperature", {offsetof(eitp_gpu, temperature), 0, 0}},
        {"slowdown", {offsetof(eitp_gpu, slowdown_temperature), 0, 0}},
        {"power", {offsetof(eitp_gpu, power), 0, 0}},
        {"energy", {offsetof(eitp_gpu, energy), 0, 0}},
        {"clock", {offsetof(eitp_gpu, clock), 0, 0}},
    };
    const size_t first = offsetof(eitp_gpu, memory_total), last = offsetof(eitp_gpu, clock);
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp_gpu gpus[CAPACITY];
        char line[60];
        size_t count = 0;
        snprintf(line, sizeof line, "%s -\n", cases[i].figure);
        REQUIRE(begin_devices(line));
        CHECK(eitp_gpus_read(0, gpus, CAPACITY, &count, NULL) == EITP_OK);
        REQUIRE(count == 1);
        for (size_t at = first; at <= last; at += sizeof(double)) {
            double value;
            int is_expected = 0;
            memcpy(&value, (const char *)&gpus[0] + at, sizeof value);
            for (int k = 0; k < 3; k++)
                is_expected |= cases[i].members[k] == at;
            CHECK_THAT(isnan(value) == is_expected, "without %s, the member at %zu is %g", line, at, value);
        }
    }
    REQUIRE(begin_devices(""));
}

static void a_process_has_its_own_memory(void) {
    eitp_gpu gpus[CAPACITY];
    size_t count = 0;
    REQUIRE(begin_devices(""));
    CHECK(!eitp_gpus_read(getpid(), gpus, CAPACITY, &count, NULL) && is(gpus[0].process_memory, usual_process));
    CHECK(!eitp_gpus_read(1, gpus, CAPACITY, &count, NULL) && is(gpus[0].process_memory, 75161928));
    CHECK(!eitp_gpus_read(4194305, gpus, CAPACITY, &count, NULL) && isnan(gpus[0].process_memory));
    REQUIRE(begin_devices("divided 1\n"));
    CHECK(!eitp_gpus_read(0, gpus, CAPACITY, &count, NULL) && isnan(gpus[0].process_memory) &&
          isnan(gpus[0].memory_total) && is(gpus[0].temperature, 63));
}

static void lowered_clocks_have_a_cause(void) {
    static const char *const cases[][2] = {{"slowed 0x1\n", ""},       {"slowed 0x4\n", "power"},
                                           {"slowed 0x80\n", "power"}, {"slowed 0x28\n", "heat"},
                                           {"slowed 0x48\n", "heat"},  {"slowed 0x8\n", "hardware"}};
    eitp_gpu gpus[CAPACITY];
    size_t count = 0;
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        REQUIRE(begin_devices(cases[i][0]));
        CHECK(!eitp_gpus_read(0, gpus, CAPACITY, &count, NULL));
        CHECK_THAT(gpus[0].slowed_by && !strcmp(gpus[0].slowed_by, cases[i][1]), "%s", cases[i][0]);
    }
    REQUIRE(begin_devices("slowed -\n"));
    CHECK(!eitp_gpus_read(0, gpus, CAPACITY, &count, NULL) && !gpus[0].slowed_by);
}

/* ---- Failures ---- */

/* A figure is unknown if its call failed. All others are correct. */
static void check_figures(const eitp_gpu *gpu, long n) {
    CHECK_THAT(!*gpu->name || !strcmp(gpu->name, "Emulated GPU 0"), "call %ld: %s", n, gpu->name);
    CHECK_THAT(!*gpu->driver || !strcmp(gpu->driver, "580.65"), "call %ld: %s", n, gpu->driver);
    CHECK_THAT(may_be(gpu->memory_total, usual_total) && may_be(gpu->memory_used, usual_used) &&
                   may_be(gpu->memory_free, usual_total - usual_used) && may_be(gpu->process_memory, usual_process),
               "call %ld: memory", n);
    CHECK_THAT(may_be(gpu->utilization, 87) && may_be(gpu->memory_utilization, 31) && may_be(gpu->temperature, 63) &&
                   may_be(gpu->slowdown_temperature, 90) && may_be(gpu->power, 214.3) && may_be(gpu->clock, 1410e6),
               "call %ld: sensors", n);
    CHECK_THAT(isnan(gpu->energy) || gpu->energy >= 1000, "call %ld: %g J", n, gpu->energy);
}

static int count_unknown(const eitp_gpu *gpu) {
    int unknown = !*gpu->name + !*gpu->driver + !gpu->slowed_by;
    for (size_t at = offsetof(eitp_gpu, memory_total); at <= offsetof(eitp_gpu, clock); at += sizeof(double)) {
        double value;
        memcpy(&value, (const char *)gpu + at, sizeof value);
        unknown += isnan(value) != 0;
    }
    return unknown;
}

static void each_call_fails_in_turn(void) {
    long lost = 0, partly = 0, calls = LONG_MAX;
    REQUIRE(begin_devices(""));
    for (long n = 1; calls >= n - 1; n++) {
        eitp_gpu gpus[CAPACITY];
        size_t count = 99;
        char number[24];
        snprintf(number, sizeof number, "%ld", n);
        setenv("EITP_EMULATED_NVML_FAIL", number, 1);
        emulated.restart();
        CHECK(eitp_gpus_read(0, gpus, CAPACITY, &count, NULL) == EITP_OK);
        calls = (long)emulated.calls();
        CHECK_THAT(count <= 1, "call %ld: %zu GPUs", n, count);
        CHECK_THAT(emulated.live() == 0, "call %ld: the library is not shut down", n);
        lost += !count;
        if (count) {
            check_figures(&gpus[0], n);
            partly += count_unknown(&gpus[0]) > 0;
        }
    }
    unsetenv("EITP_EMULATED_NVML_FAIL");
    /* No GPU is found if initialization fails, or the count, a device or its address is unavailable. All figures are
       known if the device does not report whether it is divided, or if the library fails to shut down. */
    CHECK_THAT(lost == 4 && partly == 11 && calls == 17, "%ld lost, %ld partly known, of %ld", lost, partly, calls);
    REQUIRE(begin_devices(""));
}

static void a_meter_survives_each_failure(void) {
    for (long n = 1; n < 30; n++) {
        eitp__gpu_meter meter;
        eitp_gpu gpu;
        char number[24];
        double temperature;
        int is_open;
        snprintf(number, sizeof number, "%ld", n);
        setenv("EITP_EMULATED_NVML_FAIL", number, 1);
        emulated.restart();
        is_open = eitp__gpu_meter_open(&meter, "cuda:0, Emulated GPU 0 at 0000:0a:00.0, sm_86");
        CHECK_THAT(is_open == (n > 4), "call %ld", n);
        eitp__gpu_meter_read(&meter, 0, &gpu);
        check_figures(&gpu, n);
        temperature = eitp__gpu_meter_temperature(&meter);
        CHECK_THAT(may_be(temperature, 63) && (is_open || isnan(temperature)), "call %ld: %g C", n, temperature);
        eitp__gpu_meter_close(&meter);
        CHECK_THAT(emulated.live() == 0, "call %ld: the library is not shut down", n);
    }
    unsetenv("EITP_EMULATED_NVML_FAIL");
    emulated.restart();
}

/* Losing one GPU does not affect the others. */
static void a_lost_gpu_leaves_the_others(void) {
    eitp_gpu gpus[CAPACITY];
    size_t count = 0;
    setenv("EITP_EMULATED_CUDA_DEVICES", "3", 1);
    read_with("EITP_EMULATED_NVML_FAIL", "nvmlDeviceGetHandleByIndex_v2:2:15", gpus, &count);
    CHECK(count == 2 && !strcmp(gpus[1].name, "Emulated GPU 2") && is(gpus[1].temperature, 83));
    CHECK(!eitp_gpus_read(0, gpus, 2, &count, NULL) && count == 2 && !strcmp(gpus[1].address, "0000:0b:00.0"));
    unsetenv("EITP_EMULATED_CUDA_DEVICES");
    read_with("EITP_EMULATED_CUDA_DEVICES", "0", gpus, &count);
    CHECK(count == 0);
}

/* ---- The device of a context ---- */

/* The temperature of the GPU that a context with this device uses; -1 if the context cannot be created. */
static double temperature_of(const char *device) {
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp__gpu_meter meter;
    eitp_error error;
    double celsius;
    config.device = device;
    config.plans_only = 1;
    if (eitp_context_create(&config, &context, &error)) {
        printf("    %s\n", error.message);
        return -1;
    }
    eitp__gpu_meter_open(&meter, eitp_context_description(context));
    celsius = eitp__gpu_meter_temperature(&meter);
    eitp__gpu_meter_close(&meter);
    eitp_context_destroy(context);
    return celsius;
}

static void restart_both(void) {
    emulated.restart();
    emulated.restart_driver();
}

/* CUDA numbers only the visible devices. The library numbers all of them. */
static void the_device_is_found_by_its_address(void) {
    REQUIRE(begin_devices(""));
    setenv("EITP_EMULATED_CUDA_DEVICES", "3", 1);
    restart_both();
    CHECK(is(temperature_of("cuda:0"), 63) && is(temperature_of("cuda:1"), 73) && is(temperature_of("cuda:2"), 83));
    setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
    restart_both();
    CHECK(is(temperature_of("cuda"), 83) && is(temperature_of("cuda:0"), 83) && is(temperature_of("cuda:1"), 63));
    CHECK(isnan(temperature_of("cpu")));
    unsetenv("CUDA_VISIBLE_DEVICES");
    setenv("EITP_EMULATED_CUDA_FAIL", "cuDeviceGetPCIBusId:1", 1);
    restart_both();
    CHECK(isnan(temperature_of("cuda:0"))); /* the GPU computes, but its address is unknown */
    unsetenv("EITP_EMULATED_CUDA_FAIL");
    unsetenv("EITP_EMULATED_CUDA_DEVICES");
    restart_both();
    CHECK(emulated.live() == 0);
}

/* ---- Heat ---- */

static double limit_of_gpu(const char *figures, double most) {
    eitp__heat_probes probes;
    eitp__gpu_meter meter;
    double limit = 0;
    memset(&probes, 0, sizeof probes);
    probes.count = EITP__HEAT_PROBES; /* there is room for one more probe */
    if (!begin_devices(figures) || !eitp__gpu_meter_open(&meter, "at 0000:0a:00.0, sm_86"))
        return -1;
    eitp__heat_add_gpu(&probes, &meter, most);
    if (probes.processors) {
        const eitp_host host = eitp_host_default();
        const eitp__heat_probe *probe = &probes.all[EITP__HEAT_PROBES];
        limit = probe->limit;
        CHECK(probes.count == EITP__HEAT_PROBES + 1 && !strcmp(probe->thermometer.sensor.name, "GPU Emulated GPU 0"));
        CHECK(is(eitp__heat_read(&host, probe), 63));
        CHECK(set_figures("temperature 71\n") && is(eitp__heat_read(&host, probe), 71));
        CHECK(set_figures("temperature -\n") && isnan(eitp__heat_read(&host, probe)));
    }
    eitp__gpu_meter_close(&meter);
    return limit;
}

static void a_gpu_has_a_limit_of_its_own(void) {
    emulated.restart();
    CHECK(is(limit_of_gpu("", 0), 85));
    CHECK(is(limit_of_gpu("", 70), 70));
    CHECK(is(limit_of_gpu("slowdown -\n", 0), 95));
    CHECK(is(limit_of_gpu("slowdown 20\n", 0), 95)); /* wrong value from the firmware */
    CHECK(is(limit_of_gpu("temperature -\n", 0), 0));
}

int main(int argc, char **argv) {
    static const test_case alone[] = {TEST(nothing_is_known_of_no_gpu), TEST(a_description_names_one_gpu)};
    static const test_case tests[] = {
        TEST(nothing_is_known_of_no_gpu),   TEST(a_description_names_one_gpu),
        TEST(every_figure_is_read),         TEST(what_is_not_supported_is_unknown),
        TEST(a_process_has_its_own_memory), TEST(lowered_clocks_have_a_cause),
        TEST(each_call_fails_in_turn),      TEST(a_meter_survives_each_failure),
        TEST(a_lost_gpu_leaves_the_others), TEST(the_device_is_found_by_its_address),
        TEST(a_gpu_has_a_limit_of_its_own),
    };
    int failed;
    find_emulated();
    if (!emulated.live)
        return RUN_TESTS(alone, argc, argv);
    if (!scratch_make(folder))
        return 1;
    failed = RUN_TESTS(tests, argc, argv);
    scratch_remove(folder);
    return failed;
}
