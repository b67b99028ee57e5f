/* The process: signals, memory, time. */
#ifndef COMMAND_PROCESS_H
#define COMMAND_PROCESS_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

/* Makes the first SIGINT or SIGTERM a request to stop. The second ends the process at once. */
void process_catch_signals(void);

/* Passes these signals on to a run, and SIGUSR1 as a request to save; NULL: to none. */
void process_attach_run(eitp_run *run);

/* Makes a write beyond the limit of file sizes (ulimit -f) an error rather than the end of the process. */
void process_ignore_file_limit(void);

/* The signal that asked to stop, or 0. */
int process_stop_signal(void);
const char *process_stop_name(void);

/* Resident bytes of the process, now and at their peak; 0 if unknown. */
size_t process_memory(void);
size_t process_peak_memory(void);

/* Returns freed memory to the system, if the C library can. */
void process_trim_memory(void);

/* Starts the peak anew, on Linux since 4.0. */
void process_reset_peak_memory(void);

/* Online processors, at least 1. */
long process_processors(void);

/* Seconds since an arbitrary time. */
double process_time(void);

EITP_END_DECLARATIONS

#endif
