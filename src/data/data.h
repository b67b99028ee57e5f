/* Data: text is packed into a token file, which is read as windows of tokens and targets. */
#ifndef EITP_DATA_H
#define EITP_DATA_H

#include "data/sample_file.h"

EITP_BEGIN_DECLARATIONS

/* File formats, which determine how a file is divided into documents. */
typedef enum eitp_text_format {
    EITP_FORMAT_AUTO = 0,   /* according to the file name's extension, see eitp_text_files and eitp_table */
    EITP_FORMAT_TEXT = 1,   /* the file is one document */
    EITP_FORMAT_LINES = 2,  /* each line is a document */
    EITP_FORMAT_CSV = 3,    /* RFC 4180; one column holds the text */
    EITP_FORMAT_TSV = 4,    /* the same with tabs */
    EITP_FORMAT_JSONL = 5,  /* a JSON object on each line, or a list of objects; one member holds the text */
    EITP_FORMAT_CONLL = 6,  /* a word on each line, with its label in another column; an empty line ends a document */
    EITP_FORMAT_CHAT = 7,   /* eitp_table: conversations in JSON Lines or, according to the extension, CSV or TSV; the
                               text is the whole line, or an object built from the row (eitp_chat_render) */
    EITP_FORMAT_FOLDERS = 8 /* eitp_table: a directory with a directory or file for each label */
} eitp_text_format;

/*
 * Reads the documents of files as UTF-8, in pieces. A path is a file or a directory, which stands for all regular files
 * in it and below it, in the byte order of their names, level by level; symbolic links are followed. Each file, or each
 * row of a table, is a document. Empty files and documents, and token files found in a directory, are skipped; skipped
 * files are logged. It belongs to one thread at a time.
 */
typedef struct eitp_text_files eitp_text_files;

/* The location and format of text files: for eitp_text_files, and as `texts` in eitp_pack_config and eitp_table_config.
   Start from eitp_text_files_config_default(); only `paths` and `path_count` must be set. */
typedef struct eitp_text_files_config {
    const char *const *paths; /* files and directories; "-" is `input` */
    size_t path_count;
    /* EITP_FORMAT_AUTO: files are tables if their names end with .csv, .tsv, .tab, .json, .jsonl, .ndjson, .conll, .bio
       or .iob, otherwise TEXT; eitp_table has its own defaults. Only eitp_table reads CHAT and FOLDERS. */
    eitp_text_format format;
    const char *encoding;    /* as iconv names it; NULL: UTF-8. A byte order mark is dropped. */
    const char *text_column; /* of tables; NULL: "text", or the only column with a common name; see eitp_table_config */
    const char *delimiter;   /* between the columns of CSV and TSV: one ASCII character, or comma, semicolon or tab;
                                NULL or "auto": for CSV the one of these three that fits the first rows, for TSV tab */
    /* A line that is exactly this ends a document of a TEXT file and is not part of it. "none": the file is one
       document. NULL or "auto": "%" for a fortune(6) file, otherwise none (docs/data.md). */
    const char *document_separator;
    int skip_bad;           /* nonzero: bad rows of tables are skipped, counted and logged; 0: the first is an error */
    int json_rows;          /* nonzero: .json files found in directories are tables too; 0: they are TEXT */
    int strict_utf8;        /* nonzero: bytes that are invalid in the encoding are an error; 0: see eitp_pack */
    size_t read_size;       /* bytes read at a time; 0: the default. Results do not depend on it. */
    eitp_text_source input; /* the source for "-", read to the end of its first document, for example standard input;
                               `read` NULL: none */
} eitp_text_files_config;

/* No paths; EITP_FORMAT_AUTO, UTF-8, invalid bytes become U+FFFD, the first bad row is an error, 65536 bytes at a
   time. */
EITP_API eitp_text_files_config eitp_text_files_config_default(void);

/* Checks and copies the configuration. A path that does not exist, and directories nested more than 32 deep (such as a
   symbolic link to a parent), are EITP_ERROR_ARGUMENT. Close with eitp_text_files_close. */
EITP_API eitp_status eitp_text_files_open(const eitp_host *host, const eitp_text_files_config *config,
                                          eitp_text_files **files, eitp_error *error);

/* NULL is harmless. */
EITP_API void eitp_text_files_close(eitp_text_files *files);

/* Returns the total size of all files in bytes at the time of eitp_text_files_open, without "-". 0 for NULL. */
EITP_API uint64_t eitp_text_files_bytes(const eitp_text_files *files);

/*
 * Returns a source that reads the remaining text of `files`, for example for eitp_tokenizer_train; valid until `files`
 * is closed. A file that is not text in the encoding is EITP_ERROR_FORMAT, and the message contains the command that
 * converts it: see docs/data.md. A bad row of a table is also EITP_ERROR_FORMAT. A table without the column is
 * EITP_ERROR_ARGUMENT. With NULL, reading fails with EITP_ERROR_ARGUMENT.
 */
EITP_API eitp_text_source eitp_text_files_source(eitp_text_files *files);

/* Progress of eitp_pack. `path` is the file being read, valid during the call. */
typedef struct eitp_pack_progress {
    const char *path;
    uint64_t text_bytes;       /* bytes of the files read so far */
    uint64_t text_bytes_total; /* eitp_text_files_bytes */
    uint64_t documents;        /* started so far */
    uint64_t tokens;           /* encoded so far */
} eitp_pack_progress;

/* Start from eitp_pack_config_default(); only texts.paths and texts.path_count must be set. */
typedef struct eitp_pack_config {
    eitp_text_files_config texts;
    /* Called after each read, by the thread that called eitp_pack; may be NULL. A nonzero result stops packing with
       EITP_ERROR_INTERRUPTED. */
    int (*progress)(void *user, const eitp_pack_progress *progress);
    void *user;
} eitp_pack_config;

/* The defaults of eitp_text_files_config, and no progress. */
EITP_API eitp_pack_config eitp_pack_config_default(void);

/*
 * Reads and encodes documents and writes the ids to the token file `output_path`. The tokenizer's end-of-text id, if it
 * has one, follows each document: a file, or a row of a table. The memory needed does not depend on the amount of text;
 * tables need at most one row of 16 MiB.
 *
 * The file is written as "<output_path>.partial", synced and renamed: after a failure the previous file, if any, is
 * still at `output_path` (or, if only syncing the directory failed, the complete new one).
 *
 * Bytes that are not valid in the encoding become U+FFFD; in UTF-8 one for each maximal subpart of an ill-formed
 * sequence (The Unicode Standard, section 3.9 and table 3-7; Python's errors="replace"). They are counted in
 * info->invalid_bytes, with a warning for each file in the log. With strict_utf8 the first one is EITP_ERROR_FORMAT,
 * with file and position. The text "<|endoftext|>" becomes that token, see eitp_tokenizer.
 *
 * A path that does not exist, a token file among the paths, a table without the column, and input without any text are
 * EITP_ERROR_ARGUMENT. A file that is compressed, binary or mostly not UTF-8 is EITP_ERROR_FORMAT, as docs/data.md
 * explains. A bad row of a table is EITP_ERROR_FORMAT unless it is skipped. If `info` is not NULL, it receives the new
 * file's eitp_sample_file_info.
 */
EITP_API eitp_status eitp_pack(const eitp_host *host, const eitp_tokenizer *tokenizer, const eitp_pack_config *config,
                               const char *output_path, eitp_sample_file_info *info, eitp_error *error);

/*
 * Splits `token_count` tokens into a training part and the validation part after it. With n tokens, fraction f and
 * block size T, training gets the largest k * T + 1 tokens (k whole windows) that leave at least n * f for validation,
 * which gets the rest. The split depends on these three numbers only. With f = 0 training gets all tokens, validation
 * none. EITP_ERROR_ARGUMENT if f is outside [0, 1), T is outside [1, 2^31 - 2], or a part has no window of T + 1
 * tokens; the message then gives the number of tokens needed.
 */
EITP_API eitp_status eitp_split_tokens(uint64_t token_count, double validation_fraction, int64_t block_size,
                                       eitp_token_range *training, eitp_token_range *validation, eitp_error *error);

/*
 * Returns a source for a range of an array, which is not copied. Reads all ids once to compute the hash, which equals
 * the hash of a token file with the same ids. NULL gives a source without tokens. eitp_language_task checks the range;
 * the ids are not checked here.
 */
EITP_API eitp_token_source eitp_token_memory_source(const int32_t *ids, uint64_t count, eitp_token_range range);

/* ---- Order ---- */

typedef enum eitp_shuffle {
    EITP_SHUFFLE_NONE = 0,   /* samples in the order of the data */
    EITP_SHUFFLE_WINDOWS = 1 /* a new random order of all samples in each epoch */
} eitp_shuffle;

EITP_END_DECLARATIONS

#endif
