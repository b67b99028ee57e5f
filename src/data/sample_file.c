/* Sample files: opening, verifying, detecting changes while they are open, and their tokens and samples as sources. */
#include "data/sample_file.h"

#include "base/checksum.h"
#include "data/sample_index.h"

enum { EITP__SAMPLE_HASH_IDS = 2048 };

/* ---- The content ---- */

/* Checks and hashes the ids from the start, up to the first prefix with the hash `wanted`, unless that is 0. *count is
   the number of tokens in that prefix, or 0 if no prefix has it. */
static eitp_status eitp__sample_file_hash_tokens(const eitp_sample_file *file, uint64_t wanted, uint64_t *hash,
                                                 uint64_t *count, eitp_error *error) {
    const uint64_t all = file->layout.info.token_count;
    int32_t ids[EITP__SAMPLE_HASH_IDS];
    *hash = EITP__FNV_START;
    *count = 0;
    for (uint64_t first = 0; first < all; first += EITP__COUNT(ids)) {
        const uint64_t now = all - first < EITP__COUNT(ids) ? all - first : EITP__COUNT(ids);
        const eitp_status status = eitp__poll_ask(&file->poll)
                                       ? eitp__fail_interrupted(error)
                                       : eitp__sample_read_ids(file, EITP__IDS_OF_EITHER, first, now, ids, NULL, error);
        if (status != EITP_OK)
            return status;
        for (uint64_t i = 0; i < now; i++) {
            *hash = eitp__token_hash(*hash, ids + i, 1);
            if (!wanted || *hash != wanted)
                continue;
            *count = first + i + 1;
            return EITP_OK;
        }
    }
    return EITP_OK;
}

/* Reads and checks the whole file. */
static eitp_status eitp__sample_file_hash(const eitp_sample_file *file, uint64_t *hash, eitp_error *error) {
    uint64_t count;
    return file->layout.info.kind == EITP_SAMPLE_FILE_LABELLED
               ? eitp__sample_index_hash(file, 1, hash, error)
               : eitp__sample_file_hash_tokens(file, 0, hash, &count, error);
}

/* Compares the computed hash with the header's. */
static eitp_status eitp__sample_file_check_hash(const eitp_sample_file *file, uint64_t hash, eitp_error *error) {
    const eitp_sample_file_info *info = &file->layout.info;
    if (info->kind == EITP_SAMPLE_FILE_LLMC || hash == info->content_hash)
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_FORMAT,
                      "%s: the %s damaged (%s hash is %016llx, expected %016llx): copy the file or pack the %s again",
                      file->file.path, info->sample_count ? "index is" : "tokens are",
                      info->sample_count ? "its" : "their", (unsigned long long)hash,
                      (unsigned long long)info->content_hash, info->sample_count ? "examples" : "text");
}

/* Compares the content with the content at the time the file was opened. */
static eitp_status eitp__sample_file_compare(const void *owner, eitp_error *error) {
    const eitp_sample_file *file = (const eitp_sample_file *)owner;
    const uint64_t expected = eitp_sample_file_get_info(file).content_hash;
    uint64_t hash = 0;
    if (!expected)
        return eitp__fail(error, EITP_ERROR_IO,
                          "'%s' was written to while it was read; changes to its tokens can only be ruled out for a "
                          "file that was verified",
                          file->file.path);
    eitp_status status = eitp__sample_file_hash(file, &hash, error);
    if (status == EITP_OK && hash != expected)
        return eitp__fail(error, EITP_ERROR_IO,
                          "'%s' changed while it was read: the hash of its %s is %016llx, expected %016llx; restore "
                          "it",
                          file->file.path, file->layout.info.sample_count ? "samples" : "tokens",
                          (unsigned long long)hash, (unsigned long long)expected);
    return status;
}

/* Detects changes since the file was opened. The object itself is not constant: eitp_sample_file_open allocated it. */
static eitp_status eitp__sample_file_check(const eitp_sample_file *file, eitp_error *error) {
    return eitp__file_check_stamp(&file->file, &((eitp_sample_file *)file)->stamp, eitp__sample_file_compare, file,
                                  error);
}

/* ---- Opening ---- */

static eitp_status eitp__sample_file_begin(eitp_sample_file *file, int32_t vocabulary_size, eitp_error *error) {
    const eitp_sample_file_info *info = &file->layout.info;
    unsigned char header[EITP__SAMPLE_HEADER_SIZE];
    uint64_t file_size = 0, hash = 0;
    size_t size = 0;
    eitp_status status = eitp__file_size(&file->file, &file_size, error);
    if (status == EITP_OK)
        status = eitp__file_read_some(&file->file, 0, header, sizeof header, &size, error);
    if (status != EITP_OK)
        return status;
    status = eitp__sample_header_read(header, size, file_size, &file->layout, error);
    if (status != EITP_OK)
        return eitp__fail_prefix(error, status, "%s", file->file.path);
    file->limit = vocabulary_size ? (uint32_t)vocabulary_size : UINT32_MAX;
    if (info->kind != EITP_SAMPLE_FILE_LABELLED)
        return EITP_OK;
    status = eitp__sample_index_hash(file, 0, &hash, error);
    if (status == EITP_OK)
        status = eitp__sample_file_check_hash(file, hash, error);
    return status == EITP_OK ? eitp__sample_read_names(file, error) : status;
}

eitp_status eitp_sample_file_open(const eitp_host *host, const char *path, int32_t vocabulary_size,
                                  eitp_sample_file **file, eitp_error *error) {
    if (!host || !path || !file)
        return eitp__fail_null(error, "eitp_sample_file_open", "host, path and file");
    *file = NULL;
    if (vocabulary_size < 0)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s: vocabulary_size must be at least 0 (got %d); 0 uses the file's own", path,
                          (int)vocabulary_size);
    eitp_sample_file *opened = (eitp_sample_file *)eitp__allocate(host, sizeof *opened);
    if (!opened)
        return eitp__fail_memory(error, sizeof *opened, "a file of samples");
    opened->host = *host;
    eitp_status status = eitp__file_open(&opened->file, &opened->host, path, EITP_FILE_READ, error);
    if (status == EITP_OK) {
        opened->stamp = eitp__file_stamp_of(&opened->file);
        status = eitp__sample_file_begin(opened, vocabulary_size, error);
    }
    if (status != EITP_OK) {
        eitp_sample_file_close(opened);
        return status;
    }
    *file = opened;
    return EITP_OK;
}

void eitp_sample_file_close(eitp_sample_file *file) {
    if (!file)
        return;
    eitp_host host = file->host;
    eitp__file_close(&file->file, NULL);
    eitp__release(&host, file->names_text, (size_t)file->layout.names_size);
    eitp__release(&host, file->labels, (size_t)file->layout.info.label_count * sizeof *file->labels);
    eitp__release(&host, file, sizeof *file);
}

eitp_sample_file_info eitp_sample_file_get_info(const eitp_sample_file *file) {
    eitp_sample_file_info info = EITP__ZERO;
    if (!file)
        return info;
    info = file->layout.info;
    if (!info.content_hash)
        info.content_hash = __atomic_load_n(&file->verified_hash, __ATOMIC_RELAXED);
    return info;
}

EITP__PRIVATE void eitp__sample_file_set_poll(eitp_sample_file *file, int (*poll)(void *user), void *user) {
    if (!file)
        return;
    file->poll.ask = poll;
    file->poll.user = user;
}

/* ---- Reading ---- */

eitp_status eitp_sample_file_verify(const eitp_sample_file *file, eitp_error *error) {
    uint64_t hash = 0;
    if (!file)
        return eitp__fail_null(error, "eitp_sample_file_verify", "file");
    eitp_status status = eitp__sample_file_hash(file, &hash, error);
    if (status == EITP_OK)
        status = eitp__sample_file_check_hash(file, hash, error);
    /* The object itself is not constant: eitp_sample_file_open has allocated it. */
    if (status == EITP_OK && file->layout.info.kind == EITP_SAMPLE_FILE_LLMC)
        __atomic_store_n(&((eitp_sample_file *)file)->verified_hash, hash, __ATOMIC_RELAXED);
    return status;
}

EITP__PRIVATE void eitp__sample_file_prefetch(const eitp_sample_file *file, uint64_t first, uint64_t count) {
    const uint64_t element = file ? (uint64_t)file->layout.info.element_size : 0;
    if (file)
        eitp__file_prefetch(&file->file, file->layout.ids + first * element, (size_t)(count * element));
}

EITP__PRIVATE eitp_status eitp__sample_file_find_prefix(const eitp_sample_file *file, uint64_t hash, uint64_t *count,
                                                        eitp_error *error) {
    uint64_t found, length = 0;
    if (!file || !count)
        return eitp__fail_null(error, "eitp__sample_file_find_prefix", "file and count");
    const eitp_status status = eitp__sample_file_hash_tokens(file, hash, &found, &length, error);
    *count = length;
    return status;
}

eitp_status eitp_sample_file_read_tokens(const eitp_sample_file *file, uint64_t first, uint64_t count, int32_t *ids,
                                         eitp_error *error) {
    if (!file || (count && !ids))
        return eitp__fail_null(error, "eitp_sample_file_read_tokens", "file and ids");
    const uint64_t all = file->layout.info.token_count;
    if (first > all || count > all - first)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s: %llu tokens from token %llu on exceed the %llu tokens of the file", file->file.path,
                          (unsigned long long)count, (unsigned long long)first, (unsigned long long)all);
    const eitp_status status = eitp__sample_read_ids(file, EITP__IDS_OF_EITHER, first, count, ids, NULL, error);
    return status ? status : eitp__sample_file_check(file, error);
}

eitp_status eitp_sample_file_read_sample(const eitp_sample_file *file, uint64_t number, eitp_labelled_sample *sample,
                                         eitp_error *error) {
    if (!file || !sample)
        return eitp__fail_null(error, "eitp_sample_file_read_sample", "file and sample");
    if (number >= file->layout.info.sample_count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s: sample %llu is outside the %llu samples of the file",
                          file->file.path, (unsigned long long)number,
                          (unsigned long long)file->layout.info.sample_count);
    const eitp_status status = eitp__sample_read(file, number, sample, error);
    return status ? status : eitp__sample_file_check(file, error);
}

/* ---- Sources ---- */

static eitp_status eitp__read_file_tokens(void *user, uint64_t first, uint64_t count, int32_t *ids, eitp_error *error) {
    return eitp_sample_file_read_tokens((const eitp_sample_file *)user, first, count, ids, error);
}

static void eitp__prefetch_file_tokens(void *user, uint64_t first, uint64_t count) {
    eitp__sample_file_prefetch((const eitp_sample_file *)user, first, count);
}

eitp_token_source eitp_sample_file_token_source(const eitp_sample_file *file, eitp_token_range range) {
    const eitp_sample_file_info info = eitp_sample_file_get_info(file);
    eitp_token_source source;
    memset(&source, 0, sizeof source);
    source.user = (void *)file; /* only read, never written */
    source.count = info.token_count;
    source.range = range;
    source.hash = info.content_hash;
    source.end_of_text = info.end_of_text;
    source.read = eitp__read_file_tokens;
    source.prefetch = eitp__prefetch_file_tokens;
    return source;
}

static eitp_status eitp__read_file_sample(void *user, uint64_t number, eitp_labelled_sample *sample,
                                          eitp_error *error) {
    return eitp_sample_file_read_sample((const eitp_sample_file *)user, number, sample, error);
}

eitp_labelled_source eitp_sample_file_labelled_source(const eitp_sample_file *file) {
    eitp_labelled_source source;
    memset(&source, 0, sizeof source);
    if (!file || !file->layout.info.sample_count)
        return source;
    source.user = (void *)file; /* only read, never written */
    source.count = file->layout.info.sample_count;
    source.max_length = file->layout.info.max_length;
    source.max_first = file->layout.info.second_vocabulary ? file->layout.info.max_first : 0;
    source.max_second = file->layout.info.max_second;
    source.problem = file->layout.info.problem;
    source.label_count = file->layout.info.label_count;
    source.labels = file->labels;
    source.has_weights = file->layout.info.has_weights;
    source.hash = file->layout.info.content_hash ? file->layout.info.content_hash : 1;
    source.read = eitp__read_file_sample;
    return source;
}
