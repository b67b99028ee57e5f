#include "data/opening.h"

#include "output.h"
#include "process.h"

/* Shows the amount of data read, and the result so far. */
static void show_reading(opening *o, const eitp_training_progress *progress) {
    const double now = process_time();
    char line[200], count[60] = "";
    if (now - o->shown < 0.2)
        return;
    o->shown = now;
    o->stage[0] = 0;
    /* If packing takes long, the command counts as started: a later error is not a refusal. */
    if (now - o->started > 2)
        output_start();
    if (progress->unit)
        snprintf(count, sizeof count, ", %llu %s", (unsigned long long)progress->count, progress->unit);
    snprintf(line, sizeof line, "%.60s: %.1f%% of %s%s", progress->stage,
             progress->all_bytes ? 100.0 * (double)progress->bytes / (double)progress->all_bytes : 100,
             output_bytes((double)progress->all_bytes), count);
    output_progress(line);
}

int opening_show(void *user, const eitp_training_progress *progress) {
    opening *o = (opening *)user;
    const int is_reading = progress->unit || progress->all_bytes;
    char line[200];
    o->reads_data = is_reading || !strcmp(progress->stage, "reading the data");
    if (is_reading) {
        show_reading(o, progress);
    } else {
        const int reads = o->data && o->reads_data;
        snprintf(line, sizeof line, "%s%.120s%s ...", reads ? "reading '" : progress->stage, reads ? o->data : "",
                 reads ? "'" : "");
        if (strcmp(line, o->stage)) /* the stage may have shown a line about its progress */
            output_progress(line);
        memcpy(o->stage, line, sizeof line);
        o->started = process_time();
    }
    return process_stop_signal();
}
