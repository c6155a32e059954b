/* SPDX-License-Identifier: Apache-2.0 */
/* Removes directories with all that is in them. */
#ifndef STRATUS_TREE_H
#define STRATUS_TREE_H
/* What is in it begins so while it is removed, and after a crash. */
#define TREE_REMOVED "removed-"
/* `name`, in the directory that `top` is a descriptor of; of any depth. That it is not there is fine. -EXDEV: something is mounted there; -errno. */
int tree_remove(int top, const char *name);
#endif
