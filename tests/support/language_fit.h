/* A language model to plan, in the form created by eitp_fit.create_task, for tests of the planner. */
#ifndef EITP_TEST_LANGUAGE_FIT_H
#define EITP_TEST_LANGUAGE_FIT_H

#include "tests/support/everything.h"

typedef struct language_fit {
    eitp_transformer_config model;
    int64_t block_size;
} language_fit;

/* Creates the task of a language_fit, with data for one window. */
static __attribute__((unused)) eitp_status make_language_task(const void *user, eitp_context *context, eitp_task *task,
                                                              eitp_error *error) {
    const language_fit *l = (const language_fit *)user;
    eitp_language_config config = eitp_language_config_default();
    eitp_status status;
    config.block_size = l->block_size;
    config.training.count = config.training.range.count = (uint64_t)l->block_size + 1;
    config.validation = config.training;
    status = eitp_model_create(context, &l->model, &config.model, error);
    if (!status)
        status = eitp_language_task(&config, task, error);
    if (status)
        eitp_model_destroy(config.model);
    return status;
}

#endif
