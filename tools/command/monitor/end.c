#include "monitor/end.h"

#include "files.h"

/* True if the process with this number is a safe-train. */
static int is_safe_train(double process) {
    static const char wanted[] = "safe-train";
    char line[512], *name = command_format("/proc/%.0f/cmdline", process), *path = files_of_system(name);
    FILE *file = fopen(path, "r");
    const size_t size = file ? fread(line, 1, sizeof line - 1, file) : 0;
    size_t at = 0;
    if (file)
        fclose(file);
    free(path);
    free(name);
    line[size] = 0;
    while (at < size && strcmp(line + at, wanted))
        at += strlen(line + at) + 1;
    return at < size;
}

/* True while the safe-train that wrote its state file is running. */
static int is_supervised(const recorded_run *r) {
    const eitp_json *root = eitp_json_root(r->supervisor);
    const double process = recorded_number(root, "process");
    return process > 0 && strcmp(recorded_text(root, "state", ""), "ended") && is_safe_train(process);
}

static int waits_for_restart(const recorded_run *r) {
    return is_supervised(r) && !strcmp(recorded_text(eitp_json_root(r->supervisor), "state", ""), "waiting");
}

static int has_failed_to_begin(const recorded_run *r) {
    return r->supervisor && !is_supervised(r);
}

const char *end_state(const recorded_run *r) {
    if (recorded_has_started(r))
        return recorded_state(r);
    return has_failed_to_begin(r) ? "ended before training" : "starting";
}

int end_is_final(const recorded_run *r) {
    if (is_supervised(r))
        return 0;
    return recorded_has_started(r)
               ? r->process.state != EITP_RUN_PROCESS_ALIVE && r->process.state != EITP_RUN_PROCESS_ELSEWHERE
               : has_failed_to_begin(r);
}

/* Returns the reason for the end of the last start that safe-train saw ending. */
static const char *supervised_reason(const recorded_run *r) {
    const eitp_json *start = recorded_at(eitp_json_root(r->supervisor), "starts");
    const char *reason = "";
    for (start = recorded_items(start); start; start = start->next)
        reason = recorded_text(start, "reason", reason);
    return reason;
}

int end_describe(const recorded_run *r, text_buffer *t) {
    const char *reason = supervised_reason(r);
    const int has_begun = recorded_has_started(r);
    if (has_begun && r->process.state == EITP_RUN_PROCESS_ALIVE)
        return 0;
    if (has_begun && r->process.state == EITP_RUN_PROCESS_ELSEWHERE)
        text_format(t, "its state there is unknown");
    else if (has_begun && *r->process.message)
        text_format(t, "%s", r->process.message);
    else if (has_begun && r->process.state == EITP_RUN_PROCESS_RESTARTED)
        text_format(t, "the process is gone and the machine has rebooted since");
    else if (has_begun && r->process.state == EITP_RUN_PROCESS_VANISHED)
        text_format(t, "the process is gone, reason unknown%s%s", *reason ? "; safe-train: " : "", reason);
    else if (!has_begun && *reason)
        text_format(t, "%s; see %s", reason, recorded_text(eitp_json_root(r->supervisor), "log", "its log"));
    if (waits_for_restart(r))
        text_format(t, "%ssafe-train is going to restart it", t->size ? "; " : "");
    return t->size > 0;
}

int end_next(const recorded_run *r, text_buffer *t) {
    const eitp_json *command = recorded_at(r->run, "command");
    const int is_over = !strcmp(recorded_state(r), "finished") || !strcmp(recorded_state(r), "early_stop");
    if (!recorded_has_started(r) || !end_is_final(r) || r->process.state == EITP_RUN_PROCESS_UNKNOWN)
        return 0;
    if (!recorded_items(command)) {
        text_format(t, "the program that started it");
        return 1;
    }
    text_format(t, is_over ? "eitp eval --model " : "eitp train --resume auto --output-dir ");
    text_add_shell_word(t, r->directory);
    return 1;
}
