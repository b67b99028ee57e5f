/* Packs text into a token file: reads, encodes, writes. */
#include "data/data.h"

#include "base/files.h"
#include "base/log.h"
#include "data/text_files.h"
#include "data/token_writer.h"

eitp_pack_config eitp_pack_config_default(void) {
    eitp_pack_config config = EITP__ZERO;
    config.texts = eitp_text_files_config_default();
    return config;
}

typedef struct eitp__packer {
    const eitp_host *host;
    const eitp_pack_config *config;
    eitp_text_files *texts;
    eitp_encoder *encoder;
    eitp__token_writer writer;
    const char *path; /* of the current document */
} eitp__packer;

static eitp_status eitp__pack_ids(void *user, const int32_t *ids, size_t count, eitp_error *error) {
    return eitp__token_writer_add(&((eitp__packer *)user)->writer, ids, count, error);
}

static eitp_status eitp__pack_progress(const eitp__packer *packer, eitp_error *error) {
    const eitp_pack_config *config = packer->config;
    eitp_pack_progress progress;
    if (!config->progress)
        return EITP_OK;
    progress.path = packer->path;
    progress.text_bytes = eitp__text_files_counts(packer->texts).file_bytes;
    progress.text_bytes_total = eitp_text_files_bytes(packer->texts);
    progress.documents = packer->writer.samples.layout.info.document_count;
    progress.tokens = packer->writer.samples.layout.info.token_count;
    if (config->progress(config->user, &progress))
        return eitp__fail(error, EITP_ERROR_INTERRUPTED, "%s: packing was stopped here; no token file was written",
                          packer->path);
    return EITP_OK;
}

/* Encodes all pieces of the current document. */
static eitp_status eitp__pack_pieces(eitp__packer *packer, eitp_error *error) {
    for (;;) {
        const char *text;
        size_t size = 0;
        eitp_status status = eitp__text_files_piece(packer->texts, &text, &size, error);
        if (status == EITP_OK)
            status = size ? eitp_encoder_add(packer->encoder, text, size, error)
                          : eitp_encoder_finish(packer->encoder, error);
        if (status == EITP_OK && size)
            status = eitp__pack_progress(packer, error);
        if (status != EITP_OK || !size)
            return status;
    }
}

static eitp_status eitp__pack_document(eitp__packer *packer, eitp_error *error) {
    eitp_sample_file_info *info = &packer->writer.samples.layout.info;
    info->document_count++;
    eitp_status status = eitp__pack_pieces(packer, error);
    if (status == EITP_OK && info->end_of_text >= 0)
        status = eitp__token_writer_add(&packer->writer, &info->end_of_text, 1, error);
    return status;
}

/* Warns that a token file has whole documents, regardless of the tokenizer's truncation. */
static void eitp__pack_warn_truncation(const eitp__packer *packer, const eitp_tokenizer *tokenizer) {
    const int32_t length = eitp_tokenizer_sequence_defaults(tokenizer).max_length;
    if (length)
        eitp__log_line(packer->host, EITP_LOG_WARNING,
                       "the tokenizer's truncation at %ld tokens is not applied: documents are packed whole",
                       (long)length);
}

static eitp_status eitp__pack_begin(eitp__packer *packer, const eitp_tokenizer *tokenizer, const char *output_path,
                                    eitp_error *error) {
    eitp_status status = eitp__partial_file_check(packer->host, output_path, "token file", error);
    if (status == EITP_OK)
        status = eitp_text_files_open(packer->host, &packer->config->texts, &packer->texts, error);
    if (status == EITP_OK)
        status = eitp_encoder_create(tokenizer, eitp__pack_ids, packer, &packer->encoder, error);
    if (status == EITP_OK)
        status =
            eitp__token_writer_open(&packer->writer, packer->host, output_path, eitp_tokenizer_size(tokenizer), error);
    eitp__pack_warn_truncation(packer, tokenizer);
    packer->writer.samples.layout.info.end_of_text = eitp_tokenizer_end_of_text(tokenizer);
    packer->writer.samples.layout.info.tokenizer_fingerprint = eitp_tokenizer_fingerprint(tokenizer);
    return status;
}

static eitp_status eitp__pack_documents(eitp__packer *packer, eitp_error *error) {
    for (;;) {
        eitp_status status = eitp__text_files_next(packer->texts, &packer->path, error);
        if (status != EITP_OK || !packer->path)
            return status;
        status = eitp__pack_document(packer, error);
        if (status != EITP_OK)
            return status;
    }
}

static eitp_status eitp__pack_finish(eitp__packer *packer, eitp_error *error) {
    const eitp_pack_config *config = packer->config;
    const eitp__text_progress counts = eitp__text_files_counts(packer->texts);
    eitp_sample_file_info *info = &packer->writer.samples.layout.info;
    info->text_bytes = counts.text_bytes;
    info->invalid_bytes = counts.invalid_bytes;
    if (!info->token_count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s%s: no text found; give files that are not empty",
                          config->texts.paths[0], config->texts.path_count > 1 ? " and the other paths" : "");
    eitp__warn_unknown_bytes(packer->host, eitp_encoder_unknown_bytes(packer->encoder));
    if (info->end_of_text < 0 && info->document_count > 1)
        eitp__log_line(packer->host, EITP_LOG_WARNING,
                       "the tokenizer has no end-of-text token, so the %llu documents are not separated; name one as "
                       "eos_token in its tokenizer_config.json",
                       (unsigned long long)info->document_count);
    return eitp__token_writer_finish(&packer->writer, error);
}

eitp_status eitp_pack(const eitp_host *host, const eitp_tokenizer *tokenizer, const eitp_pack_config *config,
                      const char *output_path, eitp_sample_file_info *info, eitp_error *error) {
    eitp__packer packer;
    if (!host || !tokenizer || !config || !output_path)
        return eitp__fail_null(error, "eitp_pack", "host, tokenizer, config and output_path");
    memset(&packer, 0, sizeof packer);
    packer.host = host;
    packer.config = config;
    eitp_status status = eitp__pack_begin(&packer, tokenizer, output_path, error);
    if (status == EITP_OK)
        status = eitp__pack_documents(&packer, error);
    if (status == EITP_OK)
        status = eitp__pack_finish(&packer, error);
    if (status == EITP_OK && info)
        *info = packer.writer.samples.layout.info;
    eitp__token_writer_release(&packer.writer);
    eitp_encoder_destroy(packer.encoder);
    eitp_text_files_close(packer.texts);
    return status;
}
