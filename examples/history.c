/*
 * Demonstrates reading the records of a run, during or after training: its state, loss and evaluations. Compile and run
 * with the output directory of a run:
 *     cc -O2 -I. examples/history.c -lm -o history && ./history out
 */
#define EITP_IMPLEMENTATION
#include "eitp.h"

#include <stdio.h>
#include <string.h>

static eitp_history_point points[EITP_HISTORY_POINTS];

static void print_process(const eitp_run_process *process) {
    if (process->state == EITP_RUN_PROCESS_ALIVE)
        printf("process %lld is %s\n", (long long)process->pid, process->recorded);
    else if (process->state == EITP_RUN_PROCESS_ENDED)
        printf("the run has ended: %s %s\n", process->recorded, process->message);
    else
        printf("no process is training here\n");
}

/* Prints about ten points of the curve, each the mean of its steps. */
static void print_loss(const eitp_history *history) {
    const size_t count = eitp_history_points(history, "loss", points, EITP_HISTORY_POINTS);
    for (size_t i = 0; i < count; i += count / 10 + 1)
        printf("step %lld: loss %.3f\n", (long long)points[i].step, (double)points[i].mean);
    printf("step %lld: loss %.3f\n", (long long)eitp_history_step(history), eitp_history_last(history, "loss"));
}

/* Prints the evaluations. Evaluations and events are JSON, one per line. */
static void print_evaluations(const eitp_history *history) {
    const eitp_host host = eitp_host_default();
    size_t size, length;
    const char *line = eitp_history_lines(history, &size, NULL), *end = line + size;
    for (; line < end; line += length + 1) {
        eitp_json_document *document = NULL;
        const eitp_json *loss;
        length = (size_t)((const char *)memchr(line, '\n', (size_t)(end - line)) - line);
        if (eitp_json_parse(&host, line, length, &document, NULL))
            continue;
        loss = eitp_json_member(eitp_json_root(document), "val_loss");
        if (loss)
            printf("validation after step %s: loss %.3f\n", eitp_json_member(eitp_json_root(document), "step")->text,
                   loss->number);
        eitp_json_release(document);
    }
}

int main(int count, char **arguments) {
    const eitp_host host = eitp_host_default();
    const char *directory = count > 1 ? arguments[1] : "out";
    eitp_history *history = NULL;
    eitp_run_process process;
    eitp_error error;
    if (eitp_run_process_read(&host, directory, &process, &error) ||
        eitp_history_open(&host, directory, &history, &error))
        return fprintf(stderr, "%s\n", error.message), 1;
    print_process(&process);
    print_loss(history);
    print_evaluations(history); /* eitp_history_update reads the records added since */
    eitp_history_close(history);
    return 0;
}
