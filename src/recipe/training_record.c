/* run.json: what a run was made from, in its output directory and in each of its checkpoints. */
#include "base/json.h"
#include "recipe/training.h"

#include <time.h>

/* ---- The log ---- */

/* "; neg 1480, pos 1400", at most some of them; "" of numbers and of samples without labels. */
static void eitp__describe_labels(const eitp_training *training, char *text, size_t size) {
    enum { SHOWN = 10 };
    const eitp_labelled_source source = eitp__part_samples(training, EITP_TRAINING);
    const size_t bytes = (size_t)(source.label_count + 1) * sizeof(uint64_t);
    uint64_t *counts = source.label_count && source.problem != EITP_PROBLEM_REGRESSION
                           ? (uint64_t *)eitp__allocate(&training->host, bytes)
                           : NULL;
    size_t used = 0;
    *text = 0;
    if (counts && !eitp_labelled_class_counts(&training->host, &source, counts, NULL)) {
        for (int64_t i = 0; i < source.label_count && i < SHOWN && used < size; i++)
            used += (size_t)snprintf(text + used, size - used, "%s%.40s %llu",
                                     i ? ", " : "; labels: ", source.labels ? source.labels[i] : "label",
                                     (unsigned long long)counts[i]);
        if (source.label_count > SHOWN && used < size)
            snprintf(text + used, size - used, ", and %lld more label%s", (long long)(source.label_count - SHOWN),
                     source.label_count == SHOWN + 1 ? "" : "s");
    }
    eitp__release(&training->host, counts, bytes);
}

EITP__PRIVATE void eitp__training_log_data(const eitp_training *training) {
    const eitp_recipe *recipe = &training->recipe;
    const uint64_t *samples = training->task.samples;
    const double epochs =
        (double)(recipe->run.steps * recipe->trainer.batch_size * recipe->trainer.grad_accum) / (double)samples[0];
    char labels[600];
    if (training->kind->kind == EITP_TASK_LANGUAGE) {
        eitp__log_line(&training->host, EITP_LOG_INFO,
                       "data: %llu training windows, %llu validation tokens; %lld steps are %.2f epochs",
                       (unsigned long long)samples[0], (unsigned long long)training->parts[EITP_VALIDATION].range.count,
                       (long long)recipe->run.steps, epochs);
        return;
    }
    eitp__describe_labels(training, labels, sizeof labels);
    eitp__log_line(&training->host, EITP_LOG_INFO,
                   "data: %llu training samples, %llu validation samples, at most %lld tokens; %lld steps are %.2f "
                   "epochs%s",
                   (unsigned long long)samples[0], (unsigned long long)samples[1], (long long)training->task.rows,
                   (long long)recipe->run.steps, epochs, labels);
}

/* ---- run.json ---- */

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
    eitp__write_member(text, data->is_labelled ? "labelled_file" : "token_file", data->path);
    eitp__buffer_format(text, "\"last_step\": %lld, \"parameters\": %lld", (long long)training->recipe.run.steps,
                        (long long)eitp_model_parameter_count(training->model));
}

EITP__PRIVATE eitp_status eitp__training_write_record(eitp_training *training, eitp_error *error) {
    eitp__buffer *text = &training->record;
    char *path = eitp__join_path(&training->host, training->recipe.run.directory, "run.json");
    eitp_path_info info = EITP__ZERO;
    eitp_error why;
    eitp__buffer_add_text(text, "{\"run\": {");
    eitp__write_run(training, text);
    eitp__buffer_add_text(text, "},\n\"configuration\": {");
    eitp__recipe_write(&training->recipe, text); /* as it was completed */
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
