#include "command.h"

#include "output.h"

#include <stdarg.h>

int command_exit_code(eitp_status status) {
    switch (status) {
    case EITP_OK:
        return COMMAND_FINISHED;
    case EITP_ERROR_MEMORY:
        return COMMAND_NO_MEMORY;
    case EITP_ERROR_PRESSURE:
        return COMMAND_PRESSURE;
    case EITP_ERROR_NOT_FINITE:
        return COMMAND_NOT_FINITE;
    case EITP_ERROR_IO:
    case EITP_ERROR_INCONSISTENT:
    case EITP_ERROR_DEVICE:
        return COMMAND_IO;
    default:
        return COMMAND_WRONG;
    }
}

eitp_status command_fail(eitp_error *error, eitp_status status, const char *format, ...) {
    va_list arguments;
    error->status = status;
    error->system_code = 0;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return status;
}

static void *command_require(void *memory) {
    if (!memory) {
        output_error("out of memory; close other programs");
        exit(COMMAND_NO_MEMORY);
    }
    return memory;
}

void *command_allocate(size_t size) {
    return command_require(calloc(size ? size : 1, 1));
}

void *command_resize(void *memory, size_t size) {
    return command_require(realloc(memory, size ? size : 1));
}

char *command_copy(const char *text) {
    size_t size = strlen(text) + 1;
    return (char *)memcpy(command_allocate(size), text, size);
}

char *command_format(const char *format, ...) {
    va_list arguments;
    char *text;
    int length;
    va_start(arguments, format);
    length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    text = (char *)command_allocate((size_t)(length < 0 ? 0 : length) + 1);
    va_start(arguments, format);
    vsnprintf(text, (size_t)(length < 0 ? 0 : length) + 1, format, arguments);
    va_end(arguments);
    return text;
}
