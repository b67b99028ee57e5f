#include "base/platform.h"
#include "optim/optim.h"

static double eitp__cosine_decay(double from, double to, double progress) {
    return to + (from - to) * 0.5 * (1 + cos(3.14159265358979323846 * progress));
}

eitp_schedule eitp_schedule_default(void) {
    eitp_schedule schedule = EITP__ZERO;
    schedule.kind = EITP_SCHEDULE_CONSTANT;
    schedule.peak = 5e-5;
    schedule.cycles = 1;
    return schedule;
}

double eitp_schedule_rate(const eitp_schedule *schedule, int64_t step) {
    double progress = 0, cycles;
    if (!schedule)
        return 0;
    cycles = schedule->cycles > 1 ? (double)schedule->cycles : 1;
    if (schedule->warmup > 0 && step <= schedule->warmup)
        return schedule->peak * (double)(step - (schedule->warmup_from_zero != 0)) / (double)schedule->warmup;
    if (schedule->steps > schedule->warmup)
        progress = (double)(step - 1 - schedule->warmup) / (double)(schedule->steps - schedule->warmup);
    if (progress > 1)
        progress = 1;
    if (progress < 0)
        progress = 0;
    switch (schedule->kind) {
    case EITP_SCHEDULE_LINEAR:
        return schedule->peak - (schedule->peak - schedule->final) * progress;
    case EITP_SCHEDULE_COSINE:
        return eitp__cosine_decay(schedule->peak, schedule->final, progress);
    case EITP_SCHEDULE_COSINE_WITH_RESTARTS:
        return progress < 1 ? eitp__cosine_decay(schedule->peak, schedule->final, fmod(cycles * progress, 1))
                            : schedule->final;
    case EITP_SCHEDULE_CYCLICAL:
        progress = progress < 1 ? 2 * fmod(cycles * progress, 1) : 1;
        return schedule->final + (schedule->peak - schedule->final) * (progress < 1 ? progress : 1);
    case EITP_SCHEDULE_PLATEAU: /* the trainer reduces it */
    case EITP_SCHEDULE_CONSTANT:
    default:
        return schedule->peak;
    }
}
