#include "tensor/context.h"

#include "base/convert.h"
#include "base/log.h"
#include "base/memory.h"

eitp_context_config eitp_context_config_default(void) {
    eitp_context_config config;
    memset(&config, 0, sizeof config);
    config.host = eitp_host_default();
    config.device = "auto";
    config.parameters = EITP_PARAMETERS_EXACT;
    return config;
}

typedef struct eitp__precision {
    const char *name;
    eitp_dtype dtype;
} eitp__precision;

static const eitp__precision eitp__precisions[] = {{"fp32", EITP_F32}, {"bf16", EITP_BF16}, {"fp16", EITP_F16}};

/* The dtype that a precision means. */
static eitp_status eitp__choose_precision(const eitp__backend *backend, const char *name, eitp_dtype *dtype,
                                          eitp_error *error) {
    *dtype = name && *name ? backend->interface->preferred_precision(backend) : EITP_F32;
    if (!name || !*name || !strcmp(name, "auto"))
        return EITP_OK;
    for (size_t i = 0; i < EITP__COUNT(eitp__precisions); i++) {
        *dtype = eitp__precisions[i].dtype;
        if (!strcmp(name, eitp__precisions[i].name))
            return EITP_OK;
    }
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown precision '%s'; it is fp32, bf16, fp16 or auto", name);
}

const char *eitp_context_precision_name(const eitp_context *context) {
    size_t i = 0;
    if (!context)
        return "";
    while (eitp__precisions[i].dtype != context->precision)
        i++;
    return eitp__precisions[i].name;
}

/* One line, and one word: of the backend, and the precision. */
static void eitp__describe_context(eitp_context *context) {
    const eitp__backend_interface *interface = context->backend->interface;
    const char *name = eitp_context_precision_name(context);
    size_t used;
    interface->describe(context->backend, context->description, sizeof context->description);
    interface->numerics(context->backend, context->numerics, sizeof context->numerics);
    if (context->precision == EITP_F32)
        return;
    used = strlen(context->description);
    snprintf(context->description + used, sizeof context->description - used, ", precision %s", name);
    used = strlen(context->numerics);
    snprintf(context->numerics + used, sizeof context->numerics - used, "-%s", name);
}

/* The file of offloaded variables, where there are to be some. */
static eitp_status eitp__open_offload_file(eitp_context *context, const eitp_context_config *config,
                                           eitp_error *error) {
    if (!config->offload || config->plans_only)
        return EITP_OK;
    if (!context->backend->interface->is_host_memory)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "variables of device '%s' cannot be offloaded from a file; use device 'cpu'",
                          context->backend->interface->name);
    if (!config->offload_path || !*config->offload_path)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "offloaded variables need a file: eitp_context_config.offload_path");
    return eitp__offload_open(&context->offload_file, &context->host, config->offload_path, error);
}

/* A configuration that was not begun with eitp_context_config_default has no host. */
static eitp_status eitp__check_context_config(const eitp_context_config *config, eitp_error *error) {
    const eitp_files *files = &config->host.files;
    int has_files = files->open && files->close && files->size && files->resize && files->read && files->write &&
                    files->sync && files->info && files->make_directory && files->sync_directory && files->rename &&
                    files->remove && files->list;
    if (!config->host.allocator.allocate || !config->host.allocator.release || !has_files)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "eitp_context_config.host lacks a function of its %s; begin with eitp_context_config_default",
                          has_files ? "allocator" : "allocator or files");
    if ((unsigned)config->parameters > EITP_PARAMETERS_CORRECTED)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown eitp_context_config.parameters %d",
                          (int)config->parameters);
    if ((unsigned)config->offload > EITP_OFFLOAD_ALL)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown eitp_context_config.offload %d", (int)config->offload);
    return EITP_OK;
}

eitp_status eitp_context_create(const eitp_context_config *config, eitp_context **context, eitp_error *error) {
    eitp_context *made;
    eitp__backend_config backend;
    eitp_status status;
    if (!config || !context)
        return eitp__fail_null(error, "eitp_context_create", "config and context");
    *context = NULL;
    status = eitp__check_context_config(config, error);
    if (status)
        return status;
    made = (eitp_context *)eitp__allocate(&config->host, sizeof *made);
    if (!made)
        return eitp__fail_memory(error, sizeof *made, "a context");
    made->host = config->host;
    backend.threads = config->threads;
    backend.isa = config->isa;
    backend.products = config->products;
    made->parameters = config->parameters;
    made->plans_only = config->plans_only;
    made->offload = config->offload;
    status = eitp__backend_create(&made->host, config->device, &backend, &made->backend, error);
    if (!status)
        status = eitp__choose_precision(made->backend, config->precision, &made->precision, error);
    if (!status && config->parameters == EITP_PARAMETERS_CORRECTED && made->precision == EITP_F16)
        status = eitp__fail(error, EITP_ERROR_UNSUPPORTED, "parameters of fp16 have no corrections; use bf16");
    if (!status)
        status = eitp__open_offload_file(made, config, error);
    if (!status && config->precision && !strcmp(config->precision, "auto"))
        eitp__log(&made->host, EITP_LOG_INFO, "precision auto: %s", eitp_context_precision_name(made));
    if (status) {
        if (made->backend)
            made->backend->interface->destroy(made->backend);
        eitp__release(&config->host, made, sizeof *made);
        return status;
    }
    eitp__describe_context(made);
    *context = made;
    return EITP_OK;
}

void eitp_context_destroy(eitp_context *context) {
    eitp_host host;
    if (!context)
        return;
    host = context->host;
    for (size_t i = 0; i < context->segment_count; i++)
        context->backend->interface->release(context->backend, context->segments[i].memory, context->segments[i].size);
    if (context->arena.memory)
        context->backend->interface->release(context->backend, context->arena.memory, context->arena.size);
    for (size_t i = 0; i < context->variable_count; i++)
        eitp__release(&host, (void *)(uintptr_t)context->variables[i].info.name,
                      strlen(context->variables[i].info.name) + 1);
    eitp__release(&host, context->variables, context->variable_capacity * sizeof *context->variables);
    eitp__release(&host, context->segments, context->segment_capacity * sizeof *context->segments);
    context->backend->interface->destroy(context->backend);
    eitp__offload_close(&context->offload_file);
    eitp__release(&host, context, sizeof *context);
}

const char *eitp_context_description(const eitp_context *context) {
    return context ? context->description : "";
}

const char *eitp_context_numerics(const eitp_context *context) {
    return context ? context->numerics : "";
}

eitp_dtype eitp_context_precision(const eitp_context *context) {
    return context ? context->precision : EITP_F32;
}

EITP__PRIVATE int eitp__context_sum_group(const eitp_context *context) {
    return context->backend->interface->sum_group(context->backend, context->precision);
}

eitp_parameter_form eitp_context_parameters(const eitp_context *context) {
    return context ? context->parameters : EITP_PARAMETERS_ROUNDED;
}

eitp_offload eitp_context_offload(const eitp_context *context) {
    return context ? context->offload : EITP_OFFLOAD_NONE;
}

eitp_host eitp_context_host(const eitp_context *context) {
    eitp_host none = EITP__ZERO;
    return context ? context->host : none;
}

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

static eitp_status eitp__variable_named(eitp_context *context, const char *name, eitp__variable **variable,
                                        eitp_error *error) {
    int64_t index = eitp_variable_find(context, name);
    if (!context || !name)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "a variable's %s is NULL", context ? "name" : "context");
    if (index < 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "there is no variable '%s' in this context", name);
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

static int eitp__is_offloaded(const eitp_context *context, const eitp_variable *variable) {
    static const eitp_offload least[] = {EITP_OFFLOAD_ALL, EITP_OFFLOAD_STATES, EITP_OFFLOAD_ALL,
                                         (eitp_offload)(EITP_OFFLOAD_ALL + 1), EITP_OFFLOAD_STATES};
    return variable->size >= EITP__OFFLOADED_BYTES && context->offload >= least[variable->role];
}

EITP__PRIVATE eitp_status eitp__variable_declare(eitp_context *context, const char *name, eitp_role role,
                                                 eitp_dtype dtype, int rank, const int64_t *shape, int64_t *index,
                                                 eitp_error *error) {
    eitp_variable *info;
    size_t size = eitp_dtype_size(dtype);
    char *copy;
    if (!name || (rank > 0 && !shape))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "the %s of variable '%s' is NULL", name ? "shape" : "name",
                          name ? name : "");
    if (!size)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "variable '%s': unknown dtype %d", name, (int)dtype);
    if ((unsigned)role > EITP_REMAINDER)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "variable '%s': unknown role %d", name, (int)role);
    if (rank < 0 || rank > EITP_MAX_RANK)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "variable '%s' has rank %d; at most %d is possible", name, rank,
                          EITP_MAX_RANK);
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 1 || !eitp__multiply_size(size, (size_t)shape[i], &size) || size > (size_t)INT64_MAX / 2)
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "variable '%s' has an impossible dimension %d: %lld", name, i,
                              (long long)shape[i]);
    }
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
    context->variables[*index].offset = EITP__NO_OFFSET;
    return EITP_OK;
}

EITP__PRIVATE void eitp__variable_remove(eitp_context *context, size_t index) {
    char *name = (char *)(uintptr_t)context->variables[index].info.name;
    eitp__release(&context->host, name, strlen(name) + 1);
    context->variable_count--;
    for (size_t i = index; i < context->variable_count; i++)
        context->variables[i] = context->variables[i + 1];
}

static size_t eitp__aligned(size_t size) {
    return (size + EITP__ALIGNMENT - 1) / EITP__ALIGNMENT * EITP__ALIGNMENT;
}

/* Places in the file for offloaded variables that have none. */
static eitp_status eitp__variables_place(eitp_context *context, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < context->variable_count && !status; i++) {
        eitp__variable *variable = &context->variables[i];
        if (variable->info.offloaded && variable->offset == EITP__NO_OFFSET)
            status = eitp__offload_reserve(&context->offload_file, variable->info.size, &variable->offset, error);
    }
    return status;
}

static int eitp__lacks_memory(const eitp__variable *variable) {
    return !variable->data && !variable->info.offloaded;
}

EITP__PRIVATE eitp_status eitp__variables_allocate(eitp_context *context, eitp_error *error) {
    size_t total = 0, offset = 0;
    char *memory;
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < context->variable_count; i++) {
        if (eitp__lacks_memory(&context->variables[i]) &&
            !eitp__add_size(total, eitp__aligned(context->variables[i].info.size), &total))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "the variables are larger than any memory");
    }
    if (!context->plans_only)
        status = eitp__variables_place(context, error);
    if (!total || context->plans_only || status)
        return status;
    if (!eitp__reserve(&context->host, (void **)&context->segments, &context->segment_capacity,
                       context->segment_count + 1, sizeof *context->segments))
        return eitp__fail_memory(error, sizeof *context->segments, "the list of segments");
    memory = (char *)context->backend->interface->allocate(context->backend, total);
    if (!memory)
        return eitp__fail_memory(error, total, "parameters, gradients and optimizer state");
    context->segments[context->segment_count].memory = memory;
    context->segments[context->segment_count].size = total;
    context->segment_count++;
    for (size_t i = 0; i < context->variable_count; i++) {
        if (!eitp__lacks_memory(&context->variables[i]))
            continue;
        context->variables[i].data = memory + offset;
        offset += eitp__aligned(context->variables[i].info.size);
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__variable_move(eitp_context *context, const eitp__variable *variable, size_t offset,
                                              void *memory, size_t size, int writes, eitp_error *error) {
    const eitp__backend_interface *interface = context->backend->interface;
    char *data = (char *)variable->data + offset;
    if (variable->info.offloaded)
        return writes ? eitp__file_write(&context->offload_file.file, variable->offset + offset, memory, size, error)
                      : eitp__file_read(&context->offload_file.file, variable->offset + offset, memory, size, error);
    return writes ? interface->upload(context->backend, data, memory, size, error)
                  : interface->download(context->backend, memory, data, size, error);
}

EITP__PRIVATE void eitp__variables_rewind(eitp_context *context, size_t variables, size_t segments) {
    while (context->variable_count > variables)
        eitp__variable_remove(context, context->variable_count - 1);
    while (context->segment_count > segments) {
        eitp__segment *last = &context->segments[--context->segment_count];
        for (size_t i = 0; i < context->variable_count; i++) {
            uintptr_t at = (uintptr_t)context->variables[i].data, begin = (uintptr_t)last->memory;
            if (at >= begin && at < begin + last->size)
                context->variables[i].data = NULL;
        }
        context->backend->interface->release(context->backend, last->memory, last->size);
    }
}

/* What was in the arena is lost. */
static void eitp__arena_moved(eitp_context *context) {
    context->arena_generation++;
    context->arena_use++;
}

EITP__PRIVATE eitp_status eitp__arena_trim(eitp_context *context, size_t size, eitp_error *error) {
    if (size >= context->arena.size)
        return EITP_OK;
    if (context->arena.memory)
        context->backend->interface->release(context->backend, context->arena.memory, context->arena.size);
    context->arena.memory = NULL;
    context->arena.size = 0;
    eitp__arena_moved(context);
    return eitp__arena_reserve(context, size, error);
}

EITP__PRIVATE eitp_status eitp__arena_reserve(eitp_context *context, size_t size, eitp_error *error) {
    const eitp__backend_interface *interface = context->backend->interface;
    size_t old = context->arena.size;
    if (size <= old)
        return EITP_OK;
    if (context->plans_only) {
        context->arena.size = size;
        return EITP_OK;
    }
    /* The old arena goes first: its content is scratch, and the peak stays at the larger of the two. */
    if (context->arena.memory)
        interface->release(context->backend, context->arena.memory, old);
    context->arena.memory = interface->allocate(context->backend, size);
    context->arena.size = context->arena.memory ? size : 0;
    eitp__arena_moved(context);
    if (context->arena.memory)
        return EITP_OK;
    if (old) {
        /* Plans that were made before must go on working. */
        context->arena.memory = interface->allocate(context->backend, old);
        context->arena.size = context->arena.memory ? old : 0;
    }
    return eitp__fail_memory(error, size, "the arena that activations live in");
}

static eitp_status eitp__variable_range(eitp_context *context, const char *name, size_t offset, const void *data,
                                        size_t size, eitp__variable **variable, eitp_error *error) {
    eitp_status status = eitp__variable_named(context, name, variable, error);
    if (!status && size && !data)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "the data for or from variable '%s' is NULL", name);
    if (status)
        return status;
    if (offset > (*variable)->info.size || size > (*variable)->info.size - offset)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "bytes %zu to %zu are outside variable '%s', which has %zu",
                          offset, offset + size, name, (*variable)->info.size);
    return eitp__variables_allocate(context, error);
}

eitp_status eitp_variable_write(eitp_context *context, const char *name, size_t offset, const void *data, size_t size,
                                eitp_error *error) {
    eitp__variable *variable = NULL;
    eitp_status status = eitp__variable_range(context, name, offset, data, size, &variable, error);
    return status ? status : eitp__variable_move(context, variable, offset, (void *)(uintptr_t)data, size, 1, error);
}

eitp_status eitp_variable_read(eitp_context *context, const char *name, size_t offset, void *data, size_t size,
                               eitp_error *error) {
    eitp__variable *variable = NULL;
    eitp_status status = eitp__variable_range(context, name, offset, data, size, &variable, error);
    return status ? status : eitp__variable_move(context, variable, offset, data, size, 0, error);
}

EITP__PRIVATE int eitp__remainder_name(const char *name, char *text, size_t size) {
    return snprintf(text, size, "remainder.%s", name) < (int)size;
}

/* The remainder of a 16-bit parameter; NULL where it has none. */
static eitp__variable *eitp__remainder_of(eitp_context *context, const eitp__variable *variable) {
    char name[256];
    int64_t index = -1;
    if (variable->info.role == EITP_PARAMETER && eitp__wide(variable->info.dtype) != variable->info.dtype) {
        if (eitp__remainder_name(variable->info.name, name, sizeof name))
            index = eitp_variable_find(context, name);
    }
    return index >= 0 ? &context->variables[index] : NULL;
}

eitp_status eitp_variable_set_trained(eitp_context *context, const char *name, int trained, eitp_error *error) {
    eitp__variable *variable = NULL, *remainder;
    eitp_status status = eitp__variable_named(context, name, &variable, error);
    if (status)
        return status;
    if (variable->info.role != EITP_PARAMETER)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "variable '%s' is no parameter, which alone are trained", name);
    remainder = trained ? NULL : eitp__remainder_of(context, variable);
    if (remainder && context->graph_count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "'%s' cannot be frozen while the context has graphs; freeze before graphs are made", name);
    variable->info.trained = trained != 0;
    if (remainder)
        eitp__variable_remove(context, (size_t)(remainder - context->variables));
    return EITP_OK;
}

/* Up to EITP__PLANE_PIECE values as they are stored: in a variable, and in its remainder, which may be NULL. */
enum { EITP__PLANE_PIECE = 1024 };

typedef struct eitp__planes {
    eitp__variable *variable, *remainder;
    double high[EITP__PLANE_PIECE], low[EITP__PLANE_PIECE]; /* room for any dtype */
} eitp__planes;

static void eitp__split_values(eitp__planes *planes, const float *values, size_t count) {
    eitp_dtype dtype = planes->variable->info.dtype;
    uint16_t *high = (uint16_t *)(void *)planes->high;
    void *low = planes->low;
    eitp__convert_from_f32(dtype, values, planes->high, count);
    for (size_t i = 0; i < count && planes->remainder; i++) {
        if (dtype == EITP_F16)
            ((float *)low)[i] = values[i] - eitp__f16_to_f32(high[i]);
        else if (planes->remainder->info.dtype == EITP_I8)
            eitp__split_correction(values[i], &high[i], (int8_t *)low + i);
        else
            eitp__split_bf16(values[i], &high[i], (int16_t *)low + i);
    }
}

static void eitp__join_values(const eitp__planes *planes, float *values, size_t count) {
    eitp_dtype dtype = planes->variable->info.dtype;
    const uint16_t *high = (const uint16_t *)(const void *)planes->high;
    const void *low = planes->low;
    eitp__convert_to_f32(dtype, planes->high, values, count);
    for (size_t i = 0; i < count && planes->remainder; i++) {
        if (dtype == EITP_F16)
            values[i] += ((const float *)low)[i];
        else if (planes->remainder->info.dtype == EITP_I8)
            values[i] = eitp__join_correction(high[i], ((const int8_t *)low)[i]);
        else
            values[i] = eitp__join_bf16(high[i], ((const int16_t *)low)[i]);
    }
}

/* Moves `count` elements from element `first` of a variable on; does nothing where there is no variable. */
static eitp_status eitp__move_plane(eitp_context *context, const eitp__variable *variable, size_t first, size_t count,
                                    void *plane, int writes, eitp_error *error) {
    size_t size = variable ? eitp_dtype_size(variable->info.dtype) : 0;
    return variable ? eitp__variable_move(context, variable, first * size, plane, count * size, writes, error)
                    : EITP_OK;
}

static eitp_status eitp__move_planes(eitp_context *context, eitp__planes *planes, size_t first, size_t count,
                                     int writes, eitp_error *error) {
    eitp_status status = eitp__move_plane(context, planes->variable, first, count, planes->high, writes, error);
    return status ? status : eitp__move_plane(context, planes->remainder, first, count, planes->low, writes, error);
}

/* Checks a range of elements of a floating variable, and finds its remainder. */
static eitp_status eitp__value_range(eitp_context *context, const char *name, int64_t first, const float *values,
                                     int64_t count, eitp__variable **variable, eitp__variable **remainder,
                                     eitp_error *error) {
    eitp_status status = eitp__variable_named(context, name, variable, error);
    size_t size;
    if (!status && count && !values)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "the values for or from variable '%s' are NULL", name);
    if (status)
        return status;
    size = eitp_dtype_size((*variable)->info.dtype);
    if (!eitp__is_floating((*variable)->info.dtype))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "variable '%s' is %s; only floating ones have values in f32",
                          name, eitp_dtype_name((*variable)->info.dtype));
    if (first < 0 || count < 0 || (uint64_t)first > (*variable)->info.size / size ||
        (uint64_t)count > (*variable)->info.size / size - (uint64_t)first)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "elements %lld to %lld are outside variable '%s'",
                          (long long)first, (long long)(first + count), name);
    *remainder = eitp__remainder_of(context, *variable);
    return eitp__variables_allocate(context, error);
}

static int64_t eitp__plane_piece(int64_t count) {
    return count < (int64_t)EITP__PLANE_PIECE ? count : (int64_t)EITP__PLANE_PIECE;
}

eitp_status eitp_variable_write_f32(eitp_context *context, const char *name, int64_t first, const float *values,
                                    int64_t count, eitp_error *error) {
    eitp__planes planes;
    eitp_status status;
    planes.variable = planes.remainder = NULL;
    status = eitp__value_range(context, name, first, values, count, &planes.variable, &planes.remainder, error);
    for (int64_t i = 0; i < count && !status; i += EITP__PLANE_PIECE) {
        size_t piece = (size_t)eitp__plane_piece(count - i);
        eitp__split_values(&planes, values + i, piece);
        status = eitp__move_planes(context, &planes, (size_t)(first + i), piece, 1, error);
    }
    return status;
}

eitp_status eitp_variable_read_f32(eitp_context *context, const char *name, int64_t first, float *values, int64_t count,
                                   eitp_error *error) {
    eitp__planes planes;
    eitp_status status;
    planes.variable = planes.remainder = NULL;
    status = eitp__value_range(context, name, first, values, count, &planes.variable, &planes.remainder, error);
    for (int64_t i = 0; i < count && !status; i += EITP__PLANE_PIECE) {
        size_t piece = (size_t)eitp__plane_piece(count - i);
        status = eitp__move_planes(context, &planes, (size_t)(first + i), piece, 0, error);
        if (!status)
            eitp__join_values(&planes, values + i, piece);
    }
    return status;
}

/* Writes a floating variable in small pieces made by `make(argument, first element, count, values)`. */
static eitp_status eitp__variable_generate(eitp_context *context, const char *name,
                                           void (*make)(const void *argument, uint64_t first, size_t count,
                                                        float *values),
                                           const void *argument, eitp_error *error) {
    float values[1024];
    const size_t piece = EITP__COUNT(values);
    eitp__variable *variable = NULL;
    size_t elements;
    eitp_status status = eitp__variable_named(context, name, &variable, error);
    if (status)
        return status;
    elements = variable->info.size / eitp_dtype_size(variable->info.dtype);
    for (size_t i = 0; i < elements && !status; i += piece) {
        size_t count = elements - i < piece ? elements - i : piece;
        make(argument, i, count, values);
        status = eitp_variable_write_f32(context, name, (int64_t)i, values, (int64_t)count, error);
    }
    return status;
}

static void eitp__make_constant(const void *argument, uint64_t first, size_t count, float *values) {
    (void)first;
    for (size_t i = 0; i < count; i++)
        values[i] = (float)*(const double *)argument;
}

eitp_status eitp_variable_fill(eitp_context *context, const char *name, double value, eitp_error *error) {
    return eitp__variable_generate(context, name, eitp__make_constant, &value, error);
}

/* FNV-1a. */
EITP__PRIVATE uint64_t eitp__name_key(const char *name) {
    uint64_t key = 14695981039346656037u;
    for (; *name; name++)
        key = (key ^ (unsigned char)*name) * 1099511628211u;
    return key;
}

typedef struct eitp__normal {
    double mean, deviation;
    uint64_t seed, key;
} eitp__normal;

static void eitp__make_normal(const void *argument, uint64_t first, size_t count, float *values) {
    const eitp__normal *normal = (const eitp__normal *)argument;
    double pair[2] = {0, 0};
    for (size_t i = 0; i < count; i++) {
        if (i % 2 == 0)
            eitp__random_normal(normal->seed, normal->key, EITP__RNG_STREAM_INIT, (first + i) / 2, pair);
        values[i] = (float)(normal->mean + normal->deviation * pair[i % 2]);
    }
}

eitp_status eitp_variable_fill_normal(eitp_context *context, const char *name, double mean, double deviation,
                                      uint64_t seed, eitp_error *error) {
    eitp__normal normal;
    normal.mean = mean;
    normal.deviation = deviation;
    normal.seed = seed;
    normal.key = name ? eitp__name_key(name) : 0;
    return eitp__variable_generate(context, name, eitp__make_normal, &normal, error);
}

typedef struct eitp__uniform {
    double low, high;
    uint64_t seed, key;
} eitp__uniform;

static void eitp__make_uniform(const void *argument, uint64_t first, size_t count, float *values) {
    const eitp__uniform *uniform = (const eitp__uniform *)argument;
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(uniform->low +
                            (uniform->high - uniform->low) *
                                eitp__random_uniform(uniform->seed, uniform->key, EITP__RNG_STREAM_INIT, first + i));
}

eitp_status eitp_variable_fill_uniform(eitp_context *context, const char *name, double low, double high, uint64_t seed,
                                       eitp_error *error) {
    eitp__uniform uniform;
    uniform.low = low;
    uniform.high = high;
    uniform.seed = seed;
    uniform.key = name ? eitp__name_key(name) : 0;
    return eitp__variable_generate(context, name, eitp__make_uniform, &uniform, error);
}

size_t eitp_context_variable_bytes(const eitp_context *context, eitp_role role) {
    size_t bytes = 0;
    for (size_t i = 0; i < eitp_variable_count(context); i++) {
        if (context->variables[i].info.role == role && context->variables[i].data)
            bytes += context->variables[i].info.size;
    }
    return bytes;
}

size_t eitp_context_arena_bytes(const eitp_context *context) {
    return context ? context->arena.size : 0;
}
