#include "supervise/supervised.h"

#include "files.h"
#include "run/resume.h"
#include "run/run.h"

#include <unistd.h>

/* ---- train ---- */

static int has_value(const option_set *o, option_id id, const char *text) {
    for (size_t i = 0; i < o->values[id].count; i++) {
        if (!strcmp(o->values[id].texts[i], text))
            return 1;
    }
    return 0;
}

static eitp_status check_repeatable(const option_set *o, eitp_error *error) {
    if (has_value(o, OPTION_DATA, "-") || has_value(o, OPTION_VAL_DATA, "-"))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "safe-train cannot read standard input again after a restart; write it to a file");
    if (options_integer(o, OPTION_OVERWRITE_OUTPUT_DIR))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "safe-train cannot repeat --overwrite-output-dir; choose another --output-dir, or move the "
                            "earlier run away");
    return EITP_OK;
}

/* Finds the output directory, which is the run's if --resume names one. Locks and writes nothing. */
static eitp_status find_directory(supervised *s, eitp_error *error) {
    training_run r;
    eitp_status status;
    memset(&r, 0, sizeof r);
    r.options = s->training;
    r.directory = command_copy(options_text(&s->training, OPTION_OUTPUT_DIR));
    options_set_integer(&r.options, OPTION_PRINT_CONFIG, 1, SOURCE_COMMAND_LINE);
    status = resume_find_checkpoint(&r, error);
    s->directory = command_copy(r.directory);
    memset(&r.options, 0, sizeof r.options); /* they belong to s */
    run_release(&r);
    return status;
}

/* Reads the options of a restart to check them in advance. */
static eitp_status check_restart(const supervised *s, eitp_error *error) {
    option_set o;
    char **line;
    int count = 0, ended;
    eitp_status status;
    if (!s->restart_args)
        return EITP_OK;
    line = supervised_line(s, 1);
    while (line[count])
        count++;
    status = options_read(&o, "train", OPTIONS_TRAIN, count - 2, line + 2, &ended, error);
    if (status) {
        const eitp_error why = *error;
        command_fail(error, status, "--restart-args: %s", why.message);
    }
    options_release(&o);
    supervised_line_release(line);
    return status;
}

static eitp_status read_training(supervised *s, const option_set *o, int *ended, eitp_error *error) {
    eitp_status status;
    if (options_is_explicit(o, OPTION_OUTPUT_DIR))
        return command_fail(error, EITP_ERROR_ARGUMENT, "--output-dir is an option of train; write it after 'train'");
    status = options_read(&s->training, "train", OPTIONS_TRAIN, s->count - 1, s->arguments + 1, ended, error);
    if (!status && options_integer(&s->training, OPTION_PRINT_CONFIG))
        *ended = 1;
    if (status || *ended)
        return status;
    status = check_repeatable(&s->training, error);
    if (!status)
        status = find_directory(s, error);
    return status ? status : check_restart(s, error);
}

/* ---- Programs ---- */

static int is_program(const char *path) {
    return files_info(path).kind == EITP_PATH_FILE && !access(path, X_OK);
}

/* True if the name has a slash and is a program, or is a program in PATH. */
static int find_program(const char *name) {
    const char *paths = getenv("PATH");
    if (strchr(name, '/'))
        return is_program(name);
    for (const char *at = paths ? paths : ""; *at;) {
        const size_t size = strcspn(at, ":");
        char *path = command_format("%.*s/%s", size ? (int)size : 1, size ? at : ".", name);
        const int found = is_program(path);
        free(path);
        if (found)
            return 1;
        at += size + (at[size] == ':');
    }
    return 0;
}

static eitp_status read_program(supervised *s, const option_set *o, eitp_error *error) {
    const char *name = s->arguments[0];
    eitp_suggestion near = {NULL, 0, 0};
    if (!find_program(name)) {
        eitp_suggest_name(name, "train", 5, &near);
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            near.name ? "no program '%s'; did you mean 'train'?"
                                      : "no program '%s'; after -- write 'train' with its options, or a program",
                            name);
    }
    if (!options_is_explicit(o, OPTION_OUTPUT_DIR))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--output-dir is required before -- to supervise a program: the directory of its "
                            "checkpoints, which is locked and gets the logs");
    s->directory = command_copy(options_text(o, OPTION_OUTPUT_DIR));
    return EITP_OK;
}

eitp_status supervised_read(supervised *s, const option_set *o, int count, char **arguments, int *ended,
                            eitp_error *error) {
    const int has_name = count > 1 && !strcmp(arguments[0], "eitp") && !strcmp(arguments[1], "train");
    s->arguments = arguments + has_name;
    s->count = count - has_name;
    s->restart_args = options_text(o, OPTION_RESTART_ARGS);
    *ended = 0;
    if (s->count < 1)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "missing command after --; write 'train' with its options, or a program");
    s->is_training = !strcmp(s->arguments[0], "train");
    return s->is_training ? read_training(s, o, ended, error) : read_program(s, o, error);
}

void supervised_release(supervised *s) {
    options_release(&s->training);
    free(s->directory);
    memset(s, 0, sizeof *s);
}

/* ---- The arguments of a start ---- */

typedef struct argument_list {
    char **items;
    size_t count;
} argument_list;

static void add_argument(argument_list *list, const char *text, size_t size) {
    list->items = (char **)command_resize(list->items, (list->count + 2) * sizeof *list->items);
    list->items[list->count++] = command_format("%.*s", (int)size, text);
    list->items[list->count] = NULL;
}

static void add_words(argument_list *list, const char *words) {
    while (*(words += strspn(words, " "))) {
        const size_t size = strcspn(words, " ");
        add_argument(list, words, size);
        words += size;
    }
}

static void add_option(argument_list *list, const char *name, const char *value) {
    char *option = command_format("--%s", name);
    add_argument(list, option, strlen(option));
    add_argument(list, value, strlen(value));
    free(option);
}

static int has_checkpoint(const char *directory) {
    const eitp_host host = eitp_host_default();
    eitp_error ignored;
    int64_t newest = -1;
    return !eitp_checkpoint_newest(&host, directory, &newest, &ignored) && newest >= 0;
}

/* Returns the alias of --resume used on the command line, since two names with different values conflict. */
static const char *resume_name(const option_value *resume) {
    return resume->source == SOURCE_COMMAND_LINE && *resume->name ? resume->name : options_name(OPTION_RESUME);
}

/* Adds --resume, and the directory of the run that it names, in which the run continues. */
static void add_resume(argument_list *list, const supervised *s) {
    const option_set *o = &s->training;
    const char *resume = options_text(o, OPTION_RESUME);
    if (resume && (!strcmp(resume, "auto") || !strcmp(resume, "true")))
        return;
    if (resume_is_requested(o) && !has_checkpoint(s->directory))
        return;
    add_option(list, resume_name(&o->values[OPTION_RESUME]), "auto");
    if (!options_is_explicit(o, OPTION_OUTPUT_DIR))
        add_option(list, options_name(OPTION_OUTPUT_DIR), s->directory);
}

char **supervised_line(const supervised *s, int is_restart) {
    argument_list list = {NULL, 0};
    if (s->is_training)
        add_argument(&list, "eitp", 4);
    for (int i = 0; i < s->count; i++)
        add_argument(&list, s->arguments[i], strlen(s->arguments[i]));
    if (is_restart && s->is_training)
        add_resume(&list, s);
    if (is_restart && s->restart_args)
        add_words(&list, s->restart_args);
    return list.items;
}

void supervised_line_release(char **line) {
    for (size_t i = 0; line && line[i]; i++)
        free(line[i]);
    free(line);
}
