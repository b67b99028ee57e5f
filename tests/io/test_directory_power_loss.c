/*
 * Directories that appear complete or not at all. Power is lost at every change that creating one makes to the disk,
 * also after a call has failed, and again while the creation is repeated with different contents. No matter which
 * unsynced changes the disk kept, no file that is required for loading exists before the other files of its version,
 * and the next call succeeds.
 *   EITP_TEST_QUICK   fewer of them
 */
#include "tests/support/everything.h"

#include "base/files.h"

#include "tests/support/faults.h"
#include "tests/support/simulated_disk.h"

enum { MOST_CALLS = 1000, MOST_FAILURES = 20, LONGEST = 24, LONGEST_PATH = 100 };

/* Initial states: directory and parent missing, directory empty, or directory with a user's file. */
typedef enum beginning { MISSING, EMPTY, NOT_EMPTY, INITIAL_STATES } beginning;

/* In the order of their appearance. Files after the second are configuration files. */
static const char *const files[] = {"extra", "sub/inner", "key", "list"};

static eitp_host host_of(disk *d) {
    eitp_host host = eitp_host_default();
    host.files = disk_files(d);
    return host;
}

/* Returns the path of a name in a directory. */
static const char *in(const char *directory, const char *name, char path[LONGEST_PATH]) {
    snprintf(path, LONGEST_PATH, "%s/%s", directory, name);
    return path;
}

/* ---- Creating "parent/made" ---- */

/* The version to write: the content of every file. */
typedef struct version {
    const eitp_host *host;
    char content[LONGEST];
} version;

static eitp_status fill(void *user, const char *path, eitp_error *error) {
    const version *v = (const version *)user;
    char inner[LONGEST_PATH];
    eitp_status status = eitp__make_directories(v->host, in(path, "sub", inner), error);
    for (int i = 3; i >= 0 && !status; i--)
        status = eitp__write_file(v->host, in(path, files[i], inner), v->content, strlen(v->content), error);
    return status ? status : eitp__sync_directory(v->host, in(path, "sub", inner), error);
}

static eitp_status create(const eitp_host *host, int number, eitp_error *error) {
    eitp_directory_config config = eitp_directory_config_default();
    version v;
    v.host = host;
    snprintf(v.content, sizeof v.content, "content %d", number);
    config.fill = fill;
    config.user = &v;
    config.names = files + 2;
    config.name_count = 2;
    return eitp_directory_create(host, "parent/made", &config, error);
}

static void begin(disk *d, beginning kind) {
    disk_begin(d);
    if (kind == NOT_EMPTY)
        disk_install(d, "parent/made/notes", "of the user", 11);
    if (kind == EMPTY) {
        disk_make_directory(d, "parent");
        disk_make_directory(d, "parent/made");
        disk_sync_directory(d, "");
        disk_sync_directory(d, "parent");
    }
}

/* ---- Checks ---- */

/* Reads the content of a file in "parent/made"; "" if the file does not exist. */
static void content_of(disk *d, const char *name, char content[LONGEST]) {
    char path[LONGEST_PATH];
    size_t done = 0;
    void *file;
    memset(content, 0, LONGEST);
    if (disk_open(d, in("parent/made", name, path), EITP_FILE_READ, &file))
        return;
    disk_read(d, file, 0, content, LONGEST - 1, &done);
    disk_close(d, file);
    if (!done)
        strcpy(content, "(empty)");
}

static int is_missing(disk *d, const char *path) {
    eitp_path_info info;
    return !disk_info(d, path, &info) && info.kind == EITP_PATH_MISSING;
}

/* True if a configuration file exists, but an earlier file is missing or has other content. */
static int is_half_made(disk *d) {
    char content[4][LONGEST];
    for (int i = 0; i < 4; i++)
        content_of(d, files[i], content[i]);
    for (int i = 2; i < 4; i++) {
        for (int k = 0; k < i && *content[i]; k++) {
            if (strcmp(content[k], content[i]))
                return 1;
        }
    }
    return 0;
}

static int is_whole(disk *d, int number) {
    char content[LONGEST], expected[LONGEST];
    snprintf(expected, sizeof expected, "content %d", number);
    content_of(d, "list", content);
    return !strcmp(content, expected) && !is_half_made(d) && is_missing(d, "parent/.made.partial") &&
           is_missing(d, "parent/.made.replaced") && is_missing(d, "parent/made/.eitp.partial");
}

static int has_notes(disk *d) {
    char content[LONGEST];
    content_of(d, "notes", content);
    return !strcmp(content, "of the user");
}

/* ---- Power loss ---- */

typedef struct outage {
    beginning kind;
    int number; /* of the content that is written; a repetition writes the next number */
    long changes, stride, seeds;
    long *states;
    char what[200];
} outage;

static void watch(disk *d, outage *o);

/* True if the directory is complete in some version without leftovers, so creating it again is refused. */
static int is_finished(disk *d, const outage *o) {
    for (int number = 1; number <= o->number; number++) {
        if (is_whole(d, number))
            return 1;
    }
    return 0;
}

/* Repeats the creation on the remaining disk, with other content. */
static void repeat(disk *left, const outage *lost, const char *what) {
    const eitp_host host = host_of(left);
    eitp_error error;
    eitp_status status;
    outage again = *lost;
    const int number = is_finished(left, lost) ? 0 : lost->number + 1;
    CHECK_THAT(!is_half_made(left), "initial state %d, %s", (int)lost->kind, what);
    CHECK_THAT(lost->kind != NOT_EMPTY || has_notes(left), "initial state %d, %s", (int)lost->kind, what);
    if (!number)
        return;
    again.changes = 0;
    again.number = number;
    again.stride = getenv("EITP_TEST_QUICK") ? 11 : 3;
    again.seeds = 1;
    snprintf(again.what, sizeof again.what, "%.180s, then ", what);
    if (number < 3)
        watch(left, &again);
    status = create(&host, number, &error);
    left->before_change = NULL;
    CHECK_THAT(!status, "initial state %d, %s: %s", (int)lost->kind, what, error.message);
    CHECK_THAT(status || is_whole(left, number), "initial state %d, %s", (int)lost->kind, what);
}

static void lose_power(const disk *d, const outage *o, const char *at) {
    for (int loss = 0; loss < DISK_LOSSES; loss++) {
        const long seeds = loss < DISK_LOSE_TAIL ? 1 : o->seeds;
        for (long seed = 0; seed < seeds && test_failures_ < MOST_FAILURES; seed++) {
            disk left;
            char what[200];
            disk_crash(&left, d, (disk_loss)loss, (uint64_t)(o->changes * 1000 + seed));
            snprintf(what, sizeof what, "%.100s%s %ld, loss %d, seed %ld", o->what, at, o->changes, loss, seed);
            ++*o->states;
            repeat(&left, o, what);
            disk_end(&left);
        }
    }
}

static void before_change(void *user, const disk *d) {
    outage *o = (outage *)user;
    if (o->changes++ % o->stride == 0)
        lose_power(d, o, "change");
}

static void watch(disk *d, outage *o) {
    d->before_change = before_change;
    d->user = o;
}

static outage begin_outage(beginning kind, long seeds, long *states) {
    outage o;
    memset(&o, 0, sizeof o);
    o.kind = kind;
    o.number = 1;
    o.stride = 1;
    o.seeds = seeds;
    o.states = states;
    return o;
}

static void a_power_loss_leaves_nothing_half_made(void) {
    long states = 0;
    for (int kind = 0; kind < INITIAL_STATES; kind++) {
        disk d;
        const eitp_host host = host_of(&d);
        outage o = begin_outage((beginning)kind, 6, &states);
        eitp_error error;
        begin(&d, (beginning)kind);
        watch(&d, &o);
        REQUIRE_OK(create(&host, 1, &error), error);
        d.before_change = NULL;
        CHECK(o.changes > 10);
        /* The created directory is durable. */
        for (int loss = 0; loss < DISK_LOSSES; loss++) {
            disk left;
            disk_crash(&left, &d, (disk_loss)loss, (uint64_t)kind);
            CHECK_THAT(is_whole(&left, 1), "initial state %d, loss %d after the end", kind, loss);
            disk_end(&left);
        }
        disk_end(&d);
    }
    printf("%ld power losses\n", states);
}

static void nor_does_one_after_a_failing_call(void) {
    long states = 0;
    for (int kind = 0; kind < INITIAL_STATES; kind++) {
        for (long n = 1; n < MOST_CALLS && test_failures_ < MOST_FAILURES; n++) {
            disk d;
            const eitp_host host = host_of(&d);
            outage o = begin_outage((beginning)kind, 1, &states);
            faults f;
            eitp_error error;
            int failed;
            begin(&d, (beginning)kind);
            faults_begin_on(&f, &host);
            f.fail_file_call = n;
            f.code = EIO;
            o.stride = getenv("EITP_TEST_QUICK") ? 7 : 2;
            snprintf(o.what, sizeof o.what, "call %ld failed, ", n);
            watch(&d, &o);
            create(&f.host, 1, &error);
            lose_power(&d, &o, "the end, after change");
            d.before_change = NULL;
            failed = faults_end(&f);
            disk_end(&d);
            if (!failed)
                break;
        }
    }
    printf("%ld power losses\n", states);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(a_power_loss_leaves_nothing_half_made),
        TEST(nor_does_one_after_a_failing_call),
    };
    return RUN_TESTS(tests, argc, argv);
}
