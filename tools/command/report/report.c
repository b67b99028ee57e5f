/* eitp report */
#include "options/options.h"
#include "output.h"
#include "report/bottleneck.h"
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

int command_report(int count, char **arguments) {
    option_set o;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status = options_read(&o, "report", OPTIONS_REPORT, count, arguments, &ended, &error);
    if (!status && !ended)
        status = print_runs(&o, &error);
    if (status)
        code = output_fail(&error);
    options_release(&o);
    return code;
}
