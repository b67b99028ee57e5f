/* Token sources for token files and arrays. */
#include "data/data.h"

#include "base/status.h"
#include "data/token_header.h"

static eitp_status eitp__read_file_tokens(void *user, uint64_t first, uint64_t count, int32_t *ids, eitp_error *error) {
    return eitp_token_file_read((const eitp_token_file *)user, first, count, ids, error);
}

static void eitp__prefetch_file_tokens(void *user, uint64_t first, uint64_t count) {
    eitp_token_file_prefetch((const eitp_token_file *)user, first, count);
}

eitp_token_source eitp_token_file_source(const eitp_token_file *file, eitp_token_range range) {
    const eitp_token_file_info info = eitp_token_file_get_info(file);
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

static eitp_status eitp__read_memory_tokens(void *user, uint64_t first, uint64_t count, int32_t *ids,
                                            eitp_error *error) {
    (void)error;
    memcpy(ids, (const int32_t *)user + first, (size_t)count * sizeof *ids);
    return EITP_OK;
}

eitp_token_source eitp_token_memory_source(const int32_t *ids, uint64_t count, eitp_token_range range) {
    eitp_token_source source;
    memset(&source, 0, sizeof source);
    source.user = (void *)ids;
    source.count = ids ? count : 0;
    source.range = range;
    source.hash = eitp__token_hash(eitp__token_hash_start(), ids, (size_t)source.count);
    source.end_of_text = -1;
    source.read = eitp__read_memory_tokens;
    return source;
}
