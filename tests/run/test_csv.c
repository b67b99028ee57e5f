/* CSV sinks: their text, and the rows that a resume keeps. */
#include "tests/support/faults.h"
#include "tests/support/own_task.h"

static eitp_error error_;

typedef struct place {
    char directory[512], path[600];
    eitp_host host;
} place;

static int begin_place(place *p) {
    p->host = eitp_host_default();
    if (!scratch_make(p->directory))
        return 0;
    snprintf(p->path, sizeof p->path, "%s/c.csv", p->directory);
    return 1;
}

/* The text of a file, valid until the next call. */
static const char *read_path(const char *path) {
    static char text[16384];
    FILE *file = fopen(path, "rb");
    size_t done = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[done] = 0;
    if (file)
        fclose(file);
    return text;
}

static void write_rows(const place *p, const char *text, size_t size) {
    CHECK(!eitp__write_file(&p->host, p->path, text, size, &error_));
}

static const char *const columns_[] = {"loss", "note", "flag"};

static eitp_record_file *open_csv(const place *p, const char *const *columns, size_t count) {
    eitp_record_file *csv = NULL;
    CHECK_THAT(!eitp_csv_open(&p->host, p->path, columns, count, &csv, &error_), "%s", error_.message);
    return csv;
}

static void add(eitp_record_file *csv, eitp_record_kind kind, int64_t step, const eitp_value *values, size_t count) {
    const eitp_record record = {kind, step, 1.5, 0.25, values, count};
    const eitp_record_sink sink = eitp_record_file_sink(csv);
    CHECK_THAT(!sink.record(sink.user, &record, &error_), "%s", error_.message);
}

static void values_have_columns(void) {
    const eitp_value first[] = {{"loss", EITP_VALUE_NUMBER, 0.1, 0, NULL},
                                {"flag", EITP_VALUE_BOOLEAN, 0, 1, NULL},
                                {"count", EITP_VALUE_INTEGER, 0, -7, NULL}};
    const eitp_value second[] = {{"note", EITP_VALUE_TEXT, 0, 0, "a \"b\", c\nd"},
                                 {"loss", EITP_VALUE_NUMBER, (double)NAN, 0, NULL},
                                 {"x", EITP_VALUE_NUMBER, (double)INFINITY, 0, NULL},
                                 {"y", EITP_VALUE_TEXT, 0, 0, "\"q\""}};
    const eitp_value third[] = {{"loss", EITP_VALUE_NUMBER, (double)-INFINITY, 0, NULL},
                                {"note", EITP_VALUE_TEXT, 0, 0, ""}};
    const eitp_value fourth[] = {{"loss", EITP_VALUE_NUMBER, (double)INFINITY, 0, NULL}};
    static const char expected[] = "kind,step,time,elapsed,loss,note,flag,other\n"
                                   "step,1,1.5,0.25,0.1,,true,\"{\"\"count\"\": -7}\"\n"
                                   "event,1,1.5,0.25,nan,\"a \"\"b\"\", c\nd\",,\"{\"\"x\"\": null, \"\"y\"\": "
                                   "\"\"\\\"\"q\\\"\"\"\"}\"\n"
                                   "evaluation,2,1.5,0.25,-inf,\"\",,\n"
                                   "step,3,1.5,0.25,inf,,,\n";
    place p;
    eitp_record_file *csv;
    REQUIRE(begin_place(&p) && (csv = open_csv(&p, columns_, 3)) != NULL);
    add(csv, EITP_RECORD_STEP, 1, first, 3);
    add(csv, EITP_RECORD_EVENT, 1, second, 4);
    add(csv, EITP_RECORD_EVALUATION, 2, third, 2);
    add(csv, EITP_RECORD_STEP, 3, fourth, 1);
    eitp_record_file_close(csv);
    CHECK_THAT(!strcmp(read_path(p.path), expected), "%s", read_path(p.path));
    scratch_remove(p.directory);
}

static const char old_[] = "kind,step,time,elapsed,x,loss,other\n"
                           "event,0,9,0,,,\"{\"\"event\"\": \"\"a, b\nc\"\"}\"\n"
                           "step,1,8,1,5,0.5,\n"
                           "evaluation,2,7,2,,0.25,\n"
                           "step,3,6,3,5,0.5,\n";

static const char *resume(const place *p, int64_t step, int *evaluated) {
    eitp_record_file *csv = open_csv(p, columns_, 3);
    const eitp_record_sink sink = eitp_record_file_sink(csv);
    *evaluated = 0;
    CHECK_THAT(!sink.resume(sink.user, step, evaluated, &error_), "%s", error_.message);
    eitp_record_file_close(csv);
    return read_path(p->path);
}

static void a_resume_uses_the_header_of_the_file(void) {
    const eitp_value value = {"loss", EITP_VALUE_NUMBER, 4, 0, NULL};
    static const char more[] = "step,2,1.5,0.25,,4,\n";
    const size_t kept = strlen(old_) - strlen("step,3,6,3,5,0.5,\n");
    place p;
    eitp_record_file *csv;
    eitp_record_sink sink;
    int evaluated = 0;
    REQUIRE(begin_place(&p));
    write_rows(&p, old_, sizeof old_ - 1);
    REQUIRE((csv = open_csv(&p, columns_, 3)) != NULL);
    sink = eitp_record_file_sink(csv);
    CHECK(!sink.resume(sink.user, 2, &evaluated, &error_) && evaluated);
    add(csv, EITP_RECORD_STEP, 2, &value, 1);
    eitp_record_file_close(csv);
    CHECK_THAT(!strncmp(read_path(p.path), old_, kept) && !strcmp(read_path(p.path) + kept, more), "%s",
               read_path(p.path));
    /* Without a resume, rows are appended. */
    REQUIRE((csv = open_csv(&p, columns_, 3)) != NULL);
    add(csv, EITP_RECORD_STEP, 2, &value, 1);
    eitp_record_file_close(csv);
    CHECK_THAT(strlen(read_path(p.path)) == kept + 2 * strlen(more), "%s", read_path(p.path));
    scratch_remove(p.directory);
}

/* A resumed run does not record again the rows of its checkpoint's step. */
static void a_resume_knows_what_the_step_has(void) {
    static const char rows[] = "kind,step,time,elapsed,other\nspot,1,9,0,\nstep,2,9,0,\nspot,2,9,0,\nstep,3,9,0,\n"
                               "evaluation,4,9,0,\nspot,4,9,0,\nevent,4,9,0,\n";
    static const int expected[] = {0, 2, 2, 0, 3};
    place p;
    REQUIRE(begin_place(&p));
    for (int64_t step = 0; step <= 4; step++) {
        int evaluated;
        write_rows(&p, rows, sizeof rows - 1);
        resume(&p, step, &evaluated);
        CHECK_THAT(evaluated == expected[step], "step %d: %d", (int)step, evaluated);
    }
    scratch_remove(p.directory);
}

static void rows_after_the_step_are_cut(void) {
    static const int ends[] = {0, 2, 3, 4,
                               5, 5}; /* number of rows kept, by step + 1; a row has a line break in a field
                                                     */
    place p;
    int evaluated;
    REQUIRE(begin_place(&p));
    for (int64_t step = -1; step <= 4; step++) {
        const char *kept, *end = old_;
        for (int i = 0; i < ends[step + 1]; i++)
            end = strchr(end, '\n') + 1;
        end = step >= 0 ? strchr(end, '\n') + 1 : end;
        if (step >= 3)
            end = old_ + strlen(old_);
        write_rows(&p, old_, sizeof old_ - 1);
        kept = resume(&p, step, &evaluated);
        CHECK_THAT(strlen(kept) == (size_t)(end - old_) && !strncmp(kept, old_, strlen(kept)), "step %d: %s", (int)step,
                   kept);
        CHECK(evaluated == (step == 2));
    }
    scratch_remove(p.directory);
}

static void a_torn_end_is_cut_off(void) {
    static const char *const ends[] = {
        "step,3,1", "step,3,6,3,5,0.5,\"{", "step,3,6,3,5,0.5\n", "x\n",
        "\n",       "step,,6,3,5,0.5,,,\n", "step,3,6,3,5,?,\n",  "step,3,6,3,5,0.5,\"?\"\n"};
    place p;
    int evaluated;
    REQUIRE(begin_place(&p));
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char text[1024];
        size_t size = (size_t)snprintf(text, sizeof text, "%s%s", old_, ends[i]);
        for (char *at = text; (at = strchr(at, '?')) != NULL;)
            *at++ = 1;
        for (size_t k = 0; k < size; k++)
            text[k] = text[k] == 1 ? 0 : text[k];
        write_rows(&p, text, size);
        CHECK_THAT(!strcmp(resume(&p, 9, &evaluated), old_), "%s: %s", ends[i], read_path(p.path));
    }
    /* If the header is incomplete or belongs to another table, the file starts again. */
    write_rows(&p, old_, 20);
    CHECK_THAT(!strcmp(resume(&p, 9, &evaluated), ""), "%s", read_path(p.path));
    write_rows(&p, "a,b\n1,2\n", 8);
    CHECK_THAT(!strcmp(resume(&p, 9, &evaluated), ""), "%s", read_path(p.path));
    scratch_remove(p.directory);
}

static void columns_are_checked(void) {
    static const char *const bad[][2] = {{"a", "a"},   {"a", "step"}, {"other", "a"}, {"a", ""},
                                         {"a,b", "c"}, {"a\n", "c"},  {"\"", "c"}};
    place p;
    eitp_record_file *csv = (eitp_record_file *)&p;
    REQUIRE(begin_place(&p));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(eitp_csv_open(&p.host, p.path, bad[i], 2, &csv, &error_) == EITP_ERROR_ARGUMENT && !csv);
        CHECK_THAT(strstr(error_.message, "column"), "%s", error_.message);
    }
    CHECK(eitp_csv_open(&p.host, p.path, NULL, 2, &csv, &error_) == EITP_ERROR_ARGUMENT && !csv);
    CHECK(eitp_csv_open(NULL, p.path, NULL, 0, &csv, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(!eitp_record_file_sink(NULL).record);
    eitp_record_file_close(NULL);
    scratch_remove(p.directory);
}

/* ---- Runs ---- */

static char folder_[600]; /* directory of the last run's records */

static const char *in_log_folder(const place *p, const char *name) {
    const size_t size = strlen(p->directory);
    CHECK(!strncmp(folder_, p->directory, size) && !strncmp(folder_ + size, "/logs/of/run/out-", 17));
    return scratch_path(folder_, name);
}

static eitp_status run_once(const place *p, const char *report_to, int64_t steps, int64_t log_every,
                            eitp_run_resume resumes) {
    const eitp_host host = eitp_host_default();
    eitp_run_config config = eitp_run_config_default();
    char log[600];
    eitp_run *made = NULL;
    own o;
    eitp_status status;
    snprintf(log, sizeof log, "%s/logs/of/run", p->directory);
    config.directory = scratch_path(p->directory, "out");
    config.log_dir = log;
    config.report_to = report_to;
    config.steps = steps;
    config.log_every = log_every;
    config.eval_steps = 0;
    config.save_steps = 3;
    config.resume = resumes;
    config.memory_check_seconds = -1;
    memset(&o, 0, sizeof o);
    status = own_begin(&o, &host, "fp32", OWN_ROW, &error_);
    if (!status)
        status = own_train(&o, &error_);
    if (!status)
        status = eitp_run_open(&host, &config, &made, &error_);
    if (!status)
        status = eitp_run_train(made, o.trainer, NULL, &error_);
    snprintf(folder_, sizeof folder_, "%s", made ? eitp_run_records_directory(made) : "");
    eitp_run_close(made);
    own_end(&o);
    return status;
}

static int count_of(const char *text, const char *word) {
    int count = 0;
    for (; (text = strstr(text, word)) != NULL; text += strlen(word))
        count++;
    return count;
}

static void a_run_writes_every_few_steps(void) {
    place p;
    const char *text;
    REQUIRE(begin_place(&p));
    CHECK_THAT(!run_once(&p, " csv , jsonl", 9, 4, EITP_RESUME_NEWEST), "%s", error_.message);
    text = read_path(in_log_folder(&p, "metrics.csv"));
    CHECK_THAT(!strncmp(text, "kind,step,time,elapsed,loss,lr,", 31), "%s", text);
    CHECK_THAT(count_of(text, "\nstep,") == 4 && strstr(text, "\nstep,1,") && strstr(text, "\nstep,4,") &&
                   strstr(text, "\nstep,8,") && strstr(text, "\nstep,9,"),
               "%s", text);
    CHECK_THAT(count_of(text, "\nevaluation,9,") == 1 && count_of(text, ",saved,info,") == 3, "%s", text);
    text = read_path(in_log_folder(&p, "metrics.jsonl"));
    CHECK_THAT(count_of(text, ", \"loss\": ") == 9, "%s", text);
    /* A resume repeats nothing. */
    CHECK_THAT(!run_once(&p, "csv", 12, 4, EITP_RESUME_NEWEST), "%s", error_.message);
    text = read_path(in_log_folder(&p, "metrics.csv"));
    CHECK_THAT(count_of(text, "\nstep,") == 5 && count_of(text, "\nstep,9,") == 1 && count_of(text, "kind,step") == 1,
               "%s", text);
    scratch_remove(p.directory);
}

static void unknown_reports_are_refused(void) {
    place p;
    eitp_path_info info;
    REQUIRE(begin_place(&p));
    CHECK(run_once(&p, "jsonl,sqlite", 3, 1, EITP_RESUME_NEWEST) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "unknown destination 'sqlite' (choose from jsonl, tensorboard, csv; none)"), "%s",
               error_.message);
    CHECK_THAT(!run_once(&p, "none", 3, 1, EITP_RESUME_NEWEST), "%s", error_.message);
    CHECK(!eitp__path_info(&p.host, scratch_path(p.directory, "logs"), &info, NULL) && info.kind == EITP_PATH_MISSING);
    scratch_remove(p.directory);
}

/* A run that was created but never trained leaves no record files or directories. */
static void an_unused_run_leaves_nothing(void) {
    const eitp_host host = eitp_host_default();
    eitp_run_config config = eitp_run_config_default();
    eitp_path_info info;
    eitp_run *made = NULL;
    place p;
    char log[600], out[600];
    REQUIRE(begin_place(&p));
    snprintf(log, sizeof log, "%s/logs/of/run", p.directory);
    snprintf(out, sizeof out, "%s/out", p.directory);
    config.directory = out;
    config.report_to = "csv,tensorboard,jsonl";
    for (int i = 0; i < 2; i++) {
        config.log_dir = i ? log : NULL;
        CHECK_THAT(!eitp_run_open(&host, &config, &made, &error_), "%s", error_.message);
        CHECK(!eitp__path_info(&host, scratch_path(eitp_run_records_directory(made), "tensorboard"), &info, NULL) &&
              info.kind == EITP_PATH_DIRECTORY);
        config.report_to = i ? "jsonl" : config.report_to;
        CHECK_THAT(!eitp_run_set_config(made, &config, &error_), "%s", error_.message);
        eitp_run_close(made);
        CHECK(!eitp__path_info(&host, out, &info, NULL) && info.kind == EITP_PATH_MISSING);
        CHECK(!eitp__path_info(&host, scratch_path(p.directory, "logs"), &info, NULL) &&
              info.kind == EITP_PATH_MISSING);
    }
    scratch_remove(p.directory);
}

/* Each allocation while opening a file fails once. */
static void missing_memory_is_reported(void) {
    place p;
    faults f;
    int has_failed = 1;
    REQUIRE(begin_place(&p));
    for (long n = 1; has_failed; n++) {
        eitp_record_file *csv = NULL;
        eitp_status status;
        faults_begin(&f);
        f.fail_allocation = n;
        status = eitp_csv_open(&f.host, p.path, columns_, EITP__COUNT(columns_), &csv, &error_);
        CHECK_THAT(!status == (csv != NULL) && (!status || status == EITP_ERROR_MEMORY), "%ld: %s", n, error_.message);
        eitp_record_file_close(csv);
        has_failed = faults_end(&f);
    }
    scratch_remove(p.directory);
}

static const test_case tests[] = {
    TEST(values_have_columns),
    TEST(a_resume_uses_the_header_of_the_file),
    TEST(a_resume_knows_what_the_step_has),
    TEST(rows_after_the_step_are_cut),
    TEST(a_torn_end_is_cut_off),
    TEST(columns_are_checked),
    TEST(a_run_writes_every_few_steps),
    TEST(unknown_reports_are_refused),
    TEST(an_unused_run_leaves_nothing),
    TEST(missing_memory_is_reported),
};

int main(int argc, char **argv) {
    return RUN_TESTS(tests, argc, argv);
}
