#include "run/run_withdraw.h"

#include "base/files.h"
#include "io/io.h"
#include "run/async_save.h"
#include "run/events.h"
#include "run/run_links.h"
#include "train/trainer.h"

/* Steps between a checkpoint that is withdrawn and the one before it, at most. */
#define EITP__WITHDRAWN_STEPS 10

EITP__PRIVATE void eitp__run_judge_checkpoint(eitp_run *run) {
    const eitp_run_report *report = &run->report;
    const int64_t newest = eitp__run_newest_save(run);
    const double limit = eitp__health_limit(&run->health, eitp__trainer_task(run->trainer)->guess_loss);
    if (run->judged_step != newest)
        run->bad_losses = 0;
    run->judged_step = newest;
    run->bad_losses += !(report->step.loss <= limit) && report->step.step <= newest + EITP__HEALTH_LAST;
}

/* "<directory>/checkpoint-<step><suffix>", or NULL without memory. */
static char *eitp__run_checkpoint_path(const eitp_run *run, int64_t step, const char *suffix) {
    char name[64];
    snprintf(name, sizeof name, "checkpoint-%lld%s", (long long)step, suffix);
    return eitp__join_path(&run->host, run->directory, name);
}

/* The step of the newest whole checkpoint at most EITP__WITHDRAWN_STEPS before `step`, or -1. */
static int64_t eitp__run_find_before(const eitp_run *run, int64_t step) {
    for (int64_t older = step - 1; older > 0 && older >= step - EITP__WITHDRAWN_STEPS; older--) {
        char *path = eitp__run_checkpoint_path(run, older, "");
        eitp_path_info info = EITP__ZERO;
        const int is_whole = path && !eitp__path_info(&run->host, path, &info, NULL) &&
                             info.kind == EITP_PATH_DIRECTORY && !eitp_checkpoint_verify(&run->host, path, NULL);
        eitp__release_text(&run->host, path);
        if (is_whole)
            return older;
    }
    return -1;
}

/* Renames it, over one of an earlier attempt. */
static eitp_status eitp__run_rename_ruined(const eitp_run *run, int64_t step, eitp_error *error) {
    const eitp_host *host = &run->host;
    char *path = eitp__run_checkpoint_path(run, step, ""), *ruined = eitp__run_checkpoint_path(run, step, ".diverged");
    eitp_status status = path && ruined ? eitp__remove_tree(host, ruined, error)
                                        : eitp__fail_memory(error, strlen(run->directory), "a path");
    if (!status)
        status = eitp__rename_path(host, path, ruined, error);
    if (!status)
        status = eitp__sync_directory(host, run->directory, error);
    eitp__release_text(host, path);
    eitp__release_text(host, ruined);
    return status;
}

EITP__PRIVATE void eitp__run_withdraw(eitp_run *run) {
    eitp_run_report *report = &run->report;
    const int64_t step = report->saved_step;
    int64_t before;
    eitp_error error;
    /* An evaluation that found it the best, and a copy of it in progress, are reasons to keep it. */
    if (step < 0 || step != run->judged_step || run->bad_losses < EITP__HEALTH_LAST || step == run->kept_step ||
        (run->keep_best && step == run->best.now.step))
        return;
    before = eitp__run_find_before(run, step);
    if (before < 0)
        return;
    if (eitp__run_rename_ruined(run, step, &error)) {
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0, "a ruined checkpoint keeps its name: %s",
                         error.message);
        return;
    }
    report->saved_step = before;
    eitp__run_update_links(run);
    eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                     "the model was ruined when checkpoint-%lld was saved, as the steps after it show: renamed it "
                     "checkpoint-%lld.diverged",
                     (long long)step, (long long)step);
}
