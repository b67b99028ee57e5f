/* Prepares a folder of compiled kernels (EITP_CUDA_KERNELS). */
#include "cuda_kernels.h"

/* Steps of GPT-2 124M, with 1024 tokens per sample. The number of samples changes tiles and their kernels. */
static const struct {
    const char *precision;
    int samples;
} gpt2_steps[] = {{"fp32", 4}, {"bf16", 4}, {"bf16", 16}, {"bf16", 64}};

/* The step with cuBLASLt, and with eitp's own products. */
static void need_both(needed_images *needed, planned_step step, const processor *p) {
    step.device = processor_device(p);
    for (int is_own = 0; is_own < 2; is_own++)
        need_step(needed, &step, is_own);
}

/* The steps of a model in each precision, or in one of them, with and without dropout. */
static void need_model(needed_images *needed, const char *path, const char *precision, const processor *p) {
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    const eitp_host host = eitp_host_default();
    eitp_transformer_config shape;
    eitp_error error = EITP__ZERO;
    if (eitp_transformer_config_read(&host, path, &shape, &error))
        stop("%s", error.message);
    for (size_t i = 0; i < 2 * EITP__COUNT(precisions); i++) {
        planned_step step = EITP__ZERO;
        step.shape = path;
        step.precision = precisions[i / 2];
        step.is_masked = shape.bidirectional;
        step.samples = 3;
        step.tokens = 21;
        step.dropout = i % 2 ? 0.1 : 0;
        if (!precision || !strcmp(precision, step.precision))
            need_both(needed, step, p);
    }
}

static void need_all(needed_images *needed, const processor *p) {
    module_list *list = modules_create(p);
    need_modules(needed, list);
    free(list);
    for (size_t i = 0; i < EITP__COUNT(gpt2_steps); i++) {
        planned_step step = EITP__ZERO;
        step.shape = "gpt2";
        step.precision = gpt2_steps[i].precision;
        step.samples = gpt2_steps[i].samples;
        step.tokens = 1024;
        need_both(needed, step, p);
    }
}

static void need_options(needed_images *needed, const processor *p, int count, char **options) {
    static const char word[] = "precision=", list[] = "list=";
    const char *precision = NULL;
    for (int i = 0; i < count; i++)
        if (!strcmp(options[i], "all"))
            need_all(needed, p);
        else if (!strncmp(options[i], list, sizeof list - 1))
            need_listed(needed, options[i] + sizeof list - 1);
        else if (!strncmp(options[i], word, sizeof word - 1))
            precision = options[i] + sizeof word - 1;
        else
            need_model(needed, options[i], precision, p);
    if (!needed->count)
        stop("no kernels: name a model, a list, or all");
}

static void write_prepared(const needed_images *needed, const eitp__cuda_compiler *compiler, const processor *p,
                           const char *folder) {
    const eitp_host host = eitp_host_default();
    char path[450], line[32];
    eitp__cuda_cache files = EITP__ZERO;
    eitp_error error = EITP__ZERO;
    files.host = &host;
    snprintf(files.folder, sizeof files.folder, "%s", folder);
    for (int i = 0; i < needed->count; i++) {
        const uint64_t key = eitp__cuda_prepared_key(p->capability, &needed->images[i].source);
        eitp__cuda_cache_store(&files, key, &needed->images[i].data);
        if (!eitp__cuda_cache_has(&files, key))
            stop("cannot write to %s", folder);
    }
    snprintf(path, sizeof path, "%s/" EITP__CUDA_PREPARED_COMPILER, folder);
    snprintf(line, sizeof line, "NVRTC %d.%d\n", compiler->major, compiler->minor);
    if (eitp__replace_file(&host, path, line, strlen(line), &error))
        stop("%s", error.message);
}

void prepare_kernels(const processor *p, const char *folder, int count, char **options) {
    const eitp_host host = printing_host();
    needed_images *needed = needed_create();
    eitp__cuda_compiler compiler;
    eitp_error error = EITP__ZERO;
    need_options(needed, p, count, options);
    open_compiler(&compiler, &host, p);
    if (eitp__make_directories(&host, folder, &error))
        stop("%s", error.message);
    needed_get(needed, &compiler, &host);
    write_prepared(needed, &compiler, p, folder);
    needed_release(needed);
    free(needed);
}
