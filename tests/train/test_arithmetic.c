/* The arithmetic of a step for each component of the model, checked against formulas. */
#include "tests/support/everything.h"
#include "tests/support/test.h"

static eitp_error error_;

/* A model to plan, without adapters if their rank is 0, and with all parameters trained if `frozen` is NULL. */
typedef struct planned_model {
    eitp_transformer_config config;
    int64_t block_size;
    int rank;
    const char *frozen;
} planned_model;

static eitp_status make_task(const void *user, eitp_context *context, eitp_task *task, eitp_error *error) {
    const planned_model *planned = (const planned_model *)user;
    eitp_language_config config = eitp_language_config_default();
    eitp_lora_config lora = eitp_lora_config_default();
    eitp_status status;
    config.block_size = planned->block_size;
    config.training.count = config.training.range.count = (uint64_t)planned->block_size + 1;
    lora.rank = planned->rank;
    lora.targets = eitp_lora_targets_default(planned->config.architecture);
    status = eitp_model_create(context, &planned->config, &config.model, error);
    if (!status && planned->rank)
        status = eitp_model_add_lora(config.model, &lora, error);
    if (!status && planned->frozen)
        status = eitp_model_freeze(config.model, planned->frozen, error);
    if (!status)
        status = eitp_language_task(&config, task, error);
    if (status)
        eitp_model_destroy(config.model);
    return status;
}

/* A GPT-2 or a Llama with two key-value heads, with two blocks. */
static planned_model planned_of(const char *name) {
    planned_model planned;
    memset(&planned, 0, sizeof planned);
    CHECK(!eitp_transformer_config_named(name, &planned.config, &error_));
    planned.config.width = 16;
    planned.config.heads = 4;
    planned.config.layers = 2;
    planned.config.positions = 8;
    planned.config.vocabulary = 50;
    planned.config.inner = 0;
    planned.block_size = 8;
    if (planned.config.rotary.theta > 0) {
        planned.config.key_value_heads = 2;
        planned.config.head_width = 4;
        planned.config.inner = 24;
    }
    return planned;
}

static eitp_fit fit_of(const planned_model *planned) {
    eitp_fit fit = eitp_fit_default();
    fit.context.isa = "ref";
    fit.context.threads = 1;
    fit.context.precision = "fp32";
    fit.create_task = make_task;
    fit.user = planned;
    fit.trainer.batch_size = 4;
    fit.trainer.grad_accum = 2;
    return fit;
}

/* Terms other than the products are small integers, so sums are exact. */
static int equal(double a, double b) {
    return fabs(a - b) < 0.25;
}

/* Checks that the components add up to the figures of the whole step. */
static void check_sums(const eitp_fit_candidate *candidate) {
    eitp_flops sum = {0, 0, 0, 0};
    for (int i = 0; i < EITP_COMPONENT_COUNT; i++) {
        const eitp_flops *flops = &candidate->components[i];
        sum.total += flops->total;
        sum.recomputed += flops->recomputed;
        CHECK_THAT(i == EITP_COMPONENT_OPTIMIZER
                       ? equal(flops->forward + flops->backward + flops->recomputed, 0) && flops->total > 0
                       : equal(flops->forward + flops->backward + flops->recomputed, flops->total),
                   "component %d: %g + %g + %g of %g", i, flops->forward, flops->backward, flops->recomputed,
                   flops->total);
    }
    CHECK_THAT(equal(sum.total, candidate->flops), "%g of %g", sum.total, candidate->flops);
    CHECK_THAT(equal(sum.recomputed, candidate->recomputed_flops), "%g of %g", sum.recomputed,
               candidate->recomputed_flops);
}

static eitp_fit_candidate measure_with(const eitp_fit *fit, eitp_recompute recompute, int64_t micro_batches_per_pass) {
    eitp_fit_candidate candidate = eitp_fit_candidate_default();
    candidate.plan.recompute = recompute;
    candidate.micro_batches_per_pass = micro_batches_per_pass;
    CHECK_THAT(!eitp_fit_measure(fit, &candidate, &error_), "%s", error_.message);
    check_sums(&candidate);
    return candidate;
}

static eitp_fit_candidate measure(const eitp_fit *fit) {
    return measure_with(fit, EITP_RECOMPUTE_NONE, 0);
}

/* Checks a component against its formula. */
static void check_component(const eitp_fit_candidate *candidate, eitp_component component, double forward,
                            double backward) {
    const eitp_flops *flops = &candidate->components[component];
    CHECK_THAT(equal(flops->forward, forward) && equal(flops->backward, backward) && equal(flops->recomputed, 0),
               "component %d: forward %g, expected %g; backward %g, expected %g", (int)component, flops->forward,
               forward, flops->backward, backward);
}

enum { ROWS = 64, LAYERS = 2, WIDTH = 16, WORDS = 50, LENGTH = 8, KEYS = 8, INNER = 24 };

/* 2 m n k for a product of ROWS rows in each block. */
static double products(double inputs, double outputs) {
    return 2.0 * ROWS * inputs * outputs * LAYERS;
}

/* The head. Forward: a product, and a difference for each loss. Backward: the gradient of each logit, and two products.
   */
static void check_head(const eitp_fit_candidate *candidate, int64_t rows, int64_t words, int products_backward) {
    const double logits = (double)(rows * words), product = 2 * WIDTH * logits;
    check_component(candidate, EITP_COMPONENT_HEAD, product + (double)rows, products_backward * product + logits);
}

/* A backward pass has two products for each one of the forward pass. A bias adds as many operations as it has elements.
   */
static void gpt2_has_the_arithmetic_of_its_formula(void) {
    const planned_model planned = planned_of("tiny");
    const eitp_fit fit = fit_of(&planned);
    const eitp_fit_candidate candidate = measure(&fit);
    const double projections = products(WIDTH, 3 * WIDTH) + products(WIDTH, WIDTH);
    const double mlp = 2 * products(WIDTH, 4 * WIDTH), attention = products(LENGTH, WIDTH);
    check_component(&candidate, EITP_COMPONENT_EMBEDDING, ROWS * WIDTH, 0);
    check_component(&candidate, EITP_COMPONENT_PROJECTIONS, projections, 2 * projections + LAYERS * 4 * WIDTH);
    /* Scores and weighted values of the causal half; the backward pass has two and a half times as many. */
    check_component(&candidate, EITP_COMPONENT_ATTENTION, attention, 2.5 * attention);
    check_component(&candidate, EITP_COMPONENT_MLP, mlp, 2 * mlp + LAYERS * 5 * WIDTH);
    check_head(&candidate, ROWS, WORDS, 2);
    /* Five norms and four residual sums. */
    CHECK(equal(candidate.components[EITP_COMPONENT_OTHER].forward, (2 * LAYERS + 1 + 2 * LAYERS) * ROWS * WIDTH));
}

/* SwiGLU has a third product and multiplies by the gate. Query heads share key-value heads. */
static void llama_has_the_arithmetic_of_its_formula(void) {
    const planned_model planned = planned_of("llama-3.2-1b");
    const eitp_fit fit = fit_of(&planned);
    const eitp_fit_candidate candidate = measure(&fit);
    const double projections = products(WIDTH, WIDTH + 2 * KEYS) + products(WIDTH, WIDTH);
    const double mlp = 3 * products(WIDTH, INNER), gates = ROWS * INNER * LAYERS;
    check_component(&candidate, EITP_COMPONENT_PROJECTIONS, projections, 2 * projections);
    check_component(&candidate, EITP_COMPONENT_MLP, mlp + gates, 2 * mlp + 3 * gates);
    check_head(&candidate, ROWS, WORDS, 2);
    /* Rotating queries and keys takes three operations for each element. */
    CHECK(equal(candidate.components[EITP_COMPONENT_ATTENTION].forward,
                products(LENGTH, WIDTH) + 3 * ROWS * (WIDTH + KEYS) * LAYERS));
}

/* With adapters, the frozen weights have no gradients, nor does the input of the first block. */
static void adapters_count_as_the_layer_that_they_adapt(void) {
    enum { RANK = 1 };
    planned_model planned = planned_of("tiny");
    const eitp_fit fit = fit_of(&planned);
    const double projections = products(WIDTH, 3 * WIDTH) + products(WIDTH, WIDTH);
    const double down = products(WIDTH, RANK), up = products(RANK, 3 * WIDTH), scaled = ROWS * RANK * LAYERS;
    const double mlp = 2 * products(WIDTH, 4 * WIDTH);
    eitp_fit_candidate candidate;
    planned.rank = RANK;
    candidate = measure(&fit);
    check_component(&candidate, EITP_COMPONENT_PROJECTIONS, projections + down + up + scaled,
                    projections - products(WIDTH, 3 * WIDTH) / LAYERS + down + down / LAYERS + 2 * up + scaled);
    check_component(&candidate, EITP_COMPONENT_MLP, mlp, mlp);
    check_head(&candidate, ROWS, WORDS, 1);
}

/* No gradients flow through frozen embeddings and the frozen first of two blocks. */
static void frozen_blocks_have_no_backward_pass(void) {
    static const eitp_component halved[] = {EITP_COMPONENT_PROJECTIONS, EITP_COMPONENT_ATTENTION, EITP_COMPONENT_MLP};
    planned_model planned = planned_of("tiny");
    const eitp_fit fit = fit_of(&planned);
    const eitp_fit_candidate whole = measure(&fit);
    eitp_fit_candidate frozen;
    planned.frozen = "embeddings,layers:1";
    frozen = measure(&fit);
    for (size_t i = 0; i < EITP__COUNT(halved); i++) {
        const eitp_flops *before = &whole.components[halved[i]];
        const eitp_flops *after = &frozen.components[halved[i]];
        CHECK(equal(after->forward, before->forward));
        CHECK_THAT(equal(after->backward, before->backward / 2), "component %d: %g, before %g", (int)halved[i],
                   after->backward, before->backward);
    }
    check_head(&frozen, ROWS, WORDS, 1);
}

/* With a large vocabulary, a pass computes logits in groups of rows, and the update computes the table's gradient in
   pieces. */
static void a_divided_head_counts_as_the_head(void) {
    static const struct {
        int64_t words, batch_size;
        int is_divided;
    } cases[] = {{500000, 64, 1}, {500000, 4, 0}};
    planned_model planned = planned_of("llama-3.2-1b");
    eitp_fit fit = fit_of(&planned);
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        const int64_t rows = cases[i].batch_size * fit.trainer.grad_accum * LENGTH;
        eitp_fit_candidate candidate;
        planned.config.vocabulary = cases[i].words;
        fit.trainer.batch_size = cases[i].batch_size;
        candidate = measure(&fit);
        CHECK((candidate.logits < (size_t)(rows * cases[i].words) * sizeof(float)) == cases[i].is_divided);
        check_head(&candidate, rows, cases[i].words, 2);
    }
}

/* Recomputed work is counted separately, and dividing a step moves no product to another component. */
static void products_stay_in_their_component(void) {
    static const eitp_component of_products[] = {EITP_COMPONENT_PROJECTIONS, EITP_COMPONENT_MLP, EITP_COMPONENT_HEAD};
    const planned_model planned = planned_of("llama-3.2-1b");
    const eitp_fit fit = fit_of(&planned);
    const eitp_fit_candidate whole = measure(&fit);
    for (int way = 0; way < 2; way++) {
        const eitp_fit_candidate candidate =
            measure_with(&fit, way ? EITP_RECOMPUTE_NONE : EITP_RECOMPUTE_LAYER, way == 1);
        CHECK((candidate.recomputed > 0) == !way && (candidate.recomputed_flops > 0) == !way);
        for (size_t i = 0; i < EITP__COUNT(of_products); i++) {
            const eitp_flops *flops = &candidate.components[of_products[i]];
            const eitp_flops *expected = &whole.components[of_products[i]];
            CHECK_THAT(equal(flops->forward, expected->forward) && equal(flops->backward, expected->backward),
                       "%d, component %d: forward %g, %g; backward %g, %g", way, (int)of_products[i], flops->forward,
                       expected->forward, flops->backward, expected->backward);
        }
    }
}

/* A step includes the average cost of regularizers with their own pass and of term norms. */
static void measurements_are_counted_by_component(void) {
    planned_model planned = planned_of("llama-3.2-1b");
    eitp_fit fit = fit_of(&planned);
    const eitp_fit_candidate whole = measure(&fit);
    eitp_fit_candidate measured;
    fit.trainer.objective.terms[EITP_CHAOS].mode = EITP_TERM_METRIC;
    fit.trainer.objective.terms[EITP_CHAOS].every = 3;
    fit.trainer.objective.terms[EITP_BRIER].mode = EITP_TERM_LOSS;
    fit.trainer.objective.term_norms_every = 2;
    measured = measure(&fit);
    CHECK(measured.components[EITP_COMPONENT_MLP].total > whole.components[EITP_COMPONENT_MLP].total);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(gpt2_has_the_arithmetic_of_its_formula),      TEST(llama_has_the_arithmetic_of_its_formula),
        TEST(adapters_count_as_the_layer_that_they_adapt), TEST(frozen_blocks_have_no_backward_pass),
        TEST(a_divided_head_counts_as_the_head),           TEST(products_stay_in_their_component),
        TEST(measurements_are_counted_by_component)};
    return RUN_TESTS(tests, argc, argv);
}
