#include "plan/suggestion.h"

#include "files.h"

#include <unistd.h>

/* ---- Words of a shell ---- */

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

/* True if a shell that is given "eitp" finds the program at this path. */
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

/* How a shell in this directory calls the program that is running, in a new text. */
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

/* A search for a text in the current directory. */
typedef struct text_search {
    uint64_t least; /* bytes that it must have */
    char *found;
} text_search;

static int has_ending(const char *name, const char *ending) {
    const size_t size = strlen(name), length = strlen(ending);
    return size > length && !strcmp(name + size - length, ending);
}

/* True if a file begins as UTF-8 without zero bytes. */
static int is_text(const char *path) {
    const eitp_host host = command_host();
    char bytes[4096];
    size_t size = 0;
    void *file;
    int valid, length = 1;
    if (host.files.open(host.files.user, path, EITP_FILE_READ, &file))
        return 0;
    valid = !host.files.read(host.files.user, file, 0, bytes, sizeof bytes, &size) && !memchr(bytes, 0, size);
    host.files.close(host.files.user, file);
    for (size_t at = 0; valid && length && at < size; at += (size_t)length) {
        length = text_utf8_length(bytes + at, size - at);
        valid = length >= 0;
    }
    return valid;
}

static int consider_text(void *user, const char *name) {
    text_search *search = (text_search *)user;
    const eitp_path_info info = files_info(name);
    if (!has_ending(name, ".md") && !has_ending(name, ".txt") && !has_ending(name, ".rst"))
        return 0;
    if (info.kind != EITP_PATH_FILE || info.size < search->least || !is_text(name) ||
        (search->found && strcmp(search->found, name) < 0))
        return 0;
    free(search->found);
    search->found = command_copy(name);
    return 0;
}

/* README.md, or the first text of the current directory that has enough for training and validation; NULL: none. */
static char *find_text(uint64_t least) {
    const eitp_host host = command_host();
    text_search search = {least, NULL};
    consider_text(&search, "README.md");
    if (!search.found)
        host.files.list(host.files.user, ".", consider_text, &search);
    return search.found;
}

/* The bytes of text that have a window of `length` tokens and one more in the tenth that is held out. Tokens of a
   model's own tokenizer are seldom longer than six bytes on average, the others are bytes. */
static uint64_t text_bytes(const system_model *model, int64_t length) {
    return (uint64_t)(10 * (length + 2)) * (model->is_directory ? 6 : 1);
}

/* The text of a run, and what its name is in the command. */
typedef struct run_text {
    char *found;   /* a file of this directory; NULL: what was given, or else what `eitp help train` prints */
    uint64_t size; /* bytes; UINT64_MAX: unknown, but enough */
} run_text;

static run_text choose_text(const option_set *o, const system_model *model) {
    enum { HELP_SIZE = 12000 }; /* at least */
    const option_value *given = &o->values[OPTION_DATA];
    run_text text = {NULL, UINT64_MAX};
    if (!given->count)
        text.found = find_text(text_bytes(model, model->advice.block_size));
    if (!given->count && !text.found)
        text.size = HELP_SIZE;
    else if (given->count == 1 && files_info(given->texts[0]).kind == EITP_PATH_FILE)
        text.size = files_info(given->texts[0]).size;
    return text;
}

static void add_data(const option_set *o, const run_text *text, system_report *report, text_buffer *t) {
    const option_value *given = &o->values[OPTION_DATA];
    for (size_t i = 0; i < given->count; i++)
        suggest_add_option(t, "--data", given->texts[i]);
    if (!given->count)
        suggest_add_option(t, "--data", text->found ? text->found : "sample.txt");
    if (text->found)
        report->note = command_format("it trains on '%s' for one epoch; name your own text with --data", text->found);
    else if (!given->count)
        report->note = command_copy("there is no text of sufficient size in this directory, so it trains on the help "
                                    "of eitp for one epoch; name your own text with --data");
}

static void add_integer(text_buffer *t, const char *option, int64_t value) {
    char digits[32];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    suggest_add_option(t, option, digits);
}

/* Shortens the sequences where the text is too small for those of the profile. Returns their length. */
static int64_t add_length(const run_text *text, const system_model *model, text_buffer *t) {
    const int64_t length = model->advice.block_size;
    int64_t shorter = length;
    while (shorter > 8 && text->size < text_bytes(model, shorter))
        shorter /= 2;
    if (shorter < length)
        add_integer(t, "--block-size", shorter);
    return shorter;
}

/* The steps of about 10 minutes, rounded to 1, 2 or 5 times a power of ten; 0 if the seconds of a step are unknown. */
static int64_t choose_save_steps(double seconds) {
    const double steps = seconds > 0 ? 600 / seconds : 0, power = steps > 1 ? pow(10, floor(log10(steps))) : 1;
    const double digit = steps / power;
    if (!(steps > 0 && steps < 1e9))
        return 0;
    return (int64_t)(power * (digit > sqrt(50) ? 10 : digit > sqrt(10) ? 5 : digit > sqrt(2) ? 2 : 1) + 0.5);
}

/* Adds the interval of checkpoints. The time of a step is about proportional to the length of its sequences. */
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

/* Adds an output directory without a run, if the default one is used or cannot be written. */
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
    const run_text text = choose_text(o, model);
    if (!options_has(o, OPTION_DATA) && !text.found) {
        suggest_add(t, program);
        text_format(t, " help train >sample.txt &&");
    }
    suggest_add(t, program);
    suggest_add(t, "train");
    suggest_add_option(t, model->is_directory ? "--model" : "--init", model->name);
    add_data(o, &text, report, t);
    suggest_add_option(t, "--profile", model->advice.profile);
    add_saves(report, add_length(&text, model, t), t);
    add_limits(o, report, t);
    add_directory(o, report, t);
    free(text.found);
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
            "it shows the plan of %s, which eitp train trains with a tokenizer or with labelled texts", model->name);
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

char *suggest_resume(const char *directory) {
    text_buffer t = {NULL, 0, 0};
    suggest_begin(&t, "train");
    suggest_add_option(&t, "--resume", "auto");
    suggest_add_option(&t, "--output-dir", directory);
    return t.data;
}
