/*
 * Watches: what a run watches, for a program that trains with a loop of its own. It calls eitp_watch_step instead of
 * eitp_trainer_step and gets the records, times, windows, alarms and health of a run, and its guard against shortages
 * of memory and heat, with the same bits as without. See docs/records.md and examples/own_loop.c.
 */
#ifndef EITP_WATCH_H
#define EITP_WATCH_H

#include "run/run.h"

EITP_BEGIN_DECLARATIONS

typedef struct eitp_watch eitp_watch;

/*
 * Creates and locks config.directory, and begins to watch a trainer. Records continue after the steps that the trainer
 * has made, so resume it before. Those of later steps are discarded; if it has made none, all of them.
 *
 * A watch neither evaluates by itself nor chooses, writes or removes checkpoints. Of the configuration it uses
 * - directory, and what is about records: monitor, log_full_every, metrics_every, metrics_window, perf_every,
 *   gpu_report_every, peak_tflops, report_to, log_dir, log_flush_seconds, log_wait_seconds, log_every, guide_tags,
 *   sinks, listener;
 * - the guard: memory_check_seconds, auto_shrink, cpu_mem_warn, cpu_mem_max, cpu_mem_acts, gpu_mem_warn,
 *   temp_max;
 * - alarms, check_finite, max_nonfinite;
 * - save and save_user: a function that writes a checkpoint of the program, for example by eitp_trainer_save. Its
 *   `directory` is config.directory, where it need not write. eitp_watch_save calls it, and so does the guard, between
 *   two steps, to save those that a shortage of memory would lose. It must not step, evaluate or save by the watch.
 *   NULL: a shortage is reported, and nothing is saved.
 * The others are checked, and ignored. So the number of steps is unknown, and TensorBoard and CSV get step 1 and every
 * log_every-th one. The configuration is copied. The trainer must outlive the watch.
 *
 * EITP_ERROR_ARGUMENT if an argument is NULL or out of range, the directory cannot have this path, another process or
 * another watch has the lock, or the directory has a checkpoint of later steps than the trainer's. After a failure
 * *watch is NULL.
 */
EITP_API eitp_status eitp_watch_open(const eitp_host *host, const eitp_run_config *config, eitp_trainer *trainer,
                                     eitp_watch **watch, eitp_error *error);

/*
 * Makes a step as eitp_trainer_step does, with the same bits and errors, and records it. It waits before the step while
 * a processor is too hot (temp_max). When memory becomes short, the step is dropped, the steps before it are saved, and
 * it is repeated: see eitp_run_config.auto_shrink. A poll of the program (eitp_context_set_poll) is asked as well.
 * Besides, it fails with
 * - EITP_ERROR_INTERRUPTED if eitp_watch_request_stop was called;
 * - EITP_ERROR_PRESSURE if memory stays short with auto_shrink. The steps done are saved;
 * - EITP_ERROR_MEMORY if other programs use up the memory before step 1;
 * - EITP_ERROR_NOT_FINITE if max_nonfinite steps in a row were not applied. The last one of them is done and in
 *   *report;
 * - the error of config.save.
 * After all but the first of these the program may go on. Nothing but EITP_ERROR_NOT_FINITE changes *report.
 */
EITP_API eitp_status eitp_watch_step(eitp_watch *watch, eitp_step_report *report, eitp_error *error);

/* Evaluates as eitp_trainer_evaluate does, and records it. When memory becomes short it is dropped and repeated like a
   step. EITP_ERROR_INTERRUPTED and EITP_ERROR_PRESSURE as for eitp_watch_step. */
EITP_API eitp_status eitp_watch_evaluate(eitp_watch *watch, int64_t samples, eitp_evaluation *evaluation,
                                         eitp_error *error);

/*
 * Stores the records, and calls config.save: then a checkpoint has no step and no evaluation that the records lack. Its
 * time is recorded as that of checkpoints, and the steps done are not saved again when memory is short. Use it wherever
 * the program saves.
 *
 * EITP_ERROR_ARGUMENT if config.save is NULL. EITP_ERROR_NOT_FINITE if the model is ruined, in the sense of
 * eitp_run_train: nothing was saved.
 */
EITP_API eitp_status eitp_watch_save(eitp_watch *watch, eitp_error *error);

/* Records a number of the program's own, as eitp_run_record_value does: sinks get it with the next step or save. */
EITP_API eitp_status eitp_watch_record_value(eitp_watch *watch, const char *name, double value, eitp_error *error);

/* Requests that no step is made any more. One that is in progress, or waits because of heat, is dropped within about
   one op, unless it has begun to change parameters. May be called from a signal handler and from any thread. NULL is
   harmless. */
EITP_API void eitp_watch_request_stop(eitp_watch *watch);

/* Stores the records, reports those that are lost, and unlocks the directory. NULL is harmless. */
EITP_API void eitp_watch_close(eitp_watch *watch);

EITP_END_DECLARATIONS

#endif
