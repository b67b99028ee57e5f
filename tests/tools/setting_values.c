/* Sets every setting of a recipe, at its bounds and beyond, from C, from JSON, from the command line and from an
   options file. All must accept the same values, and refuse the others with the same words. */
#include "options/table.h"

static int passed, failed;

static void check(int holds, const char *setting, const char *value, const char *what) {
    passed += holds;
    failed += !holds;
    if (!holds)
        printf("FAILED %s %s: %s\n", setting, value, what);
}

/* The result of setting a value in one of the four ways. */
typedef struct outcome {
    eitp_status status;
    char value[400], message[400];
} outcome;

static void describe(outcome *out, const eitp_setting *setting, const void *config, const eitp_error *error) {
    if (out->status)
        snprintf(out->message, sizeof out->message, "%s", error->message);
    else
        eitp_setting_format(setting, config, out->value, sizeof out->value);
}

/* ---- The four ways ---- */

static int is_number(const char *value) {
    char *end;
    const double number = strtod(value, &end);
    return *value && !*end && isfinite(number) && !value[strspn(value, "0123456789.-+e")];
}

static int is_whole(const char *value) {
    const char *digits = value + (*value == '-');
    return *digits && !digits[strspn(digits, "0123456789")];
}

/* Sets numbers as numbers. Any other value can only be passed from C as a string. */
static outcome set_in_c(const eitp_setting_group *group, const eitp_setting *setting, const char *value) {
    eitp_recipe recipe = eitp_recipe_default();
    void *config = (char *)&recipe + group->offset;
    outcome out = {EITP_OK, "", ""};
    eitp_error error;
    const double number = strtod(value, NULL);
    if (setting->kind == EITP_SETTING_TEXTS)
        out.status = eitp_setting_set_texts(setting, &value, 1, config, &error);
    else if (setting->kind == EITP_SETTING_NUMBER && is_number(value))
        out.status = eitp_setting_set_number(setting, number, config, &error);
    else if (setting->kind == EITP_SETTING_UNSIGNED && is_whole(value) && *value != '-' &&
             number < 18446744073709551615.0)
        out.status = eitp_setting_set_unsigned(setting, strtoull(value, NULL, 10), config, &error);
    else if (setting->kind < EITP_SETTING_NUMBER && is_whole(value) && fabs(number) < 9223372036854775807.0)
        out.status = eitp_setting_set_integer(setting, strtoll(value, NULL, 10), config, &error);
    else
        out.status = eitp_setting_set_text(setting, value, config, &error);
    describe(&out, setting, config, &error);
    return out;
}

/* Writes {"name": value} with the type of the setting. Values that JSON numbers cannot express are only tested in the
   other ways. */
static int write_json(const eitp_setting *setting, const char *value) {
    const int is_plain = setting->kind < EITP_SETTING_CHOICE && !setting->choices;
    const int is_flag = !strcmp(value, "true") || !strcmp(value, "false");
    const int is_json = is_number(value) && *value != '+';
    const int is_bytes = (setting->flags & EITP_SETTING_BYTES) != 0;
    const char *quote = is_plain && !(is_bytes && !is_json) ? "" : "\"";
    FILE *file;
    if (is_plain && !is_bytes && !(setting->kind == EITP_SETTING_FLAG ? is_flag : is_json))
        return 0;
    file = fopen("setting.json", "w");
    fprintf(file, "{\n\"%s\": %s%s%s}\n", setting->name, quote, value, quote);
    return !fclose(file);
}

static outcome set_by_recipe(const eitp_setting_group *group, const eitp_setting *setting) {
    eitp_recipe recipe = eitp_recipe_default();
    outcome out = {EITP_OK, "", ""};
    eitp_error error;
    out.status = eitp_recipe_read("setting.json", &recipe, &error);
    describe(&out, setting, (char *)&recipe + group->offset, &error);
    eitp_recipe_release(&recipe);
    return out;
}

/* Sets a value of a run's recipe through an option. */
static outcome set_by_option(const eitp_setting_group *group, const eitp_setting *setting, option_id id,
                             const char *value) {
    eitp_recipe recipe = eitp_recipe_default();
    outcome out = {EITP_OK, "", ""};
    eitp_error error;
    option_set o;
    options_create(&o, "train", OPTIONS_TRAIN);
    out.status = value ? options_set(&o, id, value, SOURCE_COMMAND_LINE, "--", &error)
                       : options_read_config(&o, "setting.json", NULL, SOURCE_CONFIG, &error);
    if (!out.status)
        out.status = options_to_recipe(&o, NULL, &recipe, &error);
    describe(&out, setting, (char *)&recipe + group->offset, &error);
    options_release(&o);
    return out;
}

/* ---- Comparing ---- */

/* Compares an outcome with the one from C, whose message starts with the name of the setting. This outcome's message
   starts with `begin`. */
static void compare(const eitp_setting *setting, const char *value, const outcome *c, const outcome *other,
                    const char *begin, const char *way) {
    char text[1000];
    const char *rest = c->message + strlen(setting->name);
    snprintf(text, sizeof text, "%s: C %s%s, %s %s%s", way, c->status ? "refuses: " : "has ",
             c->status ? c->message : c->value, way, other->status ? "refuses: " : "has ",
             other->status ? other->message : other->value);
    check(!c->status == !other->status && !strcmp(c->value, other->value), setting->name, value, text);
    if (c->status && other->status)
        check(!strncmp(other->message, begin, strlen(begin)) && !strcmp(other->message + strlen(begin), rest),
              setting->name, value, text);
}

static void try_value(const eitp_setting_group *group, const eitp_setting *setting, option_id id, const char *value) {
    const outcome c = set_in_c(group, setting, value);
    char begin[100];
    outcome other;
    snprintf(begin, sizeof begin, "--%s", options_name(id));
    other = set_by_option(group, setting, id, value);
    compare(setting, value, &c, &other, begin, "the command line");
    if (!write_json(setting, value))
        return;
    other = set_by_option(group, setting, id, NULL);
    snprintf(begin, sizeof begin, "setting.json:2: %s", options_name(id));
    compare(setting, value, &c, &other, begin, "--config");
    other = set_by_recipe(group, setting);
    snprintf(begin, sizeof begin, "setting.json: line 2: %s", setting->name);
    compare(setting, value, &c, &other, begin, "the recipe");
}

/* ---- Values ---- */

static void try_number(const eitp_setting_group *group, const eitp_setting *setting, option_id id, double number) {
    char value[60];
    snprintf(value, sizeof value, setting->kind == EITP_SETTING_NUMBER ? "%.17g" : "%.0f", number);
    try_value(group, setting, id, value);
}

/* Tries the bounds, their neighbours within and beyond, and the default. */
static void try_bounds(const eitp_setting_group *group, const eitp_setting *setting, option_id id) {
    const int is_number = setting->kind == EITP_SETTING_NUMBER;
    const double bounds[] = {setting->min, setting->max};
    for (size_t i = 0; i < COMMAND_COUNT(bounds); i++) {
        if (!isfinite(bounds[i])) {
            try_number(group, setting, id, i ? 9e15 : -9e15);
            continue;
        }
        try_number(group, setting, id, bounds[i]);
        try_number(group, setting, id, is_number ? nextafter(bounds[i], -HUGE_VAL) : bounds[i] - 1);
        try_number(group, setting, id, is_number ? nextafter(bounds[i], HUGE_VAL) : bounds[i] + 2);
    }
    try_number(group, setting, id, setting->value);
}

static void try_choices(const eitp_setting_group *group, const eitp_setting *setting, option_id id) {
    const char *list = setting->choices, *word;
    char value[60];
    size_t size;
    while (option_next_word(&list, &word, &size)) {
        snprintf(value, sizeof value, "%.*s", (int)size, word);
        try_value(group, setting, id, value);
    }
}

/* The command accepts more spellings of flags and choices, such as 1 for true. */
static void try_texts(const eitp_setting_group *group, const eitp_setting *setting, option_id id) {
    static const char *const texts[] = {"",
                                        "word",
                                        "x",
                                        "-",
                                        "-1",
                                        "0",
                                        "1",
                                        "1.5",
                                        "2",
                                        "+3",
                                        "1e3",
                                        "0x10",
                                        "900M",
                                        "1.5G",
                                        "true",
                                        "18446744073709551615",
                                        "1e400",
                                        "nan",
                                        "18446744073709551616",
                                        "-9223372036854775809"};
    static const char *const words[] = {"", "word", "x", "-", "2", "nan", "true or", "aut"};
    const int has_spellings = setting->choices || setting->kind == EITP_SETTING_FLAG;
    for (size_t i = 0; i < COMMAND_COUNT(texts) && !has_spellings; i++)
        try_value(group, setting, id, texts[i]);
    for (size_t i = 0; i < COMMAND_COUNT(words) && has_spellings; i++)
        try_value(group, setting, id, words[i]);
}

static void try_setting(const eitp_setting_group *group, const eitp_setting *setting) {
    const option_id id = option_find(setting->name).id;
    check(id != OPTION_CAPACITY, setting->name, "", "the command has no such option");
    if (id == OPTION_CAPACITY)
        return;
    try_texts(group, setting, id);
    if (setting->kind == EITP_SETTING_FLAG) {
        try_value(group, setting, id, "true");
        try_value(group, setting, id, "false");
    } else if (setting->choices) {
        try_choices(group, setting, id);
    } else if (setting->kind < EITP_SETTING_FLAG) {
        try_bounds(group, setting, id);
    }
}

/* True for settings that are not options, because a run derives them from others. */
static int is_derived(const char *name) {
    static const char *const names[] = {"schedule_steps",       "last_sample",  "least_memory", "save_every_epochs",
                                        "memory_check_seconds", "cpu_mem_acts", "gpu_mem_warn"};
    for (size_t i = 0; i < COMMAND_COUNT(names); i++) {
        if (!strcmp(names[i], name))
            return 1;
    }
    return 0;
}

int main(void) {
    int count = 0;
    for (size_t i = 0; eitp_recipe_group(i).settings; i++) {
        const eitp_setting_group group = eitp_recipe_group(i);
        for (size_t k = 0; k < group.count; k++) {
            if (is_derived(group.settings[k].name))
                continue;
            try_setting(&group, &group.settings[k]);
            count++;
        }
    }
    check(count > 150, "settings", "", "there are more than 150");
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
