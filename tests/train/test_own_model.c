/* A program's own model with planner, budget, accumulation, checkpoints, a kill and a resume. */
#include "tests/support/everything.h"
#include "tests/support/faults.h"
#include "tests/support/test.h"
#include <signal.h>
#include <sys/wait.h>

enum { WIDTH = 24, HIDDEN = 96, SAMPLES = 2000, STEPS = 12 };

static eitp_error error;
static char directory[512];
static int threads = 2;

/* An autoencoder of rows, with a penalty on hidden values whose weight grows during the run. */
static eitp_status build(void *user, eitp_pass *pass, eitp_error *why) {
    static const int64_t width[] = {WIDTH}, hidden[] = {HIDDEN}, encode[] = {WIDTH, HIDDEN}, decode[] = {HIDDEN, WIDTH};
    const eitp_schedule rising = {EITP_SCHEDULE_CONSTANT, 0.1, 0, STEPS, 0, 0, 0};
    eitp_graph *graph = ((void)user, eitp_pass_graph(pass));
    eitp_tensor *x = eitp_pass_row_input(pass, "x", EITP_F32, 1, width, 0), *key = eitp_pass_key(pass), *y, *miss;
    eitp_tensor *code = eitp_linear(x, eitp_parameter(graph, "encode", 2, encode),
                                    eitp_parameter(graph, "encode bias", 1, hidden), EITP_TANH);
    y = eitp_linear(key ? eitp_dropout(code, key, 0.2) : code, eitp_parameter(graph, "decode", 2, decode),
                    eitp_parameter(graph, "decode bias", 1, width), EITP_NO_ACTIVATION);
    miss = eitp_subtract(y, x);
    eitp_pass_term(pass, "reconstruction", eitp_sum(eitp_multiply(miss, miss), 2, 0), NULL);
    eitp_pass_term(pass, "activity", eitp_mean(eitp_multiply(code, code), 2, 0), &rising);
    eitp_pass_metric(pass, "largest", eitp_max(eitp_multiply(miss, miss), 2, 0), EITP_LOWER_IS_BETTER);
    return eitp_graph_status(graph, why);
}

static eitp_status read_sample(void *user, eitp_split split, uint64_t number, eitp_sample *sample, eitp_error *why) {
    float *x = (float *)sample->values[0];
    for (int i = 0; i < WIDTH; i++)
        x[i] = sinf((float)(i + 1) * (float)(number % 17) / 5 + (float)split);
    return (void)user, (void)why, EITP_OK;
}

static eitp_status make_task(const void *user, eitp_context *context, eitp_task *task, eitp_error *why) {
    memset(task, 0, sizeof *task);
    task->context = context;
    task->rows = 1;
    task->samples[EITP_TRAINING] = SAMPLES;
    task->samples[EITP_VALIDATION] = 20;
    task->build = build;
    task->read = read_sample;
    return (void)user, (void)why, EITP_OK;
}

static eitp_fit describe(void) {
    eitp_fit fit = eitp_fit_default();
    fit.context = eitp_context_config_default();
    fit.context.threads = threads;
    fit.trainer = eitp_trainer_config_default();
    fit.trainer.batch_size = 64;
    fit.trainer.grad_accum = 4;
    fit.trainer.schedule.peak = 0.01;
    fit.create_task = make_task;
    fit.process = 1000000;
    return fit;
}

typedef struct run {
    eitp_context *context;
    eitp_trainer *trainer;
    eitp_step_report report;
} run;

/* Starts, or resumes from the newest checkpoint, within `budget` bytes. */
static eitp_status begin(run *r, size_t budget, const char *output, eitp_fit_candidate *rung) {
    eitp_fit fit = describe();
    eitp_task task;
    int64_t newest = -1;
    char path[700];
    eitp_status status = (fit.budget = budget, eitp_fit_choose(&fit, rung, NULL, &error));
    memset(r, 0, sizeof *r);
    fit.trainer.micro_batches_per_pass = rung->micro_batches_per_pass;
    fit.trainer.plan = rung->plan;
    if (!status)
        status = eitp_context_create(&fit.context, &r->context, &error);
    if (!status)
        status = make_task(NULL, r->context, &task, &error);
    if (!status)
        status = eitp_trainer_create(&task, &fit.trainer, &r->trainer, &error);
    if (!status)
        status = eitp_variable_fill_normal(r->context, "encode", 0, 0.2, 5, &error);
    if (!status)
        status = eitp_variable_fill_normal(r->context, "decode", 0, 0.2, 5, &error);
    if (!status)
        status = eitp_checkpoint_newest(&fit.context.host, output, &newest, &error);
    if (!status && newest >= 0) {
        snprintf(path, sizeof path, "%s/checkpoint-%d", output, (int)newest);
        status = eitp_trainer_resume(r->trainer, path, &error);
    }
    return status;
}

/* Trains to the end, saving after each step. Returns the checksum of the final weights, or 0 after a failure. */
static uint32_t train(size_t budget, const char *output, eitp_fit_candidate *rung, run *r) {
    eitp_status status = begin(r, budget, output, rung);
    float weights[WIDTH * HIDDEN];
    while (!status && eitp_trainer_steps_done(r->trainer) < STEPS) {
        status = eitp_trainer_step(r->trainer, &r->report, &error);
        if (!status)
            status = eitp_trainer_save(r->trainer, output, &error);
    }
    if (!status)
        status = eitp_variable_read_f32(r->context, "encode", 0, weights, WIDTH * HIDDEN, &error);
    CHECK_THAT(!status, "%s", error.message);
    eitp_trainer_destroy(r->trainer);
    eitp_context_destroy(r->context);
    return status ? 0 : eitp__crc32c(0, weights, sizeof weights);
}

static void a_killed_and_resumed_run_has_the_same_bits(void) {
    eitp_fit_candidate free_rung, rung;
    run straight, other;
    uint32_t expected;
    char output[600];
    REQUIRE(scratch_make(directory));
    snprintf(output, sizeof output, "%s/straight", directory);
    expected = train(0, output, &free_rung, &straight);
    CHECK(straight.report.term_count == 2 && !strcmp(straight.report.terms[1].name, "activity"));
    CHECK(straight.report.terms[1].weight > 0.099 && straight.report.items == 256);
    CHECK(fabs(straight.report.loss - straight.report.terms[0].mean -
               straight.report.terms[1].weight * straight.report.terms[1].mean) < 1e-12);
    for (int kill_at = 1; kill_at < STEPS; kill_at += 5) {
        pid_t child = fork();
        snprintf(output, sizeof output, "%s/killed-%d", directory, kill_at);
        if (!child) {
            run r;
            threads = 1; /* OpenMP threads do not survive a fork */
            begin(&r, free_rung.total - free_rung.arena / 4, output, &rung);
            while (!eitp_trainer_step(r.trainer, &r.report, &error) && !eitp_trainer_save(r.trainer, output, &error))
                if (r.report.step == kill_at)
                    raise(SIGKILL); /* after its last save */
            _exit(1);
        }
        CHECK(child > 0 && waitpid(child, NULL, 0) == child);
        CHECK(train(free_rung.total - free_rung.arena / 4, output, &rung, &other) == expected);
        CHECK(rung.total < free_rung.total && other.report.step == STEPS && other.report.loss == straight.report.loss);
    }
    scratch_remove(directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {TEST(a_killed_and_resumed_run_has_the_same_bits)};
    return RUN_TESTS(tests, argc, argv);
}
