/* --post-save-cmd: a command of the user that runs beside training after a checkpoint is written. */
#ifndef COMMAND_RUN_POST_SAVE_H
#define COMMAND_RUN_POST_SAVE_H

#include "options/options.h"

#include <sys/types.h>

EITP_BEGIN_DECLARATIONS

/* At most one command runs at a time; a save meanwhile makes it run again, for the newest checkpoint, when it ends. */
typedef struct post_save {
    const char *command;   /* NULL: none */
    int64_t backup_steps;  /* --backup-steps */
    int64_t considered;    /* steps at the last save that it ran for, or at the start */
    int64_t newest;        /* steps at the newest save */
    int is_due;            /* it is to run for the newest save */
    pid_t process;         /* that runs; 0: none */
    int64_t step;          /* of its checkpoint */
    const char *directory; /* of the checkpoints */
    eitp_run *run;         /* which keeps that checkpoint meanwhile */
} post_save;

/* The texts of the options must outlive it. */
void post_save_begin(post_save *p, const option_set *o, const char *directory, int64_t start_step, eitp_run *run);

/* A checkpoint was written. */
void post_save_saved(post_save *p, int64_t step);

/* Looks after the command, without waiting. */
void post_save_poll(post_save *p);

/* Waits for the command, unless a signal stopped the run or stops the waiting: then it goes on by itself, and a shell
   runs it for the newest checkpoint afterwards if that is due. */
void post_save_end(post_save *p);

EITP_END_DECLARATIONS

#endif
