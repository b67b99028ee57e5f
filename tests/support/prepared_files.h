/* Prepared files in place of the machine's. */
#ifndef EITP_TEST_PREPARED_FILES_H
#define EITP_TEST_PREPARED_FILES_H

#include "tests/support/faults.h"

#include <errno.h>

#define PREPARED_UNUSED __attribute__((unused))

/* A read-only in-memory file system that ends with a NULL path. As in /proc, every size is 0. */
typedef struct prepared {
    const char *path, *text;
} prepared;

static int prepared_open(void *user, const char *path, eitp_file_mode mode, void **file) {
    const prepared *files = (const prepared *)user;
    CHECK(mode == EITP_FILE_READ);
    for (; files->path; files++) {
        if (!strcmp(files->path, path)) {
            *file = (void *)(uintptr_t)files->text;
            return files->text ? 0 : EACCES;
        }
    }
    return ENOENT;
}

static int prepared_close(void *user, void *file) {
    (void)user;
    (void)file;
    return 0;
}

static int prepared_size(void *user, void *file, uint64_t *size) {
    (void)user;
    (void)file;
    *size = 0;
    return 0;
}

/* Reads at most 700 bytes at a time. */
static int prepared_read(void *user, void *file, uint64_t offset, void *data, size_t size, size_t *done) {
    const char *text = (const char *)file;
    size_t left = strlen(text) - (size_t)offset;
    (void)user;
    *done = left < size ? left : size;
    if (*done > 700)
        *done = 700;
    memcpy(data, text + offset, *done);
    return 0;
}

/* Lists the direct entries of a directory. A name may be repeated. */
static int prepared_list(void *user, const char *path, int (*entry)(void *entry_user, const char *name),
                         void *entry_user) {
    const size_t size = strlen(path);
    char last[80] = "";
    int is_found = 0;
    for (const prepared *files = (const prepared *)user; files->path; files++) {
        const char *name = files->path + size + 1;
        char found[80];
        if (strncmp(files->path, path, size) || files->path[size] != '/')
            continue;
        is_found = 1;
        snprintf(found, sizeof found, "%.*s", (int)strcspn(name, "/"), name);
        if (strcmp(found, last) && entry(entry_user, found))
            return 0;
        snprintf(last, sizeof last, "%s", found);
    }
    return is_found ? 0 : ENOENT;
}

static PREPARED_UNUSED eitp_files prepared_table(const prepared *files) {
    eitp_files table;
    memset(&table, 0, sizeof table);
    table.user = (void *)(uintptr_t)files;
    table.open = prepared_open;
    table.close = prepared_close;
    table.size = prepared_size;
    table.read = prepared_read;
    table.list = prepared_list;
    return table;
}

#endif
