/* The samples that a command reads, one after another, from --data or --text. */
#ifndef COMMAND_DATA_EXAMPLES_H
#define COMMAND_DATA_EXAMPLES_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

typedef struct examples examples;

/* Opens the samples that the options name. Fails if they name none. `every_row`: see eitp_table_config. */
eitp_status examples_open(const option_set *o, int every_row, examples **opened, eitp_error *error);

/* Returns the source to read them from. */
eitp_example_source examples_source(examples *e);

/* Returns how the tables of an option are read, from --data-format, --encoding, the columns and similar options. */
eitp_table_config examples_config(const option_set *o, option_id id);

/* Closes the samples. Accepts NULL. */
void examples_close(examples *e);

EITP_END_DECLARATIONS

#endif
