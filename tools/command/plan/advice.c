#include "plan/advice.h"

#include "files.h"
#include "options/profile.h"
#include "output.h"
#include "process.h"

static const char *const from_the_largest[] = {"full", "safe", "low-memory"};

const char *advice_tier(double bytes, double gpu_bytes) {
    const double least = 2 * gpu_bytes < bytes ? 2 * gpu_bytes : bytes;
    return least > 16e9 ? "full" : least >= 8e9 ? "safe" : "low-memory";
}

/* Finds the configuration that train would choose, or the smallest if none fits. */
static eitp_status choose(eitp_training *training, advice *found, eitp_error *error) {
    const eitp_recipe *recipe = eitp_training_get_recipe(training);
    const eitp_fit *fit = eitp_training_get_fit(training);
    eitp_fit_candidate smallest;
    eitp_status status = eitp_training_describe(training, error);
    if (status)
        return status;
    status = eitp_fit_choose(fit, &found->chosen, &smallest, error);
    if (status == EITP_ERROR_MEMORY)
        found->chosen = smallest;
    found->batch_size = fit->trainer.batch_size;
    found->grad_accum = fit->trainer.grad_accum;
    found->block_size = recipe->task.block_size;
    found->budget = fit->budget;
    if (!status || status == EITP_ERROR_MEMORY)
        fit_describe(fit, &found->chosen, found->configuration, sizeof found->configuration);
    return status;
}

/* A profile counts as fitting only with an optimizer as exact as AdamW; the one with the least memory, with any. */
static eitp_status try_profile(option_set *o, eitp_training *training, const char *profile, advice *found,
                               eitp_error *error) {
    eitp_status status;
    options_set_text(o, OPTION_PROFILE, profile, o->values[OPTION_PROFILE].source);
    profile_apply(o);
    found->profile = profile;
    status = fit_follow_options(o, training, error);
    if (!status)
        status = choose(training, found, error);
    if (!status && eitp_training_get_fit(training)->any_optimizer && !profile_takes_least(o) &&
        eitp_optimizer_get(found->chosen.optimizer)->fidelity > EITP_SEED_NOISE)
        return command_fail(error, EITP_ERROR_MEMORY, "profile %s fits only with an approximation", profile);
    return status;
}

/* Reads the budget for all profiles, once, so that it is the same for all. */
static eitp_status read_budget(option_set *o, uint64_t *total, eitp_error *error) {
    const eitp_host host = command_host();
    eitp_memory_info info;
    eitp_status status = eitp_memory_info_read(&host, &info, error);
    *total = status ? 0 : info.total;
    if (!status && !options_integer(o, OPTION_MEMORY_BUDGET))
        options_set_integer(o, OPTION_MEMORY_BUDGET, (int64_t)eitp_memory_budget_default(&info), SOURCE_DEFAULT);
    return status;
}

static eitp_status try_profiles(option_set *o, eitp_training *training, uint64_t total, advice *found,
                                eitp_error *error) {
    size_t i = 0;
    eitp_status status;
    if (!options_integer(o, OPTION_MEMORY_BUDGET))
        return try_profile(o, training, advice_tier((double)total, (double)NAN), found, error);
    /* Data too short for the windows of one profile may be long enough for the next. */
    do {
        status = try_profile(o, training, from_the_largest[i], found, error);
    } while ((status == EITP_ERROR_MEMORY || status == EITP_ERROR_ARGUMENT) && ++i < COMMAND_COUNT(from_the_largest));
    return status == EITP_ERROR_MEMORY ? EITP_OK : status;
}

eitp_status advice_choose_profile(option_set *o, eitp_training *training, size_t process, advice *found,
                                  eitp_error *error) {
    const int has_budget = options_integer(o, OPTION_MEMORY_BUDGET) > 0;
    eitp_recipe *recipe = eitp_training_get_recipe(training);
    uint64_t total;
    eitp_status status = read_budget(o, &total, error);
    memset(found, 0, sizeof *found);
    recipe->memory.process = process;
    if (!status)
        status = try_profiles(o, training, total, found, error);
    recipe->memory.process = 0;
    if (!has_budget)
        options_clear(o, OPTION_MEMORY_BUDGET);
    return status;
}

eitp_status advice_without_profile(eitp_training *training, size_t process, advice *found, eitp_error *error) {
    eitp_status status;
    memset(found, 0, sizeof *found);
    found->profile = "none";
    eitp_training_get_recipe(training)->memory.process = process;
    status = choose(training, found, error);
    return status == EITP_ERROR_MEMORY ? EITP_OK : status;
}

eitp_status advice_resolve_profile(option_set *o, eitp_training *training, eitp_error *error) {
    advice found;
    eitp_status status = EITP_OK;
    if (profile_is_auto(o)) {
        status = advice_choose_profile(o, training, process_memory(), &found, error);
        if (status)
            return status;
        process_trim_memory(); /* restores the process's memory for planning the run */
        output_info("profile auto: %s (%lld x %lld x %lld), the %s in %s (%s: %s)", found.profile,
                    (long long)found.batch_size, (long long)found.block_size, (long long)found.grad_accum,
                    found.chosen.fits ? "largest that fits" : "smallest, which does not fit",
                    found.budget ? output_bytes((double)found.budget) : "memory of unknown size", found.configuration,
                    output_bytes((double)found.chosen.total));
    }
    profile_adapt(o, eitp_training_get_shape(training));
    return fit_follow_options(o, training, error);
}

eitp_status advice_largest_batch(eitp_training *training, int64_t most, int64_t *largest, eitp_error *error) {
    eitp_status status = eitp_training_describe(training, error);
    eitp_fit fit = *eitp_training_get_fit(training);
    *largest = 0;
    for (int64_t batch = 1; batch <= most && !status; batch *= 2) {
        eitp_fit_candidate candidate = eitp_fit_candidate_default();
        fit.trainer.batch_size = batch;
        fit.trainer.grad_accum = 1;
        candidate.optimizer = EITP_ADAMW;
        candidate.plan.recompute = EITP_RECOMPUTE_NONE;
        status = eitp_fit_measure(&fit, &candidate, error);
        if (status || !candidate.fits)
            break;
        *largest = batch;
    }
    return status;
}
