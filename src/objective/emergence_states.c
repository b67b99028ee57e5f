/* Hidden states and attention of probes: dimensions, coding rate, similarity of layers, entropy of attention. */
#include "objective/dimension.h"
#include "objective/emergence_state.h"
#include "model/layers.h"

/* Statistics of the hidden states of one layer. */
typedef enum eitp__state_statistic {
    EITP__STATE_RATIO,
    EITP__STATE_RATE,
    EITP__STATE_TWO_NN,
    EITP__STATE_CORRELATION,
    EITP__STATE_R2,
    EITP__STATE_COSINE,
    EITP__STATE_STATISTICS
} eitp__state_statistic;

/* The layers that are measured. */
enum { EITP__STATE_FINAL, EITP__STATE_MIDDLE, EITP__STATE_LAYERS };

typedef struct eitp__probing {
    eitp__hidden_pass pass;
    float *rows;                                  /* [probe_rows, 3 width] */
    double *column;                               /* [width] */
    double *distances, *products, *middle, *work; /* [probe_rows, probe_rows] */
    double *entropies;                            /* [probe_rows]: scratch */
    eitp__sampled *attention;                     /* [layers] */
    eitp__sampled states[EITP__STATE_LAYERS][EITP__STATE_STATISTICS], alignment, all_attention;
} eitp__probing;

/* ---- Memory ---- */

typedef struct eitp__probe_buffer {
    void **memory;
    size_t bytes;
} eitp__probe_buffer;

enum { EITP__PROBE_BUFFERS = 8 };

/* Returns the number of columns of the queries and keys of a layer. */
static size_t eitp__compared_width(const eitp__emergence *e) {
    const eitp_transformer_config *config = &e->model->config;
    return (size_t)((config->heads + eitp__key_value_heads(config)) * eitp__head_width(config));
}

static void eitp__probe_buffers(const eitp__emergence *e, eitp__probing *p,
                                eitp__probe_buffer buffers[EITP__PROBE_BUFFERS]) {
    const size_t rows = (size_t)e->probe_rows, width = (size_t)e->width, square = rows * rows * sizeof(double);
    const eitp__probe_buffer all[EITP__PROBE_BUFFERS] = {
        {(void **)&p->rows,
         rows * (width > eitp__compared_width(e) ? width : eitp__compared_width(e)) * sizeof *p->rows},
        {(void **)&p->column, width * sizeof *p->column},
        {(void **)&p->distances, square},
        {(void **)&p->products, square},
        {(void **)&p->middle, square},
        {(void **)&p->work, square},
        {(void **)&p->entropies, rows * sizeof *p->entropies},
        {(void **)&p->attention, (size_t)e->model->config.layers * sizeof *p->attention},
    };
    memcpy(buffers, all, sizeof all);
}

static eitp_status eitp__probing_open(const eitp__emergence *e, eitp__probing *p, eitp_error *error) {
    eitp__probe_buffer buffers[EITP__PROBE_BUFFERS];
    memset(p, 0, sizeof *p);
    eitp__probe_buffers(e, p, buffers);
    for (int i = 0; i < EITP__PROBE_BUFFERS; i++) {
        *buffers[i].memory = eitp__allocate(&e->host, buffers[i].bytes);
        if (!*buffers[i].memory)
            return eitp__fail_memory(error, buffers[i].bytes, "the hidden states of probes");
    }
    return eitp__hidden_pass_create(&p->pass, e->model, e->probe_rows, e->segments_at >= 0, 1, error);
}

static void eitp__probing_close(const eitp__emergence *e, eitp__probing *p) {
    eitp__probe_buffer buffers[EITP__PROBE_BUFFERS];
    eitp__hidden_pass_release(&p->pass);
    eitp__probe_buffers(e, p, buffers);
    for (int i = 0; i < EITP__PROBE_BUFFERS; i++)
        eitp__release(&e->host, *buffers[i].memory, buffers[i].bytes);
}

/* ---- Hidden states ---- */

/* Adds the statistics of rows [count, width], and leaves their products in p->products. */
static void eitp__add_states(const eitp__emergence *e, eitp__probing *p, int64_t count,
                             eitp__sampled of[EITP__STATE_STATISTICS]) {
    eitp__correlation_dimension correlation;
    double values[EITP__STATE_STATISTICS];
    eitp__points_products(p->rows, count, e->width, p->column, p->products);
    eitp__points_distances(p->rows, count, e->width, p->distances);
    correlation = eitp__points_correlation_dimension(p->distances, count, p->work);
    values[EITP__STATE_RATIO] = eitp__points_participation_ratio(p->products, count);
    values[EITP__STATE_RATE] =
        eitp__points_coding_rate(p->products, count, e->width, e->config->coding_rate_epsilon2, p->work) /
        (double)count;
    values[EITP__STATE_TWO_NN] = eitp__points_two_nn(p->distances, count);
    values[EITP__STATE_CORRELATION] = correlation.dimension;
    values[EITP__STATE_R2] = correlation.r2;
    values[EITP__STATE_COSINE] = eitp__points_neighbour_cosine(p->rows, count, e->width, p->column);
    for (int i = 0; i < EITP__STATE_STATISTICS; i++)
        eitp__sampled_add_defined(&of[i], values[i]);
}

static eitp_status eitp__probe_states(const eitp__emergence *e, eitp__probing *p, int64_t count, eitp_error *error) {
    const size_t square = (size_t)(count * count) * sizeof *p->middle;
    eitp_status status = eitp__hidden_pass_read(&p->pass, p->pass.final_state, count, e->width, p->rows, error);
    if (!status) {
        eitp__add_states(e, p, count, p->states[EITP__STATE_FINAL]);
        status = eitp__hidden_pass_read(&p->pass, p->pass.middle, count, e->width, p->rows, error);
    }
    if (!status) {
        eitp__add_states(e, p, count, p->states[EITP__STATE_MIDDLE]);
        memcpy(p->middle, p->products, square);
        status = eitp__hidden_pass_read(&p->pass, p->pass.last, count, e->width, p->rows, error);
    }
    if (status)
        return status;
    eitp__points_products(p->rows, count, e->width, p->column, p->products);
    if (e->model->config.layers > 1)
        eitp__sampled_add_defined(&p->alignment, eitp__points_alignment(p->middle, p->products, count));
    return EITP_OK;
}

/* ---- Attention ---- */

/* Returns the entropy of exp(scores) over its sum, divided by the entropy of `count` equal parts. Changes the
   scores. */
static double eitp__normalized_entropy(double *scores, int64_t count) {
    double largest = scores[0], sum = 0, product = 0;
    for (int64_t j = 1; j < count; j++)
        largest = fmax(largest, scores[j]);
    for (int64_t j = 0; j < count; j++) {
        const double score = scores[j] - largest, weight = exp(score);
        sum += weight;
        product += weight * score;
    }
    return (log(sum) - product / sum) / log((double)count);
}

/* Adds the entropies of a layer's attention, for each head and each row that attends to more than itself. */
static void eitp__add_attention(const eitp__emergence *e, eitp__probing *p, int64_t layer, int64_t count, double *all,
                                double *items) {
    const eitp_transformer_config *config = &e->model->config;
    const int64_t size = eitp__head_width(config), stride = (int64_t)eitp__compared_width(e);
    const int64_t group = config->heads / eitp__key_value_heads(config),
                  window = eitp__layer_sliding_window(config, layer);
    const double scale = eitp__attention_scale(config, layer);
    double sum = 0, rows = 0;
    for (int64_t head = 0; head < config->heads; head++) {
        const float *queries = p->rows + head * size, *keys = p->rows + (config->heads + head / group) * size;
        for (int64_t i = 0; i < count; i++) {
            const int64_t first = window && i >= window ? i + 1 - window : 0;
            const int64_t visible = (config->bidirectional ? count : i + 1) - first;
            for (int64_t j = 0; j < visible; j++) {
                double product = 0;
                for (int64_t c = 0; c < size; c++)
                    product += (double)queries[i * stride + c] * (double)keys[(first + j) * stride + c];
                p->entropies[j] = scale * product;
            }
            if (visible < 2)
                continue;
            sum += eitp__normalized_entropy(p->entropies, visible);
            rows++;
        }
    }
    eitp__sampled_add(&p->attention[layer], sum, rows);
    *all += sum;
    *items += rows;
}

static eitp_status eitp__probe_attention(const eitp__emergence *e, eitp__probing *p, int64_t count, eitp_error *error) {
    double sum = 0, items = 0;
    eitp_status status = EITP_OK;
    for (int64_t layer = 0; layer < e->model->config.layers && !status; layer++) {
        status = eitp__hidden_pass_read(&p->pass, p->pass.compared[layer], count, (int64_t)eitp__compared_width(e),
                                        p->rows, error);
        if (!status)
            eitp__add_attention(e, p, layer, count, &sum, &items);
    }
    eitp__sampled_add(&p->all_attention, sum, items);
    return status;
}

/* ---- The part ---- */

static eitp_status eitp__report_states(const eitp__emergence *e, const eitp__probing *p, eitp_error *error) {
    static const char *const names[EITP__STATE_STATISTICS] = {
        "participation_ratio", "coding_rate", "two_nn", "correlation_dimension", "correlation_r2", "neighbour_cosine"};
    static const char *const layers[EITP__STATE_LAYERS] = {"final", "middle"};
    static const char *const reasons[EITP__STATE_STATISTICS] = {
        "the hidden states of a sequence are all equal",
        "the hidden states are not finite",
        "the hidden states of a sequence have no two distinct neighbours",
        "sequences are too short, or their hidden states are all equal",
        "sequences are too short, or their hidden states are all equal",
        "sequences have fewer than 3 tokens, or hidden states are 0"};
    char name[EITP_EMERGENCE_NAME_SIZE];
    eitp_status status = EITP_OK;
    for (int layer = 0; layer < EITP__STATE_LAYERS && !status; layer++) {
        for (int i = 0; i < EITP__STATE_STATISTICS && !status; i++) {
            snprintf(name, sizeof name, "%s_%s", names[i], layers[layer]);
            status = eitp__report_sampled(e->report, "states", name, &p->states[layer][i], reasons[i], error);
        }
    }
    return status ? status
                  : eitp__report_sampled(e->report, "states", "alignment_middle_last", &p->alignment,
                                         e->model->config.layers > 1 ? "the hidden states of a sequence are all equal"
                                                                     : "the model has a single layer",
                                         error);
}

static eitp_status eitp__report_attention(const eitp__emergence *e, const eitp__probing *p, eitp_error *error) {
    static const char reason[] = "sequences have a single token, or attention is not finite";
    char name[EITP_EMERGENCE_NAME_SIZE];
    eitp_status status =
        eitp__report_sampled(e->report, "attention", "attention_entropy", &p->all_attention, reason, error);
    for (int64_t layer = 0; layer < e->model->config.layers && !status; layer++) {
        snprintf(name, sizeof name, "attention_entropy_%lld", (long long)layer);
        status = eitp__report_sampled(e->report, "attention", name, &p->attention[layer], reason, error);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__emergence_states(eitp__emergence *e, eitp_error *error) {
    eitp__probing p;
    eitp_status status;
    if (!e->probes || !e->probe_rows)
        return eitp__report_omission(e->report, "states", "no probes were requested", error);
    status = eitp__probing_open(e, &p, error);
    for (int64_t i = 0; i < e->probes && !status; i++) {
        int64_t count;
        status = eitp__emergence_read_probe(e, i, &count, error);
        if (status)
            break;
        count = count < e->probe_rows ? count : e->probe_rows;
        status = eitp__hidden_pass_execute(&p.pass, eitp__emergence_sample_tokens(e),
                                           eitp__emergence_sample_segments(e), count, error);
        if (!status)
            status = eitp__probe_states(e, &p, count, error);
        if (!status)
            status = eitp__probe_attention(e, &p, count, error);
    }
    if (!status)
        status = eitp__report_states(e, &p, error);
    if (!status)
        status = eitp__report_attention(e, &p, error);
    eitp__probing_close(e, &p);
    return status;
}
