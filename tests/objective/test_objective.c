/* The configuration of an objective: names, presets, and refused settings. */
#include "tests/support/everything.h"
#include "tests/support/test.h"

static eitp_error error_;

/* Returns a configuration with one member changed, for the caller to pass on. */
static eitp_objective_config with_preset(eitp_objective_preset preset) {
    eitp_objective_config config = eitp_objective_config_default();
    config.preset = preset;
    return config;
}

static void each_regularizer_has_its_row(void) {
    static const char *const own_passes[] = {"chaos", "jacobian_norm", "self_repair"};
    int count = 0;
    for (int i = 0; i < EITP_REGULARIZERS; i++) {
        const eitp__regularizer_info *info = eitp__regularizer_get((eitp_regularizer)i);
        REQUIRE(info);
        CHECK_THAT((int)info->regularizer == i && !strcmp(info->name, eitp__regularizer_name(info->regularizer)),
                   "row %d is %s", i, info->name);
        CHECK(info->presets[EITP_OBJECTIVE_OFF].mode == EITP_TERM_OFF);
        for (size_t k = 0; k < EITP__COUNT(own_passes); k++)
            count += info->has_own_passes && !strcmp(info->name, own_passes[k]);
        for (int k = 0; k < i; k++)
            CHECK(strcmp(info->name, eitp__regularizer_name((eitp_regularizer)k)));
    }
    CHECK(count == 3);
    CHECK(eitp__regularizer_get(EITP_PATH_NORM)->kind == EITP__TERM_PENALTY);
    CHECK(eitp__regularizer_get(EITP_ENERGY)->kind == EITP__TERM_MACHINE);
    CHECK(!strcmp(eitp__regularizer_name(EITP_OUTPUT_ENTROPY), "entropy"));
    CHECK(!eitp__regularizer_name(EITP_REGULARIZERS) && !eitp__regularizer_name((eitp_regularizer)-1));
}

/* Checks the resolved settings of a regularizer. */
static void check_term(const eitp_objective_config *resolved, eitp_regularizer regularizer, eitp_term_mode mode,
                       double weight, int64_t every) {
    const eitp_regularizer_config *term = &resolved->terms[regularizer];
    CHECK_THAT(term->mode == mode && term->weight == weight && term->every == every,
               "%s: mode %d, weight %g, every %lld", eitp__regularizer_name(regularizer), (int)term->mode, term->weight,
               (long long)term->every);
}

static void check_default_term(eitp_regularizer_config term) {
    CHECK(term.mode == EITP_TERM_PRESET && term.weight == -1 && term.start == 1);
    CHECK(!term.every && !term.warmup && term.target == 0);
}

static void nothing_is_on_by_default(void) {
    const eitp_objective_config config = eitp_objective_config_default();
    eitp_objective_config resolved;
    REQUIRE_OK(eitp__objective_resolve(&config, &resolved, &error_), error_);
    for (int i = 0; i < EITP_REGULARIZERS; i++) {
        const double weight = i == EITP_PATH_NORM ? 1e-3 : i == EITP_ENERGY ? 0 : 1e-2;
        check_default_term(config.terms[i]);
        check_term(&resolved, (eitp_regularizer)i, EITP_TERM_OFF, weight, 1);
    }
    check_default_term(eitp_regularizer_config_default());
    CHECK(resolved.entropy_low == 0.1 && resolved.entropy_high == 0.9 && resolved.coding_rate_epsilon == 0.5);
    CHECK(resolved.chaos_tolerance == 0.1 && resolved.chaos_samples == 1 && resolved.coherence_temperature == 0.1);
    CHECK(resolved.variance_target == 1 && resolved.attention_entropy_floor == 0.1 && resolved.self_repair_rate == 0.1);
    CHECK(resolved.controller_rate == 0.01 && resolved.controller_max == 100 && resolved.grad_cap == 0);
    CHECK(resolved.group == EITP_GROUP_SAMPLE && resolved.controller == EITP_CONTROLLER_CONST);
}

/* The enabled terms of a preset, in the order of their numbers. */
typedef struct preset_row {
    eitp_objective_preset preset;
    eitp_regularizer regularizer;
    eitp_term_mode mode;
    double weight;
} preset_row;

static void presets_set_modes_and_weights(void) {
    static const preset_row rows[] = {
        {EITP_OBJECTIVE_SAFE, EITP_PATH_NORM, EITP_TERM_LOSS, 1e-3},
        {EITP_OBJECTIVE_SAFE, EITP_OUTPUT_ENTROPY, EITP_TERM_LOSS, 1e-2},
        {EITP_OBJECTIVE_SAFE, EITP_CODING_RATE, EITP_TERM_LOSS, 1e-2},
        {EITP_OBJECTIVE_SAFE, EITP_CHAOS, EITP_TERM_LOSS, 1e-2},
        {EITP_OBJECTIVE_SAFE, EITP_COHERENCE, EITP_TERM_METRIC, 1e-2},
        {EITP_OBJECTIVE_PAPER, EITP_PATH_NORM, EITP_TERM_LOSS, 1},
        {EITP_OBJECTIVE_PAPER, EITP_OUTPUT_ENTROPY, EITP_TERM_LOSS, 1},
        {EITP_OBJECTIVE_PAPER, EITP_CHAOS, EITP_TERM_LOSS, 1},
        {EITP_OBJECTIVE_PAPER, EITP_COHERENCE, EITP_TERM_LOSS, 0.1},
        {EITP_OBJECTIVE_PAPER, EITP_BALANCE, EITP_TERM_LOSS, 0.1},
    };
    size_t row = 0;
    for (int preset = EITP_OBJECTIVE_SAFE; preset <= EITP_OBJECTIVE_PAPER; preset++) {
        const eitp_objective_config config = with_preset((eitp_objective_preset)preset);
        eitp_objective_config resolved;
        REQUIRE_OK(eitp__objective_resolve(&config, &resolved, &error_), error_);
        for (int i = 0; i < EITP_REGULARIZERS; i++) {
            if (row < EITP__COUNT(rows) && (int)rows[row].preset == preset && (int)rows[row].regularizer == i) {
                check_term(&resolved, (eitp_regularizer)i, rows[row].mode, rows[row].weight, i == EITP_CHAOS ? 10 : 1);
                row++;
            } else {
                CHECK_THAT(resolved.terms[i].mode == EITP_TERM_OFF, "preset %d: %s", preset,
                           eitp__regularizer_name((eitp_regularizer)i));
            }
        }
    }
    CHECK(row == EITP__COUNT(rows));
}

/* A mode that is set overrides the preset's mode and keeps its weight. A weight that is set is kept too, and enables
   the term. */
static void what_is_set_overrides_the_preset(void) {
    eitp_objective_config config = with_preset(EITP_OBJECTIVE_PAPER);
    eitp_regularizer_config *terms = config.terms;
    eitp_objective_config resolved;
    terms[EITP_PATH_NORM].mode = EITP_TERM_METRIC;
    terms[EITP_OUTPUT_ENTROPY].mode = EITP_TERM_OFF;
    terms[EITP_CHAOS].mode = EITP_TERM_METRIC;
    terms[EITP_CODING_RATE].mode = EITP_TERM_LOSS;
    terms[EITP_COHERENCE].weight = 0.5;
    terms[EITP_BALANCE].weight = 0;
    terms[EITP_BRIER].weight = 0.25;
    terms[EITP_SELF_REPAIR].mode = EITP_TERM_METRIC;
    terms[EITP_SELF_REPAIR].every = 7;
    terms[EITP_JACOBIAN_NORM].mode = EITP_TERM_LOSS;
    terms[EITP_JACOBIAN_NORM].weight = 0;
    terms[EITP_ENERGY].mode = EITP_TERM_METRIC;
    REQUIRE_OK(eitp__objective_resolve(&config, &resolved, &error_), error_);
    check_term(&resolved, EITP_PATH_NORM, EITP_TERM_METRIC, 1, 1);
    check_term(&resolved, EITP_OUTPUT_ENTROPY, EITP_TERM_OFF, 1, 1);
    check_term(&resolved, EITP_CHAOS, EITP_TERM_METRIC, 1, 50);
    check_term(&resolved, EITP_CODING_RATE, EITP_TERM_LOSS, 1e-2, 1);
    check_term(&resolved, EITP_COHERENCE, EITP_TERM_LOSS, 0.5, 1);
    check_term(&resolved, EITP_BALANCE, EITP_TERM_OFF, 0, 1);
    check_term(&resolved, EITP_BRIER, EITP_TERM_LOSS, 0.25, 1);
    check_term(&resolved, EITP_SELF_REPAIR, EITP_TERM_METRIC, 1e-2, 7);
    check_term(&resolved, EITP_JACOBIAN_NORM, EITP_TERM_LOSS, 0, 10);
    check_term(&resolved, EITP_ENERGY, EITP_TERM_METRIC, 0, 1);
    REQUIRE_OK(eitp__objective_resolve(&resolved, &resolved, &error_), error_);
    check_term(&resolved, EITP_CHAOS, EITP_TERM_METRIC, 1, 50);
}

/* Checks that a configuration fails with the words and leaves the result unchanged. */
static void check_refused(const eitp_objective_config *config, const char *words) {
    eitp_objective_config resolved = with_preset(EITP_OBJECTIVE_SAFE);
    resolved.chaos_samples = 123;
    CHECK_THAT(eitp__objective_resolve(config, &resolved, &error_) == EITP_ERROR_ARGUMENT, "%s", words);
    CHECK_THAT(!strcmp(error_.message, words), "%s", error_.message);
    CHECK(resolved.preset == EITP_OBJECTIVE_SAFE && resolved.chaos_samples == 123);
}

static void what_cannot_be_is_refused(void) {
    static const char energy[] = "energy has no gradient and cannot be a loss; set it to metric or off";
    const eitp_objective_config usual = eitp_objective_config_default();
    eitp_objective_config config = usual;
    config.terms[EITP_ENERGY].mode = EITP_TERM_LOSS;
    check_refused(&config, energy);
    config = usual;
    config.terms[EITP_ENERGY].weight = 1;
    check_refused(&config, energy);
    config = usual;
    config.entropy_low = 0.95;
    check_refused(&config, "entropy_low must be at most entropy_high, which is 0.9 (got 0.95)");
    config = usual;
    config.controller_min = 200;
    check_refused(&config, "controller_min must be at most controller_max, which is 100 (got 200)");
    config = usual;
    config.grad_cap = -0.5;
    check_refused(&config, "reg_grad_cap must be at least 0 and at most 1e+30 (got -0.5)");
    config = usual;
    config.terms[EITP_BRIER].every = -1;
    check_refused(&config, "brier_every must be at least 0 and at most 9007199254740992 (got -1)");
    config = usual;
    config.terms[EITP_CHAOS].mode = (eitp_term_mode)4;
    check_refused(&config, "chaos must be preset, off, metric or loss (got 4)");
    config = usual;
    config.preset = (eitp_objective_preset)3;
    check_refused(&config, "objective must be off, eitp-safe or eitp-paper (got 3)");
    config = usual;
    config.coherence_temperature = 0;
    check_refused(&config, "coherence_temperature must be above 0 and at most 1e+30 (got 0)");
    /* A controller without targets keeps weights constant. A band may be a single point. */
    config = usual;
    config.controller = EITP_CONTROLLER_PI;
    config.entropy_low = config.entropy_high;
    CHECK(!eitp__objective_resolve(&config, &config, &error_));
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(each_regularizer_has_its_row),     TEST(nothing_is_on_by_default),  TEST(presets_set_modes_and_weights),
        TEST(what_is_set_overrides_the_preset), TEST(what_cannot_be_is_refused),
    };
    return RUN_TESTS(tests, argc, argv);
}
