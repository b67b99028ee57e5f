/* Normalizers: Unicode's forms and lower case, in any order. Then either BERT's normalizer, which cleans text, isolates
   ideographs, strips accents and lowers case, or SentencePiece's, with U+2581 for spaces. */
#ifndef EITP_NORMALIZE_H
#define EITP_NORMALIZE_H

#include "base/memory.h"
#include "base/status.h"
#include "text/compose.h"

/* Kinds of first steps, numbered after eitp__unicode_form. */
enum {
    EITP__NORMALIZE_LOWERCASE = EITP__FORM_KD + 1, /* each character separately */
    EITP__NORMALIZE_KINDS
};

/* Maximum number of these steps. */
enum { EITP__NORMALIZE_STEPS = 8 };

typedef struct eitp__normalization {
    size_t step_count;
    unsigned char steps[EITP__NORMALIZE_STEPS];
    int is_bert;              /* then apply BertNormalizer of a tokenizer.json, with the next four members */
    int clean_text;           /* removes control characters; white space becomes spaces */
    int handle_chinese_chars; /* adds spaces around ideographs */
    int strip_accents;        /* -1: same as lowercase */
    int lowercase;
    int replaces_space; /* or replace each space with U+2581 */
    int prepends_space; /* and put U+2581 before a text that is not empty */
} eitp__normalization;

/* Sets BERT's normalizer for uncased text. */
EITP__PRIVATE void eitp__normalization_set_bert(eitp__normalization *steps);

/* Appends text to `out`, with U+2581 for each space. */
EITP__PRIVATE void eitp__replace_spaces(const unsigned char *text, size_t size, eitp__buffer *out);

/* A first step, and its output for a chunk. */
typedef struct eitp__normalizer_step {
    eitp__composer composer; /* unless the step lowers case */
    eitp__buffer out;
} eitp__normalizer_step;

/* Normalizes text that arrives in chunks. */
typedef struct eitp__normalizer {
    const eitp_host *host;
    eitp__normalization steps;
    eitp__normalizer_step first[EITP__NORMALIZE_STEPS];
    uint32_t *marks; /* not written yet; sorted by canonical combining class up to the next letter */
    size_t mark_count, mark_capacity;
    int has_begun; /* text was added since the start */
} eitp__normalizer;

EITP__PRIVATE void eitp__normalizer_init(eitp__normalizer *normalizer, const eitp_host *host,
                                         const eitp__normalization *steps);
EITP__PRIVATE void eitp__normalizer_release(eitp__normalizer *normalizer);

/* Discards the current text. */
EITP__PRIVATE void eitp__normalizer_reset(eitp__normalizer *normalizer);

/* Normalizes whole, valid characters into `out`. The last ones may be written later. */
EITP__PRIVATE eitp_status eitp__normalizer_add(eitp__normalizer *normalizer, const unsigned char *text, size_t size,
                                               eitp__buffer *out, eitp_error *error);

/* Ends the text, and writes the rest of it to `out`. */
EITP__PRIVATE eitp_status eitp__normalizer_finish(eitp__normalizer *normalizer, eitp__buffer *out, eitp_error *error);

#endif
