/* The table of optimizers. A new optimizer is an entry of it, plus a rule of the slot UPDATE if no existing rule
   computes it. */
#ifndef EITP_OPTIMIZERS_H
#define EITP_OPTIMIZERS_H

#include "optim/update.h"

/* factored.c */
EITP__PRIVATE void eitp__factored_squares(eitp__update_piece *piece, const eitp__update_piece *before);
EITP__PRIVATE void eitp__factored_prepare(const eitp_optimizer_config *config, const eitp_update *update,
                                          eitp__update_piece *pieces, size_t count);

/* optimizers.c: fails with EITP_ERROR_ARGUMENT if the optimizer is unknown. */
EITP__PRIVATE eitp_status eitp__optimizer_check(eitp_optimizer optimizer, eitp_error *error);

/* Returns the update method of the optimizer for parameters of this rank. */
EITP__PRIVATE const eitp__update_method *eitp__update_method_of(eitp_optimizer optimizer, int rank);

/* Returns the method's first state with this content and form, or any form with EITP__FORM_NONE. NULL if none
   matches. */
EITP__PRIVATE const eitp__state_info *eitp__find_state(const eitp__update_method *method, eitp__state_content content,
                                                       eitp__state_form form);

#endif
