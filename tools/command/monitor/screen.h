/* A screen of cells, of which the differences to what the terminal shows are written. */
#ifndef COMMAND_MONITOR_SCREEN_H
#define COMMAND_MONITOR_SCREEN_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

/* How a cell looks: any of the first three, and one colour. */
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

/* What is drawn with, in Unicode or ASCII. */
typedef enum screen_symbol { SYMBOL_LINE, SYMBOL_BAR_EMPTY, SYMBOL_CUT, SYMBOL_DOT, SYMBOL_TO } screen_symbol;

typedef struct screen_cell {
    uint32_t character; /* 0: the right half of a wide one */
    uint8_t style;
} screen_cell;

typedef struct screen {
    int columns, rows;
    int unicode, colours;
    screen_cell *cells; /* [rows, columns], that are drawn */
    screen_cell *shown; /* and that the terminal shows */
    int is_shown;       /* it does */
} screen;

/* Sets the size, and forgets what the terminal shows. */
void screen_resize(screen *s, int columns, int rows);
void screen_release(screen *s);
void screen_clear(screen *s);

/*
 * Draws a text from a column to before the column `end`, and returns the column after it. What does not fit is cut,
 * with a sign for it. Control characters and bytes that are not UTF-8 become '?', and so do characters whose width
 * differs from terminal to terminal, such as emoji, combining ones, and those written from right to left.
 */
int screen_put(screen *s, int row, int column, int end, int style, const char *text);

/* The same, with the end of the text before the column `end`. Returns the first column. */
int screen_put_right(screen *s, int row, int column, int end, int style, const char *text);

void screen_put_symbol(screen *s, int row, int column, int style, screen_symbol symbol);

/* Draws a part of a cell that is filled from below, or from the left, in eighths from 0 to 8. */
void screen_fill_up(screen *s, int row, int column, int style, int eighths);
void screen_fill_right(screen *s, int row, int column, int style, int eighths);

/* The columns of a text. */
int screen_columns(const screen *s, const char *text);

/* Adds what makes the terminal show the cells. */
void screen_update(screen *s, text_buffer *output);

/* Adds a text that may be from a damaged file, printable and in one line, for output that is no screen. */
void screen_add_printable(text_buffer *t, const char *text);

EITP_END_DECLARATIONS

#endif
