/*
 * Output: results on standard output, everything else on standard error, one line each.
 *
 * Until output_start, information and warnings are held back, so that a refused command prints a single line, the
 * error. -v prints everything at once. On a terminal, the last line of information, or of output_progress, shows the
 * current activity in the meantime.
 */
#ifndef COMMAND_OUTPUT_H
#define COMMAND_OUTPUT_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

typedef enum output_detail { OUTPUT_QUIET, OUTPUT_NORMAL, OUTPUT_VERBOSE } output_detail;

/* Sets the level of detail. Only the first call has an effect: a command reads its own options first, then possibly
   those of others. */
void output_set_detail(output_detail detail);

/* Call when the command was accepted. Prints held back lines, and from now on everything at once. */
void output_start(void);

/* Prints the warnings held back, which may explain an error. */
void output_warnings(void);

/* Drops lines held back, because another process prints them. */
void output_forget(void);

void output_info(const char *format, ...) COMMAND_PRINTF(1, 2);
void output_warning(const char *format, ...) COMMAND_PRINTF(1, 2);

/* Prints "error: ..." and drops lines held back. */
void output_error(const char *format, ...) COMMAND_PRINTF(1, 2);

/* Does the same for an error of the library. Returns its exit code. */
int output_fail(const eitp_error *error);

/* Returns a log for the library that prints in the same way. */
eitp_log_sink output_log_sink(void);

/* True if standard error is a terminal on which lines can be replaced: not with TERM=dumb or NO_COLOR in the
   environment. */
int output_is_terminal(void);

/* Returns the width of the stream's terminal in columns; 0 if the stream is not a terminal or the width is unknown. */
int output_columns(FILE *stream);

/* On a terminal, shows a line until the next line of any kind replaces it. A line that does not fit is cut. */
void output_progress(const char *line);

/* Does the same for a line that stays below all other output until it is replaced or `line` is NULL. */
void output_live(const char *line);

/* Formats "12.3 MB", in decimal units. The string is valid until the eighth next call. */
const char *output_bytes(double bytes);

/* Switches standard output to line buffering. */
void output_by_line(void);

/* Writes to standard output. A terminal gets '?' for control characters other than line feeds and tabs. output_finish
   reports a failure to write. */
void output_result(const char *data, size_t size);

/* Flushes standard output. Returns 0 if it or an earlier write failed. */
int output_flush(void);

/* Does the same, returning a status: EITP_ERROR_IO on failure. */
eitp_status output_check(eitp_error *error);

/* Call at the end of the program. Prints warnings still held back if the command succeeded, flushes standard output,
   and returns `code`. If writing failed and `code` means success, prints an error and returns COMMAND_IO. A closed pipe
   is not a failure for a command that survives it (see process_survive_closed_pipes). */
int output_finish(int code);

EITP_END_DECLARATIONS

#endif
