#include "run/run_best.h"

#include "base/files.h"
#include "run/events.h"
#include "run/run_state.h"

EITP__PRIVATE int eitp__run_has_checkpoint(const eitp_run *run, int64_t step) {
    eitp_path_info info = EITP__ZERO;
    char name[64], *path;
    int is_missing;
    if (step < 0)
        return 0;
    snprintf(name, sizeof name, "checkpoint-%lld", (long long)step);
    path = eitp__join_path(&run->host, run->directory, name);
    is_missing = path && !eitp__path_info(&run->host, path, &info, NULL) && info.kind != EITP_PATH_DIRECTORY;
    eitp__release_text(&run->host, path);
    return !is_missing;
}

/* best.json is information for programs and people: a resume takes the evaluations from its checkpoint. */
EITP__PRIVATE void eitp__run_write_best(eitp_run *run) {
    eitp_error error;
    if (!eitp__best_write(&run->best, &run->host, run->directory, eitp__run_metric_name(run), run->keep_best != NULL,
                          &error)) {
        run->best_is_behind = 0;
        return;
    }
    run->best_is_behind = 1;
    if (!run->best_has_failed)
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                         "%s; the run continues, and tries again with each checkpoint", error.message);
    run->best_has_failed = 1;
}

EITP__PRIVATE void eitp__run_report_best(eitp_run *run) {
    const eitp__best_state *best = run->keep_best ? &run->best.saved : &run->best.now;
    run->report.best_step = best->step;
    run->report.best_value = best->value;
    run->stops_early = run->config.patience > 0 && run->best.now.since >= run->config.patience;
}

EITP__PRIVATE void eitp__run_confirm_best(eitp_run *run, int64_t step) {
    if (!run->keep_best || run->best.now.step != step || run->best.saved.step == step)
        return;
    run->best.saved = run->best.now;
    eitp__run_report_best(run);
    eitp__run_write_best(run);
}

/* Marks evaluations as lost until the best one has a checkpoint, or can have one. */
static void eitp__run_find_best(eitp_run *run, int64_t open) {
    eitp__best *best = &run->best;
    while (best->now.step >= 0 && best->now.step != open && !eitp__run_has_checkpoint(run, best->now.step))
        eitp__best_lose(best, best->now.step);
    if (best->now.step != open)
        best->saved = best->now;
    else if (!eitp__run_has_checkpoint(run, best->saved.step))
        best->saved = best->now, best->saved.step = -1, best->saved.value = (double)NAN;
    run->best_is_behind = 1;
    eitp__run_report_best(run);
}

static void eitp__notify_lost_best(eitp_run *run, int64_t step, const char *why) {
    const eitp__best_state *best = &run->best.now;
    char next[80] = "the next evaluation is the best so far";
    if (best->step >= 0)
        snprintf(next, sizeof next, "the best is now that of step %lld", (long long)best->step);
    eitp__run_notify(run, EITP_EVENT_NOT_KEPT, EITP_LOG_WARNING, 0,
                     "checkpoint-%lld, of the best evaluation so far, is not kept: %s; %s", (long long)step, why, next);
}

EITP__PRIVATE void eitp__run_lose_best(eitp_run *run, int64_t step, const char *why) {
    const int is_best = run->keep_best && run->best.now.step == step;
    if (!run->keep_best)
        return;
    eitp__best_lose(&run->best, step);
    eitp__run_find_best(run, eitp_trainer_steps_done(run->trainer));
    if (!is_best)
        return;
    eitp__notify_lost_best(run, step, why);
    eitp__run_write_best(run);
}

EITP__PRIVATE void eitp__run_check_best(eitp_run *run, int64_t open) {
    const int64_t step = run->best.now.step;
    if (!run->keep_best)
        return;
    eitp__run_find_best(run, open);
    if (run->best.now.step != step)
        eitp__notify_lost_best(run, step, "the directory does not have it");
}
