/* Why a run ended. */
#include "doctor/advice.h"
#include "doctor/thresholds.h"
#include "output.h"
#include "supervise/child.h"

#include <time.h>

/* ---- Texts ---- */

/* Returns "step 1234": the last step in the records, or, without records, seen by safe-train. */
static char *step_of(const doctor_case *c) {
    const double seen = recorded_number(c->start, "step");
    const int64_t step = seen > (double)c->run->step && seen < 9e18 ? (int64_t)seen : c->run->step;
    return step > 0 ? command_format("step %lld", (long long)step) : command_copy("the start");
}

static void format_time(double seconds, char *text, size_t size) {
    const time_t at = (time_t)seconds;
    struct tm utc;
    *text = 0;
    if (seconds > 0 && seconds < 1e11 && gmtime_r(&at, &utc))
        strftime(text, size, "%Y-%m-%d %H:%M:%S UTC", &utc);
}

/* Writes the sentence "<begin> after step N<end>". */
static void say_after_step(const doctor_case *c, doctor_finding *f, const char *begin, const char *end) {
    char *step = step_of(c);
    finding_say(f, "%s after %s%s", begin, step, end);
    free(step);
}

static void measure_process(const doctor_case *c, doctor_finding *f) {
    const eitp_run_process *process = &c->run->process;
    char alive[40];
    if (process->state == EITP_RUN_PROCESS_UNKNOWN)
        return;
    format_time(process->alive, alive, sizeof alive);
    finding_measure(f, "process %lld was \"%s\"%s%s (run.json)", (long long)process->pid, process->recorded,
                    *alive ? ", last sign of life " : "", alive);
}

static void measure_message(const doctor_case *c, doctor_finding *f) {
    if (*c->run->process.message)
        finding_measure(f, "%s (run.json)", c->run->process.message);
}

/* Adds the observations of safe-train and the location of the last lines of output. */
static void measure_start(const doctor_case *c, doctor_finding *f) {
    const char *reason = recorded_text(c->start, "reason", ""), *log = recorded_text(c->start, "error_log", "");
    const eitp_json *lines = recorded_at(eitp_json_root(c->run->supervisor), "last_lines"), *last = NULL;
    if (!*reason)
        return;
    finding_measure(f, "%s (logs/supervisor.json)", reason);
    if (!strcmp(recorded_text(eitp_json_root(c->run->supervisor), "state", ""), "waiting"))
        finding_measure(f, "safe-train is waiting to restart it (logs/supervisor.json)");
    for (const eitp_json *line = recorded_items(lines); line; line = line->next)
        last = line->kind == EITP_JSON_STRING ? line : last;
    if (last)
        finding_measure(f, "last line of output: %s", last->text);
    if (*log)
        finding_measure(f, "more of its output: %s", log);
}

static void measure_last_event(const doctor_case *c, doctor_finding *f, const char *kind) {
    const recorded_event *event = recorded_last_event(c->run, kind);
    if (event)
        finding_measure(f, "after step %lld: %s (metrics.jsonl)", (long long)event->step, event->message);
}

/* Adds memory figures, for runs that the kernel may have killed. */
static void measure_memory(const doctor_case *c, doctor_finding *f) {
    const double left = recorded_last(c->run, "mem/left_bytes"), own = recorded_last(c->run, "mem/rss_bytes");
    measure_last_event(c, f, "memory_short");
    measure_last_event(c, f, "memory_high");
    if (isfinite(left) && isfinite(own))
        finding_measure(f, "the process used %s, with %s left (mem/rss_bytes, mem/left_bytes)", output_bytes(own),
                        output_bytes(left));
}

/* Proposes to run the command under safe-train, which restarts it. */
static void advise_supervision(const doctor_case *c, doctor_finding *f) {
    char *directory = advice_quote(c->run->directory);
    if (!c->run->supervisor && recorded_last_checkpoint(c->run))
        finding_advise(f,
                       "to restart it automatically next time: eitp safe-train -- train --resume auto --output-dir %s",
                       directory);
    free(directory);
}

/* ---- Memory ---- */

static int look_at_kernel(const doctor_case *c, doctor_finding *f) {
    if (c->end != DOCTOR_END_KERNEL)
        return 0;
    if (strncmp(c->kernel, "oom_kill", 8) != 0)
        say_after_step(c, f, "The kernel killed the run because memory ran out", ".");
    else
        say_after_step(c, f, "The kernel probably killed the run because memory ran out,",
                       ": it was killed, and the kernel killed processes in its control group because memory ran out.");
    finding_measure(f, "%s", c->kernel);
    measure_process(c, f);
    measure_start(c, f);
    measure_memory(c, f);
    advise_resume(c, f, "--auto-shrink");
    advise_resume(c, f, "--profile low-memory");
    finding_advise(f, "close other programs, or raise the limit of the control group");
    return DOCTOR_ENDED;
}

static int look_at_pressure(const doctor_case *c, doctor_finding *f) {
    if (c->end != DOCTOR_END_PRESSURE)
        return 0;
    say_after_step(c, f, "The run stopped because memory stayed low", " (exit code 3).");
    measure_message(c, f);
    measure_memory(c, f);
    finding_advise(f, "close the programs that use the memory, then:");
    advise_resume(c, f, "--auto-shrink");
    advise_resume(c, f, "--profile low-memory");
    return DOCTOR_ENDED;
}

/* Reads the smallest budget from the run's error message: "... that is enough is 13M". */
static void advise_budget(const doctor_case *c, doctor_finding *f) {
    static const char words[] = "--memory-budget that is enough is ";
    const char *found = strstr(case_last_error(c), words);
    char *budget = found ? command_format("--memory-budget %.*s", (int)strcspn(found + sizeof words - 1, "; "),
                                          found + sizeof words - 1)
                         : NULL;
    if (budget)
        advise_again(c, f, budget);
    advise_again(c, f, "--profile auto");
    free(budget);
}

static int look_at_room(const doctor_case *c, doctor_finding *f) {
    if (c->end != DOCTOR_END_NO_ROOM)
        return 0;
    finding_say(f, "The run did not fit in memory and was refused before step 1 (exit code 2).");
    measure_start(c, f);
    advise_budget(c, f);
    finding_advise(f, "eitp plan shows the memory of each part; eitp check-system shows which models fit");
    return DOCTOR_ENDED;
}

static int look_at_refusal(const doctor_case *c, doctor_finding *f) {
    if (c->end != DOCTOR_END_REFUSED)
        return 0;
    finding_say(f, "The run was refused before step 1 (exit code %.0f).", recorded_number(c->start, "exit_code"));
    measure_start(c, f);
    finding_advise(f, "fix the problem in the last line and start it again");
    return DOCTOR_ENDED;
}

/* ---- Signals and crashes ---- */

static int look_at_kill(const doctor_case *c, doctor_finding *f) {
    char name[32], *begin;
    if (c->end != DOCTOR_END_KILLED)
        return 0;
    begin = command_format("The run was killed by %s", child_signal_name(c->signal, name, sizeof name));
    say_after_step(c, f, begin, ", by a person or a program; the kernel's log does not mention it.");
    free(begin);
    measure_process(c, f);
    measure_start(c, f);
    measure_memory(c, f);
    finding_advise(f, "if you did not do it, check whether memory ran out: dmesg | grep -i 'killed process'");
    advise_resume(c, f, "");
    return DOCTOR_ENDED;
}

static int look_at_crash(const doctor_case *c, doctor_finding *f) {
    char name[32], *begin;
    if (c->end != DOCTOR_END_CRASHED)
        return 0;
    begin = c->signal ? command_format("The run crashed (%s)", child_signal_name(c->signal, name, sizeof name))
                      : command_copy("The run crashed");
    say_after_step(c, f, begin, ".");
    free(begin);
    if (c->kernel)
        finding_measure(f, "%s (the kernel's log)", c->kernel);
    measure_process(c, f);
    measure_start(c, f);
    advise_resume(c, f, "");
    finding_advise(f, "if it crashes at a different step each time, test the machine's memory (memtest86+); if always "
                      "at the same step, report it with the version in run.json and the last lines of output");
    advise_supervision(c, f);
    return DOCTOR_ENDED;
}

static int look_at_disappearance(const doctor_case *c, doctor_finding *f) {
    if (c->end != DOCTOR_END_VANISHED)
        return 0;
    say_after_step(c, f, "The run was killed or crashed", " or later: its process is gone and no reason is recorded.");
    measure_process(c, f);
    measure_memory(c, f);
    finding_advise(f, "sudo dmesg | grep -i -e 'killed process' -e segfault    # the kernel's messages about it");
    advise_resume(c, f, "");
    advise_supervision(c, f);
    return DOCTOR_ENDED;
}

static int look_at_restart(const doctor_case *c, doctor_finding *f) {
    if (c->end != DOCTOR_END_RESTARTED)
        return 0;
    say_after_step(c, f, "The machine rebooted during training,",
                   " or later; possible causes: power, heat, the kernel or a person.");
    measure_process(c, f);
    measure_last_event(c, f, "temperature");
    measure_memory(c, f);
    finding_advise(f, "last -x shutdown reboot | head    # was it a clean shutdown?");
    finding_advise(
        f, "sudo journalctl -b -1 -e    # the last lines before it; if they show no panic or heat, power failed");
    finding_advise(f, "sudo ls /sys/fs/pstore /var/lib/systemd/pstore    # traces of a kernel panic");
    finding_advise(f, "sudo ipmitool sel list    # on a server: power supplies, heat, memory errors");
    finding_advise(f, "if it was heat: lower --temp-max, or use --spare-core");
    advise_resume(c, f, "");
    return DOCTOR_ENDED;
}

static int look_at_distance(const doctor_case *c, doctor_finding *f) {
    const char *host = recorded_text(c->run->run, "machine.host", "another machine");
    char alive[40];
    if (c->end != DOCTOR_END_ELSEWHERE)
        return 0;
    format_time(c->run->process.alive, alive, sizeof alive);
    say_after_step(c, f, "The run was a process on another machine, so its state is unknown here,", ".");
    finding_measure(f, "host %s, last sign of life %s (run.json)", host, *alive ? alive : "unknown");
    finding_advise(f, "on %s: eitp doctor %s", host, recorded_text(c->run->run, "directory", c->run->directory));
    return DOCTOR_REMARK;
}

/* Gets the signal that stopped it from safe-train: the command's exit code is 128 plus the signal number. */
static int look_at_stop(const doctor_case *c, doctor_finding *f) {
    const char *reason = recorded_text(c->start, "reason", "");
    char name[32], *begin;
    if (c->end != DOCTOR_END_STOPPED)
        return 0;
    if (c->signal)
        begin = command_format("The run was stopped by %s", child_signal_name(c->signal, name, sizeof name));
    else
        begin = command_copy("The run was stopped by a signal");
    say_after_step(c, f, begin, "; its steps are saved.");
    free(begin);
    finding_measure(f, "state \"stopped\" (run.json)%s%s%s", *reason ? "; " : "", reason,
                    *reason ? " (logs/supervisor.json)" : "");
    measure_message(c, f);
    advise_resume(c, f, "");
    return DOCTOR_ENDED;
}

static int look_at_stall(const doctor_case *c, doctor_finding *f) {
    char *begin;
    if (c->end != DOCTOR_END_STALLED)
        return 0;
    begin = command_format("The run stalled: no sign of life for %.0f s", recorded_number(c->start, "stall_timeout"));
    say_after_step(c, f, begin, ", so safe-train stopped it.");
    free(begin);
    measure_start(c, f);
    measure_process(c, f);
    finding_advise(f, "check whether the disk hangs (network file system; dmesg) or the process was stopped");
    finding_advise(f, "a longer --stall-timeout, if a step or an evaluation takes that long");
    advise_resume(c, f, "");
    return DOCTOR_ENDED;
}

/* ---- Failures ---- */

static int look_at_disk(const doctor_case *c, doctor_finding *f) {
    char *directory;
    if (c->end != DOCTOR_END_DISK)
        return 0;
    if (c->run->step > 0)
        say_after_step(c, f, "The run ended because the disk was full or a file size limit was reached,",
                       " (exit code 5).");
    else
        finding_say(f, "The run was refused because its checkpoints do not fit on the disk (exit code 5).");
    measure_message(c, f);
    measure_start(c, f);
    measure_last_event(c, f, "disk");
    directory = advice_quote(c->run->directory);
    finding_advise(f, "df -h %s; ulimit -f    # free space, and the file size limit", directory);
    free(directory);
    advise_resume(c, f, "--save-total-limit 1");
    return DOCTOR_ENDED;
}

static int look_at_failure(const doctor_case *c, doctor_finding *f) {
    if (c->end != DOCTOR_END_FAILED)
        return 0;
    say_after_step(c, f, "The run failed", *c->run->process.message ? ":" : ".");
    if (*c->run->process.message) {
        char *step = step_of(c);
        finding_say(f, "The run failed after %s: %s", step, c->run->process.message);
        free(step);
    }
    measure_message(c, f);
    measure_start(c, f);
    measure_last_event(c, f, "save_failed");
    finding_advise(f, "fix the problem in the message, then:");
    advise_resume(c, f, "");
    return DOCTOR_ENDED;
}

/* True if this process applied no step: its starting point was bad. */
static int never_applied(const doctor_case *c) {
    size_t count;
    eitp_history_point *points = recorded_points(c->run, "applied", &count);
    int applied = 0;
    for (size_t i = 0; i < count; i++)
        applied |= points[i].step >= c->run->first_step && points[i].maximum > 0;
    free(points);
    return count > 0 && !applied;
}

static int look_at_numbers(const doctor_case *c, doctor_finding *f) {
    char *rate;
    if (c->end != DOCTOR_END_NOT_FINITE)
        return 0;
    if (never_applied(c)) {
        finding_say(f, "The run ended because the gradient was not finite from the first step on: the initial weights "
                       "or the data contain non-finite numbers.");
        measure_message(c, f);
        measure_last_event(c, f, "skipped_step");
        advise_again(c, f, "--check-finite op");
        return DOCTOR_ENDED;
    }
    say_after_step(c, f, "The run ended because its numbers became non-finite", " (exit code 4).");
    measure_message(c, f);
    measure_last_event(c, f, "skipped_step");
    rate = command_format("--lr %.3g", case_number(c, "lr") / 10);
    if (case_number(c, "lr") > 0)
        advise_resume(c, f, rate);
    free(rate);
    advise_resume(c, f, "--check-finite op");
    return DOCTOR_ENDED;
}

static int look_at_divergence(const doctor_case *c, doctor_finding *f) {
    const double lr = case_number(c, "lr");
    char *rate;
    if (c->end != DOCTOR_END_DIVERGED)
        return 0;
    say_after_step(c, f, "The run ended because its loss diverged", " (exit code 4): the learning rate is too high.");
    measure_message(c, f);
    measure_last_event(c, f, "diverging");
    finding_measure(f,
                    "learning rate %.3g, and the updates have moved the weights by %.3g times their norm "
                    "(update_norm, parameter_norm)",
                    lr, c->moved);
    rate = command_format("--lr %.3g", lr / 10);
    if (lr > 0)
        advise_resume(c, f, rate);
    free(rate);
    if (!(case_number(c, "max-grad-norm") > 0))
        advise_resume(c, f, "--max-grad-norm 1");
    return DOCTOR_ENDED;
}

static int look_at_silence(const doctor_case *c, doctor_finding *f) {
    const recorded_run *r = c->run;
    if (c->end != DOCTOR_END_UNKNOWN || case_is_over(c))
        return 0;
    say_after_step(c, f, "The end of the run is not recorded: its records stop", ".");
    finding_measure(f, "%s", r->info ? "run.json has no state of the process" : "run.json is missing or damaged");
    advise_resume(c, f, "");
    return DOCTOR_ENDED;
}

/* ---- No trouble, or trouble that did not end it ---- */

static int look_at_pause(const doctor_case *c, doctor_finding *f) {
    if (c->end != DOCTOR_END_PAUSED)
        return 0;
    say_after_step(c, f, "The run is paused because a processor or device is too hot,", ".");
    measure_last_event(c, f, "temperature");
    measure_process(c, f);
    finding_advise(f, "clean the fans and improve airflow; eitp check-system shows all sensors");
    finding_advise(f, "--spare-core or fewer --threads produce less heat; --temp-max sets the limit");
    return DOCTOR_FAILS;
}

static int look_at_good_end(const doctor_case *c, doctor_finding *f) {
    const recorded_run *r = c->run;
    const recorded_evaluation *last = recorded_last_evaluation(r);
    const char *what = c->end == DOCTOR_END_RUNNING    ? "it is training"
                       : c->end == DOCTOR_END_FINISHED ? "it finished"
                       : c->end == DOCTOR_END_OF_DATA  ? "it reached the end of its data"
                       : c->end == DOCTOR_END_EARLY    ? "it stopped early (--patience)"
                       : c->end == DOCTOR_END_UNKNOWN  ? "it completed all its steps"
                                                       : NULL;
    if (!what || (c->end == DOCTOR_END_UNKNOWN && !case_is_over(c)))
        return 0;
    if (r->last_step > 0)
        finding_say(f, "%s: step %lld of %lld", what, (long long)r->step, (long long)r->last_step);
    else
        finding_say(f, "%s: step %lld", what, (long long)r->step);
    finding_measure(f, "%s (run.json)", f->sentence);
    if (isfinite(c->loss.first))
        finding_measure(f, "loss %.4g in the first step, %.4g in the last ones (%s)", c->loss.first, c->loss.last,
                        recorded_task_loss(c->run));
    if (last && isfinite(last->loss))
        finding_measure(f, "validation loss %.4g after step %lld (val_loss)", last->loss, (long long)last->step);
    measure_message(c, f);
    return DOCTOR_NOTE;
}

/* Returns safe-train's record of the process that a later one reports as interrupted, or NULL. */
static const eitp_json *find_interrupted_start(const doctor_case *c, const recorded_event *event) {
    const eitp_json *starts = recorded_at(eitp_json_root(c->run->supervisor), "starts"), *found = NULL;
    for (const eitp_json *start = recorded_items(starts); start; start = start->next) {
        if (recorded_number(start, "end_time") <= event->time)
            found = start;
    }
    /* A process may have run without safe-train after the last one that it started. */
    return found && recorded_number(found, "end_time") >= recorded_number(event->record, "last_time") ? found : NULL;
}

/* Reports an earlier process that did not end normally. */
static int look_at_past(const doctor_case *c, doctor_finding *f) {
    const recorded_event *event = recorded_last_event(c->run, "interrupted");
    const eitp_json *start = event ? find_interrupted_start(c, event) : NULL;
    const double step = recorded_number(start, "step");
    const char *reason = recorded_text(start, "reason", "");
    if (!event)
        return 0;
    if (step >= 0 && *reason) {
        finding_say(f, "An earlier process of this run was interrupted: %s after step %.0f.", reason, step);
        finding_measure(f, "%s after step %.0f (logs/supervisor.json)", reason, step);
        return DOCTOR_REMARK;
    }
    finding_say(f, "An earlier process of this run was interrupted: %s", event->message);
    measure_last_event(c, f, "interrupted");
    return DOCTOR_REMARK;
}

const doctor_rule *doctor_ends(size_t *count) {
    static const doctor_rule rules[] = {{"out-of-memory", look_at_kernel},
                                        {"memory-pressure", look_at_pressure},
                                        {"does-not-fit", look_at_room},
                                        {"refused", look_at_refusal},
                                        {"killed", look_at_kill},
                                        {"crashed", look_at_crash},
                                        {"killed-or-crashed", look_at_disappearance},
                                        {"machine-restarted", look_at_restart},
                                        {"elsewhere", look_at_distance},
                                        {"stopped", look_at_stop},
                                        {"stalled", look_at_stall},
                                        {"disk-full", look_at_disk},
                                        {"failed", look_at_failure},
                                        {"not-finite", look_at_numbers},
                                        {"diverged", look_at_divergence},
                                        {"unrecorded", look_at_silence},
                                        {"paused", look_at_pause},
                                        {"well", look_at_good_end},
                                        {"interrupted", look_at_past}};
    *count = COMMAND_COUNT(rules);
    return rules;
}
