/* Room on the disk of a run that is set aside while it trains: on a full disk, the last records and the reason of the
   end are written to it. */
#ifndef EITP_RESERVE_H
#define EITP_RESERVE_H

#include "run/run_loop.h"

#define EITP__RESERVE_FILE ".eitp.reserve"
#define EITP__RESERVE_BYTES ((size_t)128 << 10)

/* Writes the file. Without room for it there is none. */
EITP__PRIVATE void eitp__reserve_take(const eitp_run *run);

/* Removes it. */
EITP__PRIVATE void eitp__reserve_release(const eitp_run *run);

#endif
