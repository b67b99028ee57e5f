/* Why a run is slow. */
#include "doctor/advice.h"
#include "doctor/thresholds.h"
#include "output.h"
#include "report/slowdown.h"

/* Returns a share of the time, or 0 if the time is too short to matter. */
static double share_of(double part, double all) {
    return part >= DOCTOR_LEAST_SECONDS && all > 0 ? part / all : 0;
}

/* Returns the weight of trouble that costs this share of the time. */
static int weigh(double share) {
    return share > 0.5 ? DOCTOR_SLOW : DOCTOR_TROUBLE;
}

/* ---- Files ---- */

static int look_at_data(const doctor_case *c, doctor_finding *f) {
    const double share = share_of(c->data, c->training), workers = case_number(c, "data-workers");
    const char *file =
        recorded_text(c->run->run, "data.token_file", recorded_text(c->run->run, "data.labelled_file", ""));
    char *more;
    if (share <= DOCTOR_DATA_SHARE)
        return 0;
    finding_say(f, "The run is slow because it waits for data: %.0f %% of its step time.", 100 * share);
    finding_measure(f, "%.3g s of %.3g s (perf/data_loading_time, perf/data_loading_ratio)", c->data, c->training);
    if (*file)
        finding_measure(f, "samples are read from %s by %.0f workers (run.json)", file, workers > 0 ? workers : 0);
    more = command_format("--data-workers %.0f", workers > 0 ? 2 * workers : 2);
    advise_resume(c, f, more);
    free(more);
    if (*file)
        finding_advise(f, "keep the packed data on a local disk: eitp pack --output FILE, then --data FILE");
    return weigh(share);
}

static int look_at_offload(const doctor_case *c, doctor_finding *f) {
    const double share = share_of(c->transfer, c->training);
    const char *offload = case_option(c, "offload");
    if (share <= DOCTOR_TRANSFER_SHARE || !*offload || !strcmp(offload, "none"))
        return 0;
    finding_say(f, "The run is slow because of offloading (--offload %s): moving weights takes %.0f %% of the time.",
                offload, 100 * share);
    finding_measure(f, "%.3g s of %.3g s (perf/transfer_time)", c->transfer, c->training);
    advise_resume(c, f, "--offload none");
    finding_advise(f, "if that does not fit: --optimizer adamw8 needs 5 bytes per weight instead of 12");
    return weigh(share);
}

static int look_at_evaluations(const doctor_case *c, doctor_finding *f) {
    const double share = share_of(c->evaluation, c->wall), every = case_number(c, "eval-steps");
    if (share <= DOCTOR_EVALUATION_SHARE || c->run->evaluation_count < DOCTOR_OFTEN)
        return 0;
    finding_say(f, "The run is slow because it evaluates too often: %.0f %% of its time.", 100 * share);
    finding_measure(f, "%.3g s of %.3g s, %zu evaluations (perf/evaluation_time, perf/wall_time)", c->evaluation,
                    c->wall, c->run->evaluation_count);
    if (every > 0)
        advise_set(c, f, "eval-steps", ceil(every * 10 * share));
    finding_advise(f, "or evaluate on part of the validation data: --eval-frac 0.1");
    return weigh(share);
}

static double checkpoint_bytes(const doctor_case *c) {
    return recorded_number(c->run->run, "plan.parameter_bytes") + recorded_number(c->run->run, "plan.optimizer_bytes");
}

static int look_at_saves(const doctor_case *c, doctor_finding *f) {
    const double share = share_of(c->checkpoint, c->wall), every = case_number(c, "save-steps");
    const size_t saves = case_events(c, "saved");
    if (share <= DOCTOR_SAVE_SHARE || saves < DOCTOR_OFTEN)
        return 0;
    finding_say(f, "The run is slow because it saves too often: it waits %.0f %% of its time for checkpoints.",
                100 * share);
    finding_measure(f, "%.3g s of %.3g s, %zu saves of %s (perf/checkpoint_time, events \"saved\")", c->checkpoint,
                    c->wall, saves, output_bytes(checkpoint_bytes(c)));
    if (every > 0)
        advise_set(c, f, "save-steps", ceil(every * 10 * share));
    finding_advise(f, "--save-seconds 600 saves by time instead");
    return weigh(share);
}

static int look_at_disk(const doctor_case *c, doctor_finding *f) {
    const recorded_event *saved = recorded_last_event(c->run, "saved");
    const double seconds = saved ? recorded_number(saved->record, "seconds") : 0, bytes = checkpoint_bytes(c);
    char *directory;
    if (c->wall < DOCTOR_LONG_SECONDS || !(seconds >= DOCTOR_LEAST_SECONDS) || !(bytes >= DOCTOR_DISK_BYTES) ||
        bytes / seconds >= DOCTOR_DISK_RATE || share_of(c->checkpoint, c->wall) <= DOCTOR_SAVE_SHARE)
        return 0;
    finding_say(f, "The run is slow because its disk is slow: a checkpoint of %s takes %.3g s (%s per second).",
                output_bytes(bytes), seconds, output_bytes(bytes / seconds));
    finding_measure(f, "%s (metrics.jsonl); %.3g s of %.3g s in total (perf/checkpoint_time)", saved->message,
                    c->checkpoint, c->wall);
    directory = advice_quote(c->run->directory);
    finding_advise(f, "df %s    # shows the disk; an --output-dir on a local disk is faster", directory);
    free(directory);
    return DOCTOR_TROUBLE;
}

/* ---- The machine ---- */

/* Returns the seconds of all pauses caused by heat. */
static double paused_seconds(const doctor_case *c) {
    double sum = 0;
    for (size_t i = 0; i < c->run->event_count; i++) {
        const recorded_event *event = &c->run->events[i];
        const double seconds =
            !strcmp(event->kind, "temperature") ? recorded_number(event->record, "seconds") : (double)NAN;
        sum += seconds > 0 ? seconds : 0;
    }
    return sum;
}

static int look_at_heat(const doctor_case *c, doctor_finding *f) {
    const double paused = paused_seconds(c), share = share_of(paused, c->wall > paused ? c->wall : paused);
    const recorded_event *event = recorded_last_event(c->run, "temperature");
    if (share <= DOCTOR_PAUSE_SHARE || !event)
        return 0;
    finding_say(f, "The run is slow because of heat: it was paused for %.0f %% of its time.", 100 * share);
    finding_measure(f, "%.3g s of pauses, %zu events \"temperature\"; the last one: %s (metrics.jsonl)", paused,
                    case_events(c, "temperature"), event->message);
    finding_advise(f, "clean the fans and improve airflow; eitp check-system shows all sensors");
    advise_resume(c, f, "--spare-core");
    return weigh(share);
}

static double mean_of_points(const eitp_history_point *points, size_t from, size_t to) {
    double sum = 0;
    for (size_t i = from; i < to; i++)
        sum += points[i].mean;
    return sum / (double)(to - from);
}

static int look_at_frequency(const doctor_case *c, doctor_finding *f) {
    size_t count;
    eitp_history_point *points = recorded_points(c->run, "sys/frequency_mhz", &count);
    double before, after = 0;
    int fell = 0;
    if (count >= DOCTOR_FREQUENCY_POINTS) {
        before = mean_of_points(points, 0, count / 2);
        after = mean_of_points(points, count / 2, count);
        fell = after < DOCTOR_FREQUENCY_FALL * before && points[count - 1].mean < DOCTOR_FREQUENCY_FALL * before;
    }
    if (fell) {
        finding_say(f, "The run is slow because the processor lowered its frequency: %.0f MHz, down from %.0f.", after,
                    before);
        finding_measure(f, "means of the second and the first half of %zu records (sys/frequency_mhz)", count);
        finding_advise(f, "check heat and power: eitp check-system; is it on battery, or in a power-saving mode?");
        finding_advise(f, "sudo cpupower frequency-set -g performance");
    }
    free(points);
    return fell ? DOCTOR_TROUBLE : 0;
}

static int look_at_swapping(const doctor_case *c, doctor_finding *f) {
    const double faults = case_total(c, "sys/major_faults"), rate = c->wall > 0 ? faults / c->wall : 0;
    const recorded_event *pressure = recorded_last_event(c->run, "pressure");
    if (!pressure && (c->wall < DOCTOR_LONG_SECONDS || rate < DOCTOR_FAULT_RATE))
        return 0;
    finding_say(f, "The run is slow because the machine is swapping: memory is low, and tasks wait for it.");
    if (pressure)
        finding_measure(f, "%s (metrics.jsonl)", pressure->message);
    finding_measure(f, "%.0f page faults from disk, %.3g per second, %s read (sys/major_faults, sys/read_bytes)",
                    faults, rate, output_bytes(case_total(c, "sys/read_bytes")));
    finding_advise(f, "close other programs, or use less memory:");
    advise_resume(c, f, "--profile low-memory");
    return DOCTOR_SLOW;
}

/* Returns the number of threads in "cpu, 2 threads, ...", at least 1. */
static double threads_of(const doctor_case *c) {
    const char *device = recorded_text(c->run->run, "device", "");
    const double threads = strncmp(device, "cpu, ", 5) ? 1 : strtod(device + 5, NULL);
    return threads >= 1 ? threads : 1;
}

/* See DOCTOR_PROCESSOR_SHARE. */
static int is_deprived(const doctor_case *c) {
    const double computing =
        case_total(c, "perf/forward_time") + case_total(c, "perf/backward_time") + case_total(c, "perf/optimizer_time");
    return case_total(c, "sys/involuntary_switches") > case_total(c, "sys/voluntary_switches") &&
           case_total(c, "sys/processor_s") < DOCTOR_PROCESSOR_SHARE * computing * threads_of(c);
}

static int look_at_neighbours(const doctor_case *c, doctor_finding *f) {
    const recorded_event *load = recorded_last_event(c->run, "load");
    const double steal = case_mean(c, "sys/steal"), switches = case_total(c, "sys/involuntary_switches");
    const double rate = c->wall > 0 ? switches / c->wall / threads_of(c) : 0;
    const int is_long = c->wall >= DOCTOR_LONG_SECONDS;
    if (!load && !(is_long && (steal > DOCTOR_STEAL_PERCENT || rate > DOCTOR_SWITCH_RATE || is_deprived(c))))
        return 0;
    if (!load && steal > DOCTOR_STEAL_PERCENT)
        finding_say(
            f,
            "The run is slow because the host of this virtual machine gives its processors to others: %.0f %% of "
            "their time.",
            steal);
    else
        finding_say(f, "The run is slow because other programs use its processors.");
    if (load)
        finding_measure(f, "%s (metrics.jsonl)", load->message);
    finding_measure(f, "%.0f involuntary switches, %.3g per second and thread (sys/involuntary_switches)", switches,
                    rate);
    if (isfinite(steal))
        finding_measure(f, "%.2g %% of the processors' time given to other machines (sys/steal)", steal);
    if (c->wall > 0)
        finding_measure(f, "%.3g s of processor time in %.3g s, with %.0f threads (sys/processor_s, perf/wall_time)",
                        case_total(c, "sys/processor_s"), c->wall, threads_of(c));
    finding_advise(f, "top    # shows which programs; stop them, or run them with nice -n 19");
    finding_advise(f, "use fewer --threads than processors, so that the run waits less for the slowest thread");
    return DOCTOR_TROUBLE;
}

/* Returns the mean number of items per step from one step to another, inclusive; NaN if unknown. */
static double items_between(const doctor_case *c, int64_t from, int64_t to) {
    size_t count;
    eitp_history_point *points = recorded_points(c->run, recorded_unit(c->run), &count);
    double sum = 0, records = 0;
    for (size_t i = 0; i < count; i++) {
        const double weight = points[i].step >= from && points[i].step <= to ? (double)points[i].count : 0;
        sum += weight * (double)points[i].mean;
        records += weight;
    }
    free(points);
    return records > 0 ? sum / records : (double)NAN;
}

/* A rise of the step time, as found by `report --trend`. */
typedef struct step_rise {
    double before, now; /* seconds; equal: it did not rise */
    double p;
    int64_t until, from; /* last step before and first step after the rise, to compare their work */
} step_rise;

static step_rise find_rise(const slowdown *s) {
    const slowdown_series *series = &s->series[SLOWDOWN_TIME];
    const slowdown_jump *first = &series->jumps[0], *last = first + (series->jump_count ? series->jump_count - 1 : 0);
    const int64_t tenth = (s->last_step - s->first_step) / 10;
    step_rise rise = {0, 0, 1, 0, 0};
    if (series->verdict == SLOWDOWN_JUMPED_UP) {
        rise.before = first->before;
        rise.now = last->after;
        rise.p = first->p;
        rise.until = first->step - 1;
        rise.from = last->step;
    } else if (series->verdict == SLOWDOWN_RISES) {
        rise.before = series->trend.intercept + series->trend.slope * (double)s->first_step;
        rise.now = series->trend.intercept + series->trend.slope * (double)s->last_step;
        rise.p = series->trend.p;
        rise.until = s->first_step + tenth;
        rise.from = s->last_step - tenth;
    }
    return rise;
}

/* True if steps became significantly slower, not because they do more, and this cost enough time to matter. */
static int is_slower(const doctor_case *c, const step_rise *rise) {
    const double more = items_between(c, rise->from, INT64_MAX) / items_between(c, 0, rise->until);
    const double lost = (rise->now - rise->before) * (double)(c->run->step - rise->until);
    return rise->p < DOCTOR_TREND_P && rise->now > DOCTOR_RISE * rise->before * (more > 1 ? more : 1) &&
           lost >= DOCTOR_LEAST_SECONDS;
}

static void measure_rise(doctor_finding *f, const slowdown *s, const step_rise *rise) {
    const slowdown_series *series = &s->series[SLOWDOWN_TIME];
    finding_measure(f, "%.3g s before, %.3g s now, p < %g (step_time_s; eitp report --trend)", rise->before, rise->now,
                    DOCTOR_TREND_P);
    for (size_t i = 0; i < series->jump_count; i++) {
        const recorded_event *event = series->jumps[i].event;
        if (event)
            finding_measure(f, "near the jump at step %lld, after step %lld: %s%s%s (metrics.jsonl)",
                            (long long)series->jumps[i].step, (long long)event->step, event->kind,
                            *event->message ? ", " : "", event->message);
    }
}

/* Reports the alarm "slowdown" if there is one, and the trend of all step times. In a short run, which any other
   program disturbs, it is a remark. */
static int look_at_rise(const doctor_case *c, doctor_finding *f) {
    const recorded_event *alarm = case_alarm(c, "slowdown");
    slowdown s;
    step_rise rise;
    int rises;
    slowdown_make(c->run, &s);
    rise = find_rise(&s);
    rises = is_slower(c, &rise);
    if (!alarm && !rises)
        return 0;
    finding_say(f, "The run is slowing down: its steps take longer and longer.");
    if (rises) {
        text_buffer verdict = {NULL, 0, 0};
        slowdown_add_verdict(&s, SLOWDOWN_TIME, &verdict);
        finding_say(f, "The run became slower: %s.", verdict.data);
        text_release(&verdict);
        measure_rise(f, &s, &rise);
    }
    if (alarm)
        finding_measure(f, "%s (alarm)", alarm->message);
    finding_advise(f, "check heat, other programs and swapping: top, vmstat 1, eitp check-system");
    advise_resume(c, f, "");
    return alarm || c->duration >= DOCTOR_LONG_SECONDS ? DOCTOR_TROUBLE : DOCTOR_REMARK;
}

static int look_at_leak(const doctor_case *c, doctor_finding *f) {
    const recorded_event *alarm = case_alarm(c, "memory_drift");
    if (!alarm)
        return 0;
    finding_say(f, "The run's memory keeps growing and would run out.");
    finding_measure(f, "%s (alarm)", alarm->message);
    advise_resume(c, f, "");
    return DOCTOR_TROUBLE;
}

static int look_at_full_memory(const doctor_case *c, doctor_finding *f) {
    const recorded_event *event = recorded_last_event(c->run, "memory_high");
    if (!event)
        return 0;
    finding_say(f, "Other programs fill the machine's memory.");
    finding_measure(f, "after step %lld: %s (metrics.jsonl)", (long long)event->step, event->message);
    finding_advise(f, "close them before memory runs low; --auto-shrink lets the run free memory by itself");
    return DOCTOR_REMARK;
}

/* ---- Passes and records ---- */

/* A pass with few rows reads all weights for little arithmetic: memory bandwidth limits it. */
static int look_at_rows(const doctor_case *c, doctor_finding *f) {
    const double mfu = recorded_last(c->run, "perf/mfu");
    const double accumulated =
        recorded_number(c->run->run, "plan.grad_accum") / recorded_number(c->run->run, "plan.micro_batches_per_pass");
    const double batch = recorded_number(c->run->run, "plan.batch_size");
    const double factor = ceil(4 * DOCTOR_FEW_ROWS / c->rows);
    char *more;
    if (!(c->rows > 0 && c->rows < DOCTOR_FEW_ROWS) || !(mfu < DOCTOR_LOW_MFU) ||
        !(recorded_number(c->run->run, "model.parameters") > DOCTOR_LARGE_MODEL))
        return 0;
    if (accumulated > 1) {
        finding_say(
            f, "The run is slow because its passes are small and limited by memory bandwidth: %.0f tokens at a time.",
            c->rows);
        more = command_format("--micro-batches-per-pass %.0f", recorded_number(c->run->run, "plan.grad_accum"));
        advise_resume(c, f, more);
    } else {
        finding_say(f, "The run is slow because its batch is too small: %.0f tokens per step.", c->rows);
        more = command_format("--batch-size %.0f", batch * factor);
        advise_again(c, f, more);
        finding_advise(f, "eitp bench --sweep batch-size    # shows the gain of a larger batch on this machine");
    }
    free(more);
    finding_measure(f, "%.2g %% of the peak of matrix products (perf/mfu)", mfu);
    finding_measure(f, "batch size %.0f, %.0f passes per step, at most %.0f tokens per pass (run.json)", batch,
                    accumulated > 1 ? ceil(accumulated) : 1, c->rows);
    return DOCTOR_TROUBLE;
}

static int look_at_records(const doctor_case *c, doctor_finding *f) {
    const double profile = case_number(c, "profile-every");
    const double full = !strcmp(case_option(c, "monitor"), "full") ? case_number(c, "log-full-every") : 0;
    const int is_checked = !strcmp(case_option(c, "check-finite"), "op");
    if (c->run->step < DOCTOR_LEAST_STEPS ||
        (!is_checked && !(profile > 0 && profile < DOCTOR_FINE_STEPS) && !(full > 0 && full < DOCTOR_FINE_STEPS)))
        return 0;
    if (is_checked) {
        finding_say(f, "The run is slow because every op is checked for non-finite numbers (--check-finite op).");
        advise_resume(c, f, "--check-finite step");
    } else if (profile > 0 && profile < DOCTOR_FINE_STEPS) {
        finding_say(f, "The run is slow because %s profiled.", profile > 1 ? "many steps are" : "every single step is");
        advise_set(c, f, "profile-every", 1000);
    } else {
        finding_say(f, "The run is slow because many steps are recorded in full.");
        advise_set(c, f, "log-full-every", 100);
    }
    finding_measure(f, "profile-every %.0f, log-full-every %.0f, check-finite %s (run.json)", profile > 0 ? profile : 0,
                    full > 0 ? full : 0, *case_option(c, "check-finite") ? case_option(c, "check-finite") : "step");
    return DOCTOR_TROUBLE;
}

static int look_at_recompute(const doctor_case *c, doctor_finding *f) {
    const char *recompute = case_option(c, "recompute");
    if (!*recompute || !strcmp(recompute, "none") || !strcmp(recompute, "auto"))
        return 0;
    finding_say(f, "Values are recomputed to save memory (--recompute %s): up to a third more arithmetic.", recompute);
    finding_measure(f, "recompute %s (run.json)", recompute);
    advise_resume(c, f, "--recompute none");
    return DOCTOR_REMARK;
}

const doctor_rule *doctor_speed(size_t *count) {
    static const doctor_rule rules[] = {{"data", look_at_data},
                                        {"offload", look_at_offload},
                                        {"evaluations", look_at_evaluations},
                                        {"saves", look_at_saves},
                                        {"slow-disk", look_at_disk},
                                        {"heat", look_at_heat},
                                        {"throttling", look_at_frequency},
                                        {"swapping", look_at_swapping},
                                        {"other-programs", look_at_neighbours},
                                        {"slowdown", look_at_rise},
                                        {"memory-drift", look_at_leak},
                                        {"memory-high", look_at_full_memory},
                                        {"small-batch", look_at_rows},
                                        {"fine-records", look_at_records},
                                        {"recompute", look_at_recompute}};
    *count = COMMAND_COUNT(rules);
    return rules;
}
