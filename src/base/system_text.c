#include "base/system_text.h"

#include "base/files.h"

/* The longest file is the list of mounts on a machine with many containers. */
#define EITP__SYSTEM_TEXT_LIMIT ((size_t)16 << 20)

EITP__PRIVATE eitp_status eitp__read_system_text(const eitp_host *host, const char *path, eitp__buffer *text,
                                                 eitp_error *error) {
    eitp_error cause;
    eitp_status status = eitp__read_file(host, path, EITP__SYSTEM_TEXT_LIMIT, text, &cause);
    if (status == EITP_ERROR_MEMORY)
        return eitp__fail(error, status, "%s", cause.message);
    if (status)
        eitp__buffer_add(text, "", 0);
    return text->failed ? eitp__fail_memory(error, 1, path) : EITP_OK;
}

EITP__PRIVATE int eitp__parse_bytes(const char *text, uint64_t *bytes) {
    uint64_t value = 0, unit = 1;
    text += strspn(text, " \t");
    if (*text < '0' || *text > '9')
        return 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return 0;
        value = value * 10 + digit;
    }
    if (!strncmp(text, " kB", 3)) {
        unit = 1024;
        text += 3;
    }
    if ((*text && *text != '\n') || value > UINT64_MAX / unit)
        return 0;
    *bytes = value * unit;
    return 1;
}

EITP__PRIVATE uint64_t eitp__find_bytes(const char *text, const char *name) {
    const size_t size = strlen(name);
    uint64_t bytes = 0;
    while (strncmp(text, name, size)) {
        text = strchr(text, '\n');
        if (!text)
            return 0;
        text++;
    }
    return eitp__parse_bytes(text + size, &bytes) ? bytes : 0;
}
