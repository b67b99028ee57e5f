/*
 * Shared by tests of graphs: contexts with every kernel set, graphs built in F32 and F64 alike from random inputs,
 * their outputs as doubles, and array functions simple enough to trust.
 */
#ifndef EITP_TEST_GRAPHS_H
#define EITP_TEST_GRAPHS_H

#include "tests/support/everything.h"

#include "tests/support/test.h"

#define GRAPHS_UNUSED __attribute__((unused))

enum { KERNEL_SETS = 5, BUILD_LEAVES = 200, BUILD_OUTPUTS = 48 };

static const char *const kernel_sets[KERNEL_SETS] = {"ref", "avx2", "avx512", "avx512bf16", "amx"};

/* Fills the arena, which may be out of the host's reach. */
static GRAPHS_UNUSED void fill_arena(eitp_context *context, int byte) {
    void *bytes = malloc(context->arena.size);
    eitp_error error;
    CHECK(bytes || !context->arena.size);
    if (!bytes)
        return;
    memset(bytes, byte, context->arena.size);
    if (context->arena.memory)
        CHECK(!eitp__context_wait(context, &error) &&
              !context->backend->interface->upload(context->backend, context->arena.memory, bytes, context->arena.size,
                                                   &error));
    free(bytes);
}

/* Returns a context with that kernel set, in "fp32", "bf16", ..., or NULL if this machine lacks the set. */
static GRAPHS_UNUSED eitp_context *open_context_in(const char *precision, const char *set, int threads) {
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp_error error = EITP__ZERO;
    eitp_status status;
    config.device = "auto"; /* set by EITP_BACKEND */
    config.threads = threads;
    config.isa = set;
    config.precision = precision;
    status = eitp_context_create(&config, &context, &error);
    CHECK_THAT(status == EITP_OK || (status == EITP_ERROR_UNSUPPORTED && strcmp(set, "ref")), "%s", error.message);
    return context;
}

static GRAPHS_UNUSED eitp_context *open_context(const char *set, int threads) {
    return open_context_in(NULL, set, threads);
}

/* The remainder of a 16-bit parameter, in any form. */
static GRAPHS_UNUSED eitp_tensor *remainder_variable(const eitp_tensor *parameter, eitp_dtype dtype) {
    eitp__child_info child = EITP__ZERO;
    child.kind = EITP__KIND_REMAINDER;
    child.role = EITP_REMAINDER;
    child.dtype = dtype;
    child.rank = parameter->rank;
    child.shape = parameter->shape;
    return eitp__child_tensor(parameter, &child);
}

static GRAPHS_UNUSED void print_kernel_sets(void) {
    for (int i = 0; i < KERNEL_SETS; i++) {
        eitp_context *context = open_context(kernel_sets[i], 2);
        printf("    %s: %s\n", kernel_sets[i], context ? eitp_context_description(context) : "not on this machine");
        eitp_context_destroy(context);
    }
}

/* ---- Arrays ---- */

typedef struct array {
    int rank;
    int64_t shape[EITP_MAX_RANK];
    int64_t count;
    double *data;
    struct array *next; /* in the same build */
} array;

/* A graph under construction, with the values of its inputs and the expected outputs. */
typedef struct build {
    eitp_graph *graph;
    eitp_dtype dtype;
    int small;        /* few elements, for central differences */
    double low, high; /* range of the next random values */
    uint32_t random;
    int leaf_count;
    eitp_tensor *leaves[BUILD_LEAVES];
    array *values[BUILD_LEAVES];
    int output_count;
    eitp_tensor *outputs[BUILD_OUTPUTS];
    const array *expected[BUILD_OUTPUTS]; /* NULL: the result in F64 */
    array *arrays;
} build;

static GRAPHS_UNUSED array *new_array(build *b, int rank, const int64_t *shape) {
    array *a = (array *)calloc(1, sizeof *a);
    a->rank = rank;
    a->count = 1;
    for (int d = 0; d < rank; d++) {
        a->shape[d] = shape[d];
        a->count *= shape[d];
    }
    a->data = (double *)calloc((size_t)a->count, sizeof *a->data);
    a->next = b->arrays;
    b->arrays = a;
    return a;
}

static GRAPHS_UNUSED void unravel(const array *a, int64_t element, int64_t *index) {
    for (int d = a->rank - 1; d >= 0; d--) {
        index[d] = element % a->shape[d];
        element /= a->shape[d];
    }
}

/* Returns the index of the element of `a` at the last coordinates of `index`. Dimensions of extent 1 are broadcast. */
static GRAPHS_UNUSED int64_t ravel(const array *a, const int64_t *index, int rank) {
    int64_t element = 0;
    for (int d = 0; d < a->rank; d++)
        element = element * a->shape[d] + (a->shape[d] == 1 ? 0 : index[rank - a->rank + d]);
    return element;
}

/* ---- Builds ---- */

static GRAPHS_UNUSED void build_begin(build *b, eitp_context *context, eitp_dtype dtype, int small) {
    eitp_error error = EITP__ZERO;
    memset(b, 0, sizeof *b);
    b->dtype = dtype;
    b->small = small;
    b->low = -2;
    b->high = 2;
    b->random = 12345;
    CHECK_THAT(eitp_graph_create(context, &b->graph, &error) == EITP_OK, "%s", error.message);
}

static GRAPHS_UNUSED void build_end(build *b) {
    while (b->arrays) {
        array *a = b->arrays;
        b->arrays = a->next;
        free(a->data);
        free(a);
    }
    eitp_graph_destroy(b->graph);
}

/* Returns a random number in [0, 1), with 24 bits. */
static GRAPHS_UNUSED double draw(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 8) / 16777216.0;
}

/* Adds an input with the given values. */
static GRAPHS_UNUSED eitp_tensor *add_leaf(build *b, eitp_dtype dtype, array *values) {
    char name[32];
    int i = b->leaf_count++;
    snprintf(name, sizeof name, "leaf %d", i);
    b->values[i] = values;
    b->leaves[i] = eitp_input(b->graph, name, dtype, values->rank, values->shape);
    return b->leaves[i];
}

/* Adds a floating-point input of random values that F32 represents exactly. */
static GRAPHS_UNUSED eitp_tensor *real(build *b, int rank, const int64_t *shape) {
    array *a = new_array(b, rank, shape);
    for (int64_t i = 0; i < a->count; i++)
        a->data[i] = (double)(float)(b->low + (b->high - b->low) * draw(&b->random));
    return add_leaf(b, b->dtype, a);
}

static GRAPHS_UNUSED eitp_tensor *real1(build *b, int64_t n) {
    return real(b, 1, &n);
}

static GRAPHS_UNUSED eitp_tensor *real2(build *b, int64_t m, int64_t n) {
    int64_t shape[2];
    shape[0] = m;
    shape[1] = n;
    return real(b, 2, shape);
}

static GRAPHS_UNUSED eitp_tensor *real3(build *b, int64_t k, int64_t m, int64_t n) {
    int64_t shape[3];
    shape[0] = k;
    shape[1] = m;
    shape[2] = n;
    return real(b, 3, shape);
}

/* Adds an input of random integers from low to high. */
static GRAPHS_UNUSED eitp_tensor *whole(build *b, eitp_dtype dtype, int rank, const int64_t *shape, int low, int high) {
    array *a = new_array(b, rank, shape);
    for (int64_t i = 0; i < a->count; i++)
        a->data[i] = floor(low + (high - low + 1) * draw(&b->random));
    return add_leaf(b, dtype, a);
}

static GRAPHS_UNUSED eitp_tensor *integers(build *b, int rank, const int64_t *shape, int low, int high) {
    return whole(b, EITP_I32, rank, shape, low, high);
}

static GRAPHS_UNUSED eitp_tensor *given(build *b, eitp_dtype dtype, int64_t count, const double *values) {
    array *a = new_array(b, 1, &count);
    memcpy(a->data, values, (size_t)count * sizeof *values);
    return add_leaf(b, dtype, a);
}

/* Returns the values of an input. */
static GRAPHS_UNUSED const array *values_of(const build *b, const eitp_tensor *leaf) {
    for (int i = 0; i < b->leaf_count; i++)
        if (b->leaves[i] == leaf)
            return b->values[i];
    return NULL;
}

static GRAPHS_UNUSED void put_like(build *b, eitp_tensor *y, const array *expected) {
    b->expected[b->output_count] = expected;
    b->outputs[b->output_count++] = eitp_output(y);
}

static GRAPHS_UNUSED void put(build *b, eitp_tensor *y) {
    put_like(b, y, NULL);
}

/* Causal attention without padding. */
static GRAPHS_UNUSED eitp_tensor *causal_attention(eitp_tensor *qkv, eitp_tensor *offsets, int heads,
                                                   int64_t max_length, double scale, eitp_tensor *key, double dropout) {
    eitp_attention_config config = eitp_attention_config_default();
    eitp_attention_inputs inputs = eitp_attention_inputs_default();
    config.heads = heads;
    config.max_length = max_length;
    config.scale = scale;
    config.dropout = dropout;
    inputs.q = qkv;
    inputs.offsets = offsets;
    inputs.key = key;
    return eitp_attention(&inputs, &config);
}

static GRAPHS_UNUSED eitp_tensor *cached_attention(eitp_tensor *qkv, eitp_tensor *keys, eitp_tensor *values,
                                                   eitp_tensor *position, int heads, double scale) {
    eitp_attention_config config = eitp_attention_config_default();
    eitp_attention_inputs inputs = eitp_attention_inputs_default();
    config.heads = heads;
    config.scale = scale;
    inputs.q = qkv;
    return eitp_attention_cached(&inputs, keys, values, position, &config);
}

/* ---- Values in and out ---- */

static GRAPHS_UNUSED void to_bytes(eitp_dtype dtype, const double *values, void *bytes, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (dtype == EITP_F64)
            ((double *)bytes)[i] = values[i];
        else if (dtype == EITP_F32)
            ((float *)bytes)[i] = (float)values[i];
        else if (dtype == EITP_BF16)
            ((uint16_t *)bytes)[i] = eitp__f32_to_bf16((float)values[i]);
        else if (dtype == EITP_F16)
            ((uint16_t *)bytes)[i] = eitp__f32_to_f16((float)values[i]);
        else if (dtype == EITP_I64)
            ((int64_t *)bytes)[i] = (int64_t)values[i];
        else if (dtype == EITP_I32)
            ((int32_t *)bytes)[i] = (int32_t)values[i];
        else if (dtype == EITP_I8)
            ((int8_t *)bytes)[i] = (int8_t)values[i];
        else
            ((uint8_t *)bytes)[i] = (uint8_t)values[i];
    }
}

static GRAPHS_UNUSED void from_bytes(eitp_dtype dtype, const void *bytes, double *values, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (dtype == EITP_F64)
            values[i] = ((const double *)bytes)[i];
        else if (dtype == EITP_F32)
            values[i] = (double)((const float *)bytes)[i];
        else if (dtype == EITP_BF16)
            values[i] = (double)eitp__bf16_to_f32(((const uint16_t *)bytes)[i]);
        else if (dtype == EITP_F16)
            values[i] = (double)eitp__f16_to_f32(((const uint16_t *)bytes)[i]);
        else if (dtype == EITP_I64)
            values[i] = (double)((const int64_t *)bytes)[i];
        else if (dtype == EITP_I32)
            values[i] = ((const int32_t *)bytes)[i];
        else if (dtype == EITP_I8)
            values[i] = ((const int8_t *)bytes)[i];
        else
            values[i] = ((const uint8_t *)bytes)[i];
    }
}

static GRAPHS_UNUSED void write_values(eitp_plan *plan, eitp_tensor *input, const double *values) {
    int64_t count = eitp_tensor_elements(input);
    size_t size = (size_t)count * eitp_dtype_size(input->dtype);
    void *bytes = malloc(size);
    eitp_error error = EITP__ZERO;
    to_bytes(input->dtype, values, bytes, count);
    CHECK_THAT(eitp_plan_write(plan, input, bytes, size, &error) == EITP_OK, "%s", error.message);
    free(bytes);
}

static GRAPHS_UNUSED void read_values(eitp_plan *plan, eitp_tensor *output, double *values) {
    int64_t count = eitp_tensor_elements(output);
    size_t size = (size_t)count * eitp_dtype_size(output->dtype);
    void *bytes = malloc(size);
    eitp_error error = EITP__ZERO;
    memset(bytes, 0, size);
    CHECK_THAT(eitp_plan_read(plan, output, bytes, size, &error) == EITP_OK, "%s", error.message);
    from_bytes(output->dtype, bytes, values, count);
    free(bytes);
}

/* Fills the arena with NaN, to reveal values read before they are written. */
static GRAPHS_UNUSED void poison(eitp_context *context) {
    fill_arena(context, 0xff);
}

/* Poisons the arena, writes all leaves, and executes. */
static GRAPHS_UNUSED void run_leaves(const build *b, eitp_plan *plan) {
    eitp_error error = EITP__ZERO;
    poison(b->graph->context);
    for (int i = 0; i < b->leaf_count; i++)
        write_values(plan, b->leaves[i], b->values[i]->data);
    CHECK_THAT(eitp_plan_execute(plan, &error) == EITP_OK, "%s", error.message);
}

/*
 * Returns the normalized mean squared error: the mean square of the difference divided by the mean square of `exact`. 0
 * if both are 0, infinite if it is undefined.
 */
static GRAPHS_UNUSED double nmse(const double *values, const double *exact, int64_t count) {
    double difference = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        if (values[i] == exact[i]) {
            size += isfinite(exact[i]) ? exact[i] * exact[i] : 0;
            continue;
        }
        difference += (values[i] - exact[i]) * (values[i] - exact[i]);
        size += exact[i] * exact[i];
    }
    if (difference == 0)
        return 0;
    return size > 0 && isfinite(difference) && isfinite(size) ? difference / size : (double)INFINITY;
}

#endif
