/* Progress lines on a terminal while data is opened, which may take long if it is packed. */
#ifndef COMMAND_DATA_OPENING_H
#define COMMAND_DATA_OPENING_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

typedef struct opening {
    const char *data;      /* name of the data being read */
    double started, shown; /* time when packing started, and of its last line */
    int reads_data;        /* reading data, not the model or its tokenizer */
    char stage[200];       /* the last line that was not about reading; empty: none */
} opening;

/* Callback for eitp_recipe.progress; its user is an opening. Cancels on a signal that stops the command. */
int opening_show(void *user, const eitp_training_progress *progress);

EITP_END_DECLARATIONS

#endif
