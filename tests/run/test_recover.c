/* If the newest checkpoint proves damaged while it is loaded, the run continues from an older one. */
#include "tests/support/shrinking.h"
#include "tests/support/trainer_run.h"

#include <unistd.h>

/* The output directory of a run, with checkpoint-2 and checkpoint-4. */
typedef struct place {
    eitp_host host;
    variant v;
    char directory[512], output[600];
    eitp_run_config config;
    int warnings; /* that name a damaged checkpoint */
} place;

static void count_warnings(void *user, eitp_log_level level, const char *message) {
    place *p = (place *)user;
    p->warnings += level == EITP_LOG_WARNING && strstr(message, ".damaged'") != NULL;
}

static const char *in(const place *p, const char *name) {
    return scratch_path(p->output, name);
}

static int exists(const place *p, const char *name) {
    eitp_path_info info;
    return !eitp__path_info(&p->host, in(p, name), &info, NULL) && info.kind != EITP_PATH_MISSING;
}

/* Trains to a step, from the newest checkpoint if there is one. Sets *state to the final state. */
static eitp_status train(place *p, int64_t steps, uint32_t *state) {
    eitp_run *resumed = NULL;
    run r;
    eitp_status status = make_run(&r, &p->host, &p->v, p->directory, &error_);
    p->config.steps = steps;
    if (!status)
        status = eitp_run_open(&p->host, &p->config, &resumed, &error_);
    if (!status)
        status = eitp_run_train(resumed, r.trainer, NULL, &error_);
    if (!status && state)
        *state = fingerprint(&r);
    eitp_run_close(resumed);
    end_run(&r);
    return status;
}

static int begin_place(place *p, const variant *v) {
    memset(p, 0, sizeof *p);
    if (!scratch_make(p->directory) || !write_text(p->directory))
        return 0;
    snprintf(p->output, sizeof p->output, "%s/out", p->directory);
    p->v = *v;
    p->host = eitp_host_default();
    p->host.log.user = p;
    p->host.log.write = count_warnings;
    p->config = eitp_run_config_default();
    p->config.directory = p->output;
    p->config.resume = EITP_RESUME_NEWEST;
    p->config.eval_steps = 0;
    p->config.save_steps = 2;
    p->config.save_total_limit = 0;
    p->config.memory_check_seconds = -1;
    return !train(p, 4, NULL);
}

static variant plain_variant(void) {
    variant v = default_variant();
    v.threads = 1;
    v.isa = "ref";
    return v;
}

/* The state after six steps without a stop. */
static uint32_t straight(const place *p) {
    static uint32_t state;
    const variant v = plain_variant();
    if (!state)
        state = train_variant(&v, p->directory, 6);
    return state;
}

/* Changes a byte at an offset from the start of a file or, if negative, from its end. */
static int damage(const place *p, const char *name, long at) {
    FILE *file = fopen(in(p, name), "r+b");
    int byte;
    if (!file)
        return 0;
    fseek(file, at, at < 0 ? SEEK_END : SEEK_SET);
    byte = fgetc(file);
    fseek(file, at, at < 0 ? SEEK_END : SEEK_SET);
    fputc(byte ^ 1, file);
    return !fclose(file);
}

/* Returns the offset of a string in a file. */
static long find(const place *p, const char *name, const char *text) {
    char head[4096];
    FILE *file = fopen(in(p, name), "rb");
    const size_t size = file ? fread(head, 1, sizeof head, file) : 0, length = strlen(text);
    if (file)
        fclose(file);
    for (size_t i = 0; i + length <= size; i++) {
        if (!memcmp(head + i, text, length))
            return (long)i;
    }
    return 0;
}

static void the_run_goes_on_from_an_older_one(void) {
    static const struct {
        const char *name, *text; /* the byte after the string in the header; NULL: `at` */
        long at;
    } cases[] = {
        {"checkpoint-4/model.safetensors", NULL, 0},           {"checkpoint-4/model.safetensors", NULL, -1},
        {"checkpoint-4/model.safetensors", "\"dtype\":\"", 0}, {"checkpoint-4/optimizer.safetensors", NULL, 9},
        {"checkpoint-4/optimizer.safetensors", "[", 0},        {"checkpoint-4/optimizer.safetensors", NULL, -1000}};
    const variant v = plain_variant();
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        uint32_t state = 0;
        long at = cases[i].at;
        place p;
        REQUIRE(begin_place(&p, &v));
        if (cases[i].text)
            at = find(&p, cases[i].name, cases[i].text) + (long)strlen(cases[i].text);
        REQUIRE(damage(&p, cases[i].name, at));
        CHECK_THAT(!train(&p, 6, &state), "%d: %s", (int)i, error_.message);
        CHECK_THAT(state == straight(&p), "%d: other bits", (int)i);
        CHECK(p.warnings == 1 && exists(&p, "checkpoint-4.damaged") && exists(&p, "checkpoint-6"));
        scratch_remove(p.directory);
    }
}

/* Moments that are converted are read piece by piece, and their file is read a second time to verify it. */
static void a_file_that_is_converted_is_verified(void) {
    variant v = plain_variant();
    uint32_t expected = 0, state = 0;
    place p;
    for (int damaged = 0; damaged < 2; damaged++) {
        REQUIRE(begin_place(&p, &v));
        p.v.optimizer = EITP_ADAMW8;
        if (damaged)
            REQUIRE(damage(&p, "checkpoint-4/optimizer.safetensors", -1));
        else
            REQUIRE(!rename(in(&p, "checkpoint-4"), scratch_path(p.directory, "checkpoint-4")));
        CHECK_THAT(!train(&p, 6, damaged ? &state : &expected), "%s", error_.message);
        CHECK(exists(&p, "checkpoint-4.damaged") == damaged);
        scratch_remove(p.directory);
    }
    CHECK(state == expected);
}

/* A program that takes settings from a checkpoint is notified, and creates its objects again. */
static void a_program_can_start_over(void) {
    const variant v = plain_variant();
    eitp_run *resumed = NULL;
    run r;
    place p;
    REQUIRE(begin_place(&p, &v) && damage(&p, "checkpoint-4/optimizer.safetensors", -1));
    p.config.steps = 6;
    REQUIRE_OK(make_run(&r, &p.host, &p.v, p.directory, &error_), error_);
    REQUIRE_OK(eitp_run_open(&p.host, &p.config, &resumed, &error_), error_);
    CHECK(!strcmp(eitp_run_checkpoint(resumed), in(&p, "checkpoint-4")));
    CHECK(eitp_run_resume_trainer(resumed, r.trainer, &error_) == EITP_ERROR_FORMAT);
    CHECK_THAT(strstr(error_.message, "checkpoint-4/optimizer.safetensors' is damaged") != NULL, "%s", error_.message);
    CHECK(eitp_trainer_is_inconsistent(r.trainer) && p.warnings == 1);
    CHECK(!strcmp(eitp_run_checkpoint(resumed), in(&p, "checkpoint-2")));
    end_run(&r);
    REQUIRE_OK(make_run(&r, &p.host, &p.v, p.directory, &error_), error_);
    REQUIRE_OK(eitp_run_resume_trainer(resumed, r.trainer, &error_), error_);
    CHECK(eitp_trainer_steps_done(r.trainer) == 2 && !eitp_trainer_is_inconsistent(r.trainer));
    REQUIRE_OK(eitp_run_train(resumed, r.trainer, NULL, &error_), error_);
    CHECK(fingerprint(&r) == straight(&p));
    eitp_run_close(resumed);
    end_run(&r);
    scratch_remove(p.directory);
}

/* For a program that failed to read the checkpoint itself. */
static void a_checkpoint_is_recovered_on_request(void) {
    const variant v = plain_variant();
    eitp_run *resumed = NULL;
    place p;
    REQUIRE(begin_place(&p, &v));
    CHECK(eitp_run_recover(NULL, &error_) == EITP_ERROR_ARGUMENT);
    REQUIRE_OK(eitp_run_open(&p.host, &p.config, &resumed, &error_), error_);
    REQUIRE_OK(eitp_run_recover(resumed, &error_), error_);
    CHECK(!strcmp(eitp_run_checkpoint(resumed), in(&p, "checkpoint-4")) && !p.warnings);
    REQUIRE(damage(&p, "checkpoint-4/model.safetensors", 20));
    REQUIRE_OK(eitp_run_recover(resumed, &error_), error_);
    CHECK(!strcmp(eitp_run_checkpoint(resumed), in(&p, "checkpoint-2")) && p.warnings == 1);
    eitp_run_close(resumed);
    REQUIRE(damage(&p, "checkpoint-2/config.json", 20));
    CHECK(eitp_run_open(&p.host, &p.config, &resumed, &error_) == EITP_ERROR_FORMAT);
    scratch_remove(p.directory);
}

static void without_a_whole_checkpoint_it_is_refused(void) {
    const variant v = plain_variant();
    place p;
    REQUIRE(begin_place(&p, &v) && damage(&p, "checkpoint-4/model.safetensors", -1) &&
            damage(&p, "checkpoint-2/optimizer.safetensors", -1));
    CHECK(train(&p, 6, NULL) == EITP_ERROR_FORMAT);
    CHECK_THAT(strstr(error_.message, "only damaged checkpoints, such as 'checkpoint-") != NULL, "%s", error_.message);
    CHECK(exists(&p, "checkpoint-2.damaged") && exists(&p, "checkpoint-4.damaged") && p.warnings == 2);
    CHECK(train(&p, 6, NULL) == EITP_ERROR_FORMAT);
    scratch_remove(p.directory);
}

/* A checkpoint named by the program is neither renamed nor replaced by another. */
static void a_named_one_is_refused(void) {
    const variant v = plain_variant();
    char checkpoint[700];
    place p;
    REQUIRE(begin_place(&p, &v) && damage(&p, "checkpoint-4/model.safetensors", -1));
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-4", p.output);
    p.config.resume = EITP_RESUME_NAMED;
    p.config.checkpoint = checkpoint;
    CHECK(train(&p, 6, NULL) == EITP_ERROR_FORMAT);
    CHECK_THAT(strstr(error_.message, "checkpoint-4/model.safetensors' is damaged: its checksum is ") &&
                   strstr(error_.message, "; resume from another checkpoint"),
               "%s", error_.message);
    CHECK(exists(&p, "checkpoint-4") && !exists(&p, "checkpoint-4.damaged") && !p.warnings);
    scratch_remove(p.directory);
}

/* A process killed while it replaced a checkpoint may have left it under another name. */
static void a_replaced_one_is_found_however_the_run_begins(void) {
    const variant v = plain_variant();
    char checkpoint[700];
    uint32_t state = 0;
    place p;
    REQUIRE(begin_place(&p, &v));
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint-4", p.output);
    REQUIRE(!rename(checkpoint, in(&p, ".checkpoint-4.replaced")));
    p.config.resume = EITP_RESUME_NAMED;
    p.config.checkpoint = checkpoint;
    CHECK_THAT(!train(&p, 6, &state), "%s", error_.message);
    CHECK(state == straight(&p) && exists(&p, "checkpoint-4"));
    scratch_remove(p.directory);
    REQUIRE(begin_place(&p, &v));
    REQUIRE(!rename(in(&p, "checkpoint-4"), in(&p, ".checkpoint-4.replaced")) &&
            !rename(in(&p, "checkpoint-2"), scratch_path(p.directory, "checkpoint-2")));
    p.config.resume = EITP_RESUME_NONE;
    CHECK(train(&p, 6, NULL) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error_.message, "already has checkpoint-4;") != NULL, "%s", error_.message);
    scratch_remove(p.directory);
}

/* A checkpoint of another model does not count as damaged. */
static void another_model_is_not_damage(void) {
    const variant v = plain_variant();
    place p;
    REQUIRE(begin_place(&p, &v));
    p.v.is_wide = 1;
    CHECK(train(&p, 6, NULL) == EITP_ERROR_FORMAT);
    CHECK_THAT(strstr(error_.message, "is it from another model?") != NULL, "%s", error_.message);
    CHECK(exists(&p, "checkpoint-4") && !p.warnings);
    scratch_remove(p.directory);
}

/* A trainer that adopted the shrunk configuration of the damaged checkpoint returns to its own for the older one. */
static void the_shape_is_that_of_the_older_one(void) {
    const variant v = shrinking_variant(1);
    eitp_step_shape requested, shape;
    eitp_run *resumed = NULL;
    uint32_t unshrunk;
    run r;
    place p;
    REQUIRE(begin_place(&p, &v));
    unshrunk = train_variant(&v, p.directory, 4);
    REQUIRE_OK(make_run(&r, &p.host, &v, p.directory, &error_), error_);
    REQUIRE_OK(eitp_trainer_resume(r.trainer, in(&p, "checkpoint-4"), &error_), error_);
    requested = eitp_trainer_shape(r.trainer);
    REQUIRE(shrink(&r));
    REQUIRE_OK(eitp_trainer_save(r.trainer, p.output, &error_), error_);
    end_run(&r);
    REQUIRE(damage(&p, "checkpoint-4/optimizer.safetensors", -1));
    REQUIRE_OK(make_run(&r, &p.host, &v, p.directory, &error_), error_);
    p.config.steps = 4;
    REQUIRE_OK(eitp_run_open(&p.host, &p.config, &resumed, &error_), error_);
    REQUIRE_OK(eitp_run_train(resumed, r.trainer, NULL, &error_), error_);
    shape = eitp_trainer_shape(r.trainer);
    CHECK(p.warnings == 1 && eitp__step_shapes_equal(&shape, &requested));
    CHECK(fingerprint(&r) == unshrunk);
    eitp_run_close(resumed);
    end_run(&r);
    scratch_remove(p.directory);
}

/* Bytes announced by an internal thread of eitp. */
static int64_t announced_;

static void count_prefetch(void *user, void *file, uint64_t offset, size_t size) {
    const eitp_host host = eitp_host_default();
    host.files.prefetch(user, file, offset, size);
    __atomic_fetch_add(&announced_, (int64_t)size, __ATOMIC_RELAXED);
}

/* Tensors are read into the system's cache as soon as the checkpoint is chosen. */
static void tensors_are_read_ahead(void) {
    static const char *const names[] = {"checkpoint-4/model.safetensors", "checkpoint-4/optimizer.safetensors"};
    const variant v = plain_variant();
    eitp_run *resumed = NULL;
    eitp_path_info info;
    int64_t size = 0;
    place p;
    REQUIRE(begin_place(&p, &v));
    for (size_t i = 0; i < EITP__COUNT(names); i++) {
        REQUIRE(!eitp__path_info(&p.host, in(&p, names[i]), &info, NULL));
        size += (int64_t)info.size;
    }
    p.host.files.prefetch = count_prefetch;
    REQUIRE_OK(eitp_run_open(&p.host, &p.config, &resumed, &error_), error_);
    for (int i = 0; i < 1000 && __atomic_load_n(&announced_, __ATOMIC_RELAXED) < size; i++)
        usleep(10000);
    CHECK(__atomic_load_n(&announced_, __ATOMIC_RELAXED) == size);
    eitp_run_close(resumed);
    p.host.files.prefetch = NULL;
    REQUIRE_OK(eitp_run_open(&p.host, &p.config, &resumed, &error_), error_);
    eitp_run_close(resumed);
    scratch_remove(p.directory);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(the_run_goes_on_from_an_older_one),
        TEST(a_file_that_is_converted_is_verified),
        TEST(a_program_can_start_over),
        TEST(a_checkpoint_is_recovered_on_request),
        TEST(without_a_whole_checkpoint_it_is_refused),
        TEST(a_named_one_is_refused),
        TEST(a_replaced_one_is_found_however_the_run_begins),
        TEST(another_model_is_not_damage),
        TEST(the_shape_is_that_of_the_older_one),
        TEST(tensors_are_read_ahead),
    };
    return RUN_TESTS(tests, argc, argv);
}
