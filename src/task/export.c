#include "task/export.h"

#include "io/gguf_adapter.h"
#include "io/gguf_model.h"
#include "model/transformer.h"
#include "task/predictor.h"
#include "text/chat.h"
#include "text/tokenizer_gguf.h"

eitp_export_config eitp_export_config_default(void) {
    eitp_export_config config = EITP__ZERO;
    config.type = "f16";
    return config;
}

/* Finds the token that ends a turn of a conversation; -1 if the model has none. */
static eitp_status eitp__export_end_of_turn(const eitp_model *model, const eitp_tokenizer *tokenizer, int32_t *token,
                                            eitp_error *error) {
    eitp_status status = EITP_OK;
    *token = -1;
#if EITP_WITHOUT_TEMPLATES
    (void)model, (void)tokenizer, (void)error;
#else
    eitp_chat *chat = NULL;
    if (!model->config.bidirectional && eitp_tokenizer_chat_template(tokenizer, NULL))
        status = eitp_chat_create(tokenizer, &chat, error);
    *token = eitp_chat_end_of_turn(chat);
    eitp_chat_destroy(chat);
#endif
    return status;
}

/* Adds how an encoder's hidden states become one embedding: as eitp_embedding_config_read finds it in the directory or
   file that the weights were loaded from. */
static eitp_status eitp__export_pooling(const eitp_model *model, eitp__gguf_writer *writer, eitp_error *error) {
    eitp_predictor_config config = eitp_predictor_config_default(model, NULL);
    int64_t number;
    eitp_status status = model->source ? eitp_embedding_config_read(&model->host, model->source,
                                                                    eitp_model_positions(model), &config, error)
                                       : EITP_OK;
    if (status)
        return status;
    number = config.pooling == EITP_EMBEDDING_MEAN ? 1 : config.pooling == EITP_EMBEDDING_FIRST ? 2 : 3;
    if (number == 3 && config.pooling != EITP_EMBEDDING_LAST)
        return eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                          "a GGUF file cannot describe the pooling of '%s' (supported: mean_tokens, cls_token, "
                          "lasttoken)",
                          model->source);
    eitp__gguf_put_integer(writer, "bert.pooling_type", EITP__GGUF_U32, number);
    return EITP_OK;
}

static eitp_status eitp__export_keys(const eitp_model *model, const eitp_tokenizer *tokenizer,
                                     const eitp_export_config *config, eitp__gguf_writer *writer, eitp_error *error) {
    const char *names;
    const eitp__gguf_mix *mix = eitp__gguf_mix_named(config->type, &names);
    int32_t end_of_turn;
    eitp_status status = mix ? eitp__gguf_put_model(model, mix, writer, error)
                             : eitp__fail(error, EITP_ERROR_ARGUMENT, "unknown type '%s' (choose from %s)",
                                          config->type ? config->type : "", names);
    if (!status && model->config.bidirectional)
        status = eitp__export_pooling(model, writer, error);
    if (!status && config->name)
        eitp__gguf_put_text(writer, "general.name", config->name, strlen(config->name));
    if (!status)
        status = eitp__export_end_of_turn(model, tokenizer, &end_of_turn, error);
    return status ? status : eitp__gguf_put_tokenizer(tokenizer, model->config.vocabulary, end_of_turn, writer, error);
}

eitp_status eitp_model_export(eitp_model *model, const eitp_tokenizer *tokenizer, const char *path,
                              const eitp_export_config *config, eitp_error *error) {
    eitp__gguf_writer writer;
    eitp_status status;
    if (!model || !tokenizer || !path || !config)
        return eitp__fail_null(error, "eitp_model_export", "model, tokenizer, path and config");
    eitp__gguf_writer_init(&writer, &model->host);
    status = eitp__export_keys(model, tokenizer, config, &writer, error);
    if (!status)
        status = eitp__gguf_writer_begin(&writer, path, error);
    if (!status)
        status = eitp__gguf_write_weights(model, &writer, error);
    if (!status)
        status = eitp__gguf_writer_finish(&writer, error);
    eitp__gguf_writer_release(&writer);
    return status;
}

eitp_status eitp_lora_export(eitp_model *model, const char *path, eitp_error *error) {
    eitp__gguf_writer writer;
    eitp_status status;
    if (!model || !path)
        return eitp__fail_null(error, "eitp_lora_export", "model and path");
    eitp__gguf_writer_init(&writer, &model->host);
    status = eitp__gguf_put_adapter(model, &writer, error);
    if (!status)
        status = eitp__gguf_writer_begin(&writer, path, error);
    if (!status)
        status = eitp__gguf_write_adapter(model, &writer, error);
    if (!status)
        status = eitp__gguf_writer_finish(&writer, error);
    eitp__gguf_writer_release(&writer);
    return status;
}
