/* Tokenizers: text to token ids and back. */
#ifndef EITP_TEXT_H
#define EITP_TEXT_H

#include "base/settings.h"

EITP_BEGIN_DECLARATIONS

/*
 * A tokenizer: byte-level BPE as GPT-2's and RoBERTa's (Radford et al., "Language Models are Unsupervised Multitask
 * Learners", 2019; Sennrich, Haddow, Birch, "Neural Machine Translation of Rare Words with Subword Units", ACL 2016),
 * or as that of Qwen2 and 3, Llama 3 and SmolLM; BPE with byte fallback as Llama 2's, Mistral's and Gemma's (Kudo,
 * Richardson, "SentencePiece", EMNLP 2018); or WordPiece as BERT's (Devlin, Chang, Lee, Toutanova, "BERT", NAACL 2019).
 * It produces the same ids as Hugging Face's `tokenizers`, version 0.23. docs/tokenizers.md lists the normalizers,
 * pre-tokenizers and decoders of each.
 *
 * It differs from that library in two rules:
 *   - Bytes that are not valid UTF-8 are encoded as U+FFFD, one for each maximal subpart of an ill-formed sequence, as
 *     with Python's errors="replace".
 *   - A match of a pattern, a word, or with byte fallback a text in which merges may join any two neighbours, longer
 *     than 1,048,576 bytes is cut after the last character that ends within them, so that memory stays bounded.
 *
 * Added tokens, special ones such as <|endoftext|> and [SEP] included, are recognized wherever their text appears in
 * the input: "<|endoftext|>" in a text becomes that token. Remove it from text you do not trust.
 *
 * A tokenizer never changes after creation: any number of threads may use one at the same time, if the host's allocator
 * is thread-safe.
 */
typedef struct eitp_tokenizer eitp_tokenizer;

/*
 * Loads a tokenizer in Hugging Face's formats. `path` is a tokenizer.json, or a directory with tokenizer.json, or else
 * vocab.txt (WordPiece), or else vocab.json and merges.txt (byte-level BPE). Without tokenizer.json, the
 * tokenizer_class in tokenizer_config.json, or else the model_type in config.json, decides between vocab.txt and
 * vocab.json, and whether the special tokens of a vocab.json are those of RoBERTa or <|endoftext|>. Other classes are
 * EITP_ERROR_UNSUPPORTED then: those files do not say how text is cut into pieces. So is a directory with only a
 * tokenizer.model (SentencePiece): transformers writes a tokenizer.json for it.
 *
 * tokenizer_config.json and special_tokens_map.json in the same directory may name special tokens (see
 * eitp_tokenizer_special); tokenizer_config.json overrides add_prefix_space, do_lower_case, strip_accents,
 * tokenize_chinese_chars, truncation_side and padding_side. How many tokens a sequence may have is not applied, but
 * told by eitp_tokenizer_sequence_defaults.
 *
 * Anything this tokenizer cannot reproduce exactly is EITP_ERROR_UNSUPPORTED, and the message names it: other models,
 * normalizers, pre-tokenizers and post-processors, dropout, never_split of words that are not added tokens. A special
 * token that is needed and not in the vocabulary is EITP_ERROR_FORMAT.
 */
EITP_API eitp_status eitp_tokenizer_load(const eitp_host *host, const char *path, eitp_tokenizer **out,
                                         eitp_error *error);

/* Creates a tokenizer without merges: ids 0 to 255 are the bytes, 256 is <|endoftext|>. */
EITP_API eitp_status eitp_tokenizer_create_bytes(const eitp_host *host, eitp_tokenizer **out, eitp_error *error);

/*
 * Text that is read piece by piece. Each call of `read` stores the next piece of a document in *text and *size, valid
 * until the next call; a piece may end anywhere, even inside a character. A size of 0 ends the document; a *text of
 * NULL ends the last document and the source. If `read` fails, the function that called it stops and returns that
 * status. It is called by the thread that called that function.
 */
typedef struct eitp_text_source {
    void *user;
    eitp_status (*read)(void *user, const char **text, size_t *size, eitp_error *error);
} eitp_text_source;

/* The special tokens of a trained tokenizer, and what they are put around. */
typedef enum eitp_tokenizer_family {
    EITP_TOKENIZER_GPT2 = 0, /* <|endoftext|>, the last token */
    /* <s>, <pad>, </s>, <unk> and <mask>, the first tokens; sequences are <s> text </s>, and of pairs <s> text </s>
       </s> text </s>: for models of classification and of masked tokens */
    EITP_TOKENIZER_ROBERTA = 1
} eitp_tokenizer_family;

/* Start from eitp_tokenizer_train_config_default(). */
typedef struct eitp_tokenizer_train_config {
    int32_t vocabulary_size; /* number of tokens, including the 256 bytes and special ones: 257 or 261 to 16,777,216 */
    eitp_tokenizer_family family;
    int64_t minimum_frequency; /* a pair must occur at least this often to be merged; 1, or 0: any pair */
    uint64_t memory_limit;     /* bytes that training may use, approximately, at least 1 MiB; 0: the default */
} eitp_tokenizer_train_config;

/* 50257 tokens, EITP_TOKENIZER_GPT2, any pair, 512 MiB. */
EITP_API eitp_tokenizer_train_config eitp_tokenizer_train_config_default(void);

/*
 * Tokens for the tokenizer of a new model that trains on so many bytes of text: the bytes, the special tokens, and one
 * more for each 64 bytes of text, so that a small text has tokens that occur often enough to be learned; at most 8192,
 * of which the embeddings take little of a small model. A recipe without a tokenizer trains one of this size. See
 * docs/tokenizers.md for measurements.
 */
EITP_API int32_t eitp_tokenizer_train_size(eitp_tokenizer_family family, uint64_t text_bytes);

/*
 * Trains a byte-level BPE tokenizer: the most frequent pair of adjacent tokens within the matches of GPT-2's pattern
 * becomes a token, until there are vocabulary_size tokens or no pair is frequent enough. Of equally frequent pairs the
 * one with the smaller ids comes first. The same text gives the same tokenizer.
 *
 * First come RoBERTa's special tokens, if they are asked for, then the bytes in GPT-2's order, then the merges; GPT-2's
 * <|endoftext|> is last. Special tokens in the text are not learned from, and end a word. If the distinct matches
 * exceed memory_limit, the rarest are dropped, with a warning in the log.
 */
EITP_API eitp_status eitp_tokenizer_train(const eitp_host *host, const eitp_tokenizer_train_config *config,
                                          const eitp_text_source *source, eitp_tokenizer **out, eitp_error *error);

/*
 * Writes tokenizer_config.json and tokenizer.json to `directory`, which is created if missing; and vocab.json and
 * merges.txt, or vocab.txt, if they are the same tokenizer without it: for GPT-2's pattern and WordPiece. Settings of a
 * loaded tokenizer_config.json that are not about special tokens are kept, and so are truncation, padding,
 * post-processor and decoder of a loaded tokenizer.json.
 */
EITP_API eitp_status eitp_tokenizer_save(const eitp_tokenizer *tokenizer, const char *directory, eitp_error *error);

/* NULL is harmless. */
EITP_API void eitp_tokenizer_destroy(eitp_tokenizer *tokenizer);

/* Number of tokens; ids are 0 to size - 1. 0 for NULL. */
EITP_API int32_t eitp_tokenizer_size(const eitp_tokenizer *tokenizer);

/* Special tokens with a role; in parentheses, their names in Hugging Face's files. */
typedef enum eitp_special_token {
    EITP_END_OF_TEXT = 0,   /* follows each document (eos_token) */
    EITP_BEGIN_OF_TEXT = 1, /* precedes each document (bos_token) */
    EITP_PADDING = 2,       /* fills batches (pad_token) */
    EITP_UNKNOWN = 3,       /* words that WordPiece does not know, characters without a token for each of their bytes
                               (unk_token); to byte-level BPE no text is unknown */
    EITP_CLASSIFIER = 4,    /* begins a sequence; what a model says there is about all of it (cls_token) */
    EITP_SEPARATOR = 5,     /* ends each text of a sequence (sep_token) */
    EITP_MASK = 6           /* stands for a token to be guessed (mask_token) */
} eitp_special_token;

/* Number of values of eitp_special_token. */
#define EITP_SPECIAL_TOKEN_COUNT 7

/*
 * The id of a special token; -1 if the tokenizer has none, for NULL, and for an unknown `which`.
 *
 * The token is the one named in tokenizer_config.json (overridden by special_tokens_map.json if the former has no
 * added_tokens_decoder), where null means none; else the one whose id is in generation_config.json or config.json; else
 * the special token with the usual name: <|endoftext|> as in GPT-2, except for padding; [PAD], [UNK], [CLS], [SEP] and
 * [MASK] with WordPiece; <s>, </s>, <pad>, <unk> and <mask> with a RobertaTokenizer; with byte fallback <s>, </s> and
 * <unk>, or those of Gemma if there is a <bos>: <bos>, <eos>, <pad>, <unk> and <mask>. Loading fails with
 * EITP_ERROR_FORMAT if the named eos_token is not in the vocabulary; other missing names are ignored with a warning.
 */
EITP_API int32_t eitp_tokenizer_special(const eitp_tokenizer *tokenizer, eitp_special_token which);

/* The id of EITP_END_OF_TEXT; -1 if there is none and for NULL. */
EITP_API int32_t eitp_tokenizer_end_of_text(const eitp_tokenizer *tokenizer);

/* A 64-bit FNV-1a hash of vocabulary, merges and added tokens: tokenizers with equal fingerprints encode and decode
   alike. 0 for NULL. */
EITP_API uint64_t eitp_tokenizer_fingerprint(const eitp_tokenizer *tokenizer);

/*
 * Encodes a whole text of `size` bytes, without adding special tokens or cutting anything. Stores the number of ids in
 * *count and the first `capacity` of them in `ids`: if *count > capacity, the rest is missing. `size` ids are always
 * enough for valid UTF-8, unless the tokenizer adds spaces (add_prefix_space, Prepend, Metaspace) or has a normalizer;
 * 12 * size always are.
 * `text` may be NULL if size is 0, `ids` if capacity is 0. *count is 0 after a failure.
 */
EITP_API eitp_status eitp_tokenizer_encode(const eitp_tokenizer *tokenizer, const char *text, size_t size, int32_t *ids,
                                           size_t capacity, size_t *count, eitp_error *error);

/* Which of two texts loses tokens if a sequence is too long; in parentheses, the names of transformers. */
typedef enum eitp_truncation {
    EITP_TRUNCATE_LONGEST = 0, /* the longer one, down to the length of the other, then both ("longest_first") */
    EITP_TRUNCATE_FIRST = 1,   /* "only_first" */
    EITP_TRUNCATE_SECOND = 2,  /* "only_second" */
    EITP_TRUNCATE_NONE = 3     /* neither: a sequence that is too long is an error */
} eitp_truncation;

/* What a tokenizer's files say about the length of sequences, for callers that follow them. All 0: nothing. */
typedef struct eitp_sequence_defaults {
    int32_t max_length;         /* "max_length" of "truncation" in tokenizer.json; 0: sequences are not cut */
    eitp_truncation truncation; /* "strategy" there */
    int truncate_left;          /* tokens at the beginning of a text are cut, not those at its end */
    int32_t model_max_length;   /* in tokenizer_config.json; 0: not there, or beyond int32_t */
    int has_padding;            /* tokenizer.json has "padding" */
    int pad_left;               /* padding comes before a sequence */
    int32_t pad_length;         /* sequences are padded to this length; 0: to the longest of a batch */
    int32_t pad_multiple;       /* and then to a multiple of this; 0: of 1 */
    int32_t pad_id, pad_segment;
} eitp_sequence_defaults;

/* All 0 for NULL. */
EITP_API eitp_sequence_defaults eitp_tokenizer_sequence_defaults(const eitp_tokenizer *tokenizer);

/* Number of special tokens in a sequence of one text, or of two if `pair` is true. 0 for NULL. */
EITP_API int32_t eitp_tokenizer_added_count(const eitp_tokenizer *tokenizer, int pair);

/* A text of `size` bytes; `bytes` may be NULL if size is 0. */
typedef struct eitp_text {
    const char *bytes;
    size_t size;
} eitp_text;

/* Start from eitp_sequence_config_default(). */
typedef struct eitp_sequence_config {
    int32_t max_length;         /* of the sequence, special tokens included; 0: any length */
    eitp_truncation truncation; /* what is cut if it is longer */
    int truncate_left;          /* see eitp_sequence_defaults */
    int omit_special_tokens;
} eitp_sequence_config;

/* Any length, with special tokens; if max_length is set, EITP_TRUNCATE_LONGEST, at the end of a text. */
EITP_API eitp_sequence_config eitp_sequence_config_default(void);

typedef struct eitp_sequence_report {
    size_t count;                 /* tokens of the sequence */
    size_t cut_first, cut_second; /* tokens that were cut from each text */
    size_t cut_words;             /* of eitp_tokenizer_encode_words: words that lost all their tokens */
    uint64_t unknown_bytes;       /* see eitp_encoder_unknown_bytes */
} eitp_sequence_report;

/*
 * Encodes a text, or a pair of texts if `second` is not NULL, as the sequence that a model expects: with the special
 * tokens of the tokenizer's template ("post_processor" in tokenizer.json) around them. Stores the first `capacity` ids
 * in `ids` and their segments (token_type_ids) in `segments`, either of which may be NULL, and fills in *report: if
 * report->count > capacity, the rest is missing. `config` may be NULL for the defaults.
 *
 * Both texts are encoded whole, then cut as transformers does. EITP_ERROR_ARGUMENT: max_length has no room for the
 * special tokens; the text to be cut would be left with no token, or is missing; or the sequence is too long with
 * EITP_TRUNCATE_NONE.
 */
EITP_API eitp_status eitp_tokenizer_encode_sequence(const eitp_tokenizer *tokenizer, const eitp_text *first,
                                                    const eitp_text *second, const eitp_sequence_config *config,
                                                    int32_t *ids, int32_t *segments, size_t capacity,
                                                    eitp_sequence_report *report, eitp_error *error);

/*
 * The same for a text that is given as words, each of which is encoded by itself, as by transformers with
 * is_split_into_words: byte-level BPE gets a space before each word (add_prefix_space). Stores in `word_of`, which may
 * be NULL, the number of the word, from 0, that each id is a piece of; -1 for special tokens. A word may have no
 * tokens.
 */
EITP_API eitp_status eitp_tokenizer_encode_words(const eitp_tokenizer *tokenizer, const eitp_text *words, size_t count,
                                                 const eitp_sequence_config *config, int32_t *ids, int32_t *segments,
                                                 int32_t *word_of, size_t capacity, eitp_sequence_report *report,
                                                 eitp_error *error);

/*
 * The bytes of one token, owned by the tokenizer; not necessarily whole characters, and not zero-terminated. Those of a
 * WordPiece token that goes on with a word begin with the prefix "##"; those of BPE with byte fallback have U+2581 for
 * spaces, and "<0x0A>" is the byte of a line feed. An id outside the vocabulary is EITP_ERROR_ARGUMENT.
 */
EITP_API eitp_status eitp_tokenizer_token(const eitp_tokenizer *tokenizer, int32_t id, const char **bytes, size_t *size,
                                          eitp_error *error);

/*
 * Decodes `count` ids; special tokens become their text. WordPiece tokens are joined to words with spaces between them,
 * and where the tokenizer says so ("cleanup") without spaces before punctuation. With byte fallback, tokens of bytes
 * become characters, or U+FFFD for each byte of a run of them that is not valid UTF-8. Stores the number of bytes in
 * *size and the first `capacity` of them in `text`, without a terminating zero. An id outside the vocabulary is
 * EITP_ERROR_ARGUMENT and the message gives its position. `ids` may be NULL if count is 0, `text` if capacity is 0.
 * *size is 0 after a failure.
 */
EITP_API eitp_status eitp_tokenizer_decode(const eitp_tokenizer *tokenizer, const int32_t *ids, size_t count,
                                           char *text, size_t capacity, size_t *size, eitp_error *error);

/*
 * Encodes text piece by piece: the ids are those of the whole text, however it is cut. An encoder uses about 3 MiB, and
 * up to 40 MiB while one match of GPT-2's pattern is very long.
 */
typedef struct eitp_encoder eitp_encoder;

/* Receives ids: `count` is at least 1, calls are in order. If it fails, encoding stops and returns that status. */
typedef eitp_status (*eitp_token_sink)(void *user, const int32_t *ids, size_t count, eitp_error *error);

/*
 * Creates an encoder that calls `sink` with `user`, which may be NULL. It belongs to one thread at a time. The
 * tokenizer must outlive it. After a failure of eitp_encoder_add or eitp_encoder_finish, reset or destroy it.
 */
EITP_API eitp_status eitp_encoder_create(const eitp_tokenizer *tokenizer, eitp_token_sink sink, void *user,
                                         eitp_encoder **out, eitp_error *error);

/* Adds `size` bytes of text, which may be NULL if size is 0. Their ids may reach the sink during a later call. */
EITP_API eitp_status eitp_encoder_add(eitp_encoder *encoder, const char *text, size_t size, eitp_error *error);

/* Ends the text: every id has reached the sink when this returns. The next eitp_encoder_add begins a new text. */
EITP_API eitp_status eitp_encoder_finish(eitp_encoder *encoder, eitp_error *error);

/*
 * Bytes encoded so far for which the vocabulary of BPE has no token: they give its unk_token, or nothing. Most
 * vocabularies of byte-level BPE have a token for each byte; that of SmolLM2 lacks 21 of them. With byte fallback they
 * are those of characters that have neither a token nor one for each byte. 0 with WordPiece and for NULL.
 */
EITP_API uint64_t eitp_encoder_unknown_bytes(const eitp_encoder *encoder);

/* Discards the current text. NULL is harmless. */
EITP_API void eitp_encoder_reset(eitp_encoder *encoder);

/* NULL is harmless. */
EITP_API void eitp_encoder_destroy(eitp_encoder *encoder);

EITP_END_DECLARATIONS

#endif
