/* A small model with a latent variable, its task over synthetic text in the tokens of two tokenizers, and its trainer.
   */
#ifndef EITP_TEST_LATENT_H
#define EITP_TEST_LATENT_H

#include "tests/support/trainer_run.h"

enum { TEXTS = 60, LONGEST_TEXT = 9, LONGEST_ENCODED = 12, UNITS = 4, DECODER_WORDS = 50, ENCODER_WORDS = 70, END = 0 };

static const char *offload_path_; /* for variants that offload */

typedef struct latent_run {
    run r; /* only its context, model, task, configuration and trainer are used */
    eitp_vae_config config;
} latent_run;

static unsigned made_up_number(uint64_t number, int64_t place) {
    uint64_t state = (number + 1) * 6364136223846793005u + (uint64_t)place * 1442695040888963407u;
    state = (state ^ (state >> 31)) * 0xbf58476d1ce4e5b9u;
    return (unsigned)(state >> 40);
}

/* Reads 1 to LONGEST_TEXT tokens, and sometimes more and sometimes fewer others for the encoder. */
static RUN_UNUSED eitp_status read_two_tokenizers(void *user, uint64_t number, eitp_labelled_sample *sample,
                                                  eitp_error *error) {
    (void)user, (void)error;
    sample->length = 1 + (int64_t)(made_up_number(number, 99) % LONGEST_TEXT);
    sample->second_length = 1 + (int64_t)(made_up_number(number, 98) % LONGEST_ENCODED);
    for (int64_t i = 0; i < sample->length; i++)
        sample->ids[i] = 1 + (int32_t)(made_up_number(number, i) % (DECODER_WORDS - 1));
    for (int64_t i = 0; i < sample->second_length && sample->second; i++)
        sample->second[i] = (int32_t)(made_up_number(number, 50 + i) % ENCODER_WORDS);
    return EITP_OK;
}

static RUN_UNUSED eitp_labelled_source two_tokenizers(uint64_t count) {
    eitp_labelled_source source;
    memset(&source, 0, sizeof source);
    source.count = count;
    source.max_length = LONGEST_TEXT + LONGEST_ENCODED;
    source.max_first = LONGEST_TEXT;
    source.max_second = LONGEST_ENCODED;
    source.hash = 7;
    source.read = read_two_tokenizers;
    return source;
}

static RUN_UNUSED eitp_status make_latent_model(eitp_context *context, eitp_latent_input input, double dropout,
                                                eitp_model **model, eitp_error *error) {
    eitp_transformer_config decoder;
    eitp_latent_config latent = eitp_latent_config_default();
    eitp_status status = eitp_transformer_config_named("tiny", &decoder, error);
    decoder.vocabulary = DECODER_WORDS, decoder.positions = 16, decoder.width = 24, decoder.heads = 2,
    decoder.layers = 2;
    latent.encoder.vocabulary = ENCODER_WORDS, latent.encoder.positions = 14, latent.encoder.width = 16;
    latent.encoder.heads = 2, latent.encoder.layers = 1, latent.encoder.inner = 0;
    decoder.embedding_dropout = decoder.attention_dropout = decoder.residual_dropout = dropout;
    latent.encoder.embedding_dropout = latent.encoder.attention_dropout = latent.encoder.residual_dropout = dropout;
    latent.size = UNITS;
    latent.input = input;
    status = status ? status : eitp_model_create(context, &decoder, model, error);
    status = status ? status : eitp_model_add_encoder(*model, &latent, error);
    return status ? status : eitp_model_initialize(*model, 3, error);
}

/* Creates all objects of a run. End it after a failure, too. */
static RUN_UNUSED eitp_status make_latent_run(latent_run *l, const eitp_host *host, const variant *v,
                                              const eitp_vae_objective *objective, eitp_latent_input input,
                                              eitp_error *error) {
    eitp_context_config context = eitp_context_config_default();
    eitp_status status;
    memset(l, 0, sizeof *l);
    context.host = *host;
    context.threads = v->threads;
    context.isa = v->isa;
    context.products = v->products;
    context.precision = v->precision;
    context.offload = v->offload;
    context.offload_path = offload_path_;
    context.parameters = eitp_optimizer_get(v->optimizer)->parameters;
    status = eitp_context_create(&context, &l->r.context, error);
    if (!status && v->sums_of_32)
        pretend_sums_of_32(l->r.context);
    if (!status)
        status = make_latent_model(l->r.context, input, v->dropout, &l->r.model, error);
    l->config = eitp_vae_config_default();
    l->config.model = l->r.model;
    l->config.training = two_tokenizers(TEXTS);
    l->config.validation = two_tokenizers(TEXTS / 2);
    l->config.end_of_text = END;
    if (objective)
        l->config.objective = *objective;
    l->config.importance_samples = 3;
    if (!status)
        status = eitp_vae_task(&l->config, &l->r.task, error);
    l->r.config = eitp_trainer_config_default();
    l->r.config.batch_size = v->batch_size;
    l->r.config.grad_accum = v->grad_accum;
    l->r.config.micro_batches_per_pass = v->micro_batches_per_pass;
    l->r.config.optimizer_config.optimizer = v->optimizer;
    l->r.config.plan = v->plan;
    l->r.config.schedule.peak = 0.01;
    l->r.config.schedule.steps = 8;
    return status ? status : eitp_trainer_create(&l->r.task, &l->r.config, &l->r.trainer, error);
}

#endif
