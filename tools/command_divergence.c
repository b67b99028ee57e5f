#include "command_divergence.h"

void divergence_add(divergence *d, double loss) {
    if (!isfinite(loss))
        return;
    if (d->count < DIVERGENCE_FIRST)
        d->first[d->count] = loss;
    d->last[d->count++ % DIVERGENCE_LAST] = loss;
}

static double mean_loss(const double *losses, size_t count, size_t most) {
    double sum = 0;
    if (count > most)
        count = most;
    for (size_t i = 0; i < count; i++)
        sum += losses[i];
    return count ? sum / (double)count : 0;
}

double divergence_mean(const divergence *d) {
    return mean_loss(d->last, d->count, DIVERGENCE_LAST);
}

int divergence_is_diverging(const divergence *d) {
    double first = mean_loss(d->first, d->count, DIVERGENCE_FIRST), last = divergence_mean(d);
    int is_above_guess = last > d->first[0] + 1 && last > d->guess + 1;
    int is_far_above = last > first + 1 && last > 1.5 * first && last > d->guess / 2;
    return is_above_guess || is_far_above;
}
