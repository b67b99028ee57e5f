#include "data/label_table.h"

#include "base/checksum.h"
#include "base/json.h"
#include "base/sort.h"

/* Few enough for a load factor of a half with 32-bit slots. */
#define EITP__MAX_TABLE_LABELS ((uint32_t)1 << 30)

EITP__PRIVATE void eitp__label_table_init(eitp__label_table *table, const eitp_host *host) {
    memset(table, 0, sizeof *table);
    eitp__buffer_init(&table->text, host);
}

EITP__PRIVATE void eitp__label_table_release(eitp__label_table *table) {
    const eitp_host *host = table->text.host;
    if (!host)
        return;
    eitp__release(host, table->offsets, table->offset_capacity * sizeof *table->offsets);
    eitp__release(host, table->slots, table->slot_count * sizeof *table->slots);
    eitp__buffer_release(&table->text);
    eitp__label_table_init(table, host);
}

EITP__PRIVATE const char *eitp__label_table_name(const eitp__label_table *table, uint32_t number) {
    return table->text.data + table->offsets[number];
}

/* Returns the slot of a label without zero bytes, or the free slot for it. */
static uint32_t *eitp__label_slot(const eitp__label_table *table, const char *text, size_t size) {
    uint64_t hash = eitp__fnv1a(EITP__FNV_START, text, size);
    hash ^= hash >> 32;
    for (uint32_t i = (uint32_t)hash & (table->slot_count - 1);; i = (i + 1) & (table->slot_count - 1)) {
        uint32_t *slot = &table->slots[i];
        if (!*slot)
            return slot;
        const char *name = eitp__label_table_name(table, *slot - 1);
        if (!strncmp(name, text, size) && !name[size])
            return slot;
    }
}

EITP__PRIVATE int eitp__label_table_find(const eitp__label_table *table, const char *text, size_t size,
                                         uint32_t *number) {
    const uint32_t *slot = table->count ? eitp__label_slot(table, text, size) : NULL;
    if (!slot || !*slot)
        return 0;
    *number = *slot - 1;
    return 1;
}

/* Makes room in the hash table for one more label; returns 0 if out of memory. */
static int eitp__label_table_grow(eitp__label_table *table) {
    const eitp_host *host = table->text.host;
    const uint32_t slot_count = table->slot_count ? 2 * table->slot_count : 64;
    if (2 * (table->count + 1) <= table->slot_count)
        return 1;
    uint32_t *slots = (uint32_t *)eitp__allocate(host, slot_count * sizeof *slots);
    if (!slots)
        return 0;
    eitp__release(host, table->slots, table->slot_count * sizeof *table->slots);
    table->slots = slots;
    table->slot_count = slot_count;
    /* In order of number, so that the last labels can be removed without leaving gaps. */
    for (uint32_t i = 0; i < table->count; i++) {
        const char *name = eitp__label_table_name(table, i);
        *eitp__label_slot(table, name, strlen(name)) = i + 1;
    }
    return 1;
}

EITP__PRIVATE eitp_status eitp__label_table_add(eitp__label_table *table, const char *text, size_t size,
                                                uint32_t *number, eitp_error *error) {
    const size_t offset = table->text.size;
    if (eitp__label_table_find(table, text, size, number))
        return EITP_OK;
    if (table->count == EITP__MAX_TABLE_LABELS || !eitp__label_table_grow(table) ||
        !eitp__reserve(table->text.host, (void **)&table->offsets, &table->offset_capacity, (size_t)table->count + 1,
                       sizeof *table->offsets))
        return eitp__fail_memory(error, ((size_t)table->count + 1) * sizeof *table->offsets, "the names of labels");
    uint32_t *slot = eitp__label_slot(table, text, size);
    eitp__buffer_add(&table->text, text, size);
    eitp__buffer_add(&table->text, "", 1);
    if (table->text.failed)
        return eitp__fail_memory(error, offset + size + 1, "the names of labels");
    table->offsets[table->count] = offset;
    *number = table->count++;
    *slot = table->count;
    return EITP_OK;
}

EITP__PRIVATE void eitp__label_table_truncate(eitp__label_table *table, uint32_t count) {
    while (table->count > count) {
        const char *name = eitp__label_table_name(table, table->count - 1);
        *eitp__label_slot(table, name, strlen(name)) = 0;
        table->text.size = table->offsets[--table->count];
    }
}

/* A label during sorting. */
typedef struct eitp__sorted_label {
    const char *name;
    double value; /* 0 if not all labels are numbers */
    uint32_t number;
} eitp__sorted_label;

static int eitp__is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Compares the digits at the start of both strings as whole numbers of any size, and moves past them. */
static int eitp__compare_digits(const char **left, const char **right) {
    size_t left_size = 0, right_size = 0;
    while (**left == '0')
        ++*left;
    while (**right == '0')
        ++*right;
    while (eitp__is_digit((*left)[left_size]))
        left_size++;
    while (eitp__is_digit((*right)[right_size]))
        right_size++;
    if (left_size != right_size)
        return left_size < right_size ? -1 : 1;
    const int order = memcmp(*left, *right, left_size);
    *left += left_size;
    *right += right_size;
    return order;
}

/* Compares bytes, but digits as numbers: "b2" is before "b10". */
static int eitp__compare_label_names(const char *left, const char *right) {
    const char *a = left, *b = right;
    int order = 0;
    while (!order && *a && *b) {
        if (eitp__is_digit(*a) && eitp__is_digit(*b)) {
            order = eitp__compare_digits(&a, &b);
        } else if (*a != *b) {
            order = (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        } else {
            a++;
            b++;
        }
    }
    if (!order && (*a || *b))
        order = *a ? 1 : -1;
    /* The names are equal or differ only in leading zeros. */
    return order ? order : strcmp(left, right);
}

static int eitp__compare_sorted_labels(const void *a, const void *b) {
    const eitp__sorted_label *left = (const eitp__sorted_label *)a, *right = (const eitp__sorted_label *)b;
    if (left->value < right->value || left->value > right->value)
        return left->value < right->value ? -1 : 1;
    return eitp__compare_label_names(left->name, right->name);
}

EITP__PRIVATE eitp_status eitp__label_table_sort(const eitp__label_table *table, uint32_t *order, eitp_error *error) {
    const size_t bytes = table->count * sizeof(eitp__sorted_label);
    eitp__sorted_label *labels = (eitp__sorted_label *)eitp__allocate_uninitialized(table->text.host, bytes);
    int are_numbers = 1;
    if (table->count && !labels)
        return eitp__fail_memory(error, bytes, "sorting labels");
    for (uint32_t i = 0; i < table->count; i++) {
        labels[i].name = eitp__label_table_name(table, i);
        labels[i].number = i;
        are_numbers = are_numbers && eitp__json_read_number(labels[i].name, strlen(labels[i].name), &labels[i].value);
    }
    for (uint32_t i = 0; i < table->count && !are_numbers; i++)
        labels[i].value = 0;
    eitp__sort(labels, table->count, sizeof *labels, eitp__compare_sorted_labels);
    for (uint32_t i = 0; i < table->count; i++)
        order[i] = labels[i].number;
    eitp__release(table->text.host, labels, bytes);
    return EITP_OK;
}

EITP__PRIVATE const char *eitp__list_labels(const char *const *names, int64_t count, char text[EITP__LABEL_LIST_SIZE]) {
    const int64_t shown = count < EITP__LISTED_LABELS ? count : (int64_t)EITP__LISTED_LABELS;
    size_t used = 0;
    *text = 0;
    for (int64_t i = 0; i < shown; i++) {
        const int length = snprintf(text + used, EITP__LABEL_LIST_SIZE - used, "%s%.20s", i ? ", " : "", names[i]);
        used += (size_t)(length > 0 ? length : 0);
    }
    if (count > shown)
        snprintf(text + used, EITP__LABEL_LIST_SIZE - used, " and %lld other%s", (long long)(count - shown),
                 count - shown == 1 ? "" : "s");
    return text;
}
