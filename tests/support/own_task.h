/* A task built from ops, with every kind of input and the loss terms selected by the test, and its loss and gradient in
   double. */
#ifndef EITP_TEST_OWN_TASK_H
#define EITP_TEST_OWN_TASK_H

#include "tests/support/trainer_run.h"

enum { OWN_WIDTH = 5, OWN_SAMPLES = 23, OWN_VALIDATION = 7, OWN_ROWS = 5 };

/* The parts added by `build`, in this order. */
enum {
    OWN_ROW = 1,     /* term "row": one value for each row */
    OWN_SAMPLE = 2,  /* term "sample": one value for each labelled sample */
    OWN_NUMBER = 4,  /* term "number": the sum of "row" */
    OWN_SQUARES = 8, /* term "squares": predictions squared, for each row */
    OWN_SUMMED = 16, /* term "summed": "row" and 0.3 "squares" in one */
    OWN_EMPTY = 32,  /* terms "empty rows", "empty samples": their number, with weight 0 */
    OWN_METRICS = 64 /* metrics "row size", "sample size", "total" */
};

enum { OWN_EMPTY_MARK = -5, OWN_NO_LABEL = -1 };

typedef struct own {
    eitp_context *context;
    eitp_task task;
    eitp_trainer_config config;
    eitp_trainer *trainer;
    int parts;
    eitp_schedule weight;            /* of "sample" and "squares" */
    eitp_metric_direction direction; /* of "row size" and "sample size" */
    int64_t nan_sample;              /* the sample whose target is NaN; -1: none */
    int64_t unlabelled_before;       /* samples below this have no label, and of the others every third has one */
    eitp_status build_fails, read_fails, identify_fails, save_fails;
    int is_silent; /* a failing read does not set the error */
    int reads;
    eitp_task_identity identity;
} own;

/* Synthetic data: a value in [-1, 1) for each position of each sample. */
static RUN_UNUSED float own_value(eitp_split split, uint64_t number, int64_t place) {
    uint64_t state = (number * 1000 + (uint64_t)place) * 2 + (uint64_t)split + 12345;
    state = state * 6364136223846793005u + 1442695040888963407u;
    state = (state ^ (state >> 29)) * 0xbf58476d1ce4e5b9u;
    return (float)((double)(state >> 40) / 8388608.0 - 1);
}

static RUN_UNUSED int64_t own_rows(const own *o, eitp_split split, uint64_t number) {
    return o->task.rows_vary ? 1 + (int64_t)(number * 7 + (uint64_t)split) % o->task.rows : o->task.rows;
}

static RUN_UNUSED float own_input(eitp_split split, uint64_t number, int64_t row, int64_t column) {
    return own_value(split, number, row * OWN_WIDTH + column);
}

static RUN_UNUSED float own_target(const own *o, eitp_split split, uint64_t number, int64_t row) {
    return (int64_t)number == o->nan_sample && row == 0 ? (float)NAN : own_value(split, number, 500 + row);
}

static RUN_UNUSED int32_t own_label(const own *o, uint64_t number) {
    return number % 3 == 2 || (int64_t)number < o->unlabelled_before ? OWN_NO_LABEL : (int32_t)(number % 3);
}

static RUN_UNUSED eitp_status own_read(void *user, eitp_split split, uint64_t number, eitp_sample *sample,
                                       eitp_error *why) {
    own *o = (own *)user;
    float *x = (float *)sample->values[0], *target = (float *)sample->values[1], *counts = (float *)sample->values[2];
    int64_t *mark = (int64_t *)sample->values[3];
    if (o->read_fails && o->reads++ == 2)
        return o->is_silent ? o->read_fails : eitp__fail(why, o->read_fails, "sample %d is torn", (int)number);
    sample->rows = own_rows(o, split, number);
    for (int64_t row = 0; row < sample->rows; row++) {
        for (int64_t i = 0; i < OWN_WIDTH; i++)
            x[row * OWN_WIDTH + i] = own_input(split, number, row, i);
        target[row] = own_target(o, split, number, row);
        counts[row] = 1;
        mark[row] = (int64_t)number;
    }
    for (int64_t i = 0; i < OWN_WIDTH; i++)
        ((float *)sample->values[4])[i] = own_value(split, number, 700 + i);
    *(int32_t *)sample->values[5] = own_label(o, number);
    for (int q = 0; q < EITP_MAX_PASS_QUANTITIES; q++)
        sample->items[q] = sample->rows;
    if (o->parts & OWN_SAMPLE)
        sample->items[o->parts & OWN_ROW ? 1 : 0] = own_label(o, number) >= 0;
    if (o->parts & OWN_METRICS) /* two terms precede them */
        sample->items[3] = 1;
    return EITP_OK;
}

/* 1 for -1, the value of `empty`, and 0 for values of 0 or more. */
static RUN_UNUSED eitp_tensor *own_is_below_zero(eitp_tensor *x) {
    return eitp_affine(eitp_clamp(eitp_affine(eitp_cast(x, EITP_F32), 1, 1), 0, 1), -1, 1);
}

static RUN_UNUSED eitp_status own_build(void *user, eitp_pass *pass, eitp_error *why) {
    static const int64_t width[] = {OWN_WIDTH}, one[] = {1}, column[] = {OWN_WIDTH, 1};
    const own *o = (const own *)user;
    const eitp_schedule none = EITP__ZERO;
    eitp_graph *graph = eitp_pass_graph(pass);
    const eitp_dtype precision = eitp_context_precision(o->context);
    eitp_tensor *x = eitp_pass_row_input(pass, "x", EITP_F32, 1, width, 7);
    eitp_tensor *target = eitp_pass_row_input(pass, "target", EITP_F32, 1, one, 0.5);
    eitp_tensor *counts = eitp_pass_row_input(pass, "counts", EITP_F32, 1, one, 0);
    eitp_tensor *mark = eitp_pass_row_input(pass, "mark", EITP_I64, 1, one, OWN_EMPTY_MARK);
    eitp_tensor *s = eitp_pass_sample_input(pass, "s", EITP_F32, 1, width, 3);
    eitp_tensor *label = eitp_pass_sample_input(pass, "label", EITP_I32, 1, one, OWN_NO_LABEL);
    eitp_tensor *w = eitp_parameter(graph, "w", 2, column), *u = eitp_parameter(graph, "u", 2, column);
    eitp_tensor *predicted = eitp_cast(eitp_matmul(eitp_cast(x, precision), eitp_cast(w, precision)), EITP_F32);
    eitp_tensor *guess = eitp_cast(eitp_matmul(eitp_cast(s, precision), eitp_cast(u, precision)), EITP_F32), *row,
                *sample, *squares;
    row = eitp_subtract(predicted, target);
    row = eitp_multiply(counts, eitp_multiply(row, row));
    squares = eitp_multiply(counts, eitp_multiply(predicted, predicted));
    sample = eitp_subtract(guess, eitp_cast(label, EITP_F32));
    sample = eitp_multiply(eitp_affine(own_is_below_zero(label), -1, 1), eitp_multiply(sample, sample));
    if (o->parts & OWN_ROW)
        eitp_pass_term(pass, "row", row, NULL);
    if (o->parts & OWN_SAMPLE)
        eitp_pass_term(pass, "sample", sample, &o->weight);
    if (o->parts & OWN_NUMBER)
        eitp_pass_term(pass, "number", eitp_sum(row, EITP_ALL_DIMENSIONS, 0), NULL);
    if (o->parts & OWN_SQUARES)
        eitp_pass_term(pass, "squares", squares, &o->weight);
    if (o->parts & OWN_SUMMED)
        eitp_pass_term(pass, "summed", eitp_add(row, eitp_affine(squares, 0.3, 0)), NULL);
    if (o->parts & OWN_EMPTY) {
        eitp_pass_term(pass, "empty rows", eitp_sum(own_is_below_zero(mark), EITP_ALL_DIMENSIONS, 0), &none);
        eitp_pass_term(pass, "empty samples", eitp_sum(own_is_below_zero(label), EITP_ALL_DIMENSIONS, 0), &none);
    }
    if (o->parts & OWN_METRICS) {
        eitp_pass_metric(pass, "row size", eitp_multiply(counts, eitp_abs(predicted)), o->direction);
        eitp_pass_metric(pass, "sample size", eitp_abs(guess), o->direction);
        eitp_pass_metric(pass, "total", eitp_sum(row, EITP_ALL_DIMENSIONS, 0), EITP_DIRECTION_UNKNOWN);
    }
    if (o->build_fails)
        return eitp__fail(why, o->build_fails, "nothing to build with");
    return eitp_graph_status(graph, why);
}

static RUN_UNUSED eitp_status own_identify(void *user, eitp_task_identity *identity, eitp_error *why) {
    const own *o = (const own *)user;
    *identity = o->identity;
    return o->identify_fails ? eitp__fail(why, o->identify_fails, "the data have no name") : EITP_OK;
}

static RUN_UNUSED eitp_status own_save(void *user, const char *directory, eitp_error *why) {
    const own *o = (const own *)user;
    (void)directory;
    return o->save_fails ? eitp__fail(why, o->save_fails, "labels cannot be written") : EITP_OK;
}

/* Creates a context and its task. own_train creates the trainer. */
static RUN_UNUSED eitp_status own_begin(own *o, const eitp_host *host, const char *precision, int parts,
                                        eitp_error *why) {
    eitp_context_config context = eitp_context_config_default();
    memset(o, 0, sizeof *o);
    context.host = *host;
    context.threads = 1;
    context.precision = precision;
    o->parts = parts;
    o->nan_sample = -1;
    o->identity.hash = 77;
    o->identity.count = OWN_SAMPLES;
    o->weight.peak = 0.3;
    o->config = eitp_trainer_config_default();
    o->config.batch_size = 2;
    o->config.grad_accum = 3;
    o->config.max_grad_norm = 0;
    o->config.schedule.peak = 0.05;
    o->config.shuffle = EITP_SHUFFLE_NONE;
    o->task.user = o;
    o->task.rows = OWN_ROWS;
    o->task.samples[EITP_TRAINING] = OWN_SAMPLES;
    o->task.samples[EITP_VALIDATION] = OWN_VALIDATION;
    o->task.build = own_build;
    o->task.read = own_read;
    o->task.identify = own_identify;
    o->task.save = own_save;
    o->task.allows_gaps = 1;
    return o->task.context = NULL, eitp_context_create(&context, &o->context, why);
}

/* Initial weights: w[i] = 0.1 i - 0.2, u[i] = 0.3 - 0.1 i. */
static RUN_UNUSED eitp_status own_train(own *o, eitp_error *why) {
    float w[OWN_WIDTH], u[OWN_WIDTH];
    eitp_status status;
    o->task.context = o->context;
    status = eitp_trainer_create(&o->task, &o->config, &o->trainer, why);
    for (int i = 0; i < OWN_WIDTH; i++) {
        w[i] = (float)(0.1 * i - 0.2);
        u[i] = (float)(0.3 - 0.1 * i);
    }
    if (!status)
        status = eitp_variable_write_f32(o->context, "w", 0, w, OWN_WIDTH, why);
    return status ? status : eitp_variable_write_f32(o->context, "u", 0, u, OWN_WIDTH, why);
}

static RUN_UNUSED void own_end(own *o) {
    eitp_trainer_destroy(o->trainer);
    eitp_context_destroy(o->context);
    o->trainer = NULL;
    o->context = NULL;
}

/* ---- The same values in double, with the initial weights ---- */

static RUN_UNUSED double own_dot(const double *w, const float *x) {
    double sum = 0;
    for (int i = 0; i < OWN_WIDTH; i++)
        sum += w[i] * (double)x[i];
    return sum;
}

static RUN_UNUSED double own_predict(eitp_split split, uint64_t number, int64_t row) {
    double w[OWN_WIDTH];
    float x[OWN_WIDTH];
    for (int i = 0; i < OWN_WIDTH; i++) {
        w[i] = (double)(float)(0.1 * i - 0.2);
        x[i] = own_input(split, number, row, i);
    }
    return own_dot(w, x);
}

static RUN_UNUSED double own_guess(eitp_split split, uint64_t number) {
    double u[OWN_WIDTH];
    float s[OWN_WIDTH];
    for (int i = 0; i < OWN_WIDTH; i++) {
        u[i] = (double)(float)(0.3 - 0.1 * i);
        s[i] = own_value(split, number, 700 + i);
    }
    return own_dot(u, s);
}

/* The sum of "row" over the rows of a sample, and the value of "sample". */
static RUN_UNUSED double own_row_loss(const own *o, eitp_split split, uint64_t number) {
    double sum = 0;
    for (int64_t row = 0; row < own_rows(o, split, number); row++) {
        const double miss = own_predict(split, number, row) - (double)own_target(o, split, number, row);
        sum += miss * miss;
    }
    return sum;
}

static RUN_UNUSED double own_sample_loss(const own *o, eitp_split split, uint64_t number) {
    const double miss = own_guess(split, number) - own_label(o, number);
    return own_label(o, number) < 0 ? 0 : miss * miss;
}

static RUN_UNUSED int own_near(double a, double b, double tolerance) {
    return fabs(a - b) <= tolerance * (1 + fabs(b));
}

#endif
