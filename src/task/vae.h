/* The task of a model with a latent variable: maximizing the evidence lower bound of text (Kingma and Welling, arXiv
   1312.6114; Bowman et al., arXiv 1511.06349). See docs/latent.md. */
#ifndef EITP_VAE_H
#define EITP_VAE_H

#include "model/latent.h"
#include "task/task.h"

EITP_BEGIN_DECLARATIONS

/* Annealing: how the weight of the divergence reaches its value. */
typedef enum eitp_kl_anneal {
    EITP_KL_CONSTANT = 0, /* the value from the first step on */
    EITP_KL_LINEAR = 1,   /* a rise from 0 to the value in kl_anneal_steps */
    EITP_KL_CYCLICAL = 2  /* kl_cycles cycles, each rising from 0 in its first half: Fu et al., arXiv 1903.10145 */
} eitp_kl_anneal;

/* The objective. Start from eitp_vae_objective_default(). */
typedef struct eitp_vae_objective {
    double kl_weight; /* weight of the divergence; other values than 1: Higgins et al., beta-VAE, 2017 */
    eitp_kl_anneal kl_anneal;
    int64_t kl_anneal_steps; /* steps of EITP_KL_LINEAR, or of all cycles of EITP_KL_CYCLICAL; 0: half of the training,
                                or all of it */
    int64_t kl_cycles;
    /* Nats per unit and sample that are not penalized: the divergence of a unit counts as at least this much (Kingma et
       al., arXiv 1606.04934, here for each sample separately). */
    double free_bits;
    double target_rate;  /* the divergence of a sample counts as its distance from this number of nats (Alemi et al.,
                            arXiv 1711.00464); 0: the divergence itself */
    double word_dropout; /* probability of hiding each input token from the decoder (Bowman et al.) */
} eitp_vae_objective;

/* Weight 1 from the first step on, 4 cycles with EITP_KL_CYCLICAL, no free bits, no target rate, no word dropout. */
EITP_API eitp_vae_objective eitp_vae_objective_default(void);

/* Start from eitp_vae_config_default(), then set model and training, and the tokenizer or end_of_text. */
typedef struct eitp_vae_config {
    eitp_model *model; /* with an encoder */
    /*
     * Samples without special tokens; labels are ignored. The encoder reads the tokens of the second tokenizer if the
     * source has them (eitp_labelled_pack_config.second), and otherwise the decoder's tokens. Both sources must agree
     * in this. validation.count 0: no validation.
     */
    eitp_labelled_source training, validation;
    const eitp_tokenizer *tokenizer, *encoder_tokenizer; /* saved with checkpoints; not copied; NULL: none */
    int32_t end_of_text; /* token that the decoder starts with and ends a sample with; -1: the tokenizer's */
    eitp_vae_objective objective;
    int64_t importance_samples; /* draws per sample of an evaluation, for `nll`; 0: it is not computed */
} eitp_vae_config;

/* No model, no sources, no tokenizers, end_of_text -1, the default objective, no importance samples. */
EITP_API eitp_vae_config eitp_vae_config_default(void);

/* Maximum number of importance samples. */
#define EITP_MAX_IMPORTANCE_SAMPLES 64

/*
 * Creates a task with two loss terms, both in nats per sample: "reconstruction", the cross-entropy of a sample's tokens
 * and end-of-text given one draw of the latent variable, and "kl", the divergence of the posterior from the standard
 * normal distribution, with free bits and target rate applied. In evaluations, the loss is the negative evidence lower
 * bound, and both parts are metrics; "kl" is then the divergence itself. The noise of a draw is a function of the
 * trainer's seed, the epoch, the number of the sample and the unit. In evaluations it is always the same.
 *
 * Evaluations have these metrics too:
 *   active_units        number of units whose posterior mean has a variance above 0.01 over samples (Burda et al.,
 *                       arXiv 1509.00519); `items` is the number of all units
 *   mutual_information  mutual information of text and latent variable under the posterior, in nats: the mean
 *                       divergence less the divergence of the aggregate posterior (Hoffman and Johnson, "ELBO
 *                       surgery", 2016), over at most 2048 evenly spaced samples; at most the logarithm of their number
 *   mean_variance       variance of the posterior mean over samples, averaged over all units
 *   nll                 with importance samples: an upper bound of the negative log-likelihood of a sample in nats,
 *                       which gets tighter with more importance samples (Burda et al.)
 * Standard errors are over samples. For active_units and mean_variance, they are from the jackknife over 50 groups.
 *
 * EITP_ERROR_ARGUMENT if the model has no encoder, a sample with end-of-text is longer than the decoder's positions or
 * the encoder's, a number is out of range, or end-of-text is missing. Release the task before model and tokenizers.
 */
EITP_API eitp_status eitp_vae_task(const eitp_vae_config *config, eitp_task *task, eitp_error *error);

EITP_END_DECLARATIONS

#endif
