#include "records/log_directory.h"

#include "base/checksum.h"
#include "base/json.h"

#define EITP__OWNER_LIMIT ((size_t)1 << 24) /* bytes of owner.json and run.json */

/* ---- Existing folders ---- */

static int eitp__log_has(const eitp_host *host, const char *directory, const char *name) {
    eitp_path_info info = EITP__ZERO;
    char *path = eitp__join_path(host, directory, name);
    const int is_there = path && !eitp__path_info(host, path, &info, NULL) && info.kind != EITP_PATH_MISSING;
    eitp__release_text(host, path);
    return is_there;
}

/* True if the directory has records; it may have no owner. */
static int eitp__log_has_records(const eitp_host *host, const char *directory) {
    return eitp__log_has(host, directory, "metrics.jsonl") || eitp__log_has(host, directory, "metrics.csv") ||
           eitp__log_has(host, directory, "tensorboard");
}

/* Returns the string at `name`, or at `object.name`, of a JSON file; NULL if it is missing. The caller releases
   *document. */
static const char *eitp__log_text(const eitp_host *host, const char *directory, const char *file, const char *object,
                                  const char *name, eitp_json_document **document) {
    char *path = eitp__join_path(host, directory, file);
    const eitp_json *value = NULL;
    *document = NULL;
    if (path && !eitp_json_read_file(host, path, EITP__OWNER_LIMIT, document, NULL)) {
        value = eitp_json_root(*document);
        value = eitp_json_member(object ? eitp_json_member(value, object) : value, name);
    }
    eitp__release_text(host, path);
    return value && value->kind == EITP_JSON_STRING ? value->text : NULL;
}

/* True if a folder belongs to this output directory: it has no other owner, or its owner no longer exists. */
static int eitp__log_is_own(const eitp_host *host, const char *folder, const char *output) {
    eitp_json_document *document;
    const char *owner = eitp__log_text(host, folder, EITP__OWNER_FILE, NULL, "output_dir", &document);
    eitp_path_info info = EITP__ZERO;
    const int is_own = !owner || !strcmp(owner, output) ||
                       (!eitp__path_info(host, owner, &info, NULL) && info.kind == EITP_PATH_MISSING);
    eitp_json_release(document);
    return is_own;
}

/* ---- Choosing the folder ---- */

/* Returns the folder that the run has recorded in before, or NULL if it cannot continue in an existing one. */
static char *eitp__log_earlier(const eitp_host *host, const char *log_dir, const char *output) {
    eitp_json_document *document;
    const char *recorded = eitp__log_text(host, output, "run.json", "run", "records", &document);
    char *parent = recorded ? eitp__parent_directory(host, recorded) : NULL;
    char *from = parent ? eitp__absolute_path(host, parent) : NULL, *in = eitp__absolute_path(host, log_dir);
    char *found = NULL;
    if (from && in && !strcmp(from, in) && eitp__log_has_records(host, recorded) &&
        eitp__log_is_own(host, recorded, output))
        found = eitp__copy_text(host, recorded);
    else if (document && !recorded && eitp__log_has_records(host, log_dir) && eitp__log_is_own(host, log_dir, output))
        found = eitp__copy_text(host, log_dir);
    eitp__release_text(host, parent);
    eitp__release_text(host, from);
    eitp__release_text(host, in);
    eitp_json_release(document);
    return found;
}

/* Builds a folder's path from the output directory's name and a hash of its path: two runs may have the same name. */
static char *eitp__log_new(const eitp_host *host, const char *log_dir, const char *output) {
    const uint64_t hash = eitp__fnv1a(EITP__FNV_START, output, strlen(output));
    const char *slash = strrchr(output, '/');
    char name[120];
    snprintf(name, sizeof name, "%.100s-%08llx", slash && slash[1] ? slash + 1 : "run",
             (unsigned long long)(hash & 0xffffffffu));
    return eitp__join_path(host, log_dir, name);
}

EITP__PRIVATE eitp_status eitp__log_directory_find(eitp__log_directory *folder, const eitp_host *host,
                                                   const char *log_dir, const char *output_dir, eitp_error *error) {
    char *output = eitp__absolute_path(host, output_dir);
    memset(folder, 0, sizeof *folder);
    folder->host = *host;
    folder->path = output ? eitp__log_earlier(host, log_dir, output) : NULL;
    if (output && !folder->path)
        folder->path = eitp__log_new(host, log_dir, output);
    if (folder->path)
        folder->owner = eitp__join_path(host, folder->path, EITP__OWNER_FILE);
    eitp__release_text(host, output);
    return folder->owner ? EITP_OK : eitp__fail_memory(error, strlen(log_dir), "a path");
}

/* ---- The owner ---- */

EITP__PRIVATE eitp_status eitp__log_directory_take(eitp__log_directory *folder, const char *output_dir,
                                                   eitp_error *error) {
    const eitp_host *host = &folder->host;
    const eitp_files *files = &host->files;
    const int code = files->lock ? files->lock(files->user, folder->path, &folder->lock) : ENOSYS;
    char *output = eitp__absolute_path(host, output_dir);
    eitp__buffer text;
    eitp_status status;
    folder->has_lock = !code;
    if (code == EWOULDBLOCK) {
        eitp__release_text(host, output);
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "another run is writing records to '%s'; wait for it, or choose another log_dir",
                          folder->path);
    }
    folder->owner_is_new = !eitp__log_has(host, folder->path, EITP__OWNER_FILE);
    eitp__buffer_init(&text, host);
    eitp__buffer_add_text(&text, "{\"output_dir\": ");
    eitp__json_write_name(&text, output ? output : "");
    eitp__buffer_add_text(&text, "}\n");
    text.failed |= !output;
    status = eitp__store_text(host, NULL, folder->owner, &text, 1, error);
    if (status == EITP_ERROR_IO) /* records that cannot be stored do not end a run */
        status = EITP_OK;
    eitp__release_text(host, output);
    return status;
}

EITP__PRIVATE void eitp__log_directory_forget(eitp__log_directory *folder) {
    if (folder->owner_is_new)
        folder->host.files.remove(folder->host.files.user, folder->owner);
}

EITP__PRIVATE void eitp__log_directory_release(eitp__log_directory *folder) {
    const eitp_files *files = &folder->host.files;
    if (folder->has_lock && files->unlock)
        files->unlock(files->user, folder->lock);
    eitp__release_text(&folder->host, folder->path);
    eitp__release_text(&folder->host, folder->owner);
    memset(folder, 0, sizeof *folder);
}
