#include "base/platform.h"
#include "optim/optim.h"

double eitp_schedule_rate(const eitp_schedule *schedule, int64_t step) {
    double progress = 0, range;
    if (!schedule)
        return 0;
    range = schedule->peak - schedule->final;
    if (schedule->warmup > 0 && step <= schedule->warmup)
        return schedule->peak * (double)step / (double)schedule->warmup;
    if (schedule->steps > schedule->warmup)
        progress = (double)(step - 1 - schedule->warmup) / (double)(schedule->steps - schedule->warmup);
    if (progress > 1)
        progress = 1;
    if (progress < 0)
        progress = 0;
    switch (schedule->kind) {
    case EITP_SCHEDULE_LINEAR:
        return schedule->peak - range * progress;
    case EITP_SCHEDULE_COSINE:
        return schedule->final + range * 0.5 * (1 + cos(3.14159265358979323846 * progress));
    case EITP_SCHEDULE_CONSTANT:
    default:
        return schedule->peak;
    }
}
