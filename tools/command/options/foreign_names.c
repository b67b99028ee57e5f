#include "options/foreign_names.h"

#define DATA_PATHS "path paths file files"
#define VALIDATION "validation val eval evaluation"
#define SCHEDULERS "scheduler lr_scheduler schedule lr_scheduler_kwargs"
#define CHECKPOINTS "checkpoint checkpoints checkpointing save saving"
#define INTERVALS "steps every interval freq frequency"

#define ONE_PROCESS                                                                                                    \
    "eitp trains in one process on one device; set --threads for more processors, --grad-accum for a larger batch"

#define OFF "false= False= off= none= no= 0= 0.0="
#define NO_NETWORK "eitp sends nothing over a network; use --post-save-cmd to run a command on each checkpoint"
#define NO_PREFERENCES "eitp trains on text, conversations and labels, not on pairs of preferred and rejected answers"
#define NO_QUANTIZATION                                                                                                \
    "weights are fp32, bf16 or fp16; --lora-rank, --optimizer adamw8 or factored, and --offload save memory"

#define WEIGHTS "loss_weights weights lambda lambdas regularizers"
#define NO_HYPERNETWORK "the controller hyper is not implemented; use --controller const, dual or pi"

/* The first matching entry of a section applies. */
static const config_name names[] = {
    /* ---- data ---- */
    {"data dataset train", DATA_PATHS " text train train_path train_files", "data", "", NULL},
    {"data dataset", "val validation eval val_path val_file val_files validation_path eval_path", "val-data", "", NULL},
    {VALIDATION, DATA_PATHS " data text", "val-data", "", NULL},
    {VALIDATION, "fraction split", "val-fraction", "", NULL},
    {VALIDATION, "strategy", "eval", "", NULL},
    {VALIDATION, INTERVALS, "eval-steps", "", NULL},
    {VALIDATION, "windows", "eval-windows", "", NULL},
    {VALIDATION, "batch_size", NULL, "", "validation uses the batch size of training"},
    {"", "eval_batch_size per_device_eval_batch_size", NULL, "", "validation uses the batch size of training"},
    {"", "eval_freq eval_interval", "eval-steps", "", NULL},
    {"", "non_blocking", NULL, "", "a CPU needs no copy to a device"},
    {"", "persistent_workers dataloader_persistent_workers", NULL, "",
     "data worker threads always live for the whole run"},
    {"", "use_dynamic_padding dynamic_padding", NULL, "", "samples of any length are packed without padding"},

    /* ---- model ---- */
    {"model", "name path name_or_path", "model", "", NULL},
    {"model", "config shape size", "init", "", NULL},
    {"model", "dtype", "precision", "", NULL},
    {"", "torch_dtype model_dtype dtype", NULL, "", "precision and optimizer set how weights are stored"},
    {"", "low_cpu_mem_usage", NULL, "", "weights are always read directly into place"},
    {"tokenizer", "name path name_or_path", "tokenizer", "", NULL},
    {"lora peft", "rank r", "lora-rank", "", NULL},
    {"lora peft", "alpha", "lora-alpha", "", NULL},
    {"lora peft", "dropout", "lora-dropout", "", NULL},
    {"lora peft", "targets modules", "lora-targets", "", NULL},
    {"lora peft", "modules_to_save", "lora-modules-to-save", "", NULL},
    {"lora peft", "rslora", "lora-rslora", "", NULL},

    /* ---- optimizer and schedule ---- */
    {"deepspeed.optimizer", "type", "optimizer", "Adam=adamw FusedAdam=adamw AdamW=adamw", NULL},
    {"deepspeed.scheduler", "type", "lr-schedule", "WarmupLR=constant WarmupDecayLR=linear WarmupCosineLR=cosine",
     NULL},
    {"optimizer optim", "type name", "optimizer", "", NULL},
    {"", "betas adam_betas", "beta1 beta2", "", NULL},
    {SCHEDULERS, "type name", "lr-schedule", "", NULL},
    {SCHEDULERS, "eta_min", "final-lr", "", NULL},
    {SCHEDULERS, "factor", "plateau-factor", "", NULL},
    {SCHEDULERS, "patience", "plateau-patience", "", NULL},
    {SCHEDULERS, "threshold", "plateau-threshold", "", NULL},
    {SCHEDULERS, "cooldown", "plateau-cooldown", "", NULL},
    {SCHEDULERS, "mode", CONFIG_REFUSED, "min=", "plateau follows the validation loss, which is minimized"},
    {SCHEDULERS, "threshold_mode", CONFIG_REFUSED, "rel=", "plateau-threshold is a fraction of the validation loss"},
    {SCHEDULERS, "monitor", CONFIG_REFUSED,
     "loss= val_loss= eval_loss= validation_loss=", "plateau follows the validation loss"},
    {SCHEDULERS, "eps", NULL, "", "plateau ignores reductions below 1e-8"},
    {SCHEDULERS, "verbose", NULL, "", "each reduction of plateau is logged"},
    {"", "warmup_num_steps", "warmup-steps", "", NULL},

    /* ---- objective ---- */
    {WEIGHTS, "path path_norm", "path-norm-weight", "", NULL},
    {WEIGHTS, "entropy", "entropy-weight", "", NULL},
    {WEIGHTS, "coding_rate", "coding-rate-weight", "", NULL},
    {WEIGHTS, "chaos lyapunov", "chaos-weight", "", NULL},
    {WEIGHTS, "jacobian jacobian_norm", "jacobian-norm-weight", "", NULL},
    {WEIGHTS, "coherence", "coherence-weight", "", NULL},
    {WEIGHTS, "self_repair self_healing", "self-repair-weight", "", NULL},
    {WEIGHTS, "balance thermo thermodynamic thermodynamics", "balance-weight", "", NULL},
    {WEIGHTS, "energy", "energy-weight", "", NULL},
    {WEIGHTS, "ce cross_entropy", CONFIG_REFUSED,
     "1= 1.0=", "the task loss has weight 1; scale the regularizer weights instead"},
    {"", "ce_weight cross_entropy_weight lambda_ce", CONFIG_REFUSED,
     "1= 1.0=", "the task loss has weight 1; scale the regularizer weights instead"},
    {"", "path_weight lambda_path lambda_path_norm", "path-norm-weight", "", NULL},
    {"", "lambda_entropy", "entropy-weight", "", NULL},
    {"", "lambda_coding_rate", "coding-rate-weight", "", NULL},
    {"", "lambda_chaos lyapunov_weight", "chaos-weight", "", NULL},
    {"", "target_lyapunov lyapunov_target", "chaos-exponent", "", NULL},
    {"", "lambda_coherence", "coherence-weight", "", NULL},
    {"", "lambda_self_repair self_healing_weight", "self-repair-weight", "", NULL},
    {"", "jacobian", "jacobian-norm", "", NULL},
    {"", "jacobian_weight lambda_jacobian", "jacobian-norm-weight", "", NULL},
    {"", "thermodynamic thermodynamics", "balance", "", NULL},
    {"", "thermodynamic_weight thermodynamics_weight thermo_weight lambda_thermo lambda_thermodynamic",
     "balance-weight", "", NULL},
    {"", "lambda_energy", "energy-weight", "", NULL},
    {"", "target_entropy", CONFIG_REFUSED, "",
     "entropy is regularized to a range: set --entropy-low and --entropy-high"},
    {"", "text_coherence text_coherence_weight", CONFIG_REFUSED,
     "off= no= none= false= 0= 0.0=", "text coherence is measured on generated text: eitp eval --emergence"},
    {"", "fractal_dimension fractal_weight target_fractal_dim target_fractal_dimension", NULL, "",
     "the box dimension of a matrix without zeros is always 2; --participation-ratio measures the dimension "
     "of "
     "the hidden states"},
    {"", "mutual_information mi_weight", NULL, "",
     "it is constant for a deterministic network; --coherence bounds what hidden states predict"},
    {"", "hardware_weight", NULL, "", "it has no gradient; --energy metric measures the machine"},
    {"hypernetwork hypernet hyper_network", "*", CONFIG_REFUSED, "false= False= off= none= no= 0=", NO_HYPERNETWORK},
    {"",
     "hypernetwork hypernet use_hypernetwork hyper_hidden hyper_hidden_dim hyper_every hyper_layers hyper_lr "
     "hyper_dropout hypernetwork_hidden hypernetwork_hidden_dim hypernetwork_every hypernetwork_lr",
     CONFIG_REFUSED, "false= False= off= none= no= 0=", NO_HYPERNETWORK},

    /* ---- not available in eitp ---- */
    {"", "dora use_dora", CONFIG_REFUSED, OFF, "adapters are LoRA, or rsLoRA with --lora-rslora"},
    {"", "lora_plus loraplus_lr_ratio", CONFIG_REFUSED, OFF, "both matrices of an adapter use --lr"},
    {"", "lora_bias", CONFIG_REFUSED, "none= None= false=", "adapters have no bias"},
    {"", "init_lora_weights", CONFIG_REFUSED, "true= True=", "adapters start at zero: A is random and B is zero"},
    {"", "qlora use_qlora load_in_4bit load_in_8bit quantization quantization_config quantize", CONFIG_REFUSED, OFF,
     NO_QUANTIZATION},
    {"", "neftune_noise_alpha", CONFIG_REFUSED, OFF,
     "eitp adds no noise to embeddings; --dropout and --word-dropout are similar"},
    {"", "ema use_ema ema_decay swa use_swa", CONFIG_REFUSED, OFF,
     "eitp does not average weights; --keep-best keeps the best checkpoint"},
    {"", "dpo_beta rpo_alpha loss_type ref_model reward_model", CONFIG_REFUSED, OFF, NO_PREFERENCES},
    {"", "num_beams", CONFIG_REFUSED, "1=", "eitp has no beam search; --temperature 0 takes the most likely token"},
    {"", "repetition_penalty length_penalty", CONFIG_REFUSED,
     "1= 1.0=", "sampling is controlled by --temperature, --top-k, --top-p and --min-p only"},
    {"", "push_to_hub hub_model_id hub_token hub_strategy wandb wandb_project", CONFIG_REFUSED, OFF, NO_NETWORK},
    {"", "fsdp fsdp_config ddp_backend", CONFIG_REFUSED, OFF, ONE_PROCESS},
    {"", "ddp_find_unused_parameters", NULL, "", ONE_PROCESS},
    {"", "trust_remote_code", NULL, "", "eitp never runs code from a model"},
    {"", "packing", NULL, "", "text is cut into windows, and conversations are packed into batches, without padding"},
    {"", "group_by_length pad_to_max_length", NULL, "", "samples of any length are packed without padding"},
    {"", "streaming", NULL, "", "data is packed into a file first; memory use does not depend on its size"},
    {"", "do_sample", NULL, "", "--temperature 0 takes the most likely token; any other value samples"},
    {"", "use_cache", NULL, "", "keys and values are always cached during generation"},
    {"", "data_seed", CONFIG_REFUSED, "none= None=", "--seed sets everything, including the order of the data"},

    /* ---- training ---- */
    {"deepspeed", "train_batch_size", CONFIG_STEP_SEQUENCES, "", NULL},
    {"", "train_micro_batch_size_per_gpu", "batch-size", "", NULL},
    {"", "mixed_precision", "precision", "true=fp16 false=fp32 no=fp32", NULL},
    {"fp16 amp", "enabled", "precision", "true=fp16 false=~fp32", NULL},
    {"bf16 bfloat16", "enabled", "precision", "true=bf16 false=~fp32", NULL},
    {"fp16 bf16 bfloat16",
     "loss_scale loss_scale_window initial_scale_power hysteresis consecutive_hysteresis min_loss_scale auto_cast",
     NULL, "", "eitp scales the loss automatically for fp16"},
    {"zero_optimization", "*", NULL, "",
     "eitp trains in one process; optimizer adamw8 or factored, and offload, save memory instead"},
    {"", "accelerator", "device", "", NULL},
    {"", "devices num_devices gpus num_gpus n_gpu nproc_per_node num_processes num_nodes nnodes", CONFIG_REFUSED,
     "1= 0= -1= auto=", ONE_PROCESS},
    {"", "strategy distributed_strategy", CONFIG_REFUSED, "auto= single_device= no= none=", ONE_PROCESS},
    {"", "local_rank", CONFIG_REFUSED, "0= -1=", ONE_PROCESS},
    {"", "memory_efficient_attention flash_attention use_flash_attention attn_implementation", NULL, "",
     "attention always runs in tiles, without storing the scores"},
    {"", "compile compile_model torch_compile", NULL, "", "eitp always plans and fuses a pass before the first step"},
    {"", "sync_batchnorm", NULL, "", "no model has batch normalization"},
    {"", "enable_model_summary", NULL, "",
     "eitp train logs the number of parameters, eitp plan prints the memory of each part"},

    /* ---- memory, output, records ---- */
    {"memory", "budget limit max", "memory-budget", "", NULL},
    {"", "empty_cache_every empty_cache_interval torch_empty_cache_steps clear_cache_every", NULL, "",
     "the arena does not fragment, so there is no cache to empty"},
    {"", "max_split_size_mb pytorch_cuda_alloc_conf", NULL, "", "the arena is one block of memory, planned in advance"},
    {"output", "dir directory path", "output-dir", "", NULL},
    {CHECKPOINTS, "dir directory", "output-dir", "", NULL},
    {CHECKPOINTS, "strategy", "save-strategy", "", NULL},
    {CHECKPOINTS, INTERVALS, "save-steps", "", NULL},
    {CHECKPOINTS, "keep keep_last limit max_to_keep total_limit", "save-total-limit", "", NULL},
    {"", "checkpoint_freq checkpoint_interval save_freq save_interval", "save-steps", "", NULL},
    {"", "max_checkpoints", "save-total-limit", "", NULL},
    {"", "greater_is_better", NULL, "", "eitp knows the direction of each metric"},
    {"log logging", INTERVALS, "log-every", "", NULL},
    {"", "steps_per_print", "log-every", "", NULL},
    {"monitor", "update_frequency", "log-full-every", "", NULL},
    {"monitor", "plot_frequency", "metrics-every", "", NULL},
    {"monitor", "window_size", "metrics-window", "", NULL},
    {"monitor", "verbose", NULL, "", "-v prints details"},
    {"", "mem_check_every memory_check_every", NULL, "", "free memory is checked within every step"},
    {"", "lang", CONFIG_REFUSED, "en= EN=", "messages are in English"},
    {"", "eval_log_freq", NULL, "", "metrics.jsonl has every evaluation"},
    {"", "perf_log_freq", "perf-every", "", NULL},
    {"", "gpu_log_freq", "gpu-report-every", "", NULL},
    {"", "flops_profile_freq flops_every", "profile-every", "", NULL},
    {"", "wall_clock_breakdown", NULL, "",
     "records have the times of forward, backward and update; see --profile-every"},
};

static int same_name(const char *a, const char *b, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if ((a[i] == '_' ? '-' : a[i]) != (b[i] == '_' ? '-' : b[i]))
            return 0;
    }
    return 1;
}

static int list_has(const char *list, const char *name, size_t size) {
    while (*list) {
        size_t length = strcspn(list, " ");
        if (length == size && same_name(list, name, size))
            return 1;
        list += length;
        list += *list == ' ';
    }
    return 0;
}

/* Returns the last name in path[0 .. size). */
static const char *last_name(const char *path, size_t size) {
    while (size && path[size - 1] != '.')
        size--;
    return path + size;
}

/* Returns the section of `path` in which an entry applies to a name, or NULL; for "*" the innermost match. */
static const char *matching_section(const config_name *entry, const char *path, const char *name, size_t *size) {
    const char *section = name;
    do {
        const char *end = section - 1;
        section = last_name(path, (size_t)(end - path));
        *size = (size_t)(end - section);
        if (list_has(entry->sections, section, *size) || list_has(entry->sections, path, (size_t)(end - path)))
            return section;
    } while (!strcmp(entry->names, "*") && section > path);
    return NULL;
}

const char *config_section_of(const config_name *name, const char *path, size_t *size) {
    return matching_section(name, path, last_name(path, strlen(path)), size);
}

const config_name *config_find_in_section(const char *path) {
    const char *name = last_name(path, strlen(path));
    size_t size;
    for (size_t i = 0; i < COMMAND_COUNT(names) && name > path; i++) {
        const config_name *entry = &names[i];
        if (*entry->sections && (!strcmp(entry->names, "*") || list_has(entry->names, name, strlen(name))) &&
            matching_section(entry, path, name, &size))
            return entry;
    }
    return NULL;
}

const config_name *config_find_anywhere(const char *path) {
    const char *name = last_name(path, strlen(path));
    for (size_t i = 0; i < COMMAND_COUNT(names); i++) {
        if (!*names[i].sections && list_has(names[i].names, name, strlen(name)))
            return &names[i];
    }
    return NULL;
}

size_t config_option_count(const config_name *name) {
    size_t count = 1;
    for (const char *at = name->option; *at; at++)
        count += *at == ' ';
    return count;
}

void config_option(const config_name *name, size_t index, char *option, size_t size) {
    const char *at = name->option;
    for (; index; index--)
        at += strcspn(at, " ") + 1;
    snprintf(option, size, "%.*s", (int)strcspn(at, " "), at);
}

const char *config_meaning_of(const config_name *name, const char *value, size_t *size) {
    size_t length = strlen(value);
    for (const char *at = name->values; *at; at += *at == ' ') {
        const char *meaning = strchr(at, '=') + 1;
        *size = strcspn(meaning, " ");
        if ((size_t)(meaning - at) == length + 1 && !memcmp(at, value, length))
            return meaning;
        at = meaning + *size;
    }
    return NULL;
}
