/* A supervised command: `train` of this program with its options, or another program. */
#ifndef COMMAND_SUPERVISE_SUPERVISED_H
#define COMMAND_SUPERVISE_SUPERVISED_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

/* Empty when zero-initialized. */
typedef struct supervised {
    char **arguments; /* as given, not owned; the first is the name */
    int count;
    int is_training;          /* the name is `train` */
    option_set training;      /* its options */
    char *directory;          /* the output directory */
    const char *restart_args; /* of --restart-args, or NULL */
} supervised;

/*
 * Reads the arguments after "--". `o` has the options of safe-train. *ended is 1 if the options of `train` only print
 * something. Release it in any case.
 */
eitp_status supervised_read(supervised *s, const option_set *o, int count, char **arguments, int *ended,
                            eitp_error *error);
void supervised_release(supervised *s);

/* Returns the arguments of a start, ending with NULL: as given, and for a restart with arguments that make it
   resume. */
char **supervised_line(const supervised *s, int is_restart);
void supervised_line_release(char **line);

EITP_END_DECLARATIONS

#endif
