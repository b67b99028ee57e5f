/* Shared declarations of the amalgamator. */
#ifndef TOOLS_AMALGAMATE_H
#define TOOLS_AMALGAMATE_H

#include <stddef.h>

#define MANIFEST "src/manifest"
#define OUTPUT "eitp.h"
#define TEXTS "kernels/cuda/texts.inc" /* a template without a file: embed.c generates it */
#define LONGEST_PATH 512
#define MOST_PARTS 9
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- text.c: memory, text and findings ---- */

/* Number of findings so far. A finding is one line: "path:line: ", the problem and the fix. */
extern int findings;
void finding(const char *path, size_t line, const char *format, ...);

/* realloc that ends the program if it runs out of memory. */
void *grow(void *memory, size_t size);

typedef struct text {
    char *data;
    size_t size;
    size_t capacity;
} text;

void text_add(text *to, const char *data, size_t size);
void text_format(text *to, const char *format, ...); /* at most 2 * LONGEST_PATH characters */
char *copy_text(const char *start, size_t size);
int starts_with(const char *string, const char *prefix);
int ends_with(const char *string, const char *suffix);

/* Reads a regular file. Returns 0, or -1 with errno. */
int read_file(const char *path, text *content);

/* ---- tokens.c: C as tokens, and its directives ---- */

typedef enum token_kind { TOKEN_NAME, TOKEN_NUMBER, TOKEN_STRING, TOKEN_CHARACTER, TOKEN_PUNCTUATION } token_kind;

typedef struct token {
    token_kind kind;
    const char *start;
    size_t length;
    size_t line;
    int directive; /* number of its directive, from 1; 0 outside directives */
} token;

typedef struct source {
    char *path;
    int section;          /* of the manifest; -1 for a template */
    size_t manifest_line; /* for a template: line of its first inclusion */
    unsigned part;        /* of the implementation, from 1; 0 if there are no parts */
    unsigned switches;    /* bit mask of the switches that exclude it */
    text content;
    token *tokens;
    size_t count;
    size_t lines;
    int pasted;
    int allocates;
    /* only for templates: */
    enum { UNKNOWN, COUNTING, KNOWN } state;
    size_t copies;                  /* number of times it would be pasted */
    int is_nested;                  /* included by another template */
    int is_section;                 /* in eitp.h once */
    struct source *previous, *next; /* templates before and after every inclusion of it; all share its section */
    size_t place;                   /* position of its section, from 1 */
    size_t first_user;              /* manifest line of the first module that includes it */
    unsigned user_parts;            /* bit mask of the parts of the modules that include it */
} source;

int token_is(const token *t, const char *string);
int token_starts(const token *t, const char *prefix);

/*
 * Splits a file into tokens, without comments, and marks directives. An unterminated comment or string ends with the
 * file.
 */
void tokenize(source *file);

/*
 * Return the index after the directive that starts at token `i`, a '#'; whether token `i` starts one; and whether it
 * starts one with that name.
 */
size_t directive_end(const source *file, size_t i);
int is_directive_start(const source *file, size_t i);
int directive_is(const source *file, size_t i, const char *name);

/*
 * Reads the #include that starts at token `i`: returns 1 and the name for quotes, 2 and the name for angle brackets, or
 * 0 if it is not an #include.
 */
int include_name(const source *file, size_t i, char name[LONGEST_PATH]);

typedef enum line_kind { LINE_BLANK, LINE_TITLE, LINE_COMMENT, LINE_CODE } line_kind;

/* Returns the kind of each line, in an array that the caller frees. A title is "---- ... ----". */
line_kind *kinds_of_lines(const source *file);

/* ---- manifest.c: the list of files ---- */

enum {
    SECTION_DOCUMENTATION,
    SECTION_PUBLIC,
    SECTION_PRIVATE,
    SECTION_IMPLEMENTATION,
    SECTION_LICENSE,
    SECTION_TEXTS,    /* files that are not sources as such, although each can be one too */
    SECTION_SWITCHES, /* lines that are not files */
    SECTION_COUNT
};

extern const char *const section_names[SECTION_COUNT];
extern source **sources;
extern size_t source_count;
extern unsigned part_count; /* parts of the implementation, or 0 */

source *find_source(const char *path);
source *add_source(const char *path, int section, size_t line);
void read_manifest(void);

/* Reads, or generates, a file and tokenizes it. `from` names it in the file's manifest_line. */
void load(source *file, const char *from);

int is_template(const char *path);
int is_public(const source *file);
int is_code(const source *file);

/* ---- embed.c: files included as text ---- */

typedef struct embedded {
    char *path;
    size_t manifest_line;
    text content; /* without parts that the compiler does not need */
} embedded;

extern embedded *embeddings;
extern size_t embedding_count;

embedded *find_embedded(const char *path);
void add_embedded(const char *path, size_t line);

/* Reads all embedded files. */
void load_embedded(void);

/* Adds the content of TEXTS. */
void add_texts(text *output);

/* ---- templates.c: pasting templates or keeping them once ---- */

/* First template of each section. The others follow as `next`. */
extern source **sections;
extern size_t section_count;

/* Finds all templates, their sections and the modules that use them. Returns -1 after a finding. */
int find_templates(void);

/* Writes the macro that selects a section to `name`. */
void section_name(const source *file, char name[LONGEST_PATH]);

/* ---- prototypes.c: private functions ---- */

/* The action for a line of a file. n > 0: replace it with template n. */
enum {
    LINE_COPIED = 0,
    LINE_DROPPED = -1,
    LINE_LOCAL = -2 /* copy with EITP__LOCAL instead of EITP__PRIVATE */
};

/* Finds the private functions that files use of each other. Call it after the templates are found. */
void find_private_functions(void);

/* Decides what to do with the lines that declare or define private functions. */
void plan_private_functions(const source *file, int *fate);

/* ---- parts.c: compiling in parts ---- */

/* Adds the macros used by the conditions of modules. */
void add_part_macros(text *output);

/* Adds further cases of an #if that reject invalid uses of EITP_PART. */
void add_part_errors(text *output);

/*
 * Adds a function to each part, and to each part a table of all these functions, so that the linker reports a missing
 * or duplicate part.
 */
void add_part_functions(text *output);

/* ---- switches.c: leaving modules out ---- */

/* Reads a line of the section `switches:`. */
void add_switch(char *line, size_t number);

/* Sets the switches of modules, after all lines are read. */
void mark_switches(void);

/* Adds "!EITP_WITHOUT_... && ..." for a set of switches. */
void add_condition(unsigned set, text *output);

/* Returns the switches that each line of a public header depends on, in an array that the caller frees. */
unsigned *switches_of_lines(const source *file);

/* Adds macros for the names of functions that are left out. Call it after all public headers are pasted. */
void add_left_out_names(text *output);

/* ---- lint.c: the rules ---- */

/* Reports an #include that the layers forbid. */
void check_layer(const source *from, size_t line, const char *to);

/*
 * Resolves a quoted #include as a compiler with -Isrc -I. does: next to the file, in src/ (for files of the command in
 * tools/command/), or in the root.
 */
int resolve(const char *from, const char *name, char path[2 * LONGEST_PATH]);

/* Check all rules for a file of eitp.h; the rules for any file; and the include rules for a file outside eitp.h. */
void lint(source *file);
void check_bytes(const source *file);
void check_foreign_includes(const source *file);

/* ---- index.c: the index of public types and functions ---- */

void add_index(text *output);

/* ---- uses.c: dependencies between modules ---- */

/* Records that a module defines a function that others can call. */
void note_definition(const source *file, const token *name);

/* Reports cycles of modules, and uses of functions of later modules. Call it after all definitions are recorded. */
void check_uses(void);

#endif
