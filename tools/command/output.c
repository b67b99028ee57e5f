#include "output.h"

#include "text.h"
#include "wording.h"

#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Global, since a process has one standard error. */
static struct {
    output_detail detail;
    int has_detail; /* the detail was set */
    int started;
    int progress; /* a progress line is shown */
    int is_live;  /* the line stays below other output */
    int failed;   /* errno of a failure to write the result; 0: none */
    text_buffer held;
    char shown[500]; /* the progress line, as passed */
} output = {OUTPUT_NORMAL, 0, 0, 0, 0, 0, {NULL, 0, 0}, ""};

void output_set_detail(output_detail detail) {
    if (output.has_detail)
        return;
    output.has_detail = 1;
    output.detail = detail;
    if (detail == OUTPUT_VERBOSE)
        output_start();
}

/* Returns the bytes of a line that leave the last column free: filling it may start another line on some terminals. */
static size_t output_fitting_size(const char *line, int columns) {
    const size_t size = strlen(line);
    size_t end = 0;
    for (int used = 1; end < size && (!columns || used < columns); used++) {
        const int length = text_utf8_length(line + end, size - end);
        end += length > 1 ? (size_t)length : 1;
    }
    return end;
}

static void output_clear_progress(void) {
    if (output.progress)
        fputs(output.is_live ? "\r\033[J" : "\r\033[K", stderr);
    output.progress = 0;
}

/*
 * Shows output.shown in one write. The cursor stays in the first column: if the terminal becomes narrower and wraps the
 * line, the cursor is still at its start, so redrawing erases all of it.
 */
static void output_draw_live(void) {
    char text[sizeof output.shown + 16];
    const int length = snprintf(text, sizeof text, "\r\033[J%.*s\r",
                                (int)output_fitting_size(output.shown, output_columns(stderr)), output.shown);
    fwrite(text, 1, (size_t)length, stderr);
    output.progress = 1;
}

void output_start(void) {
    output.started = 1;
    if (output.held.size) {
        output_clear_progress();
        fputs(output.held.data, stderr);
    }
    text_release(&output.held);
}

/* True if a line is already held back: some files are read more than once before the start, with the same warnings. */
static int output_holds(const char *line) {
    const char *at = output.held.data;
    while (at && (at = strstr(at, line)) != NULL) {
        if (at == output.held.data || at[-1] == '\n')
            return 1;
        at++;
    }
    return 0;
}

void output_warnings(void) {
    static const char prefix[] = "warning: ";
    const char *line = output.held.data;
    for (size_t length; line && *line; line += length) {
        length = strcspn(line, "\n") + 1;
        if (strncmp(line, prefix, sizeof prefix - 1))
            continue;
        output_clear_progress();
        fwrite(line, 1, length, stderr);
    }
    text_release(&output.held);
}

void output_forget(void) {
    text_release(&output.held);
}

/* Makes text printable that may come from a damaged file or be a file name: bytes that are not UTF-8, and control
   characters, become '?', except those in `kept`. */
static void output_make_printable(char *text, size_t size, const char *kept) {
    for (size_t i = 0; i < size;) {
        const int length = text_utf8_length(text + i, size - i);
        const unsigned char first = (unsigned char)text[i];
        const size_t bytes = length > 1 ? (size_t)length : 1;
        const int is_second_set = length == 2 && first == 0xC2 && (unsigned char)text[i + 1] < 0xA0; /* U+0080 on */
        const int is_control = (first < 0x20 && !(first && strchr(kept, first))) || first == 0x7F || is_second_set;
        if (length < 1 || is_control)
            memset(text + i, '?', bytes);
        i += bytes;
    }
}

/* Holds a line of `size` bytes, without its newline, back. On a terminal, information shows the current activity. */
static void output_hold(eitp_log_level level, const char *line, size_t size) {
    char shown[sizeof output.shown];
    text_add(&output.held, line, size + 1);
    snprintf(shown, sizeof shown, "%.*s", (int)size, line);
    if (level == EITP_LOG_INFO)
        output_progress(shown);
}

/* Prints a line. */
static void output_line(eitp_log_level level, const char *prefix, const char *message, wording_source source) {
    char line[1200], translated[1100];
    int length;
    wording_translate(message, source, translated, sizeof translated);
    length = snprintf(line, sizeof line - 1, "%s%s", prefix, translated);
    size_t size = length < 0 ? 0 : (size_t)length < sizeof line - 1 ? (size_t)length : sizeof line - 2;
    output_make_printable(line, size, "");
    line[size] = '\n';
    line[size + 1] = 0;
    if (!output.started && level < EITP_LOG_ERROR) {
        if (!output_holds(line))
            output_hold(level, line, size);
        return;
    }
    output_clear_progress();
    fputs(line, stderr);
    if (output.is_live && level < EITP_LOG_ERROR) /* errors end the command */
        output_draw_live();
}

/* Prints a message if its level is shown. */
static void output_message(eitp_log_level level, const char *message, wording_source source) {
    static const char *const prefixes[] = {"", "", "warning: ", "error: "};
    if ((level == EITP_LOG_DEBUG && output.detail < OUTPUT_VERBOSE) ||
        (level == EITP_LOG_INFO && output.detail < OUTPUT_NORMAL))
        return;
    output_line(level, prefixes[level <= EITP_LOG_ERROR ? level : EITP_LOG_ERROR], message, source);
}

static void output_log(void *user, eitp_log_level level, const char *message) {
    (void)user;
    output_message(level, message, WORDING_LIBRARY);
}

eitp_log_sink output_log_sink(void) {
    eitp_log_sink sink;
    sink.user = NULL;
    sink.write = output_log;
    return sink;
}

static void output_formatted(eitp_log_level level, const char *format, va_list arguments) {
    char message[1000];
    vsnprintf(message, sizeof message, format, arguments);
    output_message(level, message, WORDING_COMMAND);
}

void output_info(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    output_formatted(EITP_LOG_INFO, format, arguments);
    va_end(arguments);
}

void output_warning(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    output_formatted(EITP_LOG_WARNING, format, arguments);
    va_end(arguments);
}

void output_error(const char *format, ...) {
    va_list arguments;
    text_release(&output.held);
    va_start(arguments, format);
    output_formatted(EITP_LOG_ERROR, format, arguments);
    va_end(arguments);
}

int output_fail(const eitp_error *error) {
    text_release(&output.held);
    output_message(EITP_LOG_ERROR, error->message, WORDING_LIBRARY);
    return command_exit_code(error->status);
}

int output_is_terminal(void) {
    const char *kind = getenv("TERM"), *plain = getenv("NO_COLOR");
    return isatty(STDERR_FILENO) && !(kind && !strcmp(kind, "dumb")) && !(plain && *plain);
}

int output_columns(FILE *stream) {
    struct winsize size;
    return isatty(fileno(stream)) && !ioctl(fileno(stream), TIOCGWINSZ, &size) ? size.ws_col : 0;
}

void output_progress(const char *line) {
    char printable[sizeof output.shown];
    if (!output_is_terminal() || output.detail < OUTPUT_NORMAL)
        return;
    snprintf(printable, sizeof printable, "%s", line);
    output_make_printable(printable, strlen(printable), "");
    if (output.progress && !strcmp(printable, output.shown)) /* stages are reported many times a second */
        return;
    memcpy(output.shown, printable, sizeof printable);
    output.is_live = 0;
    fprintf(stderr, "\r%.*s\033[K", (int)output_fitting_size(output.shown, output_columns(stderr)), output.shown);
    fflush(stderr);
    output.progress = 1;
}

void output_live(const char *line) {
    if (!output_is_terminal() || output.detail < OUTPUT_NORMAL)
        return;
    if (!line)
        output_clear_progress();
    output.is_live = line != NULL;
    if (!line)
        return;
    snprintf(output.shown, sizeof output.shown, "%s", line);
    output_make_printable(output.shown, strlen(output.shown), "");
    output_draw_live();
}

const char *output_bytes(double bytes) {
    static char buffers[16][32];
    static size_t next;
    next = (next + 1) % COMMAND_COUNT(buffers);
    /* Records may have any number; 2^64 and above are not representable. */
    return eitp_format_bytes(bytes >= 18446744073709551615.0 ? UINT64_MAX
                             : bytes > 0                     ? (uint64_t)(bytes + 0.5)
                                                             : 0,
                             buffers[next], sizeof buffers[next]);
}

void output_by_line(void) {
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
}

/* Remembers a failure: after it the data is lost and later calls succeed. */
static void output_keep_failure(int failed) {
    if (failed && !output.failed)
        output.failed = errno ? errno : EIO;
}

/* Removes control characters for a terminal, since paths and generated text may have them. */
void output_result(const char *data, size_t size) {
    char *printable = NULL;
    output_clear_progress();
    if (size && isatty(STDOUT_FILENO)) {
        printable = (char *)command_allocate(size);
        memcpy(printable, data, size);
        output_make_printable(printable, size, "\n\t");
    }
    errno = 0;
    output_keep_failure(fwrite(printable ? printable : data, 1, size, stdout) != size || ferror(stdout));
    free(printable);
}

int output_flush(void) {
    errno = 0;
    output_keep_failure(fflush(stdout) || ferror(stdout));
    return !output.failed;
}

static const char output_incomplete[] = "cannot write to standard output: %s; the result is incomplete";

eitp_status output_check(eitp_error *error) {
    return output_flush() ? EITP_OK : command_fail(error, EITP_ERROR_IO, output_incomplete, strerror(output.failed));
}

int output_finish(int code) {
    if (code == COMMAND_FINISHED)
        output_warnings();
    output_flush();
    errno = 0;
    output_keep_failure(fclose(stdout)); /* a network file system may report a full disk only now */
    output_clear_progress();
    if (!output.failed || output.failed == EPIPE || code != COMMAND_FINISHED)
        return code;
    output_error(output_incomplete, strerror(output.failed));
    return COMMAND_IO;
}
