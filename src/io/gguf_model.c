#include "io/gguf_model.h"
#include "io/gguf_model_keys.h"
#include "io/gguf_names.h"
#include "io/pieces.h"
#include "model/decoder_config.h"
#include "model/transformer.h"

#define EITP__GGUF_CHUNK ((int64_t)1 << 18) /* elements read at a time */

/* ---- Types ---- */

static const eitp__gguf_mix eitp__gguf_mixes[] = {
    {"f32", 0, "F32", "F32", "F32"},     {"f16", 1, "F16", "F16", "F16"},     {"bf16", 32, "BF16", "BF16", "BF16"},
    {"q8_0", 7, "Q8_0", "Q8_0", "Q8_0"}, {"q4_0", 2, "Q4_0", "Q6_K", "Q4_0"}, {"q4_k_m", 15, "Q4_K", "Q6_K", "Q6_K"},
};

EITP__PRIVATE const eitp__gguf_mix *eitp__gguf_mix_named(const char *name, const char **names) {
    if (names)
        *names = "f32, f16, bf16, q8_0, q4_0, q4_k_m";
    for (size_t i = 0; i < EITP__COUNT(eitp__gguf_mixes) && name; i++) {
        if (!strcmp(eitp__gguf_mixes[i].name, name))
            return &eitp__gguf_mixes[i];
    }
    return NULL;
}

/* Returns a type whose blocks divide a row: `name`, or the one that llama-quantize falls back to. */
static const eitp__gguf_type *eitp__gguf_fit_type(const char *name, int64_t row) {
    static const char *const smaller[][2] = {{"Q4_K", "Q5_0"}, {"Q6_K", "Q8_0"}};
    const eitp__gguf_type *type = eitp__gguf_type_named(name);
    for (size_t i = 0; i < EITP__COUNT(smaller); i++) {
        if (row % type->values && !strcmp(type->name, smaller[i][0]))
            type = eitp__gguf_type_named(smaller[i][1]);
    }
    return row % type->values ? eitp__gguf_type_named("F16") : type;
}

/* True in the layers for which llama-quantize takes more bits: the first and last eighth, and every third between. */
static int eitp__gguf_is_better_layer(int64_t layer, int64_t layers) {
    return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

/* Chooses the type of a tensor with rows of `row` elements. */
static const eitp__gguf_type *eitp__gguf_choose_type(const eitp_transformer_config *config, const eitp__gguf_mix *mix,
                                                     const eitp__gguf_place *place, int rank, int64_t row) {
    const eitp__model_slot slot = place->row->slot;
    const int has_head = eitp__has_slot(config, EITP__HEAD, EITP__WEIGHT) && !config->bidirectional;
    if (rank < 2 || slot == EITP__POSITION_EMBEDDING || slot == EITP__SEGMENT_EMBEDDING)
        return eitp__gguf_type_named("F32");
    if (slot == EITP__HEAD || (slot == EITP__TOKEN_EMBEDDING && !has_head))
        return eitp__gguf_fit_type(row % eitp__gguf_type_named(mix->matrix)->values ? "Q8_0" : mix->head, row);
    /* A matrix of queries, keys and values counts as values. */
    if ((slot == EITP__MLP_OUTPUT ||
         (slot == EITP__ATTENTION_INPUT && (place->piece == 2 || !place->row->pieces[0]))) &&
        eitp__gguf_is_better_layer(place->layer, config->layers))
        return eitp__gguf_fit_type(mix->better, row);
    return eitp__gguf_fit_type(mix->matrix, row);
}

/* ---- Tensors ---- */

/* A tensor of the file, and the part of a variable that it has. */
typedef struct eitp__gguf_part {
    eitp_variable variable;
    eitp__piece piece;
    eitp__gguf_place place;
    int64_t first;        /* row of the piece that the file starts with */
    int64_t paired_heads; /* heads whose rows are permuted; 0: none */
    float added;
    char name[EITP__NAME_SIZE];
} eitp__gguf_part;

typedef eitp_status (*eitp__gguf_visit)(void *user, const eitp__gguf_part *part, eitp_error *error);

/* Describes one piece of a parameter. Returns 0 if the format leaves it out. */
static int eitp__gguf_describe(const eitp_transformer_config *config, const eitp__gguf_architecture *format,
                               const eitp__parameter *parameter, const eitp__piece *piece, int index,
                               eitp__gguf_part *part) {
    const int is_headless = config->bidirectional && parameter->row->place == EITP__IN_HEAD;
    memset(part->name, 0, sizeof part->name);
    part->piece = *piece;
    part->place.row = parameter->row;
    part->place.piece = index;
    part->place.layer = parameter->layer;
    part->first = parameter->row->slot == EITP__POSITION_EMBEDDING ? config->first_position : 0;
    part->added = format->adds_one && eitp__gguf_is_norm(parameter->row) ? 1 : 0;
    part->paired_heads = 0;
    if (format->permutes_heads && parameter->row->slot == EITP__ATTENTION_INPUT && index < 2)
        part->paired_heads = index ? eitp__key_value_heads(config) : config->heads;
    if (eitp__gguf_is_transposed(parameter->row)) {
        part->piece.is_whole = 0;
        part->piece.is_transposed = 1;
        part->piece.shape[0] = piece->shape[1];
        part->piece.shape[1] = piece->shape[0];
    }
    return !piece->is_copy && !is_headless &&
           eitp__gguf_tensor_name(eitp__architecture_of(config), &part->place, part->name, sizeof part->name);
}

/* Visits the tensors of the file in their order. */
static eitp_status eitp__gguf_each_part(const eitp_model *model, const eitp__gguf_architecture *format,
                                        eitp__gguf_visit visit, void *user, eitp_error *error) {
    const eitp_transformer_config *config = &model->config;
    eitp_status status = EITP_OK;
    for (int64_t i = 0; i < eitp__parameter_count(config) && !status; i++) {
        const eitp__parameter parameter = eitp__parameter_at(config, i);
        eitp__piece pieces[EITP__PIECES];
        eitp__gguf_part part;
        int count;
        part.variable = eitp_variable_at(model->context, (size_t)eitp_variable_find(model->context, parameter.name));
        count = eitp__variable_pieces(&part.variable, config, pieces);
        for (int k = 0; k < count && !status; k++) {
            if (eitp__gguf_describe(config, format, &parameter, &pieces[k], k, &part))
                status = visit(user, &part, error);
        }
    }
    return status;
}

static int64_t eitp__gguf_part_rows(const eitp__gguf_part *part) {
    return part->piece.rank > 1 ? part->piece.shape[0] : 1;
}

/* ---- The list of tensors ---- */

typedef struct eitp__gguf_listing {
    const eitp_transformer_config *config;
    const eitp__gguf_mix *mix;
    eitp__gguf_writer *writer;
} eitp__gguf_listing;

static eitp_status eitp__gguf_list_part(void *user, const eitp__gguf_part *part, eitp_error *error) {
    const eitp__gguf_listing *listing = (const eitp__gguf_listing *)user;
    const int rank = part->piece.rank;
    int64_t shape[2] = {part->piece.shape[0], rank > 1 ? part->piece.shape[1] : 0};
    shape[0] -= rank > 1 ? part->first : 0;
    return eitp__gguf_put_tensor(
        listing->writer, part->name,
        eitp__gguf_choose_type(listing->config, listing->mix, &part->place, rank, shape[rank - 1]), rank, shape, error);
}

EITP__PRIVATE eitp_status eitp__gguf_put_model(const eitp_model *model, const eitp__gguf_mix *mix,
                                               eitp__gguf_writer *writer, eitp_error *error) {
    const eitp_rotary_config rotary = eitp__config_rotary(&model->config, 0);
    const int64_t half = rotary.width / 2;
    const eitp__gguf_architecture *format;
    eitp__gguf_listing listing = EITP__ZERO;
    eitp_status status = model->latent ? eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                                                    "a model with a latent variable cannot be exported as GGUF")
                                       : eitp__gguf_check_config(&model->config, &format, error);
    if (status)
        return status;
    eitp__gguf_put_config(&model->config, format, writer);
    eitp__gguf_put_integer(writer, "general.file_type", EITP__GGUF_U32, mix->file_type);
    eitp__gguf_put_integer(writer, "general.quantization_version", EITP__GGUF_U32, 2);
    listing.config = &model->config;
    listing.mix = mix;
    listing.writer = writer;
    status = eitp__gguf_each_part(model, format, eitp__gguf_list_part, &listing, error);
    if (!status && rotary.scaling == EITP_ROTARY_LLAMA3)
        status = eitp__gguf_put_tensor(writer, "rope_freqs.weight", eitp__gguf_type_named("F32"), 1, &half, error);
    return status;
}

/* ---- Values ---- */

typedef struct eitp__gguf_writing {
    const eitp_model *model;
    eitp__gguf_writer *writer;
    size_t tensor; /* number of the next one */
    float *values, *ordered;
    int64_t capacity; /* elements of each */
} eitp__gguf_writing;

/* Copies rows of whole heads so that the two of each rotary pair are neighbours. */
static void eitp__gguf_pair_rows(const float *values, float *ordered, int64_t rows, int64_t length, int64_t width) {
    for (int64_t row = 0; row < rows; row++) {
        const int64_t within = row % width, half = width / 2;
        const int64_t to = row - within + within % half * 2 + within / half;
        memcpy(ordered + to * length, values + row * length, (size_t)length * sizeof *values);
    }
}

/* Writes `count` rows of a tensor. */
static eitp_status eitp__gguf_write_part_rows(eitp__gguf_writing *writing, const eitp__gguf_part *part, int64_t first,
                                              int64_t count, eitp_error *error) {
    const int is_vector = part->piece.rank < 2;
    const int64_t length = part->piece.shape[part->piece.rank - 1], elements = count * length;
    const float *values = writing->values;
    eitp_status status = eitp__piece_read_rows(writing->model->context, &part->variable, &part->piece, first, count,
                                               writing->values, error);
    if (status)
        return status;
    for (int64_t i = 0; i < elements && part->added > 0; i++)
        writing->values[i] += part->added;
    if (part->paired_heads) {
        const int64_t rows = is_vector ? length : part->piece.shape[0];
        eitp__gguf_pair_rows(writing->values, writing->ordered, is_vector ? length : count, is_vector ? 1 : length,
                             rows / part->paired_heads);
        values = writing->ordered;
    }
    return eitp__gguf_write_values(writing->writer, writing->tensor, values, elements, error);
}

/* Makes room for at least one row, or one head, of every tensor. */
static eitp_status eitp__gguf_make_room(eitp__gguf_writing *writing, int64_t elements, eitp_error *error) {
    const eitp_host *host = &writing->model->host;
    if (elements <= writing->capacity)
        return EITP_OK;
    eitp__release(host, writing->values, 2 * (size_t)writing->capacity * sizeof *writing->values);
    writing->values = (float *)eitp__allocate_uninitialized(host, 2 * (size_t)elements * sizeof *writing->values);
    writing->capacity = writing->values ? elements : 0;
    writing->ordered = writing->values + writing->capacity;
    return writing->values
               ? EITP_OK
               : eitp__fail_memory(error, 2 * (size_t)elements * sizeof *writing->values, "a part of a parameter");
}

static eitp_status eitp__gguf_write_part(void *user, const eitp__gguf_part *part, eitp_error *error) {
    eitp__gguf_writing *writing = (eitp__gguf_writing *)user;
    const int64_t rows = eitp__gguf_part_rows(part), length = part->piece.shape[part->piece.rank - 1];
    const int64_t step = part->paired_heads && part->piece.rank > 1 ? rows / part->paired_heads : 1;
    int64_t at_once = EITP__GGUF_CHUNK / length / step * step;
    eitp_status status;
    at_once = at_once < step ? step : at_once > rows ? rows : at_once;
    status = eitp__gguf_make_room(writing, at_once * length, error);
    for (int64_t first = part->piece.rank > 1 ? part->first : 0; first < rows && !status; first += at_once)
        status =
            eitp__gguf_write_part_rows(writing, part, first, rows - first < at_once ? rows - first : at_once, error);
    writing->tensor++;
    return status;
}

/* Writes the divisors of rotary frequencies. */
static eitp_status eitp__gguf_write_divisors(eitp__gguf_writing *writing, const eitp_rotary_config *rotary,
                                             eitp_error *error) {
    const eitp__gguf_llama3 scaling = {rotary->theta,
                                       (double)rotary->width,
                                       rotary->factor,
                                       rotary->low_frequency_factor,
                                       rotary->high_frequency_factor,
                                       (double)rotary->original_positions};
    eitp_status status = EITP_OK;
    for (int64_t i = 0; i < rotary->width / 2 && !status; i++) {
        const float divisor = (float)eitp__gguf_llama3_divisor(&scaling, i);
        status = eitp__gguf_write_values(writing->writer, writing->tensor, &divisor, 1, error);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__gguf_write_weights(const eitp_model *model, eitp__gguf_writer *writer,
                                                   eitp_error *error) {
    const eitp_rotary_config rotary = eitp__config_rotary(&model->config, 0);
    const eitp__gguf_architecture *format;
    eitp__gguf_writing writing = EITP__ZERO;
    eitp_status status = eitp__gguf_check_config(&model->config, &format, error);
    writing.model = model;
    writing.writer = writer;
    if (!status)
        status = eitp__gguf_each_part(model, format, eitp__gguf_write_part, &writing, error);
    if (!status && rotary.scaling == EITP_ROTARY_LLAMA3)
        status = eitp__gguf_write_divisors(&writing, &rotary, error);
    eitp__release(&model->host, writing.values, 2 * (size_t)writing.capacity * sizeof *writing.values);
    return status;
}
