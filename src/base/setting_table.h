/* Tables of settings: their rows, defaults, bounds, JSON and comparison. */
#ifndef EITP_SETTING_TABLE_H
#define EITP_SETTING_TABLE_H

#include "base/json.h"
#include "base/settings.h"

/* No bound, and the largest count that a double holds exactly. */
#define EITP__UNBOUNDED HUGE_VAL
#define EITP__LARGEST_COUNT 9007199254740992.0

/* Rows of a table: for a number, flag or choice; for a string; for a string from `choices`; for a list of strings. `at`
   is empty, or names a member of the type followed by a dot: tables of structs that are members of others are macros
   over it. */
#define EITP__SETTING(type, at, member, name, kind, value, min, max, flags, difference, choices, help)                 \
    {                                                                                                                  \
        name, EITP_SETTING_##kind, offsetof(type, at member), sizeof(((type *)0)->at member), (double)(value), NULL,   \
            min, max, flags, EITP_DIFFERENCE_##difference, choices, help                                               \
    }
#define EITP__TEXT_SETTING(type, at, member, name, text, difference, help)                                             \
    {                                                                                                                  \
        name, EITP_SETTING_TEXT, offsetof(type, at member), sizeof(((type *)0)->at member), 0, text, 0, 0, 0,          \
            EITP_DIFFERENCE_##difference, NULL, help                                                                   \
    }

#define EITP__CHOSEN_TEXT_SETTING(type, at, member, name, text, difference, choices, help)                             \
    {                                                                                                                  \
        name, EITP_SETTING_TEXT, offsetof(type, at member), sizeof(((type *)0)->at member), 0, text, 0, 0, 0,          \
            EITP_DIFFERENCE_##difference, choices, help                                                                \
    }
#define EITP__TEXTS_SETTING(type, at, member, name, difference, help)                                                  \
    {                                                                                                                  \
        name, EITP_SETTING_TEXTS, offsetof(type, at member), sizeof(((type *)0)->at member), 0, NULL, 0, 0, 0,         \
            EITP_DIFFERENCE_##difference, NULL, help                                                                   \
    }

/* Resets the members in a table to their defaults. */
EITP__PRIVATE void eitp__settings_reset(const eitp_setting *settings, size_t count, void *config);

/* Checks the bounds of every setting of a table; messages name the setting. */
EITP__PRIVATE eitp_status eitp__settings_check(const eitp_setting *settings, size_t count, const void *config,
                                               eitp_error *error);

EITP__PRIVATE eitp_status eitp__setting_check(const eitp_setting *setting, const void *config, eitp_error *error);
EITP__PRIVATE int eitp__setting_equal(const eitp_setting *setting, const void *a, const void *b);
EITP__PRIVATE const char *eitp__setting_text(const eitp_setting *setting, const void *config);
EITP__PRIVATE eitp_text_list eitp__setting_texts(const eitp_setting *setting, const void *config);

/* Returns the value of the CHOICE with this name, or -1. */
EITP__PRIVATE int64_t eitp__setting_find_choice(const eitp_setting *setting, const char *name);

/* Fails with EITP_ERROR_ARGUMENT: "<name>: invalid value '<value>' (choose from <choices>)". */
EITP__PRIVATE eitp_status eitp__setting_fail_choice(const eitp_setting *setting, const char *value, eitp_error *error);

/* Formats the choices: "constant, linear or cosine", with " or " as the last separator. */
EITP__PRIVATE void eitp__setting_list_choices(const eitp_setting *setting, const char *last, char *text, size_t size);

EITP__PRIVATE void eitp__setting_write(const eitp_setting *setting, const void *config, eitp__buffer *text);

/* Reads the setting's member of a JSON object. If the object lacks it, fails unless the setting is optional; an
   optional one keeps its value. */
EITP__PRIVATE eitp_status eitp__setting_read(const eitp_setting *setting, const eitp_json *object, void *config,
                                             eitp_error *error);

/* Returns the name of a setting in a JSON object: its name in earlier versions, if the object has only that. */
EITP__PRIVATE const char *eitp__setting_name_in(const char *name, const eitp_json *object);

/* True if two names are equal, with '-' and '_' equal. */
EITP__PRIVATE int eitp__setting_has_name(const char *name, const char *given);

/* Reads a decimal number; returns 0 if the text is anything else. */
EITP__PRIVATE int eitp__setting_read_number(const char *text, double *number);

/* Fails with EITP_ERROR_ARGUMENT: "<name> must be <bounds> (got '<value>')". */
EITP__PRIVATE eitp_status eitp__setting_fail_value(const char *name, const char *bounds, const char *value,
                                                   eitp_error *error);

#endif
