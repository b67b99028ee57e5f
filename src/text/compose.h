/* Unicode's normalization forms: characters are decomposed, marks put in order, and in C and KC they become one
   character with what they are on where there is one (The Unicode Standard, section 3.11). */
#ifndef EITP_COMPOSE_H
#define EITP_COMPOSE_H

#include "base/memory.h"
#include "base/status.h"

/* The forms: composed or not, and K: characters that are variants of others, such as ligatures, become those. */
typedef enum eitp__unicode_form { EITP__FORM_C, EITP__FORM_D, EITP__FORM_KC, EITP__FORM_KD } eitp__unicode_form;

/* Normalizes a text that arrives in chunks. */
typedef struct eitp__composer {
    const eitp_host *host;
    int composes, is_compatible;
    int has_starter;
    uint32_t starter; /* not yet written: marks may become part of it */
    uint32_t *marks;  /* those after it */
    size_t mark_count, mark_capacity;
} eitp__composer;

EITP__PRIVATE void eitp__composer_init(eitp__composer *composer, const eitp_host *host, eitp__unicode_form form);
EITP__PRIVATE void eitp__composer_release(eitp__composer *composer);

/* Discards the current text. */
EITP__PRIVATE void eitp__composer_reset(eitp__composer *composer);

/* Adds what becomes of whole, valid characters to `out`; the last ones may follow later. */
EITP__PRIVATE eitp_status eitp__composer_add(eitp__composer *composer, const unsigned char *text, size_t size,
                                             eitp__buffer *out, eitp_error *error);

/* Ends the text, and adds the rest of it to `out`. */
EITP__PRIVATE void eitp__composer_finish(eitp__composer *composer, eitp__buffer *out);

#endif
