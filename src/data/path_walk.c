#include "data/path_walk.h"

#include "base/files.h"

EITP__PRIVATE void eitp__path_walk_init(eitp__path_walk *walk, const eitp_host *host, const char *const *paths,
                                        size_t path_count) {
    memset(walk, 0, sizeof *walk);
    walk->host = host;
    walk->paths = paths;
    walk->path_count = path_count;
}

static void eitp__path_walk_leave(eitp__path_walk *walk) {
    eitp__path_walk_level *level = &walk->levels[--walk->depth];
    eitp__buffer_release(&level->names);
    eitp__release_text(walk->host, level->path);
    level->path = NULL;
}

/* Enters the directory in walk->path. */
static eitp_status eitp__path_walk_enter(eitp__path_walk *walk, eitp_error *error) {
    if (walk->depth == EITP__COUNT(walk->levels))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s: directories are nested more than %d deep, perhaps through a symbolic link to a "
                          "parent; remove the link or name the files themselves",
                          walk->path, (int)EITP__PATH_WALK_DEPTH);
    eitp__path_walk_level *level = &walk->levels[walk->depth++];
    size_t count = 0;
    level->path = walk->path;
    level->next = 0;
    walk->path = NULL;
    eitp__buffer_init(&level->names, walk->host);
    return eitp__list_directory(walk->host, level->path, &level->names, &count, error);
}

/* Stores the next path, of any kind, in walk->path; NULL after the last. */
static eitp_status eitp__path_walk_step(eitp__path_walk *walk, eitp_error *error) {
    eitp__release_text(walk->host, walk->path);
    walk->path = NULL;
    while (walk->depth && walk->levels[walk->depth - 1].next == walk->levels[walk->depth - 1].names.size)
        eitp__path_walk_leave(walk);
    if (!walk->depth && walk->next_path == walk->path_count)
        return EITP_OK;
    if (walk->depth) {
        eitp__path_walk_level *level = &walk->levels[walk->depth - 1];
        const char *name = level->names.data + level->next;
        level->next += strlen(name) + 1;
        walk->path = eitp__join_path(walk->host, level->path, name);
        walk->is_listed = 0;
    } else {
        walk->path = eitp__copy_text(walk->host, walk->paths[walk->next_path++]);
        walk->is_listed = 1;
    }
    return walk->path ? EITP_OK : eitp__fail_memory(error, 256, "the path of a file");
}

EITP__PRIVATE eitp_status eitp__path_walk_next(eitp__path_walk *walk, eitp_error *error) {
    for (;;) {
        eitp_path_info info = EITP__ZERO;
        eitp_status status = eitp__path_walk_step(walk, error);
        if (status != EITP_OK || !walk->path)
            return status;
        if (walk->has_input && walk->is_listed && !strcmp(walk->path, "-")) {
            walk->size = 0;
            return EITP_OK;
        }
        status = eitp__path_info(walk->host, walk->path, &info, error);
        if (status == EITP_OK && info.kind == EITP_PATH_FILE) {
            walk->size = info.size;
            return EITP_OK;
        }
        if (status == EITP_OK && info.kind == EITP_PATH_DIRECTORY)
            status = eitp__path_walk_enter(walk, error);
        else if (status == EITP_OK && walk->is_listed)
            status = eitp__fail(error, EITP_ERROR_ARGUMENT, "%s: %s; give a file or a directory", walk->path,
                                info.kind == EITP_PATH_MISSING ? "no such file or directory"
                                                               : "neither a file nor a directory");
        if (status != EITP_OK)
            return status;
    }
}

EITP__PRIVATE void eitp__path_walk_release(eitp__path_walk *walk) {
    while (walk->depth)
        eitp__path_walk_leave(walk);
    eitp__release_text(walk->host, walk->path);
    memset(walk, 0, sizeof *walk);
}
