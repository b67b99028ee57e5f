/* eitp plan: the memory of a run, the configurations that use less, and the one that train would choose. */
#include "options/json.h"
#include "options/profile.h"
#include "output.h"
#include "plan/advice.h"
#include "plan/arithmetic.h"
#include "plan/fit.h"

/* Configurations for each optimizer: as many micro-batches per pass as fit, or one; recomputation; offloading. */
static const struct {
    int many; /* micro-batches per pass; 0: one */
    eitp_recompute recompute;
    eitp_offload offload;
    const char *name;
} variants[] = {{1, EITP_RECOMPUTE_NONE, EITP_OFFLOAD_NONE, "no recomputation"},
                {1, EITP_RECOMPUTE_ATTENTION, EITP_OFFLOAD_NONE, "recompute attention, norms, activations"},
                {1, EITP_RECOMPUTE_LAYER, EITP_OFFLOAD_NONE, "recompute whole layers"},
                {0, EITP_RECOMPUTE_NONE, EITP_OFFLOAD_NONE, "no recomputation"},
                {0, EITP_RECOMPUTE_LAYER, EITP_OFFLOAD_NONE, "recompute whole layers"},
                {1, EITP_RECOMPUTE_NONE, EITP_OFFLOAD_STATES, "optimizer state offloaded"},
                {1, EITP_RECOMPUTE_NONE, EITP_OFFLOAD_ALL, "weights and state offloaded"}};

static const char *const fidelities[] = {"same bits", "within seed noise", "approximate", "another algorithm"};

typedef struct planning {
    option_set options;
    eitp_training *training; /* only planned, never run */
    const eitp_fit *fit;     /* of the training */
    eitp_fit_candidate chosen;
    eitp_fit_price price;           /* of `chosen` */
    eitp_fit_candidate *candidates; /* [count] */
    const char *names[EITP_OPTIMIZER_COUNT * COMMAND_COUNT(variants)];
    size_t count;
} planning;

static const int64_t *block_size(const planning *p) {
    return &eitp_training_get_recipe(p->training)->task.block_size;
}

/* Chooses as train does. `fit` stays NULL if an earlier step fails. */
static eitp_status choose(planning *p, eitp_error *error) {
    eitp_status status;
    output_progress("planning memory ...");
    profile_apply(&p->options);
    status = fit_open(&p->options, &p->training, error);
    if (!status)
        status = advice_resolve_profile(&p->options, p->training, error);
    if (!status)
        status = eitp_training_describe(p->training, error);
    if (status)
        return status;
    p->fit = eitp_training_get_fit(p->training);
    return fit_choose(&p->options, p->fit, block_size(p), &p->chosen, error);
}

/* ---- The configurations ---- */

/* True if no earlier configuration has the same memory, precision and micro-batches per pass. */
static int is_new(const planning *p, const eitp_fit_candidate *candidate) {
    for (size_t i = 0; i < p->count; i++) {
        if (p->candidates[i].total == candidate->total &&
            p->candidates[i].micro_batches_per_pass == candidate->micro_batches_per_pass &&
            !strcmp(p->candidates[i].precision, candidate->precision))
            return 0;
    }
    return 1;
}

static eitp_status measure_candidates(planning *p, eitp_error *error) {
    int64_t most = 0; /* micro-batches per pass that fit with the optimizer, without offloading */
    eitp_status status = EITP_OK;
    p->candidates = (eitp_fit_candidate *)command_allocate(COMMAND_COUNT(p->names) * sizeof *p->candidates);
    for (size_t i = 0; i < COMMAND_COUNT(p->names) && !status; i++) {
        size_t variant = i % COMMAND_COUNT(variants);
        eitp_fit_candidate candidate = eitp_fit_candidate_default();
        candidate.optimizer = (eitp_optimizer)(i / COMMAND_COUNT(variants));
        candidate.micro_batches_per_pass = !variants[variant].many ? 1
                                           : variant && !variants[variant].offload
                                               ? most
                                               : p->fit->trainer.micro_batches_per_pass;
        candidate.plan.recompute = variants[variant].recompute;
        candidate.offload = variants[variant].offload;
        if (!p->fit->any_optimizer && candidate.optimizer != p->fit->trainer.optimizer_config.optimizer)
            continue;
        status = eitp_fit_measure(p->fit, &candidate, error);
        /* fp16 does not support all weight formats. */
        if (status == EITP_ERROR_UNSUPPORTED && p->fit->any_optimizer) {
            status = EITP_OK;
            continue;
        }
        most = variant ? most : candidate.micro_batches_per_pass;
        if (!status && is_new(p, &candidate)) {
            p->names[p->count] = variants[variant].name;
            p->candidates[p->count++] = candidate;
        }
    }
    return status;
}

/* ---- Tables ---- */

static int64_t step_tokens(const planning *p) {
    return p->fit->trainer.batch_size * p->fit->trainer.grad_accum * *block_size(p);
}

static void add_components(text_buffer *t, const planning *p, const eitp_fit_candidate *candidate) {
    text_format(
        t,
        "  parameters        %12s\n  gradients         %12s\n  optimizer state   %12s\n"
        "  activations       %12s  (including %s of logits)\n  workspace         %12s\n  records           %12s\n"
        "  process           %12s\n  total             %12s\n",
        output_bytes((double)candidate->parameters), output_bytes((double)candidate->gradients),
        output_bytes((double)candidate->states), output_bytes((double)candidate->arena),
        output_bytes((double)candidate->logits), output_bytes((double)candidate->workspace),
        output_bytes((double)candidate->records), output_bytes((double)candidate->process),
        output_bytes((double)candidate->total));
    if (candidate->device)
        text_format(t, "  on the GPU        %12s\n", output_bytes((double)candidate->device));
    text_format(t, "  checkpoint        %12s\n", output_bytes((double)candidate->checkpoint));
    text_format(t, "  arithmetic        %9.1f GF  per step", candidate->flops / 1e9);
    if (candidate->recomputed)
        text_format(t, ", including %.1f GF recomputed", candidate->recomputed_flops / 1e9);
    text_format(t, "\n");
    arithmetic_add_table(t, candidate, step_tokens(p));
    if (candidate->offload)
        text_format(t, "  offloaded         %12s, each step reads %s and writes %s\n",
                    output_bytes((double)candidate->offloaded), output_bytes(candidate->file_reads),
                    output_bytes(candidate->file_writes));
}

static void add_candidate(text_buffer *t, const planning *p, const eitp_fit_candidate *candidate, char mark,
                          const char *name) {
    text_format(t, "%c %-10s %-9s %7lld  %-40s %10s %7.2fx  %s\n", mark, eitp_optimizer_get(candidate->optimizer)->name,
                candidate->precision, (long long)candidate->micro_batches_per_pass, name,
                output_bytes((double)(candidate->device ? candidate->device : candidate->total)),
                candidate->seconds / p->candidates[0].seconds,
                fidelities[eitp_optimizer_get(candidate->optimizer)->fidelity]);
}

static void add_candidates(text_buffer *t, const planning *p, int fits) {
    text_format(t, "\n  %-10s %-9s %7s  %-40s %10s %8s  %s\n", "optimizer", "precision", "batches", "", "memory",
                "time", "fidelity");
    for (size_t i = 0; i < p->count; i++)
        add_candidate(t, p, &p->candidates[i], p->candidates[i].fits ? ' ' : '-', p->names[i]);
    if (fits)
        add_candidate(t, p, &p->chosen, '*',
                      p->chosen.recomputed ? "recomputation as the budget requires" : "no recomputation");
    text_format(t, "  * chosen: the longest sequences, then the highest fidelity, then the fastest; another algorithm "
                   "only if requested\n"
                   "  - does not fit\n"
                   "  batches: micro-batches per pass; time: predicted step time relative to the first line\n");
}

static void print_table(const planning *p, int fits, const eitp_error *error) {
    text_buffer t = {NULL, 0, 0};
    char text[200];
    const eitp_trainer_config *c = &p->fit->trainer;
    text_format(&t, "step: %lld sequences of %lld tokens in micro-batches of %lld; budget %s",
                (long long)(c->batch_size * c->grad_accum), (long long)*block_size(p), (long long)c->batch_size,
                p->fit->budget ? output_bytes((double)p->fit->budget) : "none");
    if (p->fit->device_budget)
        text_format(&t, ", GPU memory %s", output_bytes((double)p->fit->device_budget));
    text_format(&t, "\n");
    if (fits) {
        text_format(&t, "chosen: %s; %s, %.2fx the time of the first line below\n",
                    fit_describe(p->fit, &p->chosen, text, sizeof text),
                    fidelities[eitp_optimizer_get(p->chosen.optimizer)->fidelity],
                    p->chosen.seconds / p->candidates[0].seconds);
        if (*fit_describe_price(&p->price, text, sizeof text))
            text_format(&t, "given up to save memory: %s\n", text);
        add_components(&t, p, &p->chosen);
    } else {
        text_format(&t, "nothing fits: %s\n", error->message);
    }
    add_candidates(&t, p, fits);
    output_result(t.data, t.size);
    text_release(&t);
}

static void add_json_candidate(text_buffer *t, const eitp_fit_candidate *candidate, const char *name) {
    const struct {
        const char *name;
        size_t bytes;
    } parts[] = {{"parameters", candidate->parameters},  {"gradients", candidate->gradients},
                 {"optimizer_state", candidate->states}, {"activations", candidate->arena},
                 {"logits", candidate->logits},          {"workspace", candidate->workspace},
                 {"records", candidate->records},        {"process", candidate->process},
                 {"device", candidate->device},          {"total", candidate->total},
                 {"offloaded", candidate->offloaded},    {"checkpoint", candidate->checkpoint}};
    text_format(t, "{");
    text_json_member_string(t, "optimizer", eitp_optimizer_get(candidate->optimizer)->name);
    text_json_member_string(t, "precision", candidate->precision);
    text_json_member_string(t, "fidelity", fidelities[eitp_optimizer_get(candidate->optimizer)->fidelity]);
    text_json_member_string(t, "recompute", name);
    text_json_member_integer(t, "micro_batches_per_pass", candidate->micro_batches_per_pass);
    for (size_t i = 0; i < COMMAND_COUNT(parts); i++)
        text_json_member_integer(t, parts[i].name, (int64_t)parts[i].bytes);
    text_json_member_integer(t, "recomputed_values", candidate->recomputed);
    text_json_member_number(t, "flops", candidate->flops);
    text_json_member_number(t, "recomputed_flops", candidate->recomputed_flops);
    arithmetic_add_json(t, candidate);
    text_json_member_number(t, "file_reads", candidate->file_reads);
    text_json_member_number(t, "file_writes", candidate->file_writes);
    text_json_member_number(t, "nominal_seconds", candidate->seconds);
    text_json_name(t, "fits");
    text_format(t, "%s}", candidate->fits ? "true" : "false");
}

/* Lists the features given up, with the bytes that each would need; empty if none. */
static void add_json_price(text_buffer *t, const eitp_fit_price *price) {
    const struct {
        const char *name;
        const eitp_fit_candidate *candidate;
    } parts[] = {{"longer", &price->longer}, {"faithful", &price->faithful}, {"kept", &price->kept}};
    text_json_name(t, "given_up");
    text_format(t, "{");
    for (size_t i = 0; i < COMMAND_COUNT(parts); i++) {
        const eitp_fit_candidate *c = parts[i].candidate;
        if (!c->total)
            continue;
        text_json_name(t, parts[i].name);
        text_format(t, "{");
        text_json_member_integer(t, "block_size", c->length);
        text_json_member_string(t, "optimizer", eitp_optimizer_get(c->optimizer)->name);
        text_json_member_integer(t, "bytes", (int64_t)(c->device ? c->device : c->total));
        text_format(t, "}");
    }
    text_format(t, "}");
}

static void print_json(const planning *p, int fits, const eitp_error *error) {
    text_buffer t = {NULL, 0, 0};
    text_format(&t, "{");
    text_json_member_integer(&t, "budget", (int64_t)p->fit->budget);
    text_json_member_integer(&t, "gpu_budget", (int64_t)p->fit->device_budget);
    text_json_member_integer(&t, "block_size", *block_size(p));
    text_json_member_integer(&t, "tokens_per_step", step_tokens(p));
    text_json_name(&t, "chosen");
    if (fits)
        add_json_candidate(&t, &p->chosen, p->chosen.recomputed ? "as needed" : "none");
    else
        text_format(&t, "null");
    if (!fits)
        text_json_member_string(&t, "why", error->message);
    add_json_price(&t, &p->price);
    text_json_name(&t, "rungs");
    text_format(&t, "[");
    for (size_t i = 0; i < p->count; i++) {
        text_format(&t, i ? ",\n" : "\n");
        add_json_candidate(&t, &p->candidates[i], p->names[i]);
    }
    text_format(&t, "]}\n");
    output_result(t.data, t.size);
    text_release(&t);
}

/* ---- Several runs ---- */

/* Adds a line with the memory and time of a run. */
static eitp_status add_line(planning *p, const char *name, text_buffer *t, eitp_error *error) {
    char text[200];
    eitp_status status = choose(p, error);
    const eitp_trainer_config *c = p->fit ? &p->fit->trainer : NULL;
    if (status == EITP_ERROR_MEMORY && p->fit) {
        text_format(t, "%-20s does not fit: %s\n", name, error->message);
        return EITP_OK;
    }
    if (!status)
        text_format(t, "%-20s %lld x %lld x %lld = %lld tokens per step, %s, %.1f GF, nominally %.2f s: %s\n", name,
                    (long long)c->batch_size, (long long)*block_size(p), (long long)c->grad_accum,
                    (long long)step_tokens(p), output_bytes((double)p->chosen.total), p->chosen.flops / 1e9,
                    p->chosen.seconds, fit_describe(p->fit, &p->chosen, text, sizeof text));
    return status;
}

static int print_lines(text_buffer *t, eitp_status status, const eitp_error *error) {
    int code = status ? output_fail(error) : COMMAND_FINISHED;
    if (!status) {
        output_start();
        output_result(t->data, t->size);
    }
    text_release(t);
    return code;
}

static void planning_release(planning *p) {
    free(p->candidates);
    eitp_training_close(p->training);
    options_release(&p->options);
    memset(p, 0, sizeof *p);
}

/* Reads the command line again with one more option and adds the line of that run. */
static eitp_status add_variant(int count, char **arguments, const char *option, const char *value, text_buffer *t,
                               eitp_error *error) {
    char **all = (char **)command_allocate((size_t)(count + 3) * sizeof *all);
    planning p;
    int ended;
    eitp_status status;
    memset(&p, 0, sizeof p);
    memcpy(all, arguments, (size_t)count * sizeof *all);
    all[count] = command_copy(option);
    all[count + 1] = command_copy(value);
    status = options_read(&p.options, "plan", OPTIONS_PLAN, count + 2, all, &ended, error);
    if (!status)
        status = add_line(&p, value, t, error);
    planning_release(&p);
    free(all[count]);
    free(all[count + 1]);
    free(all);
    return status;
}

static int plan_presets(int count, char **arguments) {
    static const char *const profiles[] = {"low-memory", "safe", "full"};
    text_buffer t = {NULL, 0, 0};
    eitp_error error;
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < COMMAND_COUNT(profiles) && !status; i++) {
        eitp_error why;
        status = add_variant(count, arguments, "--profile", profiles[i], &t, &why);
        if (status)
            command_fail(&error, status, "profile %s: %.*s", profiles[i], (int)sizeof why.message - 40, why.message);
    }
    return print_lines(&t, status, &error);
}

/* Plans the files of options of --compare, each with the rest of the command line. */
static int plan_comparison(const planning *p, int count, char **arguments) {
    const option_value *files = &p->options.values[OPTION_COMPARE];
    text_buffer t = {NULL, 0, 0};
    eitp_error error;
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < files->count && !status; i++)
        status = add_variant(count, arguments, "--config", files->texts[i], &t, &error);
    return print_lines(&t, status, &error);
}

/* ---- The command ---- */

static eitp_status check_files(const option_set *o, eitp_error *error) {
    if (o->positional_count)
        return command_fail(error, EITP_ERROR_ARGUMENT, "unexpected argument '%s'; 'eitp help plan' lists the options",
                            o->positional[0]);
    if (o->values[OPTION_COMPARE].count == 1)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--compare requires at least two files of options: --compare A B");
    return EITP_OK;
}

static int plan_run(planning *p) {
    eitp_error error, other;
    int json = (int)options_integer(&p->options, OPTION_JSON), fits;
    eitp_status status = choose(p, &error);
    if (status && (status != EITP_ERROR_MEMORY || !p->fit))
        return output_fail(&error);
    fits = !status;
    if (fits && eitp_fit_find_price(p->fit, &p->chosen, &p->price, &other))
        return output_fail(&other);
    if (measure_candidates(p, &other))
        return output_fail(&other);
    output_start();
    (json ? print_json : print_table)(p, fits, &error);
    return fits ? COMMAND_FINISHED : COMMAND_NO_MEMORY;
}

/* Prints --print-config with the options that depend on the profile and the model. */
static void print_options(planning *p) {
    eitp_error error;
    profile_apply(&p->options);
    if (!fit_open(&p->options, &p->training, &error))
        advice_resolve_profile(&p->options, p->training, &error);
    fit_set_defaults(&p->options, eitp_training_get_shape(p->training));
    options_print(&p->options, (int)options_integer(&p->options, OPTION_JSON));
}

int command_plan(int count, char **arguments) {
    planning p;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status;
    memset(&p, 0, sizeof p);
    status = options_read(&p.options, "plan", OPTIONS_PLAN, count, arguments, &ended, &error);
    if (!status && !ended)
        status = check_files(&p.options, &error);
    if (status)
        code = output_fail(&error);
    else if (!ended && options_integer(&p.options, OPTION_PRINT_CONFIG))
        print_options(&p);
    else if (!ended && options_integer(&p.options, OPTION_PRESETS))
        code = plan_presets(count, arguments);
    else if (!ended && options_has(&p.options, OPTION_COMPARE))
        code = plan_comparison(&p, count, arguments);
    else if (!ended)
        code = plan_run(&p);
    planning_release(&p);
    return code;
}
