/* Packs texts into a token file: reads, repairs invalid UTF-8, encodes, writes. */
#include "data/data.h"

#include "base/files.h"
#include "base/log.h"
#include "data/text_files.h"
#include "data/token_writer.h"
#include "data/utf8_repair.h"

typedef struct eitp__packer {
    const eitp_host *host;
    const eitp_pack_config *config;
    eitp_text_files *texts;
    eitp_encoder *encoder;
    eitp__token_writer writer;
    const char *path;         /* of the current text */
    eitp__utf8_repair repair; /* of the current text */
} eitp__packer;

static eitp_status eitp__pack_ids(void *user, const int32_t *ids, size_t count, eitp_error *error) {
    return eitp__token_writer_add(&((eitp__packer *)user)->writer, ids, count, error);
}

static eitp_status eitp__pack_utf8(void *user, const char *text, size_t size, eitp_error *error) {
    return eitp_encoder_add(((eitp__packer *)user)->encoder, text, size, error);
}

static eitp_status eitp__pack_progress(const eitp__packer *packer, eitp_error *error) {
    const eitp_pack_config *config = packer->config;
    eitp_pack_progress progress;
    if (!config->progress)
        return EITP_OK;
    progress.path = packer->path;
    progress.text_bytes = packer->writer.info.text_bytes;
    progress.text_bytes_total = eitp_text_files_bytes(packer->texts);
    progress.documents = packer->writer.info.document_count;
    progress.tokens = packer->writer.info.token_count;
    if (config->progress(config->user, &progress))
        return eitp__fail(error, EITP_ERROR_INTERRUPTED, "%s: packing was stopped here; no token file was written",
                          packer->path);
    return EITP_OK;
}

/* With strict_utf8 invalid bytes are an error. Checked after each piece. */
static eitp_status eitp__pack_check_utf8(const eitp__packer *packer, eitp_error *error) {
    const eitp__utf8_repair *repair = &packer->repair;
    if (!packer->config->strict_utf8 || !repair->invalid_bytes)
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_FORMAT,
                      "%s: invalid UTF-8 at byte %llu (0x%02X); convert the text to UTF-8, or turn off strict_utf8 to "
                      "replace such bytes by U+FFFD",
                      packer->path, (unsigned long long)repair->first_invalid, (unsigned)repair->invalid_byte);
}

/* Passes all pieces of the current text through repair and encoder. */
static eitp_status eitp__pack_pieces(eitp__packer *packer, eitp_error *error) {
    for (;;) {
        const char *text;
        size_t size = 0;
        eitp_status status = eitp__text_files_piece(packer->texts, &text, &size, error);
        if (status == EITP_OK)
            status = size ? eitp__utf8_repair_add(&packer->repair, text, size, error)
                          : eitp__utf8_repair_finish(&packer->repair, error);
        if (status == EITP_OK)
            status = eitp__pack_check_utf8(packer, error);
        packer->writer.info.text_bytes += size;
        if (status == EITP_OK)
            status = size ? eitp__pack_progress(packer, error) : eitp_encoder_finish(packer->encoder, error);
        if (status != EITP_OK || !size)
            return status;
    }
}

static eitp_status eitp__pack_document(eitp__packer *packer, eitp_error *error) {
    eitp_token_file_info *info = &packer->writer.info;
    const eitp__utf8_repair *repair = &packer->repair;
    eitp__utf8_repair_init(&packer->repair, eitp__pack_utf8, packer);
    info->document_count++;
    eitp_status status = eitp__pack_pieces(packer, error);
    if (status == EITP_OK && info->end_of_text >= 0)
        status = eitp__token_writer_add(&packer->writer, &info->end_of_text, 1, error);
    if (status != EITP_OK || !repair->invalid_bytes)
        return status;
    info->invalid_bytes += repair->invalid_bytes;
    eitp__log(packer->host, EITP_LOG_WARNING,
              "%s: replaced %llu bytes of invalid UTF-8 by U+FFFD, the first at byte %llu (0x%02X)", packer->path,
              (unsigned long long)repair->invalid_bytes, (unsigned long long)repair->first_invalid,
              (unsigned)repair->invalid_byte);
    return EITP_OK;
}

/* A token file has whole texts, whatever the tokenizer says. */
static void eitp__pack_warn_truncation(const eitp__packer *packer, const eitp_tokenizer *tokenizer) {
    const int32_t length = eitp_tokenizer_sequence_defaults(tokenizer).max_length;
    if (length)
        eitp__log(packer->host, EITP_LOG_WARNING,
                  "the tokenizer's truncation at %ld tokens is not applied: texts are packed whole", (long)length);
}

static eitp_status eitp__pack_begin(eitp__packer *packer, const eitp_tokenizer *tokenizer, const char *output_path,
                                    eitp_error *error) {
    const eitp_pack_config *config = packer->config;
    eitp_status status = eitp__partial_file_check(packer->host, output_path, "token file", error);
    if (status == EITP_OK)
        status = eitp_text_files_open(packer->host, config->paths, config->path_count, config->read_size,
                                      &packer->texts, error);
    if (status == EITP_OK)
        status = eitp_encoder_create(tokenizer, eitp__pack_ids, packer, &packer->encoder, error);
    if (status == EITP_OK)
        status =
            eitp__token_writer_open(&packer->writer, packer->host, output_path, eitp_tokenizer_size(tokenizer), error);
    eitp__pack_warn_truncation(packer, tokenizer);
    packer->writer.info.end_of_text = eitp_tokenizer_end_of_text(tokenizer);
    packer->writer.info.tokenizer_fingerprint = eitp_tokenizer_fingerprint(tokenizer);
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
    const eitp_token_file_info *info = &packer->writer.info;
    if (!info->token_count)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s%s: no text found; give files that are not empty",
                          config->paths[0], config->path_count > 1 ? " and the other paths" : "");
    if (info->end_of_text < 0 && info->document_count > 1)
        eitp__log(packer->host, EITP_LOG_WARNING,
                  "the tokenizer has no end-of-text token, so the %llu documents are not separated; name one as "
                  "eos_token in its tokenizer_config.json",
                  (unsigned long long)info->document_count);
    return eitp__token_writer_finish(&packer->writer, error);
}

eitp_status eitp_pack(const eitp_host *host, const eitp_tokenizer *tokenizer, const eitp_pack_config *config,
                      const char *output_path, eitp_token_file_info *info, eitp_error *error) {
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
        *info = packer.writer.info;
    eitp__token_writer_release(&packer.writer);
    eitp_encoder_destroy(packer.encoder);
    eitp_text_files_close(packer.texts);
    return status;
}
