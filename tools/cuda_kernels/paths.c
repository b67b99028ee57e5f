/* The paths of calls in real plans, for tests/cuda/paths.sh. */
#include "cuda_kernels.h"

#include "tests/support/cuda_paths.h"

/* ---- The list ---- */

enum { MOST_PLANNED_PATHS = 1 << 12, EXAMPLE = 400 };

typedef struct planned_path {
    char path[CUDA_PATH], example[EXAMPLE];
    uint64_t hash;
    int calls;
} planned_path;

typedef struct path_list {
    planned_path *paths; /* [MOST_PLANNED_PATHS] */
    int count;
    const char *model;      /* and variant, of the current plan */
    const eitp__call *call; /* the current one */
} path_list;

static size_t describe_operand(char *text, size_t length, const eitp__operand *x) {
    if (length >= EXAMPLE)
        return length;
    length += (size_t)snprintf(text + length, EXAMPLE - length, " %s", x->elements ? eitp_dtype_name(x->dtype) : "-");
    for (int d = 0; d < x->rank && length < EXAMPLE; d++)
        length += (size_t)snprintf(text + length, EXAMPLE - length, "%c%lld", d ? 'x' : '[', (long long)x->shape[d]);
    if (x->rank && length < EXAMPLE)
        length += (size_t)snprintf(text + length, EXAMPLE - length, "]");
    return length;
}

/* "gpt2 bf16: LAYER_NORM bf16[16384x768] f32[768] f32[768] -> ..." */
static void describe_call(char text[EXAMPLE], const char *model, const eitp__call *call) {
    size_t length = (size_t)snprintf(text, EXAMPLE, "%s: %s", model, eitp__slot_name(call->slot));
    for (int i = 0; i < call->input_count; i++)
        length = describe_operand(text, length, &call->inputs[i]);
    if (length < EXAMPLE)
        length += (size_t)snprintf(text + length, EXAMPLE - length, " ->");
    for (int o = 0; o < call->output_count; o++)
        length = describe_operand(text, length, &call->outputs[o]);
}

static void add_path(void *user, const char *text) {
    path_list *list = (path_list *)user;
    const uint64_t hash = eitp__fnv1a(EITP__FNV_START, text, strlen(text));
    planned_path *path = list->paths;
    for (int i = 0; i < list->count; i++, path++)
        if (path->hash == hash && !strcmp(path->path, text)) {
            path->calls++;
            return;
        }
    if (list->count++ == MOST_PLANNED_PATHS)
        stop("more than %d paths", MOST_PLANNED_PATHS);
    snprintf(path->path, sizeof path->path, "%s", text);
    describe_call(path->example, list->model, list->call);
    path->hash = hash;
    path->calls = 1;
}

static void add_step(void *user, const eitp_plan *plan, size_t s) {
    path_list *list = (path_list *)user;
    list->call = &plan->calls[s];
    if (s == 0)
        cuda_visit_groups(eitp__cuda_of(plan->context->backend), plan, add_path, list);
    cuda_visit_paths(eitp__cuda_of(plan->context->backend), plan, s, add_path, list);
}

/* ---- Plans ---- */

/* Models. Paths do not depend on the number of layers, so there are few: the first, the last, and others. */
enum { PLANNED_LAYERS = 3 };

static const struct {
    const char *shape;
    int is_masked, samples, tokens;
    double dropout; /* usual in training */
} models[] = {
    {"gpt2", 0, 16, 1024, 0.1},
    {"bert-base", 1, 32, 512, 0.1},
    {"qwen2-0.5b", 0, 4, 1024, 0},
};

/* Variants of each model's plans. */
static const struct {
    const char *name;
    int has_own_products, drops, passes, has_little_memory;
} variants[] = {
    {"cuBLASLt", 0, 0, 1, 0},
    {"own products", 1, 0, 1, 0},
    {"own products, dropout, two passes", 1, 1, 2, 0},
    {"cuBLASLt, dropout, two passes", 0, 1, 2, 0},
    {"cuBLASLt, little memory", 0, 0, 1, 1},
    {"own products, little memory", 1, 0, 1, 1},
};

static const char *const precisions[] = {"fp32", "bf16", "fp16"};

static void add_plans(path_list *list, const processor *p, size_t m, size_t v, const char *precision) {
    char name[80];
    planned_step step = EITP__ZERO;
    snprintf(name, sizeof name, "%s %s, %s", models[m].shape, precision, variants[v].name);
    list->model = name;
    step.shape = models[m].shape;
    step.precision = precision;
    step.is_masked = models[m].is_masked;
    step.samples = models[m].samples;
    step.tokens = models[m].tokens;
    step.passes = variants[v].passes;
    step.layers = PLANNED_LAYERS;
    step.dropout = variants[v].drops ? models[m].dropout : 0;
    step.has_own_products = variants[v].has_own_products;
    step.has_little_memory = variants[v].has_little_memory;
    step.generates = !models[m].is_masked && !variants[v].drops && !variants[v].has_little_memory;
    step.device = processor_device(p);
    visit_planned_step(&step, add_step, list);
}

void print_paths(const processor *p) {
    path_list list = EITP__ZERO;
    list.paths = (planned_path *)calloc(MOST_PLANNED_PATHS, sizeof *list.paths);
    if (!list.paths)
        stop("out of memory");
    for (size_t m = 0; m < EITP__COUNT(models); m++)
        for (size_t v = 0; v < EITP__COUNT(variants); v++)
            for (size_t t = 0; t < EITP__COUNT(precisions); t++)
                add_plans(&list, p, m, v, precisions[t]);
    for (int i = 0; i < list.count; i++)
        printf("%s\t%d\t%s\n", list.paths[i].path, list.paths[i].calls, list.paths[i].example);
    free(list.paths);
}
