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
    /* How texts become ids. With max_length 0, max_length, truncation and truncate_left are those of the tokenizer's
       files: "truncation" in tokenizer.json, or else model_max_length in tokenizer_config.json; if they have neither,
       sequences are not cut. */
    eitp_sequence_config sequence;
    /* NULL: none; else each text is followed by the same text in the tokens of this tokenizer, as segment 1. */
    const eitp_tokenizer *second;
    eitp_sequence_config second_sequence; /* like `sequence`, of segment 1; ignored without `second` */
    eitp_problem problem;                 /* EITP_PROBLEM_UNKNOWN: as eitp_labelled_pack finds */
    const char *const *labels; /* label_count names, those of a model; NULL: the labels are those of the examples */
    int64_t label_count;
    /* NULL: texts are encoded as they are; else each is a conversation (EITP_FORMAT_CHAT, eitp_chat_encode), and its
       tokens that are trained on have the label "trained". */
    const eitp_chat *chat;
    eitp_chat_config chat_config; /* ignored without `chat`, and so is its max_length: that of `sequence` counts */
    int skip_bad;                 /* nonzero: bad examples are counted and logged; 0: the first one is an error */
    int dedup;                    /* nonzero: drops repeats, see eitp_labelled_pack */
    /* Called after each example, by the thread that called eitp_labelled_pack; may be NULL. Any result but 0 stops
       packing with EITP_ERROR_INTERRUPTED. */
    int (*progress)(void *user, const eitp_labelled_progress *progress);
    void *user;
} eitp_labelled_pack_config;

/* One tokenizer, sequences as its files have them, problem and labels as the examples have them, the first bad example
   is an error, repeats are kept. */
EITP_API eitp_labelled_pack_config eitp_labelled_pack_config_default(void);

/*
 * Encodes the remaining examples of a source and writes them to the labelled file `output_path`, as
 * "<output_path>.partial", which is synced and renamed: after a failure the previous file, if any, is still at
 * `output_path` (or, if only syncing the directory failed, the complete new one). Ids go to the file as they come; the
 * memory needed is about 100 bytes for each example and 10 for each of its labels, with EITP_PROBLEM_TOKENS 4 for each
 * token, and the text of different labels.
 *
 * Labels: with EITP_PROBLEM_SINGLE_LABEL an example has exactly one. With EITP_PROBLEM_MULTI_LABEL it has any number of
 * different ones, from a list or as names separated by '|'; a missing or empty label stands for none. With
 * EITP_PROBLEM_REGRESSION they are one or more finite numbers, as many in every example. With EITP_PROBLEM_TOKENS
 * examples are given as words, each of which has a label; it becomes that of the word's first token (the first that is
 * left, if the sequence is cut), and other tokens have none. With EITP_PROBLEM_UNKNOWN the problem is
 *   - EITP_PROBLEM_UNKNOWN if no example has a label (whatever config->problem says),
 *   - EITP_PROBLEM_TOKENS if the first example with labels is given as words, with a list of labels,
 *   - EITP_PROBLEM_MULTI_LABEL if the labels of an example come from a list or contain a '|' (and are not, as a whole,
 *     one of config->labels),
 *   - EITP_PROBLEM_REGRESSION if config->labels is NULL, all labels are numbers, and one of them is not whole,
 *   - EITP_PROBLEM_SINGLE_LABEL otherwise: whole numbers are names.
 * White space around a label is not part of it, unless it is one of config->labels as it is written. The log warns of
 * labels that differ only in case, or that are the same number or Boolean.
 * Labels are numbered in the order of config->labels, or else by value if all of them are numbers and by bytes if not,
 * with runs of digits compared as numbers ("x2" before "x10"): the order of the examples does not matter.
 * config->labels of a regression only name its numbers.
 *
 * With other problems words are texts, joined by spaces.
 *
 * With config->second a sample is a text twice: segment 0 has its tokens in the first tokenizer, segment 1 those in the
 * second, each with its special tokens and cut to its own length. EITP_PROBLEM_TOKENS is then EITP_ERROR_ARGUMENT,
 * a tokenizer whose template gives a single text other segments than 0 EITP_ERROR_UNSUPPORTED.
 *
 * With config->chat the text of an example is the JSON of a conversation, which eitp_chat_encode_weights makes tokens
 * of. The problem is EITP_PROBLEM_TOKENS, with one label, "trained". A conversation of which nothing would be trained
 * on is left out. The log says how many are, and how many have tools that the template does not read.
 *
 * The weight of an example is that of its sample in the loss, or of each token with EITP_PROBLEM_TOKENS.
 *
 * An example is bad if its weight is not a number of at least 0, if its texts have no tokens, if they are too long and
 * must not be cut, if its labels do not fit the problem or are unknown, or if it has no label where others do (with
 * EITP_PROBLEM_UNKNOWN and without config->labels, examples without labels that come before the first one with labels
 * are an error even with skip_bad). With config->second it is also bad if it is a pair, if its words have labels of
 * their own (by the rule of EITP_PROBLEM_UNKNOWN above), or if the text has no tokens in one of the tokenizers. It is
 * EITP_ERROR_FORMAT, with file, line and column.
 *
 * Repeats are found by a 64-bit hash of the texts, before they are cut. With `dedup` the first of several examples with
 * the same texts and labels is kept; if their labels differ, none is.
 *
 * A source without a usable example is EITP_ERROR_ARGUMENT. If `info` is not NULL, it receives the new file's
 * eitp_sample_file_info.
 */
EITP_API eitp_status eitp_labelled_pack(const eitp_host *host, const eitp_tokenizer *tokenizer,
                                        const eitp_labelled_pack_config *config, const eitp_example_source *source,
                                        const char *output_path, eitp_sample_file_info *info, eitp_error *error);

/* ---- Parts of a labelled file ---- */

/* Samples of a labelled file, which must stay open: a list of their numbers, 8 bytes each. Does not change after
   creation: any number of threads may read it. */
typedef struct eitp_labelled_part eitp_labelled_part;

/* Copies `count` sample numbers, whose order and repetitions are kept; `samples` NULL and `count` 0: all samples. A
   number outside the file is EITP_ERROR_ARGUMENT. Release with eitp_labelled_part_destroy. */
EITP_API eitp_status eitp_labelled_part_create(const eitp_sample_file *file, const uint64_t *samples, uint64_t count,
                                               eitp_labelled_part **part, eitp_error *error);

/* NULL is harmless. */
EITP_API void eitp_labelled_part_destroy(eitp_labelled_part *part);

/* The samples of a part, which must stay alive. Its hash is that of the file's content and the numbers. NULL gives a
   source without samples. */
EITP_API eitp_labelled_source eitp_labelled_part_source(const eitp_labelled_part *part);

/*
 * Splits a file into a training and a validation part, each in the order of the file. With n samples and fraction f,
 * validation has n * f, rounded to the nearest number from 1 to n - 1. With f = 0 training has all samples, validation
 * none.
 *
 * EITP_PROBLEM_SINGLE_LABEL: each label has about its share of the validation part (Webster's method); each with two or
 * more samples is in both parts if validation has as many samples as there are such labels, else the more frequent ones
 * are. A label with one sample is in training. For other problems samples are drawn at random. The split
 * depends on labels, seed and fraction only.
 *
 * EITP_ERROR_ARGUMENT if f is outside [0, 1), or above 0 with one sample. Needs 24 bytes of memory for each sample
 * besides the parts.
 */
EITP_API eitp_status eitp_labelled_split(const eitp_sample_file *file, double validation_fraction, uint64_t seed,
                                         eitp_labelled_part **training, eitp_labelled_part **validation,
                                         eitp_error *error);

/* ---- Labelled samples in memory, and counts ---- */

/* Labelled samples in arrays of the program. Sample i has ids [starts[i], starts[i + 1]). */
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
 * A source of samples in memory. *arrays and what it points to are not copied, and must outlive the users of the
 * source. Reads everything once to check it and to compute the hash. EITP_ERROR_ARGUMENT: a sample without ids, a
 * negative id, a label of a sample or a token outside [-1, label_count), a target that is not finite or, with
 * EITP_PROBLEM_MULTI_LABEL, neither 0 nor 1, a weight that is negative or not finite.
 */
EITP_API eitp_status eitp_labelled_memory_source(const eitp_labelled_arrays *arrays, eitp_labelled_source *source,
                                                 eitp_error *error);

EITP_END_DECLARATIONS

#endif
