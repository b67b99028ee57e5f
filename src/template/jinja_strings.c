#include "template/jinja_strings.h"

#include "base/unicode.h"
#include "template/jinja_lexer.h"
#include "template/jinja_print.h"

EITP__PRIVATE size_t eitp__jinja_length(const eitp__jinja_value *text) {
    return eitp__utf8_count(text->as.text, text->size);
}

EITP__PRIVATE size_t eitp__jinja_character_offset(eitp__jinja *jinja, const eitp__jinja_value *text, size_t index) {
    size_t at = 0;
    if (!eitp__jinja_count_steps(jinja, index / 64))
        return 0;
    for (; index && at < text->size; index--) {
        at++;
        while (at < text->size && ((unsigned char)text->as.text[at] & 0xC0) == 0x80)
            at++;
    }
    return at;
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_part(const eitp__jinja_value *text, size_t begin, size_t size) {
    return eitp__jinja_string(text->as.text + begin, size);
}

EITP__PRIVATE size_t eitp__jinja_search(eitp__jinja *jinja, const eitp__jinja_value *text,
                                        const eitp__jinja_value *part, size_t from) {
    size_t work = 0;
    for (size_t at = from; at + part->size <= text->size; at++) {
        if (!part->size)
            return at;
        if (text->as.text[at] == part->as.text[0]) {
            if (!memcmp(text->as.text + at, part->as.text, part->size))
                return eitp__jinja_count_steps(jinja, (at - from + work) / 64) ? at : SIZE_MAX;
            work += part->size;
            if (work > 65536) {
                if (!eitp__jinja_count_steps(jinja, work / 64))
                    return SIZE_MAX;
                work = 0;
            }
        }
    }
    eitp__jinja_count_steps(jinja, (text->size - (from < text->size ? from : text->size) + work) / 64);
    return SIZE_MAX;
}

/* ---- case ---- */

/* Blocks of Unicode beyond ASCII whose letters have another case. */
static int eitp__jinja_has_case(uint32_t c) {
    static const uint32_t blocks[][2] = {{0xAA, 0x58F},      {0x10A0, 0x10FF},   {0x13A0, 0x13FF},   {0x1C80, 0x1CBF},
                                         {0x1D00, 0x1FFF},   {0x2100, 0x218F},   {0x24B6, 0x24E9},   {0x2C00, 0x2DFF},
                                         {0xA640, 0xA7FF},   {0xAB30, 0xABBF},   {0xFB00, 0xFB17},   {0xFF21, 0xFF5A},
                                         {0x10400, 0x105FF}, {0x10C80, 0x10CFF}, {0x10D50, 0x10D8F}, {0x118A0, 0x118DF},
                                         {0x16E40, 0x16EBF}, {0x1E900, 0x1E95F}};
    for (size_t i = 0; i < EITP__COUNT(blocks); i++)
        if (c >= blocks[i][0] && c <= blocks[i][1])
            return eitp__unicode_class(c) != EITP__UNICODE_OTHER || (c >= 0x24B6 && c <= 0x24E9);
    return 0;
}

static int eitp__jinja_is_ascii_letter(uint32_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Returns the upper case of a letter whose lower case is at one of the usual distances, or 0 if not found. */
static uint32_t eitp__jinja_upper_of(uint32_t c) {
    static const uint32_t distances[] = {32, 1, 80, 48};
    for (size_t i = 0; i < EITP__COUNT(distances); i++) {
        uint32_t lower[2];
        const uint32_t candidate = c - distances[i];
        if (c > 0xDF && eitp__unicode_lowercase(candidate, lower) == 1 && lower[0] == c && candidate != c)
            return candidate;
    }
    return 0;
}

static void eitp__jinja_add_character(eitp__jinja *jinja, uint32_t code_point) {
    unsigned char bytes[4];
    const size_t size = eitp__utf8_encode(code_point, bytes);
    eitp__jinja_add(jinja, (const char *)bytes, size);
}

static void eitp__jinja_refuse_case(eitp__jinja *jinja, uint32_t c) {
    eitp__jinja_fail(jinja, EITP_ERROR_UNSUPPORTED, "unsupported case conversion of U+%04X", (unsigned)c);
}

static void eitp__jinja_add_upper(eitp__jinja *jinja, uint32_t c) {
    uint32_t lower[2], upper = eitp__jinja_upper_of(c);
    if (upper)
        eitp__jinja_add_character(jinja, upper);
    else if (!eitp__jinja_has_case(c) || eitp__unicode_lowercase(c, lower) > 1 || lower[0] != c)
        eitp__jinja_add_character(jinja, c); /* without case, or in upper case */
    else
        eitp__jinja_refuse_case(jinja, c);
}

static void eitp__jinja_add_cased(eitp__jinja *jinja, uint32_t c, int is_upper) {
    uint32_t lower[2];
    if (c < 0x80) {
        const char byte = (char)(eitp__jinja_is_ascii_letter(c) ? (is_upper ? c & ~0x20u : c | 0x20u) : c);
        eitp__jinja_add(jinja, &byte, 1);
    } else if (is_upper) {
        eitp__jinja_add_upper(jinja, c);
    } else if (c == 0x3A3) {
        eitp__jinja_refuse_case(jinja, c); /* its lower case depends on the characters that follow */
    } else {
        const size_t count = eitp__unicode_lowercase(c, lower);
        for (size_t i = 0; i < count; i++)
            eitp__jinja_add_character(jinja, lower[i]);
    }
}

/* True if the next character starts a word after `c`. */
static int eitp__jinja_begins_word(uint32_t c, int change) {
    if (change == EITP__JINJA_TITLE_FILTER)
        return (c < 0x80 && c && strchr("-({[<", (int)c)) || c == 0x85 ||
               eitp__unicode_class(c) == EITP__UNICODE_SPACE || (c >= 0x1c && c <= 0x1f);
    return !eitp__jinja_is_ascii_letter(c) && !eitp__jinja_has_case(c);
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_change_case(eitp__jinja *jinja, const eitp__jinja_value *text, int change) {
    const size_t mark = jinja->text.size;
    int at_start = 1;
    for (size_t at = 0; at < text->size && jinja->status == EITP_OK;) {
        uint32_t c;
        int valid;
        at += eitp__utf8_next((const unsigned char *)text->as.text + at, text->size - at, &c, &valid);
        eitp__jinja_add_cased(jinja, c, change == EITP__JINJA_UPPER || (at_start && change != EITP__JINJA_LOWER));
        at_start = change >= EITP__JINJA_TITLE && eitp__jinja_begins_word(c, change);
    }
    eitp__jinja_count_steps(jinja, text->size / 8);
    return eitp__jinja_finish_text(jinja, mark);
}

/* ---- parts ---- */

/* Returns the length of the character at `at` if it should be stripped, otherwise 0. */
static size_t eitp__jinja_stripped(const eitp__jinja_value *text, size_t at, const eitp__jinja_value *characters) {
    size_t size = 1;
    if (characters->kind != EITP__JINJA_STRING)
        return eitp__jinja_space(text->as.text + at, text->size - at);
    while (at + size < text->size && ((unsigned char)text->as.text[at + size] & 0xC0) == 0x80)
        size++;
    for (size_t i = 0; i + size <= characters->size; i++)
        if (!memcmp(characters->as.text + i, text->as.text + at, size))
            return size;
    return 0;
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_strip(eitp__jinja *jinja, const eitp__jinja_value *text,
                                                  const eitp__jinja_value *characters, int sides) {
    eitp__jinja_value rest = *text;
    size_t size;
    if (characters->kind > EITP__JINJA_NONE && characters->kind != EITP__JINJA_STRING)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "expected a string, got a value of type %s",
                                eitp__jinja_type_name(characters));
    while ((sides & EITP__JINJA_LEFT) && rest.size && (size = eitp__jinja_stripped(&rest, 0, characters)) != 0 &&
           eitp__jinja_count_steps(jinja, characters->kind == EITP__JINJA_STRING ? 1 + characters->size / 16 : 0)) {
        rest.as.text += size;
        rest.size -= size;
    }
    while ((sides & EITP__JINJA_RIGHT) && rest.size) {
        size_t at = rest.size - 1;
        while (at && ((unsigned char)rest.as.text[at] & 0xC0) == 0x80)
            at--;
        if (!eitp__jinja_stripped(&rest, at, characters) ||
            !eitp__jinja_count_steps(jinja, characters->kind == EITP__JINJA_STRING ? 1 + characters->size / 16 : 0))
            break;
        rest.size = at;
    }
    return rest;
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_replace(eitp__jinja *jinja, const eitp__jinja_value *text,
                                                    const eitp__jinja_value *old, const eitp__jinja_value *with,
                                                    int64_t limit) {
    const size_t mark = jinja->text.size;
    size_t at = 0;
    for (; limit != 0 && at <= text->size && eitp__jinja_count_steps(jinja, 1); limit--) {
        size_t found = eitp__jinja_search(jinja, text, old, at), end;
        if (found == SIZE_MAX)
            break;
        eitp__jinja_add(jinja, text->as.text + at, found - at);
        eitp__jinja_add(jinja, with->as.text, with->size);
        at = found + old->size;
        if (old->size)
            continue;
        /* An empty string is found before each character and at the end. */
        end = at + 1;
        while (end < text->size && ((unsigned char)text->as.text[end] & 0xC0) == 0x80)
            end++;
        if (at < text->size)
            eitp__jinja_add(jinja, text->as.text + at, end - at);
        at = end;
    }
    if (at < text->size)
        eitp__jinja_add(jinja, text->as.text + at, text->size - at);
    return eitp__jinja_finish_text(jinja, mark);
}

/* ---- formats ---- */

typedef struct eitp__jinja_conversion {
    char flags[8];
    int width;
    int precision; /* -1: none */
    char letter;
} eitp__jinja_conversion;

/* Reads the part of a conversion after "%". Returns its length, or 0 if it is not supported. */
static size_t eitp__jinja_read_conversion(const char *text, size_t size, eitp__jinja_conversion *conversion) {
    size_t at = 0, flags = 0;
    memset(conversion, 0, sizeof *conversion);
    conversion->precision = -1;
    for (; at < size && text[at] && strchr("-+ 0#", text[at]) && flags < 5; at++)
        conversion->flags[flags++] = text[at];
    for (; at < size && text[at] >= '0' && text[at] <= '9'; at++) {
        conversion->width = conversion->width * 10 + (text[at] - '0');
        if (conversion->width > 1000)
            return 0;
    }
    if (at < size && text[at] == '.') {
        conversion->precision = 0;
        for (at++; at < size && text[at] >= '0' && text[at] <= '9'; at++) {
            conversion->precision = conversion->precision * 10 + (text[at] - '0');
            if (conversion->precision > 100)
                return 0;
        }
    }
    if (at == size || !text[at] || !strchr("srdiuxXofFeEgG%", text[at]))
        return 0;
    conversion->letter = text[at];
    return at + 1;
}

static void eitp__jinja_pad(eitp__jinja *jinja, const eitp__jinja_conversion *conversion, const char *text,
                            size_t size) {
    const size_t length = eitp__utf8_count(text, size);
    const size_t width = (size_t)conversion->width;
    const int is_left = strchr(conversion->flags, '-') != NULL;
    for (size_t i = length; i < width && !is_left; i++)
        eitp__jinja_add(jinja, " ", 1);
    eitp__jinja_add(jinja, text, size);
    for (size_t i = length; i < width && is_left; i++)
        eitp__jinja_add(jinja, " ", 1);
}

static void eitp__jinja_format_text(eitp__jinja *jinja, const eitp__jinja_conversion *conversion,
                                    const eitp__jinja_value *value) {
    const size_t mark = jinja->text.size;
    eitp__jinja_value text;
    if (conversion->letter == 'r')
        eitp__jinja_print_repr(jinja, value);
    else
        eitp__jinja_print(jinja, value);
    text = eitp__jinja_finish_text(jinja, mark);
    if (conversion->precision >= 0 && (size_t)conversion->precision < eitp__jinja_length(&text))
        text.size = eitp__jinja_character_offset(jinja, &text, (size_t)conversion->precision);
    eitp__jinja_pad(jinja, conversion, text.as.text, text.size);
}

/* Formats a number with the C library, using a format that it assembles. */
static void eitp__jinja_format_number(eitp__jinja *jinja, const eitp__jinja_conversion *conversion,
                                      const eitp__jinja_value *value) {
    const int is_float = strchr("fFeEgG", conversion->letter) != NULL;
    char format[40], text[1600], precision[16] = "";
    double number;
    if (!eitp__jinja_to_number(value, &number)) {
        eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "%%%c requires a number, not a value of type %s",
                         conversion->letter, eitp__jinja_type_name(value));
        return;
    }
    if (!is_float && (value->kind == EITP__JINJA_FLOAT
                          ? strchr("xXo", conversion->letter) != NULL || !(number > -9e18 && number < 9e18)
                          : strchr("xXo", conversion->letter) && number < 0)) {
        eitp__jinja_fail(jinja, EITP_ERROR_UNSUPPORTED, "unsupported conversion %%%c of this number",
                         conversion->letter);
        return;
    }
    if (conversion->precision >= 0)
        snprintf(precision, sizeof precision, ".%d", conversion->precision);
    snprintf(format, sizeof format, "%%%s%d%s%s%c", conversion->flags, conversion->width, precision,
             is_float ? "" : "ll", conversion->letter == 'u' ? 'd' : conversion->letter);
    if (!conversion->width)
        snprintf(format, sizeof format, "%%%s%s%s%c", conversion->flags, precision, is_float ? "" : "ll",
                 conversion->letter == 'u' ? 'd' : conversion->letter);
    if (is_float)
        snprintf(text, sizeof text, format, number);
    else
        snprintf(text, sizeof text, format,
                 value->kind == EITP__JINJA_FLOAT ? (long long)number : (long long)value->as.integer);
    for (char *c = text; *c; c++)
        if (*c == ',') /* the locale's decimal point */
            *c = '.';
    eitp__jinja_add_text(jinja, text);
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_format(eitp__jinja *jinja, const eitp__jinja_value *text,
                                                   const eitp__jinja_value *values, size_t count) {
    const size_t mark = jinja->text.size;
    size_t used = 0, at = 0;
    while (at < text->size && jinja->status == EITP_OK) {
        const char *found = (const char *)memchr(text->as.text + at, '%', text->size - at);
        const size_t plain = found ? (size_t)(found - text->as.text) : text->size;
        eitp__jinja_conversion conversion;
        size_t size;
        eitp__jinja_add(jinja, text->as.text + at, plain - at);
        if (!found)
            break;
        size = eitp__jinja_read_conversion(found + 1, text->size - plain - 1, &conversion);
        if (!size)
            return eitp__jinja_fail(jinja, EITP_ERROR_UNSUPPORTED, "unsupported conversion in a format");
        at = plain + 1 + size;
        if (conversion.letter == '%') {
            eitp__jinja_add(jinja, "%", 1);
            continue;
        }
        if (used == count)
            return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "not enough arguments for a format");
        if (strchr("sr", conversion.letter))
            eitp__jinja_format_text(jinja, &conversion, &values[used++]);
        else
            eitp__jinja_format_number(jinja, &conversion, &values[used++]);
    }
    if (used < count)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "too many arguments for a format");
    return eitp__jinja_finish_text(jinja, mark);
}

/* ---- time ---- */

typedef struct eitp__jinja_date {
    int64_t year;
    int month, day, weekday, year_day; /* from 0, except the day, which is from 1; weeks start on Sunday */
    int hour, minute, second;
} eitp__jinja_date;

/* Computes the civil date of a number of seconds. Years start in March internally, so that leap days come last. */
static void eitp__jinja_to_date(int64_t seconds, eitp__jinja_date *date) {
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    const int64_t days = (seconds >= 0 ? seconds : seconds - 86399) / 86400, of_day = seconds - days * 86400;
    const int64_t shifted = days + 719468, era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    const int64_t day = shifted - era * 146097;
    const int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    const int64_t rest = day - (365 * year + year / 4 - year / 100), month = (5 * rest + 2) / 153;
    date->day = (int)(rest - (153 * month + 2) / 5 + 1);
    date->month = (int)(month < 10 ? month + 2 : month - 10);
    date->year = year + era * 400 + (date->month < 2);
    date->weekday = (int)(((days + 4) % 7 + 7) % 7);
    date->year_day = before[date->month] + date->day - 1 +
                     (date->month > 1 && date->year % 4 == 0 && (date->year % 100 != 0 || date->year % 400 == 0));
    date->hour = (int)(of_day / 3600);
    date->minute = (int)(of_day / 60 % 60);
    date->second = (int)(of_day % 60);
}

/* Adds a number with at least `width` digits, or without leading zeros if `flag` is '-'. */
static void eitp__jinja_add_digits(eitp__jinja *jinja, int64_t number, int width, char flag) {
    char text[32];
    snprintf(text, sizeof text, "%0*lld", flag == '-' ? 1 : width, (long long)number);
    eitp__jinja_add_text(jinja, text);
}

static void eitp__jinja_add_name(eitp__jinja *jinja, const char *name, int is_short) {
    eitp__jinja_add(jinja, name, is_short ? 3 : strlen(name));
}

static void eitp__jinja_add_date(eitp__jinja *jinja, const eitp__jinja_date *date, char letter, char flag);

/* Adds several conversions. */
static void eitp__jinja_add_dates(eitp__jinja *jinja, const eitp__jinja_date *date, const char *format) {
    for (; *format; format++) {
        if (*format == '%')
            eitp__jinja_add_date(jinja, date, *++format, 0);
        else
            eitp__jinja_add(jinja, format, 1);
    }
}

static void eitp__jinja_add_date(eitp__jinja *jinja, const eitp__jinja_date *date, char letter, char flag) {
    static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                         "July",    "August",   "September", "October", "November", "December"};
    static const char *const weekdays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                           "Thursday", "Friday", "Saturday"};
    static const struct {
        char letter;
        const char *format;
    } composed[] = {
        {'F', "%Y-%m-%d"}, {'T', "%H:%M:%S"}, {'D', "%m/%d/%y"}, {'R', "%H:%M"}, {'c', "%a %b %e %H:%M:%S %Y"},
        {'x', "%m/%d/%y"}, {'X', "%H:%M:%S"}};
    const struct {
        char letter;
        int width;
        int64_t value;
    } numbers[] = {{'d', 2, date->day},          {'m', 2, date->month + 1}, {'y', 2, date->year % 100},
                   {'Y', 1, date->year},         {'H', 2, date->hour},      {'I', 2, (date->hour + 11) % 12 + 1},
                   {'M', 2, date->minute},       {'S', 2, date->second},    {'f', 6, 0},
                   {'j', 3, date->year_day + 1}, {'w', 1, date->weekday},   {'u', 1, (date->weekday + 6) % 7 + 1}};
    for (size_t i = 0; i < EITP__COUNT(composed); i++) {
        if (composed[i].letter == letter) {
            eitp__jinja_add_dates(jinja, date, composed[i].format);
            return;
        }
    }
    for (size_t i = 0; i < EITP__COUNT(numbers); i++) {
        if (numbers[i].letter == letter) {
            eitp__jinja_add_digits(jinja, numbers[i].value, numbers[i].width, flag);
            return;
        }
    }
    switch (letter) {
    case 'e':
        eitp__jinja_add_text(jinja, date->day < 10 && flag != '-' ? " " : "");
        eitp__jinja_add_digits(jinja, date->day, 1, flag);
        break;
    case 'p':
        eitp__jinja_add_text(jinja, date->hour < 12 ? "AM" : "PM");
        break;
    case 'B':
    case 'b':
    case 'h':
        eitp__jinja_add_name(jinja, months[date->month], letter != 'B');
        break;
    case 'A':
    case 'a':
        eitp__jinja_add_name(jinja, weekdays[date->weekday], letter == 'a');
        break;
    case '%':
        eitp__jinja_add_text(jinja, "%");
        break;
    case 'z':
    case 'Z':
        break; /* the time has no zone, like datetime.now() */
    default:
        eitp__jinja_fail(jinja, EITP_ERROR_UNSUPPORTED, "strftime_now: unsupported conversion '%%%c'",
                         letter >= ' ' && letter < 0x7f ? letter : '?');
    }
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_format_time(eitp__jinja *jinja, const eitp__jinja_value *format,
                                                        int64_t seconds) {
    const size_t mark = jinja->text.size;
    eitp__jinja_date date;
    /* Limit to years of four digits. */
    eitp__jinja_to_date(seconds < 0 ? 0 : seconds < 253402300799 ? seconds : 253402300799, &date);
    for (size_t at = 0; at < format->size && jinja->status == EITP_OK; at++) {
        char flag;
        if (format->as.text[at] != '%' || at + 1 == format->size) {
            eitp__jinja_add(jinja, format->as.text + at, 1);
            continue;
        }
        flag = format->as.text[++at];
        if (flag == '-' && at + 1 < format->size)
            at++;
        else
            flag = 0;
        eitp__jinja_add_date(jinja, &date, format->as.text[at], flag);
    }
    return eitp__jinja_finish_text(jinja, mark);
}
