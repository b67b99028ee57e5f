/* The texts that a command reads, one after another: of --data, or --text. */
#ifndef COMMAND_DATA_EXAMPLES_H
#define COMMAND_DATA_EXAMPLES_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

typedef struct examples examples;

/* Opens the texts that the options name. Fails if they name none. `every_row` is that of eitp_table_config. */
eitp_status examples_open(const option_set *o, int every_row, examples **opened, eitp_error *error);

/* Where to read them. */
eitp_example_source examples_source(examples *e);

/* How the tables of an option are read: --data-format, --encoding, the columns and what else says so. */
eitp_table_config examples_config(const option_set *o, option_id id);

/* NULL is harmless. */
void examples_close(examples *e);

EITP_END_DECLARATIONS

#endif
