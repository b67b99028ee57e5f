/* Comparison of a resumed recipe with the record of its run: settings that it must keep, and changes in how the data
   are read. */
#include "base/files.h"
#include "base/json.h"
#include "base/setting_table.h"
#include "recipe/training.h"

/* A sample has no more tokens than the model has positions. */
static void eitp__limit_block_size(const eitp_training *training, eitp_recipe *recipe) {
    const int64_t positions = eitp_transformer_config_positions(&training->shape);
    if (!recipe->task.block_size || recipe->task.block_size > positions)
        recipe->task.block_size = positions;
}

static int eitp__values_equal(const eitp__recipe_walk *walk, const eitp_recipe *a, const eitp_recipe *b) {
    return eitp__setting_equal(walk->setting, eitp__recipe_values(a, walk), eitp__recipe_values(b, walk));
}

/* ---- Settings that a resumed run keeps ---- */

/* True for a setting that the checkpoint itself does not contain. Sizes, adapters and the tokenizer are compared with
   the checkpoint; directories of weights may have been moved and are not compared. */
static int eitp__keeps_setting(const eitp__recipe_walk *walk) {
    static const char *const names[] = {"freeze", "latent_input"};
    for (size_t i = 0; i < EITP__COUNT(names); i++) {
        if (!strcmp(walk->setting->name, names[i]))
            return 1;
    }
    return 0;
}

static eitp_status eitp__check_kept_settings(const eitp_training *training, const eitp_recipe *recorded,
                                             eitp_error *error) {
    const eitp_recipe defaults = eitp_recipe_default();
    const char *checkpoint = eitp__training_checkpoint(training);
    eitp__recipe_walk walk = EITP__ZERO;
    char is[200], was[200];
    while (eitp__recipe_next(&walk)) {
        if (!eitp__keeps_setting(&walk) || eitp__values_equal(&walk, &training->recipe, &defaults) ||
            eitp__values_equal(&walk, &training->recipe, recorded))
            continue;
        eitp_setting_format(walk.setting, eitp__recipe_values(&training->recipe, &walk), is, sizeof is);
        eitp_setting_format(walk.setting, eitp__recipe_values(recorded, &walk), was, sizeof was);
        if (!*was)
            return eitp__fail(error, EITP_ERROR_ARGUMENT,
                              "'%s' was started without %s; leave it out to resume it, or choose another output_dir",
                              checkpoint, walk.setting->name);
        return eitp__fail(
            error, EITP_ERROR_ARGUMENT,
            "'%s' was started with %s %s, not %s; leave it out to resume it, or choose another output_dir", checkpoint,
            walk.setting->name, was, is);
    }
    return EITP_OK;
}

/* ---- Changes in how the data are read ---- */

/* Lists the settings that differ from the recorded ones. Settings with their default values do not count: the run's
   are used. */
static void eitp__list_differences(const eitp_training *training, const eitp_recipe *recorded, char *names,
                                   size_t size) {
    const eitp_recipe defaults = eitp_recipe_default();
    eitp_recipe recipe = training->recipe;
    eitp__recipe_walk walk = EITP__ZERO;
    if (recipe.task.block_size >= 0)
        eitp__limit_block_size(training, &recipe);
    while (eitp__recipe_next(&walk)) {
        const size_t used = strlen(names);
        if (walk.setting->difference == EITP_DIFFERENCE_REREAD && !eitp__values_equal(&walk, &recipe, &defaults) &&
            !eitp__values_equal(&walk, &recipe, recorded))
            snprintf(names + used, size - used, "%s%s", used ? ", " : "", walk.setting->name);
    }
}

/* Reads these settings from the run.json of the checkpoint. *found is 0 if it is missing or cannot be parsed. */
static eitp_status eitp__read_recorded(const eitp_training *training, eitp_recipe *recorded, int *found,
                                       eitp_error *error) {
    const size_t limit = (size_t)1 << 24;
    const eitp_host *host = &training->host;
    char *path = eitp__join_path(host, eitp__training_checkpoint(training), "run.json");
    eitp_json_document *document = NULL;
    eitp__recipe_walk walk = EITP__ZERO;
    eitp_status status = path ? EITP_OK : eitp__fail_memory(error, 100, "a path");
    *found = !status && eitp__recipe_is_file(host, path);
    if (*found)
        status = eitp__json_read_strict_file(host, path, limit, &document, error);
    while (*found && !status && eitp__recipe_next(&walk)) {
        if (walk.setting->difference == EITP_DIFFERENCE_REREAD || eitp__keeps_setting(&walk))
            status = eitp__recipe_read_member(host, eitp_json_member(eitp_json_root(document), "configuration"), &walk,
                                              recorded, error);
    }
    if (document)
        eitp_json_release(document);
    eitp__release_text(host, path);
    *found = *found && !status;
    return status == EITP_ERROR_FORMAT || status == EITP_ERROR_ARGUMENT ? EITP_OK : status;
}

EITP__PRIVATE eitp_status eitp__training_name_reading(const eitp_training *training, eitp_status status,
                                                      eitp_error *error) {
    if (!status || !training->changed_reading[0])
        return status;
    return eitp__fail_prefix(error, status, "the data were read again, since %s changed", training->changed_reading);
}

EITP__PRIVATE eitp_status eitp__training_compare_record(eitp_training *training, eitp_error *error) {
    eitp_recipe recorded = eitp_recipe_default();
    int found = 0;
    eitp_status status = EITP_OK;
    training->changed_reading[0] = 0;
    recorded.task.block_size = training->resumed.rows; /* for windows whose length was left open */
    if (!training->is_resumed || training->trained)
        return EITP_OK;
    status = eitp__read_recorded(training, &recorded, &found, error);
    if (!status && found)
        status = eitp__check_kept_settings(training, &recorded, error);
    if (!status && found && !training->recipe.data.rereads[EITP_TRAINING])
        eitp__list_differences(training, &recorded, training->changed_reading, sizeof training->changed_reading);
    eitp_recipe_release(&recorded);
    if (training->changed_reading[0])
        training->recipe.data.rereads[EITP_TRAINING] = training->recipe.data.rereads[EITP_VALIDATION] = 2;
    return status;
}
