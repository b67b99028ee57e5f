/*
 * Alarm rules. Each rule compares a run with its own past. The rules see only their arguments and read no clocks and no
 * files. An alarm is raised once, and again only after its condition has ended.
 *
 * The usual value comes from the latest half of the run (run/block_series.h), so it follows slow changes. A level is
 * the median of 8 steps, which a single spike does not move. A trend is fitted to the latest half of the run
 * (eitp_trend_fit). Trends are checked four times each time the number of steps doubles, and a condition must hold in
 * two consecutive checks. Warm-up steps do not count.
 *
 * plateau             over at least 500 steps the trend of the loss does not fall: its interval includes 0, and at its
 *                     low end the loss has fallen by at most a quarter of its step-to-step noise or 0.5 % of its total
 *                     decrease, whichever is larger. The total decrease must exceed ten times that amount: a loss that
 *                     starts at its noise floor is not a plateau.
 * vanishing_gradient  three consecutive levels of the gradient norm are below a hundredth of the usual level and below
 *                     a ten-thousandth of the parameter norm. Not raised if the loss goes to zero too.
 * exploding_gradient  two consecutive levels are above ten times the usual level.
 *                     For both, the distance must also exceed two step-to-step deviations of the logarithm of the norm.
 * dead_layer          in four consecutive checks, eight steps apart, the gradient norm of a layer is below a millionth
 *                     of the largest among the layers. Frozen layers, and modules that are not layers, do not count.
 * overfitting         three consecutive evaluations are worse than the best by two standard errors, while the training
 *                     loss is lower than before the best, also by two standard errors. If the best came before step 1,
 *                     the training loss of the first steps is used, capped at the validation loss.
 * posterior_collapse  in three consecutive checks of a latent variable (a) fewer than a tenth of the units are active,
 *                     or (b) fewer than half of the usual number. (a) ends when a fifth are active, (b) at three
 *                     quarters of the usual number. The alarm ends when neither holds. A check is the first evaluation
 *                     or spot evaluation after a step that has the metrics active_units, whose items are all units, and
 *                     kl. Evaluations before step 1 do not count. The usual number is the median over the latest half
 *                     of the checks, once there are 8. Checks in which (a) or (b) is true are not added to them.
 * memory_drift        the trend of the process's memory rises with p < 0.001, and at its low end would use half of the
 *                     remaining memory by the end of the run or within eight times the length of the trend.
 * slowdown            the trend of the step time rises by 5 % with p < 0.001, over at least a minute.
 */
#ifndef EITP_ALARM_RULES_H
#define EITP_ALARM_RULES_H

#include "run/block_series.h"
#include "train/train.h"

typedef enum eitp__alarm_name {
    EITP__ALARM_PLATEAU,
    EITP__ALARM_VANISHING_GRADIENT,
    EITP__ALARM_EXPLODING_GRADIENT,
    EITP__ALARM_OVERFITTING,
    EITP__ALARM_DEAD_LAYER,
    EITP__ALARM_POSTERIOR_COLLAPSE,
    EITP__ALARM_MEMORY_DRIFT,
    EITP__ALARM_SLOWDOWN,
    EITP__ALARM_COUNT
} eitp__alarm_name;

typedef struct eitp__alarm {
    const char *name;
    double value, usual;
    char message[400]; /* one line that starts with the name */
} eitp__alarm;

/* Alarms raised by a step or an evaluation. */
typedef struct eitp__alarm_list {
    eitp__alarm alarms[EITP__ALARM_COUNT];
    int count;
} eitp__alarm_list;

/* Number of steps between checks of memory and layers. */
enum { EITP__ALARM_LOOK_STEPS = 8 };

/* The values of a step that the rules use. */
typedef struct eitp__alarm_step {
    int64_t step, steps; /* step, and total steps of the run; steps is 0 if unknown */
    int warms_up, applied;
    double loss, grad_norm, parameter_norm;
    double seconds;
    double memory;                  /* bytes used by the process; 0: not measured at this step */
    double left;                    /* bytes available to the process; 0: unknown */
    const eitp_group_norms *groups; /* of the step; NULL: not measured at this step */
    size_t group_count;
} eitp__alarm_step;

/* The values of a latent variable that the rules use. */
typedef struct eitp__alarm_latent {
    int64_t step, units; /* units: total number */
    double active, kl;   /* active: number of units; kl: nats per sample */
} eitp__alarm_latent;

/* Mean of the training loss between two evaluations. */
typedef struct eitp__training_loss {
    int64_t count;
    double mean, squares; /* squares: sum of squared distances from the mean */
} eitp__training_loss;

/* State of the rules. Starts as zeros. */
typedef struct eitp__alarm_rules {
    unsigned active; /* a bit for each alarm whose condition has not ended */

    eitp__block_series losses;
    double first_loss, last_loss; /* the first and the last level */
    int64_t levels;               /* number of loss levels so far */
    int64_t flat;                 /* consecutive checks without a decrease */

    eitp__block_series norms; /* base-10 logarithms of gradient norms */
    double usual_norm;        /* median of the latest blocks */
    int has_usual_norm;
    int64_t high, low; /* consecutive levels far above or below the usual one */
    int64_t silent;    /* consecutive checks in which a layer had almost no gradient compared with the others */

    int64_t evaluations, evaluated_step, best_step; /* evaluated_step: of the last evaluation */
    double best;                                    /* lowest validation loss */
    int64_t worse;                                  /* consecutive evaluations worse than the best */
    eitp__training_loss training, best_training;    /* since the last evaluation, and before the best */

    eitp__block_series fractions; /* active fraction of a latent variable's units, one value per check */
    int64_t latent_step;          /* of the last check; 0: none */
    int64_t few, fewer;           /* consecutive checks in which (a) or (b) holds; once raised, kept until the condition
                               ends */

    /* Not stored in checkpoints: step times and memory of this process, and consecutive checks in which they rose. */
    eitp__block_series seconds, memory;
    int slows, drifts;
} eitp__alarm_rules;

/* Adds a step. Stores the alarms it raises in *list. */
EITP__PRIVATE void eitp__alarm_rules_step(eitp__alarm_rules *rules, const eitp__alarm_step *step,
                                          eitp__alarm_list *list);

/* Adds the validation loss after a step with its standard error (0: unknown). Stores the alarms it raises in *list. */
EITP__PRIVATE void eitp__alarm_rules_evaluation(eitp__alarm_rules *rules, int64_t step, double loss, double error,
                                                eitp__alarm_list *list);

/* Adds a latent variable's metrics after an evaluation or a spot evaluation. Stores the alarms it raises in *list. */
EITP__PRIVATE void eitp__alarm_rules_latent(eitp__alarm_rules *rules, const eitp__alarm_latent *latent,
                                            eitp__alarm_list *list);

/* Discards the step times. Call it when the shape of the steps changes. */
EITP__PRIVATE void eitp__alarm_rules_forget_times(eitp__alarm_rules *rules);

/* Appends the state for a resumed run as a JSON object, without step times and memory, which belong to the process. */
EITP__PRIVATE void eitp__alarm_rules_write(const eitp__alarm_rules *rules, eitp__buffer *text);

/* Restores the state from that object; NULL: the state of a new run. On failure *rules is unchanged. */
EITP__PRIVATE eitp_status eitp__alarm_rules_read(eitp__alarm_rules *rules, const eitp_json *object, eitp_error *error);

#endif
