#include "doctor/advice.h"

#include "files.h"
#include "options/table.h"

char *advice_quote(const char *text) {
    text_buffer t = {NULL, 0, 0};
    text_add_shell_word(&t, text);
    return t.data;
}

/* Returns the option that an argument names, or OPTION_CAPACITY. *has_value is 1 for "--name=value". */
static option_id option_in(const char *argument, int *has_value) {
    const char *equals = strchr(argument, '=');
    char name[60];
    *has_value = equals != NULL;
    if (strncmp(argument, "--", 2) != 0)
        return OPTION_CAPACITY;
    snprintf(name, sizeof name, "%.*s", (int)(equals ? equals - argument - 2 : (ptrdiff_t)sizeof name - 1),
             argument + 2);
    return option_find(name).id;
}

/* True if a string of space-separated options has this one. */
static int is_named(const char *options, option_id id) {
    char word[100];
    int has_value;
    while (*options) {
        const size_t size = strcspn(options, " ");
        snprintf(word, sizeof word, "%.*s", (int)size, options);
        if (option_in(word, &has_value) == id)
            return 1;
        options += size + strspn(options + size, " ");
    }
    return 0;
}

/* Adds the arguments of a command, except those that are replaced and those that resume a run. */
static void add_arguments(text_buffer *t, const eitp_json *first, const char *options) {
    for (const eitp_json *argument = first; argument; argument = argument->next) {
        const char *text = argument->kind == EITP_JSON_STRING ? argument->text : "";
        int has_value;
        const option_id id = option_in(text, &has_value);
        char *quoted;
        if (id != OPTION_CAPACITY && (id == OPTION_OUTPUT_DIR || id == OPTION_RESUME ||
                                      id == OPTION_OVERWRITE_OUTPUT_DIR || is_named(options, id))) {
            const eitp_json *next = argument->next;
            if (!has_value && next && next->kind == EITP_JSON_STRING && strncmp(next->text, "--", 2) != 0)
                argument = next;
            continue;
        }
        quoted = advice_quote(text);
        text_format(t, "%s%s", t->size ? " " : "", quoted);
        free(quoted);
    }
}

/* True for a command that resumes a run: its options are in run.json. */
static int resumes(const eitp_json *command) {
    int has_value;
    for (const eitp_json *argument = recorded_items(command); argument; argument = argument->next) {
        if (argument->kind == EITP_JSON_STRING && option_in(argument->text, &has_value) == OPTION_RESUME)
            return 1;
    }
    return 0;
}

static char *again_command(const doctor_case *c, const char *options) {
    const eitp_json *command = recorded_at(c->run->run, "command");
    char *directory = command_format("%s-again", c->run->directory);
    char *quoted = advice_quote(directory);
    text_buffer t = {NULL, 0, 0};
    if (!command)
        command = recorded_at(eitp_json_root(c->run->supervisor), "command");
    if (resumes(command)) {
        char *file = files_join(c->run->directory, "run.json"), *config = advice_quote(file);
        text_format(&t, "eitp train --config %s", config);
        free(config);
        free(file);
    } else {
        add_arguments(&t, recorded_items(command), options);
    }
    if (t.size)
        text_format(&t, "%s%s --output-dir %s", *options ? " " : "", options, quoted);
    else
        text_format(&t, "restart it with %s", *options ? options : "the command that started it");
    free(quoted);
    free(directory);
    return t.data;
}

/* ---- Advice ---- */

/* Proposes a command, and frees it. */
static void advise_command(doctor_finding *f, char *command) {
    finding_advise(f, "%s", command);
    free(command);
}

void advise_again(const doctor_case *c, doctor_finding *f, const char *options) {
    advise_command(f, again_command(c, options));
}

void advise_resume(const doctor_case *c, doctor_finding *f, const char *more) {
    const int trains = c->end == DOCTOR_END_RUNNING || c->end == DOCTOR_END_PAUSED;
    char *directory;
    if (case_is_over(c) && !*more)
        return;
    if (case_is_over(c) || (!trains && !recorded_last_checkpoint(c->run))) {
        advise_again(c, f, more);
        return;
    }
    directory = advice_quote(c->run->directory);
    advise_command(f,
                   command_format("eitp train --resume auto --output-dir %s%s%s", directory, *more ? " " : "", more));
    free(directory);
}

void advise_rate(const doctor_case *c, doctor_finding *f, double factor) {
    const double lr = case_number(c, "lr") * factor;
    char *option = command_format("--lr %.2g", lr);
    if (lr > 0)
        advise_again(c, f, option);
    free(option);
}

void advise_set(const doctor_case *c, doctor_finding *f, const char *option, double value) {
    char *directory = advice_quote(c->run->directory), *more = command_format("--%s %.0f", option, value);
    if (c->end == DOCTOR_END_RUNNING)
        finding_advise(f, "eitp set %s %s=%.0f    # while it trains", directory, option, value);
    advise_resume(c, f, more);
    free(more);
    free(directory);
}
