#include "backends/cuda/compiler.h"

#include "backends/cuda/libraries.h"
#include "base/checksum.h"
#include "base/library.h"
#include "base/log.h"

#if EITP__WITH_CUDA

#include "kernels/cuda/texts.inc"

enum { EITP__CUDA_TEXTS = EITP__COUNT(eitp__cuda_texts), EITP__CUDA_MOST_DEFINITIONS = 8 };

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

/* ---- Compiling ---- */

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
    char texts[EITP__CUDA_MOST_DEFINITIONS + 1][64];
    const char *list[EITP__CUDA_MOST_DEFINITIONS + 3];
    int count;
} eitp__compile_options;

static eitp_status eitp__set_compile_options(eitp__compile_options *options, const eitp__cuda_compiler *compiler,
                                             const char *definitions, eitp_error *error) {
    const char *at = definitions;
    options->count = 0;
    snprintf(options->texts[0], sizeof options->texts[0], "-arch=%s_%d", compiler->is_native ? "sm" : "compute",
             compiler->target);
    options->list[options->count++] = options->texts[0];
    options->list[options->count++] = "-std=c++17";
    options->list[options->count++] = "-default-device"; /* unmarked functions are device functions */
    while (*at && options->count < EITP__CUDA_MOST_DEFINITIONS + 3) {
        const size_t length = strcspn(at, " ");
        char *text = options->texts[options->count - 2];
        snprintf(text, sizeof options->texts[0], "-D%.*s", (int)length, at);
        options->list[options->count++] = text;
        at += length + (at[length] == ' ');
    }
    return *at ? eitp__fail(error, EITP_ERROR_INTERNAL, "more than %d definitions for a kernel file: %s",
                            EITP__CUDA_MOST_DEFINITIONS, definitions)
               : EITP_OK;
}

/* Returns the log of a compilation, allocated with *size bytes; NULL if it is empty or memory ran out. */
static char *eitp__compile_log(const eitp__cuda_compiler *compiler, eitp__nvrtc_program program, const eitp_host *host,
                               size_t *size) {
    char *log = NULL;
    *size = 0;
    if (!compiler->log_size(program, size) && *size)
        log = (char *)eitp__allocate(host, ++*size);
    if (log && compiler->log(program, log))
        log[0] = 0;
    return log;
}

/* Fails with the start of the log, as much as fits in an error. */
static eitp_status eitp__fail_compile(const eitp__cuda_compiler *compiler, eitp__nvrtc_program program,
                                      const eitp_host *host, const char *file, eitp_error *error) {
    size_t size;
    char *log = eitp__compile_log(compiler, program, host, &size);
    const eitp_status status = eitp__fail(error, EITP_ERROR_INTERNAL, "NVRTC %d.%d cannot compile %s: %.300s",
                                          compiler->major, compiler->minor, file, log ? log : "");
    eitp__release(host, log, size);
    return status;
}

/* Logs the warnings of a compilation, for developers. */
static void eitp__log_warnings(const eitp__cuda_compiler *compiler, eitp__nvrtc_program program, const eitp_host *host,
                               const char *file) {
    size_t size;
    char *log = host->log.write ? eitp__compile_log(compiler, program, host, &size) : NULL;
    if (!log)
        return;
    if (*log)
        eitp__log_line(host, EITP_LOG_DEBUG, "NVRTC warnings for %s: %s", file, log);
    eitp__release(host, log, size);
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

EITP__PRIVATE eitp_status eitp__cuda_compile(const eitp__cuda_compiler *compiler, const char *file,
                                             const char *definitions, eitp__buffer *image, eitp_error *error) {
    eitp__joined_texts joined;
    eitp__compile_options options;
    eitp__nvrtc_program program = NULL;
    eitp_status status = eitp__join_texts(&joined, image->host, file, error);
    int result = 0;
    if (!status)
        result = compiler->create(&program, joined.program, file, joined.count, joined.texts, joined.names);
    if (!status && result)
        status = eitp__fail(error, EITP_ERROR_INTERNAL, "NVRTC cannot create a program (error %d)", result);
    if (!status)
        status = eitp__set_compile_options(&options, compiler, definitions, error);
    if (!status && compiler->compile(program, options.count, options.list))
        status = eitp__fail_compile(compiler, program, image->host, file, error);
    else if (!status)
        eitp__log_warnings(compiler, program, image->host, file);
    if (!status)
        status = eitp__fetch_image(compiler, program, image, error);
    if (program)
        compiler->destroy(&program);
    eitp__buffer_release(&joined.buffer);
    return status;
}

EITP__PRIVATE uint64_t eitp__cuda_compile_key(const eitp__cuda_compiler *compiler, const char *file,
                                              const char *definitions) {
    uint64_t key = EITP__FNV_START;
    char header[160], marks[EITP__CUDA_TEXTS] = {0};
    const int length = snprintf(header, sizeof header, "%s|%s|%d|%d|%d.%d", file, definitions, compiler->target,
                                compiler->is_native, compiler->major, compiler->minor);
    key = eitp__fnv1a(key, header, (size_t)length + 1);
    eitp__mark_texts(eitp__find_text(file), marks);
    for (size_t i = 0; i < EITP__CUDA_TEXTS; i++)
        for (const char *const *piece = eitp__cuda_texts[i].pieces; *piece && marks[i]; piece++)
            key = eitp__fnv1a(key, *piece, strlen(*piece));
    return key;
}

#endif
