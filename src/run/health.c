#include "run/health.h"

#include "base/statistics.h"

static size_t eitp__health_count(const eitp__health *health) {
    return health->losses < EITP__HEALTH_LOSSES ? (size_t)health->losses : (size_t)EITP__HEALTH_LOSSES;
}

EITP__PRIVATE void eitp__health_add_loss(eitp__health *health, double loss) {
    const size_t count = eitp__health_count(health);
    if (!isfinite(loss))
        return;
    if (count < EITP__HEALTH_LOSSES)
        health->first[count] = loss;
    else
        memmove(health->recent, health->recent + 1, (EITP__HEALTH_LOSSES - 1) * sizeof *health->recent);
    health->recent[count < EITP__HEALTH_LOSSES ? count : EITP__HEALTH_LOSSES - 1] = loss;
    health->losses++;
}

EITP__PRIVATE double eitp__health_loss(const eitp__health *health) {
    return eitp__median(health->recent, eitp__health_count(health));
}

EITP__PRIVATE double eitp__health_limit(const eitp__health *health, double guess) {
    const size_t count = eitp__health_count(health);
    const double first = eitp__median(health->first, count);
    double known = health->has_saved ? health->saved_loss : guess > 0 ? health->first[0] : first;
    double deviation = health->has_saved ? health->saved_deviation : eitp__median_deviation(health->first, count);
    double limit = known + fabs(known);
    if (!count)
        return HUGE_VAL;
    if (guess > 0)
        return limit > guess + 1 ? limit : guess + 1;
    if (limit < known + 10 * deviation)
        limit = known + 10 * deviation;
    if (limit < 0.5 * known + 0.5 * first)
        limit = 0.5 * known + 0.5 * first;
    return limit > known ? limit : HUGE_VAL;
}

EITP__PRIVATE int eitp__health_has_diverged(const eitp__health *health, double guess) {
    const size_t count = eitp__health_count(health);
    const double limit = eitp__health_limit(health, guess);
    size_t above = 0;
    while (above < EITP__HEALTH_LAST && above < count && health->recent[count - 1 - above] > limit)
        above++;
    return above == EITP__HEALTH_LAST || (count > 1 && eitp__health_loss(health) > limit);
}

EITP__PRIVATE void eitp__health_saved(eitp__health *health) {
    const size_t count = eitp__health_count(health);
    const double loss = eitp__health_loss(health);
    if (!count || (health->has_saved && loss >= health->saved_loss))
        return;
    health->has_saved = 1;
    health->saved_loss = loss;
    health->saved_deviation = eitp__median_deviation(health->recent, count);
}

/* ---- In a checkpoint ---- */

static void eitp__health_write_losses(const char *name, const double *losses, size_t count, eitp__buffer *text) {
    eitp__buffer_format(text, ", \"%s\": [", name);
    for (size_t i = 0; i < count; i++) {
        eitp__buffer_add_text(text, i ? ", " : "");
        eitp__json_write_number(text, losses[i]);
    }
    eitp__buffer_add_text(text, "]");
}

EITP__PRIVATE void eitp__health_write(const eitp__health *health, eitp__buffer *text) {
    const size_t count = eitp__health_count(health);
    eitp__buffer_format(text, "{\"nonfinite\": %lld, \"losses\": %lld", (long long)health->nonfinite,
                        (long long)health->losses);
    eitp__health_write_losses("first", health->first, count, text);
    eitp__health_write_losses("recent", health->recent, count, text);
    if (health->has_saved) {
        eitp__buffer_add_text(text, ", \"saved_loss\": ");
        eitp__json_write_number(text, health->saved_loss);
        eitp__buffer_add_text(text, ", \"saved_deviation\": ");
        eitp__json_write_number(text, health->saved_deviation);
    }
    eitp__buffer_format(text, ", \"overflowed\": %s}", health->overflowed ? "true" : "false");
}

static eitp_status eitp__health_read_losses(const eitp_json *object, const char *name, size_t count, double *losses,
                                            eitp_error *error) {
    const eitp_json *list = eitp_json_member(object, name), *item;
    size_t i = 0;
    if (!list || list->kind != EITP_JSON_ARRAY || list->count != count)
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must be an array of %zu numbers",
                          (unsigned long long)(list ? list->line : object->line), name, count);
    for (item = list->first_child; item; item = item->next) {
        if (item->kind != EITP_JSON_NUMBER || !isfinite(item->number))
            return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must hold finite numbers",
                              (unsigned long long)item->line, name);
        losses[i++] = item->number;
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__health_read(eitp__health *health, const eitp_json *object, eitp_error *error) {
    eitp__health read = EITP__ZERO;
    eitp_status status = EITP_OK;
    if (!object) {
        *health = read;
        return EITP_OK;
    }
    if (object->kind != EITP_JSON_OBJECT)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: 'health' must be an object",
                            (unsigned long long)object->line);
    if (!status)
        status = eitp__json_get_integer(object, "nonfinite", 0, INT64_MAX - 1, &read.nonfinite, error);
    if (!status)
        status = eitp__json_get_integer(object, "losses", 0, INT64_MAX - 1, &read.losses, error);
    if (!status)
        status = eitp__health_read_losses(object, "first", eitp__health_count(&read), read.first, error);
    if (!status)
        status = eitp__health_read_losses(object, "recent", eitp__health_count(&read), read.recent, error);
    read.has_saved = eitp_json_member(object, "saved_loss") != NULL;
    if (!status)
        status = eitp__json_get_number(object, "saved_loss", -HUGE_VAL, HUGE_VAL, &read.saved_loss, error);
    if (!status)
        status = eitp__json_get_number(object, "saved_deviation", 0, HUGE_VAL, &read.saved_deviation, error);
    if (!status)
        status = eitp__json_get_boolean(object, "overflowed", &read.overflowed, error);
    if (!status)
        *health = read;
    return status;
}
