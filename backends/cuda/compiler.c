#include "backends/cuda/compiler.h"

#include "backends/cuda/libraries.h"
#include "base/checksum.h"
#include "base/library.h"
#include "base/log.h"

#if EITP__WITH_CUDA

#include "kernels/cuda/texts.inc"

enum { EITP__CUDA_TEXTS = EITP__COUNT(eitp__cuda_texts), EITP__CUDA_MOST_OPTIONS = 16 };

/* ---- Opening ---- */

static eitp_status eitp__nvrtc_find_functions(eitp__cuda_compiler *compiler, void *library, eitp_error *error) {
#define EITP__NVRTC_FIND(member, name, parameters)                                                                     \
    if (!eitp__find_function(library, name, (void *)&compiler->member))                                                \
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "NVRTC has no function %s: install a newer one", name);
    EITP__NVRTC_FUNCTIONS(EITP__NVRTC_FIND)
#undef EITP__NVRTC_FIND
    return EITP_OK;
}

/* Chooses the device itself if NVRTC supports it, else PTX of the newest older one, which the driver compiles. */
static eitp_status eitp__nvrtc_choose_target(eitp__cuda_compiler *compiler, eitp_error *error) {
    int archs[256] = {0}, count = 0;
    if (compiler->arch_count(&count) || count > (int)EITP__COUNT(archs) || compiler->archs(archs))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "NVRTC does not report its supported devices");
    for (int i = 0; i < count; i++)
        if (archs[i] <= compiler->capability && archs[i] > compiler->target)
            compiler->target = archs[i];
    compiler->is_native = compiler->target == compiler->capability;
    if (!compiler->target)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "NVRTC %d.%d does not support this GPU (compute capability %d.%d); install the one of CUDA "
                          "%d",
                          compiler->major, compiler->minor, compiler->capability / 10, compiler->capability % 10,
                          EITP__CUDA_OLDEST);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__cuda_compiler_open(eitp__cuda_compiler *compiler, const eitp_host *host,
                                                   int driver_version, int capability, eitp_error *error) {
    char reason[540];
    void *library = eitp__cuda_open_library(host, "nvrtc", "nvidia-cuda-nvrtc", driver_version, reason, sizeof reason);
    eitp_status status;
    memset(compiler, 0, sizeof *compiler);
    compiler->capability = capability;
    if (!library)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "no usable NVRTC, CUDA's compiler: %s", reason);
    status = eitp__nvrtc_find_functions(compiler, library, error);
    if (!status && compiler->version(&compiler->major, &compiler->minor))
        status = eitp__fail(error, EITP_ERROR_UNSUPPORTED, "NVRTC does not report its version");
    return status ? status : eitp__nvrtc_choose_target(compiler, error);
}

/* ---- Sources and options ---- */

/* Returns the index of an embedded source, or -1. The name ends at a quote or a zero byte. */
static int eitp__find_text(const char *name) {
    const size_t length = strcspn(name, "\"");
    for (int i = 0; i < (int)EITP__CUDA_TEXTS; i++)
        if (!strncmp(eitp__cuda_texts[i].name, name, length) && !eitp__cuda_texts[i].name[length])
            return i;
    return -1;
}

/* Marks a source and those that it includes. A line is never split between pieces. */
static void eitp__mark_texts(int text, char marks[EITP__CUDA_TEXTS]) {
    static const char include[] = "#include \"";
    if (text < 0 || marks[text])
        return;
    marks[text] = 1;
    for (const char *const *piece = eitp__cuda_texts[text].pieces; *piece; piece++)
        for (const char *at = strstr(*piece, include); at; at = strstr(at + 1, include))
            eitp__mark_texts(eitp__find_text(at + sizeof include - 1), marks);
}

/* A kernel file and the sources that it includes. */
typedef struct eitp__joined_texts {
    eitp__buffer buffer; /* all of them, each followed by a zero byte */
    const char *program; /* the kernel file */
    const char *texts[EITP__CUDA_TEXTS], *names[EITP__CUDA_TEXTS];
    int count;
} eitp__joined_texts;

static eitp_status eitp__join_texts(eitp__joined_texts *joined, const eitp_host *host, const char *file,
                                    eitp_error *error) {
    const int program = eitp__find_text(file);
    size_t begins[EITP__CUDA_TEXTS];
    char marks[EITP__CUDA_TEXTS] = {0};
    eitp__mark_texts(program, marks);
    joined->count = 0;
    joined->program = "#error no such text\n";
    eitp__buffer_init(&joined->buffer, host);
    for (size_t i = 0; i < EITP__CUDA_TEXTS; i++) {
        begins[i] = joined->buffer.size;
        for (const char *const *piece = eitp__cuda_texts[i].pieces; *piece && marks[i]; piece++)
            eitp__buffer_add_text(&joined->buffer, *piece);
        eitp__buffer_add(&joined->buffer, "", 1);
    }
    if (joined->buffer.failed)
        return eitp__fail_memory(error, joined->buffer.size, "the sources of kernels");
    for (int i = 0; i < (int)EITP__CUDA_TEXTS; i++) {
        if (i == program)
            joined->program = joined->buffer.data + begins[i];
        else if (marks[i]) {
            joined->texts[joined->count] = joined->buffer.data + begins[i];
            joined->names[joined->count++] = eitp__cuda_texts[i].name;
        }
    }
    return EITP_OK;
}

/* The options of a compilation. */
typedef struct eitp__compile_options {
    char texts[EITP__CUDA_MOST_OPTIONS][96];
    const char *list[EITP__CUDA_MOST_OPTIONS];
    int count;
} eitp__compile_options;

/* An option that does not fit is missing from the list, but counted. */
static void eitp__add_compile_option(eitp__compile_options *options, const char *format, ...) EITP__PRINTF(2, 3);
static void eitp__add_compile_option(eitp__compile_options *options, const char *format, ...) {
    const int i = options->count++;
    va_list arguments;
    if (i >= EITP__CUDA_MOST_OPTIONS)
        return;
    va_start(arguments, format);
    vsnprintf(options->texts[i], sizeof options->texts[i], format, arguments);
    va_end(arguments);
    options->list[i] = options->texts[i];
}

static eitp_status eitp__set_compile_options(eitp__compile_options *options, const eitp__cuda_compiler *compiler,
                                             const eitp__kernel_source *source, eitp_error *error) {
    options->count = 0;
    eitp__add_compile_option(options, "-arch=%s_%d", compiler->is_native ? "sm" : "compute", compiler->target);
    eitp__add_compile_option(options, "-std=c++17");
    eitp__add_compile_option(options, "-default-device");           /* unmarked functions are device functions */
    eitp__add_compile_option(options, "-modify-stack-limit=false"); /* it is the process's, and shared by threads */
    if (source->kernel) {
        eitp__add_compile_option(options, "-DONLY");
        eitp__add_compile_option(options, "-DONLY_%s=0,", source->kernel); /* see kernels/cuda/device.h */
    }
    for (const char *at = source->definitions; *at;) {
        const size_t length = strcspn(at, " ");
        eitp__add_compile_option(options, "-D%.*s", (int)length, at);
        at += length + (at[length] == ' ');
    }
    return options->count > EITP__CUDA_MOST_OPTIONS
               ? eitp__fail(error, EITP_ERROR_INTERNAL, "too many definitions for %s: %s", source->file,
                            source->definitions)
               : EITP_OK;
}

/* ---- Compiling ---- */

struct eitp__cuda_compilation {
    const eitp__cuda_compiler *compiler;
    const eitp_host *host;
    const char *file;
    eitp__joined_texts texts;
    eitp__compile_options options;
    eitp__nvrtc_program program;
    int result; /* of nvrtcCompileProgram */
};

EITP__PRIVATE eitp_status eitp__cuda_compilation_create(const eitp__cuda_compiler *compiler, const eitp_host *host,
                                                        const eitp__kernel_source *source,
                                                        eitp__cuda_compilation **compilation, eitp_error *error) {
    eitp__cuda_compilation *created = (eitp__cuda_compilation *)eitp__allocate(host, sizeof *created);
    eitp_status status;
    int result = 0;
    *compilation = NULL;
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "the compilation of a kernel");
    created->compiler = compiler;
    created->host = host;
    created->file = source->file;
    status = eitp__join_texts(&created->texts, host, source->file, error);
    if (!status)
        status = eitp__set_compile_options(&created->options, compiler, source, error);
    if (!status)
        result = compiler->create(&created->program, created->texts.program, source->file, created->texts.count,
                                  created->texts.texts, created->texts.names);
    if (!status && result)
        status = eitp__fail(error, EITP_ERROR_INTERNAL, "NVRTC cannot create a program (error %d)", result);
    if (status)
        eitp__cuda_compilation_destroy(created);
    else
        *compilation = created;
    return status;
}

EITP__PRIVATE void eitp__cuda_compilation_run(eitp__cuda_compilation *compilation) {
    compilation->result =
        compilation->compiler->compile(compilation->program, compilation->options.count, compilation->options.list);
}

EITP__PRIVATE void eitp__cuda_compilation_destroy(eitp__cuda_compilation *compilation) {
    if (!compilation)
        return;
    if (compilation->program)
        compilation->compiler->destroy(&compilation->program);
    eitp__buffer_release(&compilation->texts.buffer);
    eitp__release(compilation->host, compilation, sizeof *compilation);
}

/* ---- The result ---- */

/* Returns the log, allocated with *size bytes; NULL if it is empty or memory ran out. */
static char *eitp__compile_log(const eitp__cuda_compilation *compilation, size_t *size) {
    const eitp__cuda_compiler *compiler = compilation->compiler;
    char *log = NULL;
    *size = 0;
    if (!compiler->log_size(compilation->program, size) && *size)
        log = (char *)eitp__allocate(compilation->host, ++*size);
    if (log && compiler->log(compilation->program, log))
        log[0] = 0;
    return log;
}

/* Fails with the start of the log, as much as fits in an error. */
static eitp_status eitp__fail_compile(const eitp__cuda_compilation *compilation, eitp_error *error) {
    size_t size;
    char *log = eitp__compile_log(compilation, &size);
    const eitp_status status = eitp__fail(
        error, EITP_ERROR_INTERNAL, "NVRTC %d.%d cannot compile %s (error %d): %.300s", compilation->compiler->major,
        compilation->compiler->minor, compilation->file, compilation->result, log && *log ? log : "no message");
    eitp__release(compilation->host, log, size);
    return status;
}

/* Logs the warnings, for developers. */
static void eitp__log_warnings(const eitp__cuda_compilation *compilation) {
    size_t size;
    char *log = compilation->host->log.write ? eitp__compile_log(compilation, &size) : NULL;
    if (!log)
        return;
    if (*log)
        eitp__log_line(compilation->host, EITP_LOG_DEBUG, "NVRTC warnings for %s: %s", compilation->file, log);
    eitp__release(compilation->host, log, size);
}

static eitp_status eitp__fetch_image(const eitp__cuda_compiler *compiler, eitp__nvrtc_program program,
                                     eitp__buffer *image, eitp_error *error) {
    size_t size = 0;
    char *bytes;
    int result = compiler->is_native ? compiler->cubin_size(program, &size) : compiler->ptx_size(program, &size);
    if (result || !size)
        return eitp__fail(error, EITP_ERROR_INTERNAL, "NVRTC produced no output");
    bytes = (char *)eitp__allocate(image->host, size);
    if (!bytes)
        return eitp__fail_memory(error, size, "compiled kernels");
    result = compiler->is_native ? compiler->cubin(program, bytes) : compiler->ptx(program, bytes);
    if (!result)
        eitp__buffer_add(image, bytes, size);
    eitp__release(image->host, bytes, size);
    if (result)
        return eitp__fail(error, EITP_ERROR_INTERNAL, "cannot read the output of NVRTC (error %d)", result);
    return image->failed ? eitp__fail_memory(error, size, "compiled kernels") : EITP_OK;
}

EITP__PRIVATE eitp_status eitp__cuda_compilation_finish(const eitp__cuda_compilation *compilation, eitp__buffer *image,
                                                        eitp_error *error) {
    if (compilation->result)
        return eitp__fail_compile(compilation, error);
    eitp__log_warnings(compilation);
    return eitp__fetch_image(compilation->compiler, compilation->program, image, error);
}

EITP__PRIVATE eitp_status eitp__cuda_compile(const eitp__cuda_compiler *compiler, const eitp__kernel_source *source,
                                             eitp__buffer *image, eitp_error *error) {
    eitp__cuda_compilation *compilation;
    eitp_status status = eitp__cuda_compilation_create(compiler, image->host, source, &compilation, error);
    if (!status) {
        eitp__cuda_compilation_run(compilation);
        status = eitp__cuda_compilation_finish(compilation, image, error);
    }
    eitp__cuda_compilation_destroy(compilation);
    return status;
}

/* Hashes a string with its zero byte, which separates it from the next one. */
static uint64_t eitp__hash_text(uint64_t key, const char *text) {
    return eitp__fnv1a(key, text, strlen(text) + 1);
}

EITP__PRIVATE uint64_t eitp__cuda_source_key(const char *target, const eitp__kernel_source *source) {
    uint64_t key = eitp__hash_text(EITP__FNV_START, target);
    char marks[EITP__CUDA_TEXTS] = {0};
    key = eitp__hash_text(key, source->file);
    key = eitp__hash_text(key, source->definitions);
    key = eitp__hash_text(key, source->kernel ? source->kernel : "");
    eitp__mark_texts(eitp__find_text(source->file), marks);
    for (size_t i = 0; i < EITP__CUDA_TEXTS; i++)
        for (const char *const *piece = eitp__cuda_texts[i].pieces; *piece && marks[i]; piece++)
            key = eitp__fnv1a(key, *piece, strlen(*piece));
    return key;
}

EITP__PRIVATE uint64_t eitp__cuda_compile_key(const eitp__cuda_compiler *compiler, const eitp__kernel_source *source) {
    char target[64];
    snprintf(target, sizeof target, "%d|%d|%d.%d", compiler->target, compiler->is_native, compiler->major,
             compiler->minor);
    return eitp__cuda_source_key(target, source);
}

#endif
