#include "base/sort.h"

/* Heapsort, because the C library's qsort may allocate, and may be quadratic on adversarial input. */

static void eitp__swap_items(unsigned char *a, unsigned char *b, size_t size) {
    unsigned char copy[64];
    while (size) {
        size_t part = size < sizeof copy ? size : sizeof copy;
        memcpy(copy, a, part);
        memcpy(a, b, part);
        memcpy(b, copy, part);
        a += part;
        b += part;
        size -= part;
    }
}

/* Moves the item at `root` down until neither child is larger, which restores the heap in items[root, count). */
static void eitp__sift_down(unsigned char *items, size_t root, size_t count, size_t size,
                            int (*compare)(const void *a, const void *b)) {
    size_t child;
    while (root < count / 2) {
        child = 2 * root + 1;
        if (child + 1 < count && compare(items + child * size, items + (child + 1) * size) < 0)
            child++;
        if (compare(items + root * size, items + child * size) >= 0)
            return;
        eitp__swap_items(items + root * size, items + child * size, size);
        root = child;
    }
}

EITP__PRIVATE void eitp__sort(void *items, size_t count, size_t size, int (*compare)(const void *a, const void *b)) {
    unsigned char *bytes = (unsigned char *)items;
    for (size_t i = count / 2; i-- > 0;)
        eitp__sift_down(bytes, i, count, size, compare);
    for (size_t end = count; end-- > 1;) {
        eitp__swap_items(bytes, bytes + end * size, size);
        eitp__sift_down(bytes, 0, end, size, compare);
    }
}
