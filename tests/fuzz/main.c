/*
 * Runs a fuzz target without libFuzzer, on the given files and on inputs derived from them:
 *   PROGRAM [-runs=N] [-max_total_time=SECONDS] [-input=PATH] FILE...
 * Tries N derived inputs, or as many as time permits. Each is a file with a few bytes, numbers or ranges changed. The
 * random seed is fixed, so results are reproducible. PATH always contains the current input, so one that ends the
 * program or takes 20 seconds remains there.
 */
#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_BYTES = 1 << 16, MOST_FILES = 100, MOST_CHANGES = 4, MOST_SECONDS = 20 };

typedef struct input {
    uint8_t bytes[MOST_BYTES];
    size_t size;
} input;

static input files[MOST_FILES], made;
static size_t file_count;
static int kept_file = -1;

static void require(int condition, const char *what) {
    if (!condition) {
        fprintf(stderr, "fuzzing: %s\n", what);
        exit(1);
    }
}

static int open_kept(const char *path) {
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    require(file >= 0, path);
    return file;
}

static void read_input(const char *path) {
    FILE *file = fopen(path, "rb");
    input *read;
    require(file_count < MOST_FILES, "too many files");
    read = &files[file_count++];
    require(file != NULL, path);
    read->size = fread(read->bytes, 1, MOST_BYTES, file);
    require(!ferror(file) && fgetc(file) == EOF, "a file is too large");
    fclose(file);
}

/* The file stays open, because closing a truncated one makes some file systems write to the disk. */
static void keep_input(const input *tried) {
    require(pwrite(kept_file, tried->bytes, tried->size, 0) == (ssize_t)tried->size &&
                !ftruncate(kept_file, (off_t)tried->size),
            "cannot write the file of -input");
}

static void try_input(const input *tried) {
    /* Detects reads past the end. */
    uint8_t *exact = (uint8_t *)malloc(tried->size ? tried->size : 1);
    require(exact != NULL, "no memory");
    memcpy(exact, tried->bytes, tried->size);
    if (kept_file >= 0)
        keep_input(tried);
    alarm(MOST_SECONDS);
    LLVMFuzzerTestOneInput(exact, tried->size);
    free(exact);
}

/* splitmix64. Returns a number below `limit`, or 0. */
static size_t below(size_t limit) {
    static uint64_t state = 1;
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return limit ? (size_t)(z % limit) : 0;
}

/* Replaces `removed` bytes at `place` by `size` others, as far as there is room. */
static void replace(size_t place, size_t removed, const uint8_t *bytes, size_t size) {
    const size_t rest = made.size - place - removed;
    if (place + size + rest > MOST_BYTES)
        return;
    memmove(made.bytes + place + size, made.bytes + place + removed, rest);
    if (size)
        memcpy(made.bytes + place, bytes, size);
    made.size = place + size + rest;
}

static void change_byte(size_t place) {
    static const char special[] = "\"\\{}[]:,-.e0 \n\t\x1E\x7F\x80\xFF";
    if (place < made.size)
        made.bytes[place] = below(2) ? (uint8_t)below(256) : (uint8_t)special[below(sizeof special)];
}

/* Writes a number of 1, 2, 4 or 8 bytes that is a limit or next to one, or a number in digits. */
static void change_number(size_t place) {
    static const char *const digits[] = {
        "0", "-1", "1e999", "2147483648", "9223372036854775807", "18446744073709551616"};
    const size_t size = (size_t)1 << below(4), rest = made.size - place;
    const uint64_t number = ((uint64_t)1 << below(64)) - below(2), negative = (uint64_t)0 - number;
    const char *text = digits[below(sizeof digits / sizeof *digits)];
    if (below(2))
        replace(place, 0, (const uint8_t *)text, strlen(text));
    else
        memcpy(made.bytes + place, below(2) ? &number : &negative, size < rest ? size : rest);
}

/* Removes or repeats up to 64 bytes, or any number, or copies them from another file. */
static void change_range(size_t place) {
    static uint8_t copy[MOST_BYTES];
    const input *from = below(2) ? &made : &files[below(file_count)];
    const size_t start = below(from->size), most = below(8) ? 64 : MOST_BYTES;
    size_t size = below(from->size - start + 1);
    size = size < most ? size : below(most);
    if (from == &made && below(2)) {
        replace(start, size, NULL, 0);
        return;
    }
    memcpy(copy, from->bytes + start, size);
    replace(place, 0, copy, size);
}

static void make_input(void) {
    static void (*const changes[])(size_t place) = {change_byte, change_number, change_range};
    made = files[below(file_count)];
    for (size_t count = 1 + below(MOST_CHANGES); count; count--)
        changes[below(3)](below(made.size + 1));
}

/* Returns the value of an option such as -runs=, or NULL. */
static const char *value_of(const char *argument, const char *option) {
    const size_t length = strlen(option);
    return strncmp(argument, option, length) ? NULL : argument + length;
}

int main(int argc, char **argv) {
    const time_t began = time(NULL);
    long runs = 0, most_seconds = 0, made_inputs;
    for (int i = 1; i < argc; i++) {
        const char *value;
        if ((value = value_of(argv[i], "-runs=")))
            runs = atol(value);
        else if ((value = value_of(argv[i], "-max_total_time=")))
            most_seconds = atol(value);
        else if ((value = value_of(argv[i], "-input=")))
            kept_file = open_kept(value);
        else
            read_input(argv[i]);
    }
    require(file_count > 0, "no files");
    for (size_t i = 0; i < file_count; i++)
        try_input(&files[i]);
    for (made_inputs = 0; made_inputs < runs && (!most_seconds || time(NULL) - began < most_seconds); made_inputs++) {
        make_input();
        try_input(&made);
    }
    printf("%ld files and %ld inputs made of them\n", (long)file_count, made_inputs);
    return 0;
}
