#include "data/example_labels.h"

#include "base/json.h"
#include "base/sort.h"
#include "base/unicode.h"
#include "data/similar_labels.h"

#include <float.h>

/* The maximum of a model. */
enum { EITP__MAX_FILE_LABELS = 1 << 20 };

/* Maximum bytes of a label that a message quotes. */
enum { EITP__QUOTED_LABEL = 60 };

static int eitp__quoted_size(size_t size) {
    return size < EITP__QUOTED_LABEL ? (int)size : EITP__QUOTED_LABEL;
}

static eitp_status eitp__label_text_check(const char *text, size_t size, eitp_error *error) {
    if (!size)
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "the label is empty; name it, or set problem to EITP_PROBLEM_MULTI_LABEL if examples may have "
            "none");
    if (memchr(text, 0, size) || eitp__utf8_valid_prefix((const unsigned char *)text, size) != size)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the label must be UTF-8 without zero bytes");
    return EITP_OK;
}

/* Adds the configured names of a classification to the table. */
static eitp_status eitp__example_labels_begin(eitp__example_labels *labels, eitp_error *error) {
    const eitp_labelled_pack_config *config = labels->config;
    for (int64_t i = 0; i < config->label_count; i++) {
        const char *name = config->labels[i];
        const size_t size = name ? strlen(name) : 0;
        uint32_t number = 0;
        if (!name)
            return eitp__fail_null(error, "eitp_labelled_pack", "each of config->labels");
        eitp_status status = eitp__label_text_check(name, size, error);
        if (status == EITP_OK)
            status = eitp__label_table_add(&labels->table, name, size, &number, error);
        if (status == EITP_OK && number != (uint32_t)i)
            status = eitp__fail(error, EITP_ERROR_ARGUMENT, "two labels are named '%.*s'", EITP__QUOTED_LABEL, name);
        if (status != EITP_OK)
            return status;
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__example_labels_init(eitp__example_labels *labels, const eitp_host *host,
                                                    const eitp_labelled_pack_config *config, eitp_error *error) {
    const int problem = (int)config->problem;
    memset(labels, 0, sizeof *labels);
    labels->host = host;
    labels->config = config;
    labels->problem = config->problem;
    eitp__label_table_init(&labels->table, host);
    if (problem < EITP_PROBLEM_UNKNOWN || problem > EITP_PROBLEM_TOKENS)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown problem %d", problem);
    if (config->label_count < 0 || config->label_count > EITP__MAX_FILE_LABELS ||
        !config->labels != !config->label_count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "label_count must be the number of labels, at most %d, or 0 without them (got %lld)",
                          (int)EITP__MAX_FILE_LABELS, (long long)config->label_count);
    if (config->problem == EITP_PROBLEM_REGRESSION)
        labels->target_count = config->label_count;
    return config->problem == EITP_PROBLEM_REGRESSION ? EITP_OK : eitp__example_labels_begin(labels, error);
}

EITP__PRIVATE void eitp__example_labels_release(eitp__example_labels *labels) {
    if (!labels->host)
        return;
    eitp__label_table_release(&labels->table);
    eitp__release(labels->host, labels->numbers, labels->capacity * sizeof *labels->numbers);
    memset(labels, 0, sizeof *labels);
}

static eitp_status eitp__fail_unknown_label(const eitp__example_labels *labels, const char *text, size_t size,
                                            eitp_error *error) {
    const char *names[EITP__LISTED_LABELS];
    char list[EITP__LABEL_LIST_SIZE];
    for (uint32_t i = 0; i < labels->table.count && i < EITP__LISTED_LABELS; i++)
        names[i] = eitp__label_table_name(&labels->table, i);
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "no label named '%.*s' (labels: %s)", eitp__quoted_size(size), text,
                      eitp__list_labels(names, (int64_t)labels->table.count, list));
}

static eitp_status eitp__label_number_check(const char *text, size_t size, eitp_error *error) {
    double value = 0;
    if (!eitp__json_read_number(text, size, &value) || value > FLT_MAX || value < -FLT_MAX)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "'%.*s' is not a number in the range of a float",
                          eitp__quoted_size(size), text);
    return EITP_OK;
}

/* True if a label is one of the configured labels, as written. */
static int eitp__is_given_label(const eitp__example_labels *labels, const char *text, size_t size) {
    uint32_t number;
    return labels->config->labels && size && !memchr(text, 0, size) &&
           eitp__label_table_find(&labels->table, text, size, &number);
}

/* Adds one label of the current example. White space around it is stripped unless a configured label has it. */
static eitp_status eitp__example_label_add(eitp__example_labels *labels, const char *text, size_t size,
                                           eitp_error *error) {
    const int is_number = labels->config->problem == EITP_PROBLEM_REGRESSION;
    uint32_t number = 0;
    eitp_status status;
    if (!eitp__is_given_label(labels, text, size))
        size = eitp__utf8_trim(&text, size);
    status = eitp__label_text_check(text, size, error);
    if (status == EITP_OK && is_number)
        status = eitp__label_number_check(text, size, error);
    if (status == EITP_OK && labels->config->labels && !is_number &&
        !eitp__label_table_find(&labels->table, text, size, &number))
        return eitp__fail_unknown_label(labels, text, size, error);
    if (status == EITP_OK)
        status = eitp__label_table_add(&labels->table, text, size, &number, error);
    if (status != EITP_OK)
        return status;
    if (!eitp__reserve(labels->host, (void **)&labels->numbers, &labels->capacity, labels->count + 1,
                       sizeof *labels->numbers))
        return eitp__fail_memory(error, (labels->count + 1) * sizeof *labels->numbers, "the labels of an example");
    labels->numbers[labels->count++] = number;
    return EITP_OK;
}

/* Adds the labels in "a|b". */
static eitp_status eitp__example_label_split(eitp__example_labels *labels, const eitp_text *text, eitp_error *error) {
    const char *at = text->bytes, *end = text->bytes + text->size;
    for (;;) {
        const char *bar = (const char *)memchr(at, '|', (size_t)(end - at));
        const char *last = bar ? bar : end;
        eitp_status status = eitp__example_label_add(labels, at, (size_t)(last - at), error);
        if (status != EITP_OK || !bar)
            return status;
        at = bar + 1;
    }
}

/* True if a label consists of several names. */
static int eitp__label_is_split(const eitp__example_labels *labels, const eitp_example *example,
                                const eitp_text *text) {
    const char *bytes = text->bytes;
    const size_t size = eitp__utf8_trim(&bytes, text->size);
    if (labels->config->problem == EITP_PROBLEM_SINGLE_LABEL || example->labels_are_list || !size ||
        !memchr(bytes, '|', size) || memchr(bytes, 0, size))
        return 0;
    return !eitp__is_given_label(labels, text->bytes, text->size) && !eitp__is_given_label(labels, bytes, size);
}

static int eitp__compare_label_numbers(const void *a, const void *b) {
    const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

/* Sorts the labels of an example that may have several, and refuses duplicates. */
static eitp_status eitp__example_labels_distinct(eitp__example_labels *labels, eitp_error *error) {
    eitp__sort(labels->numbers, labels->count, sizeof *labels->numbers, eitp__compare_label_numbers);
    for (size_t i = 1; i < labels->count; i++) {
        if (labels->numbers[i] == labels->numbers[i - 1])
            return eitp__fail(
                error, EITP_ERROR_ARGUMENT,
                "label '%.*s' occurs twice; list the names of an example's labels, not a number for each label, "
                "unless problem is EITP_PROBLEM_REGRESSION",
                EITP__QUOTED_LABEL, eitp__label_table_name(&labels->table, labels->numbers[i]));
    }
    return EITP_OK;
}

/* Checks the number of labels against the problem. */
static eitp_status eitp__example_labels_check(eitp__example_labels *labels, eitp_error *error) {
    const eitp_problem problem = labels->config->problem;
    if (problem == EITP_PROBLEM_SINGLE_LABEL && labels->count != 1)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%llu labels, but problem is EITP_PROBLEM_SINGLE_LABEL",
                          (unsigned long long)labels->count);
    if (problem != EITP_PROBLEM_REGRESSION)
        return eitp__example_labels_distinct(labels, error);
    if (!labels->count || (labels->target_count && (uint64_t)labels->target_count != labels->count))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%llu numbers to predict, expected %lld",
                          (unsigned long long)labels->count,
                          (long long)(labels->target_count ? labels->target_count : 1));
    labels->target_count = (int64_t)labels->count;
    return EITP_OK;
}

/* Handles an example without a label: unless any number is allowed, either all examples or none lack labels. */
static eitp_status eitp__example_labels_none(eitp__example_labels *labels, eitp_error *error) {
    const int may_be_none = labels->config->problem == EITP_PROBLEM_MULTI_LABEL;
    if (!may_be_none && (labels->config->problem != EITP_PROBLEM_UNKNOWN || labels->config->labels || labels->labelled))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the label is missing; name it, or set problem to EITP_PROBLEM_MULTI_LABEL if examples may "
                          "have none");
    labels->labelled += (uint64_t)may_be_none;
    labels->unlabelled += (uint64_t)!may_be_none;
    return EITP_OK;
}

EITP__PRIVATE int eitp__example_labels_are_of_words(eitp__example_labels *labels, const eitp_example *example) {
    if (labels->problem == EITP_PROBLEM_UNKNOWN && !labels->labelled && example->words && example->labels_are_list)
        labels->problem = EITP_PROBLEM_TOKENS;
    return labels->problem == EITP_PROBLEM_TOKENS && example->words;
}

/* Reads a label for each word. */
static eitp_status eitp__example_labels_read_words(eitp__example_labels *labels, const eitp_example *example,
                                                   eitp_error *error) {
    eitp_status status = EITP_OK;
    if (!example->words)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the example is not a list of words, but its words have labels; pass a list of words, or "
                          "one word on each line");
    if (!example->label_count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the labels are missing; each word needs one");
    if (example->label_count != example->word_count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%llu labels for %llu words; each word needs one",
                          (unsigned long long)example->label_count, (unsigned long long)example->word_count);
    for (size_t i = 0; i < example->label_count && status == EITP_OK; i++)
        status = eitp__example_label_add(labels, example->labels[i].bytes, example->labels[i].size, error);
    return status;
}

static eitp_status eitp__example_labels_read(eitp__example_labels *labels, const eitp_example *example,
                                             eitp_error *error) {
    const int may_be_none = labels->config->problem == EITP_PROBLEM_MULTI_LABEL && example->label_count == 1;
    if (labels->problem == EITP_PROBLEM_TOKENS)
        return eitp__example_labels_read_words(labels, example, error);
    for (size_t i = 0; i < example->label_count; i++) {
        const eitp_text *text = &example->labels[i];
        const char *bytes = text->bytes;
        eitp_status status = EITP_OK;
        if (eitp__label_is_split(labels, example, text))
            status = eitp__example_label_split(labels, text, error);
        else if (eitp__utf8_trim(&bytes, text->size) || !may_be_none)
            status = eitp__example_label_add(labels, text->bytes, text->size, error);
        if (status != EITP_OK)
            return status;
    }
    return eitp__example_labels_check(labels, error);
}

EITP__PRIVATE eitp_status eitp__example_labels_add(eitp__example_labels *labels, const eitp_example *example,
                                                   eitp_error *error) {
    const uint32_t known = labels->table.count;
    const int is_list = example->labels_are_list || example->label_count > 1;
    labels->count = 0;
    if (!example->label_count && !is_list && labels->problem != EITP_PROBLEM_TOKENS)
        return eitp__example_labels_none(labels, error);
    if (labels->unlabelled)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "this example has a label, but the %llu before it have none; label all of them, or set "
                          "problem to treat examples without labels as bad",
                          (unsigned long long)labels->unlabelled);
    eitp_status status = eitp__example_labels_read(labels, example, error);
    if (status != EITP_OK) {
        eitp__label_table_truncate(&labels->table, known);
        return status;
    }
    labels->has_several |= is_list || labels->count > 1;
    labels->labelled++;
    labels->label_count += labels->count;
    return EITP_OK;
}

/* ---- Deciding ---- */

static eitp_problem eitp__labels_problem(const eitp__example_labels *labels) {
    const eitp_labelled_pack_config *config = labels->config;
    int has_fraction = 0;
    if (!labels->label_count)
        return EITP_PROBLEM_UNKNOWN;
    if (labels->problem != EITP_PROBLEM_UNKNOWN)
        return labels->problem;
    if (labels->has_several)
        return EITP_PROBLEM_MULTI_LABEL;
    for (uint32_t i = 0; i < labels->table.count && !config->labels; i++) {
        const char *name = eitp__label_table_name(&labels->table, i);
        double value = 0;
        if (eitp__label_number_check(name, strlen(name), NULL) != EITP_OK)
            return EITP_PROBLEM_SINGLE_LABEL;
        eitp__json_read_number(name, strlen(name), &value);
        has_fraction |= value < floor(value) || value > floor(value);
    }
    return has_fraction ? EITP_PROBLEM_REGRESSION : EITP_PROBLEM_SINGLE_LABEL;
}

/* Sets the values of a regression: the bits of the numbers, and the configured names. */
static void eitp__labels_as_numbers(const eitp__example_labels *labels, eitp__label_meaning *meaning) {
    const eitp_labelled_pack_config *config = labels->config;
    for (uint32_t i = 0; i < labels->table.count; i++) {
        const char *name = eitp__label_table_name(&labels->table, i);
        double value = 0;
        eitp__json_read_number(name, strlen(name), &value);
        const float narrow = (float)value;
        memcpy(&meaning->values[i], &narrow, sizeof narrow);
    }
    meaning->label_count = config->problem == EITP_PROBLEM_REGRESSION ? labels->target_count : 1;
    for (int64_t i = 0; i < config->label_count; i++)
        eitp__buffer_add(&meaning->names, config->labels[i], strlen(config->labels[i]) + 1);
}

/* Sets the values of a classification: the order and the text of the names. */
static eitp_status eitp__labels_as_names(const eitp__example_labels *labels, eitp__label_meaning *meaning,
                                         eitp_error *error) {
    const size_t count = labels->table.count, bytes = count * sizeof(uint32_t);
    if (count > EITP__MAX_FILE_LABELS)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%llu different labels exceed the limit of %d; check that this is the column of the labels",
                          (unsigned long long)count, (int)EITP__MAX_FILE_LABELS);
    uint32_t *order = (uint32_t *)eitp__allocate_uninitialized(labels->host, bytes);
    eitp_status status = EITP_OK;
    if (!order)
        return eitp__fail_memory(error, bytes, "sorting labels");
    if (!labels->config->labels)
        status = eitp__label_table_sort(&labels->table, order, error);
    if (!labels->config->labels && status == EITP_OK)
        status = eitp__report_similar_labels(labels->host, &labels->table, order, error);
    for (uint32_t i = 0; i < count && status == EITP_OK; i++) {
        const uint32_t number = labels->config->labels ? i : order[i];
        const char *name = eitp__label_table_name(&labels->table, number);
        meaning->values[number] = i;
        eitp__buffer_add(&meaning->names, name, strlen(name) + 1);
    }
    meaning->label_count = (int64_t)count;
    eitp__release(labels->host, order, bytes);
    return status;
}

EITP__PRIVATE eitp_status eitp__example_labels_finish(const eitp__example_labels *labels, eitp__label_meaning *meaning,
                                                      eitp_error *error) {
    const size_t bytes = labels->table.count * sizeof *meaning->values;
    eitp_status status = EITP_OK;
    memset(meaning, 0, sizeof *meaning);
    eitp__buffer_init(&meaning->names, labels->host);
    meaning->problem = eitp__labels_problem(labels);
    if (meaning->problem == EITP_PROBLEM_UNKNOWN)
        return EITP_OK;
    meaning->values = (uint32_t *)eitp__allocate_uninitialized(labels->host, bytes);
    meaning->value_count = meaning->values ? labels->table.count : 0;
    if (!meaning->values)
        return eitp__fail_memory(error, bytes, "the values of labels");
    if (meaning->problem == EITP_PROBLEM_REGRESSION)
        eitp__labels_as_numbers(labels, meaning);
    else
        status = eitp__labels_as_names(labels, meaning, error);
    if (status == EITP_OK && meaning->names.failed)
        return eitp__fail_memory(error, bytes, "the names of labels");
    return status;
}

EITP__PRIVATE void eitp__label_meaning_release(eitp__label_meaning *meaning) {
    const eitp_host *host = meaning->names.host;
    if (!host)
        return;
    eitp__release(host, meaning->values, meaning->value_count * sizeof *meaning->values);
    eitp__buffer_release(&meaning->names);
    memset(meaning, 0, sizeof *meaning);
}
