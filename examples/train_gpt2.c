/*
 * Demonstrates training a GPT-2 on text with your own loop, with validation, checkpoints and resume. Compile and run:
 *     cc -O2 -I. examples/train_gpt2.c -lm -o train_gpt2 && ./train_gpt2 OUTPUT_DIRECTORY [TEXT...]
 * TEXT is a file or a directory; the default is the source of this example. Stop it at any time and run it again to
 * resume from the last checkpoint.
 */
#define EITP_IMPLEMENTATION
#include "eitp.h"

#include <stdio.h>
#include <string.h>

enum { VOCABULARY = 512, BLOCK = 64, BATCH = 8, STEPS = 120, SAVE_EVERY = 40, PATH_SIZE = 1000 };

static eitp_error error;

/* Everything that the run needs, in order of creation. */
typedef struct run {
    const char *output;
    char token_path[PATH_SIZE];
    eitp_context *context;
    eitp_tokenizer *tokenizer;
    eitp_sample_file *tokens;
    eitp_token_range training, validation;
    eitp_model *model;
    eitp_task task;
    eitp_trainer *trainer;
} run;

static void print_log(void *user, eitp_log_level level, const char *message) {
    (void)user;
    if (level >= EITP_LOG_INFO)
        fprintf(stderr, "%s\n", message);
}

/* Loads the tokenizer of an earlier run, or trains one on the text files. */
static eitp_status prepare_tokenizer(run *r, const eitp_host *host, const char *const *paths, size_t path_count) {
    eitp_tokenizer_train_config config = eitp_tokenizer_train_config_default();
    eitp_text_files_config reading = eitp_text_files_config_default();
    eitp_text_files *texts = NULL;
    eitp_text_source source;
    eitp_status status;
    eitp_path_info info;
    char path[PATH_SIZE];
    config.vocabulary_size = VOCABULARY;
    snprintf(path, sizeof path, "%s/tokenizer.json", r->output);
    if (host->files.info(host->files.user, path, &info) == 0 && info.kind == EITP_PATH_FILE)
        return eitp_tokenizer_load(host, path, &r->tokenizer, &error);
    reading.paths = paths;
    reading.path_count = path_count;
    status = eitp_text_files_open(host, &reading, &texts, &error);
    if (status)
        return status;
    source = eitp_text_files_source(texts);
    status = eitp_tokenizer_train(host, &config, &source, &r->tokenizer, &error);
    eitp_text_files_close(texts);
    return status ? status : eitp_tokenizer_save(r->tokenizer, r->output, &error);
}

/* Packs the text files into a token file and reserves a tenth of it for validation. */
static eitp_status pack_texts(run *r, const eitp_host *host, const char *const *paths, size_t path_count) {
    eitp_pack_config config = eitp_pack_config_default();
    eitp_sample_file_info info;
    eitp_status status;
    config.texts.paths = paths;
    config.texts.path_count = path_count;
    snprintf(r->token_path, sizeof r->token_path, "%s/text.tok", r->output);
    status = eitp_pack(host, r->tokenizer, &config, r->token_path, &info, &error);
    if (status)
        return status;
    printf("%llu bytes of text, %llu tokens; a model that only knows their frequencies has a loss of %.3f\n",
           (unsigned long long)info.text_bytes, (unsigned long long)info.token_count, info.unigram_entropy);
    status = eitp_sample_file_open(host, r->token_path, 0, &r->tokens, &error);
    return status ? status : eitp_split_tokens(info.token_count, 0.1, BLOCK, &r->training, &r->validation, &error);
}

static eitp_status create_model(run *r) {
    eitp_transformer_config config;
    eitp_status status = eitp_transformer_config_named("tiny", &config, &error);
    if (status)
        return status;
    config.vocabulary = eitp_tokenizer_size(r->tokenizer);
    config.positions = BLOCK;
    config.embedding_dropout = config.attention_dropout = config.residual_dropout = 0;
    status = eitp_model_create(r->context, &config, &r->model, &error);
    return status ? status : eitp_model_initialize(r->model, 1, &error);
}

/* A sample is BLOCK tokens and the token that follows each. */
static eitp_status create_task(run *r) {
    eitp_language_config config = eitp_language_config_default();
    config.model = r->model;
    config.training = eitp_sample_file_token_source(r->tokens, r->training);
    config.validation = eitp_sample_file_token_source(r->tokens, r->validation);
    config.block_size = BLOCK;
    config.tokenizer = r->tokenizer;
    return eitp_language_task(&config, &r->task, &error);
}

/* The learning rate warms up for a tenth of the steps, then follows a cosine. */
static eitp_status create_trainer(run *r) {
    eitp_trainer_config config = eitp_trainer_config_default();
    config.batch_size = BATCH;
    config.grad_accum = 1;
    config.max_grad_norm = 1;
    config.schedule.kind = EITP_SCHEDULE_COSINE;
    config.schedule.peak = 2e-3;
    config.schedule.warmup = STEPS / 10;
    config.schedule.steps = STEPS;
    return eitp_trainer_create(&r->task, &config, &r->trainer, &error);
}

/* Resumes from the newest intact checkpoint, if there is one. */
static eitp_status resume(run *r, const eitp_host *host) {
    char checkpoint[PATH_SIZE];
    int64_t step = -1;
    eitp_status status = eitp_checkpoint_recover(host, r->output, &step, &error);
    if (status || step < 0)
        return status;
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-%lld", r->output, (long long)step);
    printf("resuming from %s\n", checkpoint);
    return eitp_trainer_resume(r->trainer, checkpoint, &error);
}

static eitp_status save(run *r, const eitp_host *host) {
    eitp_evaluation evaluation;
    eitp_status status = eitp_trainer_evaluate(r->trainer, 0, &evaluation, &error);
    if (status)
        return status;
    printf("validation loss %.3f (standard error %.3f), saved\n", evaluation.loss, evaluation.error);
    status = eitp_trainer_save(r->trainer, r->output, &error);
    return status ? status : eitp_checkpoint_prune(host, r->output, 2, &error);
}

static eitp_status train(run *r, const eitp_host *host) {
    eitp_step_report report;
    while (eitp_trainer_steps_done(r->trainer) < STEPS) {
        eitp_status status = eitp_trainer_step(r->trainer, &report, &error);
        if (!status && report.step % 10 == 0)
            printf("step %3lld  loss %.3f  gradient norm %.2f%s\n", (long long)report.step, report.loss,
                   report.grad_norm, report.applied ? "" : "  (not finite: skipped)");
        if (!status && report.step % SAVE_EVERY == 0)
            status = save(r, host);
        if (status)
            return status;
    }
    return EITP_OK;
}

int main(int argument_count, char **arguments) {
    static const char *const own_source = __FILE__;
    eitp_context_config settings = eitp_context_config_default();
    const char *const *paths = argument_count > 2 ? (const char *const *)(arguments + 2) : &own_source;
    size_t path_count = argument_count > 2 ? (size_t)argument_count - 2 : 1;
    run r;
    int failed;
    memset(&r, 0, sizeof r);
    if (argument_count < 2 || strlen(arguments[1]) > PATH_SIZE - 50) {
        fprintf(stderr, "usage: %s OUTPUT_DIRECTORY [TEXT...]\n", arguments[0]);
        return 2;
    }
    r.output = arguments[1];
    settings.host.log.write = print_log;
    settings.host.files.make_directory(settings.host.files.user, r.output); /* fails harmlessly if it exists */
    failed = eitp_context_create(&settings, &r.context, &error) ||
             prepare_tokenizer(&r, &settings.host, paths, path_count) ||
             pack_texts(&r, &settings.host, paths, path_count) || create_model(&r) || create_task(&r) ||
             create_trainer(&r);
    if (!failed)
        printf("%lld parameters; %.1f MB arena, %.1f MB of parameters, gradients and optimizer state\n",
               (long long)eitp_model_parameter_count(r.model), (double)eitp_context_arena_bytes(r.context) / 1e6,
               (double)(eitp_context_variable_bytes(r.context, EITP_PARAMETER) +
                        eitp_context_variable_bytes(r.context, EITP_GRADIENT) +
                        eitp_context_variable_bytes(r.context, EITP_OPTIMIZER)) /
                   1e6);
    failed = failed || resume(&r, &settings.host) || train(&r, &settings.host);
    if (failed)
        fprintf(stderr, "train_gpt2: %s\n", error.message);
    else
        printf("done: generate text from %s/checkpoint-%d with examples/generate.c\n", r.output, (int)STEPS);
    eitp_trainer_destroy(r.trainer);
    eitp_task_release(&r.task);
    eitp_model_destroy(r.model);
    eitp_sample_file_close(r.tokens);
    eitp_tokenizer_destroy(r.tokenizer);
    eitp_context_destroy(r.context);
    return failed;
}
