/* The process: signals that ask it to stop, memory, time. */
#ifndef COMMAND_PROCESS_H
#define COMMAND_PROCESS_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

/* From now on SIGINT and SIGTERM ask to stop, the first time; the second ends the process at once. */
void process_catch_signals(void);

/* From now on the run is told of those signals, and of SIGUSR1 to save; NULL: no longer. */
void process_attach_run(eitp_run *run);

/* Makes a write beyond the limit of file sizes (ulimit -f) an error like others, not the end of the process. */
void process_ignore_file_limit(void);

/* The signal that came, or 0. */
int process_stop_signal(void);
const char *process_stop_name(void);

/* Bytes of physical memory that the process has now, and the most it ever had; 0 where it cannot be told. */
size_t process_memory(void);
size_t process_peak_memory(void);

/* Returns freed memory to the system, where the C library can. */
void process_trim_memory(void);

/* From now on the peak is that of what follows, where the system can count it anew: Linux since 4.0. */
void process_reset_peak_memory(void);

/* Seconds, from some point on. */
double process_time(void);

EITP_END_DECLARATIONS

#endif
