/*
 * Demonstrates a latent-variable model (Kingma and Welling, arXiv 1312.6114). BERT encodes a sentence into a
 * distribution of a few latent numbers. GPT-2 decodes the sentence from a sample of them. Compile and run:
 *     cc -O2 -I. examples/latent_text.c -lm -o latent_text && ./latent_text
 */
#define EITP_IMPLEMENTATION
#include "eitp.h"

#include <math.h>
#include <stdio.h>

enum { LONGEST = 32, WIDTH = 64, LATENT = 8, TRAINING = 800, VALIDATION = 200, STEPS = 800, START = 127 };
enum { ENCODER, DECODER };

/* Returns a number from 0 to 1, a function of the sample, its seed and epoch, and `place`. */
static double draw(const eitp_sample *sample, uint64_t number, uint64_t place) {
    uint64_t x = ((sample->seed * 1000 + sample->epoch) * 100000 + number) * 64 + place + 1;
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return (double)(x >> 40) / (1 << 24);
}

/* Reads one of 1000 sentences: its bytes, noise, and the preceding bytes, mostly hidden so that the decoder needs z. */
static eitp_status read_text(void *user, eitp_split split, uint64_t number, eitp_sample *sample, eitp_error *error) {
    static const char *const w[3][10] = {
        {"red", "old", "tiny", "brave", "green", "quiet", "sleepy", "heavy", "happy", "odd"},
        {"cat", "bear", "owl", "horse", "whale", "mouse", "crow", "fox", "turtle", "bee"},
        {"sings", "waits", "eats", "dreams", "hides", "jumps", "listens", "smiles", "turns", "falls"}};
    int32_t *tokens = (int32_t *)sample->values[0], *before = (int32_t *)sample->values[1];
    const uint64_t text = (number + (split == EITP_VALIDATION ? TRAINING : 0)) * 7919 % 1000;
    char bytes[LONGEST];
    sample->rows =
        snprintf(bytes, sizeof bytes, "a %s %s %s.", w[0][text % 10], w[1][text / 10 % 10], w[2][text / 100]);
    for (int64_t i = 0; i < sample->rows; i++) {
        tokens[i] = bytes[i];
        before[i] = i == 0 || draw(sample, number, (uint64_t)i) < 0.6 ? START : bytes[i - 1];
    }
    for (uint64_t i = 0; i < LATENT; i++) /* Box and Muller, 1958 */
        ((float *)sample->values[2])[i] = (float)(sqrt(-2 * log(1 - draw(sample, number, 32 + 2 * i))) *
                                                  cos(6.283185307179586 * draw(sample, number, 33 + 2 * i)));
    *(float *)sample->values[3] = 1;
    return (void)user, (void)error, EITP_OK;
}

/* Negative evidence lower bound: the cross-entropy of a sentence's bytes, and KL(N(mean, exp(2 scale)) || N(0, 1)). */
static eitp_status build(void *user, eitp_pass *pass, eitp_error *error) {
    static const int64_t latent[] = {LATENT}, one[] = {1}, down[] = {WIDTH, LATENT}, up[] = {LATENT, WIDTH};
    eitp_model *const *models = (eitp_model *const *)user;
    eitp_graph *graph = eitp_pass_graph(pass);
    eitp_model_inputs encoded = eitp_pass_model_inputs(pass, models[ENCODER]), decoded = encoded;
    eitp_tensor *before = eitp_pass_row_input(pass, "before", EITP_I32, 0, NULL, 0), *state, *mean, *scale, *z, *kl;
    eitp_tensor *noise = eitp_pass_sample_input(pass, "noise", EITP_F32, 1, latent, 0);
    eitp_tensor *used = eitp_pass_sample_input(pass, "used", EITP_F32, 1, one, 0); /* 0 in unused places */
    eitp_schedule weight = eitp_schedule_default();
    state = eitp_model_hidden(models[ENCODER], graph, &encoded, LONGEST);
    state = eitp_pool(state, eitp_pass_bounds(pass), LONGEST, EITP_POOLING_MEAN); /* one row per sentence */
    mean = eitp_matmul(state, eitp_parameter(graph, "latent.mean", 2, down));
    scale = eitp_affine(eitp_matmul(state, eitp_parameter(graph, "latent.scale", 2, down)), 1, -2);
    z = eitp_add(mean, eitp_multiply(eitp_exp(scale), noise));
    kl = eitp_add(eitp_multiply(mean, mean), eitp_exp(eitp_affine(scale, 2, 0)));
    kl = eitp_sum(eitp_affine(eitp_subtract(kl, eitp_affine(scale, 2, 1)), 0.5, 0), 2, 1);
    decoded.tokens = before;
    decoded.added = eitp_pass_by_row(pass, eitp_matmul(z, eitp_parameter(graph, "latent.up", 2, up)));
    eitp_pass_unique(pass, before, eitp_model_vocabulary(models[DECODER]), &decoded.unique, &decoded.inverse);
    state = eitp_model_hidden(models[DECODER], graph, &decoded, LONGEST);
    eitp_pass_term(pass, "reconstruction", eitp_model_row_losses(models[DECODER], state, encoded.tokens, 0), NULL);
    weight.peak = 1, weight.warmup = STEPS / 2; /* the decoder learns to use z before the KL term has its full weight */
    eitp_pass_term(pass, "kl", eitp_multiply(used, kl), &weight);
    return eitp_graph_status(graph, error);
}

static eitp_status create(eitp_context *context, eitp_model **model, const char *shape, eitp_head head,
                          eitp_error *error) {
    eitp_transformer_config config;
    eitp_status status = eitp_transformer_config_named(shape, &config, error);
    config.head = head, config.vocabulary = 128, config.positions = LONGEST;
    config.width = WIDTH, config.heads = 4, config.layers = 2;
    status = status ? status : eitp_model_create(context, &config, model, error);
    return status ? status : eitp_model_initialize(*model, 1, error);
}

static eitp_status train(const eitp_task *task, eitp_error *error) {
    eitp_trainer_config config = eitp_trainer_config_default();
    eitp_trainer *trainer = NULL;
    eitp_step_report step = {0};
    eitp_evaluation evaluation;
    eitp_status status;
    config.batch_size = 32, config.grad_accum = 1, config.schedule.peak = 0.003;
    status = eitp_trainer_create(task, &config, &trainer, error);
    /* Means that differ by more than the deviation of z make z informative from the start. */
    status = status ? status : eitp_variable_fill_normal(task->context, "latent.mean", 0, 0.3, 3, error);
    status = status ? status : eitp_variable_fill_normal(task->context, "latent.up", 0, 0.3, 4, error);
    while (!status && step.step < STEPS)
        status = eitp_trainer_step(trainer, &step, error);
    status = status ? status : eitp_trainer_evaluate(trainer, 0, &evaluation, error);
    for (int i = 0; !status && i < evaluation.metric_count; i++)
        printf("%-14s %.2f nats\n", evaluation.metrics[i].name, evaluation.metrics[i].mean);
    eitp_trainer_destroy(trainer);
    return status;
}

int main(void) {
    const eitp_context_config settings = eitp_context_config_default();
    eitp_model *models[2] = {NULL, NULL};
    eitp_task task = {0};
    eitp_error error;
    eitp_status status = eitp_context_create(&settings, &task.context, &error);
    task.user = models, task.build = build, task.read = read_text, task.rows = LONGEST, task.rows_vary = 1;
    task.samples[EITP_TRAINING] = TRAINING, task.samples[EITP_VALIDATION] = VALIDATION;
    status = status ? status : create(task.context, &models[ENCODER], "minilm", EITP_HEAD_NONE, &error);
    status = status ? status : create(task.context, &models[DECODER], "tiny", EITP_HEAD_LANGUAGE, &error);
    status = status ? status : train(&task, &error);
    if (status)
        fprintf(stderr, "latent_text: %s\n", error.message);
    eitp_model_destroy(models[ENCODER]);
    eitp_model_destroy(models[DECODER]);
    eitp_context_destroy(task.context);
    return status != EITP_OK;
}
