/* Tokens in arrays. */
#include "data/data.h"

#include "base/checksum.h"
#include "data/data.h"
#include "data/sample_header.h"

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
    source.hash = eitp__token_hash(EITP__FNV_START, ids, (size_t)source.count);
    source.end_of_text = -1;
    source.read = eitp__read_memory_tokens;
    return source;
}
