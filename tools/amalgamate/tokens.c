/* The tokens and directives of C. */
#include "amalgamate.h"

#include <ctype.h>
#include <string.h>

static int is_name_start(char c) {
    return isalpha((unsigned char)c) || c == '_';
}

static int is_name_part(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

int token_is(const token *t, const char *string) {
    return t->length == strlen(string) && memcmp(t->start, string, t->length) == 0;
}

int token_starts(const token *t, const char *prefix) {
    return t->length >= strlen(prefix) && memcmp(t->start, prefix, strlen(prefix)) == 0;
}

static void add_token(source *file, token_kind kind, const char *start, const char *end, size_t line, int directive) {
    token *t;
    if ((file->count & (file->count - 1)) == 0)
        file->tokens = (token *)grow(file->tokens, (file->count ? 2 * file->count : 1) * sizeof(token));
    t = &file->tokens[file->count++];
    t->kind = kind;
    t->start = start;
    t->length = (size_t)(end - start);
    t->line = line;
    t->directive = directive;
}

void tokenize(source *file) {
    const char *p = file->content.data, *end = p + file->content.size, *start;
    size_t line = 1;
    int directive = 0, directives = 0, at_line_start = 1;
    while (p < end) {
        if (*p == '\\' && p + 1 < end && p[1] == '\n') {
            line++;
            p += 2;
        } else if (*p == '\n') {
            line++;
            p++;
            directive = 0;
            at_line_start = 1;
        } else if (isspace((unsigned char)*p)) {
            p++;
        } else if (*p == '/' && p + 1 < end && p[1] == '/') {
            while (p < end && *p != '\n')
                p++;
        } else if (*p == '/' && p + 1 < end && p[1] == '*') {
            for (p += 2; p < end && !(*p == '*' && p + 1 < end && p[1] == '/'); p++)
                line += *p == '\n';
            p = p + 2 < end ? p + 2 : end;
        } else {
            start = p;
            if (*p == '#' && at_line_start)
                directive = ++directives;
            at_line_start = 0;
            if (is_name_start(*p)) {
                while (p < end && is_name_part(*p))
                    p++;
                add_token(file, TOKEN_NAME, start, p, line, directive);
            } else if (isdigit((unsigned char)*p)) {
                while (p < end && (is_name_part(*p) || *p == '.'))
                    p++;
                add_token(file, TOKEN_NUMBER, start, p, line, directive);
            } else if (*p == '"' || *p == '\'') {
                for (p++; p < end && *p != *start && *p != '\n'; p++)
                    if (*p == '\\' && p + 1 < end)
                        p++;
                if (p < end && *p == *start)
                    p++;
                add_token(file, *start == '"' ? TOKEN_STRING : TOKEN_CHARACTER, start, p, line, directive);
            } else {
                p++;
                add_token(file, TOKEN_PUNCTUATION, start, p, line, directive);
            }
        }
    }
    file->lines = line;
}

size_t directive_end(const source *file, size_t i) {
    size_t end = i;
    while (end < file->count && file->tokens[end].directive == file->tokens[i].directive)
        end++;
    return end;
}

int is_directive_start(const source *file, size_t i) {
    return file->tokens[i].directive && (i == 0 || file->tokens[i - 1].directive != file->tokens[i].directive);
}

int directive_is(const source *file, size_t i, const char *name) {
    return is_directive_start(file, i) && i + 1 < directive_end(file, i) && token_is(&file->tokens[i + 1], name);
}

int include_name(const source *file, size_t i, char name[LONGEST_PATH]) {
    const token *t;
    const char *end;
    size_t length;
    if (!directive_is(file, i, "include") || i + 2 >= directive_end(file, i))
        return 0;
    t = &file->tokens[i + 2];
    if (t->kind == TOKEN_STRING && t->length > 2 && t->length < LONGEST_PATH) {
        memcpy(name, t->start + 1, t->length - 2);
        name[t->length - 2] = 0;
        return 1;
    }
    end = t->start[0] == '<' ? strchr(t->start, '>') : NULL;
    length = end ? (size_t)(end - t->start) : 0;
    if (length < 2 || length >= LONGEST_PATH)
        return 0;
    memcpy(name, t->start + 1, length - 1);
    name[length - 1] = 0;
    return 2;
}

line_kind *kinds_of_lines(const source *file) {
    line_kind *kinds = (line_kind *)grow(NULL, (file->lines + 2) * sizeof *kinds);
    const char *p = file->content.data;
    size_t i, line;
    for (line = 0; line < file->lines + 2; line++)
        kinds[line] = LINE_BLANK;
    for (line = 1; *p; line++) {
        size_t length = strcspn(p, "\n");
        kinds[line] = !length ? LINE_BLANK : starts_with(p, "/* ---- ") ? LINE_TITLE : LINE_COMMENT;
        p += length + (p[length] == '\n');
    }
    for (i = 0; i < file->count; i++)
        kinds[file->tokens[i].line] = LINE_CODE;
    return kinds;
}
