#include "base/status.h"

static const char *const eitp__status_names[] = {
    "ok",         "bad argument", "bad content", "unsupported",    "out of memory",      "low memory",
    "not finite", "input/output", "interrupted", "internal error", "inconsistent state", "end of data",
};

const char *eitp_status_name(eitp_status status) {
    size_t index = (size_t)status;
    return index < EITP__COUNT(eitp__status_names) ? eitp__status_names[index] : "unknown status";
}

EITP__PRIVATE eitp_status eitp__fail(eitp_error *error, eitp_status status, const char *format, ...) {
    if (error) {
        va_list arguments;
        error->status = status;
        error->system_code = 0;
        va_start(arguments, format);
        vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__fail_memory(eitp_error *error, size_t size, const char *what) {
    char bytes[32];
    return eitp__fail(error, EITP_ERROR_MEMORY,
                      "cannot allocate %s for %s; free memory or choose a smaller model, batch or block size",
                      eitp_format_bytes(size, bytes, sizeof bytes), what);
}

EITP__PRIVATE eitp_status eitp__fail_null(eitp_error *error, const char *function, const char *arguments) {
    return eitp__fail(error, EITP_ERROR_ARGUMENT, "%s: %s must not be NULL", function, arguments);
}

/* Appends `addition` to the string in `text`, truncated to `capacity`. */
static void eitp__append(char *text, size_t capacity, const char *addition) {
    size_t length = strlen(text), room = capacity - 1 - length, added = strlen(addition);
    if (added > room)
        added = room;
    memcpy(text + length, addition, added);
    text[length + added] = 0;
}

EITP__PRIVATE eitp_status eitp__fail_prefix(eitp_error *error, eitp_status status, const char *format, ...) {
    if (error) {
        char message[sizeof error->message];
        va_list arguments;
        memcpy(message, error->message, sizeof message);
        va_start(arguments, format);
        vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
        eitp__append(error->message, sizeof error->message, ": ");
        eitp__append(error->message, sizeof error->message, message);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__fail_advice(eitp_error *error, eitp_status status, const char *advice) {
    if (error) {
        eitp__append(error->message, sizeof error->message, "; ");
        eitp__append(error->message, sizeof error->message, advice);
    }
    return status;
}

EITP__PRIVATE void eitp__error_clear(eitp_error *error) {
    if (error) {
        error->status = EITP_OK;
        error->system_code = 0;
        error->message[0] = 0;
    }
}

EITP__PRIVATE eitp_status eitp__error_complete(eitp_error *error, eitp_status status, const char *format, ...) {
    if (!status || !error)
        return status;
    error->status = status;
    if (!error->message[0]) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
    }
    return status;
}

const char *eitp_format_bytes(uint64_t bytes, char *text, size_t size) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double amount = (double)bytes;
    size_t unit = 0;
    for (; amount >= 999.95 && unit + 1 < EITP__COUNT(units); unit++)
        amount /= 1000;
    snprintf(text, size, unit ? "%.1f %s" : "%.0f %s", amount, units[unit]);
    return text;
}

EITP__PRIVATE uint64_t eitp__round_bytes(uint64_t bytes, int up) {
    uint64_t step = 1;
    for (uint64_t unit = 1000; bytes >= unit && unit <= 1000000000000u; unit *= 1000)
        step = unit / 10;
    return (bytes + (up ? step - 1 : 0)) / step * step;
}
