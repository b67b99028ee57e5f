#include "train/probes.h"

#include "tensor/op_rules.h"
#include "tensor/plan.h"

EITP__PRIVATE void eitp__probes_init(eitp__probes *probes, const eitp__objective *objective) {
    eitp__probe_kind kinds[EITP__MAX_PROBES];
    memset(probes, 0, sizeof *probes);
    probes->count = eitp__objective_probes(objective, kinds);
    for (int i = 0; i < probes->count; i++)
        probes->of[i].kind = kinds[i];
}

EITP__PRIVATE int eitp__probes_train(const eitp__probes *probes) {
    int train = 0;
    for (int i = 0; i < probes->count; i++)
        train |= probes->of[i].kind.trains;
    return train;
}

static eitp_status eitp__probe_build(eitp__probe *probe, const eitp_task *task, const eitp__layout *layout,
                                     int64_t step_rows, eitp__gradient_set set, eitp_error *error) {
    const int number = 1 + (int)probe->kind.regularizer;
    eitp_status status = eitp__pass_build(&probe->pass, task, layout, 1, number, step_rows, 0, error);
    if (status)
        return status;
    if (probe->kind.trains && probe->pass.regularizers)
        status = eitp__accumulate_more(probe->pass.regularizers, set, error);
    if (!status)
        eitp_output(eitp__pass_add_totals(&probe->pass, probe->first_total, NULL));
    return status ? status : eitp_graph_status(probe->pass.graph, error);
}

EITP__PRIVATE eitp_status eitp__probes_build(eitp__probes *probes, const eitp_task *task, const eitp__layout *layout,
                                             int64_t step_rows, eitp__gradient_set set, int first_total,
                                             eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int i = 0; i < probes->count && !status; i++) {
        probes->of[i].first_total = first_total;
        status = eitp__probe_build(&probes->of[i], task, layout, step_rows, set, error);
        first_total += probes->of[i].pass.scalar_count;
    }
    if (!status && first_total > EITP_MAX_STEP_SCALARS)
        status =
            eitp__fail(error, EITP_ERROR_ARGUMENT, "a step has %d loss terms and metrics, more than the limit of %d",
                       first_total, EITP_MAX_STEP_SCALARS);
    return status;
}

EITP__PRIVATE eitp_status eitp__plan_create_near(eitp_graph *graph, const eitp_plan_config *limit, eitp_plan **plan,
                                                 eitp_error *error) {
    eitp_plan_config least = *limit;
    eitp_status status = eitp_plan_create_with(graph, limit, plan, error);
    if (status != EITP_ERROR_MEMORY || !limit->memory)
        return status;
    least.memory = EITP_MINIMUM_MEMORY;
    return eitp_plan_create_with(graph, &least, plan, error);
}

EITP__PRIVATE eitp_status eitp__probes_create(eitp__probes *probes, const eitp_plan_config *limit, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int i = 0; i < probes->count && !status; i++) {
        eitp__probe *probe = &probes->of[i];
        status = eitp__plan_create_near(probe->pass.graph, limit, &probe->plan, error);
        if (!status)
            status = eitp__batch_create(&probe->pass, &probe->batch, error);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__probes_estimate(const eitp__probes *probes, const eitp_plan_config *limit,
                                                size_t *bytes, double *seconds, eitp_error *error) {
    eitp_status status = EITP_OK;
    *bytes = 0;
    *seconds = 0;
    for (int i = 0; i < probes->count && !status; i++) {
        const eitp__probe *probe = &probes->of[i];
        eitp_plan_stats stats = EITP__ZERO;
        status = eitp_plan_estimate(probe->pass.graph, limit, &stats, error);
        if (stats.arena_bytes + stats.workspace_bytes > *bytes)
            *bytes = stats.arena_bytes + stats.workspace_bytes;
        *seconds += stats.seconds / (double)probe->kind.timing.every;
    }
    return status;
}

EITP__PRIVATE void eitp__probes_count(const eitp__probes *probes, eitp_plan_stats *work) {
    for (int i = 0; i < probes->count; i++) {
        const eitp_plan_stats stats = eitp_plan_statistics(probes->of[i].plan);
        eitp__add_work(work, &stats, 1 / (double)probes->of[i].kind.timing.every);
    }
}

EITP__PRIVATE void eitp__probes_discard(eitp__probes *probes) {
    for (int i = 0; i < probes->count; i++) {
        eitp__probe *probe = &probes->of[i];
        eitp__batch_release(&probe->batch);
        eitp_plan_destroy(probe->plan);
        probe->plan = NULL;
        eitp__pass_release(&probe->pass);
    }
}
