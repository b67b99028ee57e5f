/* --post-save-cmd: a user's command that runs in the background after a checkpoint is written. */
#ifndef COMMAND_RUN_POST_SAVE_H
#define COMMAND_RUN_POST_SAVE_H

#include "options/options.h"

#include <sys/types.h>

EITP_BEGIN_DECLARATIONS

/* At most one command runs at a time. After saves in the meantime, it runs again for the newest checkpoint. */
typedef struct post_save {
    const char *command;   /* NULL: none */
    int64_t backup_steps;  /* --backup-steps */
    int64_t considered;    /* steps at the last save it ran for, or at the start */
    int64_t newest;        /* steps at the newest save */
    int is_due;            /* it must run for the newest save */
    pid_t process;         /* the running one; 0: none */
    int64_t step;          /* of its checkpoint */
    const char *directory; /* of the checkpoints */
    eitp_run *run;         /* keeps that checkpoint while the command runs */
} post_save;

/* The options' strings must outlive it. */
void post_save_begin(post_save *p, const option_set *o, const char *directory, int64_t start_step, eitp_run *run);

/* Reports that a checkpoint was written. */
void post_save_saved(post_save *p, int64_t step);

/* Polls the command without waiting. */
void post_save_poll(post_save *p);

/* Waits for the command, unless a signal stopped the run or interrupts the wait. Then the command continues alone, and
   a shell runs it afterwards for the newest checkpoint if that is due. */
void post_save_end(post_save *p);

EITP_END_DECLARATIONS

#endif
