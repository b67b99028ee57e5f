#include "command_option_table.h"

#include "command_output.h"

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
#define READS                                                                                                          \
    (OPTIONS_TRAIN | OPTIONS_EVAL | OPTIONS_PLAN | OPTIONS_PACK | OPTIONS_TOKENIZER_TRAIN | OPTIONS_TOKENIZER_ENCODE)
#define FITS (OPTIONS_TRAIN | OPTIONS_PLAN)
#define RUNS (OPTIONS_TRAIN | OPTIONS_EVAL | OPTIONS_GENERATE)
#define BENCHES (OPTIONS_BENCH_KERNELS | OPTIONS_BENCH_STEP)
#define WITH_TOKENIZER (OPTIONS_EVERY & ~(unsigned)(OPTIONS_TOKENIZER_TRAIN | BENCHES))

static const option_row rows[] = {
    {"data", "train-data train-file data-path dataset", KIND_LIST, 0, 0, NULL, "PATH", READS, 1,
     "text files, directories of them, or one token file; may be repeated"},
    {"val-data", "validation-data validation-file eval-data", KIND_LIST, 0, 0, NULL, "PATH", OPTIONS_TRAIN, 1,
     "data for validation, instead of a part of --data"},
    {"val-fraction", "validation-fraction val-split", KIND_NUMBER, 0, 0.9, "0.1", "F", OPTIONS_TRAIN, 1,
     "part of the data kept for validation, from its end"},
    {"split", "", KIND_CHOICE, 0, 0, NULL, "all training=train validation=val=eval", OPTIONS_EVAL, 0,
     "the part of the run's data to evaluate: what it trained on, what it held out, or all (default: all); without "
     "--data, the data of the run"},
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
    {"overwrite-output-dir", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_TRAIN, 0,
     "start a new run in an output directory that has one, which is moved to a directory replaced-N in it"},
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
    {"lr-cycles", "num-cycles lr-num-cycles", KIND_SETTING, 0, 0, NULL, "N", OPTIONS_TRAIN, 1, ""},
    {"warmup-steps", "num-warmup-steps warmup", KIND_SETTING, 0, 0, NULL, "N", OPTIONS_TRAIN, 1, ""},
    {"warmup-ratio", "warmup-fraction", KIND_NUMBER, 0, 1, NULL, "X", OPTIONS_TRAIN, 0,
     "the warm-up as a fraction of all steps, instead of --warmup-steps"},
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
     "steps between two lines when standard error is not a terminal"},
    {"precision", "use-amp=fp16 fp16=fp16 bf16=bf16", KIND_CHOICE, 0, 0, "auto",
     "auto fp32=32=f32=float32=32-true bf16=bf16-mixed=bf16-true=bfloat16 fp16=16-mixed=16-true=16=f16=float16=half",
     RUNS | OPTIONS_PLAN | BENCHES, 1, "of weights and activations; auto: what the processor multiplies fastest"},
    {"micro-batches-per-pass", "merge", KIND_SETTING, 0, 0, NULL, "N", FITS, 1, ""},
    {"dense-rows", "", KIND_SETTING, 0, 0, NULL, "", FITS, 1, ""},
    {"optimizer", "optim", KIND_CHOICE, 0, 0, "auto",
     "adamw=adamw-torch adamw8=adamw-8bit=adamw8bit=adamw-bnb-8bit factored=adafactor", FITS, 1,
     "what weights and moments are kept in; auto: the most faithful that fits; sgd, with momentum, only if asked for"},
    {"recompute", "gradient-checkpointing=layer activation-checkpointing=layer", KIND_CHOICE, 0, 0, "auto",
     "auto none attention=attn layer=block", FITS, 0,
     "which values are recomputed instead of kept; auto: as many as memory demands"},
    {"offload", "stream", KIND_CHOICE, 0, 0, "none", "none auto states all", FITS, 1,
     "what is kept in a file and moved through memory, which wears a disk; auto: what must be, where nothing else "
     "fits"},
    {"offload-file", "stream-file", KIND_TEXT, 0, 0, NULL, "PATH", OPTIONS_TRAIN, 1,
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
static const struct { const char *setting, *option; } renamed[] = {{"schedule_steps", NULL}, {"last_sample", NULL}};

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
int option_names_equal(const char *a, const char *b, size_t size) {
    size_t i = 0;
    for (; a[i] && i < size; i++) {
        if ((a[i] == '_' ? '-' : a[i]) != (b[i] == '_' ? '-' : b[i]))
            return 0;
    }
    return !a[i] && i == size;
}

/* The next word of a list of words separated by spaces; 0 at the end. */
int option_next_word(const char **list, const char **word, size_t *size) {
    while (**list == ' ')
        ++*list;
    *word = *list;
    *size = strcspn(*list, " ");
    *list += *size;
    return *size > 0;
}

/* ---- The table: rows, and settings that have none ---- */

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
        while (option_next_word(&list, &word, &size) &&
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
               !(rows[k].kind == KIND_SETTING && option_names_equal(name, rows[k].name, strlen(rows[k].name))))
            k++;
        if (name && k < OPTION_COUNT)
            fill_from_setting(&table[k], &settings[i], rows[k].help);
        else if (name)
            add_option(&settings[i]);
    }
}

size_t option_count(void) {
    if (!table_size)
        fill_table();
    return table_size;
}

const option_entry *option_of(option_id id) {
    return &table[id < (option_id)option_count() ? id : OPTION_HELP];
}

/* The option that stands at a place of lists: those without a row after the last one that has. */
option_id option_at(size_t place) {
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

/* The option of a name, or OPTION_CAPACITY; an alias with a value of its own stores it in *value. */
option_id option_find(const char *name, char *value, size_t value_size) {
    *value = 0;
    for (size_t i = 0; i < option_count(); i++) {
        const char *list = table[i].aliases, *word;
        size_t size;
        if (option_names_equal(name, table[i].name, strlen(table[i].name)))
            return (option_id)i;
        while (option_next_word(&list, &word, &size)) {
            const char *equals = (const char *)memchr(word, '=', size);
            size_t length = equals ? (size_t)(equals - word) : size;
            if (!option_names_equal(name, word, length))
                continue;
            if (equals)
                snprintf(value, value_size, "%.*s", (int)(size - length - 1), equals + 1);
            return (option_id)i;
        }
    }
    return OPTION_CAPACITY;
}

/* The number of the word that `value` is a spelling of, or -1. */
int option_find_choice(const char *words, const char *value) {
    const char *word;
    size_t size;
    for (int number = 0; option_next_word(&words, &word, &size); number++) {
        for (size_t at = 0; at <= size;) {
            size_t length = strcspn(word + at, "= ");
            if (option_names_equal(value, word + at, length))
                return number;
            at += length + 1;
        }
    }
    return -1;
}

/* The first spellings of the choices, as "a, b or c" or with another separator. */
void option_list_choices(const char *words, const char *separator, const char *last, char *list, size_t size) {
    const char *word;
    size_t length, at = 0;
    *list = 0;
    while (at < size && option_next_word(&words, &word, &length)) {
        const char *between = !at ? "" : words[strspn(words, " ")] ? separator : last;
        at += (size_t)snprintf(list + at, size - at, "%s%.*s", between, (int)strcspn(word, "= "), word);
    }
}

/* Names that are taken and mean nothing; *has_value tells whether a value follows. */
int option_find_ignored(const char *name, int *has_value) {
    for (size_t i = 0; i < COMMAND_COUNT(ignored); i++) {
        if (!option_names_equal(name, ignored[i].name, strlen(ignored[i].name)))
            continue;
        *has_value = ignored[i].has_value;
        output_warning("%s has no effect: %s", ignored[i].name, ignored[i].why);
        return 1;
    }
    return 0;
}

size_t option_name_distance(const char *a, const char *b, size_t b_size) {
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
    while (option_next_word(&list, &word, &length)) {
        const char *equals = (const char *)memchr(word, '=', length);
        size_t distance;
        if (equals)
            length = (size_t)(equals - word);
        distance = option_name_distance(name, word, length);
        if (distance < *least) {
            *least = distance;
            snprintf(nearest, size, "%.*s", (int)length, word);
        }
    }
}

eitp_status option_fail_unknown(const option_set *o, const char *name, const char *where, eitp_error *error) {
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
