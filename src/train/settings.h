/* Tables of values, of a trainer's configuration and its state: bounds, form in JSON, comparison. */
#ifndef EITP_SETTINGS_H
#define EITP_SETTINGS_H

#include "base/json.h"
#include "train/train.h"

/* No bound, and the largest count that a double holds exactly. */
#define EITP__UNBOUNDED HUGE_VAL
#define EITP__LARGEST_COUNT 9007199254740992.0

/* Checks the bounds of every setting. */
EITP__PRIVATE eitp_status eitp__settings_check(const eitp_trainer_config *config, eitp_error *error);

/*
 * The same for the members of any struct: `values` is where the struct begins that the setting's offset is in. Reading
 * needs the member, unless the setting is optional; then *values keeps what it has.
 */
EITP__PRIVATE eitp_status eitp__setting_check(const eitp_setting *setting, const void *values, eitp_error *error);
EITP__PRIVATE int eitp__setting_equal(const eitp_setting *setting, const void *a, const void *b);
EITP__PRIVATE void eitp__setting_describe(const eitp_setting *setting, const void *values, char *text, size_t size);
EITP__PRIVATE void eitp__setting_write(const eitp_setting *setting, const void *values, eitp__buffer *text);
EITP__PRIVATE eitp_status eitp__setting_read(const eitp_setting *setting, const eitp__json *object, void *values,
                                             eitp_error *error);

#endif
