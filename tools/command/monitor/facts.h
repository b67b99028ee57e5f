/* Facts about a run, in words and numbers, for the screen, for lines and for JSON. */
#ifndef COMMAND_MONITOR_FACTS_H
#define COMMAND_MONITOR_FACTS_H

#include "monitor/machine.h"

EITP_BEGIN_DECLARATIONS

typedef struct fact {
    const char *key;   /* in JSON */
    const char *label; /* in words; NULL: a number only for JSON */
    double number;     /* NaN: it is a string */
    char *text;        /* with units; NULL: only a number */
    int is_warning;
} fact;

typedef struct facts {
    fact *items;
    size_t count;
    text_buffer warnings; /* one per line */
    text_buffer missing;  /* missing or damaged files, one per line */
} facts;

/* Thresholds of warnings about the machine, in percent; 0: never. */
typedef struct facts_limits {
    double memory, processor;
} facts_limits;

/* Collects the facts of a run. Release them in any case. */
void facts_collect(facts *f, const recorded_run *r, const machine *m, const facts_limits *limits);
void facts_release(facts *f);

/* Returns a fact by its key, or NULL; its text, or "-"; its number, or NaN. */
const fact *facts_find(const facts *f, const char *key);
const char *facts_text(const facts *f, const char *key);
double facts_number(const facts *f, const char *key);

/* Formats "12 s", "3 min", "1 h 12 min", "2 d 3 h". */
const char *facts_duration(double seconds, char *text, size_t size);

EITP_END_DECLARATIONS

#endif
