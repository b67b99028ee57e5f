/* TensorBoard event files, read back by a separate parser. */
#include "tests/support/faults.h"
#include "tests/support/own_task.h"

static eitp_error error_;

/* ---- Reading ---- */

/* An event. Tests look at one of its values at most. */
typedef struct event {
    double time;
    int64_t step;
    char version[32];
    int session; /* the status of a session; 0: none */
    int values;  /* number of values */
    struct {
        char tag[64];
        float number;
        int has_number;
        char text[700], plugin[16];
        int dtype;
    } value[16];
} event;

enum { MOST_EVENTS = 64 };

typedef struct events {
    event list[MOST_EVENTS];
    int count, is_whole; /* every length and checksum is right */
} events;

/* Computes checksums bit by bit, according to the definition (Castagnoli). */
static uint32_t crc_of(const unsigned char *data, size_t size) {
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    crc = ~crc;
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

typedef struct field {
    int number, type;
    uint64_t integer;
    const unsigned char *data;
    size_t size;
} field;

static uint64_t read_varint(const unsigned char **at, const unsigned char *end) {
    uint64_t value = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        const unsigned char byte = *(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            break;
    }
    return value;
}

/* Reads the next field of a message. Returns 0 at its end. */
static int next_field(const unsigned char **at, const unsigned char *end, field *f) {
    uint64_t key;
    if (*at >= end)
        return 0;
    key = read_varint(at, end);
    f->number = (int)(key >> 3);
    f->type = (int)(key & 7);
    f->integer = 0;
    f->data = *at;
    f->size = f->type == 1 ? 8 : f->type == 5 ? 4 : 0;
    if (f->type == 0)
        f->integer = read_varint(at, end);
    if (f->type == 2) {
        f->size = (size_t)read_varint(at, end);
        f->data = *at;
    }
    CHECK_THAT(f->type == 0 || f->type == 1 || f->type == 2 || f->type == 5, "type %d", f->type);
    CHECK((size_t)(end - *at) >= f->size);
    *at += f->size;
    return 1;
}

static void copy_text(const field *f, char *text, size_t size) {
    const size_t length = f->size < size - 1 ? f->size : size - 1;
    memcpy(text, f->data, length);
    text[length] = 0;
}

static void read_metadata(const field *metadata, char *plugin, size_t size) {
    const unsigned char *at = metadata->data;
    field f, inner;
    while (next_field(&at, metadata->data + metadata->size, &f)) {
        const unsigned char *in = f.data;
        while (f.number == 1 && next_field(&in, f.data + f.size, &inner)) {
            if (inner.number == 1)
                copy_text(&inner, plugin, size);
        }
    }
}

static void read_value(const field *value, event *e) {
    const unsigned char *at = value->data;
    const int i = e->values++;
    field f, inner;
    REQUIRE(i < 16);
    while (next_field(&at, value->data + value->size, &f)) {
        const unsigned char *in = f.data;
        if (f.number == 1)
            copy_text(&f, e->value[i].tag, sizeof e->value[i].tag);
        if (f.number == 2) {
            memcpy(&e->value[i].number, f.data, 4);
            e->value[i].has_number = 1;
        }
        if (f.number == 9)
            read_metadata(&f, e->value[i].plugin, sizeof e->value[i].plugin);
        while (f.number == 8 && next_field(&in, f.data + f.size, &inner)) {
            if (inner.number == 1)
                e->value[i].dtype = (int)inner.integer;
            if (inner.number == 8)
                copy_text(&inner, e->value[i].text, sizeof e->value[i].text);
        }
    }
}

static void read_event(const unsigned char *data, size_t size, event *e) {
    const unsigned char *at = data;
    field f, inner;
    memset(e, 0, sizeof *e);
    while (next_field(&at, data + size, &f)) {
        const unsigned char *in = f.data;
        if (f.number == 1)
            memcpy(&e->time, f.data, 8);
        if (f.number == 2)
            e->step = (int64_t)f.integer;
        if (f.number == 3)
            copy_text(&f, e->version, sizeof e->version);
        while ((f.number == 5 || f.number == 7) && next_field(&in, f.data + f.size, &inner)) {
            if (f.number == 5 && inner.number == 1)
                read_value(&inner, e);
            if (f.number == 7 && inner.number == 1)
                e->session = (int)inner.integer;
        }
    }
}

static uint64_t read_number(const unsigned char *bytes, int size) {
    uint64_t number = 0;
    for (int i = size - 1; i >= 0; i--)
        number = number << 8 | bytes[i];
    return number;
}

static void read_events(const char *path, events *found) {
    static unsigned char data[1 << 16];
    FILE *file = fopen(path, "rb");
    const size_t size = file ? fread(data, 1, sizeof data, file) : 0;
    size_t at = 0;
    memset(found, 0, sizeof *found);
    while (at + 16 <= size && found->count < MOST_EVENTS) {
        const uint64_t length = read_number(data + at, 8);
        if (crc_of(data + at, 8) != read_number(data + at + 8, 4) || length > size - at - 16 ||
            crc_of(data + at + 12, (size_t)length) != read_number(data + at + 12 + length, 4))
            break;
        read_event(data + at + 12, (size_t)length, &found->list[found->count++]);
        at += 16 + (size_t)length;
    }
    found->is_whole = file && at == size;
    if (file)
        fclose(file);
}

/* Returns the n-th event file of a directory, in the order of names. */
static const char *event_file(const char *directory, size_t n) {
    static char path[800];
    const eitp_host host = eitp_host_default();
    eitp__buffer names;
    size_t count = 0, at = 0;
    eitp__buffer_init(&names, &host);
    *path = 0;
    if (!eitp__list_directory(&host, directory, &names, &count, NULL) && n < count) {
        for (size_t i = 0; i < n; i++)
            at += strlen(names.data + at) + 1;
        snprintf(path, sizeof path, "%s/%s", directory, names.data + at);
    }
    eitp__buffer_release(&names);
    return path;
}

static int has_scalar(const event *e, const char *tag, float number) {
    for (int i = 0; i < e->values; i++) {
        if (!strcmp(e->value[i].tag, tag))
            return e->value[i].has_number && (e->value[i].number >= number) && (e->value[i].number <= number);
    }
    return 0;
}

static int has_text(const event *e, const char *tag, const char *text) {
    for (int i = 0; i < e->values; i++) {
        if (!strcmp(e->value[i].tag, tag))
            return e->value[i].dtype == 7 && !strcmp(e->value[i].plugin, "text") && !strcmp(e->value[i].text, text);
    }
    return 0;
}

/* ---- Writing ---- */

static void write_some(eitp_record_file *tensorboard, int64_t step) {
    const eitp_value values[] = {{"loss", EITP_VALUE_NUMBER, 0.1, 0, NULL},
                                 {"lr", EITP_VALUE_NUMBER, 3e-4, 0, NULL},
                                 {"grad_norm", EITP_VALUE_NUMBER, (double)INFINITY, 0, NULL},
                                 {"tokens", EITP_VALUE_INTEGER, 0, 300, NULL},
                                 {"applied", EITP_VALUE_BOOLEAN, 0, 1, NULL},
                                 {"spike", EITP_VALUE_TEXT, 0, 0, "loss"}};
    const eitp_value saved[] = {{"event", EITP_VALUE_TEXT, 0, 0, "saved"},
                                {"message", EITP_VALUE_TEXT, 0, 0, "saved, in 1 s"}};
    const eitp_value memory[] = {{"event", EITP_VALUE_TEXT, 0, 0, "memory_pressure"},
                                 {"left_bytes", EITP_VALUE_INTEGER, 0, 12, NULL}};
    const eitp_record records[] = {{EITP_RECORD_STEP, step, 1234.5, 2, values, 6},
                                   {EITP_RECORD_EVENT, step, 1235, 2, saved, 2},
                                   {EITP_RECORD_EVENT, step, 1236, 2, memory, 2}};
    const eitp_record_sink sink = eitp_record_file_sink(tensorboard);
    for (int i = 0; i < 3; i++)
        CHECK_THAT(!sink.record(sink.user, &records[i], &error_), "%s", error_.message);
}

static void records_become_events(void) {
    const eitp_host host = eitp_host_default();
    char directory[512], name[600];
    static events found;
    for (int guide = 0; guide < 2; guide++) {
        eitp_record_file *tensorboard = NULL;
        const event *e = found.list;
        REQUIRE(scratch_make(directory));
        snprintf(name, sizeof name, "%s/new/tb", directory);
        REQUIRE_OK(eitp_tensorboard_open(&host, name, &tensorboard, &error_), error_);
        eitp_tensorboard_use_guide_tags(tensorboard, guide);
        write_some(tensorboard, ((int64_t)1 << 40) + 7);
        eitp_record_file_close(tensorboard);
        read_events(event_file(name, 0), &found);
        REQUIRE(found.is_whole && found.count == 4);
        CHECK(strstr(event_file(name, 0), "/events.out.tfevents.1") && !*event_file(name, 1));
        CHECK(!strcmp(e[0].version, "brain.Event:2") && e[0].step == 0 && !e[0].session && !e[0].values);
        CHECK(e[1].step == ((int64_t)1 << 40) + 7 && e[1].time >= 1234.5 && e[1].time <= 1234.5);
        CHECK_THAT(e[1].values == (guide ? 11 : 6), "%d", e[1].values);
        CHECK(has_scalar(&e[1], "loss", 0.1f) && has_scalar(&e[1], "lr", 3e-4f) && has_scalar(&e[1], "tokens", 300) &&
              has_scalar(&e[1], "applied", 1) && has_scalar(&e[1], "grad_norm", (float)INFINITY));
        CHECK(has_text(&e[1], "spike", "loss") && has_text(&e[2], "events/saved", "saved, in 1 s"));
        CHECK_THAT(has_text(&e[3], "events/memory_pressure", "{\"event\": \"memory_pressure\", \"left_bytes\": 12}"),
                   "%s", e[3].value[0].text);
        CHECK(e[2].values == 1 && e[3].values == 1);
        CHECK(has_scalar(&e[1], "Training/Loss", 0.1f) == guide && has_scalar(&e[1], "Loss", 0.1f) == guide);
        CHECK(has_scalar(&e[1], "LR", 3e-4f) == guide && has_scalar(&e[1], "GradNorm", (float)INFINITY) == guide &&
              has_scalar(&e[1], "Training/GradientNorm", (float)INFINITY) == guide);
        scratch_remove(directory);
    }
}

/* Names sort in the order in which files were opened, and each file starts with the step after the previous one. */
static void a_resume_starts_a_session(void) {
    static const int64_t steps[] = {-1, 0, 41};
    const eitp_host host = eitp_host_default();
    static events found;
    char directory[512], name[900];
    REQUIRE(scratch_make(directory));
    /* The clock was set back, or another machine's is ahead. The second name does not have the form of an event file.
       */
    snprintf(name, sizeof name, "%s/events.out.tfevents.4000000000.other.1", directory);
    CHECK(!eitp__write_file(&host, name, "", 0, &error_));
    snprintf(name, sizeof name, "%s/events.out.tfevents.9000000000000000000", directory);
    CHECK(!eitp__write_file(&host, name, "", 0, &error_));
    for (size_t i = 0; i < 3; i++) {
        eitp_record_file *tensorboard = NULL;
        eitp_record_sink sink;
        int evaluated = 0;
        REQUIRE_OK(eitp_tensorboard_open(&host, directory, &tensorboard, &error_), error_);
        sink = eitp_record_file_sink(tensorboard);
        CHECK(!sink.resume(sink.user, steps[i], &evaluated, &error_) && !evaluated);
        write_some(tensorboard, steps[i] + 1);
        CHECK(!sink.sync(sink.user, &error_) && !sink.lost(sink.user));
        eitp_record_file_close(tensorboard);
        snprintf(name, sizeof name, "%s", event_file(directory, 1 + i));
        CHECK_THAT(strstr(name, "/events.out.tfevents.400000000") &&
                       atol(strstr(name, "tfevents.") + 18) == (long)i + 1,
                   "%s", name);
        read_events(name, &found);
        REQUIRE(found.is_whole && found.count == 5);
        CHECK(!strcmp(found.list[0].version, "brain.Event:2") && !found.list[0].session);
        CHECK(found.list[1].session == 1 && found.list[1].step == steps[i] + 1 && !found.list[2].session);
        CHECK(found.list[2].step == steps[i] + 1);
    }
    scratch_remove(directory);
}

static int file_has(const char *path, const char *word) {
    static char text[1 << 16];
    FILE *file = fopen(path, "rb");
    const size_t size = file ? fread(text, 1, sizeof text, file) : 0, length = strlen(word);
    if (file)
        fclose(file);
    for (size_t i = 0; i + length <= size; i++) {
        if (!memcmp(text + i, word, length))
            return 1;
    }
    return 0;
}

/* A run that gets tags and other files after it was created. */
static void a_run_follows_its_last_configuration(void) {
    const eitp_host host = eitp_host_default();
    eitp_run_config config = eitp_run_config_default();
    eitp_path_info info;
    eitp_run *made = NULL;
    char directory[512], out[600];
    const char *path;
    own o;
    REQUIRE(scratch_make(directory));
    snprintf(out, sizeof out, "%s/out", directory);
    REQUIRE_OK(own_begin(&o, &host, "fp32", OWN_ROW, &error_), error_);
    REQUIRE_OK(own_train(&o, &error_), error_);
    config.directory = out;
    config.steps = 3;
    config.eval_steps = 0;
    config.memory_check_seconds = -1;
    config.report_to = "tensorboard,csv";
    REQUIRE_OK(eitp_run_open(&host, &config, &made, &error_), error_);
    config.report_to = "jsonl,tensorboard";
    config.guide_tags = 1;
    REQUIRE_OK(eitp_run_set_config(made, &config, &error_), error_);
    CHECK_THAT(!eitp_run_train(made, o.trainer, NULL, &error_), "%s", error_.message);
    eitp_run_close(made);
    path = event_file(scratch_path(out, "tensorboard"), 0);
    CHECK(file_has(path, "grad_norm") && file_has(path, "Training/GradientNorm") && file_has(path, "events/saved"));
    CHECK(!*event_file(scratch_path(out, "tensorboard"), 1));
    CHECK(!eitp__path_info(&host, scratch_path(out, "metrics.csv"), &info, NULL) && info.kind == EITP_PATH_MISSING);
    CHECK(!eitp__path_info(&host, scratch_path(out, "metrics.jsonl"), &info, NULL) && info.size > 500);
    own_end(&o);
    scratch_remove(directory);
}

static void null_is_refused(void) {
    const eitp_host host = eitp_host_default();
    eitp_record_file *tensorboard = NULL;
    CHECK(eitp_tensorboard_open(&host, NULL, &tensorboard, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_tensorboard_open(NULL, "x", &tensorboard, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(!eitp_record_file_sink(NULL).record);
    eitp_tensorboard_use_guide_tags(NULL, 1);
    eitp_record_file_close(NULL);
}

static eitp_status use(const eitp_host *host, const char *directory) {
    eitp_record_file *tensorboard;
    eitp_record_sink sink;
    int evaluated = 0;
    const eitp_value value = {"a", EITP_VALUE_NUMBER, 1, 0, NULL};
    const eitp_record record = {EITP_RECORD_STEP, 1, 0, 0, &value, 1};
    eitp_status status = eitp_tensorboard_open(host, directory, &tensorboard, &error_);
    if (status)
        return status;
    sink = eitp_record_file_sink(tensorboard);
    status = sink.resume(sink.user, 1, &evaluated, &error_);
    if (!status)
        status = sink.record(sink.user, &record, &error_);
    if (!status)
        status = sink.sync(sink.user, &error_);
    eitp_record_file_close(tensorboard);
    return status;
}

static void every_call_may_fail(void) {
    char directory[512];
    faults f;
    REQUIRE(scratch_make(directory));
    for (int of_calls = 0; of_calls < 2; of_calls++) {
        int happened = 1;
        for (long n = 1; happened; n++) {
            faults_begin(&f);
            if (of_calls)
                faults_fail_file_call(&f, n);
            else
                f.fail_allocation = n;
            use(&f.host, scratch_path(directory, "tb"));
            happened = faults_end(&f);
        }
    }
    scratch_remove(directory);
}

static const test_case tests[] = {
    TEST(records_become_events), TEST(a_resume_starts_a_session), TEST(a_run_follows_its_last_configuration),
    TEST(null_is_refused),       TEST(every_call_may_fail),
};

int main(int argc, char **argv) {
    return RUN_TESTS(tests, argc, argv);
}
