#include "run/recipe.h"

#include "options/table.h"

/* Settings that one option, or several, stand for in another way: see run.c. */
static int is_set_apart(const char *name) {
    static const char *const names[] = {"model", "init", "output_dir", "steps", "schedule_steps", "last_sample"};
    for (size_t i = 0; i < COMMAND_COUNT(names); i++) {
        if (!strcmp(names[i], name))
            return 1;
    }
    return 0;
}

/* The option of a setting, by its name, or OPTION_CAPACITY. */
static option_id option_of_setting(const eitp_setting *setting) {
    const option_name found = option_find(setting->name);
    return *found.on || is_set_apart(setting->name) ? OPTION_CAPACITY : found.id;
}

static eitp_status set_value(const eitp_setting *setting, const option_value *value, option_kind kind, void *config,
                             eitp_error *error) {
    switch (setting->kind) {
    case EITP_SETTING_TEXTS:
        return eitp_setting_set_texts(setting, (const char *const *)value->texts, value->count, config, error);
    case EITP_SETTING_TEXT:
        return eitp_setting_set_text(setting, kind == KIND_CHOICE ? value->choice : value->texts[0], config, error);
    case EITP_SETTING_NUMBER:
        return eitp_setting_set_number(setting, value->number, config, error);
    case EITP_SETTING_UNSIGNED:
        return eitp_setting_set_unsigned(setting, (uint64_t)value->integer, config, error);
    default:
        return eitp_setting_set_integer(setting, value->integer, config, error);
    }
}

static eitp_status set_group(const option_set *o, const eitp_setting_group *group, eitp_recipe *recipe,
                             eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < group->count && !status; i++) {
        const option_id id = option_of_setting(&group->settings[i]);
        if (id != OPTION_CAPACITY && o->values[id].count)
            status = set_value(&group->settings[i], &o->values[id], option_of(id)->kind, (char *)recipe + group->offset,
                               error);
    }
    return status;
}

eitp_status recipe_from_options(const option_set *o, eitp_recipe *recipe, eitp_error *error) {
    eitp_status status = EITP_OK;
    for (size_t i = 0; eitp_recipe_group(i).settings && !status; i++) {
        const eitp_setting_group group = eitp_recipe_group(i);
        status = set_group(o, &group, recipe, error);
    }
    return status;
}

eitp_status recipe_follow_options(const option_set *o, eitp_recipe *recipe, eitp_error *error) {
    static const char *const names[] = {"memory", "trainer", "run", "length"};
    eitp_status status = EITP_OK;
    for (size_t i = 0; eitp_recipe_group(i).settings && !status; i++) {
        const eitp_setting_group group = eitp_recipe_group(i);
        for (size_t j = 0; j < COMMAND_COUNT(names) && !status; j++) {
            if (!strcmp(names[j], group.name))
                status = set_group(o, &group, recipe, error);
        }
    }
    if (options_has(o, OPTION_BLOCK_SIZE))
        recipe->task.block_size = options_integer(o, OPTION_BLOCK_SIZE);
    return status;
}
