#include "report/markup.h"

static const char replacement[] = "\xEF\xBF\xBD";

/* True for U+0080 to U+009F, the line separators, and the characters that change the direction of text. */
static int is_invisible(const char *data, int length) {
    const unsigned char *byte = (const unsigned char *)data;
    if (length == 2)
        return byte[0] == 0xC2 && byte[1] < 0xA0;
    if (length != 3 || byte[0] != 0xE2)
        return length == 3 && byte[0] == 0xEF && byte[1] == 0xBF && byte[2] >= 0xBE;
    return (byte[1] == 0x80 && byte[2] >= 0xA8 && byte[2] <= 0xAE) ||
           (byte[1] == 0x81 && byte[2] >= 0xA6 && byte[2] <= 0xA9);
}

static void add_character(text_buffer *t, const char *data, int length) {
    static const char *const escapes[][2] = {
        {"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}};
    const unsigned char first = (unsigned char)*data;
    for (size_t i = 0; i < COMMAND_COUNT(escapes); i++) {
        if (*data == escapes[i][0][0]) {
            text_format(t, "%s", escapes[i][1]);
            return;
        }
    }
    if (first == 0x7F)
        text_format(t, "\xE2\x90\xA1");
    else if (first < 0x20 && first != '\n' && first != '\t')
        text_format(t, "\xE2\x90%c", 0x80 + first);
    else if (is_invisible(data, length))
        text_format(t, "%s", replacement);
    else
        text_add(t, data, (size_t)length);
}

void markup_add(text_buffer *t, const char *value, size_t size) {
    for (size_t i = 0; i < size;) {
        const int length = text_utf8_length(value + i, size - i);
        if (length > 0)
            add_character(t, value + i, length);
        else
            text_format(t, "%s", replacement);
        i += length > 0 ? (size_t)length : length < 0 ? (size_t)-length : size - i;
    }
}

void markup_text(text_buffer *t, const char *value) {
    markup_add(t, value, strlen(value));
}

void markup_short(text_buffer *t, const char *value, size_t size, size_t most) {
    size_t end = size < most ? size : most;
    while (end < size && end > 0 && ((unsigned char)value[end] & 0xC0) == 0x80)
        end--;
    markup_add(t, value, end);
    if (end < size)
        text_format(t, "\xE2\x80\xA6");
}
