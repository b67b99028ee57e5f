/* The CPU backend: a kernel table for this processor, and one driver for all iteration families. */
#include "backends/cpu/openblas.h"
#include "backends/cpu/features.h"
#include "backends/cpu/limits.h"
#include "backends/cpu/transfers.h"
#include "backends/backend.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/threads.h"

#include <sys/resource.h>

typedef struct eitp__cpu {
    eitp__backend base;
    int threads;
    char why[64]; /* reason, in parentheses, why there are fewer threads than processors; or empty */
    eitp__isa isa;
    eitp__kernel_table table;
    eitp__openblas_core openblas; /* if OpenBLAS computes products */
    eitp__worker *transfers;      /* NULL until a program has transfers */
} eitp__cpu;

/* The columns of EITP__ISAS. */
static const struct {
    void (*register_kernels)(eitp__kernel_table *table);
    double f32, bf16;
    int sum_group;
} eitp__cpu_sets[EITP__ISA_COUNT] = {
#define EITP__CPU_SET(isa, name, in_build, f32, bf16, group) {eitp__register_##name##_kernels, f32, bf16, group},
    EITP__ISAS(EITP__CPU_SET)
#undef EITP__CPU_SET
};

static eitp__isa eitp__best_isa(void) {
    unsigned available = 0;
    for (int i = 0; i < EITP__ISA_COUNT; i++)
        available |= eitp__isa_available((eitp__isa)i) ? 1u << i : 0;
    return eitp__fastest_isa(available, eitp__has_slow_pairs());
}

static eitp_status eitp__find_isa(const char *name, eitp__isa *isa, eitp_error *error) {
    static const char names[] =
#define EITP__ISA_LISTED(isa, name, in_build, f32, bf16, group) ", " #name
        EITP__ISAS(EITP__ISA_LISTED)
#undef EITP__ISA_LISTED
        ;
    for (int i = 0; i < EITP__ISA_COUNT; i++)
        if (!strcmp(name, eitp__isa_name((eitp__isa)i))) {
            *isa = (eitp__isa)i;
            return EITP_OK;
        }
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown instruction set '%s' (choose from %s)", name, names + 2);
}

/* Chooses the set named by `name` or EITP_ISA, else the best one. A named set that cannot run is an error. */
static eitp_status eitp__choose_isa(const char *name, eitp__isa *isa, eitp_error *error) {
    const char *remedy = name && *name ? "choose another one" : "unset EITP_ISA";
    eitp_status status;
    if (!name || !*name)
        name = getenv("EITP_ISA");
    if (!name || !*name) {
        *isa = eitp__best_isa();
        return EITP_OK;
    }
    status = eitp__find_isa(name, isa, error);
    if (status)
        return status;
    if (!eitp__isa_in_build(*isa))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "this build has no kernels for instruction set '%s' (eitp_build_info lists its sets); %s",
                          name, remedy);
    if (!eitp__isa_available(*isa))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "instruction set '%s' is not available on this processor and operating system; %s", name,
                          remedy);
    return EITP_OK;
}

/* Returns the remaining address space if it is limited for the process; UINT64_MAX if nothing or something else is the
   tighter limit. */
static uint64_t eitp__addresses_left(const eitp_host *host) {
    eitp_memory_info info;
    struct rlimit addresses, data;
    if (getrlimit(RLIMIT_AS, &addresses) || getrlimit(RLIMIT_DATA, &data) ||
        (addresses.rlim_cur == RLIM_INFINITY && data.rlim_cur == RLIM_INFINITY) ||
        eitp_memory_info_read(host, &info, NULL) || strncmp(info.source, "RLIMIT", 6))
        return UINT64_MAX;
    return info.left;
}

/* Returns the number of threads whose stacks use at most half of the remaining addresses. */
static int eitp__threads_within_limits(const eitp_host *host, int threads) {
    const uint64_t stack = threads > 1 ? eitp__team_stack() : 0;
    uint64_t room = stack ? eitp__addresses_left(host) / 2 / stack : UINT64_MAX;
    return room >= (uint64_t)threads - 1 ? threads : 1 + (int)room;
}

/* Fails unless half of the remaining addresses are enough for OpenBLAS. */
static eitp_status eitp__check_openblas_room(const eitp__cpu *cpu, eitp_error *error) {
    int started;
    const uint64_t needed = eitp__openblas_addresses(cpu->threads, &started);
    const uint64_t left = eitp__addresses_left(&cpu->base.host);
    char more[40] = "", takes[32], rest[32];
    if (needed <= left / 2)
        return EITP_OK;
    if (started)
        snprintf(more, sizeof more, " and %d of its own", started);
    return eitp__fail(
        error, EITP_ERROR_MEMORY,
        "OpenBLAS maps %s for %d thread%s%s, but limits on the process's addresses leave %s for that and as "
        "much for the rest; raise the limits (ulimit -v), %sor use fewer threads or the products 'own'",
        eitp_format_bytes(eitp__round_bytes(needed, 1), takes, sizeof takes), cpu->threads,
        cpu->threads == 1 ? "" : "s", more, eitp_format_bytes(eitp__round_bytes(left / 2, 0), rest, sizeof rest),
        started ? "set OPENBLAS_NUM_THREADS=1, " : "");
}

/* Registers OpenBLAS's matrix product if it is requested. */
static eitp_status eitp__choose_products(eitp__cpu *cpu, const char *name, eitp_error *error) {
    eitp_status status;
    if (!name || !*name)
        name = getenv("EITP_PRODUCTS");
    if (!name || !*name || !strcmp(name, "own"))
        return EITP_OK;
    if (strcmp(name, "openblas"))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown matrix products '%s' (choose from own, openblas)", name);
    status = eitp__check_openblas_room(cpu, error);
    return status ? status : eitp__register_openblas_kernels(&cpu->table, &cpu->openblas, error);
}

/* Chooses the default: the number set for OpenMP, else the number that affinity and quota of the process allow. */
static eitp_status eitp__choose_threads(eitp__cpu *cpu, eitp_error *error) {
    eitp_processor_info info;
    int is_chosen;
    eitp_status status;
    cpu->threads = eitp__thread_limit(&is_chosen);
    if (is_chosen || !EITP__WITH_OPENMP)
        return EITP_OK;
    status = eitp_processor_info_read(&cpu->base.host, &info, error);
    if (status)
        return status;
    cpu->threads = info.usable;
    if (info.usable < info.allowed)
        snprintf(cpu->why, sizeof cpu->why, " (quota of the control group: %g)", info.quota);
    else if (info.usable < info.online)
        snprintf(cpu->why, sizeof cpu->why, " (affinity: %d of %d processors)", info.allowed, info.online);
    return EITP_OK;
}

/* Starts the waiting threads before memory is used for other purposes. */
static void eitp__start_threads(eitp__cpu *cpu) {
    int threads = eitp__team_start(eitp__threads_within_limits(&cpu->base.host, cpu->threads));
    if (threads < cpu->threads)
        eitp__log_line(
            &cpu->base.host, EITP_LOG_WARNING,
            "%d thread%s instead of %d, because of limits on addresses or processes; raise them (ulimit -v, -u) "
            "or request %d",
            threads, threads == 1 ? "" : "s", cpu->threads, threads);
    cpu->threads = threads;
}

static eitp_status eitp__cpu_create(const eitp_host *host, const eitp__backend_config *config, eitp__backend **backend,
                                    eitp_error *error) {
    eitp__cpu *cpu;
    eitp__isa isa = EITP__ISA_REF;
    eitp_status status = eitp__choose_isa(config->isa, &isa, error);
    if (status)
        return status;
    if (config->threads < 0 || config->threads > 4096)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "invalid number of threads %d; expected 1 to 4096, or 0 for all processors", config->threads);
    cpu = (eitp__cpu *)eitp__allocate(host, sizeof *cpu);
    if (!cpu)
        return eitp__fail_memory(error, sizeof *cpu, "the CPU backend");
    cpu->base.interface = eitp__cpu_backend();
    cpu->base.host = *host;
    cpu->isa = isa;
    cpu->threads = config->threads;
    if (!config->threads)
        status = eitp__choose_threads(cpu, error);
    if (!EITP__WITH_OPENMP && cpu->threads > 1) {
        eitp__log_line(host, EITP_LOG_WARNING,
                       "this build has no OpenMP: 1 thread instead of %d; compile with -fopenmp", cpu->threads);
        cpu->threads = 1;
    }
#ifndef __OPTIMIZE__
    eitp__log_line(host, EITP_LOG_WARNING, "this build is not optimised and will be slow; compile with -O2");
#endif
    for (int i = 0; i <= (int)isa; i++)
        eitp__cpu_sets[i].register_kernels(&cpu->table);
    if (!status)
        eitp__start_threads(cpu);
    if (!status)
        status = eitp__choose_products(cpu, config->products, error);
    if (status) {
        eitp__release(host, cpu, sizeof *cpu);
        return status;
    }
    *backend = &cpu->base;
    return EITP_OK;
}

static void eitp__cpu_destroy(eitp__backend *backend) {
    eitp_host host = backend->host;
    eitp__worker_destroy(((eitp__cpu *)(void *)backend)->transfers);
    eitp__release(&host, backend, sizeof(eitp__cpu));
}

static const char *eitp__matmul_set(const eitp__cpu *cpu) {
    return cpu->table.kernels[EITP__SLOT_MATMUL][EITP_F32].set;
}

static void eitp__cpu_describe(const eitp__backend *backend, char *text, size_t size) {
    const eitp__cpu *cpu = (const eitp__cpu *)(const void *)backend;
    snprintf(text, size, "cpu, %d thread%s%s, kernels %s, matrix products %s (fp32) and %s (bf16)", cpu->threads,
             cpu->threads == 1 ? "" : "s", cpu->why, eitp__isa_name(cpu->isa), eitp__matmul_set(cpu),
             cpu->table.kernels[EITP__SLOT_MATMUL][EITP_BF16].set);
}

static void eitp__cpu_numerics(const eitp__backend *backend, char *text, size_t size) {
    const eitp__cpu *cpu = (const eitp__cpu *)(const void *)backend;
    const char *set = eitp__matmul_set(cpu);
    snprintf(text, size, "cpu-%s-%s%s%s", eitp__isa_name(cpu->isa), set, *cpu->openblas.name ? "." : "",
             cpu->openblas.name);
}

/* Without BF16 instructions, 16-bit values only save memory. */
static eitp_dtype eitp__cpu_preferred_precision(const eitp__backend *backend) {
    const eitp__cpu *cpu = (const eitp__cpu *)(const void *)backend;
    return eitp__cpu_sets[cpu->isa].bf16 > eitp__cpu_sets[cpu->isa].f32 ? EITP_BF16 : EITP_F32;
}

/* The maximum of arithmetic and memory time, at the nominal rate of all threads. */
static double eitp__cpu_seconds(const eitp__backend *backend, const eitp__call *call, double flops, double bytes) {
    const eitp__cpu *cpu = (const eitp__cpu *)(const void *)backend;
    double rate = call->dtype == EITP_BF16 ? eitp__cpu_sets[cpu->isa].bf16 : eitp__cpu_sets[cpu->isa].f32;
    rate *= cpu->threads;
    if (eitp__slot_family(call->slot) != EITP__FAMILY_TILES)
        rate /= 8;
    return fmax(flops / rate, bytes / (1.2e10 * cpu->threads)) + 2e-6;
}

static int eitp__cpu_sum_group(const eitp__backend *backend, eitp_dtype dtype) {
    const eitp__cpu *cpu = (const eitp__cpu *)(const void *)backend;
    return dtype == EITP_BF16 ? eitp__cpu_sets[cpu->isa].sum_group : 1;
}

static int eitp__cpu_tile_rows(const eitp__backend *backend, eitp_dtype dtype) {
    const eitp__cpu *cpu = (const eitp__cpu *)(const void *)backend;
    return (int)cpu->table.kernels[EITP__SLOT_MATMUL][dtype].tile_rows;
}

static const eitp__kernel *eitp__cpu_kernel(const eitp__cpu *cpu, const eitp__call *call) {
    return &cpu->table.kernels[call->slot][call->dtype];
}

/* All product kernels implement all epilogues, other kernels none. */
static int eitp__cpu_supports(const eitp__backend *backend, const eitp__call *call) {
    const eitp__kernel *kernel = eitp__cpu_kernel((const eitp__cpu *)(const void *)backend, call);
    if (call->slot != EITP__SLOT_MATMUL && eitp__epilogue_of(call) != EITP__EPILOGUE_NONE)
        return 0;
    return kernel->run && (!kernel->supports || kernel->supports(call));
}

#define EITP__ZEROED_PIECE ((size_t)2 << 20) /* a huge page */

/* Memory to be zeroed. */
typedef struct eitp__zeroing {
    char *memory;
    size_t size;
} eitp__zeroing;

static void eitp__zero_piece(void *argument, int64_t piece, int thread) {
    const eitp__zeroing *zeroing = (const eitp__zeroing *)argument;
    const size_t first = (size_t)piece * EITP__ZEROED_PIECE, left = zeroing->size - first;
    (void)thread;
    memset(zeroing->memory + first, 0, left < EITP__ZEROED_PIECE ? left : EITP__ZEROED_PIECE);
}

/* All threads zero it: most of the time is spent on page faults. */
static void *eitp__cpu_allocate(eitp__backend *backend, eitp__place place, size_t size) {
    const eitp__cpu *cpu = (const eitp__cpu *)(const void *)backend;
    eitp__zeroing zeroing;
    if (place == EITP__PLACE_HOST)
        return eitp__allocate(&backend->host, size);
    zeroing.memory = (char *)eitp__allocate_uninitialized(&backend->host, size);
    zeroing.size = size;
    if (zeroing.memory)
        eitp__parallel(cpu->threads, (int64_t)((size + EITP__ZEROED_PIECE - 1) / EITP__ZEROED_PIECE), eitp__zero_piece,
                       &zeroing);
    return zeroing.memory;
}

static void eitp__cpu_release(eitp__backend *backend, eitp__place place, void *memory, size_t size) {
    (void)place;
    eitp__release(&backend->host, memory, size);
}

static eitp_status eitp__cpu_copy(eitp__backend *backend, void *target, const void *source, size_t size,
                                  eitp_error *error) {
    (void)backend;
    (void)error;
    memcpy(target, source, size);
    return EITP_OK;
}

/* Returns the workspace of one thread in bytes. */
static size_t eitp__thread_workspace(const eitp__kernel *kernel, const eitp__call *call) {
    size_t bytes = kernel->workspace ? kernel->workspace(call) : 0;
    return (bytes + EITP__ALIGNMENT - 1) / EITP__ALIGNMENT * EITP__ALIGNMENT;
}

static size_t eitp__cpu_workspace(const eitp__backend *backend, const eitp__call *call) {
    const eitp__cpu *cpu = (const eitp__cpu *)(const void *)backend;
    return eitp__thread_workspace(eitp__cpu_kernel(cpu, call), call) * (size_t)cpu->threads;
}

static int64_t eitp__ceil_divide(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* Returns the number of items of a call. */
static int64_t eitp__call_items(const eitp__call *call, const eitp__kernel *kernel) {
    const eitp__operand *input = &call->inputs[0], *output = &call->outputs[0];
    int64_t columns;
    eitp__matmul product;
    switch (eitp__slot_family(call->slot)) {
    case EITP__FAMILY_ROWS:
        columns = eitp__operand_columns(input);
        return columns ? input->elements / columns : 0;
    case EITP__FAMILY_COLUMNS:
        return eitp__operand_columns(output);
    case EITP__FAMILY_LINES:
        columns = output->shape[call->integers[0]];
        return columns ? output->elements / columns : 0;
    case EITP__FAMILY_TILES:
        product = eitp__matmul_sizes(call);
        return product.batch * eitp__ceil_divide(product.m, kernel->tile_rows) *
               eitp__ceil_divide(product.n, kernel->tile_columns);
    case EITP__FAMILY_ATTENTION:
        return (call->inputs[1].elements - 1) * call->integers[call->slot == EITP__SLOT_ATTENTION_BACKWARD ? 4 : 0];
    case EITP__FAMILY_WHOLE:
        return 1;
    case EITP__FAMILY_BLOCKS:
        return eitp__ceil_divide(input->elements, EITP__SUM_BLOCK);
    case EITP__FAMILY_FLAT:
    default:
        return output->elements;
    }
}

/* Elements per piece: enough to outweigh the cost of a piece, few enough to distribute the work evenly. */
#define EITP__PIECE_ELEMENTS 16384

/*
 * Returns the number of items per piece, which depends on the shapes only. Flat pieces are multiples of 64 elements, so
 * that threads do not share cache lines and vectors have the same alignment in every piece.
 */
static int64_t eitp__piece_items(const eitp__call *call, int64_t items) {
    int64_t largest = 1, touched, piece;
    eitp__family family = eitp__slot_family(call->slot);
    if (family == EITP__FAMILY_TILES || family == EITP__FAMILY_ATTENTION || family == EITP__FAMILY_WHOLE)
        return 1;
    for (int i = 0; i < call->input_count; i++)
        largest = call->inputs[i].elements > largest ? call->inputs[i].elements : largest;
    for (int i = 0; i < call->output_count; i++)
        largest = call->outputs[i].elements > largest ? call->outputs[i].elements : largest;
    touched = eitp__ceil_divide(largest, items);
    piece = eitp__ceil_divide(EITP__PIECE_ELEMENTS, touched);
    if (family == EITP__FAMILY_FLAT || family == EITP__FAMILY_COLUMNS)
        piece = eitp__ceil_divide(piece, 64) * 64;
    return piece;
}

/* A list of calls whose pieces all threads execute. */
typedef struct eitp__cpu_work {
    const eitp__cpu *cpu;
    const eitp__instruction *instructions; /* all are EITP__COMPUTE */
    size_t count;
    char *workspace;
    eitp__pieces pieces;
    const eitp__poll *poll;
    size_t stoppable; /* number of calls during which the poll is called */
    int stopped;      /* written by thread 0 */
    double *seconds;  /* indexed by phase, or NULL */
} eitp__cpu_work;

/* Division of a call into pieces of `size` items. */
typedef struct eitp__division {
    int64_t items, size, pieces;
} eitp__division;

static eitp__division eitp__divide_call(const eitp__call *call, const eitp__kernel *kernel) {
    eitp__division division;
    division.items = eitp__call_items(call, kernel);
    division.size = division.items ? eitp__piece_items(call, division.items) : 1;
    division.pieces = eitp__ceil_divide(division.items, division.size);
    return division;
}

/* Pieces that thread 0 executes between two polls. */
#define EITP__PIECES_BETWEEN_POLLS 8

/*
 * Calls the poll in thread 0, which called the backend, during call `i`, whose pieces start at `first`. If it requests
 * a stop, no thread claims another piece, unless other threads are ahead and have started work that must not stop.
 */
static void eitp__cpu_ask(eitp__cpu_work *work, size_t i, int64_t first) {
    if (!work->poll->ask(work->poll->user))
        return;
    for (; i < work->stoppable; i++)
        first += eitp__divide_call(work->instructions[i].call, eitp__cpu_kernel(work->cpu, work->instructions[i].call))
                     .pieces;
    work->stopped = eitp__pieces_cancel(&work->pieces, first);
    work->stoppable = 0; /* no more polls */
}

/* The time of a phase in thread 0: from its first call to the first one of another phase. */
typedef struct eitp__phase_clock {
    double *seconds; /* indexed by phase; NULL: nothing is measured */
    eitp__phase phase;
    double began;
} eitp__phase_clock;

static void eitp__phase_begin(eitp__phase_clock *clock, double *seconds, eitp__phase phase) {
    clock->seconds = seconds;
    clock->phase = phase;
    clock->began = seconds ? eitp__clock() : 0;
}

static void eitp__phase_end(const eitp__phase_clock *clock) {
    if (clock->seconds)
        clock->seconds[clock->phase] += eitp__clock() - clock->began;
}

static void eitp__phase_change(eitp__phase_clock *clock, eitp__phase phase) {
    double now;
    if (!clock->seconds || clock->phase == phase)
        return;
    now = eitp__clock();
    clock->seconds[clock->phase] += now - clock->began;
    clock->phase = phase;
    clock->began = now;
}

/* The loop of one thread: goes through the calls in order and takes pieces of each until none is left. */
static void eitp__cpu_thread(void *argument, int thread) {
    eitp__cpu_work *work = (eitp__cpu_work *)argument;
    int64_t first = 0;
    eitp__phase_clock clock;
    eitp__phase_begin(&clock, thread == 0 ? work->seconds : NULL, work->instructions[0].phase);
    for (size_t i = 0; i < work->count; i++) {
        const eitp__call *call = work->instructions[i].call;
        const eitp__kernel *kernel = eitp__cpu_kernel(work->cpu, call);
        const eitp__division division = eitp__divide_call(call, kernel);
        char *workspace = work->workspace + (size_t)thread * eitp__thread_workspace(kernel, call);
        eitp__phase_change(&clock, work->instructions[i].phase);
        for (unsigned done = 0;; done++) {
            int64_t piece, begin, end;
            if (thread == 0 && i < work->stoppable && done % EITP__PIECES_BETWEEN_POLLS == 0)
                eitp__cpu_ask(work, i, first);
            piece = eitp__piece_claim(&work->pieces, first, first + division.pieces);
            if (piece < 0)
                break;
            begin = (piece - first) * division.size;
            end = begin + division.size;
            eitp__kernel_run(kernel, call, begin, end < division.items ? end : division.items, workspace);
            eitp__piece_finish(&work->pieces);
        }
        first += division.pieces;
    }
    eitp__phase_end(&clock);
}

/* A program, with its current number of rows and its transfers. */
typedef struct eitp__cpu_program {
    eitp__program_info info;
    int64_t rows_now;
    eitp__transfers transfers; /* zeros without transfers */
} eitp__cpu_program;

static void eitp__cpu_discard(eitp__backend *backend, eitp__program *program) {
    eitp__cpu_program *prepared = (eitp__cpu_program *)(void *)program;
    eitp__transfers_release(&prepared->transfers);
    eitp__release(&backend->host, prepared, sizeof *prepared);
}

static eitp_status eitp__cpu_prepare(eitp__backend *backend, const eitp__program_info *info, eitp__program **program,
                                     eitp_error *error) {
    eitp__cpu_program *prepared = (eitp__cpu_program *)eitp__allocate(&backend->host, sizeof *prepared);
    eitp_status status = EITP_OK;
    if (!prepared)
        return eitp__fail_memory(error, sizeof *prepared, "a program");
    prepared->info = *info;
    prepared->rows_now = -1;
    if (info->storage)
        status = eitp__transfers_create(&prepared->transfers, &backend->host, info,
                                        &((eitp__cpu *)(void *)backend)->transfers, error);
    *program = (eitp__program *)(void *)prepared;
    if (status) {
        eitp__cpu_discard(backend, *program);
        *program = NULL;
    }
    return status;
}

static void eitp__set_rows(eitp__operand *operands, int count, int64_t rows) {
    for (int i = 0; i < count; i++) {
        eitp__operand *x = &operands[i];
        if (!x->row_elements)
            continue;
        x->shape[0] = rows < x->first_row ? 0 : rows - x->first_row;
        x->shape[0] = x->shape[0] < x->row_limit ? x->shape[0] : x->row_limit;
        x->elements = x->shape[0] * x->row_elements;
    }
}

/* Sets the number of rows in all shapes. */
static void eitp__cpu_set_rows(eitp__cpu_program *program) {
    const int64_t *rows = (const int64_t *)program->info.rows;
    if (!rows || *rows == program->rows_now)
        return;
    program->rows_now = *rows;
    for (size_t i = 0; i < program->info.count; i++) {
        eitp__call *call = program->info.instructions[i].call;
        if (!call)
            continue;
        eitp__set_rows(call->inputs, call->input_count, program->rows_now);
        eitp__set_rows(call->outputs, call->output_count, program->rows_now);
    }
}

/* Executes the calls from `first` up to `end` or the next transfer. *begun is the index after them. */
static eitp_status eitp__cpu_compute(eitp__backend *backend, const eitp__cpu_program *program, size_t first, size_t end,
                                     const eitp__poll *poll, size_t stoppable, size_t *begun, eitp_error *error) {
    eitp__cpu_work work = EITP__ZERO;
    work.cpu = (const eitp__cpu *)(const void *)backend;
    work.instructions = program->info.instructions + first;
    while (first + work.count < end && work.instructions[work.count].kind == EITP__COMPUTE)
        work.count++;
    end = first + work.count;
    work.workspace = (char *)program->info.workspace;
    work.poll = poll;
    work.seconds = program->info.seconds;
    if (poll->ask && stoppable > first)
        work.stoppable = (stoppable < end ? stoppable : end) - first;
    eitp__team_run(work.cpu->threads, eitp__cpu_thread, &work);
    *begun = work.stopped ? first : end;
    return work.stopped ? eitp__fail_interrupted(error) : EITP_OK;
}

/* Calls are done when `execute` returns; transfers may be in progress. */
static eitp_status eitp__cpu_wait(eitp__backend *backend, eitp_error *error) {
    eitp__worker *transfers = ((eitp__cpu *)(void *)backend)->transfers;
    return transfers ? eitp__worker_finish(transfers, error) : EITP_OK;
}

/* Starts a transfer, or waits for one. */
static eitp_status eitp__cpu_transfer(eitp__cpu_program *program, size_t instruction, eitp_error *error) {
    eitp__phase_clock clock;
    eitp_status status;
    eitp__phase_begin(&clock, program->info.seconds, EITP__PHASE_TRANSFER);
    status = eitp__transfer(&program->transfers, instruction, error);
    eitp__phase_end(&clock);
    return status;
}

static eitp_status eitp__cpu_execute(eitp__backend *backend, eitp__program *program, size_t first, size_t end,
                                     const eitp__poll *poll, size_t stoppable, size_t *begun, eitp_error *error) {
    eitp__cpu_program *prepared = (eitp__cpu_program *)(void *)program;
    eitp_status status = EITP_OK;
    eitp__cpu_set_rows(prepared);
    for (*begun = first; *begun < end && !status;) {
        if (prepared->info.instructions[*begun].kind == EITP__COMPUTE)
            status = eitp__cpu_compute(backend, prepared, *begun, end, poll, stoppable, begun, error);
        else
            status = eitp__cpu_transfer(prepared, (*begun)++, error);
    }
    if (status)
        eitp__cpu_wait(backend, NULL);
    return status;
}

static double eitp__cpu_peak(const eitp__backend *backend, eitp_dtype dtype) {
    const eitp__cpu *cpu = (const eitp__cpu *)(const void *)backend;
    return eitp__limits_peak(cpu->threads, cpu->isa, dtype);
}

static eitp_status eitp__cpu_measure(eitp__backend *backend, eitp__backend_limits *limits, eitp_error *error) {
    const eitp__cpu *cpu = (const eitp__cpu *)(void *)backend;
    return eitp__limits_measure(&backend->host, cpu->threads, cpu->isa, limits, error);
}

EITP__PRIVATE const eitp__backend_interface *eitp__cpu_backend(void) {
    static const eitp__backend_interface interface = {
        EITP__BACKEND_API_VERSION,
        "cpu",
        1,
        EITP__HEAD_BLOCK,
        1,
        eitp__cpu_create,
        eitp__cpu_destroy,
        eitp__cpu_describe,
        eitp__cpu_numerics,
        eitp__cpu_preferred_precision,
        eitp__cpu_seconds,
        eitp__cpu_sum_group,
        eitp__cpu_tile_rows,
        eitp__cpu_supports,
        NULL,
        NULL,
        eitp__cpu_allocate,
        eitp__cpu_release,
        eitp__cpu_copy,
        eitp__cpu_copy,
        eitp__cpu_workspace,
        eitp__cpu_prepare,
        eitp__cpu_discard,
        eitp__cpu_execute,
        eitp__cpu_wait,
        eitp__cpu_peak,
        eitp__cpu_measure,
    };
    return &interface;
}
