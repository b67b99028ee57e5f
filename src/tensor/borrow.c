#include "tensor/borrow.h"

#include "base/memory.h"
#include "tensor/variable.h"

static eitp_status eitp__check_lending(const eitp_context *context, const eitp__variable *variable, eitp_error *error) {
    if (eitp_variable_find(context, variable->info.name) >= 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "variable '%s' exists in the context; use the model it belongs to, or another context",
                          variable->info.name);
    if (variable->info.offloaded)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "variable '%s' is offloaded, so other contexts cannot use its memory; create the context of "
                          "its model with EITP_OFFLOAD_NONE",
                          variable->info.name);
    if (!variable->data && !context->plans_only)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "variable '%s' has no values yet; initialize or load its model first", variable->info.name);
    return EITP_OK;
}

/* Makes the context hold a reference to the segments, if it does not already. */
static eitp_status eitp__keep_segments(eitp_context *context, eitp__segments *segments, eitp_error *error) {
    for (size_t i = 0; i < context->lender_count; i++) {
        if (context->lenders[i] == segments)
            return EITP_OK;
    }
    if (!eitp__reserve(&context->host, (void **)&context->lenders, &context->lender_capacity, context->lender_count + 1,
                       sizeof(eitp__segments *)))
        return eitp__fail_memory(error, sizeof(eitp__segments *), "the list of lending contexts");
    eitp__segments_retain(segments);
    context->lenders[context->lender_count++] = segments;
    return EITP_OK;
}

/* Checks and prepares borrowing, before the variable is declared in this context. */
static eitp_status eitp__begin_borrowing(eitp_context *context, const eitp_context *lender, const eitp__variable *lent,
                                         eitp_error *error) {
    eitp_status status = eitp__check_lending(context, lent, error);
    return status ? status : eitp__keep_segments(context, lent->lender ? lent->lender : lender->segments, error);
}

/* Takes over the lent memory, after the variable is declared at `index`. */
static void eitp__take_memory(eitp_context *context, const eitp_context *lender, eitp__variable *lent, int64_t index) {
    eitp__variable *borrowed = &context->variables[index];
    __atomic_store_n(&lent->is_lent, 1, __ATOMIC_RELAXED);
    borrowed->lender = lent->lender ? lent->lender : lender->segments;
    borrowed->data = lent->data;
    borrowed->info.decay = lent->info.decay;
    borrowed->info.trained = borrowed->info.offloaded = 0;
    borrowed->info.borrowed = 1;
}

static eitp_status eitp__borrow_remainder(eitp_context *context, const eitp_context *lender, eitp__variable *lent,
                                          int64_t parent, eitp_error *error) {
    eitp__child_info child = EITP__ZERO;
    int64_t index;
    eitp_status status = eitp__begin_borrowing(context, lender, lent, error);
    child.kind = lent->info.kind;
    child.number = lent->number;
    child.role = lent->info.role;
    child.dtype = lent->info.dtype;
    child.rank = lent->info.rank;
    child.shape = lent->info.shape;
    if (!status)
        status = eitp__child_declare(context, parent, &child, &index, error);
    if (!status)
        eitp__take_memory(context, lender, lent, index);
    return status;
}

EITP__PRIVATE eitp_status eitp__variable_borrow(eitp_context *context, eitp_context *lender, const char *name,
                                                eitp_error *error) {
    eitp__variable *lent = NULL, *remainder;
    int64_t index;
    eitp_status status = eitp__variable_named(lender, name, &lent, error);
    if (!status)
        status = eitp__begin_borrowing(context, lender, lent, error);
    if (!status)
        status = eitp__variable_declare(context, name, lent->info.role, lent->info.dtype, lent->info.rank,
                                        lent->info.shape, &index, error);
    if (status)
        return status;
    eitp__take_memory(context, lender, lent, index);
    remainder = eitp__remainder_of(lender, lent);
    return remainder ? eitp__borrow_remainder(context, lender, remainder, index, error) : EITP_OK;
}
