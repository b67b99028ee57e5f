/* What the doctor says: a sentence, the measurements that show it, and what mends it. */
#ifndef COMMAND_DOCTOR_FINDINGS_H
#define COMMAND_DOCTOR_FINDINGS_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

/* How much a finding matters: findings are sorted by it. From DOCTOR_TROUBLE on, the run is not well. */
enum {
    DOCTOR_NOTHING = 0,
    DOCTOR_NOTE = 1,     /* how a run ended well, or that it trains; shown for a run without trouble */
    DOCTOR_REMARK = 10,  /* worth knowing, but no trouble */
    DOCTOR_TROUBLE = 20, /* a part of the time is lost */
    DOCTOR_SLOW = 40,    /* most of the time is lost */
    DOCTOR_POOR = 60,    /* it learns less than it could */
    DOCTOR_FAILS = 80,   /* it learns nothing, or is ruined */
    DOCTOR_ENDED = 100   /* it is over before its end */
};

enum { DOCTOR_LINES = 10 };

typedef struct doctor_finding {
    const char *name, *area;
    int weight;
    char *sentence;
    char *evidence[DOCTOR_LINES], *advice[DOCTOR_LINES];
    size_t evidence_count, advice_count;
} doctor_finding;

/* The sentence; the second call replaces the first. */
void finding_say(doctor_finding *f, const char *format, ...) COMMAND_PRINTF(2, 3);

/* A measurement, with its source; what is beyond DOCTOR_LINES is left out. */
void finding_measure(doctor_finding *f, const char *format, ...) COMMAND_PRINTF(2, 3);

/* A command, or what a person should do. */
void finding_advise(doctor_finding *f, const char *format, ...) COMMAND_PRINTF(2, 3);

void finding_release(doctor_finding *f);

/* Adds the lines of a finding for people. Control characters, which a run's files may have, become '?'. */
void finding_print(const doctor_finding *f, text_buffer *t);

/* Adds one line of such text, with a line feed. */
void finding_print_line(text_buffer *t, const char *prefix, const char *line);

/* Adds it as a JSON object. */
void finding_write(const doctor_finding *f, text_buffer *t);

EITP_END_DECLARATIONS

#endif
