#include "command_options.h"

#include "command_config.h"
#include "command_json.h"
#include "command_output.h"
#include "command_yaml.h"

typedef enum option_kind {
    KIND_FLAG,
    KIND_INTEGER,
    KIND_NUMBER,
    KIND_SIZE, /* bytes, read by parse_size */
    KIND_TEXT,
    KIND_LIST,
    KIND_CHOICE, /* `words` are the choices, those after a "=" other spellings of the one before */
    KIND_SETTING /* of the trainer: kind, bounds, choices and help are the library's */
} option_kind;

/* An option as the command has it. Of a setting it says what the library does not. */
typedef struct option_row {
    const char *name;
    const char
        *aliases; /* "name name=value ...": one with a value is a flag that stands for the option with that value */
    option_kind kind;
    double low, high;
    const char *fallback; /* the default, NULL: none, or one that depends, as DEPENDS; of a setting the library's */
    const char *words;    /* choices, of a setting their other spellings; else the name of the argument in --help */
    unsigned commands;
    int of_run;       /* recorded in run.json and taken from there on resume */
    const char *help; /* of a setting what is added to the library's */
} option_row;

/* The default of a setting that has none until other options are known. */
#define DEPENDS ""
#define LARGEST 9007199254740992.0 /* 2^53: integers up to here are exact as double */
#define PACKS (OPTIONS_TRAIN | OPTIONS_EVAL | OPTIONS_PACK)
#define READS (OPTIONS_TRAIN | OPTIONS_EVAL | OPTIONS_PACK | OPTIONS_TOKENIZER_TRAIN | OPTIONS_TOKENIZER_ENCODE)
#define FITS (OPTIONS_TRAIN | OPTIONS_PLAN)
#define RUNS (OPTIONS_TRAIN | OPTIONS_EVAL | OPTIONS_GENERATE)
#define BENCHES (OPTIONS_BENCH_KERNELS | OPTIONS_BENCH_STEP)
#define WITH_TOKENIZER (OPTIONS_EVERY & ~(unsigned)(OPTIONS_TOKENIZER_TRAIN | OPTIONS_PLAN | BENCHES))

static const option_row rows[] = {
    {"data", "train-data train-file data-path dataset", KIND_LIST, 0, 0, NULL, "PATH", READS, 1,
     "text files, directories of them, or one token file; may be repeated"},
    {"val-data", "validation-data validation-file eval-data", KIND_LIST, 0, 0, NULL, "PATH", OPTIONS_TRAIN, 1,
     "data for validation, instead of a part of --data"},
    {"val-fraction", "validation-fraction val-split", KIND_NUMBER, 0, 0.9, "0.1", "F", OPTIONS_TRAIN, 1,
     "part of the data kept for validation, from its end"},
    {"strict-utf8", "", KIND_FLAG, 0, 1, "0", "", PACKS, 1, "refuse text that is not UTF-8 instead of replacing it"},
    {"shuffle", "", KIND_SETTING, 0, 0, NULL, "none=false=0 windows=true=1", OPTIONS_TRAIN, 1, ""},
    {"model", "model-name model-name-or-path model-path", KIND_TEXT, 0, 0, NULL, "DIR",
     RUNS | OPTIONS_PLAN | OPTIONS_BENCH_STEP | OPTIONS_MERGE, 1,
     "model directory, or output directory (its newest checkpoint); bench: also as --init (default: gpt2)"},
    {"init", "init-model model-shape", KIND_TEXT, 0, 0, NULL, "NAME", FITS, 1,
     "random weights of gpt2, gpt2-medium, gpt2-large, gpt2-xl, distilgpt2, tiny, or a config.json"},
    {"vocab-size", "vocabulary-size", KIND_INTEGER, 1, 1 << 24, NULL, "N", FITS | OPTIONS_TOKENIZER_TRAIN, 1,
     "tokens of the vocabulary (default: the shape's; tokenizer train: 50257)"},
    {"tokenizer", "tokenizer-name tokenizer-path", KIND_TEXT, 0, 0, NULL, "DIR", WITH_TOKENIZER, 1,
     "tokenizer.json, or its directory (default: the model's; else bytes)"},
    {"dropout", "", KIND_NUMBER, 0, 0.999, NULL, "P", FITS | OPTIONS_BENCH_STEP, 1,
     "all three dropout probabilities (default: the configuration's; bench: 0)"},
    {"lora-rank", "lora-r", KIND_INTEGER, 0, 65536, "0", "R", FITS, 1,
     "train adapters of this rank (LoRA) instead of the model; 0: the model"},
    {"lora-alpha", "", KIND_NUMBER, 1e-9, 1e9, NULL, "A", FITS, 1,
     "what adapters add is scaled by A / R (default: twice the rank)"},
    {"lora-dropout", "", KIND_NUMBER, 0, 0.999, "0", "P", FITS, 1, "dropout of what goes into adapters"},
    {"lora-targets", "lora-target-modules target-modules", KIND_TEXT, 0, 0, "c_attn", "NAMES", FITS, 1,
     "layers that get adapters, as c_attn,c_proj,c_fc or all-linear"},
    {"lora-rslora", "use-rslora", KIND_FLAG, 0, 1, "0", "", FITS, 1, "scale by A / sqrt(R) instead"},
    {"freeze", "", KIND_TEXT, 0, 0, NULL, "PARTS", FITS, 1,
     "do not train these: embeddings, layers:N (the first N), names with * for any text; as embeddings,layers:6"},
    {"adapter", "adapter-path lora-adapter", KIND_TEXT, 0, 0, NULL, "DIR",
     OPTIONS_EVAL | OPTIONS_GENERATE | OPTIONS_MERGE, 0,
     "adapters for the model, eitp's or PEFT's: their directory, or an output directory (its newest checkpoint)"},
    {"output-dir", "", KIND_TEXT, 0, 0, "eitp_results", "DIR", OPTIONS_TRAIN | OPTIONS_MERGE, 0,
     "checkpoints, metrics.jsonl, run.json and packed data; merge: the model, to be given"},
    {"resume", "resume-from-checkpoint auto-resume=auto", KIND_TEXT, 0, 0, NULL, "DIR|auto", OPTIONS_TRAIN, 0,
     "go on from a checkpoint; auto: from the newest in the output directory"},
    {"steps", "max-steps num-steps train-steps", KIND_INTEGER, 1, LARGEST, NULL, "N",
     OPTIONS_TRAIN | OPTIONS_BENCH_STEP, 1, "optimizer steps in all (bench: those that are timed; default: 5)"},
    {"epochs", "num-epochs num-train-epochs", KIND_NUMBER, 0.000001, 1000000, NULL, "N", OPTIONS_TRAIN, 1,
     "passes over the data, where --steps is not given (default: 1)"},
    {"batch-size", "per-device-train-batch-size train-batch-size micro-batch-size", KIND_SETTING, 0, 0, NULL, "N",
     FITS | OPTIONS_EVAL | OPTIONS_BENCH_STEP, 1, ""},
    {"block-size", "max-length max-sequence-length max-seq-length sequence-length seq-len", KIND_INTEGER, 0, 1 << 24,
     NULL, "N", FITS | OPTIONS_EVAL | OPTIONS_BENCH_STEP, 1,
     "tokens in a sequence (default: 64; eval: the checkpoint's); 0: the model's positions"},
    {"grad-accum", "gradient-accumulation-steps gradient-accumulation accumulate-grad-batches", KIND_SETTING, 0, 0,
     NULL, "N", FITS | OPTIONS_BENCH_STEP, 1, ""},
    {"lr", "learning-rate", KIND_SETTING, 0, 0, DEPENDS, "X", OPTIONS_TRAIN, 1,
     " (default: 5e-5 with --model, 3e-4 with --init or --lora-rank; of sgd 0.02 and 0.1)"},
    {"final-lr", "min-lr lr-end", KIND_SETTING, 0, 0, NULL, "X", OPTIONS_TRAIN, 1, ""},
    {"lr-schedule", "lr-scheduler-type lr-scheduler schedule", KIND_SETTING, 0, 0, "linear",
     "constant=constant-with-warmup", OPTIONS_TRAIN, 1, ""},
    {"warmup-steps", "num-warmup-steps warmup", KIND_SETTING, 0, 0, NULL, "N", OPTIONS_TRAIN, 1, ""},
    {"weight-decay", "", KIND_SETTING, 0, 0, DEPENDS, "X", OPTIONS_TRAIN, 1, " (default: 0.01; of sgd 0)"},
    {"beta1", "adam-beta1 momentum sgd-momentum", KIND_SETTING, 0, 0, NULL, "X", OPTIONS_TRAIN, 1, ""},
    {"beta2", "adam-beta2", KIND_SETTING, 0, 0, NULL, "X", OPTIONS_TRAIN, 1, ""},
    {"epsilon", "adam-epsilon eps", KIND_SETTING, 0, 0, NULL, "X", OPTIONS_TRAIN, 1, ""},
    {"max-grad-norm", "grad-clip gradient-clip gradient-clip-val clip", KIND_SETTING, 0, 0, NULL, "X", OPTIONS_TRAIN, 1,
     ""},
    {"max-nonfinite", "", KIND_INTEGER, 1, LARGEST, "5", "N", OPTIONS_TRAIN, 1,
     "stop after this many steps in a row with a gradient that is not finite"},
    {"eval-steps", "eval-every", KIND_INTEGER, 0, LARGEST, "500", "N", OPTIONS_TRAIN, 1,
     "validate before step 1 and every N steps; 0: only at the end"},
    {"eval-windows", "", KIND_INTEGER, 0, LARGEST, "0", "N", OPTIONS_TRAIN | OPTIONS_EVAL, 1,
     "validate on the first N windows; 0: on all"},
    {"save-steps", "save-every checkpoint-steps", KIND_INTEGER, 0, LARGEST, "500", "N", OPTIONS_TRAIN, 1,
     "write a checkpoint every N steps; 0: only at the end"},
    {"save-seconds", "", KIND_NUMBER, 0, LARGEST, "0", "X", OPTIONS_TRAIN, 1,
     "write a checkpoint every X seconds too, which changes no bit; 0: never"},
    {"save-total-limit", "keep-checkpoints", KIND_INTEGER, 0, LARGEST, "2", "N", OPTIONS_TRAIN, 1,
     "checkpoints that are kept; 0: all"},
    {"keep-best", "metric-for-best-model", KIND_TEXT, 0, 0, NULL, "NAME", OPTIONS_TRAIN, 1,
     "save after each evaluation where this measure, as loss, is the best so far, and keep that checkpoint too"},
    {"patience", "early-stopping-patience", KIND_INTEGER, 0, LARGEST, "0", "N", OPTIONS_TRAIN, 1,
     "stop when N evaluations in a row are not better than the best; 0: never"},
    {"log-every", "logging-steps log-interval training-log-freq", KIND_INTEGER, 1, LARGEST, "10", "N", OPTIONS_TRAIN, 1,
     "steps between two lines where standard error is no terminal"},
    {"precision", "use-amp=fp16 fp16=fp16 bf16=bf16", KIND_CHOICE, 0, 0, "auto",
     "auto fp32=32=f32=float32=32-true bf16=bf16-mixed=bf16-true=bfloat16 fp16=16-mixed=16-true=16=f16=float16=half",
     RUNS | OPTIONS_PLAN | BENCHES, 1, "of weights and activations; auto: what the processor multiplies fastest"},
    {"merge", "merge-micro-batches", KIND_SETTING, 0, 0, NULL, "N", FITS, 1, ""},
    {"dense-rows", "", KIND_SETTING, 0, 0, NULL, "", FITS, 1, ""},
    {"optimizer", "optim", KIND_CHOICE, 0, 0, "auto",
     "adamw=adamw-torch adamw8=adamw-8bit=adamw8bit=adamw-bnb-8bit factored=adafactor", FITS, 1,
     "what weights and moments are kept in; auto: the most faithful that fits; sgd, with momentum, only if asked for"},
    {"recompute", "gradient-checkpointing=layer activation-checkpointing=layer", KIND_CHOICE, 0, 0, "auto",
     "auto none attention=attn layer=block", FITS, 0,
     "what is computed again instead of being kept; auto: what the memory demands"},
    {"stream", "offload", KIND_CHOICE, 0, 0, "none", "none auto states all", FITS, 1,
     "what is kept in a file and moved through memory, which wears a disk; auto: what must be, where nothing else "
     "fits"},
    {"stream-file", "offload-file", KIND_TEXT, 0, 0, NULL, "PATH", OPTIONS_TRAIN, 1,
     "that file, which is gone after the run (default: in the output directory)"},
    {"profile", "preset", KIND_CHOICE, 0, 0, "auto", "auto low-memory safe full", FITS, 0,
     "batch, length and accumulation: 1 x 128 x 16, 4 x 256 x 4, or 8 x 512 x 1"},
    {"presets", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_PLAN, 0, "the three profiles side by side"},
    {"memory-budget", "max-memory", KIND_SIZE, 0, LARGEST, NULL, "SIZE", FITS, 0,
     "most memory that the process may have, as 900M or 1.5Gi (default, and 0: what the machine has left)"},
    {"auto-shrink", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_TRAIN, 0,
     "where the machine goes short of memory make the run smaller, same steps, and stop with a checkpoint if that does "
     "not do (default: only with --profile low-memory or safe)"},
    {"prompt", "", KIND_TEXT, 0, 0, NULL, "TEXT", OPTIONS_GENERATE, 0, "what the text begins with"},
    {"prompt-file", "", KIND_TEXT, 0, 0, NULL, "FILE", OPTIONS_GENERATE, 0,
     "the same from a file (default: standard input)"},
    {"tokens", "max-new-tokens num-tokens", KIND_INTEGER, 0, LARGEST, "64", "N", OPTIONS_GENERATE, 0,
     "tokens to generate at most"},
    {"temperature", "", KIND_NUMBER, 0, 1000, "1", "X", OPTIONS_GENERATE, 0,
     "below 1 likelier tokens gain, above 1 they lose; 0: always the likeliest"},
    {"top-k", "", KIND_INTEGER, 0, 1 << 24, "0", "K", OPTIONS_GENERATE, 0, "draw from the K likeliest tokens; 0: all"},
    {"top-p", "", KIND_NUMBER, 0, 1, "1", "P", OPTIONS_GENERATE, 0,
     "draw from the likeliest tokens that together have this probability"},
    {"samples", "num-samples num-return-sequences", KIND_INTEGER, 1, LARGEST, "1", "N", OPTIONS_GENERATE, 0,
     "texts to generate; the n-th has seed + n - 1"},
    {"echo", "", KIND_FLAG, 0, 1, "1", "", OPTIONS_GENERATE, 0, "print the prompt before what follows it"},
    {"text", "", KIND_TEXT, 0, 0, NULL, "TEXT", OPTIONS_TOKENIZER_ENCODE, 0,
     "what to encode (default: --data, else standard input)"},
    {"min-frequency", "minimum-frequency", KIND_INTEGER, 0, LARGEST, "2", "N", OPTIONS_TOKENIZER_TRAIN, 0,
     "merge pairs that occur this often"},
    {"output", "out", KIND_TEXT, 0, 0, NULL, "PATH", OPTIONS_TOKENIZER_TRAIN | OPTIONS_PACK, 0,
     "tokenizer train: the directory; pack: the token file"},
    {"filter", "", KIND_TEXT, 0, 0, NULL, "WORD", OPTIONS_BENCH_KERNELS, 0, "only what has WORD in its name"},
    {"seconds", "", KIND_NUMBER, 0, 3600, "0.2", "X", OPTIONS_BENCH_KERNELS, 0, "how long each is measured, at least"},
    {"compare", "", KIND_TEXT, 0, 0, NULL, "FILE", BENCHES | OPTIONS_PLAN, 0,
     "bench: what --json printed before; plan: a configuration, beside the one that follows"},
    {"seed", "random-seed", KIND_SETTING, 0, 0, NULL, "N", OPTIONS_TRAIN | OPTIONS_GENERATE, 1,
     ", and of weights and sampling"},
    {"device", "", KIND_CHOICE, 0, 0, "auto", "auto cpu cuda=gpu", RUNS | OPTIONS_PLAN | BENCHES | OPTIONS_MERGE, 0,
     "where to compute"},
    {"threads", "num-threads cpu-threads", KIND_INTEGER, 0, 4096, "0", "N",
     RUNS | OPTIONS_PLAN | BENCHES | OPTIONS_MERGE, 0, "0: one for each processor; results do not depend on it"},
    {"config", "", KIND_TEXT, 0, 0, NULL, "FILE", OPTIONS_EVERY, 0,
     "JSON, or YAML (.yaml, .yml; needs libyaml), with options of these names"},
    {"print-config", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_EVERY, 0,
     "print each value and where it came from, and do nothing"},
    {"json", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_EVERY, 0, "print the result as one JSON object"},
    {"quiet", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_EVERY, 0, "-q: only warnings and errors"},
    {"verbose", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_EVERY, 0, "-v: more about what is going on"},
    {"help", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_EVERY, 0, "-h: this text"},
};

typedef char option_rows_are_complete[COMMAND_COUNT(rows) == OPTION_COUNT ? 1 : -1];

/* Settings that are options by another name, or by none: --steps and --epochs say them. */
static const struct {
    const char *setting, *option;
} renamed[] = {{"merged", "merge"}, {"schedule_steps", NULL}, {"last_sample", NULL}};

/* Names that other programs have and that mean nothing here: taken with a warning. With 1 a value follows. */
static const struct {
    const char *name;
    int has_value;
    const char *why;
} ignored[] = {
    {"num-workers", 1, "data is read by position, without workers"},
    {"data-workers", 1, "data is read by position, without workers"},
    {"dataloader-num-workers", 1, "data is read by position, without workers"},
    {"dataloader-prefetch-factor", 1, "data is read by position, without workers"},
    {"pin-memory", 0, "there is no GPU"},
    {"dataloader-pin-memory", 0, "there is no GPU"},
    {"empty-cache-every", 1, "the arena is never fragmented"},
    {"low-cpu-mem-usage", 0, "weights are always read straight into place"},
    {"compile-model", 0, "the plan is always compiled"},
    {"report-to", 1, "metrics.jsonl is always written"},
};

/* ---- Names ---- */

/* Compares names; '_' is '-'. `size` limits b. */
static int names_equal(const char *a, const char *b, size_t size) {
    size_t i = 0;
    for (; a[i] && i < size; i++) {
        if ((a[i] == '_' ? '-' : a[i]) != (b[i] == '_' ? '-' : b[i]))
            return 0;
    }
    return !a[i] && i == size;
}

/* The next word of a list of words separated by spaces; 0 at the end. */
static int next_word(const char **list, const char **word, size_t *size) {
    while (**list == ' ')
        ++*list;
    *word = *list;
    *size = strcspn(*list, " ");
    *list += *size;
    return *size > 0;
}

/* ---- The table: rows, and settings that have none ---- */

/* An option in full. */
typedef struct option_entry {
    char name[40], fallback[40], help[400];
    int has_fallback;
    option_kind kind;
    double low, high;
    const char *words; /* of a choice, as in option_row; else the name of the argument */
    const char *aliases;
    unsigned commands;
    int of_run;
    const eitp_setting *setting; /* NULL: it is none */
    const char *spellings;       /* other ones of a setting's choices */
} option_entry;

static option_entry table[OPTION_CAPACITY];
static size_t table_size;

static void fill_from_row(option_entry *filled, const option_row *row) {
    snprintf(filled->name, sizeof filled->name, "%s", row->name);
    snprintf(filled->help, sizeof filled->help, "%s", row->help);
    snprintf(filled->fallback, sizeof filled->fallback, "%s", row->fallback ? row->fallback : "");
    filled->has_fallback = row->fallback != NULL;
    filled->kind = row->kind;
    filled->low = row->low;
    filled->high = row->high;
    filled->words = row->words;
    filled->aliases = row->aliases;
    filled->commands = row->commands;
    filled->of_run = row->of_run;
}

/* What the library knows: kind, bounds, choices, default and help. */
static void fill_from_setting(option_entry *filled, const eitp_setting *setting, const char *added_help) {
    static const option_kind kinds[] = {KIND_INTEGER, KIND_INTEGER, KIND_NUMBER, KIND_FLAG, KIND_CHOICE};
    const eitp_trainer_config defaults = eitp_trainer_config_default();
    filled->setting = setting;
    filled->kind = kinds[setting->kind];
    filled->spellings = filled->kind == KIND_CHOICE ? filled->words : "";
    filled->words = filled->kind == KIND_CHOICE ? setting->words : filled->words;
    snprintf(filled->help, sizeof filled->help, "%s%s", setting->help, added_help);
    if (!filled->has_fallback)
        eitp_setting_format(setting, &defaults, filled->fallback, sizeof filled->fallback);
    filled->has_fallback = *filled->fallback != 0;
}

/* A setting without a row is an option of train by its own name, and recorded. */
static void add_option(const eitp_setting *setting) {
    static const char *const arguments[] = {"N", "N", "X", "", ""}; /* of the kinds of settings */
    const option_row row = {
        setting->name, "", KIND_SETTING, 0, 0, NULL, arguments[setting->kind], OPTIONS_TRAIN, 1, ""};
    option_entry *added = &table[table_size];
    if (table_size == OPTION_CAPACITY) {
        output_error("the library has more settings than OPTION_CAPACITY has room for");
        exit(COMMAND_WRONG);
    }
    table_size++;
    fill_from_row(added, &row);
    for (char *at = added->name; *at; at++)
        *at = *at == '_' ? '-' : *at;
    fill_from_setting(added, setting, "");
}

/* The library's optimizers in its order, after "auto", each with the spellings that the row has for it. */
static void fill_optimizers(option_entry *filled, const char *spelled) {
    static char words[400];
    size_t used = (size_t)snprintf(words, sizeof words, "auto");
    for (int i = 0; i < EITP_OPTIMIZER_COUNT && used < sizeof words; i++) {
        const char *name = eitp_optimizer_get((eitp_optimizer)i)->name, *list = spelled, *word;
        size_t size = 0;
        while (next_word(&list, &word, &size) &&
               !(strcspn(word, "= ") == strlen(name) && !strncmp(word, name, strlen(name))))
            size = 0;
        used += (size_t)snprintf(words + used, sizeof words - used, " %.*s", (int)(size ? size : strlen(name)),
                                 size ? word : name);
    }
    filled->words = words;
}

static void fill_table(void) {
    size_t count;
    const eitp_setting *settings = eitp_trainer_settings(&count);
    for (size_t i = 0; i < OPTION_COUNT; i++)
        fill_from_row(&table[i], &rows[i]);
    table_size = OPTION_COUNT;
    fill_optimizers(&table[OPTION_OPTIMIZER], rows[OPTION_OPTIMIZER].words);
    for (size_t i = 0; i < count; i++) {
        const char *name = settings[i].name;
        size_t k = 0;
        for (size_t n = 0; n < COMMAND_COUNT(renamed); n++)
            name = strcmp(renamed[n].setting, settings[i].name) ? name : renamed[n].option;
        while (name && k < OPTION_COUNT &&
               !(rows[k].kind == KIND_SETTING && names_equal(name, rows[k].name, strlen(rows[k].name))))
            k++;
        if (name && k < OPTION_COUNT)
            fill_from_setting(&table[k], &settings[i], rows[k].help);
        else if (name)
            add_option(&settings[i]);
    }
}

static size_t option_count(void) {
    if (!table_size)
        fill_table();
    return table_size;
}

static const option_entry *option_of(option_id id) {
    return &table[id < (option_id)option_count() ? id : OPTION_HELP];
}

/* The option that stands at a place of lists: those without a row after the last one that has. */
static option_id option_at(size_t place) {
    const size_t last = OPTION_MAX_GRAD_NORM, added = option_count() - OPTION_COUNT;
    if (place <= last)
        return (option_id)place;
    return (option_id)(place <= last + added ? OPTION_COUNT + place - last - 1 : place - added);
}

const char *options_name(option_id id) {
    return option_of(id)->name;
}

option_id options_setting(const eitp_setting *setting) {
    for (size_t id = 0; id < option_count() && setting; id++) {
        if (table[id].setting == setting)
            return (option_id)id;
    }
    return OPTION_CAPACITY;
}

eitp_status options_to_config(const option_set *o, eitp_trainer_config *config, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t id = 0; id < option_count() && !status; id++) {
        const eitp_setting *setting = table[id].setting;
        const option_value *value = &o->values[id];
        if (!setting || !value->count)
            continue;
        status = setting->kind == EITP_SETTING_NUMBER
                     ? eitp_setting_set_number(setting, value->number, config, error)
                     : eitp_setting_set_integer(setting, value->integer, config, error);
    }
    return status;
}

/* The option of a name, or OPTION_CAPACITY; an alias with a value of its own stores it in *value. */
static option_id find_name(const char *name, char *value, size_t value_size) {
    *value = 0;
    for (size_t i = 0; i < option_count(); i++) {
        const char *list = table[i].aliases, *word;
        size_t size;
        if (names_equal(name, table[i].name, strlen(table[i].name)))
            return (option_id)i;
        while (next_word(&list, &word, &size)) {
            const char *equals = (const char *)memchr(word, '=', size);
            size_t length = equals ? (size_t)(equals - word) : size;
            if (!names_equal(name, word, length))
                continue;
            if (equals)
                snprintf(value, value_size, "%.*s", (int)(size - length - 1), equals + 1);
            return (option_id)i;
        }
    }
    return OPTION_CAPACITY;
}

/* Levenshtein's distance of the first names; 63 for very long ones. */
static size_t name_distance(const char *a, const char *b, size_t b_size) {
    size_t row[64], a_size = strlen(a);
    if (a_size > 62 || b_size > 62)
        return 63;
    for (size_t j = 0; j <= b_size; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_size; i++) {
        char letter = a[i - 1] == '_' ? '-' : a[i - 1];
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            size_t best = diagonal + (letter != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[b_size];
}

static void nearest_of(const char *name, const char *list, size_t *least, char *nearest, size_t size) {
    const char *word;
    size_t length;
    while (next_word(&list, &word, &length)) {
        const char *equals = (const char *)memchr(word, '=', length);
        size_t distance;
        if (equals)
            length = (size_t)(equals - word);
        distance = name_distance(name, word, length);
        if (distance < *least) {
            *least = distance;
            snprintf(nearest, size, "%.*s", (int)length, word);
        }
    }
}

static eitp_status fail_unknown(const option_set *o, const char *name, const char *where, eitp_error *error) {
    char nearest[64] = "";
    size_t least = strlen(name) / 3 + 2;
    for (size_t i = 0; i < option_count(); i++) {
        if (table[i].commands & o->command) {
            nearest_of(name, table[i].name, &least, nearest, sizeof nearest);
            nearest_of(name, table[i].aliases, &least, nearest, sizeof nearest);
        }
    }
    if (*nearest)
        return command_fail(error, EITP_ERROR_ARGUMENT, "%sunknown option '%s'; did you mean '%s'?", where, name,
                            nearest);
    return command_fail(error, EITP_ERROR_ARGUMENT, "%sunknown option '%s'; 'eitp help %s' lists the options", where,
                        name, o->name);
}

/* ---- Values ---- */

/* The number of the word that `value` is a spelling of, or -1. */
static int find_choice(const char *words, const char *value) {
    const char *word;
    size_t size;
    for (int number = 0; next_word(&words, &word, &size); number++) {
        for (size_t at = 0; at <= size;) {
            size_t length = strcspn(word + at, "= ");
            if (names_equal(value, word + at, length))
                return number;
            at += length + 1;
        }
    }
    return -1;
}

/* The same where another spelling of a setting's choice is asked for. */
static int find_spelling(const option_entry *row, const char *value) {
    const char *list = row->spellings, *word;
    char name[40];
    size_t size;
    while (next_word(&list, &word, &size)) {
        snprintf(name, sizeof name, "%.*s", (int)size, word);
        if (find_choice(name, value) < 0)
            continue;
        name[strcspn(name, "=")] = 0;
        return find_choice(row->words, name);
    }
    return -1;
}

/* The first spellings of the choices, as "a, b or c" or with another separator. */
static void list_choices(const char *words, const char *separator, const char *last, char *list, size_t size) {
    const char *word;
    size_t length, at = 0;
    *list = 0;
    while (at < size && next_word(&words, &word, &length)) {
        const char *between = !at ? "" : words[strspn(words, " ")] ? separator : last;
        at += (size_t)snprintf(list + at, size - at, "%s%.*s", between, (int)strcspn(word, "= "), word);
    }
}

static eitp_status parse_choice(const option_entry *row, const char *value, option_value *parsed, const char *where,
                                eitp_error *error) {
    char list[200];
    parsed->integer = find_choice(row->words, value);
    if (parsed->integer < 0 && row->setting)
        parsed->integer = find_spelling(row, value);
    if (parsed->integer >= 0)
        return EITP_OK;
    list_choices(row->words, ", ", " or ", list, sizeof list);
    return command_fail(error, EITP_ERROR_ARGUMENT, "%s%s '%s' is none of its values; use %s", where, row->name, value,
                        list);
}

static eitp_status parse_flag(const option_entry *row, const char *value, option_value *parsed, const char *where,
                              eitp_error *error) {
    parsed->integer = find_choice("false=0=no=off true=1=yes=on", value);
    if (parsed->integer >= 0)
        return EITP_OK;
    return command_fail(error, EITP_ERROR_ARGUMENT, "%s%s '%s' is neither true nor false", where, row->name, value);
}

/* The bounds are the library's. */
static eitp_status check_setting(const option_entry *row, const char *value, const option_value *parsed,
                                 const char *where, eitp_error *error) {
    eitp_trainer_config config = eitp_trainer_config_default();
    char bounds[100];
    eitp_status status = row->kind == KIND_NUMBER
                             ? eitp_setting_set_number(row->setting, parsed->number, &config, error)
                             : eitp_setting_set_integer(row->setting, parsed->integer, &config, error);
    if (!status)
        return EITP_OK;
    eitp_setting_bounds(row->setting, bounds, sizeof bounds);
    return command_fail(error, status, "%s%s %s is out of range; it must be %s", where, row->name, value, bounds);
}

static eitp_status parse_number(const option_entry *row, const char *value, option_value *parsed, const char *where,
                                eitp_error *error) {
    char *end = NULL;
    int whole = row->kind == KIND_INTEGER, valid;
    errno = 0;
    parsed->integer = whole ? strtoll(value, &end, 10) : 0;
    parsed->number = whole ? (double)parsed->integer : strtod(value, &end);
    /* No white space, no hexadecimal numbers, no "nan" and "infinity". */
    valid = *value && end && !*end && (errno != ERANGE || !whole) && !value[strspn(value, "0123456789+-.eE")];
    if (!valid)
        return command_fail(error, EITP_ERROR_ARGUMENT, "%s%s '%s' is no %s", where, row->name, value,
                            whole ? "whole number" : "number");
    if (row->setting)
        return check_setting(row, value, parsed, where, error);
    if (!(parsed->number >= row->low && parsed->number <= row->high))
        return command_fail(error, EITP_ERROR_ARGUMENT, "%s%s %s is out of range; it must be %.16g to %.16g", where,
                            row->name, value, row->low, row->high);
    return EITP_OK;
}

/*
 * Bytes: "1000000", "900M", "1.5GB", "2GiB". k, M, G and T are powers of 1000, Ki, Mi, Gi and Ti of 1024; a part of a
 * unit is rounded to whole bytes.
 */
static eitp_status parse_size(const option_entry *row, const char *value, option_value *parsed, const char *where,
                              eitp_error *error) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1},     {"k", 1e3},   {"K", 1e3},      {"M", 1e6},         {"G", 1e9},
                 {"T", 1e12}, {"Ki", 1024}, {"Mi", 1048576}, {"Gi", 1073741824}, {"Ti", 1099511627776.0}};
    size_t whole = strspn(value, "0123456789"), fraction = value[whole] == '.';
    const char *unit;
    size_t length;
    double factor = 0;
    if (fraction)
        fraction += strspn(value + whole + 1, "0123456789");
    unit = value + whole + fraction;
    length = strlen(unit);
    length -= length && unit[length - 1] == 'B';
    for (size_t i = 0; i < COMMAND_COUNT(units); i++) {
        if (strlen(units[i].name) == length && !memcmp(units[i].name, unit, length))
            factor = units[i].bytes;
    }
    parsed->number = strtod(value, NULL) * factor;
    if (!whole || fraction == 1 || factor == 0 || (fraction && factor == 1) ||
        (parsed->number > 0 && parsed->number < 1))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "%s%s '%s' is no size; give bytes, or a number and its unit, as in 900M, 1.5G or 512Mi",
                            where, row->name, value);
    if (!(parsed->number >= row->low && parsed->number <= row->high))
        return command_fail(error, EITP_ERROR_ARGUMENT, "%s%s %s is out of range; it must be %.16g to %.16g bytes",
                            where, row->name, value, row->low, row->high);
    parsed->integer = (int64_t)(parsed->number + 0.5);
    return EITP_OK;
}

static void value_clear(option_value *value) {
    for (size_t i = 0; i < value->count; i++)
        free(value->texts[i]);
    free(value->texts);
    memset(value, 0, sizeof *value);
}

static void value_add(option_value *value, const char *text) {
    value->texts = (char **)command_resize(value->texts, (value->count + 1) * sizeof *value->texts);
    value->texts[value->count++] = command_copy(text);
}

eitp_status options_set(option_set *o, option_id id, const char *value, option_source source, const char *where,
                        eitp_error *error) {
    const option_entry *row = option_of(id);
    option_value *target = &o->values[id], parsed;
    eitp_status status = EITP_OK;
    memset(&parsed, 0, sizeof parsed);
    if (row->kind == KIND_FLAG)
        status = parse_flag(row, value, &parsed, where, error);
    else if (row->kind == KIND_INTEGER || row->kind == KIND_NUMBER)
        status = parse_number(row, value, &parsed, where, error);
    else if (row->kind == KIND_SIZE)
        status = parse_size(row, value, &parsed, where, error);
    else if (row->kind == KIND_CHOICE)
        status = parse_choice(row, value, &parsed, where, error);
    else if (!*value && id != OPTION_PROMPT && id != OPTION_TEXT)
        status = command_fail(error, EITP_ERROR_ARGUMENT, "%s%s is empty; give it a value", where, row->name);
    if (status || source < target->source)
        return status;
    if (row->kind != KIND_LIST || source > target->source)
        value_clear(target);
    target->source = source;
    target->integer = parsed.integer;
    target->number = parsed.number;
    value_add(target, value);
    return EITP_OK;
}

void options_set_text(option_set *o, option_id id, const char *value, option_source source) {
    eitp_error error;
    options_set(o, id, value, source, "", &error);
}

void options_set_integer(option_set *o, option_id id, int64_t value, option_source source) {
    char digits[32];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    options_set_text(o, id, digits, source);
}

void options_set_number(option_set *o, option_id id, double value, option_source source) {
    text_buffer digits = {NULL, 0, 0};
    text_json_number(&digits, value);
    options_set_text(o, id, digits.data, source);
    text_release(&digits);
}

int options_has(const option_set *o, option_id id) {
    return o->values[id].count > 0;
}

int options_is_explicit(const option_set *o, option_id id) {
    return o->values[id].source >= SOURCE_CONFIG;
}

int64_t options_integer(const option_set *o, option_id id) {
    return o->values[id].integer;
}

double options_number(const option_set *o, option_id id) {
    return o->values[id].number;
}

const char *options_text(const option_set *o, option_id id) {
    return o->values[id].count ? o->values[id].texts[0] : NULL;
}

int options_choice(const option_set *o, option_id id) {
    return (int)o->values[id].integer;
}

void options_release(option_set *o) {
    for (size_t i = 0; i < OPTION_CAPACITY; i++)
        value_clear(&o->values[i]);
    free(o->positional);
    memset(o, 0, sizeof *o);
}

/* ---- The command line ---- */

/* Names that are taken and mean nothing; *has_value tells whether a value follows. */
static int find_ignored(const char *name, int *has_value) {
    for (size_t i = 0; i < COMMAND_COUNT(ignored); i++) {
        if (!names_equal(name, ignored[i].name, strlen(ignored[i].name)))
            continue;
        *has_value = ignored[i].has_value;
        output_warning("%s has no effect: %s", ignored[i].name, ignored[i].why);
        return 1;
    }
    return 0;
}

/* "no-<flag>" stands for the flag with the value 0. */
static option_id find_negated(const char *name) {
    char value[32];
    option_id id =
        strncmp(name, "no-", 3) && strncmp(name, "no_", 3) ? OPTION_CAPACITY : find_name(name + 3, value, sizeof value);
    return id != OPTION_CAPACITY && option_of(id)->kind == KIND_FLAG ? id : OPTION_CAPACITY;
}

/* One option: `argument` without its dashes. *at is advanced where the value is the next argument. */
static eitp_status read_option(option_set *o, const char *argument, int count, char **arguments, int *at,
                               eitp_error *error) {
    const char *equals = strchr(argument, '=');
    char *name = command_copy(argument), implied[64];
    const char *value = equals ? equals + 1 : NULL;
    option_id id;
    int has_value = 1;
    eitp_status status = EITP_OK;
    if (equals)
        name[equals - argument] = 0;
    id = find_name(name, implied, sizeof implied);
    if (id == OPTION_CAPACITY && find_ignored(name, &has_value)) {
        *at += has_value && !value && *at + 1 < count;
        free(name);
        return EITP_OK;
    }
    if (id == OPTION_CAPACITY && !value && (id = find_negated(name)) != OPTION_CAPACITY)
        snprintf(implied, sizeof implied, "0");
    if (id != OPTION_CAPACITY && option_of(id)->kind == KIND_FLAG && !value && !*implied)
        snprintf(implied, sizeof implied, "1");
    if (id == OPTION_CAPACITY)
        status = fail_unknown(o, name, "", error);
    else if (!(option_of(id)->commands & o->command))
        status = command_fail(error, EITP_ERROR_ARGUMENT, "--%s is no option of 'eitp %s'; 'eitp help %s' lists them",
                              name, o->name, o->name);
    else if (*implied && value)
        status = command_fail(error, EITP_ERROR_ARGUMENT, "--%s takes no value; write --%s=%s", name,
                              option_of(id)->name, value);
    else if (*implied)
        value = implied;
    else if (!value && *at + 1 >= count)
        status = command_fail(error, EITP_ERROR_ARGUMENT, "--%s needs a value", name);
    else if (!value)
        value = arguments[++*at];
    free(name);
    return status ? status : options_set(o, id, value, SOURCE_COMMAND_LINE, "--", error);
}

static eitp_status read_command_line(option_set *o, int count, char **arguments, eitp_error *error) {
    int literal = 0;
    eitp_status status = EITP_OK;
    o->positional = (char **)command_allocate((size_t)count * sizeof *o->positional);
    for (int at = 0; at < count && !status; at++) {
        const char *argument = arguments[at];
        if (!literal && !strcmp(argument, "--"))
            literal = 1;
        else if (!literal && !strncmp(argument, "--", 2))
            status = read_option(o, argument + 2, count, arguments, &at, error);
        else if (!literal && !strcmp(argument, "-q"))
            options_set_integer(o, OPTION_QUIET, 1, SOURCE_COMMAND_LINE);
        else if (!literal && !strcmp(argument, "-v"))
            options_set_integer(o, OPTION_VERBOSE, 1, SOURCE_COMMAND_LINE);
        else if (!literal && !strcmp(argument, "-h"))
            options_set_integer(o, OPTION_HELP, 1, SOURCE_COMMAND_LINE);
        else if (!literal && argument[0] == '-' && argument[1])
            status = command_fail(error, EITP_ERROR_ARGUMENT,
                                  "unknown option '%s'; options have two dashes: 'eitp help %s' lists them", argument,
                                  o->name);
        else
            o->positional[o->positional_count++] = arguments[at];
    }
    if (!status && o->positional_count && !(o->command & (OPTIONS_TOKENIZER_DECODE | OPTIONS_PLAN)))
        status =
            command_fail(error, EITP_ERROR_ARGUMENT, "unexpected argument '%s'; values follow options, as in --data %s",
                         o->positional[0], o->positional[0]);
    return status;
}

static void set_fallbacks(option_set *o) {
    for (size_t i = 0; i < option_count(); i++) {
        if (table[i].has_fallback && (table[i].commands & o->command))
            options_set_text(o, (option_id)i, table[i].fallback, SOURCE_DEFAULT);
    }
}

eitp_status options_read(option_set *o, const char *name, unsigned command, int count, char **arguments, int *ended,
                         eitp_error *error) {
    eitp_status status;
    memset(o, 0, sizeof *o);
    o->name = name;
    o->command = command;
    *ended = 0;
    status = read_command_line(o, count, arguments, error);
    if (!status && options_integer(o, OPTION_HELP)) {
        options_print_help(name, command);
        *ended = 1;
        return EITP_OK;
    }
    if (!status && options_has(o, OPTION_CONFIG))
        status = options_read_config(o, options_text(o, OPTION_CONFIG), SOURCE_CONFIG, error);
    set_fallbacks(o);
    if (!status)
        output_set_detail(options_integer(o, OPTION_VERBOSE) ? OUTPUT_VERBOSE
                          : options_integer(o, OPTION_QUIET) ? OUTPUT_QUIET
                                                             : OUTPUT_NORMAL);
    return status;
}

/* ---- Files of options ---- */

typedef struct config_reader {
    option_set *o;
    const char *path;
    option_source source;
    size_t lines[OPTION_CAPACITY]; /* where an option was given */
} config_reader;

/* What a value of a file means. */
typedef struct config_meaning {
    option_id id;      /* OPTION_CAPACITY: the name is unknown */
    const char *text;  /* NULL: nothing is to be set */
    int is_own_option; /* an element of a list that is an option of its own */
    char held[400];    /* where text may be */
} config_meaning;

/* The meaning of a name with an entry in the table of configuration names. */
static eitp_status read_entry(const config_name *entry, const json_value *value, const char *where,
                              config_meaning *meaning, eitp_error *error) {
    const char *replaced;
    char option[64], unused[64];
    size_t size, count;
    if (!entry->option) {
        if (!value->index)
            output_warning("%s has no effect: %s", value->name, entry->reason);
        meaning->text = NULL;
        return EITP_OK;
    }
    count = config_option_count(entry);
    meaning->is_own_option = count > 1;
    if (count > 1 && (!value->in_array || value->index >= count))
        return command_fail(error, EITP_ERROR_FORMAT, "%s%s takes a list of %zu values", where, value->name, count);
    config_option(entry, count > 1 ? value->index : 0, option, sizeof option);
    meaning->id = find_name(option, unused, sizeof unused);
    replaced = config_meaning_of(entry, value->text, &size);
    if (!replaced && value->boolean)
        replaced = config_meaning_of(entry, value->boolean, &size);
    if (replaced) {
        snprintf(meaning->held, sizeof meaning->held, "%.*s", (int)size, replaced);
        meaning->text = size ? meaning->held : NULL;
    }
    return EITP_OK;
}

/* Entries for a value's section come first, then options and their aliases, which apply in any section. */
static eitp_status read_meaning(const json_value *value, const char *where, config_meaning *meaning,
                                eitp_error *error) {
    const config_name *entry = config_find_in_section(value->path);
    int has_value;
    memset(meaning, 0, sizeof *meaning);
    meaning->text = value->text;
    meaning->id = entry ? OPTION_CAPACITY : find_name(value->name, meaning->held, sizeof meaning->held);
    if (!entry && meaning->id == OPTION_CAPACITY)
        entry = config_find_anywhere(value->path);
    if (entry)
        return read_entry(entry, value, where, meaning, error);
    if (meaning->id == OPTION_CAPACITY && find_ignored(value->name, &has_value))
        meaning->text = NULL;
    if (!*meaning->held)
        return EITP_OK;
    /* An alias that stands for a value of an option: false says nothing. */
    if (!value->boolean)
        return command_fail(error, EITP_ERROR_FORMAT, "%s%s must be true or false", where, value->name);
    meaning->text = strcmp(value->boolean, "true") ? NULL : meaning->held;
    return EITP_OK;
}

/* Spells a value as options_set expects it: choices in lower case, flags and some choices as true or false. */
static void spell_value(const json_value *value, config_meaning *meaning) {
    const option_entry *row = option_of(meaning->id);
    if (meaning->text != value->text)
        return;
    if (row->kind == KIND_FLAG && value->boolean)
        meaning->text = value->boolean;
    if (row->kind != KIND_CHOICE || find_choice(row->words, value->text) >= 0)
        return;
    snprintf(meaning->held, sizeof meaning->held, "%s", value->text);
    for (char *at = meaning->held; *at; at++)
        *at = (char)(*at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);
    if (find_choice(row->words, meaning->held) >= 0)
        meaning->text = meaning->held;
    else if (value->boolean)
        meaning->text = value->boolean;
}

/* Options that are written as names with commas between them; in a file they may be a list. */
static int is_joined(option_id id) {
    return id == OPTION_LORA_TARGETS || id == OPTION_FREEZE;
}

static eitp_status set_config_value(config_reader *reader, const json_value *value, const char *where,
                                    config_meaning *meaning, eitp_error *error) {
    option_id id = meaning->id;
    char *joined = NULL;
    eitp_status status;
    if (value->in_array && option_of(id)->kind != KIND_LIST && !is_joined(id) && !meaning->is_own_option)
        return command_fail(error, EITP_ERROR_FORMAT, "%s%s takes one value, not a list", where, value->name);
    if (reader->lines[id] && (!value->index || meaning->is_own_option))
        return command_fail(error, EITP_ERROR_FORMAT, "%s%s was given in line %zu already", where, value->name,
                            reader->lines[id]);
    reader->lines[id] = value->line;
    spell_value(value, meaning);
    if (is_joined(id) && value->index && options_has(reader->o, id))
        joined = command_format("%s,%s", options_text(reader->o, id), meaning->text);
    status = options_set(reader->o, id, joined ? joined : meaning->text, reader->source, where, error);
    free(joined);
    return status;
}

static eitp_status read_config_value(void *user, const json_value *value, eitp_error *error) {
    config_reader *reader = (config_reader *)user;
    char where[400];
    config_meaning meaning;
    eitp_status status;
    if (value->kind == JSON_NULL)
        return EITP_OK;
    if (reader->source == SOURCE_RUN) {
        option_id recorded = find_name(value->name, where, sizeof where);
        if (recorded == OPTION_CAPACITY || !option_of(recorded)->of_run)
            return EITP_OK;
    }
    snprintf(where, sizeof where, "%.300s:%zu: ", reader->path, value->line);
    status = read_meaning(value, where, &meaning, error);
    if (status || !meaning.text)
        return status;
    if (meaning.id == OPTION_CAPACITY || meaning.id == OPTION_CONFIG || meaning.id == OPTION_HELP)
        return fail_unknown(reader->o, value->name, where, error);
    if (!(option_of(meaning.id)->commands & reader->o->command))
        return EITP_OK; /* one file may serve several commands */
    return set_config_value(reader, value, where, &meaning, error);
}

eitp_status options_read_config(option_set *o, const char *path, option_source source, eitp_error *error) {
    config_reader *reader = (config_reader *)command_allocate(sizeof *reader);
    eitp_status status;
    reader->o = o;
    reader->path = path;
    reader->source = source;
    status = (yaml_is_name(path) ? yaml_read_file : json_read_file)(path, "run", read_config_value, reader, error);
    free(reader);
    /* The command line's status for a file whose content is wrong. */
    return status;
}

static void write_value(const option_entry *row, const option_value *value, size_t index, text_buffer *t) {
    if (row->kind == KIND_FLAG)
        text_format(t, "%s", value->integer ? "true" : "false");
    else if (row->kind == KIND_INTEGER || row->kind == KIND_SIZE)
        text_format(t, "%lld", (long long)value->integer);
    else if (row->kind == KIND_NUMBER)
        text_json_number(t, value->number);
    else
        text_json_string(t, value->texts[index], strlen(value->texts[index]));
}

static void write_values(const option_entry *row, const option_value *value, text_buffer *t) {
    if (row->kind != KIND_LIST) {
        write_value(row, value, 0, t);
        return;
    }
    text_add(t, "[", 1);
    for (size_t i = 0; i < value->count; i++) {
        if (i)
            text_add(t, ", ", 2);
        write_value(row, value, i, t);
    }
    text_add(t, "]", 1);
}

void options_write(const option_set *o, text_buffer *t) {
    for (size_t place = 0; place < option_count(); place++) {
        const option_id i = option_at(place);
        if (!table[i].of_run || !(table[i].commands & o->command) || !o->values[i].count)
            continue;
        text_json_name(t, table[i].name);
        write_values(&table[i], &o->values[i], t);
    }
}

static const char *const source_names[] = {"not set", "default", "run.json", "checkpoint", "config", "command line"};

void options_print(const option_set *o, int json) {
    text_buffer t = {NULL, 0, 0};
    if (json)
        text_add(&t, "{", 1);
    for (size_t place = 0; place < option_count(); place++) {
        const option_id i = option_at(place);
        const option_value *value = &o->values[i];
        if (!(table[i].commands & o->command) || i == OPTION_HELP || i == OPTION_PRINT_CONFIG)
            continue;
        if (json) {
            text_json_name(&t, table[i].name);
            text_format(&t, "{\"value\": ");
        } else {
            text_format(&t, "%-18s ", table[i].name);
        }
        if (value->count)
            write_values(&table[i], value, &t);
        else
            text_format(&t, json ? "null" : "-");
        text_format(&t, json ? ", \"source\": \"%s\"}" : "  (%s)\n", source_names[value->source]);
    }
    if (json)
        text_format(&t, "}\n");
    output_result(t.data, t.size);
    text_release(&t);
}

static void print_option_help(const option_entry *row, text_buffer *t) {
    char argument[100], left[160];
    if (row->kind == KIND_CHOICE)
        list_choices(row->words, "|", "|", argument, sizeof argument);
    else
        snprintf(argument, sizeof argument, "%s", row->words);
    snprintf(left, sizeof left, "--%s%s%s", row->name, *argument ? " " : "", argument);
    text_format(t, "  %-32s %s", left, row->help);
    if (row->has_fallback && row->kind != KIND_FLAG)
        text_format(t, " (default: %s)", row->fallback);
    else if (row->has_fallback && strchr("1t", *row->fallback))
        text_format(t, " (--no-%s: do not)", row->name);
    text_format(t, "\n");
    if (*row->aliases) {
        const char *list = row->aliases, *word;
        size_t size;
        text_format(t, "  %-32s also:", "");
        while (next_word(&list, &word, &size))
            text_format(t, " --%.*s", (int)strcspn(word, "= "), word);
        text_format(t, "\n");
    }
}

void options_print_help(const char *name, unsigned command) {
    text_buffer t = {NULL, 0, 0};
    text_format(&t, "usage: eitp %s [options]%s\n\n", name, command == OPTIONS_TOKENIZER_DECODE ? " [ID ...]" : "");
    for (size_t place = 0; place < option_count(); place++) {
        const option_id i = option_at(place);
        if (table[i].commands & command)
            print_option_help(&table[i], &t);
    }
    text_format(&t, "\n--name VALUE or --name=VALUE; - and _ are the same.\n");
    output_result(t.data, t.size);
    text_release(&t);
}
