/* The peak rates of the device, measured with kernels of programs: products, and loops over memory. */
#include "backends/cuda/cuda.h"

#if EITP__WITH_CUDA

/* Device time in seconds after which a measurement ends. */
#define EITP__CUDA_PEAK_SECONDS 0.02

/* Minimum duration of a measured call in seconds: launches take some microseconds. */
#define EITP__CUDA_LEAST_SECONDS 1e-3

/* Elements of a loop over memory, and rows of a product. The minima are small because an emulated device is slow. */
enum { EITP__LEAST_ROWS = 64, EITP__MOST_ROWS = 8192, EITP__LEAST_LENGTH = 1 << 12, EITP__MOST_LENGTH = 1 << 27 };

/* ---- A call ---- */

/* A call whose operands have their own zeroed memory. */
typedef struct eitp__timed_call {
    eitp__call call;
    eitp__instruction instruction;
    eitp__program_info info;
    eitp__program *program;
    size_t workspace;
    double seconds[EITP__PHASE_COUNT];
} eitp__timed_call;

static size_t eitp__timed_call_bytes(const eitp__operand *x) {
    return (size_t)x->elements * eitp_dtype_size(x->dtype);
}

static int eitp__timed_call_allocate(eitp__backend *backend, eitp__operand *x) {
    if (x->elements)
        x->data = backend->interface->allocate(backend, EITP__PLACE_DEVICE, eitp__timed_call_bytes(x));
    return x->data || !x->elements;
}

static void eitp__timed_call_end(eitp__backend *backend, eitp__timed_call *timed) {
    const eitp__backend_interface *interface = backend->interface;
    if (timed->program)
        interface->discard(backend, timed->program);
    for (int i = 0; i < timed->call.input_count; i++)
        interface->release(backend, EITP__PLACE_DEVICE, timed->call.inputs[i].data,
                           eitp__timed_call_bytes(&timed->call.inputs[i]));
    interface->release(backend, EITP__PLACE_DEVICE, timed->call.outputs[0].data,
                       eitp__timed_call_bytes(&timed->call.outputs[0]));
    interface->release(backend, EITP__PLACE_DEVICE, timed->info.workspace, timed->workspace);
}

/* Prepares timed->call, whose operands have no memory yet. Returns 0 if that is not possible. Always end it. */
static int eitp__timed_call_begin(eitp__backend *backend, eitp__timed_call *timed) {
    const eitp__backend_interface *interface = backend->interface;
    int has_memory = 1;
    timed->workspace = interface->workspace(backend, &timed->call);
    for (int i = 0; i < timed->call.input_count; i++)
        has_memory &= eitp__timed_call_allocate(backend, &timed->call.inputs[i]);
    has_memory &= eitp__timed_call_allocate(backend, &timed->call.outputs[0]);
    if (timed->workspace)
        timed->info.workspace = interface->allocate(backend, EITP__PLACE_DEVICE, timed->workspace);
    timed->instruction.call = &timed->call;
    timed->info.instructions = &timed->instruction;
    timed->info.count = 1;
    timed->info.seconds = timed->seconds;
    return has_memory && (!timed->workspace || timed->info.workspace) && interface->supports(backend, &timed->call) &&
           !interface->prepare(backend, &timed->info, &timed->program, NULL);
}

/* Returns the seconds of an execution, or 0 if it fails. */
static double eitp__timed_call_time(eitp__backend *backend, eitp__timed_call *timed) {
    static const eitp__poll never = {NULL, NULL};
    const eitp__backend_interface *interface = backend->interface;
    size_t begun;
    memset(timed->seconds, 0, sizeof timed->seconds);
    if (interface->execute(backend, timed->program, 0, 1, &never, 0, &begun, NULL) || interface->wait(backend, NULL))
        return 0;
    return timed->seconds[EITP__PHASE_FORWARD];
}

/* Returns the minimum seconds of several executions, or 0 if the call cannot be executed. The first execution of a
   program loads its kernels; the second captures it. */
static double eitp__timed_call_measure(eitp__backend *backend, const eitp__call *call) {
    eitp__timed_call timed;
    double best = 0, total = 0;
    memset(&timed, 0, sizeof timed);
    timed.call = *call;
    if (eitp__timed_call_begin(backend, &timed)) {
        double seconds;
        do {
            seconds = eitp__timed_call_time(backend, &timed);
            total += seconds;
            if (seconds > 0 && (best <= 0 || seconds < best))
                best = seconds;
        } while (seconds > 0 && total < EITP__CUDA_PEAK_SECONDS && best >= EITP__CUDA_LEAST_SECONDS);
    }
    eitp__timed_call_end(backend, &timed);
    return best;
}

/* ---- Calls ---- */

static void eitp__set_matrix(eitp__operand *x, eitp_dtype dtype, int64_t rows, int64_t columns) {
    memset(x, 0, sizeof *x);
    x->dtype = dtype;
    x->rank = 2;
    x->shape[0] = rows;
    x->shape[1] = columns;
    x->elements = rows * columns;
}

/* Creates a product of square matrices. */
static eitp__call eitp__square_product(eitp_dtype dtype, int64_t rows) {
    eitp__call call;
    memset(&call, 0, sizeof call);
    call.slot = EITP__SLOT_MATMUL;
    call.dtype = dtype;
    call.input_count = 2;
    call.output_count = 1;
    eitp__set_matrix(&call.inputs[0], dtype, rows, rows);
    eitp__set_matrix(&call.inputs[1], dtype, rows, rows);
    eitp__set_matrix(&call.outputs[0], dtype, rows, rows);
    return call;
}

/* Creates a loop over F32 arrays: SUM_SQUARES, FILL or ADD. */
static eitp__call eitp__array_loop(eitp__slot slot, int inputs, int64_t elements) {
    const int sums = slot == EITP__SLOT_SUM_SQUARES;
    eitp__call call;
    memset(&call, 0, sizeof call);
    call.slot = slot;
    call.dtype = EITP_F32;
    call.input_count = inputs;
    call.output_count = 1;
    for (int i = 0; i < inputs; i++)
        eitp__set_matrix(&call.inputs[i], EITP_F32, 1, elements);
    eitp__set_matrix(&call.outputs[0], EITP_F32, 1, elements);
    if (sums) {
        call.outputs[0].dtype = EITP_F64;
        call.outputs[0].rank = 1;
        call.outputs[0].elements = (elements + EITP__SUM_BLOCK - 1) / EITP__SUM_BLOCK;
        call.outputs[0].shape[0] = call.outputs[0].elements;
    }
    return call;
}

/* Returns the bytes per second of sufficiently long loops, in which each element moves `arrays` values. */
static double eitp__array_rate(eitp__backend *backend, eitp__slot slot, int inputs, int arrays) {
    double rate = 0, seconds = 0;
    for (int64_t n = EITP__LEAST_LENGTH; n <= EITP__MOST_LENGTH && seconds < EITP__CUDA_LEAST_SECONDS; n *= 8) {
        const eitp__call call = eitp__array_loop(slot, inputs, n);
        const double measured = eitp__timed_call_measure(backend, &call);
        if (measured <= 0)
            break;
        seconds = measured;
        rate = (double)n * sizeof(float) * arrays / seconds;
    }
    return rate;
}

/* ---- The backend's functions ---- */

EITP__PRIVATE double eitp__cuda_peak(const eitp__backend *backend, eitp_dtype dtype) {
    eitp__backend *device = (eitp__backend *)(uintptr_t)backend;
    double rate = 0, seconds = 0;
    for (int64_t n = EITP__LEAST_ROWS; n <= EITP__MOST_ROWS && seconds < EITP__CUDA_LEAST_SECONDS; n *= 2) {
        const eitp__call call = eitp__square_product(dtype, n);
        const double measured = eitp__timed_call_measure(device, &call);
        if (measured <= 0)
            break;
        seconds = measured;
        rate = 2.0 * (double)n * (double)n * (double)n / seconds;
    }
    return rate;
}

/* Unlike on a CPU, the bandwidth does not depend on the number of arrays: two that are read and one that is written
   represent `update`. */
EITP__PRIVATE eitp_status eitp__cuda_measure(eitp__backend *backend, eitp__backend_limits *limits, eitp_error *error) {
    static const eitp_dtype dtypes[] = {EITP_F32, EITP_BF16, EITP_F16};
    memset(limits, 0, sizeof *limits);
    for (size_t i = 0; i < EITP__COUNT(dtypes); i++)
        limits->flops[dtypes[i]] = eitp__cuda_peak(backend, dtypes[i]);
    limits->read = eitp__array_rate(backend, EITP__SLOT_SUM_SQUARES, 1, 1);
    limits->write = eitp__array_rate(backend, EITP__SLOT_FILL, 0, 1);
    limits->update = eitp__array_rate(backend, EITP__SLOT_ADD, 2, 3);
    return limits->read > 0 && limits->write > 0 && limits->update > 0 && limits->flops[EITP_F32] > 0
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_INTERNAL, "cannot measure the speed of the GPU");
}

#endif
