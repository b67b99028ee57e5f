/*
 * libnvrtc.so.13 for machines without a GPU: it compiles programs with the host's C++ compiler into shared libraries,
 * which the emulated driver loads as modules. A program includes emulated.h, which is found in EMULATED_INCLUDE.
 *
 * Environment:
 *   EITP_EMULATED_CXX         the compiler and its arguments, separated by spaces: c++
 *   EITP_EMULATED_OPTIMIZE    optimization option: -Og, fastest overall for few calls of each kernel
 *   EITP_EMULATED_INCLUDE     the folder with emulated.h, instead of the one set when this was compiled
 *   EITP_EMULATED_CACHE       cache of compiled programs: eitp-emulated-cuda-<user> in TMPDIR or /tmp
 *   EITP_EMULATED_NVRTC_FAIL  the n-th call fails without effect: n, n:code or name:n:code. Read at the first call; the
 *                             count restarts when the value changes
 *   EITP_EMULATED_LIST        a file: nothing is compiled, and each request is appended as a line: kernel, file,
 *                             definitions. The emulated driver then executes nothing
 *   EITP_EMULATED_NVRTC_MEET  compilations wait until this number of them are running at the same time, or 10 seconds
 */
#include "tests/cuda/emulated_faults.h"
#include "tests/cuda/emulated_hooks.h"
#include "tests/cuda/nvrtc_api.h"

#include <pthread.h>
#include <time.h>

#define NVRTC_EXPORT __attribute__((visibility("default")))

#define NVRTC_DECLARE(name, arguments) NVRTC_EXPORT nvrtcResult name arguments;
NVRTC_API(NVRTC_DECLARE)
#undef NVRTC_DECLARE
NVRTC_EXPORT const char *nvrtcGetErrorString(nvrtcResult result);
NVRTC_EXPORT int emulated_nvrtc_live(void);
NVRTC_EXPORT unsigned long emulated_nvrtc_compilations(void);
NVRTC_EXPORT int emulated_nvrtc_most_running(void);

const int nvrtc_architectures[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
const int nvrtc_architecture_count = (int)(sizeof nvrtc_architectures / sizeof nvrtc_architectures[0]);

static pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
static emulated_fault fault_;
static char fault_text_[128]; /* value that fault_ was read from */
static int live_;
static unsigned long compilations_;
static int running_, most_running_; /* calls of nvrtcCompileProgram at the same time */
static int has_waited_;             /* in vain */
static pthread_cond_t met_ = PTHREAD_COND_INITIALIZER;

void *nvrtc_need(void *memory) {
    if (!memory) {
        fprintf(stderr, "emulated cuda: the host has too little memory\n");
        abort();
    }
    return memory;
}

static nvrtcResult enter(const char *function) {
    const char *text = getenv("EITP_EMULATED_NVRTC_FAIL");
    nvrtcResult result;
    pthread_mutex_lock(&lock_);
    if (strcmp(text ? text : "", fault_text_)) {
        emulated_fault_read(&fault_, "EITP_EMULATED_NVRTC_FAIL", NVRTC_ERROR_INTERNAL_ERROR);
        snprintf(fault_text_, sizeof fault_text_, "%s", text ? text : "");
    }
    result = (nvrtcResult)emulated_fault_strikes(&fault_, function);
    pthread_mutex_unlock(&lock_);
    return result;
}

static void count(int change, unsigned long compilations) {
    pthread_mutex_lock(&lock_);
    live_ += change;
    compilations_ += compilations;
    pthread_mutex_unlock(&lock_);
}

int emulated_nvrtc_live(void) {
    int live;
    pthread_mutex_lock(&lock_);
    live = live_;
    pthread_mutex_unlock(&lock_);
    return live;
}

unsigned long emulated_nvrtc_compilations(void) {
    unsigned long compilations;
    pthread_mutex_lock(&lock_);
    compilations = compilations_;
    pthread_mutex_unlock(&lock_);
    return compilations;
}

int emulated_nvrtc_most_running(void) {
    int most;
    pthread_mutex_lock(&lock_);
    most = most_running_;
    pthread_mutex_unlock(&lock_);
    return most;
}

/* Counts a compilation that starts, and waits for others. */
static void meet(void) {
    const char *text = getenv("EITP_EMULATED_NVRTC_MEET");
    const int expected = text ? atoi(text) : 0;
    struct timespec end;
    int code = 0;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 10;
    pthread_mutex_lock(&lock_);
    if (++running_ > most_running_)
        most_running_ = running_;
    pthread_cond_broadcast(&met_);
    while (most_running_ < expected && !code && !has_waited_)
        code = pthread_cond_timedwait(&met_, &lock_, &end);
    has_waited_ |= code != 0;
    pthread_mutex_unlock(&lock_);
}

static void leave(void) {
    pthread_mutex_lock(&lock_);
    running_--;
    pthread_mutex_unlock(&lock_);
}

/* A child may be forked while another thread counts. */
static void lock_before_fork(void) {
    pthread_mutex_lock(&lock_);
}

static void unlock_after_fork(void) {
    pthread_mutex_unlock(&lock_);
}

static void __attribute__((constructor)) watch_forks(void) {
    pthread_atfork(lock_before_fork, unlock_after_fork, unlock_after_fork);
}

/* ---- About the compiler ---- */

#define NVRTC_RESULT_TEXT(name, value, text)                                                                           \
    case value:                                                                                                        \
        return text;

const char *nvrtcGetErrorString(nvrtcResult result) {
    switch ((int)result) {
        NVRTC_RESULTS(NVRTC_RESULT_TEXT)
    default:
        return "NVRTC_ERROR unknown";
    }
}

nvrtcResult nvrtcVersion(int *major, int *minor) {
    const nvrtcResult injected = enter(__func__);
    if (injected)
        return injected;
    if (!major || !minor)
        return NVRTC_ERROR_INVALID_INPUT;
    *major = 13;
    *minor = 0;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetNumSupportedArchs(int *architecture_count) {
    const nvrtcResult injected = enter(__func__);
    if (injected)
        return injected;
    if (!architecture_count)
        return NVRTC_ERROR_INVALID_INPUT;
    *architecture_count = nvrtc_architecture_count;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int *architectures) {
    const nvrtcResult injected = enter(__func__);
    if (injected)
        return injected;
    if (!architectures)
        return NVRTC_ERROR_INVALID_INPUT;
    memcpy(architectures, nvrtc_architectures, sizeof nvrtc_architectures);
    return NVRTC_SUCCESS;
}

/* ---- Programs ---- */

/* True if a name stays inside the folder it is written to. */
static int is_inside(const char *name) {
    return *name && *name != '/' && strcmp(name, "..") && strncmp(name, "../", 3) && !strstr(name, "/../") &&
           name[strlen(name) - 1] != '/';
}

static void set_text(nvrtc_text *set, const char *name, const char *text) {
    set->name = (char *)nvrtc_need(strdup(name));
    set->text = (char *)nvrtc_need(strdup(text));
}

static void free_program(nvrtcProgram program) {
    for (size_t i = 0; i < program->text_count; i++) {
        free(program->texts[i].name);
        free(program->texts[i].text);
    }
    free(program->texts);
    free(program->log);
    free(program->image);
    free(program);
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name, int header_count,
                               const char *const *headers, const char *const *header_names) {
    const nvrtcResult injected = enter(__func__);
    nvrtcProgram created;
    if (injected)
        return injected;
    if (!program || !source || header_count < 0 || (header_count && (!headers || !header_names)))
        return NVRTC_ERROR_INVALID_INPUT;
    name = name && *name ? name : "default_program";
    if (!is_inside(name))
        return NVRTC_ERROR_INVALID_INPUT;
    for (int i = 0; i < header_count; i++) {
        if (!headers[i] || !header_names[i] || !is_inside(header_names[i]) || !strcmp(header_names[i], name))
            return NVRTC_ERROR_INVALID_INPUT;
    }
    created = (nvrtcProgram)nvrtc_need(calloc(1, sizeof *created));
    created->text_count = (size_t)header_count + 1;
    created->texts = (nvrtc_text *)nvrtc_need(calloc(created->text_count, sizeof *created->texts));
    set_text(&created->texts[0], name, source);
    for (int i = 0; i < header_count; i++)
        set_text(&created->texts[i + 1], header_names[i], headers[i]);
    count(1, 0);
    *program = created;
    return NVRTC_SUCCESS;
}

/* Destroys the program even if it fails, so nothing leaks. */
nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
    const nvrtcResult injected = enter(__func__);
    if (!program || !*program)
        return injected ? injected : NVRTC_ERROR_INVALID_PROGRAM;
    free_program(*program);
    *program = NULL;
    count(-1, 0);
    return injected;
}

/* ---- Options ---- */

/* Options of NVRTC that have no effect here. A trailing "=" means that the option takes a value. */
static const char *const ignored_options[] = {
    "--std=",
    "-std=",
    "--use_fast_math",
    "-use_fast_math",
    "--fmad=",
    "-fmad=",
    "--ftz=",
    "-ftz=",
    "--prec-div=",
    "-prec-div=",
    "--prec-sqrt=",
    "-prec-sqrt=",
    "-default-device",
    "--device-as-default-execution-space",
    "--extra-device-vectorization",
    "-extra-device-vectorization",
    "--generate-line-info",
    "-lineinfo",
    "--device-debug",
    "-G",
    "--maxrregcount=",
    "-maxrregcount=",
    "--restrict",
    "-restrict",
    "--no-source-include",
    "-no-source-include",
    "--modify-stack-limit=",
    "-modify-stack-limit=",
    "--split-compile=",
    "-split-compile=",
    "--disable-warnings",
    "-w",
    "--display-error-number",
    "-err-no",
    "--no-display-error-number",
    "-no-err-no",
    "--diag-suppress=",
    "-diag-suppress=",
    "--minimal",
    "-minimal",
};

static int is_ignored(const char *option) {
    for (size_t i = 0; i < sizeof ignored_options / sizeof ignored_options[0]; i++) {
        const char *known = ignored_options[i];
        const size_t length = strlen(known);
        if (known[length - 1] == '=' ? !strncmp(option, known, length) && option[length] : !strcmp(option, known))
            return 1;
    }
    return 0;
}

static const char *after(const char *option, const char *beginning) {
    const size_t length = strlen(beginning);
    return strncmp(option, beginning, length) ? NULL : option + length;
}

/* Parses sm_86 or compute_86, with or without a suffix a or f. Returns 86, or 0. */
static int read_architecture(const char *name, int *is_virtual) {
    const char *digits = after(name, "sm_");
    char *end;
    long number;
    *is_virtual = !digits;
    if (!digits)
        digits = after(name, "compute_");
    number = digits ? strtol(digits, &end, 10) : 0;
    if (number && (*end == 'a' || *end == 'f'))
        end++;
    for (int i = 0; number && !*end && i < nvrtc_architecture_count; i++) {
        if (nvrtc_architectures[i] == number)
            return (int)number;
    }
    return 0;
}

typedef struct option_list {
    char **options;
    size_t count;
    int architecture;
} option_list;

static void add_option(option_list *list, const char *beginning, const char *rest) {
    const size_t size = strlen(beginning) + strlen(rest) + 1;
    list->options = (char **)nvrtc_need(realloc(list->options, (list->count + 2) * sizeof *list->options));
    list->options[list->count] = (char *)nvrtc_need(malloc(size));
    snprintf(list->options[list->count], size, "%s%s", beginning, rest);
    list->options[++list->count] = NULL;
}

/* Reads an option, whose value may be the next argument. Returns the number of arguments read, or 0 if it is invalid.
   */
static int read_option(option_list *list, nvrtcProgram program, const char *option, const char *next) {
    static const char *const passed[][3] = {
        {"--define-macro=", "--define-macro", "-D"},
        {"--undefine-macro=", "--undefine-macro", "-U"},
        {"--include-path=", "--include-path", "-I"},
    };
    const char *value = after(option, "--gpu-architecture=");
    if (after(option, "-DONLY"))
        return 1; /* emulated.h has all kernels of a file, which is compiled once for all of them */
    if (!value)
        value = after(option, "-arch=");
    if (value) {
        list->architecture = read_architecture(value, &program->is_virtual);
        return list->architecture != 0;
    }
    for (size_t i = 0; i < 3; i++) {
        value = after(option, passed[i][0]);
        if (!value)
            value = after(option, passed[i][2]);
        if (value && *value)
            return add_option(list, passed[i][2], value), 1;
        if (next && (!strcmp(option, passed[i][1]) || !strcmp(option, passed[i][2])))
            return add_option(list, passed[i][2], next), 2;
    }
    return is_ignored(option);
}

static nvrtcResult fail_option(nvrtcProgram program, const char *option) {
    const size_t size = strlen(option) + 64;
    program->log = (char *)nvrtc_need(malloc(size));
    snprintf(program->log, size, "nvrtc: error: invalid value or unknown option: %s\n", option);
    return NVRTC_ERROR_INVALID_OPTION;
}

/* Without it NVRTC treats unmarked functions in headers as host functions, which kernels may not call. */
#define DEVICE_BY_DEFAULT "-default-device"

/* Appends a request to EITP_EMULATED_LIST. The image is a word. */
static nvrtcResult list_request(nvrtcProgram program, const char *path, int option_count, const char *const *options) {
    char kernel[128] = "", definitions[512] = "", line[1024];
    size_t length = 0;
    FILE *file = fopen(path, "a");
    for (int i = 0; i < option_count; i++) {
        const char *definition = after(options[i], "-D");
        if (after(options[i], "-DONLY_"))
            snprintf(kernel, sizeof kernel, "%.*s", (int)strcspn(options[i] + 7, "="), options[i] + 7);
        else if (definition && strcmp(definition, "ONLY") && length < sizeof definitions)
            length += (size_t)snprintf(definitions + length, sizeof definitions - length, " %s", definition);
    }
    snprintf(line, sizeof line, "%s %s%s\n", kernel, program->texts[0].name, definitions);
    if (!file || fputs(line, file) < 0 || fclose(file))
        return NVRTC_ERROR_INTERNAL_ERROR;
    program->image = (char *)nvrtc_need(strdup("listed"));
    program->image_size = strlen(program->image) + 1;
    program->is_virtual = 0;
    return NVRTC_SUCCESS;
}

static nvrtcResult compile(nvrtcProgram program, int option_count, const char *const *options, option_list *list) {
    char number[16];
    unsigned long compilations = 0;
    nvrtcResult result;
    int is_device_default = 0;
    for (int i = 0; i < option_count;) {
        const int count_read =
            options[i] ? read_option(list, program, options[i], i + 1 < option_count ? options[i + 1] : NULL) : 0;
        if (!count_read)
            return fail_option(program, options[i] ? options[i] : "NULL");
        is_device_default |= !strcmp(options[i], DEVICE_BY_DEFAULT);
        i += count_read;
    }
    if (program->text_count > 1 && !is_device_default)
        return fail_option(program, "headers without " DEVICE_BY_DEFAULT);
    snprintf(number, sizeof number, "%d", 10 * list->architecture);
    add_option(list, "-DEMULATED_ARCH=", number);
    result = nvrtc_compile(program, (const char *const *)list->options, &compilations);
    count(0, compilations);
    return result;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int option_count, const char *const *options) {
    const nvrtcResult injected = enter(__func__);
    option_list list = {NULL, 0, 75};
    nvrtcResult result;
    if (injected)
        return injected;
    if (!program)
        return NVRTC_ERROR_INVALID_PROGRAM;
    if (option_count < 0 || (option_count && !options))
        return NVRTC_ERROR_INVALID_INPUT;
    free(program->log);
    free(program->image);
    program->log = program->image = NULL;
    program->is_virtual = 1;
    if (getenv("EITP_EMULATED_LIST"))
        return list_request(program, getenv("EITP_EMULATED_LIST"), option_count, options);
    meet();
    result = compile(program, option_count, options, &list);
    leave();
    for (size_t i = 0; i < list.count; i++)
        free(list.options[i]);
    free(list.options);
    return result;
}

/* ---- Results ---- */

static nvrtcResult give_size(nvrtcProgram program, size_t *size, const char *image, size_t image_size) {
    if (!program || !size)
        return program ? NVRTC_ERROR_INVALID_INPUT : NVRTC_ERROR_INVALID_PROGRAM;
    *size = image ? image_size : 0;
    return NVRTC_SUCCESS;
}

static nvrtcResult give(nvrtcProgram program, char *target, const char *image, size_t image_size) {
    if (!program || !image)
        return NVRTC_ERROR_INVALID_PROGRAM;
    if (!target)
        return NVRTC_ERROR_INVALID_INPUT;
    memcpy(target, image, image_size);
    return NVRTC_SUCCESS;
}

static const char *cubin_of(nvrtcProgram program) {
    return program && !program->is_virtual ? program->image : NULL;
}

static const char *log_of(nvrtcProgram program) {
    return program ? program->log ? program->log : "" : NULL;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *size) {
    const nvrtcResult injected = enter(__func__);
    return injected  ? injected
           : program ? give_size(program, size, program->image, program->image_size)
                     : NVRTC_ERROR_INVALID_PROGRAM;
}

nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *image) {
    const nvrtcResult injected = enter(__func__);
    return injected  ? injected
           : program ? give(program, image, program->image, program->image_size)
                     : NVRTC_ERROR_INVALID_PROGRAM;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *size) {
    const nvrtcResult injected = enter(__func__);
    return injected ? injected : give_size(program, size, cubin_of(program), program ? program->image_size : 0);
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *image) {
    const nvrtcResult injected = enter(__func__);
    return injected ? injected : give(program, image, cubin_of(program), program ? program->image_size : 0);
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size) {
    const nvrtcResult injected = enter(__func__);
    const char *log = log_of(program);
    return injected ? injected : give_size(program, size, log, log ? strlen(log) + 1 : 0);
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log) {
    const nvrtcResult injected = enter(__func__);
    const char *text = log_of(program);
    return injected ? injected : give(program, log, text, text ? strlen(text) + 1 : 0);
}
