/* Memory, text, files and findings. */
#include "amalgamate.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int findings;

void finding(const char *path, size_t line, const char *format, ...) {
    va_list arguments;
    fprintf(stderr, "%s:%lu: ", path, (unsigned long)line);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    findings++;
}

void *grow(void *memory, size_t size) {
    void *grown = realloc(memory, size ? size : 1);
    if (!grown) {
        fprintf(stderr, "amalgamate: out of memory\n");
        exit(1);
    }
    return grown;
}

void text_add(text *to, const char *data, size_t size) {
    if (to->size + size + 1 > to->capacity) {
        to->capacity = 2 * (to->size + size) + 4096;
        to->data = (char *)grow(to->data, to->capacity);
    }
    memcpy(to->data + to->size, data, size);
    to->size += size;
    to->data[to->size] = 0;
}

void text_format(text *to, const char *format, ...) {
    char line[2 * LONGEST_PATH];
    va_list arguments;
    int length;
    va_start(arguments, format);
    length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    text_add(to, line, length < (int)sizeof line ? (size_t)length : sizeof line - 1);
}

char *copy_text(const char *start, size_t size) {
    char *copy = (char *)grow(NULL, size + 1);
    memcpy(copy, start, size);
    copy[size] = 0;
    return copy;
}

int starts_with(const char *string, const char *prefix) {
    return strncmp(string, prefix, strlen(prefix)) == 0;
}

int ends_with(const char *string, const char *suffix) {
    size_t length = strlen(string), tail = strlen(suffix);
    return length >= tail && strcmp(string + length - tail, suffix) == 0;
}

int read_file(const char *path, text *content) {
    char block[65536];
    size_t size;
    struct stat info;
    FILE *file;
    if (stat(path, &info) != 0)
        return -1;
    if (!S_ISREG(info.st_mode)) {
        errno = EISDIR;
        return -1;
    }
    file = fopen(path, "rb");
    if (!file)
        return -1;
    while ((size = fread(block, 1, sizeof block, file)) > 0)
        text_add(content, block, size);
    if (ferror(file)) {
        fclose(file);
        errno = EIO;
        return -1;
    }
    fclose(file);
    text_add(content, "", 0);
    return 0;
}
