/* The index in the documentation of eitp.h: one line for each public type and function in the public headers. */
#include "amalgamate.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_COLUMN = 4, TEXT_COLUMN = 44, LINE_WIDTH = 120 };

typedef enum entry_kind { ENTRY_TYPE, ENTRY_FUNCTION, ENTRY_KIND_COUNT } entry_kind;

/* ---- Comments ---- */

/* Collects the words of a comment, without the asterisks at the starts of lines. */
static void collect_words(const char *p, const char *end, text *words) {
    while (p < end) {
        const char *start;
        while (p < end && (isspace((unsigned char)*p) || *p == '*'))
            p++;
        start = p;
        while (p < end && !isspace((unsigned char)*p))
            p++;
        if (p > start && words->size)
            text_add(words, " ", 1);
        text_add(words, start, (size_t)(p - start));
    }
}

/*
 * Returns the length of the first sentence: up to a full stop before a capital letter or the end, or up to a colon
 * before a list.
 */
static size_t sentence_length(const text *words) {
    size_t i;
    for (i = 0; i + 2 < words->size; i++)
        if (words->data[i] == '.' && words->data[i + 1] == ' ' && isupper((unsigned char)words->data[i + 2]))
            return i;
        else if (words->data[i] == ':' && words->data[i + 1] == ' ' && words->data[i + 2] == '-')
            return i;
    return words->size && words->data[words->size - 1] == '.' ? words->size - 1 : words->size;
}

/* Adds the first sentence of a comment, or as many of its words as fit on a line. */
static void add_sentence(const char *comment, const char *end, text *output) {
    const size_t room = LINE_WIDTH - TEXT_COLUMN - 4;
    text words = {NULL, 0, 0};
    size_t length;
    collect_words(comment, end, &words);
    length = sentence_length(&words);
    if (length > room) {
        for (length = room; length && words.data[length] != ' '; length--)
            continue;
        text_add(output, words.data, length);
        text_format(output, " ...");
    } else {
        text_add(output, words.data, length);
    }
    free(words.data);
}

/* ---- Declarations ---- */

static size_t name_length(const char *p) {
    size_t length = 0;
    while (isalnum((unsigned char)p[length]) || p[length] == '_')
        length++;
    return length;
}

/* Returns the name declared at `p`, of `*size` characters, or NULL if `p` does not declare a type or function. */
static const char *declared_name(const char *p, entry_kind *kind, size_t *size) {
    const char *name;
    if (starts_with(p, "EITP_API ")) {
        *kind = ENTRY_FUNCTION;
        for (name = strstr(p, "eitp_"); name && name[name_length(name)] != '('; name = strstr(name + 1, "eitp_"))
            continue;
    } else {
        *kind = ENTRY_TYPE;
        name = starts_with(p, "typedef struct ") || starts_with(p, "typedef enum ") ? strstr(p, "eitp_") : NULL;
    }
    *size = name ? name_length(name) : 0;
    return name;
}

static void add_entry(const char *name, size_t size, const char *comment, const char *end, text *output) {
    size_t column = NAME_COLUMN + size;
    text_format(output, " *%*s", NAME_COLUMN - 2, "");
    text_add(output, name, size);
    if (comment) {
        text_format(output, "%*s", column < TEXT_COLUMN ? (int)(TEXT_COLUMN - column) : 1, "");
        add_sentence(comment, end, output);
    }
    text_format(output, "\n");
}

/*
 * Adds the entries of one kind in a header. A comment belongs to the declaration on the line after it. Section titles
 * ("---- ... ----") do not belong to a declaration.
 */
static void add_header(const source *file, entry_kind wanted, text *output) {
    const char *p = file->content.data, *end = p + file->content.size, *comment = NULL, *comment_end = NULL, *name;
    size_t size, entries = 0;
    entry_kind kind;
    while (p < end) {
        const char *next = (const char *)memchr(p, '\n', (size_t)(end - p));
        next = next ? next + 1 : end;
        if (starts_with(p, "/*")) {
            comment = p + 2;
            comment_end = strstr(p, "*/");
            next = comment_end ? comment_end + 2 : end;
            next += next < end && *next == '\n';
            if (starts_with(comment, " ----"))
                comment = NULL;
        } else {
            name = declared_name(p, &kind, &size);
            if (name && kind == wanted) {
                if (!entries++)
                    text_format(output, " *\n *   %s\n", file->path);
                add_entry(name, size, comment, comment_end, output);
            }
            comment = NULL;
        }
        p = next;
    }
}

void add_index(text *output) {
    static const char *const titles[ENTRY_KIND_COUNT] = {"TYPES", "FUNCTIONS"};
    size_t i;
    int kind;
    text_format(output, "/*\n * INDEX: each public type and function, with the first sentence of its documentation "
                        "below.\n");
    for (kind = 0; kind < ENTRY_KIND_COUNT; kind++) {
        text_format(output, " *\n * %s\n", titles[kind]);
        for (i = 0; i < source_count; i++)
            if (sources[i]->section == SECTION_PUBLIC)
                add_header(sources[i], (entry_kind)kind, output);
    }
    text_format(output, " */\n\n");
}
