#include "supervise/child.h"

#include "process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- Starting ---- */

/* Returns the environment, with EITP_LOCK_FD first if there is a lock. */
static char **make_environment(int lock) {
    static const char name[] = "EITP_LOCK_FD=";
    size_t count = 0, at = 0;
    char **list;
    while (environ[count])
        count++;
    list = (char **)command_allocate((count + 2) * sizeof *list);
    if (lock >= 0)
        list[at++] = command_format("%s%d", name, lock);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(environ[i], name, sizeof name - 1))
            list[at++] = environ[i];
    }
    return list;
}

static void limit_to(int resource, uint64_t bytes) {
    struct rlimit limit;
    if (getrlimit(resource, &limit))
        return;
    limit.rlim_cur = limit.rlim_max < bytes ? limit.rlim_max : (rlim_t)bytes;
    limit.rlim_max = limit.rlim_cur;
    setrlimit(resource, &limit);
}

/* Sets up streams, limits and signals of the new process. Returns 0 or an errno value. */
static int prepare(const child_settings *settings) {
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setsid();
    if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(settings->output, 1) < 0 || dup2(settings->output, 2) < 0)
        return errno;
    if (settings->lock >= 0)
        fcntl(settings->lock, F_SETFD, 0);
    limit_to(RLIMIT_CORE, 0);
    if (settings->memory_limit > 0)
        limit_to(RLIMIT_DATA, (uint64_t)settings->memory_limit);
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + settings->nice);
    process_restore_signals();
    /* Resets signals that only this process ignores. SIGUSR1 would end `train` before it is caught. */
    signal(SIGXFSZ, SIG_DFL);
    signal(SIGUSR1, settings->is_own ? SIG_IGN : SIG_DFL);
    return 0;
}

/* Runs in the new process. Reports failures through the pipe, which closes when the program is loaded. */
static void become(const child_settings *settings, char **arguments, char **environment, int report) {
    int code = prepare(settings);
    environ = environment;
    if (!code && settings->is_own)
        execv("/proc/self/exe", arguments);
    if (!code) {
        execvp(arguments[0], arguments);
        code = errno;
    }
    while (write(report, &code, sizeof code) < 0 && errno == EINTR)
        ;
    _exit(127);
}

/* Returns the errno value reported by the new process, or 0 if its program is loaded. */
static int read_report(int report) {
    int code = 0;
    ssize_t size;
    do {
        size = read(report, &code, sizeof code);
    } while (size < 0 && errno == EINTR);
    return size == (ssize_t)sizeof code ? code : 0;
}

int child_start(const child_settings *settings, char **arguments, pid_t *process) {
    int ends[2], code = 0;
    char **environment;
    if (pipe(ends))
        return errno;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    environment = make_environment(settings->lock);
    *process = fork();
    if (!*process)
        become(settings, arguments, environment, ends[1]);
    if (*process < 0)
        code = errno;
    close(ends[1]);
    if (!code)
        code = read_report(ends[0]);
    close(ends[0]);
    if (code && *process > 0)
        waitpid(*process, NULL, 0);
    if (settings->lock >= 0)
        free(environment[0]);
    free(environment);
    return code;
}

/* ---- Signals and exit ---- */

void child_signal(pid_t process, int number) {
    kill(-process, number);
}

int child_has_ended(pid_t process, int *code, int *number) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    if (waitid(P_PID, (id_t)process, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid != process)
        return 0;
    *number = info.si_code == CLD_EXITED ? 0 : info.si_status;
    *code = *number ? 128 + *number : info.si_status;
    return 1;
}

void child_collect(pid_t process, int kills) {
    if (kills)
        kill(-process, SIGKILL);
    while (waitpid(process, NULL, 0) < 0 && errno == EINTR)
        ;
}

const char *child_signal_name(int number, char *text, size_t size) {
    static const struct {
        int number;
        const char *name;
    } names[] = {{SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"}, {SIGILL, "SIGILL"},
                 {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},   {SIGKILL, "SIGKILL"},
                 {SIGSEGV, "SIGSEGV"}, {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"},
                 {SIGUSR1, "SIGUSR1"}, {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"}};
    for (size_t i = 0; i < COMMAND_COUNT(names); i++) {
        if (names[i].number == number)
            return names[i].name;
    }
    snprintf(text, size, "signal %d", number);
    return text;
}
