/* The observer of the GPU: what it has allocated, and what its sensors show, as a line and as a record. */
#include "run/run_gpu.h"

#include "run/events.h"
#include "run/records.h"
#include "train/trainer.h"

/* Steps between two looks at the memory without reports. */
enum { EITP__GPU_LOOK_STEPS = 50 };

/* Percent that the use of memory falls below the limit before a warning is repeated. */
enum { EITP__GPU_CALMER = 5 };

typedef struct eitp__run_gpu {
    eitp__gpu_meter meter;
    int is_used;   /* the run computes on a GPU */
    int is_full;   /* gpu_mem_warn was exceeded, and that was said */
    double energy; /* of the last report; NaN: unknown */
    int64_t step;  /* of the last report */
} eitp__run_gpu;

/* What is reported. Numbers that are unknown are NaN. */
typedef struct eitp__gpu_report {
    eitp_gpu gpu;
    double allocated; /* bytes that the context has: variables, arena and workspace */
    double reserved;  /* bytes that the process has on the device, with the driver's own */
    double energy;    /* joules since the last report */
    int64_t steps;    /* since then */
} eitp__gpu_report;

static const double eitp__gibibyte = 1073741824;

EITP__PRIVATE int eitp__run_open_gpu(const eitp_run *run, eitp__gpu_meter *meter) {
    const eitp_context *context = eitp__trainer_task(run->trainer)->context;
    memset(meter, 0, sizeof *meter);
    if (strcmp(context->backend->interface->name, "cuda") != 0)
        return 0;
    eitp__gpu_meter_open(meter, eitp_context_description(context));
    return 1;
}

/* ---- Reading ---- */

/* A process in a container may have the number of another one outside, which the driver's library means: what is less
   than the context has is not this process's. */
static void eitp__gpu_report_read(const eitp_run *run, eitp__run_gpu *state, eitp__gpu_report *report) {
    eitp_device_memory memory;
    eitp__gpu_meter_read(&state->meter, 0, &report->gpu);
    (void)eitp_context_device_memory(eitp__trainer_task(run->trainer)->context, &memory, NULL); /* may lack `free` */
    report->allocated = (double)memory.allocated;
    report->reserved = report->gpu.process_memory >= report->allocated ? report->gpu.process_memory : (double)NAN;
    report->energy = report->gpu.energy >= state->energy ? report->gpu.energy - state->energy : (double)NAN;
    report->steps = run->report.step.step - state->step;
    state->energy = report->gpu.energy;
    state->step = run->report.step.step;
}

/* ---- Reporting ---- */

static void eitp__add_known(eitp__values *list, const char *name, double number) {
    if (!isnan(number))
        eitp__add_number(list, name, number);
}

static void eitp__record_gpu(eitp_run *run, const eitp__gpu_report *report) {
    const eitp_gpu *gpu = &report->gpu;
    eitp__values *list = eitp__record_begin(run);
    eitp__add_known(list, "gpu/allocated_gib", report->allocated / eitp__gibibyte);
    eitp__add_known(list, "gpu/reserved_gib", report->reserved / eitp__gibibyte);
    eitp__add_known(list, "gpu/memory_used_gib", gpu->memory_used / eitp__gibibyte);
    eitp__add_known(list, "gpu/memory_gib", gpu->memory_total / eitp__gibibyte);
    eitp__add_known(list, "gpu/utilization", gpu->utilization);
    eitp__add_known(list, "gpu/memory_utilization", gpu->memory_utilization);
    eitp__add_known(list, "gpu/celsius", gpu->temperature);
    eitp__add_known(list, "gpu/power_w", gpu->power);
    eitp__add_known(list, "gpu/energy_j", report->energy);
    if (report->steps > 0)
        eitp__add_known(list, "gpu/step_energy_j", report->energy / (double)report->steps);
    eitp__add_known(list, "gpu/frequency_mhz", 1e-6 * gpu->clock);
    if (gpu->slowed_by && *gpu->slowed_by)
        eitp__add_text(list, "gpu/slowed_by", gpu->slowed_by);
    eitp__record(run, EITP_RECORD_PERFORMANCE, run->report.step.step);
}

/* Appends to a text of `size` bytes, unless the number is unknown. */
static void eitp__describe_known(char *text, size_t size, const char *before, const char *format, double number) {
    const size_t used = strlen(text);
    if (isnan(number))
        return;
    snprintf(text + used, size - used, "%s", before);
    snprintf(text + strlen(text), size - strlen(text), format, number);
}

/* "GPU memory: 0.45 GiB allocated, 0.68 GiB reserved; 63 C, 214 W" */
static void eitp__notify_gpu(eitp_run *run, const eitp__gpu_report *report) {
    const eitp_gpu *gpu = &report->gpu;
    char text[200] = "GPU memory: ";
    eitp__describe_known(text, sizeof text, "", "%.2f GiB allocated", report->allocated / eitp__gibibyte);
    eitp__describe_known(text, sizeof text, ", ", "%.2f GiB reserved", report->reserved / eitp__gibibyte);
    eitp__describe_known(text, sizeof text, "; ", "%.0f C", gpu->temperature);
    eitp__describe_known(text, sizeof text, isnan(gpu->temperature) ? "; " : ", ", "%.0f W", gpu->power);
    eitp__run_notify(run, EITP_EVENT_GPU, EITP_LOG_INFO, 0, "%s%s%s", text,
                     gpu->slowed_by && *gpu->slowed_by ? "; slowed down by " : "",
                     gpu->slowed_by ? gpu->slowed_by : "");
}

/* Warns once when the memory is used up to the limit. */
static void eitp__watch_gpu_memory(eitp_run *run, eitp__run_gpu *state, const eitp_gpu *gpu) {
    const double limit = run->config.gpu_mem_warn, percent = 100 * gpu->memory_used / gpu->memory_total;
    eitp_value value;
    char message[200];
    if (!(limit > 0 && limit < 100) || !(percent >= 0))
        return;
    if (percent >= limit && !state->is_full) {
        state->is_full = 1;
        snprintf(message, sizeof message,
                 "%.0f %% of the GPU's memory is used, the limit is %.0f %%; the run has its memory already, but "
                 "another program may end it",
                 percent, limit);
        memset(&value, 0, sizeof value);
        value.name = "gpu_memory_percent";
        value.number = percent;
        eitp__run_notify_values(run, EITP_EVENT_WARNING, EITP_LOG_WARNING, 0, message, &value, 1);
    }
    state->is_full &= percent > limit - (double)EITP__GPU_CALMER;
}

/* ---- The observer ---- */

static eitp_status eitp__gpu_begin(eitp_run *run, void *user, eitp_error *error) {
    eitp__run_gpu *state = (eitp__run_gpu *)user;
    eitp_gpu gpu;
    (void)error;
    state->is_used = eitp__run_open_gpu(run, &state->meter);
    eitp__gpu_meter_read(&state->meter, 0, &gpu);
    state->energy = gpu.energy;
    state->step = run->report.start_step;
    return EITP_OK;
}

static void eitp__gpu_after_step(eitp_run *run, void *user, eitp__decision *decision) {
    eitp__run_gpu *state = (eitp__run_gpu *)user;
    const int64_t every = run->config.gpu_report_every;
    eitp__gpu_report report;
    (void)decision;
    if (!state->is_used || run->report.step.step % (every > 0 ? every : (int64_t)EITP__GPU_LOOK_STEPS) != 0)
        return;
    eitp__gpu_report_read(run, state, &report);
    eitp__watch_gpu_memory(run, state, &report.gpu);
    if (every <= 0)
        return;
    if (run->config.monitor != EITP_MONITOR_OFF)
        eitp__record_gpu(run, &report);
    eitp__notify_gpu(run, &report);
}

static void eitp__gpu_end(eitp_run *run, void *user) {
    (void)run;
    eitp__gpu_meter_close(&((eitp__run_gpu *)user)->meter);
}

EITP__PRIVATE void eitp__gpu_observer(eitp__observer *observer) {
    observer->state_size = sizeof(eitp__run_gpu);
    observer->part = EITP_RUN_PART_RECORDS;
    observer->begin = eitp__gpu_begin;
    observer->after_step = eitp__gpu_after_step;
    observer->end = eitp__gpu_end;
}
