/* The settings of a latent-variable objective, as rows of a table of a struct that has one. */
#ifndef EITP_VAE_SETTINGS_H
#define EITP_VAE_SETTINGS_H

#include "base/setting_table.h"
#include "base/settings.h"
#include "task/vae.h"

#define EITP__VAE_SETTING(type, at, member, kind, value, min, max, flags, choices, help)                               \
    EITP__SETTING(type, at, member, #member, kind, value, min, max, flags, REFUSED, choices, help)

/* `at` is empty, or the name of the eitp_vae_objective in `type` with a dot after it. */
#define EITP__VAE_SETTINGS(type, at)                                                                                   \
    EITP__VAE_SETTING(type, at, kl_weight, NUMBER, 1, 0, EITP__UNBOUNDED, 0, NULL,                                     \
                      "weight of the divergence from the prior"),                                                      \
        EITP__VAE_SETTING(type, at, kl_anneal, CHOICE, EITP_KL_CONSTANT, 0, 0, 0, "none linear cyclical",              \
                          "how it comes to that weight: at once, from 0, or from 0 several times"),                    \
        EITP__VAE_SETTING(type, at, kl_anneal_steps, INTEGER, 0, 0, EITP__LARGEST_COUNT, EITP_SETTING_OPTIONAL, NULL,  \
                          "steps of that; 0: half of the training, if cyclical all of it"),                            \
        EITP__VAE_SETTING(type, at, kl_cycles, INTEGER, 4, 1, EITP__LARGEST_COUNT, EITP_SETTING_OPTIONAL, NULL,        \
                          "cycles, if cyclical"),                                                                      \
        EITP__VAE_SETTING(type, at, free_bits, NUMBER, 0, 0, EITP__UNBOUNDED, 0, NULL,                                 \
                          "nats of divergence of each unit and text that cost nothing"),                               \
        EITP__VAE_SETTING(                                                                                             \
            type, at, target_rate, NUMBER, 0, 0, EITP__UNBOUNDED, 0, NULL,                                             \
            "nats of divergence of a text from which the distance is minimized; 0: the divergence itself"),            \
        EITP__VAE_SETTING(type, at, word_dropout, NUMBER, 0, 0, 1, 0, NULL,                                            \
                          "probability that the decoder is not told a token that it read")

/* The members of eitp_vae_objective, with their defaults and bounds. Stores their number in *count, unless `count` is
   NULL. */
EITP__PRIVATE const eitp_setting *eitp__vae_objective_setting_table(size_t *count);

#endif
