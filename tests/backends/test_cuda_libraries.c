/*
 * The search for libraries of the CUDA toolkit, and the messages if none can be used. The library has a name that no
 * system has. Its files are copies of a library that this program uses.
 */
#include "backends/cuda/libraries.h"

#include "tests/support/everything.h"
#include "tests/support/faults.h"

#include <dlfcn.h>

#define NAME "eitp_absent"
#define PACKAGE "nvidia-absent"
#define FILE_NAME "lib" NAME ".so."

static char scratch[512], folder[600], some_library[512];

/* Finds the file of a library that can be opened: one that is open. */
static int find_some_library(void) {
    void *library = dlopen("libm.so.6", RTLD_NOW);
    FILE *maps = library ? fopen("/proc/self/maps", "r") : NULL;
    char line[1024];
    while (maps && !*some_library && fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        if (path && strstr(path, "/libm.so")) {
            path[strcspn(path, "\n")] = 0;
            snprintf(some_library, sizeof some_library, "%s", path);
        }
    }
    if (maps)
        fclose(maps);
    return *some_library;
}

/* Returns a path in the test's folder, valid until eight more calls. */
static const char *in_folder(const char *name) {
    return scratch_path(folder, name);
}

/* Sets an environment in which the library is nowhere. */
static void clear_places(void) {
    static const char *const unset[] = {"CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "VIRTUAL_ENV"};
    for (size_t i = 0; i < EITP__COUNT(unset); i++)
        unsetenv(unset[i]);
    setenv("HOME", in_folder("home"), 1);
    setenv("PATH", in_folder("bin"), 1);
}

/* Starts a test in an empty current directory, "here". Its paths are unique: the loader does not open a path again. */
static void start(void) {
    static int count;
    const eitp_host host = eitp_host_default();
    eitp_error error = EITP__ZERO;
    CHECK(scratch_make(scratch));
    snprintf(folder, sizeof folder, "%s/%d", scratch, count++);
    CHECK(!eitp__make_directories(&host, in_folder("here"), &error) && !chdir(in_folder("here")));
    clear_places();
}

static void end(void) {
    CHECK(!chdir("/"));
    scratch_remove(scratch);
}

/* Writes a file of the library, or one that cannot be opened, in a folder, and returns its path. */
static const char *put_file(const char *in, const char *version, int is_whole) {
    const eitp_host host = eitp_host_default();
    const char *directory = in_folder(in), *path;
    eitp_error error = EITP__ZERO;
    eitp__buffer content;
    char name[64];
    snprintf(name, sizeof name, FILE_NAME "%s", version);
    path = scratch_path(directory, name);
    eitp__buffer_init(&content, &host);
    if (is_whole)
        CHECK_THAT(!eitp__read_file(&host, some_library, SIZE_MAX, &content, &error), "%s", error.message);
    else
        eitp__buffer_add_text(&content, "not a library");
    CHECK_THAT(!eitp__make_directories(&host, directory, &error) &&
                   !eitp__write_file(&host, path, content.data, content.size, &error),
               "%s: %s", path, error.message);
    eitp__buffer_release(&content);
    return path;
}

static const char *message(int driver_version) {
    static char reason[540];
    const eitp_host host = eitp_host_default();
    strcpy(reason, "found");
    if (!eitp__cuda_open_library(&host, NAME, PACKAGE, driver_version, reason, sizeof reason))
        CHECK(strcmp(reason, "found") != 0);
    return reason;
}

static int is_found(int driver_version) {
    return !strcmp(message(driver_version), "found");
}

/* Creates a link, and the folder that it is in. */
static void link_to(const char *target, const char *in, const char *name) {
    const eitp_host host = eitp_host_default();
    eitp_error error = EITP__ZERO;
    CHECK_THAT(!eitp__make_directories(&host, in_folder(in), &error), "%s", error.message);
    CHECK(!symlink(target, scratch_path(in_folder(in), name)));
}

/* ---- Places ---- */

#define WHEEL_12 "/lib/python3.12/site-packages/nvidia/" NAME "/lib"
#define WHEEL_13 "/lib/python3.11/site-packages/nvidia/cu13/lib"

static void wheels_of_cuda_12_and_13(void) {
    start();
    setenv("VIRTUAL_ENV", in_folder("environment"), 1);
    put_file("environment" WHEEL_13, "13", 1);
    CHECK(is_found(13000) && !is_found(12040));
    put_file("environment" WHEEL_12, "12", 1);
    CHECK(is_found(13000) && is_found(12040) && !is_found(11080));
    end();
}

/* The newest version that the driver can use, also if another place has an older one. */
static void the_newest_usable_version(void) {
    start();
    setenv("VIRTUAL_ENV", in_folder("environment"), 1);
    put_file("environment" WHEEL_12, "12", 1);
    put_file("home/.local" WHEEL_13, "13", 0);
    put_file("home/.local" WHEEL_13, "14", 0);
    CHECK(is_found(13000)); /* 13 cannot be opened */
    CHECK(!remove(scratch_path(in_folder("environment" WHEEL_12), FILE_NAME "12")));
    CHECK_THAT(strstr(message(13000), FILE_NAME "13: "), "%s", message(13000));
    end();
}

/* A place, and the folder of its library. */
typedef struct place {
    const char *variable, *value, *library;
} place;

/* In the documented order: each is found before all later ones. */
static void places_are_searched_in_order(void) {
    static const place places[] = {
        {"CUDA_HOME", "toolkit", "toolkit/lib64"},
        {"CUDA_PATH", "other_toolkit", "other_toolkit/lib64"},
        {"CONDA_PREFIX", "conda", "conda/lib"},
        {"VIRTUAL_ENV", "environment", "environment" WHEEL_13},
        {NULL, NULL, "conda" WHEEL_13},
        {NULL, NULL, "here/.venv" WHEEL_13},
        {NULL, NULL, "here/venv/lib64/python3/dist-packages/nvidia/cu13/lib"},
        {NULL, NULL, "program" WHEEL_13},      /* PATH leads to program/bin, in a virtual environment */
        {NULL, NULL, "installation" WHEEL_13}, /* whose python3 links to this one */
        {NULL, NULL, "home/.local" WHEEL_13},
    };
    char path[1200];
    start();
    put_file("installation/bin", "python", 0);
    link_to("../../installation/bin/" FILE_NAME "python", "program/bin", "python3");
    snprintf(path, sizeof path, "%s:%s", in_folder("bin"), in_folder("program/bin"));
    setenv("PATH", path, 1);
    for (size_t i = 0; i < EITP__COUNT(places); i++) {
        if (places[i].variable)
            setenv(places[i].variable, in_folder(places[i].value), 1);
        put_file(places[i].library, "13", 0);
    }
    for (size_t i = 0; i < EITP__COUNT(places); i++) {
        const char *below = strncmp(places[i].library, "here/", 5) ? places[i].library : places[i].library + 5;
        CHECK_THAT(strstr(message(13000), below), "not %s first: %s", places[i].library, message(13000));
        CHECK(!remove(scratch_path(in_folder(places[i].library), FILE_NAME "13")));
    }
    end();
}

static void each_place_suffices(void) {
    static const char *const places[] = {"here/.venv" WHEEL_13, "here/venv" WHEEL_13, "home/.local" WHEEL_13,
                                         "python" WHEEL_13};
    for (size_t i = 0; i < EITP__COUNT(places); i++) {
        start();
        put_file("python/bin", "python", 0);
        link_to(FILE_NAME "python", "python/bin", "python3");
        setenv("PATH", in_folder("python/bin"), 1);
        put_file(places[i], "13", 1);
        CHECK_THAT(is_found(13000), "%s: %s", places[i], message(13000));
        end();
    }
}

/* ---- Messages ---- */

static void check_message(int driver_version, const char *expected) {
    CHECK_THAT(strstr(message(driver_version), expected), "not '%s' in '%s'", expected, message(driver_version));
}

static void the_package_is_the_one_of_the_driver(void) {
    start();
    check_message(12040, FILE_NAME "12 is not in the system's libraries, below CUDA_HOME, or in a Python's packages; "
                                   "install the CUDA 12 toolkit, or run: pip install " PACKAGE "-cu12");
    check_message(13000, "; install the CUDA 13 toolkit, or run: pip install '" PACKAGE "<14'");
    check_message(14020, "; install the CUDA 14 toolkit, or run: pip install '" PACKAGE "<15'");
    check_message(11080, "the NVIDIA driver has CUDA 11.8; install one of CUDA 12 or later");
    end();
}

static void versions_that_cannot_be_used_are_named(void) {
    char expected[1200];
    start();
    snprintf(expected, sizeof expected, "; found %s, which needs a driver of CUDA 13 (this one has CUDA 12.4); install",
             put_file("home/.local" WHEEL_13, "13", 1));
    check_message(12040, expected);
    check_message(12040, "pip install " PACKAGE "-cu12");
    setenv("CUDA_HOME", in_folder("toolkit"), 1);
    snprintf(expected, sizeof expected, "; found %s, which is older than CUDA 12; install",
             put_file("toolkit/lib64", "11.2", 1));
    check_message(12040, expected);
    end();
}

static void a_library_that_cannot_be_opened_says_why(void) {
    char expected[1200];
    start();
    snprintf(expected, sizeof expected, "cannot open %s: ", put_file("home/.local" WHEEL_13, "13", 0));
    check_message(13000, expected);
    check_message(13000, "; install the CUDA 13 toolkit");
    end();
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(wheels_of_cuda_12_and_13),
        TEST(the_newest_usable_version),
        TEST(places_are_searched_in_order),
        TEST(each_place_suffices),
        TEST(the_package_is_the_one_of_the_driver),
        TEST(versions_that_cannot_be_used_are_named),
        TEST(a_library_that_cannot_be_opened_says_why),
    };
    if (!find_some_library()) {
        printf("no libm.so.6 is open\n0 passed, 1 failed\n");
        return 1;
    }
    return RUN_TESTS(tests, argc, argv);
}
