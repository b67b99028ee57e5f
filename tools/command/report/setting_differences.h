/* Differences between the settings, machines, models and data of runs: members of run.json. */
#ifndef COMMAND_REPORT_SETTING_DIFFERENCES_H
#define COMMAND_REPORT_SETTING_DIFFERENCES_H

#include "records/recorded_run.h"

EITP_BEGIN_DECLARATIONS

typedef struct setting_difference {
    char *name;               /* "lr", "machine.processor"; may contain any bytes */
    const eitp_json **values; /* one per run, from its run.json; NULL: none */
} setting_difference;

typedef struct setting_differences {
    size_t count, run_count;
    setting_difference *settings; /* in the order of the first run that has them */
    int is_cut;                   /* there are more, which are not compared */
} setting_differences;

/* Compares runs. Runs without a run.json are ignored: they have NULL everywhere. The runs must stay open. */
void setting_differences_make(const recorded_run *runs, size_t count, setting_differences *d);
void setting_differences_release(setting_differences *d);

/* Adds a value as one line of JSON, a string without quotes; "-" for NULL. It may be long and contain any bytes. */
void setting_differences_add_value(const eitp_json *value, text_buffer *t);

/* True if two values are equal: numbers by value, objects with members in any order. */
int setting_differences_are_equal(const eitp_json *a, const eitp_json *b);

EITP_END_DECLARATIONS

#endif
