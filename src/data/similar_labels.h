/* Labels that are written differently and may be meant to be one. */
#ifndef EITP_SIMILAR_LABELS_H
#define EITP_SIMILAR_LABELS_H

#include "data/label_table.h"

/* Logs a warning for the labels that differ only in upper and lower case, or that are the same number or Boolean.
   order[table->count] is the order in which they are named. */
EITP__PRIVATE eitp_status eitp__report_similar_labels(const eitp_host *host, const eitp__label_table *table,
                                                      const uint32_t *order, eitp_error *error);

#endif
