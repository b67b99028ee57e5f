/* Sensors for repeated readings: thermometers, and single values of /proc. */
#ifndef EITP_SENSORS_H
#define EITP_SENSORS_H

#include "base/base.h"
#include "base/platform.h"

/* A temperature, and the file it is read from. */
typedef struct eitp__thermometer {
    eitp_sensor sensor;
    char *path;
} eitp__thermometer;

/* Stores the first `capacity` thermometers of the machine, which eitp_sensors_read lists too. Release them after use.
   Only EITP_ERROR_MEMORY is an error. */
EITP__PRIVATE eitp_status eitp__thermometers_list(const eitp_host *host, eitp__thermometer *thermometers,
                                                  size_t capacity, size_t *count, eitp_error *error);
EITP__PRIVATE void eitp__thermometer_release(const eitp_host *host, eitp__thermometer *thermometer);

/* Reads the current temperature; 0 if that is impossible. */
EITP__PRIVATE double eitp__thermometer_read(const eitp_host *host, const eitp__thermometer *thermometer);

/* Read from /proc the percentage of the last 10 seconds in which some task waited for "cpu", "memory" or "io", and the
   mean number of tasks in the last minute. -1 if unknown. Only EITP_ERROR_MEMORY is an error. */
EITP__PRIVATE eitp_status eitp__read_pressure_percent(const eitp_host *host, const char *resource, double *percent,
                                                      eitp_error *error);
EITP__PRIVATE eitp_status eitp__read_load(const eitp_host *host, double *load, eitp_error *error);

#endif
