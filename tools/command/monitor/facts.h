/* What is known of a run, in words and numbers: for the screen, lines and JSON alike. */
#ifndef COMMAND_MONITOR_FACTS_H
#define COMMAND_MONITOR_FACTS_H

#include "monitor/machine.h"

EITP_BEGIN_DECLARATIONS

typedef struct fact {
    const char *key;   /* of JSON */
    const char *label; /* in words; NULL: only a number of JSON */
    double number;     /* NaN: it is a text */
    char *text;        /* with units; NULL: only a number */
    int is_warning;
} fact;

typedef struct facts {
    fact *items;
    size_t count;
    text_buffer warnings; /* a line each */
    text_buffer missing;  /* the same: files that are missing or damaged */
} facts;

/* When a machine is worth a warning, in percent; 0: never. */
typedef struct facts_limits {
    double memory, processor;
} facts_limits;

/* Collects the facts of a run. Release them in any case. */
void facts_collect(facts *f, const recorded_run *r, const machine *m, const facts_limits *limits);
void facts_release(facts *f);

/* A fact by its key, or NULL; its text, or "-"; its number, or NaN. */
const fact *facts_find(const facts *f, const char *key);
const char *facts_text(const facts *f, const char *key);
double facts_number(const facts *f, const char *key);

/* "12 s", "3 min", "1 h 12 min", "2 d 3 h". */
const char *facts_duration(double seconds, char *text, size_t size);

EITP_END_DECLARATIONS

#endif
