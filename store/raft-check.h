/* SPDX-License-Identifier: Apache-2.0 */
/* Is what libraft finds in the directory of its log something that a crash can leave? */
#ifndef STRATUS_RAFT_CHECK_H
#define STRATUS_RAFT_CHECK_H
struct problem;
/* 0: it may be opened, and open segments without a whole entry have been removed. Otherwise the problem names the file and place, and nothing was changed. `directory`: a descriptor of it. */
int raft_check(int directory, struct problem *);
#endif
