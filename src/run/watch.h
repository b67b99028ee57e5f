/*
 * Watches: the records and the guard of a run, for a program with its own training loop. It calls eitp_watch_step
 * instead of eitp_trainer_step and gets the records, times, windows, alarms and health of a run, and its guard against
 * memory shortages and heat. The results have the same bits as without a watch. See docs/records.md and
 * examples/own_loop.c.
 */
#ifndef EITP_WATCH_H
#define EITP_WATCH_H

#include "run/run.h"

EITP_BEGIN_DECLARATIONS

typedef struct eitp_watch eitp_watch;

/*
 * Creates and locks config.directory, and starts to watch a trainer. Records continue after the steps that the trainer
 * has made, so resume the trainer first. Records of later steps are discarded; if it has made no step, all of them are.
 *
 * A watch does not evaluate by itself, and does not choose, write or remove checkpoints. It uses these members of the
 * configuration:
 * - directory, and those for records: monitor, log_full_every, metrics_every, metrics_window, perf_every,
 *   gpu_report_every, peak_tflops, report_to, log_dir, log_flush_seconds, log_wait_seconds, log_every, guide_tags,
 *   sinks, listener;
 * - those for the guard: memory_check_seconds, auto_shrink, cpu_mem_warn, cpu_mem_max, cpu_mem_acts, gpu_mem_warn,
 *   temp_max;
 * - alarms, check_finite, max_nonfinite;
 * - save and save_user: a function that writes a checkpoint of the program, for example with eitp_trainer_save. Its
 *   `directory` is config.directory, but it may write elsewhere. eitp_watch_save calls it. The guard calls it between
 *   two steps, to save steps that a memory shortage would lose. It must not step, evaluate or save through the watch.
 *   NULL: a shortage is reported, and nothing is saved.
 * The other members are checked and ignored. The number of steps is therefore unknown, and TensorBoard and CSV get step
 * 1 and every log_every-th step. The configuration is copied. The trainer must outlive the watch.
 *
 * EITP_ERROR_ARGUMENT if an argument is NULL or out of range, the directory cannot be created at this path, another
 * process or another watch has the lock, or the directory has a checkpoint of later steps than the trainer's. After a
 * failure *watch is NULL.
 */
EITP_API eitp_status eitp_watch_open(const eitp_host *host, const eitp_run_config *config, eitp_trainer *trainer,
                                     eitp_watch **watch, eitp_error *error);

/*
 * Makes a step like eitp_trainer_step, with the same bits and errors, and records it. Waits before the step while a
 * processor is too hot (temp_max). When memory becomes short, the step is dropped, the steps before it are saved, and
 * it is repeated: see eitp_run_config.auto_shrink. The poll of the program (eitp_context_set_poll) is called as well.
 * In addition, it fails with
 * - EITP_ERROR_INTERRUPTED if eitp_watch_request_stop was called;
 * - EITP_ERROR_PRESSURE if memory stays short with auto_shrink. The steps done are saved;
 * - EITP_ERROR_MEMORY if other programs use up the memory before step 1;
 * - EITP_ERROR_NOT_FINITE if max_nonfinite consecutive steps were not applied. The last of them is done and in
 *   *report;
 * - the error of config.save.
 * After any of these except the first, the program may continue. On failure *report is unchanged, except for
 * EITP_ERROR_NOT_FINITE.
 */
EITP_API eitp_status eitp_watch_step(eitp_watch *watch, eitp_step_report *report, eitp_error *error);

/* Evaluates like eitp_trainer_evaluate, and records it. When memory becomes short, the evaluation is dropped and
   repeated like a step. EITP_ERROR_INTERRUPTED and EITP_ERROR_PRESSURE as for eitp_watch_step. */
EITP_API eitp_status eitp_watch_evaluate(eitp_watch *watch, int64_t samples, eitp_evaluation *evaluation,
                                         eitp_error *error);

/*
 * Stores the records and calls config.save, so that no step or evaluation in the checkpoint is missing from the
 * records. Its time is recorded as checkpoint time, and the steps done are not saved again when memory is short. Use it
 * for all saves of the program.
 *
 * EITP_ERROR_ARGUMENT if config.save is NULL. EITP_ERROR_NOT_FINITE if the model is damaged, as defined for
 * eitp_run_train; nothing was saved.
 */
EITP_API eitp_status eitp_watch_save(eitp_watch *watch, eitp_error *error);

/* Records a number of the program, like eitp_run_record_value. Sinks receive it with the next step or save. */
EITP_API eitp_status eitp_watch_record_value(eitp_watch *watch, const char *name, double value, eitp_error *error);

/* Requests that no more steps are made. A step that is in progress, or waits because of heat, is dropped within about
   one op, unless it has started to change parameters. May be called from a signal handler and from any thread. NULL is
   ignored. */
EITP_API void eitp_watch_request_stop(eitp_watch *watch);

/* Stores the records, reports any that are lost, and unlocks the directory. NULL is ignored. */
EITP_API void eitp_watch_close(eitp_watch *watch);

EITP_END_DECLARATIONS

#endif
