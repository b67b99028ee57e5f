/*
 * Output: results on standard output, everything else on standard error, one line each.
 *
 * Until output_start, information and warnings are held back, so that a command that is refused prints a single line,
 * the error. -v prints everything at once. On a terminal output_progress shows what is under way in the meantime.
 */
#ifndef COMMAND_OUTPUT_H
#define COMMAND_OUTPUT_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

typedef enum output_detail { OUTPUT_QUIET, OUTPUT_NORMAL, OUTPUT_VERBOSE } output_detail;

/* The first call counts: a command reads its own options first, and then perhaps those of others. */
void output_set_detail(output_detail detail);

/* The command was accepted: prints what was held back, and from now on everything at once. */
void output_start(void);

/* Prints the warnings that were held back, for an error that they explain. */
void output_warnings(void);

/* Drops what was held back, which another process says. */
void output_forget(void);

void output_info(const char *format, ...) COMMAND_PRINTF(1, 2);
void output_warning(const char *format, ...) COMMAND_PRINTF(1, 2);

/* Prints "error: ..." and drops what is held back. */
void output_error(const char *format, ...) COMMAND_PRINTF(1, 2);

/* The same for an error of the library. Returns its exit code. */
int output_fail(const eitp_error *error);

/* A log for the library that prints in the same way. */
eitp_log_sink output_log_sink(void);

/* True if standard error is a terminal that lines can be replaced on: not with TERM=dumb, or with NO_COLOR in the
   environment. */
int output_is_terminal(void);

/* The width of the stream's terminal in columns; 0 if the stream is not a terminal or the width is unknown. */
int output_columns(FILE *stream);

/* On a terminal, shows a line that the next line of any kind replaces; what does not fit is cut off. */
void output_progress(const char *line);

/* The same for a line that stays below all others that are printed, until it is replaced or `line` is NULL. */
void output_live(const char *line);

/* "12.3 MB", in decimal units. The text is valid until the eighth next call. */
const char *output_bytes(double bytes);

/* From now on each line of standard output is written when it ends. */
void output_by_line(void);

/* Writes to standard output; a terminal gets '?' for control characters but line feeds and tabs. A failure to write is
   reported by output_finish. */
void output_result(const char *data, size_t size);

/* Flushes standard output. Returns 0 if it or an earlier write failed. */
int output_flush(void);

/* The same as a status: EITP_ERROR_IO. */
eitp_status output_check(eitp_error *error);

/* At the end of the program: prints the warnings still held back if the command succeeded, flushes standard output, and
   returns `code`, or, if writing failed and the code is that of success, prints an error and returns COMMAND_IO. A pipe
   that nobody reads is no failure of a command that survives it (see process_survive_closed_pipes). */
int output_finish(int code);

EITP_END_DECLARATIONS

#endif
