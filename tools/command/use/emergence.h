/* What eitp eval --emergence prints: a table, or a JSON object. */
#ifndef COMMAND_USE_EMERGENCE_H
#define COMMAND_USE_EMERGENCE_H

#include "options/options.h"
#include "use/trained_model.h"

EITP_BEGIN_DECLARATIONS

/* Fails if there are options for --emergence without it, or the file of --output has no directory. */
eitp_status emergence_check(const option_set *o, eitp_error *error);

/* Measures a model that was opened with samples, prints the numbers, and writes their JSON to the file of --output.
   `samples`: at most so many; 0: the library's default. */
eitp_status emergence_print(const trained_model *m, const option_set *o, int64_t samples, eitp_error *error);

EITP_END_DECLARATIONS

#endif
