#include "run/summary_file.h"

#include "base/clock.h"
#include "run/record_file.h"
#include "run/record_text.h"
#include "run/replaced_file.h"

/* Least time between two times that the file is written, in seconds, and in how long writing takes. */
#define EITP__SUMMARY_INTERVAL 10
#define EITP__SUMMARY_RARITY 1000

struct eitp__summary_file {
    eitp_host host;
    eitp__summary summary;
    eitp__summary copy; /* what is written */
    eitp__replaced_file file;
    eitp__buffer line; /* of an evaluation or event */
    char *records;     /* path of metrics.jsonl */
    double next;       /* when it is due */
    int has_more;      /* than the file */
};

EITP__PRIVATE size_t eitp__summary_file_bytes(void) {
    return sizeof(eitp__summary_file) + 2 * eitp__summary_bytes(EITP__SUMMARY_RUN_POINTS) + EITP__SUMMARY_PART +
           EITP__RECORD_TEXT_MOST;
}

static int eitp__summary_file_write_part(const void *user, size_t part, eitp__buffer *text) {
    return eitp__summary_write_part((const eitp__summary *)user, part, text);
}

static eitp_status eitp__summary_file_init(eitp__summary_file *file, const eitp_host *host, const char *directory,
                                           eitp_error *error) {
    eitp_status status = eitp__summary_init(&file->summary, host, EITP__SUMMARY_RUN_POINTS, error);
    if (!status)
        status = eitp__summary_init(&file->copy, host, EITP__SUMMARY_RUN_POINTS, error);
    if (!status)
        status = eitp__replaced_file_init(&file->file, host, directory, EITP__SUMMARY_FILE, error);
    if (status)
        return status;
    file->file.part = eitp__summary_file_write_part;
    file->file.user = &file->copy;
    file->records = eitp__join_path(host, directory, EITP__METRICS_FILE);
    return file->records && eitp__buffer_reserve(&file->file.text, EITP__SUMMARY_PART)
               ? EITP_OK
               : eitp__fail_memory(error, EITP__SUMMARY_PART, "the summary of records");
}

EITP__PRIVATE eitp_status eitp__summary_file_open(const eitp_host *host, const char *directory,
                                                  eitp__summary_file **file, eitp_error *error) {
    eitp__summary_file *created = (eitp__summary_file *)eitp__allocate(host, sizeof *created);
    eitp_status status;
    *file = NULL;
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "a file of records");
    created->host = *host;
    eitp__buffer_init(&created->line, &created->host);
    status = eitp__summary_file_init(created, host, directory, error);
    if (status)
        eitp__summary_file_close(created);
    else
        *file = created;
    return status;
}

/* ---- The sink ---- */

/* A value that is a number in a curve. */
static void eitp__summary_add_value(eitp__summary *summary, int64_t step, const eitp_value *value) {
    const double number = value->kind == EITP_VALUE_NUMBER ? value->number : (double)value->integer;
    if (value->kind != EITP_VALUE_TEXT)
        eitp__summary_add(summary, step, value->name, strlen(value->name), number);
}

static void eitp__summary_add_text(eitp__summary_file *file, const eitp_record *record) {
    eitp__buffer_clear(&file->line);
    eitp__record_write(&file->line, record, NULL, 0);
    if (!file->line.failed)
        eitp__summary_add_line(&file->summary, file->line.data, file->line.size);
}

/* Copies the summary for the thread, which formats and writes it. */
static void eitp__summary_file_give(eitp__summary_file *file) {
    const double began = eitp__clock();
    double interval;
    eitp__summary_copy(&file->copy, &file->summary);
    interval = EITP__SUMMARY_RARITY * (eitp__clock() - began);
    file->next = began + (interval > EITP__SUMMARY_INTERVAL ? interval : EITP__SUMMARY_INTERVAL);
    file->has_more = 0;
    eitp__replaced_file_give(&file->file);
}

static eitp_status eitp__summary_file_record(void *user, const eitp_record *record, eitp_error *error) {
    eitp__summary_file *file = (eitp__summary_file *)user;
    eitp__summary *summary = &file->summary;
    const int is_text = record->kind == EITP_RECORD_EVALUATION || record->kind == EITP_RECORD_EVENT;
    (void)error;
    /* Between two steps, so that the file has all numbers of its last step: readers take later steps from
       metrics.jsonl. */
    if (record->step > summary->step && eitp__clock() >= file->next && eitp__replaced_file_is_idle(&file->file))
        eitp__summary_file_give(file);
    file->has_more = 1;
    summary->step = record->step > summary->step ? record->step : summary->step;
    if (is_text)
        eitp__summary_add_text(file, record);
    for (size_t i = 0; i < record->count && !is_text; i++)
        eitp__summary_add_value(summary, record->step, &record->values[i]);
    return EITP_OK;
}

/* Begins anew, with what metrics.jsonl has: it ends with the step that is resumed. */
static eitp_status eitp__summary_file_resume(void *user, int64_t step, int *evaluated, eitp_error *error) {
    eitp__summary_file *file = (eitp__summary_file *)user;
    (void)evaluated;
    eitp__summary_clear(&file->summary);
    file->next = eitp__clock() + EITP__SUMMARY_INTERVAL;
    return step < 0 ? EITP_OK : eitp__summary_read(&file->summary, file->records, error);
}

EITP__PRIVATE eitp_record_sink eitp__summary_file_sink(eitp__summary_file *file) {
    eitp_record_sink sink = EITP__ZERO;
    sink.user = file;
    sink.record = eitp__summary_file_record;
    sink.resume = eitp__summary_file_resume;
    return sink;
}

/* Writes what came last. A failure is no loss: metrics.jsonl has it. */
static void eitp__summary_file_finish(eitp__summary_file *file) {
    eitp__replaced_file_await(&file->file);
    if (!file->has_more)
        return;
    file->file.user = &file->summary;
    eitp__replaced_file_store(&file->file, NULL);
}

EITP__PRIVATE void eitp__summary_file_close(eitp__summary_file *file) {
    eitp_host host;
    if (!file)
        return;
    host = file->host;
    eitp__summary_file_finish(file);
    eitp__replaced_file_release(&file->file);
    eitp__summary_release(&file->copy);
    eitp__buffer_release(&file->line);
    eitp__release_text(&host, file->records);
    eitp__summary_release(&file->summary);
    eitp__release(&host, file, sizeof *file);
}
