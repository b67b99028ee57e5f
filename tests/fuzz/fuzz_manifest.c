/* Fuzzes manifest.json. The result must be an error, or files within the checkpoint. The input is read both unchanged
   and with a valid checksum. */
#include "tests/support/everything.h"
#include "tests/support/one_file.h"

static void read_manifest(const char *data, size_t size) {
    one_file one = {data, size};
    const eitp_host host = one_file_host(&one);
    eitp__manifest manifest;
    eitp_error error;
    int exists;
    eitp__manifest_init(&manifest, &host, -1, 1);
    if (!eitp__manifest_read(&manifest, "checkpoint", &exists, &error)) {
        if (!exists || manifest.step < 0)
            abort();
        for (size_t i = 0; i < manifest.count; i++) {
            const char *name = manifest.names.data + manifest.files[i].name;
            if (!*name || *name == '/' || !strncmp(name, "../", 3) || strstr(name, "/../") || !strcmp(name, ".."))
                abort();
        }
    }
    eitp__manifest_release(&manifest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const eitp_host host = eitp_host_default();
    eitp__buffer text;
    read_manifest((const char *)data, size);
    eitp__buffer_init(&text, &host);
    eitp__buffer_add(&text, data, size);
    eitp__buffer_format(&text, "%08x\"\n}\n", (unsigned)eitp__crc32c(0, data, size));
    if (!text.failed)
        read_manifest(text.data, text.size);
    eitp__buffer_release(&text);
    return 0;
}
