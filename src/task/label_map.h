/* Maps the labels of a source to the labels of a model. */
#ifndef EITP_LABEL_MAP_H
#define EITP_LABEL_MAP_H

#include "data/label_table.h"
#include "task/task.h"

/* The names of a model's labels, used while the sources of a task are matched. */
typedef struct eitp__named_labels {
    int64_t count;
    const char **names; /* [count], which belong to the model or to a source */
    int are_numbers;    /* the names are LABEL_0, LABEL_1, ... */
    eitp__label_table table;
} eitp__named_labels;

/* Gets the names of the model's labels. Call eitp__named_labels_release even after a failure. */
EITP__PRIVATE eitp_status eitp__named_labels_init(eitp__named_labels *labels, const eitp_model *model,
                                                  eitp_error *error);
EITP__PRIVATE void eitp__named_labels_release(eitp__named_labels *labels, const eitp_host *host);

/* Implements eitp_model_match_labels. */
EITP__PRIVATE eitp_status eitp__match_labels(const eitp__named_labels *labels, const eitp_host *host,
                                             const eitp_labelled_source *source, int32_t *numbers,
                                             eitp_label_match *match, eitp_error *error);

/* Replaces all names with the names of a source whose labels have these numbers. */
EITP__PRIVATE eitp_status eitp__take_names(eitp__named_labels *labels, const eitp_labelled_source *source,
                                           const int32_t *numbers, eitp_error *error);

/* A map from the labels of a source to the labels of a model. All zeros: the numbers are the same. */
typedef struct eitp__label_map {
    eitp_host host;
    int64_t source_labels, model_labels;
    int32_t *numbers; /* [source_labels]; NULL: the same */
    int32_t *swaps;   /* [2 * swap_count] targets to exchange, in this order */
    int64_t swap_count;
} eitp__label_map;

/* Copies numbers[source_labels]. Release the map only after success. */
EITP__PRIVATE eitp_status eitp__label_map_init(eitp__label_map *map, const eitp_host *host, const int32_t *numbers,
                                               int64_t source_labels, int64_t model_labels, eitp_error *error);
EITP__PRIVATE void eitp__label_map_release(eitp__label_map *map);

/* Returns the model's number of a label of the source, or -1. */
EITP__PRIVATE int32_t eitp__label_map_number(const eitp__label_map *map, int32_t label);

/* Moves the source's targets, which come first in targets[model_labels], to the model's indices. Other targets become
   0. */
EITP__PRIVATE void eitp__label_map_targets(const eitp__label_map *map, float *targets);

#endif
