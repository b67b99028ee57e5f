/* Examples: labelled text, as tables, programs and labelled-file writers see it. */
#ifndef EITP_EXAMPLES_H
#define EITP_EXAMPLES_H

#include "data/data.h"

EITP_BEGIN_DECLARATIONS

/* One input or a pair of inputs, with labels. Its pointers are valid until the next example is read. */
typedef struct eitp_example {
    eitp_text text;
    eitp_text pair;         /* the second input; bytes NULL: there is only one */
    const eitp_text *words; /* word_count words if the input is a list of words, which `text` joins with spaces;
                               otherwise NULL */
    size_t word_count;
    const eitp_text *labels; /* label_count labels, as written: names, numbers to predict, or one label for each word */
    size_t label_count;      /* 0: none */
    eitp_text weight;        /* loss weight, as written: a number of at least 0; empty, or bytes NULL: 1 */
    int labels_are_list;     /* from a list, so an example may have several labels, or none */
    int is_skipped;          /* a bad row that was skipped, with empty text; only with eitp_table_config.every_row */
    const char *path;        /* the file it is from, for messages; NULL: none */
    uint64_t line, column;   /* position in the file, from 1; 0: unknown */
} eitp_example;

/* A sequence of examples. Belongs to one thread at a time. */
typedef struct eitp_example_source {
    void *user;
    /* Stores the next example in *example; *is_end is 1, and *example unchanged, after the last one. */
    eitp_status (*read)(void *user, eitp_example *example, int *is_end, eitp_error *error);
} eitp_example_source;

/*
 * Reads rows of files as examples: CSV, TSV, JSON Lines, lines, or directories of text files, as docs/data.md
 * describes. One row is in memory at a time. It belongs to one thread at a time.
 */
typedef struct eitp_table eitp_table;

/* Start from eitp_table_config_default(); only texts.paths and texts.path_count must be set. */
typedef struct eitp_table_config {
    /*
     * The files and directories. With EITP_FORMAT_AUTO, the format of a directory is FOLDERS. The format of a file is
     * CSV (.csv), TSV (.tsv, .tab), JSONL (.jsonl, .ndjson, .json), CONLL (.conll, .bio, .iob), and LINES for any
     * other. A directory with a format other than FOLDERS stands for the files in it and below it.
     */
    eitp_text_files_config texts;
    /*
     * Columns, like texts.text_column: names in the header of CSV and TSV, or of members in JSON Lines; or, without a
     * header, numbers from "1", if all given columns are numbers. NULL: no pair, "label" if a file has it, and "text"
     * for the text. A file without these is searched for common names of text and label columns (docs/data.md lists
     * them); if there is exactly one, it is used and logged. CONLL columns are numbers; NULL: no pair, the last column
     * as the label if there are two or more, and 1 for the text.
     */
    const char *pair_column, *label_column;
    const char *weight_column; /* column of the loss weights of rows; NULL: none, regardless of the column names. Only
                                  CSV, TSV and JSONL have one. */
    size_t row_limit;          /* largest row in bytes; 0: the default. A larger one is a bad row. */
    int every_row;             /* nonzero: an empty line of LINES is an empty input, and a bad row that texts.skip_bad
                                  skips is an example with is_skipped, so that results can be matched with rows by
                                  number; 0: both are left out */
} eitp_table_config;

/* The defaults of eitp_text_files_config, the default columns, and rows of up to 16 MiB; not every row. */
EITP_API eitp_table_config eitp_table_config_default(void);

/* Counts of the rows and bytes read so far. */
typedef struct eitp_table_statistics {
    uint64_t rows;          /* examples */
    uint64_t skipped_rows;  /* bad rows */
    uint64_t bytes;         /* bytes of the files */
    uint64_t bytes_total;   /* of all files at the time of eitp_table_open, without "-" */
    uint64_t invalid_bytes; /* invalid bytes, which became U+FFFD */
    int has_weights;        /* nonzero: a column is named weight, weights or sample_weight, and weight_column is NULL */
} eitp_table_statistics;

/* Copies the configuration, finds the files and checks that they exist; reads none of them. Close with
   eitp_table_close. */
EITP_API eitp_status eitp_table_open(const eitp_host *host, const eitp_table_config *config, eitp_table **table,
                                     eitp_error *error);

/* NULL is harmless. */
EITP_API void eitp_table_close(eitp_table *table);

/*
 * Returns a source of the remaining rows, file by file. Empty lines are not rows, except with every_row. Valid until
 * `table` is closed. A missing column is EITP_ERROR_ARGUMENT. A bad row is EITP_ERROR_FORMAT, with file, line and
 * column, in characters from 1; so are a table whose rows were all skipped, and a file that is not text in the encoding
 * (docs/data.md). After a failure no more rows can be read. With NULL, reading fails with EITP_ERROR_ARGUMENT.
 */
EITP_API eitp_example_source eitp_table_source(eitp_table *table);

/* All zeros for NULL. */
EITP_API eitp_table_statistics eitp_table_get_statistics(const eitp_table *table);

EITP_END_DECLARATIONS

#endif
