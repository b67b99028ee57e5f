/* A parallel loop whose pieces are cut by the caller, never by the number of threads. */
#ifndef EITP_THREADS_H
#define EITP_THREADS_H

#include "base/platform.h"

/* Processors this process may use. */
EITP__PRIVATE int eitp__processor_count(void);

/* The most threads a parallel loop may have: 1 without OpenMP. */
EITP__PRIVATE int eitp__thread_limit(void);

/* Calls work(argument, piece, thread) for every piece in [0, pieces), on up to `threads` threads; `thread` is in [0,
   threads). Pieces are handed out as threads become free. */
EITP__PRIVATE void eitp__parallel(int threads, int64_t pieces, void (*work)(void *argument, int64_t piece, int thread),
                                  void *argument);

#endif
