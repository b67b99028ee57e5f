/* Withdrawing a checkpoint whose model was ruined when it was saved. */
#ifndef EITP_RUN_WITHDRAW_H
#define EITP_RUN_WITHDRAW_H

#include "run/run_loop.h"

/* Called after each step: counts those of the first three after the newest checkpoint whose loss is bad. */
EITP__PRIVATE void eitp__run_judge_checkpoint(eitp_run *run);

/*
 * At the end of a run whose model is ruined. A step's loss is that of the model before its update, so only the steps
 * after a save show what was saved. If the losses of the first three are above the limit of health.h, or not finite,
 * the newest checkpoint is renamed checkpoint-<step>.diverged, and report.saved_step is the one before. Not if that is
 * more than ten steps older: losses of other samples are no proof, and so a mistake costs a few steps.
 */
EITP__PRIVATE void eitp__run_withdraw(eitp_run *run);

#endif
