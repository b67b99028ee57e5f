/* The objective: the library's regularizers, which a trainer adds to any task, each as a metric or as a term of the
   loss. See docs/objective.md for formulas, costs and measured effects. */
#ifndef EITP_OBJECTIVE_H
#define EITP_OBJECTIVE_H

#include "task/task.h"

EITP_BEGIN_DECLARATIONS

/* The regularizers. */
typedef enum eitp_regularizer {
    EITP_PATH_NORM = 0,           /* penalty: logarithm of the path norm, per block */
    EITP_OUTPUT_ENTROPY = 1,      /* statistic: entropy of the predictions, kept in a band */
    EITP_CODING_RATE = 2,         /* statistic: coding rate of the hidden states of a group */
    EITP_CHAOS = 3,               /* statistic, with separate passes: sensitivity to the input, kept near a target */
    EITP_JACOBIAN_NORM = 4,       /* statistic, with separate passes: squared Frobenius norm of the Jacobian */
    EITP_COHERENCE = 5,           /* statistic: contrastive prediction of later hidden states */
    EITP_BRIER = 6,               /* statistic: Brier score of the predictions */
    EITP_VARIANCE = 7,            /* statistic: variance and covariance of the hidden states' channels */
    EITP_PARTICIPATION_RATIO = 8, /* statistic: effective dimension of the hidden states */
    EITP_BALANCE = 9,             /* statistic: scale of the hidden states, kept near a target */
    EITP_ATTENTION_ENTROPY = 10,  /* statistic: entropy of attention, kept above a floor */
    EITP_SELF_REPAIR = 11,        /* statistic, with a separate pass: predictions from corrupted tokens */
    EITP_ENERGY = 12,             /* metric only: joules of processor and memory */
    EITP_REGULARIZERS = 13
} eitp_regularizer;

/* The use of a regularizer. */
typedef enum eitp_term_mode {
    EITP_TERM_PRESET = 0, /* set by the preset; or, if its weight is set, a loss, or off if the weight is 0 */
    EITP_TERM_OFF = 1,
    EITP_TERM_METRIC = 2, /* measured, without a gradient */
    EITP_TERM_LOSS = 3    /* a term of the loss, also measured */
} eitp_term_mode;

/* Presets for the regularizers whose mode is EITP_TERM_PRESET. */
typedef enum eitp_objective_preset {
    EITP_OBJECTIVE_OFF = 0,  /* none */
    EITP_OBJECTIVE_SAFE = 1, /* path norm 1e-3; entropy, coding rate and chaos 1e-2; coherence measured */
    EITP_OBJECTIVE_PAPER = 2 /* relative weights of EIT-P: path norm, entropy and chaos 1, coherence and balance 0.1 */
} eitp_objective_preset;

/* The method that adjusts the factor of a regularizer's weight from step to step. */
typedef enum eitp_controller {
    EITP_CONTROLLER_CONST = 0, /* always 1 */
    EITP_CONTROLLER_DUAL = 1,  /* gradient ascent on the Lagrangian of "term <= target" (Rezende and Viola, 2018) */
    EITP_CONTROLLER_PI = 2     /* proportional-integral control of the term around its target */
} eitp_controller;

/* The configuration of a regularizer. Start from eitp_regularizer_config_default(). */
typedef struct eitp_regularizer_config {
    eitp_term_mode mode;
    double weight; /* negative: the weight of the preset, or the regularizer's default */
    int64_t every; /* see eitp_term_schedule; 0: every step, or with separate passes every 10th step as a loss and every
                      50th as a metric */
    int64_t start; /* from 1 */
    int64_t warmup;
    double target; /* for the controllers dual and pi; 0: none, the weight is constant */
} eitp_regularizer_config;

/* Kinds of path norm. */
typedef enum eitp_path_norm_form {
    EITP_PATH_NORM_1 = 0,  /* of absolute values */
    EITP_PATH_NORM_2 = 1,  /* of squares */
    EITP_PATH_NORM_L1 = 2, /* not a path norm: the mean absolute value of the weights */
    EITP_PATH_NORM_L2 = 3  /* not a path norm: the mean square */
} eitp_path_norm_form;

/* Positions that are perturbed for chaos and the Jacobian's norm. */
typedef enum eitp_chaos_positions {
    EITP_CHAOS_ALL = 0, /* all positions of a sequence; the effect is read at all of them */
    EITP_CHAOS_LAST = 1 /* the last position; the effect is read there and, in bidirectional models, at all others */
} eitp_chaos_positions;

typedef enum eitp_self_repair_form {
    EITP_SELF_REPAIR_KL = 0,     /* divergence from the predictions without corruption */
    EITP_SELF_REPAIR_DENOISE = 1 /* cross-entropy of the true tokens */
} eitp_self_repair_form;

/* Start from eitp_objective_config_default(). */
typedef struct eitp_objective_config {
    eitp_objective_preset preset;
    eitp_regularizer_config terms[EITP_REGULARIZERS];
    eitp_group group;
    double grad_cap; /* limits the regularizers' gradient to this fraction of the norm of the task's gradient; 0: no
                        cap */
    int64_t term_norms_every; /* measures the gradient norm of each term every N steps; 0: never */
    eitp_path_norm_form path_norm_form;
    double entropy_low, entropy_high; /* the band, as fractions of the maximum entropy */
    double coding_rate_epsilon;       /* squared distortion: epsilon^2 of MCR^2 */
    double chaos_target, chaos_tolerance;
    int chaos_one_sided; /* 1: only exponents above the target are penalized */
    eitp_chaos_positions chaos_positions;
    int64_t chaos_samples; /* samples of a step in the separate passes of regularizers, at most a micro-batch */
    double coherence_temperature;
    double variance_target; /* gamma of VICReg */
    double balance_target;  /* target of half the logarithm of the mean variance */
    double attention_entropy_floor;
    eitp_self_repair_form self_repair_form;
    double self_repair_rate; /* fraction of the tokens that are replaced */
    eitp_controller controller;
    double controller_rate;                /* eta of dual, k_i of pi */
    double controller_proportional;        /* k_p of pi */
    double controller_min, controller_max; /* bounds of the factor */
} eitp_objective_config;

/* Mode and weight from the preset, in each step. */
EITP_API eitp_regularizer_config eitp_regularizer_config_default(void);

/* No regularizers. */
EITP_API eitp_objective_config eitp_objective_config_default(void);

EITP_END_DECLARATIONS

#endif
