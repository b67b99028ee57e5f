/* An owned copy of a text files configuration, and the walk through the files. */
#ifndef EITP_TEXT_PATHS_H
#define EITP_TEXT_PATHS_H

#include "base/settings.h"
#include "data/path_walk.h"
#include "data/text_reader.h"

/* Buffer size for the layout detected in a file. */
enum { EITP__FINDINGS_SIZE = 240 };

/* A zeroed struct is empty. Do not copy or move it. */
typedef struct eitp__text_paths {
    eitp_host host;
    char **paths;
    size_t path_count;
    char *has_folders;              /* for each path: 1 for a directory with subdirectories */
    uint64_t total_bytes;           /* of all files, at the time of eitp__text_paths_open */
    char *encoding, *text_column;   /* NULL: the default */
    char *document_separator;       /* as configured */
    char delimiter;                 /* 0: detected in each file */
    char said[EITP__FINDINGS_SIZE]; /* the last findings that were logged */
    eitp_text_format format;
    int skip_bad, json_rows;
    eitp_text_source input;
    eitp__text_options how;
    eitp__path_walk walk; /* starts before the first file */
} eitp__text_paths;

/* Checks and copies a configuration, and walks all paths once to find missing ones early. `function` is for messages.
   After a failure `paths` is closed. */
EITP__PRIVATE eitp_status eitp__text_paths_open(eitp__text_paths *paths, const eitp_host *host,
                                                const eitp_text_files_config *config, const char *function,
                                                eitp_error *error);

/* Releases the copies and zeroes them. */
EITP__PRIVATE void eitp__text_paths_close(eitp__text_paths *paths);

/* Refuses a setting that does not apply to the current file's format. It may be meant for other files. */
EITP__PRIVATE eitp_status eitp__text_paths_check_format(const eitp__text_paths *paths, eitp_text_format format,
                                                        eitp_error *error);

/* Logs the findings about the current file, unless they are the same as for the last one. */
EITP__PRIVATE void eitp__text_paths_say(eitp__text_paths *paths, const char *findings);

/* Copies a string of a configuration, which may be NULL. */
EITP__PRIVATE eitp_status eitp__copy_setting(const eitp_host *host, const char *text, char **copy, eitp_error *error);

/* Returns the numbers, choices and strings of eitp_text_files_config, with their defaults and bounds. Stores their
   number in *count, unless `count` is NULL. */
EITP__PRIVATE const eitp_setting *eitp__text_files_setting_table(size_t *count);

#endif
