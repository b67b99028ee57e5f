/* Rules for modules: layers, names, and restrictions beyond C. */
#include "amalgamate.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LONGEST_STRING 4095

/* Files in this folder are compiled with -Itools/command instead of -Isrc. */
#define COMMAND "tools/command/"

/* ---- layers ---- */

typedef struct layer {
    const char *folder;
    const char *sees[10]; /* folders or files in addition to the layer itself */
} layer;

static const layer layers[] = {
    {"src/base/", {NULL}},
    {"kernels/",
     {"src/base/platform.h", "src/base/base.h", "src/base/dtype.h", "src/base/random.h", "src/base/convert.h", NULL}},
    {"backends/", {"kernels/", "src/base/", NULL}},
    {"src/tensor/", {"src/base/", "backends/backend.h", "kernels/kernels.h", NULL}},
    {"src/gguf/", {"src/base/", NULL}},
    {"src/model/", {"src/gguf/", "src/tensor/", "src/base/", NULL}},
    {"src/optim/", {"src/tensor/", "src/base/", NULL}},
    {"src/template/", {"src/base/", NULL}},
    {"src/text/", {"src/template/", "src/gguf/", "src/tensor/", "src/base/", NULL}},
    {"src/data/", {"src/text/text.h", "src/text/chat.h", "src/tensor/", "src/base/", NULL}},
    {"src/io/", {"src/model/", "src/gguf/", "src/tensor/", "src/base/", NULL}},
    {"src/task/",
     {"src/model/", "src/optim/", "src/text/", "src/data/", "src/io/", "src/gguf/", "src/tensor/", "src/base/", NULL}},
    {"src/objective/",
     {"src/task/", "src/model/", "src/optim/", "src/io/", "src/data/", "src/tensor/", "src/base/", NULL}},
    {"src/train/",
     {"src/objective/", "src/base/", "src/tensor/", "src/model/", "src/optim/", "src/text/", "src/data/", "src/io/",
      "src/task/", NULL}},
    {"src/records/", {"src/task/task.h", "src/base/", NULL}},
    {"src/run/",
     {"src/records/", "src/base/", "src/gguf/", "src/tensor/", "src/model/", "src/optim/", "src/io/", "src/task/",
      "src/train/", NULL}},
    {"src/recipe/", {"src/", NULL}},
    {"tools/cuda_kernels/", {"tests/support/", NULL}},
    {"tools/", {"eitp.h", NULL}},
    {"examples/", {"eitp.h", NULL}},
};

static const layer *layer_of(const char *path) {
    size_t i;
    for (i = 0; i < COUNT(layers); i++)
        if (starts_with(path, layers[i].folder))
            return &layers[i];
    return NULL;
}

/*
 * A kernel set may include its own folder, the headers directly in kernels/, and every template, but no headers of
 * other sets.
 */
static int kernel_may_include(const char *from, const char *to) {
    const char *slash = strchr(from + strlen("kernels/"), '/');
    size_t folder = slash ? (size_t)(slash - from) + 1 : 0;
    if (!starts_with(to, "kernels/"))
        return 0;
    return strncmp(from, to, folder) == 0 || is_template(to) || !strchr(to + strlen("kernels/"), '/');
}

void check_layer(const source *from, size_t line, const char *to) {
    const layer *own = layer_of(from->path);
    char sees[LONGEST_PATH] = "";
    size_t i;
    if (!own) {
        finding(from->path, line,
                "the folder is not a layer: add it to the tables in CONTRIBUTING.md and tools/amalgamate/lint.c");
        return;
    }
    if (strcmp(own->folder, "kernels/") == 0 ? kernel_may_include(from->path, to) : starts_with(to, own->folder))
        return;
    for (i = 0; i < COUNT(own->sees) && own->sees[i]; i++) {
        if (starts_with(to, own->sees[i]))
            return;
        strcat(strcat(sees, sees[0] ? ", " : ""), own->sees[i]);
    }
    finding(from->path, line,
            "%s may not include %s: it may include itself%s%s; move the code or its dependency to the right layer",
            own->folder, to, sees[0] ? ", " : "", sees);
}

int resolve(const char *from, const char *name, char path[2 * LONGEST_PATH]) {
    struct stat info;
    const char *slash = strrchr(from, '/');
    if (strcmp(name, TEXTS) == 0) {
        strcpy(path, TEXTS);
        return 1;
    }
    if (strstr(name, "..") || name[0] == '/')
        return 0;
    snprintf(path, 2 * LONGEST_PATH, "%.*s%s", slash ? (int)(slash - from) + 1 : 0, from, name);
    if (stat(path, &info) == 0)
        return 1;
    snprintf(path, 2 * LONGEST_PATH, "%s%s", starts_with(from, COMMAND) ? COMMAND : "src/", name);
    if (stat(path, &info) == 0)
        return 1;
    snprintf(path, 2 * LONGEST_PATH, "%s", name);
    return stat(path, &info) == 0;
}

/* ---- lint: names ---- */

/* The only file that may define system names hidden by strict modes. */
#define SYSTEM_NAMES "src/base/posix.h"
#define FEATURE_MACRO "_DEFAULT_SOURCE"

static void check_macro(const source *file, size_t i) {
    const token *name;
    if (i + 2 >= directive_end(file, i))
        return;
    name = &file->tokens[i + 2];
    if (token_is(name, FEATURE_MACRO) && strcmp(file->path, "src/base/base.h") == 0)
        return;
    if (token_starts(name, "EITP__") || token_starts(name, "eitp__") || token_starts(name, "EITP_WITH_") ||
        token_starts(name, "EITP_WITHOUT_"))
        return;
    if (token_starts(name, "EITP_") || token_starts(name, "eitp_")) {
        if (!is_public(file))
            finding(file->path, name->line, "macro %.*s is private: rename it EITP__%.*s", (int)name->length,
                    name->start, (int)name->length - 5, name->start + 5);
        return;
    }
    finding(file->path, name->line,
            "macro %.*s would be defined in every program that includes eitp.h: rename it EITP__%.*s",
            (int)name->length, name->start, (int)name->length, name->start);
}

static int is_all_capitals(const token *t) {
    size_t i;
    for (i = 0; i < t->length; i++)
        if (islower((unsigned char)t->start[i]))
            return 0;
    return 1;
}

static int is_reserved(const token *t) {
    static const char *const words[] = {"static", "extern", "inline", "const",  "volatile", "void",   "char",
                                        "short",  "int",    "long",   "float",  "double",   "signed", "unsigned",
                                        "struct", "union",  "enum",   "return", "sizeof",   "size_t", "typedef"};
    size_t i;
    for (i = 0; i < COUNT(words); i++)
        if (token_is(t, words[i]))
            return 1;
    return t->length > 2 && t->start[0] == '_' && (t->start[1] == '_' || isupper((unsigned char)t->start[1]));
}

/* State of a declaration at file scope while it is read. */
typedef struct declaration {
    int is_static, is_private, is_api, is_typedef, is_extern, is_constant, has_body;
    size_t first, end; /* tokens, without directives */
    size_t name_end;   /* start of the initialiser or the body */
    const token *tag;  /* of a struct, union or enum */
} declaration;

/* Returns the index after the bracket that closes the one at `i`. */
static size_t skip_brackets(const token *tokens, size_t count, size_t i) {
    int depth = 0;
    for (; i < count; i++) {
        char c = tokens[i].kind == TOKEN_PUNCTUATION ? tokens[i].start[0] : 0;
        depth += (c == '(' || c == '{' || c == '[') - (c == ')' || c == '}' || c == ']');
        if (depth == 0)
            return i + 1;
    }
    return count;
}

static void check_name(const source *file, const token *name, const char *what, int is_private_name) {
    const char *prefix = is_all_capitals(name) ? "EITP_" : "eitp_";
    if (!token_starts(name, prefix) || (is_private_name && name->length > 5 && name->start[5] != '_'))
        finding(file->path, name->line, "%s %.*s: everything is in one file, so its name must start with %s%s", what,
                (int)name->length, name->start, prefix, is_private_name ? "_" : "");
}

static void check_enumerators(const source *file, const token *tokens, size_t begin, size_t end) {
    size_t i;
    int expected = 1;
    for (i = begin; i < end; i++) {
        if (tokens[i].kind == TOKEN_NAME && expected)
            check_name(file, &tokens[i], "enumerator", !is_public(file));
        expected = tokens[i].start[0] == ',';
        if (tokens[i].start[0] == '(')
            i = skip_brackets(tokens, end, i) - 1;
    }
}

static void check_function(const source *file, const declaration *d, const token *name) {
    int is_private_name = token_starts(name, "eitp__");
    if (d->has_body && !d->is_static)
        note_definition(file, name);
    if (d->is_static || d->is_private) {
        check_name(file, name, "function", 1);
    } else if (!token_starts(name, "eitp_")) {
        check_name(file, name, "function", 0);
    } else if (is_private_name) {
        finding(file->path, name->line,
                "function %.*s is private but visible: make it static, or EITP__PRIVATE where it is "
                "declared and defined",
                (int)name->length, name->start);
    } else if (!d->has_body && !d->is_api) {
        finding(file->path, name->line, "function %.*s is public: declare it with EITP_API", (int)name->length,
                name->start);
    }
}

static void check_object(const source *file, const declaration *d, const token *name) {
    if (d->is_typedef) {
        check_name(file, name, "type", !is_public(file));
        return;
    }
    /* EITP__PRIVATE without parentheses declares a function with a named type. */
    if (d->is_extern || (!d->is_static && !d->is_private))
        finding(file->path, name->line,
                "variable %.*s is visible to other files: make it static const and return it from a function",
                (int)name->length, name->start);
    else if (!d->is_private && !d->is_constant)
        finding(file->path, name->line, "variable %.*s is a global: make it const, or part of an object",
                (int)name->length, name->start);
    check_name(file, name, "variable", 1);
}

/* Checks the names in a declaration. Does not check names made by a macro, such as EITP__NAME(add). */
static void check_declaration(const source *file, const token *tokens, const declaration *d) {
    size_t i = d->first;
    const token *last = NULL, *function = NULL;
    int from_macro = 0;
    for (; i <= d->name_end; i++) {
        const token *t = &tokens[i];
        char c = i == d->name_end ? ';' : t->start[0];
        if (i < d->name_end && t->kind == TOKEN_NAME) {
            last = t;
            from_macro = 0;
        } else if (c == '{' || c == '[') {
            i = skip_brackets(tokens, d->name_end, i) - 1;
            if (c == '{')
                last = NULL;
        } else if (c == '(') {
            size_t end = skip_brackets(tokens, d->name_end, i), k = i + 1;
            while (k < end && (tokens[k].start[0] == '*' || token_is(&tokens[k], "const")))
                k++;
            if (tokens[i + 1].start[0] == '*' && k < end && tokens[k].kind == TOKEN_NAME) {
                last = &tokens[k];
                function = k + 1 < end && tokens[k + 1].start[0] == '(' ? last : NULL;
                while (end < d->name_end && tokens[end].start[0] == '(')
                    end = skip_brackets(tokens, d->name_end, end);
            } else if (last && is_all_capitals(last)) {
                from_macro = 1;
            } else if (last && !is_reserved(last)) {
                function = last;
            }
            i = end - 1;
        } else if (c == ',' || c == ';') {
            if (function && !d->is_typedef)
                check_function(file, d, function);
            else if (last && last != d->tag && !from_macro && !is_reserved(last) && !d->has_body &&
                     (last - tokens > (long)d->first))
                check_object(file, d, function ? function : last);
            last = function = NULL;
        }
    }
}

/* Reads one declaration at file scope, starting at token `i`. Returns the index after it. */
static size_t read_declaration(const source *file, const token *tokens, size_t count, size_t i) {
    declaration d;
    int before_name_end = 1;
    memset(&d, 0, sizeof d);
    d.first = i;
    for (; i < count; i++) {
        const token *t = &tokens[i], *previous = i > d.first ? t - 1 : NULL;
        char c = t->kind == TOKEN_PUNCTUATION ? t->start[0] : 0;
        if (t->kind == TOKEN_NAME && before_name_end) {
            d.is_static |= token_is(t, "static");
            d.is_private |= token_is(t, "EITP__PRIVATE");
            /* A leading private macro counts as `static`; the test of symbols finds macros that are not. */
            d.is_static |= i == d.first && token_starts(t, "EITP__") && is_all_capitals(t) && !d.is_private;
            d.is_api |= token_is(t, "EITP_API");
            d.is_typedef |= token_is(t, "typedef");
            d.is_extern |= token_is(t, "extern");
            d.is_constant |= token_is(t, "const");
            if (token_is(t, "_Static_assert") || token_is(t, "static_assert"))
                before_name_end = 0;
            if (previous &&
                (token_is(previous, "struct") || token_is(previous, "union") || token_is(previous, "enum"))) {
                d.tag = t;
                check_name(file, t, "tag", 0);
            }
        } else if (c == ';') {
            if (before_name_end)
                d.name_end = i;
            break;
        } else if (c == '=' && before_name_end) {
            d.name_end = i;
            before_name_end = 0;
        } else if (c == '(' || c == '[') {
            i = skip_brackets(tokens, count, i) - 1;
        } else if (c == '{') {
            int is_enum =
                previous && (token_is(previous, "enum") || (d.tag == previous && token_is(previous - 1, "enum")));
            size_t end = skip_brackets(tokens, count, i);
            if (previous && previous->kind == TOKEN_STRING) /* extern "C" { */
                return i + 1;
            if (is_enum)
                check_enumerators(file, tokens, i + 1, end - 1);
            else if (before_name_end && previous && !token_is(previous, "struct") && !token_is(previous, "union") &&
                     previous != d.tag) {
                d.has_body = 1;
                d.name_end = i;
                i = end - 1;
                break;
            }
            i = end - 1;
        } else if (c == '}') {
            return i + 1;
        }
    }
    if (d.name_end > d.first)
        check_declaration(file, tokens, &d);
    return i + 1;
}

static void check_declarations(const source *file) {
    token *tokens = (token *)grow(NULL, file->count * sizeof(token));
    size_t count = 0, i;
    for (i = 0; i < file->count; i++)
        if (!file->tokens[i].directive)
            tokens[count++] = file->tokens[i];
    for (i = 0; i < count;)
        i = read_declaration(file, tokens, count, i);
    free(tokens);
}

/* ---- lint: everything else ---- */

void check_bytes(const source *file) {
    size_t i, line = 1;
    for (i = 0; i < file->content.size; i++) {
        unsigned char c = (unsigned char)file->content.data[i];
        line += c == '\n';
        if (c == '\r') {
            finding(file->path, line, "a carriage return: end lines with a line feed only");
            return;
        }
        if (c > 126 || (c < 32 && c != '\n' && c != '\t')) {
            finding(file->path, line, "byte 0x%02x is not printable ASCII: use words or an escape", c);
            return;
        }
    }
    if (file->content.size && file->content.data[file->content.size - 1] != '\n')
        finding(file->path, line, "the last line has no line feed: add one");
}

/* Returns the length of a literal. Each escape counts as one character. */
static size_t string_length(const token *t) {
    size_t i, length = 0;
    for (i = 1; i + 1 < t->length; i++, length++)
        if (t->start[i] == '\\')
            i++;
    return length;
}

/* Adjacent literals count as one. A name in capitals between them, such as PRId64, counts as a literal. */
static void check_strings(const source *file) {
    size_t i, length = 0;
    const token *first = NULL;
    for (i = 0; i < file->count; i++) {
        const token *t = &file->tokens[i];
        if (t->kind == TOKEN_STRING) {
            first = first ? first : t;
            length += string_length(t);
            if (length > LONGEST_STRING) {
                finding(file->path, first->line,
                        "the string literal has more than %d characters, the maximum that ISO C "
                        "guarantees: make it an array of lines",
                        LONGEST_STRING);
                while (i + 1 < file->count && file->tokens[i + 1].kind == TOKEN_STRING)
                    i++;
                first = NULL;
                length = 0;
            }
        } else if (!first || t->kind != TOKEN_NAME || !is_all_capitals(t)) {
            first = NULL;
            length = 0;
        }
    }
}

/* Options of the command, as in "use --device cpu", have no meaning for other callers of the library. */
static void check_options(const source *file) {
    size_t i, k;
    for (i = 0; i < file->count; i++) {
        const token *t = &file->tokens[i];
        for (k = 1; t->kind == TOKEN_STRING && k + 2 < t->length; k++) {
            if (t->start[k] != '-' || t->start[k + 1] != '-' || !islower((unsigned char)t->start[k + 2]) ||
                isalnum((unsigned char)t->start[k - 1]) || t->start[k - 1] == '-')
                continue;
            finding(file->path, t->line,
                    "the string names an option of the command: name the function or field instead; the command "
                    "translates it to the option");
            break;
        }
    }
}

static int is_one_of(const token *t, const char *const *names, size_t count) {
    size_t i;
    for (i = 0; i < count; i++)
        if (token_is(t, names[i]))
            return 1;
    return 0;
}

/* Functions that must not be called, and memory functions, which only one file in src/base/ may call. */
static void check_calls(source *file) {
    static const char *const never[] = {"abort",   "exit",     "_Exit", "_exit",   "quick_exit", "assert", "printf",
                                        "fprintf", "vfprintf", "puts",  "putchar", "perror",     "system"};
    static const char *const memory[] = {"malloc", "calloc",         "realloc", "free",
                                         "strdup", "posix_memalign", "strndup", "aligned_alloc"};
    size_t i, k;
    if (strcmp(file->path, SYSTEM_NAMES) == 0)
        return;
    for (i = 0; i + 1 < file->count; i++) {
        const token *t = &file->tokens[i];
        const char *home = NULL;
        if (t->kind != TOKEN_NAME || !token_is(t + 1, "(") || (i > 0 && token_is(t - 1, ".")) ||
            (i > 1 && token_is(t - 1, ">") && token_is(t - 2, "-")))
            continue;
        if (is_one_of(t, never, COUNT(never)))
            finding(file->path, t->line,
                    "%.*s(): the library never exits, aborts or prints; return eitp__fail(...), or "
                    "use eitp__log_line()",
                    (int)t->length, t->start);
        if (!is_one_of(t, memory, COUNT(memory)))
            continue;
        for (k = 0; k < source_count && !home; k++)
            home = sources[k]->allocates && sources[k] != file ? sources[k]->path : NULL;
        if (!starts_with(file->path, "src/base/") || home)
            finding(file->path, t->line,
                    "%.*s(): all memory comes from the host; use eitp__allocate() and eitp__release()%s%s",
                    (int)t->length, t->start, home ? "; only one file may call the C library, " : "", home ? home : "");
        else
            file->allocates = 1;
    }
}

static void check_pragmas(const source *file) {
    size_t i;
    if (!starts_with(file->path, "kernels/"))
        return;
    for (i = 0; i + 2 < file->count; i++)
        if ((directive_is(file, i, "pragma") && token_is(&file->tokens[i + 2], "omp")) ||
            (token_is(&file->tokens[i], "_Pragma") && token_starts(&file->tokens[i + 2], "\"omp")))
            finding(file->path, file->tokens[i].line, "OpenMP in a kernel: threads belong to the backend");
}

void check_foreign_includes(const source *file) {
    char name[LONGEST_PATH], path[2 * LONGEST_PATH];
    size_t i;
    int kind, is_cuda = starts_with(file->path, "kernels/cuda/");
    for (i = 0; i < file->count; i++) {
        kind = include_name(file, i, name);
        if (is_cuda && kind && (ends_with(name, "eitp.h") || ends_with(name, "immintrin.h")))
            finding(file->path, file->tokens[i].line,
                    "kernels/cuda/ must not include %s: GPU compilers cannot compile it", name);
        else if (kind != 1)
            continue;
        else if (!resolve(file->path, name, path) && strcmp(name, OUTPUT) != 0)
            finding(file->path, file->tokens[i].line, "\"%s\" is not found next to the file, in %s or in the root",
                    name, starts_with(file->path, COMMAND) ? COMMAND : "src/");
        else
            check_layer(file, file->tokens[i].line, path);
    }
}

void lint(source *file) {
    size_t i;
    check_bytes(file);
    if (!is_code(file))
        return;
    for (i = 0; strcmp(file->path, SYSTEM_NAMES) != 0 && i < file->count; i++)
        if (directive_is(file, i, "define"))
            check_macro(file, i);
    if (strcmp(file->path, SYSTEM_NAMES) != 0)
        check_declarations(file);
    check_strings(file);
    if (strcmp(file->path, TEXTS) != 0) /* in code, --i is not an option */
        check_options(file);
    check_calls(file);
    check_pragmas(file);
}
