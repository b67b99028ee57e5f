/* The settings of a trainer: checking, writing, reading and comparing them. */
#include "tests/support/checkpoints.h"
#include "tests/support/trainer_run.h"

#define GOLDEN "tests/golden/checkpoint"

/* Values that differ from the defaults and from one another. */
static void set_all(eitp_trainer_config *config) {
    config->batch_size = 3;
    config->grad_accum = 5;
    config->micro_batches_per_pass = 2;
    config->seed = 0xfedcba9876543210u;
    config->shuffle = EITP_SHUFFLE_NONE;
    config->schedule.kind = EITP_SCHEDULE_COSINE;
    config->schedule.warmup = 7;
    config->schedule.steps = 41;
    config->schedule.peak = 0.0025;
    config->schedule.final = 0.000125;
    config->last_sample = 123456789012345;
    config->max_grad_norm = 0.7;
    config->optimizer_config.beta1 = 0.8;
    config->optimizer_config.beta2 = 0.95;
    config->optimizer_config.epsilon = 1e-7;
    config->optimizer_config.weight_decay = 0.1;
    config->dense_rows = 1;
}

/* Returns the content of a file, which the caller frees, or NULL if it cannot be read. */
static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = (char *)calloc(1, 8192);
    if (file && text && fread(text, 1, 8191, file) > 0 && !fclose(file))
        return text;
    free(text);
    return NULL;
}

/* Replaces one word in a string. Frees the given string and returns a new one, which the caller frees. */
static char *replace_word(char *text, const char *from, const char *to) {
    char *changed = (char *)calloc(1, 8192), *at = text ? strstr(text, from) : NULL;
    if (at && changed)
        snprintf(changed, 8192, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    free(text);
    return changed;
}

/* Returns the golden state as it is written today. The file predates the manifest, has no position in the data, and
   calls "micro_batches_per_pass" by its earlier name "merged". */
static char *read_golden(void) {
    char *text = replace_word(read_text(GOLDEN "/trainer_state.json"), "\"merged\"", "\"micro_batches_per_pass\"");
    text = replace_word(text, "  \"dense_rows\"", "  \"samples\": 0,\n  \"dense_rows\"");
    return replace_word(text, "\"version\": 4", "\"version\": 5");
}

/* Removes the line of a member whose value depends on the machine. */
static void leave_out(char *text, const char *name) {
    char *line = strstr(text, name);
    if (line)
        memmove(line, strchr(line, '\n'), strlen(strchr(line, '\n')) + 1);
}

/* Creates a trainer with set_all, saves it, and returns the text of trainer_state.json. */
static char *save_all(run *r, const char *directory, char checkpoint[700]) {
    const eitp_host host = eitp_host_default();
    const variant v = default_variant();
    char output[600];
    eitp_trainer_config config;
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, 700, "%s/checkpoint-0", output);
    if (!write_text(directory) || make_run(r, &host, &v, directory, &error_))
        return NULL;
    eitp_trainer_destroy(r->trainer);
    r->trainer = NULL;
    config = r->config;
    set_all(&config);
    eitp_task_release(&r->task);
    r->language.block_size = 16;
    if (make_task(r, &error_) || eitp_trainer_create(&r->task, &config, &r->trainer, &error_) ||
        eitp_trainer_save(r->trainer, output, &error_)) {
        printf("    %s\n", error_.message);
        return NULL;
    }
    return read_text(scratch_path(checkpoint, "trainer_state.json"));
}

/* It equals the golden state byte for byte, except for members that depend on the machine. */
static void the_state_is_written_as_the_golden_one(void) {
    static const char *const machine[] = {"  \"numerics\"", "  \"model_checksum\"", "  \"optimizer_checksum\""};
    char directory[512], checkpoint[700], *golden = read_golden(), *written;
    run r;
    REQUIRE(scratch_make(directory));
    written = save_all(&r, directory, checkpoint);
    REQUIRE(written && golden);
    for (size_t i = 0; i < EITP__COUNT(machine); i++) {
        leave_out(golden, machine[i]);
        leave_out(written, machine[i]);
    }
    CHECK_THAT(!strcmp(golden, written), "golden:\n%s\nwritten:\n%s", golden, written);
    free(golden);
    free(written);
    end_run(&r);
    scratch_remove(directory);
}

/* All settings are read back, from a new checkpoint and from the golden one, which has an earlier name. */
static void the_state_is_read_back(void) {
    const eitp_host host = eitp_host_default();
    char directory[512], checkpoint[700], *written;
    const char *const checkpoints[] = {checkpoint, GOLDEN};
    eitp_trainer_config config = eitp_trainer_config_default();
    size_t count;
    const eitp_setting *settings = eitp_settings_of("eitp_trainer_config", &count);
    run r;
    set_all(&config);
    REQUIRE(scratch_make(directory));
    written = save_all(&r, directory, checkpoint);
    REQUIRE(written);
    free(written);
    for (size_t k = 0; k < EITP__COUNT(checkpoints); k++) {
        eitp_checkpoint_info info;
        REQUIRE_OK(eitp_checkpoint_read_info(&host, checkpoints[k], &info, &error_), error_);
        for (size_t i = 0; i < count; i++)
            CHECK_THAT(eitp__setting_equal(&settings[i], &info.config, &config), "%s: %.17g", settings[i].name,
                       eitp_setting_number(&settings[i], &info.config));
        CHECK(info.step == 0 && info.rows == 16 && info.config.optimizer_config.optimizer == EITP_ADAMW);
        CHECK(info.config.optimizer_config.piece_bytes == EITP_PIECE_BYTES); /* the default: the file lacks it */
    }
    end_run(&r);
    scratch_remove(directory);
}

/* Sets every setting of an objective to a value other than its default. Leaves all regularizers off, so that it suits
   any model. */
static void set_objective(eitp_objective_config *objective) {
    size_t count;
    const eitp_setting *settings = eitp_settings_of("eitp_trainer_config", &count);
    eitp_trainer_config config = eitp_trainer_config_default();
    for (size_t i = 0; i < count; i++) {
        const double value = settings[i].value;
        if (!(settings[i].flags & EITP_SETTING_MINOR))
            continue;
        if (settings[i].kind == EITP_SETTING_NUMBER)
            REQUIRE_OK(eitp_setting_set_number(&settings[i], value + 0.03125, &config, &error_), error_);
        else
            REQUIRE_OK(eitp_setting_set_integer(&settings[i], (int64_t)value + 1, &config, &error_), error_);
    }
    config.objective.preset = EITP_OBJECTIVE_SAFE;
    *objective = config.objective;
}

/* A checkpoint has the whole objective. Without regularizers it has nothing of it. */
static void the_objective_is_read_back(void) {
    static const char *const members[] = {"\"objective\": 1,", "\"path_norm\": 1,", "\"energy_target\": 0.03125,",
                                          "\"group\": 1,", "\"self_repair_form\": 1,"};
    const eitp_host host = eitp_host_default();
    const variant v = default_variant();
    char directory[512], output[600], *text;
    eitp_checkpoint_info info;
    eitp_trainer_config config;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    config = r.config;
    config.batch_size = 2; /* groups per micro-batch */
    eitp_trainer_destroy(r.trainer);
    set_objective(&config.objective);
    REQUIRE_OK(eitp_trainer_create(&r.task, &config, &r.trainer, &error_), error_);
    snprintf(output, sizeof output, "%s/out", directory);
    REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
    snprintf(output, sizeof output, "%s/out/checkpoint-0", directory);
    REQUIRE_OK(eitp_checkpoint_read_info(&host, output, &info, &error_), error_);
    CHECK(!memcmp(&info.config.objective, &config.objective, sizeof config.objective));
    text = read_text(scratch_path(output, "trainer_state.json"));
    REQUIRE(text);
    for (size_t i = 0; i < EITP__COUNT(members); i++)
        CHECK_THAT(strstr(text, members[i]), "%s", members[i]);
    free(text);
    end_run(&r);
    scratch_remove(directory);
}

/* Writes a state into a directory with the value of one member replaced or, if the value is "", without the member. */
static int write_changed(const char *state, const char *directory, const char *name, const char *value) {
    char quoted[80];
    const char *line, *end;
    FILE *file = fopen(scratch_path(directory, "trainer_state.json"), "wb");
    snprintf(quoted, sizeof quoted, "  \"%s\": ", name);
    line = strstr(state, quoted);
    if (!file || !line)
        return 0;
    end = strchr(line, '\n');
    fwrite(state, 1, (size_t)(line - state), file);
    if (*value)
        fprintf(file, "%s%s%s\n", quoted, value, end[-1] == ',' ? "," : "");
    fputs(end + 1, file);
    return !fclose(file);
}

static const eitp_setting *setting_named(const char *name) {
    size_t count, i = 0;
    const eitp_setting *settings = eitp_settings_of("eitp_trainer_config", &count);
    while (i < count && strcmp(settings[i].name, name))
        i++;
    return i < count ? &settings[i] : NULL;
}

/* Missing members and values out of bounds are named. Optional members may be missing. */
static void a_state_out_of_bounds_is_refused(void) {
    static const struct {
        const char *name, *value, *words;
    } cases[] = {{"batch_size", "0", "'batch_size' is 0"},
                 {"grad_accum", "1048577", "'grad_accum' is 1048577"},
                 {"micro_batches_per_pass", "0", "'micro_batches_per_pass' must be at least 1"},
                 {"shuffle", "2", "'shuffle'"},
                 {"lr_schedule", "-1", "'lr_schedule'"},
                 {"last_sample", "-1", "'last_sample' is -1"},
                 {"block_size", "0", "'block_size' is 0"},
                 {"data_hash_low", "4294967296", "'data_hash_low'"},
                 {"step", "-1", "'step' is -1"},
                 {"beta1", "1", "beta1 must be at least 0 and below 1 (got 1)"},
                 {"epsilon", "0", "epsilon must be above 0 and at most 1 (got 0)"},
                 {"lr", "\"much\"", "'lr' must be a number"},
                 {"dense_rows", "1", "'dense_rows' must be true or false"},
                 {"weight_decay", "", "'weight_decay' is missing"},
                 {"seed", "", "'seed' is missing"},
                 {"step", "", "'step' is missing"}};
    const eitp_host host = eitp_host_default();
    eitp_checkpoint_info info;
    char directory[512], *state = read_golden();
    REQUIRE(scratch_make(directory) && state);
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        REQUIRE(write_changed(state, directory, cases[i].name, cases[i].value));
        CHECK_THAT(eitp_checkpoint_read_info(&host, directory, &info, &error_) == EITP_ERROR_FORMAT, "%s: %s",
                   cases[i].name, error_.message);
        CHECK_THAT(strstr(error_.message, cases[i].words), "%s", error_.message);
    }
    REQUIRE(write_changed(state, directory, "dense_rows", ""));
    REQUIRE_OK(eitp_checkpoint_read_info(&host, directory, &info, &error_), error_);
    CHECK(!info.config.dense_rows);
    free(state);
    scratch_remove(directory);
}

/* Stores a member without checking it. */
static void store(const eitp_setting *setting, int64_t integer, double number, eitp_trainer_config *config) {
    const int small = (int)integer;
    char *place = (char *)config + setting->offset;
    if (setting->kind == EITP_SETTING_NUMBER)
        memcpy(place, &number, sizeof number);
    else if (setting->kind == EITP_SETTING_FLAG || setting->kind == EITP_SETTING_CHOICE)
        memcpy(place, &small, sizeof small);
    else
        memcpy(place, &integer, sizeof integer);
}

/* Checks that setting a value and checking all settings accept it, or refuse it by name and change nothing. */
static void check_value(const eitp_setting *setting, int64_t integer, double number, int is_within) {
    eitp_trainer_config before = eitp_trainer_config_default(), set, stored;
    const int is_number = setting->kind == EITP_SETTING_NUMBER;
    const eitp_status expected = is_within ? EITP_OK : EITP_ERROR_ARGUMENT;
    eitp_status status;
    before.grad_accum = 1 << 20; /* an upper bound of micro_batches_per_pass */
    before.objective.entropy_low = 0;
    before.objective.entropy_high = 1;
    before.objective.controller_max = 1e30;
    set = stored = before;
    status = is_number ? eitp_setting_set_number(setting, number, &set, &error_)
                       : eitp_setting_set_integer(setting, integer, &set, &error_);
    CHECK_THAT(status == expected, "%s = %lld or %.17g", setting->name, (long long)integer, number);
    store(setting, integer, number, &stored);
    CHECK_THAT(!memcmp(&set, is_within ? &stored : &before, sizeof set), "%s", setting->name);
    CHECK_THAT(eitp__trainer_settings_check(&stored, &error_) == expected, "%s = %lld or %.17g", setting->name,
               (long long)integer, number);
    CHECK_THAT(is_within || (!strncmp(error_.message, setting->name, strlen(setting->name)) &&
                             strstr(error_.message, " must be ")),
               "%s: %s", setting->name, error_.message);
}

/* A setting is accepted at its bounds and refused beyond them. */
static void bounds_are_checked(void) {
    size_t count;
    const eitp_setting *settings = eitp_settings_of("eitp_trainer_config", &count);
    for (size_t i = 0; i < count; i++) {
        const eitp_setting *setting = &settings[i];
        const int is_number = setting->kind == EITP_SETTING_NUMBER;
        if (is_number || setting->kind != EITP_SETTING_UNSIGNED || setting->max < HUGE_VAL) {
            check_value(setting, (int64_t)setting->min - 1, setting->min - 1e-9, 0);
            check_value(setting, (int64_t)setting->max + 1, setting->max * 1.0001, 0);
            if (strcmp(setting->name, "energy") && strcmp(setting->name, "energy_weight")) /* not part of a loss */
                check_value(setting, (int64_t)setting->max, setting->max, !(setting->flags & EITP_SETTING_BELOW));
        }
        check_value(setting, (int64_t)setting->min, setting->min, !(setting->flags & EITP_SETTING_ABOVE));
        if (is_number)
            check_value(setting, 0, NAN, 0);
    }
}

static void a_message_says_what_is_allowed(void) {
    eitp_trainer_config config = eitp_trainer_config_default();
    char text[100];
    CHECK(eitp_setting_set_number(setting_named("beta1"), 1.5, &config, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(!strcmp(error_.message, "beta1 must be at least 0 and below 1 (got 1.5)"), "%s", error_.message);
    CHECK(eitp_setting_set_number(setting_named("lr"), NAN, &config, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_setting_set_integer(setting_named("lr_schedule"), 5, &config, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(!strcmp(error_.message,
                       "lr_schedule must be constant, linear, cosine, cosine_with_restarts or plateau (got 5)"),
               "%s", error_.message);
    CHECK(eitp_setting_set_integer(setting_named("dense_rows"), (int64_t)1 << 40, &config, &error_));
    CHECK_THAT(!strcmp(error_.message, "dense_rows must be true or false (got 1099511627776)"), "%s", error_.message);
    CHECK(eitp_setting_set_integer(setting_named("seed"), -1, &config, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(!strcmp(error_.message, "seed must be at least 0 (got -1)"), "%s", error_.message);
    CHECK(eitp_setting_set_number(setting_named("seed"), 1, &config, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(!eitp_setting_set_unsigned(setting_named("seed"), UINT64_MAX, &config, &error_) && config.seed == UINT64_MAX);
    CHECK(!eitp_setting_set_unsigned(setting_named("seed"), 7, &config, &error_) && config.seed == 7);
    CHECK(eitp_setting_set_unsigned(setting_named("last_sample"), UINT64_MAX, &config, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_setting_set_unsigned(setting_named("dense_rows"), UINT64_MAX, &config, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_setting_set_unsigned(NULL, 1, &config, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(!eitp_setting_set_integer(setting_named("lr"), 1, &config, &error_) && config.schedule.peak == 1);
    CHECK(eitp_setting_integer(setting_named("lr"), &config) == 1);
    config.optimizer_config.beta1 = 2;
    CHECK(eitp__trainer_settings_check(&config, &error_) == EITP_ERROR_ARGUMENT && strstr(error_.message, "beta1"));
    config.schedule.kind = EITP_SCHEDULE_COSINE;
    config.seed = UINT64_MAX;
    config.schedule.final = 0.1;
    eitp_setting_format(setting_named("lr_schedule"), &config, text, sizeof text);
    CHECK_THAT(!strcmp(text, "cosine"), "%s", text);
    eitp_setting_format(setting_named("seed"), &config, text, sizeof text);
    CHECK_THAT(!strcmp(text, "18446744073709551615"), "%s", text);
    eitp_setting_format(setting_named("final_lr"), &config, text, sizeof text);
    CHECK_THAT(!strcmp(text, "0.1"), "%s", text);
    eitp_setting_format(setting_named("dense_rows"), &config, text, sizeof text);
    CHECK_THAT(!strcmp(text, "false"), "%s", text);
    eitp_setting_bounds(setting_named("max_grad_norm"), text, 8);
    CHECK_THAT(!strcmp(text, "at leas"), "%s", text);
    eitp_setting_bounds(setting_named("shuffle"), text, sizeof text);
    CHECK_THAT(!strcmp(text, "none or windows"), "%s", text);
}

/* Settings do not overlap, have distinct names and help, and their defaults are within the bounds. */
static void a_table_is_sound(const eitp_setting *settings, size_t count, const void *defaults, size_t size) {
    unsigned char *used = (unsigned char *)calloc(size, 1);
    REQUIRE(used);
    for (size_t i = 0; i < count; i++) {
        const eitp_setting *setting = &settings[i];
        CHECK_THAT(!eitp__setting_check(setting, defaults, &error_), "%s", error_.message);
        CHECK_THAT((setting->kind == EITP_SETTING_CHOICE) == (setting->choices != NULL), "%s", setting->name);
        CHECK_THAT(*setting->help, "%s", setting->name);
        for (size_t k = 0; k < i; k++)
            CHECK_THAT(strcmp(settings[k].name, setting->name), "%s", setting->name);
        for (size_t k = 0; k < setting->size; k++)
            CHECK_THAT(setting->offset + k < size && !used[setting->offset + k]++, "%s", setting->name);
    }
    free(used);
}

static void the_tables_are_sound(void) {
    const eitp_trainer_config trainer = eitp_trainer_config_default();
    const eitp_run_config run_config = eitp_run_config_default();
    size_t count;
    const eitp_setting *settings = eitp_settings_of("eitp_trainer_config", &count);
    a_table_is_sound(settings, count, &trainer, sizeof trainer);
    settings = eitp_settings_of("eitp_run_config", &count);
    a_table_is_sound(settings, count, &run_config, sizeof run_config);
#define IS_SOUND(type)                                                                                                 \
    do {                                                                                                               \
        const type defaults = type##_default();                                                                        \
        settings = eitp_settings_of(#type, &count);                                                                    \
        CHECK(count >= 3 && eitp_settings_of(#type, NULL) == settings);                                                \
        a_table_is_sound(settings, count, &defaults, sizeof defaults);                                                 \
        for (size_t i = 0; i < count; i++)                                                                             \
            CHECK_THAT(eitp_setting_number(&settings[i], &defaults) == settings[i].value, "%s", settings[i].name);     \
    } while (0)
    IS_SOUND(eitp_lora_config);
    IS_SOUND(eitp_sampling);
    IS_SOUND(eitp_tokenizer_train_config);
    IS_SOUND(eitp_sequence_config);
    IS_SOUND(eitp_text_files_config);
    IS_SOUND(eitp_table_config);
    IS_SOUND(eitp_labelled_pack_config);
#undef IS_SOUND
    CHECK(eitp_settings_of("eitp_predictor_config", &count) && count == 7);
    CHECK(!eitp_settings_of("eitp_host", &count) && count == 0);
    CHECK(!eitp_settings_of(NULL, &count) && !eitp_settings_of("eitp_lora", NULL));
}

/* One table describes the strings of every struct that has any. */
static void texts_have_one_table(void) {
    eitp_text_files_config texts = eitp_text_files_config_default();
    const eitp_table_config table = eitp_table_config_default();
    const eitp_pack_config pack = eitp_pack_config_default();
    size_t count;
    const eitp_setting *settings = eitp_settings_of("eitp_text_files_config", &count);
    for (size_t i = 0; i < count; i++) {
        CHECK_THAT(eitp__setting_equal(&settings[i], &texts, &table.texts), "%s", settings[i].name);
        CHECK_THAT(eitp__setting_equal(&settings[i], &texts, &pack.texts), "%s", settings[i].name);
    }
    REQUIRE(!strcmp(settings[0].name, "data_format"));
    CHECK(!eitp_setting_set_integer(&settings[0], EITP_FORMAT_FOLDERS, &texts, &error_));
    CHECK(texts.format == EITP_FORMAT_FOLDERS);
    CHECK(eitp_setting_set_integer(&settings[0], EITP_FORMAT_FOLDERS + 1, &texts, &error_) == EITP_ERROR_ARGUMENT);
}

/* The defaults of a program that changes nothing. */
static void defaults_are_real_values(void) {
    const eitp_transformer_config model = eitp_transformer_config_default();
    const eitp_schedule schedule = eitp_schedule_default(), of_trainer = eitp_trainer_config_default().schedule;
    const eitp_tokenizer_train_config tokenizer = eitp_tokenizer_train_config_default();
    const eitp_table_config table = eitp_table_config_default();
    const eitp_fit fit = eitp_fit_default();
    CHECK(model.layers == 12 && model.width == 768 && model.head == EITP_HEAD_LANGUAGE && !model.inner);
    CHECK(eitp_attention_config_default().heads == 1 && eitp_attention_config_default().scale == 1);
    CHECK(!eitp_attention_inputs_default().q && !eitp_block_inputs_default().max_length);
    CHECK(eitp_cross_entropy_config_default().ignored == -1 && !eitp_plan_config_default().memory);
    CHECK(schedule.kind == of_trainer.kind && schedule.peak == of_trainer.peak && schedule.final == of_trainer.final);
    CHECK(schedule.warmup == of_trainer.warmup && schedule.steps == of_trainer.steps && schedule.cycles == 1);
    CHECK(tokenizer.vocabulary_size == 50257 && tokenizer.minimum_frequency == 1);
    CHECK(tokenizer.memory_limit == (uint64_t)512 << 20);
    CHECK(table.texts.read_size == 65536 && table.row_limit == 16 << 20);
    CHECK(eitp_pack_config_default().texts.read_size == 65536);
    CHECK(!eitp_load_config_default().fresh_head && !eitp_directory_config_default().fill);
    CHECK(!eitp_language_config_default().model && !eitp_classification_config_default().model);
    CHECK(eitp_masked_config_default().probability == 0.15 && eitp_masked_config_default().mask_token == -1);
    CHECK(fit.trainer.grad_accum == 4 && fit.context.host.allocator.allocate && !fit.budget);
    CHECK(eitp_fit_candidate_default().optimizer == EITP_ADAMW);
    CHECK(eitp_save_config_default().dtype == EITP_SAVE_AS_LOADED && eitp_save_config_default().end_of_text == -1);
    CHECK(eitp_generate_config_default().max_tokens == 64 && eitp_generate_config_default().sampling.temperature == 1);
}

/* Members in the table are reset to its defaults, and others are left alone. */
static void a_reset_sets_the_defaults(void) {
    const eitp_run_config defaults = eitp_run_config_default();
    eitp_run_config config;
    size_t count;
    const eitp_setting *settings = eitp_settings_of("eitp_run_config", &count);
    memset(&config, 1, sizeof config);
    eitp__settings_reset(settings, count, &config);
    for (size_t i = 0; i < count; i++)
        CHECK_THAT(eitp__setting_equal(&settings[i], &config, &defaults), "%s", settings[i].name);
    CHECK(!strcmp(config.directory, "out") && !config.keep_best && config.steps == 1000 &&
          !strcmp(config.report_to, "jsonl"));
    CHECK(config.async_save_bytes == UINT64_C(0x0101010101010101));
}

static const eitp_setting *run_setting(const char *name) {
    size_t count, i = 0;
    const eitp_setting *settings = eitp_settings_of("eitp_run_config", &count);
    while (i < count && strcmp(settings[i].name, name))
        i++;
    return i < count ? &settings[i] : NULL;
}

static void texts_are_settings(void) {
    eitp_run_config config = eitp_run_config_default(), same = config;
    const eitp_setting *keep_best = run_setting("keep_best");
    char text[20], loss[] = "loss";
    REQUIRE(keep_best);
    CHECK(!eitp_setting_set_text(keep_best, "loss", &config, &error_) && !strcmp(config.keep_best, "loss"));
    CHECK(!eitp__setting_equal(keep_best, &config, &same));
    same.keep_best = loss;
    CHECK(eitp__setting_equal(keep_best, &config, &same));
    eitp_setting_format(keep_best, &config, text, sizeof text);
    CHECK(!strcmp(text, "loss") && !eitp_setting_integer(keep_best, &config));
    CHECK(!eitp_setting_set_text(keep_best, NULL, &config, &error_) && !config.keep_best);
    eitp_setting_format(keep_best, &config, text, sizeof text);
    CHECK(!*text);
    eitp_setting_bounds(keep_best, text, sizeof text);
    CHECK(!*text);
    CHECK(eitp_setting_set_integer(keep_best, 1, &config, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_setting_set_unsigned(keep_best, 1, &config, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_setting_set_number(keep_best, 1, &config, &error_) == EITP_ERROR_ARGUMENT && !config.keep_best);
    CHECK(eitp_setting_set_text(keep_best, "", &config, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(!strcmp(error_.message, "keep_best must not be empty"), "%s", error_.message);
    CHECK(eitp_setting_set_text(NULL, "1", &config, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_setting_set_text(run_setting("steps"), NULL, &config, &error_) == EITP_ERROR_ARGUMENT);
}

/* The warnings logged by the library. */
typedef struct warnings {
    char text[4000];
} warnings;

static void collect(void *user, eitp_log_level level, const char *message) {
    warnings *all = (warnings *)user;
    size_t size = strlen(all->text);
    if (level >= EITP_LOG_WARNING)
        snprintf(all->text + size, sizeof all->text - size, "%s\n", message);
}

/* Resuming a checkpoint with one other value succeeds, warns or fails, and names the setting. */
static void a_difference_is_reported_by_name(void) {
    static const struct {
        const char *name, *value;
        eitp_difference kind;
        const char *words;
    } cases[] = {{"seed", "5", EITP_DIFFERENCE_REFUSED, "was made with seed 5, and this run has 18364758544493064720"},
                 {"shuffle", "1", EITP_DIFFERENCE_REFUSED, "was made with shuffle windows, and this run has none"},
                 {"batch_size", "15", EITP_DIFFERENCE_REFUSED,
                  "was made with 75 samples per step (batch_size 15, grad_accum 5), and this run has 15 (3, 5); "},
                 {"grad_accum", "4", EITP_DIFFERENCE_REFUSED,
                  "was made with 12 samples per step (batch_size 3, grad_accum 4), and this run has 15 (3, 5); "},
                 {"block_size", "17", EITP_DIFFERENCE_REFUSED, "was made with block_size 17, and this run has 16"},
                 {"dense_rows", "", EITP_DIFFERENCE_REFUSED, "was made with dense_rows false, and this run has true"},
                 {"micro_batches_per_pass", "3", EITP_DIFFERENCE_REFUSED,
                  "was made with dense rows and micro_batches_per_pass 3, and this run has 2"},
                 {"data_count", "18432", EITP_DIFFERENCE_REFUSED, "the training data differ from the data of '"},
                 {"data_count", "18432", EITP_DIFFERENCE_REFUSED, "which had 18432 tokens, and this run has 18433"},
                 {"data_first", "9", EITP_DIFFERENCE_REFUSED, "the training data differ from the data of '"},
                 {"data_hash_low", "1", EITP_DIFFERENCE_REFUSED, "the same number of tokens, but different content"},
                 {"data_hash_high", "1", EITP_DIFFERENCE_REFUSED, "the same number of tokens, but different content"},
                 {"lr_schedule", "1", EITP_DIFFERENCE_LOGGED, "lr_schedule changed from linear to "},
                 {"lr_schedule", "1", EITP_DIFFERENCE_LOGGED, "lr_schedule changed from linear to cosine since '"},
                 {"beta1", "0.75", EITP_DIFFERENCE_LOGGED, "beta1 changed from 0.75 to "},
                 {"last_sample", "77", EITP_DIFFERENCE_LOGGED, "last_sample changed from 77 to "},
                 {"scale_steps", "3", EITP_DIFFERENCE_ACCEPTED, NULL},
                 {"skipped_steps", "3", EITP_DIFFERENCE_ACCEPTED, NULL}};
    char directory[512], checkpoint[700], *state;
    warnings all;
    run r;
    REQUIRE(scratch_make(directory));
    state = save_all(&r, directory, checkpoint);
    REQUIRE(state);
    r.trainer->host.log.write = collect;
    r.trainer->host.log.user = &all;
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        const int is_refused = cases[i].kind == EITP_DIFFERENCE_REFUSED;
        eitp_status status;
        memset(&all, 0, sizeof all);
        REQUIRE(write_changed(state, checkpoint, cases[i].name, cases[i].value) && renew_manifest(checkpoint));
        status = eitp_trainer_resume(r.trainer, checkpoint, &error_);
        CHECK_THAT(status == (is_refused ? EITP_ERROR_ARGUMENT : EITP_OK), "%s: %s", cases[i].name, error_.message);
        if (cases[i].words)
            CHECK_THAT(strstr(is_refused ? error_.message : all.text, cases[i].words), "%s: %s / %s", cases[i].name,
                       error_.message, all.text);
        CHECK_THAT(!!*all.text == (cases[i].kind == EITP_DIFFERENCE_LOGGED), "%s: %s", cases[i].name, all.text);
        CHECK_THAT(!is_refused || !strstr(error_.message, "--"), "a flag in: %s", error_.message);
    }
    free(state);
    end_run(&r);
    scratch_remove(directory);
}

/* The golden state, with the checksums and kernels of this machine, can be resumed. */
static void an_earlier_state_is_resumed(void) {
    static const char *const machine[] = {"  \"numerics\"", "  \"model_checksum\"", "  \"optimizer_checksum\""};
    char directory[512], checkpoint[700], *state, *golden = read_text(GOLDEN "/trainer_state.json");
    FILE *file;
    run r;
    REQUIRE(scratch_make(directory));
    state = save_all(&r, directory, checkpoint);
    REQUIRE(state && golden && (file = fopen(scratch_path(checkpoint, "trainer_state.json"), "wb")) != NULL);
    for (char *line = golden; *line; line = strchr(line, '\n') + 1) {
        const char *from = line;
        for (size_t i = 0; i < EITP__COUNT(machine); i++) {
            if (!strncmp(line, machine[i], strlen(machine[i])))
                from = strstr(state, machine[i]);
        }
        fwrite(from, 1, strcspn(from, "\n") + 1, file);
    }
    fclose(file);
    REQUIRE(!remove(scratch_path(checkpoint, "manifest.json")));
    REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
    CHECK(step_many(&r, 1, NULL));
    free(golden);
    free(state);
    end_run(&r);
    scratch_remove(directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(the_tables_are_sound),
        TEST(texts_have_one_table),
        TEST(defaults_are_real_values),
        TEST(a_reset_sets_the_defaults),
        TEST(texts_are_settings),
        TEST(bounds_are_checked),
        TEST(a_message_says_what_is_allowed),
        TEST(the_state_is_written_as_the_golden_one),
        TEST(the_state_is_read_back),
        TEST(the_objective_is_read_back),
        TEST(an_earlier_state_is_resumed),
        TEST(a_state_out_of_bounds_is_refused),
        TEST(a_difference_is_reported_by_name),
    };
    return RUN_TESTS(tests, argc, argv);
}
