#include "train/term_norms.h"

#include "tensor/autograd.h"
#include "tensor/internal_ops.h"
#include "tensor/plan.h"

/* ---- Graphs ---- */

/* Returns the sum of squares of the gradient of a term, F64 [1], with respect to `count` parameters. */
static eitp_tensor *eitp__term_squares(eitp_tensor *term, int count, eitp_tensor *const *parameters,
                                       eitp_tensor **gradients, eitp_error *error) {
    const int64_t one = 1;
    eitp_tensor *sum = NULL;
    if (!term || eitp__gradients_or_null(term, NULL, count, parameters, gradients, error))
        return NULL;
    for (int i = 0; i < count; i++) {
        if (gradients[i])
            eitp__add_gradient(&sum, eitp__sum_squares(gradients[i]));
    }
    return sum ? sum : eitp_fill(term->graph, EITP_F64, 1, &one, 0);
}

/* Returns the weighted term, or NULL for other scalars. */
static eitp_tensor *eitp__weighted_term(eitp_pass *pass, eitp__scalar *scalar) {
    const int64_t one = 1;
    if (!scalar->is_term || !eitp__pass_reports(pass, scalar))
        return NULL;
    if (scalar->kind != EITP__PENALTY)
        return eitp_multiply(eitp_sum(scalar->values, EITP_ALL_DIMENSIONS, 0), scalar->weight);
    scalar->weight = eitp_input(pass->graph, scalar->name, EITP_F32, 1, &one);
    return eitp_multiply(scalar->build(scalar->user, pass->graph), scalar->weight);
}

/* Adds the squares of all terms as one output. */
static eitp_status eitp__term_norm_outputs(eitp__term_norm_pass *norms, eitp_tensor **parameters,
                                           eitp_tensor **gradients, eitp_error *error) {
    eitp_pass *pass = &norms->pass;
    eitp_tensor *terms[EITP_MAX_STEP_SCALARS], *squares[EITP_MAX_STEP_SCALARS];
    int count = 0;
    for (int q = 0; q < pass->scalar_count; q++) {
        eitp_tensor *term = eitp__weighted_term(pass, &pass->scalars[q]);
        if (!term)
            continue;
        norms->terms[norms->term_count] = q;
        terms[norms->term_count++] = term;
    }
    for (size_t i = 0; i < pass->graph->tensor_count; i++) {
        if (eitp__is_trained(pass->graph->tensors[i]))
            parameters[count++] = pass->graph->tensors[i];
    }
    for (int i = 0; i < norms->term_count; i++)
        squares[i] = eitp__term_squares(terms[i], count, parameters, gradients, error);
    norms->squares = eitp_output(eitp_concat(squares, norms->term_count, 0));
    return eitp_graph_status(pass->graph, error);
}

/* Builds a copy of the pass `like`. */
static eitp_status eitp__term_norm_pass_build(eitp__term_norm_pass *norms, const eitp_pass *like, eitp_error *error) {
    const eitp_host host = eitp_context_host(like->task->context);
    eitp_status status =
        eitp__pass_build(&norms->pass, like->task, &like->layout, 1, like->probe, like->step_rows, like->steps, error);
    size_t bytes;
    eitp_tensor **parameters, **gradients;
    if (status)
        return status;
    /* Penalties may add parameters. */
    bytes = (norms->pass.graph->tensor_count + eitp_variable_count(like->task->context)) * sizeof *parameters;
    parameters = (eitp_tensor **)eitp__allocate(&host, bytes);
    gradients = (eitp_tensor **)eitp__allocate(&host, bytes);
    status = parameters && gradients ? eitp__term_norm_outputs(norms, parameters, gradients, error)
                                     : eitp__fail_memory(error, 2 * bytes, "the norms of terms");
    eitp__release(&host, parameters, bytes);
    eitp__release(&host, gradients, bytes);
    return status;
}

EITP__PRIVATE eitp_status eitp__term_norms_build(eitp__term_norms *norms, const eitp_pass *pass,
                                                 const eitp__probes *probes, eitp_error *error) {
    eitp_status status;
    norms->count = 1;
    status = eitp__term_norm_pass_build(&norms->passes[0], pass, error);
    for (int i = 0; i < probes->count && !status; i++) {
        if (probes->of[i].kind.trains)
            status = eitp__term_norm_pass_build(&norms->passes[norms->count++], &probes->of[i].pass, error);
    }
    return status;
}

/* ---- Plans ---- */

EITP__PRIVATE eitp_status eitp__term_norms_create(eitp__term_norms *norms, const eitp_plan_config *limit,
                                                  eitp_error *error) {
    eitp_status status = EITP_OK;
    for (int i = 0; i < norms->count && !status; i++) {
        eitp__term_norm_pass *pass = &norms->passes[i];
        status = eitp__plan_create_near(pass->pass.graph, limit, &pass->plan, error);
        if (!status)
            status = eitp__batch_create(&pass->pass, &pass->batch, error);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__term_norms_estimate(const eitp__term_norms *norms, const eitp_plan_config *limit,
                                                    size_t *bytes, double *seconds, eitp_error *error) {
    eitp_status status = EITP_OK;
    *bytes = 0;
    *seconds = 0;
    for (int i = 0; i < norms->count && !status; i++) {
        eitp_plan_stats stats = EITP__ZERO;
        status = eitp_plan_estimate(norms->passes[i].pass.graph, limit, &stats, error);
        if (stats.arena_bytes + stats.workspace_bytes > *bytes)
            *bytes = stats.arena_bytes + stats.workspace_bytes;
        *seconds += stats.seconds;
    }
    return status;
}

EITP__PRIVATE void eitp__term_norms_count(const eitp__term_norms *norms, double times, eitp_plan_stats *work) {
    for (int i = 0; i < norms->count; i++) {
        const eitp_plan_stats stats = eitp_plan_statistics(norms->passes[i].plan);
        eitp__add_work(work, &stats, times);
    }
}

EITP__PRIVATE void eitp__term_norms_discard(eitp__term_norms *norms) {
    for (int i = 0; i < norms->count; i++) {
        eitp__term_norm_pass *pass = &norms->passes[i];
        eitp__batch_release(&pass->batch);
        eitp_plan_destroy(pass->plan);
        eitp__pass_release(&pass->pass);
    }
    memset(norms, 0, sizeof *norms);
}

EITP__PRIVATE eitp_status eitp__term_norm_pass_read(const eitp__term_norm_pass *pass, double loss_scale,
                                                    double norms[EITP_MAX_STEP_SCALARS], eitp_error *error) {
    eitp_status status =
        eitp_plan_read(pass->plan, pass->squares, norms, (size_t)pass->term_count * sizeof *norms, error);
    for (int i = 0; i < pass->term_count && !status; i++)
        norms[i] = sqrt(norms[i]) / loss_scale;
    return status;
}
