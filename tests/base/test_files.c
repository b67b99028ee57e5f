/* The POSIX file table and the checked file operations. */
#include "tests/support/everything.h"

#include "base/files.h"

#include "tests/support/faults.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char directory[512];

static const char *in(const char *name) {
    return scratch_path(directory, name);
}

/* Writes a file without the functions under test. */
static void put(const char *name, const char *text) {
    FILE *file = fopen(in(name), "wb");
    CHECK(file && fwrite(text, 1, strlen(text), file) == strlen(text) && !fclose(file));
}

/* True if a file contains exactly `text`. */
static int holds(const char *name, const char *text) {
    char bytes[256];
    FILE *file = fopen(in(name), "rb");
    size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (!file)
        return 0;
    fclose(file);
    return size == strlen(text) && !memcmp(bytes, text, size);
}

static int is_there(const char *name) {
    struct stat info;
    return !lstat(in(name), &info);
}

static void a_missing_path_is_an_argument_error(void) {
    const eitp_host host = eitp_host_default();
    eitp__file file;
    eitp_error error;
    char expected[700];
    put("plain", "x");
    CHECK(eitp__file_open(&file, &host, in("missing"), EITP_FILE_READ, &error) == EITP_ERROR_ARGUMENT);
    snprintf(expected, sizeof expected, "cannot open '%s': no such file or directory; check the path", in("missing"));
    CHECK_THAT(!strcmp(error.message, expected), "%s", error.message);
    CHECK(error.status == EITP_ERROR_ARGUMENT);
    CHECK(!file.host && !file.path && !file.handle);
    CHECK(eitp__file_open(&file, &host, directory, EITP_FILE_READ, &error) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error.message, ": is a directory"), "%s", error.message);
    CHECK(eitp__file_open(&file, &host, directory, EITP_FILE_REPLACE, &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp__file_open(&file, &host, in("plain/below"), EITP_FILE_READ, &error) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error.message, "not a directory"), "%s", error.message);
    CHECK(eitp__file_open(&file, &host, in("missing"), EITP_FILE_READ, NULL) == EITP_ERROR_ARGUMENT);
}

static void a_pipe_is_refused_without_waiting(void) {
    const eitp_host host = eitp_host_default();
    eitp__file file;
    eitp_error error;
    REQUIRE(!mkfifo(in("pipe"), 0600));
    CHECK(eitp__file_open(&file, &host, in("pipe"), EITP_FILE_READ, &error) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error.message, "not a regular file"), "%s", error.message);
}

static void reads_and_writes_at_positions(void) {
    faults f;
    eitp__file file;
    eitp_error error;
    uint64_t size = 0;
    char bytes[16] = "";
    size_t done = 0;
    /* Also with short transfers. */
    for (size_t largest = 0; largest < 4; largest++) {
        faults_begin(&f);
        f.largest_transfer = largest;
        REQUIRE_OK(eitp__file_open(&file, &f.host, in("file"), EITP_FILE_REPLACE, &error), error);
        REQUIRE_OK(eitp__file_write(&file, 5, "56789", 5, &error), error);
        REQUIRE_OK(eitp__file_write(&file, 0, "01234", 5, &error), error);
        REQUIRE_OK(eitp__file_sync(&file, &error), error);
        REQUIRE_OK(eitp__file_size(&file, &size, &error), error);
        CHECK(size == 10);
        REQUIRE_OK(eitp__file_read(&file, 3, bytes, 4, &error), error);
        CHECK(!memcmp(bytes, "3456", 4));
        REQUIRE_OK(eitp__file_read_some(&file, 8, bytes, 10, &done, &error), error);
        CHECK(done == 2 && !memcmp(bytes, "89", 2));
        CHECK(eitp__file_read(&file, 8, bytes, 10, &error) == EITP_ERROR_FORMAT);
        CHECK_THAT(strstr(error.message, "ends after 10 bytes, expected at least 18"), "%s", error.message);
        REQUIRE_OK(eitp__file_close(&file, &error), error);
        REQUIRE_OK(eitp__file_close(&file, &error), error);
        faults_end(&f);
        CHECK(holds("file", "0123456789"));
    }
}

static void open_modes_keep_or_empty_files(void) {
    const eitp_host host = eitp_host_default();
    eitp__file file;
    eitp_error error;
    put("kept", "old");
    REQUIRE_OK(eitp__file_open(&file, &host, in("kept"), EITP_FILE_UPDATE, &error), error);
    REQUIRE_OK(eitp__file_write(&file, 3, "er", 2, &error), error);
    REQUIRE_OK(eitp__file_close(&file, &error), error);
    CHECK(holds("kept", "older"));
    REQUIRE_OK(eitp__file_open(&file, &host, in("kept"), EITP_FILE_REPLACE, &error), error);
    REQUIRE_OK(eitp__file_close(&file, &error), error);
    CHECK(holds("kept", ""));
    REQUIRE_OK(eitp__file_open(&file, &host, in("kept"), EITP_FILE_READ, &error), error);
    CHECK(eitp__file_write(&file, 0, "x", 1, &error) == EITP_ERROR_IO);
    REQUIRE_OK(eitp__file_close(&file, &error), error);
}

/* Another user may have put a link or a file where a temporary file will be created. */
static void a_new_file_is_never_one_that_was_there(void) {
    static const char *const ways[] = {"link", "dangling link", "other name"};
    const eitp_host host = eitp_host_default();
    char elsewhere[512];
    snprintf(elsewhere, sizeof elsewhere, "%s", in("elsewhere"));
    for (int way = 0; way < 3; way++) {
        eitp__file file;
        eitp_error error;
        eitp_path_info info;
        remove(in("new"));
        put("precious", "of the user");
        if (way == 0)
            REQUIRE(!symlink("precious", in("new")));
        else if (way == 1)
            REQUIRE(!symlink(elsewhere, in("new")));
        else
            REQUIRE(!link(in("precious"), in("new")));
        REQUIRE_OK(eitp__path_info(&host, in("new"), &info, &error), error);
        CHECK(info.is_link == (way < 2) && info.kind == (way == 1 ? EITP_PATH_MISSING : EITP_PATH_FILE));
        REQUIRE_OK(eitp__file_open(&file, &host, in("new"), EITP_FILE_REPLACE, &error), error);
        REQUIRE_OK(eitp__file_write(&file, 0, "text", 4, &error), error);
        REQUIRE_OK(eitp__file_close(&file, &error), error);
        CHECK_THAT(holds("precious", "of the user") && !is_there("elsewhere"), "followed a %s", ways[way]);
        REQUIRE_OK(eitp__path_info(&host, in("new"), &info, &error), error);
        CHECK_THAT(holds("new", "text") && !info.is_link, "%s", ways[way]);
    }
}

static void only_files_and_links_make_room_for_a_new_file(void) {
    const eitp_host host = eitp_host_default();
    eitp__file file;
    eitp_error error;
    remove(in("pipe"));
    REQUIRE(!mkfifo(in("pipe"), 0600));
    CHECK(eitp__file_open(&file, &host, in("pipe"), EITP_FILE_REPLACE, &error) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error.message, "not a regular file"), "%s", error.message);
    CHECK(is_there("pipe"));
}

static void offsets_beyond_the_system_are_errors(void) {
    const eitp_host host = eitp_host_default();
    eitp__file file;
    eitp_error error;
    char byte;
    size_t done;
    REQUIRE_OK(eitp__file_open(&file, &host, in("far"), EITP_FILE_REPLACE, &error), error);
    CHECK(eitp__file_write(&file, UINT64_MAX - 4, "x", 1, &error) == EITP_ERROR_IO);
    CHECK(eitp__file_read_some(&file, UINT64_MAX - 4, &byte, 1, &done, &error) == EITP_ERROR_IO);
    CHECK(host.files.resize(host.files.user, file.handle, UINT64_MAX) == EOVERFLOW);
    CHECK(host.files.resize(host.files.user, file.handle, 7) == 0);
    REQUIRE_OK(eitp__file_close(&file, &error), error);
}

static void reads_whole_files_up_to_a_limit(void) {
    faults f;
    eitp__buffer buffer;
    eitp_error error;
    faults_begin(&f);
    eitp__buffer_init(&buffer, &f.host);
    put("ten", "0123456789");
    put("empty", "");
    eitp__buffer_add_text(&buffer, "earlier content");
    REQUIRE_OK(eitp__read_file(&f.host, in("ten"), 10, &buffer, &error), error);
    CHECK(buffer.size == 10 && !strcmp(buffer.data, "0123456789"));
    CHECK(eitp__read_file(&f.host, in("ten"), 9, &buffer, &error) == EITP_ERROR_FORMAT);
    CHECK_THAT(strstr(error.message, "exceeds the limit of 9 bytes"), "%s", error.message);
    CHECK(buffer.size == 0);
    REQUIRE_OK(eitp__read_file(&f.host, in("empty"), 0, &buffer, &error), error);
    CHECK(buffer.size == 0 && buffer.data && !*buffer.data);
    CHECK(eitp__read_file(&f.host, in("no such"), 9, &buffer, &error) == EITP_ERROR_ARGUMENT);
    eitp__buffer_release(&buffer);
    faults_end(&f);
}

/* A file table whose `size` returns too small a value, as for files in /proc. */
static int size_of_nothing(void *user, void *file, uint64_t *size) {
    (void)user;
    (void)file;
    *size = 0;
    return 0;
}

static void reads_files_of_unknown_size(void) {
    eitp_host host = eitp_host_default();
    eitp__buffer buffer;
    eitp_error error;
    host.files.size = size_of_nothing;
    eitp__buffer_init(&buffer, &host);
    put("ten", "0123456789");
    REQUIRE_OK(eitp__read_file(&host, in("ten"), 10, &buffer, &error), error);
    CHECK(buffer.size == 10 && !strcmp(buffer.data, "0123456789"));
    CHECK(eitp__read_file(&host, in("ten"), 9, &buffer, &error) == EITP_ERROR_FORMAT);
    eitp__buffer_release(&buffer);
}

/* File tables that break their contract. */
static int transfer_too_much(void *user, void *file, uint64_t offset, void *data, size_t size, size_t *done) {
    (void)user, (void)file, (void)offset, (void)data;
    *done = size + 1;
    return 0;
}

static int write_nothing(void *user, void *file, uint64_t offset, const void *data, size_t size, size_t *done) {
    (void)user, (void)file, (void)offset, (void)data, (void)size;
    *done = 0;
    return 0;
}

static void broken_tables_are_errors(void) {
    eitp_host host = eitp_host_default();
    eitp__buffer buffer;
    eitp_error error;
    put("ten", "0123456789");
    host.files.read = transfer_too_much;
    eitp__buffer_init(&buffer, &host);
    CHECK(eitp__read_file(&host, in("ten"), 100, &buffer, &error) == EITP_ERROR_INTERNAL);
    host.files.write = write_nothing;
    CHECK(eitp__write_file(&host, in("none"), "x", 1, &error) == EITP_ERROR_IO);
    eitp__buffer_release(&buffer);
}

static int refuse_sync(void *user, const char *path) {
    (void)user, (void)path;
    return EACCES;
}

static void a_directory_that_cannot_be_read_is_not_synced(void) {
    eitp_host host = eitp_host_default();
    eitp__buffer buffer;
    eitp_error error;
    host.files.sync_directory = refuse_sync;
    REQUIRE_OK(eitp__replace_file(&host, in("file"), "text", 4, &error), error);
    eitp__buffer_init(&buffer, &host);
    REQUIRE_OK(eitp__read_file(&host, in("file"), 100, &buffer, &error), error);
    CHECK(buffer.size == 4);
    eitp__buffer_release(&buffer);
}

static void messages_say_what_to_do(void) {
    static const struct {
        int code;
        const char *text;
    } cases[] = {{ENOSPC, "no space left"},
                 {EIO, "input/output error"},
                 {EACCES, "permission denied"},
                 {EMFILE, "too many open files"},
                 {EROFS, "read-only"},
                 {EDQUOT, "quota"},
                 {ENOTCONN, "check the path and its device"}};
    faults f;
    eitp_error error;
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        faults_begin(&f);
        f.fail_file_call = 2;
        f.code = cases[i].code;
        CHECK(eitp__write_file(&f.host, in("file"), "text", 4, &error) == EITP_ERROR_IO);
        CHECK(!strncmp(error.message, "cannot write '", 14));
        CHECK_THAT(strstr(error.message, cases[i].text), "%s", error.message);
        faults_end(&f);
    }
}

/* Makes all kinds of calls on a directory "names", which is removed at the end. */
static eitp_status use_files(const eitp_host *host, eitp_error *error) {
    eitp__buffer buffer;
    size_t count;
    eitp__file file;
    eitp_status status = eitp__make_directories(host, in("names"), error);
    eitp__buffer_init(&buffer, host);
    if (!status)
        status = eitp__replace_file(host, in("names/a"), "text", 4, error);
    if (!status)
        status = eitp__file_open(&file, host, in("names/a"), EITP_FILE_UPDATE, error);
    if (!status) {
        status = eitp__file_resize(&file, 3, error);
        eitp__file_close(&file, NULL);
    }
    if (!status)
        status = eitp__read_file(host, in("names/a"), 10, &buffer, error);
    CHECK(status || !strcmp(buffer.data, "tex"));
    if (!status)
        status = eitp__list_directory(host, in("names"), &buffer, &count, error);
    CHECK(status || (count == 1 && !strcmp(buffer.data, "a")));
    eitp__buffer_release(&buffer);
    return status ? status : eitp__remove_tree(host, in("names"), error);
}

/* A call that fails a few times is retried only for errors that may pass. */
static void what_passes_is_repeated(void) {
    static const struct {
        int code, times;
        double seconds;      /* total wait if every failure is retried */
        const char *repeats; /* the functions that are retried; "*": all except close */
    } cases[] = {
        {EINTR, 20, 0, "*"},   {EAGAIN, 5, 0.31, "open size resize read write info make_directory rename remove list"},
        {EAGAIN, 6, 0.31, ""}, {EIO, 5, 0.31, "read write"},
        {EIO, 6, 0.31, ""},    {ENOSPC, 1, 0, ""},
        {EMFILE, 1, 0, ""}};
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        int more = 1, repeated = 0;
        for (long n = 1; more; n++) {
            faults f;
            eitp_error error;
            eitp_status status;
            const char *where;
            faults_begin(&f);
            f.fail_file_call = n;
            f.code = cases[i].code;
            f.times = cases[i].times;
            status = use_files(&f.host, &error);
            more = faults_end(&f);
            where = more ? strstr(cases[i].repeats, f.failed_call) : "";
            /* "size" is also the end of "resize", which is retried too. */
            where = where || !strcmp(cases[i].repeats, "*") ? f.failed_call : NULL;
            if (!more || !strcmp(f.failed_call, "close")) {
                eitp__remove_tree(&f.real, in("names"), NULL);
                continue;
            }
            repeated += where != NULL;
            CHECK_THAT(!status == (where != NULL) || (!status && !where && !strcmp(f.failed_call, "remove")),
                       "%s fails with %d %d times: %s", f.failed_call, cases[i].code, cases[i].times,
                       status ? error.message : "succeeded");
            CHECK(!status || error.system_code == cases[i].code);
            CHECK_THAT(!where || fabs(f.waited - cases[i].seconds) < 1e-9, "waited %g s", f.waited);
            eitp__remove_tree(&f.real, in("names"), NULL);
        }
        CHECK((repeated > 0) == (*cases[i].repeats != 0));
    }
}

/* A file table that is always interrupted does not hang the process. */
static void endless_interruptions_end(void) {
    faults f;
    eitp_error error;
    faults_begin(&f);
    f.fail_file_call = 1;
    f.all_file_calls = 1;
    f.code = EINTR;
    CHECK(use_files(&f.host, &error) == EITP_ERROR_IO && f.waited <= 0);
    faults_end(&f);
}

static void the_space_of_a_disk_is_known(void) {
    const eitp_host host = eitp_host_default();
    uint64_t free_bytes = 0, largest = 0;
    CHECK(eitp__path_space(&host, directory, &free_bytes, &largest) && free_bytes > 0 && largest > 0);
    CHECK(!eitp__path_space(&host, in("no such"), &free_bytes, &largest));
    CHECK(free_bytes == UINT64_MAX && largest == UINT64_MAX);
}

/* /proc/self/mem is a regular file without a size, and its start cannot be read. */
static void a_file_without_content_is_an_argument_error(void) {
    const eitp_host host = eitp_host_default();
    eitp__buffer buffer;
    eitp_error error;
    eitp_path_info info;
    eitp__buffer_init(&buffer, &host);
    if (eitp__path_info(&host, "/proc/self/mem", &info, NULL) || info.kind != EITP_PATH_FILE) {
        printf("SKIPPED a file without content: there is no /proc/self/mem\n");
        return;
    }
    CHECK(eitp__read_file(&host, "/proc/self/mem", 100, &buffer, &error) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error.message, "cannot read '/proc/self/mem'") && strstr(error.message, "regular file"), "%s",
               error.message);
    eitp__buffer_release(&buffer);
}

static void replacing_is_atomic(void) {
    faults f;
    eitp_error error;
    int stays, more, failed = 0, replaced = 0;
    /* First the call fails and the process continues. Then all later calls fail too, as if the process ended there. */
    for (stays = 0; stays < 2; stays++) {
        for (long n = 1;; n++) {
            eitp_status status;
            put("config", "old");
            faults_begin(&f);
            f.fail_file_call = n;
            f.code = ENOSPC;
            f.tear = 1;
            f.all_file_calls = stays;
            status = eitp__replace_file(&f.host, in("config"), "new content", 11, &error);
            more = faults_end(&f);
            if (status == EITP_OK) {
                CHECK(holds("config", "new content"));
                replaced++;
            } else {
                CHECK_THAT(status == EITP_ERROR_IO, "%s", error.message);
                CHECK(holds("config", "old") ||
                      (holds("config", "new content") && !strcmp(f.failed_call, "sync_directory")));
                CHECK(stays || !is_there("config.tmp"));
                failed++;
            }
            if (!more)
                break;
        }
    }
    CHECK_THAT(failed == 12 && replaced == 2, "%d failed, %d replaced", failed, replaced);
    CHECK(!is_there("config.tmp"));
}

static void every_allocation_may_fail(void) {
    faults f;
    eitp_error error;
    eitp__buffer names;
    size_t count = 99;
    int more = 1, failures = 0;
    for (long n = 1; more; n++) {
        eitp_status status;
        put("config", "old");
        faults_begin(&f);
        f.fail_allocation = n;
        eitp__buffer_init(&names, &f.host);
        status = eitp__make_directories(&f.host, in("deep/er/most"), &error);
        if (!status)
            status = eitp__replace_file(&f.host, in("deep/er/most/file"), "new", 3, &error);
        if (!status)
            status = eitp__list_directory(&f.host, in("deep"), &names, &count, &error);
        if (!status)
            status = eitp__read_file(&f.host, in("deep/er/most/file"), 100, &names, &error);
        if (!status)
            status = eitp__remove_tree(&f.host, in("deep"), &error);
        CHECK_THAT(status == EITP_OK || status == EITP_ERROR_MEMORY, "%s", error.message);
        eitp__buffer_release(&names);
        more = faults_end(&f);
        CHECK(more || status == EITP_OK);
        failures += status != EITP_OK;
    }
    CHECK_THAT(failures > 10, "%d", failures);
    CHECK(!is_there("deep"));
}

static void makes_directories_with_their_parents(void) {
    const eitp_host host = eitp_host_default();
    eitp_path_info info;
    eitp_error error;
    put("file", "x");
    REQUIRE_OK(eitp__make_directories(&host, in("a/b/c"), &error), error);
    REQUIRE_OK(eitp__make_directories(&host, in("a/b/c"), &error), error);
    REQUIRE_OK(eitp__make_directories(&host, in("a//b/d/"), &error), error);
    REQUIRE_OK(eitp__make_directories(&host, "/", &error), error);
    REQUIRE_OK(eitp__path_info(&host, in("a/b/c"), &info, &error), error);
    CHECK(info.kind == EITP_PATH_DIRECTORY && info.size == 0);
    REQUIRE_OK(eitp__path_info(&host, in("a/b/d"), &info, &error), error);
    CHECK(info.kind == EITP_PATH_DIRECTORY);
    REQUIRE_OK(eitp__path_info(&host, in("file"), &info, &error), error);
    CHECK(info.kind == EITP_PATH_FILE && info.size == 1 && info.modified > INT64_C(1500000000000000000));
    REQUIRE_OK(eitp__path_info(&host, in("file/below"), &info, &error), error);
    CHECK(info.kind == EITP_PATH_MISSING);
    CHECK(eitp__make_directories(&host, in("file"), &error) == EITP_ERROR_ARGUMENT);
    CHECK_THAT(strstr(error.message, "a file has that name"), "%s", error.message);
    CHECK(eitp__make_directories(&host, in("file/below"), &error) == EITP_ERROR_ARGUMENT);
    CHECK(eitp__make_directories(&host, "", &error) == EITP_ERROR_ARGUMENT);
}

static void removing_a_tree_does_not_follow_links(void) {
    const eitp_host host = eitp_host_default();
    eitp_error error;
    REQUIRE_OK(eitp__make_directories(&host, in("outside"), &error), error);
    put("outside/precious", "x");
    REQUIRE_OK(eitp__make_directories(&host, in("tree/branch/twig"), &error), error);
    put("tree/branch/leaf", "x");
    REQUIRE(!symlink(in("outside"), in("tree/branch/link")));
    REQUIRE(!symlink("nowhere", in("tree/dangling")));
    REQUIRE_OK(eitp__remove_tree(&host, in("tree"), &error), error);
    CHECK(!is_there("tree"));
    CHECK(holds("outside/precious", "x"));
    REQUIRE(!symlink(in("outside"), in("link")));
    REQUIRE_OK(eitp__remove_tree(&host, in("link"), &error), error);
    CHECK(!is_there("link") && holds("outside/precious", "x"));
    REQUIRE_OK(eitp__remove_tree(&host, in("tree"), &error), error);
}

static void lists_names_in_order(void) {
    const eitp_host host = eitp_host_default();
    eitp__buffer names;
    eitp_error error;
    size_t count = 99;
    char name[32];
    eitp__buffer_init(&names, &host);
    REQUIRE_OK(eitp__make_directories(&host, in("many"), &error), error);
    REQUIRE_OK(eitp__list_directory(&host, in("many"), &names, &count, &error), error);
    CHECK(count == 0 && names.size == 0);
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "many/%03d", i * 7 % 300);
        put(name, "");
    }
    REQUIRE_OK(eitp__list_directory(&host, in("many"), &names, &count, &error), error);
    REQUIRE(count == 300 && names.size == 1200);
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "%03d", i);
        CHECK(!strcmp(names.data + 4 * i, name));
    }
    CHECK(eitp__list_directory(&host, in("missing"), &names, &count, &error) == EITP_ERROR_ARGUMENT);
    CHECK(names.size == 0 && count == 300);
    eitp__buffer_release(&names);
}

static void joins_paths(void) {
    static const char *const cases[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"/", "b", "/b"}, {"a/b", "c", "a/b/c"}};
    const eitp_host host = eitp_host_default();
    for (size_t i = 0; i < EITP__COUNT(cases); i++) {
        char *path = eitp__join_path(&host, cases[i][0], cases[i][1]);
        CHECK(path && !strcmp(path, cases[i][2]));
        eitp__release_text(&host, path);
    }
}

static void replaces_files_in_the_current_directory(void) {
    const eitp_host host = eitp_host_default();
    eitp_error error;
    char here[1024];
    REQUIRE(getcwd(here, sizeof here) && !chdir(directory));
    CHECK_THAT(eitp__replace_file(&host, "bare", "text", 4, &error) == EITP_OK, "%s", error.message);
    REQUIRE(!chdir(here));
    CHECK(holds("bare", "text"));
}

static void a_directory_is_locked_once(void) {
    const eitp_files files = eitp_host_default().files;
    void *lock = NULL, *second = NULL;
    int status = 1;
    pid_t child;
    CHECK(files.lock(files.user, directory, &lock) == 0 && lock);
    CHECK(files.lock(files.user, directory, &second) == EWOULDBLOCK && !second);
    child = fork();
    if (!child)
        _exit(files.lock(files.user, directory, &second) == EWOULDBLOCK ? 0 : 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    files.unlock(files.user, lock);
    CHECK(files.lock(files.user, directory, &second) == 0 && second);
    files.unlock(files.user, second);
    CHECK(files.lock(files.user, in("missing"), &lock) == ENOENT);
}

/* Opens the directory, with or without its lock. Returns the descriptor. */
static int open_directory(int locks) {
    int descriptor = open(directory, O_RDONLY);
    CHECK(descriptor > 2);
    CHECK(!locks || !flock(descriptor, LOCK_EX | LOCK_NB));
    return descriptor;
}

static int lock_with(const char *variable, void **lock) {
    const eitp_files files = eitp_host_default().files;
    CHECK(!setenv("EITP_LOCK_FD", variable, 1));
    return files.lock(files.user, directory, lock);
}

static void an_inherited_lock_lets_in(void) {
    const eitp_files files = eitp_host_default().files;
    const int held = open_directory(1);
    char number[32];
    void *lock = NULL, *second = NULL;
    snprintf(number, sizeof number, "%d", held);
    CHECK(lock_with(number, &lock) == 0 && lock);
    CHECK(fcntl(held, F_GETFD) == FD_CLOEXEC);
    CHECK(lock_with(number, &second) == EWOULDBLOCK && !second);
    files.unlock(files.user, lock);
    CHECK(fcntl(held, F_GETFD) == 0);
    /* The holder still has the lock. */
    CHECK(lock_with("", &second) == EWOULDBLOCK && !second);
    CHECK(lock_with(number, &lock) == 0 && lock);
    files.unlock(files.user, lock);
    close(held);
    CHECK(lock_with(number, &lock) == 0 && (intptr_t)lock > 0);
    files.unlock(files.user, lock);
    unsetenv("EITP_LOCK_FD");
}

/* Neither the variable alone nor a separately opened descriptor grants the lock. */
static void a_lock_that_was_not_inherited_keeps_out(void) {
    const int held = open_directory(1), opened = open_directory(0), other = open("/", O_RDONLY);
    char text[6][32];
    void *lock = NULL;
    snprintf(text[0], sizeof text[0], "%d", opened);
    snprintf(text[1], sizeof text[1], "%d", other);
    snprintf(text[2], sizeof text[2], "%d", held + 1000);
    snprintf(text[3], sizeof text[3], "%dx", held);
    snprintf(text[4], sizeof text[4], " %d", held);
    snprintf(text[5], sizeof text[5], "99999999999999999999");
    for (size_t i = 0; i < EITP__COUNT(text); i++)
        CHECK_THAT(lock_with(text[i], &lock) == EWOULDBLOCK && !lock, "%s", text[i]);
    close(held);
    close(opened);
    close(other);
    unsetenv("EITP_LOCK_FD");
}

/* Sizes are printed in a unit that fits them. */
static void sizes_have_a_unit_that_fits(void) {
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0 B"},
                 {200, "200 B"},
                 {999, "999 B"},
                 {1000, "1.0 kB"},
                 {999949, "999.9 kB"},
                 {999950, "1.0 MB"},
                 {52500000, "52.5 MB"},
                 {1203000000, "1.2 GB"},
                 {UINT64_MAX, "18446744.1 TB"}};
    char text[32];
    eitp_error error;
    for (size_t i = 0; i < EITP__COUNT(cases); i++)
        CHECK_THAT(!strcmp(eitp_format_bytes(cases[i].bytes, text, sizeof text), cases[i].text), "%s", text);
    CHECK(eitp__fail_memory(&error, 40, "a task") == EITP_ERROR_MEMORY &&
          !strncmp(error.message, "cannot allocate 40 B for a task; ", 33));
    CHECK(eitp__round_bytes(6999999, 0) == 6900000 && eitp__round_bytes(6900001, 1) == 7000000);
    CHECK(eitp__round_bytes(200, 0) == 200 && eitp__round_bytes(200, 1) == 200);
}

int main(int argc, char **argv) {
    static const test_case tests[] = {
        TEST(sizes_have_a_unit_that_fits),
        TEST(a_missing_path_is_an_argument_error),
        TEST(a_pipe_is_refused_without_waiting),
        TEST(reads_and_writes_at_positions),
        TEST(open_modes_keep_or_empty_files),
        TEST(a_new_file_is_never_one_that_was_there),
        TEST(only_files_and_links_make_room_for_a_new_file),
        TEST(offsets_beyond_the_system_are_errors),
        TEST(reads_whole_files_up_to_a_limit),
        TEST(reads_files_of_unknown_size),
        TEST(broken_tables_are_errors),
        TEST(a_directory_that_cannot_be_read_is_not_synced),
        TEST(messages_say_what_to_do),
        TEST(what_passes_is_repeated),
        TEST(endless_interruptions_end),
        TEST(the_space_of_a_disk_is_known),
        TEST(a_file_without_content_is_an_argument_error),
        TEST(replacing_is_atomic),
        TEST(every_allocation_may_fail),
        TEST(makes_directories_with_their_parents),
        TEST(removing_a_tree_does_not_follow_links),
        TEST(lists_names_in_order),
        TEST(joins_paths),
        TEST(a_directory_is_locked_once),
        TEST(an_inherited_lock_lets_in),
        TEST(a_lock_that_was_not_inherited_keeps_out),
        TEST(replaces_files_in_the_current_directory),
    };
    int failed;
    if (!scratch_make(directory)) {
        printf("cannot create a directory for the test's files\n");
        return 1;
    }
    failed = RUN_TESTS(tests, argc, argv);
    scratch_remove(directory);
    return failed;
}
