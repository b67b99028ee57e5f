/* The table of regularizers, and the resolution of configurations by it. */
#include "objective/objective.h"

#include "base/platform.h"
#include "objective/objective_settings.h"
#include "objective/resolve.h"

/* Steps between two computations of a regularizer with separate passes, as a metric and as a loss. */
#define EITP__METRIC_EVERY 50
#define EITP__LOSS_EVERY 10

#define EITP__REGULARIZER_INFO(type, at, ID, name, term_kind, passes, own_weight, safe, safe_weight, paper,            \
                               paper_weight, help)                                                                     \
    {                                                                                                                  \
        EITP_##ID, name, EITP__TERM_##term_kind, passes, own_weight, {                                                 \
            {EITP_TERM_OFF, -1}, {EITP_TERM_##safe, safe_weight}, {EITP_TERM_##paper, paper_weight},                   \
        }                                                                                                              \
    }

static const eitp__regularizer_info eitp__regularizers[EITP_REGULARIZERS] = {
    EITP__REGULARIZER_LIST(EITP__REGULARIZER_INFO, , )};

static const eitp_setting eitp__objective_settings[] = {EITP__OBJECTIVE_SETTINGS(eitp_objective_config, )};

EITP__PRIVATE const eitp__regularizer_info *eitp__regularizer_get(eitp_regularizer regularizer) {
    return (int)regularizer >= 0 && regularizer < EITP_REGULARIZERS ? &eitp__regularizers[regularizer] : NULL;
}

EITP__PRIVATE const char *eitp__regularizer_name(eitp_regularizer regularizer) {
    const eitp__regularizer_info *info = eitp__regularizer_get(regularizer);
    return info ? info->name : NULL;
}

eitp_objective_config eitp_objective_config_default(void) {
    eitp_objective_config config = EITP__ZERO;
    eitp__settings_reset(eitp__objective_settings, EITP__COUNT(eitp__objective_settings), &config);
    return config;
}

eitp_regularizer_config eitp_regularizer_config_default(void) {
    return eitp_objective_config_default().terms[0];
}

/* ---- Resolving ---- */

static eitp_status eitp__objective_order(const char *low_name, double low, const char *high_name, double high,
                                         eitp_error *error) {
    if (low <= high)
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s must be at most %s, which is %g (got %g)", low_name, high_name,
                      high, low);
}

static eitp_status eitp__objective_check(const eitp_objective_config *config, eitp_error *error) {
    eitp_status status =
        eitp__settings_check(eitp__objective_settings, EITP__COUNT(eitp__objective_settings), config, error);
    if (!status)
        status = eitp__objective_order("entropy_low", config->entropy_low, "entropy_high", config->entropy_high, error);
    if (!status)
        status = eitp__objective_order("controller_min", config->controller_min, "controller_max",
                                       config->controller_max, error);
    return status;
}

static eitp_term_mode eitp__resolve_mode(const eitp_regularizer_config *term, const eitp__preset_term *preset) {
    if (term->mode != EITP_TERM_PRESET)
        return term->mode;
    if (term->weight < 0)
        return preset->mode;
    return term->weight > 0 ? EITP_TERM_LOSS : EITP_TERM_OFF;
}

static int64_t eitp__usual_every(const eitp__regularizer_info *info, eitp_term_mode mode) {
    if (!info->has_own_passes || mode == EITP_TERM_OFF)
        return 1;
    return mode == EITP_TERM_LOSS ? EITP__LOSS_EVERY : EITP__METRIC_EVERY;
}

static eitp_status eitp__resolve_term(const eitp__regularizer_info *info, eitp_objective_preset preset,
                                      eitp_regularizer_config *term, eitp_error *error) {
    const eitp__preset_term *of_preset = &info->presets[preset];
    term->mode = eitp__resolve_mode(term, of_preset);
    if (term->mode == EITP_TERM_LOSS && info->kind == EITP__TERM_MACHINE)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "%s has no gradient and cannot be a loss; set it to metric or off", info->name);
    if (term->weight < 0)
        term->weight = of_preset->weight < 0 ? info->weight : of_preset->weight;
    if (!term->every)
        term->every = eitp__usual_every(info, term->mode);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__objective_resolve(const eitp_objective_config *config, eitp_objective_config *resolved,
                                                  eitp_error *error) {
    eitp_objective_config open = *config;
    eitp_status status = eitp__objective_check(config, error);
    for (int i = 0; i < EITP_REGULARIZERS && !status; i++)
        status = eitp__resolve_term(&eitp__regularizers[i], open.preset, &open.terms[i], error);
    if (!status)
        *resolved = open;
    return status;
}
