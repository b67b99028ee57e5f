/* Writes and reads the weights of a model without a latent variable in one file. */
#ifndef TESTS_MODEL_FILES_H
#define TESTS_MODEL_FILES_H

#include "everything.h"

#define MODEL_FILES_UNUSED __attribute__((unused))

static MODEL_FILES_UNUSED eitp_status model_file_write(eitp_model *model, const char *directory, uint32_t *checksum,
                                                       eitp_error *error) {
    eitp__model_file files[EITP__MODEL_FILES];
    char path[700];
    eitp_status status = eitp__model_save_configs(model, directory, EITP_SAVE_F32, -1, error);
    eitp__model_files(model, files);
    snprintf(path, sizeof path, "%s/%s", directory, files[0].name);
    return status ? status
                  : eitp__variables_save(eitp_model_context(model), path, &files[0].selection, EITP_SAVE_F32, checksum,
                                         NULL, error);
}

static MODEL_FILES_UNUSED eitp_status model_file_read(eitp_model *model, const char *path, eitp__reading reading,
                                                      eitp__read_sums *sums, eitp_error *error) {
    eitp__model_file files[EITP__MODEL_FILES];
    eitp__model_files(model, files);
    return eitp__variables_read_selected(eitp_model_context(model), path, &files[0].selection, reading, sums, error);
}

#endif
