#include "plan/advice.h"

#include "files.h"
#include "model/model.h"
#include "options/profile.h"
#include "output.h"
#include "process.h"

static const char *const from_the_largest[] = {"full", "safe", "low-memory"};

const char *advice_tier(double bytes, double gpu_bytes) {
    const double least = 2 * gpu_bytes < bytes ? 2 * gpu_bytes : bytes;
    return least > 16e9 ? "full" : least >= 8e9 ? "safe" : "low-memory";
}

/* A run of an option set, as the planner sees it. */
typedef struct advised_run {
    char isa[MODEL_ISA_SIZE];
    fit_plan plan;
    eitp_fit fit;
} advised_run;

/* `run` must stay where it is. */
static eitp_status describe_run(const option_set *o, const eitp_transformer_config *shape, size_t process,
                                advised_run *run, eitp_error *error) {
    eitp_status status = fit_from_options(o, shape, NULL, run->isa, &run->plan, &run->fit, error);
    run->plan.validates = 1;
    run->fit.process = process;
    return status;
}

/* Describes what a run takes: the configuration that train would choose, or if none fits and it is asked for the
   smallest. */
static eitp_status describe_choice(const option_set *o, const advised_run *run, int asks_smallest, advice *found,
                                   eitp_error *error) {
    eitp_fit_candidate smallest;
    eitp_status status =
        fit_search(o, &run->fit, &found->chosen, asks_smallest ? &smallest : NULL, asks_smallest ? error : NULL);
    if (status && status != EITP_ERROR_MEMORY && !asks_smallest)
        status = fit_search(o, &run->fit, &found->chosen, NULL, error); /* for its reason */
    found->batch_size = run->fit.trainer.batch_size;
    found->grad_accum = run->fit.trainer.grad_accum;
    found->block_size = run->plan.block_size;
    found->budget = run->fit.budget;
    if (status == EITP_ERROR_MEMORY && asks_smallest)
        found->chosen = smallest;
    if (!status || (status == EITP_ERROR_MEMORY && asks_smallest))
        fit_describe(&run->fit, &found->chosen, found->configuration, sizeof found->configuration);
    return status;
}

/* A profile fits with an optimizer as exact as AdamW; the one that takes the least memory with any. */
static eitp_status try_profile(option_set *o, const eitp_transformer_config *shape, size_t process, const char *profile,
                               advice *found, eitp_error *error) {
    advised_run run;
    eitp_status status;
    options_set_text(o, OPTION_PROFILE, profile, o->values[OPTION_PROFILE].source);
    profile_apply(o);
    status = describe_run(o, shape, process, &run, error);
    if (status)
        return status;
    found->profile = profile;
    status = describe_choice(o, &run, profile_takes_least(o), found, error);
    if (!status && run.fit.any_optimizer && !profile_takes_least(o) &&
        eitp_optimizer_get(found->chosen.optimizer)->fidelity > EITP_SEED_NOISE)
        return command_fail(error, EITP_ERROR_MEMORY, "profile %s fits only with an approximation", profile);
    return status;
}

/* The budget that the profiles are tried with: read once, so that it is the same for all. */
static eitp_status read_budget(option_set *o, uint64_t *total, eitp_error *error) {
    const eitp_host host = command_host();
    eitp_memory_info info;
    eitp_status status = eitp_memory_info_read(&host, &info, error);
    *total = status ? 0 : info.total;
    if (!status && !options_integer(o, OPTION_MEMORY_BUDGET))
        options_set_integer(o, OPTION_MEMORY_BUDGET, (int64_t)eitp_memory_budget_default(&info), SOURCE_DEFAULT);
    return status;
}

eitp_status advice_choose_profile(option_set *o, const eitp_transformer_config *shape, size_t process, advice *found,
                                  eitp_error *error) {
    const int has_budget = options_integer(o, OPTION_MEMORY_BUDGET) > 0;
    uint64_t total;
    size_t i = 0;
    eitp_status status = read_budget(o, &total, error);
    memset(found, 0, sizeof *found);
    if (status)
        return status;
    if (!options_integer(o, OPTION_MEMORY_BUDGET))
        return try_profile(o, shape, process, advice_tier((double)total, (double)NAN), found, error);
    do {
        status = try_profile(o, shape, process, from_the_largest[i], found, error);
    } while (status == EITP_ERROR_MEMORY && ++i < COMMAND_COUNT(from_the_largest));
    if (!has_budget)
        options_clear(o, OPTION_MEMORY_BUDGET);
    return status == EITP_ERROR_MEMORY ? EITP_OK : status;
}

eitp_status advice_without_profile(const option_set *o, const eitp_transformer_config *shape, size_t process,
                                   advice *found, eitp_error *error) {
    advised_run run;
    eitp_status status = describe_run(o, shape, process, &run, error);
    if (status)
        return status;
    fit_open_lengths(&run.plan, &run.fit);
    found->profile = "none";
    status = describe_choice(o, &run, 1, found, error);
    return status == EITP_ERROR_MEMORY ? EITP_OK : status;
}

eitp_status advice_settle_profile(option_set *o, const eitp_transformer_config *shape, eitp_error *error) {
    advice found;
    eitp_status status = EITP_OK;
    if (profile_is_auto(o)) {
        status = advice_choose_profile(o, shape, process_memory(), &found, error);
        if (status)
            return status;
        process_trim_memory(); /* so that the plan of the run finds the process as it was */
        output_info("profile auto: %s (%lld x %lld x %lld), the %s in %s (%s: %s)", found.profile,
                    (long long)found.batch_size, (long long)found.block_size, (long long)found.grad_accum,
                    found.chosen.fits ? "largest that fits" : "smallest, which does not fit",
                    found.budget ? output_bytes((double)found.budget) : "memory of unknown size", found.configuration,
                    output_bytes((double)found.chosen.total));
    }
    profile_adapt(o, shape);
    return EITP_OK;
}

eitp_status advice_largest_batch(option_set *o, const eitp_transformer_config *shape, size_t process, int64_t most,
                                 int64_t *largest, eitp_error *error) {
    advised_run run;
    eitp_status status = describe_run(o, shape, process, &run, error);
    *largest = 0;
    for (int64_t batch = 1; batch <= most && !status; batch *= 2) {
        eitp_fit_candidate candidate = eitp_fit_candidate_default();
        run.fit.trainer.batch_size = batch;
        run.fit.trainer.grad_accum = 1;
        candidate.optimizer = EITP_ADAMW;
        candidate.plan.recompute = EITP_RECOMPUTE_NONE;
        status = eitp_fit_measure(&run.fit, &candidate, error);
        if (status || !candidate.fits)
            break;
        *largest = batch;
    }
    return status;
}
