/* eitp train. */
#include "output.h"
#include "process.h"
#include "run/resume.h"
#include "run/training.h"

static int run_training(training *t, eitp_error *error) {
    training_run *r = t->r;
    eitp_status status;
    int code = COMMAND_FINISHED;
    r->started = 1;
    output_progress("starting ...");
    process_attach_run(r->run);
    post_save_begin(&t->post_save, &r->options, r->directory,
                    eitp_trainer_steps_done(eitp_training_get_trainer(r->training)), r->run);
    on_event_begin(&t->on_event, &r->options, r->directory);
    t->log_every = options_integer(&r->options, OPTION_LOG_EVERY);
    t->began = t->since = process_time();
    t->peak_before = process_peak_memory();
    status = eitp_training_run(r->training, &t->report, error);
    training_watch(t, 0);
    process_attach_run(NULL);
    on_event_ended(&t->on_event, &t->report, status ? error->message : NULL);
    post_save_end(&t->post_save);
    on_event_end(&t->on_event);
    if (status)
        code = training_fail(t, error);
    /* Refused before the first step: leave nothing behind. */
    if (status == EITP_ERROR_IO && !t->report.steps_done && t->report.saved_step < 0)
        r->started = 0;
    if (t->report.end == EITP_RUN_FAILED)
        return code;
    if (t->report.end == EITP_RUN_STOPPED && t->report.steps_done == t->report.start_step)
        return training_end_before_step(t);
    if (t->report.end == EITP_RUN_STOPPED)
        code = 128 + t->report.stop_reason;
    if (options_integer(&r->options, OPTION_JSON))
        training_print_json(t);
    else if (!options_integer(&r->options, OPTION_QUIET))
        training_print_summary(t);
    if (!options_integer(&r->options, OPTION_JSON))
        training_print_outcome(t);
    training_suggest_resume(t);
    return code;
}

/* Gives other programs priority, according to the options. */
static void lower_priority(option_set *o) {
    const long processors = process_processors();
    process_raise_oom_score((int)options_integer(o, OPTION_OOM_SCORE_ADJ));
    if (options_has(o, OPTION_NICE))
        process_lower_priority((int)options_integer(o, OPTION_NICE));
    if (options_integer(o, OPTION_SPARE_CORE) && !options_integer(o, OPTION_THREADS) && processors > 2)
        options_set_integer(o, OPTION_THREADS, processors - 1, o->values[OPTION_THREADS].source);
}

/* Warns that a setting of PyTorch's allocator, meant to save memory, has no effect. */
static void report_allocator(const option_set *o) {
    static const char *const names[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
    for (size_t i = 0; i < COMMAND_COUNT(names) && !options_integer(o, OPTION_QUIET); i++) {
        const char *value = getenv(names[i]);
        if (value && *value) {
            output_warning("%s has no effect: eitp does not use PyTorch's allocator; it plans memory in advance",
                           names[i]);
            return;
        }
    }
}

/* Trains once. *starts_over is 1 if nothing was done because the checkpoint is damaged but there is another, whose
   options and shape may differ. */
static int train(int count, char **arguments, int *starts_over) {
    training_run *r = (training_run *)command_allocate(sizeof *r);
    training t;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status;
    memset(&t, 0, sizeof t);
    t.r = r;
    r->arguments = arguments;
    r->argument_count = count;
    r->listener.user = &t;
    r->listener.notify = training_notice;
    status = options_read(&r->options, "train", OPTIONS_TRAIN, count, arguments, &ended, &error);
    if (!status && !ended)
        status = run_resolve(r, &error);
    if (!status && !ended && options_integer(&r->options, OPTION_PRINT_CONFIG)) {
        run_complete_options(r);
        options_print(&r->options, (int)options_integer(&r->options, OPTION_JSON));
        ended = 1;
    }
    if (!status && !ended) {
        lower_priority(&r->options);
        status = run_prepare(r, &error);
        ended = options_integer(&r->options, OPTION_SHOW_DATA) > 0;
    }
    *starts_over = status && resume_starts_over(r, &error);
    if (status && !*starts_over) {
        code = output_fail(&error);
    } else if (!status && !ended) {
        report_allocator(&r->options);
        code = run_training(&t, &error);
    }
    if (status == EITP_ERROR_INTERRUPTED && process_stop_signal())
        code = 128 + process_stop_signal();
    run_release(r);
    free(r);
    return code;
}

int command_train(int count, char **arguments) {
    int code = COMMAND_FINISHED, starts_over = 1;
    process_catch_signals();
    process_survive_closed_pipes();
    while (starts_over)
        code = train(count, arguments, &starts_over);
    return code;
}
