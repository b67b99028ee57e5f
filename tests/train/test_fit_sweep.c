/*
 * The planner on many runs: small models of odd shapes, in every precision, with every optimizer, within budgets from
 * ample to impossible. A run fits its budget, or is refused with a budget that suffices.
 */
#include "tests/support/everything.h"
#include "tests/support/faults.h"
#include "tests/support/language_fit.h"
#include "tests/support/test.h"

/* A model and a step. `heads` divides `width`. */
typedef struct shape {
    int64_t vocabulary, positions, width, heads, layers, inner;
    int64_t block_size, batch_size, grad_accum;
    double dropout;
    int tied;
} shape;

static const shape shapes[] = {{600, 70, 90, 5, 3, 222, 33, 4, 8, 0, 1},      {257, 19, 24, 3, 2, 51, 19, 1, 3, 0.1, 1},
                               {1031, 40, 36, 2, 1, 100, 7, 5, 2, 0, 0},      {90, 65, 60, 4, 4, 61, 64, 2, 1, 0.1, 1},
                               {2000, 128, 48, 1, 2, 192, 100, 1, 5, 0.2, 1}, {311, 33, 70, 7, 5, 97, 31, 3, 4, 0, 1}};

static const char *const precisions[] = {"fp32", "bf16", "fp16"};

/* Each optimizer, and lastly the planner's choice among them. */
enum { OPTIMIZERS = EITP_OPTIMIZER_COUNT + 1 };

static eitp_error error_;
static language_fit planned; /* set by the last fit_of */
static long combinations, refusals, fits;

static eitp_fit fit_of(const shape *s, const char *precision, int optimizer) {
    eitp_fit fit = eitp_fit_default();
    fit.context = eitp_context_config_default();
    fit.context.device = "cpu";
    fit.context.isa = "ref";
    fit.context.threads = 1;
    fit.context.precision = precision;
    CHECK(!eitp_transformer_config_named("tiny", &planned.model, &error_));
    planned.model.vocabulary = s->vocabulary;
    planned.model.positions = s->positions;
    planned.model.width = s->width;
    planned.model.heads = s->heads;
    planned.model.layers = s->layers;
    planned.model.inner = s->inner;
    planned.model.embedding_dropout = planned.model.attention_dropout = planned.model.residual_dropout = s->dropout;
    planned.model.tied = s->tied;
    fit.trainer = eitp_trainer_config_default();
    fit.trainer.batch_size = s->batch_size;
    fit.trainer.grad_accum = s->grad_accum;
    fit.trainer.optimizer_config.piece_bytes = 16384;
    fit.any_optimizer = optimizer == EITP_OPTIMIZER_COUNT;
    fit.trainer.optimizer_config.optimizer = fit.any_optimizer ? EITP_ADAMW : (eitp_optimizer)optimizer;
    planned.block_size = s->block_size;
    fit.create_task = make_language_task;
    fit.user = &planned;
    fit.process = 1000000;
    return fit;
}

/* Plans within a budget. After a refusal the budget it names, *smallest, must suffice. */
static void plan_within(eitp_fit fit, size_t budget, eitp_fit_candidate *smallest, const char *name) {
    eitp_fit_candidate chosen, second;
    eitp_status status;
    fit.budget = budget;
    status = eitp_fit_choose(&fit, &chosen, smallest, &error_);
    combinations++;
    CHECK_THAT(!status || status == EITP_ERROR_MEMORY, "%s: %s", name, error_.message);
    if (!status) {
        fits++;
        CHECK_THAT(chosen.fits && chosen.total <= budget, "%s: %zu of %zu", name, chosen.total, budget);
        return;
    }
    refusals++;
    CHECK_THAT(!chosen.fits && smallest->total > budget, "%s: %zu suffices, budget %zu", name, smallest->total, budget);
    fit.budget = smallest->total;
    status = eitp_fit_choose(&fit, &second, NULL, &error_);
    CHECK_THAT(!status && second.fits && second.total <= fit.budget, "%s: refused %zu, named %zu: %s", name, budget,
               fit.budget, status ? error_.message : "does not fit");
}

/* Tries budgets below the smallest sufficient one, and between it and the memory of an unlimited run. */
static void plan_within_budgets(const eitp_fit *fit, const char *name) {
    static const size_t percents[] = {0, 3, 20, 45, 80};
    eitp_fit_candidate unlimited, smallest, ignored;
    eitp_status status = eitp_fit_choose(fit, &unlimited, NULL, &error_);
    if (status == EITP_ERROR_UNSUPPORTED) /* compact weights in fp16 */
        return;
    CHECK_THAT(!status, "%s: %s", name, error_.message);
    plan_within(*fit, 1, &smallest, name);
    plan_within(*fit, smallest.total - smallest.arena / 3, &ignored, name);
    for (size_t i = 0; i < EITP__COUNT(percents); i++)
        plan_within(*fit, smallest.total + (unlimited.total - smallest.total) / 100 * percents[i], &ignored, name);
}

static void every_refusal_names_a_budget_that_fits(void) {
    const long stride = test_stride(1, 3);
    long cases = 0;
    for (size_t s = 0; s < EITP__COUNT(shapes); s++) {
        for (size_t p = 0; p < EITP__COUNT(precisions); p++) {
            for (int optimizer = 0; optimizer < OPTIMIZERS; optimizer++) {
                eitp_fit fit = fit_of(&shapes[s], precisions[p], optimizer);
                char name[100];
                if (cases++ % stride)
                    continue;
                fit.any_offload = (s + p + (size_t)optimizer) % 5 == 4;
                snprintf(name, sizeof name, "shape %zu in %s, optimizer %d%s", s, precisions[p], optimizer,
                         fit.any_offload ? ", offloading allowed" : "");
                plan_within_budgets(&fit, name);
            }
        }
    }
    printf("    %ld combinations: %ld fit, %ld refused\n", combinations, fits, refusals);
    CHECK(combinations >= 600 / stride && refusals >= 100 / stride && fits >= 200 / stride);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {TEST(every_refusal_names_a_budget_that_fits)};
    return RUN_TESTS(tests, argc, argv);
}
