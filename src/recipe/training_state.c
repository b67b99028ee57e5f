/* State of a training that all stages use. */
#include "recipe/training.h"

EITP__PRIVATE eitp_status eitp__training_poll(const eitp_training *training, eitp_error *error) {
    const eitp_recipe *recipe = &training->recipe;
    eitp_training_progress progress = EITP__ZERO;
    progress.stage = training->stage;
    if (recipe->progress && recipe->progress(recipe->progress_user, &progress))
        return eitp__fail(error, EITP_ERROR_INTERRUPTED, "stopped by request before the first step");
    return EITP_OK;
}

EITP__PRIVATE int eitp__training_is_stopped(void *user) {
    return eitp__training_poll((const eitp_training *)user, NULL) != EITP_OK;
}

EITP__PRIVATE const char *eitp__training_checkpoint(const eitp_training *training) {
    if (!training->is_resumed || training->trained)
        return training->trained;
    return training->run ? eitp_run_checkpoint(training->run) : training->recipe.run.checkpoint;
}

EITP__PRIVATE int eitp__trained_divides(const eitp_training *training) {
    return training->packed_as == EITP_TRAINING &&
           (training->samples == EITP_SAMPLES_TRAINING || training->samples == EITP_SAMPLES_VALIDATION);
}

EITP__PRIVATE int64_t eitp__usual_positions(const eitp_training *training) {
    const int64_t positions = eitp_transformer_config_positions(&training->shape);
    return positions < EITP__LONGEST_USUAL ? positions : (int64_t)EITP__LONGEST_USUAL;
}
