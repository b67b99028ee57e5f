/*
 * Computes possible disk contents after a command lost power. tests/command/test_power_loss.sh records the calls of the
 * command (tests/command/recorded_calls.c), and this program repeats them on a simulated disk
 * (tests/support/simulated_disk.h).
 *   power_losses CALLS BEFORE STRIDE SEEDS       lists the losses with different results, one a line: the change of the
 *                                                disk before which power is lost, or "end" for after the last one; the
 *                                                kind of loss; a seed
 *   power_losses CALLS BEFORE AT KIND SEED INTO  writes the disk content after such a loss to the directory INTO
 * CALLS is the recording, and BEFORE a directory with the initial content of the disk.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define TEST_PART
#include "tests/command/recorded_calls.h"
#include "tests/support/simulated_disk.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

int test_failures_;

enum { MOST_FILES = 1024, LONGEST_PATH = 512, AT_END = -1 };

static const char *const kinds[DISK_LOSSES] = {"all-lost", "nothing-lost", "data-lost", "tail-lost", "random"};

/* An open descriptor of the command: a file, or a directory to be synced. */
typedef struct opened {
    void *file;
    char directory[LONGEST_PATH]; /* "" if it is not a directory */
    int is_open;
} opened;

typedef struct outages {
    disk disk;
    opened files[MOST_FILES];
    long changes, stride, seeds;
    /* The loss to write, or if `into` is NULL, list losses. */
    long at;
    disk_loss loss;
    uint64_t seed;
    const char *into;
    uint64_t tried[DISK_TRIED];
} outages;

static void stop(const char *what, const char *path) {
    fprintf(stderr, "power_losses: %s: %s\n", what, path);
    exit(1);
}

static void join(char *path, const char *directory, const char *name) {
    if ((size_t)snprintf(path, LONGEST_PATH, "%s%s%s", directory, *directory ? "/" : "", name) >= LONGEST_PATH)
        stop("long path", name);
}

static unsigned char *read_whole(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    unsigned char *data = NULL;
    size_t capacity = 0;
    *size = 0;
    if (!file)
        stop("cannot read", path);
    do {
        data = (unsigned char *)disk_grow(data, &capacity, *size + 65536, 1);
        *size += fread(data + *size, 1, capacity - *size, file);
    } while (*size == capacity);
    fclose(file);
    return data;
}

/* ---- Copying from and to directories ---- */

static void install(disk *d, const char *from, const char *name) {
    char path[LONGEST_PATH], inner[LONGEST_PATH], target[DISK_NAME];
    struct stat info;
    struct dirent *entry;
    DIR *directory;
    ssize_t length;
    join(path, from, name);
    if (lstat(path, &info))
        stop("cannot look up", path);
    if (S_ISLNK(info.st_mode)) {
        length = readlink(path, target, sizeof target - 1);
        target[length < 0 ? 0 : length] = 0;
        if (disk_link(d, target, name))
            stop("cannot have a link like", path);
    } else if (S_ISREG(info.st_mode)) {
        size_t size;
        unsigned char *data = read_whole(path, &size);
        disk_install(d, name, data, size);
        free(data);
    } else {
        if (*name)
            disk_make_directory(d, name);
        directory = opendir(path);
        while (directory && (entry = readdir(directory)) != NULL) {
            join(inner, name, entry->d_name);
            if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
                install(d, from, inner);
        }
        closedir(directory);
    }
}

/* Installs all initial files as durable. */
static void install_all(disk *d, const char *from) {
    disk_begin(d);
    install(d, from, "");
    for (size_t i = 0; i < d->change_count; i++)
        disk_apply(&d->stored, &d->changes[i]);
    d->change_count = 0;
}

static void write_node(const disk_node *node, const char *path) {
    FILE *file;
    if (*node->target) {
        if (symlink(node->target, path))
            stop("cannot link", path);
        return;
    }
    file = fopen(path, "wb");
    if (!file || (node->size && fwrite(node->data, 1, (size_t)node->size, file) != node->size) || fclose(file))
        stop("cannot write", path);
}

static void write_directory(const disk *d, int directory, const char *path) {
    char inner[LONGEST_PATH];
    mkdir(path, 0777);
    for (size_t i = 0; i < d->cache.count; i++) {
        const disk_entry *entry = &d->cache.list[i];
        if (entry->directory != directory)
            continue;
        join(inner, path, entry->name);
        if (d->nodes[entry->node].is_directory)
            write_directory(d, entry->node, inner);
        else
            write_node(&d->nodes[entry->node], inner);
    }
}

/* ---- The recorded calls ---- */

static void repeat_open(outages *o, const recorded_call *call, const char *path) {
    opened *file = &o->files[call->file];
    eitp_path_info info;
    memset(file, 0, sizeof *file);
    if (disk_info(&o->disk, path, &info))
        return;
    if (info.kind == EITP_PATH_DIRECTORY) {
        file->is_open = snprintf(file->directory, sizeof file->directory, "%s", path) < LONGEST_PATH;
    } else if (call->number & 1 || info.kind == EITP_PATH_FILE) {
        /* Paths elsewhere, such as temporary files, have no directory here. */
        file->is_open = !disk_open(&o->disk, path, call->number & 1 ? EITP_FILE_UPDATE : EITP_FILE_READ, &file->file);
        if (file->is_open && call->number & 2)
            disk_resize(&o->disk, file->file, 0);
    }
}

static void repeat_file_call(outages *o, const recorded_call *call, const void *data) {
    opened *file = &o->files[call->file];
    size_t done;
    if (!file->is_open)
        return;
    if (call->kind == RECORDED_WRITE)
        disk_write(&o->disk, file->file, (uint64_t)call->number, data, (size_t)call->second_size, &done);
    else if (call->kind == RECORDED_RESIZE)
        disk_resize(&o->disk, file->file, (uint64_t)call->number);
    else if (call->kind == RECORDED_SYNC && !file->file)
        disk_sync_directory(&o->disk, file->directory);
    else if (call->kind == RECORDED_SYNC)
        disk_sync(&o->disk, file->file);
    else if (file->file)
        disk_close(&o->disk, file->file);
    file->is_open = call->kind != RECORDED_CLOSE;
}

static void repeat_call(outages *o, const recorded_call *call, const char *first, const char *second) {
    disk *d = &o->disk;
    if (call->file < 0 || call->file >= MOST_FILES)
        stop("too many open files", "");
    switch (call->kind) {
    case RECORDED_OPEN:
        repeat_open(o, call, first);
        break;
    case RECORDED_MAKE:
        disk_make_directory(d, first);
        break;
    case RECORDED_REMOVE:
        disk_remove(d, first);
        break;
    case RECORDED_LINK:
        if (disk_link(d, second, first))
            stop("cannot have a link like", first);
        break;
    case RECORDED_RENAME:
        disk_rename(d, first, second);
        break;
    case RECORDED_EXCHANGE:
        disk_exchange(d, first, second);
        break;
    default:
        repeat_file_call(o, call, second);
    }
}

static void repeat_calls(outages *o, const char *path) {
    size_t size, at = 0;
    unsigned char *calls = read_whole(path, &size);
    while (at < size) {
        recorded_call call;
        const char *data = (const char *)calls + at + sizeof call;
        memcpy(&call, calls + at, sizeof call);
        repeat_call(o, &call, call.first_size ? data : "", data + call.first_size);
        at += sizeof call + (size_t)(call.first_size + call.second_size);
    }
    free(calls);
}

/* ---- Losses ---- */

/* Lists the losses at one moment. At the end the requirements on the same disk are stricter. */
static void list_losses(outages *o, const disk *d, const char *at) {
    const int is_end = !strcmp(at, "end");
    for (int loss = 0; loss < DISK_LOSSES; loss++) {
        const long seeds = loss < DISK_LOSE_TAIL ? 1 : o->seeds;
        for (long i = 0; i < seeds; i++) {
            const uint64_t seed = (uint64_t)(o->changes * 1000 + i);
            disk left;
            disk_crash(&left, d, (disk_loss)loss, seed);
            if (!disk_was_tried(o->tried, disk_hash(&left) + (uint64_t)is_end))
                printf("%s %s %llu\n", at, kinds[loss], (unsigned long long)seed);
            disk_end(&left);
        }
    }
}

static void lose_power(const outages *o, const disk *d) {
    disk left;
    disk_crash(&left, d, o->loss, o->seed);
    write_directory(&left, DISK_ROOT, o->into);
    exit(0);
}

static void before_change(void *user, const disk *d) {
    outages *o = (outages *)user;
    char at[24];
    o->changes++;
    snprintf(at, sizeof at, "%ld", o->changes);
    if (o->at == o->changes)
        lose_power(o, d);
    if (!o->into && (o->changes - 1) % o->stride == 0)
        list_losses(o, d, at);
}

static disk_loss find_kind(const char *name) {
    for (int i = 0; i < DISK_LOSSES; i++) {
        if (!strcmp(kinds[i], name))
            return (disk_loss)i;
    }
    stop("unknown kind of loss", name);
    return DISK_LOSE_ALL;
}

int main(int count, char **arguments) {
    outages *o = (outages *)calloc(1, sizeof *o);
    if (!o || (count != 5 && count != 7))
        stop("wrong arguments", "");
    if (count == 7) {
        o->at = strcmp(arguments[3], "end") ? atol(arguments[3]) : AT_END;
        o->loss = find_kind(arguments[4]);
        o->seed = strtoull(arguments[5], NULL, 10);
        o->into = arguments[6];
    } else {
        o->stride = atol(arguments[3]);
        o->seeds = atol(arguments[4]);
    }
    install_all(&o->disk, arguments[2]);
    o->disk.before_change = before_change;
    o->disk.user = o;
    repeat_calls(o, arguments[1]);
    if (o->at == AT_END)
        lose_power(o, &o->disk);
    if (o->into)
        stop("no such change", arguments[3]);
    list_losses(o, &o->disk, "end");
    fprintf(stderr, "%ld\n", o->changes);
    return 0;
}
