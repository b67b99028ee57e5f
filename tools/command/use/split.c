#include "use/split.h"

#include "run/recipe.h"
#include "run/record.h"

eitp_trained_samples split_samples(const option_set *o) {
    static const eitp_trained_samples samples[] = {EITP_SAMPLES_ALL, EITP_SAMPLES_TRAINING, EITP_SAMPLES_VALIDATION};
    return samples[options_choice(o, OPTION_SPLIT)];
}

/* ---- The run ---- */

static void copy_paths(const option_set *run, option_set *o) {
    const option_value *paths = &run->values[OPTION_DATA];
    eitp_error ignored;
    for (size_t i = 0; i < paths->count; i++)
        options_set(o, OPTION_DATA, paths->texts[i], SOURCE_RUN, "", &ignored);
}

/* Options for reading data: the columns come first. */
enum { COLUMNS = 3, READING = 10 };
static const option_id reading[READING] = {
    OPTION_TEXT_COLUMN, OPTION_PAIR_COLUMN, OPTION_LABEL_COLUMN,  OPTION_DATA_FORMAT, OPTION_ENCODING,
    OPTION_ON_BAD_ROW,  OPTION_DEDUP,       OPTION_WEIGHT_COLUMN, OPTION_DELIMITER,   OPTION_DOCUMENT_SEPARATOR};

/* Copies the first `count` of these options from the run, unless set on the command line. */
static void copy_reading(const option_set *run, int count, option_set *o) {
    for (int i = 0; i < count; i++) {
        if (options_has(run, reading[i]) && !options_is_explicit(o, reading[i]))
            options_set_text(o, reading[i], options_text(run, reading[i]), SOURCE_RUN);
    }
}

/* Reads the options of a run from its run.json. Release `run` in any case. */
static eitp_status read_record(const char *checkpoint, option_set *run, eitp_error *error) {
    int found;
    eitp_status status;
    options_create(run, "train", OPTIONS_TRAIN);
    status = record_read(run, checkpoint, &found, error);
    return status || found
               ? status
               : command_fail(error, EITP_ERROR_ARGUMENT,
                              "--data is required: no run.json next to '%s' names the data of its run", checkpoint);
}

void split_copy_columns(option_set *o, const char *checkpoint) {
    option_set run;
    eitp_error ignored;
    if (!options_has(o, OPTION_DATA))
        return;
    if (!read_record(checkpoint, &run, &ignored))
        copy_reading(&run, COLUMNS, o);
    options_release(&run);
}

/* ---- The data ---- */

/* Divides the data as the run did. */
static void take_division(const option_set *run, eitp_recipe *recipe) {
    recipe->trainer.seed = (uint64_t)options_integer(run, OPTION_SEED);
    recipe->data.validation_fraction = options_has(run, OPTION_VAL_DATA) ? 0 : options_number(run, OPTION_VAL_FRACTION);
}

static void take_validation(const option_set *run, eitp_recipe *recipe) {
    const option_value *paths = &run->values[OPTION_VAL_DATA];
    recipe->data.validation.texts = (const char *const *)paths->texts;
    recipe->data.validation.count = paths->count;
}

eitp_status split_add_data(option_set *o, const char *checkpoint, option_set *run, eitp_recipe *recipe,
                           eitp_error *error) {
    const int is_given = options_has(o, OPTION_DATA);
    eitp_error why;
    eitp_status status = read_record(checkpoint, run, &why);
    if (status && !is_given) {
        *error = why;
        return status;
    }
    if (!status) {
        copy_reading(run, is_given ? COLUMNS : READING, o);
        take_division(run, recipe);
    }
    if (!is_given) {
        copy_paths(run, o);
        take_validation(run, recipe);
    }
    recipe->data.rereads[EITP_TRAINING] = is_given;
    status = options_to_recipe(o, "data", recipe, error);
    return status ? status : options_to_recipe(o, "task", recipe, error);
}
