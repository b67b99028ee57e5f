/* Settings: the members of eitp_trainer_config as a table, for programs that list, parse or record them. */
#ifndef EITP_SETTINGS_H
#define EITP_SETTINGS_H

#include "train/train.h"

EITP_BEGIN_DECLARATIONS

typedef enum eitp_setting_kind {
    EITP_SETTING_INTEGER = 0,  /* int64_t */
    EITP_SETTING_UNSIGNED = 1, /* uint64_t */
    EITP_SETTING_NUMBER = 2,   /* double */
    EITP_SETTING_FLAG = 3,     /* int, 0 or 1 */
    EITP_SETTING_CHOICE = 4    /* an enum whose values count from 0, in the order of `choices` */
} eitp_setting_kind;

/* What a resume does if the trainer's value is not the checkpoint's. */
typedef enum eitp_difference {
    EITP_DIFFERENCE_REFUSED = 0, /* fails: the results would change */
    EITP_DIFFERENCE_LOGGED = 1,  /* logs a warning and uses the trainer's value */
    EITP_DIFFERENCE_ACCEPTED = 2 /* uses the trainer's value */
} eitp_difference;

/* Bits of eitp_setting.flags. Only a NUMBER can exclude its bounds. */
enum {
    EITP_SETTING_ABOVE = 1,   /* `min` itself is excluded */
    EITP_SETTING_BELOW = 2,   /* `max` itself is excluded */
    EITP_SETTING_OPTIONAL = 4 /* checkpoints omit the default value, and a missing value is the default */
};

/* A member of eitp_trainer_config that checkpoints record. */
typedef struct eitp_setting {
    const char *name; /* in trainer_state.json */
    eitp_setting_kind kind;
    size_t offset;   /* of the member */
    double min, max; /* -HUGE_VAL and HUGE_VAL: no bound. Those of a CHOICE follow from `choices`. */
    unsigned flags;
    eitp_difference difference;
    const char *choices; /* names of the values of a CHOICE, separated by spaces; else NULL */
    const char *help;    /* one line */
} eitp_setting;

/* All settings, in the order of trainer_state.json. Stores their number in *count, unless `count` is NULL. */
EITP_API const eitp_setting *eitp_trainer_settings(size_t *count);

/*
 * The value of a setting of any kind, converted to the type: eitp_setting_integer truncates a NUMBER, and wraps an
 * UNSIGNED above INT64_MAX. 0 if an argument is NULL.
 */
EITP_API int64_t eitp_setting_integer(const eitp_setting *setting, const eitp_trainer_config *config);
EITP_API double eitp_setting_number(const eitp_setting *setting, const eitp_trainer_config *config);

/*
 * Set a value. EITP_ERROR_ARGUMENT if it is out of bounds; the configuration is then unchanged. A NUMBER can be set
 * from an integer; a setting of another kind cannot be set from a number. Of an UNSIGNED, values above INT64_MAX can
 * only be set by eitp_setting_set_unsigned.
 */
EITP_API eitp_status eitp_setting_set_integer(const eitp_setting *setting, int64_t value, eitp_trainer_config *config,
                                              eitp_error *error);
EITP_API eitp_status eitp_setting_set_unsigned(const eitp_setting *setting, uint64_t value, eitp_trainer_config *config,
                                               eitp_error *error);
EITP_API eitp_status eitp_setting_set_number(const eitp_setting *setting, double value, eitp_trainer_config *config,
                                             eitp_error *error);

/*
 * Formats the value into text[size]: a decimal number that reads back as the same value, "true" or "false", or the
 * name of a choice. The text is cut to fit, and empty if setting or config is NULL; NULL or size 0 is harmless.
 */
EITP_API void eitp_setting_format(const eitp_setting *setting, const eitp_trainer_config *config, char *text,
                                  size_t size);

/*
 * Formats what a value must be into text[size]: "at least 0 and below 1", "constant, linear or cosine". The text is cut
 * to fit, and empty if setting is NULL; NULL or size 0 is harmless.
 */
EITP_API void eitp_setting_bounds(const eitp_setting *setting, char *text, size_t size);

/* ---- Settings of a checkpoint ---- */

/* A change of a setting. */
typedef struct eitp_setting_change {
    const char *name;
    const char *value;    /* as text: a number, "true" or "false", or the name of a choice */
    char was[64], is[64]; /* the values before and after, filled in */
} eitp_setting_change;

/*
 * Changes settings of a checkpoint "checkpoint-<step>" on purpose: a resume uses the new values from there on. The
 * names are those of eitp_trainer_settings, "loss_scale", and, of config.json, "embedding_dropout",
 * "attention_dropout", "residual_dropout" and "dropout" for all three; '-' is '_'. The checkpoint is verified and
 * copied with the changes, and the complete copy takes its place: at any time there is the old one or the new one.
 * EITP_ERROR_ARGUMENT if a name is unknown, a value out of bounds or in conflict with another, or a process trains in
 * the checkpoint's directory; then nothing has changed.
 */
EITP_API eitp_status eitp_checkpoint_set(const eitp_host *host, const char *checkpoint, eitp_setting_change *changes,
                                         size_t count, eitp_error *error);

EITP_END_DECLARATIONS

#endif
