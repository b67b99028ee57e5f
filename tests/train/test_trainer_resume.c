/* Checkpoints: a resumed run has the bits of an uninterrupted one; damage and differences are refused. */
#include "tests/support/checkpoints.h"
#include "tests/support/shrinking.h"
#include "tests/support/trainer_run.h"

/* 12 steps without a break, compared with a save, new objects, a resume and the remaining steps. Interrupted at several
   steps, with weights in files of every dtype. */
static void a_resumed_run_has_the_bits_of_an_uninterrupted_one(void) {
    const eitp_host host = eitp_host_default();
    char directory[512];
    variant v = default_variant();
    size_t set = 0;
    REQUIRE(scratch_make(directory) && write_text(directory));
    while (next_set(&set, &v)) {
        uint32_t straight = train_variant(&v, directory, 12);
        static const int64_t cuts[] = {0, 1, 5, 11};
        for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
            static const eitp_save_dtype dtypes[] = {EITP_SAVE_AS_LOADED, EITP_SAVE_BF16, EITP_SAVE_F16,
                                                     EITP_SAVE_BF16};
            char output[600], checkpoint[700];
            run r;
            v.save_dtype = dtypes[c];
            snprintf(output, sizeof output, "%s/out-%d", directory, (int)c);
            snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-%d", output, (int)cuts[c]);
            REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
            REQUIRE(step_many(&r, cuts[c], NULL));
            REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
            end_run(&r);
            v.threads = 3;
            REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
            v.threads = 2;
            REQUIRE(step_many(&r, 2, NULL)); /* the resume must replace these */
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

/* The dtype of each tensor in a checkpoint's weights. */
static int weights_are(const char *checkpoint, eitp_dtype dtype) {
    const eitp_host host = eitp_host_default();
    eitp__safetensors *file = NULL;
    int are = !eitp__safetensors_open(&host, scratch_path(checkpoint, "model.safetensors"), &file, &error_);
    for (size_t i = 0; are && i < eitp__safetensors_count(file); i++)
        are = eitp__safetensors_at(file, i)->dtype == (int)dtype;
    eitp__safetensors_close(file);
    return are;
}

/* A program that loads a checkpoint as a model gets the exact weights, as long as the saved files are all there. */
static void a_checkpoint_is_read_as_a_model_with_its_exact_weights(void) {
    static const eitp_save_dtype dtypes[] = {EITP_SAVE_F32, EITP_SAVE_BF16, EITP_SAVE_F16};
    const eitp_host host = eitp_host_default();
    const char *const checkpoint = "out/checkpoint-2";
    char directory[512], path[700];
    variant v = default_variant();
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(path, sizeof path, "%s/%s", directory, checkpoint);
    for (size_t i = 0; i < EITP__COUNT(dtypes); i++) {
        uint32_t exact, read = 0, rounded = 0;
        uint64_t planned, largest, bytes = 0;
        eitp_path_info info;
        run r;
        v.save_dtype = dtypes[i];
        REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
        REQUIRE(step_many(&r, 2, NULL));
        REQUIRE_OK(eitp_trainer_save(r.trainer, scratch_path(directory, "out"), &error_), error_);
        exact = weights_of(r.context);
        eitp__trainer_checkpoint_size(r.trainer, &planned, &largest);
        end_run(&r);
        CHECK_THAT(!read_checkpoint_weights(&host, path, &read) && read == exact, "%d: %s", (int)i, error_.message);
        CHECK(!eitp__path_info(&host, scratch_path(path, "optimizer.safetensors"), &info, &error_));
        bytes += info.size;
        CHECK(!eitp__path_info(&host, scratch_path(path, "model.safetensors"), &info, &error_));
        bytes += info.size;
        CHECK_THAT(bytes < planned && planned < bytes + bytes / 4 + 65536, "%d: %llu of %llu", (int)i,
                   (unsigned long long)bytes, (unsigned long long)planned);
        /* Without the optimizer's file it is a model in 16 bits. */
        CHECK(!eitp__remove_tree(&host, scratch_path(path, "optimizer.safetensors"), &error_));
        CHECK(!read_checkpoint_weights(&host, path, &rounded) && (rounded == exact) == (i == 0));
        CHECK(!eitp__remove_tree(&host, path, &error_));
    }
    scratch_remove(directory);
}

/* F16 cannot represent a weight. Nothing is lost, and a resume has the same bits. */
static void a_weight_beyond_f16_is_saved_in_f32(void) {
    const eitp_host host = eitp_host_default();
    const float large = 65520;
    char directory[512], output[600], checkpoint[700];
    variant v = default_variant();
    uint32_t straight;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-1", output);
    v.save_dtype = EITP_SAVE_F16;
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    REQUIRE(step_many(&r, 1, NULL));
    REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
    CHECK(weights_are(checkpoint, EITP_F16));
    REQUIRE_OK(eitp_variable_write_f32(r.context, "transformer.ln_f.bias", 3, &large, 1, &error_), error_);
    straight = fingerprint(&r);
    REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
    CHECK(weights_are(checkpoint, EITP_F32));
    end_run(&r);
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
    CHECK(fingerprint(&r) == straight);
    end_run(&r);
    scratch_remove(directory);
}

/* A run with other settings is refused. The message names the setting, and the trainer is unchanged. */
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
    scratch_remove(directory);
}

/* A flipped byte in the weights or the optimizer state is detected. */
static void damage_is_detected(void) {
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

/* Flips a bit `from_end` bytes before the end of a file; a second call flips it back. Returns 0 if it fails. */
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

/* Damage in the last bytes of the last file is detected before weights or shape are changed. */
static void a_resume_that_is_refused_changes_nothing(void) {
    static const char *const names[] = {"model.safetensors", "optimizer.safetensors", "optimizer.safetensors"};
    const eitp_host host = eitp_host_default();
    char directory[512], output[600], checkpoint[700], path[800], moved[800];
    const variant v = shrinking_variant(1);
    eitp_step_shape requested, shape;
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
    requested = eitp_trainer_shape(r.trainer);
    before = fingerprint(&r);
    for (size_t i = 0; i < EITP__COUNT(names); i++) {
        const int is_missing = i == 2;
        snprintf(path, sizeof path, "%s/%s", checkpoint, names[i]);
        snprintf(moved, sizeof moved, "%s/moved", checkpoint);
        REQUIRE(is_missing ? !rename(path, moved) : flip_bit(path, 1));
        CHECK(eitp_trainer_resume(r.trainer, checkpoint, &error_) == EITP_ERROR_FORMAT);
        CHECK_THAT(strstr(error_.message, names[i]) != NULL, "%s", error_.message);
        CHECK_THAT(fingerprint(&r) == before, "%s: weights or state were changed", error_.message);
        shape = eitp_trainer_shape(r.trainer);
        CHECK_THAT(eitp__step_shapes_equal(&shape, &requested), "%s: the shape was changed", error_.message);
        CHECK(eitp_trainer_steps_done(r.trainer) == 1 && !eitp_trainer_is_inconsistent(r.trainer));
        REQUIRE(is_missing ? !rename(moved, path) : flip_bit(path, 1));
    }
    REQUIRE(step_many(&r, 1, NULL));
    CHECK(fingerprint(&r) == after);
    REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
    shape = eitp_trainer_shape(r.trainer);
    CHECK(!eitp__step_shapes_equal(&shape, &requested));
    end_run(&r);
    scratch_remove(directory);
}

/* Replaces every `from` in a checkpoint's trainer_state.json. Returns the number of replacements. */
static int replace_in_state(const char *checkpoint, const char *from, const char *to) {
    char path[800], text[8192], *at = text;
    size_t size = 0;
    int count = 0;
    FILE *file;
    snprintf(path, sizeof path, "%s/trainer_state.json", checkpoint);
    file = fopen(path, "rb");
    if (file) {
        size = fread(text, 1, sizeof text - 1, file);
        fclose(file);
    }
    text[size] = 0;
    file = fopen(path, "wb");
    if (!file)
        return 0;
    for (char *found; (found = strstr(at, from)) != NULL; at = found + strlen(from), count++) {
        fwrite(at, 1, (size_t)(found - at), file);
        fputs(to, file);
    }
    fputs(at, file);
    return fclose(file) ? 0 : count;
}

/* micro_batches_per_pass was "merged" in earlier checkpoints, in the settings and in the initial shape. */
static void an_earlier_name_is_read(void) {
    const eitp_host host = eitp_host_default();
    char directory[512], output[600], checkpoint[700];
    const variant v = shrinking_variant(1);
    eitp_checkpoint_info info;
    eitp_step_shape shape, now;
    uint32_t straight;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-2", output);
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    REQUIRE(step_many(&r, 2, NULL) && shrink(&r));
    REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
    REQUIRE(step_many(&r, 2, NULL));
    shape = eitp_trainer_shape(r.trainer);
    straight = fingerprint(&r);
    end_run(&r);
    REQUIRE(replace_in_state(checkpoint, "\"micro_batches_per_pass\"", "\"merged\"") == 2);
    REQUIRE(renew_manifest(checkpoint));
    REQUIRE_OK(eitp_checkpoint_read_info(&host, checkpoint, &info, &error_), error_);
    CHECK(info.config.micro_batches_per_pass == shape.micro_batches_per_pass);
    CHECK(info.initial_shape.micro_batches_per_pass == v.micro_batches_per_pass);
    REQUIRE_OK(make_run(&r, &host, &v, directory, &error_), error_);
    REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
    now = eitp_trainer_shape(r.trainer);
    CHECK(eitp__step_shapes_equal(&now, &shape));
    REQUIRE(step_many(&r, 2, NULL));
    CHECK(fingerprint(&r) == straight);
    end_run(&r);
    scratch_remove(directory);
}

static eitp_status make_plateau_run(run *r, const variant *v, const char *directory, eitp_schedule_kind kind) {
    const eitp_host host = eitp_host_default();
    eitp_status status = make_run(r, &host, v, directory, &error_);
    if (status)
        return status;
    eitp_trainer_destroy(r->trainer);
    r->trainer = NULL;
    r->config.schedule.kind = kind;
    r->config.schedule.warmup = 0;
    r->config.plateau.factor = 0.3;
    r->config.plateau.patience = 1;
    r->config.plateau.cooldown = 1;
    return eitp_trainer_create(&r->task, &r->config, &r->trainer, &error_);
}

/* Trains up to `last`, with an evaluation after each step. Two of the evaluations are improvements. */
static void train_on_plateau(run *r, int64_t last, double rates[]) {
    while (eitp_trainer_steps_done(r->trainer) < last) {
        eitp_step_report report;
        REQUIRE_OK(eitp_trainer_step(r->trainer, &report, &error_), error_);
        rates[report.step] = report.learning_rate;
        const double loss = report.step == 1 ? 4.0 : report.step == 7 ? 3.0 : 5.0;
        const int is_reduced = eitp_trainer_report_validation(r->trainer, loss);
        /* Two failures, and a cooldown of one evaluation. The improvement is during a cooldown. */
        CHECK_THAT(is_reduced == (report.step % 3 == 0), "step %d", (int)report.step);
        CHECK(!eitp_trainer_report_validation(r->trainer, 9)); /* the step has its evaluation */
    }
}

/* The count, the best loss, the cooldown and the rate continue wherever the run was interrupted. */
static void a_plateau_is_resumed(void) {
    enum { LAST = 12 };
    char directory[512], output[600], checkpoint[700];
    double straight[LAST + 1] = {0}, resumed[LAST + 1] = {0};
    variant v = default_variant();
    uint32_t bits;
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    REQUIRE_OK(make_plateau_run(&r, &v, directory, EITP_SCHEDULE_PLATEAU), error_);
    train_on_plateau(&r, LAST, straight);
    bits = fingerprint(&r);
    end_run(&r);
    CHECK(straight[3] == 3e-3 && straight[4] < 1e-3 && straight[7] < straight[6] && straight[10] < straight[9]);
    for (int64_t step = 0; step < LAST; step++) {
        REQUIRE_OK(make_plateau_run(&r, &v, directory, EITP_SCHEDULE_PLATEAU), error_);
        if (step) {
            snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-%lld", output, (long long)step);
            REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
        }
        train_on_plateau(&r, step + 1, resumed);
        if (step + 1 < LAST)
            REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
        else
            CHECK(fingerprint(&r) == bits);
        end_run(&r);
    }
    for (int i = 1; i <= LAST; i++)
        CHECK_THAT(straight[i] == resumed[i], "step %d: %g, resumed %g", i, straight[i], resumed[i]);
    scratch_remove(directory);
}

static void read_state(const char *checkpoint, char *text, size_t size) {
    FILE *file = fopen(scratch_path(checkpoint, "trainer_state.json"), "rb");
    const size_t done = file ? fread(text, 1, size - 1, file) : 0;
    text[done] = 0;
    if (file)
        fclose(file);
}

/* Other schedules write no plateau state, and a plateau that follows them starts without evaluations. */
static void a_plateau_after_another_schedule_begins_anew(void) {
    static char text[16384];
    char directory[512], output[600], checkpoint[700];
    double rates[8] = {0};
    variant v = default_variant();
    run r;
    REQUIRE(scratch_make(directory) && write_text(directory));
    snprintf(output, sizeof output, "%s/out", directory);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-2", output);
    REQUIRE_OK(make_plateau_run(&r, &v, directory, EITP_SCHEDULE_CONSTANT), error_);
    r.trainer->plans.config.plateau = eitp_trainer_config_default().plateau;
    REQUIRE(step_many(&r, 2, NULL));
    CHECK(!eitp_trainer_report_validation(r.trainer, 1));
    REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
    end_run(&r);
    read_state(checkpoint, text, sizeof text);
    CHECK_THAT(strstr(text, "\"lr_schedule\"") && !strstr(text, "plateau"), "%s", text);
    REQUIRE_OK(make_plateau_run(&r, &v, directory, EITP_SCHEDULE_PLATEAU), error_);
    train_on_plateau(&r, 5, rates); /* the resume must replace the counts */
    REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
    CHECK(!isfinite(r.trainer->plateau.best) && r.trainer->plateau.scale == 1 && !r.trainer->plateau.failures &&
          r.trainer->plateau.evaluated_step == -1);
    REQUIRE_OK(eitp_trainer_save(r.trainer, output, &error_), error_);
    end_run(&r);
    read_state(checkpoint, text, sizeof text);
    CHECK_THAT(strstr(text, "\"plateau\": {\"best\": null, \"scale\": 1, \"failures\": 0, "), "%s", text);
    REQUIRE_OK(make_plateau_run(&r, &v, directory, EITP_SCHEDULE_PLATEAU), error_);
    REQUIRE_OK(eitp_trainer_resume(r.trainer, checkpoint, &error_), error_);
    CHECK(r.trainer->plateau.best == HUGE_VAL);
    end_run(&r);
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
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int64_t step = eitp__checkpoint_step(names[i]);
        if (step >= 0)
            REQUIRE(make_checkpoint(&host, directory, step, "", 1));
        else
            REQUIRE_OK(eitp__make_directories(&host, scratch_path(directory, names[i]), &error_), error_);
    }
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

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(a_resumed_run_has_the_bits_of_an_uninterrupted_one),
        TEST(a_checkpoint_is_read_as_a_model_with_its_exact_weights),
        TEST(a_weight_beyond_f16_is_saved_in_f32),
        TEST(a_resume_that_would_change_bits_is_refused),
        TEST(damage_is_detected),
        TEST(a_resume_that_is_refused_changes_nothing),
        TEST(an_earlier_name_is_read),
        TEST(a_plateau_is_resumed),
        TEST(a_plateau_after_another_schedule_begins_anew),
        TEST(the_newest_are_kept_by_step_number),
    };
    return RUN_TESTS(tests, argc, argv);
}
