/* The part of the data that a trained model is evaluated on: the part its run was trained on or held out, or all of
   it. */
#include "recipe/training.h"

static eitp_status eitp__fail_division(const eitp_training *training, const char *why, eitp_error *error) {
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s ('%s'); evaluate all samples (EITP_SAMPLES_ALL)", why,
                      training->trained);
}

static eitp_status eitp__check_division(const eitp_training *training, int is_same, int holds_out, eitp_error *error) {
    if (!eitp__trained_divides(training))
        return EITP_OK;
    if (!training->resumed.data.count)
        return eitp__fail_division(training, "this model is not a checkpoint, so its data are unknown", error);
    if (!is_same)
        return eitp__fail_division(training, "the run was trained on other data", error);
    return holds_out || training->samples == EITP_SAMPLES_TRAINING
               ? EITP_OK
               : eitp__fail_division(training, "the run held out no part of this data", error);
}

/* ---- Tokens ---- */

/* Without a checkpoint's window size: starts from the usual positions and halves until the data have a window. */
static void eitp__find_window_size(eitp_training *training, uint64_t count) {
    if (training->recipe.task.block_size >= 0 || training->resumed.rows) {
        training->rows = eitp__training_window_size(training);
        return;
    }
    training->rows = eitp__usual_positions(training);
    while (training->rows > 1 && count <= (uint64_t)training->rows)
        training->rows /= 2;
}

static eitp_status eitp__select_tokens(eitp_training *training, eitp_error *error) {
    eitp__data_part *part = &training->parts[EITP_TRAINING];
    const eitp_sample_file_info info = eitp_sample_file_get_info(part->file);
    const eitp_task_identity *was = &training->resumed.data;
    const uint64_t count = training->kept_tokens ? training->kept_tokens : info.token_count;
    const uint64_t hash = training->kept_tokens ? was->hash : info.content_hash, end = was->first + was->count;
    const int is_same = was->count && hash == was->hash && end <= count;
    const eitp_status status = eitp__check_division(training, is_same, end < count, error);
    eitp__find_window_size(training, count);
    training->recipe.task.block_size = training->rows;
    training->trained_fraction = is_same && hash ? (double)was->count / (double)count : 0;
    part->range.first = 0;
    part->range.count = count;
    if (!eitp__trained_divides(training))
        return status;
    part->range.first = training->samples == EITP_SAMPLES_VALIDATION ? end : was->first;
    part->range.count = training->samples == EITP_SAMPLES_VALIDATION ? count - end : was->count;
    return status;
}

/* ---- Samples ---- */

static eitp_status eitp__select_samples(eitp_training *training, eitp_error *error) {
    eitp__data_part *part = &training->parts[EITP_TRAINING];
    const eitp_task_identity *was = &training->resumed.data;
    const eitp_recipe *recipe = &training->recipe;
    eitp_labelled_part *kept = NULL, *held = NULL;
    int is_same = 0;
    eitp_status status = eitp_labelled_part_create(part->file, NULL, 0, &part->samples, error);
    const uint64_t count = status ? 0 : eitp_labelled_part_source(part->samples).count;
    /* A fraction that leaves a part without samples is not the run's fraction. */
    if (!status && was->count &&
        !eitp_labelled_split(part->file, recipe->data.validation_fraction, recipe->trainer.seed, &kept, &held, NULL))
        is_same = eitp_labelled_part_source(kept).hash == was->hash;
    if (is_same)
        training->trained_fraction = (double)eitp_labelled_part_source(kept).count / (double)count;
    if (!status)
        status = eitp__check_division(training, is_same, is_same && training->trained_fraction < 1, error);
    if (!status && eitp__trained_divides(training)) {
        eitp_labelled_part **chosen = training->samples == EITP_SAMPLES_VALIDATION ? &held : &kept;
        eitp_labelled_part_destroy(part->samples);
        part->samples = *chosen;
        *chosen = NULL;
    }
    eitp_labelled_part_destroy(kept);
    eitp_labelled_part_destroy(held);
    training->rows = status ? 0 : eitp_labelled_part_source(part->samples).max_length;
    return status;
}

EITP__PRIVATE eitp_status eitp__trained_select(eitp_training *training, eitp_error *error) {
    return training->parts[EITP_TRAINING].is_labelled ? eitp__select_samples(training, error)
                                                      : eitp__select_tokens(training, error);
}
