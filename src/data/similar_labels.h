/* Finds labels that are spelled differently but may be meant as one. */
#ifndef EITP_SIMILAR_LABELS_H
#define EITP_SIMILAR_LABELS_H

#include "data/label_table.h"

/* Logs a warning for labels that differ only in case, or that are the same number or Boolean. They are named in the
   order of order[table->count]. */
EITP__PRIVATE eitp_status eitp__report_similar_labels(const eitp_host *host, const eitp__label_table *table,
                                                      const uint32_t *order, eitp_error *error);

#endif
