/* Data: text becomes a token file (docs/token-file.md), a token file becomes windows of tokens and their targets. */
#ifndef EITP_DATA_H
#define EITP_DATA_H

#include "base/base.h"
#include "text/text.h"

EITP_BEGIN_DECLARATIONS

typedef enum eitp_token_file_kind {
    EITP_TOKEN_FILE_EITP = 0, /* written by eitp_pack */
    EITP_TOKEN_FILE_LLMC = 1  /* llm.c's .bin of magic 20240520, version 1: ids of 16 bits and their count, no more */
} eitp_token_file_kind;

/* What a token file says about itself. Of an llm.c file only kind, element_size and token_count are known. */
typedef struct eitp_token_file_info {
    eitp_token_file_kind kind;
    int32_t element_size;           /* bytes of an id: 2 or 4 */
    int32_t vocabulary_size;        /* ids are below it; 0 where it is not known */
    int32_t end_of_text;            /* the id after each document; -1 where there is none or it is not known */
    uint64_t token_count;           /* ids, those between documents included */
    uint64_t document_count;        /* texts that are not empty */
    uint64_t tokenizer_fingerprint; /* eitp_tokenizer_fingerprint of the tokenizer that made the ids */
    uint64_t content_hash;          /* of the ids; two files with one hash hold the same tokens */
    uint64_t text_bytes;            /* bytes of the texts, as they were read */
    uint64_t invalid_bytes;         /* those of them that were not UTF-8 and became U+FFFD */
    double unigram_entropy; /* nats per token: the loss of a model that knows how often each id comes, no more */
} eitp_token_file_info;

/*
 * The texts in files. A path is a text file, or a directory: every regular file in it and below it, in the order of
 * their names' bytes, level by level; symbolic links are followed. Each file is a document. Empty files, and token
 * files within a directory, are left out and logged. Only one piece of one text is in memory at a time.
 */
typedef struct eitp_text_files eitp_text_files;

/*
 * Looks up all paths, which are copied: one that is missing, or directories more than 32 deep (a symbolic link to a
 * parent), are EITP_ERROR_ARGUMENT. Pieces have up to `piece_size` bytes; 0 means 65536. *files is closed by
 * eitp_text_files_close.
 */
EITP_API eitp_status eitp_text_files_open(const eitp_host *host, const char *const *paths, size_t path_count,
                                          size_t piece_size, eitp_text_files **files, eitp_error *error);

/* NULL is harmless. */
EITP_API void eitp_text_files_close(eitp_text_files *files);

/* Bytes of all files together, as they were looked up. */
EITP_API uint64_t eitp_text_files_bytes(const eitp_text_files *files);

/* Their text from where it was read to on, for instance for eitp_tokenizer_train. Lives as long as `files`. */
EITP_API eitp_text_source eitp_text_files_source(eitp_text_files *files);

/* How far eitp_pack is. `path` is the text being read, valid during the call. */
typedef struct eitp_pack_progress {
    const char *path;
    uint64_t text_bytes;       /* read so far */
    uint64_t text_bytes_total; /* eitp_text_files_bytes */
    uint64_t documents;        /* begun so far */
    uint64_t tokens;           /* made so far */
} eitp_pack_progress;

/* What to pack. All zero but `paths` and `path_count` is a good configuration. */
typedef struct eitp_pack_config {
    const char *const *paths; /* as of eitp_text_files */
    size_t path_count;
    int strict_utf8;  /* not 0: text that is not UTF-8 is an error; 0: see eitp_pack */
    size_t read_size; /* bytes of text read at a time; 0 means 65536. The tokens do not depend on it. */
    /* Called after each read; may be NULL. What is not 0 stops: EITP_ERROR_INTERRUPTED. */
    int (*progress)(void *user, const eitp_pack_progress *progress);
    void *user;
} eitp_pack_config;

/*
 * Reads texts, encodes them with `tokenizer` and writes the ids, after each document the tokenizer's end-of-text id
 * where it has one, to the token file `output_path`. The file is written as "<output_path>.partial", synced and
 * renamed: after a failure what was at `output_path` before is still there (or, where only syncing its directory
 * failed, the whole new file). Memory needed does not depend on the length of the texts.
 *
 * Bytes that are not UTF-8 become U+FFFD, one for each maximal part of a sequence (The Unicode Standard, 3.9, table 3-7
 * and "Substitution of Maximal Subparts"; the same as Python's errors="replace"), are counted in info->invalid_bytes,
 * and logged as a warning for each file; with strict_utf8 the first is EITP_ERROR_FORMAT that names the file and the
 * byte.
 *
 * `info`, which may be NULL, gets what eitp_token_file_get_info would give for the new file. Texts that are all empty,
 * a missing path, a token file among `paths` are errors.
 */
EITP_API eitp_status eitp_pack(const eitp_host *host, const eitp_tokenizer *tokenizer, const eitp_pack_config *config,
                               const char *output_path, eitp_token_file_info *info, eitp_error *error);

/* A token file opened for reading; several threads may read it at a time where the host's files allow it. */
typedef struct eitp_token_file eitp_token_file;

/*
 * Opens a token file of eitp or of llm.c and checks its header and its size. Ids are checked when they are read: they
 * must be below the file's vocabulary size and, where it is not 0, below `vocabulary_size`, the reader's. *file is
 * closed by eitp_token_file_close. Nothing of the tokens is kept in memory.
 */
EITP_API eitp_status eitp_token_file_open(const eitp_host *host, const char *path, int32_t vocabulary_size,
                                          eitp_token_file **file, eitp_error *error);

/* NULL is harmless. */
EITP_API void eitp_token_file_close(eitp_token_file *file);

EITP_API eitp_token_file_info eitp_token_file_get_info(const eitp_token_file *file);

/* Tells that these tokens, which must be there, will be read soon: the system may fetch them meanwhile. */
EITP_API void eitp_token_file_prefetch(const eitp_token_file *file, uint64_t first, uint64_t count);

/* Stores tokens [first, first + count) in ids[count]. After a failure the content of `ids` is not specified. */
EITP_API eitp_status eitp_token_file_read(const eitp_token_file *file, uint64_t first, uint64_t count, int32_t *ids,
                                          eitp_error *error);

/* Reads the whole file: every id must be in the vocabulary and, in a file of eitp, the content hash must be right. */
EITP_API eitp_status eitp_token_file_verify(const eitp_token_file *file, eitp_error *error);

/* Tokens [first, first + count) of a file. */
typedef struct eitp_token_range {
    uint64_t first;
    uint64_t count;
} eitp_token_range;

/*
 * Cuts `token_count` tokens into a training part and the validation part after it. With n tokens, fraction f and block
 * size T: training has the largest k * T + 1 tokens (k whole windows) that leave at least n * f for validation, which
 * is the rest. The cut follows from these three numbers alone. f = 0 gives everything to training and nothing to
 * validation. A part without a window, of T + 1 tokens, is EITP_ERROR_ARGUMENT that says how many tokens would do.
 */
EITP_API eitp_status eitp_split_tokens(uint64_t token_count, double validation_fraction, int64_t block_size,
                                       eitp_token_range *training, eitp_token_range *validation, eitp_error *error);

/*
 * Tokens wherever they are: in a token file, in memory, or behind a function of the program's own. What `user` points
 * to must live as long as what reads the source.
 */
typedef struct eitp_token_source {
    void *user;
    uint64_t count;         /* tokens there are */
    eitp_token_range range; /* those of them that are used */
    uint64_t hash;          /* of all of them, which a resume compares; 0: not known */
    int32_t end_of_text;    /* the id after each document; -1: none */
    /* Stores tokens [first, first + count) of all of them in ids[count]. */
    eitp_status (*read)(void *user, uint64_t first, uint64_t count, int32_t *ids, eitp_error *error);
    void (*prefetch)(void *user, uint64_t first, uint64_t count); /* these will be read soon; may be NULL */
} eitp_token_source;

/* Part of a token file, which must stay open. */
EITP_API eitp_token_source eitp_token_file_source(const eitp_token_file *file, eitp_token_range range);

/* Part of an array, which is not copied. Reads it once for the hash, which is that of a token file of the same ids. */
EITP_API eitp_token_source eitp_token_memory_source(const int32_t *ids, uint64_t count, eitp_token_range range);

/*
 * The windows of a source of n tokens with block size T: window i has tokens [i*T, i*T + T) of its range, and as
 * targets tokens [i*T + 1, i*T + T + 1). There are (n - 1) / T. Made by eitp_windows_init; nothing needs to be
 * released.
 */
typedef struct eitp_windows {
    eitp_token_source source;
    int64_t block_size;
    uint64_t count; /* windows, at least 1 */
} eitp_windows;

/* The range must lie in the source and hold at least one window of block_size + 1 tokens. */
EITP_API eitp_status eitp_windows_init(eitp_windows *windows, const eitp_token_source *source, int64_t block_size,
                                       eitp_error *error);

/* Window `index` into tokens [T] and targets [T]. After a failure their content is not specified. */
EITP_API eitp_status eitp_windows_read(const eitp_windows *windows, uint64_t index, int32_t *tokens, int32_t *targets,
                                       eitp_error *error);

/* Tells that the window will be read soon: the system may fetch it meanwhile. */
EITP_API void eitp_windows_prefetch(const eitp_windows *windows, uint64_t index);

/* ---- Order ---- */

typedef enum eitp_shuffle {
    EITP_SHUFFLE_NONE = 0,   /* samples as they lie in the data */
    EITP_SHUFFLE_WINDOWS = 1 /* every epoch goes through all samples in an order of its own */
} eitp_shuffle;

/*
 * Samples are numbered from 0 through all epochs: number k is in epoch k / count at position k % count. Returns which
 * of the `count` samples of the data it is: a function of its arguments, for every epoch a bijection on [0, count), so
 * that any sample is found without those before it, and nothing is kept in memory.
 */
EITP_API uint64_t eitp_sample_index(eitp_shuffle shuffle, uint64_t seed, uint64_t count, uint64_t number);

EITP_END_DECLARATIONS

#endif
