/* The file written by recorded_calls.c and read by power_losses.c: calls, each followed by two byte strings. */
#ifndef EITP_TEST_RECORDED_CALLS_H
#define EITP_TEST_RECORDED_CALLS_H

typedef enum recorded_kind {
    RECORDED_OPEN, /* number: 1 creates, 2 truncates; first: the path */
    RECORDED_CLOSE,
    RECORDED_WRITE,   /* number: the offset; second: the bytes */
    RECORDED_RESIZE,  /* number: the size */
    RECORDED_SYNC,    /* of a file or a directory */
    RECORDED_MAKE,    /* first: the directory */
    RECORDED_REMOVE,  /* first: the file or directory */
    RECORDED_LINK,    /* first: the path; second: the target */
    RECORDED_RENAME,  /* first: from; second: to */
    RECORDED_EXCHANGE /* first and second: the two names */
} recorded_kind;

typedef struct recorded_call {
    long long kind;
    long long file;                    /* its descriptor */
    long long number;                  /* as above */
    long long first_size, second_size; /* sizes of the strings that follow; a path includes its zero byte */
} recorded_call;

#endif
