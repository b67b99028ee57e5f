/* An opened recipe, and the stages that open it. */
#ifndef EITP_TRAINING_H
#define EITP_TRAINING_H

#include "base/files.h"
#include "base/log.h"
#include "recipe/input_copy.h"
#include "recipe/recipe_settings.h"

/* One of the two parts of the data. */
typedef struct eitp__data_part {
    const eitp_text_list *paths; /* of the recipe */
    char *path;                  /* of the file: a token file of `paths`, or what they are packed into */
    eitp_sample_file *file;      /* NULL: the part has no file of its own */
    int is_labelled;             /* it has samples; 0: tokens */
    int is_made;                 /* by this opening */
    int is_verified;             /* read through once, and valid */
    eitp_token_range range;      /* of tokens */
    eitp_labelled_part *samples; /* of samples */
    eitp_text_windows windows;   /* of tokens, for masked tokens */
} eitp__data_part;

typedef struct eitp__recipe_task eitp__recipe_task;

/* The kernels that a checkpoint was computed with: room for the name of the set. */
enum { EITP__ISA_SIZE = 32 };

struct eitp_training {
    eitp_host host;
    eitp_recipe recipe; /* with its own texts */
    eitp_run *run;      /* owns the directory */
    int is_resumed;
    eitp_checkpoint_info resumed;
    char read_otherwise[200];     /* settings by which the data are read otherwise than by the resumed run; "": none */
    char *model_directory;        /* of the weights that it starts from; NULL: random ones, or a checkpoint's */
    char *base;                   /* of the weights that the adapters of the checkpoint belong to */
    int is_plan;                  /* it is opened to be planned alone, with random samples */
    char *trained;                /* the checkpoint or model that is only used or evaluated; NULL: this is a training */
    eitp_trained_samples samples; /* of it */
    eitp_split packed_as;         /* what its training data were in the run: eitp__run_split */
    double trained_fraction;      /* of its data */
    int has_own_head;             /* its adapters have a classifier, which the weights lack */
    eitp_transformer_config shape, stored; /* of the model; as its files have it, if it has any */
    eitp_dtype stored_dtype;               /* of most weights there */
    const eitp__recipe_task *kind;
    eitp_tokenizer *tokenizer;         /* NULL: unknown */
    eitp_chat *chat;                   /* NULL unless the data are conversations */
    eitp_latent_config latent;         /* of a model that has an encoder; size 0: it has none */
    char *encoder_directory;           /* of --encoder's weights; NULL: in model_directory, or random */
    eitp_tokenizer *encoder_tokenizer; /* NULL: the encoder reads the tokens of `tokenizer` */
    eitp__data_part parts[2];          /* by eitp_split */
    eitp_text_source read_input;       /* the program's input while it is copied, or `read` is NULL */
    eitp__input_copy input;
    int has_new_tokenizer;    /* one was trained on the text, */
    uint64_t tokenizer_bytes; /* of so many bytes */
    uint64_t kept_tokens;     /* of training data that has grown since the checkpoint; 0: all */
    const char *stage;        /* what is being done */
    int validates;
    int64_t rows;                      /* of a sample, at most */
    int64_t chosen_window;             /* the size of windows that planning has chosen; 0: none */
    int64_t lengths[EITP_FIT_LENGTHS]; /* that planning chooses from, the longest first */
    size_t length_count;               /* 0: the size of windows is set */
    int64_t planned_length;            /* samples are planned as if cut to it; 0: as they are */
    char isa[EITP__ISA_SIZE];
    eitp_fit fit;
    int is_planned, is_prepared, has_begun;
    int discards_data; /* what was packed for a run that was refused is not wanted again */
    eitp_fit_candidate choice;
    eitp_fit_price price; /* of the choice */
    eitp_context *context;
    eitp_model *model;
    eitp_task task;
    eitp_trainer *trainer;
    int64_t prompt_tokens; /* length of the longest sample prompt; 0: no prompts */
    eitp__buffer sampled;  /* what the model wrote at the last evaluation */
};

/* What a kind of task adds to a training. */
struct eitp__recipe_task {
    eitp_task_kind kind;
    const char *name; /* its choice of the setting "task" */
    eitp_head head;
    eitp_problem problem; /* of the labels, if the data does not say; EITP_PROBLEM_UNKNOWN: they have none */
    /* Gives the shape what the task requires of it, such as a head; fails if the model cannot be trained for it. */
    eitp_status (*set_shape)(eitp_training *training, eitp_error *error);
    /* Opens the data and completes the shape. */
    eitp_status (*open)(eitp_training *training, eitp_error *error);
    /* Divides the data; sets `validates` and `rows`. */
    eitp_status (*split)(eitp_training *training, eitp_error *error);
    /* Creates the task of a model, which has no values yet if it is only planned. */
    eitp_status (*create)(eitp_training *training, eitp_model *model, int is_planned, eitp_task *task,
                          eitp_error *error);
};

EITP__PRIVATE const eitp__recipe_task *eitp__language_recipe(void);
EITP__PRIVATE const eitp__recipe_task *eitp__masked_recipe(void);
EITP__PRIVATE const eitp__recipe_task *eitp__classification_recipe(void);
EITP__PRIVATE const eitp__recipe_task *eitp__tokens_recipe(void);
EITP__PRIVATE const eitp__recipe_task *eitp__regression_recipe(void);
EITP__PRIVATE const eitp__recipe_task *eitp__vae_recipe(void);

/* What the data have as labels, from their first row. */
typedef enum eitp__labels_found { EITP__LABELS_NONE, EITP__LABELS_OF_TEXTS, EITP__LABELS_OF_WORDS } eitp__labels_found;
EITP__PRIVATE eitp_status eitp__find_labels(const eitp_training *training, eitp__labels_found *found,
                                            eitp_error *error);

/* Work that is done in stages. */
typedef struct eitp__stage {
    const char *name; /* of what it does, in progress; NULL: it is short */
    eitp_status (*run)(eitp_training *training, eitp_error *error);
} eitp__stage;

/* Runs stages up to the first that fails, or until the program stops the training. */
EITP__PRIVATE eitp_status eitp__run_stages(eitp_training *training, const eitp__stage *stages, size_t count,
                                           eitp_error *error);

/* Reports the current stage. EITP_ERROR_INTERRUPTED if the recipe's progress callback returns nonzero. */
EITP__PRIVATE eitp_status eitp__training_poll(const eitp_training *training, eitp_error *error);

/* The same as a callback of files and contexts, whose user is the training. */
EITP__PRIVATE int eitp__training_is_stopped(void *user);

/* The checkpoint that is resumed, or NULL. */
EITP__PRIVATE const char *eitp__training_checkpoint(const eitp_training *training);

/* Creates a training with a copy of the recipe, of which nothing is opened; destroys what was prepared, in the order of
   its dependencies; and that and what was opened, but not the run. */
EITP__PRIVATE eitp_status eitp__training_create(const eitp_recipe *recipe, eitp_training **training, eitp_error *error);
EITP__PRIVATE void eitp__training_release_prepared(eitp_training *training);
EITP__PRIVATE void eitp__training_release_stages(eitp_training *training);

/* ---- Trained models ---- */

/* Opens a trained model, and with `prepares` also creates what a prepared one has. If a run removes the checkpoint
   meanwhile, all is read anew from the one that has taken its place. */
EITP__PRIVATE eitp_status eitp__trained_read(eitp_training *training, int prepares, eitp_error *error);

/* True if only the part is evaluated that the run was trained on, or has held out. */
EITP__PRIVATE int eitp__trained_divides(const eitp_training *training);

/* Sets the range or the part of the data that is evaluated. */
EITP__PRIVATE eitp_status eitp__trained_select(eitp_training *training, eitp_error *error);

/* ---- Paths ---- */

/* The kind of "directory/name", or of the directory if `name` is NULL. */
EITP__PRIVATE eitp_status eitp__recipe_path_kind(const eitp_host *host, const char *directory, const char *name,
                                                 eitp_path_kind *kind, eitp_error *error);

/* True for a file; false if that cannot be found out. */
EITP__PRIVATE int eitp__recipe_is_file(const eitp_host *host, const char *path);

/* Sets *has to 1 if a tokenizer is in the directory. A model must not lose it because the directory cannot be read. */
EITP__PRIVATE eitp_status eitp__find_tokenizer(const eitp_host *host, const char *directory, int *has,
                                               eitp_error *error);

/* The directory of a model that a path means (eitp_run_find_checkpoint), in a new text. */
EITP__PRIVATE eitp_status eitp__find_directory(const eitp_host *host, const char *path, char **directory,
                                               eitp_error *error);

/* The error of a path that names what a run has removed. */
EITP__PRIVATE eitp_status eitp__fail_removed(const char *directory, eitp_error *error);

/* Calls `read`, which reads from *directory, what `path` means and is found first. If a run that trains there removes
   it meanwhile, finds and reads another one. */
typedef eitp_status (*eitp__directory_reader)(eitp_training *training, void *user, eitp_error *error);
EITP__PRIVATE eitp_status eitp__read_directory(eitp_training *training, const char *path, char **directory,
                                               eitp__directory_reader read, void *user, eitp_error *error);

/* True if eitp_model_recipe.shape is a config.json rather than a name. */
EITP__PRIVATE int eitp__is_shape_file(const eitp_host *host, const char *shape);

/* ---- Model ---- */

/* The kind of task that a model's head is for. */
EITP__PRIVATE const eitp__recipe_task *eitp__task_of_shape(const eitp_transformer_config *shape);

/* Sets shape and latent variable to those of a named shape that has one. Returns 0, and sets nothing, for another. */
EITP__PRIVATE int eitp__take_latent_shape(eitp_training *training, const char *name);

/* Reads the latent variable of the model's directory, or the encoder that the recipe names; and fills in the values of
   the latter, and of the latent variable. */
EITP__PRIVATE eitp_status eitp__training_read_latent(eitp_training *training, eitp_error *error);
EITP__PRIVATE eitp_status eitp__training_fill_latent(eitp_training *training, eitp_error *error);

/* Reads the configuration of the model. */
EITP__PRIVATE eitp_status eitp__training_read_shape(eitp_training *training, eitp_error *error);

/* Chooses the task, if need be by the data, and lets it complete the shape. */
EITP__PRIVATE eitp_status eitp__training_set_shape(eitp_training *training, eitp_error *error);

/* Loads the tokenizer that the recipe names or the model has. */
EITP__PRIVATE eitp_status eitp__training_load_tokenizer(eitp_training *training, eitp_error *error);

/* Creates the tokenizer of bytes, for a training without one; `why` is "", or a clause with a semicolon. */
EITP__PRIVATE eitp_status eitp__training_use_bytes(eitp_training *training, const char *why, eitp_error *error);

/* For a training without a tokenizer: trains one on the text, if weights and vocabulary are new, else creates that of
   bytes. `has_rows`: the data are read as rows. Presumed, it only has its size, at most. */
EITP__PRIVATE int eitp__training_may_make_tokenizer(const eitp_training *training);
EITP__PRIVATE eitp_status eitp__training_make_tokenizer(eitp_training *training, int has_rows, eitp_error *error);
EITP__PRIVATE eitp_status eitp__training_presume_tokenizer(eitp_training *training, int has_rows, eitp_error *error);

/* Removes the tokenizer that a new run has trained, and the copy of the input that it was trained on. */
EITP__PRIVATE void eitp__remove_new_tokenizer(const eitp_training *training);
EITP__PRIVATE void eitp__training_release_input(eitp_training *training);

/* Gives random weights the vocabulary of the tokenizer, or of a token file, which `from` names, unless the recipe has
   one; fails if the model's vocabulary has not all tokens. `file` may be NULL. */
EITP__PRIVATE void eitp__training_set_vocabulary(eitp_training *training, int64_t vocabulary, const char *from);
EITP__PRIVATE void eitp__training_follow_tokenizer(eitp_training *training);
EITP__PRIVATE eitp_status eitp__take_file_vocabulary(eitp_training *training, const char *path, eitp_error *error);
EITP__PRIVATE eitp_status eitp__training_check_tokenizer(const eitp_training *training, const eitp_sample_file *file,
                                                         eitp_error *error);

/* Creates a model of the shape in a context, with adapters and what is frozen; and reads or draws its values. */
EITP__PRIVATE eitp_status eitp__training_create_model(const eitp_training *training, eitp_context *context,
                                                      eitp_model **model, eitp_error *error);
EITP__PRIVATE eitp_status eitp__training_fill_model(eitp_training *training, eitp_error *error);

/* ---- Data ---- */

/* Opens the token file of a part, into which texts are packed first. */
EITP__PRIVATE eitp_status eitp__part_open_tokens(eitp_training *training, eitp_split split, eitp_error *error);

/* How texts become the samples of a labelled file. */
typedef struct eitp__sample_config {
    int64_t max_length;
    eitp_problem problem;      /* EITP_PROBLEM_UNKNOWN: what the labels say */
    const char *const *labels; /* label_count names; NULL: those of the data */
    int64_t label_count;
    int drops_labels;          /* labels are not read */
    int is_bare;               /* without special tokens, */
    const eitp_chat *chat;     /* texts are conversations; NULL: they are not */
    int64_t second_max_length; /* and again in the tokens of the encoder, at most so many; 0: not */
} eitp__sample_config;

/* Opens the labelled file of a part, into which texts are packed first. */
EITP__PRIVATE eitp_status eitp__part_open_samples(eitp_training *training, eitp_split split,
                                                  const eitp__sample_config *config, eitp_error *error);
EITP__PRIVATE eitp_status eitp__training_split_samples(eitp_training *training, eitp_error *error);
EITP__PRIVATE eitp_status eitp__report_overlap(eitp_training *training, eitp_error *error);
EITP__PRIVATE int64_t eitp__training_max_length(const eitp_training *training);

/* Rows are cut to the block size, and that to the model's positions. */
EITP__PRIVATE void eitp__settle_block_size(eitp_training *training);

/* For task vae: gives a random encoder its vocabulary; the tokens of a text, at most, with end-of-text. */
EITP__PRIVATE eitp_status eitp__settle_encoder_vocabulary(eitp_training *training, eitp_error *error);
EITP__PRIVATE int64_t eitp__vae_text_length(const eitp_training *training);

/* The tokens of a sequence where none are asked for: the model's positions, or as many as people train with. */
enum { EITP__LONGEST_USUAL = 2048 };
EITP__PRIVATE int64_t eitp__usual_positions(const eitp_training *training);

/* The tokens of a window of text, by the recipe, at most the model's positions: that is logged. */
EITP__PRIVATE int64_t eitp__training_window_size(const eitp_training *training);

/* How the recipe's texts are read, and how as rows. */
EITP__PRIVATE eitp_text_files_config eitp__part_texts(const eitp_training *training, eitp_split split);
EITP__PRIVATE eitp_table_config eitp__part_table(const eitp_training *training, eitp_split split);

/* Sets *is_token_file to 1 if the part is a token file, which must be its only path. */
EITP__PRIVATE eitp_status eitp__part_is_token_file(const eitp_training *training, eitp_split split, int *is_token_file,
                                                   eitp_error *error);

/* True if texts are rows: of a table, or lines. */
EITP__PRIVATE int eitp__part_has_rows(const eitp_training *training, eitp_split split);

/* The samples of a part, NULL without any; and the tokens of a part. */
EITP__PRIVATE eitp_labelled_source eitp__part_samples(const eitp_training *training, eitp_split split);
EITP__PRIVATE eitp_token_source eitp__part_tokens(const eitp_training *training, eitp_split split);

/* Random tokens and samples as long as those of a training that is only planned, at most. The training must outlive
   them. */
EITP__PRIVATE eitp_token_source eitp__random_tokens(const eitp_training *training, eitp_split split);
EITP__PRIVATE eitp_labelled_source eitp__random_samples(const eitp_training *training, eitp_split split);
EITP__PRIVATE void eitp__training_split_random(eitp_training *training);

EITP__PRIVATE void eitp__part_close(const eitp_host *host, eitp__data_part *part);

/* ---- Conversations ---- */

/* Sets the format of the data to EITP_FORMAT_CHAT if their first row is a conversation, and nothing else is said of
   them. Fails if it is neither that nor a text. */
EITP__PRIVATE eitp_status eitp__find_conversations(eitp_training *training, eitp_error *error);

/* True if the recipe sets anything that is about conversations alone. */
EITP__PRIVATE int eitp__has_chat_setting(const eitp_training *training);

/* Gives the tokenizer the chat template that the recipe names. */
EITP__PRIVATE eitp_status eitp__training_set_chat_template(eitp_training *training, eitp_error *error);

/* How conversations are encoded, and what of that belongs to the fingerprint of their samples. */
EITP__PRIVATE eitp_chat_config eitp__training_chat_config(const eitp_training *training);
EITP__PRIVATE uint64_t eitp__chat_fingerprint(const eitp_training *training, uint64_t hash);

/* Creates what writes conversations with the tokenizer; opens them, and creates their task. */
EITP__PRIVATE eitp_status eitp__open_chat(eitp_training *training, eitp_error *error);
EITP__PRIVATE eitp_status eitp__open_conversations(eitp_training *training, eitp_error *error);
EITP__PRIVATE eitp_status eitp__create_conversations(eitp_training *training, eitp_model *model, eitp_task *task,
                                                     eitp_error *error);

/* ---- Samples of text ---- */

/* Checks the sample prompts, and that the model can continue them. */
EITP__PRIVATE eitp_status eitp__sample_texts_check(eitp_training *training, eitp_error *error);

/* For the planner: a generator, as eitp_fit.create_more. */
EITP__PRIVATE eitp_status eitp__sample_texts_plan(const void *user, const eitp_task *task, size_t *bytes,
                                                  eitp_error *error);

/* Continues the prompts, as eitp_run_config.describe. */
EITP__PRIVATE eitp_status eitp__sample_texts_describe(void *user, const char **text, eitp_error *error);

/* ---- Files of the output directory ---- */

/* Compares the recipe with what the run.json of the checkpoint records. Fails if it differs in what a resumed run
   keeps; if it reads its data otherwise, they are read again. After a failure to read them, the error names it. */
EITP__PRIVATE eitp_status eitp__training_compare_record(eitp_training *training, eitp_error *error);
EITP__PRIVATE eitp_status eitp__training_name_reading(const eitp_training *training, eitp_status status,
                                                      eitp_error *error);

/* Where texts that have this hash are packed into, a new text: "<output directory>/data/<hash>.<ending>". */
EITP__PRIVATE char *eitp__packed_path(const eitp_training *training, uint64_t hash, const char *ending);

/* A hash of how the texts of a part are read, of their names, sizes and times, and of the tokenizer. */
EITP__PRIVATE uint64_t eitp__part_fingerprint(const eitp_training *training, eitp_split split);

/*
 * Sets the path of a part of a resumed run to the file that it was packed into: `expected` while the texts are the
 * same, else another one, with a warning that they have changed. Nothing is set if there is none.
 */
EITP__PRIVATE eitp_status eitp__part_find_packed(eitp_training *training, eitp_split split, int is_labelled,
                                                 const char *expected, eitp_error *error);

/* True if what a part of a resumed run was packed into is there. */
EITP__PRIVATE int eitp__has_packed(const eitp_training *training, eitp_split split, int is_labelled);

/* True if the packed file of a part exists and is whole; logs that it is reused. A damaged one is packed again, and the
   log says why. */
EITP__PRIVATE int eitp__part_is_packed(const eitp_training *training, const eitp__data_part *part);

/* True if "-" is among the paths of a part. It is another text each time: what it was packed into before is that of an
   earlier run, unless a checkpoint knows it. */
EITP__PRIVATE int eitp__part_has_input(const eitp_training *training, eitp_split split);

/* Creates the directory of packed data. */
EITP__PRIVATE eitp_status eitp__make_packed_directory(const eitp_training *training, eitp_error *error);

/* Removes packed data that no longer belongs to the run. */
EITP__PRIVATE void eitp__remove_unused_data(const eitp_training *training);

/* Logs what the training has of the data. */
EITP__PRIVATE void eitp__training_log_data(const eitp_training *training);

/* Adds model, data and configuration to run.json. */
EITP__PRIVATE eitp_status eitp__training_add_info(eitp_training *training, eitp_error *error);

/* ---- Memory ---- */

/* Looks at the data of a training that is only planned, as far as memory depends on them. */
EITP__PRIVATE eitp_status eitp__open_planned(eitp_training *training, eitp_error *error);

/* Divides the data into what is trained on and what is held out, and checks what that allows. */
EITP__PRIVATE eitp_status eitp__training_split(eitp_training *training, eitp_error *error);

/* Plans with sequences of this length from now on: eitp_fit.use_length, whose user is the training. */
EITP__PRIVATE eitp_status eitp__training_use_length(const void *user, int64_t length, eitp_error *error);

/* Describes the run to the planner. */
EITP__PRIVATE eitp_status eitp__training_describe_fit(eitp_training *training, eitp_error *error);

/* Sets learning rate and weight decay: those of the recipe, else the usual ones of the optimizer. */
EITP__PRIVATE void eitp__training_set_rates(const eitp_training *training, eitp_trainer_config *config);

/* The configuration of the run, of which the trainer is known. */
EITP__PRIVATE eitp_run_config eitp__training_run_config(eitp_training *training);

#endif
