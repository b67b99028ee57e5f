/*
 * Each allocation and each file call of a whole run fails once, in every way. Nothing crashes, leaks or hangs, the
 * message is one line, and a run resumed afterwards ends with the bits of an undisturbed one.
 *
 *   EITP_TEST_STRIDE  tries every n-th call; 1: all
 */
#include "tests/support/whole_run.h"

enum { MOST_FAILURES = 60 }; /* more would show nothing new */

typedef struct fault {
    const char *name;
    int of_allocations, code, tear;
    faults_short shorten;
    int for_good, times; /* times 1: the retry succeeds; 0: every retry fails */
    int passes;          /* the run must not fail */
} fault;

static const fault faults_[] = {
    {"no memory, once", 1, 0, 0, FAULTS_WHOLE, 0, 0, 0},
    {"no memory from then on", 1, 0, 0, FAULTS_WHOLE, 1, 0, 0},
    {"EIO once", 0, EIO, 0, FAULTS_WHOLE, 0, 1, 0},
    {"EIO for all repetitions", 0, EIO, 0, FAULTS_WHOLE, 0, 0, 0},
    {"EIO from then on", 0, EIO, 0, FAULTS_WHOLE, 1, 0, 0},
    {"ENOSPC once", 0, ENOSPC, 0, FAULTS_WHOLE, 0, 1, 0},
    {"ENOSPC from then on", 0, ENOSPC, 0, FAULTS_WHOLE, 1, 0, 0},
    {"EMFILE once", 0, EMFILE, 0, FAULTS_WHOLE, 0, 1, 0},
    {"EMFILE from then on", 0, EMFILE, 0, FAULTS_WHOLE, 1, 0, 0},
    {"EACCES once", 0, EACCES, 0, FAULTS_WHOLE, 0, 1, 0},
    {"EACCES from then on", 0, EACCES, 0, FAULTS_WHOLE, 1, 0, 0},
    {"EINTR once", 0, EINTR, 0, FAULTS_WHOLE, 0, 1, 1},
    {"EINTR from then on", 0, EINTR, 0, FAULTS_WHOLE, 1, 0, 0},
    {"EAGAIN for all repetitions", 0, EAGAIN, 0, FAULTS_WHOLE, 0, 0, 0},
    {"EIO, half written", 0, EIO, 1, FAULTS_WHOLE, 0, 0, 0},
    {"ENOSPC, half written, from then on", 0, ENOSPC, 1, FAULTS_WHOLE, 1, 0, 0},
    {"all but one byte", 0, 0, 0, FAULTS_LESS_ONE, 0, 0, 1},
    {"all but one byte from then on", 0, 0, 0, FAULTS_LESS_ONE, 1, 0, 1},
    {"half of the bytes", 0, 0, 0, FAULTS_HALF, 0, 0, 1},
    {"half of the bytes from then on", 0, 0, 0, FAULTS_HALF, 1, 0, 1},
    {"one byte", 0, 0, 0, FAULTS_ONE, 0, 0, 1},
};

typedef struct sweep {
    const whole_variant *variant;
    disk start; /* the data of the run */
    whole_bits bits;
    long allocations, file_calls; /* of an undisturbed run */
    long stride, injected, failed;
} sweep;

static int begin_sweep(sweep *s, const whole_variant *variant) {
    disk d;
    whole w;
    faults f;
    eitp_host host = eitp_host_default();
    int made;
    memset(s, 0, sizeof *s);
    s->variant = variant;
    s->stride = whole_stride(variant, 61, 601);
    if (!whole_begin_disk(&s->start))
        return 0;
    disk_crash(&d, &s->start, DISK_LOSE_NONE, 0);
    host.files = disk_files(&d);
    faults_begin_on(&f, &host);
    whole_begin(&w, variant, &d, &f.host);
    made = whole_reference(&w, &s->bits);
    faults_end(&f);
    s->allocations = f.allocations;
    s->file_calls = f.file_calls;
    disk_end(&d);
    return made;
}

/* Checks that a message is one line and not empty. */
static void check_message(const whole *w, const char *what) {
    CHECK_THAT(strlen(w->message) > 10 && !strchr(w->message, '\n'), "%s: '%s'", what, w->message);
}

/* Injects a fault at call n. Returns 0 if there was no such call. */
static int inject(sweep *s, const fault *kind, long n) {
    disk d;
    whole w, later;
    faults f;
    eitp_host host = eitp_host_default();
    eitp_status status;
    char what[160];
    int happened;
    disk_crash(&d, &s->start, DISK_LOSE_NONE, 0);
    host.files = disk_files(&d);
    faults_begin_on(&f, &host);
    f.fail_allocation = kind->of_allocations ? n : 0;
    f.fail_file_call = kind->of_allocations ? 0 : n;
    f.all_allocations = f.all_file_calls = kind->for_good;
    f.code = kind->code;
    f.times = kind->times;
    f.tear = kind->tear;
    f.shorten = kind->shorten;
    f.most_allocations = 10 * s->allocations;
    f.most_file_calls = 5000 * s->file_calls;
    whole_begin(&w, s->variant, &d, &f.host);
    status = whole_train_both(&w);
    happened = faults_end(&f);
    snprintf(what, sizeof what, "%s %ld%s%s%s, %s", kind->of_allocations ? "allocation" : "file call", n,
             f.failed_call ? " (" : "", f.failed_call ? f.failed_call : "", f.failed_call ? ")" : "", kind->name);
    if (status)
        check_message(&w, what);
    CHECK_THAT(!status || !kind->passes, "%s: %s", what, w.message);
    if (f.failures) {
        s->injected++;
        s->failed += status != EITP_OK;
        whole_begin(&later, s->variant, &d, NULL);
        later.committed = w.committed;
        later.lost_records = w.lost_records;
        later.said = w.said;
        whole_check_checkpoints(&later, &s->bits, what);
        whole_check_promises(&later, !status, what);
        later.said.best_json = later.said.links = later.said.pruning = 0; /* nothing fails from now on */
        whole_recovers(&later, &s->bits, what);
    }
    disk_end(&d);
    return happened;
}

static void fail_every_call(const whole_variant *variant) {
    sweep s;
    REQUIRE(begin_sweep(&s, variant));
    for (size_t i = 0; i < sizeof faults_ / sizeof *faults_; i++) {
        /* With a stride, each kind starts at a different call. */
        long n = 1 + (long)i * 7 % s.stride;
        while (test_failures_ < MOST_FAILURES && inject(&s, &faults_[i], n))
            n += s.stride;
    }
    printf("%ld faults injected in a run that %s, of %ld allocations and %ld file calls (stride %ld); %ld ended it\n",
           s.injected, variant->name, s.allocations, s.file_calls, s.stride, s.failed);
    CHECK(s.injected > 0 && s.failed > 0);
    disk_end(&s.start);
}

static void every_call_fails_in_every_way(void) {
    whole_each_variant(fail_every_call);
}

static const test_case tests[] = {
    TEST(every_call_fails_in_every_way),
};

int main(int argc, char **argv) {
    return RUN_TESTS(tests, argc, argv);
}
