#include "task/label_map.h"

#include "base/memory.h"
#include "base/status.h"
#include "model/transformer.h"

/* ---- Names ---- */

EITP__PRIVATE eitp_status eitp__named_labels_init(eitp__named_labels *labels, const eitp_model *model,
                                                  eitp_error *error) {
    const eitp_host *host = &model->host;
    const size_t bytes = (size_t)model->config.labels * sizeof *labels->names;
    eitp_status status = EITP_OK;
    memset(labels, 0, sizeof *labels);
    eitp__label_table_init(&labels->table, host);
    labels->names = (const char **)eitp__allocate(host, bytes);
    if (!labels->names)
        return eitp__fail_memory(error, bytes, "the names of labels");
    labels->count = model->config.labels;
    labels->are_numbers = eitp__model_labels_are_numbers(model);
    for (int64_t i = 0; i < labels->count && !status; i++) {
        uint32_t number;
        labels->names[i] = eitp_model_label(model, i);
        status = eitp__label_table_add(&labels->table, labels->names[i], strlen(labels->names[i]), &number, error);
    }
    return status;
}

EITP__PRIVATE void eitp__named_labels_release(eitp__named_labels *labels, const eitp_host *host) {
    eitp__label_table_release(&labels->table);
    if (labels->names)
        eitp__release(host, labels->names, (size_t)labels->count * sizeof *labels->names);
    memset(labels, 0, sizeof *labels);
}

/* Fails if a source lacks the name of a label, or has a name twice. */
static eitp_status eitp__check_source_names(const eitp_host *host, const eitp_labelled_source *source,
                                            eitp_error *error) {
    eitp__label_table table;
    eitp_status status = EITP_OK;
    eitp__label_table_init(&table, host);
    for (int64_t i = 0; i < source->label_count && !status; i++) {
        uint32_t number = (uint32_t)i;
        if (!source->labels[i])
            status = eitp__fail(error, EITP_ERROR_ARGUMENT, "label %lld of a source has no name, but others do",
                                (long long)i);
        else
            status = eitp__label_table_add(&table, source->labels[i], strlen(source->labels[i]), &number, error);
        if (!status && number != (uint32_t)i)
            status = eitp__fail(error, EITP_ERROR_ARGUMENT, "two labels are named '%.60s'", source->labels[i]);
    }
    eitp__label_table_release(&table);
    return status;
}

/* ---- Matching ---- */

/* Looks up all names of a source among the model's. Returns the number found. *unknown is the first name not found. */
static int64_t eitp__find_names(const eitp__named_labels *labels, const eitp_labelled_source *source, int32_t *numbers,
                                const char **unknown) {
    int64_t found = 0;
    *unknown = NULL;
    for (int64_t i = 0; i < source->label_count; i++) {
        const char *name = source->labels[i];
        uint32_t number;
        if (eitp__label_table_find(&labels->table, name, strlen(name), &number)) {
            numbers[i] = (int32_t)number;
            found++;
        } else if (!*unknown) {
            *unknown = name;
        }
    }
    return found;
}

/* Parses a name as a whole number below `limit`, in the usual notation. Returns -1 if it is not one. */
static int64_t eitp__whole_number(const char *name, int64_t limit) {
    int64_t number = 0;
    const char *at = name;
    for (; *at >= '0' && *at <= '9' && number < limit; at++)
        number = 10 * number + (*at - '0');
    return at == name || *at || number >= limit || (*name == '0' && at - name > 1) ? -1 : number;
}

/* Parses all names as numbers of the model's labels. Returns 0 if one is not such a number. */
static int eitp__read_numbers(const eitp_labelled_source *source, int64_t limit, int32_t *numbers) {
    for (int64_t i = 0; i < source->label_count; i++) {
        const int64_t number = eitp__whole_number(source->labels[i], limit);
        if (number < 0)
            return 0;
        numbers[i] = (int32_t)number;
    }
    return 1;
}

static eitp_status eitp__fail_count(const eitp__named_labels *labels, const eitp_labelled_source *source,
                                    eitp_error *error) {
    char theirs[EITP__LABEL_LIST_SIZE] = "without names", own[EITP__LABEL_LIST_SIZE];
    if (source->labels)
        eitp__list_labels(source->labels, source->label_count, theirs);
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "the data have %lld label%s, but the model has %lld: %s, and %s; set labels in "
                      "eitp_transformer_config to the labels of the data, or use the model's names",
                      (long long)source->label_count, source->label_count == 1 ? "" : "s", (long long)labels->count,
                      theirs, eitp__list_labels(labels->names, labels->count, own));
}

static eitp_status eitp__fail_unknown_name(const eitp__named_labels *labels, const char *name, eitp_error *error) {
    char list[EITP__LABEL_LIST_SIZE];
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "label '%.60s' of the data is not one of the model's (%s); leave its samples out, or name the "
                      "model's labels as the data does with eitp_model_set_labels",
                      name, eitp__list_labels(labels->names, labels->count, list));
}

/* Maps each label to the same number, regardless of the names. */
static eitp_status eitp__match_in_order(const eitp__named_labels *labels, const eitp_labelled_source *source,
                                        int32_t *numbers, eitp_error *error) {
    if (source->label_count != labels->count)
        return eitp__fail_count(labels, source, error);
    for (int64_t i = 0; i < source->label_count; i++)
        numbers[i] = (int32_t)i;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__match_labels(const eitp__named_labels *labels, const eitp_host *host,
                                             const eitp_labelled_source *source, int32_t *numbers,
                                             eitp_label_match *match, eitp_error *error) {
    const int is_regression = source->problem == EITP_PROBLEM_REGRESSION;
    const char *unknown;
    int64_t found;
    eitp_status status;
    *match = EITP_LABELS_BY_NUMBER;
    if (!source->labels)
        return eitp__match_in_order(labels, source, numbers, error);
    status = eitp__check_source_names(host, source, error);
    if (status)
        return status;
    found = eitp__find_names(labels, source, numbers, &unknown);
    *match = EITP_LABELS_BY_NAME;
    if (!unknown && is_regression && found < labels->count)
        return eitp__fail_count(labels, source, error);
    if (!unknown)
        return EITP_OK;
    if (!labels->are_numbers || found)
        return eitp__fail_unknown_name(labels, unknown, error);
    *match = EITP_LABELS_BY_NUMBER;
    if (!is_regression && eitp__read_numbers(source, labels->count, numbers))
        return EITP_OK;
    *match = EITP_LABELS_IN_ORDER;
    return eitp__match_in_order(labels, source, numbers, error);
}

eitp_status eitp_model_match_labels(const eitp_model *model, const eitp_labelled_source *source, int32_t *numbers,
                                    eitp_label_match *match, eitp_error *error) {
    eitp__named_labels labels;
    eitp_status status;
    if (!model || !source || !numbers || !match)
        return eitp__fail_null(error, "eitp_model_match_labels", "model, source, numbers and match");
    if (!model->labels)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the model has no classifier, so it has no labels to match");
    status = eitp__named_labels_init(&labels, model, error);
    if (!status)
        status = eitp__match_labels(&labels, &model->host, source, numbers, match, error);
    eitp__named_labels_release(&labels, &model->host);
    return status;
}

EITP__PRIVATE eitp_status eitp__take_names(eitp__named_labels *labels, const eitp_labelled_source *source,
                                           const int32_t *numbers, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int64_t i = 0; i < source->label_count; i++)
        labels->names[numbers[i]] = source->labels[i];
    labels->are_numbers = 0;
    eitp__label_table_truncate(&labels->table, 0);
    for (int64_t i = 0; i < labels->count && !status; i++) {
        uint32_t number;
        status = eitp__label_table_add(&labels->table, labels->names[i], strlen(labels->names[i]), &number, error);
    }
    return status;
}

/* ---- Numbers and targets ---- */

/* Finds the swaps that move the first elements of an array to the indices in `numbers`, which are part of a
   permutation. */
static eitp_status eitp__label_map_find_swaps(eitp__label_map *map, eitp_error *error) {
    const size_t bytes = (size_t)map->model_labels * sizeof(int32_t);
    int32_t *place = (int32_t *)eitp__allocate(&map->host, bytes); /* index of each element */
    int32_t *is_used = (int32_t *)eitp__allocate(&map->host, bytes);
    int64_t next = 0;
    map->swaps = (int32_t *)eitp__allocate(&map->host, 2 * bytes);
    for (int64_t i = 0; i < map->source_labels && place && is_used; i++)
        is_used[place[i] = map->numbers[i]] = 1;
    for (int64_t i = map->source_labels; i < map->model_labels && place && is_used; i++) {
        while (is_used[next])
            next++;
        place[i] = (int32_t)next++;
    }
    for (int32_t i = 0; i < map->model_labels && place && is_used && map->swaps;) {
        const int32_t to = place[i];
        if (to == i) {
            i++;
            continue;
        }
        place[i] = place[to];
        place[to] = to;
        map->swaps[2 * map->swap_count] = i;
        map->swaps[2 * map->swap_count++ + 1] = to;
    }
    const int has_memory = place && is_used && map->swaps;
    eitp__release(&map->host, place, bytes);
    eitp__release(&map->host, is_used, bytes);
    return has_memory ? EITP_OK : eitp__fail_memory(error, 4 * bytes, "the label map");
}

EITP__PRIVATE eitp_status eitp__label_map_init(eitp__label_map *map, const eitp_host *host, const int32_t *numbers,
                                               int64_t source_labels, int64_t model_labels, eitp_error *error) {
    const size_t bytes = (size_t)source_labels * sizeof *numbers;
    int is_same = source_labels == model_labels;
    eitp_status status;
    memset(map, 0, sizeof *map);
    map->host = *host;
    map->source_labels = source_labels;
    map->model_labels = model_labels;
    for (int64_t i = 0; i < source_labels && is_same; i++)
        is_same = numbers[i] == i;
    if (is_same)
        return EITP_OK;
    map->numbers = (int32_t *)eitp__allocate_uninitialized(host, bytes);
    if (!map->numbers)
        return eitp__fail_memory(error, bytes, "the numbers of labels");
    memcpy(map->numbers, numbers, bytes);
    status = eitp__label_map_find_swaps(map, error);
    if (status)
        eitp__label_map_release(map);
    return status;
}

EITP__PRIVATE void eitp__label_map_release(eitp__label_map *map) {
    if (map->numbers)
        eitp__release(&map->host, map->numbers, (size_t)map->source_labels * sizeof *map->numbers);
    if (map->swaps)
        eitp__release(&map->host, map->swaps, 2 * (size_t)map->model_labels * sizeof *map->swaps);
    memset(map, 0, sizeof *map);
}

EITP__PRIVATE int32_t eitp__label_map_number(const eitp__label_map *map, int32_t label) {
    return label < 0 || !map->numbers ? label : map->numbers[label];
}

EITP__PRIVATE void eitp__label_map_targets(const eitp__label_map *map, float *targets) {
    if (!map->numbers)
        return;
    for (int64_t i = map->source_labels; i < map->model_labels; i++)
        targets[i] = 0;
    for (int64_t i = 0; i < map->swap_count; i++) {
        const int32_t a = map->swaps[2 * i], b = map->swaps[2 * i + 1];
        const float kept = targets[a];
        targets[a] = targets[b];
        targets[b] = kept;
    }
}
