#include "run/health.h"

#include "base/status.h"
#include "run/events.h"

EITP__PRIVATE eitp_status eitp__health_check(eitp_run *run, eitp_error *error) {
    const eitp_step_report *step = &run->report.step;
    if (step->applied) {
        run->nonfinite = 0;
        return EITP_OK;
    }
    /* With a loss scale above 1 the trainer reports it, and tries a smaller scale in the next step. */
    if (step->loss_scale > 1)
        return EITP_OK;
    run->nonfinite++;
    eitp__run_notify(run, EITP_EVENT_SKIPPED_STEP, EITP_LOG_WARNING, 0, "step %lld skipped: the gradient is not finite",
                     (long long)step->step);
    if (run->nonfinite < run->config.max_nonfinite)
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_NOT_FINITE,
                      "%lld steps in a row were skipped because the gradient is not finite; stopped after step %lld; "
                      "lower the learning rate, or resume from an earlier checkpoint",
                      (long long)run->nonfinite, (long long)step->step);
}
