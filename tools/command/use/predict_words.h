/* eitp predict with a token classifier. */
#ifndef COMMAND_USE_PREDICT_WORDS_H
#define COMMAND_USE_PREDICT_WORDS_H

#include "use/predictor.h"

EITP_BEGIN_DECLARATIONS

/* Adds the labels of the words of a row with the scores values[words][labels]: a JSON line that includes the entities,
   or a CoNLL line for each word and an empty line. */
eitp_status predict_write_words(const predicting *p, const eitp_text_pair *row, const float *values, text_buffer *t,
                                eitp_error *error);

EITP_END_DECLARATIONS

#endif
