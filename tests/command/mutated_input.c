/*
 * Damages a file in one way, for tests/command/test_mutated.sh.
 *   mutated_input             prints the number of ways
 *   mutated_input FILE SEED   replaces the file; the way is SEED modulo their number
 * The header length of a .safetensors file and the checksum of a manifest.json mostly remain valid: otherwise nothing
 * after them would be read.
 */
#include "base/checksum.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHECKSUM_SIZE = 12 }; /* of a manifest: a checksum of 8 digits, a quotation mark, and the last bracket */

typedef struct bytes {
    unsigned char *data;
    size_t size;
} bytes;

typedef struct mutation {
    bytes b;
    uint64_t state;
    size_t header;          /* bytes of a safetensors header, after its length; otherwise 0 */
    long long header_grown; /* number of bytes added to it */
} mutation;

static void stop(const char *what, const char *path) {
    fprintf(stderr, "mutated_input: %s: %s\n", what, path);
    exit(1);
}

static uint32_t draw(mutation *m) {
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(m->state >> 33);
}

/* Returns a number below `limit`, or 0 if that is 0. */
static size_t draw_below(mutation *m, size_t limit) {
    return limit ? draw(m) % limit : 0;
}

/* Returns any position in the file, or its end. Most are in the header, if there is one. */
static size_t draw_position(mutation *m) {
    const size_t header_end = m->header + 8;
    if (m->header && draw(m) % 4)
        return 8 + draw_below(m, m->header);
    return draw_below(m, m->b.size > header_end || !m->header ? m->b.size + 1 : header_end);
}

static size_t draw_span(mutation *m, size_t at) {
    const size_t rest = m->b.size - at, most = draw(m) % 4 ? 40 : rest;
    return draw_below(m, (most < rest ? most : rest) + 1);
}

/* Replaces `size` bytes by `count` copies of a string. */
static void replace(mutation *m, size_t at, size_t size, const void *text, size_t length, size_t count) {
    const size_t added = length * count, rest = m->b.size - at - size;
    unsigned char *data = (unsigned char *)malloc(m->b.size + added + 1);
    if (!data)
        stop("out of memory", "");
    memcpy(data, m->b.data, at);
    for (size_t i = 0; i < count; i++)
        memcpy(data + at + i * length, text, length);
    memcpy(data + at + added, m->b.data + at + size, rest);
    if (at >= 8 && at < m->header + 8)
        m->header_grown += (long long)added - (long long)size;
    free(m->b.data);
    m->b.data = data;
    m->b.size = at + added + rest;
}

/* ---- Ways ---- */

static void flip_bits(mutation *m) {
    for (uint32_t count = 1 + draw(m) % 8; count > 0 && m->b.size; count--) {
        const size_t at = draw_position(m) % m->b.size;
        m->b.data[at] ^= (unsigned char)(1u << draw(m) % 8);
    }
}

static void cut(mutation *m) {
    m->b.size = draw_below(m, m->b.size);
}

static void repeat_span(mutation *m) {
    const size_t at = draw_position(m), size = draw_span(m, at);
    unsigned char *copy = (unsigned char *)malloc(size + 1);
    memcpy(copy, m->b.data + at, size);
    replace(m, draw(m) % 2 ? at : draw_position(m), 0, copy, size, 1 + draw(m) % 3);
    free(copy);
}

static void remove_span(mutation *m) {
    const size_t at = draw_position(m);
    replace(m, at, draw_span(m, at), "", 0, 0);
}

/* Moves to the next of the given characters, from a random position. Returns 0 if there is none. */
static int find(mutation *m, const char *characters, size_t *at) {
    *at = draw_position(m);
    for (size_t i = 0; i < m->b.size; i++, ++*at) {
        *at = *at < m->b.size ? *at : 0;
        if (m->b.data[*at] && strchr(characters, m->b.data[*at]))
            return 1;
    }
    return 0;
}

static void change_number(mutation *m) {
    static const char *const numbers[] = {"0",
                                          "-1",
                                          "1",
                                          "2",
                                          "3",
                                          "7",
                                          "1000003",
                                          "2147483647",
                                          "2147483648",
                                          "4294967296",
                                          "9223372036854775807",
                                          "9223372036854775808",
                                          "18446744073709551616",
                                          "-9223372036854775809",
                                          "1e308",
                                          "1e309",
                                          "-1e-320",
                                          "0.5",
                                          "1e15",
                                          "NaN",
                                          "1e",
                                          "00",
                                          "999999999999999999999999999999999999"};
    const char *number = numbers[draw_below(m, sizeof numbers / sizeof *numbers)];
    size_t at, end;
    if (!find(m, "0123456789", &at))
        return;
    while (at > 0 && strchr("0123456789.-", m->b.data[at - 1]) && m->b.data[at - 1])
        at--;
    for (end = at; end < m->b.size && m->b.data[end] && strchr("0123456789.-+eE", m->b.data[end]);)
        end++;
    replace(m, at, end - at, number, strlen(number), 1);
}

/* Changes a binary number. */
static void change_word(mutation *m) {
    static const uint64_t words[] = {0,
                                     1,
                                     0x7fffffff,
                                     0x80000000u,
                                     0xffffffffu,
                                     (uint64_t)1 << 32,
                                     (uint64_t)1 << 40,
                                     INT64_MAX,
                                     (uint64_t)1 << 63,
                                     UINT64_MAX};
    const uint64_t word = words[draw(m) % 10];
    const size_t size = draw(m) % 2 ? 8 : 4, at = (draw(m) % 2 ? draw_position(m) : draw_below(m, 128)) & ~(size_t)3;
    for (size_t i = 0; i < size && at + i < m->b.size; i++)
        m->b.data[at + i] = (unsigned char)(word >> 8 * i);
}

/* Returns the position after a random colon, where a value follows, or any position. */
static size_t value_position(mutation *m) {
    size_t at;
    return draw(m) % 4 && find(m, ":,[", &at) ? at + 1 : draw_position(m);
}

static void nest(mutation *m) {
    static const char *const opened[] = {"[", "{\"a\":", "{\"a\":["};
    const char *text = opened[draw(m) % 3];
    replace(m, value_position(m), 0, text, strlen(text), draw(m) % 2 ? 70 : 60000);
}

static void insert_invalid_text(mutation *m) {
    static const char *const texts[] = {"\xc0\x80", "\xff",    "\xed\xa0\x80",   "\xf4\x90\x80\x80", "\xe2\x82", "\x80",
                                        "\\ud800",  "\\u0000", "\\udc00\\ud800", "\x1b[2J",          "\r",       "\n",
                                        "\"",       "\\"};
    const char *text = texts[draw(m) % 14];
    replace(m, draw_position(m), 0, text, strlen(text), 1 + draw(m) % 2);
}

static void insert_long_text(mutation *m) {
    static const char *const texts[] = {"a", "\xc3\xa4", " ", "9", "\"", "\n"};
    const char *text = texts[draw(m) % 6];
    size_t at;
    if (draw(m) % 2 || !find(m, "\"", &at))
        at = draw_position(m);
    else
        at++;
    replace(m, at, 0, text, strlen(text), draw(m) % 2 ? 300 : 70000);
}

static void change_value(mutation *m) {
    static const char *const values[] = {"null",  "true", "[]",       "{}",       "\"\"",         "\"x\"", "-1",
                                         "[1,2]", "0.25", "\"../x\"", "\"gpt2\"", "{\"a\":[{}]}", "[[]]",  "[-1,1]"};
    const char *value = values[draw(m) % 14];
    size_t at, end;
    if (!find(m, ":", &at))
        return;
    for (end = ++at; end < m->b.size && !(m->b.data[end] && strchr(",}\n", m->b.data[end]));)
        end++;
    replace(m, at, end - at, value, strlen(value), 1);
}

static void clear_span(mutation *m) {
    const size_t at = draw_position(m), size = draw_span(m, at);
    memset(m->b.data + at, 0, size);
}

static void append(mutation *m) {
    static const char texts[][2] = {"", "\n", "{", "]", "\xff"};
    replace(m, m->b.size, 0, texts[draw(m) % 5], 1, 1 + draw(m) % 5000);
}

static void (*const ways[])(mutation *m) = {
    flip_bits, cut,          repeat_span,         remove_span,      change_number, change_word,
    nest,      change_value, insert_invalid_text, insert_long_text, clear_span,    append,
};

/* ---- Files ---- */

static bytes read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    bytes b;
    long size;
    if (!file || fseek(file, 0, SEEK_END) || (size = ftell(file)) < 0 || fseek(file, 0, SEEK_SET))
        stop("cannot read", path);
    b.size = (size_t)size;
    b.data = (unsigned char *)malloc(b.size + 1);
    if (!b.data || fread(b.data, 1, b.size, file) != b.size)
        stop("cannot read", path);
    fclose(file);
    return b;
}

static int ends_with(const char *path, const char *ending) {
    const size_t size = strlen(path), length = strlen(ending);
    return size >= length && !strcmp(path + size - length, ending);
}

static uint64_t read_length(const unsigned char *data) {
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | data[i];
    return length;
}

static void mutate(mutation *m, const char *path, unsigned long long seed) {
    const int is_manifest = ends_with(path, "manifest.json");
    if (ends_with(path, ".safetensors") && m->b.size > 8)
        m->header = (size_t)read_length(m->b.data);
    if (is_manifest && m->b.size > CHECKSUM_SIZE)
        m->b.size -= CHECKSUM_SIZE;
    ways[seed % (sizeof ways / sizeof *ways)](m);
    if (m->header && m->header_grown && m->b.size > 8 && draw(m) % 8) {
        const uint64_t length = (uint64_t)((long long)m->header + m->header_grown);
        for (int i = 0; i < 8; i++)
            m->b.data[i] = (unsigned char)(length >> 8 * i);
    }
    if (is_manifest) {
        char end[CHECKSUM_SIZE + 1];
        snprintf(end, sizeof end, "%08x\"\n}\n", (unsigned)eitp__crc32c(0, m->b.data, m->b.size));
        replace(m, m->b.size, 0, end, CHECKSUM_SIZE, 1);
    }
}

int main(int count, char **arguments) {
    mutation m;
    FILE *file;
    memset(&m, 0, sizeof m);
    if (count == 1)
        return printf("%d\n", (int)(sizeof ways / sizeof *ways)) < 0;
    if (count != 3)
        stop("wrong arguments", "");
    m.state = strtoull(arguments[2], NULL, 10) * 0x9e3779b97f4a7c15u + 1;
    m.b = read_file(arguments[1]);
    mutate(&m, arguments[1], strtoull(arguments[2], NULL, 10));
    file = fopen(arguments[1], "wb");
    if (!file || fwrite(m.b.data, 1, m.b.size, file) != m.b.size || fclose(file))
        stop("cannot write", arguments[1]);
    free(m.b.data);
    return 0;
}
