/* trainer_state.json: a trainer's step, its settings, and everything else that its results depend on. */
#ifndef EITP_TRAINER_STATE_H
#define EITP_TRAINER_STATE_H

#include "base/setting_table.h"
#include "base/settings.h"
#include "train/trainer.h"
#include "train/trainer_settings.h"

/* Files of a checkpoint. */
#define EITP__STATE_FILE "trainer_state.json"

#define EITP__STATE_VERSION 5
#define EITP__MOMENTUM_STATE_VERSION 4 /* earlier factored states have no first moment */
#define EITP__OLDEST_STATE_VERSION 2

/* The content of trainer_state.json. */
typedef struct eitp__state {
    eitp_checkpoint_info info;
    int64_t version;
    int64_t data_hash[2]; /* the two halves of eitp_task_identity.hash: JSON integers have 63 bits */
    int64_t data_first, data_count;
    int64_t scale_steps, skipped;
    double loss_scale;
    eitp__spikes spikes;
    eitp__plateau plateau;
    eitp__noise_scale noise_scale;
    int64_t model_checksum, optimizer_checksum;
    int64_t base_checksum;             /* checksum of the frozen weights under adapters */
    int64_t extra_parameters_checksum; /* checksum of parameters trained in addition to adapters; -1: none */
} eitp__state;

/* Gets the state of a trainer, without checksums. */
EITP__PRIVATE eitp_status eitp__state_of(const eitp_trainer *trainer, eitp__state *state, eitp_error *error);

/* Iterates over the members in the order of the file: fields of the state, and settings. Starts as zeros. */
typedef struct eitp__state_walk {
    size_t field, setting;
    int is_field; /* the last member is a field of the state, not a setting */
} eitp__state_walk;

/* Returns the next member, or NULL after the last. */
EITP__PRIVATE const eitp_setting *eitp__state_next(eitp__state_walk *walk);

/* Returns the struct that holds the last member. */
EITP__PRIVATE const void *eitp__state_values(const eitp__state_walk *walk, const eitp__state *state);

/* Writes the state of a model with this architecture, which names the layers with adapters; NULL: GPT-2. */
EITP__PRIVATE eitp_status eitp__state_write(const eitp_host *host, const eitp_architecture *architecture,
                                            const char *path, const eitp__state *state, eitp_error *error);

/* Reads and checks the state of a checkpoint directory. */
EITP__PRIVATE eitp_status eitp__state_read(const eitp_host *host, const char *checkpoint, eitp__state *state,
                                           eitp_error *error);

/* The members of eitp_trainer_config that checkpoints record, in the order of trainer_state.json. Stores their number
   in *count, unless `count` is NULL. */
EITP__PRIVATE const eitp_setting *eitp__trainer_setting_table(size_t *count);

#endif
