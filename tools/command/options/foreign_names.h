/* Names that other programs' options and configuration files have for options of eitp, by section. */
#ifndef COMMAND_OPTIONS_FOREIGN_NAMES_H
#define COMMAND_OPTIONS_FOREIGN_NAMES_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

/* Lists are words separated by spaces; '_' equals '-'. */
typedef struct config_name {
    /* The innermost enclosing section, or all of them with dots between; "": any section, none, or the command line. */
    const char *sections;
    const char *names; /* "*": every name in the sections and in sections inside them */
    /* NULL: accepted without effect. CONFIG_REFUSED or CONFIG_STEP_SEQUENCES. Several options are set from the elements
       of a list in turn. */
    const char *option;
    /* "written=meaning ..."; other values mean themselves. "" sets nothing, and "~value" is a flag turned off: see
       SOURCE_SUGGESTION. Of CONFIG_REFUSED: the values that are accepted. */
    const char *values;
    const char *reason; /* why it has no effect, or is refused */
} config_name;

#define CONFIG_REFUSED "!"
#define CONFIG_STEP_SEQUENCES "=" /* batch-size x grad-accum: option_set.step_sequences */

/* The first entry with a section that matches a path of names separated by dots, or NULL. */
const config_name *config_find_in_section(const char *path);

/* The entry without a section for the last name of a path, or NULL. */
const config_name *config_find_anywhere(const char *path);

/* The number of options of an entry, and a copy of the one at an index. */
size_t config_option_count(const config_name *name);
void config_option(const config_name *name, size_t index, char *option, size_t size);

/* The meaning of a value: a part of name->values, its length in *size. NULL if the value is not in the list. */
const char *config_meaning_of(const config_name *name, const char *value, size_t *size);

/* The section in a path that an entry for all names ("*") is about, its length in *size. */
const char *config_section_of(const config_name *name, const char *path, size_t *size);

EITP_END_DECLARATIONS

#endif
