/*
 * Event files of TensorBoard: frames of TFRecord (tensorflow/core/lib/io/record_writer.h), each with a message Event
 * (tensorflow/core/util/event.proto) in the wire format of protocol buffers.
 */
#include "base/checksum.h"
#include "base/clock.h"
#include "base/little_endian.h"
#include "base/process_identity.h"
#include "records/record_file.h"

#include <unistd.h>

#define EITP__EVENT_FILE "events.out.tfevents."

/* An event file. The text of `file` holds the frames to append. */
typedef struct eitp__tensorboard {
    eitp_record_file file;
    eitp__buffer event;   /* the message being written */
    eitp__buffer summary; /* a message in it */
    eitp__buffer value;   /* a message in that */
    eitp__buffer tensor;  /* a message in that */
    eitp__buffer text;    /* an event's message, in that */
    int has_head;         /* the file has its first events */
    int is_resumed;
    int64_t first_step; /* first step recorded after a resume */
    int uses_guide_tags;
} eitp__tensorboard;

/* ---- Protocol buffers ---- */

/* Wire types of fields. */
enum { EITP__WIRE_VARINT = 0, EITP__WIRE_64 = 1, EITP__WIRE_BYTES = 2, EITP__WIRE_32 = 5 };

static void eitp__proto_varint(eitp__buffer *message, uint64_t value) {
    unsigned char bytes[10];
    size_t size = 0;
    do {
        bytes[size++] = (unsigned char)((value & 127) | (value > 127 ? 128 : 0));
        value >>= 7;
    } while (value);
    eitp__buffer_add(message, bytes, size);
}

static void eitp__proto_integer(eitp__buffer *message, int field, int64_t value) {
    eitp__proto_varint(message, (uint64_t)field << 3 | EITP__WIRE_VARINT);
    eitp__proto_varint(message, (uint64_t)value);
}

static void eitp__proto_bytes(eitp__buffer *message, int field, const void *data, size_t size) {
    eitp__proto_varint(message, (uint64_t)field << 3 | EITP__WIRE_BYTES);
    eitp__proto_varint(message, size);
    eitp__buffer_add(message, data, size);
}

static void eitp__proto_text(eitp__buffer *message, int field, const char *text) {
    eitp__proto_bytes(message, field, text, strlen(text));
}

static void eitp__proto_double(eitp__buffer *message, int field, double value) {
    unsigned char bytes[8];
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    eitp__put_number(bytes, sizeof bytes, bits);
    eitp__proto_varint(message, (uint64_t)field << 3 | EITP__WIRE_64);
    eitp__buffer_add(message, bytes, sizeof bytes);
}

static void eitp__proto_float(eitp__buffer *message, int field, float value) {
    unsigned char bytes[4];
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    eitp__put_number(bytes, sizeof bytes, bits);
    eitp__proto_varint(message, (uint64_t)field << 3 | EITP__WIRE_32);
    eitp__buffer_add(message, bytes, sizeof bytes);
}

/* ---- Events ---- */

/* Field numbers of the messages. */
enum {
    EITP__EVENT_WALL_TIME = 1,
    EITP__EVENT_STEP = 2,
    EITP__EVENT_FILE_VERSION = 3,
    EITP__EVENT_SUMMARY = 5,
    EITP__EVENT_SESSION_LOG = 7,
    EITP__SESSION_LOG_STATUS = 1,
    EITP__SUMMARY_VALUE = 1,
    EITP__VALUE_TAG = 1,
    EITP__VALUE_SIMPLE = 2,
    EITP__VALUE_TENSOR = 8,
    EITP__VALUE_METADATA = 9,
    EITP__TENSOR_DTYPE = 1,
    EITP__TENSOR_SHAPE = 2,
    EITP__TENSOR_STRING = 8
};

enum { EITP__SESSION_START = 1, EITP__DTYPE_STRING = 7 };

static void eitp__event_begin(eitp__tensorboard *tensorboard, double time, int64_t step) {
    eitp__buffer_clear(&tensorboard->event);
    eitp__buffer_clear(&tensorboard->summary);
    eitp__proto_double(&tensorboard->event, EITP__EVENT_WALL_TIME, time);
    eitp__proto_integer(&tensorboard->event, EITP__EVENT_STEP, step);
}

/* Returns a checksum as TFRecord stores it, so that a checksum of data that contain checksums is not zero. */
static uint32_t eitp__mask_checksum(const void *data, size_t size) {
    const uint32_t sum = eitp__crc32c(0, data, size);
    return (sum >> 15 | sum << 17) + 0xa282ead8u;
}

static void eitp__event_end(eitp__tensorboard *tensorboard) {
    const eitp__buffer *event = &tensorboard->event;
    unsigned char head[12], tail[4];
    eitp__put_number(head, 8, event->size);
    eitp__put_number(head + 8, 4, eitp__mask_checksum(head, 8));
    eitp__put_number(tail, 4, eitp__mask_checksum(event->data, event->size));
    eitp__buffer_add(&tensorboard->file.text, head, sizeof head);
    eitp__buffer_add(&tensorboard->file.text, event->data, event->size);
    eitp__buffer_add(&tensorboard->file.text, tail, sizeof tail);
    tensorboard->file.text.failed |= event->failed || tensorboard->summary.failed || tensorboard->value.failed ||
                                     tensorboard->tensor.failed || tensorboard->text.failed;
}

static void eitp__event_add_value(eitp__tensorboard *tensorboard) {
    eitp__proto_bytes(&tensorboard->summary, EITP__SUMMARY_VALUE, tensorboard->value.data, tensorboard->value.size);
}

static void eitp__event_add_scalar(eitp__tensorboard *tensorboard, const char *tag, double number) {
    eitp__buffer_clear(&tensorboard->value);
    eitp__proto_text(&tensorboard->value, EITP__VALUE_TAG, tag);
    eitp__proto_float(&tensorboard->value, EITP__VALUE_SIMPLE, (float)number);
    eitp__event_add_value(tensorboard);
}

/* Adds a tensor of one string, with the metadata of the plugin "text". */
static void eitp__event_add_text(eitp__tensorboard *tensorboard, const char *tag, const char *text) {
    /* SummaryMetadata { plugin_data { plugin_name: "text" } data_class: DATA_CLASS_TENSOR } */
    static const char metadata[] = "\x0a\x06\x0a\x04text\x20\x02";
    eitp__buffer *value = &tensorboard->value, *tensor = &tensorboard->tensor;
    eitp__buffer_clear(tensor);
    eitp__proto_integer(tensor, EITP__TENSOR_DTYPE, EITP__DTYPE_STRING);
    eitp__proto_bytes(tensor, EITP__TENSOR_SHAPE, "", 0);
    eitp__proto_text(tensor, EITP__TENSOR_STRING, text);
    eitp__buffer_clear(value);
    eitp__proto_text(value, EITP__VALUE_TAG, tag);
    eitp__proto_bytes(value, EITP__VALUE_TENSOR, tensor->data, tensor->size);
    eitp__proto_bytes(value, EITP__VALUE_METADATA, metadata, sizeof metadata - 1);
    eitp__event_add_value(tensorboard);
}

/* Adds the first events of a file. After a session start at a step, TensorBoard drops the data of earlier files from
   that step on. */
static void eitp__event_add_head(eitp__tensorboard *tensorboard, double time) {
    eitp__event_begin(tensorboard, time, 0);
    eitp__proto_text(&tensorboard->event, EITP__EVENT_FILE_VERSION, "brain.Event:2");
    eitp__event_end(tensorboard);
    if (!tensorboard->is_resumed)
        return;
    eitp__event_begin(tensorboard, time, tensorboard->first_step);
    eitp__proto_integer(&tensorboard->summary, EITP__SESSION_LOG_STATUS, EITP__SESSION_START);
    eitp__proto_bytes(&tensorboard->event, EITP__EVENT_SESSION_LOG, tensorboard->summary.data,
                      tensorboard->summary.size);
    eitp__event_end(tensorboard);
}

/* ---- Records ---- */

static void eitp__tensorboard_add_guide_tags(eitp__tensorboard *tensorboard, const char *key, double number) {
    static const char *const tags[][2] = {{"loss", "Training/Loss"},
                                          {"loss", "Loss"},
                                          {"lr", "LR"},
                                          {"grad_norm", "Training/GradientNorm"},
                                          {"grad_norm", "GradNorm"},
                                          {"gpu/allocated_gib", "Performance/GPUMemory"},
                                          {"gpu/allocated_gib", "GPUMemory"}};
    for (size_t i = 0; i < EITP__COUNT(tags) && tensorboard->uses_guide_tags; i++) {
        if (!strcmp(key, tags[i][0]))
            eitp__event_add_scalar(tensorboard, tags[i][1], number);
    }
}

static void eitp__tensorboard_add_values(eitp__tensorboard *tensorboard, const eitp_record *record) {
    for (size_t i = 0; i < record->count; i++) {
        const eitp_value *value = &record->values[i];
        const double number = value->kind == EITP_VALUE_NUMBER ? value->number : (double)value->integer;
        if (value->kind == EITP_VALUE_TEXT) {
            eitp__event_add_text(tensorboard, value->name, value->text);
            continue;
        }
        eitp__event_add_scalar(tensorboard, value->name, number);
        eitp__tensorboard_add_guide_tags(tensorboard, value->name, number);
    }
}

/* Adds an event of a run: its message, or without one its values. */
static void eitp__tensorboard_add_event(eitp__tensorboard *tensorboard, const eitp_record *record) {
    const eitp_value *event = eitp__record_find(record, "event"), *message = eitp__record_find(record, "message");
    eitp__buffer *text = &tensorboard->text;
    char tag[80];
    snprintf(tag, sizeof tag, "events/%s", event && event->kind == EITP_VALUE_TEXT ? event->text : "event");
    eitp__buffer_clear(text);
    if (message && message->kind == EITP_VALUE_TEXT) {
        eitp__buffer_add_text(text, message->text);
    } else {
        for (size_t i = 0; i < record->count; i++) {
            eitp__buffer_add_text(text, i ? ", " : "{");
            eitp__record_write_member(text, &record->values[i]);
        }
        eitp__buffer_add_text(text, record->count ? "}" : "{}");
    }
    eitp__event_add_text(tensorboard, tag, text->data ? text->data : "");
}

static eitp_status eitp__tensorboard_record(eitp_record_file *file, const eitp_record *record, eitp_error *error) {
    eitp__tensorboard *tensorboard = (eitp__tensorboard *)file;
    eitp__buffer_clear(&file->text);
    if (!tensorboard->has_head)
        eitp__event_add_head(tensorboard, record->time);
    eitp__event_begin(tensorboard, record->time, record->step);
    if (record->kind == EITP_RECORD_EVENT)
        eitp__tensorboard_add_event(tensorboard, record);
    else
        eitp__tensorboard_add_values(tensorboard, record);
    eitp__proto_bytes(&tensorboard->event, EITP__EVENT_SUMMARY, tensorboard->summary.data, tensorboard->summary.size);
    eitp__event_end(tensorboard);
    tensorboard->has_head |= !file->text.failed;
    return eitp__queued_file_append_text(file->queue, &file->text, error);
}

/* Keeps earlier files: TensorBoard drops their events of later steps when it reads a session start. */
static eitp_status eitp__tensorboard_resume(eitp_record_file *file, int64_t step, int *evaluated, eitp_error *error) {
    eitp__tensorboard *tensorboard = (eitp__tensorboard *)file;
    const eitp_status status = eitp__queued_file_pause(file->queue, error);
    (void)evaluated;
    tensorboard->is_resumed = 1;
    tensorboard->first_step = step + 1;
    tensorboard->has_head = 0;
    return status ? status : eitp__queued_file_cut(file->queue, 0, error);
}

/* ---- Opening ---- */

/* Finds the latest time in the names of event files: the time of a new one must be later, even if the clock is
   behind. */
typedef struct eitp__event_times {
    int64_t latest;
} eitp__event_times;

static int eitp__event_visit(void *visitor, const char *name) {
    eitp__event_times *times = (eitp__event_times *)visitor;
    const size_t size = strlen(EITP__EVENT_FILE);
    const int64_t time = strncmp(name, EITP__EVENT_FILE, size) != 0 ? 0 : strtoll(name + size, NULL, 10);
    /* Ignore names with a time that no clock shows: they are from other programs. */
    if (time > times->latest && time < (int64_t)1 << 40)
        times->latest = time;
    return 0;
}

/* Returns the path of a new file in a directory; NULL if memory runs out. */
static char *eitp__choose_event_file(const eitp_host *host, const char *directory) {
    eitp__event_times times = EITP__ZERO;
    int64_t now = (int64_t)eitp__time_of_day();
    char computer[80], name[160];
    host->files.list(host->files.user, directory, eitp__event_visit, &times);
    eitp__host_name_read(host, computer, sizeof computer);
    now = now > times.latest ? now : times.latest + 1;
    snprintf(name, sizeof name, EITP__EVENT_FILE "%lld.%s.%ld", (long long)now, computer, (long)getpid());
    return eitp__join_path(host, directory, name);
}

enum { EITP__EVENT_MESSAGES = 5 };

static void eitp__list_messages(eitp__tensorboard *tensorboard, eitp__buffer *all[EITP__EVENT_MESSAGES]) {
    all[0] = &tensorboard->event;
    all[1] = &tensorboard->summary;
    all[2] = &tensorboard->value;
    all[3] = &tensorboard->tensor;
    all[4] = &tensorboard->text;
}

static void eitp__tensorboard_close(eitp_record_file *file) {
    eitp__buffer *all[EITP__EVENT_MESSAGES];
    eitp__list_messages((eitp__tensorboard *)file, all);
    for (int i = 0; i < EITP__EVENT_MESSAGES; i++)
        eitp__buffer_release(all[i]);
}

static const eitp__record_file_class eitp__tensorboard_format = {sizeof(eitp__tensorboard), eitp__tensorboard_record,
                                                                 eitp__tensorboard_resume, eitp__tensorboard_close};

eitp_status eitp_tensorboard_open(const eitp_host *host, const char *directory, eitp_record_file **file,
                                  eitp_error *error) {
    eitp__buffer *all[EITP__EVENT_MESSAGES];
    char *path = NULL;
    eitp_status status;
    if (!host || !directory || !file)
        return eitp__fail_null(error, "eitp_tensorboard_open", "host, directory and file");
    status = eitp__record_file_create(host, &eitp__tensorboard_format, file, error);
    if (status)
        return status;
    eitp__list_messages((eitp__tensorboard *)*file, all);
    for (int i = 0; i < EITP__EVENT_MESSAGES; i++) {
        if (!eitp__record_text_init(all[i], &(*file)->host))
            status = eitp__fail_memory(error, EITP__RECORD_TEXT, "a file of records");
    }
    if (!status)
        status = eitp__make_directories(host, directory, error);
    if (!status && !(path = eitp__choose_event_file(host, directory)))
        status = eitp__fail_memory(error, strlen(directory), "a path");
    if (!status)
        status = eitp__record_file_open(*file, path, error);
    eitp__release_text(host, path);
    return eitp__record_file_opened(file, status);
}

void eitp_tensorboard_use_guide_tags(eitp_record_file *file, int use) {
    if (file && file->format == &eitp__tensorboard_format)
        ((eitp__tensorboard *)file)->uses_guide_tags = use;
}

/* A summary, the event with it and the frame around that grow with the record. */
EITP__PRIVATE size_t eitp__tensorboard_bytes(void) {
    return sizeof(eitp__tensorboard) + eitp__queued_file_bytes() + 3 * EITP__RECORD_TEXT_MAX + 3 * EITP__RECORD_TEXT;
}
