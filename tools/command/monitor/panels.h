/* The panels of the full screen. */
#ifndef COMMAND_MONITOR_PANELS_H
#define COMMAND_MONITOR_PANELS_H

#include "monitor/runs.h"
#include "monitor/screen.h"

EITP_BEGIN_DECLARATIONS

/* Smallest size of a screen that fits a run. */
enum { PANELS_COLUMNS = 50, PANELS_ROWS = 16 };

/* The user's selection, and the message shown. */
typedef struct panels_state {
    size_t selected;
    size_t top; /* the first run in the table */
    int shows_help;
    char message[400]; /* shown in the last line instead of the keys; "": none */
} panels_state;

/* Draws everything. */
void panels_draw(screen *s, const watched_runs *l, panels_state *state);

EITP_END_DECLARATIONS

#endif
