/* Shared by all files of the command: exit codes, failures, memory, subcommands. */
#ifndef COMMAND_H
#define COMMAND_H

/* Strict C modes hide POSIX calls; this must precede the first system header. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1
#endif

#include "eitp.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __GNUC__
#define COMMAND_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define COMMAND_PRINTF(text, first)
#endif

#define COMMAND_COUNT(array) (sizeof(array) / sizeof *(array))

EITP_BEGIN_DECLARATIONS

/* Exit codes. After a signal: 128 plus its number. */
enum {
    COMMAND_FINISHED = 0,
    COMMAND_WRONG = 1, /* invalid command, configuration or file content */
    COMMAND_NO_MEMORY = 2,
    COMMAND_PRESSURE = 3,
    COMMAND_NOT_FINITE = 4,
    COMMAND_IO = 5
};

int command_exit_code(eitp_status status);

/* Fills in an error and returns `status`. The message says what is wrong, where, and what to do. */
eitp_status command_fail(eitp_error *error, eitp_status status, const char *format, ...) COMMAND_PRINTF(3, 4);

/* Allocate memory of the command itself. If memory runs out, the process ends with an error. */
void *command_allocate(size_t size); /* zeroed */
void *command_resize(void *memory, size_t size);
char *command_copy(const char *text);
char *command_format(const char *format, ...) COMMAND_PRINTF(1, 2);

/* The subcommands. Each takes the arguments after its name and returns the exit code. */
int command_train(int count, char **arguments);
int command_safe_train(int count, char **arguments);
int command_eval(int count, char **arguments);
int command_generate(int count, char **arguments);
int command_chat(int count, char **arguments);
int command_predict(int count, char **arguments);
int command_embed(int count, char **arguments);
int command_merge(int count, char **arguments);
int command_export(int count, char **arguments);
int command_tokenizer(int count, char **arguments);
int command_pack(int count, char **arguments);
int command_bench(int count, char **arguments);
int command_set(int count, char **arguments);
int command_plan(int count, char **arguments);
int command_check_system(int count, char **arguments);
int command_monitor(int count, char **arguments);
int command_report(int count, char **arguments);
int command_doctor(int count, char **arguments);
int command_logs(int count, char **arguments);

EITP_END_DECLARATIONS

#endif
