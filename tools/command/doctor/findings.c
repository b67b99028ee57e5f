#include "doctor/findings.h"

#include <stdarg.h>

/* Longest line in bytes: strings in a run's files may have any length. */
#define LONGEST_LINE 4000

static char *format_text(const char *format, va_list arguments) {
    va_list again;
    char *text;
    int length;
    va_copy(again, arguments);
    length = vsnprintf(NULL, 0, format, arguments);
    length = length < 0 ? 0 : length > LONGEST_LINE ? LONGEST_LINE : length;
    text = (char *)command_allocate((size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

void finding_say(doctor_finding *f, const char *format, ...) {
    va_list arguments;
    free(f->sentence);
    va_start(arguments, format);
    f->sentence = format_text(format, arguments);
    va_end(arguments);
}

void finding_measure(doctor_finding *f, const char *format, ...) {
    va_list arguments;
    if (f->evidence_count == DOCTOR_LINES)
        return;
    va_start(arguments, format);
    f->evidence[f->evidence_count++] = format_text(format, arguments);
    va_end(arguments);
}

void finding_advise(doctor_finding *f, const char *format, ...) {
    va_list arguments;
    if (f->advice_count == DOCTOR_LINES)
        return;
    va_start(arguments, format);
    f->advice[f->advice_count++] = format_text(format, arguments);
    va_end(arguments);
}

void finding_release(doctor_finding *f) {
    for (size_t i = 0; i < f->evidence_count; i++)
        free(f->evidence[i]);
    for (size_t i = 0; i < f->advice_count; i++)
        free(f->advice[i]);
    free(f->sentence);
    memset(f, 0, sizeof *f);
}

/* ---- Output ---- */

/* True for a control character in UTF-8: below U+0020, U+007F, and U+0080 to U+009F. */
static int is_control(const char *at, int length) {
    const unsigned char *byte = (const unsigned char *)at;
    return (length == 1 && (byte[0] < 0x20 || byte[0] == 0x7f)) || (length == 2 && byte[0] == 0xc2 && byte[1] < 0xa0);
}

void finding_print_line(text_buffer *t, const char *prefix, const char *line) {
    const char *end = line + strlen(line);
    text_format(t, "%s", prefix);
    while (line < end) {
        const int length = text_utf8_length(line, (size_t)(end - line));
        const size_t size = length > 0 ? (size_t)length : length < 0 ? (size_t)-length : (size_t)(end - line);
        if (length <= 0 || is_control(line, length))
            text_add(t, "?", 1);
        else
            text_add(t, line, size);
        line += size;
    }
    text_format(t, "\n");
}

void finding_print(const doctor_finding *f, text_buffer *t) {
    finding_print_line(t, "", f->sentence ? f->sentence : f->name);
    for (size_t i = 0; i < f->evidence_count; i++)
        finding_print_line(t, "  measured: ", f->evidence[i]);
    for (size_t i = 0; i < f->advice_count; i++)
        finding_print_line(t, "  do: ", f->advice[i]);
}

static void write_lines(text_buffer *t, const char *name, char *const *lines, size_t count) {
    text_json_name(t, name);
    text_format(t, "[");
    for (size_t i = 0; i < count; i++) {
        text_format(t, i ? ", " : "");
        text_json_string(t, lines[i], strlen(lines[i]));
    }
    text_format(t, "]");
}

void finding_write(const doctor_finding *f, text_buffer *t) {
    text_format(t, "{");
    text_json_member_string(t, "name", f->name);
    text_json_member_string(t, "area", f->area);
    text_json_name(t, "trouble");
    text_format(t, f->weight >= DOCTOR_TROUBLE ? "true" : "false");
    text_json_member_string(t, "sentence", f->sentence ? f->sentence : "");
    write_lines(t, "evidence", f->evidence, f->evidence_count);
    write_lines(t, "advice", f->advice, f->advice_count);
    text_format(t, "}");
}
