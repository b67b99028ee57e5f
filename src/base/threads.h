/* A team of threads that claim pieces of work in order. The caller cuts the work, independently of the number of
   threads. */
#ifndef EITP_THREADS_H
#define EITP_THREADS_H

#include "base/platform.h"

/* Processors by their numbers: bit n of the bytes, as the kernel of a little-endian machine has them. */
enum { EITP__PROCESSOR_LIMIT = 8192 };
typedef struct eitp__processor_set {
    unsigned char bytes[EITP__PROCESSOR_LIMIT / 8];
} eitp__processor_set;

/* The processors of all places that OpenMP binds threads to, if it binds the calling thread to one of them
   (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY), and their number; 0: it does not. */
EITP__PRIVATE int eitp__bound_processors(eitp__processor_set *set);

/* Number of processors available to this process. */
EITP__PRIVATE int eitp__processor_count(void);

/* Largest number of threads in a team; 1 without OpenMP. *is_chosen is 1 if OMP_NUM_THREADS or the program set it. */
EITP__PRIVATE int eitp__thread_limit(int *is_chosen);

/* Bytes of addresses that each further thread of a team takes for its stack; 0 without OpenMP. */
EITP__PRIVATE size_t eitp__team_stack(void);

/* Starts the other threads of the calling thread's teams, which wait for work, and returns how many a team can have, at
   most `threads`. Without it a thread that cannot be started, for want of addresses or processes, ends the program. */
EITP__PRIVATE int eitp__team_start(int threads);

/* Calls work(argument, thread) once on each of up to `threads` threads, `thread` from 0, and waits for them all. */
EITP__PRIVATE void eitp__team_run(int threads, void (*work)(void *argument, int thread), void *argument);

/*
 * The pieces of a sequence of jobs, numbered consecutively. Any thread may claim the next piece once all pieces of
 * earlier jobs are done. So a thread only waits for pieces that another thread has already started.
 */
typedef struct eitp__pieces {
    int64_t next;      /* the next piece to claim */
    char padding[120]; /* keeps the two on different cache lines */
    int64_t done;      /* number of finished pieces */
} eitp__pieces;

/* Claims a piece in [first, end), the pieces of one job, and returns its number; -1 if all are claimed. */
EITP__PRIVATE int64_t eitp__piece_claim(eitp__pieces *pieces, int64_t first, int64_t end);

/* If no piece from number `limit` on is claimed, lets no thread claim another, and returns 1. */
EITP__PRIVATE int eitp__pieces_cancel(eitp__pieces *pieces, int64_t limit);

/* Marks a claimed piece as done. */
EITP__PRIVATE void eitp__piece_finish(eitp__pieces *pieces);

/* Runs one job on a team: calls work(argument, piece, thread) once for each piece in [0, pieces). */
EITP__PRIVATE void eitp__parallel(int threads, int64_t pieces, void (*work)(void *argument, int64_t piece, int thread),
                                  void *argument);

#endif
