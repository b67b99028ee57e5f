/* Recipes: string settings, the tables of settings, and recipes as JSON. */
#include "tests/support/trainer_run.h"

enum { TEXT_SIZE = 1 << 15, MOST_SETTINGS = 400 };

/* Finds a setting, and its value in a recipe. */
static const eitp_setting *find_setting(eitp_recipe *recipe, const char *name, void **values) {
    for (size_t g = 0; eitp_recipe_group(g).settings; g++) {
        const eitp_setting_group group = eitp_recipe_group(g);
        *values = (char *)recipe + group.offset;
        for (size_t i = 0; i < group.count; i++) {
            if (!strcmp(group.settings[i].name, name))
                return &group.settings[i];
        }
    }
    return NULL;
}

static const char *format_setting(eitp_recipe *recipe, const char *name) {
    static char text[600];
    void *values;
    const eitp_setting *setting = find_setting(recipe, name, &values);
    eitp_setting_format(setting, setting ? values : NULL, text, sizeof text);
    return text;
}

/* ---- String settings ---- */

static void a_list_of_texts_is_a_setting(void) {
    static const char *const paths[] = {"a.csv", "b, c.csv", ""};
    eitp_recipe recipe = eitp_recipe_default();
    void *values, *others;
    const eitp_setting *data = find_setting(&recipe, "data", &values);
    const eitp_setting *model = find_setting(&recipe, "model", &others);
    char text[40] = "?";
    REQUIRE(data && model && data->kind == EITP_SETTING_TEXTS);
    CHECK(!recipe.data.training.count && !*format_setting(&recipe, "data"));
    CHECK(!eitp_setting_set_texts(data, paths, 3, values, &error_));
    CHECK(recipe.data.training.texts == paths && recipe.data.training.count == 3);
    CHECK_THAT(!strcmp(format_setting(&recipe, "data"), "a.csv, b, c.csv, "), "%s", format_setting(&recipe, "data"));
    eitp_setting_format(data, values, text, 9);
    CHECK_THAT(!strcmp(text, "a.csv, b"), "%s", text);
    eitp_setting_bounds(data, text, sizeof text);
    CHECK(!*text);
    CHECK(!eitp_setting_integer(data, values) && !(eitp_setting_number(data, values) > 0));
    CHECK(!eitp_setting_set_texts(data, NULL, 0, values, &error_) && !recipe.data.training.count);
    CHECK(eitp_setting_set_texts(data, NULL, 1, values, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_setting_set_texts(model, paths, 1, others, &error_) == EITP_ERROR_ARGUMENT && !recipe.model.directory);
    CHECK_THAT(!strcmp(error_.message, "model is not a list of strings"), "%s", error_.message);
    CHECK(eitp_setting_set_texts(NULL, paths, 1, values, &error_) == EITP_ERROR_ARGUMENT);
}

/* A list can only be set as a list. Anything else fails and changes nothing. */
static void a_list_is_only_set_as_a_list(void) {
    static const char *const paths[] = {"a.csv"};
    eitp_recipe recipe = eitp_recipe_default();
    void *values;
    const eitp_setting *data = find_setting(&recipe, "data", &values);
    REQUIRE(data && !eitp_setting_set_texts(data, paths, 1, values, &error_));
    CHECK(eitp_setting_set_text(data, "b.csv", values, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(!strcmp(error_.message, "data is a list; set it with eitp_setting_set_texts"), "%s", error_.message);
    CHECK(eitp_setting_set_integer(data, 0, values, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_setting_set_unsigned(data, UINT64_MAX, values, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_setting_set_number(data, 0, values, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(!strncmp(error_.message, "data ", 5), "%s", error_.message);
    CHECK(recipe.data.training.texts == paths && recipe.data.training.count == 1);
}

/* Lists are compared by their strings, not by their addresses. */
static void lists_are_compared_by_their_texts(void) {
    char a[] = "a", b[] = "b", same_a[] = "a";
    const char *const two[] = {a, b}, *const same[] = {same_a, b}, *const other[] = {a, a};
    eitp_recipe recipe = eitp_recipe_default(), compared = recipe;
    void *values, *ours;
    const eitp_setting *data = find_setting(&recipe, "data", &values);
    REQUIRE(data && find_setting(&compared, "data", &ours) == data);
    CHECK(eitp__setting_equal(data, values, ours));
    CHECK(!eitp_setting_set_texts(data, two, 2, values, &error_) && !eitp__setting_equal(data, values, ours));
    CHECK(!eitp_setting_set_texts(data, same, 2, ours, &error_) && eitp__setting_equal(data, values, ours));
    CHECK(!eitp_setting_set_texts(data, other, 2, ours, &error_) && !eitp__setting_equal(data, values, ours));
    CHECK(!eitp_setting_set_texts(data, two, 1, ours, &error_) && !eitp__setting_equal(data, values, ours));
}

static void a_text_may_be_one_of_several(void) {
    eitp_recipe recipe = eitp_recipe_default(), other = recipe;
    char bf16[] = "bf16", text[60];
    void *values, *others;
    const eitp_setting *precision = find_setting(&recipe, "precision", &values);
    REQUIRE(precision && precision->kind == EITP_SETTING_TEXT && precision->choices);
    CHECK(!strcmp(format_setting(&recipe, "precision"), "auto"));
    eitp_setting_bounds(precision, text, sizeof text);
    CHECK_THAT(!strcmp(text, "auto, fp32, bf16 or fp16"), "%s", text);
    CHECK(!eitp_setting_set_text(precision, "bf16", values, &error_) && !strcmp(recipe.memory.precision, "bf16"));
    CHECK(eitp_setting_set_text(precision, "bf1", values, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(!strcmp(error_.message, "precision: invalid value 'bf1' (choose from auto, fp32, bf16, fp16)"), "%s",
               error_.message);
    CHECK(eitp_setting_set_text(precision, "", values, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_setting_set_text(precision, "fp32 bf16", values, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_setting_set_integer(precision, 1, values, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_setting_set_texts(precision, NULL, 0, values, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(!strcmp(recipe.memory.precision, "bf16"));
    find_setting(&other, "precision", &others);
    CHECK(!eitp__setting_equal(precision, values, others));
    other.memory.precision = bf16;
    CHECK(eitp__setting_equal(precision, values, others));
    CHECK(!eitp_setting_set_text(precision, NULL, values, &error_) && !recipe.memory.precision);
    CHECK(!*format_setting(&recipe, "precision") && !eitp__setting_check(precision, values, &error_));
    recipe.memory.precision = "double";
    CHECK(eitp__setting_check(precision, values, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "'double'"));
}

/* ---- Tables ---- */

/* Returns the size of the struct whose members are the settings of a group. */
static size_t group_size(const eitp_setting_group *group) {
    static const struct {
        const char *name;
        size_t offset, size;
    } groups[] = {{"context", offsetof(eitp_recipe, context), sizeof(eitp_context_config)},
                  {"model", offsetof(eitp_recipe, model), sizeof(eitp_model_recipe)},
                  {"data", offsetof(eitp_recipe, data), sizeof(eitp_data_recipe)},
                  {"task", offsetof(eitp_recipe, task), sizeof(eitp_task_recipe)},
                  {"memory", offsetof(eitp_recipe, memory), sizeof(eitp_memory_recipe)},
                  {"trainer", offsetof(eitp_recipe, trainer), sizeof(eitp_trainer_config)},
                  {"run", offsetof(eitp_recipe, run), sizeof(eitp_run_config)},
                  {"length", 0, sizeof(eitp_recipe)}};
    for (size_t i = 0; i < EITP__COUNT(groups); i++) {
        if (!strcmp(groups[i].name, group->name))
            return groups[i].offset == group->offset ? groups[i].size : 0;
    }
    return 0;
}

/* A recipe leaves open the settings that the optimizer decides. */
static int is_open_by_default(const char *name) {
    return !strcmp(name, "lr") || !strcmp(name, "weight_decay");
}

static void a_setting_is_sound(const eitp_setting *setting, size_t size, const void *defaults) {
    char value[100];
    CHECK(setting->name && *setting->name);
    CHECK_THAT(setting->help && *setting->help && !strchr(setting->help, '\n'), "%s", setting->name);
    CHECK_THAT(strspn(setting->name, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(setting->name), "%s",
               setting->name);
    CHECK_THAT(setting->size && setting->offset + setting->size <= size, "%s", setting->name);
    CHECK_THAT((eitp__setting_check(setting, defaults, &error_) == EITP_OK) != is_open_by_default(setting->name),
               "%s: %s", setting->name, error_.message);
    CHECK_THAT(setting->kind != EITP_SETTING_CHOICE || setting->choices, "%s", setting->name);
    eitp_setting_format(setting, defaults, value, sizeof value);
    CHECK_THAT(!setting->choices || !*value || eitp__setting_find_choice(setting, value) >= 0, "%s: '%s'",
               setting->name, value);
    CHECK_THAT(setting->kind != EITP_SETTING_CHOICE || *value, "%s", setting->name);
}

/* The choices of the optimizer are "auto", followed by the library's in their order. */
static void the_optimizers_are_choices(void) {
    eitp_recipe recipe = eitp_recipe_default();
    void *values;
    const eitp_setting *setting = find_setting(&recipe, "optimizer", &values);
    char names[300] = "auto";
    for (int i = 0; i < EITP_OPTIMIZER_COUNT; i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, " %s", eitp_optimizer_get((eitp_optimizer)i)->name);
    }
    REQUIRE(setting && setting->choices);
    CHECK_THAT(!strcmp(setting->choices, names), "%s: %s", setting->choices, names);
}

/* No two settings of a recipe have the same name, or share a byte of it. */
static void the_groups_are_sound(void) {
    const eitp_recipe defaults = eitp_recipe_default();
    static unsigned char used[sizeof(eitp_recipe)];
    const char *names[MOST_SETTINGS];
    size_t count = 0, groups = 0;
    for (; eitp_recipe_group(groups).settings; groups++) {
        const eitp_setting_group group = eitp_recipe_group(groups);
        const size_t size = group_size(&group);
        CHECK_THAT(size && group.count, "%s", group.name);
        for (size_t i = 0; i < group.count; i++) {
            const eitp_setting *setting = &group.settings[i];
            REQUIRE(count < MOST_SETTINGS && group.offset + setting->offset + setting->size <= sizeof used);
            a_setting_is_sound(setting, size, (const char *)&defaults + group.offset);
            for (size_t k = 0; k < count; k++)
                CHECK_THAT(strcmp(names[k], setting->name), "%s is twice in a recipe", setting->name);
            for (size_t k = 0; k < setting->size; k++)
                CHECK_THAT(!used[group.offset + setting->offset + k]++, "%s", setting->name);
            names[count++] = setting->name;
        }
    }
    CHECK_THAT(groups == 8 && count > 60, "%d groups, %d settings", (int)groups, (int)count);
}

static void there_is_nothing_after_the_last_group(void) {
    static const size_t beyond[] = {8, 9, SIZE_MAX};
    for (size_t i = 0; i < EITP__COUNT(beyond); i++) {
        const eitp_setting_group group = eitp_recipe_group(beyond[i]);
        CHECK(!group.name && !group.settings && !group.count && !group.offset);
    }
}

static void a_recipe_starts_with_defaults(void) {
    const eitp_recipe recipe = eitp_recipe_default();
    CHECK(recipe.trainer.schedule.kind == EITP_SCHEDULE_LINEAR && recipe.trainer.schedule.peak < 0);
    CHECK(recipe.trainer.optimizer_config.weight_decay < 0 && recipe.run.resume == EITP_RESUME_NEWEST);
    CHECK(!recipe.run.steps && recipe.epochs == 1 && !strcmp(recipe.run.directory, "out"));
    CHECK(!strcmp(recipe.memory.precision, "auto") && !strcmp(recipe.memory.optimizer, "auto"));
    CHECK(recipe.data.validation_fraction == 0.1 && !recipe.model.directory && !recipe.model.shape);
    CHECK(recipe.task.block_size == -1 && recipe.model.dropout < 0 && !recipe.texts && !recipe.progress);
}

/* ---- JSON ---- */

/* Strings that need escapes. */
static const char strange[] = "a \"text\" \\ with \xc3\xa9, \xe2\x82\xac, a\ttab and a\nline";
static const char *const strange_list[] = {strange, "", "plain.csv"};

/* Returns a choice other than the default. */
static const char *other_choice(const eitp_setting *setting, const char *usual, char *text, size_t size) {
    const char *at = setting->choices;
    if (!strncmp(at, usual, strlen(usual)) && strchr(" ", at[strlen(usual)]))
        at += strcspn(at, " ") + 1;
    snprintf(text, size, "%.*s", (int)strcspn(at, " "), at);
    return text;
}

static eitp_status set_other_number(const eitp_setting *setting, void *values) {
    static const double numbers[] = {0.3, 0.7, 1.25};
    eitp_status status = EITP_ERROR_ARGUMENT;
    for (size_t i = 0; i < EITP__COUNT(numbers) && status; i++) {
        if (numbers[i] < setting->value || numbers[i] > setting->value)
            status = eitp_setting_set_number(setting, numbers[i], values, &error_);
    }
    return status;
}

/* Sets an allowed value other than the default. `text` must last as long as the values. */
static eitp_status set_other(const eitp_setting *setting, void *values, char *text, size_t size) {
    char usual[200];
    eitp_setting_format(setting, values, usual, sizeof usual);
    switch (setting->kind) {
    case EITP_SETTING_TEXTS:
        return eitp_setting_set_texts(setting, strange_list, EITP__COUNT(strange_list), values, &error_);
    case EITP_SETTING_TEXT:
        return eitp_setting_set_text(setting, setting->choices ? other_choice(setting, usual, text, size) : strange,
                                     values, &error_);
    case EITP_SETTING_CHOICE:
        other_choice(setting, usual, text, size);
        return eitp_setting_set_integer(setting, eitp__setting_find_choice(setting, text), values, &error_);
    case EITP_SETTING_FLAG:
        return eitp_setting_set_integer(setting, !eitp_setting_integer(setting, values), values, &error_);
    case EITP_SETTING_NUMBER:
        return set_other_number(setting, values);
    case EITP_SETTING_UNSIGNED:
        return setting->max < HUGE_VAL ? eitp_setting_set_unsigned(setting, 4000000001u, values, &error_)
                                       : eitp_setting_set_unsigned(setting, UINT64_MAX - 2, values, &error_);
    default:
        return eitp_setting_set_integer(setting, eitp_setting_integer(setting, values) + 1, values, &error_);
    }
}

/* Sets each setting to a value other than its default. */
static void set_everything(eitp_recipe *recipe, char texts[MOST_SETTINGS][40]) {
    const eitp_recipe defaults = eitp_recipe_default();
    size_t count = 0;
    for (size_t g = 0; eitp_recipe_group(g).settings; g++) {
        const eitp_setting_group group = eitp_recipe_group(g);
        for (size_t i = 0; i < group.count; i++) {
            const eitp_setting *setting = &group.settings[i];
            void *values = (char *)recipe + group.offset;
            CHECK_THAT(!set_other(setting, values, texts[count++], 40), "%s: %s", setting->name, error_.message);
            CHECK_THAT(!eitp__setting_equal(setting, values, (const char *)&defaults + group.offset), "%s",
                       setting->name);
        }
    }
}

/* Reads a string as the file "recipe.json". */
static eitp_status read_json(const char *json, eitp_recipe *recipe) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    eitp_status status = EITP_ERROR_IO;
    if (!scratch_make(directory))
        return status;
    if (!eitp__write_file(&host, scratch_path(directory, "recipe.json"), json, strlen(json), &error_))
        status = eitp_recipe_read(scratch_path(directory, "recipe.json"), recipe, &error_);
    scratch_remove(directory);
    return status;
}

static void every_setting_is_written_and_read(void) {
    static char texts[MOST_SETTINGS][40], written[TEXT_SIZE], again[TEXT_SIZE];
    eitp_recipe recipe = eitp_recipe_default(), read = eitp_recipe_default();
    set_everything(&recipe, texts);
    REQUIRE(eitp_recipe_format(&recipe, written, sizeof written) == strlen(written) && strlen(written) > 1000);
    REQUIRE_OK(read_json(written, &read), error_);
    CHECK(read.trainer.seed == UINT64_MAX - 2 && !strcmp(read.model.directory, strange));
    for (size_t g = 0; eitp_recipe_group(g).settings; g++) {
        const eitp_setting_group group = eitp_recipe_group(g);
        for (size_t i = 0; i < group.count; i++)
            CHECK_THAT(eitp__setting_equal(&group.settings[i], (const char *)&recipe + group.offset,
                                           (const char *)&read + group.offset),
                       "%s", group.settings[i].name);
    }
    CHECK(eitp_recipe_format(&read, again, sizeof again) == strlen(written) && !strcmp(written, again));
    eitp_recipe_release(&read);
    CHECK(!read.texts);
}

/* Open members are left out, so that they are open again when the recipe is read. */
static void an_open_setting_stays_open(void) {
    static const char *const open[] = {"\"lr\"",   "\"weight_decay\"", "\"model\"",
                                       "\"data\"", "\"block_size\"",   "\"dropout\""};
    static char written[TEXT_SIZE], again[TEXT_SIZE];
    eitp_recipe recipe = eitp_recipe_default(), read = recipe;
    eitp_recipe_format(&recipe, written, sizeof written);
    for (size_t i = 0; i < EITP__COUNT(open); i++)
        CHECK_THAT(!strstr(written, open[i]), "%s in %s", open[i], written);
    CHECK(strstr(written, "\"precision\": \"auto\"") && strstr(written, "\"epochs\": 1"));
    REQUIRE_OK(read_json(written, &read), error_);
    eitp_recipe_format(&read, again, sizeof again);
    CHECK_THAT(!strcmp(written, again), "%s%s", written, again);
    CHECK(read.trainer.schedule.peak < 0 && read.task.block_size == -1);
    eitp_recipe_release(&read);
}

static void a_text_that_is_cut_has_its_length(void) {
    static char whole[TEXT_SIZE];
    const eitp_recipe recipe = eitp_recipe_default();
    const size_t length = eitp_recipe_format(&recipe, whole, sizeof whole);
    char text[10] = "?";
    CHECK(length == strlen(whole) && eitp_recipe_format(&recipe, NULL, 0) == length);
    CHECK(eitp_recipe_format(&recipe, text, sizeof text) == length && strlen(text) == sizeof text - 1);
    CHECK(!strncmp(text, whole, sizeof text - 1));
    CHECK(!eitp_recipe_format(NULL, text, sizeof text) && !*text);
}

/* Units are accepted, as in the command's option. The plain number is written. */
static void bytes_have_units(void) {
    static const struct {
        const char *json;
        uint64_t bytes;
    } cases[] = {{"{\"memory_budget\": \"8G\"}", 8000000000},
                 {"{\"memory_budget\": \"900M\"}", 900000000},
                 {"{\"memory_budget\": \"1.5GiB\"}", 1610612736},
                 {"{\"memory_budget\": \"1000001\"}", 1000001},
                 {"{\"memory_budget\": 1000001}", 1000001}};
    static char written[TEXT_SIZE];
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        eitp_recipe recipe = eitp_recipe_default(), again = recipe;
        REQUIRE_OK(read_json(cases[i].json, &recipe), error_);
        CHECK_THAT(recipe.memory.budget == cases[i].bytes, "%s: %llu", cases[i].json,
                   (unsigned long long)recipe.memory.budget);
        eitp_recipe_format(&recipe, written, sizeof written);
        REQUIRE_OK(read_json(written, &again), error_);
        CHECK(again.memory.budget == cases[i].bytes);
        eitp_recipe_release(&recipe);
        eitp_recipe_release(&again);
    }
}

static void objects_only_group(void) {
    eitp_recipe recipe = eitp_recipe_default();
    REQUIRE_OK(read_json("{\"trainer\": {\"batch_size\": 3, \"what\": {\"ever\": {\"lr\": 1}}}, \"run\": {},\n"
                         "\"save-steps\": 7, \"output-dir\": \"there\", \"val_data\": \"one.txt\"}",
                         &recipe),
               error_);
    CHECK(recipe.trainer.batch_size == 3 && recipe.trainer.schedule.peak == 1 && recipe.run.save_steps == 7);
    CHECK(!strcmp(recipe.run.directory, "there") && recipe.data.validation.count == 1);
    CHECK(!strcmp(recipe.data.validation.texts[0], "one.txt") && recipe.trainer.grad_accum);
    eitp_recipe_release(&recipe);
}

static void null_leaves_a_value(void) {
    eitp_recipe recipe = eitp_recipe_default();
    recipe.trainer.batch_size = 5;
    recipe.model.shape = "tiny";
    REQUIRE_OK(read_json("{\"lr\": null, \"batch_size\": null, \"model\": null, \"init\": null, \"data\": null,\n"
                         "\"task\": null, \"what\": null, \"freeze\": \"wte\"}",
                         &recipe),
               error_);
    CHECK(recipe.trainer.schedule.peak < 0 && recipe.trainer.batch_size == 5 && !recipe.model.directory);
    CHECK(!strcmp(recipe.model.shape, "tiny") && !recipe.data.training.count && !strcmp(recipe.model.freeze, "wte"));
    eitp_recipe_release(&recipe);
}

/* Later files add to earlier ones, whose strings remain. */
static void files_are_read_one_after_another(void) {
    eitp_recipe recipe = eitp_recipe_default();
    REQUIRE_OK(read_json("{\"init\": \"tiny\", \"data\": [\"a.txt\", \"b.txt\"], \"lr\": 2e-5}", &recipe), error_);
    REQUIRE_OK(read_json("{\"output_dir\": \"there\", \"lr\": 1e-3, \"label_column\": 3}", &recipe), error_);
    CHECK(!strcmp(recipe.model.shape, "tiny") && recipe.data.training.count == 2);
    CHECK(!strcmp(recipe.data.training.texts[1], "b.txt") && !strcmp(recipe.run.directory, "there"));
    CHECK(recipe.trainer.schedule.peak == 1e-3 && !strcmp(recipe.data.label_column, "3"));
    eitp_recipe_release(&recipe);
    eitp_recipe_release(&recipe);
    eitp_recipe_release(NULL);
}

/* A refused recipe is reported with the line, and changes nothing. */
static void a_wrong_recipe_is_refused(void) {
    static const struct {
        const char *json, *words;
    } cases[] = {
        {"{\n\"lr\": 1,\n\"learning_rat\": 1}", "line 3: unknown setting 'learning_rat'"},
        {"{\"batchsize\": 1}", "line 1: unknown setting 'batchsize'; did you mean 'batch_size'?"},
        {"{\"batch-sise\": 1}", "line 1: unknown setting 'batch-sise'; did you mean 'batch_size'?"},
        {"{\"colour_of_the_sky\": 1}", "'colour_of_the_sky'; eitp_recipe_group lists the settings"},
        {"{\"memory_budget\": \"much\"}", "line 1: memory_budget: 'much' is not a number of bytes; expected a whole"},
        {"{\"memory_budget\": \"1G\\u0000\"}", "line 1: memory_budget must be a string without zero bytes"},
        {"{\"memory_budget\": true}", "line 1: memory_budget must be a number of bytes, or a string such as"},
        {"{\"memory_budget\": 1.5}", "line 1: memory_budget: '1.5' is not a number of bytes"},
        {"{\"memory_budget\": \"9007199254740993K\"}", "line 1: memory_budget must be at least 0 and at most"},
        {"{\"memory_budget\": -1}", "line 1: memory_budget must be at least 0"},
        {"{\"seed\": \"900M\"}", "line 1: seed must be a whole number (got '900M')"},
        {"{\"batch_size\": 2,\n\n\"trainer\": {\n\"grad_accum\": 0}}", "line 4: grad_accum must be at least 1"},
        {"{\"lr\": -1}", "line 1: lr must be at least 0"},
        {"{\"lr\": \"much\"}", "line 1: lr must be a number (got 'much')"},
        {"{\"dropout\": 1}", "line 1: dropout must be below 1 (got 1)"},
        {"{\"steps\": 1.5}", "line 1: steps must be a whole number (got '1.5')"},
        {"{\"steps\": \"5\"}", "line 1: steps must be a whole number"},
        {"{\"steps\": 9223372036854775808}", "line 1: steps must be at least 0 and at most"},
        {"{\"seed\": -1}", "line 1: seed must be at least 0 (got -1)"},
        {"{\"seed\": 18446744073709551616}", "line 1: seed must be a whole number"},
        {"{\"seed\": true}", "line 1: seed must be a whole number"},
        {"{\"threads\": 2147483648}", "line 1: threads must be at least 0 and at most 4096"},
        {"{\"dense_rows\": 1}", "line 1: dense_rows must be true or false"},
        {"{\"task\": \"classification\"}", "line 1: task: invalid value 'classification' (choose from auto, lm, mlm,"},
        {"{\"task\": 3}", "line 1: task must be a string (got 3)"},
        {"{\"precision\": \"half\"}", "line 1: precision: invalid value 'half' (choose from auto, fp32, bf16, fp16)"},
        {"{\"init\":\n3}", "line 2: init must be a string (got 3)"},
        {"{\"precision\": 16}", "line 1: precision must be a string (got 16)"},
        {"{\"output_dir\": 1}", "line 1: output_dir must be a string (got 1)"},
        {"{\"label_column\": true}", "line 1: label_column must be a string or a number (got true)"},
        {"{\"init\": true}", "line 1: init must be a string (got true)"},
        {"{\"init\": [\"tiny\"]}", "line 1: init must be a string (got a list)"},
        {"{\"data\": 1}", "line 1: data must be a string or a list of strings"},
        {"{\"data\": [\"a\",\n2]}", "line 1: data must be a string or a list of strings"},
        {"[1, 2]", "a recipe must be a JSON object"},
        {"{\"lr\": 1,\n\"lr\": 2}", "line 2"},
        {"{\"lr\": 1,\n", "line 2"},
        {"", "line 1"}};
    static char before[TEXT_SIZE], after[TEXT_SIZE];
    eitp_recipe recipe = eitp_recipe_default();
    REQUIRE_OK(read_json("{\"batch_size\": 7, \"model\": \"there\", \"lr\": 0.5, \"data\": [\"a\"]}", &recipe), error_);
    eitp_recipe_format(&recipe, before, sizeof before);
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        CHECK_THAT(read_json(cases[i].json, &recipe) == EITP_ERROR_FORMAT, "%s", cases[i].json);
        CHECK_THAT(strstr(error_.message, cases[i].words) && strstr(error_.message, "recipe.json"), "%s: %s",
                   cases[i].json, error_.message);
        CHECK_THAT(!strchr(error_.message, '\n'), "%s", error_.message);
        eitp_recipe_format(&recipe, after, sizeof after);
        CHECK_THAT(!strcmp(before, after), "%s: %s", cases[i].json, after);
    }
    eitp_recipe_release(&recipe);
}

static void a_text_with_a_zero_byte_is_refused(void) {
    static const char *const texts[] = {"{\"model\": \"a\\u0000b\"}", "{\"data\": [\"a\", \"a\\u0000b\"]}",
                                        "{\"task\": \"lm\\u0000\"}"};
    eitp_recipe recipe = eitp_recipe_default();
    for (size_t i = 0; i < EITP__COUNT(texts); i++) {
        CHECK_THAT(read_json(texts[i], &recipe) == EITP_ERROR_FORMAT, "%s", texts[i]);
        CHECK(!recipe.model.directory && !recipe.data.training.count && !recipe.task.kind && !recipe.texts);
    }
}

static void a_missing_file_is_named(void) {
    eitp_recipe recipe = eitp_recipe_default();
    char directory[512];
    REQUIRE(scratch_make(directory));
    CHECK(eitp_recipe_read(scratch_path(directory, "none.json"), &recipe, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "none.json'"), "%s", error_.message);
    CHECK(eitp_recipe_read(NULL, &recipe, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_recipe_read("recipe.json", NULL, &error_) == EITP_ERROR_ARGUMENT);
    scratch_remove(directory);
}

/* A zeroed recipe lacks a host and is refused, regardless of its other settings. */
static void a_zeroed_recipe_is_refused(void) {
    static const char words[] = "; start from eitp_recipe_default";
    static const char *const paths[] = {"text.txt"};
    char directory[512], text[10] = "?";
    eitp_recipe recipe = EITP__ZERO;
    eitp_transformer_config shape;
    eitp_training *training = NULL;
    REQUIRE(scratch_make(directory));
    for (int i = 0; i < 2; i++) {
        CHECK(eitp_training_open(&recipe, &training, &error_) == EITP_ERROR_ARGUMENT && !training);
        CHECK_THAT(strstr(error_.message, words), "%s", error_.message);
        CHECK(eitp_recipe_read_shape(&recipe, &shape, NULL, &error_) == EITP_ERROR_ARGUMENT);
        CHECK_THAT(strstr(error_.message, words), "%s", error_.message);
        CHECK(eitp_recipe_read("recipe.json", &recipe, &error_) == EITP_ERROR_ARGUMENT);
        CHECK_THAT(strstr(error_.message, words), "%s", error_.message);
        CHECK(!eitp_recipe_format(&recipe, text, sizeof text) && !*text);
        recipe.run.directory = directory;
        recipe.run.steps = recipe.trainer.batch_size = recipe.trainer.grad_accum = 1;
        recipe.model.shape = "tiny";
        recipe.data.training.texts = paths;
        recipe.data.training.count = 1;
    }
    eitp_recipe_release(&recipe);
    scratch_remove(directory);
}

/* Each allocation and each file call of reading fails once. Nothing leaks, and the recipe is unchanged. */
static void every_call_of_reading_fails(void) {
    static const char json[] = "{\"init\": \"tiny\", \"data\": [\"a.txt\", \"b.txt\"], \"trainer\": {\"lr\": 1}}";
    const eitp_host host = eitp_host_default();
    char directory[512];
    const char *path;
    int goes_on[2] = {1, 1};
    REQUIRE(scratch_make(directory));
    path = scratch_path(directory, "recipe.json");
    REQUIRE(!eitp__write_file(&host, path, json, strlen(json), &error_));
    for (long n = 1; goes_on[0] || goes_on[1]; n++) {
        for (int of_files = 0; of_files < 2; of_files++) {
            eitp_recipe recipe = eitp_recipe_default();
            eitp_status status;
            faults f;
            faults_begin(&f);
            f.fail_allocation = of_files ? 0 : n;
            f.fail_file_call = of_files ? n : 0;
            recipe.context.host = f.host;
            status = eitp_recipe_read(path, &recipe, &error_);
            CHECK_THAT(!status == !f.failures || (of_files && !status), "%ld: %s", n, error_.message);
            CHECK_THAT(!status || status == (of_files ? EITP_ERROR_IO : EITP_ERROR_MEMORY), "%ld: %d, %s", n,
                       (int)status, error_.message);
            CHECK(status ? !recipe.model.shape && !recipe.texts : recipe.data.training.count == 2);
            eitp_recipe_release(&recipe);
            goes_on[of_files] = faults_end(&f);
        }
    }
    scratch_remove(directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(a_list_of_texts_is_a_setting),
        TEST(a_list_is_only_set_as_a_list),
        TEST(lists_are_compared_by_their_texts),
        TEST(a_text_may_be_one_of_several),
        TEST(the_optimizers_are_choices),
        TEST(the_groups_are_sound),
        TEST(there_is_nothing_after_the_last_group),
        TEST(a_recipe_starts_with_defaults),
        TEST(every_setting_is_written_and_read),
        TEST(an_open_setting_stays_open),
        TEST(a_text_that_is_cut_has_its_length),
        TEST(bytes_have_units),
        TEST(objects_only_group),
        TEST(null_leaves_a_value),
        TEST(files_are_read_one_after_another),
        TEST(a_wrong_recipe_is_refused),
        TEST(a_text_with_a_zero_byte_is_refused),
        TEST(a_missing_file_is_named),
        TEST(a_zeroed_recipe_is_refused),
        TEST(every_call_of_reading_fails),
    };
    return RUN_TESTS(tests, argc, argv);
}
