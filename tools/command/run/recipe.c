#include "run/recipe.h"

#include "files.h"
#include "options/profile.h"
#include "options/table.h"

/* ---- Settings ---- */

/* Settings that one option, or several, stand for in another way. */
static int is_set_apart(const char *name) {
    static const char *const names[] = {"model", "init", "output_dir", "steps", "schedule_steps", "last_sample"};
    for (size_t i = 0; i < COMMAND_COUNT(names); i++) {
        if (!strcmp(names[i], name))
            return 1;
    }
    return 0;
}

/* The option of a setting, by its name, or OPTION_CAPACITY. */
static option_id option_of_setting(const eitp_setting *setting) {
    const option_name found = option_find(setting->name);
    return *found.on || is_set_apart(setting->name) ? OPTION_CAPACITY : found.id;
}

static eitp_status set_value(const eitp_setting *setting, const option_value *value, option_kind kind, void *config,
                             eitp_error *error) {
    switch (setting->kind) {
    case EITP_SETTING_TEXTS:
        return eitp_setting_set_texts(setting, (const char *const *)value->texts, value->count, config, error);
    case EITP_SETTING_TEXT:
        return eitp_setting_set_text(setting, kind == KIND_CHOICE ? value->choice : value->texts[0], config, error);
    case EITP_SETTING_NUMBER:
        return eitp_setting_set_number(setting, value->number, config, error);
    case EITP_SETTING_UNSIGNED:
        return eitp_setting_set_unsigned(setting, (uint64_t)value->integer, config, error);
    default:
        return eitp_setting_set_integer(setting, value->integer, config, error);
    }
}

static eitp_status set_group(const option_set *o, const eitp_setting_group *group, eitp_recipe *recipe,
                             eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < group->count && !status; i++) {
        const option_id id = option_of_setting(&group->settings[i]);
        if (id != OPTION_CAPACITY && o->values[id].count)
            status = set_value(&group->settings[i], &o->values[id], option_of(id)->kind, (char *)recipe + group->offset,
                               error);
    }
    return status;
}

eitp_status recipe_set_group(const option_set *o, const char *name, eitp_recipe *recipe, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; eitp_recipe_group(i).settings && !status; i++) {
        const eitp_setting_group group = eitp_recipe_group(i);
        if (!name || !strcmp(name, group.name))
            status = set_group(o, &group, recipe, error);
    }
    return status;
}

/* ---- What several options say ---- */

static void set_run(training_run *r, eitp_run_config *config) {
    const option_set *o = &r->options;
    config->directory = r->directory;
    config->resume = r->checkpoint ? EITP_RESUME_NAMED : EITP_RESUME_NONE;
    config->checkpoint = r->checkpoint;
    /* Options that are not in force have no value: see options_reconcile. */
    config->eval_steps = options_integer(o, OPTION_EVAL_STEPS);
    config->save_steps = options_integer(o, OPTION_SAVE_STEPS);
    config->save_epochs = options_choice(o, OPTION_SAVE_STRATEGY) == 2;
    config->cpu_mem_acts = options_is_explicit(o, OPTION_CPU_MEM_MAX); /* the default only saves */
    config->gpu_mem_warn = options_number(o, OPTION_GPU_MEM_MAX);
    config->listener = r->listener;
}

/* How long to train: as recorded, or by --steps or --epochs, whichever is from the better source. */
static void set_length(const training_run *r, eitp_recipe *recipe) {
    const option_set *o = &r->options;
    const option_source steps = o->values[OPTION_STEPS].source, epochs = o->values[OPTION_EPOCHS].source;
    const eitp_trainer_config *recorded = &r->resumed.config;
    recipe->run.steps = steps >= epochs ? options_integer(o, OPTION_STEPS) : 0;
    recipe->trainer.last_sample = 0;
    /* --drop-last changes the steps of the recorded epochs. */
    if (r->checkpoint && steps <= SOURCE_CHECKPOINT && epochs <= SOURCE_CHECKPOINT && recorded->schedule.steps &&
        !(options_is_explicit(o, OPTION_DROP_LAST) && recorded->last_sample)) {
        recipe->run.steps = recorded->schedule.steps;
        recipe->trainer.last_sample = recorded->last_sample;
    }
    if (o->values[OPTION_WARMUP_RATIO].source < o->values[OPTION_WARMUP_STEPS].source)
        recipe->warmup_ratio = 0;
}

/* Where the weights come from. A resumed run has its own; it needs --model for those that adapters belong to. */
static void set_model(const training_run *r, eitp_model_recipe *model) {
    const option_set *o = &r->options;
    const int is_explicit = !r->checkpoint || options_is_explicit(o, OPTION_DROPOUT);
    model->directory = r->model_directory;
    model->shape = r->checkpoint || run_starts_from_model(r) ? NULL : options_text(o, OPTION_INIT);
    model->dropout = options_has(o, OPTION_DROPOUT) && is_explicit ? options_number(o, OPTION_DROPOUT) : -1;
    if (r->checkpoint && !options_is_explicit(o, OPTION_TOKENIZER))
        model->tokenizer = NULL;
    /* Of a model in a directory they are compared: see read_shape. */
    if (!model->shape)
        model->vocabulary = model->layers = model->heads = model->width = model->positions = 0;
}

eitp_status recipe_follow_options(training_run *r, eitp_recipe *recipe, eitp_error *error) {
    const option_set *o = &r->options;
    static const char *const names[] = {"memory", "trainer", "run", "length"};
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < COMMAND_COUNT(names) && !status; i++)
        status = recipe_set_group(o, names[i], recipe, error);
    if (options_has(o, OPTION_BLOCK_SIZE))
        recipe->task.block_size = options_integer(o, OPTION_BLOCK_SIZE);
    recipe->memory.least = profile_takes_least(o);
    set_run(r, &recipe->run);
    set_length(r, recipe);
    return status;
}

eitp_status recipe_describe(training_run *r, eitp_recipe *recipe, eitp_error *error) {
    eitp_status status;
    *recipe = eitp_recipe_default();
    status = recipe_set_group(&r->options, NULL, recipe, error);
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
