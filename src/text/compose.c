#include "text/compose.h"

#include "base/unicode.h"

/* Longer runs of marks than real text has are sorted in parts of this many, so that memory is bounded. */
#define EITP__COMPOSED_MARKS ((size_t)4096)

EITP__PRIVATE void eitp__composer_init(eitp__composer *composer, const eitp_host *host, eitp__unicode_form form) {
    memset(composer, 0, sizeof *composer);
    composer->host = host;
    composer->composes = form == EITP__FORM_C || form == EITP__FORM_KC;
    composer->is_compatible = form == EITP__FORM_KC || form == EITP__FORM_KD;
}

EITP__PRIVATE void eitp__composer_release(eitp__composer *composer) {
    eitp__release(composer->host, composer->marks, composer->mark_capacity * sizeof *composer->marks);
    composer->marks = NULL;
    composer->mark_capacity = 0;
    eitp__composer_reset(composer);
}

EITP__PRIVATE void eitp__composer_reset(eitp__composer *composer) {
    composer->mark_count = 0;
    composer->has_starter = 0;
}

static void eitp__write_character(uint32_t code_point, eitp__buffer *out) {
    unsigned char bytes[4];
    eitp__buffer_add(out, bytes, eitp__utf8_encode(code_point, bytes));
}

/* Sorts the marks by class. Marks of the same class keep their order in the text. */
static void eitp__sort_marks(eitp__composer *composer) {
    uint32_t *marks = composer->marks;
    for (size_t i = 1; i < composer->mark_count; i++) {
        const uint32_t mark = marks[i];
        const unsigned order = eitp__unicode_combining_class(mark);
        size_t at = i;
        for (; at && eitp__unicode_combining_class(marks[at - 1]) > order; at--)
            marks[at] = marks[at - 1];
        marks[at] = mark;
    }
}

/* Composes marks with the starter, and keeps the others. A kept mark blocks later ones of its class. */
static void eitp__compose_marks(eitp__composer *composer) {
    unsigned last = 0;
    size_t kept = 0;
    if (!composer->mark_count)
        return;
    eitp__sort_marks(composer);
    if (!composer->composes)
        return;
    for (size_t i = 0; i < composer->mark_count; i++) {
        const uint32_t mark = composer->marks[i];
        const unsigned order = eitp__unicode_combining_class(mark);
        const uint32_t composed =
            composer->has_starter && order > last ? eitp__unicode_compose(composer->starter, mark) : 0;
        if (composed) {
            composer->starter = composed;
            continue;
        }
        last = order;
        composer->marks[kept++] = mark;
    }
    composer->mark_count = kept;
}

EITP__PRIVATE void eitp__composer_finish(eitp__composer *composer, eitp__buffer *out) {
    eitp__compose_marks(composer);
    if (composer->has_starter)
        eitp__write_character(composer->starter, out);
    for (size_t i = 0; i < composer->mark_count; i++)
        eitp__write_character(composer->marks[i], out);
    eitp__composer_reset(composer);
}

/* Adds a character that has no decomposition. */
static eitp_status eitp__compose_part(eitp__composer *composer, uint32_t code_point, eitp__buffer *out,
                                      eitp_error *error) {
    uint32_t composed;
    if (eitp__unicode_combining_class(code_point)) {
        if (composer->mark_count == EITP__COMPOSED_MARKS)
            eitp__composer_finish(composer, out);
        if (!eitp__reserve(composer->host, (void **)&composer->marks, &composer->mark_capacity,
                           composer->mark_count + 1, sizeof *composer->marks))
            return eitp__fail_memory(error, (composer->mark_count + 1) * sizeof *composer->marks, "marks in a text");
        composer->marks[composer->mark_count++] = code_point;
        return EITP_OK;
    }
    eitp__compose_marks(composer);
    composed = composer->composes && composer->has_starter && !composer->mark_count
                   ? eitp__unicode_compose(composer->starter, code_point)
                   : 0;
    if (!composed)
        eitp__composer_finish(composer, out);
    composer->has_starter = 1;
    composer->starter = composed ? composed : code_point;
    return EITP_OK;
}

/* Adds ASCII characters. Only the last one can be changed, by the characters that follow. */
static void eitp__compose_ascii(eitp__composer *composer, const unsigned char *text, size_t size, eitp__buffer *out) {
    eitp__composer_finish(composer, out);
    eitp__buffer_add(out, text, size - 1);
    composer->has_starter = 1;
    composer->starter = text[size - 1];
}

EITP__PRIVATE eitp_status eitp__composer_add(eitp__composer *composer, const unsigned char *text, size_t size,
                                             eitp__buffer *out, eitp_error *error) {
    for (size_t i = 0; i < size;) {
        uint32_t code_point, parts[EITP__UNICODE_COMPATIBLE_PARTS];
        size_t end = i, count;
        int valid;
        while (end < size && text[end] < 0x80)
            end++;
        if (end > i) {
            eitp__compose_ascii(composer, text + i, end - i, out);
            i = end;
            continue;
        }
        i += eitp__utf8_next(text + i, size - i, &code_point, &valid);
        count = composer->is_compatible ? eitp__unicode_decompose_compatibly(code_point, parts)
                                        : eitp__unicode_decompose(code_point, parts);
        for (size_t k = 0; k < count; k++) {
            eitp_status status = eitp__compose_part(composer, parts[k], out, error);
            if (status != EITP_OK)
                return status;
        }
    }
    return out->failed ? eitp__fail_memory(error, out->size, "the text being encoded") : EITP_OK;
}
