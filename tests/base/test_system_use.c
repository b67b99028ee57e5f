/* The process's use of the machine, read from simulated files. */
#include "tests/support/everything.h"
#include "tests/support/prepared_files.h"
#include "tests/support/test.h"

#include <unistd.h>

static eitp_error error_;

static eitp_status read_use(const prepared *files, int energy, eitp__system_use *use) {
    eitp_host host = eitp_host_default();
    host.files = prepared_table(files);
    return eitp__system_use_read(&host, energy, use, &error_);
}

static void files_are_read(void) {
    static const prepared files[] = {
        {"/proc/self/io", "rchar: 100\nwchar: 200\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n"},
        {"/proc/stat", "cpu  100 20 30 400 5 0 7 38 0 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n"},
        {"/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2600000\n"},
        {"/sys/class/powercap/intel-rapl:0/name", "package-0\n"},
        {"/sys/class/powercap/intel-rapl:0/energy_uj", "5000000\n"},
        {"/sys/class/powercap/intel-rapl:0/max_energy_range_uj", "100000000\n"},
        {"/sys/class/powercap/intel-rapl:0:0/name", "core\n"},
        {"/sys/class/powercap/intel-rapl:0:0/energy_uj", "3000000\n"},
        {"/sys/class/powercap/intel-rapl:1/name", "package-1\n"},
        {"/sys/class/powercap/intel-rapl:1/energy_uj", "2000000\n"},
        {"/sys/class/powercap/intel-rapl:1/max_energy_range_uj", "100000000\n"},
        {NULL, NULL}};
    const double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    eitp__system_use use;
    REQUIRE_OK(read_use(files, 1, &use), error_);
    CHECK(use.read_bytes == 4096 && use.written_bytes == 8192);
    CHECK(fabs(use.machine_s - 600 * tick) < 1e-9 && fabs(use.stolen_s - 38 * tick) < 1e-9);
    CHECK(fabs(use.frequency - 2.6e9) < 1);
    CHECK_THAT(fabs(use.energy_j - 7) < 1e-9 && fabs(use.energy_range - 200) < 1e-9, "%g of %g", use.energy_j,
               use.energy_range);
    CHECK(use.processor_s > 0 && use.major_faults >= 0 && use.voluntary_switches + use.involuntary_switches >= 0);
    REQUIRE_OK(read_use(files, 0, &use), error_);
    CHECK(isnan(use.energy_j));
}

static void what_is_missing_or_malformed_is_unknown(void) {
    static const prepared none[] = {{NULL, NULL}};
    static const prepared odd[] = {{"/proc/self/io", "read_bytes:\nwrite_bytes: x\n"},
                                   {"/proc/stat", "cpu  100 20\n"},
                                   {"/proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 3100.5\ncache size\t: 1 KB\n"},
                                   {NULL, NULL}};
    eitp__system_use use;
    REQUIRE_OK(read_use(none, 1, &use), error_);
    CHECK(isnan(use.read_bytes) && isnan(use.written_bytes) && isnan(use.machine_s) && isnan(use.frequency) &&
          isnan(use.energy_j));
    REQUIRE_OK(read_use(odd, 1, &use), error_);
    CHECK(isnan(use.read_bytes) && isnan(use.written_bytes) && isnan(use.machine_s) && isnan(use.energy_j));
    CHECK_THAT(fabs(use.frequency - 3100.5e6) < 1, "%g", use.frequency);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(files_are_read),
        TEST(what_is_missing_or_malformed_is_unknown),
    };
    return RUN_TESTS(tests, argc, argv);
}
