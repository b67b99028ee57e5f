/* Random tokens as a token file in memory, read through the host's table of files. */
#ifndef COMMAND_BENCH_TOKENS_H
#define COMMAND_BENCH_TOKENS_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

typedef struct bench_tokens {
    unsigned char *bytes; /* in llm.c's format: docs/token-file.md */
    size_t size;
    eitp_token_file *file;
} bench_tokens;

/* Creates `count` tokens below `vocabulary` and opens their file. */
eitp_status bench_tokens_open(bench_tokens *tokens, size_t count, int64_t vocabulary, eitp_error *error);
void bench_tokens_close(bench_tokens *tokens);

EITP_END_DECLARATIONS

#endif
