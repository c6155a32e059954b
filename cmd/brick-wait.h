/* SPDX-License-Identifier: Apache-2.0 */
/* Until a brick that was put in place of another is in service. */
#ifndef STRATUS_BRICK_WAIT_H
#define STRATUS_BRICK_WAIT_H
struct problem;
struct process;
/* `brick`: SERVER:/DIRECTORY, in a replica set that this stratusd coordinates. Waits until the set's coordinator hears from it and nothing of
 * the volume is left to be served, two minutes at most; says on stderr what it waits for. -ETIMEDOUT */
int brick_wait(const struct process *keeper, const char *program, const char *volume, const char *brick, struct problem *);
#endif
