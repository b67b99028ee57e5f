/* BERT, RoBERTa, DistilBERT and a GPT-2 classifier compared with transformers: hidden states, heads, gradients, and
   files. */
#define GOLDEN "tests/golden/bert/"
#include "tests/support/golden_models.h"

/* ---- Tests ---- */

static const char *const names[] = {
    "bert",        "bert-mlm",       "bert-untied",       "bert-class",       "roberta",
    "roberta-mlm", "roberta-class",  "distilbert-mlm",    "distilbert-class", "gpt2-class",
    "bert-tokens", "roberta-tokens", "distilbert-tokens", "gpt2-tokens",      "roberta-padding",
};

static void models_match_transformers(void) {
    models_match(names, EITP__COUNT(names));
}

static void twenty_steps_match_transformers(void) {
    twenty_steps_match(names, EITP__COUNT(names));
}

/* A saved model has the tensors of the directory from which it was loaded, and gives the same values. */
static void saved_models_are_the_same(void) {
    saved_models_match(names, EITP__COUNT(names));
}

/* Copies a parameter file without the tensor `name`. */
static void copy_without(const char *from, const char *to, const char *name) {
    const eitp_host host = eitp_host_default();
    eitp__safetensors_tensor tensors[100];
    eitp__safetensors_writer *writer;
    eitp__safetensors *file;
    size_t count = 0;
    REQUIRE_OK(eitp__safetensors_open(&host, from, &file, &error_), error_);
    for (size_t i = 0; i < eitp__safetensors_count(file) && count < 100; i++) {
        const eitp__safetensors_entry *entry = eitp__safetensors_at(file, i);
        if (!strcmp(entry->name, name))
            continue;
        tensors[count].name = entry->name;
        tensors[count].dtype = EITP_F32;
        tensors[count].rank = entry->rank;
        memcpy(tensors[count++].shape, entry->shape, sizeof entry->shape);
    }
    CHECK(count + 1 == eitp__safetensors_count(file));
    REQUIRE_OK(eitp__safetensors_begin(&host, to, tensors, count, NULL, 0, NULL, &writer, &error_), error_);
    for (size_t i = 0; i < count; i++) {
        const eitp__safetensors_entry *entry = eitp__safetensors_find(file, tensors[i].name);
        float *values = (float *)malloc((size_t)entry->count * sizeof *values);
        CHECK(!eitp__safetensors_read_f32(file, entry, 0, entry->count, values, NULL, &error_));
        CHECK(!eitp__safetensors_write_f32(writer, i, values, entry->count, NULL, &error_));
        free(values);
    }
    REQUIRE_OK(eitp__safetensors_finish(writer, NULL, &error_), error_);
    eitp__safetensors_close(file);
}

/* The bias of an untied head is also written under the name of a tied head's bias, where transformers looks for it.
   Files without this copy, such as checkpoints of earlier versions, can be read too. */
static void the_bias_of_an_untied_head_is_written_twice(void) {
    static const struct {
        const char *shape, *bias, *copy;
    } cases[] = {
        {"bert-base", "cls.predictions.decoder.bias", "cls.predictions.bias"},
        {"roberta-base", "lm_head.decoder.bias", "lm_head.bias"},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        const eitp_host host = eitp_host_default();
        eitp_context *context = open_context(NULL, "fp32");
        eitp_transformer_config config;
        eitp_model *model;
        eitp__safetensors *file;
        char directory[512], whole[600];
        float bias[23] = {0}, copy[23] = {0};
        eitp__read_sums sums;
        REQUIRE(scratch_make(directory));
        snprintf(whole, sizeof whole, "%s/model.safetensors", directory);
        REQUIRE_OK(eitp_transformer_config_named(cases[i].shape, &config, &error_), error_);
        config.width = config.inner = 8;
        config.heads = config.layers = 1;
        config.vocabulary = 23;
        config.positions = 5;
        config.head = EITP_HEAD_LANGUAGE;
        config.tied = 0;
        REQUIRE_OK(eitp_model_create(context, &config, &model, &error_), error_);
        REQUIRE_OK(eitp_model_initialize(model, 1, &error_), error_);
        CHECK(!eitp_variable_fill_normal(context, cases[i].bias, 0, 1, 3, &error_));
        REQUIRE_OK(eitp_model_save(model, directory, &error_), error_);
        REQUIRE_OK(eitp__safetensors_open(&host, whole, &file, &error_), error_);
        CHECK(
            !eitp__safetensors_read_f32(file, eitp__safetensors_find(file, cases[i].bias), 0, 23, bias, NULL, &error_));
        REQUIRE(eitp__safetensors_find(file, cases[i].copy) != NULL);
        CHECK(
            !eitp__safetensors_read_f32(file, eitp__safetensors_find(file, cases[i].copy), 0, 23, copy, NULL, &error_));
        CHECK(bias[22] != 0 && !memcmp(bias, copy, sizeof bias));
        eitp__safetensors_close(file);
        copy_without(whole, scratch_path(directory, "less"), cases[i].copy);
        CHECK_THAT(!model_file_read(model, whole, EITP__READ_LOAD, &sums, &error_), "%s", error_.message);
        CHECK_THAT(!model_file_read(model, scratch_path(directory, "less"), EITP__READ_LOAD, &sums, &error_), "%s",
                   error_.message);
        copy_without(whole, scratch_path(directory, "less"), cases[i].bias);
        CHECK(model_file_read(model, scratch_path(directory, "less"), EITP__READ_LOAD, &sums, &error_));
        eitp_model_destroy(model);
        eitp_context_destroy(context);
        scratch_remove(directory);
    }
}

/* ---- Heads that differ from those in the files ---- */

/* Loads a golden directory into a model whose configuration is modified by `change`. */
static eitp_status load_changed(golden *g, const char *name, void (*change)(eitp_transformer_config *config),
                                const eitp_load_config *load) {
    const eitp_host host = eitp_host_default();
    eitp_transformer_config config;
    eitp_status status;
    memset(g, 0, sizeof *g);
    g->context = open_context(NULL, "fp32");
    status = eitp_model_config_read(&host, golden_path(name), &config, &error_);
    if (status)
        return status;
    change(&config);
    status = eitp_model_create(g->context, &config, &g->model, &error_);
    warnings = 0;
    *fresh_line = 0;
    return status ? status : eitp_model_load_weights_with(g->model, golden_path(name), load, &error_);
}

static void to_classifier(eitp_transformer_config *config) {
    config->head = EITP_HEAD_CLASSIFIER;
    config->labels = LABELS;
}

static void to_two_labels(eitp_transformer_config *config) {
    to_classifier(config);
    config->labels = 2;
}

static void to_language(eitp_transformer_config *config) {
    config->head = EITP_HEAD_LANGUAGE;
}

static void to_no_head(eitp_transformer_config *config) {
    config->head = EITP_HEAD_NONE;
}

static void to_no_pooler(eitp_transformer_config *config) {
    to_no_head(config);
    config->pooler = 0;
}

/* Root mean square of a variable. */
static double spread(const golden *g, const char *name) {
    int64_t index = eitp_variable_find(g->context, name), count;
    float *values;
    double sum = 0;
    CHECK_THAT(index >= 0, "%s", name);
    if (index < 0)
        return 0;
    count = (int64_t)(eitp_variable_at(g->context, (size_t)index).size / 4);
    values = (float *)malloc((size_t)count * 4);
    CHECK(!eitp_variable_read_f32(g->context, name, 0, values, count, &error_));
    for (int64_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    free(values);
    return sqrt(sum / (double)count);
}

/* Encoders keep their values under any head. A head that the files lack is random, and a log line names its tensors. */
static void heads_that_files_lack_are_random(void) {
    static const struct {
        const char *directory, *expected, *variable;
        void (*change)(eitp_transformer_config *config);
        const char *fresh; /* the end of the line that names random tensors; "": no line */
    } cases[] = {
        {"bert-mlm", "bert-mlm", "classifier.weight", to_classifier,
         "bert-mlm' lacks these parameters, which are random until they are trained: bert.pooler.dense.weight, "
         "bert.pooler.dense.bias, "
         "classifier.weight, classifier.bias"},
        {"bert", "bert", "classifier.weight", to_classifier, "trained: classifier.weight, classifier.bias"},
        {"bert", "bert", "cls.predictions.transform.dense.weight", to_language, "trained: cls.predictions."},
        {"bert-mlm", "bert-mlm", "pooler.dense.weight", to_no_head, "pooler.dense.weight, pooler.dense.bias"},
        {"bert-class", "bert-class", "pooler.dense.weight", to_no_head, ""},
        {"bert-class", "bert-class", "encoder.layer.1.output.dense.weight", to_no_pooler, ""},
        {"roberta", "roberta", "classifier.dense.weight", to_classifier, "trained: classifier.dense.weight, "},
        {"distilbert-mlm", "distilbert-mlm", "pre_classifier.weight", to_classifier,
         "trained: pre_classifier.weight, "},
        {"gpt2-class", "gpt2-class", "transformer.wte.weight", to_language, ""},
    };
    const eitp_load_config load = {5, 0, 0};
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        golden g;
        pass p;
        double size;
        REQUIRE_OK(load_changed(&g, cases[i].directory, cases[i].change, &load), error_);
        CHECK_THAT(!warnings, "%zu: %s", i, last_warning);
        CHECK_THAT(!*cases[i].fresh == !*fresh_line && strstr(fresh_line, cases[i].fresh), "%zu: %s", i, fresh_line);
        size = spread(&g, cases[i].variable);
        CHECK_THAT(!*fresh_line || (size > 0.01 && size < 0.04), "%zu: %s %g", i, cases[i].variable, size);
        CHECK_THAT(*fresh_line || size > 0.1, "%zu: %s %g", i, cases[i].variable, size);
        REQUIRE(open_expected(&g, cases[i].expected));
        REQUIRE(make_pass(&g, &p, 0));
        run_pass(&g, &p);
        check_output(&g, &p, p.hidden, cases[i].directory, "hidden");
        release_pass(&p);
        close_golden(&g);
    }
}

/* A number of labels other than the file's is an error, or on request a fresh head replaces the file's. The label
   names are then not read. */
static void other_labels_need_a_fresh_head(void) {
    static const char *const own[] = {"no", "yes"};
    static const char *const equal[] = {"no", "no"};
    const eitp_load_config keep = {1, 0, 0}, fresh = {1, 1, 0}, adapted = {1, 0, 1};
    golden g;
    CHECK(load_changed(&g, "bert-class", to_two_labels, &keep) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "has 3 labels, expected 2") != NULL, "%s", error_.message);
    close_golden(&g);
    REQUIRE_OK(load_changed(&g, "bert-class", to_two_labels, &fresh), error_);
    CHECK_THAT(warnings == 1 && strstr(last_warning, "the head is not used"), "%s", last_warning);
    CHECK(spread(&g, "classifier.weight") < 0.05 && spread(&g, "bert.pooler.dense.weight") > 0.1);
    CHECK(!strcmp(eitp_model_label(g.model, 1), "LABEL_1") && !eitp_model_label(g.model, 2));
    CHECK(eitp_model_set_labels(g.model, own, 3, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_model_set_labels(g.model, equal, 2, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "two labels are named 'no'") != NULL, "%s", error_.message);
    REQUIRE_OK(eitp_model_set_labels(g.model, own, 2, &error_), error_);
    CHECK(!strcmp(eitp_model_label(g.model, 1), "yes") && !eitp_model_label(g.model, -1));
    close_golden(&g);
    REQUIRE_OK(load_changed(&g, "bert-class", to_two_labels, &adapted), error_);
    CHECK_THAT(!warnings && !*fresh_line, "%s%s", last_warning, fresh_line);
    CHECK(spread(&g, "classifier.weight") < 0.05);
    close_golden(&g);
    REQUIRE_OK(load_changed(&g, "bert-class", to_classifier, &fresh), error_);
    CHECK(spread(&g, "classifier.weight") < 0.05 && !strcmp(eitp_model_label(g.model, 2), "LABEL_2"));
    close_golden(&g);
    REQUIRE(open_model(&g, golden_path("bert"), "bert", NULL));
    CHECK(!eitp_model_label(g.model, 0) && eitp_model_set_labels(g.model, own, 2, &error_) == EITP_ERROR_ARGUMENT);
    close_golden(&g);
}

/* ---- Files ---- */

/* Copies a golden safetensors file and replaces a word of its header by one that is not longer. */
static void copy_renamed(const char *name, const char *target, const char *from, const char *to) {
    const eitp_host host = eitp_host_default();
    const size_t longer = strlen(from), shorter = strlen(to);
    eitp__buffer text;
    char path[200];
    size_t header = 0;
    snprintf(path, sizeof path, GOLDEN "%s/model.safetensors", name);
    eitp__buffer_init(&text, &host);
    REQUIRE_OK(eitp__read_file(&host, path, 1 << 20, &text, &error_), error_);
    memcpy(&header, text.data, 8);
    for (size_t i = 8; i + longer < 8 + header; i++) {
        if (memcmp(text.data + i, from, longer))
            continue;
        memmove(text.data + i + shorter, text.data + i + longer, 8 + header - i - longer);
        memcpy(text.data + i, to, shorter);
        memset(text.data + 8 + header - (longer - shorter), ' ', longer - shorter);
    }
    REQUIRE_OK(eitp__write_file(&host, target, text.data, text.size, &error_), error_);
    eitp__buffer_release(&text);
}

static void copy_config(const char *name, const char *target) {
    const eitp_host host = eitp_host_default();
    eitp__buffer text;
    char path[200];
    snprintf(path, sizeof path, GOLDEN "%s/config.json", name);
    eitp__buffer_init(&text, &host);
    REQUIRE_OK(eitp__read_file(&host, path, 1 << 20, &text, &error_), error_);
    REQUIRE_OK(eitp__write_file(&host, target, text.data, text.size, &error_), error_);
    eitp__buffer_release(&text);
}

/* Names of tensors in older files. */
static void other_names_are_read(void) {
    static const struct {
        const char *directory, *from, *to;
    } cases[] = {
        {"bert-mlm", "LayerNorm.weight\"", "LayerNorm.gamma\""},
        {"bert-mlm", "LayerNorm.bias\"", "LayerNorm.beta\""},
        {"roberta-class", "LayerNorm.weight\"", "LayerNorm.gamma\""},
        {"bert-class", "\"bert.", "\""},
        {"distilbert-mlm", "\"distilbert.", "\""},
        {"gpt2-class", "\"transformer.", "\""},
        {"bert-untied", "cls.predictions.decoder.weight\"", "cls.predictions.decoder.weight\""},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        char directory[512];
        REQUIRE(scratch_make(directory));
        copy_config(cases[i].directory, scratch_path(directory, "config.json"));
        copy_renamed(cases[i].directory, scratch_path(directory, "model.safetensors"), cases[i].from, cases[i].to);
        check_golden(directory, cases[i].directory, NULL);
        scratch_remove(directory);
    }
}

/* A head is damaged if only a part of it is present. */
static void a_part_of_a_head_is_an_error(void) {
    static const struct {
        const char *directory, *from, *to;
    } cases[] = {
        {"roberta-class", "\"classifier.out_proj.bias\"", "\"x\""},
        {"bert-mlm", "\"cls.predictions.bias\"", "\"x\""},
        {"bert-class", "\"bert.pooler.dense.bias\"", "\"x\""},
        {"bert-class", "\"bert.encoder.layer.1.output.dense.bias\"", "\"x\""},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp_context *context = open_context(NULL, "fp32");
        eitp_model *model;
        char directory[512];
        REQUIRE(scratch_make(directory));
        copy_config(cases[i].directory, scratch_path(directory, "config.json"));
        copy_renamed(cases[i].directory, scratch_path(directory, "model.safetensors"), cases[i].from, cases[i].to);
        CHECK(eitp_model_load(context, directory, &model, &error_) == EITP_ERROR_FORMAT && !model);
        CHECK_THAT(strstr(error_.message, "lack tensor") != NULL, "%zu: %s", i, error_.message);
        eitp_context_destroy(context);
        scratch_remove(directory);
    }
}

/* ---- config.json ---- */

static eitp_status read_config(const char *text, eitp_transformer_config *config) {
    const eitp_host host = eitp_host_default();
    eitp_status status;
    char directory[512];
    if (!scratch_make(directory))
        return EITP_ERROR_IO;
    status = eitp__write_file(&host, scratch_path(directory, "config.json"), text, strlen(text), &error_);
    if (!status)
        status = eitp_transformer_config_read(&host, scratch_path(directory, "config.json"), config, &error_);
    scratch_remove(directory);
    return status;
}

/* The class determines the head. The labels come from id2label or num_labels. */
static void configurations_say_the_head(void) {
    static const struct {
        const char *text;
        eitp_head head;
        int labels;
        eitp_problem problem;
    } cases[] = {
        {"{\"model_type\": \"bert\"}", EITP_HEAD_NONE, 2, EITP_PROBLEM_UNKNOWN},
        {"{\"model_type\": \"bert\", \"architectures\": [\"BertForQuestionAnswering\"]}", EITP_HEAD_NONE, 2,
         EITP_PROBLEM_UNKNOWN},
        {"{\"model_type\": \"bert\", \"architectures\": [\"BertForPreTraining\"]}", EITP_HEAD_LANGUAGE, 2,
         EITP_PROBLEM_UNKNOWN},
        {"{\"model_type\": \"roberta\", \"architectures\": [\"RobertaForSequenceClassification\"], \"num_labels\": 5}",
         EITP_HEAD_CLASSIFIER, 5, EITP_PROBLEM_UNKNOWN},
        {"{\"model_type\": \"distilbert\", \"architectures\": [\"DistilBertForSequenceClassification\"], "
         "\"id2label\": {\"1\": \"b\", \"0\": \"a\", \"2\": \"c\"}, \"problem_type\": \"multi_label_classification\"}",
         EITP_HEAD_CLASSIFIER, 3, EITP_PROBLEM_MULTI_LABEL},
        {"{\"model_type\": \"roberta\", \"architectures\": [\"RobertaForTokenClassification\"], \"num_labels\": 9}",
         EITP_HEAD_TOKEN_CLASSIFIER, 9, EITP_PROBLEM_TOKENS},
        {"{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2ForSequenceClassification\"], \"problem_type\": null}",
         EITP_HEAD_CLASSIFIER, 2, EITP_PROBLEM_UNKNOWN},
        {"{\"architectures\": [\"GPT2Model\"]}", EITP_HEAD_LANGUAGE, 2, EITP_PROBLEM_UNKNOWN},
    };
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"{\"model_type\": \"bert\", \"is_decoder\": true}", "unsupported is_decoder true"},
        {"{\"model_type\": \"bert\", \"position_embedding_type\": \"relative_key\"}", "position_embedding_type"},
        {"{\"model_type\": \"bert\", \"problem_type\": \"ranking\"}", "unsupported problem_type 'ranking'"},
        {"{\"model_type\": \"bert\", \"id2label\": [\"a\"]}", "id2label must be an object"},
        {"{\"model_type\": \"bert\", \"num_labels\": 0}", "num_labels"},
        {"{\"model_type\": \"roberta\", \"max_position_embeddings\": 2}", "must be 3 or more"},
        {"{\"model_type\": \"roberta\", \"pad_token_id\": 600}", "must be 602 or more"},
    };
    eitp_transformer_config config;
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        REQUIRE_OK(read_config(cases[i].text, &config), error_);
        CHECK_THAT(config.head == cases[i].head && config.labels == cases[i].labels &&
                       config.problem == cases[i].problem,
                   "%zu: head %d, labels %d, problem %d", i, (int)config.head, (int)config.labels, (int)config.problem);
    }
    for (size_t i = 0; i < EITP__COUNT(bad); i++) {
        CHECK_THAT(read_config(bad[i].text, &config) != EITP_OK, "%s", bad[i].text);
        CHECK_THAT(strstr(error_.message, bad[i].words) != NULL, "%s: %s", bad[i].text, error_.message);
    }
    REQUIRE_OK(read_config("{\"model_type\": \"roberta\", \"max_position_embeddings\": 514, \"pad_token_id\": 4, "
                           "\"hidden_dropout_prob\": 0.3}",
                           &config),
               error_);
    CHECK(config.positions == 509 && config.first_position == 5);
    CHECK(config.embedding_dropout > 0.29 && config.residual_dropout > 0.29 && config.classifier_dropout > 0.29);
}

/* Label numbers other than 0 to n - 1 are an error in the directory. */
static void label_numbers_are_checked(void) {
    static const char *const bad[] = {"{\"0\": \"a\", \"2\": \"b\"}",  "{\"0\": \"a\", \"x\": \"b\"}",
                                      "{\"0\": \"a\", \"00\": \"b\"}", "{\"0\": \"a\", \"1\": 7}",
                                      "{\"0\": \"a\", \"1\": \"a\"}",  "{\"0\": \"a\", \"1\": \"b\\u0000\"}"};
    const eitp_host host = eitp_host_default();
    for (size_t i = 0; i < EITP__COUNT(bad); i++) {
        eitp_context *context = open_context(NULL, "fp32");
        eitp_json_document *document;
        eitp__labels *labels;
        char text[200];
        snprintf(text, sizeof text, "{\"id2label\": %s}", bad[i]);
        REQUIRE_OK(eitp_json_parse(&host, text, strlen(text), &document, &error_), error_);
        CHECK_THAT(eitp__labels_read(&host, eitp_json_root(document), &labels, &error_) != EITP_OK, "%s", bad[i]);
        CHECK_THAT(strstr(error_.message, "label") && !labels, "%s: %s", bad[i], error_.message);
        eitp_json_release(document);
        eitp_context_destroy(context);
    }
}

/* Named shapes have the published numbers of parameters. */
static void named_shapes_have_their_size(void) {
    static const struct {
        const char *name;
        int64_t positions, parameters;
    } cases[] = {
        {"bert-base", 512, 109514298},     {"bert-large", 512, 335174458},     {"roberta-base", 512, 124697433},
        {"roberta-large", 512, 355412057}, {"distilbert-base", 512, 66985530}, {"minilm", 512, 22744506},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp_transformer_config config;
        int64_t count = 0;
        REQUIRE_OK(eitp_transformer_config_named(cases[i].name, &config, &error_), error_);
        for (int64_t k = 0; k < eitp__parameter_count(&config); k++) {
            const eitp__parameter parameter = eitp__parameter_at(&config, k);
            count += eitp__parameter_elements(&parameter);
        }
        CHECK_THAT(config.positions == cases[i].positions && count == cases[i].parameters, "%s: %lld parameters",
                   cases[i].name, (long long)count);
    }
}

/* Calling a head that the model lacks is an error that names the head. */
static void missing_doors_are_errors(void) {
    static const char *const directories[] = {"bert-class", "bert-mlm", "distilbert-mlm"};
    static const char *const words[] = {"no language head", "no classifier", "no pooler"};
    for (size_t i = 0; i < EITP__COUNT(words); i++) {
        eitp_tensor *hidden, *y;
        golden g;
        pass p;
        REQUIRE(open_model(&g, golden_path(directories[i]), directories[i], NULL));
        REQUIRE_OK(eitp_graph_create(g.context, &p.graph, &error_), error_);
        p.inputs = eitp_model_inputs_create(p.graph, SEQUENCES, LONGEST, 0);
        hidden = eitp_model_hidden(g.model, p.graph, &p.inputs, LONGEST);
        y = i == 0   ? eitp_model_logits(g.model, hidden)
            : i == 1 ? eitp_model_scores(g.model, hidden, &p.inputs)
                     : eitp_model_pooled(g.model, hidden, &p.inputs);
        CHECK(!y && eitp_graph_status(p.graph, &error_) == EITP_ERROR_ARGUMENT);
        CHECK_THAT(strstr(error_.message, words[i]) != NULL, "%s", error_.message);
        eitp_graph_destroy(p.graph);
        close_golden(&g);
    }
}

/* Classifiers apply dropout at the same places as transformers, with the key of samples. */
static void classifiers_drop_out(void) {
    static const struct {
        const char *directory;
        int dropouts;
    } cases[] = {{"bert-class", 1}, {"roberta-class", 2}, {"distilbert-class", 1}, {"gpt2-class", 0}};
    const int64_t three = 3;
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        int count = 0;
        golden g;
        pass p;
        REQUIRE(open_model(&g, golden_path(cases[i].directory), cases[i].directory, NULL));
        g.model->config.classifier_dropout = cases[i].dropouts ? 0.2 : 0;
        CHECK(!eitp__model_has_dropout(g.model) == !cases[i].dropouts);
        REQUIRE_OK(eitp_graph_create(g.context, &p.graph, &error_), error_);
        p.inputs = eitp_model_inputs_create(p.graph, SEQUENCES, LONGEST, 1);
        p.inputs.sample_key = eitp_input(p.graph, "sample key", EITP_I64, 1, &three);
        CHECK(eitp_model_scores(g.model, eitp_model_hidden(g.model, p.graph, &p.inputs, LONGEST), &p.inputs) != NULL);
        for (size_t n = 0; n < p.graph->node_count; n++)
            count += p.graph->nodes[n]->op == EITP__OP_DROPOUT && p.graph->nodes[n]->inputs[1] == p.inputs.sample_key;
        CHECK_THAT(count == cases[i].dropouts, "%s: %d", cases[i].directory, count);
        eitp_graph_destroy(p.graph);
        close_golden(&g);
    }
}

/* Token classifiers use the key of rows. In DistilBERT and GPT-2 they use the blocks' dropout. */
static void token_classifiers_drop_out(void) {
    static const struct {
        const char *directory;
        int as_blocks;
    } cases[] = {{"bert-tokens", 0}, {"roberta-tokens", 0}, {"distilbert-tokens", 1}, {"gpt2-tokens", 1}};
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        golden g;
        pass p;
        REQUIRE(open_model(&g, golden_path(cases[i].directory), cases[i].directory, NULL));
        for (int as_blocks = 0; as_blocks < 2; as_blocks++) {
            eitp_tensor *hidden;
            int count = 0;
            g.model->config.classifier_dropout = as_blocks ? 0 : 0.2;
            g.model->config.residual_dropout = as_blocks ? 0.2 : 0;
            REQUIRE_OK(eitp_graph_create(g.context, &p.graph, &error_), error_);
            p.inputs = eitp_model_inputs_create(p.graph, SEQUENCES, LONGEST, 1);
            hidden = eitp_model_hidden(g.model, p.graph, &p.inputs, LONGEST);
            CHECK(eitp_model_token_scores(g.model, hidden, &p.inputs) != NULL);
            for (size_t n = 0; n < p.graph->node_count; n++)
                count += p.graph->nodes[n]->op == EITP__OP_DROPOUT && p.graph->nodes[n]->inputs[0] == hidden &&
                         p.graph->nodes[n]->inputs[1] == p.inputs.key;
            CHECK_THAT(count == (as_blocks == cases[i].as_blocks), "%s: %d", cases[i].directory, count);
            CHECK(eitp_model_scores(g.model, hidden, &p.inputs) == NULL);
            CHECK(eitp_graph_status(p.graph, &error_) == EITP_ERROR_ARGUMENT &&
                  strstr(error_.message, "has no classifier"));
            eitp_graph_destroy(p.graph);
        }
        close_golden(&g);
    }
}

/* ---- Adapters ---- */

/* Returns the hidden states of the golden batch and the outputs of the head or the pooler for them. The caller frees
   them. */
static float *outputs_of(golden *g, int64_t *count) {
    const int64_t states = ROWS * eitp_model_config(g->model).width;
    float *values = NULL;
    pass p;
    *count = 0;
    if (make_pass(g, &p, 0)) {
        eitp_tensor *last = p.head ? p.head : p.pooled;
        const int64_t others = last ? eitp_tensor_dimension(last, 0) * eitp_tensor_dimension(last, 1) : 0;
        const int64_t read = last == p.head && others > ROWS ? others / (SEQUENCES * LONGEST) * ROWS : others;
        run_pass(g, &p);
        *count = states + read;
        values = (float *)malloc((size_t)*count * sizeof *values);
        CHECK(!eitp_plan_read(p.plan, p.hidden, values, (size_t)states * sizeof *values, &error_));
        CHECK_THAT(!last || !eitp_plan_read(p.plan, last, values + states, (size_t)read * sizeof *values, &error_),
                   "%s", error_.message);
    }
    release_pass(&p);
    return values;
}

/* Fills B of all adapters, and the classifier, with random values. */
static void fill_adapters(golden *g) {
    for (size_t i = 0; i < eitp_variable_count(g->context); i++) {
        const eitp_variable variable = eitp_variable_at(g->context, i);
        if (strstr(variable.name, ".lora_") || strstr(variable.name, "classifier."))
            CHECK(!eitp_variable_fill_normal(g->context, variable.name, 0, 0.3, 9, &error_));
    }
}

static int add_adapters(golden *g, const char *targets) {
    const eitp_transformer_config config = eitp_model_config(g->model);
    eitp_lora_config lora = eitp_lora_config_default();
    lora.rank = 2;
    if (eitp_lora_targets_parse(config.architecture, targets, &lora, &error_) ||
        eitp_model_add_lora(g->model, &lora, &error_)) {
        printf("    %s\n", error_.message);
        return 0;
    }
    fill_adapters(g);
    return 1;
}

/* Adapters of separate q, k and v have PEFT's names, are read back unchanged, and merge into the weights. */
static void adapters_have_the_names_of_peft(void) {
    static const struct {
        const char *directory, *targets;
        unsigned bits;
        const char *first;
        int tensors; /* tensors of adapters and classifier */
    } cases[] = {
        {"bert-class", "query,value", 16 + 64,
         "base_model.model.bert.encoder.layer.0.attention.self.query.lora_A.weight", 2 * 4 + 2},
        {"roberta-class", "value", 64, "base_model.model.roberta.encoder.layer.0.attention.self.value.lora_B.weight",
         2 + 4},
        {"bert-tokens", "query,value", 16 + 64,
         "base_model.model.bert.encoder.layer.0.attention.self.query.lora_A.weight", 4 + 2},
        {"distilbert-mlm", "k_lin,lin2", 32 + 8,
         "base_model.model.distilbert.transformer.layer.0.attention.k_lin.lora_A.weight", 4},
        {"bert", "key,dense", 32 + 2 + 4 + 8 + EITP_LORA_POOLER, "base_model.model.pooler.dense.lora_B.weight", 10},
        {"bert-mlm", "all-linear", 16 + 32 + 64 + 2 + 4 + 8 + EITP_LORA_HEAD_TRANSFORM,
         "base_model.model.cls.predictions.transform.dense.lora_A.weight", 14},
        {"bert-class", "pooler.dense", EITP_LORA_POOLER, "base_model.model.bert.pooler.dense.lora_A.weight", 2 + 2},
        {"roberta-mlm", "dense", 2 + 4 + 8 + EITP_LORA_HEAD_TRANSFORM, "base_model.model.lm_head.dense.lora_A.weight",
         8},
        {"roberta-class", "all-linear", 16 + 32 + 64 + 2 + 4 + 8,
         "base_model.model.roberta.encoder.layer.0.output.dense.lora_A.weight", 12 + 4},
        {"bert-class", "layer.0.attention.self.query,bert.encoder.layer.1.output.dense,pooler.dense", EITP_LORA_POOLER,
         "base_model.model.bert.encoder.layer.1.output.dense.lora_A.weight", 6 + 2},
        {"distilbert-mlm", "transformer.layer.0.attention.q_lin,vocab_transform", 16 + EITP_LORA_HEAD_TRANSFORM,
         "base_model.model.distilbert.transformer.layer.0.attention.q_lin.lora_A.weight", 4},
        {"distilbert-mlm", "vocab_transform", EITP_LORA_HEAD_TRANSFORM,
         "base_model.model.vocab_transform.lora_B.weight", 2},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        const eitp_host host = eitp_host_default();
        golden g, other;
        char directory[512];
        eitp__safetensors *file;
        float *plain, *adapted, *loaded, *merged;
        int64_t count;
        REQUIRE(scratch_make(directory));
        REQUIRE(open_model(&g, golden_path(cases[i].directory), cases[i].directory, NULL));
        plain = outputs_of(&g, &count);
        REQUIRE(add_adapters(&g, cases[i].targets));
        CHECK_THAT(eitp_model_lora_config(g.model).targets == cases[i].bits, "%zu: %u", i,
                   eitp_model_lora_config(g.model).targets);
        adapted = outputs_of(&g, &count);
        CHECK_THAT(relative_error(adapted, plain, count) > 0.01, "%zu: %g", i, relative_error(adapted, plain, count));
        REQUIRE_OK(eitp_lora_save(g.model, directory, "base", &error_), error_);
        REQUIRE_OK(eitp__safetensors_open(&host, scratch_path(directory, "adapter_model.safetensors"), &file, &error_),
                   error_);
        CHECK_THAT(eitp__safetensors_find(file, cases[i].first) != NULL, "%zu: no %s", i, cases[i].first);
        CHECK_THAT((int)eitp__safetensors_count(file) == cases[i].tensors, "%zu: %zu tensors", i,
                   eitp__safetensors_count(file));
        eitp__safetensors_close(file);
        REQUIRE(open_model(&other, golden_path(cases[i].directory), cases[i].directory, NULL));
        REQUIRE_OK(eitp_lora_load(other.model, directory, &error_), error_);
        loaded = outputs_of(&other, &count);
        CHECK(!memcmp(loaded, adapted, (size_t)count * 4));
        CHECK(!eitp_head_has_labels(g.model->config.head) ||
              spread(&other, eitp__row_find(&other.model->config, EITP__CLASSIFIER, EITP__WEIGHT)->name) ==
                  spread(&g, eitp__row_find(&g.model->config, EITP__CLASSIFIER, EITP__WEIGHT)->name));
        REQUIRE_OK(eitp_model_merge_lora(g.model, &error_), error_);
        merged = outputs_of(&g, &count);
        CHECK_THAT(relative_error(merged, adapted, count) < 1e-5, "%zu: %g", i, relative_error(merged, adapted, count));
        free(plain);
        free(adapted);
        free(loaded);
        free(merged);
        close_golden(&g);
        close_golden(&other);
        scratch_remove(directory);
    }
}

/* With adapters, the classifier is the only trained part of the base. */
static void classifiers_stay_trained_with_adapters(void) {
    golden g;
    int64_t width, rank = 2, adapters;
    REQUIRE(open_model(&g, golden_path("roberta-class"), "roberta-class", NULL));
    REQUIRE(add_adapters(&g, "query,value"));
    width = eitp_model_config(g.model).width;
    adapters = eitp_model_config(g.model).layers * 2 * 2 * rank * width;
    CHECK_THAT(eitp_model_trained_parameter_count(g.model) ==
                   adapters + width * width + width + width * LABELS + LABELS,
               "%lld", (long long)eitp_model_trained_parameter_count(g.model));
    close_golden(&g);
}

/* Layers whose name is a suffix of another layer's name are written with their blocks. */
static void layers_are_named_alone(void) {
    const eitp_host host = eitp_host_default();
    eitp_lora_config lora = eitp_lora_config_default();
    eitp_transformer_config deep;
    char directory[512];
    eitp__buffer text;
    golden g, other;
    REQUIRE(scratch_make(directory));
    REQUIRE(open_model(&g, golden_path("bert-class"), "bert-class", NULL));
    REQUIRE(open_model(&other, golden_path("bert-class"), "bert-class", NULL));
    lora.targets = EITP_LORA_MLP_OUTPUT | EITP_LORA_QUERY | EITP_LORA_POOLER;
    REQUIRE_OK(eitp_model_add_lora(g.model, &lora, &error_), error_);
    REQUIRE_OK(eitp_model_initialize_lora(g.model, 1, &error_), error_);
    REQUIRE_OK(eitp_lora_save(g.model, directory, "base", &error_), error_);
    eitp__buffer_init(&text, &host);
    REQUIRE_OK(eitp__read_file(&host, scratch_path(directory, "adapter_config.json"), 1 << 16, &text, &error_), error_);
    CHECK_THAT(strstr(text.data,
                      "[\"pooler.dense\", \"encoder.layer.0.attention.self.query\", \"encoder.layer.0.output.dense\", "
                      "\"encoder.layer.1.attention.self.query\", \"encoder.layer.1.output.dense\"]"),
               "%s", text.data);
    eitp__buffer_release(&text);
    REQUIRE_OK(eitp_lora_load(other.model, directory, &error_), error_);
    CHECK(eitp__lora_configs_equal(&g.model->lora, &other.model->lora));
    close_golden(&other);
    /* With too many blocks they cannot be written. */
    deep = eitp_model_config(g.model);
    deep.layers = EITP_LORA_BLOCKS + 1;
    REQUIRE_OK(eitp__lora_find_layers(&deep, &lora, &error_), error_);
    CHECK(eitp__lora_config_write(&host, scratch_path(directory, "deep.json"), &deep, &lora, NULL, &error_) ==
          EITP_ERROR_UNSUPPORTED);
    CHECK_THAT(strstr(error_.message, "also names others") != NULL, "%s", error_.message);
    close_golden(&g);
    scratch_remove(directory);
}

/* Adapters of layers that a model lacks are errors. */
static void other_adapters_are_errors(void) {
    golden g;
    eitp_lora_config lora = eitp_lora_config_default();
    REQUIRE(open_model(&g, golden_path("gpt2-class"), "gpt2-class", NULL));
    lora.targets = EITP_LORA_QUERY;
    CHECK(eitp_model_add_lora(g.model, &lora, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "for gpt2 (allowed mask 15)") != NULL, "%s", error_.message);
    close_golden(&g);
    REQUIRE(open_model(&g, golden_path("bert-mlm"), "bert-mlm", NULL));
    lora.targets = EITP_LORA_POOLER;
    CHECK(eitp_model_add_lora(g.model, &lora, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "for this bert model (allowed mask") != NULL, "%s", error_.message);
    close_golden(&g);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(models_match_transformers),
        TEST(twenty_steps_match_transformers),
        TEST(saved_models_are_the_same),
        TEST(the_bias_of_an_untied_head_is_written_twice),
        TEST(heads_that_files_lack_are_random),
        TEST(other_labels_need_a_fresh_head),
        TEST(other_names_are_read),
        TEST(a_part_of_a_head_is_an_error),
        TEST(configurations_say_the_head),
        TEST(label_numbers_are_checked),
        TEST(named_shapes_have_their_size),
        TEST(missing_doors_are_errors),
        TEST(classifiers_drop_out),
        TEST(token_classifiers_drop_out),
        TEST(adapters_have_the_names_of_peft),
        TEST(classifiers_stay_trained_with_adapters),
        TEST(layers_are_named_alone),
        TEST(other_adapters_are_errors),
    };
    return RUN_TESTS(tests, argc, argv);
}
