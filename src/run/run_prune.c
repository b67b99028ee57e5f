#include "run/run_prune.h"

#include "io/checkpoint.h"
#include "run/events.h"
#include "run/run_links.h"
#include "run/run_state.h"

EITP__PRIVATE void eitp__run_prune(eitp_run *run) {
    const int has_failed = run->prune_has_failed;
    int64_t kept[EITP__KEPT_STEPS];
    eitp_error error;
    eitp_status status;
    if (run->async.save) /* which looks like a leftover; pruning follows when it is complete */
        return;
    eitp__run_list_kept(run, kept);
    eitp__run_update_links(run);
    status = eitp__checkpoint_clean(&run->host, run->directory, &error);
    if (!status)
        status = eitp__checkpoint_prune(&run->host, run->directory, run->config.save_total_limit, kept,
                                        EITP__KEPT_STEPS, &error);
    run->prune_has_failed = run->prune_is_due = status != EITP_OK;
    if (run->prune_has_failed && !has_failed)
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                         "%s; old checkpoints stay, and the run tries again after the next save", error.message);
}
