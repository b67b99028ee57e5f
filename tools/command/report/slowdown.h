/* Detects slower steps and growing memory in a run: trends, and steps at which the level changed. */
#ifndef COMMAND_REPORT_SLOWDOWN_H
#define COMMAND_REPORT_SLOWDOWN_H

#include "records/recorded_run.h"

EITP_BEGIN_DECLARATIONS

typedef enum slowdown_verdict {
    SLOWDOWN_TOO_FEW, /* fewer than SLOWDOWN_LEAST points */
    SLOWDOWN_NONE,    /* no significant trend: p is at least 0.05, or the median slope is 0 */
    SLOWDOWN_RISES,   /* steadily */
    SLOWDOWN_FALLS,
    SLOWDOWN_JUMPED_UP, /* in jumps, which explain the points better than a trend */
    SLOWDOWN_JUMPED_DOWN,
    SLOWDOWN_JUMPED_BACK /* in jumps that end within SLOWDOWN_CHANGE percent of the start */
} slowdown_verdict;

#define SLOWDOWN_CHANGE 2.0 /* percent: smaller changes of the level are not jumps */
#define SLOWDOWN_LEAST 10

/* A step at which the level changed and stayed. */
typedef struct slowdown_jump {
    int64_t step;                /* first step of the new level, or the last step of a point that covers several */
    double before, after;        /* medians of the points up to the jump before and after it */
    double percent;              /* the change, relative to `before` */
    double p;                    /* probability of a change at least as clear by chance, anywhere in the series */
    const recorded_event *event; /* nearby possible cause; NULL: none */
} slowdown_jump;

#define SLOWDOWN_JUMPS 4

typedef struct slowdown_series {
    char name[64]; /* key of the records: "step_time_s", "tokens_per_s", "rss_bytes" */
    size_t count;  /* points */
    slowdown_verdict verdict;
    eitp_trend trend;                          /* over steps; all zero for SLOWDOWN_TOO_FEW */
    double level;                              /* median of the points; the following are percentages of it */
    double percent, percent_low, percent_high; /* per 1000 steps, with its 95 % interval */
    double percent_of_run;                     /* from the first to the last step, along the trend */
    double first, last;                        /* means of the first and the last tenth of the points */
    slowdown_jump jumps[SLOWDOWN_JUMPS];       /* by step. None if a trend explains the points as well */
    size_t jump_count;
    double jump_percent; /* from before the first jump to after the last one */
} slowdown_series;

typedef enum slowdown_kind { SLOWDOWN_TIME, SLOWDOWN_RATE, SLOWDOWN_MEMORY, SLOWDOWN_KINDS } slowdown_kind;

typedef struct slowdown {
    const recorded_run *run;
    int64_t first_step, last_step; /* with a step time; 0: none */
    slowdown_series series[SLOWDOWN_KINDS];
} slowdown;

/* Analyzes a run, which must stay open. Nothing needs to be released. */
void slowdown_make(const recorded_run *r, slowdown *s);

/* Adds a verdict as a sentence without a full stop: "no slowdown: ...", "steps take 3.1 % longer per 1000 steps
   ...". */
void slowdown_add_verdict(const slowdown *s, slowdown_kind kind, text_buffer *t);

/* Writes lines of text, the first with the run's name and the verdict about step times; and one JSON object. */
void slowdown_print(const slowdown *s, text_buffer *t);
void slowdown_print_json(const slowdown *s, text_buffer *t);

EITP_END_DECLARATIONS

#endif
