/*
 * Recipes: the description of a training run in one struct, without anything opened. A program fills it in, or reads it
 * from JSON, and opens it: eitp_training_open, eitp_training_plan, eitp_training_run. See docs/recipes.md.
 */
#ifndef EITP_RECIPE_H
#define EITP_RECIPE_H

#include "run/run.h"
#include "task/vae.h"
#include "train/planner.h"

EITP_BEGIN_DECLARATIONS

/* What a model is trained for. */
typedef enum eitp_task_kind {
    EITP_TASK_AUTO = 0,           /* what the model's head is for; without one, masked or next tokens */
    EITP_TASK_LANGUAGE = 1,       /* the next token */
    EITP_TASK_MASKED = 2,         /* masked tokens */
    EITP_TASK_CLASSIFICATION = 3, /* labels of texts */
    EITP_TASK_TOKENS = 4,         /* labels of their words */
    EITP_TASK_REGRESSION = 5,     /* numbers for texts */
    EITP_TASK_VAE = 6             /* texts under a model with a latent variable */
} eitp_task_kind;

/* Where the model comes from, and what of it is trained. */
typedef struct eitp_model_recipe {
    const char *directory; /* a model, or an output directory: its best checkpoint, or the newest; NULL: `shape` */
    const char *shape;     /* random weights: a name of eitp_transformer_config_named, or a path of a config.json */
    int64_t vocabulary, layers, heads, width,
        positions; /* replace sizes of `shape`; 0: keep it; vocabulary 0: the tokenizer's */
    /* tokenizer.json, its directory, or "bytes" (a directory that is called so is "./bytes"). NULL: the model's; with
       random weights one that is trained on the text (eitp_tokenizer_train_size), unless that is too short or the
       vocabulary is set and has no room: bytes. It is saved in data/tokenizer in the output directory. */
    const char *tokenizer;
    const char *chat_template; /* of conversations: a file, or "chatml"; NULL: the tokenizer's */
    const char *chat_values;   /* a JSON object of values for it; NULL: none */
    double dropout;            /* replaces all three dropouts; negative: keeps the configuration's */
    int64_t lora_rank;         /* rank of the adapters to train; 0: train the weights */
    double lora_alpha;         /* 0: twice the rank */
    double lora_dropout;
    const char *lora_targets;         /* see eitp_lora_targets_parse; NULL: the architecture's default */
    const char *lora_modules_to_save; /* trained whole beside them, see eitp_lora_saved_parse; NULL: nothing */
    int lora_rslora;
    const char *freeze; /* see eitp_model_freeze; NULL: nothing */
    /* For EITP_TASK_VAE. The encoder of a model without a latent variable: a directory, as `directory`, or a name of
       eitp_transformer_config_named for random weights. `shape` "vae-tiny" or "vae-small" has one. */
    const char *encoder;
    int64_t latent_size; /* 0: 32, or the model's own */
    eitp_latent_input latent_input;
} eitp_model_recipe;

/* The data: token files, or texts and tables, which are packed into the output directory. See docs/data.md. */
typedef struct eitp_data_recipe {
    eitp_text_list training, validation; /* paths; without validation a part of the training data is held out */
    double validation_fraction;          /* of the training data, held out; 0: no validation */
    int holds_out_only;                  /* what is held out is not used */
    eitp_text_format format;
    const char *encoding; /* NULL: UTF-8 */
    const char *text_column, *pair_column, *label_column;
    const char *delimiter, *document_separator; /* see eitp_text_files_config */
    const char *weight_column;                  /* for tasks of labels; see eitp_table_config */
    int skip_bad;                               /* bad rows of tables are skipped; 0: the first is an error */
    int dedup;                                  /* see eitp_labelled_pack_config */
    int strict_utf8;                            /* see eitp_pack_config */
    /* For training and validation data. 0: a resumed run goes on with what the texts were packed into, even if they
       have changed. 1: it reads them again, and is refused if the training data differ. 2: it reads them again, and
       goes on with training data that differ, such as texts that are cut elsewhere, if there are as many samples. */
    int rereads[2];
    eitp_text_source input; /* what the path "-" reads; `read` NULL: nothing */
    const char *packed;     /* for eitp_training_open_trained: the file that texts are packed into; not copied */
} eitp_data_recipe;

typedef struct eitp_task_recipe {
    eitp_task_kind kind;
    /* Tokens of a sample, at most the model's positions; 0: these. Negative: of labelled texts the longest that the
       tokenizer allows; of other texts the longest windows, from 64 tokens to the positions, of which an epoch has 64
       steps, and with which memory requires neither recomputation, offloading nor another optimizer, unless 64 tokens
       do, too. */
    int64_t block_size;
    eitp_chat_targets train_on; /* of conversations (EITP_FORMAT_CHAT), which EITP_TASK_LANGUAGE trains on */
    eitp_problem problem;       /* for EITP_TASK_CLASSIFICATION; EITP_PROBLEM_UNKNOWN: what the data says */
    double mlm_probability;     /* for EITP_TASK_MASKED: that a token is masked */
    int whole_words;            /* for EITP_TASK_MASKED: mask all tokens of a word or none */
    double label_smoothing;     /* see eitp_classification_config */
    const char *class_weights;  /* "none", "balanced", or numbers separated by commas, in the order of the labels */
    /*
     * For EITP_TASK_LANGUAGE: texts that the model continues at each evaluation of a run, by sample_tokens of the most
     * likely tokens each; evaluations.jsonl gets them. At most EITP_MAX_SAMPLE_PROMPTS, of up to
     * EITP_SAMPLE_PROMPT_SIZE bytes each. They replace eitp_run_config.describe.
     */
    eitp_text_list sample_prompts;
    int64_t sample_tokens;
    eitp_vae_objective vae;     /* for EITP_TASK_VAE */
    int64_t importance_samples; /* see eitp_vae_config */
} eitp_task_recipe;

#define EITP_MAX_SAMPLE_PROMPTS 8
#define EITP_SAMPLE_PROMPT_SIZE 1024

/* Whether checkpoints are written beside the next steps. */
typedef enum eitp_async_save {
    EITP_ASYNC_SAVE_AUTO = 0, /* if the budget has room for a copy */
    EITP_ASYNC_SAVE_NO = 1    /* training waits */
} eitp_async_save;

/* What may be chosen so that the run fits in memory. */
typedef struct eitp_memory_recipe {
    uint64_t budget; /* resident bytes of the process; 0: the memory that is free (eitp_memory_budget_default) */
    /* Bytes of a GPU's own memory; 0: up to `gpu_mem_max` percent of all (eitp_device_budget_default). */
    uint64_t device_budget;
    double gpu_mem_max;
    const char *precision; /* "auto" (the fastest), "fp32", "bf16" or "fp16" */
    const char *optimizer; /* "auto" (the nearest to AdamW that fits), or the name of one */
    eitp_recompute recompute;
    const char *offload;      /* "none", "auto" (as few variables as necessary), "states" or "all" */
    const char *offload_file; /* NULL: in the output directory, or in the host's memory if the device has its own */
    int least;                /* take the configuration with the least memory, not the fastest that fits */
    uint64_t process;         /* resident bytes of the process without the run; 0: what they are when it is planned */
    eitp_async_save async_save;
} eitp_memory_recipe;

/* What a training is doing before its first step. */
typedef struct eitp_training_progress {
    const char *stage;         /* "reading the data", "training a tokenizer", "packing", "planning memory", ... */
    uint64_t bytes, all_bytes; /* read, and in all, while a tokenizer is trained or texts are packed; else 0 */
    uint64_t count;            /* tokens or texts packed so far */
    const char *unit;          /* "tokens" or "texts"; NULL unless texts are packed */
} eitp_training_progress;

typedef struct eitp_recipe {
    eitp_context_config context; /* host, device and threads; `memory` and the planner set the others */
    eitp_model_recipe model;
    eitp_data_recipe data;
    eitp_task_recipe task;
    eitp_memory_recipe memory;
    eitp_trainer_config trainer; /* a negative schedule.peak or weight_decay is the optimizer's own */
    eitp_run_config run;         /* steps 0: `epochs` */
    double epochs;               /* passes over the training data */
    double warmup_ratio;         /* the warm-up as a fraction of all steps; 0: trainer.schedule.warmup */
    int drop_last;               /* leave out the last step where the data fill only a part of it */
    /* Called before each stage of opening, planning and preparing, and during those that take long. Any result but 0
       ends that with EITP_ERROR_INTERRUPTED. May be NULL. */
    int (*progress)(void *progress_user, const eitp_training_progress *progress);
    void *progress_user;
    void *texts; /* of eitp_recipe_read; NULL: the texts belong to the program */
} eitp_recipe;

/*
 * A recipe that trains one epoch in "out"; model and data are still to be given. It has a linear schedule, precision
 * and optimizer "auto", a tenth of the data held out, and EITP_RESUME_NEWEST: a run that was stopped or killed goes on
 * where it was. Start from this.
 */
EITP_API eitp_recipe eitp_recipe_default(void);

/*
 * The settings of a struct by its name: "eitp_trainer_config", and in the same way eitp_run_config, eitp_lora_config,
 * eitp_sampling, eitp_predictor_config, eitp_vae_objective, eitp_emergence_config, eitp_tokenizer_train_config,
 * eitp_sequence_config, eitp_text_files_config, eitp_table_config and eitp_labelled_pack_config, with their defaults
 * and bounds. Members that no text can give, such as pointers, are not among them. Stores the number of settings in
 * *count, unless `count` is NULL. NULL and 0 for another name.
 */
EITP_API const eitp_setting *eitp_settings_of(const char *config, size_t *count);

/* A table of settings that are members of a recipe. */
typedef struct eitp_setting_group {
    const char *name; /* of the member: "model", "trainer", ...; "length" for those of the recipe itself */
    size_t offset;    /* of that member in the recipe */
    const eitp_setting *settings;
    size_t count;
} eitp_setting_group;

/* The groups of all settings of a recipe, counted from 0; zeros after the last. No two settings have the same name. */
EITP_API eitp_setting_group eitp_recipe_group(size_t index);

/*
 * Sets what a JSON file says of a recipe, and leaves the other members as they are. The name of a setting is that of
 * the innermost member: objects around it only group. `texts` then owns the texts; see eitp_recipe_release.
 * A number of bytes may be a string with a unit, as eitp_parse_bytes reads it, and a column may be a number.
 * EITP_ERROR_FORMAT, with the line, for an unknown name, with the nearest setting, for a value of another type, and for
 * one that is out of bounds.
 */
EITP_API eitp_status eitp_recipe_read(const char *path, eitp_recipe *recipe, eitp_error *error);

/* Frees the texts that eitp_recipe_read has read. NULL is harmless. */
EITP_API void eitp_recipe_release(eitp_recipe *recipe);

/* Writes the settings that have a value as a JSON object, for eitp_recipe_read, into text[size], and returns its
   length; if that is size or more, the text was cut. */
EITP_API size_t eitp_recipe_format(const eitp_recipe *recipe, char *text, size_t size);

/* ---- Trainings ---- */

/* A recipe that is opened. It belongs to one thread. */
typedef struct eitp_training eitp_training;

/*
 * Opens a recipe, which is copied: creates and locks the output directory, finds the checkpoint to resume from, reads
 * the model's configuration, reads or trains the tokenizer, and packs the data, or opens what they were packed into
 * before. No memory for weights is used. Close it with eitp_training_close.
 *
 * A resumed run keeps its tokenizer, the kind of task, its data, even if the texts have changed since, and where the
 * recipe says "auto" its precision and optimizer.
 */
EITP_API eitp_status eitp_training_open(const eitp_recipe *recipe, eitp_training **training, eitp_error *error);

/* The same with a run that the program has opened, to complete the recipe from its checkpoint. The training closes it,
   but not if opening fails. */
EITP_API eitp_status eitp_training_open_run(const eitp_recipe *recipe, eitp_run *run, eitp_training **training,
                                            eitp_error *error);

/* The recipe with what opening and planning have found, such as the kind of task. Until the training is planned, the
   program may change `memory`, `trainer`, `run` without its directory, the lengths, and task.block_size of windows of
   text; texts that it sets belong to it and must stay. NULL for NULL. */
EITP_API eitp_recipe *eitp_training_get_recipe(eitp_training *training);

/* Divides the data, and chooses the configuration that fits in memory (eitp_fit_choose). *chosen, which may be NULL,
   receives it. EITP_ERROR_MEMORY names the budget that would be enough; the recipe may then be changed, and planned
   again. */
EITP_API eitp_status eitp_training_plan(eitp_training *training, eitp_fit_candidate *chosen, eitp_error *error);

/* The first half of it: divides the data, and describes the run to the planner, so that a program can measure and
   choose configurations with eitp_training_get_fit. */
EITP_API eitp_status eitp_training_describe(eitp_training *training, eitp_error *error);

/*
 * Opens a recipe to plan it alone, on a machine that may have neither its data nor its output directory: nothing is
 * written, and the training is neither prepared nor run. Samples are random ones, as long as task.block_size, the
 * model and the tokenizer let them be. Of data that are named, the first row tells the kind of task, and random weights
 * get the vocabulary of their token file, or of the tokenizer that would be trained on them, at most. Random weights
 * may have adapters: they stand for a model of that shape. Sample prompts count once their tokenizer is known.
 * eitp_fit.create_task of eitp_training_get_fit creates the model and its task, whose samples can be read.
 */
EITP_API eitp_status eitp_training_open_plan(const eitp_recipe *recipe, eitp_training **training, eitp_error *error);

/* Creates context, model, task and trainer, with the weights that the training starts from, and adds what it is to
   run.json (eitp_run_add_info). Plans first, if that was not done. What a failed call has created is destroyed; it can
   be repeated. */
EITP_API eitp_status eitp_training_prepare(eitp_training *training, eitp_error *error);

/* Trains (eitp_run_train). Prepares first, if that was not done. A training that is complete does no step, and the
   status is EITP_OK. Call it once. */
EITP_API eitp_status eitp_training_run(eitp_training *training, eitp_run_report *report, eitp_error *error);

/* ---- Trained models ---- */

/* The samples that a trained model is opened with. */
typedef enum eitp_trained_samples {
    EITP_SAMPLES_NONE = 0,      /* none: it predicts, embeds or generates */
    EITP_SAMPLES_ALL = 1,       /* all of data.training */
    EITP_SAMPLES_TRAINING = 2,  /* those of data.training that it was trained on */
    EITP_SAMPLES_VALIDATION = 3 /* data.validation; without it those of data.training that its run held out */
} eitp_trained_samples;

/*
 * Opens the model that a recipe has trained, with samples to evaluate it on. Nothing is locked. The model is that of
 * run.directory: the best checkpoint of an output directory or its newest, or a directory with a model. If it has
 * adapters, their weights are those of model.directory, or NULL: of the directory that they name. The samples are
 * those of its own kind of task; a run divides its data by trainer.seed and data.validation_fraction.
 *
 * No memory is used for weights yet. Then eitp_training_prepare creates context and model, in memory.precision; and
 * the task, whose training samples are the ones that were asked for:
 *     eitp_evaluate(eitp_training_get_task(training), EITP_TRAINING, 8, 0, &evaluation, &error);
 *
 * Texts that the run has packed are not read again, unless `rereads` is set. Others are packed into the file
 * data.packed; NULL: into the directory of the run. A trained model is neither planned nor run.
 */
EITP_API eitp_status eitp_training_open_trained(const eitp_recipe *recipe, eitp_trained_samples samples,
                                                eitp_training **training, eitp_error *error);

/* Destroys all that was opened and created, and unlocks the directory. Before the first step of a new run, files that
   it created are removed, except for packed data. NULL is harmless. */
EITP_API void eitp_training_close(eitp_training *training);

/* What a training has opened and created; it keeps them. NULL before that, and for NULL: context, model, task and
   trainer before eitp_training_prepare. A trained model has no run and no trainer, and without samples no task. */
EITP_API eitp_run *eitp_training_get_run(eitp_training *training);
EITP_API const eitp_tokenizer *eitp_training_get_tokenizer(const eitp_training *training);
EITP_API const eitp_tokenizer *eitp_training_get_encoder_tokenizer(const eitp_training *training); /* if it differs */
EITP_API eitp_context *eitp_training_get_context(eitp_training *training);
EITP_API eitp_model *eitp_training_get_model(eitp_training *training);
EITP_API const eitp_task *eitp_training_get_task(const eitp_training *training);
EITP_API eitp_trainer *eitp_training_get_trainer(eitp_training *training);

/* The configuration of the model, and the run that the planner measured. NULL for NULL. */
EITP_API const eitp_transformer_config *eitp_training_get_shape(const eitp_training *training);
/* What the model has besides, if it has a latent variable; size 0: it has none. */
EITP_API eitp_latent_config eitp_training_get_latent(const eitp_training *training);
EITP_API const eitp_fit *eitp_training_get_fit(const eitp_training *training);
/* What the chosen configuration gave up for memory, once the training is planned; nothing with memory.least. */
EITP_API eitp_fit_price eitp_training_get_price(const eitp_training *training);

/* The directories that the model comes from. */
typedef struct eitp_training_source {
    const char *checkpoint; /* that is resumed, or has the trained model; NULL: the training starts anew */
    const char *weights;    /* that a training starts from, or that the adapters belong to; NULL: none */
} eitp_training_source;

/* NULLs for NULL. What they point to is valid until the next call with the training. */
EITP_API eitp_training_source eitp_training_get_source(const eitp_training *training);

/* The data of a split, once the training is planned, or opened if the model is trained. */
typedef struct eitp_training_data {
    const char *path;        /* of the file; NULL: the split has none */
    int is_labelled;         /* it has samples; 0: tokens */
    eitp_token_range tokens; /* of a token file */
    double bytes_per_token;  /* of the text of a token file, on the average; 0: unknown */
    uint64_t samples;        /* once the training is prepared */
    double trained;          /* of a trained model: the fraction of the file that it was trained on */
} eitp_training_data;

/* Zeros for NULL. */
EITP_API eitp_training_data eitp_training_get_data(const eitp_training *training, eitp_split split);

/* Reads the configuration of a recipe's model, and chooses the kind of task, as opening does, without a directory to
   write in; a checkpoint is that of run.checkpoint, with EITP_RESUME_NAMED. `kind` may be NULL. */
EITP_API eitp_status eitp_recipe_read_shape(const eitp_recipe *recipe, eitp_transformer_config *shape,
                                            eitp_task_kind *kind, eitp_error *error);

EITP_END_DECLARATIONS

#endif
