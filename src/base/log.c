#include "base/log.h"

EITP__PRIVATE void eitp__log_line(const eitp_host *host, eitp_log_level level, const char *format, ...) {
    char message[1024];
    va_list arguments;
    if (!host->log.write)
        return;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    host->log.write(host->log.user, level, message);
}
