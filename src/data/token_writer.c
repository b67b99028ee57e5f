#include "data/token_writer.h"

#include "data/token_header.h"

enum { EITP__TOKEN_WRITE_BYTES = 65536 };

static eitp_status eitp__token_writer_allocate(eitp__token_writer *writer, eitp_error *error) {
    const eitp_host *host = writer->host;
    size_t counts_size = (size_t)writer->info.vocabulary_size * sizeof *writer->counts;
    writer->buffer = (unsigned char *)eitp__allocate_uninitialized(host, EITP__TOKEN_WRITE_BYTES);
    writer->counts = (uint64_t *)eitp__allocate(host, counts_size);
    if (!writer->buffer || !writer->counts)
        return eitp__fail_memory(error, EITP__TOKEN_WRITE_BYTES + counts_size, "writing a token file");
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__token_writer_open(eitp__token_writer *writer, const eitp_host *host, const char *path,
                                                  int32_t vocabulary_size, eitp_error *error) {
    unsigned char header[EITP__TOKEN_HEADER_SIZE] = EITP__ZERO;
    memset(writer, 0, sizeof *writer);
    writer->host = host;
    writer->info.kind = EITP_TOKEN_FILE_EITP;
    writer->info.element_size = vocabulary_size <= 65536 ? 2 : 4;
    writer->info.vocabulary_size = vocabulary_size;
    writer->info.end_of_text = -1;
    writer->info.content_hash = eitp__token_hash_start();
    writer->offset = EITP__TOKEN_HEADER_SIZE;
    eitp_status status = eitp__token_writer_allocate(writer, error);
    if (status == EITP_OK)
        status = eitp__partial_file_open(&writer->output, host, path, error);
    if (status != EITP_OK)
        return status;
    /* The magic with version 0 marks a file that is not complete. */
    memcpy(header, eitp__token_magic(), EITP__TOKEN_MAGIC_SIZE);
    return eitp__file_write(&writer->output.file, 0, header, sizeof header, error);
}

static eitp_status eitp__token_writer_flush(eitp__token_writer *writer, eitp_error *error) {
    eitp_status status =
        eitp__file_write(&writer->output.file, writer->offset, writer->buffer, writer->buffered, error);
    if (status == EITP_OK) {
        writer->offset += writer->buffered;
        writer->buffered = 0;
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__token_writer_add(eitp__token_writer *writer, const int32_t *ids, size_t count,
                                                 eitp_error *error) {
    const size_t element = (size_t)writer->info.element_size;
    for (size_t i = 0; i < count; i++) {
        const int32_t id = ids[i];
        if (id < 0 || id >= writer->info.vocabulary_size)
            return eitp__fail(error, EITP_ERROR_INTERNAL,
                              "the tokenizer returned id %ld, outside its vocabulary of %ld", (long)id,
                              (long)writer->info.vocabulary_size);
        if (writer->buffered + element > EITP__TOKEN_WRITE_BYTES) {
            eitp_status status = eitp__token_writer_flush(writer, error);
            if (status != EITP_OK)
                return status;
        }
        unsigned char *bytes = writer->buffer + writer->buffered;
        for (size_t byte = 0; byte < element; byte++)
            bytes[byte] = (unsigned char)((uint32_t)id >> 8 * byte);
        writer->buffered += element;
        writer->counts[id]++;
    }
    writer->info.token_count += count;
    writer->info.content_hash = eitp__token_hash(writer->info.content_hash, ids, count);
    return EITP_OK;
}

/* -sum p ln p with p = c / n, which equals ln n - (sum c ln c) / n. */
static double eitp__token_writer_entropy(const eitp__token_writer *writer) {
    const double total = (double)writer->info.token_count;
    double sum = 0;
    for (int32_t id = 0; id < writer->info.vocabulary_size; id++) {
        const double count = (double)writer->counts[id];
        if (count > 0)
            sum += count * log(count);
    }
    const double entropy = total > 0 ? log(total) - sum / total : 0;
    return entropy > 0 ? entropy : 0;
}

EITP__PRIVATE eitp_status eitp__token_writer_finish(eitp__token_writer *writer, eitp_error *error) {
    unsigned char header[EITP__TOKEN_HEADER_SIZE];
    writer->info.unigram_entropy = eitp__token_writer_entropy(writer);
    eitp__token_header_write(header, &writer->info);
    eitp_status status = eitp__token_writer_flush(writer, error);
    if (status == EITP_OK)
        status = eitp__file_write(&writer->output.file, 0, header, sizeof header, error);
    return status == EITP_OK ? eitp__partial_file_commit(&writer->output, error) : status;
}

EITP__PRIVATE void eitp__token_writer_release(eitp__token_writer *writer) {
    const eitp_host *host = writer->host;
    if (!host)
        return;
    eitp__partial_file_release(&writer->output);
    eitp__release(host, writer->buffer, EITP__TOKEN_WRITE_BYTES);
    eitp__release(host, writer->counts, (size_t)writer->info.vocabulary_size * sizeof *writer->counts);
    memset(writer, 0, sizeof *writer);
}
