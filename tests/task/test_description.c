/* Detailed evaluations: the worst mistakes, a confusion matrix of bounded size, and a run's evaluations.jsonl. */
#include "tests/support/labelled.h"

/* ---- Mistakes ---- */

enum { OBSERVED = 400, MOST_ROWS = 5 };

/* A generated sample, whose scores may equal those in other samples. */
typedef struct observed {
    eitp__judged_sample sample;
    int32_t ids[MOST_ROWS], labels[MOST_ROWS];
    float scores[MOST_ROWS * CLASSES], targets[CLASSES];
} observed;

static void make_observed(observed *o, uint64_t number, eitp_problem problem) {
    memset(o, 0, sizeof *o);
    o->sample.number = number;
    o->sample.rows = 1 + (int64_t)(noise(number, 7) % MOST_ROWS);
    for (int64_t i = 0; i < o->sample.rows; i++) {
        o->ids[i] = (int32_t)noise(number, i) & 1023;
        o->labels[i] = (int32_t)(noise(number, 20 + i) % (CLASSES + 1));
        if (o->labels[i] == CLASSES)
            o->labels[i] = EITP__IGNORED_TARGET;
    }
    for (int64_t i = 0; i < MOST_ROWS * CLASSES; i++)
        o->scores[i] = (float)(noise(number, 50 + i) % 41) / 4 - 5;
    for (int k = 0; k < CLASSES; k++)
        o->targets[k] = (float)(noise(number, 90 + k) % 2);
    if (number % 50 == 3)
        o->scores[0] = (float)NAN;
    o->sample.ids = o->ids;
    o->sample.scores = o->scores;
    o->sample.target = problem == EITP_PROBLEM_SINGLE_LABEL || problem == EITP_PROBLEM_TOKENS
                           ? (const void *)o->labels
                           : (const void *)o->targets;
}

typedef struct found_mistake {
    uint64_t sample;
    int64_t row;
    int label, predicted;
    double confidence; /* probability or error */
} found_mistake;

/* Softmax of the largest score. */
static double softmax_of(const float *scores, int at) {
    double sum = 0;
    for (int k = 0; k < CLASSES; k++)
        sum += exp((double)scores[k] - (double)scores[at]);
    return 1 / sum;
}

static int is_any_nan(const float *scores) {
    return isnan(scores[0]) || isnan(scores[1]) || isnan(scores[2]);
}

/* Finds all mistakes by definition. */
static size_t find_mistakes(eitp_problem problem, found_mistake *all) {
    size_t count = 0;
    for (uint64_t n = 0; n < OBSERVED; n++) {
        observed o;
        const int has_rows = problem == EITP_PROBLEM_TOKENS;
        make_observed(&o, n, problem);
        for (int64_t row = 0; row < (has_rows ? o.sample.rows : 1); row++) {
            const float *s = o.scores + row * CLASSES;
            found_mistake f = {n, row, o.labels[row], 0, -1};
            if (is_any_nan(s))
                continue;
            if (has_rows || problem == EITP_PROBLEM_SINGLE_LABEL) {
                for (int k = 1; k < CLASSES; k++)
                    f.predicted = s[k] > s[f.predicted] ? k : f.predicted;
                if (f.label != EITP__IGNORED_TARGET && f.label != f.predicted)
                    f.confidence = softmax_of(s, f.predicted);
            }
            for (int k = 0; k < CLASSES && problem == EITP_PROBLEM_MULTI_LABEL; k++) {
                const double p = 1 / (1 + exp(-fabs((double)s[k])));
                if ((s[k] > 0) != (o.targets[k] > 0.5f) && p > f.confidence) {
                    f.label = k;
                    f.predicted = s[k] > 0;
                    f.confidence = p;
                }
            }
            for (int k = 0; k < CLASSES && problem == EITP_PROBLEM_REGRESSION; k++) {
                const double error = fabs((double)s[k] - (double)o.targets[k]);
                if (error > 0 && error > f.confidence) {
                    f.label = k;
                    f.confidence = error;
                }
            }
            if (f.confidence >= 0)
                all[count++] = f;
        }
    }
    return count;
}

/* Sorts the worst mistakes first, and equal ones by row. */
static int compare_found(const void *left, const void *right) {
    const found_mistake *a = (const found_mistake *)left, *b = (const found_mistake *)right;
    if (fabs(a->confidence - b->confidence) > 1e-12)
        return a->confidence > b->confidence ? -1 : 1;
    if (a->sample != b->sample)
        return a->sample < b->sample ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

static void the_worst_mistakes_are_kept(void) {
    static found_mistake all[OBSERVED * MOST_ROWS];
    static eitp__mistakes mistakes;
    for (int problem = EITP_PROBLEM_SINGLE_LABEL; problem <= EITP_PROBLEM_TOKENS; problem++) {
        const size_t count = find_mistakes((eitp_problem)problem, all);
        qsort(all, count, sizeof *all, compare_found);
        mistakes.count = 0;
        for (uint64_t n = 0; n < OBSERVED; n++) {
            observed o;
            make_observed(&o, n, (eitp_problem)problem);
            eitp__mistakes_observe(&mistakes, (eitp_problem)problem, CLASSES, &o.sample);
        }
        REQUIRE(count > 2 * EITP_MAX_MISTAKES && mistakes.count == EITP_MAX_MISTAKES);
        for (int i = 0; i < EITP_MAX_MISTAKES; i++) {
            const eitp__mistake *m = &mistakes.all[i];
            const found_mistake *f = &all[i];
            const double confidence =
                problem == EITP_PROBLEM_REGRESSION ? fabs(m->is.target - m->is.number) : m->is.probability;
            observed o;
            make_observed(&o, f->sample, (eitp_problem)problem);
            CHECK_THAT(m->is.sample == f->sample && m->is.row == f->row && m->is.label == f->label &&
                           m->is.predicted == f->predicted && fabs(confidence - f->confidence) < 1e-9,
                       "problem %d, mistake %d: sample %d, row %d, label %d: %.9f, not sample %d, row %d, label %d: "
                       "%.9f",
                       problem, i, (int)m->is.sample, (int)m->is.row, (int)m->is.label, confidence, (int)f->sample,
                       (int)f->row, f->label, f->confidence);
            CHECK(m->is.id_count == o.sample.rows && !memcmp(m->ids, o.ids, (size_t)m->is.id_count * sizeof *o.ids));
            CHECK(problem != EITP_PROBLEM_TOKENS || (m->is.word_count > 0 && m->word[0] == o.ids[f->row]));
        }
    }
}

/* ---- The confusion matrix ---- */

enum { MANY = 300, COUNTED = 5000 };

static int32_t frequent_label(int64_t i, int64_t labels) {
    const int64_t drawn = (int64_t)(noise((uint64_t)i, 1) % (unsigned)labels);
    return (int32_t)(i % 3 ? (drawn * 7 + 5) % labels : labels - 1 - drawn / 20);
}

static int32_t guessed_label(int64_t i, int64_t labels) {
    return i % 4 ? frequent_label(i, labels) : (int32_t)(noise((uint64_t)i, 2) % (unsigned)labels);
}

/* Compares a matrix of `labels` labels with separate counts. */
static void check_confusion(int64_t labels) {
    static eitp__confusion shown;
    static int64_t support[MANY];
    void *memory = malloc(eitp__outcomes_bytes(EITP_PROBLEM_SINGLE_LABEL, labels, COUNTED));
    eitp__outcomes *outcomes;
    int64_t sum = 0, right = 0, diagonal = 0, size, least = COUNTED;
    REQUIRE(memory);
    memset(support, 0, sizeof support);
    outcomes = eitp__outcomes_init(memory, EITP_PROBLEM_SINGLE_LABEL, labels, COUNTED);
    for (int64_t i = 0; i < COUNTED; i++) {
        float scores[MANY] = {0};
        scores[guessed_label(i, labels)] = 1;
        eitp__outcomes_add_label(outcomes, scores, frequent_label(i, labels));
        support[frequent_label(i, labels)]++;
        right += frequent_label(i, labels) == guessed_label(i, labels);
    }
    eitp__count_labels(outcomes, 0);
    eitp__confusion_count(&shown, outcomes);
    size = shown.count + shown.has_others;
    CHECK(shown.has_others == (labels > EITP__DESCRIBED_LABELS) &&
          shown.count == (labels > EITP__DESCRIBED_LABELS ? (int64_t)EITP__DESCRIBED_LABELS : labels));
    for (int64_t n = 0; n < shown.count; n++) {
        int64_t row = 0;
        for (int64_t k = 0; k < size; k++)
            row += shown.counts[n * size + k];
        CHECK_THAT(row == support[shown.labels[n]], "label %d", (int)shown.labels[n]);
        CHECK(!n || shown.labels[n - 1] < shown.labels[n]);
        least = row < least ? row : least;
        diagonal += shown.counts[n * size + n];
        support[shown.labels[n]] = 0;
    }
    for (int64_t k = 0; k < labels; k++)
        CHECK_THAT(support[k] <= least, "label %d, which %d samples have, is not shown", (int)k, (int)support[k]);
    for (int64_t i = 0; i < size * size; i++)
        sum += shown.counts[i];
    CHECK(sum == COUNTED && (shown.has_others ? diagonal < right : diagonal == right));
    for (int64_t i = 0; i < COUNTED && labels == 3; i++)
        shown.counts[frequent_label(i, 3) * 3 + guessed_label(i, 3)]--;
    for (int64_t i = 0; i < 9 && labels == 3; i++)
        CHECK(shown.counts[i] == 0);
    free(memory);
}

static void the_matrix_is_bounded(void) {
    check_confusion(3);
    check_confusion(EITP__DESCRIBED_LABELS);
    check_confusion(EITP__DESCRIBED_LABELS + 1);
    check_confusion(MANY);
}

/* ---- Text ---- */

/* Text truncated at a limit ends with a whole character. */
static void texts_end_with_a_whole_character(void) {
    const eitp_host host = eitp_host_default();
    static const unsigned char text[] = "ab\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";
    static const size_t whole[] = {0, 1, 2, 2, 4, 4, 4, 7, 7, 7, 7, 11, 12, 12};
    eitp_tokenizer *tokenizer = NULL;
    int32_t ids[16];
    REQUIRE_OK(eitp_tokenizer_create_bytes(&host, &tokenizer, &error_), error_);
    for (size_t i = 0; i < sizeof text - 1; i++)
        ids[i] = text[i];
    for (size_t limit = 0; limit < EITP__COUNT(whole); limit++) {
        eitp__buffer buffer;
        eitp__buffer_init(&buffer, &host);
        eitp__describe_ids(&buffer, tokenizer, ids, sizeof text - 1, limit);
        CHECK_THAT(buffer.size == whole[limit] + 2 && !memcmp(buffer.data + 1, text, whole[limit]), "limit %zu: %s",
                   limit, buffer.data);
        eitp__buffer_release(&buffer);
    }
    eitp_tokenizer_destroy(tokenizer);
}

/* A mistake whose text exceeds the limit, and an id that the tokenizer does not have. */
static void long_and_unknown_texts(void) {
    const eitp_host host = eitp_host_default();
    eitp_tokenizer *tokenizer = NULL;
    eitp__buffer buffer;
    int32_t ids[300];
    REQUIRE_OK(eitp_tokenizer_create_bytes(&host, &tokenizer, &error_), error_);
    eitp__buffer_init(&buffer, &host);
    for (size_t i = 0; i < EITP__COUNT(ids); i++)
        ids[i] = i % 2 ? 0xA9 : 0xC3;
    eitp__describe_ids(&buffer, tokenizer, ids, EITP__COUNT(ids), EITP__DESCRIBED_TEXT - 1);
    CHECK(buffer.size == EITP__DESCRIBED_TEXT - 2 + 2);
    eitp__buffer_clear(&buffer);
    ids[3] = 100000;
    eitp__describe_ids(&buffer, tokenizer, ids, 9, EITP__DESCRIBED_TEXT);
    CHECK_THAT(!strcmp(buffer.data, "null"), "%s", buffer.data);
    eitp__buffer_release(&buffer);
    eitp_tokenizer_destroy(tokenizer);
}

/* ---- Runs ---- */

static void read_text(const char *path, char *text, size_t size) {
    FILE *file = fopen(path, "rb");
    text[file ? fread(text, 1, size - 1, file) : 0] = 0;
    if (file)
        fclose(file);
}

/* A run of a small classifier. */
typedef struct described {
    encoder e;
    char directory[512], path[600];
    eitp_run_config config;
    eitp_run_report report;
    eitp_status status;
    uint32_t bits;
    const char *says; /* text that the program adds; NULL: none */
    eitp_status fails;
    eitp_run *loop;
    int stops_at; /* the call in which the program stops the run; 0: never */
    int calls, warnings, lost;
} described;

static eitp_status say(void *user, const char **text, eitp_error *error) {
    described *d = (described *)user;
    d->calls++;
    *text = d->says;
    if (d->calls == d->stops_at) {
        eitp_run_request_stop(d->loop, 15);
        return eitp__fail(error, EITP_ERROR_INTERRUPTED, "stopped");
    }
    return d->fails && d->calls == 1 ? eitp__fail(error, d->fails, "it cannot be said") : EITP_OK;
}

static void hear(void *user, const eitp_run_event *event) {
    described *d = (described *)user;
    d->warnings += event->kind == EITP_EVENT_WARNING && strstr(event->message, "it cannot be said") != NULL;
    d->lost += event->kind == EITP_EVENT_RECORDS && strstr(event->message, "JSON object") != NULL;
}

static int begin_described(described *d) {
    memset(d, 0, sizeof *d);
    if (!scratch_make(d->directory))
        return 0;
    snprintf(d->path, sizeof d->path, "%s/evaluations.jsonl", d->directory);
    d->config = eitp_run_config_default();
    d->config.directory = d->directory;
    d->config.steps = 8;
    d->config.eval_steps = 2;
    d->config.save_steps = 4;
    d->config.memory_check_seconds = -1;
    d->config.listener.user = d->config.describe_user = d;
    d->config.listener.notify = hear;
    return 1;
}

static void train_described(described *d, const char *name, eitp_problem problem) {
    const eitp_host host = eitp_host_default();
    variant v = default_variant();
    v.batch_size = 10;
    v.grad_accum = 1;
    d->config.describe = d->says || d->fails ? say : NULL;
    REQUIRE_OK(begin_problem(&d->e, &v, name, problem), error_);
    REQUIRE_OK(eitp_run_open(&host, &d->config, &d->loop, &error_), error_);
    d->status = eitp_run_train(d->loop, d->e.r.trainer, &d->report, &error_);
    CHECK_THAT(!d->status, "%s", error_.message);
    d->bits = fingerprint(&d->e.r);
    eitp_run_close(d->loop);
}

/* Parses evaluations.jsonl. Its records must have these steps. */
static size_t parse_lines(const described *d, const int64_t *steps, size_t count, eitp_json_document **documents) {
    static char text[1 << 18];
    const eitp_host host = eitp_host_default();
    size_t lines = 0;
    read_text(d->path, text, sizeof text);
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        int64_t step = -1;
        if (lines == count) {
            CHECK_THAT(0, "more than %zu lines", count);
            return lines;
        }
        if (eitp_json_parse(&host, line, (size_t)(end - line), &documents[lines], &error_)) {
            CHECK_THAT(0, "line %zu: %s", lines, error_.message);
            return lines;
        }
        eitp__json_get_integer(eitp_json_root(documents[lines]), "step", 0, 100, &step, &error_);
        CHECK_THAT(step == steps[lines], "line %zu: step %d", lines, (int)step);
        lines++;
    }
    CHECK_THAT(lines == count, "%zu lines", lines);
    return lines;
}

static double number_of(const eitp_json *object, const char *name) {
    const eitp_json *value = eitp_json_member(object, name);
    return value && value->kind == EITP_JSON_NUMBER ? value->number : (double)NAN;
}

/* Returns the mean F1 over the labels that occur or are predicted, computed from a matrix. */
static double f1_of(double counts[CLASSES][CLASSES]) {
    double sum = 0, labels = 0;
    for (int k = 0; k < CLASSES; k++) {
        double both = 2 * counts[k][k], all = 0;
        for (int other = 0; other < CLASSES; other++)
            all += counts[k][other] + counts[other][k];
        sum += all > 0 ? both / all : 0;
        labels += all > 0;
    }
    return sum / labels;
}

/* The matrix in a record must agree with the record's metrics. Its mistakes must be mistakes, and sorted. */
static void check_record(const eitp_json *record) {
    const eitp_json *confusion = eitp_json_member(record, "confusion");
    const eitp_json *row = eitp_json_member(confusion, "counts")->first_child;
    const eitp_json *mistake = eitp_json_member(record, "mistakes")->first_child;
    const double samples = number_of(record, "val_samples");
    double sum = 0, diagonal = 0, last = 1, counts[CLASSES][CLASSES] = {{0}};
    int at = 0, mistakes = 0;
    for (; row; row = row->next, at++) {
        int column = 0;
        for (const eitp_json *count = row->first_child; count && column < CLASSES; count = count->next, column++) {
            counts[at < CLASSES ? at : 0][column] = count->number;
            sum += count->number;
            diagonal += column == at ? count->number : 0;
        }
        CHECK(column == CLASSES && row->count == CLASSES);
    }
    CHECK_THAT(at == CLASSES && sum > 0 && fabs(sum - samples) < 0.5, "%g of %g samples", sum, samples);
    CHECK_THAT(fabs(diagonal / sum - number_of(record, "val_accuracy")) < 1e-9, "%g", diagonal);
    CHECK_THAT(fabs(f1_of(counts) - number_of(record, "val_macro_f1")) < 1e-9, "%g", f1_of(counts));
    for (; mistake; mistake = mistake->next, mistakes++) {
        const char *label = NULL, *predicted = NULL;
        const double probability = number_of(mistake, "probability");
        eitp__json_get_text(mistake, "label", &label, &error_);
        eitp__json_get_text(mistake, "predicted", &predicted, &error_);
        CHECK(label && predicted && strcmp(label, predicted) && probability <= last && probability > 1.0 / CLASSES);
        last = probability;
    }
    CHECK(mistakes == (sum - diagonal < EITP_MAX_MISTAKES ? (int)(sum - diagonal + 0.5) : EITP_MAX_MISTAKES));
}

/* The mistakes of the last evaluation agree with the model's current predictions for these samples. */
static void check_last(described *d) {
    eitp_classification_report report;
    eitp_evaluation evaluation;
    eitp_mistake kept[EITP_MAX_MISTAKES];
    int64_t count;
    REQUIRE_OK(eitp_classification_report_get(&d->e.r.task, &report, &error_), error_);
    count = report.mistake_count;
    memcpy(kept, report.mistakes, sizeof kept);
    REQUIRE_OK(eitp_evaluate(&d->e.r.task, EITP_VALIDATION, 1, 0, &evaluation, &error_), error_);
    REQUIRE_OK(eitp_classification_report_get(&d->e.r.task, &report, &error_), error_);
    CHECK(report.mistake_count == count);
    for (int64_t i = 0; i < count; i++)
        CHECK(report.mistakes[i].sample == kept[i].sample &&
              fabs(report.mistakes[i].probability - kept[i].probability) < 1e-5);
}

static void a_run_writes_them(void) {
    static const int64_t steps[] = {0, 2, 4, 6, 8};
    eitp_json_document *documents[EITP__COUNT(steps)] = {NULL};
    described d;
    uint32_t bits = 0;
    REQUIRE(begin_described(&d));
    for (int round = 0; round < 3; round++) {
        d.config.report_to = round == 0 ? "none" : "jsonl";
        d.says = round == 2 ? "{\"samples\": [\"a { \\\"step\\\": 5\"], \"more\": {\"step\": 1}}" : NULL;
        d.calls = 0;
        train_described(&d, "distilbert-base", EITP_PROBLEM_SINGLE_LABEL);
        CHECK_THAT(!round || d.bits == bits, "%08x, not %08x", d.bits, bits);
        bits = d.bits;
        CHECK(d.calls == (round == 2 ? 5 : 0));
        CHECK((access(d.path, F_OK) == 0) == (round > 0));
        if (round) {
            const size_t lines = parse_lines(&d, steps, EITP__COUNT(steps), documents);
            for (size_t i = 0; i < lines; i++) {
                check_record(eitp_json_root(documents[i]));
                CHECK((eitp_json_member(eitp_json_root(documents[i]), "samples") != NULL) == (round == 2));
                eitp_json_release(documents[i]);
            }
            check_last(&d);
        }
        end_run(&d.e.r);
        scratch_remove(d.directory);
        REQUIRE(mkdir(d.directory, 0700) == 0);
    }
    scratch_remove(d.directory);
}

/* A resume continues after the step of its checkpoint, regardless of records that a killed run wrote after that
   step, and even if another record file lacks the evaluation of that step. */
static void a_resume_repeats_nothing(void) {
    char path[600];
    static const int64_t steps[] = {0, 2, 4, 6, 8, 10, 12};
    eitp_json_document *documents[EITP__COUNT(steps)] = {NULL};
    described d;
    FILE *file;
    REQUIRE(begin_described(&d));
    train_described(&d, "bert-base", EITP_PROBLEM_TOKENS);
    end_run(&d.e.r);
    file = fopen(d.path, "ab");
    REQUIRE(file);
    fputs("{\"step\": 9, \"val_loss\": 1, \"mistakes\": []}\n{\"step\": 9, \"mis", file);
    fclose(file);
    snprintf(path, sizeof path, "%s/metrics.jsonl", d.directory);
    REQUIRE(remove(path) == 0);
    d.config.resume = EITP_RESUME_NEWEST;
    d.config.steps = 12;
    train_described(&d, "bert-base", EITP_PROBLEM_TOKENS);
    CHECK(d.report.start_step == 8);
    end_run(&d.e.r);
    const size_t lines = parse_lines(&d, steps, EITP__COUNT(steps), documents);
    for (size_t i = 0; i < lines; i++) {
        const eitp_json *record = eitp_json_root(documents[i]);
        const eitp_json *mistake = eitp_json_member(record, "mistakes")->first_child;
        CHECK(eitp_json_member(eitp_json_member(record, "confusion"), "labels") && (mistake || i));
        CHECK(!mistake || number_of(mistake, "row") >= 0);
    }
    for (size_t i = 0; i < EITP__COUNT(steps); i++)
        eitp_json_release(documents[i]);
    scratch_remove(d.directory);
}

static void other_problems_have_mistakes(void) {
    static const eitp_problem problems[] = {EITP_PROBLEM_MULTI_LABEL, EITP_PROBLEM_REGRESSION};
    static const int64_t steps[] = {0, 2};
    for (size_t p = 0; p < EITP__COUNT(problems); p++) {
        eitp_json_document *documents[EITP__COUNT(steps)] = {NULL};
        const eitp_json *record, *labels, *mistake;
        described d;
        REQUIRE(begin_described(&d));
        d.config.steps = 2;
        train_described(&d, "bert-base", problems[p]);
        REQUIRE(parse_lines(&d, steps, EITP__COUNT(steps), documents) == 2);
        record = eitp_json_root(documents[0]);
        labels = eitp_json_member(record, "labels");
        mistake = eitp_json_member(record, "mistakes")->first_child;
        REQUIRE(mistake);
        CHECK((labels != NULL) == (p == 0) && !eitp_json_member(record, "confusion"));
        CHECK(!labels || (labels->count == CLASSES && number_of(labels->first_child, "true") > 0 &&
                          number_of(labels->first_child, "both") <= number_of(labels->first_child, "predicted")));
        CHECK(p || isfinite(number_of(mistake, "probability")));
        CHECK(!p || fabs(number_of(mistake, "target") - number_of(mistake, "predicted")) > 0);
        for (size_t i = 0; i < EITP__COUNT(steps); i++)
            eitp_json_release(documents[i]);
        end_run(&d.e.r);
        scratch_remove(d.directory);
    }
}

/* A failure of the program's description does not stop the run. A description that is not a JSON object is not
   written. */
static void a_program_may_fail(void) {
    static const int64_t steps[] = {0, 2, 4, 6, 8};
    static const char *const wrong[] = {"[1]", "{\"a\": 1", "{\"a\":\n1}", "{\"step\": 3}"};
    eitp_json_document *documents[EITP__COUNT(steps)] = {NULL};
    described d;
    REQUIRE(begin_described(&d));
    d.fails = EITP_ERROR_MEMORY;
    train_described(&d, "distilbert-base", EITP_PROBLEM_SINGLE_LABEL);
    CHECK(d.warnings == 1 && d.calls == 5 && !d.report.lost_records);
    parse_lines(&d, steps, EITP__COUNT(steps), documents);
    for (size_t i = 0; i < EITP__COUNT(steps); i++)
        eitp_json_release(documents[i]);
    end_run(&d.e.r);
    scratch_remove(d.directory);
    for (size_t i = 0; i < EITP__COUNT(wrong); i++) {
        REQUIRE(begin_described(&d));
        d.config.steps = 2;
        d.says = wrong[i];
        train_described(&d, "distilbert-base", EITP_PROBLEM_SINGLE_LABEL);
        CHECK_THAT(d.lost == 1 && d.report.lost_records == 2, "%s: %d, %d", wrong[i], d.lost,
                   (int)d.report.lost_records);
        parse_lines(&d, NULL, 0, NULL);
        end_run(&d.e.r);
        scratch_remove(d.directory);
    }
}

/* If a run is stopped while the program describes an evaluation, the evaluation is dropped. After a resume it is
   recorded once. */
static void a_description_is_interrupted(void) {
    static const int64_t first[] = {0, 2}, all[] = {0, 2, 4, 6, 8};
    eitp_json_document *documents[EITP__COUNT(all)] = {NULL};
    described d;
    REQUIRE(begin_described(&d));
    d.says = "{}";
    d.stops_at = 3;
    train_described(&d, "distilbert-base", EITP_PROBLEM_SINGLE_LABEL);
    CHECK(d.report.end == EITP_RUN_STOPPED && d.report.steps_done == 4 && !d.warnings);
    end_run(&d.e.r);
    parse_lines(&d, first, EITP__COUNT(first), documents);
    for (size_t i = 0; i < EITP__COUNT(first); i++)
        eitp_json_release(documents[i]);
    d.stops_at = 0;
    d.config.resume = EITP_RESUME_NEWEST;
    train_described(&d, "distilbert-base", EITP_PROBLEM_SINGLE_LABEL);
    end_run(&d.e.r);
    parse_lines(&d, all, EITP__COUNT(all), documents);
    for (size_t i = 0; i < EITP__COUNT(all); i++)
        eitp_json_release(documents[i]);
    scratch_remove(d.directory);
}

static const test_case tests[] = {
    TEST(the_worst_mistakes_are_kept),  TEST(the_matrix_is_bounded), TEST(texts_end_with_a_whole_character),
    TEST(long_and_unknown_texts),       TEST(a_run_writes_them),     TEST(a_resume_repeats_nothing),
    TEST(other_problems_have_mistakes), TEST(a_program_may_fail),    TEST(a_description_is_interrupted),
};

int main(int argc, char **argv) {
    return RUN_TESTS(tests, argc, argv);
}
