/* Models with a latent variable and the task that trains them: bits, metrics, checkpoints, generation. */
#include "tests/support/latent.h"

static const eitp_latent_input inputs_[] = {EITP_LATENT_PREFIX, EITP_LATENT_ADDED};

/* An objective that uses every option. */
static eitp_vae_objective full_objective(void) {
    eitp_vae_objective objective = eitp_vae_objective_default();
    objective.kl_weight = 0.7;
    objective.kl_anneal = EITP_KL_CYCLICAL;
    objective.kl_cycles = 2;
    objective.free_bits = 0.02;
    objective.target_rate = 0.3;
    objective.word_dropout = 0.3;
    return objective;
}

/* ---- Bits ---- */

static uint32_t train(const variant *v, const eitp_vae_objective *objective, eitp_latent_input input) {
    const eitp_host host = eitp_host_default();
    latent_run l;
    uint32_t crc = 0;
    const eitp_status status = make_latent_run(&l, &host, v, objective, input, &error_);
    CHECK_THAT(!status, "%s", error_.message);
    CHECK_THAT(!l.r.trainer || !l.r.trainer->plans.pass_dependent_parameter[0], "passes may change the bits of '%s'",
               l.r.trainer->plans.pass_dependent_parameter);
    if (!status && step_many(&l.r, 4, NULL))
        crc = fingerprint(&l.r);
    end_run(&l.r);
    return crc;
}

static void passes_change_no_bit(void) {
    const eitp_vae_objective objective = full_objective();
    variant v = default_variant();
    size_t set = 0;
    while (next_set(&set, &v)) {
        uint32_t reference = 0;
        if (!strcmp(v.products, "openblas") || v.optimizer != EITP_ADAMW)
            continue;
        v.batch_size = 3;
        v.grad_accum = 5;
        for (v.micro_batches_per_pass = 1; v.micro_batches_per_pass <= 5; v.micro_batches_per_pass += 2) {
            const uint32_t crc = train(&v, &objective, inputs_[set % 2]);
            reference = reference ? reference : crc;
            CHECK_THAT(crc && crc == reference, "%s %s, %d merged: %08x, not %08x", v.isa, v.precision,
                       (int)v.micro_batches_per_pass, crc, reference);
        }
    }
}

static void threads_recomputation_and_offloading_change_no_bit(void) {
    const eitp_vae_objective objective = full_objective();
    const variant usual = default_variant();
    variant others[3];
    char directory[512], path[600];
    const uint32_t reference = train(&usual, &objective, EITP_LATENT_ADDED);
    REQUIRE(scratch_make(directory));
    snprintf(path, sizeof path, "%s/offloaded", directory);
    offload_path_ = path;
    for (int i = 0; i < 3; i++)
        others[i] = usual;
    others[0].threads = 1;
    others[1].plan.recompute = EITP_RECOMPUTE_LAYER;
    others[2].offload = EITP_OFFLOAD_ALL;
    for (int i = 0; i < 3; i++)
        CHECK_THAT(train(&others[i], &objective, EITP_LATENT_ADDED) == reference, "%d", i);
    CHECK(train(&usual, NULL, EITP_LATENT_ADDED) != reference);
    offload_path_ = NULL;
    scratch_remove(directory);
}

static void a_resumed_run_has_the_same_bits(void) {
    const eitp_host host = eitp_host_default();
    const eitp_vae_objective objective = full_objective();
    const variant v = default_variant();
    char directory[512], checkpoint[600];
    latent_run straight, resumed;
    REQUIRE(scratch_make(directory));
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-3", directory);
    REQUIRE_OK(make_latent_run(&straight, &host, &v, &objective, EITP_LATENT_PREFIX, &error_), error_);
    REQUIRE(step_many(&straight.r, 3, NULL));
    REQUIRE_OK(eitp_trainer_save(straight.r.trainer, directory, &error_), error_);
    REQUIRE_OK(eitp_checkpoint_verify(&host, checkpoint, &error_), error_);
    REQUIRE(step_many(&straight.r, 3, NULL));
    REQUIRE_OK(make_latent_run(&resumed, &host, &v, &objective, EITP_LATENT_PREFIX, &error_), error_);
    REQUIRE_OK(eitp_trainer_resume(resumed.r.trainer, checkpoint, &error_), error_);
    REQUIRE(step_many(&resumed.r, 3, NULL));
    CHECK(fingerprint(&straight.r) == fingerprint(&resumed.r));
    end_run(&straight.r);
    end_run(&resumed.r);
    scratch_remove(directory);
}

/* A checkpoint with a changed encoder is refused. */
static void each_file_of_a_checkpoint_is_checked(void) {
    static const char *const files[] = {"model.safetensors", "encoder/model.safetensors", "decoder/model.safetensors"};
    const eitp_host host = eitp_host_default();
    const variant v = default_variant();
    char directory[512], path[700];
    latent_run l;
    REQUIRE(scratch_make(directory));
    REQUIRE_OK(make_latent_run(&l, &host, &v, NULL, EITP_LATENT_PREFIX, &error_), error_);
    for (int i = 0; i < 3; i++) {
        FILE *file;
        REQUIRE_OK(eitp_trainer_save(l.r.trainer, directory, &error_), error_);
        snprintf(path, sizeof path, "%s/checkpoint-0/%s", directory, files[i]);
        file = fopen(path, "r+b");
        REQUIRE(file && !fseek(file, -3, SEEK_END) && fputc(77, file) == 77 && !fclose(file));
        snprintf(path, sizeof path, "%s/checkpoint-0", directory);
        CHECK(eitp_trainer_resume(l.r.trainer, path, &error_) == EITP_ERROR_FORMAT);
        CHECK_THAT(strstr(error_.message, files[i]) != NULL, "%s", error_.message);
    }
    end_run(&l.r);
    scratch_remove(directory);
}

/* ---- Directories ---- */

static int same_parameters(eitp_context *a, eitp_context *b) {
    int same = eitp_variable_count(a) == eitp_variable_count(b);
    for (size_t i = 0; i < eitp_variable_count(a) && same; i++) {
        const eitp_variable variable = eitp_variable_at(a, i);
        float x[64], y[64];
        const int64_t elements = (int64_t)(variable.size / eitp_dtype_size(variable.dtype));
        const int64_t count = elements < 64 ? elements : 64;
        same = !eitp_variable_read_f32(a, variable.name, 0, x, count, &error_) &&
               !eitp_variable_read_f32(b, variable.name, 0, y, count, &error_) &&
               !memcmp(x, y, (size_t)count * sizeof *x);
    }
    return same;
}

static void directories_say_what_they_are(void) {
    const eitp_host host = eitp_host_default();
    const eitp_context_config settings = eitp_context_config_default();
    char directory[512], part[600];
    eitp_context *contexts[3];
    eitp_model *model, *loaded, *decoder;
    eitp_latent_config latent;
    eitp_transformer_config config;
    REQUIRE(scratch_make(directory));
    for (int i = 0; i < 3; i++)
        REQUIRE_OK(eitp_context_create(&settings, &contexts[i], &error_), error_);
    REQUIRE_OK(make_latent_model(contexts[0], EITP_LATENT_ADDED, 0, &model, &error_), error_);
    REQUIRE_OK(eitp_model_save(model, directory, &error_), error_);
    REQUIRE_OK(eitp__latent_config_read(&host, directory, &latent, &error_), error_);
    CHECK(latent.size == UNITS && latent.input == EITP_LATENT_ADDED && latent.encoder.width == 16);
    REQUIRE_OK(eitp_model_config_read(&host, directory, &config, &error_), error_);
    CHECK(config.width == 24 && config.vocabulary == DECODER_WORDS);
    REQUIRE_OK(eitp_model_load(contexts[1], directory, &loaded, &error_), error_);
    CHECK(same_parameters(contexts[0], contexts[1]));
    CHECK(eitp_model_parameter_count(loaded) == eitp_model_parameter_count(model));
    snprintf(part, sizeof part, "%s/decoder", directory);
    REQUIRE_OK(eitp__latent_config_read(&host, part, &latent, &error_), error_);
    CHECK(latent.size == 0);
    REQUIRE_OK(eitp_model_load(contexts[2], part, &decoder, &error_), error_);
    CHECK(!eitp_model_encoder(decoder) && eitp_variable_count(contexts[2]) < eitp_variable_count(contexts[0]));
    eitp_model_destroy(model);
    eitp_model_destroy(loaded);
    eitp_model_destroy(decoder);
    for (int i = 0; i < 3; i++)
        eitp_context_destroy(contexts[i]);
    scratch_remove(directory);
}

static void bad_configurations_are_refused(void) {
    static const struct {
        const char *text, *message;
    } cases[] = {{"{\"model_type\": \"vae\"}", "latent_size"},
                 {"{\"model_type\": \"vae\", \"latent_size\": 0}", "latent_size"},
                 {"{\"model_type\": \"vae\", \"latent_size\": 4, \"latent_input\": \"middle\"}", "latent_input"},
                 {"{\"model_type\": \"vae\", \"latent_size\": \"4\"}", "latent_size"}};
    const eitp_host host = eitp_host_default();
    char directory[512], path[600];
    eitp_latent_config latent;
    REQUIRE(scratch_make(directory));
    snprintf(path, sizeof path, "%s/config.json", directory);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        REQUIRE_OK(eitp__write_file(&host, path, cases[i].text, strlen(cases[i].text), &error_), error_);
        CHECK(eitp__latent_config_read(&host, directory, &latent, &error_) == EITP_ERROR_FORMAT);
        CHECK_THAT(strstr(error_.message, cases[i].message) && strstr(error_.message, "config.json"), "%s",
                   error_.message);
    }
    scratch_remove(directory);
}

/* ---- Models ---- */

static void encoders_that_do_not_fit_are_refused(void) {
    const eitp_context_config settings = eitp_context_config_default();
    eitp_latent_config latent = eitp_latent_config_default(), wrong;
    eitp_lora_config lora = eitp_lora_config_default();
    eitp_transformer_config config = small_model(0);
    eitp_context *context;
    eitp_model *model;
    size_t before;
    REQUIRE_OK(eitp_context_create(&settings, &context, &error_), error_);
    REQUIRE_OK(eitp_model_create(context, &config, &model, &error_), error_);
    before = eitp_variable_count(context);
    wrong = latent, wrong.size = 0;
    CHECK(eitp_model_add_encoder(model, &wrong, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "size"));
    wrong = latent, wrong.encoder = config;
    CHECK(eitp_model_add_encoder(model, &wrong, &error_) == EITP_ERROR_ARGUMENT &&
          strstr(error_.message, "bidirectional"));
    wrong = latent, wrong.encoder.width = 7;
    CHECK(eitp_model_add_encoder(model, &wrong, &error_) && eitp_variable_count(context) == before);
    CHECK(!eitp_model_encoder(model) && eitp_model_latent_config(model).size == 0);
    latent.encoder.layers = 1;
    REQUIRE_OK(eitp_model_add_encoder(model, &latent, &error_), error_);
    CHECK(eitp_model_add_encoder(model, &latent, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "already"));
    CHECK(eitp_model_add_lora(model, &lora, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "freeze"));
    REQUIRE_OK(eitp_model_freeze(model, "encoder", &error_), error_);
    CHECK(eitp_model_trained_parameter_count(eitp_model_encoder(model)) == 0);
    CHECK(eitp_model_trained_parameter_count(model) + eitp_model_parameter_count(eitp_model_encoder(model)) ==
          eitp_model_parameter_count(model));
    eitp_model_destroy(model);
    eitp_context_destroy(context);
}

/* A generator that is fed one token at a time gives the same logits as a pass over all tokens. */
static void check_generator(eitp_latent_input input) {
    static const int32_t tokens[] = {END, 3, 14, 15, 9};
    static const float z[UNITS] = {0.5f, -1, 2, 0.25f};
    enum { COUNT = sizeof tokens / sizeof *tokens };
    const eitp_context_config settings = eitp_context_config_default();
    const int64_t shape[] = {1, UNITS}, rows = COUNT;
    int32_t positions[COUNT], offsets[] = {0, COUNT}, latent_rows[COUNT];
    float logits[COUNT][DECODER_WORDS], plain[DECODER_WORDS];
    eitp_model_inputs inputs;
    eitp_context *context;
    eitp_model *model;
    eitp_generator *generator;
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_tensor *latent, *seen, *output;
    REQUIRE_OK(eitp_context_create(&settings, &context, &error_), error_);
    REQUIRE_OK(make_latent_model(context, input, 0, &model, &error_), error_);
    REQUIRE_OK(eitp_variable_fill_normal(context, "latent.embedding.weight", 0, 0.5, 4, &error_), error_);
    REQUIRE_OK(eitp_graph_create(context, &graph, &error_), error_);
    inputs = eitp_model_inputs_create(graph, 1, COUNT, 0);
    latent = eitp_input(graph, "z", EITP_F32, 2, shape);
    seen = eitp_input_rows(graph, "latent_rows", EITP_I32, 1, &rows);
    inputs.added = eitp_embedding(eitp__model_latent_embedding(model, latent), seen);
    output = eitp_output(eitp_model_logits(model, eitp_model_hidden(model, graph, &inputs, COUNT)));
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error_), error_);
    for (int i = 0; i < COUNT; i++) {
        positions[i] = i;
        latent_rows[i] = input == EITP_LATENT_ADDED || !i ? 0 : -1;
    }
    REQUIRE(!eitp_plan_write(plan, inputs.tokens, tokens, sizeof tokens, &error_) &&
            !eitp_plan_write(plan, inputs.positions, positions, sizeof positions, &error_) &&
            !eitp_plan_write(plan, inputs.offsets, offsets, sizeof offsets, &error_) &&
            !eitp_plan_write(plan, seen, latent_rows, sizeof latent_rows, &error_) &&
            !eitp_plan_write(plan, latent, z, sizeof z, &error_) && !eitp_plan_execute(plan, &error_) &&
            !eitp_plan_read(plan, output, logits, sizeof logits, &error_));
    REQUIRE_OK(eitp_generator_create(model, 0, &generator, &error_), error_);
    REQUIRE_OK(eitp_generator_feed(generator, tokens, 1, &error_), error_);
    memcpy(plain, eitp_generator_logits(generator), sizeof plain); /* for a latent variable of 0 */
    REQUIRE_OK(eitp_generator_set_latent(generator, z, &error_), error_);
    for (int i = 0; i < COUNT; i++) {
        double worst = 0;
        REQUIRE_OK(eitp_generator_feed(generator, tokens + i, 1, &error_), error_);
        for (int k = 0; k < DECODER_WORDS; k++)
            worst = fmax(worst, fabs((double)(eitp_generator_logits(generator)[k] - logits[i][k])));
        CHECK_THAT(worst < 1e-5, "row %d: %g", i, worst);
    }
    CHECK(memcmp(plain, logits[0], sizeof plain) != 0);
    eitp_generator_destroy(generator);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
}

static void generators_see_the_latent_variable(void) {
    for (int i = 0; i < 2; i++)
        check_generator(inputs_[i]);
}

static void models_without_one_refuse_a_latent_variable(void) {
    static const float z[UNITS] = {0};
    const eitp_context_config settings = eitp_context_config_default();
    eitp_transformer_config config = small_model(0);
    eitp_vae_config vae = eitp_vae_config_default();
    eitp_context *context;
    eitp_model *model;
    eitp_generator *generator;
    eitp_task task;
    REQUIRE_OK(eitp_context_create(&settings, &context, &error_), error_);
    REQUIRE_OK(eitp_model_create(context, &config, &model, &error_), error_);
    REQUIRE_OK(eitp_model_initialize(model, 1, &error_), error_);
    REQUIRE_OK(eitp_generator_create(model, 0, &generator, &error_), error_);
    CHECK(eitp_generator_set_latent(generator, z, &error_) == EITP_ERROR_ARGUMENT);
    vae.model = model, vae.end_of_text = 0, vae.training = two_tokenizers(3);
    CHECK(eitp_vae_task(&vae, &task, &error_) == EITP_ERROR_ARGUMENT &&
          strstr(error_.message, "eitp_model_add_encoder"));
    CHECK(!eitp__model_latent_embedding(model, NULL));
    eitp_generator_destroy(generator);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
}

/* ---- Evaluations ---- */

static const eitp_metric *find_metric(const eitp_evaluation *evaluation, const char *name) {
    for (int i = 0; i < evaluation->metric_count; i++) {
        if (!strcmp(evaluation->metrics[i].name, name))
            return &evaluation->metrics[i];
    }
    return NULL;
}

static void evaluations_have_the_bound_and_its_parts(void) {
    const eitp_host host = eitp_host_default();
    const eitp_vae_objective objective = full_objective();
    variant v = default_variant();
    eitp_evaluation evaluation, again;
    const char *description;
    latent_run l;
    v.precision = "fp32";
    REQUIRE_OK(make_latent_run(&l, &host, &v, &objective, EITP_LATENT_PREFIX, &error_), error_);
    REQUIRE_OK(eitp_trainer_evaluate(l.r.trainer, 0, &evaluation, &error_), error_);
    const eitp_metric *kl = find_metric(&evaluation, "kl"), *loss = find_metric(&evaluation, "reconstruction");
    const eitp_metric *nll = find_metric(&evaluation, "nll"), *active = find_metric(&evaluation, "active_units");
    const eitp_metric *information = find_metric(&evaluation, "mutual_information");
    REQUIRE(kl && loss && nll && active && information && find_metric(&evaluation, "mean_variance"));
    CHECK_THAT(fabs(evaluation.loss - kl->mean - loss->mean) < 1e-5, "%g %g %g", evaluation.loss, kl->mean, loss->mean);
    CHECK(kl->mean > 0 && kl->error > 0 && loss->error > 0 && kl->items == TEXTS / 2);
    CHECK_THAT(nll->mean < evaluation.loss && nll->mean > evaluation.loss - 3 && nll->error > 0, "%g", nll->mean);
    CHECK(active->items == UNITS && active->mean >= 0 && active->mean <= UNITS);
    CHECK_THAT(information->mean > -0.5 && information->mean < kl->mean && information->error > 0, "%g",
               information->mean);
    description = l.r.task.describe(l.r.task.user);
    CHECK_THAT(description && strstr(description, "{\"units\": {\"kl\": [") && strstr(description, "\"variance\": ["),
               "%s", description);
    REQUIRE_OK(eitp_trainer_evaluate(l.r.trainer, 0, &again, &error_), error_);
    CHECK(!memcmp(&evaluation.loss, &again.loss, sizeof again.loss));
    end_run(&l.r);
}

/* Generates posteriors with known means and deviations: over samples the means have deviation `spread`, and each
   posterior has deviation `own`. */
static eitp__vae_outcomes *made_up_posteriors(double spread, double own, uint64_t texts, void **memory) {
    const size_t bytes = eitp__vae_outcomes_bytes(UNITS, texts);
    eitp__vae_outcomes *outcomes;
    *memory = malloc(bytes);
    outcomes = eitp__vae_outcomes_begin(*memory, UNITS, texts);
    for (uint64_t i = 0; i < texts; i++) {
        float mean[UNITS], log_deviation[UNITS], noise[UNITS];
        eitp__vae_text text;
        for (int u = 0; u < UNITS; u++) {
            double pair[2];
            eitp__random_normal(1, 2, 3, i * UNITS + (uint64_t)u, pair);
            mean[u] = (float)(u < 2 ? spread * pair[0] : 0); /* the other units equal the prior */
            log_deviation[u] = (float)(u < 2 ? log(own) : 0);
            noise[u] = (float)pair[1];
        }
        text.mean = mean;
        text.log_deviation = log_deviation;
        text.noise = noise;
        eitp__vae_outcomes_add(outcomes, i, &text);
    }
    return outcomes;
}

/* A channel with signal `spread` and noise `own` carries ln(1 + spread^2 / own^2) / 2 nats. */
static void metrics_of_known_posteriors(void) {
    void *memory;
    eitp_metric active, information, variance;
    const eitp__vae_outcomes *outcomes = made_up_posteriors(0.8, 0.6, 5000, &memory);
    const double expected = 2 * 0.5 * log(1 + 0.64 / 0.36);
    eitp__vae_judge_active_units(outcomes, &active);
    eitp__vae_judge_information(outcomes, &information);
    eitp__vae_judge_mean_variance(outcomes, &variance);
    CHECK_THAT(active.mean == 2 && active.error == 0 && active.items == UNITS, "%g", active.mean);
    CHECK_THAT(fabs(information.mean - expected) < 4 * information.error && information.error < 0.05 &&
                   information.items == EITP__VAE_TEXTS,
               "%g +- %g, expected %g", information.mean, information.error, expected);
    CHECK_THAT(fabs(variance.mean - 0.32) < 4 * variance.error && variance.error > 0 && variance.error < 0.02,
               "%g +- %g", variance.mean, variance.error);
    free(memory);
    outcomes = made_up_posteriors(0, 1, 300, &memory); /* collapsed */
    eitp__vae_judge_active_units(outcomes, &active);
    eitp__vae_judge_information(outcomes, &information);
    CHECK_THAT(active.mean == 0 && fabs(information.mean) < 1e-9, "%g, %g", active.mean, information.mean);
    free(memory);
}

/* ---- Objectives ---- */

static void weights_of_the_divergence_follow_their_schedule(void) {
    eitp_schedule cyclical = eitp_schedule_default();
    cyclical.kind = EITP_SCHEDULE_CYCLICAL;
    cyclical.peak = 2;
    cyclical.cycles = 2;
    cyclical.steps = 8;
    for (int64_t step = 1; step <= 10; step++) {
        static const double expected[] = {0, 1, 2, 2, 0, 1, 2, 2, 2, 2};
        CHECK_THAT(fabs(eitp_schedule_rate(&cyclical, step) - expected[step - 1]) < 1e-12, "%d: %g", (int)step,
                   eitp_schedule_rate(&cyclical, step));
    }
}

/* Returns the KL term of the first step with an objective, and the term's weight at step 2. */
static void first_terms(const eitp_vae_objective *objective, double *kl, double *weight) {
    const eitp_host host = eitp_host_default();
    variant v = default_variant();
    eitp_step_report report;
    latent_run l;
    v.dropout = 0;
    v.precision = "fp32";
    REQUIRE_OK(make_latent_run(&l, &host, &v, objective, EITP_LATENT_PREFIX, &error_), error_);
    REQUIRE_OK(eitp_trainer_step(l.r.trainer, &report, &error_), error_);
    CHECK(report.term_count == 2 && !strcmp(report.terms[1].name, "kl"));
    *kl = report.terms[1].mean;
    *weight = eitp__term_weight(&l.r.trainer->plans.pass.scalars[1], 2);
    end_run(&l.r);
}

static void free_bits_and_target_rates_change_the_term(void) {
    eitp_vae_objective objective = eitp_vae_objective_default();
    double plain, kl, weight;
    first_terms(&objective, &plain, &weight);
    CHECK_THAT(plain > 0 && weight == 1, "%g, weight %g", plain, weight);
    objective.free_bits = 5; /* more than the value of any unit */
    first_terms(&objective, &kl, &weight);
    CHECK_THAT(fabs(kl - 5 * UNITS) < 1e-4, "%g", kl);
    objective.free_bits = 0, objective.target_rate = 40;
    first_terms(&objective, &kl, &weight);
    CHECK_THAT(fabs(kl - (40 - plain)) < 1e-3, "%g, %g", kl, plain);
    objective.target_rate = 0, objective.kl_anneal = EITP_KL_LINEAR, objective.kl_weight = 0.5;
    first_terms(&objective, &kl, &weight);
    CHECK_THAT(fabs(kl - plain) < 1e-6 && fabs(weight - 0.25) < 1e-12, "%g", weight); /* step 2 of a warmup of 4,
                                                                                         half of the 8 steps */
}

static void numbers_out_of_range_are_refused(void) {
    const eitp_host host = eitp_host_default();
    const variant v = default_variant();
    eitp_vae_config config;
    eitp_task task;
    latent_run l;
    REQUIRE_OK(make_latent_run(&l, &host, &v, NULL, EITP_LATENT_PREFIX, &error_), error_);
    config = l.config, config.objective.word_dropout = 1.5;
    CHECK(eitp_vae_task(&config, &task, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "word_dropout"));
    config = l.config, config.importance_samples = 65;
    CHECK(eitp_vae_task(&config, &task, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "64"));
    config = l.config, config.end_of_text = DECODER_WORDS;
    CHECK(eitp_vae_task(&config, &task, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "end_of_text"));
    config = l.config, config.training.max_first = 16;
    CHECK(eitp_vae_task(&config, &task, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "positions"));
    config = l.config, config.validation.max_second = 0, config.validation.max_length = 9;
    CHECK(eitp_vae_task(&config, &task, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "neither"));
    end_run(&l.r);
}

/* Each allocation fails once. */
static void a_failed_allocation_leaves_nothing(void) {
    const eitp_vae_objective objective = full_objective();
    const variant v = default_variant();
    faults f;
    for (long n = 1;; n += test_stride(3, 17)) {
        latent_run l;
        eitp_status status;
        faults_begin(&f);
        f.fail_allocation = n;
        status = make_latent_run(&l, &f.host, &v, &objective, EITP_LATENT_PREFIX, &error_);
        CHECK(!status || status == EITP_ERROR_MEMORY);
        end_run(&l.r);
        if (!faults_end(&f))
            break;
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(passes_change_no_bit),
        TEST(threads_recomputation_and_offloading_change_no_bit),
        TEST(a_resumed_run_has_the_same_bits),
        TEST(each_file_of_a_checkpoint_is_checked),
        TEST(directories_say_what_they_are),
        TEST(bad_configurations_are_refused),
        TEST(encoders_that_do_not_fit_are_refused),
        TEST(generators_see_the_latent_variable),
        TEST(models_without_one_refuse_a_latent_variable),
        TEST(evaluations_have_the_bound_and_its_parts),
        TEST(metrics_of_known_posteriors),
        TEST(weights_of_the_divergence_follow_their_schedule),
        TEST(free_bits_and_target_rates_change_the_term),
        TEST(numbers_out_of_range_are_refused),
        TEST(a_failed_allocation_leaves_nothing),
    };
    return RUN_TESTS(tests, argc, argv);
}
