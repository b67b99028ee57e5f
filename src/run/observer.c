#include "run/observer.h"

#include "run/run_loop.h"

EITP__PRIVATE int eitp__run_is_held(const eitp_run *run) {
    EITP__EACH_OBSERVER (run, i, holds) {
        if (run->observers[i].holds(run, run->states[i]))
            return 1;
    }
    return 0;
}

EITP__PRIVATE eitp__judgement eitp__run_judge(const eitp_run *run) {
    eitp__judgement worst = EITP__ZERO;
    EITP__EACH_OBSERVER (run, i, judge) {
        eitp__judgement one = EITP__ZERO;
        run->observers[i].judge(run, run->states[i], &one);
        worst = one.verdict > worst.verdict ? one : worst;
    }
    return worst;
}

EITP__PRIVATE int eitp__run_is_good(const eitp_run *run) {
    return eitp__run_judge(run).verdict == EITP__MODEL_GOOD;
}

EITP__PRIVATE void eitp__run_list_kept(const eitp_run *run, int64_t kept[EITP__KEPT_STEPS]) {
    int count = 0;
    EITP__EACH_OBSERVER (run, i, keeps) {
        kept[count++] = run->observers[i].keeps(run, run->states[i]);
    }
    while (count < EITP__KEPT_STEPS)
        kept[count++] = run->report.saved_step;
}

EITP__PRIVATE eitp_status eitp__run_decided(const eitp_run *run, eitp_error *error) {
    if (run->decision.fails.status)
        *error = run->decision.fails;
    return run->decision.fails.status;
}

EITP__PRIVATE void eitp__run_before_save(eitp_run *run) {
    EITP__EACH_OBSERVER (run, i, before_save) {
        run->observers[i].before_save(run, run->states[i]);
    }
}

EITP__PRIVATE void eitp__run_saved(eitp_run *run, int is_counted, double waited) {
    EITP__EACH_OBSERVER (run, i, saved) {
        run->observers[i].saved(run, run->states[i], is_counted, waited);
    }
}

EITP__PRIVATE void eitp__run_save_complete(eitp_run *run, int64_t step) {
    EITP__EACH_OBSERVER (run, i, save_complete) {
        run->observers[i].save_complete(run, run->states[i], step);
    }
}

EITP__PRIVATE void eitp__run_checkpoints_changed(eitp_run *run) {
    /* A save in progress looks like a leftover; observers are told when it is complete. */
    if (run->saves.save)
        return;
    EITP__EACH_OBSERVER (run, i, checkpoints_changed) {
        run->observers[i].checkpoints_changed(run, run->states[i]);
    }
}

EITP__PRIVATE void eitp__run_end_observers(eitp_run *run) {
    for (int i = EITP__OBSERVER_COUNT - 1; i >= 0; i--) {
        if (run->observers[i].end)
            run->observers[i].end(run, run->states[i]);
    }
}
