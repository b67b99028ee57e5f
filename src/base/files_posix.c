/* The default file table for POSIX systems. A handle is a file descriptor plus one, so that it is never NULL. */
#include "base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

/* Linux transfers at most 0x7ffff000 bytes per call. */
#define EITP__LARGEST_TRANSFER ((size_t)1 << 30)

/* Maximum number of times that another process may create a name just before it is created here. */
#define EITP__MAX_RACES 16

static int eitp__descriptor(void *file) {
    return (int)((intptr_t)file - 1);
}

/* Converts `offset` to off_t; EOVERFLOW if it does not fit. */
static int eitp__system_offset(uint64_t offset, off_t *converted) {
    *converted = (off_t)offset;
    return *converted < 0 || (uint64_t)*converted != offset ? EOVERFLOW : 0;
}

/* Files to read must be regular: pipes and devices have neither sizes nor positions. */
static int eitp__check_regular(int descriptor) {
    struct stat info;
    if (fstat(descriptor, &info))
        return errno;
    if (S_ISDIR(info.st_mode))
        return EISDIR;
    return S_ISREG(info.st_mode) ? 0 : ENXIO;
}

static int eitp__open_descriptor(const char *path, int flags, int *descriptor) {
    do {
        *descriptor = open(path, flags | O_CLOEXEC, 0666);
    } while (*descriptor < 0 && errno == EINTR);
    return *descriptor < 0 ? errno : 0;
}

/* True for a symbolic link; strict modes hide S_ISLNK. */
static int eitp__is_link(const struct stat *info) {
    return (info->st_mode & 0170000) == 0120000;
}

/* Makes room for a new file: removes a file or a link, never the target of a link. */
static int eitp__remove_for_new(const char *path) {
    struct stat found;
    if (lstat(path, &found))
        return errno == ENOENT ? 0 : errno;
    if (S_ISDIR(found.st_mode))
        return EISDIR;
    if (!S_ISREG(found.st_mode) && !eitp__is_link(&found))
        return ENXIO;
    return unlink(path) && errno != ENOENT ? errno : 0;
}

/* Creates a file that does not exist yet. An existing one is removed rather than emptied: in a directory that others
   may write to, it may be a link to any file of this user, and others may have it open. */
static int eitp__create_descriptor(const char *path, int *descriptor) {
    int code = eitp__open_descriptor(path, O_RDWR | O_CREAT | O_EXCL, descriptor);
    for (int attempt = 0; code == EEXIST && attempt < EITP__MAX_RACES; attempt++) {
        code = eitp__remove_for_new(path);
        if (!code)
            code = eitp__open_descriptor(path, O_RDWR | O_CREAT | O_EXCL, descriptor);
    }
    return code;
}

static int eitp__system_open(void *user, const char *path, eitp_file_mode mode, void **file) {
    int descriptor, code;
    (void)user;
    /* Without O_NONBLOCK, opening a pipe blocks until its other end is opened. */
    if (mode == EITP_FILE_READ)
        code = eitp__open_descriptor(path, O_RDONLY | O_NONBLOCK, &descriptor);
    else if (mode == EITP_FILE_REPLACE)
        code = eitp__create_descriptor(path, &descriptor);
    else
        code = eitp__open_descriptor(path, O_RDWR | O_CREAT | O_NOFOLLOW, &descriptor);
    if (code)
        return code;
    if (mode == EITP_FILE_READ)
        code = eitp__check_regular(descriptor);
    if (code) {
        close(descriptor);
        return code;
    }
    *file = (void *)((intptr_t)descriptor + 1);
    return 0;
}

static int eitp__system_close(void *user, void *file) {
    (void)user;
    /* After EINTR the descriptor is closed; closing it again could close a reused one. */
    return close(eitp__descriptor(file)) && errno != EINTR ? errno : 0;
}

static int eitp__system_size(void *user, void *file, uint64_t *size) {
    struct stat info;
    (void)user;
    if (fstat(eitp__descriptor(file), &info))
        return errno;
    *size = (uint64_t)info.st_size;
    return 0;
}

static int eitp__system_resize(void *user, void *file, uint64_t size) {
    off_t length;
    int code = eitp__system_offset(size, &length);
    (void)user;
    if (code)
        return code;
    do {
        code = ftruncate(eitp__descriptor(file), length) ? errno : 0;
    } while (code == EINTR);
    return code;
}

static int eitp__system_read(void *user, void *file, uint64_t offset, void *data, size_t size, size_t *done) {
    off_t position;
    ssize_t got;
    int code = eitp__system_offset(offset, &position);
    (void)user;
    if (code)
        return code;
    if (size > EITP__LARGEST_TRANSFER)
        size = EITP__LARGEST_TRANSFER;
    do {
        got = pread(eitp__descriptor(file), data, size, position);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno;
    *done = (size_t)got;
    return 0;
}

static void eitp__system_prefetch(void *user, void *file, uint64_t offset, size_t size) {
#if defined(__linux__)
    enum { EITP__ADVICE_WILL_NEED = 3 }; /* POSIX_FADV_WILLNEED, which strict modes hide */
    off_t position;
    (void)user;
    if (!eitp__system_offset(offset, &position))
        posix_fadvise(eitp__descriptor(file), position, (off_t)size, EITP__ADVICE_WILL_NEED);
#else
    (void)user;
    (void)file;
    (void)offset;
    (void)size;
#endif
}

static int eitp__system_write(void *user, void *file, uint64_t offset, const void *data, size_t size, size_t *done) {
    off_t position;
    ssize_t put;
    int code = eitp__system_offset(offset, &position);
    (void)user;
    if (code)
        return code;
    if (size > EITP__LARGEST_TRANSFER)
        size = EITP__LARGEST_TRANSFER;
    do {
        put = pwrite(eitp__descriptor(file), data, size, position);
    } while (put < 0 && errno == EINTR);
    if (put < 0)
        return errno;
    *done = (size_t)put;
    return 0;
}

static int eitp__sync_descriptor(int descriptor) {
    int code;
    do {
        code = fsync(descriptor) ? errno : 0;
    } while (code == EINTR);
    return code;
}

static int eitp__system_sync(void *user, void *file) {
    (void)user;
    return eitp__sync_descriptor(eitp__descriptor(file));
}

static void eitp__convert_info(const struct stat *found, eitp_path_info *info) {
    info->kind = S_ISREG(found->st_mode)   ? EITP_PATH_FILE
                 : S_ISDIR(found->st_mode) ? EITP_PATH_DIRECTORY
                                           : EITP_PATH_OTHER;
    if (info->kind == EITP_PATH_FILE)
        info->size = (uint64_t)found->st_size;
    info->modified = EITP__MODIFIED(*found);
    info->identity = (uint64_t)found->st_dev * 0x9e3779b97f4a7c15u + (uint64_t)found->st_ino;
}

static int eitp__system_info(void *user, const char *path, eitp_path_info *info) {
    struct stat found;
    (void)user;
    memset(info, 0, sizeof *info);
    info->kind = EITP_PATH_MISSING;
    info->is_link = !lstat(path, &found) && eitp__is_link(&found);
    if (stat(path, &found))
        return errno == ENOENT || errno == ENOTDIR ? 0 : errno;
    eitp__convert_info(&found, info);
    return 0;
}

static int eitp__system_file_info(void *user, void *file, eitp_path_info *info) {
    struct stat found;
    (void)user;
    memset(info, 0, sizeof *info);
    if (fstat(eitp__descriptor(file), &found))
        return errno;
    eitp__convert_info(&found, info);
    return 0;
}

static int eitp__system_make_directory(void *user, const char *path) {
    (void)user;
    return mkdir(path, 0777) ? errno : 0;
}

static int eitp__system_sync_directory(void *user, const char *path) {
    int descriptor, code;
    (void)user;
    do {
        descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0)
        return errno;
    code = eitp__sync_descriptor(descriptor);
    close(descriptor);
    /* EINVAL: the file system cannot sync directories. */
    return code == EINVAL ? 0 : code;
}

static int eitp__system_rename(void *user, const char *from, const char *to) {
    (void)user;
    return rename(from, to) ? errno : 0;
}

static int eitp__system_exchange(void *user, const char *a, const char *b) {
    (void)user;
#if defined(__linux__) && defined(SYS_renameat2) && defined(AT_FDCWD)
    enum { EITP__EXCHANGE = 2 }; /* RENAME_EXCHANGE */
    return syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, EITP__EXCHANGE) ? errno : 0;
#else
    (void)a, (void)b;
    return ENOSYS;
#endif
}

/* Removes a symbolic link itself, never its target. */
static int eitp__system_remove(void *user, const char *path) {
    struct stat found;
    (void)user;
    if (lstat(path, &found))
        return errno;
    return (S_ISDIR(found.st_mode) ? rmdir(path) : unlink(path)) ? errno : 0;
}

static int eitp__system_list(void *user, const char *path, int (*visit)(void *visitor, const char *name),
                             void *visitor) {
    struct dirent *entry;
    int code = 0;
    DIR *directory = opendir(path);
    (void)user;
    if (!directory)
        return errno;
    while (!code) {
        errno = 0;
        entry = readdir(directory);
        if (!entry) {
            code = errno;
            break;
        }
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            code = visit(visitor, entry->d_name);
    }
    closedir(directory);
    return code;
}

/*
 * A program that starts others, such as a supervisor, may hold the lock of a directory and let them use it: they
 * inherit the descriptor, and EITP_LOCK_FD is its number. flock(2) belongs to the open file, which both processes then
 * share. So locking the descriptor again succeeds if it holds the lock, and fails for a descriptor that was opened
 * separately.
 *
 * An inherited descriptor lacks FD_CLOEXEC. The flag is set while the lock is in use, so that it is used only once and
 * is not inherited by programs that this one starts.
 */
static int eitp__inherited_lock(int directory) {
    const char *text = getenv("EITP_LOCK_FD");
    struct stat wanted, found;
    char *end = NULL;
    long number;
    if (!text || *text < '0' || *text > '9')
        return -1;
    errno = 0;
    number = strtol(text, &end, 10);
    if (errno || *end || number > INT_MAX || fcntl((int)number, F_GETFD) != 0 || fstat(directory, &wanted) ||
        fstat((int)number, &found) || wanted.st_dev != found.st_dev || wanted.st_ino != found.st_ino ||
        flock((int)number, LOCK_EX | LOCK_NB))
        return -1;
    return (int)number;
}

/* The handle of an inherited lock is the negative of a normal handle for its descriptor. */
static int eitp__use_inherited_lock(int directory, void **lock) {
    const int inherited = eitp__inherited_lock(directory);
    if (inherited < 0 || fcntl(inherited, F_SETFD, FD_CLOEXEC))
        return EWOULDBLOCK;
    *lock = (void *)(-(intptr_t)inherited - 1);
    return 0;
}

static int eitp__system_lock(void *user, const char *path, void **lock) {
    int descriptor, code;
    (void)user;
    do {
        descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0)
        return errno;
    if (flock(descriptor, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        code = eitp__use_inherited_lock(descriptor, lock);
        close(descriptor);
        return code;
    }
    *lock = (void *)((intptr_t)descriptor + 1);
    return 0;
}

static void eitp__system_unlock(void *user, void *lock) {
    const intptr_t handle = (intptr_t)lock;
    (void)user;
    /* An inherited lock remains with the process that holds it. */
    if (handle < 0) {
        fcntl((int)(-handle - 1), F_SETFD, 0);
        return;
    }
    /* Closing is not enough: a process forked since then has the descriptor too. */
    flock(eitp__descriptor(lock), LOCK_UN);
    close(eitp__descriptor(lock));
}

static int eitp__system_space(void *user, const char *path, uint64_t *free_bytes, uint64_t *largest_file) {
    struct statvfs disk;
    struct rlimit limit;
    uint64_t blocks;
    (void)user;
    if (statvfs(path, &disk))
        return errno;
    /* Some file systems do not know their size. */
    if (!disk.f_blocks || !disk.f_frsize)
        return ENOSYS;
    /* Some blocks may be reserved for the superuser. */
    blocks = geteuid() ? (uint64_t)disk.f_bavail : (uint64_t)disk.f_bfree;
    *free_bytes = blocks > UINT64_MAX / disk.f_frsize ? UINT64_MAX : blocks * disk.f_frsize;
    *largest_file = UINT64_MAX;
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY)
        *largest_file = (uint64_t)limit.rlim_cur;
    return 0;
}

static void eitp__system_wait(void *user, double seconds) {
    struct timespec time;
    (void)user;
    time.tv_sec = (time_t)seconds;
    time.tv_nsec = (long)(1e9 * (seconds - (double)time.tv_sec));
    nanosleep(&time, NULL);
}

static void eitp__system_begin_sync(void *user, void *file) {
    (void)user;
#if defined(__linux__) && defined(SYS_sync_file_range) && defined(__LP64__)
    enum { EITP__BEGIN_WRITING = 2 }; /* SYNC_FILE_RANGE_WRITE: starts writing without waiting */
    syscall(SYS_sync_file_range, eitp__descriptor(file), 0L, 0L, EITP__BEGIN_WRITING);
#else
    (void)file;
#endif
}

static int eitp__system_link(void *user, const char *target, const char *path) {
    (void)user;
    return symlink(target, path) ? errno : 0;
}

static int eitp__system_absolute(void *user, const char *path, char *absolute, size_t size) {
    char resolved[4096]; /* PATH_MAX, which a strict mode hides */
    (void)user;
    if (!realpath(path, resolved))
        return errno;
    return (size_t)snprintf(absolute, size, "%s", resolved) < size ? 0 : ENAMETOOLONG;
}

EITP__PRIVATE eitp_files eitp__system_files(void) {
    eitp_files files;
    memset(&files, 0, sizeof files);
    files.open = eitp__system_open;
    files.close = eitp__system_close;
    files.size = eitp__system_size;
    files.resize = eitp__system_resize;
    files.read = eitp__system_read;
    files.write = eitp__system_write;
    files.sync = eitp__system_sync;
    files.info = eitp__system_info;
    files.make_directory = eitp__system_make_directory;
    files.sync_directory = eitp__system_sync_directory;
    files.rename = eitp__system_rename;
    files.remove = eitp__system_remove;
    files.list = eitp__system_list;
    files.prefetch = eitp__system_prefetch;
    files.lock = eitp__system_lock;
    files.unlock = eitp__system_unlock;
    files.space = eitp__system_space;
    files.wait = eitp__system_wait;
    files.link = eitp__system_link;
    files.begin_sync = eitp__system_begin_sync;
    files.file_info = eitp__system_file_info;
    files.exchange = eitp__system_exchange;
    files.absolute = eitp__system_absolute;
    return files;
}
