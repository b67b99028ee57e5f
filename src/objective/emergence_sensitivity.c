/* Sensitivity of the blocks to their input: exponents of the Jacobian of probes. */
#include "objective/emergence_state.h"
#include "objective/jacobian.h"

/* The plan and buffers for one sequence of up to `rows` tokens. */
typedef struct eitp__sensing {
    eitp__hidden_pass pass;
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_tensor *states, *lengths, *signs, *start;             /* inputs, [1, rows, width] in F32 */
    eitp_tensor *squares, *exponent, *relative, *max, *vector; /* outputs */
    float *values;                                             /* [3, rows, width]: states, signs, start */
    eitp__sampled frobenius, without_growth, largest;
} eitp__sensing;

static size_t eitp__sensing_bytes(const eitp__emergence *e) {
    return (size_t)(e->probe_rows * e->width) * sizeof(float);
}

static eitp_status eitp__sensing_build(const eitp__emergence *e, eitp__sensing *s, eitp_error *error) {
    const eitp_dtype dtype = eitp_context_precision(e->model->context);
    const int64_t shape[3] = {1, e->probe_rows, e->width}, one = 1;
    eitp_graph *graph = s->graph;
    eitp__jacobian_config config = EITP__ZERO;
    eitp__sensitivity sensitivity;
    eitp__largest_exponent largest;
    s->states = eitp_input(graph, "states", EITP_F32, 3, shape);
    s->signs = eitp_input(graph, "signs", EITP_F32, 3, shape);
    s->start = eitp_input(graph, "start", EITP_F32, 3, shape);
    s->lengths = eitp_input(graph, "lengths", EITP_I32, 1, &one);
    config.function = eitp__model_function(e->model);
    config.states = eitp_cast(s->states, dtype);
    config.lengths = s->lengths;
    sensitivity = eitp__jacobian_sensitivity(&config, eitp_cast(s->signs, dtype));
    largest = eitp__jacobian_largest(&config, eitp_cast(s->start, dtype), 1);
    s->squares = eitp_output(sensitivity.squares);
    s->exponent = eitp_output(sensitivity.exponent);
    s->relative = eitp_output(sensitivity.relative);
    s->max = eitp_output(largest.exponent);
    s->vector = eitp_output(eitp_cast(largest.vector, EITP_F32));
    return eitp_graph_status(graph, error);
}

static eitp_status eitp__sensing_open(const eitp__emergence *e, eitp__sensing *s, eitp_error *error) {
    eitp_status status;
    memset(s, 0, sizeof *s);
    s->values = (float *)eitp__allocate(&e->host, 3 * eitp__sensing_bytes(e));
    if (!s->values)
        return eitp__fail_memory(error, 3 * eitp__sensing_bytes(e), "the sensitivity of a model");
    status = eitp__hidden_pass_create(&s->pass, e->model, e->probe_rows, e->segments_at >= 0, 1, error);
    if (!status)
        status = eitp_graph_create(e->model->context, &s->graph, error);
    if (!status)
        status = eitp__sensing_build(e, s, error);
    return status ? status : eitp_plan_create(s->graph, &s->plan, error);
}

static void eitp__sensing_close(const eitp__emergence *e, eitp__sensing *s) {
    eitp__hidden_pass_release(&s->pass);
    eitp_plan_destroy(s->plan);
    eitp_graph_destroy(s->graph);
    eitp__release(&e->host, s->values, 3 * eitp__sensing_bytes(e));
}

/* The results of one execution. */
typedef struct eitp__sensed {
    float squares, exponent, relative, max;
} eitp__sensed;

/* Executes the plan, and replaces the start of power iteration by the vector found. */
static eitp_status eitp__sense_once(const eitp__emergence *e, eitp__sensing *s, int32_t count, eitp__sensed *sensed,
                                    eitp_error *error) {
    const size_t bytes = eitp__sensing_bytes(e), elements = bytes / sizeof(float);
    eitp_tensor *const outputs[] = {s->squares, s->exponent, s->relative, s->max};
    float *const results[] = {&sensed->squares, &sensed->exponent, &sensed->relative, &sensed->max};
    eitp_tensor *const inputs[] = {s->states, s->signs, s->start};
    eitp_status status = eitp__context_poll(e->model->context, error);
    for (size_t i = 0; i < EITP__COUNT(inputs) && !status; i++)
        status = eitp_plan_write(s->plan, inputs[i], s->values + i * elements, bytes, error);
    if (!status)
        status = eitp_plan_write(s->plan, s->lengths, &count, sizeof count, error);
    if (!status)
        status = eitp_plan_execute(s->plan, error);
    for (size_t i = 0; i < EITP__COUNT(outputs) && !status; i++)
        status = eitp_plan_read(s->plan, outputs[i], results[i], sizeof *results[i], error);
    return status ? status : eitp_plan_read(s->plan, s->vector, s->values + 2 * elements, bytes, error);
}

/* Draws random signs, different in each round. Power iteration starts from the signs of round 0. */
static void eitp__draw_signs(const eitp__emergence *e, int64_t probe, int64_t round, float *signs) {
    const uint64_t stream = ((uint64_t)probe << 20) | (uint64_t)round;
    for (int64_t i = 0; i < e->probe_rows * e->width; i++)
        signs[i] = eitp__emergence_uniform(e, EITP__DRAW_SIGNS, stream, (uint64_t)i) < 0.5 ? -1.0f : 1.0f;
}

/* Measures a probe of `count` tokens whose states are in s->values. */
static eitp_status eitp__sense(const eitp__emergence *e, eitp__sensing *s, int64_t probe, int64_t count,
                               eitp_error *error) {
    const size_t elements = (size_t)(e->probe_rows * e->width);
    const double layers = (double)e->model->config.layers, rounds = (double)e->config->sensitivity_rounds;
    double squares = 0, frobenius;
    eitp__sensed sensed = EITP__ZERO;
    eitp_status status = EITP_OK;
    for (int64_t round = 0; round < e->config->sensitivity_rounds && !status; round++) {
        eitp__draw_signs(e, probe, round, s->values + elements);
        if (!round)
            memcpy(s->values + 2 * elements, s->values + elements, elements * sizeof *s->values);
        status = eitp__sense_once(e, s, (int32_t)count, &sensed, error);
        squares += (double)sensed.squares / rounds;
    }
    if (status)
        return status;
    frobenius = log(squares / (double)(count * e->width)) / (2 * layers);
    eitp__sampled_add_defined(&s->frobenius, frobenius);
    eitp__sampled_add_defined(&s->without_growth, frobenius - ((double)sensed.exponent - (double)sensed.relative));
    eitp__sampled_add_defined(&s->largest, (double)sensed.max);
    return EITP_OK;
}

/* Reads the input of the first block for a probe into s->values, with zeros after its rows. */
static eitp_status eitp__sensing_read(eitp__emergence *e, eitp__sensing *s, int64_t probe, int64_t *count,
                                      eitp_error *error) {
    eitp_status status = eitp__emergence_read_probe(e, probe, count, error);
    if (status)
        return status;
    *count = *count < e->probe_rows ? *count : e->probe_rows;
    memset(s->values, 0, eitp__sensing_bytes(e));
    status = eitp__hidden_pass_execute(&s->pass, eitp__emergence_sample_tokens(e), eitp__emergence_sample_segments(e),
                                       *count, error);
    return status ? status : eitp__hidden_pass_read(&s->pass, s->pass.first, *count, e->width, s->values, error);
}

EITP__PRIVATE eitp_status eitp__emergence_sensitivity(eitp__emergence *e, eitp_error *error) {
    static const char reason[] = "the Jacobian of the blocks is 0, or not finite";
    eitp__sensing s;
    eitp_status status;
    if (!e->probes || !e->probe_rows || !e->config->sensitivity_rounds)
        return eitp__report_omission(e->report, "sensitivity", "no probes or rounds were requested", error);
    status = eitp__sensing_open(e, &s, error);
    for (int64_t probe = 0; probe < e->probes && !status; probe++) {
        int64_t count;
        status = eitp__sensing_read(e, &s, probe, &count, error);
        if (!status)
            status = eitp__sense(e, &s, probe, count, error);
    }
    if (!status)
        status = eitp__report_sampled(e->report, "sensitivity", "lambda_f", &s.frobenius, reason, error);
    if (!status)
        status = eitp__report_sampled(e->report, "sensitivity", "lambda_f_relative", &s.without_growth, reason, error);
    if (!status)
        status = eitp__report_sampled(e->report, "sensitivity", "lambda_max", &s.largest, reason, error);
    eitp__sensing_close(e, &s);
    return status;
}
