/* Formats one line and passes it to the host's log callback, if there is one. */
#ifndef EITP_LOG_H
#define EITP_LOG_H

#include "base/platform.h"

EITP__PRIVATE void eitp__log_line(const eitp_host *host, eitp_log_level level, const char *format, ...)
    EITP__PRINTF(3, 4);

#endif
