/* Optimizers and learning-rate schedules. */
#ifndef EITP_OPTIM_H
#define EITP_OPTIM_H

#include "tensor/tensor.h"

EITP_BEGIN_DECLARATIONS

/* Default of eitp_optimizer_config.piece_bytes. */
#define EITP_PIECE_BYTES ((size_t)16 << 20)

/* ---- Optimizers ---- */

/* Rules for updating weights, and the state stored for them. In 16-bit precision weights are stored in the optimizer's
   eitp_parameter_form. Except with SGD, vectors have two moments in F32. */
typedef enum eitp_optimizer {
    /* AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", arXiv 1711.05101): F32 weights (in 16-bit
     * precision two planes), F32 moments. */
    EITP_ADAMW = 0,
    /* BF16 weights with an 8-bit correction; 8-bit moments, companded, in groups of 32 that share a BF16 scale
     * (FlashOptim, arXiv 2602.23349). */
    EITP_ADAMW8 = 1,
    EITP_ADAMW8_SR = 2, /* BF16 weights with stochastic rounding, 8-bit moments */
    /*
     * BF16 weights with stochastic rounding. The second moment is stored as row and column means, the first moment
     * along 4 directions that track the steepest directions of the gradient. The root mean square of updates is at most
     * the learning rate (Shazeer and Stern, "Adafactor", arXiv 1804.04235; AdaLomo, arXiv 2310.10195). Learning rates
     * have the same meaning as for AdamW.
     */
    EITP_FACTORED = 3,
    /*
     * SGD with momentum, like torch.optim.SGD without dampening and Nesterov momentum: weights as in EITP_ADAMW and one
     * F32 velocity, velocity = beta1 * velocity + gradient, multiplied by the learning rate. beta2 and epsilon are not
     * used. Weight decay is decoupled, as in AdamW. Learning rates are orders of magnitude larger than AdamW's, because
     * the gradient is not divided by the root of its mean square.
     */
    EITP_SGD = 4,
    EITP_OPTIMIZER_COUNT = 5
} eitp_optimizer;

/* Closeness of a run to the same run with EITP_ADAMW. */
typedef enum eitp_fidelity {
    EITP_SAME_BITS = 0,  /* identical */
    EITP_SEED_NOISE = 1, /* differs as much as a run with another seed */
    EITP_APPROXIMATE = 2,
    EITP_DIFFERENT_ALGORITHM = 3 /* not comparable: needs other learning rates; chosen only on request */
} eitp_fidelity;

typedef struct eitp_optimizer_info {
    const char *name;    /* "adamw", "adamw8", "adamw8-sr", "factored", "sgd" */
    const char *aliases; /* names in other programs, separated by spaces; may be "" */
    const char *state;   /* weights and state in words, such as "f32 weights and moments" */
    eitp_fidelity fidelity;
    eitp_parameter_form parameters; /* form of 16-bit weights: set eitp_context_config.parameters to it */
    double rate, fine_tuning_rate;  /* usual peak learning rates for training from random and from trained weights */
    double weight_decay;            /* usual weight decay */
} eitp_optimizer_info;

/* Returns information about an optimizer, a constant, or NULL if it is unknown. */
EITP_API const eitp_optimizer_info *eitp_optimizer_get(eitp_optimizer optimizer);

/* ---- A step ---- */

/* Start from eitp_optimizer_config_default(). */
typedef struct eitp_optimizer_config {
    eitp_optimizer optimizer;
    double beta1, beta2; /* at least 0 and below 1 */
    double epsilon;      /* above 0 */
    double weight_decay; /* 0 or more; applies to variables whose decay flag is set */
    /* Larger gradients are computed and applied in pieces of about this size; same bits. With EITP_PIECE_BYTES a
       trainer chooses: 4 MiB if variables are offloaded, up to 1/64 of the memory of a GPU. */
    size_t piece_bytes;
    /* Factor of the loss, F32 [1] of the same graph. The update divides it out (Micikevicius et al., "Mixed Precision
       Training", arXiv 1710.03740). NULL: 1. */
    eitp_tensor *loss_scale;
    int skips; /* 1: the update has the input eitp_update.skip_norm */
    /* Returns the factor of the learning rate for a parameter, above 0 and finite. NULL: 1 for all. Called while the
       graph is built, with rate_user as `user`. */
    double (*rate_factor)(void *user, const char *parameter);
    void *rate_user;
    /* Called for each parameter while the graph is built. `gradient` is the sum of squares of its gradient, times the
       square of the loss scale; `update` [2] holds the sums of squares of its update and of the parameter. eitp_output
       makes them readable. NULL: not called. */
    void (*observe)(void *observe_user, const eitp_tensor *parameter, eitp_tensor *gradient, eitp_tensor *update);
    void *observe_user;
    /* For eitp_apply_gradients, if gradients were accumulated through eitp_embedding_unique: its ids, I32 [u] of the
       same graph. Otherwise NULL. */
    eitp_tensor *unique;
    /* A loss on parameters, F32 [1] of the same graph. Its gradient is added last to each parameter's, so that the
       result is the same with accumulated gradients. NULL: none. */
    eitp_tensor *penalty;
    /* For eitp_apply_gradients, above 0: scales down the sum of the penalty's gradient and the separately accumulated
       gradients of regularizers, so that its norm is at most this factor times the norm of the other gradients. 0: no
       cap. */
    double regularizer_cap;
} eitp_optimizer_config;

/* Returns EITP_ADAMW, betas 0.9 and 0.999, epsilon 1e-8, weight decay 0.01, EITP_PIECE_BYTES, no loss scale, the same
   rate for all parameters, no observer, no unique ids. */
EITP_API eitp_optimizer_config eitp_optimizer_config_default(void);

/* Inputs of an update, to write before each execution of its plan, and outputs, to read afterwards. */
typedef struct eitp_update {
    eitp_tensor *rate_and_step; /* input F32 [2]: learning rate, 0 or more; step number, from 1 */
    eitp_tensor *key;           /* input I64 [3]: seed, step number, 0. NULL if no parameter uses stochastic rounding */
    eitp_tensor *max_norm;      /* input F32 [1]: maximum norm of the whole gradient; 0: no clipping */
    eitp_tensor *skip_norm;     /* input F32 [1]: steps with a larger norm are not applied; 0: no limit. NULL without
                                   `skips` */
    eitp_tensor *commit;        /* output F32 [2]: factor of the gradient; 1 if the step was applied, 0 if not */
    eitp_tensor *norm;          /* output F32 [1]: norm of the whole gradient before clipping */
    /* With regularizer_cap, output F64 [3]: the norm of the task's gradient and the norm of the regularizers', both
       times the loss scale, and the factor of the latter. NULL if no regularizer has a gradient, or without a cap. */
    eitp_tensor *regularizers;
    eitp_tensor *norms; /* output F64 [2]: norms of the whole update, and of all parameters after it */
} eitp_update;

/*
 * Adds one optimizer step to the graph of `loss`, a scalar: computes the gradients of all parameters in the graph that
 * are not frozen, and updates them. The gradient is scaled by min(1, limit / (norm + 1e-6)), like
 * torch.nn.utils.clip_grad_norm_. A step whose norm is not finite, or above skip_norm, is not applied: parameters and
 * state are unchanged. EITP_ERROR_ARGUMENT if an argument is NULL, a member of the configuration is out of range, or
 * the graph has no trained parameter.
 *
 * State is stored in variables of role EITP_OPTIMIZER, named after the parameter:
 *     AdamW      adamw.m.<name>, adamw.v.<name>; with 8-bit moments also adamw.m_scale.<name>, adamw.v_scale.<name>
 *     factored   factored.rows.<name> and factored.columns.<name>, the means; factored.directions.<name> and
 *                factored.m.<name>, the first moment along them, by rows; vectors as with AdamW
 *     SGD        sgd.velocity.<name>
 * The remainder of a 16-bit parameter (eitp_parameter_form) is remainder.<name>, of role EITP_REMAINDER.
 */
EITP_API eitp_status eitp_minimize(eitp_tensor *loss, const eitp_optimizer_config *config, eitp_update *update,
                                   eitp_error *error);

/* Adds the same step, with the gradients accumulated by eitp_accumulate_gradients. Updates all parameters of the
   context that have one and are not frozen. */
EITP_API eitp_status eitp_apply_gradients(eitp_graph *graph, const eitp_optimizer_config *config, eitp_update *update,
                                          eitp_error *error);

/* ---- Schedules ---- */

typedef enum eitp_schedule_kind {
    EITP_SCHEDULE_CONSTANT = 0,
    EITP_SCHEDULE_LINEAR = 1,
    EITP_SCHEDULE_COSINE = 2,               /* Loshchilov and Hutter, arXiv 1608.03983, without restarts */
    EITP_SCHEDULE_COSINE_WITH_RESTARTS = 3, /* with restarts, in cycles of equal length */
    EITP_SCHEDULE_PLATEAU = 4, /* reduced when the validation loss stops improving: see eitp_plateau_config */
    EITP_SCHEDULE_CYCLICAL = 5 /* for weights of loss terms: Fu et al., arXiv 1903.10145 */
} eitp_schedule_kind;

/*
 * The learning rate of step s, counted from 1. In the first `warmup` steps it is peak * s / warmup, or with
 * `warmup_from_zero` peak * (s - 1) / warmup, as in transformers. After that, with
 * p = (s - 1 - warmup) / (steps - warmup), at most 1, it is:
 *     constant               peak
 *     linear                 peak + (final - peak) p
 *     cosine                 final + (peak - final) (1 + cos(pi p)) / 2
 *     cosine with restarts   the cosine of the fractional part of cycles * p, and `final` once p is 1
 *     cyclical               final + (peak - final) min(1, 2 f) with that fractional part f, and the peak once p is 1
 * The rate of EITP_SCHEDULE_PLATEAU depends on evaluations. The schedule returns the peak; the trainer reduces it, down
 * to `final` at the lowest. Start from eitp_schedule_default().
 */
typedef struct eitp_schedule {
    eitp_schedule_kind kind;
    double peak, final;
    int64_t warmup, steps;
    int64_t cycles; /* for schedules that have them; below 1: 1 */
    int warmup_from_zero;
} eitp_schedule;

/* Returns a constant rate of 5e-5, without warm-up; one cycle. */
EITP_API eitp_schedule eitp_schedule_default(void);

/* Returns the learning rate of a step, or 0 if the schedule is NULL. */
EITP_API double eitp_schedule_rate(const eitp_schedule *schedule, int64_t step);

EITP_END_DECLARATIONS

#endif
