/* The output of eitp eval: lines, or a JSON object. */
#ifndef COMMAND_USE_EVAL_RESULT_H
#define COMMAND_USE_EVAL_RESULT_H

#include "use/trained_model.h"

EITP_BEGIN_DECLARATIONS

/* Adds the measurements of a model that was opened with samples. */
void eval_result_add(const trained_model *m, const eitp_evaluation *result, int json, text_buffer *t);

EITP_END_DECLARATIONS

#endif
