#include "data/permissions.h"

#include "data/listing.h"
#include "files.h"

#include <sys/stat.h>
#include <unistd.h>

/* Mode bits for group and others: the permission to read all text so far, and the files to be written. */
typedef struct readers {
    mode_t bits;
    gid_t group; /* of the files to be written */
} readers;

/* For members of a group other than the text file's, the permissions of others apply. */
static void add_text(readers *r, const struct stat *text) {
    const mode_t others = text->st_mode & 07, group = text->st_mode & 070;
    r->bits &= others | (text->st_gid == r->group ? group : others << 3);
}

static void add_file(void *user, const char *path, const eitp_path_info *info) {
    struct stat text;
    (void)info;
    if (!stat(path, &text))
        add_text((readers *)user, &text);
}

/* Returns the group of files created in the directory of a path. */
static gid_t group_of_new(const char *path) {
    struct stat directory;
    char *parent = files_parent(path);
    const int has_own = !stat(parent, &directory) && (directory.st_mode & S_ISGID);
    free(parent);
    return has_own ? directory.st_gid : getegid();
}

mode_t permissions_lower(const option_set *o, option_id id, const char *path) {
    const option_value *paths = &o->values[id];
    readers r;
    mode_t before;
    r.bits = 077;
    r.group = group_of_new(path);
    for (size_t i = 0; i < paths->count; i++) {
        struct stat input;
        if (strcmp(paths->texts[i], "-"))
            listing_visit(paths->texts[i], add_file, &r);
        else if (!fstat(STDIN_FILENO, &input) && S_ISREG(input.st_mode))
            add_text(&r, &input);
    }
    before = umask(077);
    umask(before | (077 & ~r.bits));
    return before;
}

void permissions_restore(mode_t before) {
    umask(before);
}
