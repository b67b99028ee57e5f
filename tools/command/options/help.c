/* Help of options in commands where it differs from the table of options. */
#include "options/table.h"

#define TRAINS (OPTIONS_TRAIN | OPTIONS_PLAN)
#define GENERATES (OPTIONS_GENERATE | OPTIONS_CHAT)
#define PREDICTS (OPTIONS_PREDICT | OPTIONS_EMBED)
#define BENCHES_STEPS (OPTIONS_BENCH_STEP | OPTIONS_BENCH_MONITOR)
#define USES_TOKENIZER (OPTIONS_TOKENIZER_INSPECT | OPTIONS_TOKENIZER_ENCODE | OPTIONS_TOKENIZER_DECODE)

static const struct {
    option_id id;
    unsigned commands;
    const char *help;
} texts[] = {
    {OPTION_DATA, OPTIONS_TRAIN,
     "text files, tables, directories of them, - for standard input, or one token file; may be repeated (required)"},
    {OPTION_DATA, OPTIONS_EVAL,
     "text files, tables, directories of them, - for standard input, or one token file; may be repeated (required "
     "without --split)"},
    {OPTION_DATA, OPTIONS_PLAN, "training data; its tokenizer determines the vocabulary of an --init model"},
    {OPTION_DATA, OPTIONS_CHECK_SYSTEM, "data in the printed command (default: a text file in the current directory)"},
    {OPTION_MODEL, OPTIONS_CHECK_SYSTEM,
     "check this model directory, output directory or shape, and print its command"},
    {OPTION_INIT, OPTIONS_CHECK_SYSTEM, "check this shape, or the shape of a config.json, and print its command"},
    {OPTION_OUTPUT_DIR, OPTIONS_CHECK_SYSTEM, "output directory in the printed command"},
    {OPTION_DATA, OPTIONS_PACK | OPTIONS_TOKENIZER_TRAIN,
     "text files, tables, directories of them, or - for standard input; may be repeated (required)"},
    {OPTION_DATA, OPTIONS_TOKENIZER_ENCODE, "text files; may be repeated"},
    {OPTION_DATA, PREDICTS,
     "tables, text files with one sample per line, directories with one subdirectory per label, or - for standard "
     "input; may be repeated (required without --text)"},
    {OPTION_MODEL, OPTIONS_TRAIN,
     "model to start from: its directory, or an output directory (its best checkpoint, or the newest)"},
    {OPTION_MODEL, OPTIONS_EVAL | GENERATES | PREDICTS,
     "model directory, or output directory (its best checkpoint, or the newest) (required)"},
    {OPTION_MODEL, OPTIONS_PLAN | BENCHES_STEPS,
     "model directory, output directory (its best checkpoint, or the newest), or shape: gpt2, gpt2-medium, gpt2-large, "
     "gpt2-xl, distilgpt2, tiny, bert-base, bert-large, minilm, roberta-base, roberta-large, distilbert-base, or a "
     "config.json (default: gpt2)"},
    {OPTION_MODEL, OPTIONS_MERGE, "directory of the base model (default: the one named by the adapters)"},
    {OPTION_MODEL, OPTIONS_EXPORT, "directory or GGUF file of the model, or of the base model of the adapters"},
    {OPTION_VOCAB_SIZE, TRAINS,
     "vocabulary size of an --init model, and the maximum for a tokenizer that is trained for it (default: the "
     "tokenizer's, or that in config.json)"},
    {OPTION_VOCAB_SIZE, OPTIONS_TOKENIZER_TRAIN, "tokens in the vocabulary (default: 50257)"},
    {OPTION_TOKENIZER, TRAINS,
     "tokenizer.json, its directory, or bytes (default: the model's; with --init, one trained on the text)"},
    {OPTION_TOKENIZER, OPTIONS_EVAL, "tokenizer.json, its directory, or bytes (default: the model's, else bytes)"},
    {OPTION_TOKENIZER, GENERATES | PREDICTS, "tokenizer.json, its directory, or bytes (default: the model's)"},
    {OPTION_TOKENIZER, OPTIONS_EXPORT, "tokenizer.json, or its directory (default: the model's)"},
    {OPTION_TOKENIZER, OPTIONS_MERGE,
     "tokenizer.json, or its directory (default: the base model's, else the adapters')"},
    {OPTION_TOKENIZER, OPTIONS_PACK, "tokenizer.json, its directory, or bytes (default: bytes)"},
    {OPTION_TOKENIZER, USES_TOKENIZER, "tokenizer.json, its directory, or bytes (required)"},
    {OPTION_DROPOUT, TRAINS, "probability of all three dropouts (default: the model configuration's)"},
    {OPTION_DROPOUT, BENCHES_STEPS, "probability of all three dropouts (default: 0)"},
    {OPTION_ADAPTER, OPTIONS_MERGE,
     "adapters from eitp or PEFT: their directory, or an output directory (its best checkpoint, or the newest) "
     "(required)"},
    {OPTION_OUTPUT_DIR, OPTIONS_TRAIN, "directory of checkpoints, metrics.jsonl, run.json and packed data"},
    {OPTION_OUTPUT_DIR, OPTIONS_MERGE, "directory of the merged model (required)"},
    {OPTION_OUTPUT_DIR, OPTIONS_BENCH_MONITOR,
     "directory in which the run's directory is created, and removed at the end; needs space for one checkpoint "
     "(default: the current directory)"},
    {OPTION_MONITOR, OPTIONS_BENCH_MONITOR, "highest level to measure (default: full)"},
    {OPTION_LOG_FULL_EVERY, OPTIONS_BENCH_MONITOR,
     "the cost of full records is averaged over N steps; 0: the norms of parameter groups are never recorded"},
    {OPTION_METRICS_EVERY, OPTIONS_BENCH_MONITOR,
     "the cost of a window is averaged over N steps; 0: windows are never recorded"},
    {OPTION_OUTPUT_DIR, OPTIONS_SAFE_TRAIN,
     "output directory of the program after --; it is locked and gets the logs (required)"},
    {OPTION_STEPS, OPTIONS_TRAIN, "total optimizer steps; 0: set by --epochs"},
    {OPTION_STEPS, OPTIONS_BENCH_STEP, "steps to time (default: 5)"},
    {OPTION_STEPS, OPTIONS_BENCH_MONITOR,
     "pairs of steps per level, one of each pair without records (default: 40); the run has five times as many steps"},
    {OPTION_REPORT_TO, OPTIONS_BENCH_MONITOR,
     "comma-separated formats of the records that the run writes: jsonl, tensorboard, csv; or none (default: jsonl)"},
    {OPTION_BATCH_SIZE, TRAINS, "sequences per micro-batch (default: 1; 16 with --task classify, tokens or regress)"},
    {OPTION_BATCH_SIZE, OPTIONS_EVAL, "sequences to evaluate at a time"},
    {OPTION_GRAD_ACCUM, TRAINS, "micro-batches per step (default: 4; 1 with --task classify, tokens or regress)"},
    {OPTION_BLOCK_SIZE, OPTIONS_TOKENIZER_ENCODE,
     "with --special-tokens: cut the sequence to N tokens; 0: do not cut (default: the tokenizer's)"},
    {OPTION_BLOCK_SIZE, TRAINS,
     "tokens per sequence; longer rows and labelled samples are cut (default for text: the model's positions, halved "
     "down to 64 until an epoch has 64 steps and memory suffices; for rows and labelled samples: the tokenizer's "
     "longest sequence, else the positions); 0: the model's positions"},
    {OPTION_BLOCK_SIZE, BENCHES_STEPS,
     "tokens per sequence (default: 64, or the model's positions if fewer); 0: the model's positions"},
    {OPTION_BLOCK_SIZE, OPTIONS_EVAL,
     "tokens per sequence (default: the checkpoint's, else the model's positions; for rows and labelled samples, the "
     "tokenizer's longest sequence, else the model's positions); 0: the model's positions"},
    {OPTION_BLOCK_SIZE, PREDICTS,
     "maximum tokens per sequence; longer ones are cut (default: the tokenizer's); 0: the model's positions"},
    {OPTION_TEXT, PREDICTS, "a single input instead of --data"},
    {OPTION_PAIR, PREDICTS, "second text of a pair; --text is the first"},
    {OPTION_JSON, PREDICTS, "print a JSON object per input, one per line"},
    {OPTION_OUTPUT, OPTIONS_TOKENIZER_TRAIN, "directory of the tokenizer (required)"},
    {OPTION_OUTPUT, OPTIONS_PACK, "token file to write (required)"},
    {OPTION_OUTPUT, PREDICTS,
     "-o: write to this file instead of standard output; it is replaced when the output is complete"},
    {OPTION_COMPARE, OPTIONS_BENCH_KERNELS, "output of an earlier --json to compare with"},
    {OPTION_COMPARE, OPTIONS_BENCH_STEP,
     "output of an earlier --json to compare with; or several files of options to measure in alternation: --compare A "
     "B, or --compare A --compare B"},
    {OPTION_COMPARE, OPTIONS_PLAN, "two or more files of options to plan: --compare A B, or --compare A --compare B"},
    {OPTION_PROMPT, OPTIONS_CHAT, "one message: print the answer and exit"},
    {OPTION_TOKENS, OPTIONS_CHAT, "maximum tokens per answer (default: 512)"},
    {OPTION_TEMPERATURE, OPTIONS_CHAT,
     "below 1 favours likely tokens, above 1 unlikely ones; 0: always the most likely (default: 0.7)"},
    {OPTION_JSON, OPTIONS_CHAT, "print a JSON object per answer, one per line"},
    {OPTION_MIN_P, OPTIONS_CHAT,
     "sample from tokens with at least P times the probability of the most likely one (default: 0.05)"},
    {OPTION_SEED, GENERATES, "seed for sampling"},
    {OPTION_SEED, OPTIONS_EVAL, "with --emergence: seed for samples, retrieval, corruption, noise and generated text"},
    {OPTION_OUTPUT, OPTIONS_EVAL, "-o: file to which --emergence also writes its JSON"},
    {OPTION_OUTPUT, OPTIONS_REPORT,
     "-o: the page, or with --json, --csv or an analysis, a file instead of standard output (default: report.html in "
     "the run's directory)"},
    {OPTION_NICE, OPTIONS_SAFE_TRAIN, "lower the priority by N, as nice(1) does (default: 10)"},
};

const char *option_help(option_id id, unsigned command) {
    for (size_t i = 0; i < COMMAND_COUNT(texts); i++) {
        if (texts[i].id == id && (texts[i].commands & command))
            return texts[i].help;
    }
    return option_of(id)->help;
}
