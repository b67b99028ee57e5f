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
    const char *value;    /* as text: a number, "true" or "false", or the name of a choice */
    char was[64], is[64]; /* the values before and after, filled in */
} eitp_setting_change;

/*
 * Changes settings of a checkpoint "checkpoint-<step>" on purpose: a resume uses the new values from there on. The
 * names are those of the settings of eitp_trainer_config, "loss_scale", and, of config.json, "embedding_dropout",
 * "attention_dropout", "residual_dropout" and "dropout" for all three; '-' is '_'. The checkpoint is verified and
 * copied with the changes, and the complete copy takes its place: at any time there is the old one or the new one.
 * EITP_ERROR_ARGUMENT if a name is unknown, a value out of bounds or in conflict with another, or a process trains in
 * the checkpoint's directory; then nothing has changed.
 */
EITP_API eitp_status eitp_checkpoint_set(const eitp_host *host, const char *checkpoint, eitp_setting_change *changes,
                                         size_t count, eitp_error *error);

EITP_END_DECLARATIONS

#endif
