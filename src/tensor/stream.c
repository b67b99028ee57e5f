#include "tensor/stream.h"

/* Variables start where pages do. */
#define EITP__STREAM_ALIGNMENT ((uint64_t)4096)

EITP__PRIVATE eitp_status eitp__stream_open(eitp__stream *stream, const eitp_host *host, const char *path,
                                            eitp_error *error) {
    eitp_status status;
    memset(stream, 0, sizeof *stream);
    stream->host = *host;
    status = eitp__worker_create(&stream->host, &stream->worker, error);
    if (!status)
        status = eitp__file_open(&stream->file, &stream->host, path, EITP_FILE_REPLACE, error);
    /* An open file needs no name, and without one it goes with the process, however that ends. */
    if (!status)
        stream->is_removed = !host->files.remove(host->files.user, stream->file.path);
    if (status)
        eitp__stream_close(stream);
    return status;
}

EITP__PRIVATE void eitp__stream_close(eitp__stream *stream) {
    char *path;
    eitp__worker_destroy(stream->worker);
    path = stream->file.path && !stream->is_removed ? eitp__copy_text(&stream->host, stream->file.path) : NULL;
    eitp__file_close(&stream->file, NULL);
    if (path)
        stream->host.files.remove(stream->host.files.user, path);
    eitp__release_text(&stream->host, path);
    memset(stream, 0, sizeof *stream);
}

EITP__PRIVATE eitp_status eitp__stream_take(eitp__stream *stream, size_t size, uint64_t *offset, eitp_error *error) {
    const size_t most = (size_t)64 << 10;
    uint64_t begin = (stream->size + EITP__STREAM_ALIGNMENT - 1) / EITP__STREAM_ALIGNMENT * EITP__STREAM_ALIGNMENT;
    void *zeros = eitp__allocate(&stream->host, most);
    eitp_status status = zeros ? EITP_OK : eitp__fail_memory(error, most, "the file of streamed variables");
    for (size_t done = 0; done < size && !status; done += most) {
        size_t part = size - done < most ? size - done : most;
        status = eitp__file_write(&stream->file, begin + done, zeros, part, error);
    }
    eitp__release(&stream->host, zeros, most);
    if (status)
        return status;
    stream->size = begin + size;
    *offset = begin;
    return EITP_OK;
}
