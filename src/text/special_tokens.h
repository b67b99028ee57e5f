/* Files next to a tokenizer that name its special tokens. */
#ifndef EITP_SPECIAL_TOKENS_H
#define EITP_SPECIAL_TOKENS_H

#include "base/json.h"
#include "text/text.h"

enum {
    EITP__TOKENIZER_CONFIG,
    EITP__SPECIAL_TOKENS_MAP,
    EITP__GENERATION_CONFIG,
    EITP__MODEL_CONFIG,
    EITP__SPECIAL_FILES
};

/* tokenizer_config.json, special_tokens_map.json, generation_config.json and config.json. NULL if missing. */
typedef struct eitp__special_files {
    eitp_json_document *documents[EITP__SPECIAL_FILES];
} eitp__special_files;

/* Reads the files of a directory into zeroed `files`. Release them even after a failure. */
EITP__PRIVATE eitp_status eitp__special_files_read(const eitp_host *host, const char *directory,
                                                   eitp__special_files *files, eitp_error *error);
EITP__PRIVATE void eitp__special_files_release(eitp__special_files *files);

/* Returns the name of a token in these files: "eos_token", ... */
EITP__PRIVATE const char *eitp__special_token_name(eitp_special_token which);

/* Returns the usual text of a special token in a family, EITP__FAMILY_GPT2, ..., or NULL if the family has none. */
EITP__PRIVATE const char *eitp__family_token(int family, eitp_special_token which);

/* Returns the family of the tokenizer_class in tokenizer_config.json, or else of the model_type in config.json. -1 if
   there is neither, or it is unknown. *name is the name found, or NULL. */
EITP__PRIVATE int eitp__named_family(const eitp__special_files *files, const char **name);

/* Returns a member of tokenizer_config.json, or NULL if it is missing or null. */
EITP__PRIVATE const eitp_json *eitp__tokenizer_config_member(const eitp__special_files *files, const char *name);

/* Returns the value of a special token in the tokenizer's own two files: a string, an object with "content", or null.
   NULL if neither has it. *file is the file that has it. */
EITP__PRIVATE const eitp_json *eitp__special_token_value(const eitp__special_files *files, eitp_special_token which,
                                                         int *file);

/* Returns "added_tokens_decoder" of tokenizer_config.json, or NULL. */
EITP__PRIVATE const eitp_json *eitp__special_added_tokens(const eitp__special_files *files);

/* Returns the id of a special token in the model's files, the first if there are several, or -1. */
EITP__PRIVATE int64_t eitp__special_token_id(const eitp__special_files *files, eitp_special_token which);

/* Reads a boolean of tokenizer_config.json. *value is unchanged if it is missing or null. */
EITP__PRIVATE eitp_status eitp__tokenizer_config_boolean(const eitp__special_files *files, const char *name, int *value,
                                                         eitp_error *error);

/* Returns the name of a file, for messages. */
EITP__PRIVATE const char *eitp__special_file_name(int file);

/* Adds the members of tokenizer_config.json that eitp_tokenizer_save does not write itself for this model, each as
   `,\n"name": value`. */
EITP__PRIVATE void eitp__special_files_keep(const eitp__special_files *files, int model, eitp__buffer *members);

#endif
