/* The evidence lower bound of text under a model with a latent variable. */
#include "task/vae.h"

#include "base/files.h"
#include "base/random.h"
#include "io/latent_directory.h"
#include "model/latent_state.h"
#include "model/transformer.h"
#include "task/labelled.h"
#include "task/pass.h"
#include "task/vae_outcomes.h"
#include "task/vae_settings.h"

/* Inputs, in the order of build. */
enum {
    EITP__VAE_TOKENS,
    EITP__VAE_TARGETS,
    EITP__VAE_ENCODED,
    EITP__VAE_NOISE,
    EITP__VAE_USED,
    EITP__VAE_FIRST,
    EITP__VAE_INPUTS
};

/* Outputs, in the order of build; the last only with importance samples. */
enum { EITP__VAE_MEANS, EITP__VAE_LOG_DEVIATIONS, EITP__VAE_RECONSTRUCTIONS };

typedef struct eitp__vae {
    eitp_host host;
    eitp_vae_config config;
    eitp_labelled_source sources[2]; /* of each eitp_split */
    int64_t units, draws;            /* units of the latent variable; draws per sample, 1 or more */
    int32_t end_of_text;
    eitp__buffer description; /* description of the last evaluation */
} eitp__vae;

static const eitp_setting eitp__vae_settings[] = {EITP__VAE_SETTINGS(eitp_vae_objective, )};

EITP__PRIVATE const eitp_setting *eitp__vae_objective_setting_table(size_t *count) {
    if (count)
        *count = EITP__COUNT(eitp__vae_settings);
    return eitp__vae_settings;
}

eitp_vae_objective eitp_vae_objective_default(void) {
    eitp_vae_objective objective = EITP__ZERO;
    eitp__settings_reset(eitp__vae_settings, EITP__COUNT(eitp__vae_settings), &objective);
    return objective;
}

eitp_vae_config eitp_vae_config_default(void) {
    eitp_vae_config config = EITP__ZERO;
    config.end_of_text = -1;
    config.objective = eitp_vae_objective_default();
    return config;
}

/* ---- The graph ---- */

/* Returns the divergence of each sample as it counts in the objective, [samples, 1]. */
static eitp_tensor *eitp__vae_penalty(const eitp_vae_objective *objective, eitp_tensor *divergence) {
    if (objective->free_bits > 0)
        divergence = eitp_maximum(divergence, eitp_affine(eitp_stop_gradient(divergence), 0, objective->free_bits));
    divergence = eitp_sum(divergence, 2, 1); /* over units */
    return objective->target_rate > 0 ? eitp_abs(eitp_affine(divergence, 1, -objective->target_rate)) : divergence;
}

/* Returns the weight of the divergence in each step. */
static eitp_schedule eitp__vae_weight(const eitp_vae_objective *objective, int64_t steps) {
    eitp_schedule weight = eitp_schedule_default();
    weight.peak = objective->kl_weight;
    weight.cycles = objective->kl_cycles;
    if (objective->kl_anneal == EITP_KL_LINEAR)
        weight.warmup = objective->kl_anneal_steps ? objective->kl_anneal_steps : steps / 2;
    if (objective->kl_anneal == EITP_KL_CYCLICAL) {
        weight.kind = EITP_SCHEDULE_CYCLICAL;
        weight.steps = objective->kl_anneal_steps ? objective->kl_anneal_steps : steps;
    }
    return weight;
}

/* Returns the losses of rows given a draw of the latent variable. */
static eitp_tensor *eitp__vae_losses(const eitp__vae *v, eitp_pass *pass, const eitp_model_inputs *decoded,
                                     eitp_tensor *z, eitp_tensor *first, eitp_tensor *targets) {
    const eitp_model *model = v->config.model;
    eitp_model_inputs inputs = *decoded;
    inputs.added = eitp_pass_by_row(pass, eitp__model_latent_embedding(model, z));
    if (eitp_model_latent_config(model).input == EITP_LATENT_PREFIX)
        inputs.added = eitp_multiply(inputs.added, first);
    return eitp_model_losses(model, eitp_pass_graph(pass), &inputs, eitp_pass_max_length(pass), targets,
                             EITP__IGNORED_TARGET);
}

/* Adds the outputs that an evaluation observes. The losses of the first draw already exist. */
static void eitp__vae_add_outputs(const eitp__vae *v, eitp_pass *pass, const eitp__posterior *posterior,
                                  const eitp_model_inputs *decoded, eitp_tensor *noise, eitp_tensor *first,
                                  eitp_tensor *targets, eitp_tensor *losses) {
    eitp_tensor *draws[EITP_MAX_IMPORTANCE_SAMPLES];
    int64_t column[2] = {-1, 1};
    eitp_pass_output(pass, "posterior means", posterior->mean);
    eitp_pass_output(pass, "posterior log deviations", posterior->log_deviation);
    if (!v->config.importance_samples)
        return;
    for (int64_t k = 0; k < v->draws; k++) {
        eitp_tensor *z;
        if (k) {
            z = eitp__posterior_draw(posterior, eitp_slice(noise, 1, k * v->units, (k + 1) * v->units));
            losses = eitp__vae_losses(v, pass, decoded, z, first, targets);
        }
        draws[k] = eitp_reshape(losses, 2, column);
    }
    eitp_pass_output(pass, "reconstructions", eitp_concat(draws, (int)v->draws, 1));
}

/* In an evaluation, the loss is the negative bound, and its parts are metrics. The divergence of a sample is added to
   the loss of its first row. */
static void eitp__vae_add_bound(eitp_pass *pass, eitp_tensor *losses, eitp_tensor *divergence, eitp_tensor *first) {
    const int64_t column[2] = {-1, 1};
    losses = eitp_reshape(losses, 2, column);
    eitp_pass_term(pass, "loss", eitp_add(losses, eitp_multiply(eitp_pass_by_row(pass, divergence), first)), NULL);
    eitp_pass_metric(pass, "reconstruction", losses, EITP_LOWER_IS_BETTER);
    eitp_pass_metric(pass, "kl", divergence, EITP_DIRECTION_UNKNOWN);
}

static void eitp__vae_add_terms(const eitp__vae *v, eitp_pass *pass, eitp_tensor *losses, eitp_tensor *divergence,
                                eitp_tensor *used) {
    const eitp_schedule weight = eitp__vae_weight(&v->config.objective, eitp_pass_steps(pass));
    divergence = eitp__vae_penalty(&v->config.objective, divergence);
    eitp_pass_term(pass, "reconstruction", losses, NULL);
    eitp_pass_term(pass, "kl", eitp_multiply(used, divergence), &weight);
}

static eitp_status eitp__vae_build(void *user, eitp_pass *pass, eitp_error *error) {
    const eitp__vae *v = (const eitp__vae *)user;
    const eitp_model *model = v->config.model;
    const int64_t numbers = v->draws * v->units, one = 1;
    const eitp_model_inputs decoded = eitp_pass_model_inputs(pass, model);
    eitp_tensor *targets = eitp_pass_row_input(pass, "targets", EITP_I32, 0, NULL, EITP__IGNORED_TARGET);
    const eitp_model_inputs encoded = eitp_pass_encoder_inputs(pass, eitp_model_encoder(model));
    eitp_tensor *noise = eitp_pass_sample_input(pass, "noise", EITP_F32, 1, &numbers, 0);
    eitp_tensor *used = eitp_pass_sample_input(pass, "used", EITP_F32, 1, &one, 0); /* 0 in unused elements */
    eitp_tensor *first = eitp_pass_row_input(pass, "first", EITP_F32, 1, &one, 0);
    const eitp__posterior posterior =
        eitp__model_posterior(model, eitp_pass_graph(pass), &encoded, eitp_pass_max_length(pass));
    eitp_tensor *z = eitp__posterior_draw(&posterior, v->draws > 1 ? eitp_slice(noise, 1, 0, v->units) : noise);
    eitp_tensor *losses = eitp__vae_losses(v, pass, &decoded, z, first, targets);
    eitp_tensor *divergence = eitp__posterior_divergence(&posterior);
    eitp_pass_set_targets(pass, targets, EITP__IGNORED_TARGET);
    if (eitp_pass_is_training(pass)) {
        eitp__vae_add_terms(v, pass, losses, divergence, used);
    } else {
        eitp__vae_add_bound(pass, losses, eitp_multiply(used, eitp_sum(divergence, 2, 1)), first);
        eitp__vae_add_outputs(v, pass, &posterior, &decoded, noise, first, targets, losses);
    }
    return eitp_graph_status(eitp_pass_graph(pass), error);
}

/* ---- Samples ---- */

/* Returns an index for random numbers in a sample. */
static uint64_t eitp__vae_place(uint64_t number, int64_t place) {
    const int place_bits = 24; /* a sample has at most as many rows */
    return (number << place_bits) | (uint64_t)place;
}

static void eitp__vae_fill_noise(const eitp__vae *v, uint64_t number, const eitp_sample *sample) {
    float *noise = (float *)sample->values[EITP__VAE_NOISE];
    for (int64_t i = 0; i < v->draws * v->units; i += 2) {
        double pair[2];
        eitp__random_normal(sample->seed, sample->epoch, EITP__RNG_STREAM_LATENT, eitp__vae_place(number, i / 2), pair);
        noise[i] = (float)pair[0];
        if (i + 1 < v->draws * v->units)
            noise[i + 1] = (float)pair[1];
    }
}

/* Fills in the decoder's inputs: end-of-text, and all tokens except the last. In training, some are hidden. */
static void eitp__vae_fill_tokens(const eitp__vae *v, uint64_t number, const eitp_sample *sample, int64_t length) {
    int32_t *tokens = (int32_t *)sample->values[EITP__VAE_TOKENS];
    const int32_t *targets = (const int32_t *)sample->values[EITP__VAE_TARGETS];
    const double hidden = sample->trains ? v->config.objective.word_dropout : 0;
    tokens[0] = v->end_of_text;
    for (int64_t i = 1; i < length; i++) {
        const int hides = hidden > 0 && eitp__random_uniform(sample->seed, sample->epoch, EITP__RNG_STREAM_WORD_DROPOUT,
                                                             eitp__vae_place(number, i)) < hidden;
        tokens[i] = hides ? -1 : targets[i - 1];
    }
}

/* Fills in the rows after a sequence. */
static void eitp__vae_fill_rest(void *values, int64_t first, int64_t rows, int32_t empty) {
    int32_t *numbers = (int32_t *)values;
    for (int64_t i = first; i < rows; i++)
        numbers[i] = empty;
}

static eitp_status eitp__vae_read_text(const eitp__vae *v, const eitp_labelled_source *source, uint64_t number,
                                       eitp_sample *sample, int64_t *length, eitp_error *error) {
    const eitp_model *encoder = eitp_model_encoder(v->config.model);
    int32_t *targets = (int32_t *)sample->values[EITP__VAE_TARGETS];
    int32_t *encoded = (int32_t *)sample->values[EITP__VAE_ENCODED];
    eitp_labelled_sample read = EITP__ZERO;
    eitp_status status;
    read.ids = targets;
    read.second = source->max_second ? encoded : NULL;
    status = source->read(source->user, number, &read, error);
    if (status)
        return status;
    if (!source->max_second && read.length > 0)
        memcpy(encoded, targets, (size_t)read.length * sizeof *encoded);
    *length = read.length;
    sample->encoder_rows = source->max_second ? read.second_length : read.length;
    if (read.length < 1 || sample->encoder_rows < 1 || read.length + 1 > v->config.model->config.positions)
        return eitp__fail(
            error, EITP_ERROR_FORMAT,
            "sample %llu has %lld tokens, and %lld for the encoder; expected at least 1 of both and, with "
            "end-of-text, at most the decoder's %lld positions",
            (unsigned long long)number, (long long)read.length, (long long)sample->encoder_rows,
            (long long)eitp_model_positions(v->config.model));
    status = eitp__check_ids_below("token id", targets, read.length, eitp_model_vocabulary(v->config.model),
                                   "use the decoder's tokenizer", number, error);
    return status ? status
                  : eitp__check_ids_below("token id", encoded, sample->encoder_rows, eitp_model_vocabulary(encoder),
                                          "use the encoder's tokenizer", number, error);
}

static eitp_status eitp__vae_read(void *user, eitp_split split, uint64_t number, eitp_sample *sample,
                                  eitp_error *error) {
    const eitp__vae *v = (const eitp__vae *)user;
    int32_t *targets = (int32_t *)sample->values[EITP__VAE_TARGETS];
    int64_t length;
    eitp_status status = eitp__vae_read_text(v, &v->sources[split], number, sample, &length, error);
    if (status)
        return status;
    targets[length++] = v->end_of_text;
    sample->rows = length > sample->encoder_rows ? length : sample->encoder_rows;
    eitp__vae_fill_tokens(v, number, sample, length);
    eitp__vae_fill_rest(sample->values[EITP__VAE_TOKENS], length, sample->rows, -1);
    eitp__vae_fill_rest(targets, length, sample->rows, EITP__IGNORED_TARGET);
    eitp__vae_fill_rest(sample->values[EITP__VAE_ENCODED], sample->encoder_rows, sample->rows, 0);
    eitp__vae_fill_noise(v, number, sample);
    *(float *)sample->values[EITP__VAE_USED] = 1;
    for (int64_t i = 0; i < sample->rows; i++)
        ((float *)sample->values[EITP__VAE_FIRST])[i] = i == 0;
    return EITP_OK;
}

static eitp_status eitp__vae_identify(void *user, eitp_task_identity *identity, eitp_error *error) {
    (void)error;
    eitp__labelled_identify(&((const eitp__vae *)user)->sources[EITP_TRAINING], identity);
    return EITP_OK;
}

/* ---- Checkpoints ---- */

static eitp_status eitp__vae_save_tokenizer(const eitp__vae *v, const eitp_tokenizer *tokenizer, eitp_model *model,
                                            const char *directory, const char *part, eitp_error *error) {
    char *path = tokenizer ? eitp__join_path(&v->host, directory, part) : NULL;
    eitp_status status = EITP_OK;
    if (!tokenizer)
        return EITP_OK;
    status = path ? eitp__make_directories(&v->host, path, error)
                  : eitp__fail_memory(error, strlen(directory), "the path of a tokenizer");
    if (!status)
        status = eitp__save_tokenizer(tokenizer, model, path, error);
    eitp__release_text(&v->host, path);
    return status;
}

static eitp_status eitp__vae_save(void *user, const char *directory, eitp_error *error) {
    const eitp__vae *v = (const eitp__vae *)user;
    const eitp_tokenizer *reads = v->config.encoder_tokenizer ? v->config.encoder_tokenizer : v->config.tokenizer;
    eitp_status status =
        eitp__vae_save_tokenizer(v, v->config.tokenizer, v->config.model, directory, EITP__DECODER_DIRECTORY, error);
    return status ? status
                  : eitp__vae_save_tokenizer(v, reads, eitp_model_encoder(v->config.model), directory,
                                             EITP__ENCODER_DIRECTORY, error);
}

/* ---- Evaluations ---- */

static size_t eitp__vae_observation_bytes(void *user, uint64_t samples) {
    return eitp__vae_outcomes_bytes(((const eitp__vae *)user)->units, samples);
}

/* Returns the importance-weighted bound: minus the logarithm of the mean weight p(text, z) / q(z | text) of the
   draws. */
static double eitp__vae_bound(const eitp__vae *v, const eitp_observation *observation, eitp__vae_text text) {
    const float *losses = observation->outputs[EITP__VAE_RECONSTRUCTIONS];
    double weights[EITP_MAX_IMPORTANCE_SAMPLES], largest = -HUGE_VAL, sum = 0;
    for (int64_t k = 0; k < v->draws; k++, text.noise += v->units) {
        weights[k] = eitp__vae_log_ratio(&text, v->units);
        for (int64_t row = 0; row < observation->rows; row++)
            weights[k] -= (double)losses[row * v->draws + k];
        largest = weights[k] > largest ? weights[k] : largest;
    }
    for (int64_t k = 0; k < v->draws; k++)
        sum += exp(weights[k] - largest);
    return log((double)v->draws) - largest - log(sum);
}

static void eitp__vae_observe(void *user, void *memory, const eitp_observation *observation) {
    const eitp__vae *v = (const eitp__vae *)user;
    eitp__vae_outcomes *outcomes = (eitp__vae_outcomes *)memory;
    eitp__vae_text text;
    if (!observation->index)
        outcomes = eitp__vae_outcomes_begin(memory, v->units, observation->samples);
    text.mean = observation->outputs[EITP__VAE_MEANS];
    text.log_deviation = observation->outputs[EITP__VAE_LOG_DEVIATIONS];
    text.noise = (const float *)observation->values[EITP__VAE_NOISE];
    eitp__vae_outcomes_add(outcomes, observation->index, &text);
    if (v->config.importance_samples)
        eitp__vae_outcomes_add_bound(outcomes, eitp__vae_bound(v, observation, text));
}

static const eitp_task_metric eitp__vae_metrics[] = {{"active_units", EITP_HIGHER_IS_BETTER},
                                                     {"mutual_information", EITP_HIGHER_IS_BETTER},
                                                     {"mean_variance", EITP_HIGHER_IS_BETTER},
                                                     {"nll", EITP_LOWER_IS_BETTER}};

static void eitp__vae_compute_metrics(void *user, void *memory, eitp_metric *results) {
    eitp__vae *v = (eitp__vae *)user;
    const eitp__vae_outcomes *outcomes = (const eitp__vae_outcomes *)memory;
    eitp__vae_judge_active_units(outcomes, &results[0]);
    eitp__vae_judge_information(outcomes, &results[1]);
    eitp__vae_judge_mean_variance(outcomes, &results[2]);
    if (v->config.importance_samples)
        eitp__vae_judge_bound(outcomes, &results[3]);
    eitp__buffer_clear(&v->description);
    eitp__vae_describe_units(outcomes, &v->description);
}

static const char *eitp__vae_describe(void *user) {
    const eitp__buffer *description = &((const eitp__vae *)user)->description;
    return description->failed || !description->size ? NULL : description->data;
}

/* ---- Creation ---- */

static void eitp__vae_release(void *user) {
    eitp__vae *v = (eitp__vae *)user;
    const eitp_host host = v->host;
    eitp__buffer_release(&v->description);
    eitp__release(&host, v, sizeof *v);
}

/* Returns the rows of the longest sample of a source: its tokens and end-of-text, or the tokens for the encoder. */
static int64_t eitp__vae_rows(const eitp_labelled_source *source) {
    const int64_t first = (source->max_second ? source->max_first : source->max_length) + 1;
    return first > source->max_second ? first : source->max_second;
}

static eitp_status eitp__vae_check_source(const eitp_labelled_source *source, const eitp_model *model,
                                          eitp_error *error) {
    const eitp_model *encoder = eitp_model_encoder(model);
    const int64_t first = source->max_second ? source->max_first : source->max_length;
    const int64_t encoded = source->max_second ? source->max_second : source->max_length;
    if (!source->count)
        return EITP_OK;
    if (!source->read)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "a labelled source must have read");
    if (first < 1 || first + 1 > eitp_model_positions(model) || encoded > eitp_model_positions(encoder))
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "the longest sample has %lld tokens for the decoder and %lld for the encoder; expected 1 to %lld, so that "
            "end-of-text fits the decoder's positions, and at most the encoder's %lld positions: truncate samples when "
            "they are packed",
            (long long)first, (long long)encoded, (long long)eitp_model_positions(model) - 1,
            (long long)eitp_model_positions(encoder));
    return EITP_OK;
}

static eitp_status eitp__vae_check(const eitp_vae_config *config, int32_t end_of_text, eitp_error *error) {
    const eitp_labelled_source *sources[2] = {&config->training, &config->validation};
    eitp_status status =
        eitp__settings_check(eitp__vae_settings, EITP__COUNT(eitp__vae_settings), &config->objective, error);
    if (!status && !eitp_model_encoder(config->model))
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "the model has no latent variable; add one with eitp_model_add_encoder");
    if (!status && (config->importance_samples < 0 || config->importance_samples > EITP_MAX_IMPORTANCE_SAMPLES))
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "importance_samples must be 0 to %d (got %lld)",
                            EITP_MAX_IMPORTANCE_SAMPLES, (long long)config->importance_samples);
    if (!status && (end_of_text < 0 || end_of_text >= eitp_model_vocabulary(config->model)))
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "the decoder needs an end-of-text token, but %s; set end_of_text to a token below %lld",
                            end_of_text < 0 ? "the tokenizer has none" : "it is outside the vocabulary",
                            (long long)eitp_model_vocabulary(config->model));
    for (int split = 0; split < 2 && !status; split++)
        status = eitp__vae_check_source(sources[split], config->model, error);
    if (!status && config->validation.count && (config->training.max_second > 0) != (config->validation.max_second > 0))
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "training and validation samples must both have tokens of two tokenizers, or neither");
    return status;
}

static void eitp__vae_fill_task(eitp__vae *v, eitp_task *task) {
    eitp__labelled_fill(v->sources, v->config.model, task);
    task->user = v;
    task->unit = "texts";
    task->rows = 0;
    for (int split = 0; split < 2; split++) {
        const int64_t rows = v->sources[split].count ? eitp__vae_rows(&v->sources[split]) : 0;
        task->rows = rows > task->rows ? rows : task->rows;
    }
    task->build = eitp__vae_build;
    task->read = eitp__vae_read;
    task->identify = eitp__vae_identify;
    task->save = eitp__vae_save;
    task->release = eitp__vae_release;
    task->metrics = eitp__vae_metrics;
    task->metric_count = EITP__COUNT(eitp__vae_metrics) - !v->config.importance_samples;
    task->observation_bytes = eitp__vae_observation_bytes;
    task->observe = eitp__vae_observe;
    task->compute_metrics = eitp__vae_compute_metrics;
    task->describe = eitp__vae_describe;
}

eitp_status eitp_vae_task(const eitp_vae_config *config, eitp_task *task, eitp_error *error) {
    eitp_host host;
    eitp__vae *v;
    int32_t end_of_text;
    eitp_status status;
    if (!config || !config->model || !task)
        return eitp__fail_null(error, "eitp_vae_task", "config, config.model and task");
    memset(task, 0, sizeof *task);
    end_of_text = config->end_of_text >= 0 ? config->end_of_text : eitp_tokenizer_end_of_text(config->tokenizer);
    status = eitp__vae_check(config, end_of_text, error);
    if (status)
        return status;
    host = eitp_context_host(eitp_model_context(config->model));
    v = (eitp__vae *)eitp__allocate(&host, sizeof *v);
    if (!v)
        return eitp__fail_memory(error, sizeof *v, "a task");
    v->host = host;
    v->config = *config;
    v->sources[EITP_TRAINING] = config->training;
    v->sources[EITP_VALIDATION] = config->validation;
    v->units = eitp_model_latent_config(config->model).size;
    v->draws = config->importance_samples ? config->importance_samples : 1;
    v->end_of_text = end_of_text;
    eitp__buffer_init(&v->description, &v->host);
    eitp__vae_fill_task(v, task);
    return EITP_OK;
}
