/* Optimizers and learning-rate schedules. */
#ifndef EITP_OPTIM_H
#define EITP_OPTIM_H

#include "tensor/tensor.h"

EITP_BEGIN_DECLARATIONS

#define EITP_PIECE_BYTES ((size_t)16 << 20)

/* What the two moments of a matrix are kept in; those of vectors are F32. */
typedef enum eitp_moments {
    EITP_MOMENTS_F32 = 0,
    EITP_MOMENTS_8BIT = 1, /* companded, in groups of 32 that share a BF16 scale (FlashOptim, arXiv 2602.23349) */
    /* Of the second moment the means of rows and columns, of the first what is along four directions that follow the
     * gradient's steepest ones, and updates whose root mean square is limited to the learning rate (Shazeer and Stern,
     * "Adafactor", arXiv 1804.04235; AdaLomo, arXiv 2310.10195). Learning rates mean what they mean for AdamW. */
    EITP_MOMENTS_FACTORED = 2,
    /* Not AdamW but SGD with momentum, as torch.optim.SGD has it without dampening and not Nesterov's: of matrices and
     * vectors one F32 velocity, velocity = beta1 * velocity + gradient, which the learning rate multiplies. Weight
     * decay is AdamW's, from the parameter and not through the velocity. What SGD calls a learning rate is orders of
     * magnitude larger, as it is multiplied by gradients, and not by gradients over their roots of mean squares. */
    EITP_MOMENTS_VELOCITY = 3
} eitp_moments;

/* AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", arXiv 1711.05101), or with
 * EITP_MOMENTS_VELOCITY SGD, whose momentum is beta1: beta2 and epsilon are not used. */
typedef struct eitp_optimizer_config {
    double beta1, beta2, epsilon;
    double weight_decay; /* of the variables whose decay flag is set */
    eitp_moments moments;
    size_t piece_bytes; /* a larger gradient is made and used in pieces of about this size; the bits are the same */
    /* What the loss was multiplied by, F32 [1] of the same graph; it is divided out (Micikevicius et al., "Mixed
     * Precision Training", arXiv 1710.03740). NULL: 1 */
    eitp_tensor *loss_scale;
    /* Of eitp_apply_gradients, where gradients were accumulated through eitp_embedding_unique: its ids, I32 [u] of the same
     * graph. NULL: none were */
    eitp_tensor *unique;
} eitp_optimizer_config;

/* 0.9, 0.999, 1e-8, 0.01, moments in F32, EITP_PIECE_BYTES, no loss scale, no unique ids */
EITP_API eitp_optimizer_config eitp_optimizer_config_default(void);

/* What an update reads and tells: inputs are written before a run, outputs may be read after it. */
typedef struct eitp_update {
    eitp_tensor *hyper; /* input F32 [2]: learning rate, number of the step from 1 */
    eitp_tensor *key; /* input I64 [3]: seed, step, 0, of parameters that round stochastically; NULL: there are none */
    eitp_tensor *limit; /* input F32 [1]: largest norm of the whole gradient; 0: no limit */
    eitp_tensor
        *commit; /* output F32 [2]: what gradients were multiplied by; 1 if the step was made, 0 if it was not finite */
    eitp_tensor *norm;  /* output F32 [1]: norm of the whole gradient before clipping */
    eitp_tensor *norms; /* output F64 [2]: norms of the whole update, and of all parameters after it */
} eitp_update;

/*
 * Adds one AdamW step to the graph: of every trained parameter it uses, by its gradient of `loss` (a scalar). The
 * gradient is scaled by min(1, limit / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ does; where its norm is not
 * finite nothing is changed. Moments are variables "adamw.m.<name>" and "adamw.v.<name>" of role EITP_OPTIMIZER, their
 * scales "adamw.m_scale.<name>" and "adamw.v_scale.<name>"; means are "factored.rows.<name>" and
 * "factored.columns.<name>", and the first moment by rows "factored.m.<name>", along "factored.directions.<name>";
 * velocities are "sgd.velocity.<name>"; what a 16-bit parameter lacks of the F32 value that is updated is the variable
 * "remainder.<name>" of role EITP_REMAINDER, as the context's eitp_parameter_form says.
 */
EITP_API eitp_status eitp_minimize(eitp_tensor *loss, const eitp_optimizer_config *config, eitp_update *update,
                                   eitp_error *error);

/* The same step from the accumulated gradients (eitp_accumulate_gradients) of all parameters in the context that have
 * one. */
EITP_API eitp_status eitp_apply_gradients(eitp_graph *graph, const eitp_optimizer_config *config, eitp_update *update,
                                          eitp_error *error);

/* ---- Optimizers: what parameters and their states are kept in ---- */

typedef enum eitp_optimizer {
    EITP_ADAMW = 0,     /* F32 weights (in 16-bit precision two planes), F32 moments */
    EITP_ADAMW8 = 1,    /* BF16 weights with an 8-bit correction, 8-bit moments */
    EITP_ADAMW8_SR = 2, /* BF16 weights, rounded stochastically, 8-bit moments */
    EITP_FACTORED = 3,  /* BF16 weights, rounded stochastically, EITP_MOMENTS_FACTORED */
    EITP_SGD = 4,       /* weights as AdamW's, an F32 velocity */
    EITP_OPTIMIZER_COUNT = 5
} eitp_optimizer;

/* How close a run comes to one of AdamW with F32 weights and states. */
typedef enum eitp_fidelity {
    EITP_SAME_BITS = 0,  /* as the precision has them */
    EITP_SEED_NOISE = 1, /* as close as a run with another seed */
    EITP_APPROXIMATE = 2,
    EITP_DIFFERENT_ALGORITHM = 3 /* not comparable: other learning rates; never chosen unless asked for */
} eitp_fidelity;

typedef struct eitp_optimizer_info {
    const char *name;  /* "adamw", "adamw8", "adamw8-sr", "factored", "sgd" */
    const char *keeps; /* in words */
    eitp_fidelity fidelity;
    eitp_parameter_form parameters;
    eitp_moments moments;
} eitp_optimizer_info;

/* NULL if the optimizer is unknown. */
EITP_API const eitp_optimizer_info *eitp_optimizer_get(eitp_optimizer optimizer);

typedef enum eitp_schedule_kind {
    EITP_SCHEDULE_CONSTANT = 0,
    EITP_SCHEDULE_LINEAR = 1,
    EITP_SCHEDULE_COSINE = 2,              /* Loshchilov and Hutter, arXiv 1608.03983, without restarts */
    EITP_SCHEDULE_COSINE_WITH_RESTARTS = 3 /* the same with restarts, in cycles of equal length */
} eitp_schedule_kind;

/*
 * The learning rate of step s, counted from 1. Warm-up is linear: peak * s / warmup. After it, p = (s - 1 - warmup) /
 * (steps - warmup) is the progress, and the rate goes from `peak` to `final`:
 *   linear                 peak - (peak - final) p
 *   cosine                 final + (peak - final) (1 + cos(pi p)) / 2
 *   cosine with restarts   the cosine of the fractional part of cycles * p; `final` once p is 1
 */
typedef struct eitp_schedule {
    eitp_schedule_kind kind;
    double peak, final;
    int64_t warmup, steps;
    int64_t cycles; /* of the cosine with restarts; below 1: 1 */
} eitp_schedule;

EITP_API double eitp_schedule_rate(const eitp_schedule *schedule, int64_t step);

EITP_END_DECLARATIONS

#endif
