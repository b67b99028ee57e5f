/* Settings: members of configuration structs as tables, for programs that list, parse or record them. The defaults of a
   struct are those of its table. */
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

/* A list of texts, which it does not own. */
typedef struct eitp_text_list {
    const char *const *texts;
    size_t count;
} eitp_text_list;

/* What a resume does if the value differs from the checkpoint's. */
typedef enum eitp_difference {
    EITP_DIFFERENCE_REFUSED = 0,  /* fails: the results would change */
    EITP_DIFFERENCE_LOGGED = 1,   /* logs a warning and uses the new value */
    EITP_DIFFERENCE_ACCEPTED = 2, /* uses the new value */
    EITP_DIFFERENCE_REREAD = 3    /* reads the data again with the new value: it decides what their samples are */
} eitp_difference;

/* Bits of eitp_setting.flags. Only a NUMBER can exclude its bounds. */
enum {
    EITP_SETTING_ABOVE = 1,      /* `min` itself is excluded */
    EITP_SETTING_BELOW = 2,      /* `max` itself is excluded */
    EITP_SETTING_OPTIONAL = 4,   /* checkpoints omit the default value, and a missing value is the default */
    EITP_SETTING_BYTES = 8,      /* an UNSIGNED that is a number of bytes; JSON may write it as a text such as "900M" */
    EITP_SETTING_OR_NUMBER = 16, /* a TEXT that JSON may write as a number, such as that of a column */
    EITP_SETTING_LIVE = 32,      /* of a run: may change while it trains; see eitp_run_set */
    EITP_SETTING_MINOR = 64,     /* programs that print settings leave it out while it has its default */
    EITP_SETTING_DETAIL = 128    /* programs that explain settings leave it out: that of another one explains it */
};

/* A member of a configuration struct. */
typedef struct eitp_setting {
    const char *name; /* in JSON, and with '-' for '_' on the command line; different from all others in a recipe */
    eitp_setting_kind kind;
    size_t offset, size; /* of the member */
    double value;        /* the default, unless it is a text or a list, which is empty by default */
    const char *text;    /* TEXT: the default, may be NULL */
    double min, max;     /* -HUGE_VAL and HUGE_VAL: no bound. Those of a CHOICE follow from `choices`. */
    unsigned flags;
    eitp_difference difference;
    const char *choices; /* names of the values of a CHOICE, or the values of a TEXT, separated by spaces; else NULL */
    const char *help;    /* one line */
} eitp_setting;

/*
 * The value of a setting in the struct at `config`, converted to the type: eitp_setting_integer truncates a NUMBER, and
 * wraps an UNSIGNED above INT64_MAX. 0 for a TEXT or TEXTS, or if an argument is NULL.
 */
EITP_API int64_t eitp_setting_integer(const eitp_setting *setting, const void *config);
EITP_API double eitp_setting_number(const eitp_setting *setting, const void *config);

/*
 * Set a value, except of a TEXT or TEXTS. EITP_ERROR_ARGUMENT if it is out of bounds; the configuration is then
 * unchanged. A NUMBER can be set from an integer; a setting of another kind cannot be set from a number. Only
 * eitp_setting_set_unsigned sets an UNSIGNED above INT64_MAX.
 */
EITP_API eitp_status eitp_setting_set_integer(const eitp_setting *setting, int64_t value, void *config,
                                              eitp_error *error);
EITP_API eitp_status eitp_setting_set_unsigned(const eitp_setting *setting, uint64_t value, void *config,
                                               eitp_error *error);
EITP_API eitp_status eitp_setting_set_number(const eitp_setting *setting, double value, void *config,
                                             eitp_error *error);

/*
 * Sets a value from text, except of a TEXTS: a number, a number of bytes as eitp_parse_bytes reads it, "true" or
 * "false", or the name of a choice, as eitp_setting_format writes them. A TEXT keeps `value` itself, which is not
 * copied and may be NULL but not empty. EITP_ERROR_ARGUMENT if the text is something else, or the value is out of
 * bounds; the configuration is then unchanged.
 */
EITP_API eitp_status eitp_setting_set_text(const eitp_setting *setting, const char *value, void *config,
                                           eitp_error *error);

/* Sets a TEXTS; neither the list nor its texts are copied. EITP_ERROR_ARGUMENT for another kind. */
EITP_API eitp_status eitp_setting_set_texts(const eitp_setting *setting, const char *const *texts, size_t count,
                                            void *config, eitp_error *error);

/*
 * Formats the value into text[size]: a decimal number that reads back as the same value, "true" or "false", or the
 * name of a choice; a text as it is, "" for NULL; texts separated by ", ". The text is cut to fit, and empty if setting
 * or config is NULL; NULL or size 0 is harmless.
 */
EITP_API void eitp_setting_format(const eitp_setting *setting, const void *config, char *text, size_t size);

/*
 * Formats what a value must be into text[size]: "at least 0 and below 1", "constant, linear or cosine". The text is cut
 * to fit, and empty if setting is NULL; NULL or size 0 is harmless.
 */
EITP_API void eitp_setting_bounds(const eitp_setting *setting, char *text, size_t size);

/* The name to suggest for one that is unknown: "did you mean ...?". Starts as {0}. */
typedef struct eitp_suggestion {
    const char *name; /* [size], which need not end in a zero byte; NULL: none is near enough */
    size_t size;
    size_t distance; /* Levenshtein's, with '-' and '_' equal */
} eitp_suggestion;

/* Suggests name[size] for the unknown name `wanted` if it is near, and nearer than the suggestion so far. Call it for
   each known name. */
EITP_API void eitp_suggest_name(const char *wanted, const char *name, size_t size, eitp_suggestion *suggestion);

EITP_END_DECLARATIONS

#endif
