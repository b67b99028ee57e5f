/* eitp plan: what a run takes, the ladder of ways to make it fit, and the one that would be taken. */
#include "command_files.h"
#include "command_fit.h"
#include "command_json.h"
#include "command_model.h"
#include "command_output.h"

/* Ways to run each optimizer: micro-batches merged as far as they go, or none; computed again; offloaded. */
static const struct {
    int merges;
    eitp_recompute recompute;
    eitp_offload offload;
    const char *name;
} ways[] = {{1, EITP_RECOMPUTE_NONE, EITP_OFFLOAD_NONE, "everything kept"},
            {1, EITP_RECOMPUTE_ATTENTION, EITP_OFFLOAD_NONE, "attention, norms, activations again"},
            {1, EITP_RECOMPUTE_LAYER, EITP_OFFLOAD_NONE, "whole layers again"},
            {0, EITP_RECOMPUTE_NONE, EITP_OFFLOAD_NONE, "everything kept"},
            {0, EITP_RECOMPUTE_LAYER, EITP_OFFLOAD_NONE, "whole layers again"},
            {1, EITP_RECOMPUTE_NONE, EITP_OFFLOAD_STATES, "optimizer state offloaded"},
            {1, EITP_RECOMPUTE_NONE, EITP_OFFLOAD_ALL, "weights and state offloaded"}};

static const char *const fidelities[] = {"same bits", "within seed noise", "approximate", "another algorithm"};

typedef struct planning {
    option_set options;
    char isa[MODEL_ISA_SIZE];
    char *directory; /* of --model */
    fit_plan plan;
    eitp_fit fit;
    eitp_rung chosen;
    eitp_rung rungs[EITP_OPTIMIZER_COUNT * COMMAND_COUNT(ways)];
    const char *names[EITP_OPTIMIZER_COUNT * COMMAND_COUNT(ways)];
    size_t count;
} planning;

/* ---- The run ---- */

static eitp_status read_shape(planning *p, eitp_transformer_config *shape, eitp_error *error) {
    option_set *o = &p->options;
    const eitp_host host = command_host();
    eitp_status status;
    /* A model is a directory, or a shape's name. */
    if (options_has(o, OPTION_MODEL) && files_info(options_text(o, OPTION_MODEL)).kind == EITP_PATH_DIRECTORY) {
        status = model_find_directory(options_text(o, OPTION_MODEL), &p->directory, error);
        if (!status)
            status = eitp_model_config_read(&host, p->directory, shape, error);
    } else {
        if (options_has(o, OPTION_MODEL))
            options_set_text(o, OPTION_INIT, options_text(o, OPTION_MODEL), o->values[OPTION_MODEL].source);
        options_set_text(o, OPTION_INIT, "gpt2", SOURCE_DEFAULT);
        status = fit_read_shape(o, shape, error);
    }
    if (!status && options_has(o, OPTION_DROPOUT))
        shape->embedding_dropout = shape->attention_dropout = shape->residual_dropout =
            options_number(o, OPTION_DROPOUT);
    return status;
}

/* The tokenizer takes memory too: where the model has one, it is read, and what the process has then counts. */
static eitp_status measure_process(planning *p, eitp_error *error) {
    eitp_tokenizer *tokenizer = NULL;
    eitp_memory_info info;
    eitp_status status = model_load_tokenizer(NULL, p->directory, &tokenizer, error);
    if (!status)
        status = eitp_memory_info_read(&p->fit.context.host, &info, error);
    if (!status)
        p->fit.process = (size_t)info.resident;
    eitp_tokenizer_destroy(tokenizer);
    return status;
}

static eitp_status prepare(planning *p, eitp_error *error) {
    eitp_transformer_config shape;
    eitp_status status;
    fit_take_profile(&p->options);
    status = read_shape(p, &shape, error);
    if (!status)
        status = fit_from_options(&p->options, &shape, NULL, p->isa, &p->plan, &p->fit, error);
    p->plan.validates = 1;
    return status ? status : measure_process(p, error);
}

/* ---- The ladder ---- */

/* Is there a rung with this optimizer, and is it not one that there was already? */
static int is_new(const planning *p, const eitp_rung *rung) {
    for (size_t i = 0; i < p->count; i++) {
        if (p->rungs[i].total == rung->total && p->rungs[i].micro_batches_per_pass == rung->micro_batches_per_pass &&
            !strcmp(p->rungs[i].precision, rung->precision))
            return 0;
    }
    return 1;
}

static eitp_status measure_ladder(planning *p, eitp_error *error) {
    int64_t merged = 0; /* micro-batches, as far as they go with an optimizer that is not offloaded */
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < EITP_OPTIMIZER_COUNT * COMMAND_COUNT(ways) && !status; i++) {
        size_t way = i % COMMAND_COUNT(ways);
        eitp_fit fit = p->fit;
        eitp_rung rung;
        memset(&rung, 0, sizeof rung);
        rung.optimizer = (eitp_optimizer)(i / COMMAND_COUNT(ways));
        rung.micro_batches_per_pass = !ways[way].merges           ? 1
                                      : way && !ways[way].offload ? merged
                                                                  : fit.trainer.micro_batches_per_pass;
        rung.plan.recompute = ways[way].recompute;
        rung.offload = ways[way].offload;
        if (!p->fit.any_optimizer && rung.optimizer != p->fit.trainer.optimizer)
            continue;
        status = eitp_rung_measure(&fit, &rung, error);
        /* fp16 has not every form of weights. */
        if (status == EITP_ERROR_UNSUPPORTED && fit.any_optimizer) {
            status = EITP_OK;
            continue;
        }
        merged = way ? merged : rung.micro_batches_per_pass;
        if (!status && is_new(p, &rung)) {
            p->names[p->count] = ways[way].name;
            p->rungs[p->count++] = rung;
        }
    }
    return status;
}

/* ---- Tables ---- */

static void add_components(text_buffer *t, const eitp_rung *rung) {
    text_format(t,
                "  parameters        %12s\n  gradients         %12s\n  optimizer state   %12s\n"
                "  activations       %12s  (logits %s of them)\n  workspace         %12s\n  process           %12s\n"
                "  total             %12s\n",
                output_bytes((double)rung->parameters), output_bytes((double)rung->gradients),
                output_bytes((double)rung->states), output_bytes((double)rung->arena),
                output_bytes((double)rung->logits), output_bytes((double)rung->workspace),
                output_bytes((double)rung->process), output_bytes((double)rung->total));
    text_format(t, "  arithmetic        %9.1f GF  a step", rung->flops / 1e9);
    if (rung->recomputed)
        text_format(t, ", %.1f GF of it computed again", rung->recomputed_flops / 1e9);
    text_format(t, "\n");
    if (rung->offload)
        text_format(t, "  file              %12s, a step reads %s of it and writes %s\n",
                    output_bytes((double)rung->offloaded), output_bytes(rung->file_reads),
                    output_bytes(rung->file_writes));
}

static void add_rung(text_buffer *t, const planning *p, const eitp_rung *rung, char mark, const char *name) {
    text_format(t, "%c %-10s %-5s %6lld  %-36s %10s %7.2fx  %s\n", mark, eitp_optimizer_get(rung->optimizer)->name,
                rung->precision, (long long)rung->micro_batches_per_pass, name, output_bytes((double)rung->total),
                rung->seconds / p->rungs[0].seconds, fidelities[eitp_optimizer_get(rung->optimizer)->fidelity]);
}

static void add_rungs(text_buffer *t, const planning *p, int fits) {
    text_format(t, "\n  %-10s %-5s %6s  %-36s %10s %8s  %s\n", "optimizer", "", "micro_batches_per_pass", "", "memory",
                "time", "fidelity");
    for (size_t i = 0; i < p->count; i++)
        add_rung(t, p, &p->rungs[i], p->rungs[i].fits ? ' ' : '-', p->names[i]);
    if (fits)
        add_rung(t, p, &p->chosen, '*', p->chosen.recomputed ? "again what the budget demands" : "everything kept");
    text_format(t, "  * chosen: the fastest of the highest fidelity that fits, another algorithm only where asked for\n"
                   "  - does not fit; time: of a step, beside the first line's, predicted\n");
}

static void print_table(const planning *p, int fits, const eitp_error *error) {
    text_buffer t = {NULL, 0, 0};
    char text[200];
    const eitp_trainer_config *c = &p->fit.trainer;
    text_format(&t, "step: %lld sequences of %lld tokens, %lld at a time; budget %s\n",
                (long long)(c->batch_size * c->grad_accum), (long long)p->plan.block_size, (long long)c->batch_size,
                p->fit.budget ? output_bytes((double)p->fit.budget) : "none");
    if (fits) {
        text_format(&t, "chosen: %s; %s, %.2fx the time of the first line below\n",
                    fit_describe(&p->fit, &p->chosen, text, sizeof text),
                    fidelities[eitp_optimizer_get(p->chosen.optimizer)->fidelity],
                    p->chosen.seconds / p->rungs[0].seconds);
        add_components(&t, &p->chosen);
    } else {
        text_format(&t, "nothing fits: %s\n", error->message);
    }
    add_rungs(&t, p, fits);
    output_result(t.data, t.size);
    text_release(&t);
}

static void add_json_rung(text_buffer *t, const eitp_rung *rung, const char *name) {
    const struct {
        const char *name;
        size_t bytes;
    } parts[] = {{"parameters", rung->parameters}, {"gradients", rung->gradients}, {"optimizer_state", rung->states},
                 {"activations", rung->arena},     {"logits", rung->logits},       {"workspace", rung->workspace},
                 {"process", rung->process},       {"total", rung->total},         {"offloaded", rung->offloaded}};
    text_format(t, "{");
    text_json_member_string(t, "optimizer", eitp_optimizer_get(rung->optimizer)->name);
    text_json_member_string(t, "precision", rung->precision);
    text_json_member_string(t, "fidelity", fidelities[eitp_optimizer_get(rung->optimizer)->fidelity]);
    text_json_member_string(t, "recompute", name);
    text_json_member_integer(t, "micro_batches_per_pass", rung->micro_batches_per_pass);
    for (size_t i = 0; i < COMMAND_COUNT(parts); i++)
        text_json_member_integer(t, parts[i].name, (int64_t)parts[i].bytes);
    text_json_member_integer(t, "recomputed_values", rung->recomputed);
    text_json_member_number(t, "flops", rung->flops);
    text_json_member_number(t, "recomputed_flops", rung->recomputed_flops);
    text_json_member_number(t, "file_reads", rung->file_reads);
    text_json_member_number(t, "file_writes", rung->file_writes);
    text_json_member_number(t, "nominal_seconds", rung->seconds);
    text_json_name(t, "fits");
    text_format(t, "%s}", rung->fits ? "true" : "false");
}

static void print_json(const planning *p, int fits, const eitp_error *error) {
    text_buffer t = {NULL, 0, 0};
    text_format(&t, "{");
    text_json_member_integer(&t, "budget", (int64_t)p->fit.budget);
    text_json_name(&t, "chosen");
    if (fits)
        add_json_rung(&t, &p->chosen, p->chosen.recomputed ? "as needed" : "none");
    else
        text_format(&t, "null");
    if (!fits)
        text_json_member_string(&t, "why", error->message);
    text_json_name(&t, "rungs");
    text_format(&t, "[");
    for (size_t i = 0; i < p->count; i++) {
        text_format(&t, i ? ",\n" : "\n");
        add_json_rung(&t, &p->rungs[i], p->names[i]);
    }
    text_format(&t, "]}\n");
    output_result(t.data, t.size);
    text_release(&t);
}

/* ---- Several runs side by side ---- */

/* What one configuration would take: a line. */
static eitp_status add_line(planning *p, const char *name, text_buffer *t, eitp_error *error) {
    char text[200];
    const eitp_trainer_config *c;
    int64_t tokens;
    eitp_status status = prepare(p, error);
    if (!status)
        status = fit_choose(&p->fit, &p->chosen, error);
    c = &p->fit.trainer;
    tokens = c->batch_size * c->grad_accum * p->plan.block_size;
    if (status == EITP_ERROR_MEMORY) {
        text_format(t, "%-20s does not fit: %s\n", name, error->message);
        return EITP_OK;
    }
    if (!status)
        text_format(t, "%-20s %lld x %lld x %lld = %lld tokens a step, %s, %.1f GF, nominally %.2f s: %s\n", name,
                    (long long)c->batch_size, (long long)p->plan.block_size, (long long)c->grad_accum,
                    (long long)tokens, output_bytes((double)p->chosen.total), p->chosen.flops / 1e9, p->chosen.seconds,
                    fit_describe(&p->fit, &p->chosen, text, sizeof text));
    return status;
}

static int print_lines(text_buffer *t, eitp_status status, const eitp_error *error) {
    int code = status ? output_fail(error) : COMMAND_FINISHED;
    if (!status)
        output_result(t->data, t->size);
    text_release(t);
    return output_finish(code);
}

static void forget(planning *p) {
    free(p->directory);
    options_release(&p->options);
    memset(p, 0, sizeof *p);
}

/* Reads the command line again, with one more argument pair, and adds its line. */
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
    forget(&p);
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
    for (size_t i = 0; i < COMMAND_COUNT(profiles) && !status; i++)
        status = add_variant(count, arguments, "--profile", profiles[i], &t, &error);
    return print_lines(&t, status, &error);
}

/* --compare A B: two files of options, beside what else is on the command line. */
static int plan_comparison(const planning *p, int count, char **arguments) {
    const char *const files[] = {options_text(&p->options, OPTION_COMPARE), p->options.positional[0]};
    text_buffer t = {NULL, 0, 0};
    eitp_error error;
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < COMMAND_COUNT(files) && !status; i++)
        status = add_variant(count, arguments, "--config", files[i], &t, &error);
    return print_lines(&t, status, &error);
}

/* ---- The command ---- */

static eitp_status check_positional(const option_set *o, eitp_error *error) {
    size_t wanted = options_has(o, OPTION_COMPARE) ? 1 : 0;
    if (o->positional_count == wanted)
        return EITP_OK;
    return wanted ? command_fail(error, EITP_ERROR_ARGUMENT, "--compare needs two files of options: --compare A B")
                  : command_fail(error, EITP_ERROR_ARGUMENT, "'%s' is no option of plan; see 'eitp help plan'",
                                 o->positional[0]);
}

static int plan_run(planning *p) {
    eitp_error error, other;
    int json = (int)options_integer(&p->options, OPTION_JSON), fits;
    eitp_status status = prepare(p, &error);
    if (!status)
        status = fit_choose(&p->fit, &p->chosen, &error);
    if (status && status != EITP_ERROR_MEMORY)
        return output_fail(&error);
    fits = !status;
    if (measure_ladder(p, &other))
        return output_fail(&other);
    (json ? print_json : print_table)(p, fits, &error);
    return output_finish(fits ? COMMAND_FINISHED : COMMAND_NO_MEMORY);
}

/* --print-config, with what follows from the profile and the model. */
static void print_options(planning *p) {
    eitp_transformer_config shape;
    eitp_error error;
    fit_take_profile(&p->options);
    fit_set_defaults(&p->options, read_shape(p, &shape, &error) ? NULL : &shape);
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
        status = check_positional(&p.options, &error);
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
    forget(&p);
    return output_finish(code);
}
