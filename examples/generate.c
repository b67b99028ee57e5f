/*
 * Teaches: loading a model and its tokenizer from a Hugging Face directory, and continuing a text. Compile and run:
 *     cc -O2 -I. examples/generate.c -lm -o generate && ./generate DIRECTORY [PROMPT [TOKENS [SEED]]]
 * DIRECTORY has config.json, model.safetensors (or pytorch_model.bin) and tokenizer.json: GPT-2 itself, or a
 * checkpoint that examples/train_gpt2.c wrote. The text goes to standard output, everything else to standard error.
 */
#define EITP_IMPLEMENTATION
#include "eitp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static eitp_error error;

/* Feeds the prompt, or the end-of-text token if it is empty. */
static eitp_status feed_prompt(eitp_generator *generator, const eitp_tokenizer *tokenizer, const char *prompt) {
    size_t size = strlen(prompt), capacity = 4 * size + 1, count = 0;
    int32_t *ids = (int32_t *)malloc(capacity * sizeof *ids);
    eitp_status status;
    if (!ids) {
        snprintf(error.message, sizeof error.message, "out of memory for a prompt of %zu bytes", size);
        return EITP_ERROR_MEMORY;
    }
    status = eitp_tokenizer_encode(tokenizer, prompt, size, ids, capacity, &count, &error);
    if (!status && count == 0 && eitp_tokenizer_end_of_text(tokenizer) >= 0)
        ids[count++] = eitp_tokenizer_end_of_text(tokenizer);
    if (!status)
        status = eitp_generator_feed(generator, ids, (int64_t)count, &error);
    free(ids);
    return status;
}

/* Samples, prints and feeds tokens until the end-of-text token, `tokens` of them, or the model's context is full. */
static eitp_status generate(eitp_generator *generator, const eitp_tokenizer *tokenizer, const eitp_sampling *sampling,
                            long tokens) {
    while (tokens-- > 0) {
        int32_t id = eitp_generator_sample(generator, sampling);
        const char *bytes = NULL;
        size_t size = 0;
        eitp_status status;
        if (id == eitp_tokenizer_end_of_text(tokenizer))
            break;
        status = eitp_tokenizer_token(tokenizer, id, &bytes, &size, &error);
        if (status)
            return status;
        fwrite(bytes, 1, size, stdout);
        fflush(stdout);
        if (eitp_generator_remaining(generator) < 1) {
            fprintf(stderr, "\n(the model's context is full)");
            break;
        }
        status = eitp_generator_feed(generator, &id, 1, &error);
        if (status)
            return status;
    }
    printf("\n");
    return EITP_OK;
}

int main(int argument_count, char **arguments) {
    const char *prompt = argument_count > 2 ? arguments[2] : "";
    long tokens = argument_count > 3 ? strtol(arguments[3], NULL, 10) : 50;
    eitp_context_config settings = eitp_context_config_default();
    eitp_sampling sampling = eitp_sampling_default();
    eitp_context *context = NULL;
    eitp_tokenizer *tokenizer = NULL;
    eitp_model *model = NULL;
    eitp_generator *generator = NULL;
    int failed;
    if (argument_count < 2) {
        fprintf(stderr, "usage: %s DIRECTORY [PROMPT [TOKENS [SEED]]]\n", arguments[0]);
        return 2;
    }
    sampling.temperature = 0.8; /* below 1: prefer likely tokens */
    sampling.top_k = 40;
    sampling.seed = argument_count > 4 ? strtoull(arguments[4], NULL, 10) : 1;
    failed = eitp_context_create(&settings, &context, &error) ||
             eitp_tokenizer_load(&settings.host, arguments[1], &tokenizer, &error) ||
             eitp_model_load(context, arguments[1], &model, &error) ||
             eitp_generator_create(model, 0, &generator, &error);
    if (!failed) {
        fprintf(stderr, "%lld parameters on %s\n", (long long)eitp_model_parameter_count(model),
                eitp_context_description(context));
        printf("%s", prompt);
        failed = feed_prompt(generator, tokenizer, prompt) || generate(generator, tokenizer, &sampling, tokens);
    }
    if (failed)
        fprintf(stderr, "generate: %s\n", error.message);
    eitp_generator_destroy(generator);
    eitp_model_destroy(model);
    eitp_tokenizer_destroy(tokenizer);
    eitp_context_destroy(context);
    return failed;
}
