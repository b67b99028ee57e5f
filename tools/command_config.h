/* The names that configuration files of other programs give to options, by section. */
#ifndef COMMAND_CONFIG_H
#define COMMAND_CONFIG_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

/* Lists are of words separated by spaces; '_' and '-' are the same. */
typedef struct config_name {
    const char *sections; /* the names of the enclosing section; "": any section, or none */
    const char *names;    /* the names in it; "*": every name, in its subsections too */
    const char *option;   /* NULL: no effect. Several options take the elements of a list in turn. */
    const char *values;   /* "written=meaning ...": other values mean what they say; an empty meaning sets nothing */
    const char *reason;   /* why it has no effect */
} config_name;

/* The first entry with a section for a path of names separated by dots, or NULL. */
const config_name *config_find_in_section(const char *path);

/* The entry without a section for the last name of a path, or NULL. */
const config_name *config_find_anywhere(const char *path);

/* The number of options of an entry, and a copy of the index-th. */
size_t config_option_count(const config_name *name);
void config_option(const config_name *name, size_t index, char *option, size_t size);

/* The meaning of a value: a part of name->values, its length in *size. NULL if the value is not in the list. */
const char *config_meaning_of(const config_name *name, const char *value, size_t *size);

EITP_END_DECLARATIONS

#endif
