/* The words of the library in those of the command. */
#ifndef COMMAND_WORDING_H
#define COMMAND_WORDING_H

#include "command.h"

EITP_BEGIN_DECLARATIONS

/* Who has written a message. The command itself writes names of settings only where it means them, as in a file. */
typedef enum wording_source { WORDING_COMMAND, WORDING_LIBRARY } wording_source;

/* Copies a message with options in place of functions, fields and values of the library. */
void wording_translate(const char *message, wording_source source, char *text, size_t size);

/* From now on settings keep the names that they have in files, as 'eitp set' takes and prints them. */
void wording_keep_settings(void);

EITP_END_DECLARATIONS

#endif
