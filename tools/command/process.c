#include "process.h"

#include "files.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

/* ---- Signals: state set by handlers, which run in any thread ---- */

static volatile sig_atomic_t stop_signal;
static volatile sig_atomic_t cancels;   /* a process_cancel */
static eitp_run *volatile attached_run; /* receives requests to stop and to save */
static struct timespec stopped_at;

static const struct {
    int number;
    const char *name;
} stop_signals[] = {{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}, {SIGXCPU, "SIGXCPU"}};

/*
 * True if a signal is a repetition of the first one rather than a second request. The system repeats SIGXCPU every
 * second of processor time. timeout(1) sends its signal to the process and immediately to the process's group.
 */
static int is_repeated(int number) {
    struct timespec now;
    if (number != stop_signal)
        return 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return number == SIGXCPU ||
           (now.tv_sec - stopped_at.tv_sec) * 1000 + (now.tv_nsec - stopped_at.tv_nsec) / 1000000 < 200;
}

static void handle_stop(int number) {
    if (is_repeated(number))
        return;
    if (stop_signal)
        _exit(128 + number);
    clock_gettime(CLOCK_MONOTONIC, &stopped_at);
    stop_signal = number;
    if (attached_run)
        eitp_run_request_stop(attached_run, number);
}

static void handle_end(int number) {
    _exit(128 + number);
}

static void handle_save(int number) {
    (void)number;
    if (attached_run)
        eitp_run_request_save(attached_run);
}

static void handle_nothing(int number) {
    (void)number;
}

static void catch_signal(int number, void (*handle)(int number)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

/* Signals ignored at the start stay ignored: nohup ignores SIGHUP, and a shell ignores SIGINT for background jobs. */
static void catch_stop_signals(void (*handle)(int number)) {
    for (size_t i = 0; i < COMMAND_COUNT(stop_signals); i++) {
        struct sigaction before;
        if (!sigaction(stop_signals[i].number, NULL, &before) && before.sa_handler != SIG_IGN)
            catch_signal(stop_signals[i].number, handle);
    }
}

void process_catch_signals(void) {
    catch_stop_signals(handle_stop);
    catch_signal(SIGUSR1, handle_save);
}

void process_end_on_signals(void) {
    catch_stop_signals(handle_end);
}

/* Not SIG_IGN, which started programs would inherit. */
void process_survive_closed_pipes(void) {
    catch_signal(SIGPIPE, handle_nothing);
}

/* ---- Collected signals, in a single-threaded process ---- */

static volatile sig_atomic_t collected[NSIG];
static sigset_t mask_before;

static void handle_collected(int number) {
    collected[number] = 1;
}

void process_collect_signals(void) {
    sigset_t blocked;
    sigemptyset(&blocked);
    for (size_t i = 0; i < COMMAND_COUNT(stop_signals); i++)
        sigaddset(&blocked, stop_signals[i].number);
    sigaddset(&blocked, SIGUSR1);
    sigaddset(&blocked, SIGCHLD);
    sigprocmask(SIG_BLOCK, &blocked, &mask_before);
    catch_stop_signals(handle_collected);
    catch_signal(SIGUSR1, handle_collected);
    catch_signal(SIGCHLD, handle_nothing);
}

int process_next_signal(void) {
    for (int number = 1; number < NSIG; number++) {
        if (collected[number]) {
            collected[number] = 0;
            return number;
        }
    }
    return 0;
}

void process_sleep(double seconds) {
    struct timespec time;
    time.tv_sec = (time_t)seconds;
    time.tv_nsec = (long)(1e9 * (seconds - (double)time.tv_sec));
    pselect(0, NULL, NULL, NULL, &time, &mask_before);
}

void process_pause(double seconds) {
    struct timespec time;
    time.tv_sec = (time_t)seconds;
    time.tv_nsec = (long)(1e9 * (seconds - (double)time.tv_sec));
    nanosleep(&time, NULL);
}

void process_restore_signals(void) {
    sigprocmask(SIG_SETMASK, &mask_before, NULL);
}

/*
 * If a standard stream is closed, the next opened file would take its place, and messages could be written to a
 * checkpoint. Opens closed streams for the opposite direction, which makes using them fail.
 */
static void open_standard_streams(void) {
    static const int modes[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int i = 0; i < (int)COMMAND_COUNT(modes); i++) {
        if (fcntl(i, F_GETFD) < 0 && errno == EBADF && open("/dev/null", modes[i]) != i)
            _exit(COMMAND_IO);
    }
}

void process_begin(void) {
    open_standard_streams();
    signal(SIGPIPE, SIG_DFL);
    signal(SIGUSR1, SIG_IGN);
}

void process_attach_run(eitp_run *run) {
    attached_run = run;
    if (run && stop_signal)
        eitp_run_request_stop(run, stop_signal);
}

void process_ignore_file_limit(void) {
    signal(SIGXFSZ, SIG_IGN);
}

void process_cancel_on_stop(process_cancel what) {
    cancels = (sig_atomic_t)what;
}

int process_is_cancelled(process_cancel what) {
    return stop_signal && (cancels & (sig_atomic_t)what);
}

int process_stop_signal(void) {
    return stop_signal;
}

const char *process_stop_name(void) {
    for (size_t i = 0; i < COMMAND_COUNT(stop_signals); i++) {
        if (stop_signals[i].number == stop_signal)
            return stop_signals[i].name;
    }
    return "a signal";
}

/* ---- Memory and time ---- */

long process_processors(void) {
    const eitp_host host = command_host();
    eitp_processor_info info;
    eitp_error ignored;
    return eitp_processor_info_read(&host, &info, &ignored) ? 1 : info.usable;
}

int64_t process_data_workers(void) {
    const int64_t workers = process_processors() / 4;
    return workers < 1 ? 1 : workers > 16 ? 16 : workers;
}

size_t process_memory(void) {
    char content[128];
    unsigned long pages = 0;
    ssize_t size;
    char *path = files_of_system("/proc/self/statm");
    int file = open(path, O_RDONLY | O_CLOEXEC);
    free(path);
    if (file < 0)
        return 0;
    size = read(file, content, sizeof content - 1);
    close(file);
    content[size > 0 ? size : 0] = 0;
    /* The second number is the resident set. */
    return sscanf(content, "%*u %lu", &pages) == 1 ? (size_t)pages * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

/* Does not use getrusage, whose value starts with the parent's peak. */
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

void process_raise_oom_score(int score) {
    static const char path[] = "/proc/self/oom_score_adj";
    FILE *file = fopen(path, "r");
    int now = 0, is_known = file && fscanf(file, "%d", &now) == 1;
    if (file)
        fclose(file);
    file = is_known && score > now ? fopen(path, "w") : NULL;
    if (!file)
        return;
    fprintf(file, "%d", score);
    fclose(file);
}

void process_lower_priority(int niceness) {
    static int has_given;
    if (has_given || niceness <= 0)
        return;
    has_given = 1;
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + niceness);
}

void process_reset_peak_memory(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file)
        return;
    fputs("5", file); /* proc(5): resets the peak of the resident set */
    fclose(file);
}

static double read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double process_time(void) {
    return read_clock(CLOCK_MONOTONIC);
}

double process_seconds(void) {
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

double process_thread_seconds(void) {
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}
