#include "records/record_file.h"

/* Columns of every file, before and after the ones chosen by the program. */
#define EITP__CSV_FIRST "kind,step,time,elapsed,"
#define EITP__CSV_LAST "other"

typedef struct eitp__csv_file {
    eitp_record_file file;
    eitp__buffer other;   /* the values without a column, of the record being added */
    eitp__buffer columns; /* names, each zero-terminated */
    size_t count;         /* number of columns */
    int has_begun;        /* the position to append at is known */
    int has_header;
    int has_lead; /* the queue knows the header */
} eitp__csv_file;

/* ---- Columns ---- */

static int eitp__csv_has_column(const eitp__csv_file *csv, const char *name) {
    const char *column = csv->columns.data;
    for (size_t i = 0; i < csv->count; i++, column += strlen(column) + 1) {
        if (!strcmp(column, name))
            return 1;
    }
    return 0;
}

static int eitp__csv_is_fixed(const char *name) {
    static const char *const fixed[] = {"kind", "step", "time", "elapsed", EITP__CSV_LAST};
    for (size_t i = 0; i < EITP__COUNT(fixed); i++) {
        if (!strcmp(name, fixed[i]))
            return 1;
    }
    return 0;
}

static void eitp__csv_add_column(eitp__csv_file *csv, const char *name, size_t size) {
    eitp__buffer_add(&csv->columns, name, size);
    eitp__buffer_add(&csv->columns, "", 1);
    csv->count++;
}

EITP__PRIVATE eitp_status eitp__csv_set_columns(eitp_record_file *file, const char *const *columns, size_t count,
                                                eitp_error *error) {
    eitp__csv_file *csv = (eitp__csv_file *)file;
    eitp__buffer_clear(&csv->columns);
    csv->count = 0;
    for (size_t i = 0; i < count && !csv->columns.failed; i++) {
        const char *name = columns[i];
        if (!name)
            return eitp__fail_null(error, "eitp_csv_open", "every column");
        if (!*name || strpbrk(name, ",\"\r\n"))
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "invalid column '%s': a name has at least 1 character, and no comma, quote or line break",
                              name);
        if (eitp__csv_is_fixed(name) || eitp__csv_has_column(csv, name))
            return eitp__fail(error, EITP_ERROR_ARGUMENT, "column '%s' occurs twice", name);
        eitp__csv_add_column(csv, name, strlen(name));
    }
    return csv->columns.failed ? eitp__fail_memory(error, csv->columns.size, "columns") : EITP_OK;
}

/* ---- Resuming ---- */

/* Finds the end of the row at `row`, which is its line break, and its number of fields; NULL if it is incomplete or has
   characters that a power loss may leave. */
static const char *eitp__csv_find_end(const char *row, const char *end, size_t *fields) {
    int is_quoted = 0;
    *fields = 1;
    for (; row < end; row++) {
        is_quoted ^= *row == '"';
        if (*row == '\n' && !is_quoted)
            return row;
        if ((unsigned char)*row < ' ' && !is_quoted)
            return NULL;
        if (!*row)
            return NULL;
        *fields += *row == ',' && !is_quoted;
    }
    return NULL;
}

/* Reads the columns from the header of the file. Returns the header's bytes, or 0 if the file has no header. */
static size_t eitp__csv_read_header(eitp__csv_file *csv, const char *text, size_t size) {
    const size_t first = strlen(EITP__CSV_FIRST), last = strlen(EITP__CSV_LAST);
    size_t fields;
    const char *end = eitp__csv_find_end(text, text + size, &fields), *at = text + first;
    if (!end || (size_t)(end - text) < first + last || memcmp(text, EITP__CSV_FIRST, first) != 0 ||
        memcmp(end - last, EITP__CSV_LAST, last) != 0 || end[-1 - (ptrdiff_t)last] != ',')
        return 0;
    eitp__buffer_clear(&csv->columns);
    csv->count = 0;
    while (at < end - last) {
        const size_t length = (size_t)((const char *)memchr(at, ',', (size_t)(end - at)) - at);
        eitp__csv_add_column(csv, at, length);
        at += length + 1;
    }
    return (size_t)(end - text) + 1;
}

/* Returns the flags that a resume reports for a row of the checkpoint's step. */
static int eitp__csv_recorded(const char *row) {
    static const char evaluation[] = "evaluation,", spot[] = "spot,";
    if (!strncmp(row, evaluation, sizeof evaluation - 1))
        return EITP__RECORDED_EVALUATION;
    return strncmp(row, spot, sizeof spot - 1) ? 0 : (int)EITP__RECORDED_SPOT;
}

/* Returns the size of the whole rows in rows[0, size) up to the first one after `step`; if there is one, *more is 0. */
static size_t eitp__csv_keep_rows(const eitp__csv_file *csv, const char *rows, size_t size, int64_t step, int *more,
                                  int *evaluated) {
    size_t kept = 0;
    for (;;) {
        const char *row = rows + kept, *comma;
        size_t fields;
        const char *end = eitp__csv_find_end(row, rows + size, &fields);
        int64_t found;
        if (!end)
            return kept;
        comma = (const char *)memchr(row, ',', (size_t)(end - row));
        found = comma ? strtoll(comma + 1, NULL, 10) : -1;
        *more = fields == csv->count + 5 && found >= 0 && found <= step;
        if (!*more)
            return kept;
        *evaluated = found == step ? *evaluated | eitp__csv_recorded(row) : 0;
        kept = (size_t)(end - rows) + 1;
    }
}

static size_t eitp__csv_keep(eitp_record_file *file, const char *records, size_t size, int64_t step, int *more,
                             int *found) {
    eitp__csv_file *csv = (eitp__csv_file *)file;
    size_t kept;
    if (csv->has_header)
        return eitp__csv_keep_rows(csv, records, size, step, more, found);
    kept = eitp__csv_read_header(csv, records, size);
    csv->has_header = kept > 0;
    return kept;
}

/* Finds the position to append at: after the rows up to `step`. */
static eitp_status eitp__csv_resume(eitp_record_file *file, int64_t step, int *evaluated, eitp_error *error) {
    eitp__csv_file *csv = (eitp__csv_file *)file;
    eitp_status status;
    csv->has_header = 0;
    status = eitp__record_file_truncate(file, step, eitp__csv_keep, evaluated, error);
    if (!status && csv->columns.failed)
        status = eitp__fail_memory(error, csv->columns.size, "columns");
    csv->has_begun = !status;
    return status;
}

/* ---- Writing ---- */

static void eitp__csv_add_text(eitp__buffer *row, const char *text) {
    const size_t size = strlen(text);
    if (size && !strpbrk(text, ",\"\r\n")) {
        eitp__buffer_add(row, text, size);
        return;
    }
    eitp__buffer_add(row, "\"", 1);
    for (const char *at = text; *at; at++) {
        if (*at == '"')
            eitp__buffer_add(row, "\"", 1);
        eitp__buffer_add(row, at, 1);
    }
    eitp__buffer_add(row, "\"", 1);
}

static void eitp__csv_add_value(eitp__buffer *row, const eitp_value *value) {
    if (value->kind == EITP_VALUE_TEXT)
        eitp__csv_add_text(row, value->text);
    else if (value->kind == EITP_VALUE_NUMBER && !isfinite(value->number))
        eitp__buffer_add_text(row, isnan(value->number) ? "nan" : value->number > 0 ? "inf" : "-inf");
    else
        eitp__record_write_value(row, value);
}

/* Writes the values without a column as a JSON object. */
static void eitp__csv_add_other(eitp__csv_file *csv, const eitp_record *record) {
    eitp__buffer_clear(&csv->other);
    for (size_t i = 0; i < record->count; i++) {
        if (eitp__csv_has_column(csv, record->values[i].name))
            continue;
        eitp__buffer_add_text(&csv->other, csv->other.size ? ", " : "{");
        eitp__record_write_member(&csv->other, &record->values[i]);
    }
    if (!csv->other.size)
        return;
    eitp__buffer_add_text(&csv->other, "}");
    csv->file.text.failed |= csv->other.failed;
    eitp__csv_add_text(&csv->file.text, csv->other.data);
}

static void eitp__csv_add_header(eitp__csv_file *csv) {
    const char *column = csv->columns.data;
    eitp__buffer_add_text(&csv->file.text, EITP__CSV_FIRST);
    for (size_t i = 0; i < csv->count; i++, column += strlen(column) + 1) {
        eitp__buffer_add_text(&csv->file.text, column);
        eitp__buffer_add_text(&csv->file.text, ",");
    }
    eitp__buffer_add_text(&csv->file.text, EITP__CSV_LAST "\n");
}

static void eitp__csv_add_row(eitp__csv_file *csv, const eitp_record *record) {
    static const char *const kinds[] = {"step", "evaluation", "event", "performance", "program", "window", "spot"};
    const char *column = csv->columns.data;
    eitp__buffer *row = &csv->file.text;
    eitp__buffer_format(row, "%s,%lld,", (unsigned)record->kind < EITP__COUNT(kinds) ? kinds[record->kind] : "record",
                        (long long)record->step);
    eitp__record_write_time(row, record->time);
    eitp__buffer_add_text(row, ",");
    eitp__record_write_time(row, record->elapsed);
    eitp__buffer_add_text(row, ",");
    for (size_t i = 0; i < csv->count; i++, column += strlen(column) + 1) {
        const eitp_value *value = eitp__record_find(record, column);
        if (value)
            eitp__csv_add_value(row, value);
        eitp__buffer_add_text(row, ",");
    }
    eitp__csv_add_other(csv, record);
    eitp__buffer_add_text(row, "\n");
}

/* Sets the header as the lead: a file that is reopened empty needs it too. */
static void eitp__csv_set_lead(eitp__csv_file *csv) {
    eitp__buffer_clear(&csv->file.text);
    eitp__csv_add_header(csv);
    csv->has_lead = !csv->file.text.failed;
    if (csv->has_lead)
        eitp__queued_file_set_lead(csv->file.queue, csv->file.text.data, csv->file.text.size);
}

static eitp_status eitp__csv_record(eitp_record_file *file, const eitp_record *record, eitp_error *error) {
    eitp__csv_file *csv = (eitp__csv_file *)file;
    int evaluated = 0;
    const eitp_status status = csv->has_begun ? EITP_OK : eitp__csv_resume(file, INT64_MAX, &evaluated, error);
    if (status)
        return status;
    if (!csv->has_lead)
        eitp__csv_set_lead(csv);
    eitp__buffer_clear(&csv->file.text);
    if (!csv->has_header)
        eitp__csv_add_header(csv);
    eitp__csv_add_row(csv, record);
    csv->has_header |= !csv->file.text.failed;
    return eitp__queued_file_append_text(file->queue, &file->text, error);
}

/* ---- Opening ---- */

static void eitp__csv_close(eitp_record_file *file) {
    eitp__csv_file *csv = (eitp__csv_file *)file;
    eitp__buffer_release(&csv->other);
    eitp__buffer_release(&csv->columns);
}

static const eitp__record_file_class eitp__csv_format = {sizeof(eitp__csv_file), eitp__csv_record, eitp__csv_resume,
                                                         eitp__csv_close};

eitp_status eitp_csv_open(const eitp_host *host, const char *path, const char *const *columns, size_t count,
                          eitp_record_file **file, eitp_error *error) {
    eitp__csv_file *csv;
    eitp_status status;
    if (!host || !path || !file || (count && !columns))
        return eitp__fail_null(error, "eitp_csv_open", "host, path, columns and file");
    status = eitp__record_file_create(host, &eitp__csv_format, file, error);
    if (status)
        return status;
    csv = (eitp__csv_file *)*file;
    eitp__buffer_init(&csv->columns, &csv->file.host);
    if (!eitp__record_text_init(&csv->other, &csv->file.host))
        status = eitp__fail_memory(error, EITP__RECORD_TEXT, "a file of records");
    if (!status)
        status = eitp__csv_set_columns(*file, columns, count, error);
    if (!status)
        status = eitp__record_file_open(*file, path, error);
    return eitp__record_file_opened(file, status);
}

EITP__PRIVATE size_t eitp__csv_bytes(void) {
    return sizeof(eitp__csv_file) + eitp__queued_file_bytes() + 2 * EITP__RECORD_TEXT_MAX;
}
