/* Sensors that are read again and again: thermometers, and single values of /proc. */
#ifndef EITP_SENSORS_H
#define EITP_SENSORS_H

#include "base/base.h"
#include "base/platform.h"

/* A temperature, and the file that it is read from. */
typedef struct eitp__thermometer {
    eitp_sensor sensor;
    char *path;
} eitp__thermometer;

/* Stores the first `capacity` thermometers of the machine, which eitp_sensors_read lists too. Release them. Only
   EITP_ERROR_MEMORY is an error. */
EITP__PRIVATE eitp_status eitp__thermometers_list(const eitp_host *host, eitp__thermometer *thermometers,
                                                  size_t capacity, size_t *count, eitp_error *error);
EITP__PRIVATE void eitp__thermometer_release(const eitp_host *host, eitp__thermometer *thermometer);

/* Reads its value again; 0 if that is not possible. */
EITP__PRIVATE double eitp__thermometer_read(const eitp_host *host, const eitp__thermometer *thermometer);

/* Reads what /proc says: the percentage of the last 10 seconds in which some task waited for "cpu", "memory" or "io",
   and the mean number of tasks of the last minute. -1 if it is unknown. Only EITP_ERROR_MEMORY is an error. */
EITP__PRIVATE eitp_status eitp__read_pressure_percent(const eitp_host *host, const char *resource, double *percent,
                                                      eitp_error *error);
EITP__PRIVATE eitp_status eitp__read_load(const eitp_host *host, double *load, eitp_error *error);

#endif
