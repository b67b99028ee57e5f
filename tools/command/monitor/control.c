#include "monitor/control.h"

#include "files.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    int number;
    const char *signal, *name, *effect;
} requests[] = {{SIGUSR1, "SIGUSR1", "save", "it will save after this step"},
                {SIGTERM, "SIGTERM", "stop", "it will save and stop after this step"}};

/* ---- Checks ---- */

/* True if the process has a handler for a signal, as this program's runs have, so that the signal does not end it. */
static int catches(int64_t process, int number) {
    static const char name[] = "SigCgt:";
    char line[200], *file_name = command_format("/proc/%lld/status", (long long)process);
    char *path = files_of_system(file_name);
    FILE *file = fopen(path, "r");
    unsigned long long caught = 0;
    free(path);
    free(file_name);
    while (file && fgets(line, sizeof line, file)) {
        if (!strncmp(line, name, sizeof name - 1))
            caught = strtoull(line + sizeof name - 1, NULL, 16);
    }
    if (file)
        fclose(file);
    return (int)(caught >> (number - 1) & 1);
}

/* Returns the current process of a run, or 0 if it is gone. */
static int64_t find_process(const watched_run *w, eitp_run_process *p) {
    const eitp_host host = command_host();
    eitp_error ignored;
    if (eitp_run_process_read(&host, w->run.directory, p, &ignored))
        memset(p, 0, sizeof *p);
    return p->state == EITP_RUN_PROCESS_ALIVE && p->pid > 0 ? p->pid : 0;
}

static int refuse(const watched_run *w, control_request request, const char *why, char *said, size_t size) {
    snprintf(said, size, "cannot %s %s: %s", requests[request].name, w->run.name, why);
    return 0;
}

int control_is_possible(const watched_run *w, control_request request, char *said, size_t size) {
    eitp_run_process p;
    const int64_t process = recorded_has_started(&w->run) ? find_process(w, &p) : 0;
    if (!recorded_has_started(&w->run))
        return refuse(w, request, "it has not started to train", said, size);
    if (p.state == EITP_RUN_PROCESS_ELSEWHERE)
        return refuse(w, request, "its process is on another machine", said, size);
    if (p.state == EITP_RUN_PROCESS_UNKNOWN)
        return refuse(w, request, "run.json does not name its process", said, size);
    if (!process)
        return refuse(w, request, "it has ended", said, size);
    if (request == CONTROL_SAVE && !strcmp(p.recorded, "paused"))
        return refuse(w, request, "it is paused because of heat; it can save when it continues", said, size);
    if (!catches(process, requests[request].number))
        return refuse(w, request,
                      request == CONTROL_SAVE ? "the program does not save on SIGUSR1, which would end it"
                                              : "the program would end without a checkpoint",
                      said, size);
    return 1;
}

/* ---- Sending ---- */

static int say_failure(control_request request, int64_t process, char *said, size_t size) {
    snprintf(said, size, "cannot send %s to process %lld: %s", requests[request].signal, (long long)process,
             strerror(errno));
    return 0;
}

/* Opens a descriptor that refers to this process even if its number is reused later. -1 if the system cannot. */
static int open_process(int64_t process) {
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, (pid_t)process, 0u);
#else
    (void)process;
    errno = ENOSYS;
    return -1;
#endif
}

static int send_signal(int descriptor, int64_t process, int number) {
#ifdef SYS_pidfd_send_signal
    if (descriptor >= 0)
        return (int)syscall(SYS_pidfd_send_signal, descriptor, number, NULL, 0u);
#endif
    (void)descriptor;
    return kill((pid_t)process, number);
}

int control_send(const watched_run *w, control_request request, char *said, size_t size) {
    eitp_run_process p;
    int64_t process;
    int descriptor, failed;
    if (!control_is_possible(w, request, said, size))
        return 0;
    process = find_process(w, &p);
    descriptor = process ? open_process(process) : -1;
    if (!process || (descriptor < 0 && errno == ESRCH) || find_process(w, &p) != process) {
        if (descriptor >= 0)
            close(descriptor);
        return refuse(w, request, "it has just ended", said, size);
    }
    failed = send_signal(descriptor, process, requests[request].number);
    if (failed)
        say_failure(request, process, said, size);
    else
        snprintf(said, size, "sent %s to process %lld: %s", requests[request].signal, (long long)process,
                 requests[request].effect);
    if (descriptor >= 0)
        close(descriptor);
    return !failed;
}
