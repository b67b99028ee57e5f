/* Whether the loss of a run explodes. */
#ifndef COMMAND_DIVERGENCE_H
#define COMMAND_DIVERGENCE_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

/* The losses of the first and of the last steps. Zero-initialized but for `guess`. */
enum { DIVERGENCE_FIRST = 3, DIVERGENCE_LAST = 10 };
typedef struct divergence {
    double guess; /* the loss of guessing: ln(vocabulary) */
    double first[DIVERGENCE_FIRST], last[DIVERGENCE_LAST];
    size_t count; /* finite losses so far */
} divergence;

/* Adds the loss of a step. One that is not finite is left out. */
void divergence_add(divergence *d, double loss);

/* The mean loss of the last steps. */
double divergence_mean(const divergence *d);

/*
 * True if the last losses are well above those of guessing and of the first step, or of a model that began well: far
 * above its first losses, on the way to guessing.
 */
int divergence_is_diverging(const divergence *d);

EITP_END_DECLARATIONS

#endif
