#include "data/token_writer.h"

EITP__PRIVATE eitp_status eitp__token_writer_open(eitp__token_writer *writer, const eitp_host *host, const char *path,
                                                  int32_t vocabulary_size, eitp_error *error) {
    const size_t bytes = (size_t)vocabulary_size * sizeof *writer->counts;
    eitp_status status =
        eitp__sample_writer_open(&writer->samples, host, path, EITP_SAMPLE_FILE_TOKENS, vocabulary_size, 0, error);
    writer->counts = status == EITP_OK ? (uint64_t *)eitp__allocate(host, bytes) : NULL;
    return status == EITP_OK && !writer->counts ? eitp__fail_memory(error, bytes, "counting tokens") : status;
}

EITP__PRIVATE eitp_status eitp__token_writer_add(eitp__token_writer *writer, const int32_t *ids, size_t count,
                                                 eitp_error *error) {
    eitp_sample_file_info *info = &writer->samples.layout.info;
    eitp_status status = eitp__sample_writer_add(&writer->samples, 0, ids, count, NULL, error);
    if (status != EITP_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        writer->counts[ids[i]]++;
    info->content_hash = eitp__token_hash(info->content_hash, ids, count);
    return EITP_OK;
}

/* Returns -sum p ln p with p = c / n, which equals ln n - (sum c ln c) / n. */
static double eitp__token_writer_entropy(const eitp__token_writer *writer) {
    const eitp_sample_file_info *info = &writer->samples.layout.info;
    const double total = (double)info->token_count;
    double sum = 0;
    for (int32_t id = 0; id < info->vocabulary_size; id++) {
        const double count = (double)writer->counts[id];
        if (count > 0)
            sum += count * log(count);
    }
    const double entropy = total > 0 ? log(total) - sum / total : 0;
    return entropy > 0 ? entropy : 0;
}

EITP__PRIVATE eitp_status eitp__token_writer_finish(eitp__token_writer *writer, eitp_error *error) {
    writer->samples.layout.info.unigram_entropy = eitp__token_writer_entropy(writer);
    return eitp__sample_writer_finish(&writer->samples, error);
}

EITP__PRIVATE void eitp__token_writer_release(eitp__token_writer *writer) {
    const size_t size = (size_t)writer->samples.layout.info.vocabulary_size * sizeof *writer->counts;
    if (writer->samples.host)
        eitp__release(writer->samples.host, writer->counts, size);
    eitp__sample_writer_release(&writer->samples);
    memset(writer, 0, sizeof *writer);
}
