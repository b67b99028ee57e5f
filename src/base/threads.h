/* A team of threads that take pieces of work in order. How work is cut is the caller's, and never follows their
   number. */
#ifndef EITP_THREADS_H
#define EITP_THREADS_H

#include "base/platform.h"

/* Processors this process may use. */
EITP__PRIVATE int eitp__processor_count(void);

/* The most threads a team may have: 1 without OpenMP. */
EITP__PRIVATE int eitp__thread_limit(void);

/* Calls work(argument, thread) once on each of up to `threads` threads, `thread` from 0, and waits for them all. */
EITP__PRIVATE void eitp__team_run(int threads, void (*work)(void *argument, int thread), void *argument);

/*
 * The pieces of a sequence of jobs, numbered through. Any thread takes the next piece, as soon as all pieces of earlier
 * jobs are done; so nobody waits for a thread that holds no piece, however long it was kept from running.
 */
typedef struct eitp__pieces {
    int64_t next; /* to be taken */
    char apart[120];
    int64_t done; /* how many are */
} eitp__pieces;

/* The number of a piece in [first, end), the pieces of one job; -1: all of them are taken. */
EITP__PRIVATE int64_t eitp__piece_take(eitp__pieces *pieces, int64_t first, int64_t end);

/* Tells that a piece that was taken is done. */
EITP__PRIVATE void eitp__piece_finish(eitp__pieces *pieces);

/* One job on a team: calls work(argument, piece, thread) for every piece in [0, pieces). */
EITP__PRIVATE void eitp__parallel(int threads, int64_t pieces, void (*work)(void *argument, int64_t piece, int thread),
                                  void *argument);

#endif
