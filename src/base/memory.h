/* Allocation through the host, sizes that cannot overflow, and a growable byte buffer. */
#ifndef EITP_MEMORY_H
#define EITP_MEMORY_H

#include "base/platform.h"

/* `size` zeroed bytes at EITP__ALIGNMENT, or NULL. A size of 0 gives NULL. */
EITP__PRIVATE void *eitp__allocate(const eitp_host *host, size_t size);

/* The same, not zeroed. */
EITP__PRIVATE void *eitp__allocate_uninitialized(const eitp_host *host, size_t size);

/* `memory` may be NULL; `size` is what was asked for. */
EITP__PRIVATE void eitp__release(const eitp_host *host, void *memory, size_t size);

/* Stores a * b, or a + b, and returns 1; returns 0 where it would overflow. */
EITP__PRIVATE int eitp__multiply_size(size_t a, size_t b, size_t *product);
EITP__PRIVATE int eitp__add_size(size_t a, size_t b, size_t *sum);

/* Makes room for `needed` elements in a growing array: *array has *capacity elements of `element` bytes. Returns 0 and
   changes nothing where memory runs out. */
EITP__PRIVATE int eitp__reserve(const eitp_host *host, void **array, size_t *capacity, size_t needed, size_t element);

/*
 * A growable byte buffer. `data` is always followed by a zero byte once anything was added, so it reads as a C string.
 * A failed allocation sets `failed` and makes later additions do nothing: check it once, at the end.
 */
typedef struct eitp__buffer {
    const eitp_host *host;
    char *data;
    size_t size;
    size_t capacity;
    int failed;
} eitp__buffer;

EITP__PRIVATE void eitp__buffer_init(eitp__buffer *buffer, const eitp_host *host);
EITP__PRIVATE void eitp__buffer_release(eitp__buffer *buffer);
EITP__PRIVATE void eitp__buffer_clear(eitp__buffer *buffer);
EITP__PRIVATE void eitp__buffer_add(eitp__buffer *buffer, const void *data, size_t size);
EITP__PRIVATE void eitp__buffer_add_text(eitp__buffer *buffer, const char *text);
EITP__PRIVATE void eitp__buffer_format(eitp__buffer *buffer, const char *format, ...) EITP__PRINTF(2, 3);

/* A copy of a C string, or of `size` bytes with a zero byte after them; released with its length + 1. NULL when memory
 * runs out. */
EITP__PRIVATE char *eitp__copy_text(const eitp_host *host, const char *text);
EITP__PRIVATE char *eitp__copy_bytes(const eitp_host *host, const void *data, size_t size);
EITP__PRIVATE void eitp__release_text(const eitp_host *host, char *text);

#endif
