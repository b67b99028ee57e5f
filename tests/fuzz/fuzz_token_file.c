/* Fuzzes token files: each is opened, read and cut into windows, or refused. */
#include "tests/support/everything.h"
#include "tests/support/one_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition) {
    if (!condition)
        abort();
}

/* Checks the properties of a file that can be opened. */
static void use_file(const eitp_token_file *file, int32_t vocabulary_size) {
    const eitp_token_file_info info = eitp_token_file_get_info(file);
    eitp_token_range training, validation;
    eitp_token_source source;
    eitp_windows windows;
    int32_t tokens[16], targets[16];
    require(info.token_count > 0 && (info.element_size == 2 || info.element_size == 4));
    require(eitp_token_file_read(file, info.token_count, 1, tokens, NULL) == EITP_ERROR_ARGUMENT);
    eitp_token_file_verify(file, NULL);
    if (eitp_split_tokens(info.token_count, 0.25, 16, &training, &validation, NULL) != EITP_OK)
        return;
    source = eitp_token_file_source(file, validation);
    require(eitp_windows_init(&windows, &source, 16, NULL) == EITP_OK);
    for (uint64_t window = 0; window < 8 && window < windows.count; window++) {
        if (eitp_windows_read(&windows, window, tokens, targets, NULL) != EITP_OK)
            continue;
        for (int i = 0; i < 16; i++)
            require(tokens[i] >= 0 && (vocabulary_size == 0 || tokens[i] < vocabulary_size));
    }
}

static void open_bytes(const uint8_t *data, size_t size, int32_t vocabulary_size) {
    one_file one = {data, size};
    const eitp_host host = one_file_host(&one);
    eitp_token_file *file = NULL;
    eitp_error error;
    if (eitp_token_file_open(&host, "fuzz", vocabulary_size, &file, &error) == EITP_OK)
        use_file(file, vocabulary_size);
    else
        require(!file && strlen(error.message) > 10);
    eitp_token_file_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    open_bytes(data, size, 0);
    open_bytes(data, size, 100);
    if (size >= EITP__TOKEN_HEADER_SIZE) { /* with a valid checksum, to reach the checks after it */
        uint8_t *sealed = (uint8_t *)malloc(size);
        require(sealed != NULL);
        memcpy(sealed, data, size);
        const uint32_t crc = eitp__crc32c(0, sealed, EITP__TOKEN_HEADER_SIZE - 4);
        for (size_t i = 0; i < 4; i++)
            sealed[EITP__TOKEN_HEADER_SIZE - 4 + i] = (uint8_t)(crc >> 8 * i);
        open_bytes(sealed, size, 0);
        free(sealed);
    }
    return 0;
}
