/* Runs: straight and resumed, one thread and several, merged and accumulated; memory; failures of memory and files. */
#include "tests/everything.h"
#include "tests/faults.h"
#include "tests/test.h"
#include "tests/trainer_run.h"

#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#define SHADOW_MEMORY 1 /* the sanitizer's own records grow */
#else
#define SHADOW_MEMORY 0
#endif

static void any_number_of_threads_gives_the_same_bits(void) {
    char directory[512];
    variant v = default_variant();
    size_t set = 0;
    REQUIRE(scratch_make(directory) && write_text(directory));
    while (next_set(&set, &v)) {
        uint32_t one, two, three;
        v.threads = 1;
        one = train_variant(&v, directory, 6);
        v.threads = 2;
        two = train_variant(&v, directory, 6);
        v.threads = 3;
        three = train_variant(&v, directory, 6);
        CHECK_THAT(one && one == two && one == three, "%s %s %s: %08x %08x %08x", v.isa, v.products, v.precision, one,
                   two, three);
    }
    v = default_variant();
    v.dropout = 0;
    CHECK(train_variant(&v, directory, 2) != 0);
    scratch_remove(directory);
}

/* Dropout and its seed do change the bits: the comparisons above can fail. */
static void what_matters_changes_the_bits(void) {
    char directory[512];
    variant v = default_variant(), other = default_variant();
    REQUIRE(scratch_make(directory) && write_text(directory));
    other.dropout = 0.11;
    CHECK(train_variant(&v, directory, 3) != train_variant(&other, directory, 3));
    CHECK(train_variant(&v, directory, 3) != train_variant(&v, directory, 4));
    scratch_remove(directory);
}

/* Straight to step 12, against: to 5, save, a new process's worth of objects, resume, to 12; at several cuts. */
static void a_resumed_run_has_the_bits_of_a_straight_one(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    variant v = default_variant();
    size_t set = 0;
    REQUIRE(scratch_make(directory) && write_text(directory));
    while (next_set(&set, &v)) {
        uint32_t straight = train_variant(&v, directory, 12);
        static const int64_t cuts[] = {0, 1, 5, 11};
        for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
            char output[600], checkpoint[700];
            run r;
            snprintf(output, sizeof output, "%s/out-%d", directory, (int)c);
            snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-%d", output, (int)cuts[c]);
            REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
            REQUIRE(step_many(&r, cuts[c], NULL));
            REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
            end_run(&r);
            v.threads = 3;
            REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
            v.threads = 2;
            REQUIRE(step_many(&r, 2, NULL)); /* what was there before the resume must not show */
            REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
            CHECK(eitp_trainer_steps_done(r.trainer) == cuts[c]);
            REQUIRE(step_many(&r, 12 - cuts[c], NULL));
            CHECK_THAT(fingerprint(&r) == straight, "%s %s %s, cut at %d", v.isa, v.products, v.precision,
                       (int)cuts[c]);
            end_run(&r);
        }
    }
    scratch_remove(directory);
}

/* A run on other terms is refused, by name, and the trainer is as it was. */
static void a_resume_that_would_change_bits_is_refused(void) {
    const eitp_host host = eitp_host_default();
    char directory[512], output[600], checkpoint[700];
    variant v = default_variant(), other;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-2", output);
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    REQUIRE(step_many(&r, 2, NULL));
    REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
    end_run(&r);
    other = v;
    other.batch_size = 4;
    REQUIRE_OK(make_run(&r, &host, &other, directory, &error_), error_);
    CHECK(eitp_trainer_resume(r.trainer, checkpoint, &error_) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "batch_size") != NULL, "%s", error_.message);
    CHECK(eitp_trainer_steps_done(r.trainer) == 0);
    end_run(&r);
    other = v;
    other.isa = "ref";
    REQUIRE_OK(make_run(&r, &host, &other, directory, &error_), error_);
    if (strcmp(eitp_context_numerics(r.context), "cpu-ref-ref") == 0 && v.isa == NULL) {
        eitp_status status = eitp_trainer_resume(r.trainer, checkpoint, &error_);
        CHECK(status == EITP_ERROR_UNSUPPORTED || status == EITP_OK);
    }
    end_run(&r);
    scratch_remove(directory);
}

/* A flipped byte anywhere in the weights or the state of the optimizer is found. */
static void damage_is_found(void) {
    static const char *const names[] = {"model.safetensors", "optimizer.safetensors"};
    const eitp_host host = eitp_host_default();
    char directory[512], output[600], checkpoint[700];
    variant v = default_variant();
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-1", output);
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    REQUIRE(step_many(&r, 1, NULL));
    REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        FILE *file = fopen(scratch_path(checkpoint, names[i]), "r+b");
        int byte;
        REQUIRE(file != NULL);
        fseek(file, -1000, SEEK_END);
        byte = fgetc(file);
        fseek(file, -1000, SEEK_END);
        fputc(byte ^ 1, file);
        fclose(file);
        CHECK(eitp_trainer_resume(r.trainer, checkpoint, &error_) == EITP_ERROR_FORMAT);
        CHECK_THAT(strstr(error_.message, names[i]) && strstr(error_.message, "damaged"), "%s", error_.message);
        file = fopen(scratch_path(checkpoint, names[i]), "r+b");
        fseek(file, -1000, SEEK_END);
        fputc(byte, file);
        fclose(file);
        CHECK(eitp_trainer_resume(r.trainer, checkpoint, &error_) == EITP_OK);
    }
    end_run(&r);
    scratch_remove(directory);
}

/* Is it the first moment of a parameter? After one step without clipping it is the gradient, but for a factor. */
static int is_first_moment(const eitp_variable *variable) {
    return !strncmp(variable->name, "adamw.m.", 8);
}

/* Reads all first moments of a run into one array; the caller frees. */
static char *all_gradients(const run *r) {
    char *values = (char *)malloc(eitp_context_variable_bytes(r->context, EITP_OPTIMIZER));
    size_t at = 0;
    for (size_t i = 0; i < eitp_variable_count(r->context); i++) {
        eitp_variable variable = eitp_variable_at(r->context, i);
        if (!is_first_moment(&variable))
            continue;
        CHECK(!eitp_variable_read(r->context, variable.name, 0, values + at, variable.size, &error_));
        at += variable.size;
    }
    return values;
}

/* Gradients have the same bits: sums over tokens go on from the accumulated value. */
static void compare_gradients(const run *r, const char *gradients, const char *reference) {
    size_t at = 0;
    for (size_t i = 0; i < eitp_variable_count(r->context); i++) {
        eitp_variable variable = eitp_variable_at(r->context, i);
        if (!is_first_moment(&variable))
            continue;
        CHECK_THAT(!memcmp(gradients + at, reference + at, variable.size), "%s", variable.name);
        at += variable.size;
    }
    CHECK(at > 0);
}

/* What a run of three steps left: every variable but accumulated gradients, and the last report. The caller frees. */
static char *state_after(const variant *v, const char *directory, eitp_step_report *report, size_t *size,
                         eitp_plan_stats *whole, int *again) {
    const eitp_host host = eitp_host_default();
    run r;
    char *state = NULL;
    size_t at = 0;
    *size = 0;
    if (!make_run(&r, &host, v, directory, &error_)) {
        for (int step = 0; step < 3; step++)
            CHECK(!eitp_trainer_step(r.trainer, report, &error_));
        eitp_plan_stats stats = eitp_trainer_statistics(r.trainer);
        *again = stats.recomputed;
        if (v->offload)
            CHECK(stats.file_reads > 0 || v->offload == EITP_OFFLOAD_STATES);
        else if (!v->plan.memory && !v->plan.recompute)
            *whole = stats;
        else
            CHECK(stats.arena_bytes < whole->arena_bytes && stats.workspace_bytes == whole->workspace_bytes);
        for (size_t i = 0; i < eitp_variable_count(r.context); i++)
            *size += eitp_variable_at(r.context, i).size;
        state = (char *)malloc(*size);
        for (int role = EITP_PARAMETER; role <= EITP_REMAINDER; role++) {
            for (size_t i = 0; i < eitp_variable_count(r.context); i++) {
                eitp_variable variable = eitp_variable_at(r.context, i);
                if (variable.role != (eitp_role)role || role == EITP_GRADIENT || role == EITP_CACHE)
                    continue;
                CHECK(!eitp_variable_read(r.context, variable.name, 0, state + at, variable.size, &error_));
                at += variable.size;
            }
        }
        *size = at;
    }
    end_run(&r);
    return state;
}

/*
 * Gradients that live from where they are made to their update, whole or in pieces of rows, give the bits of gradients
 * that are stored for all parameters first.
 */
static void releasing_gradients_changes_no_bit(void) {
    static const struct {
        int keep_gradients;
        size_t piece_bytes;
    } ways[] = {{1, 0}, {0, 0}, {0, 65536}, {0, 4 * 65536}, {1, 65536}};
    static const char *const precisions[] = {"fp32", "bf16", "fp16", "fp32", "bf16", "fp32", "bf16"};
    static const eitp_optimizer optimizers[] = {EITP_ADAMW,    EITP_ADAMW, EITP_ADAMW, EITP_FACTORED,
                                                EITP_FACTORED, EITP_SGD,   EITP_SGD};
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t p = 0; p < EITP__COUNT(precisions); p++) {
        char *reference = NULL;
        size_t reference_size = 0;
        eitp_step_report first;
        for (size_t w = 0; w < EITP__COUNT(ways); w++) {
            variant v = default_variant();
            eitp_step_report report;
            eitp_plan_stats whole;
            char *state;
            size_t size;
            int again;
            v.precision = precisions[p];
            v.optimizer = optimizers[p];
            v.is_wide = 1;
            v.keep_gradients = ways[w].keep_gradients;
            v.piece_bytes = ways[w].piece_bytes;
            state = state_after(&v, directory, &report, &size, &whole, &again);
            REQUIRE(state);
            if (!reference) {
                reference = state;
                reference_size = size;
                first = report;
                continue;
            }
            CHECK_THAT(size == reference_size && !memcmp(state, reference, size), "%s, way %d", precisions[p], (int)w);
            CHECK(report.loss == first.loss && report.grad_norm == first.grad_norm &&
                  report.update_norm == first.update_norm && report.parameter_norm == first.parameter_norm);
            free(state);
        }
        free(reference);
    }
    scratch_remove(directory);
}

/* What is computed again instead of being kept has the same bits, however little memory there is. */
static void recomputing_changes_no_bit(void) {
    static const struct {
        double part; /* of the arena; 0: no limit */
        eitp_recompute recompute;
    } ways[] = {{0, EITP_RECOMPUTE_AUTO},      {0.9, EITP_RECOMPUTE_AUTO}, {0.7, EITP_RECOMPUTE_AUTO},
                {0, EITP_RECOMPUTE_ATTENTION}, {0, EITP_RECOMPUTE_LAYER},  {0.1, EITP_RECOMPUTE_AUTO}};
    static const char *const precisions[] = {"fp32", "bf16"};
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t p = 0; p < 4 * EITP__COUNT(precisions); p++) {
        char *reference = NULL;
        eitp_plan_stats whole = EITP__ZERO;
        eitp_step_report first;
        for (size_t w = 0; w < EITP__COUNT(ways); w++) {
            variant v = default_variant();
            eitp_step_report report;
            char *state;
            size_t size;
            int again = 0;
            v.precision = precisions[p / 2 % 2];
            v.optimizer = p < 2 * EITP__COUNT(precisions) ? EITP_ADAMW : EITP_FACTORED;
            v.is_wide = p / 2 % 2 == 0;
            v.keep_gradients = p % 2;
            v.piece_bytes = 65536;
            v.plan.recompute = ways[w].recompute;
            if (ways[w].part > 0)
                v.plan.memory = whole.workspace_bytes + (size_t)(ways[w].part * (double)whole.arena_bytes);
            state = state_after(&v, directory, &report, &size, &whole, &again);
            if (!reference) {
                REQUIRE(state);
                reference = state;
                first = report;
                continue;
            }
            CHECK_THAT(!state == (w + 1 == EITP__COUNT(ways)), "%s, way %d: %s", v.precision, (int)w, error_.message);
            if (!state) {
                CHECK(error_.status == EITP_ERROR_MEMORY);
                continue;
            }
            CHECK(again > 0);
            CHECK_THAT(!memcmp(state, reference, size), "%s, way %d", v.precision, (int)w);
            CHECK(report.loss == first.loss && report.grad_norm == first.grad_norm);
            free(state);
        }
        free(reference);
    }
    scratch_remove(directory);
}

/*
 * What is offloaded from a file has the bits of what is in memory: for every optimizer, whether gradients live within a
 * plan or are offloaded too, and whatever is computed again.
 */
static void offloading_changes_no_bit(void) {
    static const struct {
        const char *precision;
        eitp_optimizer optimizer;
        int64_t micro_batches_per_pass;
        int keep_gradients;
    } runs[] = {{"fp32", EITP_ADAMW, 2, 0},  {"fp32", EITP_ADAMW, 1, 0},     {"bf16", EITP_ADAMW, 2, 1},
                {"bf16", EITP_ADAMW8, 2, 0}, {"bf16", EITP_ADAMW8_SR, 1, 0}, {"bf16", EITP_FACTORED, 2, 0},
                {"fp16", EITP_ADAMW, 2, 0}};
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t i = 0; i < EITP__COUNT(runs); i++) {
        char *reference = NULL;
        eitp_plan_stats whole = EITP__ZERO;
        eitp_step_report first;
        for (int way = 0; way < 4; way++) {
            variant v = default_variant();
            eitp_step_report report;
            char *state;
            size_t size;
            int again;
            v.precision = runs[i].precision;
            v.optimizer = runs[i].optimizer;
            v.micro_batches_per_pass = runs[i].micro_batches_per_pass;
            v.keep_gradients = runs[i].keep_gradients;
            v.is_wide = 1;
            v.piece_bytes = 65536;
            v.offload = way == 3 ? EITP_OFFLOAD_ALL : (eitp_offload)way;
            v.plan.recompute = way == 3 ? EITP_RECOMPUTE_LAYER : EITP_RECOMPUTE_AUTO;
            state = state_after(&v, directory, &report, &size, &whole, &again);
            REQUIRE(state);
            if (!reference) {
                reference = state;
                first = report;
                continue;
            }
            CHECK_THAT(!memcmp(state, reference, size), "run %d, way %d", (int)i, way);
            CHECK(report.loss == first.loss && report.grad_norm == first.grad_norm &&
                  report.update_norm == first.update_norm && report.parameter_norm == first.parameter_norm);
            free(state);
        }
        free(reference);
    }
    scratch_remove(directory);
}

/* Checkpoints and losses know nothing of where variables are: an offloaded run goes on in memory, and the other way. */
static void an_offloaded_run_goes_on_in_memory(void) {
    const eitp_host host = eitp_host_default();
    char directory[512], output[600], checkpoint[700];
    variant v = default_variant();
    eitp_evaluation straight = EITP__ZERO;
    uint32_t reference = 0;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(checkpoint, sizeof checkpoint, "%s/out/checkpoint-2", directory);
    snprintf(output, sizeof output, "%s/out", directory);
    v.is_wide = 1;
    v.precision = "bf16";
    for (int way = 0; way < 3; way++) {
        eitp_evaluation evaluation;
        run r;
        v.offload = way == 1 ? EITP_OFFLOAD_ALL : EITP_OFFLOAD_NONE;
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        REQUIRE(step_many(&r, 2, NULL));
        if (way) {
            REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
            end_run(&r);
            v.offload = way == 1 ? EITP_OFFLOAD_NONE : EITP_OFFLOAD_ALL;
            REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
            REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
        }
        REQUIRE(step_many(&r, 2, NULL));
        REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 0, &evaluation, &error_), error_);
        if (!way) {
            reference = fingerprint(&r);
            straight = evaluation;
        }
        CHECK_THAT(fingerprint(&r) == reference, "way %d", way);
        CHECK(evaluation.loss == straight.loss && evaluation.items == straight.items);
        end_run(&r);
    }
    scratch_remove(directory);
}

/*
 * One batch of 4, against 2 x 2, 4 x 1, 3 + 1 of a run that ends there, and micro-batches merged by two and three: the
 * same samples, mean and dropout.
 */
static void accumulation_is_one_large_batch(void) {
    static const struct {
        int64_t batch, accumulation, micro_batches_per_pass;
        uint64_t last;
    } ways[] = {{4, 1, 1, 0}, {2, 2, 1, 0}, {1, 4, 1, 0}, {3, 2, 1, 4},
                {2, 2, 2, 0}, {1, 4, 3, 0}, {1, 5, 2, 4}, {1, 4, 0, 0}};
    static const char *const isas[] = {"ref", "avx2", "avx512", "avx512bf16", "amx"};
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    const eitp_host host = eitp_host_default();
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t k = 0; k < sizeof isas / sizeof *isas * 3; k++) {
        char *reference = NULL;
        double reference_loss = 0;
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            variant v = default_variant();
            run r;
            char *gradients;
            double loss = 0;
            v.isa = isas[k / 3];
            v.products = "own";
            v.precision = precisions[k % 3];
            v.batch_size = ways[w].batch;
            v.grad_accum = ways[w].accumulation;
            v.micro_batches_per_pass = ways[w].micro_batches_per_pass;
            v.last_sample = ways[w].last;
            v.unclipped = 1;
            if (make_run(&r, &host, &v, directory, &error_)) {
                printf("SKIPPED %s in %s: %s\n", v.isa, v.precision, error_.message);
                end_run(&r);
                break;
            }
            REQUIRE(step_many(&r, 1, &loss));
            gradients = all_gradients(&r);
            if (reference) {
                compare_gradients(&r, gradients, reference);
                CHECK_THAT(fabs(loss - reference_loss) < 1e-12, "%d x %d: loss %.9f and %.9f", (int)v.batch_size,
                           (int)v.grad_accum, loss, reference_loss);
                free(gradients);
            } else {
                reference = gradients;
                reference_loss = loss;
            }
            end_run(&r);
        }
        free(reference);
    }
    scratch_remove(directory);
}

static void it_learns(void) {
    static const struct {
        const char *precision;
        eitp_optimizer optimizer;
    } ways[] = {{"fp32", EITP_ADAMW},    {"bf16", EITP_ADAMW8}, {"bf16", EITP_ADAMW8_SR}, {"fp32", EITP_FACTORED},
                {"bf16", EITP_FACTORED}, {"fp32", EITP_SGD},    {"bf16", EITP_SGD},       {"fp16", EITP_SGD}};
    const eitp_host host = eitp_host_default();
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t w = 0; w < EITP__COUNT(ways); w++) {
        variant v = default_variant();
        eitp_evaluation before, after;
        run r;
        v.precision = ways[w].precision;
        v.optimizer = ways[w].optimizer;
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 0, &before, &error_), error_);
        REQUIRE(step_many(&r, 40, NULL));
        REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 0, &after, &error_), error_);
        CHECK_THAT(fabs(before.loss - log(257.0)) < 0.2, "%g", before.loss);
        CHECK_THAT(after.loss < 2.6, "%s in %s: %g", eitp_optimizer_get(v.optimizer)->name, v.precision, after.loss);
        CHECK(after.items == before.items && after.items > 1000 && after.error > 0);
        end_run(&r);
    }
    scratch_remove(directory);
}

/* What a variable of one run holds, beginning with the name; 0s where there is none. */
static void read_state(const run *r, const char *begin, const char *parameter, float *values, int64_t count) {
    char name[256];
    snprintf(name, sizeof name, "%s.%s", begin, parameter);
    memset(values, 0, (size_t)count * sizeof *values);
    if (eitp_variable_find(r->context, name) >= 0)
        CHECK(!eitp_variable_read_f32(r->context, name, 0, values, count, &error_));
}

/* v of a matrix, whatever it is kept in. */
enum { CONVERTED_ROWS = 40, CONVERTED_COLUMNS = 100, CONVERTED = CONVERTED_ROWS * CONVERTED_COLUMNS };

static void read_packed(const run *r, const char *parameter, float *v) {
    float scales[CONVERTED / EITP__MOMENT_GROUP];
    uint8_t codes[CONVERTED];
    char name[256];
    snprintf(name, sizeof name, "adamw.v.%s", parameter);
    CHECK(!eitp_variable_read(r->context, name, 0, codes, sizeof codes, &error_));
    read_state(r, "adamw.v_scale", parameter, scales, CONVERTED / EITP__MOMENT_GROUP);
    for (int i = 0; i < CONVERTED; i++)
        v[i] = eitp__unpack_v(codes[i], scales[i / EITP__MOMENT_GROUP]);
}

static void read_second_moment(const run *r, eitp_optimizer optimizer, const char *parameter, float *v) {
    float rows[CONVERTED_ROWS], columns[CONVERTED_COLUMNS];
    double mean = 0;
    if (optimizer == EITP_ADAMW)
        read_state(r, "adamw.v", parameter, v, CONVERTED);
    else if (optimizer != EITP_FACTORED)
        read_packed(r, parameter, v);
    read_state(r, "factored.rows", parameter, rows, CONVERTED_ROWS);
    read_state(r, "factored.columns", parameter, columns, CONVERTED_COLUMNS);
    for (int i = 0; i < CONVERTED_ROWS; i++)
        mean += (double)rows[i] / CONVERTED_ROWS;
    for (int i = 0; i < CONVERTED && mean > 0; i++)
        v[i] = (float)((double)rows[i / CONVERTED_COLUMNS] * (double)columns[i % CONVERTED_COLUMNS] / mean);
}

/* Sums by rows and by columns, which every form keeps. */
static void compare_sums(const float *a, const float *b, double tolerance, const char *what) {
    for (int by_row = 0; by_row < 2; by_row++) {
        for (int i = 0; i < (by_row ? CONVERTED_ROWS : CONVERTED_COLUMNS); i++) {
            double first = 0, second = 0;
            for (int k = 0; k < (by_row ? CONVERTED_COLUMNS : CONVERTED_ROWS); k++) {
                int at = by_row ? i * CONVERTED_COLUMNS + k : k * CONVERTED_COLUMNS + i;
                first += (double)a[at];
                second += (double)b[at];
            }
            CHECK_THAT(first > 0 && fabs(second / first - 1) < tolerance, "%s: %s %d is %g, not %g", what,
                       by_row ? "row" : "column", i, second, first);
        }
    }
}

/* From each optimizer to each other: the second moment is what it was by rows and columns, and training goes on. */
static void moments_are_converted(void) {
    static const char *const matrix = "transformer.h.0.mlp.c_fc.weight", *const vector = "transformer.h.0.ln_1.weight";
    static const eitp_optimizer ways[][2] = {{EITP_ADAMW, EITP_FACTORED},  {EITP_FACTORED, EITP_ADAMW},
                                             {EITP_ADAMW8, EITP_FACTORED}, {EITP_FACTORED, EITP_ADAMW8_SR},
                                             {EITP_ADAMW, EITP_ADAMW8},    {EITP_ADAMW8_SR, EITP_ADAMW}};
    static float v[2][CONVERTED], vectors[2][CONVERTED_ROWS], m[CONVERTED];
    const eitp_host host = eitp_host_default();
    for (size_t w = 0; w < EITP__COUNT(ways); w++) {
        char directory[512], output[600], checkpoint[700], what[100];
        variant variants[2] = {default_variant(), default_variant()};
        double before = 0, after = 0;
        run r;
        int is_8bit = eitp_optimizer_get(ways[w][1])->moments == EITP_MOMENTS_8BIT;
        snprintf(what, sizeof what, "%s to %s", eitp_optimizer_get(ways[w][0])->name,
                 eitp_optimizer_get(ways[w][1])->name);
        REQUIRE(scratch_make(directory) && write_text(directory));
        snprintf(output, sizeof output, "%s/out", directory);
        snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-30", output);
        for (int i = 0; i < 2; i++) {
            variants[i].precision = "bf16";
            variants[i].optimizer = ways[w][i];
            REQUIRE_OK(make_run(&r, &host, &variants[i], directory, &error_), error_);
            if (i == 0) {
                REQUIRE(step_many(&r, 30, &before));
                REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
            } else {
                REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
            }
            read_second_moment(&r, ways[w][i], matrix, v[i]);
            read_state(&r, "adamw.v", vector, vectors[i], CONVERTED_ROWS);
            if (i == 0)
                end_run(&r);
        }
        compare_sums(v[0], v[1], is_8bit ? 0.05 : 1e-4, what);
        CHECK_THAT(vectors[0][0] > 0 && !memcmp(vectors[0], vectors[1], sizeof vectors[0]), "%s: v of a vector", what);
        if (ways[w][0] == EITP_FACTORED && !is_8bit) {
            read_state(&r, "adamw.m", matrix, m, CONVERTED);
            for (int i = 0; i < CONVERTED; i++)
                CHECK(m[i] == 0);
        }
        REQUIRE(step_many(&r, 10, &after));
        CHECK_THAT(after < before + 0.1, "%s: loss %g, and %g before", what, after, before);
        end_run(&r);
        scratch_remove(directory);
    }
}

/* m of a matrix of AdamW's, whatever it is kept in; of SGD the velocity. */
static void read_first_moment(const run *r, eitp_optimizer optimizer, const char *parameter, float *m) {
    float scales[CONVERTED / EITP__MOMENT_GROUP];
    int8_t codes[CONVERTED];
    char name[256];
    if (eitp_optimizer_get(optimizer)->moments != EITP_MOMENTS_8BIT) {
        read_state(r, optimizer == EITP_SGD ? "sgd.velocity" : "adamw.m", parameter, m, CONVERTED);
        return;
    }
    snprintf(name, sizeof name, "adamw.m.%s", parameter);
    CHECK(!eitp_variable_read(r->context, name, 0, codes, sizeof codes, &error_));
    read_state(r, "adamw.m_scale", parameter, scales, CONVERTED / EITP__MOMENT_GROUP);
    for (int i = 0; i < CONVERTED; i++)
        m[i] = eitp__unpack_m(codes[i], scales[i / EITP__MOMENT_GROUP]);
}

static const char *const converted_matrix = "transformer.h.0.mlp.c_fc.weight";
static const char *const converted_vector = "transformer.h.0.ln_1.weight";

enum { CONVERTED_STEPS = 30 };

/* What is kept of gradients, after the first run and in the second. */
typedef struct converted {
    float m[CONVERTED], v[CONVERTED], vector[CONVERTED_ROWS];
} converted;

static void read_converted(const run *r, eitp_optimizer optimizer, converted *c) {
    memset(c, 0, sizeof *c);
    read_first_moment(r, optimizer, converted_matrix, c->m);
    if (optimizer != EITP_SGD)
        read_second_moment(r, optimizer, converted_matrix, c->v);
    read_state(r, optimizer == EITP_SGD ? "sgd.velocity" : "adamw.v", converted_vector, c->vector, CONVERTED_ROWS);
}

/* Of a velocity with momentum 0.9, for beta2 0.999: the mean gradient, and what its squares would be if they were all
 * noise, by rows and columns, or a vector's mean. */
static void check_from_velocity(const converted *from, const converted *to, eitp_optimizer optimizer,
                                const char *what) {
    static float squares[CONVERTED];
    const double factor = (1 - 0.81) / (1 - pow(0.81, CONVERTED_STEPS)) * (1 - pow(0.999, CONVERTED_STEPS));
    double mean = 0, unit = 0;
    int is_8bit = eitp_optimizer_get(optimizer)->moments == EITP_MOMENTS_8BIT;
    for (int i = 0; i < CONVERTED; i++) {
        double m = 0.1 * (double)from->m[i];
        unit = fmax(unit, fabs(m));
        squares[i] = (float)(factor * (double)from->m[i] * (double)from->m[i]);
        CHECK_THAT(optimizer == EITP_FACTORED || fabs((double)to->m[i] - m) <= (is_8bit ? 0.02 * unit : 1e-6 * unit),
                   "%s: m %d is %g, not %g", what, i, (double)to->m[i], m);
    }
    CHECK(unit > 0);
    compare_sums(squares, to->v, is_8bit ? 0.05 : 1e-4, what);
    for (int i = 0; i < CONVERTED_ROWS; i++)
        mean += factor * (double)from->vector[i] * (double)from->vector[i] / CONVERTED_ROWS;
    for (int i = 0; i < CONVERTED_ROWS; i++)
        CHECK_THAT(mean > 0 && fabs((double)to->vector[i] / mean - 1) < 1e-4, "%s: v of a vector is %g, not %g", what,
                   (double)to->vector[i], mean);
}

/* To a momentum of 0.8: what goes on adding up to as much. */
static void check_to_velocity(const converted *from, const converted *to, eitp_optimizer optimizer, const char *what) {
    double size = 0;
    for (int i = 0; i < CONVERTED; i++) {
        double velocity = (double)from->m[i] / (1 - 0.8);
        size = fmax(size, fabs(velocity));
        CHECK_THAT(fabs((double)to->m[i] - velocity) <= 1e-6 * fabs(velocity), "%s: velocity %d is %g, not %g", what, i,
                   (double)to->m[i], velocity);
    }
    CHECK((size > 0) == (optimizer != EITP_FACTORED));
}

/* From AdamW's to SGD, whose learning rates differ a hundredfold, and back: updates are of the usual size at once. */
static void velocities_are_converted(void) {
    static const eitp_optimizer others[] = {EITP_ADAMW, EITP_ADAMW8, EITP_FACTORED};
    static converted kept[2];
    const eitp_host host = eitp_host_default();
    for (size_t w = 0; w < 2 * EITP__COUNT(others); w++) {
        char directory[512], output[600], checkpoint[700], what[100];
        variant variants[2] = {default_variant(), default_variant()};
        eitp_step_report report = EITP__ZERO;
        double before = 0, after = 0, largest = 0, weights;
        run r;
        int is_back = w % 2;
        variants[is_back].optimizer = others[w / 2];
        variants[!is_back].optimizer = EITP_SGD;
        variants[1].beta1 = 0.8;
        snprintf(what, sizeof what, "%s to %s", eitp_optimizer_get(variants[0].optimizer)->name,
                 eitp_optimizer_get(variants[1].optimizer)->name);
        REQUIRE(scratch_make(directory) && write_text(directory));
        snprintf(output, sizeof output, "%s/out", directory);
        snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-%d", output, CONVERTED_STEPS);
        for (int i = 0; i < 2; i++) {
            variants[i].precision = "bf16";
            REQUIRE_OK(make_run(&r, &host, &variants[i], directory, &error_), error_);
            if (i == 0) {
                REQUIRE(step_many(&r, CONVERTED_STEPS, &before));
                REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
            } else {
                REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
            }
            read_converted(&r, variants[i].optimizer, &kept[i]);
            if (i == 0)
                end_run(&r);
        }
        if (is_back)
            check_from_velocity(&kept[0], &kept[1], variants[1].optimizer, what);
        else
            check_to_velocity(&kept[0], &kept[1], variants[0].optimizer, what);
        weights = (double)eitp_model_parameter_count(r.model);
        for (int step = 0; step < 10; step++) {
            REQUIRE_OK(eitp_trainer_step(r.trainer, &report, &error_), error_);
            largest = fmax(largest, report.update_norm / report.learning_rate / sqrt(weights));
        }
        after = report.loss;
        CHECK_THAT(!is_back || (largest > 0.05 && largest < 1), "%s: %g learning rates", what, largest);
        CHECK_THAT(after < before + 0.1, "%s: loss %g, and %g before", what, after, before);
        end_run(&r);
        scratch_remove(directory);
    }
}

/* Makes the state in a checkpoint be of another version. */
static int write_version(const char *checkpoint, char version) {
    static const char member[] = "\"version\": ";
    char path[800], text[8192], *at;
    size_t size;
    FILE *file;
    snprintf(path, sizeof path, "%s/trainer_state.json", checkpoint);
    file = fopen(path, "r+b");
    if (!file)
        return 0;
    size = fread(text, 1, sizeof text - 1, file);
    text[size] = 0;
    at = strstr(text, member);
    if (at)
        at[strlen(member)] = version;
    rewind(file);
    size = at ? fwrite(text, 1, strlen(text), file) : 0;
    return !fclose(file) && size;
}

/* Before version 4 a factored update had no first moment: it begins, and the second goes on. */
static void a_first_moment_begins(void) {
    static const char *const matrix = "transformer.h.0.mlp.c_fc.weight";
    static float means[2][CONVERTED_COLUMNS], m[CONVERTED_ROWS * EITP__DIRECTIONS];
    const eitp_host host = eitp_host_default();
    char directory[512], output[600], checkpoint[700];
    variant v = default_variant();
    double before = 0, after = 0, moments[2] = {0, 0};
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-30", output);
    v.precision = "bf16";
    v.optimizer = EITP_FACTORED;
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        if (i == 0) {
            REQUIRE(step_many(&r, 30, &before));
            REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
            REQUIRE(write_version(checkpoint, '3'));
        } else {
            REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
        }
        read_state(&r, "factored.columns", matrix, means[i], CONVERTED_COLUMNS);
        read_state(&r, "factored.m", matrix, m, CONVERTED_ROWS * EITP__DIRECTIONS);
        for (int k = 0; k < CONVERTED_ROWS * EITP__DIRECTIONS; k++)
            moments[i] += fabs((double)m[k]);
        if (i == 0)
            end_run(&r);
    }
    for (int j = 0; j < CONVERTED_COLUMNS; j++)
        CHECK(fabs((double)(means[1][j] - means[0][j])) <= 1e-5 * (double)means[0][j]);
    CHECK(moments[0] > 0 && moments[1] == 0);
    REQUIRE(step_many(&r, 10, &after));
    CHECK_THAT(after < before + 0.1, "loss %g, and %g before", after, before);
    end_run(&r);
    scratch_remove(directory);
}

/* The validation loss after 300 steps in 16 bits is that in f32 within half a percent, and weights are the same f32. */
static void sixteen_bits_follow_f32(void) {
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    const eitp_host host = eitp_host_default();
    char directory[512];
    double losses[3];
    float first[3];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (int i = 0; i < 3; i++) {
        variant v = default_variant();
        eitp_evaluation evaluation;
        run r;
        v.precision = precisions[i];
        v.dropout = 0;
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        REQUIRE_OK(eitp_variable_read_f32(r.context, "transformer.h.0.attn.c_attn.weight", 5, &first[i], 1, &error_),
                   error_);
        REQUIRE(step_many(&r, SHADOW_MEMORY ? 30 : 300, NULL));
        REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 0, &evaluation, &error_), error_);
        losses[i] = evaluation.loss;
        end_run(&r);
    }
    for (int i = 1; i < 3; i++) {
        CHECK_THAT(fabs(losses[i] / losses[0] - 1) < 0.005, "%s: %g, and %g in f32", precisions[i], losses[i],
                   losses[0]);
        CHECK_THAT(first[i] == first[0], "%s starts from %.9g, f32 from %.9g", precisions[i], (double)first[i],
                   (double)first[0]);
    }
    scratch_remove(directory);
}

/* fp16 that overflows halves its scale, changes nothing by that step, and says so; then it goes on. */
static void a_loss_scale_that_is_too_large_comes_down(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    variant v = default_variant();
    eitp_step_report report;
    uint32_t before;
    int64_t skipped = 0;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    v.precision = "fp16";
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    r.trainer->loss_scale = 16777216.0 * 65536.0;
    before = fingerprint(&r);
    do {
        double scale = r.trainer->loss_scale;
        REQUIRE_OK(eitp_trainer_step(r.trainer, &report, &error_), error_);
        CHECK(report.loss_scale == scale);
        skipped += !report.applied;
        CHECK(report.skipped == skipped);
        CHECK((fingerprint(&r) == before) == !report.applied);
        CHECK(r.trainer->loss_scale == (report.applied ? scale : scale / 2));
    } while (!report.applied && skipped < 40);
    CHECK_THAT(report.applied && skipped > 5, "%d skipped", (int)skipped);
    CHECK(isfinite(report.grad_norm) && report.grad_norm < 100);
    end_run(&r);
    scratch_remove(directory);
}

/* Gradients that are not finite change nothing, and the step says so. */
static void a_step_that_is_not_finite_changes_nothing(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    variant v = default_variant();
    eitp_step_report report;
    uint32_t before, after;
    float bad = (float)HUGE_VAL;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    REQUIRE_OK(eitp_variable_write(r.context, "transformer.ln_f.bias", 8, &bad, sizeof bad, &error_), error_);
    before = fingerprint(&r);
    REQUIRE_OK(eitp_trainer_step(r.trainer, &report, &error_), error_);
    after = fingerprint(&r);
    CHECK(!report.applied && before == after);
    bad = 0;
    REQUIRE_OK(eitp_variable_write(r.context, "transformer.ln_f.bias", 8, &bad, sizeof bad, &error_), error_);
    REQUIRE_OK(eitp_trainer_step(r.trainer, &report, &error_), error_);
    CHECK(report.applied);
    end_run(&r);
    scratch_remove(directory);
}

/* Resident memory that no file backs: pages of code come and go with the machine's load. 0 where /proc has it not. */
static long resident_kilobytes(void) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long kilobytes = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "RssAnon: %ld", &kilobytes) == 1)
            break;
    }
    if (file)
        fclose(file);
    return kilobytes;
}

/* After the trainer is made nothing allocates, and resident memory stays what it was after step 2, for 200 steps. */
static void training_neither_allocates_nor_grows(void) {
    char directory[512];
    variant v = default_variant();
    eitp_evaluation evaluation;
    faults f;
    run r;
    long allocations, resident;
    REQUIRE(scratch_make(directory) && write_text(directory));
    faults_begin(&f);
    REQUIRE_OK(make_run(&r, &f.host, &v, directory, &error_), error_);
    allocations = f.allocations;
    REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 0, &evaluation, &error_), error_);
    REQUIRE(step_many(&r, 2, NULL));
    resident_kilobytes();
    resident = resident_kilobytes();
    REQUIRE(step_many(&r, 200, NULL));
    REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 0, &evaluation, &error_), error_);
    CHECK_THAT(f.allocations == allocations, "%ld allocations", f.allocations - allocations);
    if (SHADOW_MEMORY)
        printf("SKIPPED resident memory: the sanitizer's own grows\n");
    else
        CHECK_THAT(resident_kilobytes() <= resident, "%ld kB more", resident_kilobytes() - resident);
    end_run(&r);
    faults_end(&f);
    scratch_remove(directory);
}

/* ---- A run that shrinks while it goes ---- */

/* Shrinks once; returns whether it did, having checked that memory fell and the step is the same. */
static int shrink(run *r) {
    eitp_shrink_report report;
    eitp_step_shape before = eitp_trainer_shape(r->trainer), after;
    size_t arena = eitp_context_arena_bytes(r->context);
    eitp_status status = eitp_trainer_shrink(r->trainer, &report, &error_);
    after = eitp_trainer_shape(r->trainer);
    CHECK_THAT(!status, "%s", error_.message);
    CHECK(eitp__step_shapes_equal(&report.before, &before) && eitp__step_shapes_equal(&report.after, &after));
    CHECK(after.batch_size * after.grad_accum == before.batch_size * before.grad_accum);
    CHECK(after.batch_size * after.micro_batches_per_pass <= before.batch_size * before.micro_batches_per_pass);
    CHECK(report.bytes_after ==
          eitp_context_arena_bytes(r->context) + eitp_context_variable_bytes(r->context, EITP_GRADIENT));
    if (report.shrunk)
        CHECK_THAT(report.bytes_after < report.bytes_before - report.bytes_before / 100, "%d bytes, and %d before",
                   (int)report.bytes_after, (int)report.bytes_before);
    else
        CHECK(report.bytes_after == report.bytes_before && arena == eitp_context_arena_bytes(r->context) &&
              eitp__step_shapes_equal(&before, &after));
    return report.shrunk;
}

/* Ways to run, from which there are other ways down. */
static const struct {
    int64_t batch_size, grad_accum, micro_batches_per_pass;
    int keep_gradients;
    const char *precision;
    eitp_optimizer optimizer;
    eitp_recompute recompute;
    uint64_t last_sample;
} shrinking_[] = {
    {2, 4, 4, 0, "fp32", EITP_ADAMW, EITP_RECOMPUTE_AUTO, 0},
    {4, 2, 2, 1, "fp32", EITP_ADAMW, EITP_RECOMPUTE_NONE, 0},
    {4, 4, 1, 0, "fp32", EITP_ADAMW, EITP_RECOMPUTE_NONE, 0},
    {7, 1, 1, 1, "fp32", EITP_ADAMW, EITP_RECOMPUTE_NONE, 45},
    {3, 3, 2, 0, "fp32", EITP_ADAMW, EITP_RECOMPUTE_AUTO, 0},
    {6, 2, 1, 0, "fp32", EITP_FACTORED, EITP_RECOMPUTE_LAYER, 0},
    {16, 1, 1, 0, "fp32", EITP_ADAMW, EITP_RECOMPUTE_NONE, 0},
};

static variant shrinking_variant(size_t i) {
    variant v = default_variant();
    v.batch_size = shrinking_[i].batch_size;
    v.grad_accum = shrinking_[i].grad_accum;
    v.micro_batches_per_pass = shrinking_[i].micro_batches_per_pass;
    v.keep_gradients = shrinking_[i].keep_gradients;
    v.precision = shrinking_[i].precision;
    v.optimizer = shrinking_[i].optimizer;
    v.plan.recompute = shrinking_[i].recompute;
    v.last_sample = shrinking_[i].last_sample;
    return v;
}

/* Half of an odd batch would have rows between its merged micro-batches, which not every task allows. */
static void shrinking_leaves_no_gaps_that_are_refused(void) {
    const eitp_host host = eitp_host_default();
    eitp_shrink_report report;
    eitp_step_report step;
    char directory[512];
    int shrunk = 0;
    variant v = default_variant();
    run r;
    v.batch_size = 9;
    v.block_size = 31;
    v.sums_of_32 = 1;
    v.dropout = 0;
    REQUIRE(scratch_make(directory) && write_text(directory));
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    eitp_trainer_destroy(r.trainer);
    r.trainer = NULL;
    r.task.allows_gaps = 0;
    r.config.plan.recompute = EITP_RECOMPUTE_NONE;
    REQUIRE_OK(eitp_trainer_create(&r.task, &r.config, &r.trainer, &error_), error_);
    CHECK(eitp_trainer_micro_batches_per_pass(r.trainer) == 1);
    do {
        REQUIRE_OK(eitp_trainer_shrink(r.trainer, &report, &error_), error_);
        shrunk += report.shrunk;
        REQUIRE_OK(eitp_trainer_step(r.trainer, &step, &error_), error_);
    } while (report.shrunk);
    CHECK(shrunk > 0 && report.after.batch_size == 1 && report.after.micro_batches_per_pass == 1 &&
          report.after.grad_accum == 18);
    end_run(&r);
    scratch_remove(directory);
}

/* Shrunk after every step until there is nothing smaller, each step has the loss of one that was never shrunk. */
static void shrinking_changes_no_step(void) {
    enum { STEPS = 7 };
    const eitp_host host = eitp_host_default();
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t i = 0; i < EITP__COUNT(shrinking_); i++) {
        const variant v = shrinking_variant(i);
        eitp_step_report reports[2][STEPS];
        eitp_evaluation evaluations[2];
        int shrunk = 0;
        for (int shrinks = 0; shrinks < 2; shrinks++) {
            run r;
            REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
            for (int s = 0; s < STEPS; s++) {
                REQUIRE_OK(eitp_trainer_step(r.trainer, &reports[shrinks][s], &error_), error_);
                if (shrinks)
                    shrunk += shrink(&r);
            }
            REQUIRE_OK(eitp_trainer_evaluate(r.trainer, 0, &evaluations[shrinks], &error_), error_);
            end_run(&r);
        }
        for (int s = 0; s < STEPS; s++) {
            const eitp_step_report *a = &reports[0][s], *b = &reports[1][s];
            CHECK_THAT(a->items == b->items && a->step == b->step && fabs(b->loss / a->loss - 1) < 1e-5 &&
                           fabs(b->grad_norm / a->grad_norm - 1) < 1e-3,
                       "%d, step %d: loss %.9g and %.9g, norm %.9g and %.9g, %d and %d tokens", (int)i, s + 1, a->loss,
                       b->loss, a->grad_norm, b->grad_norm, (int)a->items, (int)b->items);
        }
        CHECK_THAT(fabs(evaluations[1].loss / evaluations[0].loss - 1) < 1e-5 &&
                       evaluations[1].items == evaluations[0].items,
                   "%d: validation %.9g and %.9g", (int)i, evaluations[0].loss, evaluations[1].loss);
        CHECK_THAT(shrunk > 0, "%d was never shrunk", (int)i);
    }
    scratch_remove(directory);
}

/*
 * From a checkpoint of a shrunk run goes on, bit for bit, what was made as that is, or as it began; any other shape is
 * refused.
 */
static void a_shrunk_run_resumes_bit_for_bit(void) {
    const eitp_host host = eitp_host_default();
    static const char *const precisions[] = {"fp32", "fp16", "bf16", "fp32"};
    static const eitp_optimizer optimizers[] = {EITP_ADAMW, EITP_ADAMW, EITP_ADAMW8_SR, EITP_FACTORED};
    char directory[512], output[600], checkpoint[700];
    variant v = shrinking_variant(1);
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (int way = 0; way < 4; way++) {
        eitp_step_shape shape;
        eitp_checkpoint_info info;
        eitp_task_identity identity;
        uint32_t straight;
        variant other;
        run r;
        v.precision = precisions[way];
        v.optimizer = optimizers[way];
        other = v;
        snprintf(output, sizeof output, "%s/out-%d", directory, way);
        snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-3", output);
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        REQUIRE(step_many(&r, 3, NULL));
        REQUIRE(shrink(&r) && shrink(&r));
        shape = eitp_trainer_shape(r.trainer);
        REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
        REQUIRE_OK(r.task.identify(r.task.user, &identity, &error_), error_);
        REQUIRE(step_many(&r, 4, NULL));
        straight = fingerprint(&r);
        end_run(&r);
        REQUIRE_OK(eitp_checkpoint_read_info(&host, checkpoint, &info, &error_), error_);
        CHECK(info.initial_shape.batch_size == 4 && info.initial_shape.grad_accum == 2 &&
              info.initial_shape.micro_batches_per_pass == 2);
        CHECK(info.config.batch_size == shape.batch_size &&
              info.config.micro_batches_per_pass == shape.micro_batches_per_pass);
        CHECK(identity.hash && info.data.hash == identity.hash && info.data.first == identity.first &&
              info.data.count == identity.count);
        if (way == 0 || way == 2) {
            other.batch_size = shape.batch_size;
            other.grad_accum = shape.grad_accum;
            other.micro_batches_per_pass = shape.micro_batches_per_pass;
        } else if (way == 3) {
            other.batch_size = 8;
            other.grad_accum = other.micro_batches_per_pass = 1;
        }
        REQUIRE_OK(make_run(&r, &host, &other, directory, &error_), error_);
        if (way == 3) {
            CHECK(eitp_trainer_resume(r.trainer, checkpoint, &error_) == EITP_ERROR_ARGUMENT);
            CHECK_THAT(strstr(error_.message, "batch_size") != NULL, "%s", error_.message);
        } else {
            eitp_step_shape now;
            REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
            now = eitp_trainer_shape(r.trainer);
            CHECK(eitp__step_shapes_equal(&now, &shape));
            REQUIRE(step_many(&r, 4, NULL));
            CHECK_THAT(fingerprint(&r) == straight, "way %d", way);
        }
        /* What it began with is not forgotten by the next checkpoint. */
        if (way == 2) {
            snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-7", output);
            REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
            end_run(&r);
            REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
            REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
            CHECK(fingerprint(&r) == straight);
        }
        end_run(&r);
    }
    scratch_remove(directory);
}

/* Computing more again is preferred where it frees enough in less time, and then not a bit differs. */
static void shrinking_by_computing_again_changes_no_bit(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    variant v = default_variant();
    uint32_t straight;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    v.batch_size = 1;
    v.grad_accum = v.micro_batches_per_pass = 1; /* there is nothing else to go down to */
    v.is_wide = 1;                               /* gradients are computed again too */
    v.piece_bytes = 16384;
    straight = train_variant(&v, directory, 6);
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    REQUIRE(step_many(&r, 3, NULL));
    CHECK(shrink(&r));
    CHECK(eitp_trainer_statistics(r.trainer).recomputed > 0);
    REQUIRE(step_many(&r, 3, NULL));
    CHECK(fingerprint(&r) == straight);
    for (int i = 0; i < 20 && shrink(&r); i++)
        CHECK(i < 19);
    end_run(&r);
    scratch_remove(directory);
}

/* With nothing to compute again and one sequence there is nothing smaller; nor where gradients would take more. */
static void what_would_not_be_smaller_is_left_alone(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    variant v = default_variant();
    size_t variables;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    v.plan.recompute = EITP_RECOMPUTE_NONE;
    v.batch_size = v.grad_accum = v.micro_batches_per_pass = 1;
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    CHECK(!shrink(&r));
    end_run(&r);
    v.batch_size = 2;
    v.is_wide = 1;
    v.piece_bytes = 16384;
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    variables = eitp_variable_count(r.context);
    CHECK(!shrink(&r));
    CHECK(eitp_variable_count(r.context) == variables);
    CHECK(eitp_context_variable_bytes(r.context, EITP_GRADIENT) == 0);
    REQUIRE(step_many(&r, 2, NULL));
    end_run(&r);
    scratch_remove(directory);
}

static void released_blocks_go_back_to_the_system(void) {
    const eitp_host host = eitp_host_default();
    const size_t size = (size_t)16 << 20;
    void *first = host.allocator.allocate(NULL, size + size / 2, 64), *block, *small;
    long resident;
    host.allocator.release(NULL, first, size + size / 2);
    /* The C library keeps a block that is smaller than one it saw before. */
    block = host.allocator.allocate(NULL, size, 64);
    small = host.allocator.allocate(NULL, 1000, 64);
    REQUIRE(block && small);
    memset(block, 1, size);
    resident = resident_kilobytes();
    host.allocator.release(NULL, block, size);
    if (SHADOW_MEMORY || !resident)
        printf("SKIPPED resident memory\n");
    else
        CHECK_THAT(resident - resident_kilobytes() > 15000, "%ld kB, and %ld before", resident_kilobytes(), resident);
    host.allocator.release(NULL, small, 1000);
}

/* The memory goes back to the system, and another plan of the context still runs and gives what it gave. */
static void shrinking_gives_memory_back(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    variant v = default_variant();
    size_t before, after;
    long resident[2];
    float values[4] = {1, 2, 3, 4}, doubled[4];
    int64_t four = 4;
    eitp_graph *graph;
    eitp_plan *plan;
    eitp_tensor *input, *output;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    v.batch_size = 160;
    v.grad_accum = 2;
    v.micro_batches_per_pass = 2;
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    REQUIRE_OK(eitp_graph_create(r.context, &graph, &error_), error_);
    input = eitp_input(graph, "x", EITP_F32, 1, &four);
    output = eitp_output(eitp_add(input, input));
    REQUIRE_OK(eitp_plan_create(graph, &plan, &error_), error_);
    REQUIRE(step_many(&r, 2, NULL));
    before = eitp_context_arena_bytes(r.context);
    resident[0] = resident_kilobytes();
    CHECK(shrink(&r) && shrink(&r));
    REQUIRE(step_many(&r, 2, NULL));
    after = eitp_context_arena_bytes(r.context);
    resident[1] = resident_kilobytes();
    CHECK_THAT(after < before / 2 && before > (size_t)48 << 20, "%d bytes, and %d before", (int)after, (int)before);
    if (SHADOW_MEMORY)
        printf("SKIPPED resident memory: the sanitizer keeps what is released\n");
    else
        CHECK_THAT((double)(resident[0] - resident[1]) * 1024 > 0.9 * (double)(before - after),
                   "%ld kB resident, and %ld before; the arena has %d bytes, and had %d", resident[1], resident[0],
                   (int)after, (int)before);
    REQUIRE_OK(eitp_plan_write(plan, input, values, sizeof values, &error_), error_);
    REQUIRE_OK(eitp_plan_execute(plan, &error_), error_);
    REQUIRE_OK(eitp_plan_read(plan, output, doubled, sizeof doubled, &error_), error_);
    for (int i = 0; i < 4; i++)
        CHECK(doubled[i] == 2 * values[i]);
    eitp_plan_destroy(plan);
    eitp_graph_destroy(graph);
    end_run(&r);
    scratch_remove(directory);
}

/*
 * Each allocation of shrinking fails, alone or with all that follow: the run is shrunk or as it was, or cannot step and
 * says why; it can be saved at once, and goes on when there is memory. Not a weight is lost.
 */
static void shrinking_that_fails_loses_nothing(void) {
    char directory[512], output[600];
    int lost = 0, kept = 0;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    for (int way = 0; way < 4; way++) {
        /* The one whose run becomes several, with gradients of their own; and one that computes more again. */
        const variant v = shrinking_variant(way / 2 ? 0 : 6);
        const int persistent = way % 2;
        int more = 1;
        long all = 0;
        uint32_t saved = 0, straight = 0, shrunk = 0;
        /* Most allocations are of the search; those that follow it are the last. */
        for (long n = 0; more && !test_failures_; n += n < 10 ? 1 : n < all - all / 3 ? all / 20 : all / 60) {
            eitp_step_shape before, after;
            eitp_shrink_report report;
            eitp_step_report step;
            eitp_status status;
            int64_t newest = -1;
            size_t variables;
            faults f;
            run r;
            faults_begin(&f);
            REQUIRE_OK(make_run(&r, &f.host, &v, directory, &error_), error_);
            REQUIRE(step_many(&r, 1, NULL));
            saved = fingerprint(&r);
            before = eitp_trainer_shape(r.trainer);
            variables = eitp_variable_count(r.context);
            f.allocations = 0;
            f.fail_allocation = n;
            f.all_allocations = persistent;
            status = eitp_trainer_shrink(r.trainer, &report, &error_);
            CHECK_THAT(!status || status == EITP_ERROR_MEMORY, "allocation %ld: %s", n, error_.message);
            CHECK((status == EITP_OK) == report.shrunk);
            more = !n || f.allocations >= n;
            all = n ? all : f.allocations;
            if (status) {
                const int has_plans = eitp__step_plans_exist(&r.trainer->plans);
                kept += has_plans;
                lost += !has_plans;
                CHECK_THAT(has_plans || persistent, "allocation %ld: not as it was", n);
                after = eitp_trainer_shape(r.trainer);
                CHECK(eitp__step_shapes_equal(&before, &after));
                CHECK(variables == eitp_variable_count(r.context));
                CHECK(!eitp_context_variable_bytes(r.context, EITP_GRADIENT));
                if (persistent && !has_plans) {
                    eitp_evaluation evaluation;
                    CHECK(eitp_trainer_step(r.trainer, &step, &error_) == EITP_ERROR_MEMORY);
                    CHECK_THAT(strstr(error_.message, "can be saved") != NULL, "%s", error_.message);
                    CHECK(eitp_trainer_evaluate(r.trainer, 0, &evaluation, &error_) == EITP_ERROR_MEMORY);
                }
            }
            f.fail_allocation = 0;
            CHECK(fingerprint(&r) == saved);
            CHECK_THAT(!eitp_trainer_save(r.trainer, output, &error_), "%s", error_.message);
            CHECK(!eitp_checkpoint_newest(&f.host, output, &newest, &error_) && newest == 1);
            REQUIRE(step_many(&r, 2, NULL));
            if (n == 0)
                shrunk = fingerprint(&r);
            else if (status && !straight)
                straight = train_variant(&v, directory, 3);
            CHECK_THAT(fingerprint(&r) == (status ? straight : shrunk), "allocation %ld", n);
            end_run(&r);
            f.fail_allocation = 0;
            faults_end(&f);
        }
    }
    CHECK_THAT(lost > 10 && kept > 10, "%d without plans, %d as before", lost, kept);
    scratch_remove(directory);
}

/* Each allocation fails once: every object is whole or absent, and nothing leaks. */
static void every_failed_allocation_is_an_error(void) {
    char directory[512];
    variant v = default_variant();
    faults f;
    int more = 1;
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (long n = 1; more && !test_failures_; n += n < 120 ? 1 : 23) {
        run r;
        eitp_status status;
        faults_begin(&f);
        f.fail_allocation = n;
        status = make_run(&r, &f.host, &v, directory, &error_);
        CHECK_THAT(!status || status == EITP_ERROR_MEMORY, "allocation %ld: %s", n, error_.message);
        if (!status) {
            status = eitp_trainer_save(r.trainer, scratch_path(directory, "out"), &error_);
            CHECK_THAT(!status || status == EITP_ERROR_MEMORY, "allocation %ld: %s", n, error_.message);
        }
        end_run(&r);
        more = faults_end(&f);
    }
    scratch_remove(directory);
}

/* Each file call of a save fails once, or it and all later ones: the checkpoint before it still resumes, bit for bit.
 */
static void every_failed_file_call_leaves_the_last_checkpoint(void) {
    char directory[512], output[600], checkpoint[700];
    variant v = default_variant();
    faults f;
    run r;
    uint32_t saved;
    int sweeps = 0;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-1", output);
    faults_begin(&f);
    REQUIRE_OK(make_run(&r, &f.host, &v, directory, &error_), error_);
    REQUIRE(step_many(&r, 1, NULL));
    saved = fingerprint(&r);
    REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
    REQUIRE(step_many(&r, 1, NULL));
    for (int persistent = 0; persistent < 2; persistent++) {
        int failed = 1;
        for (long n = 1; failed && !test_failures_; n++) {
            int64_t newest = -1;
            eitp_status status;
            f.file_calls = 0;
            f.fail_file_call = n;
            f.all_file_calls = persistent;
            f.code = ENOSPC;
            f.tear = 1;
            status = eitp_trainer_save(r.trainer, output, &error_);
            failed = f.file_calls >= n;
            f.fail_file_call = 0;
            CHECK_THAT(!failed || status == EITP_ERROR_IO || status == EITP_OK, "call %ld (%s): %s", n, f.failed_call,
                       error_.message);
            CHECK(!eitp_checkpoint_newest(&f.host, output, &newest, &error_));
            CHECK_THAT(newest == 2 || (status && newest == 1), "call %ld (%s): newest is %d", n, f.failed_call,
                       (int)newest);
            if (newest == 2)
                CHECK(!eitp__remove_tree(&f.host, scratch_path(output, "checkpoint-2"), &error_));
            CHECK_THAT(!eitp_checkpoint_prune(&f.host, output, 2, &error_), "%s", error_.message);
            sweeps++;
        }
    }
    CHECK_THAT(sweeps > 60, "%d", sweeps);
    REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
    CHECK(fingerprint(&r) == saved);
    end_run(&r);
    faults_end(&f);
    scratch_remove(directory);
}

/* A write of a step that is there already: cut off at any call, one of the two is found under its name. */
static void replacing_a_checkpoint_never_loses_it(void) {
    char directory[512], output[600], checkpoint[700];
    variant v = default_variant();
    faults f;
    run r;
    uint32_t saved;
    int failed = 1;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-1", output);
    faults_begin(&f);
    REQUIRE_OK(make_run(&r, &f.host, &v, directory, &error_), error_);
    REQUIRE(step_many(&r, 1, NULL));
    saved = fingerprint(&r);
    REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
    for (long n = 1; failed && !test_failures_; n++) {
        int64_t newest = -1;
        f.file_calls = 0;
        f.fail_file_call = n;
        f.all_file_calls = 1;
        eitp_trainer_save(r.trainer, output, &error_);
        failed = f.file_calls >= n;
        f.fail_file_call = 0;
        CHECK_THAT(!eitp_checkpoint_newest(&f.host, output, &newest, &error_) && newest == 1, "call %ld (%s): %d", n,
                   f.failed_call, (int)newest);
        CHECK_THAT(!eitp_trainer_resume(r.trainer, checkpoint, &error_), "call %ld: %s", n, error_.message);
        CHECK(fingerprint(&r) == saved);
    }
    end_run(&r);
    faults_end(&f);
    scratch_remove(directory);
}

/* ---- Steps and resumes that fail ---- */

static uint32_t file_checksum(const char *directory, const char *name) {
    FILE *file = fopen(scratch_path(directory, name), "rb");
    unsigned char bytes[4096];
    uint32_t crc = 0;
    size_t size;
    while (file && (size = fread(bytes, 1, sizeof bytes, file)) > 0)
        crc = eitp__crc32c(crc, bytes, size);
    CHECK_THAT(file != NULL, "there is no %s in %s", name, directory);
    if (file)
        fclose(file);
    return crc;
}

static uint32_t checkpoint_checksum(const char *checkpoint) {
    return file_checksum(checkpoint, "model.safetensors") ^ (file_checksum(checkpoint, "optimizer.safetensors") << 1);
}

static void check_torn(eitp_status status, const char *what) {
    CHECK_THAT(status == EITP_ERROR_TORN && strstr(error_.message, "resume"), "%s: %s", what, error_.message);
}

/* A torn trainer does nothing but resume, and says so. */
static void check_refuses_all(run *r, const char *output) {
    eitp_step_report step;
    eitp_evaluation evaluation;
    eitp_shrink_report shrunk;
    check_torn(eitp_trainer_step(r->trainer, &step, &error_), "step");
    check_torn(eitp_trainer_evaluate(r->trainer, 0, &evaluation, &error_), "evaluate");
    check_torn(eitp_trainer_shrink(r->trainer, &shrunk, &error_), "shrink");
    check_torn(eitp_trainer_save(r->trainer, output, &error_), "save");
    CHECK(access(output, F_OK) != 0);
}

/* Ways to step: the update in the plan of the backward pass, or in one of its own after several. */
static const struct {
    const char *precision;
    eitp_optimizer optimizer;
    int64_t micro_batches_per_pass;
} half_done_[] = {{"fp32", EITP_ADAMW, 2}, {"fp32", EITP_ADAMW, 1}, {"bf16", EITP_ADAMW8_SR, 2}};

/*
 * Each file call of a step with offloaded variables fails. Either nothing was changed, and what is saved is the state
 * before the step; or the trainer is torn, refuses all but a resume, and then has the bits of an undisturbed run.
 */
static void a_step_that_fails_is_whole_or_torn(void) {
    char directory[512], output[600], checkpoint[700], other[600];
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-2", output);
    snprintf(other, sizeof other, "%s/other", directory);
    for (size_t way = 0; way < EITP__COUNT(half_done_); way++) {
        const eitp_step_report untouched = EITP__ZERO;
        variant v = default_variant();
        uint32_t before, after, saved;
        int whole = 0, torn = 0;
        faults f;
        run r;
        v.threads = 1;
        v.is_wide = 1;
        v.piece_bytes = 65536;
        v.offload = EITP_OFFLOAD_ALL;
        v.precision = half_done_[way].precision;
        v.optimizer = half_done_[way].optimizer;
        v.micro_batches_per_pass = half_done_[way].micro_batches_per_pass;
        faults_begin(&f);
        f.tear = 1;
        REQUIRE_OK(make_run(&r, &f.host, &v, directory, &error_), error_);
        REQUIRE(step_many(&r, 2, NULL));
        before = fingerprint(&r);
        REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
        saved = checkpoint_checksum(checkpoint);
        REQUIRE(step_many(&r, 1, NULL));
        after = fingerprint(&r);
        CHECK(after != before);
        for (long n = 1; !test_failures_; n += SHADOW_MEMORY ? 2 : 1) {
            eitp_step_report report = EITP__ZERO;
            eitp_status status;
            REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
            f.file_calls = 0;
            f.fail_file_call = n;
            status = eitp_trainer_step(r.trainer, &report, &error_);
            if (f.file_calls < n)
                break;
            f.fail_file_call = 0;
            CHECK_THAT(status == EITP_ERROR_IO && strstr(error_.message, "step 3"), "call %ld: %s", n, error_.message);
            CHECK(eitp_trainer_steps_done(r.trainer) == 2 && !memcmp(&report, &untouched, sizeof report));
            if (eitp_trainer_is_torn(r.trainer)) {
                torn++;
                CHECK_THAT(strstr(error_.message, "resume from the last checkpoint") != NULL, "%s", error_.message);
                check_refuses_all(&r, other);
                REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
            } else {
                whole++;
                CHECK_THAT(strstr(error_.message, "nothing was changed") != NULL, "%s", error_.message);
                REQUIRE_OK(eitp_trainer_save(r.trainer, other, &error_), error_);
                CHECK(checkpoint_checksum(scratch_path(other, "checkpoint-2")) == saved);
                scratch_remove(other);
            }
            CHECK_THAT(!eitp_trainer_is_torn(r.trainer) && fingerprint(&r) == before, "way %d, call %ld", (int)way, n);
            REQUIRE(step_many(&r, 1, NULL));
            CHECK_THAT(fingerprint(&r) == after, "way %d, call %ld: other bits", (int)way, n);
        }
        CHECK_THAT(whole > 4 && torn > 8, "way %d: %d whole and %d torn", (int)way, whole, torn);
        f.fail_file_call = 0;
        end_run(&r);
        faults_end(&f);
    }
    scratch_remove(directory);
}

/*
 * Each file call and each allocation of a resume fails. Either the trainer is as it was, or it is torn until a resume
 * succeeds; or the failure did not matter.
 */
static void a_resume_that_fails_is_whole_or_torn(void) {
    static const struct {
        eitp_offload offload;
        eitp_optimizer optimizer; /* of the checkpoint's, or another */
    } ways[] = {{EITP_OFFLOAD_NONE, EITP_ADAMW}, {EITP_OFFLOAD_ALL, EITP_ADAMW}, {EITP_OFFLOAD_ALL, EITP_FACTORED}};
    char directory[512], output[600], checkpoint[700], other[600];
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-2", output);
    snprintf(other, sizeof other, "%s/other", directory);
    for (size_t way = 0; way < 2 * EITP__COUNT(ways); way++) {
        const int of_memory = way % 2;
        variant v = default_variant();
        uint32_t resumed, after;
        int whole = 0, torn = 0, more = 1;
        faults f;
        run r;
        v.threads = 1;
        faults_begin(&f);
        REQUIRE_OK(make_run(&r, &f.host, &v, directory, &error_), error_);
        REQUIRE(step_many(&r, 2, NULL));
        REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
        end_run(&r);
        v.offload = ways[way / 2].offload;
        v.optimizer = ways[way / 2].optimizer;
        REQUIRE_OK(make_run(&r, &f.host, &v, directory, &error_), error_);
        REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
        resumed = fingerprint(&r);
        REQUIRE(step_many(&r, 1, NULL));
        after = fingerprint(&r);
        for (long n = 1; more && !test_failures_; n += SHADOW_MEMORY ? 5 : 1) {
            eitp_status status;
            f.file_calls = f.allocations = 0;
            f.fail_file_call = of_memory ? 0 : n;
            f.fail_allocation = of_memory ? n : 0;
            status = eitp_trainer_resume(r.trainer, checkpoint, &error_);
            more = (of_memory ? f.allocations : f.file_calls) >= n;
            f.fail_file_call = f.fail_allocation = 0;
            CHECK_THAT(!status || status == (of_memory ? EITP_ERROR_MEMORY : EITP_ERROR_IO), "call %ld: %s", n,
                       error_.message);
            if (status && !eitp_trainer_is_torn(r.trainer)) {
                whole++;
                CHECK_THAT(fingerprint(&r) == after && eitp_trainer_steps_done(r.trainer) == 3,
                           "way %d, call %ld: changed by what was refused: %s", (int)way, n, error_.message);
                continue;
            }
            if (status) {
                torn++;
                CHECK_THAT(strstr(error_.message, "half-way; resume again") != NULL, "%s", error_.message);
                check_refuses_all(&r, other);
                REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
            }
            CHECK_THAT(!eitp_trainer_is_torn(r.trainer) && fingerprint(&r) == resumed, "way %d, call %ld", (int)way, n);
            REQUIRE(step_many(&r, 1, NULL));
            CHECK_THAT(fingerprint(&r) == after, "way %d, call %ld: other bits", (int)way, n);
        }
        CHECK_THAT(whole > 4 && torn > 8, "way %d: %d whole and %d torn", (int)way, whole, torn);
        end_run(&r);
        faults_end(&f);
    }
    scratch_remove(directory);
}

/* Flips a bit `from_end` bytes before the end of a file, or, to flip it back, does so again; returns 0 if it fails. */
static int flip_bit(const char *path, long from_end) {
    FILE *file = fopen(path, "r+b");
    int byte;
    if (!file)
        return 0;
    fseek(file, -from_end, SEEK_END);
    byte = fgetc(file);
    fseek(file, -from_end, SEEK_END);
    fputc(byte ^ 1, file);
    return !fclose(file);
}

/* What is found out late, in the last bytes of the last file, has changed neither weights nor shape. */
static void a_resume_that_is_refused_changes_nothing(void) {
    static const char *const names[] = {"model.safetensors", "optimizer.safetensors", "optimizer.safetensors"};
    const eitp_host host = eitp_host_default();
    char directory[512], output[600], checkpoint[700], path[800], moved[800];
    const variant v = shrinking_variant(1);
    eitp_step_shape asked, shape;
    uint32_t before, after;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-2", output);
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    REQUIRE(step_many(&r, 2, NULL) && shrink(&r));
    REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
    end_run(&r);
    after = train_variant(&v, directory, 2);
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    REQUIRE(step_many(&r, 1, NULL));
    asked = eitp_trainer_shape(r.trainer);
    before = fingerprint(&r);
    for (size_t i = 0; i < EITP__COUNT(names); i++) {
        const int is_missing = i == 2;
        snprintf(path, sizeof path, "%s/%s", checkpoint, names[i]);
        snprintf(moved, sizeof moved, "%s/moved", checkpoint);
        REQUIRE(is_missing ? !rename(path, moved) : flip_bit(path, 1));
        CHECK(eitp_trainer_resume(r.trainer, checkpoint, &error_) ==
              (is_missing ? EITP_ERROR_ARGUMENT : EITP_ERROR_FORMAT));
        CHECK_THAT(strstr(error_.message, names[i]) != NULL, "%s", error_.message);
        CHECK_THAT(fingerprint(&r) == before, "%s: weights or state were changed", error_.message);
        shape = eitp_trainer_shape(r.trainer);
        CHECK_THAT(eitp__step_shapes_equal(&shape, &asked), "%s: the shape was changed", error_.message);
        CHECK(eitp_trainer_steps_done(r.trainer) == 1 && !eitp_trainer_is_torn(r.trainer));
        REQUIRE(is_missing ? !rename(moved, path) : flip_bit(path, 1));
    }
    REQUIRE(step_many(&r, 1, NULL));
    CHECK(fingerprint(&r) == after);
    REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
    shape = eitp_trainer_shape(r.trainer);
    CHECK(!eitp__step_shapes_equal(&shape, &asked));
    end_run(&r);
    scratch_remove(directory);
}

/* After the last sample a step is the end, and no step: nothing is changed, however often it is asked for. */
static void epochs_are_samples_and_steps(void) {
    eitp_trainer_config config = eitp_trainer_config_default();
    eitp_task task = EITP__ZERO;
    task.samples[EITP_TRAINING] = 30;
    config.batch_size = 2;
    config.grad_accum = 2;
    CHECK(!eitp_trainer_config_set_epochs(&config, &task, 1, &error_) && config.last_sample == 30);
    CHECK(config.schedule.steps == 8);
    CHECK(!eitp_trainer_config_set_epochs(&config, &task, 0.1, &error_) && config.last_sample == 3);
    CHECK(config.schedule.steps == 1);
    CHECK(!eitp_trainer_config_set_epochs(&config, &task, 1e-9, &error_) && config.last_sample == 1);
    CHECK(!eitp_trainer_config_set_epochs(&config, &task, 2.5, &error_) && config.last_sample == 75);
    CHECK(eitp_trainer_config_set_epochs(&config, &task, 0, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_trainer_config_set_epochs(&config, &task, NAN, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(eitp_trainer_config_set_epochs(&config, &task, 1e300, &error_) == EITP_ERROR_ARGUMENT);
    config.grad_accum = 0;
    CHECK(eitp_trainer_config_set_epochs(&config, &task, 1, &error_) == EITP_ERROR_ARGUMENT);
    CHECK(config.last_sample == 75);
}

static void there_is_no_step_after_the_last_sample(void) {
    static const int64_t merged[] = {2, 1};
    const eitp_host host = eitp_host_default();
    char directory[512];
    REQUIRE(scratch_make(directory) && write_text(directory));
    for (size_t way = 0; way < EITP__COUNT(merged); way++) {
        variant v = default_variant();
        eitp_step_report report, last;
        uint32_t before;
        run r;
        v.micro_batches_per_pass = merged[way];
        v.last_sample = 9; /* of 4 a step */
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        REQUIRE(step_many(&r, 2, NULL));
        REQUIRE_OK(eitp_trainer_step(r.trainer, &report, &error_), error_);
        CHECK(report.step == 3 && report.items == 32);
        before = fingerprint(&r);
        last = report;
        for (int i = 0; i < 2; i++) {
            CHECK(eitp_trainer_step(r.trainer, &report, &error_) == EITP_END_OF_DATA);
            CHECK_THAT(strstr(error_.message, "9 samples") != NULL, "%s", error_.message);
            CHECK(eitp_trainer_steps_done(r.trainer) == 3 && !memcmp(&report, &last, sizeof last));
            CHECK_THAT(fingerprint(&r) == before, "way %d: a step without samples changed something", (int)way);
        }
        CHECK(!eitp_trainer_is_torn(r.trainer));
        end_run(&r);
    }
    scratch_remove(directory);
}

static void the_newest_are_kept_by_step_number(void) {
    const eitp_host host = eitp_host_default();
    static const char *const names[] = {"checkpoint-9",    "checkpoint-10",  "checkpoint-200",        "checkpoint-1000",
                                        "checkpoint-best", "checkpoint-010", ".checkpoint-7.partial", "notes"};
    char directory[512];
    int64_t newest;
    eitp_path_info info = EITP__ZERO;
    REQUIRE(scratch_make(directory));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        REQUIRE_OK(eitp__make_directories(&host, scratch_path(directory, names[i]), &error_), error_);
    REQUIRE_OK(eitp_checkpoint_newest(&host, directory, &newest, &error_), error_);
    CHECK(newest == 1000);
    REQUIRE_OK(eitp_checkpoint_prune(&host, directory, 2, &error_), error_);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int kept = i != 0 && i != 1 && i != 6;
        REQUIRE_OK(eitp__path_info(&host, scratch_path(directory, names[i]), &info, &error_), error_);
        CHECK_THAT((info.kind == EITP_PATH_DIRECTORY) == kept, "%s", names[i]);
    }
    REQUIRE_OK(eitp_checkpoint_newest(&host, scratch_path(directory, "none"), &newest, &error_), error_);
    CHECK(newest == -1);
    scratch_remove(directory);
}

/* The schedule's corners. */
static void schedules_rise_and_fall(void) {
    eitp_schedule schedule;
    memset(&schedule, 0, sizeof schedule);
    schedule.peak = 2;
    schedule.final = 0.5;
    schedule.warmup = 4;
    schedule.steps = 12;
    CHECK(eitp_schedule_rate(&schedule, 1) == 0.5 && eitp_schedule_rate(&schedule, 4) == 2);
    CHECK(eitp_schedule_rate(&schedule, 12) == 2);
    schedule.kind = EITP_SCHEDULE_LINEAR;
    CHECK(eitp_schedule_rate(&schedule, 5) == 2 && eitp_schedule_rate(&schedule, 9) == 1.25);
    CHECK(eitp_schedule_rate(&schedule, 13) == 0.5 && eitp_schedule_rate(&schedule, 99) == 0.5);
    schedule.kind = EITP_SCHEDULE_COSINE;
    CHECK(eitp_schedule_rate(&schedule, 5) == 2 && fabs(eitp_schedule_rate(&schedule, 9) - 1.25) < 1e-12);
    CHECK(fabs(eitp_schedule_rate(&schedule, 13) - 0.5) < 1e-12);
    schedule.kind = EITP_SCHEDULE_COSINE_WITH_RESTARTS;
    CHECK(eitp_schedule_rate(&schedule, 5) == 2 && fabs(eitp_schedule_rate(&schedule, 9) - 1.25) < 1e-12);
    schedule.cycles = 2;
    CHECK(eitp_schedule_rate(&schedule, 5) == 2 && fabs(eitp_schedule_rate(&schedule, 7) - 1.25) < 1e-12);
    CHECK(fabs(eitp_schedule_rate(&schedule, 8) - (0.5 + 1.5 * 0.5 * (1 - sqrt(0.5)))) < 1e-12);
    CHECK(eitp_schedule_rate(&schedule, 9) == 2 && fabs(eitp_schedule_rate(&schedule, 11) - 1.25) < 1e-12);
    CHECK(eitp_schedule_rate(&schedule, 13) == 0.5 && eitp_schedule_rate(&schedule, 99) == 0.5);
}

/* Sampling follows the probabilities, and its limits hold. */
static void sampling_keeps_to_its_limits(void) {
    eitp_context_config config = eitp_context_config_default();
    eitp_transformer_config shape = small_model(0);
    eitp_context *context;
    eitp_model *model;
    eitp_generator *generator;
    eitp_sampling sampling = eitp_sampling_default();
    int32_t token = 1, greedy;
    int counts[5] = {0, 0, 0, 0, 0};
    shape.vocabulary = 5;
    REQUIRE_OK(eitp_context_create(&config, &context, &error_), error_);
    REQUIRE_OK(eitp_model_create(context, &shape, &model, &error_), error_);
    REQUIRE_OK(eitp_model_initialize(model, 1, &error_), error_);
    REQUIRE_OK(eitp_generator_create(model, 0, &generator, &error_), error_);
    REQUIRE_OK(eitp_generator_feed(generator, &token, 1, &error_), error_);
    sampling.temperature = 0;
    greedy = eitp_generator_sample(generator, &sampling);
    sampling.temperature = 1;
    sampling.top_k = 1;
    CHECK(eitp_generator_sample(generator, &sampling) == greedy);
    sampling.top_k = 0;
    sampling.top_p = 1e-9;
    CHECK(eitp_generator_sample(generator, &sampling) == greedy);
    for (int way = 0; way < 3; way++) {
        memset(counts, 0, sizeof counts);
        sampling.top_k = way == 1 ? 2 : 0;
        sampling.top_p = way == 2 ? 0.5 : 1;
        for (uint64_t seed = 0; seed < 4000; seed++) {
            sampling.seed = seed;
            counts[eitp_generator_sample(generator, &sampling)]++;
        }
        if (way == 0) {
            const float *logits = eitp_generator_logits(generator);
            double total = 0;
            for (int i = 0; i < 5; i++)
                total += exp((double)logits[i]);
            for (int i = 0; i < 5; i++)
                CHECK_THAT(fabs(counts[i] / 4000.0 - exp((double)logits[i]) / total) < 0.035, "token %d: %d", i,
                           counts[i]);
        } else if (way == 1) {
            int drawn = 0;
            for (int i = 0; i < 5; i++)
                drawn += counts[i] > 0;
            CHECK(drawn == 2 && counts[greedy] > 0);
        }
    }
    eitp_generator_destroy(generator);
    eitp_model_destroy(model);
    eitp_context_destroy(context);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(any_number_of_threads_gives_the_same_bits),
        TEST(what_matters_changes_the_bits),
        TEST(a_resumed_run_has_the_bits_of_a_straight_one),
        TEST(a_resume_that_would_change_bits_is_refused),
        TEST(damage_is_found),
        TEST(accumulation_is_one_large_batch),
        TEST(releasing_gradients_changes_no_bit),
        TEST(recomputing_changes_no_bit),
        TEST(offloading_changes_no_bit),
        TEST(an_offloaded_run_goes_on_in_memory),
        TEST(it_learns),
        TEST(moments_are_converted),
        TEST(velocities_are_converted),
        TEST(a_first_moment_begins),
        TEST(sixteen_bits_follow_f32),
        TEST(a_loss_scale_that_is_too_large_comes_down),
        TEST(a_step_that_is_not_finite_changes_nothing),
        TEST(training_neither_allocates_nor_grows),
        TEST(shrinking_changes_no_step),
        TEST(shrinking_leaves_no_gaps_that_are_refused),
        TEST(a_shrunk_run_resumes_bit_for_bit),
        TEST(shrinking_by_computing_again_changes_no_bit),
        TEST(what_would_not_be_smaller_is_left_alone),
        TEST(released_blocks_go_back_to_the_system),
        TEST(shrinking_gives_memory_back),
        TEST(shrinking_that_fails_loses_nothing),
        TEST(every_failed_allocation_is_an_error),
        TEST(every_failed_file_call_leaves_the_last_checkpoint),
        TEST(replacing_a_checkpoint_never_loses_it),
        TEST(a_step_that_fails_is_whole_or_torn),
        TEST(a_resume_that_fails_is_whole_or_torn),
        TEST(a_resume_that_is_refused_changes_nothing),
        TEST(epochs_are_samples_and_steps),
        TEST(there_is_no_step_after_the_last_sample),
        TEST(the_newest_are_kept_by_step_number),
        TEST(schedules_rise_and_fall),
        TEST(sampling_keeps_to_its_limits),
    };
    return RUN_TESTS(tests, argc, argv);
}
