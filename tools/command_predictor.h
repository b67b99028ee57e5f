/* eitp predict and eitp embed: rows through a predictor, in batches. */
#ifndef COMMAND_PREDICTOR_H
#define COMMAND_PREDICTOR_H

#include "command_examples.h"
#include "command_trained_model.h"

EITP_BEGIN_DECLARATIONS

typedef struct predicting predicting;

/* What distinguishes the commands. */
typedef struct predicting_kind {
    const char *name;
    unsigned command; /* its bit */
    eitp_prediction prediction;
    /* Adds the line of a row to the output. */
    eitp_status (*write)(const predicting *p, const float *values, text_buffer *t, eitp_error *error);
} predicting_kind;

struct predicting {
    const predicting_kind *kind;
    option_set options;
    trained_model trained;
    eitp_predictor_config config;
    eitp_predictor *predictor;
    examples *examples;
    /* A batch of rows. */
    text_buffer texts; /* all of them, one after another */
    eitp_text_pair *rows;
    int64_t count;
    float *values; /* of each row */
    text_buffer lines;
    /* So far. */
    int64_t texts_done;
    eitp_prediction_report done;
    double began, seconds; /* the time when it began, and that spent in the predictor */
};

/* The command. Returns its exit code. */
int predicting_command(const predicting_kind *kind, int count, char **arguments);

/* Adds a number with the digits that restore a float; null if it is not finite. */
void predicting_add_float(text_buffer *t, float value);

/* Fails if a value is not finite. */
eitp_status predicting_check_finite(const predicting *p, const float *values, eitp_error *error);

EITP_END_DECLARATIONS

#endif
