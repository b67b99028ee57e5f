/* The data types of GGUF tensors: how many values a block has, how many bytes, and how it is widened to f32. */
#ifndef EITP_GGUF_TYPES_H
#define EITP_GGUF_TYPES_H

#include "base/platform.h"

/* The largest block, in values and in bytes. */
enum { EITP__GGUF_BLOCK_VALUES = 256, EITP__GGUF_BLOCK_BYTES = 512 };

/* A type, by its number in files (ggml_type of ggml.h). */
typedef struct eitp__gguf_type {
    const char *name; /* as gguf's GGMLQuantizationType: "Q4_K" */
    uint32_t number;
    int values; /* per block; 1: each value stands alone */
    int bytes;  /* per block */
    /* Widens one block exactly to f32; NULL: the type is known by name only. The block need not be aligned. */
    void (*widen)(const unsigned char *block, float *values);
    /* Rounds the values of one block, which must be finite, as llama.cpp does; NULL: files of this type are only read.
       Values too large for the type (65520 for F16) become infinite, or the scale or minimum of their block does. */
    void (*round)(const float *values, unsigned char *block);
} eitp__gguf_type;

/* Return the type with this number, or this name in any case; NULL if it is unknown. */
EITP__PRIVATE const eitp__gguf_type *eitp__gguf_type_find(uint32_t number);
EITP__PRIVATE const eitp__gguf_type *eitp__gguf_type_named(const char *name);

#endif
