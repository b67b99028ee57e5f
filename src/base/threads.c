#include "base/threads.h"

#include <unistd.h>
#if EITP__WITH_OPENMP
#include <omp.h>
#endif

EITP__PRIVATE int eitp__processor_count(void) {
#if EITP__WITH_OPENMP
    return omp_get_num_procs();
#else
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (int)count : 1;
#endif
}

EITP__PRIVATE int eitp__thread_limit(void) {
#if EITP__WITH_OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

EITP__PRIVATE void eitp__parallel(int threads, int64_t pieces, void (*work)(void *argument, int64_t piece, int thread),
                                  void *argument) {
#if EITP__WITH_OPENMP
    if (threads > 1 && pieces > 1) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
        for (int64_t piece = 0; piece < pieces; piece++)
            work(argument, piece, omp_get_thread_num());
        return;
    }
#else
    (void)threads;
#endif
    for (int64_t piece = 0; piece < pieces; piece++)
        work(argument, piece, 0);
}
