/* Settings of sequences. */
#ifndef EITP_SEQUENCE_H
#define EITP_SEQUENCE_H

#include "base/platform.h"
#include "base/settings.h"
#include "text/text.h"

/* Returns the table of settings of eitp_sequence_config, with defaults and bounds. Stores their number in *count,
   unless `count` is NULL. */
EITP__PRIVATE const eitp_setting *eitp__sequence_setting_table(size_t *count);

#endif
