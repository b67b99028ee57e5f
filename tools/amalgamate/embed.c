/*
 * Files that eitp.h contains as text, for compilers called at run time: the files under `texts:` in the manifest. A
 * module that includes TEXTS gets a table of them.
 */
#include "amalgamate.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    LONGEST_PIECE = 4000, /* ISO C guarantees 4095 characters in a literal, after adjacent ones are joined */
    LINE_WIDTH = 120
};

embedded *embeddings;
size_t embedding_count;

embedded *find_embedded(const char *path) {
    size_t i;
    for (i = 0; i < embedding_count; i++)
        if (strcmp(embeddings[i].path, path) == 0)
            return &embeddings[i];
    return NULL;
}

/*
 * Returns the name by which other files include this one: relative to src/, or to kernels/cuda/ for the folders below
 * it.
 */
static const char *embedded_name(const char *path) {
    static const char own[] = "kernels/cuda/";
    if (starts_with(path, "src/"))
        return path + strlen("src/");
    if (starts_with(path, own) && strchr(path + strlen(own), '/'))
        return path + strlen(own);
    return path;
}

void add_embedded(const char *path, size_t line) {
    embedded *file;
    size_t i;
    for (i = 0; i < embedding_count; i++)
        if (strcmp(embedded_name(embeddings[i].path), embedded_name(path)) == 0) {
            finding(MANIFEST, line, "%s and %s would both be included as \"%s\": remove one, or rename it", path,
                    embeddings[i].path, embedded_name(path));
            return;
        }
    embeddings = (embedded *)grow(embeddings, (embedding_count + 1) * sizeof *embeddings);
    file = &embeddings[embedding_count++];
    memset(file, 0, sizeof *file);
    file->path = copy_text(path, strlen(path));
    file->manifest_line = line;
}

/* ---- stripping ---- */

static int is_blank(char c) {
    return c == ' ' || c == '\t';
}

/* True for a backslash that joins a line with the next. */
static int is_splice(const char *p) {
    return p[0] == '\\' && p[1] == '\n';
}

static const char *skip_blanks(const char *p) {
    while (is_blank(*p) || is_splice(p))
        p += is_blank(*p) ? 1 : 2;
    return p;
}

static int is_system_include(const char *line) {
    line = skip_blanks(line);
    if (*line != '#')
        return 0;
    line = skip_blanks(line + 1);
    return starts_with(line, "include") && *skip_blanks(line + strlen("include")) == '<';
}

/* Ends the line that starts at `start`, including lines joined by backslashes, or drops it. */
static void end_line(text *to, size_t start) {
    if (to->size == start)
        return;
    if (!*skip_blanks(to->data + start) || is_system_include(to->data + start)) {
        to->size = start;
        return;
    }
    while (is_blank(to->data[to->size - 1]))
        to->size--;
    text_add(to, "\n", 1);
}

/* Returns the end of a literal, or of the line if the literal is not terminated. */
static const char *literal_end(const char *p) {
    const char quote = *p++;
    while (*p && *p != quote && *p != '\n')
        p += *p == '\\' && p[1] ? 2 : 1;
    return *p == quote ? p + 1 : p;
}

/* Returns the end of a name or number. The apostrophe in 1'000 does not start a character constant. */
static const char *word_end(const char *p) {
    const int is_number = isdigit((unsigned char)*p) != 0;
    while (isalnum((unsigned char)*p) || *p == '_' || (is_number && *p == '\'' && isalnum((unsigned char)p[1])))
        p++;
    return p;
}

static const char *comment_end(const char *p) {
    if (p[1] == '*') {
        const char *end = strstr(p + 2, "*/");
        return end ? end + 2 : p + strlen(p);
    }
    while (*p && *p != '\n')
        p += is_splice(p) ? 2 : 1;
    return p;
}

static int is_raw_string(const char *word, const char *end) {
    static const char *const prefixes[] = {"R", "LR", "uR", "UR", "u8R"};
    size_t i;
    for (i = 0; *end == '"' && i < COUNT(prefixes); i++)
        if ((size_t)(end - word) == strlen(prefixes[i]) && starts_with(word, prefixes[i]))
            return 1;
    return 0;
}

/* Copies C or CUDA without comments, blank lines, indentation and #include lines of system headers. */
static void strip(const char *path, const char *p, text *to) {
    const char *end;
    size_t start = to->size, line = 1;
    for (; *p; p = end) {
        end = p + 1;
        if (is_splice(p)) {
            end = p + 2;
            text_add(to, p, 2);
        } else if (*p == '\n') {
            end_line(to, start);
            start = to->size;
        } else if (*p == '/' && (p[1] == '/' || p[1] == '*')) {
            end = comment_end(p);
            if (to->size > start && !is_blank(to->data[to->size - 1]))
                text_add(to, " ", 1);
            while (is_blank(*end))
                end++;
        } else if (*p == '"' || *p == '\'') {
            end = literal_end(p);
            text_add(to, p, (size_t)(end - p));
        } else if (isalnum((unsigned char)*p) || *p == '_') {
            end = word_end(p);
            text_add(to, p, (size_t)(end - p));
            if (is_raw_string(p, end))
                finding(path, line, "a raw string: the amalgamator cannot read it, use an ordinary string");
        } else if (!is_blank(*p) || to->size > start) {
            text_add(to, p, 1);
        }
        for (; p < end; p++)
            line += *p == '\n';
    }
    end_line(to, start);
}

void load_embedded(void) {
    size_t i;
    for (i = 0; i < embedding_count; i++) {
        embedded *file = &embeddings[i];
        text content = {NULL, 0, 0};
        if (read_file(file->path, &content) != 0)
            finding(MANIFEST, file->manifest_line, "%s: cannot read it: %s; correct the line or add the file",
                    file->path, strerror(errno));
        else
            strip(file->path, content.data, &file->content);
        free(content.data);
    }
}

/* ---- text as literals ---- */

/* Writes adjacent literals. Splits "??", which could start a trigraph. */
static void add_literals(const char *p, const char *end, text *output) {
    const char *start = p;
    size_t column = 1;
    text_add(output, "\"", 1);
    for (; p < end; p++) {
        char escape[] = {'\\', *p, 0};
        const char *spelling = escape;
        size_t length;
        if (*p == '\n')
            escape[1] = 'n';
        else if (*p == '\t')
            escape[1] = 't';
        else if (*p != '\\' && *p != '"' && !(*p == '?' && p > start && p[-1] == '?'))
            spelling++;
        length = strlen(spelling);
        if (column + length > LINE_WIDTH - 2) { /* leaves room for a quote and a comma */
            text_add(output, "\"\n\"", 3);
            column = 1;
        }
        text_add(output, spelling, length);
        column += length;
    }
    text_add(output, "\"", 1);
}

static void add_pieces(const text *content, size_t number, text *output) {
    const char *p = content->data, *end = p + content->size;
    size_t piece = 0;
    text_format(output, "\nstatic const char *const eitp__cuda_text_%lu[] = {\n", (unsigned long)number);
    while (p < end) {
        const char *next = (const char *)memchr(p, '\n', (size_t)(end - p)) + 1;
        size_t length = next - p < LONGEST_PIECE ? (size_t)(next - p) : LONGEST_PIECE;
        if (piece + length > LONGEST_PIECE)
            piece = 0;
        if (p > content->data)
            text_format(output, piece ? "\n" : ",\n");
        add_literals(p, p + length, output);
        piece += length;
        p += length;
    }
    text_format(output, content->size ? ",\nNULL};\n" : "NULL};\n");
}

void add_texts(text *output) {
    size_t i;
    text_format(output, "/* Generated by tools/amalgamate/ from the files under `texts:` in " MANIFEST ". */\n");
    for (i = 0; i < embedding_count; i++)
        add_pieces(&embeddings[i].content, i, output);
    text_format(output, "\nstatic const struct {\n"
                        "    const char *name; /* in #include directives */\n"
                        "    const char *const *pieces; /* of the text, ending with NULL */\n"
                        "} eitp__cuda_texts[] = {\n");
    for (i = 0; i < embedding_count; i++)
        text_format(output, "    {\"%s\", eitp__cuda_text_%lu},\n", embedded_name(embeddings[i].path),
                    (unsigned long)i);
    text_format(output, "};\n");
}
