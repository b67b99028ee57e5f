#include "records/log_files.h"

#include "files.h"
#include "output.h"

#include <sys/stat.h>
#include <time.h>

/* ---- Sizes ---- */

enum { MOST_FILES = 100000, MOST_LEVELS = 8 };

typedef struct file_list {
    const char *root;
    char *at; /* the subdirectory being listed, "" or with a slash at its end */
    int level;
    char **names; /* below the root */
    size_t count;
} file_list;

static int visit_file(void *user, const char *name) {
    file_list *list = (file_list *)user;
    const eitp_host host = command_host();
    char *below = command_format("%s%s", list->at, name), *path = files_join(list->root, below);
    struct stat info;
    const int is_there = lstat(path, &info) == 0;
    if (is_there && S_ISREG(info.st_mode)) {
        list->names = (char **)command_resize(list->names, (list->count + 1) * sizeof *list->names);
        list->names[list->count++] = command_copy(below);
    } else if (is_there && S_ISDIR(info.st_mode) && list->level < MOST_LEVELS) {
        char *before = list->at;
        list->at = command_format("%s/", below);
        list->level++;
        host.files.list(host.files.user, path, visit_file, list);
        list->level--;
        free(list->at);
        list->at = before;
    }
    free(path);
    free(below);
    return list->count >= MOST_FILES;
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lists the files of a directory and its subdirectories, by path. */
static void list_files(file_list *list, const char *directory) {
    const eitp_host host = command_host();
    memset(list, 0, sizeof *list);
    list->root = directory;
    list->at = command_copy("");
    host.files.list(host.files.user, directory, visit_file, list);
    if (list->count)
        qsort(list->names, list->count, sizeof *list->names, compare_texts);
    free(list->at);
}

static void forget_files(file_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->names[i]);
    free(list->names);
}

static void format_time(time_t time, char *text, size_t size) {
    struct tm parts;
    if (!gmtime_r(&time, &parts) || !strftime(text, size, "%Y-%m-%dT%H:%M:%SZ", &parts))
        snprintf(text, size, "?");
}

double log_files_add_sizes(const char *directory, text_table *t) {
    file_list list;
    double total = 0;
    text_table_add_column(t, "size", "bytes", 0, 0);
    text_table_add_column(t, "changed", "changed", 1, 1);
    text_table_add_column(t, "file", "file", 1, 0);
    list_files(&list, directory);
    for (size_t i = 0; i < list.count; i++) {
        char *path = files_join(directory, list.names[i]), changed[40];
        struct stat info;
        if (!lstat(path, &info)) {
            table_cell *cells = text_table_add_row(t);
            const double size = (double)info.st_size;
            format_time(info.st_mtime, changed, sizeof changed);
            text_table_set_number(&cells[0], size, output_bytes(size));
            text_table_set_text(&cells[1], changed);
            text_table_set_text(&cells[2], list.names[i]);
            total += size;
        }
        free(path);
    }
    forget_files(&list);
    return total;
}

double log_files_size(const char *directory) {
    file_list list;
    double total = 0;
    list_files(&list, directory);
    for (size_t i = 0; i < list.count; i++) {
        char *path = files_join(directory, list.names[i]);
        struct stat info;
        if (!lstat(path, &info))
            total += (double)info.st_size;
        free(path);
    }
    forget_files(&list);
    return total;
}

/* ---- Logs ---- */

/* Keeps the last log: names contain the start time, so it is the newest. */
static int visit_log(void *user, const char *name) {
    static const char prefix[] = "training_", suffix[] = ".log";
    char **last = (char **)user;
    const size_t size = strlen(name);
    if (strncmp(name, prefix, sizeof prefix - 1) || size < sizeof suffix ||
        strcmp(name + size - (sizeof suffix - 1), suffix) || (*last && strcmp(*last, name) >= 0))
        return 0;
    free(*last);
    *last = command_copy(name);
    return 0;
}

eitp_status log_files_find_last(const char *directory, char **path, eitp_error *error) {
    const eitp_host host = command_host();
    char *logs = files_join(directory, "logs"), *name = NULL;
    host.files.list(host.files.user, logs, visit_log, &name);
    *path = name ? files_join(logs, name) : NULL;
    free(name);
    free(logs);
    return *path ? EITP_OK
                 : command_fail(error, EITP_ERROR_ARGUMENT,
                                "no log in '%s/logs': safe-train writes training_*.log there; 'eitp logs %s' without "
                                "--last shows the records",
                                directory, directory);
}

/* Adds the printable part of a piece. Returns the number of bytes used: an incomplete character at the end is left
   over. */
static size_t add_piece(text_buffer *t, const char *piece, size_t size, int is_end) {
    size_t at = 0;
    while (at < size) {
        const int length = text_utf8_length(piece + at, size - at);
        const unsigned char first = (unsigned char)piece[at];
        const int is_plain = length > 1 || (length == 1 && (first == '\n' || first == '\t' || first >= 0x20));
        const int is_control = first == 0x7F || (length == 2 && first == 0xC2 && (unsigned char)piece[at + 1] < 0xA0);
        if (!length && !is_end)
            break;
        text_add(t, is_plain && !is_control ? piece + at : "?", is_plain && !is_control ? (size_t)length : 1);
        at += length > 0 ? (size_t)length : 1;
    }
    return at;
}

eitp_status log_files_print(const char *path, uint64_t *at, eitp_error *error) {
    const eitp_host host = command_host();
    char piece[8192];
    void *file;
    size_t done = sizeof piece;
    int code = host.files.open(host.files.user, path, EITP_FILE_READ, &file);
    if (code)
        return files_fail(error, code, "read", path);
    while (!code && done == sizeof piece) {
        text_buffer text = {NULL, 0, 0};
        code = host.files.read(host.files.user, file, *at, piece, sizeof piece, &done);
        if (!code) {
            *at += add_piece(&text, piece, done, 0);
            output_result(text.data ? text.data : "", text.size);
        }
        text_release(&text);
    }
    host.files.close(host.files.user, file);
    output_flush();
    return code ? files_fail(error, code, "read", path) : EITP_OK;
}
