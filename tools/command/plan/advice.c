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

/* Chooses with one optimizer. A search is saved where its weights and states alone exceed the budget. */
static eitp_status choose_with(const eitp_fit *fit, eitp_optimizer optimizer, eitp_fit_candidate *chosen,
                               eitp_error *error) {
    eitp_fit one = *fit;
    size_t budget;
    eitp_status status;
    one.any_optimizer = 0;
    one.trainer.optimizer_config.optimizer = optimizer;
    memset(chosen, 0, sizeof *chosen);
    chosen->optimizer = optimizer;
    chosen->micro_batches_per_pass = one.trainer.micro_batches_per_pass;
    chosen->plan.recompute = EITP_RECOMPUTE_NONE;
    chosen->offload = one.context.offload;
    status = eitp_fit_measure(&one, chosen, error);
    budget = chosen->device ? fit->device_budget : fit->budget;
    if (!status && !one.any_offload && budget && chosen->parameters + chosen->states > budget)
        return command_fail(error, EITP_ERROR_MEMORY, "weights and optimizer state alone exceed the budget");
    return status ? status : eitp_fit_choose(&one, chosen, NULL, error);
}

/* The first optimizer as exact as AdamW that fits, or the one that is requested. EITP_ERROR_MEMORY: none fits. */
static eitp_status choose_exact(const eitp_fit *fit, eitp_fit_candidate *chosen, eitp_error *error) {
    eitp_status status = EITP_ERROR_MEMORY;
    if (!fit->any_optimizer)
        return choose_with(fit, fit->trainer.optimizer_config.optimizer, chosen, error);
    for (int i = 0; i < EITP_OPTIMIZER_COUNT && status; i++) {
        if (eitp_optimizer_get((eitp_optimizer)i)->fidelity > EITP_SEED_NOISE)
            continue;
        status = choose_with(fit, (eitp_optimizer)i, chosen, error);
        /* fp16 does not support every form of weights. */
        if (status && status != EITP_ERROR_MEMORY && status != EITP_ERROR_UNSUPPORTED)
            return status;
    }
    return status ? EITP_ERROR_MEMORY : EITP_OK;
}

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
    found->batch_size = run.fit.trainer.batch_size;
    found->grad_accum = run.fit.trainer.grad_accum;
    found->block_size = run.plan.block_size;
    found->budget = run.fit.budget;
    status = profile_takes_least(o) ? fit_choose_least(&run.fit, &found->chosen, error)
                                    : choose_exact(&run.fit, &found->chosen, error);
    if (!status)
        fit_describe(&run.fit, &found->chosen, found->configuration, sizeof found->configuration);
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
    return status;
}

eitp_status advice_settle_profile(option_set *o, const eitp_transformer_config *shape, eitp_error *error) {
    advice found;
    eitp_status status = EITP_OK;
    if (profile_is_auto(o)) {
        status = advice_choose_profile(o, shape, process_memory(), &found, error);
        if (status)
            return status;
        process_trim_memory(); /* so that the plan of the run finds the process as it was */
        output_info("profile auto: %s (%lld x %lld x %lld), the largest that %s in %s (%s: %s)", found.profile,
                    (long long)found.batch_size, (long long)found.block_size, (long long)found.grad_accum,
                    found.chosen.fits ? "fits" : "may fit",
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
