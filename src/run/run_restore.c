#include "run/run_restore.h"

#include "base/files.h"
#include "run/events.h"
#include "run/run_directory.h"
#include "run/sinks.h"

/* The directory that is locked is still open, so its identity is not given to another one. */
static int eitp__is_replaced(const eitp_run *run, const eitp_path_info *info) {
    return info->identity && run->lock.identity && info->identity != run->lock.identity;
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
        status = eitp__sinks_replace_reports(run, error);
    if (status)
        return status;
    eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                     info.kind == EITP_PATH_MISSING
                         ? "'%s' was removed, with its checkpoints and records; it is created again, and the run "
                           "continues"
                         : "'%s' was replaced by another directory, without the run's checkpoints and records; the run "
                           "continues in it",
                     run->directory);
    EITP__EACH_OBSERVER (run, i, directory_replaced) {
        run->observers[i].directory_replaced(run, run->states[i]);
    }
    return EITP_OK;
}
