/* A run in progress: the lines of its log, and its end. */
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
    int64_t log_every;                   /* steps between two lines, unless on a terminal */
    int64_t logged_steps, logged_items;  /* since the last line */
    double logged_seconds, step_seconds; /* of these steps: sum and mean */
    double shown;                        /* time of the last line */

    /* ---- While it trains ---- */
    const eitp_run_report *now; /* progress of the run; NULL: not training yet, or any more */
    eitp_step_report step;      /* the last one */
    double rate, left;          /* items per second, and seconds to the last step, as of the last report */
    double since;               /* time of the last event, when the current work started */

    /* ---- For the end ---- */
    double began, evaluation_seconds, save_seconds;
    double between;     /* seconds of evaluations since the first step of this process */
    size_t peak_before; /* peak bytes of the process before training */
    int64_t warnings;
} training;

/* ---- Lines ---- */

/* Listener of the run; its user is the training. Prints an event, and adds options where they help. */
void training_notice(void *user, const eitp_run_event *event);

/* Until it is called with 0, keeps the line on a terminal current during long steps, evaluations and saves, and adds
   lines about long evaluations to a log. The training thread does this whenever the run uses a file. */
void training_watch(training *t, int is_on);

/* Formats "2m05s", "3h07m" or "1d02h". */
void training_format_time(double seconds, char *text, size_t size);

/* Formats "1.2345", or "not finite". */
void training_format_loss(double loss, char *text, size_t size);

/* Returns the name of the items that the loss is a mean over; and whether exp(loss) is a perplexity. */
const char *training_unit(const training *t);
int training_has_perplexity(const training *t);

/* ---- The end ---- */

/* Prints the result on standard output, as one JSON object or as a line. */
void training_print_json(const training *t);
void training_print_summary(const training *t);

/* Prints the model, the time, the records and the next command on standard error, as far as applicable. */
void training_print_outcome(const training *t);

/* Prints the command to resume a run that a signal stopped. */
void training_suggest_resume(const training *t);

/* Prints why the run failed and returns the exit code. */
int training_fail(const training *t, const eitp_error *error);

/* Ends a run that was stopped before it did or saved anything. Returns the exit code. */
int training_end_before_step(training *t);

EITP_END_DECLARATIONS

#endif
