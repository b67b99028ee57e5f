/* The settings of a latent-variable objective, as rows for the setting table of a struct that contains one. */
#ifndef EITP_VAE_SETTINGS_H
#define EITP_VAE_SETTINGS_H

#include "base/setting_table.h"
#include "base/settings.h"
#include "task/vae.h"

#define EITP__VAE_SETTING(type, at, member, kind, value, min, max, flags, choices, help)                               \
    EITP__SETTING(type, at, member, #member, kind, value, min, max, flags, REFUSED, choices, help)

/* `at` is empty, or the name of the eitp_vae_objective member in `type` followed by a dot. */
#define EITP__VAE_SETTINGS(type, at)                                                                                   \
    EITP__VAE_SETTING(type, at, kl_weight, NUMBER, 1, 0, EITP__UNBOUNDED, 0, NULL,                                     \
                      "weight of the divergence from the prior"),                                                      \
        EITP__VAE_SETTING(type, at, kl_anneal, CHOICE, EITP_KL_CONSTANT, 0, 0, 0, "none linear cyclical",              \
                          "annealing of that weight: none, one rise from 0, or one in each cycle"),                    \
        EITP__VAE_SETTING(type, at, kl_anneal_steps, INTEGER, 0, 0, EITP__LARGEST_COUNT, EITP_SETTING_OPTIONAL, NULL,  \
                          "steps of annealing; 0: half of the training, or all of it if cyclical"),                    \
        EITP__VAE_SETTING(type, at, kl_cycles, INTEGER, 4, 1, EITP__LARGEST_COUNT, EITP_SETTING_OPTIONAL, NULL,        \
                          "number of cycles if cyclical"),                                                             \
        EITP__VAE_SETTING(type, at, free_bits, NUMBER, 0, 0, EITP__UNBOUNDED, 0, NULL,                                 \
                          "nats of divergence per unit and sample that are not penalized"),                            \
        EITP__VAE_SETTING(                                                                                             \
            type, at, target_rate, NUMBER, 0, 0, EITP__UNBOUNDED, 0, NULL,                                             \
            "target divergence of a sample in nats, whose distance is minimized; 0: minimize the divergence itself"),  \
        EITP__VAE_SETTING(type, at, word_dropout, NUMBER, 0, 0, 1, 0, NULL,                                            \
                          "probability of hiding each input token from the decoder")

/* The members of eitp_vae_objective, with their defaults and bounds. Stores their number in *count, unless `count` is
   NULL. */
EITP__PRIVATE const eitp_setting *eitp__vae_objective_setting_table(size_t *count);

#endif
