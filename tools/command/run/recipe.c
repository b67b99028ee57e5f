#include "run/recipe.h"

#include "files.h"
#include "options/profile.h"
#include "options/table.h"
#include "plan/fit.h"

static void set_run(training_run *r, eitp_run_config *config) {
    const option_set *o = &r->options;
    config->directory = r->directory;
    config->resume = r->checkpoint ? EITP_RESUME_NAMED : EITP_RESUME_NONE;
    config->checkpoint = r->checkpoint;
    /* Options that are not in force have no value; see options_reconcile. */
    config->eval_steps = options_integer(o, OPTION_EVAL_STEPS);
    config->save_steps = options_integer(o, OPTION_SAVE_STEPS);
    config->save_epochs = options_choice(o, OPTION_SAVE_STRATEGY) == 2;
    config->cpu_mem_acts = options_is_explicit(o, OPTION_CPU_MEM_MAX); /* the default only saves */
    config->gpu_mem_warn = options_number(o, OPTION_GPU_MEM_MAX);
    config->listener = r->listener;
}

/* Sets the length of training: as recorded, or from --steps or --epochs, whichever has the stronger source. */
static void set_length(const training_run *r, eitp_recipe *recipe) {
    const option_set *o = &r->options;
    const option_source steps = o->values[OPTION_STEPS].source, epochs = o->values[OPTION_EPOCHS].source;
    const eitp_trainer_config *recorded = &r->resumed.config;
    recipe->run.steps = steps >= epochs ? options_integer(o, OPTION_STEPS) : 0;
    recipe->trainer.last_sample = 0;
    /* --drop-last changes the steps of the recorded epochs. */
    if (r->checkpoint && !options_is_explicit(o, OPTION_STEPS) && !options_is_explicit(o, OPTION_EPOCHS) &&
        recorded->schedule.steps && !(options_is_explicit(o, OPTION_DROP_LAST) && recorded->last_sample)) {
        recipe->run.steps = recorded->schedule.steps;
        recipe->trainer.last_sample = recorded->last_sample;
    }
    if (o->values[OPTION_WARMUP_RATIO].source < o->values[OPTION_WARMUP_STEPS].source)
        recipe->warmup_ratio = 0;
}

/* Sets the source of the weights. A resumed run has its own; with adapters it needs --model for the base weights. */
static void set_model(const training_run *r, eitp_model_recipe *model) {
    const option_set *o = &r->options;
    const int is_explicit = !r->checkpoint || options_is_explicit(o, OPTION_DROPOUT);
    model->directory = r->model_directory;
    model->shape = r->checkpoint || run_starts_from_model(r) ? NULL : options_text(o, OPTION_INIT);
    model->dropout = options_has(o, OPTION_DROPOUT) && is_explicit ? options_number(o, OPTION_DROPOUT) : -1;
    if (r->checkpoint && !options_is_explicit(o, OPTION_TOKENIZER))
        model->tokenizer = NULL;
    /* For a model in a directory these are only compared; see read_shape. */
    if (!model->shape)
        model->vocabulary = model->layers = model->heads = model->width = model->positions = 0;
}

eitp_status recipe_follow_options(training_run *r, eitp_error *error) {
    eitp_recipe *recipe = eitp_training_get_recipe(r->training);
    const eitp_status status = fit_follow_options(&r->options, r->training, error);
    set_run(r, &recipe->run);
    set_length(r, recipe);
    return status;
}

eitp_status recipe_describe(training_run *r, eitp_recipe *recipe, eitp_error *error) {
    eitp_status status;
    *recipe = eitp_recipe_default();
    status = options_to_recipe(&r->options, NULL, recipe, error);
    recipe->context.host = command_host();
    recipe->memory.least = profile_takes_least(&r->options);
    recipe->data.input = files_input();
    recipe->data.holds_out_only = options_choice(&r->options, OPTION_EVAL) == 0;
    recipe->data.rereads[EITP_TRAINING] = r->rereads[0] ? 2 : options_is_explicit(&r->options, OPTION_DATA);
    recipe->data.rereads[EITP_VALIDATION] = r->rereads[0] ? 2 : options_is_explicit(&r->options, OPTION_VAL_DATA);
    r->opening.data = options_text(&r->options, OPTION_DATA);
    recipe->progress = opening_show;
    recipe->progress_user = &r->opening;
    set_model(r, &recipe->model);
    set_run(r, &recipe->run);
    set_length(r, recipe);
    return status;
}
