#include "run/poll.h"

#include "train/trainer.h"

EITP__PRIVATE int eitp__run_is_interrupted(eitp_run *run) {
    EITP__EACH_OBSERVER (run, i, poll) {
        if (run->observers[i].poll(run, run->states[i]))
            return 1;
    }
    return 0;
}

EITP__PRIVATE int eitp__run_poll(void *user) {
    eitp_run *run = (eitp_run *)user;
    if (run->report.work == EITP_RUN_EVALUATES)
        eitp__trainer_evaluation_progress(run->trainer, &run->report.evaluating, &run->report.evaluating_all);
    return run->stop || eitp__run_is_interrupted(run);
}

EITP__PRIVATE void eitp__run_begin_polling(eitp_run *run) {
    eitp_context *context = eitp__trainer_task(run->trainer)->context;
    run->program_poll = context->poll;
    eitp_context_set_poll(context, eitp__run_poll, run);
}

EITP__PRIVATE void eitp__run_end_polling(eitp_run *run) {
    eitp_context_set_poll(eitp__trainer_task(run->trainer)->context, run->program_poll.ask, run->program_poll.user);
}
