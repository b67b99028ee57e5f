/* A run that trains: the lines of its log, and its end. */
#ifndef COMMAND_RUN_TRAINING_H
#define COMMAND_RUN_TRAINING_H

#include "run/on_event.h"
#include "run/post_save.h"
#include "run/run.h"

EITP_BEGIN_DECLARATIONS

typedef struct training {
    training_run *r;
    eitp_run_report report;
    post_save post_save;
    on_event on_event;
    int64_t log_every;                   /* steps between two lines, where they are no terminal's */
    int64_t logged_steps, logged_items;  /* since the last line */
    double logged_seconds, step_seconds; /* of these steps: the sum, and the mean */
    double shown;                        /* time of the last line */

    /* ---- While it trains ---- */
    const eitp_run_report *now; /* how far the run is; NULL: it does not train yet, or no more */
    eitp_step_report step;      /* the last one */
    double rate, left;          /* items a second, and seconds to the last step, when that was done */
    double since;               /* time of the last event: what the run does now began then */

    /* ---- For the end ---- */
    double began, evaluation_seconds, save_seconds;
    double between;     /* seconds of evaluations since the first step of this process */
    size_t peak_before; /* bytes of the process at most before it trained */
    int64_t warnings;
} training;

/* ---- Lines ---- */

/* The listener of the run, whose user is the training: prints an event, and adds options where they help. */
void training_notice(void *user, const eitp_run_event *event);

/* From now on, and until it is called with 0, the line of a terminal is kept current, also within long steps,
   evaluations and saves, and a log has lines on a long evaluation: by the thread that trains, when the run uses a
   file. */
void training_watch(training *t, int is_on);

/* "2m05s", "3h07m" or "1d02h". */
void training_format_time(double seconds, char *text, size_t size);

/* "1.2345", or "not finite". */
void training_format_loss(double loss, char *text, size_t size);

/* The name of what the loss is a mean over, and whether its exponential is a perplexity. */
const char *training_unit(const training *t);
int training_has_perplexity(const training *t);

/* ---- The end ---- */

/* The result on standard output, as one JSON object or as a line. */
void training_print_json(const training *t);
void training_print_summary(const training *t);

/* Then on standard error, as far as there is something to say: the model, the time, the records, and what to do next.
 */
void training_print_outcome(const training *t);

/* Says how to continue a run that a signal stopped. */
void training_suggest_resume(const training *t);

/* Prints why the run failed, and returns the exit code. */
int training_fail(const training *t, const eitp_error *error);

/* For a run that was stopped before it did or saved anything: returns the exit code. */
int training_end_before_step(training *t);

EITP_END_DECLARATIONS

#endif
