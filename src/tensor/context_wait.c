/* Waiting for executions of a context. */
#include "tensor/context.h"

EITP__PRIVATE void eitp__context_finish(eitp_context *context) {
    eitp_error error;
    if (context->is_busy && context->backend->interface->wait(context->backend, &error) && !context->late.status)
        context->late = error;
    context->is_busy = 0;
}

EITP__PRIVATE eitp_status eitp__context_wait(eitp_context *context, eitp_error *error) {
    eitp_status status;
    eitp__context_finish(context);
    status = context->late.status;
    if (status && error)
        *error = context->late;
    context->late.status = EITP_OK;
    return status;
}
