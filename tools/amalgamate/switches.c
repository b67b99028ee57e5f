/*
 * Modules that a program can leave out of eitp.h. A line of the section `switches:` has a macro, followed by prefixes
 * of the paths of modules and private headers. The public functions that these define are left out with them. Their
 * names remain, as macros, so that the compiler's error names the switch.
 */
#include "amalgamate.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SWITCHES 24

typedef struct name_list {
    const char *names[32];
    size_t count;
} name_list;

typedef struct left_out {
    const char *macro;
    name_list paths;
} left_out;

static left_out switches[MOST_SWITCHES];
static size_t switch_count;

/* A public function, and the switches of the module that defines it. */
typedef struct public_function {
    const token *name;
    unsigned switches;
} public_function;

static public_function *functions;
static size_t function_count;

/* Returns the switch of a macro; adds it if it is new. */
static left_out *get_switch(const char *macro, size_t number) {
    size_t s = 0;
    while (s < switch_count && strcmp(switches[s].macro, macro) != 0)
        s++;
    if (s == MOST_SWITCHES) {
        finding(MANIFEST, number, "there are at most %d switches", MOST_SWITCHES);
        return &switches[0];
    }
    if (s == switch_count) {
        switches[s].macro = copy_text(macro, strlen(macro));
        switch_count++;
    }
    return &switches[s];
}

void add_switch(char *line, size_t number) {
    const char *macro = strtok(line, " \t");
    left_out *to = get_switch(macro, number);
    const char *path = strtok(NULL, " \t");
    if (!starts_with(macro, "EITP_WITHOUT_") || !path)
        finding(MANIFEST, number, "give a macro EITP_WITHOUT_... and the start of the paths of its modules");
    for (; path; path = strtok(NULL, " \t")) {
        if (to->paths.count < COUNT(to->paths.names))
            to->paths.names[to->paths.count++] = copy_text(path, strlen(path));
        else
            finding(MANIFEST, number, "%s has more than %d paths", to->macro, (int)COUNT(to->paths.names));
    }
}

void mark_switches(void) {
    size_t i, k, s;
    for (s = 0; s < switch_count; s++)
        for (k = 0; k < switches[s].paths.count; k++) {
            size_t matches = 0;
            for (i = 0; i < source_count; i++) {
                if ((sources[i]->section != SECTION_IMPLEMENTATION && sources[i]->section != SECTION_PRIVATE) ||
                    !starts_with(sources[i]->path, switches[s].paths.names[k]))
                    continue;
                sources[i]->switches |= 1u << s;
                matches++;
            }
            if (!matches)
                finding(MANIFEST, 1, "%s: the path of no module starts with %s", switches[s].macro,
                        switches[s].paths.names[k]);
        }
}

void add_condition(unsigned set, text *output) {
    const char *separator = "";
    size_t s;
    for (s = 0; s < switch_count; s++)
        if (set & 1u << s) {
            text_format(output, "%s!%s", separator, switches[s].macro);
            separator = " && ";
        }
}

/* ---- Public functions ---- */

/* Returns the switches of the module that defines a function, or 0 if there is none. */
static unsigned switches_of(const token *name) {
    size_t i, k;
    for (i = 0; i < source_count; i++) {
        int depth = 0;
        if (!sources[i]->switches)
            continue;
        for (k = 0; k + 1 < sources[i]->count; k++) {
            const token *t = &sources[i]->tokens[k];
            depth += token_is(t, "{") - token_is(t, "}");
            if (!depth && !t->directive && t->length == name->length &&
                memcmp(t->start, name->start, name->length) == 0 && token_is(t + 1, "("))
                return sources[i]->switches;
        }
    }
    return 0;
}

/*
 * Returns the name in the function declaration that starts with EITP_API at token `i`, and sets *end to its semicolon.
 */
static const token *declared_function(const source *file, size_t i, size_t *end) {
    const token *name = NULL;
    for (; i < file->count && !token_is(&file->tokens[i], ";"); i++)
        if (!name && token_starts(&file->tokens[i], "eitp_") && token_is(&file->tokens[i + 1], "("))
            name = &file->tokens[i];
    *end = i;
    return i < file->count ? name : NULL;
}

/*
 * Extends the switches of declarations to the comments before them, and to the lines between two declarations with the
 * same switches.
 */
static void spread_switches(const line_kind *kinds, size_t lines, unsigned *sets) {
    unsigned next = 0, previous = 0;
    size_t line, first;
    for (line = lines; line > 0; line--)
        if (kinds[line] == LINE_CODE)
            next = sets[line];
        else if (kinds[line] == LINE_COMMENT)
            sets[line] = next;
        else
            next = 0;
    for (line = 1; line <= lines; line++) {
        for (first = line; line <= lines && kinds[line] != LINE_CODE; line++)
            continue;
        next = line <= lines ? sets[line] : 0;
        for (; first < line && next == previous; first++)
            sets[first] = next;
        previous = next;
    }
}

unsigned *switches_of_lines(const source *file) {
    unsigned *sets = (unsigned *)grow(NULL, (file->lines + 2) * sizeof *sets);
    line_kind *kinds;
    size_t i, end, line;
    memset(sets, 0, (file->lines + 2) * sizeof *sets);
    if (!switch_count || !is_public(file))
        return sets;
    for (i = 0; i < file->count; i++) {
        const token *name = NULL;
        unsigned set;
        if (!token_is(&file->tokens[i], "EITP_API") || file->tokens[i].directive)
            continue;
        name = declared_function(file, i, &end);
        set = name ? switches_of(name) : 0;
        if (!set)
            continue;
        for (line = file->tokens[i].line; line <= file->tokens[end].line; line++)
            sets[line] = set;
        functions = (public_function *)grow(functions, (function_count + 1) * sizeof *functions);
        functions[function_count].name = name;
        functions[function_count++].switches = set;
    }
    kinds = kinds_of_lines(file);
    spread_switches(kinds, file->lines, sets);
    free(kinds);
    return sets;
}

/* True if a public header defines the name as a macro. */
static int is_macro(const token *name) {
    size_t i, k;
    for (i = 0; i < source_count; i++)
        for (k = 0; is_public(sources[i]) && k + 2 < sources[i]->count; k++)
            if (directive_is(sources[i], k, "define") && sources[i]->tokens[k + 2].length == name->length &&
                memcmp(sources[i]->tokens[k + 2].start, name->start, name->length) == 0)
                return 1;
    return 0;
}

/* The parentheses keep a call from being parsed as a declaration of a function. */
static void add_left_out_name(const token *name, const char *macro, text *output) {
    if (is_macro(name))
        text_format(output, "#undef %.*s\n", (int)name->length, name->start);
    text_format(output, "#define %.*s (%.*s_is_left_out_by_%s)\n", (int)name->length, name->start, (int)name->length,
                name->start, macro);
}

/* Opens the condition for the names of a switch. If several switches leave a function out, the first is named. */
static void open_names(size_t s, unsigned set, text *output) {
    unsigned earlier = set & ((1u << s) - 1);
    text_format(output, "\n#if %s%s", switches[s].macro, earlier ? " && " : "");
    add_condition(earlier, output);
    text_format(output, "\n");
}

void add_left_out_names(text *output) {
    size_t s, i;
    for (s = 0; s < switch_count; s++) {
        unsigned open = 0;
        for (i = 0; i < function_count; i++) {
            unsigned set = functions[i].switches;
            if (!(set & 1u << s))
                continue;
            if (open && set != open)
                text_format(output, "#endif\n");
            if (set != open)
                open_names(s, set, output);
            open = set;
            add_left_out_name(functions[i].name, switches[s].macro, output);
        }
        if (open)
            text_format(output, "#endif\n");
    }
}
