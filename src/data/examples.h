/* Examples: texts with their labels, as a table, a program or a labelled file's writer sees them. */
#ifndef EITP_EXAMPLES_H
#define EITP_EXAMPLES_H

#include "data/data.h"

EITP_BEGIN_DECLARATIONS

/* A text, or a pair of texts, with its labels. What it points to is valid until the next example is read. */
typedef struct eitp_example {
    eitp_text text;
    eitp_text pair;          /* the second text; bytes NULL: there is one text */
    const eitp_text *labels; /* label_count of them, as they are written: names, or numbers to predict */
    size_t label_count;      /* 0: none */
    int labels_are_list;     /* they come from a list, so that an example may have several, or none of those it could */
    const char *path;        /* the file that it is from, for messages; NULL: none */
    uint64_t line, column;   /* its place there, from 1; 0: unknown */
} eitp_example;

/* Examples that are read one after another. Belongs to one thread at a time. */
typedef struct eitp_example_source {
    void *user;
    /* Stores the next example in *example; *is_end is 1, and *example unchanged, after the last one. */
    eitp_status (*read)(void *user, eitp_example *example, int *is_end, eitp_error *error);
} eitp_example_source;

EITP_END_DECLARATIONS

#endif
