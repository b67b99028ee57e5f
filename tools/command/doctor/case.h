/* A run on the doctor's table: its records, and what follows from them, computed once. */
#ifndef COMMAND_DOCTOR_CASE_H
#define COMMAND_DOCTOR_CASE_H

#include "doctor/findings.h"
#include "records/recorded_run.h"

EITP_BEGIN_DECLARATIONS

/* How a run ended, as far as files and the machine say it. */
typedef enum doctor_end {
    DOCTOR_END_UNKNOWN,
    DOCTOR_END_RUNNING,
    DOCTOR_END_PAUSED,
    DOCTOR_END_ELSEWHERE,
    DOCTOR_END_RESTARTED, /* the machine was started again */
    DOCTOR_END_KERNEL,    /* ended by the kernel for want of memory */
    DOCTOR_END_KILLED,    /* by SIGKILL or another signal that is no crash */
    DOCTOR_END_CRASHED,   /* by SIGSEGV and the like */
    DOCTOR_END_VANISHED,  /* killed or crashed */
    DOCTOR_END_STALLED,
    DOCTOR_END_NO_ROOM, /* does not fit in memory */
    DOCTOR_END_REFUSED, /* ended before step 1 for another reason */
    DOCTOR_END_PRESSURE,
    DOCTOR_END_DISK,
    DOCTOR_END_FAILED,
    DOCTOR_END_STOPPED,
    DOCTOR_END_NOT_FINITE,
    DOCTOR_END_DIVERGED,
    DOCTOR_END_FINISHED,
    DOCTOR_END_OF_DATA,
    DOCTOR_END_EARLY
} doctor_end;

/* The start and the end of a series: medians of its first and last points. */
typedef struct doctor_course {
    double first, last, lowest;
    int64_t points; /* records */
} doctor_course;

typedef struct doctor_case {
    const recorded_run *run;
    doctor_end end;
    const eitp_json *start; /* of safe-train, the last start: if it is that of this process; NULL: unknown */
    int signal;             /* that ended the process, by safe-train; 0: unknown */
    char *kernel;           /* what the kernel's log or the control group says; NULL: nothing */
    /* Seconds of all records of performance. */
    double wall, steps, data, transfer, checkpoint, evaluation, training;
    double duration;        /* of the run in seconds: `wall`, or the sum of all step times where that is more */
    double samples, epochs; /* samples of a step, and how often the training samples have been seen; NaN: unknown */
    double rows;            /* of a pass, at most; NaN: unknown */
    doctor_course loss;
    /* How much the loss fell, as far as that exceeds its noise: by its trend over all steps, from the first step to the
       last ones, or by evaluations. And the most that it may have fallen: the 95 % limit of its trend; NaN: unknown. */
    double fell, fell_at_most;
    double moved, grown;     /* see DOCTOR_MOVED_LITTLE and DOCTOR_GROWN; NaN: unknown */
    double base;             /* loss of frequencies alone: of labels, or of single tokens; NaN: unknown */
    double majority, labels; /* share of the most frequent label, and labels that occur; NaN: not a single label */
    double accuracy;         /* of the best evaluation after step 0, and its standard error; NaN: none */
    double accuracy_error;
    const recorded_evaluation *best; /* after step 0; NULL: none */
    double falls;      /* how much the loss falls in the last third, with p < DOCTOR_TREND_P; 0: it does not */
    double guessing;   /* loss of a language model that takes all tokens for equally likely; NaN: another task */
    int is_pretrained; /* it began with the weights of a model, not with random ones */
} doctor_case;

/* Derives a case from a run, which must outlive it. */
void case_open(doctor_case *c, const recorded_run *r);
void case_close(doctor_case *c);

/* The sum over all steps of a number of records of performance; 0: there are none. */
double case_total(const doctor_case *c, const char *name);

/* The mean over the records of a number, and how many there are; NaN: none. */
double case_mean(const doctor_case *c, const char *name);

/* Number of events of a kind. */
size_t case_events(const doctor_case *c, const char *kind);

/* The newest alarm of a name, or NULL. */
const recorded_event *case_alarm(const doctor_case *c, const char *name);

/* An option of the run's configuration, or NaN; its text, or "". */
double case_number(const doctor_case *c, const char *option);
const char *case_option(const doctor_case *c, const char *option);

/* True if the run has nothing left to do: it has finished, or ended with its data or early. */
int case_is_over(const doctor_case *c);

/* The last error among the last lines of output that safe-train has kept, or "". */
const char *case_last_error(const doctor_case *c);

/* ---- Rules ---- */

/* Looks at a case. Returns 0, or the weight of what it found, with the sentence and lines filled in. */
typedef struct doctor_rule {
    const char *name;
    int (*look)(const doctor_case *c, doctor_finding *f);
} doctor_rule;

/* The rules of an area: why it ended, why it is slow, why it does not learn. */
const doctor_rule *doctor_ends(size_t *count);
const doctor_rule *doctor_speed(size_t *count);
const doctor_rule *doctor_learning(size_t *count);

/* ---- The kernel ---- */

/* What the kernel's log says of a process in a new text; NULL: nothing. *is_memory is 1 if the kernel ended it for want
   of memory, 0 if it crashed. */
char *kernel_says_of(int64_t process, int *is_memory);

/* How many processes of this process's control group the kernel has ended for want of memory; 0: none, or unknown. */
double kernel_group_kills(void);

EITP_END_DECLARATIONS

#endif
