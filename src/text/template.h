/* Special tokens around the text of a sequence, and truncation. */
#ifndef EITP_TEMPLATE_H
#define EITP_TEMPLATE_H

#include "base/platform.h"
#include "text/text.h"

/* Placeholders in a template: the first and the second text. */
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

/* Adds a piece. Returns 0 if the template is full. */
EITP__PRIVATE int eitp__template_add(eitp__template *form, int32_t id, int32_t segment);

/* Returns the number of special tokens. */
EITP__PRIVATE size_t eitp__template_special_count(const eitp__template *form);

/*
 * Reduces the token counts of a text pair to `room` in total, like the library `tokenizers` (utils/truncation.rs). The
 * longer text gets the room that the shorter one leaves, but at least as many tokens as the shorter one. If both are
 * too long, each gets half; an odd token goes to the longer text, or to the second if they are equally long.
 */
EITP__PRIVATE void eitp__truncate_pair(size_t room, size_t *first, size_t *second);

#endif
