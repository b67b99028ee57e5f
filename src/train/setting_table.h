/* Tables of settings, of a trainer's configuration and of its state: bounds, JSON and comparison. */
#ifndef EITP_SETTING_TABLE_H
#define EITP_SETTING_TABLE_H

#include "base/json.h"
#include "train/settings.h"

/* No bound, and the largest count that a double holds exactly. */
#define EITP__UNBOUNDED HUGE_VAL
#define EITP__LARGEST_COUNT 9007199254740992.0

/* Checks the bounds of every setting, and those that depend on another one. */
EITP__PRIVATE eitp_status eitp__settings_check(const eitp_trainer_config *config, eitp_error *error);

/*
 * The functions below take the members of any struct: `values` points to the struct that the setting's offset refers
 * to. eitp__setting_read fails if the JSON object lacks the member, unless the setting is optional: then the value in
 * the struct stays.
 */
EITP__PRIVATE eitp_status eitp__setting_check(const eitp_setting *setting, const void *values, eitp_error *error);
EITP__PRIVATE int eitp__setting_equal(const eitp_setting *setting, const void *a, const void *b);
EITP__PRIVATE void eitp__setting_describe(const eitp_setting *setting, const void *values, char *text, size_t size);
EITP__PRIVATE void eitp__setting_write(const eitp_setting *setting, const void *values, eitp__buffer *text);
EITP__PRIVATE eitp_status eitp__setting_read(const eitp_setting *setting, const eitp__json *object, void *values,
                                             eitp_error *error);

/* The name of a setting in a JSON object: the name it had in earlier versions, if the object has only that. */
EITP__PRIVATE const char *eitp__setting_name_in(const char *name, const eitp__json *object);

#endif
