/* The path norm of the weights. */
#include "objective/emergence_state.h"
#include "objective/path_norm.h"

static eitp_status eitp__read_path_norm(const eitp_model *model, eitp_graph *graph, float *value, eitp_error *error) {
    eitp_tensor *norm = eitp_output(eitp__path_norm(model, graph, EITP_PATH_NORM_1));
    eitp_plan *plan = NULL;
    eitp_status status = eitp_plan_create(graph, &plan, error);
    if (!status)
        status = eitp_plan_execute(plan, error);
    if (!status)
        status = eitp_plan_read(plan, norm, value, sizeof *value, error);
    eitp_plan_destroy(plan);
    return status;
}

EITP__PRIVATE eitp_status eitp__emergence_path_norm(eitp__emergence *e, eitp_error *error) {
    eitp_graph *graph = NULL;
    float value = 0;
    eitp_status status = eitp_graph_create(e->model->context, &graph, error);
    if (!status)
        status = eitp__read_path_norm(e->model, graph, &value, error);
    eitp_graph_destroy(graph);
    return status ? status
                  : eitp__report_number(e->report, "weights", "path_norm", (double)value, e->model->config.layers, 0,
                                        "the weights are not finite", error);
}
