/* A team of threads that claim pieces of work in order. The caller divides the work, independently of the number of
   threads. */
#ifndef EITP_THREADS_H
#define EITP_THREADS_H

#include "base/platform.h"

/* A set of processor numbers: bit n of the bytes, in the layout of the kernel on a little-endian machine. */
enum { EITP__PROCESSOR_LIMIT = 8192 };
typedef struct eitp__processor_set {
    unsigned char bytes[EITP__PROCESSOR_LIMIT / 8];
} eitp__processor_set;

/* Returns the number of processors in all places that OpenMP binds threads to, and stores them in *set, if OpenMP binds
   the calling thread to one of the places (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY). Returns 0 if it does not. */
EITP__PRIVATE int eitp__bound_processors(eitp__processor_set *set);

/* Returns the number of processors available to this process. */
EITP__PRIVATE int eitp__processor_count(void);

/* Returns the largest number of threads in a team; 1 without OpenMP. *is_chosen is 1 if OMP_NUM_THREADS or the program
   set it. */
EITP__PRIVATE int eitp__thread_limit(int *is_chosen);

/* Returns the bytes of address space that each additional thread of a team takes for its stack; 0 without OpenMP. */
EITP__PRIVATE size_t eitp__team_stack(void);

/*
 * Starts the other threads of the calling thread's teams, which wait for work, and returns the number of threads that a
 * team can have, at most `threads`. Without this call, the program ends if a thread cannot be started because addresses
 * or processes run out.
 */
EITP__PRIVATE int eitp__team_start(int threads);

/* Calls work(argument, thread) once on each of up to `threads` threads, `thread` from 0, and waits for them all. */
EITP__PRIVATE void eitp__team_run(int threads, void (*work)(void *argument, int thread), void *argument);

/* The pieces of a sequence of jobs, numbered consecutively. A thread may claim the next piece only when all pieces of
   earlier jobs are done, so it only waits for pieces that another thread has already started. */
typedef struct eitp__pieces {
    int64_t next;      /* the next piece to claim */
    char padding[120]; /* keeps the two counters on different cache lines */
    int64_t done;      /* number of finished pieces */
} eitp__pieces;

/* Claims a piece in [first, end), the pieces of one job, and returns its number; -1 if all are claimed. */
EITP__PRIVATE int64_t eitp__piece_claim(eitp__pieces *pieces, int64_t first, int64_t end);

/* If no piece numbered `limit` or higher is claimed, prevents further claims and returns 1. */
EITP__PRIVATE int eitp__pieces_cancel(eitp__pieces *pieces, int64_t limit);

/* Marks a claimed piece as done. */
EITP__PRIVATE void eitp__piece_finish(eitp__pieces *pieces);

/* Runs one job on a team: calls work(argument, piece, thread) once for each piece in [0, pieces). */
EITP__PRIVATE void eitp__parallel(int threads, int64_t pieces, void (*work)(void *argument, int64_t piece, int thread),
                                  void *argument);

#endif
