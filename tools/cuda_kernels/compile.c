#include "cuda_kernels.h"

/* A driver version that works with every NVRTC that the backend looks for. */
enum { NEWEST_DRIVER = 13000 };

/* NVRTC's compilation log arrives as one line of the backend's log. */
static void count_warning(void *user, eitp_log_level level, const char *message) {
    (void)level;
    ++*(int *)user;
    printf("%s\n", message);
}

static void write_file(const char *folder, const char *name, const eitp__buffer *image) {
    char path[1024];
    FILE *file;
    snprintf(path, sizeof path, "%s/%s.cubin", folder, name);
    file = fopen(path, "wb");
    if (!file || fwrite(image->data, 1, image->size, file) != image->size || fclose(file))
        stop("cannot write %s", path);
}

/* Compiles a kernel of a module alone, or all of them if `kernel` is NULL. */
static eitp_status compile_kernel(const eitp__cuda_compiler *compiler, const kernel_module *module, const char *kernel,
                                  eitp__buffer *image) {
    const eitp__kernel_source source = {module->file, module->definitions, kernel};
    eitp_error error = EITP__ZERO;
    const eitp_status status = eitp__cuda_compile(compiler, &source, image, &error);
    if (status)
        printf("%s\n", error.message);
    return status;
}

/* Compiles all kernels of a module for the report, and one alone, as the backend does. Returns 1 after errors or
   warnings. */
static int compile_module(const eitp__cuda_compiler *compiler, const eitp_host *host, const kernel_module *module,
                          const char *folder, const int *warnings) {
    const int before = *warnings;
    eitp__buffer image;
    eitp_status status;
    eitp__buffer_init(&image, host);
    status = compile_kernel(compiler, module, NULL, &image);
    if (!status) {
        write_file(folder, module->name, &image);
        eitp__buffer_clear(&image);
        status = compile_kernel(compiler, module, module->launches[0].kernel, &image);
    }
    if (status || *warnings > before)
        printf("FAULT %s: %s\n", module->name, status ? "does not compile" : "has warnings");
    eitp__buffer_release(&image);
    return status || *warnings > before;
}

void open_compiler(eitp__cuda_compiler *compiler, const eitp_host *host, const processor *p) {
    eitp_error error = EITP__ZERO;
    if (eitp__cuda_compiler_open(compiler, host, NEWEST_DRIVER, p->capability, &error))
        stop("%s", error.message);
    if (!compiler->is_native)
        stop("NVRTC %d.%d does not compile for sm_%d", compiler->major, compiler->minor, p->capability);
}

void print_compiler(const processor *p) {
    const eitp_host host = eitp_host_default();
    eitp__cuda_compiler compiler;
    open_compiler(&compiler, &host, p);
    printf("NVRTC %d.%d\n", compiler.major, compiler.minor);
}

int compile_modules(const module_list *list, const char *folder, const char *only, int part, int parts) {
    eitp_host host = eitp_host_default();
    eitp__cuda_compiler compiler;
    int warnings = 0, faults = 0, number = 0;
    host.log.user = &warnings;
    host.log.write = count_warning;
    open_compiler(&compiler, &host, list->processor);
    for (int i = 0; i < list->count; i++) {
        const kernel_module *module = &list->modules[i];
        if (is_chosen(module, only) && number++ % parts == part)
            faults += compile_module(&compiler, &host, module, folder, &warnings);
    }
    return faults;
}
