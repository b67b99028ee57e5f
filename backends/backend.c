#include "backends/backend.h"

#include "base/log.h"

/* In order of preference; the null backend is never chosen automatically. */
static const eitp__backend_interface *(*const eitp__backends[])(void) = {
    eitp__cpu_backend,
    eitp__null_backend,
#ifdef EITP__WITH_TEST_BACKEND
    eitp__test_backend,
#endif
};

EITP__PRIVATE eitp_status eitp__backend_create(const eitp_host *host, const char *device,
                                               const eitp__backend_config *config, eitp__backend **backend,
                                               eitp_error *error) {
    const char *name = device && *device && strcmp(device, "auto") ? device : getenv("EITP_BACKEND");
    int automatic = !name || !*name || !strcmp(name, "auto");
    char description[200];
    *backend = NULL;
    if (automatic)
        name = "cpu";
    if (!strcmp(name, "cuda"))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "device 'cuda' is not available: this version has no CUDA backend; use device 'cpu'");
    for (size_t i = 0; i < EITP__COUNT(eitp__backends); i++) {
        const eitp__backend_interface *interface = eitp__backends[i]();
        eitp_status status;
        if (strcmp(interface->name, name))
            continue;
        if (interface->api_version != EITP__BACKEND_API_VERSION)
            return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                              "device '%s' was built for version %u of the backend contract, and this is version %d; "
                              "build both from the same source",
                              name, (unsigned)interface->api_version, EITP__BACKEND_API_VERSION);
        status = interface->create(host, config, backend, error);
        if (status)
            return status;
        interface->describe(*backend, description, sizeof description);
        eitp__log_line(host, EITP_LOG_DEBUG, "device %s: %s", automatic ? "auto" : name, description);
        return EITP_OK;
    }
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown device '%s' (choose from auto, cpu, null)", name);
}
