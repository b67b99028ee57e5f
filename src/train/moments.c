#include "train/moments.h"
#include "base/convert.h"
#include "base/memory.h"

/* Whole groups, moved at a time. */
enum { EITP__MOMENT_GROUPS = 256, EITP__MOMENT_PIECE = EITP__MOMENT_GROUPS * EITP__MOMENT_GROUP };

typedef struct eitp__moment_piece {
    float values[EITP__MOMENT_PIECE];
    float scales[EITP__MOMENT_GROUPS];
    uint8_t codes[EITP__MOMENT_PIECE];
} eitp__moment_piece;

/* One moment of a parameter: its variable, that of its scales, and the same in the file; scales only with 8 bits. */
typedef struct eitp__moment_source {
    eitp_context *context;
    const eitp__safetensors *collection;
    eitp_variable variable;
    char scale_name[256];
    int is_square; /* v, whose codes are of its root */
    const eitp__safetensors_entry *entry, *scales;
} eitp__moment_source;

static void eitp__unpack_piece(const eitp__moment_source *source, eitp__moment_piece *piece, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float scale = piece->scales[i / EITP__MOMENT_GROUP];
        piece->values[i] =
            source->is_square ? eitp__unpack_v(piece->codes[i], scale) : eitp__unpack_m((int8_t)piece->codes[i], scale);
    }
}

static void eitp__pack_piece(const eitp__moment_source *source, eitp__moment_piece *piece, int64_t count) {
    for (int64_t first = 0; first < count; first += EITP__MOMENT_GROUP) {
        int64_t end = first + EITP__MOMENT_GROUP < count ? first + EITP__MOMENT_GROUP : count;
        float largest = 0, scale;
        for (int64_t i = first; i < end; i++)
            largest = fmaxf(largest, source->is_square ? sqrtf(piece->values[i]) : fabsf(piece->values[i]));
        scale = piece->scales[first / EITP__MOMENT_GROUP] = largest > 0 ? eitp__moment_scale(largest) : 0;
        for (int64_t i = first; i < end; i++)
            piece->codes[i] = source->is_square ? eitp__pack_v(piece->values[i], scale, 0)
                                                : (uint8_t)eitp__pack_m(piece->values[i], scale, 0);
    }
}

static eitp_status eitp__read_piece(const eitp__moment_source *source, int64_t first, int64_t count,
                                    eitp__moment_piece *piece, eitp_error *error) {
    int64_t groups = (count + EITP__MOMENT_GROUP - 1) / EITP__MOMENT_GROUP;
    eitp_status status;
    if (!source->scales)
        return eitp__safetensors_read_f32(source->collection, source->entry, first, count, piece->values, NULL, error);
    status = eitp__safetensors_read(source->collection, source->entry, first, count, piece->codes, NULL, error);
    if (!status)
        status = eitp__safetensors_read_f32(source->collection, source->scales, first / EITP__MOMENT_GROUP, groups,
                                            piece->scales, NULL, error);
    if (!status)
        eitp__unpack_piece(source, piece, count);
    return status;
}

static eitp_status eitp__write_piece(const eitp__moment_source *source, int64_t first, int64_t count,
                                     eitp__moment_piece *piece, eitp_error *error) {
    int64_t groups = (count + EITP__MOMENT_GROUP - 1) / EITP__MOMENT_GROUP;
    eitp_status status;
    if (source->variable.dtype == EITP_F32)
        return eitp_variable_write_f32(source->context, source->variable.name, first, piece->values, count, error);
    eitp__pack_piece(source, piece, count);
    status =
        eitp_variable_write(source->context, source->variable.name, (size_t)first, piece->codes, (size_t)count, error);
    return status ? status
                  : eitp_variable_write_f32(source->context, source->scale_name, first / EITP__MOMENT_GROUP,
                                            piece->scales, groups, error);
}

static eitp_status eitp__check_source(const eitp__moment_source *source, const char *path, int64_t elements,
                                      eitp_error *error) {
    const eitp__safetensors_entry *entry = source->entry;
    eitp_dtype codes = source->is_square ? EITP_U8 : EITP_I8;
    int64_t there = 1;
    for (int i = 0; entry && i < entry->rank; i++)
        there *= entry->shape[i];
    if (!entry || there != elements)
        return eitp__fail(error, EITP_ERROR_FORMAT, "%s: there is no tensor '%s' of %lld elements", path,
                          source->variable.name, (long long)elements);
    if (source->scales && (entry->dtype != (int)codes || source->scales->rank != 1 ||
                           source->scales->shape[0] != (elements + EITP__MOMENT_GROUP - 1) / EITP__MOMENT_GROUP))
        return eitp__fail(error, EITP_ERROR_FORMAT, "%s: '%s' and its scales do not fit together", path, entry->name);
    return EITP_OK;
}

/* Converts one moment, "adamw.m.<name>" or "adamw.v.<name>". */
static eitp_status eitp__convert_moment(eitp__moment_source *source, const char *path, eitp__moment_piece *piece,
                                        eitp_error *error) {
    int64_t elements = (int64_t)(source->variable.size / eitp_dtype_size(source->variable.dtype)), piece_size;
    eitp_status status;
    source->is_square = source->variable.name[6] == 'v';
    snprintf(source->scale_name, sizeof source->scale_name, "adamw.%c_scale.%s", source->variable.name[6],
             source->variable.name + 8);
    source->entry = eitp__safetensors_find(source->collection, source->variable.name);
    source->scales = eitp__safetensors_find(source->collection, source->scale_name);
    status = eitp__check_source(source, path, elements, error);
    piece_size = EITP__MOMENT_PIECE;
    for (int64_t first = 0; first < elements && !status; first += piece_size) {
        int64_t count = elements - first < piece_size ? elements - first : piece_size;
        status = eitp__read_piece(source, first, count, piece, error);
        if (!status)
            status = eitp__write_piece(source, first, count, piece, error);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__moments_load(eitp_context *context, const char *path, eitp_error *error) {
    const eitp_host host = eitp_context_host(context);
    eitp__moment_piece *piece = (eitp__moment_piece *)eitp__allocate(&host, sizeof *piece);
    eitp__safetensors *collection = NULL;
    eitp_status status = piece ? eitp__safetensors_open(&host, path, &collection, error)
                               : eitp__fail_memory(error, sizeof *piece, "converting moments");
    for (size_t i = 0; i < eitp_variable_count(context) && !status; i++) {
        eitp__moment_source source = EITP__ZERO;
        source.context = context;
        source.collection = collection;
        source.variable = eitp_variable_at(context, i);
        if (!strncmp(source.variable.name, "adamw.m.", 8) || !strncmp(source.variable.name, "adamw.v.", 8))
            status = eitp__convert_moment(&source, path, piece, error);
    }
    if (collection)
        eitp__safetensors_close(collection);
    eitp__release(&host, piece, sizeof *piece);
    return status;
}
