/* Windows of a token source as samples, each enclosed in the special tokens of a tokenizer's template. */
#include "base/memory.h"
#include "base/status.h"
#include "task/task.h"

/* Finds the special tokens before and after a text. The common prefix of the sequences of an empty text and of a single
   letter comes before. */
static eitp_status eitp__find_template(const eitp_tokenizer *tokenizer, eitp_text_windows *windows, eitp_error *error) {
    static const eitp_text texts[2] = {{"", 0}, {"a", 1}};
    int32_t ids[2][EITP_MAX_TOKEN_IDS + 2];
    eitp_sequence_report reports[2];
    int32_t added, before = 0;
    for (int i = 0; i < 2; i++) {
        const eitp_status status = eitp_tokenizer_encode_sequence(tokenizer, &texts[i], NULL, NULL, ids[i], NULL,
                                                                  EITP__COUNT(ids[i]), &reports[i], error);
        if (status)
            return status;
    }
    if (reports[0].count > EITP_MAX_TOKEN_IDS)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "the template has %zu special tokens, more than the supported %d", reports[0].count,
                          EITP_MAX_TOKEN_IDS);
    added = (int32_t)reports[0].count;
    while (before < added && ids[0][before] == ids[1][before])
        before++;
    windows->before.count = before;
    windows->after.count = added - before;
    memcpy(windows->before.ids, ids[0], (size_t)before * sizeof(int32_t));
    memcpy(windows->after.ids, ids[0] + before, (size_t)(added - before) * sizeof(int32_t));
    return EITP_OK;
}

eitp_status eitp_text_windows_init(eitp_text_windows *windows, const eitp_token_source *source,
                                   const eitp_tokenizer *tokenizer, int64_t max_length, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (!windows || !source || !source->read)
        return eitp__fail_null(error, "eitp_text_windows_init", "windows, source and source.read");
    memset(windows, 0, sizeof *windows);
    if (source->range.first > source->count || source->range.count > source->count - source->range.first ||
        !source->range.count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the range of a token source must not be empty and must be within its %llu tokens",
                          (unsigned long long)source->count);
    if (tokenizer)
        status = eitp__find_template(tokenizer, windows, error);
    if (status)
        return status;
    windows->text_length = max_length - windows->before.count - windows->after.count;
    if (windows->text_length < 1)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "max_length is %lld; expected more than the %d special tokens",
                          (long long)max_length, (int)(windows->before.count + windows->after.count));
    windows->source = *source;
    return EITP_OK;
}

static int32_t *eitp__append_ids(int32_t *ids, const eitp_token_ids *more) {
    memcpy(ids, more->ids, (size_t)more->count * sizeof *ids);
    return ids + more->count;
}

static eitp_status eitp__text_windows_read(void *user, uint64_t number, eitp_labelled_sample *sample,
                                           eitp_error *error) {
    const eitp_text_windows *windows = (const eitp_text_windows *)user;
    const eitp_token_source *source = &windows->source;
    const uint64_t begin = number * (uint64_t)windows->text_length, left = source->range.count - begin;
    const uint64_t count = left < (uint64_t)windows->text_length ? left : (uint64_t)windows->text_length;
    int32_t *ids = eitp__append_ids(sample->ids, &windows->before);
    const eitp_status status = source->read(source->user, source->range.first + begin, count, ids, error);
    ids = eitp__append_ids(ids + count, &windows->after);
    sample->length = ids - sample->ids;
    for (int64_t i = 0; i < sample->length && sample->segments; i++)
        sample->segments[i] = 0;
    return status;
}

eitp_labelled_source eitp_text_windows_source(const eitp_text_windows *windows) {
    eitp_labelled_source source = EITP__ZERO;
    if (!windows || windows->text_length < 1)
        return source;
    source.user = (void *)(uintptr_t)windows;
    source.count = (windows->source.range.count - 1) / (uint64_t)windows->text_length + 1;
    source.max_length = windows->text_length + windows->before.count + windows->after.count;
    source.hash = windows->source.hash;
    source.read = eitp__text_windows_read;
    return source;
}
