#include "data/text_files.h"

#include "base/files.h"
#include "base/log.h"
#include "data/path_walk.h"
#include "data/token_header.h"

struct eitp_text_files {
    eitp_host host;
    char **paths;
    size_t path_count;
    eitp__path_walk walk;
    eitp__file file;
    uint64_t offset; /* of the next piece in the file */
    char *piece;
    size_t piece_size;
    size_t first_size; /* of the first piece if it has been read but not returned yet, else 0 */
    uint64_t total_bytes;
};

static eitp_status eitp__text_files_copy_paths(eitp_text_files *files, const char *const *paths, size_t path_count,
                                               eitp_error *error) {
    size_t bytes = 0;
    if (eitp__multiply_size(path_count, sizeof *files->paths, &bytes))
        files->paths = (char **)eitp__allocate(&files->host, bytes);
    if (!files->paths)
        return eitp__fail_memory(error, bytes, "the paths of text files");
    files->path_count = path_count;
    for (size_t i = 0; i < path_count; i++) {
        files->paths[i] = eitp__copy_text(&files->host, paths[i]);
        if (!files->paths[i])
            return eitp__fail_memory(error, strlen(paths[i]) + 1, "the path of a text file");
    }
    return EITP_OK;
}

/* Walks all paths once, to find missing ones early and to sum up the sizes. */
static eitp_status eitp__text_files_measure(eitp_text_files *files, eitp_error *error) {
    eitp__path_walk walk;
    eitp_status status;
    eitp__path_walk_init(&walk, &files->host, (const char *const *)files->paths, files->path_count);
    do {
        status = eitp__path_walk_next(&walk, error);
        files->total_bytes += status == EITP_OK && walk.path ? walk.size : 0;
    } while (status == EITP_OK && walk.path);
    eitp__path_walk_release(&walk);
    return status;
}

static int eitp__all_paths(const char *const *paths, size_t path_count) {
    for (size_t i = 0; paths && i < path_count; i++) {
        if (!paths[i])
            return 0;
    }
    return paths != NULL;
}

eitp_status eitp_text_files_open(const eitp_host *host, const char *const *paths, size_t path_count, size_t piece_size,
                                 eitp_text_files **out, eitp_error *error) {
    if (!host || !out)
        return eitp__fail_null(error, "eitp_text_files_open", "host and out");
    *out = NULL;
    if (!path_count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "no texts given; name text files or directories");
    if (!eitp__all_paths(paths, path_count))
        return eitp__fail_null(error, "eitp_text_files_open", "paths and each of them");
    eitp_text_files *files = (eitp_text_files *)eitp__allocate(host, sizeof *files);
    if (!files)
        return eitp__fail_memory(error, sizeof *files, "reading text files");
    files->host = *host;
    files->piece_size = piece_size ? piece_size : 65536;
    if (files->piece_size < EITP__TOKEN_MAGIC_SIZE)
        files->piece_size = EITP__TOKEN_MAGIC_SIZE;
    eitp_status status = eitp__text_files_copy_paths(files, paths, path_count, error);
    eitp__path_walk_init(&files->walk, &files->host, (const char *const *)files->paths, files->path_count);
    if (status == EITP_OK) {
        files->piece = (char *)eitp__allocate_uninitialized(host, files->piece_size);
        status = files->piece ? eitp__text_files_measure(files, error)
                              : eitp__fail_memory(error, files->piece_size, "reading text files");
    }
    if (status != EITP_OK) {
        eitp_text_files_close(files);
        return status;
    }
    *out = files;
    return EITP_OK;
}

void eitp_text_files_close(eitp_text_files *files) {
    if (!files)
        return;
    eitp_host host = files->host;
    eitp__file_close(&files->file, NULL);
    eitp__path_walk_release(&files->walk);
    for (size_t i = 0; i < files->path_count; i++)
        eitp__release_text(&host, files->paths[i]);
    eitp__release(&host, files->paths, files->path_count * sizeof *files->paths);
    eitp__release(&host, files->piece, files->piece_size);
    eitp__release(&host, files, sizeof *files);
}

uint64_t eitp_text_files_bytes(const eitp_text_files *files) {
    return files ? files->total_bytes : 0;
}

/* Opens the current file of the walk and reads its first piece; first_size stays 0 if the file is skipped. */
static eitp_status eitp__text_files_begin(eitp_text_files *files, eitp_error *error) {
    const char *path = files->walk.path;
    size_t size = 0;
    eitp_status status = eitp__file_open(&files->file, &files->host, path, EITP_FILE_READ, error);
    if (status == EITP_OK)
        status = eitp__file_read_some(&files->file, 0, files->piece, files->piece_size, &size, error);
    if (status != EITP_OK)
        return status;
    if (size == 0) {
        eitp__log(&files->host, EITP_LOG_WARNING, "%s: skipped, because it is empty", path);
        return EITP_OK;
    }
    if (size >= EITP__TOKEN_MAGIC_SIZE && !memcmp(files->piece, eitp__token_magic(), EITP__TOKEN_MAGIC_SIZE)) {
        if (files->walk.is_listed)
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s: a token file, not text; give text files", path);
        /* In a directory it may be the token file being written. */
        eitp__log(&files->host, EITP_LOG_INFO, "%s: skipped, because it is a token file", path);
        return EITP_OK;
    }
    files->first_size = size;
    files->offset = 0;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__text_files_next(eitp_text_files *files, const char **path, eitp_error *error) {
    eitp_status status;
    files->first_size = 0;
    do {
        eitp__file_close(&files->file, NULL);
        status = eitp__path_walk_next(&files->walk, error);
        if (status == EITP_OK && files->walk.path)
            status = eitp__text_files_begin(files, error);
    } while (status == EITP_OK && files->walk.path && !files->first_size);
    if (status != EITP_OK)
        eitp__file_close(&files->file, NULL);
    else
        *path = files->walk.path;
    return status;
}

EITP__PRIVATE eitp_status eitp__text_files_piece(eitp_text_files *files, const char **text, size_t *size,
                                                 eitp_error *error) {
    size_t done = files->first_size;
    files->first_size = 0;
    if (!done) {
        eitp_status status =
            eitp__file_read_some(&files->file, files->offset, files->piece, files->piece_size, &done, error);
        if (status != EITP_OK)
            return status;
    }
    files->offset += done;
    *text = files->piece;
    *size = done;
    return EITP_OK;
}

static eitp_status eitp__text_files_read(void *user, const char **text, size_t *size, eitp_error *error) {
    eitp_text_files *files = (eitp_text_files *)user;
    const char *path = NULL;
    eitp_status status = EITP_OK;
    if (!files)
        return eitp__fail_null(error, "eitp_text_files_source", "files");
    const int first = !files->file.host;
    if (!first) {
        status = eitp__text_files_piece(files, text, size, error);
        if (status != EITP_OK || *size)
            return status;
    }
    status = eitp__text_files_next(files, &path, error);
    if (status != EITP_OK)
        return status;
    *size = 0;
    *text = path ? files->piece : NULL;
    return path && first ? eitp__text_files_piece(files, text, size, error) : EITP_OK;
}

eitp_text_source eitp_text_files_source(eitp_text_files *files) {
    eitp_text_source source;
    source.user = files;
    source.read = eitp__text_files_read;
    return source;
}
