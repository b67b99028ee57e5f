#include "objective/binding.h"

#include "base/status.h"

EITP__PRIVATE eitp_status eitp__objective_check(const eitp_objective_config *config, const eitp_task *task,
                                                int64_t batch_size, eitp_error *error) {
    (void)task;
    if (config->group == EITP_GROUP_MICRO_BATCH && batch_size < 2)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "statistics of micro-batches need a batch_size of 2 or more (got %lld)",
                          (long long)batch_size);
    return EITP_OK;
}

static eitp_status eitp__objective_extend(void *user, eitp_pass *pass, eitp_error *error) {
    const eitp__objective *objective = (const eitp__objective *)user;
    if (pass->probe || !objective->extend)
        return EITP_OK;
    return objective->extend(objective->extension, pass, error);
}

EITP__PRIVATE void eitp__objective_bind(eitp__objective *objective, const eitp_objective_config *config,
                                        eitp_task *task) {
    const eitp__objective *bound =
        task->extend == eitp__objective_extend ? (const eitp__objective *)task->extension : NULL;
    objective->config = *config;
    objective->model = task->model;
    objective->extend = bound ? bound->extend : task->extend;
    objective->extension = bound ? bound->extension : task->extension;
    task->extend = eitp__objective_extend;
    task->extension = objective;
}

EITP__PRIVATE int eitp__objective_probes(const eitp__objective *objective, eitp__probe_kind kinds[EITP__MAX_PROBES]) {
    (void)objective;
    (void)kinds;
    return 0;
}
