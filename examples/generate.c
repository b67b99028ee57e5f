/*
 * Demonstrates loading a model and its tokenizer from a Hugging Face directory, and continuing a prompt with streaming
 * output. Compile and run:
 *     cc -O2 -I. examples/generate.c -lm -o generate && ./generate DIRECTORY [PROMPT [TOKENS [SEED]]]
 * DIRECTORY has config.json, model.safetensors (or pytorch_model.bin) and tokenizer.json: GPT-2 itself, or a checkpoint
 * written by examples/train_gpt2.c. The text goes to standard output, everything else to standard error.
 */
#define EITP_IMPLEMENTATION
#include "eitp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints a piece of the text as soon as it is generated. */
static int print_piece(void *user, const char *text, size_t size) {
    (void)user;
    return fwrite(text, 1, size, stdout) != size || fflush(stdout); /* nonzero stops the generation */
}

int main(int argument_count, char **arguments) {
    const char *prompt = argument_count > 2 ? arguments[2] : "";
    eitp_context_config settings = eitp_context_config_default();
    eitp_generate_config config = eitp_generate_config_default();
    eitp_generate_report report;
    eitp_context *context = NULL;
    eitp_tokenizer *tokenizer = NULL;
    eitp_model *model = NULL;
    eitp_generator *generator = NULL;
    eitp_error error;
    int failed;
    if (argument_count < 2) {
        fprintf(stderr, "usage: %s DIRECTORY [PROMPT [TOKENS [SEED]]]\n", arguments[0]);
        return 2;
    }
    config.sampling.temperature = 0.8; /* below 1: prefer likely tokens */
    config.sampling.top_k = 40;
    config.sampling.seed = argument_count > 4 ? strtoull(arguments[4], NULL, 10) : 1;
    config.max_tokens = argument_count > 3 ? strtol(arguments[3], NULL, 10) : 50;
    config.piece = print_piece;
    failed = eitp_context_create(&settings, &context, &error) ||
             eitp_tokenizer_load(&settings.host, arguments[1], &tokenizer, &error) ||
             eitp_model_load(context, arguments[1], &model, &error) ||
             eitp_generator_create(model, 0, &generator, &error);
    if (!failed) {
        fprintf(stderr, "%lld parameters on %s\n", (long long)eitp_model_parameter_count(model),
                eitp_context_description(context));
        printf("%s", prompt);
        failed = eitp_generate_text(generator, tokenizer, prompt, strlen(prompt), &config, &report, &error);
        printf("\n");
        if (report.lost_beginning)
            fprintf(stderr, "the text exceeds the model's context: the end was generated without the start\n");
    }
    if (failed)
        fprintf(stderr, "generate: %s\n", error.message);
    eitp_generator_destroy(generator);
    eitp_model_destroy(model);
    eitp_tokenizer_destroy(tokenizer);
    eitp_context_destroy(context);
    return failed;
}
