#include "supervise/steps.h"

#include "files.h"
#include "process.h"

enum {
    TAIL = 1 << 16,   /* bytes at the end of metrics.jsonl that are read */
    MOST_STEPS = 100, /* for the median */
    LEAST_STALL_S = 300,
    STALL_STEPS = 20,
    STALL_PAUSES = 3,
    LATE_S = 5 /* a check this late means that this process did not run either */
};

int64_t steps_newest_checkpoint(const char *directory) {
    const eitp_host host = eitp_host_default();
    eitp_error ignored;
    int64_t newest = -1;
    return eitp_checkpoint_newest(&host, directory, &newest, &ignored) ? -1 : newest;
}

/* ---- Signs of life ---- */

static eitp_path_info info_of(const char *directory, const char *name) {
    char *path = files_join(directory, name);
    const eitp_path_info info = files_info(path);
    free(path);
    return info;
}

static int has_changed(const eitp_path_info *a, const eitp_path_info *b) {
    return a->kind != b->kind || a->size != b->size || a->modified != b->modified || a->identity != b->identity;
}

/* The total size of a directory's files. */
typedef struct total {
    const char *directory;
    int64_t bytes;
} total;

static int add_file(void *user, const char *name) {
    total *t = (total *)user;
    t->bytes += (int64_t)info_of(t->directory, name).size + 1;
    return 0;
}

static int add_partial(void *user, const char *name) {
    static const char suffix[] = ".partial";
    total *t = (total *)user, inside = {NULL, 0};
    const eitp_host host = eitp_host_default();
    const size_t size = strlen(name);
    char *path;
    if (strncmp(name, ".checkpoint-", 12) || size < sizeof suffix || strcmp(name + size + 1 - sizeof suffix, suffix))
        return 0;
    path = files_join(t->directory, name);
    inside.directory = path;
    host.files.list(host.files.user, path, add_file, &inside);
    t->bytes += inside.bytes;
    free(path);
    return 0;
}

static int64_t saving_bytes(const char *directory) {
    const eitp_host host = eitp_host_default();
    total found = {directory, 0};
    host.files.list(host.files.user, directory, add_partial, &found);
    return found.bytes;
}

/* ---- Records ---- */

static int compare_numbers(const void *a, const void *b) {
    const double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

/* Returns a number of a record, or -1 if it has no such name. Quotes in strings are escaped, so the name cannot occur
   in a string. */
static double number_of(const char *record, const char *name) {
    const char *at = strstr(record, name);
    return at ? strtod(at + strlen(name), NULL) : -1;
}

typedef struct recent_steps {
    double seconds[MOST_STEPS]; /* ring buffer */
    size_t count;
} recent_steps;

/* `member` is the event member with its value. */
static int is_event(const char *record, const char *member) {
    return strstr(record, member) != NULL;
}

/* A run that is too hot records an event without a duration when it pauses, and one with a duration when it
   continues. */
static int pauses_after(const char *record, int was_paused) {
    if (is_event(record, ", \"event\": \"temperature\""))
        return number_of(record, ", \"seconds\": ") < 0;
    return was_paused && number_of(record, ", \"step_time_s\": ") < 0;
}

static void read_record(steps_watch *w, const char *record, recent_steps *recent) {
    const double step = number_of(record, "{\"step\": "), taken = number_of(record, ", \"step_time_s\": ");
    const double evaluated = fmax(number_of(record, ", \"val_time_s\": "), number_of(record, ", \"spot/time_s\": "));
    const double saved = is_event(record, ", \"event\": \"saved\"") ? number_of(record, ", \"seconds\": ") : -1;
    w->is_paused = pauses_after(record, w->is_paused);
    if (!(step >= 0 && step < 9e18))
        return;
    w->step = (int64_t)step;
    if (taken >= 0)
        recent->seconds[recent->count++ % MOST_STEPS] = taken;
    if (taken >= 0 && w->step > w->checkpoint)
        w->has_stepped = 1;
    if (evaluated > w->longest_s)
        w->longest_s = evaluated;
    if (saved > w->longest_s)
        w->longest_s = saved;
}

/* Reads complete lines; the first may be cut. */
static void read_records(steps_watch *w, char *text, int is_cut) {
    recent_steps recent;
    char *line = is_cut ? strchr(text, '\n') : text, *end;
    recent.count = 0;
    if (line && is_cut)
        line++;
    for (; line && (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = 0;
        read_record(w, line, &recent);
    }
    if (recent.count) {
        const size_t count = recent.count < MOST_STEPS ? recent.count : MOST_STEPS;
        qsort(recent.seconds, count, sizeof *recent.seconds, compare_numbers);
        w->median_s = recent.seconds[count / 2];
    }
}

static void look_at_records(steps_watch *w) {
    const eitp_host host = eitp_host_default();
    const uint64_t from = w->now.size > TAIL ? w->now.size - TAIL : 0;
    char *path = files_join(w->directory, "metrics.jsonl"), *text = (char *)command_allocate(TAIL + 1);
    void *file;
    size_t done = 0;
    if (!host.files.open(host.files.user, path, EITP_FILE_READ, &file)) {
        if (host.files.read(host.files.user, file, from, text, TAIL, &done))
            done = 0;
        host.files.close(host.files.user, file);
    }
    text[done] = 0;
    read_records(w, text, from > 0);
    free(text);
    free(path);
}

/* ---- The watch ---- */

void steps_begin(steps_watch *w, const char *directory, int64_t output) {
    const double longest = w->longest_s;
    memset(w, 0, sizeof *w);
    w->directory = directory;
    w->longest_s = longest;
    w->step = -1;
    w->checkpoint = steps_newest_checkpoint(directory);
    w->began = w->now = info_of(directory, "metrics.jsonl");
    w->saving = saving_bytes(directory);
    w->output = output;
    w->alive_at = w->checked_at = process_time();
}

void steps_poll(steps_watch *w, int64_t output) {
    const double now = process_time();
    const eitp_path_info records = info_of(w->directory, "metrics.jsonl");
    const int64_t saving = saving_bytes(w->directory);
    const int has_recorded = has_changed(&records, &w->began);
    int lives = now - w->checked_at > LATE_S;
    if (has_changed(&records, &w->now)) {
        lives = 1;
        w->now = records;
        w->step = -1;
        look_at_records(w);
    }
    lives |= saving != w->saving || (!has_recorded && output != w->output);
    w->saving = saving;
    w->output = output;
    w->checked_at = now;
    if (lives)
        w->alive_at = now;
}

double steps_stall_timeout(const steps_watch *w, double given) {
    double seconds = LEAST_STALL_S;
    if (given >= 0)
        return given;
    if (!w->has_stepped || w->is_paused)
        return 0;
    if (seconds < STALL_STEPS * w->median_s)
        seconds = STALL_STEPS * w->median_s;
    return seconds < STALL_PAUSES * w->longest_s ? STALL_PAUSES * w->longest_s : seconds;
}
