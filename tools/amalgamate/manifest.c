/* The list of files that eitp.h is generated from. */
#include "amalgamate.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *const section_names[SECTION_COUNT] = {"documentation", "public", "private", "implementation",
                                                  "license",       "texts",  "switches"};

source **sources;
size_t source_count;
unsigned part_count;

source *find_source(const char *path) {
    size_t i;
    for (i = 0; i < source_count; i++)
        if (strcmp(sources[i]->path, path) == 0)
            return sources[i];
    return NULL;
}

source *add_source(const char *path, int section, size_t line) {
    source *file = (source *)grow(NULL, sizeof(source));
    memset(file, 0, sizeof *file);
    file->path = copy_text(path, strlen(path));
    file->section = section;
    file->manifest_line = line;
    sources = (source **)grow(sources, (source_count + 1) * sizeof *sources);
    sources[source_count++] = file;
    return file;
}

static int is_wanted(const char *path, int section) {
    static const char *const texts[] = {".h", ".inc", ".cu", ".cuh"};
    size_t i;
    if (section == SECTION_LICENSE)
        return 1;
    for (i = 0; section == SECTION_TEXTS && i < COUNT(texts); i++)
        if (ends_with(path, texts[i]))
            return 1;
    return section != SECTION_TEXTS && ends_with(path, section == SECTION_IMPLEMENTATION ? ".c" : ".h");
}

/* Returns N of a line "part N:", which starts a part of the implementation, or 0 for other lines. */
static unsigned part_number(const char *name) {
    return starts_with(name, "part ") ? (unsigned)strtoul(name + 5, NULL, 10) : 0;
}

/* Reports gaps in the numbers of parts, because each part is compiled by number. */
static void check_parts(void) {
    unsigned part;
    size_t i, without = source_count;
    for (part = 1; part <= part_count; part++) {
        for (i = 0; i < source_count && sources[i]->part != part; i++)
            continue;
        if (i == source_count)
            finding(MANIFEST, 1, "no module is in part %u of %u: number the parts from 1", part, part_count);
    }
    for (i = 0; i < source_count && without == source_count; i++)
        if (part_count && sources[i]->section == SECTION_IMPLEMENTATION && !sources[i]->part)
            without = i;
    if (without < source_count)
        finding(MANIFEST, sources[without]->manifest_line, "%s is not in a part: put it under a `part N:` line",
                sources[without]->path);
}

static void check_manifest_line(const char *path, int section, size_t line) {
    const char *wanted = section == SECTION_TEXTS            ? ".h, .inc, .cu or .cuh"
                         : section == SECTION_IMPLEMENTATION ? ".c"
                                                             : ".h";
    if (section < 0)
        finding(MANIFEST, line,
                "%s comes before the first section: put it under `public:`, `private:` or "
                "`implementation:`",
                path);
    else if (section == SECTION_TEXTS ? find_embedded(path) != NULL : find_source(path) != NULL)
        finding(MANIFEST, line, "%s is listed twice: remove one line", path);
    else if (!is_wanted(path, section))
        finding(MANIFEST, line, "%s is not a %s file, unlike the others under `%s:`: move the line", path, wanted,
                section_names[section]);
    else if (strlen(path) > LONGEST_PATH / 2 || strstr(path, "..") || path[0] == '/')
        finding(MANIFEST, line, "%s: write the path from the root of the repository", path);
}

void read_manifest(void) {
    text content = {NULL, 0, 0};
    int section = -1, i;
    unsigned part = 0;
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
            part = section == SECTION_IMPLEMENTATION ? part_number(p) : 0;
            if (part > MOST_PARTS)
                finding(MANIFEST, line, "there are at most %d parts", MOST_PARTS);
            part_count = part > part_count && part <= MOST_PARTS ? part : part_count;
            for (i = 0; i < SECTION_COUNT && strcmp(section_names[i], p) != 0; i++)
                continue;
            section = part ? section : i;
            if (section == SECTION_COUNT) {
                finding(MANIFEST, line,
                        "unknown section `%s:` (choose from documentation, public, private, implementation, "
                        "license, texts, switches; in the implementation, `part N:`)",
                        p);
                break;
            }
        } else if (end > p && section == SECTION_SWITCHES) {
            add_switch(p, line);
        } else if (end > p) {
            int before = findings;
            check_manifest_line(p, section, line);
            if (findings == before && section == SECTION_TEXTS)
                add_embedded(p, line);
            else if (findings == before)
                add_source(p, section, line)->part = part;
        }
        p = next;
    }
    check_parts();
    mark_switches();
    free(content.data);
}

void load(source *file, const char *from) {
    if (strcmp(file->path, TEXTS) == 0 && embedding_count)
        add_texts(&file->content);
    else if (strcmp(file->path, TEXTS) == 0)
        finding(from, file->manifest_line,
                TEXTS " is generated from the files under `texts:` in " MANIFEST
                      ", and there are none: add some, or remove "
                      "the #include");
    else if (read_file(file->path, &file->content) != 0)
        finding(from, file->manifest_line, "%s: cannot read it: %s; correct the line or add the file", file->path,
                strerror(errno));
    text_add(&file->content, "", 0);
    tokenize(file);
}

int is_template(const char *path) {
    return ends_with(path, ".inc");
}

int is_public(const source *file) {
    return file->section == SECTION_PUBLIC;
}

int is_code(const source *file) {
    return file->section != SECTION_DOCUMENTATION && file->section != SECTION_LICENSE;
}
