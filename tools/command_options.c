#include "command_options.h"

#include "command_json.h"
#include "command_output.h"

typedef enum option_kind {
    KIND_FLAG,
    KIND_INTEGER,
    KIND_NUMBER,
    KIND_SIZE, /* bytes, read by parse_size */
    KIND_TEXT,
    KIND_LIST,
    KIND_CHOICE /* `words` are the choices, those after a "=" other spellings of the one before */
} option_kind;

typedef struct option_row {
    const char *name;
    const char
        *aliases; /* "name name=value ...": one with a value is a flag that stands for the option with that value */
    option_kind kind;
    double low, high;
    const char *fallback; /* the default, NULL: none, or one that depends */
    const char *words;    /* choices; for others the name of the argument in --help */
    unsigned commands;
    int of_run; /* recorded in run.json and taken from there on resume */
    const char *help;
} option_row;

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
    {"shuffle", "", KIND_CHOICE, 0, 0, "windows", "none=false=0 windows=true=1", OPTIONS_TRAIN, 1,
     "order of the training windows in an epoch"},
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
    {"batch-size", "per-device-train-batch-size train-batch-size micro-batch-size", KIND_INTEGER, 1, 1 << 20, "1", "N",
     FITS | OPTIONS_EVAL | OPTIONS_BENCH_STEP, 1, "sequences in a micro-batch"},
    {"block-size", "max-length max-sequence-length max-seq-length sequence-length seq-len", KIND_INTEGER, 0, 1 << 24,
     NULL, "N", FITS | OPTIONS_EVAL | OPTIONS_BENCH_STEP, 1,
     "tokens in a sequence (default: 64; eval: the checkpoint's); 0: the model's positions"},
    {"grad-accum", "gradient-accumulation-steps gradient-accumulation accumulate-grad-batches", KIND_INTEGER, 1,
     1 << 20, "4", "N", FITS | OPTIONS_BENCH_STEP, 1, "micro-batches in a step"},
    {"lr", "learning-rate", KIND_NUMBER, 0, 1000, NULL, "X", OPTIONS_TRAIN, 1,
     "peak learning rate (default: 5e-5 with --model, 3e-4 with --init or --lora-rank; of sgd 0.02 and 0.1)"},
    {"final-lr", "min-lr lr-end", KIND_NUMBER, 0, 1000, "0", "X", OPTIONS_TRAIN, 1,
     "learning rate that the schedule ends at"},
    {"lr-schedule", "lr-scheduler-type lr-scheduler schedule", KIND_CHOICE, 0, 0, "linear",
     "constant=constant-with-warmup linear cosine", OPTIONS_TRAIN, 1, "course of the learning rate after warm-up"},
    {"warmup-steps", "num-warmup-steps warmup", KIND_INTEGER, 0, LARGEST, "0", "N", OPTIONS_TRAIN, 1,
     "steps in which the learning rate rises to its peak"},
    {"weight-decay", "", KIND_NUMBER, 0, 1000, NULL, "X", OPTIONS_TRAIN, 1,
     "decoupled, as AdamW's, of matrices and embeddings only (default: 0.01; of sgd 0)"},
    {"beta1", "adam-beta1 momentum sgd-momentum", KIND_NUMBER, 0, 0.999999, "0.9", "X", OPTIONS_TRAIN, 1,
     "AdamW's first decay rate; the momentum of sgd"},
    {"beta2", "adam-beta2", KIND_NUMBER, 0, 0.999999999, "0.999", "X", OPTIONS_TRAIN, 1, "AdamW's second decay rate"},
    {"epsilon", "adam-epsilon eps", KIND_NUMBER, 0, 1, "1e-8", "X", OPTIONS_TRAIN, 1,
     "what AdamW adds to the denominator"},
    {"max-grad-norm", "grad-clip gradient-clip gradient-clip-val clip", KIND_NUMBER, 0, 1e30, "0.5", "X", OPTIONS_TRAIN,
     1, "clip the gradient to this norm; 0: never"},
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
    {"merge", "merge-micro-batches", KIND_INTEGER, 0, 1 << 20, "0", "N", FITS, 1,
     "micro-batches that one pass takes together; 0: as many as memory allows"},
    {"dense-rows", "", KIND_FLAG, 0, 1, "0", "", FITS, 1,
     "no gaps between the micro-batches of a pass: a little faster where batch x block is odd, but bits depend on "
     "--merge"},
    {"optimizer", "optim", KIND_CHOICE, 0, 0, "auto",
     "auto adamw=adamw-torch adamw8=adamw-8bit=adamw8bit=adamw-bnb-8bit adamw8-sr factored=adafactor sgd", FITS, 1,
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
    {"seed", "random-seed", KIND_INTEGER, 0, LARGEST, "0", "N", OPTIONS_TRAIN | OPTIONS_GENERATE, 1,
     "of weights, dropout, shuffling and sampling"},
    {"device", "", KIND_CHOICE, 0, 0, "auto", "auto cpu cuda=gpu", RUNS | OPTIONS_PLAN | BENCHES | OPTIONS_MERGE, 0,
     "where to compute"},
    {"threads", "num-threads cpu-threads", KIND_INTEGER, 0, 4096, "0", "N",
     RUNS | OPTIONS_PLAN | BENCHES | OPTIONS_MERGE, 0, "0: one for each processor; results do not depend on it"},
    {"config", "", KIND_TEXT, 0, 0, NULL, "FILE", OPTIONS_EVERY, 0, "JSON with options of these names"},
    {"print-config", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_EVERY, 0,
     "print each value and where it came from, and do nothing"},
    {"json", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_EVERY, 0, "print the result as one JSON object"},
    {"quiet", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_EVERY, 0, "-q: only warnings and errors"},
    {"verbose", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_EVERY, 0, "-v: more about what is going on"},
    {"help", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_EVERY, 0, "-h: this text"},
};

typedef char option_rows_are_complete[COMMAND_COUNT(rows) == OPTION_COUNT ? 1 : -1];

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

const char *options_name(option_id id) {
    return rows[id].name;
}

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

/* The option of a name, or OPTION_COUNT; an alias with a value of its own stores it in *value. */
static option_id find_name(const char *name, char *value, size_t value_size) {
    *value = 0;
    for (size_t i = 0; i < COMMAND_COUNT(rows); i++) {
        const char *list = rows[i].aliases, *word;
        size_t size;
        if (names_equal(name, rows[i].name, strlen(rows[i].name)))
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
    return OPTION_COUNT;
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
    for (size_t i = 0; i < COMMAND_COUNT(rows); i++) {
        if (rows[i].commands & o->command) {
            nearest_of(name, rows[i].name, &least, nearest, sizeof nearest);
            nearest_of(name, rows[i].aliases, &least, nearest, sizeof nearest);
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

static eitp_status parse_choice(const option_row *row, const char *value, option_value *parsed, const char *where,
                                eitp_error *error) {
    char list[200];
    parsed->integer = find_choice(row->words, value);
    if (parsed->integer >= 0)
        return EITP_OK;
    list_choices(row->words, ", ", " or ", list, sizeof list);
    return command_fail(error, EITP_ERROR_ARGUMENT, "%s%s '%s' is none of its values; use %s", where, row->name, value,
                        list);
}

static eitp_status parse_flag(const option_row *row, const char *value, option_value *parsed, const char *where,
                              eitp_error *error) {
    parsed->integer = find_choice("false=0=no=off true=1=yes=on", value);
    if (parsed->integer >= 0)
        return EITP_OK;
    return command_fail(error, EITP_ERROR_ARGUMENT, "%s%s '%s' is neither true nor false", where, row->name, value);
}

static eitp_status parse_number(const option_row *row, const char *value, option_value *parsed, const char *where,
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
    if (!(parsed->number >= row->low && parsed->number <= row->high))
        return command_fail(error, EITP_ERROR_ARGUMENT, "%s%s %s is out of range; it must be %.16g to %.16g", where,
                            row->name, value, row->low, row->high);
    return EITP_OK;
}

/*
 * Bytes: "1000000", "900M", "1.5GB", "2GiB". k, M, G and T are powers of 1000, Ki, Mi, Gi and Ti of 1024; a part of a
 * unit is rounded to whole bytes.
 */
static eitp_status parse_size(const option_row *row, const char *value, option_value *parsed, const char *where,
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
    const option_row *row = &rows[id];
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
    for (size_t i = 0; i < OPTION_COUNT; i++)
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
        strncmp(name, "no-", 3) && strncmp(name, "no_", 3) ? OPTION_COUNT : find_name(name + 3, value, sizeof value);
    return id != OPTION_COUNT && rows[id].kind == KIND_FLAG ? id : OPTION_COUNT;
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
    if (id == OPTION_COUNT && find_ignored(name, &has_value)) {
        *at += has_value && !value && *at + 1 < count;
        free(name);
        return EITP_OK;
    }
    if (id == OPTION_COUNT && !value && (id = find_negated(name)) != OPTION_COUNT)
        snprintf(implied, sizeof implied, "0");
    if (id != OPTION_COUNT && rows[id].kind == KIND_FLAG && !value && !*implied)
        snprintf(implied, sizeof implied, "1");
    if (id == OPTION_COUNT)
        status = fail_unknown(o, name, "", error);
    else if (!(rows[id].commands & o->command))
        status = command_fail(error, EITP_ERROR_ARGUMENT, "--%s is no option of 'eitp %s'; 'eitp help %s' lists them",
                              name, o->name, o->name);
    else if (*implied && value)
        status =
            command_fail(error, EITP_ERROR_ARGUMENT, "--%s takes no value; write --%s=%s", name, rows[id].name, value);
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
    for (size_t i = 0; i < COMMAND_COUNT(rows); i++) {
        if (rows[i].fallback && (rows[i].commands & o->command))
            options_set_text(o, (option_id)i, rows[i].fallback, SOURCE_DEFAULT);
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
    size_t lines[OPTION_COUNT]; /* where an option was given */
} config_reader;

static eitp_status read_config_value(void *user, const json_value *value, eitp_error *error) {
    config_reader *reader = (config_reader *)user;
    char where[400], implied[64];
    option_id id = find_name(value->name, implied, sizeof implied);
    int has_value, recorded = reader->source == SOURCE_RUN;
    if (value->kind == JSON_NULL)
        return EITP_OK;
    snprintf(where, sizeof where, "%.300s:%zu: ", reader->path, value->line);
    if (recorded && (id == OPTION_COUNT || !rows[id].of_run))
        return EITP_OK;
    if (id == OPTION_COUNT && find_ignored(value->name, &has_value))
        return EITP_OK;
    if (id == OPTION_COUNT || id == OPTION_CONFIG || id == OPTION_HELP)
        return fail_unknown(reader->o, value->name, where, error);
    if (!(rows[id].commands & reader->o->command))
        return EITP_OK; /* one file may serve several commands */
    if (value->in_array && rows[id].kind != KIND_LIST)
        return command_fail(error, EITP_ERROR_FORMAT, "%s%s takes one value, not a list", where, value->name);
    if (!value->in_array && reader->lines[id])
        return command_fail(error, EITP_ERROR_FORMAT, "%s%s was given in line %zu already", where, value->name,
                            reader->lines[id]);
    reader->lines[id] = value->line;
    if (*implied) {
        /* A flag that stands for a value of an option: false says nothing. */
        if (value->kind != JSON_BOOLEAN)
            return command_fail(error, EITP_ERROR_FORMAT, "%s%s must be true or false", where, value->name);
        return strcmp(value->text, "true") ? EITP_OK
                                           : options_set(reader->o, id, implied, reader->source, where, error);
    }
    return options_set(reader->o, id, value->text, reader->source, where, error);
}

eitp_status options_read_config(option_set *o, const char *path, option_source source, eitp_error *error) {
    config_reader *reader = (config_reader *)command_allocate(sizeof *reader);
    eitp_status status;
    reader->o = o;
    reader->path = path;
    reader->source = source;
    status = json_read_file(path, "run", read_config_value, reader, error);
    free(reader);
    /* The command line's status for a file whose content is wrong. */
    return status;
}

static void write_value(const option_row *row, const option_value *value, size_t index, text_buffer *t) {
    if (row->kind == KIND_FLAG)
        text_format(t, "%s", value->integer ? "true" : "false");
    else if (row->kind == KIND_INTEGER || row->kind == KIND_SIZE)
        text_format(t, "%lld", (long long)value->integer);
    else if (row->kind == KIND_NUMBER)
        text_json_number(t, value->number);
    else
        text_json_string(t, value->texts[index], strlen(value->texts[index]));
}

static void write_values(const option_row *row, const option_value *value, text_buffer *t) {
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
    for (size_t i = 0; i < COMMAND_COUNT(rows); i++) {
        if (!rows[i].of_run || !(rows[i].commands & o->command) || !o->values[i].count)
            continue;
        text_json_name(t, rows[i].name);
        write_values(&rows[i], &o->values[i], t);
    }
}

static const char *const source_names[] = {"not set", "default", "run.json", "checkpoint", "config", "command line"};

void options_print(const option_set *o, int json) {
    text_buffer t = {NULL, 0, 0};
    if (json)
        text_add(&t, "{", 1);
    for (size_t i = 0; i < COMMAND_COUNT(rows); i++) {
        const option_value *value = &o->values[i];
        if (!(rows[i].commands & o->command) || i == OPTION_HELP || i == OPTION_PRINT_CONFIG)
            continue;
        if (json) {
            text_json_name(&t, rows[i].name);
            text_format(&t, "{\"value\": ");
        } else {
            text_format(&t, "%-18s ", rows[i].name);
        }
        if (value->count)
            write_values(&rows[i], value, &t);
        else
            text_format(&t, json ? "null" : "-");
        text_format(&t, json ? ", \"source\": \"%s\"}" : "  (%s)\n", source_names[value->source]);
    }
    if (json)
        text_format(&t, "}\n");
    output_result(t.data, t.size);
    text_release(&t);
}

static void print_option_help(const option_row *row, text_buffer *t) {
    char argument[100], left[160];
    if (row->kind == KIND_CHOICE)
        list_choices(row->words, "|", "|", argument, sizeof argument);
    else
        snprintf(argument, sizeof argument, "%s", row->words);
    snprintf(left, sizeof left, "--%s%s%s", row->name, *argument ? " " : "", argument);
    text_format(t, "  %-32s %s", left, row->help);
    if (row->fallback && row->kind != KIND_FLAG)
        text_format(t, " (default: %s)", row->fallback);
    else if (row->fallback && *row->fallback == '1')
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
    for (size_t i = 0; i < COMMAND_COUNT(rows); i++) {
        if (rows[i].commands & command)
            print_option_help(&rows[i], &t);
    }
    text_format(&t, "\n--name VALUE or --name=VALUE; - and _ are the same.\n");
    output_result(t.data, t.size);
    text_release(&t);
}
