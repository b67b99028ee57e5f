/*
 * A terminal, for tests/command/test_monitor.sh: pseudo_terminal COLUMNSxROWS PROGRAM ARGUMENTS...
 *
 * Runs a program in a pseudo terminal, interprets its output as a screen of cells, and executes the commands on
 * standard input, one a line:
 *
 *   wait TEXT      waits until the screen shows the text; `gone TEXT` until it does not
 *   key NAME       types a character, or up, down, escape, interrupt (Ctrl-C), suspend (Ctrl-Z); `type TEXT` all of it
 *   size CxR       changes the size
 *   signal N       sends a signal to the program
 *   line TEXT      waits until a line outside the screen, before or after the program draws on it, has the text
 *   show FILE      writes the screen to a file
 *   run COMMAND    executes a shell command while the program runs
 *   row N TEXT     waits until this row has the text (rows count from 1)
 *   stopped        waits until the program is stopped, and checks that the terminal is restored
 *   end CODE       waits for the end with this exit code, and checks that the terminal is restored
 *   hang-up        closes the terminal; then `end`
 *
 * The program must never write beyond the last column or row, nor write control characters or sequences except those
 * that position, colour and clear. Failures print a line on standard error. With EXPECT_ASCII in the environment no
 * byte may be above 127. With EXPECT_PLAIN there may be no colours.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { MOST_COLUMNS = 300, MOST_ROWS = 100, PATIENCE_MS = 20000 };

static struct {
    int master, reports;
    pid_t leader, program;
    int has_ended, code, is_stopped;
    struct termios before;
} child;

static struct {
    int columns, rows, row, column;
    uint32_t cells[MOST_ROWS][MOST_COLUMNS]; /* 0: the right half of a wide character */
    int is_alternate, hides_cursor, cuts, is_settling;
    char sequence[64];
    size_t size;        /* of the sequence being read */
    uint32_t character; /* of the character being read */
    int following;
    char lines[4000]; /* characters written outside the screen */
    size_t lines_size;
} screen;

static const char *doing = "start";

static void give_up(const char *what, long value) {
    fprintf(stderr, "pseudo_terminal: %s: %s (%ld)\n", doing, what, value);
    if (child.program > 0 && !child.has_ended)
        kill(child.program, SIGKILL);
    exit(1);
}

/* ---- The screen ---- */

static void clear(void) {
    for (int row = 0; row < MOST_ROWS; row++) {
        for (int column = 0; column < MOST_COLUMNS; column++)
            screen.cells[row][column] = ' ';
    }
    screen.is_settling = 0;
}

/* Output still meant for an earlier size is not an error. */
static void complain(const char *what, long value) {
    if (!screen.is_settling)
        give_up(what, value);
}

static void put(uint32_t character) {
    const int width = character >= 0x2e80 ? 2 : 1;
    if (!screen.is_alternate) {
        if (screen.lines_size < sizeof screen.lines - 1)
            screen.lines[screen.lines_size++] = character < 127 ? (char)character : '?';
        return;
    }
    if (screen.column + width > screen.columns) {
        complain("a character beyond the last column", screen.column);
        return;
    }
    screen.cells[screen.row][screen.column] = character;
    if (width == 2)
        screen.cells[screen.row][screen.column + 1] = 0;
    screen.column += width;
}

static void place(const char *numbers) {
    int row = 0, column = 0;
    if (sscanf(numbers, "%d;%d", &row, &column) != 2 || row < 1 || column < 1)
        give_up("a place that cannot be read", row);
    if (row > screen.rows || column > screen.columns) {
        complain("a place outside", row);
        return;
    }
    screen.row = row - 1;
    screen.column = column - 1;
}

/* Switches a mode such as "?1049h" on or off. */
static void set_mode(const char *number, int is_on) {
    static const struct {
        const char *number;
        int *value, is_inverted;
    } modes[] = {{"?1049", &screen.is_alternate, 0}, {"?25", &screen.hides_cursor, 1}, {"?7", &screen.cuts, 1}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (!strcmp(modes[i].number, number)) {
            *modes[i].value = is_on != modes[i].is_inverted;
            return;
        }
    }
    give_up("an unknown mode", atol(number + 1));
}

/* Interprets a complete sequence without ESC [ and its last character. */
static void follow(char last) {
    char *text = screen.sequence + 1;
    text[screen.size - 3] = 0;
    if (last == 'H')
        place(text);
    else if (last == 'J' && !strcmp(text, "2"))
        clear();
    else if (last == 'h' || last == 'l')
        set_mode(text, last == 'h');
    else if (last != 'm')
        give_up("an unknown sequence that ends with", last);
    else if (getenv("EXPECT_PLAIN") && strstr(text, ";3"))
        give_up("a colour", atol(strstr(text, ";3") + 1));
    screen.size = 0;
}

static void take_byte(unsigned char byte) {
    if (getenv("EXPECT_ASCII") && byte > 127)
        give_up("a byte above 127", byte);
    if (byte == 27) { /* also within a sequence or character interrupted by a signal */
        screen.size = 1;
        screen.following = 0;
    } else if (screen.size) {
        if (screen.size >= sizeof screen.sequence - 1 || (screen.size == 1 && byte != '['))
            give_up("a sequence that cannot be read", byte);
        screen.sequence[screen.size - 1] = (char)byte;
        screen.size++;
        if (screen.size > 2 && byte >= '@')
            follow((char)byte);
    } else if (screen.following) {
        screen.character = screen.character << 6 | (byte & 0x3f);
        if (!--screen.following)
            put(screen.character);
    } else if (byte >= 0xc0) {
        screen.following = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
        screen.character = byte & (0x3fu >> screen.following);
    } else if (byte >= 32 && byte < 127) {
        put(byte);
    } else if (screen.is_alternate) {
        give_up("a control character", byte);
    }
}

/* ---- The program ---- */

typedef struct report {
    int kind; /* 's': stopped, 'e': ended, 'p': its number */
    int value;
} report;

static void send_report(int to, int kind, int value) {
    const report r = {kind, value};
    if (write(to, &r, sizeof r) != (ssize_t)sizeof r)
        _exit(1);
}

/* Acts as the session leader, in place of a shell. Without one the program could not be stopped. */
static void lead(int slave, int to, char **arguments) {
    int status;
    pid_t program;
    close(child.master);
    setsid();
    ioctl(slave, TIOCSCTTY, 0);
    signal(SIGTTOU, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    program = fork();
    if (!program) {
        setpgid(0, 0);
        tcsetpgrp(slave, getpid());
        signal(SIGTTOU, SIG_DFL);
        signal(SIGHUP, SIG_DFL);
        dup2(slave, 0);
        dup2(slave, 1);
        dup2(slave, 2);
        close(slave);
        close(to);
        execv(arguments[0], arguments);
        _exit(127);
    }
    close(slave);
    send_report(to, 'p', program);
    while (waitpid(program, &status, WUNTRACED) == program) {
        if (WIFSTOPPED(status))
            send_report(to, 's', WSTOPSIG(status));
        else
            break;
    }
    send_report(to, 'e', WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    _exit(0);
}

static void set_size(const char *text) {
    struct winsize size;
    memset(&size, 0, sizeof size);
    if (sscanf(text, "%dx%d", &screen.columns, &screen.rows) != 2)
        give_up("no size", 0);
    size.ws_col = (unsigned short)screen.columns;
    size.ws_row = (unsigned short)screen.rows;
    screen.is_settling = 1;
    ioctl(child.master, TIOCSWINSZ, &size);
}

static void start(const char *size, char **arguments) {
    int ends[2], slave;
    child.master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (child.master < 0 || grantpt(child.master) || unlockpt(child.master) || pipe(ends))
        give_up("no pseudo terminal", errno);
    slave = open(ptsname(child.master), O_RDWR | O_NOCTTY);
    tcgetattr(slave, &child.before);
    set_size(size);
    child.leader = fork();
    if (!child.leader) {
        close(ends[0]);
        fcntl(ends[1], F_SETFD, FD_CLOEXEC);
        lead(slave, ends[1], arguments);
    }
    close(slave);
    close(ends[1]);
    child.reports = ends[0];
}

static void take_report(void) {
    report r;
    const ssize_t size = read(child.reports, &r, sizeof r);
    if (size != (ssize_t)sizeof r)
        give_up("the program is lost", size);
    if (r.kind == 'p')
        child.program = r.value;
    child.is_stopped = r.kind == 's';
    child.has_ended |= r.kind == 'e';
    child.code = r.kind == 'e' ? r.value : child.code;
}

/* Reads the output of some milliseconds. Returns 0 if there was none. */
static int listen_for(int milliseconds) {
    struct pollfd files[2] = {{child.reports, POLLIN, 0}, {child.master, POLLIN, 0}};
    unsigned char bytes[4096];
    ssize_t size;
    if (poll(files, child.master < 0 ? 1 : 2, milliseconds) < 1)
        return 0;
    if (child.master >= 0 && files[1].revents) {
        size = read(child.master, bytes, sizeof bytes);
        for (ssize_t i = 0; i < size; i++)
            take_byte(bytes[i]);
        if (size > 0)
            return 1;
    }
    if (!files[0].revents || child.has_ended)
        return 0;
    take_report();
    return 1;
}

static void listen_until_quiet(int milliseconds) {
    while (listen_for(milliseconds))
        ;
}

/* ---- The commands ---- */

static size_t encode(uint32_t character, char *bytes) {
    if (character < 0x80) {
        bytes[0] = (char)character;
        return 1;
    }
    if (character < 0x800) {
        bytes[0] = (char)(0xc0 | character >> 6);
        bytes[1] = (char)(0x80 | (character & 0x3f));
        return 2;
    }
    bytes[0] = (char)(0xe0 | character >> 12);
    bytes[1] = (char)(0x80 | (character >> 6 & 0x3f));
    bytes[2] = (char)(0x80 | (character & 0x3f));
    return 3;
}

static const char *text_of(int row) {
    static char text[3 * MOST_COLUMNS + 1];
    size_t size = 0;
    for (int column = 0; column < screen.columns; column++) {
        if (screen.cells[row][column])
            size += encode(screen.cells[row][column], text + size);
    }
    while (size && text[size - 1] == ' ')
        size--;
    text[size] = 0;
    return text;
}

static void write_screen(FILE *file) {
    for (int row = 0; row < screen.rows; row++)
        fprintf(file, "%s\n", text_of(row));
}

static void show(const char *path) {
    FILE *file = fopen(path, "w");
    if (!file)
        give_up("cannot write", errno);
    write_screen(file);
    fclose(file);
}

static long now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* True if a row, counted from 1, has the text; 0: any row. */
static int has_text_in(int wanted, const char *text) {
    for (int row = 0; row < screen.rows; row++) {
        if ((!wanted || row + 1 == wanted) && strstr(text_of(row), text))
            return 1;
    }
    return 0;
}

static void wait_for(int row, const char *text, int is_wanted) {
    const long until = now_ms() + PATIENCE_MS;
    while (has_text_in(row, text) != is_wanted) {
        listen_for(50);
        if (child.has_ended || now_ms() > until) {
            write_screen(stderr);
            give_up(child.has_ended ? "the program has ended" : "it did not happen", child.code);
        }
    }
}

static void wait_for_line(const char *text) {
    const long until = now_ms() + PATIENCE_MS;
    while (!strstr(screen.lines, text)) {
        listen_for(50);
        if (now_ms() > until)
            give_up("it did not happen", 0);
    }
}

static void type_key(const char *name) {
    static const char *const keys[][2] = {
        {"up", "\033[A"}, {"down", "\033OB"}, {"escape", "\033"}, {"interrupt", "\003"}, {"suspend", "\032"}};
    const char *bytes = name;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!strcmp(keys[i][0], name))
            bytes = keys[i][1];
    }
    if (write(child.master, bytes, strlen(bytes)) != (ssize_t)strlen(bytes))
        give_up("cannot type", errno);
}

/* Checks that the terminal is in its original state. */
static void check_restored(void) {
    struct termios now;
    if (child.master < 0)
        return;
    listen_until_quiet(100);
    tcgetattr(child.master, &now);
    if (now.c_iflag != child.before.c_iflag || now.c_oflag != child.before.c_oflag ||
        now.c_lflag != child.before.c_lflag || memcmp(now.c_cc, child.before.c_cc, sizeof now.c_cc))
        give_up("the mode of the terminal is another", now.c_lflag);
    if (screen.is_alternate || screen.hides_cursor || screen.cuts)
        give_up("the screen was not left", 0);
}

static void wait_until(const int *is_so) {
    const long until = now_ms() + PATIENCE_MS;
    while (!*is_so) {
        listen_for(50);
        if (now_ms() > until)
            give_up("it did not happen", 0);
    }
    check_restored();
}

static void wait_for_end(int code) {
    wait_until(&child.has_ended);
    if (child.code != code)
        give_up("another exit code", child.code);
}

/* Waits until all of the screen has been drawn again. */
static void resize(const char *size) {
    const long until = now_ms() + PATIENCE_MS;
    listen_until_quiet(30);
    set_size(size);
    while (screen.is_settling && now_ms() < until)
        listen_for(50);
    if (screen.is_settling)
        give_up("the screen was not drawn again", screen.columns);
    listen_until_quiet(30);
}

static void obey(const char *line) {
    const char *space = strchr(line, ' '), *rest = space ? space + 1 : "";
    const size_t size = space ? (size_t)(space - line) : strlen(line);
    char word[20];
    snprintf(word, sizeof word, "%.*s", (int)size, line);
    doing = line;
    if (!strcmp(word, "wait"))
        wait_for(0, rest, 1);
    else if (!strcmp(word, "gone"))
        wait_for(0, rest, 0);
    else if (!strcmp(word, "key") || !strcmp(word, "type"))
        type_key(rest);
    else if (!strcmp(word, "size"))
        resize(rest);
    else if (!strcmp(word, "signal"))
        kill(child.program, atoi(rest));
    else if (!strcmp(word, "show"))
        show(rest);
    else if (!strcmp(word, "line"))
        wait_for_line(rest);
    else if (!strcmp(word, "run")) {
        if (system(rest))
            give_up("the command failed", 0);
    } else if (!strcmp(word, "row"))
        wait_for(atoi(rest), strchr(rest, ' ') ? strchr(rest, ' ') + 1 : "", 1);
    else if (!strcmp(word, "stopped"))
        wait_until(&child.is_stopped);
    else if (!strcmp(word, "end"))
        wait_for_end(atoi(rest));
    else if (!strcmp(word, "hang-up")) {
        close(child.master);
        child.master = -1;
    } else
        give_up("an unknown line", 0);
}

int main(int count, char **arguments) {
    char line[1000];
    if (count < 3)
        give_up("pseudo_terminal COLUMNSxROWS PROGRAM ARGUMENTS...", count);
    clear();
    start(arguments[1], arguments + 2);
    take_report(); /* its number */
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        obey(line);
    }
    doing = "the end of the lines";
    if (!child.has_ended)
        give_up("the program goes on", child.program);
    return 0;
}
