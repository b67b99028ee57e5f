/* eitp predict with a classifier of tokens. */
#ifndef COMMAND_USE_PREDICT_WORDS_H
#define COMMAND_USE_PREDICT_WORDS_H

#include "use/predictor.h"

EITP_BEGIN_DECLARATIONS

/* Adds the labels of the words of a row, whose scores are values[words][labels]: a JSON line, also with the entities
   that they mark; or a line of CoNLL for each word, and an empty one. */
eitp_status predict_write_words(const predicting *p, const eitp_text_pair *row, const float *values, text_buffer *t,
                                eitp_error *error);

EITP_END_DECLARATIONS

#endif
