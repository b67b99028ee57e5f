/*
 * Demonstrates a run from a JSON file: plan it, train it, resume it after a kill or Ctrl-C, and use the trained
 * classifier in the same process. Compile and run with a table of labelled samples:
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

int main(int count, char **arguments) {
    eitp_recipe recipe = eitp_recipe_default();
    eitp_training *training = NULL;
    eitp_fit_candidate plan;
    eitp_error error;
    /* EITP_OK is 0: || stops at the first call that fails. */
    int failed = eitp_recipe_read(count > 1 ? arguments[1] : "recipe.json", &recipe, &error) ||
                 eitp_training_open(&recipe, &training, &error) || eitp_training_plan(training, &plan, &error);
    if (!failed) {
        printf("%s in %s, %.0f MB\n", eitp_optimizer_get(plan.optimizer)->name, plan.precision,
               (double)plan.total / 1e6);
        run = eitp_training_get_run(training);
        signal(SIGINT, stop);
        failed = eitp_training_run(training, NULL, &error) != EITP_OK;
        signal(SIGINT, SIG_DFL);
    }
    for (int i = 2; i < count && !failed; i++) {
        const char *text = arguments[i], *label;
        double probability;
        failed = eitp_classify_text(eitp_training_get_model(training), eitp_training_get_tokenizer(training), text,
                                    strlen(text), &label, &probability, &error) != EITP_OK;
        if (!failed)
            printf("%s: %s (%.2f)\n", text, label, probability);
    }
    if (failed)
        fprintf(stderr, "%s\n", error.message);
    eitp_training_close(training);
    eitp_recipe_release(&recipe);
    return failed;
}
