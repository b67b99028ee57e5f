/*
 * eitp bench step: times whole training steps on random samples, then a few with profiled plans, which show the time of
 * each kind of work.
 */
#include "bench/compare.h"
#include "bench/rounds.h"
#include "files.h"
#include "output.h"
#include "process.h"
#include "task/task.h"

enum { PROFILED = 3 };

typedef enum component {
    COMPONENT_FORWARD,
    COMPONENT_INPUT_GRADIENT,
    COMPONENT_WEIGHT_GRADIENT,
    COMPONENT_HEAD,
    COMPONENT_ATTENTION,
    COMPONENT_NORM,
    COMPONENT_ACTIVATION,
    COMPONENT_LOSS,
    COMPONENT_UPDATE,
    COMPONENT_OTHER,
    COMPONENT_COUNT
} component;

static const char *const component_names[COMPONENT_COUNT] = {
    "products forward",
    "products input gradient",
    "products weight gradient",
    "head",
    "attention",
    "norms",
    "activation",
    "loss",
    "update",
    "other",
};

typedef struct step_bench {
    bench *b;
    bench_trainer training;
    bench_line components[COMPONENT_COUNT]; /* of the current profiled step */
    bench_line best[COMPONENT_COUNT];       /* of the fastest profiled step */
    double seconds, fastest;                /* in the plans of the current step; of the fastest whole step */
    double model_flops;                     /* of the current step, in matrix products and attention */
    bench_line whole;                       /* of the steps without profiling */
} step_bench;

/* ---- Components ---- */

static component product_component(const eitp_profile *profile) {
    /* Tied to the token embedding, or not. */
    static const char *const heads[] = {"wte.weight", "lm_head.weight", "word_embeddings.weight", "decoder.weight"};
    for (size_t i = 0; i < COMMAND_COUNT(heads); i++) {
        if (strstr(profile->variable, heads[i]))
            return COMPONENT_HEAD;
    }
    switch (profile->product) {
    case EITP_PRODUCT_FORWARD:
        return COMPONENT_FORWARD;
    case EITP_PRODUCT_INPUT_GRADIENT:
        return COMPONENT_INPUT_GRADIENT;
    case EITP_PRODUCT_WEIGHT_GRADIENT:
        return COMPONENT_WEIGHT_GRADIENT;
    case EITP_PRODUCT_NONE:
    default:
        return COMPONENT_OTHER;
    }
}

static component profile_component(const eitp_profile *profile) {
    if (profile->product != EITP_PRODUCT_NONE)
        return product_component(profile);
    if (profile->dtype == EITP_F64)
        return COMPONENT_UPDATE; /* the norm of the gradient */
    switch (profile->work) {
    case EITP_WORK_HEAD:
        return COMPONENT_HEAD;
    case EITP_WORK_ATTENTION:
        return COMPONENT_ATTENTION;
    case EITP_WORK_NORM:
        return COMPONENT_NORM;
    case EITP_WORK_ACTIVATION:
        return COMPONENT_ACTIVATION;
    case EITP_WORK_LOSS:
        return COMPONENT_LOSS;
    case EITP_WORK_UPDATE:
        return COMPONENT_UPDATE;
    case EITP_WORK_PRODUCT:
    case EITP_WORK_OTHER:
    default:
        return COMPONENT_OTHER;
    }
}

static void add_profile(void *user, const eitp_profile *profile) {
    step_bench *s = (step_bench *)user;
    component kind = profile_component(profile);
    bench_line *line = &s->components[kind];
    line->seconds += profile->seconds;
    line->flops += profile->flops;
    line->bytes += profile->bytes_read + profile->bytes_written;
    line->limit += bench_limit(&s->b->limits, profile);
    s->seconds += profile->seconds;
    if (profile->product != EITP_PRODUCT_NONE || kind == COMPONENT_ATTENTION)
        s->model_flops += profile->flops;
}

/* ---- Steps ---- */

static eitp_status time_steps(step_bench *s, eitp_error *error) {
    int64_t steps = options_integer(&s->b->options, OPTION_STEPS);
    double *seconds = NULL, warm;
    eitp_status status = EITP_OK;
    for (int i = 0; i < BENCH_WARM_UP && !status; i++)
        status = bench_trainer_step(&s->training, &warm, error);
    for (int64_t i = 0; i < steps && !status; i++) {
        seconds = (double *)command_resize(seconds, (size_t)(i + 1) * sizeof *seconds);
        status = bench_trainer_step(&s->training, &seconds[i], error);
    }
    if (!status) {
        s->whole.median = bench_median(seconds, (size_t)steps);
        s->whole.seconds = seconds[0]; /* bench_median has sorted them */
    }
    free(seconds);
    return status;
}

static eitp_status profile_steps(step_bench *s, eitp_error *error) {
    eitp_profiler profiler;
    eitp_status status = EITP_OK;
    profiler.user = s;
    profiler.step = add_profile;
    eitp_context_profile(s->training.context, &profiler);
    for (int i = 0; i < PROFILED && !status; i++) {
        double seconds;
        memset(s->components, 0, sizeof s->components);
        s->seconds = s->model_flops = 0;
        status = bench_trainer_step(&s->training, &seconds, error);
        /* Outside of plans: reading tokens, writing inputs. */
        s->components[COMPONENT_OTHER].seconds += seconds > s->seconds ? seconds - s->seconds : 0;
        if (!i || seconds < s->fastest) {
            memcpy(s->best, s->components, sizeof s->best);
            s->fastest = seconds;
        }
    }
    eitp_context_profile(s->training.context, NULL);
    return status;
}

/* ---- Results ---- */

static void add_lines(step_bench *s) {
    snprintf(s->whole.name, sizeof s->whole.name, "step");
    for (int c = 0; c < COMPONENT_COUNT; c++) {
        bench_line *line = &s->best[c];
        s->whole.flops += line->flops;
        s->whole.bytes += line->bytes;
        s->whole.limit += line->limit;
        if (line->seconds <= 0)
            continue;
        snprintf(line->name, sizeof line->name, "%s", component_names[c]);
        line->median = line->seconds;
        bench_add(s->b, line);
    }
    bench_add(s->b, &s->whole);
}

/* Returns FLOPs of matrix products and attention relative to the device's peak in that time. */
static double flops_utilization(const step_bench *s, double seconds) {
    double peak = s->b->limits.flops[s->b->dtype];
    return peak > 0 ? s->model_flops / seconds / peak : 0;
}

static void print_json(const step_bench *s) {
    const option_set *o = &s->b->options;
    text_buffer t = {NULL, 0, 0};
    bench_json_begin(s->b, &t);
    text_json_member_string(&t, "model", options_text(o, OPTION_MODEL));
    text_json_member_string(&t, "task", task_name(eitp_training_get_recipe(s->training.plan)->task.kind));
    text_json_member_integer(&t, "parameters", eitp_model_parameter_count(s->training.model));
    text_json_member_integer(&t, "batch_size", options_integer(o, OPTION_BATCH_SIZE));
    text_json_member_integer(&t, "block_size", s->training.block_size);
    text_json_member_integer(&t, "grad_accum", options_integer(o, OPTION_GRAD_ACCUM));
    text_json_member_integer(&t, "steps", options_integer(o, OPTION_STEPS));
    text_json_member_integer(&t, "tokens", s->training.step_tokens);
    text_json_member_number(&t, "tokens_per_s", (double)s->training.step_tokens / s->whole.median);
    text_json_member_number(&t, "tokens_per_s_best", (double)s->training.step_tokens / s->whole.seconds);
    text_json_member_number(&t, "of_limit", s->whole.limit / s->whole.median);
    text_json_member_number(&t, "of_limit_best", s->whole.limit / s->whole.seconds);
    text_json_member_number(&t, "flops_utilization", flops_utilization(s, s->whole.median));
    text_json_member_number(&t, "flops_utilization_best", flops_utilization(s, s->whole.seconds));
    text_json_member_string(&t, "optimizer", eitp_optimizer_get(s->training.rung.optimizer)->name);
    text_json_member_string(&t, "recompute", bench_trainer_recompute(&s->training));
    text_json_member_integer(&t, "recomputed", s->training.rung.recomputed);
    text_json_member_integer(&t, "planned_bytes", (int64_t)s->training.rung.total);
    text_json_member_integer(&t, "peak_rss_bytes", (int64_t)process_peak_memory());
    bench_json_lines(s->b, &t);
    text_format(&t, "}\n");
    output_result(t.data, t.size);
    text_release(&t);
}

static void print_summary(const step_bench *s) {
    const eitp_fit_candidate *rung = &s->training.rung;
    double tokens = (double)s->training.step_tokens, median = s->whole.median, best = s->whole.seconds,
           limit = s->whole.limit;
    text_buffer t = {NULL, 0, 0};
    text_format(&t, "%lld tokens per step: %.1f tokens/s (best %.1f)\n", (long long)s->training.step_tokens,
                tokens / median, tokens / best);
    text_format(&t, "roofline %.1f tokens/s: %.1f %% reached (best %.1f %%)\n", tokens / limit, 100 * limit / median,
                100 * limit / best);
    text_format(&t, "model FLOPs utilization %.1f %% (best %.1f %%)\n", 100 * flops_utilization(s, median),
                100 * flops_utilization(s, best));
    text_format(&t, "peak memory %s, planned %s; %d tensors recomputed (%.0f %% more arithmetic)\n",
                output_bytes((double)process_peak_memory()), output_bytes((double)rung->total), rung->recomputed,
                100 * rung->recomputed_flops / (rung->flops - rung->recomputed_flops));
    output_result(t.data, t.size);
    text_release(&t);
}

static eitp_status measure_step(bench *b, eitp_error *error) {
    step_bench s;
    eitp_status status;
    memset(&s, 0, sizeof s);
    s.b = b;
    status = bench_trainer_plan(&s.training, &b->options, process_memory(), 0, error);
    if (status == EITP_ERROR_MEMORY)
        status = bench_trainer_fit(&s.training, error);
    if (!status)
        status = bench_measure(b, error);
    /* Measuring the limits has released its memory, which does not belong to a step. */
    process_reset_peak_memory();
    if (!status)
        status = bench_trainer_open(&s.training, s.training.is_fitted ? NULL : b->context, error);
    if (!status)
        b->dtype = eitp_context_precision(s.training.context);
    if (!status)
        status = time_steps(&s, error);
    if (!status)
        status = profile_steps(&s, error);
    if (!status) {
        add_lines(&s);
        bench_report_missing(b);
        if (options_integer(&b->options, OPTION_JSON))
            print_json(&s);
        else
            print_summary(&s);
    }
    bench_trainer_close(&s.training);
    return status;
}

eitp_status bench_step(bench *b, eitp_error *error) {
    eitp_status status = bench_read_budget(&b->options, error);
    if (!status)
        status = bench_open(b, error);
    if (status)
        return status;
    return bench_compares(b) ? bench_compare(b, error) : measure_step(b, error);
}
