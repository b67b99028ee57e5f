#include "records/summary.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/unicode.h"
#include "records/record_line.h"
#include "records/replaced_file.h"

#define EITP__SUMMARY_VERSION 1
#define EITP__SUMMARY_STEPS ((int64_t)1 << 52) /* every step is below it */

/* Minimum seconds between two writes of the file, and minimum ratio of that interval to the time of a copy. */
#define EITP__SUMMARY_INTERVAL 10
#define EITP__SUMMARY_RARITY 1000

EITP__PRIVATE size_t eitp__summary_bytes(size_t points) {
    return EITP__SUMMARY_KEYS * sizeof(eitp__summary_key) + points * sizeof(eitp__summary_point) + EITP__SUMMARY_LINES +
           1;
}

EITP__PRIVATE eitp_status eitp__summary_init(eitp__summary *summary, const eitp_host *host, size_t points,
                                             eitp_error *error) {
    memset(summary, 0, sizeof *summary);
    summary->host = *host;
    summary->width = 1;
    summary->point_count = points;
    eitp__buffer_init(&summary->lines, &summary->host);
    summary->keys = (eitp__summary_key *)eitp__allocate(host, EITP__SUMMARY_KEYS * sizeof *summary->keys);
    summary->points = (eitp__summary_point *)eitp__allocate_uninitialized(host, points * sizeof *summary->points);
    if (summary->keys && summary->points && eitp__buffer_reserve(&summary->lines, EITP__SUMMARY_LINES + 1))
        return EITP_OK;
    eitp__summary_release(summary);
    return eitp__fail_memory(error, eitp__summary_bytes(points), "the summary of records");
}

EITP__PRIVATE void eitp__summary_clear(eitp__summary *summary) {
    memset(summary->keys, 0, EITP__SUMMARY_KEYS * sizeof *summary->keys);
    eitp__buffer_clear(&summary->lines);
    summary->count = summary->next = summary->taken = summary->returned = 0;
    summary->width = 1;
    summary->step = summary->left_out = 0;
}

EITP__PRIVATE void eitp__summary_release(eitp__summary *summary) {
    if (!summary->width) /* zeroed */
        return;
    eitp__buffer_release(&summary->lines);
    eitp__release(&summary->host, summary->points, summary->point_count * sizeof *summary->points);
    eitp__release(&summary->host, summary->keys, EITP__SUMMARY_KEYS * sizeof *summary->keys);
    memset(summary, 0, sizeof *summary);
}

/* ---- The pool ---- */

static eitp__summary_point *eitp__summary_chunk(const eitp__summary *summary, size_t chunk) {
    return summary->points + (chunk - 1) * EITP__SUMMARY_CHUNK;
}

/* Allocates a chunk of empty points from the pool; 0 if it is exhausted. */
static size_t eitp__summary_take_chunk(eitp__summary *summary) {
    size_t chunk = summary->returned;
    if (!chunk && (summary->taken + 1) * EITP__SUMMARY_CHUNK > summary->point_count)
        return 0;
    if (chunk)
        summary->returned = eitp__summary_chunk(summary, chunk)->count;
    else
        chunk = ++summary->taken;
    memset(eitp__summary_chunk(summary, chunk), 0, EITP__SUMMARY_CHUNK * sizeof *summary->points);
    return chunk;
}

static void eitp__summary_return_chunk(eitp__summary *summary, size_t chunk) {
    if (!chunk)
        return;
    eitp__summary_chunk(summary, chunk)->count = (uint32_t)summary->returned;
    summary->returned = chunk;
}

EITP__PRIVATE eitp__summary_point eitp__summary_point_at(const eitp__summary *summary, const eitp__summary_key *key,
                                                         size_t at) {
    const size_t chunk = key->chunks[at / EITP__SUMMARY_CHUNK];
    const eitp__summary_point empty = EITP__ZERO;
    return chunk ? eitp__summary_chunk(summary, chunk)[at % EITP__SUMMARY_CHUNK] : empty;
}

EITP__PRIVATE void eitp__summary_copy(eitp__summary *copy, const eitp__summary *summary) {
    eitp__summary_clear(copy);
    memcpy(copy->keys, summary->keys, summary->count * sizeof *copy->keys);
    for (size_t i = 0; i < summary->count; i++) {
        for (size_t n = 0; n < EITP__SUMMARY_CHUNKS; n++) {
            const size_t from = summary->keys[i].chunks[n], to = from ? eitp__summary_take_chunk(copy) : 0;
            copy->keys[i].chunks[n] = (uint16_t)to;
            if (to)
                memcpy(eitp__summary_chunk(copy, to), eitp__summary_chunk(summary, from),
                       EITP__SUMMARY_CHUNK * sizeof *copy->points);
        }
    }
    copy->count = summary->count;
    copy->width = summary->width;
    copy->step = summary->step;
    copy->left_out = summary->left_out;
    eitp__buffer_add(&copy->lines, summary->lines.data, summary->lines.size);
}

/* ---- Points ---- */

static eitp__summary_point eitp__summary_join(eitp__summary_point a, eitp__summary_point b) {
    const double count = (double)a.count + b.count;
    if (!a.count || !b.count)
        return a.count ? a : b;
    a.mean = (float)(((double)a.mean * a.count + (double)b.mean * b.count) / count);
    a.least = a.least < b.least ? a.least : b.least;
    a.greatest = a.greatest > b.greatest ? a.greatest : b.greatest;
    a.count += b.count;
    return a;
}

/* Joins the points of two chunks in pairs. Returns the chunk with the results. */
static size_t eitp__summary_join_chunks(eitp__summary *summary, const eitp__summary_key *key, size_t first) {
    const size_t begin = first * EITP__SUMMARY_CHUNK, chunks[2] = {key->chunks[first], key->chunks[first + 1]};
    eitp__summary_point joined[EITP__SUMMARY_CHUNK];
    size_t result;
    if (!chunks[0] && !chunks[1])
        return 0;
    for (size_t i = 0; i < EITP__SUMMARY_CHUNK; i++)
        joined[i] = eitp__summary_join(eitp__summary_point_at(summary, key, begin + 2 * i),
                                       eitp__summary_point_at(summary, key, begin + 2 * i + 1));
    eitp__summary_return_chunk(summary, chunks[0]);
    eitp__summary_return_chunk(summary, chunks[1]);
    result = eitp__summary_take_chunk(summary);
    memcpy(eitp__summary_chunk(summary, result), joined, sizeof joined);
    return result;
}

/* Joins the points of all keys in pairs. */
static void eitp__summary_widen(eitp__summary *summary) {
    for (size_t i = 0; i < summary->count; i++) {
        uint16_t *chunks = summary->keys[i].chunks;
        for (size_t n = 0; n < EITP__SUMMARY_CHUNKS / 2; n++)
            chunks[n] = (uint16_t)eitp__summary_join_chunks(summary, &summary->keys[i], 2 * n);
        memset(chunks + EITP__SUMMARY_CHUNKS / 2, 0, EITP__SUMMARY_CHUNKS / 2 * sizeof *chunks);
    }
    summary->width *= 2;
}

static int eitp__summary_is_key(const eitp__summary_key *key, const char *name, size_t size) {
    return !strncmp(key->name, name, size) && !key->name[size];
}

/* True if JSON writes the name unchanged; other names would not be found again. */
static int eitp__summary_has_plain(const char *name, size_t size) {
    const unsigned char *bytes = (const unsigned char *)name;
    for (size_t i = 0; i < size; i++) {
        const int is_c1 = bytes[i] == 0xC2 && i + 1 < size && bytes[i + 1] < 0xA0; /* U+0080 to U+009F */
        if (bytes[i] == '"' || bytes[i] == '\\' || bytes[i] < ' ' || bytes[i] == 0x7F || is_c1)
            return 0;
    }
    return size > 0 && eitp__utf8_valid_prefix(bytes, size) == size;
}

/* Returns the key of a name, adding it if necessary; NULL: it is left out. */
static eitp__summary_key *eitp__summary_find(eitp__summary *summary, const char *name, size_t size) {
    eitp__summary_key *key;
    if (size >= sizeof key->name)
        return NULL;
    for (size_t n = 0; n < summary->count; n++) {
        const size_t at = (summary->next + n) % summary->count;
        if (eitp__summary_is_key(&summary->keys[at], name, size)) {
            summary->next = at + 1;
            return &summary->keys[at];
        }
    }
    if (summary->count == EITP__SUMMARY_KEYS || !eitp__summary_has_plain(name, size))
        return NULL;
    key = &summary->keys[summary->count++];
    memcpy(key->name, name, size);
    summary->next = summary->count;
    return key;
}

/* Returns the point of a step; NULL if the step is beyond the last point of this width, or the pool is exhausted. */
static eitp__summary_point *eitp__summary_point_of(eitp__summary *summary, eitp__summary_key *key, int64_t step) {
    const int64_t at = (step - 1) / summary->width;
    uint16_t *chunk;
    if (at >= EITP__SUMMARY_POINTS)
        return NULL;
    chunk = &key->chunks[at / EITP__SUMMARY_CHUNK];
    if (!*chunk)
        *chunk = (uint16_t)eitp__summary_take_chunk(summary);
    return *chunk ? eitp__summary_chunk(summary, *chunk) + at % EITP__SUMMARY_CHUNK : NULL;
}

EITP__PRIVATE const eitp__summary_key *eitp__summary_look_up(const eitp__summary *summary, const char *name) {
    for (size_t i = 0; i < summary->count; i++) {
        if (!strcmp(summary->keys[i].name, name))
            return &summary->keys[i];
    }
    return NULL;
}

EITP__PRIVATE void eitp__summary_add(eitp__summary *summary, int64_t step, const char *name, size_t size,
                                     double value) {
    eitp__summary_key *key = step > 0 && isfinite((float)value) ? eitp__summary_find(summary, name, size) : NULL;
    eitp__summary_point *point, added = EITP__ZERO;
    if (!key)
        return;
    /* Ends at the latest when every key has a single chunk. */
    while ((point = eitp__summary_point_of(summary, key, step)) == NULL)
        eitp__summary_widen(summary);
    key->last = value;
    added.mean = added.least = added.greatest = (float)value;
    added.count = 1;
    *point = eitp__summary_join(*point, added);
}

/* ---- Lines ---- */

/* Removes the older half. */
static void eitp__summary_drop_lines(eitp__summary *summary) {
    eitp__buffer *lines = &summary->lines;
    size_t kept = 0;
    while (kept < lines->size && (kept < lines->size / 2 || lines->data[kept - 1] != '\n'))
        summary->left_out += lines->data[kept++] == '\n';
    memmove(lines->data, lines->data + kept, lines->size - kept);
    lines->size -= kept;
}

EITP__PRIVATE void eitp__summary_add_line(eitp__summary *summary, const char *line, size_t size) {
    eitp__buffer *lines = &summary->lines;
    eitp__record_member first = EITP__ZERO;
    const char *at = line;
    if (size >= EITP__SUMMARY_LINES / 4)
        return;
    /* In the file, such a line would be read as a number's. */
    if (!eitp__record_next_member(&at, line + size, &first) || eitp__record_is_named(&first, "key"))
        return;
    if (lines->size + size >= EITP__SUMMARY_LINES)
        eitp__summary_drop_lines(summary);
    eitp__buffer_add(lines, line, size);
    eitp__buffer_add_text(lines, "\n");
    if (lines->failed)
        eitp__buffer_clear(lines);
}

/* ---- Reading ---- */

/* True for members of every record that are not values. */
static int eitp__summary_is_frame(const eitp__record_member *member) {
    return eitp__record_is_named(member, "step") || eitp__record_is_named(member, "time") ||
           eitp__record_is_named(member, "elapsed");
}

EITP__PRIVATE int eitp__summary_add_record(eitp__summary *summary, const char *line, size_t size) {
    const char *at = line, *end = line + size;
    const eitp__record_line record = eitp__record_line_read(line, size);
    const int64_t step = record.step;
    eitp__record_member member;
    double value;
    if (!record.is_whole || step < 0 || step >= EITP__SUMMARY_STEPS)
        return 0;
    summary->step = step > summary->step ? step : summary->step;
    if (record.is_event || record.is_evaluation) {
        eitp__summary_add_line(summary, line, size);
        return 1;
    }
    while (eitp__record_next_member(&at, end, &member)) {
        const size_t width = (size_t)(member.end - member.value);
        if (eitp__summary_is_frame(&member))
            continue;
        if (eitp__json_read_number(member.value, width, &value))
            eitp__summary_add(summary, step, member.name, member.size, value);
        else if (*member.value == 't' || *member.value == 'f')
            eitp__summary_add(summary, step, member.name, member.size, *member.value == 't');
    }
    return 1;
}

EITP__PRIVATE size_t eitp__summary_add_lines(eitp__summary *summary, const char *data, size_t size) {
    size_t done = 0;
    for (;;) {
        const char *begin = data + done, *end = (const char *)memchr(begin, '\n', size - done);
        if (!end)
            return done;
        eitp__summary_add_record(summary, begin, (size_t)(end - begin));
        done += (size_t)(end - begin) + 1;
    }
}

/* A line that is longer than a piece is left out. */
EITP__PRIVATE eitp_status eitp__summary_read(eitp__summary *summary, const char *path, eitp_error *error) {
    char *piece = (char *)eitp__allocate_uninitialized(&summary->host, EITP__RECORD_PIECE + 1);
    eitp__file file = EITP__ZERO;
    uint64_t at = 0;
    size_t done = 1;
    eitp_status status = piece ? eitp__file_open(&file, &summary->host, path, EITP_FILE_READ, error)
                               : eitp__fail_memory(error, EITP__RECORD_PIECE, "the summary of records");
    while (!status && done) {
        status = eitp__file_read_some(&file, at, piece, EITP__RECORD_PIECE, &done, error);
        if (status || !done)
            break;
        piece[done] = 0;
        at += done == EITP__RECORD_PIECE && !memchr(piece, '\n', done) ? done
                                                                       : eitp__summary_add_lines(summary, piece, done);
        done = done == EITP__RECORD_PIECE ? done : 0;
    }
    eitp__file_close(&file, NULL);
    eitp__release(&summary->host, piece, EITP__RECORD_PIECE + 1);
    return status;
}

/* ---- A written summary ---- */

enum {
    EITP__SUMMARY_STEP,
    EITP__SUMMARY_COUNT,
    EITP__SUMMARY_MEAN,
    EITP__SUMMARY_LEAST,
    EITP__SUMMARY_GREATEST,
    EITP__SUMMARY_ARRAYS
};

static const char *const eitp__summary_arrays[] = {"step", "count", "mean", "minimum", "maximum"};

/* Reads a number of an array: *at is its start, and is moved past it and its comma. Returns 0 at the end. */
static int eitp__summary_next_number(const char **at, const char *end, double *value) {
    const char *begin = *at;
    while (*at < end && **at != ',' && **at != ']')
        ++*at;
    if (*at == end || !eitp__json_read_number(begin, (size_t)(*at - begin), value))
        return 0;
    *at += **at == ',';
    return 1;
}

/* Adds a point read from a file. Returns 0 if it is invalid. */
static int eitp__summary_add_point(eitp__summary *summary, eitp__summary_key *key,
                                   const double values[EITP__SUMMARY_ARRAYS]) {
    const double step = values[EITP__SUMMARY_STEP], count = values[EITP__SUMMARY_COUNT];
    eitp__summary_point *point;
    if (!(step >= 1 && step <= (double)summary->step && count >= 1 && count <= UINT32_MAX))
        return 0;
    for (int i = EITP__SUMMARY_MEAN; i < EITP__SUMMARY_ARRAYS; i++) {
        if (!isfinite((float)values[i]))
            return 0;
    }
    point = eitp__summary_point_of(summary, key, (int64_t)step);
    if (!point)
        return 0;
    point->count = (uint32_t)count;
    point->mean = (float)values[EITP__SUMMARY_MEAN];
    point->least = (float)values[EITP__SUMMARY_LEAST];
    point->greatest = (float)values[EITP__SUMMARY_GREATEST];
    key->last = values[EITP__SUMMARY_MEAN];
    return 1;
}

/* Adds the line of a number, whose name is the member `name`. Returns 0 if it is damaged. */
static int eitp__summary_parse_key(eitp__summary *summary, const char *line, const char *end,
                                   const eitp__record_member *name) {
    const char *arrays[EITP__SUMMARY_ARRAYS] = {NULL, NULL, NULL, NULL, NULL}, *at = line;
    eitp__record_member member;
    eitp__summary_key *key;
    double values[EITP__SUMMARY_ARRAYS], last = (double)NAN;
    if (name->end - name->value < 2 || *name->value != '"')
        return 0;
    key = eitp__summary_find(summary, name->value + 1, (size_t)(name->end - name->value) - 2);
    if (!key)
        return 1; /* beyond the maximum number of keys */
    while (eitp__record_next_member(&at, end, &member)) {
        for (int i = 0; i < EITP__SUMMARY_ARRAYS; i++) {
            if (*member.value == '[' && eitp__record_is_named(&member, eitp__summary_arrays[i]))
                arrays[i] = member.value + 1;
        }
        if (eitp__record_is_named(&member, "last"))
            eitp__json_read_number(member.value, (size_t)(member.end - member.value), &last);
    }
    for (int i = 0; i < EITP__SUMMARY_ARRAYS; i++) {
        if (!arrays[i])
            return 0;
    }
    for (;;) {
        int found = 0;
        for (int i = 0; i < EITP__SUMMARY_ARRAYS; i++)
            found += eitp__summary_next_number(&arrays[i], end, &values[i]);
        if (!found)
            break;
        if (found < EITP__SUMMARY_ARRAYS || !eitp__summary_add_point(summary, key, values))
            return 0;
    }
    key->last = isfinite(last) ? last : key->last;
    return 1;
}

/* Reads the first line. Returns 0 if it is not a first line of this version. */
static int eitp__summary_parse_head(eitp__summary *summary, const char *line, const char *end) {
    const char *at = line;
    eitp__record_member member;
    int64_t version = 0;
    summary->width = 0;
    while (eitp__record_next_member(&at, end, &member)) {
        const int64_t value = strtoll(member.value, NULL, 10);
        if (eitp__record_is_named(&member, "summary"))
            version = value;
        else if (eitp__record_is_named(&member, "step"))
            summary->step = value;
        else if (eitp__record_is_named(&member, "steps_per_point"))
            summary->width = value;
        else if (eitp__record_is_named(&member, "left_out"))
            summary->left_out = value;
    }
    return version == EITP__SUMMARY_VERSION && summary->step >= 0 && summary->step < EITP__SUMMARY_STEPS &&
           summary->width >= 1 && summary->width <= summary->step + 1 && summary->left_out >= 0 &&
           summary->left_out < EITP__SUMMARY_STEPS;
}

/* Adds a line after the first one. Returns 0 if it is damaged. */
static int eitp__summary_parse_line(eitp__summary *summary, const char *line, const char *end) {
    const char *at = line;
    eitp__record_member member;
    if (end - line < 2 || *line != '{' || end[-1] != '}' || !eitp__record_next_member(&at, end, &member))
        return 0;
    if (eitp__record_is_named(&member, "key"))
        return eitp__summary_parse_key(summary, line, end, &member);
    eitp__summary_add_line(summary, line, (size_t)(end - line));
    return 1;
}

EITP__PRIVATE eitp_status eitp__summary_parse(eitp__summary *summary, const char *text, size_t size,
                                              eitp_error *error) {
    const char *at = text, *end = text + size;
    int is_good = size > 0 && !memchr(text, 0, size);
    for (int n = 0; is_good && at < end; n++) {
        const char *feed = (const char *)memchr(at, '\n', (size_t)(end - at));
        is_good =
            feed && (n ? eitp__summary_parse_line(summary, at, feed) : eitp__summary_parse_head(summary, at, feed));
        at = feed ? feed + 1 : end;
    }
    if (is_good)
        return EITP_OK;
    eitp__summary_clear(summary);
    return eitp__fail(error, EITP_ERROR_FORMAT, "%s is damaged, or of another version", EITP__SUMMARY_FILE);
}

/* ---- Writing ---- */

/* Writes a number with six digits, which are enough for a curve. */
static void eitp__summary_write_number(eitp__buffer *text, double value) {
    char number[40];
    eitp__buffer_add(text, number, eitp__json_format_digits(value, 6, number));
}

static void eitp__summary_write_point(const eitp__summary *summary, const eitp__summary_key *key, size_t at, int array,
                                      eitp__buffer *text) {
    const eitp__summary_point point = eitp__summary_point_at(summary, key, at);
    const int64_t last = ((int64_t)at + 1) * summary->width;
    switch (array) {
    case EITP__SUMMARY_STEP:
        eitp__buffer_format(text, "%lld", (long long)(last < summary->step ? last : summary->step));
        break;
    case EITP__SUMMARY_COUNT:
        eitp__buffer_format(text, "%lu", (unsigned long)point.count);
        break;
    case EITP__SUMMARY_MEAN:
        eitp__summary_write_number(text, point.mean);
        break;
    case EITP__SUMMARY_LEAST:
        eitp__summary_write_number(text, point.least);
        break;
    default:
        eitp__summary_write_number(text, point.greatest);
    }
}

static void eitp__summary_write_key(const eitp__summary *summary, const eitp__summary_key *key, eitp__buffer *text) {
    eitp__buffer_add_text(text, "{\"key\": ");
    eitp__json_write_text(text, key->name, strlen(key->name));
    for (int array = 0; array < EITP__SUMMARY_ARRAYS; array++) {
        int written = 0;
        eitp__buffer_format(text, ", \"%s\": [", eitp__summary_arrays[array]);
        for (size_t at = 0; at < EITP__SUMMARY_POINTS; at++) {
            if (!eitp__summary_point_at(summary, key, at).count)
                continue;
            eitp__buffer_add_text(text, written++ ? "," : "");
            eitp__summary_write_point(summary, key, at, array, text);
        }
        eitp__buffer_add_text(text, "]");
    }
    eitp__buffer_add_text(text, ", \"last\": ");
    eitp__json_write_number(text, key->last);
    eitp__buffer_add_text(text, "}\n");
}

static void eitp__summary_write_head(const eitp__summary *summary, eitp__buffer *text) {
    eitp__buffer_format(text, "{\"summary\": %d, \"step\": %lld, \"steps_per_point\": %lld, \"left_out\": %lld}\n",
                        EITP__SUMMARY_VERSION, (long long)summary->step, (long long)summary->width,
                        (long long)summary->left_out);
}

EITP__PRIVATE int eitp__summary_write_part(const eitp__summary *summary, size_t part, eitp__buffer *text) {
    const eitp__buffer *lines = &summary->lines;
    size_t begin, rest;
    if (part <= summary->count) {
        if (part)
            eitp__summary_write_key(summary, &summary->keys[part - 1], text);
        else
            eitp__summary_write_head(summary, text);
        return 1;
    }
    begin = (part - 1 - summary->count) * (EITP__SUMMARY_PART / 2);
    if (begin >= lines->size)
        return 0;
    rest = lines->size - begin;
    eitp__buffer_add(text, lines->data + begin, rest < EITP__SUMMARY_PART / 2 ? rest : EITP__SUMMARY_PART / 2);
    return 1;
}

/* ---- summary.jsonl ---- */

typedef struct eitp__summary_file {
    eitp_record_file file;
    eitp__summary summary;
    eitp__summary copy; /* the copy that is written */
    eitp__replaced_file written;
    char *records; /* path of metrics.jsonl */
    double next;   /* time of the next write */
    int has_more;  /* there are records that the file lacks */
} eitp__summary_file;

static int eitp__summary_file_write_part(const void *user, size_t part, eitp__buffer *text) {
    return eitp__summary_write_part((const eitp__summary *)user, part, text);
}

/* Adds a value if it is a number to draw as a curve. */
static void eitp__summary_add_value(eitp__summary *summary, int64_t step, const eitp_value *value) {
    const double number = value->kind == EITP_VALUE_NUMBER ? value->number : (double)value->integer;
    if (value->kind != EITP_VALUE_TEXT)
        eitp__summary_add(summary, step, value->name, strlen(value->name), number);
}

static void eitp__summary_add_text(eitp__summary_file *file, const eitp_record *record) {
    eitp__buffer *line = &file->file.text;
    eitp__buffer_clear(line);
    eitp__record_write(line, record, NULL, 0);
    if (!line->failed)
        eitp__summary_add_line(&file->summary, line->data, line->size);
}

/* Copies the summary for the thread, which formats and writes it. */
static void eitp__summary_file_give(eitp__summary_file *file) {
    const double began = eitp__clock();
    double interval;
    eitp__summary_copy(&file->copy, &file->summary);
    interval = EITP__SUMMARY_RARITY * (eitp__clock() - began);
    file->next = began + (interval > EITP__SUMMARY_INTERVAL ? interval : EITP__SUMMARY_INTERVAL);
    file->has_more = 0;
    eitp__replaced_file_submit(&file->written);
}

static eitp_status eitp__summary_file_record(eitp_record_file *records, const eitp_record *record, eitp_error *error) {
    eitp__summary_file *file = (eitp__summary_file *)records;
    eitp__summary *summary = &file->summary;
    const int is_text = record->kind == EITP_RECORD_EVALUATION || record->kind == EITP_RECORD_EVENT;
    (void)error;
    /* Between two steps, so that the file has all numbers of its last step: readers take later steps from
       metrics.jsonl. */
    if (record->step > summary->step && eitp__clock() >= file->next && eitp__replaced_file_is_idle(&file->written))
        eitp__summary_file_give(file);
    file->has_more = 1;
    summary->step = record->step > summary->step ? record->step : summary->step;
    if (is_text)
        eitp__summary_add_text(file, record);
    for (size_t i = 0; i < record->count && !is_text; i++)
        eitp__summary_add_value(summary, record->step, &record->values[i]);
    return EITP_OK;
}

/* Starts again with the records of metrics.jsonl, which end with the resumed step. */
static eitp_status eitp__summary_file_resume(eitp_record_file *records, int64_t step, int *evaluated,
                                             eitp_error *error) {
    eitp__summary_file *file = (eitp__summary_file *)records;
    (void)evaluated;
    eitp__summary_clear(&file->summary);
    file->next = eitp__clock() + EITP__SUMMARY_INTERVAL;
    return step < 0 ? EITP_OK : eitp__summary_read(&file->summary, file->records, error);
}

/* Writes the last records. A failure loses nothing: metrics.jsonl has them. */
static void eitp__summary_file_finish(eitp__summary_file *file) {
    eitp__replaced_file_await(&file->written);
    if (!file->has_more)
        return;
    file->written.user = &file->summary;
    eitp__replaced_file_store(&file->written, NULL);
}

static void eitp__summary_file_close(eitp_record_file *records) {
    eitp__summary_file *file = (eitp__summary_file *)records;
    eitp__summary_file_finish(file);
    eitp__replaced_file_release(&file->written);
    eitp__release_text(&file->file.host, file->records);
    eitp__summary_release(&file->copy);
    eitp__summary_release(&file->summary);
}

static const eitp__record_file_class eitp__summary_format = {sizeof(eitp__summary_file), eitp__summary_file_record,
                                                             eitp__summary_file_resume, eitp__summary_file_close};

EITP__PRIVATE eitp_status eitp__summary_file_open(const eitp_host *host, const char *directory, eitp_record_file **file,
                                                  eitp_error *error) {
    eitp__summary_file *created;
    eitp_status status = eitp__record_file_create(host, &eitp__summary_format, file, error);
    if (status)
        return status;
    created = (eitp__summary_file *)*file;
    created->records = eitp__join_path(host, directory, EITP__METRICS_FILE);
    status = eitp__summary_init(&created->summary, host, EITP__SUMMARY_RUN_POINTS, error);
    if (!status)
        status = eitp__summary_init(&created->copy, host, EITP__SUMMARY_RUN_POINTS, error);
    if (!status)
        status = eitp__replaced_file_init(&created->written, host, directory, EITP__SUMMARY_FILE, error);
    created->written.part = eitp__summary_file_write_part;
    created->written.user = &created->copy;
    if (!status && (!created->records || !eitp__buffer_reserve(&created->written.text, EITP__SUMMARY_PART)))
        status = eitp__fail_memory(error, EITP__SUMMARY_PART, "the summary of records");
    return eitp__record_file_opened(file, status);
}

EITP__PRIVATE size_t eitp__summary_file_bytes(void) {
    return sizeof(eitp__summary_file) + 2 * eitp__summary_bytes(EITP__SUMMARY_RUN_POINTS) + EITP__SUMMARY_PART +
           EITP__RECORD_TEXT_MAX;
}
