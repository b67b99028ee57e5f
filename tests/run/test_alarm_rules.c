/* Alarm rules on realistic series: what raises each alarm, and similar series that must not raise it. */
#include "tests/support/everything.h"
#include "tests/support/test.h"

enum { EVALUATE = 200 };

/* ---- Random numbers ---- */

static uint64_t random_state;

static double random_uniform(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(random_state >> 40) / (double)(1 << 24);
}

/* Approximately normal, with deviation 1. */
static double random_normal(void) {
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += random_uniform();
    return sum;
}

/* ---- A run ---- */

typedef struct watch {
    eitp__alarm_rules rules;
    int64_t steps;
    int count[EITP__ALARM_COUNT]; /* per alarm */
    int64_t raised_at;            /* step of the last alarm */
    char name[32], message[400];  /* of the last alarm */
    double value, usual;
} watch;

static void begin(watch *w, int64_t steps, uint64_t seed) {
    memset(w, 0, sizeof *w);
    w->steps = steps;
    random_state = seed * 77 + 5;
}

static void note(watch *w, const eitp__alarm_list *list, int64_t step) {
    static const char *const names[] = {"plateau",    "vanishing_gradient", "exploding_gradient", "overfitting",
                                        "dead_layer", "posterior_collapse", "memory_drift",       "slowdown"};
    for (int i = 0; i < list->count; i++) {
        const eitp__alarm *alarm = &list->alarms[i];
        for (int k = 0; k < EITP__ALARM_COUNT; k++)
            w->count[k] += !strcmp(names[k], alarm->name);
        w->raised_at = step;
        w->value = alarm->value;
        w->usual = alarm->usual;
        snprintf(w->name, sizeof w->name, "%s", alarm->name);
        snprintf(w->message, sizeof w->message, "%s", alarm->message);
        CHECK_THAT(!strncmp(alarm->message, alarm->name, strlen(alarm->name)) &&
                       strlen(alarm->message) + 1 < sizeof alarm->message && !strchr(alarm->message, '\n'),
                   "%s", alarm->message);
    }
}

static int alarms_of(const watch *w) {
    int all = 0;
    for (int k = 0; k < EITP__ALARM_COUNT; k++)
        all += w->count[k];
    return all;
}

/* The noise-free loss of a small GPT, with the fall at the end of a cosine schedule. */
static double usual_loss(const watch *w, int64_t step) {
    const double done = (double)step / (double)w->steps;
    return 2.6 + 8.2 * pow(1 + (double)step / 25, -0.5) - 0.15 * done * done;
}

enum { GROUPS = 6 }; /* an embedding, four layers, and a head */

static eitp_group_norms groups[GROUPS];

/* The gradients of layers differ by orders of magnitude. The head belongs to another task, so its gradient is zero. */
static void add_layers(eitp__alarm_step *s) {
    static const char *const names[GROUPS] = {"wte", "h.0", "h.1", "h.2", "h.3", "head"};
    if (s->step % EITP__ALARM_LOOK_STEPS)
        return;
    for (int i = 0; i < GROUPS; i++) {
        memset(&groups[i], 0, sizeof groups[i]);
        snprintf(groups[i].name, sizeof groups[i].name, "%s", names[i]);
        groups[i].grad_norm = i == 5 ? 0 : s->grad_norm * pow(0.03, i);
        groups[i].parameter_norm = 30;
    }
    s->groups = groups;
    s->group_count = GROUPS;
}

/* A normal step. */
static eitp__alarm_step usual_step(const watch *w, int64_t step) {
    eitp__alarm_step s = EITP__ZERO;
    const double grown = step < 100 ? (double)step / 100 : 1;
    s.step = step;
    s.steps = w->steps;
    s.warms_up = step <= 100;
    s.applied = 1;
    s.loss = usual_loss(w, step) + 0.12 * random_normal();
    s.grad_norm = (0.6 + 12 * exp(-(double)step / 80)) * exp(0.3 * random_normal());
    s.parameter_norm = 120 + 0.01 * (double)step;
    /* A few percent of noise. Now and then another program delays a step. */
    s.seconds = (1.5 + 0.04 * random_normal()) * (random_uniform() < 0.01 ? 3 : 1);
    s.memory = step % EITP__ALARM_LOOK_STEPS ? 0 : 1.2e9 + 4e8 * grown;
    s.left = 6e9;
    add_layers(&s);
    return s;
}

static void add(watch *w, const eitp__alarm_step *step) {
    eitp__alarm_list list;
    eitp__alarm_rules_step(&w->rules, step, &list);
    note(w, &list, step->step);
}

static void evaluate(watch *w, int64_t step, double loss, double error) {
    eitp__alarm_list list;
    eitp__alarm_rules_evaluation(&w->rules, step, loss, error, &list);
    note(w, &list, step);
}

/* Runs usual steps modified by `change`, with evaluations unless `evaluates` is 0. */
static void run(watch *w, void (*change)(watch *w, eitp__alarm_step *s), int evaluates) {
    for (int64_t step = 1; step <= w->steps; step++) {
        eitp__alarm_step s = usual_step(w, step);
        if (change)
            change(w, &s);
        add(w, &s);
        if (evaluates && step % EVALUATE == 0)
            evaluate(w, step, usual_loss(w, step) + 0.1 + 0.004 * random_normal(), 0.02);
    }
}

static void raises(void (*change)(watch *w, eitp__alarm_step *s), eitp__alarm_name name, int64_t steps, int64_t least,
                   int64_t most) {
    for (uint64_t seed = 1; seed <= 3; seed++) {
        watch w;
        begin(&w, steps, seed);
        run(&w, change, 1);
        CHECK_THAT(alarms_of(&w) == 1 && w.count[name] == 1, "seed %d: %d alarms, the last '%s'", (int)seed,
                   alarms_of(&w), w.message);
        CHECK_THAT(w.raised_at >= least && w.raised_at <= most, "seed %d: after step %d: %s", (int)seed,
                   (int)w.raised_at, w.message);
    }
}

static void raises_none(void (*change)(watch *w, eitp__alarm_step *s), int64_t steps) {
    const uint64_t seeds = test_is_quick() ? 3 : 5;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        watch w;
        begin(&w, steps, seed);
        run(&w, change, 1);
        CHECK_THAT(alarms_of(&w) == 0, "seed %d: %d alarms, the last after step %d: %s", (int)seed, alarms_of(&w),
                   (int)w.raised_at, w.message);
    }
}

static void a_healthy_run_raises_none(void) {
    raises_none(NULL, 300);
    raises_none(NULL, 2000);
    raises_none(NULL, test_is_quick() ? 5000 : 40000);
}

/* ---- The loss ---- */

static void stay(watch *w, eitp__alarm_step *s) {
    if (s->step > 1500)
        s->loss += usual_loss(w, 1500) - usual_loss(w, s->step);
}

static void a_loss_that_stays_is_a_plateau(void) {
    raises(stay, EITP__ALARM_PLATEAU, 16000, 2500, 14000);
}

static void be_flat(watch *w, eitp__alarm_step *s) {
    (void)w;
    s->loss = 3.1 + 0.12 * random_normal();
}

/* At 40000 steps the loss of a healthy run falls by a sixth of its noise in half of the run. */
static void fall_slowly(watch *w, eitp__alarm_step *s) {
    (void)w;
    s->loss = 2.6 + 3 * pow(1 + (double)s->step / 100, -0.35) + 0.12 * random_normal();
}

static void warm_up(watch *w, eitp__alarm_step *s) {
    (void)w;
    s->warms_up = s->step <= 4000;
    s->grad_norm *= s->warms_up ? 1e-3 : 1;
    s->loss = s->step < 4000 ? 6 + 4 * exp(-(double)s->step / 50) + 0.05 * random_normal() : s->loss;
}

/* Each epoch starts lower, and the loss hardly falls within it, with a spike now and then. */
static void fall_in_stairs(watch *w, eitp__alarm_step *s) {
    (void)w;
    s->loss = 3 - 0.3 * (double)(s->step / 500) + 0.1 * random_normal() + (s->step % 377 ? 0 : 4);
}

/* Towards the end it falls by less than a quarter of the noise in half of the run, but beyond chance. */
static void fall_slightly(watch *w, eitp__alarm_step *s) {
    const double early = s->step < 8192 ? (double)s->step : 8192;
    (void)w;
    s->loss = 4 + 4 * exp(-(double)s->step / 50) - 0.1 * log2(early) - 0.018 * log2((double)s->step / early);
    s->loss += 0.12 * random_normal();
}

/* It falls by as much as the noise: too few steps to tell. */
static void fall_unnoticed(watch *w, eitp__alarm_step *s) {
    (void)w;
    s->loss = 3 + 8 * exp(-(double)s->step / 30) - 7e-5 * (double)s->step + 0.12 * random_normal();
}

/* It rests for less than 500 steps. */
static void rest(watch *w, eitp__alarm_step *s) {
    (void)w;
    s->loss = 3 + 5 * exp(-(double)s->step / 20) + 0.01 * random_normal();
    s->loss -= s->step > 600 ? 1e-3 * (double)(s->step - 600) : 0;
}

static void what_is_no_plateau(void) {
    raises_none(rest, 1200);

    raises_none(fall_slightly, 40000);
    raises_none(fall_unnoticed, 1400);

    raises_none(be_flat, 4000);
    raises_none(fall_slowly, test_is_quick() ? 5000 : 40000);
    raises_none(warm_up, 5000);
    raises_none(fall_in_stairs, 3000);
}

/* ---- The gradient ---- */

static void vanish(watch *w, eitp__alarm_step *s) {
    (void)w;
    if (s->step > 2000)
        s->grad_norm *= pow(10, -(double)(s->step - 2000 < 200 ? s->step - 2000 : 200) / 50);
}

static void a_gradient_that_vanishes_raises(void) {
    raises(vanish, EITP__ALARM_VANISHING_GRADIENT, 4000, 2100, 2300);
}

static void fade(watch *w, eitp__alarm_step *s) {
    (void)w;
    s->grad_norm *= pow(1 + (double)s->step / 10, -1.5);
}

/* The loss goes to zero, and so does its gradient. */
static void interpolate(watch *w, eitp__alarm_step *s) {
    const double rest = pow(10, -(double)(s->step > 1000 ? s->step - 1000 : 0) / 150);
    (void)w;
    s->loss = 4 * rest * (1 + 0.1 * random_normal());
    s->grad_norm *= rest;
}

static void fall_by_half(watch *w, eitp__alarm_step *s) {
    (void)w;
    s->grad_norm *= s->step > 1500 ? 0.03 : 1;
}

/* The parameters are small too. */
static void be_small(watch *w, eitp__alarm_step *s) {
    (void)w;
    s->grad_norm *= s->step > 1500 ? 3e-3 : 1;
    s->parameter_norm = 5;
}

static void dip(watch *w, eitp__alarm_step *s) {
    (void)w;
    s->grad_norm *= s->step > 1508 && s->step <= 1524 ? 1e-4 : 1;
}

static void what_is_no_vanishing_gradient(void) {
    raises_none(be_small, 3000);
    raises_none(dip, 3000);

    raises_none(fade, 6000);
    raises_none(fall_by_half, 3000);
    watch w;
    begin(&w, 1500, 3);
    run(&w, interpolate, 0);
    CHECK_THAT(alarms_of(&w) == 0, "%s", w.message);
}

static void explode(watch *w, eitp__alarm_step *s) {
    (void)w;
    s->grad_norm *= s->step > 2000 ? 25 : 1;
}

static void a_gradient_that_stays_large_raises(void) {
    raises(explode, EITP__ALARM_EXPLODING_GRADIENT, 4000, 2008, 2032);
}

static void spike(watch *w, eitp__alarm_step *s) {
    (void)w;
    if (s->step % 700 < 3)
        s->grad_norm *= 1e4;
}

static void burst(watch *w, eitp__alarm_step *s) {
    (void)w;
    s->grad_norm *= s->step > 1508 && s->step <= 1516 ? 1e3 : 1;
}

static void triple(watch *w, eitp__alarm_step *s) {
    (void)w;
    s->grad_norm *= s->step > 1500 ? 4 : 1;
}

/* Small and large norms alternate, as in a fine-tuning run that has almost memorised its samples. */
static void scatter(watch *w, eitp__alarm_step *s) {
    (void)w;
    s->grad_norm = pow(10, 1.2 * random_normal());
}

static void what_is_no_exploding_gradient(void) {
    raises_none(spike, 4000);
    raises_none(burst, 3000);
    raises_none(triple, 3000);
    raises_none(scatter, 12000);
}

static void explode_twice(watch *w, eitp__alarm_step *s) {
    (void)w;
    s->grad_norm *= (s->step > 2000 && s->step <= 2300) || s->step > 3500 ? 25 : 1;
}

static void explode_in_stages(watch *w, eitp__alarm_step *s) {
    (void)w;
    s->grad_norm *= s->step <= 2000 ? 1 : s->step <= 7000 ? 25 : 600;
}

/* Regardless of how long it lasts. */
static void an_alarm_is_raised_once_until_its_end(void) {
    watch w;
    begin(&w, 8000, 1);
    run(&w, explode_in_stages, 0);
    CHECK(w.count[EITP__ALARM_EXPLODING_GRADIENT] == 1 && alarms_of(&w) == 1 && w.raised_at < 2100);
}

static void an_alarm_is_raised_again_after_its_end(void) {
    watch w;
    begin(&w, 4000, 1);
    run(&w, explode_twice, 0);
    CHECK(w.count[EITP__ALARM_EXPLODING_GRADIENT] == 2 && alarms_of(&w) == 2 && w.raised_at > 3500);
    CHECK(fabs(w.usual - 0.6) < 0.2 && fabs(w.value - 15) < 5);
}

/* Steps that were not applied, and norms that are not finite, are ignored. */
static void fail(watch *w, eitp__alarm_step *s) {
    (void)w;
    if (s->step % 3) {
        s->applied = 0;
        s->grad_norm = s->step % 2 ? HUGE_VAL : 1e9;
        s->loss = s->step % 2 ? NAN : 1e200;
    }
}

static void skip(watch *w, eitp__alarm_step *s) {
    (void)w;
    if (s->step > 2000 && s->step % 4) {
        s->applied = 0;
        s->grad_norm = 1e4;
    }
}

static void steps_that_failed_do_not_count(void) {
    raises_none(fail, 4000);
    raises_none(skip, 4000);
}

/* ---- Evaluations ---- */

/* Evaluates at step 0 and every 100 steps. After the fourth evaluation the loss rises by `rise` each time, with noise.
   */
static void make_evaluations(watch *w, double rise, double noise, double error, double training_fall) {
    begin(w, 2000, 4);
    evaluate(w, 0, 4, error);
    for (int64_t step = 1; step <= 2000; step++) {
        eitp__alarm_step s = usual_step(w, step);
        const int64_t k = step / 100;
        s.loss = 4 - training_fall * (double)step / 100 + 0.1 * random_normal();
        add(w, &s);
        if (step % 100 == 0)
            evaluate(w, step,
                     4 - 0.1 * (double)(k < 4 ? k : 4) + rise * (double)(k < 4 ? 0 : k - 4) + noise * random_normal(),
                     error);
    }
}

static void a_validation_loss_that_rises_is_overfitting(void) {
    watch w;
    make_evaluations(&w, 0.02, 0, 0.015, 0.1);
    CHECK_THAT(alarms_of(&w) == 1 && w.count[EITP__ALARM_OVERFITTING] == 1, "%s", w.message);
    CHECK(w.raised_at == 800 && fabs(w.usual - 3.6) < 1e-9 && fabs(w.value - 3.68) < 1e-9);
    CHECK(strstr(w.message, "3.68 after step 800") && strstr(w.message, "3.6 after step 400"));
    make_evaluations(&w, 0.02, 0, 0, 0.1); /* without a standard error, by 1 % */
    CHECK_THAT(w.count[EITP__ALARM_OVERFITTING] == 1 && w.raised_at == 800, "%s", w.message);
}

/* The evaluation before step 1 is the best: the validation loss rises by `rise` in the first 100 steps, and stays
   there. The training loss falls from `first` to `last`. */
static void make_worse_from_the_start(watch *w, double rise, double first, double last) {
    begin(w, 1000, 4);
    evaluate(w, 0, 4, 0.02);
    for (int64_t step = 1; step <= 1000; step++) {
        eitp__alarm_step s = usual_step(w, step);
        s.loss = first + (last - first) * (double)step / 1000 + 0.1 * random_normal();
        add(w, &s);
        if (step % 100 == 0)
            evaluate(w, step, 4 + rise, 0.02);
    }
}

static void overfitting_from_the_start(void) {
    watch w;
    make_worse_from_the_start(&w, 0.2, 4, 2); /* a trained model, on few samples */
    CHECK_THAT(w.count[EITP__ALARM_OVERFITTING] == 1 && strstr(w.message, "training loss fell from 3."), "%s",
               w.message);
    make_worse_from_the_start(&w, 30, 90, 20); /* a run that diverges in its first steps and recovers a little */
    CHECK_THAT(!w.count[EITP__ALARM_OVERFITTING], "%s", w.message);
    make_worse_from_the_start(&w, 1, 30, 0); /* or diverges throughout, and then overfits */
    CHECK_THAT(w.count[EITP__ALARM_OVERFITTING] == 1 && strstr(w.message, "training loss fell from 4 to "), "%s",
               w.message);
}

static void what_is_no_overfitting(void) {
    watch w;
    make_evaluations(&w, 0, 0.015, 0.02, 0.1);
    CHECK_THAT(!w.count[EITP__ALARM_OVERFITTING], "%s", w.message);
    make_evaluations(&w, 0.02, 0, 0.02, 0); /* neither falls */
    CHECK_THAT(!w.count[EITP__ALARM_OVERFITTING], "%s", w.message);
    make_evaluations(&w, 0.02, 0, 0.5, 0.1); /* an evaluation on few samples */
    CHECK_THAT(!w.count[EITP__ALARM_OVERFITTING], "%s", w.message);
    make_evaluations(&w, -0.02, 0, 0.02, 0.1);
    CHECK_THAT(!w.count[EITP__ALARM_OVERFITTING], "%s", w.message);
    /* Two bad evaluations, then repeated evaluations. */
    begin(&w, 100, 1);
    evaluate(&w, 0, 3, 0.01);
    for (int64_t step = 1; step <= 60; step++) {
        eitp__alarm_step s = usual_step(&w, step);
        add(&w, &s);
        if (step % 20 == 0 && step > 20)
            for (int i = 0; i < 3; i++)
                evaluate(&w, step, 4, 0.01);
    }
    CHECK_THAT(!alarms_of(&w), "%s", w.message);
    evaluate(&w, 61, NAN, 0.01);
    CHECK(w.rules.worse == 2 && w.rules.evaluations == 3);
}

/* ---- Layers ---- */

static void silence_two(watch *w, eitp__alarm_step *s) {
    (void)w;
    if (s->groups && s->step > 500) {
        groups[3].grad_norm = 0;
        groups[2].grad_norm = 1e-7 * groups[1].grad_norm;
    }
}

static void silence_early(watch *w, eitp__alarm_step *s) {
    (void)w;
    if (s->groups)
        groups[1].grad_norm = 0;
}

static void a_layer_without_a_gradient_raises(void) {
    watch w;
    raises(silence_two, EITP__ALARM_DEAD_LAYER, 1000, 528, 528);
    raises(silence_early, EITP__ALARM_DEAD_LAYER, 1000, 128, 128); /* from the first sample after the warm-up on */
    begin(&w, 600, 1);
    run(&w, silence_two, 0);
    CHECK_THAT(w.value == 0 && w.usual > 0.001 && strstr(w.message, "of h.2 is 0 (and as small in 1 more)"), "%s",
               w.message);
}

static void silence_for_three_looks(watch *w, eitp__alarm_step *s) {
    (void)w;
    if (s->groups && s->step % 64 < 24)
        groups[4].grad_norm = 0;
}

static void vanish_together(watch *w, eitp__alarm_step *s) {
    (void)w;
    s->loss = 1e-12;
    for (int i = 0; i < GROUPS; i++)
        groups[i].grad_norm = 0;
}

static void freeze(watch *w, eitp__alarm_step *s) {
    (void)w;
    if (s->groups) { /* frozen layers have no norms */
        s->groups = groups + 3;
        s->group_count = 3;
    }
}

static void have_one_layer(watch *w, eitp__alarm_step *s) {
    (void)w;
    if (s->groups) {
        groups[1].grad_norm = 0;
        s->group_count = 2;
    }
}

static void be_small_but_train(watch *w, eitp__alarm_step *s) {
    (void)w;
    if (s->groups)
        groups[2].grad_norm = 2e-6 * groups[1].grad_norm;
}

static void fail_while_silent(watch *w, eitp__alarm_step *s) {
    (void)w;
    groups[2].grad_norm = 0;
    s->warms_up = 1;
}

static void what_is_no_dead_layer(void) {
    raises_none(silence_for_three_looks, 1000);
    raises_none(vanish_together, 300);
    raises_none(freeze, 1000);
    raises_none(have_one_layer, 1000);
    raises_none(be_small_but_train, 1000);
    raises_none(fail_while_silent, 300);
}

static void revive(watch *w, eitp__alarm_step *s) {
    (void)w;
    if (s->groups && (s->step < 300 || s->step > 400))
        groups[2].grad_norm = 0;
}

static void a_layer_that_trains_again_ends_the_alarm(void) {
    watch w;
    begin(&w, 600, 1);
    run(&w, revive, 0);
    CHECK(w.count[EITP__ALARM_DEAD_LAYER] == 2 && w.raised_at == 432);
}

/* ---- The process ---- */

static void leak(watch *w, eitp__alarm_step *s) {
    (void)w;
    if (s->memory > 0)
        s->memory += 1e6 * (double)s->step + 2e6 * random_normal();
    s->left = 6e9 - 1e6 * (double)s->step;
}

static void memory_that_grows_raises(void) {
    raises(leak, EITP__ALARM_MEMORY_DRIFT, 6000, 400, 1200);
}

static void leak_a_little(watch *w, eitp__alarm_step *s) {
    (void)w;
    if (s->memory > 0)
        s->memory += 1e4 * (double)s->step;
}

/* A step up, such as when a cache is filled. */
static void grow_once(watch *w, eitp__alarm_step *s) {
    (void)w;
    if (s->memory > 0 && s->step > 400)
        s->memory += 3e9;
}

static void swing(watch *w, eitp__alarm_step *s) {
    (void)w;
    if (s->memory > 0)
        s->memory += 5e8 * sin((double)s->step / 40) + 1e8 * random_normal();
}

static void what_is_no_memory_drift(void) {
    raises_none(leak_a_little, 6000);
    raises_none(grow_once, 4000);
    raises_none(swing, 4000);
}

static void slow_down(watch *w, eitp__alarm_step *s) {
    (void)w;
    if (s->step > 500)
        s->seconds *= 1 + 0.3 * (double)(s->step - 500) / 2000;
}

static void steps_that_take_longer_and_longer_raise(void) {
    raises(slow_down, EITP__ALARM_SLOWDOWN, 2500, 600, 1600);
}

static double load; /* of other programs: it rises and falls slowly */

static void share(watch *w, eitp__alarm_step *s) {
    load = s->step == 1 ? 0 : 0.99 * load + 0.01 * random_normal();
    (void)w;
    s->seconds *= 1 + fabs(load);
}

static void be_fast(watch *w, eitp__alarm_step *s) {
    slow_down(w, s);
    s->seconds /= 1e3;
}

static void speed_up(watch *w, eitp__alarm_step *s) {
    (void)w;
    s->seconds *= 1 + exp(-(double)s->step / 300);
}

static void what_is_no_slowdown(void) {
    raises_none(share, 4000);
    raises_none(be_fast, 2500); /* over a few seconds */
    raises_none(speed_up, 4000);
}

static void steps_of_another_shape_take_another_time(void) {
    watch w;
    begin(&w, 4000, 1);
    for (int64_t step = 1; step <= 4000; step++) {
        eitp__alarm_step s = usual_step(&w, step);
        s.seconds *= step > 1000 ? 2 : 1;
        if (step == 1001)
            eitp__alarm_rules_forget_times(&w.rules);
        add(&w, &s);
    }
    CHECK_THAT(!alarms_of(&w), "%s", w.message);
}

/* ---- A latent variable ---- */

enum { UNITS = 32 };

static void look(watch *w, int64_t step, double active, double kl) {
    const eitp__alarm_latent latent = {step, UNITS, active, kl};
    eitp__alarm_list list;
    eitp__alarm_rules_latent(&w->rules, &latent, &list);
    note(w, &list, step);
}

/* Takes `count` samples, 100 steps apart. Returns the step of the last one. */
static int64_t look_on(watch *w, int64_t step, int count, double active) {
    for (int i = 0; i < count; i++)
        look(w, step += 100, active, 0.02);
    return step;
}

static void units_that_never_become_active_raise(void) {
    int64_t step;
    watch w;
    begin(&w, 0, 1);
    look(&w, 0, 0, 0); /* before step 1 nothing has been trained */
    step = look_on(&w, 0, 2, 1);
    CHECK(!alarms_of(&w));
    step = look_on(&w, step, 1, 1);
    CHECK(w.count[EITP__ALARM_POSTERIOR_COLLAPSE] == 1 && w.raised_at == 300 && w.value == 1 && !(w.usual > 0));
    CHECK_THAT(!strcmp(w.message, "posterior_collapse: 1 of 32 latent units is active (KL 0.02 nats): the decoder "
                                  "ignores the latent variable; start again with free_bits, a lower kl_weight or "
                                  "kl_anneal cyclical"),
               "%s", w.message);
    step = look_on(&w, step, 1, 6); /* less than a fifth: it has not ended */
    step = look_on(&w, step, 3, 3);
    CHECK(alarms_of(&w) == 1);
    step = look_on(&w, step, 1, 7);
    step = look_on(&w, step, 2, 3);
    CHECK(alarms_of(&w) == 1);
    step = look_on(&w, step, 20, 3);
    CHECK(alarms_of(&w) == 2);
    step = look_on(&w, step, 1, 7);
    look_on(&w, step, 3, 2);
    CHECK(alarms_of(&w) == 3 && !(w.usual > 0)); /* so few units never count as usual */
}

static void units_that_cease_to_be_active_raise(void) {
    int64_t step;
    watch w;
    begin(&w, 0, 1);
    step = look_on(&w, 0, 8, 24);
    step = look_on(&w, step, 3, 0);
    CHECK(alarms_of(&w) == 1 && w.raised_at == step && !(w.value > 0) && w.usual == 24);
    CHECK_THAT(!strcmp(w.message, "posterior_collapse: 0 of 32 latent units are active (KL 0.02 nats), usually 24: the "
                                  "decoder ignores the latent variable; resume from an earlier checkpoint with "
                                  "free_bits, a lower kl_weight or kl_anneal cyclical"),
               "%s", w.message);
    step = look_on(&w, step, 1, 7); /* a fifth, but less than half of the usual number */
    step = look_on(&w, step, 200, 0);
    CHECK(alarms_of(&w) == 1);
    step = look_on(&w, step, 1, 18); /* the usual number has not changed in the meantime */
    look_on(&w, step, 3, 0);
    CHECK(alarms_of(&w) == 2 && w.usual == 24);
}

static void fewer_active_units_than_usual_raise(void) {
    int64_t step;
    watch w;
    begin(&w, 0, 1);
    step = look_on(&w, 0, 8, 24);
    step = look_on(&w, step, 3, 11.9);
    CHECK(alarms_of(&w) == 1 && w.raised_at == step && w.value > 11 && w.usual == 24);
    CHECK_THAT(strstr(w.message,
                      "12 of 32 latent units are active (KL 0.02 nats), usually 24: the decoder ignores more "
                      "of the latent variable than before; resume from"),
               "%s", w.message);
    step = look_on(&w, step, 1, 17.9);
    step = look_on(&w, step, 3, 11);
    CHECK(alarms_of(&w) == 1);
    step = look_on(&w, step, 1, 18);
    look_on(&w, step, 3, 11);
    CHECK(alarms_of(&w) == 2);
}

/* The usual number follows the latest half of the run. */
static void the_usual_units_are_those_of_the_latest_half(void) {
    int64_t step;
    watch w;
    begin(&w, 0, 1);
    step = look_on(&w, 0, 100, 30);
    step = look_on(&w, step, 120, 16);
    step = look_on(&w, step, 3, 8.5);
    CHECK(!alarms_of(&w));
    look_on(&w, step, 3, 7.5);
    CHECK_THAT(alarms_of(&w) == 1 && w.usual > 15.9 && w.usual < 16.1, "%d, usually %g", alarms_of(&w), w.usual);
}

static void what_is_no_posterior_collapse(void) {
    int64_t step;
    watch w;
    begin(&w, 0, 1);
    step = look_on(&w, 0, 7, 24); /* too few to know the usual number */
    step = look_on(&w, step, 3, 11);
    step = look_on(&w, step, 20, 24);
    for (int i = 0; i < 10; i++) { /* never three samples in a row */
        step = look_on(&w, step, 2, i % 2);
        step = look_on(&w, step, 1, 20);
    }
    look_on(&w, 0, 10, 0); /* steps that were sampled before */
    for (int i = 0; i < 10; i++) {
        look(&w, step += 100, (double)NAN, 1);
        look(&w, step += 100, 0, (double)INFINITY);
        look(&w, step += 100, -1, 1);
    }
    step = look_on(&w, step, 1, 3);
    for (int i = 0; i < 9; i++)
        look(&w, step, 3, 1); /* once is enough */
    CHECK_THAT(!alarms_of(&w), "%s", w.message);
    begin(&w, 0, 1);
    for (int i = 0; i < 5; i++) /* nor with more than a tenth, but less than a fifth, active in between */
        step = look_on(&w, look_on(&w, i ? step : 0, 2, 3), 1, 6);
    CHECK_THAT(!alarms_of(&w), "%s", w.message);
    begin(&w, 0, 3);
    for (int i = 1; i <= 400; i++) /* a normal run, with fewer units at the end */
        look(&w, 100 * i, floor(8 + 18 * exp(-0.004 * i) + 1.5 * random_normal()), 5);
    CHECK_THAT(!alarms_of(&w), "%s", w.message);
}

/* ---- In a checkpoint ---- */

static eitp_host host_;

static eitp_status reread(eitp__alarm_rules *rules, eitp__buffer *text, eitp_error *error) {
    eitp_json_document *document;
    eitp_status status;
    eitp__buffer_clear(text);
    eitp__alarm_rules_write(rules, text);
    memset(rules, 0, sizeof *rules);
    status = eitp_json_parse(&host_, text->data, text->size, &document, error);
    if (!status)
        status = eitp__alarm_rules_read(rules, eitp_json_root(document), error);
    eitp_json_release(document);
    return status;
}

static void everything(watch *w, eitp__alarm_step *s) {
    stay(w, s);
    explode_twice(w, s);
    silence_two(w, s);
    s->seconds = s->memory = 0; /* relearned by a resumed run */
}

/* A run that is resumed every few steps raises the same alarms after the same steps. */
static void a_resumed_run_raises_the_same(void) {
    static const int64_t periods[] = {0, 1, 37, 1000};
    char ends[4][8000];
    for (size_t k = 0; k < EITP__COUNT(periods); k++) {
        eitp__buffer text;
        eitp_error error;
        watch w;
        int64_t raised = 0;
        host_ = eitp_host_default();
        eitp__buffer_init(&text, &host_);
        begin(&w, 5000, 2);
        for (int64_t step = 1; step <= w.steps; step++) {
            eitp__alarm_step s = usual_step(&w, step);
            const int before = alarms_of(&w);
            everything(&w, &s);
            add(&w, &s);
            if (step % 20 == 0)
                look(&w, step, step % 1900 < 1600 ? 20 + 2 * random_normal() : 7 * (double)(step > 1900), 1);
            if (step % EVALUATE == 0)
                evaluate(&w, step, 3 + 0.1 * (double)(step > 1000) * (double)step / 1000, 0.01);
            raised += (alarms_of(&w) - before) * step;
            if (periods[k] && step % periods[k] == 0 && reread(&w.rules, &text, &error)) {
                CHECK_THAT(0, "%s", error.message);
                break;
            }
        }
        CHECK(alarms_of(&w) >= 4 && w.count[EITP__ALARM_DEAD_LAYER] == 1 && w.count[EITP__ALARM_OVERFITTING] == 1 &&
              w.count[EITP__ALARM_POSTERIOR_COLLAPSE] == 2);
        eitp__buffer_clear(&text);
        eitp__alarm_rules_write(&w.rules, &text);
        snprintf(ends[k], sizeof ends[k], "%lld %s", (long long)raised, text.data);
        CHECK_THAT(!strcmp(ends[k], ends[0]), "every %d steps: %.100s", (int)periods[k], ends[k]);
        CHECK(text.size < 6000);
        eitp__buffer_release(&text);
    }
}

static void a_damaged_state_is_refused(void) {
    static const char *const damages[][2] = {
        {"\"active\": 0", "\"active\": 64"},
        {"\"latent\": {", "\"latent\": 5, \"x\": {"},
        {"\"few\": ", "\"few\": -"},
        {"\"fractions\": ", "\"fraction\": "},
        {"\"losses\": {", "\"losses\": 5, \"x\": {"},
        {"\"norms\"", "\"worms\""},
        {"\"group\": [", "\"group\": [1, 1, 1, 1, 1, 1, 1, 1, "},
        {"\"blocks\": [", "\"blocks\": [null, "},
        {"\"summed\": ", "\"summed\": 1"},
        {"\"squares\": ", "\"squares\": -"},
        {"\"best_training\": {", "\"best_training\": [], \"y\": {"},
    };
    eitp__buffer text;
    watch w;
    host_ = eitp_host_default();
    begin(&w, 301, 1);
    run(&w, NULL, 1);
    look_on(&w, 0, 2, 1);
    eitp__buffer_init(&text, &host_);
    eitp__alarm_rules_write(&w.rules, &text);
    for (size_t i = 0; i < EITP__COUNT(damages); i++) {
        const char *at = strstr(text.data, damages[i][0]);
        eitp__alarm_rules rules = EITP__ZERO;
        eitp_json_document *document;
        eitp__buffer damaged;
        eitp_error error;
        REQUIRE(at);
        rules.worse = 7;
        eitp__buffer_init(&damaged, &host_);
        eitp__buffer_add(&damaged, text.data, (size_t)(at - text.data));
        eitp__buffer_format(&damaged, "%s%s", damages[i][1], at + strlen(damages[i][0]));
        if (eitp_json_parse(&host_, damaged.data, damaged.size, &document, &error)) {
            CHECK_THAT(0, "%s", error.message);
        } else {
            CHECK_THAT(eitp__alarm_rules_read(&rules, eitp_json_root(document), &error) == EITP_ERROR_FORMAT, "%s",
                       damages[i][1]);
            CHECK(rules.worse == 7);
        }
        eitp_json_release(document);
        eitp__buffer_release(&damaged);
    }
    eitp__buffer_release(&text);
}

/* Losses near the largest double leave a readable state. */
static void huge_losses_leave_a_state(void) {
    eitp__buffer text;
    eitp_error error;
    watch w;
    host_ = eitp_host_default();
    eitp__buffer_init(&text, &host_);
    begin(&w, 600, 1);
    for (int64_t step = 1; step <= w.steps; step++) {
        eitp__alarm_step s = usual_step(&w, step);
        s.loss = step % 2 ? 9e99 : step % 4 ? 1e308 : -9e99;
        s.grad_norm = step % 2 ? 9e99 : step % 4 ? 1e308 : 0;
        add(&w, &s);
        evaluate(&w, step, s.loss, 1);
    }
    CHECK_THAT(!reread(&w.rules, &text, &error), "%s", error.message);
    eitp__buffer_release(&text);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(a_healthy_run_raises_none),
        TEST(a_loss_that_stays_is_a_plateau),
        TEST(what_is_no_plateau),
        TEST(a_gradient_that_vanishes_raises),
        TEST(what_is_no_vanishing_gradient),
        TEST(a_gradient_that_stays_large_raises),
        TEST(what_is_no_exploding_gradient),
        TEST(an_alarm_is_raised_once_until_its_end),
        TEST(an_alarm_is_raised_again_after_its_end),
        TEST(steps_that_failed_do_not_count),
        TEST(a_validation_loss_that_rises_is_overfitting),
        TEST(overfitting_from_the_start),
        TEST(what_is_no_overfitting),
        TEST(a_layer_without_a_gradient_raises),
        TEST(what_is_no_dead_layer),
        TEST(a_layer_that_trains_again_ends_the_alarm),
        TEST(memory_that_grows_raises),
        TEST(what_is_no_memory_drift),
        TEST(steps_that_take_longer_and_longer_raise),
        TEST(what_is_no_slowdown),
        TEST(steps_of_another_shape_take_another_time),
        TEST(units_that_never_become_active_raise),
        TEST(units_that_cease_to_be_active_raise),
        TEST(fewer_active_units_than_usual_raise),
        TEST(the_usual_units_are_those_of_the_latest_half),
        TEST(what_is_no_posterior_collapse),
        TEST(a_resumed_run_raises_the_same),
        TEST(a_damaged_state_is_refused),
        TEST(huge_losses_leave_a_state),
    };
    return RUN_TESTS(tests, argc, argv);
}
