/*
 * The planner on a device with its own memory, named by EITP_BACKEND: the device and host budgets, variables that move
 * from one memory to the other, and the memory a run takes of both.
 */
#include "tests/support/everything.h"
#include "tests/support/language_fit.h"
#include "tests/support/test.h"

static eitp_error error_;
static language_fit planned;

static eitp_fit fit_on_device(const char *precision) {
    eitp_fit fit = eitp_fit_default();
    fit.context.threads = 1;
    fit.context.isa = "ref";
    fit.context.precision = precision;
    CHECK(!eitp_transformer_config_named("tiny", &planned.model, &error_));
    planned.model.vocabulary = 2000;
    planned.model.layers = 4;
    planned.block_size = 64;
    fit.create_task = make_language_task;
    fit.user = &planned;
    fit.trainer.batch_size = 2;
    fit.trainer.optimizer_config.piece_bytes = 262144;
    fit.any_optimizer = 1;
    fit.process = 1000000;
    return fit;
}

static size_t run_bytes(const eitp_fit_candidate *c) {
    return c->parameters + c->gradients + c->states + c->arena + c->workspace;
}

/* A run's data are in device memory. The process needs little, however large the run. */
static void a_run_is_in_the_memory_of_the_device(void) {
    const eitp_fit fit = fit_on_device("fp32");
    eitp_fit_candidate candidate;
    REQUIRE_OK(eitp_fit_choose(&fit, &candidate, NULL, &error_), error_);
    CHECK(candidate.fits && candidate.device == run_bytes(&candidate) && candidate.total == candidate.process);
    CHECK_THAT(candidate.total - fit.process < candidate.device, "%zu of the host, %zu of the device", candidate.total,
               candidate.device);
}

static void a_budget_of_the_device_is_kept(void) {
    const eitp_fit fit = fit_on_device("auto");
    eitp_fit_candidate whole, candidate, smallest;
    eitp_fidelity before = EITP_SAME_BITS;
    eitp_fit limited = fit;
    int recomputed = 0;
    REQUIRE_OK(eitp_fit_choose(&fit, &whole, NULL, &error_), error_);
    for (int percent = 97; percent >= 10; percent -= 9) {
        eitp_status status;
        limited.device_budget = whole.device / 100 * (size_t)percent;
        status = eitp_fit_choose(&limited, &candidate, &smallest, &error_);
        if (status) {
            CHECK(status == EITP_ERROR_MEMORY && !candidate.fits && smallest.device > limited.device_budget);
            CHECK_THAT(strstr(error_.message, "in the memory of the device") && strstr(error_.message, "exceeds"), "%s",
                       error_.message);
            break;
        }
        CHECK(candidate.device <= limited.device_budget && eitp_optimizer_get(candidate.optimizer)->fidelity >= before);
        before = eitp_optimizer_get(candidate.optimizer)->fidelity;
        recomputed += candidate.recomputed > 0;
    }
    CHECK(recomputed > 0 && smallest.device);
    /* The budget named in the refusal suffices. */
    limited.device_budget = smallest.device;
    REQUIRE_OK(eitp_fit_choose(&limited, &candidate, NULL, &error_), error_);
    CHECK(candidate.fits && candidate.device <= limited.device_budget);
}

/* Moving variables to host memory causes no wear and changes no bit, so it comes before a less faithful optimizer. */
static void variables_move_to_the_host_before_bits_change(void) {
    eitp_fit fit = fit_on_device("auto");
    eitp_fit_candidate exact, candidate;
    fit.any_optimizer = 0;
    fit.device_budget = 1;
    CHECK(eitp_fit_choose(&fit, &candidate, &exact, &error_) == EITP_ERROR_MEMORY);
    fit.any_optimizer = 1;
    fit.device_budget = exact.device - 1;
    REQUIRE_OK(eitp_fit_choose(&fit, &candidate, NULL, &error_), error_);
    CHECK(eitp_optimizer_get(candidate.optimizer)->fidelity != EITP_SAME_BITS && !candidate.offload);
    fit.any_offload = 1;
    REQUIRE_OK(eitp_fit_choose(&fit, &candidate, NULL, &error_), error_);
    CHECK_THAT(candidate.optimizer == EITP_ADAMW && candidate.offload == EITP_OFFLOAD_STATES, "%s, offload %d",
               eitp_optimizer_get(candidate.optimizer)->name, (int)candidate.offload);
    CHECK(candidate.device <= fit.device_budget && candidate.offloaded > 0 &&
          candidate.total == candidate.process + candidate.offloaded);
    /* With an offload file, they are not in host memory. */
    fit.context.offload_path = "offload.tmp";
    candidate.plan = eitp_plan_config_default();
    REQUIRE_OK(eitp_fit_measure(&fit, &candidate, &error_), error_);
    CHECK(candidate.offloaded > 0 && candidate.total == candidate.process);
}

/* Neither recomputing nor offloading helps if host memory is short. */
static void a_budget_of_the_host_is_kept_too(void) {
    eitp_fit fit = fit_on_device("fp32");
    eitp_fit_candidate candidate, smallest;
    fit.any_offload = 1;
    fit.budget = 500000;
    CHECK(eitp_fit_choose(&fit, &candidate, &smallest, &error_) == EITP_ERROR_MEMORY && !candidate.fits);
    CHECK_THAT(strstr(error_.message, "the run needs at least"), "%s", error_.message);
    CHECK(smallest.total > fit.budget);
}

/* The memory matches to the byte. */
static void a_trainer_takes_the_measured_memory(void) {
    eitp_fit fit = fit_on_device("fp32");
    eitp_context *context = NULL;
    eitp_device_memory memory;
    eitp_fit_candidate candidate = eitp_fit_candidate_default();
    eitp_task task = EITP__ZERO;
    eitp_trainer *trainer = NULL;
    eitp_model *model;
    candidate.offload = EITP_OFFLOAD_STATES;
    REQUIRE_OK(eitp_fit_measure(&fit, &candidate, &error_), error_);
    fit.context.offload = candidate.offload;
    fit.trainer.micro_batches_per_pass = candidate.micro_batches_per_pass;
    REQUIRE_OK(eitp_context_create(&fit.context, &context, &error_), error_);
    REQUIRE_OK(make_language_task(fit.user, context, &task, &error_), error_);
    REQUIRE_OK(eitp_trainer_create(&task, &fit.trainer, &trainer, &error_), error_);
    REQUIRE_OK(eitp_context_device_memory(context, &memory, &error_), error_);
    CHECK(memory.is_separate && memory.free < memory.total);
    /* Variables are aligned. */
    CHECK_THAT(memory.allocated >= candidate.device && memory.allocated - candidate.device < 16384, "%llu of %zu",
               (unsigned long long)memory.allocated, candidate.device);
    model = task.model;
    eitp_trainer_destroy(trainer);
    eitp_task_release(&task);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
}

/* Other programs may already use some of the device's memory. */
static void the_default_budget_leaves_a_margin(void) {
    eitp_device_memory memory = EITP__ZERO;
    CHECK(eitp_device_budget_default(&memory, 95) == 0 && eitp_device_budget_default(NULL, 95) == 0);
    memory.is_separate = 1;
    memory.total = 1000;
    memory.free = 900;
    CHECK(eitp_device_budget_default(&memory, 95) == 850 && eitp_device_budget_default(&memory, 100) == 900);
    memory.free = 20;
    CHECK(eitp_device_budget_default(&memory, 95) == 1);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(a_run_is_in_the_memory_of_the_device),          TEST(a_budget_of_the_device_is_kept),
        TEST(variables_move_to_the_host_before_bits_change), TEST(a_budget_of_the_host_is_kept_too),
        TEST(a_trainer_takes_the_measured_memory),           TEST(the_default_budget_leaves_a_margin)};
    return RUN_TESTS(tests, argc, argv);
}
