#include "use/predict_words.h"

/* In columns, replaces the label of a word without a token. */
static const char *const no_label = "_";

/* Predictions for the words of a row. */
typedef struct predicted_words {
    const char **labels;  /* NULL: the word has no token */
    float *probabilities; /* of the labels */
} predicted_words;

static eitp_status find_label(const predicting *p, const float *values, predicted_words *words, size_t word,
                              eitp_error *error) {
    const int64_t width = eitp_predictor_width(p->predictor);
    float *probabilities;
    int64_t largest = 0;
    eitp_status status;
    if (isinf(values[0]) && values[0] < 0) /* the word has no token */
        return EITP_OK;
    status = predicting_check_finite(p, values, error);
    if (status)
        return status;
    for (int64_t k = 1; k < width; k++)
        largest = values[k] > values[largest] ? k : largest;
    probabilities = (float *)command_allocate((size_t)width * sizeof *probabilities);
    eitp_predictor_probabilities(p->predictor, values, 1, probabilities);
    words->labels[word] = eitp_model_label(p->trained.model, largest);
    words->probabilities[word] = probabilities[largest];
    free(probabilities);
    return EITP_OK;
}

/* ---- JSON ---- */

/* Adds the entities of the words if the model's labels mark any. */
static void add_entities(const predicting *p, const eitp_text_pair *row, const predicted_words *words, text_buffer *t) {
    const int64_t label_count = eitp_predictor_width(p->predictor);
    const char **names = (const char **)command_allocate((size_t)label_count * sizeof *names);
    eitp_entity *entities = (eitp_entity *)command_allocate((row->word_count + 1) * sizeof *entities);
    int64_t count;
    for (int64_t k = 0; k < label_count; k++)
        names[k] = eitp_model_label(p->trained.model, k);
    if (eitp_labels_mark_entities(names, label_count)) {
        count = eitp_find_entities(words->labels, (int64_t)row->word_count, entities);
        text_json_name(t, "entities");
        text_format(t, "[");
        for (int64_t i = 0; i < count; i++) {
            const eitp_text *first = &row->words[entities[i].first], *last = &row->words[entities[i].last];
            text_format(t, i ? ", {" : "{");
            text_json_member_string(t, "type", entities[i].type);
            text_json_member_integer(t, "first", entities[i].first);
            text_json_member_integer(t, "last", entities[i].last);
            text_json_name(t, "text");
            text_json_string(t, first->bytes, (size_t)(last->bytes + last->size - first->bytes));
            text_format(t, "}");
        }
        text_format(t, "]");
    }
    free(entities);
    free(names);
}

static void write_json(const predicting *p, const eitp_text_pair *row, const predicted_words *words, text_buffer *t) {
    text_format(t, "{");
    predicting_add_text_members(p, row, t);
    text_json_name(t, "labels");
    text_format(t, "[");
    for (size_t i = 0; i < row->word_count; i++) {
        text_format(t, i ? ", " : "");
        if (words->labels[i])
            text_json_string(t, words->labels[i], strlen(words->labels[i]));
        else
            text_format(t, "null");
    }
    text_format(t, "]");
    text_json_name(t, "scores");
    text_format(t, "[");
    for (size_t i = 0; i < row->word_count; i++) {
        text_format(t, i ? ", " : "");
        predicting_add_float(t, words->labels[i] ? words->probabilities[i] : (float)NAN);
    }
    text_format(t, "]");
    add_entities(p, row, words, t);
    text_format(t, "}\n");
}

/* ---- Columns ---- */

static void write_columns(const eitp_text_pair *row, const predicted_words *words, text_buffer *t) {
    for (size_t i = 0; i < row->word_count; i++) {
        for (size_t k = 0; k < row->words[i].size; k++) /* a space would start a column */
            text_add(t, (unsigned char)row->words[i].bytes[k] <= ' ' ? "_" : &row->words[i].bytes[k], 1);
        text_format(t, "%s\t%s\n", row->words[i].size ? "" : "_", words->labels[i] ? words->labels[i] : no_label);
    }
    text_format(t, "\n");
}

eitp_status predict_write_words(const predicting *p, const eitp_text_pair *row, const float *values, text_buffer *t,
                                eitp_error *error) {
    const int64_t width = eitp_predictor_width(p->predictor);
    predicted_words words;
    eitp_status status = EITP_OK;
    words.labels = (const char **)command_allocate((row->word_count + 1) * sizeof *words.labels);
    words.probabilities = (float *)command_allocate((row->word_count + 1) * sizeof *words.probabilities);
    for (size_t i = 0; i < row->word_count && !status; i++)
        status = find_label(p, values + (int64_t)i * width, &words, i, error);
    if (!status && options_integer(&p->options, OPTION_JSON))
        write_json(p, row, &words, t);
    else if (!status)
        write_columns(row, &words, t);
    free(words.labels);
    free(words.probabilities);
    return status;
}
