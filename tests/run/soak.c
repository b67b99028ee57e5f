/*
 * soak DIRECTORY [minutes=30] [leak=BYTES] [slower=PERCENT] [times=no]: trains a small model for the given time, with
 * records, alarms, the guard, evaluations and checkpoints, and fails if memory or step times grow.
 *
 * The first sixth of the time is the warm-up. After it
 *   - the upper end of the 95 % interval of the memory trend must be below 1 kB a step, and
 *   - the time of a step, divided by the time of a fixed loop that runs after it, must have no trend: p < 0.05.
 *
 * Both times are processor time of the training thread: they exclude time used by other programs, and a slower
 * processor makes both longer. A step's time runs from one call of the listener to the next and so covers the step, its
 * records, alarms and the guard. It excludes waiting. The ratio of the wall-clock times is printed too, but not
 * checked, because it also depends on how busy the machine is. Steps with an evaluation or a checkpoint are left out.
 *
 * Each queue of records grows by a page now and then until it has been filled once, after some 10,000 steps. In a
 * shorter run this growth may exceed the limit.
 *
 * To see it fail: `leak` keeps that many more bytes in each step, `slower` makes steps that much longer in each minute.
 * With times=no the ratio is not checked, for machines whose load changes.
 */
#if !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif
#include "tests/support/resident.h"

enum {
    MOST_STEPS = 1 << 20,
    EVERY = 500,    /* steps between evaluations and checkpoints */
    CALIBRATED = 50 /* steps; the last one sets the length of the loop */
};

/* A tenth of a step's time: matrix products, which a neighbour on the same core slows as much as the products in a
   step. */
enum { LOOP_WIDTH = 48 };
typedef struct loop {
    float a[LOOP_WIDTH][LOOP_WIDTH], b[LOOP_WIDTH][LOOP_WIDTH], c[LOOP_WIDTH][LOOP_WIDTH];
    int rounds;
} loop;

typedef struct clocks {
    double wall, processor;
} clocks;

typedef struct soak {
    double minutes, leak, slower;
    int judges_times;
    eitp_run *run;
    loop loop;
    clocks began, since; /* start of the run; start of the step in progress */
    int is_disturbed;    /* the step in progress has an evaluation or a checkpoint */
    double usual;        /* processor seconds of a step */
    int events[EITP_EVENT_COUNT];
    /* Per step: minutes since the start, ratios to the loop, resident bytes. */
    size_t count;
    double *steps, *at, *ratios, *wall_ratios, *resident;
} soak;

static double seconds_of(clockid_t id) {
    struct timespec time;
    clock_gettime(id, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static clocks now(void) {
    clocks c;
    c.wall = seconds_of(CLOCK_MONOTONIC);
    c.processor = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    return c;
}

static clocks between(clocks from, clocks to) {
    to.wall -= from.wall;
    to.processor -= from.processor;
    return to;
}

/* ---- The fixed loop ---- */

static void prepare_loop(loop *l) {
    l->rounds = 1;
    for (int i = 0; i < LOOP_WIDTH; i++) {
        for (int k = 0; k < LOOP_WIDTH; k++) {
            l->a[i][k] = (float)((i * 7 + k * 3) % 11) / 110;
            l->b[i][k] = (float)((i * 5 + k) % 13) / 130;
        }
    }
}

static clocks run_loop(loop *l) {
    const clocks before = now();
    for (int round = 0; round < l->rounds; round++) {
        for (int i = 0; i < LOOP_WIDTH; i++) {
            for (int j = 0; j < LOOP_WIDTH; j++)
                l->c[i][j] = 0;
            for (int k = 0; k < LOOP_WIDTH; k++) {
                for (int j = 0; j < LOOP_WIDTH; j++)
                    l->c[i][j] += l->a[i][k] * l->b[k][j];
            }
        }
        l->a[0][round % LOOP_WIDTH] = l->c[0][0] / 16; /* so that rounds differ */
    }
    return between(before, now());
}

/* ---- Steps ---- */

/* Makes the step in progress longer. */
static void slow_down(const soak *s, double minutes) {
    const double until = seconds_of(CLOCK_THREAD_CPUTIME_ID) + s->usual * s->slower / 100 * minutes;
    while (seconds_of(CLOCK_THREAD_CPUTIME_ID) < until)
        continue;
}

static void leak(const soak *s) {
    static void *volatile lost; /* keeps the compiler from removing the allocation */
    lost = s->leak > 0 ? malloc((size_t)s->leak) : NULL;
    if (lost)
        memset(lost, 1, (size_t)s->leak);
}

static void note_step(soak *s, int64_t step, clocks taken, clocks looped) {
    const size_t i = s->count++;
    const int counts = step > CALIBRATED && !s->is_disturbed;
    s->steps[i] = (double)step;
    s->at[i] = (now().wall - s->began.wall) / 60;
    s->ratios[i] = counts ? taken.processor / looped.processor : (double)NAN;
    s->wall_ratios[i] = counts ? taken.wall / looped.wall : (double)NAN;
    s->resident[i] = 1024 * (double)resident_kilobytes();
    eitp_run_record_value(s->run, "soak/ratio", s->ratios[i], NULL);
    eitp_run_record_value(s->run, "soak/wall_ratio", s->wall_ratios[i], NULL);
    eitp_run_record_value(s->run, "soak/resident_bytes", s->resident[i], NULL);
}

static void end_step(soak *s, int64_t step) {
    const double minutes = (now().wall - s->began.wall) / 60;
    clocks taken, looped;
    slow_down(s, minutes);
    taken = between(s->since, now());
    looped = run_loop(&s->loop);
    if (step <= CALIBRATED) {
        s->usual = taken.processor;
        s->loop.rounds = 1 + (int)(0.1 * s->usual / (looped.processor / s->loop.rounds));
    }
    note_step(s, step, taken, looped);
    leak(s);
    if (minutes >= s->minutes || s->count == MOST_STEPS)
        eitp_run_request_stop(s->run, 1);
    s->is_disturbed = 0;
    s->since = now();
}

static void notice(void *user, const eitp_run_event *event) {
    soak *s = (soak *)user;
    s->events[event->kind]++;
    if (event->kind == EITP_EVENT_STEP)
        end_step(s, event->report->step.step);
    else
        s->is_disturbed = 1;
    if (event->level >= EITP_LOG_WARNING)
        printf("step %d: %s\n", (int)event->report->steps_done, event->message);
}

/* ---- Verdicts ---- */

/* The first step after the warm-up. */
static size_t first_judged(const soak *s) {
    size_t i = 0;
    while (i < s->count && s->at[i] < s->minutes / 6)
        i++;
    return i;
}

static int fit(const soak *s, const double *x, const double *y, eitp_trend *trend) {
    const size_t from = first_judged(s);
    if (!eitp_trend_fit(x + from, y + from, s->count - from, trend, &error_))
        return 1;
    printf("FAILED there is no trend to judge: %s\n", error_.message);
    return 0;
}

static int judge_memory(const soak *s) {
    eitp_trend trend;
    int is_good;
    if (!fit(s, s->steps, s->resident, &trend))
        return 0;
    is_good = trend.slope_high < 1000;
    printf(
        "%smemory: %.1f bytes a step, 95 %% interval %.1f to %.1f, the limit is 1000; p = %.2g; %.2f MB at the end\n",
        is_good ? "" : "FAILED ", trend.slope, trend.slope_low, trend.slope_high, trend.p,
        s->resident[s->count - 1] / 1e6);
    return is_good;
}

static int judge_ratio(const soak *s, const char *what, const double *ratios, int counts) {
    eitp_trend trend;
    double percent;
    int has_trend;
    if (!fit(s, s->at, ratios, &trend))
        return 0;
    percent = 100 / trend.intercept;
    has_trend = trend.p < 0.05 && (trend.slope_low > 0 || trend.slope_high < 0);
    printf("%s%s: %+.4f %% a minute, 95 %% interval %+.4f to %+.4f; p = %.2g: %s%s\n",
           has_trend && counts ? "FAILED " : "", what, trend.slope * percent, trend.slope_low * percent,
           trend.slope_high * percent, trend.p, has_trend ? "a trend" : "no trend", counts ? "" : " (not judged)");
    return !has_trend || !counts;
}

static int judge(const soak *s, const eitp_run_report *report) {
    int is_good = report->lost_records == 0 && s->events[EITP_EVENT_SAVED] > 0;
    printf("%d steps of %.1f ms, %d evaluations, %d checkpoints, %d alarms, %d records lost; from minute %.1f:\n",
           (int)s->count, 60e3 * s->at[s->count - 1] / (double)s->count, s->events[EITP_EVENT_EVALUATION],
           s->events[EITP_EVENT_SAVED], s->events[EITP_EVENT_ALARM], (int)report->lost_records, s->minutes / 6);
    is_good &= judge_memory(s);
    is_good &= judge_ratio(s, "processor time of steps, relative to the loop", s->ratios, s->judges_times);
    is_good &= judge_ratio(s, "time of steps on the clock, relative to the loop", s->wall_ratios, 0);
    return is_good;
}

/* ---- ---- */

static eitp_run_config configuration(soak *s, const char *directory) {
    eitp_run_config config = eitp_run_config_default();
    config.directory = directory;
    config.steps = MOST_STEPS;
    config.eval_steps = config.save_steps = EVERY;
    config.async_save_bytes = (uint64_t)1 << 26;
    config.keep_best = "loss";
    config.report_to = "jsonl,csv,tensorboard";
    config.listener.user = s;
    config.listener.notify = notice;
    return config;
}

/* A step of some 10 ms, with a thread that reads the samples. */
static eitp_status make_small_run(run *r, const eitp_host *host, const char *directory) {
    variant v = default_variant();
    eitp_status status;
    v.threads = 1;
    v.batch_size = 8;
    v.data_workers = 1;
    status = make_run(r, host, &v, directory, &error_);
    if (status)
        return status;
    eitp_trainer_destroy(r->trainer);
    r->trainer = NULL;
    r->config.schedule.kind = EITP_SCHEDULE_CONSTANT;
    r->config.schedule.peak = 1e-3;
    return eitp_trainer_create(&r->task, &r->config, &r->trainer, &error_);
}

static int soak_in(soak *s, const char *directory) {
    const eitp_host host = eitp_host_default();
    char output[600];
    eitp_run_config config;
    eitp_run_report report;
    run r;
    int is_good = 0;
    snprintf(output, sizeof output, "%s/out", directory);
    config = configuration(s, output);
    if (!write_text(directory) || make_small_run(&r, &host, directory) ||
        eitp_run_open(&host, &config, &s->run, &error_)) {
        printf("FAILED %s\n", error_.message);
        return 0;
    }
    s->began = s->since = now();
    if (eitp_run_train(s->run, r.trainer, &report, &error_))
        printf("FAILED %s\n", error_.message);
    else
        is_good = judge(s, &report);
    eitp_run_close(s->run);
    end_run(&r);
    return is_good;
}

static int read_argument(soak *s, const char *argument) {
    const char *value = strchr(argument, '=') ? strchr(argument, '=') + 1 : "";
    if (!strncmp(argument, "minutes=", 8))
        s->minutes = atof(value);
    else if (!strncmp(argument, "leak=", 5))
        s->leak = atof(value);
    else if (!strncmp(argument, "slower=", 7))
        s->slower = atof(value);
    else if (!strcmp(argument, "times=no"))
        s->judges_times = 0;
    else
        return 0;
    return 1;
}

/* Touches the memory of the series now, so that it does not grow during the run. */
static int set_up(soak *s, int count, char **arguments) {
    double **const series[] = {&s->steps, &s->at, &s->ratios, &s->wall_ratios, &s->resident};
    memset(s, 0, sizeof *s);
    s->minutes = 30;
    s->judges_times = 1;
    for (int i = 2; i < count; i++) {
        if (!read_argument(s, arguments[i]))
            return 0;
    }
    for (size_t i = 0; i < sizeof series / sizeof *series; i++) {
        *series[i] = (double *)malloc(MOST_STEPS * sizeof(double));
        if (!*series[i])
            return 0;
        memset(*series[i], 1, MOST_STEPS * sizeof(double));
    }
    prepare_loop(&s->loop);
    return count > 1 && s->minutes > 0;
}

int main(int count, char **arguments) {
    static soak s;
    if (!set_up(&s, count, arguments)) {
        fprintf(stderr, "usage: soak DIRECTORY [minutes=30] [leak=BYTES] [slower=PERCENT] [times=no]\n");
        return 2;
    }
    return !soak_in(&s, arguments[1]);
}
