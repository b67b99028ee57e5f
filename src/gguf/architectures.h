/* The architectures of GGUF files that eitp reads, and how their keys and tensors differ from Hugging Face's files. */
#ifndef EITP_GGUF_ARCHITECTURES_H
#define EITP_GGUF_ARCHITECTURES_H

#include "gguf/gguf.h"

/* A key "<architecture>.<name>" and the member of config.json with the same value. */
typedef struct eitp__gguf_key {
    const char *name;
    const char *member; /* NULL: checked in config_text.c, or it does not affect outputs */
    int is_number;      /* a float; 0: an integer, or an array of equal integers, one for each layer */
    int is_required;
} eitp__gguf_key;

typedef struct eitp__gguf_architecture {
    const char *name;       /* general.architecture */
    const char *tensor;     /* a tensor that files of this row have; NULL: the other files of that name */
    const char *model_type; /* of config.json */
    const char *class_name; /* in "architectures" of config.json */
    int permutes_heads; /* rows of a head's queries and keys are ordered by rotary pair: (0, d/2), (1, d/2 + 1), ... */
    int adds_one;       /* norms hold 1 + weight */
    const eitp__gguf_key *keys;
    size_t key_count;
} eitp__gguf_architecture;

/* Finds the architecture of a file. EITP_ERROR_UNSUPPORTED, with the name, for any other. */
EITP__PRIVATE eitp_status eitp__gguf_architecture_of(const eitp__gguf *gguf,
                                                     const eitp__gguf_architecture **architecture, eitp_error *error);

/* Returns the architecture of a model_type; NULL if it has none. */
EITP__PRIVATE const eitp__gguf_architecture *eitp__gguf_architecture_named(const char *model_type);

/* Reads the numbers of heads of queries, and of keys and values, which have as many by default. */
EITP__PRIVATE eitp_status eitp__gguf_heads(const eitp__gguf *gguf, const eitp__gguf_architecture *architecture,
                                           int64_t *heads, int64_t *key_value_heads, eitp_error *error);

/* Rotary positions scaled as Llama 3's (https://github.com/meta-llama/llama-models, apply_scaling); `width` is a
   head's. */
typedef struct eitp__gguf_llama3 {
    double theta, width, factor, low, high, original;
} eitp__gguf_llama3;

/* Returns the divisor of frequency `pair`. */
EITP__PRIVATE double eitp__gguf_llama3_divisor(const eitp__gguf_llama3 *scaling, int64_t pair);

/* Writes a config.json from the keys and the tensors' shapes. A key of the architecture that eitp does not know is
   EITP_ERROR_UNSUPPORTED: it may affect outputs. */
EITP__PRIVATE eitp_status eitp__gguf_write_model_config(const eitp__gguf *gguf, eitp__buffer *text, eitp_error *error);

/* Writes the configuration of sentence-transformers' pooling, for files that say how embeddings are pooled. */
EITP__PRIVATE eitp_status eitp__gguf_write_pooling(const eitp__gguf *gguf, eitp__buffer *text, eitp_error *error);
EITP__PRIVATE int eitp__gguf_has_pooling(const eitp__gguf *gguf);

#endif
