/*
 * eitp bench step: whole training steps on random tokens, and then a few whose plans are profiled, to tell which kind
 * of work takes how long.
 */
#include "command_bench.h"

#include "command_bench_tokens.h"
#include "command_files.h"
#include "command_model.h"
#include "command_output.h"
#include "command_process.h"

enum { WARM_UP = 1, PROFILED = 3, MOST_TOKENS = 1 << 28 };

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

typedef struct stepping {
    bench *b;
    eitp_model *model;
    bench_tokens tokens;
    eitp_task task;
    eitp_trainer *trainer;
    int64_t block_size, step_tokens;
    bench_line components[COMPONENT_COUNT]; /* of the profiled step under way */
    bench_line best[COMPONENT_COUNT];       /* of the fastest of them */
    double seconds, fastest;                /* in the plans of the one under way; of the whole of the fastest */
    double model_flops;                     /* of the one under way, in products and attention */
    bench_line whole;                       /* of the steps that are not profiled */
} stepping;

/* ---- Components ---- */

static int begins(const char *text, const char *with) {
    return !strncmp(text, with, strlen(with));
}

static component product_component(const eitp_profile *profile) {
    if (strstr(profile->variable, "wte.weight") || strstr(profile->variable, "lm_head.weight"))
        return COMPONENT_HEAD;
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
    static const struct {
        const char *begins;
        component kind;
    } ops[] = {
        {"head", COMPONENT_HEAD},       {"attention", COMPONENT_ATTENTION}, {"layer_norm", COMPONENT_NORM},
        {"rms_norm", COMPONENT_NORM},   {"gelu", COMPONENT_ACTIVATION},     {"relu", COMPONENT_ACTIVATION},
        {"silu", COMPONENT_ACTIVATION}, {"cross_entropy", COMPONENT_LOSS},  {"sum_squares", COMPONENT_UPDATE},
        {"commit", COMPONENT_UPDATE},   {"adamw", COMPONENT_UPDATE},        {"row_", COMPONENT_UPDATE},
        {"column_", COMPONENT_UPDATE},  {"factored", COMPONENT_UPDATE},     {"sgd", COMPONENT_UPDATE},
    };
    if (profile->product != EITP_PRODUCT_NONE)
        return product_component(profile);
    if (profile->dtype == EITP_F64)
        return COMPONENT_UPDATE; /* the norm of the gradient */
    for (size_t i = 0; i < COMMAND_COUNT(ops); i++) {
        if (begins(profile->op, ops[i].begins))
            return ops[i].kind;
    }
    return COMPONENT_OTHER;
}

static void add_profile(void *user, const eitp_profile *profile) {
    stepping *s = (stepping *)user;
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

/* ---- The trainer ---- */

/* Random weights in a shape of a name or a config.json, or the model of a directory. */
static eitp_status make_model(stepping *s, eitp_error *error) {
    const char *name = options_text(&s->b->options, OPTION_MODEL);
    const eitp_host host = command_host();
    size_t length = strlen(name);
    eitp_transformer_config config;
    char *directory = NULL;
    eitp_status status;
    if (files_info(name).kind == EITP_PATH_DIRECTORY) {
        status = model_find_directory(name, &directory, error);
        if (!status)
            status = eitp_model_load(s->b->context, directory, &s->model, error);
        free(directory);
        return status;
    }
    if (length > 5 && !strcmp(name + length - 5, ".json"))
        status = eitp_transformer_config_read(&host, name, &config, error);
    else
        status = eitp_transformer_config_named(name, &config, error);
    if (!status)
        status = eitp_model_create(s->b->context, &config, &s->model, error);
    return status ? status : eitp_model_initialize(s->model, 0, error);
}

static eitp_status make_trainer(stepping *s, eitp_error *error) {
    const option_set *o = &s->b->options;
    eitp_trainer_config config = eitp_trainer_config_default();
    double dropout = options_number(o, OPTION_DROPOUT);
    eitp_language_config language;
    eitp_token_range all;
    eitp_status status;
    config.batch_size = options_integer(o, OPTION_BATCH_SIZE);
    s->block_size = model_block_size(o, NULL, eitp_model_positions(s->model));
    config.grad_accum = options_integer(o, OPTION_GRAD_ACCUM);
    if ((double)config.batch_size * (double)config.grad_accum * (double)s->block_size > MOST_TOKENS)
        return command_fail(error, EITP_ERROR_ARGUMENT, "a step of more than %d tokens; lower --batch-size",
                            MOST_TOKENS);
    s->step_tokens = config.batch_size * config.grad_accum * s->block_size;
    all.first = 0;
    all.count = 2 * (uint64_t)s->step_tokens + 1;
    status = eitp_model_set_dropout(s->model, dropout, dropout, dropout, error);
    if (!status)
        status = bench_tokens_open(&s->tokens, (size_t)all.count, eitp_model_vocabulary(s->model), error);
    memset(&language, 0, sizeof language);
    language.model = s->model;
    language.block_size = s->block_size;
    if (!status)
        language.training = eitp_token_file_source(s->tokens.file, all);
    if (!status)
        status = eitp_language_task(&language, &s->task, error);
    if (!status)
        status = eitp_trainer_create(&s->task, &config, &s->trainer, error);
    return status;
}

/* ---- Steps ---- */

static eitp_status make_step(stepping *s, double *seconds, eitp_error *error) {
    eitp_step_report report;
    double began = process_time();
    eitp_status status = eitp_trainer_step(s->trainer, &report, error);
    *seconds = process_time() - began;
    if (!status)
        status = bench_check_stopped(error);
    if (!status && !report.applied)
        status = command_fail(error, EITP_ERROR_NOT_FINITE, "step %lld had a gradient that is not finite",
                              (long long)report.step);
    return status;
}

static eitp_status time_steps(stepping *s, eitp_error *error) {
    int64_t steps = options_integer(&s->b->options, OPTION_STEPS);
    double *seconds = NULL, warm;
    eitp_status status = EITP_OK;
    for (int i = 0; i < WARM_UP && !status; i++)
        status = make_step(s, &warm, error);
    for (int64_t i = 0; i < steps && !status; i++) {
        seconds = (double *)command_resize(seconds, (size_t)(i + 1) * sizeof *seconds);
        status = make_step(s, &seconds[i], error);
    }
    if (!status) {
        s->whole.median = bench_median(seconds, (size_t)steps);
        s->whole.seconds = seconds[0]; /* they are in order now */
    }
    free(seconds);
    return status;
}

static eitp_status profile_steps(stepping *s, eitp_error *error) {
    eitp_profiler profiler;
    eitp_status status = EITP_OK;
    profiler.user = s;
    profiler.step = add_profile;
    eitp_context_profile(s->b->context, &profiler);
    for (int i = 0; i < PROFILED && !status; i++) {
        double seconds;
        memset(s->components, 0, sizeof s->components);
        s->seconds = s->model_flops = 0;
        status = make_step(s, &seconds, error);
        /* What is in no plan: reading tokens, writing inputs. */
        s->components[COMPONENT_OTHER].seconds += seconds > s->seconds ? seconds - s->seconds : 0;
        if (!i || seconds < s->fastest) {
            memcpy(s->best, s->components, sizeof s->best);
            s->fastest = seconds;
        }
    }
    eitp_context_profile(s->b->context, NULL);
    return status;
}

/* ---- Results ---- */

static void add_lines(stepping *s) {
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

/* The part of the products that the device could have made in that time; norms, losses and the update count nothing. */
static double flops_utilization(const stepping *s, double seconds) {
    double peak = s->b->limits.flops[s->b->dtype];
    return peak > 0 ? s->model_flops / seconds / peak : 0;
}

static void print_json(const stepping *s) {
    const option_set *o = &s->b->options;
    text_buffer t = {NULL, 0, 0};
    bench_json_begin(s->b, &t);
    text_json_member_string(&t, "model", options_text(o, OPTION_MODEL));
    text_json_member_integer(&t, "parameters", eitp_model_parameter_count(s->model));
    text_json_member_integer(&t, "batch_size", options_integer(o, OPTION_BATCH_SIZE));
    text_json_member_integer(&t, "block_size", s->block_size);
    text_json_member_integer(&t, "grad_accum", options_integer(o, OPTION_GRAD_ACCUM));
    text_json_member_integer(&t, "steps", options_integer(o, OPTION_STEPS));
    text_json_member_integer(&t, "tokens", s->step_tokens);
    text_json_member_number(&t, "tokens_per_s", (double)s->step_tokens / s->whole.median);
    text_json_member_number(&t, "tokens_per_s_best", (double)s->step_tokens / s->whole.seconds);
    text_json_member_number(&t, "of_limit", s->whole.limit / s->whole.median);
    text_json_member_number(&t, "of_limit_best", s->whole.limit / s->whole.seconds);
    text_json_member_number(&t, "flops_utilization", flops_utilization(s, s->whole.median));
    text_json_member_number(&t, "flops_utilization_best", flops_utilization(s, s->whole.seconds));
    text_json_member_integer(&t, "peak_rss_bytes", (int64_t)process_peak_memory());
    bench_json_lines(s->b, &t);
    text_format(&t, "}\n");
    output_result(t.data, t.size);
    text_release(&t);
}

static void print_summary(const stepping *s) {
    double tokens = (double)s->step_tokens, median = s->whole.median, best = s->whole.seconds, limit = s->whole.limit;
    text_buffer t = {NULL, 0, 0};
    text_format(&t, "%lld tokens a step: %.1f tokens/s (best %.1f)\n", (long long)s->step_tokens, tokens / median,
                tokens / best);
    text_format(&t, "roofline %.1f tokens/s, of which this is %.1f %% (best %.1f %%)\n", tokens / limit,
                100 * limit / median, 100 * limit / best);
    text_format(&t, "model FLOPs utilization %.1f %% (best %.1f %%); peak memory %s\n",
                100 * flops_utilization(s, median), 100 * flops_utilization(s, best),
                output_bytes((double)process_peak_memory()));
    output_result(t.data, t.size);
    text_release(&t);
}

eitp_status bench_step(bench *b, eitp_error *error) {
    stepping s;
    eitp_status status;
    memset(&s, 0, sizeof s);
    s.b = b;
    status = bench_open(b, error);
    if (!status)
        status = make_model(&s, error);
    if (!status)
        status = bench_measure(b, error);
    /* What measuring took is given back, and no part of a step. */
    process_reset_peak_memory();
    if (!status)
        status = make_trainer(&s, error);
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
    eitp_trainer_destroy(s.trainer);
    eitp_task_release(&s.task);
    bench_tokens_close(&s.tokens);
    eitp_model_destroy(s.model);
    return status;
}
