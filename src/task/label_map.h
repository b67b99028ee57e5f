/* Labels of a source as those of a model. */
#ifndef EITP_LABEL_MAP_H
#define EITP_LABEL_MAP_H

#include "data/label_table.h"
#include "task/task.h"

/* The names of a model's labels, while the sources of a task are matched with them. */
typedef struct eitp__named_labels {
    int64_t count;
    const char **names; /* [count], which belong to the model or to a source */
    int are_numbers;    /* LABEL_0 and so on */
    eitp__label_table table;
} eitp__named_labels;

/* Takes the names of the model's labels. Call eitp__named_labels_release even after a failure. */
EITP__PRIVATE eitp_status eitp__named_labels_init(eitp__named_labels *labels, const eitp_model *model,
                                                  eitp_error *error);
EITP__PRIVATE void eitp__named_labels_release(eitp__named_labels *labels, const eitp_host *host);

/* eitp_model_match_labels. */
EITP__PRIVATE eitp_status eitp__match_labels(const eitp__named_labels *labels, const eitp_host *host,
                                             const eitp_labelled_source *source, int32_t *numbers,
                                             eitp_label_match *match, eitp_error *error);

/* Replaces all names by those of a source, whose labels have these numbers. */
EITP__PRIVATE eitp_status eitp__take_names(eitp__named_labels *labels, const eitp_labelled_source *source,
                                           const int32_t *numbers, eitp_error *error);

/* How the labels of a source become those of a model. All zeros: they have the same numbers. */
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

/* The model's number of a label of the source, or -1. */
EITP__PRIVATE int32_t eitp__label_map_number(const eitp__label_map *map, int32_t label);

/* Moves the source's targets, which are first in targets[model_labels], to the model's places; others are 0. */
EITP__PRIVATE void eitp__label_map_targets(const eitp__label_map *map, float *targets);

#endif
