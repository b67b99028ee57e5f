/*
 * Makes eitp.h from the modules that src/manifest lists, and checks their rules on the way.
 *
 *     amalgamate [--root DIRECTORY] [--check | --list SECTION]
 *
 * Without an option it writes eitp.h, beside it first, so that a failure leaves the old one as it was. --check compares
 * it byte for byte instead. --list prints the paths of one section of the manifest. The rules are checked every time;
 * each breach is one line, "file:line: what is wrong and what to do". Exit status: 0, or 1 after a breach or a failure,
 * or 2 for a wrong command line.
 */
#define _DEFAULT_SOURCE 1

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MANIFEST "src/manifest"
#define OUTPUT "eitp.h"
#define OUTPUT_NEW "eitp.h.new"
#define MEND "run `make eitp.h`"
#define LONGEST_STRING 4095
#define DEEPEST_TEMPLATE 8
#define LONGEST_PATH 512
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- memory, text and findings ---- */

static int findings;

static void finding(const char *path, size_t line, const char *format, ...) {
    va_list arguments;
    fprintf(stderr, "%s:%lu: ", path, (unsigned long)line);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    findings++;
}

static void *grow(void *memory, size_t size) {
    void *grown = realloc(memory, size ? size : 1);
    if (!grown) {
        fprintf(stderr, "amalgamate: out of memory\n");
        exit(1);
    }
    return grown;
}

typedef struct text {
    char *data;
    size_t size;
    size_t capacity;
} text;

static void text_add(text *to, const char *data, size_t size) {
    if (to->size + size + 1 > to->capacity) {
        to->capacity = 2 * (to->size + size) + 4096;
        to->data = (char *)grow(to->data, to->capacity);
    }
    memcpy(to->data + to->size, data, size);
    to->size += size;
    to->data[to->size] = 0;
}

static void text_format(text *to, const char *format, ...) {
    char line[2 * LONGEST_PATH];
    va_list arguments;
    int length;
    va_start(arguments, format);
    length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    text_add(to, line, length < (int)sizeof line ? (size_t)length : sizeof line - 1);
}

static char *copy_text(const char *start, size_t size) {
    char *copy = (char *)grow(NULL, size + 1);
    memcpy(copy, start, size);
    copy[size] = 0;
    return copy;
}

static int starts_with(const char *string, const char *prefix) {
    return strncmp(string, prefix, strlen(prefix)) == 0;
}

static int ends_with(const char *string, const char *suffix) {
    size_t length = strlen(string), tail = strlen(suffix);
    return length >= tail && strcmp(string + length - tail, suffix) == 0;
}

/* 0 and the content of a regular file, or -1 with errno. */
static int read_file(const char *path, text *content) {
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

/* ---- tokens ---- */

typedef enum token_kind { TOKEN_NAME, TOKEN_NUMBER, TOKEN_STRING, TOKEN_CHARACTER, TOKEN_PUNCTUATION } token_kind;

typedef struct token {
    token_kind kind;
    const char *start;
    size_t length;
    size_t line;
    int directive; /* the number of the directive it is part of, from 1; 0 outside */
} token;

typedef struct source {
    char *path;
    int section;          /* of the manifest; -1 for a template */
    size_t manifest_line; /* or the line of its first inclusion */
    text content;
    token *tokens;
    size_t count;
    size_t lines;
    int pasted;
    int allocates;
} source;

static int is_name_start(char c) {
    return isalpha((unsigned char)c) || c == '_';
}

static int is_name_part(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static int token_is(const token *t, const char *string) {
    return t->length == strlen(string) && memcmp(t->start, string, t->length) == 0;
}

static int token_starts(const token *t, const char *prefix) {
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

/* Comments vanish, directives are marked; a text that ends inside a comment or a string just ends. */
static void tokenize(source *file) {
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

/* The index after the directive that token `i`, its '#', begins. */
static size_t directive_end(const source *file, size_t i) {
    size_t end = i;
    while (end < file->count && file->tokens[end].directive == file->tokens[i].directive)
        end++;
    return end;
}

static int is_directive_start(const source *file, size_t i) {
    return file->tokens[i].directive && (i == 0 || file->tokens[i - 1].directive != file->tokens[i].directive);
}

static int directive_is(const source *file, size_t i, const char *name) {
    return is_directive_start(file, i) && i + 1 < directive_end(file, i) && token_is(&file->tokens[i + 1], name);
}

/* Of the directive that token `i` begins: 1 and the name in a quoted #include, 2 and the name of a system header, or 0.
 */
static int include_name(const source *file, size_t i, char name[LONGEST_PATH]) {
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

/* ---- the manifest ---- */

enum { SECTION_DOCUMENTATION, SECTION_PUBLIC, SECTION_PRIVATE, SECTION_IMPLEMENTATION, SECTION_LICENSE, SECTION_COUNT };

static const char *const section_names[SECTION_COUNT] = {"documentation", "public", "private", "implementation",
                                                         "license"};

static source **sources;
static size_t source_count;

static source *find_source(const char *path) {
    size_t i;
    for (i = 0; i < source_count; i++)
        if (strcmp(sources[i]->path, path) == 0)
            return sources[i];
    return NULL;
}

static source *add_source(const char *path, int section, size_t line) {
    source *file = (source *)grow(NULL, sizeof(source));
    memset(file, 0, sizeof *file);
    file->path = copy_text(path, strlen(path));
    file->section = section;
    file->manifest_line = line;
    sources = (source **)grow(sources, (source_count + 1) * sizeof *sources);
    sources[source_count++] = file;
    return file;
}

static void check_manifest_line(const char *path, int section, size_t line) {
    const char *wanted = section == SECTION_IMPLEMENTATION ? ".c" : ".h";
    if (section < 0)
        finding(MANIFEST, line,
                "%s stands before the first section: put it under `public:`, `private:` or "
                "`implementation:`",
                path);
    else if (find_source(path))
        finding(MANIFEST, line, "%s is listed twice: remove one line", path);
    else if (section != SECTION_LICENSE && !ends_with(path, wanted))
        finding(MANIFEST, line, "%s is no %s file, and only those stand under `%s:`: move the line", path, wanted,
                section_names[section]);
    else if (strlen(path) > LONGEST_PATH / 2 || strstr(path, "..") || path[0] == '/')
        finding(MANIFEST, line, "%s: write the path from the root of the repository", path);
}

static void read_manifest(void) {
    text content = {NULL, 0, 0};
    int section = -1, i;
    size_t line = 0;
    char *p;
    if (read_file(MANIFEST, &content) != 0) {
        finding(MANIFEST, 1, "cannot read it: %s; run this in the root of the repository, or give --root",
                strerror(errno));
        return;
    }
    for (p = content.data; *p;) {
        char *end = p + strcspn(p, "\n"), *next = *end ? end + 1 : end;
        char *comment = (char *)memchr(p, '#', (size_t)(end - p));
        end = comment ? comment : end;
        while (p < end && isspace((unsigned char)*p))
            p++;
        while (end > p && isspace((unsigned char)end[-1]))
            end--;
        *end = 0;
        line++;
        if (end > p && end[-1] == ':') {
            end[-1] = 0;
            for (i = 0; i < SECTION_COUNT && strcmp(section_names[i], p) != 0; i++)
                continue;
            section = i;
            if (section == SECTION_COUNT) {
                finding(MANIFEST, line,
                        "unknown section `%s:`: there are documentation, public, private, implementation "
                        "and license",
                        p);
                break;
            }
        } else if (end > p) {
            int before = findings;
            check_manifest_line(p, section, line);
            if (findings == before)
                add_source(p, section, line);
        }
        p = next;
    }
    free(content.data);
}

static void load(source *file, const char *from) {
    if (read_file(file->path, &file->content) != 0)
        finding(from, file->manifest_line, "%s: cannot read it: %s; correct the line or add the file", file->path,
                strerror(errno));
    text_add(&file->content, "", 0);
    tokenize(file);
}

static int is_template(const char *path) {
    return ends_with(path, ".inc");
}

static int is_public(const source *file) {
    return file->section == SECTION_PUBLIC;
}

static int is_code(const source *file) {
    return file->section != SECTION_DOCUMENTATION && file->section != SECTION_LICENSE;
}

/* ---- layers ---- */

typedef struct layer {
    const char *folder;
    const char *sees[6]; /* folders or files, apart from the layer itself */
} layer;

static const layer layers[] = {
    {"src/base/", {NULL}},
    {"kernels/",
     {"src/base/platform.h", "src/base/base.h", "src/base/dtype.h", "src/base/random.h", "src/base/convert.h", NULL}},
    {"backends/", {"kernels/", "src/base/", NULL}},
    {"src/tensor/", {"src/base/", "backends/backend.h", "kernels/kernels.h", NULL}},
    {"src/model/", {"src/tensor/", "src/base/", NULL}},
    {"src/optim/", {"src/tensor/", "src/base/", NULL}},
    {"src/text/", {"src/tensor/", "src/base/", NULL}},
    {"src/data/", {"src/text/text.h", "src/tensor/", "src/base/", NULL}},
    {"src/io/", {"src/model/", "src/tensor/", "src/base/", NULL}},
    {"src/train/", {"src/", NULL}},
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

/* A kernel set sees its own folder, what lies directly in kernels/, and every template; not what another set declares.
 */
static int kernel_may_include(const char *from, const char *to) {
    const char *slash = strrchr(from, '/');
    size_t folder = slash ? (size_t)(slash - from) + 1 : 0;
    if (!starts_with(to, "kernels/"))
        return 0;
    return strncmp(from, to, folder) == 0 || is_template(to) || !strchr(to + strlen("kernels/"), '/');
}

static void check_layer(const source *from, size_t line, const char *to) {
    const layer *own = layer_of(from->path);
    char sees[LONGEST_PATH] = "";
    size_t i;
    if (!own) {
        finding(from->path, line,
                "the folder is no layer: CONTRIBUTING.md has the table, tools/amalgamate.c enforces it");
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
            "%s may not include %s: it sees itself%s%s; move the code, or what it needs, to the right layer",
            own->folder, to, sees[0] ? ", " : "", sees);
}

/* The path of a quoted include: beside the file, in src/, or from the root, as a compiler with -Isrc -I. finds it. */
static int resolve(const char *from, const char *name, char path[2 * LONGEST_PATH]) {
    struct stat info;
    const char *slash = strrchr(from, '/');
    if (strstr(name, "..") || name[0] == '/')
        return 0;
    snprintf(path, 2 * LONGEST_PATH, "%.*s%s", slash ? (int)(slash - from) + 1 : 0, from, name);
    if (stat(path, &info) == 0)
        return 1;
    snprintf(path, 2 * LONGEST_PATH, "src/%s", name);
    if (stat(path, &info) == 0)
        return 1;
    snprintf(path, 2 * LONGEST_PATH, "%s", name);
    return stat(path, &info) == 0;
}

/* ---- lint: names ---- */

/* The one file that gives names of the system back where a strict mode has hidden them. */
#define SYSTEM_NAMES "src/base/posix.h"
#define FEATURE_MACRO "_DEFAULT_SOURCE"

static void check_macro(const source *file, size_t i) {
    const token *name;
    if (i + 2 >= directive_end(file, i))
        return;
    name = &file->tokens[i + 2];
    if (token_is(name, FEATURE_MACRO) && strcmp(file->path, "src/base/base.h") == 0)
        return;
    if (token_starts(name, "EITP__") || token_starts(name, "eitp__") || token_starts(name, "EITP_WITH_"))
        return;
    if (token_starts(name, "EITP_") || token_starts(name, "eitp_")) {
        if (!is_public(file))
            finding(file->path, name->line, "macro %.*s is private: call it EITP__%.*s", (int)name->length, name->start,
                    (int)name->length - 5, name->start + 5);
        return;
    }
    finding(file->path, name->line, "macro %.*s would land in every program that includes eitp.h: call it EITP__%.*s",
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

/* What is known of a declaration at file scope while it is read. */
typedef struct declaration {
    int is_static, is_private, is_api, is_typedef, is_extern, is_constant, has_body;
    size_t first, end; /* tokens, without the directives' */
    size_t name_end;   /* where the initialiser or the body begins */
    const token *tag;  /* of the struct, union or enum it names */
} declaration;

/* The index after the bracket that matches the one at `i`. */
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
        finding(file->path, name->line, "%s %.*s: everything lands in one file, so its name must start with %s%s", what,
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
    /* What EITP__PRIVATE declares without parentheses is a function whose type has a name. */
    if (d->is_extern || (!d->is_static && !d->is_private))
        finding(file->path, name->line,
                "variable %.*s is visible to other files: make it static const and hand it out by a function",
                (int)name->length, name->start);
    else if (!d->is_private && !d->is_constant)
        finding(file->path, name->line, "variable %.*s is a global: make it const, or part of an object",
                (int)name->length, name->start);
    check_name(file, name, "variable", 1);
}

/* Names what a declaration declares. A name made by a macro, EITP__NAME(add), is the macro's business. */
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

/* One declaration at file scope, from token `i`; the index after it. */
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
            /* A private macro in front stands for `static`; where it does not, the test of symbols tells. */
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

static void check_bytes(const source *file) {
    size_t i, line = 1;
    for (i = 0; i < file->content.size; i++) {
        unsigned char c = (unsigned char)file->content.data[i];
        line += c == '\n';
        if (c == '\r') {
            finding(file->path, line, "a carriage return: lines end with a line feed alone");
            return;
        }
        if (c > 126 || (c < 32 && c != '\n' && c != '\t')) {
            finding(file->path, line, "byte 0x%02x is not printable ASCII: write it in words, or as an escape", c);
            return;
        }
    }
    if (file->content.size && file->content.data[file->content.size - 1] != '\n')
        finding(file->path, line, "the last line has no line feed: add one");
}

/* Characters of a literal with every escape counted once. */
static size_t string_length(const token *t) {
    size_t i, length = 0;
    for (i = 1; i + 1 < t->length; i++, length++)
        if (t->start[i] == '\\')
            i++;
    return length;
}

/* Literals beside each other are one; a name in capitals between them (PRId64) is taken for another literal. */
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
                        "the string literal has more than %d characters, the most that ISO C "
                        "promises: make it an array of lines",
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

static int is_one_of(const token *t, const char *const *names, size_t count) {
    size_t i;
    for (i = 0; i < count; i++)
        if (token_is(t, names[i]))
            return 1;
    return 0;
}

/* What may not be called at all, and memory, which one file of src/base/ takes from the C library for everyone. */
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
                    "use eitp__log()",
                    (int)t->length, t->start);
        if (!is_one_of(t, memory, COUNT(memory)))
            continue;
        for (k = 0; k < source_count && !home; k++)
            home = sources[k]->allocates && sources[k] != file ? sources[k]->path : NULL;
        if (!starts_with(file->path, "src/base/") || home)
            finding(file->path, t->line,
                    "%.*s(): all memory comes from the host; use eitp__allocate() and eitp__release()%s%s",
                    (int)t->length, t->start, home ? "; the C library is called by one file alone, " : "",
                    home ? home : "");
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

/* For files that eitp.h is not made from: tools, examples, kernels for other compilers. */
static void check_foreign_includes(const source *file) {
    char name[LONGEST_PATH], path[2 * LONGEST_PATH];
    size_t i;
    int kind, is_cuda = starts_with(file->path, "kernels/cuda/");
    for (i = 0; i < file->count; i++) {
        kind = include_name(file, i, name);
        if (is_cuda && kind && (ends_with(name, "eitp.h") || ends_with(name, "immintrin.h")))
            finding(file->path, file->tokens[i].line, "kernels/cuda/ never includes %s: GPU compilers do not take it",
                    name);
        else if (kind != 1)
            continue;
        else if (!resolve(file->path, name, path) && strcmp(name, OUTPUT) != 0)
            finding(file->path, file->tokens[i].line, "\"%s\" is not found beside the file, in src/ or in the root",
                    name);
        else
            check_layer(file, file->tokens[i].line, path);
    }
}

static void lint(source *file) {
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
    check_calls(file);
    check_pragmas(file);
}

/* ---- packing ---- */

/* What becomes of the lines of a file: 0 copied, -1 dropped, n > 0 replaced by templates[n - 1]. */
typedef struct lines {
    int *fate;
    source **templates;
    int template_count;
} lines;

static void drop_directive(const source *file, size_t i, lines *to) {
    size_t line, end = directive_end(file, i);
    for (line = file->tokens[i].line; line <= file->tokens[end - 1].line; line++)
        to->fate[line] = -1;
}

static int is_guard_name(const token *t) {
    return token_starts(t, "EITP_") && t->length > 7 && memcmp(t->start + t->length - 2, "_H", 2) == 0;
}

/* Drops the include guard: the #ifndef and #define that a header begins with, and the #endif that it ends with. */
static int drop_guard(const source *file, lines *to) {
    size_t i, last = 0, second;
    if (file->count < 6 || !directive_is(file, 0, "ifndef") || !is_guard_name(&file->tokens[2]))
        return 0;
    second = directive_end(file, 0);
    if (second + 2 >= file->count || !directive_is(file, second, "define") ||
        file->tokens[second + 2].length != file->tokens[2].length ||
        memcmp(file->tokens[second + 2].start, file->tokens[2].start, file->tokens[2].length) != 0)
        return 0;
    for (i = 0; i < file->count; i++)
        if (is_directive_start(file, i))
            last = i;
    if (!directive_is(file, last, "endif") || directive_end(file, last) != file->count)
        return 0;
    drop_directive(file, 0, to);
    drop_directive(file, second, to);
    drop_directive(file, last, to);
    return 1;
}

/* Takes the name of the guard out of the macros that are linted. */
static void forget_guard(source *file) {
    size_t second = directive_end(file, 0);
    memmove(file->tokens + second, file->tokens + second + 3, (file->count - second - 3) * sizeof(token));
    file->count -= 3;
}

static source *template_at(const source *from, size_t line, const char *path) {
    source *file = find_source(path);
    if (file)
        return file;
    file = add_source(path, -1, line);
    load(file, from->path);
    lint(file);
    return file;
}

static void plan_include(source *file, size_t i, lines *to) {
    char name[LONGEST_PATH], path[2 * LONGEST_PATH];
    size_t line = file->tokens[i].line;
    int kind = include_name(file, i, name);
    source *target;
    if (kind == 2)
        return;
    drop_directive(file, i, to);
    if (kind == 0) {
        finding(file->path, line, "cannot read this #include: give the name itself, in quotes or angle brackets");
        return;
    }
    if (!resolve(file->path, name, path)) {
        finding(file->path, line,
                "\"%s\" is not found beside the file, in src/ or in the root; foreign headers go in angle "
                "brackets",
                name);
        return;
    }
    check_layer(file, line, path);
    if (is_template(path)) {
        target = template_at(file, line, path);
        to->templates = (source **)grow(to->templates, (size_t)(to->template_count + 1) * sizeof(source *));
        to->templates[to->template_count++] = target;
        to->fate[line] = to->template_count;
        return;
    }
    target = find_source(path);
    if (!ends_with(path, ".h"))
        finding(file->path, line, "%s is no header and no template (.inc): it cannot be included", path);
    else if (!target)
        finding(file->path, line, "%s is not in " MANIFEST ": add it there", path);
    else if (!target->pasted)
        finding(file->path, line, "%s comes later than %s in " MANIFEST ": change the order, or do without it", path,
                file->path);
}

static void paste(source *file, text *output, int depth) {
    lines to = {NULL, NULL, 0};
    const char *p = file->content.data, *end = p + file->content.size;
    size_t line, i, first_line = 1;
    int blank = 1;
    if (depth > DEEPEST_TEMPLATE) {
        finding(file->path, 1, "templates include each other more than %d deep: is there a circle?", DEEPEST_TEMPLATE);
        return;
    }
    to.fate = (int *)grow(NULL, (file->lines + 2) * sizeof(int));
    memset(to.fate, 0, (file->lines + 2) * sizeof(int));
    if (ends_with(file->path, ".h") && !drop_guard(file, &to))
        finding(file->path, 1, "no include guard: begin with #ifndef EITP_..._H and #define, end with #endif");
    for (i = 0; i < file->count; i++)
        if (directive_is(file, i, "include"))
            plan_include(file, i, &to);
    text_format(output, "\n/* >>%s */\n", file->path);
    for (line = first_line; p < end; line++) {
        const char *stop = (const char *)memchr(p, '\n', (size_t)(end - p));
        const char *next = stop ? stop + 1 : end;
        if (to.fate[line] > 0) {
            paste(to.templates[to.fate[line] - 1], output, depth + 1);
            blank = 0;
        } else if (to.fate[line] == 0 && !(blank && next - p == 1)) {
            text_add(output, p, (size_t)(next - p));
            blank = next - p == 1;
        }
        p = next;
    }
    while (output->size > 1 && output->data[output->size - 1] == '\n' && output->data[output->size - 2] == '\n')
        output->size--;
    text_format(output, "/* <<%s */\n", file->path);
    file->pasted = 1;
    free(to.fate);
    free(to.templates);
}

static void paste_section(int section, text *output) {
    size_t i;
    for (i = 0; i < source_count; i++)
        if (sources[i]->section == section)
            paste(sources[i], output, 0);
}

static void paste_plain(int section, text *output, const char *before, const char *after) {
    size_t i;
    for (i = 0; i < source_count; i++)
        if (sources[i]->section == section) {
            text_format(output, "%s", before);
            text_add(output, sources[i]->content.data, sources[i]->content.size);
            text_format(output, "%s", after);
        }
}

static void pack(text *output) {
    paste_plain(SECTION_DOCUMENTATION, output, "", "\n");
    text_format(output,
                "/* Generated by tools/amalgamate.c from the modules named below (look for \">>\"): change those, "
                "then `make eitp.h`. */\n\n"
                "#ifndef EITP_H\n#define EITP_H\n\n"
                "/* Strict C modes hide POSIX; this must precede the first system header. */\n"
                "#if defined(EITP_IMPLEMENTATION) && !defined(_DEFAULT_SOURCE)\n"
                "#define _DEFAULT_SOURCE 1\n#endif\n");
    paste_section(SECTION_PUBLIC, output);
    text_format(output, "\n#endif /* EITP_H */\n\n"
                        "#if defined(EITP_IMPLEMENTATION) && !defined(EITP_IMPLEMENTED)\n#define EITP_IMPLEMENTED\n");
    paste_section(SECTION_PRIVATE, output);
    paste_section(SECTION_IMPLEMENTATION, output);
    text_format(output, "\n#endif /* EITP_IMPLEMENTATION */\n");
    paste_plain(SECTION_LICENSE, output, "\n/*\n", "*/\n");
}

/* ---- files that no line names ---- */

typedef void (*file_visitor)(const char *path);

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Visits every C source below a folder in the order of its name, so that the findings have an order too. */
static void walk(const char *folder, file_visitor visit) {
    static const char *const suffixes[] = {".c", ".h", ".inc", ".cu", ".cuh"};
    char path[2 * LONGEST_PATH];
    char **names = NULL;
    size_t count = 0, i, k;
    struct dirent *entry;
    struct stat info;
    DIR *directory = opendir(folder);
    if (!directory)
        return;
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.' || strlen(entry->d_name) > LONGEST_PATH)
            continue;
        names = (char **)grow(names, (count + 1) * sizeof *names);
        names[count++] = copy_text(entry->d_name, strlen(entry->d_name));
    }
    closedir(directory);
    if (count)
        qsort(names, count, sizeof *names, compare_names);
    for (i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        free(names[i]);
        if (stat(path, &info) != 0)
            continue;
        if (S_ISDIR(info.st_mode) && strlen(path) < LONGEST_PATH)
            walk(path, visit);
        for (k = 0; S_ISREG(info.st_mode) && k < COUNT(suffixes); k++)
            if (ends_with(path, suffixes[k]))
                visit(path);
    }
    free(names);
}

static void visit_foreign(const char *path) {
    source file;
    memset(&file, 0, sizeof file);
    file.path = copy_text(path, strlen(path));
    file.manifest_line = 1;
    load(&file, path);
    check_bytes(&file);
    check_foreign_includes(&file);
    free(file.tokens);
    free(file.content.data);
    free(file.path);
}

static void visit_module(const char *path) {
    if (starts_with(path, "kernels/cuda/"))
        visit_foreign(path);
    if (!find_source(path))
        finding(path, 1, "nothing uses this file: list it in " MANIFEST ", include it (.inc), or remove it");
}

/* ---- the command ---- */

static int check(const text *output) {
    text old = {NULL, 0, 0};
    size_t i, line = 1;
    if (read_file(OUTPUT, &old) != 0) {
        finding(OUTPUT, 1, "cannot read it: %s; " MEND, strerror(errno));
        return 1;
    }
    for (i = 0; i < old.size && i < output->size && old.data[i] == output->data[i]; i++)
        line += old.data[i] == '\n';
    if (i < old.size || i < output->size)
        finding(OUTPUT, line,
                "differs here from what its modules make; change the modules, never this file, then " MEND);
    free(old.data);
    return findings != 0;
}

static int write_output(const text *output) {
    FILE *file = fopen(OUTPUT_NEW, "wb");
    int failed = !file || fwrite(output->data, 1, output->size, file) != output->size || fflush(file) != 0;
    int reason = errno;
    if (file && fclose(file) != 0 && !failed) {
        failed = 1;
        reason = errno;
    }
    if (!failed && rename(OUTPUT_NEW, OUTPUT) != 0) {
        failed = 1;
        reason = errno;
    }
    if (!failed)
        return 0;
    if (file)
        remove(OUTPUT_NEW);
    fprintf(stderr,
            "amalgamate: cannot write " OUTPUT_NEW " and rename it to " OUTPUT ": %s; " OUTPUT " is as it was\n",
            strerror(reason));
    return 1;
}

static int list(const char *name) {
    size_t i;
    int section = 0;
    while (section < SECTION_COUNT && strcmp(section_names[section], name) != 0)
        section++;
    if (section == SECTION_COUNT) {
        fprintf(stderr,
                "amalgamate: no section `%s`: there are documentation, public, private, implementation and license\n",
                name);
        return 2;
    }
    for (i = 0; i < source_count; i++)
        if (sources[i]->section == section)
            printf("%s\n", sources[i]->path);
    return findings != 0 || fflush(stdout) != 0;
}

static int make(int only_check) {
    text output = {NULL, 0, 0};
    size_t i, count = source_count;
    for (i = 0; i < count; i++)
        load(sources[i], MANIFEST);
    if (!findings)
        pack(&output);
    for (i = 0; i < count; i++) {
        lines ignored = {NULL, NULL, 0};
        ignored.fate = (int *)grow(NULL, (sources[i]->lines + 2) * sizeof(int));
        if (drop_guard(sources[i], &ignored))
            forget_guard(sources[i]);
        free(ignored.fate);
        lint(sources[i]);
    }
    if (!findings) {
        walk("src", visit_module);
        walk("kernels", visit_module);
        walk("backends", visit_module);
        walk("tools", visit_foreign);
        walk("examples", visit_foreign);
    }
    if (findings) {
        fprintf(stderr, "amalgamate: %d finding%s; " OUTPUT " is as it was\n", findings, findings == 1 ? "" : "s");
        return 1;
    }
    return only_check ? check(&output) : write_output(&output);
}

static int usage(void) {
    fprintf(stderr, "usage: amalgamate [--root DIRECTORY] [--check | --list SECTION]\n");
    return 2;
}

int main(int argc, char **argv) {
    const char *section = NULL;
    int only_check = 0, i;
    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--check") == 0) {
            only_check = 1;
        } else if (strcmp(argv[i], "--list") == 0 && i + 1 < argc) {
            section = argv[++i];
        } else if (strcmp(argv[i], "--root") == 0 && i + 1 < argc) {
            if (chdir(argv[++i]) != 0) {
                fprintf(stderr, "amalgamate: --root %s: %s\n", argv[i], strerror(errno));
                return 2;
            }
        } else {
            return usage();
        }
    }
    if (section && only_check)
        return usage();
    read_manifest();
    return section ? list(section) : make(only_check);
}
