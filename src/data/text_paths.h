/* Where texts are and how they are read: an owned copy of their configuration, and the walk through their files. */
#ifndef EITP_TEXT_PATHS_H
#define EITP_TEXT_PATHS_H

#include "base/settings.h"
#include "data/path_walk.h"
#include "data/text_reader.h"

/* Room for what is found in a file. */
enum { EITP__FINDINGS_SIZE = 240 };

/* Zeroed, it is empty. It must not move. */
typedef struct eitp__text_paths {
    eitp_host host;
    char **paths;
    size_t path_count;
    char *has_folders;              /* of each path: 1 for a directory with directories */
    uint64_t total_bytes;           /* of all files, as of eitp__text_paths_open */
    char *encoding, *text_column;   /* NULL: the default */
    char *document_separator;       /* as in the configuration */
    char delimiter;                 /* 0: found in each file */
    char said[EITP__FINDINGS_SIZE]; /* what the log said last of what was found in a file */
    eitp_text_format format;
    int skip_bad, json_rows;
    eitp_text_source input;
    eitp__text_reading how;
    eitp__path_walk walk; /* begins before the first file */
} eitp__text_paths;

/* Checks and copies a configuration, and walks all paths once to find missing ones early. `function` is for messages.
   After a failure it is closed. */
EITP__PRIVATE eitp_status eitp__text_paths_open(eitp__text_paths *paths, const eitp_host *host,
                                                const eitp_text_files_config *config, const char *function,
                                                eitp_error *error);

/* Releases the copies and zeroes them. */
EITP__PRIVATE void eitp__text_paths_close(eitp__text_paths *paths);

/* Refuses a setting that the current file, of this format, has no use for. It may be for other files of a directory. */
EITP__PRIVATE eitp_status eitp__text_paths_check_format(const eitp__text_paths *paths, eitp_text_format format,
                                                        eitp_error *error);

/* Reports what was found in the current file, unless the same was found in the last one. */
EITP__PRIVATE void eitp__text_paths_say(eitp__text_paths *paths, const char *findings);

/* Copies a text of a configuration, which may be NULL. */
EITP__PRIVATE eitp_status eitp__copy_setting(const eitp_host *host, const char *text, char **copy, eitp_error *error);

/* The numbers, choices and texts of eitp_text_files_config, with their defaults and bounds. Stores their number in
   *count, unless `count` is NULL. */
EITP__PRIVATE const eitp_setting *eitp__text_files_setting_table(size_t *count);

#endif
