/* Distinct label strings, numbered in the order they were added. */
#ifndef EITP_LABEL_TABLE_H
#define EITP_LABEL_TABLE_H

#include "base/memory.h"
#include "base/status.h"

typedef struct eitp__label_table {
    eitp__buffer text;                /* the labels, each zero-terminated */
    size_t *offsets, offset_capacity; /* of each label in `text` */
    uint32_t count;
    uint32_t *slots, slot_count; /* hash table of label numbers plus 1; 0: free */
} eitp__label_table;

EITP__PRIVATE void eitp__label_table_init(eitp__label_table *table, const eitp_host *host);
EITP__PRIVATE void eitp__label_table_release(eitp__label_table *table);

/* Finds a label, which must not contain zero bytes. Returns 0 if the table does not have it. */
EITP__PRIVATE int eitp__label_table_find(const eitp__label_table *table, const char *text, size_t size,
                                         uint32_t *number);

/* Finds or adds a label, which must not contain zero bytes. */
EITP__PRIVATE eitp_status eitp__label_table_add(eitp__label_table *table, const char *text, size_t size,
                                                uint32_t *number, eitp_error *error);

/* Removes the labels from number `count` on. */
EITP__PRIVATE void eitp__label_table_truncate(eitp__label_table *table, uint32_t count);

EITP__PRIVATE const char *eitp__label_table_name(const eitp__label_table *table, uint32_t number);

/* Stores the numbers of all labels in order[count]: sorted by value if all are numbers, otherwise by bytes, with runs
   of digits compared as numbers. */
EITP__PRIVATE eitp_status eitp__label_table_sort(const eitp__label_table *table, uint32_t *order, eitp_error *error);

/* Maximum number of names in a message's list, and buffer size for its text. */
enum { EITP__LISTED_LABELS = 6, EITP__LABEL_LIST_SIZE = 200 };

/* Lists `count` names as "a, b and 3 others". At most the first EITP__LISTED_LABELS names are read. Returns `text`. */
EITP__PRIVATE const char *eitp__list_labels(const char *const *names, int64_t count, char text[EITP__LABEL_LIST_SIZE]);

#endif
