/*
 * Declarations shared by the files of the emulated driver.
 *
 * driver.c          the entry to each call, faults, devices, contexts
 * driver_memory.c   device memory and pinned memory, copies
 * driver_streams.c  streams, events, and the order in which queued operations are executed
 * driver_modules.c  modules, kernels
 * driver_graphs.c   capture, graphs
 * driver_counts.c   counts of executed kernels, for reports
 *
 * One lock guards everything. It is held while an operation is executed, except during a host function.
 */
#ifndef EMULATED_DRIVER_H
#define EMULATED_DRIVER_H

#include "tests/cuda/emulated_faults.h"
#include "tests/cuda/emulated_hooks.h"
#include "tests/cuda/emulated_launch.h"

#include <pthread.h>

#define DRIVER_EXPORT __attribute__((visibility("default")))

#define DRIVER_DECLARE(name, arguments) DRIVER_EXPORT CUresult name arguments;
DRIVER_API(DRIVER_DECLARE)
#undef DRIVER_DECLARE

#define DRIVER_DECLARE(name, result, arguments) DRIVER_EXPORT result name arguments;
DRIVER_HOOKS(DRIVER_DECLARE)
#undef DRIVER_DECLARE

enum { MOST_DEVICES = 8, ALIGNMENT = 512, POISON = 0xff, USUAL_SHARED = 49152, MOST_PRODUCTS = 512 };

/* ---- Objects ---- */

typedef enum object_kind { STREAM = 0x5eed0001, EVENT, MODULE, FUNCTION, GRAPH, EXEC } object_kind;

/* The first member of every object behind a handle. It is never freed, so that use after destruction is detected. */
typedef struct object {
    object_kind kind;
    int is_destroyed;
    CUcontext context;
    struct object *next;
} object;

struct CUctx_st {
    int device, retained;
    CUresult failure; /* of a kernel; returned by every call that needs the context */
    size_t used;
    emulated_range *ranges; /* sorted by address */
    size_t range_count, range_capacity;
    uint64_t products[MOST_PRODUCTS]; /* executed, by their kernels */
    int product_count;
};

typedef struct capture capture;
typedef struct operation operation;

/* One cuEventRecord, kept by the operations that wait for it. */
typedef struct event_record {
    int references, is_done;
    double seconds;
    capture *capture; /* or NULL; if set, the tips are the nodes it comes after */
    size_t *tips, tip_count;
} event_record;

struct CUevent_st {
    object base;
    unsigned flags;
    event_record *last; /* NULL: never recorded */
};

struct CUstream_st {
    object base;
    unsigned flags;
    int eagerness; /* streams with a higher value are preferred for a while */
    operation *first, *last;
    size_t queued, most_queued;
    capture *capture; /* NULL: not captured */
    size_t *tips, tip_count;
    CUstream next; /* among those that exist or have operations */
};

struct CUmod_st {
    object base;
    void *library;
};

struct CUfunc_st {
    object base;
    CUmodule module;
    emulated_kernel kernel;
    size_t argument_size;
    int most_shared, is_loaded; /* is_loaded: launched outside a capture */
    char name[128];
};

/* ---- Operations ---- */

typedef enum operation_kind {
    UPLOAD,
    DOWNLOAD,
    MOVE,
    FILL,
    KERNEL,
    PRODUCT,
    HOST_FUNCTION,
    GRAPH_LAUNCH,
    RECORD,
    WAIT
} operation_kind;

typedef struct graph_nodes graph_nodes;

struct operation {
    operation_kind kind;
    int references, is_done;
    CUcontext context;
    struct operation *next; /* in its stream */
    /* UPLOAD, DOWNLOAD, MOVE, FILL */
    uint64_t target, source;
    unsigned char *host, *staged; /* staged: its own copy of pageable memory */
    size_t size;                  /* in bytes */
    unsigned value, width;
    /* KERNEL, PRODUCT */
    CUfunction function;
    void (*run)(void *arguments);
    void *arguments;
    unsigned grid[3], block[3], shared;
    emulated_span *spans; /* bytes it uses; for a KERNEL the allocations that its arguments point to */
    size_t span_count;
    /* HOST_FUNCTION */
    CUhostFn host_function;
    void *user;
    /* GRAPH_LAUNCH */
    CUgraphExec exec;
    unsigned long ticket;     /* the number of this launch of exec */
    size_t *waiting, *ready;  /* for each node the number it waits for; nodes that wait for none */
    size_t ready_count, left; /* left: 0 before it starts */
    int has_begun;
    /* RECORD, WAIT */
    event_record *record;
};

/* ---- Driver ---- */

typedef struct emulated_driver {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signals is_executing */
    int is_read, is_initialized, is_executing;
    int version, capability, is_strict, is_listing;
    int visible[MOST_DEVICES], visible_count;
    size_t memory;
    uint64_t random;
    emulated_fault fault, late;
    unsigned long calls, launches, graph_launches, spins;
    int live;
    struct CUctx_st contexts[MOST_DEVICES];
    object *objects;
    CUstream streams;
    CUcontext executing; /* of the product being executed */
} emulated_driver;

extern emulated_driver driver;

/* Requirements of a call, and whether it acts although an error is injected or was reported late. */
enum {
    INITIALIZED = 1,
    CONTEXT = 2,
    UNSAFE = 4,     /* not permitted during a capture */
    ACTS_ALWAYS = 8 /* destructions, to avoid leaks; and waiting, because otherwise it is unknown which work has ended
                       */
};

/* Takes the lock. Returns the error that the call must return. */
CUresult enter(const char *function, int needs, int *acts);
CUresult leave(CUresult result);

/* The body of a call. */
#define CALL(needs, expression)                                                                                        \
    do {                                                                                                               \
        int acts_;                                                                                                     \
        const CUresult entered_ = enter(__func__, needs, &acts_);                                                      \
        const CUresult result_ = acts_ ? (expression) : entered_;                                                      \
        return leave(entered_ ? entered_ : result_);                                                                   \
    } while (0)

void refuse(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void *need_memory(void *memory);       /* refuses NULL */
size_t draw(size_t count);             /* random, below count */
int most_shared(void);                 /* maximum bytes a kernel can request, as on real devices of this capability */
CUcontext current_context(void);       /* of this thread; NULL: none */
extern __thread int in_host_function_; /* this thread is executing a host function */

void add_object(object *added, object_kind kind);
CUresult check_object(const void *handle, object_kind kind);
void destroy_object(object *destroyed);
CUresult check_stream(CUstream stream); /* refuses the default stream */

/* ---- driver_memory.c ---- */

unsigned char *resolve(CUcontext context, uint64_t address, size_t size, const char *what, unsigned char **written);
const emulated_range *find_range(CUcontext context, uint64_t address);
void execute_copy(operation *executed);

/* ---- driver_streams.c ---- */

operation *new_operation(operation_kind kind);
void drop_operation(operation *dropped);
CUresult submit(CUstream stream, operation *submitted); /* takes ownership */
int step(void);             /* executes a part of the queued work, or waits for the thread that does; 0: there is none
                               */
void run_some(size_t most); /* at most this many parts */
void run_operation(const operation *last);
void run_context(CUcontext context, unsigned flags_off); /* streams without these flags */
void execute(operation *executed);
/* Returns the first operation, queued or in a graph in flight, for which `uses` is true, or NULL. */
const operation *find_queued(int (*uses)(const operation *queued, const void *what), const void *what);
event_record *keep_record(event_record *kept);
void drop_record(event_record *dropped);

/* ---- driver_modules.c ---- */

void execute_kernel(operation *executed);

/* ---- driver_counts.c ---- */

void count_launch(const char *name);
void count_graph(void);

/* ---- driver_graphs.c ---- */

CUresult capture_forbids(void);              /* an error if this thread may not make unsafe calls now */
CUresult forbid_in_capture(CUstream stream); /* an error if the stream is being captured, which ends the capture */
/* An error if a kernel that was never launched would have to be loaded during a capture. */
CUresult forbid_loading(CUstream stream, int is_loaded);
CUresult captured_submit(CUstream stream, operation *submitted);
CUresult captured_record(CUstream stream, event_record *record);
CUresult captured_wait(CUstream stream, const event_record *record);
void captured_destroy(CUstream stream);
void end_captures(CUcontext context);        /* of a released context */
int execute_graph_part(operation *executed); /* 1: it was the last part */
int graph_is_ready(const operation *launch); /* earlier launches of the same executable graph have ended */
void end_graph_launch(operation *launch);
const operation *find_in_graph(const operation *launch, int (*uses)(const operation *queued, const void *what),
                               const void *what);

#endif
