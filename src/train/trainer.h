/* The trainer, as its steps, shrinking and checkpoints share it. */
#ifndef EITP_TRAINER_H
#define EITP_TRAINER_H

#include "base/prefetch.h"
#include "base/write_behind.h"
#include "train/activations.h"
#include "train/controllers.h"
#include "train/noise_scale.h"
#include "train/plateau.h"
#include "train/spikes.h"
#include "train/step_plans.h"

struct eitp_trainer {
    eitp_host host;
    eitp__step_plans plans;
    eitp__readers readers; /* of samples */
    double loss_scale;
    double last_loss_scale; /* that of the last step */
    int64_t scale_steps;    /* since the loss scale changed */
    int64_t skipped;        /* steps that were not applied because of it */
    eitp__spikes spikes;
    eitp__plateau plateau;
    eitp__noise_scale noise_scale;
    eitp__controllers controllers;       /* the factors of the step being made */
    eitp__activation_watch *activations; /* NULL until they are watched */
    int watches;                         /* the next step's activations are */
    int64_t step;                        /* steps made */
    eitp__data_position start;           /* of the checkpoint that it resumed from */
    int torn;                            /* see eitp_trainer_is_torn */
    eitp_step_shape initial_shape;       /* of the run; the configuration has the shape that it was shrunk to */
};

/* What the steps are made of, and how. */
static inline EITP__UNUSED const eitp_task *eitp__trainer_task(const eitp_trainer *trainer) {
    return &trainer->plans.task;
}

static inline EITP__UNUSED const eitp_trainer_config *eitp__trainer_config(const eitp_trainer *trainer) {
    return &trainer->plans.config;
}

/* The number of training samples that have been read after `step` steps. */
EITP__PRIVATE uint64_t eitp__trainer_samples(const eitp_trainer *trainer, int64_t step);

/* True if evaluations set the learning rate. */
EITP__PRIVATE int eitp__trainer_follows_plateau(const eitp_trainer *trainer);

/* Samples of the evaluation that is being made: done, and in all; 0 without one. */
EITP__PRIVATE void eitp__trainer_evaluation_progress(const eitp_trainer *trainer, uint64_t *done, uint64_t *count);

/* True if the learning rate of the next step depends on an evaluation that was not reported. */
EITP__PRIVATE int eitp__trainer_lacks_evaluation(const eitp_trainer *trainer);

/* Checks the bounds of every setting, and those that depend on another one. */
EITP__PRIVATE eitp_status eitp__trainer_settings_check(const eitp_trainer_config *config, eitp_error *error);

/* Checks a configuration: its settings, and the optimizer in this context. */
EITP__PRIVATE eitp_status eitp__trainer_config_check(const eitp_trainer_config *config, const eitp_task *task,
                                                     eitp_error *error);

/* EITP_ERROR_TORN, with the way out, if the trainer is torn. */
EITP__PRIVATE eitp_status eitp__trainer_check_whole(const eitp_trainer *trainer, eitp_error *error);

/* What a run decides about a checkpoint. */
typedef struct eitp__save_options {
    const char *suffix; /* of its name; a resume finds only checkpoints without one */
    int uncounted;      /* save_total_limit does not count it */
    eitp_status (*fill)(void *user, const char *directory, eitp_error *error); /* writes further files; may be NULL */
    void *user;
} eitp__save_options;

/* About the size of a checkpoint of a task whose weights are saved as `dtype`, and of its largest file, in bytes. */
EITP__PRIVATE void eitp__checkpoint_size(const eitp_task *task, eitp_save_dtype dtype, uint64_t *total,
                                         uint64_t *largest);

EITP__PRIVATE void eitp__trainer_checkpoint_size(const eitp_trainer *trainer, uint64_t *total, uint64_t *largest);

/*
 * A save in two halves. eitp__save_begin takes everything from the trainer; what is in the queue, if there is one, is
 * written from then on. eitp__save_commit waits for that, completes the checkpoint and releases the save. Steps may be
 * made between them. If the first fails it leaves nothing; if the second fails, abandon the save or repeat it.
 */
typedef struct eitp__save eitp__save;
/* A queue with room for a checkpoint. */
EITP__PRIVATE eitp_status eitp__save_create_queue(const eitp_trainer *trainer, eitp__write_behind **queue,
                                                  eitp_error *error);
EITP__PRIVATE eitp_status eitp__save_begin(eitp_trainer *trainer, const char *output_directory,
                                           const eitp__save_options *options, eitp__write_behind *queue,
                                           eitp__save **save, eitp_error *error);
EITP__PRIVATE eitp_status eitp__save_commit(eitp__save *save, eitp_error *error);

/* True after eitp__save_commit has failed if the copy can be written again. */
EITP__PRIVATE int eitp__save_can_repeat(const eitp__save *save);

/* Begins to write the copy again; eitp__save_commit follows. */
EITP__PRIVATE eitp_status eitp__save_repeat(eitp__save *save, eitp_error *error);

/* True if eitp__save_commit need not wait for the thread. */
EITP__PRIVATE int eitp__save_is_written(const eitp__save *save);

/* The step that is saved. */
EITP__PRIVATE int64_t eitp__save_step(const eitp__save *save);

/* Drops what is not written, and removes what is. NULL is harmless. */
EITP__PRIVATE void eitp__save_abandon(eitp__save *save);

/* Both halves: eitp_trainer_save with options. */
EITP__PRIVATE eitp_status eitp__trainer_save(eitp_trainer *trainer, const char *output_directory,
                                             const eitp__save_options *options, eitp_error *error);

/* Begins to read the files that a resume from the checkpoint reads, in their order; NULL if that is not possible. */
EITP__PRIVATE eitp__prefetch *eitp__trainer_prefetch(const eitp_host *host, const char *checkpoint);

/* eitp_trainer_resume. If `is_recovered`, all files but those of tensors are verified already, and tensors are verified
   while they are loaded: after EITP_ERROR_FORMAT the trainer may be torn. */
EITP__PRIVATE eitp_status eitp__trainer_resume(eitp_trainer *trainer, const char *checkpoint, int is_recovered,
                                               eitp_error *error);

/* Recreates the plans if shrinking released them and could not replace them. */
EITP__PRIVATE eitp_status eitp__trainer_restore_plans(eitp_trainer *trainer, eitp_error *error);

/*
 * True if evaluations of the trainer have a loss term or a metric of this name, or if the name is "loss". False for
 * NULL, and for a task without validation samples.
 */
EITP__PRIVATE int eitp__trainer_has_metric(const eitp_trainer *trainer, const char *name);

/* Which values of "loss", a loss term or a metric are better. EITP_DIRECTION_UNKNOWN if the task gives the metric none,
   if it has no such metric, and for NULL. */
EITP__PRIVATE eitp_metric_direction eitp__trainer_metric_direction(const eitp_trainer *trainer, const char *name);

#endif
