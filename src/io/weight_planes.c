#include "io/weight_planes.h"
#include "base/convert.h"
#include "tensor/variable.h"

EITP__PRIVATE eitp_dtype eitp__lower_plane_dtype(eitp_dtype upper) {
    return upper == EITP_BF16 ? EITP_I16 : EITP_F32;
}

EITP__PRIVATE const char *eitp__lower_plane_prefix(eitp_dtype upper) {
    return upper == EITP_BF16 ? "remainder." : "master.";
}

EITP__PRIVATE const char *eitp__lower_plane_owner(const char *name) {
    static const eitp_dtype uppers[] = {EITP_BF16, EITP_F16};
    for (size_t i = 0; i < EITP__COUNT(uppers); i++) {
        const char *prefix = eitp__lower_plane_prefix(uppers[i]);
        if (!strncmp(name, prefix, strlen(prefix)))
            return name + strlen(prefix);
    }
    return NULL;
}

EITP__PRIVATE void eitp__keep_upper_plane(float *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint16_t upper;
        int16_t lower;
        eitp__split_bf16(values[i], &upper, &lower);
        values[i] = eitp__bf16_to_f32(upper);
    }
}

EITP__PRIVATE void eitp__keep_lower_plane(float *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint16_t upper;
        int16_t lower;
        eitp__split_bf16(values[i], &upper, &lower);
        memcpy((char *)values + i * sizeof lower, &lower, sizeof lower);
    }
}

EITP__PRIVATE void eitp__join_planes(float *values, const int16_t *lower, size_t count) {
    for (size_t i = 0; i < count; i++)
        values[i] = eitp__join_bf16((uint16_t)(eitp__bits_of_float(values[i]) >> 16), lower[i]);
}
