/*
 * Modules of the emulated device, which are shared libraries (emulated_launch.h), and the launch of their kernels. A
 * function remains known after its module was unloaded, so that launching it is detected.
 */
#include "tests/cuda/driver.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <unistd.h>

/* ---- Modules ---- */

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Returns the size of a library according to its headers, or 0 if it is not a library. */
static size_t image_size(const unsigned char *image) {
    Elf64_Ehdr header;
    size_t size = sizeof header;
    if (memcmp(image, ELFMAG, SELFMAG) || image[EI_CLASS] != ELFCLASS64)
        return 0;
    memcpy(&header, image, sizeof header);
    size = larger(size, header.e_phoff + (size_t)header.e_phnum * header.e_phentsize);
    size = larger(size, header.e_shoff + (size_t)header.e_shnum * header.e_shentsize);
    for (unsigned i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr part;
        memcpy(&part, image + header.e_phoff + i * header.e_phentsize, sizeof part);
        size = larger(size, part.p_offset + part.p_filesz);
    }
    for (unsigned i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr part;
        memcpy(&part, image + header.e_shoff + i * header.e_shentsize, sizeof part);
        if (part.sh_type != SHT_NOBITS)
            size = larger(size, part.sh_offset + part.sh_size);
    }
    return size;
}

/* The loader treats files of the same name as one library, so each gets a unique name. */
static void *open_library(const unsigned char *image, size_t size) {
    const char *folder = getenv("TMPDIR");
    char path[PATH_MAX];
    void *library = NULL;
    size_t written = 0;
    int file;
    snprintf(path, sizeof path, "%s/emulated-cuda-module-XXXXXX", folder && *folder ? folder : "/tmp");
    file = mkstemp(path);
    if (file < 0)
        refuse("no file can be made in %s", folder && *folder ? folder : "/tmp");
    while (written < size) {
        const ssize_t count = write(file, image + written, size - written);
        if (count <= 0)
            refuse("%s cannot be written", path);
        written += (size_t)count;
    }
    close(file);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fprintf(stderr, "emulated cuda: a module cannot be loaded: %s\n", dlerror());
    unlink(path);
    return library;
}

static CUresult load(CUmodule *module, const void *image) {
    CUmodule created;
    void *library;
    size_t size;
    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    size = driver.is_listing ? 0 : image_size((const unsigned char *)image);
    library = size ? open_library((const unsigned char *)image, size) : NULL;
    if (!library && !driver.is_listing)
        return CUDA_ERROR_INVALID_IMAGE;
    created = (CUmodule)need_memory(calloc(1, sizeof *created));
    add_object(&created->base, MODULE);
    created->library = library;
    *module = created;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    CALL(CONTEXT | UNSAFE, load(module, image));
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values) {
    CALL(CONTEXT | UNSAFE, count && (!options || !values) ? CUDA_ERROR_INVALID_VALUE : load(module, image));
}

static int uses_module(const operation *queued, const void *what) {
    return queued->function && queued->function->module == (const struct CUmod_st *)what;
}

static CUresult unload(CUmodule module) {
    const CUresult error = check_object(module, MODULE);
    if (error)
        return error;
    if (find_queued(uses_module, module))
        refuse("a module is unloaded whose kernels are queued");
    for (object *o = driver.objects; o; o = o->next) {
        if (o->kind == FUNCTION && !o->is_destroyed && ((CUfunction)(void *)o)->module == module)
            destroy_object(o);
    }
    destroy_object(&module->base);
    if (module->library)
        dlclose(module->library);
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
    CALL(CONTEXT | UNSAFE | ACTS_ALWAYS, unload(module));
}

/* ---- Functions ---- */

static CUfunction find_function(CUmodule module, const char *name) {
    for (object *o = driver.objects; o; o = o->next) {
        const CUfunction function = (CUfunction)(void *)o;
        if (o->kind == FUNCTION && !o->is_destroyed && function->module == module && !strcmp(function->name, name))
            return function;
    }
    return NULL;
}

static CUresult get_function(CUfunction *function, CUmodule module, const char *name) {
    const CUresult error = check_object(module, MODULE);
    char size_name[160];
    void *kernel, *size;
    CUfunction created;
    if (error)
        return error;
    if (!function || !name || !*name || strlen(name) >= sizeof created->name)
        return CUDA_ERROR_INVALID_VALUE;
    *function = find_function(module, name);
    if (*function)
        return CUDA_SUCCESS;
    snprintf(size_name, sizeof size_name, "%s_arguments", name);
    kernel = module->library ? dlsym(module->library, name) : NULL;
    size = module->library ? dlsym(module->library, size_name) : NULL;
    if ((!kernel || !size) && !driver.is_listing)
        return CUDA_ERROR_NOT_FOUND;
    created = (CUfunction)need_memory(calloc(1, sizeof *created));
    add_object(&created->base, FUNCTION);
    created->module = module;
    memcpy(&created->kernel, &kernel, sizeof kernel);
    if (size)
        memcpy(&created->argument_size, size, sizeof created->argument_size);
    created->most_shared = USUAL_SHARED;
    snprintf(created->name, sizeof created->name, "%s", name);
    *function = created;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    CALL(CONTEXT, get_function(function, module, name));
}

static CUresult load_function(CUfunction function) {
    const CUresult error = check_object(function, FUNCTION);
    if (!error)
        function->is_loaded = 1;
    return error;
}

CUresult cuFuncLoad(CUfunction function) {
    CALL(CONTEXT | UNSAFE, load_function(function));
}

static CUresult set_attribute(CUfunction function, CUfunction_attribute attribute, int value) {
    const CUresult error = check_object(function, FUNCTION);
    if (error)
        return error;
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value >= 0 && value <= most_shared()) {
        function->most_shared = value;
        return CUDA_SUCCESS;
    }
    return attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT && value >= -1 && value <= 100
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    CALL(CONTEXT, set_attribute(function, attribute, value));
}

static CUresult get_attribute(int *value, CUfunction_attribute attribute, CUfunction function) {
    const CUresult error = check_object(function, FUNCTION);
    if (error)
        return error;
    if (!value || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *value = 0;
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
        *value = 1024;
    else if (attribute == CU_FUNC_ATTRIBUTE_NUM_REGS)
        *value = 32;
    else if (attribute == CU_FUNC_ATTRIBUTE_PTX_VERSION || attribute == CU_FUNC_ATTRIBUTE_BINARY_VERSION)
        *value = driver.capability;
    else if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        *value = function->most_shared;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
    CALL(CONTEXT, get_attribute(value, attribute, function));
}

/* ---- Launches ---- */

/* Each address in the arguments stands for its allocation, so that freeing memory under a queued kernel is detected. */
static void find_spans(operation *launched, size_t size) {
    const CUcontext context = launched->context;
    launched->spans = (emulated_span *)need_memory(calloc(size / 8 + 1, sizeof *launched->spans));
    for (size_t at = 0; at + 8 <= size; at += 8) {
        const emulated_range *range;
        uint64_t word;
        memcpy(&word, (const char *)launched->arguments + at, 8);
        range = find_range(context, word);
        if (!range)
            continue;
        launched->spans[launched->span_count].begin = range->begin;
        launched->spans[launched->span_count++].size = range->size;
    }
}

static int is_launchable(const operation *launched) {
    const unsigned *grid = launched->grid, *block = launched->block;
    return grid[0] && grid[1] && grid[2] && block[0] && block[1] && block[2] && grid[0] <= INT_MAX &&
           grid[1] <= 65535 && grid[2] <= 65535 && block[0] <= 1024 && block[1] <= 1024 && block[2] <= 64 &&
           block[0] * block[1] * block[2] <= 1024 && launched->shared <= (unsigned)launched->function->most_shared;
}

static CUresult launch(const operation *wanted, CUstream stream, void **parameters, void **extra) {
    CUresult error = check_object(wanted->function, FUNCTION);
    operation *launched;
    size_t size;
    if (!error)
        error = check_stream(stream);
    if (!error)
        error = forbid_loading(stream, wanted->function->is_loaded);
    if (error)
        return error;
    if (!is_launchable(wanted) || !parameters || !parameters[0] || extra)
        return CUDA_ERROR_INVALID_VALUE;
    wanted->function->is_loaded = 1;
    launched = new_operation(KERNEL);
    size = wanted->function->argument_size;
    launched->function = wanted->function;
    memcpy(launched->grid, wanted->grid, sizeof launched->grid);
    memcpy(launched->block, wanted->block, sizeof launched->block);
    launched->shared = wanted->shared;
    launched->arguments = need_memory(malloc(size + 1));
    memcpy(launched->arguments, parameters[0], size);
    find_spans(launched, size);
    return submit(stream, launched);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **parameters,
                        void **extra) {
    operation wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.function = function;
    wanted.grid[0] = grid_x, wanted.grid[1] = grid_y, wanted.grid[2] = grid_z;
    wanted.block[0] = block_x, wanted.block[1] = block_y, wanted.block[2] = block_z;
    wanted.shared = shared;
    CALL(CONTEXT, launch(&wanted, stream, parameters, extra));
}

static int is_product_loaded(uint64_t kernel) {
    const CUcontext context = current_context();
    for (int i = 0; i < context->product_count; i++) {
        if (context->products[i] == kernel)
            return 1;
    }
    return 0;
}

static void load_product(uint64_t kernel) {
    const CUcontext context = current_context();
    if (is_product_loaded(kernel))
        return;
    if (context->product_count == MOST_PRODUCTS)
        refuse("more than %d different products", MOST_PRODUCTS);
    context->products[context->product_count++] = kernel;
}

static CUresult enqueue(CUstream stream, uint64_t kernel, void (*run)(void *arguments), const void *arguments,
                        size_t size, const emulated_span *spans, size_t span_count) {
    CUresult error = check_stream(stream);
    operation *queued;
    unsigned char *written;
    if (!error)
        error = forbid_loading(stream, is_product_loaded(kernel));
    if (error)
        return error;
    load_product(kernel);
    queued = new_operation(PRODUCT);
    queued->run = run;
    queued->arguments = need_memory(malloc(size));
    memcpy(queued->arguments, arguments, size);
    queued->spans = (emulated_span *)need_memory(calloc(span_count + 1, sizeof *queued->spans));
    memcpy(queued->spans, spans, span_count * sizeof *spans);
    queued->span_count = span_count;
    for (size_t i = 0; i < span_count; i++)
        resolve(queued->context, spans[i].begin, spans[i].size, "memory of a product", &written);
    return submit(stream, queued);
}

CUresult emulated_cuda_enqueue(CUstream stream, uint64_t kernel, void (*run)(void *arguments), const void *arguments,
                               size_t size, const emulated_span *spans, size_t span_count) {
    CALL(CONTEXT, enqueue(stream, kernel, run, arguments, size, spans, span_count));
}

static void run_kernel(const operation *executed) {
    emulated_launch launched;
    if (executed->function->base.is_destroyed)
        refuse("the kernel %s is executed after its module was unloaded", executed->function->name);
    memset(&launched, 0, sizeof launched);
    launched.arguments = executed->arguments;
    memcpy(launched.grid, executed->grid, sizeof launched.grid);
    memcpy(launched.block, executed->block, sizeof launched.block);
    launched.dynamic_shared = executed->shared;
    launched.ranges = executed->context->ranges;
    launched.range_count = executed->context->range_count;
    launched.number = (uint32_t)driver.launches;
    launched.seed = ((uint64_t)draw((size_t)1 << 31) << 31) + draw((size_t)1 << 31);
    if (executed->function->kernel(&launched))
        refuse("kernel %s: %.400s", executed->function->name, launched.message);
}

void execute_kernel(operation *executed) {
    driver.launches++;
    count_launch(executed->kind == PRODUCT ? "product of cuBLASLt" : executed->function->name);
    driver.executing = executed->context;
    if (emulated_fault_strikes(&driver.late, ""))
        executed->context->failure = (CUresult)driver.late.code;
    else if (driver.is_listing)
        return;
    else if (executed->kind == PRODUCT)
        executed->run(executed->arguments);
    else
        run_kernel(executed);
}
