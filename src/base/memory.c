#include "base/memory.h"

EITP__PRIVATE void *eitp__allocate_uninitialized(const eitp_host *host, size_t size) {
    return size ? host->allocator.allocate(host->allocator.user, size, EITP__ALIGNMENT) : NULL;
}

EITP__PRIVATE void *eitp__allocate(const eitp_host *host, size_t size) {
    void *memory = eitp__allocate_uninitialized(host, size);
    if (memory)
        memset(memory, 0, size);
    return memory;
}

EITP__PRIVATE void eitp__release(const eitp_host *host, void *memory, size_t size) {
    if (memory)
        host->allocator.release(host->allocator.user, memory, size);
}

EITP__PRIVATE int eitp__multiply_size(size_t a, size_t b, size_t *product) {
    if (a && b > SIZE_MAX / a)
        return 0;
    *product = a * b;
    return 1;
}

EITP__PRIVATE int eitp__add_size(size_t a, size_t b, size_t *sum) {
    if (b > SIZE_MAX - a)
        return 0;
    *sum = a + b;
    return 1;
}

EITP__PRIVATE int eitp__reserve(const eitp_host *host, void **array, size_t *capacity, size_t needed,
                                size_t element_size) {
    size_t grown = *capacity > 16 ? *capacity : 16, bytes;
    void *memory;
    if (needed <= *capacity)
        return 1;
    while (grown < needed) {
        if (!eitp__add_size(grown, grown / 2, &grown))
            return 0;
    }
    if (!eitp__multiply_size(grown, element_size, &bytes))
        return 0;
    memory = eitp__allocate_uninitialized(host, bytes);
    if (!memory)
        return 0;
    if (*array)
        memcpy(memory, *array, *capacity * element_size);
    eitp__release(host, *array, *capacity * element_size);
    *array = memory;
    *capacity = grown;
    return 1;
}

EITP__PRIVATE void eitp__buffer_init(eitp__buffer *buffer, const eitp_host *host) {
    memset(buffer, 0, sizeof *buffer);
    buffer->host = host;
}

EITP__PRIVATE void eitp__buffer_release(eitp__buffer *buffer) {
    eitp__release(buffer->host, buffer->data, buffer->capacity);
    eitp__buffer_init(buffer, buffer->host);
}

EITP__PRIVATE void eitp__buffer_clear(eitp__buffer *buffer) {
    buffer->size = 0;
    buffer->failed = 0;
    if (buffer->data)
        buffer->data[0] = 0;
}

EITP__PRIVATE int eitp__buffer_reserve(eitp__buffer *buffer, size_t capacity) {
    char *data;
    if (capacity <= buffer->capacity)
        return 1;
    data = (char *)eitp__allocate_uninitialized(buffer->host, capacity);
    if (!data)
        return 0;
    data[0] = 0;
    if (buffer->data)
        memcpy(data, buffer->data, buffer->size + 1);
    eitp__release(buffer->host, buffer->data, buffer->capacity);
    buffer->data = data;
    buffer->capacity = capacity;
    return 1;
}

EITP__PRIVATE void eitp__buffer_add(eitp__buffer *buffer, const void *data, size_t size) {
    size_t needed;
    if (buffer->failed)
        return;
    if (!eitp__add_size(buffer->size, size, &needed) || !eitp__add_size(needed, 1, &needed) ||
        !eitp__reserve(buffer->host, (void **)&buffer->data, &buffer->capacity, needed, 1)) {
        buffer->failed = 1;
        return;
    }
    if (size)
        memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    buffer->data[buffer->size] = 0;
}

EITP__PRIVATE void eitp__buffer_add_text(eitp__buffer *buffer, const char *text) {
    eitp__buffer_add(buffer, text, strlen(text));
}

EITP__PRIVATE void eitp__buffer_format(eitp__buffer *buffer, const char *format, ...) {
    char small[256];
    va_list arguments;
    int length;
    va_start(arguments, format);
    length = vsnprintf(small, sizeof small, format, arguments);
    va_end(arguments);
    if (length < 0) {
        buffer->failed = 1;
    } else if ((size_t)length < sizeof small) {
        eitp__buffer_add(buffer, small, (size_t)length);
    } else if (!buffer->failed) {
        if (!eitp__reserve(buffer->host, (void **)&buffer->data, &buffer->capacity, buffer->size + (size_t)length + 1,
                           1)) {
            buffer->failed = 1;
            return;
        }
        va_start(arguments, format);
        vsnprintf(buffer->data + buffer->size, (size_t)length + 1, format, arguments);
        va_end(arguments);
        buffer->size += (size_t)length;
    }
}

EITP__PRIVATE char *eitp__copy_bytes(const eitp_host *host, const void *data, size_t size) {
    char *copy = (char *)eitp__allocate_uninitialized(host, size + 1);
    if (copy) {
        if (size)
            memcpy(copy, data, size);
        copy[size] = 0;
    }
    return copy;
}

EITP__PRIVATE char *eitp__copy_text(const eitp_host *host, const char *text) {
    return eitp__copy_bytes(host, text, strlen(text));
}

EITP__PRIVATE void eitp__release_text(const eitp_host *host, char *text) {
    if (text)
        eitp__release(host, text, strlen(text) + 1);
}
