/*
 * Thresholds of the doctor's rules. A false alarm is worse than a miss, so each threshold is far from the values of
 * good runs, and shares of time also require a minimum time.
 */
#ifndef COMMAND_DOCTOR_THRESHOLDS_H
#define COMMAND_DOCTOR_THRESHOLDS_H

/* ---- Time ---- */

/* A shorter loss of time goes unnoticed, and shares of so short a time are noise. */
#define DOCTOR_LEAST_SECONDS 0.5

/* Rules about other programs need a longer run: after a minute a neighbour is more than a short compilation, and the
   guard also takes that long to report a load. */
#define DOCTOR_LONG_SECONDS 60.0

/* Share of step time spent on reading samples. Packed data takes less than 1 %, or 10 % if a step takes a millisecond;
   at 20 % a worker that reads ahead makes steps a quarter faster. */
#define DOCTOR_DATA_SHARE 0.2

/* Share of step time spent on moving weights between memory and a file: above it, offloading costs too much. */
#define DOCTOR_TRANSFER_SHARE 0.2

/* Share of all time spent on evaluations: above it, more than on training. Short runs often spend a quarter. */
#define DOCTOR_EVALUATION_SHARE 0.5

/* Share of all time that training waited for checkpoints. */
#define DOCTOR_SAVE_SHARE 0.2

/* Number of evaluations or saves that counts as often: a short run has one or two, regardless of their duration. */
#define DOCTOR_OFTEN 10

/* Bytes per second below which a disk is slow; a hard disk writes a hundred million. And the smallest checkpoint that
   shows it, since each save also waits for some syncs of a few milliseconds. */
#define DOCTOR_DISK_RATE 20e6
#define DOCTOR_DISK_BYTES 10e6

/* Share of all time that training was paused because of heat. */
#define DOCTOR_PAUSE_SHARE 0.05

/* Page faults per second that read from a disk. Each takes 0.1 ms on a solid-state disk and 10 ms on a hard disk, so
   this is at least 5 % of the time. Reading a model at the start causes some thousands in total. */
#define DOCTOR_FAULT_RATE 500.0

/* Frequency in the second half of a run relative to the first half. Processors lower it by 10 to 20 % when all cores
   are busy rather than one, which happens before the first record. */
#define DOCTOR_FREQUENCY_FALL 0.75
#define DOCTOR_FREQUENCY_POINTS 4

/* Percent of the processors' time that a hypervisor gave to others; a few are usual. */
#define DOCTOR_STEAL_PERCENT 10.0

/* Involuntary switches per second and thread. A thread alone on its processor has fewer than 10; one that shares it has
   one per time slice of 3 to 10 ms. */
#define DOCTOR_SWITCH_RATE 50.0

/* Share of the computing time in which the threads had a processor. If it is lower and the threads were preempted more
   often than they waited, other programs had the processors. Threads of a small model wait for each other instead. */
#define DOCTOR_PROCESSOR_SHARE 0.5

/* Ratio of the step time at the end to the start, by a jump or a trend with p below 0.001. The alarm uses only the
   latest half of the steps; this uses all of them, so the threshold is higher. */
#define DOCTOR_RISE 1.2
#define DOCTOR_TREND_P 0.001

/* Rows per pass below which matrix products are limited by reading weights: each weight of 4 bytes takes 2 operations
   per row, and processors compute some 20 operations in the time to read a byte. Percent of the peak: below it with so
   few rows, while passes of thousands of rows reach 50 to 80 %. Parameters: smaller models stay in the processor's
   cache, and their steps are too short to matter. */
#define DOCTOR_FEW_ROWS 64.0
#define DOCTOR_LOW_MFU 10.0
#define DOCTOR_LARGE_MODEL 1e6

/* Interval of steps that are profiled or recorded in full, below which this is most of the work. */
#define DOCTOR_FINE_STEPS 5.0

/* ---- Learning ---- */

/* Number of steps, and of losses at each end, that are enough to decide. */
#define DOCTOR_LEAST_STEPS 20
#define DOCTOR_ENDS_POINTS 10

/* Sum of the norms of all updates relative to the initial norm of the weights. Training from random weights moves them
   by 0.3 or more, fine-tuning by a few percent; below this nothing can be learned. */
#define DOCTOR_MOVED_LITTLE 0.01

/* Below the first the weights have not changed: one step of fine-tuning at the lowest usual rate, 1e-6, moves them this
   far. Above the second, random weights have moved far enough to learn something, if there is anything to learn. */
#define DOCTOR_MOVED_NOTHING 1e-5
#define DOCTOR_MOVED_FAR 0.1

/* Norm of the weights relative to their initial norm. Training from random weights at most doubles it. */
#define DOCTOR_GROWN 3.0

/* Fraction of the first loss by which the loss must fall to have learned anything. */
#define DOCTOR_FALL 0.01

/* A trend of the loss with p below the first is a fall. So is a first loss that exceeds the last ones by more standard
   deviations of a step than the second: by chance, one loss in a thousand does. */
#define DOCTOR_FALL_P 0.01
#define DOCTOR_CLEAR_NOISE 3.0

/* A loss above this fraction of the loss of frequencies is no better than frequencies alone. */
#define DOCTOR_BASE 0.98

/* A loss this much above the first one has risen, beyond noise. */
#define DOCTOR_RISEN 1.1

/* Epochs after which a classifier that has learned nothing never will; fine-tuning takes 2 to 4 in total. */
#define DOCTOR_EPOCHS 3.0

/* A training loss below this fraction of the loss of frequencies means memorized samples if validation is no better. */
#define DOCTOR_MEMORISED 0.7

/* Shares of the samples: with the text of another sample but a different label; repeated; with the most frequent
   label. */
#define DOCTOR_AMBIGUOUS_SHARE 0.1
#define DOCTOR_REPEATED_SHARE 0.2
#define DOCTOR_MAJORITY_SHARE 0.95

/* Tokens per byte above which a tokenizer does not fit its text. With thousands of tokens, trained on such text, it
   needs 0.2 to 0.4, with some hundreds 0.6; bytes need 1. */
#define DOCTOR_TOKENS_PER_BYTE 0.75
#define DOCTOR_BYTE_VOCABULARY 300.0

/* Percent of the tokens that are unknown words. WordPiece knows the letters of its language: usually less than 1 %. */
#define DOCTOR_UNKNOWN_PERCENT 5.0

/* Entropy of single tokens in nats, below which most are the same token, such as [UNK]. Text has 5 to 8, bytes have
   3. */
#define DOCTOR_LEAST_ENTROPY 1.0

/* Percent of the steps that were not applied. */
#define DOCTOR_SKIPPED_PERCENT 5.0

/* Share of steps that were spikes: the loss jumps repeatedly. */
#define DOCTOR_SPIKE_SHARE 0.02

/* Share of the planned steps spent on warm-up; guides say 3 to 10 %. */
#define DOCTOR_WARMUP_SHARE 0.5

#endif
