#include "tensor/borrow.h"

#include "base/memory.h"
#include "tensor/variable.h"

static eitp_status eitp__check_lending(const eitp_context *context, const eitp__variable *variable, eitp_error *error) {
    if (eitp_variable_find(context, variable->info.name) >= 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "variable '%s' exists in the context; use the model that it belongs to, or another context",
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

/* Makes the context hold a reference to the segments, if it does not. */
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

EITP__PRIVATE eitp_status eitp__variable_borrow(eitp_context *context, eitp_context *lender, const char *name,
                                                eitp_error *error) {
    eitp__variable *lent = NULL, *borrowed;
    int64_t index;
    eitp_status status = eitp__variable_named(lender, name, &lent, error);
    if (!status)
        status = eitp__check_lending(context, lent, error);
    if (!status)
        status = eitp__keep_segments(context, lent->lender ? lent->lender : lender->segments, error);
    if (!status)
        status = eitp__variable_declare(context, name, lent->info.role, lent->info.dtype, lent->info.rank,
                                        lent->info.shape, &index, error);
    if (status)
        return status;
    __atomic_store_n(&lent->is_lent, 1, __ATOMIC_RELAXED);
    borrowed = &context->variables[index];
    borrowed->lender = lent->lender ? lent->lender : lender->segments;
    borrowed->data = lent->data;
    borrowed->info.decay = lent->info.decay;
    borrowed->info.trained = borrowed->info.offloaded = 0;
    borrowed->info.borrowed = 1;
    return EITP_OK;
}
