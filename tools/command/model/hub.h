/* Models that a user has from the hub of Hugging Face, or may download there. */
#ifndef COMMAND_MODEL_HUB_H
#define COMMAND_MODEL_HUB_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

/*
 * The directory of a model such as "gpt2" or "google-bert/bert-base-uncased" in the hub's cache on this machine, in a
 * new text; NULL if it is not there. The cache is that of huggingface_hub: HF_HUB_CACHE, else hub in HF_HOME, else
 * huggingface/hub in XDG_CACHE_HOME or ~/.cache.
 */
char *hub_find(const char *name);

/* Adds to an error how to download the model, if the name may be one of the hub's. */
void hub_add_hint(const char *name, eitp_error *error);

EITP_END_DECLARATIONS

#endif
