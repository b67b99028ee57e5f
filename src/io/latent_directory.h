/* Directories of models with a latent variable: "encoder" and "decoder" are model directories themselves. */
#ifndef EITP_LATENT_DIRECTORY_H
#define EITP_LATENT_DIRECTORY_H

#include "base/platform.h"
#include "io/io.h"

#define EITP__ENCODER_DIRECTORY "encoder"
#define EITP__DECODER_DIRECTORY "decoder"

/* Reads the latent variable's settings, except its encoder, from the config.json of a directory. config->size is 0 if
   it has no latent variable. */
EITP__PRIVATE eitp_status eitp__latent_read(const eitp_host *host, const char *directory, eitp_latent_config *config,
                                            eitp_error *error);

/* Sets *path to the newly allocated path of a part of a model with a latent variable, or to NULL if the directory is
   not such a model. */
EITP__PRIVATE eitp_status eitp__latent_find_part(const eitp_host *host, const char *directory, const char *part,
                                                 char **path, eitp_error *error);

/* Writes the config.json that marks a directory as a model with a latent variable. */
EITP__PRIVATE eitp_status eitp__latent_config_write(const eitp_model *model, const char *directory, eitp_error *error);

#endif
