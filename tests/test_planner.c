/* Plans of whole runs: what fits a budget, what is chosen, and that nothing is taken for it. */
#include "tests/everything.h"
#include "tests/faults.h"
#include "tests/language_fit.h"
#include "tests/test.h"

static eitp_error error_;

/* What small_fit plans. */
static language_fit planned;

/* GPT-2 with parameters enough to matter, and a process of a known size. */
static eitp_fit small_fit(const char *precision) {
    eitp_fit fit;
    memset(&fit, 0, sizeof fit);
    fit.context = eitp_context_config_default();
    fit.context.device = "cpu";
    fit.context.isa = "ref";
    fit.context.threads = 1;
    fit.context.precision = precision;
    CHECK(!eitp_transformer_config_named("tiny", &planned.model, &error_));
    planned.model.vocabulary = 2000;
    planned.model.layers = 6;
    planned.block_size = 64;
    fit.create_task = make_language_task;
    fit.user = &planned;
    fit.trainer = eitp_trainer_config_default();
    fit.trainer.batch_size = 2;
    fit.trainer.optimizer_config.piece_bytes = 262144;
    fit.any_optimizer = 1;
    fit.process = 1000000;
    return fit;
}

/*
 * A budget is always kept; a smaller one is never more faithful, and not faster but for what is chosen greedily, or
 * what an optimizer that keeps less must be worth.
 */
static void every_budget_is_kept(void) {
    const eitp_fit fit = small_fit("auto");
    eitp_fit_candidate free_rung, before, smallest;
    eitp_fidelity fidelity;
    int compact = 0;
    REQUIRE_OK(eitp_fit_choose(&fit, &free_rung, NULL, &error_), error_);
    CHECK(free_rung.fits && free_rung.optimizer == EITP_ADAMW && !free_rung.recomputed &&
          free_rung.micro_batches_per_pass == 4);
    CHECK(free_rung.total == free_rung.parameters + free_rung.gradients + free_rung.states + free_rung.arena +
                                 free_rung.workspace + free_rung.process);
    CHECK(free_rung.process > fit.process && free_rung.flops > 0 && free_rung.seconds > 0);
    before = free_rung;
    for (int percent = 100; percent >= 10; percent -= 3) {
        eitp_fit limited = fit;
        eitp_fit_candidate rung;
        eitp_status status;
        limited.budget = free_rung.total / 100 * (size_t)percent;
        status = eitp_fit_choose(&limited, &rung, &smallest, &error_);
        if (status) {
            CHECK(status == EITP_ERROR_MEMORY && !rung.fits && smallest.total > limited.budget);
            CHECK(strstr(error_.message, "exceeds the budget"));
            break;
        }
        CHECK_THAT(rung.fits && rung.total <= limited.budget, "%d %%: %zu of %zu", percent, rung.total, limited.budget);
        fidelity = eitp_optimizer_get(rung.optimizer)->fidelity;
        CHECK_THAT(fidelity > eitp_optimizer_get(before.optimizer)->fidelity ||
                       (fidelity == eitp_optimizer_get(before.optimizer)->fidelity &&
                        rung.seconds > (rung.optimizer == before.optimizer ? 0.995 : 0.95) * before.seconds),
                   "%d %%: %g s, before %g s", percent, rung.seconds, before.seconds);
        compact += rung.optimizer == EITP_ADAMW8_SR;
        before = rung;
    }
    CHECK(before.optimizer == EITP_FACTORED && before.recomputed > 0);
    CHECK_THAT(compact > 0, "of the same fidelity the faster is taken");
    /* What it says would do does. */
    {
        eitp_fit limited = fit;
        eitp_fit_candidate rung;
        limited.budget = smallest.total;
        REQUIRE_OK(eitp_fit_choose(&limited, &rung, NULL, &error_), error_);
        CHECK(rung.fits);
    }
}

/* What is another algorithm is chosen where it is asked for, and never otherwise, whatever fits. */
static void another_algorithm_is_asked_for(void) {
    static const char *const precisions[] = {"auto", "fp32", "bf16", "fp16"};
    for (size_t i = 0; i < EITP__COUNT(precisions); i++) {
        eitp_fit fit = small_fit(precisions[i]);
        eitp_fit_candidate rung, smallest;
        size_t most;
        fit.trainer.optimizer = EITP_SGD;
        REQUIRE_OK(eitp_fit_choose(&fit, &rung, NULL, &error_), error_);
        most = rung.total;
        for (int percent = 96; percent >= 8; percent -= 8) {
            fit.budget = most / 100 * (size_t)percent;
            CHECK(!eitp_fit_choose(&fit, &rung, &smallest, &error_) || !rung.fits);
            CHECK(!rung.fits || rung.optimizer != EITP_SGD);
            CHECK(rung.fits || smallest.optimizer != EITP_SGD);
        }
        fit.any_optimizer = 0;
        fit.budget = 0;
        REQUIRE_OK(eitp_fit_choose(&fit, &rung, NULL, &error_), error_);
        CHECK(rung.fits && rung.optimizer == EITP_SGD && rung.total < most);
    }
}

/* Each optimizer has the bytes for a parameter that it is known for. */
static void bytes_of_a_parameter(void) {
    static const struct {
        eitp_optimizer optimizer;
        const char *precision;
        double bytes;
    } forms[] = {{EITP_ADAMW, "fp32", 12},     {EITP_ADAMW, "bf16", 12},        {EITP_ADAMW8, "bf16", 5.125},
                 {EITP_ADAMW8, "fp32", 6.125}, {EITP_ADAMW8_SR, "bf16", 4.125}, {EITP_FACTORED, "bf16", 2},
                 {EITP_FACTORED, "fp32", 4},   {EITP_SGD, "bf16", 8},           {EITP_SGD, "fp32", 8}};
    for (size_t i = 0; i < EITP__COUNT(forms); i++) {
        eitp_fit fit = small_fit(forms[i].precision);
        eitp_fit_candidate rung;
        double parameters = 0, lines = 0, per_parameter;
        memset(&rung, 0, sizeof rung);
        rung.optimizer = forms[i].optimizer;
        REQUIRE_OK(eitp_fit_measure(&fit, &rung, &error_), error_);
        for (int64_t p = 0; p < eitp__parameter_count(&planned.model); p++) {
            eitp__parameter parameter = eitp__parameter_at(&planned.model, p);
            parameters += (double)parameter.shape[0] * (parameter.rank > 1 ? (double)parameter.shape[1] : 1);
            lines += parameter.rank > 1 ? (double)(parameter.shape[0] + parameter.shape[1]) : 0;
        }
        /* Of rows and columns there are means, and numbers for each direction; vectors and scales are a little more. */
        per_parameter = (double)(rung.parameters + rung.states) / parameters;
        if (forms[i].optimizer == EITP_FACTORED)
            per_parameter -= 4 * (1 + EITP__DIRECTIONS) * lines / parameters;
        CHECK_THAT(per_parameter >= forms[i].bytes && per_parameter < forms[i].bytes + 0.09, "%s: %g",
                   eitp_optimizer_get(forms[i].optimizer)->name, per_parameter);
        CHECK(rung.gradients == 0 && !strcmp(rung.precision, forms[i].precision));
    }
}

/* A trainer that is made as a rung says has the rung's memory, to the byte. */
static void a_rung_is_what_is_made(void) {
    for (int merged = 1; merged <= 4; merged += 3) {
        eitp_fit fit = small_fit("fp32");
        eitp_context *context = NULL;
        eitp_task task = EITP__ZERO;
        eitp_trainer *trainer = NULL;
        eitp_model *model;
        eitp_fit_candidate rung;
        memset(&rung, 0, sizeof rung);
        rung.micro_batches_per_pass = merged;
        REQUIRE_OK(eitp_fit_measure(&fit, &rung, &error_), error_);
        rung.plan.memory = (rung.arena + rung.workspace) / 10 * 8;
        REQUIRE_OK(eitp_fit_measure(&fit, &rung, &error_), error_);
        CHECK(rung.recomputed > 0);
        REQUIRE_OK(eitp_context_create(&fit.context, &context, &error_), error_);
        REQUIRE_OK(make_language_task(fit.user, context, &task, &error_), error_);
        fit.trainer.micro_batches_per_pass = rung.micro_batches_per_pass;
        fit.trainer.plan = rung.plan;
        REQUIRE_OK(eitp_trainer_create(&task, &fit.trainer, &trainer, &error_), error_);
        CHECK(eitp_context_variable_bytes(context, EITP_PARAMETER) == rung.parameters);
        CHECK(eitp_context_variable_bytes(context, EITP_OPTIMIZER) == rung.states);
        CHECK(eitp_context_variable_bytes(context, EITP_GRADIENT) == rung.gradients);
        CHECK(eitp_context_arena_bytes(context) == rung.arena + rung.workspace);
        CHECK((rung.gradients > 0) == (merged == 1));
        model = task.model;
        eitp_trainer_destroy(trainer);
        eitp_task_release(&task);
        eitp_model_destroy(model);
        eitp_context_destroy(context);
    }
}

/* The plans of the tiny model with so many layers, without memory to run in; released by end_planned. */
static int begin_planned(int64_t layers, const eitp_plan_config *plan, eitp__step_plans *plans) {
    eitp_fit fit = small_fit("fp32");
    eitp_context *context = NULL;
    eitp_task task = EITP__ZERO;
    eitp_status status;
    fit.context.plans_only = 1;
    planned.model.layers = layers;
    fit.trainer.batch_size = 1;
    fit.trainer.micro_batches_per_pass = 4;
    fit.trainer.plan = *plan;
    status = eitp_context_create(&fit.context, &context, &error_);
    if (!status)
        status = make_language_task(fit.user, context, &task, &error_);
    if (!status) {
        eitp__step_plans_init(plans, &task, &fit.trainer, 0);
        status = eitp__step_plans_create(plans, &error_);
    }
    CHECK_THAT(!status, "%s", error_.message);
    return !status;
}

static void end_planned(eitp__step_plans *plans) {
    eitp_task task = plans->task;
    eitp_context *context = task.context;
    eitp_model *model = task.model;
    eitp__step_plans_discard(plans);
    eitp_task_release(&task);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
}

/* Of the arena and workspace that a plan takes where it is free. */
enum { ALL_OF_IT = 100, LEAST_OF_IT = 0 };

/* What each pass looks at, of a plan that may take so many percent of the memory that it takes where it is free. */
static eitp__plan_visits visits_of(int64_t layers, eitp_recompute mode, int percent) {
    eitp_plan_config plan = {0, mode};
    eitp__plan_visits visits;
    static eitp__step_plans plans;
    memset(&visits, 0, sizeof visits);
    if (percent == LEAST_OF_IT) {
        plan.memory = EITP_LEAST_MEMORY;
    } else if (percent < ALL_OF_IT && begin_planned(layers, &plan, &plans)) {
        const eitp_plan_stats stats = plans.gradient_plan->stats;
        plan.memory = (stats.arena_bytes + stats.workspace_bytes) / 100 * (size_t)percent;
        end_planned(&plans);
    }
    if (begin_planned(layers, &plan, &plans)) {
        visits = plans.gradient_plan->visits;
        end_planned(&plans);
    }
    return visits;
}

/* With twice the layers each pass has about twice the work. */
static void planning_grows_with_the_graph(void) {
    static const struct {
        eitp_recompute mode;
        int percent;
    } plans[] = {{EITP_RECOMPUTE_NONE, ALL_OF_IT},
                 {EITP_RECOMPUTE_ATTENTION, ALL_OF_IT},
                 {EITP_RECOMPUTE_LAYER, ALL_OF_IT},
                 {EITP_RECOMPUTE_AUTO, 80},
                 {EITP_RECOMPUTE_AUTO, LEAST_OF_IT}};
    for (size_t i = 0; i < EITP__COUNT(plans); i++) {
        const eitp__plan_visits half = visits_of(12, plans[i].mode, plans[i].percent);
        const eitp__plan_visits whole = visits_of(24, plans[i].mode, plans[i].percent);
        const struct {
            const char *name;
            size_t half, whole;
        } passes[] = {{"lower", half.lower, whole.lower},    {"fuse", half.fuse, whole.fuse},
                      {"order", half.order, whole.order},    {"lifetimes", half.lifetimes, whole.lifetimes},
                      {"layout", half.layout, whole.layout}, {"recompute", half.recompute, whole.recompute}};
        CHECK(half.recompute > 0 || plans[i].mode == EITP_RECOMPUTE_NONE);
        for (size_t p = 0; p < EITP__COUNT(passes); p++)
            CHECK_THAT((double)passes[p].whole <= 2.2 * (double)passes[p].half, "plan %zu, %s: %zu, then %zu", i,
                       passes[p].name, passes[p].half, passes[p].whole);
    }
}

/* Of 8, 5 and 4 micro-batches in passes of 4: the last pass of the second has a quarter of the rows. */
static void a_pass_costs_what_its_rows_cost(void) {
    static const int64_t accumulations[] = {8, 5, 4};
    double flops[3] = {0, 0, 0};
    for (int i = 0; i < 3; i++) {
        eitp_fit fit = small_fit("fp32");
        eitp_fit_candidate rung = EITP__ZERO;
        fit.trainer.grad_accum = accumulations[i];
        fit.trainer.keep_gradients = 1;
        rung.micro_batches_per_pass = 4;
        REQUIRE_OK(eitp_fit_measure(&fit, &rung, &error_), error_);
        flops[i] = rung.flops;
    }
    CHECK_THAT(fabs(4 * (flops[1] - flops[2]) / (flops[0] - flops[2]) - 1) < 1e-9, "%g, %g, %g", flops[0], flops[1],
               flops[2]);
}

/* What only plans are made in runs nothing. */
static void a_context_for_plans_runs_nothing(void) {
    eitp_context_config config = eitp_context_config_default();
    const int64_t shape[1] = {1 << 20};
    eitp_context *context = NULL;
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    config.device = "cpu";
    config.plans_only = 1;
    REQUIRE_OK(eitp_context_create(&config, &context, &error_), error_);
    REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
    eitp_output(eitp_exp(eitp_parameter(graph, "p", 1, shape)));
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error_), error_);
    CHECK(eitp_context_variable_bytes(context, EITP_PARAMETER) == 0);
    CHECK(eitp_context_arena_bytes(context) >= (size_t)4 << 20);
    CHECK(eitp_plan_execute(plan, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "plans only"));
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* An allocation that fails is an error, and everything is given back. */
static void every_failed_allocation_is_an_error(void) {
    faults f;
    for (long n = 1;; n += 5) {
        eitp_fit fit = small_fit("fp32");
        eitp_fit_candidate rung;
        eitp_status status;
        memset(&rung, 0, sizeof rung);
        planned.model.layers = 1;
        planned.model.vocabulary = 100;
        rung.plan.recompute = EITP_RECOMPUTE_LAYER;
        faults_begin(&f);
        f.fail_allocation = n;
        fit.context.host = f.host;
        status = eitp_fit_measure(&fit, &rung, &error_);
        CHECK_THAT(!status == (f.allocations < n), "allocation %ld: %s", n, error_.message);
        CHECK(!status || status == EITP_ERROR_MEMORY);
        if (!faults_end(&f))
            break;
    }
}

/* Variables go to a file only where nothing fits in memory, as few as will do, and compact ones. */
static void offloading_is_the_last_resort(void) {
    eitp_fit fit = small_fit("auto");
    eitp_fit_candidate whole, smallest, rung;
    REQUIRE_OK(eitp_fit_choose(&fit, &whole, NULL, &error_), error_);
    fit.budget = 1;
    CHECK(eitp_fit_choose(&fit, &rung, &smallest, &error_) == EITP_ERROR_MEMORY);
    fit.any_offload = 1;
    fit.budget = whole.total;
    REQUIRE_OK(eitp_fit_choose(&fit, &rung, NULL, &error_), error_);
    CHECK(!rung.offload && !rung.offloaded && rung.optimizer == EITP_ADAMW);
    fit.budget = smallest.total;
    REQUIRE_OK(eitp_fit_choose(&fit, &rung, NULL, &error_), error_);
    CHECK(!rung.offload && rung.optimizer == EITP_FACTORED && rung.file_reads + rung.file_writes == 0);
    fit.budget = smallest.total - 1;
    REQUIRE_OK(eitp_fit_choose(&fit, &rung, NULL, &error_), error_);
    CHECK(rung.offload && rung.total <= fit.budget && rung.optimizer == EITP_ADAMW8);
    CHECK(rung.offloaded > 0 && rung.file_reads >= rung.file_writes && rung.file_writes > 0);
    /* What is asked for is done, and with what was asked for. */
    fit = small_fit("fp32");
    fit.any_optimizer = 0;
    for (int offload = EITP_OFFLOAD_STATES; offload <= EITP_OFFLOAD_ALL; offload++) {
        fit.context.offload = (eitp_offload)offload;
        REQUIRE_OK(eitp_fit_choose(&fit, &rung, NULL, &error_), error_);
        CHECK((int)rung.offload == offload && rung.optimizer == EITP_ADAMW && rung.total < whole.total);
        CHECK((rung.parameters < whole.parameters / 4) == (offload == EITP_OFFLOAD_ALL));
        CHECK(rung.states < whole.states / 4);
        CHECK_THAT(rung.parameters + rung.states + rung.offloaded == whole.parameters + whole.states, "%d", offload);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {TEST(every_budget_is_kept),
                                      TEST(another_algorithm_is_asked_for),
                                      TEST(bytes_of_a_parameter),
                                      TEST(a_rung_is_what_is_made),
                                      TEST(offloading_is_the_last_resort),
                                      TEST(planning_grows_with_the_graph),
                                      TEST(a_pass_costs_what_its_rows_cost),
                                      TEST(a_context_for_plans_runs_nothing),
                                      TEST(every_failed_allocation_is_an_error)};
    return RUN_TESTS(tests, argc, argv);
}
