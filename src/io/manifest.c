#include "io/manifest.h"

#include "base/json.h"
#include "base/unicode.h"

#define EITP__MANIFEST_VERSION 1
#define EITP__MANIFEST_LIMIT ((size_t)64 << 20)
#define EITP__MANIFEST_DEPTH 16 /* maximum depth of subdirectories: deeper ones are most likely a link to a parent */
#define EITP__SUM_CHUNK ((size_t)256 << 10)
/* The text after the last checksum, and the length of a checksum in hexadecimal digits. */
#define EITP__MANIFEST_END "\"\n}\n"
#define EITP__SUM_DIGITS ((size_t)8)

/* ---- The list ---- */

EITP__PRIVATE void eitp__manifest_init(eitp__manifest *manifest, const eitp_host *host, int64_t step, int is_counted) {
    memset(manifest, 0, sizeof *manifest);
    eitp__buffer_init(&manifest->names, host);
    manifest->step = step;
    manifest->is_counted = is_counted;
}

EITP__PRIVATE void eitp__manifest_release(eitp__manifest *manifest) {
    const eitp_host *host = manifest->names.host;
    eitp__release(host, manifest->files, manifest->capacity * sizeof *manifest->files);
    eitp__buffer_release(&manifest->names);
    eitp__manifest_init(manifest, host, manifest->step, manifest->is_counted);
}

EITP__PRIVATE eitp_status eitp__manifest_add(eitp__manifest *manifest, const char *name, const eitp__file_sum *sum,
                                             eitp_error *error) {
    eitp__manifest_file *file;
    void *files = manifest->files;
    const int is_reserved =
        eitp__reserve(manifest->names.host, &files, &manifest->capacity, manifest->count + 1, sizeof *manifest->files);
    manifest->files = (eitp__manifest_file *)files;
    if (!is_reserved)
        return eitp__fail_memory(error, sizeof *manifest->files, "the list of a checkpoint's files");
    file = &manifest->files[manifest->count];
    file->name = manifest->names.size;
    file->sum = *sum;
    file->is_verified = 0;
    eitp__buffer_add(&manifest->names, name, strlen(name) + 1);
    if (manifest->names.failed)
        return eitp__fail_memory(error, manifest->names.size, "the list of a checkpoint's files");
    manifest->count++;
    return EITP_OK;
}

static const char *eitp__manifest_name(const eitp__manifest *manifest, size_t index) {
    return manifest->names.data + manifest->files[index].name;
}

static eitp__manifest_file *eitp__manifest_find(const eitp__manifest *manifest, const char *name) {
    for (size_t i = 0; i < manifest->count; i++) {
        if (!strcmp(eitp__manifest_name(manifest, i), name))
            return &manifest->files[i];
    }
    return NULL;
}

/* ---- Sums of files ---- */

static eitp_status eitp__sum_open_file(eitp__file *file, uint64_t offset, void *buffer, eitp__file_sum *sum,
                                       eitp_error *error) {
    size_t done = EITP__SUM_CHUNK;
    sum->size = sum->crc = 0;
    while (done == EITP__SUM_CHUNK) {
        eitp_status status = eitp__file_read_some(file, offset + sum->size, buffer, EITP__SUM_CHUNK, &done, error);
        if (status)
            return status;
        sum->crc = eitp__crc32c(sum->crc, buffer, done);
        sum->size += done;
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__sum_from(const eitp_host *host, const char *path, uint64_t offset, int syncs,
                                         eitp__file_sum *sum, eitp_error *error) {
    eitp__file file;
    void *buffer = eitp__allocate_uninitialized(host, EITP__SUM_CHUNK);
    eitp_status status = buffer ? eitp__file_open(&file, host, path, EITP_FILE_READ, error)
                                : eitp__fail_memory(error, EITP__SUM_CHUNK, "the checksum of a file");
    if (!status) {
        status = eitp__sum_open_file(&file, offset, buffer, sum, error);
        if (!status && syncs)
            status = eitp__file_sync(&file, error);
        eitp__file_close(&file, NULL);
    }
    eitp__release(host, buffer, EITP__SUM_CHUNK);
    return status;
}

/* ---- Writing ---- */

/* A directory whose files are being listed. If both manifests are the same, only files that it lacks are added. */
typedef struct eitp__manifest_scan {
    const eitp__manifest *known;
    eitp__manifest *found;
    const char *directory;
    int depth;
} eitp__manifest_scan;

static eitp_status eitp__scan_directory(eitp__manifest_scan *scan, const char *inner, eitp_error *error);

/* True for a file of the manifest, or one that still has a temporary name. */
static int eitp__manifest_has(const eitp__manifest *manifest, const char *name) {
    static const char ending[] = ".tmp";
    for (size_t i = 0; i < manifest->count; i++) {
        const char *listed = eitp__manifest_name(manifest, i);
        const size_t length = strlen(listed);
        if (!strncmp(name, listed, length) && (!name[length] || !strcmp(name + length, ending)))
            return 1;
    }
    return 0;
}

static eitp_status eitp__scan_file(const eitp__manifest_scan *scan, const char *path, const char *name, uint64_t size,
                                   eitp_error *error) {
    const eitp_host *host = scan->found->names.host;
    const eitp__manifest_file *known = eitp__manifest_find(scan->known, name);
    eitp__file_sum sum;
    eitp_status status;
    if (scan->known == scan->found && eitp__manifest_has(scan->known, name))
        return EITP_OK;
    if (eitp__utf8_valid_prefix((const unsigned char *)name, strlen(name)) != strlen(name))
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "the name of '%s' is not valid UTF-8, and manifest.json cannot list it; rename it", path);
    if (known && known->sum.size != size)
        return eitp__fail(error, EITP_ERROR_IO, "'%s' has %llu bytes after writing %llu; check the disk", path,
                          (unsigned long long)size, (unsigned long long)known->sum.size);
    if (known)
        return eitp__manifest_add(scan->found, name, &known->sum, error);
    status = eitp__sum_from(host, path, 0, 1, &sum, error);
    return status ? status : eitp__manifest_add(scan->found, name, &sum, error);
}

/* Adds an entry of the directory, and everything in it. `name` is relative to the checkpoint. */
static eitp_status eitp__scan_entry(eitp__manifest_scan *scan, const char *name, eitp_error *error) {
    const eitp_host *host = scan->found->names.host;
    eitp_path_info info = EITP__ZERO;
    char *path = eitp__join_path(host, scan->directory, name);
    eitp_status status =
        path ? eitp__path_info(host, path, &info, error) : eitp__fail_memory(error, strlen(name), "a path");
    if (!status && info.kind == EITP_PATH_FILE)
        status = eitp__scan_file(scan, path, name, info.size, error);
    else if (!status && info.kind == EITP_PATH_DIRECTORY)
        status = eitp__scan_directory(scan, name, error);
    else if (!status)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "'%s' is neither a file nor a directory; a checkpoint can hold only these", path);
    eitp__release_text(host, path);
    return status;
}

/* Adds the files in a directory: the checkpoint, or `inner` in it. */
static eitp_status eitp__scan_directory(eitp__manifest_scan *scan, const char *inner, eitp_error *error) {
    const eitp_host *host = scan->found->names.host;
    char *path = *inner ? eitp__join_path(host, scan->directory, inner) : eitp__copy_text(host, scan->directory);
    eitp__buffer names;
    size_t count = 0, at = 0;
    eitp_status status = path ? EITP_OK : eitp__fail_memory(error, strlen(scan->directory), "a path");
    eitp__buffer_init(&names, host);
    if (!status && scan->depth > EITP__MANIFEST_DEPTH)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT,
                            "directories in '%s' are nested more than %d deep; check for a link to a parent",
                            scan->directory, EITP__MANIFEST_DEPTH);
    if (!status)
        status = eitp__list_directory(host, path, &names, &count, error);
    scan->depth++;
    for (size_t i = 0; i < count && !status; i++) {
        const char *name = names.data + at;
        char *joined = *inner ? eitp__join_path(host, inner, name) : eitp__copy_text(host, name);
        at += strlen(name) + 1;
        if (!joined)
            status = eitp__fail_memory(error, strlen(inner) + strlen(name), "a path");
        else if (*inner || strcmp(name, EITP__MANIFEST_FILE) != 0)
            status = eitp__scan_entry(scan, joined, error);
        eitp__release_text(host, joined);
    }
    scan->depth--;
    if (!status && *inner)
        status = eitp__sync_directory(host, path, error);
    eitp__buffer_release(&names);
    eitp__release_text(host, path);
    return status;
}

static void eitp__manifest_format(const eitp__manifest *manifest, eitp__buffer *text) {
    eitp__buffer_format(text,
                        "{\n  \"format\": \"eitp manifest\",\n  \"version\": %d,\n  \"step\": %lld,\n"
                        "  \"counted\": %s,\n  \"files\": [",
                        EITP__MANIFEST_VERSION, (long long)manifest->step, manifest->is_counted ? "true" : "false");
    for (size_t i = 0; i < manifest->count; i++) {
        const char *name = eitp__manifest_name(manifest, i);
        const eitp__file_sum *sum = &manifest->files[i].sum;
        eitp__buffer_add_text(text, i ? ",\n    {\"name\": " : "\n    {\"name\": ");
        eitp__json_write_text(text, name, strlen(name));
        eitp__buffer_format(text, ", \"size\": %llu, \"crc32c\": \"%08x\"}", (unsigned long long)sum->size,
                            (unsigned)sum->crc);
    }
    eitp__buffer_add_text(text, "\n  ],\n  \"crc32c\": \"");
    if (!text->failed)
        eitp__buffer_format(text, "%08x" EITP__MANIFEST_END, (unsigned)eitp__crc32c(0, text->data, text->size));
}

/* Checks that all known files were found. */
static eitp_status eitp__check_known(const eitp__manifest *known, const eitp__manifest *found, const char *directory,
                                     eitp_error *error) {
    for (size_t i = 0; i < known->count; i++) {
        const char *name = eitp__manifest_name(known, i);
        if (!eitp__manifest_find(found, name))
            return eitp__fail(error, EITP_ERROR_IO, "'%s/%s' is missing after it was written; check the disk",
                              directory, name);
    }
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__manifest_add_others(eitp__manifest *manifest, const char *directory,
                                                    eitp_error *error) {
    eitp__manifest_scan scan;
    scan.known = scan.found = manifest;
    scan.directory = directory;
    scan.depth = 0;
    return eitp__scan_directory(&scan, "", error);
}

EITP__PRIVATE eitp_status eitp__manifest_write(const eitp__manifest *known, const char *directory, eitp_error *error) {
    const eitp_host *host = known->names.host;
    eitp__manifest found;
    eitp__manifest_scan scan;
    eitp__buffer text;
    char *path = eitp__join_path(host, directory, EITP__MANIFEST_FILE);
    eitp_status status = path ? EITP_OK : eitp__fail_memory(error, strlen(directory), "a path");
    eitp__buffer_init(&text, host);
    eitp__manifest_init(&found, host, known->step, known->is_counted);
    scan.known = known;
    scan.found = &found;
    scan.directory = directory;
    scan.depth = 0;
    if (!status)
        status = eitp__scan_directory(&scan, "", error);
    if (!status)
        status = eitp__check_known(known, &found, directory, error);
    if (!status)
        eitp__manifest_format(&found, &text);
    if (!status)
        status = text.failed ? eitp__fail_memory(error, text.size, EITP__MANIFEST_FILE)
                             : eitp__write_file(host, path, text.data, text.size, error);
    eitp__manifest_release(&found);
    eitp__buffer_release(&text);
    eitp__release_text(host, path);
    return status;
}

/* ---- Reading ---- */

static int eitp__is_sum_text(const char *digits, uint32_t sum) {
    char expected[16];
    snprintf(expected, sizeof expected, "%08x", (unsigned)sum);
    return !memcmp(digits, expected, EITP__SUM_DIGITS);
}

/* Checks the end of the text, and with it all of its bytes. */
static eitp_status eitp__manifest_check_text(const eitp__buffer *text, eitp_error *error) {
    const size_t end = sizeof EITP__MANIFEST_END - 1;
    const size_t head = text->size >= EITP__SUM_DIGITS + end ? text->size - EITP__SUM_DIGITS - end : 0;
    if (!head || memcmp(text->data + text->size - end, EITP__MANIFEST_END, end) != 0 ||
        !eitp__is_sum_text(text->data + head, eitp__crc32c(0, text->data, head)))
        return eitp__fail(error, EITP_ERROR_FORMAT, "its checksum differs from its content");
    return EITP_OK;
}

/* True if a name stays within the directory. */
static int eitp__is_inner_name(const char *name, size_t size) {
    if (!size || strlen(name) != size || name[0] == '/')
        return 0;
    for (const char *part = name; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL) {
        if (!strncmp(part, "..", 2) && (!part[2] || part[2] == '/'))
            return 0;
    }
    return 1;
}

static eitp_status eitp__manifest_read_file(eitp__manifest *manifest, const eitp_json *object, eitp_error *error) {
    const eitp_json *name = eitp_json_member(object, "name"), *sum = eitp_json_member(object, "crc32c");
    int64_t size = -1;
    eitp__file_sum file;
    eitp_status status = eitp__json_get_integer(object, "size", 0, INT64_MAX, &size, error);
    if (status)
        return status;
    if (size < 0 || !name || name->kind != EITP_JSON_STRING || !eitp__is_inner_name(name->text, name->text_size) ||
        !sum || sum->kind != EITP_JSON_STRING || sum->text_size != EITP__SUM_DIGITS)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "line %zu: a file must have a name within the checkpoint, a size and a crc32c of 8 digits",
                          object->line);
    file.size = (uint64_t)size;
    file.crc = (uint32_t)strtoul(sum->text, NULL, 16);
    if (!eitp__is_sum_text(sum->text, file.crc))
        return eitp__fail(error, EITP_ERROR_FORMAT, "line %zu: crc32c must be 8 hexadecimal digits", object->line);
    return eitp__manifest_add(manifest, name->text, &file, error);
}

static eitp_status eitp__manifest_parse(eitp__manifest *manifest, const eitp_json *root, eitp_error *error) {
    const eitp_json *files = eitp_json_member(root, "files");
    const char *format = "";
    int64_t version = 0;
    eitp_status status = eitp__json_get_text(root, "format", &format, error);
    manifest->step = -1;
    if (!status)
        status = eitp__json_get_integer(root, "version", 1, INT32_MAX, &version, error);
    if (!status && version > EITP__MANIFEST_VERSION)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "unsupported version %lld (supported: up to %d); use the eitp that wrote it",
                          (long long)version, EITP__MANIFEST_VERSION);
    if (!status)
        status = eitp__json_get_integer(root, "step", 0, INT64_MAX, &manifest->step, error);
    if (!status)
        status = eitp__json_get_boolean(root, "counted", &manifest->is_counted, error);
    if (!status && (strcmp(format, "eitp manifest") != 0 || !version || manifest->step < 0 || !files ||
                    files->kind != EITP_JSON_ARRAY))
        status = eitp__fail(error, EITP_ERROR_FORMAT, "format 'eitp manifest', version, step or files are missing");
    for (const eitp_json *file = !status ? files->first_child : NULL; file && !status; file = file->next)
        status = eitp__manifest_read_file(manifest, file, error);
    return status;
}

static eitp_status eitp__manifest_read_text(eitp__manifest *manifest, const eitp__buffer *text, eitp_error *error) {
    eitp_json_document *document = NULL;
    eitp_status status = eitp__manifest_check_text(text, error);
    if (!status)
        status = eitp_json_parse(text->host, text->data, text->size, &document, error);
    if (!status)
        status = eitp__manifest_parse(manifest, eitp_json_root(document), error);
    eitp_json_release(document);
    return status;
}

EITP__PRIVATE eitp_status eitp__manifest_read(eitp__manifest *manifest, const char *directory, int *exists,
                                              eitp_error *error) {
    const eitp_host *host = manifest->names.host;
    eitp_path_info info = EITP__ZERO;
    eitp__buffer text;
    char *path = eitp__join_path(host, directory, EITP__MANIFEST_FILE);
    eitp_status status =
        path ? eitp__path_info(host, path, &info, error) : eitp__fail_memory(error, strlen(directory), "a path");
    *exists = !status && info.kind != EITP_PATH_MISSING;
    eitp__buffer_init(&text, host);
    if (*exists && info.kind != EITP_PATH_FILE)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "'%s' is damaged: it is not a file", path);
    else if (*exists)
        status = eitp__read_file(host, path, EITP__MANIFEST_LIMIT, &text, error);
    if (!status && *exists) {
        status = eitp__manifest_read_text(manifest, &text, error);
        if (status)
            eitp__fail_prefix(error, status, status == EITP_ERROR_FORMAT ? "'%s' is damaged" : "'%s'", path);
    }
    eitp__buffer_release(&text);
    eitp__release_text(host, path);
    return status;
}

/* ---- Checking ---- */

static int eitp__has_tensors(const char *name) {
    static const char ending[] = ".safetensors";
    const size_t size = strlen(name), length = sizeof ending - 1;
    return size >= length && !strcmp(name + size - length, ending);
}

static eitp_status eitp__check_sum(const char *path, const eitp__file_sum *sum, const eitp__file_sum *expected,
                                   eitp_error *error) {
    if (sum->size != expected->size)
        return eitp__fail(error, EITP_ERROR_FORMAT, "'%s' is damaged: it has %llu bytes, expected %llu", path,
                          (unsigned long long)sum->size, (unsigned long long)expected->size);
    if (sum->crc != expected->crc)
        return eitp__fail(error, EITP_ERROR_FORMAT, "'%s' is damaged: its checksum is %08x, expected %08x", path,
                          (unsigned)sum->crc, (unsigned)expected->crc);
    return EITP_OK;
}

static eitp_status eitp__check_file(const eitp_host *host, const char *path, eitp__manifest_file *file, int sums,
                                    eitp_error *error) {
    eitp_path_info info = EITP__ZERO;
    eitp__file_sum sum = file->sum;
    eitp_status status = eitp__path_info(host, path, &info, error);
    if (!status && info.kind != EITP_PATH_FILE)
        return eitp__fail(error, EITP_ERROR_FORMAT, "'%s' is %s", path,
                          info.kind == EITP_PATH_MISSING ? "missing" : "damaged: it is not a file");
    sum.size = info.size;
    if (!status && info.size == file->sum.size && sums)
        status = eitp__sum_from(host, path, 0, 0, &sum, error);
    if (!status)
        status = eitp__check_sum(path, &sum, &file->sum, error);
    file->is_verified |= !status && sums;
    return status;
}

EITP__PRIVATE eitp_status eitp__manifest_check(eitp__manifest *manifest, const char *directory, eitp__verified verified,
                                               eitp_error *error) {
    const eitp_host *host = manifest->names.host;
    eitp_status status = EITP_OK;
    for (size_t i = 0; i < manifest->count && !status; i++) {
        const char *name = eitp__manifest_name(manifest, i);
        const unsigned kind = eitp__has_tensors(name) ? EITP__VERIFY_TENSORS : EITP__VERIFY_OTHERS;
        char *path = manifest->files[i].is_verified ? NULL : eitp__join_path(host, directory, name);
        if (path)
            status = eitp__check_file(host, path, &manifest->files[i], ((unsigned)verified & kind) != 0, error);
        else if (!manifest->files[i].is_verified)
            status = eitp__fail_memory(error, strlen(directory), "a path");
        eitp__release_text(host, path);
    }
    return status;
}

EITP__PRIVATE int eitp__manifest_has_size(const eitp__manifest *manifest, const char *name, uint64_t size) {
    const eitp__manifest_file *file = eitp__manifest_find(manifest, name);
    return file && file->sum.size == size;
}

EITP__PRIVATE eitp_status eitp__manifest_compare(eitp__manifest *manifest, const char *path, const char *name,
                                                 const eitp__file_sum *sum, eitp_error *error) {
    eitp__manifest_file *file = eitp__manifest_find(manifest, name);
    eitp_status status = file ? eitp__check_sum(path, sum, &file->sum, error) : EITP_OK;
    if (file)
        file->is_verified = !status;
    return status;
}
