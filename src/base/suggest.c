/* Suggestions for misspelt names. */
#include "base/platform.h"
#include "base/settings.h"

/* Longer names get no suggestion. */
enum { EITP__COMPARED_NAME = 63 };

static char eitp__name_letter(char letter) {
    return letter == '-' ? '_' : letter;
}

/* Returns the Levenshtein distance: the number of letters inserted, removed or replaced. */
static size_t eitp__name_distance(const char *a, size_t a_size, const char *b, size_t b_size) {
    size_t row[EITP__COMPARED_NAME + 1]; /* distances from the first i letters of a to the first j letters of b */
    for (size_t j = 0; j <= b_size; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_size; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            size_t best = diagonal + (eitp__name_letter(a[i - 1]) != eitp__name_letter(b[j - 1]));
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[b_size];
}

void eitp_suggest_name(const char *wanted, const char *name, size_t size, eitp_suggestion *suggestion) {
    size_t wanted_size, distance;
    if (!wanted || !name || !suggestion)
        return;
    wanted_size = strlen(wanted);
    if (wanted_size > EITP__COMPARED_NAME || size > EITP__COMPARED_NAME)
        return;
    distance = eitp__name_distance(wanted, wanted_size, name, size);
    if (distance >= (suggestion->name ? suggestion->distance : wanted_size / 3 + 2))
        return;
    suggestion->name = name;
    suggestion->size = size;
    suggestion->distance = distance;
}
