/*
 * Power is lost at every change that a whole run makes to its disk, and once more while it resumes. Regardless of how
 * much unsynced data the disk kept, the last checkpoint reported as saved, or a later one, is complete, and the run
 * resumed from it ends with the bits of an undisturbed one.
 *
 *   EITP_TEST_STRIDE  loses power at every n-th change; 1: at all of them
 *   EITP_TEST_SEEDS   random states of each kind at each of them
 */
#include "tests/support/whole_run.h"

enum { MOST_FAILURES = 20 };

static const char *const losses_[DISK_LOSSES] = {"all lost", "nothing lost", "data lost", "tail lost", "random"};

typedef struct outage {
    disk disk; /* of the disturbed run */
    whole w;
    whole_bits bits;
    long changes, stride, seeds, states, resumed;
    uint64_t tried[DISK_TRIED]; /* hashes of states: equal states are resumed once */
} outage;

/* A run resumes, and loses power a second time. */
typedef struct second {
    outage *o;
    const whole *resumed;
    long changes, at; /* changes so far, and the one at which power is lost */
    uint64_t seed;
    const char *what;
} second;

static void resume_from(outage *o, disk *left, int64_t committed, const char *what, long second_at, uint64_t seed);

static void before_second_change(void *user, const disk *d) {
    second *s = (second *)user;
    disk left;
    char what[200];
    if (++s->changes != s->at)
        return;
    disk_crash(&left, d, DISK_LOSE_RANDOM, s->seed);
    snprintf(what, sizeof what, "%s, and again at change %ld", s->what, s->at);
    s->o->states++;
    resume_from(s->o, &left, s->resumed->committed, what, 0, 0);
    disk_end(&left);
}

/* Resumes from the remains of the disk. With second_at, power is lost again at that change. */
static void resume_from(outage *o, disk *left, int64_t committed, const char *what, long second_at, uint64_t seed) {
    whole later;
    second s;
    memset(&s, 0, sizeof s);
    s.o = o;
    s.resumed = &later;
    s.at = second_at;
    s.seed = seed;
    s.what = what;
    o->resumed++;
    whole_begin(&later, o->w.variant, left, NULL);
    later.committed = committed;
    left->before_change = second_at ? before_second_change : NULL;
    left->user = &s;
    whole_recovers(&later, &o->bits, what);
    left->before_change = NULL;
}

/* Resumes from the remains of the disk, unless that state was tried before. */
static void lose_power(outage *o, const disk *d, disk_loss loss, uint64_t seed) {
    disk left;
    whole lost;
    char what[160];
    disk_crash(&left, d, loss, seed);
    o->states++;
    if (!disk_was_tried(o->tried, disk_hash(&left) + (uint64_t)o->w.committed * 0x9e3779b97f4a7c15u)) {
        uint64_t state = seed;
        const long second_at = 1 + (long)disk_random(&state) % (disk_random(&state) % 2 ? 12 : 120);
        snprintf(what, sizeof what, "change %ld, %s, seed %d", o->changes, losses_[loss], (int)seed);
        whole_begin(&lost, o->w.variant, &left, NULL);
        lost.committed = o->w.committed;
        if (loss == DISK_LOSE_NONE)
            whole_check_checkpoints(&lost, &o->bits, what);
        whole_check_promises(&lost, 0, what);
        resume_from(o, &left, o->w.committed, what, second_at, seed);
    }
    disk_end(&left);
}

static void before_change(void *user, const disk *d) {
    outage *o = (outage *)user;
    if (o->changes++ % o->stride || test_failures_ >= MOST_FAILURES)
        return;
    for (int loss = 0; loss < DISK_LOSSES; loss++) {
        const long seeds = loss < DISK_LOSE_TAIL ? 1 : o->seeds;
        for (long seed = 0; seed < seeds; seed++)
            lose_power(o, d, (disk_loss)loss, (uint64_t)(o->changes * 1000 + seed));
    }
}

static int begin_outage(outage *o, const whole_variant *variant) {
    disk start;
    memset(o, 0, sizeof *o);
    o->stride = whole_stride(variant, 5, 31);
    o->seeds = whole_setting("EITP_TEST_SEEDS", 2);
    if (!whole_begin_disk(&start))
        return 0;
    disk_crash(&o->disk, &start, DISK_LOSE_NONE, 0);
    whole_begin(&o->w, variant, &o->disk, NULL);
    whole_reference(&o->w, &o->bits);
    disk_end(&o->disk);
    disk_crash(&o->disk, &start, DISK_LOSE_NONE, 0);
    whole_begin(&o->w, variant, &o->disk, NULL);
    o->disk.before_change = before_change;
    o->disk.user = o;
    disk_end(&start);
    return 1;
}

static void lose_power_at_every_change(const whole_variant *variant) {
    outage *o = (outage *)malloc(sizeof *o);
    REQUIRE(o && begin_outage(o, variant));
    CHECK_THAT(!whole_train_both(&o->w), "%s", o->w.message);
    o->disk.before_change = NULL;
    printf("%ld power losses simulated at %ld changes of a run that %s (stride %ld, %ld seeds): %ld runs resumed\n",
           o->states, o->changes, variant->name, o->stride, o->seeds, o->resumed);
    CHECK(o->states > 0);
    disk_end(&o->disk);
    free(o);
}

static void whatever_the_disk_kept_a_checkpoint_is_whole(void) {
    whole_each_variant(lose_power_at_every_change);
}

static const test_case tests[] = {
    TEST(whatever_the_disk_kept_a_checkpoint_is_whole),
};

int main(int argc, char **argv) {
    return RUN_TESTS(tests, argc, argv);
}
