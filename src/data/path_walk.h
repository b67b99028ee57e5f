/* Every file that a list of paths means, in a fixed order. */
#ifndef EITP_PATH_WALK_H
#define EITP_PATH_WALK_H

#include "base/memory.h"

/* Directories below a path of the list; deeper is an error, as a symbolic link to a parent would make it endless. */
enum { EITP__PATH_WALK_DEPTH = 32 };

/* A directory that is being gone through. */
typedef struct eitp__path_walk_level {
    char *path;
    eitp__buffer names; /* sorted, each with its zero byte */
    size_t next;        /* where the next name begins */
} eitp__path_walk_level;

typedef struct eitp__path_walk {
    const eitp_host *host;
    const char *const *paths;
    size_t path_count;
    size_t next_path;
    eitp__path_walk_level levels[EITP__PATH_WALK_DEPTH + 1];
    size_t depth;
    /* What was found last. */
    char *path;
    int named;     /* it is a path of the list, not found within a directory */
    uint64_t size; /* bytes */
} eitp__path_walk;

/* `host` and `paths` are not copied. */
EITP__PRIVATE void eitp__path_walk_init(eitp__path_walk *walk, const eitp_host *host, const char *const *paths,
                                        size_t path_count);

/*
 * Finds the next file; walk->path is NULL after the last. A regular file of the list is itself; a directory is every
 * regular file in it and below it, sorted by the bytes of the names level by level, and what is neither is passed over.
 * A path of the list that is missing or neither is an error.
 */
EITP__PRIVATE eitp_status eitp__path_walk_next(eitp__path_walk *walk, eitp_error *error);

EITP__PRIVATE void eitp__path_walk_release(eitp__path_walk *walk);

#endif
