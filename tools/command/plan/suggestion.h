/* Commands that are ready to run: the one that eitp check-system suggests, and the one that resumes a run. */
#ifndef COMMAND_PLAN_SUGGESTION_H
#define COMMAND_PLAN_SUGGESTION_H

#include "plan/system.h"

EITP_BEGIN_DECLARATIONS

/* Sets report->command and report->note, where a model fits. */
void suggest_command(const option_set *o, system_report *report);

/* The command that resumes the run in an output directory, in a new text. */
char *suggest_resume(const char *directory);

EITP_END_DECLARATIONS

#endif
