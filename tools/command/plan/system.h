/* The report of eitp check-system: the machine, the models that fit in its memory, and a command to run. */
#ifndef COMMAND_PLAN_SYSTEM_H
#define COMMAND_PLAN_SYSTEM_H

#include "plan/advice.h"
#include "plan/machine.h"

EITP_BEGIN_DECLARATIONS

/* A model, and the largest profile with which it fits; if none does, the choice of `eitp plan` without one. */
typedef struct system_model {
    char *name;       /* of the shape, or the given path */
    int is_given;     /* by --model or --init */
    int has_adapters; /* rank SYSTEM_LORA_RANK on all linear layers; nothing else is trained */
    int is_directory;
    int is_trained; /* eitp train can train it on unlabelled text */
    advice advice;
    size_t profile_bytes; /* memory of the smallest profile if none fits, otherwise 0 */
} system_model;

/* SYSTEM_CHECKPOINTS: checkpoints on the disk at a time with the default --save-total-limit. */
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
    char precision[8]; /* chosen by auto */
    eitp_memory_info memory;
    int has_budget;
    size_t budget; /* --memory-budget, else the default */
    machine_gpu gpus[MACHINE_GPUS];
    size_t gpu_count;
    const machine_gpu *gpu; /* the GPU selected by --device; NULL: none */
    eitp_sensor sensors[SYSTEM_SENSORS];
    size_t sensor_count;
    char *disk; /* the output directory, or the first of its parents that exists */
    int is_writable;
    uint64_t disk_free; /* UINT64_MAX: unknown */
    system_model models[SYSTEM_MODELS];
    size_t model_count;
    const char *tier;                           /* by memory alone, including GPU memory */
    const system_model *model;                  /* the model of the command; NULL: none fits */
    int64_t largest_batch;                      /* for that model, at its profile's length */
    int64_t save_steps;                         /* for that model, about 10 minutes; 0: unknown */
    char why[sizeof((eitp_error *)0)->message]; /* if none fits */
    char *command, *note;                       /* the command to run, and a note about it; NULL: none */
} system_report;

/* True if the checkpoints of a run with this model fit on the disk. */
int system_has_room(const system_report *report, const system_model *model);

/* Fills in the report. Release it in any case. */
eitp_status system_examine(option_set *o, system_report *report, eitp_error *error);
void system_release(system_report *report);

EITP_END_DECLARATIONS

#endif
