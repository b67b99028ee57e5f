/* Recipes as JSON. */
#include "base/files.h"
#include "base/json.h"
#include "base/setting_table.h"
#include "recipe/recipe_settings.h"

/* Maximum file size: recipes are written by hand. */
#define EITP__RECIPE_LIMIT ((size_t)1 << 24)

/* ---- Reading ---- */

/* True if the names are equal, with '-' for '_'. */
static int eitp__setting_names_equal(const char *a, const char *b, size_t size) {
    size_t i = 0;
    while (a[i] && i < size && a[i] == (b[i] == '-' ? '_' : b[i]))
        i++;
    return !a[i] && i == size;
}

static int eitp__recipe_find(const eitp_json *value, eitp__recipe_walk *walk) {
    memset(walk, 0, sizeof *walk);
    while (eitp__recipe_next(walk)) {
        if (eitp__setting_names_equal(walk->setting->name, value->name, value->name_size))
            return 1;
    }
    return 0;
}

/* Fails with, for example, "lr must be a number (got 'much')". */
static eitp_status eitp__fail_type(const eitp_setting *setting, const char *expected, const eitp_json *value,
                                   eitp_error *error) {
    const int is_list = value->kind == EITP_JSON_ARRAY, is_boolean = value->kind == EITP_JSON_BOOLEAN;
    const char *quote = value->kind == EITP_JSON_STRING ? "'" : "";
    const char *got = is_list ? "a list" : is_boolean ? (value->boolean ? "true" : "false") : value->text;
    return eitp__fail(error, EITP_ERROR_FORMAT, "%s must be %s (got %s%.40s%s)", setting->name, expected, quote,
                      got ? got : "null", quote);
}

static eitp_status eitp__fail_unknown_setting(const char *name, eitp_error *error) {
    eitp_suggestion near = EITP__ZERO;
    eitp__recipe_walk walk = EITP__ZERO;
    while (eitp__recipe_next(&walk))
        eitp_suggest_name(name, walk.setting->name, strlen(walk.setting->name), &near);
    if (near.name)
        return eitp__fail(error, EITP_ERROR_FORMAT, "unknown setting '%.80s'; did you mean '%s'?", name, near.name);
    return eitp__fail(error, EITP_ERROR_FORMAT, "unknown setting '%.80s'; eitp_recipe_group lists the settings", name);
}

/* True if a string contains a zero byte, which would truncate a C string. */
static int eitp__has_zero_byte(const eitp_json *value) {
    return memchr(value->text, 0, value->text_size) != NULL;
}

static eitp_status eitp__read_texts(const eitp_host *host, const eitp_setting *setting, const eitp_json *value,
                                    eitp_recipe *recipe, void *values, eitp_error *error) {
    const int is_list = value->kind == EITP_JSON_ARRAY;
    const size_t count = is_list ? value->count : 1;
    const eitp_json *item = is_list ? value->first_child : value;
    const char **texts = (const char **)eitp__recipe_allocate(host, recipe, (count + 1) * sizeof *texts);
    if (!texts)
        return eitp__fail_memory(error, count * sizeof *texts, "the strings of a recipe");
    for (size_t i = 0; i < count; i++, item = item->next) {
        if (item->kind != EITP_JSON_STRING)
            return eitp__fail_type(setting, "a string or a list of strings", item, error);
        if (eitp__has_zero_byte(item))
            return eitp__fail_type(setting, "strings without zero bytes", item, error);
        texts[i] = eitp__recipe_keep(host, recipe, item->text, item->text_size);
        if (!texts[i])
            return eitp__fail_memory(error, item->text_size, "a string of a recipe");
    }
    return eitp_setting_set_texts(setting, texts, count, values, error);
}

/* Returns the JSON types that a setting may have, as bits of 1 << eitp_json_kind; *name describes them. */
static unsigned eitp__setting_json_kinds(const eitp_setting *setting, const char **name) {
    const unsigned boolean = 1u << EITP_JSON_BOOLEAN, number = 1u << EITP_JSON_NUMBER, text = 1u << EITP_JSON_STRING;
    const int is_text = setting->kind == EITP_SETTING_TEXT || setting->kind == EITP_SETTING_CHOICE;
    const int is_bytes = (setting->flags & EITP_SETTING_BYTES) != 0;
    const int or_number = (setting->flags & EITP_SETTING_OR_NUMBER) != 0;
    if (is_text) {
        *name = or_number ? "a string or a number" : "a string";
        return or_number ? text | number : text;
    }
    if (setting->kind == EITP_SETTING_FLAG) {
        *name = "true or false";
        return boolean;
    }
    *name = is_bytes                               ? "a number of bytes, or a string such as \"900M\""
            : setting->kind == EITP_SETTING_NUMBER ? "a number"
                                                   : "a whole number";
    return is_bytes ? text | number : number;
}

static eitp_status eitp__read_setting(const eitp_host *host, const eitp__recipe_walk *walk, const eitp_json *value,
                                      eitp_recipe *recipe, eitp_error *error) {
    const eitp_setting *setting = walk->setting;
    void *values = eitp__recipe_member(recipe, walk);
    const char *text = value->kind == EITP_JSON_BOOLEAN ? (value->boolean ? "true" : "false") : value->text, *expected;
    if (setting->kind == EITP_SETTING_TEXTS)
        return eitp__read_texts(host, setting, value, recipe, values, error);
    if (!(eitp__setting_json_kinds(setting, &expected) >> value->kind & 1))
        return eitp__fail_type(setting, expected, value, error);
    if (value->kind == EITP_JSON_STRING && eitp__has_zero_byte(value))
        return eitp__fail_type(setting, "a string without zero bytes", value, error);
    if (setting->kind == EITP_SETTING_TEXT)
        text = eitp__recipe_keep(host, recipe, value->text, value->text_size);
    return text ? eitp_setting_set_text(setting, text, values, error)
                : eitp__fail_memory(error, value->text_size, "a string of a recipe");
}

EITP__PRIVATE eitp_status eitp__recipe_read_member(const eitp_host *host, const eitp_json *object,
                                                   const eitp__recipe_walk *walk, eitp_recipe *recipe,
                                                   eitp_error *error) {
    const eitp_json *value = object ? object->first_child : NULL;
    while (value && !eitp__setting_names_equal(walk->setting->name, value->name, value->name_size))
        value = value->next;
    return value && value->kind != EITP_JSON_NULL ? eitp__read_setting(host, walk, value, recipe, error) : EITP_OK;
}

/* Objects are only for grouping, at any depth. */
static eitp_status eitp__read_members(const eitp_host *host, const eitp_json *object, eitp_recipe *recipe,
                                      eitp_error *error) {
    eitp_status status = EITP_OK;
    for (const eitp_json *value = object->first_child; value && !status; value = value->next) {
        eitp__recipe_walk walk;
        if (value->kind == EITP_JSON_NULL)
            continue;
        if (value->kind == EITP_JSON_OBJECT)
            status = eitp__read_members(host, value, recipe, error);
        else if (eitp__recipe_find(value, &walk))
            status = eitp__read_setting(host, &walk, value, recipe, error);
        else
            status = eitp__fail_unknown_setting(value->name, error);
        if (status && status != EITP_ERROR_MEMORY && value->kind != EITP_JSON_OBJECT)
            status = eitp__fail_prefix(error, EITP_ERROR_FORMAT, "line %llu", (unsigned long long)value->line);
    }
    return status;
}

eitp_status eitp_recipe_read(const char *path, eitp_recipe *recipe, eitp_error *error) {
    eitp_json_document *document;
    eitp_recipe read;
    const eitp_host *host;
    eitp_status status;
    if (!path || !recipe)
        return eitp__fail_null(error, "eitp_recipe_read", "path and recipe");
    status = eitp__recipe_check_host(recipe, error);
    if (status)
        return status;
    host = &recipe->context.host;
    status = eitp__json_read_strict_file(host, path, EITP__RECIPE_LIMIT, &document, error);
    if (status)
        return status;
    status = eitp__recipe_copy(host, recipe, &read, error);
    if (!status && eitp_json_root(document)->kind != EITP_JSON_OBJECT)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "a recipe must be a JSON object");
    else if (!status)
        status = eitp__read_members(host, eitp_json_root(document), &read, error);
    eitp_json_release(document);
    if (status) {
        eitp_recipe_release(&read);
        return eitp__fail_prefix(error, status, "%s", path);
    }
    eitp_recipe_release(recipe);
    *recipe = read;
    return EITP_OK;
}

/* ---- Writing ---- */

/* True if the setting has no value: it is NULL, or has the recipe's default for "not set". */
static int eitp__setting_is_open(const eitp__recipe_walk *walk, const eitp_recipe *recipe,
                                 const eitp_recipe *defaults) {
    const eitp_setting *setting = walk->setting;
    const void *values = eitp__recipe_values(recipe, walk), *usual = eitp__recipe_values(defaults, walk);
    eitp_recipe own = *defaults;
    if (setting->kind == EITP_SETTING_TEXT)
        return !eitp__setting_text(setting, values);
    if (setting->kind == EITP_SETTING_TEXTS)
        return !eitp__setting_texts(setting, values).count;
    if (!eitp__setting_equal(setting, values, usual))
        return 0;
    eitp__settings_reset(setting, 1, eitp__recipe_member(&own, walk));
    return (setting->flags & EITP_SETTING_OPTIONAL) ||
           !eitp__setting_equal(setting, usual, eitp__recipe_values(&own, walk));
}

static void eitp__write_texts(eitp_text_list list, eitp__buffer *text) {
    for (size_t i = 0; i < list.count; i++) {
        eitp__buffer_add_text(text, i ? ", " : "[");
        eitp__json_write_text(text, list.texts[i], strlen(list.texts[i]));
    }
    eitp__buffer_add_text(text, "]");
}

static void eitp__write_value(const eitp_setting *setting, const void *values, eitp__buffer *text) {
    char value[64];
    if (setting->kind == EITP_SETTING_TEXTS) {
        eitp__write_texts(eitp__setting_texts(setting, values), text);
    } else if (setting->kind == EITP_SETTING_TEXT) {
        const char *own = eitp__setting_text(setting, values);
        eitp__json_write_text(text, own, strlen(own));
    } else {
        const char *quote = setting->kind == EITP_SETTING_CHOICE ? "\"" : "";
        eitp_setting_format(setting, values, value, sizeof value);
        eitp__buffer_format(text, "%s%s%s", quote, value, quote);
    }
}

EITP__PRIVATE void eitp__recipe_write(const eitp_recipe *recipe, eitp__buffer *text) {
    const eitp_recipe defaults = eitp_recipe_default();
    eitp__recipe_walk walk = EITP__ZERO;
    int count = 0;
    while (eitp__recipe_next(&walk)) {
        if (eitp__setting_is_open(&walk, recipe, &defaults))
            continue;
        eitp__buffer_format(text, "%s\"%s\": ", count++ ? ",\n" : "", walk.setting->name);
        eitp__write_value(walk.setting, eitp__recipe_values(recipe, &walk), text);
    }
}

size_t eitp_recipe_format(const eitp_recipe *recipe, char *text, size_t size) {
    eitp__buffer buffer;
    size_t length;
    if (text && size)
        *text = 0;
    if (!recipe || eitp__recipe_check_host(recipe, NULL))
        return 0;
    eitp__buffer_init(&buffer, &recipe->context.host);
    eitp__buffer_add_text(&buffer, "{");
    eitp__recipe_write(recipe, &buffer);
    eitp__buffer_add_text(&buffer, "}\n");
    length = buffer.failed ? 0 : buffer.size;
    if (text && size && length)
        snprintf(text, size, "%s", buffer.data);
    eitp__buffer_release(&buffer);
    return length;
}
