#include "data/listing.h"

#include "files.h"

enum { MOST_DEPTH = 32 };

typedef struct listing {
    void (*visit)(void *user, const char *path, const eitp_path_info *info);
    void *user;
    char *path;
    int depth;
    int is_too_deep; /* probably a link to a parent, which packing reports */
} listing;

static int list_path(listing *list);

static int list_entry(void *user, const char *name) {
    listing *list = (listing *)user;
    char *parent = list->path;
    list->path = files_join(parent, name);
    list->depth++;
    list_path(list);
    list->depth--;
    free(list->path);
    list->path = parent;
    return list->is_too_deep;
}

static int list_path(listing *list) {
    const eitp_host host = command_host();
    const eitp_path_info info = files_info(list->path);
    list->is_too_deep |= list->depth > MOST_DEPTH;
    if (info.kind == EITP_PATH_DIRECTORY && !list->is_too_deep)
        return host.files.list(host.files.user, list->path, list_entry, list);
    if (info.kind == EITP_PATH_FILE)
        list->visit(list->user, list->path, &info);
    return 0;
}

void listing_visit(const char *path, void (*visit)(void *user, const char *path, const eitp_path_info *info),
                   void *user) {
    listing list;
    list.visit = visit;
    list.user = user;
    list.path = command_copy(path);
    list.depth = list.is_too_deep = 0;
    list_path(&list);
    free(list.path);
}
