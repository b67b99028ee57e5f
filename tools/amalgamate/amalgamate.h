/* What the files of the amalgamator share. */
#ifndef TOOLS_AMALGAMATE_H
#define TOOLS_AMALGAMATE_H

#include <stddef.h>

#define MANIFEST "src/manifest"
#define OUTPUT "eitp.h"
#define TEXTS "kernels/cuda/texts.inc" /* a template that is no file: embed.c makes it */
#define LONGEST_PATH 512
#define MOST_PARTS 9
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- text.c: memory, text and findings ---- */

/* The number of findings so far. A finding is one line: "path:line: " and what is wrong and what to do. */
extern int findings;
void finding(const char *path, size_t line, const char *format, ...);

/* realloc that ends the program if there is no memory. */
void *grow(void *memory, size_t size);

typedef struct text {
    char *data;
    size_t size;
    size_t capacity;
} text;

void text_add(text *to, const char *data, size_t size);
void text_format(text *to, const char *format, ...); /* of at most 2 * LONGEST_PATH characters */
char *copy_text(const char *start, size_t size);
int starts_with(const char *string, const char *prefix);
int ends_with(const char *string, const char *suffix);

/* 0 and the content of a regular file, or -1 with errno. */
int read_file(const char *path, text *content);

/* ---- tokens.c: C as tokens, and its directives ---- */

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
    unsigned part;        /* of the implementation, from 1; 0 if it has no parts */
    unsigned switches;    /* a bit for each that leaves it out */
    text content;
    token *tokens;
    size_t count;
    size_t lines;
    int pasted;
    int allocates;
    /* of a template: */
    enum { UNKNOWN, COUNTING, KNOWN } state;
    size_t copies;                  /* how often it would be pasted */
    int is_nested;                  /* a template includes it */
    int is_section;                 /* it is in eitp.h once */
    struct source *previous, *next; /* the templates before and after every inclusion of it: one section with it */
    size_t place;                   /* position of its section, from 1 */
    size_t first_user;              /* the line of the manifest of the first module that includes it, */
    unsigned user_parts;            /* and a bit for the part of each */
} source;

int token_is(const token *t, const char *string);
int token_starts(const token *t, const char *prefix);

/*
 * Splits a file into tokens without comments and marks directives. A file that ends inside a comment or string just
 * ends.
 */
void tokenize(source *file);

/* The index after the directive that token `i`, its '#', begins; whether token `i` begins one; and one of that name. */
size_t directive_end(const source *file, size_t i);
int is_directive_start(const source *file, size_t i);
int directive_is(const source *file, size_t i, const char *name);

/*
 * For the directive that token `i` begins: 1 and the name of a quoted #include, 2 and the name of a system header, or
 * 0.
 */
int include_name(const source *file, size_t i, char name[LONGEST_PATH]);

typedef enum line_kind { LINE_BLANK, LINE_TITLE, LINE_COMMENT, LINE_CODE } line_kind;

/* What each line is, in an array for the caller to release. A title is "---- ... ----". */
line_kind *kinds_of_lines(const source *file);

/* ---- manifest.c: which files there are ---- */

enum {
    SECTION_DOCUMENTATION,
    SECTION_PUBLIC,
    SECTION_PRIVATE,
    SECTION_IMPLEMENTATION,
    SECTION_LICENSE,
    SECTION_TEXTS,    /* its files are no sources, though each may be one too */
    SECTION_SWITCHES, /* its lines are no files */
    SECTION_COUNT
};

extern const char *const section_names[SECTION_COUNT];
extern source **sources;
extern size_t source_count;
extern unsigned part_count; /* of the implementation, or 0 */

source *find_source(const char *path);
source *add_source(const char *path, int section, size_t line);
void read_manifest(void);

/* Reads or makes, and tokenizes, a file that the line manifest_line of `from` names. */
void load(source *file, const char *from);

int is_template(const char *path);
int is_public(const source *file);
int is_code(const source *file);

/* ---- embed.c: files that travel as text ---- */

typedef struct embedded {
    char *path;
    size_t manifest_line;
    text content; /* without what the compiler does not need */
} embedded;

extern embedded *embeddings;
extern size_t embedding_count;

embedded *find_embedded(const char *path);
void add_embedded(const char *path, size_t line);

/* Reads them all. */
void load_embedded(void);

/* Adds the content of TEXTS. */
void add_texts(text *output);

/* ---- templates.c: what is pasted, and what stands once ---- */

/* The first template of each section; the others follow as its `next`. */
extern source **sections;
extern size_t section_count;

/* Finds all templates, their sections and the modules that use them; -1 after a finding. */
int find_templates(void);

/* The macro that selects a section. */
void section_name(const source *file, char name[LONGEST_PATH]);

/* ---- prototypes.c: private functions ---- */

/* What becomes of a line of a file; n > 0: it is replaced by template n. */
enum {
    LINE_COPIED = 0,
    LINE_DROPPED = -1,
    LINE_LOCAL = -2 /* copied with EITP__LOCAL in the place of EITP__PRIVATE */
};

/* Finds what files use of each other's private functions. Call it when templates are found. */
void find_private_functions(void);

/* Sets the fate of the lines that declare or define private functions. */
void plan_private_functions(const source *file, int *fate);

/* ---- parts.c: what parts need ---- */

/* Adds the macros of the conditions that modules depend on. */
void add_part_macros(text *output);

/* Adds what a program must not do with EITP_PART, as further cases of an #if. */
void add_part_errors(text *output);

/* Adds a function of each part, and to each a table of those of all: the linker names a part that is missing, or there
   twice. */
void add_part_functions(text *output);

/* ---- switches.c: what can be left out ---- */

/* Reads a line of the section `switches:`. */
void add_switch(char *line, size_t number);

/* Sets the switches of modules, when all lines are read. */
void mark_switches(void);

/* Adds "!EITP_WITHOUT_... && ..." for a set of switches. */
void add_condition(unsigned set, text *output);

/* The switches that each line of a public header depends on, in an array for the caller to release. */
unsigned *switches_of_lines(const source *file);

/* Adds what the names of functions stand for that are left out. Call it after all public headers are pasted. */
void add_left_out_names(text *output);

/* ---- lint.c: the rules ---- */

/* Reports an include that the layers forbid. */
void check_layer(const source *from, size_t line, const char *to);

/* Resolves a quoted include: beside the file, in src/ (of a file of the command, in tools/command/), or in the root, as
   a compiler with -Isrc -I. does. */
int resolve(const char *from, const char *name, char path[2 * LONGEST_PATH]);

/* All rules for a file of eitp.h; the rules for any file; the include rules of files outside eitp.h. */
void lint(source *file);
void check_bytes(const source *file);
void check_foreign_includes(const source *file);

/* ---- index.c: the index of public types and functions ---- */

void add_index(text *output);

/* ---- uses.c: what modules use of each other ---- */

/* Notes that a module defines a function that others can call. */
void note_definition(const source *file, const token *name);

/* Reports modules in a circle, each of which uses a function of the next, and uses of functions of later modules. Call
   it after all definitions are noted. */
void check_uses(void);

#endif
