/* Curves of recorded numbers, as columns of cells. */
#ifndef COMMAND_MONITOR_CURVE_H
#define COMMAND_MONITOR_CURVE_H

#include "monitor/screen.h"
#include "records/recorded_run.h"

EITP_BEGIN_DECLARATIONS

/* A rectangle of a screen. */
typedef struct area {
    int row, column, rows, columns;
} area;

/* Draws a recorded number over the steps, filled from below, with its range on the left and the steps in the last row;
   `marks` adds a mark for each evaluation. Without points it shows a message. */
void curve_draw(screen *s, area at, const recorded_run *r, const char *name, int marks, int style);

EITP_END_DECLARATIONS

#endif
