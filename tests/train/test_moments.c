/* Switching optimizers: moments are converted, and training continues. */
#include "tests/support/trainer_run.h"

static int has_8bit_moments(eitp_optimizer optimizer) {
    return optimizer == EITP_ADAMW8 || optimizer == EITP_ADAMW8_SR;
}

/* Reads the variable "<prefix>.<parameter>" of a run; zeros if there is none. */
static void read_state(const run *r, const char *prefix, const char *parameter, float *values, int64_t count) {
    char name[256];
    snprintf(name, sizeof name, "%s.%s", prefix, parameter);
    memset(values, 0, (size_t)count * sizeof *values);
    if (eitp_variable_find(r->context, name) >= 0)
        CHECK(!eitp_variable_read_f32(r->context, name, 0, values, count, &error_));
}

/* A matrix and a vector of the model. */
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

/* Compares sums of rows and columns, which every form preserves. */
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

/* Declares a variable of the program with the name of a moment of a parameter that does not exist. */
static void declare_namesake(eitp_context *context) {
    const int64_t three = 3;
    eitp_graph *graph = NULL;
    CHECK(!eitp_graph_create(context, &graph, &error_));
    CHECK(eitp_variable_tensor(graph, "adamw.m.nobody", EITP_CACHE, EITP_F32, 1, &three));
    eitp_graph_destroy(graph);
}

/* Switching optimizers preserves the row and column sums of the second moment, and training continues. */
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
        int is_8bit = has_8bit_moments(ways[w][1]);
        snprintf(what, sizeof what, "%s to %s", eitp_optimizer_get(ways[w][0])->name,
                 eitp_optimizer_get(ways[w][1])->name);
        REQUIRE(scratch_make(directory) && write_text(directory));
        snprintf(output, sizeof output, "%s/out", directory);
        snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-30", output);
        for (int i = 0; i < 2; i++) {
            variants[i].precision = "bf16";
            variants[i].optimizer = ways[w][i];
            REQUIRE_OK(make_run(&r, &host, &variants[i], directory, &error_), error_);
            declare_namesake(r.context);
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

/* Reads the first moment of a matrix, in any form, or the velocity of SGD. */
static void read_first_moment(const run *r, eitp_optimizer optimizer, const char *parameter, float *m) {
    float scales[CONVERTED / EITP__MOMENT_GROUP];
    int8_t codes[CONVERTED];
    char name[256];
    if (!has_8bit_moments(optimizer)) {
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

/* The moments of the matrix and the vector. */
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

/* Checks the conversion of a velocity with momentum 0.9, for beta2 0.999: to the mean gradient, and to the squares that
   pure noise would have, by rows and columns, or by a vector's mean. */
static void check_from_velocity(const converted *from, const converted *to, eitp_optimizer optimizer,
                                const char *what) {
    static float squares[CONVERTED];
    const double factor = (1 - 0.81) / (1 - pow(0.81, CONVERTED_STEPS)) * (1 - pow(0.999, CONVERTED_STEPS));
    double mean = 0, unit = 0;
    int is_8bit = has_8bit_moments(optimizer);
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

/* Checks the conversion to a velocity with momentum 0.8, whose remaining decay has the same sum. */
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

/* Between the forms of AdamW and SGD, whose learning rates differ a hundredfold: updates have the usual size at once.
   */
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

/* Replaces the value of a member in a checkpoint's state. The lengths may differ. */
static int write_member(const char *checkpoint, const char *member, const char *value) {
    static char text[8192];
    char path[800], *at;
    size_t size;
    FILE *file;
    snprintf(path, sizeof path, "%s/trainer_state.json", checkpoint);
    file = fopen(path, "rb");
    if (!file)
        return 0;
    size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = 0;
    at = strstr(text, member);
    file = at ? fopen(path, "wb") : NULL;
    if (!file)
        return 0;
    at += strlen(member);
    fprintf(file, "%.*s%s%s", (int)(at - text), text, value, at + strcspn(at, ",}"));
    return !fclose(file);
}

/* Turns a checkpoint into one of an earlier version, without a manifest. */
static int write_version(const char *checkpoint, const char *version) {
    return write_member(checkpoint, "\"version\": ", version) && !remove(scratch_path(checkpoint, "manifest.json"));
}

/* A velocity is not accepted as the moments of the optimizer that the checkpoint names. */
static void missing_moments_are_refused(void) {
    const eitp_host host = eitp_host_default();
    char directory[512], output[600], checkpoint[700];
    variant v = default_variant();
    double loss = 0;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-2", output);
    v.optimizer = EITP_SGD;
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    REQUIRE(step_many(&r, 2, &loss));
    REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
    end_run(&r);
    REQUIRE(write_version(checkpoint, "4"));
    for (int is_factored = 0; is_factored < 2; is_factored++) {
        REQUIRE(write_member(checkpoint, "\"optimizer\": ", is_factored ? "\"factored\"" : "\"adamw\""));
        v.optimizer = EITP_ADAMW8;
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        CHECK(eitp_trainer_resume(r.trainer, checkpoint, &error_) == EITP_ERROR_FORMAT);
        CHECK_THAT(strstr(error_.message, "no second moment of '"), "%s", error_.message);
        end_run(&r);
    }
    scratch_remove(directory);
}

/* A factored state before version 4 has no first moment: it starts at zero, and the second moment is kept. */
static void a_missing_first_moment_starts_at_zero(void) {
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
            REQUIRE(write_version(checkpoint, "3"));
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

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(moments_are_converted),
        TEST(velocities_are_converted),
        TEST(a_missing_first_moment_starts_at_zero),
        TEST(missing_moments_are_refused),
    };
    return RUN_TESTS(tests, argc, argv);
}
