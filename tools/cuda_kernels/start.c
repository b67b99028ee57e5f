/* The first and the second start of a training run: the kernels that its step needs, and the time to get them. */
#include "cuda_kernels.h"

static void print_line(void *user, eitp_log_level level, const char *message) {
    (void)user;
    if (level > EITP_LOG_DEBUG)
        printf("%s\n", message);
}

eitp_host printing_host(void) {
    eitp_host host = eitp_host_default();
    host.log.write = print_line;
    return host;
}

void print_start(const processor *p, const char *folder) {
    needed_images *needed = needed_create();
    const char *products = getenv("EITP_CUDA_PRODUCTS");
    const eitp_host host = printing_host();
    planned_step step = EITP__ZERO;
    eitp__cuda_compiler compiler;
    step.shape = "gpt2";
    step.precision = "bf16";
    step.samples = 16;
    step.tokens = 1024;
    step.device = processor_device(p);
    need_step(needed, &step, products && !strcmp(products, "own"));
    open_compiler(&compiler, &host, p);
    setenv("XDG_CACHE_HOME", folder, 1);
    for (int start = 0; start < 2; start++) {
        needed_get(needed, &compiler, &host);
        needed_release(needed);
    }
    free(needed);
}
