/* The words of the library in those of the command. */
#ifndef COMMAND_WORDING_H
#define COMMAND_WORDING_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

/* Copies a message of the library with options in place of its functions, fields and values. */
void wording_translate(const char *message, char *text, size_t size);

EITP_END_DECLARATIONS

#endif
