/* Verifies checkpoints: by manifest.json or, if an earlier version wrote them, by the checksums they contain. */
#include "base/json.h"
#include "io/checkpoint.h"
#include "io/safetensors.h"

/* Up to this version, trainer_state.json has no accompanying manifest.json. */
#define EITP__LAST_VERSION_WITHOUT_MANIFEST 4
#define EITP__CHECKPOINT_NAME "checkpoint-"

EITP__PRIVATE int64_t eitp__checkpoint_step(const char *name) {
    int64_t step = 0;
    const char *digits = name + sizeof EITP__CHECKPOINT_NAME - 1;
    if (strncmp(name, EITP__CHECKPOINT_NAME, sizeof EITP__CHECKPOINT_NAME - 1) != 0 || !*digits ||
        (*digits == '0' && digits[1]))
        return -1;
    for (; *digits; digits++) {
        if (*digits < '0' || *digits > '9' || step > (INT64_MAX - 9) / 10)
            return -1;
        step = step * 10 + (*digits - '0');
    }
    return step;
}

/* ---- Checkpoints of earlier versions ---- */

/* The contents of trainer_state.json from an earlier version. */
typedef struct eitp__earlier_state {
    int64_t step;
    int64_t model_checksum, optimizer_checksum, extra_parameters_checksum; /* -1: none */
    int has_adapters;
} eitp__earlier_state;

static eitp_status eitp__earlier_parse(const eitp_json *root, eitp__earlier_state *state, eitp_error *error) {
    const eitp_json *adapters = eitp_json_member(root, "lora");
    const char *format = "";
    int64_t version = INT32_MAX;
    eitp_status status = eitp__json_get_text(root, "format", &format, error);
    state->step = state->model_checksum = state->optimizer_checksum = state->extra_parameters_checksum = -1;
    state->has_adapters = adapters != NULL;
    if (!status)
        status = eitp__json_get_integer(root, "version", 0, INT32_MAX, &version, error);
    if (!status)
        status = eitp__json_get_integer(root, "step", 0, INT64_MAX, &state->step, error);
    if (!status)
        status = eitp__json_get_integer(root, "model_checksum", 0, UINT32_MAX, &state->model_checksum, error);
    if (!status)
        status = eitp__json_get_integer(root, "optimizer_checksum", 0, UINT32_MAX, &state->optimizer_checksum, error);
    if (!status)
        status = eitp__json_get_integer(adapters, "extra_parameters_checksum", 0, UINT32_MAX,
                                        &state->extra_parameters_checksum, error);
    if (!status && (strcmp(format, "eitp checkpoint") != 0 || state->step < 0 || state->model_checksum < 0 ||
                    state->optimizer_checksum < 0))
        return eitp__fail(error, EITP_ERROR_FORMAT, "format, step or a checksum is missing");
    if (!status && version > EITP__LAST_VERSION_WITHOUT_MANIFEST)
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "a checkpoint of version %lld needs a " EITP__MANIFEST_FILE ", which is missing",
                          (long long)version);
    return status;
}

static eitp_status eitp__earlier_read(const eitp_host *host, const char *checkpoint, eitp__earlier_state *state,
                                      eitp_error *error) {
    eitp_json_document *document = NULL;
    eitp_path_info info = EITP__ZERO;
    char *path = eitp__join_path(host, checkpoint, "trainer_state.json");
    eitp_status status =
        path ? eitp__path_info(host, path, &info, error) : eitp__fail_memory(error, strlen(checkpoint), "a path");
    if (!status && info.kind != EITP_PATH_FILE)
        status =
            eitp__fail(error, EITP_ERROR_FORMAT,
                       "'%s' is incomplete: it has neither " EITP__MANIFEST_FILE " nor trainer_state.json", checkpoint);
    if (!status)
        status = eitp__json_read_strict_file(host, path, (size_t)1 << 20, &document, error);
    if (!status) {
        status = eitp__earlier_parse(eitp_json_root(document), state, error);
        if (status)
            eitp__fail_prefix(error, status, "'%s' is damaged", path);
    }
    eitp_json_release(document);
    eitp__release_text(host, path);
    return status;
}

/* Finds the offset of the data. The stored checksum is in file order only if all elements have the same size. */
static eitp_status eitp__earlier_data(const eitp_host *host, const char *path, uint64_t *first, int *is_in_order,
                                      eitp_error *error) {
    eitp__safetensors *collection = NULL;
    size_t element = 0;
    eitp_status status = eitp__safetensors_open(host, path, &collection, error);
    if (status)
        return status;
    *first = UINT64_MAX;
    *is_in_order = 1;
    for (size_t i = 0; i < eitp__safetensors_count(collection); i++) {
        const eitp__safetensors_entry *entry = eitp__safetensors_at(collection, i);
        *first = entry->offset < *first ? entry->offset : *first;
        *is_in_order &= !element || entry->element_size == element;
        element = entry->element_size;
    }
    eitp__safetensors_close(collection);
    return EITP_OK;
}

static eitp_status eitp__earlier_check_file(const eitp_host *host, const char *checkpoint, const char *name,
                                            int64_t expected, eitp_error *error) {
    char *path = eitp__join_path(host, checkpoint, name);
    eitp_path_info info = EITP__ZERO;
    eitp__file_sum sum = EITP__ZERO;
    uint64_t first = UINT64_MAX;
    int is_in_order = 0;
    eitp_status status =
        path ? eitp__path_info(host, path, &info, error) : eitp__fail_memory(error, strlen(checkpoint), "a path");
    if (!status && info.kind != EITP_PATH_FILE)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "'%s' is missing", path);
    if (!status)
        status = eitp__earlier_data(host, path, &first, &is_in_order, error);
    if (!status && is_in_order && first != UINT64_MAX)
        status = eitp__sum_from(host, path, first, 0, &sum, error);
    if (!status && is_in_order && (int64_t)sum.crc != expected)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "'%s' is damaged: its checksum is %08x, expected %08x", path,
                            (unsigned)sum.crc, (unsigned)expected);
    eitp__release_text(host, path);
    return status;
}

static eitp_status eitp__earlier_verify(const eitp_host *host, const char *checkpoint, eitp_error *error) {
    eitp__earlier_state state;
    eitp_status status = eitp__earlier_read(host, checkpoint, &state, error);
    if (!status)
        status = eitp__earlier_check_file(host, checkpoint,
                                          state.has_adapters ? "adapter_model.safetensors" : "model.safetensors",
                                          state.model_checksum, error);
    if (!status && state.extra_parameters_checksum >= 0)
        status = eitp__earlier_check_file(host, checkpoint, "parameters.safetensors", state.extra_parameters_checksum,
                                          error);
    return status
               ? status
               : eitp__earlier_check_file(host, checkpoint, "optimizer.safetensors", state.optimizer_checksum, error);
}

/* ---- All checkpoints ---- */

/* Compares the step with the one in the directory's name, if it has one. */
static eitp_status eitp__check_name(const eitp_host *host, const char *checkpoint, int64_t step, eitp_error *error) {
    size_t end = strlen(checkpoint), first;
    char *name;
    int64_t expected;
    while (end && checkpoint[end - 1] == '/')
        end--;
    for (first = end; first && checkpoint[first - 1] != '/';)
        first--;
    name = eitp__copy_bytes(host, checkpoint + first, end - first);
    if (!name)
        return eitp__fail_memory(error, end - first, "a path");
    expected = eitp__checkpoint_step(name);
    eitp__release_text(host, name);
    return expected < 0 || expected == step
               ? EITP_OK
               : eitp__fail(error, EITP_ERROR_FORMAT, "'%s' has the checkpoint of step %lld; rename it", checkpoint,
                            (long long)step);
}

EITP__PRIVATE eitp_status eitp__checkpoint_open(const eitp_host *host, const char *checkpoint,
                                                eitp__checkpoint_head *head, eitp__manifest *manifest,
                                                eitp_error *error) {
    eitp__earlier_state state;
    eitp_path_info info = EITP__ZERO;
    eitp_status status = eitp__path_info(host, checkpoint, &info, error);
    if (!status && info.kind == EITP_PATH_MISSING)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "'%s' does not exist; check the path", checkpoint);
    if (!status && info.kind != EITP_PATH_DIRECTORY)
        return eitp__fail(error, EITP_ERROR_FORMAT, "'%s' is not a directory", checkpoint);
    if (!status)
        status = eitp__manifest_read(manifest, checkpoint, &head->has_manifest, error);
    head->step = manifest->step;
    head->is_counted = manifest->is_counted;
    if (!status && !head->has_manifest) {
        status = eitp__earlier_read(host, checkpoint, &state, error);
        head->step = status ? -1 : state.step;
    }
    return status ? status : eitp__check_name(host, checkpoint, head->step, error);
}

EITP__PRIVATE eitp_status eitp__checkpoint_check(const eitp_host *host, const char *checkpoint,
                                                 const eitp__checkpoint_head *head, eitp__manifest *manifest,
                                                 eitp__verified verified, eitp_error *error) {
    return head->has_manifest ? eitp__manifest_check(manifest, checkpoint, verified, error)
                              : eitp__earlier_verify(host, checkpoint, error);
}

EITP__PRIVATE eitp_status eitp__checkpoint_read_head(const eitp_host *host, const char *checkpoint,
                                                     eitp__checkpoint_head *head, eitp_error *error) {
    eitp__manifest manifest;
    eitp_status status;
    eitp__manifest_init(&manifest, host, -1, 1);
    status = eitp__checkpoint_open(host, checkpoint, head, &manifest, error);
    eitp__manifest_release(&manifest);
    return status;
}

EITP__PRIVATE eitp_status eitp__checkpoint_verify(const eitp_host *host, const char *checkpoint,
                                                  eitp__verified verified, eitp__checkpoint_head *head,
                                                  eitp_error *error) {
    eitp__manifest manifest;
    eitp_status status;
    eitp__manifest_init(&manifest, host, -1, 1);
    status = eitp__checkpoint_open(host, checkpoint, head, &manifest, error);
    if (!status)
        status = eitp__checkpoint_check(host, checkpoint, head, &manifest, verified, error);
    eitp__manifest_release(&manifest);
    return status;
}

eitp_status eitp_checkpoint_verify(const eitp_host *host, const char *checkpoint, eitp_error *error) {
    eitp__checkpoint_head head;
    eitp_status status;
    if (!host || !checkpoint)
        return eitp__fail_null(error, "eitp_checkpoint_verify", "host and checkpoint");
    status = eitp__checkpoint_verify(host, checkpoint, EITP__VERIFY_ALL, &head, error);
    return status == EITP_ERROR_FORMAT ? eitp__fail_advice(error, status, "use another checkpoint") : status;
}
