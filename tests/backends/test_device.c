/* The rules of backends/backend.h, on the test device: breaking a rule ends the process, and late errors are reported.
   */
#include "tests/support/trainer_run.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* y = exp(x) on the test device. */
typedef struct fixture {
    eitp_context *context;
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_tensor *x, *y;
    eitp__backend *backend;
    const eitp__backend_interface *device;
} fixture;

static const float ones[4] = {1, 1, 1, 1};

static int begin(fixture *f) {
    const int64_t shape[] = {4};
    eitp_context_config config = eitp_context_config_default();
    memset(f, 0, sizeof *f);
    config.device = "test";
    config.threads = 1;
    if (eitp_context_create(&config, &f->context, &error_) || eitp_graph_create(f->context, &f->graph, &error_))
        return 0;
    f->x = eitp_input(f->graph, "x", EITP_F32, 1, shape);
    f->y = eitp_output(eitp_exp(f->x));
    f->backend = f->context->backend;
    f->device = f->backend->interface;
    return !eitp_plan_create(f->graph, &f->plan, &error_) &&
           !eitp_plan_write(f->plan, f->x, ones, sizeof ones, &error_) && !eitp_plan_execute(f->plan, &error_);
}

static void end(fixture *f) {
    eitp_plan_destroy(f->plan);
    eitp_graph_destroy(f->graph);
    eitp_context_destroy(f->context);
}

/* ---- Broken rules ---- */

static void read_too_early(fixture *f) {
    float values[4];
    f->device->download(f->backend, values, f->plan->calls[0].outputs[0].data, sizeof values, &error_);
}

static void write_too_early(fixture *f) {
    f->device->upload(f->backend, f->plan->calls[0].inputs[0].data, ones, sizeof ones, &error_);
}

static void release_too_early(fixture *f) {
    f->device->release(f->backend, EITP__PLACE_DEVICE, f->context->arena.memory, f->context->arena.size);
}

static void discard_too_early(fixture *f) {
    f->device->discard(f->backend, f->plan->program);
}

static void execute_after_discard(fixture *f) {
    size_t begun;
    f->device->wait(f->backend, &error_);
    f->device->discard(f->backend, f->plan->program);
    f->device->execute(f->backend, f->plan->program, 0, 1, &f->context->poll, 0, &begun, &error_);
}

static void discard_twice(fixture *f) {
    f->device->wait(f->backend, &error_);
    f->device->discard(f->backend, f->plan->program);
    f->device->discard(f->backend, f->plan->program);
}

static void never_wait(fixture *f) {
    f->context->is_busy = 0;
    eitp_context_destroy(f->context);
}

static void read_from_the_host(fixture *f) {
    volatile const float *values = (const float *)f->plan->calls[0].outputs[0].data;
    f->device->wait(f->backend, &error_);
    printf("%g", (double)values[0]);
}

static void keep_the_rules(fixture *f) {
    float values[4] = {0, 0, 0, 0};
    if (eitp_plan_read(f->plan, f->y, values, sizeof values, &error_) || fabsf(values[3] - 2.7182818f) > 1e-6f)
        abort();
    end(f);
}

/* True if a process that calls `act` is ended by a signal. */
static int is_ended(void (*act)(fixture *f)) {
    int status = 0;
    pid_t child;
    fflush(stdout);
    child = fork();
    if (child == 0) {
        fixture f;
        signal(SIGSEGV, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        if (freopen("/dev/null", "w", stderr) && begin(&f))
            act(&f);
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status);
}

static void broken_rules_end_the_process(void) {
    CHECK(!is_ended(keep_the_rules));
    CHECK(is_ended(read_too_early));
    CHECK(is_ended(write_too_early));
    CHECK(is_ended(release_too_early));
    CHECK(is_ended(discard_too_early));
    CHECK(is_ended(execute_after_discard));
    CHECK(is_ended(discard_twice));
    CHECK(is_ended(never_wait));
    CHECK(is_ended(read_from_the_host));
}

/* ---- Late errors ---- */

/* `execute` succeeds, and the call that requests the result fails, once. */
static void a_late_error_comes_up_once(void) {
    float values[4];
    fixture f;
    setenv("EITP_TEST_DEVICE_FAILS", "1", 1);
    REQUIRE(begin(&f));
    unsetenv("EITP_TEST_DEVICE_FAILS");
    CHECK(eitp_plan_read(f.plan, f.y, values, sizeof values, &error_) == EITP_ERROR_INTERNAL);
    CHECK_THAT(strstr(error_.message, "the test device has failed"), "%s", error_.message);
    REQUIRE(!eitp_plan_write(f.plan, f.x, ones, sizeof ones, &error_) && !eitp_plan_execute(f.plan, &error_));
    CHECK(!eitp_plan_read(f.plan, f.y, values, sizeof values, &error_) && values[0] > 2.7f);
    end(&f);
}

/* An object may be destroyed while it executes: the device finishes first. */
static void what_executes_may_be_destroyed(void) {
    fixture f;
    REQUIRE(begin(&f));
    end(&f);
}

/* A call that cannot fail keeps the error for the next one that can. */
static void a_late_error_is_kept(void) {
    fixture f;
    setenv("EITP_TEST_DEVICE_FAILS", "1", 1);
    REQUIRE(begin(&f));
    unsetenv("EITP_TEST_DEVICE_FAILS");
    eitp__arena_release(f.context);
    CHECK(eitp__context_wait(f.context, &error_) == EITP_ERROR_INTERNAL);
    CHECK(eitp__context_wait(f.context, &error_) == EITP_OK);
    end(&f);
}

/* Trains two steps on a device whose n-th wait fails. Returns 1 if none did. */
static int train_with_failure(long n, const char *directory) {
    const eitp_host host = eitp_host_default();
    const variant v = default_variant();
    eitp_status status = EITP_OK;
    eitp_step_report report;
    char number[24];
    int is_created;
    run r;
    snprintf(number, sizeof number, "%ld", n);
    setenv("EITP_TEST_DEVICE_FAILS", number, 1);
    setenv("EITP_BACKEND", "test", 1);
    is_created = make_run(&r, &host, &v, directory, &error_) == EITP_OK;
    for (int64_t step = 0; step < 2 && is_created && !status; step++) {
        status = eitp_trainer_step(r.trainer, &report, &error_);
        CHECK(!status || eitp_trainer_is_inconsistent(r.trainer) || eitp_trainer_steps_done(r.trainer) == step);
    }
    unsetenv("EITP_TEST_DEVICE_FAILS");
    CHECK_THAT(!status || strstr(error_.message, "the test device has failed"), "%s", error_.message);
    end_run(&r);
    return is_created && !status;
}

/* A step never succeeds with values that the device did not compute. */
static void every_late_error_of_a_step_comes_up(void) {
    char directory[512];
    long failures = 0;
    REQUIRE(scratch_make(directory) && write_text(directory));
    while (!train_with_failure(failures + 1, directory) && failures < 100)
        failures++;
    CHECK_THAT(failures >= 2 && failures < 100, "%ld", failures);
    scratch_remove(directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(broken_rules_end_the_process),        TEST(a_late_error_comes_up_once),
        TEST(what_executes_may_be_destroyed),      TEST(a_late_error_is_kept),
        TEST(every_late_error_of_a_step_comes_up),
    };
    return RUN_TESTS(tests, argc, argv);
}
