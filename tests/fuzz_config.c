/* Fuzzes config.json, generation_config.json, adapter_config.json and trainer_state.json: an error, or a configuration
   within its bounds. */
#include "tests/everything.h"

/* A file system with one file under every name. */
typedef struct one_file {
    const uint8_t *data;
    size_t size;
} one_file;

static int one_open(void *user, const char *path, eitp_file_mode mode, void **file) {
    (void)path;
    *file = user;
    return mode == EITP_FILE_READ ? 0 : EROFS;
}

static int one_close(void *user, void *file) {
    (void)user;
    (void)file;
    return 0;
}

static int one_size(void *user, void *file, uint64_t *size) {
    (void)user;
    *size = ((const one_file *)file)->size;
    return 0;
}

static int one_read(void *user, void *file, uint64_t offset, void *data, size_t size, size_t *done) {
    const one_file *one = (const one_file *)file;
    (void)user;
    *done = offset < one->size ? one->size - (size_t)offset : 0;
    if (*done > size)
        *done = size;
    if (*done)
        memcpy(data, one->data + offset, *done);
    return 0;
}

/* Weights are missing. */
static int one_info(void *user, const char *path, eitp_path_info *info) {
    size_t length = strlen(path);
    memset(info, 0, sizeof *info);
    info->kind = length > 5 && !strcmp(path + length - 5, ".json") && !strstr(path, "safetensors") ? EITP_PATH_FILE
                                                                                                   : EITP_PATH_MISSING;
    info->size = ((const one_file *)user)->size;
    return 0;
}

static void require_token_ids(const eitp_token_ids *ids) {
    if (ids->count < 0 || ids->count > EITP_MAX_TOKEN_IDS)
        abort();
    for (int32_t i = 0; i < ids->count; i++) {
        if (ids->ids[i] < 0)
            abort();
    }
}

/* Names of labels are either refused or written and read back. */
static void fuzz_labels(const eitp_host *host, const uint8_t *data, size_t size) {
    eitp__json_document *document;
    eitp__labels *labels = NULL;
    eitp__buffer text;
    eitp_error error;
    if (eitp__json_parse(host, (const char *)data, size, &document, &error))
        return;
    if (!eitp__labels_read(host, eitp__json_root(document), &labels, &error) && labels) {
        eitp__buffer_init(&text, host);
        eitp__labels_write(&text, labels);
        for (int64_t i = 0; i < labels->count; i++) {
            if (!labels->names[i])
                abort();
        }
        eitp__buffer_release(&text);
    }
    eitp__labels_release(labels);
    eitp__json_release(document);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    eitp_host host = eitp_host_default();
    one_file one;
    eitp_transformer_config config;
    eitp_checkpoint_info info;
    eitp_lora_config lora;
    char base[20];
    eitp_error error;
    one.data = data;
    one.size = size;
    host.files.user = &one;
    host.files.open = one_open;
    host.files.close = one_close;
    host.files.size = one_size;
    host.files.read = one_read;
    host.files.info = one_info;
    if (!eitp_transformer_config_read(&host, "config.json", &config, &error) &&
        (config.vocabulary < 1 || config.width < 1 || config.heads < 1 || config.width % config.heads ||
         config.layers < 1 || config.layers > 1 << 14 || config.inner < 1 || config.positions < 1))
        abort();
    fuzz_labels(&host, data, size);
    if (!eitp_model_config_read(&host, "model", &config, &error)) {
        require_token_ids(&config.begin);
        require_token_ids(&config.end);
        require_token_ids(&config.padding);
    }
    if (!eitp_checkpoint_read_info(&host, "checkpoint", &info, &error) &&
        (info.step < 0 || info.config.batch_size < 1 || info.rows < 1 || info.config.grad_accum < 1 ||
         (info.lora.rank && eitp__lora_config_check(&info.lora, NULL))))
        abort();
    if (!eitp_lora_config_read(&host, "adapter", &lora, base, sizeof base, &error) &&
        (eitp__lora_config_check(&lora, NULL) || strlen(base) >= sizeof base))
        abort();
    return 0;
}
