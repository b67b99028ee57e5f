/* Translates the library's words in messages to the command's. */
#ifndef COMMAND_WORDING_H
#define COMMAND_WORDING_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

/* The origin of a message. The command itself writes setting names only where it means them, for example in a file. */
typedef enum wording_source { WORDING_COMMAND, WORDING_LIBRARY } wording_source;

/* Copies a message, replacing functions, fields and values of the library by options. */
void wording_translate(const char *message, wording_source source, char *text, size_t size);

/* From now on settings keep their names in files, which 'eitp set' takes and prints. */
void wording_disable_settings(void);

EITP_END_DECLARATIONS

#endif
