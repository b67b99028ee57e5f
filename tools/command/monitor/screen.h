/* A screen of cells; only differences from the terminal's contents are written. */
#ifndef COMMAND_MONITOR_SCREEN_H
#define COMMAND_MONITOR_SCREEN_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

/* The style of a cell: any of the first three, and one colour. */
enum {
    STYLE_PLAIN = 0,
    STYLE_BOLD = 1,
    STYLE_FAINT = 2,
    STYLE_REVERSE = 4,
    STYLE_RED = 8,
    STYLE_GREEN = 16,
    STYLE_YELLOW = 24,
    STYLE_CYAN = 32,
    STYLE_COLOURS = 56 /* the bits of the colour */
};

/* Drawing symbols, in Unicode or ASCII. */
typedef enum screen_symbol { SYMBOL_LINE, SYMBOL_BAR_EMPTY, SYMBOL_CUT, SYMBOL_DOT, SYMBOL_TO } screen_symbol;

typedef struct screen_cell {
    uint32_t character; /* 0: the right half of a wide character */
    uint8_t style;
} screen_cell;

typedef struct screen {
    int columns, rows;
    int unicode, colours;
    screen_cell *cells; /* [rows, columns], to be shown */
    screen_cell *shown; /* [rows, columns], shown by the terminal */
    int is_shown;       /* `shown` is valid */
} screen;

/* Sets the size and marks the terminal's contents as unknown. */
void screen_resize(screen *s, int columns, int rows);
void screen_release(screen *s);
void screen_clear(screen *s);

/*
 * Draws `text` from a column up to, not including, the column `end`. Returns the column after it. If it does not fit,
 * it is cut and marked. Control characters and bytes that are not UTF-8 become '?', and so do characters whose width
 * differs from terminal to terminal, such as emoji, combining ones, and those written from right to left.
 */
int screen_put(screen *s, int row, int column, int end, int style, const char *text);

/* Does the same, right-aligned to the column `end`. Returns the first column. */
int screen_put_right(screen *s, int row, int column, int end, int style, const char *text);

void screen_put_symbol(screen *s, int row, int column, int style, screen_symbol symbol);

/* Draws a cell filled from below, or from the left, in eighths from 0 to 8. */
void screen_fill_up(screen *s, int row, int column, int style, int eighths);
void screen_fill_right(screen *s, int row, int column, int style, int eighths);

/* Returns the width of `text` in columns. */
int screen_columns(const screen *s, const char *text);

/* Adds the output that makes the terminal show the cells. */
void screen_update(screen *s, text_buffer *output);

/* Adds `text`, which may be from a damaged file, printable and on one line, for output other than a screen. */
void screen_add_printable(text_buffer *t, const char *text);

EITP_END_DECLARATIONS

#endif
