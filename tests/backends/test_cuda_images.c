/*
 * Images of CUDA kernels: compilation on several threads, the cache, the log, failures, and other processes. Run with
 * the emulated NVRTC (tests/cuda/on_emulated.sh); otherwise no test runs.
 */
#include "backends/cuda/prepared.h"

#include "tests/support/everything.h"
#include "tests/support/faults.h"

#include <dlfcn.h>

/* Functions of the emulated NVRTC, or NULL. */
static struct { int (*live)(void), (*most_running)(void); } emulated;

static void find_emulated(void) {
    void *compiler = dlopen("libnvrtc.so.13", RTLD_NOW);
    void *live = compiler ? dlsym(compiler, "emulated_nvrtc_live") : NULL;
    void *most_running = compiler ? dlsym(compiler, "emulated_nvrtc_most_running") : NULL;
    memcpy(&emulated.live, &live, sizeof live);
    memcpy(&emulated.most_running, &most_running, sizeof most_running);
}

enum { IMAGES = 5 };

/* A process that needs images, and another one, which may lock the cache. */
static struct {
    char folder[512];
    eitp_host host; /* of this process */
    eitp__cuda_compiler compiler;
    eitp__cuda_cache cache;
    eitp__cuda_image images[IMAGES];
    char log[2000];
    int is_locked;              /* by the other process */
    int waits;                  /* of this process, so far */
    int stores_at;              /* the wait in which the other process stores; 0: before this one locks */
    int unlocks_at;             /* the wait in which it unlocks */
    int stored;                 /* number of images that it stores */
    eitp__cuda_image *provided; /* the images that it stores */
    int locks;                  /* held by this process */
} it;

static void write_log(void *user, eitp_log_level level, const char *line) {
    const size_t length = strlen(it.log);
    (void)user;
    if (level == EITP_LOG_INFO)
        snprintf(it.log + length, sizeof it.log - length, "%s\n", line);
}

static void store_provided(void) {
    for (int i = 0; i < it.stored; i++)
        eitp__cuda_cache_store(&it.cache, it.provided[i].key, &it.provided[i].data);
}

static int lock(void *user, const char *path, void **handle) {
    (void)user, (void)path;
    if (it.is_locked)
        return EWOULDBLOCK;
    if (it.stores_at == 0)
        store_provided();
    it.locks++;
    *handle = &it.locks;
    return 0;
}

static void unlock(void *user, void *handle) {
    (void)user, (void)handle;
    it.locks--;
}

/* The other process works while this one waits. */
static void wait_for_it(void *user, double seconds) {
    (void)user, (void)seconds;
    it.waits++;
    if (it.waits == it.stores_at)
        store_provided();
    if (it.waits == it.unlocks_at)
        it.is_locked = 0;
}

/* Requests the images of some kernels of a file again. */
static void request(void) {
    static const char *const kernels[IMAGES] = {"add_kernel", "relu_kernel", "exp_kernel", "log_kernel", "sqrt_kernel"};
    for (int i = 0; i < IMAGES; i++) {
        eitp__cuda_image *image = &it.images[i];
        eitp__buffer_release(&image->data);
        image->source.file = "kernels/cuda/elementwise.cu";
        image->source.definitions = "SCALAR=0";
        image->source.kernel = kernels[i];
        image->key = eitp__cuda_compile_key(&it.compiler, &image->source);
        eitp__buffer_init(&image->data, &it.host);
    }
    it.log[0] = 0;
}

/* Starts a process with an empty cache. */
static void start(void) {
    eitp_error error = EITP__ZERO;
    memset(&it, 0, sizeof it);
    CHECK(scratch_make(it.folder));
    setenv("XDG_CACHE_HOME", it.folder, 1);
    it.host = eitp_host_default();
    it.host.log.write = write_log;
    it.host.files.lock = lock;
    it.host.files.unlock = unlock;
    it.host.files.wait = wait_for_it;
    CHECK_THAT(!eitp__cuda_compiler_open(&it.compiler, &it.host, 13000, 86, &error), "%s", error.message);
    eitp__cuda_cache_open(&it.cache, &it.host);
    for (int i = 0; i < IMAGES; i++)
        eitp__buffer_init(&it.images[i].data, &it.host);
    request();
}

static void end(void) {
    for (int i = 0; i < IMAGES; i++)
        eitp__buffer_release(&it.images[i].data);
    CHECK_THAT(emulated.live() == 0 && it.locks == 0, "%d programs, %d locks", emulated.live(), it.locks);
    unsetenv("EITP_EMULATED_NVRTC_FAIL");
    unsetenv("EITP_EMULATED_NVRTC_MEET");
    scratch_remove(it.folder);
}

static eitp_status get_until(int threads, const eitp__poll *poll, eitp_error *error) {
    return eitp__cuda_images_get(&it.compiler, &it.cache, it.images, IMAGES, threads, poll, error);
}

static eitp_status get(int threads, eitp_error *error) {
    return get_until(threads, NULL, error);
}

static void check_get(int threads) {
    eitp_error error = EITP__ZERO;
    CHECK_THAT(!get(threads, &error), "%s", error.message);
    for (int i = 0; i < IMAGES; i++)
        CHECK(it.images[i].data.size > 0);
}

/* From now on, a compilation fails. */
static void forbid_compiling(void) {
    setenv("EITP_EMULATED_NVRTC_FAIL", "nvrtcCompileProgram:1:6", 1);
}

static int count_images(void) {
    int count = 0;
    request();
    for (int i = 0; i < IMAGES; i++)
        count += eitp__cuda_cache_find(&it.cache, it.images[i].key, &it.images[i].data);
    return count;
}

/* ---- Prepared kernels ---- */

/* A prepared kernel is for one device, file, set of definitions and name, and for any NVRTC. */
static void prepared_kernels_have_different_keys(void) {
    static const eitp__kernel_source sources[] = {
        {"kernels/cuda/elementwise.cu", "SCALAR=0", "add_kernel"},
        {"kernels/cuda/elementwise.cu", "SCALAR=0", "exp_kernel"},
        {"kernels/cuda/elementwise.cu", "SCALAR=1", "add_kernel"},
        {"kernels/cuda/reduce.cu", "SCALAR=0", "add_kernel"},
    };
    uint64_t keys[EITP__COUNT(sources) + 1];
    for (size_t i = 0; i < EITP__COUNT(sources); i++)
        keys[i] = eitp__cuda_prepared_key(86, &sources[i]);
    keys[EITP__COUNT(sources)] = eitp__cuda_prepared_key(80, &sources[0]);
    for (size_t i = 0; i < EITP__COUNT(keys); i++)
        for (size_t j = 0; j < i; j++)
            CHECK_THAT(keys[i] != keys[j], "%zu and %zu", i, j);
}

/* The key of a kernel whose file has no text. */
static uint64_t key_without_text(const char *file) {
    char target[100];
    const size_t length = (size_t)snprintf(target, sizeof target, "prepared sm_86|%s|SCALAR=0|add_kernel|", file);
    for (size_t i = 0; i < length; i++)
        target[i] = (char)(target[i] == '|' ? 0 : target[i]);
    return eitp__fnv1a(EITP__FNV_START, target, length);
}

/* A key depends on the text of the file, so that no kernel of another version of it is taken. */
static void a_key_depends_on_the_text(void) {
    const eitp__kernel_source source = {"kernels/cuda/elementwise.cu", "SCALAR=0", "add_kernel"};
    const eitp__kernel_source missing = {"kernels/cuda/none.cu", "SCALAR=0", "add_kernel"};
    CHECK(eitp__cuda_prepared_key(86, &missing) == key_without_text(missing.file));
    CHECK(eitp__cuda_prepared_key(86, &source) != key_without_text(source.file));
}

/* ---- Compiling ---- */

static void kernels_are_compiled_at_the_same_time(void) {
    start();
    setenv("EITP_EMULATED_NVRTC_MEET", "3", 1);
    check_get(3);
    CHECK_THAT(emulated.most_running() == 3, "%d at the same time", emulated.most_running());
    end();
}

static void a_second_start_compiles_nothing(void) {
    start();
    check_get(2);
    CHECK(count_images() == IMAGES);
    request();
    forbid_compiling();
    check_get(2);
    CHECK_THAT(!*it.log, "%s", it.log);
    end();
}

static void only_what_is_missing_is_compiled(void) {
    start();
    check_get(1);
    eitp__buffer_release(&it.images[1].data);
    eitp__buffer_release(&it.images[3].data);
    it.cache.folder[0] = 0; /* so that they are not found */
    it.log[0] = 0;
    check_get(1);
    CHECK_THAT(strstr(it.log, "compiling 2 GPU kernels with NVRTC 13.0 (at every start: no cache folder)"), "%s",
               it.log);
    end();
}

static void the_log_shows_progress(void) {
    char expected[700];
    start();
    check_get(2);
    snprintf(expected, sizeof expected,
             "compiling 5 GPU kernels with NVRTC 13.0 (once; cached in %s/eitp/kernels)\ncompiled 5 GPU kernels in ",
             it.folder);
    CHECK_THAT(!strncmp(it.log, expected, strlen(expected)), "%s", it.log);
    end();
}

/* Whichever compilation fails, the error is reported, and those that succeed are kept. One thread has started one more
   before it is seen. */
static void compilations_fail_in_turn(void) {
    for (int threads = 1; threads <= 2; threads++)
        for (int n = 1; n <= IMAGES; n++) {
            const int most = threads == 1 && n < IMAGES ? n : IMAGES - 1;
            eitp_error error = EITP__ZERO;
            char fault[64];
            int kept;
            start();
            snprintf(fault, sizeof fault, "nvrtcCompileProgram:%d:6", n);
            setenv("EITP_EMULATED_NVRTC_FAIL", fault, 1);
            CHECK(get(threads, &error) == EITP_ERROR_INTERNAL);
            CHECK_THAT(strstr(error.message, "NVRTC 13.0 cannot compile kernels/cuda/elementwise.cu (error 6): "), "%s",
                       error.message);
            CHECK_THAT(!strstr(it.log, "compiled"), "%s", it.log);
            kept = count_images();
            CHECK_THAT(kept >= n - 1 && kept <= most, "%d of %d, with %d threads", kept, n, threads);
            end();
        }
}

/* Without memory there is an error, and nothing is left. */
static void allocations_fail_in_turn(void) {
    int failures = 0;
    for (long n = 1;; n++) {
        eitp_error error = EITP__ZERO;
        eitp_status status;
        faults f;
        start();
        faults_begin(&f);
        f.fail_allocation = n;
        it.cache.host = &f.host;
        for (int i = 0; i < IMAGES; i++)
            it.images[i].data.host = &f.host;
        status = get(2, &error);
        failures += status != EITP_OK;
        CHECK_THAT(!status || status == EITP_ERROR_MEMORY, "%s", error.message);
        for (int i = 0; i < IMAGES; i++)
            eitp__buffer_release(&it.images[i].data);
        n = faults_end(&f) ? n : -1;
        it.cache.host = &it.host;
        end();
        if (n < 0)
            break;
    }
    CHECK_THAT(failures > 2 * IMAGES, "%d", failures);
}

static int polls_left; /* before a stop is requested */

static int count_polls(void *user) {
    (void)user;
    return polls_left-- <= 0;
}

/* A stop ends the compilation, and keeps the images that are ready. */
static void compilation_can_be_stopped(void) {
    const eitp__poll poll = {count_polls, NULL};
    eitp_error error = EITP__ZERO;
    for (int polls = 0; polls <= 2; polls++) {
        int kept;
        start();
        polls_left = polls;
        CHECK(get_until(1, &poll, &error) == EITP_ERROR_INTERRUPTED);
        CHECK_THAT(!polls || strstr(it.log, "compiling 5 GPU kernels"), "%s", it.log);
        CHECK_THAT(!strstr(it.log, "compiled 5"), "%s", it.log);
        kept = count_images();
        CHECK_THAT(kept < IMAGES && (polls || !kept), "%d are kept after %d polls", kept, polls);
        request();
        check_get(1);
        end();
    }
}

/* ---- Other processes ---- */

/* Fills a cache, and keeps its images for the other process. Returns them. */
static eitp__cuda_image *provide(void) {
    static eitp__cuda_image images[IMAGES];
    check_get(1);
    memcpy(images, it.images, sizeof images);
    for (int i = 0; i < IMAGES; i++)
        eitp__buffer_init(&it.images[i].data, &it.host);
    request();
    for (int i = 0; i < IMAGES; i++) {
        char name[100];
        snprintf(name, sizeof name, "eitp/kernels/%016llx.kernels", (unsigned long long)images[i].key);
        CHECK(!remove(scratch_path(it.folder, name)));
    }
    it.is_locked = 1;
    return images;
}

static void drop(eitp__cuda_image *images) {
    for (int i = 0; i < IMAGES; i++)
        eitp__buffer_release(&images[i].data);
}

static void images_of_another_process_are_waited_for(void) {
    start();
    it.provided = provide();
    it.stored = IMAGES;
    it.stores_at = 7;
    forbid_compiling();
    check_get(2);
    CHECK_THAT(it.waits == 7, "%d waits", it.waits);
    CHECK_THAT(!strcmp(it.log, "waiting for another process that compiles GPU kernels\n"), "%s", it.log);
    drop(it.provided);
    end();
}

/* The other process ends after this one has looked for images, and before it locks the cache. */
static void images_of_a_process_that_ends_are_used(void) {
    start();
    it.provided = provide();
    it.stored = IMAGES;
    it.is_locked = 0;
    forbid_compiling();
    check_get(2);
    CHECK_THAT(it.waits == 0 && !*it.log, "%d waits, %s", it.waits, it.log);
    drop(it.provided);
    end();
}

static void another_process_is_not_awaited_after_a_stop(void) {
    const eitp__poll poll = {count_polls, NULL};
    eitp_error error = EITP__ZERO;
    start();
    it.provided = provide();
    it.stores_at = 1000;
    polls_left = 3;
    CHECK(get_until(1, &poll, &error) == EITP_ERROR_INTERRUPTED);
    CHECK_THAT(it.waits == 3 && !strstr(it.log, "compiling"), "%d waits, %s", it.waits, it.log);
    drop(it.provided);
    end();
}

/* When the other process has ended, this one compiles the missing images. */
static void a_process_that_ends_is_not_waited_for(void) {
    start();
    it.provided = provide();
    it.stored = 2;
    it.stores_at = it.unlocks_at = 3;
    check_get(2);
    CHECK_THAT(it.waits == 3 && strstr(it.log, "compiling 3 GPU kernels"), "%d waits, %s", it.waits, it.log);
    drop(it.provided);
    end();
}

/* A process that compiles is waited for as long as it stores an image each minute. */
static void a_process_that_stops_is_not_waited_for(void) {
    start();
    it.provided = provide();
    it.stored = 1;
    it.stores_at = 500;
    check_get(2);
    CHECK_THAT(it.waits >= 1099 && it.waits <= 1101 && strstr(it.log, "compiling 4 GPU kernels"), "%d waits, %s",
               it.waits, it.log);
    drop(it.provided);
    end();
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(prepared_kernels_have_different_keys),
        TEST(a_key_depends_on_the_text),
        TEST(kernels_are_compiled_at_the_same_time),
        TEST(a_second_start_compiles_nothing),
        TEST(only_what_is_missing_is_compiled),
        TEST(the_log_shows_progress),
        TEST(compilations_fail_in_turn),
        TEST(compilation_can_be_stopped),
        TEST(allocations_fail_in_turn),
        TEST(images_of_another_process_are_waited_for),
        TEST(another_process_is_not_awaited_after_a_stop),
        TEST(a_process_that_ends_is_not_waited_for),
        TEST(images_of_a_process_that_ends_are_used),
        TEST(a_process_that_stops_is_not_waited_for),
    };
    find_emulated();
    return run_tests(tests, emulated.live ? EITP__COUNT(tests) : 0, argc, argv);
}
