#include "monitor/facts.h"

#include "files.h"
#include "monitor/end.h"
#include "output.h"
#include "records/log_files.h"

#include <stdarg.h>

/* ---- Adding ---- */

static void add(facts *f, const char *key, const char *label, double number, const char *format, ...)
    COMMAND_PRINTF(5, 6);
static void add(facts *f, const char *key, const char *label, double number, const char *format, ...) {
    va_list arguments;
    char text[1500];
    fact *added;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    f->items = (fact *)command_resize(f->items, (f->count + 1) * sizeof *f->items);
    added = &f->items[f->count++];
    added->key = key;
    added->label = label;
    added->number = number;
    added->text = command_copy(text);
    added->is_warning = 0;
}

/* Adds a number with its unit, if it is known. */
static void add_number(facts *f, const char *key, const char *label, double number, const char *format,
                       const char *unit) {
    char text[64];
    if (!isfinite(number))
        return;
    snprintf(text, sizeof text, format, number);
    add(f, key, label, number, "%s%s", text, unit);
}

static void add_bytes(facts *f, const char *key, const char *label, double bytes, const char *what) {
    if (bytes > 0)
        add(f, key, label, bytes, "%s%s", output_bytes(bytes), what);
}

/* Adds a number only for JSON. */
static void add_hidden(facts *f, const char *key, double number) {
    if (isfinite(number))
        add(f, key, NULL, number, "%s", "");
}

/* Adds a warning about the newest fact. */
static void warn(facts *f, const char *format, ...) COMMAND_PRINTF(2, 3);
static void warn(facts *f, const char *format, ...) {
    va_list arguments;
    char text[300];
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    f->items[f->count - 1].is_warning = 1;
    text_format(&f->warnings, "%s\n", text);
}

const char *facts_duration(double seconds, char *text, size_t size) {
    static const struct {
        double seconds;
        const char *name;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    size_t i = 0;
    double whole, rest;
    if (!(seconds < 1e10)) {
        snprintf(text, size, "%s", isfinite(seconds) ? "centuries" : "unknown");
        return text;
    }
    while (i < 3 && seconds < units[i].seconds)
        i++;
    whole = floor((seconds > 0 ? seconds : 0) / units[i].seconds);
    rest = i < 2 ? floor((seconds - whole * units[i].seconds) / units[i + 1].seconds) : 0;
    if (rest > 0)
        snprintf(text, size, "%.0f %s %.0f %s", whole, units[i].name, rest, units[i + 1].name);
    else
        snprintf(text, size, "%.0f %s", whole, units[i].name);
    return text;
}

/* ---- The facts ---- */

static void add_state(facts *f, const recorded_run *r) {
    text_buffer end = {NULL, 0, 0};
    add(f, "name", "run", NAN, "%s", r->name);
    add(f, "directory", "directory", NAN, "%s", r->directory);
    add(f, "state", "state", NAN, "%s", end_state(r));
    if (r->process.pid > 0)
        add(f, "pid", "process", (double)r->process.pid, "%lld", (long long)r->process.pid);
    if (end_describe(r, &end))
        add(f, "reason", "reason", NAN, "%s", end.data);
    text_release(&end);
    if (end_next(r, &end))
        add(f, "continue", "continue with", NAN, "%s", end.data);
    text_release(&end);
}

static void add_progress(facts *f, const recorded_run *r) {
    const recorded_pace pace = recorded_run_pace(r);
    char middle[40], low[40], high[40];
    if (r->last_step >= 0)
        add(f, "step", "step", (double)r->step, "%lld/%lld", (long long)r->step, (long long)r->last_step);
    else
        add(f, "step", "step", (double)r->step, "%lld", (long long)r->step);
    if (r->last_step >= 0)
        add_hidden(f, "steps", (double)r->last_step);
    if (r->process.state == EITP_RUN_PROCESS_ALIVE && isfinite(pace.left)) {
        add(f, "left_s", "time left", pace.left, "%s (%s to %s)", facts_duration(pace.left, middle, sizeof middle),
            facts_duration(pace.left_low, low, sizeof low), facts_duration(pace.left_high, high, sizeof high));
        add_hidden(f, "left_low_s", pace.left_low);
        add_hidden(f, "left_high_s", pace.left_high);
    }
}

static void add_evaluation(facts *f, const char *key, const char *step_key, const char *label,
                           const recorded_evaluation *evaluation) {
    if (!evaluation || !isfinite(evaluation->loss))
        return;
    add(f, key, label, evaluation->loss, "%.4f at step %lld", evaluation->loss, (long long)evaluation->step);
    add_hidden(f, step_key, (double)evaluation->step);
}

static void add_rate(facts *f, const recorded_run *r) {
    static const char *const names[][3] = {{"tokens", "tokens_per_s", "tokens/s"},
                                           {"words", "words_per_s", "words/s"},
                                           {"samples", "samples_per_s", "samples/s"},
                                           {"texts", "texts_per_s", "texts/s"},
                                           {"masked_tokens", "masked_tokens_per_s", "masked/s"}};
    const char *unit = recorded_unit(r);
    for (size_t i = 0; i < COMMAND_COUNT(names); i++) {
        if (!strcmp(unit, names[i][0]))
            add_number(f, names[i][1], names[i][2], recorded_last(r, names[i][1]), "%.0f", "");
    }
}

static void add_training(facts *f, const recorded_run *r) {
    const recorded_pace pace = recorded_run_pace(r);
    add_number(f, "loss", "loss", recorded_last(r, "loss"), "%.4f", "");
    add_evaluation(f, "validation_loss", "validation_step", "validation", recorded_last_evaluation(r));
    add_evaluation(f, "best_validation_loss", "best_validation_step", "best", recorded_best_evaluation(r));
    add_number(f, "lr", "learning rate", recorded_last(r, "lr"), "%.3g", "");
    add_number(f, "grad_norm", "gradient norm", recorded_last(r, "grad_norm"), "%.3g", "");
    add_rate(f, r);
    add_number(f, "step_time_s", "step time", pace.step, "%.3g", " s");
    add_number(f, "mfu", "mfu", recorded_last(r, "perf/mfu"), "%.1f", " %");
}

/* Returns the planned bytes of the whole process, or the sum of the known parts. */
static double planned_bytes(const recorded_run *r) {
    static const char *const parts[] = {"plan.parameter_bytes", "plan.gradient_bytes", "plan.optimizer_bytes",
                                        "plan.arena_bytes", "plan.checkpoint_copy_bytes"};
    const double all = recorded_number(r->run, "memory.planned_bytes");
    double sum = 0;
    for (size_t i = 0; i < COMMAND_COUNT(parts); i++) {
        const double bytes = recorded_number(r->run, parts[i]);
        sum += isfinite(bytes) ? bytes : 0;
    }
    return isfinite(all) ? all : sum;
}

/* Returns the memory that the run may use: its budget, or the memory that the machine had available. */
static double limit_bytes(const recorded_run *r) {
    const double budget = recorded_number(r->run, "memory.budget_bytes");
    return budget > 0 ? budget : recorded_number(r->run, "machine.usable_bytes");
}

static void add_memory(facts *f, const recorded_run *r, const machine *m, int is_here) {
    const int lives = r->process.state == EITP_RUN_PROCESS_ALIVE;
    const double resident = lives ? machine_resident(r->process.pid) : (double)NAN;
    if (isfinite(resident))
        add_bytes(f, "resident_bytes", "memory", resident, "");
    else
        add_bytes(f, "resident_bytes", "memory", recorded_last(r, "rss_bytes"), lives ? "" : " (last)");
    add_bytes(f, "planned_bytes", "planned", planned_bytes(r), "");
    add_bytes(f, "limit_bytes", "limit", limit_bytes(r), "");
    if (is_here)
        add_bytes(f, "left_bytes", "memory left", (double)m->memory.left, "");
    else
        add_bytes(f, "left_bytes", "memory left", recorded_last(r, "mem/left_bytes"), " (last)");
}

/* Returns the GPU state that the run recorded last. */
static eitp_gpu recorded_gpu(const recorded_run *r) {
    const double gibibyte = 1073741824;
    eitp_gpu gpu;
    memset(&gpu, 0, sizeof gpu);
    gpu.process_memory = gibibyte * recorded_last(r, "gpu/reserved_gib");
    gpu.memory_used = gibibyte * recorded_last(r, "gpu/memory_used_gib");
    gpu.memory_total = gibibyte * recorded_last(r, "gpu/memory_gib");
    gpu.utilization = recorded_last(r, "gpu/utilization");
    gpu.temperature = recorded_last(r, "gpu/celsius");
    gpu.slowdown_temperature = (double)NAN;
    gpu.power = recorded_last(r, "gpu/power_w");
    return gpu;
}

/* Adds the GPU's current state, or the last recorded one. */
static void add_gpu(facts *f, const recorded_run *r) {
    eitp_gpu gpu;
    const int is_read = machine_read_gpu(r, &gpu);
    const char *what = is_read ? "" : " (last)";
    char unit[20], all[40] = "";
    if (!is_read)
        gpu = recorded_gpu(r);
    snprintf(unit, sizeof unit, " %%%s", what);
    add_number(f, "gpu_percent", "GPU use", gpu.utilization, "%.0f", unit);
    add_bytes(f, "gpu_process_bytes", "GPU memory", gpu.process_memory, what);
    if (gpu.memory_total > 0)
        snprintf(all, sizeof all, " of %s%s", output_bytes(gpu.memory_total), what);
    add_bytes(f, "gpu_used_bytes", "GPU memory used", gpu.memory_used, *all ? all : what);
    add_hidden(f, "gpu_bytes", gpu.memory_total);
    snprintf(unit, sizeof unit, " C%s", what);
    add_number(f, "gpu_temperature_celsius", "GPU temperature", gpu.temperature, "%.0f", unit);
    if (gpu.temperature >= gpu.slowdown_temperature - 5)
        warn(f, "the GPU is at %.0f C and slows down at %.0f C", gpu.temperature, gpu.slowdown_temperature);
    snprintf(unit, sizeof unit, " W%s", what);
    add_number(f, "gpu_power_watts", "GPU power", gpu.power, "%.0f", unit);
}

static void add_machine(facts *f, const recorded_run *r, const machine *m, const facts_limits *limits) {
    add_number(f, "memory_used_percent", "memory used", m->memory_percent, "%.0f", " %");
    if (limits->memory > 0 && m->memory_percent > limits->memory)
        warn(f, "memory use of the machine is %.0f %% (warning above %g %%)", m->memory_percent, limits->memory);
    add_number(f, "memory_pressure_percent", "pressure", m->pressure, "%.1f", " %");
    if (isfinite(m->load))
        add(f, "load", "load", m->load, "%.2f of %d", m->load, m->processors);
    add_number(f, "processor_percent", "processors", m->processor_percent, "%.0f", " %");
    if (limits->processor > 0 && m->processor_percent > limits->processor)
        warn(f, "processor use is %.0f %% (warning above %g %%)", m->processor_percent, limits->processor);
    add_number(f, "temperature_celsius", "temperature", m->temperature, "%.0f", " C");
    if (m->temperature >= m->temperature_limit - 5)
        warn(f, "the processor is at %.0f C; its critical temperature is %.0f C", m->temperature, m->temperature_limit);
    add_number(f, "power_watts", "power", m->power, "%.0f", " W");
    add_bytes(f, "disk_free_bytes", "disk free", machine_disk(r->directory), "");
}

static void add_safety(facts *f, const recorded_run *r, const machine *m) {
    const recorded_checkpoint *saved = recorded_last_checkpoint(r);
    const double unsaved = recorded_unsaved_seconds(r);
    char text[40];
    if (saved) {
        add(f, "checkpoint", "checkpoint", NAN, "checkpoint-%lld, %s ago", (long long)saved->step,
            facts_duration(m->time - saved->time, text, sizeof text));
        add_hidden(f, "checkpoint_step", (double)saved->step);
        add_hidden(f, "checkpoint_time", saved->time);
    } else {
        add(f, "checkpoint", "checkpoint", NAN, "none yet");
    }
    add_bytes(f, "directory_bytes", "files", log_files_size(r->directory), "");
    if (r->process.state == EITP_RUN_PROCESS_ALIVE && isfinite(unsaved))
        add(f, "unsaved_s", "a crash now would cost", unsaved, "%s", facts_duration(unsaved, text, sizeof text));
}

/* Adds missing files, except the summary of a run that has just started, which is written later. */
static void add_missing(facts *f, const recorded_run *r) {
    static const char later[] = "summary.jsonl is missing";
    const char *line = r->missing.data;
    while (line && *line) {
        const size_t size = strcspn(line, "\n") + 1;
        if (r->process.state != EITP_RUN_PROCESS_ALIVE || strncmp(line, later, sizeof later - 1))
            text_add(&f->missing, line, size);
        line += size;
    }
}

void facts_collect(facts *f, const recorded_run *r, const machine *m, const facts_limits *limits) {
    const int is_here = !recorded_has_started(r) || machine_has(m, r);
    memset(f, 0, sizeof *f);
    add_state(f, r);
    if (recorded_has_started(r)) {
        add_progress(f, r);
        add_training(f, r);
        add_memory(f, r, m, is_here);
        add_gpu(f, r);
    }
    if (is_here)
        add_machine(f, r, m, limits);
    if (recorded_has_started(r))
        add_safety(f, r, m);
    if (recorded_has_started(r))
        add_missing(f, r);
}

void facts_release(facts *f) {
    for (size_t i = 0; i < f->count; i++)
        free(f->items[i].text);
    free(f->items);
    text_release(&f->warnings);
    text_release(&f->missing);
    memset(f, 0, sizeof *f);
}

/* ---- Lookup ---- */

const fact *facts_find(const facts *f, const char *key) {
    for (size_t i = 0; i < f->count; i++) {
        if (!strcmp(f->items[i].key, key))
            return &f->items[i];
    }
    return NULL;
}

const char *facts_text(const facts *f, const char *key) {
    const fact *found = facts_find(f, key);
    return found ? found->text : "-";
}

double facts_number(const facts *f, const char *key) {
    const fact *found = facts_find(f, key);
    return found ? found->number : (double)NAN;
}
