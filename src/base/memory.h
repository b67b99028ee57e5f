/* Allocation through the host, overflow-checked sizes, a growable byte buffer, and copies of strings. */
#ifndef EITP_MEMORY_H
#define EITP_MEMORY_H

#include "base/platform.h"

/* Allocates `size` zeroed bytes aligned to EITP__ALIGNMENT; NULL if out of memory or if size is 0. */
EITP__PRIVATE void *eitp__allocate(const eitp_host *host, size_t size);

/* Like eitp__allocate, without zeroing. */
EITP__PRIVATE void *eitp__allocate_uninitialized(const eitp_host *host, size_t size);

/* Releases a block of `size` bytes, the size it was allocated with. NULL is harmless. */
EITP__PRIVATE void eitp__release(const eitp_host *host, void *memory, size_t size);

/* Store a * b or a + b and return 1; return 0 on overflow. */
EITP__PRIVATE int eitp__multiply_size(size_t a, size_t b, size_t *product);
EITP__PRIVATE int eitp__add_size(size_t a, size_t b, size_t *sum);

/* Grows *array, which has room for *capacity elements of `element_size` bytes, to at least `needed` elements. Returns 0
   and changes nothing if out of memory. */
EITP__PRIVATE int eitp__reserve(const eitp_host *host, void **array, size_t *capacity, size_t needed,
                                size_t element_size);

/*
 * A growable byte buffer. Once anything has been added, `data` is followed by a zero byte, so it is a C string. A
 * failed allocation sets `failed`, and later additions do nothing: check it once, at the end.
 */
typedef struct eitp__buffer {
    const eitp_host *host;
    char *data; /* NULL until something is added */
    size_t size;
    size_t capacity;
    int failed;
} eitp__buffer;

EITP__PRIVATE void eitp__buffer_init(eitp__buffer *buffer, const eitp_host *host);

/* Releases the memory; the buffer is empty and can be used again. */
EITP__PRIVATE void eitp__buffer_release(eitp__buffer *buffer);

/* Empties the buffer and keeps its memory; resets `failed`. */
EITP__PRIVATE void eitp__buffer_clear(eitp__buffer *buffer);

/* Makes room for exactly `capacity` bytes in total, including the final zero byte. Returns 0 and changes nothing if out
   of memory. */
EITP__PRIVATE int eitp__buffer_reserve(eitp__buffer *buffer, size_t capacity);

EITP__PRIVATE void eitp__buffer_add(eitp__buffer *buffer, const void *data, size_t size);
EITP__PRIVATE void eitp__buffer_add_text(eitp__buffer *buffer, const char *text);
EITP__PRIVATE void eitp__buffer_format(eitp__buffer *buffer, const char *format, ...) EITP__PRINTF(2, 3);

/* Return a copy of a C string, or of `size` bytes without a zero byte, followed by a zero byte; NULL if out of memory.
   Release it with eitp__release_text. */
EITP__PRIVATE char *eitp__copy_text(const eitp_host *host, const char *text);
EITP__PRIVATE char *eitp__copy_bytes(const eitp_host *host, const void *data, size_t size);
EITP__PRIVATE void eitp__release_text(const eitp_host *host, char *text);

#endif
