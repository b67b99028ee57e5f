/* eitp check-system: the machine's resources, the models that fit in its memory, and a command to run. */
#include "output.h"
#include "plan/system.h"
#include "process.h"

#define NEVER_RUN "eitp's CUDA backend was never run on a GPU"
#define NOT_CHOSEN NEVER_RUN ", so eitp computes on the processor unless --device cuda is given"

static int is_on_gpu(const system_report *r) {
    return !strncmp(r->device, "cuda:", 5);
}

/* Says whether the memory of a GPU counts for the tier. */
static const char *gpu_rule(const system_report *r) {
    if (!is_on_gpu(r))
        return NOT_CHOSEN "; GPU memory does not count";
    return r->gpu && r->gpu->free >= 0 ? NEVER_RUN
                                       : NEVER_RUN "; its memory does not count because its free memory is unknown";
}

/* ---- In words ---- */

static void add_processor(text_buffer *t, const system_report *r) {
    const eitp_processor_info *p = &r->processors;
    const char *forced = getenv("EITP_ISA");
    text_format(t, "processor    %s, %d online, %d usable", r->processor, p->online, p->usable);
    if (p->allowed < p->online)
        text_format(t, "; the affinity mask allows %d", p->allowed);
    if (p->quota > 0)
        text_format(t, "; the control group's quota is %g", p->quota);
    for (size_t i = 0; i < r->cache_count; i++)
        text_format(t, "%s L%d %s %s", i ? "," : "\ncaches      ", r->caches[i].level, r->caches[i].type,
                    output_bytes((double)r->caches[i].bytes));
    text_format(t, "\nkernels      %s, of ", *r->kernels ? r->kernels : "none");
    for (size_t i = 0; i < r->set_count; i++)
        text_format(t, "%s%s", i ? ", " : "", r->sets[i]);
    text_format(t, "; precision auto is %s", r->precision);
    if (forced && *forced)
        text_format(t, "; EITP_ISA=%s forces them", forced);
    text_format(t, "\ndevice       %s\n", r->device);
}

static void add_memory(text_buffer *t, const system_report *r) {
    const eitp_memory_info *m = &r->memory;
    text_format(t, "memory       %s of %s free", output_bytes((double)m->available), output_bytes((double)m->total));
    if (m->cgroup_limit)
        text_format(t, "; control group: %s of %s used", output_bytes((double)m->cgroup_used),
                    output_bytes((double)m->cgroup_limit));
    if (m->data_limit)
        text_format(t, "; process limit (ulimit): %s", output_bytes((double)m->data_limit));
    text_format(t, "; this process may use %s, according to %s\n", output_bytes((double)m->usable), m->source);
    text_format(t, "budget       %s, %s\n", r->budget ? output_bytes((double)r->budget) : "unknown",
                r->has_budget ? "as set" : "with a safety margin");
    text_format(t, "swap         %s free of %s; eitp does not rely on it\n", output_bytes((double)m->swap_free),
                output_bytes((double)m->swap_total));
}

static void add_gpu(text_buffer *t, const system_report *r, const machine_gpu *gpu) {
    text_format(t, "GPU          %s, driver %s, memory %s", gpu->name, *gpu->driver ? gpu->driver : "not loaded",
                gpu->bytes ? output_bytes((double)gpu->bytes) : "unknown");
    if (gpu->free >= 0)
        text_format(t, ", %s free", output_bytes((double)gpu->free));
    if (!isnan(gpu->temperature))
        text_format(t, ", %.0f C", gpu->temperature);
    if (gpu == r->gpu)
        text_format(t, "; used: " NEVER_RUN "\n");
    else
        text_format(t, "; not used: %s\n", is_on_gpu(r) ? "--device selects another" : NOT_CHOSEN);
}

static void add_gpus(text_buffer *t, const system_report *r) {
    for (size_t i = 0; i < r->gpu_count; i++)
        add_gpu(t, r, &r->gpus[i]);
    if (!r->gpu_count)
        text_format(t, "GPU          %s\n",
                    is_on_gpu(r) ? "unknown: NVIDIA's driver library (libnvidia-ml.so.1) lists none"
                                 : "none found; eitp computes on the processor");
}

/* Returns the hottest sensor, or NULL. */
static const eitp_sensor *find_hottest(const system_report *r) {
    const eitp_sensor *hottest = NULL;
    for (size_t i = 0; i < r->sensor_count; i++) {
        const eitp_sensor *sensor = &r->sensors[i];
        if (sensor->kind == EITP_SENSOR_TEMPERATURE && (!hottest || sensor->value > hottest->value))
            hottest = sensor;
    }
    return hottest;
}

static void add_load(text_buffer *t, const system_report *r) {
    int pressures = 0;
    for (size_t i = 0; i < r->sensor_count; i++) {
        if (r->sensors[i].kind == EITP_SENSOR_LOAD)
            text_format(t, "load         %.2f tasks (1-minute average)\n", r->sensors[i].value);
    }
    for (size_t i = 0; i < r->sensor_count; i++) {
        if (r->sensors[i].kind == EITP_SENSOR_PRESSURE)
            text_format(t, "%s %s %.0f %%", pressures++ ? "," : "pressure     tasks waited in the last 10 seconds for",
                        r->sensors[i].name, 100 * r->sensors[i].value);
    }
    text_format(t, pressures ? "\n" : "");
}

static void add_machine_watch(text_buffer *t, const system_report *r) {
    const eitp_sensor *hottest = find_hottest(r);
    text_format(t, "disk         %s free in '%s'%s\n",
                r->disk_free == UINT64_MAX ? "an unknown amount" : output_bytes((double)r->disk_free), r->disk,
                r->is_writable ? "" : ", which is not writable");
    if (hottest && hottest->limit > 0)
        text_format(t, "temperature  %.0f C (%s), critical at %.0f C\n", hottest->value, hottest->name, hottest->limit);
    else if (hottest)
        text_format(t, "temperature  %.0f C (%s)\n", hottest->value, hottest->name);
    else
        text_format(t, "temperature  unknown: no readable sensor\n");
    add_load(t, r);
}

static void add_models(text_buffer *t, const system_report *r) {
    text_format(t,
                "\nWhat fits in %s, with the largest of the profiles full, safe and low-memory, or with none; LoRA: "
                "only adapters of\n"
                "rank %d on all linear layers are trained:\n  %-19s %-11s %-13s %10s  %s\n",
                r->budget ? output_bytes((double)r->budget) : "memory of unknown size", SYSTEM_LORA_RANK, "model",
                "profile", "batch x length", "memory", "configuration");
    for (size_t i = 0; i < r->model_count; i++) {
        const system_model *model = &r->models[i];
        const advice *a = &model->advice;
        char step[60], name[120];
        snprintf(name, sizeof name, "%s%s", model->name, model->has_adapters ? " (LoRA)" : "");
        snprintf(step, sizeof step, "%lld x %lld x %lld", (long long)a->batch_size, (long long)a->block_size,
                 (long long)a->grad_accum);
        text_format(t, "  %-19s %-11s %-13s %11s  %s\n", name, a->chosen.fits ? a->profile : "-", step,
                    output_bytes((double)a->chosen.total), a->chosen.fits ? a->configuration : "does not fit");
    }
}

static void add_advice(text_buffer *t, const system_report *r) {
    const system_model *model = r->model;
    text_format(t, "\ntier         %s, according to %s of memory (full above 16 GB, safe from 8 GB)", r->tier,
                output_bytes(r->has_budget ? (double)r->budget : (double)r->memory.usable));
    if (r->gpu && r->gpu->free >= 0)
        text_format(t, ", and %s free on the GPU (full above 8 GB, safe from 4 GB)",
                    output_bytes((double)r->gpu->free));
    text_format(t, "\n             %s\n", gpu_rule(r));
    if (!model) {
        text_format(t, "advice       %s\n", *r->why ? r->why : "nothing fits; free memory");
        text_format(t, "             a smaller run: --profile tiny, which is --batch-size 1 --block-size 32 --eval no "
                       "with --init distilgpt2\n");
        return;
    }
    if (model->profile_bytes)
        text_format(t,
                    "profile      none fits for %s: low-memory, the smallest, needs %s; without a profile, eitp plan's "
                    "choice needs only %s\n",
                    model->name, output_bytes((double)model->profile_bytes),
                    output_bytes((double)model->advice.chosen.total));
    else
        text_format(t, "profile      %s for %s: the largest that fits; overrides the tier\n", model->advice.profile,
                    model->name);
    if (r->largest_batch)
        text_format(t,
                    "batch        %lld x %lld tokens fit at once with adamw and no recomputation; for a larger step, "
                    "raise --grad-accum, which needs no more memory\n",
                    (long long)r->largest_batch, (long long)model->advice.block_size);
    else
        text_format(t, "batch        at most %lld x %lld tokens, and only with recomputation\n",
                    (long long)model->advice.batch_size, (long long)model->advice.block_size);
    text_format(t,
                "workers      at most --data-workers %lld, one per four processors; more would take time from "
                "training\n",
                (long long)process_data_workers());
    text_format(
        t,
        "files        --model takes a Hugging Face directory or a GGUF file; eitp export writes GGUF for llama.cpp\n");
    text_format(t, "checkpoints  %s each, at most %d at a time with --save-total-limit 2%s\n",
                output_bytes((double)model->advice.chosen.checkpoint), SYSTEM_CHECKPOINTS,
                system_has_room(r, model) ? "" : ", which do not fit on the disk; use another --output-dir");
    if (r->save_steps)
        text_format(t, "             --save-steps %lld writes one about every 10 minutes, at the estimated speed\n",
                    (long long)r->save_steps);
    text_format(t, "\n%s\n", r->command);
    if (r->note)
        text_format(t, "  (%s)\n", r->note);
}

static void print_text(const system_report *r) {
    text_buffer t = {NULL, 0, 0};
    add_processor(&t, r);
    add_memory(&t, r);
    add_gpus(&t, r);
    add_machine_watch(&t, r);
    add_models(&t, r);
    add_advice(&t, r);
    output_result(t.data, t.size);
    text_release(&t);
}

/* ---- As JSON ---- */

static void add_text(text_buffer *t, const char *name, const char *value) {
    text_json_name(t, name);
    if (value && *value)
        text_json_string(t, value, strlen(value));
    else
        text_format(t, "null");
}

/* Writes null if the size is unknown. */
static void add_size(text_buffer *t, const char *name, uint64_t bytes, int is_known) {
    if (is_known)
        text_json_member_integer(t, name, (int64_t)bytes);
    else
        add_text(t, name, NULL);
}

static void add_boolean(text_buffer *t, const char *name, int value) {
    text_json_name(t, name);
    text_format(t, "%s", value ? "true" : "false");
}

static void add_json_processor(text_buffer *t, const system_report *r) {
    const eitp_processor_info *p = &r->processors;
    text_json_name(t, "processor");
    text_format(t, "{");
    text_json_member_string(t, "model", r->processor);
    text_json_member_integer(t, "online", p->online);
    text_json_member_integer(t, "allowed", p->allowed);
    text_json_name(t, "quota");
    text_json_number(t, p->quota > 0 ? p->quota : (double)NAN);
    text_json_member_integer(t, "usable", p->usable);
    text_json_name(t, "caches");
    text_format(t, "[");
    for (size_t i = 0; i < r->cache_count; i++) {
        text_format(t, i ? ", {" : "{");
        text_json_member_integer(t, "level", r->caches[i].level);
        text_json_member_string(t, "type", r->caches[i].type);
        text_json_member_integer(t, "bytes", r->caches[i].bytes);
        text_format(t, "}");
    }
    text_format(t, "]");
    text_json_name(t, "instruction_sets");
    text_format(t, "[");
    for (size_t i = 0; i < r->set_count; i++)
        text_format(t, "%s\"%s\"", i ? ", " : "", r->sets[i]);
    text_format(t, "]");
    add_text(t, "kernels", r->kernels);
    add_text(t, "forced", getenv("EITP_ISA"));
    text_json_member_string(t, "precision", r->precision);
    text_json_member_string(t, "device", r->device);
    text_format(t, "}");
}

static void add_json_memory(text_buffer *t, const system_report *r) {
    const eitp_memory_info *m = &r->memory;
    text_json_name(t, "memory");
    text_format(t, "{");
    add_size(t, "total", m->total, m->total > 0);
    add_size(t, "free", m->available, m->available > 0);
    add_size(t, "cgroup_limit", m->cgroup_limit, m->cgroup_limit > 0);
    add_size(t, "cgroup_used", m->cgroup_used, m->cgroup_limit > 0);
    add_size(t, "process_limit", m->data_limit, m->data_limit > 0);
    add_size(t, "usable", m->usable, m->usable > 0);
    text_json_member_string(t, "limited_by", m->source);
    add_size(t, "budget", r->budget, r->budget > 0);
    text_json_member_integer(t, "swap_total", (int64_t)m->swap_total);
    text_json_member_integer(t, "swap_free", (int64_t)m->swap_free);
    text_format(t, "}");
}

static void add_json_sensors(text_buffer *t, const system_report *r) {
    int temperatures = 0;
    text_json_name(t, "temperatures");
    text_format(t, "[");
    for (size_t i = 0; i < r->sensor_count; i++) {
        if (r->sensors[i].kind != EITP_SENSOR_TEMPERATURE)
            continue;
        text_format(t, temperatures++ ? ", {" : "{");
        text_json_member_string(t, "name", r->sensors[i].name);
        text_json_member_number(t, "celsius", r->sensors[i].value);
        if (r->sensors[i].limit > 0)
            text_json_member_number(t, "critical", r->sensors[i].limit);
        text_format(t, "}");
    }
    text_format(t, "]");
    text_json_name(t, "pressure");
    text_format(t, "{");
    for (size_t i = 0; i < r->sensor_count; i++) {
        if (r->sensors[i].kind == EITP_SENSOR_PRESSURE)
            text_json_member_number(t, r->sensors[i].name, r->sensors[i].value);
    }
    text_format(t, "}");
    for (size_t i = 0; i < r->sensor_count; i++) {
        if (r->sensors[i].kind == EITP_SENSOR_LOAD)
            text_json_member_number(t, "load", r->sensors[i].value);
    }
}

static void add_json_devices(text_buffer *t, const system_report *r) {
    text_json_name(t, "gpus");
    text_format(t, "[");
    for (size_t i = 0; i < r->gpu_count; i++) {
        text_format(t, i ? ", {" : "{");
        text_json_member_string(t, "name", r->gpus[i].name);
        add_text(t, "driver", r->gpus[i].driver);
        add_size(t, "bytes", (uint64_t)r->gpus[i].bytes, r->gpus[i].bytes > 0);
        if (r->gpus[i].free >= 0)
            text_json_member_integer(t, "free", r->gpus[i].free);
        if (!isnan(r->gpus[i].temperature))
            text_json_member_number(t, "celsius", r->gpus[i].temperature);
        if (!isnan(r->gpus[i].slowdown_temperature))
            text_json_member_number(t, "slowdown_celsius", r->gpus[i].slowdown_temperature);
        add_boolean(t, "used", &r->gpus[i] == r->gpu);
        text_format(t, "}");
    }
    text_format(t, "]");
    text_json_member_string(t, "gpu_rule", gpu_rule(r));
    text_json_name(t, "disk");
    text_format(t, "{");
    text_json_member_string(t, "path", r->disk);
    add_size(t, "free", r->disk_free, r->disk_free != UINT64_MAX);
    add_boolean(t, "writable", r->is_writable);
    text_format(t, "}");
    add_json_sensors(t, r);
}

static void add_json_model(text_buffer *t, const system_model *model) {
    const advice *a = &model->advice;
    text_format(t, "{");
    text_json_member_string(t, "model", model->name);
    text_json_member_integer(t, "lora_rank", model->has_adapters ? SYSTEM_LORA_RANK : 0);
    add_boolean(t, "fits", a->chosen.fits);
    text_json_member_string(t, "profile", a->profile);
    text_json_member_integer(t, "batch_size", a->batch_size);
    text_json_member_integer(t, "block_size", a->block_size);
    text_json_member_integer(t, "grad_accum", a->grad_accum);
    text_json_member_integer(t, "bytes", (int64_t)a->chosen.total);
    text_json_member_string(t, "optimizer", eitp_optimizer_get(a->chosen.optimizer)->name);
    text_json_member_string(t, "precision", a->chosen.precision);
    text_json_member_integer(t, "recomputed_values", a->chosen.recomputed);
    text_json_member_integer(t, "checkpoint", (int64_t)a->chosen.checkpoint);
    text_json_member_number(t, "nominal_seconds", a->chosen.seconds);
    text_format(t, "}");
}

static void add_json_advice(text_buffer *t, const system_report *r) {
    text_json_name(t, "models");
    text_format(t, "[");
    for (size_t i = 0; i < r->model_count; i++) {
        text_format(t, i ? ",\n" : "\n");
        add_json_model(t, &r->models[i]);
    }
    text_format(t, "]");
    text_json_member_string(t, "tier", r->tier);
    add_boolean(t, "fits", r->model != NULL);
    add_text(t, "model", r->model ? r->model->name : NULL);
    add_text(t, "profile", r->model ? r->model->advice.profile : NULL);
    text_json_member_integer(t, "largest_batch", r->largest_batch);
    text_json_member_integer(t, "data_workers", process_data_workers());
    add_size(t, "save_steps", (uint64_t)r->save_steps, r->save_steps > 0);
    add_text(t, "why", r->why);
    add_text(t, "command", r->command);
    add_text(t, "note", r->note);
}

static void print_json(const system_report *r) {
    text_buffer t = {NULL, 0, 0};
    text_format(&t, "{");
    text_json_member_string(&t, "version", eitp_version());
    add_json_processor(&t, r);
    add_json_memory(&t, r);
    add_json_devices(&t, r);
    add_json_advice(&t, r);
    text_format(&t, "}\n");
    output_result(t.data, t.size);
    text_release(&t);
}

/* ---- The command ---- */

int command_check_system(int count, char **arguments) {
    option_set o;
    system_report *report = (system_report *)command_allocate(sizeof *report);
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status = options_read(&o, "check-system", OPTIONS_CHECK_SYSTEM, count, arguments, &ended, &error);
    if (!status && !ended) {
        output_progress("planning memory ...");
        status = system_examine(&o, report, &error);
    }
    if (status) {
        code = output_fail(&error);
    } else if (!ended) {
        (options_integer(&o, OPTION_JSON) ? print_json : print_text)(report);
        code = report->model ? COMMAND_FINISHED : COMMAND_WRONG;
    }
    system_release(report);
    free(report);
    options_release(&o);
    return code;
}
