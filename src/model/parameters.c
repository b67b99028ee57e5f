#include "model/parameters.h"
#include "tensor/variable.h"
#include "tensor/op_rules.h"

EITP__PRIVATE eitp_status eitp__parameter_declare(eitp_context *context, const eitp__parameter *parameter,
                                                  eitp_error *error) {
    eitp_dtype dtype = parameter->is_f32 ? EITP_F32 : context->precision;
    eitp_variable variable;
    eitp__child_info remainder;
    int64_t index = eitp_variable_find(context, parameter->name), remainder_index;
    const int is_new = index < 0;
    eitp_status status = eitp__variable_declare(context, parameter->name, EITP_PARAMETER,
                                                is_new ? dtype : eitp_variable_at(context, (size_t)index).dtype,
                                                parameter->rank, parameter->shape, &index, error);
    if (status || !is_new)
        return status;
    variable = eitp_variable_at(context, (size_t)index);
    return eitp__remainder_child(context, &variable, &remainder)
               ? eitp__child_declare(context, index, &remainder, &remainder_index, error)
               : EITP_OK;
}

EITP__PRIVATE eitp_status eitp__parameter_fill(eitp_context *context, const eitp_transformer_config *config,
                                               const eitp__parameter *parameter, uint64_t seed, eitp_error *error) {
    double deviation = config->initializer_range;
    if (parameter->fill == EITP__FILL_ONE || parameter->fill == EITP__FILL_ZERO)
        return eitp_variable_fill(context, parameter->name, parameter->fill == EITP__FILL_ONE, error);
    if (parameter->fill == EITP__FILL_RESIDUAL)
        deviation /= sqrt(2.0 * (double)config->layers);
    return eitp_variable_fill_normal(context, parameter->name, 0, deviation, seed, error);
}

EITP__PRIVATE eitp_tensor *eitp__parameter_tensor(eitp_graph *graph, const eitp__parameter *parameter) {
    eitp_error error;
    int64_t index;
    if (!graph || graph->error.status)
        return NULL;
    index = eitp_variable_find(graph->context, parameter->name);
    if (index < 0 && eitp__parameter_declare(graph->context, parameter, &error)) {
        eitp__graph_fail(graph, error.status, "%s", error.message);
        return NULL;
    }
    if (index < 0)
        index = eitp_variable_find(graph->context, parameter->name);
    return eitp_variable_tensor(graph, parameter->name, EITP_PARAMETER,
                                eitp_variable_at(graph->context, (size_t)index).dtype, parameter->rank,
                                parameter->shape);
}
