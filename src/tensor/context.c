/* Contexts: creation, properties, and the arena. */
#include "tensor/context.h"

#include "base/log.h"
#include "base/memory.h"

eitp_context_config eitp_context_config_default(void) {
    eitp_context_config config;
    memset(&config, 0, sizeof config);
    config.host = eitp_host_default();
    config.device = "auto";
    config.pin_memory = 1;
    config.parameters = EITP_PARAMETERS_EXACT;
    return config;
}

typedef struct eitp__precision {
    const char *name;
    eitp_dtype dtype;
} eitp__precision;

static const eitp__precision eitp__precisions[] = {{"fp32", EITP_F32}, {"bf16", EITP_BF16}, {"fp16", EITP_F16}};

EITP__PRIVATE int eitp__precision_dtype(const char *name, eitp_dtype *dtype) {
    for (size_t i = 0; i < EITP__COUNT(eitp__precisions); i++) {
        *dtype = eitp__precisions[i].dtype;
        if (!strcmp(name, eitp__precisions[i].name))
            return 1;
    }
    return 0;
}

/* Finds the dtype of a precision. */
static eitp_status eitp__choose_precision(const eitp__backend *backend, const char *name, eitp_dtype *dtype,
                                          eitp_error *error) {
    *dtype = name && *name ? backend->interface->preferred_precision(backend) : EITP_F32;
    if (!name || !*name || !strcmp(name, "auto") || eitp__precision_dtype(name, dtype))
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown precision '%s' (choose from fp32, bf16, fp16, auto)", name);
}

const char *eitp_context_precision_name(const eitp_context *context) {
    size_t i = 0;
    if (!context)
        return "";
    while (eitp__precisions[i].dtype != context->precision)
        i++;
    return eitp__precisions[i].name;
}

/* Writes the description and numerics: the backend's, followed by the precision. */
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

/* Opens the storage for offloaded variables, if the context offloads any. */
static eitp_status eitp__open_offload(eitp_context *context, const eitp_context_config *config, eitp_error *error) {
    const int has_file = config->offload_path && *config->offload_path;
    if (!config->offload)
        return EITP_OK;
    if (!has_file && eitp__context_has_device_memory(context))
        eitp__offload_open_memory(&context->offloaded, context->backend);
    else if (!has_file && !config->plans_only)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "eitp_context_config.offload needs a file: set eitp_context_config.offload_path");
    else if (!config->plans_only)
        return eitp__offload_open_file(&context->offloaded, &context->host, config->offload_path, error);
    return EITP_OK;
}

static eitp_status eitp__check_context_config(const eitp_context_config *config, eitp_error *error) {
    const eitp_status status =
        eitp__check_host(&config->host, "eitp_context_config.host", "eitp_context_config_default", error);
    if (status)
        return status;
    if ((unsigned)config->parameters > EITP_PARAMETERS_CORRECTED)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown eitp_context_config.parameters %d",
                          (int)config->parameters);
    if ((unsigned)config->offload > EITP_OFFLOAD_ALL)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown eitp_context_config.offload %d", (int)config->offload);
    return EITP_OK;
}

eitp_status eitp_context_create(const eitp_context_config *config, eitp_context **context, eitp_error *error) {
    eitp_context *created;
    eitp__backend_config backend;
    eitp_status status;
    if (!config || !context)
        return eitp__fail_null(error, "eitp_context_create", "config and context");
    *context = NULL;
    status = eitp__check_context_config(config, error);
    if (status)
        return status;
    created = (eitp_context *)eitp__allocate(&config->host, sizeof *created);
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "a context");
    created->host = config->host;
    backend.threads = config->threads;
    backend.isa = config->isa;
    backend.products = config->products;
    backend.pageable = !config->pin_memory;
    backend.allow_tf32 = config->allow_tf32;
    created->parameters = config->parameters;
    created->plans_only = config->plans_only;
    created->offload = config->offload;
    status = eitp__backend_create(&created->host, config->device, &backend, &created->backend, error);
    if (!status)
        status = eitp__segments_create(created->backend, &created->segments, error);
    if (!status)
        status = eitp__choose_precision(created->backend, config->precision, &created->precision, error);
    if (!status && config->parameters == EITP_PARAMETERS_CORRECTED && created->precision == EITP_F16)
        status = eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                            "8-bit parameter corrections (adamw8) are not available in fp16; use bf16");
    if (!status)
        status = eitp__open_offload(created, config, error);
    if (!status && config->precision && !strcmp(config->precision, "auto"))
        eitp__log_line(&created->host, EITP_LOG_DEBUG, "precision auto: %s", eitp_context_precision_name(created));
    if (status) {
        if (created->segments)
            eitp__segments_release(created->segments);
        else if (created->backend)
            created->backend->interface->destroy(created->backend);
        eitp__release(&config->host, created, sizeof *created);
        return status;
    }
    eitp__describe_context(created);
    *context = created;
    return EITP_OK;
}

void eitp_context_destroy(eitp_context *context) {
    eitp_host host;
    if (!context)
        return;
    host = context->host;
    eitp__context_finish(context);
    if (context->arena.memory)
        context->backend->interface->release(context->backend, EITP__PLACE_DEVICE, context->arena.memory,
                                             context->arena.size);
    for (size_t i = 0; i < context->variable_count; i++)
        eitp__release(&host, (void *)(uintptr_t)context->variables[i].info.name,
                      strlen(context->variables[i].info.name) + 1);
    eitp__release(&host, context->variables, context->variable_capacity * sizeof *context->variables);
    for (size_t i = 0; i < context->lender_count; i++)
        eitp__segments_release(context->lenders[i]);
    eitp__release(&host, context->lenders, context->lender_capacity * sizeof(eitp__segments *));
    eitp__release(&host, context->ops, context->ops_bytes);
    eitp__offload_close(&context->offloaded);
    eitp__segments_release(context->segments);
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

EITP__PRIVATE void *eitp__staging_allocate(eitp_context *context, size_t size) {
    return context->backend->interface->allocate(context->backend, EITP__PLACE_HOST, size);
}

EITP__PRIVATE void eitp__staging_release(eitp_context *context, void *memory, size_t size) {
    context->backend->interface->release(context->backend, EITP__PLACE_HOST, memory, size);
}

EITP__PRIVATE int eitp__context_sum_group(const eitp_context *context) {
    return context->backend->interface->sum_group(context->backend, context->precision);
}

void eitp_context_set_poll(eitp_context *context, int (*poll)(void *user), void *user) {
    if (!context)
        return;
    context->poll.ask = poll;
    context->poll.user = user;
}

EITP__PRIVATE eitp_status eitp__context_poll(const eitp_context *context, eitp_error *error) {
    return eitp__poll_ask(&context->poll) ? eitp__fail_interrupted(error) : EITP_OK;
}

eitp_parameter_form eitp_context_parameters(const eitp_context *context) {
    return context ? context->parameters : EITP_PARAMETERS_ROUNDED;
}

eitp_offload eitp_context_offload(const eitp_context *context) {
    return context ? context->offload : EITP_OFFLOAD_NONE;
}

EITP__PRIVATE size_t eitp__device_share(const eitp_context *context, size_t part) {
    uint64_t available, total;
    if (!eitp__context_has_device_memory(context) ||
        context->backend->interface->memory(context->backend, &available, &total, NULL))
        return 0;
    return (size_t)(total / part);
}

eitp_status eitp_context_device_memory(const eitp_context *context, eitp_device_memory *memory, eitp_error *error) {
    if (!context || !memory)
        return eitp__fail_null(error, "eitp_context_device_memory", "context and memory");
    const eitp__backend *backend = context->backend;
    memset(memory, 0, sizeof *memory);
    if (!eitp__context_has_device_memory(context))
        return EITP_OK;
    for (size_t i = 0; i < context->segments->count; i++)
        memory->allocated += context->segments->blocks[i].size;
    memory->allocated += context->arena.memory ? context->arena.size : 0;
    memory->is_separate = 1;
    return backend->interface->memory(backend, &memory->free, &memory->total, error);
}

uint64_t eitp_device_budget_default(const eitp_device_memory *memory, double percent) {
    if (!memory || !memory->is_separate)
        return 0;
    const uint64_t margin = (uint64_t)((double)memory->total * (1 - percent / 100));
    return memory->free > margin ? memory->free - margin : 1;
}

eitp_host eitp_context_host(const eitp_context *context) {
    eitp_host none = EITP__ZERO;
    return context ? context->host : none;
}

/* ---- The arena ---- */

/* Marks the arena's contents as lost. */
static void eitp__arena_invalidate(eitp_context *context) {
    context->arena_generation++;
    context->arena_epoch++;
}

EITP__PRIVATE void eitp__arena_release(eitp_context *context) {
    if (!context->arena.memory)
        return;
    eitp__context_finish(context);
    context->backend->interface->release(context->backend, EITP__PLACE_DEVICE, context->arena.memory,
                                         context->arena.size);
    context->released_arena = context->arena.size;
    context->arena.memory = NULL;
    context->arena.size = 0;
    eitp__arena_invalidate(context);
}

EITP__PRIVATE eitp_status eitp__arena_restore(eitp_context *context, eitp_error *error) {
    eitp_status status = eitp__arena_reserve(context, context->released_arena, error);
    if (!status)
        context->released_arena = 0;
    return status;
}

EITP__PRIVATE size_t eitp__arena_needed(const eitp_context *context) {
    return context->arena.size > context->released_arena ? context->arena.size : context->released_arena;
}

EITP__PRIVATE eitp_status eitp__arena_trim(eitp_context *context, size_t size, eitp_error *error) {
    if (context->released_arena > size)
        context->released_arena = size;
    if (size >= context->arena.size)
        return EITP_OK;
    eitp__context_finish(context);
    if (context->arena.memory)
        context->backend->interface->release(context->backend, EITP__PLACE_DEVICE, context->arena.memory,
                                             context->arena.size);
    context->arena.memory = NULL;
    context->arena.size = 0;
    eitp__arena_invalidate(context);
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
    eitp__context_finish(context);
    /* The contents need not survive, so the old arena is released first: the two are never allocated at the same
       time. */
    if (context->arena.memory)
        interface->release(context->backend, EITP__PLACE_DEVICE, context->arena.memory, old);
    context->arena.memory = interface->allocate(context->backend, EITP__PLACE_DEVICE, size);
    context->arena.size = context->arena.memory ? size : 0;
    eitp__arena_invalidate(context);
    if (context->arena.memory)
        return EITP_OK;
    if (old) {
        /* Existing plans must remain usable. */
        context->arena.memory = interface->allocate(context->backend, EITP__PLACE_DEVICE, old);
        context->arena.size = context->arena.memory ? old : 0;
    }
    return eitp__fail_memory(error, size, "the arena of activations");
}

size_t eitp_context_arena_bytes(const eitp_context *context) {
    return context ? context->arena.size : 0;
}

eitp_status eitp_context_measure(eitp_context *context, eitp_limits *limits, eitp_error *error) {
    if (!context || !limits)
        return eitp__fail_null(error, "eitp_context_measure", "context and limits");
    const eitp__backend_interface *interface = context->backend->interface;
    eitp__backend_limits measured = EITP__ZERO;
    eitp_status status;
    if (!interface->measure)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "device '%s' does not report its limits; use device 'cpu'",
                          interface->name);
    status = interface->measure(context->backend, &measured, error);
    if (status)
        return status;
    memcpy(limits->flops, measured.flops, sizeof limits->flops);
    limits->read = measured.read;
    limits->write = measured.write;
    limits->update = measured.update;
    return EITP_OK;
}
