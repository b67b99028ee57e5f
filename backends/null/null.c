/*
 * The null backend: allocates, supports everything, computes nothing and counts calls. For tests of the API and of
 * failures.
 */
#include "backends/backend.h"

#include "base/memory.h"

typedef struct eitp__null {
    eitp__backend base;
    uint64_t calls;
} eitp__null;

static eitp_status eitp__null_create(const eitp_host *host, const eitp__backend_config *config, eitp__backend **backend,
                                     eitp_error *error) {
    eitp__null *null_backend = (eitp__null *)eitp__allocate(host, sizeof *null_backend);
    (void)config;
    if (!null_backend)
        return eitp__fail_memory(error, sizeof *null_backend, "the null backend");
    null_backend->base.interface = eitp__null_backend();
    null_backend->base.host = *host;
    *backend = &null_backend->base;
    return EITP_OK;
}

static void eitp__null_destroy(eitp__backend *backend) {
    eitp_host host = backend->host;
    eitp__release(&host, backend, sizeof(eitp__null));
}

static void eitp__null_describe(const eitp__backend *backend, char *text, size_t size) {
    (void)backend;
    snprintf(text, size, "null, computes nothing");
}

static eitp_dtype eitp__null_preferred_precision(const eitp__backend *backend) {
    (void)backend;
    return EITP_F32;
}

static int eitp__null_sum_group(const eitp__backend *backend, eitp_dtype dtype) {
    (void)backend;
    (void)dtype;
    return 1;
}

static int eitp__null_tile_rows(const eitp__backend *backend, eitp_dtype dtype) {
    (void)backend;
    (void)dtype;
    return 1;
}

static double eitp__null_seconds(const eitp__backend *backend, const eitp__call *call, double flops, double bytes) {
    (void)backend, (void)call;
    return flops / 1e11 + bytes / 1e10;
}

static int eitp__null_supports(const eitp__backend *backend, const eitp__call *call) {
    (void)backend, (void)call;
    return 1;
}

static void *eitp__null_allocate(eitp__backend *backend, eitp__place place, size_t size) {
    (void)place;
    return eitp__allocate(&backend->host, size);
}

static void eitp__null_release(eitp__backend *backend, eitp__place place, void *memory, size_t size) {
    (void)place;
    eitp__release(&backend->host, memory, size);
}

static eitp_status eitp__null_copy(eitp__backend *backend, void *target, const void *source, size_t size,
                                   eitp_error *error) {
    (void)backend;
    (void)error;
    memcpy(target, source, size);
    return EITP_OK;
}

static size_t eitp__null_workspace(const eitp__backend *backend, const eitp__call *call) {
    (void)backend;
    (void)call;
    return 0;
}

/* Nothing to prepare. */
static eitp_status eitp__null_prepare(eitp__backend *backend, const eitp__program_info *info, eitp__program **program,
                                      eitp_error *error) {
    (void)backend, (void)info, (void)error;
    *program = NULL;
    return EITP_OK;
}

static void eitp__null_discard(eitp__backend *backend, eitp__program *program) {
    (void)backend, (void)program;
}

static eitp_status eitp__null_execute(eitp__backend *backend, eitp__program *program, size_t first, size_t end,
                                      const eitp__poll *poll, size_t stoppable, size_t *begun, eitp_error *error) {
    (void)program;
    for (*begun = first; *begun < end; ++*begun) {
        if (*begun < stoppable && eitp__poll_ask(poll))
            return eitp__fail_interrupted(error);
        ((eitp__null *)backend)->calls++;
    }
    return EITP_OK;
}

static eitp_status eitp__null_wait(eitp__backend *backend, eitp_error *error) {
    (void)backend, (void)error;
    return EITP_OK;
}

EITP__PRIVATE const eitp__backend_interface *eitp__null_backend(void) {
    static const eitp__backend_interface interface = {
        EITP__BACKEND_API_VERSION,
        "null",
        1,
        EITP__HEAD_BLOCK,
        1,
        eitp__null_create,
        eitp__null_destroy,
        eitp__null_describe,
        eitp__null_describe,
        eitp__null_preferred_precision,
        eitp__null_seconds,
        eitp__null_sum_group,
        eitp__null_tile_rows,
        eitp__null_supports,
        NULL,
        NULL,
        eitp__null_allocate,
        eitp__null_release,
        eitp__null_copy,
        eitp__null_copy,
        eitp__null_workspace,
        eitp__null_prepare,
        eitp__null_discard,
        eitp__null_execute,
        eitp__null_wait,
        NULL,
        NULL,
    };
    return &interface;
}

EITP__PRIVATE uint64_t eitp__null_backend_calls(const eitp__backend *backend) {
    return ((const eitp__null *)(const void *)backend)->calls;
}
