/*
 * The rules of alarms: each compares a run with its own past. They see only what they are given, neither clocks nor
 * files. An alarm is raised once until its condition has ended.
 *
 * What is usual is the latest half of the run (run/course.h), so it follows slow changes. In what follows, a level is
 * the median of 8 steps, which a single spike does not move, and a trend is that of the latest half of the run
 * (eitp_trend_fit). Four times while the number of steps doubles, the rules look at trends, and what they look for must
 * be there twice in a row. Steps of the warm-up do not count.
 *
 * plateau             over 500 steps or more the trend of the loss does not fall: its interval includes 0, and at best
 *                     the loss has fallen by a quarter of its noise from step to step, or by 0.5 % of all that it has
 *                     fallen. That is ten times as much or more: a loss that is at its noise floor from the start is no
 *                     plateau.
 * vanishing_gradient  three levels in a row of the gradient norm below a hundredth of what is usual, and below a
 *                     ten-thousandth of the norm of the parameters; but not if the loss goes to zero too.
 * exploding_gradient  two levels in a row above ten times what is usual.
 *                     Both: and by two deviations of the norm from step to step, of logarithms.
 * dead_layer          at four looks in a row, eight steps apart, the gradient norm of a layer is below a millionth of
 *                     the largest among the layers. Frozen layers, and modules that are no layers, do not count.
 * overfitting         three evaluations in a row above the best by two standard errors, while the training loss is
 *                     lower than before the best, by two standard errors too. If the best came before step 1, the
 *                     training loss of the first steps stands in, capped at the validation loss.
 * posterior_collapse  of a latent variable, at three looks in a row (a) fewer than a tenth of the units are active, or
 *                     (b) fewer than half of what is usual. (a) ends when a fifth are active, (b) at three quarters of
 *                     what is usual, and the alarm when neither holds. A look is the first evaluation or spot
 *                     evaluation after a step that has the metrics active_units, whose items are all units, and kl;
 *                     one before step 1 does not count. What is usual, once 8 looks are known, is the median over the
 *                     latest half of them. A look with fewer than a tenth of the units, or half of what is usual, is
 *                     not added to them.
 * memory_drift        the trend of the process's memory rises with p < 0.001, and at its low end would take half of
 *                     what is left by the end of the run, or within eight times its length.
 * slowdown            the trend of the step time rises by 5 % with p < 0.001, over a minute at least.
 */
#ifndef EITP_ALARM_RULES_H
#define EITP_ALARM_RULES_H

#include "run/course.h"
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
    char message[400]; /* one line, which begins with the name */
} eitp__alarm;

/* The alarms that a step or an evaluation raises. */
typedef struct eitp__alarm_list {
    eitp__alarm alarms[EITP__ALARM_COUNT];
    int count;
} eitp__alarm_list;

/* Memory and layers are looked at in every such step. */
enum { EITP__ALARM_LOOK_STEPS = 8 };

/* What the rules see of a step. */
typedef struct eitp__alarm_step {
    int64_t step, steps; /* of the run in all; 0: unknown */
    int warms_up, applied;
    double loss, grad_norm, parameter_norm;
    double seconds;
    double memory;                  /* bytes of the process; 0: not known at this step */
    double left;                    /* bytes that are left for it; 0: unknown */
    const eitp_group_norms *groups; /* of the step; NULL: not known at this step */
    size_t group_count;
} eitp__alarm_step;

/* What the rules see of a latent variable. */
typedef struct eitp__alarm_latent {
    int64_t step, units; /* units: in all */
    double active, kl;   /* active: units; kl: nats per text */
} eitp__alarm_latent;

/* The mean of the training loss between two evaluations. */
typedef struct eitp__training_loss {
    int64_t count;
    double mean, squares; /* squares: of the distances from the mean, their sum */
} eitp__training_loss;

/* Starts as zeros. */
typedef struct eitp__alarm_rules {
    unsigned active; /* a bit for each alarm whose condition has not ended */

    eitp__course losses;
    double first_loss, last_loss; /* the first and the last level */
    int64_t levels;               /* of the loss, so far */
    int64_t flat;                 /* looks in a row at which it did not fall */

    eitp__course norms; /* logarithms to base 10 of gradient norms */
    double usual_norm;  /* median of its latest blocks */
    int has_usual_norm;
    int64_t high, low; /* levels in a row that are far above or below */
    int64_t silent;    /* looks in a row at which a layer had no gradient beside the others */

    int64_t evaluations, evaluated_step, best_step; /* evaluated_step: of the last evaluation */
    double best;                                    /* lowest validation loss */
    int64_t worse;                                  /* evaluations in a row that are worse */
    eitp__training_loss training, best_training;    /* since the last evaluation, and before the best */

    eitp__course fractions; /* of the units of a latent variable that are active, one for each look */
    int64_t latent_step;    /* of the last look; 0: none */
    int64_t few, fewer;     /* looks in a row at which case a or b holds; kept once it is raised, until its end */

    /* Of this process, in no checkpoint; and looks in a row at which steps slowed down, and memory grew. */
    eitp__course seconds, memory;
    int slows, drifts;
} eitp__alarm_rules;

/* Adds a step. *list holds the alarms that it raises. */
EITP__PRIVATE void eitp__alarm_rules_step(eitp__alarm_rules *rules, const eitp__alarm_step *step,
                                          eitp__alarm_list *list);

/* The same for the validation loss after a step, and its standard error (0: unknown). */
EITP__PRIVATE void eitp__alarm_rules_evaluation(eitp__alarm_rules *rules, int64_t step, double loss, double error,
                                                eitp__alarm_list *list);

/* The same for a latent variable, after an evaluation or a spot evaluation. */
EITP__PRIVATE void eitp__alarm_rules_latent(eitp__alarm_rules *rules, const eitp__alarm_latent *latent,
                                            eitp__alarm_list *list);

/* Forgets the step times, for steps of another shape. */
EITP__PRIVATE void eitp__alarm_rules_forget_times(eitp__alarm_rules *rules);

/* Adds what a resumed run needs: a JSON object. Step times and memory are those of a process, which it learns anew. */
EITP__PRIVATE void eitp__alarm_rules_write(const eitp__alarm_rules *rules, eitp__buffer *text);

/* Reads such an object; NULL: the rules of a new run. *rules is unchanged after a failure. */
EITP__PRIVATE eitp_status eitp__alarm_rules_read(eitp__alarm_rules *rules, const eitp_json *object, eitp_error *error);

#endif
