/* Describes the evaluation of a classifier as JSON: a confusion matrix of bounded size, and the worst mistakes. */
#ifndef EITP_DESCRIPTION_H
#define EITP_DESCRIPTION_H

#include "base/json.h"
#include "task/outcomes.h"

/* Limits of a description: labels in the matrix; bytes of the text of a sample, of a word, and of a label's name. */
enum { EITP__DESCRIBED_LABELS = 50, EITP__DESCRIBED_TEXT = 200, EITP__DESCRIBED_WORD = 64, EITP__DESCRIBED_NAME = 64 };

/* A confusion matrix. */
typedef struct eitp__confusion {
    int64_t count;                          /* number of labels shown; 0: no matrix */
    int64_t labels[EITP__DESCRIBED_LABELS]; /* the most frequent labels, in ascending order */
    int has_others;
    /*
     * With one label per sample or token: [size, size] with a row for each true label, where size is count +
     * has_others. With several labels: [count, 3], the numbers of samples that have the label, are predicted to have
     * it, and both.
     */
    int64_t counts[(EITP__DESCRIBED_LABELS + 1) * (EITP__DESCRIBED_LABELS + 1)];
} eitp__confusion;

/* Counts the samples. outcomes->by_label must hold the counts of all samples. */
EITP__PRIVATE void eitp__confusion_count(eitp__confusion *confusion, const eitp__outcomes *outcomes);

/* Writes the text for eitp_task.describe. If `tokenizer` is NULL, the text of samples is left out. */
EITP__PRIVATE void eitp__describe_evaluation(eitp__buffer *text, eitp_problem problem, const eitp_model *model,
                                             const eitp_tokenizer *tokenizer, const eitp__confusion *confusion,
                                             const eitp_mistake *mistakes, int64_t mistake_count);

/* Adds the text of some tokens as JSON, without special tokens. The text has at most `limit` bytes and ends with a
   whole character. Adds null if the tokens have no text. */
EITP__PRIVATE void eitp__describe_ids(eitp__buffer *text, const eitp_tokenizer *tokenizer, const int32_t *ids,
                                      int64_t count, size_t limit);

#endif
