/* Fuzzes config.json, generation_config.json, adapter_config.json and trainer_state.json. The result must be an error,
   or a configuration within its bounds. */
#include "tests/support/everything.h"
#include "tests/support/one_file.h"

/* Weights are missing. */
static int find_json(void *user, const char *path, eitp_path_info *info) {
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

/* Label names are either refused, or written and read back. */
static void fuzz_labels(const eitp_host *host, const uint8_t *data, size_t size) {
    eitp_json_document *document;
    eitp__labels *labels = NULL;
    eitp__buffer text;
    eitp_error error;
    if (eitp_json_parse(host, (const char *)data, size, &document, &error))
        return;
    if (!eitp__labels_read(host, eitp_json_root(document), &labels, &error) && labels) {
        eitp__buffer_init(&text, host);
        eitp__labels_write(&text, labels);
        for (int64_t i = 0; i < labels->count; i++) {
            if (!labels->names[i])
                abort();
        }
        eitp__buffer_release(&text);
    }
    eitp__labels_release(labels);
    eitp_json_release(document);
}

/* Heads with an explicit width need not divide the model's width. The number of key heads divides the number of query
   heads. */
static void require_sizes(const eitp_transformer_config *config) {
    if (config->vocabulary < 1 || config->width < 1 || config->heads < 1 || config->layers < 1 ||
        config->layers > 1 << 14 || config->inner < 1 || config->positions < 1)
        abort();
    if (config->head_width < 0 || (!config->head_width && config->width % config->heads))
        abort();
    if (config->key_value_heads < 0 || (config->key_value_heads && config->heads % config->key_value_heads))
        abort();
    for (int64_t layer = 0; layer < config->layers; layer++) {
        const int64_t window = eitp__layer_sliding_window(config, layer);
        if (window && window != config->sliding_window)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    one_file one = {data, size};
    eitp_host host = one_file_host(&one);
    eitp_transformer_config config;
    eitp_checkpoint_info info;
    eitp_lora_config lora;
    eitp_latent_config latent;
    char base[20];
    eitp_error error;
    host.files.info = find_json;
    if (!eitp_transformer_config_read(&host, "config.json", &config, &error))
        require_sizes(&config);
    fuzz_labels(&host, data, size);
    if (!eitp_model_config_read(&host, "model", &config, &error)) {
        require_token_ids(&config.begin);
        require_token_ids(&config.end);
        require_token_ids(&config.padding);
    }
    if (!eitp__latent_read(&host, "model", &latent, &error) && latent.size &&
        (latent.size < 1 || latent.size > EITP__MAX_LATENT_SIZE || latent.input > EITP_LATENT_ADDED))
        abort();
    if (!eitp_checkpoint_read_info(&host, "checkpoint", &info, &error) &&
        (info.step < 0 || info.config.batch_size < 1 || info.rows < 1 || info.config.grad_accum < 1 ||
         (info.lora.rank && eitp__lora_config_check(&info.lora, NULL))))
        abort();
    if (!eitp_lora_config_read(&host, "adapter", NULL, &lora, base, sizeof base, &error) &&
        (eitp__lora_config_check(&lora, NULL) || strlen(base) >= sizeof base))
        abort();
    return 0;
}
