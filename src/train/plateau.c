#include "train/plateau.h"

EITP__PRIVATE void eitp__plateau_init(eitp__plateau *plateau) {
    memset(plateau, 0, sizeof *plateau);
    plateau->best = HUGE_VAL;
    plateau->scale = 1;
    plateau->evaluated_step = -1;
}

/* Returns the rate after reductions. A rate that is below `final` from the start is not raised. */
static double eitp__plateau_limit(const eitp_schedule *schedule, double scale) {
    const double reduced = schedule->peak * scale;
    const double limit = reduced > schedule->final ? reduced : schedule->final;
    return limit < schedule->peak ? limit : schedule->peak;
}

/* Reduces the rate. Returns 0 if it is already at its minimum. */
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
    /* A warm-up can follow a reduction only if a resumed run has extended it. */
    limit = eitp__plateau_limit(schedule, plateau->scale);
    return rate < limit ? rate : limit;
}

/* ---- In a checkpoint ---- */

static const eitp__json_field eitp__plateau_fields[] = {
    EITP__JSON_FIELD(eitp__plateau, best, "best", NUMBER, -HUGE_VAL, HUGE_VAL), /* null: none */
    EITP__JSON_FIELD(eitp__plateau, scale, "scale", NUMBER, 0, 1),
    EITP__JSON_FIELD(eitp__plateau, failures, "failures", INTEGER, 0, HUGE_VAL),
    EITP__JSON_FIELD(eitp__plateau, cooldown, "cooldown", INTEGER, 0, HUGE_VAL),
    EITP__JSON_FIELD(eitp__plateau, evaluated_step, "evaluated_step", INTEGER, -1, HUGE_VAL),
};

EITP__PRIVATE void eitp__plateau_write(const eitp__plateau *plateau, eitp__buffer *text) {
    eitp__buffer_add_text(text, "  \"plateau\": {");
    eitp__json_write_fields(text, eitp__plateau_fields, EITP__COUNT(eitp__plateau_fields), plateau);
    eitp__buffer_add_text(text, "},\n");
}

EITP__PRIVATE eitp_status eitp__plateau_read(eitp__plateau *plateau, const eitp_json *state, eitp_error *error) {
    eitp__plateau_init(plateau);
    return eitp__json_get_fields(eitp_json_member(state, "plateau"), eitp__plateau_fields,
                                 EITP__COUNT(eitp__plateau_fields), plateau, error);
}
