/*
 * The weights that adapters were trained on. A checkpoint has their CRC-32C: of the frozen parameters as its run stored
 * them, in the order of the model. A model in another precision stores different bytes, so the checksum is computed
 * from its values in f32 or, if it has rounded them, from the files they were loaded from.
 */
#include "base/checksum.h"
#include "base/convert.h"
#include "base/files.h"
#include "base/json.h"
#include "io/lora_files.h"
#include "io/manifest.h"
#include "io/model_directory.h"
#include "tensor/variable.h"

enum { EITP__BASE_PIECE = 1 << 16 }; /* elements summed at a time */

EITP__PRIVATE eitp_status eitp__lora_base_checksum(const eitp_model *model, uint32_t *checksum, eitp_error *error) {
    const size_t chunk = (size_t)1 << 18;
    void *buffer = eitp__allocate_uninitialized(&model->host, chunk);
    eitp_status status = buffer ? EITP_OK : eitp__fail_memory(error, chunk, "a checksum");
    uint32_t crc = 0;
    for (int64_t i = 0; i < eitp__parameter_count(&model->config) && !status; i++) {
        eitp__parameter parameter = eitp__parameter_at(&model->config, i);
        int64_t index = eitp_variable_find(model->context, parameter.name);
        eitp_variable variable = eitp_variable_at(model->context, (size_t)index);
        for (size_t at = 0; at < variable.size && !variable.trained && !status; at += chunk) {
            size_t size = variable.size - at < chunk ? variable.size - at : chunk;
            status = eitp_variable_read(model->context, variable.name, at, buffer, size, error);
            if (!status)
                crc = eitp__crc32c(crc, buffer, size);
        }
    }
    eitp__release(&model->host, buffer, chunk);
    if (!status)
        *checksum = crc;
    return status;
}

/* ---- The base of a checkpoint ---- */

/* The weights that adapters were trained on. */
typedef struct eitp__lora_base {
    int is_known; /* 0: not recorded, for example by PEFT */
    uint32_t checksum;
    eitp_dtype dtype;          /* of the run's matrices */
    eitp__safetensors *others; /* parameters trained in addition to the adapters; NULL: only a classifier's, if any */
} eitp__lora_base;

static eitp_status eitp__base_parse(const eitp_json *root, eitp__lora_base *base, eitp_error *error) {
    const eitp_json *lora = eitp_json_member(root, "lora");
    const char *format = "", *precision = "fp32";
    int64_t checksum = -1;
    eitp_status status = eitp__json_get_text(root, "format", &format, error);
    if (status || strcmp(format, "eitp checkpoint") != 0)
        return status;
    status = eitp__json_get_text(root, "precision", &precision, error);
    if (!status)
        status = eitp__json_get_integer(lora, "base_checksum", 0, UINT32_MAX, &checksum, error);
    if (!status && !eitp__precision_dtype(precision, &base->dtype))
        status = eitp__fail(error, EITP_ERROR_FORMAT, "unknown precision '%.60s'", precision);
    base->is_known = !status && checksum >= 0;
    base->checksum = (uint32_t)checksum;
    return status;
}

/* Reads trainer_state.json of a directory, if it exists. Other programs use the same name: a file that does not parse
   is ignored, unless the directory is an eitp checkpoint. */
static eitp_status eitp__base_read_state(const eitp_host *host, const char *directory, eitp__lora_base *base,
                                         eitp_error *error) {
    const size_t limit = (size_t)1 << 20;
    char *path = eitp__join_path(host, directory, "trainer_state.json");
    char *manifest = eitp__join_path(host, directory, EITP__MANIFEST_FILE);
    eitp_path_info state = EITP__ZERO, ours = EITP__ZERO;
    eitp_json_document *document = NULL;
    eitp_status status = path && manifest ? eitp__path_info(host, path, &state, error)
                                          : eitp__fail_memory(error, strlen(directory), "a path");
    if (!status)
        status = eitp__path_info(host, manifest, &ours, error);
    if (!status && state.kind == EITP_PATH_FILE) {
        status = eitp__json_read_strict_file(host, path, limit, &document, error);
        if (!status) {
            status = eitp__base_parse(eitp_json_root(document), base, error);
            status = status ? eitp__fail_prefix(error, status, "%s", path) : status;
        }
        if (status == EITP_ERROR_FORMAT && ours.kind != EITP_PATH_FILE)
            status = EITP_OK;
    }
    eitp_json_release(document);
    eitp__release_text(host, manifest);
    eitp__release_text(host, path);
    return status;
}

/* Opens the parameters that were trained in addition to the adapters, if there are any. */
static eitp_status eitp__base_open_others(const eitp_host *host, const char *directory, eitp__lora_base *base,
                                          eitp_error *error) {
    char *path = eitp__join_path(host, directory, EITP__LORA_OTHERS_FILE);
    eitp_path_info info = EITP__ZERO;
    eitp_status status =
        path ? eitp__path_info(host, path, &info, error) : eitp__fail_memory(error, strlen(directory), "a path");
    if (!status && info.kind == EITP_PATH_FILE)
        status = eitp__safetensors_open(host, path, &base->others, error);
    eitp__release_text(host, path);
    return status;
}

/* ---- Comparing ---- */

/* The checksum of values as stored: bf16 may have been rounded in two ways. */
typedef struct eitp__base_sums {
    const eitp__lora_base *base;
    uint32_t rounded, split;
    float values[EITP__BASE_PIECE];
    uint16_t bits[EITP__BASE_PIECE];
} eitp__base_sums;

/* True if the parameter was frozen when the adapters were trained. */
static int eitp__base_has(void *user, const eitp_model *model, const eitp__parameter *parameter) {
    const eitp__safetensors *others = ((const eitp__base_sums *)user)->base->others;
    return others ? !eitp__safetensors_find(others, parameter->name) : !eitp__lora_trains(&model->config, 0, parameter);
}

/* Adds values of a frozen parameter. */
static void eitp__base_add(void *user, const eitp__parameter *parameter, const float *values, size_t count) {
    eitp__base_sums *sums = (eitp__base_sums *)user;
    const eitp_dtype dtype = parameter->is_f32 ? EITP_F32 : sums->base->dtype;
    const size_t size = count * sizeof *sums->bits;
    if (dtype == EITP_F32) {
        sums->rounded = eitp__crc32c(sums->rounded, values, count * sizeof *values);
        sums->split = eitp__crc32c(sums->split, values, count * sizeof *values);
        return;
    }
    eitp__convert_from_f32(dtype, values, sums->bits, count);
    sums->rounded = eitp__crc32c(sums->rounded, sums->bits, size);
    eitp__split_high(dtype, values, sums->bits, count);
    sums->split = eitp__crc32c(sums->split, sums->bits, size);
}

/* Adds the model's own values of a frozen parameter. */
static eitp_status eitp__base_add_own(eitp__base_sums *sums, eitp_context *context, const eitp__parameter *parameter,
                                      eitp_error *error) {
    const int64_t elements = eitp__parameter_elements(parameter);
    eitp_status status = EITP_OK;
    for (int64_t first = 0; first < elements && !status; first += EITP__BASE_PIECE) {
        const int64_t count = elements - first < EITP__BASE_PIECE ? elements - first : (int64_t)EITP__BASE_PIECE;
        status = eitp_variable_read_f32(context, parameter->name, first, sums->values, count, error);
        if (!status)
            eitp__base_add(sums, parameter, sums->values, (size_t)count);
    }
    return status;
}

/* Sums the model's own values, or the values in the files it was loaded from, and compares them. */
static eitp_status eitp__base_sum(const eitp_model *model, int from_files, eitp__base_sums *sums, int *is_same,
                                  eitp_error *error) {
    eitp_status status = EITP_OK;
    sums->rounded = sums->split = 0;
    if (from_files)
        status = eitp__model_visit_source(model, eitp__base_has, sums->values, EITP__BASE_PIECE, eitp__base_add, sums,
                                          error);
    for (int64_t i = 0; i < eitp__parameter_count(&model->config) && !status && !from_files; i++) {
        const eitp__parameter parameter = eitp__parameter_at(&model->config, i);
        if (eitp__base_has(sums, model, &parameter))
            status = eitp__base_add_own(sums, model->context, &parameter, error);
    }
    *is_same = !status && (sums->rounded == sums->base->checksum || sums->split == sums->base->checksum);
    return status;
}

/* Fails unless the model has the weights of `base`. They cannot be compared if the model has rounded its values
   differently and was not loaded from files; the check then passes. */
static eitp_status eitp__base_compare(const eitp_model *model, const char *directory, const eitp__lora_base *base,
                                      eitp_error *error) {
    const eitp_dtype precision = eitp_context_precision(model->context);
    eitp__base_sums *sums = (eitp__base_sums *)eitp__allocate(&model->host, sizeof *sums);
    int is_same = 0;
    uint32_t found;
    eitp_status status = sums ? EITP_OK : eitp__fail_memory(error, sizeof *sums, "a checksum");
    if (status)
        return status;
    sums->base = base;
    status = eitp__base_sum(model, 0, sums, &is_same, error);
    if (!status && !is_same && precision != EITP_F32 && model->source)
        status = eitp__base_sum(model, 1, sums, &is_same, error);
    else if (precision != EITP_F32 && precision != base->dtype)
        is_same = 1;
    found = sums->rounded;
    eitp__release(&model->host, sums, sizeof *sums);
    if (status || is_same)
        return status;
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "the adapters in '%s' were trained on other weights than those %s%s%s (checksum %08x, expected "
                      "%08x); load the right weights",
                      directory, model->source ? "in '" : "of the model", model->source ? model->source : "",
                      model->source ? "'" : "", (unsigned)found, (unsigned)base->checksum);
}

EITP__PRIVATE eitp_status eitp__lora_check_base(const eitp_model *model, const char *directory, eitp_error *error) {
    if (!model || !directory)
        return eitp__fail_null(error, "eitp__lora_check_base", "model and directory");
    eitp__lora_base base = EITP__ZERO;
    eitp_status status = eitp__base_read_state(&model->host, directory, &base, error);
    if (!status && base.is_known)
        status = eitp__base_open_others(&model->host, directory, &base, error);
    if (!status && base.is_known)
        status = eitp__base_compare(model, directory, &base, error);
    eitp__safetensors_close(base.others);
    return status;
}
