/*
 * Finds the op that produced the first non-finite value. Some such values are intended: a mask of -inf that a task
 * fills in or reads, and the sums it is added to. So infinities in inputs and constants are accepted, and so are
 * infinities derived from them. A NaN is never accepted, nor a variable that holds either, nor an infinity made from
 * finite values. Values that a mask hides later, such as the logarithm of 0 in an unused element, are reported too:
 * callers check only steps whose result is not finite.
 */
#include "tensor/check_finite.h"

#include "tensor/profile.h"

/* Bytes of an operand that are checked together. */
enum { EITP__CHECKED_BYTES = 4096 };

/* Non-finite values in an operand: the indices of the first ones, -1: none. */
typedef struct eitp__nonfinite_scan {
    int64_t nan, infinity;
    double value; /* value of the infinity */
} eitp__nonfinite_scan;

void eitp_context_check_finite(eitp_context *context, eitp_nonfinite *first) {
    if (!context)
        return;
    context->nonfinite = first;
    if (first)
        memset(first, 0, sizeof *first);
}

static double eitp__element_at(const void *bytes, eitp_dtype dtype, size_t i) {
    double wide;
    float number;
    uint16_t half;
    if (dtype == EITP_F64) {
        memcpy(&wide, (const char *)bytes + i * sizeof wide, sizeof wide);
        return wide;
    }
    if (dtype == EITP_F32) {
        memcpy(&number, (const char *)bytes + i * sizeof number, sizeof number);
        return (double)number;
    }
    memcpy(&half, (const char *)bytes + i * sizeof half, sizeof half);
    return (double)(dtype == EITP_BF16 ? eitp__bf16_to_f32(half) : eitp__f16_to_f32(half));
}

static void eitp__scan_bytes(const void *bytes, eitp_dtype dtype, int64_t first, size_t count,
                             eitp__nonfinite_scan *scan) {
    for (size_t i = 0; i < count; i++) {
        const double value = eitp__element_at(bytes, dtype, i);
        if (isfinite(value))
            continue;
        if (value != value && scan->nan < 0)
            scan->nan = first + (int64_t)i;
        if (value == value && scan->infinity < 0) {
            scan->infinity = first + (int64_t)i;
            scan->value = value;
        }
    }
}

static eitp_status eitp__scan_operand(const eitp_plan *plan, const eitp__operand *operand, eitp__nonfinite_scan *scan,
                                      eitp_error *error) {
    union {
        double aligned;
        char bytes[EITP__CHECKED_BYTES];
    } part;
    const int64_t size = (int64_t)eitp_dtype_size(operand->dtype), most = EITP__CHECKED_BYTES / size;
    const int64_t elements = eitp__used_elements(plan, operand);
    eitp__backend *backend = plan->context->backend;
    eitp_status status = EITP_OK;
    scan->nan = scan->infinity = -1;
    scan->value = 0;
    for (int64_t i = 0; operand->data && eitp__is_floating(operand->dtype) && i < elements && !status; i += most) {
        const int64_t count = elements - i < most ? elements - i : most;
        status = backend->interface->download(backend, part.bytes, (const char *)operand->data + i * size,
                                              (size_t)(count * size), error);
        if (!status)
            eitp__scan_bytes(part.bytes, operand->dtype, i, (size_t)count, scan);
    }
    return status;
}

/* ---- Findings ---- */

static void eitp__report_nonfinite(const eitp_plan *plan, size_t s, const eitp__operand *operand, const char *source,
                                   const eitp__nonfinite_scan *scan) {
    eitp_nonfinite *found = plan->context->nonfinite;
    found->op = eitp__op(plan->steps[s].node->graph, plan->steps[s].node->op)->name;
    snprintf(found->source, sizeof found->source, "%s", source);
    snprintf(found->place, sizeof found->place, "%s", eitp__step_location(plan, s));
    found->dtype = operand->dtype;
    found->rank = operand->rank;
    memcpy(found->shape, operand->shape, sizeof found->shape);
    found->index = scan->nan >= 0 ? scan->nan : scan->infinity;
    found->value = scan->nan >= 0 ? (double)NAN : scan->value;
}

/* Returns the name of the operand if it is a variable or an input; NULL if it is computed. */
static const char *eitp__leaf_name(eitp_tensor *tensor, int *is_variable) {
    const eitp_tensor *owner = tensor ? eitp__owner(tensor, NULL) : NULL;
    *is_variable = owner && owner->leaf == EITP__VARIABLE;
    if (*is_variable)
        return eitp__variable_name(owner);
    return owner && owner->leaf == EITP__INPUT ? owner->name : NULL;
}

EITP__PRIVATE eitp_status eitp__check_step_inputs(const eitp_plan *plan, size_t s, eitp__nonfinite_inputs *inputs,
                                                  eitp_error *error) {
    const eitp__call *call = &plan->calls[s];
    const eitp__step *step = &plan->steps[s];
    eitp_status status = EITP_OK;
    memset(inputs, 0, sizeof *inputs);
    for (int i = 0; i < call->input_count && !status && !plan->context->nonfinite->op; i++) {
        eitp__nonfinite_scan scan;
        int is_variable = 0;
        const char *name = i < step->input_count ? eitp__leaf_name(step->inputs[i], &is_variable) : NULL;
        status = eitp__scan_operand(plan, &call->inputs[i], &scan, error);
        if (status)
            return status;
        inputs->nan |= scan.nan >= 0;
        inputs->infinity |= scan.infinity >= 0;
        if (name && (scan.nan >= 0 || (is_variable && scan.infinity >= 0)))
            eitp__report_nonfinite(plan, s, &call->inputs[i], name, &scan);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__check_step_outputs(const eitp_plan *plan, size_t s,
                                                   const eitp__nonfinite_inputs *inputs, eitp_error *error) {
    const eitp__call *call = &plan->calls[s];
    const eitp__op_info *op = eitp__op(plan->graph, plan->steps[s].node->op);
    eitp_status status = EITP_OK;
    for (int i = 0; i < call->output_count && !status && !plan->context->nonfinite->op; i++) {
        eitp__nonfinite_scan scan;
        if (op->partly_written >> i & 1)
            continue;
        status = eitp__scan_operand(plan, &call->outputs[i], &scan, error);
        if (status)
            return status;
        if ((scan.nan >= 0 && !inputs->nan && !op->is_constant) ||
            (scan.infinity >= 0 && !inputs->nan && !inputs->infinity && !op->is_constant))
            eitp__report_nonfinite(plan, s, &call->outputs[i], "", &scan);
    }
    return status;
}

/* ---- Description ---- */

static void eitp__nonfinite_shape(const eitp_nonfinite *found, char *text, size_t size) {
    size_t at = 0;
    snprintf(text, size, "scalar");
    for (int i = 0; i < found->rank && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld%s", i ? ", " : "[", (long long)found->shape[i],
                               i + 1 < found->rank ? "" : "]");
}

void eitp_nonfinite_format(const eitp_nonfinite *found, char *text, size_t size) {
    char shape[120], value[16];
    if (!text || !size)
        return;
    *text = 0;
    if (!found || !found->op)
        return;
    eitp__nonfinite_shape(found, shape, sizeof shape);
    snprintf(value, sizeof value, "%s", found->value != found->value ? "NaN" : found->value > 0 ? "inf" : "-inf");
    if (*found->source)
        snprintf(text, size, "'%s' (%s %s) holds %s in element %lld, first read by op %s", found->source,
                 eitp_dtype_name(found->dtype), shape, value, (long long)found->index, found->op);
    else
        snprintf(text, size, "op %s%s%s%s made %s from finite values, in element %lld of its result (%s %s)", found->op,
                 *found->place ? " at '" : "", found->place, *found->place ? "'" : "", value, (long long)found->index,
                 eitp_dtype_name(found->dtype), shape);
}
