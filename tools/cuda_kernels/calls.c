/* Calls without memory. They contain only what the choice of kernels and their definitions depend on. */
#include "cuda_kernels.h"

static eitp__operand operand_of(eitp_dtype dtype, int rank, int64_t first, int64_t second) {
    eitp__operand x = EITP__ZERO;
    x.dtype = dtype;
    x.rank = rank;
    x.shape[0] = first;
    x.shape[1] = second;
    x.elements = rank == 1 ? first : first * second;
    return x;
}

static eitp__call call_of(eitp__slot slot, eitp_dtype dtype, int inputs, int outputs) {
    eitp__call call = EITP__ZERO;
    call.slot = slot;
    call.dtype = dtype;
    call.input_count = inputs;
    call.output_count = outputs;
    return call;
}

/* ---- Products ---- */

/*
 * Large, small and narrow products, with rows aligned to 16 bytes and with unaligned rows. If a is transposed, blocks
 * have parts of k.
 */
static const int64_t product_sizes[][3] = {
    {2048, 1024, 8192}, {128, 128, 8192}, {8, 512, 8192}, {2047, 1023, 8191}, {127, 127, 8191}, {7, 511, 8191},
};

static eitp__call product_of(eitp_dtype dtype, int transposes, const int64_t sizes[3]) {
    const int64_t m = sizes[0], n = sizes[1], k = sizes[2];
    const int turns_a = transposes & 1, turns_b = transposes >> 1;
    eitp__call call = call_of(EITP__SLOT_MATMUL, dtype, 4, 2);
    call.integers[0] = turns_a;
    call.integers[1] = turns_b;
    call.inputs[0] = operand_of(dtype, 2, turns_a ? k : m, turns_a ? m : k);
    call.inputs[1] = operand_of(dtype, 2, turns_b ? n : k, turns_b ? k : n);
    call.outputs[0] = operand_of(dtype, 2, m, n);
    return call;
}

static void visit_products(eitp_dtype dtype, call_visitor *visit, void *user) {
    for (int transposes = 0; transposes < 4; transposes++)
        for (size_t i = 0; i < EITP__COUNT(product_sizes); i++) {
            const eitp__call call = product_of(dtype, transposes, product_sizes[i]);
            visit(user, &call);
        }
}

static void visit_heads(eitp_dtype dtype, call_visitor *visit, void *user) {
    const int64_t rows = 4096, vocabulary = 50257;
    for (int64_t width = 768; width > 766; width--) {
        const int64_t blocks = (vocabulary + EITP__CUDA_HEAD_BLOCK - 1) / EITP__CUDA_HEAD_BLOCK;
        eitp__call call = call_of(EITP__SLOT_HEAD, dtype, 3, 4);
        call.inputs[0] = operand_of(dtype, 2, rows, width);
        call.inputs[1] = operand_of(dtype, 2, vocabulary, width);
        call.inputs[2] = operand_of(EITP_I32, 1, rows, 0);
        call.outputs[0] = operand_of(dtype, 2, rows, vocabulary);
        call.outputs[1] = call.outputs[2] = operand_of(eitp__wide(dtype), 2, rows, blocks);
        call.outputs[3] = operand_of(eitp__wide(dtype), 1, rows, 0);
        visit(user, &call);
    }
}

/* ---- Attention ---- */

/*
 * Widths of heads in GPT-2 and Llama, in Phi-2 (a width without special support), in Gemma, and one wider than any
 * tile.
 */
static const int64_t head_widths[] = {64, 128, 80, 256, 320};

static eitp__call attention_of(eitp__slot slot, eitp_dtype dtype, int64_t width, int rotates, int drops) {
    const int64_t rows = 4096, heads = 12;
    const eitp_dtype wide = eitp__wide(dtype);
    const int is_backward = slot == EITP__SLOT_ATTENTION_BACKWARD;
    eitp__call call = call_of(slot, dtype, is_backward ? (int)EITP__ATTENTION_BACKWARD_INPUTS : EITP__ATTENTION_INPUTS,
                              is_backward ? 1 : 2);
    call.integers[0] = call.integers[4] = heads;
    call.integers[1] = 1024;
    call.reals[0] = 0.125;
    call.inputs[EITP__ATTENTION_Q] = operand_of(dtype, 2, rows, 3 * heads * width);
    call.inputs[EITP__ATTENTION_OFFSETS] = operand_of(EITP_I32, 1, rows / 1024 + 1, 0);
    if (rotates)
        call.inputs[EITP__ATTENTION_ROTATION] = operand_of(wide, 2, rows, width);
    if (drops) {
        call.inputs[EITP__ATTENTION_KEY] = operand_of(EITP_I64, 1, 3, 0);
        call.reals[1] = 0.1;
    }
    call.outputs[0] = operand_of(dtype, 2, rows, is_backward ? 3 * heads * width : heads * width);
    return call;
}

static eitp__call cached_of(eitp_dtype dtype, int64_t rows, int64_t width, int rotates) {
    const int64_t heads = 12, positions = 2048;
    eitp__call call = call_of(EITP__SLOT_ATTENTION_CACHED, dtype, EITP__CACHED_INPUTS, 3);
    call.integers[0] = call.integers[1] = heads;
    call.reals[0] = 0.125;
    call.inputs[EITP__CACHED_Q] = operand_of(dtype, 2, rows, 3 * heads * width);
    call.inputs[EITP__CACHED_KEYS] = operand_of(dtype, 2, positions, heads * width);
    call.inputs[EITP__CACHED_VALUES] = call.inputs[EITP__CACHED_KEYS];
    call.inputs[EITP__CACHED_POSITION] = operand_of(EITP_I32, 1, 1, 0);
    if (rotates)
        call.inputs[EITP__CACHED_ROTATION] = operand_of(eitp__wide(dtype), 2, rows, width);
    call.outputs[0] = operand_of(dtype, 2, rows, heads * width);
    call.outputs[1] = call.outputs[2] = call.inputs[EITP__CACHED_KEYS];
    return call;
}

static void visit_attention(eitp_dtype dtype, call_visitor *visit, void *user) {
    static const eitp__slot slots[] = {EITP__SLOT_ATTENTION, EITP__SLOT_ATTENTION_BACKWARD};
    for (size_t w = 0; w < EITP__COUNT(head_widths); w++)
        for (int form = 0; form < 4; form++)
            for (size_t s = 0; s < EITP__COUNT(slots); s++) {
                const eitp__call call = attention_of(slots[s], dtype, head_widths[w], form & 1, form >> 1);
                visit(user, &call);
            }
}

/* One row, as in generation, and many rows. */
static void visit_cached(eitp_dtype dtype, call_visitor *visit, void *user) {
    for (size_t w = 0; w < EITP__COUNT(head_widths); w++)
        for (int rotates = 0; rotates < 2; rotates++)
            for (int64_t rows = 1; rows <= 512; rows += 511) {
                const eitp__call call = cached_of(dtype, rows, head_widths[w], rotates);
                visit(user, &call);
            }
}

void visit_calls(call_visitor *visit, void *user) {
    static const eitp_dtype dtypes[] = {EITP_BF16, EITP_F16, EITP_F32, EITP_F64};
    for (size_t i = 0; i < EITP__COUNT(dtypes); i++) {
        visit_products(dtypes[i], visit, user);
        visit_heads(dtypes[i], visit, user);
        visit_attention(dtypes[i], visit, user);
        visit_cached(dtypes[i], visit, user);
    }
}
