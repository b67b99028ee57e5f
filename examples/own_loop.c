/*
 * Demonstrates your own training loop with the services of a run: records, timings, alarms, and the guard against
 * memory shortage and overheating. `train` is a plain loop, and `train_watched` is the same with 10 lines more. Both
 * end with the same bits.
 * Compile and run:
 *     cc -O2 -I. examples/own_loop.c -lm -o own_loop && ./own_loop DIRECTORY
 * Afterwards, DIRECTORY/watched has metrics.jsonl. Stop it at any time and run it again to resume from the last
 * checkpoints.
 */
#define EITP_IMPLEMENTATION
#include "eitp.h"

#include <math.h>
#include <stdio.h>

enum { STEPS = 300, EVERY = 100, PATH_SIZE = 1000 };

static eitp_error error;

/* ---- Without ---- */

static eitp_status train(eitp_trainer *trainer, const char *directory) {
    eitp_step_report step;
    eitp_evaluation evaluation;
    eitp_status status = EITP_OK;
    while (!status && eitp_trainer_steps_done(trainer) < STEPS) {
        status = eitp_trainer_step(trainer, &step, &error);
        if (!status && step.step % EVERY == 0)
            status = eitp_trainer_evaluate(trainer, 0, &evaluation, &error);
        if (!status && step.step % EVERY == 0)
            status = eitp_trainer_save(trainer, directory, &error);
    }
    return status;
}

/* ---- With ---- */

static eitp_status save(void *trainer, const char *directory, eitp_error *why) {
    return eitp_trainer_save((eitp_trainer *)trainer, directory, why);
}

static eitp_status train_watched(const eitp_host *host, eitp_trainer *trainer, const char *directory) {
    eitp_run_config config = eitp_run_config_default();
    eitp_watch *watch = NULL;
    eitp_step_report step;
    eitp_evaluation evaluation;
    eitp_status status;
    config.directory = directory;
    config.save = save;
    config.save_user = trainer;
    status = eitp_watch_open(host, &config, trainer, &watch, &error);
    while (!status && eitp_trainer_steps_done(trainer) < STEPS) {
        status = eitp_watch_step(watch, &step, &error);
        if (!status && step.step % EVERY == 0)
            status = eitp_watch_evaluate(watch, 0, &evaluation, &error);
        if (!status && step.step % EVERY == 0)
            status = eitp_watch_save(watch, &error);
    }
    eitp_watch_close(watch);
    return status;
}

/* ---- The model of both: a small network that learns the sine (examples/hello.c) ---- */

static eitp_status build(void *user, eitp_pass *pass, eitp_error *why) {
    static const int64_t one[] = {1}, wide[] = {1, 32}, tall[] = {32, 1};
    eitp_graph *graph = eitp_pass_graph(pass);
    eitp_tensor *x = eitp_pass_row_input(pass, "x", EITP_F32, 1, one, 0);
    eitp_tensor *y = eitp_pass_row_input(pass, "y", EITP_F32, 1, one, 0);
    eitp_tensor *weight = eitp_parameter(graph, "weight", 2, wide);
    eitp_tensor *head = eitp_parameter(graph, "head", 2, tall);
    eitp_tensor *miss = eitp_subtract(eitp_matmul(eitp_tanh(eitp_matmul(x, weight)), head), y);
    (void)user;
    eitp_pass_term(pass, "squared error", eitp_multiply(miss, miss), NULL);
    return eitp_graph_status(graph, why);
}

static eitp_status draw(void *user, eitp_split split, uint64_t number, eitp_sample *sample, eitp_error *why) {
    float *x = (float *)sample->values[0], *y = (float *)sample->values[1];
    (void)user, (void)why;
    *x = split == EITP_TRAINING ? 6 * (float)number / 999 - 3 : 6 * (float)number / 99 - 3;
    *y = sinf(*x);
    return EITP_OK;
}

/* Resumes from the newest intact checkpoint, if there is one. */
static eitp_status resume(const eitp_host *host, eitp_trainer *trainer, const char *directory) {
    char checkpoint[PATH_SIZE];
    int64_t step = -1;
    const eitp_status status = eitp_checkpoint_recover(host, directory, &step, &error);
    if (status || step < 0)
        return status;
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-%lld", directory, (long long)step);
    return eitp_trainer_resume(trainer, checkpoint, &error);
}

static eitp_status train_in(const char *directory, int is_watched) {
    eitp_context_config settings = eitp_context_config_default();
    eitp_trainer_config config = eitp_trainer_config_default();
    eitp_task task = {0};
    eitp_trainer *trainer = NULL;
    eitp_status status;
    settings.threads = 1;
    status = eitp_context_create(&settings, &task.context, &error);
    task.rows = 1;
    task.samples[EITP_TRAINING] = 1000;
    task.samples[EITP_VALIDATION] = 100;
    task.build = build;
    task.read = draw;
    config.schedule.peak = 0.01;
    if (!status)
        status = eitp_trainer_create(&task, &config, &trainer, &error);
    if (!status)
        status = eitp_variable_fill_normal(task.context, "weight", 0, 1, 1, &error); /* the others start at 0 */
    if (!status)
        status = resume(&settings.host, trainer, directory);
    if (!status)
        status = is_watched ? train_watched(&settings.host, trainer, directory) : train(trainer, directory);
    eitp_trainer_destroy(trainer);
    eitp_context_destroy(task.context);
    return status;
}

int main(int count, char **arguments) {
    char plain[PATH_SIZE / 2], watched[PATH_SIZE / 2];
    if (count != 2 || snprintf(plain, sizeof plain, "%s/plain", arguments[1]) >= (int)sizeof plain ||
        snprintf(watched, sizeof watched, "%s/watched", arguments[1]) >= (int)sizeof watched) {
        fprintf(stderr, "usage: own_loop DIRECTORY\n");
        return 2;
    }
    if (train_in(plain, 0) || train_in(watched, 1)) {
        fprintf(stderr, "own_loop: %s\n", error.message);
        return 1;
    }
    printf("trained for %d steps in %s and in %s\n", (int)STEPS, plain, watched);
    return 0;
}
