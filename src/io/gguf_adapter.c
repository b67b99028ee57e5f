#include "io/gguf_adapter.h"
#include "io/gguf_model_keys.h"
#include "io/gguf_names.h"
#include "model/lora.h"
#include "model/transformer.h"

/* A matrix of an adapter: A is [rank, in], B is [out, rank]. */
typedef struct eitp__gguf_matrix {
    eitp__parameter parameter;
    int64_t paired_heads; /* heads whose rows of B are permuted; 0: none */
    char name[EITP__NAME_SIZE + 16];
} eitp__gguf_matrix;

/* Returns the piece of a row that starts at a column. */
static int eitp__gguf_piece_at(const eitp_transformer_config *config, const eitp__parameter_row *row, int64_t column) {
    int piece = 0;
    while (piece + 1 < EITP__PIECES && row->pieces[piece + 1] && eitp__piece_start(config, row, piece + 1) <= column)
        piece++;
    return piece;
}

/* Describes matrix `index` of the adapters. */
static eitp_status eitp__gguf_matrix_at(const eitp_model *model, const eitp__gguf_architecture *format, int64_t index,
                                        eitp__gguf_matrix *matrix, eitp_error *error) {
    const eitp_transformer_config *config = &model->config;
    char name[EITP__NAME_SIZE];
    int64_t column;
    const eitp__parameter added = eitp__lora_weight(config, &model->lora, index, &column);
    eitp__parameter weight; /* the same, with its layer */
    eitp__gguf_place place = EITP__ZERO;
    matrix->parameter = eitp__lora_parameter(config, &model->lora, index);
    place.row = added.row;
    place.layer = eitp__parameter_find(config, added.name, &weight) ? weight.layer : -1;
    place.piece = eitp__gguf_piece_at(config, added.row, column);
    if (place.layer < 0 || !eitp__gguf_tensor_name(eitp__architecture_of(config), &place, name, sizeof name))
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED, "a GGUF file cannot have the adapter '%s'",
                          matrix->parameter.name);
    snprintf(matrix->name, sizeof matrix->name, "%s.lora_%c", name, index % 2 ? 'b' : 'a');
    matrix->paired_heads = 0;
    if (index % 2 && format->permutes_heads && place.row->slot == EITP__ATTENTION_INPUT && place.piece < 2)
        matrix->paired_heads = place.piece ? eitp__key_value_heads(config) : config->heads;
    return EITP_OK;
}

/* The file has no member for the kind of scale: runners divide the stored alpha by the rank. */
static void eitp__gguf_put_adapter_keys(const eitp_model *model, const eitp__gguf_architecture *format,
                                        eitp__gguf_writer *writer) {
    const double scale = eitp__lora_scale(&model->lora);
    eitp__gguf_put_text(writer, "general.architecture", format->name, strlen(format->name));
    eitp__gguf_put_text(writer, "general.type", "adapter", 7);
    eitp__gguf_put_text(writer, "adapter.type", "lora", 4);
    eitp__gguf_put_f32(writer, "adapter.lora.alpha", (float)(scale * (double)model->lora.rank));
}

EITP__PRIVATE eitp_status eitp__gguf_put_adapter(const eitp_model *model, eitp__gguf_writer *writer,
                                                 eitp_error *error) {
    const int64_t count = eitp__lora_parameter_count(&model->config, &model->lora);
    const eitp__gguf_architecture *format;
    eitp_status status = eitp__gguf_check_config(&model->config, &format, error);
    if (!status && !count)
        status = eitp__fail(error, EITP_ERROR_ARGUMENT, "the model has no adapters");
    if (!status && model->lora.saved)
        status = eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                            "a GGUF file cannot have modules that were trained in full; export the whole model");
    if (status)
        return status;
    eitp__gguf_put_adapter_keys(model, format, writer);
    for (int64_t i = 0; i < count && !status; i++) {
        eitp__gguf_matrix matrix;
        status = eitp__gguf_matrix_at(model, format, i, &matrix, error);
        if (!status)
            status = eitp__gguf_put_tensor(writer, matrix.name, eitp__gguf_type_named("F32"), 2, matrix.parameter.shape,
                                           error);
    }
    return status;
}

/* Writes a matrix, the rows of B in the order of the rows of the weight in a file. */
static eitp_status eitp__gguf_write_matrix(const eitp_model *model, eitp__gguf_writer *writer, size_t tensor,
                                           const eitp__gguf_matrix *matrix, float *values, eitp_error *error) {
    const int64_t rows = matrix->parameter.shape[0], columns = matrix->parameter.shape[1];
    const int64_t width = matrix->paired_heads ? rows / matrix->paired_heads : 1, half = width / 2;
    eitp_status status =
        eitp_variable_read_f32(model->context, matrix->parameter.name, 0, values, rows * columns, error);
    for (int64_t row = 0; row < rows && !status; row++) {
        const int64_t within = row % width;
        const int64_t from = half ? row - within + within % 2 * half + within / 2 : row;
        status = eitp__gguf_write_values(writer, tensor, values + from * columns, columns, error);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__gguf_write_adapter(const eitp_model *model, eitp__gguf_writer *writer,
                                                   eitp_error *error) {
    const int64_t count = eitp__lora_parameter_count(&model->config, &model->lora);
    const eitp__gguf_architecture *format;
    eitp_status status = eitp__gguf_check_config(&model->config, &format, error);
    for (int64_t i = 0; i < count && !status; i++) {
        eitp__gguf_matrix matrix;
        size_t bytes;
        float *values;
        status = eitp__gguf_matrix_at(model, format, i, &matrix, error);
        if (status)
            return status;
        bytes = (size_t)eitp__parameter_elements(&matrix.parameter) * sizeof *values;
        values = (float *)eitp__allocate_uninitialized(&model->host, bytes);
        status = values ? eitp__gguf_write_matrix(model, writer, (size_t)i, &matrix, values, error)
                        : eitp__fail_memory(error, bytes, "an adapter");
        eitp__release(&model->host, values, bytes);
    }
    return status;
}
