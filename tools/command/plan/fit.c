#include "plan/fit.h"

#include "files.h"
#include "model/adapt.h"
#include "model/model.h"
#include "options/profile.h"
#include "output.h"
#include "task/task.h"

/* The first choice is auto; the others are in the library's order. */
eitp_optimizer fit_optimizer(const option_set *o) {
    int choice = options_choice(o, OPTION_OPTIMIZER);
    return choice ? (eitp_optimizer)(choice - 1) : EITP_ADAMW;
}

/* ---- The model's shape ---- */

/* True if --init is a config.json rather than the name of a shape. */
static int is_shape_file(const char *init) {
    return strchr(init, '/') || strstr(init, ".json") || files_info(init).kind == EITP_PATH_FILE;
}

/* The sizes of a shape that options set. */
typedef struct shape_size {
    option_id option;
    int64_t *size;
} shape_size;

enum { SHAPE_SIZES = 4 };

static void list_sizes(eitp_transformer_config *config, shape_size sizes[SHAPE_SIZES]) {
    static const option_id ids[] = {OPTION_LAYERS, OPTION_HEADS, OPTION_WIDTH, OPTION_POSITIONS};
    int64_t *const places[] = {&config->layers, &config->heads, &config->width, &config->positions};
    for (size_t i = 0; i < SHAPE_SIZES; i++) {
        sizes[i].option = ids[i];
        sizes[i].size = places[i];
    }
}

static eitp_status check_size(const option_set *o, option_id id, int64_t size, const char *directory,
                              eitp_error *error) {
    if (!options_is_explicit(o, id) || options_integer(o, id) == size)
        return EITP_OK;
    return command_fail(error, EITP_ERROR_ARGUMENT, "--%s is %lld, but '%s' has %lld; it applies to --init",
                        options_name(id), (long long)options_integer(o, id), directory, (long long)size);
}

eitp_status fit_check_shape(const option_set *o, const eitp_transformer_config *config, const char *directory,
                            eitp_error *error) {
    eitp_transformer_config copy = *config;
    shape_size sizes[SHAPE_SIZES];
    eitp_status status = check_size(o, OPTION_VOCAB_SIZE, config->vocabulary, directory, error);
    list_sizes(&copy, sizes);
    for (size_t i = 0; i < SHAPE_SIZES && !status; i++)
        status = check_size(o, sizes[i].option, *sizes[i].size, directory, error);
    return status;
}

/* Replaces sizes of a named shape. The MLP keeps its size relative to the width. */
static eitp_status resize_shape(const option_set *o, eitp_transformer_config *config, eitp_error *error) {
    const int64_t width = config->width;
    shape_size sizes[SHAPE_SIZES];
    list_sizes(config, sizes);
    for (size_t i = 0; i < SHAPE_SIZES; i++) {
        if (options_has(o, sizes[i].option))
            *sizes[i].size = options_integer(o, sizes[i].option);
    }
    config->inner = (int64_t)((double)config->inner / (double)width * (double)config->width + 0.5);
    if (config->width % config->heads)
        return command_fail(error, EITP_ERROR_ARGUMENT, "--width %lld must be a multiple of --heads %lld",
                            (long long)config->width, (long long)config->heads);
    return EITP_OK;
}

static eitp_status read_config(void *shape, const char *directory, eitp_error *error) {
    const eitp_host host = command_host();
    return eitp_model_config_read(&host, directory, (eitp_transformer_config *)shape, error);
}

/* A run writes the weights of a model in F16 as such, with a copy in F32. */
static void set_save_dtype(option_set *o, const char *directory) {
    const eitp_host host = command_host();
    eitp_dtype dtype;
    eitp_error ignored;
    if (!options_integer(o, OPTION_LORA_RANK) && !eitp_model_dtype_read(&host, directory, &dtype, &ignored) &&
        dtype == EITP_F16)
        options_set_text(o, OPTION_SAVE_DTYPE, "f16", SOURCE_DEFAULT);
}

eitp_status fit_read_model(option_set *o, char **directory, eitp_transformer_config *shape, eitp_error *error) {
    const char *model = options_text(o, OPTION_MODEL);
    eitp_error why;
    *directory = NULL;
    if (model && files_info(model).kind == EITP_PATH_DIRECTORY) {
        const eitp_status status = model_read_directory(model, directory, read_config, shape, error);
        if (!status)
            set_save_dtype(o, *directory);
        return status;
    }
    if (model && !is_shape_file(model) && eitp_transformer_config_named(model, shape, &why))
        return command_fail(error, EITP_ERROR_ARGUMENT, "no directory '%s', and %s", model, why.message);
    if (model)
        options_set_text(o, OPTION_INIT, model, o->values[OPTION_MODEL].source);
    options_set_text(o, OPTION_INIT, "gpt2", SOURCE_DEFAULT);
    return fit_read_shape(o, shape, error);
}

eitp_status fit_read_shape(const option_set *o, eitp_transformer_config *config, eitp_error *error) {
    const eitp_host host = command_host();
    const char *init = options_text(o, OPTION_INIT);
    eitp_status status = is_shape_file(init) ? eitp_transformer_config_read(&host, init, config, error)
                                             : eitp_transformer_config_named(init, config, error);
    if (!status && options_has(o, OPTION_VOCAB_SIZE))
        config->vocabulary = options_integer(o, OPTION_VOCAB_SIZE);
    return status ? status : resize_shape(o, config, error);
}

void fit_set_defaults(option_set *o, const eitp_transformer_config *shape) {
    eitp_transformer_config copy;
    shape_size sizes[SHAPE_SIZES];
    if (options_integer(o, OPTION_LORA_RANK))
        options_set_integer(o, OPTION_LORA_ALPHA, 2 * options_integer(o, OPTION_LORA_RANK), SOURCE_DEFAULT);
    if (!shape)
        return;
    copy = *shape;
    list_sizes(&copy, sizes);
    for (size_t i = 0; i < SHAPE_SIZES; i++)
        options_set_integer(o, sizes[i].option, *sizes[i].size, SOURCE_DEFAULT);
    if (copy.embedding_dropout >= copy.attention_dropout && copy.embedding_dropout <= copy.attention_dropout &&
        copy.embedding_dropout >= copy.residual_dropout && copy.embedding_dropout <= copy.residual_dropout)
        options_set_number(o, OPTION_DROPOUT, copy.embedding_dropout, SOURCE_DEFAULT);
}

/* The vocabulary of the token file of --data; 0 if it is unknown. */
static int64_t token_file_vocabulary(const option_set *o) {
    const eitp_host host = command_host();
    eitp_sample_file *file;
    eitp_error ignored;
    int64_t vocabulary = 0;
    if (options_has(o, OPTION_DATA) &&
        !eitp_sample_file_open(&host, options_text(o, OPTION_DATA), 0, &file, &ignored)) {
        vocabulary = eitp_sample_file_get_info(file).vocabulary_size;
        eitp_sample_file_close(file);
    }
    return vocabulary;
}

void fit_set_vocabulary(const option_set *o, const eitp_tokenizer *tokenizer, uint64_t text_bytes,
                        eitp_transformer_config *config) {
    const eitp_tokenizer_family family = config->bidirectional ? EITP_TOKENIZER_ROBERTA : EITP_TOKENIZER_GPT2;
    int64_t vocabulary = tokenizer    ? eitp_tokenizer_size(tokenizer)
                         : text_bytes ? eitp_tokenizer_train_size(family, text_bytes)
                                      : token_file_vocabulary(o);
    if (options_has(o, OPTION_VOCAB_SIZE) || is_shape_file(options_text(o, OPTION_INIT)) || vocabulary <= 0 ||
        vocabulary == config->vocabulary)
        return;
    output_info("vocabulary: %lld (from the %s; %s has %lld; override with --vocab-size)", (long long)vocabulary,
                tokenizer || text_bytes ? "tokenizer" : "token file", options_text(o, OPTION_INIT),
                (long long)config->vocabulary);
    config->vocabulary = vocabulary;
}

/* ---- The configuration ---- */

static eitp_status read_device_budget(const option_set *o, eitp_fit *fit, eitp_error *error) {
    eitp_device_memory memory;
    eitp_status status;
    fit->device_budget = (size_t)options_integer(o, OPTION_GPU_MEMORY_BUDGET);
    if (fit->device_budget)
        return EITP_OK;
    status = eitp_fit_device_memory(fit, &memory, error);
    if (!status)
        fit->device_budget = (size_t)eitp_device_budget_default(&memory, options_number(o, OPTION_GPU_MEM_MAX));
    if (!status && fit->device_budget)
        output_info("GPU memory budget: %s, of %s that are free", output_bytes((double)fit->device_budget),
                    output_bytes((double)memory.free));
    return status;
}

static eitp_status read_budget(const option_set *o, eitp_fit *fit, eitp_error *error) {
    eitp_memory_info info;
    eitp_status status;
    status = read_device_budget(o, fit, error);
    fit->budget = (size_t)options_integer(o, OPTION_MEMORY_BUDGET);
    if (status || fit->budget)
        return status;
    status = eitp_memory_info_read(&fit->context.host, &info, error);
    if (!status)
        fit->budget = (size_t)eitp_memory_budget_default(&info);
    if (!status && fit->budget)
        output_info("memory budget: %s, from %s", output_bytes((double)fit->budget), info.source);
    return status;
}

/* Creates the task of a fit_plan; see eitp_fit. */
static eitp_status create_task(const void *user, eitp_context *context, eitp_task *task, eitp_error *error) {
    const fit_plan *plan = (const fit_plan *)user;
    eitp_model *model = NULL;
    eitp_status status = eitp_model_create(context, &plan->model, &model, error);
    if (!status)
        status = adapt_model(plan->options, model, error);
    if (!status)
        status = plan->task(plan, model, task, error);
    if (status)
        eitp_model_destroy(model);
    return status;
}

/* A run of `train` writes these files. */
static size_t record_bytes(const void *user, const eitp_task *task) {
    const fit_plan *plan = (const fit_plan *)user;
    eitp_run_config config = eitp_run_config_default();
    if (options_text(plan->options, OPTION_REPORT_TO))
        config.report_to = options_text(plan->options, OPTION_REPORT_TO);
    return eitp_run_record_bytes(&config, task);
}

/* See eitp_fit. */
static eitp_status use_length(const void *user, int64_t length, eitp_error *error) {
    fit_plan *plan = (fit_plan *)(uintptr_t)user;
    (void)error;
    plan->block_size = length;
    return EITP_OK;
}

eitp_status fit_from_options(const option_set *o, const eitp_transformer_config *shape, const char *numerics, char *isa,
                             fit_plan *plan, eitp_fit *fit, eitp_error *error) {
    /* The choices: none, auto, and the library's. */
    int offload = options_choice(o, OPTION_OFFLOAD);
    const int64_t positions = eitp_transformer_config_positions(shape);
    eitp_status status;
    memset(fit, 0, sizeof *fit);
    fit->context = model_context_config(o, numerics, isa);
    memset(plan, 0, sizeof *plan);
    plan->options = o;
    plan->model = *shape;
    plan->task = task_of_shape(shape)->plan;
    plan->block_size = model_block_size(o, NULL, positions);
    fit->trainer = eitp_trainer_config_default();
    fit->trainer.plan.recompute = (eitp_recompute)options_choice(o, OPTION_RECOMPUTE);
    fit->any_offload = offload == 1;
    fit->context.offload_path = options_text(o, OPTION_OFFLOAD_FILE);
    fit->context.offload = offload > 1 ? (eitp_offload)(offload - 1) : EITP_OFFLOAD_NONE;
    fit->create_task = create_task;
    fit->record_bytes = record_bytes;
    fit->use_length = use_length;
    fit->user = plan;
    fit->any_optimizer = options_choice(o, OPTION_OPTIMIZER) == 0;
    fit->trainer.optimizer_config.optimizer = fit_optimizer(o);
    /* Profiles are tried before they are adapted to the model. */
    if (!options_is_explicit(o, OPTION_BLOCK_SIZE) && plan->block_size > positions)
        plan->block_size = positions;
    else if ((status = model_check_block_size(o, positions, error)) != EITP_OK)
        return status;
    status = options_to_config(o, &fit->trainer, error);
    return status ? status : read_budget(o, fit, error);
}

void fit_open_lengths(fit_plan *plan, eitp_fit *fit) {
    fit->lengths = plan->lengths;
    fit->length_count = eitp_fit_lengths(eitp_transformer_config_positions(&plan->model), plan->lengths);
}

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

/* True if the memory of a GPU is what a candidate exceeds. */
static int exceeds_device(const eitp_fit *fit, const eitp_fit_candidate *candidate) {
    return fit->device_budget && candidate->device > fit->device_budget;
}

/* A change of the run, and what the run needs with it: of a GPU's memory if that is what it exceeds now. */
typedef struct fit_change {
    char name[48];
    int fits;
    size_t total;
    double seconds; /* of a step, for the same number of tokens */
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

/* Half their length, in a micro-batch of as many. */
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

/* Half the sequences in a micro-batch, half their length, other optimizers, 16 bits, recomputing, a file. */
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
    /* Another algorithm was chosen with a learning rate of its own. */
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

/* Changes that fit come first, the fastest before the others; then those that need least memory. */
static int is_cheaper(const fit_change *a, const fit_change *b) {
    if (a->fits != b->fits)
        return a->fits;
    return a->fits ? a->seconds < b->seconds : a->total < b->total;
}

/* Processes differ in the memory that they start with. A budget that is named is enough for any of them. */
#define FIT_SPREAD 262144

double fit_named_budget(double total) {
    return ceil((total + FIT_SPREAD) / 1e6);
}

/* Rounded down to the digits that output_bytes shows: what does not fit must not seem to. */
static const char *budget_text(double budget) {
    double unit = 1;
    while (unit < 1e12 && budget >= 1000 * unit)
        unit *= 1000;
    return output_bytes(unit > 1 ? floor(budget / unit * 10) / 10 * unit : budget);
}

/* The least that a process may use so that its default budget is `budget`. */
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

/* What to do where a limit of the process (ulimit) leaves too little: a larger budget would not mend that. */
static void describe_limit(const eitp_memory_info *info, double total, double budget, text_buffer *t) {
    const int is_addresses = !strcmp(info->source, "RLIMIT_AS");
    const char *option = is_addresses ? "-v" : "-d";
    /* With more addresses, threads and the C library reserve more of them. */
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

/* Keeps the changes that need less than `total`; returns how many. */
static size_t keep_smaller(fit_change *changes, size_t count, size_t total) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (fit_named_budget((double)changes[i].total) < fit_named_budget((double)total))
            changes[kept++] = changes[i];
    }
    return kept;
}

/* The bytes of `total` or more, of the GPU's memory or the process's, with which planning succeeds: the budget that is
   named for them has been tried. */
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

/* "run", or with a profile "run with --profile low-memory". */
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

/* The configuration with the least memory, which may not fit: with a budget that nothing fits, the planner names it. */
static eitp_status choose_least(const eitp_fit *fit, eitp_fit_candidate *chosen, eitp_error *error) {
    eitp_fit nothing = *fit;
    eitp_fit_candidate ignored;
    char needs[32], has[32];
    eitp_status status;
    nothing.budget = nothing.device_budget = 1;
    status = eitp_fit_choose(&nothing, &ignored, chosen, error);
    if (status && status != EITP_ERROR_MEMORY)
        return status;
    chosen->fits = eitp_fit_admits(fit, chosen);
    if (chosen->fits)
        return EITP_OK;
    return command_fail(error, EITP_ERROR_MEMORY, "the run needs %s, and the budget is %s",
                        eitp_format_bytes(chosen->total, needs, sizeof needs),
                        eitp_format_bytes(fit->budget, has, sizeof has));
}

eitp_status fit_search(const option_set *o, const eitp_fit *fit, eitp_fit_candidate *chosen,
                       eitp_fit_candidate *smallest, eitp_error *error) {
    eitp_status status;
    if (!profile_takes_least(o))
        return eitp_fit_choose(fit, chosen, smallest, error);
    status = choose_least(fit, chosen, error);
    if (smallest)
        *smallest = *chosen;
    return status;
}

eitp_status fit_choose(const option_set *o, const eitp_fit *fit, const int64_t *length, eitp_fit_candidate *chosen,
                       eitp_error *error) {
    eitp_fit_candidate smallest;
    eitp_fit shortest;
    eitp_status status = fit_search(o, fit, chosen, &smallest, error);
    shortest = *fit;
    shortest.length_count = 0; /* it is in use */
    return status == EITP_ERROR_MEMORY && smallest.total ? fail_to_fit(o, &shortest, *length, &smallest, error)
                                                         : status;
}
