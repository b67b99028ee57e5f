/* Settings: tables that describe members of configuration structs, for programs that list, parse or record them. The
   table of a struct defines its defaults. */
#ifndef EITP_SETTINGS_H
#define EITP_SETTINGS_H

#include "base/base.h"

EITP_BEGIN_DECLARATIONS

typedef enum eitp_setting_kind {
    EITP_SETTING_INTEGER = 0,  /* int64_t, int32_t or int */
    EITP_SETTING_UNSIGNED = 1, /* uint64_t or size_t */
    EITP_SETTING_NUMBER = 2,   /* double */
    EITP_SETTING_FLAG = 3,     /* int, 0 or 1 */
    EITP_SETTING_CHOICE = 4,   /* an enum whose values count from 0, in the order of `choices` */
    EITP_SETTING_TEXT = 5, /* const char *, not owned by the struct; may be NULL, or one of `choices` if it has any */
    EITP_SETTING_TEXTS = 6 /* eitp_text_list */
} eitp_setting_kind;

/* A list of strings, which it does not own. */
typedef struct eitp_text_list {
    const char *const *texts;
    size_t count;
} eitp_text_list;

/* Reaction of a resume to a value that differs from the checkpoint's. */
typedef enum eitp_difference {
    EITP_DIFFERENCE_REFUSED = 0,  /* fails: the results would change */
    EITP_DIFFERENCE_LOGGED = 1,   /* logs a warning and uses the new value */
    EITP_DIFFERENCE_ACCEPTED = 2, /* uses the new value */
    EITP_DIFFERENCE_REREAD = 3    /* reads the data again with the new value, which determines the samples */
} eitp_difference;

/* Bits of eitp_setting.flags. Only a NUMBER can exclude its bounds. */
enum {
    EITP_SETTING_ABOVE = 1,      /* `min` itself is excluded */
    EITP_SETTING_BELOW = 2,      /* `max` itself is excluded */
    EITP_SETTING_OPTIONAL = 4,   /* checkpoints omit the default value, and a missing value is the default */
    EITP_SETTING_BYTES = 8,      /* an UNSIGNED that is a number of bytes; in JSON also a string such as "900M" */
    EITP_SETTING_OR_NUMBER = 16, /* a TEXT that may be a number in JSON, such as a column's index */
    EITP_SETTING_LIVE = 32,      /* a setting of a run that may change during training; see eitp_run_set */
    EITP_SETTING_MINOR = 64,     /* programs that print settings omit it while it has its default value */
    EITP_SETTING_DETAIL = 128    /* programs that explain settings omit it: another setting's help covers it */
};

/* A member of a configuration struct. */
typedef struct eitp_setting {
    const char *name; /* in JSON, and with '-' for '_' on the command line; unique within a recipe */
    eitp_setting_kind kind;
    size_t offset, size; /* of the member */
    double value;        /* the default of numbers, flags and choices; a list is empty by default */
    const char *text;    /* TEXT: the default, may be NULL */
    double min, max;     /* -HUGE_VAL and HUGE_VAL: no bound. The bounds of a CHOICE follow from `choices`. */
    unsigned flags;
    eitp_difference difference;
    const char *choices; /* names of the values of a CHOICE, or the values of a TEXT, separated by spaces; else NULL */
    const char *help;    /* one line */
} eitp_setting;

/* Return the value of a setting in the struct at `config`, converted to the return type: eitp_setting_integer truncates
   a NUMBER, and wraps an UNSIGNED above INT64_MAX. 0 for a TEXT or TEXTS, or if an argument is NULL. */
EITP_API int64_t eitp_setting_integer(const eitp_setting *setting, const void *config);
EITP_API double eitp_setting_number(const eitp_setting *setting, const void *config);

/*
 * Set the value of a setting other than a TEXT or TEXTS. EITP_ERROR_ARGUMENT if the value is out of bounds; the
 * configuration is then unchanged. A NUMBER can be set from an integer; other kinds cannot be set from a number. Only
 * eitp_setting_set_unsigned can set an UNSIGNED above INT64_MAX.
 */
EITP_API eitp_status eitp_setting_set_integer(const eitp_setting *setting, int64_t value, void *config,
                                              eitp_error *error);
EITP_API eitp_status eitp_setting_set_unsigned(const eitp_setting *setting, uint64_t value, void *config,
                                               eitp_error *error);
EITP_API eitp_status eitp_setting_set_number(const eitp_setting *setting, double value, void *config,
                                             eitp_error *error);

/*
 * Sets the value of a setting other than a TEXTS from a string: a number, a number of bytes as eitp_parse_bytes reads
 * it, "true" or "false", or the name of a choice, in the format of eitp_setting_format. A TEXT stores the pointer
 * `value`, which is not copied and may be NULL; the string must not be empty. EITP_ERROR_ARGUMENT if the string is
 * anything else or the value is out of bounds; the configuration is then unchanged.
 */
EITP_API eitp_status eitp_setting_set_text(const eitp_setting *setting, const char *value, void *config,
                                           eitp_error *error);

/* Sets a TEXTS; neither the list nor its strings are copied. EITP_ERROR_ARGUMENT for another kind. */
EITP_API eitp_status eitp_setting_set_texts(const eitp_setting *setting, const char *const *texts, size_t count,
                                            void *config, eitp_error *error);

/*
 * Formats the value into text[size]: a decimal number that reads back as the same value, "true" or "false", or the name
 * of a choice. A TEXT is unchanged ("" for NULL), and the strings of a TEXTS are separated by ", ". The result is
 * truncated to fit, and empty if setting or config is NULL; NULL or size 0 is harmless.
 */
EITP_API void eitp_setting_format(const eitp_setting *setting, const void *config, char *text, size_t size);

/* Formats the requirement for a value into text[size]: "at least 0 and below 1", "constant, linear or cosine". The
   result is truncated to fit, and empty if setting is NULL; NULL or size 0 is harmless. */
EITP_API void eitp_setting_bounds(const eitp_setting *setting, char *text, size_t size);

/* The known name to suggest for an unknown one: "did you mean ...?". Starts as {0}. */
typedef struct eitp_suggestion {
    const char *name; /* name[size], not necessarily zero-terminated; NULL: no name is similar enough */
    size_t size;
    size_t distance; /* Levenshtein distance, with '-' and '_' equal */
} eitp_suggestion;

/* Suggests name[size] for the unknown name `wanted` if it is similar, and closer than the suggestion so far. Call it
   for each known name. */
EITP_API void eitp_suggest_name(const char *wanted, const char *name, size_t size, eitp_suggestion *suggestion);

EITP_END_DECLARATIONS

#endif
