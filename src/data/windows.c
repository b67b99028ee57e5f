/* The training and validation parts of a token file, and their windows. */
#include "data/data.h"

#include "base/status.h"
#include "data/permutation.h"

static eitp_status eitp__check_block_size(int64_t block_size, eitp_error *error) {
    if (block_size < 1 || block_size >= INT32_MAX)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "a block size of %lld tokens; give one from 1 to %ld",
                          (long long)block_size, (long)INT32_MAX - 1);
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
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "a validation fraction of %g; give 0 for no validation, or a number below 1", fraction);
    const uint64_t window = (uint64_t)block_size + 1;
    const uint64_t held_out = (uint64_t)ceil((double)token_count * fraction);
    const uint64_t left = held_out < token_count ? token_count - held_out : 0;
    if (left < window || (fraction > 0 && held_out < window)) {
        const double smaller = fraction > 0 && fraction < 0.5 ? fraction : 1 - fraction;
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "%llu tokens, of which %llu for validation, are too few for windows of %llu tokens (block size %lld "
            "and one more) in each part: %.15g tokens would do; take more text, a smaller block size or "
            "another validation fraction",
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

eitp_status eitp_windows_init(eitp_windows *windows, const eitp_token_file *file, eitp_token_range tokens,
                              int64_t block_size, eitp_shuffle shuffle, uint64_t seed, eitp_error *error) {
    if (!windows || !file)
        return eitp__fail_null(error, "eitp_windows_init", "windows and file");
    const uint64_t token_count = eitp_token_file_get_info(file).token_count;
    eitp_status status = eitp__check_block_size(block_size, error);
    if (status != EITP_OK)
        return status;
    if (tokens.first > token_count || tokens.count > token_count - tokens.first)
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT, "windows of %llu tokens from token %llu on, in a file of %llu: ask for less",
            (unsigned long long)tokens.count, (unsigned long long)tokens.first, (unsigned long long)token_count);
    if (tokens.count <= (uint64_t)block_size)
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "%llu tokens hold no window: a block size of %lld needs at least %lld; take more text or a smaller "
            "block size",
            (unsigned long long)tokens.count, (long long)block_size, (long long)block_size + 1);
    if (shuffle != EITP_SHUFFLE_NONE && shuffle != EITP_SHUFFLE_WINDOWS)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%d is no way to shuffle; give EITP_SHUFFLE_NONE or _WINDOWS",
                          (int)shuffle);
    windows->file = file;
    windows->tokens = tokens;
    windows->block_size = block_size;
    windows->shuffle = shuffle;
    windows->seed = seed;
    windows->count = (tokens.count - 1) / (uint64_t)block_size;
    return EITP_OK;
}

uint64_t eitp_windows_index(const eitp_windows *windows, uint64_t sample) {
    if (!windows || !windows->count)
        return 0;
    const uint64_t epoch = sample / windows->count, position = sample % windows->count;
    if (windows->shuffle == EITP_SHUFFLE_NONE)
        return position;
    return eitp__permute(windows->seed, epoch, windows->count, position);
}

static eitp_status eitp__read_window(const eitp_windows *windows, uint64_t sample, int32_t *tokens, int32_t *targets,
                                     eitp_error *error) {
    const size_t block = (size_t)windows->block_size;
    const uint64_t first = windows->tokens.first + eitp_windows_index(windows, sample) * block;
    eitp_status status = eitp_token_file_read(windows->file, first, block, tokens, error);
    if (status == EITP_OK)
        status = eitp_token_file_read(windows->file, first + block, 1, targets + block - 1, error);
    if (status == EITP_OK)
        memcpy(targets, tokens + 1, (block - 1) * sizeof *targets);
    return status;
}

void eitp_windows_expect_read(const eitp_windows *windows, uint64_t first, int64_t count) {
    for (int64_t i = 0; windows && i < count; i++) {
        uint64_t window = eitp_windows_index(windows, first + (uint64_t)i) * (uint64_t)windows->block_size;
        eitp_token_file_expect_read(windows->file, windows->tokens.first + window, (uint64_t)windows->block_size + 1);
    }
}

eitp_status eitp_windows_read(const eitp_windows *windows, uint64_t first, int64_t count, int32_t *tokens,
                              int32_t *targets, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (!windows || !tokens || !targets)
        return eitp__fail_null(error, "eitp_windows_read", "windows, tokens and targets");
    for (int64_t i = 0; status == EITP_OK && i < count; i++)
        status = eitp__read_window(windows, first + (uint64_t)i, tokens + i * windows->block_size,
                                   targets + i * windows->block_size, error);
    return status;
}
