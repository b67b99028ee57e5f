/*
 * Teaches: a run from a JSON file: planned, trained, continued after a kill or Ctrl-C, and the trained classifier used
 * in the same process. Compile and run, with a table of texts and labels:
 *     printf 'label,text\nplus,one and one\nminus,two less one\n' >sums.csv
 *     echo '{"init": "minilm", "data": "sums.csv", "val_fraction": 0, "steps": 20, "output_dir": "sums"}' >sums.json
 *     cc -O2 -I. examples/recipe.c -lm -o recipe && ./recipe sums.json "four less two"
 */
#define EITP_IMPLEMENTATION
#include "eitp.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static eitp_run *run;

static void stop(int number) {
    eitp_run_request_stop(run, number);
}

/* Prints the likeliest label of a text. */
static eitp_status classify(eitp_training *training, const char *text, eitp_error *error) {
    const eitp_model *model = eitp_training_get_model(training);
    const eitp_tokenizer *tokenizer = eitp_training_get_tokenizer(training);
    const eitp_predictor_config config = eitp_predictor_config_default(model, tokenizer);
    const eitp_text_pair pair = {{text, strlen(text)}, {NULL, 0}, NULL, 0};
    float scores[64];
    int64_t best = 0, labels = eitp_model_config(model).labels;
    eitp_predictor *predictor = NULL;
    eitp_status status = eitp_predictor_create(model, tokenizer, &config, &predictor, error);
    if (!status && labels > 0 && labels <= 64)
        status = eitp_predict(predictor, &pair, 1, scores, NULL, error);
    for (int64_t i = 1; !status && i < labels && i < 64; i++)
        best = scores[i] > scores[best] ? i : best;
    if (!status && labels > 0)
        printf("%s: %s\n", text, eitp_model_label(model, best));
    eitp_predictor_destroy(predictor);
    return status;
}

int main(int count, char **arguments) {
    eitp_recipe recipe = eitp_recipe_default();
    eitp_training *training = NULL;
    eitp_fit_candidate chosen;
    eitp_error error;
    eitp_status status = eitp_recipe_read(count > 1 ? arguments[1] : "recipe.json", &recipe, &error);
    if (!status)
        status = eitp_training_open(&recipe, &training, &error);
    if (!status)
        status = eitp_training_plan(training, &chosen, &error);
    if (!status) {
        printf("%s in %s, %.0f MB\n", eitp_optimizer_get(chosen.optimizer)->name, chosen.precision,
               (double)chosen.total / 1e6);
        run = eitp_training_get_run(training);
        signal(SIGINT, stop);
        status = eitp_training_run(training, NULL, &error);
    }
    for (int i = 2; i < count && !status; i++)
        status = classify(training, arguments[i], &error);
    if (status)
        fprintf(stderr, "%s\n", error.message);
    signal(SIGINT, SIG_DFL);
    eitp_training_close(training);
    eitp_recipe_release(&recipe);
    return status != EITP_OK;
}
