/*
 * The terminal of a full screen: its mode, size, keys and signals. A process has one.
 *
 * Signals are delivered only while the terminal waits, so no other code has to expect them. The terminal is restored on
 * any end of the process: terminal_close, exit(), a signal, or a crash.
 */
#ifndef COMMAND_MONITOR_TERMINAL_H
#define COMMAND_MONITOR_TERMINAL_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

/* Keys other than characters. */
enum { TERMINAL_UP = 256, TERMINAL_DOWN, TERMINAL_ESCAPE, TERMINAL_OTHER };

typedef enum terminal_event {
    TERMINAL_TIME,    /* the wait timed out */
    TERMINAL_KEY,     /* a key was pressed */
    TERMINAL_CHANGED, /* the size changed, or the process was stopped and continued: redraw everything */
    TERMINAL_SIGNAL,  /* a signal asks to end */
    TERMINAL_CLOSED   /* the terminal is gone */
} terminal_event;

typedef struct terminal_key {
    int code;    /* a character, or a key of the list above */
    int is_only; /* it arrived alone, not as part of pasted text */
} terminal_key;

/* True if standard output is a terminal that can show a screen: not a dumb one, and not another job's. */
int terminal_is_capable(void);

/* True if the environment's locale uses UTF-8. */
int terminal_has_unicode(void);

/* True unless NO_COLOR forbids colours. */
int terminal_has_colours(void);

/* Shows the empty screen. Close the terminal in any case. */
eitp_status terminal_open(eitp_error *error);

/* Shows the previous contents. Harmless if the terminal is closed. */
void terminal_close(void);

void terminal_size(int *columns, int *rows);

/* Writes all bytes. Returns 0, an errno value, or EINTR if a signal asks to end. */
int terminal_write(const char *data, size_t size);

/* Waits for an event. */
terminal_event terminal_wait(double seconds, terminal_key *key);

/* Returns the signal that asks to end, or 0. */
int terminal_signal(void);

EITP_END_DECLARATIONS

#endif
