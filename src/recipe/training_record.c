/* run.json: what a run was made from, in its output directory and in each of its checkpoints. */
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "recipe/training.h"

#include <time.h>

static void eitp__write_member(eitp__buffer *text, const char *name, const char *value) {
    eitp__buffer_format(text, "\"%s\": ", name);
    eitp__json_write_text(text, value, strlen(value));
    eitp__buffer_add_text(text, ", ");
}

static void eitp__write_run(eitp_training *training, eitp__buffer *text) {
    const eitp__data_part *data = &training->parts[EITP_TRAINING];
    const time_t seconds = time(NULL);
    struct tm utc;
    char now[40] = "";
    if (gmtime_r(&seconds, &utc))
        strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", &utc);
    eitp__write_member(text, "version", eitp_version());
    eitp__write_member(text, "build", eitp_build_info());
    eitp__write_member(text, "device", eitp_context_description(training->context));
    eitp__write_member(text, "numerics", eitp_context_numerics(training->context));
    eitp__write_member(text, "started", now);
    eitp__write_member(text, data->labelled ? "labelled_file" : "token_file", data->path);
    eitp__buffer_format(text, "\"last_step\": %lld, \"parameters\": %lld", (long long)training->recipe.run.steps,
                        (long long)eitp_model_parameter_count(training->model));
}

/* The recipe as it was completed. A task that was inferred is named, so that other programs know it. */
static void eitp__write_configuration(const eitp_training *training, eitp__buffer *text) {
    eitp_recipe recipe = training->recipe;
    recipe.task.kind = training->kind->kind;
    recipe.task.block_size = training->rows;
    eitp__recipe_write(&recipe, text);
}

EITP__PRIVATE eitp_status eitp__training_write_record(eitp_training *training, eitp_error *error) {
    eitp__buffer *text = &training->record;
    char *path = eitp__join_path(&training->host, training->recipe.run.directory, "run.json");
    eitp_path_info info = EITP__ZERO;
    eitp_error why;
    eitp__buffer_add_text(text, "{\"run\": {");
    eitp__write_run(training, text);
    eitp__buffer_add_text(text, "},\n\"configuration\": {");
    eitp__write_configuration(training, text);
    eitp__buffer_add_text(text, "}}\n");
    if (!path || text->failed) {
        eitp__release_text(&training->host, path);
        return eitp__fail_memory(error, text->size, "run.json");
    }
    eitp__path_info(&training->host, path, &info, NULL);
    if (eitp__replace_file(&training->host, path, text->data, text->size, &why))
        eitp__log_line(&training->host, EITP_LOG_WARNING, "%s; the run continues, since each checkpoint has its own",
                       why.message);
    else if (info.kind == EITP_PATH_MISSING)
        training->made_record = path;
    if (training->made_record != path)
        eitp__release_text(&training->host, path);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__training_save_record(void *user, const char *directory, eitp_error *error) {
    const eitp_training *training = (const eitp_training *)user;
    const eitp_run_config *run = &training->recipe.run;
    char *path = eitp__join_path(&training->host, directory, "run.json");
    eitp_status status =
        path ? eitp__write_file(&training->host, path, training->record.data, training->record.size, error)
             : eitp__fail_memory(error, strlen(directory), "the path of run.json");
    eitp__release_text(&training->host, path);
    return !status && run->save ? run->save(run->save_user, directory, error) : status;
}
