/* Saves Hugging Face model directories. */
#include "base/files.h"
#include "io/model_directory.h"
#include "model/lora.h"
#include "model/transformer.h"
#include "model/transformer_config.h"

static eitp_status eitp__write_generation_config(const eitp_model *model, const char *path, int32_t end_of_text,
                                                 eitp_error *error) {
    eitp_transformer_config named = model->config;
    const char *kept = model->generation ? model->generation : "  \"_from_model_config\": true,\n";
    eitp__buffer text;
    eitp__config_set_special_tokens(&named, -1, end_of_text, -1);
    eitp__buffer_init(&text, &model->host);
    eitp__buffer_add_text(&text, "{\n");
    eitp__buffer_add_text(&text, kept);
    eitp__config_write_special_tokens(&text, &named);
    if (!text.failed)
        text.size -= 2; /* the last comma */
    eitp__buffer_add_text(&text, "\n}\n");
    return eitp__store_text(&model->host, NULL, path, &text, 0, error);
}

/* Learners' parameters have a separate file. */
static int eitp__is_not_of_learner(const eitp_variable *variable) {
    return !variable->of_learner;
}

static int eitp__is_not_adapter(const eitp_variable *variable) {
    return !variable->of_learner && !eitp__lora_is_adapter(variable->name);
}

eitp_save_config eitp_save_config_default(void) {
    eitp_save_config config = EITP__ZERO;
    config.dtype = EITP_SAVE_AS_LOADED;
    config.end_of_text = -1;
    return config;
}

eitp_status eitp_model_save(eitp_model *model, const char *directory, eitp_error *error) {
    const eitp_save_config config = eitp_save_config_default();
    return eitp_model_save_with(model, directory, &config, error);
}

static eitp__selection eitp__select_model(const eitp_model *model) {
    eitp__selection selection = EITP__ZERO;
    selection.role = EITP_PARAMETER;
    selection.selects = model->lora.rank ? eitp__is_not_adapter : eitp__is_not_of_learner;
    selection.prefix = "";
    selection.config = &model->config;
    return selection;
}

EITP__PRIVATE int eitp__model_files(const eitp_model *model, eitp__model_file files[EITP__MODEL_FILES]) {
    const eitp_model *encoder = eitp_model_encoder(model);
    files[0].name = EITP__WEIGHTS_FILE;
    files[0].selection = eitp__select_model(model);
    if (!encoder)
        return 1;
    files[0].selection.config = NULL;
    files[0].selection.without[0] = &model->config;
    files[0].selection.without[1] = &encoder->config;
    files[1].name = EITP__DECODER_DIRECTORY "/" EITP__WEIGHTS_FILE;
    files[1].selection = eitp__select_model(model);
    files[1].selection.only = &model->config;
    files[2].name = EITP__ENCODER_DIRECTORY "/" EITP__WEIGHTS_FILE;
    files[2].selection = eitp__select_model(encoder);
    files[2].selection.only = &encoder->config;
    return 3;
}

EITP__PRIVATE void eitp__model_presume_dtype(eitp_model *model, eitp_dtype dtype) {
    for (int64_t i = 0; i < eitp__parameter_count(&model->config); i++) {
        const eitp__parameter parameter = eitp__parameter_at(&model->config, i);
        eitp_variable variable;
        eitp__piece pieces[EITP__PIECES];
        variable = eitp_variable_at(model->context, (size_t)eitp_variable_find(model->context, parameter.name));
        eitp__variable_pieces(&variable, NULL, pieces);
        eitp__variable_note_dtype(model->context, parameter.name, &pieces[0], (int)dtype);
    }
}

/* Writes the files of a model directory except the weights. */
static eitp_status eitp__save_own_configs(eitp_model *model, const char *directory, eitp_dtype dtype,
                                          int32_t end_of_text, eitp_error *error) {
    char *path;
    eitp_status status = eitp__make_directories(&model->host, directory, error);
    if (!status)
        status = eitp__path_in(&model->host, directory, "config.json", &path, error);
    if (status)
        return status;
    status = eitp__transformer_config_write(&model->host, path, &model->config, model->labels, model->other_keys,
                                            end_of_text, dtype, error);
    eitp__release_text(&model->host, path);
    if (!status)
        status = eitp__path_in(&model->host, directory, EITP__GENERATION_FILE, &path, error);
    if (status)
        return status;
    status = eitp__write_generation_config(model, path, end_of_text, error);
    eitp__release_text(&model->host, path);
    return status;
}

EITP__PRIVATE eitp_status eitp__model_save_configs(eitp_model *model, const char *directory, eitp_save_dtype dtype,
                                                   int32_t end_of_text, eitp_error *error) {
    static const char *const names[2] = {EITP__DECODER_DIRECTORY, EITP__ENCODER_DIRECTORY};
    eitp_model *const parts[2] = {model, eitp_model_encoder(model)};
    eitp__model_file files[EITP__MODEL_FILES];
    eitp_dtype saved[EITP__MODEL_FILES];
    eitp_status status = EITP_OK;
    for (int i = 0, count = eitp__model_files(model, files); i < count; i++)
        saved[i] = eitp__selection_dtype(model->context, &files[i].selection, dtype);
    if (!model->latent)
        return eitp__save_own_configs(model, directory, saved[0], end_of_text, error);
    for (int i = 0; i < 2 && !status; i++) {
        char *path;
        status = eitp__path_in(&model->host, directory, names[i], &path, error);
        if (!status)
            status = eitp__save_own_configs(parts[i], path, saved[i + 1], i ? -1 : end_of_text, error);
        eitp__release_text(&model->host, path);
    }
    return status ? status : eitp__latent_config_write(model, directory, error);
}

/* Fails if a dtype cannot represent the weights of a file, before anything is written. */
static eitp_status eitp__check_overflow(const eitp_model *model, const eitp__selection *selection,
                                        eitp_save_dtype dtype, eitp_error *error) {
    const char *name;
    float value = 0;
    const eitp_status status = eitp__selection_find_overflow(model->context, selection, dtype, &name, &value, error);
    if (status || !name)
        return status;
    return eitp__fail(error, EITP_ERROR_ARGUMENT,
                      "'%s' has the value %g, which f16 cannot represent; save the weights as bf16 or f32", name,
                      (double)value);
}

eitp_status eitp_model_save_with(eitp_model *model, const char *directory, const eitp_save_config *config,
                                 eitp_error *error) {
    eitp__model_file files[EITP__MODEL_FILES];
    eitp_status status = EITP_OK;
    int count;
    if (!model || !directory || !config)
        return eitp__fail_null(error, "eitp_model_save_with", "model, directory and config");
    if ((unsigned)config->dtype > EITP_SAVE_F16)
        return eitp__fail(error, EITP_ERROR_ARGUMENT,
                          "unknown dtype %d to save weights as (choose from eitp_save_dtype)", (int)config->dtype);
    count = eitp__model_files(model, files);
    for (int i = 0; i < count && !status; i++)
        status = eitp__check_overflow(model, &files[i].selection, config->dtype, error);
    if (!status)
        status = eitp__model_save_configs(model, directory, config->dtype, config->end_of_text, error);
    for (int i = count - 1; i >= 0 && !status; i--) {
        char *path;
        status = eitp__path_in(&model->host, directory, files[i].name, &path, error);
        if (!status)
            status = eitp__variables_save(model->context, path, &files[i].selection, config->dtype, NULL, NULL, error);
        eitp__release_text(&model->host, path);
    }
    return status;
}
