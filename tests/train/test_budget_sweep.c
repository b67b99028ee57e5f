/* The planner within many budgets, for ten shapes and tasks: a larger budget never gives less, in the order of
   eitp_fit_choose. */
#include "tests/support/everything.h"
#include "tests/support/test.h"

static eitp_error error_;

/* A run to plan. */
typedef struct case_of {
    const char *shape; /* a named shape, which the members below make smaller */
    eitp_task_kind task;
    int64_t vocabulary, positions, layers;
    int64_t batch_size, grad_accum;
    const char *precision;
    eitp_optimizer optimizer; /* EITP_OPTIMIZER_COUNT: any */
    int64_t lora_rank;
    int any_offload;
    int64_t length; /* of sequences; 0: chosen by the planner */
} case_of;

static const case_of cases[] = {
    {"tiny", EITP_TASK_LANGUAGE, 257, 256, 4, 1, 4, "auto", EITP_OPTIMIZER_COUNT, 0, 0, 0},
    {"tiny", EITP_TASK_LANGUAGE, 2000, 256, 6, 2, 4, "fp32", EITP_OPTIMIZER_COUNT, 0, 0, 0},
    {"tiny", EITP_TASK_LANGUAGE, 257, 128, 3, 1, 1, "fp16", EITP_OPTIMIZER_COUNT, 0, 0, 0},
    {"tiny", EITP_TASK_LANGUAGE, 5000, 256, 2, 3, 5, "bf16", EITP_OPTIMIZER_COUNT, 0, 0, 0},
    {"tiny", EITP_TASK_LANGUAGE, 500, 512, 4, 1, 16, "auto", EITP_FACTORED, 0, 0, 0},
    {"tiny", EITP_TASK_LANGUAGE, 500, 256, 4, 4, 4, "auto", EITP_OPTIMIZER_COUNT, 0, 1, 0},
    {"minilm", EITP_TASK_MASKED, 1000, 256, 3, 2, 4, "auto", EITP_OPTIMIZER_COUNT, 0, 0, 100},
    {"minilm", EITP_TASK_CLASSIFICATION, 1000, 128, 2, 16, 1, "auto", EITP_OPTIMIZER_COUNT, 0, 0, 64},
    {"smollm2-135m", EITP_TASK_LANGUAGE, 1000, 256, 3, 1, 4, "auto", EITP_OPTIMIZER_COUNT, 0, 0, 0},
    {"gemma-3-270m", EITP_TASK_LANGUAGE, 1000, 256, 2, 1, 8, "auto", EITP_OPTIMIZER_COUNT, 8, 0, 0},
};

/* The objects that a case plans with. */
typedef struct planned_case {
    const case_of *of;
    eitp_transformer_config shape;
    int64_t length;
} planned_case;

static eitp_status use_length(const void *user, int64_t length, eitp_error *error) {
    (void)error;
    ((planned_case *)(uintptr_t)user)->length = length;
    return EITP_OK;
}

/* Planning reads no samples. */
static eitp_status read_nothing(void *user, uint64_t number, eitp_labelled_sample *sample, eitp_error *error) {
    (void)user, (void)number, (void)sample;
    return eitp__fail(error, EITP_ERROR_IO, "planning has read a sample");
}

static eitp_labelled_source samples_of(const planned_case *p) {
    eitp_labelled_source source = EITP__ZERO;
    source.count = 1000;
    source.read = read_nothing;
    source.problem = EITP_PROBLEM_SINGLE_LABEL;
    source.label_count = 3;
    source.max_length = p->length;
    return source;
}

static eitp_status create_task(const void *user, eitp_context *context, eitp_task *task, eitp_error *error) {
    const planned_case *p = (const planned_case *)user;
    eitp_language_config language = eitp_language_config_default();
    eitp_masked_config masked = EITP__ZERO;
    eitp_classification_config classification = EITP__ZERO;
    eitp_lora_config lora = eitp_lora_config_default();
    eitp_model *model = NULL;
    eitp_status status = eitp_model_create(context, &p->shape, &model, error);
    lora.rank = p->of->lora_rank;
    if (!status && lora.rank)
        status = eitp_model_add_lora(model, &lora, error);
    if (status) {
        eitp_model_destroy(model);
        return status;
    }
    language.model = masked.model = classification.model = model;
    language.block_size = p->length;
    language.training.count = language.training.range.count = (uint64_t)p->length * 1000;
    language.validation = language.training;
    masked.training = masked.validation = classification.training = classification.validation = samples_of(p);
    status = p->of->task == EITP_TASK_LANGUAGE ? eitp_language_task(&language, task, error)
             : p->of->task == EITP_TASK_MASKED ? eitp_masked_task(&masked, task, error)
                                               : eitp_classification_task(&classification, task, error);
    if (status)
        eitp_model_destroy(model);
    return status;
}

/* `lengths` has room for EITP_FIT_LENGTHS. */
static eitp_fit fit_of(const case_of *of, planned_case *p, int64_t *lengths) {
    eitp_fit fit = eitp_fit_default();
    CHECK(!eitp_transformer_config_named(of->shape, &p->shape, &error_));
    p->of = of;
    p->shape.vocabulary = of->vocabulary;
    p->shape.positions = of->positions;
    p->shape.layers = of->layers;
    if (of->task == EITP_TASK_CLASSIFICATION) {
        p->shape.head = EITP_HEAD_CLASSIFIER;
        p->shape.problem = EITP_PROBLEM_SINGLE_LABEL;
        p->shape.labels = 3;
    }
    p->length = of->length;
    fit.context.device = "cpu";
    fit.context.isa = "ref";
    fit.context.threads = 1;
    fit.context.precision = of->precision;
    fit.trainer.batch_size = of->batch_size;
    fit.trainer.grad_accum = of->grad_accum;
    fit.any_optimizer = of->optimizer == EITP_OPTIMIZER_COUNT;
    fit.trainer.optimizer_config.optimizer = fit.any_optimizer ? EITP_ADAMW : of->optimizer;
    fit.any_offload = of->any_offload;
    fit.create_task = create_task;
    fit.user = p;
    fit.use_length = use_length;
    fit.lengths = lengths;
    fit.length_count = of->length ? 0 : eitp_fit_lengths(eitp_transformer_config_positions(&p->shape), lengths);
    fit.process = 1000000;
    return fit;
}

static eitp_fidelity fidelity_of(const eitp_fit_candidate *c) {
    return eitp_optimizer_get(c->optimizer)->fidelity;
}

/* True if `c` is worse than `other` in the documented order. */
static int is_worse(const eitp_fit_candidate *c, const eitp_fit_candidate *other) {
    if (c->length != other->length)
        return c->length < other->length;
    if (c->offload != other->offload)
        return c->offload > other->offload;
    if (fidelity_of(c) != fidelity_of(other))
        return fidelity_of(c) > fidelity_of(other);
    return c->seconds > other->seconds;
}

/* Checks the prices: with the budget that a price names, the plan regains what it had given up. */
static void check_price(const eitp_fit *fit, const eitp_fit_candidate *chosen, const char *name) {
    eitp_fit_price price;
    eitp_fit_candidate found;
    eitp_fit limited = *fit;
    REQUIRE_OK(eitp_fit_find_price(fit, chosen, &price, &error_), error_);
    CHECK_THAT((price.kept.total != 0) == (chosen->recomputed != 0), "%s", name);
    CHECK_THAT((price.longer.total != 0) == (fit->length_count && chosen->length < fit->lengths[0]), "%s", name);
    CHECK_THAT((price.faithful.total != 0) == (fit->any_optimizer && fidelity_of(chosen) > EITP_SAME_BITS), "%s", name);
    limited.budget = price.longer.total;
    if (limited.budget)
        CHECK_THAT(!eitp_fit_choose(&limited, &found, NULL, &error_) && found.length > chosen->length, "%s", name);
    limited.budget = price.faithful.total;
    if (limited.budget)
        CHECK_THAT(!eitp_fit_choose(&limited, &found, NULL, &error_) &&
                       (found.length > chosen->length || fidelity_of(&found) < fidelity_of(chosen)),
                   "%s", name);
    limited.budget = price.kept.total;
    if (limited.budget)
        CHECK_THAT(!eitp_fit_choose(&limited, &found, NULL, &error_) && !is_worse(&found, &price.kept), "%s", name);
}

static void sweep(const case_of *of, int budgets) {
    planned_case p;
    int64_t lengths[EITP_FIT_LENGTHS];
    eitp_fit fit = fit_of(of, &p, lengths);
    eitp_fit_candidate whole, smallest, before = EITP__ZERO, chosen;
    int changes = 0;
    REQUIRE_OK(eitp_fit_choose(&fit, &whole, NULL, &error_), error_);
    fit.budget = 1;
    CHECK(eitp_fit_choose(&fit, &chosen, &smallest, &error_) == EITP_ERROR_MEMORY && p.length > 0);
    /* The named budget suffices, and one byte less does not. */
    fit.budget = smallest.total - 1;
    CHECK(eitp_fit_choose(&fit, &chosen, NULL, NULL) == EITP_ERROR_MEMORY);
    for (int i = 0; i <= budgets; i++) {
        char name[100];
        fit.budget = smallest.total + (whole.total - smallest.total) / (size_t)budgets * (size_t)i;
        fit.budget = i == budgets ? whole.total : fit.budget;
        snprintf(name, sizeof name, "%s, task %d, %s, budget %d: %zu", of->shape, (int)of->task, of->precision, i,
                 fit.budget);
        REQUIRE_OK(eitp_fit_choose(&fit, &chosen, NULL, &error_), error_);
        CHECK_THAT(chosen.fits && chosen.total <= fit.budget && p.length == (of->length ? of->length : chosen.length),
                   "%s", name);
        if (i && is_worse(&chosen, &before))
            CHECK_THAT(0, "%s: %lld tokens, %s, %g s after %lld, %s, %g", name, (long long)chosen.length,
                       eitp_optimizer_get(chosen.optimizer)->name, chosen.seconds, (long long)before.length,
                       eitp_optimizer_get(before.optimizer)->name, before.seconds);
        /* Approximation and offloading are last resorts. */
        if (fit.any_optimizer && (fidelity_of(&chosen) == EITP_APPROXIMATE || chosen.offload))
            CHECK_THAT(of->length || chosen.length == lengths[fit.length_count - 1], "%s", name);
        if (i && is_worse(&before, &chosen) && changes++ % 8 == 0)
            check_price(&fit, &chosen, name);
        before = chosen;
    }
    CHECK_THAT(!is_worse(&before, &whole) && !is_worse(&whole, &before), "%s: all of it", of->shape);
    CHECK_THAT(changes > 2, "%s: %d changes", of->shape, changes);
}

static void a_larger_budget_never_gives_less(void) {
    for (size_t i = 0; i < EITP__COUNT(cases); i++)
        sweep(&cases[i], 200 / (int)test_stride(1, 16));
}

/* If AdamW fits only for the shortest sequences, longer ones with a compact optimizer are chosen. */
static void length_comes_before_fidelity(void) {
    planned_case p;
    int64_t lengths[EITP_FIT_LENGTHS];
    eitp_fit fit = fit_of(&cases[0], &p, lengths);
    eitp_fit_candidate chosen, smallest;
    fit.any_optimizer = 0;
    fit.budget = 1;
    CHECK(eitp_fit_choose(&fit, &chosen, &smallest, &error_) == EITP_ERROR_MEMORY && smallest.length == 64);
    fit.any_optimizer = 1;
    fit.budget = smallest.total;
    REQUIRE_OK(eitp_fit_choose(&fit, &chosen, NULL, &error_), error_);
    CHECK_THAT(chosen.length == 256 && fidelity_of(&chosen) == EITP_SEED_NOISE, "%lld tokens, %s",
               (long long)chosen.length, eitp_optimizer_get(chosen.optimizer)->name);
}

/* Half the trainer's choice of micro-batches per pass is predicted to be faster here, because the head is then not
   divided. It uses less memory, so it counts as no faster, and is not chosen when there is room. */
static void what_saves_memory_counts_as_no_faster(void) {
    case_of of = cases[1];
    planned_case p;
    int64_t lengths[EITP_FIT_LENGTHS];
    eitp_fit fit;
    eitp_fit_candidate own = eitp_fit_candidate_default(), half = own, chosen;
    of.vocabulary = 50257;
    of.batch_size = 1;
    of.length = 256;
    fit = fit_of(&of, &p, lengths);
    REQUIRE_OK(eitp_fit_measure(&fit, &own, &error_), error_);
    half.micro_batches_per_pass = own.micro_batches_per_pass / 2;
    REQUIRE_OK(eitp_fit_measure(&fit, &half, &error_), error_);
    CHECK_THAT(half.seconds < own.seconds && half.total < own.total, "%g and %g s", half.seconds, own.seconds);
    REQUIRE_OK(eitp_fit_choose(&fit, &chosen, NULL, &error_), error_);
    CHECK(chosen.micro_batches_per_pass == own.micro_batches_per_pass && chosen.optimizer == EITP_ADAMW);
    fit.budget = half.total;
    REQUIRE_OK(eitp_fit_choose(&fit, &chosen, NULL, &error_), error_);
    CHECK_THAT(chosen.optimizer == EITP_ADAMW && chosen.seconds >= own.seconds, "%g and %g s", chosen.seconds,
               own.seconds);
}

static void lengths_are_halves_of_the_positions(void) {
    int64_t lengths[EITP_FIT_LENGTHS];
    CHECK(eitp_fit_lengths(1024, lengths) == 5 && lengths[0] == 1024 && lengths[1] == 512 && lengths[4] == 64);
    CHECK(eitp_fit_lengths(131072, lengths) == 6 && lengths[0] == 2048 && lengths[5] == 64);
    CHECK(eitp_fit_lengths(100, lengths) == 2 && lengths[0] == 100 && lengths[1] == 64);
    CHECK(eitp_fit_lengths(40, lengths) == 1 && lengths[0] == 40);
    CHECK(eitp_fit_lengths(0, lengths) == 0 && eitp_fit_lengths(64, NULL) == 0);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {TEST(a_larger_budget_never_gives_less), TEST(length_comes_before_fidelity),
                                      TEST(what_saves_memory_counts_as_no_faster),
                                      TEST(lengths_are_halves_of_the_positions)};
    return RUN_TESTS(tests, argc, argv);
}
