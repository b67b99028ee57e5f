#include "supervise/place.h"

#include "files.h"
#include "output.h"

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    LOWEST_DESCRIPTOR = 20, /* of the lock; scripts use lower ones for their own files */
    MOST_TAIL = 1 << 18,    /* bytes at the end of a log searched for its last lines */
    PIECE = 4096,           /* bytes that a writable pipe takes at once */
    PIECES_AT_ONCE = 64,
    MOST_WAIT_MS = 2000
};

/* ---- The lock ---- */

/* Locks as eitp_files.lock does, but with a descriptor that another process can inherit. */
static eitp_status lock_directory(place *p, eitp_error *error) {
    const int opened = open(p->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int moved;
    if (opened < 0)
        return files_fail(error, errno, "open", p->directory);
    moved = fcntl(opened, F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR);
    p->lock = moved < 0 ? opened : moved;
    if (moved >= 0)
        close(opened);
    if (flock(p->lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "another process is training in '%s'; wait for it, or choose another directory "
                            "(--output-dir)",
                            p->directory);
    return EITP_OK;
}

/* True if the path still refers to the locked directory. */
static int is_in_place(const place *p) {
    struct stat held, found;
    return !fstat(p->lock, &held) && !stat(p->directory, &found) && held.st_dev == found.st_dev &&
           held.st_ino == found.st_ino;
}

/* ---- Opening ---- */

char *place_new_file(const place *p, const char *prefix) {
    const time_t now = time(NULL);
    struct tm local;
    char stamp[PLACE_NAME_SIZE];
    localtime_r(&now, &local);
    strftime(stamp, sizeof stamp, "%Y%m%d_%H%M%S", &local);
    for (int n = 1;; n++) {
        char *name =
            n < 2 ? command_format("%s_%s.log", prefix, stamp) : command_format("%s_%s-%d.log", prefix, stamp, n);
        char *path = files_join(p->logs, name);
        free(name);
        if (files_info(path).kind == EITP_PATH_MISSING)
            return path;
        free(path);
    }
}

static eitp_status open_log(place *p, eitp_error *error) {
    p->log = place_new_file(p, "training");
    p->file = open(p->log, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    return p->file < 0 ? files_fail(error, errno, "create", p->log) : EITP_OK;
}

eitp_status place_open(place *p, const char *directory, eitp_error *error) {
    const int quiet = p->quiet, shows = p->shows;
    int ignored;
    eitp_status status;
    if (p->directory && is_in_place(p))
        return EITP_OK;
    place_close(p, 0);
    p->quiet = quiet;
    p->shows = shows;
    p->directory = command_copy(directory);
    p->logs = files_join(directory, "logs");
    status = files_create_directories(p->directory, &ignored, error);
    if (!status)
        status = lock_directory(p, error);
    if (!status)
        status = files_create_directories(p->logs, &ignored, error);
    return status ? status : open_log(p, error);
}

void place_close(place *p, int unlocks) {
    if (p->directory && p->lock >= 0) {
        if (unlocks)
            flock(p->lock, LOCK_UN);
        close(p->lock);
    }
    if (p->directory && p->file >= 0)
        close(p->file);
    free(p->directory);
    free(p->logs);
    free(p->log);
    memset(p, 0, sizeof *p);
    p->lock = p->file = -1;
}

/* ---- The log ---- */

int64_t place_log_size(const place *p) {
    struct stat info;
    return fstat(p->file, &info) ? 0 : (int64_t)info.st_size;
}

/* True if the child's output does not end with a complete line. */
static int is_within_line(const place *p) {
    const int64_t size = place_log_size(p);
    char last;
    return size > 0 && pread(p->file, &last, 1, (off_t)size - 1) == 1 && last != '\n';
}

/* Ignores a failure to write the log, so that supervision continues. */
static void append(const place *p, const char *text, size_t size) {
    while (size) {
        const ssize_t done = write(p->file, text, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return;
        text += done;
        size -= (size_t)done;
    }
}

void place_say(place *p, eitp_log_level level, const char *format, ...) {
    static const char *const prefixes[] = {"", "", "warning: ", "error: "};
    text_buffer line = {NULL, 0, 0};
    va_list arguments;
    char message[1000];
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    text_format(&line, "%s%ssafe-train: %s\n", is_within_line(p) ? "\n" : "", prefixes[level], message);
    append(p, line.data, line.size);
    text_release(&line);
    if (p->quiet && level == EITP_LOG_WARNING)
        output_warning("safe-train: %s", message);
    else if (p->quiet && level == EITP_LOG_ERROR)
        output_error("safe-train: %s", message);
}

/* True if standard error can take a piece within the time. If its reader is gone, the log is no longer shown. */
static int can_show(place *p, int milliseconds) {
    struct pollfd stream;
    stream.fd = STDERR_FILENO;
    stream.events = POLLOUT;
    stream.revents = 0;
    if (poll(&stream, 1, milliseconds) < 1)
        return 0;
    if (stream.revents & (POLLERR | POLLHUP | POLLNVAL))
        p->shows = 0;
    return p->shows && (stream.revents & POLLOUT);
}

/* Copies a piece. Returns 0 if there is nothing to copy, or if it cannot be copied now. */
static int show_piece(place *p, int milliseconds) {
    char piece[PIECE];
    const ssize_t size = p->shows ? pread(p->file, piece, sizeof piece, (off_t)p->shown) : 0;
    ssize_t done;
    if (size <= 0 || !can_show(p, milliseconds))
        return 0;
    done = write(STDERR_FILENO, piece, (size_t)size);
    if (done < 0 && errno != EINTR && errno != EAGAIN)
        p->shows = 0;
    p->shown += done > 0 ? done : 0;
    return done > 0;
}

void place_show(place *p) {
    for (int i = 0; i < PIECES_AT_ONCE && show_piece(p, 0); i++)
        ;
}

void place_show_rest(place *p) {
    while (show_piece(p, MOST_WAIT_MS))
        ;
}

/* Returns the offset of the last `count` lines. */
static size_t find_last_lines(const char *text, size_t size, size_t count) {
    size_t at = size;
    while (at) {
        /* The line feed at the end does not start another line. */
        if (at < size && text[at - 1] == '\n' && !--count)
            return at;
        at--;
    }
    return 0;
}

void place_last_lines(const place *p, int64_t from, size_t count, text_buffer *lines) {
    const int64_t end = place_log_size(p);
    const int64_t begin = end - from > MOST_TAIL ? end - MOST_TAIL : from;
    char *tail = (char *)command_allocate(end > begin ? (size_t)(end - begin) : 1);
    const ssize_t size = end > begin ? pread(p->file, tail, (size_t)(end - begin), (off_t)begin) : 0;
    const size_t at = size > 0 ? find_last_lines(tail, (size_t)size, count) : 0;
    if (size > 0)
        text_add(lines, tail + at, (size_t)size - at);
    free(tail);
}
