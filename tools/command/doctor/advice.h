/* What the doctor proposes: commands with the run's own options filled in. */
#ifndef COMMAND_DOCTOR_ADVICE_H
#define COMMAND_DOCTOR_ADVICE_H

#include "doctor/case.h"

EITP_BEGIN_DECLARATIONS

/* Proposes the command that continues the run, with `more` options. A run that is over, or has no checkpoint, has
   nothing to continue: then the one that trains anew with them, or nothing without options. */
void advise_resume(const doctor_case *c, doctor_finding *f, const char *more);

/* Proposes the command that trains anew, as the run's was, with other options: "--lr 1e-4", and another output
   directory. Options of the run's command that these name are left out. */
void advise_again(const doctor_case *c, doctor_finding *f, const char *options);

/* The same with the learning rate times this factor; nothing if the rate is unknown or 0. */
void advise_rate(const doctor_case *c, doctor_finding *f, double factor);

/* Proposes another value of a setting: while the run trains with eitp set, else as advise_resume does. */
void advise_set(const doctor_case *c, doctor_finding *f, const char *option, double value);

/* A path or argument as a shell takes it; to free. */
char *advice_quote(const char *text);

EITP_END_DECLARATIONS

#endif
