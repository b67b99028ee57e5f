/*
 * Templates (.inc). Some are pasted wherever they are included, others are in eitp.h once.
 *
 * A template that is in eitp.h once is a section. The implementation instantiates it by including eitp.h again.
 * Templates that are always included in sequence share a section. Each inclusion costs the compiler a pass over the
 * whole file, so a template becomes a section only if that saves enough lines.
 */
#include "amalgamate.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEWEST_LINES_SAVED 64 /* per inclusion */

/* A line that includes a template. */
typedef struct inclusion {
    source *from, *target;
    size_t line;
} inclusion;

static inclusion *inclusions;
static size_t inclusion_count;

source **sections;
size_t section_count;

static source *template_at(const source *from, size_t line, const char *path) {
    source *file = find_source(path);
    if (file)
        return file;
    file = add_source(path, -1, line);
    load(file, from->path);
    lint(file);
    return file;
}

static void add_inclusions(source *file) {
    char name[LONGEST_PATH], path[2 * LONGEST_PATH];
    size_t i;
    for (i = 0; i < file->count; i++) {
        if (!directive_is(file, i, "include") || include_name(file, i, name) != 1 || !resolve(file->path, name, path) ||
            !is_template(path))
            continue;
        inclusions = (inclusion *)grow(inclusions, (inclusion_count + 1) * sizeof *inclusions);
        inclusions[inclusion_count].from = file;
        inclusions[inclusion_count].line = file->tokens[i].line;
        inclusions[inclusion_count++].target = template_at(file, file->tokens[i].line, path);
    }
}

/* True if inclusion `i` is on the line after inclusion `i - 1`. */
static int continues(size_t i) {
    return i > 0 && i < inclusion_count && inclusions[i].from == inclusions[i - 1].from &&
           inclusions[i].line == inclusions[i - 1].line + 1;
}

/*
 * Returns the template after (step 1) or before (step -1) every inclusion of a template, or NULL if there are several.
 */
static source *neighbour(const source *file, int step) {
    source *found = NULL;
    size_t i;
    for (i = 0; i < inclusion_count; i++) {
        source *next = NULL;
        if (inclusions[i].target != file)
            continue;
        if (step > 0 ? continues(i + 1) : continues(i))
            next = inclusions[step > 0 ? i + 1 : i - 1].target;
        if (!next || next == file || (found && next != found))
            return NULL;
        found = next;
    }
    return found;
}

static void join_neighbours(void) {
    size_t i;
    for (i = 0; i < source_count; i++) {
        source *next = is_template(sources[i]->path) ? neighbour(sources[i], 1) : NULL;
        if (next && neighbour(next, -1) == sources[i]) {
            sources[i]->next = next;
            next->previous = sources[i];
        }
    }
}

/*
 * Counts the copies of a template, after those of the templates that include it. Returns -1 if templates include each
 * other.
 */
static int count_copies(source *file) {
    size_t i;
    if (file->state != UNKNOWN)
        return file->state == KNOWN ? 0 : -1;
    file->state = COUNTING;
    for (i = 0; i < inclusion_count; i++) {
        source *from = inclusions[i].from;
        if (inclusions[i].target != file)
            continue;
        if (is_template(from->path) && count_copies(from))
            return -1;
        file->copies += is_template(from->path) ? from->copies : 1;
        file->is_nested |= is_template(from->path);
    }
    file->state = KNOWN;
    return 0;
}

/* Returns the number of lines of a template, including the templates inside it. */
static size_t lines_of(const source *file) {
    size_t i, lines = file->lines;
    for (i = 0; i < inclusion_count; i++)
        if (inclusions[i].from == file)
            lines += lines_of(inclusions[i].target);
    return lines;
}

static int saves_enough(const source *first) {
    size_t lines = 0, copies = first->copies;
    for (; first; first = first->next)
        lines += lines_of(first);
    return (copies - 1) * lines >= FEWEST_LINES_SAVED * copies;
}

/* True if each inclusion of a template is next to a section, so that it does not cost another pass. */
static int is_among_sections(const source *file) {
    size_t i;
    for (i = 0; i < inclusion_count; i++)
        if (inclusions[i].target == file && !(continues(i) && inclusions[i - 1].target->is_section) &&
            !(continues(i + 1) && inclusions[i + 1].target->is_section))
            return 0;
    return file->copies > 1;
}

/* Templates inside templates are always pasted. */
static void choose_sections(void) {
    size_t i;
    int changed;
    for (i = 0; i < source_count; i++) {
        source *part, *first = sources[i];
        if (is_template(first->path) && !first->is_nested && !first->previous && saves_enough(first))
            for (part = first; part; part = part->next)
                part->is_section = 1;
    }
    do {
        changed = 0;
        for (i = 0; i < source_count; i++)
            if (is_template(sources[i]->path) && !sources[i]->is_nested && !sources[i]->is_section &&
                is_among_sections(sources[i]))
                changed = sources[i]->is_section = 1;
    } while (changed);
}

static int is_section_start(const source *file) {
    return file->is_section && !file->previous;
}

/* True if a section that has no place yet precedes this one on consecutive lines. */
static int must_wait(const source *first) {
    size_t i, k;
    for (i = 0; i < inclusion_count; i++)
        for (k = i; inclusions[i].target == first && continues(k); k--)
            if (is_section_start(inclusions[k - 1].target) && inclusions[k - 1].target != first &&
                !inclusions[k - 1].target->place)
                return 1;
    return 0;
}

/*
 * Orders sections as they follow each other on consecutive lines, so that a single inclusion of eitp.h serves them all.
 */
static void order_sections(void) {
    size_t i;
    source *next;
    do {
        next = NULL;
        for (i = 0; i < source_count; i++)
            if (is_section_start(sources[i]) && !sources[i]->place && (!next || must_wait(next)))
                next = sources[i];
        if (next) {
            sections = (source **)grow(sections, (section_count + 1) * sizeof *sections);
            sections[section_count++] = next;
            next->place = section_count;
        }
    } while (next);
}

/* Records that a module includes the templates that `file` includes. `file` is the module or one of its templates. */
static void note_user(const source *module, const source *file) {
    size_t i;
    for (i = 0; i < inclusion_count; i++) {
        source *target = inclusions[i].target;
        if (inclusions[i].from != file)
            continue;
        target->first_user = target->first_user ? target->first_user : module->manifest_line;
        target->user_parts |= 1u << module->part;
        note_user(module, target);
    }
}

int find_templates(void) {
    size_t i;
    for (i = 0; i < source_count; i++) /* source_count grows while templates are found */
        if (is_code(sources[i]))
            add_inclusions(sources[i]);
    for (i = 0; i < source_count; i++)
        if (is_template(sources[i]->path) && count_copies(sources[i])) {
            finding(sources[i]->path, 1, "templates include each other in a circle");
            return -1;
        }
    for (i = 0; i < source_count; i++)
        if (!is_template(sources[i]->path))
            note_user(sources[i], sources[i]);
    join_neighbours();
    choose_sections();
    order_sections();
    return 0;
}

void section_name(const source *file, char name[LONGEST_PATH]) {
    const char *from = strchr(file->path, '/');
    char *to = name + sprintf(name, "EITP__TEMPLATE");
    for (; from && strcmp(from, ".inc") != 0 && to < name + LONGEST_PATH - 1; from++)
        *to++ = (char)(*from == '/' ? '_' : toupper((unsigned char)*from));
    *to = 0;
}
