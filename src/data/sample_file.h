/* Samples of token ids: windows of tokens, or labelled samples; and the files they are packed into
   (docs/sample-file.md). */
#ifndef EITP_SAMPLE_FILE_H
#define EITP_SAMPLE_FILE_H

#include "base/base.h"
#include "text/text.h"

EITP_BEGIN_DECLARATIONS

/* ---- Sources ---- */

/* Tokens [first, first + count). */
typedef struct eitp_token_range {
    uint64_t first;
    uint64_t count;
} eitp_token_range;

/*
 * Tokens in a file, in memory, or behind a function of the program. `user` must stay valid as long as the source is
 * used. `read` and `prefetch` are called by the thread that called eitp.
 */
typedef struct eitp_token_source {
    void *user;
    uint64_t count;         /* number of tokens */
    eitp_token_range range; /* the tokens to use */
    uint64_t hash;          /* of all tokens; compared by a resume; 0: unknown */
    int32_t end_of_text;    /* the id after each document; -1: none */
    /* Stores tokens [first, first + count) of the source, not of the range, in ids[count]. */
    eitp_status (*read)(void *user, uint64_t first, uint64_t count, int32_t *ids, eitp_error *error);
    void (*prefetch)(void *user, uint64_t first, uint64_t count); /* a hint that these will be read soon; may be NULL */
} eitp_token_source;

/* A labelled sample, filled in by `read` of a source. */
typedef struct eitp_labelled_sample {
    int32_t *ids;      /* memory for max_length ids of the source; NULL: not wanted */
    int32_t *segments; /* the segment of each id, the same number; NULL: not wanted */
    int64_t length;    /* number of ids, at least 1 */
    /* Text encoded with two tokenizers: memory for max_second ids. Ids of segment 1 are stored here, second_length of
       them, and `length` counts only segment 0. NULL: they follow segment 0 in `ids`. */
    int32_t *second;
    int64_t second_length;
    int32_t label;  /* EITP_PROBLEM_SINGLE_LABEL: its number; -1: the sample has none */
    float *targets; /* memory for label_count values; NULL: not wanted. EITP_PROBLEM_MULTI_LABEL: 1 for labels that the
                       sample has, otherwise 0; EITP_PROBLEM_REGRESSION: the numbers to predict */
    /* Memory for max_length values; NULL: not wanted. EITP_PROBLEM_TOKENS: the label of each id; -1: it has none. */
    int32_t *token_labels;
    /* Sources with has_weights: the loss weight of the sample. With EITP_PROBLEM_TOKENS it is the weight of each id,
       with memory for max_length values; NULL: not wanted. */
    float weight;
    float *token_weights;
} eitp_labelled_sample;

/* Labelled samples in a file, in memory, or behind a function of the program. `user` and `labels` must stay valid as
   long as the source is used. A source without `read` has no samples. */
typedef struct eitp_labelled_source {
    void *user;
    uint64_t count;     /* number of samples */
    int64_t max_length; /* ids of the longest sample */
    /* Text encoded with two tokenizers: ids of the longest sequence of each; 0: samples are one sequence, and `read`
       ignores `second`. */
    int64_t max_first, max_second;
    eitp_problem problem;      /* the kind of labels; EITP_PROBLEM_UNKNOWN: samples have none */
    int64_t label_count;       /* number of labels, or of values to predict */
    const char *const *labels; /* label_count names, by which a task finds the model's labels; NULL: no names */
    int has_weights;           /* nonzero: `read` stores weights, 0 or more; 0: all are 1 */
    uint64_t hash;             /* of the samples; compared by a resume; 0: unknown */
    /* Fills in sample `number`, from 0. Several threads may call it at the same time. */
    eitp_status (*read)(void *user, uint64_t number, eitp_labelled_sample *sample, eitp_error *error);
} eitp_labelled_source;

/* ---- Files of samples ---- */

typedef enum eitp_sample_file_kind {
    EITP_SAMPLE_FILE_TOKENS = 0,  /* a token file, written by eitp_pack */
    EITP_SAMPLE_FILE_LLMC = 1,    /* llm.c's .bin, magic 20240520, version 1: 16-bit ids and their count */
    EITP_SAMPLE_FILE_LABELLED = 2 /* a labelled file, written by eitp_labelled_pack */
} eitp_sample_file_kind;

/*
 * The header of a file. Members that its kind does not have are 0: a token file has no samples, a labelled file no
 * documents. For an llm.c file only kind, element_size and token_count are known, and content_hash after
 * eitp_sample_file_verify.
 */
typedef struct eitp_sample_file_info {
    eitp_sample_file_kind kind;
    int32_t element_size;           /* bytes per id: 2 or 4 */
    int32_t vocabulary_size;        /* every id is below it; 0: unknown */
    int32_t end_of_text;            /* the id after each document; -1: none or unknown */
    uint64_t token_count;           /* number of ids, including special tokens */
    uint64_t tokenizer_fingerprint; /* eitp_tokenizer_fingerprint of the tokenizer that encoded the text */
    uint64_t content_hash;          /* of ids, samples and labels, in this order; 0: unknown */
    /* Of token files. */
    uint64_t document_count; /* number of documents that are not empty */
    uint64_t text_bytes;     /* size of the text in UTF-8 */
    uint64_t invalid_bytes;  /* bytes that were not valid in the text's encoding and became U+FFFD */
    double unigram_entropy;  /* in nats per token: the loss of a model that knows only the frequency of each id */
    /* Of labelled files. */
    uint64_t sample_count;         /* at least 1 */
    int64_t max_length;            /* ids of the longest sample */
    eitp_problem problem;          /* EITP_PROBLEM_UNKNOWN: samples have no labels */
    int64_t label_count;           /* number of labels, or of values to predict */
    uint64_t pair_count;           /* samples that are pairs */
    uint64_t cut_samples;          /* samples that were too long and were cut */
    uint64_t cut_ids;              /* tokens they lost */
    uint64_t cut_words;            /* with EITP_PROBLEM_TOKENS, words that lost all their tokens */
    uint64_t skipped;              /* bad examples, which are not in the file */
    uint64_t repeated;             /* examples with the text and labels of an earlier one */
    uint64_t ambiguous;            /* examples whose text occurs with different labels */
    int dedup;                     /* nonzero: repeated and ambiguous examples are not in the file */
    int32_t row_rules;             /* 1: white space around labels was stripped, and weights and tool calls in
                                      conversations were read; 0: written by an earlier version, or no labels */
    int has_weights;               /* nonzero: samples, or tokens with EITP_PROBLEM_TOKENS, have weights in the loss */
    eitp_sequence_config sequence; /* how text was encoded */
    /* Labelled files in which each input is encoded with two tokenizers: segment 0 with the first one, segment 1 with
       the second. */
    uint64_t second_fingerprint;          /* eitp_tokenizer_fingerprint of the second tokenizer; 0 without one */
    int32_t second_vocabulary;            /* ids of segment 1 are below it, ids of segment 0 below vocabulary_size */
    int64_t max_first, max_second;        /* ids of the longest sequence of each; with one tokenizer max_length and 0 */
    eitp_sequence_config second_sequence; /* how text was encoded as segment 1 */
} eitp_sample_file_info;

/* A sample file of any kind, opened for reading. Any number of threads may read it at the same time, if the host's
   files allow it. */
typedef struct eitp_sample_file eitp_sample_file;

/*
 * Opens a file, recognizes its kind, and checks its header and size. For a labelled file it also reads and checks index
 * and labels, once. They and the ids stay on disk. Ids are checked when they are read: they must be below the file's
 * vocabulary size and, unless it is 0, below the caller's `vocabulary_size`. In samples of two tokenizers ids of
 * segment 1 must be below second_vocabulary instead. Tokens of such a file that are read by position, where the segment
 * is unknown, must be below the larger of the two vocabularies and the caller's. Close with eitp_sample_file_close.
 */
EITP_API eitp_status eitp_sample_file_open(const eitp_host *host, const char *path, int32_t vocabulary_size,
                                           eitp_sample_file **file, eitp_error *error);

/* NULL is harmless. */
EITP_API void eitp_sample_file_close(eitp_sample_file *file);

/* All zeros for NULL. */
EITP_API eitp_sample_file_info eitp_sample_file_get_info(const eitp_sample_file *file);

/* Reads the whole file. EITP_ERROR_FORMAT if an id is outside the vocabulary, or if a content hash or the checksum of a
   sample does not match. Afterwards the content hash of an llm.c file is known too. */
EITP_API eitp_status eitp_sample_file_verify(const eitp_sample_file *file, eitp_error *error);

/*
 * Stores tokens [first, first + count) in ids[count]. A range outside the file is EITP_ERROR_ARGUMENT, an id outside
 * the vocabulary EITP_ERROR_FORMAT, and a file that has become shorter, or has different content than when it was
 * opened, EITP_ERROR_IO. After a failure the content of `ids` is unspecified.
 *
 * Each call checks the size and modification time of the file. If they have changed since the last call, it reads the
 * whole file to compare the content hash. An llm.c file that is written to is an error unless it was verified before,
 * since its header has no hash.
 */
EITP_API eitp_status eitp_sample_file_read_tokens(const eitp_sample_file *file, uint64_t first, uint64_t count,
                                                  int32_t *ids, eitp_error *error);

/* Fills in sample `number`. A number outside the file is EITP_ERROR_ARGUMENT (any number, for a file without samples);
   damaged content is EITP_ERROR_FORMAT. A file that has changed is an error as in eitp_sample_file_read_tokens. After a
   failure the content of *sample is unspecified. */
EITP_API eitp_status eitp_sample_file_read_sample(const eitp_sample_file *file, uint64_t number,
                                                  eitp_labelled_sample *sample, eitp_error *error);

/* Returns a source for a range of the tokens of a file, which must stay open. The tokens of a labelled file are the ids
   of its samples, one after another. NULL gives a source without tokens. eitp_language_task checks the range. */
EITP_API eitp_token_source eitp_sample_file_token_source(const eitp_sample_file *file, eitp_token_range range);

/* Returns a source for all samples of a file, which must stay open. NULL, and a file of another kind than
   EITP_SAMPLE_FILE_LABELLED, give a source without samples. */
EITP_API eitp_labelled_source eitp_sample_file_labelled_source(const eitp_sample_file *file);

EITP_END_DECLARATIONS

#endif
