/* Parameters of a latent variable: names, shapes and initial values. */
#include "model/latent_state.h"
#include "model/transformer.h"

EITP__PRIVATE eitp__latent_parameter eitp__latent_parameter_at(const eitp_model *model, int index) {
    static const char *const names[EITP__LATENT_PARAMETERS] = {"latent.mean.weight", "latent.mean.bias",
                                                               "latent.log_deviation.weight",
                                                               "latent.log_deviation.bias", "latent.embedding.weight"};
    const eitp__latent *latent = model->latent;
    const int64_t in = latent->encoder->config.width, out = model->config.width, size = latent->size;
    const int64_t shapes[EITP__LATENT_PARAMETERS][2] = {{size, in}, {size, 0}, {size, in}, {size, 0}, {out, size}};
    eitp__latent_parameter parameter;
    parameter.name = names[index];
    parameter.rank = shapes[index][1] ? 2 : 1;
    parameter.shape[0] = shapes[index][0];
    parameter.shape[1] = shapes[index][1];
    return parameter;
}

EITP__PRIVATE int eitp__latent_has(const char *name) {
    static const char prefix[] = "latent.";
    return !strncmp(name, prefix, sizeof prefix - 1);
}

EITP__PRIVATE int64_t eitp__latent_elements(const eitp_model *model) {
    int64_t elements = 0;
    for (int i = 0; i < EITP__LATENT_PARAMETERS && model->latent; i++) {
        const eitp__latent_parameter parameter = eitp__latent_parameter_at(model, i);
        elements += parameter.shape[0] * (parameter.rank == 2 ? parameter.shape[1] : 1);
    }
    return elements;
}

EITP__PRIVATE eitp_status eitp__model_initialize_latent(eitp_model *model, uint64_t seed, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (!model)
        return eitp__fail_null(error, "eitp__model_initialize_latent", "model");
    for (int i = 0; i < EITP__LATENT_PARAMETERS && model->latent && !status; i++) {
        const eitp__latent_parameter parameter = eitp__latent_parameter_at(model, i);
        const double bound = parameter.rank == 2 ? 1 / sqrt((double)parameter.shape[1]) : 0;
        if (i == EITP__LATENT_EMBEDDING)
            status = eitp_variable_fill_normal(model->context, parameter.name, 0, model->config.initializer_range, seed,
                                               error);
        else
            status = parameter.rank == 2
                         ? eitp_variable_fill_uniform(model->context, parameter.name, -bound, bound, seed, error)
                         : eitp_variable_fill(model->context, parameter.name, 0, error);
    }
    return status;
}
