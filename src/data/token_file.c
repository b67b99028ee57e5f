#include "data/data.h"

#include "base/files.h"
#include "data/token_header.h"
#include "tensor/context.h"

enum { EITP__TOKEN_READ_BYTES = 8192, EITP__TOKEN_VERIFY_IDS = 2048 };

struct eitp_token_file {
    eitp_host host;
    eitp__file file;
    eitp_token_file_info info;
    uint64_t offset;        /* of the first id */
    uint32_t limit;         /* ids must be below it */
    eitp__file_stamp stamp; /* of the file when its content was last known */
    uint64_t verified_hash; /* of an llm.c file, whose header has none; 0: not verified; atomic */
    eitp__poll poll;        /* see eitp_token_file_set_poll */
};

/* Reads the header of the opened file and sets the limit for ids. */
static eitp_status eitp__token_file_begin(eitp_token_file *file, int32_t vocabulary_size, eitp_error *error) {
    unsigned char header[EITP__TOKEN_HEADER_SIZE];
    uint64_t file_size = 0;
    size_t size = 0;
    eitp_status status = eitp__file_size(&file->file, &file_size, error);
    if (status == EITP_OK)
        status = eitp__file_read_some(&file->file, 0, header, sizeof header, &size, error);
    if (status != EITP_OK)
        return status;
    status = eitp__token_header_read(header, size, file_size, &file->info, &file->offset, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "%s", file->file.path);
    file->limit = file->info.vocabulary_size ? (uint32_t)file->info.vocabulary_size : 65536;
    if (vocabulary_size && (uint32_t)vocabulary_size < file->limit)
        file->limit = (uint32_t)vocabulary_size;
    return EITP_OK;
}

eitp_status eitp_token_file_open(const eitp_host *host, const char *path, int32_t vocabulary_size,
                                 eitp_token_file **file, eitp_error *error) {
    if (!host || !path || !file)
        return eitp__fail_null(error, "eitp_token_file_open", "host, path and file");
    *file = NULL;
    if (vocabulary_size < 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s: vocabulary_size must be at least 0 (got %d); 0 uses the file's own", path,
                          (int)vocabulary_size);
    eitp_token_file *opened = (eitp_token_file *)eitp__allocate(host, sizeof *opened);
    if (!opened)
        return eitp__fail_memory(error, sizeof *opened, "a token file");
    opened->host = *host;
    eitp_status status = eitp__file_open(&opened->file, &opened->host, path, EITP_FILE_READ, error);
    if (status == EITP_OK) {
        opened->stamp = eitp__file_stamp_of(&opened->file);
        status = eitp__token_file_begin(opened, vocabulary_size, error);
    }
    if (status != EITP_OK) {
        eitp_token_file_close(opened);
        return status;
    }
    *file = opened;
    return EITP_OK;
}

void eitp_token_file_close(eitp_token_file *file) {
    if (!file)
        return;
    eitp_host host = file->host;
    eitp__file_close(&file->file, NULL);
    eitp__release(&host, file, sizeof *file);
}

eitp_token_file_info eitp_token_file_get_info(const eitp_token_file *file) {
    eitp_token_file_info info = EITP__ZERO;
    if (!file)
        return info;
    info = file->info;
    if (!info.content_hash)
        info.content_hash = __atomic_load_n(&file->verified_hash, __ATOMIC_RELAXED);
    return info;
}

/* Decodes and checks stored ids; `first` is the number of the first one. */
static eitp_status eitp__token_file_decode(const eitp_token_file *file, const unsigned char *bytes, uint64_t first,
                                           size_t count, int32_t *ids, eitp_error *error) {
    const size_t element = (size_t)file->info.element_size;
    for (size_t i = 0; i < count; i++, bytes += element) {
        uint32_t id = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8;
        if (element == 4)
            id |= (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
        if (id >= file->limit)
            return eitp__fail(error, EITP_ERROR_FORMAT,
                              "%s: token %llu has id %lu, but the vocabulary has %lu; the file is damaged or was "
                              "packed with another tokenizer: pack the text again",
                              file->file.path, (unsigned long long)(first + i), (unsigned long)id,
                              (unsigned long)file->limit);
        ids[i] = (int32_t)id;
    }
    return EITP_OK;
}

/* Reads ids of the file as it is now. */
static eitp_status eitp__token_file_read_ids(const eitp_token_file *file, uint64_t first, uint64_t count, int32_t *ids,
                                             eitp_error *error) {
    unsigned char bytes[EITP__TOKEN_READ_BYTES];
    const uint64_t element = (uint64_t)file->info.element_size;
    const uint64_t chunk = sizeof bytes / element;
    eitp__file handle = file->file;
    for (uint64_t done = 0; done < count;) {
        const uint64_t now = count - done < chunk ? count - done : chunk;
        eitp_status status =
            eitp__file_read(&handle, file->offset + (first + done) * element, bytes, (size_t)(now * element), error);
        /* Its size was checked when it was opened. */
        if (status == EITP_ERROR_FORMAT)
            status = eitp__fail(
                error, EITP_ERROR_IO, "'%s' changed while it was read: it ends before token %llu of %llu; restore it",
                file->file.path, (unsigned long long)(first + done + now), (unsigned long long)file->info.token_count);
        if (status == EITP_OK)
            status = eitp__token_file_decode(file, bytes, first + done, (size_t)now, ids + done, error);
        if (status != EITP_OK)
            return status;
        done += now;
    }
    return EITP_OK;
}

void eitp_token_file_prefetch(const eitp_token_file *file, uint64_t first, uint64_t count) {
    const uint64_t element = file ? (uint64_t)file->info.element_size : 0;
    if (!file)
        return;
    eitp__file_prefetch(&file->file, file->offset + first * element, (size_t)(count * element));
}

eitp_status eitp_token_file_find_prefix(const eitp_token_file *file, uint64_t hash, uint64_t *count,
                                        eitp_error *error) {
    int32_t ids[EITP__TOKEN_VERIFY_IDS];
    uint64_t now = eitp__token_hash_start();
    if (!file || !count)
        return eitp__fail_null(error, "eitp_token_file_find_prefix", "file and count");
    *count = 0;
    for (uint64_t first = 0; first < file->info.token_count;) {
        const uint64_t left = file->info.token_count - first;
        const uint64_t size = left < EITP__COUNT(ids) ? left : EITP__COUNT(ids);
        const eitp_status status = eitp__poll_ask(&file->poll)
                                       ? eitp__fail_interrupted(error)
                                       : eitp__token_file_read_ids(file, first, size, ids, error);
        if (status != EITP_OK)
            return status;
        for (uint64_t i = 0; i < size; i++) {
            now = eitp__token_hash(now, ids + i, 1);
            if (now != hash)
                continue;
            *count = first + i + 1;
            return EITP_OK;
        }
        first += size;
    }
    return EITP_OK;
}

void eitp_token_file_set_poll(eitp_token_file *file, int (*poll)(void *user), void *user) {
    if (!file)
        return;
    file->poll.ask = poll;
    file->poll.user = user;
}

/* Reads all ids, which it checks, and hashes them. */
static eitp_status eitp__token_file_hash(const eitp_token_file *file, uint64_t *hash, eitp_error *error) {
    int32_t ids[EITP__TOKEN_VERIFY_IDS];
    *hash = eitp__token_hash_start();
    for (uint64_t first = 0; first < file->info.token_count;) {
        uint64_t left = file->info.token_count - first;
        uint64_t count = left < EITP__COUNT(ids) ? left : EITP__COUNT(ids);
        eitp_status status = eitp__poll_ask(&file->poll) ? eitp__fail_interrupted(error)
                                                         : eitp__token_file_read_ids(file, first, count, ids, error);
        if (status != EITP_OK)
            return status;
        *hash = eitp__token_hash(*hash, ids, (size_t)count);
        first += count;
    }
    return EITP_OK;
}

eitp_status eitp_token_file_verify(const eitp_token_file *file, eitp_error *error) {
    uint64_t hash;
    if (!file)
        return eitp__fail_null(error, "eitp_token_file_verify", "file");
    eitp_status status = eitp__token_file_hash(file, &hash, error);
    if (status == EITP_OK && file->info.kind == EITP_TOKEN_FILE_EITP && hash != file->info.content_hash)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "%s: the tokens are damaged (their hash is %016llx, expected %016llx): copy the file or pack "
                          "the text again",
                          file->file.path, (unsigned long long)hash, (unsigned long long)file->info.content_hash);
    /* The object itself is not constant: eitp_token_file_open has allocated it. */
    if (status == EITP_OK && file->info.kind == EITP_TOKEN_FILE_LLMC)
        __atomic_store_n(&((eitp_token_file *)file)->verified_hash, hash, __ATOMIC_RELAXED);
    return status;
}

/* ---- Reading ---- */

/* Compares the ids with what they were when the file was opened. */
static eitp_status eitp__token_file_compare(const void *owner, eitp_error *error) {
    const eitp_token_file *file = (const eitp_token_file *)owner;
    const uint64_t expected = eitp_token_file_get_info(file).content_hash;
    uint64_t hash = 0;
    eitp_status status = EITP_OK;
    if (!expected)
        return eitp__fail(error, EITP_ERROR_IO,
                          "'%s' was written to while it was read; whether its tokens are the same is known only of a "
                          "file that was verified",
                          file->file.path);
    status = eitp__token_file_hash(file, &hash, error);
    if (status == EITP_OK && hash != expected)
        return eitp__fail(
            error, EITP_ERROR_IO,
            "'%s' changed while it was read: the hash of its tokens is %016llx, expected %016llx; restore "
            "it",
            file->file.path, (unsigned long long)hash, (unsigned long long)expected);
    return status;
}

eitp_status eitp_token_file_read(const eitp_token_file *file, uint64_t first, uint64_t count, int32_t *ids,
                                 eitp_error *error) {
    if (!file || (count && !ids))
        return eitp__fail_null(error, "eitp_token_file_read", "file and ids");
    if (first > file->info.token_count || count > file->info.token_count - first)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s: %llu tokens from token %llu on exceed the %llu tokens of the file", file->file.path,
                          (unsigned long long)count, (unsigned long long)first,
                          (unsigned long long)file->info.token_count);
    eitp_status status = eitp__token_file_read_ids(file, first, count, ids, error);
    /* The object itself is not constant: eitp_token_file_open has allocated it. */
    return status ? status
                  : eitp__file_check_stamp(&file->file, &((eitp_token_file *)file)->stamp, eitp__token_file_compare,
                                           file, error);
}
