/* Unicode's normalization forms: characters are decomposed and marks put in order. In C and KC, a base character and
   its marks are then composed into one character where one exists (The Unicode Standard, section 3.11). */
#ifndef EITP_COMPOSE_H
#define EITP_COMPOSE_H

#include "base/memory.h"
#include "base/status.h"

/* The forms. C is composed, D is decomposed. With K, characters that are variants of others, such as ligatures, are
   replaced. */
typedef enum eitp__unicode_form { EITP__FORM_C, EITP__FORM_D, EITP__FORM_KC, EITP__FORM_KD } eitp__unicode_form;

/* Normalizes text that arrives in chunks. */
typedef struct eitp__composer {
    const eitp_host *host;
    int composes, is_compatible;
    int has_starter;
    uint32_t starter; /* not written yet: marks may be composed with it */
    uint32_t *marks;  /* marks after it */
    size_t mark_count, mark_capacity;
} eitp__composer;

EITP__PRIVATE void eitp__composer_init(eitp__composer *composer, const eitp_host *host, eitp__unicode_form form);
EITP__PRIVATE void eitp__composer_release(eitp__composer *composer);

/* Discards the current text. */
EITP__PRIVATE void eitp__composer_reset(eitp__composer *composer);

/* Normalizes whole, valid characters into `out`. The last ones may be written later. */
EITP__PRIVATE eitp_status eitp__composer_add(eitp__composer *composer, const unsigned char *text, size_t size,
                                             eitp__buffer *out, eitp_error *error);

/* Ends the text, and writes the rest of it to `out`. */
EITP__PRIVATE void eitp__composer_finish(eitp__composer *composer, eitp__buffer *out);

#endif
