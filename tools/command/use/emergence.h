/* The output of eitp eval --emergence: a table, or a JSON object. */
#ifndef COMMAND_USE_EMERGENCE_H
#define COMMAND_USE_EMERGENCE_H

#include "options/options.h"
#include "use/trained_model.h"

EITP_BEGIN_DECLARATIONS

/* Fails for options that require --emergence without it, or if the directory of the --output file does not exist. */
eitp_status emergence_check(const option_set *o, eitp_error *error);

/* Measures a model that was opened with samples, prints the numbers, and writes them as JSON to the --output file.
   `samples` is the maximum number of samples; 0: the library's default. */
eitp_status emergence_print(const trained_model *m, const option_set *o, int64_t samples, eitp_error *error);

EITP_END_DECLARATIONS

#endif
