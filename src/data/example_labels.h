/* The meaning and numbering of example labels: names or numbers, one or several. */
#ifndef EITP_EXAMPLE_LABELS_H
#define EITP_EXAMPLE_LABELS_H

#include "data/label_table.h"
#include "data/labelled.h"

typedef struct eitp__example_labels {
    const eitp_host *host;
    const eitp_labelled_pack_config *config;
    eitp__label_table table;       /* config->labels of a classification, then labels found in examples */
    eitp_problem problem;          /* config->problem, or EITP_PROBLEM_TOKENS if the examples have word labels */
    int has_several;               /* an example may have several labels */
    int64_t target_count;          /* number of values of a requested regression; 0: not known yet */
    uint64_t labelled, unlabelled; /* number of examples */
    uint64_t label_count;          /* total number of labels of all examples */
    uint32_t *numbers;             /* of the last example, in `table`; with EITP_PROBLEM_TOKENS one for each word */
    size_t count, capacity;
} eitp__example_labels;

/* Checks config->problem and config->labels. Call eitp__example_labels_release even after a failure. */
EITP__PRIVATE eitp_status eitp__example_labels_init(eitp__example_labels *labels, const eitp_host *host,
                                                    const eitp_labelled_pack_config *config, eitp_error *error);
EITP__PRIVATE void eitp__example_labels_release(eitp__example_labels *labels);

/* True if an example must be encoded word by word, with a label for each word. The first example with labels decides,
   unless config->problem does. */
EITP__PRIVATE int eitp__example_labels_are_of_words(eitp__example_labels *labels, const eitp_example *example);

/* Sets labels->numbers to the labels of an example. Returns EITP_ERROR_ARGUMENT if the example is bad; the table is
   then unchanged. */
EITP__PRIVATE eitp_status eitp__example_labels_add(eitp__example_labels *labels, const eitp_example *example,
                                                   eitp_error *error);

/* The problem, label names and values derived from all examples. */
typedef struct eitp__label_meaning {
    eitp_problem problem;
    int64_t label_count;
    uint32_t *values;   /* by number in the table: the label's number, or the bits of the float to predict */
    size_t value_count; /* number of labels in the table */
    eitp__buffer names; /* label_count names, each zero-terminated; empty: no names */
} eitp__label_meaning;

/* Derives the problem and the meaning of the labels. Call eitp__label_meaning_release even after a failure. */
EITP__PRIVATE eitp_status eitp__example_labels_finish(const eitp__example_labels *labels, eitp__label_meaning *meaning,
                                                      eitp_error *error);
EITP__PRIVATE void eitp__label_meaning_release(eitp__label_meaning *meaning);

#endif
