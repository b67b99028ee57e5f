#include "kernels/narrow.h"
#include "kernels/spans.h"

/*
 * Splitting of a slot's operands. The unit of a FLAT slot is an element, of a ROWS slot a row. One letter per input:
 *   c  cut: each unit has its part of the operand
 *   b  broadcast to the output, whose elements are the units
 *   w  whole: every unit needs the whole operand
 * The inputs of a slot that is not listed are all c. Outputs are always cut.
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
    {EITP__SLOT_RMS_NORM, "cw"},
    {EITP__SLOT_RMS_NORM_BACKWARD_INPUT, "cwcc"},
    {EITP__SLOT_PATH_PRODUCT_TRANSPOSED, "cw"},
    {EITP__SLOT_PATH_PRODUCT_BACKWARD, "ccw"},
    {EITP__SLOT_ROW_PRODUCTS, "cw"},
};

/* Elements of an operand in a tile. Three tiles fit in a 32 KiB cache. A longer row becomes a tile by itself. */
enum { EITP__NARROW_TILE = 2048 };

/* State of splitting a call into tiles. */
typedef struct eitp__narrow_cut {
    const eitp__narrow_set *set;
    const char *inputs;
    int64_t units, most;  /* most: units per tile */
    int64_t first, count; /* units of the current tile */
    eitp__spans spans;    /* for inputs that broadcast */
} eitp__narrow_cut;

static int eitp__is_narrow(const eitp__operand *x) {
    return x->dtype == EITP_BF16 || x->dtype == EITP_F16;
}

static char eitp__narrow_letter(const eitp__narrow_cut *cut, int input) {
    return cut->inputs ? cut->inputs[input] : 'c';
}

static eitp__narrow_cut eitp__narrow_cut_of(const eitp__call *call) {
    const int by_rows = eitp__slot_family(call->slot) == EITP__FAMILY_ROWS;
    const int64_t width = by_rows ? eitp__operand_columns(&call->inputs[0]) : 1;
    const eitp__operand *whole = by_rows ? &call->inputs[0] : &call->outputs[0];
    eitp__narrow_cut cut = EITP__ZERO;
    for (size_t i = 0; i < EITP__COUNT(eitp__narrow_forms); i++)
        if (eitp__narrow_forms[i].slot == call->slot)
            cut.inputs = eitp__narrow_forms[i].inputs;
    cut.units = width ? whole->elements / width : 0;
    cut.most = width && EITP__NARROW_TILE / width > 1 ? EITP__NARROW_TILE / width : 1;
    return cut;
}

/* Returns the number of elements per unit. */
static int64_t eitp__narrow_width(const eitp__narrow_cut *cut, const eitp__operand *x, char letter) {
    return letter == 'b' ? 1 : cut->units ? x->elements / cut->units : 0;
}

/* Returns the number of floats that an operand occupies in the workspace, rounded up to whole vectors. */
static int64_t eitp__narrow_room(const eitp__narrow_cut *cut, const eitp__operand *x, char letter) {
    int64_t floats = cut->most * eitp__narrow_width(cut, x, letter);
    return eitp__is_narrow(x) && letter != 'w' ? (floats + 15) / 16 * 16 : 0;
}

EITP__PRIVATE size_t eitp__narrow_workspace(const eitp__call *call) {
    const eitp__narrow_cut cut = eitp__narrow_cut_of(call);
    int64_t floats = 0;
    for (int i = 0; i < call->input_count; i++)
        floats += eitp__narrow_room(&cut, &call->inputs[i], eitp__narrow_letter(&cut, i));
    for (int i = 0; i < call->output_count; i++)
        floats += eitp__narrow_room(&cut, &call->outputs[i], 'c');
    return (size_t)floats * sizeof(float);
}

/* Sets up `part` as a tile of x. A 16-bit x is converted at `workspace`. Returns the workspace after it. */
static float *eitp__narrow_place(const eitp__narrow_cut *cut, const eitp__operand *x, char letter, eitp__operand *part,
                                 float *workspace) {
    if (letter == 'w')
        return workspace;
    part->rank = 2;
    part->shape[1] = eitp__narrow_width(cut, x, letter);
    if (!eitp__is_narrow(x))
        return workspace;
    part->dtype = EITP_F32;
    part->data = workspace;
    return workspace + eitp__narrow_room(cut, x, letter);
}

/* Points `part` to the current tile of x. */
static void eitp__narrow_advance(const eitp__narrow_cut *cut, const eitp__operand *x, char letter,
                                 eitp__operand *part) {
    if (letter == 'w')
        return;
    part->shape[0] = cut->count;
    part->elements = cut->count * part->shape[1];
    if (!eitp__is_narrow(x))
        part->data = (char *)x->data + (size_t)(cut->first * part->shape[1]) * eitp_dtype_size(x->dtype);
}

/* Converts the elements of broadcast input `which` that correspond to this tile. */
static void eitp__narrow_broadcast(const eitp__narrow_cut *cut, const eitp__operand *x, int which, float *to) {
    const uint16_t *from = (const uint16_t *)x->data;
    const int advances = cut->spans.strides[which][0] != 0;
    for (int64_t i = cut->first, stop = cut->first + cut->count, count; i < stop; i += count, to += count) {
        const int64_t length = cut->spans.size[0] - i % cut->spans.size[0];
        const uint16_t *at = from + eitp__span_offset(&cut->spans, which, i);
        count = stop - i < length ? stop - i : length;
        cut->set->widen(x->dtype, at, to, (size_t)(advances ? count : 1));
        for (int64_t j = 1; j < count && !advances; j++)
            to[j] = to[0];
    }
}

static void eitp__narrow_load(const eitp__narrow_cut *cut, const eitp__call *call, eitp__call *part) {
    for (int i = 0; i < call->input_count; i++) {
        const eitp__operand *x = &call->inputs[i];
        const char letter = eitp__narrow_letter(cut, i);
        eitp__operand *to = &part->inputs[i];
        eitp__narrow_advance(cut, x, letter, to);
        if (letter == 'b')
            eitp__narrow_broadcast(cut, x, i, (float *)to->data);
        else if (letter == 'c' && eitp__is_narrow(x))
            cut->set->widen(x->dtype, (const uint16_t *)x->data + cut->first * to->shape[1], (float *)to->data,
                            (size_t)to->elements);
    }
}

static void eitp__narrow_store(const eitp__narrow_cut *cut, const eitp__call *call, const eitp__call *part) {
    for (int i = 0; i < call->output_count; i++) {
        const eitp__operand *y = &call->outputs[i], *from = &part->outputs[i];
        if (eitp__is_narrow(y))
            cut->set->narrow(y->dtype, (const float *)from->data, (uint16_t *)y->data + cut->first * from->shape[1],
                             (size_t)from->elements);
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
    float *place = (float *)workspace;
    eitp__call part = *call;
    cut.set = set;
    part.dtype = EITP_F32;
    if (eitp__narrow_letter(&cut, 0) == 'b')
        cut.spans = eitp__find_spans(call);
    for (int i = 0; i < call->input_count; i++)
        place = eitp__narrow_place(&cut, &call->inputs[i], eitp__narrow_letter(&cut, i), &part.inputs[i], place);
    for (int i = 0; i < call->output_count; i++)
        place = eitp__narrow_place(&cut, &call->outputs[i], 'c', &part.outputs[i], place);
    for (cut.first = begin; cut.first < end; cut.first += cut.count) {
        cut.count = end - cut.first < cut.most ? end - cut.first : cut.most;
        eitp__narrow_load(&cut, call, &part);
        for (int i = 0; i < call->output_count; i++)
            eitp__narrow_advance(&cut, &call->outputs[i], 'c', &part.outputs[i]);
        run(&part, 0, cut.count, NULL);
        eitp__narrow_store(&cut, call, &part);
    }
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
