/* Reads the rows of one file, in any format, as examples. */
#ifndef EITP_ROW_READER_H
#define EITP_ROW_READER_H

#include "data/column_names.h"
#include "data/conll.h"
#include "data/csv.h"
#include "data/json_rows.h"

/* Default of row_limit, in bytes. */
enum { EITP__ROW_LIMIT = 16 << 20 };

/* The advice in messages about bad rows. */
#define EITP__SKIP_ADVICE "set skip_bad to go on with the next row"

/* The format and columns of rows. */
typedef struct eitp__row_config {
    eitp_text_format format;                 /* not AUTO or FOLDERS */
    const char *columns[EITP__COLUMN_KINDS]; /* names or numbers; NULL: the default */
    char delimiter;                          /* of CSV and TSV; 0: the default */
    const char *document_separator;          /* of TEXT; see eitp_text_files_config */
    eitp_text label;                         /* of all rows of TEXT and LINES; bytes NULL: none */
    int skip_bad;
    int every_row;    /* as in eitp_table_config */
    size_t row_limit; /* bytes */
} eitp__row_config;

/* Reads rows. A zeroed struct is closed. Do not move it while it is open. */
typedef struct eitp__row_reader {
    eitp__row_config config;
    eitp__text_reader reader;
    eitp__text_lines lines;
    eitp__csv csv;
    eitp__json_rows json;
    eitp__conll conll;
    eitp__buffer text;                 /* for TEXT and LINES, and for conversations in tables */
    eitp__word_list names;             /* column names of conversations in tables */
    int is_table;                      /* CHAT is read from CSV or TSV */
    eitp_text label;                   /* of the current row */
    size_t fields[EITP__COLUMN_KINDS]; /* CSV and TSV: indices of the columns, from 0; SIZE_MAX: none */
    size_t field_count;
    char common_names[EITP__COLUMN_KINDS][EITP__USUAL_NAME_SIZE]; /* of columns with a common name; otherwise empty */
    int found_delimiter;                                          /* the detected delimiter is not CSV's usual one */
    const char *separator;                                        /* between documents of TEXT; NULL: none */
    char header[300];              /* CSV and TSV: the column names, on one line of a message */
    uint64_t first_line;           /* CSV and TSV: the line that set field_count */
    int is_of_file;                /* the failure is due to the file, not to the row */
    int has_row;                   /* the first line was read, and is a row */
    int found[EITP__COLUMN_KINDS]; /* members found in a row of JSON Lines */
    int has_weights;               /* a column may hold row weights, but weight_column is not set */
    int has_texts;                 /* the words of the first row of a .json file contain spaces */
    uint64_t count, skipped;       /* rows read, and rows skipped */
} eitp__row_reader;

/* Returns the format for the extension of a name: CSV (.csv), TSV (.tsv, .tab), JSONL (.jsonl, .ndjson, .json), CONLL
   (.conll, .bio, .iob); `other` for any other name. */
EITP__PRIVATE eitp_text_format eitp__format_of_name(const char *path, eitp_text_format other);

/* True if a name ends with .json. A directory may have .json files that are plain text. */
EITP__PRIVATE int eitp__is_json_name(const char *path);

/* Opens a file, refuses files that are not text, and finds the columns in the header. The arguments must outlive
   `rows`. After a failure `rows` is closed. */
EITP__PRIVATE eitp_status eitp__row_reader_open(eitp__row_reader *rows, const eitp_host *host, const char *path,
                                                const eitp__text_options *how, const eitp__row_config *config,
                                                eitp_error *error);

/* Reads the next row, like eitp_example_source. Bad rows are skipped if the configuration allows it. */
EITP__PRIVATE eitp_status eitp__row_reader_next(eitp__row_reader *rows, eitp_example *example, int *is_end,
                                                eitp_error *error);

/* Writes the detected properties of the file beyond its name and configuration, after its first row was read: "read
   with delimiter ';'". Empty if nothing was detected. */
EITP__PRIVATE void eitp__row_reader_findings(const eitp__row_reader *rows, char *text, size_t size);

/* Closes and zeroes the rows. */
EITP__PRIVATE void eitp__row_reader_close(eitp__row_reader *rows);

/* Logs the number of skipped rows in all files. Returns EITP_ERROR_FORMAT if no row was read; `path` is the first file
   or directory. */
EITP__PRIVATE eitp_status eitp__report_skipped_rows(const eitp_host *host, const char *path, uint64_t count,
                                                    uint64_t skipped, eitp_error *error);

#endif
