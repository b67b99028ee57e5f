/* The table of options: what each is, its names, and the choices of its values. */
#ifndef COMMAND_OPTION_TABLE_H
#define COMMAND_OPTION_TABLE_H

#include "command_options.h"

EITP_BEGIN_DECLARATIONS

typedef enum option_kind {
    KIND_FLAG,
    KIND_INTEGER,
    KIND_NUMBER,
    KIND_SIZE, /* bytes, read by parse_size */
    KIND_TEXT,
    KIND_LIST,
    KIND_CHOICE, /* `words` are the choices, those after a "=" other spellings of the one before */
    KIND_SETTING /* of the trainer: kind, bounds, choices and help are the library's */
} option_kind;

/* An option in full. */
typedef struct option_entry {
    char name[40], fallback[40], help[400];
    int has_fallback;
    option_kind kind;
    double low, high;
    const char *words; /* of a choice, as in option_row; else the name of the argument */
    const char *aliases;
    unsigned commands;
    int of_run;
    const eitp_setting *setting; /* the trainer's, or NULL */
    const char *spellings;       /* other ones of a setting's choices */
} option_entry;

/* Options are those of option_id, and after them settings of the trainer that have no name there. */
size_t option_count(void);
const option_entry *option_of(option_id id);

/* The option that stands at a place of lists: those without a name in option_id are among the trainer's. */
option_id option_at(size_t place);

/* The option of a name, or OPTION_CAPACITY; an alias with a value of its own stores it in *value. */
option_id option_find(const char *name, char *value, size_t value_size);

/* Whether a name is one that is accepted and ignored, and whether a value follows it. */
int option_find_ignored(const char *name, int *has_value);

/* The help of an option in a command. */
const char *option_help(option_id id, unsigned command);

/* Compares names; '_' is '-'. `size` limits b. */
int option_names_equal(const char *a, const char *b, size_t size);

/* The next word of a list of words separated by spaces; 0 at the end. */
int option_next_word(const char **list, const char **word, size_t *size);

/* The place of a choice, by any of its spellings; -1: none. */
int option_find_choice(const char *words, const char *value);

/* The first spellings of the choices, as "a, b or c" or with another separator. */
void option_list_choices(const char *words, const char *separator, const char *last, char *list, size_t size);

/* Levenshtein distance of a and b[0 .. b_size); '_' is '-'. 63 for names longer than that. */
size_t option_name_distance(const char *a, const char *b, size_t b_size);

/* Fails with "unknown option", and suggests the nearest name. */
eitp_status option_fail_unknown(const option_set *o, const char *name, const char *where, eitp_error *error);

EITP_END_DECLARATIONS

#endif
