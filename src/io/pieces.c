#include "io/pieces.h"

/* Moved at a time. */
#define EITP__PIECE_BUFFER ((int64_t)1 << 18)

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
    int count = 1, last = variable->rank - 1, is_transposed = 0;
    memset(pieces, 0, EITP__PIECES * sizeof *pieces);
    if (eitp__has_pieces(config) && eitp__parameter_find(config, variable->name, &parameter)) {
        count = eitp__parameter_pieces(&parameter);
        is_transposed = parameter.row->is_transposed && variable->rank == 2;
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
        piece->shape[last] /= count;
        piece->column = i * piece->shape[last];
        if (is_transposed) {
            piece->shape[1] = variable->shape[0];
            piece->shape[0] = variable->shape[1] / count;
        }
    }
    return count;
}

/* A piece on its way: rows of the tensor in the file, and as many elements of a row of the variable. */
typedef struct eitp__piece_move {
    eitp_context *context;
    const eitp_variable *variable;
    const eitp__piece *piece;
    int64_t rows, length; /* of the tensor */
    int64_t most;         /* rows at a time */
    float *values, *line;
    eitp_host host;
    size_t bytes;
} eitp__piece_move;

static eitp_status eitp__piece_begin(eitp__piece_move *move, eitp_context *context, const eitp_variable *variable,
                                     const eitp__piece *piece, eitp_error *error) {
    move->context = context;
    move->variable = variable;
    move->piece = piece;
    move->host = eitp_context_host(context);
    move->rows = piece->rank > 1 ? piece->shape[0] : 1;
    move->length = piece->shape[piece->rank - 1];
    move->most = move->length < EITP__PIECE_BUFFER ? EITP__PIECE_BUFFER / move->length : 1;
    move->most = move->most < move->rows ? move->most : move->rows;
    move->bytes = (size_t)(move->most * (move->length + 1)) * sizeof *move->values;
    move->values = (float *)eitp__allocate_uninitialized(&move->host, move->bytes);
    if (!move->values)
        return eitp__fail_memory(error, move->bytes, "a part of a parameter");
    move->line = move->values + move->most * move->length;
    return EITP_OK;
}

static void eitp__piece_end(eitp__piece_move *move) {
    eitp__release(&move->host, move->values, move->bytes);
}

/* Exchanges `count` rows of the tensor, from `first` on, with the variable: writes it, or reads it. */
static eitp_status eitp__piece_exchange(const eitp__piece_move *move, int64_t first, int64_t count, int writes,
                                        eitp_error *error) {
    const eitp__piece *piece = move->piece;
    const char *name = move->variable->name;
    const int64_t stride = move->variable->shape[move->variable->rank - 1];
    const int64_t lines = piece->is_transposed ? move->length : count;
    const int64_t length = piece->is_transposed ? count : move->length;
    eitp_status status = EITP_OK;
    for (int64_t i = 0; i < lines && !status; i++) {
        int64_t at = piece->is_transposed ? i * stride + piece->column + first : (first + i) * stride + piece->column;
        float *line = piece->is_transposed ? move->line : move->values + i * length;
        for (int64_t k = 0; k < length && piece->is_transposed && writes; k++)
            line[k] = move->values[k * move->length + i];
        status = writes ? eitp_variable_write_f32(move->context, name, at, line, length, error)
                        : eitp_variable_read_f32(move->context, name, at, line, length, error);
        for (int64_t k = 0; k < length && piece->is_transposed && !writes; k++)
            move->values[k * move->length + i] = line[k];
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__piece_read(eitp_context *context, const eitp_variable *variable,
                                           const eitp__piece *piece, const eitp__safetensors *collection,
                                           const eitp__safetensors_entry *entry, int loads, uint32_t *checksum,
                                           eitp_error *error) {
    eitp__piece_move move = EITP__ZERO;
    eitp_status status = eitp__piece_begin(&move, context, variable, piece, error);
    for (int64_t first = 0; first < move.rows && !status; first += move.most) {
        int64_t count = move.rows - first < move.most ? move.rows - first : move.most;
        status = eitp__safetensors_read_f32(collection, entry, first * move.length, count * move.length, move.values,
                                            checksum, error);
        if (!status && loads)
            status = eitp__piece_exchange(&move, first, count, 1, error);
    }
    eitp__piece_end(&move);
    return status;
}

EITP__PRIVATE eitp_status eitp__piece_write(eitp_context *context, const eitp_variable *variable,
                                            const eitp__piece *piece, eitp__safetensors_writer *writer, size_t index,
                                            uint32_t *checksum, eitp_error *error) {
    eitp__piece_move move = EITP__ZERO;
    eitp_status status = eitp__piece_begin(&move, context, variable, piece, error);
    for (int64_t first = 0; first < move.rows && !status; first += move.most) {
        int64_t count = move.rows - first < move.most ? move.rows - first : move.most;
        status = eitp__piece_exchange(&move, first, count, 0, error);
        if (!status)
            status = eitp__safetensors_write_f32(writer, index, move.values, count * move.length, checksum, error);
    }
    eitp__piece_end(&move);
    return status;
}
