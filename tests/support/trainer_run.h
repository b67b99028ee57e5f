/* A small training run on synthetic text, its variants, and a fingerprint of its result, for tests of bits. */
#ifndef EITP_TEST_TRAINER_RUN_H
#define EITP_TEST_TRAINER_RUN_H

#include "tests/support/everything.h"
#include "tests/support/faults.h"
#include "tests/support/test.h"

#define RUN_UNUSED __attribute__((unused))

static eitp_error error_;

/* Removes the events, except those about memory, and the performance records from the text of a metrics.jsonl. */
static __attribute__((unused)) void drop_events(char *text) {
    char *to = text;
    for (char *line = text, *end; *line; line = end) {
        const char *event = strstr(line, "\"event\": \""), *performance = strstr(line, "\"perf/");
        end = strchr(line, '\n') ? strchr(line, '\n') + 1 : line + strlen(line);
        if (performance && performance < end)
            continue;
        if (event && event < end && strncmp(event, "\"event\": \"memory_pressure\"", 26) != 0)
            continue;
        memmove(to, line, (size_t)(end - line));
        to += end - line;
    }
    *to = 0;
}

/* A small run on synthetic text: everything a trainer needs, in a scratch directory. */
typedef struct run {
    eitp_context *context;
    eitp_model *model;
    eitp_tokenizer *tokenizer;
    eitp_sample_file *file;
    eitp_language_config language;
    eitp_task task;
    eitp_trainer *trainer;
    eitp_trainer_config config;
    eitp_token_range training, validation;
    char directory[512];
} run;

/* The differences between runs whose bits are compared. */
typedef struct variant {
    int threads;
    const char *isa, *products, *precision;
    eitp_optimizer optimizer;
    double dropout;
    int64_t batch_size, grad_accum, micro_batches_per_pass;
    int64_t block_size; /* 0: 32 */
    int64_t lora_rank;  /* 0: no adapters */
    int dense_rows;
    int sums_of_32; /* the backend reports that products sum 32 terms at once, as AMX does */
    uint64_t last_sample;
    int unclipped, keep_gradients;
    int is_wide;        /* matrices are larger than a block of sums, so that they can be split into pieces */
    size_t piece_bytes; /* 0: the default */
    double beta1;       /* 0: the default */
    eitp_plan_config plan;
    eitp_offload offload;
    eitp_save_dtype save_dtype;
    int64_t data_workers, prefetch;                                       /* prefetch 0: the default */
    const eitp_objective_config *objective;                               /* NULL: none */
    eitp_status (*extend)(void *run, eitp_pass *pass, eitp_error *error); /* of the task; NULL: none */
} variant;

static RUN_UNUSED variant default_variant(void) {
    variant v;
    memset(&v, 0, sizeof v);
    v.threads = 2;
    v.dropout = 0.1;
    v.batch_size = 2;
    v.grad_accum = 2;
    return v;
}

static RUN_UNUSED eitp_transformer_config small_model(double dropout) {
    eitp_transformer_config config;
    eitp_transformer_config_named("tiny", &config, NULL);
    config.vocabulary = 257;
    config.positions = 48;
    config.width = 40;
    config.heads = 4;
    config.layers = 2;
    config.inner = 100;
    config.embedding_dropout = config.attention_dropout = config.residual_dropout = dropout;
    return config;
}

/* Writes text whose words follow a rule that can be learned. */
static RUN_UNUSED int write_text(const char *directory) {
    static const char *const words[] = {"tree ", "leaf ", "root ", "bark ", "seed\n", "wood ", "moss ", "fern. "};
    FILE *file = fopen(scratch_path(directory, "text.txt"), "wb");
    unsigned state = 7;
    if (!file)
        return 0;
    for (int i = 0; i < 4000; i++) {
        state = state * 1103515245u + 12345u;
        fputs(words[(state >> 16) % 3 == 0 ? (state >> 20) % 8 : (unsigned)i % 8], file);
    }
    return fclose(file) == 0;
}

static int sum_group_of_32(const eitp__backend *backend, eitp_dtype dtype) {
    (void)backend;
    (void)dtype;
    return 32;
}

static RUN_UNUSED void pretend_sums_of_32(eitp_context *context) {
    static eitp__backend_interface interface;
    interface = *context->backend->interface;
    interface.sum_group = sum_group_of_32;
    context->backend->interface = &interface;
}

/* Adds adapters to all linear layers. */
static RUN_UNUSED eitp_status add_adapters(eitp_model *model, int64_t rank, double dropout, eitp_error *error) {
    eitp_lora_config lora = eitp_lora_config_default();
    eitp_status status = eitp_lora_targets_parse(NULL, "all-linear", &lora, error);
    lora.rank = rank;
    lora.dropout = dropout;
    if (!status)
        status = eitp_model_add_lora(model, &lora, error);
    return status ? status : eitp_model_initialize_lora(model, 9, error);
}

static RUN_UNUSED eitp_status make_task(run *r, eitp_error *error) {
    r->language.model = r->model;
    r->language.training = eitp_sample_file_token_source(r->file, r->training);
    r->language.validation = eitp_sample_file_token_source(r->file, r->validation);
    r->language.tokenizer = r->tokenizer;
    return eitp_language_task(&r->language, &r->task, error);
}

static RUN_UNUSED eitp_status make_run(run *r, const eitp_host *host, const variant *v, const char *directory,
                                       eitp_error *error) {
    eitp_context_config context = eitp_context_config_default();
    eitp_transformer_config shape = small_model(v->dropout);
    const char *path = scratch_path(directory, "text.txt");
    char packed[600], offload[600];
    eitp_pack_config pack = eitp_pack_config_default();
    eitp_status status;
    if (v->is_wide) {
        shape.width = 64;
        shape.inner = 512;
    }
    memset(r, 0, sizeof *r);
    snprintf(r->directory, sizeof r->directory, "%s", directory);
    context.host = *host;
    context.device = v->offload ? "cpu" : "auto"; /* files can replace memory only if the host can read it */
    context.threads = v->threads;
    context.isa = v->isa;
    context.products = v->products;
    context.precision = v->precision;
    context.parameters = eitp_optimizer_get(v->optimizer)->parameters;
    snprintf(offload, sizeof offload, "%s", scratch_path(directory, "offload"));
    context.offload = v->offload;
    context.offload_path = offload;
    snprintf(packed, sizeof packed, "%s", scratch_path(directory, "text.tokens"));
    pack.texts.paths = &path;
    pack.texts.path_count = 1;
    r->config = eitp_trainer_config_default();
    r->config.batch_size = v->batch_size;
    r->config.grad_accum = v->grad_accum;
    r->config.micro_batches_per_pass = v->micro_batches_per_pass;
    r->language.block_size = v->block_size ? v->block_size : 32;
    r->config.seed = 11;
    r->config.schedule.kind = EITP_SCHEDULE_COSINE;
    r->config.schedule.peak = v->optimizer == EITP_SGD ? 0.3 : 3e-3;
    r->config.schedule.warmup = 3;
    r->config.schedule.steps = 40;
    r->config.last_sample = v->last_sample;
    r->config.keep_gradients = v->keep_gradients;
    r->config.dense_rows = v->dense_rows;
    r->config.plan = v->plan;
    r->config.save_dtype = v->save_dtype;
    r->config.optimizer_config.optimizer = v->optimizer;
    r->config.data_workers = v->data_workers;
    if (v->prefetch)
        r->config.prefetch = v->prefetch;
    if (v->unclipped)
        r->config.max_grad_norm = 0;
    if (v->piece_bytes)
        r->config.optimizer_config.piece_bytes = v->piece_bytes;
    if (v->beta1 > 0)
        r->config.optimizer_config.beta1 = v->beta1;
    status = eitp_context_create(&context, &r->context, error);
    if (!status && v->sums_of_32)
        pretend_sums_of_32(r->context);
    if (!status)
        status = eitp_tokenizer_create_bytes(host, &r->tokenizer, error);
    if (!status)
        status = eitp_pack(host, r->tokenizer, &pack, packed, NULL, error);
    if (!status)
        status = eitp_sample_file_open(host, packed, 257, &r->file, error);
    if (!status)
        status = eitp_split_tokens(eitp_sample_file_get_info(r->file).token_count, 0.1, r->language.block_size,
                                   &r->training, &r->validation, error);
    if (!status)
        status = eitp_model_create(r->context, &shape, &r->model, error);
    if (!status)
        status = eitp_model_initialize(r->model, 3, error);
    if (!status && v->lora_rank)
        status = add_adapters(r->model, v->lora_rank, v->dropout, error);
    if (!status)
        status = make_task(r, error);
    if (v->objective)
        r->config.objective = *v->objective;
    r->task.extend = v->extend;
    r->task.extension = r;
    return status ? status : eitp_trainer_create(&r->task, &r->config, &r->trainer, error);
}

static RUN_UNUSED void end_run(run *r) {
    eitp_trainer_destroy(r->trainer);
    eitp_task_release(&r->task);
    eitp_model_destroy(r->model);
    eitp_sample_file_close(r->file);
    eitp_tokenizer_destroy(r->tokenizer);
    eitp_context_destroy(r->context);
}

static RUN_UNUSED int step_many(run *r, int64_t steps, double *last_loss) {
    for (int64_t i = 0; i < steps; i++) {
        eitp_step_report report;
        if (eitp_trainer_step(r->trainer, &report, &error_)) {
            printf("    %s\n", error_.message);
            return 0;
        }
        if (last_loss)
            *last_loss = report.loss;
    }
    return 1;
}

/* A checksum of all parameters and optimizer state. */
static RUN_UNUSED uint32_t fingerprint(const run *r) {
    uint32_t crc = 0;
    for (size_t i = 0; i < eitp_variable_count(r->context); i++) {
        eitp_variable variable = eitp_variable_at(r->context, i);
        void *bytes;
        if (variable.role != EITP_PARAMETER && variable.role != EITP_OPTIMIZER && variable.role != EITP_REMAINDER)
            continue;
        bytes = malloc(variable.size);
        CHECK(!eitp_variable_read(r->context, variable.name, 0, bytes, variable.size, &error_));
        crc = eitp__crc32c(crc, bytes, variable.size);
        free(bytes);
    }
    return crc;
}

/* A checksum of the values of all parameters. */
static RUN_UNUSED uint32_t weights_of(eitp_context *context) {
    uint32_t crc = 0;
    for (size_t i = 0; i < eitp_variable_count(context); i++) {
        const eitp_variable variable = eitp_variable_at(context, i);
        const int64_t count = (int64_t)(variable.size / eitp_dtype_size(variable.dtype));
        float *values;
        if (variable.role != EITP_PARAMETER)
            continue;
        values = (float *)malloc((size_t)count * sizeof *values);
        CHECK(!eitp_variable_read_f32(context, variable.name, 0, values, count, &error_));
        crc = eitp__crc32c(crc, values, (size_t)count * sizeof *values);
        free(values);
    }
    return crc;
}

/* The same checksum for the model in a directory. */
static RUN_UNUSED eitp_status read_checkpoint_weights(const eitp_host *host, const char *directory, uint32_t *weights) {
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context = NULL;
    eitp_model *model = NULL;
    eitp_status status;
    config.host = *host;
    config.threads = 1;
    status = eitp_context_create(&config, &context, &error_);
    if (!status)
        status = eitp_model_load(context, directory, &model, &error_);
    if (!status)
        *weights = weights_of(context);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    return status;
}

/* Returns the fingerprint after `steps` steps of a variant, or 0 after a failure. */
static RUN_UNUSED uint32_t train_variant(const variant *v, const char *directory, int64_t steps) {
    const eitp_host host = eitp_host_default();
    run r;
    uint32_t crc = 0;
    if (make_run(&r, &host, v, directory, &error_))
        printf("    %s\n", error_.message);
    else if (step_many(&r, steps, NULL))
        crc = fingerprint(&r);
    CHECK_THAT(!r.trainer || !r.trainer->plans.pass_dependent_parameter[0], "passes may change the bits of '%s'",
               r.trainer->plans.pass_dependent_parameter);
    end_run(&r);
    return crc;
}

typedef struct run_set {
    const char *isa, *products, *precision;
    eitp_optimizer optimizer;
} run_set;

static const run_set run_sets_[] = {
    {"ref", "own", "fp32", EITP_ADAMW},       {"avx2", "own", "fp32", EITP_ADAMW},
    {"avx512", "own", "fp32", EITP_ADAMW},    {"ref", "openblas", "fp32", EITP_ADAMW},
    {"avx2", "openblas", "fp32", EITP_ADAMW}, {"avx512", "openblas", "fp32", EITP_ADAMW},
    {"ref", "own", "bf16", EITP_ADAMW},       {"avx2", "own", "bf16", EITP_ADAMW},
    {"avx512", "own", "bf16", EITP_ADAMW},    {"avx512bf16", "own", "bf16", EITP_ADAMW},
    {"amx", "own", "bf16", EITP_ADAMW},       {"ref", "own", "fp16", EITP_ADAMW},
    {"avx2", "own", "fp16", EITP_ADAMW},      {"avx512", "own", "fp16", EITP_ADAMW},
    {"ref", "own", "bf16", EITP_ADAMW8},      {"avx2", "own", "bf16", EITP_ADAMW8},
    {"avx2", "own", "fp32", EITP_ADAMW8},     {"avx512", "own", "bf16", EITP_ADAMW8},
    {"ref", "own", "bf16", EITP_ADAMW8_SR},   {"avx2", "own", "bf16", EITP_ADAMW8_SR},
    {"ref", "own", "fp32", EITP_FACTORED},    {"avx2", "own", "fp32", EITP_FACTORED},
    {"ref", "own", "bf16", EITP_FACTORED},    {"avx2", "own", "bf16", EITP_FACTORED},
    {"avx512", "own", "bf16", EITP_FACTORED}, {"ref", "own", "fp32", EITP_SGD},
    {"avx2", "own", "fp32", EITP_SGD},        {"ref", "own", "bf16", EITP_SGD},
    {"avx2", "own", "bf16", EITP_SGD},        {"avx2", "own", "fp16", EITP_SGD},
    {"avx512", "own", "bf16", EITP_SGD},
};

static RUN_UNUSED int has_run_set(const run_set *set) {
    eitp_context_config config = eitp_context_config_default();
    eitp_context *context;
    config.isa = set->isa;
    config.products = set->products;
    config.precision = set->precision;
    if (eitp_context_create(&config, &context, &error_))
        return 0;
    eitp_context_destroy(context);
    return 1;
}

/* True if a later combination that this machine supports differs from the one at `index` only in its kernel set. */
static RUN_UNUSED int has_better_set(size_t index) {
    const run_set *set = &run_sets_[index];
    for (size_t i = index + 1; i < EITP__COUNT(run_sets_); i++) {
        const run_set *other = &run_sets_[i];
        if (!strcmp(set->products, other->products) && !strcmp(set->precision, other->precision) &&
            set->optimizer == other->optimizer && has_run_set(other))
            return 1;
    }
    return 0;
}

/*
 * Sets *v to the next combination of kernel set, products, precision and optimizer that this machine supports. Returns
 * 0 if there is none. With EITP_TEST_QUICK, selects the first combination, and from the others those with the best
 * kernel set.
 */
static RUN_UNUSED int next_set(size_t *index, variant *v) {
    while (*index < EITP__COUNT(run_sets_)) {
        const size_t at = (*index)++;
        const run_set *set = &run_sets_[at];
        if (!has_run_set(set)) {
            printf("SKIPPED %s with %s products in %s: %s\n", set->isa, set->products, set->precision, error_.message);
        } else if (!test_is_quick() || !at || !has_better_set(at)) {
            v->isa = set->isa;
            v->products = set->products;
            v->precision = set->precision;
            v->optimizer = set->optimizer;
            return 1;
        }
    }
    return 0;
}

#endif
