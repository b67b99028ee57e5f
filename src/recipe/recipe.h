/*
 * Recipes: the description of a training run in one struct, without opening anything. A program fills it in or reads it
 * from JSON, and then uses eitp_training_open, eitp_training_plan and eitp_training_run. See docs/recipes.md.
 */
#ifndef EITP_RECIPE_H
#define EITP_RECIPE_H

#include "run/run.h"
#include "task/vae.h"
#include "train/planner.h"

EITP_BEGIN_DECLARATIONS

/* Training objective of a model. */
typedef enum eitp_task_kind {
    EITP_TASK_AUTO = 0,           /* chosen by the model's head; without one, masked or next tokens */
    EITP_TASK_LANGUAGE = 1,       /* predict the next token */
    EITP_TASK_MASKED = 2,         /* predict masked tokens */
    EITP_TASK_CLASSIFICATION = 3, /* predict labels of text */
    EITP_TASK_TOKENS = 4,         /* predict a label for each word */
    EITP_TASK_REGRESSION = 5,     /* predict numbers from text */
    EITP_TASK_VAE = 6             /* model text with a latent variable */
} eitp_task_kind;

/* Source of the model, and the parts of it to train. */
typedef struct eitp_model_recipe {
    const char *directory; /* a model, or an output directory: its best checkpoint, or the newest; NULL: `shape` */
    const char *shape;     /* random weights: a name of eitp_transformer_config_named, or the path of a config.json */
    int64_t vocabulary, layers, heads, width,
        positions; /* replace sizes of `shape`; 0: keep it; vocabulary 0: the tokenizer's */
    /* tokenizer.json, its directory, or "bytes" (write "./bytes" for a directory of that name). NULL: the model's; with
       random weights, one that is trained on the text (eitp_tokenizer_train_size), or bytes if the text is too short or
       the given vocabulary is too small. It is saved in data/tokenizer in the output directory. */
    const char *tokenizer;
    const char *chat_template; /* for conversations: a file, or "chatml"; NULL: the tokenizer's */
    const char *chat_values;   /* values for it, as a JSON object; NULL: none */
    double dropout;            /* replaces all three dropouts; negative: keeps the configuration's */
    int64_t lora_rank;         /* rank of the adapters to train; 0: train the weights */
    double lora_alpha;         /* scale of the adapters; 0: twice the rank */
    double lora_dropout;
    const char *lora_targets;         /* see eitp_lora_targets_parse; NULL: the architecture's default */
    const char *lora_modules_to_save; /* trained in full together with the adapters, see eitp_lora_saved_parse; NULL:
                                         none */
    int lora_rslora;
    const char *freeze; /* see eitp_model_freeze; NULL: nothing */
    /* For EITP_TASK_VAE: the encoder of a model without a latent variable, given as a directory, like `directory`, or
       as a name of eitp_transformer_config_named for random weights. `shape` "vae-tiny" and "vae-small" include one. */
    const char *encoder;
    int64_t latent_size; /* 0: 32, or the model's own */
    eitp_latent_input latent_input;
} eitp_model_recipe;

/* The data: token files, or text files and tables, which are packed into the output directory. See docs/data.md. */
typedef struct eitp_data_recipe {
    eitp_text_list training, validation; /* paths; without validation, a part of the training data is held out */
    double validation_fraction;          /* fraction of the training data held out; 0: no validation */
    int holds_out_only;                  /* the held-out part is not used */
    eitp_text_format format;
    const char *encoding; /* NULL: UTF-8 */
    const char *text_column, *pair_column, *label_column;
    const char *delimiter, *document_separator; /* see eitp_text_files_config */
    const char *weight_column;                  /* for tasks with labels; see eitp_table_config */
    int skip_bad;                               /* skip bad rows of tables; 0: the first one is an error */
    int dedup;                                  /* see eitp_labelled_pack_config */
    int strict_utf8;                            /* see eitp_pack_config */
    /* For training and validation data. 0: a resumed run continues with its packed data, even if the source files have
       changed. 1: it reads the files again, and is refused if the training data differ. 2: it reads them again, and
       continues with different training data, such as text that is cut elsewhere, if there are as many samples. */
    int rereads[2];
    eitp_text_source input; /* read for the path "-"; `read` NULL: none */
    const char *packed;     /* for eitp_training_open_trained: the file to pack the data into; not copied */
} eitp_data_recipe;

typedef struct eitp_task_recipe {
    eitp_task_kind kind;
    /*
     * Tokens per sample, at most the model's positions; 0: the positions. Negative: for labelled data, the maximum that
     * the tokenizer allows; for other text, the longest windows, from 64 tokens to the positions, that give an epoch at
     * least 64 steps and that memory allows without recomputation, offloading or another optimizer, unless 64 tokens
     * need those, too.
     */
    int64_t block_size;
    eitp_chat_targets train_on; /* for conversations (EITP_FORMAT_CHAT) with EITP_TASK_LANGUAGE: the tokens to train
                                   on */
    eitp_problem problem;       /* for EITP_TASK_CLASSIFICATION; EITP_PROBLEM_UNKNOWN: inferred from the data */
    double mlm_probability;     /* for EITP_TASK_MASKED: probability that a token is masked */
    int whole_words;            /* for EITP_TASK_MASKED: mask all tokens of a word or none */
    double label_smoothing;     /* see eitp_classification_config */
    const char *class_weights;  /* "none", "balanced", or numbers in the order of the labels, separated by commas */
    /*
     * For EITP_TASK_LANGUAGE: prompts that the model continues at each evaluation of a run, for evaluations.jsonl: each
     * by sample_tokens tokens, always the most likely one. At most EITP_MAX_SAMPLE_PROMPTS of up to
     * EITP_SAMPLE_PROMPT_SIZE bytes each. They replace eitp_run_config.describe.
     */
    eitp_text_list sample_prompts;
    int64_t sample_tokens;
    eitp_vae_objective vae;     /* for EITP_TASK_VAE */
    int64_t importance_samples; /* see eitp_vae_config */
} eitp_task_recipe;

#define EITP_MAX_SAMPLE_PROMPTS 8
#define EITP_SAMPLE_PROMPT_SIZE 1024

/* Background saves. */
typedef enum eitp_async_save {
    EITP_ASYNC_SAVE_AUTO = 0, /* write checkpoints in the background if the budget allows a copy */
    EITP_ASYNC_SAVE_NO = 1    /* training waits for each save */
} eitp_async_save;

/* Choices that make the run fit in memory. */
typedef struct eitp_memory_recipe {
    uint64_t budget; /* resident bytes of the process; 0: the free memory (eitp_memory_budget_default) */
    /* Bytes of a GPU's own memory; 0: up to `gpu_mem_max` percent of its total (eitp_device_budget_default). */
    uint64_t device_budget;
    double gpu_mem_max;
    const char *precision; /* "auto" (the fastest), "fp32", "bf16" or "fp16" */
    const char *optimizer; /* "auto" (the closest to AdamW that fits), or the name of one */
    eitp_recompute recompute;
    const char *offload;      /* "none", "auto" (as few variables as necessary), "states" or "all" */
    const char *offload_file; /* NULL: in the output directory, or in host memory if the device has its own memory */
    int least;                /* choose the configuration that uses the least memory, not the fastest that fits */
    uint64_t process;         /* resident bytes of the process without the run; 0: measured when the run is planned */
    eitp_async_save async_save;
} eitp_memory_recipe;

/* Activity of a training before its first step. */
typedef struct eitp_training_progress {
    const char *stage;         /* "reading the data", "training a tokenizer", "packing", "planning memory", ... */
    uint64_t bytes, all_bytes; /* bytes read, and total, while training a tokenizer or packing; else 0 */
    uint64_t count;            /* tokens or samples packed so far */
    const char *unit;          /* "tokens" or "texts"; NULL unless packing */
} eitp_training_progress;

typedef struct eitp_recipe {
    eitp_context_config context; /* host, device and threads; the other members are set from `memory` and by the
                                    planner */
    eitp_model_recipe model;
    eitp_data_recipe data;
    eitp_task_recipe task;
    eitp_memory_recipe memory;
    eitp_trainer_config trainer; /* a negative schedule.peak or weight_decay means the optimizer's default */
    eitp_run_config run;         /* steps 0: use `epochs` */
    double epochs;               /* passes over the training data */
    double warmup_ratio;         /* warm-up as a fraction of all steps; 0: trainer.schedule.warmup */
    int drop_last;               /* omit the last step if the data fill only a part of it */
    /* Called before each stage of opening, planning and preparing, and during long ones. A result other than 0 ends the
       stage with EITP_ERROR_INTERRUPTED. May be NULL. */
    int (*progress)(void *progress_user, const eitp_training_progress *progress);
    void *progress_user;
    void *texts; /* memory of the strings set by eitp_recipe_read; NULL: all strings belong to the program */
} eitp_recipe;

/*
 * Returns a recipe that trains one epoch in "out"; model and data must still be set. It has a linear schedule,
 * precision and optimizer "auto", holds out a tenth of the data, and has EITP_RESUME_NEWEST: a run that was stopped or
 * killed continues where it stopped. Start from this.
 */
EITP_API eitp_recipe eitp_recipe_default(void);

/*
 * Returns the settings of a struct by its name: "eitp_trainer_config", and in the same way eitp_run_config,
 * eitp_lora_config, eitp_sampling, eitp_predictor_config, eitp_vae_objective, eitp_emergence_config,
 * eitp_tokenizer_train_config, eitp_sequence_config, eitp_text_files_config, eitp_table_config and
 * eitp_labelled_pack_config, with their defaults and bounds. Members that cannot be written as text, such as pointers,
 * are not included. Stores the number of settings in *count unless `count` is NULL. NULL and 0 for any other name.
 */
EITP_API const eitp_setting *eitp_settings_of(const char *config, size_t *count);

/* A table of settings, all members of one struct of a recipe. */
typedef struct eitp_setting_group {
    const char *name; /* of the member: "model", "trainer", ...; "length" for members of the recipe itself */
    size_t offset;    /* offset of that member in the recipe */
    const eitp_setting *settings;
    size_t count;
} eitp_setting_group;

/* Returns a group of settings of a recipe by index, starting from 0; zeros after the last. Setting names are unique. */
EITP_API eitp_setting_group eitp_recipe_group(size_t index);

/*
 * Sets the members of a recipe that a JSON file contains, and leaves the others unchanged. A setting has the name of
 * the innermost member; the objects around it are only for grouping. `texts` then owns the strings; see
 * eitp_recipe_release. A number of bytes may be a string with a unit, as read by eitp_parse_bytes, and a column may be
 * a number.
 *
 * EITP_ERROR_FORMAT, with the line, for an unknown name (with the nearest setting), a value of a wrong type, or a value
 * out of bounds.
 */
EITP_API eitp_status eitp_recipe_read(const char *path, eitp_recipe *recipe, eitp_error *error);

/* Frees the strings that eitp_recipe_read has read. NULL is ignored. */
EITP_API void eitp_recipe_release(eitp_recipe *recipe);

/* Writes the settings that have a value as a JSON object for eitp_recipe_read into text[size], and returns its length.
   If that is size or more, the output was truncated. */
EITP_API size_t eitp_recipe_format(const eitp_recipe *recipe, char *text, size_t size);

/* ---- Trainings ---- */

/* An open recipe. Use it in one thread. */
typedef struct eitp_training eitp_training;

/*
 * Opens a recipe, which is copied: creates and locks the output directory, finds the checkpoint to resume from, reads
 * the model's configuration, reads or trains the tokenizer, and packs the data or opens the packed data of an earlier
 * run. No memory for weights is used. Close it with eitp_training_close.
 *
 * A resumed run keeps its tokenizer, its kind of task and its data, even if the source files have changed since. If the
 * recipe has "auto", it also keeps its precision and optimizer.
 */
EITP_API eitp_status eitp_training_open(const eitp_recipe *recipe, eitp_training **training, eitp_error *error);

/* Opens a recipe with a run that the program has opened, to complete the recipe from its checkpoint. The training
   closes the run, unless opening fails. */
EITP_API eitp_status eitp_training_open_run(const eitp_recipe *recipe, eitp_run *run, eitp_training **training,
                                            eitp_error *error);

/* Returns the recipe, completed with the results of opening and planning, such as the kind of task. Until the training
   is planned, the program may change `memory`, `trainer`, `run` except its directory, the lengths, and task.block_size
   of windows of text. Strings that it sets remain its own and must stay valid. NULL for NULL. */
EITP_API eitp_recipe *eitp_training_get_recipe(eitp_training *training);

/* Splits the data, and chooses the configuration that fits in memory (eitp_fit_choose). Stores it in *chosen, which may
   be NULL. EITP_ERROR_MEMORY names a budget that would be enough; the recipe may then be changed and planned again. */
EITP_API eitp_status eitp_training_plan(eitp_training *training, eitp_fit_candidate *chosen, eitp_error *error);

/* Does the first half of eitp_training_plan: splits the data and describes the run to the planner, so that a program
   can measure and choose configurations with eitp_training_get_fit. */
EITP_API eitp_status eitp_training_describe(eitp_training *training, eitp_error *error);

/*
 * Opens a recipe only to plan it, on a machine that may have neither its data nor its output directory. Nothing is
 * written, and the training cannot be prepared or run. Samples are random, of the maximum length that task.block_size,
 * the model and the tokenizer allow. If the data exist, their first row determines the kind of task, and random weights
 * get the vocabulary of their token file, or the maximum vocabulary of the tokenizer that would be trained on them.
 * Random weights may have adapters: they represent a model of that shape. Sample prompts count once their tokenizer is
 * known. eitp_fit.create_task of eitp_training_get_fit creates the model and its task, whose samples can be read.
 */
EITP_API eitp_status eitp_training_open_plan(const eitp_recipe *recipe, eitp_training **training, eitp_error *error);

/* Creates context, model, task and trainer, with the initial weights of the training, and adds its description to
   run.json (eitp_run_add_info). Plans first if necessary. A failed call destroys everything that it created, and can be
   repeated. */
EITP_API eitp_status eitp_training_prepare(eitp_training *training, eitp_error *error);

/* Trains (eitp_run_train). Prepares first if necessary. A training that is already complete makes no step and returns
   EITP_OK. Call it once. */
EITP_API eitp_status eitp_training_run(eitp_training *training, eitp_run_report *report, eitp_error *error);

/* ---- Trained models ---- */

/* The samples to open a trained model with. */
typedef enum eitp_trained_samples {
    EITP_SAMPLES_NONE = 0,      /* none: for prediction, embedding or generation */
    EITP_SAMPLES_ALL = 1,       /* all of data.training */
    EITP_SAMPLES_TRAINING = 2,  /* the part of data.training that it was trained on */
    EITP_SAMPLES_VALIDATION = 3 /* data.validation; without it, the part of data.training that its run held out */
} eitp_trained_samples;

/*
 * Opens the model that a recipe has trained, with samples to evaluate it on. Nothing is locked. run.directory is an
 * output directory, whose best or newest checkpoint is used, or a model directory. If the model has adapters, their
 * base weights come from model.directory, or if that is NULL from the directory that they name. The samples are for the
 * model's own kind of task; a run splits its data by trainer.seed and data.validation_fraction.
 *
 * No memory is used for weights yet. Then eitp_training_prepare creates context and model, in memory.precision; and
 * the task, whose training samples are the requested ones:
 *     eitp_evaluate(eitp_training_get_task(training), EITP_TRAINING, 8, 0, &evaluation, &error);
 *
 * Data that the run has packed are not read again, unless `rereads` is set. Other data are packed into the file
 * data.packed; NULL: into the directory of the run. A trained model is neither planned nor run.
 */
EITP_API eitp_status eitp_training_open_trained(const eitp_recipe *recipe, eitp_trained_samples samples,
                                                eitp_training **training, eitp_error *error);

/* Destroys everything that was opened and created, and unlocks the directory. Before the first step of a new run,
   removes the files that it created, except packed data. NULL is ignored. */
EITP_API void eitp_training_close(eitp_training *training);

/* Return objects that a training has opened and created, and owns. NULL before that, and for NULL: context, model, task
   and trainer before eitp_training_prepare. A trained model has no run and no trainer, and without samples no task. */
EITP_API eitp_run *eitp_training_get_run(eitp_training *training);
EITP_API const eitp_tokenizer *eitp_training_get_tokenizer(const eitp_training *training);
EITP_API const eitp_tokenizer *eitp_training_get_encoder_tokenizer(const eitp_training *training); /* NULL: no
                                                                                                      separate one */
EITP_API eitp_context *eitp_training_get_context(eitp_training *training);
EITP_API eitp_model *eitp_training_get_model(eitp_training *training);
EITP_API const eitp_task *eitp_training_get_task(const eitp_training *training);
EITP_API eitp_trainer *eitp_training_get_trainer(eitp_training *training);

/* Return the configuration of the model, and (eitp_training_get_fit) the run that the planner measured. NULL for
   NULL. */
EITP_API const eitp_transformer_config *eitp_training_get_shape(const eitp_training *training);
/* Returns the latent variable of the model; size 0: it has none. */
EITP_API eitp_latent_config eitp_training_get_latent(const eitp_training *training);
EITP_API const eitp_fit *eitp_training_get_fit(const eitp_training *training);
/* Returns the cost of the chosen configuration compared with unlimited memory, once the training is planned; zeros with
   memory.least. */
EITP_API eitp_fit_price eitp_training_get_price(const eitp_training *training);

/* The source directories of a model. */
typedef struct eitp_training_source {
    const char *checkpoint; /* the one resumed, or the one with the trained model; NULL: a new training */
    const char *weights;    /* initial weights of a training, or base weights of the adapters; NULL: none */
} eitp_training_source;

/* Returns the directories, NULLs for NULL. The strings are valid until the next call with the training. */
EITP_API eitp_training_source eitp_training_get_source(const eitp_training *training);

/* The data of a split, once the training is planned, or opened if the model is trained. */
typedef struct eitp_training_data {
    const char *path;        /* path of the file; NULL: no such split */
    int is_labelled;         /* 1: samples; 0: tokens */
    eitp_token_range tokens; /* of a token file */
    double bytes_per_token;  /* average bytes of text per token; 0: unknown */
    uint64_t samples;        /* set once the training is prepared */
    double trained;          /* for a trained model: the fraction of the file that it was trained on */
} eitp_training_data;

/* Returns the data of a split. Zeros for NULL. */
EITP_API eitp_training_data eitp_training_get_data(const eitp_training *training, eitp_split split);

/* Reads the configuration of a recipe's model and chooses the kind of task, like opening does, but needs no directory
   to write in. With EITP_RESUME_NAMED, the checkpoint is run.checkpoint. `kind` may be NULL. */
EITP_API eitp_status eitp_recipe_read_shape(const eitp_recipe *recipe, eitp_transformer_config *shape,
                                            eitp_task_kind *kind, eitp_error *error);

EITP_END_DECLARATIONS

#endif
