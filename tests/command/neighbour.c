/*
 * Another program, for tests/command/test_pressure.sh. It takes RATE megabytes of memory per second up to TOTAL, and
 * keeps them until it is killed. The kernel kills every other process first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv) {
    const double rate = argc > 1 ? atof(argv[1]) : 25, total = argc > 2 ? atof(argv[2]) : 100, began = now();
    const struct timespec pause = {0, 10000000};
    FILE *score = fopen("/proc/self/oom_score_adj", "w");
    double taken = 0;
    if (score) {
        fputs("-1000", score);
        fclose(score);
    }
    while (taken < total) {
        for (; taken < total && taken < (now() - began) * rate; taken++) {
            char *block = (char *)malloc((size_t)1 << 20);
            if (!block)
                return 1;
            memset(block, 1, (size_t)1 << 20);
        }
        nanosleep(&pause, NULL);
    }
    for (;;)
        sleep(1000);
}
