#include "backends/backend.h"

#include "base/log.h"

/* In order of preference; the null backend is never chosen automatically. */
static const eitp__backend_interface *(*const eitp__backends[])(void) = {
    eitp__cpu_backend,
    eitp__null_backend,
#if EITP__WITH_CUDA
    eitp__cuda_backend,
#endif
#ifdef EITP__WITH_TEST_BACKEND
    eitp__test_backend,
#endif
};

/* The devices that "auto" tries, in this order. The CUDA backend has never run on a GPU, so it must be named
   explicitly. */
#define EITP__AUTO_DEVICES "cpu"

/* Splits a name such as "cuda:1". Returns the length of the part before the colon, or -1 if the number is invalid. */
static int eitp__parse_device(const char *name, int *ordinal) {
    const char *colon = strchr(name, ':');
    char *end;
    long number;
    *ordinal = 0;
    if (!colon)
        return (int)strlen(name);
    number = strtol(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end || number > 255 || strncmp(name, "cuda:", 5) != 0)
        return -1;
    *ordinal = (int)number;
    return (int)(colon - name);
}

static const eitp__backend_interface *eitp__find_backend(const char *name, int length) {
    for (size_t i = 0; i < EITP__COUNT(eitp__backends); i++) {
        const eitp__backend_interface *interface = eitp__backends[i]();
        if (length >= 0 && !strncmp(interface->name, name, (size_t)length) && !interface->name[length])
            return interface;
    }
    return NULL;
}

static eitp_status eitp__create_named(const eitp_host *host, const char *name, const eitp__backend_config *config,
                                      eitp__backend **backend, eitp_error *error) {
    eitp__backend_config chosen = *config;
    const char *kind = !strcmp(name, "gpu") ? "cuda" : name;
    const int length = eitp__parse_device(kind, &chosen.ordinal);
    const eitp__backend_interface *interface = eitp__find_backend(kind, length);
    if (!interface && !EITP__WITH_CUDA && !strncmp(kind, "cuda", 4))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "device '%s' is not available: this program was built with EITP_WITHOUT_CUDA; use device "
                          "'cpu'",
                          name);
    if (!interface)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown device '%s' (choose from auto, cpu, cuda, cuda:1, null)",
                          name);
    if (interface->api_version != EITP__BACKEND_API_VERSION)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "device '%s' was built for version %u of the backend contract, but this is version %d; "
                          "build both from the same source",
                          name, (unsigned)interface->api_version, EITP__BACKEND_API_VERSION);
    return interface->create(host, &chosen, backend, error);
}

/* Copies the first of several comma-separated names. Returns the rest, or NULL after the last. */
static const char *eitp__next_device(const char *names, char *name, size_t size) {
    const size_t length = strcspn(names, ",");
    snprintf(name, size, "%.*s", (int)length, names);
    return names[length] ? names + length + 1 : NULL;
}

/* Returns the names that a device stands for: those that "auto" tries, or itself. */
static const char *eitp__device_names(const char *device, int *automatic) {
    const char *names = device && *device && strcmp(device, "auto") ? device : getenv("EITP_BACKEND");
    *automatic = !names || !*names || !strcmp(names, "auto");
    return *automatic ? EITP__AUTO_DEVICES : names;
}

EITP__PRIVATE int eitp__backend_may_have_memory(const char *device) {
    int automatic, ordinal;
    const char *names = eitp__device_names(device, &automatic);
    char name[64];
    while (names) {
        const eitp__backend_interface *interface;
        names = eitp__next_device(names, name, sizeof name);
        interface = eitp__find_backend(name, eitp__parse_device(name, &ordinal));
        if (interface && !interface->is_host_memory)
            return 1;
    }
    return 0;
}

EITP__PRIVATE eitp_status eitp__backend_create(const eitp_host *host, const char *device,
                                               const eitp__backend_config *config, eitp__backend **backend,
                                               eitp_error *error) {
    int automatic;
    const char *names = eitp__device_names(device, &automatic);
    char name[64], description[200];
    eitp_error reason;
    eitp_status status;
    *backend = NULL;
    for (;;) {
        names = eitp__next_device(names, name, sizeof name);
        status = eitp__create_named(host, name, config, backend, &reason);
        if (!status || status == EITP_ERROR_ARGUMENT || !names)
            break;
        eitp__log_line(host, EITP_LOG_INFO, "not using device %s: %s", name, reason.message);
    }
    if (status) {
        if (error)
            *error = reason;
        return status;
    }
    (*backend)->interface->describe(*backend, description, sizeof description);
    eitp__log_line(host, EITP_LOG_DEBUG, "device %s: %s", automatic ? "auto" : name, description);
    return EITP_OK;
}
