/* Memory of machine and process, with simulated /proc and control groups of both versions. */
#include "tests/support/everything.h"

#include "tests/support/prepared_files.h"

#include <sys/resource.h>

#define MIB ((uint64_t)1 << 20)

/* Returns the memory info of a machine with these files. */
static eitp_memory_info read_prepared(const prepared *files) {
    eitp_memory_info info;
    eitp_error error;
    faults f;
    faults_begin(&f);
    f.real.files = prepared_table(files);
    memset(&info, 0xa5, sizeof info);
    CHECK_THAT(eitp_memory_info_read(&f.host, &info, &error) == EITP_OK, "%s", error.message);
    faults_end(&f);
    return info;
}

#define CHECK_BYTES(value, expected)                                                                                   \
    CHECK_THAT((value) == (expected), "got %llu, expected %llu", (unsigned long long)(value),                          \
               (unsigned long long)(expected))
#define CHECK_SOURCE(info, expected) CHECK_THAT(!strcmp((info).source, expected), "got '%s'", (info).source)

/* A process of 10 MiB on a machine of 8192 MiB, 6144 MiB of them available. */
#define STATUS                                                                                                         \
    {                                                                                                                  \
        "/proc/self/status", "Name:\tVmRSS: 5 kB\nVmPeak:\t  600000 kB\nVmSize:\t  524288 kB\nVmHWM:\t   20480 kB\n"   \
                             "VmRSS:\t   10240 kB\nVmData:\t   30720 kB\nThreads:\t1\n"                                \
    }
#define MEMINFO                                                                                                        \
    {                                                                                                                  \
        "/proc/meminfo", "MemTotal:        8388608 kB\nMemFree:          102400 kB\nMemAvailable:    6291456 kB\n"     \
                         "SwapCached:            4 kB\nSwapTotal:       2097152 kB\nSwapFree:        1048576 kB\n"     \
    }
#define END                                                                                                            \
    { NULL, NULL }

/* As with systemd: version 2 only, and the process is two groups deep. */
#define V2_CGROUP                                                                                                      \
    { "/proc/self/cgroup", "0::/user.slice/job\n" }
#define V2_MOUNT                                                                                                       \
    {                                                                                                                  \
        "/proc/self/mountinfo", "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"                              \
                                "24 22 0:22 / /proc rw - proc proc rw\n"                                               \
                                "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 master:3 - cgroup2 cgroup2 rw\n"       \
    }

static void without_limits_the_machine_is_the_bound(void) {
    static const prepared files[] = {STATUS, MEMINFO, END};
    const eitp_memory_info info = read_prepared(files);
    CHECK_BYTES(info.total, 8192 * MIB);
    CHECK_BYTES(info.available, 6144 * MIB);
    CHECK_BYTES(info.swap_total, 2048 * MIB);
    CHECK_BYTES(info.swap_free, 1024 * MIB);
    CHECK_BYTES(info.resident, 10 * MIB);
    CHECK_BYTES(info.peak, 20 * MIB);
    CHECK_BYTES(info.cgroup_limit, 0);
    CHECK_BYTES(info.cgroup_used, 0);
    /* The process's own memory is not available, but the process can use it. */
    CHECK_BYTES(info.usable, 6154 * MIB);
    CHECK_SOURCE(info, "MemAvailable");
}

static void v2_finds_the_limit_of_a_parent(void) {
    static const prepared files[] = {STATUS,
                                     MEMINFO,
                                     V2_CGROUP,
                                     V2_MOUNT,
                                     {"/sys/fs/cgroup/user.slice/job/memory.max", "max\n"},
                                     {"/sys/fs/cgroup/user.slice/job/memory.high", "max\n"},
                                     {"/sys/fs/cgroup/user.slice/job/memory.current", "20971520\n"},
                                     {"/sys/fs/cgroup/user.slice/memory.max", "1073741824\n"},
                                     {"/sys/fs/cgroup/user.slice/memory.current", "314572800\n"},
                                     {"/sys/fs/cgroup/user.slice/memory.stat",
                                      "anon 1000\nfile 104857600\ntotal_inactive_file 7\ninactive_anon 3\n"
                                      "inactive_file 104857600\nactive_file 5\n"},
                                     END};
    const eitp_memory_info info = read_prepared(files);
    CHECK_BYTES(info.cgroup_limit, 1024 * MIB);
    CHECK_BYTES(info.cgroup_used, 200 * MIB);
    CHECK_BYTES(info.usable, 834 * MIB);
    CHECK_SOURCE(info, "cgroup");
}

static void v2_without_limits(void) {
    static const prepared files[] = {STATUS,
                                     MEMINFO,
                                     V2_CGROUP,
                                     V2_MOUNT,
                                     {"/sys/fs/cgroup/user.slice/job/memory.max", "max\n"},
                                     {"/sys/fs/cgroup/user.slice/job/memory.high", "max\n"},
                                     {"/sys/fs/cgroup/user.slice/job/memory.current", "20971520\n"},
                                     {"/sys/fs/cgroup/user.slice/memory.max", "max\n"},
                                     END};
    const eitp_memory_info info = read_prepared(files);
    CHECK_BYTES(info.cgroup_limit, 0);
    CHECK_BYTES(info.usable, 6154 * MIB);
    CHECK_SOURCE(info, "MemAvailable");
}

/* Files below the root replace those in /proc and those of the control groups that they name. */
static void a_root_stands_for_the_machine(void) {
    static const prepared files[] = {{"/made/up/proc/meminfo", "MemTotal: 4194304 kB\nMemAvailable: 1048576 kB\n"},
                                     {"/made/up/sys/fs/cgroup/user.slice/job/memory.max", "536870912\n"},
                                     STATUS,
                                     MEMINFO,
                                     V2_CGROUP,
                                     V2_MOUNT,
                                     {"/sys/fs/cgroup/user.slice/job/memory.max", "max\n"},
                                     {"/sys/fs/cgroup/user.slice/job/memory.current", "20971520\n"},
                                     END};
    eitp_memory_info info;
    eitp_error error;
    faults f;
    faults_begin(&f);
    f.real.files = prepared_table(files);
    f.host.system_root = "/made/up";
    CHECK_THAT(!eitp_memory_info_read(&f.host, &info, &error), "%s", error.message);
    CHECK_BYTES(info.total, 4096 * MIB);
    CHECK_BYTES(info.available, 1024 * MIB);
    CHECK_BYTES(info.resident, 10 * MIB);
    CHECK_BYTES(info.cgroup_limit, 512 * MIB);
    CHECK_BYTES(info.cgroup_used, 20 * MIB);
    faults_end(&f);
}

static void v2_throttling_is_a_limit(void) {
    static const prepared files[] = {STATUS,
                                     MEMINFO,
                                     V2_CGROUP,
                                     V2_MOUNT,
                                     {"/sys/fs/cgroup/user.slice/job/memory.max", "1073741824\n"},
                                     {"/sys/fs/cgroup/user.slice/job/memory.high", "536870912\n"},
                                     {"/sys/fs/cgroup/user.slice/job/memory.current", "20971520\n"},
                                     END};
    const eitp_memory_info info = read_prepared(files);
    CHECK_BYTES(info.cgroup_limit, 512 * MIB);
    CHECK_BYTES(info.usable, 502 * MIB);
}

/* A larger limit can leave less memory if other processes use most of it. */
static void the_group_that_leaves_least_counts(void) {
    static const prepared files[] = {STATUS,
                                     MEMINFO,
                                     V2_CGROUP,
                                     V2_MOUNT,
                                     {"/sys/fs/cgroup/user.slice/job/memory.max", "1073741824\n"},
                                     {"/sys/fs/cgroup/user.slice/job/memory.current", "20971520\n"},
                                     {"/sys/fs/cgroup/user.slice/memory.max", "2147483648\n"},
                                     {"/sys/fs/cgroup/user.slice/memory.current", "2042626048\n"},
                                     {"/sys/fs/cgroup/memory.max", "4294967296\n"},
                                     END};
    const eitp_memory_info info = read_prepared(files);
    CHECK_BYTES(info.cgroup_limit, 2048 * MIB);
    CHECK_BYTES(info.cgroup_used, 1948 * MIB);
    CHECK_BYTES(info.usable, 110 * MIB);
    CHECK_SOURCE(info, "cgroup");
}

static void a_limit_above_the_machine_has_no_effect(void) {
    static const prepared files[] = {STATUS,
                                     MEMINFO,
                                     V2_CGROUP,
                                     V2_MOUNT,
                                     {"/sys/fs/cgroup/user.slice/job/memory.max", "7516192768\n"},
                                     {"/sys/fs/cgroup/user.slice/job/memory.current", "20971520\n"},
                                     END};
    const eitp_memory_info info = read_prepared(files);
    CHECK_BYTES(info.cgroup_limit, 7168 * MIB);
    CHECK_BYTES(info.usable, 6154 * MIB);
    CHECK_SOURCE(info, "MemAvailable");
}

static void a_limit_below_the_use_leaves_the_resident_memory(void) {
    static const prepared files[] = {STATUS,
                                     MEMINFO,
                                     V2_CGROUP,
                                     V2_MOUNT,
                                     {"/sys/fs/cgroup/user.slice/job/memory.max", "104857600\n"},
                                     {"/sys/fs/cgroup/user.slice/job/memory.current", "209715200\n"},
                                     /* More page cache than memory in use: values change between reads. */
                                     {"/sys/fs/cgroup/user.slice/memory.max", "5242880\n"},
                                     {"/sys/fs/cgroup/user.slice/memory.current", "1000\n"},
                                     {"/sys/fs/cgroup/user.slice/memory.stat", "inactive_file 2000\n"},
                                     END};
    static const prepared lower[] = {STATUS,
                                     V2_CGROUP,
                                     V2_MOUNT,
                                     {"/sys/fs/cgroup/user.slice/job/memory.max", "104857600\n"},
                                     {"/sys/fs/cgroup/user.slice/job/memory.current", "209715200\n"},
                                     END};
    static const prepared nothing[] = {V2_CGROUP,
                                       V2_MOUNT,
                                       {"/sys/fs/cgroup/user.slice/job/memory.max", "0\n"},
                                       {"/sys/fs/cgroup/user.slice/job/memory.current", "209715200\n"},
                                       END};
    eitp_memory_info info = read_prepared(files);
    CHECK_BYTES(info.cgroup_limit, 5 * MIB);
    CHECK_BYTES(info.cgroup_used, 0);
    CHECK_BYTES(info.usable, 5 * MIB);
    info = read_prepared(lower);
    CHECK_BYTES(info.usable, 10 * MIB);
    CHECK_SOURCE(info, "cgroup");
    CHECK(eitp_memory_budget_default(&info) > 0);
    /* The value is known, so it is not 0. */
    info = read_prepared(nothing);
    CHECK_BYTES(info.usable, 1);
    CHECK_SOURCE(info, "cgroup");
    CHECK(eitp_memory_budget_default(&info) > 0);
}

#define V1_CGROUP                                                                                                      \
    { "/proc/self/cgroup", "3:cpuset:/elsewhere\n2:cpu,cpuacct,memory:/batch/job:1\n1:name=systemd:/\n" }
#define V1_MOUNT                                                                                                       \
    {                                                                                                                  \
        "/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"                           \
                                "32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"                    \
                                "33 31 0:30 / /sys/fs/cgroup/all rw - cgroup cgroup rw,cpu,cpuacct,memory\n"           \
    }

static void v1_finds_the_limit(void) {
    static const prepared files[] = {
        STATUS,
        MEMINFO,
        V1_CGROUP,
        V1_MOUNT,
        {"/sys/fs/cgroup/all/batch/job:1/memory.limit_in_bytes", "1073741824\n"},
        {"/sys/fs/cgroup/all/batch/job:1/memory.usage_in_bytes", "314572800\n"},
        {"/sys/fs/cgroup/all/batch/job:1/memory.stat", "inactive_file 1\ntotal_inactive_file 104857600\n"},
        {"/sys/fs/cgroup/all/batch/memory.limit_in_bytes", "9223372036854771712\n"},
        {"/sys/fs/cgroup/all/batch/memory.usage_in_bytes", "414572800\n"},
        END};
    const eitp_memory_info info = read_prepared(files);
    CHECK_BYTES(info.cgroup_limit, 1024 * MIB);
    CHECK_BYTES(info.cgroup_used, 200 * MIB);
    CHECK_BYTES(info.usable, 834 * MIB);
    CHECK_SOURCE(info, "cgroup");
}

static void v1_reports_a_number_for_no_limit(void) {
    static const prepared files[] = {STATUS,
                                     MEMINFO,
                                     V1_CGROUP,
                                     V1_MOUNT,
                                     {"/sys/fs/cgroup/all/batch/job:1/memory.limit_in_bytes", "9223372036854771712\n"},
                                     {"/sys/fs/cgroup/all/batch/job:1/memory.usage_in_bytes", "314572800\n"},
                                     {"/sys/fs/cgroup/all/memory.limit_in_bytes", "18446744073709551615\n"},
                                     END};
    const eitp_memory_info info = read_prepared(files);
    CHECK_BYTES(info.cgroup_limit, 0);
    CHECK_BYTES(info.cgroup_used, 0);
    CHECK_BYTES(info.usable, 6154 * MIB);
    CHECK_SOURCE(info, "MemAvailable");
}

/* Both versions are mounted. Version 1 has the memory controller. */
static void hybrid_reads_both(void) {
    static const prepared files[] = {STATUS,
                                     MEMINFO,
                                     {"/proc/self/cgroup", "4:memory:/a\n3:name=memory:/b\n1:name=systemd:/a\n0::/a\n"},
                                     {"/proc/self/mountinfo",
                                      "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
                                      "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                                      "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"},
                                     {"/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824\n"},
                                     {"/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "20971520\n"},
                                     /* Paths of other hierarchies and files of the other version are ignored. */
                                     {"/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "100\n"},
                                     {"/sys/fs/cgroup/memory/a/memory.max", "100\n"},
                                     {"/sys/fs/cgroup/unified/a/memory.limit_in_bytes", "100\n"},
                                     END};
    const eitp_memory_info info = read_prepared(files);
    CHECK_BYTES(info.cgroup_limit, 1024 * MIB);
    CHECK_BYTES(info.usable, 1014 * MIB);
    CHECK_SOURCE(info, "cgroup");
}

#define LIMIT_AT(directory, limit)                                                                                     \
    {directory "/memory.max", limit}, {                                                                                \
        directory "/memory.current", "20971520\n"                                                                      \
    }

static void containers_map_the_path(void) {
    /* The container's cgroup is mounted, but the path is the host's. */
    static const prepared own[] = {
        STATUS,
        {"/proc/self/cgroup", "0::/docker/abc/inner\n"},
        {"/proc/self/mountinfo", "30 22 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"},
        LIMIT_AT("/sys/fs/cgroup/docker/abc/inner", "1048576\n"),
        LIMIT_AT("/sys/fs/cgroup/inner", "536870912\n"),
        END};
    /* The path is outside the container's namespace or differs, so the mounted cgroup is used. */
    static const prepared outside[] = {STATUS,
                                       {"/proc/self/cgroup", "0::/../sibling\n"},
                                       {"/proc/self/mountinfo", "30 22 0:26 / /cg rw - cgroup2 cgroup rw\n"},
                                       LIMIT_AT("/cg/../sibling", "1048576\n"),
                                       LIMIT_AT("/cg", "536870912\n"),
                                       END};
    static const prepared other[] = {STATUS,
                                     {"/proc/self/cgroup", "0::/docker/abcdef\n"},
                                     {"/proc/self/mountinfo", "30 22 0:26 /docker/abc /cg rw - cgroup2 cgroup rw\n"},
                                     LIMIT_AT("/cg/def", "1048576\n"),
                                     LIMIT_AT("/cgdef", "1048576\n"),
                                     LIMIT_AT("/cg", "536870912\n"),
                                     END};
    /* The path does not exist below the mount. */
    static const prepared unseen[] = {STATUS,
                                      {"/proc/self/cgroup", "0::/docker/abc\n"},
                                      {"/proc/self/mountinfo", "30 22 0:26 / /cg rw - cgroup2 cgroup rw\n"},
                                      LIMIT_AT("/cg", "536870912\n"),
                                      END};
    /* Of several mounts, the one with the process's cgroup is used. One mount point contains a space. */
    static const prepared several[] = {STATUS,
                                       {"/proc/self/cgroup", "0::/a/b\n"},
                                       {"/proc/self/mountinfo",
                                        "30 22 0:26 /c /other rw - cgroup2 cgroup rw\n"
                                        "31 22 0:26 /a /mnt/c\\040g rw shared:3 propagate_from:2 - cgroup2 cgroup rw\n"
                                        "32 22 0:26 /d /third rw - cgroup2 cgroup rw\n"},
                                       LIMIT_AT("/other", "1048576\n"),
                                       LIMIT_AT("/third", "1048576\n"),
                                       LIMIT_AT("/mnt/c g/b", "536870912\n"),
                                       LIMIT_AT("/mnt", "1048576\n"),
                                       END};
    static const prepared *const all[] = {own, outside, other, unseen, several};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const eitp_memory_info info = read_prepared(all[i]);
        CHECK_THAT(info.usable == 502 * MIB && !strcmp(info.source, "cgroup"), "container %d: %llu by %s", (int)i,
                   (unsigned long long)info.usable, info.source);
    }
}

/* ---- Processors ---- */

static eitp_processor_info read_processors(const prepared *files) {
    eitp_processor_info info;
    eitp_error error;
    faults f;
    faults_begin(&f);
    f.real.files = prepared_table(files);
    memset(&info, 0xa5, sizeof info);
    CHECK_THAT(eitp_processor_info_read(&f.host, &info, &error) == EITP_OK, "%s", error.message);
    faults_end(&f);
    return info;
}

#define CHECK_PROCESSORS(files, wanted_allowed, wanted_quota, wanted_usable)                                           \
    do {                                                                                                               \
        const eitp_processor_info got = read_processors(files);                                                        \
        CHECK_THAT(got.allowed == (wanted_allowed) && got.quota >= (wanted_quota) && got.quota <= (wanted_quota) &&    \
                       got.usable == (wanted_usable),                                                                  \
                   "allowed %d, quota %g, usable %d", got.allowed, got.quota, got.usable);                             \
    } while (0)

#define AFFINITY                                                                                                       \
    { "/proc/self/status", "Name:\teitp\nCpus_allowed:\tf,0000f0f1\nCpus_allowed_list:\t0,4-7,12-15,32-35\n" }

static void affinity_and_quota_limit_processors(void) {
    static const prepared free_machine[] = {AFFINITY, END};
    static const prepared second[] = {AFFINITY,
                                      V2_CGROUP,
                                      V2_MOUNT,
                                      {"/sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n"},
                                      {"/sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n"},
                                      {"/sys/fs/cgroup/cpu.max", "400000 100000\n"},
                                      END};
    static const prepared above[] = {
        AFFINITY, V2_CGROUP, V2_MOUNT, {"/sys/fs/cgroup/user.slice/cpu.max", "6400000 100000\n"}, END};
    static const prepared below_one[] = {
        AFFINITY, V2_CGROUP, V2_MOUNT, {"/sys/fs/cgroup/user.slice/cpu.max", "20000 100000\n"}, END};
    static const prepared first[] = {AFFINITY,
                                     V1_CGROUP,
                                     V1_MOUNT,
                                     {"/sys/fs/cgroup/all/batch/job:1/cpu.cfs_period_us", "50000\n"},
                                     {"/sys/fs/cgroup/all/batch/job:1/cpu.cfs_quota_us", "100000\n"},
                                     {"/sys/fs/cgroup/all/batch/cpu.cfs_period_us", "100000\n"},
                                     {"/sys/fs/cgroup/all/batch/cpu.cfs_quota_us", "-1\n"},
                                     END};
    static const prepared malformed[] = {AFFINITY, V2_CGROUP, V2_MOUNT, {"/sys/fs/cgroup/cpu.max", "5 0\n"}, END};
    CHECK_PROCESSORS(free_machine, 13, 0, 13);
    CHECK_PROCESSORS(second, 13, 1.5, 2);
    CHECK_PROCESSORS(above, 13, 64, 13);
    CHECK_PROCESSORS(below_one, 13, 0.2, 1);
    CHECK_PROCESSORS(first, 13, 2, 2);
    CHECK_PROCESSORS(malformed, 13, 0, 13);
}

static void without_proc_processors_are_those_online(void) {
    static const prepared files[] = {END};
    const eitp_processor_info info = read_processors(files);
    CHECK(info.online >= 1);
    CHECK(info.allowed == info.online && info.usable == info.online);
    CHECK(info.quota <= 0);
}

static void without_proc_little_is_known(void) {
    static const prepared files[] = {END};
    static const prepared forbidden[] = {{"/proc/self/status", NULL},   {"/proc/meminfo", NULL},
                                         {"/proc/self/cgroup", NULL},   {"/proc/self/mountinfo", NULL},
                                         {"/proc/self/cgroup", "0::/"}, END};
    static const prepared *const all[] = {files, forbidden};
    for (size_t i = 0; i < 2; i++) {
        const eitp_memory_info info = read_prepared(all[i]);
#ifdef __linux__
        CHECK_BYTES(info.total, 0);
#endif
        CHECK_BYTES(info.available, 0);
        CHECK_BYTES(info.swap_free, 0);
        CHECK_BYTES(info.cgroup_limit, 0);
        CHECK_BYTES(info.resident, 0);
        CHECK(info.peak > 0);
        CHECK_BYTES(info.usable, 0);
        CHECK_SOURCE(info, "unknown");
        CHECK_BYTES(eitp_memory_budget_default(&info), 0);
    }
}

static void malformed_values_are_unknown(void) {
    static const char *const texts[] = {
        "",
        "\n",
        "\n\n:\n::\n:::\n",
        ":",
        "MemAvailable:",
        "MemAvailable: kB\nVmRSS:",
        "MemAvailable: -5 kB\nVmRSS: 1x kB\ninactive_file -1",
        "MemAvailable: 99999999999999999999999 kB\nMemAvailable: 1 kB\n",
        "MemAvailable: 18014398509481985 kB\nVmRSS: 18014398509481985 kB\n",
        "0::",
        "0::relative\n",
        "0:memory",
        "0::/\n0::/..\n1:memory:/\n",
        "1 2 3 4 5 6 - cgroup2",
        "- - - - - - - cgroup2 cgroup2 memory",
        "1 2 3 / relative rw - cgroup2 cgroup rw",
        "1 2 3 /  rw - cgroup2 cgroup rw\n1 2 3   - cgroup cgroup memory",
        "1 2 3 / / rw - cgroup2 cgroup rw\n1 2 3 / \\0 - cgroup cgroup memory\n1 2 3 / / rw - cgroup c memory,memory",
        "1 2 3 \\ / rw",
        "\xff\xfe\x01 \\777\\777\\",
        "18446744073709551616\n",
        "-1\n",
        "0x10\n",
        "1e9\n",
        "1.5\n",
    };
    static const char *const paths[] = {
        "/proc/self/status", "/proc/meminfo",          "/proc/self/cgroup",      "/proc/self/mountinfo", "/memory.max",
        "/memory.high",      "/memory.limit_in_bytes", "/memory.usage_in_bytes", "/memory.stat"};
    enum { PATHS = sizeof paths / sizeof paths[0], TEXTS = sizeof texts / sizeof texts[0] };
    prepared files[PATHS + 1];
    memset(files, 0, sizeof files);
    /* Every string in every file, combined with every string in /proc/self/cgroup and mountinfo. */
    for (size_t i = 0; i < TEXTS * TEXTS * TEXTS; i++) {
        for (size_t p = 0; p < PATHS; p++) {
            files[p].path = paths[p];
            files[p].text = texts[i / TEXTS / TEXTS];
        }
        files[2].text = texts[i % TEXTS];
        files[3].text = texts[i / TEXTS % TEXTS];
        const eitp_memory_info info = read_prepared(files);
        CHECK_THAT(!info.available && !info.cgroup_limit && !info.usable && !info.resident, "case %d: %llu by %s",
                   (int)i, (unsigned long long)info.usable, info.source);
    }
}

/* Without this, files in the current directory would be read. */
static void a_mount_without_a_point_is_ignored(void) {
    static const prepared files[] = {{"/proc/self/cgroup", "0::/\n1:memory:/\n"},
                                     {"/proc/self/mountinfo", "1 2 3 / here rw - cgroup2 cgroup rw\n"
                                                              "1 2 3 /  rw - cgroup cgroup memory\n"},
                                     {"here/memory.max", "536870912\n"},
                                     {"memory.limit_in_bytes", "536870912\n"},
                                     END};
    const eitp_memory_info info = read_prepared(files);
    CHECK_BYTES(info.usable, 0);
}

/* A path longer than the system allows is not walked. */
static void long_paths_are_ignored(void) {
    static const char begin[] = "0::", limit[] = "536870912\n";
    enum { LENGTH = 1 << 20 };
    char *text = (char *)malloc(LENGTH + 1);
    prepared files[] = {{"/proc/self/cgroup", text},
                        {"/proc/self/mountinfo", "1 2 3 / /cg rw - cgroup2 cgroup rw\n"},
                        {"/cg/memory.max", limit},
                        END};
    REQUIRE(text);
    for (size_t i = 0; i < LENGTH; i++)
        text[i] = i < sizeof begin - 1 ? begin[i] : (i & 1) ? '/' : 'a';
    text[LENGTH] = 0;
    eitp_memory_info info = read_prepared(files);
    CHECK_BYTES(info.usable, 512 * MIB);
    files[1].text = text;
    info = read_prepared(files);
    CHECK_BYTES(info.usable, 0);
    free(text);
}

/* Reads the memory info under a limit of the process, then restores the limit. */
static eitp_memory_info read_limited(const prepared *files, rlim_t data, rlim_t all) {
    struct rlimit old_data, old_all, new_data, new_all;
    eitp_memory_info info;
    CHECK(!getrlimit(RLIMIT_DATA, &old_data) && !getrlimit(RLIMIT_AS, &old_all));
    new_data = old_data;
    new_all = old_all;
    new_data.rlim_cur = data;
    new_all.rlim_cur = all;
    CHECK(!setrlimit(RLIMIT_DATA, &new_data) && !setrlimit(RLIMIT_AS, &new_all));
    info = read_prepared(files);
    CHECK(!setrlimit(RLIMIT_DATA, &old_data) && !setrlimit(RLIMIT_AS, &old_all));
    return info;
}

/* The limits and the process's data are larger than the address space that sanitizers use. */
static void limits_of_the_process_are_bounds(void) {
    static const prepared files[] = {
        {"/proc/self/status", "VmSize:\t 103079215104 kB\nVmRSS:\t 10240 kB\nVmData:\t 51539607552 kB\n"}, END};
    const rlim_t tebi = (rlim_t)1 << 40;
    struct rlimit data, all;
    eitp_memory_info info;
    REQUIRE(!getrlimit(RLIMIT_DATA, &data) && !getrlimit(RLIMIT_AS, &all));
    if (data.rlim_cur != RLIM_INFINITY || all.rlim_cur != RLIM_INFINITY) {
        printf("SKIPPED limits of the process: some are already set\n");
        return;
    }
    info = read_prepared(files);
    CHECK_BYTES(info.data_limit, 0);
    info = read_limited(files, 64 * tebi, 128 * tebi);
    CHECK_BYTES(info.data_limit, 64 * tebi);
    CHECK_BYTES(info.usable, 16 * tebi + 10 * MIB);
    CHECK_SOURCE(info, "RLIMIT_DATA");
    info = read_limited(files, RLIM_INFINITY, 128 * tebi);
    CHECK_BYTES(info.data_limit, 128 * tebi);
    CHECK_BYTES(info.usable, 32 * tebi + 10 * MIB);
    CHECK_SOURCE(info, "RLIMIT_AS");
    info = read_limited(files, 64 * tebi, 100 * tebi);
    CHECK_BYTES(info.data_limit, 64 * tebi);
    CHECK_BYTES(info.usable, 4 * tebi + 10 * MIB);
    CHECK_SOURCE(info, "RLIMIT_AS");
}

static void every_allocation_may_fail(void) {
    static const prepared files[] = {
        STATUS, MEMINFO, V2_CGROUP, V2_MOUNT, LIMIT_AT("/sys/fs/cgroup/user.slice/job", "536870912\n"), END};
    faults f;
    int more = 1;
    for (long n = 1; more; n++) {
        eitp_memory_info info;
        eitp_error error;
        eitp_status status;
        memset(&info, 0, sizeof info);
        faults_begin(&f);
        f.real.files = prepared_table(files);
        f.fail_allocation = n;
        status = eitp_memory_info_read(&f.host, &info, &error);
        more = faults_end(&f);
        CHECK_THAT(status == (more ? EITP_ERROR_MEMORY : EITP_OK), "allocation %ld: %s", n, eitp_status_name(status));
        CHECK_BYTES(info.usable, more ? 0 : 502 * MIB);
        CHECK(!more || (error.status == EITP_ERROR_MEMORY && *error.message));
    }
}

static void every_allocation_of_processors_may_fail(void) {
    static const prepared files[] = {
        AFFINITY, V2_CGROUP, V2_MOUNT, {"/sys/fs/cgroup/user.slice/job/cpu.max", "150000 100000\n"}, END};
    faults f;
    int more = 1;
    for (long n = 1; more; n++) {
        eitp_processor_info info;
        eitp_error error;
        eitp_status status;
        memset(&info, 0, sizeof info);
        faults_begin(&f);
        f.real.files = prepared_table(files);
        f.fail_allocation = n;
        status = eitp_processor_info_read(&f.host, &info, &error);
        more = faults_end(&f);
        CHECK_THAT(status == (more ? EITP_ERROR_MEMORY : EITP_OK), "allocation %ld: %s", n, eitp_status_name(status));
        CHECK(info.usable == (more ? 0 : 2));
    }
}

/* Values of unreadable files are unknown, all others are known. */
static void every_file_call_may_fail(void) {
    static const prepared files[] = {
        STATUS, MEMINFO, V2_CGROUP, V2_MOUNT, LIMIT_AT("/sys/fs/cgroup/user.slice/job", "536870912\n"), END};
    faults f;
    int more = 1;
    for (long n = 1; more; n++) {
        eitp_memory_info info;
        eitp_error error;
        faults_begin(&f);
        f.real.files = prepared_table(files);
        f.fail_file_call = n;
        CHECK_THAT(eitp_memory_info_read(&f.host, &info, &error) == EITP_OK, "%s", error.message);
        more = faults_end(&f);
        CHECK(info.usable == 502 * MIB || (more && info.usable > 0));
    }
}

static uint64_t budget_of(uint64_t usable) {
    eitp_memory_info info;
    memset(&info, 0, sizeof info);
    info.usable = usable;
    return eitp_memory_budget_default(&info);
}

static void the_budget_leaves_a_margin(void) {
    CHECK_BYTES(budget_of(0), 0);
    CHECK_BYTES(budget_of(1), 1);
    CHECK_BYTES(budget_of(100 * MIB), 50 * MIB);
    CHECK_BYTES(budget_of(128 * MIB), 64 * MIB);
    CHECK_BYTES(budget_of(1000 * MIB), 936 * MIB);
    CHECK_BYTES(budget_of(1280 * MIB), 1216 * MIB);
    CHECK_BYTES(budget_of(20000 * MIB), 19000 * MIB);
    CHECK(budget_of(UINT64_MAX) > UINT64_MAX / 100 * 94);
}

/* `left` is the minimum over all bounds and counts page cache as free. Memory is short if less than half the margin
   is left. */
static void memory_is_short_by_the_lowest_bound(void) {
    static const prepared machine[] = {STATUS, MEMINFO, END};
    static const prepared v2[] = {
        STATUS,
        MEMINFO,
        V2_CGROUP,
        V2_MOUNT,
        {"/sys/fs/cgroup/user.slice/job/memory.max", "1073741824\n"},
        {"/sys/fs/cgroup/user.slice/job/memory.current", "1063256064\n"},
        {"/sys/fs/cgroup/user.slice/job/memory.stat", "inactive_file 10485760\nactive_file 15728640\n"},
        END};
    static const prepared v2_cached[] = {
        STATUS,
        MEMINFO,
        V2_CGROUP,
        V2_MOUNT,
        {"/sys/fs/cgroup/user.slice/job/memory.max", "1073741824\n"},
        {"/sys/fs/cgroup/user.slice/job/memory.current", "1073741824\n"},
        {"/sys/fs/cgroup/user.slice/job/memory.stat", "inactive_file 1048576\nactive_file 52428800\n"},
        END};
    static const prepared full[] = {STATUS, {"/proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 209714 kB\n"}, END};
    static const prepared unknown[] = {STATUS, END};
    eitp_memory_info info = read_prepared(machine);
    CHECK_BYTES(info.left, 6144 * MIB);
    CHECK_BYTES(eitp__memory_floor(&info), 6154 * MIB / 20 / 2);
    CHECK(!eitp_memory_is_short(&info));
    info = read_prepared(v2);
    CHECK_BYTES(info.left, 35 * MIB);
    CHECK_BYTES(info.usable, 30 * MIB);
    CHECK_BYTES(eitp__memory_floor(&info), 15 * MIB / 2);
    CHECK(!eitp_memory_is_short(&info));
    info = read_prepared(v2_cached);
    CHECK_BYTES(info.left, 51 * MIB);
    info = read_prepared(full);
    CHECK_BYTES(info.left, 209714 * (uint64_t)1024);
    CHECK(!eitp_memory_is_short(&info));
    info.left = eitp__memory_floor(&info);
    CHECK(!eitp_memory_is_short(&info));
    info.left--;
    CHECK(eitp_memory_is_short(&info));
    info = read_prepared(unknown);
    CHECK(!eitp_memory_is_short(&info) && !info.left);
}

/* The machine that the test runs on. */
static void this_machine_makes_sense(void) {
    const eitp_host host = eitp_host_default();
    eitp_memory_info info;
    eitp_error error;
    REQUIRE_OK(eitp_memory_info_read(&host, &info, &error), error);
    CHECK(info.peak > 0);
#ifdef __linux__
    CHECK(info.total > 0 && info.available > 0 && info.available <= info.total);
    CHECK(info.resident > 0 && info.resident <= info.total);
    CHECK(info.usable > 0 && info.usable <= info.total);
#endif
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(without_limits_the_machine_is_the_bound),
        TEST(v2_finds_the_limit_of_a_parent),
        TEST(v2_without_limits),
        TEST(a_root_stands_for_the_machine),
        TEST(v2_throttling_is_a_limit),
        TEST(the_group_that_leaves_least_counts),
        TEST(a_limit_above_the_machine_has_no_effect),
        TEST(a_limit_below_the_use_leaves_the_resident_memory),
        TEST(v1_finds_the_limit),
        TEST(v1_reports_a_number_for_no_limit),
        TEST(hybrid_reads_both),
        TEST(containers_map_the_path),
        TEST(affinity_and_quota_limit_processors),
        TEST(without_proc_processors_are_those_online),
        TEST(every_allocation_of_processors_may_fail),
        TEST(without_proc_little_is_known),
        TEST(malformed_values_are_unknown),
        TEST(a_mount_without_a_point_is_ignored),
        TEST(long_paths_are_ignored),
        TEST(limits_of_the_process_are_bounds),
        TEST(every_allocation_may_fail),
        TEST(every_file_call_may_fail),
        TEST(the_budget_leaves_a_margin),
        TEST(memory_is_short_by_the_lowest_bound),
        TEST(this_machine_makes_sense),
    };
    return RUN_TESTS(tests, argc, argv);
}
