/* The table of options: kinds, names, and choices of values. */
#ifndef COMMAND_OPTIONS_TABLE_H
#define COMMAND_OPTIONS_TABLE_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

typedef enum option_kind {
    KIND_FLAG,
    KIND_INTEGER,
    KIND_NUMBER,
    KIND_SIZE, /* bytes; see eitp_parse_bytes */
    KIND_TEXT,
    KIND_LIST,
    KIND_CHOICE, /* `words` are the choices; "=" separates spellings of the same choice */
    KIND_SETTING /* a setting of the library, which defines kind, bounds, default, choices and help */
} option_kind;

/* An option, filled in from its row and the library's setting. */
typedef struct option_entry {
    char name[40], fallback[40], help[800];
    int has_fallback;
    option_kind kind;
    const eitp_setting *setting; /* the library's, or `own` for an option that only the command has */
    eitp_setting own;
    const char *group; /* of the library's setting in a recipe; NULL: only the command has the option */
    size_t offset;     /* of that group's struct in a recipe */
    int stays_open;    /* the setting's default means that the option is not set */
    const char *words; /* spellings of choices, or the name of the argument */
    const char *aliases;
    unsigned commands;
    int of_run;
} option_entry;

/* Options are numbered as in option_id; settings without a row follow. */
size_t option_count(void);
const option_entry *option_of(option_id id);

/* Returns the option at a position in lists, which have settings without a row among the others. */
option_id option_at(size_t place);

/* The option that a name refers to. Names such as "fp16" are flags that stand for a value of an option. */
typedef struct option_name {
    option_id id;         /* OPTION_CAPACITY: unknown */
    char on[32], off[32]; /* the values of such a flag if it is true or false; "" otherwise */
    int is_on_weak;       /* `on` applies only if nothing else sets the option; `off` always does */
} option_name;

option_name option_find(const char *name);

/* Fails if a value has another meaning under this alias: val_check_interval counts batches above 1. */
eitp_status option_check_name(const char *name, const char *value, const char *where, eitp_error *error);

/* If two commands have different options with the same name, chooses the one of this command. */
void option_prefer(option_name *found, unsigned command);

/* Returns the help of an option in a command. */
const char *option_help(option_id id, unsigned command);

/* Compares names; '_' equals '-'. `size` is the length of b. */
int option_names_equal(const char *a, const char *b, size_t size);

/* Reads the next word of a list of words separated by spaces. Returns 0 at the end. */
int option_next_word(const char **list, const char **word, size_t *size);

/* Returns the index of a word in a list by any of its spellings, or -1. */
int option_find_choice(const char *words, const char *value);

/* Returns the index of an option's choice by any of its spellings, or -1. */
int option_find_value(const option_entry *row, const char *value);

/* Writes the first spelling of the choice with this index; "" if the index is too large. */
void option_choice_name(const char *words, int64_t index, char *name, size_t size);

/* Lists the first spelling of each choice, as "a, b or c" or with another separator. */
void option_list_choices(const char *words, const char *separator, const char *last, char *list, size_t size);

/* Fails with "unknown option" and suggests the nearest name. */
eitp_status option_fail_unknown(const option_set *o, const char *name, const char *where, eitp_error *error);

EITP_END_DECLARATIONS

#endif
