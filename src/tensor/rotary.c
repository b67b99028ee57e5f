/* Rotary position embeddings: the angles of each row. Composed of other ops. */
#include "tensor/op_rules.h"

eitp_rotary_config eitp_rotary_config_default(void) {
    eitp_rotary_config config = EITP__ZERO;
    config.theta = 10000;
    config.factor = 1;
    config.low_frequency_factor = 1;
    config.high_frequency_factor = 4;
    config.original_positions = 8192;
    return config;
}

EITP__PRIVATE eitp_status eitp__rotary_check(const eitp_rotary_config *config, eitp_error *error) {
    const double most = 1e12;
    eitp_status status =
        eitp__require(config->width >= 2 && config->width % 2 == 0 && config->width <= 1 << 16, error,
                      "the width of a rotary head is %lld; it must be even, and 2 to 65536", (long long)config->width);
    if (!status)
        status = eitp__require(config->theta > 0 && config->theta <= most, error,
                               "rotary theta is %g; it must be above 0 and at most %g", config->theta, most);
    if (!status)
        status = eitp__require(config->scaling >= EITP_ROTARY_UNSCALED && config->scaling <= EITP_ROTARY_LLAMA3, error,
                               "unknown rotary scaling %d", (int)config->scaling);
    if (!status)
        status = eitp__require(config->factor > 0 && config->factor <= most, error,
                               "the rotary factor is %g; it must be above 0 and at most %g", config->factor, most);
    if (status || config->scaling != EITP_ROTARY_LLAMA3)
        return status;
    return eitp__require(
        config->low_frequency_factor > 0 && config->high_frequency_factor > config->low_frequency_factor &&
            config->high_frequency_factor <= most && config->original_positions >= 1,
        error,
        "rotary frequency factors are %g and %g, and the original positions %lld; they must be above 0 "
        "and the second factor above the first",
        config->low_frequency_factor, config->high_frequency_factor, (long long)config->original_positions);
}

/* Returns x, F64, rounded to f32. */
static eitp_tensor *eitp__rounded_to_f32(eitp_tensor *x) {
    return eitp_cast(eitp_cast(x, EITP_F32), EITP_F64);
}

/* Returns the angle of each pair of elements for one position, F64 [width / 2]. Models are trained with angles computed
   in f32, so each step is rounded as in transformers. The angles in transformers may be off by a few units in the last
   place, which thousands of positions multiply. */
static eitp_tensor *eitp__frequencies(eitp_graph *graph, const eitp_rotary_config *config) {
    const double low = config->low_frequency_factor, high = config->high_frequency_factor, factor = config->factor;
    const double turns = (double)config->original_positions / 6.283185307179586; /* turns of a frequency of 1 */
    eitp_tensor *numbers = eitp_arange(graph, EITP_F64, config->width / 2), *frequencies, *kept;
    numbers = eitp__rounded_to_f32(eitp_affine(numbers, 2 / (double)config->width, 0));
    frequencies = eitp__rounded_to_f32(eitp_exp(eitp_affine(numbers, log(config->theta), 0)));
    frequencies = eitp__rounded_to_f32(eitp_divide(eitp__scalar_like(frequencies, 1), frequencies));
    if (config->scaling == EITP_ROTARY_LINEAR)
        return eitp_divide(frequencies, eitp__scalar_like(frequencies, factor));
    if (config->scaling != EITP_ROTARY_LLAMA3)
        return frequencies;
    /* The kept fraction is 1 for frequencies that turn more than `high` times, and 0 for those that turn less than
       `low` times. */
    kept = eitp_clamp(eitp_affine(frequencies, turns / (high - low), -low / (high - low)), 0, 1);
    return eitp_multiply(frequencies, eitp_affine(kept, 1 - 1 / factor, 1 / factor));
}

eitp_tensor *eitp_rotary(eitp_tensor *positions, const eitp_rotary_config *config) {
    eitp_graph *graph = eitp_tensor_graph(positions);
    int64_t column[2] = {0, 1};
    eitp_tensor *angles, *parts[2];
    eitp_error error;
    if (!positions || !config)
        return NULL;
    if (eitp__rotary_check(config, &error) ||
        eitp__require(positions->rank == 1 && positions->dtype == EITP_I32, &error, "positions must be i32 [n]")) {
        eitp__graph_fail(graph, EITP_ERROR_ARGUMENT, "rotary: %s", error.message);
        return NULL;
    }
    column[0] = positions->shape[0];
    angles = eitp__rounded_to_f32(eitp__frequencies(graph, config));
    angles = eitp__rounded_to_f32(eitp_multiply(eitp_reshape(eitp_cast(positions, EITP_F64), 2, column), angles));
    parts[0] = eitp_cast(eitp_cos(angles), EITP_F32);
    parts[1] = eitp_cast(eitp_sin(angles), EITP_F32);
    return eitp_stop_gradient(eitp_concat(parts, 2, 1));
}
