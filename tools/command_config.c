#include "command_config.h"

#define DATA_PATHS "path paths file files"
#define VALIDATION "validation val eval evaluation"
#define SCHEDULERS "scheduler lr_scheduler schedule"
#define CHECKPOINTS "checkpoint checkpoints checkpointing save saving"
#define INTERVALS "steps every interval freq frequency"

/* Of the entries for a section the first that matches applies. */
static const config_name names[] = {
    /* ---- data ---- */
    {"data dataset train", DATA_PATHS " text train train_path train_files", "data", "", NULL},
    {"data dataset", "val validation eval val_path val_file val_files validation_path eval_path", "val-data", "", NULL},
    {VALIDATION, DATA_PATHS " data text", "val-data", "", NULL},
    {VALIDATION, "fraction split", "val-fraction", "", NULL},
    {VALIDATION, INTERVALS, "eval-steps", "", NULL},
    {VALIDATION, "windows", "eval-windows", "", NULL},
    {VALIDATION, "batch_size", NULL, "", "validation takes the batch size of training"},
    {"", "eval_batch_size per_device_eval_batch_size", NULL, "", "validation takes the batch size of training"},
    {"", "eval_freq eval_interval", "eval-steps", "", NULL},
    {"", "eval_strategy evaluation_strategy", "eval-steps", "steps= no=0", NULL},
    {"", "val_check_interval", NULL, "", "eval_steps sets how often to validate"},
    {"", "limit_val_batches", NULL, "", "eval_windows sets how much to validate on"},
    {"", "persistent_workers", NULL, "", "data workers live as long as the run"},
    {"", "use_dynamic_padding dynamic_padding", NULL, "", "all training windows have the same length"},
    {"", "drop_last", NULL, "", "every batch has batch_size windows"},

    /* ---- model ---- */
    {"model", "name path name_or_path", "model", "", NULL},
    {"model", "config shape size", "init", "", NULL},
    {"model", "dtype", "precision", "", NULL},
    {"", "torch_dtype", NULL, "", "precision and optimizer set how weights are stored"},
    {"tokenizer", "name path name_or_path", "tokenizer", "", NULL},
    {"lora peft", "rank r", "lora-rank", "", NULL},
    {"lora peft", "alpha", "lora-alpha", "", NULL},
    {"lora peft", "dropout", "lora-dropout", "", NULL},
    {"lora peft", "targets modules", "lora-targets", "", NULL},
    {"lora peft", "rslora", "lora-rslora", "", NULL},

    /* ---- optimizer and schedule ---- */
    {"optimizer optim", "type name", "optimizer", "", NULL},
    {"", "betas adam_betas", "beta1 beta2", "", NULL},
    {SCHEDULERS, "type name", "lr-schedule", "", NULL},
    {SCHEDULERS, "eta_min", "final-lr", "", NULL},
    {"", "warmup_num_steps", "warmup-steps", "", NULL},
    {"", "gradient_clipping", "max-grad-norm", "", NULL},

    /* ---- training ---- */
    {"", "max_epochs", "epochs", "", NULL},
    {"", "train_micro_batch_size_per_gpu", "batch-size", "", NULL},
    {"", "amp", "precision", "true=fp16 false=", NULL},
    {"", "mixed_precision", "precision", "true=fp16 false=fp32 no=fp32", NULL},
    {"fp16 amp", "enabled", "precision", "true=fp16 false=", NULL},
    {"bf16 bfloat16", "enabled", "precision", "true=bf16 false=", NULL},
    {"fp16 bf16", "*", NULL, "", "the loss is scaled as the precision needs"},
    {"zero_optimization", "*", NULL, "", "eitp trains in one process; see optimizer and offload"},
    {"", "memory_efficient_attention flash_attention use_flash_attention", NULL, "",
     "attention always runs in tiles, without the matrix of scores"},
    {"", "detect_anomaly", NULL, "", "gradients that are not finite are always detected"},
    {"", "sync_batchnorm", NULL, "", "no model has batch normalization"},
    {"", "enable_model_summary", NULL, "", "eitp plan prints it"},

    /* ---- memory, output, records ---- */
    {"memory", "budget limit max", "memory-budget", "", NULL},
    {"output", "dir directory path", "output-dir", "", NULL},
    {CHECKPOINTS, "dir directory", "output-dir", "", NULL},
    {CHECKPOINTS, INTERVALS, "save-steps", "", NULL},
    {CHECKPOINTS, "keep keep_last limit max_to_keep total_limit", "save-total-limit", "", NULL},
    {"", "checkpoint_freq checkpoint_interval save_freq save_interval", "save-steps", "", NULL},
    {"", "max_checkpoints", "save-total-limit", "", NULL},
    {"", "save_strategy", "save-steps", "steps= no=0", NULL},
    {"log logging", INTERVALS, "log-every", "", NULL},
    {"", "log_freq steps_per_print", "log-every", "", NULL},
    {"monitor", "verbose update_frequency plot_frequency window_size", NULL, "", "metrics.jsonl has every step"},
    {"", "eval_log_freq", NULL, "", "metrics.jsonl has every evaluation"},
    {"", "perf_log_freq gpu_log_freq", NULL, "", "metrics.jsonl has every step"},
    {"", "flops_profile_freq wall_clock_breakdown", NULL, "", "eitp bench step prints it"},
    {"", "lightweight_mode minimal_mode fast_detection disable_metrics_monitoring", NULL, "",
     "metrics.jsonl is all that is recorded"},
    {"", "tensorboard_flush_secs", NULL, "", "metrics.jsonl is written every second"},
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

/* The last name of path[0 .. size). */
static const char *last_name(const char *path, size_t size) {
    while (size && path[size - 1] != '.')
        size--;
    return path + size;
}

static int is_in(const config_name *entry, const char *path, const char *name) {
    const char *section = name;
    do {
        const char *end = section - 1;
        section = last_name(path, (size_t)(end - path));
        if (list_has(entry->sections, section, (size_t)(end - section)))
            return 1;
    } while (!strcmp(entry->names, "*") && section > path);
    return 0;
}

const config_name *config_find_in_section(const char *path) {
    const char *name = last_name(path, strlen(path));
    for (size_t i = 0; i < COMMAND_COUNT(names) && name > path; i++) {
        const config_name *entry = &names[i];
        if (*entry->sections && (!strcmp(entry->names, "*") || list_has(entry->names, name, strlen(name))) &&
            is_in(entry, path, name))
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
