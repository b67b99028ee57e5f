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
    KIND_CHOICE, /* `words` are the choices; "=" separates the spellings of one */
    KIND_SETTING /* a setting of the library: kind, bounds, default, choices and help are its own */
} option_kind;

/* An option, filled in from its row and the library's setting. */
typedef struct option_entry {
    char name[40], fallback[40], help[800];
    int has_fallback;
    option_kind kind;
    const eitp_setting *setting; /* of the library; or `own`, a setting of the command alone */
    eitp_setting own;
    const char *group; /* of the library's setting in a recipe; NULL: it is the command's own */
    size_t offset;     /* of that group's struct in a recipe */
    int stays_open;    /* the default of the setting means that the option is not given */
    const char *words; /* spellings of choices, or the name of the argument */
    const char *aliases;
    unsigned commands;
    int of_run;
} option_entry;

/* Options are numbered as in option_id; settings without a row follow. */
size_t option_count(void);
const option_entry *option_of(option_id id);

/* The option at a place of a list, in which settings without a row stand among the others. */
option_id option_at(size_t place);

/* What a name refers to. Names such as "fp16" are flags that stand for a value of an option. */
typedef struct option_name {
    option_id id;         /* OPTION_CAPACITY: unknown */
    char on[32], off[32]; /* the values of such a flag if it is true or false; "" otherwise */
    int is_on_weak;       /* `on` holds unless something else sets the option, as `off` always does */
} option_name;

option_name option_find(const char *name);

/* Fails for a value that means something else by this name of an option: val_check_interval counts batches above 1. */
eitp_status option_check_name(const char *name, const char *value, const char *where, eitp_error *error);

/* Where two commands have different options of one name, chooses that of this command. */
void option_prefer(option_name *found, unsigned command);

/* The help of an option in a command. */
const char *option_help(option_id id, unsigned command);

/* Compares names; '_' equals '-'. `size` is the length of b. */
int option_names_equal(const char *a, const char *b, size_t size);

/* The next word of a list of words separated by spaces; 0 at the end. */
int option_next_word(const char **list, const char **word, size_t *size);

/* The index of a word of a list, by any of its spellings, or -1. */
int option_find_choice(const char *words, const char *value);

/* The index of an option's choice, by any of its spellings, or -1. */
int option_find_value(const option_entry *row, const char *value);

/* The first spelling of a choice by its index; "" if there is none. */
void option_choice_name(const char *words, int64_t index, char *name, size_t size);

/* The first spellings of the choices, as "a, b or c" or with another separator. */
void option_list_choices(const char *words, const char *separator, const char *last, char *list, size_t size);

/* Fails with "unknown option" and suggests the nearest name. */
eitp_status option_fail_unknown(const option_set *o, const char *name, const char *where, eitp_error *error);

EITP_END_DECLARATIONS

#endif
