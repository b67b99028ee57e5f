#include "data/opening.h"

#include "output.h"
#include "process.h"

static void show_packing(opening *o, const eitp_training_progress *progress) {
    const double now = process_time();
    char line[200];
    if (now - o->shown < 0.2 || !progress->count)
        return;
    o->shown = now;
    /* Packing may take long: the command has started, and a later error is not a refusal. */
    if (now - o->started > 2)
        output_start();
    snprintf(line, sizeof line, "packing: %.1f%% of %s, %llu %s",
             progress->all_bytes ? 100.0 * (double)progress->bytes / (double)progress->all_bytes : 100,
             output_bytes((double)progress->all_bytes), (unsigned long long)progress->count, progress->unit);
    output_progress(line);
}

int opening_show(void *user, const eitp_training_progress *progress) {
    opening *o = (opening *)user;
    char line[200];
    o->reads_data = progress->unit || !strcmp(progress->stage, "reading the data");
    if (progress->unit) {
        show_packing(o, progress);
    } else {
        const int reads = o->data && o->reads_data;
        snprintf(line, sizeof line, "%s%.120s%s ...", reads ? "reading '" : progress->stage, reads ? o->data : "",
                 reads ? "'" : "");
        output_progress(line);
        o->started = process_time();
    }
    return process_stop_signal();
}
