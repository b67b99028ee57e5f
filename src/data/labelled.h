/* Labelled samples: examples are packed into a labelled file, which is split into parts. */
#ifndef EITP_LABELLED_H
#define EITP_LABELLED_H

#include "data/examples.h"
#include "text/chat.h"

EITP_BEGIN_DECLARATIONS

/* ---- Packing examples into a labelled file ---- */

/* Progress of eitp_labelled_pack. */
typedef struct eitp_labelled_progress {
    const char *path;  /* of the last example, valid during the call; NULL: unknown */
    uint64_t line;     /* its line there; 0: unknown */
    uint64_t examples; /* read so far */
    uint64_t ids;      /* written so far */
} eitp_labelled_progress;

/* Start from eitp_labelled_pack_config_default(). */
typedef struct eitp_labelled_pack_config {
    /* Encoding of text. With max_length 0, max_length, truncation and truncate_left come from the tokenizer's files:
       "truncation" in tokenizer.json, or else model_max_length in tokenizer_config.json. If neither is set, sequences
       are not cut. */
    eitp_sequence_config sequence;
    /* NULL: none; otherwise each input is followed by the same input encoded with this tokenizer, as segment 1. */
    const eitp_tokenizer *second;
    eitp_sequence_config second_sequence; /* like `sequence`, for segment 1; ignored without `second` */
    eitp_problem problem;                 /* EITP_PROBLEM_UNKNOWN: inferred, see eitp_labelled_pack */
    const char *const *labels; /* label_count names, such as a model's labels; NULL: the labels found in the examples */
    int64_t label_count;
    /* NULL: text is encoded unchanged; otherwise each input is a conversation (EITP_FORMAT_CHAT, eitp_chat_encode), and
       its trained tokens have the label "trained". */
    const eitp_chat *chat;
    eitp_chat_config chat_config; /* ignored without `chat`; its max_length is always ignored in favor of `sequence` */
    int skip_bad;                 /* nonzero: bad examples are counted and logged; 0: the first one is an error */
    int dedup;                    /* nonzero: drops repeats, see eitp_labelled_pack */
    /* Called after each example, by the thread that called eitp_labelled_pack; may be NULL. Any result but 0 stops
       packing with EITP_ERROR_INTERRUPTED. */
    int (*progress)(void *user, const eitp_labelled_progress *progress);
    void *user;
} eitp_labelled_pack_config;

/* One tokenizer, with the sequence settings from its files. Problem and labels are inferred from the examples. The
   first bad example is an error, and repeats are kept. */
EITP_API eitp_labelled_pack_config eitp_labelled_pack_config_default(void);

/*
 * Encodes the remaining examples of a source and writes them to the labelled file `output_path`. The file is written as
 * "<output_path>.partial", synced and renamed: after a failure the previous file, if any, is still at `output_path`
 * (or, if only syncing the directory failed, the complete new one). Ids are written as they arrive. The memory needed
 * is about 100 bytes for each example and 10 for each of its labels (with EITP_PROBLEM_TOKENS 4 for each token), plus
 * the text of distinct labels.
 *
 * Labels: with EITP_PROBLEM_SINGLE_LABEL an example has exactly one. With EITP_PROBLEM_MULTI_LABEL it has any number of
 * different ones, from a list or as names separated by '|'; a missing or empty label stands for none. With
 * EITP_PROBLEM_REGRESSION they are one or more finite numbers, as many in every example. With EITP_PROBLEM_TOKENS
 * examples are lists of words, each with a label. The word's first token (the first remaining one, if the sequence is
 * cut) gets the label, and other tokens have none. With EITP_PROBLEM_UNKNOWN the problem is
 *   - EITP_PROBLEM_UNKNOWN if no example has a label (regardless of config->problem),
 *   - EITP_PROBLEM_TOKENS if the first example with labels is a list of words with a list of labels,
 *   - EITP_PROBLEM_MULTI_LABEL if the labels of an example come from a list or contain a '|' (and are not, as a whole,
 *     one of config->labels),
 *   - EITP_PROBLEM_REGRESSION if config->labels is NULL, all labels are numbers, and one of them is not whole,
 *   - EITP_PROBLEM_SINGLE_LABEL otherwise: whole numbers are names.
 * White space around a label is stripped, unless the label is one of config->labels as written. The log warns of labels
 * that differ only in case, or that are the same number or Boolean. Labels are numbered in the order of config->labels.
 * Without config->labels they are sorted by value if all of them are numbers, otherwise by bytes, with runs of digits
 * compared as numbers ("x2" before "x10"): the order of the examples does not matter. For a regression config->labels
 * only names the numbers.
 *
 * For other problems, words are joined with spaces.
 *
 * With config->second a sample has each input twice: encoded with the first tokenizer as segment 0, and with the second
 * as segment 1, each with its own special tokens and length limit. EITP_PROBLEM_TOKENS is then EITP_ERROR_ARGUMENT, and
 * a tokenizer whose template gives a single input other segments than 0 is EITP_ERROR_UNSUPPORTED.
 *
 * With config->chat the text of an example is the JSON of a conversation, encoded by eitp_chat_encode_weights. The
 * problem is EITP_PROBLEM_TOKENS, with one label, "trained". A conversation without trained tokens is left out. The log
 * has their number, and the number of conversations with tools that the template does not read.
 *
 * The weight of an example is the loss weight of its sample, or of each token with EITP_PROBLEM_TOKENS.
 *
 * An example is bad if its weight is not a number of at least 0, if its text has no tokens or is too long and must not
 * be cut, if its labels do not fit the problem or are unknown, or if it lacks a label where others have one (with
 * EITP_PROBLEM_UNKNOWN and without config->labels, examples without labels that come before the first one with labels
 * are an error even with skip_bad). With config->second it is also bad if it is a pair, if each of its words has a
 * label (by the rule of EITP_PROBLEM_UNKNOWN above), or if the text has no tokens in one of the tokenizers. A bad
 * example is EITP_ERROR_FORMAT, with file, line and column.
 *
 * Repeats are found by a 64-bit hash of the text before it is cut. With `dedup` the first of several examples with the
 * same text and labels is kept; if their labels differ, none is kept.
 *
 * A source without a usable example is EITP_ERROR_ARGUMENT. If `info` is not NULL, it receives the new file's
 * eitp_sample_file_info.
 */
EITP_API eitp_status eitp_labelled_pack(const eitp_host *host, const eitp_tokenizer *tokenizer,
                                        const eitp_labelled_pack_config *config, const eitp_example_source *source,
                                        const char *output_path, eitp_sample_file_info *info, eitp_error *error);

/* ---- Parts of a labelled file ---- */

/* A list of sample numbers in a labelled file, which must stay open; 8 bytes each. It does not change after creation:
   any number of threads may read it. */
typedef struct eitp_labelled_part eitp_labelled_part;

/* Copies `count` sample numbers, keeping their order and repetitions; `samples` NULL and `count` 0: all samples. A
   number outside the file is EITP_ERROR_ARGUMENT. Release with eitp_labelled_part_destroy. */
EITP_API eitp_status eitp_labelled_part_create(const eitp_sample_file *file, const uint64_t *samples, uint64_t count,
                                               eitp_labelled_part **part, eitp_error *error);

/* NULL is harmless. */
EITP_API void eitp_labelled_part_destroy(eitp_labelled_part *part);

/* Returns a source for the samples of a part, which must stay alive. Its hash covers the file's content and the
   numbers. NULL gives a source without samples. */
EITP_API eitp_labelled_source eitp_labelled_part_source(const eitp_labelled_part *part);

/*
 * Splits a file into a training and a validation part, each in file order. With n samples and fraction f, validation
 * has n * f, rounded to the nearest number from 1 to n - 1. With f = 0 training has all samples, validation none.
 *
 * EITP_PROBLEM_SINGLE_LABEL: each label has about its share of the validation part (Webster's method). Each label with
 * two or more samples is in both parts if validation has as many samples as there are such labels; otherwise the more
 * frequent ones are. A label with one sample is in training. For other problems samples are drawn at random. The split
 * depends on labels, seed and fraction only.
 *
 * EITP_ERROR_ARGUMENT if f is outside [0, 1), or above 0 with one sample. Needs 24 bytes of memory for each sample in
 * addition to the parts.
 */
EITP_API eitp_status eitp_labelled_split(const eitp_sample_file *file, double validation_fraction, uint64_t seed,
                                         eitp_labelled_part **training, eitp_labelled_part **validation,
                                         eitp_error *error);

/* ---- Labelled samples in memory, and counts ---- */

/* Labelled samples in the caller's arrays. Sample i has ids [starts[i], starts[i + 1]). */
typedef struct eitp_labelled_arrays {
    uint64_t count;          /* number of samples */
    const uint64_t *starts;  /* count + 1 */
    const int32_t *ids;      /* starts[count] */
    const int32_t *segments; /* of each id; NULL: all 0 */
    eitp_problem problem;
    int64_t label_count;
    const char *const *names;    /* label_count names; NULL: none */
    const int32_t *labels;       /* EITP_PROBLEM_SINGLE_LABEL: [count] numbers; -1: the sample has none */
    const float *targets;        /* EITP_PROBLEM_MULTI_LABEL and EITP_PROBLEM_REGRESSION: [count, label_count] */
    const int32_t *token_labels; /* EITP_PROBLEM_TOKENS: [starts[count]] numbers; -1: the token has none */
    const float *weights;        /* in the loss: [count], with EITP_PROBLEM_TOKENS [starts[count]]; NULL: 1 each */
} eitp_labelled_arrays;

/*
 * Creates a source of samples in memory. *arrays and its arrays are not copied, and must outlive the users of the
 * source. Reads everything once to check it and to compute the hash. EITP_ERROR_ARGUMENT: a sample without ids, a
 * negative id, a label of a sample or a token outside [-1, label_count), a target that is not finite or, with
 * EITP_PROBLEM_MULTI_LABEL, neither 0 nor 1, a weight that is negative or not finite.
 */
EITP_API eitp_status eitp_labelled_memory_source(const eitp_labelled_arrays *arrays, eitp_labelled_source *source,
                                                 eitp_error *error);

EITP_END_DECLARATIONS

#endif
