#include "train/plateau.h"

EITP__PRIVATE void eitp__plateau_init(eitp__plateau *plateau) {
    memset(plateau, 0, sizeof *plateau);
    plateau->best = HUGE_VAL;
    plateau->scale = 1;
    plateau->evaluated_step = -1;
}

/* The rate after reductions. One below `final` from the start is not raised. */
static double eitp__plateau_limit(const eitp_schedule *schedule, double scale) {
    const double reduced = schedule->peak * scale;
    const double limit = reduced > schedule->final ? reduced : schedule->final;
    return limit < schedule->peak ? limit : schedule->peak;
}

/* Returns 0 if the rate is as low as it gets. */
static int eitp__plateau_reduce(eitp__plateau *plateau, double factor, const eitp_schedule *schedule) {
    const double smallest = 1e-8, scale = plateau->scale * factor;
    if (!(eitp__plateau_limit(schedule, plateau->scale) - eitp__plateau_limit(schedule, scale) > smallest))
        return 0;
    plateau->scale = scale;
    return 1;
}

EITP__PRIVATE int64_t eitp__plateau_add(eitp__plateau *plateau, const eitp_plateau_config *config,
                                        const eitp_schedule *schedule, int64_t step, double loss) {
    int64_t failures;
    plateau->evaluated_step = step;
    if (step < schedule->warmup)
        return 0;
    plateau->failures++;
    if (isfinite(loss) && loss < plateau->best * (1 - config->threshold)) {
        plateau->best = loss;
        plateau->failures = 0;
    }
    if (plateau->cooldown > 0) {
        plateau->cooldown--;
        plateau->failures = 0;
    }
    failures = plateau->failures;
    if (failures <= config->patience)
        return 0;
    plateau->failures = 0;
    plateau->cooldown = config->cooldown;
    return eitp__plateau_reduce(plateau, config->factor, schedule) ? failures : 0;
}

EITP__PRIVATE double eitp__plateau_rate(const eitp__plateau *plateau, const eitp_schedule *schedule, int64_t step) {
    const double rate = eitp_schedule_rate(schedule, step);
    double limit;
    if (schedule->kind != EITP_SCHEDULE_PLATEAU)
        return rate;
    /* A warm-up can only follow a reduction if a resumed run has made it longer. */
    limit = eitp__plateau_limit(schedule, plateau->scale);
    return rate < limit ? rate : limit;
}

/* ---- In a checkpoint ---- */

EITP__PRIVATE void eitp__plateau_write(const eitp__plateau *plateau, eitp__buffer *text) {
    eitp__buffer_add_text(text, "  \"plateau\": {\"best\": ");
    eitp__json_write_number(text, plateau->best); /* null: none */
    eitp__buffer_add_text(text, ", \"scale\": ");
    eitp__json_write_number(text, plateau->scale);
    eitp__buffer_format(text, ", \"failures\": %lld, \"cooldown\": %lld, \"evaluated_step\": %lld},\n",
                        (long long)plateau->failures, (long long)plateau->cooldown, (long long)plateau->evaluated_step);
}

EITP__PRIVATE eitp_status eitp__plateau_read(eitp__plateau *plateau, const eitp_json *state, eitp_error *error) {
    const eitp_json *object = eitp_json_member(state, "plateau");
    eitp_status status;
    eitp__plateau_init(plateau);
    status = eitp__json_get_number(object, "best", -HUGE_VAL, HUGE_VAL, &plateau->best, error);
    if (!status)
        status = eitp__json_get_number(object, "scale", 0, 1, &plateau->scale, error);
    if (!status)
        status = eitp__json_get_integer(object, "failures", 0, INT64_MAX - 1, &plateau->failures, error);
    if (!status)
        status = eitp__json_get_integer(object, "cooldown", 0, INT64_MAX, &plateau->cooldown, error);
    if (!status)
        status = eitp__json_get_integer(object, "evaluated_step", -1, INT64_MAX, &plateau->evaluated_step, error);
    return status;
}
