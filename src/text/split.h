/* Patterns that byte-level BPE uses to cut text into pieces. */
#ifndef EITP_SPLIT_H
#define EITP_SPLIT_H

#include "text/pretokenize.h"

typedef enum eitp__split {
    EITP__SPLIT_GPT2,   /* ByteLevel only */
    EITP__SPLIT_DIGITS, /* single digits, then ByteLevel: SmolLM */
    EITP__SPLIT_QWEN2,  /* pattern of Qwen2, 2.5 and 3: single digits */
    EITP__SPLIT_LLAMA3, /* pattern of Llama 3: up to three digits */
    EITP__SPLITS
} eitp__split;

/* Returns the regular expression of a "Split" in a tokenizer.json, or NULL if the split has none. */
EITP__PRIVATE const char *eitp__split_pattern(eitp__split split);

EITP__PRIVATE eitp__piece_rule eitp__split_rule(eitp__split split);

#endif
