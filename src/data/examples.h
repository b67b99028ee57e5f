/* Examples: texts with their labels, as a table, a program or a labelled file's writer sees them. */
#ifndef EITP_EXAMPLES_H
#define EITP_EXAMPLES_H

#include "data/data.h"

EITP_BEGIN_DECLARATIONS

/* A text, or a pair of texts, with its labels. What it points to is valid until the next example is read. */
typedef struct eitp_example {
    eitp_text text;
    eitp_text pair;         /* the second text; bytes NULL: there is one text */
    const eitp_text *words; /* word_count of them, if the text is given as words, which it joins by spaces; else NULL */
    size_t word_count;
    const eitp_text *labels; /* label_count of them, as written: names, or numbers to predict; or one for each word */
    size_t label_count;      /* 0: none */
    eitp_text weight;        /* in the loss, as written: a number of at least 0; empty, or bytes NULL: 1 */
    int labels_are_list;     /* they come from a list, so that an example may have several, or none of those it could */
    int is_skipped;          /* a bad row that was skipped, with an empty text; only with eitp_table_config.every_row */
    const char *path;        /* the file that it is from, for messages; NULL: none */
    uint64_t line, column;   /* its place there, from 1; 0: unknown */
} eitp_example;

/* Examples that are read one after another. Belongs to one thread at a time. */
typedef struct eitp_example_source {
    void *user;
    /* Stores the next example in *example; *is_end is 1, and *example unchanged, after the last one. */
    eitp_status (*read)(void *user, eitp_example *example, int *is_end, eitp_error *error);
} eitp_example_source;

/*
 * Rows of files, as examples: CSV, TSV, JSON Lines, lines, or directories of texts, as docs/data.md describes. One row
 * is in memory at a time. It belongs to one thread at a time.
 */
typedef struct eitp_table eitp_table;

/* Start from eitp_table_config_default(); only texts.paths and texts.path_count must be set. */
typedef struct eitp_table_config {
    /*
     * The files and directories. With EITP_FORMAT_AUTO, the format of a directory is FOLDERS; of a file it is CSV
     * (.csv), TSV (.tsv, .tab), JSONL (.jsonl, .ndjson, .json), CONLL (.conll, .bio, .iob), and LINES for any other.
     * A directory with a format other than FOLDERS stands for the files in it and below it.
     */
    eitp_text_files_config texts;
    /*
     * Columns, like texts.text_column: names in the header of CSV and TSV, or of members in JSON Lines; or, without a
     * header, numbers from "1", if all columns that are given are numbers. NULL: none, and "label" if a file has it;
     * "text" for the text. A file without these is searched for names that texts and labels usually have (docs/data.md
     * lists them): the only one is used, and the log says so. Those of CONLL are numbers; NULL: none, and the last one
     * if there are two or more; 1 for the text.
     */
    const char *pair_column, *label_column;
    const char *weight_column; /* of the weight of a row in the loss; NULL: none, whatever columns are called. Only CSV,
                                  TSV and JSONL have one. */
    size_t row_limit;          /* largest row in bytes; 0: the default. A larger one is bad. */
    int every_row;             /* nonzero: an empty line of LINES is an empty text, and a bad row that texts.skip_bad
                                  skips is an example with is_skipped, so that results can be matched with rows by their
                                  number; 0: both are left out */
} eitp_table_config;

/* The defaults of eitp_text_files_config, the usual columns, and rows of up to 16 MiB; not every row. */
EITP_API eitp_table_config eitp_table_config_default(void);

/* What has been read. */
typedef struct eitp_table_statistics {
    uint64_t rows;          /* examples */
    uint64_t skipped_rows;  /* bad rows */
    uint64_t bytes;         /* of the files */
    uint64_t bytes_total;   /* of all files, as of eitp_table_open, without "-" */
    uint64_t invalid_bytes; /* bytes that were not valid and became U+FFFD */
    int has_weights; /* nonzero: a column is called weight, weights or sample_weight, and weight_column is NULL */
} eitp_table_statistics;

/* Copies the configuration, finds the files and checks that they exist; reads none of them. Close with
   eitp_table_close. */
EITP_API eitp_status eitp_table_open(const eitp_host *host, const eitp_table_config *config, eitp_table **table,
                                     eitp_error *error);

/* NULL is harmless. */
EITP_API void eitp_table_close(eitp_table *table);

/*
 * The remaining rows, file by file; empty lines are not rows, except with every_row. Valid until `table` is closed. A
 * column that is missing is EITP_ERROR_ARGUMENT, a bad row EITP_ERROR_FORMAT, with file, line and column, in characters
 * from 1; so are a table of which all rows were skipped, and a file that is not text in the encoding (docs/data.md).
 * After a failure reading cannot go on. With NULL, reading fails with EITP_ERROR_ARGUMENT.
 */
EITP_API eitp_example_source eitp_table_source(eitp_table *table);

/* All zeros for NULL. */
EITP_API eitp_table_statistics eitp_table_get_statistics(const eitp_table *table);

EITP_END_DECLARATIONS

#endif
