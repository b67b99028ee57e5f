/* An opened recipe, and the stages that open it. */
#ifndef EITP_TRAINING_H
#define EITP_TRAINING_H

#include "base/files.h"
#include "base/log.h"
#include "recipe/input_copy.h"
#include "recipe/recipe_settings.h"

/* One of the two parts of the data. */
typedef struct eitp__data_part {
    const eitp_text_list *paths; /* from the recipe */
    char *path;                  /* of the file: a token file of `paths`, or their packed data */
    eitp_sample_file *file;      /* NULL: the part does not have a separate file */
    int is_labelled;             /* 1: samples; 0: tokens */
    int is_made;                 /* created by this opening */
    int is_verified;             /* read completely once, and valid */
    eitp_token_range range;      /* for tokens */
    eitp_labelled_part *samples; /* for samples */
    eitp_text_windows windows;   /* for masked-token tasks on tokens */
} eitp__data_part;

typedef struct eitp__recipe_task eitp__recipe_task;

/* The kernels that a checkpoint was computed with: size of the name of the set. */
enum { EITP__ISA_SIZE = 32 };

struct eitp_training {
    eitp_host host;
    eitp_recipe recipe;          /* with its own strings */
    eitp_task_kind task_setting; /* of the recipe; recipe.task.kind becomes the task that was inferred */
    eitp_run *run;               /* owns the directory */
    int is_resumed;
    eitp_checkpoint_info resumed;
    char changed_reading[200];    /* settings that change how the data are read compared with the resumed run; "":
                                     none */
    char *model_directory;        /* initial weights; NULL: random ones, or a checkpoint's */
    char *base;                   /* base weights of the adapters in the checkpoint */
    int is_plan;                  /* opened only for planning, with random samples */
    char *trained;                /* the checkpoint or model to use or evaluate; NULL: this is a training */
    eitp_trained_samples samples; /* for a trained model */
    eitp_split packed_as;         /* role of its training data in the run: see eitp__run_split */
    double trained_fraction;      /* of its data */
    int has_own_head;             /* its adapters include a classifier, which the base weights lack */
    eitp_transformer_config shape, stored; /* of the model; and as stored in its files, if it has any */
    eitp_dtype stored_dtype;               /* of most of the stored weights */
    const eitp__recipe_task *kind;
    eitp_tokenizer *tokenizer;         /* NULL: unknown */
    eitp_chat *chat;                   /* NULL unless the data are conversations */
    eitp_latent_config latent;         /* for a model with an encoder; size 0: none */
    char *encoder_directory;           /* weights given by `encoder`; NULL: in model_directory, or random */
    eitp_tokenizer *encoder_tokenizer; /* NULL: the encoder reads the tokens of `tokenizer` */
    eitp__data_part parts[2];          /* indexed by eitp_split */
    eitp_text_source read_input;       /* the program's input while it is being copied, else `read` is NULL */
    eitp__input_copy input;
    int has_new_tokenizer;    /* a tokenizer was trained on the text */
    uint64_t tokenizer_bytes; /* size of that text */
    uint64_t kept_tokens;     /* tokens in use of training data that has grown since the checkpoint; 0: all */
    const char *stage;        /* current activity */
    int validates;
    int64_t rows;                      /* maximum tokens of a sample */
    int64_t chosen_window;             /* window size chosen by planning; 0: none */
    int64_t lengths[EITP_FIT_LENGTHS]; /* candidates for planning, longest first */
    size_t length_count;               /* 0: the window size is fixed */
    int64_t planned_length;            /* samples are planned as if cut to this length; 0: uncut */
    char isa[EITP__ISA_SIZE];
    eitp_fit fit;
    int is_planned, is_prepared, has_begun;
    int discards_data; /* packed data of a run that was refused are discarded */
    eitp_fit_candidate choice;
    eitp_fit_price price; /* cost of the chosen configuration */
    eitp_context *context;
    eitp_model *model;
    eitp_task task;
    eitp_trainer *trainer;
    int64_t prompt_tokens; /* length of the longest sample prompt; 0: no prompts */
    eitp__buffer sampled;  /* text generated at the last evaluation */
};

/* The functions of a kind of task. */
struct eitp__recipe_task {
    eitp_task_kind kind;
    const char *name; /* value of the setting "task" */
    eitp_head head;
    eitp_problem problem; /* of the labels, if the data do not determine it; EITP_PROBLEM_UNKNOWN: no labels */
    /* Sets the parts of the shape that the task requires, such as a head. Fails if the model cannot be trained for
       it. */
    eitp_status (*set_shape)(eitp_training *training, eitp_error *error);
    /* Opens the data and completes the shape. */
    eitp_status (*open)(eitp_training *training, eitp_error *error);
    /* Splits the data; sets `validates` and `rows`. */
    eitp_status (*split)(eitp_training *training, eitp_error *error);
    /* Creates the task of a model. If it is only planned, the model has no values yet. */
    eitp_status (*create)(eitp_training *training, eitp_model *model, int is_planned, eitp_task *task,
                          eitp_error *error);
};

EITP__PRIVATE const eitp__recipe_task *eitp__language_recipe(void);
EITP__PRIVATE const eitp__recipe_task *eitp__masked_recipe(void);
EITP__PRIVATE const eitp__recipe_task *eitp__classification_recipe(void);
EITP__PRIVATE const eitp__recipe_task *eitp__tokens_recipe(void);
EITP__PRIVATE const eitp__recipe_task *eitp__regression_recipe(void);
EITP__PRIVATE const eitp__recipe_task *eitp__vae_recipe(void);

/* Labels found in the first row of the data. */
typedef enum eitp__labels_found { EITP__LABELS_NONE, EITP__LABELS_OF_TEXTS, EITP__LABELS_OF_WORDS } eitp__labels_found;
EITP__PRIVATE eitp_status eitp__find_labels(const eitp_training *training, eitp__labels_found *found,
                                            eitp_error *error);

/* A stage of the work. */
typedef struct eitp__stage {
    const char *name; /* name of the stage, as shown in progress; NULL: it is short */
    eitp_status (*run)(eitp_training *training, eitp_error *error);
} eitp__stage;

/* Runs stages until one fails or the program stops the training. */
EITP__PRIVATE eitp_status eitp__run_stages(eitp_training *training, const eitp__stage *stages, size_t count,
                                           eitp_error *error);

/* Reports the current stage. EITP_ERROR_INTERRUPTED if the recipe's progress callback returns nonzero. */
EITP__PRIVATE eitp_status eitp__training_poll(const eitp_training *training, eitp_error *error);

/* eitp__training_poll as a callback of files and contexts, whose user is the training. */
EITP__PRIVATE int eitp__training_is_stopped(void *user);

/* Returns the checkpoint that is resumed, or NULL. */
EITP__PRIVATE const char *eitp__training_checkpoint(const eitp_training *training);

/* The first creates a training with a copy of the recipe and opens nothing. The second destroys everything prepared, in
   the order of its dependencies. The third also destroys everything opened except the run. */
EITP__PRIVATE eitp_status eitp__training_create(const eitp_recipe *recipe, eitp_training **training, eitp_error *error);
EITP__PRIVATE void eitp__training_release_prepared(eitp_training *training);
EITP__PRIVATE void eitp__training_release_stages(eitp_training *training);

/* ---- Trained models ---- */

/* Opens a trained model, and with `prepares` also creates the objects of a prepared one. If a run removes the
   checkpoint in the meantime, reads everything again from its successor. */
EITP__PRIVATE eitp_status eitp__trained_read(eitp_training *training, int prepares, eitp_error *error);

/* True if only the part that the run was trained on, or has held out, is evaluated. */
EITP__PRIVATE int eitp__trained_divides(const eitp_training *training);

/* Sets the range or the part of the data to evaluate. */
EITP__PRIVATE eitp_status eitp__trained_select(eitp_training *training, eitp_error *error);

/* ---- Paths ---- */

/* Finds the kind of "directory/name", or of the directory if `name` is NULL. */
EITP__PRIVATE eitp_status eitp__recipe_path_kind(const eitp_host *host, const char *directory, const char *name,
                                                 eitp_path_kind *kind, eitp_error *error);

/* True for a file; false if that cannot be determined. */
EITP__PRIVATE int eitp__recipe_is_file(const eitp_host *host, const char *path);

/* Sets *has to 1 if the directory contains a tokenizer. Fails if it cannot be read, so that a model does not lose its
   tokenizer. */
EITP__PRIVATE eitp_status eitp__find_tokenizer(const eitp_host *host, const char *directory, int *has,
                                               eitp_error *error);

/* Finds the model directory that a path refers to (eitp_run_find_checkpoint). *directory is a new string. */
EITP__PRIVATE eitp_status eitp__find_directory(const eitp_host *host, const char *path, char **directory,
                                               eitp_error *error);

/* Fails because a path names a checkpoint that a run has removed. */
EITP__PRIVATE eitp_status eitp__fail_removed(const char *directory, eitp_error *error);

/* Finds the directory that `path` refers to and calls `read`, which reads from *directory. If a run that trains there
   removes it in the meantime, finds and reads another one. */
typedef eitp_status (*eitp__directory_reader)(eitp_training *training, void *user, eitp_error *error);
EITP__PRIVATE eitp_status eitp__read_directory(eitp_training *training, const char *path, char **directory,
                                               eitp__directory_reader read, void *user, eitp_error *error);

/* True if eitp_model_recipe.shape is a config.json rather than a name. */
EITP__PRIVATE int eitp__is_shape_file(const eitp_host *host, const char *shape);

/* ---- Model ---- */

/* Returns the kind of task that a model's head is for. */
EITP__PRIVATE const eitp__recipe_task *eitp__task_of_shape(const eitp_transformer_config *shape);

/* Sets shape and latent variable from a named shape that has one. Returns 0, and sets nothing, for any other name. */
EITP__PRIVATE int eitp__take_latent_shape(eitp_training *training, const char *name);

/* Reads the latent variable of the model's directory, or the encoder that the recipe names. The second function fills
   in the values of the encoder and of the latent variable. */
EITP__PRIVATE eitp_status eitp__training_read_latent(eitp_training *training, eitp_error *error);
EITP__PRIVATE eitp_status eitp__training_fill_latent(eitp_training *training, eitp_error *error);

/* Reads the configuration of the model. */
EITP__PRIVATE eitp_status eitp__training_read_shape(eitp_training *training, eitp_error *error);

/* Chooses the task, if necessary from the data, and lets it complete the shape. */
EITP__PRIVATE eitp_status eitp__training_set_shape(eitp_training *training, eitp_error *error);

/* Loads the tokenizer named by the recipe, or the model's. */
EITP__PRIVATE eitp_status eitp__training_load_tokenizer(eitp_training *training, eitp_error *error);

/* Creates the tokenizer of bytes, for a training without a tokenizer. `why` is "", or a clause with a semicolon. */
EITP__PRIVATE eitp_status eitp__training_use_bytes(eitp_training *training, const char *why, eitp_error *error);

/* For a training without a tokenizer: trains one on the text if weights and vocabulary are new, else creates the
   tokenizer of bytes. `has_rows`: the data are read as rows. The presumed tokenizer only has the maximum size. */
EITP__PRIVATE int eitp__training_may_make_tokenizer(const eitp_training *training);
EITP__PRIVATE eitp_status eitp__training_make_tokenizer(eitp_training *training, int has_rows, eitp_error *error);
EITP__PRIVATE eitp_status eitp__training_presume_tokenizer(eitp_training *training, int has_rows, eitp_error *error);

/* Remove the tokenizer that a new run has trained, and the copy of the input that it was trained on. */
EITP__PRIVATE void eitp__remove_new_tokenizer(const eitp_training *training);
EITP__PRIVATE void eitp__training_release_input(eitp_training *training);

/* Give random weights the vocabulary of the tokenizer, or of a token file, which `from` names, unless the recipe has
   one. The last function fails if the model's vocabulary lacks tokens; `file` may be NULL. */
EITP__PRIVATE void eitp__training_set_vocabulary(eitp_training *training, int64_t vocabulary, const char *from);
EITP__PRIVATE void eitp__training_follow_tokenizer(eitp_training *training);
EITP__PRIVATE eitp_status eitp__take_file_vocabulary(eitp_training *training, const char *path, eitp_error *error);
EITP__PRIVATE eitp_status eitp__training_check_tokenizer(const eitp_training *training, const eitp_sample_file *file,
                                                         eitp_error *error);

/* Create a model of the shape in a context, with adapters and frozen parameters, and read or initialize its values. */
EITP__PRIVATE eitp_status eitp__training_create_model(const eitp_training *training, eitp_context *context,
                                                      eitp_model **model, eitp_error *error);
EITP__PRIVATE eitp_status eitp__training_fill_model(eitp_training *training, eitp_error *error);

/* ---- Data ---- */

/* Opens the token file of a part. Text is packed first. */
EITP__PRIVATE eitp_status eitp__part_open_tokens(eitp_training *training, eitp_split split, eitp_error *error);

/* Conversion of text to the samples of a labelled file. */
typedef struct eitp__sample_config {
    int64_t max_length;
    eitp_problem problem;      /* EITP_PROBLEM_UNKNOWN: inferred from the labels */
    const char *const *labels; /* label_count names; NULL: taken from the data */
    int64_t label_count;
    int drops_labels;          /* labels are not read */
    int is_bare;               /* without special tokens */
    const eitp_chat *chat;     /* for conversations; else NULL */
    int64_t second_max_length; /* maximum length of a second encoding, with the tokenizer of the encoder; 0: none */
} eitp__sample_config;

/* Opens the labelled file of a part. Text is packed first. */
EITP__PRIVATE eitp_status eitp__part_open_samples(eitp_training *training, eitp_split split,
                                                  const eitp__sample_config *config, eitp_error *error);
EITP__PRIVATE eitp_status eitp__training_split_samples(eitp_training *training, eitp_error *error);
EITP__PRIVATE eitp_status eitp__report_overlap(eitp_training *training, eitp_error *error);
EITP__PRIVATE int64_t eitp__training_max_length(const eitp_training *training);

/* Limits the block size, to which rows are cut, to the model's positions. */
EITP__PRIVATE void eitp__settle_block_size(eitp_training *training);

/* For task vae. The first gives a random encoder its vocabulary. The second returns the maximum length of a sample in
   tokens, with end-of-text. */
EITP__PRIVATE eitp_status eitp__settle_encoder_vocabulary(eitp_training *training, eitp_error *error);
EITP__PRIVATE int64_t eitp__vae_text_length(const eitp_training *training);

/* Default maximum length of a sequence in tokens: the model's positions, or a length that is commonly trained with. */
enum { EITP__LONGEST_USUAL = 2048 };
EITP__PRIVATE int64_t eitp__usual_positions(const eitp_training *training);

/* Returns the tokens per window of text according to the recipe, at most the model's positions. Logs a reduction. */
EITP__PRIVATE int64_t eitp__training_window_size(const eitp_training *training);

/* Return how the recipe's files are read, as text and as rows. */
EITP__PRIVATE eitp_text_files_config eitp__part_texts(const eitp_training *training, eitp_split split);
EITP__PRIVATE eitp_table_config eitp__part_table(const eitp_training *training, eitp_split split);

/* Sets *is_token_file to 1 if the part is a token file, which must be its only path. */
EITP__PRIVATE eitp_status eitp__part_is_token_file(const eitp_training *training, eitp_split split, int *is_token_file,
                                                   eitp_error *error);

/* True if the text is in rows: of a table, or lines. */
EITP__PRIVATE int eitp__part_has_rows(const eitp_training *training, eitp_split split);

/* Return the samples of a part, NULL if it has none, and the tokens of a part. */
EITP__PRIVATE eitp_labelled_source eitp__part_samples(const eitp_training *training, eitp_split split);
EITP__PRIVATE eitp_token_source eitp__part_tokens(const eitp_training *training, eitp_split split);

/* Random tokens and samples of the maximum length, for a training that is only planned. The training must outlive
   them. */
EITP__PRIVATE eitp_token_source eitp__random_tokens(const eitp_training *training, eitp_split split);
EITP__PRIVATE eitp_labelled_source eitp__random_samples(const eitp_training *training, eitp_split split);
EITP__PRIVATE void eitp__training_split_random(eitp_training *training);

EITP__PRIVATE void eitp__part_close(const eitp_host *host, eitp__data_part *part);

/* ---- Conversations ---- */

/* Sets the format of the data to EITP_FORMAT_CHAT if their first row is a conversation and no setting contradicts it.
   Fails if the row is neither a conversation nor text. */
EITP__PRIVATE eitp_status eitp__find_conversations(eitp_training *training, eitp_error *error);

/* True if the recipe has a setting that applies to conversations only. */
EITP__PRIVATE int eitp__has_chat_setting(const eitp_training *training);

/* Gives the tokenizer the chat template that the recipe names. */
EITP__PRIVATE eitp_status eitp__training_set_chat_template(eitp_training *training, eitp_error *error);

/* Return the encoding of conversations, and the hash of the part of it that affects their samples. */
EITP__PRIVATE eitp_chat_config eitp__training_chat_config(const eitp_training *training);
EITP__PRIVATE uint64_t eitp__chat_fingerprint(const eitp_training *training, uint64_t hash);

/* Create the writer of conversations with the tokenizer, open the conversations, and create their task. */
EITP__PRIVATE eitp_status eitp__open_chat(eitp_training *training, eitp_error *error);
EITP__PRIVATE eitp_status eitp__open_conversations(eitp_training *training, eitp_error *error);
EITP__PRIVATE eitp_status eitp__create_conversations(eitp_training *training, eitp_model *model, eitp_task *task,
                                                     eitp_error *error);

/* ---- Generated samples ---- */

/* Checks the sample prompts, and that the model can continue them. */
EITP__PRIVATE eitp_status eitp__sample_texts_check(eitp_training *training, eitp_error *error);

/* For the planner: measures a generator (eitp_fit.create_more). */
EITP__PRIVATE eitp_status eitp__sample_texts_plan(const void *user, const eitp_task *task, size_t *bytes,
                                                  eitp_error *error);

/* Continues the prompts (eitp_run_config.describe). */
EITP__PRIVATE eitp_status eitp__sample_texts_describe(void *user, const char **text, eitp_error *error);

/* ---- Files of the output directory ---- */

/* Compares the recipe with the run.json of the checkpoint. Fails if they differ in a setting that a resumed run keeps.
   If they differ in how the data are read, the data are read again; the second function adds that to the error of a
   failed read. */
EITP__PRIVATE eitp_status eitp__training_compare_record(eitp_training *training, eitp_error *error);
EITP__PRIVATE eitp_status eitp__training_name_reading(const eitp_training *training, eitp_status status,
                                                      eitp_error *error);

/* Returns the path of packed data with this hash as a new string: "<output directory>/data/<hash>.<ending>". */
EITP__PRIVATE char *eitp__packed_path(const eitp_training *training, uint64_t hash, const char *ending);

/* Returns a hash of how the files of a part are read, of their names, sizes and times, and of the tokenizer. */
EITP__PRIVATE uint64_t eitp__part_fingerprint(const eitp_training *training, eitp_split split);

/*
 * Sets the path of a part of a resumed run to its packed file: `expected` while the source files are unchanged, else
 * another one, with a warning that they have changed. Otherwise sets nothing.
 */
EITP__PRIVATE eitp_status eitp__part_find_packed(eitp_training *training, eitp_split split, int is_labelled,
                                                 const char *expected, eitp_error *error);

/* True if the packed file of a part of a resumed run exists. */
EITP__PRIVATE int eitp__has_packed(const eitp_training *training, eitp_split split, int is_labelled);

/* True if the packed file of a part exists and is undamaged; logs that it is reused. A damaged one is packed again, and
   the reason is logged. */
EITP__PRIVATE int eitp__part_is_packed(const eitp_training *training, const eitp__data_part *part);

/* True if "-" is among the paths of a part. Its content differs each time, so packed data belongs to an earlier run
   unless a checkpoint refers to it. */
EITP__PRIVATE int eitp__part_has_input(const eitp_training *training, eitp_split split);

/* Creates the directory of packed data. */
EITP__PRIVATE eitp_status eitp__make_packed_directory(const eitp_training *training, eitp_error *error);

/* Removes packed data that no longer belongs to the run. */
EITP__PRIVATE void eitp__remove_unused_data(const eitp_training *training);

/* Logs a summary of the data. */
EITP__PRIVATE void eitp__training_log_data(const eitp_training *training);

/* Adds model, data and configuration to run.json. */
EITP__PRIVATE eitp_status eitp__training_add_info(eitp_training *training, eitp_error *error);

/* ---- Memory ---- */

/* Inspects the data of a training that is only planned, as far as memory depends on them. */
EITP__PRIVATE eitp_status eitp__open_planned(eitp_training *training, eitp_error *error);

/* Splits the data into a training and a held-out part, and checks the settings that depend on it. */
EITP__PRIVATE eitp_status eitp__training_split(eitp_training *training, eitp_error *error);

/* Plans with sequences of this length from now on (eitp_fit.use_length). `user` is the training. */
EITP__PRIVATE eitp_status eitp__training_use_length(const void *user, int64_t length, eitp_error *error);

/* Describes the run to the planner. */
EITP__PRIVATE eitp_status eitp__training_describe_fit(eitp_training *training, eitp_error *error);

/* Sets learning rate and weight decay from the recipe, or to the defaults of the optimizer. */
EITP__PRIVATE void eitp__training_set_rates(const eitp_training *training, eitp_trainer_config *config);

/* Returns the configuration of the run, once the trainer is known. */
EITP__PRIVATE eitp_run_config eitp__training_run_config(eitp_training *training);

#endif
