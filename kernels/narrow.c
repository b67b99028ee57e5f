#include "kernels/narrow.h"
#include "kernels/spans.h"

/*
 * An operand is cut into units: the elements of a FLAT slot, the blocks of a BLOCKS slot, the rows of any other slot. A
 * COLUMNS slot sums over its rows, so the F32 kernel adds each tile to the outputs. One letter for each input:
 *   c  cut: each unit has its part of the operand
 *   b  broadcast to the output, whose elements are the units
 *   w  whole: every unit needs all of the operand
 *   s  start of the sums: the first tile adds to it, later tiles to output 0
 * A slot without a row has inputs of kind c only. Outputs are cut too, except in COLUMNS slots.
 */
static const struct {
    eitp__slot slot;
    const char *inputs;
} eitp__narrow_forms[] = {
    {EITP__SLOT_ADD, "bb"},
    {EITP__SLOT_SUBTRACT, "bb"},
    {EITP__SLOT_MULTIPLY, "bb"},
    {EITP__SLOT_DIVIDE, "bb"},
    {EITP__SLOT_MINIMUM, "bb"},
    {EITP__SLOT_MAXIMUM, "bb"},
    {EITP__SLOT_LESS, "bb"},
    {EITP__SLOT_EQUAL, "bb"},
    {EITP__SLOT_ACCUMULATE, "ccw"},
    {EITP__SLOT_LAYER_NORM, "cww"},
    {EITP__SLOT_LAYER_NORM_BACKWARD_INPUT, "cwwccc"},
    {EITP__SLOT_LAYER_NORM_BACKWARD_PARAMETERS, "cwwccc"},
    {EITP__SLOT_RMS_NORM, "cw"},
    {EITP__SLOT_RMS_NORM_BACKWARD_INPUT, "cwcc"},
    {EITP__SLOT_RMS_NORM_BACKWARD_PARAMETERS, "cwcc"},
    {EITP__SLOT_PATH_PRODUCT_TRANSPOSED, "cw"},
    {EITP__SLOT_PATH_PRODUCT_BACKWARD, "ccw"},
    {EITP__SLOT_COLUMN_SQUARES, "cs"},
    {EITP__SLOT_ROW_PRODUCTS, "cw"},
    {EITP__SLOT_COLUMN_PRODUCTS, "ccs"},
};

/* Elements of an operand in a tile. Three tiles fit in a cache of 32 KiB. A row that is longer becomes one tile. */
enum { EITP__NARROW_TILE = 2048 };

/* The state of cutting a call into tiles. `tile` points to free workspace for the next operand. */
typedef struct eitp__narrow_cut {
    const eitp__narrow_set *set;
    eitp__family family;
    const char *inputs;
    int64_t units, most;  /* most: units of a tile */
    int64_t first, count; /* the units of this tile */
    int64_t begin, end;   /* the columns of a COLUMNS slot that are needed */
    float *tile;
} eitp__narrow_cut;

static int eitp__is_narrow(const eitp__operand *x) {
    return x->dtype == EITP_BF16 || x->dtype == EITP_F16;
}

static char eitp__narrow_letter(const eitp__narrow_cut *cut, int input) {
    return cut->inputs ? cut->inputs[input] : 'c';
}

/* Elements of a unit. The last block may have fewer. */
static int64_t eitp__narrow_width(const eitp__narrow_cut *cut, const eitp__operand *x) {
    if (cut->family == EITP__FAMILY_BLOCKS && eitp__is_narrow(x))
        return EITP__SUM_BLOCK;
    return cut->units ? x->elements / cut->units : 0;
}

static eitp__narrow_cut eitp__narrow_cut_of(const eitp__call *call) {
    const eitp__operand *matrix = &call->inputs[0];
    eitp__narrow_cut cut = EITP__ZERO;
    int64_t width = 1;
    cut.family = eitp__slot_family(call->slot);
    for (size_t i = 0; i < EITP__COUNT(eitp__narrow_forms); i++)
        if (eitp__narrow_forms[i].slot == call->slot)
            cut.inputs = eitp__narrow_forms[i].inputs;
    if (cut.family == EITP__FAMILY_ROWS || cut.family == EITP__FAMILY_COLUMNS) {
        while (!eitp__is_narrow(matrix))
            matrix++;
        width = matrix->rank ? matrix->shape[matrix->rank - 1] : 1;
        cut.units = width ? matrix->elements / width : 0;
    } else {
        cut.units = call->outputs[0].elements;
        width = cut.family == EITP__FAMILY_BLOCKS ? EITP__SUM_BLOCK : 1;
    }
    cut.most = width && EITP__NARROW_TILE / width > 1 ? EITP__NARROW_TILE / width : 1;
    return cut;
}

/* The floats that an operand has in the workspace, whole vectors. */
static int64_t eitp__narrow_room(const eitp__narrow_cut *cut, const eitp__operand *x, char letter) {
    int64_t floats = cut->most * (letter == 'b' ? 1 : eitp__narrow_width(cut, x));
    return eitp__is_narrow(x) && (letter == 'c' || letter == 'b') ? (floats + 15) / 16 * 16 : 0;
}

/* The letter of outputs. */
static char eitp__narrow_output(const eitp__narrow_cut *cut) {
    return cut->family == EITP__FAMILY_COLUMNS ? 'w' : 'c';
}

EITP__PRIVATE size_t eitp__narrow_workspace(const eitp__call *call) {
    const eitp__narrow_cut cut = eitp__narrow_cut_of(call);
    int64_t floats = 0;
    for (int i = 0; i < call->input_count; i++)
        floats += eitp__narrow_room(&cut, &call->inputs[i], eitp__narrow_letter(&cut, i));
    for (int i = 0; i < call->output_count; i++)
        floats += eitp__narrow_room(&cut, &call->outputs[i], eitp__narrow_output(&cut));
    return (size_t)floats * sizeof(float);
}

/* Makes `part` the units of x in this tile: where they are, or if they have 16 bits a place in the workspace. */
static void eitp__narrow_part(eitp__narrow_cut *cut, const eitp__operand *x, char letter, eitp__operand *part) {
    const int64_t width = eitp__narrow_width(cut, x), first = cut->first * width;
    const int64_t rest = x->elements - first, count = cut->count * width;
    if (letter != 'c' || !x->data)
        return;
    part->rank = 2;
    part->shape[0] = cut->count;
    part->shape[1] = width;
    part->elements = count < rest ? count : rest;
    part->data = (char *)x->data + (size_t)first * eitp_dtype_size(x->dtype);
    if (!eitp__is_narrow(x))
        return;
    part->dtype = EITP_F32;
    part->data = cut->tile;
    cut->tile += eitp__narrow_room(cut, x, letter);
}

/* Converts the units of x to `part`, of a COLUMNS slot only the columns that are needed. */
static void eitp__narrow_load(const eitp__narrow_cut *cut, const eitp__operand *x, const eitp__operand *part) {
    const int by_columns = cut->family == EITP__FAMILY_COLUMNS;
    const int64_t width = part->shape[1], rows = by_columns ? cut->count : 1;
    const uint16_t *from = (const uint16_t *)x->data + cut->first * eitp__narrow_width(cut, x) + cut->begin;
    float *to = (float *)part->data + cut->begin;
    for (int64_t row = 0; row < rows; row++, from += width, to += width)
        cut->set->widen(x->dtype, from, to, (size_t)(by_columns ? cut->end - cut->begin : part->elements));
}

/* Converts what x has for each element of this tile. */
static void eitp__narrow_broadcast(eitp__narrow_cut *cut, const eitp__call *call, int which, eitp__operand *part) {
    const eitp__spans spans = eitp__find_spans(call);
    const eitp__operand *x = &call->inputs[which];
    const uint16_t *from = (const uint16_t *)x->data;
    float *to = cut->tile;
    part->dtype = EITP_F32;
    part->rank = 2;
    part->shape[0] = part->elements = cut->count;
    part->shape[1] = 1;
    part->data = to;
    cut->tile += eitp__narrow_room(cut, x, 'b');
    for (int64_t i = cut->first, stop = cut->first + cut->count, count; i < stop; i += count, to += count) {
        const int64_t length = spans.size[0] - i % spans.size[0], at = eitp__span_offset(&spans, which, i);
        const int advances = spans.strides[which][0] != 0;
        count = stop - i < length ? stop - i : length;
        cut->set->widen(x->dtype, from + at, to, (size_t)(advances ? count : 1));
        for (int64_t j = 1; j < count && !advances; j++)
            to[j] = to[0];
    }
}

static void eitp__narrow_inputs(eitp__narrow_cut *cut, const eitp__call *call, eitp__call *part) {
    for (int i = 0; i < call->input_count; i++) {
        const eitp__operand *x = &call->inputs[i];
        const char letter = eitp__narrow_letter(cut, i);
        if (letter == 'b') {
            eitp__narrow_broadcast(cut, call, i, &part->inputs[i]);
            continue;
        }
        eitp__narrow_part(cut, x, letter, &part->inputs[i]);
        if (letter == 'c' && eitp__is_narrow(x))
            eitp__narrow_load(cut, x, &part->inputs[i]);
        if (letter == 's' && cut->first)
            part->inputs[i].data = part->outputs[0].data;
    }
}

static void eitp__narrow_store(const eitp__narrow_cut *cut, const eitp__call *call, const eitp__call *part) {
    for (int i = 0; i < call->output_count && eitp__narrow_output(cut) == 'c'; i++) {
        const eitp__operand *y = &call->outputs[i], *from = &part->outputs[i];
        if (eitp__is_narrow(y))
            cut->set->narrow(y->dtype, (const float *)from->data,
                             (uint16_t *)y->data + cut->first * eitp__narrow_width(cut, y), (size_t)from->elements);
    }
}

static eitp__kernel_function eitp__narrow_kernel(const eitp__narrow_set *set, eitp__slot slot) {
    size_t i = 0;
    while (set->kernels[i].slot != slot)
        i++;
    return set->kernels[i].run;
}

EITP__PRIVATE void eitp__run_narrow(const eitp__narrow_set *set, const eitp__call *call, int64_t begin, int64_t end,
                                    void *workspace) {
    const eitp__kernel_function run = eitp__narrow_kernel(set, call->slot);
    eitp__narrow_cut cut = eitp__narrow_cut_of(call);
    const int by_columns = cut.family == EITP__FAMILY_COLUMNS;
    const int64_t stop = by_columns ? cut.units : end;
    eitp__call part = *call;
    cut.set = set;
    part.dtype = EITP_F32;
    if (by_columns) {
        cut.begin = begin;
        cut.end = end;
    } else {
        cut.first = begin;
    }
    do {
        cut.count = stop - cut.first < cut.most ? stop - cut.first : cut.most;
        cut.tile = (float *)workspace;
        eitp__narrow_inputs(&cut, call, &part);
        for (int i = 0; i < call->output_count; i++)
            eitp__narrow_part(&cut, &call->outputs[i], eitp__narrow_output(&cut), &part.outputs[i]);
        run(&part, by_columns ? begin : 0, by_columns ? end : cut.count, NULL);
        eitp__narrow_store(&cut, call, &part);
        cut.first += cut.count;
        if (by_columns) {
            part.accumulates = 1;
            part.carry = NULL;
        }
    } while (cut.first < stop);
}

EITP__PRIVATE void eitp__register_narrow(eitp__kernel_table *table, const eitp__narrow_set *set, const char *name,
                                         eitp__kernel_function run) {
    eitp__kernel wide = EITP__ZERO, narrow = EITP__ZERO;
    wide.set = narrow.set = name;
    narrow.run = run;
    narrow.workspace = eitp__narrow_workspace;
    for (size_t i = 0; i < set->count; i++) {
        wide.run = set->kernels[i].run;
        table->kernels[set->kernels[i].slot][EITP_F32] = wide;
        table->kernels[set->kernels[i].slot][EITP_BF16] = table->kernels[set->kernels[i].slot][EITP_F16] = narrow;
    }
}
