/* Removes the checkpoints that a run does not keep. A failure is reported and ends nothing. */
#include "io/checkpoint.h"
#include "run/events.h"
#include "run/run_loop.h"

/* The last save of a run that was asked to stop removes no other: it should not take long. */
static void eitp__prune_checkpoints_changed(eitp_run *run, void *state) {
    int *has_failed = (int *)state; /* which was reported */
    int64_t kept[EITP__KEPT_STEPS];
    eitp_error error;
    eitp_status status;
    if (run->report.end == EITP_RUN_STOPPED)
        return;
    eitp__run_list_kept(run, kept);
    status = eitp__checkpoint_clean(&run->host, run->directory, &error);
    if (!status)
        status = eitp__checkpoint_prune(&run->host, run->directory, run->config.save_total_limit, kept,
                                        EITP__KEPT_STEPS, &error);
    if (status && !*has_failed)
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                         "%s; old checkpoints stay, and the run tries again after the next save", error.message);
    *has_failed = run->prune_is_due = status != EITP_OK;
}

EITP__PRIVATE void eitp__prune_observer(eitp__observer *observer) {
    observer->state_size = sizeof(int);
    observer->needs_checkpoints = 1;
    observer->checkpoints_changed = eitp__prune_checkpoints_changed;
}
