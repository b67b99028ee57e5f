/*
 * An in-memory file system that models the state of a disk after a power loss.
 *
 * Processes see the cache, which holds the latest writes. `sync` makes the content of a file durable, `sync_directory`
 * the names in a directory. Before that, a disk may have stored any part of either, in any order. disk_crash creates a
 * disk that a machine may find when it restarts.
 */
#ifndef EITP_TEST_SIMULATED_DISK_H
#define EITP_TEST_SIMULATED_DISK_H

#include "base/checksum.h"
#include "base/files.h"
#include "base/worker.h"
#include "test.h"

#include <stdlib.h>
#if EITP__WITH_WORKER
#include <pthread.h>
#endif

#define DISK_UNUSED __attribute__((unused))

enum { DISK_PAGE = 4096, DISK_NAME = 96, DISK_ROOT = 0 };

/* A file or directory. Its names are directory entries. */
typedef struct disk_node {
    int is_directory, is_locked;
    char target[DISK_NAME];       /* of a symbolic link: a name in its directory; otherwise empty */
    unsigned char *data, *stored; /* of a file: cached and durable content, both of `capacity` bytes */
    unsigned char *dirty;         /* for each page: written since the last sync */
    uint64_t size, stored_size, capacity;
    uint64_t kept; /* bytes of `stored` that were never truncated since; beyond them the disk allocated new space */
    int64_t modified;
} disk_node;

typedef struct disk_entry {
    int directory, node; /* indices of nodes */
    char name[DISK_NAME];
} disk_entry;

typedef struct disk_entries {
    disk_entry *list;
    size_t count, capacity;
} disk_entries;

typedef enum disk_change_kind { DISK_ADD, DISK_REMOVE, DISK_RENAME, DISK_EXCHANGE } disk_change_kind;

/* A change of names that is not durable yet. */
typedef struct disk_change {
    disk_change_kind kind;
    disk_entry entry;  /* the entry added, removed or to be renamed, or one of two exchanged */
    disk_entry target; /* the entry after a rename; or the other one exchanged, each with its node after the exchange */
} disk_change;

typedef struct disk_handle {
    int node, can_write;
} disk_handle;

typedef struct disk {
    disk_node *nodes;
    size_t node_count, node_capacity;
    disk_entries cache, stored;
    disk_change *changes; /* in order */
    size_t change_count, change_capacity;
    int open_files, locks;
    int64_t clock;
    int ignores_sync, ignores_sync_directory; /* simulated defects: calls that do nothing */
    /* Called before each change of the cache, and in the middle of writes of several pages. */
    void (*before_change)(void *user, const struct disk *d);
    void *user;
#if EITP__WITH_WORKER
    pthread_mutex_t mutex;
#endif
} disk;

/* The unsynced data that survive a crash. */
typedef enum disk_loss {
    DISK_LOSE_ALL,    /* nothing */
    DISK_LOSE_NONE,   /* everything, as if only the process had been killed */
    DISK_LOSE_DATA,   /* all names and sizes, but no data: pages are zero */
    DISK_LOSE_TAIL,   /* names of an earlier moment; any sizes; pages are new or zero */
    DISK_LOSE_RANDOM, /* any names, any sizes, pages that are new, old or zero */
    DISK_LOSSES
} disk_loss;

/* ---- Memory of the test itself, which must not fail ---- */

static DISK_UNUSED void *disk_grow(void *array, size_t *capacity, size_t needed, size_t size) {
    size_t grown = *capacity ? *capacity : 16;
    if (needed <= *capacity)
        return array;
    while (grown < needed)
        grown *= 2;
    array = realloc(array, grown * size);
    if (!array) {
        printf("    out of memory for the simulated disk\n");
        abort();
    }
    memset((char *)array + *capacity * size, 0, (grown - *capacity) * size);
    *capacity = grown;
    return array;
}

static DISK_UNUSED void disk_lock(disk *d) {
#if EITP__WITH_WORKER
    pthread_mutex_lock(&d->mutex);
#else
    (void)d;
#endif
}

static DISK_UNUSED void disk_unlock(disk *d) {
#if EITP__WITH_WORKER
    pthread_mutex_unlock(&d->mutex);
#else
    (void)d;
#endif
}

/* ---- Nodes and names ---- */

static DISK_UNUSED int disk_add_node(disk *d, int is_directory) {
    d->nodes = (disk_node *)disk_grow(d->nodes, &d->node_capacity, d->node_count + 1, sizeof *d->nodes);
    memset(&d->nodes[d->node_count], 0, sizeof *d->nodes);
    d->nodes[d->node_count].is_directory = is_directory;
    return (int)d->node_count++;
}

/* Returns the entry's index, or -1 if there is none. */
static DISK_UNUSED int disk_find(const disk_entries *entries, int directory, const char *name) {
    for (size_t i = 0; i < entries->count; i++) {
        if (entries->list[i].directory == directory && !strcmp(entries->list[i].name, name))
            return (int)i;
    }
    return -1;
}

static DISK_UNUSED void disk_forget(disk_entries *entries, int directory, const char *name) {
    const int at = disk_find(entries, directory, name);
    if (at >= 0)
        entries->list[at] = entries->list[--entries->count];
}

/* Adds an entry, replacing one with the same name. */
static DISK_UNUSED void disk_enter(disk_entries *entries, const disk_entry *entry) {
    disk_forget(entries, entry->directory, entry->name);
    entries->list =
        (disk_entry *)disk_grow(entries->list, &entries->capacity, entries->count + 1, sizeof *entries->list);
    entries->list[entries->count++] = *entry;
}

static DISK_UNUSED void disk_apply(disk_entries *entries, const disk_change *change) {
    disk_forget(entries, change->entry.directory, change->entry.name);
    if (change->kind == DISK_ADD || change->kind == DISK_EXCHANGE)
        disk_enter(entries, &change->entry);
    if (change->kind == DISK_RENAME || change->kind == DISK_EXCHANGE)
        disk_enter(entries, &change->target);
}

/* Changes names in the cache. */
static DISK_UNUSED void disk_change_names(disk *d, disk_change_kind kind, const disk_entry *entry,
                                          const disk_entry *target) {
    disk_change change;
    memset(&change, 0, sizeof change);
    change.kind = kind;
    change.entry = *entry;
    if (target)
        change.target = *target;
    if (d->before_change)
        d->before_change(d->user, d);
    disk_apply(&d->cache, &change);
    d->changes = (disk_change *)disk_grow(d->changes, &d->change_capacity, d->change_count + 1, sizeof change);
    d->changes[d->change_count++] = change;
}

/* Returns the node of an entry with that name, following links, or -1 if there is none. */
static DISK_UNUSED int disk_follow(const disk *d, int directory, const char *name) {
    for (int links = 0; links < 8; links++) {
        const int at = disk_find(&d->cache, directory, name);
        if (at < 0)
            return -1;
        name = d->nodes[d->cache.list[at].node].target;
        if (!*name)
            return d->cache.list[at].node;
    }
    return -1;
}

/* Finds the directory of a path and the last name. Sets entry->node to -1 if it does not exist. If `follows`, resolves
   a link in the last name. */
static DISK_UNUSED int disk_walk(const disk *d, const char *path, int follows, disk_entry *entry) {
    memset(entry, 0, sizeof *entry);
    entry->node = DISK_ROOT;
    while (*path == '/')
        path++;
    while (*path) {
        const size_t length = strcspn(path, "/");
        int at;
        if (length == 1 && *path == '.') {
            path += 1 + strspn(path + 1, "/");
            continue;
        }
        if (length >= DISK_NAME)
            return ENAMETOOLONG;
        if (entry->node < 0)
            return ENOENT;
        if (!d->nodes[entry->node].is_directory)
            return ENOTDIR;
        entry->directory = entry->node;
        memcpy(entry->name, path, length);
        entry->name[length] = 0;
        at = disk_find(&d->cache, entry->directory, entry->name);
        entry->node = at < 0 ? -1 : d->cache.list[at].node;
        for (path += length; *path == '/';)
            path++;
        if (entry->node >= 0 && (*path || follows))
            entry->node = disk_follow(d, entry->directory, entry->name);
    }
    return 0;
}

static DISK_UNUSED int disk_is_empty(const disk *d, int directory) {
    for (size_t i = 0; i < d->cache.count; i++) {
        if (d->cache.list[i].directory == directory)
            return 0;
    }
    return 1;
}

/* ---- Content ---- */

static DISK_UNUSED uint64_t disk_pages(uint64_t size) {
    return (size + DISK_PAGE - 1) / DISK_PAGE;
}

static DISK_UNUSED void disk_reserve(disk_node *node, uint64_t size) {
    const uint64_t needed = disk_pages(size) * DISK_PAGE;
    uint64_t grown = node->capacity ? node->capacity : DISK_PAGE;
    size_t data = (size_t)node->capacity, stored = data, dirty = data / DISK_PAGE;
    if (needed <= node->capacity)
        return;
    while (grown < needed)
        grown *= 2;
    node->data = (unsigned char *)disk_grow(node->data, &data, (size_t)grown, 1);
    node->stored = (unsigned char *)disk_grow(node->stored, &stored, (size_t)grown, 1);
    node->dirty = (unsigned char *)disk_grow(node->dirty, &dirty, (size_t)grown / DISK_PAGE, 1);
    node->capacity = grown;
}

static DISK_UNUSED void disk_set_size(disk *d, disk_node *node, uint64_t size) {
    disk_reserve(node, size);
    if (size < node->size)
        memset(node->data + size, 0, (size_t)(node->size - size));
    for (uint64_t page = size / DISK_PAGE; page < disk_pages(node->size) && size != node->size; page++)
        node->dirty[page] = 1;
    node->size = size;
    if (size < node->kept)
        node->kept = size;
    node->modified = ++d->clock;
}

static DISK_UNUSED void disk_put(disk *d, disk_node *node, uint64_t offset, const void *data, size_t size) {
    disk_reserve(node, offset + size);
    if (size)
        memcpy(node->data + offset, data, size);
    for (uint64_t page = offset / DISK_PAGE; page < disk_pages(offset + size); page++)
        node->dirty[page] = 1;
    if (offset + size > node->size)
        node->size = offset + size;
    node->modified = ++d->clock;
}

static DISK_UNUSED void disk_store(disk_node *node) {
    if (node->capacity) {
        memcpy(node->stored, node->data, (size_t)node->capacity);
        memset(node->dirty, 0, (size_t)(node->capacity / DISK_PAGE));
    }
    node->stored_size = node->kept = node->size;
}

/* ---- The file table ---- */

static DISK_UNUSED int disk_open_node(disk *d, const char *path, eitp_file_mode mode, int *node) {
    disk_entry entry;
    int code = disk_walk(d, path, mode != EITP_FILE_REPLACE, &entry);
    if (code)
        return code;
    if (entry.node >= 0 && d->nodes[entry.node].is_directory)
        return EISDIR;
    if (entry.node < 0 && mode == EITP_FILE_READ)
        return ENOENT;
    if (entry.node >= 0 && mode == EITP_FILE_REPLACE) {
        disk_change_names(d, DISK_REMOVE, &entry, NULL);
        entry.node = -1;
    }
    if (entry.node < 0) {
        entry.node = disk_add_node(d, 0);
        disk_change_names(d, DISK_ADD, &entry, NULL);
    }
    *node = entry.node;
    return 0;
}

static DISK_UNUSED int disk_open(void *user, const char *path, eitp_file_mode mode, void **file) {
    disk *d = (disk *)user;
    disk_handle *handle;
    int node = -1, code;
    disk_lock(d);
    code = disk_open_node(d, path, mode, &node);
    if (!code) {
        handle = (disk_handle *)malloc(sizeof *handle);
        handle->node = node;
        handle->can_write = mode != EITP_FILE_READ;
        d->open_files++;
        *file = handle;
    }
    disk_unlock(d);
    return code;
}

static DISK_UNUSED int disk_close(void *user, void *file) {
    disk *d = (disk *)user;
    disk_lock(d);
    d->open_files--;
    disk_unlock(d);
    free(file);
    return 0;
}

static DISK_UNUSED int disk_size(void *user, void *file, uint64_t *size) {
    disk *d = (disk *)user;
    disk_lock(d);
    *size = d->nodes[((disk_handle *)file)->node].size;
    disk_unlock(d);
    return 0;
}

static DISK_UNUSED int disk_resize(void *user, void *file, uint64_t size) {
    disk *d = (disk *)user;
    const disk_handle *handle = (disk_handle *)file;
    if (!handle->can_write)
        return EBADF;
    disk_lock(d);
    if (d->before_change)
        d->before_change(d->user, d);
    disk_set_size(d, &d->nodes[handle->node], size);
    disk_unlock(d);
    return 0;
}

static DISK_UNUSED int disk_read(void *user, void *file, uint64_t offset, void *data, size_t size, size_t *done) {
    disk *d = (disk *)user;
    const disk_node *node;
    disk_lock(d);
    node = &d->nodes[((disk_handle *)file)->node];
    *done = offset >= node->size ? 0 : node->size - offset < size ? (size_t)(node->size - offset) : size;
    if (*done)
        memcpy(data, node->data + offset, *done);
    disk_unlock(d);
    return 0;
}

static DISK_UNUSED int disk_write(void *user, void *file, uint64_t offset, const void *data, size_t size,
                                  size_t *done) {
    disk *d = (disk *)user;
    const disk_handle *handle = (disk_handle *)file;
    const size_t half = size > DISK_PAGE ? size / 2 : 0;
    if (!handle->can_write)
        return EBADF;
    disk_lock(d);
    if (d->before_change)
        d->before_change(d->user, d);
    if (half) {
        disk_put(d, &d->nodes[handle->node], offset, data, half);
        if (d->before_change)
            d->before_change(d->user, d);
    }
    disk_put(d, &d->nodes[handle->node], offset + half, (const char *)data + half, size - half);
    *done = size;
    disk_unlock(d);
    return 0;
}

static DISK_UNUSED int disk_sync(void *user, void *file) {
    disk *d = (disk *)user;
    disk_lock(d);
    if (!d->ignores_sync)
        disk_store(&d->nodes[((disk_handle *)file)->node]);
    disk_unlock(d);
    return 0;
}

static DISK_UNUSED int disk_info(void *user, const char *path, eitp_path_info *info) {
    disk *d = (disk *)user;
    disk_entry entry;
    int code;
    disk_lock(d);
    memset(info, 0, sizeof *info);
    info->kind = EITP_PATH_MISSING;
    code = disk_walk(d, path, 0, &entry);
    info->is_link = !code && entry.node >= 0 && *d->nodes[entry.node].target;
    code = disk_walk(d, path, 1, &entry);
    if (!code && entry.node >= 0) {
        const disk_node *node = &d->nodes[entry.node];
        info->kind = node->is_directory ? EITP_PATH_DIRECTORY : EITP_PATH_FILE;
        info->size = node->size;
        info->modified = node->modified;
        info->identity = (uint64_t)entry.node + 1;
    }
    disk_unlock(d);
    return code == ENOENT || code == ENOTDIR ? 0 : code;
}

/* Adds a directory, or a link to a name in the same directory. */
static DISK_UNUSED int disk_add_path(disk *d, const char *path, const char *target) {
    disk_entry entry;
    int code;
    disk_lock(d);
    code = disk_walk(d, path, 0, &entry);
    if (!code && entry.node >= 0)
        code = EEXIST;
    if (!code) {
        entry.node = disk_add_node(d, !target);
        snprintf(d->nodes[entry.node].target, DISK_NAME, "%s", target ? target : "");
        disk_change_names(d, DISK_ADD, &entry, NULL);
    }
    disk_unlock(d);
    return code;
}

static DISK_UNUSED int disk_make_directory(void *user, const char *path) {
    return disk_add_path((disk *)user, path, NULL);
}

static DISK_UNUSED int disk_link(void *user, const char *target, const char *path) {
    if (strlen(target) >= DISK_NAME || strchr(target, '/'))
        return EINVAL; /* the model supports no others */
    return disk_add_path((disk *)user, path, target);
}

/* Makes the changes of a directory's names durable. A rename between directories is one change. */
static DISK_UNUSED void disk_store_names(disk *d, int directory) {
    size_t left = 0;
    for (size_t i = 0; i < d->change_count; i++) {
        const disk_change *change = &d->changes[i];
        if (change->entry.directory == directory ||
            ((change->kind == DISK_RENAME || change->kind == DISK_EXCHANGE) && change->target.directory == directory))
            disk_apply(&d->stored, change);
        else
            d->changes[left++] = *change;
    }
    d->change_count = left;
}

static DISK_UNUSED int disk_sync_directory(void *user, const char *path) {
    disk *d = (disk *)user;
    disk_entry entry;
    int code;
    disk_lock(d);
    code = disk_walk(d, path, 1, &entry);
    if (!code && entry.node < 0)
        code = ENOENT;
    if (!code && !d->nodes[entry.node].is_directory)
        code = ENOTDIR;
    if (!code && !d->ignores_sync_directory)
        disk_store_names(d, entry.node);
    disk_unlock(d);
    return code;
}

/* Checks the rules of rename() for an existing target. */
static DISK_UNUSED int disk_check_target(const disk *d, int from, int to) {
    if (to < 0 || to == from)
        return 0;
    if (!d->nodes[to].is_directory)
        return d->nodes[from].is_directory ? ENOTDIR : 0;
    if (!d->nodes[from].is_directory)
        return EISDIR;
    return disk_is_empty(d, to) ? 0 : ENOTEMPTY;
}

static DISK_UNUSED int disk_rename(void *user, const char *from, const char *to) {
    disk *d = (disk *)user;
    disk_entry entry, target;
    int code;
    disk_lock(d);
    code = disk_walk(d, from, 0, &entry);
    if (!code && entry.node < 0)
        code = ENOENT;
    if (!code)
        code = disk_walk(d, to, 0, &target);
    if (!code)
        code = disk_check_target(d, entry.node, target.node);
    if (!code) {
        target.node = entry.node;
        disk_change_names(d, DISK_RENAME, &entry, &target);
    }
    disk_unlock(d);
    return code;
}

static DISK_UNUSED int disk_exchange(void *user, const char *a, const char *b) {
    disk *d = (disk *)user;
    disk_entry first, second;
    int code;
    disk_lock(d);
    code = disk_walk(d, a, 0, &first);
    if (!code)
        code = disk_walk(d, b, 0, &second);
    if (!code && (first.node < 0 || second.node < 0))
        code = ENOENT;
    if (!code) {
        const int node = first.node;
        first.node = second.node;
        second.node = node;
        disk_change_names(d, DISK_EXCHANGE, &first, &second);
    }
    disk_unlock(d);
    return code;
}

/* The content of a removed file stays available through open handles. */
static DISK_UNUSED int disk_remove(void *user, const char *path) {
    disk *d = (disk *)user;
    disk_entry entry;
    int code;
    disk_lock(d);
    code = disk_walk(d, path, 0, &entry);
    if (!code && entry.node < 0)
        code = ENOENT;
    if (!code && d->nodes[entry.node].is_directory && !disk_is_empty(d, entry.node))
        code = ENOTEMPTY;
    if (!code)
        disk_change_names(d, DISK_REMOVE, &entry, NULL);
    disk_unlock(d);
    return code;
}

/* `visit` is called without the lock, with the names at the time of the call. */
static DISK_UNUSED int disk_list(void *user, const char *path, int (*visit)(void *visitor, const char *name),
                                 void *visitor) {
    disk *d = (disk *)user;
    disk_entry entry, *names = NULL;
    size_t count = 0, capacity = 0;
    int code;
    disk_lock(d);
    code = disk_walk(d, path, 1, &entry);
    if (!code)
        code = entry.node < 0 ? ENOENT : d->nodes[entry.node].is_directory ? 0 : ENOTDIR;
    for (size_t i = 0; i < d->cache.count && !code; i++) {
        if (d->cache.list[i].directory != entry.node)
            continue;
        names = (disk_entry *)disk_grow(names, &capacity, count + 1, sizeof *names);
        names[count++] = d->cache.list[i];
    }
    disk_unlock(d);
    for (size_t i = 0; i < count && !code; i++)
        code = visit(visitor, names[i].name);
    free(names);
    return code;
}

static DISK_UNUSED int disk_lock_path(void *user, const char *path, void **lock) {
    disk *d = (disk *)user;
    disk_entry entry;
    int code;
    disk_lock(d);
    code = disk_walk(d, path, 1, &entry);
    if (!code && entry.node < 0)
        code = ENOENT;
    if (!code && d->nodes[entry.node].is_locked)
        code = EWOULDBLOCK;
    if (!code) {
        d->nodes[entry.node].is_locked = 1;
        d->locks++;
        *lock = (void *)((intptr_t)entry.node + 1);
    }
    disk_unlock(d);
    return code;
}

static DISK_UNUSED void disk_unlock_path(void *user, void *lock) {
    disk *d = (disk *)user;
    disk_lock(d);
    d->nodes[(intptr_t)lock - 1].is_locked = 0;
    d->locks--;
    disk_unlock(d);
}

static DISK_UNUSED eitp_files disk_files(disk *d) {
    eitp_files files;
    memset(&files, 0, sizeof files);
    files.user = d;
    files.open = disk_open;
    files.close = disk_close;
    files.size = disk_size;
    files.resize = disk_resize;
    files.read = disk_read;
    files.write = disk_write;
    files.sync = disk_sync;
    files.info = disk_info;
    files.make_directory = disk_make_directory;
    files.sync_directory = disk_sync_directory;
    files.rename = disk_rename;
    files.remove = disk_remove;
    files.list = disk_list;
    files.link = disk_link;
    files.exchange = disk_exchange;
    files.lock = disk_lock_path;
    files.unlock = disk_unlock_path;
    return files;
}

/* ---- States that were tried ---- */

enum { DISK_TRIED = 1 << 16 };

/* Adds the hash of a state to the table. Returns 1 if it was already there. */
static DISK_UNUSED int disk_was_tried(uint64_t tried[DISK_TRIED], uint64_t hash) {
    size_t at = (size_t)(hash % DISK_TRIED);
    hash = hash ? hash : 1;
    for (size_t i = 0; i < DISK_TRIED && tried[at]; i++, at = (at + 1) % DISK_TRIED) {
        if (tried[at] == hash)
            return 1;
    }
    tried[at] = hash;
    return 0;
}

/* ---- Creating, copying, crashing ---- */

/* Creates an empty disk. It must not move. */
static DISK_UNUSED void disk_begin(disk *d) {
    memset(d, 0, sizeof *d);
#if EITP__WITH_WORKER
    pthread_mutex_init(&d->mutex, NULL);
#endif
    disk_add_node(d, 1);
}

static DISK_UNUSED void disk_end(disk *d) {
    CHECK_THAT(d->open_files == 0, "%d files of the simulated disk are open", d->open_files);
    CHECK_THAT(!d->locks, "%d files of the simulated disk are locked", d->locks);
    for (size_t i = 0; i < d->node_count; i++) {
        free(d->nodes[i].data);
        free(d->nodes[i].stored);
        free(d->nodes[i].dirty);
    }
    free(d->nodes);
    free(d->cache.list);
    free(d->stored.list);
    free(d->changes);
#if EITP__WITH_WORKER
    pthread_mutex_destroy(&d->mutex);
#endif
}

static DISK_UNUSED uint32_t disk_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* The state, after a crash, of a page that was written since the last sync. */
typedef enum disk_page_state { DISK_PAGE_OLD, DISK_PAGE_NEW, DISK_PAGE_ZERO } disk_page_state;

static DISK_UNUSED disk_page_state disk_choose_page(disk_loss loss, uint64_t *state) {
    const uint32_t choice = disk_random(state) % 3;
    if (loss == DISK_LOSE_RANDOM)
        return (disk_page_state)choice;
    if (loss == DISK_LOSE_NONE || (loss == DISK_LOSE_TAIL && choice == 0))
        return DISK_PAGE_NEW;
    return loss == DISK_LOSE_ALL ? DISK_PAGE_OLD : DISK_PAGE_ZERO;
}

/* Chooses the remaining content of a file. New space on the disk is zero until it is written. Earlier bytes are still
   there. */
static DISK_UNUSED void disk_crash_node(disk *d, int number, const disk_node *node, disk_loss loss, uint64_t *state) {
    disk_node *left = &d->nodes[number];
    const int has_new_size =
        loss == DISK_LOSE_NONE || loss == DISK_LOSE_DATA || (loss != DISK_LOSE_ALL && disk_random(state) % 2);
    const uint64_t size = has_new_size ? node->size : node->stored_size;
    disk_reserve(left, size);
    for (uint64_t page = 0; page < disk_pages(size); page++) {
        const uint64_t at = page * DISK_PAGE;
        const disk_page_state kind = disk_choose_page(loss, state);
        if (node->dirty[page] && kind == DISK_PAGE_NEW)
            memcpy(left->data + at, node->data + at, DISK_PAGE);
        else if (!node->dirty[page] || kind == DISK_PAGE_OLD)
            memcpy(left->data + at, node->stored + at, DISK_PAGE);
        else if (at < node->kept)
            memcpy(left->data + at, node->stored + at,
                   (size_t)(node->kept - at < DISK_PAGE ? node->kept - at : DISK_PAGE));
    }
    if (size < left->capacity)
        memset(left->data + size, 0, (size_t)(left->capacity - size));
    left->size = size;
    left->modified = node->modified;
    disk_store(left);
}

/* Keeps the entries that are reachable from the root. */
static DISK_UNUSED void disk_keep_reachable(disk *d, const disk *from, disk_loss loss, const disk_entries *entries,
                                            uint64_t *state) {
    int *numbers = (int *)malloc(from->node_count * sizeof *numbers), found = 1;
    for (size_t i = 0; i < from->node_count; i++)
        numbers[i] = -1;
    numbers[DISK_ROOT] = DISK_ROOT;
    while (found) {
        found = 0;
        for (size_t i = 0; i < entries->count; i++) {
            disk_entry entry = entries->list[i];
            const disk_node *node = &from->nodes[entry.node];
            if (numbers[entry.directory] < 0 || numbers[entry.node] >= 0)
                continue;
            numbers[entry.node] = disk_add_node(d, node->is_directory);
            memcpy(d->nodes[numbers[entry.node]].target, node->target, DISK_NAME);
            if (!node->is_directory)
                disk_crash_node(d, numbers[entry.node], node, loss, state);
            found = 1;
        }
    }
    for (size_t i = 0; i < entries->count; i++) {
        disk_entry entry = entries->list[i];
        if (numbers[entry.directory] < 0)
            continue;
        entry.directory = numbers[entry.directory];
        entry.node = numbers[entry.node];
        disk_enter(&d->cache, &entry);
        disk_enter(&d->stored, &entry);
    }
    free(numbers);
}

/* Creates a disk in a state that a crash of `from` may leave. The seed selects one of the possible states. */
static DISK_UNUSED void disk_crash(disk *d, const disk *from, disk_loss loss, uint64_t seed) {
    uint64_t state = seed * 0x9e3779b97f4a7c15u + (uint64_t)loss;
    const size_t kept = from->change_count ? disk_random(&state) % (from->change_count + 1) : 0;
    disk_entries entries = {NULL, 0, 0};
    disk_begin(d);
    d->clock = from->clock;
    for (size_t i = 0; i < from->stored.count; i++)
        disk_enter(&entries, &from->stored.list[i]);
    for (size_t i = 0; i < from->change_count; i++) {
        const int half = (int)(disk_random(&state) % 2);
        if (loss == DISK_LOSE_NONE || loss == DISK_LOSE_DATA || (loss == DISK_LOSE_TAIL && i < kept) ||
            (loss == DISK_LOSE_RANDOM && half))
            disk_apply(&entries, &from->changes[i]);
    }
    disk_keep_reachable(d, from, loss, &entries, &state);
    free(entries.list);
}

/* A checksum of all names and contents that does not depend on the order of entries. */
static DISK_UNUSED uint64_t disk_hash(const disk *d) {
    uint64_t hash = 0;
    for (size_t i = 0; i < d->cache.count; i++) {
        const disk_entry *entry = &d->cache.list[i];
        const disk_node *node = &d->nodes[entry->node];
        uint64_t one = eitp__crc32c(0, entry->name, strlen(entry->name));
        /* The name of the directory distinguishes files of the same name. */
        for (size_t k = 0; k < d->cache.count; k++) {
            if (d->cache.list[k].node == entry->directory)
                one = one * 31 + eitp__crc32c(1, d->cache.list[k].name, strlen(d->cache.list[k].name));
        }
        one = one * 31 + eitp__crc32c(3, node->target, strlen(node->target));
        one = one * 1000003 + (node->is_directory ? 7 : eitp__crc32c(2, node->data, (size_t)node->size) + node->size);
        hash += one * 0x9e3779b97f4a7c15u ^ one >> 29;
    }
    return hash;
}

/* Adds a file that is durable at once, such as a kernel's file. Creates its directories. */
static DISK_UNUSED void disk_install(disk *d, const char *path, const void *data, size_t size) {
    char part[256];
    void *file = NULL;
    size_t done;
    for (size_t i = 1; path[i]; i++) {
        if (path[i] != '/' || i >= sizeof part)
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        disk_make_directory(d, part);
    }
    disk_open(d, path, EITP_FILE_REPLACE, &file);
    disk_write(d, file, 0, data, size, &done);
    disk_store(&d->nodes[((disk_handle *)file)->node]);
    disk_close(d, file);
    for (size_t i = 0; i < d->change_count; i++)
        disk_apply(&d->stored, &d->changes[i]);
    d->change_count = 0;
}

/* Replaces the content of an existing file, as a kernel does with its own files. */
static DISK_UNUSED void disk_set_content(disk *d, const char *path, const void *data, size_t size) {
    disk_entry entry;
    disk_lock(d);
    if (!disk_walk(d, path, 1, &entry) && entry.node >= 0) {
        disk_set_size(d, &d->nodes[entry.node], 0);
        disk_put(d, &d->nodes[entry.node], 0, data, size);
        disk_store(&d->nodes[entry.node]);
    }
    disk_unlock(d);
}

#endif
