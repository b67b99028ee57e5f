/* Sharing a model's weights between several contexts. */
#include "model/lora.h"
#include "model/transformer.h"
#include "tensor/borrow.h"
#include "tensor/variable.h"

static eitp_status eitp__share_check(const eitp_context *lender, const eitp_context *context, eitp_error *error) {
    const eitp__backend_interface *device = lender->backend->interface, *other = context->backend->interface;
    if (lender == context)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the model is already in this context; several generators and predictors can use it there");
    if (!device->is_host_memory || strcmp(device->name, other->name) != 0)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "a context on device '%s' cannot use weights on device '%s'; create both on 'cpu'",
                          other->name, device->name);
    if (lender->precision != context->precision)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the context has precision %s, the model's context %s; create both with the same precision",
                          eitp_context_precision_name(context), eitp_context_precision_name(lender));
    return EITP_OK;
}

/* Copies a string that may be NULL. */
static eitp_status eitp__share_text(const eitp_model *copy, const char *text, char **shared, eitp_error *error) {
    *shared = text ? eitp__copy_text(&copy->host, text) : NULL;
    return *shared || !text ? EITP_OK : eitp__fail_memory(error, strlen(text) + 1, "a model");
}

/* Copies the model, without its weights, into another context. Destroy the copy even after a failure. */
static eitp_status eitp__share_copy(const eitp_model *model, eitp_context *context, eitp_model *copy,
                                    eitp_error *error) {
    eitp_status status = eitp__share_text(copy, model->source, &copy->source, error);
    copy->context = context;
    copy->config = model->config;
    copy->lora = model->lora;
    copy->lacks_head = model->lacks_head;
    if (!status)
        status = eitp__share_text(copy, model->generation, &copy->generation, error);
    if (!status)
        status = eitp__share_text(copy, model->other_keys, &copy->other_keys, error);
    if (status)
        return status;
    return model->labels
               ? eitp__labels_create(&copy->host, model->labels->names, model->labels->count, &copy->labels, error)
               : EITP_OK;
}

/* Copies the model and its encoder, if any. */
static eitp_status eitp__share_copy_all(const eitp_model *model, eitp_context *context, eitp_model *copy,
                                        eitp_error *error) {
    const eitp__latent *latent = model->latent;
    eitp_status status = eitp__share_copy(model, context, copy, error);
    if (status || !latent)
        return status;
    copy->latent = (eitp__latent *)eitp__allocate(&copy->host, sizeof *copy->latent);
    if (!copy->latent)
        return eitp__fail_memory(error, sizeof *copy->latent, "a model");
    *copy->latent = *latent;
    copy->latent->encoder = (eitp_model *)eitp__allocate(&copy->host, sizeof *copy->latent->encoder);
    if (!copy->latent->encoder)
        return eitp__fail_memory(error, sizeof *copy->latent->encoder, "a model");
    copy->latent->encoder->host = copy->host;
    return eitp__share_copy(latent->encoder, context, copy->latent->encoder, error);
}

/* Borrows the parameters of a model, excluding its encoder. */
static eitp_status eitp__share_own_parameters(const eitp_model *model, eitp_context *context, eitp_error *error) {
    const int64_t base = eitp__parameter_count(&model->config);
    const int64_t count = base + eitp__lora_parameter_count(&model->config, &model->lora);
    eitp_status status = EITP_OK;
    for (int64_t i = 0; i < count && !status; i++) {
        const eitp__parameter parameter = i < base ? eitp__parameter_at(&model->config, i)
                                                   : eitp__lora_parameter(&model->config, &model->lora, i - base);
        status = eitp__variable_borrow(context, model->context, parameter.name, error);
    }
    for (int i = 0; i < EITP__LATENT_PARAMETERS && model->latent && !status; i++)
        status = eitp__variable_borrow(context, model->context, eitp__latent_parameter_at(model, i).name, error);
    return status;
}

/* Borrows all parameters, or none on failure. */
static eitp_status eitp__share_parameters(const eitp_model *model, eitp_context *context, eitp_error *error) {
    const size_t variables = context->variable_count, segments = context->segments->count;
    eitp_status status = eitp__share_own_parameters(model, context, error);
    if (!status && model->latent)
        status = eitp__share_own_parameters(model->latent->encoder, context, error);
    if (status)
        eitp__variables_roll_back(context, variables, segments);
    return status;
}

eitp_status eitp_model_share(const eitp_model *model, eitp_context *context, eitp_model **shared, eitp_error *error) {
    eitp_model *created;
    eitp_status status;
    if (!model || !context || !shared)
        return eitp__fail_null(error, "eitp_model_share", "model, context and shared");
    *shared = NULL;
    status = eitp__share_check(model->context, context, error);
    if (status)
        return status;
    created = (eitp_model *)eitp__allocate(&context->host, sizeof *created);
    if (!created)
        return eitp__fail_memory(error, sizeof *created, "a model");
    created->host = context->host;
    status = eitp__share_copy_all(model, context, created, error);
    if (!status)
        status = eitp__share_parameters(model, context, error);
    if (status) {
        eitp_model_destroy(created);
        return status;
    }
    *shared = created;
    return EITP_OK;
}
