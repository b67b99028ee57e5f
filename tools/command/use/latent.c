#include "use/latent.h"

#include "output.h"

/* Default number of points of --interpolate. */
enum { USUAL_POINTS = 5 };

static int interpolates(const option_set *o) {
    return options_has(o, OPTION_INTERPOLATE);
}

static int reconstructs(const option_set *o) {
    return (int)options_integer(o, OPTION_RECONSTRUCT);
}

eitp_status latent_check(const option_set *o, eitp_error *error) {
    if (reconstructs(o) && interpolates(o))
        return command_fail(error, EITP_ERROR_ARGUMENT, "--reconstruct and --interpolate cannot be used together");
    if (interpolates(o) && (options_has(o, OPTION_PROMPT) || options_has(o, OPTION_PROMPT_FILE)))
        return command_fail(error, EITP_ERROR_ARGUMENT, "--interpolate A B takes two inputs and no prompt");
    if (interpolates(o) && o->values[OPTION_INTERPOLATE].count != 2)
        return command_fail(error, EITP_ERROR_ARGUMENT, "--interpolate A B takes two inputs (got %zu)",
                            o->values[OPTION_INTERPOLATE].count);
    if (interpolates(o) && options_is_explicit(o, OPTION_SAMPLES) && options_integer(o, OPTION_SAMPLES) < 2)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--samples is the number of points of --interpolate; it must be at least 2");
    return EITP_OK;
}

/* Computes the latent means of one or two inputs. */
static eitp_status read_means(latent_values *values, const trained_model *m, const eitp_text_pair *texts, int64_t count,
                              eitp_error *error) {
    const eitp_tokenizer *own = eitp_training_get_encoder_tokenizer(m->training);
    const eitp_tokenizer *tokenizer = own ? own : m->tokenizer;
    eitp_predictor_config config = eitp_predictor_config_default(m->model, tokenizer);
    eitp_predictor *predictor = NULL;
    eitp_status status;
    config.prediction = EITP_PREDICT_MEANS;
    config.omit_special_tokens = !own;
    values->means = (float *)command_allocate(2 * (size_t)values->units * sizeof *values->means);
    status = eitp_predictor_create(m->model, tokenizer, &config, &predictor, error);
    if (!status)
        status = eitp_predict(predictor, texts, count, values->means, NULL, error);
    eitp_predictor_destroy(predictor);
    return status;
}

static eitp_text_pair one_text(const char *text, size_t size) {
    eitp_text_pair pair;
    memset(&pair, 0, sizeof pair);
    pair.first.bytes = text;
    pair.first.size = size;
    return pair;
}

eitp_status latent_open(latent_values *values, const option_set *o, const trained_model *m, const char *text,
                        size_t size, eitp_error *error) {
    const char *asked = reconstructs(o) ? "reconstruct" : interpolates(o) ? "interpolate" : NULL;
    eitp_text_pair texts[2];
    values->units = eitp_model_latent_config(m->model).size;
    if (!values->units && asked)
        return command_fail(
            error, EITP_ERROR_ARGUMENT,
            "--%s requires a model with a latent variable, but '%s' has none; train one with --task vae", asked,
            m->directory);
    if (!values->units)
        return EITP_OK;
    values->z = (float *)command_allocate((size_t)values->units * sizeof *values->z);
    if (interpolates(o)) {
        const char *a = o->values[OPTION_INTERPOLATE].texts[0], *b = o->values[OPTION_INTERPOLATE].texts[1];
        values->points = options_is_explicit(o, OPTION_SAMPLES) ? options_integer(o, OPTION_SAMPLES) : USUAL_POINTS;
        texts[0] = one_text(a, strlen(a));
        texts[1] = one_text(b, strlen(b));
        return read_means(values, m, texts, 2, error);
    }
    if (!reconstructs(o))
        return EITP_OK;
    if (!size)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--reconstruct requires text: --prompt, --prompt-file or standard input");
    texts[0] = one_text(text, size - (text[size - 1] == '\n'));
    return read_means(values, m, texts, 1, error);
}

void latent_release(latent_values *values) {
    free(values->means);
    free(values->z);
    memset(values, 0, sizeof *values);
}

eitp_status latent_set(latent_values *values, const trained_model *m, eitp_generator *generator, int64_t number,
                       uint64_t seed, eitp_error *error) {
    const float t = values->points > 1 ? (float)number / (float)(values->points - 1) : 0;
    if (!values->units)
        return EITP_OK;
    if (!values->means)
        eitp_model_draw_latent(m->model, seed, values->z);
    for (int64_t u = 0; u < values->units && values->means; u++)
        values->z[u] =
            values->points ? (1 - t) * values->means[u] + t * values->means[values->units + u] : values->means[u];
    return eitp_generator_set_latent(generator, values->z, error);
}

int64_t latent_samples(const latent_values *values, const option_set *o) {
    return values->points ? values->points : options_integer(o, OPTION_SAMPLES);
}

int latent_is_known(const latent_values *values) {
    return values->means != NULL;
}
