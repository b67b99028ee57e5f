/* What eitp check-system reports: the machine, what fits in its memory, and the command to run. */
#ifndef COMMAND_PLAN_SYSTEM_H
#define COMMAND_PLAN_SYSTEM_H

#include "plan/advice.h"
#include "plan/machine.h"

EITP_BEGIN_DECLARATIONS

/* A model, and the largest profile with which it fits, or if none does what `eitp plan` chooses without one. */
typedef struct system_model {
    char *name;       /* of the shape, or the path that was given */
    int is_given;     /* by --model or --init */
    int has_adapters; /* of rank SYSTEM_LORA_RANK on all linear layers, which alone are trained */
    int is_directory;
    int is_trained; /* eitp train trains it on text alone */
    advice advice;
    size_t profile_bytes; /* that the smallest profile takes; 0: one fits */
} system_model;

/* Checkpoints that a run has at a time with its default --save-total-limit. */
enum { SYSTEM_CHECKPOINTS = 3, SYSTEM_MODELS = 16, SYSTEM_LORA_RANK = 16, SYSTEM_SETS = 8, SYSTEM_SENSORS = 64 };

typedef struct system_report {
    char processor[100];
    eitp_processor_info processors;
    machine_cache caches[MACHINE_CACHES];
    size_t cache_count;
    char sets[SYSTEM_SETS][16]; /* instruction sets whose kernels can run, from the slowest */
    size_t set_count;
    char kernels[32];  /* the set that runs */
    char device[200];  /* see eitp_context_description */
    char precision[8]; /* the one that auto chooses */
    eitp_memory_info memory;
    int has_budget;
    size_t budget; /* --memory-budget, else the default */
    machine_gpu gpus[MACHINE_GPUS];
    size_t gpu_count;
    const machine_gpu *gpu; /* that computes, by --device; NULL: none */
    eitp_sensor sensors[SYSTEM_SENSORS];
    size_t sensor_count;
    char *disk; /* the output directory, or the first of its parents that exists */
    int is_writable;
    uint64_t disk_free; /* UINT64_MAX: unknown */
    system_model models[SYSTEM_MODELS];
    size_t model_count;
    const char *tier;                           /* by memory alone, that of the GPU included */
    const system_model *model;                  /* that of the command; NULL: none fits */
    int64_t largest_batch;                      /* of that model, at its profile's length */
    int64_t save_steps;                         /* of that model, about 10 minutes; 0: unknown */
    char why[sizeof((eitp_error *)0)->message]; /* if none fits */
    char *command, *note;                       /* the command to run, and what it does; NULL: none */
} system_report;

/* True if the checkpoints of a run with this model have room on the disk. */
int system_has_room(const system_report *report, const system_model *model);

/* Fills in the report. Release it in any case. */
eitp_status system_examine(option_set *o, system_report *report, eitp_error *error);
void system_release(system_report *report);

EITP_END_DECLARATIONS

#endif
