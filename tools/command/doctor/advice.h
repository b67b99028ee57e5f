/* The doctor's advice: commands with the run's own options filled in. */
#ifndef COMMAND_DOCTOR_ADVICE_H
#define COMMAND_DOCTOR_ADVICE_H

#include "doctor/case.h"

EITP_BEGIN_DECLARATIONS

/* Proposes the command that resumes the run, with `more` options. For a run that is over or has no checkpoint, proposes
   a new run with these options, or nothing without options. */
void advise_resume(const doctor_case *c, doctor_finding *f, const char *more);

/* Proposes the run's command as a new run with changed options, such as "--lr 1e-4", and another output directory. They
   replace the same options of the run's command. */
void advise_again(const doctor_case *c, doctor_finding *f, const char *options);

/* Does the same with the learning rate multiplied by `factor`; nothing if the rate is unknown or 0. */
void advise_rate(const doctor_case *c, doctor_finding *f, double factor);

/* Proposes another value of a setting: with eitp set while the run trains, otherwise as advise_resume does. */
void advise_set(const doctor_case *c, doctor_finding *f, const char *option, double value);

/* Returns a path or argument quoted for a shell. Free it. */
char *advice_quote(const char *text);

EITP_END_DECLARATIONS

#endif
