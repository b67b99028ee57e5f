/* JSON Lines sinks: their text, and the records that a resume keeps. */
#include "tests/support/faults.h"
#include "tests/support/trainer_run.h"

static eitp_error error_;

/* A file in a scratch directory. */
typedef struct place {
    char directory[512], path[600];
    eitp_host host;
} place;

static int begin_place(place *p) {
    p->host = eitp_host_default();
    if (!scratch_make(p->directory))
        return 0;
    snprintf(p->path, sizeof p->path, "%s/j", p->directory);
    return 1;
}

static void write_lines(const place *p, const char *text, size_t size) {
    CHECK(!eitp__write_file(&p->host, p->path, text, size, &error_));
}

/* The file's text, valid until the next call. */
static const char *read_lines(const place *p) {
    static char text[8192];
    FILE *file = fopen(p->path, "rb");
    size_t done = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[done] = 0;
    if (file)
        fclose(file);
    return text;
}

/* Resumes after a step, and returns the remaining text of the file. */
static const char *resume(const place *p, int64_t step, int *evaluated) {
    eitp_record_file *jsonl = NULL;
    eitp_record_sink sink;
    *evaluated = 0;
    CHECK(!eitp_jsonl_open(&p->host, p->path, &jsonl, &error_));
    sink = eitp_record_file_sink(jsonl);
    CHECK_THAT(!sink.resume(sink.user, step, evaluated, &error_), "%s", error_.message);
    eitp_record_file_close(jsonl);
    return read_lines(p);
}

static void jsonl_values_and_truncation(void) {
    static const char *const kept = "{\"step\": 1, \"a\": 0.5, \"b\": -3, \"c\": true, \"d\": \"x\\\"y\", \"time\": 5, "
                                    "\"elapsed\": 2}\n"
                                    "{\"step\": 2, \"val_a\": null, \"time\": 4.25, \"elapsed\": 3.5}\n";
    const eitp_value values[] = {{"a", EITP_VALUE_NUMBER, 0.5, 0, NULL},
                                 {"b", EITP_VALUE_INTEGER, 0, -3, NULL},
                                 {"c", EITP_VALUE_BOOLEAN, 0, 1, NULL},
                                 {"d", EITP_VALUE_TEXT, 0, 0, "x\"y"}};
    const eitp_value last = {"val_a", EITP_VALUE_NUMBER, (double)NAN, 0, NULL};
    const eitp_record records[] = {{EITP_RECORD_STEP, 1, 5, 2, values, 4},
                                   {EITP_RECORD_EVALUATION, 2, 4.25, 3.5, &last, 1},
                                   {EITP_RECORD_STEP, 3, 0, 0, values, 1}};
    place p;
    eitp_record_file *jsonl;
    int evaluated = 0;
    REQUIRE(begin_place(&p));
    for (int round = 0; round < 2; round++) {
        eitp_record_sink sink;
        REQUIRE_OK(eitp_jsonl_open(&p.host, p.path, &jsonl, &error_), error_);
        sink = eitp_record_file_sink(jsonl);
        if (round)
            CHECK(!sink.resume(sink.user, 2, &evaluated, &error_) && evaluated);
        for (int i = 0; i < 3 && !round; i++)
            CHECK(!sink.record(sink.user, &records[i], &error_));
        CHECK(!sink.sync(sink.user, &error_));
        eitp_record_file_close(jsonl);
        CHECK_THAT(!strncmp(read_lines(&p), kept, strlen(kept)), "%s", read_lines(&p));
        CHECK((strlen(read_lines(&p)) == strlen(kept)) == (round == 1));
    }
    scratch_remove(p.directory);
}

/* Words in an event do not count as the value of an evaluation. */
static void an_event_is_no_evaluation(void) {
    const eitp_value event[] = {{"event", EITP_VALUE_TEXT, 0, 0, "warning"},
                                {"message", EITP_VALUE_TEXT, 0, 0, "a \"val_loss\" that is lost"}};
    const eitp_record record = {EITP_RECORD_EVENT, 2, 0, 0, event, 2};
    place p;
    eitp_record_file *jsonl;
    eitp_record_sink sink;
    int evaluated = 0;
    REQUIRE(begin_place(&p));
    REQUIRE_OK(eitp_jsonl_open(&p.host, p.path, &jsonl, &error_), error_);
    sink = eitp_record_file_sink(jsonl);
    CHECK(!sink.record(sink.user, &record, &error_));
    CHECK(!sink.resume(sink.user, 2, &evaluated, &error_) && !evaluated);
    eitp_record_file_close(jsonl);
    scratch_remove(p.directory);
}

/* A resumed run does not record again the records of its checkpoint's step. */
static void a_resume_knows_what_the_step_has(void) {
    static const char lines[] = "{\"step\": 1, \"spot/loss\": 4}\n{\"step\": 2, \"loss\": 4}\n"
                                "{\"step\": 2, \"spot/loss\": 4}\n{\"step\": 3, \"loss\": 4}\n"
                                "{\"step\": 4, \"val_loss\": 4}\n{\"step\": 4, \"spot/loss\": 4}\n"
                                "{\"step\": 4, \"event\": \"spot/loss\"}\n";
    static const int expected[] = {0, 2, 2, 0, 3};
    place p;
    REQUIRE(begin_place(&p));
    for (int64_t step = 0; step <= 4; step++) {
        int evaluated;
        CHECK(!eitp__write_file(&p.host, p.path, lines, sizeof lines - 1, &error_));
        resume(&p, step, &evaluated);
        CHECK_THAT(evaluated == expected[step], "step %d: %d", (int)step, evaluated);
    }
    scratch_remove(p.directory);
}

/* ---- A disk that fails ---- */

static int refuses_; /* read by the file's thread */

static int write_later(void *user, void *file, uint64_t offset, const void *data, size_t size, size_t *done) {
    const eitp_host host = eitp_host_default();
    (void)user;
    return __atomic_load_n(&refuses_, __ATOMIC_RELAXED) ? ENOSPC
                                                        : host.files.write(NULL, file, offset, data, size, done);
}

static void refuse(int refuses) {
    __atomic_store_n(&refuses_, refuses, __ATOMIC_RELAXED);
}

/* A record that could not be written is kept, up to a limit, and written as soon as that is possible. */
static void what_could_not_be_written_is_kept(void) {
    static const char line[] = "{\"step\": 1, \"a\": 7, \"time\": 0, \"elapsed\": 0}\n";
    const eitp_value value = {"a", EITP_VALUE_INTEGER, 0, 7, NULL};
    const eitp_record record = {EITP_RECORD_STEP, 1, 0, 0, &value, 1};
    const int64_t all = 100000; /* records: more than the queue holds */
    eitp_record_sink sink;
    int64_t lost;
    eitp_path_info info;
    place p;
    eitp_record_file *jsonl;
    REQUIRE(begin_place(&p));
    p.host.files.write = write_later;
    REQUIRE_OK(eitp_jsonl_open(&p.host, p.path, &jsonl, &error_), error_);
    sink = eitp_record_file_sink(jsonl);
    refuse(1);
    sink.record(sink.user, &record, &error_);
    CHECK(sink.sync(sink.user, &error_) == EITP_ERROR_IO && sink.lost(sink.user) == 1);
    CHECK(sink.record(sink.user, &record, &error_) == EITP_ERROR_IO && sink.lost(sink.user) == 2);
    refuse(0);
    CHECK(!sink.sync(sink.user, &error_) && !sink.lost(sink.user));
    refuse(1);
    CHECK(sink.sync(sink.user, &error_) == EITP_OK); /* there is nothing to write */
    for (int64_t i = 0; i < all; i++)
        sink.record(sink.user, &record, &error_);
    CHECK(sink.sync(sink.user, &error_) == EITP_ERROR_IO && sink.lost(sink.user) == all);
    refuse(0);
    CHECK(!sink.sync(sink.user, &error_));
    lost = sink.lost(sink.user);
    eitp_record_file_close(jsonl);
    REQUIRE(!eitp__path_info(&p.host, p.path, &info, &error_));
    CHECK_THAT(lost > all / 2 && lost < all && info.size == (uint64_t)(2 + all - lost) * (sizeof line - 1),
               "%d lost, %d bytes", (int)lost, (int)info.size);
    CHECK_THAT(!strncmp(read_lines(&p), line, sizeof line - 1), "%.80s", read_lines(&p));
    scratch_remove(p.directory);
}

/* ---- Resuming ---- */

static const char steps_[] = "{\"step\": 0, \"event\": \"started\", \"schema\": 1, \"time\": 9, \"elapsed\": 0}\n"
                             "{\"step\": 1, \"loss\": 2, \"time\": 8, \"elapsed\": 1}\n"
                             "{\"step\": 2, \"loss\": null, \"time\": 7, \"elapsed\": 2}\n";

/* The clock was set back, and a loss was not finite. */
static void a_resume_keeps_the_steps_before(void) {
    place p;
    int evaluated;
    REQUIRE(begin_place(&p));
    for (int64_t step = -1; step <= 3; step++) {
        const char *end = steps_;
        const char *kept;
        for (int64_t i = -1; i < step && *end; i++)
            end = strchr(end, '\n') + 1;
        write_lines(&p, steps_, sizeof steps_ - 1);
        kept = resume(&p, step, &evaluated);
        CHECK_THAT(strlen(kept) == (size_t)(end - steps_) && !strncmp(kept, steps_, strlen(kept)), "step %d: %s",
                   (int)step, kept);
        CHECK(!evaluated);
    }
    scratch_remove(p.directory);
}

/* Possible ends of a file after a kill or a power loss. */
static void a_torn_end_is_cut_off(void) {
    static const char *const ends[] = {"{\"step\": 2, \"lo",
                                       "{",
                                       "\n",
                                       "{\"step\": 2, \"loss\": 1.5\n",
                                       "{\"step\": 2, \"loss\": \"x}\n",
                                       "garbage}\n",
                                       "{\"step\": 2, \"a\": {}\n",
                                       "[{\"step\": 2}]\n"};
    place p;
    int evaluated;
    REQUIRE(begin_place(&p));
    for (size_t i = 0; i < sizeof ends / sizeof *ends + 3; i++) {
        char text[1024];
        size_t size = (size_t)snprintf(text, sizeof text, "%s", steps_);
        const int zeros = i >= sizeof ends / sizeof *ends ? (int)(i - sizeof ends / sizeof *ends) : -1;
        /* Zeros: a whole line, the middle of a line, and part of a string in a line. */
        static const char *const holed[] = {"????????\n", "{\"step\": 2, ????????}\n",
                                            "{\"step\": 2, \"a\": \"???\"}\n"};
        const char *end = zeros < 0 ? ends[i] : holed[zeros];
        memcpy(text + size, end, strlen(end));
        for (size_t k = 0; k < strlen(end) && zeros >= 0; k++)
            text[size + k] = text[size + k] == '?' ? 0 : text[size + k];
        size += strlen(end);
        write_lines(&p, text, size);
        CHECK_THAT(!strcmp(resume(&p, 9, &evaluated), steps_), "%d: %s", (int)i, read_lines(&p));
    }
    scratch_remove(p.directory);
}

/* Names and values unknown to this version, in any order, and lines without a step. */
static void records_of_a_later_version_are_kept(void) {
    static const char text[] =
        "{\"schema\": 9, \"about\": {\"step\": 77, \"val_x\": [1, {\"step\": 5}]}}\n"
        "{\"kind\": \"step\", \"step\":1, \"loss\": 2, \"new\": {\"a\": [1, 2], \"b\": \"}{\\\"step\\\": 99\"}}\n"
        "{\"new\": null, \"val_loss\": 1, \"step\" : 2}\n"
        "{\"note\": \"of step 2\"}\n"
        "{\"text\": \"val_loss\", \"step\": 3}\n"
        "{\"step\": 4}\n";
    place p;
    int evaluated;
    REQUIRE(begin_place(&p));
    write_lines(&p, text, sizeof text - 1);
    CHECK_THAT(!strcmp(resume(&p, 9, &evaluated), text) && !evaluated, "%s", read_lines(&p));
    CHECK_THAT(!strncmp(resume(&p, 3, &evaluated), text, strlen(text) - 12) && !evaluated &&
                   strlen(read_lines(&p)) == strlen(text) - 12,
               "%s", read_lines(&p));
    CHECK_THAT(strstr(resume(&p, 2, &evaluated), "of step 2\"}\n") && evaluated && !strstr(read_lines(&p), "\"text\""),
               "%s", read_lines(&p));
    scratch_remove(p.directory);
}

/* A file of many pieces, with lines across their borders. */
static void a_long_file_is_cut_at_the_right_line(void) {
    enum { LINES = 20000 };
    place p;
    int evaluated;
    eitp_path_info info;
    FILE *file;
    long kept = 0;
    REQUIRE(begin_place(&p));
    file = fopen(p.path, "wb");
    REQUIRE(file);
    for (int i = 0; i < LINES; i++) {
        fprintf(file, "{\"step\": %d, \"pad\": \"%*d\"}\n", i, i == 999 ? 2 * EITP_MAX_DESCRIPTION : 10 + i % 97, i);
        kept = i == 17321 ? ftell(file) : kept;
    }
    fclose(file);
    /* No line written by a run is longer. */
    resume(&p, 17321, &evaluated);
    CHECK(!eitp__path_info(&p.host, p.path, &info, &error_) && info.size == (uint64_t)kept && kept > 3 * 262144);
    scratch_remove(p.directory);
}

static const test_case tests[] = {
    TEST(jsonl_values_and_truncation),         TEST(an_event_is_no_evaluation),
    TEST(a_resume_knows_what_the_step_has),    TEST(what_could_not_be_written_is_kept),
    TEST(a_resume_keeps_the_steps_before),     TEST(a_torn_end_is_cut_off),
    TEST(records_of_a_later_version_are_kept), TEST(a_long_file_is_cut_at_the_right_line),
};

int main(int argc, char **argv) {
    return RUN_TESTS(tests, argc, argv);
}
