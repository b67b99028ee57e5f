/*
 * The summary of a run's records: for each number of its steps at most EITP__SUMMARY_POINTS points, each of as many
 * steps as all others, with mean, least and greatest value; and all evaluations and events. So that nobody has to read
 * a million records to draw a curve.
 *
 * Its memory is allocated when it is created. Points are in chunks of a pool, which the numbers share: a number that is
 * recorded every 100 steps takes few of them. When the pool is exhausted, a point covers twice as many steps.
 */
#ifndef EITP_SUMMARY_H
#define EITP_SUMMARY_H

#include "records/record_file.h"

enum {
    EITP__SUMMARY_POINTS = 2000,
    EITP__SUMMARY_KEYS = 160,        /* numbers that are summarized: further ones are left out */
    EITP__SUMMARY_LINES = 512 << 10, /* bytes of evaluations and events: the oldest are left out */
    EITP__SUMMARY_CHUNK = 8,         /* points */
    EITP__SUMMARY_CHUNKS = EITP__SUMMARY_POINTS / EITP__SUMMARY_CHUNK,
    EITP__SUMMARY_RUN_POINTS = 64 << 10, /* of all numbers together, which a run keeps */
    EITP__SUMMARY_ALL_POINTS = EITP__SUMMARY_KEYS * EITP__SUMMARY_POINTS, /* as many as a file may have */
    EITP__SUMMARY_PART = 136 << 10                                        /* bytes of the text of a number at most */
};

/* What the records of some steps have of a number. */
typedef struct eitp__summary_point {
    float mean, least, greatest;
    uint32_t count; /* of finite values; 0: the others are undefined */
} eitp__summary_point;

typedef struct eitp__summary_key {
    char name[EITP__RECORD_NAME_SIZE];
    uint16_t chunks[EITP__SUMMARY_CHUNKS]; /* of the pool, counted from 1; 0: empty points */
    double last;                           /* the newest value */
} eitp__summary_key;

typedef struct eitp__summary {
    eitp_host host;
    eitp__summary_key *keys; /* of EITP__SUMMARY_KEYS */
    size_t count;
    size_t next; /* the key after the last one: records have them in the same order */
    eitp__summary_point *points;
    size_t point_count; /* of the pool */
    size_t taken;       /* chunks that have been taken from the pool, whether or not they were returned */
    size_t returned;    /* the chunk that was returned last; its first count is the one before it. 0: none */
    int64_t width;      /* steps of a point: number n has those from n * width + 1 on */
    int64_t step;       /* the last one */
    eitp__buffer lines; /* evaluations and events, each with a line feed */
    int64_t left_out;   /* number of lines that are not there any more */
} eitp__summary;

/* Allocates all memory that it will ever take, for a pool of `points`: EITP__SUMMARY_RUN_POINTS or
   EITP__SUMMARY_ALL_POINTS. */
EITP__PRIVATE eitp_status eitp__summary_init(eitp__summary *summary, const eitp_host *host, size_t points,
                                             eitp_error *error);
EITP__PRIVATE void eitp__summary_release(eitp__summary *summary);

/* Bytes that eitp__summary_init allocates. */
EITP__PRIVATE size_t eitp__summary_bytes(size_t points);

/* Makes `copy` equal to a summary whose pool is not larger. Allocates nothing. */
EITP__PRIVATE void eitp__summary_copy(eitp__summary *copy, const eitp__summary *summary);

/* Forgets everything. */
EITP__PRIVATE void eitp__summary_clear(eitp__summary *summary);

/* Adds a number of the record of a step. Numbers that are not finite are left out. */
EITP__PRIVATE void eitp__summary_add(eitp__summary *summary, int64_t step, const char *name, size_t size, double value);

/* Adds an evaluation or event, as a line of metrics.jsonl. */
EITP__PRIVATE void eitp__summary_add_line(eitp__summary *summary, const char *line, size_t size);

/* Adds what a line of metrics.jsonl has; returns 0 if it is not a whole record. */
EITP__PRIVATE int eitp__summary_add_record(eitp__summary *summary, const char *line, size_t size);

/* Point `at` of a number, below EITP__SUMMARY_POINTS. */
EITP__PRIVATE eitp__summary_point eitp__summary_point_at(const eitp__summary *summary, const eitp__summary_key *key,
                                                         size_t at);

/*
 * Writes the summary as JSON lines: an object with "summary", its version, "step", "steps_per_point" and "left_out",
 * the number of older evaluations and events that are missing; an object for each number, with its name ("key") and
 * arrays of the same length for its points that are not empty: the last step, the number of values, their mean, the
 * least and the greatest one; then evaluations and events, as in metrics.jsonl.
 *
 * Adds one part of this text, counted from 0, of at most EITP__SUMMARY_PART bytes. Returns 0 after the last part.
 */
EITP__PRIVATE int eitp__summary_write_part(const eitp__summary *summary, size_t part, eitp__buffer *text);

/*
 * Reads these parts into an empty summary whose pool has EITP__SUMMARY_ALL_POINTS. EITP_ERROR_FORMAT if the text is not
 * that, or is of another version: the summary is then empty.
 */
EITP__PRIVATE eitp_status eitp__summary_parse(eitp__summary *summary, const char *text, size_t size, eitp_error *error);

/* Adds the whole lines of data[0, size), which a zero byte follows, and returns their bytes. */
EITP__PRIVATE size_t eitp__summary_add_lines(eitp__summary *summary, const char *data, size_t size);

/* The number with this name, or NULL. */
EITP__PRIVATE const eitp__summary_key *eitp__summary_look_up(const eitp__summary *summary, const char *name);

/* Reads all records of a metrics.jsonl; what follows the last whole one is ignored. */
EITP__PRIVATE eitp_status eitp__summary_read(eitp__summary *summary, const char *path, eitp_error *error);

/* Opens the summary.jsonl of a directory. A resume reads the records in metrics.jsonl: the sink that writes it comes
   before this one. `record` copies the summary now and then, at the cost of a thousandth of the time, and a thread
   writes the copy. */
EITP__PRIVATE eitp_status eitp__summary_file_open(const eitp_host *host, const char *directory, eitp_record_file **file,
                                                  eitp_error *error);

/* Bytes that it takes at most. */
EITP__PRIVATE size_t eitp__summary_file_bytes(void);

#endif
