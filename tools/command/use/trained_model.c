#include "use/trained_model.h"

#include "files.h"
#include "model/hub.h"
#include "model/model.h"
#include "output.h"
#include "process.h"

/* ---- Directories ---- */

/* Returns the checkpoint with adapters that a path refers to in a new string. */
static eitp_status find_adapter(const char *path, char **checkpoint, eitp_error *error) {
    const eitp_status status = model_find_directory(path, checkpoint, error);
    const int has_adapters = !status && files_is_file(*checkpoint, "adapter_config.json");
    if (has_adapters || (status && status != EITP_ERROR_ARGUMENT))
        return status;
    if (files_info(path).kind != EITP_PATH_DIRECTORY)
        return command_fail(error, EITP_ERROR_ARGUMENT, "no directory '%s'; pass one with adapters", path);
    return command_fail(error, EITP_ERROR_ARGUMENT,
                        "no adapters in '%s': it has neither an adapter_config.json nor a checkpoint with one", path);
}

/* Finds the directory that a path refers to. *directory and *path are new strings. The path is as given, since a run
   may replace the checkpoint, or the directory in the hub's cache. */
static eitp_status find_model(const char *given, char **directory, char **path, eitp_error *error) {
    eitp_status status;
    if (!given)
        return EITP_OK;
    status = model_find_directory(given, directory, error);
    *path = files_info(given).kind == EITP_PATH_MISSING ? hub_find(given) : NULL;
    if (!*path)
        *path = command_copy(given);
    return status;
}

static int show_stage(void *user, const eitp_training_progress *progress) {
    char line[200];
    (void)user;
    snprintf(line, sizeof line, "%s ...", progress->stage);
    output_progress(line);
    return 0;
}

/* ---- Opening ---- */

static eitp_status describe(const option_set *o, const char *model, const char *adapter, trained_model *m,
                            eitp_recipe *recipe, eitp_error *error) {
    char *path = NULL;
    eitp_status status = find_model(model, &m->found_model, &path, error);
    if (!status && adapter)
        status = find_adapter(adapter, &m->found_adapter, error);
    m->path = adapter ? command_copy(adapter) : path;
    m->weights = adapter ? path : NULL;
    *recipe = eitp_recipe_default();
    recipe->context = model_context_config(o, NULL, m->isa);
    recipe->memory.precision = recipe->context.precision;
    recipe->model.directory = m->weights;
    recipe->run.directory = m->path;
    recipe->progress = show_stage;
    return status;
}

eitp_status trained_model_describe(const option_set *o, trained_model *m, eitp_recipe *recipe, eitp_error *error) {
    const eitp_status status =
        describe(o, options_text(o, OPTION_MODEL), options_text(o, OPTION_ADAPTER), m, recipe, error);
    recipe->model.tokenizer = options_text(o, OPTION_TOKENIZER);
    recipe->model.chat_template = options_text(o, OPTION_CHAT_TEMPLATE);
    recipe->model.chat_values = options_text(o, OPTION_CHAT_VALUES);
    return status;
}

/* Takes the found directories. */
static void take_source(trained_model *m) {
    const eitp_training_source source = eitp_training_get_source(m->training);
    m->base = source.weights ? source.weights : source.checkpoint;
    m->adapter = source.weights ? source.checkpoint : NULL;
    m->directory = m->weights ? m->found_model : source.checkpoint;
    m->tokenizer = eitp_training_get_tokenizer(m->training);
}

eitp_status trained_model_open(trained_model *m, const eitp_recipe *recipe, eitp_trained_samples samples,
                               eitp_error *error) {
    const eitp_status status = eitp_training_open_trained(recipe, samples, &m->training, error);
    if (!status)
        take_source(m);
    return status;
}

eitp_status trained_model_load(trained_model *m, eitp_error *error) {
    const eitp_status status = eitp_training_prepare(m->training, error);
    /* The weights may be of an older checkpoint instead of a damaged one; the warnings name it. */
    if (status == EITP_ERROR_ARGUMENT)
        output_warnings();
    if (status)
        return model_add_hint(status, error);
    take_source(m);
    m->context = eitp_training_get_context(m->training);
    m->model = eitp_training_get_model(m->training);
    model_warn_null(m->context);
    return EITP_OK;
}

static eitp_status open_and_load(trained_model *m, const eitp_recipe *recipe, eitp_error *error) {
    const eitp_status status = trained_model_open(m, recipe, EITP_SAMPLES_NONE, error);
    return status ? status : trained_model_load(m, error);
}

/* ---- Memory ---- */

eitp_status trained_model_budget(const option_set *o, double *budget, eitp_error *error) {
    const eitp_host host = command_host();
    eitp_memory_info info;
    eitp_status status;
    *budget = (double)options_integer(o, OPTION_MEMORY_BUDGET);
    if (*budget > 0)
        return EITP_OK;
    status = eitp_memory_info_read(&host, &info, error);
    *budget = status ? 0 : (double)eitp_memory_budget_default(&info);
    return status;
}

/* Computes the bytes of the weights in F32 without allocating them. On a device with separate memory, *budget becomes
   its free memory. */
static eitp_status weigh(const option_set *o, const trained_model *m, double *bytes, double *budget,
                         eitp_error *error) {
    char isa[MODEL_ISA_SIZE];
    eitp_context_config settings = model_context_config(o, NULL, isa);
    eitp_device_memory memory;
    eitp_context *context = NULL;
    eitp_model *model = NULL;
    eitp_status status;
    settings.plans_only = 1;
    settings.precision = "fp32";
    status = eitp_context_create(&settings, &context, error);
    if (!status)
        status = eitp_model_create(context, eitp_training_get_shape(m->training), &model, error);
    if (!status)
        status = eitp_context_device_memory(context, &memory, error);
    *bytes = status ? 0 : (double)sizeof(float) * (double)eitp_model_parameter_count(model);
    if (!status && memory.is_separate)
        *budget = (double)memory.free;
    else if (!status)
        *bytes += (double)process_memory();
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    return status;
}

/* Fails if the weights of an opened model in F32 do not fit in the budget. */
static eitp_status check_memory(const option_set *o, const trained_model *m, eitp_error *error) {
    const double others = 64 << 20; /* pieces of matrices, adapters, the vocabulary */
    double budget, bytes;
    char needed[32], left[32];
    eitp_status status = trained_model_budget(o, &budget, error);
    if (!status)
        status = weigh(o, m, &bytes, &budget, error);
    if (status || !(budget > 0) || bytes + others <= budget)
        return status;
    return command_fail(error, EITP_ERROR_MEMORY,
                        "the weights of '%s' in fp32 need %s of memory, but %s has only %s; close other programs, or "
                        "use a machine with more memory",
                        m->base, eitp_format_bytes((uint64_t)(bytes + others), needed, sizeof needed),
                        options_integer(o, OPTION_MEMORY_BUDGET) ? "--memory-budget" : "the machine",
                        eitp_format_bytes((uint64_t)budget, left, sizeof left));
}

/* ---- Both steps ---- */

eitp_status trained_model_read(const option_set *o, trained_model *m, eitp_error *error) {
    eitp_recipe recipe;
    const eitp_status status = trained_model_describe(o, m, &recipe, error);
    return status ? status : open_and_load(m, &recipe, error);
}

eitp_status trained_model_read_within(const option_set *o, trained_model *m, eitp_error *error) {
    eitp_recipe recipe;
    eitp_status status = trained_model_describe(o, m, &recipe, error);
    if (!status)
        status = trained_model_open(m, &recipe, EITP_SAMPLES_NONE, error);
    if (!status)
        status = check_memory(o, m, error);
    return status ? status : trained_model_load(m, error);
}

eitp_status trained_model_read_other(const option_set *o, const char *path, trained_model *m, eitp_error *error) {
    eitp_recipe recipe;
    const eitp_status status = describe(o, path, NULL, m, &recipe, error);
    return status ? status : open_and_load(m, &recipe, error);
}

void trained_model_close(trained_model *m) {
    eitp_training_close(m->training);
    free(m->found_model);
    free(m->found_adapter);
    free(m->path);
    free(m->weights);
    memset(m, 0, sizeof *m);
}

/* ---- Properties ---- */

const char *trained_model_checkpoint(const trained_model *m) {
    return m->adapter ? m->adapter : m->directory;
}

eitp_status trained_model_check_language(const trained_model *m, eitp_error *error) {
    const eitp_transformer_config config = eitp_model_config(m->model);
    const eitp_status status = model_check_language(&config, m->base, error);
    return status ? status : eitp_model_check_head(m->model, error);
}
