/* The rows of one file, in any format, as examples. */
#ifndef EITP_ROW_READER_H
#define EITP_ROW_READER_H

#include "data/column_names.h"
#include "data/conll.h"
#include "data/csv.h"
#include "data/json_rows.h"

/* Default of row_limit, in bytes. */
enum { EITP__ROW_LIMIT = 16 << 20 };

/* What to do about a bad row. */
#define EITP__SKIP_ADVICE "set skip_bad to go on with the next row"

/* What rows are made of. */
typedef struct eitp__row_config {
    eitp_text_format format;                 /* not AUTO or FOLDERS */
    const char *columns[EITP__COLUMN_KINDS]; /* names or numbers; NULL: the default */
    char delimiter;                          /* of CSV and TSV; 0: the usual one */
    const char *document_separator;          /* of TEXT, as in eitp_text_files_config */
    eitp_text label;                         /* of all rows of TEXT and LINES; bytes NULL: none */
    int skip_bad;
    int every_row;    /* as in eitp_table_config */
    size_t row_limit; /* bytes */
} eitp__row_config;

/* Rows that are being read. Zeroed, they are closed. They must not move while they are open. */
typedef struct eitp__row_reader {
    eitp__row_config config;
    eitp__text_reader reader;
    eitp__text_lines lines;
    eitp__csv csv;
    eitp__json_rows json;
    eitp__conll conll;
    eitp__buffer text;                 /* of TEXT and LINES, and of conversations in tables */
    eitp__word_list names;             /* of the columns of these */
    int is_table;                      /* CHAT is read from CSV or TSV */
    eitp_text label;                   /* of the row */
    size_t fields[EITP__COLUMN_KINDS]; /* of CSV and TSV: the places of the columns, from 0; SIZE_MAX: none */
    size_t field_count;
    char usual_names[EITP__COLUMN_KINDS][EITP__USUAL_NAME_SIZE]; /* of columns that are found by them; else empty */
    int found_delimiter;                                         /* one that CSV usually does not have */
    const char *separator;                                       /* between documents of TEXT; NULL: none */
    char header[300];              /* of CSV and TSV: the names of the columns, on one line of a message */
    uint64_t first_line;           /* of CSV and TSV: the line that decided on field_count */
    int is_of_file;                /* what failed is due to the file, not to the row */
    int has_row;                   /* the first line was read, and is a row */
    int found[EITP__COLUMN_KINDS]; /* members that a row of JSON Lines had */
    int has_weights;               /* a column may have the weights of rows, and is not named */
    int has_texts;                 /* the words of the first row of a .json file have spaces in them */
    uint64_t count, skipped;       /* rows that were read and skipped */
} eitp__row_reader;

/* The format of a file by the ending of its name: CSV (.csv), TSV (.tsv, .tab), JSONL (.jsonl, .ndjson, .json), CONLL
   (.conll, .bio, .iob); `other` for any other name. */
EITP__PRIVATE eitp_text_format eitp__format_of_name(const char *path, eitp_text_format other);

/* True if a name ends with .json, of which a directory may have texts. */
EITP__PRIVATE int eitp__is_json_name(const char *path);

/* Opens a file, refuses what is not text, and finds the columns in the header. The arguments must outlive the rows.
   After a failure they are closed. */
EITP__PRIVATE eitp_status eitp__row_reader_open(eitp__row_reader *rows, const eitp_host *host, const char *path,
                                                const eitp__text_reading *how, const eitp__row_config *config,
                                                eitp_error *error);

/* Reads the next row, like eitp_example_source. Bad rows are skipped if the configuration says so. */
EITP__PRIVATE eitp_status eitp__row_reader_next(eitp__row_reader *rows, eitp_example *example, int *is_end,
                                                eitp_error *error);

/* Writes what was found in the file that its name and the configuration leave open, after its first row was read: "read
   with delimiter ';'". Empty if nothing was. */
EITP__PRIVATE void eitp__row_reader_findings(const eitp__row_reader *rows, char *text, size_t size);

/* Closes and zeroes the rows. */
EITP__PRIVATE void eitp__row_reader_close(eitp__row_reader *rows);

/* Reports the rows of all files that were skipped in the log. That none was read is EITP_ERROR_FORMAT; `path` is the
   first file or directory. */
EITP__PRIVATE eitp_status eitp__report_skipped_rows(const eitp_host *host, const char *path, uint64_t count,
                                                    uint64_t skipped, eitp_error *error);

#endif
