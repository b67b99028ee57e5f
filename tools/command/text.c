#include "text.h"

#include <stdarg.h>

void text_release(text_buffer *t) {
    free(t->data);
    memset(t, 0, sizeof *t);
}

void text_add(text_buffer *t, const void *data, size_t size) {
    if (t->capacity - t->size <= size) {
        t->capacity = 2 * (t->size + size) + 64;
        t->data = (char *)command_resize(t->data, t->capacity);
    }
    if (size)
        memcpy(t->data + t->size, data, size);
    t->size += size;
    t->data[t->size] = 0;
}

void text_format(text_buffer *t, const char *format, ...) {
    va_list arguments;
    int length;
    va_start(arguments, format);
    length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if (t->capacity - t->size <= (size_t)length) {
        t->capacity = 2 * (t->size + (size_t)length) + 64;
        t->data = (char *)command_resize(t->data, t->capacity);
    }
    va_start(arguments, format);
    vsnprintf(t->data + t->size, (size_t)length + 1, format, arguments);
    va_end(arguments);
    t->size += (size_t)length;
}

/* True if the second byte may follow the first (The Unicode Standard, table 3-7). */
static int text_second_byte(unsigned char first, unsigned char second) {
    unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high;
}

int text_utf8_length(const char *data, size_t size) {
    unsigned char first = size ? (unsigned char)data[0] : 0;
    int length = first < 0x80 ? 1 : first < 0xC2 ? -1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : -1;
    if (!size)
        return 0;
    for (int i = 1; i < length; i++) {
        unsigned char byte;
        if ((size_t)i >= size)
            return 0;
        byte = (unsigned char)data[i];
        if (i == 1 ? !text_second_byte(first, byte) : (byte & 0xC0) != 0x80)
            return -i;
    }
    return length;
}

static void text_json_character(text_buffer *t, const char *data, int length) {
    static const char *const escapes[][2] = {
        {"\"", "\\\""}, {"\\", "\\\\"}, {"\n", "\\n"}, {"\r", "\\r"}, {"\t", "\\t"}};
    for (size_t i = 0; i < COMMAND_COUNT(escapes); i++) {
        if (*data == escapes[i][0][0]) {
            text_format(t, "%s", escapes[i][1]);
            return;
        }
    }
    if ((unsigned char)*data < 0x20 || *data == 0x7F)
        text_format(t, "\\u%04x", (unsigned)(unsigned char)*data);
    else if (length == 2 && (unsigned char)*data == 0xC2 && (unsigned char)data[1] < 0xA0)
        text_format(t, "\\u%04x", (unsigned)(unsigned char)data[1]); /* a control character too */
    else
        text_add(t, data, (size_t)length);
}

void text_add_shell_word(text_buffer *t, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=+,:@%";
    const int is_plain = *word && !word[strspn(word, plain)];
    text_add(t, "'", is_plain ? 0 : 1);
    for (; *word; word++)
        text_add(t, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
    text_add(t, "'", is_plain ? 0 : 1);
}

void text_json_string(text_buffer *t, const char *value, size_t size) {
    text_add(t, "\"", 1);
    for (size_t i = 0; i < size;) {
        int length = text_utf8_length(value + i, size - i);
        if (length > 0)
            text_json_character(t, value + i, length);
        else
            text_format(t, "\\udc%02x", (unsigned)(unsigned char)value[i]);
        i += length > 0 ? (size_t)length : 1;
    }
    text_add(t, "\"", 1);
}

void text_json_number(text_buffer *t, double value) {
    char digits[40] = "null";
    for (int precision = 15; precision <= 17 && isfinite(value); precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (!(strtod(digits, NULL) < value) && !(strtod(digits, NULL) > value))
            break;
    }
    text_format(t, "%s", digits);
}

void text_json_name(text_buffer *t, const char *name) {
    size_t last = t->size;
    while (last && (t->data[last - 1] == ' ' || t->data[last - 1] == '\n'))
        last--;
    if (last && t->data[last - 1] != '{' && t->data[last - 1] != '[') {
        t->size = last;
        text_add(t, ", ", 2);
    }
    text_json_string(t, name, strlen(name));
    text_add(t, ": ", 2);
}

void text_json_member_string(text_buffer *t, const char *name, const char *value) {
    text_json_name(t, name);
    text_json_string(t, value, strlen(value));
}

void text_json_member_number(text_buffer *t, const char *name, double value) {
    text_json_name(t, name);
    text_json_number(t, value);
}

void text_json_member_integer(text_buffer *t, const char *name, int64_t value) {
    text_json_name(t, name);
    text_format(t, "%lld", (long long)value);
}
