/* The JSON files of a model: those in its directory, or their equivalents from the keys of a GGUF file, whose path
   takes the place of the directory's: "model.gguf/config.json". */
#ifndef EITP_MODEL_JSON_H
#define EITP_MODEL_JSON_H

#include "base/files.h"
#include "base/json.h"

/* Sets *is_file if a path is a GGUF file; 0 in programs built with EITP_WITHOUT_GGUF. */
EITP__PRIVATE eitp_status eitp__model_is_file(const eitp_host *host, const char *path, int *is_file, eitp_error *error);

/* Sets *exists if a model has this file. */
EITP__PRIVATE eitp_status eitp__model_json_exists(const eitp_host *host, const char *path, int *exists,
                                                  eitp_error *error);

/* Like eitp_json_read_file and eitp__json_read_strict_file, for the file of a model; a derived one may be larger than
   `limit`. */
EITP__PRIVATE eitp_status eitp__model_json_read(const eitp_host *host, const char *path, size_t limit,
                                                eitp_json_document **document, eitp_error *error);
EITP__PRIVATE eitp_status eitp__model_json_read_strict(const eitp_host *host, const char *path, size_t limit,
                                                       eitp_json_document **document, eitp_error *error);

#endif
