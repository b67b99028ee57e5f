/* The process: signals, memory, time. */
#ifndef COMMAND_PROCESS_H
#define COMMAND_PROCESS_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

/*
 * Makes the first SIGINT, SIGTERM, SIGHUP or SIGXCPU a request to stop. The second ends the process at once. Those that
 * were ignored at the start stay ignored. SIGUSR1 does nothing until a run is attached.
 */
void process_catch_signals(void);

/* Makes the first of them end the process: for commands without results to lose. */
void process_end_on_signals(void);

/* Makes writing to a pipe that nobody reads an error rather than the end of the process. */
void process_survive_closed_pipes(void);

/*
 * Collects SIGINT, SIGTERM, SIGHUP and SIGXCPU, unless they were ignored at the start, and SIGUSR1, for
 * process_next_signal. They, and the end of a child, are delivered within process_sleep alone.
 */
void process_collect_signals(void);

/* A signal that was collected, each once, or 0. */
int process_next_signal(void);

/* Sleeps, or returns earlier when a signal is collected or a child ends. */
void process_sleep(double seconds);

/* Sleeps, whatever collects signals. */
void process_pause(double seconds);

/* After fork, in a child of a process that collects signals: blocks none of them. */
void process_restore_signals(void);

/* Signals at the start, whatever the process inherited: a command whose output nobody reads ends without a word, and
   SIGUSR1 ends none. */
void process_begin(void);

/* Passes these signals on to a run, and SIGUSR1 as a request to save; NULL: to none. */
void process_attach_run(eitp_run *run);

/* What fails after a request to stop, in the host of command_host, so that whatever is in progress fails soon. */
typedef enum process_cancel {
    PROCESS_CANCEL_NOTHING = 0,
    PROCESS_CANCEL_READING = 1,
    PROCESS_CANCEL_ALLOCATING = 2, /* for planning, which does little else */
    PROCESS_CANCEL_ALL = 3
} process_cancel;
void process_cancel_on_stop(process_cancel what);

/* True if a signal asked to stop, and that is to fail. */
int process_is_cancelled(process_cancel what);

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

/* Makes the kernel end this process sooner than others when memory runs out: raises its oom_score_adj to `score`, if it
   is lower. Does nothing where that is not possible. */
void process_offer_memory(int score);

/* Adds to the niceness of the process, once. Call it before there are threads, which inherit it. */
void process_give_way(int niceness);

/* Starts the peak anew, on Linux since 4.0. */
void process_reset_peak_memory(void);

/* Processors that this process may use (see eitp_processor_info), at least 1. */
long process_processors(void);

/* Data workers that leave the processors to training: one for every four, 1 to 16. */
int64_t process_data_workers(void);

/* Seconds since an arbitrary time. */
double process_time(void);

/* Seconds of processor time, of the process and of the calling thread. */
double process_seconds(void);
double process_thread_seconds(void);

EITP_END_DECLARATIONS

#endif
