#include "model/adapt.h"

#include "files.h"
#include "model/model.h"
#include "output.h"

int adapt_is_requested(const option_set *o) {
    return options_integer(o, OPTION_LORA_RANK) > 0;
}

eitp_status adapt_check(const option_set *o, int starts_from_model, eitp_error *error) {
    static const option_id others[] = {OPTION_LORA_ALPHA, OPTION_LORA_DROPOUT, OPTION_LORA_TARGETS,
                                       OPTION_LORA_MODULES_TO_SAVE, OPTION_LORA_RSLORA};
    eitp_lora_config lora = eitp_lora_config_default();
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < COMMAND_COUNT(others) && !adapt_is_requested(o); i++) {
        if (options_is_explicit(o, others[i]) && options_is_in_force(o, others[i]))
            return command_fail(error, EITP_ERROR_ARGUMENT, "--%s requires --lora-rank, which adds adapters",
                                options_name(others[i]));
    }
    if (!adapt_is_requested(o))
        return EITP_OK;
    if (!starts_from_model)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--lora-rank requires --model: adapters are trained on top of existing weights");
    if (options_has(o, OPTION_FREEZE))
        return command_fail(
            error, EITP_ERROR_ARGUMENT,
            "--freeze and --lora-rank cannot be used together: with adapters all other weights are frozen");
    if (options_has(o, OPTION_LORA_TARGETS))
        status = eitp_lora_targets_parse(NULL, options_text(o, OPTION_LORA_TARGETS), &lora, error);
    if (!status && options_has(o, OPTION_LORA_MODULES_TO_SAVE))
        status = eitp_lora_saved_parse(NULL, options_text(o, OPTION_LORA_MODULES_TO_SAVE), &lora.saved, error);
    return status;
}

/* Returns the names of the layers that get adapters. The caller frees them. */
static char *format_targets(const eitp_architecture *architecture, const eitp_lora_config *lora) {
    const size_t size = eitp_lora_targets_format(architecture, lora, NULL, 0) + 1;
    char *names = (char *)command_allocate(size);
    eitp_lora_targets_format(architecture, lora, names, size);
    return names;
}

void adapt_take_options(option_set *o, const eitp_checkpoint_info *info) {
    const eitp_lora_config *lora = &info->lora;
    char *targets, saved[200];
    if (!lora->rank)
        return;
    targets = format_targets(info->architecture, lora);
    options_set_integer(o, OPTION_LORA_RANK, lora->rank, SOURCE_CHECKPOINT);
    options_set_number(o, OPTION_LORA_ALPHA, lora->alpha, SOURCE_CHECKPOINT);
    options_set_number(o, OPTION_LORA_DROPOUT, lora->dropout, SOURCE_CHECKPOINT);
    options_set_text(o, OPTION_LORA_TARGETS, targets, SOURCE_CHECKPOINT);
    free(targets);
    if (eitp_lora_saved_format(info->architecture, lora->saved, saved, sizeof saved))
        options_set_text(o, OPTION_LORA_MODULES_TO_SAVE, saved, SOURCE_CHECKPOINT);
    options_set_integer(o, OPTION_LORA_RSLORA, lora->rslora, SOURCE_CHECKPOINT);
}

void adapt_log(const eitp_model *model) {
    enum { SHOWN = 160 };
    int64_t trained = eitp_model_trained_parameter_count(model), all = eitp_model_parameter_count(model);
    eitp_lora_config lora = eitp_model_lora_config(model);
    char targets[SHOWN + 1];
    int shown = SHOWN;
    const int is_cut =
        eitp_lora_targets_format(eitp_model_config(model).architecture, &lora, targets, sizeof targets) > SHOWN;
    while (is_cut && shown && targets[shown] != ',')
        shown--;
    if (lora.rank)
        output_info("adapters: rank %lld, alpha %g, layers %.*s%s; training %lld parameters, %.3g %% of the model's",
                    (long long)lora.rank, lora.alpha, shown, targets, is_cut ? ",..." : "", (long long)trained,
                    100 * (double)trained / (double)all);
    else if (trained < all)
        output_info("training %lld of %lld parameters; the others are frozen", (long long)trained, (long long)all);
}
