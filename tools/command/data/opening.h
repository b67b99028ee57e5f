/* The lines on a terminal while data are opened, which may take long where texts are packed. */
#ifndef COMMAND_DATA_OPENING_H
#define COMMAND_DATA_OPENING_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

typedef struct opening {
    const char *data;      /* what is read */
    double started, shown; /* when packing began, and its last line */
    int reads_data;        /* data are being read, not the model or its tokenizer */
} opening;

/* eitp_recipe.progress, whose user is an opening. Ends on a signal that stops the command. */
int opening_show(void *user, const eitp_training_progress *progress);

EITP_END_DECLARATIONS

#endif
