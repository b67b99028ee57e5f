/* A finding of the doctor: a sentence, the measurements behind it, and the remedy. */
#ifndef COMMAND_DOCTOR_FINDINGS_H
#define COMMAND_DOCTOR_FINDINGS_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

/* Weight of a finding, by which findings are sorted. From DOCTOR_TROUBLE on, the run is in trouble. */
enum {
    DOCTOR_NOTHING = 0,
    DOCTOR_NOTE = 1,     /* a good end, or training in progress; shown only without trouble */
    DOCTOR_REMARK = 10,  /* worth knowing, but not trouble */
    DOCTOR_TROUBLE = 20, /* some of the time is lost */
    DOCTOR_SLOW = 40,    /* most of the time is lost */
    DOCTOR_POOR = 60,    /* it learns less than it could */
    DOCTOR_FAILS = 80,   /* it learns nothing, or the model is damaged */
    DOCTOR_ENDED = 100   /* it ended early */
};

enum { DOCTOR_LINES = 10 };

typedef struct doctor_finding {
    const char *name, *area;
    int weight;
    char *sentence;
    char *evidence[DOCTOR_LINES], *advice[DOCTOR_LINES];
    size_t evidence_count, advice_count;
} doctor_finding;

/* Sets the sentence; a second call replaces it. */
void finding_say(doctor_finding *f, const char *format, ...) COMMAND_PRINTF(2, 3);

/* Adds a measurement with its source; more than DOCTOR_LINES are ignored. */
void finding_measure(doctor_finding *f, const char *format, ...) COMMAND_PRINTF(2, 3);

/* Adds a command or another remedy. */
void finding_advise(doctor_finding *f, const char *format, ...) COMMAND_PRINTF(2, 3);

void finding_release(doctor_finding *f);

/* Adds the lines of a finding as text. Control characters, which a run's files may have, become '?'. */
void finding_print(const doctor_finding *f, text_buffer *t);

/* Adds one such line, with a line feed. */
void finding_print_line(text_buffer *t, const char *prefix, const char *line);

/* Adds the finding as a JSON object. */
void finding_write(const doctor_finding *f, text_buffer *t);

EITP_END_DECLARATIONS

#endif
