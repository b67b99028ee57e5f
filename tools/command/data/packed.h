/* Finding what the texts of a run were packed into. */
#ifndef COMMAND_DATA_PACKED_H
#define COMMAND_DATA_PACKED_H

#include "options/options.h"

EITP_BEGIN_DECLARATIONS

/* The run whose packed data are looked for. */
typedef struct packed_owner {
    const option_set *options;
    uint64_t hash;                   /* of its training data, from the checkpoint */
    const eitp_tokenizer *tokenizer; /* NULL: any */
    const char *training;            /* the packed training data; NULL: unknown */
} packed_owner;

/* True if the packed file `path` may have the data of a run's --data or --val-data (`id`). `reads_all`: all of it is
   read, to find damage. */
typedef int (*packed_test)(const packed_owner *owner, option_id id, const char *path, int reads_all);

/* That of token files, and that of labelled files: the training data must be those of the checkpoint. It does not name
   the validation data: any other file of the same tokenizer is theirs. */
int packed_has_tokens(const packed_owner *owner, option_id id, const char *path, int reads_all);
int packed_has_samples(const packed_owner *owner, option_id id, const char *path, int reads_all);

/* The path of the file in `directory` that the texts were packed into, which the caller frees; NULL: there is none. */
char *packed_find(const packed_owner *owner, option_id id, const char *directory, packed_test has_data);

/* The part of a run's training data that is held out for validation. */
double packed_held_fraction(const option_set *o);

/* True if a file or directory that an option names is missing. */
int packed_lacks_text(const option_set *o, option_id id);

EITP_END_DECLARATIONS

#endif
