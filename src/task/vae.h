/*
 * The task of a model with a latent variable: the evidence lower bound of texts (Kingma and Welling, arXiv 1312.6114;
 * Bowman et al., arXiv 1511.06349). See docs/latent.md.
 */
#ifndef EITP_VAE_H
#define EITP_VAE_H

#include "model/latent.h"
#include "task/task.h"

EITP_BEGIN_DECLARATIONS

/* How the weight of the divergence comes to its value. */
typedef enum eitp_kl_anneal {
    EITP_KL_CONSTANT = 0, /* it has it from the first step on */
    EITP_KL_LINEAR = 1,   /* it rises from 0 to it in kl_anneal_steps */
    EITP_KL_CYCLICAL = 2 /* kl_cycles times it rises from 0 in the first half of a cycle: Fu et al., arXiv 1903.10145 */
} eitp_kl_anneal;

/* What is minimized, and how. Start from eitp_vae_objective_default(). */
typedef struct eitp_vae_objective {
    double kl_weight; /* of the divergence; other values than 1: Higgins et al., beta-VAE, 2017 */
    eitp_kl_anneal kl_anneal;
    int64_t kl_anneal_steps; /* of EITP_KL_LINEAR; of EITP_KL_CYCLICAL those of all cycles; 0: half of the training, or
                                all of it */
    int64_t kl_cycles;
    /* Nats of each unit and text that cost nothing: the divergence of a unit counts as at least that much (Kingma et
       al., arXiv 1606.04934, for each text by itself). */
    double free_bits;
    double target_rate;  /* the divergence of a text counts as its distance from this many nats (Alemi et al., arXiv
                            1711.00464); 0: as it is */
    double word_dropout; /* probability that the decoder is not told a token that it read (Bowman et al.) */
} eitp_vae_objective;

/* Weight 1 from the first step on, in 4 cycles with EITP_KL_CYCLICAL; nothing is free, no target, no word dropout. */
EITP_API eitp_vae_objective eitp_vae_objective_default(void);

/* Start from eitp_vae_config_default(), then set model and training, and the tokenizer or end_of_text. */
typedef struct eitp_vae_config {
    eitp_model *model; /* with an encoder */
    /* Texts without special tokens; labels are ignored. The encoder reads the tokens of the second tokenizer, if the
       source has them (eitp_labelled_pack_config.second), and else those that the decoder writes. Both sources have
       either. validation.count 0: no validation. */
    eitp_labelled_source training, validation;
    const eitp_tokenizer *tokenizer, *encoder_tokenizer; /* saved with checkpoints; not copied; NULL: none */
    int32_t end_of_text; /* the token that the decoder begins with, and ends a text with; -1: the tokenizer's */
    eitp_vae_objective objective;
    int64_t importance_samples; /* draws for each text of an evaluation, for `nll`; 0: it is not computed */
} eitp_vae_config;

/* No model, sources or tokenizers; end_of_text -1, the default objective, no importance samples. */
EITP_API eitp_vae_config eitp_vae_config_default(void);

/* The most importance samples. */
#define EITP_MAX_IMPORTANCE_SAMPLES 64

/*
 * Creates a task with two loss terms, both in nats per text: "reconstruction", the cross-entropy of a text's tokens and
 * end-of-text given one draw of the latent variable, and "kl", the divergence of the posterior from the standard
 * normal distribution, with free bits and target rate applied. Evaluations have the negative evidence lower bound as
 * their loss, and both parts as metrics, where "kl" is the divergence itself. The noise of a draw is a function of the
 * trainer's seed, the epoch, the number of the sample and the unit; in evaluations it is always the same.
 *
 * Evaluations have these metrics too:
 *   active_units        units whose posterior mean has a variance above 0.01 over texts (Burda et al., arXiv
 *                       1509.00519); `items` is the number of all units
 *   mutual_information  of text and latent variable under the posterior, in nats: the mean divergence less that of the
 *                       aggregate posterior (Hoffman and Johnson, "ELBO surgery", 2016), over at most 2048 texts,
 *                       evenly chosen; at most the logarithm of their number
 *   mean_variance       that variance, the mean of all units
 *   nll                 with importance samples: an upper bound of the negative log-likelihood of a text in nats that
 *                       falls with their number (Burda et al.)
 * Standard errors are over texts; of active_units and mean_variance those of the jackknife over 50 groups of them.
 *
 * EITP_ERROR_ARGUMENT if the model has no encoder, a text with end-of-text is longer than the decoder's positions or
 * longer than the encoder's, a number is out of range, or there is no end-of-text. Release the task before model and
 * tokenizers.
 */
EITP_API eitp_status eitp_vae_task(const eitp_vae_config *config, eitp_task *task, eitp_error *error);

EITP_END_DECLARATIONS

#endif
