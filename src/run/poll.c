#include "run/poll.h"

#include "tensor/context.h"
#include "train/trainer.h"

EITP__PRIVATE int eitp__run_poll(void *run) {
    return ((const eitp_run *)run)->stop;
}

EITP__PRIVATE void eitp__run_begin_polling(eitp_run *run) {
    eitp__context_set_poll(run->trainer->plans.task.context, eitp__run_poll, run);
}

EITP__PRIVATE void eitp__run_end_polling(eitp_run *run) {
    eitp__context_set_poll(run->trainer->plans.task.context, NULL, NULL);
}
