/* What all stages of a training ask of it. */
#include "recipe/training.h"

EITP__PRIVATE eitp_status eitp__training_poll(const eitp_training *training, eitp_error *error) {
    const eitp_recipe *recipe = &training->recipe;
    if (recipe->poll && recipe->poll(recipe->poll_user))
        return eitp__fail(error, EITP_ERROR_INTERRUPTED, "stopped by request before the first step");
    return EITP_OK;
}

EITP__PRIVATE const char *eitp__training_checkpoint(const eitp_training *training) {
    return training->is_resumed ? eitp_run_checkpoint(training->run) : NULL;
}
