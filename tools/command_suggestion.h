/* The command that eitp check-system suggests: it runs as it stands. */
#ifndef COMMAND_SUGGESTION_H
#define COMMAND_SUGGESTION_H

#include "command_system.h"

EITP_BEGIN_DECLARATIONS

/* Sets report->command and report->note, where a model fits. */
void suggest_command(const option_set *o, system_report *report);

EITP_END_DECLARATIONS

#endif
