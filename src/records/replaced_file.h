/* A small file that is replaced as a whole, at intervals and by a thread: a stalled disk does not stall a step. */
#ifndef EITP_REPLACED_FILE_H
#define EITP_REPLACED_FILE_H

#include "base/files.h"
#include "base/worker.h"

/* Appends part number `part` of a content, counted from 0, to an empty buffer. Returns 0 after the last one. A thread
   calls it, so the buffer must already have enough memory for the part. */
typedef int (*eitp__content_part)(const void *user, size_t part, eitp__buffer *text);

typedef struct eitp__replaced_file {
    eitp_host host;
    char *path, *temporary;
    eitp__buffer text; /* the next content, or a part of it; belongs to the thread until eitp__replaced_file_is_idle */
    eitp__content_part part; /* for content that is not in memory as text; NULL: `text` is the whole content */
    const void *user;        /* argument of `part`, which belongs to the thread while `text` does */
    eitp__worker *worker;    /* NULL: not needed yet, or cannot be created */
    uint64_t job;            /* the job that stores `text`; 0: none */
} eitp__replaced_file;

/* Initializes with an empty text; opens nothing. */
EITP__PRIVATE eitp_status eitp__replaced_file_init(eitp__replaced_file *file, const eitp_host *host,
                                                   const char *directory, const char *name, eitp_error *error);

/* True if no thread is storing the text, so it may be changed. */
EITP__PRIVATE int eitp__replaced_file_is_idle(eitp__replaced_file *file);

/* Lets the thread replace the file by the text, without syncing it. A failure is ignored: the next text will replace
   it. */
EITP__PRIVATE void eitp__replaced_file_submit(eitp__replaced_file *file);

/* Replaces the file by the text, without syncing it. The text must not belong to the thread. */
EITP__PRIVATE eitp_status eitp__replaced_file_write(eitp__replaced_file *file, eitp_error *error);

/* Waits for the thread, and ends it. */
EITP__PRIVATE void eitp__replaced_file_await(eitp__replaced_file *file);

/* Replaces the file durably by the text, which must not belong to the thread. */
EITP__PRIVATE eitp_status eitp__replaced_file_store(eitp__replaced_file *file, eitp_error *error);

/* Waits for the thread; removes nothing. Harmless if zeroed. */
EITP__PRIVATE void eitp__replaced_file_release(eitp__replaced_file *file);

#endif
