/*
 * libcuda.so.1 for machines without a GPU: a device that computes on the host, late, and in an order restricted only by
 * streams, events and graphs. It is as strict as possible: a program that relies on behaviour that works by chance on
 * real devices is ended with a line that starts with "emulated cuda: ". The driver has no threads: work is done in
 * calls that wait or query, and at times in others.
 *
 * Environment, read at the first call and by emulated_cuda_restart:
 *   CUDA_VISIBLE_DEVICES           numbers of devices, as for CUDA
 *   EITP_EMULATED_CUDA_DEVICES     number of devices: 1
 *   EITP_EMULATED_CUDA_VERSION     version of the driver: 13000
 *   EITP_EMULATED_CUDA_CAPABILITY  compute capability of the devices: 8.6
 *   EITP_EMULATED_CUDA_MEMORY      memory of each in bytes: 2147483648
 *   EITP_EMULATED_CUDA_SEED        seed of the order of execution: 1
 *   EITP_EMULATED_LIST             no kernel is executed; see nvrtc.c
 *   EITP_EMULATED_CUDA_STRICT=1    also ends the process if unwritten bytes are copied to the host
 *   EITP_EMULATED_CUDA_FAIL        the n-th call fails without effect: n, n:code or name:n:code. Calls that release or
 *                                  end something, and those that wait, do so and then fail
 *   EITP_EMULATED_CUDA_COUNTS      a folder: see driver_counts.c
 *   EITP_EMULATED_CUDA_LATE        n, n:code: the n-th executed kernel or product fails; later calls return the error
 */
#include "tests/cuda/driver.h"

#include <stdarg.h>

#define DRIVER_CONTEXT_DEPTH 16

emulated_driver driver = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

__thread int in_host_function_;
static __thread CUcontext contexts_[DRIVER_CONTEXT_DEPTH]; /* pushed by this thread */
static __thread int context_count_;

void refuse(const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(stderr, "emulated cuda: %s\n", text);
    abort();
}

void emulated_cuda_refuse(const char *what) {
    refuse("%s", what);
}

void *need_memory(void *memory) {
    if (!memory)
        refuse("the host has too little memory");
    return memory;
}

size_t draw(size_t count) {
    driver.random ^= driver.random >> 12;
    driver.random ^= driver.random << 25;
    driver.random ^= driver.random >> 27;
    return (size_t)((driver.random * 2685821657736338717u) >> 33) % count;
}

/* ---- Settings ---- */

static long long setting(const char *name, long long usual) {
    const char *text = getenv(name);
    return text && *text ? strtoll(text, NULL, 10) : usual;
}

/* Reads the list as CUDA does: it ends before the first entry that is not a device. */
static void read_visible(int devices) {
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    driver.visible_count = 0;
    if (!text) {
        while (driver.visible_count < devices)
            driver.visible[driver.visible_count] = driver.visible_count, driver.visible_count++;
        return;
    }
    while (driver.visible_count < MOST_DEVICES) {
        char *end;
        const long number = strtol(text, &end, 10);
        if (end == text || number < 0 || number >= devices)
            return;
        driver.visible[driver.visible_count++] = (int)number;
        if (*end != ',')
            return;
        text = end + 1;
    }
}

static void read_settings(void) {
    const char *capability = getenv("EITP_EMULATED_CUDA_CAPABILITY");
    const long long devices = setting("EITP_EMULATED_CUDA_DEVICES", 1);
    int major = 8, minor = 6;
    if (devices < 0 || devices > MOST_DEVICES)
        refuse("EITP_EMULATED_CUDA_DEVICES must be at most %d", MOST_DEVICES);
    if (capability && sscanf(capability, "%d.%d", &major, &minor) != 2)
        refuse("EITP_EMULATED_CUDA_CAPABILITY must be like 8.6");
    driver.capability = 10 * major + minor;
    driver.version = (int)setting("EITP_EMULATED_CUDA_VERSION", 13000);
    driver.memory = (size_t)setting("EITP_EMULATED_CUDA_MEMORY", 1ll << 31);
    driver.is_listing = getenv("EITP_EMULATED_LIST") != NULL;
    driver.is_strict = setting("EITP_EMULATED_CUDA_STRICT", 0) != 0;
    driver.random = (uint64_t)setting("EITP_EMULATED_CUDA_SEED", 1) * 0x9e3779b97f4a7c15u + 1;
    emulated_fault_read(&driver.fault, "EITP_EMULATED_CUDA_FAIL", CUDA_ERROR_UNKNOWN);
    emulated_fault_read(&driver.late, "EITP_EMULATED_CUDA_LATE", CUDA_ERROR_LAUNCH_FAILED);
    read_visible((int)devices);
    driver.calls = driver.launches = driver.graph_launches = driver.spins = 0;
    driver.is_initialized = 0;
    driver.is_read = 1;
}

void emulated_cuda_restart(void) {
    pthread_mutex_lock(&driver.lock);
    for (int i = 0; i < MOST_DEVICES; i++) {
        if (driver.contexts[i].retained)
            refuse("the driver is restarted while a context is retained");
    }
    read_settings();
    pthread_mutex_unlock(&driver.lock);
}

/* A child inherits a driver that is between two calls. */
static void lock_before_fork(void) {
    pthread_mutex_lock(&driver.lock);
}

static void unlock_in_parent(void) {
    pthread_mutex_unlock(&driver.lock);
}

static void unlock_in_child(void) {
    driver.is_executing = 0;
    pthread_cond_init(&driver.changed, NULL);
    pthread_mutex_unlock(&driver.lock);
}

static void __attribute__((constructor)) watch_forks(void) {
    pthread_atfork(lock_before_fork, unlock_in_parent, unlock_in_child);
}

/* ---- Calls ---- */

static CUresult find_error(int needs) {
    const CUcontext context = current_context();
    if ((needs & (INITIALIZED | CONTEXT)) && !driver.is_initialized)
        return CUDA_ERROR_NOT_INITIALIZED;
    if ((needs & CONTEXT) && !context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if ((needs & CONTEXT) && !context->retained)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return needs & UNSAFE ? capture_forbids() : CUDA_SUCCESS;
}

CUresult enter(const char *function, int needs, int *acts) {
    CUresult error, injected;
    if (in_host_function_)
        refuse("a host function calls the driver (%s)", function);
    pthread_mutex_lock(&driver.lock);
    if (!driver.is_read)
        read_settings();
    driver.calls++;
    injected = (CUresult)emulated_fault_strikes(&driver.fault, function);
    error = find_error(needs);
    *acts = !error;
    if (error)
        return injected ? injected : error;
    error = injected;
    if (!error && (needs & CONTEXT))
        error = current_context()->failure;
    *acts = !error || (needs & ACTS_ALWAYS);
    return error;
}

CUresult leave(CUresult result) {
    pthread_mutex_unlock(&driver.lock);
    return result;
}

int emulated_cuda_live(void) {
    int live;
    pthread_mutex_lock(&driver.lock);
    live = driver.live;
    pthread_mutex_unlock(&driver.lock);
    return live;
}

static unsigned long read_count(const unsigned long *count) {
    unsigned long value;
    pthread_mutex_lock(&driver.lock);
    value = *count;
    pthread_mutex_unlock(&driver.lock);
    return value;
}

unsigned long emulated_cuda_calls(void) {
    return read_count(&driver.calls);
}

unsigned long emulated_cuda_launches(void) {
    return read_count(&driver.launches);
}

unsigned long emulated_cuda_graph_launches(void) {
    return read_count(&driver.graph_launches);
}

unsigned long emulated_cuda_spins(void) {
    return read_count(&driver.spins);
}

int emulated_cuda_capability(void) {
    int capability;
    pthread_mutex_lock(&driver.lock);
    if (!driver.is_read)
        read_settings();
    capability = driver.capability;
    pthread_mutex_unlock(&driver.lock);
    return capability;
}

/* ---- Objects ---- */

void add_object(object *added, object_kind kind) {
    added->kind = kind;
    added->context = current_context();
    added->next = driver.objects;
    driver.objects = added;
    if (kind != FUNCTION)
        driver.live++;
}

CUresult check_object(const void *handle, object_kind kind) {
    static const char *const names[] = {"stream", "event", "module", "function", "graph", "executable graph"};
    const object *checked = (const object *)handle;
    if (!checked || checked->kind != kind)
        return CUDA_ERROR_INVALID_HANDLE;
    if (checked->is_destroyed)
        refuse("a destroyed %s is used", names[kind - STREAM]);
    return checked->context == current_context() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

void destroy_object(object *destroyed) {
    destroyed->is_destroyed = 1;
    if (destroyed->kind != FUNCTION)
        driver.live--;
}

CUresult check_stream(CUstream stream) {
    if ((uintptr_t)stream <= 2)
        refuse("the legacy default stream is used");
    return check_object(stream, STREAM);
}

/* ---- Errors ---- */

typedef struct error_text {
    int value;
    const char *name, *text;
} error_text;

#define DRIVER_ERROR_TEXT(name, value, text) {value, #name, text},
static const error_text error_texts[] = {DRIVER_ERRORS(DRIVER_ERROR_TEXT)};
#undef DRIVER_ERROR_TEXT

static const error_text *find_error_text(CUresult error) {
    for (size_t i = 0; i < sizeof error_texts / sizeof error_texts[0]; i++) {
        if (error_texts[i].value == (int)error)
            return &error_texts[i];
    }
    return NULL;
}

CUresult cuGetErrorName(CUresult error, const char **text) {
    const error_text *found = find_error_text(error);
    *text = found ? found->name : NULL;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
    const error_text *found = find_error_text(error);
    *text = found ? found->text : NULL;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- Devices ---- */

static CUresult initialize(unsigned flags) {
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (!driver.visible_count)
        return CUDA_ERROR_NO_DEVICE;
    driver.is_initialized = 1;
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned flags) {
    CALL(0, initialize(flags));
}

/* Stores a number, for calls that do nothing else. */
static CUresult give(int *target, int value) {
    if (!target)
        return CUDA_ERROR_INVALID_VALUE;
    *target = value;
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
    CALL(0, give(version, driver.version));
}

CUresult cuDeviceGetCount(int *count) {
    CALL(INITIALIZED, give(count, driver.visible_count));
}

static int is_device(CUdevice device) {
    return device >= 0 && device < driver.visible_count;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    CALL(INITIALIZED, is_device(ordinal) ? give(device, ordinal) : CUDA_ERROR_INVALID_DEVICE);
}

static CUresult get_name(char *name, int size, CUdevice device) {
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!name || size < 1)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)size, "Emulated GPU %d", driver.visible[device]);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
    CALL(INITIALIZED, get_name(name, size, device));
}

static CUresult get_address(char *text, int size, CUdevice device) {
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!text || size < 13)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(text, (size_t)size, "0000:%02X:00.0", EMULATED_BUS(driver.visible[device]));
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int size, CUdevice device) {
    CALL(INITIALIZED, get_address(text, size, device));
}

static CUresult get_uuid(CUuuid *uuid, CUdevice device) {
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(uuid->bytes, "emulated device", sizeof uuid->bytes);
    uuid->bytes[15] = (char)('0' + driver.visible[device]);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    CALL(INITIALIZED, get_uuid(uuid, device));
}

static CUresult get_total(size_t *bytes, CUdevice device) {
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = driver.memory;
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    CALL(INITIALIZED, get_total(bytes, device));
}

int most_shared(void) {
    switch (driver.capability) {
    case 75:
        return 65536;
    case 80:
    case 87:
        return 166912;
    case 90:
    case 100:
    case 103:
    case 110:
        return 232448;
    default:
        return 101376;
    }
}

/* Attributes that are the same on every device. Others are 0. */
static const int attributes[][2] = {
    {1, 1024},       /* threads per block */
    {2, 1024},       /* block dimensions */
    {3, 1024},       /* */
    {4, 64},         /* */
    {5, 2147483647}, /* grid dimensions */
    {6, 65535},      /* */
    {7, 65535},      /* */
    {8, USUAL_SHARED} /* shared memory per block by default */,
    {9, 65536},       /* constant memory */
    {10, 32},         /* threads per warp */
    {11, 2147483647}, /* maximum pitch */
    {12, 65536},      /* registers per block */
    {13, 1500000},    /* clock rate, in kHz */
    {14, 512},        /* texture alignment */
    {15, 1},          /* copies overlap kernels */
    {16, 4},          /* multiprocessors */
    {19, 1},          /* can map host memory */
    {30, 512},        /* surface alignment */
    {31, 1},          /* concurrent kernels */
    {36, 7000000},    /* memory clock rate, in kHz */
    {37, 256},        /* memory bus width, in bits */
    {38, 4194304},    /* L2 cache */
    {40, 2},          /* copy engines */
    {41, 1},          /* unified addressing */
    {51, 32},         /* pitch alignment */
    {78, 1},          /* stream priorities */
    {79, 1},          /* L1 cache of global memory */
    {80, 1},          /* L1 cache of local memory */
    {82, 65536},      /* registers per multiprocessor */
    {87, 32},         /* ratio of single to double precision throughput */
    {90, 1},          /* preemption */
    {95, 1},          /* cooperative launches */
    {99, 1},          /* can register host memory */
    {106, 16},        /* blocks per multiprocessor */
    {111, 1024},      /* shared memory reserved by the system per block */
};

static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    switch (attribute) {
    case 33: /* PCI bus */
        return give(value, EMULATED_BUS(driver.visible[device]));
    case 39: /* threads per multiprocessor */
        return give(value, driver.capability == 75 ? 1024 : driver.capability / 10 == 8 ? 1536 : 2048);
    case 75:
        return give(value, driver.capability / 10);
    case 76:
        return give(value, driver.capability % 10);
    case 81: /* shared memory per multiprocessor */
        return give(value, driver.capability == 75 ? 65536 : most_shared() + 1024);
    case 97:
        return give(value, most_shared());
    default:
        break;
    }
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        if (attributes[i][0] == attribute)
            return give(value, attributes[i][1]);
    }
    return attribute > 0 && attribute <= 147 ? give(value, 0) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    CALL(INITIALIZED, get_attribute(value, attribute, device));
}

/* ---- Contexts ---- */

CUcontext current_context(void) {
    return context_count_ ? contexts_[context_count_ - 1] : NULL;
}

static CUresult retain(CUcontext *context, CUdevice device) {
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    *context = &driver.contexts[driver.visible[device]];
    (*context)->device = device;
    (*context)->retained++;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    CALL(INITIALIZED, retain(context, device));
}

/* Objects that the program did not destroy stay, and are counted. */
static CUresult release(CUdevice device) {
    CUcontext context;
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    context = &driver.contexts[driver.visible[device]];
    if (!context->retained)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context->retained == 1)
        run_context(context, 0);
    if (--context->retained == 0) {
        end_captures(context);
        context->failure = CUDA_SUCCESS;
        context->product_count = 0;
    }
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    CALL(INITIALIZED | ACTS_ALWAYS, release(device));
}

static int is_context(CUcontext context) {
    for (int i = 0; i < MOST_DEVICES; i++) {
        if (context == &driver.contexts[i])
            return context->retained > 0;
    }
    return 0;
}

static CUresult push(CUcontext context) {
    if (!is_context(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context_count_ == DRIVER_CONTEXT_DEPTH)
        refuse("too many contexts were pushed and not popped");
    contexts_[context_count_++] = context;
    return CUDA_SUCCESS;
}

/* Replaces the context on top; NULL removes it. */
static CUresult set_current(CUcontext context) {
    if (context && !is_context(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context_count_)
        context_count_--;
    return context ? push(context) : CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *context) {
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    *context = current_context();
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context) {
    if (!context_count_)
        return CUDA_ERROR_INVALID_CONTEXT;
    context_count_--;
    if (context)
        *context = contexts_[context_count_];
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
    CALL(INITIALIZED, set_current(context));
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    CALL(INITIALIZED, get_current(context));
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    CALL(INITIALIZED, push(context));
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    CALL(INITIALIZED, pop(context));
}
