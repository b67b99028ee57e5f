#include "template/jinja_methods.h"

#include "base/unicode.h"
#include "template/jinja_lexer.h"
#include "template/jinja_print.h"
#include "template/jinja_strings.h"

static int eitp__jinja_expects_string(eitp__jinja *jinja, const eitp__jinja_value *value) {
    if (value->kind != EITP__JINJA_STRING)
        eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "expected a string, got a value of type %s",
                         eitp__jinja_type_name(value));
    return value->kind == EITP__JINJA_STRING;
}

/* ---- strings ---- */

static eitp__jinja_value eitp__jinja_str_strip(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_strip(jinja, &call->self, &call->slots[0], EITP__JINJA_LEFT | EITP__JINJA_RIGHT);
}

static eitp__jinja_value eitp__jinja_str_lstrip(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_strip(jinja, &call->self, &call->slots[0], EITP__JINJA_LEFT);
}

static eitp__jinja_value eitp__jinja_str_rstrip(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_strip(jinja, &call->self, &call->slots[0], EITP__JINJA_RIGHT);
}

static eitp__jinja_value eitp__jinja_str_upper(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_change_case(jinja, &call->self, EITP__JINJA_UPPER);
}

static eitp__jinja_value eitp__jinja_str_lower(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_change_case(jinja, &call->self, EITP__JINJA_LOWER);
}

static eitp__jinja_value eitp__jinja_str_title(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_change_case(jinja, &call->self, EITP__JINJA_TITLE);
}

static eitp__jinja_value eitp__jinja_str_capitalize(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_change_case(jinja, &call->self, EITP__JINJA_CAPITALIZE);
}

/* Adds a part of a string to a list. */
static void eitp__jinja_push_part(eitp__jinja *jinja, eitp__jinja_list *list, const eitp__jinja_value *text,
                                  size_t begin, size_t end) {
    const eitp__jinja_value part = eitp__jinja_part(text, begin, end - begin);
    eitp__jinja_push(jinja, list, &part);
}

/* Splits at whitespace. After `limit` words, unless negative, the rest keeps its inner and trailing whitespace. */
static void eitp__jinja_split_words(eitp__jinja *jinja, const eitp__jinja_value *text, int64_t limit,
                                    eitp__jinja_list *list) {
    size_t at = 0, space;
    while (jinja->status == EITP_OK) {
        size_t begin;
        while ((space = eitp__jinja_space(text->as.text + at, text->size - at)) != 0)
            at += space;
        if (at == text->size)
            break;
        if (limit >= 0 && limit-- == 0) {
            eitp__jinja_push_part(jinja, list, text, at, text->size);
            break;
        }
        for (begin = at; at < text->size && !eitp__jinja_space(text->as.text + at, text->size - at);)
            at++;
        eitp__jinja_push_part(jinja, list, text, begin, at);
    }
}

static void eitp__jinja_split_at(eitp__jinja *jinja, const eitp__jinja_value *text, const eitp__jinja_value *separator,
                                 int64_t limit, eitp__jinja_list *list) {
    size_t at = 0;
    for (; limit != 0 && jinja->status == EITP_OK; limit--) {
        const size_t found = eitp__jinja_search(jinja, text, separator, at);
        if (found == SIZE_MAX)
            break;
        eitp__jinja_push_part(jinja, list, text, at, found);
        at = found + separator->size;
    }
    eitp__jinja_push_part(jinja, list, text, at, text->size);
}

static eitp__jinja_value eitp__jinja_str_split(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_value *separator = &call->slots[0];
    const int64_t limit = eitp__jinja_integer_argument(jinja, &call->slots[1], -1);
    eitp__jinja_list *list = eitp__jinja_new_list(jinja, 4);
    eitp__jinja_count_steps(jinja, call->self.size / 64);
    if (separator->kind <= EITP__JINJA_NONE && separator->kind != EITP__JINJA_UNDEFINED)
        eitp__jinja_split_words(jinja, &call->self, limit, list);
    else if (eitp__jinja_expects_string(jinja, separator) && !separator->size)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "split: the separator is empty");
    else if (jinja->status == EITP_OK)
        eitp__jinja_split_at(jinja, &call->self, separator, limit, list);
    return eitp__jinja_list_value(EITP__JINJA_LIST, list);
}

/* Returns the offset of the last `part` that ends at or before `end`, or SIZE_MAX if it is missing. */
static size_t eitp__jinja_search_last(eitp__jinja *jinja, const eitp__jinja_value *text, const eitp__jinja_value *part,
                                      size_t end) {
    if (!eitp__jinja_count_steps(jinja, 1 + end / 64) || part->size > end)
        return SIZE_MAX;
    for (size_t at = end - part->size + 1; at-- > 0;)
        if (!part->size || (text->as.text[at] == part->as.text[0] && eitp__jinja_count_steps(jinja, part->size / 64) &&
                            !memcmp(text->as.text + at, part->as.text, part->size)))
            return at;
    return SIZE_MAX;
}

/* Splits at whitespace from the end. After `limit` words, unless negative, the rest keeps its leading and inner
   whitespace. */
static void eitp__jinja_rsplit_words(eitp__jinja *jinja, const eitp__jinja_value *text, int64_t limit,
                                     eitp__jinja_list *list) {
    size_t end = text->size;
    while (jinja->status == EITP_OK && (end = eitp__jinja_without_space(text->as.text, end)) != 0) {
        size_t begin = end, last;
        if (limit >= 0 && limit-- == 0) {
            eitp__jinja_push_part(jinja, list, text, 0, end);
            return;
        }
        do {
            last = begin;
            for (begin--; begin && ((unsigned char)text->as.text[begin] & 0xC0) == 0x80;)
                begin--;
        } while (begin && !eitp__jinja_space(text->as.text + begin, last - begin));
        if (eitp__jinja_space(text->as.text + begin, last - begin))
            begin = last;
        eitp__jinja_push_part(jinja, list, text, begin, end);
        end = begin;
    }
}

static eitp__jinja_value eitp__jinja_str_rsplit(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_value *separator = &call->slots[0], *text = &call->self;
    int64_t limit = eitp__jinja_integer_argument(jinja, &call->slots[1], -1);
    eitp__jinja_list *list = eitp__jinja_new_list(jinja, 4);
    size_t end = text->size, found;
    if (separator->kind <= EITP__JINJA_NONE && separator->kind != EITP__JINJA_UNDEFINED) {
        eitp__jinja_rsplit_words(jinja, text, limit, list);
    } else if (!eitp__jinja_expects_string(jinja, separator)) {
        return eitp__jinja_none();
    } else if (!separator->size) {
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "rsplit: the separator is empty");
    } else {
        for (; limit != 0 && (found = eitp__jinja_search_last(jinja, text, separator, end)) != SIZE_MAX; limit--) {
            eitp__jinja_push_part(jinja, list, text, found + separator->size, end);
            end = found;
        }
        eitp__jinja_push_part(jinja, list, text, 0, end);
    }
    return list ? eitp__jinja_reversed(jinja, list, EITP__JINJA_LIST) : eitp__jinja_none();
}

/* Returns the length of the line break, as defined by str.splitlines, at the start of a text, or 0 without one. */
static size_t eitp__jinja_line_break(const char *text, size_t size) {
    uint32_t c;
    int valid;
    const size_t length = eitp__utf8_next((const unsigned char *)text, size, &c, &valid);
    if (c == '\r' && size > 1 && text[1] == '\n')
        return 2;
    return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029 ? length : 0;
}

static eitp__jinja_value eitp__jinja_str_splitlines(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const int keeps = eitp__jinja_true_argument(&call->slots[0], 0);
    eitp__jinja_list *list = eitp__jinja_new_list(jinja, 4);
    size_t begin = 0;
    eitp__jinja_count_steps(jinja, call->self.size / 64);
    for (size_t at = 0; at < call->self.size && jinja->status == EITP_OK;) {
        const size_t size = eitp__jinja_line_break(call->self.as.text + at, call->self.size - at);
        if (size) {
            eitp__jinja_push_part(jinja, list, &call->self, begin, keeps ? at + size : at);
            begin = at + size;
        }
        at += size ? size : 1;
    }
    if (begin < call->self.size)
        eitp__jinja_push_part(jinja, list, &call->self, begin, call->self.size);
    return eitp__jinja_list_value(EITP__JINJA_LIST, list);
}

static int eitp__jinja_has_affix(const eitp__jinja_value *text, const eitp__jinja_value *affix, int at_end) {
    return affix->size <= text->size &&
           !memcmp(text->as.text + (at_end ? text->size - affix->size : 0), affix->as.text, affix->size);
}

/* Evaluates startswith and endswith, with a string or a tuple of strings. */
static eitp__jinja_value eitp__jinja_str_affix(eitp__jinja *jinja, const eitp__jinja_call *call, int at_end) {
    const eitp__jinja_value *affix = &call->slots[0];
    if (call->slots[1].kind != EITP__JINJA_MISSING)
        return eitp__jinja_fail(jinja, EITP_ERROR_UNSUPPORTED, "unsupported bounds of startswith or endswith");
    if (affix->kind != EITP__JINJA_TUPLE)
        return eitp__jinja_boolean(eitp__jinja_expects_string(jinja, affix) &&
                                   eitp__jinja_has_affix(&call->self, affix, at_end));
    for (size_t i = 0; i < affix->as.list->count && eitp__jinja_count_steps(jinja, 1); i++)
        if (eitp__jinja_expects_string(jinja, &affix->as.list->items[i]) &&
            eitp__jinja_has_affix(&call->self, &affix->as.list->items[i], at_end))
            return eitp__jinja_boolean(1);
    return eitp__jinja_boolean(0);
}

static eitp__jinja_value eitp__jinja_str_startswith(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_str_affix(jinja, call, 0);
}

static eitp__jinja_value eitp__jinja_str_endswith(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_str_affix(jinja, call, 1);
}

static eitp__jinja_value eitp__jinja_str_removeprefix(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const size_t size = call->slots[0].size;
    if (!eitp__jinja_expects_string(jinja, &call->slots[0]) || !eitp__jinja_has_affix(&call->self, &call->slots[0], 0))
        return call->self;
    return eitp__jinja_part(&call->self, size, call->self.size - size);
}

static eitp__jinja_value eitp__jinja_str_removesuffix(eitp__jinja *jinja, const eitp__jinja_call *call) {
    if (!eitp__jinja_expects_string(jinja, &call->slots[0]) || !eitp__jinja_has_affix(&call->self, &call->slots[0], 1))
        return call->self;
    return eitp__jinja_part(&call->self, 0, call->self.size - call->slots[0].size);
}

static eitp__jinja_value eitp__jinja_str_replace(eitp__jinja *jinja, const eitp__jinja_call *call) {
    if (!eitp__jinja_expects_string(jinja, &call->slots[0]) || !eitp__jinja_expects_string(jinja, &call->slots[1]))
        return call->self;
    return eitp__jinja_replace(jinja, &call->self, &call->slots[0], &call->slots[1],
                               eitp__jinja_integer_argument(jinja, &call->slots[2], -1));
}

/* Returns the text between the bounds of find, index and count, which are in characters. *skipped is the number of
   bytes before it. */
static eitp__jinja_value eitp__jinja_bounded(eitp__jinja *jinja, const eitp__jinja_call *call, size_t *skipped) {
    const int64_t length = (int64_t)eitp__jinja_length(&call->self);
    int64_t bounds[2];
    for (int i = 0; i < 2; i++) {
        const eitp__jinja_value *slot = &call->slots[1 + i];
        bounds[i] = slot->kind == EITP__JINJA_NONE ? i * length : eitp__jinja_integer_argument(jinja, slot, i * length);
        if (bounds[i] < 0)
            bounds[i] = bounds[i] + length < 0 ? 0 : bounds[i] + length;
    }
    if (bounds[0] > length)
        bounds[0] = length + 1; /* beyond the end nothing is found, not even an empty string */
    if (bounds[1] > length)
        bounds[1] = length;
    *skipped = 0;
    if (bounds[0] > bounds[1])
        return eitp__jinja_none();
    *skipped = eitp__jinja_character_offset(jinja, &call->self, (size_t)bounds[0]);
    return eitp__jinja_part(&call->self, *skipped,
                            eitp__jinja_character_offset(jinja, &call->self, (size_t)bounds[1]) - *skipped);
}

/* Returns the index of the first or last occurrence, or -1 if it is missing. */
static int64_t eitp__jinja_find_index(eitp__jinja *jinja, const eitp__jinja_call *call, int is_last) {
    size_t skipped, found;
    const eitp__jinja_value text = eitp__jinja_bounded(jinja, call, &skipped);
    if (!eitp__jinja_expects_string(jinja, &call->slots[0]) || text.kind != EITP__JINJA_STRING)
        return -1;
    found = is_last ? eitp__jinja_search_last(jinja, &text, &call->slots[0], text.size)
                    : eitp__jinja_search(jinja, &text, &call->slots[0], 0);
    return found == SIZE_MAX ? -1 : (int64_t)eitp__utf8_count(call->self.as.text, skipped + found);
}

static eitp__jinja_value eitp__jinja_str_find(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_integer(eitp__jinja_find_index(jinja, call, 0));
}

static eitp__jinja_value eitp__jinja_str_rfind(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_integer(eitp__jinja_find_index(jinja, call, 1));
}

static eitp__jinja_value eitp__jinja_found_index(eitp__jinja *jinja, int64_t index) {
    if (index < 0)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "substring not found");
    return eitp__jinja_integer(index);
}

static eitp__jinja_value eitp__jinja_str_index(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_found_index(jinja, eitp__jinja_find_index(jinja, call, 0));
}

static eitp__jinja_value eitp__jinja_str_rindex(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_found_index(jinja, eitp__jinja_find_index(jinja, call, 1));
}

static eitp__jinja_value eitp__jinja_str_count(eitp__jinja *jinja, const eitp__jinja_call *call) {
    size_t skipped, at = 0;
    int64_t count = 0;
    const eitp__jinja_value text = eitp__jinja_bounded(jinja, call, &skipped), *part = &call->slots[0];
    if (!eitp__jinja_expects_string(jinja, part) || text.kind != EITP__JINJA_STRING)
        return eitp__jinja_integer(0);
    if (!part->size)
        return eitp__jinja_integer((int64_t)eitp__jinja_length(&text) + 1);
    while ((at = eitp__jinja_search(jinja, &text, part, at)) != SIZE_MAX && eitp__jinja_count_steps(jinja, 1)) {
        at += part->size;
        count++;
    }
    return eitp__jinja_integer(count);
}

static eitp__jinja_value eitp__jinja_str_join(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_list *list = eitp__jinja_iterate(jinja, &call->slots[0]);
    return list ? eitp__jinja_join(jinja, list, &call->self, 0) : eitp__jinja_none();
}

/* Evaluates partition and rpartition. */
static eitp__jinja_value eitp__jinja_partition(eitp__jinja *jinja, const eitp__jinja_call *call, int is_last) {
    const eitp__jinja_value *text = &call->self, *separator = &call->slots[0];
    eitp__jinja_list *list = eitp__jinja_new_list(jinja, 3);
    size_t found;
    if (!eitp__jinja_expects_string(jinja, separator))
        return eitp__jinja_none();
    if (!separator->size)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "partition: the separator is empty");
    found = is_last ? eitp__jinja_search_last(jinja, text, separator, text->size)
                    : eitp__jinja_search(jinja, text, separator, 0);
    if (found == SIZE_MAX) {
        for (int i = 0; i < 3; i++)
            eitp__jinja_push_part(jinja, list, text, 0, i == (is_last ? 2 : 0) ? text->size : 0);
    } else {
        eitp__jinja_push_part(jinja, list, text, 0, found);
        eitp__jinja_push(jinja, list, separator);
        eitp__jinja_push_part(jinja, list, text, found + separator->size, text->size);
    }
    return eitp__jinja_list_value(EITP__JINJA_TUPLE, list);
}

static eitp__jinja_value eitp__jinja_str_partition(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_partition(jinja, call, 0);
}

static eitp__jinja_value eitp__jinja_str_rpartition(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_partition(jinja, call, 1);
}

/* True if there are characters, and all are in these classes: bits of 1 << EITP__UNICODE_... */
static eitp__jinja_value eitp__jinja_all_of(eitp__jinja *jinja, const eitp__jinja_value *text, unsigned classes) {
    const unsigned char *bytes = (const unsigned char *)text->as.text;
    eitp__jinja_count_steps(jinja, text->size / 16);
    for (size_t at = 0; at < text->size;) {
        uint32_t c;
        int valid, class_of;
        at += eitp__utf8_next(bytes + at, text->size - at, &c, &valid);
        class_of = c >= 0x1c && c <= 0x1f ? EITP__UNICODE_SPACE : eitp__unicode_class(c);
        if (!(classes & 1u << class_of))
            return eitp__jinja_boolean(0);
    }
    return eitp__jinja_boolean(text->size != 0);
}

static eitp__jinja_value eitp__jinja_str_isalpha(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_all_of(jinja, &call->self, 1u << EITP__UNICODE_LETTER);
}

static eitp__jinja_value eitp__jinja_str_isalnum(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_all_of(jinja, &call->self, 1u << EITP__UNICODE_LETTER | 1u << EITP__UNICODE_NUMBER);
}

static eitp__jinja_value eitp__jinja_str_isspace(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_all_of(jinja, &call->self, 1u << EITP__UNICODE_SPACE);
}

/* Evaluates isdigit, isdecimal and isnumeric, which differ beyond ASCII. */
static eitp__jinja_value eitp__jinja_str_isdigit(eitp__jinja *jinja, const eitp__jinja_call *call) {
    eitp__jinja_count_steps(jinja, call->self.size / 16);
    for (size_t i = 0; i < call->self.size; i++) {
        const unsigned char c = (unsigned char)call->self.as.text[i];
        if (c >= 0x80 && eitp__jinja_is_true(&call->self))
            return eitp__jinja_fail(jinja, EITP_ERROR_UNSUPPORTED, "unsupported test for digits beyond ASCII");
        if (c < '0' || c > '9')
            return eitp__jinja_boolean(0);
    }
    return eitp__jinja_boolean(call->self.size != 0);
}

/* Evaluates isupper and islower. */
static eitp__jinja_value eitp__jinja_is_case(eitp__jinja *jinja, const eitp__jinja_value *text, char first,
                                             char wrong) {
    int found = 0;
    eitp__jinja_count_steps(jinja, text->size / 16);
    for (size_t i = 0; i < text->size; i++) {
        const char c = text->as.text[i];
        if ((unsigned char)c >= 0x80)
            return eitp__jinja_fail(jinja, EITP_ERROR_UNSUPPORTED, "unsupported test for case beyond ASCII");
        if (c >= wrong && c < wrong + 26)
            return eitp__jinja_boolean(0);
        found |= c >= first && c < first + 26;
    }
    return eitp__jinja_boolean(found);
}

static eitp__jinja_value eitp__jinja_str_isupper(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_is_case(jinja, &call->self, 'A', 'a');
}

static eitp__jinja_value eitp__jinja_str_islower(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_is_case(jinja, &call->self, 'a', 'A');
}

/* Evaluates ljust, rjust and zfill. */
static eitp__jinja_value eitp__jinja_fill(eitp__jinja *jinja, const eitp__jinja_value *text, int64_t width,
                                          const char *with, int is_left) {
    const size_t mark = jinja->text.size;
    const int64_t length = (int64_t)eitp__jinja_length(text);
    if (is_left)
        eitp__jinja_add(jinja, text->as.text, text->size);
    for (int64_t i = length; i < width && eitp__jinja_count_steps(jinja, 1); i++)
        eitp__jinja_add(jinja, with, 1);
    if (!is_left)
        eitp__jinja_add(jinja, text->as.text, text->size);
    return eitp__jinja_finish_text(jinja, mark);
}

static eitp__jinja_value eitp__jinja_str_ljust(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_fill(jinja, &call->self, eitp__jinja_integer_argument(jinja, &call->slots[0], 0), " ", 1);
}

static eitp__jinja_value eitp__jinja_str_rjust(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_fill(jinja, &call->self, eitp__jinja_integer_argument(jinja, &call->slots[0], 0), " ", 0);
}

static const eitp__jinja_function eitp__jinja_string_methods[] = {
    {"strip", "chars", 0, eitp__jinja_str_strip},
    {"lstrip", "chars", 0, eitp__jinja_str_lstrip},
    {"rstrip", "chars", 0, eitp__jinja_str_rstrip},
    {"split", "sep maxsplit", 0, eitp__jinja_str_split},
    {"rsplit", "sep maxsplit", 0, eitp__jinja_str_rsplit},
    {"splitlines", "keepends", 0, eitp__jinja_str_splitlines},
    {"startswith", "prefix start end", 1, eitp__jinja_str_startswith},
    {"endswith", "suffix start end", 1, eitp__jinja_str_endswith},
    {"removeprefix", "prefix", 1, eitp__jinja_str_removeprefix},
    {"removesuffix", "suffix", 1, eitp__jinja_str_removesuffix},
    {"replace", "old new count", 2, eitp__jinja_str_replace},
    {"find", "sub start end", 1, eitp__jinja_str_find},
    {"rfind", "sub start end", 1, eitp__jinja_str_rfind},
    {"index", "sub start end", 1, eitp__jinja_str_index},
    {"rindex", "sub start end", 1, eitp__jinja_str_rindex},
    {"count", "sub start end", 1, eitp__jinja_str_count},
    {"join", "iterable", 1, eitp__jinja_str_join},
    {"partition", "sep", 1, eitp__jinja_str_partition},
    {"rpartition", "sep", 1, eitp__jinja_str_rpartition},
    {"upper", "", 0, eitp__jinja_str_upper},
    {"lower", "", 0, eitp__jinja_str_lower},
    {"title", "", 0, eitp__jinja_str_title},
    {"capitalize", "", 0, eitp__jinja_str_capitalize},
    {"isalpha", "", 0, eitp__jinja_str_isalpha},
    {"isalnum", "", 0, eitp__jinja_str_isalnum},
    {"isspace", "", 0, eitp__jinja_str_isspace},
    {"isdigit", "", 0, eitp__jinja_str_isdigit},
    {"isdecimal", "", 0, eitp__jinja_str_isdigit},
    {"isnumeric", "", 0, eitp__jinja_str_isdigit},
    {"isupper", "", 0, eitp__jinja_str_isupper},
    {"islower", "", 0, eitp__jinja_str_islower},
    {"ljust", "width", 1, eitp__jinja_str_ljust},
    {"rjust", "width", 1, eitp__jinja_str_rjust},
    {"casefold", NULL, 0, NULL},
    {"center", NULL, 0, NULL},
    {"encode", NULL, 0, NULL},
    {"expandtabs", NULL, 0, NULL},
    {"format", NULL, 0, NULL},
    {"format_map", NULL, 0, NULL},
    {"isascii", NULL, 0, NULL},
    {"isidentifier", NULL, 0, NULL},
    {"isprintable", NULL, 0, NULL},
    {"istitle", NULL, 0, NULL},
    {"maketrans", NULL, 0, NULL},
    {"swapcase", NULL, 0, NULL},
    {"translate", NULL, 0, NULL},
    {"zfill", NULL, 0, NULL},
};

/* ---- dicts and lists ---- */

static eitp__jinja_value eitp__jinja_dict_get(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_value *found = eitp__jinja_find(jinja, call->self.as.dict, &call->slots[0]);
    if (found)
        return *found;
    return call->slots[1].kind == EITP__JINJA_MISSING ? eitp__jinja_none() : call->slots[1];
}

EITP__PRIVATE eitp__jinja_list *eitp__jinja_items(eitp__jinja *jinja, const eitp__jinja_dict *dict) {
    eitp__jinja_list *list = eitp__jinja_new_list(jinja, dict->count);
    for (size_t i = 0; list && i < dict->count && jinja->status == EITP_OK; i++) {
        eitp__jinja_list *pair = eitp__jinja_new_list(jinja, 2);
        eitp__jinja_value value;
        eitp__jinja_push(jinja, pair, &dict->entries[i].key);
        eitp__jinja_push(jinja, pair, &dict->entries[i].value);
        value = eitp__jinja_list_value(EITP__JINJA_TUPLE, pair);
        eitp__jinja_push(jinja, list, &value);
    }
    return list;
}

static eitp__jinja_value eitp__jinja_dict_items(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_list_value(EITP__JINJA_VIEW, eitp__jinja_items(jinja, call->self.as.dict));
}

static eitp__jinja_value eitp__jinja_dict_part(eitp__jinja *jinja, const eitp__jinja_call *call, int is_key) {
    const eitp__jinja_dict *dict = call->self.as.dict;
    eitp__jinja_list *list = eitp__jinja_new_list(jinja, dict->count);
    for (size_t i = 0; i < dict->count; i++)
        eitp__jinja_push(jinja, list, is_key ? &dict->entries[i].key : &dict->entries[i].value);
    return eitp__jinja_list_value(EITP__JINJA_VIEW, list);
}

static eitp__jinja_value eitp__jinja_dict_keys(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_dict_part(jinja, call, 1);
}

static eitp__jinja_value eitp__jinja_dict_values(eitp__jinja *jinja, const eitp__jinja_call *call) {
    return eitp__jinja_dict_part(jinja, call, 0);
}

static eitp__jinja_value eitp__jinja_copy(eitp__jinja *jinja, const eitp__jinja_call *call) {
    (void)jinja;
    return call->self; /* both are immutable */
}

static eitp__jinja_value eitp__jinja_list_count(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_list *list = call->self.as.list;
    int64_t count = 0;
    for (size_t i = 0; i < list->count && eitp__jinja_count_steps(jinja, 1); i++)
        count += eitp__jinja_equal(jinja, &list->items[i], &call->slots[0]);
    return eitp__jinja_integer(count);
}

static eitp__jinja_value eitp__jinja_list_index(eitp__jinja *jinja, const eitp__jinja_call *call) {
    const eitp__jinja_list *list = call->self.as.list;
    for (size_t i = 0; i < list->count && eitp__jinja_count_steps(jinja, 1); i++)
        if (eitp__jinja_equal(jinja, &list->items[i], &call->slots[0]))
            return eitp__jinja_integer((int64_t)i);
    return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "index: the value is not in the list");
}

static eitp__jinja_value eitp__jinja_loop_cycle(eitp__jinja *jinja, const eitp__jinja_call *call) {
    if (!call->arguments->count)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "loop.cycle: no values");
    return call->arguments->values[call->self.as.loop->index % call->arguments->count];
}

/* Refuses methods that change a value, which the sandbox forbids. */
static eitp__jinja_value eitp__jinja_refuse_mutation(eitp__jinja *jinja, const eitp__jinja_call *call) {
    (void)call;
    return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "a template cannot change lists and dicts");
}

static const eitp__jinja_function eitp__jinja_dict_methods[] = {
    {"get", "key default", 1, eitp__jinja_dict_get},
    {"items", "", 0, eitp__jinja_dict_items},
    {"keys", "", 0, eitp__jinja_dict_keys},
    {"values", "", 0, eitp__jinja_dict_values},
    {"copy", "", 0, eitp__jinja_copy},
    {"fromkeys", NULL, 0, NULL},
    {"clear", NULL, 0, eitp__jinja_refuse_mutation},
    {"pop", NULL, 0, eitp__jinja_refuse_mutation},
    {"popitem", NULL, 0, eitp__jinja_refuse_mutation},
    {"setdefault", NULL, 0, eitp__jinja_refuse_mutation},
    {"update", NULL, 0, eitp__jinja_refuse_mutation},
};

static const eitp__jinja_function eitp__jinja_list_methods[] = {
    {"count", "value", 1, eitp__jinja_list_count},
    {"index", "value", 1, eitp__jinja_list_index},
    {"copy", "", 0, eitp__jinja_copy},
    {"append", NULL, 0, eitp__jinja_refuse_mutation},
    {"clear", NULL, 0, eitp__jinja_refuse_mutation},
    {"extend", NULL, 0, eitp__jinja_refuse_mutation},
    {"insert", NULL, 0, eitp__jinja_refuse_mutation},
    {"pop", NULL, 0, eitp__jinja_refuse_mutation},
    {"remove", NULL, 0, eitp__jinja_refuse_mutation},
    {"reverse", NULL, 0, eitp__jinja_refuse_mutation},
    {"sort", NULL, 0, eitp__jinja_refuse_mutation},
};

static const eitp__jinja_function eitp__jinja_tuple_methods[] = {
    {"count", "value", 1, eitp__jinja_list_count},
    {"index", "value", 1, eitp__jinja_list_index},
};

static const eitp__jinja_function eitp__jinja_loop_methods[] = {
    {"cycle", NULL, 0, eitp__jinja_loop_cycle},
    {"changed", "value", 0, NULL},
};

/* Returns the method of a value with this name, or NULL if not found. */
static const eitp__jinja_function *eitp__jinja_method_of(int kind, const char *name, size_t size) {
    switch (kind) {
    case EITP__JINJA_STRING:
        return eitp__jinja_find_function(eitp__jinja_string_methods, EITP__COUNT(eitp__jinja_string_methods), name,
                                         size);
    case EITP__JINJA_DICT:
        return eitp__jinja_find_function(eitp__jinja_dict_methods, EITP__COUNT(eitp__jinja_dict_methods), name, size);
    case EITP__JINJA_LIST:
        return eitp__jinja_find_function(eitp__jinja_list_methods, EITP__COUNT(eitp__jinja_list_methods), name, size);
    case EITP__JINJA_TUPLE:
    case EITP__JINJA_RANGE_VALUE:
        return eitp__jinja_find_function(eitp__jinja_tuple_methods, EITP__COUNT(eitp__jinja_tuple_methods), name, size);
    case EITP__JINJA_LOOP:
        return eitp__jinja_find_function(eitp__jinja_loop_methods, EITP__COUNT(eitp__jinja_loop_methods), name, size);
    default:
        return NULL;
    }
}

/* ---- attributes ---- */

enum { EITP__JINJA_LOOP_ATTRIBUTES = 11 };

/* Returns an attribute of `loop`, by its number in the list below. */
static eitp__jinja_value eitp__jinja_loop_value(const eitp__jinja_loop *loop, int number) {
    static const char first[] = "there is no previous item", last[] = "there is no next item";
    const int64_t index = (int64_t)loop->index, count = (int64_t)loop->list->count;
    const int64_t numbers[] = {index, index + 1, count - index - 1, count - index, count, loop->depth, loop->depth - 1};
    switch (number) {
    case 7:
        return eitp__jinja_boolean(index == 0);
    case 8:
        return eitp__jinja_boolean(index + 1 == count);
    case 9:
        return index ? loop->list->items[index - 1]
                     : eitp__jinja_undefined(EITP__JINJA_MESSAGE, first, sizeof first - 1);
    case 10:
        return index + 1 < count ? loop->list->items[index + 1]
                                 : eitp__jinja_undefined(EITP__JINJA_MESSAGE, last, sizeof last - 1);
    default:
        return eitp__jinja_integer(numbers[number]);
    }
}

static int eitp__jinja_loop_attribute(const char *name, size_t size) {
    static const char *const names[EITP__JINJA_LOOP_ATTRIBUTES] = {"index0", "index",    "revindex0", "revindex",
                                                                   "length", "depth",    "depth0",    "first",
                                                                   "last",   "previtem", "nextitem"};
    for (int i = 0; i < EITP__JINJA_LOOP_ATTRIBUTES; i++)
        if (strlen(names[i]) == size && !memcmp(names[i], name, size))
            return i;
    return -1;
}

/* Returns the method `name`, or a member of a namespace or loop. MISSING if not found. */
static eitp__jinja_value eitp__jinja_own_attribute(eitp__jinja *jinja, const eitp__jinja_value *value, const char *name,
                                                   size_t size) {
    const eitp__jinja_function *function = eitp__jinja_method_of(value->kind, name, size);
    eitp__jinja_value result;
    memset(&result, 0, sizeof result);
    if (function && function->call == eitp__jinja_refuse_mutation) {
        result = eitp__jinja_undefined(EITP__JINJA_UNSAFE, name, size);
    } else if (function) {
        eitp__jinja_method *method = (eitp__jinja_method *)eitp__jinja_allocate(jinja, sizeof *method);
        if (!method)
            return result;
        method->self = *value;
        method->function = function;
        result.kind = EITP__JINJA_METHOD;
        result.as.method = method;
    } else if (value->kind == EITP__JINJA_LOOP && eitp__jinja_loop_attribute(name, size) >= 0) {
        result = eitp__jinja_loop_value(value->as.loop, eitp__jinja_loop_attribute(name, size));
    } else if (value->kind == EITP__JINJA_NAMESPACE) {
        const eitp__jinja_value key = eitp__jinja_string(name, size);
        const eitp__jinja_value *found = eitp__jinja_find(jinja, value->as.dict, &key);
        if (found)
            result = *found;
    } else if (size > 4 && !memcmp(name, "__", 2) && !memcmp(name + size - 2, "__", 2)) {
        result = eitp__jinja_undefined(EITP__JINJA_UNSAFE, name, size);
    }
    return result;
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_attribute(eitp__jinja *jinja, const eitp__jinja_value *value,
                                                      const char *name, size_t size) {
    eitp__jinja_value result;
    if (value->kind == EITP__JINJA_UNDEFINED)
        return eitp__jinja_fail_undefined(jinja, value);
    result = eitp__jinja_own_attribute(jinja, value, name, size);
    if (result.kind == EITP__JINJA_MISSING && value->kind == EITP__JINJA_DICT) {
        const eitp__jinja_value key = eitp__jinja_string(name, size);
        const eitp__jinja_value *found = eitp__jinja_find(jinja, value->as.dict, &key);
        if (found)
            return *found;
    }
    if (result.kind == EITP__JINJA_MISSING)
        return eitp__jinja_undefined(EITP__JINJA_OF + value->kind, name, size);
    return result;
}

/* Returns the element of a list or string at an index; negative indices count from the end. MISSING if there is
   none. */
static eitp__jinja_value eitp__jinja_at_index(eitp__jinja *jinja, const eitp__jinja_value *value, int64_t index) {
    const int is_text = value->kind == EITP__JINJA_STRING;
    const int64_t count = (int64_t)(is_text ? eitp__jinja_length(value) : value->as.list->count);
    eitp__jinja_value missing;
    size_t begin;
    memset(&missing, 0, sizeof missing);
    eitp__jinja_count_steps(jinja, is_text ? value->size / 64 : 0);
    if (index < 0)
        index += count;
    if (index < 0 || index >= count)
        return missing;
    if (!is_text)
        return value->as.list->items[index];
    begin = eitp__jinja_character_offset(jinja, value, (size_t)index);
    return eitp__jinja_part(value, begin, eitp__jinja_character_offset(jinja, value, (size_t)index + 1) - begin);
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_element(eitp__jinja *jinja, const eitp__jinja_value *value,
                                                    const eitp__jinja_value *key) {
    eitp__jinja_value result;
    int64_t index;
    memset(&result, 0, sizeof result);
    if (value->kind == EITP__JINJA_UNDEFINED)
        return eitp__jinja_fail_undefined(jinja, value);
    if (value->kind == EITP__JINJA_DICT && key->kind != EITP__JINJA_LIST && key->kind != EITP__JINJA_DICT) {
        const eitp__jinja_value *found = eitp__jinja_find(jinja, value->as.dict, key);
        if (found)
            return *found;
    } else if (value->kind == EITP__JINJA_STRING ||
               (value->kind >= EITP__JINJA_LIST && value->kind < EITP__JINJA_VIEW)) {
        if (eitp__jinja_to_integer(key, &index))
            result = eitp__jinja_at_index(jinja, value, index);
    }
    if (result.kind == EITP__JINJA_MISSING && key->kind == EITP__JINJA_STRING)
        result = eitp__jinja_own_attribute(jinja, value, key->as.text, key->size);
    if (result.kind != EITP__JINJA_MISSING)
        return result;
    result = eitp__jinja_to_string(jinja, key);
    return eitp__jinja_undefined(EITP__JINJA_OF + value->kind, result.as.text, result.size);
}

/* ---- parts of sequences ---- */

/* Returns a bound of a slice in -1 to `count`, like Python's slice.indices. */
static int64_t eitp__jinja_slice_bound(eitp__jinja *jinja, const eitp__jinja_value *bound, int64_t missing,
                                       int64_t count, int64_t step) {
    const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? count - 1 : count;
    int64_t index;
    if (bound->kind == EITP__JINJA_MISSING || bound->kind == EITP__JINJA_NONE)
        return missing;
    index = eitp__jinja_integer_argument(jinja, bound, 0);
    if (index < 0)
        index += count;
    return index < low ? low : index > high ? high : index;
}

/* Returns every step-th character of a string. */
static eitp__jinja_value eitp__jinja_slice_text(eitp__jinja *jinja, const eitp__jinja_value *text, int64_t start,
                                                int64_t stop, int64_t step) {
    const size_t mark = jinja->text.size;
    if (step == 1) {
        const size_t begin = eitp__jinja_character_offset(jinja, text, (size_t)start);
        const size_t end = eitp__jinja_character_offset(jinja, text, (size_t)(stop > start ? stop : start));
        return eitp__jinja_part(text, begin, end - begin);
    }
    for (int64_t i = start; (step > 0 ? i < stop : i > stop) && eitp__jinja_count_steps(jinja, 1); i += step) {
        const eitp__jinja_value character = eitp__jinja_at_index(jinja, text, i);
        eitp__jinja_add(jinja, character.as.text, character.size);
        if (step > 0 ? step >= stop - i : step <= stop - i)
            break;
    }
    return eitp__jinja_finish_text(jinja, mark);
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_slice(eitp__jinja *jinja, const eitp__jinja_value *value,
                                                  const eitp__jinja_value bounds[3]) {
    const int is_text = value->kind == EITP__JINJA_STRING;
    const int64_t step = bounds[2].kind == EITP__JINJA_NONE ? 1 : eitp__jinja_integer_argument(jinja, &bounds[2], 1);
    int64_t count, start, stop;
    eitp__jinja_list *list;
    if (value->kind == EITP__JINJA_UNDEFINED)
        return eitp__jinja_fail_undefined(jinja, value);
    if (!is_text && (value->kind < EITP__JINJA_LIST || value->kind > EITP__JINJA_RANGE_VALUE))
        return eitp__jinja_undefined(EITP__JINJA_OF + value->kind, "slice", 5);
    if (step == 0 || step == INT64_MIN)
        return eitp__jinja_fail(jinja, EITP_ERROR_ARGUMENT, "the step of a slice must not be 0");
    count = (int64_t)(is_text ? eitp__jinja_length(value) : value->as.list->count);
    start = eitp__jinja_slice_bound(jinja, &bounds[0], step < 0 ? count - 1 : 0, count, step);
    stop = eitp__jinja_slice_bound(jinja, &bounds[1], step < 0 ? -1 : count, count, step);
    if (jinja->status != EITP_OK)
        return eitp__jinja_none();
    if (is_text)
        return eitp__jinja_slice_text(jinja, value, start, stop, step);
    list = eitp__jinja_new_list(jinja, 4);
    for (int64_t i = start; (step > 0 ? i < stop : i > stop) && jinja->status == EITP_OK;) {
        eitp__jinja_push(jinja, list, &value->as.list->items[i]);
        if (step > 0 ? step >= stop - i : step <= stop - i)
            break;
        i += step;
    }
    return eitp__jinja_list_value(value->kind, list);
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_join(eitp__jinja *jinja, const eitp__jinja_list *list,
                                                 const eitp__jinja_value *between, int converts) {
    const size_t mark = jinja->text.size;
    for (size_t i = 0; i < list->count && eitp__jinja_count_steps(jinja, 1); i++) {
        if (i)
            eitp__jinja_add(jinja, between->as.text, between->size);
        if (converts || eitp__jinja_expects_string(jinja, &list->items[i]))
            eitp__jinja_print(jinja, &list->items[i]);
    }
    return eitp__jinja_finish_text(jinja, mark);
}

EITP__PRIVATE eitp__jinja_value eitp__jinja_reversed(eitp__jinja *jinja, const eitp__jinja_list *list, int kind) {
    eitp__jinja_list *reversed = eitp__jinja_new_list(jinja, list->count);
    for (size_t i = list->count; i-- > 0 && jinja->status == EITP_OK;)
        eitp__jinja_push(jinja, reversed, &list->items[i]);
    return eitp__jinja_list_value(kind, reversed);
}
