/* Tokenizers: text becomes token ids and token ids become text. */
#ifndef EITP_TEXT_H
#define EITP_TEXT_H

#include "base/base.h"

EITP_BEGIN_DECLARATIONS

/*
 * GPT-2's byte-level BPE (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019; Sennrich,
 * Haddow, Birch, "Neural Machine Translation of Rare Words with Subword Units", ACL 2016). Ids are those of the library
 * `tokenizers` with its ByteLevel pre-tokenizer, token for token; \p{L}, \p{N} and \s are those of Unicode 16.0, as
 * there.
 *
 * Two rules go beyond the library. Bytes that are no UTF-8 count as U+FFFD, one for each maximal subpart of a sequence,
 * as Python's errors="replace" has it. And a run that the pattern would keep in one piece is cut after the last
 * character that ends within its first 1,048,576 bytes, so that memory stays bounded: 100 MB of "a" are a hundred
 * pieces.
 *
 * A tokenizer never changes once made: any number of threads may use it at a time, if the host's allocator allows that.
 */
typedef struct eitp_tokenizer eitp_tokenizer;

/*
 * Reads a tokenizer in Hugging Face's formats. `path` names a tokenizer.json, or a directory with tokenizer.json or,
 * where that is missing, with vocab.json and merges.txt; there, <|endoftext|> is special where the vocabulary has it.
 * Beside them tokenizer_config.json and special_tokens_map.json may name special tokens (see eitp_tokenizer_special),
 * and tokenizer_config.json decides on add_prefix_space. A tokenizer.json's truncation and padding are left to the
 * caller, and a warning says so. What this tokenizer cannot do exactly (another model, a normalizer, other
 * pre-tokenizers, dropout, added tokens that strip or match whole words, a post-processor that adds tokens, ...) is
 * EITP_ERROR_UNSUPPORTED and named.
 */
EITP_API eitp_status eitp_tokenizer_load(const eitp_host *host, const char *path, eitp_tokenizer **out,
                                         eitp_error *error);

/* The tokenizer without merges: ids 0 to 255 are the bytes, 256 is <|endoftext|>. */
EITP_API eitp_status eitp_tokenizer_create_bytes(const eitp_host *host, eitp_tokenizer **out, eitp_error *error);

/*
 * Where text comes from that is never whole in memory. Each call stores the next piece of a document in *text and
 * *size, valid until the call after it; pieces may end anywhere, within a character too. A size of 0 ends the document,
 * a *text of NULL ends the last document and the source. A failure ends what reads from it, and is passed on.
 */
typedef struct eitp_text_source {
    void *user;
    eitp_status (*read)(void *user, const char **text, size_t *size, eitp_error *error);
} eitp_text_source;

/* Zero-initialise it and set what you need. */
typedef struct eitp_tokenizer_train_config {
    int32_t vocabulary_size;   /* tokens in all, the 256 bytes and <|endoftext|> among them: at least 257 */
    int64_t minimum_frequency; /* a pair must occur this often to be merged; 0 and 1: any that occurs */
    uint64_t memory_limit;     /* bytes that training may take, about; 0: 512 MiB */
} eitp_tokenizer_train_config;

/*
 * Learns a byte-level BPE from text: again and again the most frequent pair of neighbouring tokens within the pieces of
 * GPT-2's pattern becomes a token, the one with the smaller ids where several are as frequent. Ids 0 to 255 are the
 * bytes in GPT-2's order, then come the merges, and <|endoftext|> is last; where it occurs in the text it ends a
 * document. The vocabulary is smaller than asked for where the text has no more pairs. Text with more distinct pieces
 * than memory_limit holds has the rarest forgotten on the way; the log says so. The same text gives the same tokenizer.
 */
EITP_API eitp_status eitp_tokenizer_train(const eitp_host *host, const eitp_tokenizer_train_config *config,
                                          const eitp_text_source *source, eitp_tokenizer **out, eitp_error *error);

/*
 * Writes vocab.json, merges.txt, tokenizer_config.json and tokenizer.json into `directory`, which is made where it is
 * missing. What the tokenizer_config.json that was loaded says beside special tokens is kept.
 */
EITP_API eitp_status eitp_tokenizer_save(const eitp_tokenizer *tokenizer, const char *directory, eitp_error *error);

/* NULL is harmless. */
EITP_API void eitp_tokenizer_destroy(eitp_tokenizer *tokenizer);

/* Number of tokens: ids are 0 to size - 1. */
EITP_API int32_t eitp_tokenizer_size(const eitp_tokenizer *tokenizer);

/* Special tokens that have a part to play; in brackets, their names in Hugging Face's files. */
typedef enum eitp_special_token {
    EITP_END_OF_TEXT = 0,   /* after each document (eos_token) */
    EITP_BEGIN_OF_TEXT = 1, /* before each document (bos_token) */
    EITP_PADDING = 2,       /* pad_token */
    EITP_UNKNOWN = 3        /* unk_token; bytes are never unknown, but other programs ask for it */
} eitp_special_token;

/* Of eitp_special_token. */
#define EITP_SPECIAL_TOKEN_COUNT 4

/*
 * The id of a special token, -1 where there is none. It is the one that tokenizer_config.json names, or
 * special_tokens_map.json where tokenizer_config.json has no added_tokens_decoder; where neither says anything, the one
 * whose id generation_config.json or config.json gives; else <|endoftext|>, as GPT-2 has it, but for padding. An
 * eos_token that the tokenizer does not have is EITP_ERROR_FORMAT when it is loaded; for the others a warning is
 * logged.
 */
EITP_API int32_t eitp_tokenizer_special(const eitp_tokenizer *tokenizer, eitp_special_token which);

/* The id of EITP_END_OF_TEXT, -1 where there is none. */
EITP_API int32_t eitp_tokenizer_end_of_text(const eitp_tokenizer *tokenizer);

/* A number that two tokenizers share only if they encode and decode alike (FNV-1a over vocabulary, merges and added
 * tokens). */
EITP_API uint64_t eitp_tokenizer_fingerprint(const eitp_tokenizer *tokenizer);

/*
 * Encodes a whole text. Stores how many ids it has in *count, and the first of them, up to `capacity`, in `ids` (which
 * may be NULL where capacity is 0): compare *count with capacity. `size` ids are enough for text that is UTF-8, unless
 * the tokenizer adds a space before it (add_prefix_space); 4 * size always are. *count is 0 on failure.
 */
EITP_API eitp_status eitp_tokenizer_encode(const eitp_tokenizer *tokenizer, const char *text, size_t size, int32_t *ids,
                                           size_t capacity, size_t *count, eitp_error *error);

/*
 * The bytes of one token, owned by the tokenizer; not always whole characters. An id outside the vocabulary is
 * EITP_ERROR_ARGUMENT.
 */
EITP_API eitp_status eitp_tokenizer_token(const eitp_tokenizer *tokenizer, int32_t id, const char **bytes, size_t *size,
                                          eitp_error *error);

/*
 * The bytes of a sequence of ids, with the names of special tokens in their places. Stores how many bytes there are in
 * *size, and the first of them, up to `capacity`, in `text` (which may be NULL where capacity is 0); no zero byte is
 * added. An id outside the vocabulary is EITP_ERROR_ARGUMENT that says which; *size is 0 on failure.
 */
EITP_API eitp_status eitp_tokenizer_decode(const eitp_tokenizer *tokenizer, const int32_t *ids, size_t count,
                                           char *text, size_t capacity, size_t *size, eitp_error *error);

/*
 * Encodes texts that are never whole in memory: the ids are those of the whole text, however it is cut into pieces.
 * Memory is bounded: about 3 MiB, and up to 40 MiB while a piece of the pattern is very long.
 */
typedef struct eitp_encoder eitp_encoder;

/* Where ids go: called with one or more of them, in order. A failure ends the encoding and is passed on. */
typedef eitp_status (*eitp_token_sink)(void *user, const int32_t *ids, size_t count, eitp_error *error);

/* `sink` is called with `user`. An encoder serves one thread at a time. The tokenizer must live as long. */
EITP_API eitp_status eitp_encoder_create(const eitp_tokenizer *tokenizer, eitp_token_sink sink, void *user,
                                         eitp_encoder **out, eitp_error *error);

/* The next `size` bytes of the text. The ids of what is certain by now may reach the sink later. */
EITP_API eitp_status eitp_encoder_add(eitp_encoder *encoder, const char *text, size_t size, eitp_error *error);

/* The end of the text: the sink has got every id of it when this returns. What is added next is another text. */
EITP_API eitp_status eitp_encoder_finish(eitp_encoder *encoder, eitp_error *error);

/* Forgets the text that was begun: the way to go on after a failure. */
EITP_API void eitp_encoder_reset(eitp_encoder *encoder);

/* NULL is harmless. */
EITP_API void eitp_encoder_destroy(eitp_encoder *encoder);

EITP_END_DECLARATIONS

#endif
