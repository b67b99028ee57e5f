/* Contents of messages: strings, or lists of parts, which not every chat template reads. */
#ifndef EITP_MESSAGE_CONTENTS_H
#define EITP_MESSAGE_CONTENTS_H

#include "text/conversation.h"

/* Refuses contents of user, assistant and system messages that a text model cannot read: contents that are neither
   strings nor lists of parts, and parts that are not text. The messages must have roles. EITP_ERROR_ARGUMENT. */
EITP__PRIVATE eitp_status eitp__check_contents(const eitp_json *messages, eitp_error *error);

/* Changes by eitp__make_plain to contents. */
typedef struct eitp__plain_contents {
    int joins_parts; /* a list of text parts is joined */
    int fills_nulls; /* null, as in a message with tool calls, becomes an empty string */
} eitp__plain_contents;

/* Rewrites the messages of a conversation: writes known roles in lower case, and applies the changes in `how`. */
EITP__PRIVATE eitp_status eitp__make_plain(const eitp_host *host, eitp__conversation *conversation,
                                           const eitp__plain_contents *how, eitp_error *error);

#endif
