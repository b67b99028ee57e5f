/* A run that the doctor examines: its records, and values derived from them, computed once. */
#ifndef COMMAND_DOCTOR_CASE_H
#define COMMAND_DOCTOR_CASE_H

#include "doctor/findings.h"
#include "records/recorded_run.h"

EITP_BEGIN_DECLARATIONS

/* The end of a run, according to its files and the machine. */
typedef enum doctor_end {
    DOCTOR_END_UNKNOWN,
    DOCTOR_END_RUNNING,
    DOCTOR_END_PAUSED,
    DOCTOR_END_ELSEWHERE,
    DOCTOR_END_RESTARTED, /* the machine rebooted */
    DOCTOR_END_KERNEL,    /* killed by the kernel because memory ran out */
    DOCTOR_END_KILLED,    /* by SIGKILL or another signal that is not a crash */
    DOCTOR_END_CRASHED,   /* by SIGSEGV or similar */
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

/* Summary of a series: its first value, the median of its last points, and its lowest value. */
typedef struct loss_summary {
    double first, last, lowest;
    int64_t points; /* records */
} loss_summary;

typedef struct doctor_case {
    const recorded_run *run;
    doctor_end end;
    const eitp_json *start; /* last start by safe-train, if it started this process; NULL: unknown */
    int signal;             /* that ended the process, according to safe-train; 0: unknown */
    char *kernel;           /* message of the kernel's log or the control group; NULL: none */
    /* Sums over all performance records; seconds, except `steps`. */
    double wall, steps, data, transfer, checkpoint, evaluation, training;
    double duration;        /* of the run in seconds: `wall`, or the sum of all step times if larger */
    double samples, epochs; /* samples per step; passes over the training samples; NaN: unknown */
    double rows;            /* largest number of rows in a pass; NaN: unknown */
    loss_summary loss;
    /* The amount by which the loss fell beyond its noise, according to its trend over all steps, its first and last
       steps, or evaluations. And the most that it may have fallen: the 95 % limit of its trend. NaN: unknown. */
    double fell, fell_at_most;
    double moved, grown;     /* see DOCTOR_MOVED_LITTLE and DOCTOR_GROWN; NaN: unknown */
    double base;             /* loss of predicting the frequencies of labels or tokens; NaN: unknown */
    double majority, labels; /* share of the most frequent label; number of labels; NaN: not single-label */
    double accuracy;         /* of the best evaluation after step 0, and its standard error; NaN: none */
    double accuracy_error;
    const recorded_evaluation *best; /* after step 0; NULL: none */
    double falls;                    /* fall of the loss in the last third, with p < DOCTOR_TREND_P; 0: none */
    double guessing;                 /* loss of a uniform prediction of tokens; NaN: not a language model */
    int is_pretrained;               /* started from the weights of a model, not from random ones */
} doctor_case;

/* Derives a case from a run, which must outlive it. */
void case_open(doctor_case *c, const recorded_run *r);
void case_close(doctor_case *c);

/* Returns the sum of a number over all performance records; 0 without records. */
double case_total(const doctor_case *c, const char *name);

/* Returns the mean of a number over its records, and the number of records; NaN if none. */
double case_mean(const doctor_case *c, const char *name);

/* Returns the number of events of a kind. */
size_t case_events(const doctor_case *c, const char *kind);

/* Returns the newest alarm of a name, or NULL. */
const recorded_event *case_alarm(const doctor_case *c, const char *name);

/* Returns an option of the run's configuration as a number, or NaN; and as a string, or "". */
double case_number(const doctor_case *c, const char *option);
const char *case_option(const doctor_case *c, const char *option);

/* True if the run has nothing left to do: it finished, reached the end of its data, or stopped early. */
int case_is_over(const doctor_case *c);

/* Returns the last error in the output saved by safe-train, or "". */
const char *case_last_error(const doctor_case *c);

/* ---- Rules ---- */

/* Examines a case. Returns 0, or the weight of its finding, with the sentence and lines filled in. */
typedef struct doctor_rule {
    const char *name;
    int (*look)(const doctor_case *c, doctor_finding *f);
} doctor_rule;

/* Rules by area: why a run ended, is slow, or does not learn. */
const doctor_rule *doctor_ends(size_t *count);
const doctor_rule *doctor_speed(size_t *count);
const doctor_rule *doctor_learning(size_t *count);

/* ---- The kernel ---- */

/* Returns the line about a process in the kernel's log as a new string, or NULL. *is_memory is 1 if the kernel killed
   it because memory ran out, 0 if it crashed. */
char *kernel_says_of(int64_t process, int *is_memory);

/* Returns the number of processes in this process's control group that the kernel killed because memory ran out; 0 if
   none or unknown. */
double kernel_group_kills(void);

EITP_END_DECLARATIONS

#endif
