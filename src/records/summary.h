/*
 * The summary of a run's records: for each number of its steps at most EITP__SUMMARY_POINTS points, each covering the
 * same number of steps, with mean, minimum and maximum; and all evaluations and events. With it a curve can be drawn
 * without reading a million records.
 *
 * All memory is allocated on creation. Points are in chunks of a pool shared by the numbers: a number that is recorded
 * every 100 steps needs few of them. When the pool is exhausted, a point covers twice as many steps.
 */
#ifndef EITP_SUMMARY_H
#define EITP_SUMMARY_H

#include "records/record_file.h"

enum {
    EITP__SUMMARY_POINTS = 2000,
    EITP__SUMMARY_KEYS = 160,        /* maximum number of summarized numbers; the rest are left out */
    EITP__SUMMARY_LINES = 512 << 10, /* bytes of evaluations and events; the oldest are left out */
    EITP__SUMMARY_CHUNK = 8,         /* points */
    EITP__SUMMARY_CHUNKS = EITP__SUMMARY_POINTS / EITP__SUMMARY_CHUNK,
    EITP__SUMMARY_RUN_POINTS = 64 << 10,                                  /* total of all numbers, for a run */
    EITP__SUMMARY_ALL_POINTS = EITP__SUMMARY_KEYS * EITP__SUMMARY_POINTS, /* maximum for a file */
    EITP__SUMMARY_PART = 136 << 10                                        /* maximum size of a number's text */
};

/* A number in the records of some steps. */
typedef struct eitp__summary_point {
    float mean, least, greatest;
    uint32_t count; /* of finite values; 0: the other members are undefined */
} eitp__summary_point;

typedef struct eitp__summary_key {
    char name[EITP__RECORD_NAME_SIZE];
    uint16_t chunks[EITP__SUMMARY_CHUNKS]; /* indices in the pool, from 1; 0: empty points */
    double last;                           /* the newest value */
} eitp__summary_key;

typedef struct eitp__summary {
    eitp_host host;
    eitp__summary_key *keys; /* array of EITP__SUMMARY_KEYS */
    size_t count;
    size_t next; /* the key after the last one: records have them in the same order */
    eitp__summary_point *points;
    size_t point_count; /* capacity of the pool */
    size_t taken;       /* chunks ever allocated from the pool, including returned ones */
    size_t returned;    /* the chunk returned last; its first count is the previously returned one. 0: none */
    int64_t width;      /* steps per point: point n has the steps from n * width + 1 on */
    int64_t step;       /* the last step */
    eitp__buffer lines; /* evaluations and events, each with a line feed */
    int64_t left_out;   /* number of dropped lines */
} eitp__summary;

/* Allocates all memory that the summary will ever need, for a pool of `points`: EITP__SUMMARY_RUN_POINTS or
   EITP__SUMMARY_ALL_POINTS. */
EITP__PRIVATE eitp_status eitp__summary_init(eitp__summary *summary, const eitp_host *host, size_t points,
                                             eitp_error *error);
EITP__PRIVATE void eitp__summary_release(eitp__summary *summary);

/* Returns the number of bytes that eitp__summary_init allocates. */
EITP__PRIVATE size_t eitp__summary_bytes(size_t points);

/* Copies a summary to `copy`, whose pool must be at least as large. Allocates nothing. */
EITP__PRIVATE void eitp__summary_copy(eitp__summary *copy, const eitp__summary *summary);

/* Removes all data. */
EITP__PRIVATE void eitp__summary_clear(eitp__summary *summary);

/* Adds a number of a step's record. Numbers that are not finite are left out. */
EITP__PRIVATE void eitp__summary_add(eitp__summary *summary, int64_t step, const char *name, size_t size, double value);

/* Adds an evaluation or event in the form of a line of metrics.jsonl. */
EITP__PRIVATE void eitp__summary_add_line(eitp__summary *summary, const char *line, size_t size);

/* Adds the contents of a line of metrics.jsonl; returns 0 if it is not a whole record. */
EITP__PRIVATE int eitp__summary_add_record(eitp__summary *summary, const char *line, size_t size);

/* Returns point `at` of a number, below EITP__SUMMARY_POINTS. */
EITP__PRIVATE eitp__summary_point eitp__summary_point_at(const eitp__summary *summary, const eitp__summary_key *key,
                                                         size_t at);

/*
 * Writes the summary as JSON lines. The first is an object with "summary", its version, "step", "steps_per_point" and
 * "left_out", the number of older evaluations and events that are missing. Then comes an object for each number, with
 * its name ("key") and arrays of equal length for its points that are not empty: the last step, the number of values,
 * their mean, minimum and maximum. Evaluations and events follow, in the same form as metrics.jsonl.
 *
 * Appends one part of this text, counted from 0, of at most EITP__SUMMARY_PART bytes. Returns 0 after the last part.
 */
EITP__PRIVATE int eitp__summary_write_part(const eitp__summary *summary, size_t part, eitp__buffer *text);

/*
 * Reads these parts into an empty summary whose pool has EITP__SUMMARY_ALL_POINTS. EITP_ERROR_FORMAT if the text is not
 * a summary, or is of another version: `summary` is then empty.
 */
EITP__PRIVATE eitp_status eitp__summary_parse(eitp__summary *summary, const char *text, size_t size, eitp_error *error);

/* Adds the whole lines of data[0, size), which must be followed by a zero byte, and returns their size in bytes. */
EITP__PRIVATE size_t eitp__summary_add_lines(eitp__summary *summary, const char *data, size_t size);

/* Returns the number with this name, or NULL. */
EITP__PRIVATE const eitp__summary_key *eitp__summary_look_up(const eitp__summary *summary, const char *name);

/* Reads all records of a metrics.jsonl. Anything after the last whole record is ignored. */
EITP__PRIVATE eitp_status eitp__summary_read(eitp__summary *summary, const char *path, eitp_error *error);

/* Opens the summary.jsonl of a directory. A resume reads the records in metrics.jsonl: the sink that writes that file
   must come before this one. `record` copies the summary at intervals, at the cost of a thousandth of the time, and a
   thread writes the copy. */
EITP__PRIVATE eitp_status eitp__summary_file_open(const eitp_host *host, const char *directory, eitp_record_file **file,
                                                  eitp_error *error);

/* Returns the maximum memory of the file in bytes. */
EITP__PRIVATE size_t eitp__summary_file_bytes(void);

#endif
