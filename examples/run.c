/* Demonstrates a run that can be stopped or killed at any time, resumes when restarted, and ends with the same weights:
 *     cc -O2 -I. examples/run.c -lm -o run && ./run TEXT OUTPUT_DIR [STEPS [SAVE_SECONDS]] */
#define EITP_IMPLEMENTATION
#include "eitp.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
static eitp_error error;
static eitp_run *run; /* global, for the signal handler */

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
    eitp_pack_config pack = eitp_pack_config_default();
    eitp_language_config data = eitp_language_config_default();
    eitp_transformer_config shape;
    eitp_context *context;
    eitp_tokenizer *bytes;
    eitp_sample_file *file;
    eitp_token_range train, held_out;
    eitp_task task;
    eitp_trainer *trainer;
    if (count < 3 || snprintf(tokens, sizeof tokens, "%s/text.tok", output) >= (int)sizeof tokens)
        return fprintf(stderr, "usage: run TEXT OUTPUT_DIR [STEPS [SAVE_SECONDS]]\n"), 2;
    config.directory = output, config.resume = EITP_RESUME_NEWEST, config.keep_best = "loss", config.eval_steps = 100;
    config.steps = count > 3 ? atol(arguments[3]) : 400, config.save_seconds = count > 4 ? atof(arguments[4]) : 2;
    pack.texts.paths = &text, pack.texts.path_count = 1, settings.threads = 2, config.listener.user = stderr,
    config.listener.notify = print;
    data.block_size = 64, training.batch_size = 4, training.schedule.peak = 1e-3;
    if (eitp_transformer_config_named("tiny", &shape, &error) || eitp_run_open(&settings.host, &config, &run, &error))
        return fprintf(stderr, "%s\n", error.message), 1;
    signal(SIGINT, stop), signal(SIGTERM, stop);
    shape.vocabulary = 257, shape.positions = data.block_size, shape.width = 64, shape.inner = 256, shape.layers = 2;
    if (eitp_context_create(&settings, &context, &error) ||
        eitp_tokenizer_create_bytes(&settings.host, &bytes, &error) ||
        eitp_pack(&settings.host, bytes, &pack, tokens, NULL, &error) ||
        eitp_sample_file_open(&settings.host, tokens, 0, &file, &error) ||
        eitp_split_tokens(eitp_sample_file_get_info(file).token_count, 0.1, 64, &train, &held_out, &error) ||
        eitp_model_create(context, &shape, &data.model, &error) || eitp_model_initialize(data.model, 1, &error))
        return fprintf(stderr, "%s\n", error.message), 1;
    data.training = eitp_sample_file_token_source(file, train), data.tokenizer = bytes;
    data.validation = eitp_sample_file_token_source(file, held_out);
    if (eitp_language_task(&data, &task, &error) || eitp_trainer_create(&task, &training, &trainer, &error) ||
        eitp_run_train(run, trainer, NULL, &error))
        return fprintf(stderr, "%s\n", error.message), 1;
    signal(SIGINT, SIG_DFL), signal(SIGTERM, SIG_DFL); /* the run is destroyed below */
    eitp_trainer_destroy(trainer), eitp_task_release(&task), eitp_model_destroy(data.model);
    eitp_sample_file_close(file), eitp_tokenizer_destroy(bytes), eitp_context_destroy(context), eitp_run_close(run);
    return 0;
}
