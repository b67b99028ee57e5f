/*
 * Generates eitp.h from the modules listed in src/manifest, and checks their rules.
 *
 *     amalgamate [--root DIRECTORY] [--check | --list SECTION | --texts]
 *
 * Without an option, it writes eitp.h through a temporary file, so that a failure leaves the old file unchanged.
 * --check compares eitp.h byte by byte instead. --list prints the paths in one section of the manifest. --texts prints
 * the template that contains the files of the section `texts:`. Writing and comparing also check the rules. Each
 * finding is one line, "file:line: problem and fix". The exit status is 0, 1 after a finding or failure, or 2 if the
 * command line is invalid.
 */
#define _DEFAULT_SOURCE 1

#include "amalgamate.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUTPUT_NEW "eitp.h.new"
#define FIX_COMMAND "run `make eitp.h`"

/* ---- packing ---- */

/* The action for each line of a file: one of LINE_..., or n > 0 to replace it with templates[n - 1]. */
typedef struct lines {
    int *fate;
    source **templates;
    int template_count;
} lines;

static void drop_directive(const source *file, size_t i, lines *to) {
    size_t line, end = directive_end(file, i);
    for (line = file->tokens[i].line; line <= file->tokens[end - 1].line; line++)
        to->fate[line] = LINE_DROPPED;
}

static int is_guard_name(const token *t) {
    return token_starts(t, "EITP_") && t->length > 7 && memcmp(t->start + t->length - 2, "_H", 2) == 0;
}

/* Drops the include guard: the #ifndef and #define at the start of a header, and the #endif at its end. */
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

/* Removes the name of the guard from the macros to be linted. */
static void forget_guard(source *file) {
    size_t second = directive_end(file, 0);
    memmove(file->tokens + second, file->tokens + second + 3, (file->count - second - 3) * sizeof(token));
    file->count -= 3;
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
                "\"%s\" is not found next to the file, in src/ or in the root; foreign headers go in angle "
                "brackets",
                name);
        return;
    }
    check_layer(file, line, path);
    if (is_template(path)) {
        target = find_source(path);
        to->templates = (source **)grow(to->templates, (size_t)(to->template_count + 1) * sizeof(source *));
        to->templates[to->template_count++] = target;
        to->fate[line] = to->template_count;
        return;
    }
    target = find_source(path);
    if (!ends_with(path, ".h"))
        finding(file->path, line, "%s is neither a header nor a template (.inc): it cannot be included", path);
    else if (!target)
        finding(file->path, line, "%s is not in " MANIFEST ": add it there", path);
    else if (!target->pasted)
        finding(file->path, line, "%s comes later than %s in " MANIFEST ": change the order, or remove the #include",
                path, file->path);
}

/*
 * Replaces a line that includes a section with its macro. After the last of consecutive such lines, also includes
 * eitp.h. `next` is the template included by the next line, or NULL.
 */
static void paste_inclusion(const source *file, const source *next, text *output) {
    static int is_checked;
    char name[LONGEST_PATH];
    const source *first = file;
    while (first->previous)
        first = first->previous;
    section_name(first, name);
    if (file == first)
        text_format(output, "#define %s /* >>%s%s */\n", name, file->path, file->next ? " and on" : "");
    if (next && next->is_section && (next == file->next || (!next->previous && next->place > first->place)))
        return;
    text_format(output, "#include EITP_FILE\n");
    if (!is_checked)
        text_format(output,
                    "#ifdef %s\n"
                    "#error \"EITP_FILE names another file: define it as the name of this file, in quotes\"\n"
                    "#endif\n",
                    name);
    is_checked = 1;
}

/* Decides what to do with each line. */
static void plan_lines(source *file, lines *to) {
    size_t i;
    to->fate = (int *)grow(NULL, (file->lines + 2) * sizeof(int));
    memset(to->fate, 0, (file->lines + 2) * sizeof(int));
    if (ends_with(file->path, ".h") && !drop_guard(file, to))
        finding(file->path, 1, "no include guard: start with #ifndef EITP_..._H and #define, end with #endif");
    for (i = 0; i < file->count; i++)
        if (directive_is(file, i, "include"))
            plan_include(file, i, to);
    plan_private_functions(file, to->fate);
}

/* True if any code of the file remains. */
static int has_code(const source *file, const lines *to) {
    size_t i = 0;
    while (i < file->count && to->fate[file->tokens[i].line] == LINE_DROPPED)
        i++;
    return i < file->count;
}

/* Copies a line that declares a function used only within its part. */
static void copy_local(const char *line, const char *end, text *output) {
    const char *word = strstr(line, "EITP__PRIVATE");
    text_add(output, line, (size_t)(word - line));
    text_format(output, "EITP__LOCAL");
    word += strlen("EITP__PRIVATE");
    text_add(output, word, (size_t)(end - word));
}

/* Closes the condition of the previous line's switches and opens the condition of the next line's. */
static void change_switches(unsigned from, unsigned to, text *output) {
    if (from == to)
        return;
    text_format(output, from ? "#endif\n%s" : "%s", to ? "#if " : "");
    add_condition(to, output);
    text_format(output, to ? "\n" : "");
}

static void paste(source *file, text *output);

static void paste_lines(const source *file, const lines *to, text *output) {
    const char *p = file->content.data, *end = p + file->content.size;
    unsigned *switches = switches_of_lines(file);
    size_t line;
    int blank = 1;
    for (line = 1; p < end; line++) {
        const char *stop = (const char *)memchr(p, '\n', (size_t)(end - p));
        const char *next = stop ? stop + 1 : end;
        change_switches(switches[line - 1], switches[line], output);
        if (to->fate[line] > 0) {
            source *template = to->templates[to->fate[line] - 1];
            if (template->is_section)
                paste_inclusion(template, to->fate[line + 1] > 0 ? to->templates[to->fate[line + 1] - 1] : NULL,
                                output);
            else
                paste(template, output);
            blank = 0;
        } else if (to->fate[line] == LINE_LOCAL) {
            copy_local(p, next, output);
            blank = 0;
        } else if (to->fate[line] == LINE_COPIED && !(blank && next - p == 1)) {
            text_add(output, p, (size_t)(next - p));
            blank = next - p == 1;
        }
        p = next;
    }
    free(switches);
}

/* Pastes a file between its marks, unless nothing of it remains. */
static void paste(source *file, text *output) {
    lines to = {NULL, NULL, 0};
    plan_lines(file, &to);
    if (has_code(file, &to)) {
        text_format(output, "\n/* >>%s */\n", file->path);
        paste_lines(file, &to, output);
        while (output->size > 1 && output->data[output->size - 1] == '\n' && output->data[output->size - 2] == '\n')
            output->size--;
        text_format(output, "/* <<%s */\n", file->path);
    }
    file->pasted = 1;
    free(to.fate);
    free(to.templates);
}

/* Opens a condition for a part and switches, if there is any. */
static void open_condition(unsigned part, unsigned switches, text *output) {
    if (!part && !switches)
        return;
    text_format(output, "\n#if ");
    if (part)
        text_format(output, "EITP__IN_PART(%u)%s", part, switches ? " && " : "");
    add_condition(switches, output);
    text_format(output, "\n");
}

static void close_condition(unsigned part, unsigned switches, text *output) {
    if (part || switches)
        text_format(output, "\n#endif\n");
}

/* Pastes the files of a section of the manifest. Modules go in their part, and depend on their switches. */
static void paste_section(int section, text *output) {
    unsigned part = 0, switches = 0;
    size_t i;
    for (i = 0; i < source_count; i++) {
        if (sources[i]->section != section)
            continue;
        if (sources[i]->part != part || sources[i]->switches != switches) {
            close_condition(part, switches, output);
            part = sources[i]->part;
            switches = sources[i]->switches;
            open_condition(part, switches, output);
        }
        paste(sources[i], output);
    }
    close_condition(part, switches, output);
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

static void paste_templates(text *output) {
    char name[LONGEST_PATH];
    size_t i;
    text_format(output, "\n#else\n\n/*\n"
                        " * Templates. To instantiate them, the implementation defines their parameters and the macros "
                        "below, and then includes\n"
                        " * this file again as EITP_FILE.\n */\n");
    for (i = 0; i < section_count; i++) {
        source *file = sections[i];
        section_name(file, name);
        text_format(output, "\n#ifdef %s\n#undef %s\n", name, name);
        for (; file; file = file->next)
            paste(file, output);
        text_format(output, "#endif\n");
    }
}

/* Defines the macro with which the implementation includes its own file. */
static const char file_name[] =
    "\n"
    "/* The name by which this file includes itself. If the compiler has no __FILE_NAME__, define "
    "it when you rename the file. */\n"
    "#ifndef EITP_FILE\n"
    "#ifdef __FILE_NAME__\n"
    "#define EITP_FILE __FILE_NAME__\n"
    "#else\n"
    "#define EITP_FILE \"eitp.h\"\n"
    "#endif\n"
    "#endif\n"
    "#ifdef __has_include\n"
    "#if !__has_include(EITP_FILE)\n"
    "#error \"EITP_FILE is not the name of this file: define it as that name, in quotes\"\n"
    "#endif\n"
    "#endif\n";

/* Unsupported systems and invalid parts cause a single error; the modules are skipped. */
static const char implementation_begin[] =
    "\n#if !defined(__GNUC__) || defined(_WIN32) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__ || \\\n"
    "    (defined(__cplusplus) && __cplusplus < 201103L) || \\\n"
    "    (!defined(__cplusplus) && (!defined(__STDC_VERSION__) || __STDC_VERSION__ < 201112L))\n"
    "#error \"eitp needs gcc or clang, C11 or C++11 or later, and a little-endian POSIX system (Linux, macOS, BSD)\"\n";

static const char implementation_open[] = "#else\n"
                                          "/* Public functions can be unused if EITP_API is static. */\n"
                                          "#pragma GCC diagnostic push\n"
                                          "#pragma GCC diagnostic ignored \"-Wunused-function\"\n";

static const char implementation_end[] = "\n#pragma GCC diagnostic pop\n#endif\n";

static void pack(text *output) {
    paste_plain(SECTION_DOCUMENTATION, output, "", "\n");
    add_index(output);
    text_format(output,
                "/* Generated by tools/amalgamate/ from the modules named below (search for \">>\"): change those, "
                "then `make eitp.h`. */\n\n"
                "#ifndef EITP_H\n#define EITP_H\n\n"
                "/* Strict C modes hide POSIX; this must precede the first system header. */\n"
                "#if defined(EITP_IMPLEMENTATION) && !defined(_DEFAULT_SOURCE)\n"
                "#define _DEFAULT_SOURCE 1\n#endif\n");
    paste_section(SECTION_PUBLIC, output);
    add_left_out_names(output);
    text_format(output, "\n#endif /* EITP_H */\n\n"
                        "#if defined(EITP_IMPLEMENTATION) && !defined(EITP_IMPLEMENTED)\n#define EITP_IMPLEMENTED\n");
    if (part_count)
        add_part_macros(output);
    text_format(output, "%s", implementation_begin);
    if (part_count)
        add_part_errors(output);
    text_format(output, "%s", implementation_open);
    if (section_count)
        text_format(output, "%s", file_name);
    paste_section(SECTION_PRIVATE, output);
    paste_section(SECTION_IMPLEMENTATION, output);
    if (part_count)
        add_part_functions(output);
    text_format(output, "%s", implementation_end);
    if (section_count)
        paste_templates(output);
    text_format(output, "\n#endif /* EITP_IMPLEMENTATION */\n");
    paste_plain(SECTION_LICENSE, output, "\n/*\n", "*/\n");
}

/* ---- files that nothing names ---- */

typedef void (*file_visitor)(const char *path);

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Visits every C source below a folder, in the order of names, so that the order of findings is fixed. */
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
    if (strcmp(path, TEXTS) == 0) {
        finding(path, 1, "this template is generated from the files under `texts:` in " MANIFEST ": remove the file");
        return;
    }
    if (starts_with(path, "kernels/cuda/") || (find_embedded(path) && !find_source(path)))
        visit_foreign(path);
    if (!find_source(path) && !find_embedded(path))
        finding(path, 1, "nothing uses this file: list it in " MANIFEST ", include it (.inc), or remove it");
}

/* ---- the command ---- */

static int check(const text *output) {
    text old = {NULL, 0, 0};
    size_t i, line = 1;
    if (read_file(OUTPUT, &old) != 0) {
        finding(OUTPUT, 1, "cannot read it: %s; " FIX_COMMAND, strerror(errno));
        return 1;
    }
    for (i = 0; i < old.size && i < output->size && old.data[i] == output->data[i]; i++)
        line += old.data[i] == '\n';
    if (i < old.size || i < output->size)
        finding(OUTPUT, line, "differs from its modules here; change the modules, not this file, then " FIX_COMMAND);
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
            "amalgamate: cannot write " OUTPUT_NEW " and rename it to " OUTPUT ": %s; " OUTPUT " is unchanged\n",
            strerror(reason));
    return 1;
}

static int list(const char *name) {
    size_t i;
    int section = 0;
    while (section < SECTION_COUNT && strcmp(section_names[section], name) != 0)
        section++;
    if (section == SECTION_COUNT) {
        fprintf(
            stderr,
            "amalgamate: unknown section `%s` (choose from documentation, public, private, implementation, license, "
            "texts)\n",
            name);
        return 2;
    }
    for (i = 0; i < source_count; i++)
        if (sources[i]->section == section)
            printf("%s\n", sources[i]->path);
    for (i = 0; section == SECTION_TEXTS && i < embedding_count; i++)
        printf("%s\n", embeddings[i].path);
    return findings != 0 || fflush(stdout) != 0;
}

static int print_texts(void) {
    text output = {NULL, 0, 0};
    if (!embedding_count)
        finding(MANIFEST, 1, "there are no files under `texts:`, so there is no " TEXTS " to print");
    load_embedded();
    if (findings)
        return 1;
    add_texts(&output);
    return fwrite(output.data, 1, output.size, stdout) != output.size || fflush(stdout) != 0;
}

static int make(int only_check) {
    text output = {NULL, 0, 0};
    size_t i, count = source_count;
    for (i = 0; i < count; i++)
        load(sources[i], MANIFEST);
    load_embedded();
    if (!findings && find_templates() == 0) {
        find_private_functions();
        pack(&output);
    }
    for (i = 0; i < count; i++) {
        lines ignored = {NULL, NULL, 0};
        ignored.fate = (int *)grow(NULL, (sources[i]->lines + 2) * sizeof(int));
        if (drop_guard(sources[i], &ignored))
            forget_guard(sources[i]);
        free(ignored.fate);
        lint(sources[i]);
    }
    check_uses();
    if (!findings) {
        walk("src", visit_module);
        walk("kernels", visit_module);
        walk("backends", visit_module);
        walk("tools", visit_foreign);
        walk("examples", visit_foreign);
    }
    if (findings) {
        fprintf(stderr, "amalgamate: %d finding%s; " OUTPUT " is unchanged\n", findings, findings == 1 ? "" : "s");
        return 1;
    }
    return only_check ? check(&output) : write_output(&output);
}

static int usage(void) {
    fprintf(stderr, "usage: amalgamate [--root DIRECTORY] [--check | --list SECTION | --texts]\n");
    return 2;
}

int main(int argc, char **argv) {
    const char *section = NULL;
    int only_check = 0, only_texts = 0, i;
    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--check") == 0) {
            only_check = 1;
        } else if (strcmp(argv[i], "--texts") == 0) {
            only_texts = 1;
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
    if ((section != NULL) + only_check + only_texts > 1)
        return usage();
    read_manifest();
    return section ? list(section) : only_texts ? print_texts() : make(only_check);
}
