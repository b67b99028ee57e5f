/* A small file that is replaced as a whole, now and then by a thread, so that a disk that stalls stalls no step. */
#ifndef EITP_REPLACED_FILE_H
#define EITP_REPLACED_FILE_H

#include "base/files.h"
#include "base/worker.h"

/* Adds part number `part` of a content, counted from 0, to an empty text. Returns 0 after the last one. A thread calls
   it, so the text must have room for the part. */
typedef int (*eitp__content_part)(const void *user, size_t part, eitp__buffer *text);

typedef struct eitp__replaced_file {
    eitp_host host;
    char *path, *temporary;
    eitp__buffer text; /* the next content, or a part of it; belongs to the thread until eitp__replaced_file_is_idle */
    eitp__content_part part; /* of contents that are not in memory as text; NULL: the text is all of it */
    const void *user;        /* its argument, which belongs to the thread as the text does */
    eitp__worker *worker;    /* NULL: it was not needed yet, or cannot be created */
    uint64_t job;            /* that stores `text`; 0: none */
} eitp__replaced_file;

/* Starts with an empty text; opens nothing. */
EITP__PRIVATE eitp_status eitp__replaced_file_init(eitp__replaced_file *file, const eitp_host *host,
                                                   const char *directory, const char *name, eitp_error *error);

/* True if no thread is storing the text: it may be changed. */
EITP__PRIVATE int eitp__replaced_file_is_idle(eitp__replaced_file *file);

/* Has the thread replace the file by the text, without syncing it. A failure is forgotten: the next text will replace
   it. */
EITP__PRIVATE void eitp__replaced_file_give(eitp__replaced_file *file);

/* Replaces the file by the text, which must not be the thread's, without syncing it. */
EITP__PRIVATE eitp_status eitp__replaced_file_write(eitp__replaced_file *file, eitp_error *error);

/* Waits for the thread, and ends it. */
EITP__PRIVATE void eitp__replaced_file_await(eitp__replaced_file *file);

/* Replaces the file durably by the text, which must not be the thread's. */
EITP__PRIVATE eitp_status eitp__replaced_file_store(eitp__replaced_file *file, eitp_error *error);

/* Waits for the thread; removes nothing. Harmless on zeros. */
EITP__PRIVATE void eitp__replaced_file_release(eitp__replaced_file *file);

#endif
