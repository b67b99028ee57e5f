#include "run/best.h"

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "run/directory.h"
#include "run/internal.h"
#include "run/save.h"
#include "train/trainer.h"

#define EITP__BEST_FILE "best.json"
#define EITP__BEST_FILE_LIMIT ((size_t)1 << 20)

EITP__PRIVATE void eitp__best_init(eitp__best *best, int higher_is_better) {
    memset(best, 0, sizeof *best);
    best->higher_is_better = higher_is_better;
    best->before.step = -1;
    best->before.value = best->before.seen = (double)NAN;
    best->now = best->saved = best->before;
}

/* True if a value is better than another one. NaN means no value. */
static int eitp__best_is_better(const eitp__best *best, double value, double than) {
    if (!isfinite(value) || !isfinite(than))
        return isfinite(value);
    return best->higher_is_better ? value > than : value < than;
}

static void eitp__best_advance(const eitp__best *best, eitp__best_state *state, const eitp__best_evaluation *next) {
    if (!next->is_lost && eitp__best_is_better(best, next->value, state->value)) {
        state->step = next->step;
        state->value = next->value;
    }
    state->since++;
    if (eitp__best_is_better(best, next->value, state->seen)) {
        state->seen = next->value;
        state->since = 0;
    }
}

static void eitp__best_replay(eitp__best *best) {
    best->now = best->before;
    for (size_t i = 0; i < best->count; i++)
        eitp__best_advance(best, &best->now, &best->evaluations[i]);
}

EITP__PRIVATE int eitp__best_add(eitp__best *best, int64_t step, double value) {
    eitp__best_evaluation *last;
    if (best->count && best->evaluations[best->count - 1].step == step)
        best->count--;
    if (best->count == EITP__BEST_EVALUATIONS) {
        eitp__best_advance(best, &best->before, &best->evaluations[0]);
        memmove(best->evaluations, best->evaluations + 1, (EITP__BEST_EVALUATIONS - 1) * sizeof *best->evaluations);
        best->count--;
    }
    last = &best->evaluations[best->count++];
    last->step = step;
    last->value = value;
    last->is_lost = 0;
    eitp__best_replay(best);
    return best->now.step == step;
}

EITP__PRIVATE void eitp__best_lose(eitp__best *best, int64_t step) {
    if (best->before.step == step) {
        best->before.step = -1;
        best->before.value = (double)NAN;
    }
    for (size_t i = 0; i < best->count; i++)
        best->evaluations[i].is_lost |= best->evaluations[i].step == step;
    eitp__best_replay(best);
}

/* True if the last evaluation is the one of `step`. */
static int eitp__best_has(const eitp__best *best, int64_t step) {
    return best->count && best->evaluations[best->count - 1].step == step;
}

static void eitp__best_format_state(eitp__buffer *text, const char *name, const eitp__best_state *state) {
    eitp__buffer_format(text, "\"%s\": {\"step\": %lld, \"value\": ", name, (long long)state->step);
    eitp__json_write_number(text, state->value);
    if (isfinite(state->seen) && !(state->seen == state->value)) {
        eitp__buffer_add_text(text, ", \"seen\": ");
        eitp__json_write_number(text, state->seen);
    }
    eitp__buffer_format(text, ", \"evaluations_since\": %lld},\n", (long long)state->since);
}

/* Appends the evaluations as a JSON object with `state` as the best. `kept`: a checkpoint of the best is kept. */
static void eitp__best_format(const eitp__best *best, const eitp__best_state *state, const char *metric, int kept,
                              eitp__buffer *text) {
    eitp__buffer_add_text(text, "{\"metric\": ");
    eitp__json_write_text(text, metric, strlen(metric));
    eitp__buffer_format(text, ",\n\"kept\": %s,\n", kept ? "true" : "false");
    eitp__best_format_state(text, "best", state);
    eitp__best_format_state(text, "before", &best->before);
    eitp__buffer_add_text(text, "\"evaluations\": [");
    for (size_t i = 0; i < best->count; i++) {
        eitp__buffer_format(text, "%s\n{\"step\": %lld, \"value\": ", i ? "," : "",
                            (long long)best->evaluations[i].step);
        eitp__json_write_number(text, best->evaluations[i].value);
        eitp__buffer_add_text(text, best->evaluations[i].is_lost ? ", \"lost\": true}" : "}");
    }
    eitp__buffer_add_text(text, "]}");
}

EITP__PRIVATE eitp_status eitp__best_write(const eitp__best *best, const eitp_host *host, const char *directory,
                                           const char *metric, int kept, eitp_error *error) {
    eitp__best_state named = best->now;
    eitp__buffer text;
    if (kept) {
        named.step = best->saved.step;
        named.value = best->saved.value;
    }
    eitp__buffer_init(&text, host);
    eitp__best_format(best, &named, metric, kept, &text);
    eitp__buffer_add_text(&text, "\n");
    return eitp__store_text(host, directory, EITP__BEST_FILE, &text, 1, error);
}

/* Removes best.json from a directory that has one. */
static eitp_status eitp__best_remove(const eitp_host *host, const char *directory, eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    char *path = eitp__join_path(host, directory, EITP__BEST_FILE);
    eitp_status status =
        path ? eitp__path_info(host, path, &info, error) : eitp__fail_memory(error, strlen(directory), EITP__BEST_FILE);
    const int code = !status && info.kind == EITP_PATH_FILE ? host->files.remove(host->files.user, path) : 0;
    if (code)
        status = eitp__fail(error, EITP_ERROR_IO, "cannot remove '%s': %s", path, strerror(code));
    eitp__release_text(host, path);
    return status;
}

/* Reads an evaluation: a step, a value (null if it was not finite), and the flag "lost". */
static eitp_status eitp__best_read_evaluation(const eitp_json *object, eitp__best_evaluation *evaluation,
                                              eitp_error *error) {
    static const eitp__json_field fields[] = {
        EITP__JSON_FIELD(eitp__best_evaluation, step, "step", INTEGER, -1, HUGE_VAL),
        EITP__JSON_FIELD(eitp__best_evaluation, value, "value", NUMBER, -HUGE_VAL, HUGE_VAL),
        EITP__JSON_FIELD(eitp__best_evaluation, is_lost, "lost", FLAG, 0, 1),
    };
    evaluation->step = -1;
    evaluation->value = (double)NAN;
    evaluation->is_lost = 0;
    return eitp__json_get_fields(object, fields, EITP__COUNT(fields), evaluation, error);
}

static eitp_status eitp__best_read_before(eitp__best *best, const eitp_json *object, int64_t step, eitp_error *error) {
    eitp__best_evaluation found;
    int64_t since = 0;
    double seen;
    eitp_status status = eitp__best_read_evaluation(object, &found, error);
    seen = found.value;
    if (!status)
        status = eitp__json_get_number(object, "seen", -HUGE_VAL, HUGE_VAL, &seen, error);
    if (!status)
        status = eitp__json_get_integer(object, "evaluations_since", 0, INT32_MAX, &since, error);
    if (status || found.step > step)
        return status;
    best->before.step = found.step;
    best->before.value = found.step < 0 ? (double)NAN : found.value;
    best->before.seen = seen;
    best->before.since = since;
    return EITP_OK;
}

/* Adds the evaluations of such an object up to `step`. An object of another metric adds none. */
static eitp_status eitp__best_parse(eitp__best *best, const eitp_json *root, const char *metric, int64_t step,
                                    eitp_error *error) {
    const eitp_json *list = eitp_json_member(root, "evaluations");
    const char *name = "";
    eitp_status status = eitp__json_get_text(root, "metric", &name, error);
    if (status || strcmp(name, metric))
        return status;
    status = eitp__best_read_before(best, eitp_json_member(root, "before"), step, error);
    for (const eitp_json *item = list ? list->first_child : NULL; item && !status; item = item->next) {
        eitp__best_evaluation found;
        status = eitp__best_read_evaluation(item, &found, error);
        if (status || found.step < 0 || found.step > step)
            continue;
        eitp__best_add(best, found.step, found.value);
        if (found.is_lost)
            eitp__best_lose(best, found.step);
    }
    eitp__best_replay(best);
    return status;
}

EITP__PRIVATE eitp_status eitp__best_read(eitp__best *best, const eitp_host *host, const char *directory,
                                          const char *metric, int64_t step, eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    eitp_json_document *document = NULL;
    char *path = eitp__join_path(host, directory, EITP__BEST_FILE);
    eitp_status status =
        path ? eitp__path_info(host, path, &info, error) : eitp__fail_memory(error, strlen(directory), EITP__BEST_FILE);
    if (!status && info.kind == EITP_PATH_FILE) {
        status = eitp__json_read_strict_file(host, path, EITP__BEST_FILE_LIMIT, &document, error);
        if (!status)
            status = eitp__best_parse(best, eitp_json_root(document), metric, step, error);
        if (status && document)
            eitp__fail_prefix(error, status, "'%s'", path);
        eitp_json_release(document);
    }
    eitp__release_text(host, path);
    return status;
}

/* Returns the step of the best evaluation in such an object. */
static int64_t eitp__best_kept_step(const eitp_json *root) {
    eitp_error ignored;
    eitp__best_evaluation found;
    int kept = 1; /* files of earlier versions lack the member */
    if (eitp__json_get_boolean(root, "kept", &kept, &ignored) || !kept ||
        eitp__best_read_evaluation(eitp_json_member(root, "best"), &found, &ignored))
        return -1;
    return found.step;
}

EITP__PRIVATE int64_t eitp__best_read_kept_step(const eitp_host *host, const char *directory) {
    eitp_error ignored;
    eitp_json_document *document = NULL;
    int64_t step = -1;
    if (!eitp__json_read_in(host, directory, EITP__BEST_FILE, EITP__BEST_FILE_LIMIT, &document, &ignored) && document)
        step = eitp__best_kept_step(eitp_json_root(document));
    eitp_json_release(document);
    return step;
}

EITP__PRIVATE int64_t eitp__run_state_best(const eitp_host *host, const char *checkpoint) {
    eitp_error ignored;
    eitp_json_document *document;
    const eitp_json *best = NULL;
    int64_t step = -1;
    if (!eitp__run_state_open(host, checkpoint, &document, &ignored) && document)
        best = eitp_json_member(eitp_json_root(document), "best");
    if (best)
        step = eitp__best_kept_step(best);
    eitp_json_release(document);
    return step;
}

/* ---- The best checkpoint ---- */

typedef struct eitp__best_checkpoint {
    eitp__best best;
    int was_read;   /* from the checkpoint's run_state.json */
    int is_behind;  /* best.json lacks an evaluation */
    int has_failed; /* writing best.json failed, which was reported */
} eitp__best_checkpoint;

static eitp__best_checkpoint *eitp__best_of(const eitp_run *run) {
    return (eitp__best_checkpoint *)run->states[EITP__OBSERVER_BEST];
}

/* best.json is information for programs and people: a resume reads the evaluations from its checkpoint. A failure is
   reported once, and the next save retries. */
static void eitp__write_best(eitp_run *run) {
    eitp__best_checkpoint *kept = eitp__best_of(run);
    eitp_error error;
    if (!eitp__best_write(&kept->best, &run->host, run->directory, run->keep_best, 1, &error)) {
        kept->is_behind = 0;
        return;
    }
    kept->is_behind = 1;
    if (!kept->has_failed)
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                         "%s; the run continues and retries with each checkpoint", error.message);
    kept->has_failed = 1;
}

static void eitp__report_best(eitp_run *run) {
    const eitp__best_state *saved = &eitp__best_of(run)->best.saved;
    run->report.best_step = saved->step;
    run->report.best_value = saved->value;
}

static void eitp__best_save_complete(eitp_run *run, void *state, int64_t step) {
    eitp__best *best = &((eitp__best_checkpoint *)state)->best;
    if (!run->keep_best || best->now.step != step || best->saved.step == step)
        return;
    best->saved = best->now;
    eitp__report_best(run);
    eitp__write_best(run);
}

/* ---- Missing checkpoints ---- */

/* Marks evaluations as lost until the best one has a checkpoint or can still get one. */
static void eitp__choose_best(eitp_run *run, int64_t open) {
    eitp__best_checkpoint *kept = eitp__best_of(run);
    eitp__best *best = &kept->best;
    while (best->now.step >= 0 && best->now.step != open && !eitp__run_has_checkpoint(run, best->now.step))
        eitp__best_lose(best, best->now.step);
    if (best->now.step != open)
        best->saved = best->now;
    else if (!eitp__run_has_checkpoint(run, best->saved.step))
        best->saved = best->now, best->saved.step = -1, best->saved.value = (double)NAN;
    kept->is_behind = 1;
    eitp__report_best(run);
}

static void eitp__notify_lost_best(eitp_run *run, int64_t step, const char *why) {
    const eitp__best_state *best = &eitp__best_of(run)->best.now;
    char next[80] = "the next evaluation becomes the best";
    if (best->step >= 0)
        snprintf(next, sizeof next, "the best is now step %lld", (long long)best->step);
    eitp__run_notify(run, EITP_EVENT_NOT_KEPT, EITP_LOG_WARNING, 0,
                     "checkpoint-%lld, the best so far, was not kept: %s; %s", (long long)step, why, next);
}

static void eitp__best_save_lost(eitp_run *run, void *state, int64_t step, const char *why) {
    eitp__best *best = &((eitp__best_checkpoint *)state)->best;
    const int is_best = best->now.step == step;
    if (!run->keep_best)
        return;
    eitp__best_lose(best, step);
    eitp__choose_best(run, eitp_trainer_steps_done(run->trainer));
    if (!is_best)
        return;
    eitp__notify_lost_best(run, step, why);
    eitp__write_best(run);
}

/* Chooses the best of the evaluations whose checkpoints are in the directory, and reports a change. `open`: a step
   whose checkpoint can still be written; -1: none. */
static void eitp__check_best(eitp_run *run, int64_t open) {
    const eitp__best *best = &eitp__best_of(run)->best;
    const int64_t step = best->now.step;
    if (!run->keep_best)
        return;
    eitp__choose_best(run, open);
    if (best->now.step != step)
        eitp__notify_lost_best(run, step, "it is missing from the directory");
}

static void eitp__best_directory_replaced(eitp_run *run, void *state) {
    ((eitp__best_checkpoint *)state)->is_behind = eitp__run_follows_best(run);
    eitp__check_best(run, eitp_trainer_steps_done(run->trainer));
}

/* ---- After an evaluation ---- */

/* Adds the last evaluation to those used for the decision. If the model may not be saved, it is never the best. */
static double eitp__add_best(eitp_run *run, eitp__best_checkpoint *kept) {
    const eitp_evaluation *evaluation = &run->report.evaluation;
    const eitp_metric *metric = strcmp(run->keep_best, "loss") ? eitp__find_metric(evaluation, run->keep_best) : NULL;
    const double found = metric ? metric->mean : evaluation->loss;
    const double value = eitp__run_is_good(run) ? found : (double)NAN;
    eitp__best_add(&kept->best, run->report.evaluated_step, value);
    eitp__report_best(run);
    kept->is_behind = 1;
    return value;
}

/* Remembers an evaluation that is second to one whose checkpoint is being written. It becomes the best if that
   fails. */
static void eitp__await_best(eitp_run *run, const eitp__best *best, double value) {
    if (best->now.step != run->report.evaluated_step && best->now.step != best->saved.step &&
        eitp__best_is_better(best, value, best->saved.value))
        eitp__async_save_finish(run);
}

static void eitp__best_after_evaluation(eitp_run *run, void *state, eitp__decision *decision) {
    eitp__best_checkpoint *kept = (eitp__best_checkpoint *)state;
    const int64_t step = run->report.evaluated_step;
    eitp_error error;
    if (!eitp__run_follows_best(run) || step == 0)
        return;
    eitp__await_best(run, &kept->best, eitp__add_best(run, kept));
    if (eitp__run_restore_directory(run, &error)) {
        decision->fails = decision->fails.status ? decision->fails : error;
        return;
    }
    eitp__write_best(run);
    if (kept->best.now.step != step)
        return;
    decision->saves = 1;
    if (run->report.saved_step == step && !run->saves.is_early)
        eitp__best_save_complete(run, state, step);
}

/* ---- The observer ---- */

static int eitp__prefers_higher(const eitp_run *run) {
    return eitp__trainer_metric_direction(run->trainer, run->keep_best) == EITP_HIGHER_IS_BETTER;
}

/* Reads the best.json next to a checkpoint that has no run_state.json. A damaged file is ignored. */
static eitp_status eitp__read_best(eitp_run *run, eitp__best *best, eitp_error *error) {
    char *parent = eitp__parent_directory(&run->host, run->checkpoint);
    eitp_status status = parent ? EITP_OK : eitp__fail_memory(error, strlen(run->checkpoint), "a path");
    if (!status)
        status = eitp__best_read(best, &run->host, parent, run->keep_best, run->checkpoint_step, error);
    if (status == EITP_ERROR_FORMAT) {
        eitp__run_notify(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0,
                         "%s; evaluations before step %lld are ignored for the best checkpoint and for early stopping",
                         error->message, (long long)run->checkpoint_step + 1);
        eitp__best_init(best, eitp__prefers_higher(run));
        status = EITP_OK;
    }
    eitp__release_text(&run->host, parent);
    return status;
}

/* True if the checkpoint was written before the evaluation of its step, so that the evaluation is missing. */
static int eitp__lacks_evaluation(const eitp_run *run, const eitp__best *best) {
    const int64_t step = run->report.start_step;
    return step > 0 && eitp__run_validates(run) && eitp__evaluation_is_due(run, step) && !eitp__best_has(best, step);
}

/* Chooses the best of the evaluations up to the checkpoint. */
static eitp_status eitp__resume_best(eitp_run *run, eitp__best_checkpoint *kept, eitp_error *error) {
    const eitp_status status = kept->was_read ? EITP_OK : eitp__read_best(run, &kept->best, error);
    eitp__report_best(run);
    if (status)
        return status;
    eitp__check_best(run, -1);
    eitp__write_best(run);
    return EITP_OK;
}

static eitp_status eitp__best_begin(eitp_run *run, void *state, eitp_error *error) {
    eitp__best_checkpoint *kept = (eitp__best_checkpoint *)state;
    eitp_status status = EITP_OK;
    if (!kept->was_read)
        eitp__best_init(&kept->best, eitp__prefers_higher(run));
    if (!run->checkpoint)
        status = eitp__best_remove(&run->host, run->directory, error); /* left by an older run */
    else if (eitp__run_follows_best(run))
        status = eitp__resume_best(run, kept, error);
    if (!status && eitp__run_follows_best(run) && eitp__lacks_evaluation(run, &kept->best)) {
        run->saves.is_early = 1;
        run->report.evaluated_step = -1;
    }
    return status;
}

static void eitp__best_before_save(eitp_run *run, void *state) {
    if (((const eitp__best_checkpoint *)state)->is_behind)
        eitp__write_best(run);
}

static void eitp__best_write_state(const eitp_run *run, const void *state, int is_counted, eitp__buffer *text) {
    const eitp__best *best = &((const eitp__best_checkpoint *)state)->best;
    (void)is_counted;
    if (eitp__run_follows_best(run))
        eitp__best_format(best, &best->now, run->keep_best, 1, text);
}

static eitp_status eitp__best_read_state(eitp_run *run, void *state, const eitp_json *value, eitp_error *error) {
    eitp__best_checkpoint *kept = (eitp__best_checkpoint *)state;
    kept->was_read = 1;
    eitp__best_init(&kept->best, eitp__prefers_higher(run));
    return value && eitp__run_follows_best(run)
               ? eitp__best_parse(&kept->best, value, run->keep_best, run->checkpoint_step, error)
               : EITP_OK;
}

static int64_t eitp__best_keeps(const eitp_run *run, const void *state) {
    return run->keep_best ? ((const eitp__best_checkpoint *)state)->best.saved.step : -1;
}

static void eitp__best_end(eitp_run *run, void *state) {
    if (((const eitp__best_checkpoint *)state)->is_behind && eitp__run_follows_best(run))
        eitp__write_best(run);
}

EITP__PRIVATE void eitp__best_observer(eitp__observer *observer) {
    observer->name = "best";
    observer->state_size = sizeof(eitp__best_checkpoint);
    observer->needs_checkpoints = 1;
    observer->begin = eitp__best_begin;
    observer->after_evaluation = eitp__best_after_evaluation;
    observer->before_save = eitp__best_before_save;
    observer->write = eitp__best_write_state;
    observer->read = eitp__best_read_state;
    observer->save_complete = eitp__best_save_complete;
    observer->save_lost = eitp__best_save_lost;
    observer->keeps = eitp__best_keeps;
    observer->directory_replaced = eitp__best_directory_replaced;
    observer->end = eitp__best_end;
}

/* ---- Early stopping ---- */

static void eitp__patience_after_evaluation(eitp_run *run, void *state, eitp__decision *decision) {
    const eitp__best_state *best = &eitp__best_of(run)->best.now;
    char found[80] = "no finite value so far";
    (void)state;
    if (run->config.patience <= 0 || best->since < run->config.patience)
        return;
    if (best->step >= 0)
        snprintf(found, sizeof found, "best %.6g at step %lld", best->value, (long long)best->step);
    decision->stops = 1;
    snprintf(decision->why, sizeof decision->why,
             "early stop: no improvement of the validation %s in %lld evaluations (%s)", run->keep_best,
             (long long)best->since, found);
}

/* A resumed run may have exhausted its patience already. */
static eitp_status eitp__patience_begin(eitp_run *run, void *state, eitp_error *error) {
    (void)error;
    if (run->config.patience > 0 && !run->config.keep_best)
        eitp__log_line(&run->host, EITP_LOG_INFO, "patience keeps the checkpoint of the best validation loss");
    eitp__patience_after_evaluation(run, state, &run->decision);
    return EITP_OK;
}

EITP__PRIVATE void eitp__patience_observer(eitp__observer *observer) {
    observer->needs_checkpoints = 1;
    observer->begin = eitp__patience_begin;
    observer->after_evaluation = eitp__patience_after_evaluation;
}
