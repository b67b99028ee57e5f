/* The library's regularizers, and the settings of an objective, for its setting table and for tables of structs that
   contain it. */
#ifndef EITP_OBJECTIVE_SETTINGS_H
#define EITP_OBJECTIVE_SETTINGS_H

#include "base/setting_table.h"
#include "objective/objective.h"

/*
 * The regularizers in the order of their numbers: name; kind (eitp__term_kind); 1 if it has separate passes; default
 * weight; mode and weight in eitp-safe; mode and weight in eitp-paper; help. A negative weight stands for the default.
 */
#define EITP__REGULARIZER_LIST(X, type, at)                                                                            \
    X(type, at, PATH_NORM, "path_norm", PENALTY, 0, 1e-3, LOSS, 1e-3, LOSS, 1,                                         \
      "logarithm of the path norm of the weights, per block"),                                                         \
        X(type, at, OUTPUT_ENTROPY, "entropy", STATISTIC, 0, 1e-2, LOSS, 1e-2, LOSS, 1,                                \
          "entropy of the predictions, kept in a band"),                                                               \
        X(type, at, CODING_RATE, "coding_rate", STATISTIC, 0, 1e-2, LOSS, 1e-2, OFF, -1,                               \
          "coding rate of the hidden states"),                                                                         \
        X(type, at, CHAOS, "chaos", STATISTIC, 1, 1e-2, LOSS, 1e-2, LOSS, 1,                                           \
          "sensitivity of the hidden states to the input, an exponent kept near a target"),                            \
        X(type, at, JACOBIAN_NORM, "jacobian_norm", STATISTIC, 1, 1e-2, OFF, -1, OFF, -1,                              \
          "squared Frobenius norm of the Jacobian"),                                                                   \
        X(type, at, COHERENCE, "coherence", STATISTIC, 0, 1e-2, METRIC, -1, LOSS, 0.1,                                 \
          "contrastive prediction of later hidden states"),                                                            \
        X(type, at, BRIER, "brier", STATISTIC, 0, 1e-2, OFF, -1, OFF, -1, "Brier score of the predictions"),           \
        X(type, at, VARIANCE, "variance", STATISTIC, 0, 1e-2, OFF, -1, OFF, -1,                                        \
          "variance and covariance of the hidden states' channels (VICReg)"),                                          \
        X(type, at, PARTICIPATION_RATIO, "participation_ratio", STATISTIC, 0, 1e-2, OFF, -1, OFF, -1,                  \
          "effective dimension of the hidden states"),                                                                 \
        X(type, at, BALANCE, "balance", STATISTIC, 0, 1e-2, OFF, -1, LOSS, 0.1,                                        \
          "scale of the hidden states, kept near a target"),                                                           \
        X(type, at, ATTENTION_ENTROPY, "attention_entropy", STATISTIC, 0, 1e-2, OFF, -1, OFF, -1,                      \
          "entropy of attention, kept above a floor"),                                                                 \
        X(type, at, SELF_REPAIR, "self_repair", STATISTIC, 1, 1e-2, OFF, -1, OFF, -1,                                  \
          "predictions from partly replaced tokens"),                                                                  \
        X(type, at, ENERGY, "energy", MACHINE, 0, 0, OFF, -1, OFF, -1, "joules of processor and memory; never a loss")

/* Flags of settings whose value is listed only if it is not the default, and of settings without their own help. */
#define EITP__OBJECTIVE_MINOR (EITP_SETTING_OPTIONAL | EITP_SETTING_MINOR)
#define EITP__OBJECTIVE_DETAIL (EITP__OBJECTIVE_MINOR | EITP_SETTING_DETAIL)

#define EITP__REGULARIZER_SETTINGS(type, at, ID, name, term_kind, passes, own_weight, safe, safe_weight, paper,        \
                                   paper_weight, help)                                                                 \
    EITP__SETTING(type, at, terms[EITP_##ID].mode, name, CHOICE, EITP_TERM_PRESET, 0, 3, EITP__OBJECTIVE_MINOR,        \
                  LOGGED, "preset off metric loss", help),                                                             \
        EITP__SETTING(type, at, terms[EITP_##ID].weight, name "_weight", NUMBER, -1, -1, 1e30, EITP__OBJECTIVE_DETAIL, \
                      LOGGED, NULL,                                                                                    \
                      "weight in the loss; setting it turns the loss on; negative: the preset's or default weight"),   \
        EITP__SETTING(type, at, terms[EITP_##ID].every, name "_every", INTEGER, 0, 0, EITP__LARGEST_COUNT,             \
                      EITP__OBJECTIVE_DETAIL, LOGGED, NULL, "compute it every N steps; 0: the default interval"),      \
        EITP__SETTING(type, at, terms[EITP_##ID].start, name "_start", INTEGER, 1, 1, EITP__LARGEST_COUNT,             \
                      EITP__OBJECTIVE_DETAIL, LOGGED, NULL, "first step that computes it"),                            \
        EITP__SETTING(type, at, terms[EITP_##ID].warmup, name "_warmup", INTEGER, 0, 0, EITP__LARGEST_COUNT,           \
                      EITP__OBJECTIVE_DETAIL, LOGGED, NULL, "steps over which its weight rises"),                      \
        EITP__SETTING(type, at, terms[EITP_##ID].target, name "_target", NUMBER, 0, -1e6, 1e6, EITP__OBJECTIVE_DETAIL, \
                      LOGGED, NULL, "target value of the controller; 0: none, the weight is constant")

#define EITP__OBJECTIVE_SETTING(type, at, member, name, kind, value, min, max, flags, choices, help)                   \
    EITP__SETTING(type, at, member, name, kind, value, min, max, EITP__OBJECTIVE_MINOR | (flags), LOGGED, choices, help)

#define EITP__OBJECTIVE_SETTINGS(type, at)                                                                             \
    EITP__SETTING(type, at, preset, "objective", CHOICE, EITP_OBJECTIVE_OFF, 0, 2, EITP_SETTING_OPTIONAL, LOGGED,      \
                  "off eitp-safe eitp-paper", "modes and weights of the regularizers that are not set individually"),  \
        EITP__REGULARIZER_LIST(EITP__REGULARIZER_SETTINGS, type, at),                                                  \
        EITP__SETTING(type, at, group, "group", CHOICE, EITP_GROUP_SAMPLE, 0, 1, EITP__OBJECTIVE_MINOR, REFUSED,       \
                      "sample micro-batch",                                                                            \
                      "compute statistics over each sample, or over each micro-batch of two or more samples"),         \
        EITP__OBJECTIVE_SETTING(type, at, grad_cap, "reg_grad_cap", NUMBER, 0, 0, 1e30, 0, NULL,                       \
                                "scale the gradient of all regularizers down to this fraction of the norm of the "     \
                                "task's gradient; 0: no cap"),                                                         \
        EITP__SETTING(type, at, term_norms_every, "term_norms_every", INTEGER, 0, 0, EITP__LARGEST_COUNT,              \
                      EITP__OBJECTIVE_MINOR, ACCEPTED, NULL,                                                           \
                      "measure the gradient norm of each term every N steps; 0: never"),                               \
        EITP__OBJECTIVE_SETTING(type, at, path_norm_form, "path_norm_form", CHOICE, EITP_PATH_NORM_1, 0, 3, 0,         \
                                "path path2 l1 l2",                                                                    \
                                "norm of the path norm: over paths, of absolute values or of squares; or the mean "    \
                                "absolute value or square of the weights"),                                            \
        EITP__OBJECTIVE_SETTING(type, at, entropy_low, "entropy_low", NUMBER, 0.1, 0, 1, 0, NULL,                      \
                                "lower end of the entropy band, as a fraction of the maximum entropy"),                \
        EITP__OBJECTIVE_SETTING(type, at, entropy_high, "entropy_high", NUMBER, 0.9, 0, 1, 0, NULL,                    \
                                "upper end of the entropy band"),                                                      \
        EITP__OBJECTIVE_SETTING(type, at, coding_rate_epsilon, "coding_rate_epsilon", NUMBER, 0.5, 0, 1e30,            \
                                EITP_SETTING_ABOVE, NULL, "squared distortion of the coding rate"),                    \
        EITP__OBJECTIVE_SETTING(type, at, chaos_target, "chaos_exponent", NUMBER, 0, -1e6, 1e6, 0, NULL,               \
                                "target exponent of chaos, in nats per layer"),                                        \
        EITP__OBJECTIVE_SETTING(type, at, chaos_tolerance, "chaos_tolerance", NUMBER, 0.1, 0, 1e30, 0, NULL,           \
                                "distance from the target exponent of chaos that is not penalized"),                   \
        EITP__OBJECTIVE_SETTING(type, at, chaos_one_sided, "chaos_one_sided", FLAG, 0, 0, 1, 0, NULL,                  \
                                "penalize only exponents above the target"),                                           \
        EITP__OBJECTIVE_SETTING(type, at, chaos_positions, "chaos_positions", CHOICE, EITP_CHAOS_ALL, 0, 1, 0,         \
                                "all last", "positions that chaos and the norm of the Jacobian perturb"),              \
        EITP__OBJECTIVE_SETTING(                                                                                       \
            type, at, chaos_samples, "chaos_samples", INTEGER, 1, 1, EITP__LARGEST_COUNT, 0, NULL,                     \
            "samples of a step for chaos, the norm of the Jacobian and self-repair, at most a micro-batch"),           \
        EITP__OBJECTIVE_SETTING(type, at, coherence_temperature, "coherence_temperature", NUMBER, 0.1, 0, 1e30,        \
                                EITP_SETTING_ABOVE, NULL, "temperature of coherence's similarities"),                  \
        EITP__OBJECTIVE_SETTING(type, at, variance_target, "variance_deviation", NUMBER, 1, 0, 1e30, 0, NULL,          \
                                "minimum standard deviation of each channel for variance"),                            \
        EITP__OBJECTIVE_SETTING(type, at, balance_target, "balance_log_scale", NUMBER, 0, -1e6, 1e6, 0, NULL,          \
                                "target of balance for half the logarithm of the mean variance"),                      \
        EITP__OBJECTIVE_SETTING(type, at, attention_entropy_floor, "attention_entropy_floor", NUMBER, 0.1, 0, 1, 0,    \
                                NULL,                                                                                  \
                                "minimum attention entropy that is not penalized, as a fraction of the maximum"),      \
        EITP__OBJECTIVE_SETTING(type, at, self_repair_form, "self_repair_form", CHOICE, EITP_SELF_REPAIR_KL, 0, 1, 0,  \
                                "kl denoise",                                                                          \
                                "loss of self-repair: divergence from the predictions without replaced tokens, or "    \
                                "cross-entropy of the true tokens"),                                                   \
        EITP__OBJECTIVE_SETTING(type, at, self_repair_rate, "self_repair_rate", NUMBER, 0.1, 0, 1, EITP_SETTING_ABOVE, \
                                NULL, "fraction of the tokens that self-repair replaces"),                             \
        EITP__OBJECTIVE_SETTING(type, at, controller, "controller", CHOICE, EITP_CONTROLLER_CONST, 0, 2, 0,            \
                                "const dual pi", "controller of the weights of regularizers with a target"),           \
        EITP__OBJECTIVE_SETTING(type, at, controller_rate, "controller_rate", NUMBER, 0.01, 0, 1e30, 0, NULL,          \
                                "rate of the controller: eta of dual, integral gain of pi"),                           \
        EITP__OBJECTIVE_SETTING(type, at, controller_proportional, "controller_proportional", NUMBER, 0, 0, 1e30, 0,   \
                                NULL, "proportional gain of pi"),                                                      \
        EITP__OBJECTIVE_SETTING(type, at, controller_min, "controller_min", NUMBER, 0, 0, 1e30, 0, NULL,               \
                                "smallest factor of a weight"),                                                        \
        EITP__OBJECTIVE_SETTING(type, at, controller_max, "controller_max", NUMBER, 100, 0, 1e30, 0, NULL,             \
                                "largest factor of a weight")

/* Returns the name of a regularizer in settings and records, such as "path_norm", or NULL for an unknown number. */
EITP__PRIVATE const char *eitp__regularizer_name(eitp_regularizer regularizer);

#endif
