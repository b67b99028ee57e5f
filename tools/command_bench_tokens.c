#include "command_bench_tokens.h"

#include "command_files.h"

enum { HEADER_BYTES = 1024, MAX_ID = 65535 };

static int tokens_open(void *user, const char *path, eitp_file_mode mode, void **file) {
    (void)path;
    *file = user;
    return mode == EITP_FILE_READ ? 0 : EACCES;
}

static int tokens_close(void *user, void *file) {
    (void)user;
    (void)file;
    return 0;
}

static int tokens_size(void *user, void *file, uint64_t *size) {
    (void)user;
    *size = ((const bench_tokens *)file)->size;
    return 0;
}

static int tokens_read(void *user, void *file, uint64_t offset, void *data, size_t size, size_t *done) {
    const bench_tokens *tokens = (const bench_tokens *)file;
    (void)user;
    *done = 0;
    if (offset < tokens->size) {
        *done = tokens->size - (size_t)offset < size ? tokens->size - (size_t)offset : size;
        memcpy(data, tokens->bytes + offset, *done);
    }
    return 0;
}

static void put_number(unsigned char *bytes, uint32_t number) {
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(number >> 8 * i);
}

eitp_status bench_tokens_open(bench_tokens *tokens, size_t count, int64_t vocabulary, eitp_error *error) {
    eitp_host host = command_host();
    uint32_t state = 1, ids = vocabulary > MAX_ID ? (uint32_t)MAX_ID : (uint32_t)vocabulary;
    tokens->size = HEADER_BYTES + 2 * count;
    tokens->bytes = (unsigned char *)command_allocate(tokens->size);
    put_number(tokens->bytes, 20240520); /* llm.c's magic number and version */
    put_number(tokens->bytes + 4, 1);
    put_number(tokens->bytes + 8, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        uint32_t id;
        state = state * 1664525u + 1013904223u;
        id = (uint32_t)((uint64_t)state * ids >> 32);
        tokens->bytes[HEADER_BYTES + 2 * i] = (unsigned char)(id & 0xff);
        tokens->bytes[HEADER_BYTES + 2 * i + 1] = (unsigned char)(id >> 8);
    }
    host.files.user = tokens;
    host.files.open = tokens_open;
    host.files.close = tokens_close;
    host.files.size = tokens_size;
    host.files.read = tokens_read;
    return eitp_token_file_open(&host, "random tokens", (int32_t)vocabulary, &tokens->file, error);
}

void bench_tokens_close(bench_tokens *tokens) {
    eitp_token_file_close(tokens->file);
    free(tokens->bytes);
    memset(tokens, 0, sizeof *tokens);
}
