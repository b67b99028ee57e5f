/* Variables: their list, their memory or offset in the file, and access to their bytes. */
#include "tensor/variable.h"

#include "base/convert.h"
#include "base/memory.h"

size_t eitp_variable_count(const eitp_context *context) {
    return context ? context->variable_count : 0;
}

eitp_variable eitp_variable_at(const eitp_context *context, size_t index) {
    eitp_variable none = EITP__ZERO;
    return index < eitp_variable_count(context) ? context->variables[index].info : none;
}

int64_t eitp_variable_find(const eitp_context *context, const char *name) {
    size_t length = name ? strlen(name) : 0;
    for (size_t i = 0; i < eitp_variable_count(context) && name; i++) {
        if (context->variables[i].name_length == length && !memcmp(context->variables[i].info.name, name, length))
            return (int64_t)i;
    }
    return -1;
}

EITP__PRIVATE eitp_status eitp__variable_named(eitp_context *context, const char *name, eitp__variable **variable,
                                               eitp_error *error) {
    int64_t index = eitp_variable_find(context, name);
    if (!context || !name)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the %s of a variable is NULL", context ? "name" : "context");
    if (index < 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "no variable named '%s' in this context", name);
    *variable = &context->variables[index];
    return EITP_OK;
}

eitp_status eitp_variable_set_decay(eitp_context *context, const char *name, int decay, eitp_error *error) {
    eitp__variable *variable = NULL;
    eitp_status status = eitp__variable_named(context, name, &variable, error);
    if (!status)
        variable->info.decay = decay;
    return status;
}

#define EITP__NOT_OFFLOADED ((eitp_offload)(EITP_OFFLOAD_ALL + 1))

static const eitp__role_info eitp__roles[] = {
    {EITP_OFFLOAD_ALL, 1},    /* EITP_PARAMETER */
    {EITP_OFFLOAD_STATES, 1}, /* EITP_OPTIMIZER */
    {EITP_OFFLOAD_ALL, 0},    /* EITP_GRADIENT */
    {EITP__NOT_OFFLOADED, 0}, /* EITP_CACHE */
    {EITP_OFFLOAD_STATES, 1}, /* EITP_REMAINDER */
};

typedef char eitp__every_role_has_a_row[EITP__COUNT(eitp__roles) == EITP_ROLE_COUNT ? 1 : -1];

EITP__PRIVATE const eitp__role_info *eitp__role_of(eitp_role role) {
    return &eitp__roles[role];
}

/* True if the variable is large enough to offload, and the context offloads its role. */
static int eitp__is_offloaded(const eitp_context *context, const eitp_variable *variable) {
    return variable->size >= EITP__OFFLOADED_BYTES && context->offload >= eitp__role_of(variable->role)->offloaded_from;
}

/* Checks the arguments of a declaration, and computes the size in bytes. */
static eitp_status eitp__check_declaration(const char *name, eitp_role role, eitp_dtype dtype, int rank,
                                           const int64_t *shape, size_t *size, eitp_error *error) {
    *size = eitp_dtype_size(dtype);
    if (!name || (rank > 0 && !shape))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the %s of variable '%s' is NULL", name ? "shape" : "name",
                          name ? name : "");
    if (!*size)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "variable '%s': unknown dtype %d", name, (int)dtype);
    if ((unsigned)role >= EITP_ROLE_COUNT)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "variable '%s': unknown role %d", name, (int)role);
    if (rank < 0 || rank > EITP_MAX_RANK)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "variable '%s': rank must be 0 to %d, not %d", name,
                          EITP_MAX_RANK, rank);
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 1 || !eitp__multiply_size(*size, (size_t)shape[i], size) || *size > (size_t)INT64_MAX / 2)
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "variable '%s': dimension %d cannot be %lld", name, i,
                              (long long)shape[i]);
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__variable_declare(eitp_context *context, const char *name, eitp_role role,
                                                 eitp_dtype dtype, int rank, const int64_t *shape, int64_t *index,
                                                 eitp_error *error) {
    eitp_variable *info;
    size_t size;
    char *copy;
    eitp_status status = eitp__check_declaration(name, role, dtype, rank, shape, &size, error);
    if (status)
        return status;
    *index = eitp_variable_find(context, name);
    if (*index >= 0) {
        info = &context->variables[*index].info;
        if (info->role != role || info->dtype != dtype || info->rank != rank ||
            (rank && memcmp(info->shape, shape, (size_t)rank * sizeof *shape)))
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "variable '%s' exists with another role, dtype or shape; choose another name", name);
        return EITP_OK;
    }
    if (!eitp__reserve(&context->host, (void **)&context->variables, &context->variable_capacity,
                       context->variable_count + 1, sizeof *context->variables))
        return eitp__fail_memory(error, sizeof *context->variables, "the list of variables");
    copy = eitp__copy_text(&context->host, name);
    if (!copy)
        return eitp__fail_memory(error, strlen(name) + 1, "the name of a variable");
    *index = (int64_t)context->variable_count++;
    memset(&context->variables[*index], 0, sizeof *context->variables);
    info = &context->variables[*index].info;
    info->name = copy;
    context->variables[*index].name_length = strlen(copy);
    info->role = role;
    info->dtype = dtype;
    info->rank = rank;
    for (int i = 0; i < rank; i++)
        info->shape[i] = shape[i];
    info->size = size;
    info->decay = role == EITP_PARAMETER && rank >= 2;
    info->trained = role == EITP_PARAMETER;
    info->offloaded = eitp__is_offloaded(context, info);
    info->kind = "";
    info->parent = context->variables[*index].first_child = context->variables[*index].next_sibling = -1;
    context->variables[*index].offset = EITP__NO_OFFSET;
    return EITP_OK;
}

/* ---- Children ---- */

static int eitp__is_child(const eitp__variable *variable, int64_t parent, const char *kind, int64_t number) {
    return variable->info.parent == parent && variable->number == number && !strcmp(variable->info.kind, kind);
}

EITP__PRIVATE int64_t eitp__child_find(const eitp_context *context, int64_t parent, const char *kind, int64_t number) {
    int64_t index = context->variables[parent].first_child;
    while (index >= 0 && !eitp__is_child(&context->variables[index], parent, kind, number))
        index = context->variables[index].next_sibling;
    return index;
}

/* Adds a variable to the children of its parent. */
static void eitp__link_child(eitp_context *context, int64_t index) {
    eitp__variable *variable = &context->variables[index];
    if (variable->info.parent < 0)
        return;
    variable->next_sibling = context->variables[variable->info.parent].first_child;
    context->variables[variable->info.parent].first_child = index;
}

EITP__PRIVATE eitp_status eitp__child_declare(eitp_context *context, int64_t parent, const eitp__child_info *child,
                                              int64_t *index, eitp_error *error) {
    const char *of = context->variables[parent].info.name;
    const size_t count = context->variable_count;
    eitp__variable *variable;
    char number[24] = "", name[EITP__LONGEST_NAME + 1];
    eitp_status status;
    if (child->number)
        snprintf(number, sizeof number, ".%lld", (long long)child->number);
    if (snprintf(name, sizeof name, "%s%s.%s", child->kind, number, of) >= (int)sizeof name)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the name of variable '%.60s...' is too long: the name of its %s exceeds %d bytes", of,
                          child->kind, EITP__LONGEST_NAME);
    status = eitp__variable_declare(context, name, child->role, child->dtype, child->rank, child->shape, index, error);
    if (status)
        return status;
    variable = &context->variables[*index];
    if (context->variable_count > count) {
        variable->info.parent = parent;
        variable->info.kind = child->kind;
        variable->number = child->number;
        eitp__link_child(context, *index);
    }
    return eitp__is_child(variable, parent, child->kind, child->number)
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "variable '%s' exists, and is not the %s of '%s'; choose another name", name, child->kind,
                            of);
}

/* Called when the variables from `index` on have moved down by one. */
static void eitp__relink_children(eitp_context *context, int64_t index) {
    for (size_t i = 0; i < context->variable_count; i++) {
        eitp__variable *variable = &context->variables[i];
        variable->info.parent -= variable->info.parent > index;
        variable->first_child = variable->next_sibling = -1;
    }
    for (size_t i = 0; i < context->variable_count; i++)
        eitp__link_child(context, (int64_t)i);
}

EITP__PRIVATE void eitp__variable_remove(eitp_context *context, size_t index) {
    const eitp__variable removed = context->variables[index];
    char *name = (char *)(uintptr_t)removed.info.name;
    eitp__release(&context->host, name, removed.name_length + 1);
    context->variable_count--;
    for (size_t i = index; i < context->variable_count; i++)
        context->variables[i] = context->variables[i + 1];
    if (index < context->variable_count)
        eitp__relink_children(context, (int64_t)index);
    else if (removed.info.parent >= 0) /* it was the child declared last */
        context->variables[removed.info.parent].first_child = removed.next_sibling;
}

static size_t eitp__aligned(size_t size) {
    return (size + EITP__ALIGNMENT - 1) / EITP__ALIGNMENT * EITP__ALIGNMENT;
}

static int eitp__needs_offload_room(const eitp__variable *variable) {
    return variable->info.offloaded && variable->offset == EITP__NO_OFFSET;
}

/* Reserves room for offloaded variables that have none. */
static eitp_status eitp__reserve_offload_room(eitp_context *context, eitp_error *error) {
    uint64_t bytes = 0;
    eitp_status status;
    for (size_t i = 0; i < context->variable_count; i++)
        if (eitp__needs_offload_room(&context->variables[i]))
            bytes += eitp__offload_room(context->variables[i].info.size);
    status = bytes ? eitp__offload_extend(&context->offloaded, bytes, error) : EITP_OK;
    for (size_t i = 0; i < context->variable_count && !status; i++) {
        eitp__variable *variable = &context->variables[i];
        if (eitp__needs_offload_room(variable))
            status = eitp__offload_reserve(&context->offloaded, variable->info.size, &variable->offset, error);
    }
    return status;
}

static int eitp__needs_memory(const eitp__variable *variable) {
    return !variable->data && !variable->info.offloaded && !variable->info.borrowed;
}

EITP__PRIVATE eitp_status eitp__variables_allocate(eitp_context *context, eitp_error *error) {
    size_t total = 0, offset = 0;
    void *memory;
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < context->variable_count; i++) {
        if (eitp__needs_memory(&context->variables[i]) &&
            !eitp__add_size(total, eitp__aligned(context->variables[i].info.size), &total))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "the total size of the variables overflows size_t");
    }
    if (!context->plans_only)
        status = eitp__reserve_offload_room(context, error);
    if (!total || context->plans_only || status)
        return status;
    status = eitp__segments_add(context->segments, total, "parameters, gradients and optimizer state", &memory, error);
    if (status)
        return status;
    for (size_t i = 0; i < context->variable_count; i++) {
        if (!eitp__needs_memory(&context->variables[i]))
            continue;
        context->variables[i].data = (char *)memory + offset;
        offset += eitp__aligned(context->variables[i].info.size);
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__variable_transfer(eitp_context *context, const eitp__variable *variable, size_t offset,
                                                  void *memory, size_t size, int writes, eitp_error *error) {
    const eitp__backend_interface *interface = context->backend->interface;
    const eitp__storage storage = eitp__offload_storage(&context->offloaded);
    char *data = (char *)variable->data + offset;
    const eitp_status status = eitp__context_wait(context, error);
    if (status)
        return status;
    if (variable->info.offloaded)
        return writes ? storage.write(storage.user, variable->offset + offset, memory, size, error)
                      : storage.read(storage.user, variable->offset + offset, memory, size, error);
    return writes ? interface->upload(context->backend, data, memory, size, error)
                  : interface->download(context->backend, memory, data, size, error);
}

/* Drops the references to segments without variables. */
static void eitp__drop_lenders(eitp_context *context) {
    size_t kept = 0;
    for (size_t i = 0; i < context->lender_count; i++) {
        size_t v = 0;
        while (v < context->variable_count && context->variables[v].lender != context->lenders[i])
            v++;
        if (v < context->variable_count)
            context->lenders[kept++] = context->lenders[i];
        else
            eitp__segments_release(context->lenders[i]);
    }
    context->lender_count = kept;
}

EITP__PRIVATE void eitp__variables_roll_back(eitp_context *context, size_t variables, size_t segments) {
    eitp__context_finish(context);
    while (context->variable_count > variables)
        eitp__variable_remove(context, context->variable_count - 1);
    eitp__drop_lenders(context);
    while (context->segments->count > segments) {
        const eitp__segment *last = &context->segments->blocks[context->segments->count - 1];
        for (size_t i = 0; i < context->variable_count; i++) {
            uintptr_t at = (uintptr_t)context->variables[i].data, begin = (uintptr_t)last->memory;
            if (at >= begin && at < begin + last->size)
                context->variables[i].data = NULL;
        }
        eitp__segments_remove(context->segments);
    }
}

EITP__PRIVATE eitp_status eitp__variable_check_change(const eitp_context *context, const eitp__variable *variable,
                                                      eitp_error *error) {
    if (variable->info.borrowed)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "variable '%s' is borrowed from another context and cannot be changed", variable->info.name);
    if (eitp__segments_are_shared(context->segments) && __atomic_load_n(&variable->is_lent, __ATOMIC_RELAXED))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "variable '%s' cannot be changed while other contexts borrow it; destroy them first",
                          variable->info.name);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__prepare_access(eitp_context *context, eitp_error *error) {
    if (context->plans_only)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "this context was created with plans_only: its variables have no values");
    return eitp__variables_allocate(context, error);
}

/* Checks a range of bytes of a variable, and prepares access to it. */
static eitp_status eitp__variable_range(eitp_context *context, const char *name, size_t offset, const void *data,
                                        size_t size, eitp__variable **variable, eitp_error *error) {
    eitp_status status = eitp__variable_named(context, name, variable, error);
    if (!status && size && !data)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "the data for variable '%s' is NULL", name);
    if (status)
        return status;
    if (offset > (*variable)->info.size || size > (*variable)->info.size - offset)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "bytes %zu to %zu are outside variable '%s', which has %zu bytes",
                          offset, offset + size, name, (*variable)->info.size);
    return eitp__prepare_access(context, error);
}

eitp_status eitp_variable_write(eitp_context *context, const char *name, size_t offset, const void *data, size_t size,
                                eitp_error *error) {
    eitp__variable *variable = NULL;
    eitp_status status = eitp__variable_range(context, name, offset, data, size, &variable, error);
    if (!status)
        status = eitp__variable_check_change(context, variable, error);
    return status ? status
                  : eitp__variable_transfer(context, variable, offset, (void *)(uintptr_t)data, size, 1, error);
}

eitp_status eitp_variable_read(eitp_context *context, const char *name, size_t offset, void *data, size_t size,
                               eitp_error *error) {
    eitp__variable *variable = NULL;
    eitp_status status = eitp__variable_range(context, name, offset, data, size, &variable, error);
    return status ? status : eitp__variable_transfer(context, variable, offset, data, size, 0, error);
}

EITP__PRIVATE void *eitp__variable_memory(eitp_context *context, const char *name) {
    eitp__variable *variable = NULL;
    if (!context->backend->interface->is_host_memory || eitp__variable_named(context, name, &variable, NULL) ||
        variable->info.offloaded || eitp__remainder_of(context, variable) ||
        eitp__variable_check_change(context, variable, NULL))
        return NULL;
    return variable->data;
}

EITP__PRIVATE eitp__variable *eitp__remainder_of(eitp_context *context, const eitp__variable *variable) {
    const int64_t index = eitp__child_find(context, variable - context->variables, EITP__KIND_REMAINDER, 0);
    return index >= 0 ? &context->variables[index] : NULL;
}

EITP__PRIVATE int eitp__remainder_child(const eitp_context *context, const eitp_variable *parameter,
                                        eitp__child_info *child) {
    const int is_corrected = context->parameters == EITP_PARAMETERS_CORRECTED;
    memset(child, 0, sizeof *child);
    child->kind = EITP__KIND_REMAINDER;
    child->role = EITP_REMAINDER;
    child->dtype = is_corrected ? EITP_I8 : eitp__exact_remainder(parameter->dtype);
    child->rank = parameter->rank;
    child->shape = parameter->shape;
    return eitp__wide(parameter->dtype) != parameter->dtype && context->parameters != EITP_PARAMETERS_ROUNDED;
}

eitp_status eitp_variable_set_trained(eitp_context *context, const char *name, int trained, eitp_error *error) {
    eitp__variable *variable = NULL, *remainder;
    eitp_status status = eitp__variable_named(context, name, &variable, error);
    if (status)
        return status;
    if (variable->info.role != EITP_PARAMETER)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "variable '%s' is not a parameter; only parameters can be trained or frozen", name);
    if (variable->info.trained == (trained != 0))
        return EITP_OK;
    if (variable->info.borrowed)
        return eitp__variable_check_change(context, variable, error);
    remainder = trained ? NULL : eitp__remainder_of(context, variable);
    if (remainder && context->graph_count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' cannot be frozen while the context has graphs; freeze it before creating graphs", name);
    variable->info.trained = trained != 0;
    if (remainder)
        eitp__variable_remove(context, (size_t)(remainder - context->variables));
    return EITP_OK;
}

/* FNV-1a. */
EITP__PRIVATE uint64_t eitp__name_key(const char *name) {
    uint64_t key = 14695981039346656037u;
    for (; *name; name++)
        key = (key ^ (unsigned char)*name) * 1099511628211u;
    return key;
}

size_t eitp_context_variable_bytes(const eitp_context *context, eitp_role role) {
    size_t bytes = 0;
    for (size_t i = 0; i < eitp_variable_count(context); i++) {
        const eitp__variable *variable = &context->variables[i];
        if (variable->info.role == role && variable->data && !variable->info.borrowed)
            bytes += variable->info.size;
    }
    return bytes;
}
