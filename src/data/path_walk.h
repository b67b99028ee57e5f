/* Walks all files named by a list of paths, in a fixed order. */
#ifndef EITP_PATH_WALK_H
#define EITP_PATH_WALK_H

#include "base/memory.h"

/* Maximum depth of directories below a listed path; a symbolic link to a parent would make the walk endless. */
enum { EITP__PATH_WALK_DEPTH = 32 };

/* A directory being walked. */
typedef struct eitp__path_walk_level {
    char *path;
    eitp__buffer names; /* sorted, each zero-terminated */
    size_t next;        /* offset of the next name */
} eitp__path_walk_level;

typedef struct eitp__path_walk {
    const eitp_host *host;
    const char *const *paths;
    size_t path_count;
    size_t next_path;
    int has_input; /* the listed path "-" is the program's input, not a file */
    eitp__path_walk_level levels[EITP__PATH_WALK_DEPTH + 1];
    size_t depth;
    /* The current file. */
    char *path;
    int is_listed; /* a listed path, not found in a directory */
    uint64_t size; /* in bytes */
} eitp__path_walk;

/* `host` and `paths` are not copied. */
EITP__PRIVATE void eitp__path_walk_init(eitp__path_walk *walk, const eitp_host *host, const char *const *paths,
                                        size_t path_count);

/*
 * Finds the next file; walk->path is NULL after the last. A directory stands for all regular files in it and below it,
 * in the byte order of their names, level by level; other entries are skipped. A listed path that does not exist, or is
 * neither a file nor a directory, is an error.
 */
EITP__PRIVATE eitp_status eitp__path_walk_next(eitp__path_walk *walk, eitp_error *error);

EITP__PRIVATE void eitp__path_walk_release(eitp__path_walk *walk);

#endif
