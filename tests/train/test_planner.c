/* The planner: which configurations fit a budget, which one is chosen, and that planning itself allocates little. */
#include "tests/support/everything.h"
#include "tests/support/faults.h"
#include "tests/support/language_fit.h"
#include "tests/support/test.h"

static eitp_error error_;

/* The model planned by small_fit. */
static language_fit planned;

/* A GPT-2 large enough for parameters to matter, and a process of known size. */
static eitp_fit small_fit(const char *precision) {
    eitp_fit fit = eitp_fit_default();
    fit.context = eitp_context_config_default();
    fit.context.device = "auto";
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
 * A budget is always kept. A smaller budget never gives a more faithful optimizer or a faster step, except through the
 * greedy search and the minimum benefit required of a compact optimizer.
 */
static void every_budget_is_kept(void) {
    const eitp_fit fit = small_fit("auto");
    eitp_fit_candidate unlimited, before, smallest;
    eitp_fidelity fidelity;
    int compact = 0;
    REQUIRE_OK(eitp_fit_choose(&fit, &unlimited, NULL, &error_), error_);
    CHECK(unlimited.fits && unlimited.optimizer == EITP_ADAMW && !unlimited.recomputed &&
          unlimited.micro_batches_per_pass == 4);
    CHECK(unlimited.total == unlimited.parameters + unlimited.gradients + unlimited.states + unlimited.arena +
                                 unlimited.workspace + unlimited.process);
    CHECK(unlimited.process > fit.process && unlimited.flops > 0 && unlimited.seconds > 0);
    before = unlimited;
    for (int percent = 100; percent >= 10; percent -= 3) {
        eitp_fit limited = fit;
        eitp_fit_candidate candidate;
        eitp_status status;
        limited.budget = unlimited.total / 100 * (size_t)percent;
        status = eitp_fit_choose(&limited, &candidate, &smallest, &error_);
        if (status) {
            CHECK(status == EITP_ERROR_MEMORY && !candidate.fits && smallest.total > limited.budget);
            CHECK(strstr(error_.message, "exceeds the budget"));
            break;
        }
        CHECK_THAT(candidate.fits && candidate.total <= limited.budget, "%d %%: %zu of %zu", percent, candidate.total,
                   limited.budget);
        fidelity = eitp_optimizer_get(candidate.optimizer)->fidelity;
        CHECK_THAT(fidelity > eitp_optimizer_get(before.optimizer)->fidelity ||
                       (fidelity == eitp_optimizer_get(before.optimizer)->fidelity &&
                        candidate.seconds > (candidate.optimizer == before.optimizer ? 0.995 : 0.95) * before.seconds),
                   "%d %%: %g s, before %g s", percent, candidate.seconds, before.seconds);
        compact += candidate.optimizer == EITP_ADAMW8_SR;
        before = candidate;
    }
    CHECK(before.optimizer == EITP_FACTORED && before.recomputed > 0);
    CHECK_THAT(compact > 0, "of the same fidelity the faster is chosen");
    /* The budget named in the refusal suffices. */
    {
        eitp_fit limited = fit;
        eitp_fit_candidate candidate;
        limited.budget = smallest.total;
        REQUIRE_OK(eitp_fit_choose(&limited, &candidate, NULL, &error_), error_);
        CHECK(candidate.fits);
    }
}

/* A different algorithm is chosen only if it is requested. */
static void another_algorithm_is_chosen_only_on_request(void) {
    static const char *const precisions[] = {"auto", "fp32", "bf16", "fp16"};
    for (size_t i = 0; i < EITP__COUNT(precisions); i++) {
        eitp_fit fit = small_fit(precisions[i]);
        eitp_fit_candidate candidate, smallest;
        size_t most;
        fit.trainer.optimizer_config.optimizer = EITP_SGD;
        REQUIRE_OK(eitp_fit_choose(&fit, &candidate, NULL, &error_), error_);
        most = candidate.total;
        for (int percent = 96; percent >= 8; percent -= 8) {
            fit.budget = most / 100 * (size_t)percent;
            CHECK(!eitp_fit_choose(&fit, &candidate, &smallest, &error_) || !candidate.fits);
            CHECK(!candidate.fits || candidate.optimizer != EITP_SGD);
            CHECK(candidate.fits || smallest.optimizer != EITP_SGD);
        }
        fit.any_optimizer = 0;
        fit.budget = 0;
        REQUIRE_OK(eitp_fit_choose(&fit, &candidate, NULL, &error_), error_);
        CHECK(candidate.fits && candidate.optimizer == EITP_SGD && candidate.total < most);
    }
}

static void an_unknown_optimizer_is_refused(void) {
    eitp_fit fit = small_fit("fp32");
    eitp_fit_candidate candidate = eitp_fit_candidate_default();
    candidate.optimizer = (eitp_optimizer)99;
    CHECK(eitp_fit_measure(&fit, &candidate, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "unknown optimizer 99"), "%s", error_.message);
    fit.trainer.optimizer_config.optimizer = (eitp_optimizer)99;
    fit.any_optimizer = 0;
    CHECK(eitp_fit_choose(&fit, &candidate, NULL, &error_) == EITP_ERROR_ARGUMENT);
}

/* Each optimizer uses the documented bytes per parameter. */
static void bytes_per_parameter_are_as_documented(void) {
    static const struct {
        eitp_optimizer optimizer;
        const char *precision;
        double bytes;
    } forms[] = {{EITP_ADAMW, "fp32", 12},     {EITP_ADAMW, "bf16", 12},        {EITP_ADAMW8, "bf16", 5.125},
                 {EITP_ADAMW8, "fp32", 6.125}, {EITP_ADAMW8_SR, "bf16", 4.125}, {EITP_FACTORED, "bf16", 2},
                 {EITP_FACTORED, "fp32", 4},   {EITP_SGD, "bf16", 8},           {EITP_SGD, "fp32", 8}};
    for (size_t i = 0; i < EITP__COUNT(forms); i++) {
        eitp_fit fit = small_fit(forms[i].precision);
        eitp_fit_candidate candidate = eitp_fit_candidate_default();
        double parameters = 0, lines = 0, per_parameter;
        candidate.optimizer = forms[i].optimizer;
        REQUIRE_OK(eitp_fit_measure(&fit, &candidate, &error_), error_);
        for (int64_t p = 0; p < eitp__parameter_count(&planned.model); p++) {
            eitp__parameter parameter = eitp__parameter_at(&planned.model, p);
            parameters += (double)parameter.shape[0] * (parameter.rank > 1 ? (double)parameter.shape[1] : 1);
            lines += parameter.rank > 1 ? (double)(parameter.shape[0] + parameter.shape[1]) : 0;
        }
        /* Factored states have means and directions of rows and columns. Vectors and scales add a little. */
        per_parameter = (double)(candidate.parameters + candidate.states) / parameters;
        if (forms[i].optimizer == EITP_FACTORED)
            per_parameter -= 4 * (1 + EITP__DIRECTIONS) * lines / parameters;
        CHECK_THAT(per_parameter >= forms[i].bytes && per_parameter < forms[i].bytes + 0.09, "%s: %g",
                   eitp_optimizer_get(forms[i].optimizer)->name, per_parameter);
        CHECK(candidate.gradients == 0 && !strcmp(candidate.precision, forms[i].precision));
    }
}

/* A trainer created from a candidate uses the measured memory, to the byte. */
static void a_trainer_takes_the_measured_memory(void) {
    for (int per_pass = 1; per_pass <= 4; per_pass += 3) {
        eitp_fit fit = small_fit("fp32");
        eitp_context *context = NULL;
        eitp_task task = EITP__ZERO;
        eitp_trainer *trainer = NULL;
        eitp_model *model;
        eitp_fit_candidate candidate = eitp_fit_candidate_default();
        candidate.micro_batches_per_pass = per_pass;
        REQUIRE_OK(eitp_fit_measure(&fit, &candidate, &error_), error_);
        candidate.plan.memory = (candidate.arena + candidate.workspace) / 10 * 8;
        REQUIRE_OK(eitp_fit_measure(&fit, &candidate, &error_), error_);
        CHECK(candidate.recomputed > 0);
        REQUIRE_OK(eitp_context_create(&fit.context, &context, &error_), error_);
        REQUIRE_OK(make_language_task(fit.user, context, &task, &error_), error_);
        fit.trainer.micro_batches_per_pass = candidate.micro_batches_per_pass;
        fit.trainer.plan = candidate.plan;
        REQUIRE_OK(eitp_trainer_create(&task, &fit.trainer, &trainer, &error_), error_);
        CHECK(eitp_context_variable_bytes(context, EITP_PARAMETER) == candidate.parameters);
        CHECK(eitp_context_variable_bytes(context, EITP_OPTIMIZER) == candidate.states);
        CHECK(eitp_context_variable_bytes(context, EITP_GRADIENT) == candidate.gradients);
        CHECK(eitp_context_arena_bytes(context) == candidate.arena + candidate.workspace);
        CHECK((candidate.gradients > 0) == (per_pass == 1));
        model = task.model;
        eitp_trainer_destroy(trainer);
        eitp_task_release(&task);
        eitp_model_destroy(model);
        eitp_context_destroy(context);
    }
}

/* Creates the plans of a step, without memory; end_planned releases them. */
static int begin_plans_of(const eitp_fit *fit, eitp__step_plans *plans) {
    eitp_context_config config = fit->context;
    eitp_context *context = NULL;
    eitp_task task = EITP__ZERO;
    eitp_status status;
    config.plans_only = 1;
    status = eitp_context_create(&config, &context, &error_);
    if (!status)
        status = make_language_task(fit->user, context, &task, &error_);
    if (!status) {
        eitp__step_plans_init(plans, &task, &fit->trainer, 0);
        status = eitp__step_plans_create(plans, &error_);
    }
    CHECK_THAT(!status, "%s", error_.message);
    return !status;
}

/* Creates the plans of the tiny model with `layers` layers. */
static int begin_planned(int64_t layers, const eitp_plan_config *plan, eitp__step_plans *plans) {
    eitp_fit fit = small_fit("fp32");
    planned.model.layers = layers;
    fit.trainer.batch_size = 1;
    fit.trainer.micro_batches_per_pass = 4;
    fit.trainer.plan = *plan;
    return begin_plans_of(&fit, plans);
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

/*
 * The logits of 1024 tokens of Gemma 3 270M, 262144 each, would be 1 GiB in F32. No plan of a step or an evaluation has
 * a tensor of that many elements, however the table's gradient is computed.
 */
static void no_plan_has_the_logits_of_a_large_vocabulary(void) {
    static const char *const precisions[] = {"fp32", "bf16"};
    for (int i = 0; i < 8; i++) {
        const size_t logits = (size_t)1024 * 262144 * (i % 2 ? 2 : 4);
        eitp_fit fit = small_fit(precisions[i % 2]);
        static eitp__step_plans plans;
        int count = 0;
        CHECK(!eitp_transformer_config_named("gemma-3-270m", &planned.model, &error_));
        planned.model.tied = i >> 2 & 1;
        planned.block_size = 1024;
        fit.trainer.batch_size = 1;
        fit.trainer.grad_accum = i & 2 ? 2 : 1;
        fit.trainer.micro_batches_per_pass = 1;
        fit.trainer.optimizer_config.piece_bytes = EITP_PIECE_BYTES;
        if (!begin_plans_of(&fit, &plans))
            continue;
        for (const eitp_plan *made = plans.task.context->plans; made; made = made->next) {
            count++;
            for (size_t b = 0; b < made->block_count; b++)
                CHECK_THAT(made->blocks[b].size < logits, "case %d: %zu bytes", i, made->blocks[b].size);
        }
        CHECK(count == (i & 2 ? 3 : 2));
        end_planned(&plans);
    }
}

/* Percent of the arena and workspace of an unlimited plan. */
enum { ALL_OF_IT = 100, LEAST_OF_IT = 0 };

/* The visits of each planning pass, with a memory limit of `percent` of an unlimited plan. */
static eitp__plan_visits visits_of(int64_t layers, eitp_recompute mode, int percent) {
    eitp_plan_config plan = {0, mode};
    eitp__plan_visits visits;
    static eitp__step_plans plans;
    memset(&visits, 0, sizeof visits);
    if (percent == LEAST_OF_IT) {
        plan.memory = EITP_MINIMUM_MEMORY;
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

/* With twice the layers, each planning pass has about twice the work. */
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

/* Steps of 8, 5 and 4 micro-batches, 4 per pass: the last pass of the second has a quarter of the rows. */
static void a_pass_costs_what_its_rows_cost(void) {
    static const int64_t accumulations[] = {8, 5, 4};
    double flops[3] = {0, 0, 0};
    for (int i = 0; i < 3; i++) {
        eitp_fit fit = small_fit("fp32");
        eitp_fit_candidate candidate = eitp_fit_candidate_default();
        fit.trainer.grad_accum = accumulations[i];
        fit.trainer.keep_gradients = 1;
        candidate.micro_batches_per_pass = 4;
        REQUIRE_OK(eitp_fit_measure(&fit, &candidate, &error_), error_);
        flops[i] = candidate.flops;
    }
    CHECK_THAT(fabs(4 * (flops[1] - flops[2]) / (flops[0] - flops[2]) - 1) < 1e-9, "%g, %g, %g", flops[0], flops[1],
               flops[2]);
}

/* Work done in one step of four, a regularizer's own pass or the norms of terms, costs a quarter. */
static void measurements_cost_by_how_often_they_are_made(void) {
    static const int64_t every[] = {0, 1, 4};
    for (int norms = 0; norms < 2; norms++) {
        double flops[3] = {0, 0, 0}, seconds[3] = {0, 0, 0};
        for (int i = 0; i < 3; i++) {
            eitp_fit fit = small_fit("fp32");
            eitp_fit_candidate candidate = eitp_fit_candidate_default();
            eitp_objective_config *objective = &fit.trainer.objective;
            objective->terms[EITP_BRIER].mode = EITP_TERM_LOSS;
            objective->term_norms_every = norms ? every[i] : 0;
            objective->terms[EITP_CHAOS].mode = norms || !i ? EITP_TERM_OFF : EITP_TERM_METRIC;
            objective->terms[EITP_CHAOS].every = i ? every[i] : 1;
            REQUIRE_OK(eitp_fit_measure(&fit, &candidate, &error_), error_);
            flops[i] = candidate.flops;
            seconds[i] = candidate.seconds;
        }
        CHECK_THAT(flops[2] > flops[0] && fabs(4 * (flops[2] - flops[0]) / (flops[1] - flops[0]) - 1) < 1e-9,
                   "%d: %g, %g, %g operations", norms, flops[0], flops[1], flops[2]);
        CHECK_THAT(seconds[2] > seconds[0] &&
                       fabs(4 * (seconds[2] - seconds[0]) / (seconds[1] - seconds[0]) - 1) < 1e-6,
                   "%d: %g, %g, %g s", norms, seconds[0], seconds[1], seconds[2]);
    }
}

static void a_context_for_plans_executes_nothing(void) {
    eitp_context_config config = eitp_context_config_default();
    const int64_t shape[1] = {1 << 20};
    eitp_context *context = NULL;
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    config.device = "auto";
    config.plans_only = 1;
    REQUIRE_OK(eitp_context_create(&config, &context, &error_), error_);
    REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
    eitp_output(eitp_exp(eitp_parameter(graph, "p", 1, shape)));
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error_), error_);
    CHECK(eitp_context_variable_bytes(context, EITP_PARAMETER) == 0);
    CHECK(eitp_context_arena_bytes(context) >= (size_t)4 << 20);
    CHECK(eitp_plan_execute(plan, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "plans_only"));
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_context_destroy(context);
}

/* A failed allocation is an error, and everything is released. */
static void every_failed_allocation_is_an_error(void) {
    faults f;
    for (long n = 1;; n += 5) {
        eitp_fit fit = small_fit("fp32");
        eitp_fit_candidate candidate = eitp_fit_candidate_default();
        eitp_status status;
        planned.model.layers = 1;
        planned.model.vocabulary = 100;
        candidate.plan.recompute = EITP_RECOMPUTE_LAYER;
        faults_begin(&f);
        f.fail_allocation = n;
        fit.context.host = f.host;
        status = eitp_fit_measure(&fit, &candidate, &error_);
        CHECK_THAT(!status == (f.allocations < n), "allocation %ld: %s", n, error_.message);
        CHECK(!status || status == EITP_ERROR_MEMORY);
        if (!faults_end(&f))
            break;
    }
}

/* A refusal names the smallest sufficient memory, independent of the budget that was too small. Nothing has a price
   then. */
static void the_least_may_be_wanted(void) {
    eitp_fit fit = small_fit("auto");
    eitp_fit_candidate smallest, candidate, least;
    eitp_fit_price price;
    fit.budget = 1;
    CHECK(eitp_fit_choose(&fit, &candidate, &smallest, &error_) == EITP_ERROR_MEMORY);
    fit.least = 1;
    CHECK(eitp_fit_choose(&fit, &candidate, &least, &error_) == EITP_ERROR_MEMORY && !candidate.fits);
    CHECK(least.total == smallest.total && strstr(error_.message, "exceeds the budget"));
    fit.budget = 0;
    REQUIRE_OK(eitp_fit_choose(&fit, &candidate, NULL, NULL), error_);
    CHECK(candidate.fits && candidate.total == smallest.total && candidate.optimizer == smallest.optimizer);
    REQUIRE_OK(eitp_fit_find_price(&fit, &candidate, &price, &error_), error_);
    CHECK(!price.longer.total && !price.faithful.total && !price.kept.total);
}

/* Variables are offloaded only if nothing fits in memory, as few as possible, with compact optimizers. */
static void offloading_is_the_last_resort(void) {
    eitp_fit fit = small_fit("auto");
    eitp_fit_candidate whole, smallest, candidate;
    REQUIRE_OK(eitp_fit_choose(&fit, &whole, NULL, &error_), error_);
    fit.budget = 1;
    CHECK(eitp_fit_choose(&fit, &candidate, &smallest, &error_) == EITP_ERROR_MEMORY);
    fit.any_offload = 1;
    fit.budget = whole.total;
    REQUIRE_OK(eitp_fit_choose(&fit, &candidate, NULL, &error_), error_);
    CHECK(!candidate.offload && !candidate.offloaded && candidate.optimizer == EITP_ADAMW);
    fit.budget = smallest.total;
    REQUIRE_OK(eitp_fit_choose(&fit, &candidate, NULL, &error_), error_);
    CHECK(!candidate.offload && candidate.optimizer == EITP_FACTORED &&
          candidate.file_reads + candidate.file_writes == 0);
    fit.budget = smallest.total - 1;
    REQUIRE_OK(eitp_fit_choose(&fit, &candidate, NULL, &error_), error_);
    CHECK(candidate.offload && candidate.total <= fit.budget &&
          eitp_optimizer_get(candidate.optimizer)->fidelity == EITP_SEED_NOISE);
    CHECK(candidate.offloaded > 0 && candidate.file_reads >= candidate.file_writes && candidate.file_writes > 0);
    /* A requested offload is used, with the requested optimizer. */
    fit = small_fit("fp32");
    fit.any_optimizer = 0;
    for (int offload = EITP_OFFLOAD_STATES; offload <= EITP_OFFLOAD_ALL; offload++) {
        fit.context.offload = (eitp_offload)offload;
        REQUIRE_OK(eitp_fit_choose(&fit, &candidate, NULL, &error_), error_);
        CHECK((int)candidate.offload == offload && candidate.optimizer == EITP_ADAMW && candidate.total < whole.total);
        CHECK((candidate.parameters < whole.parameters / 4) == (offload == EITP_OFFLOAD_ALL));
        CHECK(candidate.states < whole.states / 4);
        CHECK_THAT(candidate.parameters + candidate.states + candidate.offloaded == whole.parameters + whole.states,
                   "%d", offload);
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {TEST(every_budget_is_kept),
                                      TEST(another_algorithm_is_chosen_only_on_request),
                                      TEST(an_unknown_optimizer_is_refused),
                                      TEST(bytes_per_parameter_are_as_documented),
                                      TEST(a_trainer_takes_the_measured_memory),
                                      TEST(the_least_may_be_wanted),
                                      TEST(offloading_is_the_last_resort),
                                      TEST(no_plan_has_the_logits_of_a_large_vocabulary),
                                      TEST(planning_grows_with_the_graph),
                                      TEST(a_pass_costs_what_its_rows_cost),
                                      TEST(measurements_cost_by_how_often_they_are_made),
                                      TEST(a_context_for_plans_executes_nothing),
                                      TEST(every_failed_allocation_is_an_error)};
    return RUN_TESTS(tests, argc, argv);
}
