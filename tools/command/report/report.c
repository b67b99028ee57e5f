/* eitp report */
#include "options/options.h"
#include "output.h"
#include "report/bottleneck.h"
#include "report/comparison.h"
#include "report/slowdown.h"

static void print_run(const option_set *o, const recorded_run *r, text_buffer *t) {
    const int is_json = (int)options_integer(o, OPTION_JSON);
    if (options_integer(o, OPTION_BOTTLENECK)) {
        bottleneck b;
        bottleneck_make(r, &b);
        (is_json ? bottleneck_print_json : bottleneck_print)(&b, t);
    } else if (options_integer(o, OPTION_TREND)) {
        slowdown s;
        slowdown_make(r, &s);
        (is_json ? slowdown_print_json : slowdown_print)(&s, t);
    } else {
        text_format(t, "%s: %s, step %lld/%lld\n", r->name, recorded_state(r), (long long)r->step,
                    (long long)r->last_step);
    }
    if (is_json)
        text_format(t, "\n");
}

static eitp_status print_runs(const option_set *o, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (!o->positional_count)
        return command_fail(error, EITP_ERROR_ARGUMENT, "eitp report needs the directory of a run");
    for (size_t i = 0; i < o->positional_count && !status; i++) {
        recorded_run r;
        text_buffer t;
        memset(&t, 0, sizeof t);
        status = recorded_run_open(o->positional[i], &r, error);
        if (!status) {
            print_run(o, &r, &t);
            output_result(t.data, t.size);
        }
        text_release(&t);
        recorded_run_close(&r);
    }
    return status;
}

/* The runs of --compare, after those that stand before it. */
static eitp_status compare_runs(const option_set *o, eitp_error *error) {
    const option_value *list = &o->values[OPTION_COMPARE];
    const size_t before = o->positional_count, count = before + list->count;
    recorded_run *runs;
    size_t opened = 0;
    eitp_status status = EITP_OK;
    if (count < 2)
        return command_fail(error, EITP_ERROR_ARGUMENT, "--compare needs the directories of two runs or more (got %zu)",
                            count);
    runs = (recorded_run *)command_allocate(count * sizeof *runs);
    while (opened < count && !status) {
        const char *directory = opened < before ? o->positional[opened] : list->texts[opened - before];
        status = recorded_run_open(directory, &runs[opened++], error);
    }
    if (!status) {
        comparison c;
        text_buffer t;
        memset(&t, 0, sizeof t);
        comparison_make(runs, count, &c);
        (options_integer(o, OPTION_JSON) ? comparison_print_json : comparison_print)(&c, &t);
        if (options_integer(o, OPTION_JSON))
            text_format(&t, "\n");
        output_result(t.data, t.size);
        text_release(&t);
        comparison_release(&c);
    }
    while (opened > 0)
        recorded_run_close(&runs[--opened]);
    free(runs);
    return status;
}

int command_report(int count, char **arguments) {
    option_set o;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status = options_read(&o, "report", OPTIONS_REPORT, count, arguments, &ended, &error);
    if (!status && !ended)
        status = options_has(&o, OPTION_COMPARE) ? compare_runs(&o, &error) : print_runs(&o, &error);
    if (status)
        code = output_fail(&error);
    options_release(&o);
    return code;
}
