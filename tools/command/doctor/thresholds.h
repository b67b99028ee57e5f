/*
 * The figures by which the doctor judges. A rule that cries for nothing is worse than one that misses: so each figure
 * is far from what runs without trouble have, and shares of time also need an amount of time.
 */
#ifndef COMMAND_DOCTOR_THRESHOLDS_H
#define COMMAND_DOCTOR_THRESHOLDS_H

/* ---- Time ---- */

/* Less than this is lost time that nobody notices, and shares of so short a time are noise. */
#define DOCTOR_LEAST_SECONDS 0.5

/* What depends on other programs is judged by runs that took longer: a minute is the time in which a neighbour is more
   than a compiler that ran for a moment, and the guard takes as long to report a load. */
#define DOCTOR_LONG_SECONDS 60.0

/* Share of the steps' time for reading samples. Packed data take below 1 %, and below 10 % even where a step takes a
   millisecond; at 20 % a worker that reads ahead makes steps a quarter faster. */
#define DOCTOR_DATA_SHARE 0.2

/* Share of the steps' time for moving weights between memory and a file: offloading costs more than it should. */
#define DOCTOR_TRANSFER_SHARE 0.2

/* Share of all time for evaluations: more than training has. Short runs often evaluate a quarter of their time. */
#define DOCTOR_EVALUATION_SHARE 0.5

/* Share of all time for checkpoints that the training waited for. */
#define DOCTOR_SAVE_SHARE 0.2

/* Evaluations or saves that are often: a short run has one or two of them, however long they take. */
#define DOCTOR_OFTEN 10

/* Bytes per second below which a disk is slow, where a hard disk writes a hundred million; and the bytes of a
   checkpoint from which this shows, since each save also waits for some syncs of a few milliseconds. */
#define DOCTOR_DISK_RATE 20e6
#define DOCTOR_DISK_BYTES 10e6

/* Share of all time that training paused because of heat. */
#define DOCTOR_PAUSE_SHARE 0.05

/* Page faults that a disk answers, for each second. Each takes 0.1 ms of a solid-state disk and 10 ms of another one:
   this is 5 % of the time at the least. Reading a model at the start causes some thousands in all. */
#define DOCTOR_FAULT_RATE 500.0

/* The frequency of the later half of a run, relative to that of the first. Processors lower it by 10 to 20 % from a
   single busy core to all of them, which begins before the first record. */
#define DOCTOR_FREQUENCY_FALL 0.75
#define DOCTOR_FREQUENCY_POINTS 4

/* Percent of the processors' time that a hypervisor gave to others; a few are usual. */
#define DOCTOR_STEAL_PERCENT 10.0

/* Involuntary switches per second and thread. A thread that computes alone on its processor has below 10; one that
   shares it has one for each time slice of 3 to 10 ms. */
#define DOCTOR_SWITCH_RATE 50.0

/* Processor time that the threads got while the run computed, as a part of that time. Below it, if they were also
   switched off more often than they waited, others had the processors; threads of a small model wait for each other
   instead. */
#define DOCTOR_PROCESSOR_SHARE 0.5

/* How much longer a step takes at the end than at the beginning, by a jump or a trend with p below 0.001. As for the
   alarm, which looks at the latest half, but of all steps, so more. */
#define DOCTOR_RISE 1.2
#define DOCTOR_TREND_P 0.001

/* Rows of a pass below which products read more weights than they compute with: each weight of 4 bytes has 2 operations
   a row, and processors compute some 20 operations in the time of a byte. With so few rows the share of the peak
   is below this, while passes of thousands of rows reach 50 to 80 %. Smaller models stay in the processor's cache, and
   their steps take no time that anyone waits for. */
#define DOCTOR_FEW_ROWS 64.0
#define DOCTOR_LOW_MFU 10.0
#define DOCTOR_LARGE_MODEL 1e6

/* Steps between two that are profiled, or recorded in full, below which this is most of what the run does. */
#define DOCTOR_FINE_STEPS 5.0

/* ---- Learning ---- */

/* Steps, and losses at an end, that are enough to judge. */
#define DOCTOR_LEAST_STEPS 20
#define DOCTOR_ENDS_POINTS 10

/* How far the weights have moved, relative to their size at the start: the sum of all updates' norms. Training from
   random weights moves them by 0.3 or more and fine-tuning by some percent; below this nothing can be learned. */
#define DOCTOR_MOVED_LITTLE 0.01

/* Below this the weights are what they were: one step of fine-tuning at the lowest usual rate, 1e-6, moves them so far.
   And above the second, random ones have moved so far that a model has learned something, if there is anything. */
#define DOCTOR_MOVED_NOTHING 1e-5
#define DOCTOR_MOVED_FAR 0.1

/* How many times their size at the start the weights have. Training from random weights doubles them at the most. */
#define DOCTOR_GROWN 3.0

/* Part of the first loss that it must have fallen by to have learned anything. */
#define DOCTOR_FALL 0.01

/* A trend of the loss with p below this is a fall, and so is a first loss that exceeds the last ones by so many times
   the standard deviation of a step: by chance, one loss of a thousand does. */
#define DOCTOR_FALL_P 0.01
#define DOCTOR_CLEAR_NOISE 3.0

/* A loss is no better than that of frequencies alone if it is above this part of it. */
#define DOCTOR_BASE 0.98

/* A loss this much above the first one has risen, beyond noise. */
#define DOCTOR_RISEN 1.1

/* Epochs after which a classifier that has learned nothing will not; fine-tuning takes 2 to 4 in all. */
#define DOCTOR_EPOCHS 3.0

/* A training loss that is below this part of the frequencies' has been learned by heart if the validation has not. */
#define DOCTOR_MEMORISED 0.7

/* Parts of the samples: with the same text as others and another label, repeated, and of the most frequent label. */
#define DOCTOR_AMBIGUOUS_SHARE 0.1
#define DOCTOR_REPEATED_SHARE 0.2
#define DOCTOR_MAJORITY_SHARE 0.95

/* Tokens for each byte above which a tokenizer does not fit its text. One of thousands of tokens that was trained on
   such text makes 0.2 to 0.4, one of some hundred 0.6; bytes make 1. */
#define DOCTOR_TOKENS_PER_BYTE 0.75
#define DOCTOR_BYTE_VOCABULARY 300.0

/* Percent of the tokens that are unknown words. WordPiece knows the letters of its language: usually less than 1 %. */
#define DOCTOR_UNKNOWN_PERCENT 5.0

/* Nats of single tokens below which most are the same one, such as [UNK]. Text has 5 to 8, and bytes have 3. */
#define DOCTOR_LEAST_ENTROPY 1.0

/* Percent of the steps that were not applied. */
#define DOCTOR_SKIPPED_PERCENT 5.0

/* Part of the steps that were spikes: the loss jumps again and again. */
#define DOCTOR_SPIKE_SHARE 0.02

/* Part of the planned steps that is warm-up; guides say 3 to 10 %. */
#define DOCTOR_WARMUP_SHARE 0.5

#endif
