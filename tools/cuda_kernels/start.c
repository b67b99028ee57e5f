/* The first and the second start of a training run: the kernels that its step needs, and the time to get them. */
#include "cuda_kernels.h"

#include <time.h>

enum { MOST_IMAGES = 256 };

/* The images of the kernels of a step. */
typedef struct needed_images {
    eitp__cuda_image images[MOST_IMAGES];
    char definitions[MOST_IMAGES][EITP__CUDA_DEFINITIONS];
    int count;
} needed_images;

static void need_kernel(needed_images *needed, const cuda_launch *launch, const eitp__call *call) {
    char definitions[EITP__CUDA_DEFINITIONS];
    eitp__kernel_source *source;
    int i = 0;
    eitp__cuda_definitions(launch->kernels, call, definitions);
    for (; i < needed->count; i++) {
        source = &needed->images[i].source;
        if (!strcmp(source->kernel, launch->stage->kernel) && !strcmp(source->file, launch->kernels->file) &&
            !strcmp(source->definitions, definitions))
            return;
    }
    if (needed->count++ == MOST_IMAGES)
        stop("more than %d kernels", MOST_IMAGES);
    snprintf(needed->definitions[i], sizeof needed->definitions[i], "%s", definitions);
    source = &needed->images[i].source;
    source->file = launch->kernels->file;
    source->definitions = needed->definitions[i];
    source->kernel = launch->stage->kernel;
}

static void need_step(void *user, const eitp_plan *plan, size_t s) {
    eitp__cuda *cuda = eitp__cuda_of(plan->context->backend);
    const char *products = getenv("EITP_CUDA_PRODUCTS");
    cuda_part parts[CUDA_MOST_PARTS + 1];
    cuda_launch launches[CUDA_MOST_LAUNCHES];
    int count;
    if (products && !strcmp(products, "own"))
        cuda->blas.version = 0;
    count = cuda_parts_of(cuda, &plan->calls[s], NULL, parts);
    count += cuda_joint_of(cuda, plan, s, &parts[count]) > 0;
    for (int p = 0; p < count; p++)
        for (int i = 0, launched = cuda_launches_of(&parts[p], launches); i < launched; i++)
            if (launches[i].kernels)
                need_kernel((needed_images *)user, &launches[i], &parts[p].call);
}

static void print_line(void *user, eitp_log_level level, const char *message) {
    (void)user;
    if (level > EITP_LOG_DEBUG)
        printf("%s\n", message);
}

/* Gets all images, as a run does when it starts. */
static void get_images(needed_images *needed, const eitp__cuda_compiler *compiler, const eitp_host *host, int threads) {
    const double began = eitp__clock();
    const clock_t used = clock();
    size_t bytes = 0;
    eitp__cuda_cache cache;
    eitp_error error = EITP__ZERO;
    eitp__cuda_cache_open(&cache, host);
    for (int i = 0; i < needed->count; i++) {
        eitp__buffer_init(&needed->images[i].data, host);
        needed->images[i].key = eitp__cuda_compile_key(compiler, &needed->images[i].source);
    }
    if (eitp__cuda_images_get(compiler, &cache, needed->images, (size_t)needed->count, threads, NULL, &error))
        stop("%s", error.message);
    for (int i = 0; i < needed->count; i++) {
        bytes += needed->images[i].data.size;
        eitp__buffer_release(&needed->images[i].data);
    }
    printf("%d kernels, %.1f MB: %.3f s, %.3f s of processors\n", needed->count, (double)bytes / 1e6,
           eitp__clock() - began, (double)(clock() - used) / CLOCKS_PER_SEC);
}

void print_start(const processor *p, const char *folder) {
    needed_images *needed = (needed_images *)calloc(1, sizeof *needed);
    planned_step step = EITP__ZERO;
    eitp_host host = eitp_host_default();
    eitp_processor_info processors;
    eitp__cuda_compiler compiler;
    eitp_error error = EITP__ZERO;
    if (!needed || eitp_processor_info_read(&host, &processors, &error))
        stop("out of memory");
    step.shape = "gpt2";
    step.precision = "bf16";
    step.samples = 16;
    step.tokens = 1024;
    step.device = processor_device(p);
    visit_planned_step(&step, need_step, needed);
    host.log.write = print_line;
    open_compiler(&compiler, &host, p);
    setenv("XDG_CACHE_HOME", folder, 1);
    for (int start = 0; start < 2; start++)
        get_images(needed, &compiler, &host, processors.usable);
    free(needed);
}
