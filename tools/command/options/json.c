#include "options/json.h"

#include "files.h"

enum { JSON_LARGEST_FILE = 1 << 20, JSON_DEEPEST = 16 };

typedef struct json_scanner {
    const char *path;
    const char *start, *at, *end;
    size_t line;
    int depth;
    text_buffer name; /* path of the current member */
    size_t name_at;   /* offset of the member's name */
    const char *skipped;
    int skipping;
    json_visitor visit;
    void *user;
    eitp_error *error;
} json_scanner;

static eitp_status json_object(json_scanner *s);

/* Returns the column of the position, in characters from 1. */
static size_t json_column(const json_scanner *s) {
    size_t column = 1;
    for (const char *at = s->at; at > s->start && at[-1] != '\n'; at--)
        column += ((unsigned char)at[-1] & 0xC0) != 0x80;
    return column;
}

static eitp_status json_fail(const json_scanner *s, const char *what) {
    return command_fail(s->error, EITP_ERROR_FORMAT, "%s:%zu:%zu: %s", s->path, s->line, json_column(s), what);
}

/* Describes the text at the position: a word, a character, or the end. */
static void json_describe(const json_scanner *s, char *text, size_t size) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-";
    const size_t left = (size_t)(s->end - s->at);
    size_t length = 0;
    while (length < left && length < 20 && s->at[length] && strchr(letters, s->at[length]))
        length++;
    if (!length && left)
        length = (size_t)(text_utf8_length(s->at, left) > 0 ? text_utf8_length(s->at, left) : 0);
    if (!left)
        snprintf(text, size, "the end of the file");
    else if (!length)
        snprintf(text, size, "byte 0x%02x", (unsigned char)*s->at);
    else
        snprintf(text, size, "'%.*s'", (int)length, s->at);
}

static eitp_status json_fail_expected(const json_scanner *s, const char *what) {
    char found[40];
    json_describe(s, found, sizeof found);
    return command_fail(s->error, EITP_ERROR_FORMAT, "%s:%zu:%zu: expected %s, found %s", s->path, s->line,
                        json_column(s), what, found);
}

/* Returns the next byte that is not white space, or 0 at the end. */
static char json_next(json_scanner *s) {
    for (; s->at < s->end && strchr(" \t\r\n", *s->at) && *s->at; s->at++)
        s->line += *s->at == '\n';
    return s->at < s->end ? *s->at : '\0';
}

static int json_hex(json_scanner *s, unsigned *code) {
    *code = 0;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        const char *digit = s->at < s->end && *s->at ? strchr(digits, *s->at | 0x20) : NULL;
        if (!digit)
            return 0;
        *code = *code * 16 + (unsigned)(digit - digits);
        s->at++;
    }
    return 1;
}

/* Reads the character after "\u"; a high and a low surrogate form one together. A lone low one may be a byte of a name
   that is not UTF-8: see text_json_string. */
static eitp_status json_unicode(json_scanner *s, text_buffer *t) {
    unsigned code, low;
    char bytes[4];
    int valid = json_hex(s, &code) && code && (code < 0xDC00 || code > 0xDFFF);
    if (!valid && code >= 0xDC80 && code <= 0xDCFF) {
        bytes[0] = (char)(code & 0xFF);
        text_add(t, bytes, 1);
        return EITP_OK;
    }
    if (valid && code >= 0xD800 && code < 0xDC00) {
        valid = s->end - s->at >= 2 && s->at[0] == '\\' && s->at[1] == 'u';
        s->at += valid ? 2 : 0;
        valid = valid && json_hex(s, &low) && low >= 0xDC00 && low <= 0xDFFF;
        code = valid ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00) : code;
    }
    if (!valid)
        return json_fail(s, "invalid \\u escape");
    if (code < 0x80) {
        bytes[0] = (char)code;
        text_add(t, bytes, 1);
    } else {
        int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
        for (int i = more; i > 0; i--, code >>= 6)
            bytes[i] = (char)(0x80 | (code & 0x3F));
        bytes[0] = (char)((more == 1 ? 0xC0u : more == 2 ? 0xE0u : 0xF0u) | code);
        text_add(t, bytes, (size_t)more + 1);
    }
    return EITP_OK;
}

static eitp_status json_escape(json_scanner *s, text_buffer *t) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *found;
    if (s->at < s->end && *s->at == 'u') {
        s->at++;
        return json_unicode(s, t);
    }
    found = s->at < s->end && *s->at ? strchr(names, *s->at) : NULL;
    if (!found)
        return json_fail(s, "invalid escape in a string");
    s->at++;
    text_add(t, values + (found - names), 1);
    return EITP_OK;
}

/* Reads a string from its opening quote. */
static eitp_status json_string(json_scanner *s, text_buffer *t) {
    text_add(t, "", 0);
    s->at++;
    while (s->at < s->end && *s->at != '"') {
        int length = text_utf8_length(s->at, (size_t)(s->end - s->at));
        eitp_status status = EITP_OK;
        if ((unsigned char)*s->at < 0x20)
            return json_fail(s, "control character or missing quote in a string");
        if (length <= 0)
            return json_fail(s, "a string is not valid UTF-8");
        if (*s->at == '\\') {
            s->at++;
            status = json_escape(s, t);
        } else {
            text_add(t, s->at, (size_t)length);
            s->at += length;
        }
        if (status)
            return status;
    }
    if (s->at == s->end)
        return json_fail(s, "missing quote at the end of a string");
    s->at++;
    return EITP_OK;
}

static size_t json_digits(const json_scanner *s, const char *from) {
    size_t count = 0;
    while (from + count < s->end && from[count] >= '0' && from[count] <= '9')
        count++;
    return count;
}

static eitp_status json_number(json_scanner *s, text_buffer *t) {
    const char *at = s->at + (*s->at == '-');
    size_t digits = json_digits(s, at);
    int valid = digits && (digits == 1 || *at != '0');
    at += digits;
    if (valid && at < s->end && *at == '.') {
        digits = json_digits(s, at + 1);
        valid = digits > 0;
        at += 1 + digits;
    }
    if (valid && at < s->end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < s->end && (*at == '+' || *at == '-');
        digits = json_digits(s, at);
        valid = digits > 0;
        at += digits;
    }
    if (!valid)
        return json_fail_expected(s, "a JSON value");
    text_add(t, s->at, (size_t)(at - s->at));
    s->at = at;
    return EITP_OK;
}

static eitp_status json_literal(json_scanner *s, text_buffer *t, json_kind *kind) {
    static const struct {
        const char *word;
        json_kind kind;
    } literals[] = {{"true", JSON_BOOLEAN}, {"false", JSON_BOOLEAN}, {"null", JSON_NULL}};
    for (size_t i = 0; i < COMMAND_COUNT(literals); i++) {
        size_t length = strlen(literals[i].word);
        if ((size_t)(s->end - s->at) < length || memcmp(s->at, literals[i].word, length))
            continue;
        *kind = literals[i].kind;
        text_add(t, s->at, length);
        s->at += length;
        return EITP_OK;
    }
    *kind = JSON_NUMBER;
    return json_number(s, t);
}

static eitp_status json_plain(json_scanner *s, int in_array, size_t index) {
    text_buffer t = {NULL, 0, 0};
    json_value value;
    char next = json_next(s);
    eitp_status status;
    memset(&value, 0, sizeof value);
    value.path = s->name.data;
    value.name = s->name.data + s->name_at;
    value.kind = JSON_STRING;
    value.in_array = in_array;
    value.index = index;
    value.line = s->line;
    if (!next)
        status = json_fail_expected(s, "a JSON value");
    else
        status = next == '"' ? json_string(s, &t) : json_literal(s, &t, &value.kind);
    value.text = t.data;
    value.boolean = value.kind == JSON_BOOLEAN ? t.data : NULL;
    if (!status && !s->skipping)
        status = s->visit(s->user, &value, s->error);
    text_release(&t);
    return status;
}

static eitp_status json_empty_list(json_scanner *s) {
    json_value value;
    memset(&value, 0, sizeof value);
    value.path = s->name.data;
    value.name = s->name.data + s->name_at;
    value.kind = JSON_EMPTY_LIST;
    value.text = "[]";
    value.in_array = 1;
    value.line = s->line;
    s->at++;
    return s->skipping ? EITP_OK : s->visit(s->user, &value, s->error);
}

static eitp_status json_array(json_scanner *s) {
    eitp_status status = EITP_OK;
    s->at++;
    if (json_next(s) == ']')
        return json_empty_list(s);
    for (size_t index = 0;; index++) {
        char next = json_next(s);
        if (next == '[' || next == '{')
            return json_fail(s, "a list can hold only plain values");
        status = json_plain(s, 1, index);
        if (status)
            return status;
        next = json_next(s);
        if (next != ',' && next != ']')
            return json_fail_expected(s, "',' or ']' in a list");
        s->at++;
        if (next == ']')
            return EITP_OK;
    }
}

size_t json_path_enter(text_buffer *path) {
    text_add(path, ".", path->size ? 1 : 0);
    return path->size;
}

static eitp_status json_member(json_scanner *s) {
    int was_skipping = s->skipping;
    size_t outer = s->name.size, at = json_path_enter(&s->name);
    eitp_status status = json_next(s) == '"' ? json_string(s, &s->name) : json_fail_expected(s, "a name in quotes");
    if (!status && json_next(s) != ':')
        status = json_fail_expected(s, "':' after a name");
    if (!status) {
        char next;
        s->at++;
        next = json_next(s);
        s->skipping = was_skipping || (s->depth == 1 && !strcmp(s->name.data + at, s->skipped));
        s->name_at = at;
        status = next == '{' ? json_object(s) : next == '[' ? json_array(s) : json_plain(s, 0, 0);
        s->skipping = was_skipping;
    }
    s->name.size = outer;
    return status;
}

static eitp_status json_object(json_scanner *s) {
    if (s->depth == JSON_DEEPEST)
        return json_fail(s, "objects are nested too deeply (more than 16)");
    s->depth++;
    s->at++;
    if (json_next(s) == '}') {
        s->at++;
        s->depth--;
        return EITP_OK;
    }
    for (;;) {
        char next;
        eitp_status status = json_member(s);
        if (status)
            return status;
        next = json_next(s);
        if (next != ',' && next != '}')
            return json_fail_expected(s, "',' or '}' in an object");
        s->at++;
        if (next == '}') {
            s->depth--;
            return EITP_OK;
        }
    }
}

eitp_status json_read_file(const char *path, const char *skipped, json_visitor visit, void *user, eitp_error *error) {
    json_scanner s;
    text_buffer content = {NULL, 0, 0};
    eitp_status status = files_read(path, JSON_LARGEST_FILE, &content, error);
    memset(&s, 0, sizeof s);
    s.path = path;
    s.start = s.at = content.data;
    s.end = content.data ? content.data + content.size : NULL;
    s.line = 1;
    s.skipped = skipped;
    s.visit = visit;
    s.user = user;
    s.error = error;
    if (!status)
        status =
            json_next(&s) == '{' ? json_object(&s) : json_fail_expected(&s, "a JSON object, {\"name\": value, ...}");
    if (!status && (json_next(&s) || s.at != s.end))
        status = json_fail_expected(&s, "the end of the file after the object");
    text_release(&s.name);
    text_release(&content);
    return status;
}
