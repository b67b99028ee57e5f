/*
 * The order of programs on the emulated CUDA device: calls that share launches compute the same bits as one by one.
 * Run with LD_LIBRARY_PATH set (tests/cuda/on_emulated.sh).
 */
#include "tests/support/test.h"

#include <dlfcn.h>

#include "backends/backend.h"
#include "tests/cuda/emulated_hooks.h"
#include "tests/support/cuda_calls.h"

/* Memory: ARRAYS arrays of LENGTH numbers in F64, more than a block of an element-wise kernel computes. Calls use whole
   arrays, or the first SHORT numbers, or the first one. */
enum { ARRAYS = 10, LENGTH = 2100, SHORT = 64, CALLS = 120, BYTES = ARRAYS * LENGTH * 8 };

static unsigned long (*count_launches)(void);
static uint32_t random_state;

static int drawn(int count) {
    random_state = random_state * 1664525u + 1013904223u;
    return (int)(random_state >> 16) % count;
}

/* A program of calls in device memory. */
typedef struct random_program {
    char *memory;
    eitp__call calls[CALLS];
    eitp__instruction instructions[CALLS];
    eitp__program_info info;
    eitp__program *program;
} random_program;

/* Sets x to the first numbers of an array. */
static void set_operand(const random_program *p, eitp__operand *x, int array, int64_t length) {
    memset(x, 0, sizeof *x);
    x->data = p->memory + array * LENGTH * 8;
    x->dtype = EITP_F64;
    x->rank = 1;
    x->shape[0] = x->elements = length;
}

/* Draws a call: SUM of an array, or NEGATE, ADD or FILL of arrays or of single numbers. `arrays` of them are used. */
static void draw_call(const random_program *p, int arrays, eitp__call *call) {
    static const eitp__slot slots[] = {EITP__SLOT_NEGATE, EITP__SLOT_ADD, EITP__SLOT_FILL, EITP__SLOT_SUM};
    static const int inputs[] = {1, 2, 0, 1};
    const int kind = drawn(4);
    const int64_t lengths[] = {1, 1, SHORT, LENGTH}, length = lengths[drawn(4)];
    memset(call, 0, sizeof *call);
    call->slot = slots[kind];
    call->dtype = EITP_F64;
    call->input_count = inputs[kind];
    call->output_count = 1;
    call->reals[0] = drawn(100);
    for (int i = 0; i < call->input_count; i++)
        set_operand(p, &call->inputs[i], drawn(arrays), kind == 3 ? LENGTH : length);
    set_operand(p, &call->outputs[0], drawn(arrays), kind == 3 ? 1 : length);
    /* Operands that are not aligned have other threads for the same numbers. */
    if (length == SHORT && kind < 3 && drawn(2) && call->outputs[0].data != call->inputs[0].data &&
        call->outputs[0].data != call->inputs[1].data)
        call->outputs[0].data = (char *)call->outputs[0].data + 8;
    call->integers[0] = kind == 3;
    if (kind == 3 && call->outputs[0].data == call->inputs[0].data)
        call->outputs[0].data = p->memory + (drawn(arrays) * LENGTH + LENGTH / 2) * 8;
    if (kind == 3 && call->outputs[0].data >= call->inputs[0].data &&
        (char *)call->outputs[0].data < (char *)call->inputs[0].data + LENGTH * 8)
        call->slot = EITP__SLOT_FILL, call->input_count = 0; /* a sum may not overwrite its terms */
}

static void prepare(random_program *p) {
    eitp_error error = EITP__ZERO;
    for (int i = 0; i < CALLS; i++)
        p->instructions[i].call = &p->calls[i];
    p->info.instructions = p->instructions;
    p->info.count = CALLS;
    if (cuda_paths_file()) {
        cuda_record_groups(p->calls, CALLS);
        return;
    }
    CHECK_THAT(!cuda_device->interface->prepare(cuda_device, &p->info, &p->program, &error), "%s", error.message);
}

/* Executes the program from given memory, at once or one instruction at a time, and reads the memory. Returns the
   number of launches. */
static unsigned long execute(random_program *p, const double *before, int at_once, double *after) {
    static const eitp__poll never = {NULL, NULL};
    const eitp__backend_interface *device = cuda_device->interface;
    const unsigned long launches = count_launches();
    eitp_error error = EITP__ZERO;
    size_t begun;
    if (!p->program)
        return 0;
    CHECK(!device->upload(cuda_device, p->memory, before, BYTES, &error));
    for (size_t i = 0; i < CALLS; i += at_once ? CALLS : 1)
        CHECK_THAT(!device->execute(cuda_device, p->program, i, at_once ? CALLS : i + 1, &never, 0, &begun, &error),
                   "%s", error.message);
    CHECK_THAT(!device->wait(cuda_device, &error), "%s", error.message);
    CHECK(!device->download(cuda_device, after, p->memory, BYTES, &error));
    return count_launches() - launches;
}

/* Compares a program with its calls one by one: as launches, and as a graph. Returns the launches that groups save. */
static int compare(random_program *p) {
    static double before[BYTES / 8], apart[BYTES / 8], together[BYTES / 8];
    unsigned long launches = 0;
    for (int i = 0; i < BYTES / 8; i++)
        before[i] = (double)drawn(1000) / 8 - 50;
    execute(p, before, 0, apart);
    for (int k = 0; k < 3; k++) {
        launches = execute(p, before, 1, together);
        CHECK(!memcmp(apart, together, BYTES));
    }
    return CALLS - (int)launches;
}

/* Few arrays: most calls depend on others. Many: most do not. */
static void groups_compute_the_same_bits(void) {
    int saved[2] = {0, 0};
    for (int seed = 0; seed < 24; seed++) {
        random_program p = EITP__ZERO;
        random_state = (uint32_t)seed;
        p.memory = (char *)cuda_device->interface->allocate(cuda_device, EITP__PLACE_DEVICE, BYTES);
        REQUIRE(p.memory);
        for (int i = 0; i < CALLS; i++)
            draw_call(&p, seed % 2 ? ARRAYS : 3, &p.calls[i]);
        prepare(&p);
        saved[seed % 2] += compare(&p);
        if (p.program)
            cuda_device->interface->discard(cuda_device, p.program);
        cuda_device->interface->release(cuda_device, EITP__PLACE_DEVICE, p.memory, BYTES);
    }
    printf("groups save %d of %d launches with few arrays, %d with more\n", saved[0], 12 * CALLS, saved[1]);
    CHECK(saved[0] > 0 && saved[1] > saved[0]);
}

/* The norm of a gradient: one sum per parameter, each added to the sum of those before. */
static void norms_take_two_launches(void) {
    static double before[BYTES / 8], after[BYTES / 8];
    random_program p = EITP__ZERO;
    double sum = 0;
    p.memory = (char *)cuda_device->interface->allocate(cuda_device, EITP__PLACE_DEVICE, BYTES);
    REQUIRE(p.memory);
    for (int i = 0; i < BYTES / 8; i++)
        before[i] = i % 11;
    for (int i = 0; i < CALLS; i += 2) {
        eitp__call *of_array = &p.calls[i], *total = &p.calls[i + 1];
        of_array->slot = EITP__SLOT_SUM;
        total->slot = EITP__SLOT_ADD;
        of_array->dtype = total->dtype = EITP_F64;
        of_array->output_count = total->output_count = of_array->input_count = 1;
        of_array->integers[0] = 1;
        total->input_count = 2;
        set_operand(&p, &of_array->inputs[0], 4, LENGTH);
        set_operand(&p, &of_array->outputs[0], 0, 1);
        of_array->outputs[0].data = p.memory + i / 2 * 8;
        set_operand(&p, &total->inputs[0], 3, 1);
        set_operand(&p, &total->outputs[0], 3, 1);
        total->inputs[1] = of_array->outputs[0];
    }
    prepare(&p);
    for (int k = 0; k < LENGTH; k++)
        sum += before[4 * LENGTH + k];
    CHECK(execute(&p, before, 1, after) == 2);
    CHECK_THAT(after[3 * LENGTH] == before[3 * LENGTH] + CALLS / 2 * sum, "%.17g", after[3 * LENGTH]);
    if (p.program)
        cuda_device->interface->discard(cuda_device, p.program);
    cuda_device->interface->release(cuda_device, EITP__PLACE_DEVICE, p.memory, BYTES);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {TEST(groups_compute_the_same_bits), TEST(norms_take_two_launches)};
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *hook = driver ? dlsym(driver, "emulated_cuda_launches") : NULL;
    int failed;
    if (!hook) {
        printf("needs the emulated device: see tests/cuda/on_emulated.sh\n");
        return 1;
    }
    memcpy(&count_launches, &hook, sizeof hook);
    cuda_open();
    failed = RUN_TESTS(tests, argc, argv);
    cuda_device->interface->destroy(cuda_device);
    return failed;
}
