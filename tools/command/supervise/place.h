/* The output directory of what is supervised: its lock, and the files in its directory logs. */
#ifndef COMMAND_SUPERVISE_PLACE_H
#define COMMAND_SUPERVISE_PLACE_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

enum { PLACE_NAME_SIZE = 64 };

/* Zeroed it is closed. */
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
 * Creates the directory, locks it, and begins the log. EITP_ERROR_ARGUMENT if another process has the lock. If the
 * place is open already, does so only if its directory was removed or replaced. Close it in any case.
 */
eitp_status place_open(place *p, const char *directory, eitp_error *error);

/* Closes the files. `unlocks`: for the processes that have inherited the lock too. */
void place_close(place *p, int unlocks);

/* A path in the directory logs that does not exist: "training_20261125_203245.log", or with "-2" and so on. */
char *place_new_file(const place *p, const char *prefix);

/* Adds a line to the log, which begins with the prefix of the level and "safe-train: ". */
void place_say(place *p, eitp_log_level level, const char *format, ...) COMMAND_PRINTF(3, 4);

/* Copies what the log has got to standard error, as far as this takes it at once. */
void place_show(place *p);

/* The same for all of it, waiting for standard error as long as it takes some. */
void place_show_rest(place *p);

/* Bytes of the log. */
int64_t place_log_size(const place *p);

/* The last lines of the log, at most `count`, of what follows the byte `from`; of very long lines the end. */
void place_last_lines(const place *p, int64_t from, size_t count, text_buffer *lines);

EITP_END_DECLARATIONS

#endif
