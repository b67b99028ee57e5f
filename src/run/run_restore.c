#include "run/run_restore.h"

#include "base/files.h"
#include "run/events.h"
#include "run/run_best.h"
#include "run/run_directory.h"
#include "run/run_state.h"

/* The old metrics.jsonl has no name any more. Its sink is the last. */
static eitp_status eitp__run_replace_metrics(eitp_run *run, eitp_error *error) {
    eitp_status status;
    if (!run->metrics)
        return EITP_OK;
    run->sink_count--;
    eitp__run_close_metrics(run);
    status = eitp__run_open_metrics(run, error);
    if (!status)
        run->sinks[run->sink_count++] = eitp_jsonl_sink(run->metrics);
    return status;
}

/* The directory that is locked is still open, so its identity is not given to another one. */
static int eitp__is_replaced(const eitp_run *run, const eitp_path_info *info) {
    return info->identity && run->identity && info->identity != run->identity;
}

EITP__PRIVATE eitp_status eitp__run_restore_directory(eitp_run *run, eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    eitp_status status = eitp__path_info(&run->host, run->directory, &info, error);
    if (status || (info.kind != EITP_PATH_MISSING && !eitp__is_replaced(run, &info)))
        return status;
    status = eitp__make_directories(&run->host, run->directory, error);
    if (status)
        return status;
    eitp__run_unlock(run);
    status = eitp__run_lock(run, error);
    if (!status)
        status = eitp__run_replace_metrics(run, error);
    if (status)
        return status;
    run->best_is_behind = eitp__run_follows_best(run);
    eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                     info.kind == EITP_PATH_MISSING
                         ? "'%s' was removed, with its checkpoints and records; it is created again, and the run "
                           "continues"
                         : "'%s' was replaced by another directory, without the run's checkpoints and records; the run "
                           "continues in it",
                     run->directory);
    eitp__run_check_best(run, eitp_trainer_steps_done(run->trainer));
    return EITP_OK;
}
