#include "data/similar_labels.h"

#include "base/json.h"
#include "base/log.h"
#include "base/sort.h"
#include "base/unicode.h"

/* Number of groups that are named; the others are counted. And number of digits up to which whole numbers are exact. */
enum { EITP__NAMED_GROUPS = 5, EITP__EXACT_DIGITS = 15 };

/* The way in which the labels of a group are the same. */
enum { EITP__SAME_LETTERS, EITP__SAME_NUMBER, EITP__SAME_BOOLEAN };

/* A label, and its keys for comparison with similar ones. */
typedef struct eitp__label_key {
    const eitp__buffer *letters; /* in lower case, each zero-terminated */
    size_t at;                   /* the label's offset in `letters` */
    int kind;
    double number;  /* of numbers and Booleans */
    uint32_t place; /* index in the order of the labels */
    const char *name;
} eitp__label_key;

static void eitp__add_lowercase(eitp__buffer *letters, const char *name) {
    size_t size = strlen(name);
    while (size) {
        uint32_t code_point, lower[2];
        int valid;
        const size_t length = eitp__utf8_next((const unsigned char *)name, size, &code_point, &valid);
        const size_t count = eitp__unicode_lowercase(code_point, lower);
        for (size_t i = 0; i < count; i++) {
            unsigned char bytes[4];
            eitp__buffer_add(letters, bytes, eitp__utf8_encode(lower[i], bytes));
        }
        name += length;
        size -= length;
    }
    eitp__buffer_add(letters, "", 1);
}

/* Reads a number in any common notation, including "+1", "01", "1." and ".5". Returns 0 if the text is not a number, or
   not exact. */
static int eitp__read_loose_number(const char *text, double *number) {
    char digits[40];
    size_t used = 0, size;
    const char *at = text + (*text == '+');
    if (*at == '-')
        digits[used++] = *at++;
    while (*at == '0' && at[1] >= '0' && at[1] <= '9')
        at++;
    if (*at == '.')
        digits[used++] = '0';
    size = strlen(at);
    if (!size || size >= sizeof digits - used || strspn(at, "0123456789") > EITP__EXACT_DIGITS)
        return 0;
    size -= at[size - 1] == '.' && size > 1;
    memcpy(digits + used, at, size);
    return eitp__json_read_number(digits, used + size, number);
}

static int eitp__read_boolean(const char *letters, double *number) {
    static const char *const words[] = {"false", "true", "no", "yes"};
    for (size_t i = 0; i < EITP__COUNT(words); i++) {
        if (!strcmp(letters, words[i])) {
            *number = (double)(i & 1);
            return 1;
        }
    }
    return 0;
}

static const char *eitp__letters_of(const eitp__label_key *label) {
    return label->letters->data + label->at;
}

/* Orders strings before numbers; a Boolean is the number 0 or 1. */
static int eitp__compare_meaning(const eitp__label_key *a, const eitp__label_key *b) {
    const int is_number = a->kind != EITP__SAME_LETTERS;
    if (is_number != (b->kind != EITP__SAME_LETTERS))
        return is_number ? 1 : -1;
    if (!is_number)
        return strcmp(eitp__letters_of(a), eitp__letters_of(b));
    return a->number < b->number ? -1 : a->number > b->number;
}

static int eitp__compare_meant(const void *left, const void *right) {
    const eitp__label_key *a = (const eitp__label_key *)left, *b = (const eitp__label_key *)right;
    const int order = eitp__compare_meaning(a, b);
    return order ? order : a->place < b->place ? -1 : a->place > b->place;
}

static void eitp__report_group(const eitp_host *host, const eitp__label_key *labels, size_t count) {
    static const char *const ways[] = {"differ only in upper and lower case", "are the same number",
                                       "are the same Boolean"};
    const char *names[EITP__LISTED_LABELS];
    char list[EITP__LABEL_LIST_SIZE];
    int kind = labels[0].kind, same_letters = 1;
    for (size_t i = 0; i < count; i++) {
        if (i < EITP__LISTED_LABELS)
            names[i] = labels[i].name;
        kind = labels[i].kind > kind ? labels[i].kind : kind;
        same_letters = same_letters && !strcmp(eitp__letters_of(&labels[i]), eitp__letters_of(&labels[0]));
    }
    eitp__log_line(host, EITP_LOG_WARNING,
                   "the labels %s %s, and are learned as %llu labels; spell them the same if they are meant as one",
                   eitp__list_labels(names, (int64_t)count, list), ways[same_letters ? EITP__SAME_LETTERS : kind],
                   (unsigned long long)count);
}

/* Logs the groups of sorted labels. */
static void eitp__report_groups(const eitp_host *host, const eitp__label_key *labels, size_t count) {
    size_t groups = 0;
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && !eitp__compare_meaning(&labels[first], &labels[end]);)
            end++;
        if (end - first > 1 && groups++ < EITP__NAMED_GROUPS)
            eitp__report_group(host, labels + first, end - first);
    }
    if (groups > EITP__NAMED_GROUPS)
        eitp__log_line(host, EITP_LOG_WARNING, "%llu more groups of similar labels",
                       (unsigned long long)(groups - EITP__NAMED_GROUPS));
}

EITP__PRIVATE eitp_status eitp__report_similar_labels(const eitp_host *host, const eitp__label_table *table,
                                                      const uint32_t *order, eitp_error *error) {
    const size_t bytes = table->count * sizeof(eitp__label_key);
    eitp__label_key *labels = (eitp__label_key *)eitp__allocate(host, bytes);
    eitp__buffer letters;
    eitp__buffer_init(&letters, host);
    for (uint32_t i = 0; i < table->count && labels; i++) {
        labels[i].letters = &letters;
        labels[i].name = eitp__label_table_name(table, order[i]);
        labels[i].place = i;
        labels[i].at = letters.size;
        eitp__add_lowercase(&letters, labels[i].name);
    }
    const int has_memory = labels && !letters.failed;
    for (uint32_t i = 0; i < table->count && has_memory; i++) {
        eitp__label_key *label = &labels[i];
        if (eitp__read_boolean(eitp__letters_of(label), &label->number))
            label->kind = EITP__SAME_BOOLEAN;
        else if (eitp__read_loose_number(label->name, &label->number))
            label->kind = EITP__SAME_NUMBER;
    }
    if (has_memory) {
        eitp__sort(labels, table->count, sizeof *labels, eitp__compare_meant);
        eitp__report_groups(host, labels, table->count);
    }
    eitp__release(host, labels, bytes);
    eitp__buffer_release(&letters);
    return has_memory || !table->count ? EITP_OK : eitp__fail_memory(error, bytes, "comparing labels");
}
