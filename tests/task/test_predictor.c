/* Predictors: values in the order of the input, alone and in a batch, pooling, truncation, and memory. */
#include "tests/support/everything.h"

#include "tests/support/faults.h"
#include "tests/support/test.h"

enum { TEXTS = 60, LABELS = 3, WIDTH = 24, POSITIONS = 40 };

static eitp_error error_;
static char directory[512];

static const char *at(const char *name) {
    return scratch_path(directory, name);
}

static void put(const char *name, const char *text) {
    const eitp_host host = eitp_host_default();
    CHECK_THAT(!eitp__write_file(&host, at(name), text, strlen(text), &error_), "%s", error_.message);
}

/* ---- Models and input ---- */

static const char *const words[] = {"one", "two", "three", "four", "five", "six", "seven"};

static void make_words(void) {
    const eitp_host host = eitp_host_default();
    char text[400] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (size_t i = 0; i < EITP__COUNT(words); i++) {
        strcat(text, words[i]);
        strcat(text, "\n");
    }
    CHECK(!eitp__make_directories(&host, at("words"), &error_));
    put("words/vocab.txt", text);
    put("words/tokenizer_config.json", "{\"tokenizer_class\": \"BertTokenizer\", \"model_max_length\": 32}");
}

typedef struct subject {
    eitp_context *context;
    eitp_model *model;
    eitp_tokenizer *tokenizer;
    eitp_predictor_config config;
} subject;

/* Returns the shape of kind 0, GPT-2, 1, BERT, or 2, RoBERTa, whose padding is also [PAD]. */
static eitp_transformer_config shape(int kind, eitp_head head) {
    static const char *const named[] = {"tiny", "minilm", "roberta-base"};
    eitp_transformer_config config;
    CHECK(!eitp_transformer_config_named(named[kind], &config, &error_));
    config.vocabulary = kind ? 12 : 257;
    config.first_position = kind == 2;
    config.positions = POSITIONS;
    config.width = WIDTH;
    config.heads = 3;
    config.layers = 2;
    config.inner = 40;
    config.head = head;
    config.labels = LABELS;
    config.initializer_range = 0.3;
    return config;
}

static eitp_status open_subject(subject *s, const eitp_host *host, const eitp_transformer_config *config,
                                const char *precision, eitp_error *error) {
    eitp_context_config context = eitp_context_config_default();
    eitp_status status;
    memset(s, 0, sizeof *s);
    context.host = *host;
    context.threads = 2;
    context.precision = precision;
    context.products = "own";
    status = eitp_context_create(&context, &s->context, error);
    if (!status)
        status = eitp_model_create(s->context, config, &s->model, error);
    if (!status)
        status = eitp_model_initialize(s->model, 7, error);
    if (!status)
        status = config->segments ? eitp_tokenizer_load(host, at("words"), &s->tokenizer, error)
                                  : eitp_tokenizer_create_bytes(host, &s->tokenizer, error);
    s->config = eitp_predictor_config_default(s->model, s->tokenizer);
    return status;
}

static void close_subject(subject *s) {
    eitp_model_destroy(s->model);
    eitp_tokenizer_destroy(s->tokenizer);
    eitp_context_destroy(s->context);
}

static int make_subject(subject *s, int kind, eitp_head head, const char *precision) {
    const eitp_host host = eitp_host_default();
    const eitp_transformer_config config = shape(kind, head);
    eitp_status status = open_subject(s, &host, &config, precision, &error_);
    CHECK_THAT(!status, "%s", error_.message);
    return !status;
}

static char contents[2 * TEXTS][400];
static eitp_text_pair texts[TEXTS];

static unsigned noise(unsigned a, unsigned b) {
    unsigned state = (a + 1) * 747796405u + b * 2891336453u;
    state = (state ^ (state >> 13)) * 277803737u;
    return state >> 8;
}

static eitp_text compose(int number, int most) {
    char *text = contents[number];
    const int count = (int)(noise((unsigned)number, 0) % (unsigned)most);
    eitp_text composed;
    *text = 0;
    for (int i = 0; i < count; i++) {
        strcat(text, words[noise((unsigned)number, (unsigned)i + 1) % EITP__COUNT(words)]);
        strcat(text, " ");
    }
    composed.bytes = text;
    composed.size = strlen(text);
    return composed;
}

/* Makes text pairs of 0 to 30 words. Every third has a second text if `with_pairs` is set. */
static void make_texts(int with_pairs) {
    for (int i = 0; i < TEXTS; i++) {
        texts[i].first = compose(i, 31);
        texts[i].second = compose(TEXTS + i, 20);
        if (i % 3 || !with_pairs)
            texts[i].second.bytes = NULL;
    }
}

/* Predicts the values of text pairs, or returns NULL on failure. The caller frees the result. */
static float *predict(const subject *s, const eitp_text_pair *given, int64_t count, eitp_prediction_report *report) {
    eitp_predictor *predictor = NULL;
    float *values = NULL;
    if (!eitp_predictor_create(s->model, s->tokenizer, &s->config, &predictor, &error_)) {
        const size_t bytes = (size_t)(count * eitp_predictor_width(predictor)) * sizeof *values;
        values = (float *)malloc(bytes);
        memset(values, 0xa5, bytes);
        if (eitp_predict(predictor, given, count, values, report, &error_)) {
            free(values);
            values = NULL;
        }
    }
    eitp_predictor_destroy(predictor);
    return values;
}

/* ---- Order, alone and in a batch ---- */

static void check_alone(subject *s, const char *what) {
    eitp_prediction_report report;
    const size_t bytes = (size_t)(s->config.prediction == EITP_PREDICT_SCORES ? LABELS : WIDTH) * sizeof(float);
    float *together = predict(s, texts, TEXTS, &report);
    CHECK_THAT(together != NULL, "%s: %s", what, error_.message);
    CHECK(report.passes > 1);
    for (int i = 0; i < TEXTS && together; i++) {
        float *alone = predict(s, &texts[i], 1, &report);
        CHECK(report.passes == 1);
        CHECK_THAT(alone && !memcmp(alone, together + (size_t)i * bytes / sizeof(float), bytes), "%s: text %d", what,
                   i);
        free(alone);
    }
    free(together);
}

static void alone_as_in_a_batch(void) {
    static const char *const precisions[] = {"fp32", "bf16"};
    for (int i = 0; i < 8; i++) {
        const int is_bert = i & 1, scores = i & 2;
        char what[100];
        subject s;
        if (!make_subject(&s, is_bert, scores ? EITP_HEAD_CLASSIFIER : EITP_HEAD_LANGUAGE, precisions[i / 4]))
            return;
        make_texts(1);
        s.config.prediction = scores ? EITP_PREDICT_SCORES : EITP_PREDICT_EMBEDDINGS;
        s.config.pass_tokens = 150;
        snprintf(what, sizeof what, "%s, %s, %s", is_bert ? "bert" : "gpt2", scores ? "scores" : "embeddings",
                 precisions[i / 4]);
        check_alone(&s, what);
        close_subject(&s);
    }
}

static void passes_of_any_size(void) {
    subject s;
    float *expected, *values;
    if (!make_subject(&s, 1, EITP_HEAD_CLASSIFIER, "fp32"))
        return;
    make_texts(1);
    expected = predict(&s, texts, TEXTS, NULL);
    for (int64_t tokens = 32; tokens < 3000 && expected; tokens = 2 * tokens + 1) {
        s.config.pass_tokens = tokens;
        values = predict(&s, texts, TEXTS, NULL);
        CHECK(values && !memcmp(values, expected, sizeof *values * TEXTS * LABELS));
        free(values);
    }
    free(expected);
    close_subject(&s);
}

/* Several calls of one predictor, also without input. Messages number the input of all calls. */
static void given_in_parts(void) {
    eitp_text_pair nothing = EITP__ZERO;
    subject s;
    eitp_predictor *predictor = NULL;
    float *expected, values[TEXTS * LABELS];
    if (!make_subject(&s, 0, EITP_HEAD_CLASSIFIER, "fp32"))
        return;
    make_texts(0);
    expected = predict(&s, texts, TEXTS, NULL);
    CHECK(!eitp_predictor_create(s.model, s.tokenizer, &s.config, &predictor, &error_));
    for (int i = 0; i < TEXTS; i += 7)
        CHECK(!eitp_predict(predictor, texts + i, TEXTS - i < 7 ? TEXTS - i : 7, values + i * LABELS, NULL, &error_));
    CHECK(!eitp_predict(predictor, NULL, 0, NULL, NULL, &error_));
    CHECK(expected && !memcmp(values, expected, sizeof values));
    nothing.first.size = 1;
    CHECK(eitp_predict(predictor, &nothing, 1, values, NULL, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "text 61: ") == error_.message, "%s", error_.message);
    eitp_predictor_destroy(predictor);
    free(expected);
    close_subject(&s);
}

/* ---- Pooling ---- */

/* Computes the hidden states of one sequence in a separate graph. */
static void compute_hidden(const subject *s, const int32_t *ids, int64_t count, float *hidden) {
    const int32_t offsets[] = {0, (int32_t)count};
    int32_t positions[POSITIONS];
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_model_inputs inputs;
    eitp_tensor *output;
    const size_t bytes = (size_t)count * sizeof *ids;
    eitp_model_fill_positions(s->model, ids, count, positions);
    CHECK(!eitp_graph_create(s->context, &graph, &error_));
    inputs = eitp_model_inputs_create(graph, 1, POSITIONS, 0);
    output = eitp_output(eitp_model_hidden(s->model, graph, &inputs, POSITIONS));
    CHECK(!eitp_plan_create(graph, &plan, &error_));
    CHECK(!eitp_plan_set_rows(plan, count, &error_));
    CHECK(!eitp_plan_write(plan, inputs.tokens, ids, bytes, &error_));
    CHECK(!eitp_plan_write(plan, inputs.positions, positions, bytes, &error_));
    CHECK(!eitp_plan_write(plan, inputs.offsets, offsets, sizeof offsets, &error_));
    CHECK(!eitp_plan_execute(plan, &error_));
    CHECK(!eitp_plan_read(plan, output, hidden, (size_t)count * WIDTH * sizeof *hidden, &error_));
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
}

static double pooled(eitp_embedding_pooling pooling, const float *hidden, int64_t count, int64_t i) {
    double sum = 0, largest = -HUGE_VAL;
    for (int64_t row = 0; row < count; row++) {
        sum += (double)hidden[row * WIDTH + i];
        largest = fmax(largest, (double)hidden[row * WIDTH + i]);
    }
    return pooling == EITP_EMBEDDING_MEAN    ? sum / (double)count
           : pooling == EITP_EMBEDDING_FIRST ? (double)hidden[i]
           : pooling == EITP_EMBEDDING_MAX   ? largest
           : pooling == EITP_EMBEDDING_LAST  ? (double)hidden[(count - 1) * WIDTH + i]
                                             : sum / sqrt((double)count);
}

static void check_pooling(const subject *s, const float *hidden, int64_t count) {
    const float *value = NULL;
    double expected[WIDTH], norm = 0;
    float *values = predict(s, texts, TEXTS, NULL);
    CHECK_THAT(values != NULL, "%s", error_.message);
    for (int64_t i = 0; i < WIDTH; i++) {
        expected[i] = pooled(s->config.pooling, hidden, count, i);
        norm += expected[i] * expected[i];
    }
    norm = s->config.normalize ? sqrt(norm) : 1;
    value = values ? values + 5 * WIDTH : NULL;
    for (int64_t i = 0; i < WIDTH && value; i++)
        CHECK_THAT(fabs((double)value[i] - expected[i] / norm) < 1e-6 * (1 + fabs(expected[i])),
                   "pooling %d, normalize %d, %d: %g, not %g", (int)s->config.pooling, s->config.normalize, (int)i,
                   (double)value[i], expected[i] / norm);
    free(values);
}

/* RoBERTa also gets padding tokens, which have no position. */
static void poolings(void) {
    static const char padded[] = "one two [PAD] three [PAD] [PAD] four";
    for (int kind = 0; kind < 3; kind++) {
        int32_t ids[POSITIONS];
        float hidden[POSITIONS * WIDTH];
        eitp_sequence_config cut = eitp_sequence_config_default();
        eitp_sequence_report report;
        subject s;
        if (!make_subject(&s, kind, kind ? EITP_HEAD_NONE : EITP_HEAD_LANGUAGE, "fp32"))
            return;
        make_texts(0);
        if (kind == 2) {
            texts[5].first.bytes = padded;
            texts[5].first.size = sizeof padded - 1;
        }
        s.config.prediction = EITP_PREDICT_EMBEDDINGS;
        cut.max_length = (int32_t)s.config.max_length;
        CHECK(!eitp_tokenizer_encode_sequence(s.tokenizer, &texts[5].first, NULL, &cut, ids, NULL, POSITIONS, &report,
                                              &error_));
        CHECK(report.count > 3 && (kind != 2 || (ids[3] == 0 && ids[5] == 0)));
        compute_hidden(&s, ids, (int64_t)report.count, hidden);
        for (int i = 0; i < 2 * EITP_EMBEDDING_POOLING_COUNT; i++) {
            s.config.pooling = (eitp_embedding_pooling)(i / 2);
            s.config.normalize = i % 2;
            check_pooling(&s, hidden, (int64_t)report.count);
        }
        close_subject(&s);
    }
}

/* ---- Sequences ---- */

static eitp_text_pair text_of(const char *first, const char *second) {
    eitp_text_pair pair = EITP__ZERO;
    pair.first.bytes = first;
    pair.first.size = strlen(first);
    pair.second.bytes = second;
    pair.second.size = second ? strlen(second) : 0;
    return pair;
}

/* True if two text pairs have the same values. */
static int alike(const subject *s, const eitp_text_pair *two, eitp_prediction_report *report) {
    const size_t width = s->config.prediction == EITP_PREDICT_SCORES ? LABELS : WIDTH;
    float *values = predict(s, two, 2, report);
    const int equal = values && !memcmp(values, values + width, width * sizeof *values);
    CHECK_THAT(values != NULL, "%s", error_.message);
    free(values);
    return equal;
}

static void long_texts_are_cut(void) {
    eitp_text_pair two[2];
    eitp_prediction_report report;
    subject s;
    if (!make_subject(&s, 1, EITP_HEAD_CLASSIFIER, "fp32"))
        return;
    CHECK(s.config.max_length == 32); /* the tokenizer's limit, not the model's */
    s.config.max_length = 6;
    two[0] = text_of("one two three four five six seven", NULL);
    two[1] = text_of("one two three four", NULL);
    CHECK(alike(&s, two, &report) && report.cut == 1 && report.tokens == 12);
    s.config.truncate_left = 1;
    CHECK(!alike(&s, two, &report) && report.cut == 1);
    two[1] = text_of("four five six seven", NULL);
    CHECK(alike(&s, two, &report));
    s.config.truncation = EITP_TRUNCATE_SECOND;
    two[0] = text_of("one two", "three four");
    two[1] = text_of("one two", "four");
    CHECK(alike(&s, two, &report) && report.cut == 1);
    s.config.truncation = EITP_TRUNCATE_NONE;
    CHECK(!predict(&s, two, 2, &report) && error_.status == EITP_ERROR_ARGUMENT && strstr(error_.message, "text 1: "));
    close_subject(&s);
}

static void pairs_have_segments(void) {
    eitp_text_pair two[2];
    eitp_prediction_report report;
    subject s;
    if (!make_subject(&s, 1, EITP_HEAD_CLASSIFIER, "fp32"))
        return;
    two[0] = text_of("one two", "three");
    two[1] = text_of("one two[SEP]three", NULL); /* the same tokens */
    CHECK(!alike(&s, two, &report) && report.tokens == 12);
    two[0] = text_of("one", "");
    two[1] = text_of("one[SEP]", NULL);
    CHECK(!alike(&s, two, &report) && report.tokens == 8);
    close_subject(&s);
}

static void texts_without_tokens(void) {
    eitp_text_pair two[2];
    eitp_prediction_report report;
    subject s;
    two[0] = text_of("", NULL);
    if (!make_subject(&s, 0, EITP_HEAD_LANGUAGE, "fp32"))
        return;
    s.config.prediction = EITP_PREDICT_EMBEDDINGS;
    two[1] = text_of("<|endoftext|>", NULL);
    CHECK(alike(&s, two, &report) && report.tokens == 2);
    close_subject(&s);
    if (!make_subject(&s, 1, EITP_HEAD_CLASSIFIER, "fp32"))
        return;
    two[1] = text_of("  ", NULL);
    CHECK(alike(&s, two, &report) && report.tokens == 4);
    close_subject(&s);
}

/* ---- Words ---- */

enum { MOST_WORDS = 40 };

/* Checks the scores of the words of one text pair, computed from its hidden states and the classifier's matrix. */
static void check_words(const subject *s, const eitp_text_pair *text, const float *scores) {
    float hidden[POSITIONS * WIDTH], matrix[WIDTH * LABELS], bias[LABELS];
    int32_t ids[POSITIONS], word_of[POSITIONS];
    int seen[MOST_WORDS] = {0};
    eitp_sequence_config cut = eitp_sequence_config_default();
    eitp_sequence_report report;
    cut.max_length = (int32_t)s->config.max_length;
    CHECK(!eitp_tokenizer_encode_words(s->tokenizer, text->words, text->word_count, &cut, ids, NULL, word_of, POSITIONS,
                                       &report, &error_));
    if (report.count)
        compute_hidden(s, ids, (int64_t)report.count, hidden);
    CHECK(!eitp_variable_read_f32(s->context, "classifier.weight", 0, matrix, WIDTH * LABELS, &error_));
    CHECK(!eitp_variable_read_f32(s->context, "classifier.bias", 0, bias, LABELS, &error_));
    for (size_t i = 0; i < report.count; i++) {
        if (word_of[i] < 0 || seen[word_of[i]]++)
            continue;
        for (int k = 0; k < LABELS; k++) {
            double expected = (double)bias[k];
            for (int c = 0; c < WIDTH; c++)
                expected += (double)hidden[i * WIDTH + (size_t)c] * (double)matrix[c * LABELS + k];
            CHECK_THAT(fabs((double)scores[word_of[i] * LABELS + k] - expected) < 1e-5 * (1 + fabs(expected)),
                       "word %d, label %d: %g, not %g", word_of[i], k, (double)scores[word_of[i] * LABELS + k],
                       expected);
        }
    }
    for (size_t w = 0; w < text->word_count; w++)
        CHECK(seen[w] || (isinf(scores[w * LABELS]) && scores[w * LABELS] < 0));
}

/* Each word has the scores of its first token, alone and among others. Words without a token have -INFINITY. */
static void words_have_scores(void) {
    enum { COUNT = 60 };
    static eitp_text all[COUNT * MOST_WORDS];
    for (int is_bert = 0; is_bert < 2; is_bert++) {
        eitp_text_pair given[COUNT];
        eitp_predictor *predictor = NULL;
        eitp_prediction_report report;
        float *together, *alone, probabilities[2 * LABELS];
        size_t count = 0, cut = 0;
        subject s;
        if (!make_subject(&s, is_bert, EITP_HEAD_TOKEN_CLASSIFIER, "fp32"))
            return;
        memset(given, 0, sizeof given);
        for (unsigned i = 0; i < COUNT; i++) {
            given[i].words = &all[count];
            given[i].word_count = i == 7 ? 0 : noise(i, 3) % MOST_WORDS;
            for (size_t w = 0; w < given[i].word_count; w++, count++) {
                all[count].bytes = words[noise(i, (unsigned)w) % EITP__COUNT(words)];
                all[count].size = noise(i, (unsigned)w + 50) % 9 ? strlen(all[count].bytes) : 0;
            }
        }
        together = (float *)malloc(count * LABELS * sizeof *together);
        alone = (float *)malloc(count * LABELS * sizeof *alone);
        CHECK(eitp_predictor_config_default(s.model, s.tokenizer).prediction == EITP_PREDICT_WORD_SCORES);
        s.config.prediction = EITP_PREDICT_WORD_SCORES;
        s.config.pass_tokens = 150;
        REQUIRE_OK(eitp_predictor_create(s.model, s.tokenizer, &s.config, &predictor, &error_), error_);
        CHECK(eitp_predictor_problem(predictor) == EITP_PROBLEM_TOKENS && eitp_predictor_width(predictor) == LABELS);
        REQUIRE_OK(eitp_predict(predictor, given, COUNT, together, &report, &error_), error_);
        CHECK(report.passes > 1 && (is_bert || report.cut == 0 || report.cut_words > 0));
        count = 0;
        for (int i = 0; i < COUNT; i++) {
            eitp_prediction_report one;
            REQUIRE_OK(eitp_predict(predictor, &given[i], 1, alone + count * LABELS, &one, &error_), error_);
            check_words(&s, &given[i], alone + count * LABELS);
            count += given[i].word_count;
            cut += (size_t)one.cut_words;
        }
        CHECK(!memcmp(alone, together, count * LABELS * sizeof *alone));
        CHECK_THAT(cut == (size_t)report.cut_words && cut > 0, "%zu words", cut);
        for (int k = 0; k < LABELS; k++)
            alone[k] = -(float)INFINITY, alone[LABELS + k] = 3;
        eitp_predictor_probabilities(predictor, alone, 2, probabilities);
        CHECK(isinf(probabilities[0]) && fabs((double)probabilities[LABELS] * LABELS - 1) < 1e-6);
        eitp_predictor_destroy(predictor);
        free(together);
        free(alone);
        s.config.prediction = EITP_PREDICT_SCORES;
        CHECK(eitp_predictor_create(s.model, s.tokenizer, &s.config, &predictor, &error_) == EITP_ERROR_UNSUPPORTED &&
              strstr(error_.message, "scores require a classifier, but the model has a token classifier"));
        close_subject(&s);
    }
}

/* ---- Probabilities ---- */

static void probabilities(void) {
    static const eitp_problem problems[] = {EITP_PROBLEM_UNKNOWN, EITP_PROBLEM_SINGLE_LABEL, EITP_PROBLEM_MULTI_LABEL,
                                            EITP_PROBLEM_REGRESSION};
    const eitp_host host = eitp_host_default();
    for (int i = 0; i < 8; i++) {
        const float scores[] = {1, -2, 0.5f, 40, 0, -90};
        eitp_transformer_config config = shape(1, EITP_HEAD_CLASSIFIER);
        eitp_problem used = problems[i % 4];
        eitp_predictor *predictor = NULL;
        float found[6];
        subject s;
        config.problem = used;
        config.labels = i < 4 ? LABELS : 1;
        if (used == EITP_PROBLEM_UNKNOWN)
            used = i < 4 ? EITP_PROBLEM_SINGLE_LABEL : EITP_PROBLEM_MULTI_LABEL;
        REQUIRE_OK(open_subject(&s, &host, &config, "fp32", &error_), error_);
        REQUIRE_OK(eitp_predictor_create(s.model, s.tokenizer, &s.config, &predictor, &error_), error_);
        CHECK(eitp_predictor_problem(predictor) == used && eitp_predictor_width(predictor) == config.labels);
        eitp_predictor_probabilities(predictor, scores, 6 / config.labels, found);
        for (int64_t j = 0; j < 6; j++) {
            const float *row = scores + j / config.labels * config.labels;
            double sum = 0, expected = (double)scores[j];
            for (int64_t k = 0; k < config.labels; k++)
                sum += exp((double)row[k]);
            if (used == EITP_PROBLEM_SINGLE_LABEL)
                expected = exp((double)scores[j]) / sum;
            else if (used == EITP_PROBLEM_MULTI_LABEL)
                expected = 1 / (1 + exp(-(double)scores[j]));
            CHECK_THAT(fabs((double)found[j] - expected) < 1e-6, "%d, %d: %g, not %g", i, (int)j, (double)found[j],
                       expected);
        }
        eitp_predictor_destroy(predictor);
        close_subject(&s);
    }
}

/* ---- The most likely label ---- */

enum { MANY_LABELS = 70 };

/* Compares the label of each text pair with the scores that a predictor gives for all labels. */
static void check_likeliest(const subject *s) {
    const int64_t labels = eitp_model_config(s->model).labels;
    eitp_predictor *predictor = NULL;
    float values[TEXTS * MANY_LABELS];
    REQUIRE_OK(eitp_predictor_create(s->model, s->tokenizer, &s->config, &predictor, &error_), error_);
    REQUIRE_OK(eitp_predict(predictor, texts, TEXTS, values, NULL, &error_), error_);
    eitp_predictor_probabilities(predictor, values, TEXTS, values);
    eitp_predictor_destroy(predictor);
    for (int i = 0; i < TEXTS; i++) {
        const float *row = values + i * labels;
        const eitp_text *text = &texts[i].first;
        const char *label = NULL;
        double probability = -1;
        int64_t best = 0;
        for (int64_t k = 1; k < labels; k++)
            best = row[k] > row[best] ? k : best;
        REQUIRE_OK(eitp_classify_text(s->model, s->tokenizer, text->bytes, text->size, &label, &probability, &error_),
                   error_);
        CHECK_THAT(!strcmp(label, eitp_model_label(s->model, best)), "text %d: %s", i, label);
        CHECK_THAT((float)probability == row[best], "text %d: %g, not %g", i, probability, (double)row[best]);
    }
}

static void likeliest_labels(void) {
    static const char *const names[LABELS] = {"bad", "good", "neither"};
    const eitp_host host = eitp_host_default();
    const char *label = NULL, *again = NULL;
    make_texts(0);
    for (int i = 0; i < 4; i++) {
        eitp_transformer_config config = shape(i & 1, EITP_HEAD_CLASSIFIER);
        subject s;
        config.labels = i < 2 ? LABELS : MANY_LABELS;
        REQUIRE_OK(open_subject(&s, &host, &config, "fp32", &error_), error_);
        if (i < 2)
            CHECK(!eitp_model_set_labels(s.model, names, LABELS, &error_));
        check_likeliest(&s);
        CHECK(!eitp_classify_text(s.model, s.tokenizer, "", 0, &label, NULL, &error_));
        CHECK(!eitp_classify_text(s.model, s.tokenizer, NULL, 0, &again, NULL, &error_) && !strcmp(label, again));
        close_subject(&s);
    }
}

/* Some models give no single label. The message names the function to use instead. */
static void no_likeliest_label(void) {
    static const struct {
        eitp_head head;
        eitp_problem problem;
        int64_t labels;
        const char *words;
    } cases[] = {
        {EITP_HEAD_TOKEN_CLASSIFIER, EITP_PROBLEM_UNKNOWN, LABELS, "eitp_predict with EITP_PREDICT_WORD_SCORES"},
        {EITP_HEAD_LANGUAGE, EITP_PROBLEM_UNKNOWN, LABELS, "no text classifier"},
        {EITP_HEAD_NONE, EITP_PROBLEM_UNKNOWN, LABELS, "eitp_predict with EITP_PREDICT_EMBEDDINGS"},
        {EITP_HEAD_CLASSIFIER, EITP_PROBLEM_REGRESSION, LABELS, "numbers, not labels; eitp_predict"},
        {EITP_HEAD_CLASSIFIER, EITP_PROBLEM_MULTI_LABEL, LABELS, "eitp_predict and eitp_predictor_probabilities"},
        {EITP_HEAD_CLASSIFIER, EITP_PROBLEM_UNKNOWN, 1, "eitp_predict and eitp_predictor_probabilities"},
    };
    const eitp_host host = eitp_host_default();
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp_transformer_config config = shape(1, cases[i].head);
        const char *label = "unchanged";
        double probability = -1;
        subject s;
        config.problem = cases[i].problem;
        config.labels = cases[i].labels;
        REQUIRE_OK(open_subject(&s, &host, &config, "fp32", &error_), error_);
        CHECK(eitp_classify_text(s.model, s.tokenizer, "one", 3, &label, &probability, &error_) ==
              EITP_ERROR_UNSUPPORTED);
        CHECK_THAT(strstr(error_.message, cases[i].words), "%s", error_.message);
        CHECK(!strcmp(label, "unchanged") && probability < 0);
        close_subject(&s);
    }
}

static void label_misuse(void) {
    const float bias[LABELS] = {0, NAN, 0};
    const char *label = "unchanged";
    double probability = -1;
    subject s;
    if (!make_subject(&s, 1, EITP_HEAD_CLASSIFIER, "fp32"))
        return;
    CHECK(eitp_classify_text(NULL, s.tokenizer, "one", 3, &label, NULL, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_classify_text(s.model, NULL, "one", 3, &label, NULL, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_classify_text(s.model, s.tokenizer, NULL, 3, &label, NULL, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_classify_text(s.model, s.tokenizer, "one", 3, NULL, NULL, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(!eitp_variable_write_f32(s.context, "classifier.bias", 0, bias, LABELS, &error_));
    CHECK(eitp_classify_text(s.model, s.tokenizer, "one", 3, &label, &probability, &error_) == EITP_ERROR_NOT_FINITE);
    CHECK(!strcmp(label, "unchanged") && probability < 0);
    close_subject(&s);
}

/* Any allocation fails once. */
static void labels_without_memory(void) {
    const eitp_transformer_config config = shape(1, EITP_HEAD_CLASSIFIER);
    int has_failed = 1;
    for (long n = 1; has_failed; n++) {
        const char *label = NULL;
        double probability = -1;
        eitp_status status;
        subject s;
        faults f;
        faults_begin(&f);
        REQUIRE_OK(open_subject(&s, &f.host, &config, "fp32", &error_), error_);
        f.fail_allocation = f.allocations + n;
        status = eitp_classify_text(s.model, s.tokenizer, "one two", 7, &label, &probability, &error_);
        CHECK(status ? status == EITP_ERROR_MEMORY && !label && probability < 0 : label && probability > 0);
        close_subject(&s);
        has_failed = faults_end(&f);
    }
}

/* ---- Memory and failures ---- */

/* Returns the number of allocations for encoding alone, and its peak memory. */
static long encode_all(const subject *s, faults *f, size_t *peak) {
    const long before = f->allocations;
    const size_t live = f->live_bytes;
    eitp_sequence_config config = eitp_sequence_config_default();
    int32_t ids[POSITIONS];
    config.max_length = (int32_t)s->config.max_length;
    f->peak_bytes = live;
    for (int i = 0; i < TEXTS; i++) {
        eitp_sequence_report report;
        CHECK(!eitp_tokenizer_encode_sequence(s->tokenizer, &texts[i].first,
                                              texts[i].second.bytes ? &texts[i].second : NULL, &config, ids, NULL,
                                              POSITIONS, &report, &error_));
    }
    *peak = f->peak_bytes - live;
    return f->allocations - before;
}

static void memory_as_said(void) {
    for (int i = 0; i < 2; i++) {
        const eitp_transformer_config config = shape(1, EITP_HEAD_CLASSIFIER);
        static float values[TEXTS * WIDTH];
        eitp_predictor *predictor = NULL;
        size_t estimated, live, peak;
        long allocations;
        subject s;
        faults f;
        faults_begin(&f);
        REQUIRE_OK(open_subject(&s, &f.host, &config, "fp32", &error_), error_);
        make_texts(1);
        s.config.prediction = i ? EITP_PREDICT_EMBEDDINGS : EITP_PREDICT_SCORES;
        REQUIRE_OK(eitp_predictor_estimate(s.model, &s.config, &estimated, &error_), error_);
        live = f.live_bytes;
        REQUIRE_OK(eitp_predictor_create(s.model, s.tokenizer, &s.config, &predictor, &error_), error_);
        CHECK(eitp__predictor_bytes(predictor) == estimated);
        /* The rest is the description of the graph and its plan. */
        CHECK_THAT(f.live_bytes - live >= estimated && f.live_bytes - live < estimated + 300000, "%zu, estimated %zu",
                   f.live_bytes - live, estimated);
        allocations = encode_all(&s, &f, &peak);
        live = f.live_bytes;
        allocations += f.allocations;
        f.peak_bytes = live;
        REQUIRE_OK(eitp_predict(predictor, texts, TEXTS, values, NULL, &error_), error_);
        CHECK(f.allocations == allocations && f.live_bytes == live && f.peak_bytes <= live + peak);
        eitp_predictor_destroy(predictor);
        close_subject(&s);
        faults_end(&f);
    }
}

/* Passes are halved until they fit, down to one sequence. An error names a sufficient number of bytes. */
static void passes_fit_a_budget(void) {
    static const int64_t lengths[] = {0, 24, 7}; /* 0: up to POSITIONS */
    size_t bytes, largest, smallest;
    subject s;
    if (!make_subject(&s, 1, EITP_HEAD_CLASSIFIER, "fp32"))
        return;
    for (size_t i = 0; i < EITP__COUNT(lengths); i++) {
        const int64_t longest = lengths[i] ? lengths[i] : POSITIONS;
        eitp_predictor_config config = s.config;
        config.max_length = lengths[i];
        CHECK(!eitp_fit_predictor(s.model, 0, &config, &largest, &error_) && config.pass_tokens == EITP_PASS_TOKENS);
        config.pass_tokens = 0;
        CHECK(!eitp_fit_predictor(s.model, largest, &config, &bytes, &error_) && bytes == largest);
        CHECK(config.pass_tokens == EITP_PASS_TOKENS);
        config.pass_tokens = 0;
        CHECK(!eitp_fit_predictor(s.model, largest - 1, &config, &bytes, &error_) && bytes < largest);
        CHECK(config.pass_tokens == EITP_PASS_TOKENS / 2);
        CHECK(!eitp_predictor_estimate(s.model, &config, &smallest, &error_) && smallest == bytes);
        /* A size that is set is kept. */
        CHECK(eitp_fit_predictor(s.model, bytes - 1, &config, &bytes, &error_) == EITP_ERROR_MEMORY);
        CHECK(config.pass_tokens == EITP_PASS_TOKENS / 2 && bytes == smallest);
        config.pass_tokens = 0;
        CHECK(eitp_fit_predictor(s.model, 1, &config, &smallest, &error_) == EITP_ERROR_MEMORY);
        CHECK(!config.pass_tokens && smallest < bytes && strstr(error_.message, "exceeds the budget of 1 B"));
        CHECK(!eitp_fit_predictor(s.model, smallest, &config, &bytes, &error_) && bytes == smallest);
        CHECK(config.pass_tokens == longest);
    }
    CHECK(eitp_fit_predictor(NULL, 0, &s.config, &bytes, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_fit_predictor(s.model, 0, NULL, &bytes, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_fit_predictor(s.model, 0, &s.config, NULL, &error_) == EITP_ERROR_ARGUMENT);
    s.config.max_length = POSITIONS + 1;
    CHECK(eitp_fit_predictor(s.model, 0, &s.config, &bytes, &error_) == EITP_ERROR_ARGUMENT);
    close_subject(&s);
}

/* Any allocation fails once. The predictor works again after a failure. */
static void allocations_fail(void) {
    const eitp_transformer_config config = shape(1, EITP_HEAD_CLASSIFIER);
    float expected[4 * LABELS], values[4 * LABELS];
    int has_failed = 1;
    make_texts(1);
    for (long n = 0; has_failed; n++) {
        eitp_predictor *predictor = NULL;
        eitp_status status;
        subject s;
        faults f;
        faults_begin(&f);
        REQUIRE_OK(open_subject(&s, &f.host, &config, "fp32", &error_), error_);
        f.fail_allocation = n ? f.allocations + n : 0;
        status = eitp_predictor_create(s.model, s.tokenizer, &s.config, &predictor, &error_);
        CHECK(!status == (predictor != NULL));
        if (!status) {
            status = eitp_predict(predictor, texts, 4, n ? values : expected, NULL, &error_);
            if (status)
                CHECK_THAT(strstr(error_.message, "text ") == error_.message, "%s", error_.message);
            f.fail_allocation = 0;
            CHECK_THAT(!eitp_predict(predictor, texts, 4, n ? values : expected, NULL, &error_), "%ld: %s", n,
                       error_.message);
            CHECK(!n || !memcmp(values, expected, sizeof values));
        }
        has_failed = !n || status != EITP_OK;
        CHECK(!status || status == EITP_ERROR_MEMORY);
        eitp_predictor_destroy(predictor);
        close_subject(&s);
        faults_end(&f);
    }
}

static void misuse(void) {
    eitp_predictor *predictor = NULL;
    eitp_predictor_config config;
    float value[WIDTH];
    eitp_text_pair one[1];
    size_t bytes;
    subject s;
    one[0] = text_of("one", NULL);
    if (!make_subject(&s, 0, EITP_HEAD_LANGUAGE, "fp32"))
        return;
    config = s.config;
    CHECK(eitp_predictor_create(s.model, s.tokenizer, &config, &predictor, &error_) == EITP_ERROR_UNSUPPORTED);
    CHECK(!predictor && strstr(error_.message, "a language head"));
    CHECK(eitp_predictor_estimate(s.model, &config, &bytes, &error_) == EITP_ERROR_UNSUPPORTED);
    config.prediction = EITP_PREDICT_EMBEDDINGS;
    config.max_length = POSITIONS + 1;
    CHECK(eitp_predictor_create(s.model, s.tokenizer, &config, &predictor, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(strstr(error_.message, "max_length must be 0 to the model's 40 positions (got 41)"));
    config.max_length = 0;
    config.pass_tokens = POSITIONS - 1;
    CHECK(eitp_predictor_create(s.model, s.tokenizer, &config, &predictor, &error_) == EITP_ERROR_ARGUMENT);
    config.pass_tokens = 0;
    config.pooling = (eitp_embedding_pooling)EITP_EMBEDDING_POOLING_COUNT;
    CHECK(eitp_predictor_create(s.model, s.tokenizer, &config, &predictor, &error_) == EITP_ERROR_ARGUMENT);
    config.pooling = EITP_EMBEDDING_LAST;
    CHECK(eitp_predictor_create(NULL, s.tokenizer, &config, &predictor, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_predictor_create(s.model, NULL, &config, &predictor, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(!eitp_predictor_create(s.model, s.tokenizer, &config, &predictor, &error_));
    CHECK(eitp_predictor_get_config(predictor).max_length == POSITIONS);
    CHECK(eitp_predict(predictor, NULL, 1, value, NULL, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_predict(predictor, one, -1, value, NULL, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_predict(NULL, one, 1, value, NULL, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(!eitp_predict(predictor, one, 1, value, NULL, NULL));
    eitp_predictor_destroy(predictor);
    eitp_predictor_destroy(NULL);
    CHECK(!eitp_predictor_width(NULL) && !eitp_predictor_get_config(NULL).max_length);
    CHECK(!eitp_predictor_config_default(NULL, s.tokenizer).normalize);
    eitp_predictor_probabilities(NULL, value, 1, value);
    close_subject(&s);
}

static void models_may_be_shorter_than_tokenizers(void) {
    const eitp_host host = eitp_host_default();
    eitp_transformer_config config = shape(1, EITP_HEAD_CLASSIFIER);
    eitp_prediction_report report;
    subject s;
    config.positions = 20;
    REQUIRE_OK(open_subject(&s, &host, &config, "fp32", &error_), error_);
    make_texts(0);
    CHECK(s.config.max_length == 20);
    free(predict(&s, texts, TEXTS, &report));
    CHECK(report.cut > 10);
    close_subject(&s);
}

static void vocabularies_must_match(void) {
    const eitp_host host = eitp_host_default();
    eitp_predictor *predictor = NULL;
    subject s;
    if (!make_subject(&s, 1, EITP_HEAD_CLASSIFIER, "fp32"))
        return;
    eitp_tokenizer_destroy(s.tokenizer);
    CHECK(!eitp_tokenizer_create_bytes(&host, &s.tokenizer, &error_));
    CHECK(eitp_predictor_create(s.model, s.tokenizer, &s.config, &predictor, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(strstr(error_.message, "the tokenizer has 257 tokens, more than the model's vocabulary of 12"));
    close_subject(&s);
}

/* ---- Files of sentence-transformers ---- */

/* Replaces the files. NULL removes a file. */
static void put_files(const char *modules, const char *pooling, const char *lengths) {
    const char *const names[] = {"model/modules.json", "model/1_Pooling/config.json",
                                 "model/sentence_bert_config.json"};
    const char *const files[] = {modules, pooling, lengths};
    const eitp_host host = eitp_host_default();
    CHECK(!eitp__make_directories(&host, at("model/1_Pooling"), &error_));
    for (size_t i = 0; i < EITP__COUNT(names); i++) {
        remove(at(names[i]));
        if (files[i])
            put(names[i], files[i]);
    }
}

static eitp_status read_files(eitp_predictor_config *config) {
    const eitp_host host = eitp_host_default();
    memset(config, 0, sizeof *config);
    config->max_length = 20;
    config->pooling = EITP_EMBEDDING_MAX;
    return eitp_embedding_config_read(&host, at("model"), POSITIONS, config, &error_);
}

#define TRANSFORMER "{\"type\": \"sentence_transformers.models.Transformer\", \"path\": \"\"}"
#define POOLING "{\"type\": \"sentence_transformers.models.Pooling\", \"path\": \"1_Pooling\"}"
#define NORMALIZE "{\"type\": \"sentence_transformers.models.Normalize\", \"path\": \"2_Normalize\"}"
#define DENSE "{\"type\": \"sentence_transformers.models.Dense\", \"path\": \"2_Dense\"}"
#define MODULES "[" TRANSFORMER "," POOLING "," NORMALIZE "]"

static void embedding_files(void) {
    static const struct {
        const char *text;
        eitp_embedding_pooling pooling;
    } kinds[] = {
        {"{\"pooling_mode_mean_tokens\": true, \"pooling_mode_cls_token\": false}", EITP_EMBEDDING_MEAN},
        {"{\"pooling_mode_cls_token\": true}", EITP_EMBEDDING_FIRST},
        {"{\"pooling_mode_max_tokens\": true}", EITP_EMBEDDING_MAX},
        {"{\"pooling_mode_lasttoken\": true}", EITP_EMBEDDING_LAST},
        {"{\"pooling_mode_mean_sqrt_len_tokens\": true}", EITP_EMBEDDING_MEAN_SQRT_LENGTH},
        {"{\"pooling_mode\": \"cls\"}", EITP_EMBEDDING_FIRST},
    };
    eitp_predictor_config config;
    for (size_t i = 0; i < EITP__COUNT(kinds); i++) {
        put_files(MODULES, kinds[i].text, "{\"max_seq_length\": 30}");
        CHECK(!read_files(&config) && config.pooling == kinds[i].pooling && config.max_length == 30);
    }
    put_files(NULL, NULL, NULL);
    CHECK(!read_files(&config) && config.pooling == EITP_EMBEDDING_MAX && config.max_length == 20);
    CHECK(config.prediction == EITP_PREDICT_EMBEDDINGS);
    put_files(NULL, kinds[0].text, "{\"max_seq_length\": 512}");
    CHECK(!read_files(&config) && config.pooling == EITP_EMBEDDING_MEAN && config.max_length == POSITIONS);
}

static void refused_embedding_files(void) {
    static const struct {
        const char *modules, *pooling, *lengths, *words;
    } cases[] = {
        {"[" TRANSFORMER "," POOLING "," DENSE "]", "{\"pooling_mode_cls_token\": true}", NULL,
         "modules.json: line 1: unsupported module Dense"},
        {MODULES, NULL, NULL, "1_Pooling/config.json: the file that modules.json needs is missing"},
        {MODULES, "{\"pooling_mode_cls_token\": true, \"pooling_mode_max_tokens\": true}", NULL,
         "config.json: pooling_mode_cls_token and pooling_mode_max_tokens cannot be combined"},
        {MODULES, "{\"pooling_mode_weightedmean_tokens\": true}", NULL,
         "pooling_mode_weightedmean_tokens is not supported"},
        {MODULES, "{\"pooling_mode\": \"sums\"}", NULL, "config.json: sums is not supported"},
        {MODULES, "{}", NULL, "pooling without a pooling_mode is not supported"},
        {"{}", NULL, NULL, "modules.json: line 1: the modules must be an array"},
        {"[{}]", NULL, NULL, "modules.json: line 1: the module has no type"},
        {"[", NULL, NULL, "modules.json"},
        {NULL, NULL, "{\"max_seq_length\": 0}", "sentence_bert_config.json: "},
    };
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp_predictor_config config;
        put_files(cases[i].modules, cases[i].pooling, cases[i].lengths);
        CHECK(read_files(&config) != EITP_OK && config.pooling == EITP_EMBEDDING_MAX && config.max_length == 20);
        CHECK_THAT(strstr(error_.message, cases[i].words), "%s", error_.message);
    }
}

/* Any allocation and any file call fails once. */
static void embedding_files_fail(void) {
    put_files(MODULES, "{\"pooling_mode_cls_token\": true}", "{\"max_seq_length\": 30}");
    for (int files = 0; files < 2; files++) {
        for (long n = 1;; n++) {
            eitp_predictor_config config = EITP__ZERO;
            eitp_status status;
            faults f;
            faults_begin(&f);
            if (files)
                f.fail_file_call = n;
            else
                f.fail_allocation = n;
            status = eitp_embedding_config_read(&f.host, at("model"), POSITIONS, &config, &error_);
            CHECK(status ? !config.max_length : config.max_length == 30 && config.pooling == EITP_EMBEDDING_FIRST);
            if (!faults_end(&f))
                break;
        }
    }
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(alone_as_in_a_batch),
        TEST(passes_of_any_size),
        TEST(given_in_parts),
        TEST(poolings),
        TEST(long_texts_are_cut),
        TEST(pairs_have_segments),
        TEST(texts_without_tokens),
        TEST(words_have_scores),
        TEST(probabilities),
        TEST(likeliest_labels),
        TEST(no_likeliest_label),
        TEST(label_misuse),
        TEST(labels_without_memory),
        TEST(memory_as_said),
        TEST(passes_fit_a_budget),
        TEST(allocations_fail),
        TEST(misuse),
        TEST(vocabularies_must_match),
        TEST(models_may_be_shorter_than_tokenizers),
        TEST(embedding_files),
        TEST(refused_embedding_files),
        TEST(embedding_files_fail),
    };
    int failed;
    CHECK(scratch_make(directory));
    make_words();
    failed = RUN_TESTS(tests, argc, argv);
    scratch_remove(directory);
    return failed;
}
