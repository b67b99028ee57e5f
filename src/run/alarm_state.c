/* What the rules of alarms keep in a checkpoint. */
#include "run/alarm_rules.h"

/* Alarms of the process end with it. */
#define EITP__ALARMS_KEPT ((1u << EITP__ALARM_MEMORY_DRIFT) - 1)

static void eitp__training_loss_write(const char *name, const eitp__training_loss *training, eitp__buffer *text) {
    eitp__buffer_format(text, ", \"%s\": {\"count\": %lld, \"mean\": ", name, (long long)training->count);
    eitp__json_write_number(text, training->mean);
    eitp__buffer_add_text(text, ", \"squares\": ");
    eitp__json_write_number(text, training->squares);
    eitp__buffer_add_text(text, "}");
}

static void eitp__alarm_number_write(const char *name, double value, eitp__buffer *text) {
    eitp__buffer_format(text, ", \"%s\": ", name);
    eitp__json_write_number(text, value);
}

/* Only runs with a latent variable have this member. */
static void eitp__alarm_latent_write(const eitp__alarm_rules *rules, eitp__buffer *text) {
    if (!rules->latent_step)
        return;
    eitp__buffer_format(text, ",\n\"latent\": {\"step\": %lld, \"few\": %lld, \"fewer\": %lld, \"fractions\": ",
                        (long long)rules->latent_step, (long long)rules->few, (long long)rules->fewer);
    eitp__course_write(&rules->fractions, text);
    eitp__buffer_add_text(text, "}");
}

EITP__PRIVATE void eitp__alarm_rules_write(const eitp__alarm_rules *rules, eitp__buffer *text) {
    eitp__buffer_format(text, "{\"active\": %u, \"levels\": %lld, \"flat\": %lld", rules->active & EITP__ALARMS_KEPT,
                        (long long)rules->levels, (long long)rules->flat);
    eitp__alarm_number_write("first_loss", rules->first_loss, text);
    eitp__alarm_number_write("last_loss", rules->last_loss, text);
    eitp__buffer_add_text(text, ",\n\"losses\": ");
    eitp__course_write(&rules->losses, text);
    if (rules->has_usual_norm)
        eitp__alarm_number_write("usual_norm", rules->usual_norm, text);
    eitp__buffer_format(text, ", \"high\": %lld, \"low\": %lld, \"silent\": %lld,\n\"norms\": ", (long long)rules->high,
                        (long long)rules->low, (long long)rules->silent);
    eitp__course_write(&rules->norms, text);
    eitp__buffer_format(text,
                        ",\n\"evaluations\": %lld, \"evaluated_step\": %lld, \"best_step\": %lld, \"worse\": %lld",
                        (long long)rules->evaluations, (long long)rules->evaluated_step, (long long)rules->best_step,
                        (long long)rules->worse);
    eitp__alarm_number_write("best_loss", rules->best, text);
    eitp__training_loss_write("training", &rules->training, text);
    eitp__training_loss_write("best_training", &rules->best_training, text);
    eitp__alarm_latent_write(rules, text);
    eitp__buffer_add_text(text, "}");
}

static eitp_status eitp__alarm_integer_read(const eitp_json *object, const char *name, int64_t *value,
                                            eitp_error *error) {
    return eitp__json_get_integer(object, name, 0, INT64_MAX - 1, value, error);
}

static eitp_status eitp__alarm_number_read(const eitp_json *object, const char *name, double *value,
                                           eitp_error *error) {
    return eitp__json_get_number(object, name, -HUGE_VAL, HUGE_VAL, value, error);
}

/* The member `name`, which must be an object. */
static eitp_status eitp__alarm_object_read(const eitp_json *object, const char *name, const eitp_json **member,
                                           eitp_error *error) {
    *member = eitp_json_member(object, name);
    if (*member && (*member)->kind == EITP_JSON_OBJECT)
        return EITP_OK;
    return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must be an object",
                      (unsigned long long)(*member ? (*member)->line : object->line), name);
}

static eitp_status eitp__alarm_course_read(const eitp_json *object, const char *name, eitp__course *course,
                                           eitp_error *error) {
    const eitp_json *member;
    eitp_status status = eitp__alarm_object_read(object, name, &member, error);
    return status ? status : eitp__course_read(course, member, error);
}

static eitp_status eitp__training_loss_read(const eitp_json *object, const char *name, eitp__training_loss *training,
                                            eitp_error *error) {
    const eitp_json *member;
    eitp_status status = eitp__alarm_object_read(object, name, &member, error);
    if (!status)
        status = eitp__alarm_integer_read(member, "count", &training->count, error);
    if (!status)
        status = eitp__alarm_number_read(member, "mean", &training->mean, error);
    return status ? status : eitp__json_get_number(member, "squares", 0, HUGE_VAL, &training->squares, error);
}

static eitp_status eitp__alarm_losses_read(eitp__alarm_rules *rules, const eitp_json *object, eitp_error *error) {
    int64_t active = 0;
    eitp_status status = eitp__json_get_integer(object, "active", 0, EITP__ALARMS_KEPT, &active, error);
    rules->active = (unsigned)active;
    if (!status)
        status = eitp__alarm_integer_read(object, "levels", &rules->levels, error);
    if (!status)
        status = eitp__alarm_integer_read(object, "flat", &rules->flat, error);
    if (!status)
        status = eitp__alarm_number_read(object, "first_loss", &rules->first_loss, error);
    if (!status)
        status = eitp__alarm_number_read(object, "last_loss", &rules->last_loss, error);
    return status ? status : eitp__alarm_course_read(object, "losses", &rules->losses, error);
}

static eitp_status eitp__alarm_norms_read(eitp__alarm_rules *rules, const eitp_json *object, eitp_error *error) {
    eitp_status status = eitp__alarm_number_read(object, "usual_norm", &rules->usual_norm, error);
    rules->has_usual_norm = eitp_json_member(object, "usual_norm") != NULL;
    if (!status)
        status = eitp__alarm_integer_read(object, "high", &rules->high, error);
    if (!status)
        status = eitp__alarm_integer_read(object, "low", &rules->low, error);
    if (!status)
        status = eitp__alarm_integer_read(object, "silent", &rules->silent, error);
    return status ? status : eitp__alarm_course_read(object, "norms", &rules->norms, error);
}

static eitp_status eitp__alarm_evaluations_read(eitp__alarm_rules *rules, const eitp_json *object, eitp_error *error) {
    eitp_status status = eitp__alarm_integer_read(object, "evaluations", &rules->evaluations, error);
    if (!status)
        status = eitp__alarm_integer_read(object, "evaluated_step", &rules->evaluated_step, error);
    if (!status)
        status = eitp__alarm_integer_read(object, "best_step", &rules->best_step, error);
    if (!status)
        status = eitp__alarm_integer_read(object, "worse", &rules->worse, error);
    if (!status)
        status = eitp__alarm_number_read(object, "best_loss", &rules->best, error);
    if (!status)
        status = eitp__training_loss_read(object, "training", &rules->training, error);
    return status ? status : eitp__training_loss_read(object, "best_training", &rules->best_training, error);
}

static eitp_status eitp__alarm_latent_read(eitp__alarm_rules *rules, const eitp_json *object, eitp_error *error) {
    const eitp_json *member;
    eitp_status status;
    if (!eitp_json_member(object, "latent"))
        return EITP_OK;
    status = eitp__alarm_object_read(object, "latent", &member, error);
    if (!status)
        status = eitp__alarm_integer_read(member, "step", &rules->latent_step, error);
    if (!status)
        status = eitp__alarm_integer_read(member, "few", &rules->few, error);
    if (!status)
        status = eitp__alarm_integer_read(member, "fewer", &rules->fewer, error);
    return status ? status : eitp__alarm_course_read(member, "fractions", &rules->fractions, error);
}

EITP__PRIVATE eitp_status eitp__alarm_rules_read(eitp__alarm_rules *rules, const eitp_json *object, eitp_error *error) {
    eitp__alarm_rules read = EITP__ZERO;
    eitp_status status = EITP_OK;
    if (object && object->kind != EITP_JSON_OBJECT)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: 'alarms' must be an object",
                            (unsigned long long)object->line);
    if (object && !status)
        status = eitp__alarm_losses_read(&read, object, error);
    if (object && !status)
        status = eitp__alarm_norms_read(&read, object, error);
    if (object && !status)
        status = eitp__alarm_evaluations_read(&read, object, error);
    if (object && !status)
        status = eitp__alarm_latent_read(&read, object, error);
    if (!status)
        *rules = read;
    return status;
}
