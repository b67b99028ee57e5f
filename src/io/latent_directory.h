/* Directories of models with a latent variable: "encoder" and "decoder" are model directories of their own. */
#ifndef EITP_LATENT_DIRECTORY_H
#define EITP_LATENT_DIRECTORY_H

#include "base/platform.h"
#include "io/io.h"

#define EITP__ENCODER_DIRECTORY "encoder"
#define EITP__DECODER_DIRECTORY "decoder"

/* Reads what the config.json of a directory says of a latent variable but its encoder; size 0: it has none. */
EITP__PRIVATE eitp_status eitp__latent_read(const eitp_host *host, const char *directory, eitp_latent_config *config,
                                            eitp_error *error);

/* The directory of a part of a model with a latent variable, a new text; NULL if the directory is not one. */
EITP__PRIVATE eitp_status eitp__latent_find_part(const eitp_host *host, const char *directory, const char *part,
                                                 char **path, eitp_error *error);

/* Writes the config.json that says what the directory is. */
EITP__PRIVATE eitp_status eitp__latent_config_write(const eitp_model *model, const char *directory, eitp_error *error);

#endif
