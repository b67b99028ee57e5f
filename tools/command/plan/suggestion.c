#include "plan/suggestion.h"

#include "files.h"

#include <unistd.h>

/* ---- Shell words ---- */

void suggest_add(text_buffer *t, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:@%,";
    if (t->size)
        text_add(t, " ", 1);
    if (*word && !word[strspn(word, plain)]) {
        text_format(t, "%s", word);
        return;
    }
    text_add(t, "'", 1);
    for (; *word; word++)
        text_format(t, *word == '\'' ? "'\\''" : "%c", *word);
    text_add(t, "'", 1);
}

void suggest_add_option(text_buffer *t, const char *option, const char *value) {
    suggest_add(t, option);
    suggest_add(t, value);
}

/* True if a shell finds the program at this path as "eitp". */
static int is_found_in_path(const char *path) {
    const char *at = getenv("PATH");
    while (at && *at) {
        const size_t length = strcspn(at, ":");
        char *file = command_format("%.*s/eitp", (int)length, at);
        const int is_executable = access(file, X_OK) == 0;
        char *found = is_executable ? realpath(file, NULL) : NULL;
        const int is_same = found && !strcmp(found, path);
        free(found);
        free(file);
        if (is_executable)
            return is_same;
        at += length;
        at += *at == ':';
    }
    return 0;
}

/* Returns a new string with the word that calls the running program from a shell in this directory. */
static char *find_program(void) {
    char *path = realpath("/proc/self/exe", NULL), *here = realpath(".", NULL), *program = NULL;
    const size_t length = here ? strlen(here) : 0;
    if (!path || is_found_in_path(path))
        program = command_copy("eitp");
    else if (length > 1 && !strncmp(path, here, length) && path[length] == '/')
        program = command_format(".%s", path + length);
    else
        program = command_copy(path);
    free(path);
    free(here);
    return program;
}

/* ---- Data ---- */

/* Every machine has the command's help text. It has at least HELP_SIZE bytes. */
static const char help_text[] = "eitp_help.txt";
enum { HELP_SIZE = 12000 };

/* Returns the size of the text in bytes; UINT64_MAX if unknown but large enough. */
static uint64_t text_size(const option_set *o) {
    const option_value *given = &o->values[OPTION_DATA];
    if (!given->count)
        return HELP_SIZE;
    return given->count == 1 && files_info(given->texts[0]).kind == EITP_PATH_FILE ? files_info(given->texts[0]).size
                                                                                   : UINT64_MAX;
}

/* Returns a lower bound for the number of tokens in `size` bytes of text. Tokens rarely average more than six bytes,
   and a new model uses bytes if the text is short. */
static uint64_t text_tokens(const system_model *model, uint64_t size) {
    const uint64_t fewest = size < 4096 ? size : 4096;
    return model->is_directory || size / 6 > fewest ? size / 6 : fewest;
}

static void add_data(const option_set *o, system_report *report, text_buffer *t) {
    const option_value *given = &o->values[OPTION_DATA];
    for (size_t i = 0; i < given->count; i++)
        suggest_add_option(t, "--data", given->texts[i]);
    if (given->count)
        return;
    suggest_add_option(t, "--data", help_text);
    report->note = command_copy("trains on eitp's help text for one epoch; use --data for your own text");
}

static void add_integer(text_buffer *t, const char *option, int64_t value) {
    char digits[32];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    suggest_add_option(t, option, digits);
}

/* Shortens the sequences if the validation tenth of the text is not longer than one of them. Returns their length. */
static int64_t add_length(uint64_t tokens, const system_model *model, text_buffer *t) {
    const int64_t length = model->advice.block_size;
    int64_t shorter = length;
    while (shorter > 8 && tokens / 10 < (uint64_t)shorter + 2)
        shorter /= 2;
    if (shorter < length)
        add_integer(t, "--block-size", shorter);
    return shorter;
}

/* Returns the number of steps in about 10 minutes, rounded to 1, 2 or 5 times a power of ten; 0 if unknown. */
static int64_t choose_save_steps(double seconds) {
    const double steps = seconds > 0 ? 600 / seconds : 0, power = steps > 1 ? pow(10, floor(log10(steps))) : 1;
    const double digit = steps / power;
    if (!(steps > 0 && steps < 1e9))
        return 0;
    return (int64_t)(power * (digit > sqrt(50) ? 10 : digit > sqrt(10) ? 5 : digit > sqrt(2) ? 2 : 1) + 0.5);
}

/* Adds the checkpoint interval. Step time is about proportional to sequence length. */
static void add_saves(system_report *report, int64_t length, text_buffer *t) {
    const advice *a = &report->model->advice;
    report->save_steps = choose_save_steps(a->chosen.seconds * (double)length / (double)a->block_size);
    if (report->save_steps)
        add_integer(t, "--save-steps", report->save_steps);
}

/* ---- The output directory ---- */

static int stop_at_first(void *user, const char *name) {
    (void)user;
    (void)name;
    return 1;
}

/* True if a new run may use the path: it is missing, or an empty directory. */
static int is_unused(const char *path) {
    const eitp_host host = command_host();
    const eitp_path_kind kind = files_info(path).kind;
    return kind == EITP_PATH_MISSING ||
           (kind == EITP_PATH_DIRECTORY && !host.files.list(host.files.user, path, stop_at_first, NULL));
}

/* Adds an unused output directory if the default one is in use or not writable. */
static void add_directory(const option_set *o, const system_report *report, text_buffer *t) {
    const char *wanted = options_text(o, OPTION_OUTPUT_DIR), *temporary = getenv("TMPDIR");
    char *base = report->is_writable ? command_copy(wanted)
                                     : files_join(temporary && *temporary ? temporary : "/tmp", "eitp_results");
    char *path = command_copy(base);
    for (int i = 2; !is_unused(path); i++) {
        free(path);
        path = command_format("%s-%d", base, i);
    }
    if (options_is_explicit(o, OPTION_OUTPUT_DIR) || strcmp(path, wanted) != 0)
        suggest_add_option(t, "--output-dir", path);
    free(path);
    free(base);
}

/* ---- The command ---- */

static void add_limits(const option_set *o, const system_report *report, text_buffer *t) {
    if (options_is_explicit(o, OPTION_MEMORY_BUDGET))
        suggest_add_option(t, "--memory-budget", options_text(o, OPTION_MEMORY_BUDGET));
    if (options_is_explicit(o, OPTION_THREADS))
        suggest_add_option(t, "--threads", options_text(o, OPTION_THREADS));
    else if (report->processors.usable < report->processors.allowed)
        add_integer(t, "--threads", report->processors.usable);
}

static void add_training(const option_set *o, system_report *report, const char *program, text_buffer *t) {
    const system_model *model = report->model;
    if (!options_has(o, OPTION_DATA)) {
        suggest_add(t, program);
        text_format(t, " help train >%s &&", help_text);
    }
    suggest_add(t, program);
    suggest_add(t, "train");
    suggest_add_option(t, model->is_directory ? "--model" : "--init", model->name);
    add_data(o, report, t);
    suggest_add_option(t, "--profile", model->advice.profile);
    add_saves(report, add_length(text_tokens(model, text_size(o)), model, t), t);
    add_limits(o, report, t);
    add_directory(o, report, t);
}

void suggest_command(const option_set *o, system_report *report) {
    const system_model *model = report->model;
    text_buffer t = {NULL, 0, 0};
    char *program;
    if (!model)
        return;
    program = find_program();
    if (model->is_trained) {
        add_training(o, report, program, &t);
    } else {
        suggest_add(&t, program);
        suggest_add(&t, "plan");
        suggest_add_option(&t, model->is_directory ? "--model" : "--init", model->name);
        suggest_add_option(&t, "--profile", model->advice.profile);
        add_limits(o, report, &t);
        report->note = command_format(
            "shows the plan for %s; to train it, eitp train needs a tokenizer or labelled data", model->name);
    }
    report->command = t.data;
    free(program);
}

void suggest_begin(text_buffer *t, const char *command) {
    char *program = find_program();
    suggest_add(t, program);
    suggest_add(t, command);
    free(program);
}

char *suggest_resume(const char *directory, const char *checkpoint) {
    text_buffer t = {NULL, 0, 0};
    suggest_begin(&t, "train");
    suggest_add_option(&t, "--resume", checkpoint);
    suggest_add_option(&t, "--output-dir", directory);
    return t.data;
}
