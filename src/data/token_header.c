#include "data/token_header.h"

#include "base/checksum.h"
#include "base/little_endian.h"
#include "base/status.h"

enum { EITP__TOKEN_VERSION = 1 };
enum { EITP__TOKEN_LLMC_MAGIC = 20240520, EITP__TOKEN_LLMC_VERSION = 1 };

/* Offsets of the fields. */
enum {
    EITP__TOKEN_AT_VERSION = 8,
    EITP__TOKEN_AT_ELEMENT_SIZE = 12,
    EITP__TOKEN_AT_TOKEN_COUNT = 16,
    EITP__TOKEN_AT_DOCUMENT_COUNT = 24,
    EITP__TOKEN_AT_VOCABULARY_SIZE = 32,
    EITP__TOKEN_AT_END_OF_TEXT = 36,
    EITP__TOKEN_AT_FINGERPRINT = 40,
    EITP__TOKEN_AT_CONTENT_HASH = 48,
    EITP__TOKEN_AT_TEXT_BYTES = 56,
    EITP__TOKEN_AT_INVALID_BYTES = 64,
    EITP__TOKEN_AT_ENTROPY = 72,
    EITP__TOKEN_AT_CRC = 252
};

EITP__PRIVATE const char *eitp__token_magic(void) {
    return "EITPTOK"; /* including its zero byte */
}

EITP__PRIVATE uint64_t eitp__token_hash_start(void) {
    return 0xCBF29CE484222325u;
}

EITP__PRIVATE uint64_t eitp__token_hash(uint64_t hash, const int32_t *ids, size_t count) {
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ (uint32_t)ids[i]) * 0x100000001B3u;
    return hash;
}

EITP__PRIVATE void eitp__token_header_write(unsigned char bytes[EITP__TOKEN_HEADER_SIZE],
                                            const eitp_token_file_info *info) {
    uint64_t entropy;
    memcpy(&entropy, &info->unigram_entropy, sizeof entropy);
    memset(bytes, 0, EITP__TOKEN_HEADER_SIZE);
    memcpy(bytes, eitp__token_magic(), EITP__TOKEN_MAGIC_SIZE);
    eitp__put_number(bytes + EITP__TOKEN_AT_VERSION, 4, EITP__TOKEN_VERSION);
    eitp__put_number(bytes + EITP__TOKEN_AT_ELEMENT_SIZE, 4, (uint64_t)info->element_size);
    eitp__put_number(bytes + EITP__TOKEN_AT_TOKEN_COUNT, 8, info->token_count);
    eitp__put_number(bytes + EITP__TOKEN_AT_DOCUMENT_COUNT, 8, info->document_count);
    eitp__put_number(bytes + EITP__TOKEN_AT_VOCABULARY_SIZE, 4, (uint64_t)info->vocabulary_size);
    eitp__put_number(bytes + EITP__TOKEN_AT_END_OF_TEXT, 4, (uint32_t)info->end_of_text);
    eitp__put_number(bytes + EITP__TOKEN_AT_FINGERPRINT, 8, info->tokenizer_fingerprint);
    eitp__put_number(bytes + EITP__TOKEN_AT_CONTENT_HASH, 8, info->content_hash);
    eitp__put_number(bytes + EITP__TOKEN_AT_TEXT_BYTES, 8, info->text_bytes);
    eitp__put_number(bytes + EITP__TOKEN_AT_INVALID_BYTES, 8, info->invalid_bytes);
    eitp__put_number(bytes + EITP__TOKEN_AT_ENTROPY, 8, entropy);
    eitp__put_number(bytes + EITP__TOKEN_AT_CRC, 4, eitp__crc32c(0, bytes, EITP__TOKEN_AT_CRC));
}

/* Compares the number of tokens in the header with the size of the file. */
static eitp_status eitp__token_check_size(const eitp_token_file_info *info, uint64_t offset, uint64_t file_size,
                                          eitp_error *error) {
    uint64_t room = file_size < offset ? 0 : file_size - offset;
    uint64_t element = (uint64_t)info->element_size;
    if (info->token_count != room / element || room % element || file_size < offset)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "the header says %llu tokens of %d bytes after %llu bytes, but the file has %llu bytes; it "
                          "is truncated or damaged: copy the file or pack the text again",
                          (unsigned long long)info->token_count, (int)element, (unsigned long long)offset,
                          (unsigned long long)file_size);
    if (!info->token_count)
        return eitp__fail(error, EITP_ERROR_FORMAT, "the file has no tokens: pack the text again");
    return EITP_OK;
}

static eitp_status eitp__token_header_fields(const unsigned char *bytes, eitp_token_file_info *info,
                                             eitp_error *error) {
    uint64_t element_size = eitp__get_number(bytes + EITP__TOKEN_AT_ELEMENT_SIZE, 4);
    uint64_t vocabulary_size = eitp__get_number(bytes + EITP__TOKEN_AT_VOCABULARY_SIZE, 4);
    uint64_t end_of_text = eitp__get_number(bytes + EITP__TOKEN_AT_END_OF_TEXT, 4);
    uint64_t entropy = eitp__get_number(bytes + EITP__TOKEN_AT_ENTROPY, 8);
    if (element_size != 2 && element_size != 4)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "the header says %llu bytes per id, expected 2 or 4: pack the text again",
                          (unsigned long long)element_size);
    if (!vocabulary_size || vocabulary_size > (element_size == 2 ? 65536 : INT32_MAX))
        return eitp__fail(
            error, EITP_ERROR_FORMAT,
            "the header says a vocabulary of %llu, impossible with %llu bytes per id: pack the text again",
            (unsigned long long)vocabulary_size, (unsigned long long)element_size);
    if (end_of_text >= vocabulary_size && end_of_text != UINT32_MAX)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "the header says end-of-text id %llu, outside the vocabulary of %llu: pack the text again",
                          (unsigned long long)end_of_text, (unsigned long long)vocabulary_size);
    info->kind = EITP_TOKEN_FILE_EITP;
    info->element_size = (int32_t)element_size;
    info->vocabulary_size = (int32_t)vocabulary_size;
    info->end_of_text = end_of_text == UINT32_MAX ? -1 : (int32_t)end_of_text;
    info->token_count = eitp__get_number(bytes + EITP__TOKEN_AT_TOKEN_COUNT, 8);
    info->document_count = eitp__get_number(bytes + EITP__TOKEN_AT_DOCUMENT_COUNT, 8);
    info->tokenizer_fingerprint = eitp__get_number(bytes + EITP__TOKEN_AT_FINGERPRINT, 8);
    info->content_hash = eitp__get_number(bytes + EITP__TOKEN_AT_CONTENT_HASH, 8);
    info->text_bytes = eitp__get_number(bytes + EITP__TOKEN_AT_TEXT_BYTES, 8);
    info->invalid_bytes = eitp__get_number(bytes + EITP__TOKEN_AT_INVALID_BYTES, 8);
    memcpy(&info->unigram_entropy, &entropy, sizeof entropy);
    if (!(info->unigram_entropy >= 0 && info->unigram_entropy < 64)) /* at most ln 2^31 = 21.5; also false for NaN */
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "the header says an impossible unigram entropy of %g: pack the text again",
                          info->unigram_entropy);
    return EITP_OK;
}

static eitp_status eitp__token_header_own(const unsigned char *bytes, size_t size, eitp_token_file_info *info,
                                          eitp_error *error) {
    if (size < EITP__TOKEN_HEADER_SIZE)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "the file is truncated: it ends after %llu bytes, within its header of %d; copy the file or "
                          "pack the text again",
                          (unsigned long long)size, (int)EITP__TOKEN_HEADER_SIZE);
    uint64_t version = eitp__get_number(bytes + EITP__TOKEN_AT_VERSION, 4);
    if (!version)
        return eitp__fail(error, EITP_ERROR_FORMAT, "packing was interrupted: pack the text again");
    if (version != EITP__TOKEN_VERSION)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "unsupported token file version %llu (supported: %d): pack the text again",
                          (unsigned long long)version, (int)EITP__TOKEN_VERSION);
    uint32_t crc = eitp__crc32c(0, bytes, EITP__TOKEN_AT_CRC);
    uint32_t expected = (uint32_t)eitp__get_number(bytes + EITP__TOKEN_AT_CRC, 4);
    if (crc != expected)
        return eitp__fail(
            error, EITP_ERROR_FORMAT,
            "the header is damaged (its CRC32C is %08lx, expected %08lx): copy the file or pack the text again",
            (unsigned long)crc, (unsigned long)expected);
    return eitp__token_header_fields(bytes, info, error);
}

static eitp_status eitp__token_header_llmc(const unsigned char *bytes, size_t size, eitp_token_file_info *info,
                                           eitp_error *error) {
    uint64_t version = size >= 8 ? eitp__get_number(bytes + 4, 4) : 0;
    uint64_t count = size >= 12 ? eitp__get_number(bytes + 8, 4) : 0;
    if (size < 12)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "the file is truncated: it ends after %llu bytes, within llm.c's header of %d; copy it again",
                          (unsigned long long)size, (int)EITP__TOKEN_LLMC_HEADER_SIZE);
    if (version != EITP__TOKEN_LLMC_VERSION)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "unsupported version %llu of an llm.c token file (supported: %d): pack the text with eitp",
                          (unsigned long long)version, (int)EITP__TOKEN_LLMC_VERSION);
    if (count > INT32_MAX)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "llm.c's header says a negative number of tokens: copy the file again");
    info->kind = EITP_TOKEN_FILE_LLMC;
    info->element_size = 2;
    info->end_of_text = -1;
    info->token_count = count;
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__token_header_read(const unsigned char *bytes, size_t size, uint64_t file_size,
                                                  eitp_token_file_info *info, uint64_t *offset, eitp_error *error) {
    eitp_token_file_info found = EITP__ZERO;
    eitp_status status;
    uint64_t begin;
    if (size >= EITP__TOKEN_MAGIC_SIZE && !memcmp(bytes, eitp__token_magic(), EITP__TOKEN_MAGIC_SIZE)) {
        status = eitp__token_header_own(bytes, size, &found, error);
        begin = EITP__TOKEN_HEADER_SIZE;
    } else if (size >= 4 && eitp__get_number(bytes, 4) == EITP__TOKEN_LLMC_MAGIC) {
        status = eitp__token_header_llmc(bytes, size, &found, error);
        begin = EITP__TOKEN_LLMC_HEADER_SIZE;
    } else {
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "not a token file: it begins with neither \"EITPTOK\" nor llm.c's 20240520; create one from "
                          "text with eitp_pack");
    }
    if (status == EITP_OK)
        status = eitp__token_check_size(&found, begin, file_size, error);
    if (status != EITP_OK)
        return status;
    *info = found;
    *offset = begin;
    return EITP_OK;
}
