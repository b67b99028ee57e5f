/* Commands that are ready to run: the suggestion of eitp check-system, and the command that resumes a run. */
#ifndef COMMAND_PLAN_SUGGESTION_H
#define COMMAND_PLAN_SUGGESTION_H

#include "plan/system.h"

EITP_BEGIN_DECLARATIONS

/* Sets report->command and report->note if a model fits. */
void suggest_command(const option_set *o, system_report *report);

/* Returns the command that resumes a run in an output directory in a new string; `checkpoint`: a path, or "auto". */
char *suggest_resume(const char *directory, const char *checkpoint);

/* Starts a command of this program: "eitp", or its path if a shell would not find it. */
void suggest_begin(text_buffer *t, const char *command);

/* Adds a word after a space, in quotes if it has special shell characters; the second function adds an option. */
void suggest_add(text_buffer *t, const char *word);
void suggest_add_option(text_buffer *t, const char *option, const char *value);

EITP_END_DECLARATIONS

#endif
