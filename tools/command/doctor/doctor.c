/* eitp doctor */
#include "options/options.h"
#include "output.h"
#include "records/recorded_run.h"

static eitp_status print_runs(const option_set *o, eitp_error *error) {
    eitp_status status = EITP_OK;
    if (!o->positional_count)
        return command_fail(error, EITP_ERROR_ARGUMENT, "eitp doctor needs the directory of a run");
    for (size_t i = 0; i < o->positional_count && !status; i++) {
        recorded_run r;
        char *line;
        status = recorded_run_open(o->positional[i], &r, error);
        if (!status) {
            line = command_format("%s: %s, step %lld/%lld\n", r.name, recorded_state(&r), (long long)r.step,
                                  (long long)r.last_step);
            output_result(line, strlen(line));
            free(line);
        }
        recorded_run_close(&r);
    }
    return status;
}

int command_doctor(int count, char **arguments) {
    option_set o;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status = options_read(&o, "doctor", OPTIONS_DOCTOR, count, arguments, &ended, &error);
    if (!status && !ended)
        status = print_runs(&o, &error);
    if (status)
        code = output_fail(&error);
    options_release(&o);
    return code;
}
