/*
 * Counts what a process executes on the emulated device, across restarts of the driver. If EITP_EMULATED_CUDA_COUNTS
 * names a folder, the process appends lines to a file there when it ends, each with a count and a name.
 */
#include "tests/cuda/driver.h"

#include <unistd.h>

enum { MOST_NAMES = 256 };

typedef struct counted {
    char name[80]; /* a kernel, or "product of cuBLASLt" */
    unsigned long launches;
} counted;

static counted counts_[MOST_NAMES];
static unsigned long graphs_;

void count_launch(const char *name) {
    int i = 0;
    while (i < MOST_NAMES && counts_[i].launches && strcmp(counts_[i].name, name))
        i++;
    if (i == MOST_NAMES)
        refuse("more than %d kernels were launched", MOST_NAMES);
    snprintf(counts_[i].name, sizeof counts_[i].name, "%s", name);
    counts_[i].launches++;
}

void count_graph(void) {
    graphs_++;
}

__attribute__((destructor)) static void write_counts(void) {
    const char *folder = getenv("EITP_EMULATED_CUDA_COUNTS");
    char path[1000];
    FILE *file;
    if (!folder || !*folder || !counts_[0].launches)
        return;
    snprintf(path, sizeof path, "%s/%ld", folder, (long)getpid());
    file = fopen(path, "a");
    if (!file)
        return;
    for (int i = 0; i < MOST_NAMES && counts_[i].launches; i++)
        fprintf(file, "%lu %s\n", counts_[i].launches, counts_[i].name);
    fprintf(file, "%lu graphs\n", graphs_);
    fclose(file);
}
