#include "monitor/terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

/* Switches to the alternate screen, hides the cursor, and turns off line wrapping. */
static const char enter_sequence[] = "\033[?1049h\033[?25l\033[?7l\033[0m\033[2J";
static const char leave_sequence[] = "\033[0m\033[?7h\033[?25h\033[?1049l";

enum { KEY_BYTES = 64, FLUSH_TRIES = 10 };

static struct {
    int is_open;
    volatile sig_atomic_t is_shown;
    int file; /* a separate non-blocking open file; the shell's stays blocking */
    struct termios before;
    sigset_t mask;        /* the previous mask, used while waiting */
    char keys[KEY_BYTES]; /* `size` bytes read, `used` bytes returned */
    size_t used, size;
} terminal;

/* ---- Environment ---- */

static int is_foreground(int file) {
    const pid_t group = tcgetpgrp(file);
    return group < 0 || group == getpgrp();
}

int terminal_is_capable(void) {
    const char *kind = getenv("TERM");
    return isatty(STDOUT_FILENO) && kind && *kind && strcmp(kind, "dumb") && is_foreground(STDOUT_FILENO);
}

int terminal_has_unicode(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < COMMAND_COUNT(names); i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strstr(value, "UTF-8") || strstr(value, "utf-8") || strstr(value, "UTF8") || strstr(value, "utf8");
    }
    return 0;
}

int terminal_has_colours(void) {
    const char *forbidden = getenv("NO_COLOR");
    return !forbidden || !*forbidden;
}

/* ---- Signals ---- */

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU};
static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static struct sigaction crash_actions[COMMAND_COUNT(crash_signals)];

static volatile sig_atomic_t ending, has_stopped, has_changed;

static void handle_signal(int number) {
    if (number == SIGTSTP)
        has_stopped = 1;
    else if (number == SIGWINCH || number == SIGCONT)
        has_changed = number == SIGCONT ? 2 : has_changed ? has_changed : 1;
    else if (!ending)
        ending = number;
}

/* Async-signal-safe. */
static void restore(void) {
    size_t done = 0;
    if (!terminal.is_shown)
        return;
    terminal.is_shown = 0;
    for (int i = 0; i < FLUSH_TRIES && done < sizeof leave_sequence - 1; i++) {
        const struct timespec pause = {0, 20000000};
        const ssize_t size = write(terminal.file, leave_sequence + done, sizeof leave_sequence - 1 - done);
        done += size > 0 ? (size_t)size : 0;
        if (size < 0 && errno != EAGAIN && errno != EINTR)
            break;
        if (size < 0)
            nanosleep(&pause, NULL);
    }
    tcsetattr(terminal.file, TCSADRAIN, &terminal.before);
}

/* Restores the terminal; then the signal has its previous effect. */
static void handle_crash(int number) {
    restore();
    for (size_t i = 0; i < COMMAND_COUNT(crash_signals); i++) {
        if (crash_signals[i] == number)
            sigaction(number, &crash_actions[i], NULL);
    }
    raise(number);
}

static void set_handler(int number, void (*handle)(int number), struct sigaction *before) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handle;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, before);
}

/* Signals ignored at the start stay ignored. */
static void catch_signals(void) {
    sigset_t blocked;
    sigemptyset(&blocked);
    for (size_t i = 0; i < COMMAND_COUNT(ending_signals); i++) {
        struct sigaction before;
        if (sigaction(ending_signals[i], NULL, &before) || before.sa_handler == SIG_IGN)
            continue;
        set_handler(ending_signals[i], handle_signal, NULL);
        sigaddset(&blocked, ending_signals[i]);
    }
    for (size_t i = 0; i < COMMAND_COUNT(crash_signals); i++)
        set_handler(crash_signals[i], handle_crash, &crash_actions[i]);
    set_handler(SIGTSTP, handle_signal, NULL);
    set_handler(SIGCONT, handle_signal, NULL);
    set_handler(SIGWINCH, handle_signal, NULL);
    sigaddset(&blocked, SIGTSTP);
    sigaddset(&blocked, SIGCONT);
    sigaddset(&blocked, SIGWINCH);
    sigprocmask(SIG_BLOCK, &blocked, &terminal.mask);
}

int terminal_signal(void) {
    return ending;
}

/* ---- Opening and closing ---- */

static int show(void) {
    struct termios mode = terminal.before;
    mode.c_lflag &= ~(tcflag_t)(ICANON | ECHO | IEXTEN);
    mode.c_iflag &= ~(tcflag_t)(IXON | ICRNL | INLCR);
    mode.c_cc[VMIN] = 1;
    mode.c_cc[VTIME] = 0;
    terminal.is_shown = 1;
    if (tcsetattr(terminal.file, TCSADRAIN, &mode))
        return errno;
    return terminal_write(enter_sequence, sizeof enter_sequence - 1);
}

/* Falls back to the shared file if the terminal's name cannot be opened, for example because another user owns it. */
static int open_file(void) {
    const char *name = ttyname(STDOUT_FILENO);
    const int file = name ? open(name, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC) : -1;
    return file >= 0 ? file : fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
}

eitp_status terminal_open(eitp_error *error) {
    int code;
    terminal.file = open_file();
    terminal.is_open = terminal.file >= 0;
    if (!terminal.is_open || tcgetattr(terminal.file, &terminal.before))
        return command_fail(error, EITP_ERROR_IO, "cannot use the terminal: %s; --once prints the state as lines",
                            strerror(errno));
    atexit(terminal_close);
    catch_signals();
    code = show();
    if (code && code != EINTR)
        return command_fail(error, EITP_ERROR_IO, "cannot write to the terminal: %s", strerror(code));
    return EITP_OK;
}

void terminal_close(void) {
    if (!terminal.is_open)
        return;
    restore();
    close(terminal.file);
    terminal.is_open = 0;
}

/* Returns the terminal's size, limited to bounds, or the usual one. */
static int size_within(int known, int usual, int most) {
    return known < 1 ? usual : known < most ? known : most;
}

void terminal_size(int *columns, int *rows) {
    struct winsize size;
    memset(&size, 0, sizeof size);
    if (ioctl(terminal.file, TIOCGWINSZ, &size))
        size.ws_col = size.ws_row = 0;
    *columns = size_within(size.ws_col, 80, 1000);
    *rows = size_within(size.ws_row, 24, 500);
}

/* ---- Waiting, writing and reading ---- */

/* Waits until the terminal is ready to write or read, the time is over (negative: never), or a signal arrives. Returns
   an errno value or 0. */
static int wait_for(int writes, double seconds, int *is_ready) {
    struct timespec time = {0, 0};
    fd_set set;
    int count;
    FD_ZERO(&set);
    FD_SET(terminal.file, &set);
    if (seconds > 0) {
        time.tv_sec = (time_t)seconds;
        time.tv_nsec = (long)(1e9 * (seconds - (double)time.tv_sec));
    }
    count = pselect(terminal.file + 1, writes ? NULL : &set, writes ? &set : NULL, NULL, seconds < 0 ? NULL : &time,
                    &terminal.mask);
    *is_ready = count > 0;
    return count < 0 ? errno : 0;
}

int terminal_write(const char *data, size_t size) {
    while (size) {
        const ssize_t done = write(terminal.file, data, size);
        int is_ready, code = 0;
        if (done >= 0) {
            data += done;
            size -= (size_t)done;
            continue;
        }
        if (errno == EAGAIN)
            code = wait_for(1, -1, &is_ready);
        else if (errno != EINTR)
            code = errno;
        if (ending)
            return EINTR;
        if (code && code != EINTR)
            return code;
    }
    return 0;
}

/* Skips the rest of "ESC [ 1 ; 5 A" or "ESC O A" and returns its last byte; 0 if nothing follows. */
static int read_sequence(void) {
    int last = 0;
    if (terminal.used >= terminal.size || !strchr("[O", terminal.keys[terminal.used]))
        return 0;
    terminal.used++;
    while (terminal.used < terminal.size && last < '@')
        last = terminal.keys[terminal.used++];
    return last;
}

static int next_key(terminal_key *key) {
    int byte, last;
    if (terminal.used >= terminal.size)
        return 0;
    key->is_only = terminal.size == 1;
    byte = (unsigned char)terminal.keys[terminal.used++];
    key->code = byte;
    if (byte != 27)
        return 1;
    if (terminal.used == terminal.size) {
        key->code = TERMINAL_ESCAPE;
        return 1;
    }
    last = read_sequence();
    key->code = last == 'A' ? TERMINAL_UP : last == 'B' ? TERMINAL_DOWN : TERMINAL_OTHER;
    return 1;
}

/* Returns 0 if the terminal is gone. */
static int read_keys(void) {
    const ssize_t size = read(terminal.file, terminal.keys, sizeof terminal.keys);
    terminal.used = 0;
    terminal.size = size > 0 ? (size_t)size : 0;
    return size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Restores the terminal, then stops as the shell expects. */
static void stop(void) {
    sigset_t set;
    has_stopped = 0;
    restore();
    set_handler(SIGTSTP, SIG_DFL, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGTSTP);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    sigprocmask(SIG_BLOCK, &set, NULL);
    set_handler(SIGTSTP, handle_signal, NULL);
    has_changed = 2;
}

/* Handles a change of the terminal. Returns 0 if the terminal is gone. */
static int take_change(void) {
    const int continues = has_changed == 2;
    int code = 0;
    has_changed = 0;
    if (continues)
        code = show();
    return !code || code == EINTR;
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

terminal_event terminal_wait(double seconds, terminal_key *key) {
    const double until = seconds_now() + seconds;
    for (;;) {
        const double left = until - seconds_now();
        int is_ready, code;
        if (next_key(key))
            return TERMINAL_KEY;
        code = wait_for(0, left > 0 ? left : 0, &is_ready);
        if (ending)
            return TERMINAL_SIGNAL;
        if (has_stopped)
            stop();
        if (has_changed)
            return take_change() ? TERMINAL_CHANGED : TERMINAL_CLOSED;
        if ((code && code != EINTR) || (is_ready && !read_keys()))
            return TERMINAL_CLOSED;
        if (!is_ready && !code && left <= 0)
            return TERMINAL_TIME;
    }
}
