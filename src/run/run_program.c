/* What the program itself asks of a run. */
#include "run/run_loop.h"

static eitp_status eitp__program_write_files(const eitp_run *run, const void *state, const char *directory,
                                             eitp_error *error) {
    (void)state;
    return run->config.save ? run->config.save(run->config.save_user, directory, error) : EITP_OK;
}

static int64_t eitp__program_keeps(const eitp_run *run, const void *state) {
    (void)state;
    return run->kept_step;
}

EITP__PRIVATE void eitp__program_observer(eitp__observer *observer) {
    observer->needs_checkpoints = 1;
    observer->write_files = eitp__program_write_files;
    observer->keeps = eitp__program_keeps;
}
