/* Variables that use the memory of another context's. */
#ifndef EITP_BORROW_H
#define EITP_BORROW_H

#include "tensor/context.h"

/*
 * Declares a variable of another context in this one, frozen, with the memory that it has there, and its remainder if
 * it has one. Then neither context can change their values. The context keeps the memory until it is destroyed, or the
 * variable is rolled back. `lender` is only read, but for a mark on the variable, so several threads can borrow from it
 * at the same time.
 */
EITP__PRIVATE eitp_status eitp__variable_borrow(eitp_context *context, eitp_context *lender, const char *name,
                                                eitp_error *error);

#endif
