#include "command_options.h"

#include "command_json.h"
#include "command_output.h"

typedef enum option_kind {
    KIND_FLAG,
    KIND_INTEGER,
    KIND_NUMBER,
    KIND_TEXT,
    KIND_LIST,
    KIND_CHOICE,  /* `words` are the choices, those after a "=" other spellings of the one before */
    KIND_PRECISION /* as KIND_CHOICE; `argument` further lists what is known and comes later */
} option_kind;

typedef struct option_row {
    const char *name;
    const char *aliases; /* "name name=value ...": one with a value is a flag that stands for the option with that value */
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
#define RUNS (OPTIONS_TRAIN | OPTIONS_EVAL | OPTIONS_GENERATE)
#define WITH_TOKENIZER (OPTIONS_EVERY & ~(unsigned)OPTIONS_TOKENIZER_TRAIN)

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
    {"model", "model-name model-name-or-path model-path", KIND_TEXT, 0, 0, NULL, "DIR", RUNS, 1,
     "model directory, or output directory (its newest checkpoint)"},
    {"init", "init-model model-shape", KIND_TEXT, 0, 0, NULL, "NAME", OPTIONS_TRAIN, 1,
     "random weights of gpt2, gpt2-medium, gpt2-large, gpt2-xl, distilgpt2, tiny, or a config.json"},
    {"vocab-size", "vocabulary-size", KIND_INTEGER, 1, 1 << 24, NULL, "N", OPTIONS_TRAIN | OPTIONS_TOKENIZER_TRAIN, 1,
     "tokens of the vocabulary (default: the shape's; tokenizer train: 50257)"},
    {"tokenizer", "tokenizer-name tokenizer-path", KIND_TEXT, 0, 0, NULL, "DIR", WITH_TOKENIZER, 1,
     "tokenizer.json, or its directory (default: the model's; else bytes)"},
    {"dropout", "", KIND_NUMBER, 0, 0.999, NULL, "P", OPTIONS_TRAIN, 1,
     "all three dropout probabilities (default: the configuration's)"},
    {"output-dir", "", KIND_TEXT, 0, 0, "eitp_results", "DIR", OPTIONS_TRAIN, 0,
     "checkpoints, metrics.jsonl, run.json and packed data"},
    {"resume", "resume-from-checkpoint auto-resume=auto", KIND_TEXT, 0, 0, NULL, "DIR|auto", OPTIONS_TRAIN, 0,
     "go on from a checkpoint; auto: from the newest in the output directory"},
    {"steps", "max-steps num-steps train-steps", KIND_INTEGER, 1, LARGEST, NULL, "N", OPTIONS_TRAIN, 1,
     "optimizer steps in all"},
    {"epochs", "num-epochs num-train-epochs", KIND_NUMBER, 0.000001, 1000000, NULL, "N", OPTIONS_TRAIN, 1,
     "passes over the data, where --steps is not given (default: 1)"},
    {"batch-size", "per-device-train-batch-size train-batch-size micro-batch-size", KIND_INTEGER, 1, 1 << 20, "1", "N",
     OPTIONS_TRAIN | OPTIONS_EVAL, 1, "sequences in a micro-batch"},
    {"block-size", "max-length max-sequence-length max-seq-length sequence-length seq-len", KIND_INTEGER, 0, 1 << 24,
     NULL, "N", OPTIONS_TRAIN | OPTIONS_EVAL, 1, "tokens in a sequence (default: 64; eval: the checkpoint's); 0: the model's positions"},
    {"grad-accum", "gradient-accumulation-steps gradient-accumulation accumulate-grad-batches", KIND_INTEGER, 1,
     1 << 20, "4", "N", OPTIONS_TRAIN, 1, "micro-batches in a step"},
    {"lr", "learning-rate", KIND_NUMBER, 0, 1000, NULL, "X", OPTIONS_TRAIN, 1,
     "peak learning rate (default: 5e-5 with --model, 3e-4 with --init)"},
    {"final-lr", "min-lr lr-end", KIND_NUMBER, 0, 1000, "0", "X", OPTIONS_TRAIN, 1,
     "learning rate that the schedule ends at"},
    {"lr-schedule", "lr-scheduler-type lr-scheduler schedule", KIND_CHOICE, 0, 0, "linear",
     "constant=constant-with-warmup linear cosine", OPTIONS_TRAIN, 1, "course of the learning rate after warm-up"},
    {"warmup-steps", "num-warmup-steps warmup", KIND_INTEGER, 0, LARGEST, "0", "N", OPTIONS_TRAIN, 1,
     "steps in which the learning rate rises to its peak"},
    {"weight-decay", "", KIND_NUMBER, 0, 1000, "0.01", "X", OPTIONS_TRAIN, 1,
     "AdamW's, of matrices and embeddings only"},
    {"beta1", "adam-beta1", KIND_NUMBER, 0, 0.999999, "0.9", "X", OPTIONS_TRAIN, 1, "AdamW's first decay rate"},
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
    {"save-total-limit", "keep-checkpoints", KIND_INTEGER, 0, LARGEST, "2", "N", OPTIONS_TRAIN, 1,
     "checkpoints that are kept; 0: all"},
    {"log-every", "logging-steps log-interval training-log-freq", KIND_INTEGER, 1, LARGEST, "10", "N", OPTIONS_TRAIN, 1,
     "steps between two lines where standard error is no terminal"},
    {"precision", "use-amp=fp16 fp16=fp16 bf16=bf16", KIND_PRECISION, 0, 0, "fp32", "fp32=32=f32=float32=32-true",
     OPTIONS_TRAIN, 1, "arithmetic and storage"},
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
    {"seed", "random-seed", KIND_INTEGER, 0, LARGEST, "0", "N", OPTIONS_TRAIN | OPTIONS_GENERATE, 1,
     "of weights, dropout, shuffling and sampling"},
    {"device", "", KIND_CHOICE, 0, 0, "auto", "auto cpu cuda=gpu null", RUNS, 0, "where to compute"},
    {"threads", "num-threads cpu-threads", KIND_INTEGER, 0, 4096, "0", "N", RUNS, 0,
     "0: one for each processor; results do not depend on it"},
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

/* Levenshtein's distance, at most 63. */
static size_t name_distance(const char *a, const char *b, size_t b_size) {
    size_t row[64], a_size = strlen(a);
    if (a_size > 62 || b_size > 62)
        return 63;
    for (size_t j = 0; j <= b_size; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_size; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            size_t best = diagonal + !names_equal((const char[]){0}, "", 0) + (a[i - 1] != b[j - 1]) - 1 + 1;
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
