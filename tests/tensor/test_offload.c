/* Offloaded variables: the worker thread, the order of reads and writes of staging areas, and failing disks. */
#include "tests/support/faults.h"
#include "tests/support/training.h"

static eitp_error error_;

/* ---- The worker ---- */

typedef struct job {
    int number;
    int *next; /* the expected number of the next job */
    int fails;
} job;

static eitp_status run_job(void *argument, eitp_error *error) {
    job *j = (job *)argument;
    if (j->fails)
        return eitp__fail(error, EITP_ERROR_IO, "job %d fails", j->number);
    if (*j->next == j->number)
        ++*j->next;
    return EITP_OK;
}

enum { JOBS = 500 };

/* More jobs than fit in the queue run in order. Waiting for one job waits for all before it. */
static void jobs_run_in_order(void) {
    const eitp_host host = eitp_host_default();
    eitp__worker *worker = NULL;
    job jobs[JOBS];
    int next = 0;
    uint64_t last = 0;
    REQUIRE_OK(eitp__worker_create(&host, 64, &worker, &error_), error_);
    for (int i = 0; i < JOBS; i++) {
        jobs[i].number = i;
        jobs[i].next = &next;
        jobs[i].fails = 0;
        last = eitp__worker_submit(worker, run_job, &jobs[i]);
        CHECK(last == (uint64_t)i + 1);
        if (i % 100 == 50) {
            CHECK(!eitp__worker_wait(worker, last, &error_));
            CHECK_THAT(next == i + 1, "%d of %d", next, i + 1);
        }
    }
    CHECK(!eitp__worker_finish(worker, &error_) && next == JOBS);
    /* A submitted job is finished before the worker ends even if nothing waits for it. */
    next = 0;
    for (int i = 0; i < 40; i++)
        eitp__worker_submit(worker, run_job, &jobs[i]);
    eitp__worker_destroy(worker);
    CHECK(next == 40);
}

static void failed_job_cancels_later_jobs(void) {
    const eitp_host host = eitp_host_default();
    eitp__worker *worker = NULL;
    job jobs[6];
    int next = 0;
    REQUIRE_OK(eitp__worker_create(&host, 64, &worker, &error_), error_);
    for (int i = 0; i < 6; i++) {
        jobs[i].number = i;
        jobs[i].next = &next;
        jobs[i].fails = i == 2 || i == 4;
        eitp__worker_submit(worker, run_job, &jobs[i]);
    }
    CHECK(eitp__worker_finish(worker, &error_) == EITP_ERROR_IO && !strcmp(error_.message, "job 2 fails"));
    CHECK(next == 2);
    eitp__worker_submit(worker, run_job, &jobs[2 + 1]);
    next = 3;
    CHECK(!eitp__worker_finish(worker, &error_) && (next == 3 || next == 4));
    eitp__worker_destroy(worker);
}

/* ---- Training steps with offloaded variables ---- */

/* Location of offloaded variables: a file, or host memory, pinned or pageable, if the device has its own memory. */
typedef struct place {
    const char *name;
    int has_file, pageable;
} place;

static const place places[] = {{"a file", 1, 0}, {"pinned memory", 0, 0}, {"pageable memory", 0, 1}};

static int place_count(void) {
    const char *device = getenv("EITP_BACKEND");
    return device && *device && strcmp(device, "cpu") ? 3 : 1;
}

static const place *place_ = &places[0];

static eitp_status open_offloaded(const eitp_host *host, const char *path, eitp_offload offload, const char *precision,
                                  eitp_context **context, eitp_error *error) {
    eitp_context_config config = eitp_context_config_default();
    config.pin_memory = !place_->pageable;
    config.host = *host;
    config.threads = 2;
    config.precision = precision;
    config.offload = offload;
    config.offload_path = place_->has_file ? path : NULL;
    return eitp_context_create(&config, context, error);
}

static eitp_status begin_offloaded(training *s, const eitp_host *host, const char *path, eitp_offload offload,
                                   eitp_error *error) {
    eitp_optimizer_config adamw = eitp_optimizer_config_default();
    eitp_context *context;
    eitp_status status;
    memset(s, 0, sizeof *s);
    adamw.piece_bytes = 65536;
    status = open_offloaded(host, path, offload, NULL, &context, error);
    return status ? status : training_begin(s, context, &wide_transformer, &adamw, error);
}

static void end_offloaded(training *s) {
    training_end(s);
    eitp_context_destroy(s->context);
}

static uint32_t state_of(const training *s) {
    uint32_t crc = 0;
    for (size_t i = 0; i < eitp_variable_count(s->context); i++) {
        eitp_variable variable = eitp_variable_at(s->context, i);
        void *bytes = malloc(variable.size);
        CHECK(!eitp_variable_read(s->context, variable.name, 0, bytes, variable.size, &error_));
        crc = eitp__crc32c(crc, bytes, variable.size);
        free(bytes);
    }
    return crc;
}

/* Bytes that a step has changed are written, or being written, before they are read again. */
static void check_windows(const eitp_plan *plan) {
    int changed = 0, before = 0, step = 0;
    for (size_t i = 0; i < plan->staging_count; i++) {
        const eitp__staging *a = &plan->stagings[i];
        changed += a->is_dirty;
        CHECK(0 <= a->start && a->start <= a->first && a->first <= a->last && a->last < a->end);
        CHECK(a->end <= (int)plan->step_count);
        before += a->start < a->first;
        for (int w = a->previous; w >= 0; w = plan->stagings[w].previous) {
            const eitp__staging *b = &plan->stagings[w];
            int overlap = a->offset < b->offset + b->size && b->offset < a->offset + a->size;
            CHECK(b->variable == a->variable && b->first <= a->first);
            CHECK_THAT(!overlap || !b->is_dirty || a->start > b->last, "read at %d, changed until %d", a->start,
                       b->last);
            CHECK(!overlap || !a->is_dirty || a->first > b->last);
        }
    }
    CHECK(changed > 10);
    CHECK_THAT(before > (int)plan->staging_count / 2, "%d of %d are read ahead", before, (int)plan->staging_count);
    for (size_t i = 0; i < plan->transfer_count; i++) {
        CHECK(plan->transfers[i].step >= step);
        step = plan->transfers[i].step;
    }
}

static void offloaded_steps_have_the_same_bits(void) {
    const eitp_host host = eitp_host_default();
    char directory[512], path[600];
    uint32_t reference = 0;
    size_t whole = 0;
    REQUIRE(scratch_make(directory));
    snprintf(path, sizeof path, "%s/offload", directory);
    for (int offload = EITP_OFFLOAD_NONE; offload <= EITP_OFFLOAD_ALL; offload++) {
        training s;
        size_t resident = 0;
        REQUIRE_OK(begin_offloaded(&s, &host, path, (eitp_offload)offload, &error_), error_);
        transformer_initialize(s.context);
        for (int step = 1; step <= 3; step++)
            REQUIRE_OK(training_step(&s, step, 0.5f, NULL, &error_), error_);
        for (int role = 0; role <= EITP_REMAINDER; role++)
            resident += eitp_context_variable_bytes(s.context, (eitp_role)role);
        if (!offload) {
            reference = state_of(&s);
            whole = resident;
            CHECK(!s.plan->staging_count && !eitp_plan_statistics(s.plan).file_reads);
        } else {
            eitp_plan_stats stats = eitp_plan_statistics(s.plan);
            CHECK(state_of(&s) == reference);
            CHECK(stats.file_reads >= stats.file_writes && stats.file_writes > 0);
            CHECK_THAT((double)resident < (offload == EITP_OFFLOAD_ALL ? 0.4 : 0.6) * (double)whole, "%zu of %zu",
                       resident, whole);
            check_windows(s.plan);
            /* The file is already unlinked, so nothing remains however the process ends. */
            CHECK(access(path, F_OK) != 0);
        }
        end_offloaded(&s);
    }
    scratch_remove(directory);
}

/* A profiler receives every step, and profiling does not change the bits. */
static void count_step(void *user, const eitp_profile *profile) {
    (void)profile;
    ++*(int *)user;
}

static void an_offloaded_plan_can_be_profiled(void) {
    const eitp_host host = eitp_host_default();
    char directory[512], path[600];
    uint32_t states[2];
    REQUIRE(scratch_make(directory));
    snprintf(path, sizeof path, "%s/offload", directory);
    for (int profiled = 0; profiled < 2; profiled++) {
        training s;
        int steps = 0;
        eitp_profiler profiler;
        REQUIRE_OK(begin_offloaded(&s, &host, path, EITP_OFFLOAD_ALL, &error_), error_);
        transformer_initialize(s.context);
        profiler.user = &steps;
        profiler.step = count_step;
        eitp_context_profile(s.context, profiled ? &profiler : NULL);
        REQUIRE_OK(training_step(&s, 1, 0.5f, NULL, &error_), error_);
        CHECK(steps == (profiled ? eitp_plan_statistics(s.plan).nodes : 0));
        states[profiled] = state_of(&s);
        end_offloaded(&s);
    }
    CHECK(states[0] == states[1]);
    scratch_remove(directory);
}

/* Rows have their new values just after they change, and so does the whole variable much later. */
static void changed_variables_are_read_back(void) {
    const eitp_host host = eitp_host_default();
    const int64_t shape[2] = {100, 100};
    char directory[512], path[600];
    float reference[3] = {0, 0, 0}, sums[3];
    REQUIRE(scratch_make(directory));
    snprintf(path, sizeof path, "%s/offload", directory);
    for (int offload = EITP_OFFLOAD_NONE; offload <= EITP_OFFLOAD_ALL; offload += EITP_OFFLOAD_ALL) {
        eitp_context *context = NULL;
        eitp_graph *graph = NULL;
        eitp_plan *plan = NULL;
        eitp_tensor *w, *changed, *rows, *others = NULL, *all;
        REQUIRE_OK(open_offloaded(&host, path, (eitp_offload)offload, NULL, &context, &error_), error_);
        REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
        w = eitp_parameter(graph, "w", 2, shape);
        changed = eitp_accumulate(w, eitp_fill(graph, EITP_F32, 2, shape, 0.25), NULL);
        rows = eitp_output(eitp_sum(eitp_exp(eitp__rows(changed, 40, 100)), EITP_ALL_DIMENSIONS, 0));
        for (int i = 0; i < 5; i++) {
            char name[16];
            eitp_tensor *other;
            snprintf(name, sizeof name, "u%d", i);
            other = eitp_exp(eitp_parameter(graph, name, 2, shape));
            others = others ? eitp_add(others, other) : other;
        }
        others = eitp_output(eitp_sum(others, EITP_ALL_DIMENSIONS, 0));
        all = eitp_output(eitp_sum(eitp_exp(changed), EITP_ALL_DIMENSIONS, 0));
        REQUIRE_OK(eitp_plan_create(graph, &plan, &error_), error_);
        for (size_t i = 0; i < eitp_variable_count(context); i++)
            REQUIRE_OK(eitp_variable_fill_normal(context, eitp_variable_at(context, i).name, 0, 0.1, 3, &error_),
                       error_);
        for (int run = 0; run < 2; run++)
            REQUIRE_OK(eitp_plan_execute(plan, &error_), error_);
        REQUIRE_OK(eitp_plan_read(plan, rows, &sums[0], sizeof(float), &error_), error_);
        REQUIRE_OK(eitp_plan_read(plan, all, &sums[1], sizeof(float), &error_), error_);
        REQUIRE_OK(eitp_plan_read(plan, others, &sums[2], sizeof(float), &error_), error_);
        CHECK(sums[0] > 6000 * 1.6f && sums[1] > 10000 * 1.6f);
        if (!offload)
            memcpy(reference, sums, sizeof sums);
        CHECK(!memcmp(reference, sums, sizeof sums));
        eitp_plan_destroy(plan);
        eitp_graph_destroy(graph);
        eitp_context_destroy(context);
    }
    scratch_remove(directory);
}

/* ---- Variables by name ---- */

static void offloaded_variables_are_read_and_written(void) {
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    const int64_t shape[2] = {200, 130}, small[1] = {100};
    char directory[512], path[600];
    REQUIRE(scratch_make(directory));
    snprintf(path, sizeof path, "%s/offload", directory);
    for (size_t p = 0; p < EITP__COUNT(precisions); p++) {
        const eitp_host host = eitp_host_default();
        eitp_context *context = NULL;
        eitp_graph *graph = NULL;
        eitp_dtype dtype;
        float values[260], read[260], out = 0;
        eitp_tensor *w, *vector;
        REQUIRE_OK(open_offloaded(&host, path, EITP_OFFLOAD_ALL, precisions[p], &context, &error_), error_);
        REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
        dtype = eitp_context_precision(context);
        w = eitp_variable_tensor(graph, "w", EITP_PARAMETER, dtype, 2, shape);
        if (dtype != EITP_F32)
            remainder_variable(w, dtype == EITP_BF16 ? EITP_I16 : EITP_F32);
        vector = eitp_parameter(graph, "b", 1, small);
        CHECK(w && vector && eitp_variable_at(context, 0).offloaded);
        CHECK(!eitp_variable_at(context, eitp_variable_count(context) - 1).offloaded);
        CHECK(eitp_context_offload(context) == EITP_OFFLOAD_ALL);
        /* Zero until they are written. */
        REQUIRE_OK(eitp_variable_read_f32(context, "w", 25999, &out, 1, &error_), error_);
        CHECK(out == 0);
        for (int i = 0; i < 260; i++)
            values[i] = (float)i * 0.37f - 20.123456f;
        REQUIRE_OK(eitp_variable_fill(context, "w", 1.5, &error_), error_);
        REQUIRE_OK(eitp_variable_write_f32(context, "w", 777, values, 260, &error_), error_);
        REQUIRE_OK(eitp_variable_read_f32(context, "w", 777, read, 260, &error_), error_);
        CHECK(!memcmp(values, read, sizeof read));
        REQUIRE_OK(eitp_variable_read_f32(context, "w", 776, read, 1, &error_), error_);
        CHECK(read[0] == 1.5f);
        REQUIRE_OK(eitp_variable_read_f32(context, "w", 25999, &out, 1, &error_), error_);
        CHECK(out == 1.5f);
        CHECK(eitp_variable_read_f32(context, "w", 25999, read, 2, &error_) == EITP_ERROR_ARGUMENT);
        CHECK(eitp_context_variable_bytes(context, EITP_PARAMETER) == sizeof(float) * 100);
        eitp_graph_destroy(graph);
        eitp_context_destroy(context);
    }
    scratch_remove(directory);
}

static void unsupported_offloads_are_refused(void) {
    const eitp_host host = eitp_host_default();
    const int64_t shape[2] = {100, 100};
    char directory[512], path[600];
    eitp_context *context = NULL;
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_tensor *w;
    float *values;
    REQUIRE(scratch_make(directory));
    if (place_count() == 1) {
        CHECK(open_offloaded(&host, NULL, EITP_OFFLOAD_ALL, NULL, &context, &error_) == EITP_ERROR_ARGUMENT &&
              !context);
        CHECK(strstr(error_.message, "offload_path"));
    }
    snprintf(path, sizeof path, "%s/nowhere/offload", directory);
    CHECK(open_offloaded(&host, path, EITP_OFFLOAD_ALL, NULL, &context, &error_) == EITP_ERROR_ARGUMENT && !context);
    CHECK(strstr(error_.message, "nowhere"));
    /* A plan cannot read the value of an offloaded variable, which is only in the file. */
    snprintf(path, sizeof path, "%s/offload", directory);
    REQUIRE_OK(open_offloaded(&host, path, EITP_OFFLOAD_ALL, NULL, &context, &error_), error_);
    REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
    w = eitp_output(eitp_parameter(graph, "w", 2, shape));
    eitp_output(eitp_exp(w));
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error_), error_);
    REQUIRE_OK(eitp_plan_execute(plan, &error_), error_);
    values = (float *)malloc(sizeof(float) * 10000);
    CHECK(eitp_plan_read(plan, w, values, sizeof(float) * 10000, &error_) == EITP_ERROR_UNSUPPORTED);
    CHECK(strstr(error_.message, "eitp_variable_read"));
    free(values);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
    scratch_remove(directory);
}

/* Existing contents at the path of the file of offloaded variables, with their size, and whether they are replaced. */
static void existing_files_of_others_are_refused(void) {
    static const struct {
        const char *contents;
        size_t size;
        int is_replaced;
    } files[] = {
        {"chapter 1", 9, 0},
        {"eitp offload?", 13, 0},
        {"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 18, 0},
        {"eitp offloaded\n\0and variables", 30, 1}, /* left by a process that could not remove its file */
        {"eitp\0\0\0\0\0\0\0\0\0\0\0\0", 16, 1},    /* left after a power loss */
        {"", 0, 1},
    };
    const eitp_host host = eitp_host_default();
    char directory[512], path[600], link[600], found[40];
    struct stat info;
    REQUIRE(scratch_make(directory));
    snprintf(path, sizeof path, "%s/thesis.txt", directory);
    snprintf(link, sizeof link, "%s/link", directory);
    REQUIRE(!symlink(path, link));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        eitp_context *context = NULL;
        FILE *file = fopen(path, "wb");
        size_t size;
        REQUIRE(file && fwrite(files[i].contents, 1, files[i].size, file) == files[i].size && !fclose(file));
        if (!files[i].is_replaced) {
            CHECK(open_offloaded(&host, link, EITP_OFFLOAD_ALL, NULL, &context, &error_) == EITP_ERROR_ARGUMENT);
            CHECK(!context && !lstat(link, &info));
            CHECK(open_offloaded(&host, path, EITP_OFFLOAD_ALL, NULL, &context, &error_) == EITP_ERROR_ARGUMENT);
            CHECK_THAT(strstr(error_.message, "thesis.txt' exists and is not a file of"), "%s", error_.message);
            file = fopen(path, "rb");
            REQUIRE(file);
            size = fread(found, 1, sizeof found, file);
            CHECK_THAT(size == files[i].size && !memcmp(found, files[i].contents, size), "file %zu", i);
            fclose(file);
        } else {
            CHECK_THAT(!open_offloaded(&host, path, EITP_OFFLOAD_ALL, NULL, &context, &error_), "file %zu: %s", i,
                       error_.message);
        }
        eitp_context_destroy(context);
    }
    /* A pipe at the path is kept, even if root may remove it. */
    remove(path);
    REQUIRE(!mkfifo(path, 0600));
    {
        eitp_context *context = NULL;
        CHECK(open_offloaded(&host, path, EITP_OFFLOAD_ALL, NULL, &context, &error_) == EITP_ERROR_ARGUMENT);
        CHECK(!context && !lstat(path, &info) && S_ISFIFO(info.st_mode));
    }
    scratch_remove(directory);
}

/* ---- Failures ---- */

/* Each file call fails once: the error names the file, everything is released, and no file remains. */
static void every_failed_file_call_is_an_error(void) {
    char directory[512], path[600];
    faults f;
    int more = 1, in_a_run = 0;
    const int has_cache = getenv("EITP_BACKEND") && !strcmp(getenv("EITP_BACKEND"), "cuda");
    REQUIRE(scratch_make(directory));
    snprintf(path, sizeof path, "%s/offload", directory);
    for (long n = 1; more && !test_failures_; n += n < 40 ? 1 : 3) {
        training s;
        eitp_status status;
        long calls;
        faults_begin(&f);
        f.fail_file_call = n;
        f.code = ENOSPC;
        f.largest_transfer = 40000;
        status = begin_offloaded(&s, &f.host, path, EITP_OFFLOAD_ALL, &error_);
        calls = f.file_calls;
        if (!status)
            status = training_step(&s, 1, 0.5f, NULL, &error_);
        if (!status)
            status = eitp__context_wait(s.context, &error_);
        /* A disk whose free space is unknown is accepted. A GPU's kernel cache also uses files, whose failures are
           tolerated. */
        if (f.failed_call && strcmp(f.failed_call, "close") && strcmp(f.failed_call, "remove") &&
            strcmp(f.failed_call, "space") && (status || !has_cache)) {
            CHECK_THAT(status == EITP_ERROR_IO && strstr(error_.message, "offload"), "call %ld (%s): %s", n,
                       f.failed_call, error_.message);
            in_a_run += n > calls;
        } else {
            CHECK_THAT(!status, "call %ld: %s", n, error_.message);
        }
        /* The failure is not sticky: the next call succeeds. */
        if (status && n > calls)
            CHECK_THAT(!training_step(&s, 1, 0.5f, NULL, &error_), "call %ld: %s", n, error_.message);
        end_offloaded(&s);
        more = faults_end(&f);
        CHECK(access(path, F_OK) != 0);
    }
    CHECK_THAT(in_a_run > 20, "%d", in_a_run);
    scratch_remove(directory);
}

static void every_failed_allocation_is_an_error(void) {
    char directory[512], path[600];
    faults f;
    int more = 1;
    REQUIRE(scratch_make(directory));
    snprintf(path, sizeof path, "%s/offload", directory);
    for (long n = 1; more && !test_failures_; n++) {
        training s;
        eitp_status status;
        faults_begin(&f);
        f.fail_allocation = n;
        status = begin_offloaded(&s, &f.host, path, EITP_OFFLOAD_ALL, &error_);
        CHECK_THAT(!status || status == EITP_ERROR_MEMORY, "allocation %ld: %s", n, error_.message);
        end_offloaded(&s);
        more = faults_end(&f);
        CHECK(access(path, F_OK) != 0);
    }
    scratch_remove(directory);
}

static void in_all_places(void (*test)(void)) {
    for (int i = 0; i < place_count(); i++) {
        const int failures = test_failures_;
        place_ = &places[i];
        test();
        CHECK_THAT(test_failures_ == failures, "in %s", place_->name);
    }
    place_ = &places[0];
}

static void steps_have_the_same_bits_in_all_places(void) {
    in_all_places(offloaded_steps_have_the_same_bits);
}

static void changed_variables_are_read_back_in_all_places(void) {
    in_all_places(changed_variables_are_read_back);
}

static void variables_are_read_and_written_in_all_places(void) {
    in_all_places(offloaded_variables_are_read_and_written);
}

static void failed_allocations_are_errors_in_all_places(void) {
    in_all_places(every_failed_allocation_is_an_error);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(jobs_run_in_order),
        TEST(failed_job_cancels_later_jobs),
        TEST(steps_have_the_same_bits_in_all_places),
        TEST(an_offloaded_plan_can_be_profiled),
        TEST(changed_variables_are_read_back_in_all_places),
        TEST(variables_are_read_and_written_in_all_places),
        TEST(unsupported_offloads_are_refused),
        TEST(existing_files_of_others_are_refused),
        TEST(every_failed_file_call_is_an_error),
        TEST(failed_allocations_are_errors_in_all_places),
    };
    return RUN_TESTS(tests, argc, argv);
}
