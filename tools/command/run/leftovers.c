#include "run/leftovers.h"

#include "files.h"

static void add_name(leftovers *l, const char *name) {
    l->names = (char **)command_resize(l->names, (l->count + 1) * sizeof *l->names);
    l->names[l->count++] = command_copy(name);
}

static int visit(void *user, const char *name) {
    add_name((leftovers *)user, name);
    return 0;
}

static void list_names(leftovers *l) {
    const eitp_host host = command_host();
    host.files.list(host.files.user, l->directory, visit, l);
}

static void release(leftovers *l) {
    for (size_t i = 0; i < l->count; i++)
        free(l->names[i]);
    free(l->names);
    free(l->directory);
    memset(l, 0, sizeof *l);
}

void leftovers_begin(leftovers *l, const char *output_directory) {
    release(l);
    l->directory = files_join(output_directory, "data");
    l->existed = files_info(l->directory).kind == EITP_PATH_DIRECTORY;
    list_names(l);
}

static int has_name(const leftovers *l, const char *name) {
    for (size_t i = 0; i < l->count; i++) {
        if (!strcmp(l->names[i], name))
            return 1;
    }
    return 0;
}

void leftovers_remove(leftovers *l) {
    leftovers now = {NULL, 0, NULL, 0};
    if (!l->directory)
        return;
    now.directory = command_copy(l->directory);
    list_names(&now);
    for (size_t i = 0; i < now.count; i++) {
        char *path = files_join(now.directory, now.names[i]);
        if (!has_name(l, now.names[i]))
            files_remove(path);
        free(path);
    }
    if (!l->existed)
        files_remove(l->directory);
    release(&now);
    release(l);
}
