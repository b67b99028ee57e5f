/*
 * A process is killed at every file call of a whole run, of its starts, saves and prunes, and once more while it
 * resumes. Every checkpoint left behind is complete, no step reported as saved is lost, and the resumed run ends with
 * the bits of an undisturbed one and leaves nothing over.
 *
 *   EITP_TEST_STRIDE  kills at every n-th file call; 1: at all of them
 */
#include "tests/support/whole_run.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_FAILURES = 20 };

/* The system's files, without the calls that matter only for power losses, and with another /proc. */
typedef struct place {
    eitp_files system;
    char directory[512];
    long calls, kill_at; /* file calls so far, and the one at which the process is killed; 0: none */
    int kills_within;    /* in the middle of the call, if it is a write */
} place;

static void count_call(place *p) {
    const long number = __atomic_add_fetch(&p->calls, 1, __ATOMIC_RELAXED);
    if (number == p->kill_at && !p->kills_within)
        raise(SIGKILL);
}

static int place_open(void *user, const char *path, eitp_file_mode mode, void **file) {
    place *p = (place *)user;
    count_call(p);
    if (!strncmp(path, "/proc/", 6) || !strncmp(path, "/sys/", 5))
        path = scratch_path(p->directory, strcmp(path, "/proc/meminfo") ? strrchr(path, '/') + 1 : "meminfo");
    return p->system.open(p->system.user, path, mode, file);
}

static int place_close(void *user, void *file) {
    place *p = (place *)user;
    count_call(p);
    return p->system.close(p->system.user, file);
}

static int place_resize(void *user, void *file, uint64_t size) {
    place *p = (place *)user;
    count_call(p);
    return p->system.resize(p->system.user, file, size);
}

static int place_write(void *user, void *file, uint64_t offset, const void *data, size_t size, size_t *done) {
    place *p = (place *)user;
    count_call(p);
    if (p->calls == p->kill_at && p->kills_within) {
        p->system.write(p->system.user, file, offset, data, (size + 1) / 2, done);
        raise(SIGKILL);
    }
    return p->system.write(p->system.user, file, offset, data, size, done);
}

static int place_sync(void *user, void *file) {
    (void)file;
    count_call((place *)user);
    return 0;
}

static int place_make_directory(void *user, const char *path) {
    place *p = (place *)user;
    count_call(p);
    return p->system.make_directory(p->system.user, path);
}

static int place_sync_directory(void *user, const char *path) {
    (void)path;
    count_call((place *)user);
    return 0;
}

static int place_rename(void *user, const char *from, const char *to) {
    place *p = (place *)user;
    count_call(p);
    return p->system.rename(p->system.user, from, to);
}

static int place_exchange(void *user, const char *a, const char *b) {
    place *p = (place *)user;
    count_call(p);
    return p->system.exchange(p->system.user, a, b);
}

static int place_remove(void *user, const char *path) {
    place *p = (place *)user;
    count_call(p);
    return p->system.remove(p->system.user, path);
}

static int place_list(void *user, const char *path, int (*visit)(void *visitor, const char *name), void *visitor) {
    place *p = (place *)user;
    count_call(p);
    return p->system.list(p->system.user, path, visit, visitor);
}

static int place_link(void *user, const char *target, const char *path) {
    place *p = (place *)user;
    count_call(p);
    return p->system.link(p->system.user, target, path);
}

static int place_lock(void *user, const char *path, void **lock) {
    place *p = (place *)user;
    count_call(p);
    return p->system.lock(p->system.user, path, lock);
}

static int put_file(const place *p, const char *name, const char *text) {
    FILE *file = fopen(scratch_path(p->directory, name), "wb");
    if (!file)
        return 0;
    fputs(text, file);
    return !fclose(file);
}

static void set_memory(void *user, int is_short) {
    put_file((const place *)user, "meminfo", is_short ? whole_short_ : whole_plenty_);
}

/* The system's functions ignore `user`, so those that are not replaced still work. */
static void begin_whole(place *p, const whole_variant *variant, whole *w) {
    memset(w, 0, sizeof *w);
    w->variant = variant;
    w->host = eitp_host_default();
    w->host.files.user = p;
    w->host.files.open = place_open;
    w->host.files.close = place_close;
    w->host.files.resize = place_resize;
    w->host.files.write = place_write;
    w->host.files.sync = place_sync;
    w->host.files.make_directory = place_make_directory;
    w->host.files.sync_directory = place_sync_directory;
    w->host.files.rename = place_rename;
    w->host.files.remove = place_remove;
    w->host.files.list = place_list;
    w->host.files.link = place_link;
    w->host.files.exchange = variant->exchanges ? place_exchange : NULL;
    w->host.files.lock = place_lock;
    w->directory = p->directory;
    w->committed = w->resumed = -1;
    w->set_memory = set_memory;
    w->user = p;
    p->calls = p->kill_at = 0;
}

static int begin_place(place *p) {
    char text[600], tokens[600];
    const char *path = text;
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer = NULL;
    eitp_pack_config pack = eitp_pack_config_default();
    eitp_error error;
    eitp_status status;
    memset(p, 0, sizeof *p);
    p->system = host.files;
    if (!scratch_make(p->directory) || !put_file(p, "text.txt", whole_text_) || !put_file(p, "status", whole_status_))
        return 0;
    set_memory(p, 0);
    snprintf(text, sizeof text, "%s/text.txt", p->directory);
    snprintf(tokens, sizeof tokens, "%s/text.tokens", p->directory);
    pack.texts.paths = &path;
    pack.texts.path_count = 1;
    status = eitp_tokenizer_create_bytes(&host, &tokenizer, &error);
    if (!status)
        status = eitp_pack(&host, tokenizer, &pack, tokens, NULL, &error);
    eitp_tokenizer_destroy(tokenizer);
    CHECK_THAT(!status, "%s", error.message);
    return !status;
}

/* Runs, or resumes, in another process that is killed at a file call. Returns 0 if it ended before. */
static int train_killed(place *p, const whole_variant *variant, long call, int within, int resumes,
                        int64_t *committed) {
    int status = 0;
    pid_t child;
    fflush(stdout);
    child = fork();
    if (!child) {
        whole w;
        begin_whole(p, variant, &w);
        p->kill_at = call;
        p->kills_within = within;
        w.committed = *committed;
        w.shared = committed;
        if (!(resumes ? whole_train(&w, 0) : whole_train_both(&w)))
            _exit(0);
        fprintf(stderr, "%s\n", w.message);
        _exit(1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return 1;
    CHECK_THAT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "call %ld: the run failed", call);
    return 0;
}

static void kill_at_every_file_call(const whole_variant *variant) {
    const long stride = whole_stride(variant, 11, 97);
    const eitp_host host = eitp_host_default();
    place p;
    whole w;
    whole_bits bits;
    long kills = 0, calls = 0;
    int64_t *committed =
        (int64_t *)mmap(NULL, sizeof *committed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(committed != MAP_FAILED && begin_place(&p));
    begin_whole(&p, variant, &w);
    REQUIRE(whole_reference(&w, &bits));
    for (int within = 0; within < 2; within++) {
        for (long call = 1 + within * 5; test_failures_ < MOST_FAILURES; call += stride) {
            char what[80];
            eitp_error error;
            snprintf(what, sizeof what, "killed %s file call %ld", within ? "within" : "at", call);
            REQUIRE_OK(eitp__remove_tree(&host, scratch_path(p.directory, "runs"), &error), error);
            if (within && call > calls)
                break;
            *committed = -1;
            if (!train_killed(&p, variant, call, within, 0, committed)) {
                /* The run has fewer calls, or this call is not a write: only writes have a middle. */
                if (!within)
                    break;
                continue;
            }
            calls = within ? calls : call;
            /* A second kill, while it starts again or later. */
            kills += 1 + train_killed(&p, variant, 1 + call * 37 % (call % 2 ? 50 : 300), 0, 1, committed);
            begin_whole(&p, variant, &w);
            w.committed = *committed;
            whole_check_checkpoints(&w, &bits, what);
            whole_check_promises(&w, 0, what);
            whole_recovers(&w, &bits, what);
        }
    }
    printf("%ld kills at file calls 1 to %ld of a run that %s and within its writes (stride %ld)\n", kills, calls,
           variant->name, stride);
    CHECK(kills > 0);
    munmap(committed, sizeof *committed);
    scratch_remove(p.directory);
}

static void a_kill_at_any_file_call_loses_nothing(void) {
    whole_each_variant(kill_at_every_file_call);
}

static const test_case tests[] = {
    TEST(a_kill_at_any_file_call_loses_nothing),
};

int main(int argc, char **argv) {
    return RUN_TESTS(tests, argc, argv);
}
