/* The options: one table for the command line, --config files, --help and --print-config. */
#ifndef COMMAND_OPTIONS_H
#define COMMAND_OPTIONS_H

#include "command.h"
#include "text.h"

EITP_BEGIN_DECLARATIONS

/* The subcommands, as bits of option_row.commands. */
enum {
    OPTIONS_TRAIN = 1,
    OPTIONS_EVAL = 2,
    OPTIONS_GENERATE = 4,
    OPTIONS_TOKENIZER_TRAIN = 8,
    OPTIONS_TOKENIZER_INSPECT = 16,
    OPTIONS_TOKENIZER_ENCODE = 32,
    OPTIONS_TOKENIZER_DECODE = 64,
    OPTIONS_PACK = 128,
    OPTIONS_BENCH_KERNELS = 256,
    OPTIONS_BENCH_STEP = 512,
    OPTIONS_PLAN = 1024,
    OPTIONS_MERGE = 2048,
    OPTIONS_SET = 4096,
    OPTIONS_PREDICT = 8192,
    OPTIONS_EMBED = 16384,
    OPTIONS_CHECK_SYSTEM = 32768,
    OPTIONS_SAFE_TRAIN = 65536,
    OPTIONS_BENCH_MONITOR = 131072,
    OPTIONS_MONITOR = 262144,
    OPTIONS_REPORT = 524288,
    OPTIONS_DOCTOR = 1048576,
    OPTIONS_LOGS = 2097152,
    OPTIONS_CHAT = 4194304,
    OPTIONS_EXPORT = 8388608,
    OPTIONS_INSPECT = OPTIONS_MONITOR | OPTIONS_REPORT | OPTIONS_DOCTOR | OPTIONS_LOGS, /* commands that look at runs */
    OPTIONS_EVERY = 16777215
};

/* In the order of the table. */
typedef enum option_id {
    OPTION_DATA,
    OPTION_VAL_DATA,
    OPTION_VAL_FRACTION,
    OPTION_SPLIT,
    OPTION_STRICT_UTF8,
    OPTION_DATA_FORMAT,
    OPTION_ENCODING,
    OPTION_TEXT_COLUMN,
    OPTION_PAIR_COLUMN,
    OPTION_LABEL_COLUMN,
    OPTION_WEIGHT_COLUMN,
    OPTION_DELIMITER,
    OPTION_DOCUMENT_SEPARATOR,
    OPTION_ON_BAD_ROW,
    OPTION_DEDUP,
    OPTION_SHUFFLE,
    OPTION_DROP_LAST,
    OPTION_DATA_WORKERS,
    OPTION_PREFETCH,
    OPTION_MODEL,
    OPTION_INIT,
    OPTION_VOCAB_SIZE,
    OPTION_LAYERS,
    OPTION_HEADS,
    OPTION_WIDTH,
    OPTION_POSITIONS,
    OPTION_ENCODER,
    OPTION_LATENT_SIZE,
    OPTION_LATENT_INPUT,
    OPTION_TOKENIZER,
    OPTION_CHAT_TEMPLATE,
    OPTION_CHAT_VALUES,
    OPTION_TRAIN_ON,
    OPTION_SHOW_DATA,
    OPTION_TASK,
    OPTION_LABELS,
    OPTION_MLM_PROBABILITY,
    OPTION_WHOLE_WORDS,
    OPTION_LABEL_SMOOTHING,
    OPTION_CLASS_WEIGHTS,
    OPTION_KL_WEIGHT,
    OPTION_KL_ANNEAL,
    OPTION_KL_ANNEAL_STEPS,
    OPTION_KL_CYCLES,
    OPTION_FREE_BITS,
    OPTION_TARGET_RATE,
    OPTION_WORD_DROPOUT,
    OPTION_IMPORTANCE_SAMPLES,
    OPTION_DROPOUT,
    OPTION_LORA_RANK,
    OPTION_LORA_ALPHA,
    OPTION_LORA_DROPOUT,
    OPTION_LORA_TARGETS,
    OPTION_LORA_MODULES_TO_SAVE,
    OPTION_LORA_RSLORA,
    OPTION_FREEZE,
    OPTION_ADAPTER,
    OPTION_OUTPUT_DIR,
    OPTION_OVERWRITE_OUTPUT_DIR,
    OPTION_RESUME,
    OPTION_STEPS,
    OPTION_EPOCHS,
    OPTION_BATCH_SIZE,
    OPTION_BLOCK_SIZE,
    OPTION_GRAD_ACCUM,
    OPTION_LR,
    OPTION_FINAL_LR,
    OPTION_LR_SCHEDULE,
    OPTION_LR_CYCLES,
    OPTION_PLATEAU_FACTOR,
    OPTION_PLATEAU_PATIENCE,
    OPTION_PLATEAU_THRESHOLD,
    OPTION_PLATEAU_COOLDOWN,
    OPTION_WARMUP_STEPS,
    OPTION_WARMUP_FROM_ZERO,
    OPTION_WARMUP_RATIO,
    OPTION_WEIGHT_DECAY,
    OPTION_BETA1,
    OPTION_BETA2,
    OPTION_EPSILON,
    OPTION_MAX_GRAD_NORM,
    OPTION_OBJECTIVE,
    OPTION_SELF_REPAIR,
    OPTION_SPIKE_THRESHOLD,
    OPTION_SKIP_SPIKES,
    OPTION_MAX_NONFINITE,
    OPTION_CHECK_FINITE,
    OPTION_EVAL,
    OPTION_EVAL_STEPS,
    OPTION_EVAL_EVERY_FRAC,
    OPTION_EVAL_WINDOWS,
    OPTION_EVAL_FRAC,
    OPTION_EMERGENCE,
    OPTION_REFERENCE_MODEL,
    OPTION_SAVE_STRATEGY,
    OPTION_SAVE_STEPS,
    OPTION_SAVE_SECONDS,
    OPTION_ASYNC_SAVE,
    OPTION_SAVE_TOTAL_LIMIT,
    OPTION_SAVE_DTYPE,
    OPTION_POST_SAVE_CMD,
    OPTION_ON_EVENT_CMD,
    OPTION_BACKUP_STEPS,
    OPTION_KEEP_BEST,
    OPTION_PATIENCE,
    OPTION_LOG_EVERY,
    OPTION_REPORT_TO,
    OPTION_LOG_DIR,
    OPTION_LOG_FLUSH_SECONDS,
    OPTION_PRECISION,
    OPTION_TF32,
    OPTION_MICRO_BATCHES_PER_PASS,
    OPTION_DENSE_ROWS,
    OPTION_OPTIMIZER,
    OPTION_RECOMPUTE,
    OPTION_OFFLOAD,
    OPTION_OFFLOAD_FILE,
    OPTION_PROFILE,
    OPTION_PRESETS,
    OPTION_MEMORY_BUDGET,     /* bytes; 0 or not set: the free memory */
    OPTION_GPU_MEMORY_BUDGET, /* bytes; 0 or not set: limited by OPTION_GPU_MEM_MAX */
    OPTION_GPU_MEM_MAX,
    OPTION_PIN_MEMORY,
    OPTION_AUTO_SHRINK,
    OPTION_CPU_MEM_WARN,
    OPTION_CPU_MEM_MAX,
    OPTION_TEMP_MAX,
    OPTION_OOM_SCORE_ADJ,
    OPTION_NICE,
    OPTION_SPARE_CORE,
    OPTION_DEEPSPEED_CONFIG,
    OPTION_PROMPT,
    OPTION_PROMPT_FILE,
    OPTION_RECONSTRUCT,
    OPTION_INTERPOLATE,
    OPTION_TOKENS,
    OPTION_TEMPERATURE,
    OPTION_TOP_K,
    OPTION_TOP_P,
    OPTION_MIN_P,
    OPTION_SYSTEM,
    OPTION_CONTEXT,
    OPTION_SAMPLES,
    OPTION_ECHO,
    OPTION_TEXT,
    OPTION_PAIR,
    OPTION_SPECIAL_TOKENS,
    OPTION_TRUNCATION,
    OPTION_POOLING,
    OPTION_NORMALIZE,
    OPTION_PASS_TOKENS,
    OPTION_WITH_TEXT,
    OPTION_MIN_FREQUENCY,
    OPTION_FAMILY,
    OPTION_OUTPUT,
    OPTION_TYPE,
    OPTION_ADAPTER_ONLY,
    OPTION_MODELFILE,
    OPTION_MAX_RESTARTS,
    OPTION_RESTART_DELAY,
    OPTION_RESTART_ARGS,
    OPTION_STALL_TIMEOUT,
    OPTION_KILL_AFTER,
    OPTION_MEMORY_LIMIT,
    OPTION_BACKGROUND,
    OPTION_PID,
    OPTION_ONCE,
    OPTION_INTERVAL,
    OPTION_UPDATES,
    OPTION_LOG,
    OPTION_ASCII,
    OPTION_MEMORY_WARN,
    OPTION_PROCESSOR_WARN,
    OPTION_BOTTLENECK,
    OPTION_TREND,
    OPTION_PLOT_EVERY,
    OPTION_SMOOTHING,
    OPTION_LOG_SCALE,
    OPTION_X,
    OPTION_FOLLOW,
    OPTION_LAST,
    OPTION_SIZES,
    OPTION_COLUMNS,
    OPTION_SORT,
    OPTION_SIDE_BY_SIDE,
    OPTION_CSV,
    OPTION_FILTER,
    OPTION_SECONDS,
    OPTION_COMPARE,
    OPTION_SWEEP,
    OPTION_MATRIX,
    OPTION_MONITOR,
    OPTION_WITH_MONITOR, /* safe-train --monitor */
    OPTION_LOG_FULL_EVERY,
    OPTION_SPOT_SAMPLES,
    OPTION_METRICS_EVERY,
    OPTION_METRICS,
    OPTION_SEED,
    OPTION_DEVICE,
    OPTION_THREADS,
    OPTION_CONFIG,
    OPTION_PRINT_CONFIG,
    OPTION_JSON,
    OPTION_QUIET,
    OPTION_VERBOSE,
    OPTION_HELP,
    OPTION_COUNT,                        /* options with a row in the table */
    OPTION_CAPACITY = OPTION_COUNT + 192 /* and settings without a row */
} option_id;

/* Source of a value; later ones override earlier ones. From SOURCE_SUGGESTION on, the value was given to this
   command. */
typedef enum option_source {
    SOURCE_NONE,
    SOURCE_DEFAULT,
    SOURCE_PROFILE,    /* --profile */
    SOURCE_RUN,        /* run.json of the resumed run */
    SOURCE_CHECKPOINT, /* the resumed checkpoint */
    /* A flag that only suggests a value: fp16 turned off in --config means fp32, load_best_model_at_end means keep-best
       loss, unless something else sets the option. */
    SOURCE_SUGGESTION,
    SOURCE_CONFIG,
    SOURCE_ENVIRONMENT,
    SOURCE_COMMAND_LINE_WEAK,
    SOURCE_COMMAND_LINE
} option_source;

typedef struct option_value {
    option_source source;
    char **texts; /* the values of a list; otherwise one, as written */
    size_t count;
    int64_t integer; /* also 0 or 1 for a flag, and bytes for a size */
    double number;
    char name[40];   /* as written on the command line: "fp16" for precision */
    char choice[40]; /* first spelling of a choice or a flag, regardless of the one used */
    char place[200]; /* "file:line" of a configuration file, a variable of the environment, "profile safe" */
} option_value;

typedef struct option_set {
    const char *name;     /* of the subcommand: "train", "tokenizer encode", ... */
    unsigned command;     /* its bit */
    option_value *values; /* OPTION_CAPACITY; on the heap, since they would overflow a small stack */
    char **positional;    /* positional arguments, in order */
    size_t positional_count;
    int has_deepspeed;              /* a file has values of a DeepSpeed configuration */
    int has_record;                 /* a file is the run.json of a run, which also has values that the user never set */
    int64_t step_sequences;         /* batch-size x grad-accum, from its train_batch_size; 0: not set */
    char step_sequences_place[400]; /* "file:line: " */
} option_set;

/* Creates an empty set for a subcommand. Release it. */
void options_create(option_set *o, const char *name, unsigned command);

/*
 * Creates a set from the command line, the environment, the files of --config and --deepspeed-config, and the defaults;
 * -q and -v take effect. *ended is 1 if --help was printed. Release the set in any case.
 */
eitp_status options_read(option_set *o, const char *name, unsigned command, int count, char **arguments, int *ended,
                         eitp_error *error);
void options_release(option_set *o);

/*
 * Sets an option unless it has a value from a stronger source; lists collect the values of one source. `where` starts
 * messages: "--", or the place of the value and ": ".
 */
eitp_status options_set(option_set *o, option_id id, const char *value, option_source source, const char *where,
                        eitp_error *error);

/* Like options_set, for a value known to be valid, such as a default that depends on other options. */
void options_set_integer(option_set *o, option_id id, int64_t value, option_source source);
void options_set_number(option_set *o, option_id id, double value, option_source source);
void options_set_text(option_set *o, option_id id, const char *value, option_source source);

/* True if two values of an option are equivalent. */
int options_same_value(const option_value *a, const option_value *b);

/* Sets an option from an argument "--name=value"; overrides the command line. */
eitp_status options_replace(option_set *o, const char *argument, eitp_error *error);

/* Forgets an option's value. */
void options_clear(option_set *o, option_id id);

int options_has(const option_set *o, option_id id);
int options_is_explicit(const option_set *o, option_id id); /* it was given to this command */
int options_is_in_force(const option_set *o, option_id id); /* it has a value other than 0 or false */
/* True if the user set the option to something effective. False for a flag that a file sets to false, and for values of
   a run.json, which has all of them. */
int options_is_requested(const option_set *o, option_id id);
eitp_status options_require(const option_set *o, option_id id, eitp_error *error); /* fails if it is not explicit */
int64_t options_integer(const option_set *o, option_id id);
double options_number(const option_set *o, option_id id);
const char *options_text(const option_set *o, option_id id); /* NULL: it has no value */
const char *options_name(option_id id);

/* Writes ", from profile tiny" for messages that quote a value, or "" if the value is from the command line. */
const char *options_origin(const option_set *o, option_id id, char *text, size_t size);

/* Returns the option of a setting, or OPTION_CAPACITY. */
option_id options_setting(const eitp_setting *setting);

/* Sets the settings of a group, such as "trainer", from the options that have values; NULL: of all groups. */
eitp_status options_to_recipe(const option_set *o, const char *group, eitp_recipe *recipe, eitp_error *error);

/* Like options_to_recipe, for the settings of a trainer only. */
eitp_status options_to_config(const option_set *o, eitp_trainer_config *config, eitp_error *error);

/* Returns the index of a choice's value in the table's list. */
int options_choice(const option_set *o, option_id id);

/*
 * Reads a file of options: YAML if its name ends in .yaml or .yml, otherwise JSON. The innermost member names the
 * option; enclosing objects only group, except where options/foreign_names.c has an entry for the section. The member
 * "run" is skipped. With SOURCE_RUN only options that belong to the run are read, and unknown ones are skipped.
 * `section`, such as "deepspeed", encloses all members; NULL: none.
 */
eitp_status options_read_config(option_set *o, const char *path, const char *section, option_source source,
                                eitp_error *error);

/*
 * Fails if two options of the same source exclude each other, such as --eval no and --eval-steps 5. If the sources
 * differ, the weaker one loses its value. Then sets derived options, such as --eval from --eval-every-frac.
 */
eitp_status options_reconcile(option_set *o, eitp_error *error);

/* Writes the options that have values as members of a JSON object, for options_read_config. */
void options_write(const option_set *o, text_buffer *t);

/* Prints every option with its value and source, for --print-config. */
void options_print(const option_set *o, int json);

void options_print_help(const char *name, unsigned command);

EITP_END_DECLARATIONS

#endif
