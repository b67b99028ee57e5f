/* The command eitp: `eitp help` says what it does. */
#include "command_options.h"
#include "command_output.h"
#include "command_process.h"

#include <stdlib.h>
#include <unistd.h>

static const struct {
    const char *name;
    int (*run)(int count, char **arguments);
    const char *help;
} commands[] = {
    {"plan", command_plan, "what a training run takes, and how it can be made to fit"},
    {"train", command_train, "train a language model, from weights or from nothing"},
    {"eval", command_eval, "mean loss and perplexity of a model on data"},
    {"generate", command_generate, "text from a model"},
    {"merge", command_merge, "adapters into the weights of their model"},
    {"tokenizer", command_tokenizer, "train, inspect, encode, decode"},
    {"pack", command_pack, "text to a token file"},
    {"bench", command_bench, "how fast kernels and training steps are, and what the machine allows"},
};

static void print_version(void) {
    char line[400];
    snprintf(line, sizeof line, "eitp %s (%s)\n", eitp_version(), eitp_build_info());
    output_result(line, strlen(line));
}

static void print_overview(void) {
    text_buffer t = {NULL, 0, 0};
    text_format(&t, "eitp %s: trains Transformers inside the memory a machine really has\n\n", eitp_version());
    for (size_t i = 0; i < COMMAND_COUNT(commands); i++)
        text_format(&t, "  eitp %-12s %s\n", commands[i].name, commands[i].help);
    text_format(&t,
                "  eitp help NAME    its options\n  eitp --version    version and build\n\n"
                "Exit codes: 0 finished; 1 the command or the content of a file is wrong; 2 does not fit in memory;\n"
                "3 memory went short while training, a checkpoint is there; 4 too many steps were not finite;\n"
                "5 reading or writing failed; 130, 143 stopped by a signal.\n");
    output_result(t.data, t.size);
    text_release(&t);
}

static int find_command(const char *name) {
    for (size_t i = 0; i < COMMAND_COUNT(commands); i++) {
        if (!strcmp(name, commands[i].name))
            return (int)i;
    }
    return -1;
}

/* eitp help [NAME [ACTION]] */
static int print_help(int count, char **arguments) {
    char help[] = "--help", *rest[2];
    int found = count > 0 ? find_command(arguments[0]) : -1;
    if (!count) {
        print_overview();
        return output_finish(COMMAND_FINISHED);
    }
    if (found < 0) {
        output_error("unknown command '%s'; 'eitp help' lists the commands", arguments[0]);
        return COMMAND_WRONG;
    }
    rest[0] = count > 1 ? arguments[1] : help;
    rest[1] = help;
    return commands[found].run(count > 1 ? 2 : 1, rest);
}

/*
 * Threads of libgomp that wait for one another spin for milliseconds, and where another program takes one of their
 * processors the others burn theirs: steps become many times slower. How long they spin is read before main begins, so
 * the program starts itself again with a short time. A user's own setting stands.
 */
static void limit_spinning(char **arguments) {
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY"))
        return;
    if (setenv("GOMP_SPINCOUNT", "1000", 1) == 0)
        execv("/proc/self/exe", arguments); /* where it cannot, all is as before */
}

int main(int count, char **arguments) {
    const char *name = count > 1 ? arguments[1] : "";
    int found = find_command(name);
    limit_spinning(arguments);
    process_ignore_file_limit();
    if (found >= 0)
        return commands[found].run(count - 2, arguments + 2);
    if (!strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h"))
        return print_help(count - 2, arguments + 2);
    if (!strcmp(name, "version") || !strcmp(name, "--version")) {
        print_version();
        return output_finish(COMMAND_FINISHED);
    }
    if (!*name)
        output_error("a command is missing; 'eitp help' lists the commands");
    else
        output_error("unknown command '%s'; 'eitp help' lists the commands", name);
    return COMMAND_WRONG;
}
