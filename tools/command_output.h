/*
 * What the command says: results to standard output, everything else, a line each, to standard error.
 *
 * Until output_start, information and warnings are held back, so that a command that is refused says one line: why. -v
 * prints all at once.
 */
#ifndef COMMAND_OUTPUT_H
#define COMMAND_OUTPUT_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

typedef enum output_detail { OUTPUT_QUIET, OUTPUT_NORMAL, OUTPUT_VERBOSE } output_detail;

void output_set_detail(output_detail detail);

/* The command is under way: prints what was held back, and from now on everything at once. */
void output_start(void);

void output_info(const char *format, ...) COMMAND_PRINTF(1, 2);
void output_warning(const char *format, ...) COMMAND_PRINTF(1, 2);

/* Prints "error: ..." and forgets what is held back. */
void output_error(const char *format, ...) COMMAND_PRINTF(1, 2);

/* The same with an error of the library; returns the exit code that belongs to it. */
int output_fail(const eitp_error *error);

/* The log of the library goes the same way. */
eitp_log_sink output_log_sink(void);

/* Is standard error a terminal, whose last line output_progress may write again and again? */
int output_is_terminal(void);

/* Shows one line until the next line of any kind; only on a terminal. */
void output_progress(const char *line);

/* "12.3 MB" and the like (decimal), in one of a few buffers that are used in turn. */
const char *output_bytes(double bytes);

/* Writes to standard output; a failure to write is reported by output_finish. */
void output_result(const char *data, size_t size);

/* Ends standard output: `code`, or COMMAND_IO with an error where it could not be written. */
int output_finish(int code);

EITP_END_DECLARATIONS

#endif
