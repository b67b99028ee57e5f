/* The evaluation of a classifier as text: a confusion matrix of bounded size, and the worst mistakes. */
#ifndef EITP_DESCRIPTION_H
#define EITP_DESCRIPTION_H

#include "base/json.h"
#include "task/outcomes.h"

/* Labels of a described evaluation, and bytes of a text, of a word and of the name of a label. */
enum { EITP__DESCRIBED_LABELS = 50, EITP__DESCRIBED_TEXT = 200, EITP__DESCRIBED_WORD = 64, EITP__DESCRIBED_NAME = 64 };

/* Which labels are how often taken for which. */
typedef struct eitp__confusion {
    int64_t count;                          /* of the labels that are shown; 0: there are none */
    int64_t labels[EITP__DESCRIBED_LABELS]; /* those that most samples have, in ascending order */
    int has_others;
    /* With a single label, of a sample or a token: [size, size], true ones by row, size being count + has_others. With
       several labels [count, 3]: samples that have it, that are predicted to, and both. */
    int64_t counts[(EITP__DESCRIBED_LABELS + 1) * (EITP__DESCRIBED_LABELS + 1)];
} eitp__confusion;

/* Counts. outcomes->by_label must hold the counts of all samples. */
EITP__PRIVATE void eitp__confusion_count(eitp__confusion *confusion, const eitp__outcomes *outcomes);

/* Writes the text for eitp_task.describe; `tokenizer` NULL: without the texts of samples. */
EITP__PRIVATE void eitp__describe_evaluation(eitp__buffer *text, eitp_problem problem, const eitp_model *model,
                                             const eitp_tokenizer *tokenizer, const eitp__confusion *confusion,
                                             const eitp_mistake *mistakes, int64_t mistake_count);

/* Adds the text of some tokens as JSON, without special ones, and of at most `limit` bytes: it ends with a whole
   character. Adds null if they have no text. */
EITP__PRIVATE void eitp__describe_ids(eitp__buffer *text, const eitp_tokenizer *tokenizer, const int32_t *ids,
                                      int64_t count, size_t limit);

#endif
