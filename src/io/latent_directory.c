#include "io/latent_directory.h"
#include "gguf/model_json.h"

#include "base/files.h"
#include "base/json.h"
#include "model/transformer.h"

/* The model_type of config.json, and its names for eitp_latent_input. */
#define EITP__LATENT_TYPE "vae"
#define EITP__LATENT_CONFIG_LIMIT ((size_t)1 << 26) /* bytes */
static const char *const eitp__latent_inputs[] = {"prefix", "added"};

static eitp_status eitp__latent_parse(const eitp_json *root, eitp_latent_config *config, eitp_error *error) {
    const char *type = "", *input = eitp__latent_inputs[EITP_LATENT_PREFIX];
    int at = 0;
    eitp_status status = eitp__json_get_text(root, "model_type", &type, error);
    config->size = 0;
    if (status || strcmp(type, EITP__LATENT_TYPE) != 0)
        return status;
    status = eitp__json_get_integer(root, "latent_size", 1, EITP__MAX_LATENT_SIZE, &config->size, error);
    if (!status && !config->size)
        status = eitp__fail(error, EITP_ERROR_FORMAT, "'latent_size' is missing");
    if (!status)
        status = eitp__json_get_text(root, "latent_input", &input, error);
    while (at < (int)EITP__COUNT(eitp__latent_inputs) && strcmp(eitp__latent_inputs[at], input) != 0)
        at++;
    config->input = (eitp_latent_input)at;
    if (!status && at == (int)EITP__COUNT(eitp__latent_inputs))
        status =
            eitp__fail(error, EITP_ERROR_FORMAT, "unknown latent_input '%.60s' (choose from prefix, added)", input);
    return status;
}

EITP__PRIVATE eitp_status eitp__latent_read(const eitp_host *host, const char *directory, eitp_latent_config *config,
                                            eitp_error *error) {
    char *path;
    eitp_json_document *document = NULL;
    int exists = 0;
    eitp_status status = eitp__path_in(host, directory, "config.json", &path, error);
    config->size = 0;
    if (!status)
        status = eitp__model_json_exists(host, path, &exists, error);
    if (!status && exists)
        status = eitp__model_json_read(host, path, EITP__LATENT_CONFIG_LIMIT, &document, error);
    if (!status && document) {
        status = eitp__latent_parse(eitp_json_root(document), config, error);
        if (status == EITP_ERROR_FORMAT)
            eitp__fail_prefix(error, status, "%s", path);
    }
    eitp_json_release(document);
    eitp__release_text(host, path);
    return status;
}

EITP__PRIVATE eitp_status eitp__latent_find_part(const eitp_host *host, const char *directory, const char *part,
                                                 char **path, eitp_error *error) {
    eitp_latent_config config = EITP__ZERO;
    eitp_status status = eitp__latent_read(host, directory, &config, error);
    *path = NULL;
    return status || !config.size ? status : eitp__path_in(host, directory, part, path, error);
}

EITP__PRIVATE eitp_status eitp__latent_config_write(const eitp_model *model, const char *directory, eitp_error *error) {
    eitp__buffer text;
    eitp__buffer_init(&text, &model->host);
    eitp__buffer_format(&text,
                        "{\n  \"architectures\": [\"VariationalAutoencoder\"],\n  \"model_type\": \"" EITP__LATENT_TYPE
                        "\",\n  \"latent_size\": %lld,\n  \"latent_input\": \"%s\"\n}\n",
                        (long long)model->latent->size, eitp__latent_inputs[model->latent->input]);
    return eitp__store_text(&model->host, directory, "config.json", &text, 0, error);
}
