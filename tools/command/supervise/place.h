/* The output directory of a supervised command: its lock, and the files in its directory logs. */
#ifndef COMMAND_SUPERVISE_PLACE_H
#define COMMAND_SUPERVISE_PLACE_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

enum { PLACE_NAME_SIZE = 64 };

/* Closed when zero-initialized. */
typedef struct place {
    char *directory, *logs; /* paths; logs is in it */
    char *log;              /* path of the log */
    int lock;               /* descriptor of the directory; -1: none */
    int file;               /* descriptor of the log; -1: none */
    int64_t shown;          /* bytes of the log that were copied to standard error */
    int shows;              /* copies the log to standard error */
    int quiet;              /* warnings and errors of place_say go there even if the log does not */
} place;

/*
 * Creates the directory, locks it, and starts the log. EITP_ERROR_ARGUMENT if another process holds the lock. If the
 * place is already open, does so only if its directory was removed or replaced. Close it in any case.
 */
eitp_status place_open(place *p, const char *directory, eitp_error *error);

/* Closes the files. `unlocks`: also releases the lock for processes that inherited it. */
void place_close(place *p, int unlocks);

/* Returns an unused path in the directory logs: "training_20261125_203245.log", or with "-2" and so on. */
char *place_new_file(const place *p, const char *prefix);

/* Adds a line to the log, starting with the prefix of the level and "safe-train: ". */
void place_say(place *p, eitp_log_level level, const char *format, ...) COMMAND_PRINTF(3, 4);

/* Copies new parts of the log to standard error, as far as possible without waiting. */
void place_show(place *p);

/* Copies all of the rest, waiting for standard error as long as it makes progress. */
void place_show_rest(place *p);

/* Returns the size of the log in bytes. */
int64_t place_log_size(const place *p);

/* Reads the last lines of the log after the byte `from`, at most `count`; only the end of very long lines. */
void place_last_lines(const place *p, int64_t from, size_t count, text_buffer *lines);

EITP_END_DECLARATIONS

#endif
