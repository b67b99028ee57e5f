/* The special tokens around texts in a sequence, and which texts a sequence is cut from. */
#ifndef EITP_TEMPLATE_H
#define EITP_TEMPLATE_H

#include "base/platform.h"
#include "text/text.h"

/* Places of the texts in a template. */
enum { EITP__TEMPLATE_FIRST = -1, EITP__TEMPLATE_SECOND = -2 };

#define EITP__TEMPLATE_LIMIT ((size_t)32)

typedef struct eitp__template_piece {
    int32_t id; /* a special token, EITP__TEMPLATE_FIRST or EITP__TEMPLATE_SECOND */
    int32_t segment;
} eitp__template_piece;

typedef struct eitp__template {
    eitp__template_piece pieces[EITP__TEMPLATE_LIMIT];
    size_t count;
} eitp__template;

/* Adds a piece; returns 0 if there is no room. */
EITP__PRIVATE int eitp__template_add(eitp__template *form, int32_t id, int32_t segment);

/* Number of special tokens. */
EITP__PRIVATE size_t eitp__template_special_count(const eitp__template *form);

/*
 * How many tokens are kept of two texts of which `room` fit, as the library `tokenizers` (utils/truncation.rs) does: of
 * the longer one as many as are left by the shorter one, but never fewer than of that; if both are too long, half each,
 * and of an odd number one more of the longer text, or of the second if they are equally long.
 */
EITP__PRIVATE void eitp__share_room(size_t room, size_t *first, size_t *second);

#endif
