/* Tokenizers: text to token ids and back. */
#ifndef EITP_TEXT_H
#define EITP_TEXT_H

#include "base/settings.h"

EITP_BEGIN_DECLARATIONS

/*
 * A tokenizer: byte-level BPE like GPT-2's and RoBERTa's (Radford et al., "Language Models are Unsupervised Multitask
 * Learners", 2019; Sennrich, Haddow, Birch, "Neural Machine Translation of Rare Words with Subword Units", ACL 2016),
 * or like Qwen2's and 3's, Llama 3's and SmolLM's; BPE with byte fallback like Llama 2's, Mistral's and Gemma's (Kudo,
 * Richardson, "SentencePiece", EMNLP 2018); or WordPiece like BERT's (Devlin, Chang, Lee, Toutanova, "BERT", NAACL
 * 2019). It produces the same ids as Hugging Face's `tokenizers`, version 0.23. docs/tokenizers.md lists the
 * normalizers, pre-tokenizers and decoders of each.
 *
 * It differs from that library in two rules:
 *   - Bytes that are not valid UTF-8 are encoded as U+FFFD, one for each maximal subpart of an ill-formed sequence, as
 *     with Python's errors="replace".
 *   - Pieces longer than 1,048,576 bytes are cut after the last character that ends within them, so that memory is
 *     bounded. A piece is a match of a pattern, a word, or with byte fallback text in which merges may join any two
 *     neighbours.
 *
 * Added tokens, including special ones such as <|endoftext|> and [SEP], are recognized wherever their text appears in
 * the input: "<|endoftext|>" in the input becomes that token. Remove such strings from input that you do not trust.
 *
 * A tokenizer is immutable after creation. Any number of threads may use one at the same time, if the host's allocator
 * is thread-safe.
 */
typedef struct eitp_tokenizer eitp_tokenizer;

/*
 * Loads a tokenizer in Hugging Face's formats. `path` is a GGUF file, a tokenizer.json, or a directory with
 * tokenizer.json, or else vocab.txt (WordPiece), or else vocab.json and merges.txt (byte-level BPE). Without
 * tokenizer.json, the tokenizer_class in tokenizer_config.json, or else the model_type in config.json, chooses between
 * vocab.txt and vocab.json, and decides whether the special tokens of a vocab.json are RoBERTa's or <|endoftext|>.
 * Other classes without tokenizer.json are EITP_ERROR_UNSUPPORTED, because those files do not define how text is cut
 * into pieces. So is a directory with only a tokenizer.model (SentencePiece): transformers writes a tokenizer.json for
 * it.
 *
 * tokenizer_config.json and special_tokens_map.json in the same directory may name special tokens (see
 * eitp_tokenizer_special). tokenizer_config.json overrides add_prefix_space, do_lower_case, strip_accents,
 * tokenize_chinese_chars, truncation_side and padding_side. Limits on the length of sequences are not applied;
 * eitp_tokenizer_sequence_defaults returns them.
 *
 * Anything that this tokenizer cannot reproduce exactly is EITP_ERROR_UNSUPPORTED, with a message that names it: other
 * models, normalizers, pre-tokenizers and post-processors, dropout, never_split of words that are not added tokens.
 * EITP_ERROR_FORMAT if a required special token is not in the vocabulary.
 */
EITP_API eitp_status eitp_tokenizer_load(const eitp_host *host, const char *path, eitp_tokenizer **out,
                                         eitp_error *error);

/* Creates a tokenizer without merges: ids 0 to 255 are the bytes, 256 is <|endoftext|>. */
EITP_API eitp_status eitp_tokenizer_create_bytes(const eitp_host *host, eitp_tokenizer **out, eitp_error *error);

/*
 * A text source that is read piece by piece. Each call of `read` stores the next piece of a document in *text and
 * *size, valid until the next call. A piece may end anywhere, even inside a character. A size of 0 ends the document; a
 * *text of NULL ends the last document and the source. If `read` fails, the function that called it stops and returns
 * that status. It is called by the thread that called that function.
 */
typedef struct eitp_text_source {
    void *user;
    eitp_status (*read)(void *user, const char **text, size_t *size, eitp_error *error);
} eitp_text_source;

/* Special tokens of a trained tokenizer, and their positions in sequences. */
typedef enum eitp_tokenizer_family {
    EITP_TOKENIZER_GPT2 = 0, /* <|endoftext|>, the last token */
    /* <s>, <pad>, </s>, <unk> and <mask>, the first tokens. Sequences are <s> text </s>, and pairs <s> text </s> </s>
       text </s>: for classification and masked language models. */
    EITP_TOKENIZER_ROBERTA = 1
} eitp_tokenizer_family;

/* Start from eitp_tokenizer_train_config_default(). */
typedef struct eitp_tokenizer_train_config {
    int32_t vocabulary_size; /* number of tokens, including the 256 bytes and special ones: 257 or 261 to 16,777,216 */
    eitp_tokenizer_family family;
    int64_t minimum_frequency; /* a pair must occur at least this often to be merged; 0 and 1: any pair */
    uint64_t memory_limit;     /* approximate memory that training may use, in bytes, at least 1 MiB; 0: the default */
} eitp_tokenizer_train_config;

/* Returns 50257 tokens, EITP_TOKENIZER_GPT2, any pair, 512 MiB. */
EITP_API eitp_tokenizer_train_config eitp_tokenizer_train_config_default(void);

/*
 * Returns the vocabulary size for the tokenizer of a new model that trains on `text_bytes` bytes of text: the bytes,
 * the special tokens, and one more token for each 64 bytes of text, so that tokens of a small text occur often enough
 * to be learned. At most 8192, so that the embeddings remain a small part of a small model. A recipe without a
 * tokenizer trains one of this size. See docs/tokenizers.md for measurements.
 */
EITP_API int32_t eitp_tokenizer_train_size(eitp_tokenizer_family family, uint64_t text_bytes);

/*
 * Trains a byte-level BPE tokenizer. The most frequent pair of adjacent tokens within the matches of GPT-2's pattern
 * becomes a token, until there are vocabulary_size tokens or no pair is frequent enough. Among equally frequent pairs
 * the one with the smaller ids comes first. The same text gives the same tokenizer.
 *
 * Ids start with RoBERTa's special tokens, if selected, then the bytes in GPT-2's order, then the merges. GPT-2's
 * <|endoftext|> is last. Special tokens in the text end a word and are not learned from. If the distinct matches exceed
 * memory_limit, the rarest are dropped, with a warning in the log.
 */
EITP_API eitp_status eitp_tokenizer_train(const eitp_host *host, const eitp_tokenizer_train_config *config,
                                          const eitp_text_source *source, eitp_tokenizer **out, eitp_error *error);

/*
 * Writes tokenizer_config.json and tokenizer.json to `directory`, which is created if missing. Also writes vocab.json
 * and merges.txt, or vocab.txt, if these files alone define the same tokenizer: for GPT-2's pattern and WordPiece.
 * Keeps settings of a loaded tokenizer_config.json that are not about special tokens, and truncation, padding,
 * post-processor and decoder of a loaded tokenizer.json.
 */
EITP_API eitp_status eitp_tokenizer_save(const eitp_tokenizer *tokenizer, const char *directory, eitp_error *error);

/* NULL is harmless. */
EITP_API void eitp_tokenizer_destroy(eitp_tokenizer *tokenizer);

/* Returns the number of tokens, or 0 for NULL. Ids are 0 to size - 1. */
EITP_API int32_t eitp_tokenizer_size(const eitp_tokenizer *tokenizer);

/* Special tokens by role, with their names in Hugging Face's files in parentheses. */
typedef enum eitp_special_token {
    EITP_END_OF_TEXT = 0,   /* follows each document (eos_token) */
    EITP_BEGIN_OF_TEXT = 1, /* precedes each document (bos_token) */
    EITP_PADDING = 2,       /* fills batches (pad_token) */
    EITP_UNKNOWN = 3,       /* unknown words in WordPiece; in BPE, characters or bytes without tokens (unk_token) */
    EITP_CLASSIFIER = 4,    /* starts a sequence; the model's output there is about the whole sequence (cls_token) */
    EITP_SEPARATOR = 5,     /* ends each text of a sequence (sep_token) */
    EITP_MASK = 6           /* stands for a token to predict (mask_token) */
} eitp_special_token;

/* Number of values of eitp_special_token. */
#define EITP_SPECIAL_TOKEN_COUNT 7

/*
 * Returns the id of a special token, or -1 if the tokenizer has none, for NULL, and for an unknown `which`.
 *
 * The token is the one named in tokenizer_config.json (overridden by special_tokens_map.json if the former has no
 * added_tokens_decoder), where null means none. Otherwise it is the one whose id is in generation_config.json or
 * config.json. Otherwise it is the special token with the usual name: <|endoftext|> as in GPT-2, except for padding;
 * [PAD], [UNK], [CLS], [SEP] and [MASK] with WordPiece; <s>, </s>, <pad>, <unk> and <mask> with a RobertaTokenizer;
 * with byte fallback <s>, </s> and <unk>, or Gemma's if there is a <bos>: <bos>, <eos>, <pad>, <unk> and <mask>.
 * Loading fails with EITP_ERROR_FORMAT if the named eos_token is not in the vocabulary. Other missing names are ignored
 * with a warning.
 */
EITP_API int32_t eitp_tokenizer_special(const eitp_tokenizer *tokenizer, eitp_special_token which);

/* Returns the id of EITP_END_OF_TEXT, or -1 without one and for NULL. */
EITP_API int32_t eitp_tokenizer_end_of_text(const eitp_tokenizer *tokenizer);

/* Returns a 64-bit FNV-1a hash of vocabulary, merges and added tokens. Tokenizers with equal fingerprints encode and
   decode identically. 0 for NULL. */
EITP_API uint64_t eitp_tokenizer_fingerprint(const eitp_tokenizer *tokenizer);

/*
 * Encodes a complete text of `size` bytes, without adding special tokens or truncating. Stores the number of ids in
 * *count and the first `capacity` of them in `ids`. If *count > capacity, the rest is missing. A capacity of `size` is
 * always enough for valid UTF-8, unless the tokenizer adds spaces (add_prefix_space, Prepend, Metaspace) or has a
 * normalizer; 12 * size always is. `text` may be NULL if size is 0, `ids` if capacity is 0. *count is 0 after a
 * failure.
 */
EITP_API eitp_status eitp_tokenizer_encode(const eitp_tokenizer *tokenizer, const char *text, size_t size, int32_t *ids,
                                           size_t capacity, size_t *count, eitp_error *error);

/* Selects the text that loses tokens if a sequence is too long. The names in transformers are in parentheses. */
typedef enum eitp_truncation {
    EITP_TRUNCATE_LONGEST = 0, /* the longer one, down to the length of the other, then both ("longest_first") */
    EITP_TRUNCATE_FIRST = 1,   /* "only_first" */
    EITP_TRUNCATE_SECOND = 2,  /* "only_second" */
    EITP_TRUNCATE_NONE = 3     /* neither: a sequence that is too long is an error */
} eitp_truncation;

/* A tokenizer's settings for the length of sequences, for callers that apply them. All 0: none. */
typedef struct eitp_sequence_defaults {
    int32_t max_length;         /* "max_length" of "truncation" in tokenizer.json; 0: sequences are not cut */
    eitp_truncation truncation; /* "strategy" there */
    int truncate_left;          /* tokens are cut at the start of a text, not at its end */
    int32_t model_max_length;   /* in tokenizer_config.json; 0: missing, or beyond int32_t */
    int has_padding;            /* tokenizer.json has "padding" */
    int pad_left;               /* padding comes before a sequence */
    int32_t pad_length;         /* sequences are padded to this length; 0: to the longest of a batch */
    int32_t pad_multiple;       /* and then to a multiple of this; 0: no rounding */
    int32_t pad_id, pad_segment;
} eitp_sequence_defaults;

/* Returns the settings, all 0 for NULL. */
EITP_API eitp_sequence_defaults eitp_tokenizer_sequence_defaults(const eitp_tokenizer *tokenizer);

/* Returns the number of special tokens in a sequence of one text, or of two if `pair` is true. 0 for NULL. */
EITP_API int32_t eitp_tokenizer_added_count(const eitp_tokenizer *tokenizer, int pair);

/* A string of `size` bytes. `bytes` may be NULL if size is 0. */
typedef struct eitp_text {
    const char *bytes;
    size_t size;
} eitp_text;

/* Start from eitp_sequence_config_default(). */
typedef struct eitp_sequence_config {
    int32_t max_length;         /* maximum length of the sequence, including special tokens; 0: any length */
    eitp_truncation truncation; /* text to cut if the sequence is longer */
    int truncate_left;          /* see eitp_sequence_defaults */
    int omit_special_tokens;
} eitp_sequence_config;

/* Returns any length, with special tokens. If max_length is set: EITP_TRUNCATE_LONGEST, at the end of a text. */
EITP_API eitp_sequence_config eitp_sequence_config_default(void);

typedef struct eitp_sequence_report {
    size_t count;                 /* tokens of the sequence */
    size_t cut_first, cut_second; /* tokens cut from each text */
    size_t cut_words;             /* for eitp_tokenizer_encode_words: words that lost all their tokens */
    uint64_t unknown_bytes;       /* see eitp_encoder_unknown_bytes */
} eitp_sequence_report;

/*
 * Encodes a text, or a pair if `second` is not NULL, into the sequence that a model expects: with the special
 * tokens of the tokenizer's template ("post_processor" in tokenizer.json) around them. Stores the first `capacity` ids
 * in `ids` and their segments (token_type_ids) in `segments`, either of which may be NULL, and fills in *report. If
 * report->count > capacity, the rest is missing. `config` may be NULL for the defaults.
 *
 * Both are encoded completely, then truncated as in transformers. EITP_ERROR_ARGUMENT if max_length has no room
 * for the special tokens, the text to be cut would have no token left or is missing, or the sequence is too long with
 * EITP_TRUNCATE_NONE.
 */
EITP_API eitp_status eitp_tokenizer_encode_sequence(const eitp_tokenizer *tokenizer, const eitp_text *first,
                                                    const eitp_text *second, const eitp_sequence_config *config,
                                                    int32_t *ids, int32_t *segments, size_t capacity,
                                                    eitp_sequence_report *report, eitp_error *error);

/*
 * Like eitp_tokenizer_encode_sequence, for a text given as words. Each word is encoded separately, as in transformers
 * with is_split_into_words: byte-level BPE gets a space before each word (add_prefix_space). Stores in `word_of`, which
 * may be NULL, the index of each id's word, from 0, or -1 for special tokens. A word may have no tokens.
 */
EITP_API eitp_status eitp_tokenizer_encode_words(const eitp_tokenizer *tokenizer, const eitp_text *words, size_t count,
                                                 const eitp_sequence_config *config, int32_t *ids, int32_t *segments,
                                                 int32_t *word_of, size_t capacity, eitp_sequence_report *report,
                                                 eitp_error *error);

/*
 * Stores the bytes of one token, owned by the tokenizer, in *bytes and *size. They are not necessarily whole
 * characters, and not zero-terminated. A WordPiece token that continues a word starts with the prefix "##". Tokens of
 * BPE with byte fallback have U+2581 for spaces, and "<0x0A>" is the byte of a line feed. EITP_ERROR_ARGUMENT for an id
 * outside the vocabulary.
 */
EITP_API eitp_status eitp_tokenizer_token(const eitp_tokenizer *tokenizer, int32_t id, const char **bytes, size_t *size,
                                          eitp_error *error);

/*
 * Decodes `count` ids; special tokens become their text. WordPiece tokens are joined into words with spaces between
 * them, without spaces before punctuation if the tokenizer has "cleanup". With byte fallback, byte tokens become
 * characters, or U+FFFD for each byte of a run that is not valid UTF-8. Stores the number of bytes in *size and the
 * first `capacity` of them in `text`, without a terminating zero. EITP_ERROR_ARGUMENT for an id outside the vocabulary;
 * the message gives its position. `ids` may be NULL if count is 0, `text` if capacity is 0. *size is 0 after a failure.
 */
EITP_API eitp_status eitp_tokenizer_decode(const eitp_tokenizer *tokenizer, const int32_t *ids, size_t count,
                                           char *text, size_t capacity, size_t *size, eitp_error *error);

/* Encodes text piece by piece. The ids are the same as for the whole text, regardless of how it is split. An
   encoder uses about 3 MiB, and up to 40 MiB while one match of GPT-2's pattern is very long. */
typedef struct eitp_encoder eitp_encoder;

/* Receives ids. `count` is at least 1, and calls are in order. If it fails, encoding stops and returns that status. */
typedef eitp_status (*eitp_token_sink)(void *user, const int32_t *ids, size_t count, eitp_error *error);

/*
 * Creates an encoder that calls `sink` with `user`, which may be NULL. An encoder belongs to one thread at a time. The
 * tokenizer must outlive it. After a failure of eitp_encoder_add or eitp_encoder_finish, reset or destroy the encoder.
 */
EITP_API eitp_status eitp_encoder_create(const eitp_tokenizer *tokenizer, eitp_token_sink sink, void *user,
                                         eitp_encoder **out, eitp_error *error);

/* Adds `size` bytes of text, which may be NULL if size is 0. Their ids may reach the sink during a later call. */
EITP_API eitp_status eitp_encoder_add(eitp_encoder *encoder, const char *text, size_t size, eitp_error *error);

/* Ends the text. When this returns, every id has reached the sink. The next eitp_encoder_add starts a new text. */
EITP_API eitp_status eitp_encoder_finish(eitp_encoder *encoder, eitp_error *error);

/*
 * Returns the number of bytes encoded so far that have no token in the vocabulary of BPE. They become its unk_token, or
 * nothing. Most vocabularies of byte-level BPE have a token for each byte; SmolLM2's lacks 21 of them. With byte
 * fallback, counts the bytes of characters that have neither a token nor one for each byte. 0 with WordPiece and for
 * NULL.
 */
EITP_API uint64_t eitp_encoder_unknown_bytes(const eitp_encoder *encoder);

/* Discards the current text. NULL is harmless. */
EITP_API void eitp_encoder_reset(eitp_encoder *encoder);

/* NULL is harmless. */
EITP_API void eitp_encoder_destroy(eitp_encoder *encoder);

EITP_END_DECLARATIONS

#endif
