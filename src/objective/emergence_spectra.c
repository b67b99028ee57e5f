/* Power laws in the spectra of the blocks' matrices (Martin and Mahoney, arXiv 1810.01075). */
#include "objective/emergence_state.h"
#include "objective/spectrum.h"

/* Memory for one matrix: its values, [side, side] products, and scratch memory for eigenvalues. */
typedef struct eitp__spectral {
    int64_t elements, side; /* the largest among the measured matrices */
    float *values;          /* [elements] */
    double *column;         /* [side] */
    double *products;       /* [side, side] */
    double *eigenvalues;    /* [side] */
    double *work;           /* [3, side] */
    eitp__sampled alpha, distance;
} eitp__spectral;

static int64_t eitp__smaller_side(const eitp__parameter *matrix) {
    return matrix->shape[0] < matrix->shape[1] ? matrix->shape[0] : matrix->shape[1];
}

/* True for the matrices of blocks that are measured. */
static int eitp__has_spectrum(const eitp__emergence *e, const eitp__parameter *parameter) {
    return parameter->layer >= 0 && parameter->rank == 2 && eitp__smaller_side(parameter) <= e->config->matrix_side;
}

static size_t eitp__spectral_bytes(const eitp__spectral *s) {
    return (size_t)(s->side * s->side) * sizeof(double);
}

static eitp_status eitp__spectral_open(const eitp__emergence *e, eitp__spectral *s, eitp_error *error) {
    const eitp_transformer_config *config = &e->model->config;
    memset(s, 0, sizeof *s);
    for (int64_t i = 0; i < eitp__parameter_count(config); i++) {
        const eitp__parameter matrix = eitp__parameter_at(config, i);
        if (!eitp__has_spectrum(e, &matrix))
            continue;
        s->elements = matrix.shape[0] * matrix.shape[1] > s->elements ? matrix.shape[0] * matrix.shape[1] : s->elements;
        s->side = eitp__smaller_side(&matrix) > s->side ? eitp__smaller_side(&matrix) : s->side;
    }
    if (!s->side)
        return EITP_OK;
    s->values = (float *)eitp__allocate(&e->host, (size_t)s->elements * sizeof *s->values);
    s->products = (double *)eitp__allocate(&e->host, eitp__spectral_bytes(s));
    s->column = (double *)eitp__allocate(&e->host, (size_t)s->side * sizeof *s->column);
    s->eigenvalues = (double *)eitp__allocate(&e->host, (size_t)s->side * sizeof *s->eigenvalues);
    s->work = (double *)eitp__allocate(&e->host, 3 * (size_t)s->side * sizeof *s->work);
    return s->values && s->products && s->column && s->eigenvalues && s->work
               ? EITP_OK
               : eitp__fail_memory(error, eitp__spectral_bytes(s), "the spectrum of a matrix");
}

static void eitp__spectral_close(const eitp__emergence *e, eitp__spectral *s) {
    eitp__release(&e->host, s->values, (size_t)s->elements * sizeof *s->values);
    eitp__release(&e->host, s->products, eitp__spectral_bytes(s));
    eitp__release(&e->host, s->column, (size_t)s->side * sizeof *s->column);
    eitp__release(&e->host, s->eigenvalues, (size_t)s->side * sizeof *s->eigenvalues);
    eitp__release(&e->host, s->work, 3 * (size_t)s->side * sizeof *s->work);
}

/* Computes W^T W, or W W^T if that is smaller: the lower triangle of s->products. */
static void eitp__spectral_products(eitp__spectral *s, const eitp__parameter *matrix) {
    const int64_t side = eitp__smaller_side(matrix), columns = matrix->shape[1];
    const int64_t length = matrix->shape[0] * columns / side, is_wide = side < columns;
    memset(s->products, 0, (size_t)(side * side) * sizeof *s->products);
    for (int64_t k = 0; k < length; k++) {
        for (int64_t i = 0; i < side; i++)
            s->column[i] = (double)s->values[is_wide ? i * columns + k : k * columns + i];
        for (int64_t i = 0; i < side; i++) {
            double *row = &s->products[i * side];
            const double factor = s->column[i];
            for (int64_t j = 0; j <= i; j++)
                row[j] += factor * s->column[j];
        }
    }
}

EITP__PRIVATE eitp_status eitp__emergence_spectra(eitp__emergence *e, eitp_error *error) {
    static const char reason[] = "no matrix of the blocks is within the limit of matrix_side, with a tail of 10 "
                                 "eigenvalues";
    const eitp_transformer_config *config = &e->model->config;
    eitp__spectral s;
    eitp_status status = eitp__spectral_open(e, &s, error);
    for (int64_t i = 0; i < eitp__parameter_count(config) && !status; i++) {
        const eitp__parameter matrix = eitp__parameter_at(config, i);
        const int64_t side = eitp__smaller_side(&matrix);
        eitp__power_law law;
        if (!eitp__has_spectrum(e, &matrix))
            continue;
        status = eitp__context_poll(e->model->context, error);
        if (!status)
            status = eitp_variable_read_f32(e->model->context, matrix.name, 0, s.values,
                                            matrix.shape[0] * matrix.shape[1], error);
        if (status)
            break;
        eitp__spectral_products(&s, &matrix);
        if (!eitp__symmetric_eigenvalues(s.products, side, s.eigenvalues, s.work) ||
            !eitp__power_law_fit(s.eigenvalues, side, &law))
            continue;
        eitp__sampled_add(&s.alpha, law.alpha, 1);
        eitp__sampled_add(&s.distance, law.distance, 1);
    }
    if (!status)
        status = eitp__report_sampled(e->report, "weights", "spectral_alpha", &s.alpha, reason, error);
    if (!status)
        status = eitp__report_sampled(e->report, "weights", "spectral_distance", &s.distance, reason, error);
    eitp__spectral_close(e, &s);
    return status;
}
