#include "run/run_step.h"

#include "base/clock.h"
#include "base/files.h"
#include "run/poll.h"

EITP__PRIVATE eitp_status eitp__run_begin_observers(eitp_run *run, eitp_error *error) {
    eitp_status status = EITP_OK;
    EITP__EACH_OBSERVER (run, i, begin) {
        if (!status)
            status = run->observers[i].begin(run, run->states[i], error);
    }
    return status ? status : eitp__run_decided(run, error);
}

static eitp_status eitp__run_tell_before_step(eitp_run *run, eitp_error *error) {
    eitp_status status = EITP_OK;
    EITP__EACH_OBSERVER (run, i, before_step) {
        if (!status)
            status = run->observers[i].before_step(run, run->states[i], error);
    }
    return status;
}

/* Waits a second, in slices that a request to stop ends. */
static void eitp__run_rest(const eitp_run *run) {
    const int slices = 10;
    for (int i = 0; i < slices && !run->stop; i++)
        eitp__wait(&run->host, 1.0 / slices);
}

EITP__PRIVATE eitp_status eitp__run_before_step(eitp_run *run, eitp_error *error) {
    eitp_status status = eitp__run_tell_before_step(run, error);
    while (!status && !run->stop && eitp__run_is_held(run)) {
        run->report.work = EITP_RUN_PAUSES;
        eitp__run_rest(run);
        status = eitp__run_tell_before_step(run, error);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__run_repeat(eitp_run *run, eitp_status (*work)(eitp_run *run, eitp_error *error),
                                           eitp_error *error) {
    eitp_status status = work(run, error);
    while (status == EITP_ERROR_INTERRUPTED && !run->stop && eitp__run_is_interrupted(run)) {
        status = eitp__run_before_step(run, error);
        if (!status)
            status = work(run, error);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__run_make_step(eitp_run *run, eitp_error *error) {
    const double began = eitp__clock();
    eitp_run_report *report = &run->report;
    eitp_status status;
    report->work = EITP_RUN_STEPS;
    status = eitp_trainer_step(run->trainer, &report->step, error);
    if (status)
        return status;
    run->saves.is_early = 0;
    run->seconds = eitp__clock() - began;
    report->items += report->step.items;
    report->seconds += run->seconds;
    memset(&run->decision, 0, sizeof run->decision);
    EITP__EACH_OBSERVER (run, i, after_step) {
        run->observers[i].after_step(run, run->states[i], &run->decision);
    }
    return EITP_OK;
}
