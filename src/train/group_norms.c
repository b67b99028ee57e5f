#include "train/group_norms.h"

#include "tensor/graph.h"

typedef struct eitp__norm_output {
    const char *parameter; /* its name, owned by the context */
    eitp_tensor *gradient, *update;
} eitp__norm_output;

EITP__PRIVATE void eitp__norm_outputs_add(void *outputs, const eitp_tensor *parameter, eitp_tensor *gradient,
                                          eitp_tensor *update) {
    eitp__norm_outputs *list = (eitp__norm_outputs *)outputs;
    eitp__norm_output *added;
    if (!eitp__reserve(list->host, (void **)&list->all, &list->capacity, list->count + 1, sizeof *list->all)) {
        list->has_failed = 1;
        return;
    }
    added = &list->all[list->count++];
    added->parameter = eitp__variable_name(parameter);
    added->gradient = eitp_output(gradient);
    added->update = eitp_output(update);
}

EITP__PRIVATE void eitp__norm_outputs_release(eitp__norm_outputs *outputs) {
    if (outputs->all)
        eitp__release(outputs->host, outputs->all, outputs->capacity * sizeof *outputs->all);
    outputs->all = NULL;
    outputs->count = outputs->capacity = 0;
    outputs->has_failed = 0;
}

/* ---- Groups ---- */

/* Returns the length of the group's name in a parameter's name: up to and including the first number, or without the
   last part. */
static size_t eitp__group_size(const char *parameter) {
    const char *last = strrchr(parameter, '.');
    for (const char *part = parameter; part; part = strchr(part, '.')) {
        size_t digits;
        part += *part == '.';
        digits = strspn(part, "0123456789");
        if (digits && (!part[digits] || part[digits] == '.'))
            return (size_t)(part - parameter) + digits;
    }
    return last ? (size_t)(last - parameter) : strlen(parameter);
}

EITP__PRIVATE void eitp__group_name(const char *parameter, char *name, size_t size) {
    const size_t length = eitp__group_size(parameter);
    snprintf(name, size, "%.*s", (int)(length < size ? length : size - 1), parameter);
}

/* Finds the group of a parameter, or adds it if there is room. */
static eitp_group_norms *eitp__find_group(const char *parameter, eitp_group_norms *groups, size_t capacity,
                                          size_t *count) {
    eitp_group_norms *group;
    char name[sizeof groups->name];
    eitp__group_name(parameter, name, sizeof name);
    for (size_t i = *count; i > 0; i--) {
        if (!strcmp(groups[i - 1].name, name))
            return &groups[i - 1];
    }
    if (*count == capacity)
        return NULL;
    group = &groups[(*count)++];
    memset(group, 0, sizeof *group);
    snprintf(group->name, sizeof group->name, "%s", name);
    return group;
}

static eitp_status eitp__add_squares(const eitp__norm_output *output, eitp_plan *plan, eitp_group_norms *group,
                                     eitp_error *error) {
    double gradient = 0, update[2] = {0, 0};
    eitp_status status = eitp_plan_read(plan, output->gradient, &gradient, sizeof gradient, error);
    if (!status)
        status = eitp_plan_read(plan, output->update, update, sizeof update, error);
    group->grad_norm += gradient;
    group->update_norm += update[0];
    group->parameter_norm += update[1];
    return status;
}

EITP__PRIVATE eitp_status eitp__norm_outputs_read(const eitp__norm_outputs *outputs, eitp_plan *plan, double loss_scale,
                                                  eitp_group_norms *groups, size_t capacity, size_t *count,
                                                  eitp_error *error) {
    eitp_status status = EITP_OK;
    size_t found = 0;
    for (size_t i = 0; i < outputs->count && !status; i++) {
        eitp_group_norms *group = eitp__find_group(outputs->all[i].parameter, groups, capacity, &found);
        if (group)
            status = eitp__add_squares(&outputs->all[i], plan, group, error);
    }
    if (status)
        return status;
    for (size_t i = 0; i < found; i++) {
        groups[i].grad_norm = sqrt(groups[i].grad_norm) / loss_scale;
        groups[i].update_norm = sqrt(groups[i].update_norm);
        groups[i].parameter_norm = sqrt(groups[i].parameter_norm);
    }
    *count = found;
    return EITP_OK;
}
