/* Reads and writes variables as safetensors files, through a small buffer. */
#include "io/variables.h"
#include "base/checksum.h"
#include "base/convert.h"
#include "base/log.h"
#include "model/lora.h"
#include "tensor/context.h"
#include "tensor/variable.h"

#define EITP__COPY_ELEMENTS ((int64_t)1 << 15) /* copied at a time */
#define EITP__COPY_BYTES ((size_t)EITP__COPY_ELEMENTS * 8)
#define EITP__DIRECT_ELEMENTS ((int64_t)1 << 20) /* elements read into a variable's memory between two polls */

/* True if the variable is read and written as f32. For a 16-bit parameter this includes its remainder. */
static int eitp__is_copied_as_f32(const eitp_variable *variable) {
    return eitp__wide(variable->dtype) == EITP_F32;
}

static int64_t eitp__variable_elements(const eitp_variable *variable) {
    return (int64_t)(variable->size / eitp_dtype_size(variable->dtype));
}

/* Reads elements of a tensor, and writes them to the variable if `loads`. */
static eitp_status eitp__read_elements(eitp_context *context, const eitp_variable *variable,
                                       const eitp__safetensors *collection, const eitp__safetensors_entry *entry,
                                       int loads, int64_t first, int64_t count, void *buffer, uint32_t *checksum,
                                       eitp_error *error) {
    size_t element = eitp_dtype_size(variable->dtype);
    eitp_status status;
    if (eitp__is_copied_as_f32(variable)) {
        status = eitp__safetensors_read_f32(collection, entry, first, count, (float *)buffer, checksum, error);
        return status || !loads
                   ? status
                   : eitp_variable_write_f32(context, variable->name, first, (const float *)buffer, count, error);
    }
    status = eitp__safetensors_read(collection, entry, first, count, buffer, checksum, error);
    return status || !loads ? status
                            : eitp_variable_write(context, variable->name, (size_t)first * element, buffer,
                                                  (size_t)count * element, error);
}

EITP__PRIVATE const char *eitp__format_shape(int rank, const int64_t *shape, char *text, size_t size) {
    size_t at = (size_t)snprintf(text, size, "[");
    for (int d = 0; d < rank && at < size; d++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld", d ? ", " : "", (long long)shape[d]);
    if (at < size)
        snprintf(text + at, size - at, "]");
    return text;
}

EITP__PRIVATE eitp_status eitp__variable_check_entry(const eitp_variable *variable, const eitp__piece *piece,
                                                     const eitp__safetensors *collection,
                                                     const eitp__safetensors_entry *entry, eitp_error *error) {
    int is_floating = entry->dtype >= 0 && eitp__is_floating((eitp_dtype)entry->dtype);
    char shape[80], expected[80];
    if (entry->rank != piece->rank || memcmp(entry->shape, piece->shape, (size_t)entry->rank * sizeof *entry->shape))
        return eitp__fail(error, EITP_ERROR_FORMAT,
                          "%s: tensor '%.100s' has shape %s, expected %s; is it from another model?",
                          eitp__safetensors_path(collection, entry), entry->name,
                          eitp__format_shape(entry->rank, entry->shape, shape, sizeof shape),
                          eitp__format_shape(piece->rank, piece->shape, expected, sizeof expected));
    if (!eitp__is_copied_as_f32(variable) && (int)variable->dtype != entry->dtype)
        return eitp__fail(error, EITP_ERROR_FORMAT, "%s: tensor '%.100s' has dtype %s, expected %s",
                          eitp__safetensors_path(collection, entry), entry->name, entry->type,
                          eitp__safetensors_type(variable->dtype));
    if (eitp__is_copied_as_f32(variable) && !is_floating)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "%s: tensor '%.100s' has unsupported dtype %s (expected F32, F16, BF16 or F64)",
                          eitp__safetensors_path(collection, entry), entry->name, entry->type);
    return EITP_OK;
}

/* Reads a whole variable from a tensor: straight into its memory if the file has its bytes. */
static eitp_status eitp__variable_read_whole(eitp_context *context, const eitp_variable *variable,
                                             const eitp__safetensors *collection, const eitp__safetensors_entry *entry,
                                             int loads, uint32_t *checksum, eitp_error *error) {
    const eitp_host host = eitp_context_host(context);
    const size_t element = eitp_dtype_size(variable->dtype);
    int64_t elements = eitp__variable_elements(variable), piece = EITP__COPY_ELEMENTS;
    eitp_status status = eitp__prepare_access(context, error);
    char *memory = NULL;
    void *buffer = NULL;
    if (!status && loads && entry->dtype == (int)variable->dtype && !eitp__safetensors_lower(collection, entry))
        memory = (char *)eitp__variable_memory(context, variable->name);
    if (memory)
        piece = EITP__DIRECT_ELEMENTS;
    else if (!status)
        buffer = eitp__allocate_uninitialized(&host, EITP__COPY_BYTES);
    if (!status && !memory && !buffer)
        status = eitp__fail_memory(error, EITP__COPY_BYTES, "reading weights");
    for (int64_t first = 0; first < elements && !status; first += piece) {
        int64_t count = elements - first < piece ? elements - first : piece;
        status = eitp__context_poll(context, error);
        if (!status && memory)
            status = eitp__safetensors_read(collection, entry, first, count, memory + (size_t)first * element, checksum,
                                            error);
        else if (!status)
            status =
                eitp__read_elements(context, variable, collection, entry, loads, first, count, buffer, checksum, error);
    }
    eitp__release(&host, buffer, EITP__COPY_BYTES);
    return status;
}

EITP__PRIVATE eitp_status eitp__variable_read_piece(eitp_context *context, const eitp_variable *variable,
                                                    const eitp__piece *piece, const eitp__safetensors *collection,
                                                    const eitp__safetensors_entry *entry, int loads, uint32_t *checksum,
                                                    eitp_error *error) {
    uint32_t crc = 0, *sum = checksum ? &crc : NULL;
    eitp_status status = eitp__variable_check_entry(variable, piece, collection, entry, error);
    if (!status)
        status = piece->is_whole ? eitp__variable_read_whole(context, variable, collection, entry, loads, sum, error)
                                 : eitp__piece_read(context, variable, piece, collection, entry, loads, sum, error);
    if (!status && checksum) {
        *checksum = eitp__crc32c_join(*checksum, crc, entry->size);
        eitp__safetensors_add_sum(collection, entry, crc);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__variable_read_entry(eitp_context *context, const eitp_variable *variable,
                                                    const eitp__safetensors *collection,
                                                    const eitp__safetensors_entry *entry, int loads, uint32_t *checksum,
                                                    eitp_error *error) {
    eitp__piece pieces[EITP__PIECES];
    eitp__variable_pieces(variable, NULL, pieces);
    return eitp__variable_read_piece(context, variable, &pieces[0], collection, entry, loads, checksum, error);
}

static int eitp__is_saved_whole(const eitp__selection *selection, const eitp_variable *variable) {
    eitp__parameter parameter;
    return eitp__parameter_find(selection->config, variable->name, &parameter) &&
           eitp__lora_trains(selection->config, selection->adapters->saved, &parameter);
}

/* True if the variable belongs to the selected models, and not to an excluded one. */
static int eitp__is_of_models(const eitp__selection *selection, const eitp_variable *variable) {
    eitp__parameter parameter;
    int is_of = !selection->only || eitp__parameter_find(selection->only, variable->name, &parameter);
    for (size_t i = 0; i < EITP__COUNT(selection->without); i++)
        is_of = is_of &&
                !(selection->without[i] && eitp__parameter_find(selection->without[i], variable->name, &parameter));
    return is_of;
}

static int eitp__is_selected(const eitp__selection *selection, const eitp_variable *variable) {
    return variable->role == selection->role && eitp__is_of_models(selection, variable) &&
           (!selection->selects || selection->selects(variable) ||
            (selection->adapters && eitp__is_saved_whole(selection, variable)));
}

/* Finds the tensors of a variable in the file. */
static int eitp__selected_pieces(const eitp__selection *selection, const eitp_variable *variable,
                                 eitp__piece pieces[EITP__PIECES]) {
    return selection->adapters ? eitp__saved_pieces(variable, selection->config, selection->adapters->saved, pieces)
                               : eitp__variable_pieces(variable, selection->config, pieces);
}

EITP__PRIVATE eitp__selection eitp__select_role(eitp_role role) {
    eitp__selection selection = EITP__ZERO;
    selection.role = role;
    selection.selects = NULL;
    selection.prefix = "";
    selection.config = NULL;
    return selection;
}

/* ---- The dtypes of a file ---- */

EITP__PRIVATE void eitp__variable_note_dtype(eitp_context *context, const char *name, const eitp__piece *piece,
                                             int dtype) {
    const int64_t index = eitp_variable_find(context, name);
    const eitp_dtype loaded = dtype == EITP_BF16 || dtype == EITP_F16 ? (eitp_dtype)dtype : EITP_F32;
    eitp__variable *variable = index < 0 ? NULL : &context->variables[index];
    if (!variable || piece->is_copy)
        return;
    variable->loaded_as = piece->is_whole || !piece->column || variable->loaded_as == loaded ? loaded : EITP_F32;
    variable->is_loaded = 1;
}

EITP__PRIVATE eitp_dtype eitp__selection_dtype(const eitp_context *context, const eitp__selection *selection,
                                               eitp_save_dtype dtype) {
    static const eitp_dtype dtypes[] = {EITP_F32, EITP_BF16, EITP_F16};
    int64_t elements[EITP__COUNT(dtypes)] = {0};
    size_t most = 0;
    if (dtype != EITP_SAVE_AS_LOADED)
        return dtypes[dtype - EITP_SAVE_F32];
    for (size_t i = 0; i < eitp_variable_count(context); i++) {
        const eitp__variable *variable = &context->variables[i];
        if (!variable->is_loaded || !eitp__is_selected(selection, &variable->info))
            continue;
        for (size_t k = 0; k < EITP__COUNT(dtypes); k++)
            elements[k] += variable->loaded_as == dtypes[k] ? eitp__variable_elements(&variable->info) : 0;
    }
    for (size_t k = 1; k < EITP__COUNT(dtypes); k++)
        most = elements[k] > elements[most] ? k : most;
    return dtypes[most];
}

/* Returns the dtype of a variable's tensors in a file, where `usual` is the most common dtype of its weights. */
static eitp_dtype eitp__saved_dtype(const eitp__variable *variable, eitp_save_dtype dtype, eitp_dtype usual) {
    if (!eitp__is_copied_as_f32(&variable->info))
        return variable->info.dtype;
    return dtype == EITP_SAVE_AS_LOADED && variable->is_loaded ? variable->loaded_as : usual;
}

/* True if tensors of a 16-bit dtype do not have the variable's exact values. */
static int eitp__needs_lower(eitp_context *context, const eitp__variable *variable, eitp_dtype saved) {
    return eitp__wide(saved) != saved && eitp__is_copied_as_f32(&variable->info) &&
           (variable->info.dtype != saved || eitp__remainder_of(context, variable));
}

EITP__PRIVATE void eitp__selection_bytes(eitp_context *context, const eitp__selection *selection, eitp_save_dtype dtype,
                                         uint64_t *bytes, uint64_t *lower_bytes) {
    const eitp_dtype usual = eitp__selection_dtype(context, selection, dtype);
    for (size_t i = 0; i < eitp_variable_count(context); i++) {
        const eitp__variable *variable = &context->variables[i];
        const uint64_t header = 160 + 2 * (uint64_t)variable->name_length;
        const uint64_t elements = (uint64_t)eitp__variable_elements(&variable->info);
        const eitp_dtype saved = eitp__saved_dtype(variable, dtype, usual);
        if (!eitp__is_selected(selection, &variable->info))
            continue;
        *bytes += header + elements * eitp_dtype_size(saved);
        if (eitp__needs_lower(context, variable, saved))
            *lower_bytes += header + elements * eitp_dtype_size(eitp__lower_plane_dtype(saved));
    }
}

/* Finds a finite value of a variable that a dtype cannot represent. */
static eitp_status eitp__variable_find_overflow(eitp_context *context, const eitp_variable *variable, eitp_dtype dtype,
                                                int *found, float *value, eitp_error *error) {
    float values[1024];
    const int64_t elements = eitp__variable_elements(variable), piece = (int64_t)EITP__COUNT(values);
    eitp_status status = EITP_OK;
    *found = 0;
    for (int64_t first = 0; first < elements && !status && !*found; first += piece) {
        const int64_t count = elements - first < piece ? elements - first : piece;
        status = eitp_variable_read_f32(context, variable->name, first, values, count, error);
        for (int64_t i = 0; i < count && !status && !*found; i++) {
            *found = isfinite(values[i]) && !eitp__is_in_range(dtype, values[i]);
            *value = values[i];
        }
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__selection_find_overflow(eitp_context *context, const eitp__selection *selection,
                                                        eitp_save_dtype dtype, const char **name, float *value,
                                                        eitp_error *error) {
    const eitp_dtype usual = eitp__selection_dtype(context, selection, dtype);
    eitp_status status = EITP_OK;
    *name = NULL;
    for (size_t i = 0; i < eitp_variable_count(context) && !status && !*name; i++) {
        const eitp__variable *variable = &context->variables[i];
        const eitp_dtype saved = eitp__saved_dtype(variable, dtype, usual);
        int found = 0;
        if (saved == EITP_F16 && eitp__is_selected(selection, &variable->info))
            status = eitp__variable_find_overflow(context, &variable->info, saved, &found, value, error);
        *name = found ? variable->info.name : NULL;
    }
    return status;
}

/* ---- Writing ---- */

/* A tensor of a file to write. */
typedef struct eitp__file_tensor {
    size_t variable; /* its index */
    int piece;       /* index of the variable's piece */
    const eitp__file_part *part;
} eitp__file_tensor;

/* The tensors of a file to write. */
typedef struct eitp__file_list {
    const eitp_host *host;
    eitp__file_tensor *sources;
    eitp__safetensors_tensor *tensors; /* in file form, each with its source */
    eitp__buffer names;                /* zero-terminated, one after the other */
    size_t count, capacity;
} eitp__file_list;

static void eitp__file_list_release(eitp__file_list *list) {
    eitp__buffer_release(&list->names);
    eitp__release(list->host, list->sources, list->capacity * sizeof *list->sources);
    eitp__release(list->host, list->tensors, list->capacity * sizeof *list->tensors);
}

/* Adds the tensors of a variable, which its file stores as `saved`. */
static void eitp__file_list_add(eitp__file_list *list, size_t index, const eitp_variable *variable,
                                const eitp__file_part *part, eitp_dtype saved) {
    const eitp__selection *selection = part->selection;
    const int is_lower = part->plane == EITP__PLANE_LOWER;
    eitp__piece pieces[EITP__PIECES];
    int count = eitp__selected_pieces(selection, variable, pieces);
    for (int i = 0; i < count; i++) {
        const char *name = *pieces[i].name ? pieces[i].name : variable->name;
        eitp__safetensors_tensor *tensor = &list->tensors[list->count];
        if (is_lower && pieces[i].is_copy)
            continue;
        list->sources[list->count].piece = i;
        list->sources[list->count].part = part;
        list->sources[list->count++].variable = index;
        eitp__buffer_add_text(&list->names, is_lower ? eitp__lower_plane_prefix(saved) : selection->prefix);
        eitp__buffer_add(&list->names, name, strlen(name) + 1);
        tensor->dtype = is_lower ? eitp__lower_plane_dtype(saved) : saved;
        tensor->rank = pieces[i].rank;
        memcpy(tensor->shape, pieces[i].shape, sizeof tensor->shape);
    }
}

/* Adds the tensors of a part. */
static void eitp__file_list_add_part(eitp_context *context, const eitp__file_part *part, eitp__file_list *list) {
    const eitp_dtype usual = eitp__selection_dtype(context, part->selection, part->dtype);
    for (size_t i = 0; i < eitp_variable_count(context); i++) {
        const eitp__variable *variable = &context->variables[i];
        const eitp_dtype saved = eitp__saved_dtype(variable, part->dtype, usual);
        if (eitp__is_selected(part->selection, &variable->info) &&
            (part->plane != EITP__PLANE_LOWER || eitp__needs_lower(context, variable, saved)))
            eitp__file_list_add(list, i, &variable->info, part, saved);
    }
}

/* Returns the maximum number of tensors of a part. */
static size_t eitp__part_capacity(const eitp_context *context, const eitp__file_part *part) {
    const eitp__selection *selection = part->selection;
    const size_t pieces = selection->adapters || eitp__has_pieces(selection->config) ? EITP__PIECES : 1;
    size_t count = 0;
    for (size_t i = 0; i < eitp_variable_count(context); i++)
        count += eitp__is_selected(selection, &context->variables[i].info) ? pieces : 0;
    return count;
}

static eitp_status eitp__file_list_make(eitp_context *context, const eitp_host *host, const eitp__file_part *parts,
                                        size_t count, eitp__file_list *list, eitp_error *error) {
    const char *name;
    int is_created;
    memset(list, 0, sizeof *list);
    list->host = host;
    eitp__buffer_init(&list->names, host);
    list->capacity = 1;
    for (size_t i = 0; i < count; i++)
        list->capacity += eitp__part_capacity(context, &parts[i]);
    list->sources = (eitp__file_tensor *)eitp__allocate(host, list->capacity * sizeof *list->sources);
    list->tensors = (eitp__safetensors_tensor *)eitp__allocate(host, list->capacity * sizeof *list->tensors);
    is_created = list->sources && list->tensors;
    for (size_t i = 0; i < count && is_created; i++)
        eitp__file_list_add_part(context, &parts[i], list);
    if (!is_created || list->names.failed)
        return eitp__fail_memory(error, list->capacity * sizeof *list->tensors, "the list of tensors");
    name = list->names.data;
    for (size_t i = 0; i < list->count; i++) {
        list->tensors[i].name = name;
        name += strlen(name) + 1;
    }
    return EITP_OK;
}

static eitp_status eitp__variable_write_entry(eitp_context *context, eitp__safetensors_writer *writer, size_t index,
                                              const eitp__file_tensor *source, void *buffer, uint32_t *checksum,
                                              eitp_error *error) {
    eitp_variable variable = eitp_variable_at(context, source->variable);
    int64_t elements = eitp__variable_elements(&variable), piece;
    size_t element = eitp_dtype_size(variable.dtype);
    eitp_status status = EITP_OK;
    piece = EITP__COPY_ELEMENTS;
    for (int64_t first = 0; first < elements && !status; first += piece) {
        int64_t count = elements - first < piece ? elements - first : piece;
        if (eitp__is_copied_as_f32(&variable)) {
            status = eitp_variable_read_f32(context, variable.name, first, (float *)buffer, count, error);
            if (!status)
                status = eitp__safetensors_write_plane(writer, index, source->part->plane, (float *)buffer, count,
                                                       checksum, error);
        } else {
            status = eitp_variable_read(context, variable.name, (size_t)first * element, buffer,
                                        (size_t)count * element, error);
            if (!status)
                status = eitp__safetensors_write(writer, index, buffer, count, checksum, error);
        }
    }
    return status;
}

/* Writes tensor `index` of a list. */
static eitp_status eitp__file_list_write(eitp_context *context, const eitp__file_list *list, size_t index,
                                         eitp__safetensors_writer *writer, void *buffer, uint32_t *checksum,
                                         eitp_error *error) {
    const eitp__file_tensor *source = &list->sources[index];
    const eitp__plane plane = source->part->plane;
    uint32_t *sum = plane == EITP__PLANE_LOWER ? NULL : checksum;
    eitp_variable variable = eitp_variable_at(context, source->variable);
    eitp__piece pieces[EITP__PIECES];
    const eitp__piece *piece = &pieces[source->piece];
    eitp__selected_pieces(source->part->selection, &variable, pieces);
    return piece->is_whole ? eitp__variable_write_entry(context, writer, index, source, buffer, sum, error)
                           : eitp__piece_write(context, &variable, piece, plane, writer, index, sum, error);
}

EITP__PRIVATE eitp_status eitp__variables_save_parts(eitp_context *context, const char *path,
                                                     const eitp__file_part *parts, size_t count, uint32_t *checksum,
                                                     eitp__file_output *output, eitp_error *error) {
    const eitp_host host = eitp_context_host(context);
    const eitp__safetensors_text metadata = {"format", "pt"};
    eitp__safetensors_writer *writer = NULL;
    eitp__file_list list;
    uint32_t sum = 0;
    void *buffer = eitp__allocate_uninitialized(&host, EITP__COPY_BYTES);
    eitp_status status = eitp__file_list_make(context, &host, parts, count, &list, error);
    if (!status && !buffer)
        status = eitp__fail_memory(error, EITP__COPY_BYTES, "writing weights");
    if (!status)
        status = eitp__safetensors_begin(&host, path, list.tensors, list.count, &metadata, 1,
                                         output ? output->queue : NULL, &writer, error);
    for (size_t i = 0; i < list.count && !status; i++)
        status = eitp__file_list_write(context, &list, i, writer, buffer, &sum, error);
    if (status)
        eitp__safetensors_abandon(writer);
    else
        status = eitp__safetensors_finish(writer, output ? &output->sum : NULL, error);
    eitp__release(&host, buffer, EITP__COPY_BYTES);
    eitp__file_list_release(&list);
    if (!status && checksum)
        *checksum = sum;
    return status;
}

EITP__PRIVATE eitp_status eitp__variables_save(eitp_context *context, const char *path,
                                               const eitp__selection *selection, eitp_save_dtype dtype,
                                               uint32_t *checksum, eitp__file_output *output, eitp_error *error) {
    eitp__file_part part;
    part.selection = selection;
    part.dtype = dtype;
    part.plane = EITP__PLANE_ALONE;
    return eitp__variables_save_parts(context, path, &part, 1, checksum, output, error);
}

eitp_status eitp_variables_save(eitp_context *context, const char *path, eitp_role role, eitp_dtype dtype,
                                uint32_t *checksum, eitp_error *error) {
    eitp__selection selection = EITP__ZERO;
    if (!context || !path)
        return eitp__fail_null(error, "eitp_variables_save", "context and path");
    if (dtype != EITP_F32 && dtype != EITP_F16 && dtype != EITP_BF16)
        return eitp__fail(error, EITP_ERROR_ARGUMENT, "variables cannot be saved as %s (choose from f32, f16, bf16)",
                          eitp_dtype_name(dtype));
    selection = eitp__select_role(role);
    return eitp__variables_save(context, path, &selection,
                                dtype == EITP_F16    ? EITP_SAVE_F16
                                : dtype == EITP_BF16 ? EITP_SAVE_BF16
                                                     : EITP_SAVE_F32,
                                checksum, NULL, error);
}

/* ---- Reading ---- */

/* Returns the tensor of a piece, or NULL. */
static const eitp__safetensors_entry *eitp__piece_entry(const eitp__safetensors *collection,
                                                        const eitp_variable *variable, const eitp__piece *piece) {
    return eitp__safetensors_find(collection, *piece->name ? piece->name : variable->name);
}

/* True if a tensor of the optimizer's file is a lower plane of weights. */
static int eitp__is_lower_entry(const eitp_context *context, const eitp__safetensors_entry *entry) {
    const int64_t index = eitp_variable_find(context, entry->name);
    return eitp__lower_plane_owner(entry->name) && (index < 0 || context->variables[index].info.role != EITP_OPTIMIZER);
}

/* Reads the lower planes in a file, only to compute its sum: they were already added to the weights when another file
   was read. */
static eitp_status eitp__sum_lower(eitp_context *context, const eitp__safetensors *collection, eitp_error *error) {
    const eitp_host host = eitp_context_host(context);
    void *buffer = eitp__allocate_uninitialized(&host, EITP__COPY_BYTES);
    eitp_status status = buffer ? EITP_OK : eitp__fail_memory(error, EITP__COPY_BYTES, "reading weights");
    for (size_t i = 0; i < eitp__safetensors_count(collection) && !status; i++) {
        const eitp__safetensors_entry *entry = eitp__safetensors_at(collection, i);
        uint32_t crc = 0;
        if (!eitp__is_lower_entry(context, entry))
            continue;
        for (int64_t first = 0; first < entry->count && !status; first += EITP__COPY_ELEMENTS) {
            const int64_t left = entry->count - first;
            status = eitp__context_poll(context, error);
            if (!status)
                status = eitp__safetensors_read(collection, entry, first,
                                                left < EITP__COPY_ELEMENTS ? left : EITP__COPY_ELEMENTS, buffer, &crc,
                                                error);
        }
        if (!status)
            eitp__safetensors_add_sum(collection, entry, crc);
    }
    eitp__release(&host, buffer, EITP__COPY_BYTES);
    return status;
}

/* Checks that a file has the tensors of all selected variables, and no others. */
static eitp_status eitp__check_entries(eitp_context *context, const eitp__safetensors *collection, const char *path,
                                       const eitp__selection *selection, eitp_error *error) {
    size_t count = 0;
    for (size_t i = 0; i < eitp_variable_count(context); i++) {
        eitp_variable variable = eitp_variable_at(context, i);
        eitp__piece pieces[EITP__PIECES];
        int number = eitp__is_selected(selection, &variable) ? eitp__selected_pieces(selection, &variable, pieces) : 0;
        for (int k = 0; k < number; k++) {
            const eitp__safetensors_entry *entry = eitp__piece_entry(collection, &variable, &pieces[k]);
            eitp_status status;
            if (!entry && (pieces[k].is_copy || (selection->may_lack_states && variable.parent < 0)))
                continue;
            status = entry ? eitp__variable_check_entry(&variable, &pieces[k], collection, entry, error)
                           : eitp__fail(error, EITP_ERROR_FORMAT, "%s: missing tensor '%s'", path,
                                        *pieces[k].name ? pieces[k].name : variable.name);
            if (status)
                return status;
            count++;
        }
    }
    for (size_t i = 0; i < eitp__safetensors_count(collection) && selection->has_lower; i++)
        count += eitp__is_lower_entry(context, eitp__safetensors_at(collection, i)) ? 1 : 0;
    if (count != eitp__safetensors_count(collection))
        return eitp__fail(error, EITP_ERROR_FORMAT, "%s has %zu tensors, expected %zu; is it from another model?", path,
                          eitp__safetensors_count(collection), count);
    return EITP_OK;
}

EITP__PRIVATE eitp_status eitp__variables_read_selected(eitp_context *context, const char *path,
                                                        const eitp__selection *selection, eitp__reading reading,
                                                        eitp__read_sums *sums, eitp_error *error) {
    const int loads = reading == EITP__READ_LOAD;
    const eitp_host host = eitp_context_host(context);
    eitp__safetensors *collection;
    uint32_t sum = 0;
    eitp_status status = eitp__safetensors_open(&host, path, &collection, error);
    if (status)
        return status;
    status = eitp__check_entries(context, collection, path, selection, error);
    if (!status && selection->lower)
        status = eitp__safetensors_attach(collection, selection->lower, error);
    for (size_t i = 0; i < eitp_variable_count(context) && !status && reading != EITP__READ_HEADER; i++) {
        eitp_variable variable = eitp_variable_at(context, i);
        eitp__piece pieces[EITP__PIECES];
        int count = eitp__is_selected(selection, &variable) ? eitp__selected_pieces(selection, &variable, pieces) : 0;
        for (int k = 0; k < count && !status; k++) {
            const eitp__safetensors_entry *entry = eitp__piece_entry(collection, &variable, &pieces[k]);
            if (entry)
                status = eitp__variable_read_piece(context, &variable, &pieces[k], collection, entry,
                                                   loads && !pieces[k].is_copy, &sum, error);
            if (entry && !status && loads)
                eitp__variable_note_dtype(context, variable.name, &pieces[k], entry->dtype);
            if (!entry && loads && selection->may_lack_states)
                eitp__log_missing_state(context, path, variable.name);
        }
    }
    if (!status && selection->has_lower && reading != EITP__READ_HEADER)
        status = eitp__sum_lower(context, collection, error);
    if (!status && sums) {
        sums->tensors = sum;
        sums->file = eitp__safetensors_sum(collection);
    }
    eitp__safetensors_close(collection);
    return status;
}

EITP__PRIVATE eitp_status eitp__variables_read(eitp_context *context, const char *path, eitp_role role,
                                               eitp__reading reading, eitp__read_sums *sums, eitp_error *error) {
    const eitp__selection selection = eitp__select_role(role);
    return eitp__variables_read_selected(context, path, &selection, reading, sums, error);
}

EITP__PRIVATE void eitp__log_missing_state(const eitp_context *context, const char *path, const char *name) {
    const eitp_host host = eitp_context_host(context);
    eitp__log_line(&host, EITP_LOG_WARNING, "%s has no state '%s': it keeps its value", path, name);
}

EITP__PRIVATE eitp_status eitp__states_read(eitp_context *context, const char *path, eitp__reading reading,
                                            eitp__read_sums *sums, eitp_error *error) {
    eitp__selection selection = eitp__select_role(EITP_OPTIMIZER);
    selection.may_lack_states = selection.has_lower = 1;
    return eitp__variables_read_selected(context, path, &selection, reading, sums, error);
}

eitp_status eitp_variables_load(eitp_context *context, const char *path, eitp_role role, uint32_t *checksum,
                                eitp_error *error) {
    eitp__read_sums sums = EITP__ZERO;
    eitp_status status = context && path ? eitp__variables_read(context, path, role, EITP__READ_LOAD, &sums, error)
                                         : eitp__fail_null(error, "eitp_variables_load", "context and path");
    if (!status && checksum)
        *checksum = sums.tensors;
    return status;
}
