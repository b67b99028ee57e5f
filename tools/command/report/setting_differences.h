/* What differs between the settings of runs, and between their machines, models and data: members of run.json. */
#ifndef COMMAND_REPORT_SETTING_DIFFERENCES_H
#define COMMAND_REPORT_SETTING_DIFFERENCES_H

#include "records/recorded_run.h"

EITP_BEGIN_DECLARATIONS

typedef struct setting_difference {
    char *name;               /* "lr", "machine.processor"; it may have any bytes */
    const eitp_json **values; /* one for each run, of its run.json; NULL: it has none */
} setting_difference;

typedef struct setting_differences {
    size_t count, run_count;
    setting_difference *settings; /* in the order of the first run that has them */
    int is_cut;                   /* there are more, which are not looked at */
} setting_differences;

/* Runs without run.json are left out of the comparison: they have NULL everywhere. The runs must stay open. */
void setting_differences_make(const recorded_run *runs, size_t count, setting_differences *d);
void setting_differences_release(setting_differences *d);

/* Adds a value as JSON on one line, a text without its quotes; "-" for NULL. It may have any bytes and be long. */
void setting_differences_add_value(const eitp_json *value, text_buffer *t);

/* True if both are equal: numbers by value, members of objects in any order. */
int setting_differences_are_equal(const eitp_json *a, const eitp_json *b);

EITP_END_DECLARATIONS

#endif
