/*
 * Demonstrates an allocator that serves all of eitp's memory from one block, and shows that training steps do not
 * allocate. Compile and run:
 *     cc -O2 -I. examples/custom_allocator.c -lm -o custom_allocator && ./custom_allocator
 */
#define EITP_IMPLEMENTATION
#include "eitp.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK_BYTES = 32 << 20, STEPS = 20 };

static eitp_error error;

/* Allocates from the start of the block. Only the last allocation can be freed. */
typedef struct block {
    unsigned char *memory;
    size_t size, used, highest;
    long allocations;
} block;

static void *block_allocate(void *user, size_t size, size_t alignment) {
    block *b = (block *)user;
    uintptr_t start = ((uintptr_t)(b->memory + b->used) + alignment - 1) & ~(uintptr_t)(alignment - 1);
    size_t offset = (size_t)(start - (uintptr_t)b->memory);
    b->allocations++;
    if (offset > b->size || size > b->size - offset)
        return NULL; /* eitp reports EITP_ERROR_MEMORY */
    b->used = offset + size;
    b->highest = b->used > b->highest ? b->used : b->highest;
    return b->memory + offset;
}

static void block_release(void *user, void *memory, size_t size) {
    block *b = (block *)user;
    if ((unsigned char *)memory + size == b->memory + b->used)
        b->used = (size_t)((unsigned char *)memory - b->memory);
}

/* Everything that training needs, in order of creation. */
typedef struct run {
    eitp_context *context;
    eitp_tokenizer *tokenizer;
    eitp_sample_file *tokens;
    eitp_language_config text; /* includes the model */
    eitp_task task;
    eitp_trainer *trainer;
} run;

/* Creates a small model and a trainer for it. Its text is this file. */
static int prepare(run *r, const eitp_host *host) {
    static const char *const path = __FILE__;
    eitp_context_config settings = eitp_context_config_default();
    eitp_pack_config pack = eitp_pack_config_default();
    eitp_trainer_config config = eitp_trainer_config_default();
    eitp_sample_file_info info;
    eitp_token_range training, validation;
    eitp_transformer_config shape;
    settings.host = *host;
    pack.texts.paths = &path;
    pack.texts.path_count = 1;
    if (eitp_transformer_config_named("tiny", &shape, &error))
        return 1;
    shape.vocabulary = 257; /* 256 bytes and the end-of-text token */
    r->text.block_size = 64;
    if (eitp_context_create(&settings, &r->context, &error) ||
        eitp_tokenizer_create_bytes(host, &r->tokenizer, &error) ||
        eitp_pack(host, r->tokenizer, &pack, "custom_allocator.tok", &info, &error) ||
        eitp_sample_file_open(host, "custom_allocator.tok", 0, &r->tokens, &error) ||
        eitp_split_tokens(info.token_count, 0.1, r->text.block_size, &training, &validation, &error) ||
        eitp_model_create(r->context, &shape, &r->text.model, &error) ||
        eitp_model_initialize(r->text.model, 1, &error))
        return 1;
    r->text.tokenizer = r->tokenizer;
    r->text.training = eitp_sample_file_token_source(r->tokens, training);
    r->text.validation = eitp_sample_file_token_source(r->tokens, validation);
    return eitp_language_task(&r->text, &r->task, &error) ||
           eitp_trainer_create(&r->task, &config, &r->trainer, &error);
}

static int train(run *r) {
    eitp_step_report report;
    eitp_evaluation evaluation;
    for (int step = 1; step <= STEPS; step++) {
        if (eitp_trainer_step(r->trainer, &report, &error))
            return 1;
        if (step == 1 || step == STEPS)
            printf("step %2d  loss %.3f\n", step, report.loss);
    }
    return eitp_trainer_evaluate(r->trainer, 0, &evaluation, &error) != EITP_OK;
}

int main(void) {
    static unsigned char memory[BLOCK_BYTES];
    block b = {memory, sizeof memory, 0, 0, 0};
    eitp_host host = eitp_host_default();
    run r;
    long prepared = 0, steps = 0;
    int failed;
    memset(&r, 0, sizeof r);
    host.allocator.user = &b;
    host.allocator.allocate = block_allocate;
    host.allocator.release = block_release;
    failed = prepare(&r, &host);
    prepared = b.allocations;
    if (!failed) {
        printf("prepared with %ld allocations, %.1f of %.1f MB\n", prepared, (double)b.highest / 1e6,
               (double)b.size / 1e6);
        failed = train(&r);
        steps = b.allocations - prepared;
        printf("%ld allocations in %d steps and an evaluation\n", steps, (int)STEPS);
    }
    if (failed)
        fprintf(stderr, "custom_allocator: %s\n", error.message);
    eitp_trainer_destroy(r.trainer);
    eitp_task_release(&r.task);
    eitp_model_destroy(r.text.model);
    eitp_sample_file_close(r.tokens);
    eitp_tokenizer_destroy(r.tokenizer);
    eitp_context_destroy(r.context);
    return failed || steps != 0;
}
