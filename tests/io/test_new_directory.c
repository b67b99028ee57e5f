/* Directories that appear complete or not at all: faults and kills at every file call, links, and two processes. */
#include "tests/support/everything.h"

#include "base/files.h"

#include "tests/support/faults.h"

#include <sys/stat.h>
#include <sys/wait.h>

enum { MOST_CALLS = 1000 };

/* Initial states: directory and parent missing, directory empty, or directory with a user's file. */
typedef enum beginning { MISSING, EMPTY, NOT_EMPTY, INITIAL_STATES } beginning;

static char directory[512];

static eitp_host plain_host(void) {
    eitp_host host = eitp_host_default();
    faults_do_not_sync(&host);
    return host;
}

static void begin_faults(faults *f) {
    const eitp_host host = plain_host();
    faults_begin_on(f, &host);
}

static const char *in(const char *name) {
    return scratch_path(directory, name);
}

static int is_there(const char *name) {
    struct stat info;
    return !lstat(in(name), &info);
}

static int holds(const char *name, const char *text) {
    char bytes[64];
    FILE *file = fopen(in(name), "rb");
    const size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (file)
        fclose(file);
    return file && size == strlen(text) && !memcmp(bytes, text, size);
}

static void put(const char *name, const char *text) {
    FILE *file = fopen(in(name), "wb");
    CHECK(file && fputs(text, file) >= 0 && !fclose(file));
}

/* ---- Creating "parent/made" ---- */

static const char *const names[] = {"key", "list"};

static eitp_status fill(void *user, const char *path, eitp_error *error) {
    static const char *const files[] = {"extra", "list", "key", "sub/inner"};
    const eitp_host *host = (const eitp_host *)user;
    eitp_status status = eitp__make_directories(host, scratch_path(path, "sub"), error);
    for (int i = 0; i < 4 && !status; i++)
        status = eitp__write_file(host, scratch_path(path, files[i]), files[i], strlen(files[i]), error);
    return status ? status : eitp__sync_directory(host, scratch_path(path, "sub"), error);
}

static eitp_directory_config configuration(const eitp_host *host) {
    eitp_directory_config config = eitp_directory_config_default();
    config.fill = fill;
    config.user = (void *)(uintptr_t)host;
    config.names = names;
    config.name_count = EITP__COUNT(names);
    return config;
}

static eitp_status create(const eitp_host *host, eitp_error *error) {
    const eitp_directory_config config = configuration(host);
    return eitp_directory_create(host, in("parent/made"), &config, error);
}

static int is_whole(void) {
    return holds("parent/made/key", "key") && holds("parent/made/list", "list") &&
           holds("parent/made/extra", "extra") && holds("parent/made/sub/inner", "sub/inner");
}

static int has_leftover(void) {
    return is_there("parent/.made.partial") || is_there("parent/.made.replaced") ||
           is_there("parent/made/.eitp.partial");
}

static void begin(beginning kind) {
    const eitp_host host = plain_host();
    CHECK(!eitp__remove_tree(&host, in("parent"), NULL));
    if (kind != MISSING)
        CHECK(!mkdir(in("parent"), 0777) && !mkdir(in("parent/made"), 0777));
    if (kind == NOT_EMPTY)
        put("parent/made/notes", "of the user");
}

/* True if the initial state is unchanged. */
static int is_as_before(beginning kind) {
    if (kind == MISSING)
        return !is_there("parent");
    return !has_leftover() && !is_there("parent/made/key") && !is_there("parent/made/list") &&
           !is_there("parent/made/extra") && !is_there("parent/made/sub") &&
           (kind == EMPTY || holds("parent/made/notes", "of the user"));
}

/* Files that are required for loading come after all others. */
static int is_half_made(void) {
    const int others = is_there("parent/made/extra") && is_there("parent/made/sub/inner");
    return (is_there("parent/made/key") && !others) ||
           (is_there("parent/made/list") && !(others && is_there("parent/made/key")));
}

static void check_created(beginning kind, const char *what) {
    CHECK_THAT(is_whole() && !has_leftover(), "%s, %d", what, (int)kind);
    CHECK_THAT(kind != NOT_EMPTY || holds("parent/made/notes", "of the user"), "%s", what);
}

static void creates_a_directory_with_its_parents(void) {
    for (int kind = 0; kind < INITIAL_STATES; kind++) {
        const eitp_host host = plain_host();
        eitp_error error;
        begin((beginning)kind);
        REQUIRE_OK(create(&host, &error), error);
        check_created((beginning)kind, "created");
    }
}

static void a_failing_file_call_leaves_nothing(void) {
    static const int codes[] = {EIO, ENOSPC, EINTR};
    for (int kind = 0; kind < INITIAL_STATES; kind++) {
        for (long n = 1; n < MOST_CALLS; n++) {
            faults f;
            eitp_error error;
            eitp_status status;
            begin((beginning)kind);
            begin_faults(&f);
            f.fail_file_call = n;
            f.code = codes[n % 3];
            status = create(&f.host, &error);
            if (status)
                CHECK_THAT(is_as_before((beginning)kind), "initial state %d, call %ld: %s", kind, n, f.failed_call);
            else
                CHECK_THAT(is_whole() && !has_leftover(), "initial state %d, call %ld: %s", kind, n, f.failed_call);
            if (status)
                REQUIRE_OK(create(&f.real, &error), error);
            if (!faults_end(&f))
                break;
        }
    }
}

static void a_failing_allocation_leaves_nothing(void) {
    for (int kind = 0; kind < INITIAL_STATES; kind++) {
        for (long n = 1; n < MOST_CALLS; n++) {
            faults f;
            eitp_error error;
            begin((beginning)kind);
            begin_faults(&f);
            f.fail_allocation = n;
            if (create(&f.host, &error))
                CHECK_THAT(is_as_before((beginning)kind), "initial state %d, allocation %ld", kind, n);
            if (!faults_end(&f))
                break;
        }
    }
}

/* ---- Killed processes ---- */

/* Creates the directory in a process that ends at file call n. Returns 0 if there is no such call. */
static int create_killed(long n) {
    int status = 0;
    pid_t child;
    fflush(stdout);
    child = fork();
    if (!child) {
        faults f;
        eitp_error error;
        begin_faults(&f);
        f.fail_file_call = n;
        f.exits = 1;
        status = create(&f.host, &error);
        if (status)
            fprintf(stderr, "%s\n", error.message);
        _exit(status != 0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK_THAT(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == FAULTS_EXIT, "call %ld: exit status %d", n,
               WEXITSTATUS(status));
    return WEXITSTATUS(status) == FAULTS_EXIT;
}

static void a_killed_process_is_repeated(void) {
    for (int kind = 0; kind < INITIAL_STATES; kind++) {
        long kills = 0;
        for (long n = 1; n < MOST_CALLS; n++, kills++) {
            const eitp_host host = plain_host();
            eitp_error error;
            begin((beginning)kind);
            if (!create_killed(n))
                break;
            CHECK_THAT(!is_half_made(), "initial state %d, killed at call %ld", kind, n);
            CHECK_THAT(kind != MISSING || !is_there("parent/made") || is_whole(), "killed at call %ld", n);
            /* A second kill in the middle of the repetition, and a failing repetition. */
            if (n % 3 == 0 && (has_leftover() || !is_whole()) && create_killed(n / 2 + 1))
                CHECK_THAT(!is_half_made(), "initial state %d, killed twice, at call %ld", kind, n);
            if (n % 2 == 0 && has_leftover()) {
                faults f;
                begin_faults(&f);
                f.fail_file_call = n / 2 + 10;
                create(&f.host, &error);
                faults_end(&f);
                CHECK_THAT(!is_half_made(), "initial state %d, killed at call %ld, then a fault", kind, n);
            }
            if (!is_whole() || has_leftover())
                REQUIRE_OK(create(&host, &error), error);
            check_created((beginning)kind, "after a kill");
        }
        CHECK_THAT(kills > 20, "%ld kills", kills);
    }
}

/* ---- Concurrent changes ---- */

static eitp_status second_status;
static char second_message[600];

static eitp_status fill_while_another_begins(void *user, const char *path, eitp_error *error) {
    eitp_error second;
    second_status = create((const eitp_host *)user, &second);
    snprintf(second_message, sizeof second_message, "%s", second.message);
    return fill(user, path, error);
}

static void two_at_a_time_do_not_destroy_each_other(void) {
    for (int kind = 0; kind < INITIAL_STATES; kind++) {
        const eitp_host host = plain_host();
        eitp_directory_config config = configuration(&host);
        eitp_error error;
        begin((beginning)kind);
        config.fill = fill_while_another_begins;
        REQUIRE_OK(eitp_directory_create(&host, in("parent/made"), &config, &error), error);
        CHECK(second_status == EITP_ERROR_ARGUMENT);
        CHECK_THAT(strstr(second_message, "another process is writing to '"), "%s", second_message);
        check_created((beginning)kind, "with another one");
    }
}

static eitp_status fill_while_it_appears(void *user, const char *path, eitp_error *error) {
    CHECK(!mkdir(in("parent/made"), 0777));
    put("parent/made/notes", "of the user");
    return fill(user, path, error);
}

static void concurrently_created_files_stay(void) {
    const eitp_host host = plain_host();
    eitp_directory_config config = configuration(&host);
    eitp_error error;
    begin(MISSING);
    config.fill = fill_while_it_appears;
    CHECK(eitp_directory_create(&host, in("parent/made"), &config, &error) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error.message, "another process created"), "%s", error.message);
    CHECK(is_as_before(NOT_EMPTY) && !has_leftover());
}

static void links_are_not_followed(void) {
    static const char *const hidden[] = {"parent/.made.partial", "parent/made/.eitp.partial"};
    for (int inside = 0; inside < 2; inside++) {
        const eitp_host host = plain_host();
        eitp_error error;
        begin(inside ? EMPTY : MISSING);
        mkdir(in("precious"), 0777);
        put("precious/notes", "of the user");
        if (!inside)
            REQUIRE(!mkdir(in("parent"), 0777));
        REQUIRE(!symlink(in("precious"), in(hidden[inside])));
        REQUIRE_OK(create(&host, &error), error);
        check_created(inside ? EMPTY : MISSING, "instead of a link");
        CHECK(holds("precious/notes", "of the user") && !is_there("precious/key"));
    }
}

static void a_link_to_a_directory_stays(void) {
    const eitp_host host = plain_host();
    eitp_error error;
    begin(EMPTY);
    REQUIRE(!rename(in("parent/made"), in("parent/target")) && !symlink("target", in("parent/made")));
    REQUIRE_OK(create(&host, &error), error);
    CHECK(is_whole() && holds("parent/target/key", "key") && !has_leftover());
}

/* ---- Refused paths ---- */

static eitp_status must_not_fill(void *user, const char *path, eitp_error *error) {
    (void)user, (void)path, (void)error;
    CHECK(!"filled");
    return EITP_OK;
}

static void nothing_of_the_user_is_replaced(void) {
    const eitp_host host = plain_host();
    eitp_directory_config config = configuration(&host);
    eitp_error error;
    begin(EMPTY);
    put("parent/made/list", "of the user");
    config.fill = must_not_fill;
    CHECK(eitp_directory_create(&host, in("parent/made"), &config, &error) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error.message, "already has list; choose another directory"), "%s", error.message);
    CHECK(holds("parent/made/list", "of the user") && !has_leftover());
    begin(EMPTY);
    put("parent/made/extra", "of the user");
    CHECK(create(&host, &error) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error.message, "already has extra"), "%s", error.message);
    CHECK(holds("parent/made/extra", "of the user") && !is_there("parent/made/sub") && !has_leftover());
    begin(MISSING);
    put("parent", "of the user");
    CHECK(create(&host, &error) == EITP_ERROR_ARGUMENT && holds("parent", "of the user"));
    CHECK_THAT(strstr(error.message, in("parent/made")), "%s", error.message);
    remove(in("parent"));
    REQUIRE(!mkdir(in("parent"), 0777) && !symlink("nowhere", in("parent/made")));
    CHECK(create(&host, &error) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error.message, "dangling symbolic link"), "%s", error.message);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(creates_a_directory_with_its_parents),
        TEST(a_failing_file_call_leaves_nothing),
        TEST(a_failing_allocation_leaves_nothing),
        TEST(a_killed_process_is_repeated),
        TEST(two_at_a_time_do_not_destroy_each_other),
        TEST(concurrently_created_files_stay),
        TEST(links_are_not_followed),
        TEST(a_link_to_a_directory_stays),
        TEST(nothing_of_the_user_is_replaced),
    };
    int failed;
    if (!scratch_make(directory)) {
        printf("cannot create a directory for the test's files\n");
        return 1;
    }
    failed = RUN_TESTS(tests, argc, argv);
    scratch_remove(directory);
    return failed;
}
