#include "plan/fit.h"

#include "files.h"
#include "options/profile.h"
#include "output.h"
#include "task/task.h"

/* The first choice is auto; the others follow in the library's order. */
eitp_optimizer fit_optimizer(const option_set *o) {
    int choice = options_choice(o, OPTION_OPTIMIZER);
    return choice ? (eitp_optimizer)(choice - 1) : EITP_ADAMW;
}

/* ---- The run ---- */

/* False if a file of options names a path that does not exist here: it may be for another machine. */
static int is_available(const option_set *o, option_id id) {
    return options_has(o, id) &&
           (o->values[id].source == SOURCE_COMMAND_LINE || files_info(options_text(o, id)).kind != EITP_PATH_MISSING);
}

/* Describes the model: a directory or GGUF file, or random weights in the shape named by --model or --init, else
   gpt2's. */
static void describe_model(option_set *o, eitp_model_recipe *model) {
    const char *given = options_text(o, OPTION_MODEL);
    if (given && (files_info(given).kind == EITP_PATH_DIRECTORY || files_is_gguf(given))) {
        model->directory = given;
        model->shape = NULL;
        model->vocabulary = model->layers = model->heads = model->width = model->positions = 0; /* only compared */
        return;
    }
    if (given)
        options_set_text(o, OPTION_INIT, given, o->values[OPTION_MODEL].source);
    options_set_text(o, OPTION_INIT, "gpt2", SOURCE_DEFAULT);
    model->directory = NULL;
    model->shape = options_text(o, OPTION_INIT);
}

/* Fails for a model that is neither a directory nor a shape. */
static eitp_status name_missing_model(const option_set *o, eitp_status status, eitp_error *error) {
    const char *given = options_text(o, OPTION_MODEL);
    eitp_error why;
    if (!status || !given || strncmp(error->message, "no model shape named", 20))
        return status;
    why = *error;
    return command_fail(error, status, "no directory '%s', and %s", given, why.message);
}

eitp_status fit_to_recipe(option_set *o, eitp_recipe *recipe, eitp_error *error) {
    eitp_status status;
    *recipe = eitp_recipe_default();
    status = options_to_recipe(o, NULL, recipe, error);
    recipe->context.host = command_host();
    recipe->memory.least = profile_takes_least(o);
    recipe->data.input = files_input();
    if (!is_available(o, OPTION_DATA))
        recipe->data.training.count = 0;
    if (!is_available(o, OPTION_TOKENIZER))
        recipe->model.tokenizer = NULL;
    describe_model(o, &recipe->model);
    return status;
}

/* Completes the options from the model and the samples. */
static eitp_status complete_options(option_set *o, eitp_training *training, const char *directory, eitp_error *error) {
    const eitp_transformer_config *shape = eitp_training_get_shape(training);
    const int is_labelled = eitp_training_get_data(training, EITP_TRAINING).is_labelled;
    const eitp_status status = directory ? fit_check_shape(o, shape, directory, error) : EITP_OK;
    if (eitp_head_has_labels(shape->head))
        task_set_classifier_batch(o);
    if (is_labelled && !options_has(o, OPTION_BLOCK_SIZE))
        options_set_integer(o, OPTION_BLOCK_SIZE, eitp_training_get_recipe(training)->task.block_size, SOURCE_DEFAULT);
    if (is_labelled || options_is_explicit(o, OPTION_BLOCK_SIZE))
        profile_lower_block_size(o, eitp_transformer_config_positions(shape));
    return status;
}

eitp_status fit_open(option_set *o, eitp_training **training, eitp_error *error) {
    eitp_recipe recipe;
    eitp_status status;
    *training = NULL;
    status = fit_to_recipe(o, &recipe, error);
    if (!status)
        status = name_missing_model(o, eitp_training_open_plan(&recipe, training, error), error);
    if (!status)
        status = complete_options(o, *training, recipe.model.directory, error);
    if (!status)
        status = fit_follow_options(o, *training, error);
    return status;
}

eitp_status fit_follow_options(const option_set *o, eitp_training *training, eitp_error *error) {
    static const char *const groups[] = {"memory", "trainer", "run", "length"};
    const int64_t positions = eitp_transformer_config_positions(eitp_training_get_shape(training));
    eitp_recipe *recipe = eitp_training_get_recipe(training);
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < COMMAND_COUNT(groups) && !status; i++)
        status = options_to_recipe(o, groups[i], recipe, error);
    if (options_has(o, OPTION_BLOCK_SIZE))
        recipe->task.block_size = options_integer(o, OPTION_BLOCK_SIZE);
    /* Profiles are tried before being adapted to the model. */
    if (!options_is_explicit(o, OPTION_BLOCK_SIZE) && recipe->task.block_size > positions)
        recipe->task.block_size = positions;
    recipe->memory.least = profile_takes_least(o);
    return status;
}

/* ---- The model's shape ---- */

/* A size of the model that an option sets. */
typedef struct shape_size {
    option_id option;
    int64_t size;
} shape_size;

enum { SHAPE_SIZES = 4 };

static void list_sizes(const eitp_transformer_config *config, shape_size sizes[SHAPE_SIZES]) {
    const shape_size all[] = {{OPTION_LAYERS, config->layers},
                              {OPTION_HEADS, config->heads},
                              {OPTION_WIDTH, config->width},
                              {OPTION_POSITIONS, config->positions}};
    memcpy(sizes, all, sizeof all);
}

static eitp_status check_size(const option_set *o, option_id id, int64_t size, const char *directory,
                              eitp_error *error) {
    if (!options_is_explicit(o, id) || options_integer(o, id) == size)
        return EITP_OK;
    return command_fail(error, EITP_ERROR_ARGUMENT, "--%s is %lld, but '%s' has %lld; it only applies with --init",
                        options_name(id), (long long)options_integer(o, id), directory, (long long)size);
}

eitp_status fit_check_shape(const option_set *o, const eitp_transformer_config *config, const char *directory,
                            eitp_error *error) {
    shape_size sizes[SHAPE_SIZES];
    eitp_status status = check_size(o, OPTION_VOCAB_SIZE, config->vocabulary, directory, error);
    list_sizes(config, sizes);
    for (size_t i = 0; i < SHAPE_SIZES && !status; i++)
        status = check_size(o, sizes[i].option, sizes[i].size, directory, error);
    return status;
}

void fit_set_defaults(option_set *o, const eitp_transformer_config *shape) {
    shape_size sizes[SHAPE_SIZES];
    if (options_integer(o, OPTION_LORA_RANK))
        options_set_integer(o, OPTION_LORA_ALPHA, 2 * options_integer(o, OPTION_LORA_RANK), SOURCE_DEFAULT);
    if (!shape)
        return;
    list_sizes(shape, sizes);
    for (size_t i = 0; i < SHAPE_SIZES; i++)
        options_set_integer(o, sizes[i].option, sizes[i].size, SOURCE_DEFAULT);
    if (shape->embedding_dropout >= shape->attention_dropout && shape->embedding_dropout <= shape->attention_dropout &&
        shape->embedding_dropout >= shape->residual_dropout && shape->embedding_dropout <= shape->residual_dropout)
        options_set_number(o, OPTION_DROPOUT, shape->embedding_dropout, SOURCE_DEFAULT);
}

/* ---- The configuration ---- */

static size_t price_bytes(const eitp_fit_candidate *candidate) {
    return candidate->device ? candidate->device : candidate->total;
}

const char *fit_describe_price(const eitp_fit_price *price, char *text, size_t size) {
    char longer[40];
    const char *names[3];
    const eitp_fit_candidate *candidates[3];
    size_t used = 0;
    snprintf(longer, sizeof longer, "sequences of %lld tokens", (long long)price->longer.length);
    names[0] = longer;
    names[1] = eitp_optimizer_get(price->faithful.optimizer)->name;
    names[2] = "nothing recomputed";
    candidates[0] = &price->longer;
    candidates[1] = &price->faithful;
    candidates[2] = &price->kept;
    *text = 0;
    for (size_t i = 0; i < COMMAND_COUNT(names) && used < size; i++) {
        if (candidates[i]->total)
            used += (size_t)snprintf(text + used, size - used, "%s%s (%s)", used ? ", " : "", names[i],
                                     output_bytes((double)price_bytes(candidates[i])));
    }
    return text;
}

const char *fit_describe(const eitp_fit *fit, const eitp_fit_candidate *candidate, char *text, size_t size) {
    static const char *const offloaded[] = {"", ", optimizer state offloaded",
                                            ", weights and optimizer state offloaded"};
    const int64_t batches = candidate->micro_batches_per_pass, all = fit->trainer.grad_accum;
    int used = snprintf(text, size, "%s in %s, ", eitp_optimizer_get(candidate->optimizer)->name, candidate->precision);
    if (used > 0 && (size_t)used < size)
        used += batches == all ? snprintf(text + used, size - (size_t)used, "whole step in one pass")
                               : snprintf(text + used, size - (size_t)used, "%lld of %lld micro-batches per pass",
                                          (long long)batches, (long long)all);
    if (used > 0 && (size_t)used < size)
        used += snprintf(text + used, size - (size_t)used, "%s", offloaded[candidate->offload]);
    if (candidate->recomputed && used > 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, ", %d tensors recomputed (%.0f %% more arithmetic)",
                 candidate->recomputed,
                 100 * candidate->recomputed_flops / (candidate->flops - candidate->recomputed_flops));
    return text;
}

/* ---- What to change if nothing fits ---- */

/* True if a candidate exceeds the memory of a GPU. */
static int exceeds_device(const eitp_fit *fit, const eitp_fit_candidate *candidate) {
    return fit->device_budget && candidate->device > fit->device_budget;
}

/* A change of the run, and the memory it then needs: GPU memory if the run exceeds that now. */
typedef struct fit_change {
    char name[48];
    int fits;
    size_t total;
    double seconds; /* per step, for the same number of tokens */
} fit_change;

enum { FIT_CHANGES = 6 };

static void add_change(const eitp_fit *fit, int of_device, const char *name, double tokens, fit_change *changes,
                       size_t *count) {
    eitp_fit_candidate chosen, smallest;
    const eitp_fit_candidate *best = &chosen;
    eitp_error ignored;
    fit_change *change = &changes[*count];
    eitp_status status = eitp_fit_choose(fit, &chosen, &smallest, &ignored);
    if (status && status != EITP_ERROR_MEMORY)
        return;
    snprintf(change->name, sizeof change->name, "%s", name);
    best = chosen.fits ? &chosen : &smallest;
    change->fits = chosen.fits;
    change->total = of_device ? best->device : best->total;
    change->seconds = best->seconds * tokens;
    ++*count;
}

/* Adds sequences of half the length, with the same micro-batch. */
static void add_shorter(const eitp_fit *fit, int64_t length, int of_device, fit_change *changes, size_t *count) {
    const int64_t half = (length + 1) / 2;
    eitp_error ignored;
    char name[48];
    if (half == length || !fit->use_length || fit->use_length(fit->user, half, &ignored))
        return;
    snprintf(name, sizeof name, "--block-size %lld", (long long)half);
    add_change(fit, of_device, name, 2, changes, count);
    fit->use_length(fit->user, length, &ignored);
}

/* Lists half the micro-batch, half the length, other optimizers, 16-bit weights, recomputation, and offloading. */
static size_t list_changes(const eitp_fit *fit, int64_t length, int of_device, fit_change *changes) {
    size_t count = 0;
    char name[48];
    eitp_fit other = *fit;
    if (fit->trainer.batch_size > 1) {
        other.trainer.batch_size = (fit->trainer.batch_size + 1) / 2;
        snprintf(name, sizeof name, "--batch-size %lld", (long long)other.trainer.batch_size);
        add_change(&other, of_device, name, 2, changes, &count);
    }
    add_shorter(fit, length, of_device, changes, &count);
    other = *fit;
    /* An optimizer of another algorithm was chosen along with its own learning rate. */
    if (!fit->any_optimizer &&
        eitp_optimizer_get(fit->trainer.optimizer_config.optimizer)->fidelity != EITP_DIFFERENT_ALGORITHM) {
        other.any_optimizer = 1;
        add_change(&other, of_device, "--optimizer auto", 1, changes, &count);
    }
    other = *fit;
    if (fit->context.precision && strcmp(fit->context.precision, "auto")) {
        other.context.precision = "auto";
        add_change(&other, of_device, "--precision auto", 1, changes, &count);
    }
    other = *fit;
    if (fit->trainer.plan.recompute != EITP_RECOMPUTE_AUTO) {
        other.trainer.plan.recompute = EITP_RECOMPUTE_AUTO;
        add_change(&other, of_device, "--recompute auto", 1, changes, &count);
    }
    other = *fit;
    if (!fit->any_offload && !fit->context.offload) {
        other.any_offload = 1;
        add_change(&other, of_device, "--offload auto", 1, changes, &count);
    }
    return count;
}

/* Changes that fit come first, fastest first; then the others, smallest first. */
static int is_cheaper(const fit_change *a, const fit_change *b) {
    if (a->fits != b->fits)
        return a->fits;
    return a->fits ? a->seconds < b->seconds : a->total < b->total;
}

/* Bytes by which the initial memory of processes may differ; a suggested budget is enough for all of them. */
#define FIT_SPREAD 262144

double fit_named_budget(double total) {
    return ceil((total + FIT_SPREAD) / 1e6);
}

/* Formats a budget, rounded down to the digits of output_bytes so that nothing too large seems to fit. */
static const char *budget_text(double budget) {
    double unit = 1;
    while (unit < 1e12 && budget >= 1000 * unit)
        unit *= 1000;
    return output_bytes(unit > 1 ? floor(budget / unit * 10) / 10 * unit : budget);
}

/* Returns the least usable memory that gives `budget` as the default budget. */
static double usable_for(const eitp_memory_info *info, double budget) {
    eitp_memory_info other = *info;
    uint64_t low = 0, high = (uint64_t)1 << 52;
    while (low < high) {
        other.usable = low + (high - low) / 2;
        if ((double)eitp_memory_budget_default(&other) < budget)
            low = other.usable + 1;
        else
            high = other.usable;
    }
    return (double)low;
}

/* Suggests raising a process limit (ulimit) that leaves too little; a larger budget would not help. */
static void describe_limit(const eitp_memory_info *info, double total, double budget, text_buffer *t) {
    const int is_addresses = !strcmp(info->source, "RLIMIT_AS");
    const char *option = is_addresses ? "-v" : "-d";
    /* With a larger address space, threads and the C library reserve more of it. */
    const double spread = FIT_SPREAD + 0.02 * total;
    const double more = usable_for(info, total + spread) - usable_for(info, budget);
    text_format(t, "the limit on the process's %s (ulimit %s) is %s; raise it to 'ulimit %s %.0f' or more",
                is_addresses ? "addresses" : "data", option, output_bytes((double)info->data_limit), option,
                ceil(((double)info->data_limit + more) / 1024));
}

eitp_status fit_fail(const option_set *o, const char *what, double total, double budget, const char *changes,
                     eitp_error *error) {
    const eitp_host host = command_host();
    eitp_memory_info info;
    eitp_error ignored;
    text_buffer t = {NULL, 0, 0};
    eitp_status status;
    if (!options_integer(o, OPTION_MEMORY_BUDGET) && !eitp_memory_info_read(&host, &info, &ignored) &&
        !strncmp(info.source, "RLIMIT_", 7))
        describe_limit(&info, total, budget, &t);
    else
        text_format(&t, "the smallest --memory-budget that is enough is %.0fM", fit_named_budget(total));
    status = command_fail(error, EITP_ERROR_MEMORY, "the %s does not fit in %s; %s%s", what, budget_text(budget),
                          t.data, changes);
    text_release(&t);
    return status;
}

/* Keeps the changes that need less than `total` and returns their number. */
static size_t keep_smaller(fit_change *changes, size_t count, size_t total) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (fit_named_budget((double)changes[i].total) < fit_named_budget((double)total))
            changes[kept++] = changes[i];
    }
    return kept;
}

/* Returns the smallest amount from `total` up, of GPU or process memory, with which planning succeeds. The budget
   suggested for it has been tried. */
static size_t find_sufficient(const eitp_fit *fit, int of_device, size_t total) {
    eitp_fit trial = *fit;
    size_t *budget = of_device ? &trial.device_budget : &trial.budget;
    for (int attempt = 0; attempt < 4; attempt++) {
        eitp_fit_candidate chosen, smallest;
        eitp_error ignored;
        size_t needed;
        *budget = (size_t)(fit_named_budget((double)total) * 1e6);
        if (eitp_fit_choose(&trial, &chosen, &smallest, &ignored) != EITP_ERROR_MEMORY)
            break;
        needed = of_device ? smallest.device : smallest.total;
        total = needed > *budget ? needed : *budget + 1;
    }
    return total;
}

/* Writes "run", or "run with --profile low-memory" with a profile. */
static const char *run_text(const option_set *o, char *text, size_t size) {
    if (profile_integer(o, OPTION_BATCH_SIZE))
        snprintf(text, size, "run with --profile %s", profile_name(o));
    else
        snprintf(text, size, "run");
    return text;
}

static eitp_status fail_to_fit(const option_set *o, const eitp_fit *fit, int64_t length,
                               const eitp_fit_candidate *smallest, eitp_error *error) {
    fit_change changes[FIT_CHANGES];
    const int of_device = exceeds_device(fit, smallest);
    const size_t total = find_sufficient(fit, of_device, of_device ? smallest->device : smallest->total);
    const size_t count = keep_smaller(changes, list_changes(fit, length, of_device, changes), total);
    text_buffer text = {NULL, 0, 0};
    char run[60];
    eitp_status status;
    for (size_t i = 1; i < count; i++) {
        for (size_t j = i; j && is_cheaper(&changes[j], &changes[j - 1]); j--) {
            fit_change other = changes[j];
            changes[j] = changes[j - 1];
            changes[j - 1] = other;
        }
    }
    for (size_t i = 0; i < count && i < 3; i++)
        text_format(&text, "%s %s (%s%.0fM)", i ? "," : "; or change", changes[i].name, changes[i].fits ? "fits: " : "",
                    fit_named_budget((double)changes[i].total));
    run_text(o, run, sizeof run);
    if (of_device)
        status = command_fail(error, EITP_ERROR_MEMORY,
                              "the %s does not fit in %s of the GPU's memory; the smallest --gpu-memory-budget that "
                              "is enough is %.0fM%s",
                              run, budget_text((double)fit->device_budget), fit_named_budget((double)total),
                              text.data ? text.data : "");
    else
        status = fit_fail(o, run, (double)total, (double)fit->budget, text.data ? text.data : "", error);
    text_release(&text);
    return status;
}

eitp_status fit_choose(const option_set *o, const eitp_fit *fit, const int64_t *length, eitp_fit_candidate *chosen,
                       eitp_error *error) {
    eitp_fit_candidate smallest;
    eitp_fit shortest;
    eitp_status status = eitp_fit_choose(fit, chosen, &smallest, error);
    shortest = *fit;
    shortest.length_count = 0; /* already in use */
    return status == EITP_ERROR_MEMORY && smallest.total ? fail_to_fit(o, &shortest, *length, &smallest, error)
                                                         : status;
}
