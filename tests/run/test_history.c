/* Data that a program can read from a run's records and about its process, during training and afterwards. */
#include "tests/support/trainer_run.h"
#include "tests/support/summary_text.h"
#include "tests/support/faults.h"

static char directory_[512];

/* ---- Made-up records ---- */

enum { TEXT = 1 << 22 };

static char *text_;

static int begin_records(void) {
    free(text_);
    text_ = (char *)malloc(TEXT);
    *text_ = 0;
    return text_ && scratch_make(directory_);
}

static void path_of(const char *name, char path[800]) {
    snprintf(path, 800, "%s/%s", directory_, name);
}

static int write_file(const char *name, const char *text, size_t size) {
    char path[800];
    FILE *file;
    int is_good;
    path_of(name, path);
    file = fopen(path, "wb");
    is_good = file && fwrite(text, 1, size, file) == size;
    return file && !fclose(file) && is_good;
}

static void add_step(size_t *size, int64_t step) {
    *size += (size_t)snprintf(text_ + *size, TEXT - *size,
                              "{\"step\": %lld, \"loss\": %.12f, \"applied\": true, \"time\": 5, \"elapsed\": %lld}\n",
                              (long long)step, 10.0 / (double)step, (long long)step);
    if (step % 10 == 0)
        *size += (size_t)snprintf(text_ + *size, TEXT - *size,
                                  "{\"step\": %lld, \"val_loss\": 3, \"time\": 5, \"elapsed\": %lld}\n"
                                  "{\"step\": %lld, \"event\": \"saved\", \"time\": 5, \"elapsed\": %lld}\n",
                                  (long long)step, (long long)step, (long long)step, (long long)step);
}

static size_t make_records(int64_t steps) {
    size_t size = 0;
    for (int64_t step = 1; step <= steps; step++)
        add_step(&size, step);
    return size;
}

/* Writes the summary as it was after the first bytes of the records. */
static int write_summary(size_t size) {
    const eitp_host host = eitp_host_default();
    eitp__summary summary;
    eitp__buffer written;
    char path[800];
    int is_good;
    path_of("metrics.jsonl", path);
    eitp__buffer_init(&written, &host);
    if (!write_file("metrics.jsonl", text_, size) ||
        eitp__summary_init(&summary, &host, EITP__SUMMARY_ALL_POINTS, &error_) ||
        eitp__summary_read(&summary, path, &error_))
        return 0;
    summary_write_(&summary, &written);
    is_good = write_file("summary.jsonl", written.data, written.size);
    eitp__buffer_release(&written);
    eitp__summary_release(&summary);
    return is_good;
}

/* ---- Comparing ---- */

static eitp_history *open_history(void) {
    const eitp_host host = eitp_host_default();
    eitp_history *history = NULL;
    CHECK_THAT(!eitp_history_open(&host, directory_, &history, &error_), "%s", error_.message);
    return history;
}

static int points_are_close(const eitp_history_point *a, const eitp_history_point *b) {
    return a->step == b->step && a->count == b->count && fabsf(a->mean - b->mean) <= 2e-5f * fabsf(b->mean) &&
           fabsf(a->minimum - b->minimum) <= 2e-5f * fabsf(b->minimum) &&
           fabsf(a->maximum - b->maximum) <= 2e-5f * fabsf(b->maximum);
}

/* The history matches metrics.jsonl alone. */
static void check_history(const eitp_history *history, const char *what) {
    static eitp_history_point points[EITP_HISTORY_POINTS], expected[EITP_HISTORY_POINTS];
    const eitp_host host = eitp_host_default();
    eitp__summary summary;
    char path[800];
    size_t size;
    REQUIRE(history);
    path_of("metrics.jsonl", path);
    REQUIRE_OK(eitp__summary_init(&summary, &host, EITP__SUMMARY_ALL_POINTS, &error_), error_);
    REQUIRE_OK(eitp__summary_read(&summary, path, &error_), error_);
    CHECK_THAT(eitp_history_step(history) == summary.step, "%s: step %lld", what,
               (long long)eitp_history_step(history));
    for (size_t i = 0; i < summary.count; i++) {
        const eitp__summary_key *key = &summary.keys[i];
        const char *name = eitp_history_name(history, i);
        const size_t count = eitp_history_points(history, key->name, points, EITP_HISTORY_POINTS);
        size_t n = 0;
        CHECK_THAT(name && !strcmp(name, key->name), "%s: %s", what, key->name);
        CHECK_THAT(eitp_history_last(history, key->name) >= key->last &&
                       eitp_history_last(history, key->name) <= key->last,
                   "%s: last %s", what, key->name);
        memset(expected, 0, sizeof expected);
        for (size_t at = 0; at < EITP__SUMMARY_POINTS; at++) {
            const eitp__summary_point point = eitp__summary_point_at(&summary, key, at);
            const int64_t last = ((int64_t)at + 1) * summary.width;
            if (!point.count)
                continue;
            expected[n].step = last < summary.step ? last : summary.step;
            expected[n].count = point.count;
            expected[n].mean = point.mean;
            expected[n].minimum = point.least;
            expected[n++].maximum = point.greatest;
        }
        CHECK_THAT(n == count, "%s: %zu points of %s instead of %zu", what, count, key->name, n);
        for (size_t at = 0; at < n && at < count; at++)
            CHECK_THAT(points_are_close(&points[at], &expected[at]), "%s: point %zu of %s", what, at, key->name);
    }
    CHECK(!eitp_history_name(history, summary.count));
    CHECK_THAT(!strcmp(eitp_history_lines(history, &size, NULL), summary.lines.size ? summary.lines.data : ""),
               "%s: lines", what);
    CHECK(size == summary.lines.size);
    eitp__summary_release(&summary);
}

/* ---- Tests ---- */

static void a_summary_and_newer_records_are_one_history(void) {
    static const int64_t summarized[] = {0, 1, 9, 10, 99, 100, 5000, 12345};
    enum { STEPS = 12345 };
    size_t size;
    REQUIRE(begin_records());
    size = make_records(STEPS);
    for (size_t i = 0; i < EITP__COUNT(summarized); i++) {
        size_t known = 0;
        char what[40];
        eitp_history *history;
        snprintf(what, sizeof what, "summary of %lld", (long long)summarized[i]);
        for (int64_t step = 0; step < summarized[i]; step++) { /* up to the record of that step only */
            known += strcspn(text_ + known, "\n") + 1;
            while (!strncmp(text_ + known, "{\"step\"", 7) && strstr(text_ + known, "val_loss") &&
                   strcspn(text_ + known, "\n") > (size_t)(strstr(text_ + known, "val_loss") - (text_ + known)))
                known += strcspn(text_ + known, "\n") + 1, known += strcspn(text_ + known, "\n") + 1;
        }
        REQUIRE(write_summary(known) && write_file("metrics.jsonl", text_, size));
        history = open_history();
        check_history(history, what);
        eitp_history_close(history);
    }
    scratch_remove(directory_);
}

static void a_summary_may_end_amid_the_records_of_a_step(void) {
    const size_t size = begin_records() ? make_records(20) : 0;
    const char *saved = strstr(text_, "{\"step\": 10, \"event\"");
    eitp_history *history;
    REQUIRE(size && saved && write_summary((size_t)(saved - text_)) && write_file("metrics.jsonl", text_, size));
    history = open_history();
    check_history(history, "amid a step");
    eitp_history_close(history);
    scratch_remove(directory_);
}

/* A run may write its summary before the last step has all its numbers, such as the results of a spot evaluation. */
static void numbers_that_a_step_gets_later_are_there(void) {
    const eitp_host host = eitp_host_default();
    const eitp_value values[] = {eitp__number_value("loss", 3), eitp__number_value("spot/loss", 4)};
    const eitp_record records[] = {{EITP_RECORD_STEP, 1, 0, 0, &values[0], 1},
                                   {EITP_RECORD_SPOT, 1, 0, 0, &values[1], 1}};
    eitp_record_file *summary = NULL;
    eitp_history *history;
    eitp_record_file *jsonl = NULL;
    eitp_path_info info = EITP__ZERO;
    char path[800];
    REQUIRE(begin_records());
    path_of("metrics.jsonl", path);
    REQUIRE_OK(eitp_jsonl_open(&host, path, &jsonl, &error_), error_);
    REQUIRE_OK(eitp__summary_file_open(&host, directory_, &summary, &error_), error_);
    path_of("summary.jsonl", path);
    for (size_t i = 0; i < EITP__COUNT(records); i++) {
        CHECK(!eitp_record_file_sink(jsonl).record(jsonl, &records[i], &error_));
        CHECK(!eitp_record_file_sink(summary).record(summary, &records[i], &error_));
        while (info.kind != EITP_PATH_FILE) /* the first one is due at once */
            REQUIRE_OK(eitp__path_info(&host, path, &info, &error_), error_);
    }
    CHECK(!eitp_record_file_sink(jsonl).sync(jsonl, &error_));
    history = open_history();
    check_history(history, "numbers of a step");
    CHECK(eitp_history_points(history, "loss", NULL, 0) == 1 &&
          eitp_history_points(history, "spot/loss", NULL, 0) == 1);
    eitp_history_close(history);
    eitp_record_file_close(summary);
    history = open_history();
    check_history(history, "at the end");
    eitp_history_close(history);
    eitp_record_file_close(jsonl);
    scratch_remove(directory_);
}

static void updates_find_what_is_new(void) {
    enum { STEPS = 3000, PIECE = 7919 };
    eitp_history *history;
    size_t size, done = 0;
    int changed = 1;
    REQUIRE(begin_records());
    size = make_records(STEPS);
    REQUIRE(write_file("metrics.jsonl", "", 0));
    history = open_history();
    REQUIRE(history);
    while (done < size) {
        done = done + PIECE < size ? done + PIECE : size; /* usually ends within a line */
        REQUIRE(write_file("metrics.jsonl", text_, done));
        CHECK(!eitp_history_update(history, &changed, &error_) && changed);
        check_history(history, "update");
    }
    CHECK(!eitp_history_update(history, &changed, &error_) && !changed);
    eitp_history_close(history);
    scratch_remove(directory_);
}

/* A resume removes the records after its checkpoint, and then repeats them with other times. */
static void records_that_a_resume_removes_are_forgotten(void) {
    size_t size, half;
    eitp_history *history;
    int changed = 0;
    REQUIRE(begin_records());
    size = make_records(3000);
    half = (size_t)(strstr(text_, "{\"step\": 1501,") - text_);
    REQUIRE(write_summary(size) && write_file("metrics.jsonl", text_, half));
    history = open_history();
    check_history(history, "summary of later steps");
    eitp_history_close(history);
    REQUIRE(write_file("metrics.jsonl", text_, size));
    history = open_history();
    REQUIRE(write_file("metrics.jsonl", text_, half));
    CHECK(!eitp_history_update(history, &changed, &error_) && changed);
    check_history(history, "cut");
    REQUIRE(write_file("metrics.jsonl", text_, size) && write_file("summary.jsonl", "", 0));
    CHECK(!eitp_history_update(history, &changed, &error_) && changed);
    for (char *at = text_ + half; (at = strstr(at, "\"time\": 5")) != NULL; at++)
        at[8] = '7'; /* records of the same size, at other times */
    for (char *at = text_ + half; (at = strstr(at, "\"loss\": 0.00")) != NULL; at++)
        at[11] = '9';
    REQUIRE(write_file("metrics.jsonl", text_, size));
    CHECK(!eitp_history_update(history, &changed, &error_) && changed);
    check_history(history, "repeated");
    eitp_history_close(history);
    scratch_remove(directory_);
}

#define HEAD(step, width) "{\"summary\": 1, \"step\": " step ", \"steps_per_point\": " width ", \"left_out\": 0}\n"
#define POINT(step, count)                                                                                             \
    "{\"key\": \"k\", \"step\": [" step "], \"count\": [" count                                                        \
    "], \"mean\": [1], \"minimum\": [1], \"maximum\": [1]}\n"

static void what_is_missing_or_damaged_does_no_harm(void) {
    static const char *const impossible[] = {
        HEAD("12", "1") POINT("13", "1"),
        HEAD("12", "1") POINT("0", "1"),
        HEAD("12", "1") POINT("1", "0"),
        HEAD("12", "0"),
        HEAD("12", "14"),
        HEAD("-1", "1"),
        HEAD("12", "1") POINT("1", "1,1"),
        HEAD("12", "1") POINT("1,2", "1,1"),
        HEAD("9999999", "1") POINT("5000", "1"),
        HEAD("12", "1") "{\"key\": 5}\n",
    };
    const eitp_host host = eitp_host_default();
    const long stride = test_stride(3, 61);
    eitp__buffer summary;
    char path[800];
    eitp_history *history;
    size_t size;
    REQUIRE(begin_records());
    history = open_history();
    CHECK(!eitp_history_step(history) && !eitp_history_name(history, 0) && !*eitp_history_lines(history, NULL, NULL));
    eitp_history_close(history);
    size = make_records(12);
    REQUIRE(write_summary(size));
    path_of("summary.jsonl", path);
    eitp__buffer_init(&summary, &host);
    REQUIRE_OK(eitp__read_file(&host, path, 1 << 20, &summary, &error_), error_);
    for (size_t at = 0; at < summary.size; at += (size_t)stride) {
        const char was = summary.data[at];
        REQUIRE(write_file("summary.jsonl", summary.data, at)); /* truncated */
        history = open_history();
        CHECK(history && eitp_history_step(history) == 12);
        eitp_history_close(history);
        summary.data[at] = (char)(at % 3 ? was ^ 1 << at % 8 : '9');
        REQUIRE(write_file("summary.jsonl", summary.data, summary.size));
        history = open_history();
        CHECK(history != NULL);
        eitp_history_close(history);
        summary.data[at] = was;
    }
    eitp__buffer_release(&summary);
    remove(path);
    history = open_history();
    check_history(history, "without a summary");
    eitp_history_close(history);
    for (size_t i = 0; i < EITP__COUNT(impossible); i++) {
        REQUIRE(write_file("summary.jsonl", impossible[i], strlen(impossible[i])));
        history = open_history();
        check_history(history, impossible[i]);
        eitp_history_close(history);
    }
    path_of("metrics.jsonl", path);
    REQUIRE(write_summary(size) && !remove(path));
    history = open_history();
    CHECK(eitp_history_step(history) == 12 && eitp_history_points(history, "loss", NULL, 0) == 12);
    eitp_history_close(history);
    scratch_remove(directory_);
}

static void every_call_may_fail(void) {
    static const int shorts[] = {0, 1};
    REQUIRE(begin_records());
    REQUIRE(write_summary(make_records(30)) && write_file("metrics.jsonl", text_, make_records(40)));
    for (size_t i = 0; i < EITP__COUNT(shorts); i++) {
        for (long n = 1;; n++) {
            eitp_history *history = NULL;
            eitp_status status;
            faults f;
            faults_begin(&f);
            if (shorts[i])
                f.fail_file_call = n;
            else
                f.fail_allocation = n;
            status = eitp_history_open(&f.host, directory_, &history, &error_);
            if (!status)
                status = eitp_history_update(history, NULL, &error_);
            CHECK_THAT(!status || status == (shorts[i] ? EITP_ERROR_IO : EITP_ERROR_MEMORY), "%ld: %s", n,
                       error_.message);
            eitp_history_close(history);
            if (!faults_end(&f))
                break;
        }
    }
    scratch_remove(directory_);
}

/* ---- The process ---- */

static int write_in(const char *root, const char *path, const char *text) {
    char all[900];
    FILE *file;
    snprintf(all, sizeof all, "mkdir -p $(dirname %s/%s)", root, path);
    if (system(all))
        return 0;
    snprintf(all, sizeof all, "%s/%s", root, path);
    file = fopen(all, "w");
    return file && fputs(text, file) >= 0 && !fclose(file);
}

static eitp_run_process read_process(const char *process) {
    eitp_host host = eitp_host_default();
    eitp_run_process found;
    char info[600], root[600];
    snprintf(root, sizeof root, "%s/root", directory_);
    host.system_root = root;
    snprintf(info, sizeof info, "{\"run\": {\"machine\": {\"host\": \"here\"}, \"process\": {%s}}}", process);
    CHECK(write_file("run.json", info, strlen(info)));
    CHECK_THAT(!eitp_run_process_read(&host, directory_, &found, &error_), "%s", error_.message);
    return found;
}

#define RUNNING "\"pid\": 4242, \"start_time\": 77, \"state\": \"running\", \"step\": 8, \"saved_step\": 6"

static void the_state_of_the_process_is_found(void) {
    char root[600];
    eitp_run_process found;
    const eitp_host host = eitp_host_default();
    REQUIRE(begin_records());
    snprintf(root, sizeof root, "%s/root", directory_);
    REQUIRE(write_in(root, "proc/sys/kernel/random/boot_id", "boot\n") &&
            write_in(root, "proc/sys/kernel/hostname", "here\n"));
    REQUIRE(write_in(root, "proc/4242/stat", "4242 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 77 19 20\n"));
    found = read_process(RUNNING ", \"boot_id\": \"boot\", \"alive\": 12.5, \"message\": \"m\"");
    CHECK(found.state == EITP_RUN_PROCESS_ALIVE && found.pid == 4242 && found.step == 8 && found.saved_step == 6);
    CHECK(found.alive > 12 && !strcmp(found.recorded, "running") && !strcmp(found.message, "m"));
    CHECK(read_process(RUNNING).state == EITP_RUN_PROCESS_ALIVE); /* on a system without boot_id */
    CHECK(read_process("\"pid\": 4242, \"start_time\": 78, \"state\": \"paused\", \"boot_id\": \"boot\"").state ==
          EITP_RUN_PROCESS_VANISHED);
    CHECK(read_process("\"pid\": 4243, \"start_time\": 77, \"state\": \"running\", \"boot_id\": \"boot\"").state ==
          EITP_RUN_PROCESS_VANISHED);
    CHECK(read_process(RUNNING ", \"boot_id\": \"boot before\"").state == EITP_RUN_PROCESS_RESTARTED);
    found = read_process("\"pid\": 1, \"state\": \"finished\", \"boot_id\": \"boot before\"");
    CHECK(found.state == EITP_RUN_PROCESS_ENDED && found.step == -1 && found.saved_step == -1);
    REQUIRE(write_in(root, "proc/4242/stat", "4242 (a) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 77 19 20\n"));
    CHECK(read_process(RUNNING ", \"boot_id\": \"boot\"").state == EITP_RUN_PROCESS_VANISHED);
    REQUIRE(write_in(root, "proc/sys/kernel/hostname", "there\n"));
    CHECK(read_process(RUNNING ", \"boot_id\": \"boot before\"").state == EITP_RUN_PROCESS_ELSEWHERE);
    CHECK(read_process("\"pid\": \"4\", \"state\": 5").state == EITP_RUN_PROCESS_UNKNOWN);
    CHECK(read_process("").state == EITP_RUN_PROCESS_UNKNOWN);
    REQUIRE(write_file("run.json", "{", 1));
    CHECK(!eitp_run_process_read(&host, directory_, &found, &error_) && found.state == EITP_RUN_PROCESS_UNKNOWN);
    scratch_remove(directory_);
}

/* ---- Arguments ---- */

static void null_arguments_are_refused(void) {
    const eitp_host host = eitp_host_default();
    eitp_history *history = NULL;
    eitp_json_document *document = NULL;
    eitp_run_process process;
    CHECK(eitp_history_open(NULL, ".", &history, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_history_open(&host, NULL, &history, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_history_open(&host, ".", NULL, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_history_update(NULL, NULL, &error_) == EITP_ERROR_ARGUMENT);
    eitp_history_close(NULL);
    CHECK(!eitp_history_step(NULL) && !eitp_history_name(NULL, 0) && !eitp_history_points(NULL, "loss", NULL, 0));
    CHECK(isnan(eitp_history_last(NULL, "loss")) && !*eitp_history_lines(NULL, NULL, NULL));
    CHECK(eitp_run_process_read(NULL, ".", &process, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_run_process_read(&host, NULL, &process, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_run_process_read(&host, ".", NULL, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_json_parse(NULL, "1", 1, &document, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_json_parse(&host, NULL, 0, &document, &error_) == EITP_ERROR_FORMAT && !document);
    CHECK(eitp_json_parse(&host, NULL, 1, &document, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_json_parse(&host, "1", 1, NULL, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_json_read_file(&host, NULL, 1, &document, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(!eitp_json_root(NULL) && !eitp_json_member(NULL, "a"));
    REQUIRE_OK(eitp_json_parse(&host, "{\"a\": 1}", 8, &document, &error_), error_);
    CHECK(eitp_json_member(eitp_json_root(document), "a")->integer == 1);
    CHECK(!eitp_json_member(eitp_json_root(document), NULL) && !eitp_json_member(eitp_json_root(document), "b"));
    eitp_json_release(document);
    eitp_json_release(NULL);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(a_summary_and_newer_records_are_one_history),
        TEST(a_summary_may_end_amid_the_records_of_a_step),
        TEST(numbers_that_a_step_gets_later_are_there),
        TEST(updates_find_what_is_new),
        TEST(records_that_a_resume_removes_are_forgotten),
        TEST(what_is_missing_or_damaged_does_no_harm),
        TEST(every_call_may_fail),
        TEST(the_state_of_the_process_is_found),
        TEST(null_arguments_are_refused),
    };
    return RUN_TESTS(tests, argc, argv);
}
