/* The chat template in the files of a tokenizer's directory. */
#ifndef EITP_TEMPLATE_FILE_H
#define EITP_TEMPLATE_FILE_H

#include "text/special_tokens.h"

/* Reads the chat template of a directory into a tokenizer, if there is one. */
EITP__PRIVATE eitp_status eitp__load_chat_template(const char *directory, const eitp__special_files *files,
                                                   eitp_tokenizer *tokenizer, eitp_error *error);

/* Writes chat_template.jinja, unless the template came from tokenizer_config.json. */
EITP__PRIVATE eitp_status eitp__save_chat_template(const eitp_tokenizer *tokenizer, const char *directory,
                                                   eitp_error *error);

/* Returns a built-in chat template: "chatml" (<|im_start|>role, the text, <|im_end|>), as in Qwen and SmolLM2. NULL if
   the name is unknown. */
EITP__PRIVATE const char *eitp__chat_template_named(const char *name);

#endif
