/* eitp set: changes settings of a checkpoint or of a run in progress. */
#include "files.h"
#include "model/model.h"
#include "options/table.h"
#include "output.h"
#include "wording.h"

/* Seconds to wait for a run's answer: it checks once a second, between steps. */
#define ANSWER_SECONDS 5

typedef struct setting {
    option_set options;
    char *checkpoint;
    eitp_setting_change *changes;
    char **names; /* of all changes given */
    size_t name_count;
    size_t count;      /* changes to make */
    text_buffer fixed; /* comma-separated names of changes that a run in progress cannot make */
} setting;

/* Returns the library's name of a setting for any alias of its option, such as lr for learning-rate; other names
   unchanged. */
static char *find_name(const char *given, size_t size) {
    char *name = command_format("%.*s", (int)size, given);
    const option_id id = option_find(name).id;
    if (id != OPTION_CAPACITY && option_of(id)->group) {
        free(name);
        return command_copy(option_of(id)->setting->name);
    }
    return name;
}

static eitp_status read_changes(setting *s, eitp_error *error) {
    const option_set *o = &s->options;
    if (o->positional_count < 2)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "eitp set requires a directory and changes: eitp set DIR name=value ...");
    s->changes = (eitp_setting_change *)command_allocate(o->positional_count * sizeof *s->changes);
    s->names = (char **)command_allocate(o->positional_count * sizeof *s->names);
    for (size_t i = 1; i < o->positional_count; i++) {
        const char *equals = strchr(o->positional[i], '=');
        if (!equals)
            return command_fail(error, EITP_ERROR_ARGUMENT, "'%s' is not a change; write name=value, such as lr=1e-4",
                                o->positional[i]);
        s->names[s->name_count] = find_name(o->positional[i], (size_t)(equals - o->positional[i]));
        s->changes[s->count].name = s->names[s->name_count++];
        s->changes[s->count].value = equals + 1;
        s->count++;
    }
    return EITP_OK;
}

/* ---- A run in progress ---- */

/* Returns the setting of a run with this name, or NULL. */
static const eitp_setting *find_run_setting(const char *name) {
    size_t count;
    const eitp_setting *settings = eitp_settings_of("eitp_run_config", &count);
    for (size_t i = 0; i < count; i++) {
        if (option_names_equal(name, settings[i].name, strlen(settings[i].name)))
            return &settings[i];
    }
    return NULL;
}

/* True if the changes are for a run rather than a checkpoint. */
static int is_of_run(const setting *s) {
    for (size_t i = 0; i < s->name_count; i++) {
        if (find_run_setting(s->names[i]))
            return 1;
    }
    return 0;
}

/* Checks a change that a run in progress cannot make: if any name or value is wrong, nothing is changed. */
static eitp_status check_fixed(const char *name, const char *value, eitp_error *error) {
    option_name found = option_find(name);
    option_set scratch;
    eitp_status status;
    option_prefer(&found, OPTIONS_TRAIN);
    if (found.id == OPTION_CAPACITY || !(option_of(found.id)->commands & OPTIONS_TRAIN))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "%s is not a setting of a run in progress, unlike others given; nothing was changed", name);
    options_create(&scratch, "train", OPTIONS_TRAIN);
    status = options_set(&scratch, found.id, value, SOURCE_COMMAND_LINE, "", error);
    options_release(&scratch);
    return status;
}

static eitp_status fail_fixed(const setting *s, eitp_error *error) {
    return command_fail(error, EITP_ERROR_ARGUMENT,
                        "%s cannot be changed during training; stop the run and resume it with another value",
                        s->fixed.data);
}

/* Keeps the changes that a run can make during training, and lists the others. */
static eitp_status keep_live(setting *s, eitp_error *error) {
    size_t live = 0;
    for (size_t i = 0; i < s->count; i++) {
        const eitp_setting_change change = s->changes[i];
        const eitp_setting *found = find_run_setting(change.name);
        if (found && (found->flags & EITP_SETTING_LIVE)) {
            s->changes[live++] = change;
            continue;
        }
        if (check_fixed(change.name, change.value, error))
            return error->status;
        text_format(&s->fixed, "%s%s", s->fixed.size ? ", " : "", change.name);
    }
    s->count = live;
    return live ? EITP_OK : fail_fixed(s, error);
}

static void print_running(const setting *s, int64_t step) {
    const char *directory = s->options.positional[0];
    const int json = (int)options_integer(&s->options, OPTION_JSON);
    text_buffer t = {NULL, 0, 0};
    if (json) {
        text_format(&t, "{");
        text_json_member_string(&t, "directory", directory);
        if (step >= 0) {
            text_json_member_integer(&t, "step", step);
        } else {
            text_json_name(&t, "step");
            text_format(&t, "null");
        }
        text_json_name(&t, "changes");
        text_format(&t, "[");
    }
    for (size_t i = 0; i < s->count; i++) {
        const eitp_setting_change *change = &s->changes[i];
        const char *is = step < 0 ? change->value : change->is;
        if (json) {
            text_format(&t, i ? ", {" : "{");
            text_json_member_string(&t, "name", change->name);
            if (step >= 0)
                text_json_member_string(&t, "was", change->was);
            text_json_member_string(&t, "is", is);
            text_format(&t, "}");
        } else if (step >= 0) {
            text_format(&t, "%s: %s -> %s from step %lld\n", change->name, change->was, is, (long long)step);
        }
    }
    if (json)
        text_format(&t, "]}\n");
    if (t.size)
        output_result(t.data, t.size);
    text_release(&t);
}

static eitp_status change_run(setting *s, eitp_error *error) {
    const eitp_host host = command_host();
    const char *directory = s->options.positional[0];
    int64_t step;
    eitp_status status = keep_live(s, error);
    if (!status)
        status = eitp_run_set(&host, directory, s->changes, s->count, ANSWER_SECONDS, &step, error);
    if (status)
        return status;
    output_start();
    print_running(s, step);
    if (step < 0)
        output_info("written to '%s'; the run has not applied it yet and will do so between two steps", directory);
    return s->fixed.size ? fail_fixed(s, error) : EITP_OK;
}

/* ---- A checkpoint ---- */

static eitp_status find_checkpoint(setting *s, eitp_error *error) {
    const eitp_host host = command_host();
    const char *path = s->options.positional[0];
    char found[MODEL_PATH_SIZE];
    eitp_status status = eitp_run_find_checkpoint(&host, path, EITP_RUN_LATEST, found, sizeof found, error);
    if (!status && !files_is_file(found, "trainer_state.json"))
        status = command_fail(error, EITP_ERROR_ARGUMENT,
                              "'%s' is a model, not a checkpoint: it has no trainer_state.json", found);
    if (!status)
        s->checkpoint = command_copy(found);
    return status;
}

/* Changes the checkpoint that the path refers to, or the next one if a run ending there removes it in the meantime. */
static eitp_status change_checkpoint(setting *s, eitp_error *error) {
    const eitp_host host = command_host();
    int attempts = 0;
    for (;;) {
        eitp_status status = find_checkpoint(s, error);
        if (!status)
            status = eitp_checkpoint_set(&host, s->checkpoint, s->changes, s->count, error);
        if (!status || !model_read_again(s->options.positional[0], s->checkpoint, &attempts, error))
            return status ? error->status : EITP_OK;
        free(s->checkpoint);
        s->checkpoint = NULL;
    }
}

static void print_changes(const setting *s) {
    const int json = (int)options_integer(&s->options, OPTION_JSON);
    text_buffer t = {NULL, 0, 0};
    if (json) {
        text_format(&t, "{");
        text_json_member_string(&t, "checkpoint", s->checkpoint);
        text_json_name(&t, "changes");
        text_format(&t, "[");
    }
    for (size_t i = 0; i < s->count; i++) {
        const eitp_setting_change *change = &s->changes[i];
        if (!json) {
            text_format(&t, "%s: %s changed from %s to %s\n", s->checkpoint, change->name, change->was, change->is);
            continue;
        }
        text_format(&t, i ? ", {" : "{");
        text_json_member_string(&t, "name", change->name);
        text_json_member_string(&t, "was", change->was);
        text_json_member_string(&t, "is", change->is);
        text_format(&t, "}");
    }
    if (json)
        text_format(&t, "]}\n");
    output_result(t.data, t.size);
    text_release(&t);
}

/* ---- Effect on a resume ---- */

/* Returns the trainer's setting of a change, or NULL. */
static const eitp_setting *setting_of(const eitp_setting_change *change) {
    size_t count;
    const eitp_setting *settings = eitp_settings_of("eitp_trainer_config", &count);
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (change->name[at] && (change->name[at] == '-' ? '_' : change->name[at]) == settings[i].name[at])
            at++;
        if (!change->name[at] && !settings[i].name[at])
            return &settings[i];
    }
    return NULL;
}

/* Reports the effect of a resume on the changes with this kind of difference. */
static void say_resume(const setting *s, eitp_difference difference) {
    static const char *const actions[] = {
        "a resume continues as if the run had started with this value; passing another one is refused",
        "a resume uses this value unless you pass another one",
        "a resume may choose another value; results do not depend on it",
    };
    text_buffer names = {NULL, 0, 0};
    for (size_t i = 0; i < s->count; i++) {
        const eitp_setting *found = setting_of(&s->changes[i]);
        if (found && found->difference == difference && strcmp(s->changes[i].was, s->changes[i].is))
            text_format(&names, "%s%s", names.size ? ", " : "", found->name);
    }
    if (names.size && difference == EITP_DIFFERENCE_REFUSED)
        output_warning("%s: %s", names.data, actions[difference]);
    else if (names.size)
        output_info("%s: %s", names.data, actions[difference]);
    text_release(&names);
}

/* Returns the value of a setting before the changes. */
static int64_t value_before(const setting *s, const char *name, int64_t now) {
    for (size_t i = 0; i < s->count; i++) {
        const eitp_setting *found = setting_of(&s->changes[i]);
        if (found && !strcmp(found->name, name))
            return strtoll(s->changes[i].was, NULL, 10);
    }
    return now;
}

/* Reports the effect on the position in the data, which is counted in samples. */
static void say_samples(const setting *s) {
    const eitp_host host = command_host();
    eitp_checkpoint_info info;
    eitp_error ignored;
    int64_t was, is;
    if (eitp_checkpoint_read_info(&host, s->checkpoint, &info, &ignored))
        return;
    is = info.config.batch_size * info.config.grad_accum;
    was = value_before(s, "batch_size", info.config.batch_size) * value_before(s, "grad_accum", info.config.grad_accum);
    if (is != was)
        output_info("%lld samples per step instead of %lld: a resume continues after the %lld samples that %lld steps "
                    "have read",
                    (long long)is, (long long)was, (long long)info.samples, (long long)info.step);
}

int command_set(int count, char **arguments) {
    setting s;
    eitp_error error;
    int ended = 0, is_run = 0, code = COMMAND_FINISHED;
    eitp_status status;
    memset(&s, 0, sizeof s);
    wording_disable_settings();
    status = options_read(&s.options, "set", OPTIONS_SET, count, arguments, &ended, &error);
    if (!status && !ended)
        status = read_changes(&s, &error);
    if (!status && !ended)
        is_run = is_of_run(&s);
    if (!status && !ended)
        status = is_run ? change_run(&s, &error) : change_checkpoint(&s, &error);
    if (!status && !ended && !is_run) {
        output_start();
        print_changes(&s);
        say_resume(&s, EITP_DIFFERENCE_REFUSED);
        say_resume(&s, EITP_DIFFERENCE_LOGGED);
        say_resume(&s, EITP_DIFFERENCE_ACCEPTED);
        say_samples(&s);
    }
    if (status)
        code = output_fail(&error);
    for (size_t i = 0; i < s.name_count; i++)
        free(s.names[i]);
    free(s.names);
    text_release(&s.fixed);
    free(s.changes);
    free(s.checkpoint);
    options_release(&s.options);
    return code;
}
