/* Variables that use the memory of another context. */
#ifndef EITP_BORROW_H
#define EITP_BORROW_H

#include "tensor/context.h"

/*
 * Declares a variable of another context in this one, frozen and with the same memory, and its remainder if it has one.
 * Neither context can then change their values. The context keeps the memory until it is destroyed, or the variable is
 * rolled back. `lender` is only read, except for a mark on the variable, so several threads can borrow from it at the
 * same time.
 */
EITP__PRIVATE eitp_status eitp__variable_borrow(eitp_context *context, eitp_context *lender, const char *name,
                                                eitp_error *error);

#endif
