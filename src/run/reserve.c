#include "run/reserve.h"

#include "base/files.h"

/* Numbers that a file system cannot compress: compressed room would not be there later. */
static void eitp__reserve_fill(unsigned char *data, size_t size) {
    uint64_t state = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < size; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        data[i] = (unsigned char)state;
    }
}

/* It is not synced: after a loss of power there is no run that needs it. */
static eitp_status eitp__reserve_write(const eitp_host *host, const char *path, const unsigned char *data) {
    eitp__file file = EITP__ZERO;
    eitp_status status = eitp__file_open(&file, host, path, EITP_FILE_REPLACE, NULL), closed;
    if (!status)
        status = eitp__file_write(&file, 0, data, EITP__RESERVE_BYTES, NULL);
    closed = eitp__file_close(&file, NULL);
    return status ? status : closed;
}

EITP__PRIVATE void eitp__reserve_take(const eitp_run *run) {
    const eitp_host *host = &run->host;
    char *path = eitp__join_path(host, run->directory, EITP__RESERVE_FILE);
    unsigned char *data = (unsigned char *)eitp__allocate(host, EITP__RESERVE_BYTES);
    if (data)
        eitp__reserve_fill(data, EITP__RESERVE_BYTES);
    if (path && data && eitp__reserve_write(host, path, data))
        host->files.remove(host->files.user, path);
    eitp__release(host, data, EITP__RESERVE_BYTES);
    eitp__release_text(host, path);
}

EITP__PRIVATE void eitp__reserve_release(const eitp_run *run) {
    const eitp_files *files = &run->host.files;
    char *path = eitp__join_path(&run->host, run->directory, EITP__RESERVE_FILE);
    if (path)
        files->remove(files->user, path);
    eitp__release_text(&run->host, path);
}
