/*
 * The computation of the emulated cuBLASLt: D = epilogue(alpha op(A) op(B) + beta C), in float, with each sum in order
 * from the first element to the last.
 */
#include "tests/cuda/cublaslt_api.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t lt_element_size(int type) {
    return type == CUDA_R_32F ? 4 : 2;
}

/* ---- Elements ---- */

static float bits_to_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t float_to_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float half_to_float(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = (half >> 10) & 31, fraction = half & 1023;
    if (exponent == 31)
        return bits_to_float(sign | 0x7f800000 | fraction << 13);
    if (!exponent)
        return (sign ? -1.0f : 1.0f) * ldexpf((float)fraction, -24);
    return bits_to_float(sign | (exponent + 112) << 23 | fraction << 13);
}

/* Rounds to the nearest, ties to even. */
static uint16_t float_to_half(float value) {
    const uint32_t bits = float_to_bits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    float scaled;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000)
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) {
        scaled = rintf(ldexpf(bits_to_float(magnitude), 24));
        return (uint16_t)(sign | (uint32_t)scaled);
    }
    return (uint16_t)(sign | ((magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000) >> 13));
}

static uint16_t float_to_bfloat(float value) {
    const uint32_t bits = float_to_bits(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Rounds to ten bits of fraction, ties away from zero. */
static float round_to_tf32(float value) {
    const uint32_t bits = float_to_bits(value);
    return (bits & 0x7f800000) == 0x7f800000 ? value : bits_to_float((bits + 0x1000) & 0xffffe000);
}

static float read_element(const unsigned char *at, int type) {
    uint16_t bits;
    float value;
    if (type == CUDA_R_32F) {
        memcpy(&value, at, sizeof value);
        return value;
    }
    memcpy(&bits, at, sizeof bits);
    return type == CUDA_R_16F ? half_to_float(bits) : bits_to_float((uint32_t)bits << 16);
}

static void write_element(unsigned char *at, int type, float value) {
    const uint16_t bits = type == CUDA_R_16F ? float_to_half(value) : float_to_bfloat(value);
    if (type == CUDA_R_32F)
        memcpy(at, &value, sizeof value);
    else
        memcpy(at, &bits, sizeof bits);
}

/* ---- Matrices ---- */

/* A matrix of a batch in device memory. */
typedef struct view {
    unsigned char *memory, *written;
    int type;
    size_t row_step, column_step; /* in elements */
    lt_refuse *refuse;
} view;

static view open_view(const struct lt_layout *layout, uint64_t data, int64_t batch, lt_memory *memory,
                      lt_refuse *refuse) {
    const int is_row = layout->order == CUBLASLT_ORDER_ROW;
    const uint64_t outer = is_row ? layout->rows : layout->columns, inner = is_row ? layout->columns : layout->rows;
    const size_t element = lt_element_size(layout->type);
    view opened;
    opened.type = layout->type;
    opened.row_step = is_row ? (size_t)layout->ld : 1;
    opened.column_step = is_row ? 1 : (size_t)layout->ld;
    opened.refuse = refuse;
    opened.memory = memory(data + (uint64_t)(layout->stride * batch) * element,
                           ((outer - 1) * (uint64_t)layout->ld + inner) * element, &opened.written);
    return opened;
}

static float get(const view *from, size_t row, size_t column, const char *what) {
    const size_t element = lt_element_size(from->type);
    const size_t at = (row * from->row_step + column * from->column_step) * element;
    if (memchr(from->written + at, 0, element))
        from->refuse(what);
    return read_element(from->memory + at, from->type);
}

static void put(const view *to, size_t row, size_t column, float value) {
    const size_t element = lt_element_size(to->type);
    const size_t at = (row * to->row_step + column * to->column_step) * element;
    write_element(to->memory + at, to->type, value);
    memset(to->written + at, 1, element);
}

/* Unpacks op(A) or op(B) into rows of floats. */
static float *unpack(const view *from, size_t rows, size_t columns, int is_transposed, int is_tf32) {
    float *values = (float *)malloc(rows * columns * sizeof *values);
    if (!values) {
        from->refuse("the host has too little memory");
        return NULL;
    }
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            const float value =
                get(from, is_transposed ? j : i, is_transposed ? i : j, "a product reads an input that nobody wrote");
            values[i * columns + j] = is_tf32 ? round_to_tf32(value) : value;
        }
    }
    return values;
}

/* ---- Epilogues ---- */

static const float gelu_scale = 0.7978845608028654f, gelu_cube = 0.044715f;

static float gelu(float x) {
    return 0.5f * x * (1 + tanhf(gelu_scale * (x + gelu_cube * x * x * x)));
}

static float gelu_slope(float x) {
    const float t = tanhf(gelu_scale * (x + gelu_cube * x * x * x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * gelu_scale * (1 + 3 * gelu_cube * x * x);
}

typedef struct outputs {
    const lt_product *product;
    view c, d, bias, aux;
} outputs;

static outputs open_outputs(const lt_product *product, int64_t batch, lt_memory *memory, lt_refuse *refuse) {
    const struct lt_description *description = &product->description;
    struct lt_layout other = product->layouts[3];
    outputs opened;
    memset(&opened, 0, sizeof opened);
    opened.product = product;
    opened.d = open_view(&product->layouts[3], product->data[3], batch, memory, refuse);
    if (product->beta != 0)
        opened.c = open_view(&product->layouts[2], product->data[2], batch, memory, refuse);
    if (description->epilogue & CUBLASLT_EPILOGUE_BIAS) {
        other.columns = 1;
        other.stride = description->bias_stride;
        opened.bias = open_view(&other, description->bias, batch, memory, refuse);
    }
    if (description->epilogue & 128) {
        other = product->layouts[3];
        other.ld = description->aux_ld;
        other.stride = description->aux_stride;
        opened.aux = open_view(&other, description->aux, batch, memory, refuse);
    }
    return opened;
}

static void finish(const outputs *to, size_t row, size_t column, float sum) {
    const unsigned epilogue = to->product->description.epilogue;
    float value = to->product->alpha * sum;
    if (to->product->beta != 0)
        value += to->product->beta * get(&to->c, row, column, "a product reads C that nobody wrote");
    if (epilogue & CUBLASLT_EPILOGUE_BIAS)
        value += get(&to->bias, row, 0, "a product reads a bias that nobody wrote");
    if (epilogue == CUBLASLT_EPILOGUE_DGELU)
        value *= gelu_slope(get(&to->aux, row, column, "a product reads an aux that nobody wrote"));
    else if (epilogue & 128)
        put(&to->aux, row, column, value);
    if (epilogue & CUBLASLT_EPILOGUE_GELU)
        value = gelu(value);
    put(&to->d, row, column, value);
}

/* ---- Products ---- */

static void compute_batch(const lt_product *product, int64_t batch, lt_memory *memory, lt_refuse *refuse) {
    const struct lt_layout *layouts = product->layouts;
    const int *transpose = product->description.transpose;
    const int is_tf32 = product->description.compute_type == CUBLAS_COMPUTE_32F_FAST_TF32;
    const size_t m = layouts[3].rows, n = layouts[3].columns;
    const size_t k = transpose[0] ? layouts[0].rows : layouts[0].columns;
    const view a_view = open_view(&layouts[0], product->data[0], batch, memory, refuse);
    const view b_view = open_view(&layouts[1], product->data[1], batch, memory, refuse);
    const outputs to = open_outputs(product, batch, memory, refuse);
    float *a = unpack(&a_view, m, k, transpose[0] != CUBLAS_OP_N, is_tf32);
    float *b = unpack(&b_view, k, n, transpose[1] != CUBLAS_OP_N, is_tf32);
    float *sums = (float *)malloc(n * sizeof *sums);
    if (!sums)
        refuse("the host has too little memory");
    for (size_t i = 0; i < m && sums; i++) {
        memset(sums, 0, n * sizeof *sums);
        for (size_t p = 0; p < k; p++) {
            for (size_t j = 0; j < n; j++)
                sums[j] += a[i * k + p] * b[p * n + j];
        }
        for (size_t j = 0; j < n; j++)
            finish(&to, i, j, sums[j]);
    }
    free(a);
    free(b);
    free(sums);
}

static float read_scale(uint64_t address, lt_memory *memory, lt_refuse *refuse) {
    unsigned char *written, *at = memory(address, sizeof(float), &written);
    float value;
    if (memchr(written, 0, sizeof value))
        refuse("a product reads an alpha or a beta that nobody wrote");
    memcpy(&value, at, sizeof value);
    return value;
}

/* Overwrites the workspace afterwards, because its content must not be used. */
void lt_compute(const lt_product *queued, lt_memory *memory, lt_refuse *refuse) {
    lt_product product = *queued;
    if (product.alpha_at) {
        product.alpha = read_scale(product.alpha_at, memory, refuse);
        product.beta = read_scale(product.beta_at, memory, refuse);
    }
    for (int64_t batch = 0; batch < product.layouts[3].batch_count; batch++)
        compute_batch(&product, batch, memory, refuse);
    if (product.workspace_size) {
        unsigned char *written, *workspace = memory(product.workspace, product.workspace_size, &written);
        memset(workspace, 0xff, product.workspace_size);
        memset(written, 0, product.workspace_size);
    }
}
