/* Checkpoints: the manifest, damage, recovery, pruning, leftovers, and kills at every file call. */
#include "tests/support/checkpoints.h"
#include "tests/support/trainer_run.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A directory tree for one test. */
typedef struct place {
    eitp_host host;
    char directory[512];
    char log[8192]; /* warnings */
} place;

static void take_warning(void *user, eitp_log_level level, const char *message) {
    place *p = (place *)user;
    const size_t size = strlen(p->log);
    if (level == EITP_LOG_WARNING)
        snprintf(p->log + size, sizeof p->log - size, "%s\n", message);
}

static int begin_place(place *p) {
    memset(p, 0, sizeof *p);
    p->host = eitp_host_default();
    faults_do_not_sync(&p->host);
    p->host.log.user = p;
    p->host.log.write = take_warning;
    return scratch_make(p->directory);
}

static const char *in(const place *p, const char *name) {
    return scratch_path(p->directory, name);
}

static eitp_path_kind kind_of(const char *path) {
    const eitp_host host = eitp_host_default();
    eitp_path_info info = EITP__ZERO;
    return eitp__path_info(&host, path, &info, NULL) ? EITP_PATH_OTHER : info.kind;
}

static int write_to(const char *path, const char *mode, const char *text) {
    FILE *file = fopen(path, mode);
    return file && fputs(text, file) >= 0 && !fclose(file);
}

static long size_of(const char *path) {
    struct stat info;
    return stat(path, &info) ? -1 : (long)info.st_size;
}

/* Adds `difference` to the byte at `at`. A second call restores it. */
static int change_byte(const char *path, long at, int difference) {
    FILE *file = fopen(path, "r+b");
    int byte;
    if (!file)
        return 0;
    fseek(file, at, SEEK_SET);
    byte = fgetc(file);
    fseek(file, at, SEEK_SET);
    fputc(byte ^ difference, file);
    return !fclose(file);
}

/* Lists the names in the directory, sorted, each followed by a space. */
static void list_names(const place *p, char *names, size_t size) {
    eitp__buffer found;
    size_t count = 0, at = 0;
    *names = 0;
    eitp__buffer_init(&found, &p->host);
    CHECK(!eitp__list_directory(&p->host, p->directory, &found, &count, &error_));
    for (size_t i = 0; i < count; i++) {
        snprintf(names + strlen(names), size - strlen(names), "%s ", found.data + at);
        at += strlen(found.data + at) + 1;
    }
    eitp__buffer_release(&found);
}

static void check_names(const place *p, const char *expected) {
    char names[1024];
    list_names(p, names, sizeof names);
    CHECK_THAT(!strcmp(names, expected), "found %s, expected %s", names, expected);
}

/* ---- The manifest ---- */

static eitp_status fill_tree(void *user, const char *directory, eitp_error *error) {
    const eitp_host host = eitp_host_default();
    char inner[800];
    eitp_status status;
    snprintf(inner, sizeof inner, "%.700s/inner", directory);
    status = eitp__make_directories(&host, scratch_path(inner, "deep"), error);
    (void)user;
    if (!status)
        status = eitp__write_file(&host, scratch_path(directory, "empty"), "", 0, error);
    if (!status)
        status = eitp__write_file(&host, scratch_path(inner, "b \"quoted\""), "bcd", 3, error);
    return status ? status : eitp__write_file(&host, scratch_path(inner, "deep/e"), "123456789", 9, error);
}

static void a_manifest_lists_every_file(void) {
    static const char expected[] = "{\n"
                                   "  \"format\": \"eitp manifest\",\n"
                                   "  \"version\": 1,\n"
                                   "  \"step\": 12,\n"
                                   "  \"counted\": true,\n"
                                   "  \"files\": [\n"
                                   "    {\"name\": \"empty\", \"size\": 0, \"crc32c\": \"00000000\"},\n"
                                   "    {\"name\": \"inner/b \\\"quoted\\\"\", \"size\": 3, \"crc32c\": \"";
    place p;
    eitp__buffer text;
    char *tail;
    REQUIRE(begin_place(&p));
    eitp__buffer_init(&text, &p.host);
    REQUIRE_OK(eitp_checkpoint_create(&p.host, p.directory, 12, fill_tree, NULL, &error_), error_);
    REQUIRE_OK(eitp__read_file(&p.host, in(&p, "checkpoint-12/manifest.json"), 4096, &text, &error_), error_);
    CHECK_THAT(!strncmp(text.data, expected, sizeof expected - 1), "%s", text.data);
    /* The check value of the standard. */
    CHECK(strstr(text.data, "{\"name\": \"inner/deep/e\", \"size\": 9, \"crc32c\": \"e3069283\"}\n  ],\n") != NULL);
    tail = strstr(text.data, "\n  \"crc32c\": \"");
    REQUIRE(tail != NULL && strlen(tail) == strlen("\n  \"crc32c\": \"01234567\"\n}\n"));
    tail += strlen("\n  \"crc32c\": \"");
    CHECK(strtoul(tail, NULL, 16) == eitp__crc32c(0, text.data, (size_t)(tail - text.data)));
    eitp__buffer_release(&text);
    REQUIRE_OK(eitp_checkpoint_verify(&p.host, in(&p, "checkpoint-12"), &error_), error_);
    REQUIRE_OK(eitp_checkpoint_verify(&p.host, in(&p, "checkpoint-12/"), &error_), error_);
    REQUIRE(write_to(in(&p, "checkpoint-12/notes"), "w", "of the user"));
    CHECK_THAT(!eitp_checkpoint_verify(&p.host, in(&p, "checkpoint-12"), &error_), "an extra file: %s", error_.message);
    REQUIRE(change_byte(in(&p, "checkpoint-12/inner/deep/e"), 8, 1));
    CHECK(eitp_checkpoint_verify(&p.host, in(&p, "checkpoint-12"), &error_) == EITP_ERROR_FORMAT &&
          strstr(error_.message, "inner/deep/e' is damaged: its checksum is ") &&
          strstr(error_.message, "; use another"));
    scratch_remove(p.directory);
}

static eitp_status fill_link(void *user, const char *directory, eitp_error *error) {
    (void)user, (void)error;
    return symlink("nowhere", scratch_path(directory, "link")) ? EITP_ERROR_IO : EITP_OK;
}

static eitp_status fill_loop(void *user, const char *directory, eitp_error *error) {
    (void)user, (void)error;
    return symlink(".", scratch_path(directory, "loop")) ? EITP_ERROR_IO : EITP_OK;
}

static eitp_status fill_bad_name(void *user, const char *directory, eitp_error *error) {
    (void)user, (void)error;
    return write_to(scratch_path(directory, "\xff"), "w", "x") ? EITP_OK : EITP_ERROR_IO;
}

static void what_cannot_be_listed_is_refused(void) {
    static eitp_status (*const fills[])(void *, const char *, eitp_error *) = {fill_link, fill_loop, fill_bad_name};
    static const char *const words[] = {"neither a file nor a directory", "for a link to a parent", "not valid UTF-8"};
    place p;
    REQUIRE(begin_place(&p));
    for (size_t i = 0; i < EITP__COUNT(fills); i++) {
        const eitp_status status = eitp_checkpoint_create(&p.host, p.directory, 1, fills[i], NULL, &error_);
        if (i == 2 && status == EITP_ERROR_IO) {
            printf("SKIPPED names that are not UTF-8: the file system refuses them\n");
            continue;
        }
        CHECK_THAT(status == EITP_ERROR_ARGUMENT && strstr(error_.message, words[i]), "%s", error_.message);
        check_names(&p, "");
    }
    scratch_remove(p.directory);
}

/* The checksums of large files, computed while writing, are the checksums of the files. */
static void files_are_summed_as_they_are_written(void) {
    static const struct {
        eitp_optimizer optimizer;
        int64_t rank;
        eitp_save_dtype dtype;
    } cases[] = {{EITP_ADAMW, 0, EITP_SAVE_AS_LOADED},
                 {EITP_ADAMW8, 0, EITP_SAVE_BF16},
                 {EITP_FACTORED, 0, EITP_SAVE_F16},
                 {EITP_ADAMW, 2, EITP_SAVE_AS_LOADED},
                 {EITP_ADAMW8, 2, EITP_SAVE_AS_LOADED}};
    place p;
    REQUIRE(begin_place(&p) && write_text(p.directory));
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        variant v = default_variant();
        run r;
        v.optimizer = cases[i].optimizer;
        v.lora_rank = cases[i].rank;
        v.save_dtype = cases[i].dtype;
        REQUIRE_OK(make_run(&r, &p.host, &v, p.directory, &error_), error_);
        REQUIRE(step_many(&r, 1, NULL));
        REQUIRE_OK(eitp_trainer_save(r.trainer, p.directory, &error_), error_);
        REQUIRE_OK(eitp_checkpoint_verify(&p.host, in(&p, "checkpoint-1"), &error_), error_);
        end_run(&r);
    }
    scratch_remove(p.directory);
}

/* ---- Damage ---- */

static void damage_is_named(void) {
    static const struct {
        const char *word;
        int way;
    } cases[] = {{"content' is missing", 0},
                 {"content' is damaged: it has 23 bytes, expected 24", 1},
                 {"it has 25 bytes, expected 24", 2},
                 {"content' is damaged: its checksum", 3},
                 {"content' is damaged: it is not", 4},
                 {"has the checkpoint of step 8; rename it", 5},
                 {"is not a directory", 6},
                 {"is incomplete: it has neither manifest.json", 7},
                 {"manifest.json' is damaged", 8},
                 {"manifest.json' is damaged", 9}};
    place p;
    REQUIRE(begin_place(&p));
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        const char *checkpoint = in(&p, cases[i].way == 5 ? "checkpoint-9" : "checkpoint-8");
        const char *content = in(&p, "checkpoint-8/content"), *manifest = in(&p, "checkpoint-8/manifest.json");
        eitp_status status;
        REQUIRE(make_checkpoint(&p.host, p.directory, 8, "", 1) && size_of(content) == 24);
        switch (cases[i].way) {
        case 0:
            REQUIRE(!remove(content));
            break;
        case 1:
            REQUIRE(!truncate(content, 23));
            break;
        case 2:
            REQUIRE(write_to(content, "a", "x"));
            break;
        case 3:
            REQUIRE(change_byte(content, 23, 1));
            break;
        case 4:
            REQUIRE(!remove(content) && !mkdir(content, 0777));
            break;
        case 5:
            REQUIRE(!rename(in(&p, "checkpoint-8"), in(&p, "checkpoint-9")));
            break;
        case 6:
            REQUIRE(!eitp__remove_tree(&p.host, checkpoint, NULL) && write_to(checkpoint, "w", "x"));
            break;
        case 7:
            REQUIRE(!remove(content) && !remove(manifest));
            break;
        case 8:
            REQUIRE(!truncate(manifest, 0));
            break;
        default:
            REQUIRE(!remove(manifest) && !mkdir(manifest, 0777));
            break;
        }
        status = eitp_checkpoint_verify(&p.host, checkpoint, &error_);
        CHECK_THAT(status == EITP_ERROR_FORMAT && strstr(error_.message, cases[i].word), "%s: %s", cases[i].word,
                   error_.message);
        REQUIRE_OK(eitp__remove_tree(&p.host, checkpoint, &error_), error_);
    }
    CHECK(eitp_checkpoint_verify(&p.host, in(&p, "checkpoint-8"), &error_) == EITP_ERROR_ARGUMENT &&
          strstr(error_.message, "does not exist"));
    scratch_remove(p.directory);
}

/* Replaces text of the same length in a file. */
static int replace_text(const char *path, const char *from, const char *to) {
    char text[8192] = "", *at;
    FILE *file = fopen(path, "r+b");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    at = strstr(text, from);
    if (at)
        memcpy(at, to, strlen(to));
    if (!file || !at || fseek(file, 0, SEEK_SET) || fwrite(text, 1, size, file) != size)
        return 0;
    return !fclose(file);
}

/* A checkpoint of version 4 has no manifest. It is verified by the checksums of its tensors. */
static void an_earlier_checkpoint_is_verified(void) {
    place p;
    for (int rank = 0; rank < 3; rank += 2) {
        const char *const weights = rank ? "checkpoint-2/adapter_model.safetensors" : "checkpoint-2/model.safetensors";
        variant v = default_variant();
        int64_t step = -1;
        uint32_t saved;
        run r;
        v.lora_rank = rank;
        REQUIRE(begin_place(&p) && write_text(p.directory));
        REQUIRE_OK(make_run(&r, &p.host, &v, p.directory, &error_), error_);
        for (int i = 0; i < 2; i++) {
            REQUIRE(step_many(&r, 1, NULL));
            REQUIRE_OK(eitp_trainer_save(r.trainer, p.directory, &error_), error_);
        }
        saved = fingerprint(&r);
        REQUIRE(!remove(in(&p, "checkpoint-2/manifest.json")));
        CHECK(eitp_checkpoint_verify(&p.host, in(&p, "checkpoint-2"), &error_) == EITP_ERROR_FORMAT &&
              strstr(error_.message, "version 5 needs a manifest.json"));
        REQUIRE(replace_text(in(&p, "checkpoint-2/trainer_state.json"), "\"version\": 5", "\"version\": 4"));
        REQUIRE_OK(eitp_checkpoint_verify(&p.host, in(&p, "checkpoint-2"), &error_), error_);
        REQUIRE(step_many(&r, 1, NULL));
        REQUIRE_OK(eitp_trainer_resume(r.trainer, in(&p, "checkpoint-2"), &error_), error_);
        CHECK(fingerprint(&r) == saved);
        REQUIRE_OK(eitp_checkpoint_prune(&p.host, p.directory, 1, &error_), error_);
        CHECK(kind_of(in(&p, "checkpoint-1")) == EITP_PATH_MISSING);
        REQUIRE(change_byte(in(&p, weights), size_of(in(&p, weights)) - 1, 1));
        CHECK(eitp_checkpoint_verify(&p.host, in(&p, "checkpoint-2"), &error_) == EITP_ERROR_FORMAT &&
              strstr(error_.message, weights));
        REQUIRE(change_byte(in(&p, weights), size_of(in(&p, weights)) - 1, 1));
        REQUIRE(!remove(in(&p, "checkpoint-2/optimizer.safetensors")));
        CHECK(eitp_checkpoint_verify(&p.host, in(&p, "checkpoint-2"), &error_) == EITP_ERROR_FORMAT &&
              strstr(error_.message, "optimizer.safetensors' is missing"));
        REQUIRE_OK(eitp_checkpoint_recover(&p.host, p.directory, &step, &error_), error_);
        CHECK(step == -1 && kind_of(in(&p, "checkpoint-2.damaged")) == EITP_PATH_DIRECTORY);
        end_run(&r);
        scratch_remove(p.directory);
    }
}

/* ---- Recovering ---- */

static void the_newest_that_is_whole_is_recovered(void) {
    place p;
    int64_t step = 5;
    REQUIRE(begin_place(&p));
    REQUIRE_OK(eitp_checkpoint_recover(&p.host, in(&p, "none"), &step, &error_), error_);
    CHECK(step == -1);
    for (int i = 5; i < 9; i++)
        REQUIRE(make_checkpoint(&p.host, p.directory, i, "", 1));
    REQUIRE(make_checkpoint(&p.host, p.directory, 30, ".diverged", 1));
    REQUIRE(!remove(in(&p, "checkpoint-8/content")));
    REQUIRE(change_byte(in(&p, "checkpoint-7/content"), 0, 1));
    REQUIRE(!mkdir(in(&p, "checkpoint-9"), 0777));
    REQUIRE(write_to(in(&p, "checkpoint-10"), "w", "a file"));
    REQUIRE(!symlink("nowhere", in(&p, "checkpoint-11")));
    REQUIRE_OK(eitp_checkpoint_recover(&p.host, p.directory, &step, &error_), error_);
    CHECK(step == 6);
    check_names(&p, "checkpoint-10.damaged checkpoint-11.damaged checkpoint-30.diverged checkpoint-5 checkpoint-6 "
                    "checkpoint-7.damaged checkpoint-8.damaged checkpoint-9.damaged ");
    CHECK_THAT(strstr(p.log, "checkpoint-8/content' is missing; renamed '") != NULL, "%s", p.log);
    CHECK(size_of(in(&p, "checkpoint-7.damaged/content")) > 0);
    REQUIRE(make_checkpoint(&p.host, p.directory, 8, "", 1) && !remove(in(&p, "checkpoint-8/content")));
    REQUIRE_OK(eitp_checkpoint_recover(&p.host, p.directory, &step, &error_), error_);
    CHECK(step == 6 && kind_of(in(&p, "checkpoint-8.damaged-2")) == EITP_PATH_DIRECTORY);
    REQUIRE(make_checkpoint(&p.host, p.directory, 8, "", 1));
    REQUIRE_OK(eitp_checkpoint_prune(&p.host, p.directory, 1, &error_), error_);
    check_names(&p, "checkpoint-10.damaged checkpoint-11.damaged checkpoint-30.diverged checkpoint-7.damaged "
                    "checkpoint-8 checkpoint-8.damaged checkpoint-8.damaged-2 checkpoint-9.damaged ");
    scratch_remove(p.directory);
}

/* Read errors and lack of memory are reported, and nothing is renamed. */
static void a_failure_to_read_is_not_damage(void) {
    place p;
    faults f;
    int sweeps = 0;
    REQUIRE(begin_place(&p) && make_checkpoint(&p.host, p.directory, 1, "", 1) &&
            make_checkpoint(&p.host, p.directory, 2, "", 1));
    for (int kind = 0; kind < 3; kind++) {
        int failed = 1;
        for (long n = 1; failed && !test_failures_; n++) {
            int64_t step = 7;
            eitp_status status;
            faults_begin(&f);
            faults_do_not_sync(&f.real);
            if (kind)
                f.fail_file_call = n;
            else
                f.fail_allocation = n;
            f.code = kind == 1 ? EIO : EMFILE;
            status = eitp_checkpoint_recover(&f.host, p.directory, &step, &error_);
            failed = faults_end(&f);
            CHECK_THAT(status ? step == -1 && status == (kind ? EITP_ERROR_IO : EITP_ERROR_MEMORY) : step == 2,
                       "call %ld (%s): %s", n, f.failed_call, error_.message);
            check_names(&p, "checkpoint-1 checkpoint-2 ");
            sweeps++;
        }
    }
    CHECK_THAT(sweeps > 30, "%d", sweeps);
    scratch_remove(p.directory);
}

/* ---- Creating ---- */

/* Not even if only the last call fails, which makes its name durable. Otherwise other checkpoints would be pruned
   for it. */
static void what_could_not_be_saved_is_no_checkpoint(void) {
    int failures = 0;
    place p;
    REQUIRE(begin_place(&p) && make_checkpoint(&p.host, p.directory, 1, "", 1));
    for (int64_t step = 1; step <= 2; step++) {
        int failed = 1;
        for (long n = 1; failed && !test_failures_; n++) {
            faults f;
            int is_saved;
            REQUIRE_OK(eitp__remove_tree(&p.host, in(&p, "checkpoint-2"), &error_), error_);
            faults_begin(&f);
            faults_do_not_sync(&f.real);
            f.fail_file_call = n;
            f.code = ENOSPC;
            is_saved = make_checkpoint(&f.host, p.directory, step, "", 1);
            failed = faults_end(&f);
            failures += !is_saved;
            CHECK(eitp_checkpoint_prune(&p.host, p.directory, 0, &error_) == EITP_OK);
            check_names(&p, is_saved && step == 2 ? "checkpoint-1 checkpoint-2 " : "checkpoint-1 ");
            CHECK_THAT(!eitp_checkpoint_verify(&p.host, in(&p, "checkpoint-1"), &error_), "%s", error_.message);
        }
    }
    CHECK_THAT(failures > 20, "%d", failures);
    scratch_remove(p.directory);
}

/* ---- Pruning ---- */

/* A checkpoint whose manifest cannot be read is kept and does not stop the run. */
static void what_cannot_be_read_is_kept(void) {
    place p;
    REQUIRE(begin_place(&p));
    for (int kind = 0; kind < 2; kind++) {
        int failed = 1;
        for (long n = 1; failed && !test_failures_; n++) {
            faults f;
            eitp_status status;
            for (int i = 1; i < 4; i++)
                REQUIRE(make_checkpoint(&p.host, p.directory, i, "", 1));
            faults_begin(&f);
            faults_do_not_sync(&f.real);
            f.fail_file_call = kind ? n : 0;
            f.fail_allocation = kind ? 0 : n;
            status = eitp_checkpoint_prune(&f.host, p.directory, 1, &error_);
            CHECK(!status || (status == (kind ? EITP_ERROR_IO : EITP_ERROR_MEMORY) && error_.message[0]));
            CHECK(!kind || status == EITP_OK || !f.failed_call || strcmp(f.failed_call, "read") != 0);
            failed = faults_end(&f);
            CHECK_THAT(!eitp_checkpoint_verify(&p.host, in(&p, "checkpoint-3"), &error_), "%s", error_.message);
        }
    }
    scratch_remove(p.directory);
}

static void what_does_not_count_removes_nothing(void) {
    const int64_t first = 1;
    place p;
    REQUIRE(begin_place(&p));
    for (int i = 1; i < 8; i++)
        REQUIRE(make_checkpoint(&p.host, p.directory, i, "", i != 4 && i != 7));
    REQUIRE_OK(eitp__checkpoint_prune(&p.host, p.directory, 2, &first, 1, &error_), error_);
    /* 1 is the best. 4 does not count, and the newer 5 and 6 do. */
    check_names(&p, "checkpoint-1 checkpoint-5 checkpoint-6 checkpoint-7 ");
    REQUIRE(make_checkpoint(&p.host, p.directory, 8, "", 1));
    REQUIRE_OK(eitp__checkpoint_prune(&p.host, p.directory, 2, NULL, 0, &error_), error_);
    check_names(&p, "checkpoint-6 checkpoint-7 checkpoint-8 ");
    /* A checkpoint with a damaged manifest is neither counted nor removed. */
    REQUIRE(make_checkpoint(&p.host, p.directory, 9, "", 1) &&
            change_byte(in(&p, "checkpoint-9/manifest.json"), 40, 1));
    REQUIRE(change_byte(in(&p, "checkpoint-6/manifest.json"), 40, 1));
    REQUIRE_OK(eitp__checkpoint_prune(&p.host, p.directory, 1, NULL, 0, &error_), error_);
    check_names(&p, "checkpoint-6 checkpoint-8 checkpoint-9 ");
    /* Of the checkpoints that do not count, only the newest is kept, so persistent pressure or stops do not fill the
       disk. */
    REQUIRE(make_checkpoint(&p.host, p.directory, 10, "", 0) && make_checkpoint(&p.host, p.directory, 11, "", 0));
    REQUIRE_OK(eitp__checkpoint_prune(&p.host, p.directory, 5, NULL, 0, &error_), error_);
    check_names(&p, "checkpoint-11 checkpoint-6 checkpoint-8 checkpoint-9 ");
    scratch_remove(p.directory);
}

static void leftovers_are_removed_and_replaced_ones_restored(void) {
    place p;
    int64_t step = -1;
    REQUIRE(begin_place(&p) && make_checkpoint(&p.host, p.directory, 3, "", 1) &&
            make_checkpoint(&p.host, p.directory, 4, "", 1));
    REQUIRE(make_checkpoint(&p.host, p.directory, 4, ".diverged", 1));
    REQUIRE(!rename(in(&p, "checkpoint-3"), in(&p, ".checkpoint-3.replaced")));
    REQUIRE(!rename(in(&p, "checkpoint-4.diverged"), in(&p, ".checkpoint-4.diverged.replaced")));
    REQUIRE(!mkdir(in(&p, ".checkpoint-4.replaced"), 0777) && !mkdir(in(&p, ".checkpoint-5.partial"), 0777) &&
            !mkdir(in(&p, ".checkpoint-2.removed"), 0777) && write_to(in(&p, ".checkpoint-2.removed/x"), "w", "x"));
    REQUIRE(write_to(in(&p, "notes.tmp"), "w", "of the user"));
    REQUIRE_OK(eitp_checkpoint_newest(&p.host, p.directory, &step, &error_), error_);
    CHECK(step == 4 && kind_of(in(&p, ".checkpoint-3.replaced")) == EITP_PATH_DIRECTORY);
    REQUIRE_OK(eitp_checkpoint_prune(&p.host, p.directory, 0, &error_), error_);
    check_names(&p, "checkpoint-3 checkpoint-4 checkpoint-4.diverged notes.tmp ");
    REQUIRE_OK(eitp_checkpoint_verify(&p.host, in(&p, "checkpoint-4"), &error_), error_);
    scratch_remove(p.directory);
}

/* ---- Kills ---- */

static eitp_status fill_through(void *user, const char *directory, eitp_error *error) {
    const eitp_host *host = (const eitp_host *)user;
    eitp_status status = eitp__make_directories(host, scratch_path(directory, "inner"), error);
    if (!status)
        status = eitp__write_file(host, scratch_path(directory, "inner/a"), "first", 5, error);
    return status ? status : eitp__write_file(host, scratch_path(directory, "b"), "second", 6, error);
}

/* A host that checks, at each change of a name, that the checkpoint of step 4 has its name. */
typedef struct watched {
    eitp_host host;
    char checkpoint[600];
    long changes, missing;
} watched;

static int watch(watched *w, int code) {
    w->changes++;
    w->missing += kind_of(w->checkpoint) != EITP_PATH_DIRECTORY;
    return code;
}

static int watch_rename(void *user, const char *from, const char *to) {
    return watch((watched *)user, eitp_host_default().files.rename(NULL, from, to));
}

static int watch_remove(void *user, const char *path) {
    return watch((watched *)user, eitp_host_default().files.remove(NULL, path));
}

static int watch_exchange(void *user, const char *a, const char *b) {
    return watch((watched *)user, eitp_host_default().files.exchange(NULL, a, b));
}

static void begin_watched(watched *w, const place *p) {
    w->host = p->host;
    w->host.files.user = w;
    w->host.files.rename = watch_rename;
    w->host.files.remove = watch_remove;
    w->host.files.exchange = watch_exchange;
    snprintf(w->checkpoint, sizeof w->checkpoint, "%s/checkpoint-4", p->directory);
    w->changes = w->missing = 0;
}

static int refuse_exchange(void *user, const char *a, const char *b) {
    (void)user, (void)a, (void)b;
    return EINVAL;
}

/* A kill between any two changes leaves a checkpoint-4, either the earlier or the new one. If names cannot be
   exchanged, there is none after one of the changes. */
static void a_checkpoint_written_again_always_has_its_name(void) {
    for (int way = 0; way < 3; way++) {
        place p;
        watched w;
        REQUIRE(begin_place(&p) && make_checkpoint(&p.host, p.directory, 4, "", 1));
        begin_watched(&w, &p);
        if (way)
            w.host.files.exchange = way == 1 ? refuse_exchange : NULL;
        REQUIRE_OK(eitp_checkpoint_create(&w.host, p.directory, 4, fill_through, &w.host, &error_), error_);
        CHECK_THAT(w.changes > 0 && w.missing == (way > 0), "%ld of %ld changes left no checkpoint-4", w.missing,
                   w.changes);
        CHECK(kind_of(in(&p, "checkpoint-4/b")) == EITP_PATH_FILE &&
              kind_of(in(&p, "checkpoint-4/content")) == EITP_PATH_MISSING);
        check_names(&p, "checkpoint-4 ");
        scratch_remove(p.directory);
    }
}

/* Saves step `step` and prunes. */
static eitp_status save_and_prune(const eitp_host *host, const char *directory, int64_t step) {
    const int64_t first = 1;
    eitp_status status = eitp_checkpoint_create(host, directory, step, fill_through, (void *)host, &error_);
    if (!status)
        status = eitp__checkpoint_clean(host, directory, &error_);
    return status ? status : eitp__checkpoint_prune(host, directory, 2, &first, 1, &error_);
}

/* Does the same in a process that ends at file call `n`. Returns 1 if the call was reached. */
static int save_killed(const char *directory, int64_t step, long n, int tear, int exchanges) {
    int status = 0;
    pid_t child;
    fflush(stdout);
    child = fork();
    if (!child) {
        faults f;
        faults_begin(&f);
        faults_do_not_sync(&f.real);
        f.host.files.exchange = exchanges ? f.host.files.exchange : NULL;
        f.fail_file_call = n;
        f.exits = 1;
        f.tear = tear;
        _exit(save_and_prune(&f.host, directory, step) ? 1 : 0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == FAULTS_EXIT || WEXITSTATUS(status) == 0);
    return WEXITSTATUS(status) == FAULTS_EXIT;
}

/* Every directory with the name of a checkpoint is complete. */
static void check_all_whole(const place *p, long n) {
    char names[1024], *name;
    list_names(p, names, sizeof names);
    for (name = strtok(names, " "); name; name = strtok(NULL, " ")) {
        if (name[0] == 'c')
            CHECK_THAT(!eitp_checkpoint_verify(&p->host, in(p, name), &error_), "call %ld: %s", n, error_.message);
    }
}

/* At every file call of a save and its prune, for a new step (5) and an existing one (4). */
static void a_kill_at_any_call_leaves_whole_checkpoints(void) {
    int kills = 0;
    for (int way = 0; way < 8; way++) {
        const int64_t saved = way & 1 ? 4 : 5;
        const int tear = way >> 1 & 1, exchanges = way >> 2;
        int reached = 1;
        for (long n = 1; reached && !test_failures_; n += test_stride(1, 4)) {
            place p;
            int64_t step = -1;
            REQUIRE(begin_place(&p));
            for (int i = 1; i < 5; i++)
                REQUIRE(make_checkpoint(&p.host, p.directory, i, "", i != 3));
            reached = save_killed(p.directory, saved, n, tear, exchanges);
            kills += reached;
            check_all_whole(&p, n);
            CHECK(!exchanges || kind_of(in(&p, "checkpoint-4")) == EITP_PATH_DIRECTORY);
            REQUIRE_OK(eitp_checkpoint_recover(&p.host, p.directory, &step, &error_), error_);
            CHECK_THAT(step == 4 || step == saved, "call %ld: %d", n, (int)step);
            CHECK_THAT(!strstr(p.log, "damaged"), "call %ld: %s", n, p.log);
            check_all_whole(&p, n);
            /* A second kill at the same call can be recovered from too. */
            save_killed(p.directory, saved, n, tear, exchanges);
            check_all_whole(&p, n);
            CHECK_THAT(!save_and_prune(&p.host, p.directory, saved), "call %ld: %s", n, error_.message);
            check_names(&p, saved == 5 ? "checkpoint-1 checkpoint-4 checkpoint-5 "
                                       : "checkpoint-1 checkpoint-2 checkpoint-3 checkpoint-4 ");
            scratch_remove(p.directory);
        }
    }
    printf("%d kills, at every file call of a save and its prune\n", kills);
    CHECK(kills > 100 / test_stride(1, 4));
}

/* ---- Every byte ---- */

/* The state and counts of a sweep. */
typedef struct sweep {
    run *r, *loaded; /* resuming r verifies before any change, resuming loaded verifies while loading */
    char checkpoint[600];
    uint32_t before; /* hash of the weights and state of r */
    int changed, rejected;
} sweep;

/* Damage must be refused without changing anything. The trainer reads everything that a resume would use. */
static void check_rejected(sweep *s, const char *name, long at, int resumes) {
    const eitp_host host = eitp_host_default();
    eitp_status status = resumes ? eitp_trainer_resume(s->r->trainer, s->checkpoint, &error_)
                                 : eitp_checkpoint_verify(&host, s->checkpoint, &error_);
    s->changed++;
    s->rejected += status == EITP_ERROR_FORMAT;
    CHECK_THAT(status == EITP_ERROR_FORMAT, "%s, byte %ld: status %d", name, at, (int)status);
    if (!resumes || !strstr(name, ".safetensors"))
        return;
    status = eitp__trainer_resume(s->loaded->trainer, s->checkpoint, 1, &error_);
    s->changed++;
    s->rejected += status != EITP_OK;
    CHECK_THAT(status != EITP_OK, "%s, byte %ld: loaded", name, at);
}

static void sweep_file(sweep *s, const char *name) {
    char path[800];
    const int is_json = strstr(name, ".json") != NULL;
    unsigned char length[8] = {0};
    long size, head, stride = 1;
    FILE *file;
    snprintf(path, sizeof path, "%s/%.100s", s->checkpoint, name);
    head = size = size_of(path);
    file = fopen(path, "rb");
    REQUIRE(file && size > 16 && fread(length, 1, 8, file) == 8 && !fclose(file));
    if (!is_json)
        head = 8 + (long)length[0] + ((long)length[1] << 8) + ((long)length[2] << 16);
    for (long at = 0; at < size && test_failures_ < 10; at += stride) {
        stride = at < head ? test_stride(1, 7) : 997;
        REQUIRE(change_byte(path, at, 1)); /* digits change to other digits */
        /* Only a full read detects changes in the strings at the start of a tensor header or the spaces at its end. */
        check_rejected(s, name, at, is_json || at % 64 == 0 || at < 96 || (at < head && at >= head - 8));
        REQUIRE(change_byte(path, at, 1));
    }
    file = fopen(path, "ab");
    REQUIRE(file && fputc(' ', file) == ' ' && !fclose(file));
    check_rejected(s, name, size, 1);
    REQUIRE(!truncate(path, size));
    REQUIRE(change_byte(path, size - 1, 1) && change_byte(path, size - 1, 1));
}

/* Every value of every byte at the end of the manifest, where JSON would ignore white space. */
static void sweep_tail(sweep *s) {
    char path[800];
    long size;
    snprintf(path, sizeof path, "%s/manifest.json", s->checkpoint);
    size = size_of(path);
    for (long at = size - 14; at < size && test_failures_ < 10; at++) {
        for (int difference = 1; difference < 256; difference += (int)test_stride(1, 17)) {
            REQUIRE(change_byte(path, at, difference));
            check_rejected(s, "manifest.json", at, 0);
            REQUIRE(change_byte(path, at, difference));
        }
    }
}

/* Removes the last byte, then restores it and renames the file away and back. */
static void sweep_ends(sweep *s, const char *name) {
    char path[800], moved[820];
    long size;
    FILE *file;
    int last;
    snprintf(path, sizeof path, "%s/%.100s", s->checkpoint, name);
    snprintf(moved, sizeof moved, "%s.moved", path);
    size = size_of(path);
    file = fopen(path, "rb");
    REQUIRE(file && !fseek(file, -1, SEEK_END));
    last = fgetc(file);
    fclose(file);
    REQUIRE(!truncate(path, size - 1));
    check_rejected(s, name, size - 1, 1);
    file = fopen(path, "ab");
    REQUIRE(file && fputc(last, file) == last && !fclose(file));
    REQUIRE(!rename(path, moved));
    check_rejected(s, name, -1, 1);
    REQUIRE(!rename(moved, path));
}

/* Writes a program's own file, such as the run's. */
static eitp_status fill_state(void *user, const char *directory, eitp_error *error) {
    static const char text[] = "{\"evaluations\": [1, 2.5, 37]}\n";
    const eitp_host host = eitp_host_default();
    (void)user;
    return eitp__write_file(&host, scratch_path(directory, "run_state.json"), text, sizeof text - 1, error);
}

static void every_byte_matters(void) {
    static const char *const whole[] = {"manifest.json",          "trainer_state.json",   "config.json",
                                        "generation_config.json", "tokenizer.json",       "run_state.json",
                                        "model.safetensors",      "optimizer.safetensors"};
    static const char *const adapters[] = {"manifest.json",       "trainer_state.json",        "config.json",
                                           "adapter_config.json", "adapter_model.safetensors", "optimizer.safetensors"};
    const eitp__save_options options = {"", 0, fill_state, NULL};
    int changed = 0, rejected = 0;
    for (int rank = 0; rank < 3; rank += 2) {
        const char *const *names = rank ? adapters : whole;
        const size_t count = rank ? EITP__COUNT(adapters) : EITP__COUNT(whole);
        variant v = default_variant();
        place p;
        run r, loaded;
        sweep s = EITP__ZERO;
        v.threads = 1;
        v.lora_rank = rank;
        REQUIRE(begin_place(&p) && write_text(p.directory));
        REQUIRE_OK(make_run(&r, &p.host, &v, p.directory, &error_), error_);
        REQUIRE(step_many(&r, 2, NULL));
        REQUIRE_OK(eitp__trainer_save(r.trainer, p.directory, &options, &error_), error_);
        REQUIRE(step_many(&r, 1, NULL));
        REQUIRE_OK(make_run(&loaded, &p.host, &v, p.directory, &error_), error_);
        s.r = &r;
        s.loaded = &loaded;
        snprintf(s.checkpoint, sizeof s.checkpoint, "%s/checkpoint-2", p.directory);
        s.before = fingerprint(&r);
        for (size_t i = 0; i < count && !test_failures_; i++) {
            sweep_file(&s, names[i]);
            sweep_ends(&s, names[i]);
        }
        sweep_tail(&s);
        CHECK(fingerprint(&r) == s.before && eitp_trainer_steps_done(r.trainer) == 3);
        changed += s.changed;
        rejected += s.rejected;
        /* All changes have been undone. */
        REQUIRE_OK(eitp_trainer_resume(r.trainer, in(&p, "checkpoint-2"), &error_), error_);
        CHECK(fingerprint(&r) != s.before);
        REQUIRE_OK(eitp__trainer_resume(loaded.trainer, in(&p, "checkpoint-2"), 1, &error_), error_);
        CHECK(fingerprint(&loaded) == fingerprint(&r));
        end_run(&r);
        end_run(&loaded);
        scratch_remove(p.directory);
    }
    printf("%d changes to two checkpoints: %d rejected, %d used wrongly\n", changed, rejected, changed - rejected);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(a_manifest_lists_every_file),
        TEST(what_cannot_be_listed_is_refused),
        TEST(files_are_summed_as_they_are_written),
        TEST(damage_is_named),
        TEST(an_earlier_checkpoint_is_verified),
        TEST(the_newest_that_is_whole_is_recovered),
        TEST(a_failure_to_read_is_not_damage),
        TEST(what_could_not_be_saved_is_no_checkpoint),
        TEST(what_cannot_be_read_is_kept),
        TEST(what_does_not_count_removes_nothing),
        TEST(leftovers_are_removed_and_replaced_ones_restored),
        TEST(a_checkpoint_written_again_always_has_its_name),
        TEST(a_kill_at_any_call_leaves_whole_checkpoints),
        TEST(every_byte_matters),
    };
    return RUN_TESTS(tests, argc, argv);
}
