/* What the labels of examples mean: names or numbers, one or several, and how they are numbered. */
#ifndef EITP_EXAMPLE_LABELS_H
#define EITP_EXAMPLE_LABELS_H

#include "data/label_table.h"
#include "data/labelled.h"

typedef struct eitp__example_labels {
    const eitp_host *host;
    const eitp_labelled_pack_config *config;
    eitp__label_table table;       /* config->labels of a classification, and what examples add */
    eitp_problem problem;          /* config->problem; or EITP_PROBLEM_TOKENS, as examples were found to have */
    int has_several;               /* an example may have several labels */
    int64_t target_count;          /* of a regression that was asked for; 0: not known yet */
    uint64_t labelled, unlabelled; /* examples */
    uint64_t label_count;          /* labels of all examples */
    uint32_t *numbers;             /* of the last example, in `table`; with EITP_PROBLEM_TOKENS one for each word */
    size_t count, capacity;
} eitp__example_labels;

/* Checks config->problem and config->labels. Call eitp__example_labels_release even after a failure. */
EITP__PRIVATE eitp_status eitp__example_labels_init(eitp__example_labels *labels, const eitp_host *host,
                                                    const eitp_labelled_pack_config *config, eitp_error *error);
EITP__PRIVATE void eitp__example_labels_release(eitp__example_labels *labels);

/* True if an example is to be encoded word by word, with a label for each. The first one with labels decides, if
   config->problem does not. */
EITP__PRIVATE int eitp__example_labels_are_of_words(eitp__example_labels *labels, const eitp_example *example);

/* Sets labels->numbers to the labels of an example. EITP_ERROR_ARGUMENT: the example is bad, and the table is
   unchanged. */
EITP__PRIVATE eitp_status eitp__example_labels_add(eitp__example_labels *labels, const eitp_example *example,
                                                   eitp_error *error);

/* What the labels of all examples are. */
typedef struct eitp__label_meaning {
    eitp_problem problem;
    int64_t label_count;
    uint32_t *values;   /* by number in the table: the number of the label, or the bits of the float to predict */
    size_t value_count; /* labels of the table */
    eitp__buffer names; /* label_count names, a zero byte after each; empty: they have none */
} eitp__label_meaning;

/* Decides what the labels are. Call eitp__label_meaning_release even after a failure. */
EITP__PRIVATE eitp_status eitp__example_labels_finish(const eitp__example_labels *labels, eitp__label_meaning *meaning,
                                                      eitp_error *error);
EITP__PRIVATE void eitp__label_meaning_release(eitp__label_meaning *meaning);

#endif
