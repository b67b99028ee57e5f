/* The trainer, shared by its steps, shrinking and checkpoints. */
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
    eitp__readers readers; /* readers of samples */
    double loss_scale;
    double last_loss_scale; /* loss scale of the last step */
    int64_t scale_steps;    /* steps since the loss scale changed */
    int64_t skipped;        /* steps skipped because of the loss scale */
    eitp__spikes spikes;
    eitp__plateau plateau;
    eitp__noise_scale noise_scale;
    eitp__controllers controllers;       /* factors of the current step */
    eitp__activation_watch *activations; /* NULL until activations are watched */
    int watches;                         /* the next step watches activations */
    int64_t step;                        /* steps done */
    eitp__data_position start;           /* start in the data, from the checkpoint that was resumed */
    int is_inconsistent;                 /* see eitp_trainer_is_inconsistent */
    eitp_step_shape initial_shape;       /* shape of the run's first step; the configuration has the shape after
                                            shrinking */
};

/* Return the task and the configuration of the steps. */
static inline EITP__UNUSED const eitp_task *eitp__trainer_task(const eitp_trainer *trainer) {
    return &trainer->plans.task;
}

static inline EITP__UNUSED const eitp_trainer_config *eitp__trainer_config(const eitp_trainer *trainer) {
    return &trainer->plans.config;
}

/* Returns the number of training samples read after `step` steps. */
EITP__PRIVATE uint64_t eitp__trainer_samples(const eitp_trainer *trainer, int64_t step);

/* True if evaluations set the learning rate. */
EITP__PRIVATE int eitp__trainer_follows_plateau(const eitp_trainer *trainer);

/* Stores the samples of the current evaluation: done, and in all; 0 without an evaluation. */
EITP__PRIVATE void eitp__trainer_evaluation_progress(const eitp_trainer *trainer, uint64_t *done, uint64_t *count);

/* True if the learning rate of the next step depends on an evaluation that has not been reported. */
EITP__PRIVATE int eitp__trainer_lacks_evaluation(const eitp_trainer *trainer);

/* Checks the bounds of every setting, and the dependencies between them. */
EITP__PRIVATE eitp_status eitp__trainer_settings_check(const eitp_trainer_config *config, eitp_error *error);

/* Checks a configuration: its settings, and the optimizer in this context. */
EITP__PRIVATE eitp_status eitp__trainer_config_check(const eitp_trainer_config *config, const eitp_task *task,
                                                     eitp_error *error);

/* Fails with EITP_ERROR_INCONSISTENT and the way to recover if the trainer is inconsistent. */
EITP__PRIVATE eitp_status eitp__trainer_check_whole(const eitp_trainer *trainer, eitp_error *error);

/* A run's options for a checkpoint. */
typedef struct eitp__save_options {
    const char *suffix; /* suffix of its name; a resume finds only checkpoints without a suffix */
    int uncounted;      /* not counted by save_total_limit */
    eitp_status (*fill)(void *user, const char *directory, eitp_error *error); /* writes additional files; may be
                                                                                  NULL */
    void *user;
} eitp__save_options;

/* Estimates the size in bytes of a checkpoint of a task whose weights are saved as `dtype`, and of its largest file. */
EITP__PRIVATE void eitp__checkpoint_size(const eitp_task *task, eitp_save_dtype dtype, uint64_t *total,
                                         uint64_t *largest);

EITP__PRIVATE void eitp__trainer_checkpoint_size(const eitp_trainer *trainer, uint64_t *total, uint64_t *largest);

/*
 * A save in two halves. eitp__save_begin copies everything from the trainer; if there is a queue, its contents are
 * written from then on. eitp__save_commit waits for it, completes the checkpoint and releases the save. The trainer may
 * make steps in between. If the first half fails, it leaves nothing behind. If the second half fails, abandon the save
 * or repeat it.
 */
typedef struct eitp__save eitp__save;
/* Creates a queue with room for a checkpoint. */
EITP__PRIVATE eitp_status eitp__save_create_queue(const eitp_trainer *trainer, eitp__write_behind **queue,
                                                  eitp_error *error);
EITP__PRIVATE eitp_status eitp__save_begin(eitp_trainer *trainer, const char *output_directory,
                                           const eitp__save_options *options, eitp__write_behind *queue,
                                           eitp__save **save, eitp_error *error);
EITP__PRIVATE eitp_status eitp__save_commit(eitp__save *save, eitp_error *error);

/* True after eitp__save_commit failed if the copy can be written again. */
EITP__PRIVATE int eitp__save_can_repeat(const eitp__save *save);

/* Starts writing the copy again. Call eitp__save_commit next. */
EITP__PRIVATE eitp_status eitp__save_repeat(eitp__save *save, eitp_error *error);

/* True if eitp__save_commit does not need to wait for the thread. */
EITP__PRIVATE int eitp__save_is_written(const eitp__save *save);

/* Returns the step that is saved. */
EITP__PRIVATE int64_t eitp__save_step(const eitp__save *save);

/* Drops unwritten data, and removes the written files. NULL is harmless. */
EITP__PRIVATE void eitp__save_abandon(eitp__save *save);

/* Runs both halves: eitp_trainer_save with options. */
EITP__PRIVATE eitp_status eitp__trainer_save(eitp_trainer *trainer, const char *output_directory,
                                             const eitp__save_options *options, eitp_error *error);

/* Starts reading the files needed to resume from the checkpoint, in order. Returns NULL if that is not possible. */
EITP__PRIVATE eitp__prefetch *eitp__trainer_prefetch(const eitp_host *host, const char *checkpoint);

/* Implements eitp_trainer_resume. If `is_recovered`, all files except tensors are already verified, and tensors are
   verified while they are loaded: after EITP_ERROR_FORMAT the trainer may be inconsistent. */
EITP__PRIVATE eitp_status eitp__trainer_resume(eitp_trainer *trainer, const char *checkpoint, int is_recovered,
                                               eitp_error *error);

/* Recreates the plans if shrinking released them and could not replace them. */
EITP__PRIVATE eitp_status eitp__trainer_restore_plans(eitp_trainer *trainer, eitp_error *error);

/* True if the trainer's evaluations report a loss term or a metric of this name, or if the name is "loss". False for
   NULL, and for a task without validation samples. */
EITP__PRIVATE int eitp__trainer_has_metric(const eitp_trainer *trainer, const char *name);

/* Returns whether lower or higher values of "loss", a loss term or a metric are better. EITP_DIRECTION_UNKNOWN if the
   task does not say, if it has no such metric, and for NULL. */
EITP__PRIVATE eitp_metric_direction eitp__trainer_metric_direction(const eitp_trainer *trainer, const char *name);

#endif
