/* Models in the local Hugging Face cache, and hints for downloading them. */
#ifndef COMMAND_MODEL_HUB_H
#define COMMAND_MODEL_HUB_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

/*
 * Returns the directory of a model such as "gpt2" or "google-bert/bert-base-uncased" in the hub's cache on this machine
 * in a new string, or NULL if it is not there. The cache is huggingface_hub's: HF_HUB_CACHE, else hub in HF_HOME, else
 * huggingface/hub in XDG_CACHE_HOME or ~/.cache.
 */
char *hub_find(const char *name);

/* Adds a download hint to an error if the name may be a model on the hub. */
void hub_add_hint(const char *name, eitp_error *error);

EITP_END_DECLARATIONS

#endif
