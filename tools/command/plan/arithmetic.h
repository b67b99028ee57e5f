/* The arithmetic of a step, by component of the model. */
#ifndef COMMAND_PLAN_ARITHMETIC_H
#define COMMAND_PLAN_ARITHMETIC_H

#include "command.h"
#include "text.h"

EITP_BEGIN_DECLARATIONS

/* Adds a table with a line per component, and their sum. `tokens` is the number of tokens in a step. */
void arithmetic_add_table(text_buffer *t, const eitp_fit_candidate *candidate, int64_t tokens);

/* Adds a JSON object with a member per component. */
void arithmetic_add_json(text_buffer *t, const eitp_fit_candidate *candidate);

EITP_END_DECLARATIONS

#endif
