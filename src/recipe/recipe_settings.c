/* The tables of a recipe's members, and their defaults. */
#include "base/files.h"
#include "base/setting_table.h"
#include "recipe/recipe_settings.h"
#include "run/internal.h"
#include "task/vae_settings.h"
#include "train/trainer_settings.h"
#include "train/trainer_state.h"

#define EITP__CONTEXT_SETTING(member, name, kind, value, min, max, help)                                               \
    EITP__SETTING(eitp_context_config, , member, name, kind, value, min, max, 0, ACCEPTED, NULL, help)
#define EITP__MODEL_SETTING(member, name, kind, value, min, max, flags, help)                                          \
    EITP__SETTING(eitp_model_recipe, , member, name, kind, value, min, max, flags, REFUSED, NULL, help)
#define EITP__DATA_SETTING(member, name, kind, value, min, max, choices, help)                                         \
    EITP__SETTING(eitp_data_recipe, , member, name, kind, value, min, max, 0, REREAD, choices, help)
#define EITP__COLUMN_SETTING(member, name, help)                                                                       \
    {                                                                                                                  \
        name, EITP_SETTING_TEXT, offsetof(eitp_data_recipe, member), sizeof(((eitp_data_recipe *)0)->member), 0, NULL, \
            0, 0, EITP_SETTING_OR_NUMBER, EITP_DIFFERENCE_REREAD, NULL, help                                           \
    }
#define EITP__TASK_SETTING(member, name, kind, value, min, max, flags, difference, choices, help)                      \
    EITP__SETTING(eitp_task_recipe, , member, name, kind, value, min, max, flags, difference, choices, help)
#define EITP__MEMORY_SETTING(member, name, kind, value, max, flags, choices, help)                                     \
    EITP__SETTING(eitp_memory_recipe, , member, name, kind, value, 0, max, flags, ACCEPTED, choices, help)
#define EITP__LENGTH_SETTING(member, name, kind, value, min, max, flags, help)                                         \
    EITP__SETTING(eitp_recipe, , member, name, kind, value, min, max, flags, ACCEPTED, NULL, help)

static const eitp_setting eitp__context_settings[] = {
    EITP__TEXT_SETTING(eitp_context_config, , device, "device", "auto", ACCEPTED,
                       "compute device: cpu, cuda, or cuda:1 for the second GPU; cuda,cpu: a GPU, or if none can "
                       "be used, the processor; auto: the processor"),
    EITP__CONTEXT_SETTING(threads, "threads", INTEGER, 0, 0, 4096,
                          "number of threads, which does not affect results; 0: as many as affinity and quota allow"),
    EITP__CONTEXT_SETTING(pin_memory, "pin_memory", FLAG, 1, 0, 1,
                          "page-lock host memory for faster copies to and from a GPU"),
    EITP__CONTEXT_SETTING(allow_tf32, "tf32", FLAG, 0, 0, 1,
                          "allow TF32 in fp32 matrix products on a GPU, which is faster and less accurate"),
};

static const eitp_setting eitp__model_settings[] = {
    EITP__TEXT_SETTING(eitp_model_recipe, , directory, "model", NULL, REFUSED,
                       "model directory, GGUF file, or output directory (its best checkpoint, or the newest)"),
    EITP__TEXT_SETTING(eitp_model_recipe, , shape, "init", NULL, REFUSED,
                       "random weights with this shape (a name or a config.json)"),
    EITP__MODEL_SETTING(vocabulary, "vocab_size", INTEGER, 0, 0, 1 << 24, EITP_SETTING_OPTIONAL,
                        "size of the vocabulary; 0: the tokenizer's"),
    EITP__MODEL_SETTING(layers, "layers", INTEGER, 0, 0, 1000, EITP_SETTING_OPTIONAL,
                        "number of layers of a model with random weights; 0: the shape's"),
    EITP__MODEL_SETTING(heads, "heads", INTEGER, 0, 0, 1 << 16, EITP_SETTING_OPTIONAL,
                        "attention heads per layer of a model with random weights; 0: the shape's"),
    EITP__MODEL_SETTING(width, "width", INTEGER, 0, 0, 1 << 20, EITP_SETTING_OPTIONAL,
                        "hidden size of a model with random weights, a multiple of the heads; the MLP scales with "
                        "it; 0: the shape's"),
    EITP__MODEL_SETTING(positions, "positions", INTEGER, 0, 0, 1 << 24, EITP_SETTING_OPTIONAL,
                        "maximum sequence length in tokens of a model with random weights; 0: the shape's"),
    EITP__TEXT_SETTING(eitp_model_recipe, , tokenizer, "tokenizer", NULL, REFUSED,
                       "tokenizer.json, its directory, or bytes; default: the model's, or one trained on the text"),
    EITP__TEXT_SETTING(eitp_model_recipe, , chat_template, "chat_template", NULL, REREAD,
                       "chat template: a Jinja file, or chatml, instead of the tokenizer's template"),
    EITP__TEXT_SETTING(eitp_model_recipe, , chat_values, "chat_values", NULL, REREAD,
                       "values for the chat template, as a JSON object"),
    EITP__SETTING(eitp_model_recipe, , dropout, "dropout", NUMBER, -1, -EITP__UNBOUNDED, 1,
                  EITP_SETTING_BELOW | EITP_SETTING_OPTIONAL, LOGGED, NULL,
                  "probability for all three dropouts; negative: the configuration's"),
    EITP__MODEL_SETTING(lora_rank, "lora_rank", INTEGER, 0, 0, 65536, 0,
                        "train LoRA adapters of this rank instead of the weights; 0: train the weights"),
    EITP__MODEL_SETTING(lora_alpha, "lora_alpha", NUMBER, 0, 0, 1e9, EITP_SETTING_OPTIONAL,
                        "scale the adapters' output by A / R; 0: A = 2 R"),
    EITP__MODEL_SETTING(lora_dropout, "lora_dropout", NUMBER, 0, 0, 1, EITP_SETTING_BELOW,
                        "dropout on the adapters' input"),
    EITP__TEXT_SETTING(
        eitp_model_recipe, , lora_targets, "lora_targets", NULL, REFUSED,
        "layers that get adapters, such as c_attn,c_proj,c_fc, all-linear, or h.0.attn.c_attn for one block"),
    EITP__TEXT_SETTING(eitp_model_recipe, , lora_modules_to_save, "lora_modules_to_save", NULL, REFUSED,
                       "modules of a decoder to train in full together with the adapters: embed_tokens (wte in GPT-2), "
                       "lm_head if it is separate"),
    EITP__MODEL_SETTING(lora_rslora, "lora_rslora", FLAG, 0, 0, 1, 0, "scale the adapters' output by A / sqrt(R)"),
    EITP__TEXT_SETTING(
        eitp_model_recipe, , freeze, "freeze", NULL, REFUSED,
        "parameters to freeze: embeddings, layers:N (the first N), names in which * matches anything; such "
        "as embeddings,layers:6"),
    EITP__TEXT_SETTING(eitp_model_recipe, , encoder, "encoder", NULL, REFUSED,
                       "for task vae: encoder, a model directory or a shape with random weights"),
    EITP__MODEL_SETTING(latent_size, "latent_size", INTEGER, 0, 0, 4096, EITP_SETTING_OPTIONAL,
                        "units of the latent variable; 0: 32, or the model's"),
    EITP__SETTING(eitp_model_recipe, , latent_input, "latent_input", CHOICE, EITP_LATENT_PREFIX, 0, 0, 0, REFUSED,
                  "prefix added", "tokens whose embedding has the latent variable: the first, or every one"),
};

static const eitp_setting eitp__data_settings[] = {
    EITP__TEXTS_SETTING(eitp_data_recipe, , training, "data", ACCEPTED,
                        "text files, tables, directories of these, - for standard input, or one token file"),
    EITP__TEXTS_SETTING(eitp_data_recipe, , validation, "val_data", ACCEPTED,
                        "validation data, instead of a part of the training data"),
    EITP__DATA_SETTING(validation_fraction, "val_fraction", NUMBER, 0.1, 0, 0.9, NULL,
                       "fraction of the data held out for validation, from its end; 0: none"),
    EITP__DATA_SETTING(
        format, "data_format", CHOICE, EITP_FORMAT_AUTO, 0, 0, "auto text lines csv tsv jsonl conll chat",
        "file format: text, plain text; lines, one sample per line; csv, tsv or jsonl, one per row; conll, a word and "
        "its label per line; chat, a conversation in each row of JSON Lines. auto: by extension, .csv, .tsv, .tab, "
        ".json, .jsonl, .ndjson, .conll, .bio and .iob, and chat if the first row of JSON Lines is a conversation"),
    EITP__TEXT_SETTING(eitp_data_recipe, , encoding, "encoding", NULL, REREAD,
                       "encoding of the text, such as GB18030, UTF-16 or another that 'iconv -l' lists"),
    EITP__COLUMN_SETTING(text_column, "text_column",
                         "table column with the text, or with a list of its words: its name, or its number from 1 "
                         "if there is no header"),
    EITP__COLUMN_SETTING(pair_column, "pair_column", "table column with the second text of a pair"),
    EITP__COLUMN_SETTING(label_column, "label_column", "table column with the label, or with a list of labels"),
    EITP__COLUMN_SETTING(weight_column, "weight_column",
                         "table column with the weight of a row in the loss, a number of at least 0; empty: 1"),
    EITP__TEXT_SETTING(eitp_data_recipe, , delimiter, "delimiter", NULL, REREAD,
                       "column delimiter of CSV and TSV: a character, or comma, semicolon or tab"),
    EITP__TEXT_SETTING(eitp_data_recipe, , document_separator, "document_separator", NULL, REREAD,
                       "line that separates the documents in a text file; none: a file is one document"),
    EITP__DATA_SETTING(skip_bad, "on_bad_row", CHOICE, 0, 0, 0, "stop skip",
                       "action for a table row that cannot be read: end the run, or skip and count it"),
    EITP__DATA_SETTING(
        dedup, "dedup", FLAG, 0, 0, 1, NULL,
        "leave out rows that repeat the text of an earlier one, and all rows whose text occurs with different "
        "labels"),
    EITP__DATA_SETTING(strict_utf8, "strict_utf8", FLAG, 0, 0, 1, NULL,
                       "fail on bytes that are invalid in the encoding instead of replacing them"),
};

static const eitp_setting eitp__task_settings[] = {
    EITP__TASK_SETTING(
        kind, "task", CHOICE, EITP_TASK_AUTO, 0, 0, 0, REFUSED, "auto lm mlm classify tokens regress vae",
        "training task: next tokens (lm), masked tokens (mlm), labels (classify), labels of words (tokens), "
        "numbers (regress), text from a latent variable (vae); auto: inferred from model and data"),
    EITP__TASK_SETTING(block_size, "block_size", INTEGER, -1, -1, 1 << 24, EITP_SETTING_OPTIONAL, REREAD, NULL,
                       "tokens per sample; 0: the model's positions; -1: as many as data and memory allow"),
    EITP__TASK_SETTING(train_on, "train_on", CHOICE, EITP_CHAT_ANSWERS, 0, 0, 0, REREAD,
                       "answers last-answer everything", "tokens of a conversation to train on"),
    EITP__TASK_SETTING(problem, "labels", CHOICE, EITP_PROBLEM_UNKNOWN, 0, 0, 0, REREAD, "auto single several",
                       "labels per sample, for task classify: one, or any number, where a row without a label "
                       "has none; auto: several if a label is a list or names separated by |"),
    EITP__TASK_SETTING(mlm_probability, "mlm_probability", NUMBER, 0.15, 0, 1, EITP_SETTING_ABOVE, REFUSED, NULL,
                       "probability that a token is masked"),
    EITP__TASK_SETTING(whole_words, "whole_words", FLAG, 0, 0, 1, 0, REFUSED, NULL,
                       "mask all tokens of a word or none"),
    EITP__TASK_SETTING(label_smoothing, "label_smoothing", NUMBER, 0, 0, 1, EITP_SETTING_BELOW, REFUSED, NULL,
                       "part of each target that is distributed over all labels"),
    EITP__TEXT_SETTING(eitp_task_recipe, , class_weights, "class_weights", "none", REFUSED,
                       "weights of the labels in the loss: none, balanced (higher for rare labels), or numbers in the "
                       "order of the labels, separated by commas"),
    EITP__TEXTS_SETTING(eitp_task_recipe, , sample_prompts, "sample_prompt", ACCEPTED,
                        "prompt that the model continues at each evaluation, for evaluations.jsonl; may be repeated"),
    EITP__SETTING(eitp_task_recipe, , sample_tokens, "sample_tokens", INTEGER, 64, 1, 512, EITP_SETTING_OPTIONAL,
                  ACCEPTED, NULL, "tokens to generate for each prompt, the most likely ones"),
    EITP__VAE_SETTINGS(eitp_task_recipe, vae.),
    EITP__SETTING(eitp_task_recipe, , importance_samples, "importance_samples", INTEGER, 0, 0,
                  EITP_MAX_IMPORTANCE_SAMPLES, EITP_SETTING_OPTIONAL, ACCEPTED, NULL,
                  "importance samples per evaluated sample, for a bound on its likelihood; 0: none"),
};

static const eitp_setting eitp__memory_settings[] = {
    EITP__MEMORY_SETTING(budget, "memory_budget", UNSIGNED, 0, EITP__LARGEST_COUNT, EITP_SETTING_BYTES, NULL,
                         "memory limit of the process, such as 900M or 1.5Gi; 0: the free memory"),
    EITP__MEMORY_SETTING(device_budget, "gpu_memory_budget", UNSIGNED, 0, EITP__LARGEST_COUNT, EITP_SETTING_BYTES, NULL,
                         "memory limit of the run on a GPU; 0: set by gpu_mem_max"),
    EITP__MEMORY_SETTING(gpu_mem_max, "gpu_mem_max", NUMBER, 95, 100,
                         EITP_SETTING_ABOVE | EITP_SETTING_OPTIONAL | EITP_SETTING_MINOR, NULL,
                         "maximum percentage of a GPU's memory in use, by this run and others"),
    EITP__CHOSEN_TEXT_SETTING(eitp_memory_recipe, , precision, "precision", "auto", ACCEPTED, "auto fp32 bf16 fp16",
                              "precision of weights and activations; auto: the fastest on this processor"),
    EITP__CHOSEN_TEXT_SETTING(
        eitp_memory_recipe, , optimizer, "optimizer", "auto", ACCEPTED, "auto adamw adamw8 adamw8-sr factored sgd",
        "optimizer, with the format of weights and moments; auto: the closest to AdamW that fits in memory"),
    EITP__MEMORY_SETTING(recompute, "recompute", CHOICE, EITP_RECOMPUTE_AUTO, 0, 0, "auto none attention layer",
                         "activations to recompute in the backward pass; auto: as few as fit in memory"),
    EITP__CHOSEN_TEXT_SETTING(
        eitp_memory_recipe, , offload, "offload", "none", ACCEPTED, "none auto states all",
        "variables to keep in a file, or with a GPU in host memory; auto: as few as necessary if nothing "
        "else fits"),
    EITP__TEXT_SETTING(eitp_memory_recipe, , offload_file, "offload_file", NULL, ACCEPTED,
                       "file for offloaded variables, removed after the run"),
    EITP__MEMORY_SETTING(least, "least_memory", FLAG, 0, 1, EITP_SETTING_OPTIONAL, NULL,
                         "choose the configuration that uses the least memory, not the fastest that fits"),
    EITP__MEMORY_SETTING(async_save, "async_save", CHOICE, EITP_ASYNC_SAVE_AUTO, 0, 0, "auto no",
                         "write checkpoints in the background, from a copy, if the budget allows one"),
};

static const eitp_setting eitp__length_settings[] = {
    EITP__LENGTH_SETTING(epochs, "epochs", NUMBER, 1, 0, 1000000, EITP_SETTING_ABOVE,
                         "passes over the data; steps overrides it"),
    EITP__LENGTH_SETTING(warmup_ratio, "warmup_ratio", NUMBER, 0, 0, 1, 0,
                         "warm-up as a fraction of all steps; 0: use warmup_steps"),
    EITP__LENGTH_SETTING(drop_last, "drop_last", FLAG, 0, 0, 1, 0,
                         "drop the last step if the data fill only a part of it"),
};

#define EITP__RECIPE_GROUP(member, table)                                                                              \
    { #member, offsetof(eitp_recipe, member), table, EITP__COUNT(table) }

eitp_setting_group eitp_recipe_group(size_t index) {
    static const eitp_setting_group none = EITP__ZERO;
    eitp_setting_group groups[] = {EITP__RECIPE_GROUP(context, eitp__context_settings),
                                   EITP__RECIPE_GROUP(model, eitp__model_settings),
                                   EITP__RECIPE_GROUP(data, eitp__data_settings),
                                   EITP__RECIPE_GROUP(task, eitp__task_settings),
                                   EITP__RECIPE_GROUP(memory, eitp__memory_settings),
                                   {"trainer", offsetof(eitp_recipe, trainer), NULL, 0},
                                   {"run", offsetof(eitp_recipe, run), NULL, 0},
                                   {"length", 0, eitp__length_settings, EITP__COUNT(eitp__length_settings)}};
    if (index >= EITP__COUNT(groups))
        return none;
    if (groups[index].offset == offsetof(eitp_recipe, trainer))
        groups[index].settings = eitp__trainer_setting_table(&groups[index].count);
    if (groups[index].offset == offsetof(eitp_recipe, run))
        groups[index].settings = eitp__run_setting_table(&groups[index].count);
    return groups[index];
}

EITP__PRIVATE int eitp__recipe_next(eitp__recipe_walk *walk) {
    eitp_setting_group group = eitp_recipe_group(walk->group);
    while (group.settings && walk->next == group.count) {
        walk->next = 0;
        group = eitp_recipe_group(++walk->group);
    }
    walk->setting = group.settings ? &group.settings[walk->next++] : NULL;
    walk->offset = group.offset;
    return walk->setting != NULL;
}

EITP__PRIVATE void *eitp__recipe_member(eitp_recipe *recipe, const eitp__recipe_walk *walk) {
    return (char *)recipe + walk->offset;
}

EITP__PRIVATE const void *eitp__recipe_values(const eitp_recipe *recipe, const eitp__recipe_walk *walk) {
    return (const char *)recipe + walk->offset;
}

EITP__PRIVATE eitp_status eitp__recipe_check_host(const eitp_recipe *recipe, eitp_error *error) {
    return eitp__check_host(&recipe->context.host, "eitp_recipe.context.host", "eitp_recipe_default", error);
}

eitp_recipe eitp_recipe_default(void) {
    eitp_recipe recipe = EITP__ZERO;
    recipe.context = eitp_context_config_default();
    recipe.trainer = eitp_trainer_config_default();
    recipe.run = eitp_run_config_default();
    for (size_t i = 0; eitp_recipe_group(i).settings; i++) {
        const eitp_setting_group group = eitp_recipe_group(i);
        eitp__settings_reset(group.settings, group.count, (char *)&recipe + group.offset);
    }
    recipe.trainer.schedule.kind = EITP_SCHEDULE_LINEAR;
    recipe.trainer.schedule.peak = recipe.trainer.optimizer_config.weight_decay = -1;
    recipe.run.steps = 0;
    recipe.run.resume = EITP_RESUME_NEWEST;
    return recipe;
}
