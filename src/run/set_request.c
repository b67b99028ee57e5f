#include "run/set_request.h"

#include "base/files.h"
#include "base/setting_table.h"

EITP__PRIVATE char *eitp__set_path(const eitp_host *host, const char *directory, const char *name) {
    return eitp__join_path(host, directory, name);
}

/* Lists those that may change. */
static eitp_status eitp__set_fail_name(const eitp_setting *settings, size_t count, const char *name,
                                       eitp_error *error) {
    char list[400] = "";
    size_t at = 0;
    for (size_t i = 0; i < count && at < sizeof list; i++) {
        if (settings[i].flags & EITP_SETTING_LIVE)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", settings[i].name);
    }
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown setting '%.40s' of a run that trains (choose from %s)", name,
                      list);
}

EITP__PRIVATE eitp_status eitp__set_find(const eitp_setting *settings, size_t count, const char *name,
                                         const eitp_setting **found, eitp_error *error) {
    for (size_t i = 0; i < count; i++) {
        if (!eitp__setting_has_name(settings[i].name, name))
            continue;
        *found = &settings[i];
        return settings[i].flags & EITP_SETTING_LIVE
                   ? EITP_OK
                   : eitp__fail(error, EITP_ERROR_ARGUMENT,
                                "%s cannot change while the run trains; stop the run, and resume it with another value",
                                settings[i].name);
    }
    return eitp__set_fail_name(settings, count, name, error);
}

/* ---- Files ---- */

/* The value of a member as text; NULL if it is none of a setting. */
static const char *eitp__set_value(const eitp_json *member) {
    if (member->kind == EITP_JSON_BOOLEAN)
        return member->boolean ? "true" : "false";
    return member->kind == EITP_JSON_STRING || member->kind == EITP_JSON_NUMBER ? member->text : NULL;
}

EITP__PRIVATE const char *eitp__set_id(const eitp_json *root) {
    const eitp_json *id = eitp_json_member(root, "id");
    return id && id->kind == EITP_JSON_STRING && id->text_size < EITP__SET_ID_SIZE ? id->text : "";
}

EITP__PRIVATE eitp_status eitp__set_parse(const eitp_json *root, const eitp_setting *settings, size_t setting_count,
                                          eitp__set_change changes[EITP__SET_CHANGES], size_t *count,
                                          eitp_error *error) {
    const eitp_json *members = eitp_json_member(root, "settings");
    *count = 0;
    if (!members || members->kind != EITP_JSON_OBJECT || !members->count)
        return eitp__fail(error, EITP_ERROR_FORMAT, "it has no object \"settings\" with names and values");
    if (members->count > EITP__SET_CHANGES)
        return eitp__fail(error, EITP_ERROR_FORMAT, "it has %llu settings; the most are %d",
                          (unsigned long long)members->count, EITP__SET_CHANGES);
    for (const eitp_json *member = members->first_child; member; member = member->next) {
        eitp__set_change *change = &changes[*count];
        if (eitp__set_find(settings, setting_count, member->name, &change->setting, error))
            return EITP_ERROR_ARGUMENT;
        change->value = eitp__set_value(member);
        if (!change->value)
            return eitp__fail(error, EITP_ERROR_FORMAT, "line %llu: '%s' must be a text, a number, true or false",
                              (unsigned long long)member->line, change->setting->name);
        ++*count;
    }
    return EITP_OK;
}

EITP__PRIVATE void eitp__set_write_request(eitp__buffer *text, const char *id, const eitp__set_change *changes,
                                           size_t count) {
    eitp__buffer_format(text, "{\"id\": \"%s\", \"settings\": {", id);
    for (size_t i = 0; i < count; i++) {
        eitp__buffer_format(text, "%s\"%s\": ", i ? ", " : "", changes[i].setting->name);
        eitp__json_write_text(text, changes[i].value, strlen(changes[i].value));
    }
    eitp__buffer_add_text(text, "}}\n");
}
