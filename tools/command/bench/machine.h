/* The machine that runs a bench. */
#ifndef COMMAND_BENCH_MACHINE_H
#define COMMAND_BENCH_MACHINE_H

#include "text.h"

EITP_BEGIN_DECLARATIONS

typedef struct bench_machine {
    char processor[100];      /* "AMD EPYC 7B13"; the instruction set's name if the system does not report a model */
    int processors;           /* logical ones that are online */
    double memory, available; /* bytes; 0: unknown */
} bench_machine;

bench_machine bench_machine_read(void);

/* Adds the member "machine" to a JSON object. */
void bench_machine_json(text_buffer *t);

EITP_END_DECLARATIONS

#endif
