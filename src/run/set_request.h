/*
 * Changes of settings of a run that trains. They reach it by files of its output directory, each written whole and
 * renamed. A request {"id": "1", "settings": {"log_every": "50"}} is taken by renaming it, so that one that follows is
 * neither lost nor mixed with it, and has an answer {"id": "1", "step": 8, "settings": {"log_every": {"was": "10",
 * "is": "50"}}}, with "error" instead of "settings" if it was refused.
 */
#ifndef EITP_SET_REQUEST_H
#define EITP_SET_REQUEST_H

#include "base/json.h"
#include "run/replaced_file.h"
#include "run/run.h"
#include "train/trainer_settings.h"

#define EITP__SET_REQUEST "set.json"
#define EITP__SET_TAKEN "set.taken.json"
#define EITP__SET_REFUSED "set.refused.json" /* one that was refused, kept to be looked at */
#define EITP__SET_ANSWER "set.answer.json"

enum { EITP__SET_CHANGES = 16, EITP__SET_ID_SIZE = 64, EITP__SET_LIMIT = 1 << 16 };

/* A setting of a table, and its value as text. */
typedef struct eitp__set_change {
    const eitp_setting *setting;
    const char *value;
} eitp__set_change;

/* The state of the observer (run/run_set.c). */
typedef struct eitp__run_set {
    double look_at; /* time of the next look */
    char *request;  /* path of the file; NULL: it does not look */
    int has_failed; /* to take a request, which was reported */
    eitp__replaced_file answer;
} eitp__run_set;

/* The path of one of the files above; NULL if out of memory. */
EITP__PRIVATE char *eitp__set_path(const eitp_host *host, const char *directory, const char *name);

/* Finds a setting that may change while a run trains. EITP_ERROR_ARGUMENT if there is none of this name, or it may not
   change. */
EITP__PRIVATE eitp_status eitp__set_find(const eitp_setting *settings, size_t count, const char *name,
                                         const eitp_setting **found, eitp_error *error);

/* Reads the changes of a request. `id` is empty if it has none. The document must outlive the changes. */
EITP__PRIVATE eitp_status eitp__set_parse(const eitp_json *root, const eitp_setting *settings, size_t setting_count,
                                          eitp__set_change changes[EITP__SET_CHANGES], size_t *count,
                                          eitp_error *error);

/* The id of a request or an answer; "" if it has none. */
EITP__PRIVATE const char *eitp__set_id(const eitp_json *root);

EITP__PRIVATE void eitp__set_write_request(eitp__buffer *text, const char *id, const eitp__set_change *changes,
                                           size_t count);

#endif
