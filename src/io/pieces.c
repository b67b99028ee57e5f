#include "io/pieces.h"

#include "tensor/context.h"

#define EITP__PIECE_BUFFER ((int64_t)1 << 18) /* elements copied at a time */

EITP__PRIVATE int eitp__has_pieces(const eitp_transformer_config *config) {
    const eitp_architecture *architecture = config ? eitp__architecture_of(config) : NULL;
    for (size_t i = 0; architecture && i < architecture->row_count; i++) {
        if (architecture->rows[i].is_transposed || architecture->rows[i].pieces[0])
            return 1;
    }
    return 0;
}

EITP__PRIVATE int eitp__variable_pieces(const eitp_variable *variable, const eitp_transformer_config *config,
                                        eitp__piece pieces[EITP__PIECES]) {
    eitp__parameter parameter;
    const char *copy = NULL;
    int count = 1, last = variable->rank - 1, is_transposed = 0;
    memset(pieces, 0, EITP__PIECES * sizeof *pieces);
    if (eitp__has_pieces(config) && eitp__parameter_find(config, variable->name, &parameter)) {
        count = eitp__parameter_pieces(&parameter);
        is_transposed = parameter.row->is_transposed && variable->rank == 2;
        copy = parameter.row->copy;
        for (int i = 0; i < count; i++)
            eitp__parameter_piece_name(&parameter, i, pieces[i].name, sizeof pieces[i].name);
    }
    for (int i = 0; i < count; i++) {
        eitp__piece *piece = &pieces[i];
        piece->rank = variable->rank;
        memcpy(piece->shape, variable->shape, sizeof piece->shape);
        piece->is_whole = count == 1 && !is_transposed;
        piece->is_transposed = is_transposed;
        if (piece->is_whole)
            continue;
        piece->shape[last] = eitp__piece_columns(config, parameter.row, i);
        piece->column = eitp__piece_start(config, parameter.row, i);
        if (is_transposed) {
            piece->shape[0] = piece->shape[last];
            piece->shape[1] = variable->shape[0];
        }
    }
    if (copy) {
        pieces[count] = pieces[0];
        pieces[count].is_copy = 1;
        snprintf(pieces[count++].name, sizeof pieces[0].name, "%s", copy);
    }
    return count;
}

EITP__PRIVATE int eitp__saved_pieces(const eitp_variable *variable, const eitp_transformer_config *config,
                                     unsigned saved, eitp__piece pieces[EITP__PIECES]) {
    int count = eitp__variable_pieces(variable, config, pieces);
    eitp__parameter parameter;
    if (!(saved & EITP_LORA_SAVES_EMBEDDING) || !eitp__is_tied(config) ||
        !eitp__parameter_find(config, variable->name, &parameter) || parameter.row->slot != EITP__TOKEN_EMBEDDING)
        return count;
    pieces[count] = pieces[0];
    pieces[count].is_copy = 1;
    snprintf(pieces[count++].name, sizeof pieces[0].name, "lm_head.weight");
    return count;
}

/* The state of copying a piece: rows of the tensor in the file, and a line of the variable. */
typedef struct eitp__piece_copy {
    eitp_context *context;
    const eitp_variable *variable;
    const eitp__piece *piece;
    int64_t rows, length; /* of the tensor */
    int64_t rows_at_once;
    float *values; /* [rows_at_once, length] */
    float *line;   /* of the variable, for transposing */
    eitp_host host;
    size_t bytes;
} eitp__piece_copy;

static eitp_status eitp__piece_begin(eitp__piece_copy *copy, eitp_context *context, const eitp_variable *variable,
                                     const eitp__piece *piece, eitp_error *error) {
    copy->context = context;
    copy->variable = variable;
    copy->piece = piece;
    copy->host = eitp_context_host(context);
    copy->rows = piece->rank > 1 ? piece->shape[0] : 1;
    copy->length = piece->shape[piece->rank - 1];
    copy->rows_at_once = copy->length < EITP__PIECE_BUFFER ? EITP__PIECE_BUFFER / copy->length : 1;
    copy->rows_at_once = copy->rows_at_once < copy->rows ? copy->rows_at_once : copy->rows;
    copy->bytes = (size_t)(copy->rows_at_once * (copy->length + 1)) * sizeof *copy->values;
    copy->values = (float *)eitp__allocate_uninitialized(&copy->host, copy->bytes);
    if (!copy->values)
        return eitp__fail_memory(error, copy->bytes, "a part of a parameter");
    copy->line = copy->values + copy->rows_at_once * copy->length;
    return EITP_OK;
}

static void eitp__piece_end(eitp__piece_copy *copy) {
    eitp__release(&copy->host, copy->values, copy->bytes);
}

/* Copies `count` rows of the tensor, from `first` on, to the variable, or from it. */
static eitp_status eitp__piece_copy_rows(const eitp__piece_copy *copy, int64_t first, int64_t count, int writes,
                                         eitp_error *error) {
    const eitp__piece *piece = copy->piece;
    const char *name = copy->variable->name;
    const int64_t stride = copy->variable->shape[copy->variable->rank - 1];
    const int64_t lines = piece->is_transposed ? copy->length : count;
    const int64_t length = piece->is_transposed ? count : copy->length;
    eitp_status status = EITP_OK;
    for (int64_t i = 0; i < lines && !status; i++) {
        int64_t at = piece->is_transposed ? i * stride + piece->column + first : (first + i) * stride + piece->column;
        float *line = piece->is_transposed ? copy->line : copy->values + i * length;
        for (int64_t k = 0; k < length && piece->is_transposed && writes; k++)
            line[k] = copy->values[k * copy->length + i];
        status = writes ? eitp_variable_write_f32(copy->context, name, at, line, length, error)
                        : eitp_variable_read_f32(copy->context, name, at, line, length, error);
        for (int64_t k = 0; k < length && piece->is_transposed && !writes; k++)
            copy->values[k * copy->length + i] = line[k];
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__piece_read(eitp_context *context, const eitp_variable *variable,
                                           const eitp__piece *piece, const eitp__safetensors *collection,
                                           const eitp__safetensors_entry *entry, int loads, uint32_t *checksum,
                                           eitp_error *error) {
    eitp__piece_copy copy = EITP__ZERO;
    eitp_status status = eitp__piece_begin(&copy, context, variable, piece, error);
    for (int64_t first = 0; first < copy.rows && !status; first += copy.rows_at_once) {
        int64_t count = copy.rows - first < copy.rows_at_once ? copy.rows - first : copy.rows_at_once;
        status = eitp__context_poll(context, error);
        if (!status)
            status = eitp__safetensors_read_f32(collection, entry, first * copy.length, count * copy.length,
                                                copy.values, checksum, error);
        if (!status && loads)
            status = eitp__piece_copy_rows(&copy, first, count, 1, error);
    }
    eitp__piece_end(&copy);
    return status;
}

/* Reads the columns from `low` to `high` of a block, each of which is part of a row of the transposed tensor. */
static eitp_status eitp__piece_read_columns(const eitp__piece *piece, const eitp__safetensors *collection,
                                            const eitp__safetensors_entry *entry, const eitp__block *block, int64_t low,
                                            int64_t high, float *values, eitp_error *error) {
    float line[1024];
    const int64_t most = (int64_t)EITP__COUNT(line);
    eitp_status status = EITP_OK;
    for (int64_t column = low; column < high; column++) {
        for (int64_t done = 0; done < block->rows && !status; done += most) {
            const int64_t count = block->rows - done < most ? block->rows - done : most;
            const int64_t at = (column - piece->column) * piece->shape[1] + block->row + done;
            status = eitp__safetensors_read_f32(collection, entry, at, count, line, NULL, error);
            for (int64_t i = 0; i < count && !status; i++)
                values[(done + i) * block->columns + column - block->column] = line[i];
        }
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__piece_read_block(const eitp_variable *variable, const eitp__piece *piece,
                                                 const eitp__safetensors *collection,
                                                 const eitp__safetensors_entry *entry, const eitp__block *block,
                                                 float *values, eitp_error *error) {
    const int64_t length = variable->shape[variable->rank - 1];
    const int64_t own = piece->is_transposed ? piece->shape[0] : piece->shape[piece->rank - 1];
    const int64_t end = block->column + block->columns;
    const int64_t low = block->column > piece->column ? block->column : piece->column;
    const int64_t high = end < piece->column + own ? end : piece->column + own;
    eitp_status status = EITP_OK;
    if (piece->is_whole)
        return eitp__safetensors_read_f32(collection, entry, block->row * length + block->column,
                                          block->rows * block->columns, values, NULL, error);
    if (piece->is_transposed)
        return eitp__piece_read_columns(piece, collection, entry, block, low, high, values, error);
    for (int64_t i = 0; i < block->rows && low < high && !status; i++)
        status = eitp__safetensors_read_f32(collection, entry, (block->row + i) * own + low - piece->column, high - low,
                                            values + i * block->columns + low - block->column, NULL, error);
    return status;
}

EITP__PRIVATE eitp_status eitp__piece_read_rows(eitp_context *context, const eitp_variable *variable,
                                                const eitp__piece *piece, int64_t first, int64_t count, float *values,
                                                eitp_error *error) {
    const eitp_host host = eitp_context_host(context);
    const size_t bytes = piece->is_transposed ? (size_t)count * sizeof *values : 0;
    eitp__piece_copy copy = EITP__ZERO;
    eitp_status status;
    copy.context = context;
    copy.variable = variable;
    copy.piece = piece;
    copy.length = piece->shape[piece->rank - 1];
    copy.values = values;
    copy.line = (float *)eitp__allocate_uninitialized(&host, bytes);
    if (bytes && !copy.line)
        return eitp__fail_memory(error, bytes, "a part of a parameter");
    status = eitp__piece_copy_rows(&copy, first, count, 0, error);
    eitp__release(&host, copy.line, bytes);
    return status;
}

EITP__PRIVATE eitp_status eitp__piece_write(eitp_context *context, const eitp_variable *variable,
                                            const eitp__piece *piece, eitp__plane plane,
                                            eitp__safetensors_writer *writer, size_t index, uint32_t *checksum,
                                            eitp_error *error) {
    eitp__piece_copy copy = EITP__ZERO;
    eitp_status status = eitp__piece_begin(&copy, context, variable, piece, error);
    for (int64_t first = 0; first < copy.rows && !status; first += copy.rows_at_once) {
        int64_t count = copy.rows - first < copy.rows_at_once ? copy.rows - first : copy.rows_at_once;
        status = eitp__piece_copy_rows(&copy, first, count, 0, error);
        if (!status)
            status =
                eitp__safetensors_write_plane(writer, index, plane, copy.values, count * copy.length, checksum, error);
    }
    eitp__piece_end(&copy);
    return status;
}
