#include "command_process.h"

#include "command_files.h"

#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stop_signal;

static void handle_stop(int number) {
    if (stop_signal)
        _exit(128 + number);
    stop_signal = number;
}

void process_catch_signals(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handle_stop;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
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

/* Not getrusage's, where there is another: that begins with what the parent had. */
size_t process_peak_memory(void) {
    const eitp_host host = command_host();
    eitp_memory_info info;
    eitp_error ignored;
    return eitp_memory_info_read(&host, &info, &ignored) ? 0 : (size_t)info.peak;
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
