/* The kernels that plans and modules need, each compiled alone. */
#include "cuda_kernels.h"

#include <time.h>

needed_images *needed_create(void) {
    needed_images *needed = (needed_images *)calloc(1, sizeof *needed);
    if (!needed)
        stop("out of memory");
    return needed;
}

static void need_kernel(needed_images *needed, const char *file, const char *definitions, const char *kernel) {
    eitp__kernel_source *source;
    int i = 0;
    for (; i < needed->count; i++) {
        source = &needed->images[i].source;
        if (!strcmp(source->kernel, kernel) && !strcmp(source->file, file) && !strcmp(source->definitions, definitions))
            return;
    }
    if (needed->count++ == MOST_IMAGES)
        stop("more than %d kernels", MOST_IMAGES);
    snprintf(needed->definitions[i], sizeof needed->definitions[i], "%s", definitions);
    source = &needed->images[i].source;
    source->file = file;
    source->definitions = needed->definitions[i];
    source->kernel = kernel;
}

static void need_step_of_plan(void *user, const eitp_plan *plan, size_t s) {
    needed_images *needed = (needed_images *)user;
    eitp__cuda *cuda = eitp__cuda_of(plan->context->backend);
    cuda_part parts[CUDA_MOST_PARTS + 1];
    cuda_launch launches[CUDA_MOST_LAUNCHES];
    char definitions[EITP__CUDA_DEFINITIONS];
    int count;
    count = cuda_parts_of(cuda, &plan->calls[s], NULL, parts);
    count += cuda_fused_of(cuda, plan, s, &parts[count]) > 0;
    for (int p = 0; p < count; p++)
        for (int i = 0, launched = cuda_launches_of(&parts[p], launches); i < launched; i++) {
            if (!launches[i].kernels)
                continue;
            eitp__cuda_definitions(launches[i].kernels, &parts[p].call, definitions);
            need_kernel(needed, launches[i].kernels->file, definitions, launches[i].stage->kernel);
        }
}

void need_step(needed_images *needed, const planned_step *step, int is_own) {
    planned_step chosen = *step;
    chosen.has_own_products = is_own;
    visit_planned_step(&chosen, need_step_of_plan, needed);
}

void need_listed(needed_images *needed, const char *path) {
    char line[512], kernel[128], file[128];
    FILE *list = fopen(path, "r");
    if (!list)
        stop("cannot open %s", path);
    while (fgets(line, sizeof line, list)) {
        int at = 0;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%127s %127s %n", kernel, file, &at) != 2 || !at)
            stop("%s: not a kernel, its file and its definitions: %s", path, line);
        need_kernel(needed, strdup(file), line + at, strdup(kernel));
    }
    fclose(list);
}

void need_modules(needed_images *needed, const module_list *list) {
    for (int m = 0; m < list->count; m++) {
        const kernel_module *module = &list->modules[m];
        for (int i = 0; i < module->launch_count; i++)
            need_kernel(needed, module->file, module->definitions, module->launches[i].kernel);
    }
}

void needed_get(needed_images *needed, const eitp__cuda_compiler *compiler, const eitp_host *host) {
    const double began = eitp__clock();
    const clock_t used = clock();
    size_t bytes = 0;
    eitp__cuda_cache cache;
    eitp_processor_info processors;
    eitp_error error = EITP__ZERO;
    if (eitp_processor_info_read(host, &processors, &error))
        stop("%s", error.message);
    eitp__cuda_cache_open(&cache, host);
    for (int i = 0; i < needed->count; i++) {
        eitp__buffer_init(&needed->images[i].data, host);
        needed->images[i].key = eitp__cuda_compile_key(compiler, &needed->images[i].source);
    }
    if (eitp__cuda_images_get(compiler, &cache, needed->images, (size_t)needed->count, processors.usable, NULL, &error))
        stop("%s", error.message);
    for (int i = 0; i < needed->count; i++)
        bytes += needed->images[i].data.size;
    printf("%d kernels, %.1f MB: %.3f s, %.3f s of processors\n", needed->count, (double)bytes / 1e6,
           eitp__clock() - began, (double)(clock() - used) / CLOCKS_PER_SEC);
}

void needed_release(needed_images *needed) {
    for (int i = 0; i < needed->count; i++)
        eitp__buffer_release(&needed->images[i].data);
}
