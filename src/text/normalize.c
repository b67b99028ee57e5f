#include "text/normalize.h"

#include "base/unicode.h"
#include "text/pretokenize.h"

/* Longer runs of marks than real text has are sorted in parts of this many, so that memory is bounded. */
#define EITP__MARK_LIMIT ((size_t)262144)

EITP__PRIVATE void eitp__normalization_set_bert(eitp__normalization *steps) {
    steps->is_bert = steps->clean_text = steps->handle_chinese_chars = steps->lowercase = 1;
    steps->strip_accents = -1;
}

EITP__PRIVATE void eitp__normalizer_init(eitp__normalizer *normalizer, const eitp_host *host,
                                         const eitp__normalization *steps) {
    memset(normalizer, 0, sizeof *normalizer);
    normalizer->host = host;
    normalizer->steps = *steps;
    for (size_t i = 0; i < steps->step_count; i++) {
        const int is_form = steps->steps[i] != EITP__NORMALIZE_LOWERCASE;
        eitp__composer_init(&normalizer->first[i].composer, host,
                            is_form ? (eitp__unicode_form)steps->steps[i] : EITP__FORM_C);
        eitp__buffer_init(&normalizer->first[i].out, host);
    }
    if (steps->strip_accents < 0)
        normalizer->steps.strip_accents = steps->lowercase;
}

EITP__PRIVATE void eitp__normalizer_release(eitp__normalizer *normalizer) {
    eitp__release(normalizer->host, normalizer->marks, normalizer->mark_capacity * sizeof *normalizer->marks);
    for (size_t i = 0; i < normalizer->steps.step_count; i++) {
        eitp__composer_release(&normalizer->first[i].composer);
        eitp__buffer_release(&normalizer->first[i].out);
    }
    normalizer->marks = NULL;
    normalizer->mark_count = normalizer->mark_capacity = 0;
}

EITP__PRIVATE void eitp__normalizer_reset(eitp__normalizer *normalizer) {
    for (size_t i = 0; i < normalizer->steps.step_count; i++)
        eitp__composer_reset(&normalizer->first[i].composer);
    normalizer->mark_count = 0;
    normalizer->has_begun = 0;
}

static void eitp__write_lowercase(uint32_t code_point, eitp__buffer *out) {
    uint32_t letters[2];
    const size_t count = eitp__unicode_lowercase(code_point, letters);
    for (size_t i = 0; i < count; i++) {
        unsigned char bytes[4];
        eitp__buffer_add(out, bytes, eitp__utf8_encode(letters[i], bytes));
    }
}

/* Writes a character whose position is final, in lower case if configured. */
static void eitp__write_normal(const eitp__normalizer *normalizer, uint32_t code_point, eitp__buffer *out) {
    unsigned char bytes[4];
    if (normalizer->steps.lowercase)
        eitp__write_lowercase(code_point, out);
    else
        eitp__buffer_add(out, bytes, eitp__utf8_encode(code_point, bytes));
}

/* Writes the marks by class in ascending order. Marks of the same class keep their order in the text. */
static void eitp__flush_marks(eitp__normalizer *normalizer, eitp__buffer *out) {
    unsigned order = 0;
    for (size_t left = normalizer->mark_count; left;) {
        unsigned next = UINT32_MAX;
        for (size_t i = 0; i < normalizer->mark_count; i++) {
            const unsigned mark_order = eitp__unicode_mark_order(normalizer->marks[i]);
            if (mark_order > order && mark_order < next)
                next = mark_order;
        }
        order = next;
        for (size_t i = 0; i < normalizer->mark_count; i++) {
            if (eitp__unicode_mark_order(normalizer->marks[i]) != order)
                continue;
            eitp__write_normal(normalizer, normalizer->marks[i], out);
            left--;
        }
    }
    normalizer->mark_count = 0;
}

static eitp_status eitp__add_mark(eitp__normalizer *normalizer, uint32_t mark, eitp__buffer *out, eitp_error *error) {
    if (normalizer->mark_count == EITP__MARK_LIMIT)
        eitp__flush_marks(normalizer, out);
    if (!eitp__reserve(normalizer->host, (void **)&normalizer->marks, &normalizer->mark_capacity,
                       normalizer->mark_count + 1, sizeof *normalizer->marks))
        return eitp__fail_memory(error, (normalizer->mark_count + 1) * sizeof *normalizer->marks, "marks in a text");
    normalizer->marks[normalizer->mark_count++] = mark;
    return EITP_OK;
}

/* Decomposes a character and drops its accents. Marks on either side of an accent are sorted together if the accent
   could be reordered with them. */
static eitp_status eitp__strip_accents(eitp__normalizer *normalizer, uint32_t code_point, int kind, eitp__buffer *out,
                                       eitp_error *error) {
    uint32_t letters[3];
    eitp_status status = EITP_OK;
    if (kind == EITP__BERT_ACCENT)
        eitp__flush_marks(normalizer, out);
    if (kind == EITP__BERT_ACCENT || kind == EITP__BERT_MOVABLE_ACCENT)
        return EITP_OK;
    const size_t count = eitp__unicode_without_accents(code_point, letters);
    for (size_t i = 0; i < count && status == EITP_OK; i++) {
        if (eitp__unicode_mark_order(letters[i])) {
            status = eitp__add_mark(normalizer, letters[i], out, error);
            continue;
        }
        eitp__flush_marks(normalizer, out);
        eitp__write_normal(normalizer, letters[i], out);
    }
    return status;
}

static eitp_status eitp__normalize_character(eitp__normalizer *normalizer, uint32_t code_point, eitp__buffer *out,
                                             eitp_error *error) {
    const eitp__normalization *steps = &normalizer->steps;
    const int kind = eitp__bert_class(code_point);
    eitp_status status = EITP_OK;
    if (steps->clean_text) {
        if (kind == EITP__BERT_CONTROL || kind == EITP__BERT_CONTROL_SPACE)
            return EITP_OK;
        if (kind == EITP__BERT_SPACE)
            code_point = ' ';
    }
    const int isolated = steps->handle_chinese_chars && kind == EITP__BERT_IDEOGRAPH;
    if (isolated) {
        eitp__flush_marks(normalizer, out);
        eitp__buffer_add(out, " ", 1);
    }
    if (steps->strip_accents)
        status = eitp__strip_accents(normalizer, code_point, kind, out, error);
    else
        eitp__write_normal(normalizer, code_point, out);
    if (isolated)
        eitp__buffer_add(out, " ", 1);
    return status;
}

EITP__PRIVATE void eitp__replace_spaces(const unsigned char *text, size_t size, eitp__buffer *out) {
    while (size) {
        const unsigned char *space = (const unsigned char *)memchr(text, ' ', size);
        const size_t before = space ? (size_t)(space - text) : size;
        eitp__buffer_add(out, text, before);
        if (space)
            eitp__buffer_add_text(out, EITP__SPACE_TEXT);
        text += before + (space != NULL);
        size -= before + (space != NULL);
    }
}

static void eitp__lower_text(const unsigned char *text, size_t size, eitp__buffer *out) {
    for (size_t i = 0; i < size;) {
        uint32_t code_point;
        int valid;
        i += eitp__utf8_next(text + i, size - i, &code_point, &valid);
        eitp__write_lowercase(code_point, out);
    }
}

/* Applies BERT's normalizer. */
static eitp_status eitp__clean_words(eitp__normalizer *normalizer, const unsigned char *text, size_t size,
                                     eitp__buffer *out, eitp_error *error) {
    for (size_t i = 0; i < size;) {
        uint32_t code_point = text[i];
        int valid;
        if (code_point >= 'a' && code_point <= 'z' && !normalizer->mark_count) {
            size_t end = i + 1; /* end of a run that no step changes */
            while (end < size && text[end] >= 'a' && text[end] <= 'z')
                end++;
            eitp__buffer_add(out, text + i, end - i);
            i = end;
            continue;
        }
        i += eitp__utf8_next(text + i, size - i, &code_point, &valid);
        eitp_status status = eitp__normalize_character(normalizer, code_point, out, error);
        if (status != EITP_OK)
            return status;
    }
    return EITP_OK;
}

/* Applies the last step. */
static eitp_status eitp__normalize_last(eitp__normalizer *normalizer, const unsigned char *text, size_t size,
                                        eitp__buffer *out, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (normalizer->steps.is_bert) {
        status = eitp__clean_words(normalizer, text, size, out, error);
    } else if (normalizer->steps.replaces_space) {
        if (normalizer->steps.prepends_space && size && !normalizer->has_begun)
            eitp__buffer_add_text(out, EITP__SPACE_TEXT);
        normalizer->has_begun |= size > 0;
        eitp__replace_spaces(text, size, out);
    } else if (size) {
        eitp__buffer_add(out, text, size);
    }
    return status == EITP_OK && out->failed ? eitp__fail_memory(error, out->size, "the text being encoded") : status;
}

/* Passes a chunk through all steps from `first` on; the steps before have ended. `ends`: the step at `first` ends
   too. */
static eitp_status eitp__normalize_from(eitp__normalizer *normalizer, size_t first, int ends, const unsigned char *text,
                                        size_t size, eitp__buffer *out, eitp_error *error) {
    for (size_t i = first; i < normalizer->steps.step_count; i++) {
        eitp__normalizer_step *step = &normalizer->first[i];
        eitp_status status = EITP_OK;
        eitp__buffer_clear(&step->out);
        if (normalizer->steps.steps[i] == EITP__NORMALIZE_LOWERCASE)
            eitp__lower_text(text, size, &step->out);
        else
            status = eitp__composer_add(&step->composer, text, size, &step->out, error);
        if (ends && i == first)
            eitp__composer_finish(&step->composer, &step->out);
        if (status == EITP_OK && step->out.failed)
            status = eitp__fail_memory(error, step->out.size, "the text being encoded");
        if (status != EITP_OK)
            return status;
        text = (const unsigned char *)step->out.data;
        size = step->out.size;
    }
    return eitp__normalize_last(normalizer, text, size, out, error);
}

EITP__PRIVATE eitp_status eitp__normalizer_add(eitp__normalizer *normalizer, const unsigned char *text, size_t size,
                                               eitp__buffer *out, eitp_error *error) {
    return eitp__normalize_from(normalizer, 0, 0, text, size, out, error);
}

EITP__PRIVATE eitp_status eitp__normalizer_finish(eitp__normalizer *normalizer, eitp__buffer *out, eitp_error *error) {
    for (size_t i = 0; i < normalizer->steps.step_count; i++) {
        eitp_status status = eitp__normalize_from(normalizer, i, 1, NULL, 0, out, error);
        if (status != EITP_OK)
            return status;
    }
    eitp__flush_marks(normalizer, out);
    normalizer->has_begun = 0;
    return out->failed ? eitp__fail_memory(error, out->size, "the text being encoded") : EITP_OK;
}
