#include "command_process.h"

#include "command_files.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stop_signal;
static eitp_run *volatile attached_run; /* gets requests to stop and to save */

static void handle_stop(int number) {
    if (stop_signal)
        _exit(128 + number);
    stop_signal = number;
    if (attached_run)
        eitp_run_request_stop(attached_run, number);
}

static void handle_save(int number) {
    (void)number;
    if (attached_run)
        eitp_run_request_save(attached_run);
}

static void catch_signal(int number, void (*handle)(int number)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void process_catch_signals(void) {
    catch_signal(SIGINT, handle_stop);
    catch_signal(SIGTERM, handle_stop);
}

void process_attach_run(eitp_run *run) {
    attached_run = run;
    if (run)
        catch_signal(SIGUSR1, handle_save);
    if (run && stop_signal)
        eitp_run_request_stop(run, stop_signal);
}

void process_ignore_file_limit(void) {
    signal(SIGXFSZ, SIG_IGN);
}

int process_stop_signal(void) {
    return stop_signal;
}

const char *process_stop_name(void) {
    return stop_signal == SIGTERM ? "SIGTERM" : "SIGINT";
}

long process_processors(void) {
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? count : 1;
}

size_t process_memory(void) {
    char content[128];
    unsigned long pages = 0;
    ssize_t size;
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    size = read(file, content, sizeof content - 1);
    close(file);
    content[size > 0 ? size : 0] = 0;
    /* The second number is the resident set. */
    return sscanf(content, "%*u %lu", &pages) == 1 ? (size_t)pages * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

/* Not that of getrusage, which starts with the peak of the parent. */
size_t process_peak_memory(void) {
    const eitp_host host = command_host();
    eitp_memory_info info;
    eitp_error ignored;
    return eitp_memory_info_read(&host, &info, &ignored) ? 0 : (size_t)info.peak;
}

void process_trim_memory(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void process_reset_peak_memory(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file)
        return;
    fputs("5", file); /* proc(5): resets the peak of the resident set */
    fclose(file);
}

double process_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
