/*
 * Prototypes of private functions in eitp.h. Modules are in the order of use, so most functions are defined before they
 * are called and need no prototype. Functions called from another part keep their prototype and are visible to the
 * linker. Functions called before their definition do too, because other parts also see the prototype.
 */
#include "amalgamate.h"

#include <stdlib.h>
#include <string.h>

/* A declaration that starts with EITP__PRIVATE: its tokens, and the functions that it declares or defines. */
typedef struct private_declaration {
    size_t first, last; /* `last` is the semicolon, or the brace that starts the body */
    const token *names[64];
    size_t count;
    int has_body;
    int has_attribute; /* an attribute that is not repeated in the definition */
} private_declaration;

typedef struct private_function {
    const token *name;
    const source *file; /* the file with the definition */
    const token *place; /* the last definition */
    int is_declared;    /* by a prototype outside macros */
    int is_used;
    int needs_prototype;
    int crosses_parts;
} private_function;

static private_function *functions;
static size_t function_count;

/* True if the token can follow the name of a function with a named type. */
static int ends_declarator(const token *t) {
    return token_is(t, ",") || token_is(t, ";");
}

static int is_attribute(const token *t) {
    return token_starts(t, "EITP__") || token_is(t, "__attribute__");
}

static void add_name(const source *file, private_declaration *d, const token *name) {
    if (d->count == COUNT(d->names))
        finding(file->path, name->line, "more than %d functions in one declaration: split it", (int)COUNT(d->names));
    else
        d->names[d->count++] = name;
}

/* Finds the names: those before parameter lists, or all names in a list with a named type. */
static void find_names(const source *file, private_declaration *d) {
    size_t i;
    int depth = 0, has_parameters = 0;
    for (i = d->first + 1; i < d->last; i++) {
        const token *t = &file->tokens[i];
        /* In a function that returns a function pointer, int (*eitp__f(void))(int), the name is one level deeper. */
        if ((!depth || !d->count) && t->kind == TOKEN_NAME && token_starts(t, "eitp__") && token_is(t + 1, "("))
            add_name(file, d, t);
        has_parameters |= token_is(t, "(");
        depth += token_is(t, "(") - token_is(t, ")");
    }
    for (i = d->first + 1; !has_parameters && i < d->last; i++)
        if (file->tokens[i].kind == TOKEN_NAME && ends_declarator(&file->tokens[i + 1]))
            add_name(file, d, &file->tokens[i]);
}

/* Reads the declaration that starts at token `i`. Returns 0 if there is none. */
static int read_private(const source *file, size_t i, private_declaration *d) {
    memset(d, 0, sizeof *d);
    if (!token_is(&file->tokens[i], "EITP__PRIVATE") || file->tokens[i].directive)
        return 0;
    d->first = i;
    for (i++; i < file->count && !token_is(&file->tokens[i], ";") && !token_is(&file->tokens[i], "{"); i++)
        d->has_attribute |= is_attribute(&file->tokens[i]);
    if (i == file->count)
        return 0;
    d->last = i;
    d->has_body = token_is(&file->tokens[i], "{");
    find_names(file, d);
    return 1;
}

static int compare_functions(const void *left, const void *right) {
    const token *a = ((const private_function *)left)->name, *b = ((const private_function *)right)->name;
    int order = memcmp(a->start, b->start, a->length < b->length ? a->length : b->length);
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

static private_function *find_function(const token *name) {
    private_function key;
    key.name = name;
    return function_count ? (private_function *)bsearch(&key, functions, function_count, sizeof key, compare_functions)
                          : NULL;
}

/* Collects the functions defined by modules. If there are several definitions, the last one counts. */
static void find_definitions(void) {
    private_declaration d;
    size_t i, k, kept = 0;
    for (i = 0; i < source_count; i++)
        for (k = 0; sources[i]->section == SECTION_IMPLEMENTATION && k < sources[i]->count; k++) {
            private_function *function;
            if (!read_private(sources[i], k, &d) || !d.has_body || !d.count)
                continue;
            functions = (private_function *)grow(functions, (function_count + 1) * sizeof *functions);
            function = &functions[function_count++];
            memset(function, 0, sizeof *function);
            function->name = function->place = d.names[0];
            function->file = sources[i];
            k = d.last;
        }
    if (function_count)
        qsort(functions, function_count, sizeof *functions, compare_functions);
    for (i = 0; i < function_count; i++) {
        private_function *previous = kept ? &functions[kept - 1] : NULL;
        if (!previous || compare_functions(previous, &functions[i]) != 0)
            functions[kept++] = functions[i];
        else if (previous->place < functions[i].place)
            previous->place = functions[i].place;
    }
    function_count = kept;
}

/*
 * Records that a file names a function. A header can be used by any part, a template by the parts of the modules that
 * include it.
 */
static void note_use(const source *file, const token *name) {
    private_function *function = find_function(name);
    if (!function)
        return;
    function->is_used = 1;
    if (file->section == SECTION_IMPLEMENTATION) {
        function->needs_prototype |= file == function->file && name < function->place;
        function->crosses_parts |= file->part != function->file->part;
    } else if (is_template(file->path)) {
        function->needs_prototype |= file->first_user <= function->file->manifest_line;
        function->crosses_parts |= (file->user_parts & ~(1u << function->file->part)) != 0;
    } else {
        function->needs_prototype = 1;
        function->crosses_parts |= function->file->part != 0;
    }
}

static void find_uses_in(const source *file) {
    private_declaration d;
    size_t i, k;
    for (i = 0; i < file->count; i++) {
        const token *t = &file->tokens[i];
        if (read_private(file, i, &d)) {
            for (k = 0; k < d.count && !d.has_body; k++) {
                private_function *function = find_function(d.names[k]);
                if (function) {
                    function->is_declared = 1;
                    function->needs_prototype |= d.has_attribute;
                }
            }
            i = d.last;
        } else if (t->kind == TOKEN_NAME && token_starts(t, "eitp__")) {
            note_use(file, t);
        }
    }
}

/* True if all declarations and calls of the function are visible. Those made by macros are not. */
static int has_visible_uses(const private_function *function) {
    return function && function->is_declared && function->is_used;
}

/* Gives the functions of one declaration the same linkage, and a prototype for all or none of them. */
static void unite(const private_declaration *d, int *needs_prototype, int *crosses_parts) {
    size_t k;
    *needs_prototype = *crosses_parts = d->count == 0;
    for (k = 0; k < d->count; k++) {
        const private_function *function = find_function(d->names[k]);
        *needs_prototype |= !has_visible_uses(function) || function->needs_prototype || function->crosses_parts;
        *crosses_parts |= !has_visible_uses(function) || function->crosses_parts;
    }
}

static void unite_declarations(const source *file) {
    private_declaration d;
    int needs_prototype, crosses_parts;
    size_t i, k;
    for (i = 0; i < file->count; i++) {
        if (!read_private(file, i, &d))
            continue;
        unite(&d, &needs_prototype, &crosses_parts);
        for (k = 0; k < d.count; k++) {
            private_function *function = find_function(d.names[k]);
            if (function) {
                function->needs_prototype |= needs_prototype;
                function->crosses_parts |= crosses_parts;
            }
        }
        i = d.last;
    }
}

void find_private_functions(void) {
    size_t i;
    find_definitions();
    for (i = 0; i < source_count; i++)
        if (is_code(sources[i]))
            find_uses_in(sources[i]);
    for (i = 0; i < source_count; i++)
        if (is_code(sources[i]))
            unite_declarations(sources[i]);
}

/* ---- Lines ---- */

/* Drops each comment if the code lines directly after it are all dropped. */
static void drop_comments(const line_kind *kinds, size_t lines, int *fate) {
    size_t line = 1;
    while (line <= lines) {
        size_t comment = line, code, dropped = 0;
        while (line <= lines && kinds[line] == LINE_COMMENT)
            line++;
        for (code = line; line <= lines && kinds[line] == LINE_CODE; line++)
            dropped += fate[line] == LINE_DROPPED;
        if (line > code && dropped == line - code)
            while (comment < code)
                fate[comment++] = LINE_DROPPED;
        if (line == code)
            line += line <= lines && kinds[line] != LINE_COMMENT;
    }
}

/* Drops each title if nothing remains between it and the next. */
static void drop_titles(const line_kind *kinds, size_t line, int *fate) {
    int is_empty = 1;
    for (; line > 0; line--) {
        if (kinds[line] == LINE_BLANK || fate[line] == LINE_DROPPED)
            continue;
        if (kinds[line] == LINE_TITLE && is_empty)
            fate[line] = LINE_DROPPED;
        is_empty = kinds[line] == LINE_TITLE;
    }
}

void plan_private_functions(const source *file, int *fate) {
    private_declaration d;
    line_kind *kinds;
    int needs_prototype, crosses_parts;
    size_t i, line;
    for (i = 0; i < file->count; i++) {
        if (!read_private(file, i, &d))
            continue;
        unite(&d, &needs_prototype, &crosses_parts);
        if (!d.has_body && !needs_prototype)
            for (line = file->tokens[d.first].line; line <= file->tokens[d.last].line; line++)
                fate[line] = LINE_DROPPED;
        else if (part_count && !crosses_parts && !needs_prototype)
            fate[file->tokens[d.first].line] = LINE_LOCAL;
        i = d.last;
    }
    kinds = kinds_of_lines(file);
    drop_comments(kinds, file->lines, fate);
    drop_titles(kinds, file->lines, fate);
    free(kinds);
}
