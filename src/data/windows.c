/* Splits tokens into training and validation parts, and reads them as windows. */
#include "data/data.h"

#include "base/status.h"
#include "data/permutation.h"
#include "data/windows.h"

static eitp_status eitp__check_block_size(int64_t block_size, eitp_error *error) {
    if (block_size < 1 || block_size >= INT32_MAX)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "block_size must be 1 to %ld (got %lld)", (long)INT32_MAX - 1,
                          (long long)block_size);
    return EITP_OK;
}

eitp_status eitp_split_tokens(uint64_t token_count, double validation_fraction, int64_t block_size,
                              eitp_token_range *training, eitp_token_range *validation, eitp_error *error) {
    const double fraction = validation_fraction;
    eitp_status status = eitp__check_block_size(block_size, error);
    if (!training || !validation)
        return eitp__fail_null(error, "eitp_split_tokens", "training and validation");
    if (status != EITP_OK)
        return status;
    if (!(fraction >= 0 && fraction < 1))
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "validation_fraction must be at least 0 and below 1 (got %g)",
                          fraction);
    const uint64_t window = (uint64_t)block_size + 1;
    const uint64_t held_out = (uint64_t)ceil((double)token_count * fraction);
    const uint64_t left = held_out < token_count ? token_count - held_out : 0;
    if (left < window || (fraction > 0 && held_out < window)) {
        const double smaller = fraction > 0 && fraction < 0.5 ? fraction : 1 - fraction;
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "%llu tokens, %llu of them for validation, are too few: each part needs a window of %llu tokens "
            "(block size %lld plus 1), which takes at least %.15g tokens in all; use more text, a "
            "smaller block size or another validation fraction",
            (unsigned long long)token_count, (unsigned long long)held_out, (unsigned long long)window,
            (long long)block_size, fraction > 0 ? ceil((double)window / smaller) + 1 : (double)window);
    }
    const uint64_t trained = fraction > 0 ? (left - 1) / (uint64_t)block_size * (uint64_t)block_size + 1 : token_count;
    training->first = 0;
    training->count = trained;
    validation->first = trained;
    validation->count = token_count - trained;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__windows_init(eitp__windows *windows, const eitp_token_source *source,
                                             int64_t block_size, eitp_error *error) {
    if (!windows || !source)
        return eitp__fail_null(error, "eitp__windows_init", "windows and source");
    const eitp_token_range *range = &source->range;
    eitp_status status = eitp__check_block_size(block_size, error);
    if (status != EITP_OK)
        return status;
    if (range->first > source->count || range->count > source->count - range->first)
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT, "%llu tokens from token %llu on exceed the %llu tokens of the source",
            (unsigned long long)range->count, (unsigned long long)range->first, (unsigned long long)source->count);
    if (range->count <= (uint64_t)block_size)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%llu tokens are too few for a window: a block size of %lld needs at least %lld; use more "
                          "text or a smaller block size",
                          (unsigned long long)range->count, (long long)block_size, (long long)block_size + 1);
    windows->source = *source;
    windows->block_size = block_size;
    windows->count = (range->count - 1) / (uint64_t)block_size;
    return EITP_OK;
}

/* Returns the index of a window's first token in the source. */
static uint64_t eitp__window_first(const eitp__windows *windows, uint64_t index) {
    return windows->source.range.first + index * (uint64_t)windows->block_size;
}

EITP__PRIVATE eitp_status eitp__windows_read(const eitp__windows *windows, uint64_t index, int32_t *tokens,
                                             int32_t *targets, eitp_error *error) {
    if (!windows || !windows->source.read || !tokens || !targets)
        return eitp__fail_null(error, "eitp__windows_read", "windows, their source's read, tokens and targets");
    const eitp_token_source *source = &windows->source;
    const size_t block = (size_t)windows->block_size;
    const uint64_t first = eitp__window_first(windows, index);
    eitp_status status;
    if (index >= windows->count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "window %llu is out of range (%llu windows)",
                          (unsigned long long)index, (unsigned long long)windows->count);
    status = source->read(source->user, first, block, tokens, error);
    if (status == EITP_OK)
        status = source->read(source->user, first + block, 1, targets + block - 1, error);
    if (status == EITP_OK)
        memcpy(targets, tokens + 1, (block - 1) * sizeof *targets);
    return status;
}

EITP__PRIVATE void eitp__windows_prefetch(const eitp__windows *windows, uint64_t index) {
    if (windows && windows->source.prefetch && index < windows->count)
        windows->source.prefetch(windows->source.user, eitp__window_first(windows, index),
                                 (uint64_t)windows->block_size + 1);
}

EITP__PRIVATE uint64_t eitp__sample_index(eitp_shuffle shuffle, uint64_t seed, uint64_t count, uint64_t number) {
    if (!count)
        return 0;
    return shuffle == EITP_SHUFFLE_NONE ? number % count
                                        : eitp__shuffled_position(seed, number / count, count, number % count);
}
