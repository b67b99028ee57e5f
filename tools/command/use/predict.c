/* eitp predict: predicts labels of text, or of its words, with a classifier. */
#include "use/predictor.h"

#include "use/predict_words.h"

/* Multi-label models predict the labels with at least this probability. */
#define CHOSEN 0.5f

static int64_t find_largest(const float *values, int64_t count) {
    int64_t largest = 0;
    for (int64_t i = 1; i < count; i++)
        largest = values[i] > values[largest] ? i : largest;
    return largest;
}

static const char *label_of(const predicting *p, int64_t label) {
    return eitp_model_label(p->trained.model, label);
}

/* ---- JSON ---- */

static void add_label(const predicting *p, const float *values, text_buffer *t) {
    text_json_member_string(t, "label", label_of(p, find_largest(values, eitp_predictor_width(p->predictor))));
}

static void add_labels(const predicting *p, const float *values, text_buffer *t) {
    int is_first = 1;
    text_json_name(t, "labels");
    text_format(t, "[");
    for (int64_t i = 0; i < eitp_predictor_width(p->predictor); i++) {
        if (!(values[i] >= CHOSEN))
            continue;
        text_format(t, is_first ? "" : ", ");
        text_json_string(t, label_of(p, i), strlen(label_of(p, i)));
        is_first = 0;
    }
    text_format(t, "]");
}

/* Adds the predicted number or list of numbers. */
static void add_numbers(const predicting *p, const float *values, text_buffer *t) {
    const int64_t width = eitp_predictor_width(p->predictor);
    text_json_name(t, "label");
    text_format(t, width > 1 ? "[" : "");
    for (int64_t i = 0; i < width; i++) {
        text_format(t, i ? ", " : "");
        predicting_add_float(t, values[i]);
    }
    text_format(t, width > 1 ? "]" : "");
}

static void write_json(const predicting *p, const eitp_text_pair *row, const float *values, text_buffer *t) {
    static void (*const kinds[])(const predicting *, const float *, text_buffer *) = {add_label, add_label, add_labels,
                                                                                      add_numbers}; /* eitp_problem */
    text_format(t, "{");
    predicting_add_text_members(p, row, t);
    kinds[eitp_predictor_problem(p->predictor)](p, values, t);
    text_json_name(t, "scores");
    text_format(t, "{");
    for (int64_t i = 0; i < eitp_predictor_width(p->predictor); i++) {
        text_json_name(t, label_of(p, i));
        predicting_add_float(t, values[i]);
    }
    text_format(t, "}}\n");
}

/* ---- Columns ---- */

/* Adds four decimals, or four significant digits for small numbers. */
static void add_rounded(text_buffer *t, float value) {
    text_format(t, fabs((double)value) >= 0.1 || value == 0 ? "%.4f" : "%.4g", (double)value);
}

/* Adds a name to a line of columns. */
static void add_name(text_buffer *t, const char *name) {
    for (; *name; name++)
        text_add(t, (unsigned char)*name < 0x20 ? " " : name, 1);
}

static void write_labels(const predicting *p, const float *values, text_buffer *t) {
    const int64_t width = eitp_predictor_width(p->predictor);
    for (int column = 0; column < 2; column++) {
        int is_first = 1;
        for (int64_t i = 0; i < width; i++) {
            if (!(values[i] >= CHOSEN))
                continue;
            text_format(t, is_first ? "" : "|");
            if (column)
                add_rounded(t, values[i]);
            else
                add_name(t, label_of(p, i));
            is_first = 0;
        }
        text_format(t, column ? "" : "\t");
    }
}

static void write_columns(const predicting *p, const eitp_text_pair *row, const float *values, text_buffer *t) {
    const int64_t width = eitp_predictor_width(p->predictor), largest = find_largest(values, width);
    switch (eitp_predictor_problem(p->predictor)) {
    case EITP_PROBLEM_MULTI_LABEL:
        write_labels(p, values, t);
        break;
    case EITP_PROBLEM_REGRESSION:
        for (int64_t i = 0; i < width; i++) {
            text_format(t, i ? "\t" : "");
            add_rounded(t, values[i]);
        }
        break;
    default:
        add_name(t, label_of(p, largest));
        text_format(t, "\t");
        add_rounded(t, values[largest]);
    }
    predicting_add_text_columns(p, row, t);
    text_format(t, "\n");
}

static eitp_status write_row(const predicting *p, const eitp_text_pair *row, const float *values, text_buffer *t,
                             eitp_error *error) {
    const size_t bytes = (size_t)eitp_predictor_width(p->predictor) * sizeof *values;
    eitp_status status;
    float *probabilities;
    if (predicting_words(p))
        return predict_write_words(p, row, values, t, error);
    status = predicting_check_finite(p, values, error);
    if (status)
        return status;
    probabilities = (float *)command_allocate(bytes);
    eitp_predictor_probabilities(p->predictor, values, 1, probabilities);
    if (options_integer(&p->options, OPTION_JSON))
        write_json(p, row, probabilities, t);
    else
        write_columns(p, row, probabilities, t);
    free(probabilities);
    return EITP_OK;
}

int command_predict(int count, char **arguments) {
    static const predicting_kind kind = {"predict", OPTIONS_PREDICT, 0, write_row};
    return predicting_command(&kind, count, arguments);
}
