/*
 * Demonstrates several threads that generate in parallel and share one copy of the weights. Compile and run:
 *     cc -O2 -I. examples/threads.c -lm -lpthread -o threads && ./threads DIRECTORY [PROMPT]
 * DIRECTORY is as for examples/generate.c. Each thread generates a different continuation of the prompt.
 */
#define EITP_IMPLEMENTATION
#include "eitp.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 4, TOKENS = 40, MOST = 256 };

/* Data that all threads read. */
typedef struct input {
    eitp_tokenizer *tokenizer;
    eitp_model *model;
    int32_t prompt[MOST];
    size_t count;
} input;

/* The work of one thread. */
typedef struct job {
    const input *in;
    uint64_t seed;
    int32_t tokens[TOKENS];
    int count, failed;
    eitp_error error;
} job;

static int generate(job *j, eitp_generator *generator) {
    eitp_sampling sampling = eitp_sampling_default();
    sampling.temperature = 0.8;
    sampling.top_k = 40;
    sampling.seed = j->seed;
    if (eitp_generator_feed(generator, j->in->prompt, (int64_t)j->in->count, &j->error))
        return 1;
    while (j->count < TOKENS && eitp_generator_remaining(generator) > 0) {
        int32_t token = eitp_generator_sample(generator, &sampling);
        if (token == eitp_tokenizer_end_of_text(j->in->tokenizer))
            break;
        j->tokens[j->count++] = token;
        if (eitp_generator_feed(generator, &token, 1, &j->error))
            return 1;
    }
    return 0;
}

/* Thread function: creates a context, and a model and a generator in it. */
static void *run(void *argument) {
    job *j = (job *)argument;
    eitp_context_config settings = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp_model *model = NULL;
    eitp_generator *generator = NULL;
    settings.threads = 1; /* per op: the threads already run in parallel */
    j->failed = eitp_context_create(&settings, &context, &j->error) ||
                eitp_model_share(j->in->model, context, &model, &j->error) ||
                eitp_generator_create(model, 0, &generator, &j->error) || generate(j, generator);
    eitp_generator_destroy(generator);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    return NULL;
}

static void print(const job *j) {
    eitp_error error;
    const char *bytes;
    size_t size;
    printf("%d:", (int)j->seed);
    for (int i = 0; i < j->count && !eitp_tokenizer_token(j->in->tokenizer, j->tokens[i], &bytes, &size, &error); i++)
        fwrite(bytes, 1, size, stdout);
    printf("\n%s", j->failed ? j->error.message : "");
}

/* Runs all jobs in parallel. Returns the number of jobs that failed. */
static int run_jobs(const input *in) {
    static job jobs[THREADS];
    pthread_t threads[THREADS];
    int started = 0, failed = 0;
    for (; started < THREADS; started++) {
        jobs[started].in = in;
        jobs[started].seed = (uint64_t)started + 1;
        if (pthread_create(&threads[started], NULL, run, &jobs[started]))
            break;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        print(&jobs[i]);
        failed += jobs[i].failed;
    }
    return failed + THREADS - started;
}

int main(int argument_count, char **arguments) {
    static input in;
    const char *prompt = argument_count > 2 ? arguments[2] : "The";
    eitp_context_config settings = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp_error error;
    int failed;
    if (argument_count < 2) {
        fprintf(stderr, "usage: %s DIRECTORY [PROMPT]\n", arguments[0]);
        return 2;
    }
    failed = eitp_context_create(&settings, &context, &error) ||
             eitp_tokenizer_load(&settings.host, arguments[1], &in.tokenizer, &error) ||
             eitp_model_load(context, arguments[1], &in.model, &error) ||
             eitp_tokenizer_encode(in.tokenizer, prompt, strlen(prompt), in.prompt, MOST, &in.count, &error);
    if (failed)
        fprintf(stderr, "threads: %s\n", error.message);
    in.count = in.count < MOST ? in.count : MOST; /* the rest was not stored */
    failed = failed || run_jobs(&in) > 0;
    eitp_model_destroy(in.model);
    eitp_tokenizer_destroy(in.tokenizer);
    eitp_context_destroy(context);
    return failed;
}
