/* The settings of a trainer, and of its checkpoints. */
#ifndef EITP_TRAINER_SETTINGS_H
#define EITP_TRAINER_SETTINGS_H

#include "base/settings.h"
#include "train/train.h"

EITP_BEGIN_DECLARATIONS

/* ---- Settings of a checkpoint ---- */

/* A change of a setting. */
typedef struct eitp_setting_change {
    const char *name;
    const char *value;    /* new value as text: a number, "true" or "false", or the name of a choice */
    char was[64], is[64]; /* output: the values before and after */
} eitp_setting_change;

/*
 * Changes settings of a checkpoint "checkpoint-<step>": a resume uses the new values from there on. The names are those
 * of the settings of eitp_trainer_config, "loss_scale", and, from config.json, "embedding_dropout",
 * "attention_dropout", "residual_dropout", and "dropout" for all three; '-' stands for '_'. The checkpoint is verified
 * and copied with the changes, and the complete copy replaces it, so either the old or the new checkpoint exists at any
 * time. EITP_ERROR_ARGUMENT if a name is unknown, a value is out of bounds or conflicts with another, or a process is
 * training in the checkpoint's directory; nothing has changed then.
 */
EITP_API eitp_status eitp_checkpoint_set(const eitp_host *host, const char *checkpoint, eitp_setting_change *changes,
                                         size_t count, eitp_error *error);

EITP_END_DECLARATIONS

#endif
