/* The command eitp; `eitp help` lists its subcommands. */
#include "options/table.h"
#include "output.h"
#include "process.h"

#include <stdlib.h>
#include <unistd.h>

/* In groups; `group` starts a new one. */
static const struct {
    const char *group, *name;
    int (*run)(int count, char **arguments);
    const char *help;
} commands[] = {
    {"Train", "train", command_train, "train a language model or a classifier"},
    {NULL, "safe-train", command_safe_train, "train in the background or unattended: log, lock, restarts"},
    {NULL, "eval", command_eval, "compute the loss and metrics of a model on data"},
    {NULL, "merge", command_merge, "merge adapters into the weights of their base model"},
    {NULL, "export", command_export, "write a model as a GGUF file, for llama.cpp and Ollama"},
    {NULL, "set", command_set, "change settings of a checkpoint or of a run in progress"},
    {"Inspect a run", "monitor", command_monitor, "watch runs while they train"},
    {NULL, "report", command_report, "write a page with the curves of one or more runs"},
    {NULL, "doctor", command_doctor, "find out why a run ended, is slow, or does not learn"},
    {NULL, "logs", command_logs, "print records of runs as tables"},
    {"Use a model", "generate", command_generate, "generate text"},
    {NULL, "chat", command_chat, "chat with a model trained on conversations"},
    {NULL, "predict", command_predict, "label text, or its words, with a classifier"},
    {NULL, "embed", command_embed, "turn text into vectors"},
    {"Prepare data", "tokenizer", command_tokenizer, "train or inspect a tokenizer, encode or decode text"},
    {NULL, "pack", command_pack, "write text as a token file"},
    {"Inspect this machine", "check-system", command_check_system,
     "show its resources, models that fit, and a command to run"},
    {NULL, "plan", command_plan, "show the memory of a run and configurations that fit"},
    {NULL, "bench", command_bench, "measure kernels, training steps and monitoring costs"},
};

static const char examples[] = "Examples:\n"
                               "  eitp train --init tiny --data texts --output-dir out          # from scratch\n"
                               "  eitp train --resume auto --output-dir out                     # resume it\n"
                               "  eitp generate --model out --prompt \"Once upon a time\"\n"
                               "  eitp train --model path/to/bert --data reviews.csv --output-dir classifier\n"
                               "  eitp predict --model classifier --data more.csv\n";

static void print_version(void) {
    char line[400];
    snprintf(line, sizeof line, "eitp %s (%s)\n", eitp_version(), eitp_build_info());
    output_result(line, strlen(line));
}

static void print_overview(void) {
    text_buffer t = {NULL, 0, 0};
    text_format(&t, "eitp %s: trains Transformers within a machine's memory\n\n", eitp_version());
    for (size_t i = 0; i < COMMAND_COUNT(commands); i++) {
        if (commands[i].group)
            text_format(&t, "%s%s:\n", i ? "\n" : "", commands[i].group);
        text_format(&t, "  eitp %-12s  %s\n", commands[i].name, commands[i].help);
    }
    text_format(&t, "\n  eitp help NAME     options of a command\n  eitp --version     version and build\n\n%s\n",
                examples);
    text_format(&t, "Exit codes: 0 finished; 1 invalid command or file content; 2 not enough memory;\n"
                    "3 stopped during training because of low memory, after saving; 4 too many\n"
                    "non-finite losses or gradients; 5 reading or writing failed; 130, 143, 129, 152\n"
                    "stopped by SIGINT, SIGTERM, SIGHUP, SIGXCPU, after saving.\n");
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

static int fail_unknown(const char *name) {
    eitp_suggestion near = {NULL, 0, 0};
    for (size_t i = 0; i < COMMAND_COUNT(commands); i++)
        eitp_suggest_name(name, commands[i].name, strlen(commands[i].name), &near);
    if (near.name)
        output_error("unknown command '%s'; did you mean '%s'?", name, near.name);
    else
        output_error("unknown command '%s'; 'eitp help' lists the commands", name);
    return COMMAND_WRONG;
}

/* Runs eitp help [NAME [ACTION]]. */
static int print_help(int count, char **arguments) {
    char help[] = "--help", *rest[2];
    int found = count > 0 ? find_command(arguments[0]) : -1;
    if (!count) {
        print_overview();
        return COMMAND_FINISHED;
    }
    if (found < 0)
        return fail_unknown(arguments[0]);
    rest[0] = count > 1 ? arguments[1] : help;
    rest[1] = help;
    return commands[found].run(count > 1 ? 2 : 1, rest);
}

/*
 * Threads of libgomp spin for milliseconds while they wait for each other. If another program takes the processor of
 * one thread, the spinning of the others makes steps many times slower. The limit on spinning is read before main, so
 * the program executes itself again with a low limit unless the environment already has a setting.
 */
static void limit_spinning(char **arguments) {
    /* eitp uses one OpenBLAS thread. OpenBLAS would start more, and hang if one cannot be started. */
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY"))
        return;
    /* Bound to one place, the new process would see only that place. */
    eitp_processors_unbind();
    if (setenv("GOMP_SPINCOUNT", "1000", 1) == 0)
        execv("/proc/self/exe", arguments); /* on failure the limit stays unchanged */
}

static int run_command(int count, char **arguments) {
    const char *name = count > 1 ? arguments[1] : "";
    const int found = find_command(name);
    if (found >= 0)
        return commands[found].run(count - 2, arguments + 2);
    if (!strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h"))
        return print_help(count - 2, arguments + 2);
    if (!strcmp(name, "version") || !strcmp(name, "--version")) {
        print_version();
        return COMMAND_FINISHED;
    }
    if (*name)
        return fail_unknown(name);
    output_error("missing command; 'eitp help' lists the commands");
    return COMMAND_WRONG;
}

int main(int count, char **arguments) {
    process_begin();
    /* safe-train does not compute; the programs that it starts keep their environment and all processors. */
    if (count < 2 || strcmp(arguments[1], "safe-train"))
        limit_spinning(arguments);
    else
        eitp_processors_unbind();
    process_ignore_file_limit();
    output_by_line();
    return output_finish(run_command(count, arguments));
}
