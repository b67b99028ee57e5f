/* Reads YAML of names and plain values with libyaml, which is loaded at run time and not needed to build. */
#ifndef COMMAND_OPTIONS_YAML_H
#define COMMAND_OPTIONS_YAML_H

#include "options/json.h"

EITP_BEGIN_DECLARATIONS

/* True if the name of a file ends in .yaml or .yml. */
int yaml_is_name(const char *path);

/*
 * Like json_read_file, for one YAML document that is a mapping. Plain values are resolved as in YAML 1.2's core schema;
 * yes, no, on and off are strings that can be read as booleans. Returns EITP_ERROR_FORMAT, with file and line, for
 * features that JSON lacks (aliases, merge keys, tags other than !!str), names given twice in a mapping, and invalid
 * YAML. Returns EITP_ERROR_UNSUPPORTED if libyaml cannot be opened: libyaml-0.so.2, or the file named by EITP_LIBYAML.
 */
eitp_status yaml_read_file(const char *path, const char *skipped, json_visitor visit, void *user, eitp_error *error);

EITP_END_DECLARATIONS

#endif
