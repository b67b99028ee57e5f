/*
 * Compares matrix products of eitp and oneDNN, shape by shape, for the products of a GPT-2 step.
 *
 *     apt-get install libdnnl-dev
 *     cc -O2 -fopenmp -I. tools/peers/onednn_sgemm.c -ldnnl -lm -o onednn_sgemm
 *     OMP_NUM_THREADS=2 ./onednn_sgemm [seconds for each shape: 2] [--json]
 *
 * Alternates the two and uses the best run of each. EITP_ISA and EITP_PRODUCTS choose the kernels. Prints GFLOP/s and
 * the ratio of eitp to oneDNN, which is above 1 if eitp is faster.
 */
#define EITP_IMPLEMENTATION
#include "eitp.h"

#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct shape {
    const char *what;
    int64_t m, k, n;
    int transpose_a, transpose_b;
} shape;

static const shape shapes[] = {{"attention in, few rows", 64, 768, 2304, 0, 0},
                               {"attention in", 1024, 768, 2304, 0, 0},
                               {"attention out", 1024, 768, 768, 0, 0},
                               {"mlp in", 1024, 768, 3072, 0, 0},
                               {"mlp out", 1024, 3072, 768, 0, 0},
                               {"head", 256, 768, 50257, 0, 1},
                               {"input gradient", 1024, 2304, 768, 0, 1},
                               {"input gradient", 1024, 3072, 768, 0, 1},
                               {"input gradient", 1024, 768, 3072, 0, 1},
                               {"weight gradient", 768, 1024, 3072, 1, 0},
                               {"weight gradient", 3072, 1024, 768, 1, 0},
                               {"weight gradient", 768, 1024, 2304, 1, 0}};

static eitp_error error;

static void must(int failed) {
    if (failed)
        exit((fprintf(stderr, "onednn_sgemm: %s\n", error.message), 1));
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static float *values(int64_t count) {
    float *x = (float *)malloc((size_t)count * sizeof *x);
    must(!x);
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)(i * 2654435761u % 65536u) / 65536.0f - 0.5f;
    return x;
}

/* Measures GFLOP/s of eitp and of oneDNN. */
static void compare(eitp_context *context, const shape *at, double seconds, double speed[2]) {
    int64_t a_shape[2], b_shape[2], m = at->m, k = at->k, n = at->n;
    size_t a_bytes = (size_t)(m * k) * sizeof(float), b_bytes = (size_t)(k * n) * sizeof(float);
    float *a = values(m * k), *b = values(k * n), *y = values(m * n);
    double best[2] = {1e30, 1e30}, end;
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    a_shape[at->transpose_a] = m;
    a_shape[!at->transpose_a] = k;
    b_shape[at->transpose_b] = k;
    b_shape[!at->transpose_b] = n;
    must(eitp_graph_create(context, &graph, &error));
    eitp_tensor *left = eitp_keep_input(eitp_input(graph, "a", EITP_F32, 2, a_shape));
    eitp_tensor *right = eitp_keep_input(eitp_input(graph, "b", EITP_F32, 2, b_shape));
    eitp_output(eitp_matmul_transposed(left, right, at->transpose_a, at->transpose_b));
    must(eitp_plan_create(graph, &plan, &error) || eitp_plan_write(plan, left, a, a_bytes, &error) ||
         eitp_plan_write(plan, right, b, b_bytes, &error));
    end = now() + seconds;
    do {
        double start = now(), middle;
        must(eitp_plan_execute(plan, &error));
        middle = now();
        must(dnnl_sgemm(at->transpose_a ? 'T' : 'N', at->transpose_b ? 'T' : 'N', m, n, k, 1.0f, a, a_shape[1], b,
                        b_shape[1], 0.0f, y, n) != dnnl_success);
        best[0] = fmin(best[0], middle - start);
        best[1] = fmin(best[1], now() - middle);
    } while (now() < end);
    for (int i = 0; i < 2; i++)
        speed[i] = 2e-9 * (double)m * (double)k * (double)n / best[i];
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    free(a);
    free(b);
    free(y);
}

int main(int argc, char **argv) {
    int json = argc > 1 && !strcmp(argv[argc - 1], "--json");
    double seconds = argc > 1 + json ? atof(argv[1]) : 2, product = 1;
    int count = (int)(sizeof shapes / sizeof shapes[0]);
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    must(eitp_context_create(&config, &context, &error));
    if (json)
        printf("[");
    else
        printf("%-22s %5s %5s %5s  form    eitp  oneDNN  ratio\n", "", "m", "k", "n");
    for (int i = 0; i < count; i++) {
        const shape *at = &shapes[i];
        double speed[2];
        compare(context, at, seconds, speed);
        product *= speed[0] / speed[1];
        printf(json ? "{\"what\": \"%s\", \"m\": %d, \"k\": %d, \"n\": %d, \"form\": \"%c%c\", \"eitp_gflops\": %.1f, "
                      "\"onednn_gflops\": %.1f, \"ratio\": %.3f},\n"
                    : "%-22s %5d %5d %5d  %c%c   %7.1f %7.1f  %5.2f\n",
               at->what, (int)at->m, (int)at->k, (int)at->n, at->transpose_a ? 'T' : 'N', at->transpose_b ? 'T' : 'N',
               speed[0], speed[1], speed[0] / speed[1]);
    }
    printf(json ? "{\"geometric_mean\": %.3f}]\n" : "geometric mean of the ratios: %.3f\n", pow(product, 1.0 / count));
    eitp_context_destroy(context);
    return 0;
}
