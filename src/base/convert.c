#include "base/convert.h"

EITP__PRIVATE int eitp__is_floating(eitp_dtype dtype) {
    return dtype == EITP_F32 || dtype == EITP_F64 || dtype == EITP_F16 || dtype == EITP_BF16;
}

EITP__PRIVATE void eitp__convert_to_f32(eitp_dtype dtype, const void *source, float *destination, size_t count) {
    const unsigned char *bytes = (const unsigned char *)source;
    if (dtype == EITP_F32) {
        if (count)
            memcpy(destination, source, count * sizeof *destination);
    } else if (dtype == EITP_F64) {
        for (size_t i = 0; i < count; i++) {
            double value;
            memcpy(&value, bytes + i * sizeof value, sizeof value);
            destination[i] = (float)value;
        }
    } else {
        for (size_t i = 0; i < count; i++) {
            uint16_t value;
            memcpy(&value, bytes + i * sizeof value, sizeof value);
            destination[i] = dtype == EITP_F16 ? eitp__f16_to_f32(value) : eitp__bf16_to_f32(value);
        }
    }
}

EITP__PRIVATE void eitp__convert_from_f32(eitp_dtype dtype, const float *source, void *destination, size_t count) {
    unsigned char *bytes = (unsigned char *)destination;
    if (dtype == EITP_F32) {
        if (count)
            memcpy(destination, source, count * sizeof *source);
    } else if (dtype == EITP_F64) {
        for (size_t i = 0; i < count; i++) {
            double value = (double)source[i];
            memcpy(bytes + i * sizeof value, &value, sizeof value);
        }
    } else {
        for (size_t i = 0; i < count; i++) {
            uint16_t value = dtype == EITP_F16 ? eitp__f32_to_f16(source[i]) : eitp__f32_to_bf16(source[i]);
            memcpy(bytes + i * sizeof value, &value, sizeof value);
        }
    }
}
