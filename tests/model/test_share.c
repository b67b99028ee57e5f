/* Models whose weights are used by several contexts: bits, memory, threads, lifetime, and refused operations. */
#include "tests/support/model_files.h"
#include "tests/support/trainer_run.h"

#include <pthread.h>

static char directory[512];

enum { WIDTH = 64, THREADS = 4, TURNS = 20, TEXTS = 6, VOCABULARY = 2000 };

/* A model whose weights take most of its memory. */
static eitp_transformer_config shape(void) {
    eitp_transformer_config config = small_model(0);
    config.vocabulary = VOCABULARY;
    config.width = WIDTH;
    config.inner = 4 * WIDTH;
    config.initializer_range = 0.2; /* makes tokens depend on the preceding ones */
    return config;
}

static eitp_status open_context(const eitp_host *host, const char *precision, eitp_context **context,
                                eitp_error *error) {
    eitp_context_config config = eitp_context_config_default();
    config.host = *host;
    config.threads = 1;
    config.precision = precision;
    return eitp_context_create(&config, context, error);
}

/* A context with its own model. */
typedef struct owner {
    eitp_context *context;
    eitp_model *model;
} owner;

static eitp_status open_owner(owner *o, const eitp_host *host, const char *precision, int64_t lora_rank,
                              eitp_error *error) {
    const eitp_transformer_config config = shape();
    eitp_status status;
    memset(o, 0, sizeof *o);
    status = open_context(host, precision, &o->context, error);
    if (!status)
        status = eitp_model_create(o->context, &config, &o->model, error);
    if (!status && lora_rank)
        status = add_adapters(o->model, lora_rank, 0, error);
    return status ? status : eitp_model_initialize(o->model, 1, error);
}

static void close_owner(owner *o) {
    eitp_model_destroy(o->model);
    eitp_context_destroy(o->context);
    memset(o, 0, sizeof *o);
}

static size_t weight_bytes(eitp_context *context) {
    return eitp_context_variable_bytes(context, EITP_PARAMETER) + eitp_context_variable_bytes(context, EITP_REMAINDER);
}

/* ---- Work of a thread ---- */

/* Generates tokens and computes embeddings in its own context. Failures are reported by the main thread. */
typedef struct work {
    const eitp_model *lender; /* NULL: uses its own model */
    const char *precision;
    const eitp_tokenizer *tokenizer;
    int number; /* number of the conversation */
    faults f;   /* counts the context's memory */
    int32_t drawn[TURNS];
    float embeddings[TEXTS * WIDTH];
    size_t weights; /* bytes of weights that are counted in the context */
    eitp_error error;
    eitp_status status;
} work;

static eitp_status converse(work *w, const eitp_model *model) {
    eitp_sampling sampling = eitp_sampling_default();
    eitp_generator *generator = NULL;
    int32_t prompt[2];
    eitp_status status = eitp_generator_create(model, 0, &generator, &w->error);
    prompt[0] = w->number;
    prompt[1] = 7;
    sampling.seed = (uint64_t)w->number;
    for (int turn = 0; turn < TURNS && !status; turn++) {
        status = turn ? eitp_generator_feed(generator, &w->drawn[turn - 1], 1, &w->error)
                      : eitp_generator_feed(generator, prompt, 2, &w->error);
        w->drawn[turn] = eitp_generator_sample(generator, &sampling);
    }
    eitp_generator_destroy(generator);
    return status;
}

static eitp_status embed(work *w, const eitp_model *model) {
    static const char *const words[TEXTS] = {"tree", "a longer text", "moss and fern", "x", "bark", "roots, leaves"};
    eitp_predictor_config config = eitp_predictor_config_default(model, w->tokenizer);
    eitp_predictor *predictor = NULL;
    eitp_text_pair texts[TEXTS];
    eitp_status status;
    memset(texts, 0, sizeof texts);
    for (int i = 0; i < TEXTS; i++) {
        texts[i].first.bytes = words[(i + w->number) % TEXTS];
        texts[i].first.size = strlen(texts[i].first.bytes);
    }
    config.prediction = EITP_PREDICT_EMBEDDINGS;
    config.pass_tokens = 64;
    status = eitp_predictor_create(model, w->tokenizer, &config, &predictor, &w->error);
    if (!status)
        status = eitp_predict(predictor, texts, TEXTS, w->embeddings, NULL, &w->error);
    eitp_predictor_destroy(predictor);
    return status;
}

static void *do_work(void *argument) {
    work *w = (work *)argument;
    owner own = EITP__ZERO;
    faults_begin(&w->f);
    if (w->lender)
        w->status = open_context(&w->f.host, w->precision, &own.context, &w->error);
    else
        w->status = open_owner(&own, &w->f.host, w->precision, 0, &w->error);
    if (!w->status && w->lender)
        w->status = eitp_model_share(w->lender, own.context, &own.model, &w->error);
    if (!w->status)
        w->status = converse(w, own.model);
    if (!w->status)
        w->status = embed(w, own.model);
    w->weights = weight_bytes(own.context);
    close_owner(&own);
    return NULL;
}

static void begin_work(work *w, const eitp_model *lender, const char *precision, const eitp_tokenizer *tokenizer,
                       int number) {
    memset(w, 0, sizeof *w);
    w->lender = lender;
    w->precision = precision;
    w->tokenizer = tokenizer;
    w->number = number;
}

/* ---- Bits and memory ---- */

static void check_threads(const char *precision) {
    static work alone[THREADS], threads[THREADS];
    const eitp_host host = eitp_host_default();
    pthread_t started[THREADS];
    eitp_tokenizer *tokenizer = NULL;
    owner o;
    faults f;
    size_t weights;
    long blocks;
    faults_begin(&f);
    REQUIRE_OK(eitp_tokenizer_create_bytes(&host, &tokenizer, &error_), error_);
    REQUIRE_OK(open_owner(&o, &f.host, precision, 0, &error_), error_);
    weights = weight_bytes(o.context);
    blocks = f.allocations;
    for (int i = 0; i < THREADS; i++) {
        begin_work(&alone[i], NULL, precision, tokenizer, i);
        do_work(&alone[i]);
        CHECK_THAT(!alone[i].status, "%s", alone[i].error.message);
        CHECK(alone[i].weights == weights);
    }
    CHECK(memcmp(alone[0].drawn, alone[1].drawn, sizeof alone[0].drawn) != 0);
    for (int i = 0; i < THREADS; i++) {
        begin_work(&threads[i], o.model, precision, tokenizer, i);
        REQUIRE(!pthread_create(&started[i], NULL, do_work, &threads[i]));
    }
    for (int i = 0; i < THREADS; i++)
        REQUIRE(!pthread_join(started[i], NULL));
    for (int i = 0; i < THREADS; i++) {
        work *w = &threads[i];
        CHECK_THAT(!w->status, "%s", w->error.message);
        CHECK_THAT(!memcmp(w->drawn, alone[i].drawn, sizeof w->drawn), "%s, tokens of thread %d", precision, i);
        CHECK_THAT(!memcmp(w->embeddings, alone[i].embeddings, sizeof w->embeddings), "%s, thread %d", precision, i);
        /* The context has a list of lending contexts instead of segments, and stores nothing else of the owner. */
        CHECK_THAT(w->f.peak_bytes + weights <= alone[i].f.peak_bytes + 256, "%zu bytes, alone %zu, weights %zu",
                   w->f.peak_bytes, alone[i].f.peak_bytes, weights);
        CHECK(w->weights == 0);
        faults_end(&w->f);
        faults_end(&alone[i].f);
    }
    CHECK(f.allocations == blocks && weight_bytes(o.context) == weights);
    close_owner(&o);
    faults_end(&f);
    eitp_tokenizer_destroy(tokenizer);
}

static void threads_share_one_copy_of_the_weights(void) {
    check_threads("fp32");
    check_threads("bf16");
}

/* Contexts and models may be destroyed in any order, and a borrowed model can be shared again. */
static void the_last_context_releases_the_weights(void) {
    static work alone, w;
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer = NULL;
    owner first, second = EITP__ZERO, third = EITP__ZERO;
    faults f;
    faults_begin(&f);
    REQUIRE_OK(eitp_tokenizer_create_bytes(&host, &tokenizer, &error_), error_);
    begin_work(&alone, NULL, "fp32", tokenizer, 3);
    begin_work(&w, NULL, "fp32", tokenizer, 3);
    do_work(&alone);
    REQUIRE_OK(open_owner(&first, &f.host, "fp32", 0, &error_), error_);
    REQUIRE_OK(open_context(&host, "fp32", &second.context, &error_), error_);
    REQUIRE_OK(open_context(&host, "fp32", &third.context, &error_), error_);
    REQUIRE_OK(eitp_model_share(first.model, second.context, &second.model, &error_), error_);
    REQUIRE_OK(converse(&w, first.model), w.error);
    close_owner(&first);
    REQUIRE_OK(eitp_model_share(second.model, third.context, &third.model, &error_), error_);
    close_owner(&second);
    memset(w.drawn, 0, sizeof w.drawn);
    REQUIRE_OK(converse(&w, third.model), w.error);
    REQUIRE_OK(embed(&w, third.model), w.error);
    CHECK(!memcmp(w.drawn, alone.drawn, sizeof w.drawn));
    CHECK(!memcmp(w.embeddings, alone.embeddings, sizeof w.embeddings));
    CHECK(f.live_bytes > 0);
    close_owner(&third);
    CHECK_THAT(f.live_bytes == 0, "%zu bytes", f.live_bytes);
    faults_end(&f);
    faults_end(&alone.f);
    eitp_tokenizer_destroy(tokenizer);
}

/* ---- Refused operations ---- */

static int is_refused(eitp_status status, const char *words) {
    const int refused = status == EITP_ERROR_ARGUMENT && strstr(error_.message, words);
    if (!refused)
        printf("    %s: %s\n", eitp_status_name(status), error_.message);
    return refused;
}

/* Checks that every operation that would change the weights is refused, except plans. */
static void check_unchangeable(const owner *o, const char *words) {
    static const char name[] = "transformer.h.0.ln_1.weight";
    const float value = 3;
    float before = 0, after = 1;
    CHECK(!eitp_variable_read_f32(o->context, name, 0, &before, 1, &error_));
    CHECK(is_refused(eitp_variable_write(o->context, name, 0, &value, sizeof value, &error_), words));
    CHECK(is_refused(eitp_variable_write_f32(o->context, name, 0, &value, 1, &error_), words));
    CHECK(is_refused(eitp_variable_fill(o->context, name, 3, &error_), words));
    CHECK(is_refused(eitp_model_initialize(o->model, 5, &error_), words));
    CHECK(is_refused(eitp_model_load_weights(o->model, directory, &error_), words));
    CHECK(is_refused(
        eitp_variables_load(o->context, scratch_path(directory, "model.safetensors"), EITP_PARAMETER, NULL, &error_),
        words));
    CHECK(!eitp_variable_read_f32(o->context, name, 0, &after, 1, &error_));
    CHECK(before == after);
}

/* Executes a plan that adds 1 to a parameter. */
static eitp_status add_one(eitp_context *context, eitp_error *error) {
    const int64_t rows[1] = {WIDTH};
    eitp_graph *graph = NULL;
    eitp_plan *plan = NULL;
    eitp_status status = eitp_graph_create(context, &graph, error);
    if (!status) {
        eitp_accumulate(eitp_parameter(graph, "transformer.ln_f.bias", 1, rows), eitp_fill(graph, EITP_F32, 1, rows, 1),
                        NULL);
        status = eitp_plan_create(graph, &plan, error);
    }
    if (!status)
        status = eitp_plan_execute(plan, error);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    return status;
}

static void shared_weights_cannot_be_changed(void) {
    static const char *const precisions[] = {"fp32", "bf16"};
    for (int i = 0; i < 2; i++) {
        const eitp_host host = eitp_host_default();
        owner o, b = EITP__ZERO;
        REQUIRE_OK(open_owner(&o, &host, precisions[i], 0, &error_), error_);
        /* In F32, files are read directly into the memory of the weights. */
        REQUIRE_OK(eitp_model_save(o.model, directory, &error_), error_);
        REQUIRE_OK(open_context(&host, precisions[i], &b.context, &error_), error_);
        REQUIRE_OK(eitp_model_share(o.model, b.context, &b.model, &error_), error_);
        check_unchangeable(&b, "is borrowed from another context and cannot be changed");
        check_unchangeable(&o, "cannot be changed while other contexts borrow it");
        CHECK(is_refused(add_one(b.context, &error_), "is borrowed"));
        CHECK(is_refused(add_one(o.context, &error_), "while other contexts borrow it"));
        CHECK(is_refused(eitp_variable_set_trained(b.context, "transformer.wte.weight", 1, &error_), "is borrowed"));
        CHECK(!eitp_model_freeze(b.model, "embeddings", &error_));
        CHECK(eitp_model_trained_parameter_count(b.model) == 0);
        close_owner(&b);
        REQUIRE_OK(add_one(o.context, &error_), error_);
        REQUIRE_OK(eitp_model_load_weights(o.model, directory, &error_), error_);
        close_owner(&o);
    }
}

static void only_values_in_memory_can_be_shared(void) {
    const eitp_host host = eitp_host_default();
    eitp_context_config config = eitp_context_config_default();
    const eitp_transformer_config small = shape();
    eitp_model *model = NULL, *shared = NULL;
    eitp_context *context = NULL, *other = NULL;
    char file[512];
    owner o;
    REQUIRE_OK(open_owner(&o, &host, "fp32", 0, &error_), error_);
    CHECK(eitp_model_share(NULL, o.context, &shared, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_model_share(o.model, NULL, &shared, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_model_share(o.model, o.context, NULL, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(is_refused(eitp_model_share(o.model, o.context, &shared, &error_), "already in this context"));
    REQUIRE_OK(open_context(&host, "bf16", &context, &error_), error_);
    CHECK(is_refused(eitp_model_share(o.model, context, &shared, &error_), "has precision bf16"));
    eitp_context_destroy(context);
    config.device = "null";
    REQUIRE_OK(eitp_context_create(&config, &context, &error_), error_);
    CHECK(eitp_model_share(o.model, context, &shared, &error_) == EITP_ERROR_UNSUPPORTED);
    eitp_context_destroy(context);
    /* The model is already shared here, or another model has the same names. */
    REQUIRE_OK(open_context(&host, "fp32", &context, &error_), error_);
    REQUIRE_OK(eitp_model_share(o.model, context, &model, &error_), error_);
    CHECK(is_refused(eitp_model_share(o.model, context, &shared, &error_), "'transformer.wte.weight' exists"));
    CHECK(shared == NULL && eitp_model_share(model, o.context, &shared, &error_) == EITP_ERROR_ARGUMENT);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
    /* The weights have no values, or are in a file. */
    REQUIRE_OK(open_context(&host, "fp32", &context, &error_), error_);
    REQUIRE_OK(open_context(&host, "fp32", &other, &error_), error_);
    REQUIRE_OK(eitp_model_create(other, &small, &model, &error_), error_);
    CHECK(is_refused(eitp_model_share(model, context, &shared, &error_), "has no values yet"));
    CHECK(eitp_variable_count(context) == 0);
    eitp_model_destroy(model);
    eitp_context_destroy(other);
    config = eitp_context_config_default();
    snprintf(file, sizeof file, "%s", scratch_path(directory, "offload"));
    config.offload = EITP_OFFLOAD_ALL;
    config.offload_path = file;
    REQUIRE_OK(eitp_context_create(&config, &other, &error_), error_);
    REQUIRE_OK(eitp_model_create(other, &small, &model, &error_), error_);
    REQUIRE_OK(eitp_model_initialize(model, 1, &error_), error_);
    CHECK(eitp_model_share(model, context, &shared, &error_) == EITP_ERROR_UNSUPPORTED);
    CHECK_THAT(strstr(error_.message, "is offloaded"), "%s", error_.message);
    eitp_model_destroy(model);
    eitp_context_destroy(other);
    eitp_context_destroy(context);
    close_owner(&o);
}

/* ---- Training ---- */

/* A trainer whose model is shared refuses to train, without damage, until the borrowing contexts are destroyed. */
static void a_trainer_waits_for_borrowers(void) {
    for (int passes = 1; passes <= 2; passes++) {
        const eitp_host host = eitp_host_default();
        variant v = default_variant();
        uint32_t expected;
        eitp_step_report report;
        eitp_task task = EITP__ZERO;
        eitp_trainer *trainer = NULL;
        eitp_evaluation evaluations[2];
        run r;
        owner b = EITP__ZERO;
        v.micro_batches_per_pass = 3 - passes;
        REQUIRE(write_text(directory));
        expected = train_variant(&v, directory, 4);
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        CHECK(step_many(&r, 2, NULL));
        REQUIRE_OK(open_context(&host, "fp32", &b.context, &error_), error_);
        REQUIRE_OK(eitp_model_share(r.model, b.context, &b.model, &error_), error_);
        CHECK(is_refused(eitp_trainer_step(r.trainer, &report, &error_), "while other contexts borrow it"));
        CHECK(!eitp_trainer_is_inconsistent(r.trainer));
        r.language.model = b.model;
        REQUIRE_OK(eitp_language_task(&r.language, &task, &error_), error_);
        CHECK(is_refused(eitp_trainer_create(&task, &r.config, &trainer, &error_), "no trained parameter"));
        REQUIRE_OK(eitp_evaluate(&r.task, EITP_VALIDATION, 2, 0, &evaluations[0], &error_), error_);
        REQUIRE_OK(eitp_evaluate(&task, EITP_VALIDATION, 2, 0, &evaluations[1], &error_), error_);
        CHECK(evaluations[0].loss > 0 && evaluations[0].loss == evaluations[1].loss);
        eitp_task_release(&task);
        close_owner(&b);
        CHECK(step_many(&r, 2, NULL) && fingerprint(&r) == expected);
        end_run(&r);
    }
}

/* Adapters over borrowed weights can be trained, with the same bits as over the context's own weights. */
static void adapters_over_borrowed_weights_train(void) {
    const eitp_host host = eitp_host_default();
    variant v = default_variant();
    uint32_t expected;
    run lender, r;
    v.dropout = 0;
    REQUIRE(write_text(directory));
    REQUIRE_OK(make_run(&lender, &host, &v, directory, &error_), error_);
    v.lora_rank = 4;
    expected = train_variant(&v, directory, 3);
    r = lender;
    r.context = NULL;
    r.model = NULL;
    r.trainer = NULL;
    REQUIRE_OK(open_context(&host, "fp32", &r.context, &error_), error_);
    REQUIRE_OK(eitp_model_share(lender.model, r.context, &r.model, &error_), error_);
    REQUIRE_OK(add_adapters(r.model, 4, 0, &error_), error_);
    REQUIRE_OK(make_task(&r, &error_), error_);
    REQUIRE_OK(eitp_trainer_create(&r.task, &r.config, &r.trainer, &error_), error_);
    CHECK(step_many(&r, 3, NULL) && fingerprint(&r) == expected);
    eitp_trainer_destroy(r.trainer);
    eitp_task_release(&r.task);
    eitp_model_destroy(r.model);
    eitp_context_destroy(r.context);
    end_run(&lender);
}

/* ---- Adapters, files, estimates ---- */

static void adapters_are_shared_or_of_ones_own(void) {
    const eitp_host host = eitp_host_default();
    char second[512];
    eitp_lora_config lora = eitp_lora_config_default();
    static const char name[] = "transformer.h.0.attn.c_attn.lora_B.weight";
    owner o, b = EITP__ZERO;
    uint32_t sums[2] = {0, 1};
    float value = 0;
    snprintf(second, sizeof second, "%s", scratch_path(directory, "second"));
    REQUIRE_OK(open_owner(&o, &host, "bf16", 4, &error_), error_);
    REQUIRE_OK(eitp_variable_fill(o.context, name, 0.5, &error_), error_);
    REQUIRE_OK(open_context(&host, "bf16", &b.context, &error_), error_);
    REQUIRE_OK(eitp_model_share(o.model, b.context, &b.model, &error_), error_);
    CHECK(eitp_model_lora_config(b.model).rank == 4);
    REQUIRE_OK(eitp_variable_read_f32(b.context, name, 0, &value, 1, &error_), error_);
    CHECK(value == 0.5f && eitp_variable_at(b.context, 0).borrowed && !eitp_variable_at(o.context, 0).borrowed);
    CHECK(is_refused(eitp_model_add_lora(b.model, &lora, &error_), "already has adapters"));
    CHECK(is_refused(eitp_model_merge_lora(b.model, &error_), "is borrowed"));
    CHECK(is_refused(eitp_model_merge_lora(o.model, &error_), "while other contexts borrow it"));
    close_owner(&b);
    close_owner(&o);
    /* Adapters of the borrower, over weights with remainders. Saved files have the same bits as the owner's. */
    REQUIRE_OK(open_owner(&o, &host, "bf16", 0, &error_), error_);
    REQUIRE_OK(open_context(&host, "bf16", &b.context, &error_), error_);
    REQUIRE_OK(eitp_model_share(o.model, b.context, &b.model, &error_), error_);
    REQUIRE_OK(model_file_write(o.model, directory, &sums[0], &error_), error_);
    REQUIRE_OK(model_file_write(b.model, second, &sums[1], &error_), error_);
    CHECK(sums[0] == sums[1]);
    REQUIRE_OK(eitp_model_add_lora(b.model, &lora, &error_), error_);
    REQUIRE_OK(eitp_model_initialize_lora(b.model, 3, &error_), error_);
    CHECK(eitp_model_lora_config(o.model).rank == 0 && eitp_variable_find(o.context, name) < 0);
    CHECK(eitp_model_trained_parameter_count(b.model) == 2 * lora.rank * (WIDTH + 3 * WIDTH));
    CHECK(weight_bytes(b.context) == 2 * 4 * (size_t)lora.rank * (WIDTH + 3 * WIDTH));
    close_owner(&o);
    close_owner(&b);
}

/* Labels, special tokens and dropout of a borrowed model are copies. */
static void everything_but_the_weights_is_copied(void) {
    static const char *const names[] = {"bad", "good"}, *const others[] = {"x", "y"};
    const eitp_host host = eitp_host_default();
    eitp_transformer_config config = shape();
    owner o = EITP__ZERO, b = EITP__ZERO;
    config.head = EITP_HEAD_CLASSIFIER;
    config.labels = 2;
    REQUIRE_OK(open_context(&host, "fp32", &o.context, &error_), error_);
    REQUIRE_OK(eitp_model_create(o.context, &config, &o.model, &error_), error_);
    REQUIRE_OK(eitp_model_initialize(o.model, 1, &error_), error_);
    REQUIRE_OK(eitp_model_set_labels(o.model, names, 2, &error_), error_);
    REQUIRE_OK(open_context(&host, "fp32", &b.context, &error_), error_);
    REQUIRE_OK(eitp_model_share(o.model, b.context, &b.model, &error_), error_);
    REQUIRE_OK(eitp_model_set_labels(o.model, others, 2, &error_), error_);
    eitp_model_set_special_tokens(b.model, 1, 2, 3);
    REQUIRE_OK(eitp_model_set_dropout(b.model, 0.5, 0, 0, &error_), error_);
    CHECK(!strcmp(eitp_model_label(b.model, 1), "good") && !strcmp(eitp_model_label(o.model, 1), "y"));
    CHECK(eitp_model_config(b.model).end.ids[0] == 2 && eitp_model_config(o.model).end.ids[0] != 2);
    CHECK(eitp__model_has_dropout(b.model) && !eitp__model_has_dropout(o.model));
    close_owner(&o);
    CHECK(!strcmp(eitp_model_label(b.model, 0), "bad"));
    close_owner(&b);
}

static eitp_status create_borrowing_task(const void *user, eitp_context *context, eitp_task *task, eitp_error *error) {
    const run *r = (const run *)user;
    const eitp_lora_config lora = eitp_lora_config_default();
    eitp_language_config language = r->language;
    eitp_status status = eitp_model_share(r->model, context, &language.model, error);
    if (!status)
        status = eitp_model_add_lora(language.model, &lora, error);
    return status ? status : eitp_language_task(&language, task, error);
}

/* Estimates and plans count weights only where they are allocated. */
static void borrowed_weights_are_not_counted(void) {
    const eitp_host host = eitp_host_default();
    const variant v = default_variant();
    const eitp_lora_config lora = eitp_lora_config_default();
    eitp_fit fit = eitp_fit_default();
    eitp_fit_candidate candidate = eitp_fit_candidate_default();
    eitp_predictor_config config;
    size_t bytes[2] = {0, 1}, adapters = 0;
    run r;
    owner b = EITP__ZERO;
    eitp_context_config settings = eitp_context_config_default();
    REQUIRE(write_text(directory));
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    fit.context = settings;
    fit.context.threads = 1;
    fit.create_task = create_borrowing_task;
    fit.user = &r;
    fit.trainer = r.config;
    fit.process = 1;
    candidate.micro_batches_per_pass = 1;
    REQUIRE_OK(eitp_fit_measure(&fit, &candidate, &error_), error_);
    settings.plans_only = 1;
    settings.threads = v.threads;
    REQUIRE_OK(eitp_context_create(&settings, &b.context, &error_), error_);
    REQUIRE_OK(eitp_model_share(r.model, b.context, &b.model, &error_), error_);
    config = eitp_predictor_config_default(r.model, r.tokenizer);
    config.prediction = EITP_PREDICT_EMBEDDINGS;
    REQUIRE_OK(eitp_predictor_estimate(r.model, &config, &bytes[0], &error_), error_);
    REQUIRE_OK(eitp_predictor_estimate(b.model, &config, &bytes[1], &error_), error_);
    CHECK(bytes[0] == bytes[1] && weight_bytes(b.context) == 0);
    REQUIRE_OK(eitp_model_add_lora(b.model, &lora, &error_), error_);
    for (size_t i = 0; i < eitp_variable_count(b.context); i++)
        adapters += eitp_variable_at(b.context, i).borrowed ? 0 : eitp_variable_at(b.context, i).size;
    CHECK_THAT(candidate.parameters == adapters, "%zu bytes of parameters, expected %zu", candidate.parameters,
               adapters);
    close_owner(&b);
    end_run(&r);
}

/* ---- Failing allocations ---- */

static eitp_status share_once(faults *borrower, owner *o, eitp_error *error) {
    owner b = EITP__ZERO;
    eitp_status status = open_context(&borrower->host, "bf16", &b.context, error);
    if (!status)
        status = eitp_model_share(o->model, b.context, &b.model, error);
    CHECK(!status == (b.model != NULL));
    if (status && b.context) {
        CHECK(eitp_variable_count(b.context) == 0 && b.context->lender_count == 0);
        /* Nothing of the owner is retained. */
        CHECK(!eitp__segments_are_shared(o->context->segments));
    }
    close_owner(&b);
    return status;
}

static void sharing_survives_failing_allocations(void) {
    const eitp_host host = eitp_host_default();
    owner o;
    REQUIRE_OK(open_owner(&o, &host, "bf16", 4, &error_), error_);
    for (long n = 1;; n++) {
        const float value = 1;
        faults f;
        eitp_status status;
        faults_begin(&f);
        f.fail_allocation = n;
        status = share_once(&f, &o, &error_);
        CHECK_THAT(status == (f.failures ? EITP_ERROR_MEMORY : EITP_OK), "allocation %ld: %s", n, error_.message);
        CHECK(!eitp_variable_write_f32(o.context, "transformer.ln_f.weight", 0, &value, 1, &error_));
        if (!faults_end(&f))
            break;
    }
    close_owner(&o);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(threads_share_one_copy_of_the_weights), TEST(the_last_context_releases_the_weights),
        TEST(shared_weights_cannot_be_changed),      TEST(only_values_in_memory_can_be_shared),
        TEST(a_trainer_waits_for_borrowers),         TEST(adapters_over_borrowed_weights_train),
        TEST(adapters_are_shared_or_of_ones_own),    TEST(everything_but_the_weights_is_copied),
        TEST(borrowed_weights_are_not_counted),      TEST(sharing_survives_failing_allocations),
    };
    int failed;
    CHECK(scratch_make(directory));
    failed = RUN_TESTS(tests, argc, argv);
    scratch_remove(directory);
    return failed;
}
