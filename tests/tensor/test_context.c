/* Contexts: choosing the device and kernels, and variables. */
#define _DEFAULT_SOURCE 1 /* setenv */

#include "tests/support/graphs.h"

#include "tests/support/faults.h"

/* ---- Devices and kernel sets ---- */

/* Sets an environment variable, or removes it if `value` is NULL. */
static void set_environment(const char *name, const char *value) {
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static eitp_status create(const char *device, const char *isa, int threads, eitp_context **context, eitp_error *error) {
    eitp_context_config config = eitp_context_config_default();
    eitp_status status;
    memset(error, 0, sizeof *error);
    *context = (eitp_context *)&config;
    config.device = device;
    config.isa = isa;
    config.threads = threads;
    status = eitp_context_create(&config, context, error);
    CHECK(!status == (*context != NULL));
    return status;
}

static void check_refused(const char *device, const char *isa, int threads, eitp_status expected, const char *word) {
    eitp_context *context;
    eitp_error error;
    eitp_status status = create(device, isa, threads, &context, &error);
    CHECK_THAT(status == expected && strstr(error.message, word), "%s, %s, %d threads: %s, no '%s' in: %s", device,
               isa ? isa : "any", threads, eitp_status_name(status), word, error.message);
    eitp_context_destroy(context);
}

static void check_created(const char *device, const char *isa, const char *word) {
    eitp_context *context;
    eitp_error error;
    CHECK_THAT(create(device, isa, 1, &context, &error) == EITP_OK, "%s", error.message);
    CHECK_THAT(context && strstr(eitp_context_description(context), word), "no '%s' in: %s", word,
               context ? eitp_context_description(context) : "");
    eitp_context_destroy(context);
}

static void devices_are_chosen_by_name(void) {
    set_environment("EITP_BACKEND", NULL);
    check_created("cpu", NULL, "cpu");
    check_created("auto", NULL, "cpu");
    check_created(NULL, NULL, "cpu");
    check_created("", NULL, "cpu");
    check_created("null", NULL, "null");
    check_refused("tpu", NULL, 1, EITP_ERROR_ARGUMENT, "tpu");
    check_refused("cuda", NULL, 1, EITP_ERROR_UNSUPPORTED, "cuda");
    set_environment("EITP_BACKEND", "null");
    check_created("auto", NULL, "null");
    check_created("cpu", NULL, "cpu"); /* the program's choice takes precedence over the environment */
    set_environment("EITP_BACKEND", "abacus");
    check_refused("auto", NULL, 1, EITP_ERROR_ARGUMENT, "abacus");
    check_created("cpu", NULL, "cpu");
    set_environment("EITP_BACKEND", "");
    check_created("auto", NULL, "cpu");
    set_environment("EITP_BACKEND", NULL);
    check_refused("cpu", NULL, -1, EITP_ERROR_ARGUMENT, "threads -1");
    check_refused("cpu", NULL, 5000, EITP_ERROR_ARGUMENT, "threads 5000");
}

static int set_available(const char *set) {
    eitp_context *context = open_context(set, 1);
    eitp_context_destroy(context);
    return context != NULL;
}

/* Hashes bits that each set computes differently: exponentials, sums along rows, products in F32 and BF16. */
static uint64_t fingerprint(const char *isa) {
    eitp_context *context = NULL;
    eitp_plan *plan = NULL;
    eitp_error error;
    uint64_t hash = 14695981039346656037u;
    static double values[64 * 64];
    eitp_tensor *x, *y, *outputs[4];
    build b;
    if (create("cpu", isa, 1, &context, &error))
        return 0;
    build_begin(&b, context, EITP_F32, 0);
    x = real2(&b, 64, 64);
    y = real2(&b, 64, 64);
    outputs[0] = eitp_output(eitp_exp(x));
    outputs[1] = eitp_output(eitp_softmax(x));
    outputs[2] = eitp_output(eitp_matmul(x, y));
    outputs[3] = eitp_output(eitp_matmul_wide(eitp_cast(x, EITP_BF16), eitp_cast(y, EITP_BF16), 0, 0));
    CHECK_THAT(eitp_plan_create(b.graph, &plan, &error) == EITP_OK, "%s", error.message);
    if (plan) {
        run_leaves(&b, plan);
        for (int i = 0; i < 4; i++) {
            read_values(plan, outputs[i], values);
            for (size_t j = 0; j < sizeof values; j++)
                hash = (hash ^ ((const unsigned char *)values)[j]) * 1099511628211u;
        }
    }
    eitp_plan_destroy(plan);
    build_end(&b);
    eitp_context_destroy(context);
    return hash;
}

/* A forced kernel set is named in the description and gives its own bits. */
static void kernel_sets_can_be_forced(void) {
    uint64_t bits[KERNEL_SETS] = {0};
    int best = 0;
    set_environment("EITP_ISA", NULL);
    for (int i = 0; i < KERNEL_SETS; i++) {
        char words[40];
        eitp_context *context = NULL;
        eitp_error error;
        if (!set_available(kernel_sets[i])) {
            printf("    skipped: %s is unavailable on this machine\n", kernel_sets[i]);
            check_refused("cpu", kernel_sets[i], 1, EITP_ERROR_UNSUPPORTED, kernel_sets[i]);
            set_environment("EITP_ISA", kernel_sets[i]);
            check_refused("cpu", NULL, 1, EITP_ERROR_UNSUPPORTED, "EITP_ISA");
            set_environment("EITP_ISA", NULL);
            continue;
        }
        best = i;
        bits[i] = fingerprint(kernel_sets[i]);
        set_environment("EITP_ISA", kernel_sets[i]);
        snprintf(words, sizeof words, "kernels %s", kernel_sets[i]);
        check_created("cpu", NULL, words);
        CHECK(fingerprint(NULL) == bits[i]);
        CHECK(fingerprint("ref") == bits[0]); /* the program's choice takes precedence over the environment */
        set_environment("EITP_ISA", NULL);
        REQUIRE_OK(create("cpu", kernel_sets[i], 1, &context, &error), error);
        snprintf(words, sizeof words, "cpu-%s", kernel_sets[i]);
        CHECK_THAT(strstr(eitp_context_numerics(context), words), "%s", eitp_context_numerics(context));
        CHECK(!strchr(eitp_context_numerics(context), ' '));
        eitp_context_destroy(context);
        for (int j = 0; j < i; j++)
            CHECK_THAT(bits[i] != bits[j], "%s gives the same bits as %s", kernel_sets[i], kernel_sets[j]);
    }
    if (best == EITP__ISA_AVX512BF16 && eitp__has_slow_pairs())
        best = EITP__ISA_AVX512;
    CHECK(fingerprint(NULL) == bits[best]);
    check_refused("cpu", "mmx", 1, EITP_ERROR_ARGUMENT, "mmx");
    set_environment("EITP_ISA", "sse");
    check_refused("cpu", NULL, 1, EITP_ERROR_ARGUMENT, "sse");
    set_environment("EITP_ISA", NULL);
}

/* ---- Variables ---- */

/* A context, and a graph in which tests declare variables. */
typedef struct owner {
    eitp_context *context;
    eitp_graph *graph;
} owner;

static owner owner_begin(void) {
    owner o;
    eitp_error error = EITP__ZERO;
    o.context = open_context("ref", 1);
    o.graph = NULL;
    CHECK(eitp_graph_create(o.context, &o.graph, &error) == EITP_OK);
    return o;
}

static void owner_end(owner *o) {
    eitp_graph_destroy(o->graph);
    eitp_context_destroy(o->context);
}

static void variables_are_described(void) {
    owner o = owner_begin();
    const int64_t matrix[2] = {3, 5}, vector[1] = {7}, six[6] = {1, 2, 1, 2, 1, 2};
    eitp_error error = EITP__ZERO;
    eitp_variable v;
    CHECK(eitp_variable_count(o.context) == 0 && eitp_variable_find(o.context, "weight") == -1);
    eitp_parameter(o.graph, "weight", 2, matrix);
    eitp_parameter(o.graph, "bias", 1, vector);
    eitp_variable_tensor(o.graph, "state", EITP_OPTIMIZER, EITP_BF16, 6, six);
    eitp_variable_tensor(o.graph, "total", EITP_GRADIENT, EITP_F64, 0, NULL);
    eitp_variable_tensor(o.graph, "cache", EITP_CACHE, EITP_I32, 2, matrix);
    eitp_parameter(o.graph, "weight", 2, matrix); /* a second time: the same variable */
    CHECK(eitp_graph_status(o.graph, &error) == EITP_OK && eitp_variable_count(o.context) == 5);
    CHECK(eitp_variable_find(o.context, "state") == 2 && eitp_variable_find(o.context, "weigh") == -1);
    v = eitp_variable_at(o.context, 0);
    CHECK(!strcmp(v.name, "weight") && v.role == EITP_PARAMETER && v.dtype == EITP_F32 && v.rank == 2);
    CHECK(v.shape[0] == 3 && v.shape[1] == 5 && v.size == 60 && v.decay);
    CHECK(!eitp_variable_at(o.context, 1).decay && eitp_variable_at(o.context, 2).size == 16);
    CHECK(!eitp_variable_at(o.context, 2).decay && !eitp_variable_at(o.context, 4).decay);
    CHECK(eitp_variable_at(o.context, 3).size == 8 && eitp_variable_at(o.context, 3).rank == 0);
    CHECK(eitp_context_variable_bytes(o.context, EITP_PARAMETER) == 0); /* allocated on first use */
    REQUIRE_OK(eitp_variable_fill(o.context, "bias", 1, &error), error);
    CHECK(eitp_context_variable_bytes(o.context, EITP_PARAMETER) == 60 + 28);
    CHECK(eitp_context_variable_bytes(o.context, EITP_OPTIMIZER) == 16);
    CHECK(eitp_context_variable_bytes(o.context, EITP_GRADIENT) == 8);
    CHECK(eitp_context_variable_bytes(o.context, EITP_CACHE) == 60);
    REQUIRE_OK(eitp_variable_set_decay(o.context, "weight", 0, &error), error);
    REQUIRE_OK(eitp_variable_set_decay(o.context, "bias", 1, &error), error);
    CHECK(!eitp_variable_at(o.context, 0).decay && eitp_variable_at(o.context, 1).decay);
    CHECK(eitp_variable_set_decay(o.context, "none", 0, &error) == EITP_ERROR_ARGUMENT);
    CHECK(strstr(error.message, "'none'"));
    owner_end(&o);
}

/* A name keeps its role, dtype and shape; another graph gets the same variable. */
static void variables_do_not_change_shape(void) {
    static const struct {
        eitp_role role;
        eitp_dtype dtype;
        int rank;
        int64_t shape[2];
    } others[] = {
        {EITP_CACHE, EITP_F32, 2, {3, 5}},     {EITP_PARAMETER, EITP_F64, 2, {3, 5}},
        {EITP_PARAMETER, EITP_F32, 2, {5, 3}}, {EITP_PARAMETER, EITP_F32, 1, {15, 0}},
        {EITP_PARAMETER, EITP_F32, 0, {0, 0}},
    };
    owner o = owner_begin();
    const int64_t matrix[2] = {3, 5};
    eitp_error error = EITP__ZERO;
    eitp_parameter(o.graph, "weight", 2, matrix);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        eitp_graph *graph = NULL;
        REQUIRE_OK(eitp_graph_create(o.context, &graph, &error), error);
        CHECK(!eitp_variable_tensor(graph, "weight", others[i].role, others[i].dtype, others[i].rank, others[i].shape));
        CHECK(eitp_graph_status(graph, &error) == EITP_ERROR_ARGUMENT && strstr(error.message, "'weight'"));
        eitp_graph_destroy(graph);
    }
    CHECK(eitp_variable_count(o.context) == 1);
    owner_end(&o);
}

static void variables_are_read_and_written_in_ranges(void) {
    owner o = owner_begin();
    const int64_t shape[1] = {10};
    const float some[3] = {7, 8, 9};
    float read[10];
    eitp_error error = EITP__ZERO;
    eitp_parameter(o.graph, "p", 1, shape);
    eitp_variable_tensor(o.graph, "q", EITP_CACHE, EITP_I32, 1, shape);
    REQUIRE_OK(eitp_variable_read(o.context, "p", 0, read, sizeof read, &error), error);
    for (int i = 0; i < 10; i++)
        CHECK(read[i] == 0);
    REQUIRE_OK(eitp_variable_write(o.context, "p", 8, some, sizeof some, &error), error);
    REQUIRE_OK(eitp_variable_write(o.context, "p", 37, &some[0], 3, &error), error);
    REQUIRE_OK(eitp_variable_write(o.context, "p", 40, some, 0, &error), error);
    REQUIRE_OK(eitp_variable_read(o.context, "p", 4, read, 20, &error), error);
    CHECK(read[0] == 0 && read[1] == 7 && read[2] == 8 && read[3] == 9 && read[4] == 0);
    CHECK(eitp_variable_read(o.context, "p", 24, read, 20, &error) == EITP_ERROR_ARGUMENT);
    CHECK(strstr(error.message, "24") && strstr(error.message, "44") && strstr(error.message, "40"));
    CHECK(eitp_variable_write(o.context, "p", 41, some, 0, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_variable_write(o.context, "p", SIZE_MAX, some, 2, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_variable_write(o.context, "p", 1, some, SIZE_MAX, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_variable_read(o.context, "r", 0, read, 4, &error) == EITP_ERROR_ARGUMENT);
    CHECK(strstr(error.message, "'r'"));
    CHECK(eitp_variable_fill(o.context, "q", 1, &error) == EITP_ERROR_UNSUPPORTED && strstr(error.message, "i32"));
    CHECK(eitp_variable_fill_normal(o.context, "q", 0, 1, 1, &error) == EITP_ERROR_UNSUPPORTED);
    CHECK(eitp_variable_fill(o.context, "r", 1, &error) == EITP_ERROR_ARGUMENT);
    REQUIRE_OK(eitp_variable_fill(o.context, "p", -0.5, NULL), error);
    REQUIRE_OK(eitp_variable_read(o.context, "p", 0, read, sizeof read, NULL), error);
    for (int i = 0; i < 10; i++)
        CHECK(read[i] == -0.5f);
    owner_end(&o);
}

/* Writes and reads values of 16-bit parameters with each form of remainder, in several pieces and starting in the
   middle. */
static void remainders_hold_what_16_bits_lack(void) {
    static const struct {
        eitp_dtype dtype, remainder;
        double error; /* relative error of a value */
    } forms[] = {{EITP_BF16, EITP_I16, 0},
                 {EITP_BF16, EITP_I8, 130.0 / 8388608},
                 {EITP_F16, EITP_F32, 1.0 / 8388608},
                 {EITP_BF16, EITP_BF16, 1.0 / 256},
                 {EITP_F32, EITP_F32, 0}};
    static float values[2500], back[2500];
    for (size_t f = 0; f < EITP__COUNT(forms); f++) {
        owner o = owner_begin();
        const int64_t shape[2] = {50, 50};
        eitp_error error = EITP__ZERO;
        int has_remainder = eitp__wide(forms[f].dtype) != forms[f].dtype && forms[f].remainder != forms[f].dtype;
        eitp_tensor *w = eitp_variable_tensor(o.graph, "w", EITP_PARAMETER, forms[f].dtype, 2, shape);
        if (has_remainder)
            remainder_variable(w, forms[f].remainder);
        for (int i = 0; i < 2500; i++)
            values[i] = (float)sin(i * 0.7) * (i % 3 ? 1.0f : 0.01f);
        REQUIRE_OK(eitp_variable_write_f32(o.context, "w", 0, values, 700, &error), error);
        REQUIRE_OK(eitp_variable_write_f32(o.context, "w", 700, values + 700, 1800, &error), error);
        REQUIRE_OK(eitp_variable_read_f32(o.context, "w", 0, back, 2500, &error), error);
        for (int i = 0; i < 2500; i++)
            CHECK_THAT(fabs((double)back[i] - (double)values[i]) <= forms[f].error * fabs((double)values[i]),
                       "%s, %s: element %d is %.9g, not %.9g", eitp_dtype_name(forms[f].dtype),
                       eitp_dtype_name(forms[f].remainder), i, (double)back[i], (double)values[i]);
        REQUIRE_OK(eitp_variable_read_f32(o.context, "w", 1300, values, 1200, &error), error);
        CHECK(!memcmp(values, back + 1300, 1200 * sizeof *back));
        CHECK(eitp_variable_read_f32(o.context, "w", 1301, values, 1200, &error) == EITP_ERROR_ARGUMENT);
        owner_end(&o);
    }
}

static void variables_keep_their_memory_and_values(void) {
    owner o = owner_begin();
    char name[20];
    float value;
    eitp_error error = EITP__ZERO;
    for (int i = 0; i < 200; i++) {
        const int64_t shape = 1 + i % 7;
        snprintf(name, sizeof name, "v%d", i);
        eitp_parameter(o.graph, name, 1, &shape);
        REQUIRE_OK(eitp_variable_fill(o.context, name, i, &error), error);
    }
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "v%d", i);
        REQUIRE_OK(eitp_variable_read(o.context, name, (size_t)(i % 7) * 4, &value, 4, &error), error);
        CHECK(value == (float)i);
    }
    owner_end(&o);
}

/* In a context with plans_only, variables have no memory to access. */
static void plans_only_refuses_access_to_variables(void) {
    eitp_context_config config = eitp_context_config_default();
    const int64_t shape[1] = {4};
    float values[4] = {0, 0, 0, 0};
    eitp_error error = EITP__ZERO;
    eitp_graph *graph = NULL;
    eitp_context *context = NULL;
    config.plans_only = 1;
    REQUIRE_OK(eitp_context_create(&config, &context, &error), error);
    REQUIRE_OK(eitp_graph_create(context, &graph, &error), error);
    CHECK(eitp_parameter(graph, "p", 1, shape));
    CHECK(eitp_variable_write(context, "p", 0, values, sizeof values, &error) == EITP_ERROR_ARGUMENT);
    CHECK(strstr(error.message, "plans_only"));
    CHECK(eitp_variable_read(context, "p", 0, values, sizeof values, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_variable_write_f32(context, "p", 0, values, 4, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_variable_read_f32(context, "p", 0, values, 4, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_variable_fill(context, "p", 1, &error) == EITP_ERROR_ARGUMENT);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* ---- Random values ---- */

enum { DRAWS = 100001 };

static float *normal_values(const char *const *names, int count, const char *wanted, double mean, double deviation,
                            uint64_t seed) {
    owner o = owner_begin();
    const int64_t shape[1] = {DRAWS};
    float *values = (float *)calloc(DRAWS, sizeof *values);
    eitp_error error = EITP__ZERO;
    for (int i = 0; i < count; i++)
        eitp_parameter(o.graph, names[i], 1, shape);
    for (int i = 0; i < count; i++)
        CHECK(eitp_variable_fill_normal(o.context, names[i], mean, deviation, seed, &error) == EITP_OK);
    CHECK(eitp_variable_read(o.context, wanted, 0, values, DRAWS * sizeof *values, &error) == EITP_OK);
    owner_end(&o);
    return values;
}

/* The moments of 100001 draws, within six standard deviations of each. */
static void normal_values_are_normal(void) {
    static const char *const names[1] = {"weight"};
    float *values = normal_values(names, 1, "weight", 3, 0.5, 99);
    double sum = 0, squares = 0, cubes = 0, fourths = 0, neighbours = 0, last = 0, n = DRAWS;
    for (int i = 0; i < DRAWS; i++) {
        double z = ((double)values[i] - 3) / 0.5;
        sum += z;
        squares += z * z;
        cubes += z * z * z;
        fourths += z * z * z * z;
        neighbours += z * last;
        last = z;
    }
    CHECK_THAT(fabs(sum / n) < 6 / sqrt(n), "mean %g", sum / n);
    CHECK_THAT(fabs(squares / n - 1) < 6 * sqrt(2 / n), "variance %g", squares / n);
    CHECK_THAT(fabs(cubes / n) < 6 * sqrt(15 / n), "skewness %g", cubes / n);
    CHECK_THAT(fabs(fourths / n - 3) < 6 * sqrt(96 / n), "kurtosis %g", fourths / n);
    CHECK_THAT(fabs(neighbours / n) < 6 / sqrt(n), "correlation of neighbours %g", neighbours / n);
    free(values);
}

/* Random values depend only on seed, name and index. */
static void normal_values_depend_on_seed_and_name_only(void) {
    static const char *const some[2] = {"a", "b"}, *const reversed[3] = {"c", "b", "a"};
    float *first = normal_values(some, 2, "a", 0, 1, 1), *again = normal_values(reversed, 3, "a", 0, 1, 1);
    float *other = normal_values(some, 2, "b", 0, 1, 1), *reseeded = normal_values(some, 2, "a", 0, 1, 2);
    double with_other = 0, with_reseeded = 0;
    CHECK(!memcmp(first, again, DRAWS * sizeof *first));
    for (int i = 0; i < DRAWS; i++) {
        with_other += (double)first[i] * (double)other[i];
        with_reseeded += (double)first[i] * (double)reseeded[i];
    }
    CHECK(fabs(with_other / DRAWS) < 6 / sqrt((double)DRAWS));
    CHECK(fabs(with_reseeded / DRAWS) < 6 / sqrt((double)DRAWS));
    free(first);
    free(again);
    free(other);
    free(reseeded);
}

/* ---- Memory ---- */

static eitp_status use_variables(const eitp_host *host) {
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp_graph *graph = NULL;
    eitp_error error = EITP__ZERO;
    eitp_status status;
    config.host = *host;
    config.device = "cpu";
    config.isa = "ref";
    status = eitp_context_create(&config, &context, &error);
    if (!status)
        status = eitp_graph_create(context, &graph, &error);
    for (int i = 0; i < 20 && !status; i++) {
        const int64_t shape = 5 + i;
        char name[20];
        snprintf(name, sizeof name, "v%d", i);
        eitp_parameter(graph, name, 1, &shape);
        status = eitp_graph_status(graph, &error);
        if (!status)
            status = eitp_variable_fill(context, name, 1, &error);
    }
    CHECK(status == EITP_OK || (status == EITP_ERROR_MEMORY && error.message[0]));
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
    return status;
}

static void every_allocation_may_fail(void) {
    for (long n = 1;; n++) {
        faults f;
        eitp_status status;
        faults_begin(&f);
        f.fail_allocation = n;
        status = use_variables(&f.host);
        if (!faults_end(&f)) {
            CHECK(status == EITP_OK && n > 40);
            break;
        }
        CHECK(status == EITP_ERROR_MEMORY);
    }
}

/* Stack sizes larger than the address space, with which OpenMP would end the program. */
static void threads_that_cannot_start_are_left_out(void) {
    CHECK(eitp__team_start(1) == 1 && eitp__team_start(4) == 4);
#if EITP__WITH_OPENMP
    CHECK(eitp__team_stack() >= 16384);
    CHECK(setenv("OMP_STACKSIZE", "1000000G", 1) == 0);
    CHECK(eitp__team_stack() == (size_t)1000000 << 30);
    CHECK(eitp__team_start(4) == 1);
    CHECK(setenv("OMP_STACKSIZE", "2048", 1) == 0);
    CHECK(eitp__team_stack() == 2048 * 1024);
    CHECK(setenv("OMP_STACKSIZE", "many", 1) == 0);
    CHECK(eitp__team_stack() >= 16384);
    CHECK(unsetenv("OMP_STACKSIZE") == 0);
#else
    CHECK(eitp__team_stack() == 0);
#endif
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(threads_that_cannot_start_are_left_out),
        TEST(devices_are_chosen_by_name),
        TEST(kernel_sets_can_be_forced),
        TEST(variables_are_described),
        TEST(variables_do_not_change_shape),
        TEST(variables_are_read_and_written_in_ranges),
        TEST(remainders_hold_what_16_bits_lack),
        TEST(variables_keep_their_memory_and_values),
        TEST(plans_only_refuses_access_to_variables),
        TEST(normal_values_are_normal),
        TEST(normal_values_depend_on_seed_and_name_only),
        TEST(every_allocation_may_fail),
    };
    return RUN_TESTS(tests, argc, argv);
}
