/*
 * Demonstrates your own task, with inputs per row and per sample, and with two metrics: a mean over samples, and R
 * squared, which is defined only for a whole evaluation. It learns the power of a wave from a few readings.
 * Compile and run:
 *     cc -O2 -I. examples/own_task.c -lm -o own_task && ./own_task
 */
#define EITP_IMPLEMENTATION
#include "eitp.h"

#include <math.h>
#include <stdio.h>

enum { FEWEST = 8, MOST = 16, WIDTH = 32, TRAINING = 2000, VALIDATION = 200, STEPS = 600 };

/* Returns a number from 0 to 1, a function of the sample and `place`. */
static double draw(eitp_split split, uint64_t number, uint64_t place) {
    uint64_t x = (number * 64 + place) * 2 + (uint64_t)split;
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return (double)(x >> 40) / (1 << 24);
}

/*
 * Fills in a sample: some readings of a wave, one per row, and its power. The buffers belong to the inputs, in the
 * order of `build`. eitp_sample.items is already 1 for the term and the metric, because each is a mean over samples.
 */
static eitp_status read_wave(void *user, eitp_split split, uint64_t number, eitp_sample *sample, eitp_error *error) {
    float *reading = (float *)sample->values[0], *power = (float *)sample->values[1];
    float *used = (float *)sample->values[2];
    const double amplitude = 2 * draw(split, number, 0);
    sample->rows = FEWEST + (int64_t)(draw(split, number, 1) * (MOST - FEWEST + 1));
    for (int64_t row = 0; row < sample->rows; row++)
        reading[row] = (float)(amplitude * sin(6.2831853 * draw(split, number, 2 + (uint64_t)row)));
    *power = (float)(amplitude * amplitude / 2);
    *used = 1;
    return (void)user, (void)error, EITP_OK;
}

/* Adds inputs, parameters, the loss, a metric and an output to the graph. */
static eitp_status build(void *user, eitp_pass *pass, eitp_error *error) {
    static const int64_t one[] = {1}, width[] = {WIDTH}, in[] = {1, WIDTH}, out[] = {WIDTH, 1};
    eitp_graph *graph = eitp_pass_graph(pass);
    eitp_tensor *reading = eitp_pass_row_input(pass, "reading", EITP_F32, 1, one, 0);
    eitp_tensor *power = eitp_pass_sample_input(pass, "power", EITP_F32, 1, one, 0);
    /* 1 for each sample, 0 in unused places, which must not count. */
    eitp_tensor *used = eitp_pass_sample_input(pass, "used", EITP_F32, 1, one, 0);
    eitp_tensor *hidden = eitp_linear(reading, eitp_parameter(graph, "hidden.weight", 2, in),
                                      eitp_parameter(graph, "hidden.bias", 1, width), EITP_GELU_TANH);
    eitp_tensor *mean = eitp_pool(hidden, eitp_pass_bounds(pass), MOST, EITP_POOLING_MEAN); /* one row per sample */
    eitp_tensor *guess = eitp_linear(mean, eitp_parameter(graph, "power.weight", 2, out),
                                     eitp_parameter(graph, "power.bias", 1, one), EITP_NO_ACTIVATION);
    eitp_tensor *miss = eitp_multiply(used, eitp_subtract(guess, power));
    eitp_pass_term(pass, "squared error", eitp_multiply(miss, miss), NULL);
    eitp_pass_metric(pass, "absolute error", eitp_abs(miss), EITP_LOWER_IS_BETTER);
    eitp_pass_output(pass, "guess", guess);
    return (void)user, eitp_graph_status(graph, error);
}

/* Sums over the samples of an evaluation. */
typedef struct sums {
    double count, power, squared_power, squared_miss;
} sums;

static size_t sums_bytes(void *user, uint64_t samples) {
    return (void)user, (void)samples, sizeof(sums);
}

/* Called for each sample, in order. */
static void observe(void *user, void *memory, const eitp_observation *observation) {
    sums *s = (sums *)memory;
    const double power = (double)*(const float *)observation->values[1];
    const double miss = (double)observation->outputs[0][0] - power;
    if (observation->index == 0)
        s->count = s->power = s->squared_power = s->squared_miss = 0;
    s->count += 1;
    s->power += power;
    s->squared_power += power * power;
    s->squared_miss += miss * miss;
    (void)user;
}

/* Called at the end. R squared is 1 - (sum of squared errors) / (sum of squared differences from the mean). */
static void compute_metrics(void *user, void *memory, eitp_metric *results) {
    const sums *s = (const sums *)memory;
    const double spread = s->squared_power - s->power * s->power / s->count;
    results[0].mean = spread > 0 ? 1 - s->squared_miss / spread : NAN; /* NaN: undefined */
    results[0].error = 0;                                              /* no standard error */
    results[0].items = (int64_t)s->count;
    (void)user;
}

static eitp_status train(const eitp_task *task, eitp_error *error) {
    eitp_trainer_config config = eitp_trainer_config_default();
    eitp_trainer *trainer = NULL;
    eitp_step_report step = {0};
    eitp_evaluation evaluation;
    eitp_status status;
    config.batch_size = 32;
    config.grad_accum = 1;
    config.schedule.peak = 0.01;
    status = eitp_trainer_create(task, &config, &trainer, error);
    if (!status)
        status = eitp_variable_fill_normal(task->context, "hidden.weight", 0, 1, 1, error);
    if (!status)
        status = eitp_variable_fill_normal(task->context, "hidden.bias", 0, 1, 2, error); /* the others start at 0 */
    while (!status && step.step < STEPS)
        status = eitp_trainer_step(trainer, &step, error);
    if (!status)
        status = eitp_trainer_evaluate(trainer, 0, &evaluation, error);
    for (int i = 0; !status && i < evaluation.metric_count; i++)
        printf("%-14s %.4f (%d samples)\n", evaluation.metrics[i].name, evaluation.metrics[i].mean,
               (int)evaluation.metrics[i].items);
    eitp_trainer_destroy(trainer);
    return status;
}

int main(void) {
    static const eitp_task_metric metrics[] = {{"r squared", EITP_HIGHER_IS_BETTER}};
    const eitp_context_config settings = eitp_context_config_default();
    eitp_task task = {0};
    eitp_error error;
    eitp_status status = eitp_context_create(&settings, &task.context, &error);
    task.rows = MOST;
    task.rows_vary = 1;
    task.allows_gaps = 1; /* eitp_pool ignores the rows between samples */
    task.samples[EITP_TRAINING] = TRAINING;
    task.samples[EITP_VALIDATION] = VALIDATION;
    task.unit = "samples";
    task.build = build;
    task.read = read_wave;
    task.metrics = metrics;
    task.metric_count = 1;
    task.observation_bytes = sums_bytes;
    task.observe = observe;
    task.compute_metrics = compute_metrics;
    if (!status)
        status = train(&task, &error);
    if (status)
        fprintf(stderr, "own_task: %s\n", error.message);
    eitp_context_destroy(task.context);
    return status != EITP_OK;
}
