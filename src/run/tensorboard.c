/*
 * Event files of TensorBoard: frames of TFRecord (tensorflow/core/lib/io/record_writer.h), each with a message Event
 * (tensorflow/core/util/event.proto) in the wire format of protocol buffers.
 */
#include "run/tensorboard.h"

#include "base/checksum.h"
#include "base/clock.h"
#include "base/little_endian.h"
#include "base/process_identity.h"
#include "run/record_text.h"

#include <unistd.h>

#define EITP__EVENT_FILE "events.out.tfevents."

struct eitp_tensorboard {
    eitp_host host;
    eitp__record_file *file;
    char *path;
    eitp__buffer event;   /* the message being written */
    eitp__buffer summary; /* a message in it */
    eitp__buffer value;   /* a message in that */
    eitp__buffer tensor;  /* a message in that */
    eitp__buffer text;    /* an event's, in that */
    eitp__buffer frames;  /* what is appended to the file */
    int has_head;         /* the file has its first events */
    int is_resumed;
    int64_t first_step; /* of what is recorded after a resume */
    int uses_guide_tags;
};

/* ---- Protocol buffers ---- */

/* Types of fields on the wire. */
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

/* Fields of the messages. */
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

static void eitp__event_begin(eitp_tensorboard *tensorboard, double time, int64_t step) {
    eitp__buffer_clear(&tensorboard->event);
    eitp__buffer_clear(&tensorboard->summary);
    eitp__proto_double(&tensorboard->event, EITP__EVENT_WALL_TIME, time);
    eitp__proto_integer(&tensorboard->event, EITP__EVENT_STEP, step);
}

/* A checksum as TFRecord stores it, so that a checksum of data that have checksums is not zero. */
static uint32_t eitp__mask_checksum(const void *data, size_t size) {
    const uint32_t sum = eitp__crc32c(0, data, size);
    return (sum >> 15 | sum << 17) + 0xa282ead8u;
}

static void eitp__event_end(eitp_tensorboard *tensorboard) {
    const eitp__buffer *event = &tensorboard->event;
    unsigned char head[12], tail[4];
    eitp__put_number(head, 8, event->size);
    eitp__put_number(head + 8, 4, eitp__mask_checksum(head, 8));
    eitp__put_number(tail, 4, eitp__mask_checksum(event->data, event->size));
    eitp__buffer_add(&tensorboard->frames, head, sizeof head);
    eitp__buffer_add(&tensorboard->frames, event->data, event->size);
    eitp__buffer_add(&tensorboard->frames, tail, sizeof tail);
    tensorboard->frames.failed |= event->failed || tensorboard->summary.failed || tensorboard->value.failed ||
                                  tensorboard->tensor.failed || tensorboard->text.failed;
}

static void eitp__event_add_value(eitp_tensorboard *tensorboard) {
    eitp__proto_bytes(&tensorboard->summary, EITP__SUMMARY_VALUE, tensorboard->value.data, tensorboard->value.size);
}

static void eitp__event_add_scalar(eitp_tensorboard *tensorboard, const char *tag, double number) {
    eitp__buffer_clear(&tensorboard->value);
    eitp__proto_text(&tensorboard->value, EITP__VALUE_TAG, tag);
    eitp__proto_float(&tensorboard->value, EITP__VALUE_SIMPLE, (float)number);
    eitp__event_add_value(tensorboard);
}

/* A tensor of one string, with the metadata of the plugin "text". */
static void eitp__event_add_text(eitp_tensorboard *tensorboard, const char *tag, const char *text) {
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

/* The first events of a file. After a start at a step, TensorBoard drops what earlier files have from that step on. */
static void eitp__event_add_head(eitp_tensorboard *tensorboard, double time) {
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

/* ---- Opening ---- */

/* Finds the latest time in the names of event files: a new one must come after them, whatever the clock says. */
typedef struct eitp__event_times {
    int64_t latest;
} eitp__event_times;

static int eitp__event_visit(void *visitor, const char *name) {
    eitp__event_times *times = (eitp__event_times *)visitor;
    const size_t size = strlen(EITP__EVENT_FILE);
    const int64_t time = strncmp(name, EITP__EVENT_FILE, size) != 0 ? 0 : strtoll(name + size, NULL, 10);
    /* Names with a time that no clock shows are not ours. */
    if (time > times->latest && time < (int64_t)1 << 40)
        times->latest = time;
    return 0;
}

static eitp_status eitp__choose_event_file(eitp_tensorboard *tensorboard, const char *directory, eitp_error *error) {
    const eitp_host *host = &tensorboard->host;
    eitp__event_times times = EITP__ZERO;
    int64_t now = (int64_t)eitp__time_of_day();
    char computer[80], name[160];
    eitp_status status = eitp__make_directories(host, directory, error);
    if (status)
        return status;
    host->files.list(host->files.user, directory, eitp__event_visit, &times);
    eitp__host_name_read(host, computer, sizeof computer);
    now = now > times.latest ? now : times.latest + 1;
    snprintf(name, sizeof name, EITP__EVENT_FILE "%lld.%s.%ld", (long long)now, computer, (long)getpid());
    tensorboard->path = eitp__join_path(host, directory, name);
    return tensorboard->path ? EITP_OK : eitp__fail_memory(error, strlen(directory), "a path");
}

static eitp_status eitp__tensorboard_init(eitp_tensorboard *tensorboard, eitp_error *error) {
    eitp__buffer *const all[] = {&tensorboard->event,  &tensorboard->summary, &tensorboard->value,
                                 &tensorboard->tensor, &tensorboard->text,    &tensorboard->frames};
    int is_made = 1;
    for (size_t i = 0; i < EITP__COUNT(all); i++)
        is_made &= eitp__record_text_init(all[i], &tensorboard->host);
    return is_made ? EITP_OK : eitp__fail_memory(error, EITP__RECORD_TEXT, "a file of records");
}

eitp_status eitp_tensorboard_open(const eitp_host *host, const char *directory, eitp_tensorboard **tensorboard,
                                  eitp_error *error) {
    eitp_tensorboard *created;
    eitp_status status;
    if (!host || !directory || !tensorboard)
        return eitp__fail_null(error, "eitp_tensorboard_open", "host, directory and tensorboard");
    *tensorboard = NULL;
    created = (eitp_tensorboard *)eitp__allocate(host, sizeof *created);
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "a file of records");
    created->host = *host;
    status = eitp__tensorboard_init(created, error);
    if (!status)
        status = eitp__choose_event_file(created, directory, error);
    if (!status)
        status = eitp__record_file_open(&created->host, created->path, &created->file, error);
    if (status)
        eitp_tensorboard_close(created);
    else
        *tensorboard = created;
    return status;
}

void eitp_tensorboard_use_guide_tags(eitp_tensorboard *tensorboard, int use) {
    if (tensorboard)
        tensorboard->uses_guide_tags = use;
}

/* A summary, the event that has it and the frame around that grow with the record. */
EITP__PRIVATE size_t eitp__tensorboard_bytes(void) {
    return sizeof(eitp_tensorboard) + eitp__record_file_bytes() + 3 * EITP__RECORD_TEXT_MOST + 3 * EITP__RECORD_TEXT;
}

EITP__PRIVATE eitp__record_file *eitp__tensorboard_file(eitp_tensorboard *tensorboard) {
    return tensorboard->file;
}

EITP__PRIVATE const char *eitp__tensorboard_path(const eitp_tensorboard *tensorboard) {
    return tensorboard->path;
}

/* ---- Records ---- */

static void eitp__tensorboard_add_guide_tags(eitp_tensorboard *tensorboard, const char *key, double number) {
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

static void eitp__tensorboard_add_values(eitp_tensorboard *tensorboard, const eitp_record *record) {
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

/* An event of a run is its message, or without one its values. */
static void eitp__tensorboard_add_event(eitp_tensorboard *tensorboard, const eitp_record *record) {
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

static eitp_status eitp__tensorboard_record(void *user, const eitp_record *record, eitp_error *error) {
    eitp_tensorboard *tensorboard = (eitp_tensorboard *)user;
    eitp__buffer_clear(&tensorboard->frames);
    if (!tensorboard->has_head)
        eitp__event_add_head(tensorboard, record->time);
    eitp__event_begin(tensorboard, record->time, record->step);
    if (record->kind == EITP_RECORD_EVENT)
        eitp__tensorboard_add_event(tensorboard, record);
    else
        eitp__tensorboard_add_values(tensorboard, record);
    eitp__proto_bytes(&tensorboard->event, EITP__EVENT_SUMMARY, tensorboard->summary.data, tensorboard->summary.size);
    eitp__event_end(tensorboard);
    tensorboard->has_head |= !tensorboard->frames.failed;
    return eitp__record_file_append_text(tensorboard->file, &tensorboard->frames, error);
}

/* Earlier files stay: TensorBoard drops their events of later steps when it reads that a session has started. */
static eitp_status eitp__tensorboard_resume(void *user, int64_t step, int *evaluated, eitp_error *error) {
    eitp_tensorboard *tensorboard = (eitp_tensorboard *)user;
    const eitp_status status = eitp__record_file_pause(tensorboard->file, error);
    (void)evaluated;
    tensorboard->is_resumed = 1;
    tensorboard->first_step = step + 1;
    tensorboard->has_head = 0;
    return status ? status : eitp__record_file_cut(tensorboard->file, 0, error);
}

static int64_t eitp__tensorboard_lost(void *user) {
    return eitp__record_file_lost(((eitp_tensorboard *)user)->file);
}

static eitp_status eitp__tensorboard_sync(void *user, eitp_error *error) {
    return eitp__record_file_sync(((eitp_tensorboard *)user)->file, error);
}

eitp_record_sink eitp_tensorboard_sink(eitp_tensorboard *tensorboard) {
    eitp_record_sink sink = EITP__ZERO;
    if (!tensorboard)
        return sink;
    sink.user = tensorboard;
    sink.record = eitp__tensorboard_record;
    sink.resume = eitp__tensorboard_resume;
    sink.sync = eitp__tensorboard_sync;
    sink.lost = eitp__tensorboard_lost;
    return sink;
}

void eitp_tensorboard_close(eitp_tensorboard *tensorboard) {
    eitp_host host;
    if (!tensorboard)
        return;
    host = tensorboard->host;
    eitp__record_file_close(tensorboard->file);
    eitp__release_text(&host, tensorboard->path);
    eitp__buffer_release(&tensorboard->event);
    eitp__buffer_release(&tensorboard->summary);
    eitp__buffer_release(&tensorboard->value);
    eitp__buffer_release(&tensorboard->tensor);
    eitp__buffer_release(&tensorboard->text);
    eitp__buffer_release(&tensorboard->frames);
    eitp__release(&host, tensorboard, sizeof *tensorboard);
}
