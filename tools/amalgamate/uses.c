/*
 * Dependencies between modules. Modules in a cycle cannot be read, tested or changed separately. Without cycles, a
 * reader of eitp.h has already seen every function that a function calls, except through pointers.
 */
#include "amalgamate.h"

#include <stdlib.h>
#include <string.h>

typedef struct definition {
    token name;
    size_t file; /* index in `sources` */
} definition;

static definition *definitions;
static size_t definition_count;

static size_t index_of(const source *file) {
    size_t i = 0;
    while (i < source_count && sources[i] != file)
        i++;
    return i;
}

void note_definition(const source *file, const token *name) {
    if (file->section != SECTION_IMPLEMENTATION)
        return;
    definitions = (definition *)grow(definitions, (definition_count + 1) * sizeof *definitions);
    definitions[definition_count].name = *name;
    definitions[definition_count++].file = index_of(file);
}

static int compare_definitions(const void *left, const void *right) {
    const token *a = &((const definition *)left)->name, *b = &((const definition *)right)->name;
    int order = memcmp(a->start, b->start, a->length < b->length ? a->length : b->length);
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

/* Finds, for each pair of modules, the first use of a function of the other, or NULL. */
static const token **find_uses(void) {
    const token **uses = (const token **)grow(NULL, source_count * source_count * sizeof *uses);
    size_t i, k;
    memset((void *)uses, 0, source_count * source_count * sizeof *uses);
    for (i = 0; i < source_count; i++) {
        for (k = 0; sources[i]->section == SECTION_IMPLEMENTATION && k < sources[i]->count; k++) {
            definition key;
            const definition *found;
            key.name = sources[i]->tokens[k];
            if (key.name.kind != TOKEN_NAME || !token_starts(&key.name, "eitp_"))
                continue;
            found = (const definition *)bsearch(&key, definitions, definition_count, sizeof key, compare_definitions);
            if (found && found->file != i && !uses[i * source_count + found->file])
                uses[i * source_count + found->file] = &sources[i]->tokens[k];
        }
    }
    return uses;
}

/* Reports the modules that use a function of a later module. */
static void check_order(const token **uses) {
    size_t i, later;
    for (i = 0; i < source_count; i++) {
        for (later = i + 1; later < source_count; later++) {
            const token *use = uses[i * source_count + later];
            if (use)
                finding(sources[i]->path, use->line,
                        "`%.*s` is defined in %s, which comes later; list it first in " MANIFEST, (int)use->length,
                        use->start, sources[later]->path);
        }
    }
}

/*
 * Finds the shortest path from a module back to itself through later modules. before[m] is the module before m on it.
 * Returns the last module of the path, or the number of modules if there is no path.
 */
static size_t find_cycle(const token **uses, size_t first, size_t *before, size_t *queue) {
    size_t begin = 0, end = 0, i;
    for (i = 0; i < source_count; i++)
        before[i] = source_count;
    for (queue[end++] = first; begin < end; begin++) {
        size_t module = queue[begin];
        if (module != first && uses[module * source_count + first])
            return module;
        for (i = first + 1; i < source_count; i++) {
            if (!uses[module * source_count + i] || before[i] < source_count)
                continue;
            before[i] = module;
            queue[end++] = i;
        }
    }
    return source_count;
}

/* Writes "a.c -> b.c (eitp__x) -> a.c (eitp__y)": each module with the function that the previous one uses. */
static void describe_cycle(const token **uses, size_t first, size_t last, const size_t *before, text *way) {
    size_t *order = (size_t *)grow(NULL, (source_count + 1) * sizeof *order), count = 0, i;
    order[count++] = first;
    for (i = last; i != first; i = before[i])
        order[count++] = i;
    text_format(way, "%s", sources[first]->path);
    while (count > 0) {
        size_t next = order[--count];
        const token *use = uses[i * source_count + next];
        text_format(way, " -> %s (%.*s)", sources[next]->path, (int)use->length, use->start);
        i = next;
    }
    free(order);
}

void check_uses(void) {
    const token **uses;
    const int before_cycles = findings;
    size_t *before = (size_t *)grow(NULL, 2 * (source_count + 1) * sizeof *before), first;
    if (definition_count)
        qsort(definitions, definition_count, sizeof *definitions, compare_definitions);
    uses = find_uses();
    for (first = 0; first < source_count; first++) {
        size_t last = find_cycle(uses, first, before, before + source_count + 1), second = last;
        text way = {NULL, 0, 0};
        if (last == source_count)
            continue;
        while (before[second] != first)
            second = before[second];
        describe_cycle(uses, first, last, before, &way);
        finding(sources[first]->path, uses[first * source_count + second]->line,
                "modules depend on each other: %.*s; move the shared code into a module below them", (int)way.size,
                way.data);
        free(way.data);
    }
    if (findings == before_cycles)
        check_order(uses);
    free((void *)uses);
    free(before);
}
