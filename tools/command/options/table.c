#include "options/table.h"

#include "output.h"

#include <stdarg.h>

/* An option of the command. For a setting of the library the row has only the spellings and the commands. */
typedef struct option_row {
    const char *name;
    /* Other names, separated by spaces. "name=on|off" is a flag: true gives the option the value `on`, false `off`. */
    const char *aliases;
    option_kind kind;
    double low, high;
    const char *fallback; /* the default; NULL: none, or the library's for a setting; DEPENDS, OPEN */
    const char *words;    /* choices, or more spellings of a setting's choices; else the argument's name in --help */
    unsigned commands;
    int of_run;       /* recorded in run.json and read from there on resume */
    const char *help; /* for KIND_SETTING: appended to the library's help */
} option_row;

/* DEPENDS: a setting without a default; other options decide it. OPEN: the library's default means "not set". */
#define DEPENDS ""
#define OPEN "?"
#define LARGEST 9007199254740992.0 /* 2^53: integers up to here are exact as double */
#define LEAST_PROCESS 4194304.0    /* bytes of private memory; no run starts with less */
#define PREDICTS (OPTIONS_PREDICT | OPTIONS_EMBED)
#define PACKS (OPTIONS_TRAIN | OPTIONS_EVAL | OPTIONS_PACK)
#define READS_TEXT (PACKS | PREDICTS | OPTIONS_TOKENIZER_TRAIN)
#define READS_ROWS (OPTIONS_TRAIN | OPTIONS_EVAL | PREDICTS)
#define READS                                                                                                          \
    (OPTIONS_CHECK_SYSTEM | OPTIONS_TRAIN | OPTIONS_EVAL | OPTIONS_PLAN | OPTIONS_PACK | OPTIONS_TOKENIZER_TRAIN |     \
     OPTIONS_TOKENIZER_ENCODE)
#define FITS (OPTIONS_TRAIN | OPTIONS_PLAN)
#define GENERATES (OPTIONS_GENERATE | OPTIONS_CHAT)
#define RUNS (OPTIONS_TRAIN | OPTIONS_EVAL | GENERATES | PREDICTS)
#define ADAPTS (FITS | OPTIONS_BENCH_STEP)
#define BENCHES_STEPS (OPTIONS_BENCH_STEP | OPTIONS_BENCH_MONITOR)
#define BENCHES (OPTIONS_BENCH_KERNELS | BENCHES_STEPS)
#define WITH_TOKENIZER                                                                                                 \
    (OPTIONS_EVERY & ~(unsigned)(OPTIONS_TOKENIZER_TRAIN | BENCHES | OPTIONS_SET | OPTIONS_CHECK_SYSTEM |              \
                                 OPTIONS_SAFE_TRAIN | OPTIONS_INSPECT))
#define CONFIGURED                                                                                                     \
    (OPTIONS_EVERY & ~(unsigned)(OPTIONS_SET | OPTIONS_CHECK_SYSTEM | OPTIONS_SAFE_TRAIN | OPTIONS_INSPECT))
#define PRINTS_RESULT (OPTIONS_EVERY & ~(unsigned)OPTIONS_SAFE_TRAIN)

static const option_row rows[] = {
    {"data", "train-data train-file data-path dataset", KIND_SETTING, 0, 0, NULL, "PATH", READS | PREDICTS, 1,
     "; may be repeated"},
    {"val-data", "validation-data validation-file eval-data", KIND_SETTING, 0, 0, NULL, "PATH", OPTIONS_TRAIN, 1,
     "; may be repeated"},
    {"val-fraction", "validation-fraction val-split", KIND_SETTING, 0, 0, NULL, "F", OPTIONS_TRAIN, 1,
     " (default: 0.1; with --eval no: 0)"},
    {"split", "", KIND_CHOICE, 0, 0, NULL, "all training=train validation=val=eval", OPTIONS_EVAL, 0,
     "the part of the run's data to evaluate: its training data, its validation data, or all (default: all); without "
     "--data, the run's own data"},
    {"strict-utf8", "", KIND_SETTING, 0, 0, NULL, "", READS_TEXT, 1, ""},
    {"data-format", "", KIND_SETTING, 0, 0, NULL,
     "text=txt tsv=tab jsonl=json=ndjson conll=bio=iob chat=messages=sharegpt=alpaca", READS_TEXT, 1, ""},
    {"encoding", "file-encoding", KIND_SETTING, 0, 0, NULL, "NAME", READS_TEXT, 1, " (default: UTF-8)"},
    {"text-column", "text-field dataset-text-field", KIND_SETTING, 0, 0, NULL, "NAME", READS_TEXT, 1,
     " (default: text, or the only one of review, sentence, message, content; conll: 1)"},
    {"pair-column", "", KIND_SETTING, 0, 0, NULL, "NAME", READS_ROWS, 1, " (default: none)"},
    {"label-column", "", KIND_SETTING, 0, 0, NULL, "NAME", READS_ROWS, 1,
     " (default: label, or the only one of sentiment, target, category; conll: the last)"},
    {"weight-column", "sample-weight-column", KIND_SETTING, 0, 0, NULL, "NAME", OPTIONS_TRAIN | OPTIONS_EVAL, 1,
     " (default: none)"},
    {"delimiter", "", KIND_SETTING, 0, 0, NULL, "CHAR", READS_TEXT, 1,
     " (default: for CSV, the one that fits the first rows; for TSV, a tab)"},
    {"document-separator", "", KIND_SETTING, 0, 0, NULL, "TEXT", READS_TEXT, 1,
     " (default: % if the file has at least three such lines, as fortune files do)"},
    {"on-bad-row", "", KIND_SETTING, 0, 0, NULL, "stop=error=fail skip=warn", READS_TEXT, 1, ""},
    {"dedup", "deduplicate", KIND_SETTING, 0, 0, NULL, "", OPTIONS_TRAIN | OPTIONS_EVAL, 1, ""},
    {"shuffle", "", KIND_SETTING, 0, 0, NULL, "none=false=0 windows=true=1", OPTIONS_TRAIN, 1, ""},
    {"drop-last", "dataloader-drop-last", KIND_SETTING, 0, 0, NULL, "", OPTIONS_TRAIN, 1,
     " (otherwise its loss is the mean over its own tokens)"},
    {"data-workers", "dataloader-num-workers num-workers", KIND_SETTING, 0, 0, NULL, "N|auto",
     OPTIONS_TRAIN | BENCHES_STEPS, 1, "; auto: one per four processors, 1 to 16"},
    {"prefetch", "dataloader-prefetch-factor prefetch-factor", KIND_SETTING, 0, 0, NULL, "N",
     OPTIONS_TRAIN | BENCHES_STEPS, 1, ""},
    {"model", "model-name model-name-or-path model-path decoder decoder-name decoder-path", KIND_SETTING, 0, 0, NULL,
     "DIR", RUNS | OPTIONS_PLAN | BENCHES_STEPS | OPTIONS_MERGE | OPTIONS_EXPORT | OPTIONS_CHECK_SYSTEM, 1,
     "; plan, bench: or a shape (default: gpt2)"},
    {"init", "init-model model-shape", KIND_SETTING, 0, 0, NULL, "NAME", FITS | OPTIONS_CHECK_SYSTEM, 1,
     "; names are gpt2, gpt2-medium, gpt2-large, gpt2-xl, distilgpt2, tiny, bert-base, bert-large, minilm, "
     "roberta-base, roberta-large, distilbert-base, smollm2-135m, smollm2-360m, smollm2-1.7b, llama-3.2-1b, "
     "qwen2-0.5b, qwen2.5-1.5b, qwen3-0.6b, gemma-3-270m, gemma-3-1b, mistral-7b, vae-tiny, vae-small"},
    {"vocab-size", "vocabulary-size", KIND_SETTING, 0, 0, OPEN, "N", FITS | OPTIONS_TOKENIZER_TRAIN, 1, ""},
    {"layers", "num-layers n-layer n-layers num-hidden-layers", KIND_SETTING, 0, 0, OPEN, "N", FITS, 1, ""},
    {"heads", "num-heads n-head n-heads num-attention-heads", KIND_SETTING, 0, 0, OPEN, "N", FITS, 1, ""},
    {"width", "hidden-size n-embd d-model", KIND_SETTING, 0, 0, OPEN, "N", FITS, 1, ""},
    {"positions", "n-positions max-position-embeddings", KIND_SETTING, 0, 0, OPEN, "N", FITS, 1, ""},
    {"encoder", "encoder-name encoder-path", KIND_SETTING, 0, 0, NULL, "DIR|NAME", FITS, 1,
     "; --decoder is another name for --model"},
    {"latent-size", "latent-dim z-dim nz", KIND_SETTING, 0, 0, NULL, "N", FITS, 1, ""},
    {"latent-input", "", KIND_SETTING, 0, 0, NULL, "prefix=memory added=embedding", FITS, 1, ""},
    {"tokenizer", "tokenizer-name tokenizer-path", KIND_SETTING, 0, 0, NULL, "DIR", WITH_TOKENIZER, 1, ""},
    {"chat-template", "", KIND_SETTING, 0, 0, NULL, "FILE|NAME", OPTIONS_TRAIN | OPTIONS_EVAL | OPTIONS_CHAT, 1,
     " (default: the tokenizer's)"},
    {"chat-values", "chat-template-kwargs", KIND_SETTING, 0, 0, NULL, "JSON",
     OPTIONS_TRAIN | OPTIONS_EVAL | OPTIONS_CHAT, 1, ", such as '{\"enable_thinking\": false}'"},
    {"train-on", "", KIND_SETTING, 0, 0, NULL, "answers=assistant last-answer=last everything=all", OPTIONS_TRAIN, 1,
     ": every assistant turn with the token that ends it, only the last such turn, or every token"},
    {"show-data", "", KIND_INTEGER, 0, 1000000, "0", "N", OPTIONS_TRAIN, 0,
     "print the first N samples token by token as the model sees them, with the trained tokens marked, and exit"},
    {"task", "", KIND_SETTING, 0, 0, NULL,
     "lm=clm=causal-lm mlm=masked-lm classify=classification tokens=token-classification regress=regression "
     "vae=latent-variable",
     FITS | BENCHES_STEPS, 1, ""},
    {"labels", "problem-type", KIND_SETTING, 0, 0, NULL,
     "single=single-label-classification several=multi-label-classification", OPTIONS_TRAIN, 1, ""},
    {"mlm-probability", "", KIND_SETTING, 0, 0, NULL, "P", OPTIONS_TRAIN, 1, ", with --task mlm"},
    {"whole-words", "whole-word-masking wwm", KIND_SETTING, 0, 0, NULL, "", OPTIONS_TRAIN, 1,
     ", with --task mlm; for WordPiece tokenizers"},
    {"label-smoothing", "label-smoothing-factor", KIND_SETTING, 0, 0, NULL, "X", FITS, 1,
     ", with --task classify or tokens"},
    {"class-weights", "", KIND_SETTING, 0, 0, NULL, "WEIGHTS", OPTIONS_TRAIN, 1, ", with --task classify or tokens"},
    {"kl-weight", "beta", KIND_SETTING, 0, 0, NULL, "X", OPTIONS_TRAIN, 1, ", with --task vae"},
    {"kl-anneal", "", KIND_SETTING, 0, 0, NULL, "none linear cyclical=cyclic", OPTIONS_TRAIN, 1, ""},
    {"kl-anneal-steps", "", KIND_SETTING, 0, 0, NULL, "N", OPTIONS_TRAIN, 1, ""},
    {"kl-cycles", "", KIND_SETTING, 0, 0, NULL, "N", OPTIONS_TRAIN, 1, ""},
    {"free-bits", "dim-target-kl", KIND_SETTING, 0, 0, NULL, "X", OPTIONS_TRAIN, 1, ", with --task vae"},
    {"target-rate", "", KIND_SETTING, 0, 0, NULL, "X", OPTIONS_TRAIN, 1, ", with --task vae"},
    {"word-dropout", "", KIND_SETTING, 0, 0, NULL, "P", OPTIONS_TRAIN, 1, ", with --task vae"},
    {"importance-samples", "iw-samples", KIND_SETTING, 0, 0, NULL, "N", OPTIONS_TRAIN | OPTIONS_EVAL, 1,
     ", with a model of --task vae"},
    {"dropout", "", KIND_SETTING, 0, 0, OPEN, "P", FITS | BENCHES_STEPS, 1, ""},
    {"lora-rank", "lora-r", KIND_SETTING, 0, 0, NULL, "R", ADAPTS, 1, ""},
    {"lora-alpha", "", KIND_SETTING, 0, 0, OPEN, "A", ADAPTS, 1, ""},
    {"lora-dropout", "", KIND_SETTING, 0, 0, NULL, "P", ADAPTS, 1, ""},
    {"lora-targets", "lora-target-modules target-modules", KIND_SETTING, 0, 0, NULL, "NAMES", ADAPTS, 1,
     " (default: PEFT's: c_attn, or query,value)"},
    {"lora-modules-to-save", "modules-to-save", KIND_SETTING, 0, 0, NULL, "NAMES", ADAPTS, 1, " (default: none)"},
    {"lora-rslora", "use-rslora", KIND_SETTING, 0, 0, NULL, "", ADAPTS, 1, ""},
    {"freeze", "", KIND_SETTING, 0, 0, NULL, "PARTS", FITS, 1, ""},
    {"adapter", "adapter-path lora-adapter", KIND_TEXT, 0, 0, NULL, "DIR",
     OPTIONS_EVAL | GENERATES | PREDICTS | OPTIONS_MERGE | OPTIONS_EXPORT, 0,
     "adapters for the model, from eitp or PEFT: their directory, or an output directory (its best checkpoint, or the "
     "newest)"},
    {"output-dir", "", KIND_SETTING, 0, 0, "eitp_results", "DIR",
     OPTIONS_TRAIN | OPTIONS_MERGE | OPTIONS_CHECK_SYSTEM | OPTIONS_SAFE_TRAIN | OPTIONS_BENCH_MONITOR, 0, ""},
    {"overwrite-output-dir", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_TRAIN, 0,
     "start a new run in an output directory that already has one; the old run is moved to its subdirectory "
     "replaced-N"},
    {"resume", "resume-from-checkpoint auto-resume=auto|no", KIND_TEXT, 0, 0, NULL, "DIR|auto", OPTIONS_TRAIN, 0,
     "resume from a checkpoint; auto: from the newest complete one in the output directory, or start a new run if "
     "there is none"},
    {"steps", "max-steps num-steps train-steps", KIND_SETTING, 0, 0, DEPENDS, "N", OPTIONS_TRAIN | BENCHES_STEPS, 1,
     ""},
    {"epochs", "num-epochs num-train-epochs max-epochs", KIND_SETTING, 0, 0, DEPENDS, "N", OPTIONS_TRAIN, 1,
     " (default: 1)"},
    {"batch-size", "per-device-train-batch-size train-batch-size micro-batch-size", KIND_SETTING, 0, 0, NULL, "N",
     FITS | OPTIONS_EVAL | BENCHES_STEPS, 1, ""},
    {"block-size", "max-length max-sequence-length max-seq-length sequence-length seq-len", KIND_SETTING, 0, 0, OPEN,
     "N", FITS | OPTIONS_EVAL | BENCHES_STEPS | OPTIONS_TOKENIZER_ENCODE | PREDICTS, 1, ""},
    {"grad-accum", "gradient-accumulation-steps gradient-accumulation accumulate-grad-batches", KIND_SETTING, 0, 0,
     NULL, "N", FITS | BENCHES_STEPS, 1, ""},
    {"lr", "learning-rate", KIND_SETTING, 0, 0, DEPENDS, "X", OPTIONS_TRAIN, 1, ""},
    {"final-lr", "min-lr lr-end", KIND_SETTING, 0, 0, NULL, "X", OPTIONS_TRAIN, 1, ""},
    {"lr-schedule", "lr-scheduler-type lr-scheduler schedule", KIND_SETTING, 0, 0, NULL,
     "constant=constant-with-warmup plateau=reduce-lr-on-plateau=ReduceLROnPlateau", OPTIONS_TRAIN, 1, ""},
    {"lr-cycles", "num-cycles lr-num-cycles", KIND_SETTING, 0, 0, NULL, "N", OPTIONS_TRAIN, 1, ""},
    {"plateau-factor", "", KIND_SETTING, 0, 0, NULL, "X", OPTIONS_TRAIN, 1, ""},
    {"plateau-patience", "", KIND_SETTING, 0, 0, NULL, "N", OPTIONS_TRAIN, 1, ""},
    {"plateau-threshold", "", KIND_SETTING, 0, 0, NULL, "X", OPTIONS_TRAIN, 1, ""},
    {"plateau-cooldown", "", KIND_SETTING, 0, 0, NULL, "N", OPTIONS_TRAIN, 1, ""},
    {"warmup-steps", "num-warmup-steps warmup", KIND_SETTING, 0, 0, NULL, "N", OPTIONS_TRAIN, 1, ""},
    {"warmup-from-zero", "", KIND_SETTING, 0, 0, NULL, "", OPTIONS_TRAIN, 1, ""},
    {"warmup-ratio", "warmup-fraction", KIND_SETTING, 0, 0, OPEN, "X", OPTIONS_TRAIN, 0, ""},
    {"weight-decay", "", KIND_SETTING, 0, 0, DEPENDS, "X", OPTIONS_TRAIN, 1, ""},
    {"beta1", "adam-beta1 momentum sgd-momentum", KIND_SETTING, 0, 0, NULL, "X", OPTIONS_TRAIN, 1, ""},
    {"beta2", "adam-beta2", KIND_SETTING, 0, 0, NULL, "X", OPTIONS_TRAIN, 1, ""},
    {"epsilon", "adam-epsilon eps", KIND_SETTING, 0, 0, NULL, "X", OPTIONS_TRAIN, 1, ""},
    {"max-grad-norm", "grad-clip gradient-clip gradient-clip-val gradient-clipping clip", KIND_SETTING, 0, 0, NULL, "X",
     OPTIONS_TRAIN, 1, ""},
    {"objective", "", KIND_SETTING, 0, 0, NULL, "eitp-safe=safe eitp-paper=paper", FITS | BENCHES_STEPS, 1,
     "; each regularizer NAME below also has --NAME-weight, -every, -start, -warmup and -target; see "
     "docs/objective.md"},
    {"self-repair", "", KIND_SETTING, 0, 0, NULL, "loss=kl=denoise", FITS | BENCHES_STEPS, 1,
     "; kl or denoise: loss, with this --self-repair-form"},
    {"spike-threshold", "", KIND_SETTING, 0, 0, NULL, "X", OPTIONS_TRAIN, 1, ""},
    {"skip-spikes", "", KIND_SETTING, 0, 0, NULL, "", OPTIONS_TRAIN, 1, ""},
    {"max-nonfinite", "max-bad-steps", KIND_SETTING, 0, 0, NULL, "N", OPTIONS_TRAIN, 1, ""},
    {"check-finite", "detect-anomaly=op|", KIND_SETTING, 0, 0, NULL, "no=none=false", OPTIONS_TRAIN, 0, ""},
    {"eval", "eval-strategy evaluation-strategy do-eval=steps|no", KIND_CHOICE, 0, 0, NULL,
     "no=none=false steps=true epoch", OPTIONS_TRAIN, 1,
     "when to validate: never; every --eval-steps; or every --eval-every-frac of an epoch (default: steps)"},
    {"eval-steps", "eval-every", KIND_SETTING, 0, 0, NULL, "N", OPTIONS_TRAIN, 1, ""},
    {"eval-every-frac", "val-check-interval", KIND_SETTING, 0, 0, OPEN, "F", OPTIONS_TRAIN, 1,
     " (default with --eval epoch: 1)"},
    {"eval-windows", "", KIND_SETTING, 0, 0, NULL, "N", OPTIONS_TRAIN | OPTIONS_EVAL, 1, ""},
    {"eval-frac", "limit-val-batches", KIND_SETTING, 0, 0, OPEN, "F", OPTIONS_TRAIN | OPTIONS_EVAL, 1, ""},
    {"emergence", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_EVAL, 0,
     "measure more than the loss on --eval-windows samples (default: 64): calibration, retrieval over distances, "
     "hidden states, attention, spectra, robustness, generated text"},
    {"reference-model", "", KIND_TEXT, 0, 0, NULL, "PATH", OPTIONS_EVAL, 0,
     "with --emergence: another model that measures the perplexity of the generated text: a model directory, or an "
     "output directory (its best checkpoint, or the newest)"},
    {"save-strategy", "", KIND_CHOICE, 0, 0, NULL, "no=none=false steps=true epoch", OPTIONS_TRAIN, 1,
     "when to write checkpoints: only at the end of the run; every --save-steps; or at the end of each epoch (default: "
     "steps)"},
    {"save-steps", "save-every checkpoint-steps", KIND_SETTING, 0, 0, NULL, "N", OPTIONS_TRAIN, 1, ""},
    {"save-seconds", "", KIND_SETTING, 0, 0, NULL, "X", OPTIONS_TRAIN, 1, ""},
    {"async-save", "", KIND_SETTING, 0, 0, NULL, "no=false", OPTIONS_TRAIN, 1, "; no: training waits for each save"},
    {"save-total-limit", "keep-checkpoints", KIND_SETTING, 0, 0, NULL, "N", OPTIONS_TRAIN, 1, ""},
    {"save-dtype", "", KIND_SETTING, 0, 0, NULL, "auto=none f32=fp32=float32 bf16=bfloat16 f16=fp16=float16=half",
     FITS | OPTIONS_MERGE, 1, ""},
    {"post-save-cmd", "", KIND_TEXT, 0, 0, NULL, "CMD", OPTIONS_TRAIN, 1,
     "shell command to run in the background after each checkpoint, such as a copy to another disk; its environment "
     "has EITP_CHECKPOINT and EITP_STEP; at the end the run waits for it, unless you press Ctrl-C"},
    {"on-event-cmd", "", KIND_TEXT, 0, 0, NULL, "CMD", OPTIONS_TRAIN, 1,
     "shell command to run in the background for each alarm, overheating, memory shortage, disk problem, divergence "
     "and the end of the run; its environment has EITP_EVENT, EITP_MESSAGE, EITP_STEP, EITP_OUTPUT_DIR, EITP_ALARM and "
     "EITP_EXIT_REASON"},
    {"backup-steps", "", KIND_INTEGER, 0, LARGEST, "0", "N", OPTIONS_TRAIN, 1,
     "run --post-save-cmd only for the first checkpoint in every N steps; 0: for each"},
    {"keep-best", "metric-for-best-model load-best-model-at-end=~loss|", KIND_SETTING, 0, 0, NULL, "NAME",
     OPTIONS_TRAIN, 1, ""},
    {"patience", "early-stopping-patience", KIND_SETTING, 0, 0, NULL, "N", OPTIONS_TRAIN, 1, ""},
    {"log-every", "logging-steps log-steps log-interval log-freq training-log-freq", KIND_SETTING, 0, 0, NULL, "N",
     OPTIONS_TRAIN, 1,
     ", and between two log lines when standard error is not a terminal; metrics.jsonl has every step"},
    {"report-to", "report", KIND_SETTING, 0, 0, NULL, "LIST", OPTIONS_TRAIN | OPTIONS_BENCH_MONITOR, 1,
     "; all: all of them"},
    {"log-dir", "logging-dir tensorboard-dir tensorboard-log-dir", KIND_SETTING, 0, 0, NULL, "DIR", OPTIONS_TRAIN, 1,
     "; EITP_LOG_DIR in the environment sets it too"},
    {"log-flush-seconds", "log-flush-secs tensorboard-flush-secs flush-secs", KIND_SETTING, 0, 0, NULL, "X",
     OPTIONS_TRAIN, 1, ""},
    {"precision", "amp=fp16|fp32 use-amp=fp16|fp32 fp16=fp16|fp32 bf16=bf16|fp32", KIND_SETTING, 0, 0, NULL,
     "fp32=32=f32=float32=32-true bf16=bf16-mixed=bf16-true=bfloat16 fp16=16-mixed=16-true=16=f16=float16=half",
     RUNS | OPTIONS_PLAN | BENCHES, 1, ""},
    {"tf32", "allow-tf32", KIND_SETTING, 0, 0, NULL, "", RUNS | OPTIONS_PLAN | BENCHES, 1, ""},
    {"micro-batches-per-pass", "merge", KIND_SETTING, 0, 0, NULL, "N", FITS | BENCHES_STEPS, 1, ""},
    {"dense-rows", "", KIND_SETTING, 0, 0, NULL, "", FITS | BENCHES_STEPS, 1, ""},
    {"optimizer", "optim", KIND_SETTING, 0, 0, NULL, "", FITS | BENCHES_STEPS, 1, ""},
    {"recompute", "gradient-checkpointing=layer|none activation-checkpointing=layer|none", KIND_SETTING, 0, 0, NULL,
     "attention=attn layer=block", FITS | BENCHES_STEPS, 0, ""},
    {"offload", "stream", KIND_SETTING, 0, 0, NULL, "none=no=false states=optimizer", FITS, 1,
     "; heavy writes to the file wear out a disk"},
    {"offload-file", "stream-file", KIND_SETTING, 0, 0, NULL, "PATH", OPTIONS_TRAIN, 1,
     " (default: in the output directory; on a GPU the host's memory, not a file)"},
    {"profile", "preset", KIND_CHOICE, 0, 0, "none",
     "none=no auto low-memory safe full tiny quick max=maximum low-ram=memory-limited debug", FITS, 0,
     "defaults for batch x length x accumulation: auto is the largest of full (8 x 512 x 1), safe (4 x 256 x 4) and "
     "low-memory (1 x 128 x 16, with the least memory) that fits; tiny (1 x 32 x 4, distilgpt2, no evaluation), quick "
     "and max (4 x 1000 x 2), low-ram (2 x 500 x 2), debug (1 x 100 x 2)"},
    {"presets", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_PLAN, 0, "compare the profiles low-memory, safe and full"},
    {"memory-budget", "max-memory", KIND_SETTING, 0, 0, DEPENDS, "SIZE",
     FITS | BENCHES_STEPS | OPTIONS_CHECK_SYSTEM | PREDICTS | OPTIONS_MERGE | OPTIONS_EXPORT, 0, ""},
    {"gpu-memory-budget", "max-gpu-memory", KIND_SETTING, 0, 0, DEPENDS, "SIZE", FITS | BENCHES_STEPS, 0, ""},
    {"gpu-mem-max", "", KIND_SETTING, 0, 0, NULL, "P", FITS | BENCHES_STEPS, 0, ""},
    {"pin-memory", "dataloader-pin-memory", KIND_SETTING, 0, 0, NULL, "", OPTIONS_TRAIN, 1, ""},
    {"auto-shrink", "", KIND_SETTING, 0, 0, NULL, "", OPTIONS_TRAIN, 0,
     " (default: only with --profile low-memory, safe, tiny or low-ram)"},
    {"cpu-mem-warn", "", KIND_SETTING, 0, 0, NULL, "P", OPTIONS_TRAIN, 0, ""},
    {"cpu-mem-max", "", KIND_SETTING, 0, 0, NULL, "P", OPTIONS_TRAIN, 0, "; if set, it also triggers --auto-shrink"},
    {"temp-max", "", KIND_SETTING, 0, 0, NULL, "C", OPTIONS_TRAIN, 0, ""},
    {"oom-score-adj", "", KIND_INTEGER, 0, 1000, "500", "N", OPTIONS_TRAIN, 0,
     "oom_score_adj of the run: the higher, the sooner the kernel kills it rather than other programs when memory runs "
     "out; never lowered; 0: unchanged"},
    {"nice", "", KIND_INTEGER, 0, 19, NULL, "N", OPTIONS_TRAIN | OPTIONS_SAFE_TRAIN, 0,
     "lower the priority by N, as nice(1) does (default: 0)"},
    {"spare-core", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_TRAIN, 0,
     "leave one processor free for other programs if there are more than two and --threads is 0"},
    {"deepspeed-config", "deepspeed ds-config", KIND_TEXT, 0, 0, NULL, "FILE", FITS, 0,
     "DeepSpeed configuration to read batch sizes, precision, clipping, optimizer and schedule from"},
    {"prompt", "", KIND_TEXT, 0, 0, NULL, "TEXT", GENERATES, 0, "text to continue"},
    {"prompt-file", "", KIND_TEXT, 0, 0, NULL, "FILE", OPTIONS_GENERATE, 0,
     "file with the text to continue (default: standard input)"},
    {"reconstruct", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_GENERATE, 0,
     "with a --task vae model: encode the text, and generate from the mean of its latent variable"},
    {"interpolate", "", KIND_LIST, 0, 0, NULL, "A B", OPTIONS_GENERATE, 0,
     "with a --task vae model: generate from --samples (5) points between the latent means of two inputs"},
    {"tokens", "max-new-tokens num-tokens", KIND_INTEGER, 0, LARGEST, "64", "N", GENERATES, 0,
     "maximum number of tokens to generate"},
    {"temperature", "", KIND_NUMBER, 0, 1000, "1", "X", GENERATES, 0,
     "below 1 favours likely tokens, above 1 unlikely ones; 0: always the most likely"},
    {"top-k", "", KIND_INTEGER, 0, 1 << 24, "0", "K", GENERATES, 0, "sample from the K most likely tokens; 0: all"},
    {"top-p", "", KIND_NUMBER, 0, 1, "1", "P", GENERATES, 0,
     "sample from the most likely tokens whose probabilities add up to P"},
    {"min-p", "", KIND_NUMBER, 0, 1, "0", "P", GENERATES, 0,
     "sample from tokens with at least P times the probability of the most likely one"},
    {"system", "system-prompt", KIND_TEXT, 0, 0, NULL, "TEXT", OPTIONS_CHAT, 0,
     "system prompt: text that the model gets before the conversation"},
    {"context", "context-length n-ctx", KIND_INTEGER, 1, 1 << 24, NULL, "N", OPTIONS_CHAT, 0,
     "context length: tokens of the conversation that the model sees (default: 4096, or its positions if fewer)"},
    {"samples", "num-samples num-return-sequences", KIND_INTEGER, 1, LARGEST, "1", "N", OPTIONS_GENERATE, 0,
     "number of samples to generate; sample n uses seed + n - 1"},
    {"echo", "", KIND_FLAG, 0, 1, "1", "", OPTIONS_GENERATE, 0, "print the prompt before its continuation"},
    {"text", "", KIND_TEXT, 0, 0, NULL, "TEXT", OPTIONS_TOKENIZER_ENCODE | PREDICTS, 0,
     "text to encode (default: --data, else standard input)"},
    {"pair", "text-pair", KIND_TEXT, 0, 0, NULL, "TEXT", OPTIONS_TOKENIZER_ENCODE | PREDICTS, 0,
     "second text of a sequence; requires --special-tokens"},
    {"special-tokens", "add-special-tokens", KIND_FLAG, 0, 1, "0", "", OPTIONS_TOKENIZER_ENCODE, 0,
     "encode as model input: add special tokens around the text and cut it to the tokenizer's longest sequence"},
    {"truncation", "", KIND_CHOICE, 0, 0, NULL,
     "longest-first=longest only-first=first only-second=second none=no=false", OPTIONS_TOKENIZER_ENCODE | PREDICTS, 0,
     "which text to cut; none: a sequence that is too long is an error (default: the tokenizer's)"},
    {"pooling", "", KIND_CHOICE, 0, 0, NULL,
     "mean=mean-tokens cls=cls-token=first max=max-tokens last=lasttoken mean-sqrt-len=mean-sqrt-len-tokens",
     OPTIONS_EMBED, 0,
     "how hidden states are pooled into an embedding (default: as in 1_Pooling of the model directory, else mean)"},
    {"normalize", "normalize-embeddings", KIND_FLAG, 0, 1, "1", "", OPTIONS_EMBED, 0,
     "scale embeddings to unit length"},
    {"pass-tokens", "", KIND_INTEGER, 1, 1 << 24, NULL, "N", PREDICTS, 0,
     "tokens computed at a time; does not change results (default: 2048, or as many as fit in memory)"},
    {"with-text", "", KIND_FLAG, 0, 1, "0", "", PREDICTS, 0,
     "repeat the input on its output line: in the last columns, or in JSON as \"text\" and \"pair\""},
    {"min-frequency", "minimum-frequency", KIND_INTEGER, 0, LARGEST, "2", "N", OPTIONS_TOKENIZER_TRAIN, 0,
     "merge pairs that occur at least this often"},
    {"family", "", KIND_CHOICE, 0, 0, "gpt2", "gpt2 roberta", OPTIONS_TOKENIZER_TRAIN, 0,
     "special tokens: gpt2: <|endoftext|>; roberta: tokens around each text sample, as classifiers and masked models "
     "need them"},
    {"output", "out", KIND_TEXT, 0, 0, NULL, "PATH",
     OPTIONS_TOKENIZER_TRAIN | OPTIONS_PACK | OPTIONS_REPORT | OPTIONS_EVAL | PREDICTS | OPTIONS_EXPORT, 0,
     "-o: file to write (required)"},
    {"type", "outtype", KIND_CHOICE, 0, 0, "f16", "f32 f16=fp16 bf16 q8_0 q4_0 q4_k_m", OPTIONS_EXPORT, 0,
     "type of the matrices, with the exceptions that llama-quantize makes"},
    {"adapter-only", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_EXPORT, 0,
     "write only the adapters, in F32, for llama.cpp's --lora"},
    {"modelfile", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_EXPORT, 0,
     "also write a Modelfile for Ollama in the same directory, with the chat template in its language"},
    {"max-restarts", "", KIND_INTEGER, 0, LARGEST, "3", "N", OPTIONS_SAFE_TRAIN, 0,
     "number of restarts without a new checkpoint before safe-train gives up"},
    {"restart-delay", "", KIND_NUMBER, 0, 86400, "30", "SECONDS", OPTIONS_SAFE_TRAIN, 0,
     "time before a restart; doubles with each restart without a new checkpoint, up to 10 minutes"},
    {"restart-args", "", KIND_TEXT, 0, 0, NULL, "TEXT", OPTIONS_SAFE_TRAIN, 0,
     "arguments to add to the command on a restart, separated by spaces; train gets --resume auto automatically"},
    {"stall-timeout", "", KIND_NUMBER, 0, 1e9, NULL, "SECONDS", OPTIONS_SAFE_TRAIN, 0,
     "stop and restart the command if it records no step, evaluation or save for this long (without records: if it "
     "prints nothing); 0: never (default: 20 times the median step, at least 5 minutes; without records 0)"},
    {"kill-after", "", KIND_NUMBER, 0, 86400, "60", "SECONDS", OPTIONS_SAFE_TRAIN, 0,
     "time that a stalled command gets to exit after SIGTERM, before SIGKILL"},
    {"memory-limit", "", KIND_SIZE, LEAST_PROCESS, LARGEST, NULL, "SIZE", OPTIONS_SAFE_TRAIN, 0,
     "limit of the command's private memory (RLIMIT_DATA), such as 900M or 1.5Gi (default: none)"},
    {"background", "daemon", KIND_FLAG, 0, 1, "0", "", OPTIONS_SAFE_TRAIN, 0,
     "print the process ID and the log's path, and detach from the terminal"},
    {"pid", "", KIND_INTEGER, 1, LARGEST, NULL, "N", OPTIONS_MONITOR, 0, "monitor the run with this process ID"},
    {"once", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_MONITOR, 0, "print the state as plain lines and exit"},
    {"interval", "", KIND_NUMBER, 0.1, 86400, "5", "SECONDS", OPTIONS_MONITOR, 0, "time between updates"},
    {"count", "", KIND_INTEGER, 1, LARGEST, NULL, "N", OPTIONS_MONITOR, 0, "exit after N updates"},
    {"log", "", KIND_TEXT, 0, 0, NULL, "FILE", OPTIONS_MONITOR, 0, "append the state to FILE at each update"},
    {"ascii", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_MONITOR, 0,
     "draw with ASCII characters even on a Unicode terminal"},
    {"memory-warn", "mem-warn", KIND_NUMBER, 0, 100, "85", "P", OPTIONS_MONITOR, 0,
     "warn when more than P percent of the memory of the machine or of the control group is in use; 0: never"},
    {"processor-warn", "cpu-warn", KIND_NUMBER, 0, 100, "0", "P", OPTIONS_MONITOR, 0,
     "warn when processors are more than P percent busy, which is normal during training; 0: never"},
    {"bottleneck", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_REPORT, 0, "print what limits the speed of the run"},
    {"trend", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_REPORT, 0, "print whether steps became slower, with statistics"},
    {"plot-every", "", KIND_INTEGER, 1, LARGEST, NULL, "N", OPTIONS_REPORT, 0,
     "draw one point for every N steps (default: as many points as fit on the page)"},
    {"smoothing", "smooth", KIND_NUMBER, 0, 0.999, NULL, "X", OPTIONS_REPORT, 0,
     "weight of earlier values in the smoothed curve; 0: none (default: depends on the number of points)"},
    {"log-scale", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_REPORT, 0, "use a logarithmic loss axis"},
    {"x", "x-axis", KIND_CHOICE, 0, 0, "step", "step tokens time", OPTIONS_REPORT, 0, "the horizontal axis"},
    {"follow", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_LOGS, 0, "keep printing new records until the run ends"},
    {"last", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_LOGS, 0, "print the newest log of safe-train"},
    {"sizes", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_LOGS, 0, "list the files of a run with their sizes"},
    {"columns", "", KIND_TEXT, 0, 0, NULL, "A,B,...", OPTIONS_LOGS, 0, "columns of the table, by name"},
    {"sort", "", KIND_TEXT, 0, 0, NULL, "COLUMN", OPTIONS_LOGS, 0, "sort runs by a column; -COLUMN: descending"},
    {"side-by-side", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_LOGS, 0,
     "show two runs side by side, step by step: loss and val_loss, or --columns"},
    {"csv", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_REPORT | OPTIONS_LOGS, 0, "print the result as CSV"},
    {"filter", "", KIND_TEXT, 0, 0, NULL, "WORD", OPTIONS_BENCH_KERNELS | OPTIONS_LOGS, 0,
     "only kernels, or lines, with WORD in them"},
    {"seconds", "", KIND_NUMBER, 0, 3600, "0.2", "X", OPTIONS_BENCH_KERNELS, 0,
     "time each kernel for at least X seconds"},
    {"compare", "", KIND_LIST, 0, 0, NULL, "FILE",
     OPTIONS_BENCH_KERNELS | OPTIONS_BENCH_STEP | OPTIONS_PLAN | OPTIONS_REPORT, 0,
     "print how the runs differ from the first; with --output: write a page with all of them"},
    {"sweep", "", KIND_TEXT, 0, 0, NULL, "NAME[=A,B,...]", OPTIONS_BENCH_STEP, 0,
     "measure each value of an option, such as batch-size=1,2,4; without values, common ones, or doubling up to the "
     "memory budget"},
    {"matrix", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_BENCH_STEP, 0,
     "measure each switch alone (precision, recompute, threads, batch, block, accumulation, optimizer, data workers), "
     "alternating with the baseline; tokens/s of the baseline are shown next to each"},
    {"monitor", "lightweight-mode=light|full minimal-mode=light|", KIND_SETTING, 0, 0, NULL, "",
     OPTIONS_TRAIN | OPTIONS_BENCH_MONITOR, 1, ""},
    {"monitor", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_SAFE_TRAIN, 0,
     "run in the background with eitp monitor in the foreground; quitting the monitor does not stop the command"},
    {"log-full-every", "", KIND_SETTING, 0, 0, NULL, "N", OPTIONS_TRAIN | OPTIONS_BENCH_MONITOR, 1, ""},
    {"spot-samples", "", KIND_SETTING, 0, 0, NULL, "N", OPTIONS_TRAIN, 1, ""},
    {"metrics-every", "", KIND_SETTING, 0, 0, NULL, "N", OPTIONS_TRAIN | OPTIONS_BENCH_MONITOR, 1, ""},
    {"metrics", "fast-detection=fast|standard disable-metrics-monitoring=off|", KIND_CHOICE, 0, 0, NULL,
     "fast standard off", OPTIONS_TRAIN, 0,
     "--monitor full with --log-full-every 100 --metrics-every 1000 (fast), 200 and 2000 (standard), or --monitor "
     "light"},
    {"seed", "random-seed", KIND_SETTING, 0, 0, NULL, "N", OPTIONS_TRAIN | GENERATES | OPTIONS_EVAL, 1,
     ", initial weights, the validation split of labelled data, and the windows of --eval-windows"},
    {"device", "", KIND_SETTING, 0, 0, NULL, "DEVICE",
     RUNS | OPTIONS_PLAN | BENCHES | OPTIONS_MERGE | OPTIONS_EXPORT | OPTIONS_CHECK_SYSTEM, 0, ""},
    {"threads", "num-threads cpu-threads", KIND_SETTING, 0, 0, NULL, "N",
     RUNS | OPTIONS_PLAN | BENCHES | OPTIONS_MERGE | OPTIONS_EXPORT | OPTIONS_CHECK_SYSTEM, 0, ""},
    {"config", "", KIND_TEXT, 0, 0, NULL, "FILE", CONFIGURED, 0,
     "JSON or YAML file (.yaml, .yml; needs libyaml) of options with these names"},
    {"print-config", "", KIND_FLAG, 0, 1, "0", "", CONFIGURED, 0,
     "print each option's value and where it comes from, and exit"},
    {"json", "", KIND_FLAG, 0, 1, "0", "", PRINTS_RESULT, 0, "print the result as one JSON object"},
    {"quiet", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_EVERY, 0, "-q: print only warnings and errors"},
    {"verbose", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_EVERY, 0, "-v: print details"},
    {"help", "", KIND_FLAG, 0, 1, "0", "", OPTIONS_EVERY, 0, "-h: print this text"},
};

typedef char option_rows_are_complete[COMMAND_COUNT(rows) == OPTION_COUNT ? 1 : -1];

/* Settings that are not options: other options determine them. */
static const char *const derived[] = {"schedule_steps",       "last_sample",  "least_memory", "save_every_epochs",
                                      "memory_check_seconds", "cpu_mem_acts", "gpu_mem_warn"};

/* ---- Names ---- */

int option_names_equal(const char *a, const char *b, size_t size) {
    size_t i = 0;
    for (; a[i] && i < size; i++) {
        if ((a[i] == '_' ? '-' : a[i]) != (b[i] == '_' ? '-' : b[i]))
            return 0;
    }
    return !a[i] && i == size;
}

/* Reads the next word of a list of words separated by spaces. Returns 0 at the end. */
int option_next_word(const char **list, const char **word, size_t *size) {
    while (**list == ' ')
        ++*list;
    *word = *list;
    *size = strcspn(*list, " ");
    *list += *size;
    return *size > 0;
}

/* ---- The table: rows, and settings without a row ---- */

static option_entry table[OPTION_CAPACITY];
static size_t table_size;

/* Returns the first spelling of each word of a list. */
static char *list_choices(const char *words) {
    char *choices = (char *)command_allocate(strlen(words) + 1);
    option_list_choices(words, " ", " ", choices, strlen(words) + 1);
    return choices;
}

/* Makes a setting for an option that only the command has. */
static void fill_own(option_entry *filled, const option_row *row) {
    static const struct {
        eitp_setting_kind kind;
        size_t size;
        unsigned flags;
    } kinds[] = {
        {EITP_SETTING_FLAG, sizeof(int), 0},      {EITP_SETTING_INTEGER, sizeof(int64_t), 0},
        {EITP_SETTING_NUMBER, sizeof(double), 0}, {EITP_SETTING_UNSIGNED, sizeof(uint64_t), EITP_SETTING_BYTES},
        {EITP_SETTING_TEXT, sizeof(char *), 0},   {EITP_SETTING_TEXTS, sizeof(eitp_text_list), 0},
        {EITP_SETTING_CHOICE, sizeof(int), 0}};
    eitp_setting *own = &filled->own;
    own->name = row->name;
    own->kind = kinds[row->kind].kind;
    own->size = kinds[row->kind].size;
    own->flags = kinds[row->kind].flags;
    own->min = row->low;
    own->max = row->high;
    own->choices = row->kind == KIND_CHOICE ? list_choices(row->words) : NULL;
    filled->setting = own;
}

static void fill_from_row(option_entry *filled, const option_row *row) {
    snprintf(filled->name, sizeof filled->name, "%s", row->name);
    snprintf(filled->help, sizeof filled->help, "%s", row->help);
    snprintf(filled->fallback, sizeof filled->fallback, "%s", row->fallback ? row->fallback : "");
    filled->has_fallback = row->fallback != NULL;
    filled->kind = row->kind;
    filled->words = row->words;
    filled->aliases = row->aliases;
    filled->commands = row->commands;
    filled->of_run = row->of_run;
    if (row->kind != KIND_SETTING)
        fill_own(filled, row);
}

/* Copies kind, bounds, choices and help from the library, and the default if the row has none. */
static void fill_from_setting(option_entry *filled, const eitp_setting_group *group, const eitp_setting *setting,
                              const option_row *row) {
    static const option_kind kinds[] = {KIND_INTEGER, KIND_INTEGER, KIND_NUMBER, KIND_FLAG,
                                        KIND_CHOICE,  KIND_TEXT,    KIND_LIST};
    const eitp_recipe defaults = eitp_recipe_default();
    filled->setting = setting;
    filled->group = group->name;
    filled->offset = group->offset;
    filled->kind = setting->choices                      ? KIND_CHOICE
                   : setting->flags & EITP_SETTING_BYTES ? KIND_SIZE
                                                         : kinds[setting->kind];
    filled->stays_open = !strcmp(filled->fallback, OPEN);
    if (filled->stays_open)
        *filled->fallback = 0;
    snprintf(filled->help, sizeof filled->help, "%s%s", setting->help, row->help);
    if (!filled->has_fallback)
        eitp_setting_format(setting, (const char *)&defaults + group->offset, filled->fallback,
                            sizeof filled->fallback);
    filled->has_fallback = *filled->fallback != 0;
}

/* True for settings of regularizers, on which memory and time of a step depend. */
static int is_of_objective(const eitp_setting_group *group, const eitp_setting *setting) {
    const size_t objective = offsetof(eitp_trainer_config, objective);
    return !strcmp(group->name, "trainer") && setting->offset >= objective &&
           setting->offset < objective + sizeof(eitp_objective_config);
}

/* Adds a setting without a row: an option under its own name, recorded in run.json. */
static void add_option(const eitp_setting_group *group, const eitp_setting *setting) {
    static const char *const arguments[] = {"N", "N", "X", "", "", "TEXT", "TEXT"}; /* by kind of setting */
    const unsigned commands = is_of_objective(group, setting) ? FITS | BENCHES_STEPS : OPTIONS_TRAIN;
    const option_row row = {setting->name, "", KIND_SETTING, 0, 0, NULL, arguments[setting->kind], commands, 1, ""};
    option_entry *added = &table[table_size];
    if (table_size == OPTION_CAPACITY) {
        output_error("the library has more settings than OPTION_CAPACITY allows");
        exit(COMMAND_WRONG);
    }
    table_size++;
    fill_from_row(added, &row);
    for (char *at = added->name; *at; at++)
        *at = *at == '_' ? '-' : *at;
    fill_from_setting(added, group, setting, &row);
}

/* Lists the library's optimizers, each with its aliases. */
static void fill_optimizers(option_entry *filled) {
    static char words[400];
    size_t used = 0;
    for (int i = 0; i < EITP_OPTIMIZER_COUNT && used < sizeof words; i++) {
        const eitp_optimizer_info *optimizer = eitp_optimizer_get((eitp_optimizer)i);
        const char *list = optimizer->aliases, *alias;
        size_t size;
        used += (size_t)snprintf(words + used, sizeof words - used, " %s", optimizer->name);
        while (used < sizeof words && option_next_word(&list, &alias, &size))
            used += (size_t)snprintf(words + used, sizeof words - used, "=%.*s", (int)size, alias);
    }
    filled->words = words;
}

typedef struct rate_text {
    char text[32];
} rate_text;

/* Formats a learning rate as people write it: 3e-4, but 0.02. */
static rate_text write_rate(double rate) {
    const int exponent = (int)floor(log10(rate));
    rate_text written;
    if (rate < 0.001)
        snprintf(written.text, sizeof written.text, "%ge%d", rate / pow(10, exponent), exponent);
    else
        snprintf(written.text, sizeof written.text, "%g", rate);
    return written;
}

static void add_help(option_entry *filled, const char *format, ...) COMMAND_PRINTF(2, 3);
static void add_help(option_entry *filled, const char *format, ...) {
    const size_t used = strlen(filled->help);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(filled->help + used, sizeof filled->help - used, format, arguments);
    va_end(arguments);
}

/* Adds the default rates and decay of the first optimizer to the help, and of other optimizers if they differ. */
static void add_optimizer_defaults(option_entry *rate, option_entry *decay) {
    const eitp_optimizer_info *first = eitp_optimizer_get((eitp_optimizer)0);
    add_help(rate, " (default: %s with --model, %s with --init or --lora-rank",
             write_rate(first->fine_tuning_rate).text, write_rate(first->rate).text);
    add_help(decay, " (default: %g", first->weight_decay);
    for (int i = 1; i < EITP_OPTIMIZER_COUNT; i++) {
        const eitp_optimizer_info *other = eitp_optimizer_get((eitp_optimizer)i);
        if (fabs(other->rate - first->rate) > 0)
            add_help(rate, "; %s: %s and %s", other->name, write_rate(other->fine_tuning_rate).text,
                     write_rate(other->rate).text);
        if (fabs(other->weight_decay - first->weight_decay) > 0)
            add_help(decay, "; %s: %g", other->name, other->weight_decay);
    }
    add_help(rate, ")");
    add_help(decay, ")");
}

static int is_derived(const eitp_setting *setting) {
    for (size_t i = 0; i < COMMAND_COUNT(derived); i++) {
        if (!strcmp(derived[i], setting->name))
            return 1;
    }
    return 0;
}

static void fill_from_group(const eitp_setting_group *group) {
    for (size_t i = 0; i < group->count; i++) {
        const eitp_setting *setting = &group->settings[i];
        const char *name = setting->name;
        size_t k = 0;
        if (is_derived(setting))
            continue;
        while (k < OPTION_COUNT && !option_names_equal(name, rows[k].name, strlen(rows[k].name)))
            k++;
        if (k == OPTION_COUNT)
            add_option(group, setting);
        else
            fill_from_setting(&table[k], group, setting, &rows[k]);
    }
}

/* Fills in the trainer's settings, or all others: the trainer's come first among settings without a row. */
static void fill_from_groups(int of_trainer) {
    for (size_t i = 0; eitp_recipe_group(i).settings; i++) {
        const eitp_setting_group group = eitp_recipe_group(i);
        if ((strcmp(group.name, "trainer") == 0) == of_trainer)
            fill_from_group(&group);
    }
}

static void fill_table(void) {
    for (size_t i = 0; i < OPTION_COUNT; i++)
        fill_from_row(&table[i], &rows[i]);
    table_size = OPTION_COUNT;
    fill_optimizers(&table[OPTION_OPTIMIZER]);
    fill_from_groups(1);
    fill_from_groups(0);
    add_optimizer_defaults(&table[OPTION_LR], &table[OPTION_WEIGHT_DECAY]);
}

size_t option_count(void) {
    if (!table_size)
        fill_table();
    return table_size;
}

const option_entry *option_of(option_id id) {
    return &table[id < (option_id)option_count() ? id : OPTION_HELP];
}

/* In lists, settings without a row follow --self-repair, the regularizer that has one. */
option_id option_at(size_t place) {
    const size_t last = OPTION_SELF_REPAIR, added = option_count() - OPTION_COUNT;
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

/* Copies an alias's values: "name=on|off", or "name=~on|off" with a weak value. */
static void read_flag_values(const char *values, size_t size, option_name *found) {
    found->is_on_weak = *values == '~';
    values += found->is_on_weak;
    size -= (size_t)found->is_on_weak;
    const char *bar = (const char *)memchr(values, '|', size);
    const size_t on = bar ? (size_t)(bar - values) : size;
    snprintf(found->on, sizeof found->on, "%.*s", (int)on, values);
    if (bar)
        snprintf(found->off, sizeof found->off, "%.*s", (int)(size - on - 1), bar + 1);
}

static int find_alias(const char *name, const char *list, option_name *found) {
    const char *word;
    size_t size;
    while (option_next_word(&list, &word, &size)) {
        const char *equals = (const char *)memchr(word, '=', size);
        const size_t length = equals ? (size_t)(equals - word) : size;
        if (!option_names_equal(name, word, length))
            continue;
        if (equals)
            read_flag_values(equals + 1, size - length - 1, found);
        return 1;
    }
    return 0;
}

option_name option_find(const char *name) {
    option_name found;
    memset(&found, 0, sizeof found);
    for (size_t i = 0; i < option_count(); i++) {
        found.id = (option_id)i;
        if (option_names_equal(name, table[i].name, strlen(table[i].name)) ||
            find_alias(name, table[i].aliases, &found))
            return found;
    }
    found.id = OPTION_CAPACITY;
    return found;
}

eitp_status option_check_name(const char *name, const char *value, const char *where, eitp_error *error) {
    if (!option_names_equal(name, "val-check-interval", strlen("val-check-interval")) || !(strtod(value, NULL) > 1))
        return EITP_OK;
    return command_fail(error, EITP_ERROR_ARGUMENT,
                        "%s%s must be at most 1, a fraction of an epoch (got %s); set eval-steps to count steps", where,
                        name, value);
}

void option_prefer(option_name *found, unsigned command) {
    if (found->id == OPTION_CAPACITY || (table[found->id].commands & command))
        return;
    for (size_t i = 0; i < option_count(); i++) {
        if ((table[i].commands & command) && !strcmp(table[i].name, table[found->id].name)) {
            memset(found, 0, sizeof *found);
            found->id = (option_id)i;
            return;
        }
    }
}

void option_choice_name(const char *words, int64_t index, char *name, size_t size) {
    const char *word = "";
    size_t length = 0;
    for (int64_t i = 0; i <= index && option_next_word(&words, &word, &length); i++)
        ;
    snprintf(name, size, "%.*s", (int)(length ? strcspn(word, "= ") : 0), word);
}

/* Returns the index of the word that has the spelling `value`, or -1. */
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

int option_find_value(const option_entry *row, const char *value) {
    const char *choices = row->setting->choices, *list = row->words, *word;
    char names[200];
    int found = choices ? option_find_choice(choices, value) : -1;
    size_t size;
    while (choices && found < 0 && option_next_word(&list, &word, &size)) {
        snprintf(names, sizeof names, "%.*s", (int)size, word);
        if (option_find_choice(names, value) < 0)
            continue;
        names[strcspn(names, "=")] = 0;
        found = option_find_choice(choices, names);
    }
    /* "no", "none" and "false" mean "off" without a row that lists them. */
    return choices && found < 0 && option_find_choice("no=none=false", value) >= 0 ? option_find_choice(choices, "off")
                                                                                   : found;
}

/* Lists the first spelling of each choice, as "a, b or c" or with another separator. */
void option_list_choices(const char *words, const char *separator, const char *last, char *list, size_t size) {
    const char *word;
    size_t length, at = 0;
    *list = 0;
    while (at < size && option_next_word(&words, &word, &length)) {
        const char *between = !at ? "" : words[strspn(words, " ")] ? separator : last;
        at += (size_t)snprintf(list + at, size - at, "%s%.*s", between, (int)strcspn(word, "= "), word);
    }
}

/* Suggests the words of a list, each cut at its "=". */
static void suggest_words(const char *name, const char *list, eitp_suggestion *suggestion) {
    const char *word;
    size_t length;
    while (option_next_word(&list, &word, &length)) {
        const char *equals = (const char *)memchr(word, '=', length);
        eitp_suggest_name(name, word, equals ? (size_t)(equals - word) : length, suggestion);
    }
}

/* True if two neighbouring letters were swapped. */
static int is_swap(const char *name, const char *near, size_t size) {
    size_t same = 0;
    while (same < size && name[same] == near[same])
        same++;
    return strlen(name) == size && same + 1 < size && name[same] == near[same + 1] && name[same + 1] == near[same] &&
           !memcmp(name + same + 2, near + same + 2, size - same - 2);
}

/* True if the nearest name is probably the intended one: at most one wrong letter in four, or two swapped letters. */
static int is_misspelt(const char *name, const eitp_suggestion *near) {
    return near->name &&
           (near->distance < 2 || near->distance <= strlen(name) / 4 || is_swap(name, near->name, near->size));
}

eitp_status option_fail_unknown(const option_set *o, const char *name, const char *where, eitp_error *error) {
    eitp_suggestion near = {NULL, 0, 0};
    for (size_t i = 0; i < option_count(); i++) {
        if (table[i].commands & o->command) {
            suggest_words(name, table[i].name, &near);
            suggest_words(name, table[i].aliases, &near);
        }
    }
    if (is_misspelt(name, &near))
        return command_fail(error, EITP_ERROR_ARGUMENT, "%sunknown option '%s'; did you mean '%.*s'?", where, name,
                            (int)near.size, near.name);
    return command_fail(error, EITP_ERROR_ARGUMENT, "%sunknown option '%s'; 'eitp help %s' lists the options", where,
                        name, o->name);
}
