/* Names used by other programs for options of eitp, on their command lines and, by section, in their files. */
#ifndef COMMAND_OPTIONS_FOREIGN_NAMES_H
#define COMMAND_OPTIONS_FOREIGN_NAMES_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

/* Lists are words separated by spaces; '_' equals '-'. */
typedef struct config_name {
    /* The innermost enclosing section, or all of them with dots between; "": any section, none, or the command line. */
    const char *sections;
    const char *names; /* "*": every name in the sections and in sections inside them */
    /* NULL: accepted without effect. Or CONFIG_REFUSED, CONFIG_STEP_SEQUENCES. Several options: element i of a list
       sets option i. */
    const char *option;
    /* "written=meaning ..."; other values mean themselves. "" sets nothing, and "~value" is a flag turned off: see
       SOURCE_SUGGESTION. For CONFIG_REFUSED: the values that are accepted. */
    const char *values;
    const char *reason; /* the reason why it has no effect or is refused */
} config_name;

#define CONFIG_REFUSED "!"
#define CONFIG_STEP_SEQUENCES "=" /* batch-size x grad-accum: option_set.step_sequences */

/* Returns the first entry with a section that matches a dot-separated path of names, or NULL. */
const config_name *config_find_in_section(const char *path);

/* Returns the entry without a section for the last name of a path, or NULL. */
const config_name *config_find_anywhere(const char *path);

/* Returns the number of options of an entry; the second function copies the one at an index. */
size_t config_option_count(const config_name *name);
void config_option(const config_name *name, size_t index, char *option, size_t size);

/* Returns the meaning of a value: a part of name->values, with its length in *size. NULL if the list does not have
   it. */
const char *config_meaning_of(const config_name *name, const char *value, size_t *size);

/* Returns the section of a path to which an entry for all names ("*") applies, with its length in *size. */
const char *config_section_of(const config_name *name, const char *path, size_t *size);

EITP_END_DECLARATIONS

#endif
