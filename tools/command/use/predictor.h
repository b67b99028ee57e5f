/* eitp predict and eitp embed: run rows through a predictor, in batches. */
#ifndef COMMAND_USE_PREDICTOR_H
#define COMMAND_USE_PREDICTOR_H

#include "data/examples.h"
#include "result_file.h"
#include "use/trained_model.h"

EITP_BEGIN_DECLARATIONS

typedef struct predicting predicting;

/* Differences between the commands. */
typedef struct predicting_kind {
    const char *name;
    unsigned command; /* its bit */
    int embeds;       /* accepts any model; otherwise it must have a classifier */
    /* Adds the lines of a row to the output. */
    eitp_status (*write)(const predicting *p, const eitp_text_pair *row, const float *values, text_buffer *t,
                         eitp_error *error);
} predicting_kind;

/* Position of a word in its text. */
typedef struct word_place {
    size_t at, size;
} word_place;

struct predicting {
    const predicting_kind *kind;
    option_set options;
    trained_model trained;
    eitp_predictor_config config;
    eitp_predictor *predictor;
    examples *examples;
    /* A batch of rows. */
    text_buffer texts; /* all text, concatenated */
    eitp_text_pair *rows;
    int64_t count;
    char *is_skipped; /* for each row read, in order: 1 if it was bad and is not in `rows` */
    int64_t read_count;
    word_place *places; /* of the words of all rows, for a token classifier, */
    eitp_text *words;   /* and the words */
    size_t word_count, word_room;
    float *values; /* of each row, or word */
    size_t value_room;
    text_buffer lines;
    result_stream output;
    /* So far. */
    int64_t texts_done;
    eitp_prediction_report done;
    double began, seconds; /* start time, and seconds spent in the predictor */
};

/* Runs the command. Returns its exit code. */
int predicting_command(const predicting_kind *kind, int count, char **arguments);

/* Adds a number with enough digits to restore the float; null if not finite. */
void predicting_add_float(text_buffer *t, float value);

/* With --with-text, adds the text of a row to its JSON object or its columns. */
void predicting_add_text_members(const predicting *p, const eitp_text_pair *row, text_buffer *t);
void predicting_add_text_columns(const predicting *p, const eitp_text_pair *row, text_buffer *t);

/* Fails if one of the values of a row or a word is not finite. */
eitp_status predicting_check_finite(const predicting *p, const float *values, eitp_error *error);

/* True if the labels of words are predicted. */
int predicting_words(const predicting *p);

EITP_END_DECLARATIONS

#endif
