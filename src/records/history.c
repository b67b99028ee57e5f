#include "records/history.h"

#include "base/files.h"
#include "records/record_line.h"
#include "records/summary.h"

#define EITP__HISTORY_LIMIT ((size_t)1 << 26) /* bytes of a summary.jsonl */
#define EITP__HISTORY_PIECE ((size_t)1 << 20) /* bytes of metrics.jsonl read at a time */

struct eitp_history {
    eitp_host host;
    eitp__summary summary;
    char *summary_path, *records_path;
    char *piece;     /* EITP__HISTORY_PIECE bytes, and a zero byte */
    uint64_t at;     /* bytes of metrics.jsonl read so far, in whole lines */
    char before[64]; /* the bytes before `at`, to detect a file that was truncated and has grown again */
    size_t before_size;
};

static void eitp__history_clear(eitp_history *history) {
    eitp__summary_clear(&history->summary);
    history->at = 0;
    history->before_size = 0;
}

/* ---- metrics.jsonl ---- */

/* Records the position read up to; the `size` bytes before it are at `data`. */
static void eitp__history_advance(eitp_history *history, uint64_t at, const char *data, size_t size) {
    const size_t kept = size < sizeof history->before ? size : sizeof history->before;
    history->at = at;
    if (kept)
        memcpy(history->before, data + size - kept, kept);
    history->before_size = kept;
}

/* Adds a line, unless the summary already has it. */
static void eitp__history_add_line(eitp_history *history, const char *line, size_t size, int64_t summarized) {
    eitp__summary *summary = &history->summary;
    const eitp__record_line record = eitp__record_line_read(line, size);
    const eitp__buffer *lines = &summary->lines;
    if (record.step > summarized) {
        eitp__summary_add_record(summary, line, size);
        return;
    }
    if (!record.is_whole || record.step < summarized || !(record.is_event || record.is_evaluation))
        return;
    for (const char *at = lines->size ? lines->data : "", *end = at + lines->size; at < end;) {
        const char *feed = (const char *)memchr(at, '\n', (size_t)(end - at));
        if (!feed || ((size_t)(feed - at) == size && !memcmp(at, line, size)))
            return;
        at = feed + 1;
    }
    eitp__summary_add_line(summary, line, size);
}

/* Adds the whole lines from history->at on that are newer than step `summarized`. */
static eitp_status eitp__history_read_records(eitp_history *history, eitp__file *file, int64_t summarized, int *changed,
                                              eitp_error *error) {
    size_t done = EITP__HISTORY_PIECE;
    eitp_status status = EITP_OK;
    while (!status && done == EITP__HISTORY_PIECE) {
        size_t used = 0;
        status = eitp__file_read_some(file, history->at, history->piece, EITP__HISTORY_PIECE, &done, error);
        if (status)
            break;
        history->piece[done] = 0;
        for (;;) {
            const char *line = history->piece + used;
            const char *feed = (const char *)memchr(line, '\n', done - used);
            if (!feed)
                break;
            eitp__history_add_line(history, line, (size_t)(feed - line), summarized);
            used += (size_t)(feed - line) + 1;
            *changed = 1;
        }
        if (!used && done == EITP__HISTORY_PIECE) /* a line that is too long for a record */
            used = done;
        if (used)
            eitp__history_advance(history, history->at + used, history->piece, used);
    }
    return status;
}

/* Returns the last line feed of data[0, size), or NULL. */
static const char *eitp__history_last_feed(const char *data, size_t size) {
    while (size > 0) {
        if (data[--size] == '\n')
            return data + size;
    }
    return NULL;
}

/* Finds the end of the last line before step `summarized`; the lines after it are newer than the summary. *newest is
   the step of the last whole line, or -1. */
static eitp_status eitp__history_find_newer(eitp_history *history, eitp__file *file, int64_t summarized,
                                            uint64_t *found, int64_t *newest, eitp_error *error) {
    uint64_t end = 0;
    eitp_status status = eitp__file_size(file, &end, error);
    *found = 0;
    *newest = -1;
    while (!status && end > 0) {
        const uint64_t begin = end > EITP__HISTORY_PIECE ? end - EITP__HISTORY_PIECE : 0;
        const char *piece = history->piece, *feed;
        size_t size;
        status = eitp__file_read_some(file, begin, history->piece, (size_t)(end - begin), &size, error);
        feed = status ? NULL : eitp__history_last_feed(piece, size);
        while (feed) {
            const char *before = eitp__history_last_feed(piece, (size_t)(feed - piece));
            const char *line = before ? before + 1 : piece;
            const int is_all = before || !begin; /* the line does not start before the piece */
            const eitp__record_line record = eitp__record_line_read(line, (size_t)(feed - line));
            const int64_t step = is_all && record.is_whole ? record.step : -1;
            *newest = *newest < 0 ? step : *newest;
            if (step >= 0 && step < summarized) {
                *found = begin + (uint64_t)(feed - piece) + 1;
                return EITP_OK;
            }
            if (!before)
                break;
            feed = before;
        }
        if (!begin)
            break;
        /* The line with the last feed examined is read again, whole. */
        end = feed && feed > piece ? begin + (uint64_t)(feed - piece) + 1 : begin;
    }
    return status;
}

/* ---- Reading everything ---- */

/* Reads summary.jsonl. *step is the last step in it, or -1 if the summary cannot be used. */
static eitp_status eitp__history_read_summary(eitp_history *history, int64_t *step, eitp_error *error) {
    eitp__buffer text;
    eitp_status status;
    eitp__buffer_init(&text, &history->host);
    status = eitp__read_file(&history->host, history->summary_path, EITP__HISTORY_LIMIT, &text, error);
    if (!status)
        status = eitp__summary_parse(&history->summary, text.data ? text.data : "", text.size, error);
    eitp__buffer_release(&text);
    *step = status ? -1 : history->summary.step;
    return status == EITP_ERROR_MEMORY ? status : EITP_OK;
}

static eitp_status eitp__history_read_all(eitp_history *history, int *changed, eitp_error *error) {
    eitp__file file = EITP__ZERO;
    int64_t summarized, newest = -1;
    eitp_status status;
    eitp__history_clear(history);
    status = eitp__history_read_summary(history, &summarized, error);
    if (status)
        return status;
    *changed = 1;
    status = eitp__file_open(&file, &history->host, history->records_path, EITP_FILE_READ, error);
    if (status)
        return status == EITP_ERROR_MEMORY ? status : EITP_OK;
    if (summarized >= 0)
        status = eitp__history_find_newer(history, &file, summarized, &history->at, &newest, error);
    if (!status && newest < summarized) {
        /* A resumed run has removed the records of later steps. */
        eitp__history_clear(history);
        summarized = -1;
    }
    if (!status)
        status = eitp__history_read_records(history, &file, summarized, changed, error);
    eitp__file_close(&file, NULL);
    return status;
}

/* True if the part of the file that was read is unchanged. */
static eitp_status eitp__history_is_same(eitp_history *history, eitp__file *file, int *is_same, eitp_error *error) {
    char now[sizeof history->before];
    uint64_t size = 0;
    size_t done = 0;
    eitp_status status = eitp__file_size(file, &size, error);
    *is_same = 0;
    if (status || size < history->at)
        return status;
    if (history->before_size)
        status =
            eitp__file_read_some(file, history->at - history->before_size, now, history->before_size, &done, error);
    *is_same = !status && done == history->before_size && !memcmp(now, history->before, done);
    return status;
}

eitp_status eitp_history_update(eitp_history *history, int *changed, eitp_error *error) {
    eitp__file file = EITP__ZERO;
    int is_same = 0, ignored = 0;
    eitp_status status;
    if (!history)
        return eitp__fail_null(error, "eitp_history_update", "history");
    changed = changed ? changed : &ignored;
    *changed = 0;
    if (!history->at)
        return eitp__history_read_all(history, changed, error);
    status = eitp__file_open(&file, &history->host, history->records_path, EITP_FILE_READ, error);
    if (status)
        return status == EITP_ERROR_MEMORY ? status : EITP_OK;
    status = eitp__history_is_same(history, &file, &is_same, error);
    if (!status && is_same)
        status = eitp__history_read_records(history, &file, -1, changed, error);
    eitp__file_close(&file, NULL);
    return status || is_same ? status : eitp__history_read_all(history, changed, error);
}

eitp_status eitp_history_open(const eitp_host *host, const char *directory, eitp_history **history, eitp_error *error) {
    eitp_history *opened;
    int changed;
    eitp_status status;
    if (!host || !directory || !history)
        return eitp__fail_null(error, "eitp_history_open", "host, directory and history");
    *history = NULL;
    opened = (eitp_history *)eitp__allocate(host, sizeof *opened);
    if (!opened)
        return eitp__fail_memory(error, sizeof *opened, "the records of a run");
    opened->host = *host;
    opened->piece = (char *)eitp__allocate_uninitialized(host, EITP__HISTORY_PIECE + 1);
    opened->summary_path = eitp__join_path(host, directory, EITP__SUMMARY_FILE);
    opened->records_path = eitp__join_path(host, directory, EITP__METRICS_FILE);
    status = opened->piece && opened->summary_path && opened->records_path
                 ? eitp__summary_init(&opened->summary, host, EITP__SUMMARY_ALL_POINTS, error)
                 : eitp__fail_memory(error, EITP__HISTORY_PIECE, "the records of a run");
    if (!status)
        status = eitp__history_read_all(opened, &changed, error);
    if (status)
        eitp_history_close(opened);
    else
        *history = opened;
    return status;
}

void eitp_history_close(eitp_history *history) {
    eitp_host host;
    if (!history)
        return;
    host = history->host;
    eitp__summary_release(&history->summary);
    eitp__release_text(&host, history->summary_path);
    eitp__release_text(&host, history->records_path);
    eitp__release(&host, history->piece, EITP__HISTORY_PIECE + 1);
    eitp__release(&host, history, sizeof *history);
}

/* ---- Access ---- */

int64_t eitp_history_step(const eitp_history *history) {
    return history ? history->summary.step : 0;
}

const char *eitp_history_name(const eitp_history *history, size_t index) {
    return history && index < history->summary.count ? history->summary.keys[index].name : NULL;
}

size_t eitp_history_points(const eitp_history *history, const char *name, eitp_history_point *points, size_t capacity) {
    const eitp__summary *summary = history ? &history->summary : NULL;
    const eitp__summary_key *key = summary && name ? eitp__summary_look_up(summary, name) : NULL;
    size_t count = 0;
    for (size_t at = 0; key && at < EITP__SUMMARY_POINTS; at++) {
        const eitp__summary_point point = eitp__summary_point_at(summary, key, at);
        const int64_t last = ((int64_t)at + 1) * summary->width;
        if (!point.count)
            continue;
        if (count < capacity && points) {
            points[count].step = last < summary->step ? last : summary->step;
            points[count].count = point.count;
            points[count].mean = point.mean;
            points[count].minimum = point.least;
            points[count].maximum = point.greatest;
        }
        count++;
    }
    return count;
}

double eitp_history_last(const eitp_history *history, const char *name) {
    const eitp__summary_key *key = history && name ? eitp__summary_look_up(&history->summary, name) : NULL;
    return key ? key->last : (double)NAN;
}

const char *eitp_history_lines(const eitp_history *history, size_t *size, int64_t *left_out) {
    if (size)
        *size = history ? history->summary.lines.size : 0;
    if (left_out)
        *left_out = history ? history->summary.left_out : 0;
    return history && history->summary.lines.size ? history->summary.lines.data : "";
}
