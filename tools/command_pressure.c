#include "command_pressure.h"

#include "command_output.h"
#include "command_process.h"

/* Seconds between two looks; how many in a row find memory short before a run stops that cannot be made smaller. */
#define PRESSURE_SECONDS 1.0
#define PRESSURE_PATIENCE 3

static eitp_status record_pressure(run *r, const eitp_memory_info *info, int shrunk, eitp_error *error) {
    const eitp_step_shape shape = eitp_trainer_shape(r->trainer);
    text_buffer record = {NULL, 0, 0};
    eitp_status status;
    text_format(&record, "{");
    text_json_member_integer(&record, "step", eitp_trainer_steps_done(r->trainer));
    text_json_member_string(&record, "event", "memory_pressure");
    text_json_member_integer(&record, "left_bytes", (int64_t)info->left);
    text_json_member_integer(&record, "arena_bytes", (int64_t)eitp_context_arena_bytes(r->context));
    text_json_member_integer(&record, "batch_size", shape.batch_size);
    text_json_member_integer(&record, "grad_accum", shape.grad_accum);
    text_json_member_integer(&record, "merged", shape.merged);
    text_json_name(&record, "shrunk");
    text_format(&record, "%s}", shrunk ? "true" : "false");
    status = metrics_add(&r->metrics, &record, error);
    text_release(&record);
    return status;
}

static void warn_short(const eitp_memory_info *info, const char *what) {
    output_warning("memory is short: %s are left (%s), and %s should be; %s", output_bytes((double)info->left),
                   info->source, output_bytes((double)eitp_memory_floor(info)), what);
}

/* Makes the run smaller; *shrunk is 0 where it is not. */
static eitp_status relieve(pressure *p, run *r, const eitp_memory_info *info, int *shrunk, eitp_error *error) {
    eitp_shrink_report report;
    eitp_error second;
    eitp_status status;
    *shrunk = 0;
    if (p->is_smallest)
        return EITP_OK;
    warn_short(info, "a smaller way to run is looked for");
    status = eitp_trainer_shrink(r->trainer, &report, &second);
    *shrunk = !status && report.shrunk;
    if (status) {
        output_warning("the run could not be made smaller, and goes on as it was: %s", second.message);
    } else if (!*shrunk) {
        output_warning("there is no smaller way to run; it stops with a checkpoint if memory stays short");
        p->is_smallest = 1;
    }
    return record_pressure(r, info, *shrunk, error);
}

eitp_status pressure_look(pressure *p, run *r, eitp_error *error) {
    const eitp_host host = eitp_context_host(r->context);
    const double now = process_time();
    eitp_memory_info info;
    int shrunk = 0;
    eitp_status status;
    if (now - p->looked < PRESSURE_SECONDS)
        return EITP_OK;
    p->looked = now;
    status = eitp_memory_info_read(&host, &info, error);
    if (status)
        return status;
    if (!eitp_memory_is_short(&info)) {
        p->in_a_row = 0;
        return EITP_OK;
    }
    if (!options_integer(&r->options, OPTION_AUTO_SHRINK)) {
        if (p->warned)
            return EITP_OK;
        p->warned = 1;
        warn_short(&info, "the run goes on as it is, for lack of --auto-shrink");
        return record_pressure(r, &info, 0, error);
    }
    status = relieve(p, r, &info, &shrunk, error);
    p->in_a_row = shrunk ? 0 : p->in_a_row + 1;
    if (!status && p->in_a_row >= PRESSURE_PATIENCE)
        status =
            command_fail(error, EITP_ERROR_PRESSURE,
                         "memory stays short, with %s left (%s), and the run cannot be made smaller: stopped after "
                         "step %lld; go on with --resume auto when there is more",
                         output_bytes((double)info.left), info.source, (long long)eitp_trainer_steps_done(r->trainer));
    /* What was read a moment ago is not what there is after that much work. */
    p->looked = process_time();
    return status;
}
