/*
 * The CUDA backend on the emulated device: every call of the driver and the compiler fails once, parts are missing, the
 * cache is damaged. Run with LD_LIBRARY_PATH set (tests/cuda/on_emulated.sh); otherwise only the tests without a driver
 * run.
 */
#include "tests/support/trainer_run.h"

#include "backends/cuda/cuda.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include "tests/cuda/emulated_hooks.h"
#include "tests/support/cuda_calls.h"
#include "tests/support/cuda_launches.h"

/* The emulated libraries, or NULL. */
static struct {
    int (*live)(void);
    unsigned long (*calls)(void), (*launches)(void), (*graph_launches)(void), (*spins)(void);
    void (*restart)(void);
    int (*compiler_live)(void);
    int (*products_live)(void);
    unsigned long (*products_calls)(void), (*products)(void);
} emulated;

static int has_emulated(void) {
    return emulated.live != NULL;
}

static void find_hook(void *library, const char *name, void *hook) {
    void *address = library ? dlsym(library, name) : NULL;
    memcpy(hook, &address, sizeof address);
}

static void find_emulated(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *compiler = dlopen("libnvrtc.so.13", RTLD_NOW);
    void *products = dlopen("libcublasLt.so.13", RTLD_NOW);
    find_hook(driver, "emulated_cuda_live", &emulated.live);
    find_hook(driver, "emulated_cuda_calls", &emulated.calls);
    find_hook(driver, "emulated_cuda_launches", &emulated.launches);
    find_hook(driver, "emulated_cuda_graph_launches", &emulated.graph_launches);
    find_hook(driver, "emulated_cuda_spins", &emulated.spins);
    find_hook(driver, "emulated_cuda_restart", &emulated.restart);
    find_hook(compiler, "emulated_nvrtc_live", &emulated.compiler_live);
    find_hook(products, "emulated_cublaslt_live", &emulated.products_live);
    find_hook(products, "emulated_cublaslt_calls", &emulated.products_calls);
    find_hook(products, "emulated_cublaslt_products", &emulated.products);
}

/* Returns the number of objects of the emulated libraries not destroyed. */
static int count_live(void) {
    return emulated.live() + emulated.compiler_live() + emulated.products_live();
}

/* Restarts the device with one more environment variable, or none if name is NULL. */
static void restart_with(const char *name, const char *value) {
    static const char *set;
    if (set)
        unsetenv(set);
    set = name;
    if (name)
        setenv(name, value, 1);
    emulated.restart();
}

/* ---- A plan ---- */

/* Counted by execute_sum: warnings with these words. */
static struct {
    const char *words; /* NULL: none are counted */
    int count;
} logged;

static void count_logged(void *user, eitp_log_level level, const char *message) {
    (void)user;
    logged.count += level == EITP_LOG_WARNING && strstr(message, logged.words);
}

/* Computes y = relu(x) + x, executed `times` times on a device. Returns the first failure. Sets *right if the values
   are right. */
static eitp_status execute_sum(const char *device, int times, int *right, eitp_error *error) {
    const int64_t shape[] = {3, 70};
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *x, *y = NULL;
    float values[210], result[210];
    eitp_status status;
    for (int i = 0; i < 210; i++)
        values[i] = (float)(i % 7 - 3);
    config.device = device;
    config.precision = "fp32";
    if (logged.words)
        config.host.log.write = count_logged;
    *right = 0;
    status = eitp_context_create(&config, &context, error);
    if (!status)
        status = eitp_graph_create(context, &graph, error);
    if (!status) {
        x = eitp_input(graph, "x", EITP_F32, 2, shape);
        y = eitp_output(eitp_add(eitp_relu(x), x));
        status = eitp_plan_create(graph, &plan, error);
        for (int i = 0; i < times && !status; i++) {
            status = eitp_plan_write(plan, x, values, sizeof values, error);
            status = status ? status : eitp_plan_execute(plan, error);
            status = status ? status : eitp_plan_read(plan, y, result, sizeof result, error);
            *right = 1;
            for (int k = 0; k < 210 && !status; k++)
                *right &= result[k] == (values[k] > 0 ? 2 * values[k] : values[k]);
        }
    }
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
    return status;
}

/* Executes the plan of execute_sum three times, with one more environment variable. Returns the graphs launched. */
static unsigned long count_graphs(const char *variable, const char *value) {
    eitp_error error = EITP__ZERO;
    int right;
    restart_with(variable, value);
    CHECK_THAT(!execute_sum("cuda", 3, &right, &error) && right, "%s", error.message);
    CHECK_THAT(emulated.launches() == 6, "%lu launches", emulated.launches());
    CHECK(count_live() == 0);
    return emulated.graph_launches();
}

/* A value of an environment variable is refused, with these words. */
static void refuses_value(const char *variable, const char *value, const char *words) {
    eitp_error error = EITP__ZERO;
    int right;
    restart_with(variable, value);
    CHECK_THAT(execute_sum("cuda", 1, &right, &error) == EITP_ERROR_ARGUMENT && strstr(error.message, words),
               "%s=%s: %s", variable, value, error.message);
    restart_with(NULL, NULL);
    CHECK(count_live() == 0);
}

/* The first execution loads the kernels, which is not permitted during a capture. */
static void a_plan_becomes_one_graph(void) {
    CHECK(count_graphs(NULL, NULL) == 2);
    CHECK_THAT(emulated.spins() == 0, "the host keeps a core busy %lu times", emulated.spins());
}

/* A failed capture is reported once, and not tried again. */
static void graphs_are_optional(void) {
    static const char *const failures[] = {"cuStreamBeginCapture_v2:1", "cuStreamEndCapture:1",
                                           "cuGraphInstantiateWithFlags:1"};
    logged.words = "cannot record a CUDA graph";
    logged.count = 0;
    for (size_t i = 0; i < EITP__COUNT(failures); i++) {
        CHECK_THAT(count_graphs("EITP_EMULATED_CUDA_FAIL", failures[i]) == 0, "%s", failures[i]);
        CHECK_THAT(logged.count == (int)i + 1, "%s: %d warnings", failures[i], logged.count);
    }
    CHECK(count_graphs("EITP_CUDA_GRAPH", "0") == 0 && count_graphs("EITP_CUDA_GRAPH", "1") == 2);
    CHECK(logged.count == (int)EITP__COUNT(failures));
    logged.words = NULL;
    refuses_value("EITP_CUDA_GRAPH", "off", "'off' in EITP_CUDA_GRAPH (choose from 0, 1)");
}

/* Profiled programs are executed without graphs. */
static void profiles_are_chosen(void) {
    CHECK(count_graphs("EITP_CUDA_PROFILE", "1") == 0);
    CHECK_THAT(emulated.spins() == 0, "the host keeps a core busy %lu times", emulated.spins());
    CHECK(count_graphs("EITP_CUDA_PROFILE", "0") == 2 && count_graphs("EITP_CUDA_PROFILE", "") == 2);
    refuses_value("EITP_CUDA_PROFILE", "yes", "'yes' in EITP_CUDA_PROFILE (choose from 0, 1)");
    setenv("EITP_CUDA_PROFILE", "1", 1);
    refuses_value("EITP_CUDA_GRAPH", "1", "one by one, which EITP_CUDA_GRAPH=1 forbids");
    CHECK(count_graphs("EITP_CUDA_GRAPH", "0") == 0);
    unsetenv("EITP_CUDA_PROFILE");
    restart_with(NULL, NULL);
}

/* If times cannot be measured, there is a warning, and graphs are used from then on: in the second execution if the
   events of the profile cannot be created, after it if they cannot be read. Phases have two events before, and one time
   per execution. */
static void profiles_are_optional(void) {
    static const struct {
        const char *failure;
        unsigned long graphs;
    } failures[] = {{"cuEventCreate:6", 2}, {"cuEventCreate:7", 2}, {"cuEventElapsedTime:2", 1}};
    setenv("EITP_CUDA_PROFILE", "1", 1);
    logged.words = "cannot measure the times of GPU kernels (cuEvent";
    logged.count = 0;
    for (size_t i = 0; i < EITP__COUNT(failures); i++) {
        const unsigned long graphs = count_graphs("EITP_EMULATED_CUDA_FAIL", failures[i].failure);
        CHECK_THAT(graphs == failures[i].graphs, "%s: %lu graphs", failures[i].failure, graphs);
        CHECK_THAT(logged.count == (int)i + 1, "%s: %d warnings", failures[i].failure, logged.count);
    }
    logged.words = NULL;
    unsetenv("EITP_CUDA_PROFILE");
    restart_with(NULL, NULL);
}

/* ---- A plan with products ---- */

enum { CAPACITY = 26, WIDTH = 8, RESULTS = 16 }; /* blocks of the arena are not aligned to 256 bytes */

/* h = relu(x), y = h w^T, and the sums y^T h and y^T kept over the rows. The program computes h and y, but not `kept`.
   */
typedef struct product_plan {
    eitp_context *context;
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_tensor *x, *w, *kept, *y, *sums, *kept_sums;
} product_plan;

static eitp_status create_products(product_plan *made, eitp_error *error) {
    const int64_t rows[] = {CAPACITY, WIDTH}, weights[] = {RESULTS, WIDTH};
    eitp_context_config config = eitp_context_config_default();
    eitp_tensor *h;
    eitp_status status;
    memset(made, 0, sizeof *made);
    config.device = "cuda";
    config.precision = "fp32";
    status = eitp_context_create(&config, &made->context, error);
    status = status ? status : eitp_graph_create(made->context, &made->graph, error);
    if (status)
        return status;
    made->x = eitp_input_rows(made->graph, "x", EITP_F32, 2, rows);
    made->w = eitp_input(made->graph, "w", EITP_F32, 2, weights);
    made->kept = eitp_keep_input(eitp_input_rows(made->graph, "kept", EITP_F32, 2, rows));
    h = eitp_relu(made->x);
    made->y = eitp_output(eitp_matmul_transposed(h, made->w, 0, 1));
    made->sums = eitp_output(eitp_matmul_wide(made->y, h, 1, 0));
    made->kept_sums = eitp_output(eitp_matmul_wide(made->y, made->kept, 1, 0));
    return eitp_plan_create(made->graph, &made->plan, error);
}

static float product_value(int seed, int i) {
    return (float)((i * 7 + seed * 5) % 23 - 11) / 8;
}

/* Checks y, and a weighted sum of y with weights `factor` for its rows. */
static int has_right_sums(const float *y, const float *sums, const float *factor, int rows) {
    int right = 1;
    for (int i = 0; i < RESULTS * WIDTH; i++) {
        double sum = 0;
        for (int r = 0; r < rows; r++)
            sum += (double)y[r * RESULTS + i / WIDTH] * (double)factor[r * WIDTH + i % WIDTH];
        right &= fabs(sum - (double)sums[i]) <= 1e-4;
    }
    return right;
}

/* Executes with a number of rows of x, filled with `values`. */
static eitp_status execute_rows(product_plan *on, int rows, const float *values, const float *kept, int *right,
                                eitp_error *error) {
    float w[RESULTS * WIDTH], y[CAPACITY * RESULTS], sums[RESULTS * WIDTH], kept_sums[RESULTS * WIDTH];
    float h[CAPACITY * WIDTH];
    const size_t y_size = (size_t)(rows * RESULTS) * sizeof *y;
    eitp_status status = eitp_plan_set_rows(on->plan, rows, error);
    for (int i = 0; i < RESULTS * WIDTH; i++)
        w[i] = product_value(2, i);
    for (int i = 0; i < rows * WIDTH; i++)
        h[i] = values[i] > 0 ? values[i] : 0;
    status = status ? status : eitp_plan_write(on->plan, on->w, w, sizeof w, error);
    status = status ? status : eitp_plan_write(on->plan, on->x, values, (size_t)(rows * WIDTH) * sizeof *values, error);
    status = status ? status : eitp_plan_execute(on->plan, error);
    status = status ? status : eitp_plan_read(on->plan, on->y, y, y_size, error);
    status = status ? status : eitp_plan_read(on->plan, on->sums, sums, sizeof sums, error);
    status = status ? status : eitp_plan_read(on->plan, on->kept_sums, kept_sums, sizeof kept_sums, error);
    for (int i = 0; i < rows * RESULTS && !status; i++) {
        double sum = 0;
        for (int k = 0; k < WIDTH; k++)
            sum += (double)h[i / RESULTS * WIDTH + k] * (double)w[i % RESULTS * WIDTH + k];
        *right &= fabs(sum - (double)y[i]) <= 1e-5;
    }
    if (!status)
        *right &= has_right_sums(y, sums, h, rows) && has_right_sums(y, kept_sums, kept, rows);
    return status;
}

/* Executes with all rows, some of them infinite, then without these, then with all again. */
static eitp_status execute_products(int *right, eitp_error *error) {
    float values[CAPACITY * WIDTH], infinite[CAPACITY * WIDTH], kept[CAPACITY * WIDTH];
    product_plan on;
    int ignored = 1;
    eitp_status status = create_products(&on, error);
    *right = 1;
    for (int i = 0; i < CAPACITY * WIDTH; i++) {
        values[i] = product_value(1, i);
        infinite[i] = i < 10 * WIDTH ? values[i] : INFINITY;
        kept[i] = product_value(3, i);
    }
    status = status ? status : eitp_plan_write(on.plan, on.kept, kept, sizeof kept, error);
    status = status ? status : execute_rows(&on, CAPACITY, infinite, kept, &ignored, error);
    status = status ? status : execute_rows(&on, 10, values, kept, right, error);
    status = status ? status : execute_rows(&on, CAPACITY, values, kept, right, error);
    eitp_plan_destroy(on.plan);
    eitp_graph_destroy(on.graph);
    eitp_context_destroy(on.context);
    return status;
}

/* Sums over rows exclude the rows absent from an execution, while inputs keep theirs. cuBLASLt computes y and the sum
   over computed values: once in the first execution, and once in the graph. */
static void products_of_cublaslt(void) {
    eitp_error error = EITP__ZERO;
    unsigned long before = emulated.products();
    int right;
    restart_with("EITP_CUDA_PRODUCTS", "cublaslt");
    CHECK_THAT(!execute_products(&right, &error) && right, "%s", error.message);
    CHECK_THAT(emulated.products() - before == 4, "%lu products", emulated.products() - before);
    before = emulated.products();
    restart_with("EITP_CUDA_PRODUCTS", "own");
    CHECK_THAT(!execute_products(&right, &error) && right, "%s", error.message);
    restart_with(NULL, NULL);
    CHECK_THAT(!execute_products(&right, &error) && right, "%s", error.message);
    CHECK_THAT(emulated.products() == before, "%lu small products", emulated.products() - before);
    CHECK(count_live() == 0);
}

/* A product for which cuBLASLt has no algorithm uses eitp's kernels. */
static void products_that_cublaslt_refuses(void) {
    const unsigned long before = emulated.products();
    eitp_error error = EITP__ZERO;
    int right;
    restart_with("EITP_CUDA_PRODUCTS", "cublaslt");
    setenv("EITP_EMULATED_CUBLASLT_FAIL", "cublasLtMatmulAlgoGetHeuristic:1:15", 1);
    CHECK_THAT(!execute_products(&right, &error) && right, "%s", error.message);
    unsetenv("EITP_EMULATED_CUBLASLT_FAIL");
    restart_with(NULL, NULL);
    CHECK_THAT(emulated.products() - before == 2, "%lu products", emulated.products() - before);
}

static void check_names(const char *value, const char *described, const char *numerics) {
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp_error error = EITP__ZERO;
    restart_with("EITP_CUDA_PRODUCTS", value);
    config.device = "cuda";
    CHECK_THAT(!eitp_context_create(&config, &context, &error), "%s", error.message);
    CHECK_THAT(context && strstr(eitp_context_description(context), described), "%s",
               eitp_context_description(context));
    CHECK_THAT(context && !strstr(eitp_context_numerics(context), "cublaslt") == !numerics &&
                   (!numerics || strstr(eitp_context_numerics(context), numerics)),
               "%s", eitp_context_numerics(context));
    eitp_context_destroy(context);
    restart_with(NULL, NULL);
}

static void keep_warning(void *user, eitp_log_level level, const char *message) {
    if (level == EITP_LOG_WARNING)
        snprintf((char *)user, 400, "%s", message);
}

/* Checks the error and the warning, by a part and by the start; "": none. */
static void open_without_library(const char *value, eitp_status expected, const char *what, const char *warned) {
    eitp_host host = eitp_host_default();
    char warning[400] = "";
    eitp__cuda_driver driver;
    eitp__cuda_blas blas;
    eitp_error error = EITP__ZERO;
    memset(&driver, 0, sizeof driver);
    driver.version = 11000; /* too old for any library */
    host.log.write = keep_warning;
    host.log.user = warning;
    setenv("EITP_CUDA_PRODUCTS", value, 1);
    CHECK(eitp__cuda_blas_open(&blas, &host, &driver, NULL, 90, 0, &error) == expected && !blas.version);
    CHECK_THAT(strstr(error.message, what), "%s", error.message);
    CHECK_THAT(strncmp(warning, warned, strlen(warned)) == 0 && !*warning == !*warned, "%s", warning);
    eitp__cuda_blas_close(&blas);
    unsetenv("EITP_CUDA_PRODUCTS");
}

/* EITP_CUDA_PRODUCTS, and the warning if cuBLASLt is missing. */
static void products_are_chosen(void) {
    check_names("", "matrix products by cuBLASLt 13.1", "-cublaslt.13.1.0-");
    check_names("cublaslt", "matrix products by cuBLASLt 13.1", "-all");
    check_names("own", "matrix products by eitp's own kernels", NULL);
    open_without_library(
        "", EITP_OK, "",
        "matrix products, most of the work of a step, will be slower with eitp's own kernels: no usable "
        "cuBLASLt: the NVIDIA driver has CUDA 11.0");
    open_without_library("own", EITP_OK, "", "");
    open_without_library("cublaslt", EITP_ERROR_UNSUPPORTED, "no usable cuBLASLt: the NVIDIA driver has CUDA 11.0", "");
    open_without_library("openblas", EITP_ERROR_ARGUMENT, "'openblas'", "");
}

/* ---- TF32 ---- */

/* Computes 4 times the value as each element of *y: the sum of a product with ones. */
static eitp_status sum_four(eitp_context *context, float value, float *y, eitp_error *error) {
    static const float ones[] = {1, 1, 1, 1};
    const float values[] = {value, value, value, value};
    const int64_t row[] = {1, 4}, column[] = {4, 1};
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *a, *b, *sum;
    eitp_status status = eitp_graph_create(context, &graph, error);
    if (status)
        return status;
    a = eitp_input(graph, "a", EITP_F32, 2, row);
    b = eitp_input(graph, "b", EITP_F32, 2, column);
    sum = eitp_output(eitp_matmul(a, b));
    status = eitp_plan_create(graph, &plan, error);
    status = status ? status : eitp_plan_write(plan, a, values, sizeof values, error);
    status = status ? status : eitp_plan_write(plan, b, ones, sizeof ones, error);
    status = status ? status : eitp_plan_execute(plan, error);
    status = status ? status : eitp_plan_read(plan, sum, y, sizeof *y, error);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    return status;
}

static void count_warnings(void *user, eitp_log_level level, const char *message) {
    *(int *)user += level == EITP_LOG_WARNING && strstr(message, "TF32");
}

/* Checks whether a value of 13 bits is rounded to 11, as devices with a certain capability do if allowed. */
static void check_tf32(int is_allowed, const char *capability, int is_rounded) {
    const float value = 1 + 1.0f / 4096;
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp_error error = EITP__ZERO;
    float y = 0;
    int warnings = 0;
    setenv("EITP_CUDA_PRODUCTS", "cublaslt", 1);
    restart_with("EITP_EMULATED_CUDA_CAPABILITY", capability);
    config.device = "cuda";
    config.precision = "fp32";
    config.allow_tf32 = is_allowed;
    config.host.log.write = count_warnings;
    config.host.log.user = &warnings;
    CHECK_THAT(!eitp_context_create(&config, &context, &error) && !sum_four(context, value, &y, &error), "%s",
               error.message);
    CHECK_THAT(y == (is_rounded ? 4 : 4 * value), "%.9g", (double)y);
    CHECK_THAT(!strstr(eitp_context_numerics(context), "-tf32") == !is_rounded, "%s", eitp_context_numerics(context));
    CHECK(!strstr(eitp_context_description(context), "with TF32") == !is_rounded);
    CHECK(warnings == (is_allowed && !is_rounded));
    eitp_context_destroy(context);
    unsetenv("EITP_CUDA_PRODUCTS");
    restart_with(NULL, NULL);
}

static void tf32_is_used_if_it_is_allowed(void) {
    check_tf32(0, "8.6", 0);
    check_tf32(1, "8.6", 1);
    check_tf32(1, "7.5", 0);
}

/* ---- Which products ---- */

/* y [m, n] = a [m, k] b [k, n] in a batch. */
static eitp__call plain_product(eitp_dtype dtype, int64_t batch, int64_t m, int64_t n, int64_t k) {
    eitp__call call = EITP__ZERO;
    const int64_t rows[] = {m, k, m}, columns[] = {k, n, n};
    eitp__operand *operands[] = {&call.inputs[0], &call.inputs[1], &call.outputs[0]};
    call.slot = EITP__SLOT_MATMUL;
    call.dtype = dtype;
    call.input_count = 2;
    call.output_count = 1;
    for (int i = 0; i < 3; i++) {
        operands[i]->dtype = dtype;
        operands[i]->rank = 3;
        operands[i]->shape[0] = batch;
        operands[i]->shape[1] = rows[i];
        operands[i]->shape[2] = columns[i];
        operands[i]->elements = batch * rows[i] * columns[i];
    }
    return call;
}

static eitp__call product_over_rows(int64_t rows) {
    eitp__call call = plain_product(EITP_F32, 1, 64, 64, rows);
    eitp__operand *operands[] = {&call.inputs[0], &call.inputs[1], &call.outputs[0]};
    call.integers[0] = 1;
    for (int i = 0; i < 3; i++) {
        operands[i]->rank = 2;
        operands[i]->shape[0] = i < 2 ? rows : 64;
        operands[i]->shape[1] = 64;
        operands[i]->row_elements = i < 2 ? 64 : 0;
    }
    return call;
}

/* Adds an operand with the shape of y, and an epilogue, to a call. */
static eitp__call with_epilogue(eitp__call call, eitp__epilogue epilogue) {
    call.integers[2] = epilogue;
    call.input_count = 4;
    if (epilogue == EITP__EPILOGUE_ADD || epilogue >= EITP__EPILOGUE_GELU_TANH_BACKWARD)
        call.inputs[3] = call.outputs[0];
    return call;
}

static eitp__call with_bias(eitp__call call) {
    call.input_count = call.input_count > 3 ? call.input_count : 3;
    call.inputs[2].dtype = EITP_F32;
    call.inputs[2].rank = 1;
    call.inputs[2].elements = call.inputs[2].shape[0] = call.outputs[0].shape[2];
    return call;
}

static eitp__call with_before(eitp__call call) {
    call.output_count = 2;
    call.outputs[1] = call.outputs[0];
    return call;
}

/* True if cuBLASLt takes a call on a device with this capability, and small products too if takes_small. */
static int takes(int capability, int takes_small, eitp__call call) {
    eitp__cuda_blas blas;
    memset(&blas, 0, sizeof blas);
    blas.version = 130100;
    blas.capability = capability;
    blas.takes_small = takes_small;
    return eitp__cuda_blas_takes(&blas, &call);
}

static void products_by_size_and_type(void) {
    eitp__call call = plain_product(EITP_F32, 6, 64, 64, 64);
    CHECK(takes(86, 0, plain_product(EITP_F32, 1, 64, 64, 64)) &&
          !takes(86, 0, plain_product(EITP_F32, 1, 64, 64, 63)));
    CHECK(takes(86, 1, plain_product(EITP_F32, 1, 1, 1, 1)) && !takes(86, 1, plain_product(EITP_F32, 1, 1, 1, 0)));
    CHECK(takes(80, 1, plain_product(EITP_BF16, 1, 2, 3, 4)) && !takes(75, 1, plain_product(EITP_BF16, 1, 2, 3, 4)));
    CHECK(takes(75, 1, plain_product(EITP_F16, 1, 2, 3, 4)) && !takes(90, 1, plain_product(EITP_F64, 1, 64, 64, 64)));
    CHECK(takes(86, 0, call));
    call.inputs[1].shape[0] = 1;
    call.inputs[1].elements /= 6;
    CHECK(takes(86, 0, call));
    call.inputs[0].shape[0] = 2;
    call.inputs[1].shape[0] = 3;
    call.inputs[0].elements /= 3;
    call.inputs[1].elements *= 3;
    CHECK(!takes(86, 0, call)); /* shapes [2, 1] and [1, 3] broadcast both ways */
}

/* All operands of an epilogue have the type of y, except the bias. `before` is the input of an activation. */
static void products_by_epilogue(void) {
    static const eitp_dtype types[] = {EITP_F32, EITP_BF16};
    for (int e = 0; e < EITP__EPILOGUE_COUNT; e++)
        for (size_t t = 0; t < EITP__COUNT(types); t++) {
            const eitp__call call = with_epilogue(plain_product(types[t], 1, 64, 64, 64), (eitp__epilogue)e);
            const int activates = e > EITP__EPILOGUE_ADD;
            eitp__call accumulated = call, mixed = with_before(call);
            accumulated.accumulates = 1;
            mixed.outputs[1].dtype = EITP_F16;
            CHECK_THAT(takes(86, 0, call) && takes(86, 0, with_bias(call)), "epilogue %d", e);
            CHECK_THAT(takes(86, 0, with_before(call)) == activates && !takes(86, 0, mixed), "epilogue %d", e);
            CHECK_THAT(takes(86, 0, accumulated) == (e == EITP__EPILOGUE_NONE), "epilogue %d", e);
        }
}

/* cuBLASLt computes GELU (tanh) where that is one kernel and aux is allowed; otherwise eitp's kernels do. */
static void activations_by_device(void) {
    static const struct {
        int capability, epilogue, has_bias, has_before, columns, before_at; /* address of `before` */
        unsigned bits;                                                      /* cublasLtEpilogue_t */
        int has_rest;
    } cases[] = {
        {86, EITP__EPILOGUE_NONE, 0, 0, 60, 4096, 1, 0},
        {90, EITP__EPILOGUE_ADD, 1, 0, 60, 4096, 4, 0},
        {90, EITP__EPILOGUE_GELU_TANH, 1, 1, 64, 4096, 164, 0},
        {100, EITP__EPILOGUE_GELU_TANH, 0, 1, 64, 4096, 160, 0},
        {90, EITP__EPILOGUE_GELU_TANH, 1, 0, 60, 4096, 36, 0},
        {90, EITP__EPILOGUE_GELU_TANH, 1, 1, 60, 4096, 4, 1},
        {90, EITP__EPILOGUE_GELU_TANH, 1, 1, 64, 4104, 4, 1},
        {89, EITP__EPILOGUE_GELU_TANH, 1, 1, 64, 4096, 4, 1},
        {120, EITP__EPILOGUE_GELU_TANH, 0, 1, 64, 4096, 1, 1},
        {90, EITP__EPILOGUE_GELU_TANH_BACKWARD, 0, 0, 64, 4096, 192, 0},
        {90, EITP__EPILOGUE_GELU_TANH_BACKWARD, 0, 0, 60, 4096, 1, 1},
        {90, EITP__EPILOGUE_GELU_TANH_BACKWARD, 1, 0, 64, 4096, 4, 1},
        {90, EITP__EPILOGUE_GELU_TANH_BACKWARD, 0, 1, 64, 4096, 1, 1},
        {90, EITP__EPILOGUE_GELU_ERF, 1, 1, 64, 4096, 4, 1},
        {90, EITP__EPILOGUE_SILU_BACKWARD, 0, 0, 64, 4096, 1, 1},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        static eitp__blas_division division;
        void *const y = (void *)(uintptr_t)8192, *const rounded = (void *)(uintptr_t)16384;
        void *const before = (void *)(uintptr_t)cases[i].before_at;
        eitp__call call =
            with_epilogue(plain_product(EITP_BF16, 1, 64, cases[i].columns, 64), (eitp__epilogue)cases[i].epilogue);
        eitp__cuda_blas blas;
        eitp__cuda_device device;
        memset(&blas, 0, sizeof blas);
        memset(&device, 0, sizeof device);
        blas.capability = device.capability = cases[i].capability;
        call = cases[i].has_bias ? with_bias(call) : call;
        call = cases[i].has_before ? with_before(call) : call;
        call.outputs[0].data = y;
        call.outputs[1].data = cases[i].has_before ? before : NULL;
        eitp__cuda_blas_divide(&blas, &device, &call, cases[i].has_bias ? rounded : NULL, &division);
        CHECK_THAT(eitp__cuda_blas_epilogue(&division.product) == cases[i].bits &&
                       !division.rest_kernels == !cases[i].has_rest &&
                       !division.rounding_kernels == !cases[i].has_bias &&
                       division.product.outputs[0].data == (cases[i].has_rest && cases[i].has_before ? before : y),
                   "case %d: epilogue %u, rest %d", (int)i, eitp__cuda_blas_epilogue(&division.product),
                   division.rest_kernels != NULL);
    }
}

static void products_by_rows(void) {
    eitp__call call = product_over_rows(128);
    CHECK(eitp__cuda_blas_sums_rows(&call) && takes(86, 0, call));
    call.inputs[1].row_elements = 0;
    CHECK(!takes(86, 0, call));
    call = product_over_rows(64);
    call.integers[1] = 1; /* the number of columns of y would vary */
    CHECK(!takes(86, 0, call));
    call = product_over_rows(64);
    call.integers[0] = 0;
    call.inputs[1].row_elements = 0;
    call.outputs[0].row_elements = 64;
    CHECK(!eitp__cuda_blas_sums_rows(&call) && takes(86, 0, call));
}

/* ---- Rows missing from an execution ---- */

enum { TAIL_CAPACITY = 140, TAIL_ROWS = 33, TAIL_M = 16, TAIL_N = 8 };

static eitp__operand rows_of(void *data, eitp_dtype dtype, int64_t columns) {
    eitp__operand x = EITP__ZERO;
    x.data = data;
    x.dtype = dtype;
    x.rank = 2;
    x.shape[0] = x.row_limit = TAIL_CAPACITY;
    x.shape[1] = x.row_elements = columns;
    x.elements = TAIL_CAPACITY * columns;
    return x;
}

static eitp__call negation(const eitp__operand *x, void *to) {
    eitp__call call = EITP__ZERO;
    call.slot = EITP__SLOT_NEGATE;
    call.dtype = x->dtype;
    call.input_count = call.output_count = 1;
    call.inputs[0] = call.outputs[0] = *x;
    call.outputs[0].data = to;
    return call;
}

/* A program that negates two factors with fewer rows than there is memory for, and sums their product over rows. */
typedef struct tail_program {
    eitp__call calls[3];
    char *memory;
    double a[TAIL_CAPACITY * TAIL_M], b[TAIL_CAPACITY * TAIL_N];
    float y[TAIL_M * TAIL_N];
} tail_program;

enum { TAIL_PLACE = 1 << 14, TAIL_PLACES = 6 }; /* bytes of an operand: factors, negated ones, y, the number of rows */

static void make_tail_program(tail_program *p, eitp_dtype dtype) {
    eitp__call *product = &p->calls[2];
    const eitp__operand a = rows_of(p->memory, dtype, TAIL_M), b = rows_of(p->memory + TAIL_PLACE, dtype, TAIL_N);
    p->calls[0] = negation(&a, p->memory + 2 * TAIL_PLACE);
    p->calls[1] = negation(&b, p->memory + 3 * TAIL_PLACE);
    memset(product, 0, sizeof *product);
    product->slot = EITP__SLOT_MATMUL;
    product->dtype = dtype;
    product->input_count = 2;
    product->output_count = 1;
    product->inputs[0] = p->calls[0].outputs[0];
    product->inputs[1] = p->calls[1].outputs[0];
    product->outputs[0] = rows_of(p->memory + 4 * TAIL_PLACE, EITP_F32, TAIL_N);
    product->outputs[0].shape[0] = TAIL_M;
    product->outputs[0].elements = TAIL_M * TAIL_N;
    product->outputs[0].row_elements = product->outputs[0].row_limit = 0;
    product->integers[0] = 1;
}

/* Fills the memory of a program: NaN where it writes, and in rows that the execution does not have. */
static void fill_tail_program(tail_program *p, eitp_dtype dtype) {
    static uint32_t bytes[TAIL_PLACES * TAIL_PLACE / 4];
    const int64_t rows = TAIL_ROWS;
    double *const values[] = {p->a, p->b};
    const int columns[] = {TAIL_M, TAIL_N};
    eitp_error error = EITP__ZERO;
    memset(bytes, 0xff, sizeof bytes);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < TAIL_ROWS * columns[k]; i++) {
            const float value = product_value(k, i);
            void *place = (char *)bytes + k * TAIL_PLACE;
            values[k][i] = (double)value;
            if (dtype == EITP_F32)
                ((float *)place)[i] = value;
            else
                ((uint16_t *)place)[i] = eitp__f32_to_bf16(value);
        }
    memcpy((char *)bytes + 5 * TAIL_PLACE, &rows, sizeof rows);
    CHECK(!cuda_device->interface->upload(cuda_device, p->memory, bytes, sizeof bytes, &error));
}

static void execute_tail_program(tail_program *p, void *workspace) {
    static const eitp__poll never = {NULL, NULL};
    const eitp__backend_interface *device = cuda_device->interface;
    eitp__instruction instructions[3];
    eitp__program_info info = EITP__ZERO;
    eitp__program *program = NULL;
    eitp_error error = EITP__ZERO;
    size_t begun;
    memset(instructions, 0, sizeof instructions);
    for (int i = 0; i < 3; i++)
        instructions[i].call = &p->calls[i];
    info.instructions = instructions;
    info.count = 3;
    info.rows = p->memory + 5 * TAIL_PLACE;
    info.workspace = workspace;
    CHECK_THAT(!device->prepare(cuda_device, &info, &program, &error) &&
                   !device->execute(cuda_device, program, 0, 3, &never, 0, &begun, &error) &&
                   !device->wait(cuda_device, &error) &&
                   !device->download(cuda_device, p->y, p->calls[2].outputs[0].data, sizeof p->y, &error),
               "%s", error.message);
    device->discard(cuda_device, program);
}

/* cuBLASLt sums all rows that there is memory for: those that an execution does not have become zeros. */
static void missing_rows_are_cleared(void) {
    static const eitp_dtype dtypes[] = {EITP_F32, EITP_BF16};
    static tail_program p;
    restart_with("EITP_CUDA_PRODUCTS", "cublaslt");
    cuda_open();
    for (size_t t = 0; t < EITP__COUNT(dtypes); t++) {
        const eitp__backend_interface *device = cuda_device->interface;
        const unsigned long before = emulated.products();
        size_t size;
        int wrong = 0;
        void *workspace;
        p.memory = (char *)device->allocate(cuda_device, EITP__PLACE_DEVICE, TAIL_PLACES * TAIL_PLACE);
        REQUIRE(p.memory);
        make_tail_program(&p, dtypes[t]);
        if (cuda_paths_file()) {
            cuda_record_calls(&p.calls[2], 1);
            continue;
        }
        size = device->workspace(cuda_device, &p.calls[2]);
        workspace = device->allocate(cuda_device, EITP__PLACE_DEVICE, size);
        fill_tail_program(&p, dtypes[t]);
        execute_tail_program(&p, workspace);
        for (int i = 0; i < TAIL_M * TAIL_N; i++) {
            double sum = 0;
            for (int r = 0; r < TAIL_ROWS; r++)
                sum += p.a[r * TAIL_M + i / TAIL_N] * p.b[r * TAIL_N + i % TAIL_N];
            wrong += !(fabs((double)p.y[i] - sum) <= 1e-4);
        }
        CHECK_THAT(!wrong && emulated.products() - before == 1, "%s: %d of %d wrong", eitp_dtype_name(dtypes[t]), wrong,
                   TAIL_M * TAIL_N);
        device->release(cuda_device, EITP__PLACE_DEVICE, workspace, size);
        device->release(cuda_device, EITP__PLACE_DEVICE, p.memory, TAIL_PLACES * TAIL_PLACE);
    }
    cuda_device->interface->destroy(cuda_device);
    restart_with(NULL, NULL);
    CHECK(count_live() == 0);
}

/* ---- Alignment ---- */

static uint32_t promised[9]; /* by cublasLtMatmulPreferenceAttributes_t */
static int (*set_preference)(eitp__lt_preference preference, int attribute, const void *value, size_t size);

static int keep_preference(eitp__lt_preference preference, int attribute, const void *value, size_t size) {
    if (attribute < 9 && size == sizeof *promised)
        memcpy(&promised[attribute], value, size);
    return set_preference(preference, attribute, value, size);
}

/* Rows of y are only as aligned as their stride. */
static void alignment_includes_rows(void) {
    static const struct {
        int64_t columns;
        uint32_t b, y; /* attributes 5 and 8: A of cuBLASLt is b */
    } cases[] = {{304, 32, 32}, {302, 4, 4}, {301, 2, 2}, {512, EITP__ALIGNMENT, EITP__ALIGNMENT}};
    eitp__cuda_blas blas;
    eitp_error error = EITP__ZERO;
    restart_with("EITP_CUDA_PRODUCTS", "cublaslt");
    cuda_open();
    blas = eitp__cuda_of(cuda_device)->blas;
    set_preference = blas.preference_set;
    blas.preference_set = keep_preference;
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp__call call = plain_product(EITP_BF16, 1, 64, cases[i].columns, 64);
        eitp__cuda_product *product = NULL;
        call.inputs[0].data = call.inputs[1].data = call.outputs[0].data = (void *)(uintptr_t)4096;
        CHECK_THAT(!eitp__cuda_product_create(&blas, &call, NULL, &product, &error) && product, "%s", error.message);
        CHECK_THAT(promised[5] == cases[i].b && promised[6] == EITP__ALIGNMENT && promised[8] == cases[i].y,
                   "%d columns: %u, %u, %u", (int)cases[i].columns, promised[5], promised[6], promised[8]);
        if (product)
            eitp__cuda_product_destroy(&blas, product);
    }
    cuda_device->interface->destroy(cuda_device);
    restart_with(NULL, NULL);
    CHECK(count_live() == 0);
}

/* ---- Products in 16 bits ---- */

enum { HALF_BATCH = 2, HALF_M = 5, HALF_N = 16, HALF_K = 3, HALF_Y = HALF_BATCH * HALF_M * HALF_N };

static double to_half(double x) {
    return (double)eitp__bf16_to_f32(eitp__f32_to_bf16((float)x));
}

/* Returns an activation, or the slope of one. */
static double activation(eitp__epilogue epilogue, double x) {
    const double h = 1e-5, gate = 1 / (1 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
    switch (epilogue) {
    case EITP__EPILOGUE_GELU_TANH:
        return x * gate;
    case EITP__EPILOGUE_GELU_ERF:
        return 0.5 * x * erfc(x * -0.70710678118654752);
    case EITP__EPILOGUE_SILU:
        return x / (1 + exp(-x));
    case EITP__EPILOGUE_GELU_TANH_BACKWARD:
        return (activation(EITP__EPILOGUE_GELU_TANH, x + h) - activation(EITP__EPILOGUE_GELU_TANH, x - h)) / (2 * h);
    default:
        return x;
    }
}

/* A call in BF16 and its operands. */
typedef struct half_product {
    eitp__call call;
    uint16_t a[HALF_BATCH * HALF_M * HALF_K], b[HALF_BATCH * HALF_K * HALF_N];
    uint16_t operand[HALF_Y], y[HALF_Y], before[HALF_Y];
    float bias[HALF_N];
} half_product;

static void fill_halves(uint16_t *to, int count, int seed) {
    for (int i = 0; i < count; i++)
        to[i] = eitp__f32_to_bf16(product_value(seed, i));
}

static int is_derivative(eitp__epilogue epilogue) {
    return epilogue >= EITP__EPILOGUE_GELU_TANH_BACKWARD;
}

/* The bias has more bits than BF16. Derivatives have none. */
static void make_half_product(half_product *made, eitp__epilogue epilogue, int has_before) {
    eitp__call *call = &made->call;
    *call = with_epilogue(plain_product(EITP_BF16, HALF_BATCH, HALF_M, HALF_N, HALF_K), epilogue);
    memset(made->y, 0xff, sizeof made->y);
    memset(made->before, 0xff, sizeof made->before);
    fill_halves(made->a, HALF_BATCH * HALF_M * HALF_K, 4);
    fill_halves(made->b, HALF_BATCH * HALF_K * HALF_N, 5);
    fill_halves(made->operand, HALF_Y, 6);
    for (int i = 0; i < HALF_N; i++)
        made->bias[i] = is_derivative(epilogue) ? 0 : product_value(7, i) * 1.0037f;
    *call = is_derivative(epilogue) ? *call : with_bias(*call);
    *call = has_before ? with_before(*call) : *call;
    call->inputs[0].data = made->a;
    call->inputs[1].data = made->b;
    call->inputs[2].data = call->inputs[2].elements ? made->bias : NULL;
    call->inputs[3].data = call->inputs[3].elements ? made->operand : NULL;
    call->outputs[0].data = made->y;
    call->outputs[1].data = has_before ? made->before : NULL;
}

/* True if `found` is `exact`, computed in F32 and rounded. */
static int is_rounded(uint16_t found, double exact) {
    const double value = (double)eitp__bf16_to_f32(found), near = 1e-5 * fabs(exact) + 1e-6;
    return value >= to_half(exact - near) && value <= to_half(exact + near);
}

/* Returns an element of y before the activation. */
static double half_sum(const half_product *made, int i) {
    const uint16_t *b = made->b + i / (HALF_M * HALF_N) * HALF_K * HALF_N;
    double p = to_half((double)made->bias[i % HALF_N]);
    for (int k = 0; k < HALF_K; k++)
        p += (double)eitp__bf16_to_f32(made->a[i / HALF_N * HALF_K + k]) *
             (double)eitp__bf16_to_f32(b[k * HALF_N + i % HALF_N]);
    return p;
}

/* Counts wrong roundings among the first `count` elements of a product. is_fused: the activation is computed from sums
   before they are rounded. */
static int count_wrong_halves(const half_product *made, int count, eitp__epilogue epilogue, int has_before,
                              int is_fused) {
    int wrong = 0;
    for (int i = 0; i < count; i++) {
        const double p = half_sum(made, i);
        double y;
        y = is_fused ? p : to_half(p);
        y = is_derivative(epilogue) ? y * activation(epilogue, (double)eitp__bf16_to_f32(made->operand[i]))
                                    : activation(epilogue, y);
        wrong += !is_rounded(made->y[i], y) || (has_before && !is_rounded(made->before[i], p));
    }
    return wrong;
}

/* Besides the product there is a launch that rounds the bias, if there is one, and one that computes an activation that
   is not fused. */
static void check_half_product(eitp__epilogue epilogue, int has_before, int is_fused) {
    static half_product made;
    const unsigned long products = emulated.products(), launches = emulated.launches();
    int wrong;
    make_half_product(&made, epilogue, has_before);
    cuda_run(&made.call);
    CHECK(emulated.products() - products == 1);
    CHECK(emulated.launches() - launches == 1ul + !is_derivative(epilogue) + !is_fused);
    wrong = count_wrong_halves(&made, HALF_Y, epilogue, has_before, is_fused);
    CHECK_THAT(!wrong, "epilogue %d, before %d: %d of %d wrong", (int)epilogue, has_before, wrong, HALF_Y);
}

/* cuBLASLt adds a rounded bias. It computes GELU (tanh) from unrounded sums on some devices; eitp's kernels compute
   other activations from rounded ones. */
static void products_in_16_bits(void) {
    static const char *const capabilities[] = {"8.6", "9.0"};
    setenv("EITP_CUDA_PRODUCTS", "cublaslt", 1);
    for (int c = 0; c < 2; c++) {
        restart_with("EITP_EMULATED_CUDA_CAPABILITY", capabilities[c]);
        cuda_open();
        for (int has_before = 0; has_before < 2; has_before++) {
            check_half_product(EITP__EPILOGUE_GELU_TANH, has_before, c);
            check_half_product(EITP__EPILOGUE_GELU_ERF, has_before, 0);
            check_half_product(EITP__EPILOGUE_SILU, has_before, 0);
        }
        check_half_product(EITP__EPILOGUE_GELU_TANH_BACKWARD, 0, c);
        cuda_device->interface->destroy(cuda_device);
    }
    unsetenv("EITP_CUDA_PRODUCTS");
    restart_with(NULL, NULL);
    CHECK(count_live() == 0);
}

/* Only eitp's kernels can write y over an operand of the epilogue. */
static void products_by_address(void) {
    enum { M = 5, N = 8, K = 3 };
    static float a[M * K], b[K * N], operand[M * N], y[2][M * N];
    float *const operands[] = {operand, y[1]};
    unsigned long counts[2];
    int wrong = 0;
    eitp__call call = with_epilogue(plain_product(EITP_F32, 1, M, N, K), EITP__EPILOGUE_GELU_TANH_BACKWARD);
    restart_with("EITP_CUDA_PRODUCTS", "cublaslt");
    cuda_open();
    for (int i = 0; i < M * K; i++)
        a[i] = product_value(4, i);
    for (int i = 0; i < K * N; i++)
        b[i] = product_value(5, i);
    call.inputs[0].data = a;
    call.inputs[1].data = b;
    for (int k = 0; k < 2; k++) {
        const unsigned long before = emulated.products();
        for (int i = 0; i < M * N; i++)
            operands[k][i] = product_value(6, i);
        call.inputs[3].data = operands[k];
        call.outputs[0].data = y[k];
        cuda_run(&call);
        counts[k] = emulated.products() - before;
    }
    for (int i = 0; i < M * N; i++)
        wrong += fabs((double)(y[0][i] - y[1][i])) > 1e-5;
    CHECK_THAT(counts[0] == 1 && counts[1] == 0 && !wrong, "%lu, %lu, %d wrong", counts[0], counts[1], wrong);
    cuda_device->interface->destroy(cuda_device);
    restart_with(NULL, NULL);
    CHECK(count_live() == 0);
}

/* y = x w + b, z = gelu(x w + relu(b)) and s = silu(x w + b) in BF16. The program computes the bias of z. */
typedef struct bias_plan {
    eitp_context *context;
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_tensor *x, *w, *b, *y, *z, *s;
} bias_plan;

static eitp_status create_biases(bias_plan *made, eitp_error *error) {
    const int64_t rows[] = {HALF_M, HALF_K}, weights[] = {HALF_K, HALF_N}, columns[] = {HALF_N};
    eitp_context_config config = eitp_context_config_default();
    eitp_status status;
    memset(made, 0, sizeof *made);
    config.device = "cuda";
    config.precision = "bf16";
    status = eitp_context_create(&config, &made->context, error);
    status = status ? status : eitp_graph_create(made->context, &made->graph, error);
    if (status)
        return status;
    made->x = eitp_input(made->graph, "x", EITP_BF16, 2, rows);
    made->w = eitp_input(made->graph, "w", EITP_BF16, 2, weights);
    made->b = eitp_input(made->graph, "b", EITP_F32, 1, columns);
    made->y = eitp_output(eitp_linear(made->x, made->w, made->b, EITP_NO_ACTIVATION));
    made->z = eitp_output(eitp_linear(made->x, made->w, eitp_relu(made->b), EITP_GELU_ERF));
    made->s = eitp_output(eitp_linear(made->x, made->w, made->b, EITP_SILU));
    return eitp_plan_create(made->graph, &made->plan, error);
}

/* Executes with a bias that differs for each `seed`. */
static eitp_status execute_bias(bias_plan *on, int seed, int *right, eitp_error *error) {
    static half_product y, z, s; /* the first product of a batch */
    const size_t size = HALF_M * HALF_N * sizeof *y.y;
    eitp_status status;
    make_half_product(&y, EITP__EPILOGUE_NONE, 0);
    for (int i = 0; i < HALF_N; i++)
        y.bias[i] = product_value(seed, i) * 1.0037f;
    z = s = y;
    for (int i = 0; i < HALF_N; i++)
        z.bias[i] = y.bias[i] > 0 ? y.bias[i] : 0;
    status = eitp_plan_write(on->plan, on->x, y.a, sizeof y.a / HALF_BATCH, error);
    status = status ? status : eitp_plan_write(on->plan, on->w, y.b, sizeof y.b / HALF_BATCH, error);
    status = status ? status : eitp_plan_write(on->plan, on->b, y.bias, sizeof y.bias, error);
    status = status ? status : eitp_plan_execute(on->plan, error);
    status = status ? status : eitp_plan_read(on->plan, on->y, y.y, size, error);
    status = status ? status : eitp_plan_read(on->plan, on->z, z.y, size, error);
    status = status ? status : eitp_plan_read(on->plan, on->s, s.y, size, error);
    *right &= status || (!count_wrong_halves(&y, HALF_M * HALF_N, EITP__EPILOGUE_NONE, 0, 1) &&
                         !count_wrong_halves(&z, HALF_M * HALF_N, EITP__EPILOGUE_GELU_ERF, 0, 0) &&
                         !count_wrong_halves(&s, HALF_M * HALF_N, EITP__EPILOGUE_SILU, 0, 0));
    return status;
}

static void ignore_profile(void *user, const eitp_profile *profile) {
    (void)user, (void)profile;
}

/* Executes the plan three times as a whole, and then step by step. */
static eitp_status execute_biases(int *right, eitp_error *error) {
    static const eitp_profiler profiler = {NULL, ignore_profile};
    bias_plan on;
    eitp_status status = create_biases(&on, error);
    *right = 1;
    for (int i = 0; i < 4 && !status; i++) {
        if (i == 3)
            eitp_context_profile(on.context, &profiler);
        status = execute_bias(&on, i, right, error);
    }
    eitp_plan_destroy(on.plan);
    eitp_graph_destroy(on.graph);
    eitp_context_destroy(on.context);
    return status;
}

/* Every execution rounds the biases that it has. There are three products, three biases, RELU, GELU and SILU. In whole
   executions one launch rounds the biases of y and s. */
static void biases_are_rounded(void) {
    const unsigned long before = emulated.products();
    eitp_error error = EITP__ZERO;
    int right;
    restart_with("EITP_CUDA_PRODUCTS", "cublaslt");
    CHECK_THAT(!execute_biases(&right, &error) && right, "%s", error.message);
    CHECK_THAT(emulated.products() - before == 9, "%lu products", emulated.products() - before);
    CHECK_THAT(emulated.launches() == 3 * 8 + 9, "%lu launches", emulated.launches());
    restart_with(NULL, NULL);
    CHECK(count_live() == 0);
}

/* ---- Faults ---- */

static eitp_status execute_plan(int *right, eitp_error *error) {
    return execute_sum("cuda", 2, right, error);
}

static eitp_status (*faulty_execution)(int *right, eitp_error *error) = execute_plan;

/* Executes with the n-th call failing, set through the named variable. Returns whether anything failed. */
static int execute_with_fault(const char *variable, int n) {
    char number[24];
    eitp_error error = EITP__ZERO;
    eitp_status status;
    int right;
    snprintf(number, sizeof number, "%d", n);
    restart_with(variable, number);
    status = faulty_execution(&right, &error);
    CHECK_THAT(!status || (*error.message && !strchr(error.message, '\n')), "%s=%d: %s", variable, n, error.message);
    CHECK_THAT(status || right, "%s=%d: wrong values and no error", variable, n);
    CHECK_THAT(count_live() == 0, "%s=%d: %d objects are left", variable, n, count_live());
    return status != EITP_OK;
}

/* Calls that only destroy may fail silently. All other failures are reported. */
static void driver_calls_fail_in_turn(const char *what) {
    eitp_error error = EITP__ZERO;
    int right, count, failures = 0;
    restart_with(NULL, NULL);
    CHECK(!faulty_execution(&right, &error));
    count = (int)emulated.calls();
    for (int n = 1; n <= count; n++)
        failures += execute_with_fault("EITP_EMULATED_CUDA_FAIL", n);
    printf("%d faults injected: calls of the driver, in a plan of %s; %d failures reported\n", count, what, failures);
    CHECK_THAT(count > 60 && failures > count / 2, "%d of %d", failures, count);
    restart_with(NULL, NULL);
}

static void every_call_fails_in_turn(void) {
    driver_calls_fail_in_turn("element-wise ops");
    setenv("EITP_CUDA_PROFILE", "1", 1);
    driver_calls_fail_in_turn("element-wise ops, with a profile");
    unsetenv("EITP_CUDA_PROFILE");
}

/* cuBLASLt calls that only query values for the log may fail silently too. */
static void every_call_fails_in_turn_with_products(void) {
    eitp_error error = EITP__ZERO;
    const unsigned long before = emulated.products_calls();
    int right, count, failures = 0;
    faulty_execution = execute_products;
    setenv("EITP_CUDA_PRODUCTS", "cublaslt", 1);
    CHECK(!faulty_execution(&right, &error));
    count = (int)(emulated.products_calls() - before);
    for (int n = 1; n <= count; n++)
        failures += execute_with_fault("EITP_EMULATED_CUBLASLT_FAIL", n);
    printf("%d faults injected: calls of cuBLASLt; %d failures reported\n", count, failures);
    CHECK_THAT(count > 40 && failures > count / 2, "%d of %d", failures, count);
    driver_calls_fail_in_turn("products");
    faulty_execution = execute_biases;
    driver_calls_fail_in_turn("products in 16 bits");
    unsetenv("EITP_CUDA_PRODUCTS");
    faulty_execution = execute_plan;
}

static void every_call_of_the_compiler_fails_in_turn(void) {
    char cache[512];
    int n = 0, failures = 0, successes = 0;
    const char *kept = getenv("XDG_CACHE_HOME");
    char before[512];
    snprintf(before, sizeof before, "%s", kept ? kept : "");
    REQUIRE(scratch_make(cache));
    do {
        scratch_remove(cache);
        REQUIRE(scratch_make(cache));
        setenv("XDG_CACHE_HOME", cache, 1);
        if (execute_with_fault("EITP_EMULATED_NVRTC_FAIL", ++n))
            failures++, successes = 0;
        else
            successes++;
    } while (successes <= 2 && n < 100); /* destroying the programs of two kernels may fail silently */
    CHECK_THAT(failures > 6 && n < 100, "%d of %d", failures, n);
    printf("%d faults injected: calls of NVRTC; %d failures reported\n", n, failures);
    scratch_remove(cache);
    setenv("XDG_CACHE_HOME", before, 1);
    restart_with(NULL, NULL);
}

/* A failure on the device is reported when its result is requested. */
static void device_errors_come_up(void) {
    int n = 0;
    do {
        n++;
    } while (execute_with_fault("EITP_EMULATED_CUDA_LATE", n) && n < 100);
    CHECK_THAT(n > 2 && n < 100, "%d", n);
    restart_with(NULL, NULL);
}

static void late_errors_come_up(void) {
    device_errors_come_up();
    faulty_execution = execute_products;
    setenv("EITP_CUDA_PRODUCTS", "cublaslt", 1);
    device_errors_come_up();
    unsetenv("EITP_CUDA_PRODUCTS");
    faulty_execution = execute_plan;
}

/* ---- What is missing ---- */

static void refuses(const char *variable, const char *value, const char *device, const char *what) {
    eitp_error error = EITP__ZERO;
    int right;
    restart_with(variable, value);
    CHECK_THAT(execute_sum(device, 1, &right, &error) == EITP_ERROR_UNSUPPORTED && strstr(error.message, what),
               "%s=%s, %s: %s", variable ? variable : "", value ? value : "", device, error.message);
    CHECK(emulated.live() == 0);
    restart_with(NULL, NULL);
}

static void devices_that_are_not_there(void) {
    eitp_error error = EITP__ZERO;
    int right;
    refuses("CUDA_VISIBLE_DEVICES", "", "cuda", "found no GPU");
    refuses("EITP_EMULATED_CUDA_DEVICES", "0", "cuda", "found no GPU");
    refuses(NULL, NULL, "cuda:1", "no GPU 1: 1 is visible");
    refuses("EITP_EMULATED_CUDA_CAPABILITY", "7.0", "cuda", "compute capability 7.0; kernels need 7.5");
    restart_with("EITP_EMULATED_CUDA_DEVICES", "2");
    CHECK_THAT(!execute_sum("cuda:1", 1, &right, &error) && right, "%s", error.message);
    restart_with(NULL, NULL);
    CHECK(execute_sum("cuda:x", 1, &right, &error) == EITP_ERROR_ARGUMENT && strstr(error.message, "cuda:x"));
    CHECK(execute_sum("cpu:1", 1, &right, &error) == EITP_ERROR_ARGUMENT);
}

static void a_driver_of_an_older_cuda_needs_an_older_compiler(void) {
    refuses("EITP_EMULATED_CUDA_VERSION", "12040", "cuda",
            "no usable NVRTC, CUDA's compiler: libnvrtc.so.12 is not in ");
    refuses("EITP_EMULATED_CUDA_VERSION", "12040", "cuda",
            "libnvrtc.so.13, which needs a driver of CUDA 13 (this one has "
            "CUDA 12.4); install the CUDA 12 toolkit, or run: pip install "
            "nvidia-cuda-nvrtc-cu12");
}

static void count_unused(void *user, eitp_log_level level, const char *message) {
    (void)level;
    *(int *)user += strstr(message, "not using device cuda: ") && message[strlen("not using device cuda: ")];
}

/* Creates a context on "cuda,cpu" with that call failing. Returns 1 if the CPU replaced the GPU. */
static int takes_its_place(const char *variable, const char *value) {
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp_error error = EITP__ZERO;
    int unused = 0, is_cpu;
    restart_with(variable, value);
    config.device = "cuda,cpu";
    config.host.log.user = &unused;
    config.host.log.write = count_unused;
    CHECK_THAT(!eitp_context_create(&config, &context, &error), "%s=%s: %s", variable, value, error.message);
    is_cpu = !strncmp(eitp_context_description(context), "cpu", 3);
    CHECK_THAT(unused == is_cpu && (is_cpu || !strncmp(eitp_context_description(context), "cuda:0", 6)), "%s=%s: %s",
               variable, value, eitp_context_description(context));
    eitp_context_destroy(context);
    CHECK_THAT(count_live() == 0, "%s=%s: %d objects are left", variable, value, count_live());
    return is_cpu;
}

static void the_processor_takes_its_place(void) {
    char number[24];
    int count, taken = 0;
    eitp_error error = EITP__ZERO;
    int right;
    CHECK(!takes_its_place("EITP_EMULATED_CUDA_FAIL", "1000000"));
    count = (int)emulated.calls();
    for (int n = 1; n <= count; n++) {
        snprintf(number, sizeof number, "%d", n);
        taken += takes_its_place("EITP_EMULATED_CUDA_FAIL", number);
    }
    printf("%d faults injected: calls that open the GPU; the processor takes its place %d times\n", count, taken);
    CHECK(taken > count / 2 && taken < count); /* calls that only destroy may fail */
    CHECK(takes_its_place("CUDA_VISIBLE_DEVICES", "") && takes_its_place("EITP_EMULATED_CUDA_VERSION", "12040"));
    restart_with(NULL, NULL);
    CHECK(execute_sum("cuda:x,cpu", 1, &right, &error) == EITP_ERROR_ARGUMENT && strstr(error.message, "cuda:x"));
    CHECK(execute_sum("cpu,cuda", 1, &right, &error) == EITP_OK && right && !emulated.calls());
}

/* ---- Rates ---- */

/*
 * Devices with their boost clocks, and NVIDIA's figures in TFLOP/s: F32, or 0 if that is for another clock, and dense
 * products of 16-bit numbers with sums in F32.
 */
static const struct {
    const char *name;
    int capability, processors, clock_mhz;
    double f32, tensor;
} specified[] = {
    {"NVIDIA GeForce RTX 2080 Ti", 75, 68, 1635, 14.2, 56.9},
    {"NVIDIA TITAN RTX", 75, 72, 1770, 16.3, 130.5},
    {"Tesla T4", 75, 40, 1590, 8.1, 65},
    {"NVIDIA A100-SXM4-80GB", 80, 108, 1410, 19.5, 312},
    {"NVIDIA GeForce RTX 3090", 86, 82, 1695, 35.6, 71},
    {"NVIDIA RTX A6000", 86, 84, 1800, 38.7, 154.8},
    {"NVIDIA A40", 86, 84, 1740, 37.4, 149.7},
    {"NVIDIA A10", 86, 72, 1695, 31.2, 125},
    {"NVIDIA GeForce RTX 4090", 89, 128, 2520, 82.6, 165.2},
    {"NVIDIA RTX 6000 Ada Generation", 89, 142, 2505, 91.1, 364.2},
    {"NVIDIA L40", 89, 142, 2490, 90.5, 181.05},
    {"NVIDIA L40S", 89, 142, 2520, 91.6, 362.05},
    {"NVIDIA L4", 89, 58, 2040, 30.3, 121},
    {"NVIDIA H100 80GB HBM3", 90, 132, 1830, 0, 989.4},
    {"NVIDIA B200", 100, 148, 1850, 0, 2250},
    {"NVIDIA GeForce RTX 5090", 120, 170, 2407, 104.8, 209.5},
    {"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 120, 188, 2617, 126, 503.8},
};

static eitp__cuda_rates rates_of(const char *name, int capability) {
    eitp__cuda_device device = EITP__ZERO;
    snprintf(device.name, sizeof device.name, "%s", name);
    device.capability = capability;
    return eitp__cuda_rates_of(&device);
}

/* GeForce has half the rate of the same chips on other cards. Later capabilities have the rates of the last known. */
static void rates_of_devices(void) {
    for (size_t i = 0; i < EITP__COUNT(specified); i++) {
        const eitp__cuda_rates rates = rates_of(specified[i].name, specified[i].capability);
        const double unit = specified[i].processors * specified[i].clock_mhz / 1e6;
        CHECK_THAT(fabs(rates.tensor * unit / specified[i].tensor - 1) < 0.02 &&
                       (specified[i].f32 <= 0 || fabs(rates.f32 * unit / specified[i].f32 - 1) < 0.02),
                   "%s: %.1f and %.1f TFLOP/s", specified[i].name, rates.f32 * unit, rates.tensor * unit);
    }
    CHECK(rates_of("NVIDIA GB10", 121).tensor == 1024 && rates_of("GeForce", 121).tensor == 512);
    CHECK(rates_of("NVIDIA GeForceful L400", 89).tensor == 1024);
}

/* Rates of an emulated device are meaningless, but they show that products and loops over memory were executed. */
static void rates_are_measured(void) {
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp_limits limits;
    eitp_error error = EITP__ZERO;
    unsigned long before;
    restart_with(NULL, NULL);
    config.device = "cuda";
    REQUIRE_OK(eitp_context_create(&config, &context, &error), error);
    before = emulated.launches();
    CHECK_THAT(!eitp_context_measure(context, &limits, &error), "%s", error.message);
    CHECK(emulated.launches() >= before + 6);
    CHECK(limits.flops[EITP_F32] > 0 && limits.flops[EITP_BF16] > 0 && limits.flops[EITP_F16] > 0);
    CHECK(limits.read > 0 && limits.write > 0 && limits.update > 0 && limits.flops[EITP_F64] <= 0);
    eitp_context_destroy(context);
    CHECK_THAT(count_live() == 0, "%d objects are left", count_live());
}

/* ---- Launches of a step ---- */

/* Counts the kernels and the products of cuBLASLt that a plan is expected to launch. */
static void count_launches(const eitp_plan *plan, unsigned long counts[2]) {
    eitp__cuda *cuda = plan ? eitp__cuda_of(plan->context->backend) : NULL;
    cuda_ordered_plan ordered;
    eitp_error error = EITP__ZERO;
    if (!plan)
        return;
    CHECK_THAT(!cuda_order_plan(cuda, plan, &ordered, &error), "%s", error.message);
    for (size_t s = 0; plan && s < plan->step_count; s++)
        CHECK_THAT(!eitp__cuda_blas_takes(&cuda->blas, &plan->calls[s]) ||
                       eitp__cuda_blas_allows_addresses(&plan->calls[s]),
                   "step %d: y overwrites its operand", (int)s);
    for (size_t u = 0; u < ordered.order.count; u++) {
        const eitp__cuda_unit *unit = &ordered.order.units[u];
        const size_t i = unit->instruction;
        const eitp__call *call = &ordered.parts[i].call;
        counts[0] += unit->call_count > 0;
        CHECK_THAT(ordered.first[i + 1] > ordered.first[i] || !call->outputs[0].elements, "%s has no kernel",
                   eitp__slot_name(call->slot));
        for (size_t k = ordered.first[i]; k < ordered.first[i + 1] && !unit->call_count; k++)
            counts[!ordered.launches[k].kernels]++;
    }
    cuda_ordered_plan_release(cuda, &ordered);
}

static eitp_status create_language_trainer(eitp_context *context, eitp_model **model, eitp_task *task,
                                           eitp_trainer **trainer, eitp_error *error) {
    static int32_t tokens[4 * 16 + 1];
    const eitp_token_range all = {0, EITP__COUNT(tokens)};
    eitp_transformer_config shape = eitp_transformer_config_default();
    eitp_language_config language = eitp_language_config_default();
    eitp_trainer_config config = eitp_trainer_config_default();
    eitp_status status;
    shape.width = 64;
    shape.heads = 2;
    shape.layers = 1;
    shape.positions = 16;
    shape.vocabulary = 301;
    config.batch_size = 4;
    config.grad_accum = 1;
    for (size_t i = 0; i < EITP__COUNT(tokens); i++)
        tokens[i] = (int32_t)(i * 7 % 301);
    status = eitp_model_create(context, &shape, model, error);
    if (status)
        return status;
    language.model = *model;
    language.training = eitp_token_memory_source(tokens, EITP__COUNT(tokens), all);
    language.block_size = 16;
    status = eitp_language_task(&language, task, error);
    return status ? status : eitp_trainer_create(task, &config, trainer, error);
}

/*
 * A step launches what cuda_order_plan lists, from which docs/cuda-times.md counts the launches of larger models. The
 * driver counts products as launches too. The second step is a graph, which launches the same.
 */
static void launches_of_a_step(void) {
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp_model *model = NULL;
    eitp_trainer *trainer = NULL;
    eitp_task task = EITP__ZERO;
    eitp_step_report report = EITP__ZERO;
    eitp_error error = EITP__ZERO;
    unsigned long expected[2] = {0, 0}, launches, products;
    eitp_status status;
    restart_with(NULL, NULL);
    config.device = "cuda";
    config.precision = "bf16";
    status = eitp_context_create(&config, &context, &error);
    status = status ? status : create_language_trainer(context, &model, &task, &trainer, &error);
    launches = emulated.launches();
    products = emulated.products();
    for (int step = 0; step < 2 && !status; step++)
        status = eitp_trainer_step(trainer, &report, &error);
    CHECK_THAT(!status, "%s", error.message);
    if (!status) {
        count_launches(trainer->plans.gradient_plan, expected);
        count_launches(trainer->plans.update_plan, expected);
        launches = emulated.launches() - launches;
        products = emulated.products() - products;
        CHECK_THAT(launches == 2 * (expected[0] + expected[1]) && products == 2 * expected[1] && products > 6,
                   "two steps: %lu launches of kernels and of %lu products; a step: %lu and %lu expected", launches,
                   products, expected[0], expected[1]);
    }
    eitp_trainer_destroy(trainer);
    eitp_task_release(&task);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    CHECK_THAT(count_live() == 0, "%d objects are left", count_live());
}

/* ---- Profiles ---- */

enum { LOG_SIZE = 10000 };

/* Collects the lines of the log from the profile's on. */
static void collect_profile(void *user, eitp_log_level level, const char *message) {
    char *log = (char *)user;
    const size_t length = strlen(log);
    if (level == EITP_LOG_INFO && (length || !strncmp(message, "times of GPU kernels ", 21)))
        snprintf(log + length, LOG_SIZE - length, "%s\n", message);
}

/* Adds the work of a unit to the profile that a plan is expected to have. */
static void expect_unit(eitp__cuda_profile *expected, const cuda_ordered_plan *ordered, const eitp__cuda_unit *unit) {
    const size_t calls = unit->call_count ? unit->call_count : 1;
    eitp__cuda_profile_row row = EITP__ZERO;
    for (size_t c = 0; c < calls; c++) {
        const size_t part = unit->call_count ? ordered->order.members[unit->first_member + c] : unit->instruction;
        const eitp__call_work work = cuda_work_of_part(ordered, part);
        eitp__cuda_kernel kernels[CUDA_MOST_LAUNCHES];
        const size_t count = cuda_kernels_of_part(ordered, part, kernels);
        for (size_t k = 0; k < count; k++)
            row.bytes += eitp__cuda_launch_bytes(kernels, count, k, &ordered->parts[part].call, work.bytes);
        eitp__cuda_work_name(kernels, count, work.purpose, row.name);
        row.flops += work.flops;
        row.dtype = ordered->parts[part].call.dtype;
        row.launches = unit->call_count ? 1 : count;
        row.calls++;
    }
    eitp__cuda_profile_add(expected, &row);
}

/* Adds one execution of a plan. Returns its units. */
static size_t expect_plan(eitp__cuda_profile *expected, const eitp_plan *plan) {
    cuda_ordered_plan ordered;
    eitp_error error = EITP__ZERO;
    size_t units;
    if (!plan)
        return 0;
    CHECK_THAT(!cuda_order_plan(eitp__cuda_of(plan->context->backend), plan, &ordered, &error), "%s", error.message);
    for (size_t u = 0; u < ordered.order.count; u++)
        expect_unit(expected, &ordered, &ordered.order.units[u]);
    units = ordered.order.count;
    expected->executions++;
    cuda_ordered_plan_release(eitp__cuda_of(plan->context->backend), &ordered);
    return units;
}

/* Compares a profile of several steps with the expected profile of one. Sums may be rounded differently. */
static void compare_profiles(const eitp__cuda_profile *profile, const eitp__cuda_profile *expected, int steps) {
    const double n = steps;
    CHECK_THAT(profile->executions == (uint64_t)steps * expected->executions && profile->count == expected->count &&
                   profile->left_out == expected->executions,
               "%d executions, %d rows", (int)profile->executions, (int)profile->count);
    for (size_t i = 0; i < expected->count; i++) {
        const eitp__cuda_profile_row *of_step = &expected->rows[i], *row = profile->rows;
        while (row < profile->rows + profile->count &&
               (strcmp(row->name, of_step->name) || row->dtype != of_step->dtype))
            row++;
        REQUIRE(row < profile->rows + profile->count);
        CHECK_THAT(row->calls == (uint64_t)steps * of_step->calls &&
                       row->launches == (uint64_t)steps * of_step->launches,
                   "%s: %d calls, %d launches", row->name, (int)row->calls, (int)row->launches);
        CHECK_THAT(fabs(row->flops - n * of_step->flops) <= 1e-9 * row->flops && row->seconds > 0 &&
                       fabs(row->bytes - n * of_step->bytes) <= 1e-9 * row->bytes,
                   "%s: %g operations, %g bytes; of a step %g, %g", row->name, row->flops, row->bytes, of_step->flops,
                   of_step->bytes);
    }
}

/* The table has every row, the longest first, and their sum. */
static void check_profile_log(const char *log, size_t rows, uint64_t launches) {
    double before = HUGE_VAL, ms;
    unsigned long long all = 0;
    size_t count = 0;
    for (const char *at = strstr(log, "\n| `"); at; at = strstr(at + 1, "\n| `")) {
        const char *dtype = strstr(at + 3, " | ");
        REQUIRE(sscanf(dtype, " | %*s | %*d | %*d | %lf |", &ms) == 1);
        CHECK_THAT(ms <= before, "%s", at);
        before = ms;
        count++;
    }
    CHECK_THAT(count == rows && strstr(log, "\n| all |"), "%s", log);
    CHECK_THAT(sscanf(strstr(log, "\n| all |"), "\n| all | | %*d | %llu |", &all) == 1 && all == launches, "%s", log);
    CHECK(strstr(log, "\n| `cuBLASLt`, forward | bf16 | "));
}

/* Each step but the first adds the launches and the work that the plans have. All steps use the same events. */
static void profiles_of_steps(void) {
    static char log[LOG_SIZE];
    static eitp__cuda_profile_row rows[200];
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp_model *model = NULL;
    eitp_trainer *trainer = NULL;
    eitp_task task = EITP__ZERO;
    eitp_step_report report = EITP__ZERO;
    eitp_error error = EITP__ZERO;
    eitp__cuda_profile expected = EITP__ZERO;
    uint64_t launches = 0;
    size_t count = 0;
    eitp_status status;
    restart_with("EITP_CUDA_PROFILE", "1");
    *log = 0;
    expected.rows = rows;
    config.device = "cuda";
    config.precision = "bf16";
    config.host.log.write = collect_profile;
    config.host.log.user = log;
    status = eitp_context_create(&config, &context, &error);
    status = status ? status : create_language_trainer(context, &model, &task, &trainer, &error);
    for (int step = 0; step < 4 && !status; step++)
        status = eitp_trainer_step(trainer, &report, &error);
    CHECK_THAT(!status, "%s", error.message);
    if (!status) {
        const eitp__cuda_profile *profile = &eitp__cuda_of(context->backend)->profile;
        const size_t gradient_units = expect_plan(&expected, trainer->plans.gradient_plan);
        const size_t update_units = expect_plan(&expected, trainer->plans.update_plan);
        const size_t most = gradient_units > update_units ? gradient_units : update_units;
        compare_profiles(profile, &expected, 3);
        CHECK_THAT(profile->time_count == most + 1, "%d events for %d units", (int)profile->time_count, (int)most);
        count = profile->count;
        for (size_t i = 0; i < count; i++)
            launches += profile->rows[i].launches;
    }
    CHECK(emulated.graph_launches() == 0 && emulated.spins() == 0);
    eitp_trainer_destroy(trainer);
    eitp_task_release(&task);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    check_profile_log(log, count, launches);
    restart_with(NULL, NULL);
    CHECK_THAT(count_live() == 0, "%d objects are left", count_live());
}

/* ---- The cache ---- */

static int count_files(const char *folder, char *last, size_t size) {
    const eitp_host host = eitp_host_default();
    eitp_error error;
    eitp__buffer names;
    size_t count = 0;
    const char *name;
    eitp__buffer_init(&names, &host);
    CHECK_THAT(!eitp__list_directory(&host, folder, &names, &count, &error), "%s", error.message);
    name = names.data;
    for (size_t i = 0; i < count; i++, name += strlen(name) + 1)
        snprintf(last, size, "%s/%s", folder, name);
    eitp__buffer_release(&names);
    return (int)count;
}

/* The kernels of a plan, and no others, are compiled once. Damaged entries are compiled again. */
static void compiled_kernels_are_kept(void) {
    char cache[512], folder[600], file[900], kept[512];
    const char *before = getenv("XDG_CACHE_HOME");
    eitp_error error = EITP__ZERO;
    FILE *damaged;
    int right, count;
    snprintf(kept, sizeof kept, "%s", before ? before : "");
    REQUIRE(scratch_make(cache));
    setenv("XDG_CACHE_HOME", cache, 1);
    snprintf(folder, sizeof folder, "%s/eitp/kernels", cache);
    restart_with(NULL, NULL);
    CHECK_THAT(!execute_sum("cuda", 1, &right, &error) && right, "%s", error.message);
    count = count_files(folder, file, sizeof file);
    CHECK_THAT(count == 2, "%d files", count); /* relu and add */
    restart_with("EITP_EMULATED_NVRTC_FAIL", "nvrtcCompileProgram:1");
    CHECK_THAT(!execute_sum("cuda", 1, &right, &error) && right, "%s", error.message);
    restart_with(NULL, NULL);
    damaged = fopen(file, "r+b");
    REQUIRE(damaged);
    fseek(damaged, 1000, SEEK_SET);
    fputs("damage", damaged);
    fclose(damaged);
    CHECK_THAT(!execute_sum("cuda", 1, &right, &error) && right, "%s", error.message);
    CHECK(count_files(folder, file, sizeof file) == 2);
    scratch_remove(cache);
    setenv("XDG_CACHE_HOME", kept, 1);
}

static eitp_status request(eitp__cuda_modules *modules, const char *kernel, eitp__cuda_function *function) {
    return eitp__cuda_modules_request(modules, "kernels/cuda/elementwise.cu", "SCALAR=0", kernel, 0, function, NULL);
}

/* A kernel is loaded once. Requests that are forgotten, or cannot be met, have no effect. */
static void kernels_are_loaded_once(void) {
    char cache[512], kept[512];
    const char *before = getenv("XDG_CACHE_HOME");
    eitp__cuda_modules *modules;
    eitp__cuda_function forgotten = NULL, failed = NULL, first = NULL, second = NULL;
    eitp_error error = EITP__ZERO;
    snprintf(kept, sizeof kept, "%s", before ? before : "");
    REQUIRE(scratch_make(cache));
    setenv("XDG_CACHE_HOME", cache, 1);
    restart_with(NULL, NULL);
    cuda_open();
    modules = &eitp__cuda_of(cuda_device)->modules;
    CHECK(!request(modules, "add_kernel", &forgotten));
    eitp__cuda_modules_forget(modules);
    CHECK(!request(modules, "relu_kernel", &first) && !request(modules, "relu_kernel", &second));
    CHECK_THAT(!eitp__cuda_modules_load(modules, NULL, &error), "%s", error.message);
    CHECK(!forgotten && first && first == second && modules->loaded == 1);
    setenv("EITP_EMULATED_NVRTC_FAIL", "nvrtcCompileProgram:1", 1);
    CHECK(!request(modules, "exp_kernel", &failed) && !request(modules, "relu_kernel", &second));
    CHECK(eitp__cuda_modules_load(modules, NULL, &error) == EITP_ERROR_INTERNAL);
    unsetenv("EITP_EMULATED_NVRTC_FAIL");
    CHECK(!eitp__cuda_modules_load(modules, NULL, &error) && !failed && modules->loaded == 1 && modules->count == 1);
    cuda_device->interface->destroy(cuda_device);
    CHECK_THAT(count_live() == 0, "%d objects are left", count_live());
    scratch_remove(cache);
    setenv("XDG_CACHE_HOME", kept, 1);
}

/* If they cannot be cached, they are compiled each time. */
static void without_a_cache_folder(void) {
    char kept[512];
    const char *before = getenv("XDG_CACHE_HOME");
    eitp_error error = EITP__ZERO;
    int right;
    snprintf(kept, sizeof kept, "%s", before ? before : "");
    setenv("XDG_CACHE_HOME", "/dev/null", 1);
    CHECK_THAT(!execute_sum("cuda", 1, &right, &error) && right, "%s", error.message);
    setenv("XDG_CACHE_HOME", kept, 1);
}

/* ---- Sums over rows ---- */

/* Returns the kernels for the sum of the rows of a matrix, and the blocks of their first stage. */
static const eitp__cuda_kernels *row_sum_kernels(eitp_dtype dtype, int64_t rows, int64_t columns, int64_t *blocks) {
    const eitp__cuda_device device = EITP__ZERO;
    const eitp__cuda_kernels *kernels;
    eitp__call call = EITP__ZERO;
    call.slot = EITP__SLOT_SUM;
    call.dtype = dtype;
    call.integers[0] = 1;
    call.input_count = call.output_count = 1;
    call.inputs[0].rank = call.outputs[0].rank = 2;
    call.inputs[0].shape[0] = rows;
    call.outputs[0].shape[0] = 1;
    call.inputs[0].shape[1] = call.outputs[0].shape[1] = call.outputs[0].elements = columns;
    call.inputs[0].elements = rows * columns;
    kernels = eitp__cuda_find(&call, &device);
    *blocks = kernels->stages[0].blocks(&call);
    return kernels;
}

/* Gradients of biases: the blocks of 256 threads of the first stage fill the 132 multiprocessors of an H100 to half of
   their 2048 threads. Sums of few rows stay one chain, which accumulated sums continue. */
static void sums_of_many_rows_fill_a_device(void) {
    static const int64_t columns[] = {768, 2304, 3072};
    static const eitp_dtype dtypes[] = {EITP_F32, EITP_BF16, EITP_F16};
    int64_t blocks;
    for (size_t t = 0; t < EITP__COUNT(dtypes); t++)
        for (size_t c = 0; c < EITP__COUNT(columns); c++) {
            CHECK(row_sum_kernels(dtypes[t], 16384, columns[c], &blocks)->stages[1].kernel);
            CHECK_THAT(blocks >= 4 * 132, "%lld columns: %lld blocks", (long long)columns[c], (long long)blocks);
            CHECK(!row_sum_kernels(dtypes[t], 2047, columns[c], &blocks)->stages[1].kernel);
        }
}

/* ---- Without a driver ---- */

static void without_a_driver_it_says_so(void) {
    eitp_error error = EITP__ZERO;
    int right;
    if (has_emulated() || execute_sum("cuda", 1, &right, &error) == EITP_OK)
        return; /* there is one */
    CHECK_THAT(error.status == EITP_ERROR_UNSUPPORTED && *error.message, "%s", error.message);
}

int main(int argc, char **argv) {
    static const test_case alone[] = {TEST(without_a_driver_it_says_so), TEST(rates_of_devices)};
    static const test_case tests[] = {
        TEST(a_plan_becomes_one_graph),
        TEST(graphs_are_optional),
        TEST(profiles_are_chosen),
        TEST(profiles_are_optional),
        TEST(products_of_cublaslt),
        TEST(products_that_cublaslt_refuses),
        TEST(products_are_chosen),
        TEST(tf32_is_used_if_it_is_allowed),
        TEST(products_by_size_and_type),
        TEST(products_by_epilogue),
        TEST(activations_by_device),
        TEST(alignment_includes_rows),
        TEST(products_in_16_bits),
        TEST(biases_are_rounded),
        TEST(products_by_rows),
        TEST(missing_rows_are_cleared),
        TEST(products_by_address),
        TEST(every_call_fails_in_turn),
        TEST(every_call_fails_in_turn_with_products),
        TEST(every_call_of_the_compiler_fails_in_turn),
        TEST(late_errors_come_up),
        TEST(devices_that_are_not_there),
        TEST(the_processor_takes_its_place),
        TEST(a_driver_of_an_older_cuda_needs_an_older_compiler),
        TEST(rates_of_devices),
        TEST(rates_are_measured),
        TEST(launches_of_a_step),
        TEST(profiles_of_steps),
        TEST(compiled_kernels_are_kept),
        TEST(kernels_are_loaded_once),
        TEST(without_a_cache_folder),
        TEST(sums_of_many_rows_fill_a_device),
    };
    find_emulated();
    if (!has_emulated())
        return RUN_TESTS(alone, argc, argv);
    return RUN_TESTS(tests, argc, argv);
}
