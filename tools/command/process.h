/* The process: signals, memory, time. */
#ifndef COMMAND_PROCESS_H
#define COMMAND_PROCESS_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

/*
 * Makes the first SIGINT, SIGTERM, SIGHUP or SIGXCPU a request to stop. The second one ends the process at once.
 * Signals ignored at the start stay ignored. SIGUSR1 does nothing until a run is attached.
 */
void process_catch_signals(void);

/* Makes the first of these signals end the process, for commands without results to lose. */
void process_end_on_signals(void);

/* Makes writing to a closed pipe an error rather than the end of the process. */
void process_survive_closed_pipes(void);

/*
 * Collects SIGINT, SIGTERM, SIGHUP and SIGXCPU, unless they were ignored at the start, and SIGUSR1, for
 * process_next_signal. These signals, and the end of a child, are delivered only within process_sleep.
 */
void process_collect_signals(void);

/* Returns a collected signal, each once, or 0. */
int process_next_signal(void);

/* Sleeps, and returns early when a signal is collected or a child ends. */
void process_sleep(double seconds);

/* Sleeps, regardless of signal collection. */
void process_pause(double seconds);

/* Unblocks signals after fork, in a child of a process that collects signals. */
void process_restore_signals(void);

/* Sets signals at the start, regardless of inherited settings: a closed output pipe ends the process silently, and
   SIGUSR1 does not end it. */
void process_begin(void);

/* Passes these signals to a run, and SIGUSR1 as a request to save. NULL: to no run. */
void process_attach_run(eitp_run *run);

/* Operations of command_host's host that fail after a request to stop, so that work in progress ends soon. */
typedef enum process_cancel {
    PROCESS_CANCEL_NOTHING = 0,
    PROCESS_CANCEL_READING = 1,
    PROCESS_CANCEL_ALLOCATING = 2, /* for planning, which mostly allocates */
    PROCESS_CANCEL_ALL = 3
} process_cancel;
void process_cancel_on_stop(process_cancel what);

/* True if a signal asked to stop and this operation must fail. */
int process_is_cancelled(process_cancel what);

/* Makes a write beyond the file size limit (ulimit -f) an error rather than the end of the process. */
void process_ignore_file_limit(void);

/* Returns the signal that asked to stop, or 0. */
int process_stop_signal(void);
const char *process_stop_name(void);

/* Return the resident bytes of the process, now and at their peak; 0 if unknown. */
size_t process_memory(void);
size_t process_peak_memory(void);

/* Returns freed memory to the system, if the C library can. */
void process_trim_memory(void);

/* Makes the kernel kill this process before others when memory runs out: raises its oom_score_adj to `score` if it is
   lower. Does nothing if that is not possible. */
void process_raise_oom_score(int score);

/* Adds to the niceness of the process, once. Call it before threads are started, since they inherit it. */
void process_lower_priority(int niceness);

/* Resets the peak, on Linux 4.0 or later. */
void process_reset_peak_memory(void);

/* Returns the number of processors that this process may use (see eitp_processor_info), at least 1. */
long process_processors(void);

/* Returns a number of data workers that leaves processors for training: one per four, 1 to 16. */
int64_t process_data_workers(void);

/* Returns the seconds since an arbitrary time. */
double process_time(void);

/* Return the seconds of processor time of the process and of the calling thread. */
double process_seconds(void);
double process_thread_seconds(void);

EITP_END_DECLARATIONS

#endif
