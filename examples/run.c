/*
 * Teaches: a run that may be stopped or killed at any time, goes on when started again, and ends with the same weights:
 *     cc -O2 -I. examples/run.c -lm -o run && ./run TEXT OUTPUT_DIR [STEPS [SAVE_SECONDS]]
 */
#define EITP_IMPLEMENTATION
#include "eitp.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 64 };
static eitp_error error;
static eitp_run *run; /* here, so that the signal handler finds it */

static void stop(int number) {
    eitp_run_request_stop(run, number);
}

static void print(void *user, const eitp_run_event *event) {
    fprintf((FILE *)user, "%s\n", event->message);
}

int main(int count, char **arguments) {
    const char *text = count > 1 ? arguments[1] : "", *output = count > 2 ? arguments[2] : "";
    char tokens[1000];
    eitp_context_config settings = eitp_context_config_default();
    eitp_run_config config = eitp_run_config_default();
    eitp_trainer_config training = eitp_trainer_config_default();
    eitp_pack_config pack = {&text, 1, 0, 0, NULL, NULL};
    eitp_context *context;
    eitp_tokenizer *bytes;
    eitp_token_file *file;
    eitp_token_range train, validation;
    eitp_transformer_config shape;
    eitp_model *model;
    eitp_trainer *trainer;
    if (count < 3 || snprintf(tokens, sizeof tokens, "%s/text.tok", output) >= (int)sizeof tokens)
        return fprintf(stderr, "usage: %s TEXT OUTPUT_DIR [STEPS [SAVE_SECONDS]]\n", arguments[0]), 2;
    config.directory = output, config.resume = EITP_RESUME_NEWEST, config.keep_best = "loss", config.eval_steps = 100;
    config.steps = count > 3 ? atol(arguments[3]) : 400, config.save_seconds = count > 4 ? atof(arguments[4]) : 2;
    settings.threads = 2, config.listener.user = stderr, config.listener.notify = print;
    training.block_size = BLOCK, training.batch_size = 4, training.schedule.peak = 1e-3;
    if (eitp_transformer_config_named("tiny", &shape, &error) || eitp_run_create(&settings.host, &config, &run, &error))
        return fprintf(stderr, "%s\n", error.message), 1;
    signal(SIGINT, stop), signal(SIGTERM, stop);
    shape.vocabulary = 257, shape.positions = BLOCK, shape.width = 64, shape.inner = 256, shape.layers = 2;
    if (eitp_context_create(&settings, &context, &error) || eitp_tokenizer_bytes(&settings.host, &bytes, &error) ||
        eitp_pack(&settings.host, bytes, &pack, tokens, NULL, &error) ||
        eitp_token_file_open(&settings.host, tokens, 0, &file, &error) ||
        eitp_split_tokens(eitp_token_file_get_info(file).token_count, 0.1, BLOCK, &train, &validation, &error) ||
        eitp_model_create(context, &shape, &model, &error) || eitp_model_initialize(model, 1, &error) ||
        eitp_trainer_create(model, file, train, file, validation, bytes, &training, &trainer, &error) ||
        eitp_run_train(run, trainer, NULL, &error))
        return fprintf(stderr, "%s\n", error.message), 1;
    eitp_trainer_destroy(trainer), eitp_model_destroy(model), eitp_token_file_close(file);
    eitp_tokenizer_destroy(bytes), eitp_context_destroy(context), eitp_run_destroy(run);
    return 0;
}
