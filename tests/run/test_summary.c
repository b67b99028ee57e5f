/* The summary of records: few points for any number of steps, and the same whether made from a file or by the run. */
#include "tests/support/trainer_run.h"
#include "tests/support/summary_text.h"

static eitp__summary_key *key_of(eitp__summary *summary, const char *name) {
    for (size_t i = 0; i < summary->count; i++) {
        if (!strcmp(summary->keys[i].name, name))
            return &summary->keys[i];
    }
    return NULL;
}

static eitp__summary_point point_of(eitp__summary *summary, const char *name, size_t at) {
    return eitp__summary_point_at(summary, key_of(summary, name), at);
}

static double wave(int64_t step) {
    return sin(0.001 * (double)step) + 1e-3 * (double)(step % 7);
}

/* ---- Points ---- */

/* Checks the mean, minimum and maximum of the steps of a point. */
static void check_point(const eitp__summary *summary, const eitp__summary_key *key, int64_t at, int64_t steps) {
    const eitp__summary_point point = eitp__summary_point_at(summary, key, (size_t)at);
    double sum = 0, least = (double)INFINITY, greatest = -(double)INFINITY;
    int64_t count = 0;
    for (int64_t step = at * summary->width + 1; step <= (at + 1) * summary->width && step <= steps; step++, count++) {
        const double value = (double)(float)wave(step);
        sum += value;
        least = value < least ? value : least;
        greatest = value > greatest ? value : greatest;
    }
    CHECK_THAT((int64_t)point.count == count, "%s: point %lld: %u of %lld", key->name, (long long)at, point.count,
               (long long)count);
    CHECK(!count || fabs((double)point.mean - sum / (double)count) < 1e-4);
    CHECK(!count || ((double)point.least == least && (double)point.greatest == greatest));
}

static void points_are_of_equal_steps(void) {
    static const int64_t lengths[] = {1, 31, 2000, 2001, 4001, 100000};
    const eitp_host host = eitp_host_default();
    for (size_t i = 0; i < EITP__COUNT(lengths); i++) {
        eitp__summary summary;
        eitp__summary_key *key;
        REQUIRE_OK(eitp__summary_init(&summary, &host, EITP__SUMMARY_RUN_POINTS, &error_), error_);
        for (int64_t step = 1; step <= lengths[i]; step++)
            eitp__summary_add(&summary, step, "loss", 4, wave(step));
        key = key_of(&summary, "loss");
        CHECK(summary.count == 1 && key);
        CHECK(summary.width == 1 || lengths[i] > EITP__SUMMARY_POINTS * summary.width / 2);
        for (int64_t at = 0; key && at < EITP__SUMMARY_POINTS; at++)
            check_point(&summary, key, at, lengths[i]);
        eitp__summary_release(&summary);
    }
}

/* With this many numbers in each step, the pool is exhausted long before one of them has all its points. */
static void numbers_share_the_points(void) {
    enum { STEPS = 3000, NAMES = EITP__SUMMARY_KEYS };
    const eitp_host host = eitp_host_default();
    eitp__summary summary, copy;
    eitp__buffer texts[2];
    char name[20];
    REQUIRE_OK(eitp__summary_init(&summary, &host, EITP__SUMMARY_RUN_POINTS, &error_), error_);
    REQUIRE_OK(eitp__summary_init(&copy, &host, EITP__SUMMARY_RUN_POINTS, &error_), error_);
    for (int64_t step = 1; step <= STEPS; step++) {
        /* The last ones start late, when others have all chunks. */
        for (int i = 0; i < NAMES && (i < NAMES - 40 || step > STEPS / 2); i++) {
            snprintf(name, sizeof name, "number %d", i);
            eitp__summary_add(&summary, step, name, strlen(name), wave(step));
        }
    }
    summary.step = STEPS;
    CHECK(summary.count == NAMES && summary.width > 2 && summary.width <= 16);
    CHECK(summary.taken * EITP__SUMMARY_CHUNK <= EITP__SUMMARY_RUN_POINTS);
    for (int i = 0; i < NAMES - 40; i++) {
        for (int64_t at = 0; at < EITP__SUMMARY_POINTS; at++)
            check_point(&summary, &summary.keys[i], at, STEPS);
    }
    for (int64_t at = STEPS / 2 / summary.width + 1; at < EITP__SUMMARY_POINTS; at++)
        check_point(&summary, &summary.keys[NAMES - 1], at, STEPS);
    eitp__summary_add_line(&summary, "{\"step\": 3, \"event\": \"saved\"}", 29);
    eitp__summary_copy(&copy, &summary);
    for (int i = 0; i < 2; i++) {
        eitp__buffer_init(&texts[i], &host);
        summary_write_(i ? &copy : &summary, &texts[i]);
    }
    CHECK(texts[0].size > 100000 && !strcmp(texts[0].data, texts[1].data));
    for (int i = 0; i < 2; i++)
        eitp__buffer_release(&texts[i]);
    eitp__summary_release(&summary);
    eitp__summary_release(&copy);
}

/* Numbers with the longest text: a part has room for all points of one. */
static void a_part_has_room_for_a_number(void) {
    const eitp_host host = eitp_host_default();
    eitp__summary summary;
    eitp__buffer text;
    char name[EITP__RECORD_NAME_SIZE];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    REQUIRE_OK(eitp__summary_init(&summary, &host, EITP__SUMMARY_RUN_POINTS, &error_), error_);
    eitp__buffer_init(&text, &host);
    summary.width = (int64_t)1 << 40;
    for (int64_t at = 0; at < EITP__SUMMARY_POINTS; at++) {
        const int64_t step = at * summary.width + 1;
        eitp__summary_add(&summary, step, name, strlen(name), -1.23456e-30);
        summary.points[at].count = UINT32_MAX;
        summary.step = step;
    }
    CHECK(eitp__summary_write_part(&summary, 1, &text));
    CHECK_THAT(text.size > EITP__SUMMARY_PART / 2 && text.size < EITP__SUMMARY_PART, "%zu bytes", text.size);
    eitp__buffer_release(&text);
    eitp__summary_release(&summary);
}

/* ---- A million records ---- */

static size_t held_, most_;

static void *allocate_counted(void *user, size_t size, size_t alignment) {
    const eitp_host host = eitp_host_default();
    (void)user;
    held_ += size;
    most_ = held_ > most_ ? held_ : most_;
    return host.allocator.allocate(host.allocator.user, size, alignment);
}

static void release_counted(void *user, void *memory, size_t size) {
    const eitp_host host = eitp_host_default();
    (void)user;
    held_ -= size;
    host.allocator.release(host.allocator.user, memory, size);
}

static void a_million_records_need_no_more_memory(void) {
    enum { STEPS = 1000000, NAMES = 4 };
    static const char *const names[NAMES] = {"loss", "lr", "grad_norm", "step_time_s"};
    eitp_host host = eitp_host_default();
    eitp__summary summary;
    host.allocator.allocate = allocate_counted;
    host.allocator.release = release_counted;
    REQUIRE_OK(eitp__summary_init(&summary, &host, EITP__SUMMARY_RUN_POINTS, &error_), error_);
    for (int64_t step = 1; step <= STEPS; step++) {
        for (int i = 0; i < NAMES; i++)
            eitp__summary_add(&summary, step, names[i], strlen(names[i]), 1);
        if (step % 1000 == 0)
            eitp__summary_add_line(&summary, "{\"step\": 1, \"event\": \"saved\", \"message\": \"saved in 1.0 s\"}",
                                   57);
    }
    CHECK_THAT(most_ == eitp__summary_bytes(EITP__SUMMARY_RUN_POINTS), "%zu bytes", most_);
    CHECK(point_of(&summary, "lr", 100).count == (uint32_t)summary.width);
    eitp__summary_release(&summary);
    CHECK(!held_);
}

static void old_lines_are_left_out(void) {
    enum { LINES = 12000 };
    const eitp_host host = eitp_host_default();
    eitp__summary summary;
    int64_t kept = 0;
    char line[120];
    REQUIRE_OK(eitp__summary_init(&summary, &host, EITP__SUMMARY_RUN_POINTS, &error_), error_);
    for (int i = 0; i < LINES; i++) {
        snprintf(line, sizeof line, "{\"step\": %d, \"event\": \"saved\", \"message\": \"saved number %d of the run\"}",
                 i, i);
        CHECK(eitp__summary_add_record(&summary, line, strlen(line)));
    }
    for (size_t i = 0; i < summary.lines.size; i++)
        kept += summary.lines.data[i] == '\n';
    CHECK(summary.lines.size <= EITP__SUMMARY_LINES && kept > LINES / 4 && kept + summary.left_out == LINES);
    CHECK(strstr(summary.lines.data, "number 11999 ") && summary.lines.data[0] == '{');
    eitp__summary_release(&summary);
}

/* ---- Records as text ---- */

static void foreign_and_torn_records_do_no_harm(void) {
    static const char *const refused[] = {"",        "{",           "{\"step\": 3", "\"step\": 3}", "{\"loss\": 3}",
                                          "{\"st\\", "{\"a\": \"b}"};
    static const char *const taken[] = {"{\"step\": 1, \"loss\": 2, \"time\": 5, \"elapsed\": 6}",
                                        "{\"step\": 2, \"loss\": null, \"applied\": false}",
                                        "{\"later\": {\"loss\": 9, \"step\": 7}, \"list\": [1, {\"loss\": 8}], "
                                        "\"text\": \"a, \\\"loss\\\": 7}\", \"step\": 3, "
                                        "\"loss\": 4}",
                                        "{\"step\": 4, \"loss\": 1e999, \"odd\\\"name\": 1, \"applied\": true}"};
    const eitp_host host = eitp_host_default();
    eitp__summary summary;
    REQUIRE_OK(eitp__summary_init(&summary, &host, EITP__SUMMARY_RUN_POINTS, &error_), error_);
    for (size_t i = 0; i < EITP__COUNT(refused); i++)
        CHECK_THAT(!eitp__summary_add_record(&summary, refused[i], strlen(refused[i])), "%s", refused[i]);
    CHECK(!summary.step);
    for (size_t i = 0; i < EITP__COUNT(taken); i++)
        CHECK_THAT(eitp__summary_add_record(&summary, taken[i], strlen(taken[i])), "%s", taken[i]);
    CHECK(summary.count == 2 && summary.step == 4 && key_of(&summary, "loss") && key_of(&summary, "applied"));
    CHECK(point_of(&summary, "loss", 0).count == 1 && !point_of(&summary, "loss", 1).count);
    CHECK(!(point_of(&summary, "loss", 2).mean < 4) && !point_of(&summary, "loss", 3).count);
    CHECK(!point_of(&summary, "applied", 1).mean && point_of(&summary, "applied", 3).mean > 0);
    eitp__summary_release(&summary);
}

/* ---- Summaries of runs ---- */

static char *read_text(const char *directory, const char *name, eitp__buffer *content) {
    const eitp_host host = eitp_host_default();
    char path[800];
    static eitp_host kept;
    kept = host;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    eitp__buffer_init(content, &kept);
    return eitp__read_file(&host, path, (size_t)1 << 24, content, &error_) ? NULL : content->data;
}

/* The summary of a metrics.jsonl equals the summary.jsonl in the same directory. */
static void check_files_agree(const char *directory, int64_t steps) {
    const eitp_host host = eitp_host_default();
    eitp__summary summary;
    eitp__buffer expected, found;
    char path[800], words[40];
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    eitp__buffer_init(&expected, &host);
    REQUIRE_OK(eitp__summary_init(&summary, &host, EITP__SUMMARY_RUN_POINTS, &error_), error_);
    CHECK_THAT(!eitp__summary_read(&summary, path, &error_), "%s", error_.message);
    summary_write_(&summary, &expected);
    REQUIRE(read_text(directory, EITP__SUMMARY_FILE, &found));
    CHECK_THAT(!strcmp(found.data, expected.data), "%s\ninstead of\n%s", found.data, expected.data);
    snprintf(words, sizeof words, "{\"summary\": 1, \"step\": %lld,", (long long)steps);
    CHECK(!strncmp(found.data, words, strlen(words)) && strstr(found.data, "{\"key\": \"loss\", \"step\": [1,2,3"));
    CHECK(strstr(found.data, "\"val_loss\": ") && strstr(found.data, "\"event\": \"saved\""));
    eitp__buffer_release(&found);
    eitp__buffer_release(&expected);
    eitp__summary_release(&summary);
}

static void train_with(const char *directory, const eitp_host *run_host, const eitp_run_config *config,
                       size_t *planned) {
    const eitp_host host = eitp_host_default();
    eitp_run *made = NULL;
    variant v = default_variant();
    run trained;
    REQUIRE_OK(make_run(&trained, &host, &v, directory, &error_), error_);
    *planned = eitp_run_record_bytes(config, &trained.task);
    REQUIRE_OK(eitp_run_open(run_host, config, &made, &error_), error_);
    CHECK_THAT(!eitp_run_train(made, trained.trainer, NULL, &error_), "%s", error_.message);
    eitp_run_close(made);
    end_run(&trained);
}

static void train_to(const char *directory, const char *output, int64_t steps) {
    const eitp_host host = eitp_host_default();
    eitp_run_config config = eitp_run_config_default();
    size_t planned;
    config.directory = output;
    config.resume = EITP_RESUME_NEWEST;
    config.steps = steps;
    config.eval_steps = config.save_steps = 2;
    config.perf_every = 2;
    config.eval_samples = 2;
    train_with(directory, &host, &config, &planned);
}

/* A description of the maximum length. */
static eitp_status describe_long(void *user, const char **text, eitp_error *error) {
    static char object[EITP_MAX_DESCRIPTION + 1];
    (void)user;
    (void)error;
    memset(object, 'x', sizeof object - 1);
    memcpy(object, "{\"long\": \"", 10);
    memcpy(object + sizeof object - 3, "\"}", 3);
    *text = object;
    return EITP_OK;
}

/* A run's allocations stay below the bound that plans use, at every level, with every file, and resumed. */
static void records_stay_below_their_bound(void) {
    static const char *const reports[] = {"none", "jsonl", "jsonl", "jsonl,csv,tensorboard"};
    eitp_host host = eitp_host_default();
    char directory[512], output[600];
    host.allocator.allocate = allocate_counted;
    host.allocator.release = release_counted;
    for (size_t i = 0; i < EITP__COUNT(reports); i++) {
        eitp_run_config config = eitp_run_config_default();
        size_t planned;
        REQUIRE(scratch_make(directory) && write_text(directory));
        snprintf(output, sizeof output, "%s/out", directory);
        config.directory = output;
        config.report_to = reports[i];
        config.describe = i > 1 ? describe_long : NULL;
        config.monitor = EITP_MONITOR_FULL;
        config.log_full_every = config.perf_every = config.metrics_every = config.log_every = 1;
        config.metrics_window = 256;
        config.resume = EITP_RESUME_NEWEST;
        config.eval_steps = config.save_steps = 2;
        config.eval_samples = 1;
        for (config.steps = 3; config.steps <= 5; config.steps += 2) {
            most_ = held_ = 0;
            train_with(directory, &host, &config, &planned);
            CHECK_THAT(most_ > 0 && most_ <= planned, "'%s': %zu bytes of %zu", config.report_to, most_, planned);
            CHECK(!held_);
        }
        scratch_remove(directory);
    }
    CHECK(!eitp_run_record_bytes(NULL, NULL));
}

static void a_run_writes_it_and_a_resume_continues_it(void) {
    char directory[512], output[600];
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    train_to(directory, output, 5);
    check_files_agree(output, 5);
    train_to(directory, output, 9);
    check_files_agree(output, 9);
    scratch_remove(directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(points_are_of_equal_steps),
        TEST(numbers_share_the_points),
        TEST(a_part_has_room_for_a_number),
        TEST(a_million_records_need_no_more_memory),
        TEST(old_lines_are_left_out),
        TEST(foreign_and_torn_records_do_no_harm),
        TEST(a_run_writes_it_and_a_resume_continues_it),
        TEST(records_stay_below_their_bound),
    };
    return RUN_TESTS(tests, argc, argv);
}
