/* Names of a classifier's labels, and their members of config.json. */
#ifndef EITP_LABELS_H
#define EITP_LABELS_H

#include "base/json.h"

/* Maximum number of labels. */
#define EITP__MAX_LABELS ((int64_t)1 << 20)

typedef struct eitp__labels {
    eitp_host host;
    int64_t count;
    const char **names; /* the strings are in the same allocation as the struct */
    size_t bytes;       /* size of that allocation */
} eitp__labels;

/* Copies `count` names. If `names` is NULL, they are "LABEL_0" and so on. EITP_ERROR_ARGUMENT if two are equal. */
EITP__PRIVATE eitp_status eitp__labels_create(const eitp_host *host, const char *const *names, int64_t count,
                                              eitp__labels **labels, eitp_error *error);
EITP__PRIVATE void eitp__labels_release(eitp__labels *labels);

/* True if the names are "LABEL_0" and so on. */
EITP__PRIVATE int eitp__labels_are_numbers(const eitp__labels *labels);

/* Finds the number of labels in a config.json: num_labels, else the size of id2label, else *count is unchanged. As in
   transformers, names are ignored if num_labels differs from their number. */
EITP__PRIVATE eitp_status eitp__labels_count(const eitp_json *root, int64_t *count, eitp_error *error);

/* Reads id2label. *labels is NULL if it is missing. */
EITP__PRIVATE eitp_status eitp__labels_read(const eitp_host *host, const eitp_json *root, eitp__labels **labels,
                                            eitp_error *error);

/* Reads id2label from the file config.json. */
EITP__PRIVATE eitp_status eitp__labels_read_file(const eitp_host *host, const char *path, eitp__labels **labels,
                                                 eitp_error *error);

/* Adds id2label and label2id as members of an object, each followed by a comma and a line feed. */
EITP__PRIVATE void eitp__labels_write(eitp__buffer *text, const eitp__labels *labels);

#endif
