#include "run/events.h"

#include "base/log.h"
#include "train/trainer.h"

EITP__PRIVATE const char *eitp__run_unit(const eitp_run *run) {
    const char *unit = eitp__trainer_task(run->trainer)->unit;
    return unit ? unit : "items";
}

EITP__PRIVATE void eitp__run_notify(eitp_run *run, eitp_run_event_kind kind, eitp_log_level level, double seconds,
                                    const char *format, ...) {
    char message[600];
    eitp_run_event event;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    run->report.steps_done = eitp_trainer_steps_done(run->trainer);
    event.kind = kind;
    event.level = level;
    event.message = message;
    event.report = &run->report;
    event.seconds = seconds;
    if (run->config.listener.notify)
        run->config.listener.notify(run->config.listener.user, &event);
    else
        eitp__log(&run->host, level, "%s", message);
}
