/* Lists the modules, and checks that the calls in calls.c reach all of them. */
#include "cuda_kernels.h"

/* ---- Entries that a processor cannot use ---- */

static int is_before_sm_80(const processor *p) {
    return p->capability < 80;
}

static int is_from_sm_80(const processor *p) {
    return !is_before_sm_80(p);
}

static int is_any(const processor *p) {
    return p != NULL;
}

/* True if two blocks of attention fit with two buffers each, for heads of any width. */
static int has_room(const processor *p) {
    return p->block_shared >= 163 * 1024;
}

/* Entries of a file for some slots and dtypes, whose definitions contain a word. */
typedef struct unused_entry {
    const char *file, *word;
    eitp__slot slot; /* EITP__SLOT_COUNT: all */
    unsigned dtypes;
    int (*is_unused)(const processor *p);
} unused_entry;

static const unused_entry unused_entries[] = {
    /* Tensor cores support F16 on every processor, and BF16 since sm_80. */
    {"kernels/cuda/products.cu", "", EITP__SLOT_COUNT, EITP__CUDA_DTYPE(EITP_BF16), is_before_sm_80},
    {"kernels/cuda/attention.cu", "", EITP__SLOT_COUNT, EITP__CUDA_DTYPE(EITP_BF16), is_before_sm_80},
    {"kernels/cuda/products_fma.cu", "", EITP__SLOT_COUNT, EITP__CUDA_DTYPE(EITP_BF16), is_from_sm_80},
    {"kernels/cuda/products_fma.cu", "", EITP__SLOT_COUNT, EITP__CUDA_DTYPE(EITP_F16), is_any},
    /* Copies bypass registers since sm_80. */
    {"kernels/cuda/products.cu", "SHIFTED=0", EITP__SLOT_COUNT, EITP__CUDA_HALVES, is_before_sm_80},
    {"kernels/cuda/attention.cu", "BUFFERS=2", EITP__SLOT_COUNT, EITP__CUDA_HALVES, is_before_sm_80},
    {"kernels/cuda/attention.cu", "BUFFERS=1", EITP__SLOT_COUNT, EITP__CUDA_HALVES, has_room},
};

/* The definitions of an entry for one of the calls of its slot. */
typedef struct any_definitions {
    const reached_entry *entry;
    char text[EITP__CUDA_DEFINITIONS];
} any_definitions;

static void define_any(void *user, const eitp__call *call) {
    any_definitions *any = (any_definitions *)user;
    if (call->slot == any->entry->kernels->slot && call->dtype == any->entry->dtype)
        eitp__cuda_definitions(any->entry->kernels, call, any->text);
}

static int is_unused(const reached_entry *entry, const processor *p) {
    any_definitions any = EITP__ZERO;
    any.entry = entry;
    visit_calls(define_any, &any);
    for (size_t i = 0; i < EITP__COUNT(unused_entries); i++) {
        const unused_entry *unused = &unused_entries[i];
        if (!strcmp(unused->file, entry->kernels->file) && strstr(any.text, unused->word) &&
            (unused->slot == EITP__SLOT_COUNT || unused->slot == entry->kernels->slot) &&
            unused->dtypes & EITP__CUDA_DTYPE(entry->dtype) && unused->is_unused(p))
            return 1;
    }
    return 0;
}

/* ---- The list ---- */

/* "rows-SCALAR=0": file names have no spaces. */
static void name_module(kernel_module *module) {
    const char *file = strrchr(module->file, '/') + 1;
    snprintf(module->name, sizeof module->name, "%.*s-%s", (int)strcspn(file, "."), file, module->definitions);
    for (char *at = module->name; *at; at++)
        if (*at == ' ')
            *at = '-';
}

static kernel_module *find_module(module_list *list, const char *file, const char *definitions) {
    kernel_module *module = list->modules;
    for (int i = 0; i < list->count; i++, module++)
        if (!strcmp(module->file, file) && !strcmp(module->definitions, definitions))
            return module;
    if (list->count++ == MOST_MODULES)
        stop("more than %d modules", MOST_MODULES);
    module->file = file;
    snprintf(module->definitions, sizeof module->definitions, "%s", definitions);
    name_module(module);
    return module;
}

static void add_launch(kernel_module *module, const eitp__cuda_stage *stage, const eitp__call *call) {
    const size_t shared = stage->shared ? stage->shared(call) : 0;
    kernel_launch *launch = module->launches;
    int i = 0;
    for (; i < module->launch_count && strcmp(launch->kernel, stage->kernel); i++)
        launch++;
    if (i == MOST_LAUNCHES)
        stop("more than %d kernels in %s", MOST_LAUNCHES, module->file);
    module->launch_count += i == module->launch_count;
    launch->kernel = stage->kernel;
    launch->threads = stage->threads > launch->threads ? stage->threads : launch->threads;
    launch->shared = shared > launch->shared ? shared : launch->shared;
}

static void add_module(module_list *list, reached_entry *entry, const eitp__call *call) {
    char definitions[EITP__CUDA_DEFINITIONS];
    kernel_module *module;
    eitp__cuda_definitions(entry->kernels, call, definitions);
    module = find_module(list, entry->kernels->file, definitions);
    for (int s = 0; s < EITP__CUDA_STAGES && entry->kernels->stages[s].kernel; s++)
        if (!entry->kernels->define || entry->kernels->stages[s].blocks(call) > 0)
            add_launch(module, &entry->kernels->stages[s], call);
    entry->is_reached = 1;
}

/* Entries whose files depend only on the dtype need no shapes. */
static void add_plain_entry(module_list *list, reached_entry *entry) {
    eitp__call call = EITP__ZERO;
    call.slot = entry->kernels->slot;
    call.dtype = entry->dtype;
    add_module(list, entry, &call);
}

static void add_entries(module_list *list, const eitp__cuda_kernels *kernels) {
    for (int dtype = 0; dtype < EITP_DTYPE_COUNT; dtype++) {
        reached_entry *entry = &list->entries[list->entry_count];
        if (!(kernels->dtypes & EITP__CUDA_DTYPE(dtype)))
            continue;
        if (list->entry_count++ == MOST_ENTRIES)
            stop("more than %d entries", MOST_ENTRIES);
        entry->kernels = kernels;
        entry->dtype = (eitp_dtype)dtype;
        if (!kernels->define)
            add_plain_entry(list, entry);
    }
}

static void add_call(void *user, const eitp__call *call) {
    module_list *list = (module_list *)user;
    const eitp__cuda_kernels *kernels = eitp__cuda_find(call, &list->device);
    for (int i = 0; kernels && i < list->entry_count; i++)
        if (list->entries[i].kernels == kernels && list->entries[i].dtype == call->dtype)
            add_module(list, &list->entries[i], call);
}

static void check_entries(const module_list *list) {
    int faults = 0;
    for (int i = 0; i < list->entry_count; i++) {
        const reached_entry *entry = &list->entries[i];
        const int unused = entry->kernels->define && is_unused(entry, list->processor);
        if (entry->is_reached != unused)
            continue;
        fprintf(stderr, "FAULT %s: %s in %s is %s on sm_%d\n", entry->kernels->file,
                eitp__slot_name(entry->kernels->slot), eitp_dtype_name(entry->dtype),
                unused ? "reached, although modules.c lists it as unused"
                       : "not reached by any call of tools/cuda_kernels/calls.c",
                list->processor->capability);
        faults++;
    }
    if (faults)
        stop("the list of modules is incomplete");
}

module_list *modules_create(const processor *p) {
    module_list *list = (module_list *)calloc(1, sizeof *list);
    eitp__cuda_list kernels;
    if (!list)
        stop("out of memory");
    list->processor = p;
    list->device = processor_device(p);
    for (size_t i = 0; eitp__cuda_list_at(i, &kernels); i++)
        for (size_t k = 0; k < kernels.count; k++)
            add_entries(list, &kernels.kernels[k]);
    kernels = eitp__cuda_blas_kernels();
    for (size_t k = 0; k < kernels.count; k++)
        add_entries(list, &kernels.kernels[k]);
    visit_calls(add_call, list);
    check_entries(list);
    return list;
}

int is_chosen(const kernel_module *module, const char *only) {
    return strstr(module->name, only) != NULL;
}
