/* Learners of a pass: parameters with their own optimizer. */
#include "model/lora.h"
#include "model/transformer.h"
#include "task/pass.h"
#include "tensor/context.h"
#include "tensor/op_rules.h"

eitp_learner_config eitp_learner_config_default(void) {
    const eitp_optimizer_config optimizer = eitp_optimizer_config_default();
    eitp_learner_config config = EITP__ZERO;
    config.optimizer = EITP_ADAMW;
    config.beta1 = optimizer.beta1;
    config.beta2 = optimizer.beta2;
    config.epsilon = optimizer.epsilon;
    config.schedule = eitp_schedule_default();
    config.schedule.peak = 1e-3;
    return config;
}

/* Returns the error in the arguments of eitp_pass_learner, or NULL. The optimizer's settings are checked later. */
static const char *eitp__learner_error(const eitp_pass *pass, const char *prefix, const eitp_learner_config *config) {
    if (!prefix || !*prefix || strlen(prefix) >= EITP_SCALAR_NAME_SIZE)
        return "expected a prefix of 1 to 31 bytes";
    if (pass->learner_count == EITP_MAX_LEARNERS)
        return "a pass has at most 4 learners";
    if (config->schedule.kind == EITP_SCHEDULE_PLATEAU)
        return "its schedule cannot be EITP_SCHEDULE_PLATEAU, which follows the model's evaluations";
    if (!(config->schedule.peak >= 0 && isfinite(config->schedule.peak) && config->schedule.final >= 0 &&
          isfinite(config->schedule.final)))
        return "its learning rates must be 0 or more, and finite";
    return config->max_grad_norm >= 0 ? NULL : "its max_grad_norm must be 0 (no clipping) or more";
}

void eitp_pass_learner(eitp_pass *pass, const char *prefix, const eitp_learner_config *config) {
    const eitp_learner_config usual = eitp_learner_config_default();
    eitp__learner *learner;
    const char *mistake;
    if (!pass || !pass->trains || pass->probe)
        return;
    config = config ? config : &usual;
    mistake = eitp__learner_error(pass, prefix, config);
    if (mistake) {
        eitp__graph_fail(pass->graph, EITP_ERROR_ARGUMENT, "learner '%.60s': %s", prefix ? prefix : "", mistake);
        return;
    }
    learner = &pass->learners[pass->learner_count++];
    snprintf(learner->prefix, sizeof learner->prefix, "%s", prefix);
    learner->config = *config;
}

static int eitp__learner_has(const eitp__learner *learner, const char *parameter) {
    return !strncmp(parameter, learner->prefix, strlen(learner->prefix));
}

EITP__PRIVATE int eitp__pass_learner_of(const eitp_pass *pass, const char *parameter) {
    int i = 0;
    while (i < pass->learner_count && !eitp__learner_has(&pass->learners[i], parameter))
        i++;
    return i < pass->learner_count ? i : -1;
}

/* Checks a parameter of the learner at `index`. */
static eitp_status eitp__learner_check_parameter(const eitp_pass *pass, int index, const eitp_variable *parameter,
                                                 eitp_error *error) {
    const eitp_model *model = pass->task->model;
    const char *name = parameter->name, *prefix = pass->learners[index].prefix;
    const int first = eitp__pass_learner_of(pass, name);
    eitp__parameter found;
    if (first != index)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "parameter '%.100s' is both learner '%s' and learner '%s'", name,
                          pass->learners[first].prefix, prefix);
    if (eitp__lora_is_adapter(name) || (model && eitp__parameter_find(&model->config, name, &found)))
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "learner '%s': parameter '%.100s' belongs to the model and is updated by the trainer's optimizer; "
            "choose another prefix",
            prefix, name);
    return parameter->dtype == EITP_F32
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_ARGUMENT, "learner '%s': parameter '%.100s' is %s; it must be f32",
                            prefix, name, eitp_dtype_name(parameter->dtype));
}

/* Marks the parameters of a learner. */
static eitp_status eitp__learner_mark(const eitp_pass *pass, int index, eitp_error *error) {
    eitp_context *context = pass->graph->context;
    const eitp__learner *learner = &pass->learners[index];
    eitp_status status = EITP_OK;
    int is_used = 0;
    for (size_t i = 0; i < context->variable_count && !status; i++) {
        eitp_variable *variable = &context->variables[i].info;
        if (variable->role != EITP_PARAMETER || !eitp__learner_has(learner, variable->name))
            continue;
        status = eitp__learner_check_parameter(pass, index, variable, error);
        variable->of_learner = !status;
        is_used |= variable->trained && i < pass->graph->variable_capacity && pass->graph->variables[i];
    }
    if (!status && !is_used)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "learner '%s': no trained parameter of the pass has this prefix", learner->prefix);
    return status;
}

EITP__PRIVATE eitp_status eitp__pass_check_learners(const eitp_pass *pass, eitp_error *error) {
    eitp_context *context = pass->graph->context;
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < context->variable_count; i++)
        context->variables[i].info.of_learner = 0; /* set by another trainer */
    for (int i = 0; i < pass->learner_count && !status; i++)
        status = eitp__learner_mark(pass, i, error);
    return status;
}
